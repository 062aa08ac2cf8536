// These device helpers serve all kernels of the guided matte.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#include "cuda/core/ptx.cuh"
#include "cuda/core/warp.cuh"
#include "cuda/guided/guided.h"
#include "filters/guided_colors.h"

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
__device__ __forceinline__ float4 sum_up_to_lane(float4 v) {
  return make_float4(sum_up_to_lane(v.x), sum_up_to_lane(v.y), sum_up_to_lane(v.z),
                     sum_up_to_lane(v.w));
}
__device__ __forceinline__ uint32_t two_halves(float low, float high) {
  return uint32_t(__half_as_ushort(__float2half_rn(low))) |
         uint32_t(__half_as_ushort(__float2half_rn(high))) << 16;
}

// Interpolates along a row of four pixels between the three samples around them, at subsample 4.
template <class V>
__device__ __forceinline__ void along(const V (&s)[3], V (&out)[4]) {
  out[0] = lerp(s[0], s[1], .625f);
  out[1] = lerp(s[0], s[1], .875f);
  out[2] = lerp(s[1], s[2], .125f);
  out[3] = lerp(s[1], s[2], .375f);
}

// Counts the samples that the window round `at` has inside an axis of n samples.
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

// Returns Cb (i = 0) or Cr (1) of the colours v.
__device__ __forceinline__ float chroma_of(const float (&chroma)[2][4], int i, const float* v) {
  return fmaf(chroma[i][0], v[0], fmaf(chroma[i][1], v[1], fmaf(chroma[i][2], v[2], chroma[i][3])));
}

// Returns the chroma key's mask, as a value in memory.
template <class T>
__device__ __forceinline__ T key_mask(const GuidedSource& g, const T* v) {
  const float colour[3] = {float(v[0]), float(v[1]), float(v[2])};
  const float cb = chroma_of(g.key.chroma, 0, colour), cr = chroma_of(g.key.chroma, 1, colour);
  const float d = sqrtf(fmaf(cb, cb, cr * cr)) - g.key.tolerance;
  const float m = g.key.slope > 0 ? __saturatef(d * g.key.slope) : d > 0 ? 1.f : 0.f;
  if (std::is_same<T, float>::value) return T(m);
  return T(floorf(fmaf(m, g.codes, 0.5f)) * g.unit);
}

// Reads the guide of a pixel and, where `with_mask`, its mask. `constant`: the kernel writes to no
// frame, so that loads may overtake stores and be in flight together.
template <class T, bool with_mask, bool constant>
__device__ __forceinline__ Pixel<T> read_pixel(const GuidedSource& g, int x, int y) {
  const auto load = [](auto* at) { return constant ? __ldg(at) : *at; };
  Pixel<T> p;
  if (sizeof(T) == 1 && g.words.data) {
    const uint32_t word = __byte_perm(load(reinterpret_cast<const uint32_t*>(
                                          g.words.data + (long long)y * g.words.pitch + 4ll * x)),
                                      0, g.words.order);
#pragma unroll
    for (int c = 0; c < 4; c++) p.v[c] = T(word >> 8 * c & 255);
  } else {
#pragma unroll
    for (int c = 0; c < 3; c++)
      p.v[c] = c < g.colors ? load(address<const T>(g.color[c], x, y)) : T(0);
    if (with_mask && g.alpha.data) p.v[3] = load(address<const T>(g.alpha, x, y));
  }
  if (with_mask && g.key.used) p.v[3] = key_mask(g, p.v);
  return p;
}

// Returns the pixel of sample i on an axis of n pixels.
__device__ __forceinline__ int pixel_of(int i, int subsample, int n) {
  return min(i * subsample + (subsample >> 1), n - 1);
}
template <class T, bool with_mask>
__device__ __forceinline__ Pixel<T> read_sample(const GuidedSource& g, const GuidedGrid& grid,
                                                int x, int y) {
  return read_pixel<T, with_mask, true>(g, pixel_of(x, grid.subsample, g.width),
                                        pixel_of(y, grid.subsample, g.height));
}
__device__ __forceinline__ uint32_t word_of(const Pixel<uint8_t>& p, uint32_t mask) {
  return p.v[0] | p.v[1] << 8 | p.v[2] << 16 | mask << 24;
}

// Returns a colour of a word less 128, as the mantissa of 2^23: I2F runs at a quarter of the rate.
__device__ __forceinline__ float code_of(uint32_t word, uint32_t selector) {
  return __uint_as_float(__byte_perm(word, 0x4B000000u, selector)) - 8388736.f;
}
// Returns the matte of a pixel from its colours relative to `midpoint`. ab is times inv_scale, so
// that the multiply-add clamps it.
__device__ __forceinline__ float matte_of(float4 ab, float r, float g, float b) {
  return __saturatef(fmaf(ab.x, r, fmaf(ab.y, g, fmaf(ab.z, b, ab.w))));
}
__device__ __forceinline__ float matte_of_word(const GuidedPacked& g, uint32_t word, float4 ab) {
  return matte_of(ab, code_of(word, g.code[0]), code_of(word, g.code[1]), code_of(word, g.code[2]));
}
__device__ __forceinline__ uint32_t with_matte(const GuidedPacked& g, uint32_t word, float q) {
  return __byte_perm(word, __float_as_uint(fmaf(q, g.full, 12582912.f)), g.merge);
}
// Puts its matte into the word, or into each of four words.
__device__ __forceinline__ uint32_t finish(const GuidedPacked& g, uint32_t word, float4 ab) {
  return with_matte(g, word, matte_of_word(g, word, ab));
}
__device__ __forceinline__ uint4 finish(const GuidedPacked& g, const uint4& q,
                                        const float4 (&ab)[4]) {
  return make_uint4(finish(g, q.x, ab[0]), finish(g, q.y, ab[1]), finish(g, q.z, ab[2]),
                    finish(g, q.w, ab[3]));
}

// Interpolates the means of 4 x 2 pixels from (x, y) on, which share their samples. x is a multiple
// of 4 and y of 2. The subsample is 4 or, with `pairs`, a multiple of 8.
template <bool pairs>
class CellMeans {
 public:
  __device__ __forceinline__ CellMeans(const GuidedCoefficients& g, int x, int y) {
    // This is floor((x + 0.5) / s - 0.5): the half pixel never crosses a cell's edge here.
    const int s = g.grid.subsample, quarter = x >> 2;
    const int left = pairs ? (2 * x + s) / (2 * s) - 1 : quarter - 1,
              up = (2 * y + s) / (2 * s) - 1;
    per_s_ = pairs ? 1.f / s : .25f;
    fx_ = pairs ? (x + .5f) * per_s_ - .5f - left : 0;
    fy_ = (y + .5f) * per_s_ - .5f - up;
    const float4* const top = g.mean + size_t(max(up, 0)) * g.grid.width;
    const float4* const bottom = g.mean + size_t(min(up + 1, g.grid.height - 1)) * g.grid.width;
    const int column[3] = {max(left, 0), min(left + 1, g.grid.width - 1),
                           min(left + 2, g.grid.width - 1)};
#pragma unroll
    for (int k = 0; k < kColumns; k++) {
      top_[k] = __ldg(top + column[k]);
      bottom_[k] = __ldg(bottom + column[k]);
    }
  }
  // Gives the means of row j of the pixels.
  __device__ __forceinline__ void row(int j, float4 (&ab)[4]) const {
    const float f = j ? fy_ + per_s_ : fy_;
    float4 c[kColumns];
#pragma unroll
    for (int k = 0; k < kColumns; k++) c[k] = lerp(top_[k], bottom_[k], f);
    if constexpr (pairs) {
      ab[0] = lerp(c[0], c[1], fx_);
#pragma unroll
      for (int i = 1; i < 4; i++) ab[i] = lerp(c[0], c[1], fx_ + i * per_s_);
    } else {
      along(c, ab);
    }
  }

 private:
  static constexpr int kColumns = pairs ? 2 : 3;
  float per_s_, fx_, fy_;
  float4 top_[kColumns], bottom_[kColumns];
};

// Settles the means (a, b) at a sample with refine=colors. The guide is summed over the sample and
// its four neighbours, which become the sample itself outside of the frame.
struct Settling {
  GuidedSide side = {};
  uint32_t red_blue = 0, green = 0;  // with 16 bits each

  __device__ __forceinline__ Settling() {}
  __device__ __forceinline__ Settling(const GuidedMeans& g, int x, int y)
      : side(g.sides[size_t(y) * g.grid.width + x]) {
    const uint32_t* const at = g.guide + size_t(y) * g.guide_pitch + x;
    add(__ldcg(at));
    add(__ldcg(at - (x > 0 ? 1 : 0)));
    add(__ldcg(at + (x + 1 < g.grid.width ? 1 : 0)));
    add(__ldcg(at - (y > 0 ? g.guide_pitch : 0)));
    add(__ldcg(at + (y + 1 < g.grid.height ? g.guide_pitch : 0)));
  }
  __device__ __forceinline__ void add(uint32_t word) {
    red_blue += word & 0x00ff00ff;
    green += word >> 8 & 255;
  }
  // ab is times inv_scale, for codes less 128. The sample takes the side that it is sure of as far
  // as the matte round it agrees, and the mask's side far from the band.
  __device__ __forceinline__ float4 of(float4 ab) const {
    constexpr float unit = 1.f / GuidedColors::kFully,
                    behind = float(1 / GuidedColors::kCertain[0]),
                    subject = float(1 / GuidedColors::kCertain[1]);
    const auto mean = [](uint32_t sum) { return fmaf(float(sum), .2f, -128.f); };
    const float q = fmaf(ab.x, mean(red_blue & 0xffff),
                         fmaf(ab.y, mean(green), fmaf(ab.z, mean(red_blue >> 16), ab.w)));
    const float agrees = q > .5f ? fmaf(subject, q, 2 - subject) : fmaf(-behind, q, 2.f);
    const float sure = __saturatef(agrees) * (unit * float(q > .5f ? side.sure[1] : side.sure[0]));
    const float outside = unit * float(side.outside), inside = 1 - outside;
    const float4 kept = ab * (inside - inside * sure);
    return make_float4(
        kept.x, kept.y, kept.z,
        kept.w + (q > .5f ? inside * sure : 0.f) + outside * unit * float(side.side));
  }
};

}  // namespace vf::cuda
