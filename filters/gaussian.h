// Separable Gaussian blur.
//
//   out(x, y) = sum_j sum_i wy(j) wx(i) in(x + i, y + j),  w(d) = exp(-d^2 / (2 sigma^2)) / sum
//
// with pixels outside the frame as the border says, also where the kernel is larger than the frame
// (reflect and wrap go on repeating). Integer results are rounded to the nearest code value.
//
// Types: u8, u16, s16, s32, f32; 1 to 4 channels; layouts with several planes filter each plane
// with the kernel scaled to it. Results are at most 1 code value from a double-precision reference
// (8 bit: at least 99 % of values equal, in frames of 100 values and more), f32 within 1e-5 of the
// largest magnitude under the kernel.
//
// src and dst may be the same image if the plan is made with Placement::in_place.
#pragma once

#include <cfloat>
#include <memory>

#include "filters/border.h"
#include "filters/limits.h"
#include "filters/plan.h"

namespace vf {

struct GaussianParams {
  // Largest kernel, in taps, along either axis. A sigma whose kernel would be larger is refused.
  static constexpr int kMaxKernelSize = 511;
  static constexpr Limits<double> kSigma{0, DBL_MAX};
  static constexpr Limits<double> kSigmaY{-1, DBL_MAX, is_minus_one_or_more, "-1, or 0 or more"};
  static constexpr Limits<int> kKernelSize{0, kMaxKernelSize, is_zero_or_odd, "0 or odd"};

  // Standard deviation in pixels of the frame, 0 and up. 0 does not blur along that axis.
  double sigma = 1.5;
  double sigma_y = -1;  // -1 means sigma
  // Odd number of taps, 1 to kMaxKernelSize. 0 means OpenCV's rule: round(6 sigma + 1) made odd for
  // u8, round(8 sigma + 1) made odd for the other types.
  int kernel_size = 0;
  // 0 means kernel_size where that was given, else the rule for sigma_y.
  int kernel_size_y = 0;
  Border border = Border::reflect_101;
  // Code values seen outside the frame with Border::constant.
  double border_value[kMaxPlanes][kMaxChannels] = {};
  // Bit c of a plane: channel c is filtered; others are copied.
  uint8_t channels[kMaxPlanes] = {0xf, 0xf, 0xf, 0xf};
};

// Whether `params` leave every pixel as it is: for they do not blur, or filter no channel.
bool is_identity(const GaussianParams& params);

// The number of taps OpenCV's rule gives for `sigma`: 1 where sigma is 0.
int gaussian_kernel_size(double sigma, Type type);

Status make_gaussian(Queue& queue, const Layout& layout, const GaussianParams& params,
                     Placement placement, std::unique_ptr<Plan>* out);

}  // namespace vf
