// Implements GstPreset for the elements: chooses the properties that a preset keeps.
#pragma once

#include <gst/gst.h>

namespace gstvf {

// Initialises the interface. G_IMPLEMENT_INTERFACE takes it.
void init_presets(gpointer iface, gpointer data);

}  // namespace gstvf
