/**
 * SECTION:element-cudagaussian
 * @title: cudagaussian
 *
 * Blurs video with a Gaussian kernel, on an NVIDIA GPU or on the CPU.
 *
 * The standard deviation #cudagaussian:sigma is in pixels of the frame, so subsampled chroma is
 * blurred as far as luma is. The kernel has as many taps as it needs unless
 * #cudagaussian:kernel-size says otherwise. All settings can change while the pipeline plays, and
 * by a controller.
 *
 * Frames in CUDA memory stay there. Frames in system memory are filtered on the GPU too where there
 * is one, and on the CPU where there is none or #GstCudaVideoFilter:backend says so. Fields of
 * interlaced frames are blurred separately.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 videotestsrc ! cudagaussian sigma=4 ! videoconvert ! autovideosink
 * ]| Frames in system memory.
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! qtdemux ! h264parse ! nvh264dec ! \
 *     'video/x-raw(memory:CUDAMemory)' ! cudagaussian sigma=4 planes=luma ! cudadownload ! \
 *     videoconvert ! autovideosink
 * ]| Frames in CUDA memory, from the decoder on; only luma is blurred.
 */
#include "gst/gstcudagaussian.h"

#include "filters/gaussian.h"
#include "gst/planesettings.h"
#include "gst/regionsettings.h"

namespace {

struct Settings : gstvf::PlaneSettings<vf::GaussianParams>, gstvf::RegionSettings {
  double sigma_relative = 0;
};

}  // namespace

typedef struct _GstCudaGaussian {
  GstCudaVideoFilter parent;

  Settings settings;            // under the object's lock
  gstvf::RegionFrames regions;  // the streaming thread's
} GstCudaGaussian;
typedef struct _GstCudaGaussianClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaGaussianClass;

#define GST_CUDA_GAUSSIAN(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_GAUSSIAN, GstCudaGaussian))

G_DEFINE_TYPE(GstCudaGaussian, gst_cuda_gaussian, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudagaussian, "cudagaussian", GST_RANK_NONE, GST_TYPE_CUDA_GAUSSIAN)

// The filter of regions; of all of a frame where there are none.
static vf::RegionGaussian gst_cuda_gaussian_filter(GstCudaVideoFilter* filter,
                                                   const gstvf::Format& format,
                                                   gstvf::RegionSettings* regions) {
  const Settings s = gstvf::locked(filter, GST_CUDA_GAUSSIAN(filter)->settings);
  *regions = s;
  const bool relative = s.regions != GST_CUDA_VIDEO_FILTER_REGIONS_ALL;
  return {s.params_for(format), relative ? s.sigma_relative : 0};
}

static gboolean gst_cuda_gaussian_is_identity(GstCudaVideoFilter* filter, const gstvf::Format& in,
                                              const gstvf::Format&) {
  gstvf::RegionSettings regions;
  return vf::is_identity(vf::RegionFilter(gst_cuda_gaussian_filter(filter, in, &regions)));
}

static vf::Status gst_cuda_gaussian_make_plan(GstCudaVideoFilter* filter, vf::Queue& queue,
                                              const gstvf::Format& in, const gstvf::Format&,
                                              vf::Placement placement,
                                              std::unique_ptr<vf::Plan>* plan) {
  gstvf::RegionSettings regions;
  const auto f = gst_cuda_gaussian_filter(filter, in, &regions);
  if (regions.regions == GST_CUDA_VIDEO_FILTER_REGIONS_ALL)
    return vf::make_gaussian(queue, in.layout, f.params, placement, plan);
  return gstvf::make_regions(queue, in.layout, regions, f, placement, plan);
}

static gboolean gst_cuda_gaussian_changes_part(GstCudaVideoFilter* filter) {
  return gstvf::changes_part(gstvf::locked(filter, GST_CUDA_GAUSSIAN(filter)->settings));
}

static vf::Status gst_cuda_gaussian_prepare_frame(GstCudaVideoFilter* filter, GstBuffer* in,
                                                  gstvf::Rows rows, vf::Plan& plan) {
  auto* self = GST_CUDA_GAUSSIAN(filter);
  return self->regions.prepare(gstvf::locked(filter, self->settings), in, rows, plan);
}

static gboolean gst_cuda_gaussian_start(GstBaseTransform* trans) {
  GST_CUDA_GAUSSIAN(trans)->regions.reset();
  return GST_BASE_TRANSFORM_CLASS(gst_cuda_gaussian_parent_class)->start(trans);
}

static Settings* gst_cuda_gaussian_settings(GObject* object) {
  return &GST_CUDA_GAUSSIAN(object)->settings;
}

static void gst_cuda_gaussian_init(GstCudaGaussian* self) {
  new (&self->settings) Settings();
  new (&self->regions) gstvf::RegionFrames();
}

static void gst_cuda_gaussian_finalize(GObject* object) {
  auto* self = GST_CUDA_GAUSSIAN(object);
  self->regions.~RegionFrames();
  self->settings.~Settings();
  G_OBJECT_CLASS(gst_cuda_gaussian_parent_class)->finalize(object);
}

static void gst_cuda_gaussian_class_init(GstCudaGaussianClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);

  object_class->finalize = gst_cuda_gaussian_finalize;
  GST_BASE_TRANSFORM_CLASS(klass)->start = GST_DEBUG_FUNCPTR(gst_cuda_gaussian_start);

  gstvf::install_properties<Settings>(
      object_class, gst_cuda_gaussian_settings,
      {
          {"sigma", "Sigma", &Settings::sigma, Settings::kSigma,
           "Standard deviation of the kernel in pixels of the frame, horizontal and, unless "
           "sigma-y is given, vertical. 0 passes frames through. A kernel of more than 511 taps "
           "(sigma above 85 for 8 bit, 63 above, without kernel-size) is an error"},
          {"sigma-y", "Sigma down", &Settings::sigma_y, Settings::kSigmaY,
           "Vertical standard deviation in pixels of the frame. 0 does not blur vertically, -1 "
           "takes sigma"},
          {"kernel-size", "Kernel size", &Settings::kernel_size, Settings::kKernelSize,
           "Horizontal kernel size in taps and, unless kernel-size-y is given, the vertical one: "
           "odd (an even value is refused and the old one stays). 0 = from sigma: "
           "round(6 sigma + 1) made odd for 8 bit, round(8 sigma + 1) above"},
          {"kernel-size-y", "Kernel size down", &Settings::kernel_size_y, Settings::kKernelSize,
           "Vertical kernel size in taps: odd. 0 = kernel-size where that is given, else from "
           "sigma-y"},
          {"sigma-relative", "Relative sigma", &Settings::sigma_relative,
           vf::RegionGaussian::kRelative,
           "Standard deviation in a region, as a share of the smaller side of the object's box, in "
           "place of sigma and sigma-y; at most 85 pixels for 8 bit, 63.75 above. 0 = sigma. "
           "Without effect where regions is all"},
      });
  Settings::install(object_class, gst_cuda_gaussian_settings, "GstCudaGaussianBorder",
                    {vf::Border::replicate, vf::Border::reflect, vf::Border::reflect_101,
                     vf::Border::wrap, vf::Border::constant});
  Settings::install_regions(object_class, gst_cuda_gaussian_settings);

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA Gaussian blur", "Filter/Effect/Video/Hardware",
      "Blurs video with a Gaussian kernel, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, nullptr, nullptr);
  filter_class->is_identity = gst_cuda_gaussian_is_identity;
  filter_class->make_plan = gst_cuda_gaussian_make_plan;
  filter_class->prepare_frame = gst_cuda_gaussian_prepare_frame;
  filter_class->changes_part = gst_cuda_gaussian_changes_part;
}
