// Restores the original of a letterboxed frame, with the results that a network found in the
// letterboxed frame.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include "filters/letterbox.h"
#include "gst/letterbox/letterboxoriginal.h"

namespace gstvf {

// Copies the metas of a frame to the row of a tensor that was made of it, as cudaletterbox does.
void letterbox_metas(GstBuffer* frame, GstBuffer* row, const vf::LetterboxGeometry& geometry);

// Finds where the picture lies in a letterboxed frame of `info` (without a format for a tensor),
// whose original has `caps`. Returns false if that is unknown or impossible.
bool find_place(GstBuffer* frame, GstCaps* caps, const GstVideoInfo& info,
                vf::LetterboxGeometry* place);

// Returns the original of a frame (taken), whose meta is `meta`, with the metas and times of the
// frame, as a full reference to a writable buffer. It is the same buffer if nobody else holds it,
// else another one with its memory. If the frame is video, tensors of networks are copied too.
GstBuffer* restore_frame(GstBuffer* frame, OriginalMeta* meta, const vf::LetterboxGeometry& place,
                         bool is_video);

// Adds an always pad to an element, with the function for its events and, for a sink pad, the one
// for its buffers.
GstPad* add_pad(GstElement* element, const char* name, GstPadEventFunction event,
                GstPadChainFunction chain = nullptr);

// Pushes an original (taken) of `info`. Copies it if its rows do not lie as caps of system memory
// say and downstream does not take `any_layout`. Posts an error if it cannot be copied.
GstFlowReturn push_original(GstPad* srcpad, const GstVideoInfo& info, bool any_layout,
                            GstBuffer* buffer);

}  // namespace gstvf
