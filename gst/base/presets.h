// GstPreset of the elements: which properties a preset keeps.
#pragma once

#include <gst/gst.h>

namespace gstvf {

// For G_IMPLEMENT_INTERFACE.
void init_presets(gpointer iface, gpointer data);

}  // namespace gstvf
