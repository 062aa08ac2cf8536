// The settings of the guided matte, and their properties.
#pragma once

#include "filters/guided.h"
#include "gst/base/properties.h"
#include "gst/matte/guidedmattecaps.h"
#include "gst/matte/guidedmattemask.h"

namespace gstvf {

// The colours are code values in the params, and ARGB here.
struct GuidedMatteSettings : vf::GuidedParams, MatteMaskSettings {
  guint key_argb = 0x00ff00;
  guint background_argb = 0xff000000;

  vf::MatteMask kind_of_mask() const;
  // Those of a matte of 1 everywhere: the picture opaque, at little cost.
  static GuidedMatteSettings opaque();
  // What the formats depend on, with this output.
  MatteCaps caps(vf::MatteOutput output) const;

  // Installs all properties, from class_init. The last two are the options of `mask` and `output`.
  static void install(GObjectClass* klass, GuidedMatteSettings* (*settings_of)(GObject*),
                      MatteMaskSettings* (*mask_settings_of)(GObject*),
                      const RowOptions& mask_options, const RowOptions& output_options);
};

}  // namespace gstvf
