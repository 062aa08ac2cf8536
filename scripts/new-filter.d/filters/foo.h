// Sharpens with a window of 3 x 3 samples.
//
//   out = in + strength * (in - mean)
//
// Here `mean` is the mean of the 3 x 3 samples around a sample. The edge's samples are repeated
// outside the frame. Each channel is filtered on its own. In planes with subsampled chroma, the
// window has 3 x 3 samples of the plane.
//
// Types are u8, u16 and f32, with 1 to 4 channels. Integers are rounded to the nearest code and
// clamped to 0 and the layout's max_value. Backends may differ by one code.
//
// src and dst may be the same image if the plan is made with Placement::in_place. Then the plan
// copies the largest plane.
#pragma once

#include <memory>

#include "filters/limits.h"
#include "filters/plan.h"

namespace vf {

struct FooParams {
  static constexpr Limits<double> kStrength{0, 2};

  double strength = 0.5;  // factor on the difference to the mean. 0 leaves frames alone.
  // Bit c of a plane: channel c is filtered; others are copied.
  uint8_t channels[kMaxPlanes] = {0xf, 0xf, 0xf, 0xf};
};

// Whether `params` leave every pixel as it is.
bool is_identity(const FooParams& params);

Status make_foo(Queue& queue, const Layout& layout, const FooParams& params, Placement placement,
                std::unique_ptr<Plan>* out);

}  // namespace vf
