// Blurs 8 and 16-bit planes with kernels that are too long for gaussian_tensor.cuh, which keeps a
// window of blurred rows in registers. Two passes compute the same two products on tensor cores.
//
// Idea: the first pass writes its sums to device memory in the order of the second pass's
// fragments, so that both access whole lines of 512 bytes and nothing is rearranged. Weights are in
// shared memory, and one fragment of them serves all sums of a warp.
//
// Traffic: one read and one write of the frame and of the sums, which have two bytes per component,
// or four for more than 10 bits. The first pass reads halos from L2. The second reads them mostly
// from L1, because the warps of a block use each other's rows.
//
// Tile: the first pass has tiles of kWarps * 64 bytes (48 instead of 64 for three channels, 128 for
// pixels of 8 bytes) by 16 rows. The second pass has tiles of a warp's part of that width by
// kColumnWarps * kTall * 16 rows.
//
// Borders: the first pass makes rows outside the frame like all others, from the rows that the
// border shows. Source and destination may be the same.
#include <algorithm>

#include "cuda/gaussian/gaussian_tensor.cuh"

namespace vf::cuda {
namespace {

using namespace tensor;

constexpr int kWarps = 8;        // in a block of the first pass
constexpr int kColumnWarps = 4;  // in a block of the second
constexpr int kTall = 2;         // tiles of 16 rows that a warp of the second pass makes at once

struct TwoPassParams : Params {
  int columns;
  int chunks_x, chunks_y;  // odd, so that rows of tiles of sums start at multiples of 16
  uint4* sums;             // [row of tiles][column][part][sum][lane]
};

// The parts of a tile's shape that are the same for every window.
template <Depth kDepth, int kChannels>
using Strip = Tile<kDepth, kChannels, 2, kWarps>;

__host__ __device__ constexpr int reach_of(int chunks) {
  return 8 * (chunks - 1);
}

template <class T>
__host__ __device__ constexpr int row_pitch(int reach) {
  return T::apart(T::kWidth + 2 * reach * T::kPixelBytes, T::kPiece);
}

// Loads row y into shared memory as the border shows it, from `reach` pixels left of x0 on.
template <class T>
__device__ __forceinline__ void load_row(const TwoPassParams& p, uint8_t* to, int x0, int reach,
                                         int y, int lane) {
  constexpr int kBytes = T::kPixelBytes;
  const int first = (x0 - reach) * kBytes, bytes = T::kWidth + 2 * reach * kBytes;
  const int row = border_index(y, p.height, p.border);
  const auto outside = [&](int c) { return uint8_t(p.outside[c / 4] >> (8 * (c % 4))); };
  if (row < 0) {
    for (int i = lane; i < bytes; i += 32) to[i] = outside(i % kBytes);
    return;
  }
  const uint8_t* from = p.src + int64_t(row) * p.src_stride;
  const int left = max(0, -first), inside = min(p.row_bytes - first, bytes);
  for (int i = left + 16 * lane; i + 16 <= inside; i += 16 * 32)
    copy_async(shared_address(to + i), from + (first + i));
  for (int i = left + (inside - left) / 16 * 16 + lane; i < inside; i += 32)
    to[i] = from[first + i];
  const int pixels = bytes / kBytes, before = left / kBytes, end = inside / kBytes;
  for (int i = lane; i < before + pixels - end; i += 32) {
    const int pixel = i < before ? i : i - before + end;
    const int at = border_index(x0 - reach + pixel, p.width, p.border);
    for (int c = 0; c < kBytes; c++)
      to[pixel * kBytes + c] = at < 0 ? outside(c) : from[ptrdiff_t(at) * kBytes + c];
  }
}

template <Depth kDepth, int kChannels>
__global__ void __launch_bounds__(32 * kWarps, 2)
    blur_rows(const __grid_constant__ TwoPassParams p) {
#if __CUDA_ARCH__ >= 800
  using T = Strip<kDepth, kChannels>;
  constexpr int kParts = T::kParts;
  VF_DYNAMIC_SHARED(128, uint8_t, shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int fragments = p.chunks_x * kParts * 32, reach = reach_of(p.chunks_x);
  const int pitch = row_pitch<T>(reach);
  uint8_t* const rows = shared + fragments * int(sizeof(uint4));

  const int groups = (p.columns + kWarps - 1) / kWarps;
  const int tile = blockIdx.x / groups, group = blockIdx.x % groups;
  for (int i = threadIdx.x; i < fragments; i += 32 * kWarps)
    copy_async(reinterpret_cast<uint4*>(shared) + i, p.weights + i);
  const int y0 = kRows * tile - reach_of(p.chunks_y);
  for (int slot = warp; slot < kRows; slot += kWarps)
    load_row<T>(p, rows + slot * pitch, group * T::kPixels, reach, y0 + permuted(slot), lane);
  wait_all_copies();
  __syncthreads();
  const int column = group * kWarps + warp;
  if (column >= p.columns) return;

  float sums[2][T::kSums][4];  // each for half of the rows
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int s = 0; s < T::kSums; s++)
#pragma unroll
      for (float& v : sums[h][s]) v = p.start;
  uint32_t weights = shared_address(shared) + lane * uint32_t(sizeof(uint4));
  uint32_t at = shared_address(rows) + (lane >> 2) * pitch + warp * T::kWarpBytes +
                (lane & 3) * 4 * T::kPixelBytes;
#pragma unroll 1
  for (int j = 0; j < p.chunks_x; j++) {
    const uint4 a = load128(weights);
    uint4 rest;
    if constexpr (kParts == 2) rest = load128(weights + p.chunks_x * 512);
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int u = 0; u < T::kUnits; u++) {
        uint32_t b[kParts][kChannels][2];
        const uint32_t from = at + h * 8 * pitch + u * 16 * T::kPixelBytes;
        if constexpr (kDepth == Depth::bits8)
          load_pixels<kChannels>(from, b[0]);
        else
          load_wide_pixels<kDepth>(from, p, b);
#pragma unroll
        for (int c = 0; c < kChannels; c++) {
          auto& sum = sums[h][u * kChannels + c];
          multiply(sum, a, b[0][c][0], b[0][c][1]);
          if constexpr (kParts == 2) {
            multiply(sum, rest, b[0][c][0], b[0][c][1]);
            multiply(sum, a, b[1][c][0], b[1][c][1]);
          }
        }
      }
    weights += 512;
    at += 16 * T::kPixelBytes;
  }

  uint4* to = p.sums + (size_t(tile) * p.columns + column) * (kParts * T::kSums * 32) + lane;
#pragma unroll
  for (int s = 0; s < T::kSums; s++) {
    uint32_t words[2][2][kParts];  // half of the pixels, half of the rows
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        split(sums[h][s][2 * half], sums[h][s][2 * half + 1], words[half][h]);
#pragma unroll
    for (int part = 0; part < kParts; part++)
      to[(part * T::kSums + s) * 32] =
          make_uint4(words[0][0][part], words[0][1][part], words[1][0][part], words[1][1][part]);
  }
#endif
}

template <class T>
constexpr int kStripPitch = T::apart(T::kWarpBytes, T::kPiece);

template <Depth kDepth, int kChannels>
__global__ void __launch_bounds__(32 * kColumnWarps, 2)
    blur_columns(const __grid_constant__ TwoPassParams p) {
#if __CUDA_ARCH__ >= 800
  using T = Strip<kDepth, kChannels>;
  constexpr int kParts = T::kParts, kLoads = kParts * T::kSums;
  VF_DYNAMIC_SHARED(128, uint8_t, shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int fragments = p.chunks_y * kParts * 32;
  for (int i = threadIdx.x; i < fragments; i += 32 * kColumnWarps)
    copy_async(reinterpret_cast<uint4*>(shared) + i, p.weights + p.chunks_x * kParts * 32 + i);
  wait_all_copies();
  __syncthreads();

  const int column = blockIdx.x % p.columns;
  const int first = (int(blockIdx.x) / p.columns * kColumnWarps + warp) * kTall;
  if (first >= p.steps) return;
  const int last = p.steps + p.chunks_y - 2;  // row of tiles
  const auto load = [&](int tile, uint4(&to)[kLoads]) {
    const uint4* from =
        p.sums + (size_t(min(tile, last)) * p.columns + column) * (kLoads * 32) + lane;
#pragma unroll
    for (int i = 0; i < kLoads; i++) to[i] = from[i * 32];
  };

  float sums[kTall][T::kSums][2][4] = {};
  // The weights of each tile of the result for the current tile of sums.
  uint4 a[kTall] = {}, rest[kTall] = {};
  uint32_t weights = shared_address(shared) + lane * uint32_t(sizeof(uint4));
  uint4 next[kLoads];
  load(first, next);
#pragma unroll 1
  for (int j = 0; j < p.chunks_y + kTall - 1; j++) {
    uint4 tile[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; i++) tile[i] = next[i];
    load(first + j + 1, next);
#pragma unroll
    for (int r = kTall - 1; r > 0; r--) a[r] = a[r - 1], rest[r] = rest[r - 1];
    a[0] = rest[0] = make_uint4(0, 0, 0, 0);
    if (j < p.chunks_y) {
      a[0] = load128(weights);
      if constexpr (kParts == 2) rest[0] = load128(weights + p.chunks_y * 512);
    }
    weights += 512;
#pragma unroll
    for (int s = 0; s < T::kSums; s++)
#pragma unroll
      for (int r = 0; r < kTall; r++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          float(&sum)[4] = sums[r][s][half];
          const uint4& v = tile[s];
          const uint32_t b0 = half ? v.z : v.x, b1 = half ? v.w : v.y;
          multiply(sum, a[r], b0, b1);
          if constexpr (kParts == 2) {
            const uint4& w = tile[T::kSums + s];
            multiply(sum, rest[r], b0, b1);
            multiply(sum, a[r], half ? w.z : w.x, half ? w.w : w.y);
          }
        }
  }

  constexpr int kPitch = kStripPitch<T>, kVectors = T::kWarpBytes / 16;
  const uint32_t out =
      shared_address(shared) + fragments * uint32_t(sizeof(uint4)) + warp * (kRows * kPitch);
  const int x = column * T::kWarpBytes;
#pragma unroll
  for (int r = 0; r < kTall; r++) {
    const int y = kRows * (first + r);
    __syncwarp();
#pragma unroll
    for (int h = 0; h < 2; h++) {
      uint32_t codes[T::kSums][4];
#pragma unroll
      for (int s = 0; s < T::kSums; s++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          codes[s][e] = code_of<kDepth>(sums[r][s][e >> 1][2 * h + (e & 1)], p.scale);
      const uint32_t to = out + 8 * h * kPitch;
      put<kDepth, kChannels>(to + pixels_of_lane<T::kPixelBytes>(lane, kPitch),
                             to + matrix_of_lane(lane, kPitch), codes, p);
    }
    __syncwarp();
    const bool interior = !p.keeps && x + T::kWarpBytes <= p.row_bytes && y + kRows <= p.height;
    for (int i = lane; i < kRows * kVectors; i += 32) {
      const int slot = i / kVectors, at = x + 16 * (i % kVectors), row = y + permuted(slot);
      const uint4 v = load128(out + slot * kPitch + 16 * (i % kVectors));
      if (interior)
        *reinterpret_cast<uint4*>(p.dst + int64_t(row) * p.dst_stride + at) = v;
      else
        store_part<T::kPeriod>(p, at, row, v);
    }
  }
#endif
}

template <Depth kDepth, int kChannels>
class TwoPass final : public PlanePass {
  using T = Strip<kDepth, kChannels>;

 public:
  // Leaves fits() false if a block does not fit into the device's shared memory.
  Status prepare(CudaQueue& queue, const GaussianTask& task, int plane) {
    const GaussianPlane& g = task.plane[plane];
    const auto odd_chunks = [](size_t taps) { return 2 * ((int(taps) / 2 + 15) / 16) + 1; };
    const int chunks[] = {odd_chunks(g.weights_x.size()), odd_chunks(g.weights_y.size())};
    p_.chunks_x = chunks[0];
    p_.chunks_y = chunks[1];
    const size_t fragment = 32 * sizeof(uint4), tile = kRows * kStripPitch<T>;
    rows_shared_ = chunks[0] * T::kParts * fragment + kRows * row_pitch<T>(reach_of(chunks[0]));
    columns_shared_ = chunks[1] * T::kParts * fragment + kColumnWarps * tile;
    fits_ = std::max(rows_shared_, columns_shared_) <= size_t(queue.device().shared_per_block);
    if (!fits_) return {};
    VF_TRY(tensor::prepare(queue, task, plane, kDepth, chunks, &p_, &weights_));
    p_.columns = blocks_of(p_.row_bytes, T::kWarpBytes);
    VF_TRY(allow_shared(&blur_rows<kDepth, kChannels>, rows_shared_));
    return allow_shared(&blur_columns<kDepth, kChannels>, columns_shared_);
  }

  bool fits() const { return fits_; }
  bool takes(const PlaneView& view) const override { return tensor::takes(view); }
  bool in_place() const override { return true; }
  size_t scratch_bytes() const override {
    const size_t tiles = size_t(p_.steps + p_.chunks_y - 1) * p_.columns;
    return tiles * T::kParts * T::kSums * 32 * sizeof(uint4);
  }
  void set_scratch(void* scratch) override { p_.sums = static_cast<uint4*>(scratch); }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    const TwoPassParams p = with_view(p_, view);
    const auto rows = unsigned(blocks_of(p.columns, kWarps) * (p.steps + p.chunks_y - 1));
    const auto columns = unsigned(p.columns * blocks_of(p.steps, kColumnWarps * kTall));
    VF_TRY(launch("gaussian two-pass rows", &blur_rows<kDepth, kChannels>,
                  {rows, 32 * kWarps, rows_shared_}, queue, p));
    return launch("gaussian two-pass columns", &blur_columns<kDepth, kChannels>,
                  {columns, 32 * kColumnWarps, columns_shared_}, queue, p);
  }

 private:
  TwoPassParams p_ = {};
  Allocation weights_;
  size_t rows_shared_ = 0, columns_shared_ = 0;
  bool fits_ = false;
};

// Makes the pass of a plane that has one of these numbers of channels.
template <Depth kDepth, int... kChannels>
Status make_of(CudaQueue& queue, const GaussianTask& task, int plane,
               std::unique_ptr<PlanePass>* out) {
  Status status;
  const auto make = [&](auto channels) {
    if (task.layout.plane[plane].channels == channels)
      status = make_gaussian_pass<TwoPass<kDepth, channels>>(queue, task, plane, out);
  };
  (make(std::integral_constant<int, kChannels>()), ...);
  return status;
}

}  // namespace

Status make_gaussian_two_pass(CudaQueue& queue, const GaussianTask& task, int plane,
                              std::unique_ptr<PlanePass>* out) {
  constexpr int kShort = 33;  // up to this many taps, FP32 in one pass is as fast
  const GaussianPlane& g = task.plane[plane];
  Depth depth;
  if (!suits(queue, task, plane, &depth) ||
      (queue.kernel_limits().gaussian != KernelLimits::Gaussian::two_pass &&
       std::max(g.weights_x.size(), g.weights_y.size()) <= kShort))
    return {};
  if (depth == Depth::bits8) return make_of<Depth::bits8, 1, 2, 3, 4>(queue, task, plane, out);
  if (depth == Depth::bits10) return make_of<Depth::bits10, 1, 2>(queue, task, plane, out);
  return make_of<Depth::bits16, 1, 2, 4>(queue, task, plane, out);
}

}  // namespace vf::cuda
