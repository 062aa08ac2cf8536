// Holds the settings of the letterbox, installs their properties, and makes params of them.
#pragma once

#include "filters/letterbox.h"
#include "gst/base/properties.h"

namespace gstvf {

enum class ChannelOrder { rgb, bgr };

struct LetterboxSettings : vf::LetterboxParams {
  ChannelOrder order = ChannelOrder::rgb;
  // mean and std as the user gave them.
  Numbers means, stds{1, {1, 1, 1}};
  bool keep_original = false;

  // Returns the params for frames, or for a `tensor`, and puts the colours of `to` in the tensor's
  // order.
  vf::LetterboxParams params(bool tensor, vf::ColorFormat* to) const;

  // Tells whether both give the same result for every picture.
  bool operator==(const LetterboxSettings& other) const;

  // Call this from class_init. `geometry_changed` is called after changes of settings that the
  // geometry depends on, and `stride_changed` after changes of the stride, on which the output's
  // size also depends. If `stride_changed` is null, the output's size is fixed: then there are no
  // properties stride and keep-original, and originals are always kept.
  static void install(GObjectClass* klass, LetterboxSettings* (*settings_of)(GObject*),
                      void (*geometry_changed)(GObject*), void (*stride_changed)(GObject*));
};

}  // namespace gstvf
