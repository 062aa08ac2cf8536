#include "gst/letterbox/letterboxmeta.h"
#include "tests/elements/guidedmasks.h"

#if VF_HAVE_GST_ANALYTICS

namespace vf::test {

void invalid_mask_cases(Suite& s, const std::string& at, const Row& row) {
  const GstVideoInfo info = video_info("RGBA", 64, 48);
  using Change = std::function<void(GstBuffer * frame, Matte & matte)>;
  struct Hostile {
    const char *name, *mask, *warning;
    Change change;
  };
  static const auto add = [](GstBuffer* frame, const std::vector<gsize>& dims, gsize bytes,
                             const Tensor& t = {}) {
    add_tensor(frame, t, dims, buffer_of(std::vector<guint8>(bytes), false));
  };
  // Returns a change that adds a float tensor of these dimensions in a buffer of `bytes`.
  const auto of = [](std::vector<gsize> dims, gsize bytes) -> Change {
    return [=](GstBuffer* f, Matte&) { add(f, dims, bytes); };
  };
  const Hostile all[] = {
      {"type", "tensor", "type",
       [](GstBuffer* f, Matte&) {
         Tensor t;
         t.type = GST_TENSOR_DATA_TYPE_INT64;
         add(f, {4, 4}, 128, t);
       }},
      {"a type that does not exist", "tensor", "type",
       [](GstBuffer* f, Matte&) {
         Tensor t;
         t.type = 999;
         add(f, {4, 4}, 128, t);
       }},
      {"no dimensions", "tensor", "dimensions", of({}, 64)},
      {"one dimension", "tensor", "16", of({16}, 64)},
      {"a batch of two", "tensor", "2x1x4x4", of({2, 1, 4, 4}, 128)},
      {"five dimensions", "tensor", "3x3x3x3x3", of({3, 3, 3, 3, 3}, 4 * 243)},
      {"a width of 0", "tensor", "4x0", of({4, 0}, 64)},
      {"a height of 0", "tensor", "0x4", of({0, 4}, 64)},
      {"100000 wide", "tensor", "4x100000", of({4, 100000}, 64)},
      {"100000 high", "tensor", "100000x4", of({100000, 4}, 64)},
      {"sizes that overflow", "tensor", "dimensions", of({gsize(1) << 33, gsize(1) << 33}, 64)},
      {"a short buffer", "tensor", "63", of({4, 4}, 63)},
      {"the widest mask in a short buffer", "tensor", "needs 32768", of({1, 8192}, 64)},
      {"an empty buffer", "tensor", "bytes", of({4, 4}, 0)},
      {"no buffer", "tensor", "memory",
       [](GstBuffer* f, Matte&) {
         add_tensor(f, {}, {4, 4}, nullptr);
       }},
      {"NaN", "tensor", "NaN",
       [](GstBuffer* f, Matte&) {
         std::vector<guint8> bytes(64);
         const float nan = NAN;
         memcpy(&bytes[60], &nan, 4);
         add_tensor(f, {}, {4, 4}, buffer_of(bytes, false));
       }},
      {"NaN in a softmax", "tensor", "NaN",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-activation", "softmax");
         std::vector<guint8> bytes(3 * 64);
         const float infinity = INFINITY;
         for (const int i : {3, 19}) memcpy(&bytes[4 * i], &infinity, 4);
         add_tensor(f, {}, {3, 4, 4}, buffer_of(bytes, false));
       }},
      {"a channel that is not there", "tensor", "mask-channel",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-channel", "2");
         add(f, {2, 4, 4}, 128);
       }},
      {"a channel of several that is not there", "tensor", "0 to 1, and 2 is none",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-label", "1,2");
         add(f, {2, 4, 4}, 128);
       }},
      {"a channel with a name", "tensor", "\"hair\" is none",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-label", "1,hair");
         add(f, {2, 4, 4}, 128);
       }},
      {"a channel with an error of 0", "tensor", "\"1:0\" is none",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-label", "1:0");
         add(f, {2, 4, 4}, 128);
       }},
      {"NaN in one of several channels", "tensor", "NaN",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-label", "0,1");
         std::vector<guint8> bytes(3 * 64);
         const float nan = NAN;
         memcpy(&bytes[64 + 60], &nan, 4);
         add_tensor(f, {}, {3, 4, 4}, buffer_of(bytes, false));
       }},
      {"a softmax of one", "tensor", "softmax",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-activation", "softmax");
         add(f, {4, 4}, 64);
       }},
      {"a sigmoid of bytes", "tensor", "uint8",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-activation", "sigmoid");
         Tensor t;
         t.type = GST_TENSOR_DATA_TYPE_UINT8;
         add(f, {4, 4}, 16, t);
       }},
      {"a tensor that is not there", "tensor", "no tensor is depth",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-tensor", "depth");
         add(f, {4, 4}, 64);
       }},
      {"a number of a tensor that is not there", "tensor", "no tensor is 1",
       [](GstBuffer* f, Matte& m) {
         m.set_property("mask-tensor", "1");
         add(f, {4, 4}, 64);
       }},
      {"a letterbox that is none", "tensor", "edges",
       [](GstBuffer* f, Matte&) {
         add(f, {4, 4}, 64);
         LetterboxGeometry g;
         g.source_width = g.source_height = g.width = g.height = 8;
         g.content_width = g.content_height = 1e-300;
         g.left = NAN;
         gstvf::register_letterbox_meta();
         gstvf::set_letterbox_meta(f, g);
       }},
      {"a location far away", "segmentation", "edges",
       [](GstBuffer* f, Matte&) {
         add_segmentation(gst_buffer_add_analytics_relation_meta(f),
                          regions_of(std::vector<guint16>(4000), 2000, 2, GST_VIDEO_FORMAT_GRAY8),
                          {0, 1}, {G_MININT, 5, 1, 1});
       }},
      {"an image of 100000", "segmentation", "100000",
       [](GstBuffer* f, Matte&) {
         GstBuffer* image = regions_of(std::vector<guint16>(16), 4, 4, GST_VIDEO_FORMAT_GRAY8);
         gst_buffer_get_video_meta(image)->width = 100000;
         add_segmentation(gst_buffer_add_analytics_relation_meta(f), image, {0, 1}, {0, 0, 64, 48});
       }},
      {"an image of 0", "segmentation", "0x4",
       [](GstBuffer* f, Matte&) {
         GstBuffer* image = regions_of(std::vector<guint16>(16), 4, 4, GST_VIDEO_FORMAT_GRAY8);
         gst_buffer_get_video_meta(image)->width = 0;
         add_segmentation(gst_buffer_add_analytics_relation_meta(f), image, {0, 1}, {0, 0, 64, 48});
       }},
      {"an image of another format", "segmentation", "GRAY8",
       [](GstBuffer* f, Matte&) {
         GstBuffer* image = regions_of(std::vector<guint16>(16), 4, 4, GST_VIDEO_FORMAT_GRAY8);
         const GstAnalyticsMtd mtd = add_segmentation(gst_buffer_add_analytics_relation_meta(f),
                                                      image, {0, 1}, {0, 0, 64, 48});
         (void)mtd;
         gst_buffer_get_video_meta(image)->format = GST_VIDEO_FORMAT_RGBA;
       }},
      {"an image with less memory", "segmentation", "does not fit",
       [](GstBuffer* f, Matte&) {
         GstBuffer* image = regions_of(std::vector<guint16>(16), 4, 4, GST_VIDEO_FORMAT_GRAY8);
         gst_buffer_get_video_meta(image)->height = 5;
         add_segmentation(gst_buffer_add_analytics_relation_meta(f), image, {0, 1}, {0, 0, 64, 48});
       }},
      {"an image with a short stride", "segmentation", "does not fit",
       [](GstBuffer* f, Matte&) {
         GstBuffer* image = regions_of(std::vector<guint16>(16), 4, 4, GST_VIDEO_FORMAT_GRAY8);
         gst_buffer_get_video_meta(image)->stride[0] = 3;
         add_segmentation(gst_buffer_add_analytics_relation_meta(f), image, {0, 1}, {0, 0, 64, 48});
       }},
      {"an image that begins behind its memory", "segmentation", "memory",
       [](GstBuffer* f, Matte&) {
         GstBuffer* image = regions_of(std::vector<guint16>(16), 4, 4, GST_VIDEO_FORMAT_GRAY8);
         gst_buffer_get_video_meta(image)->offset[0] = 1000;
         add_segmentation(gst_buffer_add_analytics_relation_meta(f), image, {0, 1}, {0, 0, 64, 48});
       }},
  };
  for (const Hostile& h : all)
    s.run(at + "hostile/" + h.mask + "/" + h.name, [&](Case& c) {
      if (!usable(c, row)) return;
      Matte m(c, row, h.mask, info);
      for (int i = 0; i < 3; i++) {
        const BufferPtr f = m.frame(i);
        if (!c.ok()) return;
        h.change(f.get(), m);
        m.expect(f, m.opaque());
        // The warning is posted once, not for every frame.
        if (i == 0)
          m.warns(h.warning);
        else
          m.is_silent();
      }
    });

  s.run(at + "hostile/segmentation/many", [&](Case& c) {
    if (!usable(c, row)) return;
    Matte m(c, row, "segmentation", info);
    const BufferPtr f = m.frame();
    if (!c.ok()) return;
    GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(f.get());
    const Regions regions(4, 4, 1, 1);
    const Pixels pixels = regions.pixels(1);
    std::vector<MaskPart> parts;
    for (int i = 0; i < 70; i++) {
      const GstVideoRectangle r = {i % 10 * 7, i / 10 * 7, 6, 6};
      add_segmentation(meta, regions_of(regions.number, 4, 4, GST_VIDEO_FORMAT_GRAY8), {1}, r);
      if (i < CoarseMask::kMaxParts) parts.push_back(pixels.part(rectangle(r), rectangle(r)));
    }
    m.expect(f, parts);
    m.warns("more segmentations than 64");
  });
}

}  // namespace vf::test

#endif
