// Holds what a backend gets for a median: the window of each plane, and border values as stored.
#pragma once

#include <vector>

#include "filters/median.h"

namespace vf {

// Holds everything that is computed from the parameters for one plane.
struct MedianPlane {
  int size_x = 1, size_y = 1;  // odd
  uint8_t channels = 0xf;      // bit c set: channel c is filtered, else copied
  // The value has the form that components store: shifted, or the bits of a float.
  uint32_t border_value[kMaxChannels] = {};
  bool copies() const { return channels == 0 || (size_x == 1 && size_y == 1); }
};

struct MedianTask {
  Layout layout;
  Border border = Border::replicate;
  Placement placement = Placement::separate;
  bool outliers_only = false;      // a threshold is given
  uint32_t threshold = 0;          // in stored form: shifted, or the bits of a float
  std::vector<MedianPlane> plane;  // one for each plane of the layout
};

}  // namespace vf
