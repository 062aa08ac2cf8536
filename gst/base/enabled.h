// The property enabled lets frames pass unfiltered if it is false.
//
// Caps, latency and the mode of GstBaseTransform do not depend on it, so switching needs no
// negotiation. If both pads have the same caps, the incoming buffer goes out, and no plan is made.
// If they differ, the element makes a plan that converts the frame (gst_cuda_video_filter_is_off).
// Settings that change while frames pass are tried when the filter is switched on again, and are
// put back if no plan can be made with them.
#pragma once

#include "gst/base/gstcudavideofilter.h"

namespace gstvf {

// Installs the property. An element that has it calls this in its class_init.
void install_enabled(GObjectClass* klass);

// Applies a change of the property and of the other settings before a frame (videofilterprivate.h).
void follow_settings(GstCudaVideoFilter* self, GstBuffer* in);
// True if the next frame goes out as it came in because the filter is off.
bool bypasses(GstCudaVideoFilter* self);
// Returns such a frame: the buffer itself, or a packed copy if the next element needs one.
vf::Status bypass(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer** out);

}  // namespace gstvf
