// Adds the properties of regions to elements that filter each plane of a frame (planesettings.h),
// and reads the regions that detectors attach to frames.
//
// Such an element's settings derive from RegionSettings too; regionelement.h does the rest.
#pragma once

#include <string>
#include <vector>

#include "filters/region_tracker.h"
#include "gst/base/properties.h"
#include "gst/regions/areas.h"

G_BEGIN_DECLS

typedef enum {
  GST_CUDA_VIDEO_FILTER_REGIONS_ALL,
  GST_CUDA_VIDEO_FILTER_REGIONS_ROI,
  GST_CUDA_VIDEO_FILTER_REGIONS_ANALYTICS,
  GST_CUDA_VIDEO_FILTER_REGIONS_SEGMENTATION,
  GST_CUDA_VIDEO_FILTER_REGIONS_AREAS,
} GstCudaVideoFilterRegions;

G_END_DECLS

namespace gstvf {

GType regions_type();
GType region_shape_type();
GType on_missing_type();

// Tells whether frames can have such regions at all, with the version of GStreamer that this build
// is for.
bool can_be_found(GstCudaVideoFilterRegions regions);
// Says why `regions` cannot have this value; empty if it can.
std::string refuse_regions(GObject* object, const GValue* value);
// Says why `areas` cannot have this value.
std::string refuse_areas(GObject* object, const GValue* value);

// Tells the pipeline that the latency may have changed.
void latency_changed(GObject* object);

struct RegionSettings : vf::RegionParams {
  static constexpr vf::Limits<int> kHold{0, 3600000};
  static constexpr vf::Limits<guint> kLookAhead{0, 5000};

  GstCudaVideoFilterRegions regions = GST_CUDA_VIDEO_FILTER_REGIONS_ALL;
  std::string labels;
  std::string areas;
  int hold_ms = 500;
  guint look_ahead_ms = 0;
  bool interpolate = true;
  bool hold_follow = true;
  vf::OnMissing on_missing = vf::OnMissing::pass;

  // Call this from class_init.
  template <class S>
  static void install_regions(GObjectClass* klass, S* (*settings_of)(GObject*)) {
    install_properties<S>(
        klass, settings_of,
        {
            {"regions", "Regions", &S::regions, regions_type(),
             "Filter all of a frame, or the objects that a detector found in it",
             RowOptions(kControllable, refuse_regions, latency_changed)},
            {"areas", "Areas", &S::areas,
             "Areas to filter in every frame, separated by semicolons: boxes x,y,width,height and "
             "polygons x,y x,y x,y (3 to 64 corners). Numbers are pixels, or percentages of the "
             "frame if all numbers of an area have a %. region-expand and region-shape do not "
             "change areas",
             RowOptions(kControllable, refuse_areas)},
            {"region-labels", "Region labels", &S::labels,
             "Labels of the objects to filter, separated by commas. A backslash before a comma "
             "makes it part of a label. Empty = all"},
            {"region-invert", "Region invert", &S::invert, "Filter everything except the regions"},
            {"region-expand", "Region expand", &S::expand, S::kExpand,
             "Margin on each side of a region, as a share of the object's width or height"},
            {"region-shape", "Region shape", &S::shape, region_shape_type(),
             "Shape of a region in its box"},
            {"region-feather", "Region feather", &S::feather, S::kFeather,
             "Width of the fade outside of a region, in pixels. 0 = a hard edge"},
            {"hold-ms", "Hold", &S::hold_ms, S::kHold,
             "Time in milliseconds for which an object stays filtered after it was last found. "
             "hold-follow says where"},
            {"look-ahead-ms", "Look-ahead", &S::look_ahead_ms, S::kLookAhead,
             "Delay of each frame in milliseconds. An object is then also filtered for this time "
             "before it was first found, where it probably was. Waiting frames take memory",
             RowOptions(kControllable, nullptr, latency_changed)},
            {"interpolate", "Interpolate", &S::interpolate,
             "If an object is missed for at most the sum of hold-ms and look-ahead-ms, filter "
             "it on the straight line between the places where it was found before and after. "
             "Needs look-ahead-ms"},
            {"hold-follow", "Hold follow", &S::hold_follow,
             "Move a held region with the picture inside of it. This costs time only in frames "
             "in which an object is held"},
            {"on-missing", "On missing", &S::on_missing, on_missing_type(),
             "How to filter a frame without any result of the detector"},
        });
  }
};

// Returns the nanoseconds for which frames wait. They wait for a detector's results only.
GstClockTime look_ahead_of(const RegionSettings& settings);

// Makes a plan of regions with these settings, for an element's make_plan.
vf::Status make_regions(vf::Queue& queue, const Format& format, const RegionSettings& settings,
                        const vf::RegionFilter& filter, vf::Placement placement,
                        std::unique_ptr<vf::Plan>* plan);

// Tracks the regions of an element's frames. Only the streaming thread uses it.
class RegionFrames {
 public:
  // Forgets objects. Frames that have arrived stay.
  void reset();
  // Forgets these frames too.
  void clear();
  // Sets the frames' size, and the rate that is used for frames without times and durations.
  void set_caps(const GstCaps* caps);
  // Takes a frame that has come in, or null for a gap that ends at `time`. `backwards` says that
  // the times of frames fall. With `ignore` the detector's results do not count. Returns the sum of
  // the times between frames so far, or GST_CLOCK_TIME_NONE if this frame's is not known.
  GstClockTime arrive(const RegionSettings& settings, GstBuffer* buffer, GstClockTime time,
                      GstClockTime duration, bool backwards, bool ignore);
  // Goes on to the oldest frame that has arrived.
  void leave(const RegionSettings& settings);
  // Gives `plan` the regions of this frame, or of one of its fields, and lets held regions follow
  // the motion that the plan has measured. The second field has the boxes of the first one.
  vf::Status prepare(const RegionSettings& settings, Rows rows, vf::RegionsPlan& plan);

  // These count the objects and areas in the last frame, and the objects that were not found in it
  // but are held.
  guint objects() const { return guint(tracker_.objects() + areas_.list.size()); }
  guint held() const { return guint(tracker_.objects() - tracker_.found()); }

 private:
  vf::Status follow(const RegionSettings& settings, Rows rows, vf::RegionsPlan& plan);
  void add_areas(const RegionSettings& settings);
  bool detect(const RegionSettings& settings, GstBuffer* buffer);
  bool detect_masks(const RegionSettings& settings, GstBuffer* buffer);
  vf::RegionTracker::Settings tracking(const RegionSettings& settings) const;
  gint64 elapsed_to(GstClockTime time, GstClockTime duration, bool backwards);
  gint64 length_of(GstClockTime duration) const;

  vf::RegionTracker tracker_;
  std::vector<vf::Detection> detections_;
  std::vector<vf::RegionBox> boxes_;  // boxes of the frame, or of its first and then second field
  std::string areas_text_;            // the text that areas_ was read from
  Areas areas_;
  std::vector<vf::RegionBox> area_boxes_;
  int width_ = 0, height_ = 0;
  std::vector<uint8_t> selected_, mask_;
  GstClockTime last_ = GST_CLOCK_TIME_NONE;  // time of the last frame that had one
  gint64 since_last_ = 0;                    // nanoseconds counted for the frames after it
  GstClockTime clock_ = 0;                   // nanoseconds that have passed with all frames
  gint64 since_arrival_ = 0;                 // nanoseconds since the last frame arrived
  gint64 frame_ = 0;                         // nanoseconds from frame to frame; 0: not known
};

}  // namespace gstvf
