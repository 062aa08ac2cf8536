// Holds what a backend gets for a Gaussian: weights instead of GaussianParams.
#pragma once

#include <vector>

#include "filters/gaussian.h"

namespace vf {

// Holds everything that is computed from the parameters for one plane.
struct GaussianPlane {
  // The weights along each axis are 2 * radius + 1 numbers whose sum is 1.
  std::vector<double> weights_x, weights_y;
  uint8_t channels = 0xf;  // bit c set: channel c is filtered, else copied
  double border_value[kMaxChannels] = {};
  bool copies() const { return channels == 0 || (weights_x.size() == 1 && weights_y.size() == 1); }
};

struct GaussianTask {
  Layout layout;
  Border border = Border::reflect_101;
  Placement placement = Placement::separate;
  std::vector<GaussianPlane> plane;  // one for each plane of the layout
};

}  // namespace vf
