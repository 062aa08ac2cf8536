/**
 * SECTION:element-cudaguidedmatte
 * @title: cudaguidedmatte
 *
 * Refines a coarse matte along the edges of the picture, on an NVIDIA GPU or on the CPU.
 * docs/replace-backgrounds.md shows what to set, and docs/spec/matte.md defines the result.
 *
 * #cudaguidedmatte:mask says where the coarse matte comes from: the frames' alpha, the element's
 * own chroma key, or, with GStreamer 1.26 and newer, a segmentation or tensor that a network left
 * on the frame. A mask that cannot be used is ignored, with a warning message.
 *
 * #cudaguidedmatte:temporal steadies a flickering mask without lag. The held matte is forgotten after
 * a flushing seek, after new caps, with refine = colors at a discontinuity, and after a change of
 * #cudaguidedmatte:subsample, #cudaguidedmatte:mask or #cudaguidedmatte:refine.
 *
 * Only mask = alpha needs frames with alpha. Frames without alpha come out in a format with the same
 * colours and alpha if there is one, or as RGBA. With output = composite, the output has the format of
 * the input if the next element takes it. If #cudaguidedmatte:background-color is not opaque, formats
 * with alpha are preferred; formats without alpha show the colour as opaque.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 filesrc location=greenscreen.mp4 ! decodebin ! videoconvert \
 *     ! video/x-raw,format=RGBA ! cudaguidedmatte mask=chroma-key key-color=0x30a040 despill=1 \
 *     output=composite background-color=0xff203040 ! videoconvert ! autovideosink
 * ]| A green screen, over a colour.
 */
#include <algorithm>
#include <new>

#include "filters/guided.h"
#include "filters/make.h"
#include "gst/base/analytics.h"
#include "gst/base/enabled.h"
#include "gst/base/errors.h"
#include "gst/base/formatcaps.h"
#include "gst/base/properties.h"
#include "gst/base/stats.h"
#include "gst/matte/guidedmattecaps.h"
#include "gst/matte/guidedmattesettings.h"

using gstvf::MatteSource;
using Settings = gstvf::GuidedMatteSettings;

typedef struct _GstCudaGuidedMatte {
  GstCudaVideoFilter parent;

  Settings settings;  // under the object's lock
  // These belong to the streaming thread, or to start and stop.
  gstvf::Format format;  // format of the incoming frames
  gstvf::MatteMasks masks;
  gstvf::WarningLimit warnings;
} GstCudaGuidedMatte;
using GstCudaGuidedMatteClass = GstCudaVideoFilterClass;

#define GST_CUDA_GUIDED_MATTE(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), gst_cuda_guided_matte_get_type(), GstCudaGuidedMatte))

#define gst_cuda_guided_matte_parent_class parent_class
G_DEFINE_TYPE(GstCudaGuidedMatte, gst_cuda_guided_matte, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudaguidedmatte, "cudaguidedmatte", GST_RANK_NONE,
                            gst_cuda_guided_matte_get_type())

// Caps

static GstCaps* transform_caps(GstBaseTransform* trans, GstPadDirection direction, GstCaps* caps,
                               GstCaps* filter) {
  auto* self = GST_CUDA_GUIDED_MATTE(trans);
  const Settings s = gstvf::locked(self, self->settings);
  return gstvf::filter_caps(gstvf::guided_matte_caps(trans, direction, caps, s.caps(s.output)),
                            filter);
}

// Prefers the format that came in for a composite, over the order of the elements behind:
// videoconvert has an order of its own.
static GstCaps* fixate_caps(GstBaseTransform* trans, GstPadDirection direction, GstCaps* caps,
                            GstCaps* other) {
  auto* self = GST_CUDA_GUIDED_MATTE(trans);
  if (gstvf::locked(self, self->settings).output == vf::MatteOutput::composite &&
      direction == GST_PAD_SINK) {
    g_autoptr(GstCaps) taken = other;
    g_autoptr(GstCaps) own = transform_caps(trans, direction, caps, nullptr);
    other = gst_caps_intersect_full(own, taken, GST_CAPS_INTERSECT_FIRST);
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->fixate_caps(trans, direction, caps, other);
}

// Tells whether this build can find the masks of `source` on frames.
static bool can_be_there(MatteSource source) {
  return gstvf::kHasAnalytics ||
         (source != MatteSource::segmentation && source != MatteSource::tensor);
}

// Names the values of `mask` that frames without alpha can have.
constexpr const char* kMasksWithoutAlpha =
    gstvf::kHasAnalytics ? "chroma-key, segmentation or tensor" : "chroma-key";

static gboolean set_caps(GstBaseTransform* trans, GstCaps* incaps, GstCaps* outcaps) {
  auto* self = GST_CUDA_GUIDED_MATTE(trans);
  auto* filter = GST_CUDA_VIDEO_FILTER(trans);
  const Settings settings = gstvf::locked(self, self->settings);
  const char* format = gstvf::format_without_alpha(incaps);
  if (!can_be_there(settings.source)) {
    return gst_cuda_video_filter_refuse_caps(
        filter,
        gstvf::no_analytics(GST_ELEMENT(trans), "mask", "mask=segmentation and mask=tensor"));
  }
  if (format && settings.source == MatteSource::alpha) {
    gchar* text = g_strdup_printf(
        "mask=alpha needs frames with alpha, and the format %s has none. Put a mask into their "
        "alpha (alphacombine joins a video and its mask), or set mask=chroma-key to make one from "
        "their colours.",
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

// Refuses a mask that the current frames do not have.
static std::string refuse_mask(GObject* object, const GValue* value) {
  const auto source = MatteSource(g_value_get_enum(value));
  if (!can_be_there(source)) return gstvf::why_no_analytics(object);
  if (source != MatteSource::alpha) return {};
  const char* format = gstvf::format_without_alpha(GST_BASE_TRANSFORM_SINK_PAD(object));
  return format ? gstvf::printed("needs frames with alpha, and %s frames come in: it must be %s",
                                 format, kMasksWithoutAlpha)
                : std::string();
}

// Negotiates again, since other formats are preferred now.
static void mask_changed(GObject* object) {
  gst_base_transform_reconfigure_sink(GST_BASE_TRANSFORM(object));
  gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(object));
}

// Refuses an output with alpha if downstream takes none.
static std::string refuse_output(GObject* object, const GValue* value) {
  auto* self = GST_CUDA_GUIDED_MATTE(object);
  const auto output = vf::MatteOutput(g_value_get_enum(value));
  if (!gstvf::format_without_alpha(GST_BASE_TRANSFORM_SRC_PAD(object))) return {};
  return gstvf::why_no_caps(GST_BASE_TRANSFORM(object),
                            gstvf::locked(self, self->settings).caps(output));
}

// Negotiates again, unless frames have alpha on both sides.
static void output_changed(GObject* object) {
  if (gstvf::format_without_alpha(GST_BASE_TRANSFORM_SINK_PAD(object)) ||
      gstvf::format_without_alpha(GST_BASE_TRANSFORM_SRC_PAD(object)))
    gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(object));
}

static vf::Status make_plan(GstCudaVideoFilter* filter, vf::Queue& queue, const gstvf::Format& in,
                            const gstvf::Format& out, vf::Placement placement,
                            std::unique_ptr<vf::Plan>* plan) {
  auto* self = GST_CUDA_GUIDED_MATTE(filter);
  Settings s = gst_cuda_video_filter_is_off(filter) ? Settings::opaque()
                                                    : gstvf::locked(self, self->settings);
  s.mask = s.kind_of_mask();
  if (const int error = s.external() ? s.label_error() : 0)
    s.mask_error = std::max(s.edge_of(s.mask_error), error);
  // While the output has no alpha, it stays a composite, until new caps.
  const bool opaque = vf::matte_channels(out.layout, out.color).alpha.plane < 0;
  if (opaque) s.output = vf::MatteOutput::composite;
  vf::set_colors(in.layout, in.color, out.layout, out.color, s.key_argb, s.background_argb, &s);
  if (s.source == MatteSource::chroma_key && s.despill > 0 && s.output != vf::MatteOutput::matte &&
      !vf::key_has_hue(s) && self->warnings.allows("despill"))
    gstvf::post_setting_warning(GST_ELEMENT(self), "key-color",
                                "key-color is gray, so despill has no hue to remove.",
                                "any colour but gray, or despill=0");
  std::unique_ptr<vf::GuidedPlan> made;
  VF_TRY(vf::make_guided(queue, in.layout, vf::matte_channels(in.layout, in.color), out.layout,
                         vf::composite_channels(out.layout, out.color), s, placement, &made));
  // A controller may change settings for each frame, so the new plan keeps what the old one
  // remembers.
  if (*plan) made->take_over(static_cast<vf::GuidedPlan&>(**plan));
  *plan = std::move(made);
  return {};
}

// Reads the mask of the frame and gives it to the plan.
static vf::Status prepare_frame(GstCudaVideoFilter* filter, GstBuffer* in, gstvf::Rows rows,
                                vf::Plan& plan) {
  auto* self = GST_CUDA_GUIDED_MATTE(filter);
  if (gst_cuda_video_filter_is_off(filter)) {
    self->masks.use(gstvf::MaskMissing::opaque, self->format);
    return static_cast<vf::GuidedPlan&>(plan).set_mask(self->masks.mask(rows));
  }
  const Settings settings = gstvf::locked(self, self->settings);
  if (!settings.external()) return {};
  // Both fields belong to one buffer, so its mask is read once. Reading may run out of memory.
  const auto take = [&] {
    const GstSegment& segment = GST_BASE_TRANSFORM(filter)->segment;
    const GstClockTime time =
        segment.format == GST_FORMAT_TIME
            ? gst_segment_to_running_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(in))
            : GST_CLOCK_TIME_NONE;
    const std::string problem =
        self->masks.take(in, settings, settings.mask_error, self->format, time);
    if (!problem.empty() && self->warnings.allows(problem))
      GST_ELEMENT_WARNING_WITH_DETAILS(self, STREAM, FORMAT,
                                       ("A mask was ignored: %s.", problem.c_str()), (nullptr),
                                       ("reason", G_TYPE_STRING, "mask", nullptr));
    gstvf::FrameStats& stats = gst_cuda_video_filter_stats(filter);
    stats.mask_age = self->masks.age();
    if (!self->masks.found()) stats.masks_missing++;
    return vf::Status();
  };
  if (rows != gstvf::Rows::bottom_field) VF_TRY(vf::guarded(take));
  return static_cast<vf::GuidedPlan&>(plan).set_mask(self->masks.mask(rows));
}

// Without `temporal` the plan remembers nothing, and making a new one costs time.
static gboolean forgets_at_discont(GstCudaVideoFilter* filter) {
  auto* self = GST_CUDA_GUIDED_MATTE(filter);
  const Settings s = gstvf::locked(self, self->settings);
  return s.temporal > 0 && vf::refine_of(s.refine, s.kind_of_mask()) == vf::MatteRefine::colors;
}

static gboolean stop(GstBaseTransform* trans) {
  const gboolean stopped = GST_BASE_TRANSFORM_CLASS(parent_class)->stop(trans);
  GST_CUDA_GUIDED_MATTE(trans)->masks.forget();
  return stopped;
}

static void add_stats(GstCudaVideoFilter* filter, GstStructure* stats) {
  if (!GST_CUDA_GUIDED_MATTE(filter)->settings.external()) return;
  const gstvf::FrameStats& s = gst_cuda_video_filter_stats(filter);
  gst_structure_set(stats, "mask-age", G_TYPE_UINT64, s.mask_age.load(), "masks-missing",
                    G_TYPE_UINT64, s.masks_missing.load(), nullptr);
}

static void finalize(GObject* object) {
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
  gstvf::install_enabled(object_class);
  Settings::install(object_class,
                    [](GObject* object) { return &GST_CUDA_GUIDED_MATTE(object)->settings; },
                    {gstvf::kPlaying, refuse_mask, mask_changed},
                    {gstvf::kControllable, refuse_output, output_changed});

  gstvf::describe_filter(
      GST_ELEMENT_CLASS(klass), "CUDA guided matte",
      "Refines a matte along the picture's edges, on an NVIDIA GPU or on the CPU",
      gstvf::guided_matte_formats);
  trans_class->transform_caps = GST_DEBUG_FUNCPTR(transform_caps);
  trans_class->fixate_caps = GST_DEBUG_FUNCPTR(fixate_caps);
  trans_class->set_caps = GST_DEBUG_FUNCPTR(set_caps);
  trans_class->stop = GST_DEBUG_FUNCPTR(stop);
  object_class->finalize = finalize;
  klass->forget = [](GstCudaVideoFilter* filter) { GST_CUDA_GUIDED_MATTE(filter)->masks.forget(); };
  klass->add_stats = add_stats;
  klass->stateful = TRUE;
  klass->forgets_at_discont = forgets_at_discont;
  klass->make_plan = make_plan;
  klass->prepare_frame = prepare_frame;
}
