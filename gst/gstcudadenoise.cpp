/**
 * SECTION:element-cudadenoise
 * @title: cudadenoise
 *
 * Removes the noise of cameras from video, on an NVIDIA GPU or on the CPU. docs/clean-cameras.md shows
 * its use, and docs/spec/denoise.md defines the result. All settings can change while the pipeline
 * plays, and a controller can set them.
 *
 * The estimate of the noise is #cudadenoise:noise-level. It describes an earlier frame, because the
 * element does not wait for the GPU. The property notifies from the streaming thread. The element also
 * posts messages of type #GST_MESSAGE_ELEMENT, whose structure "cudadenoise" has one field:
 *
 * * #gdouble `noise-level`: the standard deviation of luma's noise in 8-bit code values, as
 *   #cudadenoise:noise-level has it.
 *
 * The estimate is at most 30 codes, or twice the estimate of the first frame if that is more, because
 * fast motion looks like strong noise. The first frame is the first one after a start, a
 * discontinuity, a flush or seek, or new caps. The element then forgets the previous frames. It also
 * forgets them when it has passed frames through (strength 0). Fields of interlaced frames are filtered
 * separately, each with the previous fields of its parity.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! qtdemux ! h264parse ! nvh264dec ! \
 *     'video/x-raw(memory:CUDAMemory)' ! cudadenoise strength=1.5 ! nvh264enc ! h264parse ! \
 *     mp4mux ! filesink location=clean.mp4
 * ]| Frames stay in CUDA memory from the decoder to the encoder.
 */
#include <algorithm>
#include <cmath>

#include "filters/denoise.h"
#include "gst/base/enabled.h"
#include "gst/base/lookahead.h"
#include "gst/base/planesettings.h"
#include "gst/base/stats.h"

// Shortest distance between two messages (frames) and between two notifications (microseconds), and
// the relative change of the level that both need.
constexpr guint kMessageFrames = 25;
constexpr gint64 kNotifyTime = G_USEC_PER_SEC;
constexpr double kNoticeableChange = 0.05;

namespace {

struct Settings : vf::DenoiseParams {
  guint planes = GST_CUDA_VIDEO_FILTER_PLANES_LUMA | GST_CUDA_VIDEO_FILTER_PLANES_CHROMA;
  double noise_level = 0;
};

}  // namespace

typedef struct _GstCudaDenoise {
  GstCudaVideoFilter parent;

  Settings settings;  // under the object's lock

  // Used by the streaming thread only.
  double level;  // estimate of the previous frames, 0 before the first
  guint frames;  // since the last message
  double posted_level;
  gint64 notify_time;  // when it last notified, by the monotonic clock
  double notified_level;
} GstCudaDenoise;
using GstCudaDenoiseClass = GstCudaVideoFilterClass;

#define GST_CUDA_DENOISE(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), gst_cuda_denoise_get_type(), GstCudaDenoise))

G_DEFINE_TYPE(GstCudaDenoise, gst_cuda_denoise, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudadenoise, "cudadenoise", GST_RANK_NONE, gst_cuda_denoise_get_type())

// Takes gray, RGB, and YUV whose chroma is subsampled by at most 2.
static gboolean takes(const GstVideoFormatInfo* format) {
  if (GST_VIDEO_FORMAT_INFO_IS_RGB(format) || GST_VIDEO_FORMAT_INFO_IS_GRAY(format)) return TRUE;
  return GST_VIDEO_FORMAT_INFO_IS_YUV(format) && GST_VIDEO_FORMAT_INFO_W_SUB(format, 1) <= 1 &&
         GST_VIDEO_FORMAT_INFO_H_SUB(format, 1) <= 1;
}

static vf::DenoiseParams params(GstCudaVideoFilter* filter, const gstvf::Format& format) {
  Settings s = gstvf::locked(filter, GST_CUDA_DENOISE(filter)->settings);
  gstvf::select_channels(format, s.planes & ~guint(GST_CUDA_VIDEO_FILTER_PLANES_ALPHA), s.channels);
  return s;
}

static gboolean is_identity(GstCudaVideoFilter* filter, const gstvf::Format& in,
                            const gstvf::Format&) {
  return vf::is_identity(params(filter, in));
}

static vf::Status make_plan(GstCudaVideoFilter* filter, vf::Queue& queue, const gstvf::Format& in,
                            const gstvf::Format&, vf::Placement placement,
                            std::unique_ptr<vf::Plan>* plan) {
  std::unique_ptr<vf::DenoisePlan> made;
  VF_TRY(vf::make_denoise(queue, in.layout, in.color, params(filter, in), placement, &made));
  // Settings that a controller changes must not lose the state of the previous frames.
  if (*plan) made->take_over(static_cast<vf::DenoisePlan&>(**plan));
  *plan = std::move(made);
  return {};
}

static guint frames_ahead(GstCudaVideoFilter* filter) {
  return guint(gstvf::locked(filter, GST_CUDA_DENOISE(filter)->settings.look_ahead));
}

static vf::Status set_later(GstCudaVideoFilter*, vf::Plan& plan, const vf::Image* frames,
                            int count) {
  // The property may have changed after the plan was made.
  auto& denoise = static_cast<vf::DenoisePlan&>(plan);
  return denoise.set_later(frames, std::min(count, denoise.look_ahead()));
}

static void latency_changed(GObject* object) {
  gstvf::look_ahead_changed(GST_CUDA_VIDEO_FILTER(object));
}

static bool is_noticeable(double level, double before) {
  return std::abs(level - before) > kNoticeableChange * before;
}

// Takes the noise level of the previous frames.
static vf::Status prepare_frame(GstCudaVideoFilter* filter, GstBuffer*, gstvf::Rows,
                                vf::Plan& plan) {
  auto* self = GST_CUDA_DENOISE(filter);
  const double level = static_cast<const vf::DenoisePlan&>(plan).noise_level();
  if (level == 0) return {};
  self->level = level;
  self->frames++;
  const gstvf::ObjectLock lock(self);
  self->settings.noise_level = level;
  return {};
}

// Notifies and posts the noise level after each frame. Handlers of the notification may set
// properties, so the object's lock is not held.
static void finish_frame(GstCudaVideoFilter* filter, GstBuffer*) {
  auto* self = GST_CUDA_DENOISE(filter);
  const double level = self->level;
  const gint64 now = g_get_monotonic_time();
  if (is_noticeable(level, self->notified_level) &&
      (self->notified_level == 0 || now - self->notify_time >= kNotifyTime)) {
    self->notify_time = now;
    self->notified_level = level;
    g_object_notify(G_OBJECT(self), "noise-level");
  }
  if (self->frames < kMessageFrames || !is_noticeable(level, self->posted_level)) return;
  self->frames = 0;
  self->posted_level = level;
  gst_element_post_message(
      GST_ELEMENT(self),
      gst_message_new_element(GST_OBJECT(self), gst_structure_new("cudadenoise", "noise-level",
                                                                  G_TYPE_DOUBLE, level, nullptr)));
}

static void add_stats(GstCudaVideoFilter* filter, GstStructure* stats) {
  gst_structure_set(stats, "noise-level", G_TYPE_DOUBLE,
                    GST_CUDA_DENOISE(filter)->settings.noise_level, nullptr);
}

static gboolean start(GstBaseTransform* trans) {
  auto* self = GST_CUDA_DENOISE(trans);
  self->frames = 0;
  self->level = self->posted_level = self->notified_level = 0;
  gstvf::under_lock(self, [&] { self->settings.noise_level = 0; });
  return GST_BASE_TRANSFORM_CLASS(gst_cuda_denoise_parent_class)->start(trans);
}

static void gst_cuda_denoise_init(GstCudaDenoise* self) {
  self->settings = Settings();
}

static void gst_cuda_denoise_class_init(GstCudaDenoiseClass* klass) {
  GST_BASE_TRANSFORM_CLASS(klass)->start = GST_DEBUG_FUNCPTR(start);

  constexpr vf::Limits<double> any_level{0, G_MAXDOUBLE};
  constexpr auto read_only = GParamFlags(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  gstvf::install_properties<Settings>(
      G_OBJECT_CLASS(klass), [](GObject* object) { return &GST_CUDA_DENOISE(object)->settings; },
      {
          {"noise", "Noise", &Settings::noise, Settings::kNoise,
           "Standard deviation of the noise in 8-bit code values, at any depth. -1 = estimate "
           "it from the frames, by brightness"},
          {"strength", "Strength", &Settings::strength, Settings::kStrength,
           "Factor on the standard deviation of the noise. Values above 1 remove more noise than "
           "was measured. 0 passes frames through"},
          {"temporal", "Temporal", &Settings::temporal, Settings::kTemporal,
           "Maximum number of frames that are averaged. 1 = filter each frame separately"},
          {"spatial", "Spatial", &Settings::spatial, Settings::kSpatial,
           "Strength of the spatial filter, as a factor on the variance of the noise that is "
           "left. 0 = no spatial filter"},
          {"look-ahead", "Look-ahead", &Settings::look_ahead, Settings::kLookAhead,
           "Number of later frames that are averaged too. Each one delays the stream by a frame, "
           "and takes about the time of a frame. 0 = none",
           gstvf::RowOptions{gstvf::kControllable, nullptr, latency_changed}},
          {"planes", "Planes", &Settings::planes, gstvf::planes_type(),
           "Planes to filter; the others stay unchanged. RGB colours count as luma. Alpha is never "
           "filtered"},
          {"noise-level", "Noise level", &Settings::noise_level, any_level,
           "Estimated standard deviation of luma's noise in 8-bit code values, averaged over "
           "the frame. 0 = no estimate yet. Changes of more than 5 percent are notified at "
           "most once per second. At most once in 25 frames, they are also posted as an "
           "element message \"cudadenoise\" with a double \"noise-level\"",
           read_only},
      });

  gstvf::describe_filter(GST_ELEMENT_CLASS(klass), "CUDA denoiser",
                         "Removes the noise of cameras from video, on an NVIDIA GPU or on the CPU",
                         takes);
  gstvf::install_enabled(G_OBJECT_CLASS(klass));
  klass->add_stats = add_stats;
  klass->stateful = TRUE;
  klass->forgets_at_discont = [](GstCudaVideoFilter*) -> gboolean { return TRUE; };
  klass->is_identity = is_identity;
  klass->make_plan = make_plan;
  klass->prepare_frame = prepare_frame;
  klass->finish_frame = finish_frame;
  klass->frames_ahead = frames_ahead;
  klass->set_later = set_later;
}
