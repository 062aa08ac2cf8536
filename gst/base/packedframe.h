// Copies frames for elements that may ignore GstVideoMeta, which says where the rows lie.
#pragma once

#include <gst/video/video.h>

#include "filters/status.h"

namespace gstvf {

// Tells whether the elements behind a source pad take frames of its caps in any layout: they read
// GstVideoMeta, or the caps are of CUDA memory.
bool takes_any_layout(GstPad* srcpad);

// Gives a frame in the layout of `info`, for caps of system memory. `*out` is `in` itself, or a
// copy (a full reference) if the rows of `in` lie elsewhere or it is CUDA memory, which reaches the
// host with its padding. `*out` is null if that fails.
vf::Status pack_frame(const GstVideoInfo& info, GstBuffer* in, GstBuffer** out);

}  // namespace gstvf
