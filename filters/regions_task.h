// Holds what a backend gets to filter regions. The regions come with each frame (RegionsPlan).
#pragma once

#include "filters/color.h"
#include "filters/make.h"
#include "filters/regions.h"

namespace vf {

struct RegionsTask {
  Layout layout;
  Placement placement = Placement::separate;
  RegionParams params;
  RegionFilter filter;
  int width = 0, height = 0;  // size of the frame in pixels
};

// Makes the plan on a backend. It is not in filters.def, because it runs filters of that list and
// is none of them.
using MakeRegions = MakePlan<RegionsTask, RegionsPlan>;
namespace cpu {
Status make_regions(Queue& queue, const RegionsTask& task, std::unique_ptr<RegionsPlan>* out);
}
namespace cuda {
Status make_regions(Queue& queue, const RegionsTask& task, std::unique_ptr<RegionsPlan>* out);
}
void set_reference_regions(MakeRegions make);

// The middle of an integer component's codes, which sums are relative to.
inline int middle_code(const Layout& layout) {
  return (max_code(layout) + 1) / 2;
}

}  // namespace vf
