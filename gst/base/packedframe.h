// Frames that go on as they came in, to who may not look where their rows lie.
#pragma once

#include <gst/video/video.h>

#include "filters/status.h"

namespace gstvf {

// Whether what is behind a source pad takes frames of the pad's caps however they lie: it reads
// GstVideoMeta, or they are in CUDA memory by their caps.
bool takes_any_layout(GstPad* srcpad);

// Gives a frame that lies as `info`, of caps of system memory, says: `in` itself, or a copy (full),
// where its rows lie elsewhere, or it is CUDA memory, which comes to the host with all that it is
// padded by. Null where that fails.
vf::Status pack_frame(const GstVideoInfo& info, GstBuffer* in, GstBuffer** out);

}  // namespace gstvf
