#include "tests/elements/planesettings.h"

#include <gst/controller/gstdirectcontrolbinding.h>

#include <cstdlib>
#include <cstring>

#include "filters/border.h"

namespace vf::test {

const std::vector<std::string>& plane_formats() {
  static const std::vector<std::string> formats = {
      "I420",      "YV12",      "NV12",    "NV21",      "Y42B", "Y444",   "I420_10LE", "I422_10LE",
      "I422_12LE", "P010_10LE", "P016_LE", "Y444_16LE", "RGB",  "BGR",    "RGBA",      "BGRA",
      "ARGB",      "ABGR",      "RGBx",    "BGRx",      "RGBP", "BGRP",   "GBR",       "GBRA",
      "GRAY8",     "GRAY16_LE", "AYUV",    "VUYA",      "A420", "ARGB64", "xRGB",      "xBGR",
      "YUY2",      "UYVY",      "YVYU",    "Y41B",      "NV16", "NV24",   "Y444_10LE", "GBR_10LE"};
  return formats;
}

BufferPtr directly(Case& c, const GstVideoInfo& info, GstBuffer* in, const Make& make) {
  BufferPtr out;
  c.check(filter_directly(make, Backend::cpu, info, in, false, &out),
          "the library, called directly");
  return out;
}

void expect(Case& c, Bench& b, const GstVideoInfo& info, const BufferPtr& in, const Make& make) {
  const BufferPtr want = directly(c, info, in.get(), make);
  const BufferPtr out = b.push(in);
  if (!c.ok()) return;
  if (!out) return c.fail("nothing came out");
  const std::string d = difference(info, out.get(), want.get(), 0);
  c.check(d.empty(), "%s: %s", info.finfo->name, d.c_str());
}

void check_properties(Case& c, GstElement* element, const std::vector<const char*>& own,
                      const std::vector<const char*>& borders) {
  guint color, planes;
  g_object_get(element, "border-color", &color, "planes", &planes, nullptr);
  c.check(color == 0xff000000 && planes == 7, "border-color is %08x, planes %u", color, planes);
  std::vector<const char*> names = {"border", "border-color", "planes"};
  names.insert(names.end(), own.begin(), own.end());
  GObjectClass* klass = G_OBJECT_GET_CLASS(element);
  for (const char* name : names) {
    const GParamSpec* p = g_object_class_find_property(klass, name);
    c.check(p && (p->flags & GST_PARAM_CONTROLLABLE) && (p->flags & GST_PARAM_MUTABLE_PLAYING),
            "%s is not controllable while playing", name);
  }
  for (const char* nick : borders) {
    int border;
    gst_util_set_object_arg(G_OBJECT(element), "border", nick);
    g_object_get(element, "border", &border, nullptr);
    c.check(!strcmp(name_of(Border(border)), nick), "border=%s is %s", nick,
            name_of(Border(border)));
  }
  const GParamSpec* border = g_object_class_find_property(klass, "border");
  if (!c.ok()) return;
  const guint count = G_PARAM_SPEC_ENUM(border)->enum_class->n_values;
  c.check(count == borders.size(), "%u borders", count);
}

void check_controlled(Case& c, const Element& e, const char* property, GstInterpolationMode mode,
                      const Points& points, const Points& frames,
                      const std::function<Make(double value)>& make) {
  const GstVideoInfo info = video_info("I420", 64, 48);
  Bench b(e, kRows[0]);
  b.caps(info);
  GstControlSource* source = gst_interpolation_control_source_new();
  g_object_set(source, "mode", mode, nullptr);
  gst_object_add_control_binding(
      GST_OBJECT(b.element()),
      gst_direct_control_binding_new_absolute(GST_OBJECT(b.element()), property, source));
  auto* timed = GST_TIMED_VALUE_CONTROL_SOURCE(source);
  for (const auto& [time, value] : points) gst_timed_value_control_source_set(timed, time, value);
  for (const auto& [time, value] : frames) {
    GstBuffer* in = gst_buffer_copy_deep(make_frame(false, info, 7).get());
    GST_BUFFER_PTS(in) = time;
    const BufferPtr want = directly(c, info, in, make(value));
    const BufferPtr out = b.push(in);
    if (!c.ok()) break;
    if (!out) {
      c.fail("nothing came out");
      break;
    }
    c.check(time > 0 || out.get() == in, "%s %g did not pass through", property, value);
    const std::string d = difference(info, out.get(), want.get(), 0);
    c.check(d.empty(), "%s %g: %s", property, value, d.c_str());
  }
  gst_object_unref(source);
}

void check_planes(Case& c, const Element& e, const Make& make) {
  for (const char* format : {"I420", "NV12", "AYUV", "A420", "RGBA", "YUY2", "GRAY8"}) {
    const GstVideoInfo i = video_info(format, 32, 24);
    const GstVideoFormatInfo* f = i.finfo;
    for (int planes = 0; planes < 8; planes++) {
      Bench b(e, kRows[0]);
      g_object_set(b.element(), "planes", planes, nullptr);
      b.caps(i);
      const BufferPtr in = make_frame(false, i, 2);
      const BufferPtr all = directly(c, i, in.get(), make);
      const BufferPtr out = b.push(in);
      if (!c.ok()) return;
      if (!out) return c.fail("nothing came out");
      GstVideoFrame was, filtered, is;
      gst_video_frame_map(&was, &i, in.get(), GST_MAP_READ);
      gst_video_frame_map(&filtered, &i, all.get(), GST_MAP_READ);
      gst_video_frame_map(&is, &i, out.get(), GST_MAP_READ);
      for (guint n = 0; n < f->n_components; n++) {
        const bool alpha = n == 3, chroma = GST_VIDEO_FORMAT_INFO_IS_YUV(f) && (n == 1 || n == 2);
        const bool wanted = planes & (alpha ? 4 : chroma ? 2 : 1);
        // Filtered channels may take another code path if others are kept.
        const int tolerance = wanted ? e.tolerance : 0;
        for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&is, n) && c.ok(); y++)
          for (int x = 0; x < GST_VIDEO_FRAME_COMP_WIDTH(&is, n) && c.ok(); x++) {
            const int want = get_component(wanted ? filtered : was, n, x, y);
            c.check(std::abs(get_component(is, n, x, y) - want) <= tolerance,
                    "%s planes=%d component %u at %d,%d", format, planes, n, x, y);
          }
      }
      for (GstVideoFrame* frame : {&was, &filtered, &is}) gst_video_frame_unmap(frame);
    }
  }
}

}  // namespace vf::test
