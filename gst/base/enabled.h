// The property enabled: with false, frames pass unfiltered.
//
// Caps and latency do not depend on it, and neither does the mode of GstBaseTransform: to switch
// costs no negotiation. Where the caps of both pads are the same, the buffer that came in goes out,
// and no plan is made. Where they differ, the element makes a plan that converts the frame
// (gst_cuda_video_filter_is_off). A change that was made while frames passed is tried when the
// filter is switched on again, and is put back where no plan can be made with it.
#pragma once

#include "gst/base/gstcudavideofilter.h"

namespace gstvf {

// Installs the property, from class_init of an element that has it.
void install_enabled(GObjectClass* klass);

// Before a frame: follows the property, and then the other settings (videofilterprivate.h).
void follow_settings(GstCudaVideoFilter* self, GstBuffer* in);
// Whether the next frame goes out as it came in because the filter is off.
bool bypasses(GstCudaVideoFilter* self);
// Gives such a frame: the buffer itself, or a packed copy where the next element takes no other.
vf::Status bypass(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer** out);

}  // namespace gstvf
