// Sums 8-bit moments of the guided matte, and solves for (a, b).
#pragma once

#include "cuda/guided/guided.cuh"

namespace vf::cuda {

constexpr int kMoments = kGuidedMoments;

// Adds four rows of a column to its sums, which lie `stride` apart.
__device__ __forceinline__ void add_rows(uint32_t p0, uint32_t p1, uint32_t p2, uint32_t p3,
                                         uint32_t low, uint32_t high, uint32_t* sum, int stride) {
  const uint32_t t0 = __byte_perm(p0, p1, low), t1 = __byte_perm(p2, p3, low);
  const uint32_t t2 = __byte_perm(p0, p1, high), t3 = __byte_perm(p2, p3, high);
  const uint32_t r = __byte_perm(t0, t1, 0x5410), g = __byte_perm(t0, t1, 0x7632);
  const uint32_t b = __byte_perm(t2, t3, 0x5410), p = __byte_perm(t2, t3, 0x7632);
  constexpr uint32_t one = 0x01010101;
  const uint32_t x[kMoments] = {r, g, b, p, r, r, r, g, g, b, r, g, b};
  const uint32_t y[kMoments] = {one, one, one, one, r, g, b, g, b, b, p, p, p};
#pragma unroll
  for (int k = 0; k < kMoments; k++) sum[k * stride] = __dp4a(x[k], y[k], sum[k * stride]);
}

// Adds one pixel, r g b p, to the sums.
__device__ __forceinline__ void add_pixel(uint32_t word, uint32_t* sum) {
  const uint32_t r = word & 255, g = word >> 8 & 255, b = word >> 16 & 255, p = word >> 24;
  const uint32_t x[kMoments] = {r, g, b, p, r, r, r, g, g, b, r, g, b};
  const uint32_t y[kMoments] = {1, 1, 1, 1, r, g, b, g, b, b, p, p, p};
#pragma unroll
  for (int k = 0; k < kMoments; k++) sum[k] += x[k] * y[k];
}

// Returns (a, b) from exact sums v over n samples. b is for a guide relative to 128.
__device__ __forceinline__ float4 solve(const uint32_t* v, int n, float per_n, float epsilon) {
  constexpr int I[9] = {0, 0, 0, 1, 1, 2, 0, 1, 2}, J[9] = {0, 1, 2, 1, 2, 2, 3, 3, 3};
  // Conversions by adding 1.5 * 2^23: I2F and F2I run at a quarter of the rate.
  constexpr float magic = 12582912.f;
  constexpr uint32_t magic_bits = 0x4B400000;
  float c[9], mu[4], d[4];
  uint32_t less[4], di[4];  // less: -m, as a multiply-add cannot subtract its product
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float q = fmaf(float(v[i]), per_n, magic);  // m: the rounded mean; d: the rest of the sum
    less[i] = magic_bits - __float_as_uint(q);
    di[i] = v[i] + uint32_t(n) * less[i];
    d[i] = __uint_as_float(magic_bits + di[i]) - magic;
    mu[i] = fmaf(d[i], per_n, q - magic);
  }
#pragma unroll
  for (int k = 0; k < 9; k++) {
    const int i = I[k], j = J[k];
    const int about = int(less[i] * di[j] + (less[j] * v[i] + v[4 + k]));
    c[k] = fmaf(-d[i] * per_n, d[j], float(about)) * per_n;
  }
  const float a11 = c[0] + epsilon, a12 = c[1], a13 = c[2], a22 = c[3] + epsilon, a23 = c[4],
              a33 = c[5] + epsilon;
  const float i1 = __fdividef(1.f, a11), l21 = a12 * i1, l31 = a13 * i1;
  const float i2 = __fdividef(1.f, fmaf(-l21, a12, a22)), u = fmaf(-l21, a13, a23), l32 = u * i2;
  const float d3 = fmaf(-l32, u, fmaf(-l31, a13, a33));
  const float y2 = fmaf(-l21, c[6], c[7]), y3 = fmaf(-l32, y2, fmaf(-l31, c[6], c[8]));
  const float z = __fdividef(y3, d3), y = fmaf(-l32, z, y2 * i2);
  const float x = fmaf(-l31, z, fmaf(-l21, y, c[6] * i1));
  return make_float4(x, y, z, mu[3] - x * (mu[0] - 128) - y * (mu[1] - 128) - z * (mu[2] - 128));
}

}  // namespace vf::cuda
