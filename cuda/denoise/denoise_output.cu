// The denoiser's second pass applies the spatial filter and makes the next frame's noise model.
//
// Idea. A warp streams down a strip of a component, or of several side by side, two rows at a time.
// A lane takes four samples in a row, or two of each component. They are groups of 2 x 2 in two
// rows. Each group has a window and a line. Sums over the rows of a window stay in registers, and
// sums along it use shuffles. Pairs of samples are summed as halves of a word. Lines are
// interpolated along the row first, then between two rows of groups. Shared memory holds only
// tables of 32 levels. All sums are of integers, so the division into strips and lanes does not
// change the result. Windows see the edges replicated, as the state stores them in memory. For RGB,
// a warp filters Y, Co and Cg side by side, so that a lane has all that its pixels need.
// Traffic: a luma sample of NV12 takes 3 B of T and 0.5 B of p in and 1.5 B out, in total 5 B.
// The first thread blocks do not filter. They make the next model from the statistics while the
// others filter: each warp takes two bins of luma, and one thread does the rest.
// The instruction rate limits the speed.
#include <type_traits>

#include "cuda/core/ptx.cuh"
#include "cuda/denoise/denoise_device.cuh"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

constexpr int kThreads = 32 * kOutputWarps;

// ---- the spatial filter ------------------------------------------------------------------------

// A block has kX by kY samples. A lane has two samples in a row of each of several components, or
// four of a single one. Two samples belong to a group.
template <int kX_, int kY_, int kComponents_ = 1>
struct Shape {
  static constexpr int kX = kX_, kY = kY_, kComponents = kComponents_;
  static constexpr int kSpan = kComponents > 1 ? 2 : 4;  // samples of a lane in a component's row
  static constexpr int kSamples = kSpan * kComponents;   // samples of a lane in a row
  static constexpr int kGroups = kSamples / 2;           // also the words that hold them
  static constexpr int kHalo = kSpan == 2 ? 2 : 1;       // lanes on either side that write nothing
  static constexpr int kColumns = (32 - 2 * kHalo) * kSpan;  // samples across a strip
  static constexpr int kBlocks = kSpan / kX;                 // blocks per lane, in a row
  static constexpr int kWeights = kBlocks * kComponents;
  static constexpr int kBlockRows = kY == 1 ? 2 : 1;  // rows of blocks in two rows of samples
  static constexpr int kBlockWords = (kBlocks + 1) / 2;
};
using Luma = Shape<2, 2>;
using ChromaPairs = Shape<1, 1, 2>;
using Rgb = Shape<2, 2, 3>;
static_assert(Luma::kColumns == kDenoiseColumns);
static_assert(ChromaPairs::kColumns == kDenoiseFewColumns && Rgb::kColumns == kDenoiseFewColumns);

template <class T>
__device__ __forceinline__ T of_left(T v) {
  return __shfl_up_sync(~0u, v, 1);
}
template <class T>
__device__ __forceinline__ T of_right(T v) {
  return __shfl_down_sync(~0u, v, 1);
}

// Holds two rows of a lane's samples, and p of their blocks.
template <class S>
struct Rows {
  uint32_t t[2][S::kGroups], p[S::kBlockRows][S::kBlockWords];
};

// Reads rows y and y + 1, or the nearest ones inside. Columns outside are in memory.
template <class S>
__device__ __forceinline__ void read_rows(const Denoise& d, int c0, int x, int y, Rows<S>* to) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int row = min(max(y + r, 0), d.height[c0] - 1);
    const int at = row * d.pitch[c0] + x;
    if constexpr (S::kSpan == 2) {
#pragma unroll
      for (int c = 0; c < S::kComponents; c++)
        to->t[r][c] = *reinterpret_cast<const uint32_t*>(d.job[0].current.color[c0 + c] + at);
    } else {
      load_words<S::kGroups>(d.job[0].current.color[c0] + at, to->t[r]);
    }
    if (r < S::kBlockRows) {
      const uint16_t* p = d.job[0].current.p + (row / S::kY * d.pitch_p + x / S::kX);
      if constexpr (S::kBlocks == 1)
        to->p[r][0] = *p;
      else
        load_words<S::kBlockWords>(p, to->p[r]);
    }
  }
}

// Sums the columns of windows from partial sums over two rows. A window consists of the lower row
// of one pair of rows, both rows of the next pair, and the upper row of the one after that.
template <class T, int kCount>
struct Columns {
  T lower[kCount] = {}, half[kCount] = {};
  // Takes the next pair of rows, and returns the sums of the window that ends with its upper row.
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

// Holds a lane's sums, samples and lines of the rows above.
template <class S>
struct Above {
  Columns<uint32_t, S::kGroups> coarse;  // sums of pairs of samples
  Columns<uint32_t, S::kSamples> squares;
  Columns<float, S::kWeights> weights;
  uint32_t t[4][S::kGroups] = {};  // the rows between the last two lines, and those round them
  Line line[S::kSamples] = {};     // the last row of lines
};

// Holds the column sums of a lane's next windows.
template <class S>
struct Window {
  uint32_t coarse[S::kGroups], squares[S::kSamples];
  float weights[S::kWeights];
};

template <class S>
__device__ __forceinline__ void read_weights(const uint32_t (&p)[S::kBlockWords],
                                             const Weight (*factors)[kLevels],
                                             float (&w)[S::kWeights]) {
#pragma unroll
  for (int i = 0; i < S::kBlocks; i++) {
    const uint32_t block = i & 1 ? p[i / 2] >> 16 : p[i / 2] & 0xffff;
    // This is p_of(block) as a float, without a conversion.
    const float v = float_of_bits(0x4b000000u | (block & (kOne - 1))) - 8388607.0f;
#pragma unroll
    for (int c = 0; c < S::kComponents; c++)
      w[c * S::kBlocks + i] = weight_of(v, factors[c][luma_level(block)]);
  }
}

// Adds two rows, and returns the column sums of the window that they complete.
template <class S>
__device__ __forceinline__ void add_rows(const Rows<S>& rows, const Weight (*factors)[kLevels],
                                         Above<S>* above, Window<S>* window) {
  uint32_t coarse[2][S::kGroups], squares[2][S::kSamples];
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int i = 0; i < S::kGroups; i++) {
      coarse[r][i] = coarse_pair(rows.t[r][i]);
      const uint32_t low = coarse[r][i] & 0xffff, high = coarse[r][i] >> 16;
      squares[r][2 * i] = low * low;
      squares[r][2 * i + 1] = high * high;
    }
  above->coarse.next(coarse[0], coarse[1], window->coarse);
  above->squares.next(squares[0], squares[1], window->squares);
  float weights[S::kBlockRows][S::kWeights];
#pragma unroll
  for (int r = 0; r < S::kBlockRows; r++) read_weights<S>(rows.p[r], factors, weights[r]);
  above->weights.next(weights[0], weights[S::kBlockRows - 1], window->weights);
}

// Sums the windows of a lane's groups along the row, from the sums of their columns.
template <class S, class T>
__device__ __forceinline__ void add_along(const T (&v)[S::kSamples], T (&sum)[S::kGroups]) {
  if constexpr (S::kSpan == 2) {
#pragma unroll
    for (int i = 0; i < S::kGroups; i++)
      sum[i] = of_left(v[2 * i + 1]) + v[2 * i] + v[2 * i + 1] + of_right(v[2 * i]);
  } else {
    const T left = of_left(v[3]), right = of_right(v[0]), middle = v[1] + v[2];
    sum[0] = left + v[0] + middle;
    sum[1] = middle + v[3] + right;
  }
}
// Sums pairs of columns, two groups at once in the halves of a word, which cannot overflow.
template <class S>
__device__ __forceinline__ void add_pairs_along(const uint32_t (&v)[S::kGroups],
                                                uint32_t (&sum)[S::kGroups]) {
#pragma unroll
  for (int i = 0; i < S::kGroups; i += 2) {
    const uint32_t second = i + 1 < S::kGroups ? v[i + 1] : 0;
    const uint32_t even = __byte_perm(v[i], second, 0x5410);
    const uint32_t odd = __byte_perm(v[i], second, 0x7632);
    uint32_t both = even + odd;
    if constexpr (S::kSpan == 2)
      both += of_left(odd) + of_right(even);
    else
      both +=
          __byte_perm(of_left(second), v[i], 0x7632) + __byte_perm(second, of_right(v[i]), 0x5410);
    sum[i] = both & 0xffff;
    if (i + 1 < S::kGroups) sum[i + 1] = both >> 16;
  }
}

__device__ __forceinline__ Line between(const Line& near, const Line& far) {
  return {denoise::between(near.a, far.a), denoise::between(near.c, far.c)};
}
__device__ __forceinline__ Line of_left(const Line& v) {
  return {of_left(v.a), of_left(v.c)};
}
__device__ __forceinline__ Line of_right(const Line& v) {
  return {of_right(v.a), of_right(v.c)};
}

// Makes the lines of the groups, and interpolates them along the row. Only luma and single
// components look up corrections, so that no lane branches.
template <int kBytes, class S>
__device__ __forceinline__ void make_lines(const Window<S>& window, uint32_t offset,
                                           const Correction* bias, Line (&line)[S::kSamples]) {
  uint32_t squares[S::kGroups], sums[S::kGroups];
  add_along<S>(window.squares, squares);
  float own[S::kSamples], weights[S::kGroups];
#pragma unroll
  for (int i = 0; i < S::kSamples; i++) own[i] = window.weights[i / S::kX];
  add_along<S>(own, weights);
  add_pairs_along<S>(window.coarse, sums);
  Line group[S::kGroups];
#pragma unroll
  for (int i = 0; i < S::kGroups; i++) {
    constexpr bool kSingle = S::kSpan == 4;
    const bool looks_up = kSingle || (S::kComponents == 3 && i == 0);
    group[i] = line_of<kBytes>(sums[i], squares[i], weights[i], offset,
                               looks_up ? corrected(sums[i], bias) : sums[i] + kGivenBack<kBytes>);
  }
#pragma unroll
  for (int i = 0; i < S::kGroups; i++) {
    // The next groups of the component may be the lane's own.
    const int other = S::kSpan == 2 ? i : 1 - i;
    const bool left_is_own = S::kSpan == 4 && i == 1, right_is_own = S::kSpan == 4 && i == 0;
    line[2 * i] = between(group[i], left_is_own ? group[other] : of_left(group[other]));
    line[2 * i + 1] = between(group[i], right_is_own ? group[other] : of_right(group[other]));
  }
}

// Computes the values of a row that lies between two rows of lines.
template <int kBytes, int kSamples>
__device__ __forceinline__ void mix(const Line (&near)[kSamples], const Line (&far)[kSamples],
                                    const uint32_t (&t)[kSamples / 2],
                                    uint32_t (&value)[kSamples]) {
#pragma unroll
  for (int i = 0; i < kSamples; i++) {
    const Line line = between(near[i], far[i]);
    value[i] = value_of<kBytes>(line.a, line.c, i & 1 ? t[i / 2] >> 16 : t[i / 2] & 0xffff);
  }
}

// Smooths luma along edges, in the two rows in the middle.
template <class S>
__device__ __forceinline__ void smooth(const uint32_t (&t)[4][S::kGroups], int strength,
                                       uint32_t (&out)[2][S::kGroups]) {
  constexpr int kWords = S::kSpan / 2;
  int v[4][S::kSpan + 2];
#pragma unroll
  for (int r = 0; r < 4; r++) {
    v[r][0] = high_half(of_left(t[r][kWords - 1]));
#pragma unroll
    for (int i = 0; i < kWords; i++) {
      v[r][2 * i + 1] = low_half(t[r][i]);
      v[r][2 * i + 2] = high_half(t[r][i]);
    }
    v[r][S::kSpan + 1] = low_half(of_right(t[r][0]));
  }
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int i = 0; i < kWords; i++)
      out[r][i] =
          pair_of(smoothed(&v[r][2 * i], &v[r + 1][2 * i], &v[r + 2][2 * i], strength),
                  smoothed(&v[r][2 * i + 1], &v[r + 1][2 * i + 1], &v[r + 2][2 * i + 1], strength));
}

// Stores four codes side by side. A code is the upper bits of a value.
template <int kBytes>
__device__ __forceinline__ void store_four(const Denoise& d, uint8_t* at, uint32_t v0, uint32_t v1,
                                           uint32_t v2, uint32_t v3) {
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

template <int kBytes>
__device__ __forceinline__ void store_two(const Denoise& d, uint8_t* at, uint32_t v0, uint32_t v1) {
  if constexpr (kBytes == 1)
    *reinterpret_cast<uint16_t*>(at) = uint16_t(__byte_perm(v0, v1, 0x0073));
  else
    *reinterpret_cast<uint32_t*>(at) = __byte_perm(v0, v1, 0x7632) >> (16 - d.depth - d.shift) &
                                       (0x10001u * (((1u << d.depth) - 1) << d.shift));
}

// Stores a lane's results. `wide` is true if all lie inside and side by side in memory.
template <int kBytes, class S>
__device__ __forceinline__ void store(const Denoise& d, int c0, int x, int y, int width, bool wide,
                                      const uint32_t (&v)[S::kSamples]) {
  if (wide) {
    if constexpr (S::kComponents == 2) {
      if (d.to[c0].step == 1) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
          const DenoiseView& to = d.to[c0 + c];
          store_two<kBytes>(d, moved_by(to.data + x * kBytes, y, to.stride), v[2 * c],
                            v[2 * c + 1]);
        }
        return;
      }
      const bool swapped = d.to[c0 + 1].data < d.to[c0].data;
      const DenoiseView& to = d.to[swapped ? c0 + 1 : c0];
      store_four<kBytes>(d, moved_by(to.data + 2 * x * kBytes, y, to.stride), swapped ? v[2] : v[0],
                         swapped ? v[0] : v[2], swapped ? v[3] : v[1], swapped ? v[1] : v[3]);
    } else {
      const DenoiseView& to = d.to[c0];
      store_four<kBytes>(d, moved_by(to.data + x * kBytes, y, to.stride), v[0], v[1], v[2], v[3]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < S::kSamples; i++)
    if (x + i % S::kSpan < width)
      store_sample<kBytes>(d, c0 + i / S::kSpan, x + i % S::kSpan, y, int(v[i] >> (32 - d.depth)));
}

// Returns the last turn of a strip. Turn y takes rows y and y + 1, and completes y - 3 and y - 2.
__device__ __forceinline__ int last_turn(int y0, int rows, int out_height) {
  return min(y0 + rows, out_height + 2);
}

// Filters `rows` rows from row y0 - 1 on. Both `rows` and y0 are even. The lane begins at sample x.
// `along` is the strength of smoothing along edges. Calls `make_tables` behind the first loads,
// `begin` with a turn before it works, and `write` with the turn and the values of its rows.
template <int kBytes, class S, class Make, class Begin, class Write>
__device__ __forceinline__ void filter_strip(const Denoise& d, const Weight (*factors)[kLevels],
                                             const Correction* bias, int c0, int x, int y0,
                                             int rows, bool outside, int along, uint32_t offset,
                                             Make&& make_tables, Begin&& begin, Write&& write) {
  // Lanes behind the border read the last samples there, so that they stay inside the memory.
  x = min(x, (d.width[c0] + S::kSpan - 1) / S::kSpan * S::kSpan);

  Above<S> above;
  Rows<S> first[2], next;
#pragma unroll
  for (int k = 0; k < 2; k++) read_rows(d, c0, x, y0 - 4 + 2 * k, &first[k]);
  read_rows(d, c0, x, y0, &next);
  make_tables();
  if (outside) return;
#pragma unroll
  for (const Rows<S>& rows : first) {
    Window<S> window;
    add_rows(rows, factors, &above, &window);
#pragma unroll
    for (int i = 0; i < S::kGroups; i++) {
      above.t[2][i] = rows.t[0][i];
      above.t[3][i] = rows.t[1][i];
    }
  }
  const int end = last_turn(y0, rows, d.to[c0].height);
#pragma unroll 2
  for (int y = y0; y <= end; y += 2) {
    // A turn makes the lines of the groups above its rows. It writes rows that lie between these
    // lines and the previous ones.
    const Rows<S> now = next;
    read_rows(d, c0, x, y + 2, &next);
    begin(y);
    Window<S> window;
    add_rows(now, factors, &above, &window);
    Line line[S::kSamples];
    make_lines<kBytes, S>(window, offset, bias, line);
    uint32_t value[2][S::kSamples];
    uint32_t between[2][S::kGroups];
#pragma unroll
    for (int i = 0; i < S::kGroups; i++) {
      between[0][i] = above.t[1][i];
      between[1][i] = above.t[2][i];
    }
    if (along) smooth<S>(above.t, along, between);
    mix<kBytes>(above.line, line, between[0], value[0]);
    mix<kBytes>(line, above.line, between[1], value[1]);
#pragma unroll
    for (int i = 0; i < S::kSamples; i++) above.line[i] = line[i];
#pragma unroll
    for (int i = 0; i < S::kGroups; i++) {
      above.t[0][i] = above.t[2][i];
      above.t[1][i] = above.t[3][i];
      above.t[2][i] = now.t[0][i];
      above.t[3][i] = now.t[1][i];
    }
    if (y > y0) write(y, value);
  }
}

// Returns the first of the four bytes of pixel (x, y).
__device__ __forceinline__ uint8_t* pixel_at(const DenoiseView& view, int x, int y) {
  uint8_t* first = view.data - (reinterpret_cast<uintptr_t>(view.data) & 3);
  return moved_by(first + 4 * x, y, view.stride);
}

// Makes R, G and B of a lane's pixels from their values of Y, Co and Cg. `wide` is true if all
// pixels lie inside and have four bytes. The fourth bytes then come from the pixels `from`.
template <int kBytes>
__device__ __forceinline__ void store_rgb(const Denoise& d, int x, int y, bool wide, uint2 from,
                                          const uint32_t (&v)[Rgb::kSamples]) {
  const float middle = float(1 << (d.depth - 1)), top = float((1 << d.depth) - 1);
  const float unit = 1.0f / float(1 << (16 - d.depth));
  uint32_t pixels[Rgb::kSpan] = {from.x, from.y};
#pragma unroll
  for (int i = 0; i < Rgb::kSpan; i++) {
    float rgb[3];
    to_rgb(number_of(v[i], unit), number_of(v[2 + i], unit), number_of(v[4 + i], unit), rgb);
    uint32_t pixel = 0, mask = 0;
#pragma unroll
    for (int c = 0; c < 3; c++) {
      const int code = code_of(rgb[c], middle, top);
      const uint32_t place = 1u << (8 * (reinterpret_cast<uintptr_t>(d.to[c].data) & 3));
      if (wide) {
        pixel += uint32_t(code) * place;
        mask |= 0xff * place;
      } else if (x + i < d.to[c].width) {
        store_sample<kBytes>(d, c, x + i, y, code);
      }
    }
    pixels[i] = pixel | (pixels[i] & ~mask);
  }
  if (wide) *reinterpret_cast<uint2*>(pixel_at(d.to[0], x, y)) = make_uint2(pixels[0], pixels[1]);
}

// ---- the noise model ---------------------------------------------------------------------------

constexpr int kEach = kVarianceBins / 32;  // bins of a histogram per lane

__device__ __forceinline__ uint4 operator+(const uint4& a, const uint4& b) {
  return make_uint4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Returns a lane's counts, and clears them in memory for the next frame. `histogram` is in the
// first copy.
__device__ __forceinline__ uint4 take(uint32_t* histogram) {
  constexpr int kStep = sizeof(DenoiseHistograms) / sizeof(uint4);
  uint4* at = reinterpret_cast<uint4*>(histogram) + (threadIdx.x & 31);
  uint4 v[kHistograms], sum = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < kHistograms; i++) v[i] = at[i * kStep];
#pragma unroll
  for (int i = 0; i < kHistograms; i++) {
    at[i * kStep] = make_uint4(0, 0, 0, 0);
    sum = sum + v[i];
  }
  return sum;
}
__device__ __forceinline__ uint32_t total_of(uint32_t v) {
  return sum_of_lanes(v);
}
__device__ __forceinline__ uint32_t total_of(const uint4& v) {
  return total_of(v.x + v.y + v.z + v.w);
}

// The bin in which a warp finds `rank`, and the value there. Each lane holds kEach bins.
struct Ranked {
  int bin;
  float value;
};
__device__ __forceinline__ Ranked ranked(const uint4& of, float rank, int base) {
  const uint32_t counts[kEach] = {of.x, of.y, of.z, of.w};
  const int lane = threadIdx.x & 31;
  const uint32_t own = of.x + of.y + of.z + of.w;
  // Finds the lane's first bin that reaches the rank, and the number of values below that bin.
  uint32_t before = sum_up_to_lane(own) - own, found_before = 0, found_count = 0;
  int found = -1;
#pragma unroll
  for (int k = 0; k < kEach; k++) {
    if (found < 0 && float(before + counts[k]) >= rank) {
      found = lane * kEach + k;
      found_before = before;
      found_count = counts[k];
    }
    before += counts[k];
  }
  const float value = value_at(found, base, rank, found_before, found_count);
  const uint32_t have = __ballot_sync(~0u, found >= 0);
  const int from = have ? __ffs(int(have)) - 1 : 31;
  const Ranked r = {__shfl_sync(~0u, found, from), __shfl_sync(~0u, value, from)};
  return have ? r : Ranked{kEach * 32 - 1, 0};
}

// Makes the next model of component c with all threads of a block. A warp takes two bins of luma.
__device__ __forceinline__ void learn_component(const Denoise& d, int c, bool first) {
  constexpr int own = kBins / kOutputWarps;
  VF_SHARED(Votes, votes);
  VF_SHARED(uint4[kOutputWarps][32], all);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  uint4 texture[own], variance[own];
#pragma unroll
  for (int i = 0; i < own; i++) {
    texture[i] = take(d.job[0].histograms->texture[c][own * warp + i]);
    variance[i] = take(d.job[0].histograms->variance[c][own * warp + i]);
  }
  Noise noise = d.model->noise[c];
  const float level_before = d.model->level;
  uint4 sum = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < own; i++) {
    sum = sum + variance[i];
    const uint32_t cells = total_of(texture[i]), total = total_of(variance[i]);
    const Ranked limit = ranked(texture[i], texture_rank(cells), kVarianceBase);
    const Ranked value = ranked(variance[i], rank_of(total, kVarianceQuantile), kVarianceBase);
    if (lane == 0) {
      votes.cells[own * warp + i] = cells;
      votes.texture[own * warp + i] = limit.bin;
      votes.votes[own * warp + i] = total;
      votes.variance[own * warp + i] = value.value;
    }
  }
  all[warp][lane] = sum;
  if (warp == 1) {
    uint4 ratio = make_uint4(0, 0, 0, 0);
    if (lane < kRatioBins / kEach) ratio = take(d.job[0].histograms->ratio[c]);
    const uint32_t total = total_of(ratio);
    const Ranked value = ranked(ratio, rank_of(total, kRatioQuantile), kRatioBase);
    uint32_t flat = 0, repeated = 0, moving = 0;
    if (lane < kHistograms) {
      DenoiseHistograms& h = d.job[0].histograms[lane];
      flat = h.flat[c];
      h.flat[c] = 0;
      repeated = h.repeated[c];
      h.repeated[c] = 0;
      moving = h.moving[c];
      h.moving[c] = 0;
    }
    flat = total_of(flat);
    repeated = total_of(repeated);
    moving = total_of(moving);
    if (lane == 0) {
      votes.ratio = value.value;
      votes.ratios = total;
      votes.flat = flat;
      votes.repeated = repeated;
      votes.moving = moving;
      votes.luma_cells = uint32_t(d.blocks_x / 4) * uint32_t(d.blocks_y / 4);
    }
  }
  __syncthreads();
  if (warp == 1 && c == 0) {
    uint32_t counts[3] = {};
#pragma unroll
    for (int i = 0; i < 3; i++)
#pragma unroll
      for (int k = 0; k < kHistograms; k++) counts[i] += d.job[0].histograms[k].bias[i][lane];
#pragma unroll
    for (int i = 0; i < 3; i++)
#pragma unroll
      for (int k = 0; k < kHistograms; k++) d.job[0].histograms[k].bias[i][lane] = 0;
    const float before = first ? 0 : d.model->bias[lane];
    // The noise is read from memory, because registers have no index.
    d.next->bias[lane] = first || ignores(votes, noise)
                             ? before
                             : learn_bias(d.model->noise[0], lane, counts, before);
    __syncwarp();
    d.next->correction[lane] = correction_of(*d.next, d.settings, lane);
  }
  if (warp != 0) return;
  uint4 counts = all[0][lane];
#pragma unroll
  for (int i = 1; i < kOutputWarps; i++) counts = counts + all[i][lane];
  const Ranked whole = ranked(counts, rank_of(total_of(counts), kVarianceQuantile), kVarianceBase);
  const Ranked median = ranked(counts, rank_of(total_of(counts), kMedian), kVarianceBase);
  float laplacian = 0;
  if (first) {
    const uint4 every = take(d.job[0].histograms->first[c][0]);
    const uint4 medium = take(d.job[0].histograms->first[c][1]);
    const uint4 of = total_of(medium) > kLeastFrame ? medium : every;
    laplacian = ranked(of, rank_of(total_of(of), kFirstQuantile), kVarianceBase).value;
  }
  if (lane != 0) return;
  votes.frame_variance = whole.value;
  votes.frame_median = median.value;
  votes.total =
      uint32_t(d.blocks_x / (kCell / d.per_x[c])) * uint32_t(d.blocks_y / (kCell / d.per_y[c]));
  const int samples = d.per_x[c] * d.per_y[c];
  if (first)
    learn_first(votes, samples, laplacian, d.settings.least_variance, &noise);
  else
    learn(votes, c, samples, d.settings.least_variance, &noise);
  d.next->noise[c] = noise;
  if (c == 0) {
    const float level = level_of(votes, noise, first ? noise.variance[0] : level_before);
    d.next->level = level;
    *d.level = level;
  }
}

// Filters strip number `strip` from component c0 on with one warp.
template <int kBytes, class S, class Make>
__device__ __forceinline__ void filter(const Denoise& d, const Weight (*factors)[kLevels],
                                       const Correction* bias, int c0, int strip, int strips_x,
                                       int rows, Make&& make_tables) {
  const int lane = threadIdx.x & 31;
  const int x = strip % strips_x * S::kColumns + (lane - S::kHalo) * S::kSpan;
  // A warp whose strip is outside makes tables with the others, at the same barrier.
  const int top = strip / strips_x * rows, y = min(top, d.height[c0]);
  const bool own = lane >= S::kHalo && lane < 32 - S::kHalo && x < d.width[c0];
  const int width = d.to[c0].width, height = d.to[c0].height;
  const bool wide = d.wide[c0] && x + S::kSpan <= width;
  uint2 pixels[2] = {};  // of the frame, for RGB
  const auto is_inside = [&](int row) { return own && row >= 0 && row < height; };
  // All warps of the frame smooth, or none does.
  const int along = S::kComponents != 2 && c0 == 0 ? along_of(d.model->noise[0], d.settings) : 0;
  filter_strip<kBytes, S>(
      d, factors, bias, c0, x, y, rows, top > y, along,
      S::kComponents == 3 ? 0 : rounding_offset(d.depth), make_tables,
      [&](int turn) {
        if constexpr (S::kComponents == 3)
#pragma unroll
          for (int r = 0; r < 2; r++)
            if (wide && is_inside(turn - 3 + r))
              pixels[r] =
                  *reinterpret_cast<const uint2*>(pixel_at(d.job[0].from[0], x, turn - 3 + r));
      },
      [&](int turn, const uint32_t(&value)[2][S::kSamples]) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
          const int row = turn - 3 + r;
          if (!is_inside(row)) continue;
          if constexpr (S::kComponents == 3)
            store_rgb<kBytes>(d, x, row, wide, pixels[r], value[r]);
          else
            store<kBytes, S>(d, c0, x, row, width, wide, value[r]);
        }
      });
}

// S is a shape, or Frame for luma and pairs of chroma of a 4:2:0 frame.
struct Frame {};
template <int kBytes, class S>
__global__ __launch_bounds__(kThreads, 4) void output(const Denoise d) {
  VF_SHARED(Weight[3][kLevels], factors);
  VF_SHARED(Correction[kLevels], bias);
  let_next_start();
  int block = int(blockIdx.x);
  if (d.learns) {
    if (block < kDenoiseLearners) {
      wait_for_previous();
      if (block < d.colors) learn_component(d, block, false);
      return;
    }
    block -= kDenoiseLearners;
  }
  wait_for_previous();
  const auto make_tables = [&] {
    static_assert(4 * kLevels == kThreads);
    const int c = threadIdx.x / kLevels, level = threadIdx.x % kLevels;
    if (c < d.colors) factors[c][level] = weight_factor(d.model->noise[c], d.settings, c, level);
    if (c == 3) {
      const Correction none = {1024, 0}, of = d.component ? none : d.model->correction[level];
      bias[level] = {of.bias + int(kGivenBack<kBytes> << 11), of.slope};
    }
    __syncthreads();
  };
  const int warp = threadIdx.x >> 5;
  if constexpr (std::is_same<S, Frame>::value) {
    if (block < d.chroma_blocks)
      filter<kBytes, ChromaPairs>(d, factors + 1, bias, 1, block * kOutputWarps + warp,
                                  d.chroma_strips_x, d.chroma_strip, make_tables);
    else
      filter<kBytes, Luma>(d, factors, bias, 0, (block - d.chroma_blocks) * kOutputWarps + warp,
                           d.strips_x, d.strip, make_tables);
  } else {
    filter<kBytes, S>(d, factors + d.component, bias, d.component, block * kOutputWarps + warp,
                      d.strips_x, d.strip, make_tables);
  }
}

template <class S>
DenoiseKernel output_of(int bytes) {
  return bytes == 2 ? output<2, S> : output<1, S>;
}

// ---- the first frame ---------------------------------------------------------------------------

// Counts the statistics. Each thread takes a cell of component blockIdx.z.
__global__ __launch_bounds__(64) void first_count(const Denoise d) {
  const int c = blockIdx.z, wide = kCell / d.per_x[c], high = kCell / d.per_y[c];
  const int cx = blockIdx.x * 8 + (threadIdx.x & 7), cy = blockIdx.y * 8 + (threadIdx.x >> 3);
  if (cx >= d.blocks_x / wide || cy >= d.blocks_y / high) return;
  const auto block_of = [&](int i, int j) {
    const uint16_t* t = d.job[0].current.color[0] + (long long)(2 * j) * d.pitch[0] + 2 * i;
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
  const int bin = luma_bin(level_of_cell(light, parts));
  atomicAdd(&d.job[0].histograms->texture[c][bin][variance_bin(cell_texture(rough, parts))], 1u);
  const auto at = [&](int x, int y) {
    x = min(max(x, 0), d.width[c] - 1);
    y = min(max(y, 0), d.height[c] - 1);
    return int(d.job[0].current.color[c][(long long)y * d.pitch[c] + x]);
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
  atomicAdd(&d.job[0].histograms->first[c][0][laplacian_bin], 1u);
  if (sum > kFirstDark * 64 * 256 && sum < kFirstBright * 64 * 256)
    atomicAdd(&d.job[0].histograms->first[c][1][laplacian_bin], 1u);
}

__global__ __launch_bounds__(kThreads) void first_learn(const Denoise d) {
  learn_component(d, int(blockIdx.x), true);
}

}  // namespace

DenoiseKernel denoise_output(int bytes, int block_x, int block_y) {
  if (block_x == 1)
    return block_y == 1 ? output_of<Shape<1, 1>>(bytes) : output_of<Shape<1, 2>>(bytes);
  return block_y == 1 ? output_of<Shape<2, 1>>(bytes) : output_of<Luma>(bytes);
}
DenoiseKernel denoise_output_frame(int bytes) {
  return output_of<Frame>(bytes);
}
DenoiseKernel denoise_output_rgb(int bytes) {
  return output_of<Rgb>(bytes);
}
DenoiseKernel denoise_first_count() {
  return first_count;
}
DenoiseKernel denoise_first_learn() {
  return first_learn;
}

}  // namespace vf::cuda
