// Images of GstAnalyticsSegmentationMtd (analytics.h), of which nothing is sure to be true.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "filters/limits.h"
#include "gst/base/analytics.h"

namespace gstvf {

// Calls take(width, height), which gives memory for as many bytes, and fills it: each pixel's byte
// is that of `selected` for the number of its region, of which there must be 65536. What is wrong
// with a segmentation whose image cannot be read; else empty.
std::string read_segmentation(const SegmentationView& view, const std::vector<uint8_t>& selected,
                              const vf::Limits<int>& size,
                              const std::function<uint8_t*(int width, int height)>& take);

}  // namespace gstvf
