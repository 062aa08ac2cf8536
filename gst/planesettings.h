// The properties border, border-color and planes of elements that filter each plane of a frame.
//
// An element holds a PlaneSettings, numbers its own properties first and then kProperties for
// these, and calls install, set, get and fill from where it handles its own.
#pragma once

#include <initializer_list>

#include "filters/border.h"
#include "gst/gstcudavideofilter.h"

G_BEGIN_DECLS

typedef enum {
  GST_CUDA_VIDEO_FILTER_PLANES_LUMA = 1 << 0,
  GST_CUDA_VIDEO_FILTER_PLANES_CHROMA = 1 << 1,
  GST_CUDA_VIDEO_FILTER_PLANES_ALPHA = 1 << 2,
  GST_CUDA_VIDEO_FILTER_PLANES_ALL = 7,
} GstCudaVideoFilterPlanes;

GType gst_cuda_video_filter_planes_get_type(void);
#define GST_TYPE_CUDA_VIDEO_FILTER_PLANES (gst_cuda_video_filter_planes_get_type())

G_END_DECLS

namespace gstvf {

// Bit c of channels[p] is set where channel c of plane p is in one of `planes`
// (GstCudaVideoFilterPlanes). Padding goes with its neighbours: it is set where any other channel
// of its plane is.
void select_channels(const Format& format, guint planes, uint8_t channels[vf::kMaxPlanes]);

struct PlaneSettings {
  // Ids of the properties, from the first one's on.
  enum Property : guint { kBorder, kBorderColor, kPlanes };
  static constexpr guint kDefaultColor = 0xff000000;

  // Under the object's lock.
  vf::Border border;
  guint color = kDefaultColor;
  guint planes = GST_CUDA_VIDEO_FILTER_PLANES_ALL;

  explicit PlaneSettings(vf::Border default_border) : border(default_border) {}

  // From class_init. `border_type` names the enum type of these `borders`; both texts are kept.
  static void install(GObjectClass* klass, guint first_id, const char* border_type,
                      std::initializer_list<vf::Border> borders, vf::Border default_border,
                      const char* planes_blurb);
  // False where `id` (from kBorder) is none of these. `set` locks `filter`, `get` is called with
  // it locked.
  bool set(GstCudaVideoFilter* filter, guint id, const GValue* value);
  bool get(guint id, GValue* value) const;

  // Gives the params of a filter their border, border_value and channels for frames of `format`.
  template <class Params>
  void fill(const Format& format, Params* params) const {
    params->border = border;
    vf::code_values(color, format.layout, format.color, params->border_value);
    select_channels(format, planes, params->channels);
  }
};

// Whether no channel of any plane is to be filtered.
inline bool selects_nothing(const uint8_t (&channels)[vf::kMaxPlanes]) {
  for (uint8_t c : channels)
    if (c) return false;
  return true;
}

}  // namespace gstvf
