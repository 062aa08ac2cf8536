// What a backend gets of a Gaussian: weights, never GaussianParams.
#pragma once

#include <vector>

#include "filters/backend.h"
#include "filters/gaussian.h"

namespace vf {

// One plane with everything derived.
struct GaussianPlane {
  // Normalised weights; size 2 * radius + 1, at least 1.
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
