#include "filters/gaussian.h"

#include <gst/controller/gstdirectcontrolbinding.h>
#include <gst/controller/gstinterpolationcontrolsource.h>

#include "tests/elements/harness.h"

namespace vf::test {
namespace {

GaussianParams params(int variant) {
  GaussianParams p;
  if (variant == 1) {
    p.sigma = 4;
    p.sigma_y = 0.8;
    p.border = Border::replicate;
  }
  return p;
}

void set(GstElement* element, int variant) {
  const GaussianParams p = params(variant);
  g_object_set(element, "sigma", p.sigma, "sigma-y", p.sigma_y, "border", int(p.border), nullptr);
}

void set_neutral(GstElement* element) {
  g_object_set(element, "sigma", 0.0, "sigma-y", -1.0, nullptr);
}

Status make(Queue& queue, const gstvf::Format& format, int variant, Placement placement,
            std::unique_ptr<Plan>* out) {
  return make_gaussian(queue, format.layout, params(variant), placement, out);
}

Status make_component(Queue& queue, const Layout& layout, int variant, std::unique_ptr<Plan>* out) {
  return make_gaussian(queue, layout, params(variant), Placement::separate, out);
}

// What the library makes of one frame with these parameters, each channel as it says.
BufferPtr directly(Case& c, const GstVideoInfo& info, GstBuffer* in, const GaussianParams& p) {
  Library library(Backend::cpu);
  c.check(library.status(), "queue");
  gstvf::Format format;
  gstvf::make_format(info, false, &format);
  BufferPtr out = packed_copy(info, in);
  gstvf::MappedFrame frame;
  std::unique_ptr<Plan> plan;
  c.check(frame.map(format, out.get(), GST_MAP_READWRITE, false), "map");
  c.check(make_gaussian(*library.queue(), format.layout, p, Placement::in_place, &plan), "plan");
  const Image image = frame.image(gstvf::Rows::all);
  if (c.ok()) c.check(plan->run(image, image), "run");
  return out;
}

}  // namespace

const Element gaussian_element = {
    "cudagaussian",
    set,
    set_neutral,
    make,
    make_component,
    1,
    {"I420",      "YV12",      "NV12",    "NV21",      "Y42B", "Y444",   "I420_10LE", "I422_10LE",
     "I422_12LE", "P010_10LE", "P016_LE", "Y444_16LE", "RGB",  "BGR",    "RGBA",      "BGRA",
     "ARGB",      "ABGR",      "RGBx",    "BGRx",      "RGBP", "BGRP",   "GBR",       "GBRA",
     "GRAY8",     "GRAY16_LE", "AYUV",    "VUYA",      "A420", "ARGB64", "xRGB",      "xBGR",
     "YUY2",      "UYVY",      "YVYU",    "Y41B",      "NV16", "NV24",   "Y444_10LE", "GBR_10LE"},
};

void gaussian_cases(Suite& s) {
  const Element& e = gaussian_element;
  const Row& row = kRows[0];
  const std::string at = "cudagaussian/";
  const GstVideoInfo info = video_info("I420", 64, 48);

  s.run(at + "properties", [&](Case& c) {
    GstElement* element = gst_element_factory_make("cudagaussian", nullptr);
    const GaussianParams d;
    double sigma, sigma_y;
    int size, size_y, border;
    guint color, planes;
    g_object_get(element, "sigma", &sigma, "sigma-y", &sigma_y, "kernel-size", &size,
                 "kernel-size-y", &size_y, "border", &border, "border-color", &color, "planes",
                 &planes, nullptr);
    c.check(sigma == d.sigma && sigma_y == d.sigma_y && size == 0 && size_y == 0 &&
                border == int(d.border) && color == 0xff000000 && planes == 7,
            "a default is not the library's");
    for (const char* name :
         {"sigma", "sigma-y", "kernel-size", "kernel-size-y", "border", "border-color", "planes"}) {
      const GParamSpec* p = g_object_class_find_property(G_OBJECT_GET_CLASS(element), name);
      c.check(p && (p->flags & GST_PARAM_CONTROLLABLE) && (p->flags & GST_PARAM_MUTABLE_PLAYING),
              "%s is not controllable while playing", name);
    }
    for (const char* nick : {"replicate", "reflect", "reflect-101", "wrap", "constant"}) {
      gst_util_set_object_arg(G_OBJECT(element), "border", nick);
      g_object_get(element, "border", &border, nullptr);
      c.check(!strcmp(name_of(Border(border)), nick), "border=%s is %s", nick,
              name_of(Border(border)));
    }
    gst_object_unref(element);
  });

  s.run(at + "even kernel sizes are refused", [&](Case& c) {
    Bench b(e, row);
    e.set(b.element(), 0);
    b.caps(info);
    g_object_set(b.element(), "kernel-size", 5, nullptr);
    for (const char* name : {"kernel-size", "kernel-size-y"}) {
      int before, after;
      g_object_get(b.element(), name, &before, nullptr);
      c.expect_warning(std::string(name) + " is 6: must be 0 or odd");
      g_object_set(b.element(), name, 6, nullptr);
      g_object_get(b.element(), name, &after, nullptr);
      c.check(before == after, "%s became %d", name, after);
    }
    c.expect_warning("sigma-y is -0.5");
    g_object_set(b.element(), "sigma-y", -0.5, nullptr);
    GaussianParams p;
    p.kernel_size = 5;
    const BufferPtr in = make_frame(false, info, 1);
    const std::string d =
        difference(info, b.push(in).get(), directly(c, info, in.get(), p).get(), 0);
    c.check(d.empty(), "%s", d.c_str());
  });

  s.run(at + "settings that cannot be, and after", [&](Case& c) {
    Bench b(e, row);
    b.caps(info);
    g_object_set(b.element(), "sigma", 1000.0, nullptr);
    const BufferPtr in = make_frame(false, info, 1);
    b.push(in);
    GQuark domain = 0;
    const std::string text = b.message(GST_MESSAGE_ERROR, &domain);
    c.check(b.flow() == GST_FLOW_ERROR && domain == GST_LIBRARY_ERROR &&
                text.find("sigma is 1000") != std::string::npos &&
                text.find("511") != std::string::npos,
            "flow %s, error %s", gst_flow_get_name(b.flow()), text.c_str());
    g_object_set(b.element(), "sigma", 1.5, nullptr);
    const BufferPtr out = b.push(in);
    const std::string d =
        difference(info, out.get(), directly(c, info, in.get(), GaussianParams()).get(), 0);
    c.check(d.empty(), "after the error: %s", d.c_str());
  });

  s.run(at + "controlled sigma", [&](Case& c) {
    Bench b(e, row);
    b.caps(info);
    GstControlSource* source = gst_interpolation_control_source_new();
    g_object_set(source, "mode", GST_INTERPOLATION_MODE_LINEAR, nullptr);
    gst_object_add_control_binding(
        GST_OBJECT(b.element()),
        gst_direct_control_binding_new_absolute(GST_OBJECT(b.element()), "sigma", source));
    auto* timed = GST_TIMED_VALUE_CONTROL_SOURCE(source);
    gst_timed_value_control_source_set(timed, 0, 0);
    gst_timed_value_control_source_set(timed, 2 * GST_SECOND, 4);
    for (int i = 0; i <= 4 && c.ok(); i++) {
      GstBuffer* in = gst_buffer_copy_deep(make_frame(false, info, 7).get());
      GST_BUFFER_PTS(in) = i * GST_SECOND / 2;
      const BufferPtr keep = packed_copy(info, in);
      GaussianParams p;
      p.sigma = i;
      const BufferPtr out = b.push(in);
      c.check((out.get() == in) == (i == 0) || i > 0, "sigma 0 did not pass through");
      const std::string d = difference(info, out.get(), directly(c, info, keep.get(), p).get(), 0);
      c.check(d.empty(), "at %d/2 s: %s", i, d.c_str());
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
        const BufferPtr all = directly(c, i, in.get(), GaussianParams());
        const BufferPtr out = b.push(in);
        if (!out) return c.fail("nothing came out");
        GstVideoFrame was, blurred, is;
        gst_video_frame_map(&was, &i, in.get(), GST_MAP_READ);
        gst_video_frame_map(&blurred, &i, all.get(), GST_MAP_READ);
        gst_video_frame_map(&is, &i, out.get(), GST_MAP_READ);
        for (guint n = 0; n < f->n_components; n++) {
          const bool alpha = n == 3, chroma = GST_VIDEO_FORMAT_INFO_IS_YUV(f) && (n == 1 || n == 2);
          const bool wanted = planes & (alpha ? 4 : chroma ? 2 : 1);
          for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&is, n) && c.ok(); y++)
            for (int x = 0; x < GST_VIDEO_FRAME_COMP_WIDTH(&is, n) && c.ok(); x++) {
              const int want = get_component(wanted ? blurred : was, n, x, y);
              // Channels beside ones that are kept may take another path.
              c.check(std::abs(get_component(is, n, x, y) - want) <= (wanted ? 1 : 0),
                      "%s planes=%d component %u at %d,%d", format, planes, n, x, y);
            }
        }
        for (GstVideoFrame* frame : {&was, &blurred, &is}) gst_video_frame_unmap(frame);
      }
    }
  });

  s.run(at + "border-color", [&](Case& c) {
    // Red in each format's own code values: BT.601 is 81 90 240 at 8 bit (of BT.709, 63 102 240).
    struct Red {
      const char* format;
      const char* colorimetry;
      double value[4];
    };
    const Red reds[] = {
        {"RGBA", "sRGB", {255, 0, 0, 128}},         {"BGR", "sRGB", {255, 0, 0, 0}},
        {"I420", "bt601", {81, 90, 240, 0}},        {"NV12", "bt709", {63, 102, 240, 0}},
        {"AYUV", "bt601", {81, 90, 240, 128}},      {"GRAY8", "bt601", {81, 0, 0, 0}},
        {"I420_10LE", "bt709", {250, 409, 960, 0}}, {"P010_10LE", "bt709", {250, 409, 960, 0}},
        {"Y444", "1:4:0:0", {76, 85, 255, 0}},      {"ARGB64", "sRGB", {65535, 0, 0, 32896}},
    };
    for (const Red& red : reds) {
      GstVideoInfo i = video_info(red.format, 32, 24);
      c.check(gst_video_colorimetry_from_string(&i.colorimetry, red.colorimetry), "colorimetry");
      Bench b(e, row);
      g_object_set(b.element(), "border-color", 0x80ff0000, nullptr);
      gst_util_set_object_arg(G_OBJECT(b.element()), "border", "constant");
      b.caps(i);
      gstvf::Format format;
      gstvf::make_format(i, false, &format);
      GaussianParams p;
      p.border = Border::constant;
      for (int plane = 0; plane < format.layout.planes; plane++)
        for (int k = 0; k < 4; k++) {
          const int component = format.component[plane][k];
          p.border_value[plane][k] = component < 0 ? 0 : red.value[component];
        }
      const BufferPtr in = make_frame(false, i, 2);
      const BufferPtr want = directly(c, i, in.get(), p);
      const std::string d = difference(i, b.push(in).get(), want.get(), 0);
      c.check(d.empty(), "%s: %s", red.format, d.c_str());
    }
  });
}

}  // namespace vf::test
