#include "filters/color.h"

#include <algorithm>
#include <cmath>

namespace vf {
namespace {

// Describes the codes of a range: luma (and red, green, blue) has `luma` codes from `low` on, and
// chroma has `chroma` codes around `middle`.
struct Range {
  double low, luma, middle, chroma;
};

Range range_of(const ColorFormat& f, int max) {
  const double unit = (max + 1) / 256.0;
  if (f.full_range) return {0, double(max), 128 * unit, double(max)};
  return {16 * unit, 219 * unit, 128 * unit, 224 * unit};
}

// Sets m to the matrix from red, green, blue of 0 to 1 to Y of 0 to 1 and Cb, Cr of -0.5 to 0.5.
void ycbcr_matrix(double kr, double kb, double m[3][3]) {
  const double y[3] = {kr, 1 - kr - kb, kb};
  for (int i = 0; i < 3; i++) {
    m[0][i] = y[i];
    m[1][i] = ((i == 2) - y[i]) / (2 * (1 - kb));
    m[2][i] = ((i == 0) - y[i]) / (2 * (1 - kr));
  }
}

}  // namespace

const char* name_of(Role r) {
  static const char* const names[] = {"none", "r", "g", "b", "a", "y", "u", "v"};
  return names[int(r)];
}

int index_of(Role r) {
  static const int indices[] = {kAlpha, 0, 1, 2, kAlpha, 0, 1, 2};
  return indices[int(r)];
}

ColorModel model_of(const ColorFormat& format) {
  bool y = false, uv = false;
  for (const auto& plane : format.role)
    for (const Role r : plane) {
      y = y || r == Role::y;
      uv = uv || is_chroma(r);
    }
  return uv ? ColorModel::yuv : y ? ColorModel::gray : ColorModel::rgb;
}

int max_code(const Layout& layout) {
  if (layout.max_value) return layout.max_value;
  return layout.type == Type::u8 ? 255 : 65535 >> layout.shift;
}

int depth_of(const Layout& layout) {
  int depth = 0;
  while (max_code(layout) >> depth) depth++;
  return depth;
}

ColorMatrix compose(const ColorMatrix& second, const ColorMatrix& first) {
  ColorMatrix c;
  for (int i = 0; i < 3; i++) {
    c.offset[i] = second.offset[i];
    for (int k = 0; k < 3; k++) {
      for (int j = 0; j < 3; j++) c.m[i][k] += second.m[i][j] * first.m[j][k];
      c.offset[i] += second.m[i][k] * first.offset[k];
    }
  }
  return c;
}

ColorMatrix encoding(ColorModel model, const ColorFormat& f, int max) {
  const Range range = range_of(f, max);
  ColorMatrix c;
  if (model == ColorModel::rgb) {
    for (int i = 0; i < 3; i++) c.m[i][i] = range.luma, c.offset[i] = range.low;
    return c;
  }
  double ycbcr[3][3];
  ycbcr_matrix(f.kr, f.kb, ycbcr);
  for (int i = 0; i < 3; i++) {
    c.m[0][i] = range.luma * ycbcr[0][i];
    c.m[1][i] = range.chroma * ycbcr[1][i];
    c.m[2][i] = range.chroma * ycbcr[2][i];
  }
  c.offset[0] = range.low;
  c.offset[1] = c.offset[2] = range.middle;
  return c;
}

ColorMatrix decoding(ColorModel model, const ColorFormat& f, int max) {
  const Range range = range_of(f, max);
  ColorMatrix d;
  if (model == ColorModel::rgb) {
    for (int i = 0; i < 3; i++) d.m[i][i] = 1 / range.luma, d.offset[i] = -range.low / range.luma;
    return d;
  }
  const double kr = f.kr, kb = f.kb, kg = 1 - kr - kb;
  for (int i = 0; i < 3; i++) d.m[i][0] = 1 / range.luma, d.offset[i] = -range.low / range.luma;
  if (model == ColorModel::gray) return d;
  d.m[0][2] = 2 * (1 - kr) / range.chroma;
  d.m[1][1] = -2 * kb * (1 - kb) / kg / range.chroma;
  d.m[1][2] = -2 * kr * (1 - kr) / kg / range.chroma;
  d.m[2][1] = 2 * (1 - kb) / range.chroma;
  for (int i = 0; i < 3; i++) d.offset[i] -= (d.m[i][1] + d.m[i][2]) * range.middle;
  return d;
}

void ycbcr_from_codes(ColorModel model, const ColorFormat& f, int max, double m[3][3]) {
  const Range range = range_of(f, max);
  if (model == ColorModel::rgb) {
    constexpr double kr = 0.2126, kb = 0.0722;
    ycbcr_matrix(kr, kb, m);
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < 3; k++) m[i][k] /= range.luma;
    return;
  }
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++) m[i][k] = i != k ? 0 : 1 / (i == 0 ? range.luma : range.chroma);
}

void encode(uint32_t argb, ColorModel model, const ColorFormat& f, int max, double code[4]) {
  const Range range = range_of(f, max);
  const double r = (argb >> 16 & 255) / 255.0, g = (argb >> 8 & 255) / 255.0,
               b = (argb & 255) / 255.0;
  if (model == ColorModel::rgb) {
    code[0] = range.low + range.luma * r;
    code[1] = range.low + range.luma * g;
    code[2] = range.low + range.luma * b;
  } else {
    const double y = f.kr * r + (1 - f.kr - f.kb) * g + f.kb * b;
    code[0] = range.low + range.luma * y;
    code[1] = range.middle + range.chroma * (b - y) / (2 * (1 - f.kb));
    code[2] = range.middle + range.chroma * (r - y) / (2 * (1 - f.kr));
  }
  code[kAlpha] = max * double(argb >> 24) / 255.0;
}

void encode_rounded(uint32_t argb, ColorModel model, const ColorFormat& f, int max,
                    double code[4]) {
  encode(argb, model, f, max, code);
  for (int i = 0; i < 4; i++) code[i] = std::clamp(std::floor(code[i] + 0.5), 0.0, double(max));
}

void code_values(uint32_t argb, const Layout& layout, const ColorFormat& format,
                 double value[kMaxPlanes][kMaxChannels]) {
  double code[4];
  encode_rounded(argb, model_of(format), format, max_code(layout), code);
  for (int p = 0; p < kMaxPlanes; p++)
    for (int c = 0; c < kMaxChannels; c++) {
      const Role role = p < layout.planes ? format.role[p][c] : Role::none;
      value[p][c] = role == Role::none ? 0 : code[index_of(role)];
    }
}

}  // namespace vf
