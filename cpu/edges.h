// Copies parts of planes that may lie outside of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace vf::cpu {

// Copies `rows` rows of n samples, from sample (x0, y0) of a plane of w x h samples on. Samples
// outside repeat the nearest one inside.
template <class T>
inline void copy_edges(const T* from, int w, int h, int x0, int y0, int n, int rows, T* to,
                       ptrdiff_t pitch) {
  const int left = std::clamp(-x0, 0, n), end = std::clamp(w - x0, left, n);
  for (int r = 0; r < rows; r++, to += pitch) {
    const T* row = from + size_t(std::clamp(y0 + r, 0, h - 1)) * w;
    std::fill_n(to, left, row[0]);
    if (end > left) std::memcpy(to + left, row + x0 + left, size_t(end - left) * sizeof *to);
    std::fill(to + end, to + n, row[w - 1]);
  }
}

}  // namespace vf::cpu
