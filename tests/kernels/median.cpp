#include <cmath>
#include <cstdarg>

#include "filters/median.h"
#if VF_HAVE_CUDA
#include "cuda/core/queue.h"
#endif
#include "tests/kernels/harness.h"
#include "tests/median.h"

namespace vf::test {
namespace {

constexpr Type kTypes[] = {Type::u8, Type::u16, Type::f32};
constexpr Border kBorders[] = {Border::replicate, Border::reflect_101, Border::constant,
                               Border::shrink};

MedianParams window(int size, int size_y, Border border) {
  MedianParams params;
  params.size = size;
  params.size_y = size_y;
  params.border = border;
  // Border values differ by channel and fit every type.
  for (auto& plane : params.border_value)
    for (int c = 0; c < kMaxChannels; c++) plane[c] = 40 * (c + 1);
  return params;
}

// Checks one case. The median selects a value of the window, so there is no tolerance.
void one(Context& context, const std::string& name, const Layout& layout,
         const MedianParams& params, Pattern pattern, Geometry geometry = {}) {
  context.check(text("median %s %s %s", name.c_str(), name_of(params.border), name_of(pattern)),
                layout, layout, pattern, geometry, median_contract(), true,
                [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                  return make_median(queue, layout, params, placement, plan);
                });
}

// Filters f32 frames with NaN of both signs, infinities and both zeros. Results are compared by
// their bits, except for the payload of a NaN.
void special_values(Context& context, int size, Border border, const std::string& note = {},
                    double threshold = 0) {
  const std::string name =
      text("median f32 special values size %d %s", size, name_of(border)) + note;
  if (!context.wants(name)) return;
  Random random = context.random(name);
  const Layout layout = packed_layout(Type::f32, 1, 61, 27);
  Frame src(layout), want(layout), got(layout);
  const float values[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f, -1.0f, 1e-40f};
  for (int y = 0; y < 27; y++)
    for (int x = 0; x < 61; x++) src.set(0, x, y, 0, double(values[random.between(0, 8)]));
  MedianParams params = window(size, 0, border);
  params.threshold = threshold;
  auto run = [&]() -> std::string {
    std::unique_ptr<Queue> reference;
    QueueOptions options;
    options.backend = Backend::reference;
    if (Status s = make_queue(options, &reference); !s.ok()) return s.message();
    std::unique_ptr<Plan> right, plan;
    if (Status s = make_median(*reference, layout, params, Placement::separate, &right); !s.ok())
      return s.message();
    if (Status s = right->run(src.image(), want.image()); !s.ok()) return s.message();
    Queue& queue = context.device().queue();
    if (Status s = make_median(queue, layout, params, Placement::separate, &plan); !s.ok())
      return s.message();
    const Image in = context.device().upload(src), out = context.device().upload(got);
    if (Status s = plan->run(in, out); !s.ok()) return s.message();
    if (Status s = queue.sync(); !s.ok()) return s.message();
    context.device().download(out, &got);
    for (int y = 0; y < 27; y++)
      for (int x = 0; x < 61; x++) {
        const double g = got.get(0, x, y, 0), w = want.get(0, x, y, 0);
        const bool same =
            std::isnan(w) ? std::isnan(g) : g == w && std::signbit(g) == std::signbit(w);
        if (!same) return text("at x %d y %d: got %g, want %g", x, y, g, w);
      }
    return {};
  };
  const std::string failure = run();
  context.device().release_all();
  context.result(name, failure);
}

// Checks a random window, type, border and frame.
void random_case(Context& context, const std::string& name, int largest) {
  Random random = context.random("median " + name);
  const Type type = kTypes[random.between(0, 2)];
  const int most = largest / 2;
  const int sx = random.between(0, random.between(0, most)) * 2 + 1;
  const int sy = random.between(0, 1) ? sx : random.between(0, random.between(0, most)) * 2 + 1;
  Layout layout =
      packed_layout(type, random.between(1, 4), random.between(1, 90), random.between(1, 40));
  layout.plane[0].step = layout.plane[0].channels + random.between(0, 1);
  MedianParams params = window(sx, sy, kBorders[random.between(0, 3)]);
  params.channels[0] = uint8_t(random.between(1, 15));
  if (random.between(0, 2) == 0) params.threshold = random.between(1, 2550) / 10.0;
  const Geometry geometry = {random.between(0, 20), random.between(0, 20)};
  one(context,
      text("%s %s x%d step %d %dx%d size %dx%d threshold %g", name.c_str(), name_of(type),
           layout.plane[0].channels, layout.plane[0].pixel_step(), layout.plane[0].width,
           layout.plane[0].height, sx, sy, params.threshold),
      layout, params, kAllPatterns[random.between(0, 5)], geometry);
}

// Tests thresholds with every kernel, for values just at the threshold and beyond.
void threshold_cases(Context& context) {
  for (const Type type : kTypes)
    for (const Border border : kBorders)
      for (const int size : {3, 5, 9, 17, 33})
        for (const auto& [threshold, pattern] : {std::pair{0.5, Pattern::texture},
                                                 {20.0, Pattern::noise},
                                                 {64.0, Pattern::impulses},
                                                 {255.0, Pattern::noise}}) {
          if (size == 33 && threshold > 20) continue;
          MedianParams params = window(size, size == 9 ? 5 : 0, border);
          params.threshold = threshold;
          for (const int channels : {1, 3, 4})
            one(context,
                text("%s x%d size %d threshold %g", name_of(type), channels, size, threshold),
                packed_layout(type, channels, 83, 37), params, pattern);
        }
  // A value at the threshold stays, and the next one is replaced. Only the whole part of a
  // threshold counts.
  for (const auto& [threshold, replaced] :
       {std::pair{39.0, true}, {39.9, true}, {40.0, false}, {40.5, false}}) {
    const std::string name = text("median threshold %g", threshold);
    if (!context.wants(name)) continue;
    const Layout layout = packed_layout(Type::u8, 1, 5, 5);
    Frame src(layout), got(layout);
    for (int i = 0; i < 25; i++) src.set(0, i % 5, i / 5, 0, i == 12 ? 140 : 100);
    MedianParams params = window(3, 0, Border::replicate);
    params.threshold = threshold;
    std::unique_ptr<Plan> plan;
    Queue& queue = context.device().queue();
    std::string failure;
    Status s = make_median(queue, layout, params, Placement::separate, &plan);
    const Image in = context.device().upload(src), out = context.device().upload(got);
    if (s.ok()) s = plan->run(in, out);
    if (s.ok()) s = queue.sync();
    if (!s.ok()) failure = s.message();
    context.device().download(out, &got);
    const double want = replaced ? 100 : 140;
    if (failure.empty() && got.get(0, 2, 2, 0) != want)
      failure = text("got %g, want %g", got.get(0, 2, 2, 0), want);
    context.device().release_all();
    context.result(name, failure);
  }
  for (const auto& [format, layout] : video_layouts()) {
    MedianParams params = window(5, 0, Border::replicate);
    params.threshold = 24;
    one(context, text("%s size 5 threshold 24", format), layout, params, Pattern::noise);
  }
  // Windows that need the widest tiles.
  for (const Type type : kTypes) {
    MedianParams params = window(255, 3, Border::constant);
    params.threshold = 4;
    one(context, text("%s x4 size 255x3 threshold 4", name_of(type)),
        packed_layout(type, 4, 131, 19), params, Pattern::texture);
  }
  for (const Border border : kBorders) {
    special_values(context, 5, border, " threshold 24", 24);
    MedianParams params = window(5, 0, border);
    params.threshold = 24;
    one(context, "u8 x3 size 5 threshold 24 unaligned", packed_layout(Type::u8, 3, 101, 33), params,
        Pattern::noise, {13, 5});
    params.channels[0] = 0x5;
    one(context, "u16 x4 size 5 threshold 24 channels 0x5", packed_layout(Type::u16, 4, 61, 33),
        params, Pattern::noise);
  }
}

#if VF_HAVE_CUDA
// The CUDA backend's tile sort on planes that faster kernels would take. Chunks are so small that
// medians lie several chunks away from the middle, as on slopes, and that equal values go to
// several chunks.
void tile_sort_cases(Context& context) {
  cuda::KernelLimits& limits =
      static_cast<cuda::CudaQueue&>(context.device().queue()).kernel_limits();
  limits.median_tile_sort_only = true;
  int turn = 0;
  for (const int capacity : {0, 32, 256, 2048}) {
    limits.median_tile_sort_capacity = capacity;
    for (const Type type : kTypes)
      for (const Border border : kBorders)
        for (const int size : {3, 31, 33, 43}) {
          // Small chunks take long with the windows of a tile this large.
          if (capacity == 32 && size > 31) continue;
          // Frames have several tiles, and the last ones are narrow.
          const Layout layout =
              size == 3 ? packed_layout(type, 1, 133, 35) : packed_layout(type, 1, 37, 23);
          const std::string name = text("tile sort %d %s size %d", capacity, name_of(type), size);
          one(context, name, layout, window(size, 0, border), kAllPatterns[turn++ % 6]);
          if (capacity)
            one(context, name + " slope", layout, window(size, 0, border), Pattern::gradient);
        }
    for (const Border border : kBorders)
      special_values(context, 7, border, text(" tile sort %d", capacity));
    for (int i = 0; i < 30; i++)
      random_case(context, text("tile sort %d random %d", capacity, i), 41);
  }
  limits = {};
}
#endif

void refused(Context& context, const char* what, const Layout& layout, const MedianParams& params,
             const char* named) {
  std::unique_ptr<Plan> plan;
  context.refused(text("median refuses %s", what),
                  make_median(context.device().queue(), layout, params, Placement::separate, &plan),
                  named);
}

// Cases that are also timed.
void timed_cases(Context& context) {
  struct Format {
    const char* frame;
    Layout layout;
  };
  const auto timed = [&](const Format& format, const MedianParams& params, const char* note,
                         auto&& change) {
    const int w = params.size, h = params.size_y ? params.size_y : w;
    TimedCase row;
    row.frame = format.frame;
    row.parameters = text("%dx%d%s", w, h, note);
    row.src = row.dst = format.layout;
    row.tolerance = median_contract();
    row.make = [params](Queue& queue, const Layout& layout, const Layout&, Placement placement,
                        std::unique_ptr<Plan>* plan) {
      return make_median(queue, layout, params, placement, plan);
    };
    if (!*note) row.params = params;
    change(row);
    context.timed(row);
  };
  const auto nothing = [](TimedCase&) {};
  const Format frames[] = {
      {"1080p gray", packed_layout(Type::u8, 1, 1920, 1080)},
      {"1080p gray16", packed_layout(Type::u16, 1, 1920, 1080)},
      {"1080p RGBA", packed_layout(Type::u8, 4, 1920, 1080)},
      {"1080p f32", packed_layout(Type::f32, 1, 1920, 1080)},
      {"2160p RGBA", packed_layout(Type::u8, 4, 3840, 2160)},
  };
  for (const Format& f : frames)
    for (const int k : {3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 31, 51, 75, 127}) {
      const bool bytes = f.layout.type == Type::u8, large = f.layout.plane[0].width > 1920;
      // Larger windows of bytes are not timed.
      if (k > 75 && bytes) continue;
      timed(f, window(k, 0, Border::replicate), "", [&](TimedCase& row) {
        row.quick = !large && (k == 5 || k == 15 || k == 31);
        row.cpu = !large && (k < 11 || k == 15 || k == 21 || k == 31 || (k == 75 && bytes));
        if (&f == &frames[2] && (k == 3 || k == 15)) row.element = text("cudamedian size=%d", k);
      });
    }
  for (const Format& f : {Format{"1080p NV12", nv12_layout(1920, 1080)},
                          {"2160p P010", p010_layout(3840, 2160)},
                          {"1080p RGB", packed_layout(Type::u8, 3, 1920, 1080)}})
    for (const int k : {3, 5, 15})
      timed(f, window(k, 0, Border::replicate), "", [&](TimedCase& row) {
        if (f.layout.planes == 2 && f.layout.type == Type::u8 && k != 5)
          row.element = text("cudamedian size=%d", k);
      });

  // Other borders, windows that are not square, and filtering in place.
  for (const int k : {3, 5, 15, 31}) {
    timed(frames[0], window(k, 0, Border::shrink), " shrink", nothing);
    timed(frames[0], window(k, 0, Border::replicate), " in place",
          [](TimedCase& row) { row.in_place = true; });
  }
  // The switching median. The frames are noise, so that nearly every pixel is looked at.
  for (const Format& f : {frames[0],
                          frames[1],
                          frames[2],
                          {"1080p NV12", nv12_layout(1920, 1080)},
                          {"1080p RGB", packed_layout(Type::u8, 3, 1920, 1080)}})
    for (const int k : {3, 5, 15}) {
      MedianParams params = window(k, 0, Border::replicate);
      params.threshold = 32;
      timed(f, params, " threshold 32", [&](TimedCase& row) { row.cpu = k < 15; });
    }
#if VF_HAVE_CUDA
  // The tile sort where another kernel is chosen, which shows whether the crossover is right.
  if (context.backend() == "cuda")
    for (const auto& [f, k] : {std::pair{0, 15},
                               {0, 17},
                               {0, 21},
                               {0, 31},
                               {0, 75},
                               {1, 15},
                               {1, 17},
                               {1, 19},
                               {3, 9},
                               {3, 11},
                               {3, 13}})
      timed(frames[f], window(k, 0, Border::replicate), " tile sort", [](TimedCase& row) {
        row.make = [make = row.make](Queue& queue, const Layout& src, const Layout& dst,
                                     Placement placement, std::unique_ptr<Plan>* plan) {
          // The reference makes the row's plan, too.
          if (queue.backend() != Backend::cuda) return make(queue, src, dst, placement, plan);
          bool& only = static_cast<cuda::CudaQueue&>(queue).kernel_limits().median_tile_sort_only;
          only = true;
          const Status status = make(queue, src, dst, placement, plan);
          only = false;
          return status;
        };
      });
#endif
  for (const auto& [w, h] : {std::pair{3, 5}, {9, 5}, {31, 9}})
    timed(frames[0], window(w, h, Border::replicate), "", nothing);
}

}  // namespace

void median_cases(Context& context) {
  timed_cases(context);
  // Every type, channel count and border at a size that is no multiple of any tile.
  for (const Type type : kTypes)
    for (int channels = 1; channels <= 4; channels++)
      for (const Border border : kBorders)
        for (const int size : {3, 5, 9})
          one(context, text("%s x%d size %d", name_of(type), channels, size),
              packed_layout(type, channels, 133, 71), window(size, 0, border), Pattern::noise);

  // Every window with its own code, and the windows next to each change of kernel. Most frames
  // shrink as the windows grow, because the reference is slow.
  const int sizes[] = {1,  3,  5,   7,   9,   11,  13,  15,  17,  19,  21,  23,  25,
                       27, 29, 31,  33,  35,  37,  39,  41,  43,  45,  47,  49,  51,
                       53, 55, 57,  59,  61,  63,  65,  67,  69,  75,  81,  83,  89,
                       97, 99, 101, 107, 113, 119, 125, 127, 129, 131, 149, 193, 255};
  for (const Type type : kTypes)
    for (const int channels : {1, 4})
      for (const int size : sizes) {
        if (channels == 4 && size > 31 && size % 25) continue;
        if (type == Type::f32 && size > 15 && size % 16 != 1 && size != 51 && size != 75) continue;
        int w = 301, h = 57;
        if (size > 15) w = type == Type::u8 ? 523 : 97, h = 19;
        if (size > 31) w = size % 10 == 1 ? 523 : 67, h = 9;
        if (size > 75) w = size % 10 == 1 ? 289 : 41, h = size > 127 ? 3 : 6;
        const Border border = kBorders[size / 2 % 4];
        one(context, text("%s x%d size %d", name_of(type), channels, size),
            packed_layout(type, channels, w, h), window(size, 0, border),
            kAllPatterns[size / 2 % 6]);
      }
  // No window has more equal pixels.
  for (const Type type : kTypes)
    one(context, text("%s size 255 replicate", name_of(type)), packed_layout(type, 1, 5, 2),
        window(255, 0, Border::replicate), Pattern::flat);
  // Frames with more than one strip of rows, where windows are shared vertically.
  for (const Type type : kTypes)
    for (const Border border : kBorders) {
      one(context, text("%s tall size 5", name_of(type)), packed_layout(type, 1, 67, 517),
          window(5, 0, border), Pattern::texture);
      one(context, text("%s tall size 17", name_of(type)), packed_layout(type, 1, 35, 291),
          window(17, 0, border), Pattern::texture);
      one(context, text("%s tall size 33", name_of(type)), packed_layout(type, 1, 37, 97),
          window(33, 0, border), Pattern::impulses);
    }

  // The width and height of these windows differ.
  const std::pair<int, int> windows[] = {{1, 3},  {3, 1},   {3, 5},   {5, 3},   {7, 3},   {1, 31},
                                         {31, 1}, {9, 15},  {33, 3},  {3, 33},  {65, 5},  {5, 67},
                                         {21, 9}, {37, 41}, {1, 255}, {255, 1}, {101, 7}, {97, 33}};
  for (const Type type : kTypes)
    for (const auto& [w, h] : windows) {
      one(context, text("%s size %dx%d", name_of(type), w, h), packed_layout(type, 1, 83, 37),
          window(w, h, kBorders[(w + h) / 2 % 4]), Pattern::noise);
      one(context, text("%s x2 size %dx%d", name_of(type), w, h), packed_layout(type, 2, 43, 11),
          window(w, h, Border::shrink), Pattern::texture);
    }

  // These frames are tiny or thin, and some are much smaller than the window.
  const std::pair<int, int> shapes[] = {{1, 1},  {2, 1},  {1, 2}, {2, 2},   {3, 2},
                                        {1, 40}, {40, 1}, {7, 5}, {16, 16}, {33, 2}};
  for (const Type type : kTypes)
    for (const auto& [w, h] : shapes)
      for (const int size : {3, 5, 7, 15, 21, 31, 51}) {
        if (size > 21 && w * h > 40) continue;
        const Border border = kBorders[(size / 2 + w + h) % 4];
        for (const int channels : {1, 4})
          one(context, text("%s x%d %dx%d size %d", name_of(type), channels, w, h, size),
              packed_layout(type, channels, w, h), window(size, 0, border), Pattern::noise);
      }

  // Strides and starts that are not aligned, and gaps between pixels.
  for (const Type type : kTypes)
    for (int channels = 1; channels <= 4; channels++)
      for (const int size : {3, 7, 17}) {
        const Layout layout = packed_layout(type, channels, 101, 33);
        one(context, text("%s x%d size %d unaligned", name_of(type), channels, size), layout,
            window(size, 0, Border::replicate), Pattern::noise, {13, 5});
        Layout padded = layout;
        padded.plane[0].step = channels + 1;
        one(context, text("%s x%d step %d size %d", name_of(type), channels, channels + 1, size),
            padded, window(size, 0, Border::reflect_101), Pattern::noise);
      }

  // Channels that are not selected are copied.
  for (const Type type : kTypes)
    for (const int mask : {0x0, 0x1, 0x7, 0xe, 0xa})
      for (const int size : {3, 5, 17}) {
        MedianParams params = window(size, 0, Border::replicate);
        params.channels[0] = uint8_t(mask);
        one(context, text("%s channels 0x%x size %d", name_of(type), mask, size),
            packed_layout(type, 4, 119, 27), params, Pattern::noise);
      }

  // Layouts of video formats have subsampled chroma, shared memory and unused bits.
  for (const int size : {3, 5, 9, 19})
    for (const Border border : {Border::replicate, Border::shrink}) {
      const MedianParams params = window(size, 0, border);
      for (const auto& [format, layout] : video_layouts())
        one(context, text("%s size %d", format, size), layout, params, Pattern::noise);
    }

  for (const int size : {3, 5, 7, 13, 15, 17, 33})
    for (const Border border : kBorders) special_values(context, size, border);

  threshold_cases(context);
  for (int i = 0; i < 120; i++) random_case(context, text("random %d", i), 49);
#if VF_HAVE_CUDA
  if (context.backend() == "cuda") tile_sort_cases(context);
#endif

  const Layout gray = packed_layout(Type::u8, 1, 8, 8);
  refused(context, "an even size", gray, window(4, 0, Border::replicate), "size is 4");
  refused(context, "a negative size", gray, window(-1, 0, Border::replicate), "size is -1");
  refused(context, "a size too large", gray, window(257, 0, Border::replicate), "size is 257");
  refused(context, "an even size-y", gray, window(3, 6, Border::replicate), "size-y is 6");
  refused(context, "border wrap", gray, window(3, 0, Border::wrap), "border is wrap");
  refused(context, "border reflect", gray, window(3, 0, Border::reflect), "border is reflect");
  refused(context, "s16", packed_layout(Type::s16, 1, 8, 8), window(3, 0, Border::replicate),
          "s16");
  for (const double threshold : {-1.0, 255.5, double(NAN)}) {
    MedianParams params = window(3, 0, Border::replicate);
    params.threshold = threshold;
    refused(context, text("threshold %g", threshold).c_str(), gray, params, "threshold is ");
  }
  MedianParams bright = window(3, 0, Border::constant);
  bright.border_value[0][0] = 256;
  refused(context, "a border value out of range", gray, bright, "border value is 256");
}

}  // namespace vf::test
