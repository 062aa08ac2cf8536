/**
 * SECTION:element-cudaletterboxunbatch
 * @title: cudaletterboxunbatch
 *
 * Gives the frames back that #cudaletterboxbatch made batches of: each stream on a pad of its own,
 * in order, the same buffers with their own caps, times and memory. The pad src_N belongs to the
 * pad sink_N of the batcher. It appears with the first frame of its stream, ends with the stream,
 * and goes when the batcher's pad is released (docs/batches.md).
 *
 * What was added to the frames of the rows (gstcudaletterboxbatchmeta.h) is moved to its place in
 * the originals, as #cudaletterboxrestore does it.
 *
 * All pads are pushed from one thread: put a queue behind each, so that a stream that waits does
 * not stop the others. Events from a source pad, such as QoS and navigation, reach the pad of that
 * stream in front of the batcher; seeks reach all streams.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 videotestsrc num-buffers=100 ! cudaletterboxbatch ! \
 *     other/tensors,format=static,num_tensors=1,types=float32,dimensions=320:320:3:1 ! \
 *     cudaletterboxunbatch name=streams streams.src_0 ! queue ! videoconvert ! autovideosink
 * ]|
 */
#include "gst/gstcudaletterboxunbatch.h"

#include <gst/base/gstflowcombiner.h>

#include <algorithm>
#include <map>

#include "gst/base/cudacompat.h"
#include "gst/base/formatcaps.h"
#include "gst/base/packedframe.h"
#include "gst/letterbox/batchmeta.h"
#include "gst/letterbox/letterboxcaps.h"
#include "gst/letterbox/restoredframe.h"

GST_DEBUG_CATEGORY_STATIC(gst_cuda_letterbox_unbatch_debug);
#define GST_CAT_DEFAULT gst_cuda_letterbox_unbatch_debug

namespace {

// The output of a stream. It belongs to the streaming thread.
struct Stream {
  GstPad* pad = nullptr;  // owned by the element
  GstCaps* caps = nullptr;
  GstVideoInfo info;
  bool any_layout = false;        // downstream takes rows wherever they lie
  bool ended = false;             // the end was sent
  std::vector<GstEvent*> events;  // the sticky events that were sent, as references
};

}  // namespace

typedef struct _GstCudaLetterboxUnbatch {
  GstElement parent;
  GstPad* sinkpad;
  // These are under the sink pad's stream lock.
  GstFlowCombiner* flows;
  std::map<guint, Stream>* streams;
} GstCudaLetterboxUnbatch;
typedef struct _GstCudaLetterboxUnbatchClass {
  GstElementClass parent_class;
} GstCudaLetterboxUnbatchClass;

#define GST_CUDA_LETTERBOX_UNBATCH(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_LETTERBOX_UNBATCH, GstCudaLetterboxUnbatch))

#define gst_cuda_letterbox_unbatch_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstCudaLetterboxUnbatch, gst_cuda_letterbox_unbatch, GST_TYPE_ELEMENT,
                        GST_DEBUG_CATEGORY_INIT(gst_cuda_letterbox_unbatch_debug,
                                                "cudaletterboxunbatch", 0,
                                                "original frames of batches"))
GST_ELEMENT_REGISTER_DEFINE(cudaletterboxunbatch, "cudaletterboxunbatch", GST_RANK_NONE,
                            GST_TYPE_CUDA_LETTERBOX_UNBATCH)

// Streams

static void forget_events(Stream& s) {
  for (GstEvent* event : s.events) gst_event_unref(event);
  s.events.clear();
}

static guint stream_of(GstPad* pad) {
  return GPOINTER_TO_UINT(gst_pad_get_element_private(pad));
}

static gboolean gst_cuda_letterbox_unbatch_src_event(GstPad* pad, GstObject* parent,
                                                     GstEvent* event) {
  // All streams have these in common.
  if (GST_EVENT_TYPE(event) == GST_EVENT_SEEK || GST_EVENT_TYPE(event) == GST_EVENT_LATENCY)
    return gst_pad_event_default(pad, parent, event);
  // The originals have their caps already.
  if (GST_EVENT_TYPE(event) == GST_EVENT_RECONFIGURE) {
    gst_event_unref(event);
    return TRUE;
  }
  return gst_pad_push_event(GST_CUDA_LETTERBOX_UNBATCH(parent)->sinkpad,
                            gstvf::new_stream_event(stream_of(pad), event));
}

static Stream& find_stream(GstCudaLetterboxUnbatch* self, guint number) {
  const auto known = self->streams->find(number);
  if (known != self->streams->end()) return known->second;
  Stream& s = (*self->streams)[number];
  gchar* name = g_strdup_printf("src_%u", number);
  s.pad = gst_pad_new_from_template(
      gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(self), "src_%u"), name);
  g_free(name);
  gst_pad_set_element_private(s.pad, GUINT_TO_POINTER(number));
  gst_pad_set_event_function(s.pad, gst_cuda_letterbox_unbatch_src_event);
  gst_pad_set_active(s.pad, TRUE);
  gst_flow_combiner_add_pad(self->flows, s.pad);
  gst_element_add_pad(GST_ELEMENT(self), s.pad);
  return s;
}

static void end_stream(Stream& s) {
  if (!s.ended) gst_pad_push_event(s.pad, gst_event_new_eos());
  s.ended = true;
}

static void remove_stream(GstCudaLetterboxUnbatch* self, guint number) {
  const auto known = self->streams->find(number);
  if (known == self->streams->end()) return;
  Stream s = known->second;
  self->streams->erase(known);
  end_stream(s);
  gst_flow_combiner_remove_pad(self->flows, s.pad);
  gst_pad_set_active(s.pad, FALSE);
  gst_element_remove_pad(GST_ELEMENT(self), s.pad);
  forget_events(s);
  gst_clear_caps(&s.caps);
}

// Sends the events of a stream that its pad has not got yet, with the caps behind the first.
static void send_events(Stream& s, const gstvf::StreamEvents* events, GstCaps* caps) {
  const bool again = s.ended;  // only a stream-start ends the end
  s.ended = false;
  const auto sent = [&](GstEvent* event) {
    return std::find(s.events.begin(), s.events.end(), event) != s.events.end();
  };
  const auto send_caps = [&] {
    if (s.caps && gst_caps_is_equal(s.caps, caps)) return;
    gst_caps_replace(&s.caps, caps);
    gst_video_info_from_caps(&s.info, caps);
    gst_pad_push_event(s.pad, gst_event_new_caps(caps));
    s.any_layout = gstvf::takes_any_layout(s.pad);
  };
  bool restarts = false;
  for (GstEvent* event : events->list()) {
    const bool starts = GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START;
    if (!starts) send_caps();
    if (starts && (again || !sent(event))) restarts = true;
    if (restarts || !sent(event)) gst_pad_push_event(s.pad, gst_event_ref(event));
  }
  send_caps();
  for (GstEvent* event : events->list()) gst_event_ref(event);
  forget_events(s);
  s.events = events->list();
}

// Pushes the original of a row.
static GstFlowReturn push_row(GstCudaLetterboxUnbatch* self, GstBuffer* batch,
                              GstCudaLetterboxBatchRow* row) {
  const gstvf::StreamEvents* events = gstvf::events_of(*row);
  GstBuffer* frame = gstvf::take_frame(batch, row);
  gstvf::OriginalMeta* meta = gstvf::get_original(frame);
  GstVideoInfo none;
  gst_video_info_init(&none);
  vf::LetterboxGeometry place;
  if (!meta || !meta->base.buffer || !gstvf::find_place(frame, meta->base.caps, none, &place)) {
    GST_ELEMENT_ERROR(
        self, STREAM, FORMAT,
        ("A row of a batch has lost its original frame or its place in the row. Leave "
         "the metas of cudaletterboxbatch on the frames of the rows."),
        ("%" GST_PTR_FORMAT, frame));
    gst_buffer_unref(frame);
    return GST_FLOW_ERROR;
  }
  Stream& s = find_stream(self, row->stream);
  if (events) send_events(s, events, meta->base.caps);
  if (gst_pad_check_reconfigure(s.pad)) s.any_layout = gstvf::takes_any_layout(s.pad);
  GstBuffer* original = gstvf::restore_frame(frame, meta, place, false);
  const GstFlowReturn flow = gstvf::push_original(s.pad, s.info, s.any_layout, original);
  return gst_flow_combiner_update_pad_flow(self->flows, s.pad, flow);
}

static GstFlowReturn gst_cuda_letterbox_unbatch_chain(GstPad*, GstObject* parent,
                                                      GstBuffer* batch) {
  auto* self = GST_CUDA_LETTERBOX_UNBATCH(parent);
  GstCudaLetterboxBatchMeta* meta = gst_buffer_get_cuda_letterbox_batch_meta(batch);
  GstFlowReturn flow = GST_FLOW_OK;
  if (!meta) {
    GST_ELEMENT_ERROR(
        self, STREAM, FORMAT,
        ("A buffer came without its frames. Put cudaletterboxbatch in front, and only "
         "elements that keep metas between the two."),
        ("%" GST_PTR_FORMAT, batch));
    flow = GST_FLOW_ERROR;
  } else if (GstMemory* memory = gstvf::cuda_memory(batch)) {
    // The batcher may still be reading the originals if nobody waited for its stream.
    gstvf::memory_sync(memory);
  }
  for (guint i = 0; flow == GST_FLOW_OK && meta && i < meta->n_rows; i++)
    if (meta->rows[i].frame) flow = push_row(self, batch, &meta->rows[i]);
  gst_buffer_unref(batch);
  return flow;
}

// Events

static void gst_cuda_letterbox_unbatch_reset(GstCudaLetterboxUnbatch* self) {
  while (!self->streams->empty()) remove_stream(self, self->streams->begin()->first);
  gst_flow_combiner_reset(self->flows);
}

static gboolean gst_cuda_letterbox_unbatch_sink_event(GstPad* pad, GstObject* parent,
                                                      GstEvent* event) {
  auto* self = GST_CUDA_LETTERBOX_UNBATCH(parent);
  guint number;
  bool removed;
  if (gstvf::parse_stream_end(event, &number, &removed)) {
    const auto known = self->streams->find(number);
    if (removed)
      remove_stream(self, number);
    else if (known != self->streams->end())
      end_stream(known->second);
    gst_event_unref(event);
    return TRUE;
  }
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_FLUSH_STOP:
      gst_flow_combiner_reset(self->flows);
      for (auto& [n, s] : *self->streams) {
        // A flush also ends the segment.
        forget_events(s);
        s.ended = false;
      }
      return gst_pad_event_default(pad, parent, event);
    case GST_EVENT_FLUSH_START:
      return gst_pad_event_default(pad, parent, event);
    case GST_EVENT_EOS:
      for (auto& [n, s] : *self->streams) end_stream(s);
      if (self->streams->empty()) {
        // Nobody behind can end the pipeline.
        GST_ELEMENT_WARNING(self, STREAM, FAILED, ("The stream ended without a frame."), (nullptr));
      }
      gst_event_unref(event);
      return TRUE;
    default:
      // The other events describe the batches, not the streams.
      gst_event_unref(event);
      return TRUE;
  }
}

// Class

static GstStateChangeReturn gst_cuda_letterbox_unbatch_change_state(GstElement* element,
                                                                    GstStateChange transition) {
  const GstStateChangeReturn result =
      GST_ELEMENT_CLASS(parent_class)->change_state(element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY)
    gst_cuda_letterbox_unbatch_reset(GST_CUDA_LETTERBOX_UNBATCH(element));
  return result;
}

static void gst_cuda_letterbox_unbatch_finalize(GObject* object) {
  auto* self = GST_CUDA_LETTERBOX_UNBATCH(object);
  gst_flow_combiner_unref(self->flows);
  delete self->streams;
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_letterbox_unbatch_init(GstCudaLetterboxUnbatch* self) {
  self->flows = gst_flow_combiner_new();
  self->streams = new std::map<guint, Stream>();
  self->sinkpad = gst_pad_new_from_template(
      gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(self), "sink"), "sink");
  gst_pad_set_chain_function(self->sinkpad, gst_cuda_letterbox_unbatch_chain);
  gst_pad_set_event_function(self->sinkpad, gst_cuda_letterbox_unbatch_sink_event);
  gst_element_add_pad(GST_ELEMENT(self), self->sinkpad);
}

static void gst_cuda_letterbox_unbatch_class_init(GstCudaLetterboxUnbatchClass* klass) {
  auto* element_class = GST_ELEMENT_CLASS(klass);
  G_OBJECT_CLASS(klass)->finalize = gst_cuda_letterbox_unbatch_finalize;
  gst_element_class_set_static_metadata(element_class, "CUDA letterbox unbatcher", "Filter/Video",
                                        "Gives back the frames that cudaletterboxbatch was given, "
                                        "each stream on its own pad, with what "
                                        "a network found in them",
                                        "gst-cuda-filters contributors");
  GstCaps* sink = gstvf::batch_caps();
  GstCaps* src = gst_cuda_video_filter_caps(nullptr);
  gst_element_class_add_pad_template(
      element_class, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, sink));
  gst_element_class_add_pad_template(
      element_class, gst_pad_template_new("src_%u", GST_PAD_SRC, GST_PAD_SOMETIMES, src));
  gst_caps_unref(sink);
  gst_caps_unref(src);
  element_class->change_state = GST_DEBUG_FUNCPTR(gst_cuda_letterbox_unbatch_change_state);
}
