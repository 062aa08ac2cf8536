// Says what a layout's components mean, and computes code values of colours.
//
// Callers give a colour (a fill, a border, a key, a background) as ARGB: 8 bits each, RGB of full
// range, alpha not multiplied in. Only this library turns it into code values, because matrix,
// range and depth have to fit the arithmetic of the filters. Filters that convert frames
// (letterbox) take the ARGB and the frames' ColorFormat. Filters that work on any numbers
// (Gaussian, median, guided matte) take the results of code_values() and set_colors().
//
// A code value is a component without the layout's shift. In limited range, the code of a colour is
// its 8-bit code times 2^(depth - 8).
#pragma once

#include "filters/image.h"

namespace vf {

// Says where a component lies in a layout. Plane -1 means that the layout does not have it.
struct Component {
  int plane = -1;
  int channel = 0;
};

// Tells what a component means. A layout with y but without u and v is gray. `none` is a component
// without content (the x of RGBx): it is not read, and it is written with all bits set.
enum class Role : uint8_t { none, r, g, b, a, y, u, v };
const char* name_of(Role r);
// index_of() returns 0 to 2 for r, g, b and for y, u, v, and kAlpha for a and none.
constexpr int kAlpha = 3;
int index_of(Role r);
constexpr bool is_chroma(Role r) {
  return r == Role::u || r == Role::v;
}

// Tells what all components of a layout mean.
struct ColorFormat {
  Role role[kMaxPlanes][kMaxChannels] = {};
  // The weights of red and blue in the luma of YUV and gray are 0.299 and 0.114 in BT.601, 0.2126
  // and 0.0722 in BT.709, and 0.2627 and 0.0593 in BT.2020.
  double kr = 0.2126, kb = 0.0722;
  // True if codes go from 0 to the largest one. Otherwise they go from 16 to 235 (chroma: to 240),
  // times 2^(depth - 8).
  bool full_range = true;
  // True if subsampled chroma lies on the even columns (rows) of luma, false if it lies between
  // two.
  bool cosited_x = true, cosited_y = false;
  // True if the components of a u16 layout are IEEE half floats (a float16 tensor). Only a
  // destination may have them.
  bool half_float = false;
};

enum class ColorModel : uint8_t { rgb, yuv, gray };
// Returns yuv if the format has a u or v, else gray if it has a y, else rgb.
ColorModel model_of(const ColorFormat& format);

// Returns the largest code value of an integer layout.
int max_code(const Layout& layout);
// Returns the number of bits that it has.
int depth_of(const Layout& layout);

// Maps x to m x + offset.
struct ColorMatrix {
  double m[3][3] = {};
  double offset[3] = {};
};
// Returns the map that applies `first` and then `second`.
ColorMatrix compose(const ColorMatrix& second, const ColorMatrix& first);

// encoding() maps red, green, blue of 0 to 1 to codes of up to `max` (2^depth - 1), and decoding()
// maps codes back.
ColorMatrix encoding(ColorModel model, const ColorFormat& format, int max);
ColorMatrix decoding(ColorModel model, const ColorFormat& format, int max);

// Sets m to the matrix that maps a difference of codes to Y, Cb, Cr, where Y spans 0 to 1 and Cb,
// Cr span -0.5 to 0.5. RGB is converted by BT.709, whatever kr and kb are.
void ycbcr_from_codes(ColorModel model, const ColorFormat& format, int max, double m[3][3]);

// Converts a colour to codes of up to `max`, indexed by index_of() of the roles, without rounding.
void encode(uint32_t argb, ColorModel model, const ColorFormat& format, int max, double code[4]);
// Converts as encode() does, and rounds to code values.
void encode_rounded(uint32_t argb, ColorModel model, const ColorFormat& format, int max,
                    double code[4]);

// Converts a colour to the code values of an integer layout's components. Components without a role
// get 0.
void code_values(uint32_t argb, const Layout& layout, const ColorFormat& format,
                 double value[kMaxPlanes][kMaxChannels]);

}  // namespace vf
