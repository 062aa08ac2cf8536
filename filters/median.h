// Replaces pixels by the median of their window.
//
//   out(x, y) = sorted(window)[count / 2]
//
// The window has size x size_y pixels centred on (x, y), and each channel is filtered on its own.
// With a border other than shrink the window is always whole, also where it is larger than the
// frame (reflect-101 goes on repeating). Its count is odd, and the result is its middle value. With
// Border::shrink only pixels inside the frame count. If their count is even, the result is the
// upper middle.
//
// Components are u8, u16 or f32, in 1 to 4 channels. The result is one of the values of the window,
// bit for bit the same on every backend. f32 orders -0 before +0, and NaN of any sign after
// everything else. A NaN result is a quiet NaN whose payload is not kept.
//
// With a threshold above 0 (a switching median), a pixel keeps its value unless it is an outlier:
//
//   m = sorted(window)[count / 2]
//   out = m   where in is the minimum or the maximum of the window, and |in - m| > threshold
//   out = in  elsewhere
//
// The difference of f32 is computed in single precision. A difference of NaN counts as above the
// threshold.
//
// The window is scaled to planes with subsampled chroma: the radius is divided by the subsampling
// (2, or 4 in Y41B and YUV9) and rounded half up. It stays at least 1 if the radius in the frame is
// at least 1.
//
// The time of the switching median does not depend on the image.
//
// src and dst may be the same image if the plan is made with Placement::in_place. Then the plan may
// need scratch memory for a copy of the largest plane.
#pragma once

#include <memory>

#include "filters/border.h"
#include "filters/limits.h"
#include "filters/plan.h"

namespace vf {

struct MedianParams {
  static constexpr int kMaxSize = 255;
  static constexpr Limits<int> kSize{1, kMaxSize, is_odd, "odd"};
  static constexpr Limits<double> kThreshold{0, 255};
  static constexpr Limits<int> kSizeY{0, kMaxSize, is_zero_or_odd, "0 or odd"};

  int size = 3;    // pixels, odd, 1 to kMaxSize. 1 does not filter along that axis.
  int size_y = 0;  // odd, 1 to kMaxSize; 0 means size
  // The threshold counts 8-bit code values. Differences of n-bit integers are compared with
  // threshold * 2^(n - 8), and those of f32 with threshold / 255. With 0 every pixel becomes the
  // median.
  double threshold = 0;
  Border border = Border::replicate;  // replicate, reflect_101, constant or shrink
  // Values that Border::constant shows outside the frame. Integers are code values before the
  // layout's shift, rounded to the nearest, and must be within the type and the layout's max_value.
  // f32 may have any value.
  double border_value[kMaxPlanes][kMaxChannels] = {};
  // Bit c of a plane's entry selects channel c. Other channels are copied.
  uint8_t channels[kMaxPlanes] = {0xf, 0xf, 0xf, 0xf};
};

// Returns whether `params` leave every pixel as it is, because the window is one pixel or no
// channel is selected.
bool is_identity(const MedianParams& params);

Status make_median(Queue& queue, const Layout& layout, const MedianParams& params,
                   Placement placement, std::unique_ptr<Plan>* out);

}  // namespace vf
