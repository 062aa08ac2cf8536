#include <algorithm>
#include <cmath>
#include <limits>

#include "filters/gaussian.h"
#include "tests/gaussian.h"
#include "tests/kernels/harness.h"

#if VF_HAVE_CUDA
#include "cuda/core/queue.h"
#endif

namespace vf::test {
namespace {

void one(Context& context, const std::string& name, const Layout& layout,
         const GaussianParams& params, Pattern pattern, Geometry geometry = {}) {
  Tolerance tolerance = gaussian_contract(layout.type);
  // Blurring two-valued frames gives exact halves, where the last bit of any sum decides the
  // rounding.
  if (pattern == Pattern::extremes || pattern == Pattern::impulses) tolerance.equal = 0;
  context.check(text("gaussian %s %s", name.c_str(), name_of(pattern)), layout, layout, pattern,
                geometry, tolerance, true,
                [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                  return make_gaussian(queue, layout, params, placement, plan);
                });
}

// Returns the sigma that OpenCV derives from a size.
double sigma_of(int size) {
  return 0.3 * ((size - 1) * 0.5 - 1) + 0.8;
}

// Runs a plan for `params` on `src`.
std::string filter(Context& context, const Frame& src, const GaussianParams& params, Frame* out) {
  Device& device = context.device();
  std::unique_ptr<Plan> plan;
  if (Status s = make_gaussian(device.queue(), src.layout(), params, Placement::separate, &plan);
      !s.ok())
    return s.message();
  if (Status s = run_plan(device, *plan, src, out); !s.ok()) return s.message();
  return {};
}

// Filters a point in the middle of a dark frame, and compares the resulting kernel with the formula
// of gaussian.h. The other cases share their weights with the reference.
void point(Context& context, const std::string& variant, Type type, double sigma, double sigma_y,
           int size, int size_y) {
  const std::string name = text("gaussian %s%s point sigma %g x %g size %d x %d", variant.c_str(),
                                name_of(type), sigma, sigma_y, size, size_y);
  if (!context.wants(name)) return;
  GaussianParams params;
  params.sigma = sigma;
  params.sigma_y = sigma_y;
  params.kernel_size = size;
  params.kernel_size_y = size_y;
  const int rx = size / 2, ry = size_y / 2;
  const Layout layout = packed_layout(type, 1, 2 * rx + 21, 2 * ry + 9);
  Frame src(layout), out(layout);
  const double level = type == Type::f32 ? 1 : type == Type::s32 ? 2e9 : 255;
  for (int y = 0; y < layout.plane[0].height; y++)
    for (int x = 0; x < layout.plane[0].width; x++) src.set(0, x, y, 0, 0);
  const int px = rx + 7, py = ry + 4;
  src.set(0, px, py, 0, level);
  std::string failure = filter(context, src, params, &out);
  const auto weight = [](double d, double sd, int radius) {
    double sum = 0;
    for (int i = -radius; i <= radius; i++) sum += std::exp(-0.5 * i * i / (sd * sd));
    return std::abs(d) > radius ? 0 : std::exp(-0.5 * d * d / (sd * sd)) / sum;
  };
  const double limit = type == Type::f32 ? 1e-6 : type == Type::s32 ? 0.51 : 0.6;
  for (int y = 0; y < layout.plane[0].height && failure.empty(); y++)
    for (int x = 0; x < layout.plane[0].width && failure.empty(); x++) {
      const double want = level * weight(x - px, sigma, rx) * weight(y - py, sigma_y, ry);
      const double got = out.get(0, x, y, 0);
      if (!(std::abs(got - want) <= limit))
        failure =
            text("%.9g at %d,%d of the point: the formula says %.9g", got, x - px, y - py, want);
    }
  context.device().release_all();
  context.result(name, failure);
}

// NaN and infinity spread no further than the kernel reaches.
void not_numbers(Context& context, const std::string& variant, int channels, int size) {
  const std::string name =
      text("gaussian %sf32 x%d size %d with NaN and infinity", variant.c_str(), channels, size);
  if (!context.wants(name)) return;
  GaussianParams params;
  params.kernel_size = size;
  params.sigma = size / 4.0;
  const Layout layout = packed_layout(Type::f32, channels, 150, 90);
  Random random = context.random(name);
  Frame src(layout), clean(layout), out(layout);
  src.fill(Pattern::noise, random);
  std::string failure = filter(context, src, params, &clean);
  const double inf = std::numeric_limits<double>::infinity();
  const struct {
    int x, y, channel;
    double value;
  } bad[] = {{31, 22, 0, std::nan("")}, {100, 61, channels - 1, inf}, {77, 40, 0, -inf}};
  for (const auto& b : bad) src.set(0, b.x, b.y, b.channel, b.value);
  if (failure.empty()) failure = filter(context, src, params, &out);
  for (int y = 0; y < 90 && failure.empty(); y++)
    for (int x = 0; x < 150 && failure.empty(); x++)
      for (int c = 0; c < channels; c++) {
        bool reached = false, centre = false;
        for (const auto& b : bad) {
          if (b.channel != c) continue;
          reached |= std::abs(x - b.x) <= size / 2 && std::abs(y - b.y) <= size / 2;
          centre |= x == b.x && y == b.y;
        }
        const double got = out.get(0, x, y, c), want = clean.get(0, x, y, c);
        if (!reached && !(std::abs(got - want) <= 1e-5))
          failure = text("%g at %d,%d channel %d instead of %g", got, x, y, c, want);
        if (centre && std::isfinite(got)) failure = text("%g at %d,%d, which was none", got, x, y);
      }
  context.device().release_all();
  context.result(name, failure);
}

constexpr Border kBorders[] = {Border::replicate, Border::reflect, Border::reflect_101,
                               Border::wrap, Border::constant};

// Describes cases for the same kernels. `prefix` stands before each case's name.
struct Variant {
  Context& context;
  const std::string prefix;
  const std::vector<Type> types;
  void one(const std::string& name, const Layout& layout, const GaussianParams& params,
           Pattern pattern, Geometry geometry = {}) const {
    test::one(context, prefix + name, layout, params, pattern, geometry);
  }
};

void border_and_size_cases(const Variant& v) {
  // Every type, channel count and border at a size that is no multiple of any tile.
  for (const Type type : v.types)
    for (int channels = 1; channels <= 4; channels++)
      for (const Border border : kBorders) {
        GaussianParams params;
        params.sigma = 1.7;
        params.border = border;
        for (int c = 0; c < 4; c++) params.border_value[0][c] = 20 * (c + 1);
        v.one(text("%s x%d %s", name_of(type), channels, name_of(border)),
              packed_layout(type, channels, 133, 71), params, Pattern::noise);
      }

  // These are the kernel sizes along each axis. Each runs with each pattern.
  const int sizes[] = {3, 5, 9, 15, 17, 31, 33, 59, 65, 101, 255};
  for (const Type type : v.types)
    for (const int channels : {1, 4})
      for (const int size : sizes) {
        GaussianParams params;
        params.kernel_size = size;
        params.sigma = sigma_of(size);
        const Pattern pattern = kAllPatterns[size % 6];
        v.one(text("%s x%d size %d", name_of(type), channels, size),
              packed_layout(type, channels, 301, 157), params, pattern);
      }
  for (const Type type : v.types)
    for (const auto& [sx, sy] :
         {std::pair{0.0, 2.0}, {2.0, 0.0}, {0.6, 6.0}, {6.0, 0.6}, {3.0, 11.0}}) {
      GaussianParams params;
      params.sigma = sx;
      params.sigma_y = sy;
      v.one(text("%s sigma %g x %g", name_of(type), sx, sy), packed_layout(type, 1, 203, 90),
            params, Pattern::texture);
    }
}

void shape_cases(const Variant& v) {
  // Frames that are smaller than the kernel, thin, or larger than a tile.
  const std::pair<int, int> shapes[] = {{1, 1},   {1, 50},  {50, 1},  {2, 3},    {7, 5},
                                        {16, 16}, {63, 64}, {65, 17}, {640, 33}, {1023, 61}};
  for (const Type type : v.types)
    for (const int channels : {1, 2, 3, 4})
      for (const auto& [w, h] : shapes)
        for (const Border border :
             {Border::reflect_101, Border::wrap, Border::reflect, Border::constant}) {
          GaussianParams params;
          params.sigma = 4.2;
          params.border = border;
          for (double& v : params.border_value[0]) v = 33;
          v.one(text("%s x%d %dx%d %s", name_of(type), channels, w, h, name_of(border)),
                packed_layout(type, channels, w, h), params, Pattern::noise);
        }

  // These widths and heights are just below, at and above the sizes of tiles.
  for (const Type type : v.types)
    for (const int channels : {1, 2, 3, 4})
      for (const int size : {5, 31, 59}) {
        GaussianParams params;
        params.kernel_size = size;
        params.sigma = sigma_of(size);
        const int strip = channels == 1 ? 256 : 128;
        for (const int w : {strip - 1, strip, strip + 1, 2 * strip + 1})
          for (const int h : {w % 2 ? 15 : 32, w % 2 ? 33 : 49})
            v.one(text("%s x%d size %d %dx%d", name_of(type), channels, size, w, h),
                  packed_layout(type, channels, w, h), params, Pattern::noise);
      }
}

void alignment_cases(const Variant& v) {
  // Aligned rows whose memory ends with the last component, at every width modulo 16.
  for (const Type type : v.types)
    for (const int channels : {1, 2, 3, 4})
      for (int w = 240; w <= 256; w++) {
        GaussianParams params;
        params.sigma = 1.2;
        params.border = kBorders[w % 5];
        const Layout layout = packed_layout(type, channels, w, 19);
        const int row = int(row_bytes(layout, 0));
        v.one(text("%s x%d tight %d", name_of(type), channels, w), layout, params, Pattern::noise,
              {(row + 16) / 16 * 16 - row, 0, true});
      }

  // Rows that are not aligned, and planes with any start.
  for (const Type type : v.types)
    for (const int channels : {1, 2, 3, 4})
      for (const Geometry geometry :
           {Geometry{1, 0}, Geometry{5, 4}, Geometry{12, 8}, Geometry{16, 16}}) {
        GaussianParams params;
        params.sigma = 2.5;
        v.one(text("%s x%d padding %d offset %d", name_of(type), channels, geometry.stride_padding,
                   geometry.offset),
              packed_layout(type, channels, 211, 43), params, Pattern::noise, geometry);
      }
}

void channel_cases(const Variant& v) {
  // Channels that are not selected are copied.
  for (const Type type : v.types)
    for (const int mask : {0x0, 0x1, 0x7, 0xe}) {
      for (const int channels : {2, 3, 4})
        for (const int size : {7, 25, 55}) {
          GaussianParams params;
          params.channels[0] = uint8_t(mask);
          params.kernel_size = size;
          params.sigma = sigma_of(size);
          v.one(text("%s x%d channels 0x%x size %d", name_of(type), channels, mask, size),
                packed_layout(type, channels, 119, 47), params, Pattern::noise);
        }
    }
}

void tile_cases(const Variant& v) {
  // Frames are so large that a persistent block filters several tiles of a column and continues
  // with the next column.
  for (const Type type : v.types) {
    GaussianParams params;
    params.sigma = 2.1;
    v.one(text("%s x4 many tiles", name_of(type)), packed_layout(type, 4, 1101, 701), params,
          Pattern::texture);
    if (type == Type::u8)
      for (const int channels : {1, 2, 3})
        v.one(text("u8 x%d many tiles", channels),
              packed_layout(type, channels, 1501, 1803 / channels), params, Pattern::texture);
  }

  // These are the largest kernels along one axis.
  for (const Type type : v.types)
    for (const auto& [sx, sy] : {std::pair{511, 3}, {3, 511}}) {
      GaussianParams params;
      params.kernel_size = sx;
      params.kernel_size_y = sy;
      params.sigma = sx / 6.0;
      params.sigma_y = sy / 6.0;
      v.one(text("%s size %dx%d", name_of(type), sx, sy), packed_layout(type, 4, 157, 83), params,
            Pattern::texture);
    }
}

void format_cases(const Variant& v) {
  // Layouts of video formats have subsampled chroma, shared memory and unused bits.
  for (const double sigma : {0.8, 1.5, 5.0}) {
    GaussianParams params;
    params.sigma = sigma;
    for (const auto& [format, layout] : video_layouts())
      v.one(text("%s sigma %g", format, sigma), layout, params, Pattern::noise);
    Layout rgb_padded = packed_layout(Type::u8, 3, 131, 50);
    rgb_padded.plane[0].step = 4;
    v.one(text("x3 step 4 sigma %g", sigma), rgb_padded, params, Pattern::noise);
  }

  // These formats have 10 or 12 bits in the high or low bits of 16. They run with several sizes,
  // partial tiles and border colours.
  const struct { int max_value, shift; } depths[] = {{1023, 6}, {1023, 0}, {4095, 4}, {4095, 0}};
  if (std::find(v.types.begin(), v.types.end(), Type::u16) != v.types.end())
    for (const auto& depth : depths)
      for (const int channels : {1, 2, 4})
        for (const int size : {3, 9, 31, 59, 101}) {
          GaussianParams params;
          params.kernel_size = size;
          params.sigma = sigma_of(size);
          params.border = kBorders[size % 5];
          for (double& v : params.border_value[0]) v = depth.max_value - 7;
          Layout layout = packed_layout(Type::u16, channels, 149 + size, 67);
          layout.max_value = depth.max_value;
          layout.shift = depth.shift;
          v.one(text("%d of 16 bits shift %d x%d size %d", depth.max_value, depth.shift, channels,
                     size),
                layout, params, kAllPatterns[(size + channels) % 6]);
          if (channels == 1 || size != 31) continue;
          params.channels[0] = 0x1;
          v.one(text("%d of 16 bits shift %d x%d channels 0x1", depth.max_value, depth.shift,
                     channels),
                layout, params, Pattern::noise);
        }
}

void cpu_cases(const Variant& v) {
  // Short kernels on frames that are so large that the CPU's threads share the rows.
  for (const Type type : v.types)
    for (const int size : {3, 5, 7, 9})
      for (const Border border : {Border::reflect_101, Border::wrap}) {
        GaussianParams params;
        params.kernel_size = size;
        params.sigma = size / 5.0;
        params.border = border;
        v.one(text("shared %s size %d %s", name_of(type), size, name_of(border)),
              packed_layout(type, 1, 1213, 307), params, Pattern::noise);
      }

  // The CPU divides frames that are much wider than the kernel into strips. These have each border,
  // and run in place, where strips need their neighbours' columns.
  for (const Border border : kBorders)
    for (const int channels : {1, 2, 3, 4})
      for (const Type type : {Type::u8, Type::f32}) {
        GaussianParams params;
        params.sigma = 9;
        params.kernel_size = 129;
        params.kernel_size_y = 61;
        params.border = border;
        for (double& v : params.border_value[0]) v = 200;
        v.one(text("wide %s x%d %s", name_of(type), channels, name_of(border)),
              packed_layout(type, channels, 3001 / channels + 701, 37), params, Pattern::noise);
      }
  for (const Type type : v.types) {
    GaussianParams params;
    params.sigma = 70;
    params.sigma_y = 40;
    params.kernel_size = 511;
    params.kernel_size_y = 301;
    params.border = Border::wrap;
    v.one(text("wide %s size 511x301", name_of(type)), packed_layout(type, 1, 1601, 33), params,
          Pattern::texture);
    params.kernel_size_y = 511;
    v.one(text("high %s size 511", name_of(type)), packed_layout(type, 2, 41, 1203), params,
          Pattern::noise);
  }
}

void short_cases(const Variant& v) {
  // Gray u16 with at most 5 taps, for which the streaming kernel has its own code, with whole
  // vectors, each border and pattern, and rows with and without padding.
  if (std::find(v.types.begin(), v.types.end(), Type::u16) == v.types.end()) return;
  const std::pair<int, int> shapes[] = {{8, 9},   {16, 1},   {16, 2},   {24, 3},   {232, 5},
                                        {240, 7}, {248, 17}, {480, 33}, {488, 64}, {1920, 131}};
  const std::pair<int, int> sizes[] = {{3, 3}, {5, 5}, {3, 5}, {5, 3}, {1, 5}, {3, 1}};
  int n = 0;
  for (const auto& [w, h] : shapes)
    for (const auto& [sx, sy] : sizes)
      for (const Border border : kBorders) {
        GaussianParams params;
        params.kernel_size = sx;
        params.kernel_size_y = sy;
        params.sigma = n % 3 ? 0.9 : 7;
        params.sigma_y = n % 4 ? 1.3 : 0.4;
        params.border = border;
        params.border_value[0][0] = 54321;
        v.one(text("short u16 %dx%d size %dx%d %s", w, h, sx, sy, name_of(border)),
              packed_layout(Type::u16, 1, w, h), params, kAllPatterns[n % 6],
              {n % 2 ? 16 * (n % 5) : 0, 16 * (n % 3), n % 7 == 0});
        n++;
      }
}

void weight_cases(const Variant& v) {
  // The 261121 weights of the largest kernel must add up to one.
  for (const Type type : v.types)
    for (const Pattern pattern : {Pattern::flat, Pattern::gradient}) {
      GaussianParams params;
      params.sigma = 200;
      params.kernel_size = 511;
      v.one(text("%s size 511 sigma 200", name_of(type)), packed_layout(type, 1, 90, 61), params,
            pattern);
    }
  // Most of the kernel is nothing: 59 taps for a sigma of 1.
  for (const Type type : v.types) {
    GaussianParams params;
    params.sigma = 1;
    params.kernel_size = 59;
    params.border = Border::reflect;
    v.one(text("%s size 59 sigma 1", name_of(type)), packed_layout(type, 1, 496, 472), params,
          Pattern::texture);
    params.sigma = 0.05;
    v.one(text("%s size 59 sigma 0.05", name_of(type)), packed_layout(type, 3, 201, 77), params,
          Pattern::noise);
  }
}

void gap_cases(const Variant& v) {
  // Gaps between pixels, together with channels that are not selected, for each type.
  for (const Type type : v.types)
    for (int channels = 1; channels <= 4; channels++)
      for (const double sigma : {0.7, 3.0}) {
        Layout layout = packed_layout(type, channels, 149, 53);
        layout.plane[0].step = channels + 1;
        GaussianParams params;
        params.sigma = sigma;
        v.one(text("%s x%d step %d sigma %g", name_of(type), channels, channels + 1, sigma), layout,
              params, Pattern::noise);
        params.channels[0] = 0x6;
        v.one(text("%s x%d step %d sigma %g channels 0x6", name_of(type), channels, channels + 1,
                   sigma),
              layout, params, Pattern::noise);
        layout.plane[0].step = channels;
        v.one(text("%s x%d sigma %g channels 0x6", name_of(type), channels, sigma), layout, params,
              Pattern::noise);
      }
}

void value_cases(const Variant& v) {
  for (const Type type : v.types) {
    point(v.context, v.prefix, type, 0.8, 0.8, 3, 3);
    point(v.context, v.prefix, type, 2.1, 1.1, 13, 7);
    point(v.context, v.prefix, type, 9.5, 21, 59, 127);
  }
  if (v.types.back() != Type::f32) return;
  for (const int channels : {1, 3, 4})
    for (const int size : {3, 5, 9, 31, 35}) not_numbers(v.context, v.prefix, channels, size);
}

void all_cases(const Variant& v) {
  border_and_size_cases(v);
  shape_cases(v);
  alignment_cases(v);
  channel_cases(v);
  tile_cases(v);
  format_cases(v);
  cpu_cases(v);
  short_cases(v);
  weight_cases(v);
  gap_cases(v);
  value_cases(v);
}

// Values out of range are refused with a message that names them.
void refusals(Context& context) {
  const auto expect = [&](const char* what, const Layout& layout, const GaussianParams& params,
                          const char* word) {
    std::unique_ptr<Plan> plan;
    context.refused(
        text("gaussian refuses %s", what),
        make_gaussian(context.device().queue(), layout, params, Placement::separate, &plan), word);
  };
  const auto with = [](auto&& change) {
    GaussianParams p;
    change(p);
    return p;
  };
  const Layout gray = packed_layout(Type::u8, 1, 8, 8), gray16 = packed_layout(Type::u16, 1, 8, 8);
  expect("a negative sigma", gray, with([](auto& p) { p.sigma = -2; }), "sigma is -2");
  expect("sigma NaN", gray, with([](auto& p) { p.sigma = NAN; }), "sigma is nan");
  expect("an infinite sigma-y", gray, with([](auto& p) { p.sigma_y = INFINITY; }),
         "sigma-y is inf");
  expect("sigma 86 of 8 bit", gray, with([](auto& p) { p.sigma = 86; }), "sigma is 86");
  expect("sigma 65 of 16 bit", gray16, with([](auto& p) { p.sigma = 65; }), "sigma is 65");
  expect("an even size", gray, with([](auto& p) { p.kernel_size = 4; }), "kernel-size is 4");
  expect("a negative size", gray, with([](auto& p) { p.kernel_size = -3; }), "kernel-size is -3");
  expect("a size too large", gray, with([](auto& p) { p.kernel_size_y = 513; }),
         "kernel-size-y is 513");
  expect("border shrink", gray, with([](auto& p) { p.border = Border::shrink; }),
         "border is shrink");
  const auto color = [&](double v) {
    return with([&](auto& p) {
      p.border = Border::constant;
      p.border_value[0][0] = v;
    });
  };
  expect("a border value above 8 bit", gray, color(256), "border value is 256");
  expect("a border value below 0", gray16, color(-1), "border value is -1");
  expect("a border value NaN", packed_layout(Type::f32, 1, 8, 8), color(NAN),
         "border value is nan");
  Layout ten = gray16;
  ten.max_value = 1023;
  expect("a border value above 10 bit", ten, color(1024), "border value is 1024");
  expect("no width", packed_layout(Type::u8, 1, 0, 8), {}, "plane 0 is 0x8");
  expect("five channels", packed_layout(Type::u8, 5, 8, 8), {}, "plane 0 has 5 channels");
}

// Cases that are also timed.
void timed_cases(Context& context) {
  struct Format {
    const char* frame;
    Layout layout;
  };
  const auto timed = [&](const Format& format, const std::string& name,
                         const GaussianParams& params, auto&& change) {
    TimedCase row;
    row.frame = format.frame;
    row.parameters = name;
    row.src = row.dst = format.layout;
    row.tolerance = gaussian_contract(format.layout.type);
    row.make = [params](Queue& queue, const Layout& layout, const Layout&, Placement placement,
                        std::unique_ptr<Plan>* plan) {
      return make_gaussian(queue, layout, params, placement, plan);
    };
    row.params = params;
    change(row);
    context.timed(row);
  };
  const auto sized = [&](const Format& format, int size, const char* note, auto&& change) {
    GaussianParams params;
    params.kernel_size = size;
    params.sigma = sigma_of(size);
    timed(format, text("%dx%d%s", size, size, note), params, change);
  };
  const Format sizes[] = {
      {"2160p RGBA", packed_layout(Type::u8, 4, 3840, 2160)},
      {"2160p gray", packed_layout(Type::u8, 1, 3840, 2160)},
      {"1080p RGBA", packed_layout(Type::u8, 4, 1920, 1080)},
      {"1080p gray", packed_layout(Type::u8, 1, 1920, 1080)},
      {"2160p gray16", packed_layout(Type::u16, 1, 3840, 2160)},
  };
  for (const Format& f : sizes)
    for (const int size : {3, 5, 9, 15, 31, 59, 101, 255})
      sized(f, size, "", [&](TimedCase& row) {
        const PlaneLayout& l = f.layout.plane[0];
        row.quick = l.channels == 4 && (size == 5 || size == 15 || size == 59);
        row.cpu = l.width == 1920 && size <= 59;
      });

  const Format gray16 = {"1080p gray16", packed_layout(Type::u16, 1, 1920, 1080)};
  for (const int size : {3, 5, 15}) sized(gray16, size, "", [](TimedCase&) {});

  // These frames have other sizes than 1080p and 2160p above.
  for (const Format& f : {Format{"360p RGBA", packed_layout(Type::u8, 4, 640, 360)},
                          {"720p RGBA", packed_layout(Type::u8, 4, 1280, 720)},
                          {"1440p RGBA", packed_layout(Type::u8, 4, 2560, 1440)},
                          {"4320p RGBA", packed_layout(Type::u8, 4, 7680, 4320)}})
    for (const int size : {15, 59}) sized(f, size, "", [](TimedCase&) {});

  for (const Format& f : {Format{"1080p NV12", nv12_layout(1920, 1080)},
                          {"1080p RGBA", sizes[2].layout},
                          {"2160p NV12", nv12_layout(3840, 2160)},
                          {"2160p P010", p010_layout(3840, 2160)},
                          {"2160p I420", i420_layout(3840, 2160)},
                          {"2160p RGB", packed_layout(Type::u8, 3, 3840, 2160)},
                          {"1080p f32", packed_layout(Type::f32, 1, 1920, 1080)}})
    for (const double sigma : {1.5, 5.0}) {
      GaussianParams params;
      params.sigma = sigma;
      timed(f, text("sigma %.1f", sigma), params, [&](TimedCase& row) {
        const bool in_pipeline = f.layout.plane[0].width == 1920 && f.layout.type == Type::u8;
        row.quick = in_pipeline && f.layout.planes == 2;
        if (in_pipeline) row.element = text("cudagaussian sigma=%.1f", sigma);
      });
    }

  // Filtering in place, to compare with the same rows above.
  for (const Format& f : {sizes[0], sizes[2]})
    for (const int size : {5, 15, 31})
      sized(f, size, " in place", [&](TimedCase& row) {
        row.in_place = true;
        row.quick = size == 15;
      });

  // Most weights of this kernel are negligible.
  GaussianParams narrow;
  narrow.kernel_size = 59;
  narrow.sigma = 1;
  timed({"496x472 gray", packed_layout(Type::u8, 1, 496, 472)}, "59x59 sigma 1", narrow,
        [](TimedCase& row) { row.quick = row.cpu = true; });
}

}  // namespace

void gaussian_cases(Context& context) {
  refusals(context);
  timed_cases(context);
  all_cases({context, "", {Type::u8, Type::u16, Type::s16, Type::s32, Type::f32}});
#if VF_HAVE_CUDA
  // Kernels that would not be chosen for this device or these sizes.
  if (context.backend() != "cuda") return;
  using Kernels = cuda::KernelLimits::Gaussian;
  Kernels& kernels =
      static_cast<cuda::CudaQueue&>(context.device().queue()).kernel_limits().gaussian;
  kernels = Kernels::two_pass;
  all_cases({context, "two-pass ", {Type::u8, Type::u16}});
  kernels = Kernels::streaming;
  all_cases({context, "streaming ", {Type::u8, Type::u16}});
  kernels = Kernels::fallback;
  all_cases({context, "fallback ", {Type::u8, Type::u16, Type::s32, Type::f32}});
  kernels = Kernels::all;
#endif
}

}  // namespace vf::test
