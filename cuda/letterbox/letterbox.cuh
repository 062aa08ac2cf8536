// Makes any pixel of any layout, one component at a time, for the letterbox's kernels.
#pragma once

#include <cuda_fp16.h>

#include <cmath>

#include "cuda/letterbox/letterbox.h"

namespace vf::cuda::letterbox {

template <class T>
__device__ __forceinline__ T read(const uint8_t* p) {
  return __ldg(reinterpret_cast<const T*>(p));
}

// ---- positions ---------------------------------------------------------------------------------

__device__ __forceinline__ float input(const AxisArgs& a, int i) {
  return __fmaf_rn(float(i), a.input_step, a.input_offset);  // exact
}

__device__ __forceinline__ float affine_position(const AxisArgs& a, float X) {
  return __fadd_rn(__fmul_rn(a.multiply, X), a.add);
}

__device__ __forceinline__ float edge_position(const AxisArgs& a, float X) {
  return float(__dadd_rn(__dmul_rn(double(X) + a.origin, a.step), -0.5));
}

// Computes (d + 0.5) * step - 0.5 in pairs of floats, because graphics GPUs are slow at double
// precision. The result is nearly always as if rounded once.
__host__ __device__ inline float two_float_position(int d, float step_high, float step_low) {
#ifdef __CUDA_ARCH__
  const float t = __fadd_rn(float(d), 0.5f), p = __fmul_rn(t, step_high);
  const float rest = __fmaf_rn(t, step_low, __fmaf_rn(t, step_high, -p));
  const float s = __fadd_rn(p, -0.5f), lost = __fsub_rn(p, __fadd_rn(s, 0.5f));
  return __fadd_rn(s, __fadd_rn(lost, rest));
#else
  const float t = float(d) + 0.5f;
  const volatile float p = t * step_high;  // volatile prevents contraction
  const float rest = std::fma(t, step_low, std::fma(t, step_high, -p));
  const float s = p - 0.5f, lost = p - (s + 0.5f);
  return s + (lost + rest);
#endif
}

__device__ __forceinline__ bool edge_outside(const AxisArgs& a, float X) {
  return X < a.begin || X >= a.end;
}

// Computes the weights of the pixels (0, 0), (1, 0), (0, 1), (1, 1).
__device__ __forceinline__ void weights(float lx, float ly, float (&w)[4]) {
  const float hx = __fsub_rn(1, lx), hy = __fsub_rn(1, ly);
  w[0] = __fmul_rn(hy, hx);
  w[1] = __fmul_rn(hy, lx);
  w[2] = __fmul_rn(ly, hx);
  w[3] = __fmul_rn(ly, lx);
}

// Adds the products in the order that the affine rule prescribes.
__device__ __forceinline__ float mix(const float (&w)[4], float a, float b, float c, float d) {
  return __fadd_rn(__fadd_rn(__fadd_rn(__fmul_rn(w[0], a), __fmul_rn(w[1], b)), __fmul_rn(w[2], c)),
                   __fmul_rn(w[3], d));
}

// Holds the weights of cv2's fixed-point interpolation for 8 bits.
struct FixedWeights {
  int x0, x1, y0, y1;
};

__device__ __forceinline__ FixedWeights fixed_weights(float fx, float fy) {
  return {__float2int_rn(__fsub_rn(1, fx) * 2048), __float2int_rn(fx * 2048),
          __float2int_rn(__fsub_rn(1, fy) * 2048), __float2int_rn(fy * 2048)};
}

__device__ __forceinline__ float fixed_mix(const FixedWeights& w, int a, int b, int c, int d) {
  const int top = (a * w.x0 + b * w.x1) >> 4, bottom = (c * w.x0 + d * w.x1) >> 4;
  return float(min((((w.y0 * top) >> 16) + ((w.y1 * bottom) >> 16) + 2) >> 2, 255));
}

// Holds the pixel that a thread makes, and the number of its image. Each destination has its own
// layers of the grid along z. A destination that needs several layers is launched alone.
struct Place {
  int x, y, image;
};
template <int N>
__device__ __forceinline__ Place place() {
  const int x = blockIdx.x * kThreads + threadIdx.x;
  if (N == 1) return {x, int(blockIdx.z * kRowsPerLayer + blockIdx.y), 0};
  return {x, int(blockIdx.y), int(blockIdx.z)};
}

// Holds the share of a thread that makes a pixel of each of several images. Rows of both halves of
// the destination take turns, so that some blocks fill the padding while others load the picture.
struct Share {
  int x, y, first, last;  // images first to last - 1
};
template <int N>
__device__ __forceinline__ Share share(const Launched<N>& l) {
  if (N == 1) {
    const Place p = place<N>();
    return {p.x, p.y, 0, 1};
  }
  const int first = int(blockIdx.z) * kTogether;
  const int row = int(blockIdx.y) / 2 + (blockIdx.y % 2 ? (l.args.height + 1) / 2 : 0);
  return {int(blockIdx.x * kSharedThreads + threadIdx.x), row, first,
          min(first + kTogether, l.count)};
}

// ---- loading -----------------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ int component(const Args& g, const Images& m, int k, int x, int y) {
  const uint8_t* p = m.from[k] + ptrdiff_t(y) * g.from_stride[k] + ptrdiff_t(x) * g.from_step[k];
  return int(read<T>(p)) >> g.shift;
}

// Four neighbours of a position. v[k] has those of component k in the order of `weights`.
struct Quads {
  int v[4][4];
};

// Loads the neighbours in rows r0 and r1 and columns x0 and x1. If bit i of `outside` is set,
// neighbour i lies outside the picture. It is not read and becomes 0.
template <class T>
__device__ __forceinline__ void load(const Args& g, const Images& m, int x0, int x1, int r0, int r1,
                                     unsigned outside, Quads& q) {
#pragma unroll
  for (int k = 0; k < 4; k++) {
    if (!(g.needed >> k & 1) || (g.chroma && (k == 1 || k == 2))) continue;
#pragma unroll
    for (int i = 0; i < 4; i++)
      q.v[k][i] = outside >> i & 1 ? 0 : component<T>(g, m, k, i & 1 ? x1 : x0, i & 2 ? r1 : r0);
  }
}

// Interpolates subsampled chroma at a position of luma, clamped to the chroma plane.
template <class T>
__device__ __forceinline__ void chroma(const Args& g, const Images& m, float px, float py, float& u,
                                       float& v) {
  const float x = fminf(fmaxf(__fadd_rn(__fmul_rn(px, g.x.chroma_step), g.x.chroma_offset), 0),
                        float(g.x.chroma_size - 1));
  const float y = fminf(fmaxf(__fadd_rn(__fmul_rn(py, g.y.chroma_step), g.y.chroma_offset), 0),
                        float(g.y.chroma_size - 1));
  const int x0 = int(x), y0 = int(y);
  const int x1 = min(x0 + 1, g.x.chroma_size - 1), y1 = min(y0 + 1, g.y.chroma_size - 1);
  float w[4];
  weights(__fsub_rn(x, float(x0)), __fsub_rn(y, float(y0)), w);
  const auto sample = [&](int k) {
    return mix(w, float(component<T>(g, m, k, x0, y0)), float(component<T>(g, m, k, x1, y0)),
               float(component<T>(g, m, k, x0, y1)), float(component<T>(g, m, k, x1, y1)));
  };
  if (g.needed >> 1 & 1) u = sample(1);
  if (g.needed >> 2 & 1) v = sample(2);
}

// ---- colours and storing -----------------------------------------------------------------------

__device__ __forceinline__ float rounded(float v, float max) {
  return fminf(fmaxf(floorf(__fadd_rn(v, 0.5f)), 0), max);
}

__device__ __forceinline__ float convert(const Args& g, int i, const float (&c)[4]) {
  const float sum =
      __fadd_rn(__fadd_rn(__fmul_rn(g.matrix[i][0], c[0]), __fmul_rn(g.matrix[i][1], c[1])),
                __fmul_rn(g.matrix[i][2], c[2]));
  return rounded(__fadd_rn(sum, g.offset[i]), g.max_value);
}

// Returns 4 x 8 bits of code values as a word of the destination.
__device__ __forceinline__ unsigned word_of(const Args& g, const float (&c)[4]) {
  const unsigned word =
      unsigned(c[0]) | unsigned(c[1]) << 8 | unsigned(c[2]) << 16 | unsigned(c[3]) << 24;
  return __byte_perm(word, 0xffffffff, g.word_order);
}
// Returns what a tensor has for code value `v` of component k.
__device__ __forceinline__ float normalised(const Args& g, int k, float code) {
  const float v = __fsub_rn(code, g.subtract[k]), q = __fmul_rn(v, g.reciprocal[k]);
  return __fmaf_rn(__fmaf_rn(-q, g.divide[k], v), g.reciprocal[k], q);
}

__device__ __forceinline__ void store(const Args& g, const Images& m, int x, int y,
                                      const float (&c)[4]) {
  if (g.store == Store::word) {
    *reinterpret_cast<unsigned*>(m.to[0] + ptrdiff_t(y) * g.to_stride[0] + 4 * ptrdiff_t(x)) =
        word_of(g, c);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) {
    if (!m.to[k]) continue;
    uint8_t* at = m.to[k] + ptrdiff_t(y) * g.to_stride[k] + ptrdiff_t(x) * g.to_step[k];
    if (g.store == Store::f32 || g.store == Store::f16) {
      const float f = normalised(g, k, c[k]);
      if (g.store == Store::f32)
        *reinterpret_cast<float*>(at) = f;
      else
        *reinterpret_cast<__half*>(at) = __float2half_rn(f);
    } else if (g.store == Store::u8) {
      *at = uint8_t(unsigned(c[k]));
    } else {
      *reinterpret_cast<uint16_t*>(at) = uint16_t(unsigned(c[k]) << g.to_shift);
    }
  }
  if (m.padding) {
    uint8_t* at = m.padding + ptrdiff_t(y) * g.padding_stride + ptrdiff_t(x) * g.padding_step;
    if (g.store == Store::u8)
      *at = 255;
    else
      *reinterpret_cast<uint16_t*>(at) = uint16_t(65535u >> g.to_shift << g.to_shift);
  }
}

// Converts samples and stores the pixel. In fixed point only subsampled chroma has fractions.
template <bool FIXED>
__device__ __forceinline__ void finish(const Args& g, const Images& m, int x, int y,
                                       const float (&c)[4]) {
  float out[4];
  if (FIXED || g.copies) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
      out[k] = FIXED && (k == 0 || k == 3) ? c[k] : rounded(c[k], g.max_value);
      if (g.opaque[k]) out[k] = g.max_value;
    }
  } else {
#pragma unroll
    for (int k = 0; k < 3; k++) out[k] = convert(g, k, c);
    out[3] = g.opaque[3] ? g.max_value : rounded(__fmul_rn(c[3], g.alpha_scale), g.max_value);
  }
  store(g, m, x, y, out);
}

// Samples a pixel that shows the picture and stores it.
template <class T, Sampler M>
__device__ __forceinline__ void picture(const Args& g, const Images& m, int x, int y) {
  const float X = input(g.x, x), Y = input(g.y, y);
  Quads q = {};
  unsigned outside = 0;
  float px, py;
  if constexpr (M == Sampler::affine) {
    px = affine_position(g.x, X);
    py = affine_position(g.y, Y);
  } else {
    px = edge_position(g.x, X);
    py = edge_position(g.y, Y);
  }
  const float low_x = floorf(px), low_y = floorf(py);
  int i = int(low_x);
  const int j = int(low_y);
  float fx = __fsub_rn(px, low_x);
  const float fy = __fsub_rn(py, low_y);
  if constexpr (M == Sampler::affine) {
    const unsigned left = i < 0, right = i >= g.x.size - 1, top = j < 0, bottom = j >= g.y.size - 1;
    outside = (left | top) | (right | top) << 1 | (left | bottom) << 2 | (right | bottom) << 3;
    load<T>(g, m, i, i + 1, j, j + 1, outside, q);
  } else {
    // Columns beyond an edge are moved onto it.
    if (i < 0) i = 0, fx = 0;
    if (i >= g.x.size - 1) i = g.x.size - 1, fx = 0;
    load<T>(g, m, i, min(i + 1, g.x.size - 1), min(max(j, 0), g.y.size - 1),
            min(max(j + 1, 0), g.y.size - 1), 0, q);
  }

  float c[4] = {};
  if constexpr (M == Sampler::edge_fixed) {
    const FixedWeights w = fixed_weights(fx, fy);
#pragma unroll
    for (int k = 0; k < 4; k++) c[k] = fixed_mix(w, q.v[k][0], q.v[k][1], q.v[k][2], q.v[k][3]);
    if (g.chroma) chroma<T>(g, m, px, py, c[1], c[2]);
  } else {
    float w[4];
    weights(fx, fy, w);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      float v[4];
#pragma unroll
      for (int n = 0; n < 4; n++) v[n] = outside >> n & 1 ? g.source_fill[k] : float(q.v[k][n]);
      c[k] = mix(w, v[0], v[1], v[2], v[3]);
    }
    if (g.chroma) {
      chroma<T>(g, m, px, py, c[1], c[2]);
      if (outside) {
        const float share =
            mix(w, outside & 1, outside >> 1 & 1, outside >> 2 & 1, outside >> 3 & 1);
#pragma unroll
        for (int k = 1; k < 3; k++)
          c[k] = __fadd_rn(c[k], __fmul_rn(share, __fsub_rn(g.source_fill[k], c[k])));
      }
    }
  }
  finish<M == Sampler::edge_fixed>(g, m, x, y, c);
}

}  // namespace vf::cuda::letterbox
