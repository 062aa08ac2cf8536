#include "gst/regions/regionsettings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "filters/region_mask.h"
#include "filters/region_motion.h"
#include "gst/base/analytics.h"
#include "gst/base/errors.h"
#include "gst/base/lookahead.h"
#include "gst/base/names.h"
#include "gst/matte/segmentation.h"

GST_DEBUG_CATEGORY_EXTERN(gst_cuda_video_filter_debug);
#define GST_CAT_DEFAULT gst_cuda_video_filter_debug

namespace gstvf {
namespace {

// Limits of a segmentation: its width and height in pixels, and the rectangles that cover it.
constexpr vf::Limits<int> kMaskSize{1, 8192};
constexpr size_t kMaskParts = 256;

// Whether `label` (may be null) is in a list of labels, or the list is empty.
bool is_wanted(const std::string& labels, const char* label) {
  bool any = false, found = false;
  for_each_name(labels, [&](const std::string& wanted) {
    any = true;
    found = found || (label && wanted == label);
  });
  return found || !any;
}

// Returns a box of a frame in one of its fields. A turned box becomes the upright box that it
// spans.
vf::RegionBox in_field(const vf::RegionBox& box) {
  vf::RegionBox b = box;
  if (b.angle != 0) {
    const double c = std::abs(std::cos(b.angle)), s = std::abs(std::sin(b.angle));
    const double width = b.width * c + b.height * s, height = b.width * s + b.height * c;
    b.x += (b.width - width) / 2;
    b.y += (b.height - height) / 2;
    b.width = width;
    b.height = height;
    b.angle = 0;
  }
  b.y /= 2;
  b.height /= 2;
  b.object_y /= 2;
  b.object_height /= 2;
  return b;
}

bool has_detector(GstCudaVideoFilterRegions regions) {
  return regions != GST_CUDA_VIDEO_FILTER_REGIONS_ALL &&
         regions != GST_CUDA_VIDEO_FILTER_REGIONS_AREAS;
}

}  // namespace

GType regions_type() {
  return enum_type("GstCudaVideoFilterRegions",
                   {{GST_CUDA_VIDEO_FILTER_REGIONS_ALL, "All of the frame", "all"},
                    {GST_CUDA_VIDEO_FILTER_REGIONS_ROI, "GstVideoRegionOfInterestMeta", "roi"},
                    {GST_CUDA_VIDEO_FILTER_REGIONS_ANALYTICS,
                     "GstAnalyticsODMtd, from GStreamer 1.26 on", "analytics"},
                    {GST_CUDA_VIDEO_FILTER_REGIONS_SEGMENTATION,
                     "GstAnalyticsSegmentationMtd, from GStreamer 1.26 on", "segmentation"},
                    {GST_CUDA_VIDEO_FILTER_REGIONS_AREAS,
                     "The areas of the property areas, and nothing else", "areas"}});
}

GType region_shape_type() {
  return enum_type("GstCudaVideoFilterRegionShape",
                   {{vf::RegionShape::box, "All of the box", "box"},
                    {vf::RegionShape::ellipse, "The ellipse in the box", "ellipse"}});
}

GType on_missing_type() {
  return enum_type(
      "GstCudaVideoFilterOnMissing",
      {{vf::OnMissing::pass, "Objects that are held (hold-ms), and nothing else", "pass"},
       {vf::OnMissing::hold, "The regions of the last result, however old", "hold"},
       {vf::OnMissing::all, "All of the frame", "all"}});
}

bool can_be_found(GstCudaVideoFilterRegions regions) {
  return kHasAnalytics || (regions != GST_CUDA_VIDEO_FILTER_REGIONS_ANALYTICS &&
                           regions != GST_CUDA_VIDEO_FILTER_REGIONS_SEGMENTATION);
}

std::string refuse_regions(GObject* object, const GValue* value) {
  const bool possible = can_be_found(GstCudaVideoFilterRegions(g_value_get_enum(value)));
  return possible ? "" : why_no_analytics(object);
}

GstClockTime look_ahead_of(const RegionSettings& settings) {
  return has_detector(settings.regions) ? settings.look_ahead_ms * GST_MSECOND : 0;
}

void latency_changed(GObject* object) {
  look_ahead_changed(GST_CUDA_VIDEO_FILTER(object));
}

std::string refuse_areas(GObject*, const GValue* value) {
  const char* text = g_value_get_string(value);
  Areas areas;
  return parse_areas(text ? text : "", &areas);
}

vf::Status make_regions(vf::Queue& queue, const Format& format, const RegionSettings& settings,
                        const vf::RegionFilter& filter, vf::Placement placement,
                        std::unique_ptr<vf::Plan>* plan) {
  std::unique_ptr<vf::RegionsPlan> made;
  vf::RegionParams params = settings;
  // A mask has a shape of its own.
  if (settings.regions == GST_CUDA_VIDEO_FILTER_REGIONS_SEGMENTATION)
    params.shape = vf::RegionShape::box;
  VF_TRY(vf::make_regions(queue, format.layout, params, filter, placement, &made));
  if (settings.hold_follow && has_detector(settings.regions)) VF_TRY(made->follow(format.color));
  *plan = std::move(made);
  return {};
}

void RegionFrames::reset() {
  tracker_.reset();
  last_ = GST_CLOCK_TIME_NONE;
  since_last_ = 0;
}

void RegionFrames::clear() {
  reset();
  tracker_.clear();
}

void RegionFrames::set_caps(const GstCaps* caps) {
  const GstStructure* s = gst_caps_get_structure(caps, 0);
  gst_structure_get(s, "width", G_TYPE_INT, &width_, "height", G_TYPE_INT, &height_, nullptr);
  area_boxes_ = boxes_of(areas_, width_, height_);
  int n, d;
  const bool known = gst_structure_get_fraction(s, "framerate", &n, &d) && n > 0;
  frame_ = known ? gint64(gst_util_uint64_scale(GST_SECOND, guint64(d), guint64(n))) : 0;
}

// Returns the nanoseconds that a frame lasts: its duration, or that of the caps' framerate. Without
// either it is 0, and held boxes do not age.
gint64 RegionFrames::length_of(GstClockTime duration) const {
  return duration > 0 && duration < GST_SECOND ? gint64(duration) : frame_;
}

// Returns the nanoseconds since the previous frame.
gint64 RegionFrames::elapsed_to(GstClockTime time, GstClockTime duration, bool backwards) {
  if (!GST_CLOCK_TIME_IS_VALID(time) || !GST_CLOCK_TIME_IS_VALID(last_)) {
    const gint64 length = length_of(duration);
    since_last_ = GST_CLOCK_TIME_IS_VALID(time) ? 0 : since_last_ + length;
    if (GST_CLOCK_TIME_IS_VALID(time)) last_ = time;
    return length;
  }
  GstClockTime before = std::exchange(last_, time);
  const gint64 counted = std::exchange(since_last_, 0);
  if (backwards) std::swap(time, before);
  // After a seek against the direction of play, held boxes do not age.
  if (time <= before) return 0;
  const gint64 passed = gint64(std::min<GstClockTime>(time - before, G_MAXINT32 * GST_MSECOND));
  return std::max<gint64>(passed - counted, 0);
}

// Fills detections_. False if no detector has left a result.
bool RegionFrames::detect(const RegionSettings& settings, GstBuffer* buffer) {
  detections_.clear();
  const auto add = [&](const char* label, double x, double y, double w, double h, double angle,
                       gint64 id, bool tracked = true) {
    if (is_wanted(settings.labels, label))
      detections_.push_back({id, vf::make_box(x, y, w, h, angle), {}, tracked});
  };
  if (settings.regions == GST_CUDA_VIDEO_FILTER_REGIONS_ANALYTICS)
    return for_each_detection(buffer, add);
  if (settings.regions == GST_CUDA_VIDEO_FILTER_REGIONS_SEGMENTATION)
    return detect_masks(settings, buffer);
  bool found = false;
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta_filtered(
             buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)) {
    const auto* roi = reinterpret_cast<GstVideoRegionOfInterestMeta*>(meta);
    found = true;
    // Some detectors number their boxes anew in each frame.
    add(roi->roi_type ? g_quark_to_string(roi->roi_type) : nullptr, roi->x, roi->y, roi->w, roi->h,
        0, roi->id > 0 ? roi->id : vf::Detection::kNoId, false);
  }
  return found;
}

// Fills detections_ from segmentations. One that cannot be read is not a result.
bool RegionFrames::detect_masks(const RegionSettings& settings, GstBuffer* buffer) {
  bool found = false;
  for_each_segmentation(buffer, [&](const SegmentationView& view) {
    if (view.is_empty()) {
      found = true;
      return true;
    }
    selected_.assign(1 << 16, 0);
    for (const SegmentationView::Region& r : view.regions) {
      // Region 0 is the background, unless it has a name that is asked for.
      const bool named = !r.label.empty() && !settings.labels.empty();
      if (r.id < selected_.size() && (r.id || named) && is_wanted(settings.labels, r.label.c_str()))
        selected_[r.id] = 255;
    }
    vf::RegionMask mask;
    const std::string wrong = read_segmentation(view, selected_, kMaskSize, [&](int w, int h) {
      mask_.resize(size_t(w) * h);
      mask.width = w;
      mask.height = h;
      return mask_.data();
    });
    if (!wrong.empty()) {
      GST_WARNING("%s", wrong.c_str());
      return true;
    }
    found = true;
    mask.marked = mask_.data();
    mask.stride = mask.width;
    mask.x = view.x;
    mask.y = view.y;
    mask.view_width = view.width;
    mask.view_height = view.height;
    vf::Detection object;
    vf::cover_mask(mask, kMaskParts, &object);
    if (!object.parts.empty()) detections_.push_back(std::move(object));
    return detections_.size() < size_t(vf::RegionParams::kMost);
  });
  return found;
}

// Adds the areas of the user to boxes_.
void RegionFrames::add_areas(const RegionSettings& settings) {
  if (settings.areas != areas_text_) {
    areas_text_ = settings.areas;
    static_cast<void>(parse_areas(areas_text_, &areas_));
    area_boxes_ = boxes_of(areas_, width_, height_);
  }
  // With region-invert, areas that stand alone are what is shown.
  const bool always = settings.regions != GST_CUDA_VIDEO_FILTER_REGIONS_AREAS;
  for (vf::RegionBox& b : area_boxes_) b.always = always;
  boxes_.insert(boxes_.end(), area_boxes_.begin(), area_boxes_.end());
}

vf::RegionTracker::Settings RegionFrames::tracking(const RegionSettings& settings) const {
  return {gint64(settings.hold_ms) * GST_MSECOND,
          settings.on_missing,
          gint64(look_ahead_of(settings)),
          settings.interpolate,
          settings.expand,
          width_,
          height_,
          settings.hold_follow};
}

GstClockTime RegionFrames::arrive(const RegionSettings& settings, GstBuffer* buffer,
                                  GstClockTime time, GstClockTime duration, bool backwards,
                                  bool ignore) {
  const bool known = GST_CLOCK_TIME_IS_VALID(time) || length_of(duration) > 0;
  const gint64 elapsed = elapsed_to(time, duration, backwards);
  clock_ += GstClockTime(elapsed);
  since_arrival_ += elapsed;
  if (buffer) {
    const bool found = !ignore && has_detector(settings.regions) && detect(settings, buffer);
    tracker_.arrive(std::exchange(since_arrival_, 0), found ? &detections_ : nullptr,
                    tracking(settings));
  }
  return known ? clock_ : GST_CLOCK_TIME_NONE;
}

void RegionFrames::leave(const RegionSettings& settings) {
  tracker_.leave(tracking(settings));
}

// Turns the motion of a field into pixels of the frame.
class FieldMotion final : public vf::BoxMotion {
 public:
  explicit FieldMotion(const vf::BoxMotion& field) : field_(field) {}
  bool in(const vf::RegionBox& box, double* x, double* y) const override {
    const bool sure = field_.in(in_field(box), x, y);
    *y *= 2;
    return sure;
  }
  int64_t from() const override { return field_.from(); }
  int64_t to() const override { return field_.to(); }

 private:
  const vf::BoxMotion& field_;
};

// Boxes are moved by the motion of the previous frame. The plan measures the motion of this frame
// only if boxes can follow it.
vf::Status RegionFrames::follow(const RegionSettings& settings, Rows rows, vf::RegionsPlan& plan) {
  vf::RegionMotion* motion = plan.motion();
  if (!motion) return {};
  if (!settings.hold_follow || !tracker_.can_follow()) {
    motion->forget();
    return {};
  }
  const bool known = motion->wait();
  const FieldMotion of_field(*motion);
  const vf::BoxMotion* moved = motion;
  if (rows != Rows::all) moved = &of_field;
  tracker_.follow(known ? moved : nullptr, tracking(settings));
  boxes_ = tracker_.followed();
  if (rows != Rows::all) std::transform(boxes_.begin(), boxes_.end(), boxes_.begin(), in_field);
  return plan.measure_next(tracker_.time(), boxes_);
}

vf::Status RegionFrames::prepare(const RegionSettings& settings, Rows rows, vf::RegionsPlan& plan) {
  const bool detects = has_detector(settings.regions);
  if (settings.regions == GST_CUDA_VIDEO_FILTER_REGIONS_ALL || (detects && tracker_.whole())) {
    plan.set_whole();
    return {};
  }
  if (detects && rows != Rows::bottom_field) VF_TRY(follow(settings, rows, plan));
  // The second field has the same regions as the first one.
  if (rows != Rows::bottom_field) {
    boxes_.clear();
    add_areas(settings);
    if (detects) boxes_.insert(boxes_.end(), tracker_.boxes().begin(), tracker_.boxes().end());
    if (rows != Rows::all) std::transform(boxes_.begin(), boxes_.end(), boxes_.begin(), in_field);
  }
  return plan.set_boxes(boxes_.data(), boxes_.size());
}

}  // namespace gstvf
