#include "filters/median.h"

#include <gst/controller/gstdirectcontrolbinding.h>
#include <gst/controller/gstinterpolationcontrolsource.h>

#include <cstdlib>

#include "tests/elements/harness.h"

namespace vf::test {
namespace {

MedianParams params(int variant) {
  MedianParams p;
  if (variant == 1) {
    p.size = 7;
    p.size_y = 5;
    p.border = Border::shrink;
  }
  return p;
}

void set(GstElement* element, int variant) {
  const MedianParams p = params(variant);
  g_object_set(element, "size", p.size, "size-y", p.size_y, "border", int(p.border), nullptr);
}

void set_neutral(GstElement* element) { g_object_set(element, "size", 1, "size-y", 0, nullptr); }

Status make(Queue& queue, const gstvf::Format& format, int variant, Placement placement,
            std::unique_ptr<Plan>* out) {
  return make_median(queue, format.layout, params(variant), placement, out);
}

Status make_component(Queue& queue, const Layout& layout, int variant, std::unique_ptr<Plan>* out) {
  return make_median(queue, layout, params(variant), Placement::separate, out);
}

// What the library makes of one frame with these parameters.
BufferPtr directly(Case& c, const GstVideoInfo& info, GstBuffer* in, const MedianParams& p) {
  Library library(Backend::cpu);
  c.check(library.status(), "queue");
  gstvf::Format format;
  gstvf::make_format(info, false, &format);
  BufferPtr out = packed_copy(info, in);
  gstvf::MappedFrame frame;
  std::unique_ptr<Plan> plan;
  c.check(frame.map(format, out.get(), GST_MAP_READWRITE, false), "map");
  c.check(make_median(*library.queue(), format.layout, p, Placement::in_place, &plan), "plan");
  const Image image = frame.image(gstvf::Rows::all);
  if (c.ok()) c.check(plan->run(image, image), "run");
  return out;
}

}  // namespace

const Element median_element = {
    "cudamedian",
    set,
    set_neutral,
    make,
    make_component,
    0,
    {"I420",      "YV12",      "NV12",    "NV21",      "Y42B", "Y444",   "I420_10LE", "I422_10LE",
     "I422_12LE", "P010_10LE", "P016_LE", "Y444_16LE", "RGB",  "BGR",    "RGBA",      "BGRA",
     "ARGB",      "ABGR",      "RGBx",    "BGRx",      "RGBP", "BGRP",   "GBR",       "GBRA",
     "GRAY8",     "GRAY16_LE", "AYUV",    "VUYA",      "A420", "ARGB64", "xRGB",      "xBGR",
     "YUY2",      "UYVY",      "YVYU",    "Y41B",      "NV16", "NV24",   "Y444_10LE", "GBR_10LE"},
};

void median_cases(Suite& s) {
  const Element& e = median_element;
  const Row& row = kRows[0];
  const std::string at = "cudamedian/";
  const GstVideoInfo info = video_info("I420", 64, 48);

  s.run(at + "properties", [&](Case& c) {
    GstElement* element = gst_element_factory_make("cudamedian", nullptr);
    const MedianParams d;
    int size, size_y, border;
    guint color, planes;
    g_object_get(element, "size", &size, "size-y", &size_y, "border", &border, "border-color", &color,
                 "planes", &planes, nullptr);
    c.check(size == d.size && size == 3 && size_y == 0 && border == int(d.border) &&
                Border(border) == Border::replicate && color == 0xff000000 && planes == 7,
            "a default is not the library's");
    for (const char* name : {"size", "size-y", "border", "border-color", "planes"}) {
      const GParamSpec* p = g_object_class_find_property(G_OBJECT_GET_CLASS(element), name);
      c.check(p && (p->flags & GST_PARAM_CONTROLLABLE) && (p->flags & GST_PARAM_MUTABLE_PLAYING),
              "%s is not controllable while playing", name);
    }
    for (const char* nick : {"replicate", "reflect-101", "constant", "shrink"}) {
      gst_util_set_object_arg(G_OBJECT(element), "border", nick);
      g_object_get(element, "border", &border, nullptr);
      c.check(!strcmp(name_of(Border(border)), nick), "border=%s is %s", nick,
              name_of(Border(border)));
    }
    gst_object_unref(element);
  });

  s.run(at + "even sizes are refused", [&](Case& c) {
    Bench b(e, row);
    b.caps(info);
    g_object_set(b.element(), "size", 5, nullptr);
    for (const char* name : {"size", "size-y"}) {
      int before, after;
      g_object_get(b.element(), name, &before, nullptr);
      c.expect_warning(std::string(name) + " is 6: must be ");
      g_object_set(b.element(), name, 6, nullptr);
      g_object_get(b.element(), name, &after, nullptr);
      c.check(before == after, "%s became %d", name, after);
    }
    MedianParams p;
    p.size = 5;
    const BufferPtr in = make_frame(false, info, 1);
    const std::string d =
        difference(info, b.push(in).get(), directly(c, info, in.get(), p).get(), 0);
    c.check(d.empty(), "%s", d.c_str());
  });

  s.run(at + "largest window", [&](Case& c) {
    Bench b(e, row);
    b.caps(info);
    MedianParams p;
    p.size = MedianParams::kMaxSize;
    g_object_set(b.element(), "size", p.size, nullptr);
    const BufferPtr in = make_frame(false, info, 1);
    const std::string d =
        difference(info, b.push(in).get(), directly(c, info, in.get(), p).get(), 0);
    c.check(d.empty(), "%s", d.c_str());
  });

  s.run(at + "controlled size", [&](Case& c) {
    Bench b(e, row);
    b.caps(info);
    GstControlSource* source = gst_interpolation_control_source_new();
    g_object_set(source, "mode", GST_INTERPOLATION_MODE_NONE, nullptr);
    gst_object_add_control_binding(
        GST_OBJECT(b.element()),
        gst_direct_control_binding_new_absolute(GST_OBJECT(b.element()), "size", source));
    auto* timed = GST_TIMED_VALUE_CONTROL_SOURCE(source);
    for (int i = 0; i < 4; i++) gst_timed_value_control_source_set(timed, i * GST_SECOND, 2 * i + 1);
    for (int i = 0; i < 4 && c.ok(); i++) {
      GstBuffer* in = gst_buffer_copy_deep(make_frame(false, info, 7).get());
      GST_BUFFER_PTS(in) = i * GST_SECOND;
      const BufferPtr keep = packed_copy(info, in);
      MedianParams p;
      p.size = 2 * i + 1;
      const BufferPtr out = b.push(in);
      const std::string d = difference(info, out.get(), directly(c, info, keep.get(), p).get(), 0);
      c.check(d.empty(), "at %d s: %s", i, d.c_str());
    }
    gst_object_unref(source);
  });

  s.run(at + "planes", [&](Case& c) {
    for (const char* format : {"I420", "NV12", "AYUV", "A420", "RGBA", "YUY2", "GRAY8"}) {
      const GstVideoInfo i = video_info(format, 32, 24);
      const GstVideoFormatInfo* f = i.finfo;
      for (int planes = 0; planes < 8; planes++) {
        Bench b(e, row);
        g_object_set(b.element(), "planes", planes, nullptr);
        b.caps(i);
        const BufferPtr in = make_frame(false, i, 2);
        const BufferPtr all = directly(c, i, in.get(), MedianParams());
        const BufferPtr out = b.push(in);
        if (!out) return c.fail("nothing came out");
        GstVideoFrame was, filtered, is;
        gst_video_frame_map(&was, &i, in.get(), GST_MAP_READ);
        gst_video_frame_map(&filtered, &i, all.get(), GST_MAP_READ);
        gst_video_frame_map(&is, &i, out.get(), GST_MAP_READ);
        for (guint n = 0; n < f->n_components; n++) {
          const bool alpha = n == 3, chroma = GST_VIDEO_FORMAT_INFO_IS_YUV(f) && (n == 1 || n == 2);
          const bool wanted = planes & (alpha ? 4 : chroma ? 2 : 1);
          for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&is, n) && c.ok(); y++)
            for (int x = 0; x < GST_VIDEO_FRAME_COMP_WIDTH(&is, n) && c.ok(); x++)
              c.check(get_component(is, n, x, y) == get_component(wanted ? filtered : was, n, x, y),
                      "%s planes=%d component %u at %d,%d", format, planes, n, x, y);
        }
        for (GstVideoFrame* frame : {&was, &filtered, &is}) gst_video_frame_unmap(frame);
      }
    }
  });

  s.run(at + "border-color", [&](Case& c) {
    // A window much larger than the frame sees almost nothing but the border: BT.601 red.
    for (const auto& [format, luma, cb, cr] :
         {std::tuple{"I420", 81, 90, 240}, {"Y444", 81, 90, 240}, {"NV12", 81, 90, 240}}) {
      GstVideoInfo i = video_info(format, 16, 16);
      c.check(gst_video_colorimetry_from_string(&i.colorimetry, "bt601"), "colorimetry");
      Bench b(e, row);
      g_object_set(b.element(), "size", 101, "border-color", 0xffff0000, nullptr);
      gst_util_set_object_arg(G_OBJECT(b.element()), "border", "constant");
      b.caps(i);
      const BufferPtr out = b.push(make_frame(false, i, 2));
      if (!out) return c.fail("nothing came out");
      GstVideoFrame frame;
      gst_video_frame_map(&frame, &i, out.get(), GST_MAP_READ);
      const int want[] = {luma, cb, cr};
      for (int n = 0; n < 3; n++)
        c.check(get_component(frame, n, 3, 3) == want[n], "%s component %d is %d, not %d", format, n,
                get_component(frame, n, 3, 3), want[n]);
      gst_video_frame_unmap(&frame);
    }
  });

  s.run(at + "salt and pepper", [&](Case& c) {
    // Single wrong pixels on a flat picture are gone without a trace.
    const GstVideoInfo gray = video_info("GRAY8", 64, 48);
    BufferPtr in = own(gst_buffer_new_allocate(nullptr, gray.size, nullptr));
    gst_buffer_memset(in.get(), 0, 100, gray.size);
    GstMapInfo map;
    gst_buffer_map(in.get(), &map, GST_MAP_WRITE);
    for (gsize i = 5; i < map.size; i += 37) map.data[i] = i % 2 ? 255 : 0;
    gst_buffer_unmap(in.get(), &map);
    Bench b(e, row);
    b.caps(gray);
    const BufferPtr out = b.push(in);
    if (!out) return c.fail("nothing came out");
    gst_buffer_map(out.get(), &map, GST_MAP_READ);
    for (gsize i = 0; i < map.size && c.ok(); i++)
      c.check(map.data[i] == 100, "byte %zu is %d", i, map.data[i]);
    gst_buffer_unmap(out.get(), &map);
  });
}

}  // namespace vf::test
