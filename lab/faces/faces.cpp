// Checks that filtered faces cannot be found any more. One facedetect stands in front of an element
// that filters regions, and another one behind it. Real portraits of 40 to 400 pixels move through
// a frame. Also measures what is left of the faces: the contrast by spatial frequency, the number
// of blocks across, and whether unsharp masking brings them back. faces.sh fetches the portraits.
//
//   faces [--all] PROFILE CLIP IMAGE...      PROFILE: the Haar cascade of facedetect
//   faces --clips PROFILE CLIP...
//
// Without --all, it tests three sizes of the face instead of eight. In frames of CLIP, the
// portraits also appear suddenly and move, and results of the first detector are left out: the
// second one must not find a face that the first one found within look-ahead-ms or hold-ms. --clips
// does this with the faces that CLIP has.
#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

int count, failed;

void result(const std::string& name, bool ok, const char* format = "", ...) G_GNUC_PRINTF(3, 4);
void result(const std::string& name, bool ok, const char* format, ...) {
  printf("%sok %d - %s\n", ok ? "" : "not ", ++count, name.c_str());
  failed += !ok;
  va_list args;
  va_start(args, format);
  printf("# ");
  vprintf(format, args);
  printf("\n");
  va_end(args);
  fflush(stdout);
}

struct Picture {
  int width = 0, height = 0;
  std::vector<guint8> rgb;
  const guint8* at(int x, int y) const {
    x = std::clamp(x, 0, width - 1), y = std::clamp(y, 0, height - 1);
    return &rgb[(size_t(y) * width + x) * 3];
  }
  double luma(int x, int y) const {
    const guint8* p = at(x, y);
    return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
  }
};

Picture make_picture(int width, int height) {
  Picture p;
  p.width = width, p.height = height;
  p.rgb.resize(size_t(width) * height * 3);
  return p;
}

struct Rect {
  double x, y, width, height;
};

double overlap(const Rect& a, const Rect& b) {
  const double w = std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x);
  const double h = std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
  if (w <= 0 || h <= 0) return 0;
  return w * h / std::min(a.width * a.height, b.width * b.height);
}

GstVideoInfo info_of(const Picture& p) {
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, p.width, p.height);
  info.fps_n = 25, info.fps_d = 1;
  return info;
}

GstBuffer* buffer_of(const Picture& p) {
  const GstVideoInfo info = info_of(p);
  GstBuffer* buffer = gst_buffer_new_allocate(nullptr, info.size, nullptr);
  GstVideoFrame frame;
  gst_video_frame_map(&frame, &info, buffer, GST_MAP_WRITE);
  for (int y = 0; y < p.height; y++)
    memcpy(static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, 0)) +
               ptrdiff_t(y) * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0),
           p.at(0, y), size_t(p.width) * 3);
  gst_video_frame_unmap(&frame);
  return buffer;
}

Picture picture_of(GstBuffer* buffer, const GstVideoInfo& info) {
  Picture p = make_picture(info.width, info.height);
  GstVideoFrame frame;
  gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ);
  for (int y = 0; y < p.height; y++)
    memcpy(&p.rgb[size_t(y) * p.width * 3],
           static_cast<const guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, 0)) +
               ptrdiff_t(y) * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0),
           size_t(p.width) * 3);
  gst_video_frame_unmap(&frame);
  return p;
}

std::vector<Rect> faces_of(GstBuffer* buffer) {
  std::vector<Rect> faces;
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta_filtered(
             buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)) {
    const auto* roi = reinterpret_cast<GstVideoRegionOfInterestMeta*>(meta);
    if (!strcmp(g_quark_to_string(roi->roi_type), "face"))
      faces.push_back({double(roi->x), double(roi->y), double(roi->w), double(roi->h)});
  }
  return faces;
}

// Holds a chain of elements through which frames are pushed.
class Chain {
 public:
  Chain(const std::string& launch, const Picture& like) : info_(info_of(like)) {
    harness_ = gst_harness_new_parse(launch.c_str());
    GstCaps* caps = gst_video_info_to_caps(&info_);
    gst_harness_set_src_caps(harness_, caps);
  }
  ~Chain() { gst_harness_teardown(harness_); }
  // Returns the frame that comes out, and the faces found on it.
  Picture push(const Picture& p, std::vector<Rect>* faces) {
    GstBuffer* buffer = buffer_of(p);
    GST_BUFFER_PTS(buffer) = frames_++ * 40 * GST_MSECOND;
    GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
    GstBuffer* out = gst_harness_push_and_pull(harness_, buffer);
    if (!out) g_error("nothing came out");
    *faces = faces_of(out);
    const Picture result = picture_of(out, info_);
    gst_buffer_unref(out);
    return result;
  }

 private:
  GstHarness* harness_;
  GstVideoInfo info_;
  guint frames_ = 0;
};

void keep_frame(GstElement*, GstBuffer* buffer, GstPad* pad, gpointer frames) {
  GstCaps* caps = gst_pad_get_current_caps(pad);
  GstVideoInfo info;
  gst_video_info_from_caps(&info, caps);
  gst_caps_unref(caps);
  static_cast<std::vector<Picture>*>(frames)->push_back(picture_of(buffer, info));
}

// Returns the last frame of a file. `frames` (may be null) gets the first `count` ones.
Picture load(const char* file, int count = -1, std::vector<Picture>* frames = nullptr) {
  gchar* launch = g_strdup_printf(
      "filesrc location=\"%s\" ! decodebin ! videoconvert ! video/x-raw,format=RGB ! "
      "identity eos-after=%d ! fakesink name=sink enable-last-sample=true sync=false "
      "signal-handoffs=true",
      file, count);
  GstElement* pipeline = gst_parse_launch(launch, nullptr);
  g_free(launch);
  if (frames) {
    GstElement* shown = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    g_signal_connect(shown, "handoff", G_CALLBACK(keep_frame), frames);
    gst_object_unref(shown);
  }
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstBus* bus = gst_element_get_bus(pipeline);
  GstMessage* message = gst_bus_timed_pop_filtered(
      bus, 30 * GST_SECOND, GstMessageType(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  GstSample* sample = nullptr;
  g_object_get(sink, "last-sample", &sample, nullptr);
  Picture p;
  if (sample) {
    GstVideoInfo info;
    gst_video_info_from_caps(&info, gst_sample_get_caps(sample));
    p = picture_of(gst_sample_get_buffer(sample), info);
    gst_sample_unref(sample);
  }
  if (message) gst_message_unref(message);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(sink);
  gst_object_unref(bus);
  gst_object_unref(pipeline);
  return p;
}

// Returns a detector of faces of `size` pixels. It looks for no boxes of less than a third of that,
// which seen() does not count: most of its time is theirs.
std::string facedetect(const std::string& profile, double size) {
  const std::string least = std::to_string(std::max(30, int(size / 3)));
  return "facedetect display=false updates=3 scale-factor=1.1 min-size-width=" + least +
         " min-size-height=" + least + " profile=" + profile;
}

// Returns the part of `from` around `rect`, `scale` times as large. A pixel is the mean of the area
// that it covers.
Picture scaled(const Picture& from, const Rect& rect, double scale) {
  Picture p = make_picture(int(rect.width * scale), int(rect.height * scale));
  const int n = std::max(1, int(std::ceil(1 / scale)));
  for (int y = 0; y < p.height; y++)
    for (int x = 0; x < p.width; x++)
      for (int c = 0; c < 3; c++) {
        double sum = 0;
        for (int j = 0; j < n; j++)
          for (int i = 0; i < n; i++) {
            const double sx = rect.x + (x + (i + 0.5) / n) / scale - 0.5;
            const double sy = rect.y + (y + (j + 0.5) / n) / scale - 0.5;
            const int x0 = int(std::floor(sx)), y0 = int(std::floor(sy));
            const double fx = sx - x0, fy = sy - y0;
            sum += (1 - fy) * ((1 - fx) * from.at(x0, y0)[c] + fx * from.at(x0 + 1, y0)[c]) +
                   fy * ((1 - fx) * from.at(x0, y0 + 1)[c] + fx * from.at(x0 + 1, y0 + 1)[c]);
          }
        p.rgb[(size_t(y) * p.width + x) * 3 + c] = guint8(std::lrint(sum / (n * n)));
      }
  return p;
}

// Draws a portrait at (x, y) before a slope.
Picture compose(const Picture& portrait, int width, int height, int x0, int y0) {
  Picture p = make_picture(width, height);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      const bool inside = x >= x0 && y >= y0 && x < x0 + portrait.width && y < y0 + portrait.height;
      for (int c = 0; c < 3; c++)
        p.rgb[(size_t(y) * width + x) * 3 + c] =
            inside ? portrait.at(x - x0, y - y0)[c]
                   : guint8(60 + 80 * x / width + 50 * y / height + 8 * c);
    }
  return p;
}

// Blurs a part of a picture by a Gaussian. The result has three floats per pixel.
struct Blurred {
  int x0, y0, x1, y1;
  std::vector<float> rgb;
};
Blurred blurred(const Picture& p, const Rect& where, double sigma) {
  Blurred b = {std::max(0, int(where.x)),
               std::max(0, int(where.y)),
               std::min(p.width, int(where.x + where.width)),
               std::min(p.height, int(where.y + where.height)),
               {}};
  const int r = int(3 * sigma) + 1, columns = b.x1 - b.x0, rows = b.y1 - b.y0;
  std::vector<float> w;
  double sum = 0;
  for (int i = -r; i <= r; i++) sum += std::exp(-i * i / (2 * sigma * sigma));
  for (int i = -r; i <= r; i++) w.push_back(float(std::exp(-i * i / (2 * sigma * sigma)) / sum));
  const int wide = 3 * (columns + 2 * r);
  std::vector<float> in;
  for (int y = 0; y < rows + 2 * r; y++)
    for (int x = 0; x < columns + 2 * r; x++) {
      const guint8* from = p.at(b.x0 - r + x, b.y0 - r + y);
      in.insert(in.end(), from, from + 3);
    }
  // The inner loops add whole rows, because the compiler makes vectors of these.
  std::vector<float> down(wide), across(size_t(columns) * 3);
  for (int y = 0; y < rows; y++) {
    std::fill(down.begin(), down.end(), 0.f);
    for (int j = 0; j <= 2 * r; j++)
      for (int k = 0; k < wide; k++) down[k] += w[j] * in[size_t(y + j) * wide + k];
    std::fill(across.begin(), across.end(), 0.f);
    for (int i = 0; i <= 2 * r; i++)
      for (int k = 0; k < 3 * columns; k++) across[k] += w[i] * down[k + 3 * i];
    b.rgb.insert(b.rgb.end(), across.begin(), across.end());
  }
  return b;
}

// Returns p + amount (p - blurred p), a plain attempt to restore the face.
Picture unsharp(const Picture& p, const Blurred& b, double amount) {
  Picture out = p;
  size_t i = 0;
  for (int y = b.y0; y < b.y1; y++)
    for (int x = b.x0; x < b.x1; x++)
      for (int c = 0; c < 3; c++) {
        const double was = p.at(x, y)[c];
        out.rgb[(size_t(y) * p.width + x) * 3 + c] =
            guint8(std::clamp(was + amount * (was - double(b.rgb[i++])), 0.0, 255.0));
      }
  return out;
}

// Returns how much of the horizontal contrast at `cycles` across the face is left. It is the part
// of the filtered spectrum that correlates with the original one.
double contrast_left(const Picture& before, const Picture& after, const Rect& face, int cycles) {
  double cross = 0, power = 0;
  const int width = int(face.width), x0 = int(face.x);
  for (int y = int(face.y); y < int(face.y + face.height); y++) {
    double re[2] = {}, im[2] = {};
    for (int x = 0; x < width; x++) {
      // The window keeps the face's edges from counting.
      const double window = 0.5 - 0.5 * std::cos(2 * M_PI * (x + 0.5) / width);
      const double angle = 2 * M_PI * cycles * x / width;
      const Picture* pictures[] = {&before, &after};
      for (int i = 0; i < 2; i++) {
        const double v = window * pictures[i]->luma(x0 + x, y);
        re[i] += v * std::cos(angle);
        im[i] += v * std::sin(angle);
      }
    }
    cross += re[0] * re[1] + im[0] * im[1];
    power += re[0] * re[0] + im[0] * im[0];
  }
  return cross / power;
}

// Returns the maximum number of colours across the face, which is the number of blocks.
int blocks_across(const Picture& p, const Rect& face) {
  int most = 0;
  for (int y = int(face.y); y < int(face.y + face.height); y++) {
    int n = 1;
    for (int x = int(face.x) + 1; x < int(face.x + face.width); x++)
      n += memcmp(p.at(x, y), p.at(x - 1, y), 3) != 0;
    most = std::max(most, n);
  }
  return most;
}

constexpr double kMargin = 0.45;  // round the face, as a share of it
constexpr double kExpand = 0.3;   // region-expand of the filters

// Keeps the boxes of the face. A box of less than a third of its width shows something else.
int seen(const std::vector<Rect>& faces, const Rect& face) {
  int n = 0;
  for (const Rect& f : faces) n += overlap(f, face) > 0.3 && f.width > face.width / 3;
  return n;
}
// Returns true if one of the boxes is the whole face.
bool found_whole(const std::vector<Rect>& faces, const Rect& face) {
  for (const Rect& f : faces)
    if (overlap(f, face) > 0.6 && f.width > 0.75 * face.width) return true;
  return false;
}

// Returns true if one of the boxes covers the face after the filters have expanded it. No filter
// can hide the parts of a face that the detector's boxes leave out.
bool found_covering(const std::vector<Rect>& faces, const Rect& face) {
  for (const Rect& f : faces) {
    const double x = kExpand * f.width, y = kExpand * f.height;
    if (f.x - x <= face.x && f.y - y <= face.y && f.x + f.width + x >= face.x + face.width &&
        f.y + f.height + y >= face.y + face.height)
      return true;
  }
  return false;
}

struct Portrait {
  std::string name;
  Picture picture;
  Rect face;
};

constexpr int kFrames = 10;

// Makes a clip in which a portrait moves.
struct Clip {
  Picture head;
  Rect box;  // place of the face in `head`
  int width, height;

  Clip(const Portrait& p, double size) {
    const Rect& f = p.face;
    const double margin = kMargin * f.width, scale = size / f.width;
    head = scaled(p.picture,
                  {f.x - margin, f.y - margin, f.width + 2 * margin, f.height + 2 * margin}, scale);
    box = {margin * scale, margin * scale, f.width * scale, f.height * scale};
    width = head.width + 160;
    height = head.height + 120;
  }
  Picture frame(int i, Rect* face) const {
    const int x = 30 + 7 * i, y = 40 + 3 * i;
    *face = {x + box.x, y + box.y, box.width, box.height};
    return compose(head, width, height, x, y);
  }
};

// Returns a size near `wanted` at which the detector finds the face in the first frame, or 0 if
// there is none. The detector looks for some sizes only.
double size_near(const Portrait& portrait, const std::string& profile, int wanted) {
  for (const double factor : {1.0, 0.97, 1.03, 0.94, 1.06, 0.9, 1.1, 0.86, 1.14}) {
    const Clip clip(portrait, wanted * factor);
    Rect face;
    const Picture frame = clip.frame(0, &face);
    std::vector<Rect> faces;
    Chain(facedetect(profile, wanted), frame).push(frame, &faces);
    if (found_whole(faces, face) && found_covering(faces, face)) return wanted * factor;
  }
  return 0;
}

// Tests one size of one portrait with one element.
void play(const Portrait& portrait, const std::string& profile, const std::string& filter,
          double size) {
  const std::string name =
      portrait.name + ", a face of " + std::to_string(std::lrint(size)) + " pixels, " + filter;
  const Clip clip(portrait, size);
  const Picture like = make_picture(clip.width, clip.height);
  Chain chain(facedetect(profile, size) + " ! " + filter + " backend=cpu", like);
  Chain second(facedetect(profile, size), like);
  int found = 0, left = 0, recovered = 0;
  double contrast = 0;
  int blocks = 0;
  for (int i = 0; i < kFrames; i++) {
    Rect face;
    const Picture frame = clip.frame(i, &face);
    std::vector<Rect> first, again;
    const Picture out = chain.push(frame, &first);
    if (!found_whole(first, face) || !found_covering(first, face)) continue;
    found++;
    second.push(out, &again);
    left += seen(again, face);
    if (found != 1 && i != kFrames - 1) continue;
    const double margin = kMargin * face.width;
    const Rect around = {face.x - margin, face.y - margin, face.width + 2 * margin,
                         face.height + 2 * margin};
    for (const double share : {0.1, 0.2}) {
      const Blurred b = blurred(out, around, share * size);
      for (const double amount : {1.5, 5.0}) {
        second.push(unsharp(out, b, amount), &again);
        recovered += seen(again, face);
      }
    }
    // The shortest period is two pixels, so n effective pixels have n / 2 cycles across.
    for (const int cycles : {4, 5, 6, 8})
      contrast = std::max(contrast, contrast_left(frame, out, face, cycles));
    blocks = std::max(blocks, blocks_across(out, face));
  }
  result(name, found >= kFrames / 2 && left == 0,
         "found in %d of %d frames, %d times after the filter", found, kFrames, left);
  result(name + ", unsharp masking", recovered == 0, "found %d times", recovered);
  // A spectrum of blocks contains their edges, which repeat lower frequencies. So the blocks are
  // counted instead.
  if (filter.find("cudagaussian") == 0)
    result(name + ", at most 8 effective pixels", contrast < 0.1,
           "at most %.3f of the contrast at 4 to 8 cycles across the face", contrast);
  else
    result(name + ", at most 8 blocks", blocks <= 8, "%d blocks across the face", blocks);
}

// Runs a filter on frames with the faces of `results`. Returns as many frames.
std::vector<Picture> filtered(const std::string& filter, const std::vector<Picture>& frames,
                              const std::vector<std::vector<Rect>>& results) {
  const GstVideoInfo info = info_of(frames[0]);
  GstHarness* harness = gst_harness_new_parse((filter + " backend=cpu").c_str());
  gst_harness_set_src_caps(harness, gst_video_info_to_caps(&info));
  for (size_t i = 0; i < frames.size(); i++) {
    GstBuffer* buffer = buffer_of(frames[i]);
    GST_BUFFER_PTS(buffer) = i * 40 * GST_MSECOND;
    GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
    for (const Rect& r : results[i])
      gst_buffer_add_video_region_of_interest_meta(buffer, "face", guint(r.x), guint(r.y),
                                                   guint(r.width), guint(r.height));
    gst_harness_push(harness, buffer);
  }
  gst_harness_push_event(harness, gst_event_new_eos());
  std::vector<Picture> out;
  while (GstBuffer* buffer = gst_harness_try_pull(harness)) {
    out.push_back(picture_of(buffer, info));
    gst_buffer_unref(buffer);
  }
  gst_harness_teardown(harness);
  return out;
}

const std::vector<std::string> kFilters = {
    "cudagaussian regions=roi region-expand=0.3 sigma-relative=0.2",
    "cudapixelate regions=roi region-expand=0.3"};

// In `every` frames, the first detector's results are left out for the first `late` ones.
struct Pattern {
  int late, every;
};

// Counts frames of a clip in which the second detector finds a face that the first one has found
// within the look-ahead or the hold time. `faces` are the places of faces in each frame, and
// `results` what the first detector has found of them, with what is left out.
int shown(const std::string& profile, const std::string& filter, double size,
          const std::vector<Picture>& frames, const std::vector<std::vector<Rect>>& faces,
          const std::vector<std::vector<Rect>>& results) {
  constexpr int kAhead = 10, kHold = 12;  // frames of 40 ms
  const std::vector<Picture> out = filtered(filter, frames, results);
  if (out.size() != frames.size()) g_error("%zu of %zu frames came", out.size(), frames.size());
  Chain second(facedetect(profile, size), frames[0]);
  int n = 0;
  for (int i = 0; i < int(out.size()); i++) {
    std::vector<Rect> again;
    second.push(out[size_t(i)], &again);
    bool known = false;
    for (int k = std::max(0, i - kHold); k <= std::min(int(out.size()) - 1, i + kAhead); k++)
      for (const Rect& face : faces[size_t(k)])
        known = known || found_whole(results[size_t(k)], face);
    const auto is_seen = [&](const Rect& face) { return seen(again, face) > 0; };
    n += known && std::any_of(faces[size_t(i)].begin(), faces[size_t(i)].end(), is_seen);
  }
  return n;
}

// Tests a clip with faces without and with a look-ahead.
void play_late(const std::string& name, const std::string& profile, const std::string& filter,
               double size, const std::vector<Picture>& frames,
               const std::vector<std::vector<Rect>>& faces,
               const std::vector<std::vector<Rect>>& results) {
  int found = 0, there = 0;
  for (size_t i = 0; i < frames.size(); i++)
    there += !faces[i].empty(), found += !faces[i].empty() && found_whole(results[i], faces[i][0]);
  const int without = shown(profile, filter, size, frames, faces, results);
  const int with = shown(profile, filter + " look-ahead-ms=400", size, frames, faces, results);
  result(name + ", " + filter, found >= int(frames.size()) / 4 && without > 0 && with == 0,
         "found in %d of %d frames; found behind the filter in %d, and with a look-ahead in %d",
         found, there, without, with);
}

// A portrait appears suddenly over a clip and walks. Frames hold the part of the clip in which it does,
// because the detectors' time is that of the pixels.
void walk_over(const Portrait& portrait, const std::string& profile,
               const std::vector<Picture>& clip, double size, const Pattern& pattern) {
  constexpr int kAppears = 5, kBorder = 20;
  const Clip head(portrait, size);
  const int width = std::min(clip[0].width, head.head.width + 2 * kBorder + 4 * int(clip.size()));
  const int height = std::min(clip[0].height, head.head.height + 2 * kBorder);
  const int left = (clip[0].width - width) / 2, top = (clip[0].height - height) / 2;
  std::vector<Picture> frames;
  std::vector<std::vector<Rect>> faces, results;
  Chain first(facedetect(profile, size), make_picture(width, height));
  for (int i = 0; i < int(clip.size()); i++) {
    Picture p = make_picture(width, height);
    for (int y = 0; y < height; y++)
      memcpy(&p.rgb[size_t(y) * width * 3], clip[size_t(i)].at(left, top + y), size_t(width) * 3);
    const int x0 = kBorder + 4 * (i - kAppears), y0 = height / 2 - head.head.height / 2 + i % 7;
    if (i >= kAppears)
      for (int y = 0; y < head.head.height; y++)
        for (int x = 0; x < head.head.width; x++) {
          const double u = 2.0 * x / head.head.width - 1, v = 2.0 * y / head.head.height - 1;
          if (u * u + v * v > 1 || x0 + x >= p.width || y0 + y < 0 || y0 + y >= p.height) continue;
          memcpy(&p.rgb[(size_t(y0 + y) * p.width + x0 + x) * 3], head.head.at(x, y), 3);
        }
    faces.emplace_back();
    if (i >= kAppears)
      faces.back() = {{x0 + head.box.x, y0 + head.box.y, head.box.width, head.box.height}};
    std::vector<Rect> result;
    first.push(p, &result);
    if ((i - kAppears) % pattern.every < pattern.late) result.clear();
    results.push_back(result);
    frames.push_back(std::move(p));
  }
  for (const std::string& filter : kFilters)
    play_late(portrait.name + " of " + std::to_string(std::lrint(size)) + " pixels over a clip, " +
                  std::to_string(pattern.late) + " of " + std::to_string(pattern.every) + " missed",
              profile, filter, size, frames, faces, results);
}

// The faces of a clip are those that the first detector finds.
void play_clip(const std::string& name, const std::string& profile,
               const std::vector<Picture>& frames, const std::string& filter,
               const Pattern& pattern) {
  constexpr double kSmallest = 90;  // facedetect() looks for a third of it
  std::vector<std::vector<Rect>> faces, results;
  Chain first(facedetect(profile, kSmallest), frames[0]);
  for (size_t i = 0; i < frames.size(); i++) {
    faces.emplace_back();
    first.push(frames[i], &faces.back());
    results.push_back(int(i) % pattern.every < pattern.late ? std::vector<Rect>() : faces.back());
  }
  play_late(name + ", " + std::to_string(pattern.late) + " of " + std::to_string(pattern.every) +
                " missed",
            profile, filter, kSmallest, frames, faces, results);
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  const bool clips = argc > 1 && !strcmp(argv[1], "--clips");
  const bool all = argc > 1 && !strcmp(argv[1], "--all");
  if (clips || all) argv++, argc--;
  const std::vector<int> wanted =
      all ? std::vector<int>{40, 56, 80, 112, 160, 224, 320, 400} : std::vector<int>{40, 112, 224};
  const std::vector<Pattern> patterns = clips || all
                                            ? std::vector<Pattern>{{3, 9}, {8, 20}, {10, 24}}
                                            : std::vector<Pattern>{{8, 20}};
  if (argc < (clips ? 3 : 4)) {
    fprintf(stderr,
            "usage: faces [--all] PROFILE CLIP IMAGE...\n       faces --clips PROFILE CLIP...\n");
    return 2;
  }
  const std::string profile = argv[1];
  for (int i = 2; clips && i < argc; i++) {
    std::vector<Picture> clip;
    load(argv[i], 250, &clip);
    gchar* base = g_path_get_basename(argv[i]);
    for (const std::string& filter : kFilters)
      for (const Pattern& pattern : patterns)
        if (!clip.empty()) play_clip(base, profile, clip, filter, pattern);
    if (clip.empty()) result(base, false, "cannot be read");
    g_free(base);
  }
  constexpr size_t kLeast = 40;  // frames of the clip
  std::vector<Picture> clip;
  if (!clips) {
    load(argv[2], all ? 60 : 44, &clip);
    result("the clip has frames", clip.size() >= kLeast, "%zu frames", clip.size());
  }
  for (int i = 3; !clips && i < argc; i++) {
    gchar* base = g_path_get_basename(argv[i]);
    Portrait p = {base, load(argv[i]), {}};
    g_free(base);
    if (p.picture.rgb.empty()) {
      result(p.name, false, "cannot be read");
      continue;
    }
    std::vector<Rect> faces;
    Chain(facedetect(profile, 0), p.picture).push(p.picture, &faces);
    for (const Rect& f : faces)
      if (f.width > p.face.width) p.face = f;
    result(p.name + " has a face", p.face.width > 40, "%g x %g at %g,%g", p.face.width,
           p.face.height, p.face.x, p.face.y);
    if (p.face.width <= 40) continue;
    std::vector<double> sizes;
    for (const int size : wanted) {
      sizes.push_back(size_near(p, profile, size));
      result(p.name + ", found at about " + std::to_string(size) + " pixels", sizes.back() > 0,
             "at %g pixels", sizes.back());
    }
    for (const std::string& filter : kFilters)
      for (const double size : sizes)
        if (size > 0) play(p, profile, filter + " on-missing=hold", size);
    // Larger ones do not fit into the clip.
    for (const int about : all ? std::vector<int>{56, 80, 112} : std::vector<int>{80}) {
      const double size = size_near(p, profile, about);
      for (const Pattern& pattern : patterns)
        if (size > 0 && clip.size() >= kLeast) walk_over(p, profile, clip, size, pattern);
    }
  }
  printf("1..%d\n", count);
  return failed ? 1 : 0;
}
