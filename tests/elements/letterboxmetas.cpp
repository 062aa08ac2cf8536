#include <gst/video/navigation.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "filters/letterbox.h"
#include "gst/base/analytics.h"
#include "gst/gstcudaletterboxmeta.h"
#include "tests/elements/letterboxbench.h"

namespace vf::test {
namespace {

void own_meta_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  const Row& row = kRows[0];
  // The frame has 160 x 90 pixels.
  const struct {
    int width, height;
    double x, y, source_x, source_y, left, top;
  } kMaps[] = {{64, 64, 32, 32, 80, 45, 0, 14}, {96, 36, 24, 9, 20, 22.5, 16, 0}};
  for (const auto& m : kMaps)
    s.run(at + "the installed header reads the meta, " + std::to_string(m.width), [&](Case& c) {
      Letterbox l(row);
      l.out(("video/x-raw,format=RGB,width=" + std::to_string(m.width) +
             ",height=" + std::to_string(m.height))
                .c_str());
      l.in(info);
      const BufferPtr out = l.push(make_frame(false, info, 3));
      GstCudaLetterboxGeometry g;
      if (!out || !gst_buffer_get_cuda_letterbox_geometry(out.get(), &g))
        return c.fail("no meta: %s", l.error().c_str());
      double x, y;
      gst_cuda_letterbox_geometry_to_source(&g, m.x, m.y, &x, &y);
      c.check(x == m.source_x && y == m.source_y && g.source_width == 160 && g.left == m.left &&
                  g.top == m.top,
              "%g,%g, left %g, top %g", x, y, g.left, g.top);
      gst_cuda_letterbox_geometry_from_source(&g, x, y, &x, &y);
      c.check(x == m.x && y == m.y, "back at %g,%g", x, y);
      gst_structure_remove_field(gst_custom_meta_get_structure(gst_buffer_get_custom_meta(
                                     out.get(), GST_CUDA_LETTERBOX_META_NAME)),
                                 "top");
      c.check(!gst_buffer_get_cuda_letterbox_geometry(out.get(), &g), "a meta without top is read");
    });

  s.run(at + "passthrough if downstream asks for nothing", [&](Case& c) {
    Letterbox l(row);
    l.in(info);
    const BufferPtr in = make_frame(false, info, 3);
    const BufferPtr out = l.push(in);
    c.check(out && gst_buffer_peek_memory(out.get(), 0) == gst_buffer_peek_memory(in.get(), 0),
            "a frame was copied");
    c.check(!gst_buffer_get_custom_meta(in.get(), kMeta), "the frame of another owner was changed");
    const auto is = [&](const char* field, double value) {
      c.check(meta_double(out.get(), field) == value, "%s is %g", field,
              meta_double(out.get(), field));
    };
    for (const char* border : {"left", "top"}) is(border, 0);
    for (const char* width : {"content-width", "source-width"}) is(width, 160);
    for (const char* height : {"content-height", "source-height"}) is(height, 90);
    is("scale", 1);

    // The meta of an upstream letterbox still holds.
    const BufferPtr described = make_frame(false, info, 3);
    GstCustomMeta* meta = gst_buffer_add_custom_meta(described.get(), kMeta);
    gst_structure_set(gst_custom_meta_get_structure(meta), "left", G_TYPE_DOUBLE, 7.0, nullptr);
    const BufferPtr again = l.push(described);
    c.check(meta_double(again.get(), "left") == 7, "left became %g",
            meta_double(again.get(), "left"));
  });
}

void frame_metas_case(Suite& s, const std::string& at, const GstVideoInfo& info) {
  const Row& row = kRows[0];
  s.run(at + "metas move with the picture", [&](Case& c) {
    Letterbox l(row);
    l.out("video/x-raw,format=RGB,width=64,height=64");
    l.in(info);
    const BufferPtr in = make_frame(false, info, 3);
    GstVideoCropMeta* crop = gst_buffer_add_video_crop_meta(in.get());
    crop->x = 40, crop->y = 20, crop->width = 50, crop->height = 30;
    // The frame gets a GstVideoOverlayComposition with one rectangle.
    const BufferPtr pixels = own(gst_buffer_new_allocate(nullptr, 4 * 4 * 4, nullptr));
    gst_buffer_add_video_meta(pixels.get(), GST_VIDEO_FRAME_FLAG_NONE,
                              GST_VIDEO_OVERLAY_COMPOSITION_FORMAT_RGB, 4, 4);
    GstVideoOverlayRectangle* rectangle = gst_video_overlay_rectangle_new_raw(
        pixels.get(), 40, 20, 50, 30, GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE);
    GstVideoOverlayComposition* overlay = gst_video_overlay_composition_new(rectangle);
    gst_video_overlay_rectangle_unref(rectangle);
    gst_buffer_add_video_overlay_composition_meta(in.get(), overlay);
    gst_video_overlay_composition_unref(overlay);
    // Metas that do not depend on places are kept. Metas that only their owner could move are
    // dropped.
    static const gchar* size_tags[] = {GST_META_TAG_VIDEO_STR, GST_META_TAG_VIDEO_SIZE_STR,
                                       nullptr};
    static const gchar* video_tags[] = {GST_META_TAG_VIDEO_STR, nullptr};
    static const gchar* colour_tags[] = {GST_META_TAG_VIDEO_COLORSPACE_STR, nullptr};
    static const gchar* no_tags[] = {nullptr};
    static int scaled;
    const auto scales = [](GstBuffer*, GstCustomMeta*, GstBuffer*, GQuark type, gpointer data,
                           gpointer) -> gboolean {
      if (!GST_VIDEO_META_TRANSFORM_IS_SCALE(type)) return FALSE;
      const auto* t = static_cast<const GstVideoMetaTransform*>(data);
      scaled = t->out_info->width * 1000 + t->in_info->width;
      return TRUE;
    };
    gst_meta_register_custom("vf-size", size_tags, scales, nullptr, nullptr);
    gst_meta_register_custom("vf-video", video_tags, nullptr, nullptr, nullptr);
    gst_meta_register_custom("vf-colour", colour_tags, nullptr, nullptr, nullptr);
    gst_meta_register_custom("vf-plain", no_tags, nullptr, nullptr, nullptr);
    for (const char* name : {"vf-size", "vf-video", "vf-colour", "vf-plain"})
      gst_buffer_add_custom_meta(in.get(), name);

    const BufferPtr out = l.push(in);
    if (!out) return c.fail("nothing came out: %s", l.error().c_str());
    const GstVideoCropMeta* moved = gst_buffer_get_video_crop_meta(out.get());
    c.check(moved && moved->x == 16 && moved->y == 22 && moved->width == 20 && moved->height == 12,
            "crop is %u,%u %ux%u", moved ? moved->x : 0, moved ? moved->y : 0,
            moved ? moved->width : 0, moved ? moved->height : 0);
    const GstVideoOverlayCompositionMeta* over =
        gst_buffer_get_video_overlay_composition_meta(out.get());
    gint x = 0, y = 0;
    guint w = 0, h = 0;
    if (over && gst_video_overlay_composition_n_rectangles(over->overlay) == 1)
      gst_video_overlay_rectangle_get_render_rectangle(
          gst_video_overlay_composition_get_rectangle(over->overlay, 0), &x, &y, &w, &h);
    c.check(x == 16 && y == 22 && w == 20 && h == 12, "overlay is at %d,%d %ux%u", x, y, w, h);
    c.check(gst_buffer_get_custom_meta(out.get(), "vf-video") &&
                gst_buffer_get_custom_meta(out.get(), "vf-plain"),
            "a meta without places is gone");
    c.check(!gst_buffer_get_custom_meta(out.get(), "vf-colour"),
            "a meta of the old colours was kept");
    c.check(!gst_buffer_get_custom_meta(out.get(), "vf-size") && !scaled,
            "a meta was scaled without the border");

    // Without a border, the only transform is the scale.
    Letterbox full(row);
    full.out("video/x-raw,format=RGB,width=80,height=45");
    full.in(info);
    const BufferPtr half = full.push(in);
    c.check(half && scaled == 80160, "scaled by %d", scaled);

    // Tensors get no crop and no overlays.
    Letterbox tensor(row);
    tensor.out("other/tensors,format=static,num_tensors=1,types=uint8,dimensions=3:64:64:1");
    tensor.in(info);
    gst_buffer_add_video_region_of_interest_meta(in.get(), "face", 40, 20, 50, 30);
    const BufferPtr bytes = tensor.push(in);
    if (!bytes) return c.fail("no tensor came out: %s", tensor.error().c_str());
    c.check(!gst_buffer_get_video_crop_meta(bytes.get()) &&
                !gst_buffer_get_video_overlay_composition_meta(bytes.get()),
            "a meta of a frame is on a tensor");
    const auto* roi = reinterpret_cast<GstVideoRegionOfInterestMeta*>(
        gst_buffer_get_meta(bytes.get(), GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE));
    c.check(roi && roi->x == 16 && roi->y == 22, "the region is not where the tensor has it");
  });
}

void analytics_cases(Suite& s, const std::string& at, [[maybe_unused]] const GstVideoInfo& info) {
  s.run(at + "tensors have a GstTensorMeta", [&](Case& c) {
#if VF_HAVE_GST_ANALYTICS
    // With a device, tensors in host memory come from a pool.
    const bool pooled = cuda_context() != nullptr;
    // The variants are planar or not, with frames in flight or without.
    for (const int variant : {0, 1, 2, 3}) {
      const bool planar = variant & 1;
      Row row = kRows[pooled ? 1 : 0];
      row.async_depth = pooled && (variant & 2) ? 2 : 0;
      Letterbox l(row);
      l.out(planar
                ? "other/"
                  "tensors,format=static,num_tensors=1,types=float16,dimensions=(string)64:32:3:1"
                : "other/"
                  "tensors,format=static,num_tensors=1,types=float16,dimensions=(string)3:64:32:1");
      l.in(info);
      const BufferPtr in = make_frame(false, info, 3);
      GstMemory* before = nullptr;
      for (int i = 0; i < row.async_depth; i++) c.check(!l.push(in), "frame %d came at once", i);
      for (int i = 0; i < 3; i++) {
        const BufferPtr out = l.push(in);
        GstTensorMeta* meta = out ? gst_buffer_get_tensor_meta(out.get()) : nullptr;
        if (!meta || meta->num_tensors != 1) return c.fail("no meta: %s", l.error().c_str());
        const GstTensor* tensor = gst_tensor_meta_get(meta, 0);
        const gsize dims[] = {1, planar ? 3u : 32u, planar ? 32u : 64u, planar ? 64u : 3u};
        c.check(tensor->num_dims == 4 && memcmp(tensor->dims, dims, sizeof dims) == 0 &&
                    tensor->data_type == GST_TENSOR_DATA_TYPE_FLOAT16,
                "dimensions %zu, %zu, %zu, %zu", tensor->dims[0], tensor->dims[1], tensor->dims[2],
                tensor->dims[3]);
        GstMemory* memory = gst_buffer_peek_memory(out.get(), 0);
        c.check(gst_buffer_peek_memory(tensor->data, 0) == memory, "the tensor was copied");
        c.check(!pooled || row.async_depth || !before || before == memory,
                "the meta keeps the pool from using its memory again");
        before = memory;
      }
    }
#else
    c.skip("built without GStreamer's analytics library (1.26)");
#endif
  });

  s.run(at + "detections move with the picture", [&](Case& c) {
#if VF_HAVE_GST_ANALYTICS
    Letterbox l(kRows[0]);
    l.out("video/x-raw,format=RGB,width=64,height=64");
    l.in(info);
    const BufferPtr in = make_frame(false, info, 3);
    GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(in.get());
    GstAnalyticsMtd box, kind, track;
    gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_string("cat"), 40, 20, 50, 30, 0.75f,
                                           &box);
    gst_analytics_relation_meta_add_one_cls_mtd(meta, 0.5f, g_quark_from_string("tabby"), &kind);
    gst_analytics_relation_meta_add_tracking_mtd(meta, 9, 1, &track);
    gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, box.id,
                                             kind.id);
    const BufferPtr out = l.push(in);
    GstAnalyticsRelationMeta* moved =
        out ? gst_buffer_get_analytics_relation_meta(out.get()) : nullptr;
    if (!moved) return c.fail("the meta is gone: %s", l.error().c_str());
    gpointer state = nullptr;
    GstAnalyticsMtd found;
    gint x = 0, y = 0, w = 0, h = 0;
    gfloat confidence = 0;
    if (!gst_analytics_relation_meta_iterate(moved, &state, gst_analytics_od_mtd_get_mtd_type(),
                                             &found) ||
        !gst_analytics_od_mtd_get_location(&found, &x, &y, &w, &h, &confidence))
      return c.fail("the box is gone");
    c.check(x == 16 && y == 22 && w == 20 && h == 12 && confidence == 0.75f,
            "box at %d,%d %dx%d, %g", x, y, w, h, double(confidence));
    state = nullptr;
    c.check(gst_analytics_relation_meta_get_direct_related(
                moved, found.id, GST_ANALYTICS_REL_TYPE_RELATE_TO,
                gst_analytics_cls_mtd_get_mtd_type(), &state, &kind) &&
                gst_analytics_cls_mtd_get_level(&kind, 0) == 0.5f,
            "its class is gone");
    c.check(gst_analytics_relation_get_length(moved) == 3, "%zu results",
            gst_analytics_relation_get_length(moved));
#else
    c.skip("built without GStreamer's analytics library (1.26)");
#endif
  });
}

}  // namespace

void letterbox_meta_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  own_meta_cases(s, at, info);
  frame_metas_case(s, at, info);
  analytics_cases(s, at, info);
}

}  // namespace vf::test
