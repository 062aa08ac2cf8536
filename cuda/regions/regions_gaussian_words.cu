// Blurs regions of 16-bit components, in two passes of fp16 products on tensor cores.
//
// Idea     The passes compute out = V (In H), with banded Toeplitz matrices H and V of weights, as
//          in gaussian_two_pass.cu. The first pass is computed transposed, and leaves its sums in
//          device memory as fragments of the second pass. So all reads of the frame come before the
//          first write, and regions in place need no copy. Each block makes the weights from sigma
//          while it waits for its samples or sums.
// Precision  Codes are relative to the middle of their range. Weights are multiplied by 256, so
//          that small ones are no subnormals. Weights and intermediates have two parts: the second
//          part is what the rounding of the first leaves. Components of more than 10 bits have two
//          parts as well.
// Traffic  The regions and their halos are read one and a half times, and the regions are written
//          once. The sums go through L2: four bytes for each component of the regions and of the
//          rows of their halos.
// Tile     A block of the first pass has 64 columns of 32 rows, or of 16 rows if components have
//          two parts. A block of the second pass has 16 columns of 128 rows. Tiles start at
//          multiples of 16 columns, and at the region's first row. A warp makes one channel of 16
//          columns.
#include "cuda/gaussian/gaussian_tensor.cuh"
#include "cuda/regions/regions_gaussian.cuh"

namespace vf::cuda {
namespace {

using tensor::half2_bits;
using tensor::split;

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr float kScale = 256;  // factor of weights

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
__device__ __forceinline__ float2 floats_of(uint32_t halves) {
  return __half22float2(reinterpret_cast<const __half2&>(halves));
}
#endif

// Adds a b to sums, as multiply() does. Before compute capability 8.0, tensor cores have no product
// of this size, and lanes exchange their parts of the matrices.
__device__ __forceinline__ void add_product(float (&sums)[4], const uint4& a, uint32_t b0,
                                            uint32_t b1) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  multiply(sums, a, b0, b1);
#else
  const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  for (int k = 0; k < 4; k++) {
    // Rows of `a` at columns 2k, 2k + 1, 2k + 8 and 2k + 9 times these rows of `b`.
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

// Holds weights as the fragments of a Toeplitz matrix. Entry i has the weights at the distances
// i - reach - 16 and i - reach - 15 as halves. [1] has what the rounding of [0] leaves.
constexpr int kWeightPairs = 2 * kMaxReach + 32;
using WeightPairs = uint32_t[2][kWeightPairs];

// Returns a lane's fragments along the band. Each shares a part with the previous one.
class Band {
 public:
  // g and t are a lane's row and column of a fragment.
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

// Stores the sums of a warp as the second pass loads them, for kParts times eight rows from tile
// `row` on: a lane's column and the one 8 columns on, each for 8 rows and the next 8.
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
    uint4* const to = p.sums + lane + (work.sums + column * slab.sum_rows + row + i) * kTile;
#pragma unroll
    for (int part = 0; part < 2; part++)
      to[32 * part] = make_uint4(v[0][0][part], v[0][1][part], v[1][0][part], v[1][1][part]);
  }
}

// The kind of passes for blur_columns.
struct Words {
  using Sample = uint16_t;
  using Weights = WeightPairs;
  static constexpr bool kAllChannels = false;
  static constexpr int kRows = 16, kReachUnit = 16, kFirstWarps = kWarps, kSpare = 0;
  static constexpr int kFirstTall = 2, kSecondTall = 2;

  // All threads call it, and wait for each other before they use the weights.
  template <int kWarps>
  static __device__ __forceinline__ void make_weights(float sigma, int radius, int reach,
                                                      WeightPairs& pairs) {
    const Bell bell = make_bell(sigma, radius);
    const float scale = __fdividef(kScale, sum_of(bell, radius));
    const auto weight = [&](int i) {
      const int d = abs(i - reach - 16);
      return d <= radius ? scale * bell(d) : 0.f;
    };
#pragma unroll 1
    for (int i = threadIdx.x; i < 2 * reach + 32; i += kThreads) {
      uint32_t parts[2];
      split(weight(i), weight(i + 1), parts);
      pairs[0][i] = parts[0];
      pairs[1][i] = parts[1];
    }
  }

  static __device__ __forceinline__ void products(const GaussianArgs& p, const Weights& weights,
                                                  const uint4* tiles, int chunks, int tall,
                                                  uint32_t (&codes)[4][4]) {
    constexpr int kTall = kSecondTall;
    const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
    float out[kTall][2][4] = {};
    Band high(weights[0], g, t), low(weights[1], g, t);
    uint4 a[kTall], rest[kTall];
#pragma unroll 1
    for (int c = 0; c < chunks + tall - 1; c++, tiles += kTile) {
#pragma unroll
      for (int r = kTall - 1; r > 0; r--) a[r] = a[r - 1], rest[r] = rest[r - 1];
      if (c < chunks) a[0] = high.next(), rest[0] = low.next();
      const uint4 b = tiles[0], b_low = tiles[32];
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
    // Halves round up, even if rounding made the sum a little smaller: the addition of the middle
    // rounds that away. Weights add up to 1, so that no code is out of range.
    const float middle = float(p.middle) + 0.5f;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int n = 0; n < 4; n++) {
        const float sum = out[i / 2][n / 2][i % 2 * 2 + n % 2];
        codes[i][n] = uint16_t(uint32_t(sum * (1 / kScale) + middle) << p.r.shift);
      }
  }

  static __device__ __forceinline__ uint32_t pack(const uint32_t* v) {
    return v[0] | v[1] << 16;
  }
};
// Samples in two parts need more registers: a warp of the first pass has 16 rows instead of 32.
struct WideWords : Words {
  static constexpr int kFirstTall = 1;
};

// ---- the first pass ----------------------------------------------------------------------------

// Holds a lane's samples in 16 columns of a row: four samples that follow each other in memory,
// kBytes apart. With kBytes of 0 they were loaded one by one, and a word holds the codes of two.
template <int kBytes>
struct Four {
  uint32_t words[kBytes ? kBytes : 2];
};

// Loads a channel's codes one by one, at the frame's edges and where they do not lie in words.
VF_NOINLINE __device__ uint2 load_one_by_one(const GaussianArgs& p, const RegionPlane& l,
                                             uint32_t outside, int channel, int x, int y) {
  uint32_t words[2];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int column = y < 0 ? -1 : border_index(x + i, l.width, p.border);
    const uint32_t code =
        column < 0 ? outside << p.r.shift : sample_at<uint16_t>(l, column, y)[channel];
    words[i / 2] = i % 2 ? words[i / 2] | code << 16 : code;
  }
  return make_uint2(words[0], words[1]);
}

// Loads four samples from column x on of row y. A row of -1 is outside.
template <int kBytes>
__device__ __forceinline__ Four<kBytes> load_four(const GaussianArgs& p, const Work& work, int x,
                                                  int y) {
  const RegionPlane& l = p.r.plane[work.plane];
  const uint8_t* const at = l.src + (ptrdiff_t(y) * l.src_stride + ptrdiff_t(x) * kBytes);
  Four<kBytes> v;
  if constexpr (kBytes == 0) {
    const uint2 in = load_one_by_one(p, l, p.outside[work.plane][work.channel], work.channel, x, y);
    v.words[0] = in.x, v.words[1] = in.y;
  } else if constexpr (kBytes == 2) {
    const uint2 in = __ldg(reinterpret_cast<const uint2*>(at));
    v.words[0] = in.x, v.words[1] = in.y;
  } else {
    const uint4 in = __ldg(reinterpret_cast<const uint4*>(at));
    v.words[0] = in.x, v.words[1] = in.y, v.words[2] = in.z, v.words[3] = in.w;
  }
  return v;
}

// Returns the codes of one channel of the samples, two in a word. `selector` chooses its bytes.
template <int kBytes>
__device__ __forceinline__ uint2 codes_of(const Four<kBytes>& v, uint32_t selector) {
  if constexpr (kBytes != 4)
    return make_uint2(v.words[0], v.words[1]);
  else
    return make_uint2(__byte_perm(v.words[0], v.words[1], selector),
                      __byte_perm(v.words[2], v.words[3], selector));
}

// Adds the horizontal sums of 16 columns and kParts times eight rows. Column x is that of the first
// tap of the first sum, and `rows` are a lane's rows of the frame. Calls `meanwhile` while samples
// are being loaded. Codes of up to 10 bits become the last bits of an fp16 from 1024 on, and 1024
// and the middle are subtracted: sums of codes near the middle are then exact. Larger codes are
// split into bytes. The bits of a byte, read as an fp16, are 2^-24 of its value, and high bytes are
// multiplied by 256.
template <bool kWide, int kBytes, int kParts, class Meanwhile>
__device__ __forceinline__ void add_columns(const GaussianArgs& p, const Work& work, int x,
                                            int chunks, const int (&rows)[kParts],
                                            const WeightPairs& weights, float (&sums)[kParts][4],
                                            const Meanwhile& meanwhile) {
  // Chunks of 16 columns that are loaded at once: as many as registers hold.
  constexpr int kBatch = kBytes == 2 ? 5 : kBytes == 4 ? 2 : 1;
  constexpr uint32_t k256 = 0x5c005c00, k1024 = 0x64006400;  // as halves
  const uint32_t offset = k1024 + uint32_t(p.middle) * 0x00010001u;
  const int lane = int(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const uint32_t selector = 0x5410 + 0x2222 * uint32_t(work.channel);
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
          v[k][i] = load_four<kBytes>(p, work, x + 16 * (first + k) + 4 * t, rows[i]);
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
        uint2 b = codes_of(v[k][i], selector);
        b = make_uint2(b.x >> p.r.shift & mask, b.y >> p.r.shift & mask);
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

template <class K>
__global__ void __launch_bounds__(kThreads, 5)
    blur_word_rows(const __grid_constant__ GaussianArgs p) {
  constexpr bool kWide = std::is_same_v<K, WideWords>;
  constexpr int kBlockRows = K::kRows * K::kFirstTall, kParts = kBlockRows / 8;
  constexpr float kUnit = kWide ? 0x1p-24f * kScale : kScale;  // unit of the sums
  VF_SHARED(WeightPairs, weights);
  let_next_start();
  Region region;
  Slab slab;
  const Work work = find_work<K, 0>(p, &region, &slab);
  const RegionPlane& l = p.r.plane[work.plane];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, g = lane / 4;
  const int bands = first_bands<K>(slab), across = quotient(work.index, bands);
  const int first_column = across * work.start.wide;
  const int column = warp < work.start.wide ? first_column + warp : slab.columns;
  const int row = (work.index - across * bands) * K::kFirstTall;
  const int left = slab.x - slab.reach_x, top = slab.rect.y0 + 16 * row - slab.reach_y;
  const int chunks = slab.reach_x / 8 + 1;
  // Whether all samples that the block reads lie in whole words of the frame.
  const bool inside =
      l.aligned && left + 16 * first_column >= 0 &&
      left + 16 * (min(first_column + work.start.wide, slab.columns) - 1 + chunks) <= l.width &&
      (p.border != Border::constant || (top >= 0 && top + kBlockRows <= l.height));
  int rows[kParts];
#pragma unroll
  for (int i = 0; i < kParts; i++) rows[i] = border_index(top + 8 * i + g, l.height, p.border);
  float sums[kParts][4];
#pragma unroll
  for (int i = 0; i < kParts; i++)
#pragma unroll
    for (float& v : sums[i]) v = kWide ? float(p.middle) * -kUnit : 0;
  if (!p.r.after_copy) wait_for_previous();
  const auto make = [&] {
    K::template make_weights<kWarps>(sigma_in(region.sigma_x, l.sub_x), work.start.radius_x,
                                     slab.reach_x, weights);
    __syncthreads();
  };
  const auto add = [&](auto bytes) {
    // A warp without a column helps to make the weights.
    add_columns<kWide, decltype(bytes)::value>(
        p, work, left + 16 * column, column < slab.columns ? chunks : 0, rows, weights, sums, make);
  };
  switch (inside ? l.step : 0) {
    case 1:
      add(std::integral_constant<int, 2>());
      break;
    case 2:
      add(std::integral_constant<int, 4>());
      break;
    default:
      add(std::integral_constant<int, 0>());
      break;
  }
  if (column < slab.columns) store_sums(p, work, slab, column, row, 1 / kUnit, sums);
  end_after_previous();
}

size_t first_shared(const Layout&, int) {
  return 0;
}

}  // namespace

GaussianPasses gaussian_word_passes(const Layout& layout) {
  const bool wide = is_wide(layout);
  const auto first = wide ? &blur_word_rows<WideWords> : &blur_word_rows<Words>;
  return {{first, first},
          &blur_columns<Words>,
          kThreads,
          32 * kSecondWarps,
          wide ? gaussian_work<WideWords> : gaussian_work<Words>,
          first_shared,
          second_shared<Words>};
}

}  // namespace vf::cuda
