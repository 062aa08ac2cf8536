#include "gst/matte/guidedmattecaps.h"

#include <cstring>
#include <initializer_list>

namespace gstvf {
namespace {

// The same components and alpha or, last, RGB, since CUDA memory has no YUV with alpha before
// GStreamer 1.26.
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

bool has_name(const char* const* names, const char* name) {
  for (; *names; names++)
    if (strcmp(*names, name) == 0) return true;
  return false;
}

const GstVideoFormatInfo* info_of(const char* name) {
  const GstVideoFormat format = gst_video_format_from_string(name);
  return format == GST_VIDEO_FORMAT_UNKNOWN ? nullptr : gst_video_format_get_info(format);
}

// Formats of the other pad, each once: those that are RGB where `name` is or, with `converts`,
// only those that are not.
class Formats {
 public:
  explicit Formats(bool converts) : converts_(converts) { g_value_init(&list_, GST_TYPE_LIST); }
  ~Formats() { g_value_unset(&list_); }
  Formats(const Formats&) = delete;
  Formats& operator=(const Formats&) = delete;
  const GValue* list() const { return &list_; }
  bool empty() const { return gst_value_list_get_size(&list_) == 0; }

  // The format itself, where it has a matte.
  void add_same(const char* name) {
    const GstVideoFormatInfo* f = info_of(name);
    if (f && has_matte(f)) add(name, name);
  }

  // What frames without alpha become, or what frames with alpha are made of.
  void add_keyed(const char* name, GstPadDirection direction) {
    for (const KeyedFormat& k : kKeyedFormats) {
      const bool down = direction == GST_PAD_SINK;
      if (!has_name(down ? k.from : k.to, name)) continue;
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

bool has_matte(const GstVideoFormatInfo* f) {
  return GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f) && GST_VIDEO_FORMAT_INFO_N_COMPONENTS(f) == 4;
}

gboolean guided_matte_sinks(const GstVideoFormatInfo* f) {
  if (has_matte(f)) return TRUE;
  for (const KeyedFormat& k : kKeyedFormats)
    if (has_name(k.from, f->name)) return TRUE;
  return FALSE;
}

gboolean guided_matte_sources(const GstVideoFormatInfo* f) {
  return has_matte(f);
}

GstCaps* guided_matte_caps(GstPadDirection direction, GstCaps* caps, bool alpha_first) {
  GstCaps* out = gst_caps_new_empty();
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
    for (const bool converts : {false, true}) {
      Formats others(converts);
      if (alpha_first)
        for (guint j = 0; j < n; j++) others.add_same(name(j));
      for (guint j = 0; j < n; j++) {
        others.add_same(name(j));
        others.add_keyed(name(j), direction);
      }
      if (others.empty()) continue;
      GstStructure* s = gst_structure_copy(structure);
      gst_structure_set_value(s, "format", others.list());
      // YUV's colours are not RGB's.
      if (converts) gst_structure_remove_fields(s, "colorimetry", "chroma-site", nullptr);
      gst_caps_append_structure_full(out, s,
                                     gst_caps_features_copy(gst_caps_get_features(caps, i)));
    }
  }
  return out;
}

}  // namespace gstvf
