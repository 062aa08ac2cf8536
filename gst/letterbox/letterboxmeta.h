// Handles metas at a letterbox: its own (gstcudaletterboxmeta.h), and those that say where
// something is in the picture.
#pragma once

#include <optional>

#include "filters/letterbox.h"
#include "gst/base/format.h"
#include "gst/gstcudaletterboxmeta.h"

namespace gstvf {

// Registers GstCudaLetterboxMeta. It may be called several times.
void register_letterbox_meta();

// Registers a meta of `size` bytes that begin as zeros, unless another copy of this code in the
// process already has.
const GstMetaInfo* register_meta(const gchar* api, const gchar* name, gsize size,
                                 GstMetaFreeFunction free, GstMetaTransformFunction transform);

// Writes the meta, replacing one that is there. The buffer must be writable.
void set_letterbox_meta(GstBuffer* buffer, const vf::LetterboxGeometry& geometry);

// Copies `meta` of a frame to the output, which is video if `to_video`. Moves it with the picture
// if it says where something is. Returns the result for transform_meta, or nothing if the base
// class is to decide.
std::optional<bool> move_meta(GstMeta* meta, GstBuffer* inbuf, GstBuffer* outbuf, bool to_video,
                              const vf::LetterboxGeometry& geometry);

// Maps a rectangle of the source to the output and rounds its edges.
struct Rectangle {
  int x, y, w, h;
};
Rectangle map_rectangle(const vf::LetterboxGeometry& geometry, double x, double y, double w,
                        double h);

// Adds the GstTensorMeta to a batch of `n` tensors in `format`. The tensors must be written
// already, since the meta shares their memory.
void describe_tensor(GstBuffer* buffer, const Format& format, gsize n = 1);

}  // namespace gstvf
