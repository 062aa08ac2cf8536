// The median of regions (regions_median.cu). Internal to the CUDA backend.
#pragma once

#include "cuda/regions/regions.h"

namespace vf::cuda {

class MedianAtlas {
 public:
  Status prepare(CudaQueue& queue, const RegionsTask& task);
  // Whether there is an atlas that has room for these regions, which run() then takes.
  bool choose(const std::vector<Region>& regions);
  // Filters to args' destination: only what belongs to a region. All that is read of the frame is
  // read before anything is written.
  Status run(const RegionLaunch& launch_of, RegionArgs args);

 private:
  struct Atlas {
    Layout layout;
    std::unique_ptr<Plan> plan;
  };
  Image image(int which) const;

  std::vector<Atlas> plans_;  // the smallest first
  Allocation memory_[2];      // before and after the median
  size_t starts_[kMaxPlanes] = {};
  ptrdiff_t stride_[kMaxPlanes] = {};
  uint8_t margin_x_[kMaxPlanes] = {}, margin_y_[kMaxPlanes] = {};
  // What choose() found.
  size_t chosen_ = 0;
  int cell_ = 0, across_ = 0;
};

}  // namespace vf::cuda
