#include "gst/matte/guidedmattecaps.h"

#include <cstring>
#include <initializer_list>

#include "filters/no_copy.h"
#include "gst/base/format.h"

namespace gstvf {
namespace {

// Lists formats with the same components and alpha and, last, RGB, since CUDA memory has no YUV
// with alpha before GStreamer 1.26.
struct KeyedFormat {
  const char* from[9];
  const char* to[9];
};
// Each list ends with a null.
constexpr KeyedFormat kKeyedFormats[] = {
    {{"RGB", "BGR", "RGBx", "BGRx"}, {"RGBA", "BGRA", "ARGB", "ABGR"}},
    {{"xRGB", "xBGR"}, {"ARGB", "ABGR", "RGBA", "BGRA"}},
    {{"GBR", "RGBP", "BGRP"}, {"GBRA", "RGBA", "BGRA", "ARGB", "ABGR"}},
    {{"I420", "YV12", "NV12", "NV21"},
     {"A420", "AYUV", "VUYA", "RGBA", "BGRA", "ARGB", "ABGR", "GBRA"}},
    {{"Y42B", "YUY2", "UYVY", "YVYU", "VYUY", "NV16", "NV61"},
     {"A422", "AYUV", "VUYA", "RGBA", "BGRA", "ARGB", "ABGR", "GBRA"}},
    {{"Y444", "NV24", "v308"}, {"A444", "AYUV", "VUYA", "RGBA", "BGRA", "ARGB", "ABGR", "GBRA"}},
    {{"I420_10LE"}, {"A420_10LE"}},
    {{"I422_10LE"}, {"A422_10LE"}},
    {{"Y444_10LE"}, {"A444_10LE"}},
};

const GstVideoFormatInfo* info_of(const char* name) {
  const GstVideoFormat format = gst_video_format_from_string(name);
  return format == GST_VIDEO_FORMAT_UNKNOWN ? nullptr : gst_video_format_get_info(format);
}

// Tells whether a format has three colours and alpha.
bool has_matte(const GstVideoFormatInfo* f) {
  return GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f) && GST_VIDEO_FORMAT_INFO_N_COMPONENTS(f) == 4;
}

// Tells whether a format has three colours and nothing else.
bool is_opaque(const GstVideoFormatInfo* f) {
  return !GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f) && GST_VIDEO_FORMAT_INFO_N_COMPONENTS(f) == 3;
}

// Tells whether composites of frames of `f` can be in `g`, which has no alpha.
bool composes_to(const GstVideoFormatInfo* f, const GstVideoFormatInfo* g) {
  if (!is_opaque(g) || !(is_opaque(f) || has_matte(f))) return false;
  if (f->depth[0] != g->depth[0] || f->shift[0] != g->shift[0]) return false;
  const bool rgb = GST_VIDEO_FORMAT_INFO_IS_RGB(f);
  if (rgb != bool(GST_VIDEO_FORMAT_INFO_IS_RGB(g))) return !rgb;
  return f->w_sub[1] == g->w_sub[1] && f->h_sub[1] == g->h_sub[1];
}

// Collects formats of the other pad, each once. With `converts` it takes only formats that change
// between YUV and RGB, else only those that do not.
class Formats : vf::NoCopy {
 public:
  explicit Formats(bool converts) : converts_(converts) { g_value_init(&list_, GST_TYPE_LIST); }
  ~Formats() { g_value_unset(&list_); }
  const GValue* list() const { return &list_; }
  bool empty() const { return gst_value_list_get_size(&list_) == 0; }

  // Adds the format itself if it has room for a matte.
  void add_same(const char* name) {
    const GstVideoFormatInfo* f = info_of(name);
    if (f && has_matte(f)) add(name, name);
  }

  // Adds the formats of composites without alpha, or those that such composites are made of; with
  // `with_alpha` only those that have alpha.
  void add_composites(const char* name, GstPadDirection direction, bool with_alpha) {
    const GstVideoFormatInfo* f = info_of(name);
    if (f && is_opaque(f) && !with_alpha) add(name, name);
    for (const GstVideoFormatInfo* other : formats_with_layout()) {
      const bool down = direction == GST_PAD_SINK;
      if (f && (!with_alpha || has_matte(other)) && composes_to(down ? f : other, down ? other : f))
        add(name, other->name);
    }
  }

  // Adds the formats that frames without alpha become, or those that frames with alpha are made of.
  void add_keyed(const char* name, GstPadDirection direction) {
    for (const KeyedFormat& k : kKeyedFormats) {
      const bool down = direction == GST_PAD_SINK;
      if (!g_strv_contains(down ? k.from : k.to, name)) continue;
      for (const char* const* other = down ? k.to : k.from; *other; other++) add(name, *other);
    }
  }

 private:
  void add(const char* name, const char* other) {
    const GstVideoFormatInfo *f = info_of(name), *g = info_of(other);
    if (!f || !g ||
        (GST_VIDEO_FORMAT_INFO_IS_RGB(f) != GST_VIDEO_FORMAT_INFO_IS_RGB(g)) != converts_)
      return;
    for (guint i = 0; i < gst_value_list_get_size(&list_); i++)
      if (strcmp(g_value_get_string(gst_value_list_get_value(&list_, i)), other) == 0) return;
    GValue value = G_VALUE_INIT;
    g_value_init(&value, G_TYPE_STRING);
    g_value_set_string(&value, other);
    gst_value_list_append_and_take_value(&list_, &value);
  }

  const bool converts_;
  GValue list_ = G_VALUE_INIT;
};

}  // namespace

gboolean guided_matte_formats(const GstVideoFormatInfo* f) {
  return has_matte(f) || is_opaque(f);
}

GstCaps* guided_matte_caps(GstBaseTransform* trans, GstPadDirection direction, GstCaps* caps,
                           const MatteCaps& wanted) {
  g_autoptr(GstCaps) out = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); i++) {
    const GstStructure* structure = gst_caps_get_structure(caps, i);
    const GValue* formats = gst_structure_get_value(structure, "format");
    const bool is_list = formats && GST_VALUE_HOLDS_LIST(formats);
    const guint n = is_list                                    ? gst_value_list_get_size(formats)
                    : formats && G_VALUE_HOLDS_STRING(formats) ? 1
                                                               : 0;
    const auto name = [&](guint j) {
      return g_value_get_string(is_list ? gst_value_list_get_value(formats, j) : formats);
    };
    // Conversions come last. If the background is translucent, formats without alpha come after
    // them.
    const bool late = wanted.composes && wanted.translucent;
    for (int pass = 0; pass < (late ? 4 : 2); pass++) {
      const bool converts = pass % 2, opaque = wanted.composes && (!late || pass >= 2);
      Formats others(converts);
      for (guint j = 0; j < n && wanted.alpha_first; j++) {
        others.add_same(name(j));
        if (opaque && direction == GST_PAD_SRC) others.add_composites(name(j), direction, true);
      }
      for (guint j = 0; j < n; j++) {
        others.add_same(name(j));
        if (opaque) others.add_composites(name(j), direction, false);
        if (pass < 2) others.add_keyed(name(j), direction);
      }
      if (others.empty()) continue;
      GstStructure* s = gst_structure_copy(structure);
      gst_structure_set_value(s, "format", others.list());
      // A conversion between YUV and RGB changes these fields.
      if (converts) gst_structure_remove_fields(s, "colorimetry", "chroma-site", nullptr);
      gst_caps_append_structure_full(out, s,
                                     gst_caps_features_copy(gst_caps_get_features(caps, i)));
    }
  }
  // Not every memory supports every format.
  g_autoptr(GstCaps) known =
      gst_pad_get_pad_template_caps(direction == GST_PAD_SINK ? trans->srcpad : trans->sinkpad);
  return gst_caps_intersect_full(out, known, GST_CAPS_INTERSECT_FIRST);
}

const char* format_without_alpha(GstCaps* caps) {
  GstVideoInfo info;
  return caps && gst_video_info_from_caps(&info, caps) && !has_matte(info.finfo) ? info.finfo->name
                                                                                 : nullptr;
}

const char* format_without_alpha(GstPad* pad) {
  g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
  return format_without_alpha(caps);
}

std::string why_no_caps(GstBaseTransform* trans, const MatteCaps& wanted) {
  g_autoptr(GstCaps) in = gst_pad_get_current_caps(trans->sinkpad);
  if (!in) return {};
  g_autoptr(GstCaps) out = guided_matte_caps(trans, GST_PAD_SINK, in, wanted);
  g_autoptr(GstCaps) taken = gst_pad_peer_query_caps(trans->srcpad, out);
  if (!gst_caps_is_empty(taken)) return {};
  GstVideoInfo info;
  const char* const name = gst_video_info_from_caps(&info, in) ? info.finfo->name : "these";
  return std::string("is not possible while ") + name + " frames come in, because " +
         (gst_caps_is_empty(out) ? "there is no format with alpha for them"
                                 : "the next element takes no format with alpha for them") +
         ": it must be composite";
}

}  // namespace gstvf
