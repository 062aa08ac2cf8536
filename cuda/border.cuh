// Pixels outside the frame, for device code.
#pragma once

#include "cuda/ptx.cuh"
#include "filters/image.h"

namespace vf::cuda {

// Borders that repeat: shifted by whole periods, i is in [0, period).
__device__ inline int border_of_periods(int i, int n, Border border) {
  const int period = border == Border::wrap      ? n
                     : border == Border::reflect ? 2 * n
                                                 : max(2 * n - 2, 1);
  i %= period;
  if (i < 0) i += period;
  if (i < n) return i;
  return border == Border::reflect ? period - 1 - i : period - i;
}

// The index inside [0, n) that `border` shows at i; -1 where it shows a constant.
__device__ inline int border_index(int i, int n, Border border) {
  if (unsigned(i) < unsigned(n)) return i;
  if (border == Border::replicate) return i < 0 ? 0 : n - 1;
  if (border == Border::constant || border == Border::shrink) return -1;
  // Most pixels that are seen lie less than a frame outside; this saves them the division.
  const int turn = border == Border::reflect ? 1 : 0, ends = i < 0 ? -turn : 2 * n - 2 + turn;
  const int near = border == Border::wrap ? (i < 0 ? i + n : i - n) : ends - i;
  if (unsigned(near) < unsigned(n)) return near;
  return border_of_periods(i, n, border);
}

}  // namespace vf::cuda
