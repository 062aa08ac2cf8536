// Colours: what the numbers of a layout mean, and all arithmetic between colours and code values.
//
// A colour that somebody names (a fill, a border, a key, a background) is ARGB: 8 bits each, RGB of
// full range, alpha not multiplied in. It becomes code values in this library and nowhere else,
// because only here matrix, range and depth meet the arithmetic of the filters: filters that
// convert frames (letterbox) take the ARGB and the frames' ColorFormat; filters that work on
// numbers whatever they mean (Gaussian, median, guided matte) take what code_values() and
// set_colors() made of them. Callers outside hold ARGB and a ColorFormat and compute nothing.
//
// Code values are those before a layout's shift. Codes of limited range are those of 8 bits times
// 2^(depth - 8).
#pragma once

#include "filters/image.h"

namespace vf {

// Where a component lies in a layout; plane -1 means nowhere.
struct Component {
  int plane = -1;
  int channel = 0;
};

// What a component of a layout is. y without u and v is gray. `none` is a component that carries
// nothing (the x of RGBx): not read, and written with all bits set.
enum class Role : uint8_t { none, r, g, b, a, y, u, v };
const char* name_of(Role r);
// 0 to 2 for r, g, b and y, u, v; kAlpha for a and none.
constexpr int kAlpha = 3;
int index_of(Role r);
constexpr bool is_chroma(Role r) {
  return r == Role::u || r == Role::v;
}

// What the numbers of a layout mean.
struct ColorFormat {
  Role role[kMaxPlanes][kMaxChannels] = {};
  // Weights of red and blue in luma (of YUV and gray): 0.299 and 0.114 BT.601, 0.2126 and 0.0722
  // BT.709, 0.2627 and 0.0593 BT.2020.
  double kr = 0.2126, kb = 0.0722;
  // Whether codes go from 0 to the largest one; else 16 to 235 (chroma 240) times 2^(depth - 8).
  bool full_range = true;
  // Whether subsampled chroma lies on the even columns (rows) of luma, or between two.
  bool cosited_x = true, cosited_y = false;
  // Components of a u16 layout are IEEE half floats: a float16 tensor. Destinations only.
  bool half_float = false;
};

enum class ColorModel : uint8_t { rgb, yuv, gray };
// By the roles: of incomplete colours, gray where there is a y, else rgb.
ColorModel model_of(const ColorFormat& format);

// The largest code value of an integer layout.
int max_code(const Layout& layout);

// y = m x + offset.
struct ColorMatrix {
  double m[3][3] = {};
  double offset[3] = {};
};
// After `first`, `second`.
ColorMatrix compose(const ColorMatrix& second, const ColorMatrix& first);

// Codes of up to `max` (2^depth - 1) as a function of red, green, blue in 0 to 1, and back.
ColorMatrix encoding(ColorModel model, const ColorFormat& format, int max);
ColorMatrix decoding(ColorModel model, const ColorFormat& format, int max);

// The matrix from codes, less those of black, to Y in 0 to 1 and Cb, Cr in -0.5 to 0.5: of YUV by
// its range, of RGB by BT.709, whatever kr and kb are.
void ycbcr_from_codes(ColorModel model, const ColorFormat& format, int max, double m[3][3]);

// A colour in codes of up to `max`, by index_of() of the roles. Not rounded.
void encode(uint32_t argb, ColorModel model, const ColorFormat& format, int max, double code[4]);
// The same, rounded to code values.
void encode_rounded(uint32_t argb, ColorModel model, const ColorFormat& format, int max,
                    double code[4]);

// A colour as code values of each component of an integer layout; components of no role get 0.
void code_values(uint32_t argb, const Layout& layout, const ColorFormat& format,
                 double value[kMaxPlanes][kMaxChannels]);

}  // namespace vf
