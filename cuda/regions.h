// Filters of regions: what a launch gets, and the launches that a frame has. Internal to the CUDA
// backend. A launch works on a list of tiles, each of one region and plane; blocks find theirs by
// what the regions before have.
#pragma once

#include <vector>

#include "cuda/queue.h"
#include "filters/regions_task.h"

namespace vf::cuda {

constexpr int kRegionThreads = 256;
// Of the regions, so many go with a launch's arguments, which may have 4 KiB in all; more lie in
// device memory, where launches bring them (upload_regions).
constexpr int kInlineRegions = 32;

struct RegionPlane {
  const uint8_t* src;  // what is filtered
  uint8_t* dst;
  int src_stride, dst_stride;
  int width, height;
  uint8_t sub_x, sub_y, channels, step, mask;
  bool aligned;  // rows of src start at multiples of 16 bytes
};

// What every launch has. Tiles of a region: those of its planes, one plane after the other.
struct RegionArgs {
  int count, planes, shift;
  RegionEdges edges;
  RegionPlane plane[kMaxPlanes];
  // The regions, and the first tile of each; null where they are in the arguments.
  const Region* more;
  const int* more_first;
  Region region[kInlineRegions];
  int first[kInlineRegions];
};

// Sets `first` of all regions, by tiles(region, plane); the number of all tiles, -1 where a launch
// cannot have as many.
template <class Tiles>
int64_t count_tiles(const RegionArgs& args, const std::vector<Region>& regions,
                    std::vector<int>* first, const Tiles& tiles) {
  int64_t all = 0;
  first->clear();
  for (const Region& r : regions) {
    first->push_back(int(all));
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
  int* first = nullptr;
};
// Gives a launch its regions: `first` is of the launch's tiles.
Status set_regions(CudaQueue& queue, const std::vector<Region>& regions,
                   const std::vector<int>& first, const RegionList& list, RegionArgs* args);

// How regions are copied or mixed (regions_copy.cu). `args` has source and destination.
Status copy_regions(CudaQueue& queue, Type type, const std::vector<Region>& regions,
                    const RegionList& list, std::vector<int>* first, RegionArgs args, bool early);
// dst = over over src, by the regions' weights. dst may be src or over.
Status mix_regions(CudaQueue& queue, Type type, const std::vector<Region>& regions,
                   const RegionList& list, std::vector<int>* first, RegionArgs args,
                   const Image& over);

// Filters to args' destination: only what belongs to a region.
struct RegionLaunch {
  CudaQueue& queue;
  const RegionsTask& task;
  const std::vector<Region>& regions;
  const RegionList& list;
  std::vector<int>* first;
};
Status gaussian_regions(const RegionLaunch& launch, RegionArgs args);
Status pixelate_regions(const RegionLaunch& launch, RegionArgs args);
// Lets the Gaussian's kernels have the shared memory that they may need.
Status prepare_gaussian_regions(CudaQueue& queue, const RegionsTask& task);

}  // namespace vf::cuda
