// The denoiser's second pass: the spatial filter, and the noise model of the next frame.
//
// Idea. A warp streams down a strip of a component (of U and V side by side), two rows at a time, a
// lane four samples: two groups of 2 x 2, which have a window and a line each. Sums over the rows
// of a window are kept in registers, sums along it come by shuffles; pairs of samples are summed as
// halves of a word. Lines are interpolated along the row first, then between two rows of groups.
// No shared memory but tables of 32 levels. Sums are of integers, so strips and lanes do not show.
// Windows are those of the plane with its edges replicated, so only loads know of edges.
// Traffic per luma sample of NV12: 3 B of T and 0.5 B of p in, 1.5 B out: 5 B.
// The first blocks do not filter: they make the model of the next frame from the statistics, beside
// the others. A warp takes a bin of luma, one thread the rest.
// Limits: instructions issued.
#include <type_traits>

#include "cuda/denoise_device.cuh"
#include "cuda/ptx.cuh"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

constexpr int kThreads = 32 * kOutputWarps;

// ---- the spatial filter ------------------------------------------------------------------------

constexpr int kSamples = 4;                    // of a lane and row, of each component
constexpr int kWords = kSamples / 2;           // which hold them
constexpr int kColumns = (32 - 2) * kSamples;  // of a strip: a lane on either side only helps
static_assert(kColumns == kDenoiseStripColumns);

// kX, kY: samples of a block. kComponents: that are filtered together.
template <int kX_, int kY_, int kComponents_ = 1>
struct Shape {
  static constexpr int kX = kX_, kY = kY_, kComponents = kComponents_;
  static constexpr int kBlocks = kSamples / kX;       // of a lane, in a row
  static constexpr int kBlockRows = kY == 1 ? 2 : 1;  // of them in two rows of samples
  static constexpr int kBlockWords = kBlocks / 2;
};

// Words of two 16-bit numbers from a row of `size`, of which this lane's begin at x, with its edges
// replicated. x is a multiple of their count.
template <int kCount>
__device__ __forceinline__ void read_words(const uint16_t* row, int x, int size, bool edge,
                                           uint32_t (&v)[kCount]) {
  constexpr int n = 2 * kCount;
  const int base = edge ? min(max(x, 0), (size - 1) / n * n) : x;
  if constexpr (kCount == 2) {
    const uint2 two = *reinterpret_cast<const uint2*>(row + base);
    v[0] = two.x;
    v[1] = two.y;
  } else {
    v[0] = *reinterpret_cast<const uint32_t*>(row + base);
  }
  if (!edge) return;
  const int last = size - 1 - base;  // of these, where it is below n
  if (x < 0) {
    const uint32_t first = pair_of(low_half(v[0]), low_half(v[0]));
#pragma unroll
    for (uint32_t& word : v) word = first;
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

template <class T>
__device__ __forceinline__ T of_left(T v) {
  return __shfl_up_sync(~0u, v, 1);
}
template <class T>
__device__ __forceinline__ T of_right(T v) {
  return __shfl_down_sync(~0u, v, 1);
}

// Sums over the columns of windows, by way of sums over two of their rows: a window is the lower
// row of one pair of rows, two rows, and the upper row of another.
template <class T, int kCount>
struct Columns {
  T lower[kCount] = {}, half[kCount] = {};
  // Rows of the next pair; sums of the window that ends with the upper one.
  __device__ __forceinline__ void next(const T (&upper_row)[kCount], const T (&lower_row)[kCount],
                                       T (&sum)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      const T more = lower[i] + upper_row[i];
      sum[i] = half[i] + more;
      half[i] = more;
      lower[i] = lower_row[i];
    }
  }
};

// Sums along the row of both windows of a lane, from those of its columns.
template <class T>
__device__ __forceinline__ void add_along(const T (&v)[kSamples], T (&sum)[2]) {
  const T left = of_left(v[3]), right = of_right(v[0]), middle = v[1] + v[2];
  sum[0] = left + v[0] + middle;
  sum[1] = middle + v[3] + right;
}

// Of a component, what a lane remembers of the rows above.
template <class S>
struct Above {
  Columns<uint32_t, kWords> coarse;  // sums of pairs of samples
  Columns<uint32_t, kSamples> squares;
  Columns<float, S::kBlocks> weights;
  uint32_t t[3][kWords] = {};  // the rows between the last two lines, and the one below them
  Line line[kSamples] = {};    // along the last row of them
};

// The sums over the columns of a lane's next windows.
template <class S>
struct Window {
  uint32_t coarse[kWords], squares[kSamples];
  float weights[S::kBlocks];
};

template <class S>
__device__ __forceinline__ void read_weights(const uint32_t (&p)[S::kBlockWords],
                                             const float* factors, float (&w)[S::kBlocks]) {
#pragma unroll
  for (int i = 0; i < S::kBlocks; i++) {
    const uint32_t q = i & 1 ? p[i / 2] >> 16 : p[i / 2] & 0xffff;
    w[i] = weight_of(float_of_bits(0x4b000000u | (q & (kOne - 1))) - 8388607.0f,
                     factors[luma_level(q)]);
  }
}

// Two rows more.
template <class S>
__device__ __forceinline__ void add_rows(const uint32_t (&t)[2][kWords],
                                         const uint32_t (&p)[S::kBlockRows][S::kBlockWords],
                                         const float* factors, Above<S>* above, Window<S>* window) {
  uint32_t coarse[2][kWords], squares[2][kSamples];
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int i = 0; i < kWords; i++) {
      coarse[r][i] = coarse_pair(t[r][i]);
      const uint32_t low = coarse[r][i] & 0xffff, high = coarse[r][i] >> 16;
      squares[r][2 * i] = low * low;
      squares[r][2 * i + 1] = high * high;
    }
  above->coarse.next(coarse[0], coarse[1], window->coarse);
  above->squares.next(squares[0], squares[1], window->squares);
  float weights[2][S::kBlocks];
  read_weights<S>(p[0], factors, weights[0]);
  if constexpr (S::kY == 1) {
    read_weights<S>(p[1], factors, weights[1]);
    above->weights.next(weights[0], weights[1], window->weights);
  } else {
    above->weights.next(weights[0], weights[0], window->weights);
  }
}

// The lines of both windows, along the row.
template <class S>
__device__ __forceinline__ void make_lines(const Window<S>& window, uint32_t offset,
                                           Line (&line)[kSamples]) {
  uint32_t squares[2];
  add_along(window.squares, squares);
  float weights[2];
  if constexpr (S::kX == 1) {
    add_along(window.weights, weights);
  } else {
    const float own[kSamples] = {window.weights[0], window.weights[0], window.weights[1],
                                 window.weights[1]};
    add_along(own, weights);
  }
  // Both windows' sums at once: no half of the word overflows.
  const uint32_t *v = window.coarse, left = of_left(v[1]), right = of_right(v[0]);
  const uint32_t sums = __byte_perm(left, v[0], 0x7632) + __byte_perm(v[0], v[1], 0x5410) +
                        __byte_perm(v[0], v[1], 0x7632) + __byte_perm(v[1], right, 0x5410);
  const Line first = line_of(sums & 0xffff, squares[0], weights[0], offset);
  const Line second = line_of(sums >> 16, squares[1], weights[1], offset);
  const Line before = {of_left(second.a), of_left(second.c)};
  const Line after = {of_right(first.a), of_right(first.c)};
  line[0] = {between(first.a, before.a), between(first.c, before.c)};
  line[1] = {between(first.a, second.a), between(first.c, second.c)};
  line[2] = {between(second.a, first.a), between(second.c, first.c)};
  line[3] = {between(second.a, after.a), between(second.c, after.c)};
}

// A row between two rows of lines: values.
__device__ __forceinline__ void mix(const Line (&near)[kSamples], const Line (&far)[kSamples],
                                    const uint32_t (&t)[kWords], uint32_t (&value)[kSamples]) {
#pragma unroll
  for (int i = 0; i < kSamples; i++)
    value[i] = value_of(between(near[i].a, far[i].a), between(near[i].c, far[i].c),
                        i & 1 ? t[i / 2] >> 16 : t[i / 2] & 0xffff);
}

// Stores four codes, the first bits of a, b, c and d, side by side.
template <int kBytes>
__device__ __forceinline__ void store_four(const Denoise& d, uint8_t* at, const uint32_t v0,
                                           const uint32_t v1, const uint32_t v2,
                                           const uint32_t v3) {
  if constexpr (kBytes == 1) {
    *reinterpret_cast<uint32_t*>(at) =
        __byte_perm(__byte_perm(v0, v1, 0x0073), __byte_perm(v2, v3, 0x0073), 0x5410);
  } else {
    const int down = 16 - d.depth - d.shift;
    const uint32_t mask = 0x10001u * (((1u << d.depth) - 1) << d.shift);
    *reinterpret_cast<uint2*>(at) = make_uint2(__byte_perm(v0, v1, 0x7632) >> down & mask,
                                               __byte_perm(v2, v3, 0x7632) >> down & mask);
  }
}

// A lane's results. Samples from `width` on are outside.
template <int kBytes, int kComponents>
__device__ __forceinline__ void store(const Denoise& d, int c0, int x, int y, int width,
                                      const uint32_t (&v)[kComponents][kSamples]) {
  const auto at = [&](int c) {
    const DenoiseView& to = d.to[c0 + c];
    return to.data + (long long)y * to.stride + (long long)x * to.step * kBytes;
  };
  const auto aligned = [](const uint8_t* p) {
    return (reinterpret_cast<uintptr_t>(p) & (4 * kBytes - 1)) == 0;
  };
  if (x + kSamples <= width) {
    if (kComponents == 2 && d.to[c0].step == 2) {
      // UV, or VU.
      const uint8_t *u = at(0), *second = at(kComponents - 1);
      const bool swapped = second < u;
      uint8_t* first = at(swapped ? kComponents - 1 : 0);
      if (aligned(first) && (swapped ? u - second : second - u) == kBytes) {
        const uint32_t(&a)[kSamples] = v[0], (&b)[kSamples] = v[kComponents - 1];
        if (swapped) {
          store_four<kBytes>(d, first, b[0], a[0], b[1], a[1]);
          store_four<kBytes>(d, first + 4 * kBytes, b[2], a[2], b[3], a[3]);
        } else {
          store_four<kBytes>(d, first, a[0], b[0], a[1], b[1]);
          store_four<kBytes>(d, first + 4 * kBytes, a[2], b[2], a[3], b[3]);
        }
        return;
      }
    } else if (d.to[c0].step == 1 && aligned(at(0)) && aligned(at(kComponents - 1))) {
#pragma unroll
      for (int c = 0; c < kComponents; c++)
        store_four<kBytes>(d, at(c), v[c][0], v[c][1], v[c][2], v[c][3]);
      return;
    }
  }
#pragma unroll
  for (int c = 0; c < kComponents; c++)
#pragma unroll
    for (int i = 0; i < kSamples; i++)
      if (x + i < width) store_sample<kBytes>(d, c0 + c, x + i, y, int(v[c][i] >> (32 - d.depth)));
}

// `rows` rows, an even number, from the one above y0 on, which is even; x: this lane's first
// sample.
template <int kBytes, class S, bool kValues>
__device__ __forceinline__ void filter_strip(const Denoise& d, const float (*factors)[kLevels],
                                             int c0, int x, int y0, int rows, bool own) {
  constexpr int components = S::kComponents;
  const int width = d.width[c0], height = d.height[c0];
  const bool edge = __ballot_sync(~0u, x < 0 || x + kSamples > width) != 0;
  const uint32_t offset = kValues ? 0 : rounding_offset(d.depth);
  const float code = d.depth == 16 ? 1.0f : 1.0f / float(1 << (16 - d.depth));
  const int out_width = kValues ? width : d.to[c0].width;
  const int out_height = kValues ? height : d.to[c0].height;

  // Two rows from y on, and their blocks.
  struct Rows {
    uint32_t t[components][2][kWords], p[S::kBlockRows][S::kBlockWords];
  };
  const auto read_rows = [&](int y, Rows* to) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int row = min(max(y + r, 0), height - 1);
#pragma unroll
      for (int c = 0; c < components; c++)
        read_words(d.is[c0 + c] + uint32_t(row * d.pitch[c0 + c]), x, width, edge, to->t[c][r]);
      if (r < S::kBlockRows)
        read_words(d.is_p + uint32_t(row / S::kY * d.pitch_p), x < 0 ? -S::kBlocks : x / S::kX,
                   d.blocks_x, edge, to->p[r]);
    }
  };

  Above<S> above[components];
  Rows next;
  read_rows(y0 - 4, &next);
#pragma unroll 1
  for (int y = y0 - 4; y < y0; y += 2) {
    const Rows now = next;
    read_rows(y + 2, &next);
    Window<S> window;
#pragma unroll
    for (int c = 0; c < components; c++) {
      add_rows<S>(now.t[c], now.p, factors[c], &above[c], &window);
#pragma unroll
      for (int i = 0; i < kWords; i++) above[c].t[2][i] = now.t[c][1][i];
    }
  }
  const int end = min(y0 + rows, out_height + 2);
#pragma unroll 2
  for (int y = y0; y <= end; y += 2) {
    // Rows y and y + 1 are read, lines of the groups above them are made, and rows y - 3 and y - 2
    // are written, which lie between them and the lines before.
    const Rows now = next;
    read_rows(y + 2, &next);
    uint32_t value[2][components][kSamples];
#pragma unroll
    for (int c = 0; c < components; c++) {
      Above<S>& a = above[c];
      Window<S> window;
      add_rows<S>(now.t[c], now.p, factors[c], &a, &window);
      Line line[kSamples];
      make_lines<S>(window, offset, line);
      mix(a.line, line, a.t[0], value[0][c]);
      mix(line, a.line, a.t[1], value[1][c]);
#pragma unroll
      for (int i = 0; i < kSamples; i++) a.line[i] = line[i];
#pragma unroll
      for (int i = 0; i < kWords; i++) {
        a.t[0][i] = a.t[2][i];
        a.t[1][i] = now.t[c][0][i];
        a.t[2][i] = now.t[c][1][i];
      }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int row = y - 3 + r;
      if (!own || y == y0 || row < 0 || row >= out_height) continue;
      if constexpr (kValues) {
        float* to = d.values[c0] + (long long)row * d.pitch[0] + x;
#pragma unroll
        for (int i = 0; i < kSamples; i++)
          if (x + i < out_width) to[i] = number_of(value[r][0][i], code);
      } else {
        store<kBytes, components>(d, c0, x, row, out_width, value[r]);
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
  const int x = strip % strips_x * kColumns + (lane - 1) * kSamples;
  const int y = strip / strips_x * rows;
  if (y > d.height[c0]) return;
  const bool own = lane > 0 && lane < 31 && x < d.width[c0];
  filter_strip<kBytes, S, kValues>(d, factors, c0, x, y, rows, own);
}

// S void: luma and pairs of chroma of 4:2:0.
template <int kBytes, class S, bool kValues>
__global__ __launch_bounds__(kThreads, 4) void output(const Denoise d) {
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
      filter<kBytes, Shape<1, 1, 2>, false>(d, factors + 1, 1, block * kOutputWarps + warp,
                                            d.chroma_strips_x, d.chroma_strip);
    else
      filter<kBytes, Shape<2, 2>, false>(
          d, factors, 0, (block - d.chroma_blocks) * kOutputWarps + warp, d.strips_x, d.strip);
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
  d.is_p[(long long)by * d.pitch_p + bx] = pack_block(kOne, level_of_block(luma));
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

DenoiseKernel denoise_output(int bytes, int block_x, int block_y, bool values) {
  const bool wide = bytes == 2;
  if (values) return output<1, Shape<2, 2>, true>;
  switch (2 * block_x + block_y) {
    case 3:
      return wide ? output<2, Shape<1, 1>, false> : output<1, Shape<1, 1>, false>;
    case 4:
      return wide ? output<2, Shape<1, 2>, false> : output<1, Shape<1, 2>, false>;
    case 5:
      return wide ? output<2, Shape<2, 1>, false> : output<1, Shape<2, 1>, false>;
    default:
      return wide ? output<2, Shape<2, 2>, false> : output<1, Shape<2, 2>, false>;
  }
}
DenoiseKernel denoise_output_frame(int bytes) {
  return bytes == 2 ? output<2, void, false> : output<1, void, false>;
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
