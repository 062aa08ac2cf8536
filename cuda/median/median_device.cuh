// What the median kernels share: pixels outside the frame, and components as keys that sort.
#pragma once

#include <cuda_runtime.h>

#include "cuda/core/ptx.cuh"
#include "cuda/median/median_types.h"

namespace vf::cuda::median {

// border_index for the borders of the median, without its division, which would take as long as a
// network's loads: one turn where the window fits.
__device__ __forceinline__ int median_border_index(int i, int n, Border border) {
  if (unsigned(i) < unsigned(n)) return i;
  if (border == Border::replicate) return i < 0 ? 0 : n - 1;
  if (border == Border::reflect_101) {
    if (n == 1) return 0;
    do i = i < 0 ? -i : 2 * n - 2 - i;
    while (unsigned(i) >= unsigned(n));
    return i;
  }
  return -1;
}

// Unsigned keys in the order of the components: NaN, whatever its sign, is last.
__host__ __device__ __forceinline__ uint32_t float_key(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ uint32_t float_bits(uint32_t key) {
  if (key == 0xffffffffu) return 0x7fffffffu;
  return key & 0x80000000u ? key ^ 0x80000000u : ~key;
}

// Key of the component at `index` of a row, and back.
template <int Bits>
__device__ __forceinline__ uint32_t key_at(const uint8_t* row, int index) {
  if constexpr (Bits == 8) return row[index];
  if constexpr (Bits == 16) return reinterpret_cast<const uint16_t*>(row)[index];
  return float_key(reinterpret_cast<const uint32_t*>(row)[index]);
}
template <int Bits>
__device__ __forceinline__ void put_key(uint8_t* row, int index, uint32_t key) {
  if constexpr (Bits == 8) row[index] = uint8_t(key);
  if constexpr (Bits == 16) reinterpret_cast<uint16_t*>(row)[index] = uint16_t(key);
  if constexpr (Bits == 32) reinterpret_cast<uint32_t*>(row)[index] = float_bits(key);
}

// Medians where pixels are outliers, else their own values: those that are the least or the
// greatest of their window and further than the threshold from its median. Words of components.
template <int Bits>
__device__ __forceinline__ uint32_t switched(uint32_t value, uint32_t median, uint32_t least,
                                             uint32_t greatest, uint32_t threshold) {
  if constexpr (Bits == 8) {
    // Bytes of these differences borrow nothing from each other. The upper bit of a byte of
    // `inside` is set where it is neither extreme, of `far` where it is beyond the threshold.
    const uint32_t above = value - least, below = greatest - value;
    constexpr uint32_t kLower = 0x7f7f7f7fu;
    const uint32_t inside = (((above & kLower) + kLower) | above) &  //
                            (((below & kLower) + kLower) | below);
    const uint32_t distance = __vabsdiffu4(value, median), limit = ~(threshold * 0x01010101u);
    const uint32_t carry = (distance & kLower) + (limit & kLower);
    const uint32_t far = (distance & limit) | ((distance | limit) & carry);
    const uint32_t mask = repeat_signs(far & ~inside);
    return (median & mask) | (value & ~mask);
  } else if constexpr (Bits == 16) {
    const uint32_t limit = threshold * 0x00010001u;
    const uint32_t distance = __vmaxu2(value, median) - __vminu2(value, median);
    const uint32_t excess = __vmaxu2(distance, limit) - limit;
    const uint32_t inside = __vminu2(value - least, greatest - value);
    const uint32_t mask =
        (__vminu2(excess, 0x00010001u) & ~__vminu2(inside, 0x00010001u)) * 0xffffu;
    return (median & mask) | (value & ~mask);
  } else {
    const uint32_t key = float_key(value);
    const float distance = fabsf(__uint_as_float(value) - __uint_as_float(median));
    const bool near = distance <= __uint_as_float(threshold);
    return !near && (key == least || key == greatest) ? median : value;
  }
}

// A 32 x 32 transpose of bits over a warp: lane j gets bit j of all lanes.
__device__ __forceinline__ uint32_t transpose_bits(uint32_t v) {
  constexpr uint32_t kMask[5] = {0x0000ffffu, 0x00ff00ffu, 0x0f0f0f0fu, 0x33333333u, 0x55555555u};
#pragma unroll
  for (int i = 0; i < 5; i++) {
    const int shift = 16 >> i;
    const uint32_t other = __shfl_xor_sync(~0u, v, shift);
    v = threadIdx.x & shift ? (v & ~kMask[i]) | ((other >> shift) & kMask[i])
                            : (v & kMask[i]) | ((other << shift) & ~kMask[i]);
  }
  return v;
}

}  // namespace vf::cuda::median
