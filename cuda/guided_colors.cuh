// Device helpers of refine=colors.
#pragma once

#include "cuda/guided.cuh"
#include "cuda/guided_colors.h"

namespace vf::cuda {

constexpr int kOne = GuidedColors::kOne, kCell = GuidedColors::kCell, kStep = GuidedColors::kStep;

__device__ __forceinline__ bool in_band(int prior) {
  return abs(prior) < kOne;
}

// The logit of sample (X, Y), from X and the sum of the ratios of its window.
__device__ __forceinline__ float logit_of(const Votes& v, int X, int Y, int prior, float sum) {
  const int n = window_count(X, 1, v.width) * window_count(Y, 1, v.height);
  return fmaf(v.trust, float(prior), sum * __fdividef(float(GuidedColors::kVote), float(n)));
}

// A sample for the mean of the votes over colours that are alike: its ratio, and in `code` the
// bytes of Q and 0, or 255 where it is outside of the band and so unlike all that are in it.
struct Compared {
  float ratio;
  uint32_t code;
};
constexpr int kAround = GuidedColors::kAround;

__device__ __forceinline__ Compared compared(const Votes& v, uint32_t word, int prior,
                                             float ratio) {
  Compared sample = {ratio, 255u << 24};
  if (!in_band(prior)) return sample;
  sample.code = 0;
#pragma unroll
  for (int c = 0; c < 3; c++) {
    const int q = v.compared[c][0] * int(word & 255) + v.compared[c][1] * int(word >> 8 & 255) +
                  v.compared[c][2] * int(word >> 16 & 255) + v.compared[c][3];
    sample.code |= uint32_t(min(max(q >> 16, 0), 255)) << 8 * c;
  }
  return sample;
}

// The logit of the sample at (x, y) of a tile of such samples, from X and the mean of its window.
template <int rows, int columns>
__device__ __forceinline__ float alike_logit(const Votes& v, const Compared (&tile)[rows][columns],
                                             int x, int y, int prior) {
  constexpr int side = 2 * kAround + 1;
  const uint32_t own = tile[y][x].code;
  float sum = 0, weights = 0;
#pragma unroll
  for (int k = 0; k < side * side; k += 2) {
    const Compared other = tile[y - kAround + k / side][x - kAround + k % side];
    // As a float of which it is the last bits: I2F runs at a quarter of the rate.
    const float unlike = __uint_as_float(0x4b000000u + __vsadu4(own, other.code)) - 8388608.f;
    const float t = fmaxf(GuidedColors::kUnlike - unlike, 0.f), t2 = t * t, weight = t2 * t2;
    sum = fmaf(weight, other.ratio, sum);
    weights += weight;
  }
  return fmaf(v.trust, float(prior), __fdividef(float(GuidedColors::kVote) * sum, weights));
}

// P as a code value.
__device__ __forceinline__ uint32_t matte_byte(int prior, float logit) {
  if (!in_band(prior)) return prior > 0 ? 255 : 0;
  return uint32_t(fmaf(__fdividef(1.f, 1.f + __expf(-logit)), 255.f, 0.5f));
}

}  // namespace vf::cuda
