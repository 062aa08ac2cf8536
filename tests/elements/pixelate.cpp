#include "filters/pixelate.h"

#include "tests/elements/planesettings.h"
#include "tests/pixelate.h"

namespace vf::test {

extern const Element pixelate_element;

namespace {

PixelateParams blocks(int size) {
  PixelateParams p;
  p.block_size = size;
  return p;
}

PixelateParams params(int variant) {
  return blocks(variant == 1 ? 5 : 16);
}

void set(GstElement* element, int variant) {
  g_object_set(element, "block-size", params(variant).block_size, nullptr);
}

void set_identity(GstElement* element) {
  g_object_set(element, "block-size", 1, nullptr);
}

void cases(Suite& s) {
  const Element& e = pixelate_element;
  const Row& row = kRows[0];
  const std::string at = "cudapixelate/";
  const GstVideoInfo info = video_info("I420", 64, 48);

  s.run(at + "properties", [&](Case& c) {
    GstElement* element = gst_element_factory_make("cudapixelate", nullptr);
    int size;
    guint planes;
    g_object_get(element, "block-size", &size, "planes", &planes, nullptr);
    c.check(size == PixelateParams().block_size && size == 0 && planes == 7,
            "block-size is %d, planes %u", size, planes);
    for (const char* name : {"block-size", "planes"}) {
      const GParamSpec* p = g_object_class_find_property(G_OBJECT_GET_CLASS(element), name);
      c.check(p && (p->flags & GST_PARAM_CONTROLLABLE) && (p->flags & GST_PARAM_MUTABLE_PLAYING),
              "%s is not controllable while playing", name);
    }
    gst_object_unref(element);
  });

  s.run(at + "frames of several bands", [&](Case& c) {
    // Large frames in any system memory go to the GPU and back band by band. This filter is used
    // because it is the fastest.
    const GstVideoInfo gray = video_info("GRAY8", 1037, 5003);
    const Row cuda = {"system-cuda", false, "cuda"};
    if (!usable(c, cuda)) return;
    Bench b(e, cuda);
    g_object_set(b.element(), "block-size", 8, nullptr);
    b.caps(gray);
    for (int i = 0; i < 3; i++)
      expect(c, b, gray, make_frame(false, gray, guint32(i), Shape{24 * i, false, 0, 0}),
             maker<make_pixelate>(blocks(8)));
  });

  s.run(at + "automatic size", [&](Case& c) {
    for (const auto& [w, h, size] :
         {std::tuple{64, 48, 6}, {48, 65, 6}, {49, 65, 7}, {320, 9, 2}}) {
      const GstVideoInfo i = video_info("I420", w, h);
      Bench b(e, row);
      b.caps(i);
      expect(c, b, i, make_frame(false, i, 1), maker<make_pixelate>(blocks(size)));
    }
  });

  s.run(at + "sizes at the limits", [&](Case& c) {
    Bench b(e, row);
    b.caps(info);
    g_object_set(b.element(), "block-size", kMaxDimension, nullptr);
    expect(c, b, info, make_frame(false, info, 1), maker<make_pixelate>(blocks(64)));
    // GLib warns, and the previous value stays.
    c.expect_warning("out of range for property 'block-size'");
    g_object_set(b.element(), "block-size", -1, nullptr);
    expect(c, b, info, make_frame(false, info, 1), maker<make_pixelate>(blocks(64)));
  });

  s.run(at + "controlled size", [&](Case& c) {
    const Points points = {{0, 1}, {GST_SECOND, 3}, {2 * GST_SECOND, 16}, {3 * GST_SECOND, 0}};
    check_controlled(c, e, "block-size", GST_INTERPOLATION_MODE_NONE, points, points,
                     [](double size) { return maker<make_pixelate>(blocks(int(size))); });
  });

  s.run(at + "planes",
        [&](Case& c) { check_planes(c, e, maker<make_pixelate>(PixelateParams())); });

  s.run(at + "one value a block", [&](Case& c) {
    // Blocks lie at the same place of the frame in all planes, so that no finer pattern shows.
    const BufferPtr in = make_frame(false, info, 3);
    Bench b(e, row);
    g_object_set(b.element(), "block-size", 8, nullptr);
    b.caps(info);
    const BufferPtr out = b.push(in);
    if (!out) return c.fail("nothing came out");
    GstVideoFrame frame;
    gst_video_frame_map(&frame, &info, out.get(), GST_MAP_READ);
    int changes = 0;
    for (int n = 0; n < 3; n++) {
      const int size = n ? 4 : 8;
      for (int y = 0; y < 48 * size / 8; y++)
        for (int x = 0; x < 64 * size / 8; x++) {
          const int first = get_component(frame, n, x / size * size, y / size * size);
          c.check(get_component(frame, n, x, y) == first, "component %d at %d,%d", n, x, y);
          changes += x % size == 0 && x > 0 && first != get_component(frame, n, x - 1, y);
        }
    }
    c.check(changes > 100, "blocks beside each other are the same");
    gst_video_frame_unmap(&frame);
  });
}

}  // namespace

extern const Element pixelate_element = [] {
  Element e;
  e.name = "cudapixelate";
  e.own_cases = cases;
  e.changes = {
      {"block-size", {"0", "16", "1", "5"}, {}, {"I420", "RGBA", "NV12", "P010_10LE"}, {}}};
  e.faults = {{{{"block-size", "16"}}, {"RGBA", "I420"}, {"RGBA", "I420"}},
              {{{"block-size", "4"}, {"regions", "roi"}},
               {"RGBA", "I420"},
               {"RGBA", "I420"},
               0,
               0,
               overlapping_regions()}};
  e.set = set;
  e.set_identity = set_identity;
  describe<make_pixelate, params>(&e);
  e.tolerance = int(pixelate_contract().absolute);
  e.formats = plane_formats();
  return e;
}();

}  // namespace vf::test
