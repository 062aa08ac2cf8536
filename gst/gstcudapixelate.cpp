/**
 * SECTION:element-cudapixelate
 * @title: cudapixelate
 *
 * Replaces each block of pixels of video by its mean, on an NVIDIA GPU or on the CPU, so that what
 * is smaller than a block cannot be recognised any more.
 *
 * Blocks are squares of #cudapixelate:block-size pixels of the frame, from its top left corner.
 * They cover the same area in planes with subsampled chroma. Blocks at the right and at the bottom
 * that the frame cuts off take the mean of what they have. Results do not depend on where they are
 * made. All settings can change while the pipeline plays, and by a controller.
 *
 * Frames in CUDA memory stay there. Frames in system memory are filtered on the GPU too where there
 * is one, and on the CPU where there is none or #GstCudaVideoFilter:backend says so. Fields of
 * interlaced frames are filtered separately, with blocks of as many rows of the field.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 videotestsrc ! cudapixelate block-size=16 ! videoconvert ! autovideosink
 * ]| Frames in system memory.
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! qtdemux ! h264parse ! nvh264dec ! \
 *     'video/x-raw(memory:CUDAMemory)' ! cudapixelate ! cudadownload ! videoconvert ! autovideosink
 * ]| Frames in CUDA memory, from the decoder on; blocks of an eighth of the frame's height.
 */
#include "gst/gstcudapixelate.h"

#include "filters/pixelate.h"
#include "gst/planesettings.h"

using Settings = gstvf::PlaneSelection<vf::PixelateParams>;

typedef struct _GstCudaPixelate {
  GstCudaVideoFilter parent;

  Settings settings;  // under the object's lock
} GstCudaPixelate;
typedef struct _GstCudaPixelateClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaPixelateClass;

#define GST_CUDA_PIXELATE(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_PIXELATE, GstCudaPixelate))

G_DEFINE_TYPE(GstCudaPixelate, gst_cuda_pixelate, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudapixelate, "cudapixelate", GST_RANK_NONE, GST_TYPE_CUDA_PIXELATE)

static vf::PixelateParams gst_cuda_pixelate_params(GstCudaVideoFilter* filter,
                                                   const gstvf::Format& format) {
  return GST_CUDA_PIXELATE(filter)->settings.params(filter, format);
}

static gboolean gst_cuda_pixelate_is_identity(GstCudaVideoFilter* filter, const gstvf::Format& in,
                                              const gstvf::Format&) {
  return vf::is_identity(gst_cuda_pixelate_params(filter, in));
}

static vf::Status gst_cuda_pixelate_make_plan(GstCudaVideoFilter* filter, vf::Queue& queue,
                                              const gstvf::Format& in, const gstvf::Format&,
                                              vf::Placement placement,
                                              std::unique_ptr<vf::Plan>* plan) {
  return vf::make_pixelate(queue, in.layout, gst_cuda_pixelate_params(filter, in), placement, plan);
}

static Settings* gst_cuda_pixelate_settings(GObject* object) {
  return &GST_CUDA_PIXELATE(object)->settings;
}

static void gst_cuda_pixelate_init(GstCudaPixelate* self) {
  self->settings = Settings();
}

static void gst_cuda_pixelate_class_init(GstCudaPixelateClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);

  gstvf::install_properties<Settings>(
      object_class, gst_cuda_pixelate_settings,
      {
          {"block-size", "Block size", &Settings::block_size, Settings::kBlockSize,
           "Width and height of the blocks in pixels of the frame, or of a field of interlaced "
           "frames. 1 passes frames through. 0 = automatic: at most 8 blocks across the smaller "
           "side of the frame"},
      });
  Settings::install_planes(object_class, gst_cuda_pixelate_settings);

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA pixelation", "Filter/Effect/Video/Hardware",
      "Pixelates video: each block becomes its mean, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, nullptr, nullptr);
  filter_class->is_identity = gst_cuda_pixelate_is_identity;
  filter_class->make_plan = gst_cuda_pixelate_make_plan;
}
