// What caps describe, as the filter library sees it: frames of video, or tensors.
//
// Every video format whose components are whole bytes or 16-bit words in native byte order has a
// layout: packed, planar, semi-planar and packed 4:2:2 (whose components become planes that share
// memory). Tiled, palette and bit-packed formats have none.
#pragma once

#include <gst/video/video.h>

#include <optional>

#include "filters/color.h"

namespace gstvf {

struct Format {
  // Nothing for a tensor.
  std::optional<GstVideoInfo> video;
  vf::Layout layout;
  // What the layout's components mean.
  vf::ColorFormat color;
  int width = 0, height = 0;  // pixels
  // The memory of a buffer, by the caps. A GstVideoMeta or CUDA memory may know better.
  gsize size = 0;         // bytes
  int memory_planes = 0;  // at most as many as the layout has
  gsize memory_offset[vf::kMaxPlanes] = {};
  int memory_stride[vf::kMaxPlanes] = {};
  // Where plane i of the layout lies: in which plane of the memory, and how many bytes after that
  // plane's first byte.
  int memory_plane[vf::kMaxPlanes] = {0, 1, 2, 3};
  int offset[vf::kMaxPlanes] = {};
  // Rows of plane i that its two fields share. One more than the layout's where the frame's chroma
  // is odd: interlaced caps allot each field whole rows of chroma.
  int field_rows[vf::kMaxPlanes] = {};

  bool is_video() const { return video.has_value(); }
  // For messages: "NV12", or "tensor".
  const char* name() const { return video ? video->finfo->name : "tensor"; }
};

// Whether `format` has a layout.
bool has_layout(GstVideoFormat format);

// Fills `out` for video of `info`. False where the format has no layout. GStreamer's CUDA memory
// (`cuda`) has no such rows of chroma as only fields have.
bool make_format(const GstVideoInfo& info, bool cuda, Format* out);

// Fills `out` for a tensor of width x height pixels of red, green, blue: three planes (NCHW) where
// `planar`, else one (NHWC); u8, f32, or u16 for floats of 16 bits. False where it is too large.
bool make_tensor_format(vf::Type type, bool planar, int width, int height, Format* out);

// The layout of the top or bottom field of a frame: rows 0, 2, 4... or 1, 3, 5... False where a
// plane has no rows in that field.
bool field_layout(const Format& frame, bool bottom, vf::Layout* out);

}  // namespace gstvf
