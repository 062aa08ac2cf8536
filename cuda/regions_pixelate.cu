// Pixelation of regions.
//
// Idea     A block of the pixelation is added up by a warp, a large one by all threads, a small one
//          by a single thread; the same threads write it, as far as it lies in the region and
//          belongs to it.
// Traffic  The blocks that the regions touch, read once and written once.
// Tile     As many blocks of the pixelation, side by side, as a thread block has groups of threads.
#include "cuda/regions.cuh"
#include "filters/pixelate_task.h"

namespace vf::cuda {
namespace {

// Threads that share a block of the pixelation.
__host__ __device__ constexpr int lanes_for(int size) {
  return size < 4 ? 1 : size < 32 ? 32 : kRegionThreads;
}

__host__ __device__ __forceinline__ RegionBlocks blocks_x(const Region& r, const RegionPlane& l) {
  return {r.block, r.block_x, l.sub_x, l.width};
}
__host__ __device__ __forceinline__ RegionBlocks blocks_y(const Region& r, const RegionPlane& l) {
  return {r.block, r.block_y, l.sub_y, l.height};
}

// The blocks of a rectangle, and how many tiles they make.
struct BlockRange {
  int x0, y0, columns, rows;
};
__host__ __device__ __forceinline__ BlockRange range_of(const Region& r, const RegionPlane& l) {
  const PlaneRect rect = rect_in(l, r);
  const RegionBlocks bx = blocks_x(r, l), by = blocks_y(r, l);
  BlockRange b;
  b.x0 = bx.block_of(rect.x0);
  b.y0 = by.block_of(rect.y0);
  b.columns = bx.block_of(rect.x1 - 1) + 1 - b.x0;
  b.rows = by.block_of(rect.y1 - 1) + 1 - b.y0;
  return b;
}
__host__ __device__ __forceinline__ int64_t tiles_of(const Region& r, const RegionPlane& l) {
  if (!l.mask) return 0;
  const BlockRange b = range_of(r, l);
  const int each = kRegionThreads / lanes_for(r.block);
  return (int64_t(b.columns) * b.rows + each - 1) / each;
}

// How threads share a rectangle: as many side by side as its width has work for.
struct Share {
  int column, row, columns, rows;
};
__device__ __forceinline__ Share share_of(int lane, int lanes, int width) {
  int columns = 1;
  while (columns < width && columns < min(lanes, 32)) columns *= 2;
  return {lane % columns, lane / columns, columns, lanes / columns};
}

template <class T>
__global__ void __launch_bounds__(kRegionThreads)
    pixelate_tiles(const __grid_constant__ RegionArgs p) {
  using Sums = unsigned long long[kMaxChannels];
  VF_SHARED(Rivals, rivals);
  VF_SHARED(Sums, all);
  let_next_start();
  VF_SHARED(int, own);
  const RegionTile t =
      find_tile(p, &own, [](const Region& r, const RegionPlane& l) { return int(tiles_of(r, l)); });
  const RegionPlane& l = p.plane[t.plane];
  const Region& region = region_of(p, t.region);
  const PlaneRect rect = rect_in(l, region);
  const RegionBlocks bx = blocks_x(region, l), by = blocks_y(region, l);
  const BlockRange range = range_of(region, l);
  const int lanes = lanes_for(region.block), each = kRegionThreads / lanes;
  const int lane = int(threadIdx.x) % lanes;
  // Of this thread's block.
  const int first = t.index * each, last = min(first + each, range.columns * range.rows) - 1;
  const int block = first + int(threadIdx.x) / lanes;
  const int column = range.x0 + block % range.columns, row = range.y0 + block / range.columns;
  const int x0 = bx.edge(column), x1 = block <= last ? bx.edge(column + 1) : x0;
  const int y0 = by.edge(row), y1 = by.edge(row + 1);
  const int64_t count = int64_t(max(x1 - x0, 0)) * max(y1 - y0, 0);
  // What the tile may write: whole rows of blocks where it has several.
  const int top = range.y0 + first / range.columns, bottom = range.y0 + last / range.columns;
  PlaneRect tile = {rect.x0, max(rect.y0, by.edge(top)), rect.x1,
                    min(rect.y1, by.edge(bottom + 1))};
  if (top == bottom) {
    tile.x0 = max(rect.x0, bx.edge(range.x0 + first % range.columns));
    tile.x1 = min(rect.x1, bx.edge(range.x0 + last % range.columns + 1));
  }
  // Blocks of chroma may have no samples.
  if (tile.x0 >= tile.x1 || tile.y0 >= tile.y1) return;
  find_rivals(p, t, tile, &rivals);
  if (rivals.covered) return;

  T means[kMaxChannels];
#pragma unroll
  for (int c = 0; c < kMaxChannels; c++) {
    means[c] = 0;
    if (!(l.mask >> c & 1)) continue;
    uint64_t sum = 0;
    const Share in = share_of(lane, lanes, x1 - x0);
    for (int y = y0 + in.row; y < y1; y += in.rows)
      for (int x = x0 + in.column; x < x1; x += in.columns) sum += sample_at<T>(l, x, y)[c];
    if (lanes > 1)
      for (int with = 1; with < 32; with *= 2) sum += __shfl_xor_sync(~0u, sum, with);
    if (lanes > 32) {
      if (threadIdx.x == 0) all[c] = 0;
      __syncthreads();
      if (threadIdx.x % 32 == 0) atomicAdd(&all[c], static_cast<unsigned long long>(sum));
      __syncthreads();
      sum = all[c];
    }
    if (count > 0) means[c] = block_mean<T>(sum, uint64_t(count), p.shift);
  }

  const int left = max(x0, rect.x0), right = min(x1, rect.x1);
  const int high = max(y0, rect.y0), low = min(y1, rect.y1);
  const Share out = share_of(lane, lanes, right - left);
  for (int y = high + out.row; y < low; y += out.rows)
    for (int x = left + out.column; x < right; x += out.columns) {
      const int weight = own_weight(p, t, rivals, x, y);
      if (weight < 0) continue;
      const T* from = sample_at<T>(l, x, y);
      T* to = result_at<T>(l, x, y);
#pragma unroll
      for (int c = 0; c < kMaxChannels; c++)
        if (l.mask >> c & 1) to[c] = T(blend(from[c], means[c], weight, p.shift));
    }
}

}  // namespace

Status pixelate_regions(const RegionLaunch& l, RegionArgs args) {
  const int64_t blocks =
      count_tiles(args, l.regions, l.starts,
                  [](const Region& r, const RegionPlane& plane) { return tiles_of(r, plane); });
  if (blocks < 0) return too_many_tiles();
  if (blocks == 0) return {};
  VF_TRY(set_regions(l.queue, l.regions, *l.starts, l.list, &args));
  const auto kernel =
      l.task.layout.type == Type::u8 ? &pixelate_tiles<uint8_t> : &pixelate_tiles<uint16_t>;
  return launch("pixelation of regions", kernel, {unsigned(blocks), kRegionThreads},
                l.queue.cuda_stream(), args);
}

}  // namespace vf::cuda
