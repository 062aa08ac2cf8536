// Masks as regions: the rectangles that cover what a mask marks.
#pragma once

#include <cstdint>
#include <vector>

#include "filters/region_tracker.h"

namespace vf {

// An image of width x height bytes, of which those that are not 0 are marked; it covers the
// rectangle from (x, y) of view_width x view_height pixels of the frame.
struct RegionMask {
  const uint8_t* marked = nullptr;
  int width = 0, height = 0;
  int64_t stride = 0;
  double x = 0, y = 0, view_width = 0, view_height = 0;
};

// Fills `parts` with the rectangles that cover what is marked, and `box` with what they span;
// leaves `parts` empty where nothing is. There are at most `most`: of a mask that would need more,
// pixels are put together, two by two, until it does not. Nothing that is marked is left out.
void cover_mask(const RegionMask& mask, size_t most, Detection* detection);

}  // namespace vf
