// What the kernel tests and the element tests of the guided matte share.
#pragma once

#include "filters/guided.h"

namespace vf::test {

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
