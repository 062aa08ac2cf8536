// Holds what elements that filter regions have in common. An element adds only its own properties;
// those for regions are in regionsettings.h.
//
//   struct Settings : gstvf::PlaneSettings<vf::MyParams>, gstvf::RegionSettings {
//     vf::RegionMy filter_for(const gstvf::Format& format) const;
//   };
//   struct GstMyFilter {
//     GstCudaVideoFilter parent;
//     gstvf::RegionState<Settings> state;
//   };
//   using Regions = gstvf::RegionElement<GstMyFilter, Settings, vf::make_my>;
//
// Init calls Regions::init; class_init calls Regions::install, and installs properties with
// Regions::settings.
#pragma once

#include <new>

#include "filters/make.h"
#include "gst/base/enabled.h"
#include "gst/base/errors.h"
#include "gst/base/stats.h"
#include "gst/regions/regionsettings.h"

namespace gstvf {

template <class Settings>
struct RegionState {
  Settings settings;     // under the object's lock
  RegionFrames regions;  // the streaming thread's
};

// `make_whole` makes the plan for whole frames, from the params that Settings::filter_for returns.
template <class Element, class Settings, auto make_whole>
class RegionElement {
 public:
  static Settings* settings(GObject* object) { return &state(object).settings; }

  // GObject neither constructs nor destroys the instance's members.
  static void init(Element* self) { new (&self->state) RegionState<Settings>(); }

  static void install(GstCudaVideoFilterClass* klass, gpointer parent_class) {
    parent_class_ = parent_class;
    G_OBJECT_CLASS(klass)->finalize = finalize;
    GST_BASE_TRANSFORM_CLASS(klass)->start = start;
    GST_BASE_TRANSFORM_CLASS(klass)->set_caps = set_caps;
    klass->is_identity = is_identity;
    klass->make_plan = make_plan;
    klass->prepare_frame = prepare_frame;
    klass->changes_part = changes_part;
    klass->forget = [](GstCudaVideoFilter* filter) { state(filter).regions.reset(); };
    klass->look_ahead = [](GstCudaVideoFilter* filter) {
      return under_lock(filter, [&] { return look_ahead_of(state(filter).settings); });
    };
    klass->arrive = arrive;
    klass->leave = [](GstCudaVideoFilter* filter) {
      state(filter).regions.leave(locked_regions(filter));
    };
    klass->add_stats = add_stats;
    install_enabled(G_OBJECT_CLASS(klass));
  }

 private:
  static RegionState<Settings>& state(gpointer object) {
    return static_cast<Element*>(object)->state;
  }
  static Settings locked_settings(GstCudaVideoFilter* filter) {
    return locked(filter, state(filter).settings);
  }
  // Copies only the settings that each frame needs.
  static RegionSettings locked_regions(GstCudaVideoFilter* filter) {
    return locked<RegionSettings>(filter, state(filter).settings);
  }

  static gboolean is_identity(GstCudaVideoFilter* filter, const Format& in, const Format&) {
    return vf::is_identity(vf::RegionFilter(locked_settings(filter).filter_for(in)));
  }

  static vf::Status make_plan(GstCudaVideoFilter* filter, vf::Queue& queue, const Format& in,
                              const Format&, vf::Placement placement,
                              std::unique_ptr<vf::Plan>* plan) {
    const Settings s = locked_settings(filter);
    const auto f = s.filter_for(in);
    if (s.regions == GST_CUDA_VIDEO_FILTER_REGIONS_ALL)
      return make_whole(queue, in.layout, f.params, placement, plan);
    return make_regions(queue, in, s, f, placement, plan);
  }

  static GstClockTime arrive(GstCudaVideoFilter* filter, GstBuffer* in, GstClockTime time,
                             GstClockTime duration) {
    const RegionSettings s = locked_regions(filter);
    // While the filter is off, only frames that may wait until it is on again need regions.
    const bool ignore = gst_cuda_video_filter_is_off(filter) && look_ahead_of(s) == 0;
    return state(filter).regions.arrive(s, in, time, duration,
                                        GST_BASE_TRANSFORM(filter)->segment.rate < 0, ignore);
  }

  static vf::Status prepare_frame(GstCudaVideoFilter* filter, GstBuffer*, Rows rows,
                                  vf::Plan& plan) {
    auto* regions = dynamic_cast<vf::RegionsPlan*>(&plan);
    if (!regions) return {};
    return vf::guarded([&] {
      RegionFrames& frames = state(filter).regions;
      VF_TRY(frames.prepare(locked_regions(filter), rows, *regions));
      FrameStats& stats = gst_cuda_video_filter_stats(filter);
      stats.regions = frames.objects();
      stats.regions_held = frames.held();
      return vf::Status();
    });
  }

  static gboolean changes_part(GstCudaVideoFilter* filter) {
    const RegionSettings s = locked_regions(filter);
    return s.regions != GST_CUDA_VIDEO_FILTER_REGIONS_ALL && !s.invert;
  }

  static void add_stats(GstCudaVideoFilter* filter, GstStructure* stats) {
    if (state(filter).settings.regions == GST_CUDA_VIDEO_FILTER_REGIONS_ALL) return;
    const FrameStats& s = gst_cuda_video_filter_stats(filter);
    gst_structure_set(stats, "regions", G_TYPE_UINT, s.regions.load(), "regions-held", G_TYPE_UINT,
                      s.regions_held.load(), nullptr);
  }

  static gboolean start(GstBaseTransform* trans) {
    state(trans).regions.clear();
    return GST_BASE_TRANSFORM_CLASS(parent_class_)->start(trans);
  }

  // Refuses caps if no regions can be found. Otherwise frames would pass unfiltered without a word.
  static gboolean set_caps(GstBaseTransform* trans, GstCaps* incaps, GstCaps* outcaps) {
    if (!can_be_found(locked_regions(GST_CUDA_VIDEO_FILTER(trans)).regions)) {
      return gst_cuda_video_filter_refuse_caps(
          GST_CUDA_VIDEO_FILTER(trans), no_analytics(GST_ELEMENT(trans), "regions",
                                                     "regions=analytics and regions=segmentation"));
    }
    state(trans).regions.set_caps(incaps);
    return GST_BASE_TRANSFORM_CLASS(parent_class_)->set_caps(trans, incaps, outcaps);
  }

  static void finalize(GObject* object) {
    state(object).~RegionState<Settings>();
    G_OBJECT_CLASS(parent_class_)->finalize(object);
  }

  static inline gpointer parent_class_ = nullptr;
};

}  // namespace gstvf
