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

// P as a code value.
__device__ __forceinline__ uint32_t matte_byte(int prior, float logit) {
  if (!in_band(prior)) return prior > 0 ? 255 : 0;
  return uint32_t(fmaf(__fdividef(1.f, 1.f + __expf(-logit)), 255.f, 0.5f));
}

}  // namespace vf::cuda
