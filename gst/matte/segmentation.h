// Reads the images of GstAnalyticsSegmentationMtd (analytics.h). A network made them, so everything
// is checked.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "filters/limits.h"
#include "gst/base/analytics.h"

namespace gstvf {

// Calls take(width, height), which returns memory for as many bytes, and fills it: each byte is
// selected[number of the pixel's region]. `selected` must have 65536 entries. Returns why the image
// cannot be read, else an empty text.
std::string read_segmentation(const SegmentationView& view, const std::vector<uint8_t>& selected,
                              const vf::Limits<int>& size,
                              const std::function<uint8_t*(int width, int height)>& take);

}  // namespace gstvf
