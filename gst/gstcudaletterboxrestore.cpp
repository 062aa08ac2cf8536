/**
 * SECTION:element-cudaletterboxrestore
 * @title: cudaletterboxrestore
 *
 * Restores the original frames behind a network: the buffers that a #cudaletterbox with
 * keep-original=true received, with the network's results. docs/feed-networks.md shows its use, and
 * docs/design.md how originals travel.
 *
 * Metas of the letterboxed frame move to their place in the original, and positions are rounded to
 * the nearest pixel. The original keeps its metas, and gets the parameters and relations that other
 * elements added to their copies. Tensors that a network left on frames are copied unchanged, with the
 * GstCudaLetterboxMeta that says where they belong, for #cudaguidedmatte:mask = tensor.
 *
 * An output frame has the times of the frame that came in, if that has any. A buffer without an
 * original or without GstCudaLetterboxMeta is an error. With #cudaletterboxrestore:dropped = restore,
 * a letterbox can have only one such element behind it. The element adds no latency.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! decodebin ! videoconvert ! \
 *     cudaletterbox keep-original=true ! \
 *     video/x-raw,format=RGB,width=640,height=640,pixel-aspect-ratio=1/1 ! \
 *     onnxinference model-file=network.onnx ! tensordecodebin ! cudaletterboxrestore ! \
 *     objectdetectionoverlay ! videoconvert ! autovideosink
 * ]| The boxes of a detector of GStreamer 1.28 are drawn on the frames of the clip.
 */
#include "gst/base/formatcaps.h"
#include "gst/base/heldevents.h"
#include "gst/base/packedframe.h"
#include "gst/base/properties.h"
#include "gst/letterbox/letterboxoriginal.h"
#include "gst/letterbox/restoredframe.h"

GST_DEBUG_CATEGORY_STATIC(gst_cuda_letterbox_restore_debug);
#define GST_CAT_DEFAULT gst_cuda_letterbox_restore_debug

namespace {

enum class Dropped { drop, restore };

struct Settings {
  static constexpr vf::Limits<guint> kMax{0, G_MAXUINT};
  Dropped dropped = Dropped::drop;
  guint maximum = 64;
};

}  // namespace

G_DECLARE_FINAL_TYPE(GstCudaLetterboxRestore, gst_cuda_letterbox_restore, GST,
                     CUDA_LETTERBOX_RESTORE, GstElement)
struct _GstCudaLetterboxRestore {
  GstElement parent;
  GstPad *sinkpad, *srcpad;

  // These are under the object's lock.
  Settings settings;
  gboolean placed;  // `geometry` is that of the last frame
  vf::LetterboxGeometry geometry;

  // These are under the sink pad's stream lock.
  GstVideoInfo frame_info;  // incoming frames; without a format if they are tensors
  GstCaps* caps;            // outgoing caps; null before the first frame
  GstVideoInfo info;        // outgoing frames
  gboolean any_layout;      // downstream takes rows wherever they lie
  gstvf::HeldEvents held;   // events that wait for the first caps
  gstvf::Originals* originals;
};

#define gst_cuda_letterbox_restore_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstCudaLetterboxRestore, gst_cuda_letterbox_restore, GST_TYPE_ELEMENT,
                        GST_DEBUG_CATEGORY_INIT(gst_cuda_letterbox_restore_debug,
                                                "cudaletterboxrestore", 0,
                                                "original frames behind a network"))
GST_ELEMENT_REGISTER_DEFINE(cudaletterboxrestore, "cudaletterboxrestore", GST_RANK_NONE,
                            gst_cuda_letterbox_restore_get_type())

// Caps and events of the source pad

// Sends the original's caps downstream, and then the events that wait for them.
static gboolean set_caps(GstCudaLetterboxRestore* self, GstCaps* caps) {
  if (self->caps != caps && (!self->caps || !gst_caps_is_equal(self->caps, caps))) {
    GstVideoInfo info;
    if (!gst_video_info_from_caps(&info, caps)) return FALSE;
    // The receiver of the event may seek, which drops the list that owns the caps.
    GstEvent* event = gst_event_new_caps(caps);
    gst_event_parse_caps(event, &caps);
    if (!gst_pad_push_event(self->srcpad, gst_event_ref(event))) {
      if (GST_PAD_IS_FLUSHING(self->srcpad)) {
        gst_event_unref(event);
        return FALSE;
      }
      GST_WARNING_OBJECT(self, "downstream refused %" GST_PTR_FORMAT, caps);
    }
    gst_caps_replace(&self->caps, caps);
    gst_event_unref(event);
    self->info = info;
    self->held.push(self->srcpad);
    self->any_layout = gstvf::takes_any_layout(self->srcpad);
  } else if (gst_pad_check_reconfigure(self->srcpad)) {
    self->any_layout = gstvf::takes_any_layout(self->srcpad);
  }
  return TRUE;
}

// Buffers

// Pushes the originals of frames that were dropped before the one with this number.
static GstFlowReturn push_dropped(GstCudaLetterboxRestore* self, guint64 serial) {
  GstFlowReturn flow = GST_FLOW_OK;
  while (flow == GST_FLOW_OK && self->originals) {
    GstBuffer* buffer = self->originals->take_before(serial);
    if (!buffer) break;
    if (set_caps(self, self->originals->caps()))
      flow = gstvf::push_original(self->srcpad, self->info, self->any_layout, buffer);
    else
      gst_buffer_unref(buffer);
  }
  return flow;
}

static void use(GstCudaLetterboxRestore* self, gstvf::Originals* originals) {
  if (self->originals == originals) return;
  if (self->originals) gstvf::Originals::unref(self->originals);
  self->originals = originals ? gstvf::Originals::ref(originals) : nullptr;
}

static GstFlowReturn chain(GstPad*, GstObject* parent, GstBuffer* frame) {
  auto* self = GST_CUDA_LETTERBOX_RESTORE(parent);
  const auto refuse = [&](const char* why) {
    GST_ELEMENT_ERROR_WITH_DETAILS(self, STREAM, FORMAT, ("%s", why), ("%" GST_PTR_FORMAT, frame),
                                   ("reason", G_TYPE_STRING, "frame", nullptr));
    gst_buffer_unref(frame);
    return GST_FLOW_ERROR;
  };
  gstvf::OriginalMeta* meta = gstvf::get_original(frame);
  if (!meta || !meta->base.buffer)
    return refuse(
        "A buffer came without its original. Put cudaletterbox keep-original=true in front, and "
        "only elements that keep metas between the two.");
  vf::LetterboxGeometry place;
  if (!gstvf::find_place(frame, meta->base.caps, self->frame_info, &place))
    return refuse(
        "The place of the picture in a buffer is unknown. Elements between cudaletterbox and "
        "cudaletterboxrestore must keep GstCudaLetterboxMeta. They may scale frames, but not crop "
        "or turn them, or add borders.");
  gstvf::under_lock(self, [&] {
    self->placed = TRUE;
    self->geometry = place;
  });
  GstFlowReturn flow = GST_FLOW_OK;
  const guint64 serial = meta->serial;
  if (meta->originals) {
    use(self, meta->originals);
    flow = push_dropped(self, serial);
    meta->originals->arrived(serial);  // a flush may have dropped self->originals
  }
  if (flow == GST_FLOW_OK && !set_caps(self, meta->base.caps))
    flow = GST_PAD_IS_FLUSHING(self->srcpad) ? GST_FLOW_FLUSHING : GST_FLOW_NOT_NEGOTIATED;
  if (flow != GST_FLOW_OK) {
    gst_buffer_unref(frame);
    return flow;
  }
  // If the originals of dropped frames went out before it, there is no gap.
  const bool gap = GST_BUFFER_IS_DISCONT(frame) && !meta->originals;
  const bool is_video = GST_VIDEO_INFO_FORMAT(&self->frame_info) != GST_VIDEO_FORMAT_UNKNOWN;
  GstBuffer* original = gstvf::restore_frame(frame, meta, place, is_video);
  if (gap) GST_BUFFER_FLAG_SET(original, GST_BUFFER_FLAG_DISCONT);
  return gstvf::push_original(self->srcpad, self->info, self->any_layout, original);
}

// Events and queries

static void reset(GstCudaLetterboxRestore* self) {
  self->held.clear();
  gst_clear_caps(&self->caps);
  use(self, nullptr);
  gst_video_info_init(&self->frame_info);
  const gstvf::ObjectLock lock(self);
  self->placed = FALSE;
}

static gboolean sink_event(GstPad* pad, GstObject* parent, GstEvent* event) {
  auto* self = GST_CUDA_LETTERBOX_RESTORE(parent);
  if (gstvf::Originals* originals = gstvf::originals_of(event)) {
    // The frames that are left in the former list were dropped.
    if (originals != self->originals) push_dropped(self, G_MAXUINT64);
    use(self, originals);
    const gboolean ok = set_caps(self, originals->caps());
    gst_event_unref(event);
    return ok;
  }
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_STREAM_START:
      push_dropped(self, G_MAXUINT64);
      reset(self);
      break;
    case GST_EVENT_CAPS: {
      GstCaps* caps;
      gst_event_parse_caps(event, &caps);
      if (!gst_video_info_from_caps(&self->frame_info, caps))
        gst_video_info_init(&self->frame_info);
      gst_event_unref(event);
      return TRUE;
    }
    case GST_EVENT_FLUSH_STOP:
      use(self, nullptr);
      self->held.flush();
      break;
    case GST_EVENT_SEGMENT:
    case GST_EVENT_EOS:
      if (self->originals && self->originals->closed()) push_dropped(self, G_MAXUINT64);
      break;
    default:
      break;
  }
  const bool waits_for_caps = GST_EVENT_IS_SERIALIZED(event) && !self->caps;
  if (GST_EVENT_TYPE(event) == GST_EVENT_EOS) {
    self->held.push(self->srcpad);
  } else if (GST_EVENT_TYPE(event) == GST_EVENT_GAP && waits_for_caps) {
    // A gap means nothing before there are caps.
    gst_event_unref(event);
    return TRUE;
  } else if (waits_for_caps && GST_EVENT_TYPE(event) != GST_EVENT_STREAM_START &&
             GST_EVENT_TYPE(event) != GST_EVENT_FLUSH_STOP) {
    self->held.add(event);
    return TRUE;
  }
  return gst_pad_event_default(pad, parent, event);
}

static gboolean src_event(GstPad* pad, GstObject* parent, GstEvent* event) {
  auto* self = GST_CUDA_LETTERBOX_RESTORE(parent);
  gdouble x, y;
  if (GST_EVENT_TYPE(event) == GST_EVENT_NAVIGATION &&
      gst_navigation_event_get_coordinates(event, &x, &y)) {
    // The letterbox expects coordinates of its output.
    event = gst_event_make_writable(event);
    const gstvf::ObjectLock lock(self);
    if (self->placed) self->geometry.from_source(x, y, &x, &y);
    gst_navigation_event_set_coordinates(event, x, y);
  }
  return gst_pad_event_default(pad, parent, event);
}

static gboolean sink_query(GstPad* pad, GstObject* parent, GstQuery* query) {
  const Settings settings = gstvf::locked(parent, GST_CUDA_LETTERBOX_RESTORE(parent)->settings);
  return gstvf::answer_letterbox(query, {settings.dropped == Dropped::restore, settings.maximum}) ||
         gst_pad_query_default(pad, parent, query);
}

// Class

static GstStateChangeReturn change_state(GstElement* element, GstStateChange transition) {
  const GstStateChangeReturn result =
      GST_ELEMENT_CLASS(parent_class)->change_state(element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) reset(GST_CUDA_LETTERBOX_RESTORE(element));
  return result;
}

static void gst_cuda_letterbox_restore_init(GstCudaLetterboxRestore* self) {
  self->settings = Settings();
  gst_video_info_init(&self->frame_info);
  self->sinkpad = gstvf::add_pad(GST_ELEMENT(self), "sink", sink_event, chain);
  gst_pad_set_query_function(self->sinkpad, sink_query);
  self->srcpad = gstvf::add_pad(GST_ELEMENT(self), "src", src_event);
}

static void gst_cuda_letterbox_restore_class_init(GstCudaLetterboxRestoreClass* klass) {
  auto* element_class = GST_ELEMENT_CLASS(klass);
  const GType dropped = gstvf::enum_type(
      "GstCudaLetterboxRestoreDropped",
      {{Dropped::drop, "Do nothing: the frames are lost", "drop"},
       {Dropped::restore, "Output their originals in order, without results of the network",
        "restore"}});
  gstvf::install_properties<Settings>(
      G_OBJECT_CLASS(klass),
      [](GObject* object) { return &GST_CUDA_LETTERBOX_RESTORE(object)->settings; },
      {{"dropped", "Dropped", &Settings::dropped, dropped,
        "What to do about frames that were dropped between cudaletterbox and this element",
        gstvf::kReady},
       {"max-dropped", "Maximum dropped", &Settings::maximum, Settings::kMax,
        "Maximum number of originals to keep for dropped=restore. When there are more, the oldest "
        "are lost. 0 = no limit",
        gstvf::kReady}});
  gstvf::set_metadata(
      element_class, "CUDA letterbox restorer", "Filter/Effect/Video",
      "Restores the frames that cudaletterbox received, with the results of a network");
  gstvf::add_templates(element_class, gst_caps_new_any(), gst_cuda_video_filter_caps(nullptr));
  element_class->change_state = GST_DEBUG_FUNCPTR(change_state);
}
