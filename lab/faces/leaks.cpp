// Measures what a detector's faults show of faces. Paths of faces are made up, so that each face is
// known in each frame. Results are made from them, with faults: a face is found late, missed at
// random or in bursts, and its box is a tenth off. A RegionTracker decides what is filtered, as in
// the elements, and the pixels of faces that no region covers are counted. Those of faces that have
// not been found yet are also counted apart: without a look-ahead, no tracker can hide them.
//
//   leaks [--clips N] [--seed N] [--look-ahead MS] [--hold MS] [--interpolate 0|1] [--follow 0|1]
//
// Held regions follow the motion of pictures, which are drawn in frames where a region is held: each
// face has a texture of its own and moves over a background that stands still.
//
// A face is the ellipse in its box. Frames are 1280x720, 25 a second, with two faces of 60 to 160
// pixels that move by up to a tenth of their width per frame. Regions grow by 0.3.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "filters/region_motion.h"
#include "filters/region_tracker.h"

namespace {

void check(const vf::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message());
  std::exit(1);
}

constexpr int kWidth = 1280, kHeight = 720, kFrames = 250, kFaces = 2;
constexpr int64_t kMs = 1000000, kFrame = 40 * kMs;
constexpr double kExpand = 0.3;

using Random = std::mt19937_64;

double between(Random& random, double least, double most) {
  return std::uniform_real_distribution<double>(least, most)(random);
}

struct Face {
  double x, y, size;  // its centre and its width and height in pixels
  bool there;
};

// The places of one face in all frames of a clip.
using Path = std::vector<Face>;

enum class Way { walks, turns, comes_back, crosses };

// Makes the path of a face that appears suddenly, moves, and is gone before the end or stays.
Path make_path(Random& random, Way way, const Path* other) {
  const double size = between(random, 60, 160), speed = between(random, 0, 0.1) * size;
  const int first = int(between(random, 20, 80)), last = int(between(random, 180, 300));
  double x = between(random, size, kWidth - size), y = between(random, size, kHeight - size);
  double angle = between(random, 0, 2 * M_PI);
  if (way == Way::crosses && other) {
    // Both are at the same place halfway.
    const Face& meets = (*other)[kFrames / 2];
    x = meets.x - std::cos(angle) * speed * (kFrames / 2 - first);
    y = meets.y - std::sin(angle) * speed * (kFrames / 2 - first);
  }
  Path path(kFrames);
  for (int t = 0; t < kFrames; t++) {
    path[size_t(t)] = {x, y, size, t >= first && t < last};
    if (t < first) continue;
    if (way == Way::turns) angle += between(random, -0.25, 0.25);
    if (way == Way::comes_back && (t - first) % 40 == 39) angle += M_PI;
    x += std::cos(angle) * speed;
    y += std::sin(angle) * speed;
    // A face that comes to the edge turns back there.
    if (way != Way::crosses && (x < 0 || x > kWidth)) angle = M_PI - angle;
    if (way != Way::crosses && (y < 0 || y > kHeight)) angle = -angle;
  }
  return path;
}

struct Faults {
  const char* name;
  int late;       // frames without a result after a face appears
  double missed;  // share of results that are missing
  int burst;      // length in frames of bursts without results; there is one in 60 frames
};

// Whether a detector finds each face in each frame.
std::vector<std::vector<bool>> found_faces(Random& random, const std::vector<Path>& paths,
                                           const Faults& faults) {
  std::vector<std::vector<bool>> found;
  for (const Path& path : paths) {
    std::vector<bool> f(kFrames);
    int since = 0, next_burst = 30;
    for (int t = 0; t < kFrames; t++) {
      since = path[size_t(t)].there ? since + 1 : 0;
      f[size_t(t)] = since > faults.late && between(random, 0, 1) >= faults.missed;
      if (faults.burst && since > 1 && t >= next_burst && t < next_burst + faults.burst)
        f[size_t(t)] = false;
      if (t >= next_burst + faults.burst) next_burst = t + int(between(random, 30, 50));
    }
    found.push_back(f);
  }
  return found;
}

struct Counts {
  double face = 0, clear = 0;    // pixels of faces, and those that no region covers
  double early = 0;              // of them, those of faces before their first result
  double other = 0, hidden = 0;  // pixels of no face, and those that are filtered
  int measured = 0;              // frames whose motion was measured
  int faces = 0, shown = 0;      // faces in frames, and those of which more than a tenth is clear
};

bool in_face(const Face& f, double x, double y) {
  return f.there && std::hypot(x - f.x, y - f.y) <= f.size / 2;
}

// `known` says which of the faces have been found in this frame or before.
void count(const std::vector<Face>& faces, const std::vector<bool>& known,
           const std::vector<vf::RegionBox>& boxes, Counts* sum) {
  std::vector<vf::Region> regions;
  vf::RegionParams params;
  params.expand = kExpand;
  vf::prepare_regions(params, vf::RegionPixelate(), vf::Type::u8, kWidth, kHeight, boxes.data(),
                      boxes.size(), &regions);
  // One sample stands for every fourth pixel of every fourth row. Bit 1: filtered, bit 2: a face.
  constexpr int kStep = 4, kColumns = kWidth / kStep, kRows = kHeight / kStep;
  static char samples[kRows][kColumns];
  std::memset(samples, 0, sizeof samples);
  const auto first = [](double pixel) { return std::max(0, int(std::ceil(pixel / kStep - 0.5))); };
  for (const vf::Region& r : regions)
    for (int y = first(r.y0); y < std::min(first(r.y1), kRows); y++)
      for (int x = first(r.x0); x < std::min(first(r.x1), kColumns); x++) samples[y][x] = 1;
  int face_samples = 0, covered = 0, hidden = 0;
  for (size_t i = 0; i < faces.size(); i++) {
    const Face& f = faces[i];
    const double half = f.size / 2;
    int all = 0, clear = 0;
    for (int y = first(f.y - half); y < std::min(first(f.y + half) + 1, kRows); y++)
      for (int x = first(f.x - half); x < std::min(first(f.x + half) + 1, kColumns); x++) {
        if (!in_face(f, (x + 0.5) * kStep, (y + 0.5) * kStep)) continue;
        all++;
        clear += !(samples[y][x] & 1);
        samples[y][x] |= 2;
      }
    if (!known[i]) sum->early += clear;
    sum->faces += all > 0;
    sum->shown += clear * 10 > all;
  }
  for (const auto& row : samples)
    for (const char s : row) {
      face_samples += s >> 1;
      covered += s == 3;
      hidden += s == 1;
    }
  sum->face += face_samples;
  sum->clear += face_samples - covered;
  sum->other += kRows * kColumns - face_samples;
  sum->hidden += hidden;
}

// Draws the luma of frames.
class Pictures {
 public:
  explicit Pictures(uint64_t seed) {
    Random random(seed);
    for (auto& texture : textures_) {
      texture.assign(size_t(kWidth) * kHeight, 128);
      // Blobs of 64 to 4 pixels, the smaller ones with less contrast.
      for (int cell = 64; cell >= 4; cell /= 2) add_cells(random, cell, &texture);
    }
    layout_ = vf::packed_layout(vf::Type::u8, 1, kWidth, kHeight);
    picture_.resize(textures_[0].size());
    color_.role[0][0] = vf::Role::y;
  }

  const vf::Layout& layout() const { return layout_; }
  const vf::ColorFormat& color() const { return color_; }

  // Each face is drawn over those before it.
  vf::Image draw(const std::vector<Face>& faces) {
    for (size_t i = 0; i < picture_.size(); i++) picture_[i] = uint8_t(textures_[0][i]);
    for (size_t n = 0; n < faces.size(); n++) {
      const Face& f = faces[n];
      const double half = f.size / 2;
      for (int y = std::max(0, int(f.y - half)); y < std::min(kHeight, int(f.y + half) + 1); y++)
        for (int x = std::max(0, int(f.x - half)); x < std::min(kWidth, int(f.x + half) + 1); x++)
          if (in_face(f, x + 0.5, y + 0.5))
            picture_[size_t(y) * kWidth + x] =
                at(textures_[1 + n % kFaces], x - f.x + kWidth / 2, y - f.y + kHeight / 2);
    }
    vf::Image image;
    image.layout = layout_;
    image.data[0] = picture_.data();
    image.stride[0] = kWidth;
    return image;
  }

 private:
  using Texture = std::vector<float>;

  static void add_cells(Random& random, int cell, Texture* texture) {
    const int columns = kWidth / cell + 2;
    std::vector<double> corners(size_t(columns) * (kHeight / cell + 2));
    for (double& c : corners) c = between(random, -12, 12) * (cell >= 16 ? 1.5 : 1);
    for (int y = 0; y < kHeight; y++)
      for (int x = 0; x < kWidth; x++) {
        const double* c = &corners[size_t(y / cell) * columns + x / cell];
        const double u = double(x % cell) / cell, v = double(y % cell) / cell;
        (*texture)[size_t(y) * kWidth + x] +=
            float((c[0] * (1 - u) + c[1] * u) * (1 - v) +
                  (c[columns] * (1 - u) + c[columns + 1] * u) * v);
      }
  }
  // Returns a sample between four pixels, from 0 to 255.
  static uint8_t at(const Texture& texture, double x, double y) {
    const int i = int(x), j = int(y);
    const double u = x - i, v = y - j;
    const float* p = &texture[size_t(j) * kWidth + i];
    const double value =
        (p[0] * (1 - u) + p[1] * u) * (1 - v) + (p[kWidth] * (1 - u) + p[kWidth + 1] * u) * v;
    return uint8_t(std::clamp(value, 0.0, 255.0));
  }

  Texture textures_[1 + kFaces];
  std::vector<uint8_t> picture_;
  vf::Layout layout_;
  vf::ColorFormat color_;
};

struct Options {
  int clips = 200;
  uint64_t seed = 1;
  int64_t look_ahead = 0, hold = 500;
  bool interpolate = true, follow = true;
};

void run_clip(Random& random, const Faults& faults, bool with_ids, const Options& o, int clip,
              vf::Queue& queue, Pictures& pictures, Counts* sum) {
  const Way way = Way(clip % 4);
  std::vector<Path> paths;
  for (int i = 0; i < kFaces; i++)
    paths.push_back(make_path(random, way, paths.empty() ? nullptr : &paths[0]));
  const auto found = found_faces(random, paths, faults);
  const vf::RegionTracker::Settings settings = {o.hold * kMs,
                                                vf::OnMissing::pass,
                                                o.look_ahead * kMs,
                                                o.interpolate,
                                                kExpand,
                                                kWidth,
                                                kHeight,
                                                o.follow};
  vf::RegionTracker tracker;
  vf::RegionMotion motion(queue, pictures.layout(), pictures.color());
  size_t left = 0;
  std::vector<bool> known(paths.size());
  const auto leave = [&] {
    tracker.leave(settings);
    std::vector<Face> faces;
    for (const Path& path : paths) faces.push_back(path[left]);
    for (size_t i = 0; i < paths.size(); i++) known[i] = known[i] || found[i][left];
    if (tracker.can_follow()) {
      // The motion of the frame before moves the boxes of this one, as in the elements.
      tracker.follow(motion.wait() ? &motion : nullptr, settings);
      motion.prepare();
      check(motion.measure(pictures.draw(faces), tracker.time()));
      sum->measured++;
    } else {
      motion.forget();
    }
    count(faces, known, tracker.boxes(), sum);
    left++;
  };
  for (size_t t = 0; t < kFrames; t++) {
    std::vector<vf::Detection> result;
    for (size_t i = 0; i < paths.size(); i++) {
      const Face& f = paths[i][t];
      const auto off = [&] { return between(random, -0.1, 0.1) * f.size; };
      const double width = f.size + off(), height = f.size + off();
      const vf::RegionBox box =
          vf::make_box(f.x - width / 2 + off(), f.y - height / 2 + off(), width, height);
      // A tracker gives a face another id now and then.
      const int64_t id = int64_t(i) + 10 * int64_t(t / 100);
      if (found[i][t]) result.push_back({with_ids ? id : vf::Detection::kNoId, box, {}, true});
    }
    tracker.arrive(kFrame, &result, settings);
    while (int64_t(left) * kFrame + settings.look_ahead <= int64_t(t) * kFrame) leave();
  }
  while (left < kFrames) leave();
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const long value = atol(argv[i + 1]);
    if (name == "--clips") o.clips = int(value);
    if (name == "--seed") o.seed = uint64_t(value);
    if (name == "--look-ahead") o.look_ahead = value;
    if (name == "--hold") o.hold = value;
    if (name == "--follow") o.follow = value;
    if (name == "--interpolate") o.interpolate = value;
  }
  const Faults all[] = {{"none", 0, 0, 0},
                        {"5 % missed", 0, .05, 0},
                        {"30 % missed", 0, .3, 0},
                        {"bursts of 10", 0, 0, 10},
                        {"bursts of 20", 0, 0, 20},
                        {"5 frames late", 5, 0, 0},
                        {"10 frames late", 10, 0, 0},
                        {"10 late, 30 % missed, bursts", 10, .3, 20}};
  std::unique_ptr<vf::Queue> queue;
  vf::QueueOptions on_cpu;
  on_cpu.threads = 1;
  check(vf::make_queue(on_cpu, &queue));
  Pictures pictures(o.seed);
  std::printf("hold-ms=%d look-ahead-ms=%d interpolate=%d hold-follow=%d, %d clips\n", int(o.hold),
              int(o.look_ahead), int(o.interpolate), int(o.follow), o.clips);
  std::printf("%-30s %4s %18s %21s %24s %20s\n", "faults", "ids", "face pixels clear",
              "before their result", "faces shown by a tenth", "others filtered");
  for (const Faults& faults : all)
    for (const bool with_ids : {false, true}) {
      Random random(o.seed);
      Counts sum;
      for (int clip = 0; clip < o.clips; clip++)
        run_clip(random, faults, with_ids, o, clip, *queue, pictures, &sum);
      const double face = std::max(sum.face, 1.0);
      std::printf("%-30s %4s %16.3f %% %19.3f %% %9d of %9d %18.2f %%\n", faults.name,
                  with_ids ? "yes" : "no", 100 * sum.clear / face, 100 * sum.early / face,
                  sum.shown, sum.faces, 100 * sum.hidden / std::max(sum.other, 1.0));
    }
}
