#include "gst/base/format.h"

#include <algorithm>

namespace gstvf {
namespace {

bool native_byte_order(const GstVideoFormatInfo* f) {
  // Formats such as AYUV64 and ARGB64 have no suffix and are native.
  if (g_str_has_suffix(f->name, "LE")) return G_BYTE_ORDER == G_LITTLE_ENDIAN;
  if (g_str_has_suffix(f->name, "BE")) return G_BYTE_ORDER == G_BIG_ENDIAN;
  return true;
}

// Returns the bytes from the start of a pixel to a component. GStreamer 1.22 says 1 for V of P010
// and similar formats, where 2 is right.
int component_offset(const GstVideoFormatInfo* f, int c) {
  return f->depth[c] > 8 && f->poffset[c] == 1 ? 2 : f->poffset[c];
}

// Holds components that lie next to each other in one plane of memory and are sampled alike.
struct Group {
  int count = 0;
  int component[4];
};

bool sampled_alike(const GstVideoFormatInfo* f, int a, int b) {
  return f->plane[a] == f->plane[b] && f->pixel_stride[a] == f->pixel_stride[b] &&
         f->w_sub[a] == f->w_sub[b] && f->h_sub[a] == f->h_sub[b];
}

// Makes planes of a layout from the components of a format, without sizes, types and frame. Returns
// false if the format has no layout.
bool group_components(const GstVideoFormatInfo* f, Group group[4], int* groups) {
  constexpr int refused =
      GST_VIDEO_FORMAT_FLAG_PALETTE | GST_VIDEO_FORMAT_FLAG_COMPLEX | GST_VIDEO_FORMAT_FLAG_TILED;
  // Y210 keeps its 10 bits in the upper ones of 16, although its description says otherwise.
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
    // Refuses components that share a word, such as those of RGB10A2_LE.
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
  // Each component of packed 4:2:2 becomes a plane of one channel, since no two of them are
  // neighbours.
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

// Returns the bytes that GStreamer allots to a plane: up to the next plane, or to the end.
gsize plane_bytes(const GstVideoInfo& info, int plane) {
  gsize end = info.size;
  for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(&info); i++)
    if (info.offset[i] > info.offset[plane]) end = std::min(end, info.offset[i]);
  return end - info.offset[plane];
}

// Describes the colour space of video. make_format() fills in the roles of its components.
vf::ColorFormat color_format(const GstVideoInfo& info) {
  vf::ColorFormat color;
  if (!gst_video_color_matrix_get_Kr_Kb(info.colorimetry.matrix, &color.kr, &color.kb))
    gst_video_color_matrix_get_Kr_Kb(GST_VIDEO_COLOR_MATRIX_BT601, &color.kr, &color.kb);
  color.full_range = info.colorimetry.range != GST_VIDEO_COLOR_RANGE_16_235;
  const auto site = info.chroma_site;
  color.cosited_x =
      site == GST_VIDEO_CHROMA_SITE_UNKNOWN || (site & GST_VIDEO_CHROMA_SITE_H_COSITED);
  color.cosited_y = (site & GST_VIDEO_CHROMA_SITE_V_COSITED) != 0;
  return color;
}

// GStreamer numbers the components Y U V A or R G B A.
vf::Role role_of(const GstVideoFormatInfo* f, int component) {
  using vf::Role;
  constexpr Role rgba[] = {Role::r, Role::g, Role::b, Role::a};
  constexpr Role yuva[] = {Role::y, Role::u, Role::v, Role::a};
  if (GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f) && component == GST_VIDEO_COMP_A) return Role::a;
  return (GST_VIDEO_FORMAT_INFO_IS_RGB(f) ? rgba : yuva)[component];
}

}  // namespace

const std::vector<const GstVideoFormatInfo*>& formats_with_layout() {
  static const auto all = [] {
    guint known = 0;
    const GstVideoFormat* const raw = gst_video_formats_raw(&known);
    // GStreamer lists the largest formats first.
    std::vector<GstVideoFormat> formats(raw, raw + known);
    std::sort(formats.begin(), formats.end());
    std::vector<const GstVideoFormatInfo*> infos;
    Group group[4];
    int groups;
    for (const GstVideoFormat format : formats) {
      const GstVideoFormatInfo* f = gst_video_format_get_info(format);
      if (format > GST_VIDEO_FORMAT_ENCODED && group_components(f, group, &groups))
        infos.push_back(f);
    }
    return infos;
  }();
  return all;
}

bool make_format(const GstVideoInfo& info, bool cuda, Format* out) {
  const GstVideoFormatInfo* f = info.finfo;
  Group group[4];
  int groups = 0;
  if (!f || GST_VIDEO_INFO_FORMAT(&info) <= GST_VIDEO_FORMAT_ENCODED ||
      !group_components(f, group, &groups))
    return false;
  *out = Format();
  out->video = info;
  out->width = info.width;
  out->height = info.height;
  out->size = info.size;
  out->color = color_format(info);
  const int bytes = f->depth[0] > 8 ? 2 : 1;
  vf::Layout& l = out->layout;
  l.type = bytes == 2 ? vf::Type::u16 : vf::Type::u8;
  l.shift = f->shift[0];
  l.max_value = f->depth[0] == guint(8 * bytes) ? 0 : (1 << f->depth[0]) - 1;
  l.planes = groups;
  for (int i = 0; i < groups; i++) {
    const int first = group[i].component[0];
    vf::PlaneLayout& p = l.plane[i];
    p.width = vf::blocks_of(info.width, 1 << f->w_sub[first]);
    p.height = vf::blocks_of(info.height, 1 << f->h_sub[first]);
    p.sub_x = f->w_sub[first];
    p.sub_y = f->h_sub[first];
    const int m = int(f->plane[first]);
    // Most subsampled formats have a spare row of chroma if the heights of two fields would differ.
    const int even = GST_ROUND_UP_2(p.height);
    const bool whole_fields = p.sub_y && GST_VIDEO_INFO_IS_INTERLACED(&info) && !cuda &&
                              plane_bytes(info, m) >= gsize(info.stride[m]) * even;
    out->field_rows[i] = whole_fields ? even : p.height;
    const int step = f->pixel_stride[first] / bytes;
    out->memory_plane[i] = m;
    out->memory_planes = std::max(out->memory_planes, m + 1);
    out->memory_offset[m] = info.offset[m];
    out->memory_stride[m] = info.stride[m];
    if (group[i].count == 1) {
      p.channels = 1;
      p.step = step == 1 ? 0 : step;
      out->offset[i] = component_offset(f, first);
      out->color.role[i][0] = role_of(f, first);
    } else {
      // The plane has whole pixels, padding included: filtering the padding is faster than skipping
      // it.
      if (step > vf::kMaxChannels) return false;
      p.channels = step;
      for (int j = 0; j < group[i].count; j++) {
        const int c = group[i].component[j];
        out->color.role[i][component_offset(f, c) / bytes] = role_of(f, c);
      }
    }
  }
  return true;
}

bool make_tensor_format(vf::Type type, bool planar, int width, int height, Format* out) {
  const int planes = planar ? 3 : 1, channels = planar ? 1 : 3;
  const gsize row = gsize(width) * channels * vf::size_of(type);
  if (row > G_MAXINT || row > G_MAXSSIZE / gsize(height) / planes) return false;
  *out = Format();
  out->width = width;
  out->height = height;
  out->size = row * height * planes;
  out->memory_planes = planes;
  out->layout = vf::packed_layout(type, channels, width, height);
  out->layout.planes = planes;
  constexpr vf::Role roles[] = {vf::Role::r, vf::Role::g, vf::Role::b};
  for (int c = 0; c < 3; c++) out->color.role[planar ? c : 0][planar ? 0 : c] = roles[c];
  out->color.half_float = type == vf::Type::u16;
  for (int p = 0; p < planes; p++) {
    out->layout.plane[p] = out->layout.plane[0];
    out->memory_offset[p] = row * height * p;
    out->memory_stride[p] = int(row);
    out->field_rows[p] = height;
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

}  // namespace gstvf
