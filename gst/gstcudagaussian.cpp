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

using Settings = gstvf::PlaneSettings<vf::GaussianParams>;

typedef struct _GstCudaGaussian {
  GstCudaVideoFilter parent;

  Settings settings;  // under the object's lock
} GstCudaGaussian;
typedef struct _GstCudaGaussianClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaGaussianClass;

#define GST_CUDA_GAUSSIAN(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_GAUSSIAN, GstCudaGaussian))

G_DEFINE_TYPE(GstCudaGaussian, gst_cuda_gaussian, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudagaussian, "cudagaussian", GST_RANK_NONE, GST_TYPE_CUDA_GAUSSIAN)

static vf::GaussianParams gst_cuda_gaussian_params(GstCudaVideoFilter* filter,
                                                   const gstvf::Format& format) {
  return GST_CUDA_GAUSSIAN(filter)->settings.params(filter, format);
}

static gboolean gst_cuda_gaussian_is_identity(GstCudaVideoFilter* filter, const gstvf::Format& in,
                                              const gstvf::Format&) {
  return vf::is_identity(gst_cuda_gaussian_params(filter, in));
}

static vf::Status gst_cuda_gaussian_make_plan(GstCudaVideoFilter* filter, vf::Queue& queue,
                                              const gstvf::Format& in, const gstvf::Format&,
                                              vf::Placement placement,
                                              std::unique_ptr<vf::Plan>* plan) {
  return vf::make_gaussian(queue, in.layout, gst_cuda_gaussian_params(filter, in), placement, plan);
}

static Settings* gst_cuda_gaussian_settings(GObject* object) {
  return &GST_CUDA_GAUSSIAN(object)->settings;
}

static void gst_cuda_gaussian_init(GstCudaGaussian* self) {
  self->settings = Settings();
}

static void gst_cuda_gaussian_class_init(GstCudaGaussianClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);

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
      });
  Settings::install(object_class, gst_cuda_gaussian_settings, "GstCudaGaussianBorder",
                    {vf::Border::replicate, vf::Border::reflect, vf::Border::reflect_101,
                     vf::Border::wrap, vf::Border::constant});

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA Gaussian blur", "Filter/Effect/Video/Hardware",
      "Blurs video with a Gaussian kernel, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, nullptr, nullptr);
  filter_class->is_identity = gst_cuda_gaussian_is_identity;
  filter_class->make_plan = gst_cuda_gaussian_make_plan;
}
