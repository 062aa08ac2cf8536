// Copies regions from one frame to another, or mixes them by their weights.
//
// Idea     Filters in place write to a scratch frame, and this file copies the rectangles of all
//          regions from there, 16 bytes at a time if rows are aligned. Where rectangles overlap,
//          bytes are written twice, with the same value. A frame that was filtered whole (for a
//          median, or with region-invert) is mixed with the original one by the weights: each
//          sample is written for one region only.
// Traffic  The rectangles are read once and written once.
// Tile     CopyGrid and MixGrid, in samples.
#include <algorithm>
#include <bitset>

#include "cuda/regions/regions.cuh"

namespace vf::cuda {
namespace {

using CopyGrid = TileGrid<256, 16>;
using MixGrid = TileGrid<64, 32>;
// Regions and starts that one launch uploads.
constexpr int kUploadRegions = 34, kUploadStarts = 78;

template <class Grid>
int64_t tiles_of(const Region& r, const RegionPlane& l) {
  const PlaneRect rect = rect_in(l, r);
  return l.mask ? Grid::columns(rect) * Grid::rows(rect) : 0;
}

constexpr int kUploadThreads = 96;

struct Upload {
  Region* regions;
  RegionStart* starts;
  int region_count, start_count;
  Region region[kUploadRegions];
  RegionStart start[kUploadStarts];
};
static_assert(sizeof(Upload) <= 4096, "arguments of a launch have at most 4 KiB with old toolkits");

// Copies regions to device memory from the launch's own arguments. The driver copies these when the
// launch is enqueued, so that nothing has to wait.
__global__ void __launch_bounds__(kUploadThreads) upload(const __grid_constant__ Upload p) {
  const int i = threadIdx.x;
  if (i < p.region_count) p.regions[i] = p.region[i];
  if (i < p.start_count) p.starts[i] = p.start[i];
}

template <class T>
__global__ void __launch_bounds__(kRegionThreads, 4)
    copy_tiles(const __grid_constant__ RegionArgs p, const __grid_constant__ bool early) {
  const RegionTile t = find_tile(p);
  const RegionPlane& l = p.plane[t.plane];
  int x, y;
  const PlaneRect rect = CopyGrid::tile(rect_in(l, region_of(p, t.region)), t.index, &x, &y);
  if (early) wait_for_previous();
  const int rows = rect.y1 - rect.y0, all = (1 << l.channels) - 1;
  if (l.mask == all && l.step == l.channels) {
    // Bytes of a row, and the vectors that they lie in.
    const int size = l.channels * int(sizeof(T)), begin = rect.x0 * size, end = rect.x1 * size;
    const int v0 = begin / 16, vectors = (end + 15) / 16 - v0;
    for (int i = threadIdx.x; i < rows * vectors; i += kRegionThreads) {
      const int row = rect.y0 + i / vectors, at = (v0 + i % vectors) * 16;
      const uint8_t* from = l.src + ptrdiff_t(row) * l.src_stride;
      uint8_t* to = l.dst + ptrdiff_t(row) * l.dst_stride;
      if (l.aligned && at >= begin && at + 16 <= end)
        *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
      else
        for (int b = max(at, begin); b < min(at + 16, end); b++) to[b] = from[b];
    }
    return;
  }
  const int width = rect.x1 - rect.x0;
  for (int i = threadIdx.x; i < rows * width; i += kRegionThreads) {
    const T* from = sample_at<T>(l, rect.x0 + i % width, rect.y0 + i / width);
    T* to = result_at<T>(l, rect.x0 + i % width, rect.y0 + i / width);
    for (int c = 0; c < l.channels; c++)
      if (l.mask >> c & 1) to[c] = from[c];
  }
}

struct Over {
  const uint8_t* data[kMaxPlanes];
  int stride[kMaxPlanes];
};

template <class T>
__global__ void __launch_bounds__(kRegionThreads, 4)
    mix_tiles(const __grid_constant__ RegionArgs p, const __grid_constant__ Over over) {
  VF_SHARED(Rivals, rivals);
  const RegionTile t = find_tile(p);
  const RegionPlane& l = p.plane[t.plane];
  int x, y;
  const PlaneRect rect = MixGrid::tile(rect_in(l, region_of(p, t.region)), t.index, &x, &y);
  find_rivals(p, t, rect, &rivals);
  if (rivals.covered) return;
  const int width = rect.x1 - rect.x0, count = width * (rect.y1 - rect.y0);
  for (int i = threadIdx.x; i < count; i += kRegionThreads) {
    const int sx = rect.x0 + i % width, sy = rect.y0 + i / width;
    const int weight = own_weight(p, t, rivals, sx, sy);
    if (weight < 0) continue;
    const T* from = sample_at<T>(l, sx, sy);
    const T* by =
        reinterpret_cast<const T*>(over.data[t.plane] + ptrdiff_t(sy) * over.stride[t.plane]) +
        ptrdiff_t(sx) * l.step;
    T* to = result_at<T>(l, sx, sy);
    for (int c = 0; c < l.channels; c++)
      if (l.mask >> c & 1) to[c] = T(blend(from[c], by[c], weight, p.shift));
  }
}

// Marks the regions that own all of their samples with full weight.
void find_plain(const RegionEdges& edges, const std::vector<Region>& regions,
                std::vector<RegionStart>* starts) {
  constexpr size_t kCompared = 256;  // each region is compared with all others
  if (edges.feather > 0 || regions.size() > kCompared) return;
  // Regions share samples of subsampled planes where they lie so close to each other.
  constexpr int kClose = 8;
  std::bitset<kCompared> plain;
  for (size_t i = 0; i < regions.size(); i++)
    plain[i] = regions[i].outline == RegionOutline::box && is_upright(regions[i]);
  for (size_t i = 0; i < regions.size(); i++)
    for (size_t j = 0; j < i; j++) {
      const Region &a = regions[i], &b = regions[j];
      if (a.x0 < b.x1 + kClose && b.x0 < a.x1 + kClose && a.y0 < b.y1 + kClose &&
          b.y0 < a.y1 + kClose)
        plain[i] = plain[j] = false;
    }
  for (RegionStart& s : *starts) s.plain = plain[s.region];
}

void set_hints(const std::vector<RegionStart>& starts, RegionArgs* args) {
  for (int n = 0; n < 2; n++) {
    args->hint_shift[n] = 0;
    while (starts.back().block[n] >> args->hint_shift[n] >= kRegionHints) args->hint_shift[n]++;
    for (int i = 0, at = 0; at < kRegionHints; at++) {
      while (i < args->starts - 1 && starts[i + 1].block[n] <= at << args->hint_shift[n]) i++;
      args->hint[n][at] = uint16_t(i);
    }
  }
}

}  // namespace

Status allocate_image(CudaQueue& queue, const Layout& layout, Allocation* memory, Image* image) {
  image->layout = layout;
  image->memory = Memory::device;
  size_t starts[kMaxPlanes], total = 0;
  for (int p = 0; p < layout.planes; p++) {
    image->stride[p] = ptrdiff_t(round_up(row_bytes(layout, p), 256));
    starts[p] = total;
    total += size_t(image->stride[p]) * size_t(layout.plane[p].height);
  }
  VF_TRY(queue.allocate(Memory::device, total, memory));
  for (int p = 0; p < layout.planes; p++) image->data[p] = memory->as<uint8_t>() + starts[p];
  return {};
}

Status set_regions(const RegionLaunch& l, RegionArgs* args) {
  const std::vector<Region>& regions = l.regions;
  const std::vector<RegionStart>& starts = *l.starts;
  find_plain(args->edges, regions, l.starts);
  args->count = int(regions.size());
  args->starts = int(starts.size());
  set_hints(starts, args);
  args->more = nullptr;
  args->more_start = nullptr;
  if (args->count <= kInlineRegions && args->starts <= kInlineStarts) {
    std::copy(regions.begin(), regions.end(), args->region);
    std::copy(starts.begin(), starts.end(), args->start);
    return {};
  }
  args->more = l.list.regions;
  args->more_start = l.list.starts;
  for (int region = 0, start = 0; region < args->count || start < args->starts;) {
    Upload u = {};
    u.regions = l.list.regions + region;
    u.starts = l.list.starts + start;
    u.region_count = std::min(args->count - region, kUploadRegions);
    u.start_count = std::min(args->starts - start, kUploadStarts);
    std::copy_n(regions.begin() + region, u.region_count, u.region);
    std::copy_n(starts.begin() + start, u.start_count, u.start);
    region += u.region_count;
    start += u.start_count;
    VF_TRY(launch("upload of regions", &upload, {1, kUploadThreads}, l.queue, u));
  }
  return {};
}

Status list_tiles(const RegionLaunch& l, int64_t (*tiles)(const Region&, const RegionPlane&),
                  RegionArgs* args, int64_t* blocks) {
  *blocks = 0;
  l.starts->clear();
  for (size_t i = 0; i < l.regions.size(); i++)
    for (int p = 0; p < args->planes; p++) {
      l.starts->push_back({{int(*blocks), 0}, 0, uint16_t(i), uint8_t(p), 0, 0, 0, 0});
      *blocks += tiles(l.regions[i], args->plane[p]);
      if (*blocks > 0x7fffffff) return too_many_tiles();
    }
  return set_regions(l, args);
}

Status copy_regions(const RegionLaunch& l, RegionArgs args, bool early) {
  int64_t blocks;
  VF_TRY(list_tiles(l, tiles_of<CopyGrid>, &args, &blocks));
  if (blocks == 0) return {};
  // It cannot start early behind an upload.
  early = early && !args.more && l.queue.device().starts_early();
  const auto kernel = l.task.layout.type == Type::u8 ? &copy_tiles<uint8_t> : &copy_tiles<uint16_t>;
  return launch("copy of regions", kernel, {unsigned(blocks), kRegionThreads, 0, early}, l.queue,
                args, early);
}

Status mix_regions(const RegionLaunch& l, RegionArgs args, const Image& over) {
  int64_t blocks;
  VF_TRY(list_tiles(l, tiles_of<MixGrid>, &args, &blocks));
  if (blocks == 0) return {};
  Over o = {};
  for (int p = 0; p < args.planes; p++) {
    o.data[p] = static_cast<const uint8_t*>(over.data[p]);
    o.stride[p] = int(over.stride[p]);
  }
  const auto kernel = l.task.layout.type == Type::u8 ? &mix_tiles<uint8_t> : &mix_tiles<uint16_t>;
  return launch("mix of regions", kernel, {unsigned(blocks), kRegionThreads}, l.queue, args, o);
}

}  // namespace vf::cuda
