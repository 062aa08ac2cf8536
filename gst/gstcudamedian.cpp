/**
 * SECTION:element-cudamedian
 * @title: cudamedian
 *
 * Replaces each pixel of video by the median of its neighbourhood, on an NVIDIA GPU or on the CPU:
 * single wrong pixels (salt and pepper, dead pixels, dropouts) disappear and edges stay.
 *
 * The window #cudamedian:size is in pixels of the frame; planes with subsampled chroma get one that
 * is scaled to them, so that the picture is denoised evenly. Every channel is filtered on its own.
 * Results do not depend on where they are made. All settings can change while the pipeline plays,
 * and by a controller.
 *
 * Frames in CUDA memory stay there. Frames in system memory are filtered on the GPU too where there
 * is one, and on the CPU where there is none or #GstCudaVideoFilter:backend says so. Fields of
 * interlaced frames are filtered apart.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 videotestsrc pattern=snow ! cudamedian size=5 ! videoconvert ! autovideosink
 * ]| Frames in system memory.
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! qtdemux ! h264parse ! nvh264dec ! \
 *     'video/x-raw(memory:CUDAMemory)' ! cudamedian size=5 planes=chroma ! cudadownload ! \
 *     videoconvert ! autovideosink
 * ]| Frames in CUDA memory, from the decoder on; colour noise only.
 */
#include "gst/gstcudamedian.h"

#include "filters/median.h"

typedef struct _GstCudaMedian {
  GstCudaVideoFilter parent;

  // Under the object's lock.
  vf::MedianParams params;
  guint border_color;
  guint planes;
} GstCudaMedian;
typedef struct _GstCudaMedianClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaMedianClass;

#define GST_CUDA_MEDIAN(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_MEDIAN, GstCudaMedian))

G_DEFINE_TYPE(GstCudaMedian, gst_cuda_median, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudamedian, "cudamedian", GST_RANK_NONE, GST_TYPE_CUDA_MEDIAN)

enum {
  PROP_0,
  PROP_SIZE,
  PROP_SIZE_Y,
  PROP_BORDER,
  PROP_BORDER_COLOR,
  PROP_PLANES,
};

constexpr guint kDefaultBorderColor = 0xff000000;
constexpr guint kDefaultPlanes = GST_CUDA_VIDEO_FILTER_PLANES_ALL;

#define GST_TYPE_CUDA_MEDIAN_BORDER (gst_cuda_median_border_get_type())
static GType gst_cuda_median_border_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {int(vf::Border::replicate), "The edge pixel: aaa|abcd|ddd", "replicate"},
      {int(vf::Border::reflect_101), "Mirrored about the edge pixel: dcb|abcd|cba", "reflect-101"},
      {int(vf::Border::constant), "border-color", "constant"},
      {int(vf::Border::shrink), "Nothing: the window shrinks at the edge", "shrink"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaMedianBorder", values));
  return type;
}

// The settings as the filter library takes them for frames of `format`.
static vf::MedianParams gst_cuda_median_params(GstCudaVideoFilter* filter,
                                               const gstvf::Format& format) {
  auto* self = GST_CUDA_MEDIAN(filter);
  GST_OBJECT_LOCK(self);
  vf::MedianParams params = self->params;
  const guint color = self->border_color, planes = self->planes;
  GST_OBJECT_UNLOCK(self);
  gstvf::color_planes(format, color, params.border_value);
  gstvf::select_channels(format, planes & GST_CUDA_VIDEO_FILTER_PLANES_LUMA,
                         planes & GST_CUDA_VIDEO_FILTER_PLANES_CHROMA,
                         planes & GST_CUDA_VIDEO_FILTER_PLANES_ALPHA, params.channels);
  return params;
}

static gboolean gst_cuda_median_is_neutral(GstCudaVideoFilter* filter, const gstvf::Format& in,
                                           const gstvf::Format&) {
  const vf::MedianParams params = gst_cuda_median_params(filter, in);
  bool none = true;
  for (uint8_t channels : params.channels) none &= channels == 0;
  return none || vf::is_identity(params);
}

static vf::Status gst_cuda_median_make_plan(GstCudaVideoFilter* filter, vf::Queue& queue,
                                            const gstvf::Format& in, const gstvf::Format&,
                                            vf::Placement placement,
                                            std::unique_ptr<vf::Plan>* plan) {
  return vf::make_median(queue, in.layout, gst_cuda_median_params(filter, in), placement, plan);
}

static void gst_cuda_median_set_property(GObject* object, guint id, const GValue* value,
                                         GParamSpec* pspec) {
  auto* self = GST_CUDA_MEDIAN(object);
  auto* filter = GST_CUDA_VIDEO_FILTER(object);
  switch (id) {
    case PROP_SIZE: {
      const int size = g_value_get_int(value);
      if (size % 2 == 0)
        gst_cuda_video_filter_refuse(filter, pspec, size, "odd");
      else
        gst_cuda_video_filter_update(filter, &self->params.size, size);
      break;
    }
    case PROP_SIZE_Y: {
      const int size = g_value_get_int(value);
      if (size && size % 2 == 0)
        gst_cuda_video_filter_refuse(filter, pspec, size, "0 or odd");
      else
        gst_cuda_video_filter_update(filter, &self->params.size_y, size);
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

static void gst_cuda_median_get_property(GObject* object, guint id, GValue* value,
                                         GParamSpec* pspec) {
  auto* self = GST_CUDA_MEDIAN(object);
  GST_OBJECT_LOCK(self);
  switch (id) {
    case PROP_SIZE:
      g_value_set_int(value, self->params.size);
      break;
    case PROP_SIZE_Y:
      g_value_set_int(value, self->params.size_y);
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

static void gst_cuda_median_init(GstCudaMedian* self) {
  self->params = vf::MedianParams();
  self->border_color = kDefaultBorderColor;
  self->planes = kDefaultPlanes;
}

static void gst_cuda_median_class_init(GstCudaMedianClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);
  const vf::MedianParams defaults;
  constexpr int max_size = vf::MedianParams::kMaxSize;

  object_class->set_property = gst_cuda_median_set_property;
  object_class->get_property = gst_cuda_median_get_property;

  const auto flags = GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                 GST_PARAM_CONTROLLABLE | GST_PARAM_MUTABLE_PLAYING);
  auto install = [&](guint id, GParamSpec* spec) {
    g_object_class_install_property(object_class, id, spec);
  };
  install(PROP_SIZE,
          g_param_spec_int("size", "Size",
                           "Pixels of the window across and, unless size-y is given, down: odd (an "
                           "even value is refused and the old one stays). 1 passes frames through",
                           1, max_size, defaults.size, flags));
  install(PROP_SIZE_Y, g_param_spec_int("size-y", "Size down",
                                        "Pixels of the window down: odd. 0 = size", 0, max_size,
                                        defaults.size_y, flags));
  install(PROP_BORDER,
          g_param_spec_enum("border", "Border", "What lies outside the frame",
                            GST_TYPE_CUDA_MEDIAN_BORDER, int(defaults.border), flags));
  install(
      PROP_BORDER_COLOR,
      g_param_spec_uint("border-color", "Border colour",
                        "Colour outside the frame with border=constant, as 0xAARRGGBB; converted "
                        "to the colour space of the frames",
                        0, G_MAXUINT, kDefaultBorderColor, flags));
  install(PROP_PLANES,
          g_param_spec_flags("planes", "Planes",
                             "What is filtered; the rest is left as it is. RGB colours count as luma",
                             GST_TYPE_CUDA_VIDEO_FILTER_PLANES, kDefaultPlanes, flags));

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA median", "Filter/Effect/Video/Hardware",
      "Removes noise from video with a median, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, nullptr, nullptr);
  filter_class->is_neutral = gst_cuda_median_is_neutral;
  filter_class->make_plan = gst_cuda_median_make_plan;

  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_MEDIAN_BORDER, GstPluginAPIFlags(0));
}
