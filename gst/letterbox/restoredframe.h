// The way back from a letterboxed frame to its original, with what was found in it.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include "filters/letterbox.h"
#include "gst/letterbox/letterboxoriginal.h"

namespace gstvf {

// Where the picture lies in a letterboxed frame of `info` (of no format where it is a tensor),
// whose original has `caps`. False where that is not known, or cannot be.
bool find_place(GstBuffer* frame, GstCaps* caps, const GstVideoInfo& info,
                vf::LetterboxGeometry* place);

// The geometry of the way back.
vf::LetterboxGeometry inverse(const vf::LetterboxGeometry& geometry);

// Copies what `frame` has and its original has not to `original` (writable), moved by `back`.
// `moved` (may be null) has the original's own metas as the letterbox moved them: those stay as
// they are in `original`.
void restore_metas(GstBuffer* frame, GstBuffer* original, GstBuffer* moved,
                   const vf::LetterboxGeometry& back);

// The original of a frame (taken), whose meta is `meta`, with the metas and times of the frame:
// full and writable. It is the buffer itself where nobody else holds it, else another with its
// memory.
// Where the frame is video, tensors of networks come along.
GstBuffer* restore_frame(GstBuffer* frame, OriginalMeta* meta, const vf::LetterboxGeometry& place,
                         bool is_video);

// Pushes an original (taken) of `info`: a copy, where it does not lie as caps of system memory say
// and downstream does not take `any_layout`. Posts an error where it cannot be copied.
GstFlowReturn push_original(GstPad* srcpad, const GstVideoInfo& info, bool any_layout,
                            GstBuffer* buffer);

}  // namespace gstvf
