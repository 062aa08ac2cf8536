// Describes caps to the filter library: frames of video, or tensors.
//
// A video format has a layout if its components are whole bytes or 16-bit words in native byte
// order: packed, planar, semi-planar and packed 4:2:2 formats (whose components become planes that
// share memory). Tiled, palette and bit-packed formats have none.
#pragma once

#include <gst/video/video.h>

#include <optional>
#include <vector>

#include "filters/color.h"

namespace gstvf {

struct Format {
  // Empty if this is a tensor.
  std::optional<GstVideoInfo> video;
  vf::Layout layout;
  // This holds the roles of the layout's components, and their colour space.
  vf::ColorFormat color;
  int width = 0, height = 0;  // pixels
  // The caps describe this memory layout of a buffer. A GstVideoMeta or CUDA memory may have
  // another one.
  gsize size = 0;         // bytes
  int memory_planes = 0;  // at most as many as the layout has
  gsize memory_offset[vf::kMaxPlanes] = {};
  int memory_stride[vf::kMaxPlanes] = {};
  // Plane i of the layout lies in this plane of the memory, so many bytes after its first byte.
  int memory_plane[vf::kMaxPlanes] = {0, 1, 2, 3};
  int offset[vf::kMaxPlanes] = {};
  // Rows of plane i that its two fields share. If the frame's chroma has an odd height, this is one
  // more than the layout's height: interlaced caps give each field whole rows of chroma.
  int field_rows[vf::kMaxPlanes] = {};

  bool is_video() const { return video.has_value(); }
  // Returns the name for messages: "NV12", or "tensor".
  const char* name() const { return video ? video->finfo->name : "tensor"; }
};

// Lists the formats that have a layout. Common formats have the lowest numbers and come first.
const std::vector<const GstVideoFormatInfo*>& formats_with_layout();

// Fills `out` for video of `info`. Returns false if the format has no layout. In GStreamer's CUDA
// memory (`cuda`), fields have no extra row of chroma.
bool make_format(const GstVideoInfo& info, bool cuda, Format* out);

// Fills `out` for a tensor of width x height pixels of red, green and blue: three planes (NCHW) if
// `planar`, else one (NHWC). The type is u8, f32, or u16 for 16-bit floats. Returns false if the
// tensor is too large.
bool make_tensor_format(vf::Type type, bool planar, int width, int height, Format* out);

// Makes the layout of the top field (rows 0, 2, 4...) or of the bottom field (rows 1, 3, 5...) of a
// frame. Returns false if a plane has no rows in that field.
bool field_layout(const Format& frame, bool bottom, vf::Layout* out);

}  // namespace gstvf
