/**
 * SECTION:element-cudaguidedmatte
 * @title: cudaguidedmatte
 *
 * Refines a coarse matte along the edges of the picture, on an NVIDIA GPU or on the CPU.
 *
 * The coarse matte comes in the frames' alpha (from a segmentation network, say), from the
 * element's own chroma key or, with GStreamer 1.26 and newer, from a meta that a network left on
 * the frame. With #cudaguidedmatte:refine = colors (the default for masks in alpha)
 * local colour models of the subject and of the background decide where the mask is wrong near its
 * edge; then, and alone with refine = guided, a guided filter fits it to the picture, so that it
 * follows hair and edges. The output is the picture with that alpha, premultiplied with it, the
 * matte itself as gray, or the picture over a background: a colour, or with
 * #cudaguidedmatte:background = blur its own background out of focus, without a halo of the
 * subject. With #cudaguidedmatte:foreground = estimate soft edges are in the subject's own colours,
 * not mixed with what was behind; set it wherever the picture gets another background.
 *
 * The mask may be off the subject's edge by #cudaguidedmatte:mask-error, or with refine = guided by
 * up to about half of #cudaguidedmatte:radius. A smaller #cudaguidedmatte:epsilon follows finer
 * edges, and noise. #cudaguidedmatte:temporal steadies a flickering mask without lag: the matte, or
 * with refine = colors the mask's side, is held only where the picture stands still; 0.95 is a good
 * value. It starts anew after a flushing seek, new caps, with refine = colors at a discontinuity,
 * and after a change of #cudaguidedmatte:subsample, #cudaguidedmatte:mask or
 * #cudaguidedmatte:refine; other properties can change all the time.
 *
 * With #cudaguidedmatte:mask = chroma-key, formats without alpha are taken too, and come out with
 * alpha: the same colours with alpha where there is such a format, and YUV also as RGB, by the
 * matrix and range of its caps, so that a decoder's frames can stay in CUDA memory. The key
 * compares chroma only, so a shadow on the screen is still screen. With
 * #cudaguidedmatte:mask = alpha, frames without alpha are an error: there is no mask in them.
 *
 * With #cudaguidedmatte:mask = segmentation (GstAnalyticsSegmentationMtd) or tensor
 * (GstTensorMeta), masks of any size are enlarged to the frame, through the geometry of their metas
 * (docs/matte.md), also on formats without alpha. A frame that brings none uses the last one for
 * #cudaguidedmatte:mask-hold-ms; after that #cudaguidedmatte:mask-missing says what it is. What
 * cannot be a mask is ignored, with a warning message.
 *
 * Frames in CUDA memory stay there. Frames in system memory are filtered on the GPU too where there
 * is one, and on the CPU where there is none or #GstCudaVideoFilter:backend says so.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 filesrc location=greenscreen.mp4 ! decodebin ! videoconvert \
 *     ! video/x-raw,format=RGBA ! cudaguidedmatte mask=chroma-key key-color=0x30a040 despill=1 \
 *     output=composite background-color=0xff203040 ! videoconvert ! autovideosink
 * ]| A green screen, over a colour.
 * |[
 * gst-launch-1.0 alphacombine name=c ! videoconvert ! video/x-raw,format=RGBA \
 *     ! cudaguidedmatte radius=48 ! videoconvert ! autovideosink \
 *     filesrc location=clip.mkv ! decodebin ! videoconvert \
 *     ! video/x-raw,format=I420,colorimetry=1:4:0:0 ! queue ! c.sink \
 *     filesrc location=mask.mkv ! decodebin ! videoconvert \
 *     ! video/x-raw,format=GRAY8 ! queue ! c.alpha
 * ]| A clip and its coarse mask from two files. alphacombine wants both in the same range.
 */
#include "gst/gstcudaguidedmatte.h"

#include <new>

#include "filters/backend.h"
#include "filters/guided.h"
#include "gst/base/analytics.h"
#include "gst/base/errors.h"
#include "gst/base/formatcaps.h"
#include "gst/base/properties.h"
#include "gst/matte/guidedmattecaps.h"
#include "gst/matte/guidedmattemask.h"

using gstvf::MatteSource;

namespace {

// The colours are code values in the params, and ARGB here.
struct Settings : vf::GuidedParams, gstvf::MatteMaskSettings {
  guint key_argb = 0x00ff00;
  guint background_argb = 0xff000000;
};

}  // namespace

typedef struct _GstCudaGuidedMatte {
  GstCudaVideoFilter parent;

  Settings settings;  // under the object's lock
  // The streaming thread's, or start's and stop's.
  gstvf::Format format;  // of the frames that come in
  gstvf::MatteMasks masks;
  gstvf::WarningLimit warnings;
} GstCudaGuidedMatte;
typedef struct _GstCudaGuidedMatteClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaGuidedMatteClass;

#define GST_CUDA_GUIDED_MATTE(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_GUIDED_MATTE, GstCudaGuidedMatte))

#define gst_cuda_guided_matte_parent_class parent_class
G_DEFINE_TYPE(GstCudaGuidedMatte, gst_cuda_guided_matte, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudaguidedmatte, "cudaguidedmatte", GST_RANK_NONE,
                            GST_TYPE_CUDA_GUIDED_MATTE)

static Settings* gst_cuda_guided_matte_settings(GObject* object) {
  return &GST_CUDA_GUIDED_MATTE(object)->settings;
}

static gstvf::MatteMaskSettings* gst_cuda_guided_matte_mask_settings(GObject* object) {
  return &GST_CUDA_GUIDED_MATTE(object)->settings;
}

// Caps

static GstCaps* gst_cuda_guided_matte_transform_caps(GstBaseTransform* trans,
                                                     GstPadDirection direction, GstCaps* caps,
                                                     GstCaps* filter) {
  auto* self = GST_CUDA_GUIDED_MATTE(trans);
  const Settings settings = gstvf::locked(self, self->settings);
  GstCaps* out = gstvf::guided_matte_caps(direction, caps, settings.source == MatteSource::alpha);
  // Not every format exists in every memory.
  GstPad* other = direction == GST_PAD_SINK ? trans->srcpad : trans->sinkpad;
  GstCaps* known = gst_pad_get_pad_template_caps(other);
  GstCaps* result = gst_caps_intersect_full(out, known, GST_CAPS_INTERSECT_FIRST);
  gst_caps_unref(known);
  gst_caps_unref(out);
  return gstvf::filter_caps(result, filter);
}

// Whether the masks of `source` can be on frames at all.
static bool can_be_there(MatteSource source) {
  return gstvf::kHasAnalytics ||
         (source != MatteSource::segmentation && source != MatteSource::tensor);
}

// The values of `mask` that such frames can have.
constexpr const char* kMasksWithoutAlpha =
    gstvf::kHasAnalytics ? "chroma-key, segmentation or tensor" : "chroma-key";

// The format of frames that have no mask in their alpha; null where they have one.
static const char* without_alpha(GstCaps* caps) {
  GstVideoInfo info;
  return caps && gst_video_info_from_caps(&info, caps) && !gstvf::has_matte(info.finfo)
             ? info.finfo->name
             : nullptr;
}

static gboolean gst_cuda_guided_matte_set_caps(GstBaseTransform* trans, GstCaps* incaps,
                                               GstCaps* outcaps) {
  auto* self = GST_CUDA_GUIDED_MATTE(trans);
  auto* filter = GST_CUDA_VIDEO_FILTER(trans);
  const Settings settings = gstvf::locked(self, self->settings);
  const char* format = without_alpha(incaps);
  if (!can_be_there(settings.source)) {
    return gst_cuda_video_filter_refuse_caps(
        filter,
        gstvf::no_analytics(GST_ELEMENT(trans), "mask", "mask=segmentation and mask=tensor"));
  }
  if (format && settings.source == MatteSource::alpha) {
    gchar* text = g_strdup_printf(
        "These frames have no mask: their format is %s, without alpha. Put a mask into their alpha "
        "(alphacombine joins a video and its mask), or set mask=chroma-key to make one of their "
        "colours.",
        format);
    return gst_cuda_video_filter_refuse_caps(
        filter, {GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, text,
                 gst_info_strdup_printf("caps %" GST_PTR_FORMAT, incaps),
                 gstvf::setting_details(GST_ELEMENT(trans), "mask", kMasksWithoutAlpha)});
  }
  gstvf::format_from_caps(incaps, &self->format);
  self->masks.forget();
  return GST_BASE_TRANSFORM_CLASS(parent_class)->set_caps(trans, incaps, outcaps);
}

// A mask that the frames of now do not have.
static std::string gst_cuda_guided_matte_refuse_mask(GObject* object, const GValue* value) {
  const auto source = MatteSource(g_value_get_enum(value));
  if (!can_be_there(source)) return gstvf::why_no_analytics(object);
  if (source != MatteSource::alpha) return {};
  GstCaps* caps = gst_pad_get_current_caps(GST_BASE_TRANSFORM_SINK_PAD(object));
  const char* format = without_alpha(caps);
  gst_clear_caps(&caps);
  return format ? gstvf::printed(
                      "cannot be alpha while frames of %s come in, which have no alpha: "
                      "must be %s",
                      format, kMasksWithoutAlpha)
                : std::string();
}

// Other formats are preferred now.
static void gst_cuda_guided_matte_mask_changed(GObject* object) {
  gst_base_transform_reconfigure_sink(GST_BASE_TRANSFORM(object));
  gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(object));
}

static vf::MatteMask mask_of(const Settings& s) {
  return s.external()                          ? vf::MatteMask::external
         : s.source == MatteSource::chroma_key ? vf::MatteMask::chroma_key
                                               : vf::MatteMask::alpha;
}

static vf::Status gst_cuda_guided_matte_make_plan(GstCudaVideoFilter* filter, vf::Queue& queue,
                                                  const gstvf::Format& in, const gstvf::Format& out,
                                                  vf::Placement placement,
                                                  std::unique_ptr<vf::Plan>* plan) {
  auto* self = GST_CUDA_GUIDED_MATTE(filter);
  Settings s = gstvf::locked(self, self->settings);
  s.mask = mask_of(s);
  vf::set_colors(in.layout, in.color, out.layout, out.color, s.key_argb, s.background_argb, &s);
  if (s.source == MatteSource::chroma_key && s.despill > 0 && s.output != vf::MatteOutput::matte &&
      !vf::key_has_hue(s) && self->warnings.allows("despill"))
    gstvf::post_setting_warning(GST_ELEMENT(self), "key-color",
                                "key-color is gray, so that despill has no hue to take out",
                                "any colour but gray, or despill=0");
  std::unique_ptr<vf::GuidedPlan> made;
  VF_TRY(vf::make_guided(queue, in.layout, vf::matte_channels(in.layout, in.color), out.layout,
                         vf::matte_channels(out.layout, out.color), s, placement, &made));
  // Settings that a controller moves must not cost the memory of the frames before.
  if (*plan) made->take_over(static_cast<vf::GuidedPlan&>(**plan));
  *plan = std::move(made);
  return {};
}

// Gives the plan the mask of the frame.
static vf::Status gst_cuda_guided_matte_prepare_frame(GstCudaVideoFilter* filter, GstBuffer* in,
                                                      gstvf::Rows rows, vf::Plan& plan) {
  auto* self = GST_CUDA_GUIDED_MATTE(filter);
  const auto settings = gstvf::locked<gstvf::MatteMaskSettings>(self, self->settings);
  if (!settings.external()) return {};
  // Both fields are of one buffer. Masks may be larger than what is left of memory.
  const auto take = [&] {
    const GstSegment& segment = GST_BASE_TRANSFORM(filter)->segment;
    const GstClockTime time =
        segment.format == GST_FORMAT_TIME
            ? gst_segment_to_running_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(in))
            : GST_CLOCK_TIME_NONE;
    const std::string problem = self->masks.take(in, settings, self->format, time);
    if (!problem.empty() && self->warnings.allows(problem))
      GST_ELEMENT_WARNING(self, STREAM, FORMAT, ("A mask was ignored: %s.", problem.c_str()),
                          (nullptr));
    return vf::Status();
  };
  if (rows != gstvf::Rows::bottom_field) VF_TRY(vf::guarded(take));
  return static_cast<vf::GuidedPlan&>(plan).set_mask(self->masks.mask(rows));
}

// Without `temporal` there is nothing to forget, and plans are dear.
static gboolean gst_cuda_guided_matte_forgets_at_discont(GstCudaVideoFilter* filter) {
  auto* self = GST_CUDA_GUIDED_MATTE(filter);
  const Settings s = gstvf::locked(self, self->settings);
  return s.temporal > 0 && vf::refine_of(s.refine, mask_of(s)) == vf::MatteRefine::colors;
}

static gboolean gst_cuda_guided_matte_stop(GstBaseTransform* trans) {
  const gboolean stopped = GST_BASE_TRANSFORM_CLASS(parent_class)->stop(trans);
  GST_CUDA_GUIDED_MATTE(trans)->masks.forget();
  return stopped;
}

static gboolean gst_cuda_guided_matte_sink_event(GstBaseTransform* trans, GstEvent* event) {
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP) GST_CUDA_GUIDED_MATTE(trans)->masks.forget();
  return GST_BASE_TRANSFORM_CLASS(parent_class)->sink_event(trans, event);
}

static void gst_cuda_guided_matte_finalize(GObject* object) {
  auto* self = GST_CUDA_GUIDED_MATTE(object);
  self->settings.~Settings();
  self->format.~Format();
  self->masks.~MatteMasks();
  self->warnings.~WarningLimit();
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_guided_matte_init(GstCudaGuidedMatte* self) {
  new (&self->settings) Settings();
  new (&self->format) gstvf::Format();
  new (&self->masks) gstvf::MatteMasks();
  new (&self->warnings) gstvf::WarningLimit();
}

static void gst_cuda_guided_matte_class_init(GstCudaGuidedMatteClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* trans_class = GST_BASE_TRANSFORM_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);
  using S = Settings;

  const GType mask_type = gstvf::enum_type(
      "GstCudaGuidedMatteMask",
      {{MatteSource::alpha, "The frames' alpha", "alpha"},
       {MatteSource::chroma_key, "Distance from key-color in the chroma plane", "chroma-key"},
       {MatteSource::segmentation, "GstAnalyticsSegmentationMtd on the frames (GStreamer 1.26)",
        "segmentation"},
       {MatteSource::tensor, "GstTensorMeta on the frames (GStreamer 1.26)", "tensor"}});
  const GType output_type = gstvf::enum_type(
      "GstCudaGuidedMatteOutput",
      {{vf::MatteOutput::alpha, "Colours as they are, refined alpha", "alpha"},
       {vf::MatteOutput::premultiplied, "Colours times alpha, refined alpha", "premultiplied"},
       {vf::MatteOutput::matte, "The matte as gray, opaque", "matte"},
       {vf::MatteOutput::composite, "Over the background", "composite"}});
  const GType foreground_type = gstvf::enum_type(
      "GstCudaGuidedMatteForeground",
      {{vf::MatteForeground::keep, "The picture's own colours", "keep"},
       {vf::MatteForeground::estimate,
        "At soft edges the subject's colours, without the background that shines through",
        "estimate"}});
  const GType background_type = gstvf::enum_type(
      "GstCudaGuidedMatteBackground",
      {{vf::MatteBackground::color, "background-color", "color"},
       {vf::MatteBackground::blur, "The picture's own background, blurred", "blur"}});
  const GType refine_type = gstvf::enum_type(
      "GstCudaGuidedMatteRefine",
      {{vf::MatteRefine::automatic, "colors; guided with mask=chroma-key", "auto"},
       {vf::MatteRefine::guided, "Guided filter on the mask", "guided"},
       {vf::MatteRefine::colors,
        "Guided filter on what local colours of subject and background make of the mask",
        "colors"}});
  gstvf::install_properties<Settings>(
      object_class, gst_cuda_guided_matte_settings,
      {
          {"refine", "Refine", &S::refine, refine_type,
           "How the mask is refined: by the guided filter alone, or by local colours first"},
          {"radius", "Radius", &S::radius, S::kRadius,
           "Radius of the guided filter's window, in pixels of the frame (0 = 16 with "
           "refine=colors, 32 with refine=guided, where it says how far the mask's edge may be "
           "moved). Run time does not depend on it"},
          {"mask-error", "Mask error", &S::mask_error, S::kMaskError,
           "Pixels of the frame that the mask's edge may be off by at most, for refine=colors: "
           "about one pixel of the network that made the mask (0 = 18). How much of it is needed "
           "is found per frame"},
          {"mask-trust", "Mask trust", &S::mask_trust, S::kMaskTrust,
           "Weight of the mask against the colours near its edge, for refine=colors (0 = colours "
           "alone)"},
          {"color-reach", "Colour reach", &S::color_reach, S::kColorReach,
           "Pixels of the frame from which colours are compared, for refine=colors"},
          {"color-sigma", "Colour sigma", &S::color_sigma, S::kColorSigma,
           "Difference between colours that count as alike, of channels from 0 to 1, for "
           "refine=colors"},
          {"epsilon", "Epsilon", &S::epsilon, S::kEpsilon,
           "Variance, of colours from 0 to 1, below which the picture counts as flat: smaller "
           "values follow fainter edges"},
          {"subsample", "Subsample", &S::subsample, S::kSubsample,
           "Pixels from one sample of the statistics to the next, horizontally and vertically: 1 "
           "is the full guided filter, more is faster"},
          {"mask",
           "Mask",
           &S::source,
           mask_type,
           "Source of the coarse matte. alpha needs frames with alpha, segmentation and tensor "
           "need a plugin built with GStreamer 1.26 or newer",
           {gstvf::kPlaying, gst_cuda_guided_matte_refuse_mask,
            gst_cuda_guided_matte_mask_changed}},
          {"key-color", "Key colour", &S::key_argb, vf::Limits<guint>{0, 0xffffff},
           "Colour of the screen, as 0xRRGGBB"},
          {"key-tolerance", "Key tolerance", &S::key_tolerance, S::kFraction,
           "Chroma this near to the key's is screen (Cb and Cr from -0.5 to 0.5)"},
          {"key-softness", "Key softness", &S::key_softness, S::kFraction,
           "Chroma farther than key-tolerance by this is subject; the mask is a ramp between"},
          {"despill", "Despill", &S::despill, S::kFraction,
           "Share of the key's hue that is taken out of the colours (0 = none, 1 = all). A gray "
           "key has "
           "no hue, and nothing is taken out"},
          {"output", "Output", &S::output, output_type,
           "Output mode: the picture with its matte, the matte, or the picture over a background"},
          {"foreground", "Foreground", &S::foreground, foreground_type,
           "The subject's colours in the output, unless that is the matte"},
          {"background", "Background", &S::backdrop, background_type,
           "What is behind the subject with output=composite. The blur is of the background alone: "
           "the subject's colours do not reach it"},
          {"background-sigma", "Background sigma", &S::background_sigma, S::kBackgroundSigma,
           "Standard deviation of the blur with background=blur, in pixels of the frame"},
          {"background-color", "Background colour", &S::background_argb, gstvf::kColor,
           "Colour behind the subject with output=composite, as 0xAARRGGBB; with background=blur "
           "where the picture shows no background at all"},
          {"temporal", "Temporal", &S::temporal, S::kFraction,
           "Steadies the matte where the picture stands still: share of the frame before that is "
           "kept (0 = off; 0.95 takes out most flicker)"},
      });

  gstvf::MatteMaskSettings::install(object_class, gst_cuda_guided_matte_mask_settings);

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA guided matte", "Filter/Effect/Video/Hardware",
      "Refines a matte along the picture's edges, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, gstvf::guided_matte_sinks,
                                      gstvf::guided_matte_sources);
  trans_class->transform_caps = GST_DEBUG_FUNCPTR(gst_cuda_guided_matte_transform_caps);
  trans_class->set_caps = GST_DEBUG_FUNCPTR(gst_cuda_guided_matte_set_caps);
  trans_class->stop = GST_DEBUG_FUNCPTR(gst_cuda_guided_matte_stop);
  trans_class->sink_event = GST_DEBUG_FUNCPTR(gst_cuda_guided_matte_sink_event);
  object_class->finalize = gst_cuda_guided_matte_finalize;
  filter_class->stateful = TRUE;
  filter_class->forgets_at_discont = gst_cuda_guided_matte_forgets_at_discont;
  filter_class->make_plan = gst_cuda_guided_matte_make_plan;
  filter_class->prepare_frame = gst_cuda_guided_matte_prepare_frame;
}
