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
#include "gst/planesettings.h"

typedef struct _GstCudaMedian {
  GstCudaVideoFilter parent;

  // Under the object's lock.
  vf::MedianParams params;
  gstvf::PlaneSettings planes;  // for params' border, border_value and channels
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
  PROP_PLANE_SETTINGS,
};

// The settings as the filter library takes them for frames of `format`.
static vf::MedianParams gst_cuda_median_params(GstCudaVideoFilter* filter,
                                               const gstvf::Format& format) {
  auto* self = GST_CUDA_MEDIAN(filter);
  GST_OBJECT_LOCK(self);
  vf::MedianParams params = self->params;
  const gstvf::PlaneSettings planes = self->planes;
  GST_OBJECT_UNLOCK(self);
  planes.fill(format, &params);
  return params;
}

static gboolean gst_cuda_median_is_identity(GstCudaVideoFilter* filter, const gstvf::Format& in,
                                            const gstvf::Format&) {
  const vf::MedianParams params = gst_cuda_median_params(filter, in);
  return gstvf::selects_nothing(params.channels) || vf::is_identity(params);
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
    default:
      if (!self->planes.set(filter, id - PROP_PLANE_SETTINGS, value))
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
    default:
      if (!self->planes.get(id - PROP_PLANE_SETTINGS, value))
        G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_cuda_median_init(GstCudaMedian* self) {
  self->params = vf::MedianParams();
  self->planes = gstvf::PlaneSettings(self->params.border);
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
  install(PROP_SIZE_Y,
          g_param_spec_int("size-y", "Size down", "Pixels of the window down: odd. 0 = size", 0,
                           max_size, defaults.size_y, flags));
  gstvf::PlaneSettings::install(
      object_class, PROP_PLANE_SETTINGS, "GstCudaMedianBorder",
      {vf::Border::replicate, vf::Border::reflect_101, vf::Border::constant, vf::Border::shrink},
      defaults.border, "What is filtered; the rest is left as it is. RGB colours count as luma");

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA median", "Filter/Effect/Video/Hardware",
      "Removes noise from video with a median, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, nullptr, nullptr);
  filter_class->is_identity = gst_cuda_median_is_identity;
  filter_class->make_plan = gst_cuda_median_make_plan;
}
