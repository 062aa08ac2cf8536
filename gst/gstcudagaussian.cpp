/**
 * SECTION:element-cudagaussian
 * @title: cudagaussian
 *
 * Blurs video with a Gaussian kernel, on an NVIDIA GPU or on the CPU. Luma and subsampled chroma are
 * blurred alike. With #cudagaussian:regions the element blurs only what a detector has found
 * (docs/blur-faces.md). All properties can change while the pipeline plays, also by a controller. The
 * two fields of interlaced frames are blurred separately.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 videotestsrc ! cudagaussian sigma=4 ! videoconvert ! autovideosink
 * ]|
 */
#include "filters/gaussian.h"
#include "gst/base/planesettings.h"
#include "gst/regions/regionelement.h"

namespace {

struct Settings : gstvf::PlaneSettings<vf::GaussianParams>, gstvf::RegionSettings {
  double sigma_relative = 0;

  // Returns the filter of regions, or of whole frames if regions=all.
  vf::RegionGaussian filter_for(const gstvf::Format& format) const {
    const bool relative = regions != GST_CUDA_VIDEO_FILTER_REGIONS_ALL;
    return {params_for(format), relative ? sigma_relative : 0};
  }
};

}  // namespace

typedef struct _GstCudaGaussian {
  GstCudaVideoFilter parent;

  gstvf::RegionState<Settings> state;
} GstCudaGaussian;
using GstCudaGaussianClass = GstCudaVideoFilterClass;

G_DEFINE_TYPE(GstCudaGaussian, gst_cuda_gaussian, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudagaussian, "cudagaussian", GST_RANK_NONE,
                            gst_cuda_gaussian_get_type())

using Regions = gstvf::RegionElement<GstCudaGaussian, Settings, vf::make_gaussian>;

static void gst_cuda_gaussian_init(GstCudaGaussian* self) {
  Regions::init(self);
}

static void gst_cuda_gaussian_class_init(GstCudaGaussianClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);

  Regions::install(klass, gst_cuda_gaussian_parent_class);

  gstvf::install_properties<Settings>(
      object_class, Regions::settings,
      {
          {"sigma", "Sigma", &Settings::sigma, Settings::kSigma,
           "Standard deviation of the blur in pixels of the frame, in both directions unless "
           "sigma-y is set. 0 passes frames through. Without kernel-size, at most 85 (63.75 for "
           "more than 8 bits), since a kernel has at most 511 taps"},
          {"sigma-y", "Vertical sigma", &Settings::sigma_y, Settings::kSigmaY,
           "Vertical standard deviation in pixels of the frame. 0 = no vertical blur, -1 = same as "
           "sigma"},
          {"kernel-size", "Kernel size", &Settings::kernel_size, Settings::kKernelSize,
           "Width of the kernel in taps, an odd number. Also the height unless kernel-size-y is "
           "set. 0 = chosen from sigma: 6 sigma + 1 for 8 bits, 8 sigma + 1 for more, rounded to "
           "an odd number"},
          {"kernel-size-y", "Vertical kernel size", &Settings::kernel_size_y, Settings::kKernelSize,
           "Height of the kernel in taps, an odd number. 0 = kernel-size if that is set, else "
           "chosen from sigma-y"},
          {"sigma-relative", "Relative sigma", &Settings::sigma_relative,
           vf::RegionGaussian::kRelative,
           "Standard deviation of the blur in a region, as a fraction of the shorter side of the "
           "object's box. Replaces sigma and sigma-y, with the same maximum in pixels. 0 = use "
           "sigma. Has no effect with regions=all"},
      });
  Settings::install(object_class, Regions::settings, "GstCudaGaussianBorder",
                    {vf::Border::replicate, vf::Border::reflect, vf::Border::reflect_101,
                     vf::Border::wrap, vf::Border::constant});
  Settings::install_regions(object_class, Regions::settings);

  gstvf::describe_filter(GST_ELEMENT_CLASS(klass), "CUDA Gaussian blur",
                         "Blurs video with a Gaussian kernel, on an NVIDIA GPU or on the CPU");
}
