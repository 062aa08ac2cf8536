// Fuzzes caps, properties and the geometry of buffers, for each element on the CPU.
//
// The input is a list of steps. The first byte selects the element. Then each step is a byte that
// selects an action (set a property, send caps, push a buffer, flush, restart, query, send an
// event) and the bytes that the action uses. If the input ends within a step, zeros replace the
// missing bytes.
//
// These rules must hold, besides those that the sanitizers check:
//   - GLib logs no critical message, and no warning except that a property keeps its value.
//   - A buffer that is not accepted leaves an error message on the bus.
//   - A buffer that comes out can be mapped as a frame of the caps that came with it.
//   - A buffer that others hold as well does not change.
//   - Filtering in place changes only bytes that belong to rows of the picture.
//
// cudaletterboxrestore runs behind a letterbox, and cudaletterboxunbatch behind cudaletterboxbatch.
// A probe between them drops frames and damages metas.
//
// libFuzzer calls LLVMFuzzerTestOneInput. Without libFuzzer, replay.cpp does.
#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "gst/gstcudaletterboxbatchmeta.h"
#include "tests/fuzz/values.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" {
GST_PLUGIN_STATIC_DECLARE(cudafilters);
}

namespace {

// Returns the names of the plugin's elements.
const std::vector<std::string>& element_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    GList* features = gst_registry_get_feature_list_by_plugin(gst_registry_get(), "cudafilters");
    for (GList* l = features; l; l = l->next)
      if (GST_IS_ELEMENT_FACTORY(l->data))
        found.push_back(gst_plugin_feature_get_name(GST_PLUGIN_FEATURE(l->data)));
    gst_plugin_feature_list_free(features);
    std::sort(found.begin(), found.end());
    return found;
  }();
  return names;
}

constexpr int kMaxSteps = 24;
// The restorer is no filter. It gives back the frames that a letterbox in front of it received.
constexpr char kRestorer[] = "cudaletterboxrestore";
// The batcher and the unbatcher are always tested together.
constexpr char kBatcher[] = "cudaletterboxbatch", kUnbatcher[] = "cudaletterboxunbatch";

// Returns the element that a byte selects. Each element has a byte that is computed from its name,
// and also owns the bytes below it down to the previous element's. Inputs of the corpus that use an
// element's exact byte still select it when elements are added.
std::string element_of(int byte) {
  const auto distance = [&](const std::string& name) {
    uint32_t h = 2166136261u;
    for (const char c : name) h = (h ^ uint8_t(c)) * 16777619u;
    return uint8_t(h - uint32_t(byte));
  };
  const std::vector<std::string>& names = element_names();
  demand(!names.empty(), "the plugin has elements");
  return *std::min_element(names.begin(), names.end(),
                           [&](const auto& a, const auto& c) { return distance(a) < distance(c); });
}

GLogWriterOutput hear(GLogLevelFlags level, const GLogField* fields, gsize n, gpointer) {
  const char* text = "";
  for (gsize i = 0; i < n; i++)
    if (!strcmp(fields[i].key, "MESSAGE")) text = static_cast<const char*>(fields[i].value);
  if (level & (G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_ERROR))
    demand(false, "no critical message", text);
  if (level & G_LOG_LEVEL_WARNING)
    demand(strstr(text, " stays "), "no warning but of refused values", text);
  return G_LOG_WRITER_HANDLED;
}

std::vector<uint8_t> contents(GstBuffer* buffer) {
  std::vector<uint8_t> bytes(gst_buffer_get_size(buffer));
  if (!bytes.empty()) gst_buffer_extract(buffer, 0, bytes.data(), bytes.size());
  return bytes;
}

// Changes the caps between two elements as a network might.
GstPadProbeReturn narrow(GstPad*, GstPadProbeInfo* info, gpointer data) {
  GstQuery* query = GST_PAD_PROBE_INFO_QUERY(info);
  GstCaps* caps = *static_cast<GstCaps**>(data);
  if (GST_QUERY_TYPE(query) != GST_QUERY_CAPS || !caps) return GST_PAD_PROBE_OK;
  GstCaps* filter = nullptr;
  gst_query_parse_caps(query, &filter);
  GstCaps* result = filter ? gst_caps_intersect(filter, caps) : gst_caps_ref(caps);
  gst_query_set_caps_result(query, result);
  gst_caps_unref(result);
  return GST_PAD_PROBE_HANDLED;
}

class Run {
 public:
  Run(const char* name, Bytes& b) : name_(name), b_(b), bus_(gst_bus_new()) {
    gst_video_info_init(&info_);
    element_ = strcmp(name, kRestorer) ? gst_element_factory_make(name, nullptr) : restorer();
    gst_object_ref_sink(element_);
    gst_element_set_bus(element_, bus_);
    gst_util_set_object_arg(G_OBJECT(GST_IS_BIN(element_) ? parts_[0] : element_), "backend",
                            "cpu");
    harness_ = gst_harness_new_with_element(element_, "sink", "src");
  }
  ~Run() {
    gst_harness_teardown(harness_);
    gst_clear_buffer(&kept_);
    gst_clear_caps(&between_);
    gst_element_set_state(element_, GST_STATE_NULL);
    gst_element_set_bus(element_, nullptr);
    gst_object_unref(bus_);
    gst_object_unref(element_);
  }

  void step() {
    switch (b_.pick(10)) {
      case 0:
      case 1:
        set_property(GST_IS_BIN(element_) ? parts_[b_.pick(2)] : element_, b_);
        break;
      case 2:
      case 3:
        caps();
        break;
      case 4:
      case 5:
      case 6:
        push();
        break;
      case 7:
        gst_harness_push_event(harness_, gst_event_new_flush_start());
        gst_harness_push_event(harness_, gst_event_new_flush_stop(b_.coin()));
        // An event out of order would be a mistake of the harness, not of the element.
        if (gst_pad_has_current_caps(harness_->srcpad)) segment();
        break;
      case 8:
        gst_element_set_state(element_, GST_STATE_READY);
        gst_element_set_state(element_, GST_STATE_PLAYING);
        gst_harness_push_event(harness_, gst_event_new_stream_start("again"));
        has_caps_ = false;
        break;
      default:
        ask();
        break;
    }
  }

 private:
  // Makes a letterbox followed by the restorer.
  GstElement* restorer() {
    parts_[0] = gst_element_factory_make("cudaletterbox", nullptr);
    parts_[1] = gst_element_factory_make(kRestorer, nullptr);
    g_object_set(parts_[0], "keep-original", TRUE, nullptr);
    GstElement* bin = gst_bin_new(nullptr);
    gst_bin_add_many(GST_BIN(bin), parts_[0], parts_[1], nullptr);
    gst_element_link(parts_[0], parts_[1]);
    GstPad* pad = gst_element_get_static_pad(parts_[0], "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, between, this, nullptr);
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, narrow, &between_, nullptr);
    gst_object_unref(pad);
    for (const int end : {0, 1}) {
      const char* name = end ? "src" : "sink";
      pad = gst_element_get_static_pad(parts_[end], name);
      gst_element_add_pad(bin, gst_ghost_pad_new(name, pad));
      gst_object_unref(pad);
    }
    return bin;
  }

  static GstPadProbeReturn between(GstPad*, GstPadProbeInfo* info, gpointer data) {
    Bytes& b = static_cast<Run*>(data)->b_;
    const int how = b.byte();
    if (how & 1) return GST_PAD_PROBE_DROP;
    GstBuffer* buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    info->data = buffer;
    if (how & 2)
      gst_buffer_add_video_region_of_interest_meta(
          buffer, "y", guint(integer(b)), guint(integer(b)), guint(integer(b)), guint(integer(b)));
    GstCustomMeta* meta = gst_buffer_get_custom_meta(buffer, "GstCudaLetterboxMeta");
    if (meta && (how & 12) == 12) {
      constexpr const char* fields[] = {"left", "top", "content-width", "content-height", "scale"};
      gst_structure_set(gst_custom_meta_get_structure(meta), fields[b.pick(5)], G_TYPE_DOUBLE,
                        real(b), nullptr);
    }
    if (meta && (how & 48) == 48) gst_buffer_remove_meta(buffer, &meta->meta);
    // The probe keeps some buffers for a while.
    if (how & 64) gst_buffer_replace(&static_cast<Run*>(data)->kept_, buffer);
    return GST_PAD_PROBE_OK;
  }

  void segment() {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(harness_, gst_event_new_segment(&segment));
  }

  void caps() {
    // Downstream caps decide what comes out of an element that can make tensors.
    if (may_have(name_, GST_PAD_SRC, "other/tensors"))
      gst_harness_set_sink_caps(harness_,
                                b_.coin() ? tensor_caps(b_) : video_caps(b_, name_, true));
    if (GST_IS_BIN(element_)) {
      gst_clear_caps(&between_);
      between_ = b_.coin() ? tensor_caps(b_) : video_caps(b_, name_, true);
    }
    GstCaps* caps = video_caps(b_, name_, false);
    GstVideoInfo info;
    has_caps_ = gst_video_info_from_caps(&info, caps);
    if (has_caps_) info_ = info;
    GstCaps* former = gst_pad_get_current_caps(harness_->sinkpad);
    gst_harness_set_src_caps(harness_, caps);
    // Frames that waited come out in front of the new caps.
    check_output(former, nullptr, {});
    gst_clear_caps(&former);
  }

  void push() {
    if (!has_caps_) return;
    GstBuffer* buffer = make_buffer(b_, info_);
    const bool shared = b_.coin();
    const std::vector<uint8_t> before = contents(buffer);
    sizes_.insert(before.size());
    if (shared) gst_buffer_ref(buffer);
    const GstFlowReturn flow = gst_harness_push(harness_, buffer);
    if (shared) {
      demand(contents(buffer) == before, "a buffer that another holds did not change");
      gst_buffer_unref(buffer);
    }
    GstCaps* caps = gst_pad_get_current_caps(harness_->sinkpad);
    check_output(caps, shared ? nullptr : buffer, before);
    gst_clear_caps(&caps);
    while (GstEvent* event = gst_harness_try_pull_event(harness_)) gst_event_unref(event);
    GstMessage* error = gst_bus_pop_filtered(bus_, GST_MESSAGE_ERROR);
    // The pads themselves may also answer "not negotiated".
    demand(flow != GST_FLOW_ERROR || error, "a flow error has a message on the bus");
    demand(flow == GST_FLOW_OK || flow == GST_FLOW_ERROR || flow == GST_FLOW_NOT_NEGOTIATED ||
               flow == GST_FLOW_EOS,
           "a buffer is accepted or refused", gst_flow_get_name(flow));
    if (error) gst_message_unref(error);
    gst_bus_set_flushing(bus_, TRUE);
    gst_bus_set_flushing(bus_, FALSE);
  }

  // Checks all that has come out, with `caps`.
  void check_output(GstCaps* caps, GstBuffer* in_place, const std::vector<uint8_t>& before) {
    while (GstBuffer* out = gst_harness_try_pull(harness_)) {
      check(out, caps, in_place, before);
      gst_buffer_unref(out);
    }
  }

  void check(GstBuffer* out, GstCaps* caps, GstBuffer* in_place,
             const std::vector<uint8_t>& before) {
    demand(caps, "a buffer comes out after caps");
    GstVideoInfo info;
    GstVideoFrame frame;
    gboolean enabled = TRUE;
    if (g_object_class_find_property(G_OBJECT_GET_CLASS(element_), "enabled"))
      g_object_get(element_, "enabled", &enabled, nullptr);
    const bool passes = GST_IS_BIN(element_) || !enabled ||
                        gst_base_transform_is_passthrough(GST_BASE_TRANSFORM(element_));
    if (gst_video_info_from_caps(&info, caps) && !passes) {
      const GstVideoMeta* meta = gst_buffer_get_video_meta(out);
      // The meta has the caps' size, or is larger with a crop that names the picture.
      if (!meta || (int(meta->width) == info.width && int(meta->height) == info.height)) {
        // The element accepts a buffer without the last row's padding and pushes it when it filters
        // in place, perhaps after others (look-ahead). GStreamer itself does not map such a buffer.
        const bool mapped = gst_video_frame_map(&frame, &info, out, GST_MAP_READ);
        const gsize size = gst_buffer_get_size(out);
        demand(mapped || (size < info.size && sizes_.count(size) > 0),
               "what came out can be mapped");
        if (mapped) gst_video_frame_unmap(&frame);
        if (out == in_place) only_rows_changed(out, info, before);
      }
    }
  }

  void only_rows_changed(GstBuffer* out, const GstVideoInfo& info,
                         const std::vector<uint8_t>& before) {
    gstvf::Format format;
    if (!gstvf::make_format(info, false, &format)) return;
    const GstVideoMeta* meta = gst_buffer_get_video_meta(out);
    std::vector<bool> row(before.size());
    for (int i = 0; i < format.layout.planes; i++) {
      const int m = format.memory_plane[i];
      gsize at = (meta ? meta->offset[m] : info.offset[m]) + format.offset[i];
      const gsize stride = meta ? meta->stride[m] : info.stride[m];
      const int rows = std::max(format.layout.plane[i].height, format.field_rows[i]);
      for (int y = 0; y < rows; y++, at += stride)
        for (gsize x = 0; x < vf::row_bytes(format.layout, i); x++)
          if (at + x < row.size()) row[at + x] = true;
    }
    const std::vector<uint8_t> after = contents(out);
    demand(after.size() == before.size(), "a buffer keeps its size in place");
    for (size_t i = 0; i < after.size(); i++)
      demand(row[i] || after[i] == before[i], "no byte outside the picture changed");
  }

  void ask() {
    GstCaps* caps = video_caps(b_, name_, false);
    switch (b_.pick(4)) {
      case 0:
        gst_pad_peer_query_accept_caps(harness_->srcpad, caps);
        break;
      case 1: {
        GstCaps* answer = gst_pad_peer_query_caps(harness_->srcpad, caps);
        gst_caps_unref(answer);
        break;
      }
      case 2: {
        GstQuery* query = gst_query_new_allocation(caps, TRUE);
        gst_pad_peer_query(harness_->srcpad, query);
        gst_query_unref(query);
        break;
      }
      default:
        gst_pad_push_event(
            harness_->sinkpad,
            gst_event_new_navigation(gst_structure_new(
                "application/x-gst-navigation", "event", G_TYPE_STRING, "mouse-move", "pointer_x",
                G_TYPE_DOUBLE, real(b_), "pointer_y", G_TYPE_DOUBLE, real(b_), nullptr)));
        break;
    }
    gst_caps_unref(caps);
  }

  const char* name_;
  Bytes& b_;
  GstBus* bus_;
  GstElement* element_;
  GstElement* parts_[2] = {};  // set for a bin
  GstCaps* between_ = nullptr;
  GstBuffer* kept_ = nullptr;
  std::set<gsize> sizes_;  // sizes of the buffers that were pushed
  GstHarness* harness_;
  GstVideoInfo info_;
  bool has_caps_ = false;
};

// Runs the batcher and the unbatcher behind it, with up to three streams.
class BatchRun {
 public:
  explicit BatchRun(Bytes& b) : b_(b) {
    for (uint8_t& byte : damage_) byte = b.byte();
    caps_ = b.coin() ? tensor_caps(b, 1 + b.pick(4)) : gst_caps_new_any();
    bin_ = gst_object_ref_sink(gst_pipeline_new(nullptr));
    batcher_ = gst_element_factory_make(kBatcher, nullptr);
    GstElement* unbatcher = gst_element_factory_make(kUnbatcher, nullptr);
    gst_util_set_object_arg(G_OBJECT(batcher_), "backend", "cpu");
    g_object_set(batcher_, "max-wait", guint(b.pick(3)), nullptr);
    gst_bin_add_many(GST_BIN(bin_), batcher_, unbatcher, nullptr);
    gst_element_link(batcher_, unbatcher);
    bus_ = gst_pipeline_get_bus(GST_PIPELINE(bin_));
    batches_pad_ = gst_element_get_static_pad(batcher_, "src");
    gst_pad_add_probe(batches_pad_, GST_PAD_PROBE_TYPE_BUFFER, between, this, nullptr);
    gst_pad_add_probe(batches_pad_, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, narrow, &caps_, nullptr);
    g_signal_connect(unbatcher, "pad-added", G_CALLBACK(added), nullptr);
    for (Stream& s : streams_) add(s);
    gst_element_set_state(GST_ELEMENT(bin_), GST_STATE_PLAYING);
  }
  ~BatchRun() {
    gst_element_set_state(GST_ELEMENT(bin_), GST_STATE_NULL);
    for (Stream& s : streams_) remove(s);
    gst_object_unref(batches_pad_);
    gst_object_unref(bus_);
    gst_object_unref(bin_);
    gst_caps_unref(caps_);
  }

  void step() {
    Stream& s = streams_[b_.pick(G_N_ELEMENTS(streams_))];
    switch (b_.pick(11)) {
      case 0:
        set_property(batcher_, b_);
        break;
      case 1:
        set_property(s.pad, b_);
        break;
      case 2:
      case 3:
        start(s);
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        if (!s.started) start(s);
        if (s.started && takes_frames()) gst_pad_push(s.source, make_buffer(b_, s.info));
        break;
      case 8:
        if (!s.started) break;
        gst_pad_push_event(s.source, gst_event_new_flush_start());
        gst_pad_push_event(s.source, gst_event_new_flush_stop(b_.coin()));
        segment(s);
        break;
      case 9:
        if (s.started) gst_pad_push_event(s.source, gst_event_new_eos());
        break;
      default:
        remove(s);
        add(s);
        break;
    }
  }

 private:
  struct Stream {
    GstPad *source, *pad;
    GstVideoInfo info;
    bool started;
  };

  // After an error, or the end of all streams, the batcher's thread rests. A stream that is added
  // or flushed later takes two frames, and the push of a third would wait for that thread for ever.
  bool takes_frames() {
    if (GstMessage* error = gst_bus_pop_filtered(bus_, GST_MESSAGE_ERROR)) {
      failed_ = true;
      gst_message_unref(error);
    }
    GstEvent* end = gst_pad_get_sticky_event(batches_pad_, GST_EVENT_EOS, 0);
    if (end) gst_event_unref(end);
    return !failed_ && !end;
  }
  void add(Stream& s) {
    s.pad = gst_element_request_pad_simple(batcher_, "sink_%u");
    s.source = GST_PAD(gst_object_ref_sink(gst_pad_new("source", GST_PAD_SRC)));
    s.started = false;
    gst_pad_set_active(s.source, TRUE);
    gst_pad_link_full(s.source, s.pad, GST_PAD_LINK_CHECK_NOTHING);
  }
  void remove(Stream& s) {
    gst_pad_set_active(s.source, FALSE);
    gst_element_release_request_pad(batcher_, s.pad);
    gst_object_unref(s.pad);
    gst_object_unref(s.source);
  }
  static void segment(Stream& s) {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_pad_push_event(s.source, gst_event_new_segment(&segment));
  }
  void start(Stream& s) {
    // Without caps behind, rows have the size of the first frame.
    GstCaps* caps = video_caps(b_, kBatcher, gst_caps_is_any(caps_));
    s.started = gst_video_info_from_caps(&s.info, caps);
    if (s.started) {
      gst_pad_push_event(s.source, gst_event_new_stream_start("stream"));
      gst_pad_push_event(s.source, gst_event_new_caps(caps));
      segment(s);
    }
    gst_caps_unref(caps);
  }

  // Runs in the batcher's thread, so it has bytes of its own.
  static GstPadProbeReturn between(GstPad*, GstPadProbeInfo* info, gpointer data) {
    auto* self = static_cast<BatchRun*>(data);
    const uint8_t how = self->damage_[self->batches_++ % sizeof self->damage_];
    Bytes b(self->damage_, sizeof self->damage_);
    if ((how & 3) == 3) return GST_PAD_PROBE_DROP;
    GstBuffer* buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    info->data = buffer;
    GstCudaLetterboxBatchMeta* meta = gst_buffer_get_cuda_letterbox_batch_meta(buffer);
    demand(meta, "a batch says what its rows are");
    demand(gst_buffer_get_size(buffer) % meta->n_rows == 0, "all rows have the same size");
    for (guint i = 0; i < meta->n_rows; i++) {
      GstBuffer* frame = gst_cuda_letterbox_batch_meta_get_writable_frame(meta, i);
      if (!frame || (how >> 2 & 3) != i) continue;
      gst_buffer_add_video_region_of_interest_meta(frame, "y", guint(integer(b)), guint(integer(b)),
                                                   guint(integer(b)), guint(integer(b)));
      GstCustomMeta* place = gst_buffer_get_custom_meta(frame, "GstCudaLetterboxMeta");
      if (place && (how & 32))
        gst_structure_set(gst_custom_meta_get_structure(place), "scale", G_TYPE_DOUBLE, real(b),
                          "left", G_TYPE_DOUBLE, real(b), nullptr);
      if (place && (how & 192) == 192) gst_buffer_remove_meta(frame, &place->meta);
      if ((how & 144) == 144) gst_clear_buffer(&meta->rows[i].frame);
    }
    return GST_PAD_PROBE_OK;
  }
  static GstFlowReturn take(GstPad* pad, GstObject*, GstBuffer* buffer) {
    demand(gst_pad_has_current_caps(pad), "a frame comes out after caps");
    gst_buffer_unref(buffer);
    return GST_FLOW_OK;
  }
  static void added(GstElement*, GstPad* pad, gpointer) {
    GstPad* sink = gst_pad_new("sink", GST_PAD_SINK);
    gst_pad_set_chain_function(sink, take);
    gst_pad_set_active(sink, TRUE);
    gst_pad_link(pad, sink);
    // The link holds no reference, so the pad of the unbatcher keeps its peer.
    g_object_set_data_full(G_OBJECT(pad), "sink", gst_object_ref_sink(sink), gst_object_unref);
  }

  Bytes& b_;
  uint8_t damage_[16];
  size_t batches_ = 0;
  GstCaps* caps_;
  gpointer bin_;
  GstBus* bus_;
  GstElement* batcher_;
  GstPad* batches_pad_;
  bool failed_ = false;
  Stream streams_[3];
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // Only the tested elements are registered, without scanning the machine's plugins.
  g_setenv("GST_REGISTRY_DISABLE", "yes", FALSE);
  g_log_set_writer_func(hear, nullptr, nullptr);
  gst_init(nullptr, nullptr);
  GST_PLUGIN_STATIC_REGISTER(cudafilters);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes b(data, size);
  const std::string name = element_of(b.byte());
  const auto steps = [&b](auto&& run) {
    for (int i = 0; i < kMaxSteps && !b.empty(); i++) run.step();
  };
  if (name == kBatcher || name == kUnbatcher)
    steps(BatchRun(b));
  else
    steps(Run(name.c_str(), b));
  return 0;
}
