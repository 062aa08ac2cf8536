/**
 * SECTION:element-cudaletterboxunbatch
 * @title: cudaletterboxunbatch
 *
 * Outputs the frames that #cudaletterboxbatch put into batches, with one pad for each stream. The
 * frames have their caps, times and memory, and the metas of their rows (docs/batches.md). GAP events
 * are output as well. With GStreamer 1.28 or newer, the element also takes the batches of
 * analyticscombiner.
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
#include <gst/base/gstflowcombiner.h>

#include <map>

#include "gst/base/analytics.h"
#include "gst/base/cudacompat.h"
#include "gst/base/formatcaps.h"
#include "gst/base/packedframe.h"
#include "gst/letterbox/batchmeta.h"
#include "gst/letterbox/letterboxcaps.h"
#include "gst/letterbox/restoredframe.h"
#include "gst/letterbox/streamoutput.h"

GST_DEBUG_CATEGORY_STATIC(gst_cuda_letterbox_unbatch_debug);
#define GST_CAT_DEFAULT gst_cuda_letterbox_unbatch_debug

G_DECLARE_FINAL_TYPE(GstCudaLetterboxUnbatch, gst_cuda_letterbox_unbatch, GST,
                     CUDA_LETTERBOX_UNBATCH, GstElement)
struct _GstCudaLetterboxUnbatch {
  GstElement parent;
  GstPad* sinkpad;
  // These are under the sink pad's stream lock.
  GstFlowCombiner* flows;
  std::map<guint, gstvf::StreamOutput>* streams;
};

#define gst_cuda_letterbox_unbatch_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstCudaLetterboxUnbatch, gst_cuda_letterbox_unbatch, GST_TYPE_ELEMENT,
                        GST_DEBUG_CATEGORY_INIT(gst_cuda_letterbox_unbatch_debug,
                                                "cudaletterboxunbatch", 0,
                                                "original frames of batches"))
GST_ELEMENT_REGISTER_DEFINE(cudaletterboxunbatch, "cudaletterboxunbatch", GST_RANK_NONE,
                            gst_cuda_letterbox_unbatch_get_type())

// Streams

static guint stream_of(GstPad* pad) {
  return GPOINTER_TO_UINT(gst_pad_get_element_private(pad));
}

static gboolean src_event(GstPad* pad, GstObject* parent, GstEvent* event) {
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

// Returns the output of a stream, or null if it has none yet.
static gstvf::StreamOutput* known_stream(GstCudaLetterboxUnbatch* self, guint number) {
  const auto known = self->streams->find(number);
  return known == self->streams->end() ? nullptr : &known->second;
}

static gstvf::StreamOutput& find_stream(GstCudaLetterboxUnbatch* self, guint number) {
  if (gstvf::StreamOutput* known = known_stream(self, number)) return *known;
  gstvf::StreamOutput& s = (*self->streams)[number];
  gchar* name = g_strdup_printf("src_%u", number);
  s.pad = gst_pad_new_from_template(
      gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(self), "src_%u"), name);
  g_free(name);
  gst_pad_set_element_private(s.pad, GUINT_TO_POINTER(number));
  gst_pad_set_event_function(s.pad, src_event);
  gst_pad_set_active(s.pad, TRUE);
  gst_flow_combiner_add_pad(self->flows, s.pad);
  gst_element_add_pad(GST_ELEMENT(self), s.pad);
  return s;
}

static void remove_stream(GstCudaLetterboxUnbatch* self, guint number) {
  const gstvf::StreamOutput* known = known_stream(self, number);
  if (!known) return;
  gstvf::StreamOutput s = *known;
  self->streams->erase(number);
  s.end();
  gst_flow_combiner_remove_pad(self->flows, s.pad);
  gst_pad_set_active(s.pad, FALSE);
  gst_element_remove_pad(GST_ELEMENT(self), s.pad);
  gst_clear_caps(&s.caps);
}

// Pushes the original of a frame (taken), or the frame itself if it has none and `caps` are video.
// `caps` are those of the frame, and null for a row of a tensor.
static GstFlowReturn push_frame(GstCudaLetterboxUnbatch* self, guint number,
                                const gstvf::StreamEvents* events, GstCaps* caps,
                                GstBuffer* frame) {
  gstvf::OriginalMeta* meta = gstvf::get_original(frame);
  const bool restores = meta && meta->base.buffer;
  GstVideoInfo info;
  gst_video_info_init(&info);
  const bool is_video = caps &&
                        gst_structure_has_name(gst_caps_get_structure(caps, 0), "video/x-raw") &&
                        gst_video_info_from_caps(&info, caps);
  vf::LetterboxGeometry place;
  if (restores ? !gstvf::find_place(frame, meta->base.caps, info, &place) : !is_video) {
    GST_ELEMENT_ERROR_WITH_DETAILS(
        self, STREAM, FORMAT,
        ("A frame of stream %u in a batch has lost its original or its place. Leave the metas of "
         "cudaletterboxbatch on the frames of the rows. In front of analyticscombiner, use video, "
         "or cudaletterbox keep-original=true.",
         number),
        ("%" GST_PTR_FORMAT ", caps %" GST_PTR_FORMAT, frame, caps),
        ("reason", G_TYPE_STRING, "frame", "stream", G_TYPE_UINT, number, nullptr));
    gst_buffer_unref(frame);
    return GST_FLOW_ERROR;
  }
  gstvf::StreamOutput& s = find_stream(self, number);
  if (events) s.send_events(*events, restores ? meta->base.caps : caps);
  if (gst_pad_check_reconfigure(s.pad)) s.any_layout = gstvf::takes_any_layout(s.pad);
  if (restores) frame = gstvf::restore_frame(frame, meta, place, is_video);
  const GstFlowReturn flow = gstvf::push_original(s.pad, s.info, s.any_layout, frame);
  return gst_flow_combiner_update_pad_flow(self->flows, s.pad, flow);
}

// Pushes what a batch of analyticscombiner has of a stream.
static GstFlowReturn push_stream(GstCudaLetterboxUnbatch* self, gstvf::BatchedStream& stream) {
  gstvf::BatchedEvents events;
  for (const auto& event : stream.events) events.add(GST_EVENT_CAST(event.get()));
  GstFlowReturn flow = GST_FLOW_OK;
  const auto push = [&](GstBuffer* frame) {
    flow = push_frame(self, stream.index, &events.list(), events.caps(), frame);
  };
  for (auto& object : stream.objects) {
    GstMiniObject* const o = object.get();
    if (GST_IS_BUFFER(o)) {
      push(GST_BUFFER_CAST(object.release()));
    } else if (GST_IS_BUFFER_LIST(o)) {
      for (guint i = 0; flow == GST_FLOW_OK && i < gst_buffer_list_length(GST_BUFFER_LIST(o)); i++)
        push(gst_buffer_ref(gst_buffer_list_get(GST_BUFFER_LIST(o), i)));
    } else if (GST_IS_EVENT(o) && !events.add(GST_EVENT_CAST(o))) {
      if (gstvf::StreamOutput* known = known_stream(self, stream.index))
        gst_pad_push_event(known->pad, GST_EVENT_CAST(object.release()));
    }
    if (flow != GST_FLOW_OK) return flow;
  }
  gstvf::StreamOutput* known = known_stream(self, stream.index);
  if (events.ended() && known) known->end();
  return flow;
}

static GstFlowReturn chain(GstPad*, GstObject* parent, GstBuffer* batch) {
  auto* self = GST_CUDA_LETTERBOX_UNBATCH(parent);
  std::vector<gstvf::BatchedStream> streams;
  const bool is_batched = gstvf::take_batched_streams(batch, &streams);
  GstCudaLetterboxBatchMeta* meta = gst_buffer_get_cuda_letterbox_batch_meta(batch);
  GstFlowReturn flow = GST_FLOW_OK;
  // The batcher may still be reading the originals if nobody waited for its stream.
  if (GstMemory* memory = gstvf::cuda_memory(batch)) gstvf::memory_sync(memory);
  if (meta) {
    // The rows have the same frames, and what was added to them.
    streams.clear();
    for (guint i = 0; flow == GST_FLOW_OK && i < meta->n_rows; i++) {
      GstCudaLetterboxBatchRow* row = &meta->rows[i];
      const auto* events = gstvf::events_of(*row);
      if (row->frame)
        flow = push_frame(self, row->stream, events, nullptr, gstvf::take_frame(batch, row));
    }
  } else if (is_batched) {
    for (size_t i = 0; flow == GST_FLOW_OK && i < streams.size(); i++)
      flow = push_stream(self, streams[i]);
  } else {
    GST_ELEMENT_ERROR_WITH_DETAILS(
        self, STREAM, FORMAT,
        ("A buffer came without its frames. Put cudaletterboxbatch in front, and only "
         "elements that keep metas between the two."),
        ("%" GST_PTR_FORMAT, batch), ("reason", G_TYPE_STRING, "frame", nullptr));
    flow = GST_FLOW_ERROR;
  }
  gst_buffer_unref(batch);
  return flow;
}

// Events

static void reset(GstCudaLetterboxUnbatch* self) {
  while (!self->streams->empty()) remove_stream(self, self->streams->begin()->first);
  gst_flow_combiner_reset(self->flows);
}

static gboolean sink_event(GstPad* pad, GstObject* parent, GstEvent* event) {
  auto* self = GST_CUDA_LETTERBOX_UNBATCH(parent);
  const GstEventType type = GST_EVENT_TYPE(event);
  guint number;
  bool removed;
  gstvf::StreamGap gap;
  if (gstvf::parse_stream_gap(event, &gap)) {
    gstvf::StreamOutput& s = find_stream(self, gap.stream);
    s.send_events(*gap.events, gap.caps);
    gst_pad_push_event(s.pad, gst_event_ref(gap.gap));
  } else if (gstvf::parse_stream_end(event, &number, &removed)) {
    if (removed)
      remove_stream(self, number);
    else if (gstvf::StreamOutput* known = known_stream(self, number))
      known->end();
  } else if (type == GST_EVENT_FLUSH_START || type == GST_EVENT_FLUSH_STOP) {
    if (type == GST_EVENT_FLUSH_STOP) {
      gst_flow_combiner_reset(self->flows);
      for (auto& [n, s] : *self->streams) {
        // A flush also ends the segment.
        s.events.clear();
        s.ended = false;
      }
    }
    return gst_pad_event_default(pad, parent, event);
  } else if (type == GST_EVENT_EOS) {
    for (auto& [n, s] : *self->streams) s.end();
    // Nobody behind can end the pipeline.
    if (self->streams->empty())
      GST_ELEMENT_WARNING_WITH_DETAILS(self, STREAM, FAILED, ("The stream ended without a frame."),
                                       (nullptr), ("reason", G_TYPE_STRING, "frame", nullptr));
  }
  // The other events describe the batches, not the streams.
  gst_event_unref(event);
  return TRUE;
}

// Class

static GstStateChangeReturn change_state(GstElement* element, GstStateChange transition) {
  const GstStateChangeReturn result =
      GST_ELEMENT_CLASS(parent_class)->change_state(element, transition);
  if (transition == GST_STATE_CHANGE_PAUSED_TO_READY) reset(GST_CUDA_LETTERBOX_UNBATCH(element));
  return result;
}

static void finalize(GObject* object) {
  auto* self = GST_CUDA_LETTERBOX_UNBATCH(object);
  gst_flow_combiner_unref(self->flows);
  delete self->streams;
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_letterbox_unbatch_init(GstCudaLetterboxUnbatch* self) {
  self->flows = gst_flow_combiner_new();
  self->streams = new std::map<guint, gstvf::StreamOutput>();
  self->sinkpad = gstvf::add_pad(GST_ELEMENT(self), "sink", sink_event, chain);
}

static void gst_cuda_letterbox_unbatch_class_init(GstCudaLetterboxUnbatchClass* klass) {
  auto* element_class = GST_ELEMENT_CLASS(klass);
  G_OBJECT_CLASS(klass)->finalize = finalize;
  gstvf::set_metadata(element_class, "CUDA letterbox unbatcher", "Filter/Video",
                      "Restores the frames that cudaletterboxbatch received, one pad per stream, "
                      "with the results of a network");
  GstCaps* sink = gstvf::batch_caps();
  if (gstvf::kHasAnalyticsBatch)
    gst_caps_append(
        sink, gst_caps_from_string("multistream/x-analytics-batch(meta:GstAnalyticsBatchMeta)"));
  gstvf::add_template(element_class, "sink", GST_PAD_SINK, GST_PAD_ALWAYS, sink);
  gstvf::add_template(element_class, "src_%u", GST_PAD_SRC, GST_PAD_SOMETIMES,
                      gst_cuda_video_filter_caps(nullptr));
  element_class->change_state = GST_DEBUG_FUNCPTR(change_state);
}
