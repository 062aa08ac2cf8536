// The settings of the letterbox: its properties, and the params that they are.
#pragma once

#include "filters/letterbox.h"
#include "gst/base/properties.h"

namespace gstvf {

enum class ChannelOrder { rgb, bgr };

struct LetterboxSettings : vf::LetterboxParams {
  ChannelOrder order = ChannelOrder::rgb;
  // mean and std as they were given.
  Numbers means, stds{1, {1, 1, 1}};
  bool keep_original = false;

  // The params for frames, or for a `tensor` whose colours `to` are put in order.
  vf::LetterboxParams params(bool tensor, vf::ColorFormat* to) const;

  // From class_init. The functions are called after changes of what the geometry depends on, and
  // of the stride, on which the output's size depends too.
  static void install(GObjectClass* klass, LetterboxSettings* (*settings_of)(GObject*),
                      void (*geometry_changed)(GObject*), void (*stride_changed)(GObject*));
};

}  // namespace gstvf
