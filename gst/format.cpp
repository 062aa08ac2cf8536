#include "gst/format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gstvf {
namespace {

int scaled(int size, int sub) {
  return -((-size) >> sub);
}

bool native_byte_order(const GstVideoFormatInfo* f) {
  // AYUV64, ARGB64 and the like have no suffix and are native.
  if (g_str_has_suffix(f->name, "LE")) return G_BYTE_ORDER == G_LITTLE_ENDIAN;
  if (g_str_has_suffix(f->name, "BE")) return G_BYTE_ORDER == G_BIG_ENDIAN;
  return true;
}

// Bytes from the start of a pixel to a component. GStreamer 1.22 says 1 for V of P010 and its like.
int component_offset(const GstVideoFormatInfo* f, int c) {
  return f->depth[c] > 8 && f->poffset[c] == 1 ? 2 : f->poffset[c];
}

// Components that lie in one plane of memory next to each other, all sampled alike.
struct Group {
  int count = 0;
  int component[4];
};

bool sampled_alike(const GstVideoFormatInfo* f, int a, int b) {
  return f->plane[a] == f->plane[b] && f->pixel_stride[a] == f->pixel_stride[b] &&
         f->w_sub[a] == f->w_sub[b] && f->h_sub[a] == f->h_sub[b];
}

// The planes of a layout without sizes, types and frame. False where the format has none.
bool group_components(const GstVideoFormatInfo* f, Group group[4], int* groups) {
  constexpr int refused =
      GST_VIDEO_FORMAT_FLAG_PALETTE | GST_VIDEO_FORMAT_FLAG_COMPLEX | GST_VIDEO_FORMAT_FLAG_TILED;
  // Its 10 bits are the upper ones of 16, whatever its description says.
  if (f->format == GST_VIDEO_FORMAT_Y210) return false;
  const int n = f->n_components;
  if (n < 1 || n > 4 || (f->flags & refused)) return false;
  const int bytes = f->depth[0] > 8 ? 2 : 1;
  if (bytes == 2 && !native_byte_order(f)) return false;
  for (int c = 0; c < n; c++) {
    if (f->depth[c] != f->depth[0] || f->shift[c] != f->shift[0]) return false;
    if (f->depth[c] < 8 || f->depth[c] + f->shift[c] > 8 * guint(bytes)) return false;
    if (f->pixel_stride[c] < bytes || f->pixel_stride[c] % bytes || component_offset(f, c) % bytes)
      return false;
    if (f->w_sub[c] > 3 || f->h_sub[c] > 3) return false;
    // Components that share a word, such as those of RGB10A2_LE.
    for (int d = 0; d < c; d++)
      if (f->plane[c] == f->plane[d] && component_offset(f, c) == component_offset(f, d))
        return false;
  }
  *groups = 0;
  for (int c = 0; c < n; c++) {
    int g = 0;
    while (g < *groups && !sampled_alike(f, group[g].component[0], c)) g++;
    if (g == *groups) group[(*groups)++].count = 0;
    group[g].component[group[g].count++] = c;
  }
  // Components of packed 4:2:2 are views of one channel each: no two of them are neighbours.
  for (int g = 0; g < *groups; g++) {
    const Group whole = group[g];
    const int first = whole.component[0];
    bool shared = false;
    for (int other = 0; other < *groups; other++)
      shared |= other != g && f->plane[group[other].component[0]] == f->plane[first];
    if (!shared || whole.count == 1) continue;
    group[g].count = 1;
    for (int i = 1; i < whole.count; i++) {
      group[*groups].count = 1;
      group[(*groups)++].component[0] = whole.component[i];
    }
  }
  return *groups <= vf::kMaxPlanes;
}

bool is_alpha(const GstVideoFormatInfo* f, int component) {
  return GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f) && component == GST_VIDEO_COMP_A;
}

}  // namespace

int Format::gst_planes() const {
  int n = 0;
  for (int i = 0; i < layout.planes; i++) n = std::max(n, gst_plane[i] + 1);
  return n;
}

Role Format::role(int plane, int channel) const {
  const int c = component[plane][channel];
  if (c < 0) return Role::padding;
  if (!is_video()) return Role::luma;
  if (is_alpha(info.finfo, c)) return Role::alpha;
  return c > 0 && GST_VIDEO_FORMAT_INFO_IS_YUV(info.finfo) ? Role::chroma : Role::luma;
}

bool has_layout(GstVideoFormat format) {
  if (format <= GST_VIDEO_FORMAT_ENCODED) return false;
  const GstVideoFormatInfo* f = gst_video_format_get_info(format);
  Group group[4];
  int groups;
  return f && group_components(f, group, &groups);
}

bool make_format(const GstVideoInfo& info, bool cuda, Format* out) {
  const GstVideoFormatInfo* f = info.finfo;
  Group group[4];
  int groups = 0;
  if (!f || GST_VIDEO_INFO_FORMAT(&info) <= GST_VIDEO_FORMAT_ENCODED ||
      !group_components(f, group, &groups))
    return false;
  *out = Format();
  out->info = info;
  const int bytes = f->depth[0] > 8 ? 2 : 1;
  vf::Layout& l = out->layout;
  l.type = bytes == 2 ? vf::Type::u16 : vf::Type::u8;
  l.shift = f->shift[0];
  l.max_value = f->depth[0] == guint(8 * bytes) ? 0 : (1 << f->depth[0]) - 1;
  l.planes = groups;
  std::fill_n(&out->component[0][0], vf::kMaxPlanes * vf::kMaxChannels, -1);
  for (int i = 0; i < groups; i++) {
    const int first = group[i].component[0];
    vf::PlaneLayout& p = l.plane[i];
    p.width = scaled(info.width, f->w_sub[first]);
    p.height = scaled(info.height, f->h_sub[first]);
    p.sub_x = f->w_sub[first];
    p.sub_y = f->h_sub[first];
    const bool whole_fields = p.sub_y && GST_VIDEO_INFO_IS_INTERLACED(&info) && !cuda;
    out->field_rows[i] = whole_fields ? GST_ROUND_UP_2(p.height) : p.height;
    const int step = f->pixel_stride[first] / bytes;
    out->gst_plane[i] = f->plane[first];
    if (group[i].count == 1) {
      p.channels = 1;
      p.step = step == 1 ? 0 : step;
      out->offset[i] = component_offset(f, first);
      out->component[i][0] = first;
    } else {
      // The whole pixel, padding included: filtering that too is faster than stepping over it.
      if (step > vf::kMaxChannels) return false;
      p.channels = step;
      for (int j = 0; j < group[i].count; j++) {
        const int c = group[i].component[j];
        out->component[i][component_offset(f, c) / bytes] = c;
      }
    }
  }
  return true;
}

bool field_layout(const Format& frame, bool bottom, vf::Layout* out) {
  *out = frame.layout;
  for (int i = 0; i < out->planes; i++) {
    out->plane[i].height = (frame.field_rows[i] + (bottom ? 0 : 1)) / 2;
    if (out->plane[i].height == 0) return false;
  }
  return true;
}

void luma_weights(const GstVideoInfo& info, double* kr, double* kb) {
  if (!gst_video_color_matrix_get_Kr_Kb(info.colorimetry.matrix, kr, kb))
    gst_video_color_matrix_get_Kr_Kb(GST_VIDEO_COLOR_MATRIX_BT601, kr, kb);
}

void color_components(const GstVideoInfo& info, guint32 argb, double value[4]) {
  const GstVideoFormatInfo* f = info.finfo;
  const double r = (argb >> 16 & 255) / 255.0, g = (argb >> 8 & 255) / 255.0,
               b = (argb & 255) / 255.0;
  const int depth = f->depth[0];
  const double full = (1 << depth) - 1, unit = depth >= 8 ? 1 << (depth - 8) : 1;
  const bool limited = info.colorimetry.range == GST_VIDEO_COLOR_RANGE_16_235;
  const double offset = limited ? 16 * unit : 0, scale = limited ? 219 * unit : full;
  if (GST_VIDEO_FORMAT_INFO_IS_RGB(f)) {
    value[0] = offset + scale * r;
    value[1] = offset + scale * g;
    value[2] = offset + scale * b;
  } else {
    double kr, kb;
    luma_weights(info, &kr, &kb);
    const double y = kr * r + (1 - kr - kb) * g + kb * b;
    const double middle = 128 * unit, chroma = limited ? 224 * unit : full;
    value[0] = offset + scale * y;
    value[1] = middle + chroma * (b - y) / (2 * (1 - kb));
    value[2] = middle + chroma * (r - y) / (2 * (1 - kr));
  }
  value[3] = full * (argb >> 24) / 255.0;
  for (int i = 0; i < 4; i++) value[i] = std::min(full, std::max(0.0, std::floor(value[i] + 0.5)));
}

void color_planes(const Format& format, guint32 argb,
                  double value[vf::kMaxPlanes][vf::kMaxChannels]) {
  double component[4];
  color_components(format.info, argb, component);
  for (int p = 0; p < vf::kMaxPlanes; p++)
    for (int c = 0; c < vf::kMaxChannels; c++) {
      const int i = p < format.layout.planes ? format.component[p][c] : -1;
      value[p][c] = i < 0 ? 0 : component[i];
    }
}

void select_channels(const Format& format, bool luma, bool chroma, bool alpha,
                     uint8_t channels[vf::kMaxPlanes]) {
  for (int p = 0; p < vf::kMaxPlanes; p++) {
    channels[p] = 0;
    if (p >= format.layout.planes) continue;
    uint8_t padding = 0;
    for (int c = 0; c < format.layout.plane[p].channels; c++) {
      const Role role = format.role(p, c);
      const uint8_t bit = uint8_t(1 << c);
      if (role == Role::padding) padding |= bit;
      if ((role == Role::luma && luma) || (role == Role::chroma && chroma) ||
          (role == Role::alpha && alpha))
        channels[p] |= bit;
    }
    if (channels[p]) channels[p] |= padding;
  }
}

}  // namespace gstvf
