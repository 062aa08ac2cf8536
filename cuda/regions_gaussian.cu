// Gaussian of regions, each with a sigma of its own, in two passes on tensor cores.
//
// Idea     out = V (In H), with banded Toeplitz matrices H and V of weights, as in
//          gaussian_two_pass.cu: the first pass is computed transposed, and leaves its sums in
//          device memory as they are the fragments of the second. So a region in place needs no
//          other copy: all that is read of the frame is read before anything is written. Weights
//          are made from sigma by each block, while its samples or sums are under way.
// Precision  Codes are relative to the middle of their range. Weights are 256 times as large, so
//          that small ones are no subnormals. Weights and intermediates have two parts, the second
//          what the first's rounding leaves; so have components of more than 10 bits.
// Traffic  The regions and their halos, read once and a half; the sums, four bytes a component of
//          the regions and the rows of their halos, through L2; the regions, written once.
// Tile     First pass: 64 columns of 32 rows, or 16 where components have two parts. Second pass:
//          16 columns of 128 rows. Tiles start at multiples of 16 columns, and at the region's
//          first row. Warps make one channel of 16 columns.
#include "cuda/gaussian_tensor.cuh"
#include "cuda/regions.cuh"

namespace vf::cuda {
namespace {

using tensor::half2_bits;
using tensor::split;

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kTall = 2;         // tiles of rows that a warp of the second pass makes at once
constexpr int kMostReach = 256;  // the largest radius, in whole tiles
constexpr int kSumsWords = 256;  // of sums of a tile: 8 a lane
constexpr int kCell = 64;        // pixels; parts of large regions are multiples of it
constexpr float kScale = 256;    // of weights

struct GaussianArgs {
  RegionArgs r;
  PlaneRect clip;  // of the frame: the pixels of regions that these launches make
  uint4* sums;     // by region, plane, channel, column of tiles, tile: [part][lane]
  int middle;      // code
  Border border;
  uint16_t outside[kMaxPlanes][kMaxChannels];  // codes
};

__host__ __device__ constexpr int reach_of(int radius) {
  return (radius + 15) / 16 * 16;
}
__host__ __device__ constexpr int rows_of_tile(bool wide) {
  return wide ? 16 : 32;
}
// Whether components have more bits than one half holds as its last.
bool is_wide(const Layout& layout) {
  return max_code(layout) > 1023;
}

// The radius in a plane that is subsampled by 2^sub; without an index that is no constant, as it
// would need the array in memory.
__host__ __device__ __forceinline__ int radius_in(const uint8_t (&radius)[4], int sub) {
  return sub == 0 ? radius[0] : sub == 1 ? radius[1] : sub == 2 ? radius[2] : radius[3];
}

// What both passes agree on: the tiles of a channel of a region's plane.
struct Slab {
  PlaneRect rect;        // samples to be made
  int x;                 // where the tiles start, in samples
  int columns, rows;     // tiles
  int reach_x, reach_y;  // samples around them that the kernels see
  int sum_rows;          // tiles of sums in a column: those of the halo, too

  __host__ __device__ int size() const { return columns * sum_rows; }
  // Blocks of the passes.
  __host__ __device__ int across() const { return (columns + kWarps - 1) / kWarps; }
  __host__ __device__ int first_blocks(int tile_rows) const {
    return across() * ((sum_rows * 16 + tile_rows - 1) / tile_rows);
  }
  __host__ __device__ int strips() const { return (rows + kWarps * kTall - 1) / (kWarps * kTall); }
  __host__ __device__ int second_blocks() const { return columns * strips(); }
};

__host__ __device__ __forceinline__ Slab slab_of(const PlaneRect& clip, const Region& r,
                                                 const RegionPlane& l) {
  Slab s;
  s.rect = rect_in(l, r);
  s.rect.x0 = max(s.rect.x0, clip.x0 >> l.sub_x), s.rect.x1 = min(s.rect.x1, clip.x1 >> l.sub_x);
  s.rect.y0 = max(s.rect.y0, clip.y0 >> l.sub_y), s.rect.y1 = min(s.rect.y1, clip.y1 >> l.sub_y);
  s.x = s.rect.x0 & ~15;
  const bool empty = s.rect.x0 >= s.rect.x1 || s.rect.y0 >= s.rect.y1;
  s.columns = empty ? 0 : (s.rect.x1 - s.x + 15) / 16;
  s.rows = empty ? 0 : (s.rect.y1 - s.rect.y0 + 15) / 16;
  s.reach_x = reach_of(radius_in(r.radius_x, l.sub_x));
  s.reach_y = reach_of(radius_in(r.radius_y, l.sub_y));
  s.sum_rows = s.rows + s.reach_y / 8;
  return s;
}

// What a block works on: tile `index` of a channel.
struct Work {
  int region, plane, channel, index;
  int64_t sums;  // tiles of sums before the channel's
};

// Finds the work of a block in launch kLaunch; `blocks(slab)` counts those of a channel.
template <int kLaunch, class Blocks>
__device__ __forceinline__ Work find_work(const GaussianArgs& p, int* own, Region* region,
                                          Slab* slab, const Blocks& blocks) {
  Work w;
  w.region = find_region<kLaunch>(p.r, own);
  const RegionStart start = start_of(p.r, w.region);
  *region = copy_of_region(p.r, w.region);
  w.index = int(blockIdx.x) - start.block[kLaunch];
  w.sums = start.sums;
#pragma unroll 1
  for (w.plane = 0;; w.plane++) {
    const RegionPlane& l = p.r.plane[w.plane];
    *slab = slab_of(p.clip, *region, l);
    const int each = blocks(*slab), channels = __popc(l.mask);
    if (w.index < each * channels) {
      const int before = w.index / each;
      w.index -= before * each;
      w.sums += int64_t(before) * slab->size();
      w.channel = 0;
      for (int left = before;; w.channel++)
        if (l.mask >> w.channel & 1 && left-- == 0) break;
      return w;
    }
    w.index -= each * channels;
    w.sums += int64_t(channels) * slab->size();
  }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
__device__ __forceinline__ float2 floats_of(uint32_t halves) {
  return __half22float2(reinterpret_cast<const __half2&>(halves));
}
#endif

// sums += a b, as multiply() does; where tensor cores have no product of this size, lanes bring
// each other what they have of the matrices.
__device__ __forceinline__ void add_product(float (&sums)[4], const uint4& a, uint32_t b0,
                                            uint32_t b1) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  multiply(sums, a, b0, b1);
#else
  const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  for (int k = 0; k < 4; k++) {
    // Columns 2k, 2k + 1, 2k + 8 and 2k + 9 of the first, of this lane's rows, by these rows of the
    // second, of its columns.
    const uint32_t own[4] = {a.x, a.y, a.z, a.w};
    float2 rows[4], columns[2][2];
    for (int i = 0; i < 4; i++) rows[i] = floats_of(__shfl_sync(~0u, own[i], 4 * g + k));
    for (int n = 0; n < 2; n++) {
      columns[n][0] = floats_of(__shfl_sync(~0u, b0, 4 * (2 * t + n) + k));
      columns[n][1] = floats_of(__shfl_sync(~0u, b1, 4 * (2 * t + n) + k));
    }
    for (int row = 0; row < 2; row++)
      for (int n = 0; n < 2; n++)
        for (int half = 0; half < 2; half++) {
          const float2 x = rows[row + 2 * half], y = columns[n][half];
          sums[2 * row + n] += x.x * y.x + x.y * y.y;
        }
  }
#endif
}

// Weights as the fragments of a Toeplitz matrix: entry i has those at distances i - reach - 16 and
// the next, as halves; of two parts.
constexpr int kWeightPairs = 2 * kMostReach + 32;
using WeightPairs = uint32_t[2][kWeightPairs];

__device__ __forceinline__ void make_weights(float sigma, int radius, float* raw,
                                             WeightPairs& pairs) {
  // exp(-i^2 / (2 sigma^2)) as a power of two. A sigma of 0 has a radius of 0.
  const float exponent = radius ? __fdividef(-0.72134752f, sigma * sigma) : 0;
#pragma unroll 1
  for (int i = threadIdx.x; i <= radius; i += kThreads) raw[i] = exp2f(exponent * float(i * i));
  __syncthreads();
  float sum = 0;
#pragma unroll 1
  for (int i = int(threadIdx.x) % 32; i <= radius; i += 32) sum += i == 0 ? raw[i] : 2 * raw[i];
  for (int with = 1; with < 32; with *= 2) sum += __shfl_xor_sync(~0u, sum, with);
  const float scale = __fdividef(kScale, sum);
  const int reach = reach_of(radius);
  const auto weight = [&](int i) {
    const int d = abs(i - reach - 16);
    return d <= radius ? scale * raw[d] : 0.f;
  };
#pragma unroll 1
  for (int i = threadIdx.x; i < 2 * reach + 32; i += kThreads) {
    uint32_t parts[2];
    split(weight(i), weight(i + 1), parts);
    pairs[0][i] = parts[0];
    pairs[1][i] = parts[1];
  }
  __syncthreads();
}

// A lane's fragments of one 16 x 16 matrix after the other along the band: each shares one of its
// parts with the one before.
class Band {
 public:
  // g and t: a lane's row and column of a fragment.
  __device__ Band(const uint32_t* pairs, int g, int t) : next_(pairs + 16 + 2 * t - g) {
    last_ = next_[-8];
  }
  __device__ __forceinline__ uint4 next() {
    const uint32_t middle = next_[0], right = next_[8];
    const uint4 v = make_uint4(middle, last_, right, middle);
    last_ = right;
    next_ += 16;
    return v;
  }

 private:
  const uint32_t* next_;
  uint32_t last_;
};

// Leaves the sums of a warp, of kParts times eight rows from tile `row` on, as the second pass
// takes them: of a lane's column and of the one 8 columns on, each for 8 rows and the next 8.
template <int kParts>
__device__ __forceinline__ void store_sums(const GaussianArgs& p, const Work& work,
                                           const Slab& slab, int column, int row, float scale,
                                           const float (&sums)[kParts][4]) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < kParts / 2; i++) {
    if (row + i >= slab.sum_rows) continue;
    uint32_t v[2][2][2];  // column, half of the rows, part
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        split(sums[2 * i + half][2 * n] * scale, sums[2 * i + half][2 * n + 1] * scale, v[n][half]);
    uint4* const to =
        p.sums + lane + (work.sums + column * slab.sum_rows + row + i) * (kSumsWords / 4);
#pragma unroll
    for (int part = 0; part < 2; part++)
      to[32 * part] = make_uint4(v[0][0][part], v[0][1][part], v[1][0][part], v[1][1][part]);
  }
}

// ---- the first pass of larger samples ----------------------------------------------------------

// Samples of a lane in 16 columns of a row: four that follow each other, kBytes apart, as they lie
// in memory. kBytes 0: any, one by one, of which words are the codes of two.
template <int kBytes>
struct Four {
  uint32_t words[kBytes ? kBytes : 2];
};

// The same one by one, as codes of a channel: at the frame's edges, and what does not lie in words.
template <class T>
VF_NOINLINE __device__ uint2 load_one_by_one(const GaussianArgs& p, const RegionPlane& l,
                                             uint32_t outside, int channel, int x, int y) {
  uint32_t words[2];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int column = y < 0 ? -1 : border_index(x + i, l.width, p.border);
    const uint32_t code = column < 0 ? outside << p.r.shift : sample_at<T>(l, column, y)[channel];
    words[i / 2] = i % 2 ? words[i / 2] | code << 16 : code;
  }
  return make_uint2(words[0], words[1]);
}

// Loads them from column x on of row y; -1: outside.
template <class T, int kBytes>
__device__ __forceinline__ Four<kBytes> load_four(const GaussianArgs& p, const Work& work, int x,
                                                  int y) {
  const RegionPlane& l = p.r.plane[work.plane];
  const uint8_t* const at = l.src + (ptrdiff_t(y) * l.src_stride + ptrdiff_t(x) * kBytes);
  Four<kBytes> v;
  if constexpr (kBytes == 0) {
    const uint2 in =
        load_one_by_one<T>(p, l, p.outside[work.plane][work.channel], work.channel, x, y);
    v.words[0] = in.x, v.words[1] = in.y;
  } else if constexpr (kBytes == 1) {
    v.words[0] = __ldg(reinterpret_cast<const uint32_t*>(at));
  } else if constexpr (kBytes == 2) {
    const uint2 in = __ldg(reinterpret_cast<const uint2*>(at));
    v.words[0] = in.x, v.words[1] = in.y;
  } else {
    const uint4 in = __ldg(reinterpret_cast<const uint4*>(at));
    v.words[0] = in.x, v.words[1] = in.y, v.words[2] = in.z, v.words[3] = in.w;
  }
  return v;
}

// The codes of a channel of the samples, two in a word. `selector` is channel_selector().
template <class T, int kBytes>
__device__ __forceinline__ uint2 codes_of(const Four<kBytes>& v, uint32_t selector) {
  if constexpr (kBytes == 0)
    return make_uint2(v.words[0], v.words[1]);
  else if constexpr (kBytes == 1)
    return make_uint2(__byte_perm(v.words[0], 0, 0x4140), __byte_perm(v.words[0], 0, 0x4342));
  else if constexpr (kBytes == 2 && sizeof(T) == 1)
    return make_uint2(__byte_perm(v.words[0], 0, selector), __byte_perm(v.words[1], 0, selector));
  else if constexpr (kBytes == 2)
    return make_uint2(v.words[0], v.words[1]);
  else if constexpr (sizeof(T) == 1)
    return make_uint2(__byte_perm(v.words[0], v.words[1], selector) & 0x00ff00ff,
                      __byte_perm(v.words[2], v.words[3], selector) & 0x00ff00ff);
  else
    return make_uint2(__byte_perm(v.words[0], v.words[1], selector),
                      __byte_perm(v.words[2], v.words[3], selector));
}
template <class T, int kBytes>
__device__ __forceinline__ uint32_t channel_selector(int channel) {
  const auto c = uint32_t(channel);
  if (sizeof(T) == 1) return kBytes == 2 ? 0x4240 + 0x0101 * c : 0x0400 + 0x0101 * c;
  return 0x5410 + 0x2222 * c;
}

// The horizontal sums of 16 columns, from where the first tap of the first one is: of kParts times
// eight rows, `rows` being those of the frame that a lane has. Calls `meanwhile` while samples are
// under way. Codes of up to 10 bits are the last bits of an fp16 from 1024 on, less that and the
// middle: a pattern about the middle of the range gives sums that are exact. Of more bits, each of
// two bytes is 2^-24 of its value as the bits of an fp16, and high ones are made 256 times as
// large.
template <class T, bool kWide, int kBytes, int kParts, class Meanwhile>
__device__ __forceinline__ void add_columns(const GaussianArgs& p, const Work& work, int x,
                                            int chunks, const int (&rows)[kParts],
                                            const WeightPairs& weights, float (&sums)[kParts][4],
                                            const Meanwhile& meanwhile) {
  // Chunks of 16 columns under way at once: as many as registers hold.
  constexpr int kBatch = kBytes == 1 ? 9 : kBytes == 2 ? 5 : kBytes == 4 ? 2 : 1;
  constexpr uint32_t k256 = 0x5c005c00, k1024 = 0x64006400;  // as halves
  const uint32_t offset = k1024 + uint32_t(p.middle) * 0x00010001u;
  const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const uint32_t selector = channel_selector<T, kBytes>(work.channel);
  const uint32_t mask = 0x00010001u * (kWide ? 0xffffu >> p.r.shift : 0x3ffu);
  int first = 0;
#pragma unroll 1
  do {
    Four<kBytes> v[kBatch][kParts];
#pragma unroll
    for (int k = 0; k < kBatch; k++)
#pragma unroll
      for (int i = 0; i < kParts; i++)
        if (first + k < chunks)
          v[k][i] = load_four<T, kBytes>(p, work, x + 16 * (first + k) + 4 * t, rows[i]);
    if (first == 0) meanwhile();
    // Indices of a product are in an order in which a lane's four samples follow each other.
    const uint32_t* at = weights[0] + 16 * first + 16 + 4 * t - g;
#pragma unroll
    for (int k = 0; k < kBatch; k++, at += 16) {
      if (first + k >= chunks) break;
      const uint4 a = make_uint4(at[0], at[-8], at[2], at[-6]);
      const uint32_t* const second = at + kWeightPairs;
      const uint4 rest = make_uint4(second[0], second[-8], second[2], second[-6]);
#pragma unroll
      for (int i = 0; i < kParts; i++) {
        uint2 b = codes_of<T>(v[k][i], selector);
        if (sizeof(T) == 2) b = make_uint2(b.x >> p.r.shift & mask, b.y >> p.r.shift & mask);
        if (!kWide) {
          b = make_uint2(half2_subtract(b.x | k1024, offset), half2_subtract(b.y | k1024, offset));
        } else {
          add_product(sums[i], a, b.x & 0x00ff00ff, b.y & 0x00ff00ff);
          b = make_uint2(half2_multiply_add_relu(__byte_perm(b.x, 0, 0x4341), k256, 0),
                         half2_multiply_add_relu(__byte_perm(b.y, 0, 0x4341), k256, 0));
        }
        add_product(sums[i], a, b.x, b.y);
        add_product(sums[i], rest, b.x, b.y);
      }
    }
    first += kBatch;
  } while (first < chunks);
}

template <class T, bool kWide>
__global__ void __launch_bounds__(kThreads, 5) blur_rows(const __grid_constant__ GaussianArgs p) {
  using Raw = float[kMostReach];
  constexpr int kTileRows = rows_of_tile(kWide), kParts = kTileRows / 8;
  constexpr float kUnit = kWide ? 0x1p-24f * kScale : kScale;  // of the sums
  VF_SHARED(int, own);
  VF_SHARED(Raw, raw);
  VF_SHARED(WeightPairs, weights);
  let_next_start();
  Region region;
  Slab slab;
  const Work work = find_work<0>(p, &own, &region, &slab,
                                 [](const Slab& s) { return s.first_blocks(kTileRows); });
  const RegionPlane& l = p.r.plane[work.plane];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, g = lane / 4;
  const int first_column = work.index % slab.across() * kWarps, column = first_column + warp;
  const int row = work.index / slab.across() * kTileRows / 16;
  const int left = slab.x - slab.reach_x, top = slab.rect.y0 + 16 * row - slab.reach_y;
  const int chunks = slab.reach_x / 8 + 1;
  // Whether all that the block sees lies in whole words of the frame.
  const bool inside =
      l.aligned && left + 16 * first_column >= 0 &&
      left + 16 * (min(first_column + kWarps, slab.columns) - 1 + chunks) <= l.width &&
      (p.border != Border::constant || (top >= 0 && top + kTileRows <= l.height));
  int rows[kParts];
#pragma unroll
  for (int i = 0; i < kParts; i++) rows[i] = border_index(top + 8 * i + g, l.height, p.border);
  float sums[kParts][4];
#pragma unroll
  for (int i = 0; i < kParts; i++)
#pragma unroll
    for (float& v : sums[i]) v = kWide ? float(p.middle) * -kUnit : 0;
  wait_for_previous();
  const auto make = [&] {
    make_weights(__fdividef(region.sigma_x, float(1 << l.sub_x)),
                 radius_in(region.radius_x, l.sub_x), raw, weights);
  };
  const auto add = [&](auto bytes) {
    // A warp without a column helps to make the weights.
    add_columns<T, kWide, decltype(bytes)::value>(
        p, work, left + 16 * column, column < slab.columns ? chunks : 0, rows, weights, sums, make);
  };
  switch (inside ? l.step * int(sizeof(T)) : 0) {
    case int(sizeof(T)):
      add(std::integral_constant<int, int(sizeof(T))>());
      break;
    case 2 * int(sizeof(T)):
      add(std::integral_constant<int, 2 * int(sizeof(T))>());
      break;
    case 4 * int(sizeof(T)):
      add(std::integral_constant < int, sizeof(T) == 1 ? 4 : 0 > ());
      break;
    default:
      add(std::integral_constant<int, 0>());
      break;
  }
  if (column >= slab.columns) return;
  store_sums(p, work, slab, column, row, 1 / kUnit, sums);
}

// ---- the first pass of samples of one to three bytes -------------------------------------------

constexpr int kRawBytes = 16 << 10;
constexpr int kByteRows = rows_of_tile(false);
// Words of a row of halves, so that eight rows' words lie in different banks.
__host__ __device__ constexpr int pitch_of(int columns) {
  return columns / 2 + 4;
}
// Groups of 16 samples of each row that are taken from the frame at a time.
__host__ __device__ constexpr int raw_groups(int sample_bytes) {
  return kRawBytes / (kByteRows * 16 * sample_bytes);
}

// Fills shared memory with rows from (x, y) on as halves relative to the middle, and calls
// `meanwhile` while samples are under way. Four threads share a row. Each takes 16 samples after
// the other, as they lie in the frame, to `raw`, which has kRawBytes, and then their channel to
// `rows`.
template <class Meanwhile>
__device__ __forceinline__ void load_rows(const GaussianArgs& p, const Work& work, int x, int y,
                                          int columns, uint8_t* raw, uint32_t* rows, int pitch,
                                          const Meanwhile& meanwhile) {
  constexpr int kTogether = kThreads / kByteRows;
  constexpr uint32_t k1024 = 0x64006400;  // as halves: what has 10 bits is their last bits
  const uint32_t offset = k1024 + uint32_t(p.middle) * 0x00010001u;
  const RegionPlane& l = p.r.plane[work.plane];
  const int row = int(threadIdx.x) / kTogether, part = int(threadIdx.x) % kTogether;
  const int from = border_index(y + row, l.height, p.border);
  const int bytes = l.step, groups = columns / 16, held = min(groups, raw_groups(bytes));
  // What can be taken: whole vectors of a row of the frame.
  const int end = l.aligned && from >= 0 ? l.width * bytes & ~15 : 0;
  const uint8_t* const line = l.src + ptrdiff_t(from) * l.src_stride;
  uint8_t* const own = raw + row * held * 16 * bytes;
#pragma unroll 1
  for (int begin = 0; begin < groups; begin += held) {
    const int last = min(begin + held, groups);
#pragma unroll 1
    for (int group = begin + part; group < last; group += kTogether)
#pragma unroll 1
      for (int i = 0; i < bytes; i++) {
        const int at = (x + 16 * group) * bytes + 16 * i;
        if (at >= 0 && at < end)
          copy_async(shared_address(own + (group - begin) * 16 * bytes + 16 * i), line + at);
      }
    if (begin == 0) meanwhile();
    wait_all_copies();
#pragma unroll 1
    for (int unit = 2 * (begin + part); unit < 2 * last; unit += unit % 2 ? 2 * kTogether - 1 : 1) {
      const int at = (x + 8 * unit) * bytes;
      const uint8_t* const in = own + (unit - 2 * begin) * 8 * bytes;
      uint32_t codes[4];
      if (at < 0 || at + 8 * bytes > end) {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          const uint2 four = load_one_by_one<uint8_t>(p, l, p.outside[work.plane][work.channel],
                                                      work.channel, x + 8 * unit + 2 * i, from);
          codes[i] = four.x, codes[i + 1] = four.y;
        }
      } else if (bytes == 1) {
        const uint2 v = *reinterpret_cast<const uint2*>(in);
        codes[0] = __byte_perm(v.x, 0, 0x4140), codes[1] = __byte_perm(v.x, 0, 0x4342);
        codes[2] = __byte_perm(v.y, 0, 0x4140), codes[3] = __byte_perm(v.y, 0, 0x4342);
      } else if (bytes == 2) {
#pragma unroll
        for (int i = 0; i < 4; i++)
          codes[i] = reinterpret_cast<const uint32_t*>(in)[i] >> (8 * work.channel) & 0x00ff00ff;
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
          codes[i] = in[2 * i * bytes + work.channel] |
                     uint32_t(in[(2 * i + 1) * bytes + work.channel]) << 16;
      }
#pragma unroll
      for (uint32_t& v : codes) v = half2_subtract(v | k1024, offset);
      *reinterpret_cast<uint4*>(rows + row * pitch + 4 * unit) =
          make_uint4(codes[0], codes[1], codes[2], codes[3]);
    }
  }
}

__global__ void __launch_bounds__(kThreads, 6)
    blur_byte_rows(const __grid_constant__ GaussianArgs p) {
  using Raw = float[kMostReach];
  constexpr int kParts = kByteRows / 8;
  VF_SHARED(int, own);
  VF_SHARED(Raw, raw);
  VF_SHARED(WeightPairs, weights);
  VF_DYNAMIC_SHARED(16, uint32_t, shared);
  let_next_start();
  Region region;
  Slab slab;
  const Work work = find_work<0>(p, &own, &region, &slab,
                                 [](const Slab& s) { return s.first_blocks(kByteRows); });
  const int sub_x = p.r.plane[work.plane].sub_x;
  const int first_column = work.index % slab.across() * kWarps;
  const int row = work.index / slab.across() * kByteRows / 16;
  const int seen = 16 * min(kWarps, slab.columns - first_column) + 2 * slab.reach_x;
  const int pitch = pitch_of(seen);
  wait_for_previous();
  load_rows(p, work, slab.x + 16 * first_column - slab.reach_x,
            slab.rect.y0 + 16 * row - slab.reach_y, seen,
            reinterpret_cast<uint8_t*>(shared + kByteRows * pitch), shared, pitch, [&] {
              make_weights(__fdividef(region.sigma_x, float(1 << sub_x)),
                           radius_in(region.radius_x, sub_x), raw, weights);
            });
  __syncthreads();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  if (first_column + warp >= slab.columns) return;
  float sums[kParts][4] = {};
  Band first(weights[0], g, t), second(weights[1], g, t);
  const uint32_t* at = shared + g * pitch + 8 * warp + t;
#pragma unroll 1
  for (int j = slab.reach_x / 8 + 1; j > 0; j--, at += 8) {
    const uint4 a = first.next(), rest = second.next();
#pragma unroll
    for (int i = 0; i < kParts; i++) {
      const uint32_t b0 = at[8 * i * pitch], b1 = at[8 * i * pitch + 4];
      add_product(sums[i], a, b0, b1);
      add_product(sums[i], rest, b0, b1);
    }
  }
  store_sums(p, work, slab, first_column + warp, row, 1 / kScale, sums);
}

// ---- the second pass ---------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads, 6)
    blur_columns(const __grid_constant__ GaussianArgs p) {
  using Raw = float[kMostReach];
  using Codes = T[kWarps][kTall * 16 * 16];
  VF_SHARED(Codes, codes);
  VF_SHARED(Rivals, rivals);
  VF_SHARED(int, own);
  VF_SHARED(Raw, raw);
  VF_SHARED(WeightPairs, weights);
  VF_DYNAMIC_SHARED(16, uint4, tiles);
  let_next_start();
  Region region;
  Slab slab;
  const Work work =
      find_work<1>(p, &own, &region, &slab, [](const Slab& s) { return s.second_blocks(); });
  const RegionPlane& l = p.r.plane[work.plane];
  const int column = work.index / slab.strips();
  const int strip = work.index % slab.strips() * kWarps * kTall;
  const int strip_rows = min(kWarps * kTall, slab.rows - strip);
  const RegionTile tile = {work.region, work.plane, 0};
  const int x0 = slab.x + 16 * column, y0 = slab.rect.y0 + 16 * strip;
  const PlaneRect rect = {max(x0, slab.rect.x0), y0, min(x0 + 16, slab.rect.x1),
                          min(y0 + 16 * strip_rows, slab.rect.y1)};
  find_rivals(p.r, tile, rect, &rivals);
  if (rivals.covered) return;
  const bool full = rivals.count == 0 && covers(region, p.r.edges, l.sub_x, l.sub_y, rect);
  const bool pairs = full && l.step == 1 && l.aligned;
  make_weights(__fdividef(region.sigma_y, float(1 << l.sub_y)), radius_in(region.radius_y, l.sub_y),
               raw, weights);

  const int chunks = slab.reach_y / 8 + 1, held = strip_rows + chunks - 1;
  const uint4* const sums =
      p.sums + (work.sums + column * slab.sum_rows + strip) * (kSumsWords / 4);
  wait_for_previous();
#pragma unroll 4
  for (int i = threadIdx.x; i < held * kSumsWords / 4; i += kThreads)
    copy_async(shared_address(tiles + i), reinterpret_cast<const uint8_t*>(sums + i));
  wait_all_copies();
  __syncthreads();

  const int lane = int(threadIdx.x) % 32, first = int(threadIdx.x) / 32 * kTall;
  const int g = lane / 4, t = lane % 4;
  const int tall = min(kTall, strip_rows - first);
  if (tall <= 0) return;
  float out[kTall][2][4] = {};
  Band high(weights[0], g, t), low(weights[1], g, t);
  uint4 a[kTall], rest[kTall];
  const uint4* at = tiles + first * (kSumsWords / 4) + lane;
#pragma unroll 1
  for (int c = 0; c < chunks + tall - 1; c++, at += kSumsWords / 4) {
#pragma unroll
    for (int r = kTall - 1; r > 0; r--) a[r] = a[r - 1], rest[r] = rest[r - 1];
    if (c < chunks) a[0] = high.next(), rest[0] = low.next();
    const uint4 b = at[0], b_low = at[32];
#pragma unroll
    for (int r = 0; r < kTall; r++) {
      if (c < r || c - r >= chunks) continue;
      add_product(out[r][0], a[r], b.x, b.y);
      add_product(out[r][1], a[r], b.z, b.w);
      add_product(out[r][0], rest[r], b.x, b.y);
      add_product(out[r][1], rest[r], b.z, b.w);
      add_product(out[r][0], a[r], b_low.x, b_low.y);
      add_product(out[r][1], a[r], b_low.z, b_low.w);
    }
  }

  // Halves round up, also where what the sum has lost makes them a little less: it is lost again as
  // the middle is added. Weights add up to 1, so that no code is out of range.
  const float middle = float(p.middle) + 0.5f;
  const auto code_of = [&](float sum) {
    return T(uint32_t(sum * (1 / kScale) + middle) << p.r.shift);
  };
  const int y = y0 + 16 * first;
  if (pairs && x0 >= rect.x0 && x0 + 16 <= rect.x1) {
    struct alignas(2 * sizeof(T)) Pair {
      T v[2];
    };
#pragma unroll
    for (int i = 0; i < 2 * kTall; i++)
#pragma unroll
      for (int n = 0; n < 2; n++)
        if (y + 8 * i + g < rect.y1)
          *reinterpret_cast<Pair*>(result_at<T>(l, x0 + 8 * n + 2 * t, y + 8 * i + g)) = {
              {code_of(out[i / 2][n][i % 2 * 2]), code_of(out[i / 2][n][i % 2 * 2 + 1])}};
    return;
  }
  T* const own_codes = codes[int(threadIdx.x) / 32];
#pragma unroll
  for (int i = 0; i < 2 * kTall; i++)
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        own_codes[16 * (8 * i + g) + 8 * n + 2 * t + e] = code_of(out[i / 2][n][i % 2 * 2 + e]);
  __syncwarp();
  const int x = x0 + lane % 16;
  if (x < rect.x0 || x >= rect.x1) return;
#pragma unroll 1
  for (int i = lane / 16; i < 16 * tall && y + i < rect.y1; i += 2) {
    const T code = own_codes[16 * i + lane % 16];
    T* const to = result_at<T>(l, x, y + i) + work.channel;
    if (full) {
      *to = code;
      continue;
    }
    const int weight = own_weight(p.r, tile, rivals, x, y + i);
    if (weight >= 0)
      *to = T(blend(sample_at<T>(l, x, y + i)[work.channel], code, weight, p.r.shift));
  }
}

// Bytes of the largest sample.
int sample_bytes(const Layout& layout) {
  int bytes = 0;
  for (int p = 0; p < layout.planes; p++)
    bytes = std::max(bytes, layout.plane[p].pixel_step() * int(size_of(layout.type)));
  return bytes;
}
bool has_byte_rows(const Layout& layout) {
  return layout.type == Type::u8 && sample_bytes(layout) < 4;
}
const auto first_for = [](const Layout& layout) {
  return has_byte_rows(layout)     ? &blur_byte_rows
         : layout.type == Type::u8 ? &blur_rows<uint8_t, false>
         : is_wide(layout)         ? &blur_rows<uint16_t, true>
                                   : &blur_rows<uint16_t, false>;
};
size_t first_shared(const Layout& layout, int reach) {
  if (!has_byte_rows(layout)) return 0;
  const int columns = 16 * kWarps + 2 * reach, bytes = sample_bytes(layout);
  return size_t(kByteRows) * pitch_of(columns) * sizeof(uint32_t) +
         size_t(kByteRows) * std::min(columns / 16, raw_groups(bytes)) * 16 * bytes;
}
const auto second_for = [](const Layout& layout) {
  return layout.type == Type::u8 ? &blur_columns<uint8_t> : &blur_columns<uint16_t>;
};

size_t second_shared(int reach) {
  return size_t(kWarps * kTall + reach / 8) * kSumsWords * sizeof(uint32_t);
}

constexpr PlaneRect kEverywhere = {0, 0, 1 << 30, 1 << 30};

// Of a region, over all planes.
struct Amounts {
  int64_t first = 0, second = 0, sums = 0;  // blocks, blocks, tiles
};
Amounts amounts_of(const RegionArgs& args, const Region& r, const PlaneRect& clip, bool wide) {
  Amounts a;
  for (int p = 0; p < args.planes; p++) {
    const Slab s = slab_of(clip, r, args.plane[p]);
    const int channels = __builtin_popcount(args.plane[p].mask);
    if (s.columns == 0) continue;
    a.first += int64_t(channels) * s.first_blocks(rows_of_tile(wide));
    a.second += int64_t(channels) * s.second_blocks();
    a.sums += int64_t(channels) * s.size();
  }
  return a;
}

int64_t most_sums(const RegionLaunch& l) {
  return int64_t(l.sums.size() / (kSumsWords * sizeof(uint32_t)));
}

// Blurs regions `begin` to `end`, as far as they are in `clip`: their sums have room.
Status blur(const RegionLaunch& l, RegionArgs args, size_t begin, size_t end,
            const PlaneRect& clip) {
  const Layout& layout = l.task.layout;
  const GaussianParams& params = std::get<RegionGaussian>(l.task.filter).params;
  const bool wide = is_wide(layout);
  Amounts all;
  int reach_x = 0, reach_y = 0;
  l.starts->clear();
  for (size_t i = 0; i < l.regions.size(); i++) {
    l.starts->push_back({{int(all.first), int(all.second)}, int(all.sums)});
    if (i < begin || i >= end) continue;
    const Region& r = l.regions[i];
    const Amounts own = amounts_of(args, r, clip, wide);
    all.first += own.first, all.second += own.second, all.sums += own.sums;
    for (int p = 0; p < layout.planes; p++) {
      reach_x = std::max(reach_x, reach_of(r.radius_x[layout.plane[p].sub_x]));
      reach_y = std::max(reach_y, reach_of(r.radius_y[layout.plane[p].sub_y]));
    }
  }
  if (all.first == 0) return {};
  VF_TRY(set_regions(l.queue, l.regions, *l.starts, l.list, &args));
  GaussianArgs g = {};
  g.r = args;
  g.clip = clip;
  g.sums = l.sums.as<uint4>();
  g.middle = wide ? middle_code(layout) & ~255 : layout.type == Type::u8 ? 128 : 512;
  g.border = params.border;
  for (int p = 0; p < layout.planes; p++)
    for (int c = 0; c < layout.plane[p].channels; c++)
      g.outside[p][c] = params.border == Border::constant
                            ? uint16_t(std::lrint(params.border_value[p][c]))
                            : uint16_t(0);
  // An upload comes between the first pass and what it may overlap with.
  const bool early = l.queue.device().capability >= 90;
  VF_TRY(launch("rows of regions", first_for(layout),
                {unsigned(all.first), kThreads, first_shared(layout, reach_x), early && !args.more},
                l.queue.cuda_stream(), g));
  return launch("columns of regions", second_for(layout),
                {unsigned(all.second), kThreads, second_shared(reach_y), early},
                l.queue.cuda_stream(), g);
}

// Blurs a region whose sums have no room in parts that have.
Status blur_in_parts(const RegionLaunch& l, const RegionArgs& args, size_t index) {
  const Region& r = l.regions[index];
  const auto whole = [](int v) { return (v + kCell - 1) / kCell * kCell; };
  const int left = r.x0 / kCell * kCell, top = r.y0 / kCell * kCell;
  int width = whole(r.x1 - left), height = whole(r.y1 - top);
  const auto most = [&] {
    int64_t sums = 0;
    for (int y = top; y < r.y1; y += height)
      for (int x = left; x < r.x1; x += width)
        sums = std::max(
            sums, amounts_of(args, r, {x, y, x + width, y + height}, is_wide(l.task.layout)).sums);
    return sums;
  };
  while (most() > most_sums(l) && (width > kCell || height > kCell))
    (width > height ? width : height) = whole((width > height ? width : height) / 2);
  for (int y = top; y < r.y1; y += height)
    for (int x = left; x < r.x1; x += width)
      VF_TRY(blur(l, args, index, index + 1, {x, y, x + width, y + height}));
  return {};
}

}  // namespace

size_t gaussian_sums_bytes(const Layout& layout) {
  // A part of a region that cannot be divided any more, of four planes of four components; more
  // than the regions and halos of a frame of which no region has more than half; and what L2 holds.
  constexpr int64_t kLeast = 16 * (kCell / 16 + 1) * (kCell / 16 + 1 + 2 * kMostReach / 16),
                    kMost = 32 << 10;
  int64_t tiles = 0;
  for (int p = 0; p < layout.planes; p++) {
    const PlaneLayout& l = layout.plane[p];
    tiles += int64_t(l.channels) * (l.width / 16 + 1) * (l.height / 16 + 1);
  }
  return size_t(std::clamp(2 * tiles, kLeast, kMost)) * kSumsWords * sizeof(uint32_t);
}

bool gaussian_at_once(const RegionLaunch& l, const RegionArgs& args) {
  int64_t sums = 0;
  for (const Region& r : l.regions)
    sums += amounts_of(args, r, kEverywhere, is_wide(l.task.layout)).sums;
  return sums <= most_sums(l);
}

Status prepare_gaussian_regions(CudaQueue& queue, const RegionsTask& task) {
  (void)queue;
  VF_TRY(allow_shared(first_for(task.layout), first_shared(task.layout, kMostReach)));
  return allow_shared(second_for(task.layout), second_shared(kMostReach));
}

Status gaussian_regions(const RegionLaunch& l, RegionArgs args) {
  for (size_t begin = 0, end = 0; begin < l.regions.size(); begin = end) {
    int64_t sums = 0;
    for (; end < l.regions.size(); end++) {
      sums += amounts_of(args, l.regions[end], kEverywhere, is_wide(l.task.layout)).sums;
      if (sums > most_sums(l)) break;
    }
    if (begin < end)
      VF_TRY(blur(l, args, begin, end, kEverywhere));
    else
      VF_TRY(blur_in_parts(l, args, end++));
  }
  return {};
}

}  // namespace vf::cuda
