// The letterbox's contract, as filters/letterbox.h states it.
#pragma once

#include <algorithm>
#include <cmath>

#include "filters/letterbox.h"
#include "tests/tolerance.h"

namespace vf::test {

// Holds a layout of some size with the meaning of its components.
struct Picture {
  Layout layout;
  ColorFormat format;

  bool is_float() const { return layout.type == Type::f32 || format.half_float; }
  bool is_yuv() const {
    for (const auto& plane : format.role)
      for (const Role r : plane)
        if (r == Role::y) return true;
    return false;
  }
  bool is_subsampled() const {
    for (int i = 0; i < layout.planes; i++)
      if (layout.plane[i].sub_x || layout.plane[i].sub_y) return true;
    return false;
  }
};

inline Tolerance letterbox_contract(const Picture& src, const Picture& dst,
                                    const LetterboxParams& params) {
  Tolerance t;
  const bool plain = params.scale == 1.0 / 255 && params.mean[0] == 0 && params.std[0] == 1;
  const bool exact_rule =
      params.rule == LetterboxRule::affine && params.interpolation != Interpolation::area;
  const bool fixed = params.rule == LetterboxRule::ultralytics && !src.is_yuv() && !dst.is_yuv() &&
                     src.layout.type == Type::u8 &&
                     (dst.is_float() || dst.layout.type == Type::u8) &&
                     params.interpolation != Interpolation::area && !src.is_subsampled();
  if (exact_rule || fixed) {
    // For a normalised tensor, another order of the same float32 arithmetic is right as well.
    if (dst.is_float() && !plain) {
      if (dst.format.half_float)
        t.absolute = 1;
      else
        t.relative = 1e-6;
    }
    return t;
  }
  t.absolute = 1;
  if (dst.layout.type == Type::f32)
    t.absolute =
        1.001 * std::abs(params.scale / std::min({params.std[0], params.std[1], params.std[2]}));
  if (dst.format.half_float) t.absolute = 1 << 10;  // in bit patterns; 0 and 1/255 are far apart
  t.equal = 0.95;
  return t;
}

}  // namespace vf::test
