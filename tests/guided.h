// The kernel tests and the element tests of the guided matte share this contract, as
// filters/guided.h states it, and these settings.
#pragma once

#include <algorithm>

#include "filters/guided.h"
#include "tests/tolerance.h"

namespace vf::test {

inline bool converts(const GuidedParams& p) {
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 4; k++)
      if (p.convert[i][k] != double(i == k)) return true;
  return false;
}

inline Tolerance guided_contract(const Layout& l, const GuidedParams& params = {}) {
  Tolerance t;
  const bool layers =
      params.foreground == MatteForeground::estimate || params.backdrop == MatteBackground::blur;
  if (params.refine == MatteRefine::colors || layers) {
    const double full = l.type == Type::f32  ? 1
                        : l.max_value        ? l.max_value
                        : l.type == Type::u8 ? 255
                                             : 65535 >> l.shift;
    const bool coarse = params.refine != MatteRefine::guided && params.subsample > 4;
    const bool wide = coarse || (layers && (l.type != Type::u8 || converts(params)));
    // An estimate adds up to four times the matte's error to its own.
    const bool estimate = params.foreground == MatteForeground::estimate;
    t.absolute = (estimate ? 12 : wide ? 8 : layers ? 4 : 2) / 255.0 * full;
    // Before a busy background, values of a sample may round to neighbouring ones.
    if (params.refine == MatteRefine::colors) t.few = (estimate ? 32 : 8) / 255.0 * full;
    if (l.type == Type::u8) t.equal = coarse || layers ? 0.9 : 0.99;
    return t;
  }
  switch (l.type) {
    case Type::u8:
      // A conversion can make two code values of one.
      t.absolute = converts(params) ? 2 : 1;
      t.equal = 0.97;
      break;
    case Type::u16:
      t.absolute = std::max(1.0, 1e-4 * (l.max_value ? l.max_value : 65535 >> l.shift));
      break;
    default:
      t.absolute = 1e-4;
      break;
  }
  return t;
}

// Has the result converted to RGB by BT.601's matrix, from a YCbCr that to_ycbcr (diagonal) and
// black describe.
inline void convert_to_rgb(GuidedParams* p) {
  const double rgb[3][3] = {{1, 0, 1.402}, {1, -0.344136, -0.714136}, {1, 1.772, 0}};
  for (int c = 0; c < 3; c++) {
    p->convert[c][3] = 0;
    for (int k = 0; k < 3; k++) {
      p->convert[c][k] = rgb[c][k] * p->to_ycbcr[k][k];
      p->convert[c][3] -= p->convert[c][k] * p->black[k];
    }
  }
}

}  // namespace vf::test
