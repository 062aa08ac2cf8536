// These device helpers serve all kernels of refine=colors.
#pragma once

#include "cuda/guided/guided.cuh"
#include "cuda/guided/guided_colors.h"

namespace vf::cuda {

constexpr int kOne = GuidedColors::kOne, kCell = GuidedColors::kCell, kStep = GuidedColors::kStep;

__device__ __forceinline__ bool in_band(int prior) {
  return abs(prior) < kOne;
}

constexpr int kAround = GuidedColors::kAround;
constexpr uint32_t kNoVote = 255u << 24;  // the code of a sample outside of the band

__device__ __forceinline__ Compared compared(const ColorVotes& v, uint32_t word, float ratio) {
  Compared sample = {ratio, 0};
#pragma unroll
  for (int c = 0; c < 3; c++) {
    const int q = v.compared[c][0] * int(word & 255) + v.compared[c][1] * int(word >> 8 & 255) +
                  v.compared[c][2] * int(word >> 16 & 255) + v.compared[c][3];
    sample.code |= uint32_t(min(max(q >> 16, 0), 255)) << 8 * c;
  }
  return sample;
}

// Holds the mask's error as every block finds it, how it changes X, and how busy the background is.
struct Found {
  int widest, error[2], busy;
  float shift;

  // A sample is in the band only where |X| is below this.
  __device__ __forceinline__ int below(int side) const {
    return (kOne * error[side] + widest - 1) / widest;
  }
  __device__ __forceinline__ int narrowed(int prior) const {
    const int x = min(abs(prior) * widest / error[prior > 0], kOne);
    return prior > 0 ? x : -x;
  }
};

// The logit of the sample at (x, y) of a tile of such samples, from X and the mean of its window.
template <int rows, int columns>
__device__ __forceinline__ float alike_logit(const ColorVotes& v,
                                             const Compared (&tile)[rows][columns], int x, int y,
                                             int prior, float shift) {
  constexpr int side = 2 * kAround + 1;
  const uint32_t own = tile[y][x].code;
  float sum = 0, weights = 0;
#pragma unroll
  for (int k = 0; k < side * side; k += 2) {
    const Compared other = tile[y - kAround + k / side][x - kAround + k % side];
    // The difference becomes the last bits of a float, because I2F runs at a quarter of the rate.
    const float unlike = __uint_as_float(0x4b000000u + __vsadu4(own, other.code)) - 8388608.f;
    const float t = fmaxf(GuidedColors::kUnlike - unlike, 0.f), t2 = t * t, weight = t2 * t2;
    sum = fmaf(weight, other.ratio, sum);
    weights += weight;
  }
  const float moved = fmaf(shift, float(kOne - abs(prior)), float(prior));
  return fmaf(v.trust, moved, __fdividef(float(GuidedColors::kVote) * sum, weights));
}

// Finds the mask's error from the votes, as mask_error_of() and shift_of() of
// filters/guided_colors.h do. Every block does it for itself.
__device__ __forceinline__ Found find_error(const ColorVotes& v) {
  constexpr int near = GuidedColors::kErrorNear, unit = GuidedColors::kErrorUnit;
  VF_SHARED(unsigned long long[kErrorSums], sums);
  VF_SHARED(uint32_t[kErrorClasses], share);  // of 2^16; the first of those far away: of them all
  VF_SHARED(int[3], found);                   // by side, and how busy the background is
  const int tid = threadIdx.x, side = tid / kErrorBins, first = tid % kErrorBins;
  if (tid < kErrorSums) {
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
    if (tid == near) {
      using G = GuidedColors;
      const int mean = number ? int(sums[kErrorClasses] / number) : 0;
      found[2] = min(max((mean - G::kCalm) * G::kFully / (G::kBusy - G::kCalm), 0), G::kFully);
    }
  }
  __syncthreads();
  if (tid < kErrorClasses && first == 0) {
    constexpr uint32_t one = 1 << 16;
    const uint32_t* const of = share + tid;
    const uint32_t base = of[near];
    unsigned long long sum = 0;
    for (int k = 0; k < near; k++) sum += of[k] > base ? of[k] - base : 0;
    const int maximum = base < one ? int(sum * (2 * v.widest) / (kErrorBins * (one - base))) : 0;
    int error = min(max(3 * unit + 5 * maximum / 2, GuidedColors::kErrorMin * unit), v.widest);
    error += (v.share * (v.widest - error) + GuidedColors::kShare / 2) / GuidedColors::kShare;
    found[side] = error;
  }
  __syncthreads();
  Found f;
  f.widest = v.widest;
  f.error[0] = found[0];
  f.error[1] = found[1];
  f.busy = found[2];
  f.shift = __fdividef(float(GuidedColors::kShift) * float(found[0] - found[1]), float(v.widest));
  return f;
}

// Finds how sure a sample is of a side, from P and the votes of itself and its neighbours.
struct Sureness {
  int low, high;
  float least, most;

  __device__ __forceinline__ Sureness(int p, float vote)
      : low(p), high(p), least(vote), most(vote) {}
  __device__ __forceinline__ void add(int p, float vote) {
    low = min(low, p), high = max(high, p);
    least = fminf(least, vote), most = fmaxf(most, vote);
  }
  __device__ __forceinline__ uint8_t sure(int side, int busy) const {
    constexpr int sure[2] = {GuidedColors::kSure[0], GuidedColors::kSure[1]};
    constexpr int full = GuidedColors::kFully;
    constexpr float doubt = float(full * GuidedColors::kDoubt) + 0.5f;
    const float share = fmaf(side ? least : -most, float(full), doubt);
    const int near = max(side ? sure[1] - (255 - low) : sure[0] - high, 0);
    return uint8_t(busy * near * int(fminf(fmaxf(share, 0.f), float(full))) /
                   (full * (side ? sure[1] : sure[0])));
  }
  // With `outside` the sample is far from the band, and with `subject` on the subject's side.
  __device__ __forceinline__ GuidedSide side(bool outside, bool subject, int busy) const {
    GuidedSide s;
    s.outside = outside ? 64 : 0;
    s.side = subject ? 64 : 0;
    s.sure[0] = sure(0, busy);
    s.sure[1] = sure(1, busy);
    return s;
  }
};

// Returns P as a code value.
__device__ __forceinline__ uint32_t matte_byte(float logit) {
  return uint32_t(fmaf(__fdividef(1.f, 1.f + __expf(-logit)), 255.f, 0.5f));
}

}  // namespace vf::cuda
