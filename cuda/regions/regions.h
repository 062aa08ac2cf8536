// Filters of regions: what a launch gets, and the launches that a frame has. Internal to the CUDA
// backend. A launch works on a list of tiles, each of one region and plane; blocks find theirs by
// what the regions before have.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "cuda/core/queue.h"
#include "filters/regions_task.h"

namespace vf::cuda {

constexpr int kRegionThreads = 256;
// Of the regions, so many go with a launch's arguments, which have 4 KiB in all, or 32 KiB where
// the toolkit knows no GPU that could not; more lie in device memory, where launches bring them
// (set_regions).
constexpr int kInlineRegions = CUDART_VERSION >= 13000 ? 128 : 32;

struct RegionPlane {
  const uint8_t* src;  // what is filtered
  uint8_t* dst;
  int src_stride, dst_stride;
  int width, height;
  uint8_t sub_x, sub_y, channels, step, mask;
  bool aligned;  // rows start at multiples of 16 bytes
};

// Where the work for a region starts, in two launches that share their arguments at most.
struct RegionStart {
  int block[2];  // of each launch
  int sums;      // what it has of what the first launch leaves for the second
  bool plain;    // no other region reaches into it, and all of its samples have full weight
};

// What every launch has. Tiles of a region: those of its planes, one plane after the other.
struct RegionArgs {
  int count, planes, shift;
  RegionEdges edges;
  RegionPlane plane[kMaxPlanes];
  // The regions, and where each starts; null where they are in the arguments.
  const Region* more;
  const RegionStart* more_start;
  Region region[kInlineRegions];
  RegionStart start[kInlineRegions];
};

// Sets where all regions start, by tiles(region, plane); the number of all tiles, -1 where a launch
// cannot have as many.
template <class Tiles>
int64_t count_tiles(const RegionArgs& args, const std::vector<Region>& regions,
                    std::vector<RegionStart>* starts, const Tiles& tiles) {
  int64_t all = 0;
  starts->clear();
  for (const Region& r : regions) {
    starts->push_back({{int(all), 0}, 0, false});
    for (int p = 0; p < args.planes; p++) all += tiles(r, args.plane[p]);
    if (all > 0x7fffffff) return -1;
  }
  return all;
}

inline Status too_many_tiles() {
  return Status::error(Code::unsupported, "regions of more than 2^31 tiles");
}

// The regions of a launch in device memory, where they are more than its arguments hold.
struct RegionList {
  Region* regions = nullptr;
  RegionStart* starts = nullptr;
};
// Gives a launch its regions, and finds which of them are plain.
Status set_regions(CudaQueue& queue, const std::vector<Region>& regions,
                   std::vector<RegionStart>* starts, const RegionList& list, RegionArgs* args);

// How regions are copied or mixed (regions_copy.cu). `args` has source and destination.
Status copy_regions(CudaQueue& queue, Type type, const std::vector<Region>& regions,
                    const RegionList& list, std::vector<RegionStart>* starts, RegionArgs args,
                    bool early);
// dst = over over src, by the regions' weights. dst may be src or over.
Status mix_regions(CudaQueue& queue, Type type, const std::vector<Region>& regions,
                   const RegionList& list, std::vector<RegionStart>* starts, RegionArgs args,
                   const Image& over);

// Filters to args' destination: only what belongs to a region.
struct RegionLaunch {
  CudaQueue& queue;
  const RegionsTask& task;
  const std::vector<Region>& regions;
  const RegionList& list;
  std::vector<RegionStart>* starts;
  // What the Gaussian's first pass leaves for its second (gaussian_sums_bytes).
  const Allocation& sums;
};
Status gaussian_regions(const RegionLaunch& launch, RegionArgs args);
Status pixelate_regions(const RegionLaunch& launch, RegionArgs args);
// Whether the Gaussian reads all that it reads of the frame before it writes anything.
bool gaussian_at_once(const RegionLaunch& launch, const RegionArgs& args);
// Whether no region's pixelation reads what another one writes.
bool pixelates_apart(const std::vector<Region>& regions);
// Lets the Gaussian's kernels have the shared memory that they may need.
Status prepare_gaussian_regions(CudaQueue& queue, const RegionsTask& task);
size_t gaussian_sums_bytes(const Layout& layout);

}  // namespace vf::cuda
