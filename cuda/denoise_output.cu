// The denoiser's second pass: the spatial filter, and the noise model of the next frame.
//
// Idea. A warp streams down a strip of a component, a lane four samples (of UV side by side two of
// each), with no shared memory but tables of 32 levels: sums along a row by shuffles, sums down in
// registers, rings of 3 rows (luma) or 5 (chroma). Everything that is summed is an integer held
// exactly in a float, so strips and lanes do not show.
// Lines are those of the plane with its edges replicated, so only loads know of edges.
// Traffic per luma sample of NV12: 3 B of T and 0.5 B of p in, 1.5 B out: 5 B.
// The first blocks do not filter: they make the model of the next frame from the statistics, beside
// the others. A warp takes a bin of luma, one thread the rest.
// Limits: instructions issued, and registers (rings of chroma).
#include <type_traits>

#include "cuda/denoise_device.cuh"
#include "cuda/ptx.cuh"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

constexpr int kThreads = 32 * kOutputWarps;

// ---- the spatial filter ------------------------------------------------------------------------

// kAcross: samples of a block. kSamples: of a lane, of each of kComponents.
template <int kRadius_, int kAcross_, int kSamples_, int kComponents_>
struct Shape {
  static constexpr int kRadius = kRadius_, kAcross = kAcross_, kSamples = kSamples_,
                       kComponents = kComponents_;
  static constexpr int kRows = 2 * kRadius + 1;
  static constexpr int kHalo = (2 * kRadius + kSamples - 1) / kSamples;  // lanes
  static constexpr int kColumns = (32 - 2 * kHalo) * kSamples;           // of a strip
  static constexpr int kWords = kSamples / 2, kBlocks = kSamples / kAcross;
};
using Luma = Shape<kLumaRadius, 2, 4, 1>;
using ChromaFull = Shape<kChromaRadius, 2, 4, 1>;
using ChromaHalf = Shape<kChromaRadius, 1, 4, 1>;
using ChromaPairs = Shape<kChromaRadius, 1, 2, 2>;

// Words of two 16-bit numbers from a row of `size`, of which this lane's begin at x, with its edges
// replicated. x is a multiple of their count.
template <int kWords>
__device__ __forceinline__ void read_words(const uint16_t* row, int x, int size, bool edge,
                                           uint32_t (&v)[kWords]) {
  constexpr int n = 2 * kWords;
  const int base = edge ? min(max(x, 0), (size - 1) / n * n) : x;
  if constexpr (kWords == 2) {
    const uint2 two = *reinterpret_cast<const uint2*>(row + base);
    v[0] = two.x;
    v[1] = two.y;
  } else {
    v[0] = *reinterpret_cast<const uint32_t*>(row + base);
  }
  if (!edge) return;
  const int last = size - 1 - base;  // of these, where it is below n
  if (x < 0) {
    for (uint32_t& word : v) word = pair_of(low_half(v[0]), low_half(v[0]));
  } else if (last < n - 1 || x > base) {
    int end = low_half(v[0]);
#pragma unroll
    for (int i = 1; i < n; i++)
      if (i <= last) end = i & 1 ? high_half(v[i / 2]) : low_half(v[i / 2]);
#pragma unroll
    for (int i = 0; i < n; i++)
      if (i > last || x > base)
        v[i / 2] = i & 1 ? pair_of(low_half(v[i / 2]), end) : pair_of(end, high_half(v[i / 2]));
  }
}

// Half of a word less the middle, by way of the bits of 2^23 and more: conversions are slow.
__device__ __forceinline__ float about_middle(uint32_t word, int half) {
  return __uint_as_float(__byte_perm(word, 0x4b000000u, half ? 0x7432 : 0x7410)) -
         (8388608.0f + kMiddle);
}

__device__ __forceinline__ uint32_t of_left(uint32_t v) {
  return __shfl_up_sync(~0u, v, 1);
}
__device__ __forceinline__ uint32_t of_right(uint32_t v) {
  return __shfl_down_sync(~0u, v, 1);
}
__device__ __forceinline__ float of_left(float v) {
  return __shfl_up_sync(~0u, v, 1);
}
__device__ __forceinline__ float of_right(float v) {
  return __shfl_down_sync(~0u, v, 1);
}

// v and kRadius more on either side, summed over 2 kRadius + 1.
template <class S>
__device__ __forceinline__ void add_across(const float (&v)[S::kSamples + 2 * S::kRadius],
                                           float (&sum)[S::kSamples]) {
  // Neighbours share the middle of their windows.
#pragma unroll
  for (int i = 0; i < S::kSamples; i += 2) {
    float middle = v[i + 1] + v[i + 2];
#pragma unroll
    for (int k = 3; k < S::kRows; k++) middle += v[i + k];
    sum[i] = v[i] + middle;
    sum[i + 1] = middle + v[i + S::kRows];
  }
}

template <class S>
__device__ __forceinline__ void with_neighbours(const float (&own)[S::kSamples],
                                                float (&v)[S::kSamples + 2 * S::kRadius]) {
#pragma unroll
  for (int i = 0; i < S::kRadius; i++) {
    v[i] = of_left(own[S::kSamples - S::kRadius + i]);
    v[S::kRadius + S::kSamples + i] = of_right(own[i]);
  }
#pragma unroll
  for (int i = 0; i < S::kSamples; i++) v[S::kRadius + i] = own[i];
}

// Of a row and a lane: sums along it.
template <class S>
struct Sums {
  float sum[S::kSamples], coarse[S::kSamples], squares[S::kSamples], weights[S::kSamples];
};

// Four codes, side by side in memory.
template <int kBytes>
__device__ __forceinline__ void store_four(uint8_t* at, uint32_t a, uint32_t b, uint32_t c,
                                           uint32_t d) {
  if constexpr (kBytes == 1)
    *reinterpret_cast<uint32_t*>(at) = __byte_perm(a | b << 8, c | d << 8, 0x5410);
  else
    *reinterpret_cast<uint2*>(at) = make_uint2(a | b << 16, c | d << 16);
}

// A lane's result. Samples from `width` on are outside.
template <int kBytes, class S>
__device__ __forceinline__ void store(const Denoise& d, int c0, int x, int y, int width,
                                      const uint32_t (&codes)[S::kComponents][S::kSamples]) {
  const auto at = [&](int c) {
    const DenoiseView& v = d.to[c0 + c];
    return v.data + y * v.stride + (long long)x * v.step * kBytes;
  };
  const auto aligned = [](const uint8_t* p) {
    return (reinterpret_cast<uintptr_t>(p) & (4 * kBytes - 1)) == 0;
  };
  uint8_t* const first = at(0);
  if constexpr (S::kComponents == 1) {
    if (d.to[c0].step == 1 && x + 3 < width && aligned(first)) {
      store_four<kBytes>(first, codes[0][0], codes[0][1], codes[0][2], codes[0][3]);
      return;
    }
  } else {
    uint8_t* const second = at(1);
    if (d.to[c0].step == 2 && x + 1 < width) {
      if (second == first + kBytes && aligned(first)) {
        store_four<kBytes>(first, codes[0][0], codes[1][0], codes[0][1], codes[1][1]);
        return;
      }
      if (first == second + kBytes && aligned(second)) {
        store_four<kBytes>(second, codes[1][0], codes[0][0], codes[1][1], codes[0][1]);
        return;
      }
    }
  }
#pragma unroll
  for (int c = 0; c < S::kComponents; c++)
#pragma unroll
    for (int j = 0; j < S::kSamples; j++)
      if (x + j < width) store_sample<kBytes>(d, c0 + c, x + j, y, int(codes[c][j] >> d.shift));
}

// A row's samples and the noise left in its blocks, as sums along the row.
template <class S>
__device__ __forceinline__ void add_row(const uint32_t (&t)[S::kWords],
                                        const uint32_t (&p)[S::kBlocks / 2], const float* factors,
                                        Sums<S>* to) {
  constexpr int radius = S::kRadius, samples = S::kSamples;
  float all[samples + 2 * radius], rough[samples + 2 * radius], square[samples + 2 * radius];
  float weight[samples], weights[samples + 2 * radius];
  {
    // Both neighbours' nearest words.
    const uint32_t left = of_left(t[S::kWords - 1]), right = of_right(t[0]);
    float v[samples + 4];
    v[0] = about_middle(left, 0);
    v[1] = about_middle(left, 1);
#pragma unroll
    for (int j = 0; j < samples; j++) v[2 + j] = about_middle(t[j / 2], j & 1);
    v[samples + 2] = about_middle(right, 0);
    v[samples + 3] = about_middle(right, 1);
#pragma unroll
    for (int j = 0; j < samples + 2 * radius; j++) {
      all[j] = v[j + 2 - radius];
      rough[j] = coarse<radius>(all[j]);
      square[j] = rough[j] * rough[j];
    }
  }
#pragma unroll
  for (int j = 0; j < samples; j++) {
    const int block = j / S::kAcross;
    const uint32_t q = block & 1 ? p[block / 2] >> 16 : p[block / 2] & 0xffff;
    weight[j] = j % S::kAcross ? weight[j - 1]
                               : weight_of(float_of_bits(0x4b000000u | (q & kOne)) - 8388608.0f,
                                           factors[q >> 11]);
  }
  if constexpr (S::kAcross == 2) {
    const float l = of_left(weight[samples - 1]), r = of_right(weight[0]);
#pragma unroll
    for (int j = 0; j < radius; j++) weights[j] = l, weights[radius + samples + j] = r;
#pragma unroll
    for (int j = 0; j < samples; j++) weights[radius + j] = weight[j];
  } else {
    with_neighbours<S>(weight, weights);
  }
  add_across<S>(all, to->sum);
  add_across<S>(rough, to->coarse);
  add_across<S>(square, to->squares);
  add_across<S>(weights, to->weights);
}

// The lines of the window around a row, as sums along the row.
template <class S>
__device__ __forceinline__ void add_lines(const Sums<S> (&sums)[S::kRows], float (*a)[S::kSamples],
                                          float (*b)[S::kSamples]) {
  constexpr int radius = S::kRadius, rows = S::kRows, samples = S::kSamples;
  float line_a[samples], line_b[samples];
#pragma unroll
  for (int j = 0; j < samples; j++) {
    float s = 0, r = 0, q = 0, w = 0;
#pragma unroll
    for (int m = 0; m < rows; m++) {
      s += sums[m].sum[j];
      r += sums[m].coarse[j];
      q += sums[m].squares[j];
      w += sums[m].weights[j];
    }
    const Line line = line_of<radius>(s, r, q, w);
    line_a[j] = line.a;
    line_b[j] = line.b;
  }
  float wide[samples + 2 * radius];
  with_neighbours<S>(line_a, wide);
  add_across<S>(wide, *a);
  with_neighbours<S>(line_b, wide);
  add_across<S>(wide, *b);
}

// Rows from y0 on, `height_of_strip` of them; x: this lane's first sample.
template <int kBytes, class S, bool kValues>
__device__ __forceinline__ void filter_strip(const Denoise& d, const float (*factors)[kLevels],
                                             int c0, int x, int y0, int height_of_strip, bool own) {
  constexpr int radius = S::kRadius, rows = S::kRows, samples = S::kSamples;
  constexpr int components = S::kComponents;
  const int width = d.width[c0], height = d.height[c0];
  const int blocks = d.blocks_x, per_y = d.per_y[c0];
  const bool edge = __ballot_sync(~0u, x < 0 || x + samples > width) != 0;
  const float code = d.depth == 16 ? 1.0f : 1.0f / float(1 << (16 - d.depth));
  const float middle = float(1 << (d.depth - 1)), top = float((1 << d.depth) - 1);
  const int out_width = kValues ? width : d.to[c0].width;
  const int out_height = kValues ? height : d.to[c0].height;

  Sums<S> sums[components][rows];
  float a[components][rows][samples], b[components][rows][samples];
  uint32_t kept[components][rows][S::kWords];
#pragma unroll
  for (int c = 0; c < components; c++)
#pragma unroll
    for (int k = 0; k < rows; k++) {
#pragma unroll
      for (int i = 0; i < samples; i++) {
        sums[c][k].sum[i] = sums[c][k].coarse[i] = 0;
        sums[c][k].squares[i] = sums[c][k].weights[i] = 0;
        a[c][k][i] = b[c][k][i] = 0;
      }
#pragma unroll
      for (int i = 0; i < S::kWords; i++) kept[c][k][i] = 0;
    }

  const auto read_row = [&](int y, uint32_t(&t)[components][S::kWords],
                            uint32_t(&p)[S::kBlocks / 2]) {
    y = min(max(y, 0), height - 1);
#pragma unroll
    for (int c = 0; c < components; c++)
      read_words<S::kWords>(d.is[c0 + c] + (long long)y * d.pitch[c0 + c], x, width, edge, t[c]);
    read_words<S::kBlocks / 2>(d.is_p + (long long)(y / per_y) * d.pitch_p,
                               x < 0 ? -S::kBlocks : x / S::kAcross, blocks, edge, p);
  };

  const int end = min(height_of_strip, out_height - y0) + 4 * radius;
  uint32_t next_t[components][S::kWords], next_p[S::kBlocks / 2];
  read_row(y0 - 2 * radius, next_t, next_p);
  for (int i0 = 0; i0 < end; i0 += rows) {
#pragma unroll
    for (int k = 0; k < rows; k++) {
      // Row y0 - 2 radius + i is read, lines of the one `radius` above it are made, and the row 2
      // `radius` above it is written.
      const int i = i0 + k;
      if (i >= end) break;
      uint32_t t[components][S::kWords], p[S::kBlocks / 2];
#pragma unroll
      for (int c = 0; c < components; c++)
#pragma unroll
        for (int j = 0; j < S::kWords; j++) t[c][j] = next_t[c][j];
#pragma unroll
      for (int j = 0; j < S::kBlocks / 2; j++) p[j] = next_p[j];
      read_row(y0 - 2 * radius + i + 1, next_t, next_p);
#pragma unroll
      for (int c = 0; c < components; c++) {
        add_row<S>(t[c], p, factors[c], &sums[c][k]);
#pragma unroll
        for (int j = 0; j < S::kWords; j++) kept[c][k][j] = t[c][j];
      }
      if (i < 2 * radius) continue;
#pragma unroll
      for (int c = 0; c < components; c++) {
        add_lines<S>(sums[c], &a[c][k], &b[c][k]);
      }
      if (i < 4 * radius || !own) continue;
      const int y = y0 + i - 4 * radius;
      float value[components][samples];
#pragma unroll
      for (int c = 0; c < components; c++)
#pragma unroll
        for (int j = 0; j < samples; j++) {
          float sa = 0, sb = 0;
#pragma unroll
          for (int m = 0; m < rows; m++) {
            sa += a[c][m][j];
            sb += b[c][m][j];
          }
          // The row read 2 radius rows ago is the next slot of the ring.
          const uint32_t word = kept[c][(k + 1) % rows][j / 2];
          value[c][j] = value_of<radius>(sa, sb, about_middle(word, j & 1), code);
        }
      if constexpr (kValues) {
        float* to = d.values[c0] + (long long)y * d.pitch[0] + x;
#pragma unroll
        for (int j = 0; j < samples; j++)
          if (x + j < out_width) to[j] = value[0][j];
      } else {
        uint32_t codes[components][samples];
#pragma unroll
        for (int c = 0; c < components; c++)
#pragma unroll
          for (int j = 0; j < samples; j++)
            codes[c][j] = uint32_t(code_of(value[c][j], middle, top)) << d.shift;
        store<kBytes, S>(d, c0, x, y, out_width, codes);
      }
    }
  }
}

// ---- the noise model ---------------------------------------------------------------------------

// A warp's: the value that `rank` counts are up to, and its bin. counts[k] of a lane: of bin lane *
// kEach + k.
template <int kEach>
__device__ float value_of_rank(const uint32_t (&counts)[kEach], float rank, int base, int* bin) {
  const int lane = threadIdx.x & 31;
  uint32_t own = 0;
#pragma unroll
  for (int k = 0; k < kEach; k++) own += counts[k];
  uint32_t upto = own;
  for (int by = 1; by < 32; by *= 2) {
    const uint32_t v = __shfl_up_sync(~0u, upto, by);
    if (lane >= by) upto += v;
  }
  uint32_t before = upto - own;
  int found = -1;
  float value = 0;
#pragma unroll
  for (int k = 0; k < kEach; k++) {
    if (found < 0 && float(before + counts[k]) >= rank) {
      found = lane * kEach + k;
      value = value_at(found, base, rank, before, counts[k]);
    }
    before += counts[k];
  }
  const uint32_t have = __ballot_sync(~0u, found >= 0);
  const int from = have ? __ffs(int(have)) - 1 : 31;
  *bin = __shfl_sync(~0u, found, from);
  return __shfl_sync(~0u, value, from);
}

template <int kEach>
__device__ uint32_t total_of(const uint32_t (&counts)[kEach]) {
  uint32_t sum = 0;
#pragma unroll
  for (int k = 0; k < kEach; k++) sum += counts[k];
  for (int by = 16; by; by /= 2) sum += __shfl_xor_sync(~0u, sum, by);
  return sum;
}

constexpr int kEach = kVarianceBins / 32;

__device__ void take(uint32_t* from, uint32_t (&counts)[kEach]) {
  const int lane = threadIdx.x & 31;
  const uint4 v = *reinterpret_cast<const uint4*>(from + kEach * lane);
  counts[0] = v.x;
  counts[1] = v.y;
  counts[2] = v.z;
  counts[3] = v.w;
  // For the next frame.
  *reinterpret_cast<uint4*>(from + kEach * lane) = make_uint4(0, 0, 0, 0);
}

// The model of component c for the next frame: all threads of a block.
__device__ void learn_component(const Denoise& d, int c, bool first) {
  VF_SHARED(Votes, votes);
  VF_SHARED(uint32_t[kVarianceBins], all);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  for (int i = threadIdx.x; i < kVarianceBins; i += kThreads) all[i] = 0;
  __syncthreads();
  int bin;
  for (int i = warp; i < kBins; i += kOutputWarps) {
    uint32_t counts[kEach];
    take(d.histograms->texture[c][i], counts);
    const uint32_t cells = total_of(counts);
    value_of_rank(counts, texture_rank(cells), kVarianceBase, &bin);
    if (lane == 0) {
      votes.cells[i] = cells;
      votes.texture[i] = bin;
    }
    take(d.histograms->variance[c][i], counts);
    const uint32_t total = total_of(counts);
    const float value =
        value_of_rank(counts, rank_of(total, kVarianceQuantile), kVarianceBase, &bin);
    if (lane == 0) {
      votes.votes[i] = total;
      votes.variance[i] = value;
    }
#pragma unroll
    for (int k = 0; k < kEach; k++)
      if (counts[k]) atomicAdd(&all[kEach * lane + k], counts[k]);
  }
  __syncthreads();
  if (warp != 0) return;
  uint32_t counts[kEach];
#pragma unroll
  for (int k = 0; k < kEach; k++) counts[k] = all[kEach * lane + k];
  const float whole =
      value_of_rank(counts, rank_of(total_of(counts), kVarianceQuantile), kVarianceBase, &bin);
  uint32_t ratio[2] = {};
#pragma unroll
  for (int k = 0; k < 2; k++)
    if (2 * lane + k < kRatioBins) {
      ratio[k] = d.histograms->ratio[c][2 * lane + k];
      d.histograms->ratio[c][2 * lane + k] = 0;
    }
  const uint32_t ratios = total_of(ratio);
  const float kappa = value_of_rank(ratio, rank_of(ratios, kRatioQuantile), kRatioBase, &bin);
  float laplacian = 0;
  if (first) {
    uint32_t every[kEach];
    take(d.histograms->first[c][0], every);
    take(d.histograms->first[c][1], counts);
    if (total_of(counts) <= kLeastFrame)
#pragma unroll
      for (int k = 0; k < kEach; k++) counts[k] = every[k];
    laplacian =
        value_of_rank(counts, rank_of(total_of(counts), kFirstQuantile), kVarianceBase, &bin);
  }
  if (lane != 0) return;
  votes.frame_variance = whole;
  votes.ratio = kappa;
  votes.ratios = ratios;
  votes.flat = d.histograms->flat[c];
  d.histograms->flat[c] = 0;
  votes.total =
      uint32_t(d.blocks_x / (kCell / d.per_x[c])) * uint32_t(d.blocks_y / (kCell / d.per_y[c]));
  Noise noise = d.model->noise[c];
  const int samples = d.per_x[c] * d.per_y[c];
  if (first)
    learn_first(votes, samples, laplacian, &noise);
  else
    learn(votes, samples, &noise);
  d.next->noise[c] = noise;
  if (c == 0) {
    const float level = level_of(votes, noise, first ? noise.variance[0] : d.model->level);
    d.next->level = level;
    *d.level = level;
  }
}

// The warp's strip: number `strip` of those of component c0.
template <int kBytes, class S, bool kValues>
__device__ __forceinline__ void filter(const Denoise& d, const float (*factors)[kLevels], int c0,
                                       int strip, int strips_x, int rows) {
  const int lane = threadIdx.x & 31;
  const int x = strip % strips_x * S::kColumns + (lane - S::kHalo) * S::kSamples;
  const int y = strip / strips_x * rows;
  if (y >= d.height[c0]) return;
  const bool own = lane >= S::kHalo && lane < 32 - S::kHalo && x < d.width[c0];
  filter_strip<kBytes, S, kValues>(d, factors, c0, x, y, rows, own);
}

// S void: luma and pairs of chroma.
template <int kBytes, class S, bool kValues>
__global__ __launch_bounds__(kThreads, 3) void output(const Denoise d) {
  constexpr bool whole = std::is_void<S>::value;
  VF_SHARED(float[3][kLevels], factors);
  int block = int(blockIdx.x);
  if (d.learns) {
    if (block < kDenoiseLearners) {
      if (block < d.colors) learn_component(d, block, false);
      return;
    }
    block -= kDenoiseLearners;
  }
  for (int i = threadIdx.x; i < d.colors * kLevels; i += kThreads) {
    const int c = i / kLevels;
    factors[c][i % kLevels] = weight_factor(d.model->noise[c], d.settings, c, i % kLevels);
  }
  __syncthreads();
  const int warp = threadIdx.x >> 5;
  if constexpr (whole) {
    if (block < d.chroma_blocks)
      filter<kBytes, ChromaPairs, false>(d, factors + 1, 1, block * kOutputWarps + warp,
                                         d.chroma_strips_x, d.chroma_strip);
    else
      filter<kBytes, Luma, false>(d, factors, 0, (block - d.chroma_blocks) * kOutputWarps + warp,
                                  d.strips_x, d.strip);
  } else {
    filter<kBytes, S, kValues>(d, factors + d.component, d.component, block * kOutputWarps + warp,
                               d.strips_x, d.strip);
  }
}

template <int kBytes>
__global__ __launch_bounds__(256) void to_rgb_frame(const Denoise d) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31), y = blockIdx.y * 8 + (threadIdx.x >> 5);
  if (x >= d.to[0].width || y >= d.to[0].height) return;
  const long long at = (long long)y * d.pitch[0] + x;
  const float middle = float(1 << (d.depth - 1)), top = float((1 << d.depth) - 1);
  float rgb[3];
  to_rgb(d.values[0][at], d.values[1][at], d.values[2][at], rgb);
#pragma unroll
  for (int c = 0; c < 3; c++) store_sample<kBytes>(d, c, x, y, code_of(rgb[c], middle, top));
}

// ---- the first frame ---------------------------------------------------------------------------

// A thread per block of 2 x 2 pixels.
template <int kBytes>
__global__ __launch_bounds__(256) void first(const Denoise d) {
  const int bx = blockIdx.x * 32 + (threadIdx.x & 31), by = blockIdx.y * 8 + (threadIdx.x >> 5);
  if (bx >= d.blocks_x || by >= d.blocks_y) return;
  int luma = 0;
  for (int c = 0; c < d.colors; c++)
    for (int j = 0; j < d.per_y[c]; j++)
      for (int i = 0; i < d.per_x[c]; i++) {
        const int x = bx * d.per_x[c] + i, y = by * d.per_y[c] + j;
        int v;
        if (d.is_rgb)
          v = of_rgb(sample_at<kBytes>(d, 0, x, y), sample_at<kBytes>(d, 1, x, y),
                     sample_at<kBytes>(d, 2, x, y))
                  .v[c];
        else
          v = sample_at<kBytes>(d, c, x, y);
        d.is[c][(long long)y * d.pitch[c] + x] = uint16_t(v);
        if (c == 0) luma += v;
      }
  d.is_p[(long long)by * d.pitch_p + bx] = uint16_t(kOne | level_of_block(luma) << 11);
}

// A thread per cell of a component: blockIdx.z.
__global__ __launch_bounds__(64) void first_count(const Denoise d) {
  const int c = blockIdx.z, wide = kCell / d.per_x[c], high = kCell / d.per_y[c];
  const int cx = blockIdx.x * 8 + (threadIdx.x & 7), cy = blockIdx.y * 8 + (threadIdx.x >> 3);
  if (cx >= d.blocks_x / wide || cy >= d.blocks_y / high) return;
  const auto block_of = [&](int i, int j) {
    const uint16_t* t = d.is[0] + (long long)(2 * j) * d.pitch[0] + 2 * i;
    return block_luma(t[0] + t[1] + t[d.pitch[0]] + t[d.pitch[0] + 1]);
  };
  uint32_t light = 0, rough = 0;
  for (int j = cy * high; j < (cy + 1) * high; j++)
    for (int i = cx * wide; i < (cx + 1) * wide; i++) {
      const int v = block_of(i, j);
      light += uint32_t(v);
      const int h = i % 4 < 3 ? block_of(i + 1, j) - v : 0,
                u = j % 4 < 3 ? block_of(i, j + 1) - v : 0;
      rough += uint32_t(h * h) + uint32_t(u * u);
    }
  const int parts = wide * high / 16;
  const int bin = luma_bin(light, parts == 1 ? 0 : parts == 2 ? 1 : 2);
  atomicAdd(&d.histograms->texture[c][bin][variance_bin(cell_texture(rough, parts))], 1u);
  const auto at = [&](int x, int y) {
    x = min(max(x, 0), d.width[c] - 1);
    y = min(max(y, 0), d.height[c] - 1);
    return int(d.is[c][(long long)y * d.pitch[c] + x]);
  };
  int64_t squares = 0, sum = 0;
  for (int y = kCell * cy; y < kCell * (cy + 1); y++)
    for (int x = kCell * cx; x < kCell * (cx + 1); x++) {
      int v[3];
      for (int k = 0; k < 3; k++)
        v[k] =
            (at(x - 1, y + k - 1) >> 4) - 2 * (at(x, y + k - 1) >> 4) + (at(x + 1, y + k - 1) >> 4);
      const int64_t laplacian = v[0] - 2 * v[1] + v[2];
      squares += laplacian * laplacian;
      sum += at(x, y);
    }
  const int laplacian_bin = variance_bin(cell_laplacian(squares));
  atomicAdd(&d.histograms->first[c][0][laplacian_bin], 1u);
  if (sum > kFirstDark * 64 * 256 && sum < kFirstBright * 64 * 256)
    atomicAdd(&d.histograms->first[c][1][laplacian_bin], 1u);
}

__global__ __launch_bounds__(kThreads) void first_learn(const Denoise d) {
  learn_component(d, int(blockIdx.x), true);
}

}  // namespace

DenoiseKernel denoise_output(int bytes, DenoiseOutput what, bool values) {
  const bool wide = bytes == 2;
  if (values)
    return what == DenoiseOutput::luma ? output<1, Luma, true> : output<1, ChromaFull, true>;
  switch (what) {
    case DenoiseOutput::luma:
      return wide ? output<2, Luma, false> : output<1, Luma, false>;
    case DenoiseOutput::chroma_full:
      return wide ? output<2, ChromaFull, false> : output<1, ChromaFull, false>;
    case DenoiseOutput::chroma_half:
      return wide ? output<2, ChromaHalf, false> : output<1, ChromaHalf, false>;
    case DenoiseOutput::chroma_pairs:
      return wide ? output<2, ChromaPairs, false> : output<1, ChromaPairs, false>;
    default:
      return wide ? output<2, void, false> : output<1, void, false>;
  }
}

int denoise_output_columns(DenoiseOutput what) {
  return what == DenoiseOutput::luma           ? Luma::kColumns
         : what == DenoiseOutput::chroma_pairs ? ChromaPairs::kColumns
                                               : ChromaFull::kColumns;
}

DenoiseKernel denoise_to_rgb(int bytes) {
  return bytes == 2 ? to_rgb_frame<2> : to_rgb_frame<1>;
}
DenoiseKernel denoise_first(int bytes) {
  return bytes == 2 ? first<2> : first<1>;
}
DenoiseKernel denoise_first_count() {
  return first_count;
}
DenoiseKernel denoise_first_learn() {
  return first_learn;
}

}  // namespace vf::cuda
