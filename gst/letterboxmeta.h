// Metas at a letterbox: its own (gstcudaletterboxmeta.h), and those that say where something is in
// the picture.
#pragma once

#include <optional>

#include "filters/letterbox.h"
#include "gst/format.h"
#include "gst/gstcudaletterboxmeta.h"

namespace gstvf {

// Makes GstCudaLetterboxMeta known; any number of times.
void register_letterbox_meta();

// Writes the meta, over one that is there. The buffer is writable.
void set_letterbox_meta(GstBuffer* buffer, const vf::LetterboxGeometry& geometry);

// Copies `meta` of a frame to what the letterbox makes of it (`out`), moved with the picture where
// it says where something is. What transform_meta is to return, or nothing where that is for the
// base class to say.
std::optional<bool> move_meta(GstMeta* meta, GstBuffer* inbuf, GstBuffer* outbuf, const Format& out,
                              const vf::LetterboxGeometry& geometry);

// The GstTensorMeta of a tensor in `format`. The tensor must be written: its memory is shared
// afterwards.
void describe_tensor(GstBuffer* buffer, const Format& format);

}  // namespace gstvf
