#include "filters/median.h"

#include "tests/elements/planesettings.h"
#include "tests/median.h"

namespace vf::test {

extern const Element median_element;

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

void set_identity(GstElement* element) {
  g_object_set(element, "size", 1, "size-y", 0, nullptr);
}

void cases(Suite& s) {
  const Element& e = median_element;
  const Row& row = kRows[0];
  const std::string at = "cudamedian/";
  const GstVideoInfo info = video_info("I420", 64, 48);

  s.run(at + "properties", [&](Case& c) {
    GstElement* element = gst_element_factory_make("cudamedian", nullptr);
    const MedianParams d;
    int size, size_y, border;
    double threshold;
    g_object_get(element, "size", &size, "size-y", &size_y, "border", &border, "threshold",
                 &threshold, nullptr);
    c.check(threshold == 0 && size == d.size && size == 3 && size_y == 0 &&
                border == int(d.border) && Border(border) == Border::replicate,
            "a default is not the library's");
    check_properties(c, element, {"size", "size-y", "threshold"},
                     {"replicate", "reflect-101", "constant", "shrink"});
    gst_object_unref(element);
  });

  s.run(at + "largest window", [&](Case& c) {
    Bench b(e, row);
    b.caps(info);
    MedianParams p;
    p.size = MedianParams::kMaxSize;
    g_object_set(b.element(), "size", p.size, nullptr);
    expect(c, b, info, make_frame(false, info, 1), maker<make_median>(p));
  });

  s.run(at + "controlled size", [&](Case& c) {
    const Points points = {{0, 1}, {GST_SECOND, 3}, {2 * GST_SECOND, 5}, {3 * GST_SECOND, 7}};
    check_controlled(c, e, "size", GST_INTERPOLATION_MODE_NONE, points, points, [](double size) {
      MedianParams p;
      p.size = int(size);
      return maker<make_median>(p);
    });
  });

  s.run(at + "threshold", [&](Case& c) {
    // The threshold is in 8-bit code values at every depth.
    for (const char* format : {"I420", "RGBA", "P010_10LE", "I420_10LE", "GRAY16_LE"}) {
      const GstVideoInfo i = video_info(format, 64, 48);
      Bench b(e, row);
      b.caps(i);
      g_object_set(b.element(), "size", 5, "threshold", 20.5, nullptr);
      MedianParams p;
      p.size = 5;
      p.threshold = 20.5;
      expect(c, b, i, make_frame(false, i, 1), maker<make_median>(p));
    }
  });

  s.run(at + "planes", [&](Case& c) { check_planes(c, e, maker<make_median>(MedianParams())); });

  s.run(at + "border-color", [&](Case& c) {
    // A window much larger than the frame contains almost only the border, which is BT.601 red.
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
        c.check(get_component(frame, n, 3, 3) == want[n], "%s component %d is %d, not %d", format,
                n, get_component(frame, n, 3, 3), want[n]);
      gst_video_frame_unmap(&frame);
    }
  });

  s.run(at + "salt and pepper", [&](Case& c) {
    // Single wrong pixels in a flat picture disappear completely.
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

}  // namespace

extern const Element median_element = [] {
  Element e;
  e.name = "cudamedian";
  e.own_cases = cases;
  e.changes = {{"size",
                {"3", "7", "1", "5"},
                {{"border", "shrink"}},
                {"I420", "RGBA", "NV12", "P010_10LE"},
                {}},
               {"threshold", {"0", "24", "0.5", "255"}, {{"size", "5"}}, {"I420", "RGBA"}, {}}};
  e.faults = {{{{"size", "5"}}, {"RGBA", "I420"}, {"RGBA", "I420"}},
              {{{"size", "5"}, {"regions", "roi"}},
               {"RGBA", "I420"},
               {"RGBA", "I420"},
               0,
               0,
               overlapping_regions()}};
  e.set = set;
  e.set_identity = set_identity;
  describe<make_median, params>(&e);
  e.tolerance = int(median_contract().absolute);
  e.formats = plane_formats();
  return e;
}();

}  // namespace vf::test
