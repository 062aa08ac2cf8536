// Measures what a detector's faults show of faces. Cut-outs move over other clips, so that each
// face is known in each frame: it appears suddenly, walks, turns, crosses another one, passes
// behind something, or leaves and comes back. Results are made from the truth, with faults: a face
// is found late, missed at random or in bursts, and its box is a tenth off. A RegionTracker decides
// what is filtered, as in the elements, and the pixels of faces that no region covers are counted.
// Faces that have not been found yet are also counted apart: without a look-ahead, no
// tracker can hide them. "true boxes" compares what the boxes of all faces alone would filter of
// other pixels with what the first mode filters. leaks.sh fetches the material.
//
//   leaks [OPTION VALUE]... --clip PATTERN... --cutout FILE[,X,Y,WIDTH,HEIGHT]...
//
//   --clips N         how many clips are composed (48)
//   --seed N          of the paths and of the faults (1)
//   --look-ahead MS   of the last two columns (500)
//   --hold MS         of all columns (500)
//   --way N           of all clips, in the order above from 0 on (each in turn)
//   --save FOLDER     writes every tenth frame of the first six clips, with the regions of the last
//                     column, for the fault of which --fault gives the number (8)
//
// PATTERN names the frames of a clip, such as frames/%03d.png from 001 on. A cut-out is a picture
// with an alpha, or the ellipse in a rectangle of a picture. A face is what its alpha covers by
// more than a half. A clip has 10 seconds of 25 frames each and two faces of a twelfth to two
// ninths of the frame's height, which move by up to a tenth of their size per frame. Regions grow
// by 0.3.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <random>
#include <string>
#include <vector>

#include "filters/motion.h"
#include "filters/region_motion.h"
#include "filters/region_tracker.h"

namespace {

void check(const vf::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message());
  std::exit(1);
}

constexpr int kFrames = 250, kFaces = 2;
// The last second is not counted: faces may appear there that no result tells of.
constexpr size_t kCounted = kFrames - 25;
constexpr int64_t kMs = 1000000, kFrame = 40 * kMs;
constexpr double kExpand = 0.3;
constexpr int kStep = 2;  // one sample in so many pixels and rows is counted

using Random = std::mt19937_64;

double between(Random& random, double least, double most) {
  return std::uniform_real_distribution<double>(least, most)(random);
}

// Where a cut-out is, in pixels, and how it is turned.
struct Pose {
  bool there = false;
  double x = 0, y = 0, size = 0;  // its centre, and the root of its box's area
  double angle = 0;               // radians
  double across = 1;              // its width is this share, and mirrored if that is negative
};
using Path = std::vector<Pose>;

enum class Way { appears, walks, turns, crosses, behind, comes_back };
constexpr int kWays = 6;

// Makes the path of a face. `other` is the path of the face before it in this clip, or null.
Path make_path(Random& random, Way way, cv::Size frame, const Path* other) {
  const double size = frame.height * between(random, 1 / 12.0, 2 / 9.0);
  const double speed = between(random, 0.01, 0.1) * size;
  const double step = between(random, 8, 14), bob = between(random, 0, 0.04) * size;
  const double turning = between(random, 0.01, 0.05);  // turn of the head per frame
  const bool from_left = other ? (*other)[0].x > 0 : between(random, 0, 1) < 0.5;
  int first = int(between(random, 10, 60)), last = kFrames;
  double angle = between(random, -0.3, 0.3), x, y = between(random, 0.25, 0.75) * frame.height;
  if (way == Way::appears) {
    x = between(random, 0.1, 0.9) * frame.width;
    last = int(between(random, 150, 300));
    angle = between(random, 0, 2 * M_PI);
  } else {
    x = from_left ? -size : frame.width + size;
    if (!from_left) angle += M_PI;
  }
  if (way == Way::crosses && other) {
    // Both are at the same place when the other one is in the middle.
    int meets = 0;
    while (meets < kFrames - 1 && std::abs((*other)[size_t(meets)].x - frame.width / 2.0) > 20)
      meets++;
    const Pose& p = (*other)[size_t(meets)];
    first = std::max(0, meets - int(std::abs(p.x - x) / (std::abs(std::cos(angle)) * speed)));
    y = p.y - std::sin(angle) * speed * (meets - first);
  }
  int away = 0;  // frames until it comes back
  Path path(kFrames);
  path[0].x = from_left ? 1 : -1;
  for (int t = 0; t < kFrames; t++) {
    if (t < first || t >= last) continue;
    Pose& p = path[size_t(t)];
    p = {true, x, y + bob * std::sin(2 * M_PI * t / step), size, 0, 1};
    if (way == Way::turns) {
      p.angle = 0.4 * std::sin(turning * 3 * t);
      // A head that turns round is seen from its side in between.
      const double c = std::cos(turning * 2 * t);
      p.across = std::copysign(std::max(std::abs(c), 0.5), c);
      angle += between(random, -0.25, 0.25);
    }
    if (away > 0 && --away > 0) continue;
    x += std::cos(angle) * speed;
    y += std::sin(angle) * speed;
    const bool in_x = x > 0 && x<frame.width, in_y = y> 0 && y < frame.height;
    if (way == Way::comes_back && t > first + 10 &&
        std::abs(x - frame.width / 2.0) > frame.width / 2.0 + size * 0.8 && away == 0) {
      away = int(between(random, 5, 50));
      angle = M_PI - angle;
    } else if (way == Way::comes_back && in_x && (t - first) % 80 == 79) {
      angle += M_PI;
    } else if ((way == Way::turns || way == Way::appears) && !in_x) {
      angle = x > 0 ? M_PI - between(random, -0.5, 0.5) : between(random, -0.5, 0.5);
    }
    if (!in_y && (y > 0) == (std::sin(angle) > 0)) angle = -angle;
  }
  return path;
}

struct Cutout {
  cv::Mat luma, alpha;  // floats; luma from 0 to 255 is multiplied by alpha, from 0 to 1
};

Cutout load_cutout(const std::string& text) {
  const std::string file = text.substr(0, text.find(','));
  cv::Mat picture = cv::imread(file, cv::IMREAD_UNCHANGED), alpha;
  cv::Rect part;
  const bool ellipse = std::sscanf(text.c_str() + file.size(), ",%d,%d,%d,%d", &part.x, &part.y,
                                   &part.width, &part.height) == 4;
  if (picture.empty() || (!ellipse && picture.channels() != 4)) {
    std::fprintf(stderr, "%s is no picture with an alpha\n", file.c_str());
    std::exit(1);
  }
  if (ellipse) {
    picture = picture(part);
    alpha = cv::Mat::zeros(picture.size(), CV_8U);
    cv::ellipse(alpha,
                cv::RotatedRect({part.width / 2.f, part.height / 2.f}, cv::Size2f(part.size()), 0),
                255, cv::FILLED, cv::LINE_AA);
  } else {
    cv::extractChannel(picture, alpha, 3);
    part = cv::boundingRect(alpha > 127);
    picture = picture(part), alpha = alpha(part);
  }
  // A cut-out is never shown larger.
  const double shrink = std::min(1.0, 256 / std::sqrt(double(part.area())));
  cv::Mat luma;
  cv::cvtColor(picture, luma, picture.channels() == 4 ? cv::COLOR_BGRA2GRAY : cv::COLOR_BGR2GRAY);
  Cutout c;
  luma.convertTo(luma, CV_32F);
  alpha.convertTo(alpha, CV_32F, 1 / 255.0);
  cv::resize(luma.mul(alpha), c.luma, {}, shrink, shrink, cv::INTER_AREA);
  cv::resize(alpha, c.alpha, {}, shrink, shrink, cv::INTER_AREA);
  return c;
}

std::vector<cv::Mat> load_clip(const std::string& pattern) {
  std::vector<cv::Mat> frames;
  for (int i = 1; i <= kFrames; i++) {
    const std::string name = cv::format(pattern.c_str(), i);
    const cv::Mat frame =
        cv::haveImageReader(name) ? cv::imread(name, cv::IMREAD_GRAYSCALE) : cv::Mat();
    if (frame.empty()) break;
    frames.push_back(frame);
  }
  if (frames.empty()) {
    std::fprintf(stderr, "%s has no frames\n", pattern.c_str());
    std::exit(1);
  }
  return frames;
}

// Describes a face in a frame. A sample stands for kStep x kStep pixels.
struct Truth {
  cv::Rect box;           // the part that lies in the frame
  int all = 0, seen = 0;  // samples of it that lie in the frame or outside, and that are seen
  cv::Rect at;            // place of `samples` in a picture of samples
  cv::Mat samples;        // the samples that are seen
};

// A composed clip.
struct Clip {
  cv::Size size, samples;
  std::vector<cv::Mat> pictures;  // only those that are saved
  std::vector<std::vector<Truth>> truth;
  std::vector<std::vector<vf::MotionVector>> fields;  // since the frame before
};

// Draws a cut-out into `frame`, and its number into `labels`.
Truth draw(const Cutout& c, const Pose& pose, int number, cv::Mat* frame, cv::Mat* labels) {
  Truth truth;
  if (!pose.there) return truth;
  const double scale = pose.size / std::sqrt(double(c.luma.total()));
  const double cos = std::cos(pose.angle) * scale, sin = std::sin(pose.angle) * scale;
  const int reach = int(pose.size * 1.6) + 2;
  const cv::Rect all(int(pose.x) - reach, int(pose.y) - reach, 2 * reach, 2 * reach);
  const double cx = c.luma.cols / 2.0, cy = c.luma.rows / 2.0;
  const double a = cos * pose.across, b = -sin, d = sin * pose.across, e = cos;
  const cv::Mat move = (cv::Mat_<double>(2, 3) << a, b, pose.x - all.x - a * cx - b * cy, d, e,
                        pose.y - all.y - d * cx - e * cy);
  cv::Mat luma, alpha;
  cv::warpAffine(c.luma, luma, move, all.size(), cv::INTER_AREA);
  cv::warpAffine(c.alpha, alpha, move, all.size(), cv::INTER_AREA);
  const cv::Mat inside = alpha > 0.5f;
  cv::Rect box = cv::boundingRect(inside);
  box.x += all.x, box.y += all.y;
  const cv::Rect whole({0, 0}, frame->size());
  truth.box = box & whole;
  truth.all = cv::countNonZero(inside) / (kStep * kStep);
  const cv::Rect part = all & whole;
  for (int y = part.y; y < part.y + part.height; y++)
    for (int x = part.x; x < part.x + part.width; x++) {
      const float share = alpha.at<float>(y - all.y, x - all.x);
      uint8_t& p = frame->at<uint8_t>(y, x);
      p = uint8_t(std::clamp(p * (1 - share) + luma.at<float>(y - all.y, x - all.x), 0.f, 255.f));
      if (share > 0.5f && x % kStep == 0 && y % kStep == 0)
        labels->at<uint8_t>(y / kStep, x / kStep) = uint8_t(number);
    }
  return truth;
}

Clip compose(Random& random, Way way, const std::vector<cv::Mat>& background,
             const std::vector<Cutout>& cutouts, bool keep, vf::Queue& queue) {
  Clip clip;
  clip.size = background[0].size();
  clip.samples =
      cv::Size((clip.size.width + kStep - 1) / kStep, (clip.size.height + kStep - 1) / kStep);
  std::vector<Path> paths;
  std::vector<const Cutout*> faces;
  const auto any = [&](size_t n) { return size_t(between(random, 0, double(n) - 1e-9)); };
  for (int i = 0; i < kFaces; i++) {
    paths.push_back(make_path(random, way, clip.size, paths.empty() ? nullptr : &paths[0]));
    faces.push_back(&cutouts[any(cutouts.size())]);
  }
  // Something stands in the way.
  const Cutout& thing = cutouts[any(cutouts.size())];
  Pose stands;
  for (const Pose& p : paths[0])
    if (way == Way::behind && p.there && !stands.there &&
        std::abs(p.x - clip.size.width / 2.0) < clip.size.width / 4.0)
      stands = p, stands.there = true, stands.size = p.size * between(random, 1.2, 2.5);
  vf::MotionParams params;
  params.width = clip.size.width, params.height = clip.size.height;
  std::unique_ptr<vf::MotionPlan> plan;
  check(vf::make_motion(queue, params, &plan));
  const int columns = vf::motion_blocks(params.width), rows = vf::motion_blocks(params.height);
  const int start = int(any(background.size())), count = int(background.size());
  cv::Mat noise(2 * clip.size.height, 2 * clip.size.width, CV_16S);
  cv::RNG(random()).fill(noise, cv::RNG::NORMAL, 0, 2);
  for (int t = 0; t < kFrames; t++) {
    // The clip goes to and fro.
    const int at = count > 1 ? (start + t) % (2 * count - 2) : 0;
    cv::Mat frame = background[size_t(at < count ? at : 2 * count - 2 - at)].clone();
    cv::Mat labels = cv::Mat::zeros(clip.samples, CV_8U);
    std::vector<Truth> truth;
    for (size_t i = 0; i < kFaces; i++)
      truth.push_back(draw(*faces[i], paths[i][size_t(t)], int(i) + 1, &frame, &labels));
    draw(thing, stands, 0, &frame, &labels);
    for (size_t i = 0; i < kFaces; i++) {
      const cv::Mat mine = labels == int(i) + 1;
      truth[i].at = cv::boundingRect(mine);
      truth[i].samples = mine(truth[i].at).clone();
      truth[i].seen = cv::countNonZero(mine);
    }
    const cv::Point shift(int(any(size_t(clip.size.width))), int(any(size_t(clip.size.height))));
    cv::add(frame, noise(cv::Rect(shift, clip.size)), frame, cv::noArray(), CV_8U);
    clip.fields.emplace_back(size_t(columns) * rows);
    vf::MotionPicture picture;
    picture.data[0] = frame.data;
    picture.stride[0] = ptrdiff_t(frame.step);
    check(plan->read(t % 2, &picture, 1));
    if (t > 0)
      check(plan->find(t % 2, (t + 1) % 2, clip.fields.back().data(),
                       columns * ptrdiff_t(sizeof(vf::MotionVector))));
    clip.truth.push_back(truth);
    if (keep) clip.pictures.push_back(frame);
  }
  return clip;
}

// Is the motion between two frames of a clip.
class ClipMotion final : public vf::BoxMotion {
 public:
  ClipMotion(const Clip& clip, int frame) : clip_(clip), frame_(frame) {}
  bool in(const vf::RegionBox& box, double* x, double* y) const override {
    return vf::motion_in(clip_.fields[size_t(frame_)].data(), clip_.size.width, clip_.size.height,
                         box, x, y);
  }
  int64_t from() const override { return to() - kFrame; }
  int64_t to() const override { return (frame_ + 1) * kFrame; }

 private:
  const Clip& clip_;
  const int frame_;
};

struct Faults {
  const char* name;
  int late;       // frames without a result after a face appears
  double missed;  // share of results that are missing
  int burst;      // length in frames of bursts without results; there is one in 60 frames
};

// Returns the detector's result for each frame. A tenth of a face must be seen.
std::vector<std::vector<vf::Detection>> detect(Random& random, const Clip& clip,
                                               const Faults& faults, bool with_ids) {
  std::vector<std::vector<vf::Detection>> results(kFrames);
  for (size_t i = 0; i < kFaces; i++) {
    int since = 0, next_burst = 30;
    for (int t = 0; t < kFrames; t++) {
      const Truth& truth = clip.truth[size_t(t)][i];
      const bool seen = truth.seen * 10 > truth.all;
      since = seen ? since + 1 : 0;
      bool found = since > faults.late && between(random, 0, 1) >= faults.missed;
      if (faults.burst && since > 1 && t >= next_burst && t < next_burst + faults.burst)
        found = false;
      if (t >= next_burst + faults.burst) next_burst = t + int(between(random, 30, 50));
      const cv::Rect& b = truth.box;
      double off[4];
      for (double& o : off) o = between(random, -0.1, 0.1);
      const double width = b.width * (1 + off[0]), height = b.height * (1 + off[1]);
      // A tracker gives a face another id now and then.
      const int64_t id = int64_t(i) + 10 * int64_t(t / 100);
      if (found)
        results[size_t(t)].push_back(
            {with_ids ? id : vf::Detection::kNoId,
             vf::make_box(b.x + b.width / 2.0 - width / 2 + off[2] * b.width,
                          b.y + b.height / 2.0 - height / 2 + off[3] * b.height, width, height),
             {},
             true});
    }
  }
  return results;
}

struct Counts {
  double face = 0, clear = 0;    // samples of faces, and those that no region covers
  double early = 0;              // shown samples of faces before their first result
  double other = 0, hidden = 0;  // samples of no face, and those that are filtered
  int faces = 0, shown = 0;      // faces in frames, and those of which more than a tenth is clear
};

// Returns a mask of the samples that are filtered.
cv::Mat filtered(const Clip& clip, const std::vector<vf::RegionBox>& boxes) {
  std::vector<vf::Region> regions;
  vf::RegionParams params;
  params.expand = kExpand;
  vf::prepare_regions(params, vf::RegionPixelate(), vf::Type::u8, clip.size.width, clip.size.height,
                      boxes.data(), boxes.size(), &regions);
  cv::Mat mask = cv::Mat::zeros(clip.samples, CV_8U);
  const auto up = [](double pixel) { return int(std::ceil(pixel / kStep)); };
  for (const vf::Region& r : regions) {
    const cv::Rect part(up(r.x0), up(r.y0), up(r.x1) - up(r.x0), up(r.y1) - up(r.y0));
    mask(part & cv::Rect({0, 0}, mask.size())).setTo(255);
  }
  return mask;
}

// `known` says which of the faces have been found in this frame or before.
void count(const Clip& clip, size_t t, const std::vector<bool>& known, const cv::Mat& mask,
           Counts* sum) {
  int faces = 0, covered = 0;
  for (size_t i = 0; i < kFaces; i++) {
    const Truth& f = clip.truth[t][i];
    if (!f.seen) continue;
    const int clear = cv::countNonZero(f.samples > mask(f.at));
    faces += f.seen;
    covered += f.seen - clear;
    sum->clear += clear;
    if (!known[i]) sum->early += clear;
    sum->faces++;
    sum->shown += clear * 10 > f.all;
  }
  sum->face += faces;
  sum->other += clip.samples.area() - faces;
  sum->hidden += cv::countNonZero(mask) - covered;
}

// Describes the settings of a tracker.
struct Mode {
  const char* name;
  int64_t look_ahead;
  bool interpolate, follow;
};

void run(const Clip& clip, const std::vector<std::vector<vf::Detection>>& results, const Mode& mode,
         int64_t hold, const std::string& save, Counts* sum) {
  const vf::RegionTracker::Settings settings = {
      hold * kMs, vf::OnMissing::pass, mode.look_ahead * kMs, mode.interpolate,
      kExpand,    clip.size.width,     clip.size.height,      mode.follow};
  vf::RegionTracker tracker;
  size_t left = 0;
  int measured = 0;  // number of frames before this one without a gap
  std::vector<bool> known(kFaces);
  int64_t unseen[kFaces] = {};
  const auto leave = [&] {
    tracker.leave(settings);
    // A face that was away for longer than it is held is a new one.
    for (size_t i = 0; i < kFaces; i++) {
      unseen[i] = clip.truth[left][i].seen ? 0 : unseen[i] + kFrame;
      if (unseen[i] > hold * kMs) known[i] = false;
    }
    // A box that covers the middle of a face tells of it.
    for (const vf::Detection& d : results[left])
      for (size_t i = 0; i < kFaces; i++) {
        const cv::Rect& b = clip.truth[left][i].box;
        const double x = b.x + b.width / 2.0, y = b.y + b.height / 2.0;
        if (x > d.box.x && x < d.box.x + d.box.width && y > d.box.y && y < d.box.y + d.box.height)
          known[i] = true;
      }
    if (tracker.can_follow()) {
      // The motion of the frame before moves the boxes of this one, as in the elements.
      const ClipMotion motion(clip, int(left) - 1);
      tracker.follow(measured > 1 ? &motion : nullptr, settings);
      measured++;
    } else {
      measured = 0;
    }
    const cv::Mat mask = filtered(clip, tracker.boxes());
    if (left < kCounted) count(clip, left, known, mask, sum);
    if (!save.empty() && left % 10 == 0) {
      cv::Mat large, picture = clip.pictures[left].clone();
      cv::resize(mask, large, picture.size(), 0, 0, cv::INTER_NEAREST);
      cv::Mat(picture / 3).copyTo(picture, large);
      cv::imwrite(cv::format("%s-%03d.png", save.c_str(), int(left)), picture);
    }
    left++;
  };
  for (size_t t = 0; t < kFrames; t++) {
    tracker.arrive(kFrame, &results[t], settings);
    while (int64_t(left) * kFrame + settings.look_ahead <= int64_t(t) * kFrame) leave();
  }
  while (left < kFrames) leave();
}

}  // namespace

int main(int argc, char** argv) {
  int clips = 48, way = -1, saved_fault = 8;
  uint64_t seed = 1;
  int64_t look_ahead = 500, hold = 500;
  std::string save;
  std::vector<std::vector<cv::Mat>> backgrounds;
  std::vector<Cutout> cutouts;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const long value = atol(argv[i + 1]);
    if (name == "--clips") clips = int(value);
    if (name == "--seed") seed = uint64_t(value);
    if (name == "--way") way = int(value);
    if (name == "--look-ahead") look_ahead = value;
    if (name == "--hold") hold = value;
    if (name == "--save") save = argv[i + 1];
    if (name == "--fault") saved_fault = int(value);
    if (name == "--clip") backgrounds.push_back(load_clip(argv[i + 1]));
    if (name == "--cutout") cutouts.push_back(load_cutout(argv[i + 1]));
  }
  if (backgrounds.empty() || cutouts.empty()) {
    std::fprintf(stderr, "there must be a --clip and a --cutout\n");
    return 1;
  }
  const Faults all[] = {{"none", 0, 0, 0},
                        {"5 % missed", 0, .05, 0},
                        {"30 % missed", 0, .3, 0},
                        {"bursts of 10", 0, 0, 10},
                        {"bursts of 20", 0, 0, 20},
                        {"5 frames late", 5, 0, 0},
                        {"10 frames late", 10, 0, 0},
                        {"15 frames late", 15, 0, 0},
                        {"10 late, 30 % missed, bursts", 10, .3, 20}};
  constexpr size_t kFaults = sizeof all / sizeof *all;
  const Mode modes[] = {{"held", 0, false, false},
                        {"held, followed", 0, true, true},
                        {"look-ahead", look_ahead, true, false},
                        {"look-ahead, followed", look_ahead, true, true}};
  constexpr size_t kModes = sizeof modes / sizeof *modes;
  std::unique_ptr<vf::Queue> queue;
  vf::QueueOptions on_cpu;
  on_cpu.threads = 1;
  check(vf::make_queue(on_cpu, &queue));
  Counts counts[kFaults][2][kModes];
  double ideal = 0, other = 0;
  for (int n = 0; n < clips; n++) {
    Random random(seed * 1000003 + uint64_t(n));
    const auto& background = backgrounds[size_t(n / kWays) % backgrounds.size()];
    const bool keep = !save.empty() && n < kWays;
    const Clip clip =
        compose(random, Way(way < 0 ? n % kWays : way), background, cutouts, keep, *queue);
    random.seed(seed * 77 + uint64_t(n));
    for (size_t f = 0; f < kFaults; f++)
      for (size_t ids = 0; ids < 2; ids++) {
        const auto results = detect(random, clip, all[f], ids);
        for (size_t m = 0; m < kModes; m++) {
          const bool saves = keep && int(f) == saved_fault && m + 1 == kModes && !ids;
          run(clip, results, modes[m], hold, saves ? save + "/" + char('a' + n) : "",
              &counts[f][ids][m]);
        }
      }
    // A tracker that knows all faces filters these.
    for (size_t t = 0; t < kCounted; t++) {
      std::vector<vf::RegionBox> boxes;
      for (const Truth& truth : clip.truth[t])
        if (truth.seen)
          boxes.push_back(
              vf::make_box(truth.box.x, truth.box.y, truth.box.width, truth.box.height));
      Counts c;
      count(clip, t, {true, true}, filtered(clip, boxes), &c);
      ideal += c.hidden, other += c.other;
    }
  }
  std::printf(
      "hold-ms=%d look-ahead-ms=%d, %d clips; boxes of all faces would filter %.2f %% of "
      "the others\n",
      int(hold), int(look_ahead), clips, 100 * ideal / other);
  std::printf("%-29s %3s %-21s %8s %15s %15s %20s %11s\n", "faults", "ids", "mode", "clear %",
              "before result %", "shown by 1/10", "others filtered", "true boxes");
  for (size_t f = 0; f < kFaults; f++)
    for (size_t ids = 0; ids < 2; ids++)
      for (size_t m = 0; m < kModes; m++) {
        const Counts& c = counts[f][ids][m];
        const double face = std::max(c.face, 1.0);
        const double today = std::max(counts[f][ids][0].hidden, 1.0);
        std::printf("%-29s %3s %-21s %8.3f %15.3f %6d of %5d %7.2f %% (%+5.1f %%) %+9.1f %%\n",
                    all[f].name, ids ? "yes" : "no", modes[m].name, 100 * c.clear / face,
                    100 * c.early / face, c.shown, c.faces, 100 * c.hidden / std::max(c.other, 1.0),
                    100 * (c.hidden / today - 1), 100 * (ideal / today - 1));
      }
}
