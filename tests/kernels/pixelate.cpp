#include "filters/pixelate.h"

#include <cmath>

#include "tests/kernels/harness.h"
#include "tests/pixelate.h"

namespace vf::test {
namespace {

constexpr Type kTypes[] = {Type::u8, Type::u16, Type::f32};

PixelateParams blocks(int size) {
  PixelateParams params;
  params.block_size = size;
  return params;
}

void one(Context& context, const std::string& name, const Layout& layout,
         const PixelateParams& params, Pattern pattern, Geometry geometry = {}) {
  context.check(text("pixelate %s %s", name.c_str(), name_of(pattern)), layout, layout, pattern,
                geometry, pixelate_contract(), true,
                [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                  return make_pixelate(queue, layout, params, placement, plan);
                });
}

// Filters a frame of these values, and returns the result row by row.
std::string run(Context& context, const Layout& layout, const PixelateParams& params,
                const std::vector<double>& values, std::vector<double>* out) {
  Frame src(layout), dst(layout);
  const PlaneLayout& l = layout.plane[0];
  for (int y = 0; y < l.height; y++)
    for (int x = 0; x < l.width; x++) src.set(0, x, y, 0, values[size_t(y) * l.width + x]);
  std::unique_ptr<Plan> plan;
  if (Status s =
          make_pixelate(context.device().queue(), layout, params, Placement::separate, &plan);
      !s.ok())
    return s.message();
  const Status s = run_plan(context.device(), *plan, src, &dst);
  context.device().release_all();
  if (!s.ok()) return s.message();
  for (int y = 0; y < l.height; y++)
    for (int x = 0; x < l.width; x++) out->push_back(dst.get(0, x, y, 0));
  return {};
}

// Checks frames of a few values against results computed by hand, without the reference.
void by_hand(Context& context, const std::string& what, const Layout& layout,
             const PixelateParams& params, const std::vector<double>& values,
             const std::vector<double>& want) {
  const std::string name = "pixelate by hand: " + what;
  if (!context.wants(name)) return;
  std::vector<double> got;
  std::string failure = run(context, layout, params, values, &got);
  for (size_t i = 0; i < want.size() && failure.empty(); i++)
    if (got[i] != want[i] && !(std::isnan(got[i]) && std::isnan(want[i])))
      failure = text("value %zu is %g, not %g", i, got[i], want[i]);
  context.result(name, failure);
}

void cases_by_hand(Context& context) {
  const auto gray = [](Type type, int w, int h) { return packed_layout(type, 1, w, h); };
  by_hand(context, "a half is rounded up", gray(Type::u8, 4, 1), blocks(2), {1, 2, 254, 255},
          {2, 2, 255, 255});
  by_hand(context, "less than a half is rounded down", gray(Type::u8, 3, 1), blocks(3), {1, 1, 2},
          {1, 1, 1});
  by_hand(context, "the rest has a mean of its own", gray(Type::u16, 5, 1), blocks(4),
          {65535, 65535, 65535, 65534, 7}, {65535, 65535, 65535, 65535, 7});
  by_hand(context, "rows", gray(Type::u8, 2, 3), blocks(2), {10, 20, 30, 40, 5, 8},
          {25, 25, 25, 25, 7, 7});
  by_hand(context, "floats", gray(Type::f32, 4, 1), blocks(2), {1, 2, -0.5, NAN},
          {1.5, 1.5, NAN, NAN});
  by_hand(context, "infinities", gray(Type::f32, 4, 1), blocks(2),
          {INFINITY, 2, INFINITY, -INFINITY}, {INFINITY, INFINITY, NAN, NAN});
  // A sum in float would lose the ones, and that of the floats' largest value would overflow.
  by_hand(context, "float sums are double", gray(Type::f32, 4, 1), blocks(4),
          {16777216, 1, 1, 16777214}, {8388608, 8388608, 8388608, 8388608});
  by_hand(context, "large floats", gray(Type::f32, 2, 1), blocks(2), {3e38, 3e38},
          {double(3e38f), double(3e38f)});
  // Sample x lies on pixel 2 x: pixels 0 to 4 have samples 0, 1 and 2, pixels 5 to 9 have 3 and 4.
  Layout half = gray(Type::u8, 7, 1);
  half.plane[0].sub_x = half.plane[0].sub_y = 1;
  by_hand(context, "odd blocks of chroma", half, blocks(5), {1, 2, 6, 10, 20, 50, 70},
          {3, 3, 3, 15, 15, 60, 60});
  by_hand(context, "blocks no larger than a sample", half, blocks(2), {1, 2, 6, 10, 20, 50, 70},
          {1, 2, 6, 10, 20, 50, 70});
  // 10 bits at the top of 16: the mean of two codes is a code.
  Layout ten = gray(Type::u16, 2, 1);
  ten.shift = 6, ten.max_value = 1023;
  by_hand(context, "unused bits", ten, blocks(2), {1, 2}, {2, 2});
}

void automatic(Context& context) {
  const struct {
    Layout layout;
    int size;
  } sizes[] = {{packed_layout(Type::u8, 1, 1920, 1080), 135},
               {nv12_layout(1920, 1080), 135},
               {i420_layout(161, 91), 12},
               {packed_layout(Type::u8, 3, 8, 9), 1},
               {packed_layout(Type::f32, 2, 1, 1), 1},
               {nv12_layout(9, 64), 2}};
  for (const auto& s : sizes) {
    const int got = block_size(s.layout, {});
    const PlaneLayout& l = s.layout.plane[0];
    const std::string name = text("pixelate automatic size of %dx%d", l.width, l.height);
    if (context.wants(name))
      context.result(name, got == s.size ? "" : text("%d, not %d", got, s.size));
  }
  for (const auto& [format, layout] : video_layouts())
    one(context, text("%s automatic", format), layout, blocks(0), Pattern::noise);
  for (const Type type : kTypes)
    for (int channels = 1; channels <= 4; channels++)
      one(context, text("%s x%d automatic", name_of(type), channels),
          packed_layout(type, channels, 333, 177), blocks(0), Pattern::texture);
}

void random_case(Context& context, int number) {
  Random random = context.random(text("pixelate random %d", number));
  const Type type = kTypes[random.between(0, 2)];
  const int w = random.between(1, random.between(1, 700)), h = random.between(1, 90);
  Layout layout = packed_layout(type, random.between(1, 4), w, h);
  PlaneLayout& l = layout.plane[0];
  l.step = l.channels + random.between(0, 3) / 3;
  l.sub_x = random.between(0, 3) / 2;
  l.sub_y = random.between(0, 2) / 2;
  if (type == Type::u16) layout.shift = random.between(0, 1) * 6;
  const int size = random.between(0, random.between(0, 3) ? 40 : 300);
  PixelateParams params = blocks(size);
  params.channels[0] = uint8_t(random.between(0, 1) ? 15 : random.between(1, 15));
  const Geometry geometry = {random.between(0, 1) * random.between(0, 20),
                             random.between(0, 1) * random.between(0, 20)};
  one(context,
      text("random %d %s x%d step %d %dx%d sub %d %d size %d", number, name_of(type), l.channels,
           l.pixel_step(), w, h, l.sub_x, l.sub_y, size),
      layout, params, kAllPatterns[random.between(0, 5)], geometry);
}

void refused(Context& context, const char* what, const Layout& layout, const PixelateParams& params,
             const char* named) {
  std::unique_ptr<Plan> plan;
  context.refused(
      text("pixelate refuses %s", what),
      make_pixelate(context.device().queue(), layout, params, Placement::separate, &plan), named);
}

// These cases are also timed.
void timed_cases(Context& context) {
  struct Format {
    const char* frame;
    Layout layout;
  };
  const auto timed = [&](const Format& format, int size, const char* note, auto&& change) {
    const PixelateParams params = blocks(size);
    TimedCase row;
    row.frame = format.frame;
    row.parameters = (size ? text("%dx%d", size, size) : "automatic") + std::string(note);
    row.src = row.dst = format.layout;
    row.tolerance = pixelate_contract();
    row.make = [params](Queue& queue, const Layout& layout, const Layout&, Placement placement,
                        std::unique_ptr<Plan>* plan) {
      return make_pixelate(queue, layout, params, placement, plan);
    };
    row.params = params;
    change(row);
    context.timed(row);
  };
  const Format frames[] = {
      {"1080p gray", packed_layout(Type::u8, 1, 1920, 1080)},
      {"1080p RGBA", packed_layout(Type::u8, 4, 1920, 1080)},
      {"1080p RGB", packed_layout(Type::u8, 3, 1920, 1080)},
      {"1080p NV12", nv12_layout(1920, 1080)},
      {"1080p f32", packed_layout(Type::f32, 1, 1920, 1080)},
      {"2160p RGBA", packed_layout(Type::u8, 4, 3840, 2160)},
      {"2160p NV12", nv12_layout(3840, 2160)},
      {"2160p P010", p010_layout(3840, 2160)},
  };
  for (const Format& f : frames)
    for (const int size : {0, 2, 5, 8, 16, 40, 500})
      timed(f, size, "", [&](TimedCase& row) {
        row.quick = size == 16;
        row.cpu = f.layout.plane[0].width == 1920;
        if (f.layout.type == Type::u8 && row.cpu && (size == 0 || size == 16))
          row.element = text("cudapixelate block-size=%d", size);
      });
  for (const int f : {0, 5})
    timed(frames[f], 16, " in place", [](TimedCase& row) { row.in_place = true; });
}

}  // namespace

void pixelate_cases(Context& context) {
  timed_cases(context);
  cases_by_hand(context);
  automatic(context);
  // Every type and channel count, at sizes that are no multiple of a vector, a tile or a cell.
  for (const Type type : kTypes)
    for (int channels = 1; channels <= 4; channels++)
      for (const int size : {2, 3, 5, 7, 8, 15, 16, 17, 33, 64, 65, 100, 131, 300, 5000})
        one(context, text("%s x%d size %d", name_of(type), channels, size),
            packed_layout(type, channels, size > 60 ? 611 : 333, size > 60 ? 149 : 71),
            blocks(size), kAllPatterns[(size + channels) % 6]);
  // The blocks fill the plane, and vectors have a whole number of them.
  for (const Type type : {Type::u8, Type::u16})
    for (const int channels : {1, 2, 4})
      for (const int size : {2, 4, 8})
        for (const int width : {1040, 328}) {
          Layout layout = packed_layout(type, channels, width, 72);
          if (type == Type::u16) layout.shift = size % 4 * 3;
          one(context, text("%s x%d %d whole blocks of %d", name_of(type), channels, width, size),
              layout, blocks(size), kAllPatterns[(size + channels) % 6]);
        }
  for (const int size : {2, 4, 8, 16})
    for (const auto& [name, layout] : {std::pair{"NV12", nv12_layout(1040, 64)},
                                       {"NV12 narrow", nv12_layout(336, 80)},
                                       {"I420", i420_layout(1040, 64)},
                                       {"P010", p010_layout(336, 80)}})
      one(context, text("%s whole blocks of %d", name, size), layout, blocks(size), Pattern::noise);
  // Luma has a column and a row of blocks more than chroma.
  for (const auto& [name, layout] :
       {std::pair{"NV12", nv12_layout(300, 116)}, {"I420", i420_layout(300, 116)}})
    one(context, text("%s blocks of luma alone", name), layout, blocks(23), Pattern::noise);
  // These blocks span more vectors than a tile has.
  for (const Type type : {Type::u8, Type::u16})
    for (int channels = 1; channels <= 4; channels++)
      one(context, text("%s x%d wide", name_of(type), channels),
          packed_layout(type, channels, 2307, 37), blocks(1100), Pattern::noise);
  // There are few blocks, but enough for half of a large GPU.
  for (const Type type : {Type::u8, Type::u16})
    for (int channels = 1; channels <= 4; channels++)
      for (const int size : {20, 25, 33}) {
        Layout layout = packed_layout(type, channels, 211, 301);
        if (type == Type::u16) layout.shift = size % 2 * 6;
        one(context, text("%s x%d few blocks of %d", name_of(type), channels, size), layout,
            blocks(size), kAllPatterns[(size + channels) % 6]);
      }
  // The frame is larger than the L2 cache of a large GPU.
  one(context, "u8 x4 2160p", packed_layout(Type::u8, 4, 3840, 2160), blocks(0), Pattern::noise);
  // A block has so many pixels that 32 bits do not hold their sum.
  for (const Type type : kTypes)
    one(context, text("%s large sums", name_of(type)), packed_layout(type, 1, 600, 523),
        blocks(512), Pattern::extremes);
  for (const Type type : kTypes)
    one(context, text("%s one block", name_of(type)), packed_layout(type, 4, 700, 301),
        blocks(kMaxDimension), Pattern::noise);

  const std::pair<int, int> shapes[] = {{1, 1},  {2, 1}, {1, 2},   {2, 2},  {3, 2},   {1, 40},
                                        {40, 1}, {7, 5}, {16, 16}, {33, 2}, {31, 17}, {130, 41}};
  for (const Type type : kTypes)
    for (const auto& [w, h] : shapes)
      for (const int size : {0, 1, 2, 3, 16, 50})
        for (const int channels : {1, 3, 4})
          one(context, text("%s x%d %dx%d size %d", name_of(type), channels, w, h, size),
              packed_layout(type, channels, w, h), blocks(size), Pattern::noise);

  // Strides and starts that are not aligned, memory that ends with the frame, and padding between
  // pixels.
  for (const Type type : kTypes)
    for (int channels = 1; channels <= 4; channels++)
      for (const int size : {2, 7, 16, 70}) {
        const Layout layout = packed_layout(type, channels, 201, 73);
        const std::string name = text("%s x%d size %d", name_of(type), channels, size);
        one(context, name + " unaligned", layout, blocks(size), Pattern::noise, {13, 5});
        Geometry tight;
        tight.tight = true;
        one(context, name + " tight", layout, blocks(size), Pattern::noise, tight);
        Layout padded = layout;
        padded.plane[0].step = channels + 1;
        one(context, name + " padded", padded, blocks(size), Pattern::noise);
        one(context, name + " padded tight", padded, blocks(size), Pattern::noise, tight);
      }

  // Channels left out are copied.
  for (const Type type : kTypes)
    for (const int mask : {0x0, 0x1, 0x7, 0xe, 0xa})
      for (const int channels : {3, 4})
        for (const int size : {2, 16, 150}) {
          PixelateParams params = blocks(size);
          params.channels[0] = uint8_t(mask);
          one(context, text("%s x%d channels 0x%x size %d", name_of(type), channels, mask, size),
              packed_layout(type, channels, 319, 61), params, Pattern::noise);
          one(context,
              text("%s x%d channels 0x%x size %d unaligned", name_of(type), channels, mask, size),
              packed_layout(type, channels, 119, 61), params, Pattern::noise, {13, 5});
        }

  // Layouts of video formats have subsampled chroma, shared memory or unused bits.
  for (const int size : {1, 2, 3, 5, 8, 16, 37, 90})
    for (const auto& [format, layout] : video_layouts())
      one(context, text("%s size %d", format, size), layout, blocks(size), Pattern::noise);
  // Chroma has a quarter or an eighth of luma's size, along one axis or both.
  for (const int size : {2, 3, 4, 5, 9, 13, 31})
    for (const auto& [sub_x, sub_y] : {std::pair{2, 0}, {2, 2}, {3, 1}, {0, 3}}) {
      Layout layout = packed_layout(size % 2 ? Type::u8 : Type::u16, 1, 187, 67);
      layout.plane[0].sub_x = sub_x, layout.plane[0].sub_y = sub_y;
      one(context, text("subsampled %d %d size %d", sub_x, sub_y, size), layout, blocks(size),
          Pattern::noise);
    }

  for (int i = 0; i < 150; i++) random_case(context, i);

  const Layout gray = packed_layout(Type::u8, 1, 8, 8);
  refused(context, "a negative size", gray, blocks(-1), "block-size is -1");
  refused(context, "a size too large", gray, blocks(kMaxDimension + 1), "block-size is 1048577");
  refused(context, "s16", packed_layout(Type::s16, 1, 8, 8), blocks(3), "s16");
  refused(context, "s32", packed_layout(Type::s32, 1, 8, 8), blocks(3), "s32");
}

}  // namespace vf::test
