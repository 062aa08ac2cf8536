#include <gst/video/navigation.h>

#include <cmath>
#include <cstring>

#include "filters/letterbox.h"
#include "gst/base/analytics.h"
#include "gst/letterbox/letterboxmeta.h"
#include "gst/letterbox/restoredframe.h"
#include "tests/elements/letterboxchain.h"

namespace vf::test {
namespace {

void regions(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0]);
  // 160x90 in 64x64 becomes 64x36 from row 14 on: 2.5 pixels become one.
  chain.network = [&c](GstBuffer* b) {
    GstVideoRegionOfInterestMeta* own = region(b, 0);
    if (!own) return c.fail("the original's region did not come"), true;
    gst_video_region_of_interest_meta_add_param(
        own, gst_structure_new("class", "label", G_TYPE_STRING, "cat", nullptr));
    GstVideoRegionOfInterestMeta* r =
        gst_buffer_add_video_region_of_interest_meta(b, "eye", 20, 18, 2, 4);
    r->id = 8;
    r->parent_id = own->id;
    gst_video_region_of_interest_meta_add_param(
        r, gst_structure_new("detection", "confidence", G_TYPE_DOUBLE, 0.5, nullptr));
    // Half of this region lies in the border.
    gst_buffer_add_video_region_of_interest_meta(b, "edge", 60, 0, 10, 28);
    return true;
  };
  chain.caps(info);
  GstBuffer* in = alone(make_frame(false, info, 3), 0);
  GstVideoRegionOfInterestMeta* own =
      gst_buffer_add_video_region_of_interest_meta(in, "cat", 41, 23, 51, 33);
  own->id = 7;
  gst_video_region_of_interest_meta_add_param(own, gst_structure_new_empty("mine"));
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
  const char* want[] = {"cat 7<0 41,23 51x33 2", "eye 8<7 50,10 5x10 1", "edge 0<0 150,0 10x35 0"};
  for (guint i = 0; i < 3; i++)
    c.check(described(region(out.get(), i)) == want[i], "region %u is %s, not %s", i,
            described(region(out.get(), i)).c_str(), want[i]);
  c.check(!region(out.get(), 3), "there is another region, %s",
          described(region(out.get(), 3)).c_str());
}

GstVideoOverlayRectangle* overlay_rectangle(int x, int y, int w, int h) {
  GstBuffer* pixels = gst_buffer_new_allocate(nullptr, 4 * 4 * 4, nullptr);
  gst_buffer_memset(pixels, 0, 255, 64);
  gst_buffer_add_video_meta(pixels, GST_VIDEO_FRAME_FLAG_NONE,
                            GST_VIDEO_OVERLAY_COMPOSITION_FORMAT_RGB, 4, 4);
  GstVideoOverlayRectangle* r = gst_video_overlay_rectangle_new_raw(
      pixels, x, y, guint(w), guint(h), GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE);
  gst_buffer_unref(pixels);
  return r;
}

void add_overlay(GstBuffer* b, int x, int y, int w, int h) {
  GstVideoOverlayRectangle* r = overlay_rectangle(x, y, w, h);
  GstVideoOverlayComposition* o = gst_video_overlay_composition_new(r);
  gst_buffer_add_video_overlay_composition_meta(b, o);
  gst_video_overlay_composition_unref(o);
  gst_video_overlay_rectangle_unref(r);
}

void other_metas(Case& c, const GstVideoInfo& info) {
  static const gchar* no_tags[] = {nullptr};
  gst_meta_register_custom("LetterboxRestoreTest", no_tags, nullptr, nullptr, nullptr);
  gst_meta_register_custom("LetterboxRestoreOther", no_tags, nullptr, nullptr, nullptr);
  Chain chain(kRows[0]);
  chain.network = [](GstBuffer* b) {
    gst_buffer_add_custom_meta(b, "LetterboxRestoreOther");
    add_overlay(b, 10, 20, 4, 4);
    return true;
  };
  chain.caps(info);
  GstBuffer* in = alone(make_frame(false, info, 3), 0);
  gst_buffer_add_custom_meta(in, "LetterboxRestoreTest");
  GstCaps* reference = gst_caps_new_empty_simple("timestamp/x-test");
  gst_buffer_add_reference_timestamp_meta(in, reference, 5, 6);
  gst_caps_unref(reference);
  add_overlay(in, 3, 5, 7, 9);
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
  int counts[4] = {};
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta(out.get(), &state)) {
    counts[0] +=
        gst_meta_info_is_custom(meta->info) &&
        gst_custom_meta_has_name(reinterpret_cast<GstCustomMeta*>(meta), "LetterboxRestoreTest");
    counts[1] +=
        gst_meta_info_is_custom(meta->info) &&
        gst_custom_meta_has_name(reinterpret_cast<GstCustomMeta*>(meta), "LetterboxRestoreOther");
    counts[2] += meta->info->api == GST_REFERENCE_TIMESTAMP_META_API_TYPE;
    counts[3] += meta->info->api == GST_VIDEO_OVERLAY_COMPOSITION_META_API_TYPE;
  }
  c.check(counts[0] == 1 && counts[1] == 1 && counts[2] == 1 && counts[3] == 1,
          "%d, %d, %d and %d metas of what are one each", counts[0], counts[1], counts[2],
          counts[3]);
  GstVideoOverlayCompositionMeta* overlay =
      gst_buffer_get_video_overlay_composition_meta(out.get());
  const int want[][4] = {{3, 5, 7, 9}, {25, 15, 10, 10}};
  c.check(overlay && gst_video_overlay_composition_n_rectangles(overlay->overlay) == 2,
          "not two overlays");
  for (guint i = 0; c.ok() && i < 2; i++) {
    gint x, y;
    guint w, h;
    gst_video_overlay_rectangle_get_render_rectangle(
        gst_video_overlay_composition_get_rectangle(overlay->overlay, i), &x, &y, &w, &h);
    c.check(x == want[i][0] && y == want[i][1] && int(w) == want[i][2] && int(h) == want[i][3],
            "overlay %u at %d,%d %ux%u", i, x, y, w, h);
  }
}

// The network's tensors go to elements behind the restorer, with the geometry to place them.
#if VF_HAVE_GST_ANALYTICS
void network_tensors(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0]);
  chain.network = [](GstBuffer* b) {
    GstTensor** tensors = g_new(GstTensor*, 1);
    gsize dims[] = {2, 3};
    tensors[0] = gst_tensor_new_simple(g_quark_from_string("mask"), GST_TENSOR_DATA_TYPE_UINT8,
                                       gst_buffer_new_allocate(nullptr, 6, nullptr),
                                       GST_TENSOR_DIM_ORDER_ROW_MAJOR, 2, dims);
    gst_tensor_meta_set(gst_buffer_add_tensor_meta(b), 1, tensors);
    return true;
  };
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  const BufferPtr out = chain.try_pull();
  GstTensorMeta* meta = out ? gst_buffer_get_tensor_meta(out.get()) : nullptr;
  GstCudaLetterboxGeometry g = {};
  c.check(meta && meta->num_tensors == 1, "no tensor: %s", chain.error().c_str());
  c.check(out && gst_buffer_get_cuda_letterbox_geometry(out.get(), &g) && g.top == 14 &&
              g.output_width == 64 && g.source_width == 160,
          "nothing says where it belongs");
}

struct Result {
  GstAnalyticsMtd mtd;
  gint x = 0, y = 0, w = 0, h = 0;
  gfloat angle = 0;
};

std::vector<Result> results_of(GstBuffer* buffer, GstAnalyticsMtdType type) {
  std::vector<Result> all;
  GstAnalyticsRelationMeta* meta =
      buffer ? gst_buffer_get_analytics_relation_meta(buffer) : nullptr;
  gpointer state = nullptr;
  Result r;
  while (meta && gst_analytics_relation_meta_iterate(meta, &state, type, &r.mtd)) {
    gfloat confidence;
    if (type == gst_analytics_od_mtd_get_mtd_type())
      gst_analytics_od_mtd_get_oriented_location(&r.mtd, &r.x, &r.y, &r.w, &r.h, &r.angle,
                                                 &confidence);
    all.push_back(r);
  }
  return all;
}

bool related(const Result& a, const Result& b, GstAnalyticsRelTypes how) {
  return gst_analytics_relation_meta_get_relation(a.mtd.meta, a.mtd.id, b.mtd.id) & how;
}

GstBuffer* mask_of(guint w, guint h) {
  GstBuffer* mask = gst_buffer_new_allocate(nullptr, w * h, nullptr);
  gst_buffer_memset(mask, 0, 1, w * h);
  gst_buffer_add_video_meta(mask, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8, w, h);
  return mask;
}

// `own_results` says whether the original has results of its own.
void analytics(Case& c, const GstVideoInfo& info, bool own_results) {
  Chain chain(kRows[0]);
  GstBuffer* mask = mask_of(8, 6);
  chain.network = [&](GstBuffer* b) {
    const auto boxes = results_of(b, gst_analytics_od_mtd_get_mtd_type());
    GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(b);
    GstAnalyticsMtd box, kind, track, segments;
    gst_analytics_relation_meta_add_oriented_od_mtd(meta, g_quark_from_string("cat"), 16, 22, 20,
                                                    12, 0.5f, 0.75f, &box);
    gst_analytics_relation_meta_add_one_cls_mtd(meta, 0.5f, g_quark_from_string("tabby"), &kind);
    gst_analytics_relation_meta_add_tracking_mtd(meta, 9, 1, &track);
    guint ids[] = {0, 3};
    gst_analytics_relation_meta_add_segmentation_mtd(meta, gst_buffer_ref(mask),
                                                     GST_SEGMENTATION_TYPE_INSTANCE, 2, ids, 16, 22,
                                                     20, 12, &segments);
    for (const GstAnalyticsMtd& m : {kind, track, segments})
      gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, box.id,
                                               m.id);
    // The new box is part of the one that was there.
    if (!boxes.empty())
      gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_IS_PART_OF, box.id,
                                               boxes[0].mtd.id);
    return true;
  };
  chain.caps(info);
  GstBuffer* in = alone(make_frame(false, info, 3), 0);
  if (own_results) {
    GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(in);
    GstAnalyticsMtd box, kind;
    gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_string("sofa"), 33, 11, 71, 53, 0.5f,
                                           &box);
    gst_analytics_relation_meta_add_one_cls_mtd(meta, 0.25f, g_quark_from_string("red"), &kind);
    gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, box.id,
                                             kind.id);
  }
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
  const size_t before = own_results ? 1 : 0;
  const auto boxes = results_of(out.get(), gst_analytics_od_mtd_get_mtd_type());
  const auto kinds = results_of(out.get(), gst_analytics_cls_mtd_get_mtd_type());
  const auto tracks = results_of(out.get(), gst_analytics_tracking_mtd_get_mtd_type());
  const auto masks = results_of(out.get(), gst_analytics_segmentation_mtd_get_mtd_type());
  if (boxes.size() != before + 1 || kinds.size() != before + 1 || tracks.size() != 1 ||
      masks.size() != 1)
    return c.fail("%zu boxes, %zu classes, %zu tracks, %zu masks", boxes.size(), kinds.size(),
                  tracks.size(), masks.size());
  const Result& box = boxes.back();
  c.check(box.x == 40 && box.y == 20 && box.w == 50 && box.h == 30 &&
              std::fabs(box.angle - 0.5f) < 1e-6f,
          "box at %d,%d %dx%d, turned by %g", box.x, box.y, box.w, box.h, double(box.angle));
  for (const Result* r : {&kinds.back(), &tracks[0], &masks[0]})
    c.check(related(box, *r, GST_ANALYTICS_REL_TYPE_RELATE_TO), "a relation is lost");
  gint x, y;
  guint w, h;
  GstBuffer* got = gst_analytics_segmentation_mtd_get_mask(&masks[0].mtd, &x, &y, &w, &h);
  c.check(got == mask && x == 40 && y == 20 && w == 50 && h == 30, "mask at %d,%d %ux%u", x, y, w,
          h);
  gsize index = 0;
  c.check(gst_analytics_segmentation_mtd_get_region_count(&masks[0].mtd) == 2 &&
              gst_analytics_segmentation_mtd_get_region_index(&masks[0].mtd, &index, 3) &&
              index == 1,
          "the regions of the mask are lost");
  gst_clear_buffer(&got);
  if (own_results) {
    c.check(boxes[0].x == 33 && boxes[0].y == 11 && boxes[0].w == 71 && boxes[0].h == 53,
            "the original's box is at %d,%d %dx%d", boxes[0].x, boxes[0].y, boxes[0].w, boxes[0].h);
    c.check(related(boxes[0], kinds[0], GST_ANALYTICS_REL_TYPE_RELATE_TO) &&
                related(box, boxes[0], GST_ANALYTICS_REL_TYPE_IS_PART_OF),
            "a relation of the original's box is lost");
    c.check(!related(boxes[0], kinds[1], GST_ANALYTICS_REL_TYPE_ANY), "a relation too many");
  }
  gst_buffer_unref(mask);
}

// Pixels are twice as wide as high. A turned box must have its axis in the right place.
void turned_boxes(Case& c) {
  Chain chain(kRows[0], "", "", "video/x-raw,format=RGB,width=64,height=64,pixel-aspect-ratio=1/1");
  GstVideoInfo info = video_info("RGB", 32, 64);
  info.par_n = 2;
  info.par_d = 1;
  const float angle = float(G_PI / 4);
  chain.network = [&](GstBuffer* b) {
    GstAnalyticsMtd box;
    gst_analytics_relation_meta_add_oriented_od_mtd(gst_buffer_add_analytics_relation_meta(b),
                                                    g_quark_from_string("x"), 20, 30, 24, 4, angle,
                                                    1, &box);
    return true;
  };
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  const BufferPtr out = chain.try_pull();
  const auto boxes = results_of(out.get(), gst_analytics_od_mtd_get_mtd_type());
  if (boxes.size() != 1) return c.fail("%zu boxes: %s", boxes.size(), chain.error().c_str());
  const Result& r = boxes[0];
  // Its axis ends 12 pixels from the centre (32, 32), at 45 degrees.
  const double dx = 12 * std::cos(angle) / 2, dy = 12 * std::sin(angle);
  c.check(std::fabs(r.angle - std::atan2(dy, dx)) < 1e-5, "turned by %g", double(r.angle));
  c.check(std::fabs(r.w / 2. - std::hypot(dx, dy)) <= 0.5 &&
              std::fabs(r.x + r.w / 2. - 16) <= 0.5 && std::fabs(r.y + r.h / 2. - 32) <= 0.5,
          "at %d,%d %dx%d", r.x, r.y, r.w, r.h);
}
#endif

}  // namespace

void restored_meta_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  s.run(at + "tensors of a network", [&](Case& c) {
#if VF_HAVE_GST_ANALYTICS
    network_tensors(c, info);
#else
    c.skip("built without GStreamer's analytics library (1.26)");
#endif
  });
  s.run(at + "regions are mapped back", [&](Case& c) { regions(c, info); });
  s.run(at + "other metas and overlays", [&](Case& c) { other_metas(c, info); });
  for (const bool own_results : {false, true})
    s.run(
        at + "analytics results are mapped back" + (own_results ? ", next to the original's" : ""),
        [&](Case& c) {
#if VF_HAVE_GST_ANALYTICS
          analytics(c, info, own_results);
#else
          c.skip("built without GStreamer's analytics library (1.26)");
#endif
        });
  s.run(at + "rotated boxes with non-square pixels", [&](Case& c) {
#if VF_HAVE_GST_ANALYTICS
    turned_boxes(c);
#else
    c.skip("built without GStreamer's analytics library (1.26)");
#endif
  });
}

}  // namespace vf::test
