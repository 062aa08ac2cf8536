// Gives the median's kernels pixels outside the frame, and turns components into keys that sort.
#pragma once

#include <cuda_runtime.h>

#include "cuda/core/ptx.cuh"
#include "cuda/median/median_types.h"

namespace vf::cuda::median {

// Loads a part of the frame. A kernel that starts early must not use loads for constant memory
// (__ldg), which need not wait for the previous kernel.
template <bool kEarly, class T>
__device__ __forceinline__ T load_frame(const T* p) {
  if constexpr (kEarly) return *p;
  return __ldg(p);
}

// Does what border_index() does for the median's borders, but without a division, which would take
// as long as a network's loads. The loop takes one turn if the window fits into the frame.
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

// Convert a float's bits to an unsigned key of the same order, and back. NaN of any sign is last.
__host__ __device__ __forceinline__ uint32_t float_key(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ uint32_t float_bits(uint32_t key) {
  if (key == 0xffffffffu) return 0x7fffffffu;
  return key & 0x80000000u ? key ^ 0x80000000u : ~key;
}

// These read the component at `index` of a row as a key, and write it.
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

// Returns the medians of outliers and the own values of other pixels. An outlier is the minimum or
// maximum of its window, and differs from the median by more than the threshold.
template <int Bits>
__device__ __forceinline__ uint32_t switched(uint32_t value, uint32_t median, uint32_t minimum,
                                             uint32_t maximum, uint32_t threshold) {
  if constexpr (Bits == 8) {
    // The bytes of these differences do not borrow from each other. The upper bit of a byte is set
    // in `inside` if the pixel is neither extreme, and in `far` if it is beyond the threshold.
    const uint32_t above = value - minimum, below = maximum - value;
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
    const uint32_t inside = __vminu2(value - minimum, maximum - value);
    const uint32_t mask =
        (__vminu2(excess, 0x00010001u) & ~__vminu2(inside, 0x00010001u)) * 0xffffu;
    return (median & mask) | (value & ~mask);
  } else {
    const uint32_t key = float_key(value);
    const float distance = fabsf(__uint_as_float(value) - __uint_as_float(median));
    const bool near = distance <= __uint_as_float(threshold);
    return !near && (key == minimum || key == maximum) ? median : value;
  }
}

// Transposes 32 x 32 bits over a warp: lane j gets bit j of all lanes.
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
