#include "filters/gaussian.h"

#include "tests/elements/planesettings.h"
#include "tests/gaussian.h"

namespace vf::test {

extern const Element gaussian_element;

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

void set_identity(GstElement* element) {
  g_object_set(element, "sigma", 0.0, "sigma-y", -1.0, nullptr);
}

void cases(Suite& s) {
  const Element& e = gaussian_element;
  const Row& row = kRows[0];
  const std::string at = "cudagaussian/";
  const GstVideoInfo info = video_info("I420", 64, 48);

  s.run(at + "properties", [&](Case& c) {
    GstElement* element = gst_element_factory_make("cudagaussian", nullptr);
    const GaussianParams d;
    double sigma, sigma_y;
    int size, size_y, border;
    g_object_get(element, "sigma", &sigma, "sigma-y", &sigma_y, "kernel-size", &size,
                 "kernel-size-y", &size_y, "border", &border, nullptr);
    c.check(sigma == d.sigma && sigma_y == d.sigma_y && size == 0 && size_y == 0 &&
                border == int(d.border),
            "a default is not the library's");
    check_properties(c, element, {"sigma", "sigma-y", "kernel-size", "kernel-size-y"},
                     {"replicate", "reflect", "reflect-101", "wrap", "constant"});
    gst_object_unref(element);
  });

  s.run(at + "unusable settings, and recovery", [&](Case& c) {
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
    expect(c, b, info, in, maker<make_gaussian>(GaussianParams()));
  });

  s.run(at + "controlled sigma", [&](Case& c) {
    const GstClockTime half = GST_SECOND / 2;
    check_controlled(c, e, "sigma", GST_INTERPOLATION_MODE_LINEAR, {{0, 0}, {4 * half, 4}},
                     {{0, 0}, {half, 1}, {2 * half, 2}, {3 * half, 3}, {4 * half, 4}},
                     [](double sigma) {
                       GaussianParams p;
                       p.sigma = sigma;
                       return maker<make_gaussian>(p);
                     });
  });

  s.run(at + "planes",
        [&](Case& c) { check_planes(c, e, maker<make_gaussian>(GaussianParams())); });

  s.run(at + "border-color", [&](Case& c) {
    // Each row holds red in the format's code values. 8-bit BT.601 red is 81 90 240 (BT.709: 63 102
    // 240).
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
          const Role role = format.color.role[plane][k];
          p.border_value[plane][k] = role == Role::none ? 0 : red.value[index_of(role)];
        }
      expect(c, b, i, make_frame(false, i, 2), maker<make_gaussian>(p));
    }
  });
}

}  // namespace

extern const Element gaussian_element = [] {
  Element e;
  e.name = "cudagaussian";
  e.own_cases = cases;
  e.changes = {{"sigma",
                {"1.5", "4", "0", "0.6"},
                {{"border", "replicate"}},
                {"I420", "RGBA", "NV12", "P010_10LE"},
                {}}};
  e.faults = {{{{"sigma", "1.3"}}, {"RGBA", "I420"}, {"RGBA", "I420"}}};
  e.set = set;
  e.set_identity = set_identity;
  describe<make_gaussian, params>(&e);
  e.tolerance = int(gaussian_contract(Type::u8).absolute);
  e.formats = plane_formats();
  return e;
}();

}  // namespace vf::test
