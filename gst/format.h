// Video formats of GStreamer as layouts of the filter library.
//
// Every format whose components are whole bytes or 16-bit words in native byte order has one:
// packed, planar, semi-planar and packed 4:2:2 (whose components become planes that share memory).
// Tiled, palette and bit-packed formats have none.
#pragma once

#include <gst/video/video.h>

#include "filters/image.h"

namespace gstvf {

// What a channel of a plane holds; its components are numbered as GStreamer numbers them: Y U V A
// or R G B A. Padding is the x of formats such as RGBx.
enum class Role : uint8_t { luma, chroma, alpha, padding };

struct Format {
  // Of the caps. Where the caps are not video (tensors), only offset, stride and size are used.
  GstVideoInfo info;
  vf::Layout layout;
  // Where plane i of the layout lies: in which plane of the GstVideoInfo, and how many bytes after
  // that plane's first byte.
  int gst_plane[vf::kMaxPlanes] = {0, 1, 2, 3};
  int offset[vf::kMaxPlanes] = {};
  // Rows of plane i that its two fields share. One more than the layout's where the frame's chroma
  // is odd: interlaced caps allot each field whole rows of chroma.
  int field_rows[vf::kMaxPlanes] = {};
  // Component number of each channel; -1 for padding.
  int component[vf::kMaxPlanes][vf::kMaxChannels] = {};

  bool is_video() const {
    return info.finfo && GST_VIDEO_INFO_FORMAT(&info) != GST_VIDEO_FORMAT_UNKNOWN;
  }
  // Planes of memory: at most as many as the layout has.
  int gst_planes() const;
  // RGB colours count as luma.
  Role role(int plane, int channel) const;
};

// Whether `format` has a layout.
bool has_layout(GstVideoFormat format);

// Fills `out` for video of `info`. False where the format has no layout. GStreamer's CUDA memory
// (`cuda`) has no such rows of chroma as only fields have.
bool make_format(const GstVideoInfo& info, bool cuda, Format* out);

// The layout of the top or bottom field of a frame: rows 0, 2, 4... or 1, 3, 5... False where a
// plane has no rows in that field.
bool field_layout(const Format& frame, bool bottom, vf::Layout* out);

// The weights of red and blue in luma, by the matrix of `info`; those of BT.601 where it names
// none.
void luma_weights(const GstVideoInfo& info, double* kr, double* kb);

// The code values of a colour, given as ARGB with 8 bits each, in the colour space, range and depth
// of `info`: by component number. RGB in, so a video of YUV is converted with its own matrix.
void color_components(const GstVideoInfo& info, guint32 argb, double value[4]);

// The same, by plane and channel; padding gets 0.
void color_planes(const Format& format, guint32 argb,
                  double value[vf::kMaxPlanes][vf::kMaxChannels]);

// Bit c of channels[p] is set where channel c of plane p has one of the roles asked for. Padding
// goes with its neighbours: it is set where any other channel of its plane is.
void select_channels(const Format& format, bool luma, bool chroma, bool alpha,
                     uint8_t channels[vf::kMaxPlanes]);

}  // namespace gstvf
