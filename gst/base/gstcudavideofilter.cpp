#include "gst/base/gstcudavideofilter.h"

#include <new>

#include "filters/make.h"
#include "gst/base/allocation.h"
#include "gst/base/analytics.h"
#include "gst/base/enabled.h"
#include "gst/base/errors.h"
#include "gst/base/packedframe.h"
#include "gst/base/properties.h"
#include "gst/base/videofilterprivate.h"

GST_DEBUG_CATEGORY(gst_cuda_video_filter_debug);
#define GST_CAT_DEFAULT gst_cuda_video_filter_debug

using gstvf::caps_in_cuda;
using gstvf::Format;
using gstvf::InFlight;
using gstvf::Rows;
using vf::Code;
using vf::Placement;
using vf::Status;

#define gst_cuda_video_filter_parent_class parent_class
G_DEFINE_ABSTRACT_TYPE_WITH_CODE(GstCudaVideoFilter, gst_cuda_video_filter, GST_TYPE_BASE_TRANSFORM,
                                 G_ADD_PRIVATE(GstCudaVideoFilter);
                                 G_IMPLEMENT_INTERFACE(GST_TYPE_PRESET, gstvf::init_presets);
                                 GST_DEBUG_CATEGORY_INIT(gst_cuda_video_filter_debug,
                                                         "cudavideofilter", 0,
                                                         "base class of the CUDA video filters"))

// Plans

Status _GstCudaVideoFilterPrivate::make_plan(vf::Queue& queue, const Format& src, const Format& dst,
                                             Placement placement, std::unique_ptr<vf::Plan>* plan) {
  GST_DEBUG_OBJECT(self, "making a plan for %dx%d", src.layout.plane[0].width,
                   src.layout.plane[0].height);
  return GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->make_plan(self, queue, src, dst, placement, plan);
}

Status _GstCudaVideoFilterPrivate::prepare_frame(GstBuffer* buffer, Rows rows, vf::Plan& plan) {
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  return klass->prepare_frame ? klass->prepare_frame(self, buffer, rows, plan) : Status();
}

Status _GstCudaVideoFilterPrivate::set_later(vf::Plan& plan, const vf::Image* frames, int count) {
  return GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->set_later(self, plan, frames, count);
}

void gstvf::forget_frames(GstCudaVideoFilter* self) {
  if (GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->stateful) self->priv->frames.drop_plans();
}

void gstvf::restart_frames(GstCudaVideoFilter* self) {
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  forget_frames(self);
  if (klass->forget) klass->forget(self);
}

// Start and stop

// Holds the lock under which a pad takes buffers, and serialized events and queries.
class StreamLock : vf::NoCopy {
 public:
  explicit StreamLock(GstPad* pad) : pad_(pad) { GST_PAD_STREAM_LOCK(pad_); }
  ~StreamLock() { GST_PAD_STREAM_UNLOCK(pad_); }

 private:
  GstPad* const pad_;
};

static void use_cpu_instead(GstCudaVideoFilter* self, const Status& why) {
  self->priv->frames.use(vf::Backend::cpu);
  gstvf::keep_backend(self, false);
  gstvf::post_backend(self, g_strdup_printf("Filtering on the CPU: %s.", why.message()));
}

// The properties that the element read at the start may change again.
static void end_settings(GstCudaVideoFilter* self) {
  const gstvf::ObjectLock lock(self);
  self->priv->uses_start_settings = false;
  self->priv->live.clear();
}

static gboolean start(GstBaseTransform* trans) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  // Pads take frames before the element has started. The lock makes these wait; later they are
  // refused.
  const StreamLock lock(GST_BASE_TRANSFORM_SINK_PAD(trans));
  GST_OBJECT_LOCK(self);
  priv->started = priv->settings;
  priv->uses_start_settings = true;
  priv->latency = priv->frame_time = 0;
  priv->live.clear();
  GST_OBJECT_UNLOCK(self);
  priv->negotiated = false;
  priv->after_drop = false;
  priv->proven = false;
  priv->says_modes = true;
  priv->refused.clear();
  priv->off = !priv->enabled;
  priv->stats.reset();
  bool says = true;
  if (priv->started.backend != GST_CUDA_VIDEO_FILTER_BACKEND_CPU) {
    const Status status = gstvf::open_cuda(priv->cuda, priv->frames, priv->started.device);
    if (!status.ok() && priv->started.backend == GST_CUDA_VIDEO_FILTER_BACKEND_CUDA) {
      end_settings(self);
      gstvf::post_error(GST_ELEMENT(self), status);
      return FALSE;
    }
    says = status.ok();
    if (!says) use_cpu_instead(self, status);
  }
  if (says) gstvf::keep_backend(self, true);
  priv->running = true;
  return TRUE;
}

static gboolean stop(GstBaseTransform* trans) {
  GstCudaVideoFilterPrivate* priv = GST_CUDA_VIDEO_FILTER(trans)->priv;
  // Flushing pads let serialized queries through. The locks wait until such a query is answered,
  // and until a frame that downstream has pulled is done.
  {
    const StreamLock lock(GST_BASE_TRANSFORM_SINK_PAD(trans));
    priv->running = false;
    gstvf::clear_waiting(GST_CUDA_VIDEO_FILTER(trans));
  }
  { const StreamLock lock(GST_BASE_TRANSFORM_SRC_PAD(trans)); }
  priv->frames.use(vf::Backend::cpu);
  priv->cuda.clear();
  priv->negotiated = false;
  end_settings(GST_CUDA_VIDEO_FILTER(trans));
  return TRUE;
}

// Frames in flight

static GstFlowReturn fail(GstCudaVideoFilter* self, const Status& status) {
  gstvf::post_error(GST_ELEMENT(self), status);
  self->priv->frames.close();
  return GST_FLOW_ERROR;
}

// Calls the element's finish_frame for a filtered frame that nobody else holds.
static void finish_frame(GstCudaVideoFilter* self, GstBuffer* out) {
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  if (klass->finish_frame) klass->finish_frame(self, out);
}

// Takes the oldest frame in flight and completes it. Returns its result as a full reference.
static GstFlowReturn complete_frame(GstCudaVideoFilter* self, GstBuffer** out) {
  const Status status = self->priv->frames.complete(out);
  return status.ok() ? GST_FLOW_OK : fail(self, status);
}

GstFlowReturn gst_cuda_video_filter_drain(GstCudaVideoFilter* self) {
  InFlight& frames = self->priv->frames;
  GstFlowReturn flow = GST_FLOW_OK;
  while (flow == GST_FLOW_OK && frames.count()) {
    GstBuffer* out = nullptr;
    flow = complete_frame(self, &out);
    if (flow != GST_FLOW_OK) break;
    finish_frame(self, out);
    flow = gst_pad_push(GST_BASE_TRANSFORM_SRC_PAD(self), out);
  }
  frames.discard();
  return flow;
}

// Pushes a frame that GstBaseTransform knows nothing of.
static GstFlowReturn push_frame(GstCudaVideoFilter* self, GstBuffer* out) {
  auto* trans = GST_BASE_TRANSFORM(self);
  if (trans->segment.format == GST_FORMAT_TIME && GST_BUFFER_PTS_IS_VALID(out))
    trans->segment.position = GST_BUFFER_PTS(out);
  return gst_pad_push(GST_BASE_TRANSFORM_SRC_PAD(self), out);
}

// Pushes the frames that have waited long enough, or with `all` whatever waits and is in flight.
static GstFlowReturn push_waiting(GstCudaVideoFilter* self, bool all) {
  gstvf::WaitingFrames& w = self->priv->waiting;
  GstFlowReturn flow = GST_FLOW_OK;
  w.drains = all;
  while (flow == GST_FLOW_OK && !w.items.empty()) {
    GstBuffer* out = nullptr;
    flow = GST_BASE_TRANSFORM_GET_CLASS(self)->generate_output(GST_BASE_TRANSFORM(self), &out);
    if (flow == GST_FLOW_OK && !out) break;
    if (out) flow = push_frame(self, out);
  }
  w.drains = false;
  return all && flow == GST_FLOW_OK ? gst_cuda_video_filter_drain(self) : flow;
}

// Submits a frame. Changes to the CPU backend if CUDA does not support it and backend=auto allows
// that.
static GstFlowReturn submit_frame(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (!priv->negotiated) {
    GST_ELEMENT_ERROR_WITH_DETAILS(self, CORE, NEGOTIATION, (nullptr),
                                   ("a buffer came before caps"),
                                   ("reason", G_TYPE_STRING, "caps", nullptr));
    return GST_FLOW_NOT_NEGOTIATED;
  }
  const auto submit = [&] {
    const Status status = gstvf::settle_settings(self, in, out);
    if (!status.ok()) return status;
    return vf::guarded([&] { return priv->frames.submit(in, out, gstvf::later_frames(self)); });
  };
  Status status = submit();
  if (status.code() == Code::unsupported && priv->frames.on_cuda() &&
      priv->started.backend == GST_CUDA_VIDEO_FILTER_BACKEND_AUTO) {
    const GstFlowReturn flow = gst_cuda_video_filter_drain(self);
    use_cpu_instead(self, status);
    if (flow != GST_FLOW_OK) return flow;
    status = submit();
  }
  if (!status.ok()) return fail(self, status);
  gstvf::settings_hold(self);
  return GST_FLOW_OK;
}

// Filters a frame and waits for it.
static GstFlowReturn filter_frame(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out) {
  GstFlowReturn flow = submit_frame(self, in, out);
  GstBuffer* done = nullptr;
  if (flow == GST_FLOW_OK) flow = complete_frame(self, &done);
  gst_clear_buffer(&done);  // the caller has `out`
  if (flow == GST_FLOW_OK) finish_frame(self, out);
  return flow;
}

// Contexts and queries

// Changes to the context of the incoming memory, unless the user asked for another device. Then the
// memory is filtered through a copy on the host.
static void adopt_context(GstCudaVideoFilter* self, GstBuffer* buffer) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  // The CPU backend needs a context as well if its output is CUDA memory.
  if (!priv->frames.on_cuda() && !priv->cuda_caps) return;
  GstMemory* memory = gstvf::cuda_memory(buffer);
  if (!memory) return;
  GstCudaContext* context = gstvf::memory_context(memory);
  if (context == priv->cuda.get()) return;
  const int device = gstvf::device_wanted(self);
  if (device >= 0 && guint(device) != gstvf::context_device(context)) return;
  GST_INFO_OBJECT(self, "following the frames to %" GST_PTR_FORMAT, context);
  gst_cuda_video_filter_drain(self);
  priv->frames.close();
  priv->cuda.adopt(context);
  gstvf::keep_backend(self, false);
  // Downstream's pool may belong to the old context.
  gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(self));
}

static void set_context(GstElement* element, GstContext* message) {
  auto* self = GST_CUDA_VIDEO_FILTER(element);
  self->priv->cuda.set_context(message, gstvf::device_wanted(self));
  GST_ELEMENT_CLASS(parent_class)->set_context(element, message);
}

static gboolean query(GstBaseTransform* trans, GstPadDirection direction, GstQuery* query) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  if (GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT && self->priv->cuda.answer(query)) return TRUE;
  if (direction == GST_PAD_SINK && GST_QUERY_IS_SERIALIZED(query)) {
    // GstBaseTransform would keep its pool, and with it the context, after stop().
    if (!self->priv->running) return FALSE;
    // The answer is meant for a stream without the frames that are still here.
    push_waiting(self, true);
    gstvf::keep_modes(self);
  }
  if (!GST_BASE_TRANSFORM_CLASS(parent_class)->query(trans, direction, query)) return FALSE;
  if (direction == GST_PAD_SRC && GST_QUERY_TYPE(query) == GST_QUERY_LATENCY) {
    gboolean live;
    GstClockTime min, max;
    gst_query_parse_latency(query, &live, &min, &max);
    const GstClockTime latency =
        gstvf::locked(self, self->priv->latency) + gstvf::look_ahead_latency(self);
    // The frames held here also add to the room for upstream's frames.
    gst_query_set_latency(query, live, min + latency,
                          GST_CLOCK_TIME_IS_VALID(max) ? max + latency : max);
  }
  return TRUE;
}

// Buffers

// Tells whether a frame of CUDA memory is filtered in place.
static bool filters_in_place(GstCudaVideoFilter* self, GstBuffer* buffer) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  if (!priv->frames.on_cuda() || !priv->cuda_caps || !priv->same_format || !klass->changes_part ||
      priv->passes || gstvf::bypasses(self) || !klass->changes_part(self))
    return false;
  GstMemory* memory = gstvf::cuda_memory(buffer);
  return memory && gstvf::memory_context(memory) == priv->cuda.get() &&
         gst_buffer_is_writable(buffer) && gst_buffer_is_all_memory_writable(buffer) &&
         // Downstream would not know of the larger memory around the frame.
         !gstvf::is_part(gst_buffer_get_video_meta(buffer), priv->in.width, priv->in.height);
}

static GstFlowReturn prepare_output_buffer(GstBaseTransform* trans, GstBuffer* in,
                                           GstBuffer** out) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (gstvf::bypasses(self)) {
    const Status status = gstvf::bypass(self, in, out);
    return status.ok() ? GST_FLOW_OK : fail(self, status);
  }
  if (filters_in_place(self, in) || (priv->passes && priv->passes_all)) {
    gstvf::pass_buffer_on(self);
    *out = in;
    return GST_FLOW_OK;
  }
  if (priv->passes) {
    const Status status = gstvf::pack_frame(*priv->in.video, in, out);
    return status.ok() ? GST_FLOW_OK : fail(self, status);
  }
  GstFlowReturn flow;
  do {
    // An application may change the modes at any time; then GstBaseTransform returns the input.
    gstvf::keep_modes(self);
    flow = GST_BASE_TRANSFORM_CLASS(parent_class)->prepare_output_buffer(trans, in, out);
  } while (flow == GST_FLOW_OK && *out == in && !(priv->in_place && gst_buffer_is_writable(in)));
  // GstBaseTransform posts no message itself.
  if (flow == GST_FLOW_ERROR) {
    gstvf::post_error(
        GST_ELEMENT(self),
        Status::error(Code::out_of_memory, "there is no buffer for a frame in %s memory",
                      priv->cuda_caps ? "CUDA" : "system"));
  }
  // If others hold the frame too, its copy is filtered in place.
  if (flow == GST_FLOW_OK && *out) gstvf::keep_tensors(in, *out);
  return flow;
}

// Hands a frame to GstBaseTransform, which keeps it for generate_output() or drops it.
static GstFlowReturn submit_input(GstBaseTransform* trans, gboolean is_discont, GstBuffer* in) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  if (GST_BUFFER_IS_DISCONT(in)) {
    // Otherwise GstBaseTransform would mark the oldest frame in flight as DISCONT.
    if (const GstFlowReturn flow = gst_cuda_video_filter_drain(self); flow != GST_FLOW_OK) {
      gst_buffer_unref(in);
      return flow;
    }
    auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
    if (klass->forgets_at_discont && klass->forgets_at_discont(self)) gstvf::forget_frames(self);
  }
  const GstFlowReturn flow =
      GST_BASE_TRANSFORM_CLASS(parent_class)->submit_input_buffer(trans, is_discont, in);
  if (flow == GST_BASE_TRANSFORM_FLOW_DROPPED) {
    self->priv->after_drop = true;
    // GstBaseTransform marks the next frame as DISCONT.
    self->priv->waiting.discont_waits = false;
    self->priv->stats.dropped++;
  }
  return flow;
}

static GstFlowReturn submit_input_buffer(GstBaseTransform* trans, gboolean is_discont,
                                         GstBuffer* in) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  if (!self->priv->running) {
    gst_buffer_unref(in);
    return GST_FLOW_FLUSHING;
  }
  bool waits = false;
  const Status status = gstvf::keep_waiting(self, in, &waits);
  if (!status.ok()) {
    gst_buffer_unref(in);
    return fail(self, status);
  }
  return waits ? GST_FLOW_OK : submit_input(trans, is_discont, in);
}

// Takes a frame, and gives the one to be pushed for it at once, if there is one.
static GstFlowReturn take_frame(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer** out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  auto* trans = GST_BASE_TRANSFORM(self);
  GstBuffer* result = nullptr;
  const bool bypasses = gstvf::bypasses(self);
  GstFlowReturn flow =
      GST_BASE_TRANSFORM_GET_CLASS(trans)->prepare_output_buffer(trans, in, &result);
  if (flow == GST_FLOW_OK && result) {
    if (bypasses) {
      priv->proven = true;
    } else if (priv->passes) {
      gstvf::settings_hold(self);
    } else if (priv->frames.depth()) {
      if (priv->after_drop) GST_BUFFER_FLAG_SET(result, GST_BUFFER_FLAG_DISCONT);
      priv->after_drop = false;
      // The frame in flight holds its own references.
      flow = submit_frame(self, in, result);
      gst_clear_buffer(&result);
    } else {
      flow = filter_frame(self, priv->in_place ? result : in, result);
    }
  }
  if (result != in) gst_buffer_unref(in);
  if (flow == GST_FLOW_OK)
    *out = result;
  else
    gst_clear_buffer(&result);
  if (flow == GST_FLOW_OK) gstvf::count_frame(self, bypasses || priv->passes);
  return flow;
}

// Lets controllers, contexts and settings follow a frame that is about to be filtered.
static void follow_frame(GstCudaVideoFilter* self, GstBuffer* buffer) {
  gstvf::sync_controllers(self, buffer);
  if (!self->priv->negotiated) return;
  gstvf::keep_modes(self);
  adopt_context(self, buffer);
  gstvf::follow_settings(self, buffer);
}

static void before_transform(GstBaseTransform* trans, GstBuffer* buffer) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  // A frame that waits is followed when it leaves.
  if (!gstvf::decide_waiting(self)) follow_frame(self, buffer);
}

// Submits the next frame that has waited long enough. Returns false if there is none, or after an
// error.
static bool submit_waiting(GstCudaVideoFilter* self, GstFlowReturn* flow) {
  auto* trans = GST_BASE_TRANSFORM(self);
  while (*flow == GST_FLOW_OK) {
    GstMiniObject* next = gstvf::next_to_leave(self);
    if (!next) return false;
    if (GST_IS_EVENT(next)) {
      *flow = gst_cuda_video_filter_drain(self);
      GST_BASE_TRANSFORM_CLASS(parent_class)->sink_event(trans, GST_EVENT_CAST(next));
      continue;
    }
    auto* in = GST_BUFFER_CAST(next);
    follow_frame(self, in);
    const Status status = gstvf::leave(self);
    if (status.ok()) {
      *flow = submit_input(trans, GST_BUFFER_IS_DISCONT(in), in);
    } else {
      gst_buffer_unref(in);
      *flow = fail(self, status);
    }
    if (*flow == GST_FLOW_OK) return true;
    if (*flow == GST_BASE_TRANSFORM_FLOW_DROPPED) *flow = GST_FLOW_OK;
  }
  return false;
}

// Gives the next frame that is done, if there is one.
static GstFlowReturn next_output(GstCudaVideoFilter* self, GstBuffer** out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  auto* trans = GST_BASE_TRANSFORM(self);
  GstFlowReturn flow = GST_FLOW_OK;
  do {
    GstBuffer* in = trans->queued_buf;
    trans->queued_buf = nullptr;
    if (in) {
      flow = take_frame(self, in, out);
      if (flow != GST_FLOW_OK || *out) return flow;
    }
    if (priv->frames.count() > priv->frames.depth()) {
      flow = complete_frame(self, out);
      if (flow == GST_FLOW_OK) finish_frame(self, *out);
      return flow;
    }
  } while (submit_waiting(self, &flow));
  return flow;
}

// GstBaseTransform pushes the result and calls again, until there is none.
static GstFlowReturn generate_output(GstBaseTransform* trans, GstBuffer** out) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  gstvf::WaitingFrames& w = self->priv->waiting;
  for (;;) {
    *out = nullptr;
    const GstFlowReturn flow = next_output(self, out);
    if (flow == GST_FLOW_OK && *out && GST_BUFFER_IS_DISCONT(*out)) w.discont_waits = false;
    if (flow != GST_FLOW_OK || !*out || !w.discont_waits) return flow;
    // GstBaseTransform would mark this frame, in place of the one that still waits.
    if (const GstFlowReturn pushed = push_frame(self, *out); pushed != GST_FLOW_OK) {
      *out = nullptr;
      return pushed;
    }
  }
}

static gboolean sink_event(GstBaseTransform* trans, GstEvent* event) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GList* sticky = nullptr;
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP) {
    self->priv->frames.discard();
    sticky = gstvf::drop_waiting(self);
    gstvf::restart_frames(self);
  } else if (gstvf::keep_event(self, event)) {
    return push_waiting(self, false) == GST_FLOW_OK;
  } else if (GST_EVENT_IS_SERIALIZED(event)) {
    // The event stays behind the frames that came before it.
    push_waiting(self, true);
  }
  // This is the last chance to report an error.
  if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
    if (const Status status = self->priv->frames.settle(); !status.ok()) fail(self, status);
  const gboolean taken = GST_BASE_TRANSFORM_CLASS(parent_class)->sink_event(trans, event);
  for (; sticky; sticky = g_list_delete_link(sticky, sticky))
    GST_BASE_TRANSFORM_CLASS(parent_class)->sink_event(trans, GST_EVENT_CAST(sticky->data));
  return taken;
}

// Class

static void finalize(GObject* object) {
  auto* self = GST_CUDA_VIDEO_FILTER(object);
  self->priv->~_GstCudaVideoFilterPrivate();
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_video_filter_init(GstCudaVideoFilter* self) {
  self->priv =
      new (gst_cuda_video_filter_get_instance_private(self)) GstCudaVideoFilterPrivate(self);
  gst_base_transform_set_qos_enabled(GST_BASE_TRANSFORM(self), TRUE);
}

static void gst_cuda_video_filter_class_init(GstCudaVideoFilterClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* element_class = GST_ELEMENT_CLASS(klass);
  auto* trans_class = GST_BASE_TRANSFORM_CLASS(klass);

  object_class->finalize = finalize;
  element_class->set_context = GST_DEBUG_FUNCPTR(set_context);

  gstvf::BackendSettings::install(
      object_class, [](GObject* object) { return &GST_CUDA_VIDEO_FILTER(object)->priv->settings; });
  gstvf::install_stats(object_class);

  trans_class->passthrough_on_same_caps = FALSE;
  trans_class->transform_ip_on_passthrough = FALSE;
  trans_class->start = GST_DEBUG_FUNCPTR(start);
  trans_class->stop = GST_DEBUG_FUNCPTR(stop);
  trans_class->query = GST_DEBUG_FUNCPTR(query);
  trans_class->set_caps = GST_DEBUG_FUNCPTR(gstvf::set_caps);
  trans_class->get_unit_size = GST_DEBUG_FUNCPTR(gstvf::get_unit_size);
  trans_class->transform_size = GST_DEBUG_FUNCPTR(gstvf::transform_size);
  trans_class->propose_allocation = GST_DEBUG_FUNCPTR(gstvf::propose_allocation);
  trans_class->decide_allocation = GST_DEBUG_FUNCPTR(gstvf::decide_allocation);
  trans_class->filter_meta = GST_DEBUG_FUNCPTR(gstvf::filter_meta);
  trans_class->transform_meta = GST_DEBUG_FUNCPTR(gstvf::transform_meta);
  trans_class->prepare_output_buffer = GST_DEBUG_FUNCPTR(prepare_output_buffer);
  trans_class->before_transform = GST_DEBUG_FUNCPTR(before_transform);
  trans_class->sink_event = GST_DEBUG_FUNCPTR(sink_event);
  trans_class->submit_input_buffer = GST_DEBUG_FUNCPTR(submit_input_buffer);
  trans_class->generate_output = GST_DEBUG_FUNCPTR(generate_output);
  // GstBaseTransform needs these functions, but never calls them here.
  trans_class->transform = [](GstBaseTransform*, GstBuffer*, GstBuffer*) {
    return GST_FLOW_NOT_SUPPORTED;
  };
  trans_class->transform_ip = [](GstBaseTransform*, GstBuffer*) { return GST_FLOW_NOT_SUPPORTED; };

  klass->interlace = GST_CUDA_VIDEO_FILTER_INTERLACE_FIELDS;
  klass->describe = [](GstCudaVideoFilter*, GstPadDirection, GstCaps* caps,
                       Format* format) -> gboolean {
    return gstvf::format_from_caps(caps, format);
  };

  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_VIDEO_FILTER, GstPluginAPIFlags(0));
}
