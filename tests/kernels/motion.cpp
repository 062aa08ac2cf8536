#include "filters/motion.h"

#include <algorithm>
#include <cmath>

#include "filters/color.h"
#include "filters/motion_task.h"
#include "tests/kernels/harness.h"
#include "tests/motion.h"

namespace vf::test {
namespace {

// Returns the layout of two pictures, and that of the field of their motion: x, y and both residuals.
Layout pictures_layout(Type type, int channels, int width, int height) {
  Layout l = packed_layout(type, channels, width, height);
  l.planes = 2;
  l.plane[1] = l.plane[0];
  return l;
}
Layout field_layout(int width, int height) {
  return packed_layout(Type::s16, 4, motion_blocks(width), motion_blocks(height));
}

MotionPicture picture_of(const Image& image, int plane, int crop = 0) {
  const Layout& l = image.layout;
  MotionPicture p;
  p.type = l.type;
  p.shift = l.shift;
  p.depth = 0;
  while (max_code(l) >> p.depth) p.depth++;
  p.step = l.plane[plane].pixel_step();
  p.rgb = l.plane[plane].channels >= 3;
  for (int c = 0; c < (p.rgb ? 3 : 1); c++) {
    p.data[c] = static_cast<uint8_t*>(image.data[plane]) +
                ptrdiff_t(size_of(l.type)) * (c + ptrdiff_t(crop) * p.step);
    p.stride[c] = image.stride[plane];
  }
  return p;
}

// Finds the motion of plane 0 since plane 1, so that the tables' tools can run it. The pictures
// begin `crop` pixels from the left.
class MotionRun final : public Plan {
 public:
  MotionRun(Queue& queue, const Layout& src, const Layout& dst, int crop)
      : Plan(queue, src, dst, Placement::separate), crop_(crop) {}
  Status make() {
    MotionParams p;
    const PlaneLayout &from = source().plane[0], &to = destination().plane[0];
    // Smaller frames of timed rows are not whole blocks.
    p.width = std::min(from.width - crop_, to.width * kMotionBlock);
    p.height = std::min(from.height, to.height * kMotionBlock);
    return make_motion(queue_, p, &motion_);
  }

 private:
  Status enqueue(const Image& src, const Image& dst) override {
    const MotionPicture both[] = {picture_of(src, 0, crop_), picture_of(src, 1, crop_)};
    VF_TRY(motion_->read(0, both, 2));
    return motion_->find(0, 1, static_cast<MotionVector*>(dst.data[0]), dst.stride[0]);
  }
  std::unique_ptr<MotionPlan> motion_;
  int crop_;
};

Status make_run(Queue& queue, const Layout& src, const Layout& dst, int crop,
                std::unique_ptr<Plan>* out) {
  auto run = std::make_unique<MotionRun>(queue, src, dst, crop);
  VF_TRY(run->make());
  *out = std::move(run);
  return {};
}

// ---- pictures of known motion ------------------------------------------------------------------

// Returns smooth noise, -1 to 1, with details of about one unit.
double smooth_noise(double x, double y) {
  const auto value = [](int64_t i, int64_t j) {
    uint64_t h = uint64_t(i) * 0x9e3779b97f4a7c15u ^ uint64_t(j) * 0xc2b2ae3d27d4eb4fu;
    h = (h ^ h >> 31) * 0xd6e8feb86659fd93u;
    return double(h >> 40) * 0x1p-23 - 1;
  };
  const double i = std::floor(x), j = std::floor(y);
  const auto ease = [](double t) { return t * t * (3 - 2 * t); };
  const double u = ease(x - i), v = ease(y - j);
  const auto at = [&](int dx, int dy) { return value(int64_t(i) + dx, int64_t(j) + dy); };
  return (1 - v) * ((1 - u) * at(0, 0) + u * at(1, 0)) + v * ((1 - u) * at(0, 1) + u * at(1, 1));
}
double texture(double x, double y) {
  return 128 + 30 * smooth_noise(x / 5, y / 5) + 35 * smooth_noise(x / 13 + 50, y / 13) +
         40 * smooth_noise(x / 41, y / 41 + 70);
}

struct Known {
  const char* name;
  double dx, dy;         // pixels
  double degrees, zoom;  // about the middle
  double sigma;          // the noise's sigma
  double mean_error;     // largest mean error of the vectors, pixels
  int square = 0;        // pixels: only a square moves, and only its inner blocks count
};

struct Place {
  double x, y;
};
constexpr int kKnownWidth = 320, kKnownHeight = 192;
// Returns where the place was before.
Place before(const Known& k, double x, double y) {
  const double a = k.degrees * std::acos(-1.0) / 180;
  const double u = x - kKnownWidth / 2, v = y - kKnownHeight / 2;
  return {kKnownWidth / 2 + k.dx + k.zoom * (std::cos(a) * u - std::sin(a) * v),
          kKnownHeight / 2 + k.dy + k.zoom * (std::sin(a) * u + std::cos(a) * v)};
}
bool in_square(const Known& k, double x, double y, int margin) {
  const double half = k.square / 2 - margin;
  return std::abs(x - kKnownWidth / 2) < half && std::abs(y - kKnownHeight / 2) < half;
}

Frame frame_of(const Known& k, Random& random) {
  Frame frame(pictures_layout(Type::u8, 1, kKnownWidth, kKnownHeight));
  const auto noise = [&] {
    double sum = -6;  // twelve of variance 1/12
    for (int i = 0; i < 12; i++) sum += random.unit();
    return k.sigma * sum;
  };
  const auto set = [&](int plane, int x, int y, double v) {
    frame.set(plane, x, y, 0, std::clamp(std::nearbyint(v + noise()), 0.0, 255.0));
  };
  for (int y = 0; y < kKnownHeight; y++)
    for (int x = 0; x < kKnownWidth; x++) {
      const Place was = before(k, x, y);
      if (!k.square) {
        set(0, x, y, texture(was.x, was.y));
        set(1, x, y, texture(x, y));
      } else {  // Behind the square is another part of the texture.
        set(0, x, y, in_square(k, x, y, 0) ? texture(was.x, was.y) : texture(x + 999, y));
        set(1, x, y, in_square(k, x - k.dx, y - k.dy, 0) ? texture(x, y) : texture(x + 999, y));
      }
    }
  return frame;
}

double mean_error(const Known& k, const Frame& field) {
  double sum = 0;
  int n = 0;
  const PlaneLayout& l = field.layout().plane[0];
  for (int j = 0; j < l.height; j++)
    for (int i = 0; i < l.width; i++) {
      const double x = 8 * i + 3.5, y = 8 * j + 3.5;
      const Place was = before(k, x, y);
      // Parts that come from outside have no motion that could be found.
      constexpr int margin = 16;
      const auto is_in = [](double v, int size) { return v >= margin && v < size - margin; };
      if (!is_in(x, kKnownWidth) || !is_in(y, kKnownHeight) || !is_in(was.x, kKnownWidth) ||
          !is_in(was.y, kKnownHeight) || (k.square && !in_square(k, x, y, 8)))
        continue;
      sum += std::hypot(field.get(0, i, j, 0) / kMotionUnits - (was.x - x),
                        field.get(0, i, j, 1) / kMotionUnits - (was.y - y));
      n++;
    }
  return n ? sum / n : 1e9;
}

Status run_reference(const Frame& src, const Frame& dst) {
  QueueOptions options;
  options.backend = Backend::reference;
  std::unique_ptr<Queue> queue;
  VF_TRY(make_queue(options, &queue));
  std::unique_ptr<Plan> plan;
  VF_TRY(make_run(*queue, src.layout(), dst.layout(), 0, &plan));
  return plan->run(src.image(), dst.image());
}

// Finds the motion in `src` with the device and with the reference. Returns how they differ.
std::string find_both(Context& context, const Frame& src, Frame* got, Frame* want) {
  if (Status s = run_reference(src, *want); !s.ok()) return s.message();
  std::unique_ptr<Plan> plan;
  if (Status s = make_run(context.device().queue(), src.layout(), got->layout(), 0, &plan); !s.ok())
    return s.message();
  if (Status s = run_plan(context.device(), *plan, src, got); !s.ok()) return s.message();
  plan.reset();
  context.device().release_all();
  return difference(*got, *want, motion_contract());
}

std::string failure_of(Context& context, const Known& k, Random random) {
  const Frame src = frame_of(k, random);
  Frame want(field_layout(kKnownWidth, kKnownHeight)), got(want.layout());
  if (std::string failure = find_both(context, src, &got, &want); !failure.empty()) return failure;
  const double error = mean_error(k, got);
  if (error <= k.mean_error) return {};
  return text("the vectors are off by %.3f pixels on average, and the limit is %.3f", error,
              k.mean_error);
}

void known(Context& context) {
  const Known rows[] = {
      {"still", 0, 0, 0, 1, 0, 0},
      {"a fraction of a pixel", 1.25, -0.75, 0, 1, 0, 0.05},
      {"some pixels", 13, -7, 0, 1, 0, 0.05},
      {"as far as 32 pixels", 32, -20, 0, 1, 0, 0.05},
      {"rotation", 0, 0, 4, 1, 0, 0.25},
      {"zoom", 2, 1, 0, 1.05, 0, 0.2},
      {"a square", 9, -5, 0, 1, 0, 0.08, 64},
      {"noise, still", 0, 0, 0, 1, 10, 0.4},
      {"noise, a fraction of a pixel", 1.25, -0.75, 0, 1, 10, 0.35},
      {"noise, some pixels", 13, -7, 0, 1, 10, 0.35},
      {"noise, as far as 32 pixels", 32, -20, 0, 1, 10, 0.45},
      {"noise, rotation", 0, 0, 4, 1, 10, 0.45},
      {"noise, zoom", 2, 1, 0, 1.05, 10, 0.4},
      {"noise, a square", 9, -5, 0, 1, 10, 0.35, 64},
  };
  for (const Known& k : rows) {
    const std::string name = std::string("motion known: ") + k.name;
    if (context.wants(name)) context.result(name, failure_of(context, k, context.random(name)));
  }
}

// ---- pictures that are kept --------------------------------------------------------------------

// Reads pictures of different formats at once, and finds motion both ways. The third picture has
// the codes of the second one in 16 bits, so its field is the same.
std::string kept_failure(Context& context, Random random) {
  constexpr int w = 83, h = 45;
  Frame bytes(pictures_layout(Type::u8, 1, w, h)), words(pictures_layout(Type::u16, 1, w, h));
  bytes.fill(Pattern::texture, random);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) words.set(0, x, y, 0, 256 * bytes.get(1, x, y, 0));
  Device& device = context.device();
  const Image from = device.upload(bytes), deep = device.upload(words);
  MotionParams params;
  params.width = w;
  params.height = h;
  params.pictures = 5;
  std::unique_ptr<MotionPlan> motion;
  if (Status s = make_motion(device.queue(), params, &motion); !s.ok()) return s.message();
  const MotionPicture pictures[] = {picture_of(from, 0), picture_of(from, 1), picture_of(deep, 0)};
  if (Status s = motion->read(2, pictures, 3); !s.ok()) return s.message();
  struct Wanted {
    int picture, before;
    Frame* field;
  };
  const auto find = [&](const std::vector<Wanted>& wanted, const MotionParts& parts = {}) {
    std::vector<Image> images;
    std::vector<MotionPair> pairs;
    for (const Wanted& w : wanted) {
      const Image& image = images.emplace_back(device.upload(*w.field));
      pairs.push_back(
          {w.picture, w.before, static_cast<MotionVector*>(image.data[0]), image.stride[0]});
    }
    VF_TRY(motion->find(pairs.data(), int(pairs.size()), parts));
    VF_TRY(device.queue().sync());
    for (size_t i = 0; i < wanted.size(); i++) device.download(images[i], wanted[i].field);
    return Status();
  };
  const Layout layout = field_layout(w, h);
  Frame of_bytes(layout), of_words(layout), back(layout), want(layout), want_back(layout);
  Frame of_parts(layout);
  const MotionParts parts = {2, {{2, 1, 5, 3}, {9, 0, 11, 6}}};
  Status s = find({{2, 3, &of_bytes}});
  if (s.ok()) s = find({{2, 4, &of_words}, {3, 2, &back}});
  if (s.ok()) s = find({{2, 3, &of_parts}}, parts);
  if (s.ok()) s = run_reference(bytes, want);
  if (!s.ok()) return s.message();
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      const double first = bytes.get(0, x, y, 0);
      bytes.set(0, x, y, 0, bytes.get(1, x, y, 0));
      bytes.set(1, x, y, 0, first);
    }
  if (s = run_reference(bytes, want_back); !s.ok()) return s.message();
  motion.reset();
  device.release_all();
  // Vectors outside of the parts may have any value.
  for (int y = 0; y < motion_blocks(h); y++)
    for (int x = 0; x < motion_blocks(w); x++)
      for (int c = 0; c < 4 && !parts.want(x, x + 1, y); c++)
        of_parts.set(0, x, y, c, of_bytes.get(0, x, y, c));
  for (const auto& [got, expected, what] :
       {std::tuple(&of_bytes, &want, "8 bits: "), std::tuple(&of_parts, &want, "parts: "),
        std::tuple(&of_words, &want, "16 bits: "), std::tuple(&back, &want_back, "back: ")})
    if (std::string d = difference(*got, *expected, motion_contract()); !d.empty()) return what + d;
  return {};
}

// White bars move over black. The largest codes of more than 8 bits would round to 256.
std::string white_failure(Context& context) {
  Frame src(pictures_layout(Type::u16, 1, 96, 64));
  for (int plane = 0; plane < 2; plane++)
    for (int y = 0; y < 64; y++)
      for (int x = 0; x < 96; x++)
        src.set(plane, x, y, 0, x / 24 % 2 == 1 && (x + 5 * plane) % 24 > 4 ? 65535 : 0);
  Frame want(field_layout(96, 64)), got(want.layout());
  return find_both(context, src, &got, &want);
}

void refused(Context& context) {
  Queue& queue = context.device().queue();
  const auto make = [&](int width, int height, int pictures, std::unique_ptr<MotionPlan>* plan) {
    MotionParams p;
    p.width = width;
    p.height = height;
    p.pictures = pictures;
    return make_motion(queue, p, plan);
  };
  std::unique_ptr<MotionPlan> plan;
  context.refused("motion width", make(0, 8, 2, &plan), "width");
  context.refused("motion height", make(8, kMaxDimension + 1, 2, &plan), "height");
  context.refused("motion pictures", make(8, 8, 17, &plan), "pictures");
  if (Status s = make(16, 8, 2, &plan); !s.ok()) return context.result("motion", s.message());
  // Nothing is read before the arguments are checked, so the memory may be anywhere.
  Frame frame(pictures_layout(Type::u16, 1, 16, 8));
  const MotionPicture good = picture_of(frame.image(), 0);
  const auto refuses = [&](const char* name, const char* word, auto&& change) {
    MotionPicture p = good;
    change(p);
    context.refused(std::string("motion ") + name, plan->read(0, &p, 1), word);
  };
  refuses("type", "type is f32, but it must be u8 or u16",
          [](MotionPicture& p) { p.type = Type::f32; });
  refuses("depth", "depth is 7, but it must be 8 to 16", [](MotionPicture& p) { p.depth = 7; });
  refuses("shift", "shift is 1, but it must be 0", [](MotionPicture& p) { p.shift = 1; });
  refuses("step", "step is 0, but it must be 1 to 8", [](MotionPicture& p) { p.step = 0; });
  refuses("no address", "address", [](MotionPicture& p) { p.data[0] = nullptr; });
  refuses("no address of blue", "component 2", [](MotionPicture& p) {
    p.rgb = true;
    for (int c = 1; c < 3; c++) p.stride[c] = p.stride[0];
    p.data[1] = p.data[0];
  });
  refuses("odd address", "but it must be a multiple of 2",
          [](MotionPicture& p) { p.data[0] = static_cast<const char*>(p.data[0]) + 1; });
  refuses("stride", "stride of component 0 is 30 bytes, but it must be at least 32",
          [](MotionPicture& p) { p.stride[0] = 30; });
  context.refused("motion count", plan->read(0, &good, 0),
                  "count of pictures is 0, but it must be 1 to 4");
  context.refused("motion first picture", plan->read(-1, &good, 1),
                  "first picture is -1, but it must be 0 to 1");
  context.refused("motion last picture", plan->read(1, &good, 2),
                  "last picture is 2, but it must be 0 to 1");
  Frame field(field_layout(16, 8));
  auto* to = static_cast<MotionVector*>(field.image().data[0]);
  context.refused("motion no pairs", plan->find(nullptr, 0),
                  "count of pairs is 0, but it must be 1 to 2");
  context.refused("motion unread picture", plan->find(0, 1, to, 16), "not read");
  context.refused("motion picture", plan->find(2, 1, to, 16),
                  "picture is 2, but it must be 0 to 1");
  context.refused("motion picture before", plan->find(0, -1, to, 16),
                  "picture before is -1, but it must be 0 to 1");
  const Image image = context.device().upload(frame);
  const MotionPicture both[] = {picture_of(image, 0), picture_of(image, 1)};
  if (Status s = plan->read(0, both, 2); !s.ok()) return context.result("motion", s.message());
  context.refused("motion no field", plan->find(0, 1, nullptr, 16), "field");
  context.refused("motion stride of the field", plan->find(0, 1, to, 8),
                  "stride of the field is 8 bytes, but it must be at least 16");
  const Status s = context.device().queue().sync();
  context.result("motion after refusals", s.ok() ? "" : s.message());
  plan.reset();
  context.device().release_all();
}

// Checks where a picture's components begin in a packed frame.
void pictures_begin(Context& context) {
  Frame frame(packed_layout(Type::u16, 4, 16, 8));
  const Component parts[] = {{0, 1}, {0, 2}, {0, 3}};
  const Image image = frame.image();
  const MotionPicture p = vf::picture_of(image, parts, 3);
  std::string failure;
  for (int c = 0; c < 3; c++)
    if (p.data[c] != static_cast<const uint16_t*>(image.data[0]) + parts[c].channel)
      failure = text("component %d begins elsewhere", c);
  if (p.step != 4 || !p.rgb) failure = "it is not RGB with 4 samples per pixel";
  context.result("motion picture of packed components", failure);
}

// Makes plane 1 a copy of plane 0 that moved by some pixels and has noise of its own, as in video.
void move_planes(Frame* frame) {
  const PlaneLayout& l = frame->layout().plane[0];
  Random random(1);
  for (int y = 0; y < l.height; y++)
    for (int x = 0; x < l.width; x++) {
      const double top = max_code(frame->layout());
      const double v = texture(x, y) + 8 * random.unit(), w = texture(x + 6, y - 3);
      frame->set(0, x, y, 0, std::clamp(std::nearbyint(v / 255 * top), 0.0, top));
      frame->set(1, x, y, 0,
                 std::clamp(std::nearbyint((w + 8 * random.unit()) / 255 * top), 0.0, top));
    }
}

}  // namespace

void motion_cases(Context& context) {
  const auto check = [&](const std::string& name, const Layout& src, Pattern pattern,
                         Geometry geometry = {}, int crop = 0) {
    const PlaneLayout& l = src.plane[0];
    const Layout dst = field_layout(l.width - crop, l.height);
    context.check(
        text("motion %s %dx%d %s", name.c_str(), l.width - crop, l.height, name_of(pattern)), src,
        dst, pattern, geometry, motion_contract(), false,
        [&](Queue& queue, Placement, std::unique_ptr<Plan>* plan) {
          return make_run(queue, src, dst, crop, plan);
        });
  };
  for (const Pattern pattern : kAllPatterns) {
    check("u8", pictures_layout(Type::u8, 1, 203, 117), pattern);
    check("u16", pictures_layout(Type::u16, 1, 130, 139), pattern);
    check("u8 RGB", pictures_layout(Type::u8, 4, 67, 50), pattern);
  }
  Layout deep = pictures_layout(Type::u16, 1, 200, 64);
  deep.max_value = 1023;
  check("10 bits", deep, Pattern::texture);
  deep.shift = 6;
  check("10 bits at the top", deep, Pattern::texture);
  check("u16 RGB", pictures_layout(Type::u16, 3, 40, 33), Pattern::noise);
  check("two channels", pictures_layout(Type::u8, 2, 70, 20), Pattern::texture);
  for (const int w : {1, 2, 3, 7, 8, 9, 17, 33, 64, 129})
    for (const int h : {1, 2, 9, 31, 130}) {
      check("u8", pictures_layout(Type::u8, 1, w, h), Pattern::noise);
      check("u16", pictures_layout(Type::u16, 1, w, h), Pattern::extremes);
    }
  for (const int crop : {1, 4}) {
    check("cropped u8", pictures_layout(Type::u8, 1, 170, 40), Pattern::texture, {}, crop);
    check("cropped u16", pictures_layout(Type::u16, 1, 170, 40), Pattern::texture, {}, crop);
  }
  check("padded", pictures_layout(Type::u8, 1, 170, 40), Pattern::texture, {24, 8, false});
  check("tight", pictures_layout(Type::u8, 1, 170, 40), Pattern::texture, {0, 0, true});
  check("tight", pictures_layout(Type::u16, 1, 168, 40), Pattern::texture, {0, 0, true});
  // The pyramids have tiles that touch no edge at the left or the right.
  check("tiles", pictures_layout(Type::u8, 1, 282, 209), Pattern::texture);
  check("tiles", pictures_layout(Type::u16, 1, 280, 210), Pattern::noise);
  check("wide", pictures_layout(Type::u8, 1, 2100, 18), Pattern::texture);
  check("high", pictures_layout(Type::u8, 1, 18, 1100), Pattern::texture);
  const auto timed = [&](const char* frame, Type type, int width, int height, bool quick) {
    TimedCase row;
    row.frame = frame;
    row.parameters = "two pictures";
    row.src = pictures_layout(type, 1, width, height);
    row.dst = field_layout(width, height);
    row.tolerance = motion_contract();
    row.make = [](Queue& queue, const Layout& src, const Layout& dst, Placement,
                  std::unique_ptr<Plan>* plan) { return make_run(queue, src, dst, 0, plan); };
    row.shape = [](Frame* frame, uint64_t) { move_planes(frame); };
    row.quick = quick;
    row.cpu = true;
    context.timed(row);
  };
  timed("1080p u8", Type::u8, 1920, 1080, true);
  timed("1080p u16", Type::u16, 1920, 1080, false);
  timed("2160p u8", Type::u8, 3840, 2160, false);
  timed("2160p u16", Type::u16, 3840, 2160, false);
  known(context);
  const std::string kept = "motion of pictures that are kept";
  if (context.wants(kept)) context.result(kept, kept_failure(context, context.random(kept)));
  const std::string white = "motion of white";
  if (context.wants(white)) context.result(white, white_failure(context));
  refused(context);
  pictures_begin(context);
}

}  // namespace vf::test
