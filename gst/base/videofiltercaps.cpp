// Implements negotiation of the base class.
#include <utility>

#include "gst/base/allocation.h"
#include "gst/base/enabled.h"
#include "gst/base/packedframe.h"
#include "gst/base/properties.h"
#include "gst/base/videofilterprivate.h"

gboolean gst_cuda_video_filter_refuse_caps(GstCudaVideoFilter* self, gstvf::ErrorText error) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (priv->refused == error.text) {
    gstvf::clear_error(error);
  } else {
    priv->refused = error.text;
    if (!error.details) error.details = gstvf::reason_details("caps");
    gstvf::post_error(GST_ELEMENT(self), error);
  }
  return FALSE;
}

namespace gstvf {

bool describe(GstCudaVideoFilter* self, GstPadDirection direction, GstCaps* caps, Format* format) {
  return GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->describe(self, direction, caps, format);
}

bool is_identity(GstCudaVideoFilter* self) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  return priv->same_format && klass->is_identity && klass->is_identity(self, priv->in, priv->out);
}

// Posts a stream error about the caps of both pads. Takes the text.
static gboolean refuse_format(GstCudaVideoFilter* self, gchar* text, GstCaps* in, GstCaps* out) {
  gchar* debug = gst_info_strdup_printf("in %" GST_PTR_FORMAT ", out %" GST_PTR_FORMAT, in, out);
  return gst_cuda_video_filter_refuse_caps(
      self, {GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, text, debug});
}

// Returns how many frames may stay in flight with these caps. Tells the pipeline if the latency
// changes.
static size_t choose_depth(GstCudaVideoFilter* self, const Format& in, bool host_memory) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  const int fps_n = in.video ? in.video->fps_n : 0, fps_d = in.video ? in.video->fps_d : 1;
  // Nothing stays in flight in three cases. From CUDA memory to CUDA memory there are no copies to
  // overlap. Without a frame rate, the latency is unknown. A downstream element that pulls wants
  // the frame that it asked for.
  const bool may_wait = priv->frames.on_cuda() && host_memory && fps_n > 0 && fps_d > 0 &&
                        GST_PAD_MODE(GST_BASE_TRANSFORM_SRC_PAD(self)) != GST_PAD_MODE_PULL;
  const size_t depth = may_wait ? size_t(priv->started.async_depth) : 0;
  const GstClockTime latency =
      depth ? gst_util_uint64_scale_ceil(depth * GST_SECOND, fps_d, fps_n) : 0;
  const GstClockTime frame_time =
      fps_n > 0 && fps_d > 0 ? gst_util_uint64_scale_ceil(GST_SECOND, fps_d, fps_n) : 0;
  const GstClockTime waits = look_ahead_latency(self);
  const GstClockTime before = under_lock(self, [&] {
    priv->frame_time = frame_time;
    return std::exchange(priv->latency, latency);
  });
  if (latency != before || waits != look_ahead_latency(self))
    gst_element_post_message(GST_ELEMENT(self), gst_message_new_latency(GST_OBJECT(self)));
  return depth;
}

gboolean set_caps(GstBaseTransform* trans, GstCaps* incaps, GstCaps* outcaps) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (!priv->running) return FALSE;
  // Frames of the old caps leave before downstream gets the new ones.
  gst_cuda_video_filter_drain(self);
  priv->negotiated = false;
  Format in, out;
  if (!describe(self, GST_PAD_SINK, incaps, &in) || !describe(self, GST_PAD_SRC, outcaps, &out)) {
    return refuse_format(self, g_strdup("These caps cannot be filtered."), incaps, outcaps);
  }
  const bool interlaced = klass->interlace != GST_CUDA_VIDEO_FILTER_INTERLACE_REFUSE;
  const char* why = why_refused(in, interlaced);
  if (!why) why = why_refused(out, interlaced);
  if (why) {
    return refuse_format(self, g_strdup_printf("Cannot filter this video: %s.", why), incaps,
                         outcaps);
  }
  if (const vf::Status valid = vf::validate(in.layout); !valid.ok()) {
    return gst_cuda_video_filter_refuse_caps(self, error_text(GST_ELEMENT(self), valid));
  }
  priv->in = in;
  priv->out = out;
  priv->same_format = gst_caps_is_equal(incaps, outcaps);
  priv->cuda_caps = caps_in_cuda(outcaps);
  priv->negotiated = true;
  priv->passes_all = true;  // in passthrough, upstream asks downstream what it takes
  priv->asks_layout = true;
  priv->frames_behind = 0;
  priv->frames_asked = G_MAXUINT;
  PlanOptions options;
  options.fields = klass->interlace == GST_CUDA_VIDEO_FILTER_INTERLACE_FIELDS;
  options.stateful = klass->stateful;
  const bool host_memory = !caps_in_cuda(incaps) || !priv->cuda_caps;
  priv->frames.configure(in, out, options, choose_depth(self, in, host_memory));
  set_modes(self, is_identity(self),
            priv->same_format && !priv->cuda_caps && !priv->frames.on_cuda());
  if (priv->passes) priv->refused.clear();  // otherwise an allocation follows
  return TRUE;
}

// Returns the class that the base class derives from.
static GstBaseTransformClass* parent() {
  return GST_BASE_TRANSFORM_CLASS(g_type_class_peek(GST_TYPE_BASE_TRANSFORM));
}

// Allocation

int device_wanted(GstCudaVideoFilter* self) {
  return locked(self, self->priv->settings.device);
}

gboolean get_unit_size(GstBaseTransform* trans, GstCaps* caps, gsize* size) {
  Format format;
  GstVideoInfo info;
  // The caller does not say which pad the caps belong to. Video has the same size on both.
  if (gst_video_info_from_caps(&info, caps)) {
    *size = GST_VIDEO_INFO_SIZE(&info);
    return TRUE;
  }
  if (!describe(GST_CUDA_VIDEO_FILTER(trans), GST_PAD_SRC, caps, &format)) return FALSE;
  *size = format.size;
  return TRUE;
}

// Buffers may be padded, so the other pad's caps give the size, not that of the buffer.
gboolean transform_size(GstBaseTransform* trans, GstPadDirection, GstCaps*, gsize, GstCaps* other,
                        gsize* size) {
  return get_unit_size(trans, other, size);
}

static PoolNeeds pool_needs(GstCudaVideoFilter* self) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  return {GST_ELEMENT(self), priv->cuda, priv->frames.on_cuda(), priv->frames.depth()};
}

gboolean propose_allocation(GstBaseTransform* trans, GstQuery* decide_query, GstQuery* query) {
  if (!parent()->propose_allocation(trans, decide_query, query)) return FALSE;
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCaps* caps;
  gst_query_parse_allocation(query, &caps, nullptr);
  // In place and in passthrough, the answer comes from downstream.
  if (decide_query) {
    GstCudaVideoFilterPrivate* priv = self->priv;
    auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
    if (!propose_pool(pool_needs(self), query)) return FALSE;
    const bool passes_on =
        bypasses(self) || (priv->same_format && klass->changes_part && klass->changes_part(self));
    priv->frames_asked = passes_on ? priv->frames_behind : 0;
    add_frames(query, priv->frames_asked);
  }
  add_frames(query, frames_waiting(self, caps));
  return TRUE;
}

void pass_buffer_on(GstCudaVideoFilter* self) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (priv->frames_asked >= priv->frames_behind) return;
  priv->frames_asked = priv->frames_behind;
  gst_base_transform_reconfigure_sink(GST_BASE_TRANSFORM(self));
}

gboolean decide_allocation(GstBaseTransform* trans, GstQuery* query) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  self->priv->asks_layout = true;
  // Frames in flight use the stream, which may be replaced.
  if (self->priv->cuda_caps) gst_cuda_video_filter_drain(self);
  if (!decide_pool(pool_needs(self), self->priv->out, device_wanted(self), query) ||
      !parent()->decide_allocation(trans, query))
    return FALSE;
  self->priv->frames_behind = frames_behind(pool_needs(self), query);
  self->priv->refused.clear();
  return TRUE;
}

// Metas that describe the picture hold for the result and are copied. GstBaseTransform leaves out
// those that describe memory.

gboolean filter_meta(GstBaseTransform*, GstQuery*, GType, const GstStructure*) {
  return TRUE;
}

gboolean transform_meta(GstBaseTransform* trans, GstBuffer* outbuf, GstMeta* meta,
                        GstBuffer* inbuf) {
  GstCudaVideoFilterPrivate* priv = GST_CUDA_VIDEO_FILTER(trans)->priv;
  const Format &in = priv->in, &out = priv->out;
  if (!out.is_video() || in.width != out.width || in.height != out.height)
    return parent()->transform_meta(trans, outbuf, meta, inbuf);
  // A crop may name the part of a larger memory that is the frame. `outbuf` has only that part.
  return meta->info->api != GST_VIDEO_CROP_META_API_TYPE ||
         !is_part(gst_buffer_get_video_meta(inbuf), in.width, in.height);
}

}  // namespace gstvf
