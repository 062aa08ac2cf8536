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

typedef struct _GstCudaGaussian {
  GstCudaVideoFilter parent;

  // Under the object's lock.
  vf::GaussianParams params;
  guint border_color;
  guint planes;
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
  PROP_BORDER,
  PROP_BORDER_COLOR,
  PROP_PLANES,
};

constexpr guint kDefaultBorderColor = 0xff000000;
constexpr guint kDefaultPlanes = GST_CUDA_VIDEO_FILTER_PLANES_ALL;

#define GST_TYPE_CUDA_GAUSSIAN_BORDER (gst_cuda_gaussian_border_get_type())
static GType gst_cuda_gaussian_border_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {int(vf::Border::replicate), "The edge pixel: aaa|abcd|ddd", "replicate"},
      {int(vf::Border::reflect), "Mirrored, edge pixel included: cba|abcd|dcb", "reflect"},
      {int(vf::Border::reflect_101), "Mirrored about the edge pixel: dcb|abcd|cba", "reflect-101"},
      {int(vf::Border::wrap), "The other side: bcd|abcd|abc", "wrap"},
      {int(vf::Border::constant), "border-color", "constant"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaGaussianBorder", values));
  return type;
}

// The settings as the filter library takes them for frames of `format`.
static vf::GaussianParams gst_cuda_gaussian_params(GstCudaVideoFilter* filter,
                                                   const gstvf::Format& format) {
  auto* self = GST_CUDA_GAUSSIAN(filter);
  GST_OBJECT_LOCK(self);
  vf::GaussianParams params = self->params;
  const guint color = self->border_color, planes = self->planes;
  GST_OBJECT_UNLOCK(self);
  gstvf::color_planes(format, color, params.border_value);
  gstvf::select_channels(format, planes & GST_CUDA_VIDEO_FILTER_PLANES_LUMA,
                         planes & GST_CUDA_VIDEO_FILTER_PLANES_CHROMA,
                         planes & GST_CUDA_VIDEO_FILTER_PLANES_ALPHA, params.channels);
  return params;
}

static gboolean gst_cuda_gaussian_is_neutral(GstCudaVideoFilter* filter, const gstvf::Format& in,
                                             const gstvf::Format&) {
  const vf::GaussianParams params = gst_cuda_gaussian_params(filter, in);
  bool none = true;
  for (uint8_t channels : params.channels) none &= channels == 0;
  return none || vf::is_identity(params);
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
    case PROP_BORDER:
      gst_cuda_video_filter_update(filter, &self->params.border,
                                   vf::Border(g_value_get_enum(value)));
      break;
    case PROP_BORDER_COLOR:
      gst_cuda_video_filter_update(filter, &self->border_color, g_value_get_uint(value));
      break;
    case PROP_PLANES:
      gst_cuda_video_filter_update(filter, &self->planes, g_value_get_flags(value));
      break;
    default:
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
    case PROP_BORDER:
      g_value_set_enum(value, int(self->params.border));
      break;
    case PROP_BORDER_COLOR:
      g_value_set_uint(value, self->border_color);
      break;
    case PROP_PLANES:
      g_value_set_flags(value, self->planes);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_cuda_gaussian_init(GstCudaGaussian* self) {
  self->params = vf::GaussianParams();
  self->border_color = kDefaultBorderColor;
  self->planes = kDefaultPlanes;
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
  install(PROP_KERNEL_SIZE,
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
  install(PROP_BORDER,
          g_param_spec_enum("border", "Border", "What lies outside the frame",
                            GST_TYPE_CUDA_GAUSSIAN_BORDER, int(defaults.border), flags));
  install(
      PROP_BORDER_COLOR,
      g_param_spec_uint("border-color", "Border colour",
                        "Colour outside the frame with border=constant, as 0xAARRGGBB; converted "
                        "to the colour space of the frames",
                        0, G_MAXUINT, kDefaultBorderColor, flags));
  install(PROP_PLANES, g_param_spec_flags(
                           "planes", "Planes",
                           "What is blurred; the rest is left as it is. RGB colours count as luma",
                           GST_TYPE_CUDA_VIDEO_FILTER_PLANES, kDefaultPlanes, flags));

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA Gaussian blur", "Filter/Effect/Video/Hardware",
      "Blurs video with a Gaussian kernel, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, nullptr, nullptr);
  filter_class->is_neutral = gst_cuda_gaussian_is_neutral;
  filter_class->make_plan = gst_cuda_gaussian_make_plan;

  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_GAUSSIAN_BORDER, GstPluginAPIFlags(0));
}
