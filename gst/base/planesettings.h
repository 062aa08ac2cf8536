// Adds the properties border, border-color and planes to elements that filter each plane of a
// frame.
//
// Such an element derives its settings from PlaneSettings of its params struct, or from
// PlaneSelection if it has no border. It installs these properties besides its own (properties.h).
// params_for() returns the params for frames of a format.
#pragma once

#include <initializer_list>

#include "filters/border.h"
#include "gst/base/properties.h"

typedef enum {
  GST_CUDA_VIDEO_FILTER_PLANES_LUMA = 1 << 0,
  GST_CUDA_VIDEO_FILTER_PLANES_CHROMA = 1 << 1,
  GST_CUDA_VIDEO_FILTER_PLANES_ALPHA = 1 << 2,
  GST_CUDA_VIDEO_FILTER_PLANES_ALL = 7,
} GstCudaVideoFilterPlanes;

namespace gstvf {

// Return the flags type of GstCudaVideoFilterPlanes, and an enum type of the borders that a filter
// supports.
GType planes_type();
GType border_type(const char* name, std::initializer_list<vf::Border> borders);

// Sets bit c of channels[p] if channel c of plane p is in one of `planes`
// (GstCudaVideoFilterPlanes). A padding channel is set if any other channel of its plane is.
void select_channels(const Format& format, guint planes, uint8_t channels[vf::kMaxPlanes]);

// Adds the property planes alone, for filters that see no pixel outside the frame.
template <class Params>
struct PlaneSelection : Params {
  guint planes = GST_CUDA_VIDEO_FILTER_PLANES_ALL;

  // Call this from class_init.
  template <class S>
  static void install_planes(GObjectClass* klass, S* (*settings_of)(GObject*)) {
    install_properties<S>(
        klass, settings_of,
        {
            {"planes", "Planes", &S::planes, planes_type(),
             "Planes to filter; the others stay unchanged. RGB colours count as luma"},
        });
  }

  // Returns the params for frames of `format`.
  Params params_for(const Format& format) const {
    PlaneSelection s = *this;
    select_channels(format, s.planes, s.channels);
    return s;
  }
};

template <class Params>
struct PlaneSettings : PlaneSelection<Params> {
  uint32_t border_color = 0xff000000;

  // Call this from class_init. `type` names the enum type of the `borders`.
  template <class S>
  static void install(GObjectClass* klass, S* (*settings_of)(GObject*), const char* type,
                      std::initializer_list<vf::Border> borders) {
    install_properties<S>(klass, settings_of,
                          {
                              {"border", "Border", &S::border, border_type(type, borders),
                               "What the filter sees outside the frame"},
                              {"border-color", "Border colour", &S::border_color, kColor,
                               "Colour outside the frame as 0xAARRGGBB, for border=constant. It is "
                               "converted to the colour space of the frames"},
                          });
    S::install_planes(klass, settings_of);
  }

  Params params_for(const Format& format) const {
    PlaneSettings s = *this;
    vf::code_values(s.border_color, format.layout, format.color, s.border_value);
    select_channels(format, s.planes, s.channels);
    return s;
  }
};

}  // namespace gstvf
