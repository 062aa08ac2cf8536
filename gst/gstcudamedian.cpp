/**
 * SECTION:element-cudamedian
 * @title: cudamedian
 *
 * Replaces each pixel of video by the median of its neighbourhood, on an NVIDIA GPU or on the CPU,
 * with the same bits on both (docs/clean-cameras.md). The window is scaled to planes with subsampled
 * chroma, and each channel is filtered on its own. With #cudamedian:regions the element filters only
 * what a detector has found (docs/blur-faces.md). All properties can change while the pipeline plays,
 * also by a controller. The two fields of interlaced frames are filtered separately.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 videotestsrc pattern=snow ! cudamedian size=5 ! videoconvert ! autovideosink
 * ]|
 */
#include "filters/median.h"
#include "gst/base/planesettings.h"
#include "gst/regions/regionelement.h"

namespace {

struct Settings : gstvf::PlaneSettings<vf::MedianParams>, gstvf::RegionSettings {
  // Returns the filter of regions, or of whole frames if regions=all.
  vf::RegionMedian filter_for(const gstvf::Format& format) const { return {params_for(format)}; }
};

}  // namespace

typedef struct _GstCudaMedian {
  GstCudaVideoFilter parent;

  gstvf::RegionState<Settings> state;
} GstCudaMedian;
using GstCudaMedianClass = GstCudaVideoFilterClass;

G_DEFINE_TYPE(GstCudaMedian, gst_cuda_median, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudamedian, "cudamedian", GST_RANK_NONE, gst_cuda_median_get_type())

using Regions = gstvf::RegionElement<GstCudaMedian, Settings, vf::make_median>;

static void gst_cuda_median_init(GstCudaMedian* self) {
  Regions::init(self);
}

static void gst_cuda_median_class_init(GstCudaMedianClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);

  Regions::install(klass, gst_cuda_median_parent_class);

  gstvf::install_properties<Settings>(
      object_class, Regions::settings,
      {
          {"size", "Size", &Settings::size, Settings::kSize,
           "Width of the window in pixels of the frame, an odd number. Also the height unless "
           "size-y is set. 1 passes frames through"},
          {"size-y", "Vertical size", &Settings::size_y, Settings::kSizeY,
           "Height of the window in pixels of the frame, an odd number. 0 = same as size"},
          {"threshold", "Threshold", &Settings::threshold, Settings::kThreshold,
           "Replace a pixel only if it is the minimum or maximum of its window and differs from "
           "the median by more than this, in 8-bit code values at any depth. Removes salt and "
           "pepper and keeps detail. 0 = replace every pixel"},
      });
  Settings::install(
      object_class, Regions::settings, "GstCudaMedianBorder",
      {vf::Border::replicate, vf::Border::reflect_101, vf::Border::constant, vf::Border::shrink});
  Settings::install_regions(object_class, Regions::settings);

  gstvf::describe_filter(GST_ELEMENT_CLASS(klass), "CUDA median",
                         "Removes noise from video with a median, on an NVIDIA GPU or on the CPU");
}
