// Declares the kernels for regions and the arguments of their launches. A launch works on a list of
// tiles. A block finds its tile by where each region's tiles start.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "cuda/core/queue.h"
#include "filters/regions_task.h"

namespace vf::cuda {

constexpr int kRegionThreads = 256;
// Largest number of regions in the arguments of a launch. Arguments have at most 4 KiB, or 32 KiB
// if all GPUs that the toolkit supports allow that. Longer lists lie in device memory:
// set_regions() copies them there.
constexpr int kInlineRegions = CUDART_VERSION >= 13000 ? 128 : 32;
constexpr int kInlineStarts = 2 * kInlineRegions;

// Blocks search up to so many starts by lanes.
constexpr int kFewStarts = 32;
// RegionArgs::hint has so many entries.
constexpr int kRegionHints = CUDART_VERSION >= 13000 ? 128 : 32;

struct RegionPlane {
  const uint8_t* src;
  uint8_t* dst;
  int src_stride, dst_stride;
  int width, height;
  uint8_t sub_x, sub_y, channels, step, mask;
  bool aligned;  // rows start at multiples of 16 bytes
};

// Where the work for a plane of a region starts. Two launches may share it.
struct RegionStart {
  int block[2];  // first block in each launch
  int sums;      // its first entry in the memory that the first launch leaves for the second
  uint16_t region;
  uint8_t plane : 7;
  uint8_t plain : 1;  // no other region reaches into it, and all of its samples have full weight
  // The Gaussian: radii in the plane, and columns of tiles of a block of the first pass.
  uint8_t radius_x, radius_y, wide;
};

// The arguments that every launch has.
struct RegionArgs {
  int count, starts, planes, shift;
  // The launch before this one copies the frame from the source to the destination. The source can
  // be read at once, and the destination can be written when that launch is done.
  bool after_copy;
  RegionEdges edges;
  RegionPlane plane[kMaxPlanes];
  // The regions in device memory, and where their planes start. Null if they are in the arguments.
  const Region* more;
  const RegionStart* more_start;
  // For each launch, the start of each (1 << hint_shift)-th block, up to where the table ends.
  uint16_t hint[2][kRegionHints];
  uint8_t hint_shift[2];
  Region region[kInlineRegions];
  RegionStart start[kInlineStarts];
};

inline Status too_many_tiles() {
  return Status::error(Code::unsupported, "regions of more than 2^31 tiles");
}

// Device memory for regions that the arguments of a launch cannot hold.
struct RegionList {
  Region* regions = nullptr;
  RegionStart* starts = nullptr;
};
// A launch's regions, and what set_regions() needs.
struct RegionLaunch {
  CudaQueue& queue;
  const RegionsTask& task;
  const std::vector<Region>& regions;
  const RegionList& list;
  std::vector<RegionStart>* starts;
};

// Gives a launch its regions, and finds which of them are plain. The starts are set.
Status set_regions(const RegionLaunch& launch, RegionArgs* args);
// Gives a launch over tiles its regions and where they start, and counts its blocks.
Status list_tiles(const RegionLaunch& launch, int64_t (*tiles)(const Region&, const RegionPlane&),
                  RegionArgs* args, int64_t* blocks);

// Allocates device memory for an image with aligned rows.
Status allocate_image(CudaQueue& queue, const Layout& layout, Allocation* memory, Image* image);

// Copies the rectangles of regions from args' source to its destination (regions_copy.cu).
Status copy_regions(const RegionLaunch& launch, RegionArgs args, bool early);
// Mixes `over` with args' source by the regions' weights. The destination may be either of them.
Status mix_regions(const RegionLaunch& launch, RegionArgs args, const Image& over);

// Tells whether the first launch may start early: behind a copy, but not an upload of regions.
inline bool starts_after_copy(const CudaQueue& queue, const RegionArgs& args) {
  return args.after_copy && !args.more && queue.device().starts_early();
}

// Kernels that filter regions and nothing else of a frame.
class RegionKernels {
 public:
  virtual ~RegionKernels() = default;
  virtual Status prepare(CudaQueue& queue, const RegionsTask& task) = 0;
  // Tells whether takes() is true for all regions.
  virtual bool takes_all() const { return true; }
  // Tells whether the kernels can filter these regions. run() then filters the same ones.
  // Otherwise the plan filters the whole frame, and mixes it with the original one.
  virtual bool takes(const std::vector<Region>&) { return true; }
  // Tells whether source and destination of `args` may be the same.
  virtual bool in_place(const RegionLaunch& launch, const RegionArgs& args) const = 0;
  // Filters to args' destination, and writes only samples that belong to a region. If args has
  // after_copy, its source is not its destination.
  virtual Status run(const RegionLaunch& launch, RegionArgs args) = 0;
};

// Make the kernels of a filter. The last one is for filters without kernels for regions.
std::unique_ptr<RegionKernels> make_region_kernels(const RegionGaussian& filter);
std::unique_ptr<RegionKernels> make_region_kernels(const RegionMedian& filter);
std::unique_ptr<RegionKernels> make_region_kernels(const RegionPixelate& filter);
template <class F>
std::unique_ptr<RegionKernels> make_region_kernels(const F&) {
  return nullptr;
}

}  // namespace vf::cuda
