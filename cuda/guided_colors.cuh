// Device helpers of refine=colors.
#pragma once

#include "cuda/guided.cuh"
#include "cuda/guided_colors.h"

namespace vf::cuda {

constexpr int kOne = GuidedColors::kOne, kCell = GuidedColors::kCell, kStep = GuidedColors::kStep;

__device__ __forceinline__ bool in_band(int prior) {
  return abs(prior) < kOne;
}

constexpr int kAround = GuidedColors::kAround;
constexpr uint32_t kNoVote = 255u << 24;  // the code of a sample outside of the band

__device__ __forceinline__ Compared compared(const Votes& v, uint32_t word, float ratio) {
  Compared sample = {ratio, 0};
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

// E in 1 / kErrorUnit pixels from what the votes counted: mask_error_of() and steady_error() of
// filters/guided_colors.h, by every block for itself.
__device__ __forceinline__ int found_error(const Votes& v) {
  constexpr int near = GuidedColors::kErrorNear;
  VF_SHARED(unsigned long long[kErrorClasses], sums);
  VF_SHARED(uint32_t[kErrorClasses], share);  // of 2^16; the first of those far away: of them all
  VF_SHARED(int[1], found);
  const int tid = threadIdx.x, first = tid % kErrorBins;
  if (tid < kErrorClasses) {
    unsigned long long sum = 0;
#pragma unroll
    for (int i = 0; i < kErrorCopies; i++) sum += __ldcg(&v.errors->sums[i][tid]);
    sums[tid] = sum;
  }
  __syncthreads();
  if (tid < kErrorClasses && first <= near) {
    unsigned long long sum = 0, number = 0;
    for (int k = 0; k < (first < near ? 1 : kErrorBins - near); k++) {
      number += sums[tid + k] >> 40;
      sum += sums[tid + k] & ((1ull << 40) - 1);
    }
    share[tid] = number ? uint32_t(256 * sum / number) : 0;
  }
  __syncthreads();
  if (tid == 0) {
    constexpr uint32_t one = 1 << 16;
    constexpr int unit = GuidedColors::kErrorUnit;
    int most = 0;
    for (int side = 0; side < 2; side++) {
      const uint32_t* const of = share + side * kErrorBins;
      const uint32_t base = of[near];
      uint32_t sum = 0;
      for (int k = 0; k < near; k++) sum += of[k] > base ? of[k] - base : 0;
      if (base < one) most = max(most, int(sum * (kStep * unit) / (one - base)));
    }
    int error = min(max(3 * unit + 5 * most / 2, kStep * unit), GuidedColors::kWidest * unit);
    const int kept = v.errors->kept;
    if (kept && !v.fresh) error += (v.share * (kept - error) + (1 << 14)) >> 15;
    found[0] = error;
    if (blockIdx.x == 0 && blockIdx.y == 0) v.errors->found = error;
  }
  __syncthreads();
  return found[0];
}

// X as that makes it; 0: as it is.
__device__ __forceinline__ int narrowed(int prior, int error) {
  if (!error) return prior;
  const int x = min(abs(prior) * (GuidedColors::kWidest * GuidedColors::kErrorUnit) / error, kOne);
  return prior > 0 ? x : -x;
}

// P as a code value.
__device__ __forceinline__ uint32_t matte_byte(int prior, float logit) {
  if (!in_band(prior)) return prior > 0 ? 255 : 0;
  return uint32_t(fmaf(__fdividef(1.f, 1.f + __expf(-logit)), 255.f, 0.5f));
}

}  // namespace vf::cuda
