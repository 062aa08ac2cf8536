/**
 * SECTION:element-cudaletterboxbatch
 * @title: cudaletterboxbatch
 *
 * Makes one tensor from the frames of many streams, for networks that take batches. Each frame
 * becomes a row, bit for bit as #cudaletterbox makes it. docs/batches.md says when a batch goes and
 * what it holds.
 *
 * The settings of the letterbox are properties of each pad, and follow those of the element until
 * they are set on the pad. The buffer's time is the smallest running time of its frames.
 *
 * ## Example launch line
 * |[
 * gst-launch-1.0 cudaletterboxbatch name=batch ! \
 *     other/tensors,format=static,num_tensors=1,types=float32,dimensions=640:640:3:2 ! \
 *     cudaletterboxunbatch name=streams videotestsrc ! batch.sink_0 \
 *     streams.src_0 ! queue ! videoconvert ! autovideosink videotestsrc pattern=ball ! batch.sink_1 \
 *     streams.src_1 ! queue ! videoconvert ! autovideosink
 * ]| Two streams go through one tensor and are shown. A network would sit in front of the unbatcher.
 */
#include <cstdlib>

#include "gst/base/errors.h"
#include "gst/base/formatcaps.h"
#include "gst/letterbox/batcher.h"
#include "gst/letterbox/letterboxmeta.h"

using gstvf::Batcher;

GST_DEBUG_CATEGORY(gst_cuda_letterbox_batch_debug);

G_DECLARE_FINAL_TYPE(GstCudaLetterboxBatch, gst_cuda_letterbox_batch, GST, CUDA_LETTERBOX_BATCH,
                     GstAggregator)
struct _GstCudaLetterboxBatch {
  GstAggregator parent;
  Batcher* batcher;
};

static void init_children(gpointer iface, gpointer);

#define gst_cuda_letterbox_batch_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstCudaLetterboxBatch, gst_cuda_letterbox_batch, GST_TYPE_AGGREGATOR,
                        G_IMPLEMENT_INTERFACE(GST_TYPE_CHILD_PROXY, init_children);
                        GST_DEBUG_CATEGORY_INIT(gst_cuda_letterbox_batch_debug,
                                                "cudaletterboxbatch", 0,
                                                "tensors of the frames of many streams"))
GST_ELEMENT_REGISTER_DEFINE(cudaletterboxbatch, "cudaletterboxbatch", GST_RANK_NONE,
                            gst_cuda_letterbox_batch_get_type())

static Batcher& batcher_of(gpointer self) {
  return *GST_CUDA_LETTERBOX_BATCH(self)->batcher;
}

// Settings

static void wait_changed(GObject* object) {
  const guint wait = gstvf::locked(object, batcher_of(object).settings.max_wait);
  const GstClockTime latency =
      wait == gstvf::BatchSettings::kNoLimit ? 0 : wait * GstClockTime(GST_MSECOND);
  gst_aggregator_set_latency(GST_AGGREGATOR(object), latency, latency);
}

// Pads follow the properties of the element that have the same name.
static void notify(GObject* object, GParamSpec* spec) {
  GList* pads = nullptr;
  GST_OBJECT_LOCK(object);
  for (GList* l = GST_ELEMENT(object)->sinkpads; l; l = l->next)
    pads = g_list_prepend(pads, gst_object_ref(l->data));
  GST_OBJECT_UNLOCK(object);
  g_auto(GValue) value = G_VALUE_INIT;
  g_object_get_property(object, spec->name, &value);
  for (GList* l = pads; l; l = l->next) {
    GParamSpec* same = g_object_class_find_property(G_OBJECT_GET_CLASS(l->data), spec->name);
    if (same && same->owner_type == GST_TYPE_CUDA_LETTERBOX_BATCH_PAD)
      gst_cuda_letterbox_batch_pad_follow(GST_CUDA_LETTERBOX_BATCH_PAD(l->data), same, &value);
  }
  g_list_free_full(pads, gst_object_unref);
  if (G_OBJECT_CLASS(parent_class)->notify) G_OBJECT_CLASS(parent_class)->notify(object, spec);
}

// Pads

static GstFlowReturn chain(GstPad* pad, GstObject* parent, GstBuffer* buffer) {
  gstvf::BatchPad& state = *GST_CUDA_LETTERBOX_BATCH_PAD(pad)->state;
  state.arrives(buffer);
  const GstFlowReturn flow = state.chain(pad, parent, buffer);
  if (flow != GST_FLOW_OK) state.did_not_arrive(buffer);
  return flow;
}

static GstAggregatorPad* create_new_pad(GstAggregator* self, GstPadTemplate* templ,
                                        const gchar* name, const GstCaps* caps) {
  GstAggregatorPad* pad =
      GST_AGGREGATOR_CLASS(parent_class)->create_new_pad(self, templ, name, caps);
  if (!pad) return nullptr;
  gstvf::BatchPad& state = *GST_CUDA_LETTERBOX_BATCH_PAD(pad)->state;
  // GstAggregator names all pads sink_%u.
  state.stream = guint(strtoul(GST_OBJECT_NAME(pad) + strlen("sink_"), nullptr, 10));
  state.settings = gstvf::locked(self, batcher_of(self).letterbox);
  state.chain = GST_PAD_CHAINFUNC(pad);
  gst_pad_set_chain_function(GST_PAD(pad), chain);
  return pad;
}

static GstPad* request_new_pad(GstElement* element, GstPadTemplate* templ, const gchar* name,
                               const GstCaps* caps) {
  GstPad* pad = GST_ELEMENT_CLASS(parent_class)->request_new_pad(element, templ, name, caps);
  if (pad)
    gst_child_proxy_child_added(GST_CHILD_PROXY(element), G_OBJECT(pad), GST_OBJECT_NAME(pad));
  return pad;
}

static void release_pad(GstElement* element, GstPad* pad) {
  g_autoptr(GstPad) kept = GST_PAD(gst_object_ref(pad));
  gst_child_proxy_child_removed(GST_CHILD_PROXY(element), G_OBJECT(pad), GST_OBJECT_NAME(pad));
  GST_ELEMENT_CLASS(parent_class)->release_pad(element, pad);
  gstvf::BatchPad& state = *GST_CUDA_LETTERBOX_BATCH_PAD(pad)->state;
  state.clear();
  batcher_of(element).removed(state.stream);
}

static GObject* get_child(GstChildProxy* proxy, guint index) {
  const gstvf::ObjectLock lock(proxy);
  gpointer pad = g_list_nth_data(GST_ELEMENT(proxy)->sinkpads, index);
  return pad ? G_OBJECT(g_object_ref(pad)) : nullptr;
}

static guint get_children_count(GstChildProxy* proxy) {
  return gstvf::locked(proxy, GST_ELEMENT(proxy)->numsinkpads);
}

static void init_children(gpointer iface, gpointer) {
  auto* children = static_cast<GstChildProxyInterface*>(iface);
  children->get_child_by_index = get_child;
  children->get_children_count = get_children_count;
}

// Start, stop, clock and contexts

static gboolean start(GstAggregator* self) {
  // Without a clock, GstAggregator would wait for all streams.
  if (!GST_ELEMENT_CLOCK(self)) gst_element_set_clock(GST_ELEMENT(self), nullptr);
  return batcher_of(self).start();
}

static gboolean set_clock(GstElement* element, GstClock* clock) {
  g_autoptr(GstClock) own = clock ? nullptr : gst_system_clock_obtain();
  return GST_ELEMENT_CLASS(parent_class)->set_clock(element, clock ? clock : own);
}

static void set_context(GstElement* element, GstContext* message) {
  Batcher& batcher = batcher_of(element);
  batcher.cuda().set_context(message, gstvf::locked(element, batcher.backend.device));
  GST_ELEMENT_CLASS(parent_class)->set_context(element, message);
}

// Events and queries

static gboolean sink_event(GstAggregator* self, GstAggregatorPad* pad, GstEvent* event) {
  if (GST_EVENT_IS_SERIALIZED(event) && GST_EVENT_TYPE(event) != GST_EVENT_FLUSH_STOP)
    batcher_of(self).handle_event(GST_CUDA_LETTERBOX_BATCH_PAD(pad), event);
  // Events of one stream mean nothing behind the batch.
  const bool ours = GST_EVENT_TYPE(event) == GST_EVENT_CAPS ||
                    (GST_EVENT_IS_STICKY(event) && GST_EVENT_TYPE(event) != GST_EVENT_EOS &&
                     GST_EVENT_TYPE(event) != GST_EVENT_SEGMENT &&
                     GST_EVENT_TYPE(event) != GST_EVENT_STREAM_START);
  if (!ours) return GST_AGGREGATOR_CLASS(parent_class)->sink_event(self, pad, event);
  gst_event_unref(event);
  return TRUE;
}

static gboolean src_event(GstAggregator* self, GstEvent* event) {
  guint stream = 0;
  GstEvent* inner = gstvf::parse_stream_event(event, &stream);
  if (!inner) return GST_AGGREGATOR_CLASS(parent_class)->src_event(self, event);
  g_autoptr(GstEvent) taken = event;
  const std::string name = gstvf::printed("sink_%u", stream);
  g_autoptr(GstPad) pad = gst_element_get_static_pad(GST_ELEMENT(self), name.c_str());
  return pad && gst_pad_push_event(pad, gst_event_ref(inner));
}

static gboolean src_query(GstAggregator* self, GstQuery* query) {
  if (GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT && batcher_of(self).cuda().answer(query))
    return TRUE;
  return GST_AGGREGATOR_CLASS(parent_class)->src_query(self, query);
}

static gboolean sink_query(GstAggregator* self, GstAggregatorPad* pad, GstQuery* query) {
  if (GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT && batcher_of(self).cuda().answer(query))
    return TRUE;
  return GST_AGGREGATOR_CLASS(parent_class)->sink_query(self, pad, query);
}

static gboolean negotiate(GstAggregator* self) {
  const gboolean ok = GST_AGGREGATOR_CLASS(parent_class)->negotiate(self);
  if (!ok) batcher_of(self).not_negotiated();
  return ok;
}

// Class

static void finalize(GObject* object) {
  delete GST_CUDA_LETTERBOX_BATCH(object)->batcher;
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_letterbox_batch_init(GstCudaLetterboxBatch* self) {
  self->batcher = new Batcher(GST_AGGREGATOR(self));
  // Batches go in time whether the sources are live or not.
  gst_aggregator_set_force_live(GST_AGGREGATOR(self), TRUE);
  wait_changed(G_OBJECT(self));
}

static void gst_cuda_letterbox_batch_class_init(GstCudaLetterboxBatchClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* element_class = GST_ELEMENT_CLASS(klass);
  auto* agg_class = GST_AGGREGATOR_CLASS(klass);

  object_class->finalize = finalize;
  object_class->notify = notify;
  gstvf::BatchSettings::install(
      object_class, [](GObject* object) { return &batcher_of(object).settings; }, wait_changed);
  gstvf::LetterboxSettings::install(
      object_class, [](GObject* object) { return &batcher_of(object).letterbox; }, nullptr,
      nullptr);
  gstvf::BackendSettings::install(
      object_class, [](GObject* object) { return &batcher_of(object).backend; }, false);

  gstvf::set_metadata(element_class, "CUDA letterbox batcher", "Filter/Video",
                      "Makes one tensor from the frames of many streams, as network input, on an "
                      "NVIDIA GPU or on the CPU");
  gstvf::add_template(element_class, "sink_%u", GST_PAD_SINK, GST_PAD_REQUEST,
                      gst_cuda_video_filter_caps(nullptr), GST_TYPE_CUDA_LETTERBOX_BATCH_PAD);
  gstvf::add_template(element_class, "src", GST_PAD_SRC, GST_PAD_ALWAYS, gstvf::batch_caps(),
                      GST_TYPE_AGGREGATOR_PAD);
  element_class->request_new_pad = GST_DEBUG_FUNCPTR(request_new_pad);
  element_class->release_pad = GST_DEBUG_FUNCPTR(release_pad);
  element_class->set_clock = GST_DEBUG_FUNCPTR(set_clock);
  element_class->set_context = GST_DEBUG_FUNCPTR(set_context);
  agg_class->create_new_pad = GST_DEBUG_FUNCPTR(create_new_pad);
  agg_class->start = GST_DEBUG_FUNCPTR(start);
  agg_class->sink_event = GST_DEBUG_FUNCPTR(sink_event);
  agg_class->src_event = GST_DEBUG_FUNCPTR(src_event);
  agg_class->src_query = GST_DEBUG_FUNCPTR(src_query);
  agg_class->sink_query = GST_DEBUG_FUNCPTR(sink_query);
  agg_class->negotiate = GST_DEBUG_FUNCPTR(negotiate);
  agg_class->stop = [](GstAggregator* self) -> gboolean {
    batcher_of(self).stop();
    return TRUE;
  };
  agg_class->flush = [](GstAggregator* self) {
    batcher_of(self).flush();
    return GST_FLOW_OK;
  };
  agg_class->update_src_caps = [](GstAggregator* self, GstCaps* downstream, GstCaps** caps) {
    return batcher_of(self).update_caps(downstream, caps);
  };
  agg_class->negotiated_src_caps = [](GstAggregator* self, GstCaps* caps) -> gboolean {
    return batcher_of(self).set_caps(caps);
  };
  agg_class->decide_allocation = [](GstAggregator* self, GstQuery* query) -> gboolean {
    return batcher_of(self).decide_allocation(query);
  };
  agg_class->propose_allocation = [](GstAggregator* self, GstAggregatorPad*, GstQuery*,
                                     GstQuery* query) -> gboolean {
    return batcher_of(self).propose_allocation(query);
  };
  agg_class->get_next_time = [](GstAggregator* self) { return batcher_of(self).next_time(); };
  agg_class->aggregate = [](GstAggregator* self, gboolean) { return batcher_of(self).aggregate(); };
  gstvf::register_letterbox_meta();
}
