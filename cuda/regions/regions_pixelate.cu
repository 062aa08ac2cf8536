// Pixelates regions.
//
// Idea     A warp adds up a block of the pixelation; for a large block all threads do, and for a
//          small one a single thread. The same threads write the block's samples that belong to the
//          region.
// Traffic  The blocks that the regions touch are read once and written once.
// Tile     A tile has as many blocks of the pixelation, side by side, as a thread block has groups
//          of threads.
#include "cuda/pixelate/pixelate_vectors.cuh"
#include "cuda/regions/regions.cuh"

namespace vf::cuda {
namespace {

constexpr int kWarps = kRegionThreads / 32;

// Threads that share a block of the pixelation.
__host__ __device__ constexpr int lanes_for(int size) {
  return size < 4 ? 1 : size < 48 ? 32 : kRegionThreads;
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
int64_t tiles_of(const Region& r, const RegionPlane& l) {
  if (!l.mask) return 0;
  const BlockRange b = range_of(r, l);
  const int each = kRegionThreads / lanes_for(r.block);
  return (int64_t(b.columns) * b.rows + each - 1) / each;
}

// Tells how threads share a rectangle. In a row, there are at most as many threads as samples.
struct Share {
  int column, row, columns, rows;
};
__device__ __forceinline__ Share share_of(int lane, int lanes, int width) {
  int columns = 1;
  while (columns < width && columns < min(lanes, 32)) columns *= 2;
  return {lane % columns, lane / columns, columns, lanes / columns};
}

struct Samples {
  int x0, x1, y0, y1;
};
// Whether whole vectors of a plane can be read and written.
__device__ __forceinline__ bool in_vectors(const RegionPlane& l) {
  return l.aligned && l.step == l.channels && l.mask == (1 << l.channels) - 1;
}

template <class T>
__device__ __forceinline__ void add_samples(const RegionPlane& l, const Samples& r, int lane,
                                            int lanes, uint64_t (&sums)[kMaxChannels]) {
  if (in_vectors(l) && lanes > 1)
    return with_channels(l.channels, [&](auto channels) {
      const Components in = {r.x0 * channels, r.x1 * channels, r.y0, r.y1};
      uint64_t own[channels] = {};
      add_vectors<T>(l.src, l.src_stride, l.width * channels * int(sizeof(T)), in,
                     share_vectors(lane, lanes, vectors_of<T>(in.x1 - in.x0)), own);
#pragma unroll
      for (int c = 0; c < channels; c++) sums[c] = own[c];
    });
  const Share in = share_of(lane, lanes, r.x1 - r.x0);
  for (int y = r.y0 + in.row; y < r.y1; y += in.rows)
    for (int x = r.x0 + in.column; x < r.x1; x += in.columns)
#pragma unroll
      for (int c = 0; c < kMaxChannels; c++)
        if (l.mask >> c & 1) sums[c] += sample_at<T>(l, x, y)[c];
}

template <class T>
__device__ __forceinline__ void pixelate_tile(const RegionArgs& p) {
  using Sums = uint64_t[kWarps][kMaxChannels];
  VF_SHARED(Rivals, rivals);
  VF_SHARED(Sums, all);
  const RegionTile t = find_tile(p);
  const RegionPlane& l = p.plane[t.plane];
  const Region& region = region_of(p, t.region);
  const PlaneRect rect = rect_in(l, region);
  const RegionBlocks bx = blocks_x(region, l), by = blocks_y(region, l);
  const BlockRange range = range_of(region, l);
  const int lanes = lanes_for(region.block), each = kRegionThreads / lanes;
  const int lane = int(threadIdx.x) % lanes;
  // The block of the pixelation that this thread works on.
  const int first = t.index * each, last = min(first + each, range.columns * range.rows) - 1;
  const int block = min(first + int(threadIdx.x) / lanes, last);
  const bool spare = first + int(threadIdx.x) / lanes > last;
  const int column = range.x0 + block % range.columns, row = range.y0 + block / range.columns;
  const int x0 = bx.edge(column), x1 = bx.edge(column + 1);
  const int y0 = by.edge(row), y1 = spare ? y0 : by.edge(row + 1);
  const int64_t count = int64_t(max(x1 - x0, 0)) * max(y1 - y0, 0);
  // The samples that the tile may write. If its blocks lie in several rows, these are whole rows.
  const int top = range.y0 + first / range.columns, bottom = range.y0 + last / range.columns;
  PlaneRect tile = {rect.x0, max(rect.y0, by.edge(top)), rect.x1,
                    min(rect.y1, by.edge(bottom + 1))};
  if (top == bottom) {
    tile.x0 = max(rect.x0, bx.edge(range.x0 + first % range.columns));
    tile.x1 = min(rect.x1, bx.edge(range.x0 + last % range.columns + 1));
  }
  // Blocks of chroma may have no samples.
  if (tile.x0 >= tile.x1 || tile.y0 >= tile.y1) return;
  if (!t.plain) {
    find_rivals(p, t, tile, &rivals);
    if (rivals.covered) return;
  }

  uint64_t sums[kMaxChannels] = {};
  if (count > 0) add_samples<T>(l, {x0, x1, y0, y1}, lane, lanes, sums);
  if (lanes > 1) {
#pragma unroll
    for (int c = 0; c < kMaxChannels; c++)
      if (l.mask >> c & 1) sums[c] = sum_of_lanes(sums[c]);
  }
  if (lanes > 32) {
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int c = 0; c < kMaxChannels; c++) all[threadIdx.x / 32][c] = sums[c];
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kMaxChannels; c++) {
      sums[c] = 0;
      for (int warp = 0; warp < kWarps; warp++) sums[c] += all[warp][c];
    }
  }
  if (count == 0) return;
  T means[kMaxChannels] = {};
#pragma unroll
  for (int c = 0; c < kMaxChannels; c++)
    if (l.mask >> c & 1) means[c] = block_mean<T>(sums[c], uint64_t(count), p.shift);

  const Samples r = {max(x0, rect.x0), min(x1, rect.x1), max(y0, rect.y0), min(y1, rect.y1)};
  if (r.x0 >= r.x1 || r.y0 >= r.y1) return;
  if (p.after_copy) wait_for_previous();
  const bool full = t.plain || (rivals.count == 0 && covers(region, p.edges, l.sub_x, l.sub_y,
                                                            {r.x0, r.y0, r.x1, r.y1}));
  if (full && in_vectors(l) && lanes > 1)
    return with_channels(l.channels, [&](auto channels) {
      const Components out = {r.x0 * channels, r.x1 * channels, r.y0, r.y1};
      T own[channels];
#pragma unroll
      for (int c = 0; c < channels; c++) own[c] = means[c];
      write_vectors<T>(l.dst, l.dst_stride, out,
                       share_vectors(lane, lanes, vectors_of<T>(out.x1 - out.x0)), own);
    });
  const Share out = share_of(lane, lanes, r.x1 - r.x0);
  for (int y = r.y0 + out.row; y < r.y1; y += out.rows)
    for (int x = r.x0 + out.column; x < r.x1; x += out.columns) {
      const int weight = full ? kFullWeight : own_weight(p, t, rivals, x, y);
      if (weight < 0) continue;
      const T* from = sample_at<T>(l, x, y);
      T* to = result_at<T>(l, x, y);
#pragma unroll
      for (int c = 0; c < kMaxChannels; c++)
        if (l.mask >> c & 1) to[c] = T(blend(from[c], means[c], weight, p.shift));
    }
}

template <class T>
__global__ void __launch_bounds__(kRegionThreads, 4)
    pixelate_tiles(const __grid_constant__ RegionArgs p) {
  let_next_start();
  pixelate_tile<T>(p);
  end_after_previous();
}

class PixelateRegions final : public RegionKernels {
 public:
  Status prepare(CudaQueue&, const RegionsTask&) override { return {}; }

  // No region may read pixels that another one writes.
  bool in_place(const RegionLaunch& launch, const RegionArgs&) const override {
    constexpr size_t kCompared = 256;  // each region is compared with all others
    const std::vector<Region>& regions = launch.regions;
    if (regions.size() > kCompared) return false;
    // A region reads whole blocks, and all samples of subsampled planes that they touch.
    const auto reads = [](const Region& r) {
      const int maximum = kMaxDimension, margin = 8;
      const RegionBlocks x = {r.block, r.block_x, 0, maximum}, y = {r.block, r.block_y, 0, maximum};
      return PlaneRect{x.edge(x.block_of(r.x0)) - margin, y.edge(y.block_of(r.y0)) - margin,
                       x.edge(x.block_of(r.x1 - 1) + 1) + margin,
                       y.edge(y.block_of(r.y1 - 1) + 1) + margin};
    };
    for (size_t i = 0; i < regions.size(); i++) {
      const PlaneRect own = reads(regions[i]);
      for (size_t j = 0; j < regions.size(); j++) {
        const Region& r = regions[j];
        if (i != j && r.x0 < own.x1 && r.x1 > own.x0 && r.y0 < own.y1 && r.y1 > own.y0)
          return false;
      }
    }
    return true;
  }

  Status run(const RegionLaunch& l, RegionArgs args) override {
    int64_t blocks;
    VF_TRY(list_tiles(l, tiles_of, &args, &blocks));
    if (blocks == 0) return {};
    const auto kernel =
        l.task.layout.type == Type::u8 ? &pixelate_tiles<uint8_t> : &pixelate_tiles<uint16_t>;
    return launch("pixelation of regions", kernel,
                  {unsigned(blocks), kRegionThreads, 0, starts_after_copy(l.queue, args)}, l.queue,
                  args);
  }
};

}  // namespace

std::unique_ptr<RegionKernels> make_region_kernels(const RegionPixelate&) {
  return std::make_unique<PixelateRegions>();
}

}  // namespace vf::cuda
