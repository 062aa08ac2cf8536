/**
 * SECTION:element-cudaletterbox
 * @title: cudaletterbox
 *
 * Makes a network's input from video in one pass, on an NVIDIA GPU or on the CPU. It resizes frames
 * without distortion, pads them, converts colours, and writes a frame or a normalised tensor.
 * docs/feed-networks.md describes the caps of tensors, the metas and programs that use them.
 *
 * The caps behind the element set the output's size. Without a size there, the output has the
 * input's size, padded to the next multiple of #cudaletterbox:stride. The pixel-aspect-ratio counts
 * on both sides.
 *
 * Region-of-interest metas, crops, overlays and the results of detectors move with the picture. Other
 * metas that depend on the frame's size are scaled if there is no padding (always from GStreamer 1.28
 * on), and are dropped otherwise. A frame that passes through unchanged keeps the meta of an earlier
 * cudaletterbox.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! qtdemux ! h264parse ! nvh264dec ! \
 *     'video/x-raw(memory:CUDAMemory)' ! cudaletterbox ! \
 *     other/tensors,format=static,num_tensors=1,types=float32,dimensions=640:640:3:1 ! fakesink
 * ]| The decoder's frames in CUDA memory become a tensor.
 */
#include "filters/letterbox.h"
#include "gst/base/formatcaps.h"
#include "gst/letterbox/letterboxcaps.h"
#include "gst/letterbox/letterboxmeta.h"
#include "gst/letterbox/letterboxoriginal.h"
#include "gst/letterbox/letterboxsettings.h"

namespace {

// Holds where the picture goes, and the formats and settings that this was computed for.
struct Place {
  bool known = false;
  gstvf::Format in, out;
  vf::LetterboxParams params;
  vf::LetterboxGeometry geometry;
};

}  // namespace

typedef struct _GstCudaLetterbox {
  GstCudaVideoFilter parent;

  // These are under the object's lock.
  gstvf::LetterboxSettings settings;
  gstvf::LetterboxTarget target;  // target of the last caps from fixate_caps
  Place place;

  gstvf::OriginalKeeper originals;  // belongs to the streaming thread
} GstCudaLetterbox;
using GstCudaLetterboxClass = GstCudaVideoFilterClass;

#define GST_CUDA_LETTERBOX(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), gst_cuda_letterbox_get_type(), GstCudaLetterbox))

#define gst_cuda_letterbox_parent_class parent_class
G_DEFINE_TYPE(GstCudaLetterbox, gst_cuda_letterbox, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudaletterbox, "cudaletterbox", GST_RANK_NONE,
                            gst_cuda_letterbox_get_type())

static Place get_place(GstCudaLetterbox* self) {
  return gstvf::locked(self, self->place);
}

// Computes the geometry for these formats. Keeps the former one if that fails. Call it under the
// object's lock.
static vf::Status update_place(GstCudaLetterbox* self, const gstvf::Format& in,
                               const gstvf::Format& out) {
  Place place{true, in, out, self->settings, {}};
  const vf::Status status =
      gstvf::letterbox_place(in, out, self->target, &place.params, &place.geometry);
  if (status.ok()) self->place = place;
  return status;
}

// Computes the geometry again after a setting changed, before the plan is made.
static void geometry_changed(GObject* object) {
  auto* self = GST_CUDA_LETTERBOX(object);
  const gstvf::ObjectLock lock(self);
  if (self->place.known) static_cast<void>(update_place(self, self->place.in, self->place.out));
}

static void stride_changed(GObject* object) {
  geometry_changed(object);
  gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(object));
}

static vf::Status make_plan(GstCudaVideoFilter* filter, vf::Queue& queue, const gstvf::Format& in,
                            const gstvf::Format& out, vf::Placement,
                            std::unique_ptr<vf::Plan>* plan) {
  auto* self = GST_CUDA_LETTERBOX(filter);
  const Place place = get_place(self);
  // Uses the current settings, except those that the geometry was computed with.
  vf::ColorFormat to = out.color;
  vf::LetterboxParams params = gstvf::locked(self, self->settings).params(!out.is_video(), &to);
  params.rule = place.params.rule;
  params.align = place.params.align;
  params.scale_up = place.params.scale_up;
  params.stride = place.params.stride;
  params.pixel_aspect = place.params.pixel_aspect;
  return vf::make_letterbox(queue, in.layout, in.color, out.layout, to, place.geometry, params,
                            plan);
}

// Caps

static gboolean describe(GstCudaVideoFilter* filter, GstPadDirection direction, GstCaps* caps,
                         gstvf::Format* format) {
  if (gstvf::is_tensor(caps)) return gstvf::tensor_from_caps(caps, format);
  return GST_CUDA_VIDEO_FILTER_CLASS(parent_class)->describe(filter, direction, caps, format);
}

static gboolean set_caps(GstBaseTransform* trans, GstCaps* incaps, GstCaps* outcaps) {
  auto* self = GST_CUDA_LETTERBOX(trans);
  auto* filter = GST_CUDA_VIDEO_FILTER(trans);
  gstvf::Format in, out;
  // Frames of the old caps get their metas before the geometry changes.
  gst_cuda_video_filter_drain(filter);
  self->originals.close();
  // The base class refuses formats that it cannot describe.
  if (describe(filter, GST_PAD_SINK, incaps, &in) && in.is_video()) {
    const bool described = describe(filter, GST_PAD_SRC, outcaps, &out);
    const std::string why = gstvf::why_no_letterbox(outcaps, out, described);
    if (!why.empty()) {
      return gst_cuda_video_filter_refuse_caps(
          filter, {GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, g_strdup(why.c_str()),
                   gst_info_strdup_printf("caps %" GST_PTR_FORMAT, outcaps)});
    }
    const vf::Status status = gstvf::under_lock(self, [&] { return update_place(self, in, out); });
    if (!status.ok()) {
      return gst_cuda_video_filter_refuse_caps(filter,
                                               gstvf::error_text(GST_ELEMENT(self), status));
    }
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->set_caps(trans, incaps, outcaps);
}

static GstCaps* transform_caps(GstBaseTransform* trans, GstPadDirection direction, GstCaps* caps,
                               GstCaps* filter) {
  GstPad* other = direction == GST_PAD_SINK ? trans->srcpad : trans->sinkpad;
  g_autoptr(GstCaps) all = gst_pad_get_pad_template_caps(other);
  return gstvf::filter_caps(gstvf::letterbox_caps(caps, all), filter);
}

static GstCaps* fixate_caps(GstBaseTransform* trans, GstPadDirection direction, GstCaps* caps,
                            GstCaps* othercaps) {
  auto* self = GST_CUDA_LETTERBOX(trans);
  if (direction == GST_PAD_SRC) return gst_caps_fixate(gst_caps_truncate(othercaps));
  gstvf::LetterboxTarget target;
  GstCaps* fixed = gstvf::letterbox_fixate(
      caps, othercaps, gst_cuda_video_filter_is_on_cuda(GST_CUDA_VIDEO_FILTER(trans)),
      gstvf::locked(self, self->settings), &target);
  const gstvf::ObjectLock lock(self);
  self->target = target;
  return fixed;
}

// Metas and events

static gboolean copy_metadata(GstBaseTransform* trans, GstBuffer* inbuf, GstBuffer* outbuf) {
  auto* self = GST_CUDA_LETTERBOX(trans);
  if (!GST_BASE_TRANSFORM_CLASS(parent_class)->copy_metadata(trans, inbuf, outbuf)) return FALSE;
  GstBuffer* moved = nullptr;
  const bool keeps = gstvf::locked(self, self->settings.keep_original);
  if (keeps) moved = gstvf::copy_metas(outbuf);
  gstvf::set_letterbox_meta(outbuf, get_place(self).geometry);
  if (keeps) self->originals.attach(trans, inbuf, outbuf, moved);
  return TRUE;
}

// Adds the meta to frames that pass through, too, unless they have that of an earlier letterbox,
// which still holds.
static GstFlowReturn prepare_output_buffer(GstBaseTransform* trans, GstBuffer* inbuf,
                                           GstBuffer** outbuf) {
  const GstFlowReturn flow =
      GST_BASE_TRANSFORM_CLASS(parent_class)->prepare_output_buffer(trans, inbuf, outbuf);
  if (flow != GST_FLOW_OK || *outbuf != inbuf ||
      !gst_cuda_video_filter_passes(GST_CUDA_VIDEO_FILTER(trans)))
    return flow;
  auto* self = GST_CUDA_LETTERBOX(trans);
  if (gstvf::locked(self, self->settings.keep_original)) {
    *outbuf = self->originals.pass(trans, inbuf, get_place(self).geometry);
    return flow;
  }
  if (gst_buffer_get_custom_meta(inbuf, GST_CUDA_LETTERBOX_META_NAME)) return flow;
  // The copy shares the memory.
  if (!gst_buffer_is_writable(inbuf)) *outbuf = gst_buffer_copy(inbuf);
  gstvf::set_letterbox_meta(*outbuf, get_place(self).geometry);
  return flow;
}

// The meta comes after the tensor is written, since it shares the tensor's memory.
static void finish_frame(GstCudaVideoFilter* filter, GstBuffer* outbuf) {
  const gstvf::Format out = get_place(GST_CUDA_LETTERBOX(filter)).out;
  if (!out.is_video()) gstvf::describe_tensor(outbuf, out);
}

static gboolean transform_meta(GstBaseTransform* trans, GstBuffer* outbuf, GstMeta* meta,
                               GstBuffer* inbuf) {
  const Place place = get_place(GST_CUDA_LETTERBOX(trans));
  const auto copies = gstvf::move_meta(meta, inbuf, outbuf, place.out.is_video(), place.geometry);
  return copies
             ? *copies
             : GST_BASE_TRANSFORM_CLASS(parent_class)->transform_meta(trans, outbuf, meta, inbuf);
}

static gboolean src_event(GstBaseTransform* trans, GstEvent* event) {
  if (GST_EVENT_TYPE(event) == GST_EVENT_NAVIGATION) {
    const Place place = get_place(GST_CUDA_LETTERBOX(trans));
    gdouble x, y;
    event = gst_event_make_writable(event);
    if (place.known && gst_navigation_event_get_coordinates(event, &x, &y)) {
      place.geometry.to_source(x, y, &x, &y);
      gst_navigation_event_set_coordinates(event, x, y);
    }
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->src_event(trans, event);
}

static gboolean sink_event(GstBaseTransform* trans, GstEvent* event) {
  auto* self = GST_CUDA_LETTERBOX(trans);
  const GstEventType type = GST_EVENT_TYPE(event);
  // The list ends before a restorer behind sees the event.
  if (type == GST_EVENT_FLUSH_STOP)
    self->originals.drop();
  else if (type == GST_EVENT_STREAM_START || type == GST_EVENT_SEGMENT || type == GST_EVENT_EOS)
    self->originals.close();
  return GST_BASE_TRANSFORM_CLASS(parent_class)->sink_event(trans, event);
}

static gboolean stop(GstBaseTransform* trans) {
  // The base class has waited for queries that were being answered.
  const gboolean stopped = GST_BASE_TRANSFORM_CLASS(parent_class)->stop(trans);
  GST_CUDA_LETTERBOX(trans)->originals.drop();
  return stopped;
}

// Class

static void gst_cuda_letterbox_init(GstCudaLetterbox* self) {
  self->settings = gstvf::LetterboxSettings();
  self->target = gstvf::LetterboxTarget();
  self->place = Place();
}

static void gst_cuda_letterbox_class_init(GstCudaLetterboxClass* klass) {
  auto* element_class = GST_ELEMENT_CLASS(klass);
  auto* trans_class = GST_BASE_TRANSFORM_CLASS(klass);

  gstvf::LetterboxSettings::install(
      G_OBJECT_CLASS(klass), [](GObject* object) { return &GST_CUDA_LETTERBOX(object)->settings; },
      geometry_changed, stride_changed);
  gstvf::set_metadata(
      element_class, "CUDA letterbox", gstvf::letterbox_class(),
      "Resizes video without distortion, pads it, and converts it to network input, on an NVIDIA "
      "GPU or on the CPU");
  gstvf::add_templates(element_class, gst_cuda_video_filter_caps(nullptr),
                       gstvf::letterbox_source_caps());

  trans_class->transform_caps = GST_DEBUG_FUNCPTR(transform_caps);
  trans_class->fixate_caps = GST_DEBUG_FUNCPTR(fixate_caps);
  trans_class->set_caps = GST_DEBUG_FUNCPTR(set_caps);
  trans_class->copy_metadata = GST_DEBUG_FUNCPTR(copy_metadata);
  trans_class->prepare_output_buffer = GST_DEBUG_FUNCPTR(prepare_output_buffer);
  trans_class->transform_meta = GST_DEBUG_FUNCPTR(transform_meta);
  trans_class->src_event = GST_DEBUG_FUNCPTR(src_event);
  trans_class->sink_event = GST_DEBUG_FUNCPTR(sink_event);
  trans_class->stop = GST_DEBUG_FUNCPTR(stop);
  klass->describe = describe;
  // If the size does not change, the caps do not change at all.
  klass->is_identity = [](GstCudaVideoFilter*, const gstvf::Format&,
                          const gstvf::Format&) -> gboolean { return TRUE; };
  klass->make_plan = make_plan;
  klass->finish_frame = finish_frame;
  klass->interlace = GST_CUDA_VIDEO_FILTER_INTERLACE_REFUSE;

  gstvf::register_letterbox_meta();
}
