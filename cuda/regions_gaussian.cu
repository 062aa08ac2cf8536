// Gaussian of regions, each with a sigma of its own: two matrix products on tensor cores.
//
// Idea     out = V (In H), with banded Toeplitz matrices H and V of weights, as in
//          gaussian_tensor.cuh: the first product is computed transposed, and its sums are the
//          fragments of the second as they are. A block makes one channel of a tile. It has all
//          rows that the tile sees in shared memory, or as many as fit at a time, as fp16; warps
//          take chunks of 16 rows in turn, and add their share of the result in the end. Weights
//          are made from sigma by each block.
// Precision  Codes are relative to the middle of their range. Weights are 256 times as large, so
//          that small ones are no subnormals. Weights and intermediates have two parts, the second
//          what the first's rounding leaves; so have components of more than 12 bits.
// Traffic  What the tiles see, which their neighbours see too, from L2; the tiles are written once.
// Tile     kSize x kSize samples, at multiples of that in the plane; of one that a region reaches
//          into only in part, the 16 x 16 pieces that it reaches into.
#include "cuda/gaussian_tensor.cuh"
#include "cuda/regions.cuh"

namespace vf::cuda {
namespace {

using tensor::half2_bits;
using tensor::split;

constexpr int kSize = 64, kPieces = kSize / 16;
using Grid = TileGrid<kSize, kSize>;
constexpr int kMostReach = 256;  // the largest radius, in whole chunks of 16
constexpr int kOutPitch = kSize + 2;
constexpr int kOutBytes = kSize * kOutPitch * int(sizeof(float));
constexpr float kScale = 256;  // of weights

struct GaussianArgs {
  RegionArgs r;
  int shared;  // bytes of dynamic memory
  int middle;  // code
  Border border;
  uint16_t outside[kMaxPlanes][kMaxChannels];  // codes
};

__host__ __device__ constexpr int reach_of(int radius) {
  return (radius + 15) / 16 * 16;
}
// Words of a row of halves, so that eight rows' words lie in different banks.
__host__ __device__ constexpr int pitch_of(int columns) {
  return columns / 2 + 4;
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
using WeightPairs = uint32_t[2][2 * kMostReach + 32];

__device__ void make_weights(float sigma, int radius, float* raw, WeightPairs& pairs) {
  for (int i = threadIdx.x; i <= radius; i += kRegionThreads)
    raw[i] = i == 0 ? 1 : gaussian_weight(sigma, i);
  __syncthreads();
  float sum = 0;
  for (int i = int(threadIdx.x) % 32; i <= radius; i += 32) sum += i == 0 ? raw[i] : 2 * raw[i];
  for (int with = 1; with < 32; with *= 2) sum += __shfl_xor_sync(~0u, sum, with);
  const int reach = reach_of(radius);
  const auto weight = [&](int i) {
    const int d = abs(i - reach - 16);
    return d <= radius ? kScale * raw[d] / sum : 0.f;
  };
  for (int i = threadIdx.x; i < 2 * reach + 32; i += kRegionThreads) {
    uint32_t parts[2];
    split(weight(i), weight(i + 1), parts);
    pairs[0][i] = parts[0];
    pairs[1][i] = parts[1];
  }
  __syncthreads();
}

// Chunk j of the weights, for a lane's row g and column t of a fragment.
__device__ __forceinline__ uint4 fragment(const uint32_t* pairs, int j, int g, int t) {
  const uint32_t* at = pairs + 16 * j + 16 + 2 * t - g;
  return make_uint4(at[0], at[-8], at[8], at[0]);
}

// What a block's rows in shared memory are of.
struct Window {
  int x, y;           // the sample at its top left
  int columns, rows;  // multiples of 16
};

// Eight samples of a channel, from x on in row y of the frame, or what the border shows there.
template <class T>
struct Samples {
  static constexpr int kMostWords = 8;
  uint32_t words[kMostWords];
  bool packed;  // as they lie in memory
};

template <class T>
__device__ __forceinline__ void load_samples(const GaussianArgs& p, const RegionPlane& l, int plane,
                                             int channel, int x, int y, Samples<T>* to) {
  const int bytes = l.step * int(sizeof(T));
  const int row = border_index(y, l.height, p.border);
  to->packed = l.aligned && (bytes == 1 || bytes == 2 || bytes == 4) && row >= 0 && x >= 0 &&
               x + 8 <= l.width;
  if (to->packed) {
    const uint8_t* at = l.src + ptrdiff_t(row) * l.src_stride + ptrdiff_t(x) * bytes;
    if (bytes == 1) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(at));
      to->words[0] = v.x, to->words[1] = v.y;
    } else {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(at));
      to->words[0] = v.x, to->words[1] = v.y, to->words[2] = v.z, to->words[3] = v.w;
      if (bytes == 4) {
        const uint4 w = __ldg(reinterpret_cast<const uint4*>(at) + 1);
        to->words[4] = w.x, to->words[5] = w.y, to->words[6] = w.z, to->words[7] = w.w;
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int column = row < 0 ? -1 : border_index(x + i, l.width, p.border);
    to->words[i] = column < 0 ? uint32_t(p.outside[plane][channel]) << p.r.shift
                              : sample_at<T>(l, column, row)[channel];
  }
}

// Component i of them.
template <class T>
__device__ __forceinline__ uint32_t sample_of(const Samples<T>& s, int i, int bytes, int channel) {
  if (!s.packed) return s.words[i];
  const int first = 8 * int(sizeof(T)) * channel;
  const uint32_t word = bytes == 1   ? s.words[i / 4] >> (8 * (i % 4))
                        : bytes == 2 ? s.words[i / 2] >> (16 * (i % 2) + first)
                                     : s.words[i] >> first;
  return word & uint32_t(T(~T(0)));
}

// Fills shared memory with rows of the window, as halves: `high`, and `low` where components have
// two parts.
template <class T, bool kWide>
__device__ __forceinline__ void load_rows(const GaussianArgs& p, const RegionPlane& l, int plane,
                                          int channel, const Window& w, int pitch, uint32_t* high,
                                          uint32_t* low) {
  constexpr int kBatch = 4;  // loads under way at once
  const int row_units = w.columns / 8, units = row_units * w.rows;
  const int bytes = l.step * int(sizeof(T));
  for (int first = threadIdx.x; first < units; first += kBatch * kRegionThreads) {
    Samples<T> s[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; k++) {
      const int unit = first + k * kRegionThreads;
      if (unit < units)
        load_samples<T>(p, l, plane, channel, w.x + unit % row_units * 8, w.y + unit / row_units,
                        &s[k]);
    }
#pragma unroll
    for (int k = 0; k < kBatch; k++) {
      const int unit = first + k * kRegionThreads;
      if (unit >= units) continue;
      uint32_t h[4], o[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int code[2];
#pragma unroll
        for (int e = 0; e < 2; e++)
          code[e] = int(sample_of<T>(s[k], 2 * i + e, bytes, channel) >> p.r.shift) - p.middle;
        if (kWide) {
          h[i] = half2_bits(float(code[0] & ~255), float(code[1] & ~255));
          o[i] = half2_bits(float(code[0] & 255), float(code[1] & 255));
        } else {
          h[i] = half2_bits(float(code[0]), float(code[1]));
        }
      }
      const int at = unit / row_units * pitch + unit % row_units * 4;
      *reinterpret_cast<uint4*>(high + at) = make_uint4(h[0], h[1], h[2], h[3]);
      if (kWide) *reinterpret_cast<uint4*>(low + at) = make_uint4(o[0], o[1], o[2], o[3]);
    }
  }
}

// Blurs the pieces from (x0, y0) to (x1, y1) of the tile at (x, y) to `out`, floats relative to the
// middle code, in rows of kOutPitch.
struct Pieces {
  int x0, y0, x1, y1;
};
template <class T, bool kWide>
__device__ __forceinline__ void blur_tile(const GaussianArgs& p, const RegionPlane& l, int plane,
                                          int channel, int x, int y, const Pieces& q,
                                          const WeightPairs& wx, const WeightPairs& wy, int reach_x,
                                          int reach_y, uint32_t* shared, float* out) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const int piece = warp % kPieces, share = warp / kPieces;
  const int chunks_x = 2 * reach_x / 16 + 1, chunks_y = 2 * reach_y / 16 + 1;
  Window w = {x + 16 * q.x0 - reach_x, 0, 16 * (q.x1 - q.x0) + 2 * reach_x, 0};
  const int pitch = pitch_of(w.columns);
  // Chunks of rows: chunk c starts at row y + 16 c - reach_y.
  const int end = q.y1 + chunks_y - 1;
  const int held = max(1, p.shared / (16 * pitch * 4 * (kWide ? 2 : 1)));
  float sums[kPieces][2][4] = {};
  for (int from = q.y0; from < end; from += held) {
    const int to = min(from + held, end);
    w.y = y + 16 * from - reach_y;
    w.rows = 16 * (to - from);
    uint32_t* const low = shared + w.rows * pitch;
    __syncthreads();  // what was there has been used
    load_rows<T, kWide>(p, l, plane, channel, w, pitch, shared, low);
    __syncthreads();
    if (piece < q.x0 || piece >= q.x1) continue;
    for (int c = from + (from + share) % 2; c < to; c += 2) {
      // The rows' sums: of 16 columns each, for 8 rows and the next 8.
      float h[2][4] = {};
      const int at = (16 * (c - from) + g) * pitch + 8 * (piece - q.x0) + t;
      for (int j = 0; j < chunks_x; j++) {
        const uint4 a = fragment(wx[0], j, g, t);
        const uint4 rest = fragment(wx[1], j, g, t);
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const uint32_t* b = shared + at + half * 8 * pitch + 8 * j;
          add_product(h[half], a, b[0], b[4]);
          add_product(h[half], rest, b[0], b[4]);
          if (kWide) {
            b = low + at + half * 8 * pitch + 8 * j;
            add_product(h[half], a, b[0], b[4]);
          }
        }
      }
      // Those of a lane's column, and of the one 8 columns on.
      uint32_t b[2][2][2];  // column, half of the rows, part
#pragma unroll
      for (int n = 0; n < 2; n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
          split(h[half][2 * n] * (1 / kScale), h[half][2 * n + 1] * (1 / kScale), b[n][half]);
#pragma unroll
      for (int r = 0; r < kPieces; r++) {
        const int j = c - r;
        if (j < 0 || j >= chunks_y || r < q.y0 || r >= q.y1) continue;
        const uint4 a = fragment(wy[0], j, g, t);
        const uint4 rest = fragment(wy[1], j, g, t);
#pragma unroll
        for (int n = 0; n < 2; n++) {
          add_product(sums[r][n], a, b[n][0][0], b[n][1][0]);
          add_product(sums[r][n], rest, b[n][0][0], b[n][1][0]);
          add_product(sums[r][n], a, b[n][0][1], b[n][1][1]);
        }
      }
    }
  }
  // Both shares.
  for (int turn = 0; turn < 2; turn++) {
    __syncthreads();
    if (share != turn) continue;
#pragma unroll
    for (int r = 0; r < kPieces; r++)
#pragma unroll
      for (int n = 0; n < 2; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          float* to =
              out + (16 * r + g + e / 2 * 8) * kOutPitch + 16 * piece + 8 * n + 2 * t + e % 2;
          const float sum = sums[r][n][e] * (1 / kScale);
          *to = turn ? *to + sum : sum;
        }
  }
  __syncthreads();
}

__host__ __device__ __forceinline__ int tiles_of(const Region& r, const RegionPlane& l) {
  const PlaneRect rect = rect_in(l, r);
  int channels = 0;
  for (int c = 0; c < l.channels; c++) channels += l.mask >> c & 1;
  return Grid::columns(rect) * Grid::rows(rect) * channels;
}

template <class T, bool kWide>
__global__ void __launch_bounds__(kRegionThreads, 2)
    gaussian_tiles(const __grid_constant__ GaussianArgs p) {
  using Raw = float[kMostReach];
  VF_SHARED(Rivals, rivals);
  VF_SHARED(Raw, raw);
  VF_SHARED(WeightPairs, wx);
  VF_SHARED(WeightPairs, wy);
  VF_DYNAMIC_SHARED(16, uint32_t, shared);
  let_next_start();
  const RegionTile t =
      find_tile(p.r, &rivals, [](const Region& r, const RegionPlane& l) { return tiles_of(r, l); });
  const RegionPlane& l = p.r.plane[t.plane];
  const Region& region = region_of(p.r, t.region);
  const PlaneRect all = rect_in(l, region);
  const int tiles = Grid::columns(all) * Grid::rows(all);
  int channel = 0;
  for (int left = t.index / tiles;; channel++)
    if (l.mask >> channel & 1 && left-- == 0) break;
  int x, y;
  const PlaneRect rect = Grid::tile(all, t.index % tiles, &x, &y);
  find_rivals(p.r, t, rect, &rivals);
  if (rivals.covered) return;

  const int rx = region.radius_x[l.sub_x], ry = region.radius_y[l.sub_y];
  make_weights(region.sigma_x / float(1 << l.sub_x), rx, raw, wx);
  make_weights(region.sigma_y / float(1 << l.sub_y), ry, raw, wy);
  const int reach_x = reach_of(rx), reach_y = reach_of(ry);
  const Pieces pieces = {(rect.x0 - x) / 16, (rect.y0 - y) / 16, (rect.x1 - 1 - x) / 16 + 1,
                         (rect.y1 - 1 - y) / 16 + 1};
  float* const out = reinterpret_cast<float*>(shared);
  blur_tile<T, kWide>(p, l, t.plane, channel, x, y, pieces, wx, wy, reach_x, reach_y, shared, out);

  const float most = float(uint32_t(T(~T(0))) >> p.r.shift);
  for (int i = threadIdx.x; i < kSize * kSize; i += kRegionThreads) {
    const int sx = x + i % kSize, sy = y + i / kSize;
    if (sx < rect.x0 || sx >= rect.x1 || sy < rect.y0 || sy >= rect.y1) continue;
    const int weight = own_weight(p.r, t, rivals, sx, sy);
    if (weight < 0) continue;
    const float sum = out[i / kSize * kOutPitch + i % kSize] + float(p.middle);
    const int code = int(fminf(fmaxf(floorf(sum + 0.5f), 0), most));
    const T from = sample_at<T>(l, sx, sy)[channel];
    result_at<T>(l, sx, sy)[channel] = T(blend(from, code << p.r.shift, weight, p.r.shift));
  }
}

// Whether components have more bits than one half holds.
bool is_wide(const Layout& layout) {
  return middle_code(layout) > 2048;
}

const auto kernel_for = [](const Layout& layout) {
  return layout.type == Type::u8 ? &gaussian_tiles<uint8_t, false>
         : is_wide(layout)       ? &gaussian_tiles<uint16_t, true>
                                 : &gaussian_tiles<uint16_t, false>;
};

// The most dynamic shared memory a block may have: two blocks of a multiprocessor fit where it has
// 200 KiB.
int most_shared(const Device& device) {
  constexpr int kStatic = 14 << 10, kSensible = 84 << 10;
  return std::min(device.shared_per_block - kStatic, kSensible);
}

}  // namespace

Status prepare_gaussian_regions(CudaQueue& queue, const RegionsTask& task) {
  return allow_shared(kernel_for(task.layout), size_t(most_shared(queue.device())));
}

Status gaussian_regions(const RegionLaunch& l, RegionArgs args) {
  const Layout& layout = l.task.layout;
  const GaussianParams& params = std::get<RegionGaussian>(l.task.filter).params;
  GaussianArgs g = {};
  const int64_t blocks =
      count_tiles(args, l.regions, l.first,
                  [](const Region& r, const RegionPlane& plane) { return tiles_of(r, plane); });
  if (blocks < 0) return too_many_tiles();
  if (blocks == 0) return {};
  VF_TRY(set_regions(l.queue, l.regions, *l.first, l.list, &args));
  g.r = args;
  g.middle = middle_code(layout);
  g.border = params.border;
  for (int p = 0; p < layout.planes; p++)
    for (int c = 0; c < layout.plane[p].channels; c++)
      g.outside[p][c] = params.border == Border::constant
                            ? uint16_t(std::lrint(params.border_value[p][c]))
                            : uint16_t(0);
  // What the largest tile needs.
  int need = kOutBytes;
  for (const Region& r : l.regions)
    for (int p = 0; p < layout.planes; p++) {
      const int columns = kSize + 2 * reach_of(r.radius_x[layout.plane[p].sub_x]);
      const int rows = kSize + 2 * reach_of(r.radius_y[layout.plane[p].sub_y]);
      need = std::max(need, rows * pitch_of(columns) * 4 * (is_wide(layout) ? 2 : 1));
    }
  g.shared = std::min(need, most_shared(l.queue.device()));
  return launch("gaussian of regions", kernel_for(layout),
                {unsigned(blocks), kRegionThreads, size_t(g.shared)}, l.queue.cuda_stream(), g);
}

}  // namespace vf::cuda
