// Turns tensors of segmentation networks into masks of 8-bit code values.
#pragma once

#include <gst/gst.h>

#include <functional>
#include <vector>

#include "filters/guided_mask.h"
#include "gst/base/analytics.h"

namespace gstvf {

enum class MaskActivation { none, sigmoid, softmax };

// Says how a tensor is laid out: channels x height x width (or height x width), or height x width x
// channels, inside a batch of 1.
struct MaskShape {
  static constexpr gsize kMaxChannels = 4096, kMaxSide = gsize(vf::MaskPart::kSize.max);
  int channels = 1, width = 0, height = 0;
  bool channels_last = false;
  gsize count() const { return gsize(channels) * width * height; }
};

// Reads the shape of a tensor. Returns what is wrong with it, or an empty text.
std::string mask_shape(const TensorView& tensor, MaskShape* shape);

// Writes the sum of some channels of the tensor as width x height bytes without padding, where 255
// means 1 and more. `channels` has at least one number, and none twice. `room` returns the memory,
// and is called once the tensor is known to be large enough. The activation `none` clamps the sum to
// 0 and 1 (a u8 tensor has code values already), `sigmoid` uses each channel alone, and `softmax`
// all channels of the tensor. Results are within one code value per channel of the exact ones.
// Returns what is wrong with the tensor, or an empty text.
std::string convert_mask(const TensorView& tensor, const MaskShape& shape,
                         const std::vector<int>& channels, MaskActivation activation,
                         const std::function<guint8*()>& room);

// Writes for each pixel whose mask is 128 or more the error of the channel with the largest value,
// and 0 for all others. `errors` has a number for each of the channels. The tensor is one that
// convert_mask() has made the mask of.
void choose_errors(const TensorView& tensor, const MaskShape& shape,
                   const std::vector<int>& channels, const std::vector<guint8>& errors,
                   const guint8* mask, guint8* out);

}  // namespace gstvf
