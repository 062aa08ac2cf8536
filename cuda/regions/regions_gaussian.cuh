// Defines what the kernels that blur regions of bytes (regions_gaussian_bytes.cu) and of words
// (regions_gaussian_words.cu) share. regions_gaussian.cu launches them.
//
// The first pass leaves the horizontal sums of a region in device memory, in tiles of 1 KiB that
// have 16 columns and are laid out as the second pass loads them. Each kind has a first pass of its
// own. The second pass, blur_columns, is one template; a kind supplies:
//
//   Sample       the type of a component
//   kAllChannels true: a block makes all channels of a plane; false: it makes one
//   kRows        rows of a tile
//   kReachUnit   the rows of a halo are a multiple of it
//   kFirstWarps  warps of a block of the first pass
//   kSpare       columns of tiles that such a block may have more than a channel has warps
//   kFirstTall, kSecondTall  tiles that a warp of each pass makes, one below the other
//   Weights, make_weights()  makes the weights in shared memory
//   products()   returns a lane's codes: those of 4 rows, 8 apart, in kRun neighbouring columns and
//                in the columns 8 further
//   pack()       packs kRun codes in a word
#pragma once

#include <algorithm>

#include "cuda/core/warp.cuh"
#include "cuda/regions/regions.cuh"

namespace vf::cuda {

constexpr int kMaxReach = 256;          // the largest radius, rounded up
constexpr int kSumsBytes = 1024;        // bytes of a tile
constexpr int kTile = kSumsBytes / 16;  // vectors of a tile
constexpr int kSecondWarps = 4;         // warps of a block of the second pass
constexpr int kSecondBlocks = 6;        // such blocks that a multiprocessor has at once
constexpr int kWarpRows = 32;           // rows that a warp of the second pass makes

struct GaussianArgs {
  PlaneRect clip;  // the pixels of the frame that these launches may change
  uint4* sums;     // by region, plane, channel, column of tiles, tile
  int middle;      // code
  Border border;
  uint16_t outside[kMaxPlanes][kMaxChannels];  // codes
  RegionArgs r;
};

__host__ __device__ constexpr int reach_of(int radius, int unit = 16) {
  return (radius + unit - 1) / unit * unit;
}

// Describes the tiles of one channel of a region's plane. Both passes must agree on them.
struct Slab {
  PlaneRect rect;        // the samples to be made
  int x;                 // column of the first tile
  int columns, rows;     // tiles
  int reach_x, reach_y;  // samples that the kernels read around the tiles
  int sum_rows;          // tiles of sums in a column, with those of the halo

  __host__ __device__ int size() const { return columns * sum_rows; }
};

// Returns the number of tiles of `rows` rows from which a tile of the second pass is made.
__host__ __device__ constexpr int chunks_of(int reach, int rows) {
  return (2 * reach + rows - 1) / rows + 1;
}

template <class K>
__host__ __device__ __forceinline__ Slab slab_of(const PlaneRect& clip, const Region& r,
                                                 const RegionPlane& l, int radius_x, int radius_y) {
  constexpr int kRows = K::kRows;
  Slab s;
  s.rect = rect_in(l, r);
  s.rect.x0 = max(s.rect.x0, clip.x0 >> l.sub_x), s.rect.x1 = min(s.rect.x1, clip.x1 >> l.sub_x);
  s.rect.y0 = max(s.rect.y0, clip.y0 >> l.sub_y), s.rect.y1 = min(s.rect.y1, clip.y1 >> l.sub_y);
  s.x = s.rect.x0 & ~15;
  const bool empty = s.rect.x0 >= s.rect.x1 || s.rect.y0 >= s.rect.y1;
  s.columns = empty ? 0 : (s.rect.x1 - s.x + 15) / 16;
  s.rows = empty ? 0 : (s.rect.y1 - s.rect.y0 + kRows - 1) / kRows;
  s.reach_x = reach_of(radius_x);
  s.reach_y = reach_of(radius_y, K::kReachUnit);
  s.sum_rows = empty ? 0 : (s.rect.y1 - s.rect.y0 + 2 * s.reach_y + kRows - 1) / kRows;
  return s;
}

// Counts the blocks of the two launches, and the tiles of sums.
struct GaussianWork {
  int64_t first = 0, second = 0, sums = 0;
  int wide = 1;  // columns of tiles of a block of the first pass
};

struct GaussianPasses {
  void (*first[2])(GaussianArgs);  // for many blocks, for few
  void (*second)(GaussianArgs);
  unsigned first_threads, second_threads;
  // Counts the work for a plane of a region.
  GaussianWork (*work)(const PlaneRect& clip, const Region& r, const RegionPlane& l);
  // Return the bytes of dynamic shared memory. `reach` is the largest of the regions.
  size_t (*first_shared)(const Layout& layout, int reach);
  size_t (*second_shared)(const Layout& layout, int reach);
};
GaussianPasses gaussian_byte_passes(const Layout& layout);
GaussianPasses gaussian_word_passes(const Layout& layout);

// Tells whether components have more bits than fp16 can count exactly.
inline bool is_wide(const Layout& layout) {
  return max_code(layout) > 1023;
}

// ---- blocks ------------------------------------------------------------------------------------

template <class K>
__host__ __device__ constexpr int channels_of_block(int channels) {
  return K::kAllChannels ? channels : 1;
}
template <class K>
__host__ __device__ __forceinline__ int channels_with_sums(const RegionPlane& l) {
  if (K::kAllChannels) return l.channels;
  return (l.mask & 1) + (l.mask >> 1 & 1) + (l.mask >> 2 & 1) + (l.mask >> 3 & 1);
}

// Returns the base-2 logarithm of the number of warps of a block that share a channel.
__host__ __device__ constexpr int log_of_block(int warps, int channels) {
  const int whole = warps >= 8 ? 3 : 2;
  return channels == 1 ? whole : channels == 2 ? whole - 1 : whole - 2;
}
// Returns the largest number of columns of tiles of a block of the first pass.
template <class K>
constexpr int most_wide(int channels) {
  return (1 << log_of_block(K::kFirstWarps, channels)) + (channels < 3 ? K::kSpare : 0);
}
// Returns the number of blocks of the first pass one below the other.
template <class K>
__host__ __device__ __forceinline__ int first_bands(const Slab& s) {
  return (s.sum_rows + K::kFirstTall - 1) / K::kFirstTall;
}
// Returns the number of blocks of the second pass one below the other.
template <class K>
__host__ __device__ __forceinline__ int second_strips(const Slab& s, int channels) {
  const int log = log_of_block(kSecondWarps, channels);
  return ((s.rows + K::kSecondTall - 1) / K::kSecondTall + (1 << log) - 1) >> log;
}
// Returns the number of blocks that make channels_of_block() channels in launch kLaunch.
template <class K, int kLaunch>
__host__ __device__ __forceinline__ int all_blocks(const Slab& s, int plane_channels, int wide) {
  return kLaunch == 0 ? blocks_of(s.columns, wide) * first_bands<K>(s)
                      : second_strips<K>(s, channels_of_block<K>(plane_channels)) * s.columns;
}

template <class K>
GaussianWork gaussian_work(const PlaneRect& clip, const Region& r, const RegionPlane& l) {
  GaussianWork w;
  const Slab s = slab_of<K>(clip, r, l, r.radius_x[l.sub_x], r.radius_y[l.sub_y]);
  if (l.mask == 0 || s.columns == 0) return w;
  const int64_t with_sums = channels_with_sums<K>(l), times = K::kAllChannels ? 1 : with_sums;
  // All blocks of a row have the same number of columns, up to one.
  const int across = blocks_of(s.columns, most_wide<K>(channels_of_block<K>(l.channels)));
  w.wide = blocks_of(s.columns, across);
  w.first = times * all_blocks<K, 0>(s, l.channels, w.wide);
  w.second = times * all_blocks<K, 1>(s, l.channels, w.wide);
  w.sums = with_sums * s.size();
  return w;
}

template <class Bytes>
size_t max_of_planes(const Layout& layout, const Bytes& bytes) {
  size_t largest = 0;
  for (int p = 0; p < layout.planes; p++)
    largest = std::max(largest, bytes(layout.plane[p].channels));
  return largest;
}
template <class K>
size_t second_shared(const Layout& layout, int reach) {
  return max_of_planes(layout, [&](int plane_channels) {
    const int channels = channels_of_block<K>(plane_channels);
    const int tiles = K::kSecondTall << log_of_block(kSecondWarps, channels);
    return size_t(channels) * (tiles + 2 * reach / K::kRows) * kSumsBytes;
  });
}

// The work of a block: block `index` of a plane, or of one of its channels.
struct Work {
  RegionStart start;
  int plane, index;
  int channel;  // the first channel of the block
  int sums;     // tiles of sums before that channel's
};

template <class K, int kLaunch>
__device__ __forceinline__ Work find_work(const GaussianArgs& p, Region* region, Slab* slab) {
  const RegionStart start = find_start<kLaunch>(p.r);
  Work w = {start, start.plane, int(blockIdx.x) - start.block[kLaunch], 0, start.sums};
  const RegionPlane& l = p.r.plane[w.plane];
  *region = copy_of_region(p.r, start.region);
  *slab = slab_of<K>(p.clip, *region, l, start.radius_x, start.radius_y);
  if (K::kAllChannels) return w;
  const int each = all_blocks<K, kLaunch>(*slab, l.channels, start.wide);
  int left = quotient(w.index, each);
  w.index -= left * each;
  w.sums += left * slab->size();
  while (!(l.mask >> w.channel & 1) || left-- > 0) w.channel++;
  return w;
}

// Computes a bell curve, exp(-i^2 / (2 sigma^2)) at i, as a power of two.
struct Bell {
  float exponent;
  __device__ __forceinline__ float operator()(int i) const {
    return exp2f(exponent * float(i * i));
  }
};
// Returns a sigma in a plane that is subsampled by 2^sub.
__device__ __forceinline__ float sigma_in(float sigma, int sub) {
  return sigma * __int_as_float((127 - sub) << 23);
}
// A sigma of 0 has a radius of 0.
__device__ __forceinline__ Bell make_bell(float sigma, int radius) {
  return {radius ? __fdividef(-0.72134752f, sigma * sigma) : 0};
}

// Adds up the bell from -radius to radius. All lanes of a warp call it.
__device__ __forceinline__ float sum_of(const Bell& bell, int radius) {
  float sum = 0;
#pragma unroll 1
  for (int i = int(threadIdx.x % 32); i <= radius; i += 32) sum += i == 0 ? 1 : 2 * bell(i);
  return sum_of_lanes(sum);
}

// ---- the second pass ---------------------------------------------------------------------------

// Stores bytes `begin` to `end` of a word or a vector, as far as it has them.
__device__ __forceinline__ void store_bytes(uint8_t* to, uint32_t v, int begin, int end) {
  if (begin <= 0 && end >= 4) {
    *reinterpret_cast<uint32_t*>(to) = v;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (i >= begin && i < end) to[i] = uint8_t(v >> (8 * i));
}
__device__ __forceinline__ void store_bytes(uint8_t* to, const uint4& v, int begin, int end) {
  if (begin <= 0 && end >= 16) {
    *reinterpret_cast<uint4*>(to) = v;
    return;
  }
  const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int w = 0; w < 4; w++) store_bytes(to + 4 * w, words[w], begin - 4 * w, end - 4 * w);
}

template <class K>
__global__ void __launch_bounds__(32 * kSecondWarps, kSecondBlocks)
    blur_columns(const __grid_constant__ GaussianArgs p) {
  using T = typename K::Sample;
  using Weights = typename K::Weights;
  constexpr int kThreads = 32 * kSecondWarps, kSize = int(sizeof(T)), kRun = 4 / kSize;
  constexpr int kTall = K::kSecondTall;
  static_assert(kTall * K::kRows == kWarpRows, "a warp makes 32 rows");
  using Codes = T[kSecondWarps * kWarpRows * 16];
  VF_SHARED_ALIGNED(16, Codes, codes);  // by row, column, channel
  VF_SHARED(Rivals, rivals);
  VF_SHARED(Weights, weights);
  VF_DYNAMIC_SHARED(16, uint4, tiles);  // tiles of sums, by channel
  let_next_start();
  Region region;
  Slab slab;
  const Work work = find_work<K, 1>(p, &region, &slab);
  const RegionPlane& l = p.r.plane[work.plane];
  const int channels = channels_of_block<K>(l.channels);
  const int log = log_of_block(kSecondWarps, channels), each = 1 << log;
  const int strips = second_strips<K>(slab, channels);
  const int column = quotient(work.index, strips);
  const int strip = (work.index - column * strips) * each * kTall;
  const RegionTile tile = {work.start.region, work.plane, 0, false};
  const int x0 = slab.x + 16 * column, y0 = slab.rect.y0 + K::kRows * strip;
  const PlaneRect rect = {max(x0, slab.rect.x0), y0, min(x0 + 16, slab.rect.x1),
                          min(y0 + kWarpRows * each, slab.rect.y1)};
  bool full = work.start.plain;
  if (!full) {
    find_rivals(p.r, tile, rect, &rivals);
    if (rivals.covered) return;
    full = rivals.count == 0 && covers(region, p.r.edges, l.sub_x, l.sub_y, rect);
  }
  K::template make_weights<kSecondWarps>(sigma_in(region.sigma_y, l.sub_y), work.start.radius_y,
                                         slab.reach_y, weights);

  const int chunks = chunks_of(slab.reach_y, K::kRows), tall = min(each * kTall, slab.rows - strip);
  // The last rows of the last tile may have no sums. They are not stored.
  const int tall_sums = min(tall + chunks - 1, slab.sum_rows - strip);
  const int vectors = (tall + chunks - 1) * kTile;
  const uint4* sums = p.sums + (work.sums + column * slab.sum_rows + strip) * kTile;
  // With one channel, find_work() has chosen one that is filtered.
  const auto filters = [&](int c) { return !K::kAllChannels || (l.mask >> c & 1); };
  wait_for_previous();
#pragma unroll 1
  for (int c = 0; c < channels; c++, sums += slab.size() * kTile) {
    if (!filters(c)) continue;
#pragma unroll 4
    for (int i = threadIdx.x; i < tall_sums * kTile; i += kThreads)
      copy_async(tiles + c * vectors + i, sums + i);
  }
  wait_all_copies();
  __syncthreads();

  const bool whole = full && l.aligned && l.step == channels && l.mask == (1 << channels) - 1;
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
  const int g = lane / 4, t = lane % 4, channel = warp >> log, group = warp & (each - 1);
  if (channel < channels && group * kTall < tall && filters(channel)) {
    uint32_t v[4][4];
    K::products(p, weights, tiles + channel * vectors + group * kTall * kTile + lane, chunks,
                min(kTall, tall - group * kTall), v);
    const int first = kWarpRows * group + g;
    uint8_t* line = reinterpret_cast<uint8_t*>(result_at<T>(l, x0, y0 + first));
#pragma unroll
    for (int i = 0; i < 4; i++, line += 8 * l.dst_stride)
#pragma unroll
      for (int part = 0; part < 4; part += kRun) {
        const int row = first + 8 * i, at = kRun * (t + 2 * part);
        T* const to = codes + (row * 16 + at) * channels + channel;
        if (channels > 1) {
#pragma unroll
          for (int n = 0; n < kRun; n++) to[n * channels] = T(v[i][part + n]);
          continue;
        }
        const uint32_t all = K::pack(&v[i][part]);
        if (!whole)
          *reinterpret_cast<uint32_t*>(to) = all;
        else if (y0 + row < rect.y1)
          store_bytes(line + at * kSize, all, (rect.x0 - x0 - at) * kSize,
                      (rect.x1 - x0 - at) * kSize);
      }
  }
  if (whole && channels == 1) return;
  __syncthreads();

  const int rows = rect.y1 - y0;
  if (whole) {
    const int begin = (rect.x0 - x0) * channels, end = (rect.x1 - x0) * channels;  // bytes
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * channels; i += kThreads) {
      const int row = quotient(i, channels), at = 16 * (i - row * channels);
      store_bytes(reinterpret_cast<uint8_t*>(result_at<T>(l, x0, y0 + row)) + at,
                  *reinterpret_cast<const uint4*>(codes + 16 * i), begin - at, end - at);
    }
    return;
  }
  const int i = int(threadIdx.x % 16), x = x0 + i;
  if (x < rect.x0 || x >= rect.x1) return;
#pragma unroll 1
  for (int row = int(threadIdx.x / 16); row < rows; row += kThreads / 16) {
    const int weight = full ? kFullWeight : own_weight(p.r, tile, rivals, x, y0 + row);
    if (weight < 0) continue;
    const T* const from = sample_at<T>(l, x, y0 + row) + work.channel;
    T* const to = result_at<T>(l, x, y0 + row) + work.channel;
#pragma unroll 1
    for (int c = 0; c < channels; c++) {
      if (!filters(c)) continue;
      const T code = codes[(16 * row + i) * channels + c];
      to[c] = full ? code : T(blend(from[c], code, weight, sizeof(T) == 1 ? 0 : p.r.shift));
    }
  }
}

}  // namespace vf::cuda
