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
#include "gst/regionsettings.h"

namespace {

enum class BlockOrigin { frame, region };

struct Settings : gstvf::PlaneSelection<vf::PixelateParams>, gstvf::RegionSettings {
  BlockOrigin block_origin = BlockOrigin::frame;
};

}  // namespace

typedef struct _GstCudaPixelate {
  GstCudaVideoFilter parent;

  Settings settings;            // under the object's lock
  gstvf::RegionFrames regions;  // the streaming thread's
} GstCudaPixelate;
typedef struct _GstCudaPixelateClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaPixelateClass;

#define GST_CUDA_PIXELATE(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_PIXELATE, GstCudaPixelate))

G_DEFINE_TYPE(GstCudaPixelate, gst_cuda_pixelate, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudapixelate, "cudapixelate", GST_RANK_NONE, GST_TYPE_CUDA_PIXELATE)

// The filter of regions; of all of a frame where there are none.
static vf::RegionPixelate gst_cuda_pixelate_filter(GstCudaVideoFilter* filter,
                                                   const gstvf::Format& format,
                                                   gstvf::RegionSettings* regions) {
  const Settings s = gstvf::locked(filter, GST_CUDA_PIXELATE(filter)->settings);
  *regions = s;
  return {s.params_for(format), s.block_origin == BlockOrigin::region};
}

static gboolean gst_cuda_pixelate_is_identity(GstCudaVideoFilter* filter, const gstvf::Format& in,
                                              const gstvf::Format&) {
  gstvf::RegionSettings regions;
  return vf::is_identity(vf::RegionFilter(gst_cuda_pixelate_filter(filter, in, &regions)));
}

static vf::Status gst_cuda_pixelate_make_plan(GstCudaVideoFilter* filter, vf::Queue& queue,
                                              const gstvf::Format& in, const gstvf::Format&,
                                              vf::Placement placement,
                                              std::unique_ptr<vf::Plan>* plan) {
  gstvf::RegionSettings regions;
  const auto f = gst_cuda_pixelate_filter(filter, in, &regions);
  if (regions.regions == GST_CUDA_VIDEO_FILTER_REGIONS_ALL)
    return vf::make_pixelate(queue, in.layout, f.params, placement, plan);
  return gstvf::make_regions(queue, in.layout, regions, f, placement, plan);
}

static gboolean gst_cuda_pixelate_changes_part(GstCudaVideoFilter* filter) {
  return gstvf::changes_part(gstvf::locked(filter, GST_CUDA_PIXELATE(filter)->settings));
}

static vf::Status gst_cuda_pixelate_prepare_frame(GstCudaVideoFilter* filter, GstBuffer* in,
                                                  gstvf::Rows rows, vf::Plan& plan) {
  auto* self = GST_CUDA_PIXELATE(filter);
  return self->regions.prepare(gstvf::locked(filter, self->settings), in, rows, plan);
}

static gboolean gst_cuda_pixelate_start(GstBaseTransform* trans) {
  GST_CUDA_PIXELATE(trans)->regions.reset();
  return GST_BASE_TRANSFORM_CLASS(gst_cuda_pixelate_parent_class)->start(trans);
}

static Settings* gst_cuda_pixelate_settings(GObject* object) {
  return &GST_CUDA_PIXELATE(object)->settings;
}

static void gst_cuda_pixelate_init(GstCudaPixelate* self) {
  new (&self->settings) Settings();
  new (&self->regions) gstvf::RegionFrames();
}

static void gst_cuda_pixelate_finalize(GObject* object) {
  auto* self = GST_CUDA_PIXELATE(object);
  self->regions.~RegionFrames();
  self->settings.~Settings();
  G_OBJECT_CLASS(gst_cuda_pixelate_parent_class)->finalize(object);
}

static void gst_cuda_pixelate_class_init(GstCudaPixelateClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);

  object_class->finalize = gst_cuda_pixelate_finalize;
  GST_BASE_TRANSFORM_CLASS(klass)->start = GST_DEBUG_FUNCPTR(gst_cuda_pixelate_start);

  gstvf::install_properties<Settings>(
      object_class, gst_cuda_pixelate_settings,
      {
          {"block-size", "Block size", &Settings::block_size, Settings::kBlockSize,
           "Width and height of the blocks in pixels of the frame, or of a field of interlaced "
           "frames. 1 passes frames through. 0 = automatic: at most 8 blocks across the smaller "
           "side of the frame, 4 across that of the object's box in a region"},
          {"block-origin", "Block origin", &Settings::block_origin,
           gstvf::enum_type("GstCudaPixelateBlockOrigin",
                            {{BlockOrigin::frame, "The frame's top left corner", "frame"},
                             {BlockOrigin::region, "The region's top left corner", "region"}}),
           "Where the first block of a region starts"},
      });
  Settings::install_planes(object_class, gst_cuda_pixelate_settings);
  Settings::install_regions(object_class, gst_cuda_pixelate_settings);

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA pixelation", "Filter/Effect/Video/Hardware",
      "Pixelates video: each block becomes its mean, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, nullptr, nullptr);
  filter_class->is_identity = gst_cuda_pixelate_is_identity;
  filter_class->make_plan = gst_cuda_pixelate_make_plan;
  filter_class->prepare_frame = gst_cuda_pixelate_prepare_frame;
  filter_class->changes_part = gst_cuda_pixelate_changes_part;
}
