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
 * interlaced frames are blurred apart.
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

typedef struct _GstCudaGaussian {
  GstCudaVideoFilter parent;

  // Under the object's lock.
  vf::GaussianParams params;
  gstvf::PlaneSettings planes;  // for params' border, border_value and channels
} GstCudaGaussian;
typedef struct _GstCudaGaussianClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaGaussianClass;

#define GST_CUDA_GAUSSIAN(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_GAUSSIAN, GstCudaGaussian))

G_DEFINE_TYPE(GstCudaGaussian, gst_cuda_gaussian, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudagaussian, "cudagaussian", GST_RANK_NONE, GST_TYPE_CUDA_GAUSSIAN)

enum {
  PROP_0,
  PROP_SIGMA,
  PROP_SIGMA_Y,
  PROP_KERNEL_SIZE,
  PROP_KERNEL_SIZE_Y,
  PROP_PLANE_SETTINGS,
};

// The settings as the filter library takes them for frames of `format`.
static vf::GaussianParams gst_cuda_gaussian_params(GstCudaVideoFilter* filter,
                                                   const gstvf::Format& format) {
  auto* self = GST_CUDA_GAUSSIAN(filter);
  GST_OBJECT_LOCK(self);
  vf::GaussianParams params = self->params;
  const gstvf::PlaneSettings planes = self->planes;
  GST_OBJECT_UNLOCK(self);
  planes.fill(format, &params);
  return params;
}

static gboolean gst_cuda_gaussian_is_identity(GstCudaVideoFilter* filter, const gstvf::Format& in,
                                              const gstvf::Format&) {
  const vf::GaussianParams params = gst_cuda_gaussian_params(filter, in);
  return gstvf::selects_nothing(params.channels) || vf::is_identity(params);
}

static vf::Status gst_cuda_gaussian_make_plan(GstCudaVideoFilter* filter, vf::Queue& queue,
                                              const gstvf::Format& in, const gstvf::Format&,
                                              vf::Placement placement,
                                              std::unique_ptr<vf::Plan>* plan) {
  return vf::make_gaussian(queue, in.layout, gst_cuda_gaussian_params(filter, in), placement, plan);
}

static void gst_cuda_gaussian_set_property(GObject* object, guint id, const GValue* value,
                                           GParamSpec* pspec) {
  auto* self = GST_CUDA_GAUSSIAN(object);
  auto* filter = GST_CUDA_VIDEO_FILTER(object);
  switch (id) {
    case PROP_SIGMA:
      gst_cuda_video_filter_update(filter, &self->params.sigma, g_value_get_double(value));
      break;
    case PROP_SIGMA_Y: {
      const double sigma = g_value_get_double(value);
      if (sigma < 0 && sigma != -1)
        gst_cuda_video_filter_refuse(filter, pspec, sigma, "-1, or 0 or more");
      else
        gst_cuda_video_filter_update(filter, &self->params.sigma_y, sigma);
      break;
    }
    case PROP_KERNEL_SIZE:
    case PROP_KERNEL_SIZE_Y: {
      const int size = g_value_get_int(value);
      if (size && size % 2 == 0)
        gst_cuda_video_filter_refuse(filter, pspec, size, "0 or odd");
      else
        gst_cuda_video_filter_update(
            filter,
            id == PROP_KERNEL_SIZE ? &self->params.kernel_size : &self->params.kernel_size_y, size);
      break;
    }
    default:
      if (!self->planes.set(filter, id - PROP_PLANE_SETTINGS, value))
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
}

static void gst_cuda_gaussian_get_property(GObject* object, guint id, GValue* value,
                                           GParamSpec* pspec) {
  auto* self = GST_CUDA_GAUSSIAN(object);
  GST_OBJECT_LOCK(self);
  switch (id) {
    case PROP_SIGMA:
      g_value_set_double(value, self->params.sigma);
      break;
    case PROP_SIGMA_Y:
      g_value_set_double(value, self->params.sigma_y);
      break;
    case PROP_KERNEL_SIZE:
      g_value_set_int(value, self->params.kernel_size);
      break;
    case PROP_KERNEL_SIZE_Y:
      g_value_set_int(value, self->params.kernel_size_y);
      break;
    default:
      if (!self->planes.get(id - PROP_PLANE_SETTINGS, value))
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_cuda_gaussian_init(GstCudaGaussian* self) {
  self->params = vf::GaussianParams();
  self->planes = gstvf::PlaneSettings(self->params.border);
}

static void gst_cuda_gaussian_class_init(GstCudaGaussianClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);
  const vf::GaussianParams defaults;
  constexpr int max_size = vf::GaussianParams::kMaxKernelSize;

  object_class->set_property = gst_cuda_gaussian_set_property;
  object_class->get_property = gst_cuda_gaussian_get_property;

  const auto flags = GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                 GST_PARAM_CONTROLLABLE | GST_PARAM_MUTABLE_PLAYING);
  auto install = [&](guint id, GParamSpec* spec) {
    g_object_class_install_property(object_class, id, spec);
  };
  install(PROP_SIGMA, g_param_spec_double(
                          "sigma", "Sigma",
                          "Standard deviation in pixels of the frame, across and, unless sigma-y "
                          "is given, down. 0 passes frames through. A kernel of more than 511 "
                          "taps (sigma above 85 for 8 bit, 63 above, without kernel-size) is an "
                          "error",
                          0, G_MAXDOUBLE, defaults.sigma, flags));
  install(PROP_SIGMA_Y,
          g_param_spec_double("sigma-y", "Sigma down",
                              "Standard deviation down the frame, in pixels (-1 = sigma)", -1,
                              G_MAXDOUBLE, defaults.sigma_y, flags));
  install(
      PROP_KERNEL_SIZE,
      g_param_spec_int("kernel-size", "Kernel size",
                       "Taps across the frame and, unless kernel-size-y is given, down: odd (an "
                       "even value is refused and the old one stays). 0 = from sigma: "
                       "round(6 sigma + 1) made odd for 8 bit, round(8 sigma + 1) above",
                       0, max_size, defaults.kernel_size, flags));
  install(
      PROP_KERNEL_SIZE_Y,
      g_param_spec_int("kernel-size-y", "Kernel size down",
                       "Taps down the frame: odd. 0 = kernel-size where that is given, else from "
                       "sigma-y",
                       0, max_size, defaults.kernel_size_y, flags));
  gstvf::PlaneSettings::install(
      object_class, PROP_PLANE_SETTINGS, "GstCudaGaussianBorder",
      {vf::Border::replicate, vf::Border::reflect, vf::Border::reflect_101, vf::Border::wrap,
       vf::Border::constant},
      defaults.border, "What is blurred; the rest is left as it is. RGB colours count as luma");

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA Gaussian blur", "Filter/Effect/Video/Hardware",
      "Blurs video with a Gaussian kernel, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, nullptr, nullptr);
  filter_class->is_identity = gst_cuda_gaussian_is_identity;
  filter_class->make_plan = gst_cuda_gaussian_make_plan;
}
