// Images as OpenCV sees them: no copy.
#pragma once

#if VF_HAVE_OPENCV

#include <opencv2/core.hpp>

#include "filters/image.h"

namespace vf::bench {

// Plane 0.
inline cv::Mat mat_of(const Image& image) {
  const PlaneLayout& l = image.layout.plane[0];
  constexpr int depths[] = {CV_8U, CV_16U, CV_16S, CV_32S, CV_32F};
  return cv::Mat(l.height, l.width, CV_MAKETYPE(depths[int(image.layout.type)], l.channels),
                 image.data[0], size_t(image.stride[0]));
}

}  // namespace vf::bench

#endif
