// Sums over the lanes of a warp, vectors of words, and calls with a constant in place of a variable.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace vf::cuda {

// Gives all lanes the sum of their values. All lanes call it.
template <class T>
__device__ __forceinline__ T sum_of_lanes(T v) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
    return T(__reduce_add_sync(~0u, v));
  else
#endif
  {
#pragma unroll
    for (int with = 1; with < 32; with *= 2) v += __shfl_xor_sync(~0u, v, with);
    return v;
  }
}

// Returns the sum of the values of all lanes up to this one.
template <class T>
__device__ __forceinline__ T sum_up_to_lane(T v) {
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const T other = __shfl_up_sync(~0u, v, by);
    if (int(threadIdx.x % 32) >= by) v += other;
  }
  return v;
}

// Loads 1, 2 or 4 words at once.
template <int kCount>
__device__ __forceinline__ void load_words(const void* at, uint32_t* v) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    const uint4 all = *static_cast<const uint4*>(at);
    v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
  } else if constexpr (kCount == 2) {
    const uint2 all = *static_cast<const uint2*>(at);
    v[0] = all.x, v[1] = all.y;
  } else {
    v[0] = *static_cast<const uint32_t*>(at);
  }
}

// Calls `f` with the number of channels as a constant.
template <class F>
__device__ __forceinline__ void with_channels(int channels, const F& f) {
  switch (channels) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    default:
      return f(std::integral_constant<int, 4>());
  }
}

}  // namespace vf::cuda
