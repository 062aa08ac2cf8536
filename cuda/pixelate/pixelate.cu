// Replaces each block of a plane by its mean. This file has two kinds of kernels, for frames that
// neither pixelate_strips.cu nor pixelate_narrow.cu takes.
//
// Whole blocks (pixelate_blocks), for integers whose images are aligned to 16 bytes:
//   Idea     A thread adds up the columns of a vector of 16 bytes, down its rows, in registers. The
//            threads of a block add their columns in shared memory. The means form a row of vectors
//            there, which is copied to every row of the block.
//   Traffic  Each byte is read once and written once. If a channel is left out, its values are read
//            again from L2 and written beside the means. Each plane takes one launch, also in
//            place. Planes that are not filtered in place run side by side from compute capability
//            9.0 on.
//   Tile     A tile is as wide as the blocks that fit in a warp's row of vectors (512 bytes), or as
//            one block that is wider. 1, 2, 4 or all 8 warps share the rows of a block. With fewer
//            warps per block, the tile has more blocks one below the other.
//   Bands    If that makes too few tiles with too many rows, rows of blocks are divided into bands:
//            a first launch leaves the sums of each band, a second one adds and writes them.
// Cells (pixelate_cells), for everything else: floats, pixels that lie apart, images that are not
// aligned.
//   Idea     A thread adds up one component's column of a cell (filters/pixelate.h). Another one
//            adds the columns of the cell from left to right, so that floats are added in the
//            promised order. If each block is one cell, the means are written at once. Otherwise
//            the sums of cells go to memory, and a second launch adds and writes them.
//   Traffic  It is the same as above for blocks of one cell. Other blocks also take 8 bytes per
//            cell and channel, twice or more often.
//   Tile     A tile is a row of cells with 256 columns in all.
#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/core/plane_plan.h"
#include "cuda/pixelate/pixelate.h"
#include "cuda/pixelate/pixelate_vectors.cuh"

namespace vf::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps;

// ---- whole blocks ------------------------------------------------------------------------------

// Rows that a warp should have, because it has so many loads under way at once.
constexpr int kRowsPerWarp = 8;
// With fewer tiles for each multiprocessor, rows of blocks are divided into kManyTiles.
constexpr int kFewTiles = 2, kManyTiles = 4;

struct BlocksArgs {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  BlockAxis x, y;
  int tiles_x, across;  // tiles in a row of them; blocks of a tile, side by side
  int warps, lanes;     // warps that share the rows of a block; lanes that share its columns
  int bands;            // bands of a block's rows, one for each tile
  uint64_t* sums;       // by row of blocks, band, block, channel
  int shift;
  uint8_t mask;
  bool overlaps;  // may run at the same time as the previous launch
};

// The number of vectors in a row of a tile. They hold whole pixels, so that a component of a lane's
// vector has the same channel in every vector of a wide block.
template <int kChannels>
constexpr int kTileVectors = kChannels == 3 ? 30 : 32;

// Adds up a lane's vectors of components x0 to x1 down every p.warps-th of the rows y0 to y1.
template <class T, int kVectors>
__device__ __forceinline__ void add_columns(const BlocksArgs& p, int x0, int x1, int y0, int y1,
                                            int lane, uint32_t (&sums)[kComponents<T>]) {
  constexpr int kN = kComponents<T>;
  const int v0 = x0 / kN, v1 = (x1 + kN - 1) / kN;
  for (int v = v0 + lane; v < v1; v += kVectors) {
    const ptrdiff_t at = ptrdiff_t(v) * 16;
    if (v * kN >= x0 && (v + 1) * kN <= x1) {
#pragma unroll 8
      for (int y = y0; y < y1; y += p.warps) {
        Vector<T> in;
        in.all = *reinterpret_cast<const uint4*>(p.src + y * p.src_stride + at);
#pragma unroll
        for (int i = 0; i < kN; i++) sums[i] += in.component[i];
      }
    } else {
      for (int y = y0; y < y1; y += p.warps) {
        const T* in = reinterpret_cast<const T*>(p.src + y * p.src_stride + at);
#pragma unroll
        for (int i = 0; i < kN; i++)
          if (v * kN + i >= x0 && v * kN + i < x1) sums[i] += in[i];
      }
    }
  }
}

template <class T, int kChannels, bool kKeeps, Step kStep>
__global__ void __launch_bounds__(kThreads) pixelate_blocks(const __grid_constant__ BlocksArgs p) {
  constexpr int kN = kComponents<T>, kVectors = kTileVectors<kChannels>;
  // Component i of vector v at [i][v], so that lanes meet different banks.
  using Columns = uint32_t[kWarps][kN][33];
  using Means = T[kWarps][32 * kN];
  VF_SHARED(Columns, columns);
  VF_SHARED_ALIGNED(16, Means, means);
  let_next_start();

  const int bands = kStep == Step::all ? 1 : p.bands;
  const int tile_x = int(blockIdx.x) % p.tiles_x, tile_row = int(blockIdx.x) / p.tiles_x;
  const int tile_y = tile_row / bands, band = tile_row % bands;
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int down = kWarps / p.warps;  // blocks of the tile below each other
  const int b0 = tile_x * p.across, b1 = min(b0 + p.across, p.x.count);
  // Components from x0 to x1, and the vectors that they lie in.
  const int x0 = p.x.edge(b0) * kChannels, x1 = p.x.edge(b1) * kChannels;
  const int v0 = x0 / kN, v1 = (x1 + kN - 1) / kN;
  // These are this warp's block and its rows in it.
  const int own = warp / p.warps, block_y = tile_y * down + own;
  int y0 = 0, y1 = 0;
  if (block_y < p.y.count && lane < kVectors) {
    const int top = p.y.edge(block_y), rows = p.y.edge(block_y + 1) - top;
    y0 = top + rows * band / bands + warp % p.warps;
    y1 = top + rows * (band + 1) / bands;
  }

  if (kStep == Step::means) {
    wait_for_previous();
  } else {
    for (int i = threadIdx.x; i < kWarps * kN * 33; i += kThreads) (&columns[0][0][0])[i] = 0;
    __syncthreads();
    uint32_t sums[kN] = {};
    add_columns<T, kVectors>(p, x0, x1, y0, y1, lane, sums);
    if (y0 < y1) {
#pragma unroll
      for (int i = 0; i < kN; i++) atomicAdd(&columns[own][i][lane], sums[i]);
    }
    __syncthreads();
  }

  // The columns of a block and channel, by lanes that lie side by side.
  const int items = down * p.across * kChannels, groups = kThreads / p.lanes;
  const int member = int(threadIdx.x) % p.lanes;
  for (int first = 0; first < items; first += groups) {
    const int item = first + int(threadIdx.x) / p.lanes;
    const int channel = item % kChannels, pair = item / kChannels;
    const int row = pair / p.across, b = b0 + pair % p.across, by = tile_y * down + row;
    const bool valid = item < items && b < b1 && by < p.y.count;
    int begin = 0, end = 0;
    if (valid && p.across > 1) {
      begin = p.x.edge(b) * kChannels + channel - v0 * kN;
      end = p.x.edge(b + 1) * kChannels - v0 * kN;
    } else if (valid) {
      // The columns of a wide block are folded onto the same vectors. The rest is 0.
      begin = (channel + kChannels - v0 * kN % kChannels) % kChannels;
      end = kVectors * kN;
    }
    const auto sums_of = [&](int in) {
      return p.sums + ((int64_t(by) * bands + in) * p.x.count + b) * kChannels + channel;
    };
    uint64_t sum = 0;
    if (kStep != Step::means)
      for (int i = begin + member * kChannels; i < end; i += p.lanes * kChannels)
        sum += columns[row][i % kN][i / kN];
    else if (valid)
      for (int i = member; i < bands; i += p.lanes) sum += *sums_of(i);
    for (int with = 1; with < p.lanes; with *= 2) sum += __shfl_xor_sync(~0u, sum, with);
    if (!valid) continue;
    if (kStep == Step::sums) {
      if (member == 0) *sums_of(band) = sum;
      continue;
    }
    const uint64_t count =
        uint64_t(p.x.edge(b + 1) - p.x.edge(b)) * uint64_t(p.y.edge(by + 1) - p.y.edge(by));
    const T mean = block_mean<T>(sum, count, p.shift);
    for (int i = begin + member * kChannels; i < end; i += p.lanes * kChannels)
      means[row][i] = mean;
  }
  if (kStep == Step::sums) return;
  __syncthreads();

  Vector<T> out, keep;
  out.all = *reinterpret_cast<const uint4*>(&means[own][lane * kN]);
#pragma unroll
  for (int i = 0; i < kN; i++) {
    const bool kept = kKeeps && !(p.mask >> (((v0 + lane) * kN + i) % kChannels) & 1);
    keep.component[i] = kept ? T(~T(0)) : T(0);
    if (kept) out.component[i] = 0;
  }
  for (int v = v0 + lane; v < v1; v += kVectors) {
    const ptrdiff_t at = ptrdiff_t(v) * 16;
    if (v * kN >= x0 && (v + 1) * kN <= x1) {
      for (int y = y0; y < y1; y += p.warps) {
        uint4 all = out.all;
        if (kKeeps) {
          const uint4 in = *reinterpret_cast<const uint4*>(p.src + y * p.src_stride + at);
          all.x |= in.x & keep.all.x;
          all.y |= in.y & keep.all.y;
          all.z |= in.z & keep.all.z;
          all.w |= in.w & keep.all.w;
        }
        *reinterpret_cast<uint4*>(p.dst + y * p.dst_stride + at) = all;
      }
    } else {
      for (int y = y0; y < y1; y += p.warps) {
        const T* in = reinterpret_cast<const T*>(p.src + y * p.src_stride + at);
        T* to = reinterpret_cast<T*>(p.dst + y * p.dst_stride + at);
#pragma unroll
        for (int i = 0; i < kN; i++)
          if (v * kN + i >= x0 && v * kN + i < x1)
            to[i] = kKeeps && keep.component[i] ? in[i] : out.component[i];
      }
    }
  }
  if (p.overlaps) end_after_previous();
}

template <class T, int kChannels>
class BlocksPass final : public PlanePass {
 public:
  BlocksPass(CudaQueue& queue, const PixelateTask& task, int index) {
    const PixelatePlane& plane = task.plane[index];
    args_.x = plane.x;
    args_.y = plane.y;
    args_.shift = task.layout.shift;
    args_.mask = plane.channels;
    keeps_ = plane.channels != (1 << kChannels) - 1;
    overlaps_ = queue.device().starts_early();
    // The first and the last vector may hold components of other tiles.
    constexpr int kN = kComponents<T>, components = kTileVectors<kChannels> * kN - 2 * (kN - 1);
    const int wide = plane.x.maximum() * kChannels, high = plane.y.maximum();
    args_.across = std::clamp(components / wide, 1, plane.x.count);
    args_.tiles_x = blocks_of(plane.x.count, args_.across);
    const auto tiles = [&] {
      const int down = kWarps / args_.warps;
      return int64_t(args_.tiles_x) * blocks_of(plane.y.count, down);
    };
    args_.warps = 1;
    // If multiprocessors would be idle otherwise, more warps share a block.
    while (args_.warps < kWarps && args_.warps < high &&
           (high > kRowsPerWarp * args_.warps || tiles() < 2 * queue.device().processors))
      args_.warps *= 2;
    args_.lanes = 1;
    while (args_.lanes < 32 && 4 * args_.lanes <= plane.x.maximum()) args_.lanes *= 2;
    args_.bands = 1;
    if (high > kWarps * kRowsPerWarp && tiles() < kFewTiles * queue.device().processors)
      args_.bands =
          std::clamp(int(kManyTiles * queue.device().processors / tiles()), 1, high / kWarps);
    blocks_ = tiles() * args_.bands;
    if (args_.bands > 1)
      scratch_ = sizeof(uint64_t) * size_t(plane.y.count) * args_.bands * plane.x.count * kChannels;
    // Columns that lie on each other, and their rows, may add up to 65536 components.
    const int64_t folds = wide / (kTileVectors<kChannels> * kN) + 2;
    takes_any_ = blocks_ <= 0x7fffffff && folds * blocks_of(high, args_.bands) <= 65536;
  }

  bool useful() const { return takes_any_; }
  bool takes(const PlaneView& view) const override { return is_aligned(view, 16); }
  bool in_place() const override { return true; }
  // Planes share the memory of their bands' sums.
  int concurrency_class() const override { return overlaps_ && args_.bands == 1 ? 1 : 0; }
  size_t scratch_bytes() const override { return scratch_; }
  void set_scratch(void* scratch) override { args_.sums = static_cast<uint64_t*>(scratch); }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool overlaps_previous) override {
    BlocksArgs args = with_view(args_, view);
    args.overlaps = overlaps_previous;
    Launch shape = {unsigned(blocks_), kThreads, 0, overlaps_previous};
    if (args.bands == 1)
      return launch("pixelation of whole blocks", kernel_for<Step::all>(), shape, queue, args);
    VF_TRY(launch("sums of bands", &pixelate_blocks<T, kChannels, false, Step::sums>, shape, queue,
                  args));
    shape.early = overlaps_;
    return launch("means of bands", kernel_for<Step::means>(), shape, queue, args);
  }

 private:
  template <Step kStep>
  auto kernel_for() const {
    return keeps_ ? &pixelate_blocks<T, kChannels, true, kStep>
                  : &pixelate_blocks<T, kChannels, false, kStep>;
  }

  BlocksArgs args_ = {};
  int64_t blocks_ = 0;
  size_t scratch_ = 0;
  bool keeps_ = false, overlaps_ = false, takes_any_ = false;
};

template <class T>
std::unique_ptr<PlanePass> make_blocks(CudaQueue& queue, const PixelateTask& task, int index) {
  const auto make = [&](auto channels) -> std::unique_ptr<PlanePass> {
    auto pass = std::make_unique<BlocksPass<T, decltype(channels)::value>>(queue, task, index);
    if (!pass->useful()) return nullptr;
    return pass;
  };
  switch (task.layout.plane[index].channels) {
    case 1:
      return make(std::integral_constant<int, 1>());
    case 2:
      return make(std::integral_constant<int, 2>());
    case 3:
      return make(std::integral_constant<int, 3>());
    default:
      return make(std::integral_constant<int, 4>());
  }
}

// ---- cells -------------------------------------------------------------------------------------

// The type of the sum of a cell.
template <class T>
using CellSum = std::conditional_t<std::is_same_v<T, float>, double, uint64_t>;

template <class T>
struct CellsArgs {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  BlockAxis x, y;
  int across, down;    // cells of a block
  int wide;            // samples of the widest cell
  int tiles_x, cells;  // tiles in a row of them; cells of a tile
  int channels, pixel_step, shift;
  uint8_t mask;
  CellSum<T>* sums;  // by row of cells, cell of that row, channel
};

// A tile has cells of one row of them. With Step::all every block is one cell.
template <class T, Step kStep>
__global__ void __launch_bounds__(kThreads) pixelate_cells(const __grid_constant__ CellsArgs<T> p) {
  using Sum = CellSum<T>;
  using Columns = Sum[kThreads];
  using Means = T[kThreads];
  VF_SHARED(Columns, columns);
  VF_SHARED(Means, means);
  const int tile_x = int(blockIdx.x) % p.tiles_x, row = int(blockIdx.x) / p.tiles_x;
  const int by = row / p.down;
  const int top = p.y.edge(by) + row % p.down * PixelateParams::kCellHeight;
  const int bottom = min(top + PixelateParams::kCellHeight, p.y.edge(by + 1));
  const int row_cells = p.x.count * p.across;
  // Where a cell starts and ends. It may be empty where it is the last one of a block.
  const auto start = [&](int cell) {
    const int b = cell / p.across;
    return min(p.x.edge(b) + cell % p.across * PixelateParams::kCellWidth, p.x.edge(b + 1));
  };
  const auto end = [&](int cell) {
    const int b = cell / p.across;
    return min(start(cell) + PixelateParams::kCellWidth, p.x.edge(b + 1));
  };

  const int first = tile_x * p.cells, last = min(first + p.cells, row_cells) - 1;
  const int left = start(first), width = (end(last) - left) * p.channels;
  const int t = threadIdx.x;
  const ptrdiff_t at = ptrdiff_t(left + t / p.channels) * p.pixel_step + t % p.channels;

  if (kStep != Step::means) {
    Sum sum = 0;
    if (t < width)
      for (int y = top; y < bottom; y++)
        sum += reinterpret_cast<const T*>(p.src + y * p.src_stride)[at];
    columns[t] = sum;
    __syncthreads();
  }
  const int cell = first + t / p.channels, c = t % p.channels;
  if (t < p.cells * p.channels && cell <= last) {
    const int b = cell / p.across;
    Sum sum = 0;
    if (kStep == Step::means) {
      for (int j = 0; j < p.down; j++)
        for (int i = 0; i < p.across; i++)
          sum += p.sums[((int64_t(by) * p.down + j) * row_cells + int64_t(b) * p.across + i) *
                            p.channels +
                        c];
    } else {
      for (int x = start(cell); x < end(cell); x++) sum += columns[(x - left) * p.channels + c];
    }
    if (kStep == Step::sums) {
      p.sums[(int64_t(row) * row_cells + cell) * p.channels + c] = sum;
    } else {
      const uint64_t count =
          uint64_t(p.x.edge(b + 1) - p.x.edge(b)) * uint64_t(p.y.edge(by + 1) - p.y.edge(by));
      T mean;
      if constexpr (std::is_same_v<T, float>)
        mean = float(sum / double(count));
      else
        mean = block_mean<T>(sum, count, p.shift);
      for (int x = start(cell); x < end(cell); x++) means[(x - left) * p.channels + c] = mean;
    }
  }
  if (kStep == Step::sums) return;
  __syncthreads();
  if (t >= width) return;
  const bool filtered = p.mask >> c & 1;
  if (!filtered && p.src == p.dst) return;
  for (int y = top; y < bottom; y++)
    reinterpret_cast<T*>(p.dst + y * p.dst_stride)[at] =
        filtered ? means[t] : reinterpret_cast<const T*>(p.src + y * p.src_stride)[at];
}

template <class T>
class CellsPass final : public PlanePass {
 public:
  CellsPass(const PixelateTask& task, int index) {
    const PixelatePlane& plane = task.plane[index];
    const PlaneLayout& l = task.layout.plane[index];
    args_.x = plane.x;
    args_.y = plane.y;
    args_.across = blocks_of(plane.x.maximum(), PixelateParams::kCellWidth);
    args_.down = blocks_of(plane.y.maximum(), PixelateParams::kCellHeight);
    args_.channels = l.channels;
    args_.pixel_step = l.pixel_step();
    args_.shift = task.layout.shift;
    args_.mask = plane.channels;
    args_.wide = std::min(plane.x.maximum(), int(PixelateParams::kCellWidth));
    args_.cells = kThreads / (args_.wide * l.channels);
    const int row = plane.x.count * args_.across;
    args_.tiles_x = blocks_of(row, args_.cells);
    blocks_ = unsigned(args_.tiles_x) * plane.y.count * args_.down;
    one_cell_ = args_.across * args_.down == 1;
    if (!one_cell_)
      scratch_ = sizeof(CellSum<T>) * row * l.channels * size_t(plane.y.count) * args_.down;
  }

  bool in_place() const override { return true; }
  size_t scratch_bytes() const override { return scratch_; }
  void set_scratch(void* scratch) override { args_.sums = static_cast<CellSum<T>*>(scratch); }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    const CellsArgs<T> args = with_view(args_, view);
    const Launch shape = {blocks_, kThreads};
    if (one_cell_)
      return launch("pixelation of cells", &pixelate_cells<T, Step::all>, shape, queue, args);
    VF_TRY(launch("sums of cells", &pixelate_cells<T, Step::sums>, shape, queue, args));
    return launch("means of cells", &pixelate_cells<T, Step::means>, shape, queue, args);
  }

 private:
  CellsArgs<T> args_ = {};
  unsigned blocks_ = 0;
  bool one_cell_ = false;
  size_t scratch_ = 0;
};

Status choose(CudaQueue& queue, const PixelateTask& task, int index, PlanePasses* out) {
  const PlaneLayout& l = task.layout.plane[index];
  const PixelatePlane& plane = task.plane[index];
  if (plane.copies()) return {};
  out->channels = plane.channels;
  const auto add = [&](std::unique_ptr<PlanePass> pass) {
    if (pass) out->passes.push_back(std::move(pass));
  };
  const bool whole = l.pixel_step() == l.channels;
  const Type type = task.layout.type;
  if (whole && type == Type::u8) add(make_blocks<uint8_t>(queue, task, index));
  if (whole && type == Type::u16) add(make_blocks<uint16_t>(queue, task, index));
  if (type == Type::u8)
    add(std::make_unique<CellsPass<uint8_t>>(task, index));
  else if (type == Type::u16)
    add(std::make_unique<CellsPass<uint16_t>>(task, index));
  else
    add(std::make_unique<CellsPass<float>>(task, index));
  return {};
}

}  // namespace

Status make_pixelate(Queue& queue, const PixelateTask& task, std::unique_ptr<Plan>* out) {
  auto& cuda = static_cast<CudaQueue&>(queue);
  std::unique_ptr<FramePass> frame = make_inside(task);
  if (!frame) frame = make_strips(cuda, task);
  if (!frame) frame = make_narrow(task);
  return make_plane_plan(
      cuda, task.layout, task.placement,
      [&](int plane, PlanePasses* passes) { return choose(cuda, task, plane, passes); }, out,
      std::move(frame));
}

}  // namespace vf::cuda
