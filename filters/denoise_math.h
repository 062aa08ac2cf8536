// This is the denoiser's arithmetic for both backends. Host and device compile the same functions
// with the same roundings, so their results have the same bits. docs/spec/denoise.md has the
// formulas.
//
// Three rules make the bits equal. All sums are of integers, so their order does not matter.
// Results computed from sums have a fixed order of operations, each rounded to float once: these
// sources are compiled without contraction (-ffp-contract=off, -fmad=false). Division rounds as
// IEEE 754 says.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __CUDACC__
#define VF_BOTH __host__ __device__ __forceinline__
#else
#define VF_BOTH inline
#endif

namespace vf::denoise {

// ---- formats -----------------------------------------------------------------------------------

constexpr int kOne = 2048;              // stands for p = 1; p - 1 / kOne is stored in 11 bits
constexpr int kLevels = 32;             // levels of a block's luma, stored in 5 bits above p
constexpr float kMostMotion = 1800000;  // in 1/256: the sum of nine stays below 2^24
constexpr float kMostSquare = 4194304;  // in 1/256 or 1/64: the sum of 256 stays below 2^30
constexpr float kMostWeight = 665600;   // in 1/256: the sum of 16 stays below 2^24
constexpr uint32_t kLine = 4096;        // 1 of the spatial filter's lines

// ---- constants of the algorithm ----------------------------------------------------------------

constexpr float kThreshold = 1.6f;     // for the motion test
constexpr float kThresholdOld = 1.1f;  // more of it where much is averaged
constexpr float kThresholdChroma = 1;
constexpr float kSlope = 2;
// In restless tiles the threshold is lower and the slope steeper, because a small excess over the
// noise is motion that the vector does not describe.
constexpr float kThresholdRestless = 1.1f, kSlopeRestless = 2.8f;
// Where a patch moves, small errors of its vector and of the interpolation leave errors in T that
// grow with the contrast. Their variance is this share of the squared differences along the
// block's diagonals. A mosaic's aliasing differs from frame to frame, so that errors of more than
// kAliased times the noise's variance count more often, by up to kMoreAliased. A mosaic shows in
// the noise, which is alike in neighbouring samples: kappa is 1/2 or more, and 1/4 without one.
constexpr float kMovedContrast = 1.0f / 256;
constexpr float kAliased = 1.0f / 32, kMoreAliased = 3;
// A picture moves where these shares of its cells have vectors: not at all below, wholly above.
constexpr float kSharesMoving[2] = {0.3f, 0.5f};
// Interpolation removes this share of the noise in T, and p does not tell it.
constexpr float kInterpolated = 0.6f;

constexpr int kBins = 8;  // bins of luma in the noise model
constexpr int kCell = 8;  // samples, either way
// Histograms have 8 bins per octave. Variances begin at 2^-6 and have 4 bins per octave from 2^6 to
// 2^14, which noise of 100 codes stays below. Ratios begin at 2^-4. The lowest bin holds values
// below kNothing.
constexpr int kVarianceBins = 128, kRatioBins = 48;
constexpr int kVarianceBase = (-6 + 127) * 8, kRatioBase = (-4 + 127) * 8;
constexpr int kCoarseBin = 96;
constexpr float kNothing = 1.0f / 256;
// Quantiles are fractions, so that a whole rank is whole in any arithmetic. The bias of the
// variance includes 64 / 63, which corrects the variance of 64 samples.
struct Fraction {
  uint32_t part, of;
};
// A codec leaves noise in some cells and removes it from others. So the estimate is a high quantile
// of the variance, from only the cells with the least texture.
constexpr Fraction kVarianceQuantile = {4, 5}, kTextureQuantile = {1, 16}, kRatioQuantile = {3, 10},
                   kFirstQuantile = {1, 10};
constexpr float kVarianceBias = 0.866f * 64 / 63;
constexpr float kCorrelationBias = 0.6f;  // cells of correlated noise differ more
// The quantile over the median of the votes is 1.2 for white noise, up to 2.2 for a camera's, and
// mostly more behind a codec.
constexpr Fraction kMedian = {1, 2};
constexpr float kEven = 2.3f, kUnevenFactor = 4, kLeastMedian = 1.0f / 32;
constexpr float kMostUneven = 2, kMostUnevenChroma = 1.2f;
constexpr float kLeastVoters = 30;
constexpr uint32_t kLeastCells = 40, kLeastVotes = 10, kLeastFrame = 50;
constexpr float kMostOverFrame = 4, kMostOverDarker = 1.05f;
// Fast motion differs from frame to frame as strong noise does, but it is smooth within a frame.
// So a variance above kBelieved must also show in the first frame's Laplacians.
constexpr float kBelieved = 900, kMostOverFirst = 4;
constexpr float kRate = 0.25f;
constexpr float kFlat = 0.02f, kLeastVariance = 0.05f;
// A frame repeats the one before if so many of its cells of luma have the same sum of samples. The
// model ignores up to kRepeats such frames in a row.
constexpr Fraction kRepeated = {7, 8};
constexpr int32_t kRepeats = 8;
constexpr float kQuietLow = 0.5f, kQuietHigh = 1.3f;
constexpr float kRatioBias = 1.15f;
constexpr uint32_t kLeastRatios = 40;
constexpr float kFirstBias = 1.15f * 32 / 36;
constexpr int kFirstDark = 20, kFirstBright = 235;
constexpr float kLeastEffective = 1e-6f;  // lower limit of the variance times strength squared
constexpr int kDeep = 13;                 // frames of so many bits may have no noise at all
// A camera's gamma and its clipping at black leave the median of the noise where it was, and move
// its mean. The share of samples below T tells how far apart they are. These are the factor of the
// noise's deviation that makes a median of it, the share of the difference that is corrected, which
// is found by trial, the cells that count half, and the largest correction in T's unit.
constexpr float kMedianFactor = 1.2533f, kBiasFactor = 2.5f, kBiasCells = 8;
constexpr float kMostBias = 7 * 256, kMostBiasBright = 2 * 256;
constexpr int kMostCellBias = 16 << 14;  // the largest sum of a cell's differences that counts

// ---- operations --------------------------------------------------------------------------------

// Rounds to the nearest integer, halves to even. |v| must be at most 2^22.
VF_BOTH float round_small(float v) {
  return (v + 12582912.0f) - 12582912.0f;
}

// Rounds to an integer, which it reads from the sum's bits, because conversions are slow on a GPU.
VF_BOTH int round_to_int(float v);

VF_BOTH float least(float a, float b) {
  return b < a ? b : a;
}
VF_BOTH float most(float a, float b) {
  return a < b ? b : a;
}

#if defined(__CUDA_ARCH__) && defined(__CUDACC__)
// Returns 1 / v with an error of at most one unit in the last place (denoise_device.cuh).
__device__ float reciprocal(float v);
#endif

// Returns a / b rounded to nearest. a, b, the quotient and 1 / b must be normal numbers.
VF_BOTH float divide(float a, float b) {
#if defined(__CUDA_ARCH__) && defined(__CUDACC__)
  // The reciprocal that the GPU has is off by at most one unit in the last place; one Newton step
  // rounds it correctly, and another one the quotient (Markstein).
  float r = reciprocal(b);
  r = __fmaf_rn(r, __fmaf_rn(-b, r, 1.0f), r);
  const float q = __fmul_rn(a, r);
  return __fmaf_rn(__fmaf_rn(-b, q, a), r, q);
#else
  return a / b;
#endif
}

// Returns power / b, where `power` is a power of two.
VF_BOTH float divide_power(float power, float b) {
#if defined(__CUDA_ARCH__) && defined(__CUDACC__)
  // One Newton step is enough, because the product with a power of two is exact.
  const float r = reciprocal(b);
  return __fmul_rn(power, __fmaf_rn(r, __fmaf_rn(-b, r, 1.0f), r));
#else
  return power / b;
#endif
}

VF_BOTH float float_of_bits(uint32_t bits) {
#if defined(__CUDA_ARCH__) && defined(__CUDACC__)
  return __uint_as_float(bits);
#else
  float v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
#endif
}
VF_BOTH uint32_t bits_of_float(float v) {
#if defined(__CUDA_ARCH__) && defined(__CUDACC__)
  return __float_as_uint(v);
#else
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
#endif
}

// Rounds to an integer and adds kRoundedZero, which a caller subtracts once from a sum of these.
constexpr uint32_t kRoundedZero = 0x4b400000;
VF_BOTH uint32_t rounded_bits(float v) {
  return bits_of_float(v + 12582912.0f);
}
VF_BOTH int round_to_int(float v) {
  return int(rounded_bits(v) - kRoundedZero);
}

// ---- noise model -------------------------------------------------------------------------------

// Holds the noise model of one component. Variances are in squared 8-bit codes.
struct Noise {
  float variance[kBins];
  float most;              // upper limit of the variances
  float kappa;             // variance of the mean of a block over that of a sample
  float codec;             // codec_factor
  float moving;            // how far the picture moves, from 0 to 1
  int32_t limit[kBins];    // the highest bin of texture that may vote
  int32_t flat;            // 1 if cells without noise count too
  int32_t repeats;         // consecutive frames that repeat the one before, limited
  int32_t frames, ratios;  // 1 once a frame has changed the variances, kappa
};

// The bias of luma v, within a level, is (bias + slope * v) / 2048, rounded down.
struct Correction {
  int32_t bias, slope;
};

struct Model {
  Noise noise[3];
  float level;          // luma's variance, mean over the picture
  float bias[kLevels];  // median less mean of luma's noise, in codes
  Correction correction[kLevels];
};

struct Histograms {
  uint32_t texture[3][kBins][kVarianceBins];
  uint32_t variance[3][kBins][kVarianceBins];
  // Cells of luma, their samples below T, and their mean differences in 1/64 code, by level of luma.
  // The three lie apart, because atomic operations on words side by side wait for each other.
  uint32_t bias[3][kLevels];
  uint32_t first[3][2][kVarianceBins];  // Laplacian: all cells, and those neither dark nor bright
  uint32_t ratio[3][kRatioBins];
  uint32_t flat[3];
  uint32_t repeated[3];  // cells of luma, once for each component
  uint32_t moving[3];    // the same, of those that move
};

// The parts of a task and its parameters that the arithmetic needs.
struct Settings {
  float fixed_variance[3];  // below 0: the model's
  float strength2;
  float least_variance;  // lower limit of the model's variances
  float least_gain;
  float motion_scale[3];  // factor on the squared sum of a block's differences
  float weight_scale;
  int32_t top;  // the largest value of a sample of the state
};

// Rounding to codes is noise as well. From kDeep bits on it is too fine to matter.
inline float least_variance(int depth) {
  return depth >= kDeep ? kLeastEffective : kLeastVariance;
}

template <class Task>
inline Settings settings_of(const Task& t) {
  Settings s = {};
  s.strength2 = t.strength2;
  s.least_variance = least_variance(t.depth);
  s.least_gain = t.least_gain;
  for (int c = 0; c < t.from.colors; c++) {
    // In 1/256, of sums of n differences in 1/256 code; b is the mean of two components' tests.
    const double n = t.per_block_x[c] * t.per_block_y[c];
    s.fixed_variance[c] = t.fixed_variance[c];
    s.motion_scale[c] = float((c == 0 ? 256.0 : 128.0) / (65536.0 * n * n));
  }
  s.weight_scale = float(t.params.spatial * (256.0 / kOne) * kLine * 16);
  // Co and Cg exceed the largest sample of R, G and B.
  s.top = t.from.rgb ? 65535 : ((1 << t.depth) - 1) << (16 - t.depth);
  return s;
}

// Returns the variance at a level of luma, linear between the centres of the bins.
VF_BOTH float variance_at(const Noise& n, int level) {
  const float u = least(most(float(level) * 0.25f - 0.375f, 0.0f), float(kBins - 1));
  const int j = int(u) < kBins - 2 ? int(u) : kBins - 2;
  return n.variance[j] + (n.variance[j + 1] - n.variance[j]) * (u - float(j));
}
VF_BOTH float effective_variance(const Noise& n, const Settings& s, int c, int level) {
  const float v = s.fixed_variance[c] < 0 ? variance_at(n, level) : s.fixed_variance[c];
  return most(v * s.strength2, kLeastEffective);
}
VF_BOTH float motion_factor(const Noise& n, const Settings& s, int c, int level) {
  return divide(s.motion_scale[c], n.kappa * effective_variance(n, s, c, level));
}
// Holds the factors of weight_of at a level of luma.
struct Weight {
  float of_p, of_square;
};
VF_BOTH Weight weight_factor(const Noise& n, const Settings& s, int c, int level) {
  const float all = effective_variance(n, s, c, level) * s.weight_scale;
  const float less = kInterpolated * (1.0f - n.kappa) * n.moving;
  return {all * (1.0f - less), all * (less * (1.0f / kOne))};
}

// Holds what mismatch_of takes of a patch.
struct Contrast {
  float share, more;
};
VF_BOTH Contrast contrast_of(const Noise& n, bool moves) {
  const float share = moves ? 1.0f : n.moving;
  const float mosaic = least(most(least(n.kappa * 4.0f - 1.0f, 2.0f - n.codec), 0.0f), 1.0f);
  return {share, share * (kMoreAliased * mosaic)};
}
// Returns the factor of mismatch_of at a level of luma.
VF_BOTH float mismatch_factor(const Noise& n, const Settings& s, int level) {
  return divide_power(kMovedContrast / 2, effective_variance(n, s, 0, level));
}

VF_BOTH int variance_bin(float v) {
  int b = int(bits_of_float(v) >> 20) - kVarianceBase;
  if (b > kCoarseBin) b = (b + kCoarseBin) >> 1;
  if (b < 1) return v < kNothing ? 0 : 1;
  return b < kVarianceBins ? b : kVarianceBins - 1;
}
VF_BOTH int ratio_bin(float v) {
  const int b = int(bits_of_float(v) >> 20) - kRatioBase;
  return b < 0 ? 0 : b < kRatioBins ? b : kRatioBins - 1;
}
VF_BOTH float bin_begin(int bin, int base) {
  return float_of_bits(uint32_t((bin > kCoarseBin ? 2 * bin - kCoarseBin : bin) + base) << 20);
}

// Returns the value at `rank`, which lies in a bin of `count` values with `before` values below it.
// The lowest bin stands for 0.
VF_BOTH float value_at(int bin, int base, float rank, uint32_t before, uint32_t count) {
  if (bin == 0) return 0;
  const float low = bin_begin(bin, base), high = bin_begin(bin + 1, base);
  return low + divide((high - low) * (rank - float(before)), float(count > 1 ? count : 1));
}

VF_BOTH float rank_of(uint32_t total, Fraction share) {
  return divide(float(total * share.part), float(share.of));
}
VF_BOTH float texture_rank(uint32_t cells) {
  return most(rank_of(cells, kTextureQuantile), least(float(cells), kLeastVoters));
}

// Holds the results of one component's histograms.
struct Votes {
  float variance[kBins];   // the quantile by luma
  uint32_t votes[kBins];   // cells that voted
  uint32_t cells[kBins];   // cells that counted
  int32_t texture[kBins];  // the quantile's bin
  float frame_variance;    // the quantile over all bins
  float frame_median;      // the median over all bins
  float ratio;
  uint32_t ratios;
  uint32_t flat, total;                   // cells of the frame
  uint32_t repeated, moving, luma_cells;  // cells of luma
};

// Returns the factor on the variances of frames that a codec has left with uneven noise. Much of
// that noise lies in few cells, above the quantile, and it stays for several frames.
VF_BOTH float codec_factor(float quantile, float median, bool chroma) {
  const float uneven = divide(quantile, most(median, kLeastMedian)) - kEven;
  return 1.0f + least(kUnevenFactor * most(uneven, 0.0f), chroma ? kMostUnevenChroma : kMostUneven);
}

// Tells whether the model ignores the frame because it repeats the previous one.
VF_BOTH bool repeats(const Votes& v) {
  return v.repeated * kRepeated.of > v.luma_cells * kRepeated.part;
}
VF_BOTH bool ignores(const Votes& v, const Noise& before) {
  return repeats(v) && before.repeats < kRepeats;
}

// Makes the model of the next frame of component c. `samples` is the number of samples in a block.
VF_BOTH void learn(const Votes& v, int c, int samples, float least_variance, Noise* n) {
  const bool ignored = ignores(v, *n);
  n->repeats = repeats(v) ? n->repeats + (n->repeats <= kRepeats) : 0;
  if (ignored) return;
  const float moving = divide(float(v.moving), float(v.luma_cells > 0 ? v.luma_cells : 1));
  const float above = (moving - kSharesMoving[0]) * (1.0f / (kSharesMoving[1] - kSharesMoving[0]));
  n->moving = n->moving + (least(most(above, 0.0f), 1.0f) - n->moving) * kRate;
  uint32_t cells = 0, votes = 0;
  for (int i = 0; i < kBins; i++) {
    cells += v.cells[i];
    votes += v.votes[i];
  }
  if (cells >= kLeastFrame && votes > 0) {
    float next[kBins];
    const float correlation = n->kappa - 1.0f / float(samples);
    const float rate = n->frames ? kRate : 1.0f;
    const float codec = codec_factor(v.frame_variance, v.frame_median, c > 0);
    n->codec = n->codec + (codec - n->codec) * rate;
    const float bias = kVarianceBias * (1.0f + kCorrelationBias * correlation) * n->codec;
    const float whole = v.frame_variance * bias;
    // Each bin gets the nearest bin with a target at or below it and at or above it, or -1.
    int low[kBins], high[kBins];
    float low_is[kBins], high_is[kBins];
    for (int i = 0; i < kBins; i++) {
      const bool has = v.cells[i] >= kLeastCells && v.votes[i] >= kLeastVotes;
      low[i] = has ? i : i > 0 ? low[i - 1] : -1;
      low_is[i] = has ? v.variance[i] * bias : i > 0 ? low_is[i - 1] : whole;
    }
    for (int i = kBins - 1; i >= 0; i--) {
      const bool has = low[i] == i;
      high[i] = has ? i : i < kBins - 1 ? high[i + 1] : -1;
      high_is[i] = has ? low_is[i] : i < kBins - 1 ? high_is[i + 1] : whole;
    }
    for (int i = 0; i < kBins; i++) {
      const int between = high[i] - low[i];
      next[i] = low_is[i] + divide((high_is[i] - low_is[i]) * float(i - low[i]),
                                   float(between > 0 ? between : 1));
      if (low[i] < 0) next[i] = high_is[i];
      if (high[i] < 0) next[i] = low_is[i];
      next[i] = least(least(next[i], kMostOverFrame * whole), n->most);
    }
    for (int i = 3; i < kBins; i++) next[i] = least(next[i], kMostOverDarker * next[i - 1]);
    for (int i = 0; i < kBins; i++)
      n->variance[i] = most(n->variance[i] + (next[i] - n->variance[i]) * rate, least_variance);
    n->frames = 1;
    if (samples > 1 && v.ratios > kLeastRatios) {
      // Corrects the bias of a variance over few blocks.
      const float blocks = float(64 / samples);
      const float bias = kRatioBias * 63 / 64 * divide(blocks, blocks - 1.0f);
      const float k = least(most(v.ratio * bias, 1.0f / float(samples)), 1.0f);
      n->kappa = n->kappa + (k - n->kappa) * (n->ratios ? kRate : 1.0f);
      n->ratios = 1;
    }
  }
  n->flat = 2 * v.flat > v.total;
  for (int i = 0; i < kBins; i++)
    n->limit[i] = v.cells[i] >= kLeastCells ? v.texture[i] : kVarianceBins - 1;
}

// Returns the bias of the next frame at a level of luma, from its counts. `n` is the noise before.
VF_BOTH float learn_bias(const Noise& n, int level, const uint32_t (&counts)[3], float before) {
  const auto cells = float(counts[0]), samples = 16 * cells;
  if (counts[0] == 0) return before;
  const float deviation = std::sqrt(divide(variance_at(n, level), n.codec));
  const float median = kMedianFactor * deviation * divide(samples - 2 * float(counts[1]), samples);
  const float mean = divide(float(int32_t(counts[2])), 64 * cells);
  const float bias = least(most(kBiasFactor * (median - mean), -deviation), deviation);
  return before + (bias - before) * (kRate * divide(cells, cells + kBiasCells));
}

// Makes the model after the first frame. `variance` is the quantile of its Laplacians.
VF_BOTH void learn_first(const Votes& v, int samples, float variance, float least_variance,
                         Noise* n) {
  n->most = most(variance * (kFirstBias * kMostOverFirst), kBelieved);
  for (int i = 0; i < kBins; i++) {
    n->variance[i] = most(variance * kFirstBias, least_variance);
    n->limit[i] = v.cells[i] >= kLeastCells ? v.texture[i] : kVarianceBins - 1;
  }
  n->kappa = 1.0f / float(samples);
  n->codec = 1;
  n->moving = 0;
  n->flat = n->repeats = n->frames = n->ratios = 0;
}

// Returns luma's variance as a mean over the cells that counted, or `before` if none did.
VF_BOTH float level_of(const Votes& v, const Noise& n, float before) {
  float sum = 0;
  uint32_t cells = 0;
  for (int i = 0; i < kBins; i++) {
    sum = sum + n.variance[i] * float(v.cells[i]);
    cells += v.cells[i];
  }
  return cells ? divide(sum, float(cells)) : before;
}

// ---- statistics --------------------------------------------------------------------------------

// Sums over the blocks of a cell: the sums of differences, the squares of these sums, the squared
// differences (both times w / 1024), and p. For a cell of luma that counts for the bias, `below` is
// the number of its blocks whose upper right sample is below T.
struct CellSums {
  int32_t sum, p;
  uint32_t squared_sums, squares, below;
  bool has_bias;
};
// Tells whether a cell of luma counts for the bias, of which some thousand cells are enough.
constexpr int kEnoughCells = 4096;
VF_BOTH bool has_bias(int cell, int cells) {
  return cell % (1 + cells / kEnoughCells) == 0;
}

// Rounds v / 1024 to an integer and adds kRoundedZero. v is w times the squared sum of a block's
// differences, or w times four times the sum of its squared half_differences.
VF_BOTH uint32_t normalised_square_bits(float v) {
  return rounded_bits(least(v * (1.0f / 1024), kMostSquare));
}
VF_BOTH uint32_t normalised_square(float v) {
  return normalised_square_bits(v) - kRoundedZero;
}
VF_BOTH uint32_t half_difference(uint32_t difference) {
  return difference >> 1;
}
VF_BOTH float squares_of_halves(uint32_t squares) {
  return float(squares) * 4.0f;
}
// Mean luma of a block in 1/16 code, from the sum of its four samples.
VF_BOTH int block_luma(int sum) {
  return (sum + 32) >> 6;
}

// Variance of a cell's samples, and the variance of its blocks' means divided by it, both without
// correction of their bias. `blocks` is the number of blocks in the cell.
VF_BOTH float squared_mean(const CellSums& s, int blocks) {
  const float sum = float(s.sum), all = float(blocks * kOne);
  return (sum * sum) * (1.0f / (1 << 28)) * divide(all, all + float(s.p));
}
VF_BOTH float cell_variance(const CellSums& s, float mean) {
  return most(float(s.squares) * (1.0f / 4096) - mean, 0.0f);
}
VF_BOTH float cell_ratio(const CellSums& s, float mean, float variance, int samples) {
  return divide(float(s.squared_sums) * (1.0f / float(4096 * samples)) - mean, variance);
}
// Texture from the sum of squared differences of neighbouring blocks in `cells` groups of 4 x 4
// blocks. Only its order matters.
VF_BOTH float cell_texture(uint32_t sum, int cells) {
  return float(sum) * (1.0f / float(4096 * cells));
}
// Variance of the Laplacians, from the sum of 64 squares in (1/16 code)^2.
VF_BOTH float cell_laplacian(int64_t squares) {
  return float(squares) * (1.0f / (256 * 64 * 32));
}
// Level of luma, from the sum of block_luma over 1, 2 or 4 cells of 16 blocks.
VF_BOTH int level_of_cell(uint32_t sum, int cells) {
  const int level = int(sum >> (11 + cells / 2));
  return level < kLevels ? level : kLevels - 1;
}
VF_BOTH int luma_bin(int level) {
  return level / (kLevels / kBins);
}

// Adds a cell to the histograms. `add` adds to a count.
template <class Add>
VF_BOTH void count_cell(Histograms* h, const Noise& n, int c, int level, const CellSums& s,
                        float texture, int samples, Add&& add) {
  const int bin = luma_bin(level);
  const float mean = squared_mean(s, 64 / samples), variance = cell_variance(s, mean);
  if (variance < kFlat) {
    add(&h->flat[c], 1);
    if (!n.flat) return;
  } else if (s.has_bias && std::abs(s.sum) < kMostCellBias) {
    add(&h->bias[0][level], 1);
    add(&h->bias[1][level], s.below);
    add(&h->bias[2][level], uint32_t((s.sum + 128) >> 8));
  }
  const int texture_bin = variance_bin(texture);
  add(&h->texture[c][bin][texture_bin], 1);
  if (texture_bin > n.limit[bin]) return;
  add(&h->variance[c][bin][variance_bin(variance)], 1);
  const float v = n.variance[bin];
  if (samples > 1 && variance < kQuietHigh * v && variance > kQuietLow * v)
    add(&h->ratio[c][ratio_bin(cell_ratio(s, mean, variance, samples))], 1);
}

// ---- motion test -------------------------------------------------------------------------------

// 1 / (1 + p)
VF_BOTH float remaining(int p) {
  return divide_power(float(kOne), float(kOne + p));
}
// `square` is w times the squared sum of a block's differences.
VF_BOTH float motion_of_luma(float square, float factor) {
  return round_small(least(square * factor, kMostMotion));
}
VF_BOTH float motion_of_chroma(float square_u, float factor_u, float square_v, float factor_v) {
  return round_small(least(square_u * factor_u + square_v * factor_v, kMostMotion));
}
// Returns the variance that errors of motion add to T of a block, over the noise's in one frame.
// `squares` adds up the squared differences of the block's four samples of luma, in whole codes,
// from the opposite ones.
VF_BOTH float mismatch_of(float squares, float factor, const Contrast& c) {
  const float v = squares * factor;
  return v * c.share + most(v - kAliased, 0.0f) * c.more;
}
// Returns the gain in 1 / kOne from the sums of nine tests. `restless` describes the block's patch.
VF_BOTH int gain_of(float luma, float chroma, int p, float mismatch, bool restless,
                    float least_gain) {
  const float f = float(p) * (1.0f / kOne);
  const float th =
      (restless ? kThreshold - kThresholdRestless : kThreshold) + kThresholdOld * (1.0f - f);
  const float over =
      most(luma * (1.0f / 2304) - th, chroma * (1.0f / 2304) - (th + kThresholdChroma));
  const float s =
      (f + mismatch) + ((restless ? kSlopeRestless : kSlope) * (1.0f + f)) * most(over, 0.0f);
  const float k = most(divide(s, s + 1.0f), least_gain);
  return round_to_int(k * float(kOne));
}
// Packs the gain as p, together with the level of luma.
VF_BOTH uint16_t pack_block(int gain, int level) {
  return uint16_t((gain - 1) | level << 11);
}
VF_BOTH int p_of(uint32_t block) {
  return int(block & (kOne - 1)) + 1;
}
VF_BOTH int luma_level(uint32_t block) {
  return int(block >> 11);
}
// Blends two samples of 16 bits. The result has 16 bits of fraction.
VF_BOTH uint32_t blend(uint32_t x, uint32_t t, uint32_t gain) {
  constexpr uint32_t scale = 65536 / kOne;
  return x * (gain * scale) + (t * (65536 - gain * scale) + 32768);
}
VF_BOTH int level_of_block(int sum) {  // from the sum of its four samples of T
  return sum >> 13;
}

// ---- look-ahead --------------------------------------------------------------------------------

// Weights of a block where two states that hold the same frame are merged. p is of the state of the
// frames before, and q of the state of the later frames. All are in 1 / kOne.
struct Merge {
  int p;      // p of the merged state
  int later;  // weight of the state of the later frames
  int frame;  // weight that the frame loses, because both states hold it
};
// A quarter of the frame's second weight stays, because the frame alone has no errors of motion.
constexpr float kFrameTwice = 0.75f;
VF_BOTH Merge merge_of(int p, int q) {
  // 1 / merged = 1 / p + 1 / q - 1
  const float product = float(p * q);
  const float scale = divide(float(kOne), float(kOne * (p + q)) - product);
  return {round_to_int(product * scale), round_to_int(float(kOne * p) * scale),
          round_to_int(kFrameTwice * product * scale)};
}
VF_BOTH uint32_t merged(const Merge& m, int x, int before, int later, int top) {
  const int sum = m.later * (later - before) + m.frame * (before - x);
  const int v = before + ((sum + kOne / 2) >> 11);
  return uint32_t(v < 0 ? 0 : v > top ? top : v);
}

// ---- spatial filter ----------------------------------------------------------------------------

// Divides two neighbouring samples of T by 16, so that 16 of them can be summed in 16 bits and 16
// times the sum of their squares stays below 2^32.
VF_BOTH uint32_t coarse_pair(uint32_t pair) {
  return pair >> 4 & 0x0fff0fffu;
}

// Noise that the filter may remove from a sample: in 1/256 of a squared code, times kLine * 16, so
// that sums over 16 samples are shares of line_of.
VF_BOTH float weight_of(float p, const Weight& factor) {
  constexpr float one = kLine * 16;
  return (least(p * (factor.of_p + factor.of_square * p), kMostWeight * one) + 12582912.0f * one) -
         12582912.0f * one;
}

// Returns the bias of luma at the lower border of a level.
VF_BOTH int bias_at(const Model& m, const Settings& s, int border) {
  if (s.fixed_variance[0] >= 0) return 0;
  // A correction at black or white leads inside, so the mean stays in its range.
  const float b = border == 0         ? most(m.bias[0], 0.0f)
                  : border == kLevels ? least(m.bias[kLevels - 1], 0.0f)
                                      : (m.bias[border - 1] + m.bias[border]) * 0.5f;
  const float limit = border == kLevels - 1 ? kMostBiasBright : kMostBias;
  return round_to_int(least(most(b * 256, -kMostBias), limit));
}
VF_BOTH Correction correction_of(const Model& m, const Settings& s, int level) {
  const int bias = bias_at(m, s, level), slope = bias_at(m, s, level + 1) - bias;
  return {(bias - slope * level) * 2048 + 1024, slope};
}
VF_BOTH uint32_t corrected(uint32_t sum, const Correction* by_level) {
  const Correction c = by_level[sum >> 11];
  return sum + uint32_t((c.bias + c.slope * int(sum)) >> 11);
}

// Holds the line of a window. Its result is a T + c, in 1 / kLine of T's unit.
struct Line {
  uint32_t a, c;
};
// The sum is the mean of T less 7.5, which rounding to coarse values took. Samples of one byte get 7
// of it back: with more, value_of would exceed 32 bits. Samples of two bytes get back what each of
// them lacks in value_of, at most 15.
template <int kBytes>
constexpr uint32_t kGivenBack = kBytes == 1 ? 7 : 0;
// Makes a line from three sums over the 16 samples of a window: coarse values, their squares, and
// weights. `offset` is added to c. `mean` is the sum, corrected, with kGivenBack.
template <int kBytes>
VF_BOTH Line line_of(uint32_t sum, uint32_t squares, float weight, uint32_t offset, uint32_t mean) {
  // Their variance is (squares - sum^2 / 16) / 16 in coarse units, and this in T's.
  const uint32_t variance = 16 * squares - sum * sum;
  const float share = divide(weight, most(float(variance), 1.0f));
  const auto removed = uint32_t(round_to_int(least(share, float(kLine))));
  // The mean is limited so that what samples of two bytes get back in value_of fits as well.
  if (kBytes == 1) return {kLine - removed, removed * mean + offset};
  const uint32_t limit = (0xffffffffu - (15u << 16) - 16 * offset) >> 16;
  return {kLine - removed, removed * (mean < limit ? mean : limit) + offset};
}
// Interpolates at a quarter of the way from the near window to the far one. The result is times 4.
VF_BOTH uint32_t between(uint32_t near, uint32_t far) {
  return 3 * near + far;
}
// Applies a line, scaled by 16, to a sample. The result has 16 bits and 16 bits of fraction. With
// two bytes, the low bits that the coarse value lacks are added unchanged, so that a constant comes
// out unchanged.
template <int kBytes>
VF_BOTH uint32_t value_of(uint32_t a, uint32_t c, uint32_t t) {
  if (kBytes == 1) return a * t + c;
  return a * (t & 0xfff0u) + (c + ((t & 15) << 16));
}
// Offset of the lines that makes the upper `depth` bits of value_of the rounded code.
VF_BOTH uint32_t rounding_offset(int depth) {
  return 1u << (27 - depth);
}
// Converts a value to codes, relative to the middle. `code` is the number of codes per unit of T.
VF_BOTH float number_of(uint32_t value, float code) {
  return float(int32_t(value - 0x80000000u)) * (code * (1.0f / 65536));
}
VF_BOTH int code_of(float about_middle, float middle, float top) {
  return round_to_int(least(most(about_middle + middle, 0.0f), top));
}

// ---- smoothing along edges ---------------------------------------------------------------------

// Behind a codec, the noise along edges is smoothed, which the lines leave there.
constexpr float kAlong = 6;          // strength, in 1 / 128, per codec_factor above 1
constexpr int kMostAlong = 8 * 256;  // the largest second difference that counts

// Returns the strength for luma. 0 stands for none.
VF_BOTH int along_of(const Noise& n, const Settings& s) {
  return s.fixed_variance[0] < 0 ? round_to_int(kAlong * (n.codec - 1.0f)) : 0;
}
// Moves the sample in the middle of three by three towards the mean of the two opposite neighbours
// that differ least. `row` has the samples above, beside and below it.
VF_BOTH int smoothed(const int* above, const int* row, const int* below, int strength) {
  int sum = row[0] + row[2], difference = std::abs(row[0] - row[2]);
  const auto compare = [&](int a, int b) {
    const int d = std::abs(a - b);
    sum = d < difference ? a + b : sum;
    difference = d < difference ? d : difference;
  };
  compare(above[1], below[1]);
  compare(above[0], below[2]);
  compare(above[2], below[0]);
  const int second = sum - 2 * row[1];
  const int limited = second < -kMostAlong  ? -kMostAlong
                      : second > kMostAlong ? kMostAlong
                                            : second;
  return row[1] + ((limited * strength + 64) >> 7);
}

// ---- RGB ---------------------------------------------------------------------------------------

// Variance of Y, Co and Cg relative to that of R, G and B, whose noise is assumed independent.
constexpr double kRgbVariance[3] = {0.375, 0.5, 0.375};

struct Three {
  int v[3];
};
// Makes Y, Co and Cg of 16 bits each.
VF_BOTH Three of_rgb(int r, int g, int b) {
  return {{(r + 2 * g + b) >> 2, (r - b + 65536) >> 1, (2 * g - r - b + 131072) >> 2}};
}
// Makes R, G and B from Y, Co and Cg, all relative to the middle.
VF_BOTH void to_rgb(float y, float co, float cg, float out[3]) {
  out[0] = (y - cg) + co;
  out[1] = y + cg;
  out[2] = (y - cg) - co;
}

}  // namespace vf::denoise
