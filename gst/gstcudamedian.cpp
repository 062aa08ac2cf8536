/**
 * SECTION:element-cudamedian
 * @title: cudamedian
 *
 * Replaces each pixel of video by the median of its neighbourhood, on an NVIDIA GPU or on the CPU:
 * single wrong pixels (salt and pepper, dead pixels, dropouts) disappear and edges stay.
 *
 * The window #cudamedian:size is in pixels of the frame; planes with subsampled chroma get one that
 * is scaled to them, so that the picture is denoised evenly. Every channel is filtered on its own.
 * With #cudamedian:threshold only outliers are replaced, and fine detail stays: for salt and pepper
 * and dead pixels, 16 to 48 is right. Results do not depend on where they are made. All settings
 * can change while the pipeline plays, and by a controller.
 *
 * Frames in CUDA memory stay there. Frames in system memory are filtered on the GPU too where there
 * is one, and on the CPU where there is none or #GstCudaVideoFilter:backend says so. Fields of
 * interlaced frames are filtered separately.
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
#include "gst/base/planesettings.h"
#include "gst/regions/regionelement.h"

namespace {

struct Settings : gstvf::PlaneSettings<vf::MedianParams>, gstvf::RegionSettings {
  // The filter of regions; of all of a frame where there are none.
  vf::RegionMedian filter_for(const gstvf::Format& format) const { return {params_for(format)}; }
};

}  // namespace

typedef struct _GstCudaMedian {
  GstCudaVideoFilter parent;

  gstvf::RegionState<Settings> state;
} GstCudaMedian;
typedef struct _GstCudaMedianClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaMedianClass;

G_DEFINE_TYPE(GstCudaMedian, gst_cuda_median, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudamedian, "cudamedian", GST_RANK_NONE, GST_TYPE_CUDA_MEDIAN)

using Regions = gstvf::RegionElement<GstCudaMedian, Settings, vf::make_median>;

static void gst_cuda_median_init(GstCudaMedian* self) {
  Regions::init(self);
}

static void gst_cuda_median_class_init(GstCudaMedianClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);

  Regions::install(filter_class, gst_cuda_median_parent_class);

  gstvf::install_properties<Settings>(
      object_class, Regions::settings,
      {
          {"size", "Size", &Settings::size, Settings::kSize,
           "Width of the window in pixels of the frame and, unless size-y is given, its height: "
           "odd (an even value is refused and the old one stays). 1 passes frames through"},
          {"size-y", "Size down", &Settings::size_y, Settings::kSizeY,
           "Height of the window in pixels of the frame: odd. 0 = size"},
          {"threshold", "Threshold", &Settings::threshold, Settings::kThreshold,
           "Replace a pixel only where it is the least or the greatest of its window and differs "
           "from the median by more than this, in 8-bit code values whatever the depth: removes "
           "salt and pepper and keeps all else. 0 = replace every pixel"},
      });
  Settings::install(
      object_class, Regions::settings, "GstCudaMedianBorder",
      {vf::Border::replicate, vf::Border::reflect_101, vf::Border::constant, vf::Border::shrink});
  Settings::install_regions(object_class, Regions::settings);

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA median", "Filter/Effect/Video/Hardware",
      "Removes noise from video with a median, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, nullptr, nullptr);
}
