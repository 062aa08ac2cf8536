#include "gst/letterbox/letterboxresults.h"

#include <cmath>
#include <utility>

#include "gst/base/analytics.h"
#include "gst/letterbox/letterboxmeta.h"

namespace gstvf {

#if VF_HAVE_GST_ANALYTICS

namespace {

using Meta = GstAnalyticsRelationMeta;

bool is_known(GstAnalyticsMtdType type) {
  return type == gst_analytics_od_mtd_get_mtd_type() ||
         type == gst_analytics_cls_mtd_get_mtd_type() ||
         type == gst_analytics_tracking_mtd_get_mtd_type() ||
         type == gst_analytics_segmentation_mtd_get_mtd_type();
}

// Calls f(result) for each result, until f returns false. Returns false if f did.
template <class F>
bool for_each(Meta* meta, const F& f) {
  gpointer state = nullptr;
  GstAnalyticsMtd mtd;
  while (gst_analytics_relation_meta_iterate(meta, &state, GST_ANALYTICS_MTD_TYPE_ANY, &mtd))
    if (!f(mtd)) return false;
  return true;
}

struct Box {
  gint x = 0, y = 0, w = 0, h = 0;
  gfloat angle = 0, confidence = 0;  // the angle is clockwise around the centre, in radians
};

Box box_of(const GstAnalyticsMtd& mtd) {
  Box b;
  gst_analytics_od_mtd_get_oriented_location(&mtd, &b.x, &b.y, &b.w, &b.h, &b.angle, &b.confidence);
  return b;
}

// A rotated box keeps its centre and the direction of its width. If width and height are scaled
// differently, as with pixels that are not square, its corners are only near to where they belong.
Box moved(const Box& b, const vf::LetterboxGeometry& g) {
  Box out = b;
  double x = b.x, y = b.y, w = b.w, h = b.h;
  if (b.angle != 0 && std::isfinite(b.angle)) {
    const double fx = g.content_width / g.source_width, fy = g.content_height / g.source_height;
    const double c = std::cos(double(b.angle)), s = std::sin(double(b.angle));
    // These are in pixels of the source; map_rectangle() scales them.
    w *= std::hypot(fx * c, fy * s) / fx;
    h *= std::hypot(fx * s, fy * c) / fy;
    x += (b.w - w) / 2;
    y += (b.h - h) / 2;
    const double angle = std::atan2(fy * s, fx * c);
    out.angle = gfloat(angle < 0 ? angle + 2 * G_PI : angle);
  }
  const Rectangle r = map_rectangle(g, x, y, w, h);
  out.x = r.x, out.y = r.y, out.w = r.w, out.h = r.h;
  return out;
}

bool copy_classes(Meta* to, GstAnalyticsMtd& mtd, GstAnalyticsMtd* copy) {
  std::vector<gfloat> levels(gst_analytics_cls_mtd_get_length(&mtd));
  std::vector<GQuark> classes(levels.size());
  for (gsize i = 0; i < levels.size(); i++) {
    levels[i] = gst_analytics_cls_mtd_get_level(&mtd, i);
    classes[i] = gst_analytics_cls_mtd_get_quark(&mtd, i);
  }
  return gst_analytics_relation_meta_add_cls_mtd(to, levels.size(), levels.data(), classes.data(),
                                                 copy);
}

bool copy_track(Meta* to, GstAnalyticsMtd& mtd, GstAnalyticsMtd* copy) {
  guint64 id;
  GstClockTime first, last;
  gboolean lost;
  if (!gst_analytics_tracking_mtd_get_info(&mtd, &id, &first, &last, &lost) ||
      !gst_analytics_relation_meta_add_tracking_mtd(to, id, first, copy))
    return false;
  gst_analytics_tracking_mtd_update_last_seen(copy, last);
  if (lost) gst_analytics_tracking_mtd_set_lost(copy);
  return true;
}

bool move_segmentation(Meta* to, GstAnalyticsMtd& mtd, const vf::LetterboxGeometry& g,
                       GstAnalyticsMtd* copy) {
  gint x, y;
  guint w, h;
  GstBuffer* mask = gst_analytics_segmentation_mtd_get_mask(&mtd, &x, &y, &w, &h);
  const GstVideoMeta* video = mask ? gst_buffer_get_video_meta(mask) : nullptr;
  // GStreamer takes only these formats.
  if (!video ||
      (video->format != GST_VIDEO_FORMAT_GRAY8 && video->format != GST_VIDEO_FORMAT_GRAY16_LE &&
       video->format != GST_VIDEO_FORMAT_GRAY16_BE)) {
    gst_clear_buffer(&mask);
    return false;
  }
  std::vector<guint> regions(gst_analytics_segmentation_mtd_get_region_count(&mtd));
  for (gsize i = 0; i < regions.size(); i++)
    regions[i] = gst_analytics_segmentation_mtd_get_region_id(&mtd, i);
  const Rectangle r = map_rectangle(g, x, y, w, h);
  // GStreamer has no function that tells the type of a segmentation. All of its own have this one.
  const bool added = gst_analytics_relation_meta_add_segmentation_mtd(
      to, mask, GST_SEGMENTATION_TYPE_INSTANCE, regions.size(), regions.data(), r.x, r.y,
      guint(MAX(r.w, 0)), guint(MAX(r.h, 0)), copy);
  if (!added) gst_buffer_unref(mask);
  return added;
}

bool move_result(Meta* to, GstAnalyticsMtd& mtd, const vf::LetterboxGeometry& g,
                 GstAnalyticsMtd* copy) {
  const GstAnalyticsMtdType type = gst_analytics_mtd_get_mtd_type(&mtd);
  if (type == gst_analytics_od_mtd_get_mtd_type()) {
    const Box b = moved(box_of(mtd), g);
    return gst_analytics_relation_meta_add_oriented_od_mtd(
        to, gst_analytics_od_mtd_get_obj_type(&mtd), b.x, b.y, b.w, b.h, b.angle, b.confidence,
        copy);
  }
  if (type == gst_analytics_cls_mtd_get_mtd_type()) return copy_classes(to, mtd, copy);
  if (type == gst_analytics_tracking_mtd_get_mtd_type()) return copy_track(to, mtd, copy);
  return type == gst_analytics_segmentation_mtd_get_mtd_type() &&
         move_segmentation(to, mtd, g, copy);
}

// Tells whether a result is the copy of another.
bool same(GstAnalyticsMtd& a, GstAnalyticsMtd& b) {
  const GstAnalyticsMtdType type = gst_analytics_mtd_get_mtd_type(&a);
  if (type != gst_analytics_mtd_get_mtd_type(&b)) return false;
  if (type != gst_analytics_od_mtd_get_mtd_type()) return true;
  const Box x = box_of(a), y = box_of(b);
  return x.x == y.x && x.y == y.y && x.w == y.w && x.h == y.h && x.angle == y.angle &&
         gst_analytics_od_mtd_get_obj_type(&a) == gst_analytics_od_mtd_get_obj_type(&b);
}

std::vector<GstAnalyticsMtd> results_of(GstBuffer* buffer, bool known) {
  std::vector<GstAnalyticsMtd> results;
  if (Meta* meta = buffer ? gst_buffer_get_analytics_relation_meta(buffer) : nullptr)
    for_each(meta, [&](const GstAnalyticsMtd& mtd) {
      if (!known || is_known(gst_analytics_mtd_get_mtd_type(&mtd))) results.push_back(mtd);
      return true;
    });
  return results;
}

}  // namespace

bool is_results(const GstMeta* meta) {
  return meta->info->api == GST_ANALYTICS_RELATION_META_API_TYPE;
}

bool move_results(GstBuffer* outbuf, GstMeta* meta, const vf::LetterboxGeometry& g,
                  const std::vector<guint>& there, MoveResults which) {
  if (!is_results(meta)) return false;
  auto* from = reinterpret_cast<Meta*>(meta);
  if (which == MoveResults::all && !for_each(from, [](GstAnalyticsMtd& mtd) {
        return is_known(gst_analytics_mtd_get_mtd_type(&mtd));
      }))
    return false;
  Meta* to = gst_buffer_add_analytics_relation_meta(outbuf);
  std::vector<std::pair<guint, guint>> ids;
  for_each(from, [&](GstAnalyticsMtd& mtd) {
    GstAnalyticsMtd copy;
    if (ids.size() < there.size())
      ids.emplace_back(mtd.id, there[ids.size()]);
    else if (move_result(to, mtd, g, &copy))
      ids.emplace_back(mtd.id, copy.id);
    return true;
  });
  for (const auto& [a, a_copy] : ids)
    for (const auto& [b, b_copy] : ids)
      if (const auto relation = gst_analytics_relation_meta_get_relation(from, a, b))
        gst_analytics_relation_meta_set_relation(to, relation, a_copy, b_copy);
  return true;
}

std::vector<guint> results_there(GstBuffer* original, GstBuffer* moved_buffer, GstMeta* meta) {
  if (!is_results(meta)) return {};
  std::vector<GstAnalyticsMtd> before = results_of(moved_buffer, false);
  std::vector<GstAnalyticsMtd> own = results_of(original, false);
  // The letterbox may have left out results that it did not know.
  if (own.size() != before.size()) own = results_of(original, true);
  if (own.size() != before.size()) return {};
  std::vector<guint> ids;
  for_each(reinterpret_cast<Meta*>(meta), [&](GstAnalyticsMtd& mtd) {
    const bool is_copy = ids.size() < before.size() && same(mtd, before[ids.size()]);
    if (is_copy) ids.push_back(own[ids.size()].id);
    return is_copy;
  });
  return ids;
}

#else

bool is_results(const GstMeta*) {
  return false;
}

bool move_results(GstBuffer*, GstMeta*, const vf::LetterboxGeometry&, const std::vector<guint>&,
                  MoveResults) {
  return false;
}

std::vector<guint> results_there(GstBuffer*, GstBuffer*, GstMeta*) {
  return {};
}

#endif

}  // namespace gstvf
