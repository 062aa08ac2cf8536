// Pixels outside the frame, for device code.
#pragma once

#include "filters/image.h"

namespace vf::cuda {

// The index inside [0, n) that `border` shows at i; -1 where it shows a constant.
__device__ inline int border_index(int i, int n, Border border) {
  if (unsigned(i) < unsigned(n)) return i;
  if (border == Border::replicate) return i < 0 ? 0 : n - 1;
  if (border == Border::constant || border == Border::shrink) return -1;
  // The other borders repeat: shifted by whole periods, i is in [0, period).
  const int period = border == Border::wrap      ? n
                     : border == Border::reflect ? 2 * n
                                                 : max(2 * n - 2, 1);
  i %= period;
  if (i < 0) i += period;
  if (i < n) return i;
  return border == Border::reflect ? period - 1 - i : period - i;
}

}  // namespace vf::cuda
