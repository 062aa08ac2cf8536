#include <cmath>

#include "filters/gaussian.h"
#include "tests/kernels/harness.h"

namespace vf::test {
namespace {

Tolerance contract(Type type) {
  Tolerance t;
  if (type == Type::f32) {
    t.relative = 1e-5;
  } else {
    t.absolute = 1;
    if (type == Type::u8) t.equal = 0.99;
  }
  return t;
}

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string text(const char* format, ...) {
  char buffer[200];
  va_list args;
  va_start(args, format);
  vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  return buffer;
}

void one(Context& context, const std::string& name, const Layout& layout,
         const GaussianParams& params, Pattern pattern, Geometry geometry = {}) {
  Tolerance tolerance = contract(layout.type);
  // Two-valued frames blur onto exact halves, where the last bit of any sum decides the rounding.
  if (pattern == Pattern::extremes || pattern == Pattern::impulses) tolerance.equal = 0;
  context.check(text("gaussian %s %s", name.c_str(), name_of(pattern)), layout, layout, pattern,
                geometry, tolerance, true,
                [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                  return make_gaussian(queue, layout, params, placement, plan);
                });
}

}  // namespace

void gaussian_cases(Context& context) {
  const Type types[] = {Type::u8, Type::u16, Type::s16, Type::s32, Type::f32};
  const Border borders[] = {Border::replicate, Border::reflect, Border::reflect_101, Border::wrap,
                            Border::constant};

  // Every type, channel count and border at a size that is no multiple of any tile.
  for (const Type type : types)
    for (int channels = 1; channels <= 4; channels++)
      for (const Border border : borders) {
        GaussianParams params;
        params.sigma = 1.7;
        params.border = border;
        for (int c = 0; c < 4; c++) params.border_value[0][c] = 20 * (c + 1);
        one(context, text("%s x%d %s", name_of(type), channels, name_of(border)),
            packed_layout(type, channels, 133, 71), params, Pattern::noise);
      }

  // Sizes of kernel, the two axes apart, over each pattern.
  const int sizes[] = {3, 5, 9, 15, 17, 31, 33, 59, 65, 101, 255};
  for (const Type type : types)
    for (const int channels : {1, 4})
      for (const int size : sizes) {
        GaussianParams params;
        params.kernel_size = size;
        params.sigma = 0.3 * ((size - 1) * 0.5 - 1) + 0.8;
        const Pattern pattern = kAllPatterns[size % 6];
        one(context, text("%s x%d size %d", name_of(type), channels, size),
            packed_layout(type, channels, 301, 157), params, pattern);
      }
  for (const Type type : types)
    for (const auto& [sx, sy] : {std::pair{0.0, 2.0}, {2.0, 0.0}, {0.6, 6.0}, {6.0, 0.6}, {3.0, 11.0}}) {
      GaussianParams params;
      params.sigma = sx;
      params.sigma_y = sy;
      one(context, text("%s sigma %g x %g", name_of(type), sx, sy), packed_layout(type, 1, 203, 90),
          params, Pattern::texture);
    }

  // Frames smaller than the kernel, thin ones, and ones larger than a tile.
  const std::pair<int, int> shapes[] = {{1, 1},  {1, 50},  {50, 1},  {2, 3},    {7, 5},
                                        {16, 16}, {63, 64}, {65, 17}, {640, 33}, {1023, 61}};
  for (const Type type : types)
    for (const int channels : {1, 2, 3, 4})
      for (const auto& [w, h] : shapes)
        for (const Border border : {Border::reflect_101, Border::wrap, Border::reflect, Border::constant}) {
          GaussianParams params;
          params.sigma = 4.2;
          params.border = border;
          for (double& v : params.border_value[0]) v = 33;
          one(context, text("%s x%d %dx%d %s", name_of(type), channels, w, h, name_of(border)),
              packed_layout(type, channels, w, h), params, Pattern::noise);
        }

  // Rows that are not aligned, planes that start anywhere.
  for (const Type type : types)
    for (const int channels : {1, 2, 3, 4})
      for (const Geometry geometry : {Geometry{1, 0}, Geometry{5, 4}, Geometry{12, 8}, Geometry{16, 16}}) {
        GaussianParams params;
        params.sigma = 2.5;
        one(context, text("%s x%d padding %d offset %d", name_of(type), channels, geometry.stride_padding, geometry.offset),
            packed_layout(type, channels, 211, 43), params, Pattern::noise, geometry);
      }

  // Channels left out are copied.
  for (const Type type : types)
    for (const int mask : {0x0, 0x1, 0x7, 0xe}) {
      GaussianParams params;
      params.channels[0] = uint8_t(mask);
      one(context, text("%s channels 0x%x", name_of(type), mask), packed_layout(type, 4, 119, 47), params,
          Pattern::noise);
    }

  // Layouts of video formats: subsampled chroma, shared memory, unused bits.
  for (const double sigma : {0.8, 1.5, 5.0}) {
    GaussianParams params;
    params.sigma = sigma;
    Layout i420;
    i420.planes = 3;
    i420.plane[0] = {161, 91};
    i420.plane[1] = i420.plane[2] = {81, 46, 1, 0, 1, 1};
    one(context, text("I420 sigma %g", sigma), i420, params, Pattern::noise);
    Layout nv12 = i420;
    nv12.planes = 2;
    nv12.plane[1] = {81, 46, 2, 0, 1, 1};
    one(context, text("NV12 sigma %g", sigma), nv12, params, Pattern::noise);
    Layout p010 = nv12;
    p010.type = Type::u16;
    p010.shift = 6;
    p010.max_value = 1023;
    one(context, text("P010 sigma %g", sigma), p010, params, Pattern::noise);
    Layout yuy2_luma;
    yuy2_luma.planes = 1;
    yuy2_luma.plane[0] = {160, 91, 1, 2};
    one(context, text("step 2 sigma %g", sigma), yuy2_luma, params, Pattern::noise);
    Layout yuy2_chroma = yuy2_luma;
    yuy2_chroma.plane[0] = {80, 91, 1, 4, 1, 0};
    one(context, text("step 4 sigma %g", sigma), yuy2_chroma, params, Pattern::noise);
    Layout rgb_padded = packed_layout(Type::u8, 3, 131, 50);
    rgb_padded.plane[0].step = 4;
    one(context, text("x3 step 4 sigma %g", sigma), rgb_padded, params, Pattern::noise);
  }
}

}  // namespace vf::test
