// Blurs regions of bytes, in two passes of integer products on tensor cores.
//
// Idea     The passes compute out = V (In H), with banded Toeplitz matrices H and V of weights.
//          Weights and the sums of the first pass have 16 bits and are split into two bytes. Their
//          products are added up exactly. The first pass is computed transposed: a lane's part of
//          its result, packed, is the lane's part of the second pass's operand.
// Precision  Weights add up to the largest power of two for which the middle weight fits in 16
//          bits. Their low byte is signed. Sums are rounded to 1/256 of a code. The product of
//          both low bytes is left out: it is less than 1/400 of a code.
// Traffic  The regions and their halos are read one and a half times, and the regions are written
//          once. The sums go through L2: two bytes for each component of the regions and of the
//          rows of their halos.
// Tile     A warp makes one channel of 16 columns of 32 rows. A thread block makes such tiles of
//          all channels. In the first pass they lie side by side. In the second pass each lies
//          below the one before it. Tiles start at multiples of 16 columns. The tiles of the second
//          pass start at the region's first row, and those of the first pass a radius above it.
#include "cuda/regions/regions_gaussian.cuh"

namespace vf::cuda {
namespace {

constexpr int kLead = 31;  // weights before the first of a row

// ---- weights -----------------------------------------------------------------------------------

// Word i has the bytes of the weights at distances i - reach - kLead and the next three: the high
// ones, and the low, signed ones.
constexpr int kMaxWeights = (kMaxReach / 16 + 1) * 32 + kLead + 1;
struct ByteWeights {
  uint32_t word[2][kMaxWeights];
  int k;  // the weights add up to 2^k, 15 to 24
};

// Returns a lane's operand of both passes: 16 rows of a Toeplitz matrix, of which a lane has two
// that are `apart` apart. `at` is the lane's first word.
__device__ __forceinline__ uint4 band(const uint32_t* at, int apart) {
  return make_uint4(at[0], at[-apart], at[16], at[16 - apart]);
}

// The kind of passes for blur_columns.
struct Bytes {
  using Sample = uint8_t;
  using Weights = ByteWeights;
  static constexpr bool kAllChannels = true;
  static constexpr int kRows = 32, kReachUnit = 1, kFirstWarps = 8, kSpare = 1;
  static constexpr int kFirstTall = 1, kSecondTall = 1;

  // Makes the weights. All threads call it, and wait for each other before they use them.
  template <int kWarps>
  static __device__ __forceinline__ void make_weights(float sigma, int radius, int reach,
                                                      Weights& weights) {
    const Bell bell = make_bell(sigma, radius);
    const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
    // A lane gets the next three weights of the lanes after it.
    constexpr int kEach = 29;
    const int count = 32 * chunks_of(reach, 32) + kLead + 1;
    if (kEach * warp >= count) return;
    const float sum = sum_of(bell, radius);
    // The middle one takes what the others' rounding leaves, of 256 at most.
    const int k = 31 - __clz(int((65535.f - 512) * sum));
    const float scale = __fdividef(float(1 << k), sum);
    const auto weight = [&](int i) { return __float2int_rn(scale * bell(i)); };
    int others = 0;
#pragma unroll 1
    for (int i = lane ? lane : 32; i <= radius; i += 32) others += 2 * weight(i);
    const int middle = (1 << k) - sum_of_lanes(others);
    if (threadIdx.x == 0) weights.k = k;
#pragma unroll 1
    for (int first = kEach * warp; first < count; first += kEach * kWarps) {
      const int i = first + lane, d = abs(i - reach - kLead);
      const int w = d > radius ? 0 : d == 0 ? middle : weight(d);
      const uint32_t own = uint32_t(w + 128) >> 8 << 16 | (uint32_t(w) & 0xff);
      const uint32_t next[3] = {__shfl_down_sync(~0u, own, 1), __shfl_down_sync(~0u, own, 2),
                                __shfl_down_sync(~0u, own, 3)};
      const uint32_t left = __byte_perm(own, next[0], 0x6240);
      const uint32_t right = __byte_perm(next[1], next[2], 0x6240);
      if (lane < kEach && i < count) {
        weights.word[0][i] = __byte_perm(left, right, 0x7632);
        weights.word[1][i] = __byte_perm(left, right, 0x5410);
      }
    }
  }

  static __device__ __forceinline__ void products(const GaussianArgs&, const Weights& weights,
                                                  const uint4* tiles, int chunks, int,
                                                  uint32_t (&codes)[4][4]) {
    const int lane = int(threadIdx.x % 32), g = lane / 4, t = lane % 4;
    const int k = weights.k;
    // These are the products for each half of the rows and each pair of columns.
    int high[2][2][4] = {}, low[2][2][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int& v : low[i / 2][i % 2]) v = 1 << (k - 1);
    const uint32_t* at = weights.word[0] + kLead + 4 * t - g;
    int c = chunks;
#pragma unroll 1
    do {
      const uint4 b_high = tiles[0], b_low = tiles[32];
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const uint4 first = band(at - 16 * half, 8);
        const uint4 second = band(at + kMaxWeights - 16 * half, 8);
        multiply_bytes(high[half][0], first, b_high.x, b_high.y);
        multiply_bytes(high[half][1], first, b_high.z, b_high.w);
        multiply_bytes(low[half][0], first, b_low.x, b_low.y);
        multiply_bytes(low[half][1], first, b_low.z, b_low.w);
        multiply_signed_bytes(low[half][0], second, b_high.x, b_high.y);
        multiply_signed_bytes(low[half][1], second, b_high.z, b_high.w);
      }
      at += 32;
      tiles += kTile;
    } while (--c > 0);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int n = 0; n < 4; n++) {
        const int half = i / 2, at = 2 * (i % 2) + n % 2;
        codes[i][n] =
            ((uint32_t(high[half][n / 2][at]) << 8) + uint32_t(low[half][n / 2][at])) >> k;
      }
  }

  static __device__ __forceinline__ uint32_t pack(const uint32_t* v) {
    return __byte_perm(v[0] | v[1] << 8, v[2] | v[3] << 8, 0x5410);
  }
};

// ---- the first pass ----------------------------------------------------------------------------

// Returns where a row of a tile lies in shared memory. The lanes of a warp hold pairs of
// neighbouring rows from two products, and eight such rows follow each other there.
__device__ __forceinline__ int slot_of(int row) {
  return (row & 0x11) | (row >> 1 & 6) | (row & 2) << 2;
}
// Returns the bytes of a row. Eight rows in a row lie in different banks.
__host__ __device__ constexpr int pitch_of(int columns) {
  return ((columns + 16) / 16 | 1) * 16;
}

// Describes how a thread loads its row into shared memory, one channel after the other.
struct Rows {
  int x;              // the first sample's column
  int from;           // this thread's row of the frame; -1: outside
  int columns;        // columns of samples, a multiple of 16
  uint8_t* to;        // this thread's row of the first channel
  int channel_bytes;  // from one channel to the next
  int first, step;    // this thread's groups of samples
  int channels;       // pixels may have bytes besides
};

// Loads `count` samples from column x of the frame's row y on, one by one. It is for the frame's
// edges and for images that are not aligned. A row of -1 is outside.
VF_NOINLINE __device__ void load_one_by_one(const GaussianArgs& p, int plane, int x, int y,
                                            int count, uint8_t* to, int channel_bytes) {
  const RegionPlane& l = p.r.plane[plane];
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    const int column = y < 0 ? -1 : border_index(x + i, l.width, p.border);
#pragma unroll 1
    for (int c = 0; c < l.channels; c++)
      to[c * channel_bytes + i] =
          column < 0 ? uint8_t(p.outside[plane][c]) : sample_at<uint8_t>(l, column, y)[c];
  }
}

// Returns the samples that one load gets: those of a vector, or of three words.
__host__ __device__ constexpr int samples_of_group(int step) {
  return step == 1 ? 16 : step == 2 ? 8 : 4;
}
template <int kStep>
__device__ __forceinline__ uint4 load_group(const uint8_t* from) {
  if constexpr (kStep == 3) {
    const auto* const words = reinterpret_cast<const uint32_t*>(from);
    return make_uint4(words[0], words[1], words[2], 0);
  } else {
    return *reinterpret_cast<const uint4*>(from);
  }
}
// Stores a group in shared memory, one channel after the other.
template <int kStep>
__device__ __forceinline__ void store_group(const Rows& rows, int column, const uint4& v) {
  uint8_t* const to = rows.to + column;
  const auto word = [&](int channel, uint32_t codes) {
    if (channel < rows.channels)
      *reinterpret_cast<uint32_t*>(to + channel * rows.channel_bytes) = codes;
  };
  if constexpr (kStep == 1) {
    *reinterpret_cast<uint4*>(to) = v;
  } else if constexpr (kStep == 2) {
    *reinterpret_cast<uint2*>(to) =
        make_uint2(__byte_perm(v.x, v.y, 0x6420), __byte_perm(v.z, v.w, 0x6420));
    if (rows.channels == 2)
      *reinterpret_cast<uint2*>(to + rows.channel_bytes) =
          make_uint2(__byte_perm(v.x, v.y, 0x7531), __byte_perm(v.z, v.w, 0x7531));
  } else if constexpr (kStep == 3) {
    word(0, __byte_perm(__byte_perm(v.x, v.y, 0x0630), v.z, 0x5210));
    word(1, __byte_perm(__byte_perm(v.x, v.y, 0x0741), v.z, 0x6210));
    word(2, __byte_perm(__byte_perm(v.x, v.y, 0x0052), v.z, 0x7410));
  } else {
    const uint32_t low[2] = {__byte_perm(v.x, v.y, 0x5140), __byte_perm(v.z, v.w, 0x5140)};
    const uint32_t high[2] = {__byte_perm(v.x, v.y, 0x7362), __byte_perm(v.z, v.w, 0x7362)};
    word(0, __byte_perm(low[0], low[1], 0x5410));
    word(1, __byte_perm(low[0], low[1], 0x7632));
    word(2, __byte_perm(high[0], high[1], 0x5410));
    word(3, __byte_perm(high[0], high[1], 0x7632));
  }
}

// Groups that a thread loads at once.
constexpr int kBatch = 5;
__host__ __device__ constexpr int batch_of(int step) {
  return step < 3 ? 2 : kBatch;
}
template <int kStep>
__device__ __forceinline__ bool in_frame(const RegionPlane& l, const Rows& rows, int column) {
  return rows.from >= 0 && rows.x + column >= 0 &&
         rows.x + column + samples_of_group(kStep) <= l.width;
}
template <int kStep>
__device__ __forceinline__ void prefetch_batch(const RegionPlane& l, const Rows& rows) {
  const uint8_t* const line = l.src + ptrdiff_t(rows.from) * l.src_stride;
#pragma unroll
  for (int i = 0; i < batch_of(kStep); i++) {
    const int column = (rows.first + i * rows.step) * samples_of_group(kStep);
    if (column < rows.columns && in_frame<kStep>(l, rows, column))
      prefetch(line + (rows.x + column) * kStep);
  }
}
template <int kStep>
__device__ __forceinline__ void load_batch(const RegionPlane& l, const Rows& rows, int begin,
                                           uint4 (&v)[kBatch]) {
  const uint8_t* const line = l.src + ptrdiff_t(rows.from) * l.src_stride;
#pragma unroll
  for (int i = 0; i < batch_of(kStep); i++) {
    const int column = (begin + i * rows.step) * samples_of_group(kStep);
    if (column < rows.columns && in_frame<kStep>(l, rows, column))
      v[i] = load_group<kStep>(line + (rows.x + column) * kStep);
  }
}
template <int kStep>
__device__ __forceinline__ void store_batch(const GaussianArgs& p, int plane, const Rows& rows,
                                            int begin, const uint4 (&v)[kBatch]) {
#pragma unroll
  for (int i = 0; i < batch_of(kStep); i++) {
    const int column = (begin + i * rows.step) * samples_of_group(kStep);
    if (column >= rows.columns) continue;
    if (in_frame<kStep>(p.r.plane[plane], rows, column))
      store_group<kStep>(rows, column, v[i]);
    else
      load_one_by_one(p, plane, rows.x + column, rows.from, samples_of_group(kStep),
                      rows.to + column, rows.channel_bytes);
  }
}
// Does the rest after the loads of the first batch.
template <int kStep>
__device__ __forceinline__ void finish_rows(const GaussianArgs& p, int plane, const Rows& rows,
                                            uint4 (&v)[kBatch]) {
  store_batch<kStep>(p, plane, rows, rows.first, v);
  const int all = rows.columns / samples_of_group(kStep), each = batch_of(kStep) * rows.step;
#pragma unroll 1
  for (int begin = rows.first + each; begin < all; begin += each) {
    load_batch<kStep>(p.r.plane[plane], rows, begin, v);
    store_batch<kStep>(p, plane, rows, begin, v);
  }
}

// Stores the sums of a warp as the second pass loads them: for each of the lane's two columns,
// words with the sums of four rows, first of rows 0 to 15 and then of rows 16 to 31. `shift`
// reduces them to 16 bits.
__device__ __forceinline__ void store_sums(uint4* to, const int (&high)[4][4],
                                           const int (&low)[4][4], int shift) {
  uint32_t words[2][4];  // part, column and half of the rows
#pragma unroll
  for (int column = 0; column < 2; column++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t pair[2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const auto sum = [&](int e) {
          const int at = 2 * column + e;
          return ((uint32_t(high[2 * half + i][at]) << 8) + uint32_t(low[2 * half + i][at])) >>
                 shift;
        };
        pair[i] = __byte_perm(sum(0), sum(1), 0x5410);
      }
      words[0][2 * column + half] = __byte_perm(pair[0], pair[1], 0x7531);
      words[1][2 * column + half] = __byte_perm(pair[0], pair[1], 0x6420);
    }
#pragma unroll
  for (int part = 0; part < 2; part++)
    to[32 * part] = make_uint4(words[part][0], words[part][1], words[part][2], words[part][3]);
}

// kFew: the launch has few blocks. They start early and do as much as they can before the wait.
// Otherwise the weights are made while samples are on their way.
template <bool kFew>
__global__ void __launch_bounds__(32 * Bytes::kFirstWarps, kFew ? 2 : 4)
    blur_byte_rows(const __grid_constant__ GaussianArgs p) {
  VF_SHARED(ByteWeights, weights);
  VF_DYNAMIC_SHARED(16, uint8_t, shared);
  let_next_start();
  Region region;
  Slab slab;
  const Work work = find_work<Bytes, 0>(p, &region, &slab);
  const RegionPlane& l = p.r.plane[work.plane];
  const int channels = l.channels, log = log_of_block(Bytes::kFirstWarps, channels),
            each = 1 << log;
  const int bands = first_bands<Bytes>(slab);
  const int across = quotient(work.index, bands), row = work.index - across * bands;
  const int first_column = across * work.start.wide;
  const int columns = min(int(work.start.wide), slab.columns - first_column);

  Rows rows;
  rows.columns = 16 * columns + 2 * slab.reach_x;
  const int pitch = pitch_of(rows.columns);
  rows.channel_bytes = Bytes::kRows * pitch;
  constexpr int kShare = 32 * Bytes::kFirstWarps / Bytes::kRows;  // threads of a row
  const int own = int(threadIdx.x / kShare);
  rows.x = slab.x + 16 * first_column - slab.reach_x;
  rows.from =
      border_index(slab.rect.y0 - slab.reach_y + Bytes::kRows * row + own, l.height, p.border);
  rows.to = shared + slot_of(own) * pitch;
  rows.first = int(threadIdx.x % kShare);
  rows.step = kShare;
  rows.channels = channels;
  uint4 v[kBatch] = {};
  const int step = l.aligned ? l.step : 0;
  if (step == 1)
    prefetch_batch<1>(l, rows);
  else if (step == 2)
    prefetch_batch<2>(l, rows);
  else if (step == 4)
    prefetch_batch<4>(l, rows);
  const auto make_weights = [&] {
    Bytes::make_weights<Bytes::kFirstWarps>(sigma_in(region.sigma_x, l.sub_x), work.start.radius_x,
                                            slab.reach_x, weights);
  };
  if (kFew) make_weights();
  if (!kFew || !p.r.after_copy) wait_for_previous();
  if (step == 1)
    load_batch<1>(l, rows, rows.first, v);
  else if (step == 2)
    load_batch<2>(l, rows, rows.first, v);
  else if (step == 3)
    load_batch<3>(l, rows, rows.first, v);
  else if (step == 4)
    load_batch<4>(l, rows, rows.first, v);
  if (!kFew) make_weights();
  if (step == 1) {
    finish_rows<1>(p, work.plane, rows, v);
  } else if (step == 2) {
    finish_rows<2>(p, work.plane, rows, v);
  } else if (step == 3) {
    finish_rows<3>(p, work.plane, rows, v);
  } else if (step == 4) {
    finish_rows<4>(p, work.plane, rows, v);
  } else {
#pragma unroll 1
    for (int at = 4 * rows.first; at < rows.columns; at += 4 * rows.step)
      load_one_by_one(p, work.plane, rows.x + at, rows.from, 4, rows.to + at, rows.channel_bytes);
  }
  __syncthreads();

  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
  const int g = lane / 4, t = lane % 4;
  const int channel = warp >> log;
  const bool filters = channel < channels && (l.mask >> channel & 1);
  const int shift = weights.k - 8;
#pragma unroll 1
  for (int column = filters ? warp & (each - 1) : columns; column < columns; column += each) {
    int high[4][4] = {}, low[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int& v : low[i]) v = 1 << (shift - 1);
    // A lane's columns of the result are chosen so that it has four neighbours in the second pass.
    const uint32_t* at = weights.word[0] + kLead + 4 * t - (4 * (g / 2) + g % 2);
    uint32_t from = shared_address(shared + channel * rows.channel_bytes + 16 * column +
                                   (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 16);
    int c = slab.reach_x / 16 + 1;
#pragma unroll 1
    do {
      const uint4 first = band(at, 2), second = band(at + kMaxWeights, 2);
#pragma unroll
      for (int half = 0; half < 2; half++) {
        uint32_t b[4];
        load_matrices(from + half * 16 * pitch, b);
#pragma unroll
        for (int i = 0; i < 2; i++) {
          multiply_bytes(high[2 * half + i], first, b[2 * i], b[2 * i + 1]);
          multiply_signed_bytes(low[2 * half + i], second, b[2 * i], b[2 * i + 1]);
        }
      }
      at += 32;
      from += 32;
    } while (--c > 0);
    const int tile =
        work.sums + (channel * slab.columns + first_column + column) * slab.sum_rows + row;
    store_sums(p.sums + tile * kTile + lane, high, low, shift);
  }
  if (kFew) end_after_previous();
}

size_t first_shared(const Layout& layout, int reach) {
  return max_of_planes(layout, [&](int channels) {
    const int columns = 16 * most_wide<Bytes>(channels) + 2 * reach;
    return size_t(channels) * Bytes::kRows * pitch_of(columns);
  });
}

}  // namespace

GaussianPasses gaussian_byte_passes(const Layout&) {
  return {{&blur_byte_rows<false>, &blur_byte_rows<true>},
          &blur_columns<Bytes>,
          32 * Bytes::kFirstWarps,
          32 * kSecondWarps,
          gaussian_work<Bytes>,
          first_shared,
          second_shared<Bytes>};
}

}  // namespace vf::cuda
