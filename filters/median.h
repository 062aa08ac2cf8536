// Median filter.
//
//   out(x, y) = sorted(window)[count / 2]
//
// over the window of size x size_y pixels centred on (x, y), each channel on its own. With a border
// other than shrink the window is always whole (also where it is larger than the frame; reflect-101
// goes on repeating), its count is odd and the result is its middle value. With Border::shrink only
// pixels inside the frame count; of an even count the result is the upper middle.
//
// Types: u8, u16, f32; 1 to 4 channels. The result is always one of the values of the window, bit
// for bit the same on every backend. f32 orders -0 before +0 and NaN, whatever its sign, after
// everything else; a NaN result is a quiet NaN whose payload is not kept.
//
// With a threshold above 0 (a switching median) a pixel keeps its value unless it is an outlier:
//
//   m = sorted(window)[count / 2]
//   out = m   where in is the least or the greatest value of the window, and |in - m| > threshold
//   out = in  elsewhere
//
// The difference of f32 is taken in single precision; where it is NaN it counts as above.
//
// Planes with subsampled chroma are filtered with the window scaled to them: the radius is divided
// by the subsampling (2; 4 in Y41B and YUV9), rounded half up once, and stays at least 1 where the
// frame's is.
//
// The outliers' cost does not depend on the image: minima and maxima of the windows, by columns and
// by rows.
//
// src and dst may be the same image if the plan is made with Placement::in_place. That costs
// scratch memory: never more than the plan's scratch for the frame itself, and on CUDA one copy of
// it.
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

  int size = 3;    // pixels, odd, 1 to kMaxSize. 1 leaves that axis alone.
  int size_y = 0;  // odd, 1 to kMaxSize; 0 means size
  // 8-bit code values, 0 to 255: of integers of n bits, threshold * 2^(n - 8) is compared, of f32
  // threshold / 255. 0: every pixel becomes the median.
  double threshold = 0;
  Border border = Border::replicate;  // replicate, reflect_101, constant or shrink
  // Values seen outside the frame with Border::constant: code values (before the layout's shift),
  // rounded to the nearest and within the type and the layout's max_value; f32 any.
  double border_value[kMaxPlanes][kMaxChannels] = {};
  // Bit c of a plane: channel c is filtered; others are copied.
  uint8_t channels[kMaxPlanes] = {0xf, 0xf, 0xf, 0xf};
};

// Whether `params` leave every pixel as it is: for the window is one pixel, or no channel is
// filtered.
bool is_identity(const MedianParams& params);

Status make_median(Queue& queue, const Layout& layout, const MedianParams& params,
                   Placement placement, std::unique_ptr<Plan>* out);

}  // namespace vf
