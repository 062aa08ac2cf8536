// Holds the settings of the guided matte and installs their properties.
#pragma once

#include "filters/guided.h"
#include "gst/base/properties.h"
#include "gst/matte/guidedmattecaps.h"
#include "gst/matte/guidedmattemask.h"

namespace gstvf {

// Adds the colours as ARGB, since the params hold them as code values.
struct GuidedMatteSettings : vf::GuidedParams, MatteMaskSettings {
  guint key_argb = 0x00ff00;
  guint background_argb = 0xff000000;

  vf::MatteMask kind_of_mask() const;
  // Returns the settings of a matte of 1 everywhere: the picture opaque, at little cost.
  static GuidedMatteSettings opaque();
  // Returns the settings that the formats depend on, for this output.
  MatteCaps caps(vf::MatteOutput output) const;

  // Installs all properties, from class_init. The last two arguments are the options of `mask` and
  // `output`.
  static void install(GObjectClass* klass, GuidedMatteSettings* (*settings_of)(GObject*),
                      const RowOptions& mask_options, const RowOptions& output_options);
};

}  // namespace gstvf
