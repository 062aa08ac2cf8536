#include "tests/elements/batches.h"

#include <cstring>

namespace vf::test {

Batches::Batches(const Row& row, const std::string& settings, const std::string& dimensions,
                 const std::string& types, const std::string& behind)
    : row_(row) {
  const std::string caps = std::string("other/tensors") +
                           (row.cuda_caps ? "(memory:CUDAMemory)" : "") +
                           ",format=static,num_tensors=1,types=" + types +
                           (dimensions.empty() ? "" : ",dimensions=" + dimensions);
  const std::string line = std::string("cudaletterboxbatch name=batcher backend=") + row.backend +
                           " " + settings + " ! " + caps + " ! " +
                           (behind.empty() ? "appsink name=sink sync=false" : behind);
  GError* error = nullptr;
  pipeline_ = gst_parse_launch(line.c_str(), &error);
  if (!pipeline_ || error) g_error("%s: %s", line.c_str(), error->message);
  gst_object_ref_sink(pipeline_);
  check_details_on(GST_ELEMENT_BUS(pipeline_));
  if (row.needs_device()) give_context(pipeline_);
  batcher_ = gst_bin_get_by_name(GST_BIN(pipeline_), "batcher");
  sink_ = gst_bin_get_by_name(GST_BIN(pipeline_), "sink");
}

Batches::~Batches() {
  gst_element_set_state(pipeline_, GST_STATE_NULL);
  for (auto& [stream, s] : sources_) drop(s);
  gst_object_unref(batcher_);
  if (sink_) gst_object_unref(sink_);
  gst_object_unref(pipeline_);
}

static GstCaps* caps_of(const Row& row, const GstVideoInfo& info) {
  GstCaps* caps = gst_video_info_to_caps(&info);
  if (row.cuda_caps) gstvf::set_caps_in_cuda(caps);
  return caps;
}

static GstVideoInfo info_of(const StreamKind& kind) {
  GstVideoInfo info = video_info(kind.format, kind.width, kind.height);
  info.fps_n = kind.fps;
  info.fps_d = 1;
  return info;
}

static gboolean answer(GstPad* pad, GstObject* parent, GstQuery* query) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY) return gst_pad_query_default(pad, parent, query);
  gst_query_set_latency(query, GPOINTER_TO_INT(gst_pad_get_element_private(pad)), 0,
                        GST_CLOCK_TIME_NONE);
  return TRUE;
}

void Batches::add(guint stream, const StreamKind& kind, bool live) {
  Source s = {};
  s.queue = gst_element_factory_make("queue", nullptr);
  gst_object_ref_sink(s.queue);
  g_object_set(s.queue, "max-size-buffers", 0u, "max-size-bytes", 0u, "max-size-time", guint64(0),
               nullptr);
  gst_bin_add(GST_BIN(pipeline_), s.queue);
  const std::string name = "sink_" + std::to_string(stream);
  s.pad = gst_element_request_pad_simple(batcher_, name.c_str());
  GstPad* from = gst_element_get_static_pad(s.queue, "src");
  gst_pad_link(from, s.pad);
  gst_object_unref(from);
  s.source = gst_pad_new("source", GST_PAD_SRC);
  gst_object_ref_sink(s.source);
  gst_pad_set_element_private(s.source, GINT_TO_POINTER(int(live)));
  gst_pad_set_query_function(s.source, answer);
  GstPad* to = gst_element_get_static_pad(s.queue, "sink");
  gst_pad_link_full(s.source, to, GST_PAD_LINK_CHECK_NOTHING);
  gst_object_unref(to);
  gst_pad_set_active(s.source, TRUE);
  gst_element_sync_state_with_parent(s.queue);
  sources_[stream] = s;
  if (GST_STATE_TARGET(pipeline_) == GST_STATE_PLAYING) start(stream, kind);
  sources_[stream].info = info_of(kind);
}

void Batches::start(guint stream, const StreamKind& kind) {
  const std::string id = "stream-" + std::to_string(stream);
  gst_pad_push_event(source(stream), gst_event_new_stream_start(id.c_str()));
  change(stream, kind);
  segment(stream);
}

void Batches::segment(guint stream) {
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  gst_pad_push_event(source(stream), gst_event_new_segment(&segment));
}

void Batches::drop(Source& s) {
  gst_pad_set_active(s.source, FALSE);
  // The pipeline may still be on its way to PLAYING.
  gst_element_set_locked_state(s.queue, TRUE);
  gst_element_set_state(s.queue, GST_STATE_NULL);
  gst_bin_remove(GST_BIN(pipeline_), s.queue);
  gst_element_release_request_pad(batcher_, s.pad);
  for (gpointer object : {gpointer(s.pad), gpointer(s.queue), gpointer(s.source)})
    gst_object_unref(object);
}

void Batches::remove(guint stream) {
  drop(sources_.at(stream));
  sources_.erase(stream);
}

void Batches::play() {
  gst_element_set_state(pipeline_, GST_STATE_PLAYING);
  for (auto& [stream, s] : sources_) restart(stream);
}

void Batches::change(guint stream, const StreamKind& kind) {
  Source& s = sources_.at(stream);
  s.info = info_of(kind);
  GstCaps* caps = caps_of(row_, s.info);
  gst_pad_push_event(s.source, gst_event_new_caps(caps));
  gst_caps_unref(caps);
}

BufferPtr Batches::push(guint stream, guint32 seed, GstClockTime offset) {
  Source& s = sources_.at(stream);
  const BufferPtr frame = make_frame(row_.cuda_caps, s.info, seed);
  const GstClockTime duration = GST_SECOND / guint64(s.info.fps_n);
  GST_BUFFER_PTS(frame.get()) = s.frames++ * duration + offset;
  GST_BUFFER_DURATION(frame.get()) = duration;
  push(stream, gst_buffer_ref(frame.get()));
  return frame;
}

GstFlowReturn Batches::push(guint stream, GstBuffer* frame) {
  return gst_pad_push(source(stream), frame);
}

void Batches::gap(guint stream) {
  Source& s = sources_.at(stream);
  const GstClockTime duration = GST_SECOND / guint64(s.info.fps_n);
  gst_pad_push_event(s.source, gst_event_new_gap(s.frames++ * duration, duration));
}

void Batches::flush(guint stream) {
  gst_pad_push_event(source(stream), gst_event_new_flush_start());
  gst_pad_push_event(source(stream), gst_event_new_flush_stop(FALSE));
  segment(stream);
}

void Batches::restart(guint stream) {
  const GstVideoInfo& i = info(stream);
  start(stream, {GST_VIDEO_INFO_NAME(&i), i.width, i.height, i.fps_n});
}

void Batches::end(guint stream) {
  gst_pad_push_event(source(stream), gst_event_new_eos());
}

BufferPtr Batches::pull(GstClockTime wait) {
  GstSample* sample = nullptr;
  g_signal_emit_by_name(sink_, "try-pull-sample", wait, &sample);
  if (!sample) return nullptr;
  const BufferPtr buffer = own(gst_buffer_ref(gst_sample_get_buffer(sample)));
  gst_sample_unref(sample);
  return buffer;
}

bool Batches::ended() const {
  gboolean ended = FALSE;
  g_object_get(sink_, "eos", &ended, nullptr);
  return ended;
}

GstCaps* Batches::caps() const {
  GstPad* pad = gst_element_get_static_pad(sink_, "sink");
  GstCaps* caps = gst_pad_get_current_caps(pad);
  gst_object_unref(pad);
  return caps;
}

std::string Batches::message(GstMessageType type, GstClockTime wait, std::string* pad,
                             std::string* property) {
  GstBus* bus = gst_pipeline_get_bus(GST_PIPELINE(pipeline_));
  GstMessage* m = gst_bus_timed_pop_filtered(bus, wait, type);
  gst_object_unref(bus);
  if (!m) return {};
  GError* error = nullptr;
  const GstStructure* details = nullptr;
  if (type == GST_MESSAGE_ERROR) {
    gst_message_parse_error(m, &error, nullptr);
    gst_message_parse_error_details(m, &details);
  } else if (type == GST_MESSAGE_WARNING) {
    gst_message_parse_warning(m, &error, nullptr);
    gst_message_parse_warning_details(m, &details);
  } else {
    gst_message_parse_info(m, &error, nullptr);
  }
  const std::string text = error->message;
  for (const auto& [field, to] : {std::pair("pad", pad), {"property", property}}) {
    const gchar* name = details ? gst_structure_get_string(details, field) : nullptr;
    if (to && name) *to = name;
  }
  g_error_free(error);
  gst_message_unref(m);
  return text;
}

std::string Batches::error(GstClockTime wait, std::string* property) {
  return message(GST_MESSAGE_ERROR, wait, nullptr, property);
}

std::string Batches::warning(std::string* pad, std::string* property) {
  return message(GST_MESSAGE_WARNING, 0, pad, property);
}

std::string Batches::info_message() {
  return message(GST_MESSAGE_INFO, 0, nullptr, nullptr);
}

guint64 Batches::stat(guint stream, const char* field) const {
  GstStructure* stats = nullptr;
  g_object_get(pad(stream), "stats", &stats, nullptr);
  guint64 value = 0;
  gst_structure_get_uint64(stats, field, &value);
  gst_structure_free(stats);
  return value;
}

std::string bytes_of(GstBuffer* buffer) {
  GstMapInfo map;
  if (!gst_buffer_map(buffer, &map, GST_MAP_READ)) return {};
  const std::string bytes(reinterpret_cast<const char*>(map.data), map.size);
  gst_buffer_unmap(buffer, &map);
  return bytes;
}

std::string row_of(GstBuffer* batch, guint n) {
  const std::string all = bytes_of(batch);
  const auto* meta = gst_buffer_get_cuda_letterbox_batch_meta(batch);
  const size_t size = meta ? all.size() / meta->n_rows : 0;
  return all.substr(n * size, size);
}

std::string letterboxed(Case& c, const Row& row, const GstVideoInfo& info, GstBuffer* frame,
                        const std::string& settings, const std::string& dimensions,
                        const std::string& types) {
  const std::string line = std::string("cudaletterbox backend=") + row.backend + " " + settings +
                           " ! other/tensors" + (row.cuda_caps ? "(memory:CUDAMemory)" : "") +
                           ",format=static,num_tensors=1,types=" + types +
                           ",dimensions=" + dimensions + " ! identity";
  GError* error = nullptr;
  GstElement* bin = gst_parse_bin_from_description(line.c_str(), TRUE, &error);
  if (!bin) g_error("%s: %s", line.c_str(), error->message);
  gst_object_ref_sink(bin);
  if (row.needs_device()) give_context(bin);
  GstHarness* harness = gst_harness_new_with_element(bin, "sink", "src");
  gst_harness_set_src_caps(harness, caps_of(row, info));
  gst_harness_push(harness, gst_buffer_ref(frame));
  const BufferPtr out = own(gst_harness_try_pull(harness));
  c.check(out != nullptr, "cudaletterbox gives nothing");
  const std::string bytes = out ? bytes_of(out.get()) : std::string();
  gst_harness_teardown(harness);
  gst_object_unref(bin);
  return bytes;
}

}  // namespace vf::test
