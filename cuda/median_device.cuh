// What the median kernels share: pixels outside the frame, and components as keys that sort.
#pragma once

#include <cuda_runtime.h>

#include "cuda/median.h"

namespace vf::cuda::median {

// The row or column inside [0, n) that is seen at i; -1 where it is the border value.
__device__ __forceinline__ int seen_at(int i, int n, Border border) {
  if (unsigned(i) < unsigned(n)) return i;
  if (border == Border::replicate) return i < 0 ? 0 : n - 1;
  if (border == Border::reflect_101) {
    if (n == 1) return 0;
    // One turn where the window fits; a division would be as long as a network's staging.
    do i = i < 0 ? -i : 2 * n - 2 - i;
    while (unsigned(i) >= unsigned(n));
    return i;
  }
  return -1;
}

// Unsigned keys in the order of the components: NaN, whatever its sign, is last.
__device__ __forceinline__ uint32_t float_key(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ uint32_t float_bits(uint32_t key) {
  if (key == 0xffffffffu) return 0x7fffffffu;
  return key & 0x80000000u ? key ^ 0x80000000u : ~key;
}

}  // namespace vf::cuda::median
