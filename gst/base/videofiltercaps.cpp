// Implements negotiation of the base class.
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
  GST_OBJECT_LOCK(self);
  const bool changed = latency != priv->latency;
  priv->latency = latency;
  GST_OBJECT_UNLOCK(self);
  if (changed)
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

}  // namespace gstvf
