// Metas at a letterbox: its own (gstcudaletterboxmeta.h), and those that say where something is in
// the picture.
#pragma once

#include <optional>

#include "filters/letterbox.h"
#include "gst/base/format.h"
#include "gst/gstcudaletterboxmeta.h"

namespace gstvf {

// Makes GstCudaLetterboxMeta known; any number of times.
void register_letterbox_meta();

// Writes the meta, over one that is there. The buffer is writable.
void set_letterbox_meta(GstBuffer* buffer, const vf::LetterboxGeometry& geometry);

// Copies `meta` of a frame to what becomes of it, video or not, moved with the picture where it
// says where something is. What transform_meta is to return, or nothing where that is for the base
// class to say.
std::optional<bool> move_meta(GstMeta* meta, GstBuffer* inbuf, GstBuffer* outbuf, bool to_video,
                              const vf::LetterboxGeometry& geometry);

// Where a rectangle of the source is in the output, to the nearest edges.
struct Rectangle {
  int x, y, w, h;
};
Rectangle map_rectangle(const vf::LetterboxGeometry& geometry, double x, double y, double w,
                        double h);

// The GstTensorMeta of a tensor in `format`. The tensor must be written: its memory is shared
// afterwards.
void describe_tensor(GstBuffer* buffer, const Format& format);

}  // namespace gstvf
