// Makes medians of regions: copies them to an atlas, which the kernels for whole frames filter.
//
// Idea     Regions are divided into cells of a size that suits them. A first launch copies each
//          cell to its place in the atlas, with as many samples around it as the window reaches.
//          Samples outside of the frame are what the border says. The plan for whole frames filters
//          the atlas, and a last launch mixes the middles of the cells over the frame. There are
//          plans for atlases of several heights, and a frame uses the smallest that has room.
// Traffic  The regions and the samples around them move three times, mostly through L2.
// Tile     A tile is 64 x 32 samples of a cell.
#include <algorithm>

#include "cuda/regions/regions.cuh"
#include "filters/border.h"

namespace vf::cuda {
namespace {

using Tile = TileGrid<64, 32>;
constexpr int kAlign = 8;  // of cells, in pixels: subsampled planes have whole samples of them
// Sizes of cells, in pixels, are multiples of kAlign.
constexpr int kMinCell = 32, kMaxCell = 512, kCellStep = 16;
// Rows of the atlases, as shares of the frame's. Regions that need more take the whole frame.
constexpr double kHeights[] = {0.0625, 0.09, 0.125, 0.18, 0.25, 0.35, 0.5, 0.7};

struct AtlasArgs {
  RegionArgs r;
  int cell;    // pixels
  int across;  // cells in a row of the atlas
  int tiles;   // blocks of a cell's plane
  Border border;
  uint8_t* atlas[kMaxPlanes];
  int stride[kMaxPlanes];
  uint8_t margin_x[kMaxPlanes], margin_y[kMaxPlanes], step[kMaxPlanes];
  uint16_t outside[kMaxPlanes][kMaxChannels];  // in the units of stored samples
};

__host__ __device__ __forceinline__ int cells_along(int from, int to, int cell) {
  return (to - from / kAlign * kAlign + cell - 1) / cell;
}
__host__ __device__ __forceinline__ int tiles_along(int cell, int margin, int tile) {
  return (cell + 2 * margin + tile - 1) / tile;
}

// The work of a block: a tile of a plane of a cell.
struct CellTile {
  RegionTile tile;
  PlaneRect rect;   // the part of the cell that is in the region
  int x, y;         // the cell's first sample
  int left, top;    // the cell's place in the atlas, with its margins
  int column, row;  // the tile's first sample, of those with margins
};

__device__ __forceinline__ CellTile find_cell(const AtlasArgs& p) {
  CellTile c;
  const RegionStart start = find_start<0>(p.r);
  const Region r = copy_of_region(p.r, start.region);
  const int block = int(blockIdx.x) - start.block[0];
  const int tile = block % p.tiles, plane = block / p.tiles % p.r.planes;
  const int index = block / (p.tiles * p.r.planes);
  c.tile = {start.region, plane, 0, false};
  const RegionPlane& l = p.r.plane[plane];
  const int columns = cells_along(r.x0, r.x1, p.cell);
  const int width = p.cell >> l.sub_x, height = p.cell >> l.sub_y;
  c.x = ((r.x0 / kAlign * kAlign) >> l.sub_x) + index % columns * width;
  c.y = ((r.y0 / kAlign * kAlign) >> l.sub_y) + index / columns * height;
  const PlaneRect all = rect_in(l, r);
  c.rect = {max(c.x, all.x0), max(c.y, all.y0), min(c.x + width, all.x1),
            min(c.y + height, all.y1)};
  const int place = start.sums + index;
  c.left = place % p.across * (width + 2 * p.margin_x[plane]);
  c.top = place / p.across * (height + 2 * p.margin_y[plane]);
  const int across = tiles_along(width, p.margin_x[plane], 64);
  c.column = tile % across * 64;
  c.row = tile / across * 32;
  return c;
}

template <class T>
__device__ __forceinline__ T* atlas_at(const AtlasArgs& p, int plane, int x, int y) {
  return reinterpret_cast<T*>(p.atlas[plane] + ptrdiff_t(y) * p.stride[plane]) +
         ptrdiff_t(x) * p.step[plane];
}

template <class T>
__device__ __forceinline__ void gather_tile(const AtlasArgs& p) {
  const CellTile c = find_cell(p);
  const RegionPlane& l = p.r.plane[c.tile.plane];
  const int mx = p.margin_x[c.tile.plane], my = p.margin_y[c.tile.plane];
  if (!l.mask || c.rect.x0 >= c.rect.x1 || c.rect.y0 >= c.rect.y1) return;
  // These are the frame's samples in the tile, with margins.
  const int x0 = max(c.x - mx + c.column, c.rect.x0 - mx);
  const int y0 = max(c.y - my + c.row, c.rect.y0 - my);
  const int x1 = min(c.x - mx + c.column + 64, c.rect.x1 + mx);
  const int y1 = min(c.y - my + c.row + 32, c.rect.y1 + my);
  for (int i = threadIdx.x; i < 64 * 32; i += kRegionThreads) {
    const int x = x0 + i % 64, y = y0 + i / 64;
    if (x >= x1 || y >= y1) continue;
    const int column = border_index(x, l.width, p.border),
              row = border_index(y, l.height, p.border);
    T* const to = atlas_at<T>(p, c.tile.plane, c.left + x - c.x + mx, c.top + y - c.y + my);
    const T* const from = sample_at<T>(l, max(column, 0), max(row, 0));
    for (int n = 0; n < l.channels; n++)
      to[n] = column < 0 || row < 0 ? T(p.outside[c.tile.plane][n]) : from[n];
  }
}
template <class T>
__global__ void __launch_bounds__(kRegionThreads) gather(const __grid_constant__ AtlasArgs p) {
  gather_tile<T>(p);
  end_after_previous();
}

template <class T>
__global__ void __launch_bounds__(kRegionThreads) scatter(const __grid_constant__ AtlasArgs p) {
  VF_SHARED(Rivals, rivals);
  const CellTile c = find_cell(p);
  const RegionPlane& l = p.r.plane[c.tile.plane];
  const PlaneRect rect = {max(c.rect.x0, c.x + c.column), max(c.rect.y0, c.y + c.row),
                          min(c.rect.x1, c.x + c.column + 64), min(c.rect.y1, c.y + c.row + 32)};
  if (!l.mask || rect.x0 >= rect.x1 || rect.y0 >= rect.y1) return;
  find_rivals(p.r, c.tile, rect, &rivals);
  if (rivals.covered) return;
  const bool full =
      rivals.count == 0 && covers(region_of(p.r, c.tile.region), p.r.edges, l.sub_x, l.sub_y, rect);
  const int left = c.left + p.margin_x[c.tile.plane] - c.x;
  const int top = c.top + p.margin_y[c.tile.plane] - c.y;
  for (int i = threadIdx.x; i < 64 * 32; i += kRegionThreads) {
    const int x = rect.x0 + i % 64, y = rect.y0 + i / 64;
    if (x >= rect.x1 || y >= rect.y1) continue;
    const int weight = full ? kFullWeight : own_weight(p.r, c.tile, rivals, x, y);
    if (weight < 0) continue;
    const T* const from = sample_at<T>(l, x, y);
    const T* const by = atlas_at<T>(p, c.tile.plane, left + x, top + y);
    T* const to = result_at<T>(l, x, y);
    for (int n = 0; n < l.channels; n++)
      if (l.mask >> n & 1) to[n] = T(blend(from[n], by[n], weight, p.r.shift));
  }
}

class MedianAtlas final : public RegionKernels {
 public:
  explicit MedianAtlas(const MedianParams& params) : params_(params) {}
  Status prepare(CudaQueue& queue, const RegionsTask& task) override;
  bool takes_all() const override { return false; }
  // Chooses an atlas that has room for the regions.
  bool takes(const std::vector<Region>& regions) override;
  // All reads of the frame come before the first write.
  bool in_place(const RegionLaunch&, const RegionArgs&) const override { return true; }
  Status run(const RegionLaunch& launch_of, RegionArgs args) override;

 private:
  struct Atlas {
    Layout layout;
    std::unique_ptr<Plan> plan;
  };

  const MedianParams params_;
  std::vector<Atlas> plans_;  // the smallest first
  Allocation memory_[2];
  Image image_[2];  // the largest plan's: the input of the median, and its output
  uint8_t margin_x_[kMaxPlanes] = {}, margin_y_[kMaxPlanes] = {};
  // Set by takes().
  size_t chosen_ = 0;
  int cell_ = 0, across_ = 0;
};

Status MedianAtlas::prepare(CudaQueue& queue, const RegionsTask& task) {
  const MedianParams& m = params_;
  // This border cuts windows off at the frame's edges, which do not exist in an atlas.
  if (m.border == Border::shrink) return {};
  MedianParams params = m;
  params.border = Border::replicate;  // no result depends on it
  Layout layout = task.layout;
  for (int p = 0; p < layout.planes; p++) {
    PlaneLayout& l = layout.plane[p];
    margin_x_[p] = uint8_t(plane_size(m.size, l.sub_x) / 2);
    margin_y_[p] = uint8_t(plane_size(m.size_y ? m.size_y : m.size, l.sub_y) / 2);
    l.step = 0;
    l.width = std::max(l.width, (kMinCell >> l.sub_x) + 2 * margin_x_[p]);
  }
  for (const double share : kHeights) {
    Layout atlas = layout;
    for (int p = 0; p < layout.planes; p++) {
      PlaneLayout& l = atlas.plane[p];
      l.height = std::max(int(l.height * share), (kMinCell >> l.sub_y) + 2 * margin_y_[p]);
    }
    // In small frames, an atlas with margins is as high as the frame.
    if (atlas.plane[0].height >= task.layout.plane[0].height) break;
    std::unique_ptr<Plan> plan;
    VF_TRY(make_median(queue, atlas, params, Placement::separate, &plan));
    plans_.push_back({atlas, std::move(plan)});
  }
  if (plans_.empty()) return {};
  for (int i = 0; i < 2; i++) {
    VF_TRY(allocate_image(queue, plans_.back().layout, &memory_[i], &image_[i]));
    // The samples between the cells are filtered as well, and must be initialized.
    VF_CUDA(cudaMemsetAsync(memory_[i].data(), 0, memory_[i].size(), queue.cuda_stream()));
  }
  return {};
}

// Chooses the smallest atlas that has room for cells of some size.
bool MedianAtlas::takes(const std::vector<Region>& regions) {
  chosen_ = plans_.size();
  for (int cell = kMinCell; cell <= kMaxCell; cell += kCellStep) {
    int64_t cells = 0;
    for (const Region& r : regions)
      cells += int64_t(cells_along(r.x0, r.x1, cell)) * cells_along(r.y0, r.y1, cell);
    for (size_t i = 0; i < chosen_; i++) {
      const Layout& atlas = plans_[i].layout;
      int64_t across = cells, down = cells;
      for (int p = 0; p < atlas.planes; p++) {
        const PlaneLayout& l = atlas.plane[p];
        across = std::min<int64_t>(across, l.width / ((cell >> l.sub_x) + 2 * margin_x_[p]));
        down = std::min<int64_t>(down, l.height / ((cell >> l.sub_y) + 2 * margin_y_[p]));
      }
      if (across * down < cells) continue;
      chosen_ = i;
      cell_ = cell;
      across_ = int(across);
    }
  }
  return chosen_ < plans_.size();
}

Status MedianAtlas::run(const RegionLaunch& launch_of, RegionArgs args) {
  const Layout& layout = launch_of.task.layout;
  const MedianParams& m = params_;
  AtlasArgs a = {};
  a.cell = cell_;
  a.across = across_;
  a.border = m.border;
  for (int p = 0; p < layout.planes; p++) {
    const PlaneLayout& l = layout.plane[p];
    a.margin_x[p] = margin_x_[p];
    a.margin_y[p] = margin_y_[p];
    a.step[p] = uint8_t(l.channels);
    a.stride[p] = int(image_[0].stride[p]);
    a.tiles = std::max(a.tiles, tiles_along(cell_ >> l.sub_x, margin_x_[p], 64) *
                                    tiles_along(cell_ >> l.sub_y, margin_y_[p], 32));
    for (int c = 0; c < l.channels; c++)
      a.outside[p][c] = uint16_t(std::lrint(m.border_value[p][c]) << layout.shift);
  }
  int64_t cells = 0;
  launch_of.starts->clear();
  for (const Region& r : launch_of.regions) {
    const auto region = uint16_t(launch_of.starts->size());
    launch_of.starts->push_back(
        {{int(cells * a.tiles * layout.planes), 0}, int(cells), region, 0, 0, 0, 0, 0});
    cells += int64_t(cells_along(r.x0, r.x1, cell_)) * cells_along(r.y0, r.y1, cell_);
  }
  const int64_t blocks = cells * a.tiles * layout.planes;
  if (blocks > 0x7fffffff) return too_many_tiles();
  VF_TRY(set_regions(launch_of, &args));
  a.r = args;
  for (Image& image : image_) image.layout = plans_[chosen_].layout;
  const auto set_atlas = [&](const Image& image) {
    for (int p = 0; p < layout.planes; p++) a.atlas[p] = static_cast<uint8_t*>(image.data[p]);
  };
  const bool u8 = layout.type == Type::u8;
  set_atlas(image_[0]);
  VF_TRY(launch("atlas of regions", u8 ? &gather<uint8_t> : &gather<uint16_t>,
                {unsigned(blocks), kRegionThreads, 0, starts_after_copy(launch_of.queue, args)},
                launch_of.queue, a));
  VF_TRY(plans_[chosen_].plan->run(image_[0], image_[1]));
  set_atlas(image_[1]);
  return launch("regions of an atlas", u8 ? &scatter<uint8_t> : &scatter<uint16_t>,
                {unsigned(blocks), kRegionThreads}, launch_of.queue, a);
}

}  // namespace

std::unique_ptr<RegionKernels> make_region_kernels(const RegionMedian& filter) {
  return std::make_unique<MedianAtlas>(filter.params);
}

}  // namespace vf::cuda
