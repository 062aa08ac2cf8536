// Tensors of segmentation networks as masks of code values of 8 bits.
#pragma once

#include <gst/gst.h>

#include <functional>

#include "filters/guided_mask.h"
#include "gst/base/analytics.h"

namespace gstvf {

enum class MaskActivation { none, sigmoid, softmax };

// Which dimension is what: channels x height x width (also without channels), or height x width x
// channels, inside a batch of 1.
struct MaskShape {
  static constexpr gsize kMaxChannels = 4096, kMaxSide = gsize(vf::MaskPart::kSize.max);
  int channels = 1, width = 0, height = 0;
  bool channels_last = false;
  gsize count() const { return gsize(channels) * width * height; }
};

// Reads the shape of a tensor. What is wrong with it, or empty.
std::string mask_shape(const TensorView& tensor, MaskShape* shape);

// Writes channel `channel` of the tensor to memory for width x height values without padding, which
// `room` gives when the tensor is sure to have them: 255 is 1. `none` clamps to 0 and 1 (a u8
// tensor has code values already); `sigmoid` is of the channel, `softmax` of all channels. Results
// are within a code value of the exact ones. What is wrong with the tensor, or empty.
std::string convert_mask(const TensorView& tensor, const MaskShape& shape, int channel,
                         MaskActivation activation, const std::function<guint8*()>& room);

}  // namespace gstvf
