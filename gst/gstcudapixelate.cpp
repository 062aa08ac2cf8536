/**
 * SECTION:element-cudapixelate
 * @title: cudapixelate
 *
 * Replaces each block of pixels of video by its mean, on an NVIDIA GPU or on the CPU, so that details
 * smaller than a block cannot be recognised (docs/blur-faces.md). filters/pixelate.h defines the
 * blocks. All settings can change while the pipeline plays, also by a controller. Fields of interlaced
 * frames are filtered separately, and blocks count rows of the field.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 videotestsrc ! cudapixelate block-size=16 ! videoconvert ! autovideosink
 * ]|
 */
#include "filters/pixelate.h"
#include "gst/base/planesettings.h"
#include "gst/regions/regionelement.h"

namespace {

enum class BlockOrigin { frame, region };

struct Settings : gstvf::PlaneSelection<vf::PixelateParams>, gstvf::RegionSettings {
  BlockOrigin block_origin = BlockOrigin::frame;

  // Returns the filter for regions, or for the whole frame if there are none.
  vf::RegionPixelate filter_for(const gstvf::Format& format) const {
    return {params_for(format), block_origin == BlockOrigin::region};
  }
};

}  // namespace

typedef struct _GstCudaPixelate {
  GstCudaVideoFilter parent;

  gstvf::RegionState<Settings> state;
} GstCudaPixelate;
using GstCudaPixelateClass = GstCudaVideoFilterClass;

G_DEFINE_TYPE(GstCudaPixelate, gst_cuda_pixelate, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudapixelate, "cudapixelate", GST_RANK_NONE,
                            gst_cuda_pixelate_get_type())

using Regions = gstvf::RegionElement<GstCudaPixelate, Settings, vf::make_pixelate>;

static void gst_cuda_pixelate_init(GstCudaPixelate* self) {
  Regions::init(self);
}

static void gst_cuda_pixelate_class_init(GstCudaPixelateClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);

  Regions::install(klass, gst_cuda_pixelate_parent_class);

  gstvf::install_properties<Settings>(
      object_class, Regions::settings,
      {
          {"block-size", "Block size", &Settings::block_size, Settings::kBlockSize,
           "Width and height of the blocks in pixels of the frame, or of a field of interlaced "
           "frames. 1 passes frames through. 0 = at most 8 blocks across the smaller side of the "
           "frame, and 3 across that of the object's box in a region"},
          {"block-origin", "Block origin", &Settings::block_origin,
           gstvf::enum_type("GstCudaPixelateBlockOrigin",
                            {{BlockOrigin::frame, "The frame's top left corner", "frame"},
                             {BlockOrigin::region, "The region's top left corner", "region"}}),
           "Where the first block of a region starts"},
      });
  Settings::install_planes(object_class, Regions::settings);
  Settings::install_regions(object_class, Regions::settings);

  gstvf::describe_filter(
      GST_ELEMENT_CLASS(klass), "CUDA pixelation",
      "Pixelates video: each block becomes its mean, on an NVIDIA GPU or on the CPU");
}
