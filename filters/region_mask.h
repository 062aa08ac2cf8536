// Turns masks into regions: rectangles that cover the marked pixels.
#pragma once

#include <cstdint>
#include <vector>

#include "filters/region_tracker.h"

namespace vf {

// Describes an image of width x height bytes. Bytes that are not 0 are marked. The image covers
// view_width x view_height pixels of the frame, from (x, y) on.
struct RegionMask {
  const uint8_t* marked = nullptr;
  int width = 0, height = 0;
  int64_t stride = 0;
  double x = 0, y = 0, view_width = 0, view_height = 0;
};

// Sets the parts of `detection` to rectangles that cover all marked pixels, and its box to the box
// that they span. Leaves no parts if no pixel is marked. There are at most `most` rectangles: the
// resolution of a mask that needs more is halved until it does not.
void cover_mask(const RegionMask& mask, size_t most, Detection* detection);

}  // namespace vf
