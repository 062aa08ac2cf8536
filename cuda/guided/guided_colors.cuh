// These device helpers serve all kernels of refine=colors.
#pragma once

#include "cuda/guided/guided.cuh"
#include "cuda/guided/guided_colors.h"

namespace vf::cuda {

constexpr int kOne = GuidedColors::kOne, kCell = GuidedColors::kCell, kStep = GuidedColors::kStep;

__device__ __forceinline__ bool in_band(int prior) {
  return abs(prior) < kOne;
}

// Tells whether one of two samples of the prior is in the band.
__device__ __forceinline__ bool in_band_2(uint32_t two) {
  static_assert(kOne == 0x4000, "X outside is this or less this");
  return (two & 0x7fff7fff) != 0x40004000;
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

// Holds how the mask's error, as every block finds it, changes X, and how busy the background is.
struct Found {
  uint32_t factor[2];  // E over the side's error, times 2^28
  float shift;
  int busy;

  // The sample is in the band if the result is in it.
  __device__ __forceinline__ int narrowed(int prior) const {
    const uint32_t by = prior > 0 ? factor[1] : factor[0];
    const int x = int(min(__umulhi(uint32_t(abs(prior)) << 4, by), uint32_t(kOne)));
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
    const bool itself = k == side * side / 2;
    const float unlike = __uint_as_float(0x4b000000u + (itself ? 0 : __vsadu4(own, other.code)));
    const float t = fmaxf(8388608.f + GuidedColors::kUnlike - unlike, 0.f), t2 = t * t;
    const float weight = t2 * t2;
    sum = fmaf(weight, other.ratio, sum);
    weights += weight;
  }
  const float moved = fmaf(shift, float(kOne - abs(prior)), float(prior));
  return fmaf(v.trust, moved, __fdividef(float(GuidedColors::kVote) * sum, weights));
}

// Returns a / b, if that is below 2^20. Integers of 64 bits are divided by a long function.
__device__ __forceinline__ uint32_t quotient(unsigned long long a, unsigned long long b) {
  const auto about = uint32_t(__fdividef(float(a), float(b)));
  const auto rest = (long long)(a - about * b);
  return rest < 0 ? about - 1 : rest < (long long)b ? about : about + 1;
}

// Returns a lane's sums of the copies of what the votes have counted.
struct ErrorSums {
  unsigned long long copies[kErrorCopies] = {};

  __device__ __forceinline__ void fetch(const ColorVotes& v) {
    const int lane = threadIdx.x & 31;
    static_assert(kErrorSums <= 32, "each has a lane");
    if (lane < kErrorSums)
#pragma unroll
      for (int i = 0; i < kErrorCopies; i++) copies[i] = __ldcg(&v.errors->sums[i][lane]);
  }
  __device__ __forceinline__ unsigned long long total() const {
    unsigned long long sum = 0;
#pragma unroll
    for (int i = 0; i < kErrorCopies; i++) sum += copies[i];
    return sum;
  }
};

// Finds the mask's error from the votes, as mask_error_of() and shift_of() of
// filters/guided_colors.h do. One warp of every block does it.
__device__ __forceinline__ void find_error(const ColorVotes& v, const ErrorSums& counted,
                                           Found* found) {
  using G = GuidedColors;
  constexpr int near = G::kErrorNear, unit = G::kErrorUnit;
  VF_SHARED(unsigned long long[kErrorSums], sums);
  VF_SHARED(uint32_t[kErrorClasses], share);  // in 1/2^16; the first far one is for all
  const int lane = threadIdx.x & 31, side = lane / kErrorBins, first = lane % kErrorBins;
  if (lane < kErrorSums) sums[lane] = counted.total();
  __syncwarp();
  if (lane < kErrorClasses && first <= near) {
    unsigned long long sum = 0, number = 0;
#pragma unroll
    for (int k = 0; k < kErrorBins - near; k++) {
      if (k && first < near) break;
      number += sums[lane + k] >> 40;
      sum += sums[lane + k] & ((1ull << 40) - 1);
    }
    share[lane] = number ? quotient(256 * sum, number) : 0;
    if (lane == near) {
      const int mean = number ? int(quotient(sums[kErrorClasses], number)) : 0;
      found->busy = min(max((mean - G::kCalm) * G::kFully / (G::kBusy - G::kCalm), 0), G::kFully);
    }
  }
  __syncwarp();
  int error = 0;
  if (lane < kErrorClasses && first == 0) {
    constexpr uint32_t one = 1 << 16;
    const uint32_t* const of = share + lane;
    const uint32_t base = of[near];
    uint32_t sum = 0;
#pragma unroll
    for (int k = 0; k < near; k++) sum += of[k] > base ? of[k] - base : 0;
    const int maximum = base < one ? int(quotient((unsigned long long)sum * uint32_t(2 * v.widest),
                                                  kErrorBins * (one - base)))
                                   : 0;
    error = min(max(3 * unit + 5 * maximum / 2, G::kErrorMin * unit), v.widest);
    error += (v.share * (v.widest - error) + G::kShare / 2) / G::kShare;
    // One more than the quotient, so that the products with |X| are exact when their fraction is
    // cut: |X| and the error are at most 2^14.
    const uint32_t upper = (uint32_t(v.widest) << 14) / uint32_t(error);
    const uint32_t rest = (uint32_t(v.widest) << 14) - upper * uint32_t(error);
    found->factor[side] = (upper << 14) + (rest << 14) / uint32_t(error) + 1;
  }
  const int subject = __shfl_sync(~0u, error, kErrorBins);
  if (lane == 0)
    found->shift = __fdividef(float(G::kShift) * float(error - subject), float(v.widest));
}

// Finds how sure a sample is of the side that its P is nearer to, from P and the votes of itself
// and its neighbours. It cannot be sure of the other side. The sample is at (x, y) of a tile, where
// samples outside of the frame have no vote.
struct Sureness {
  uint32_t flip;      // makes P the distance from the side
  uint32_t off;       // this distance
  float least, most;  // of the votes

  template <int rows, int columns>
  __device__ __forceinline__ Sureness(uint32_t p, const Compared (&tile)[rows][columns], int x,
                                      int y)
      : flip(p < 128 ? 0 : 255), off(p ^ flip), least(tile[y][x].ratio), most(least) {
    static_assert(GuidedColors::kSure < 128, "of one side");
    add(tile[y - 1][x]);
    add(tile[y + 1][x]);
    add(tile[y][x - 1]);
    add(tile[y][x + 1]);
  }
  __device__ __forceinline__ void add(const Compared& sample) {
    least = fminf(least, sample.ratio);
    most = fmaxf(most, sample.ratio);
  }
  // With `outside` the sample is far from the band, and with `subject` on the subject's side.
  __device__ __forceinline__ GuidedSide side(bool outside, bool subject, int busy) const {
    constexpr int full = GuidedColors::kFully, sure = GuidedColors::kSure;
    const float agrees = flip ? least : float(GuidedColors::kSteady) - (most - least);
    const int share = int(float(full) * __saturatef(1 + agrees) + 0.5f);
    const int near = max(sure - int(off), 0);
    const uint32_t result = uint32_t(busy * near * share) / (full * sure);
    GuidedSide s;
    s.outside = outside ? 64 : 0;
    s.side = subject ? 64 : 0;
    s.sure[0] = uint8_t(flip ? 0 : result);
    s.sure[1] = uint8_t(flip ? result : 0);
    return s;
  }
};

__device__ __forceinline__ uint32_t matte_byte(float logit) {
  return uint32_t(fmaf(__fdividef(1.f, 1.f + __expf(-logit)), 255.f, 0.5f));
}

}  // namespace vf::cuda
