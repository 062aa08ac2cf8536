// Device helpers of the guided matte.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "cuda/guided.h"
#include "cuda/ptx.cuh"

namespace vf::cuda {

__device__ __forceinline__ float4 operator+(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ __forceinline__ float4 operator-(float4 a, float4 b) {
  return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}
__device__ __forceinline__ float4 operator*(float4 a, float s) {
  return make_float4(a.x * s, a.y * s, a.z * s, a.w * s);
}
__device__ __forceinline__ float4 lerp(float4 a, float4 b, float t) {
  return make_float4(fmaf(t, b.x - a.x, a.x), fmaf(t, b.y - a.y, a.y), fmaf(t, b.z - a.z, a.z),
                     fmaf(t, b.w - a.w, a.w));
}
__device__ __forceinline__ float4 shuffle_up(float4 v, int by) {
  return make_float4(__shfl_up_sync(~0u, v.x, by), __shfl_up_sync(~0u, v.y, by),
                     __shfl_up_sync(~0u, v.z, by), __shfl_up_sync(~0u, v.w, by));
}

// Samples along an axis of `n` that the window round `at` has inside the frame.
__device__ __forceinline__ int window_count(int at, int radius, int n) {
  return min(at + radius, n - 1) - max(at - radius, 0) + 1;
}

template <class T>
__device__ __forceinline__ T* address(const GuidedView& v, int x, int y) {
  return reinterpret_cast<T*>(v.data + (y >> v.sub_y) * v.stride) +
         (long long)(x >> v.sub_x) * v.step;
}

template <class T>
struct Pixel {
  T v[4];  // r g b p
};

// The chroma key's mask, in codes.
template <class T>
__device__ __forceinline__ T key_mask(const Guided& g, const T* v) {
  const float r = float(v[0]), s = float(v[1]), b = float(v[2]);
  const float cb =
      fmaf(g.chroma[0][0], r, fmaf(g.chroma[0][1], s, fmaf(g.chroma[0][2], b, g.key_offset[0])));
  const float cr =
      fmaf(g.chroma[1][0], r, fmaf(g.chroma[1][1], s, fmaf(g.chroma[1][2], b, g.key_offset[1])));
  const float d = sqrtf(fmaf(cb, cb, cr * cr)) - g.key_tolerance;
  const float m = g.key_slope > 0 ? __saturatef(d * g.key_slope) : d > 0 ? 1.f : 0.f;
  if (std::is_same<T, float>::value) return T(m);
  return T(floorf(fmaf(m, g.codes, 0.5f)) * g.unit);
}

// Guide, and mask where `with_mask`, of a pixel of the frame. `constant`: the kernel writes to no
// frame, so that loads may overtake stores and be in flight together.
template <class T, bool with_mask, bool constant>
__device__ __forceinline__ Pixel<T> read_pixel(const Guided& g, int x, int y) {
  const auto load = [](auto* at) { return constant ? __ldg(at) : *at; };
  Pixel<T> p;
  if (sizeof(T) == 1 && g.in) {
    const uint32_t word = __byte_perm(
        load(reinterpret_cast<const uint32_t*>(g.in + (long long)y * g.in_pitch + 4ll * x)), 0,
        g.canonical);
#pragma unroll
    for (int c = 0; c < 4; c++) p.v[c] = T(word >> 8 * c & 255);
  } else {
#pragma unroll
    for (int c = 0; c < 3; c++)
      p.v[c] = c < g.colors ? load(address<const T>(g.color[c], x, y)) : T(0);
    if (with_mask && g.alpha.data) p.v[3] = load(address<const T>(g.alpha, x, y));
  }
  if (with_mask && g.keyed) p.v[3] = key_mask(g, p.v);
  return p;
}

// Sample (x, y) of the low resolution.
template <class T, bool with_mask = true>
__device__ __forceinline__ Pixel<T> read_sample(const Guided& g, int x, int y) {
  Pixel<T> p =
      read_pixel<T, with_mask, true>(g, min(x * g.subsample + (g.subsample >> 1), g.width - 1),
                                     min(y * g.subsample + (g.subsample >> 1), g.height - 1));
  if (with_mask && g.mask_samples)
    p.v[3] = __ldg(static_cast<const T*>(g.mask_samples) + size_t(y) * g.mask_pitch + x);
  return p;
}
__device__ __forceinline__ uint32_t read_sample_word(const Guided& g, int x, int y) {
  const Pixel<uint8_t> p = read_sample<uint8_t>(g, x, y);
  return p.v[0] | p.v[1] << 8 | p.v[2] << 16 | uint32_t(p.v[3]) << 24;
}

// A colour of a word, less 128; by the mantissa of 2^23, since I2F runs at a quarter of the rate.
__device__ __forceinline__ float code_of(uint32_t word, uint32_t selector) {
  return __uint_as_float(__byte_perm(word, 0x4B000000u, selector)) - 8388736.f;
}
// The word with its matte. ab is times inv_scale, so that the clamp is the multiply-add's.
__device__ __forceinline__ uint32_t finish(const Guided& g, uint32_t word, float4 ab) {
  const float q = __saturatef(
      fmaf(ab.x, code_of(word, g.code[0]),
           fmaf(ab.y, code_of(word, g.code[1]), fmaf(ab.z, code_of(word, g.code[2]), ab.w))));
  return __byte_perm(word, __float_as_uint(fmaf(q, g.full, 12582912.f)), g.merge);
}

}  // namespace vf::cuda
