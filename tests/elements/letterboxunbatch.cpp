// Tests cudaletterboxunbatch behind cudaletterboxbatch, with a simulated network between them.
#include <gst/video/navigation.h>

#include <atomic>
#include <cstring>

#include "gst/base/analytics.h"
#include "tests/elements/batches.h"

namespace vf::test {
namespace {

using Network = std::function<void(GstCudaLetterboxBatchMeta* meta)>;

// Is a batcher, a network and an unbatcher, with a sink for each stream that appears.
class Round {
 public:
  Round(const Row& row, const std::string& settings, const std::string& dimensions)
      : batches(row, settings, dimensions, "float32",
                "identity name=network ! cudaletterboxunbatch name=unbatcher") {
    GstElement* element = gst_bin_get_by_name(GST_BIN(batches.pipeline()), "network");
    GstPad* pad = gst_element_get_static_pad(element, "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, pass, this, nullptr);
    gst_object_unref(pad);
    gst_object_unref(element);
    unbatcher_ = gst_bin_get_by_name(GST_BIN(batches.pipeline()), "unbatcher");
    g_signal_connect(unbatcher_, "pad-added", G_CALLBACK(added), this);
    g_signal_connect(unbatcher_, "pad-removed", G_CALLBACK(removed), this);
  }
  ~Round() {
    gst_element_set_state(batches.pipeline(), GST_STATE_NULL);
    // The pipeline removes the pads that are left when `batches` goes, after everything here.
    g_signal_handlers_disconnect_by_data(unbatcher_, this);
    gst_object_unref(unbatcher_);
    for (auto& [stream, sink] : sinks_) gst_object_unref(sink);
    g_mutex_clear(&lock_);
    g_cond_clear(&changed_);
  }
  Round(const Round&) = delete;

  // Returns the next frame of a stream, or null if none comes.
  BufferPtr pull(guint stream, GstClockTime wait = kPatience) {
    GstElement* sink = sink_of(stream);
    if (!sink) return nullptr;
    GstSample* sample = nullptr;
    g_signal_emit_by_name(sink, "try-pull-sample", wait, &sample);
    gst_object_unref(sink);
    if (!sample) return nullptr;
    const BufferPtr buffer = own(gst_buffer_ref(gst_sample_get_buffer(sample)));
    caps_ = "";
    gchar* text = gst_caps_to_string(gst_sample_get_caps(sample));
    caps_ = text;
    g_free(text);
    gst_sample_unref(sample);
    return buffer;
  }
  // Returns the GAP event that a stream has got last ("PTS+DURATION" in milliseconds), and how many
  // frames came before it: "2: 40+80". Waits until there are `count`.
  std::string gap(guint stream, size_t count) {
    g_mutex_lock(&lock_);
    const gint64 end = g_get_monotonic_time() + gint64(kPatience / GST_USECOND);
    while (gaps_[stream].size() < count && g_cond_wait_until(&changed_, &lock_, end)) {
    }
    const std::vector<std::string>& all = gaps_[stream];
    const std::string last = all.size() != count ? std::to_string(all.size()) + " gaps"
                             : count             ? all.back()
                                                 : "none";
    g_mutex_unlock(&lock_);
    return last;
  }
  // Returns the caps of the last frame.
  const std::string& caps() const { return caps_; }
  bool ended(guint stream) {
    gboolean ended = FALSE;
    if (GstElement* sink = sink_of(stream)) {
      for (int i = 0; i < 6000 && !ended; i++) {
        g_object_get(sink, "eos", &ended, nullptr);
        if (!ended) g_usleep(10000);
      }
      gst_object_unref(sink);
    }
    return ended;
  }
  // Waits until a pad was removed.
  bool was_removed(const std::string& name) {
    g_mutex_lock(&lock_);
    const gint64 end = g_get_monotonic_time() + gint64(kPatience / GST_USECOND);
    while (removed_ != name && g_cond_wait_until(&changed_, &lock_, end)) {
    }
    const bool ok = removed_ == name;
    g_mutex_unlock(&lock_);
    return ok;
  }
  bool send(guint stream, GstEvent* event) {
    const std::string name = "src_" + std::to_string(stream);
    GstPad* pad = gst_element_get_static_pad(unbatcher_, name.c_str());
    const bool ok = pad && gst_pad_send_event(pad, event);
    if (pad) gst_object_unref(pad);
    return ok;
  }

  Batches batches;
  Network network;

 private:
  static GstPadProbeReturn pass(GstPad*, GstPadProbeInfo* info, gpointer data) {
    auto* self = static_cast<Round*>(data);
    if (!self->network) return GST_PAD_PROBE_OK;
    info->data = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    self->network(gst_buffer_get_cuda_letterbox_batch_meta(GST_PAD_PROBE_INFO_BUFFER(info)));
    return GST_PAD_PROBE_OK;
  }
  static void added(GstElement*, GstPad* pad, gpointer data) {
    auto* self = static_cast<Round*>(data);
    GstElement* sink = gst_element_factory_make("appsink", nullptr);
    g_object_set(sink, "sync", FALSE, "async", FALSE, "enable-last-sample", FALSE, nullptr);
    gst_bin_add(GST_BIN(self->batches.pipeline()), GST_ELEMENT(gst_object_ref(sink)));
    GstPad* to = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(
        pad, GstPadProbeType(GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM | GST_PAD_PROBE_TYPE_BUFFER),
        note_gap, self, nullptr);
    gst_pad_link(pad, to);
    gst_object_unref(to);
    gst_element_set_state(sink, GST_STATE_PLAYING);
    g_mutex_lock(&self->lock_);
    self->sinks_.emplace_back(guint(atoi(GST_PAD_NAME(pad) + strlen("src_"))), sink);
    g_cond_broadcast(&self->changed_);
    g_mutex_unlock(&self->lock_);
  }
  static GstPadProbeReturn note_gap(GstPad* pad, GstPadProbeInfo* info, gpointer data) {
    auto* self = static_cast<Round*>(data);
    const guint stream = guint(atoi(GST_PAD_NAME(pad) + strlen("src_")));
    g_mutex_lock(&self->lock_);
    if (GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER) {
      self->frames_[stream]++;
    } else if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_GAP) {
      GstClockTime pts, duration;
      gst_event_parse_gap(GST_PAD_PROBE_INFO_EVENT(info), &pts, &duration);
      self->gaps_[stream].push_back(std::to_string(self->frames_[stream]) + ": " +
                                    std::to_string(pts / GST_MSECOND) + "+" +
                                    std::to_string(duration / GST_MSECOND));
    }
    g_cond_broadcast(&self->changed_);
    g_mutex_unlock(&self->lock_);
    return GST_PAD_PROBE_OK;
  }
  static void removed(GstElement*, GstPad* pad, gpointer data) {
    auto* self = static_cast<Round*>(data);
    g_mutex_lock(&self->lock_);
    self->removed_ = GST_PAD_NAME(pad);
    for (auto& [stream, sink] : self->sinks_)
      if ("src_" + std::to_string(stream) == self->removed_) stream = G_MAXUINT;
    g_cond_broadcast(&self->changed_);
    g_mutex_unlock(&self->lock_);
  }
  // Waits for the sink of a stream, the newest if there were several (a full reference).
  GstElement* sink_of(guint stream) {
    g_mutex_lock(&lock_);
    const gint64 end = g_get_monotonic_time() + gint64(kPatience / GST_USECOND);
    GstElement* found = nullptr;
    do {
      for (auto& [number, sink] : sinks_)
        if (number == stream) found = sink;
    } while (!found && g_cond_wait_until(&changed_, &lock_, end));
    if (found) gst_object_ref(found);
    g_mutex_unlock(&lock_);
    return found;
  }

  GstElement* unbatcher_;
  std::string caps_;
  GMutex lock_ = {};
  GCond changed_ = {};
  std::vector<std::pair<guint, GstElement*>> sinks_;
  std::string removed_;
  std::map<guint, int> frames_;  // one count for each stream
  std::map<guint, std::vector<std::string>> gaps_;
};

GstEvent* caps_event(const char* text) {
  GstCaps* caps = gst_caps_from_string(text);
  GstEvent* event = gst_event_new_caps(caps);
  gst_caps_unref(caps);
  return event;
}

GstVideoRegionOfInterestMeta* region(GstBuffer* buffer, guint n) {
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta_filtered(
             buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE))
    if (n-- == 0) return reinterpret_cast<GstVideoRegionOfInterestMeta*>(meta);
  return nullptr;
}

std::string described(GstBuffer* buffer) {
  std::string text;
  for (guint n = 0; auto* r = region(buffer, n); n++)
    text += std::string(text.empty() ? "" : "; ") + g_quark_to_string(r->roi_type) + " " +
            std::to_string(r->x) + "," + std::to_string(r->y) + " " + std::to_string(r->w) + "x" +
            std::to_string(r->h);
  return text;
}

// The input's own buffers come out, each on its stream's pad, with what the network found in its row.
void same_buffers(Case& c, const Row& row) {
  if (!usable(c, row)) return;
  Round r(row, "max-wait=4294967295", "64:64:3:3");
  const StreamKind kinds[] = {{"NV12", 128, 64}, {"RGB", 64, 128}, {"I420", 128, 64}};
  for (guint i = 0; i < 3; i++) r.batches.add(i, kinds[i]);
  // Row i has a box of its own. A classifier adds to the original's own region.
  r.network = [](GstCudaLetterboxBatchMeta* meta) {
    for (guint i = 0; i < meta->n_rows; i++) {
      GstBuffer* frame = gst_cuda_letterbox_batch_meta_get_writable_frame(meta, i);
      gst_buffer_add_video_region_of_interest_meta(frame, "found", 20 + i, 22, 10, 8);
    }
  };
  r.batches.play();
  for (guint32 k = 0; k < 4 && c.ok(); k++) {
    GstBuffer* pushed[3];
    std::string before[3];
    for (guint i = 0; i < 3; i++) {
      const BufferPtr made = make_frame(row.cuda_caps, r.batches.info(i), 3 * k + i);
      before[i] = bytes_of(packed_copy(r.batches.info(i), made.get()).get());
      // Nobody else holds this buffer.
      pushed[i] = gst_buffer_copy(made.get());
      GST_BUFFER_PTS(pushed[i]) = k * 40 * GST_MSECOND;
      gst_buffer_add_video_region_of_interest_meta(pushed[i], "own", 4, 6, 8, 10);
      r.batches.push(i, pushed[i]);
    }
    for (guint i = 0; i < 3; i++) {
      const BufferPtr out = r.pull(i);
      if (!out) return c.fail("stream %u: nothing came out: %s", i, r.batches.error().c_str());
      c.check(out.get() == pushed[i], "stream %u: another buffer came out", i);
      c.check(GST_BUFFER_PTS(out.get()) == k * 40 * GST_MSECOND, "stream %u: PTS", i);
      c.check(bytes_of(packed_copy(r.batches.info(i), out.get()).get()) == before[i],
              "stream %u: pixels changed", i);
      // Pictures are 64 x 32 below a border of 16 rows, or 32 x 64 right of one.
      const std::string want =
          i == 1 ? "own 4,6 8x10; found 10,44 20x16"
                 : "own 4,6 8x10; found " + std::to_string(2 * (20 + i)) + ",12 20x16";
      c.check(described(out.get()) == want, "stream %u: regions %s, not %s", i,
              described(out.get()).c_str(), want.c_str());
      c.check(r.caps().find("format=(string)" + std::string(kinds[i].format)) != std::string::npos,
              "stream %u: caps %s", i, r.caps().c_str());
    }
  }
}

// An application that copies a batch and changes one copy does not change the other.
void copied_batch(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8});
  b.play();
  for (guint i = 0; i < 2; i++) b.push(i, i);
  const BufferPtr batch = b.pull();
  if (!batch) return c.fail("no batch: %s", b.error().c_str());
  const BufferPtr copy = own(gst_buffer_copy(batch.get()));
  auto* from = gst_buffer_get_cuda_letterbox_batch_meta(batch.get());
  auto* to = gst_buffer_get_cuda_letterbox_batch_meta(copy.get());
  c.check(to && to->n_rows == 2, "the copy has no rows");
  if (!c.ok()) return;
  GstBuffer* frame = gst_cuda_letterbox_batch_meta_get_writable_frame(to, 1);
  gst_buffer_add_video_region_of_interest_meta(frame, "found", 1, 2, 3, 4);
  c.check(described(to->rows[1].frame) == "found 1,2 3x4", "the copy was not changed");
  c.check(described(from->rows[1].frame).empty(), "the batch was changed, too");
  c.check(!gst_cuda_letterbox_batch_meta_get_writable_frame(to, 2), "there is no row 2");
}

void ends(Case& c) {
  Round r(kRows[0], "max-wait=50", "8:8:3:2");
  r.batches.add(0, {"RGB", 8, 8});
  r.batches.add(1, {"RGB", 8, 8});
  r.batches.play();
  for (guint32 k = 0; k < 3; k++)
    for (guint i = 0; i < 2; i++) r.batches.push(i, k);
  r.batches.end(1);
  for (guint32 k = 0; k < 3; k++)
    for (guint i = 0; i < 2; i++) c.check(r.pull(i) != nullptr, "frame %u of stream %u", k, i);
  // A stream ends while others go on, and whether or not they have a frame.
  c.check(r.ended(1), "stream 1 has not ended");
  r.batches.push(0, 9);
  c.check(r.pull(0) != nullptr, "stream 0 stopped");
  r.batches.remove(1);
  r.batches.push(0, 10);
  c.check(r.pull(0) != nullptr, "stream 0 stopped");
  c.check(r.was_removed("src_1"), "the pad of a stream that went stays");
  // Another stream takes the number.
  r.batches.add(1, {"I420", 16, 8});
  r.batches.push(1, 11);
  r.batches.push(0, 11);
  c.check(r.pull(0) != nullptr, "stream 0 stopped");
  c.check(r.pull(1) != nullptr, "the new stream does not come");
  c.check(r.caps().find("I420") != std::string::npos, "caps %s", r.caps().c_str());
  r.batches.end(0);
  r.batches.end(1);
  c.check(r.ended(0) && r.ended(1), "no end");
}

// GAP events reach the output of their stream, in order with its frames, and also before its first
// frame, so that a sink behind it need not wait for one.
void gaps(Case& c) {
  Round r(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) r.batches.add(i, {"RGB", 8, 8});
  r.batches.play();
  const auto gap = [&](guint stream, guint pts, guint duration) {
    gst_pad_push_event(r.batches.source(stream),
                       gst_event_new_gap(pts * GST_MSECOND, duration * GST_MSECOND));
  };
  gap(1, 0, 80);
  r.batches.push(0, 1);
  c.check(r.pull(0) != nullptr, "stream 0 waits: %s", r.batches.error().c_str());
  r.batches.push(0, 1);
  r.batches.push(1, 1);
  for (guint i = 0; i < 2; i++) c.check(r.pull(i) != nullptr, "stream %u has no frame", i);
  c.check(r.gap(1, 1) == "0: 0+80", "first gap: %s", r.gap(1, 1).c_str());
  gap(1, 120, 40);
  c.check(r.gap(1, 2) == "1: 120+40", "second gap: %s", r.gap(1, 2).c_str());
  r.batches.push(0, 1);
  c.check(r.pull(0) != nullptr, "a gap was waited for");
  r.batches.push(0, 1);
  r.batches.push(1, 1);
  c.check(r.pull(0) && r.pull(1), "the stream does not go on behind a gap");
  c.check(r.gap(0, 0) == "none", "the other stream got a gap");
}

// A stream whose caps cannot be used has gaps in place of its frames, and ends.
void refused_stream(Case& c) {
  Round r(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) r.batches.add(i, {"RGB", 8, 8});
  r.batches.play();
  GstEvent* interlaced = caps_event(
      "video/x-raw,format=RGB,width=8,height=8,framerate=25/1,interlace-mode=interleaved");
  gst_pad_push_event(r.batches.source(1), interlaced);
  for (guint k = 0; k < 2; k++) {
    r.batches.push(1, k);
    for (int i = 0; i < 6000 && r.batches.stat(1, "dropped") <= k; i++) g_usleep(10000);
    r.batches.push(0, k);
    c.check(r.pull(0) != nullptr, "stream 0 waits: %s", r.batches.error().c_str());
  }
  c.check(r.gap(1, 2) == "0: 40+40", "the gaps: %s", r.gap(1, 2).c_str());
  r.batches.end(1);
  r.batches.push(0, 1);
  c.check(r.pull(0) && r.ended(1), "stream 1 has not ended");
}

// A GAP event stays behind a frame that waits for its batch.
void gap_behind_frame(Case& c) {
  Round r(kRows[0], "max-wait=4294967295 max-per-stream=2 batch-size=4", "8:8:3:4");
  for (guint i = 0; i < 2; i++) r.batches.add(i, {"RGB", 8, 8});
  r.batches.play();
  // The first batch settles the caps.
  for (guint k = 0; k < 2; k++)
    for (guint i = 0; i < 2; i++) r.batches.push(i, k);
  for (guint k = 0; k < 2; k++)
    for (guint i = 0; i < 2; i++) c.check(r.pull(i) != nullptr, "stream %u has no frame", i);
  r.batches.push(1, 1);
  r.batches.gap(1);
  g_usleep(20000);
  for (guint k = 0; k < 2; k++) r.batches.push(0, k);
  c.check(r.pull(1) != nullptr, "no frame: %s", r.batches.error().c_str());
  for (guint k = 0; k < 2; k++) r.batches.push(0, k);
  c.check(r.gap(1, 1) == "3: 120+40", "the gap: %s", r.gap(1, 1).c_str());
}

// Events of one output reach the source of that stream only.
void upstream_events(Case& c) {
  Round r(kRows[0], "max-wait=4294967295", "8:8:3:2");
  std::atomic<int> heard[2] = {};
  for (guint i = 0; i < 2; i++) {
    r.batches.add(i, {"RGB", 8, 8});
    gst_pad_add_probe(
        r.batches.source(i), GST_PAD_PROBE_TYPE_EVENT_UPSTREAM,
        [](GstPad*, GstPadProbeInfo* info, gpointer count) {
          if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_NAVIGATION)
            ++*static_cast<std::atomic<int>*>(count);
          return GST_PAD_PROBE_OK;
        },
        &heard[i], nullptr);
  }
  r.batches.play();
  for (guint i = 0; i < 2; i++) r.batches.push(i, i);
  for (guint i = 0; i < 2; i++) c.check(r.pull(i) != nullptr, "nothing came out");
  r.send(1, gst_navigation_event_new_mouse_move(3, 4, GST_NAVIGATION_MODIFIER_NONE));
  c.check(heard[0] == 0 && heard[1] == 1, "the streams heard %d and %d events", heard[0].load(),
          heard[1].load());
}

void without_frames(Case& c) {
  GstHarness* harness = gst_harness_new_with_padnames("cudaletterboxunbatch", "sink", nullptr);
  GstBus* bus = gst_bus_new();
  check_details_on(bus);
  gst_element_set_bus(harness->element, bus);
  gst_harness_set_src_caps_str(
      harness,
      "other/tensors,format=static,num_tensors=1,types=uint8,dimensions=8:8:3:1,framerate=0/1");
  c.check(
      gst_harness_push(harness, gst_buffer_new_allocate(nullptr, 192, nullptr)) == GST_FLOW_ERROR,
      "a tensor without rows was taken");
  const std::string text = error_on(bus);
  c.check(text.find("cudaletterboxbatch") != std::string::npos, "the error is: %s", text.c_str());
  gst_element_set_bus(harness->element, nullptr);
  gst_object_unref(bus);
  gst_harness_teardown(harness);
}

// Is an unbatcher with a sink for each of two streams, behind elements of the test or none.
class Standard {
 public:
  explicit Standard(const std::string& front = "") {
    const std::string line = front + "cudaletterboxunbatch name=streams" +
                             " streams.src_0 ! queue ! appsink name=sink0 sync=false async=false" +
                             " streams.src_1 ! queue ! appsink name=sink1 sync=false async=false";
    GError* error = nullptr;
    pipeline_ = gst_parse_launch(line.c_str(), &error);
    if (!pipeline_ || error) g_error("%s: %s", line.c_str(), error->message);
    gst_object_ref_sink(pipeline_);
    check_details_on(GST_ELEMENT_BUS(pipeline_));
    gst_element_set_state(pipeline_, GST_STATE_PLAYING);
  }
  ~Standard() {
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    gst_object_unref(pipeline_);
  }
  Standard(const Standard&) = delete;

  // Gives the unbatcher a batch (taken), which nobody else holds then.
  void push(GstBuffer* batch) {
    GstElement* element = gst_bin_get_by_name(GST_BIN(pipeline_), "streams");
    GstPad* pad = gst_element_get_static_pad(element, "sink");
    if (!gst_pad_has_current_caps(pad)) {
      GstSegment segment;
      gst_segment_init(&segment, GST_FORMAT_TIME);
      gst_pad_send_event(pad, gst_event_new_stream_start("batches"));
      gst_pad_send_event(pad,
                         caps_event("multistream/x-analytics-batch(meta:GstAnalyticsBatchMeta)"));
      gst_pad_send_event(pad, gst_event_new_segment(&segment));
    }
    gst_pad_chain(pad, batch);
    gst_object_unref(pad);
    gst_object_unref(element);
  }
  // Returns the next frame of a stream, or null at its end.
  BufferPtr pull(guint stream, std::string* caps = nullptr) {
    const std::string name = "sink" + std::to_string(stream);
    GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline_), name.c_str());
    GstSample* sample = nullptr;
    g_signal_emit_by_name(sink, "try-pull-sample", kPatience, &sample);
    g_object_get(sink, "eos", &ended, nullptr);
    gst_object_unref(sink);
    if (!sample) return nullptr;
    gchar* text = gst_caps_to_string(gst_sample_get_caps(sample));
    if (caps) *caps = text;
    g_free(text);
    const BufferPtr buffer = own(gst_buffer_ref(gst_sample_get_buffer(sample)));
    gst_sample_unref(sample);
    return buffer;
  }
  std::string error() {
    GstBus* bus = gst_pipeline_get_bus(GST_PIPELINE(pipeline_));
    const std::string text = error_on(bus);
    gst_object_unref(bus);
    return text;
  }

  gboolean ended = FALSE;  // the sink of the last pull() has ended

 private:
  GstElement* pipeline_;
};

template <class T>
gstvf::MiniObjectPtr object(T* taken) {
  return gstvf::MiniObjectPtr(GST_MINI_OBJECT_CAST(taken));
}

// Letterboxes an original (taken) of 128 x 64 RGB to 64 x 64, and keeps the original.
GstBuffer* letterbox_with_original(GstBuffer* original) {
  GstElement* bin = gst_parse_bin_from_description(
      "cudaletterbox backend=cpu keep-original=true ! video/x-raw,format=RGB,width=64,height=64 ! "
      "identity",
      TRUE, nullptr);
  gst_object_ref_sink(bin);
  GstHarness* harness = gst_harness_new_with_element(bin, "sink", "src");
  gst_harness_set_src_caps_str(harness,
                               "video/x-raw,format=RGB,width=128,height=64,framerate=25/1");
  gst_harness_push(harness, original);
  GstBuffer* out = gst_harness_try_pull(harness);
  gst_harness_teardown(harness);
  gst_object_unref(bin);
  return out;
}

constexpr char kNoStandard[] = "GstAnalyticsBatchMeta exists from GStreamer 1.28 on";

// A batch as analyticscombiner makes it: stream 0 is letterboxed and has its originals, and stream
// 1 is video as it came, in a list, without a stream-start and a segment.
void standard_batch(Case& c) {
  if (!gstvf::kHasAnalyticsBatch) return c.skip(kNoStandard);
  Standard streams;
  const GstVideoInfo rgb = video_info("RGB", 128, 64), gray = video_info("GRAY8", 16, 8);
  GstEvent* start = gst_event_new_stream_start("first");
  for (guint32 k = 0; k < 3 && c.ok(); k++) {
    GstBuffer* pushed = gst_buffer_copy(make_frame(false, rgb, k).get());
    GST_BUFFER_PTS(pushed) = k * 40 * GST_MSECOND;
    GstBuffer* frame = letterbox_with_original(pushed);
    if (!frame) return c.fail("cudaletterbox gives nothing");
    gst_buffer_add_video_region_of_interest_meta(frame, "found", 20, 22, 10, 8);
    std::vector<gstvf::BatchedStream> parts(2);
    parts[0].events.push_back(object(gst_event_ref(start)));
    parts[0].events.push_back(
        object(caps_event("video/x-raw,format=RGB,width=64,height=64,framerate=25/1")));
    parts[0].objects.push_back(object(gst_event_new_gap(0, 1)));
    parts[0].objects.push_back(object(frame));
    parts[1].index = 1;
    parts[1].events.push_back(
        object(caps_event("video/x-raw,format=GRAY8,width=16,height=8,framerate=25/1")));
    GstBufferList* list = gst_buffer_list_new();
    std::string want[2];
    for (guint i = 0; i < 2; i++) {
      GstBuffer* plain = gst_buffer_copy(make_frame(false, gray, 10 + 2 * k + i).get());
      want[i] = bytes_of(plain);
      gst_buffer_list_add(list, plain);
    }
    parts[1].objects.push_back(object(list));
    if (k == 2) parts[1].objects.push_back(object(gst_event_new_eos()));
    GstBuffer* batch = gst_buffer_new();
    gstvf::add_batched_streams(batch, std::move(parts));
    streams.push(batch);
    std::string caps;
    const BufferPtr out = streams.pull(0, &caps);
    if (!out) return c.fail("nothing came out: %s", streams.error().c_str());
    c.check(out.get() == pushed, "another buffer came out");
    c.check(described(out.get()) == "found 40,12 20x16", "regions %s",
            described(out.get()).c_str());
    c.check(caps.find("width=(int)128") != std::string::npos, "caps %s", caps.c_str());
    for (guint i = 0; i < 2; i++) {
      const BufferPtr plain = streams.pull(1, &caps);
      c.check(plain && bytes_of(plain.get()) == want[i], "frame %u of stream 1", i);
    }
    c.check(caps.find("GRAY8") != std::string::npos, "caps %s", caps.c_str());
  }
  gst_event_unref(start);
  c.check(!streams.pull(1) && streams.ended, "stream 1 has not ended");
}

// Tensors without their originals cannot be given back.
void standard_without_originals(Case& c) {
  if (!gstvf::kHasAnalyticsBatch) return c.skip(kNoStandard);
  Standard streams;
  std::vector<gstvf::BatchedStream> parts(1);
  parts[0].events.push_back(object(caps_event("other/tensors,format=static,num_tensors=1")));
  parts[0].objects.push_back(object(gst_buffer_new()));
  GstBuffer* batch = gst_buffer_new();
  gstvf::add_batched_streams(batch, std::move(parts));
  streams.push(batch);
  const std::string text = streams.error();
  c.check(text.find("keep-original") != std::string::npos, "the error is: %s", text.c_str());
}

void combiner(Case& c) {
  GstElementFactory* factory = gst_element_factory_find("analyticscombiner");
  if (factory) gst_object_unref(factory);
  if (!factory || !gstvf::kHasAnalyticsBatch)
    return c.skip("no analyticscombiner, or a plugin for GStreamer before 1.28");
  std::string front;
  for (const char* i : {"0", "1"})
    front += std::string("videotestsrc num-buffers=10 ! ") +
             "video/x-raw,format=RGB,width=128,height=64,framerate=25/1 ! " +
             "cudaletterbox backend=cpu keep-original=true ! other/tensors,format=static," +
             "num_tensors=1,types=float32,dimensions=64:64:3:1 ! combiner.sink_" + i + " ";
  Standard streams(front + "analyticscombiner name=combiner batch-duration=80000000 ! ");
  for (guint i = 0; i < 2; i++) {
    std::string caps;
    for (guint k = 0; k < 10; k++) {
      const BufferPtr out = streams.pull(i, &caps);
      if (!out) return c.fail("stream %u: frame %u: %s", i, k, streams.error().c_str());
      c.check(GST_BUFFER_PTS(out.get()) == k * 40 * GST_MSECOND, "stream %u: PTS", i);
      c.check(caps.find("width=(int)128") != std::string::npos, "caps %s", caps.c_str());
    }
    c.check(!streams.pull(i) && streams.ended, "stream %u has not ended", i);
  }
}

// Each present row is also a stream of a GstAnalyticsBatchMeta, with its original and its caps.
void standard_meta(Case& c) {
  if (!gstvf::kHasAnalyticsBatch) return c.skip(kNoStandard);
  Batches b(kRows[0], "max-wait=20 batch-size=3", "8:8:3:3");
  b.add(0, {"RGB", 8, 8});
  b.add(4, {"GRAY8", 16, 8});
  b.play();
  BufferPtr frames[2] = {b.push(0, 1), b.push(4, 2)};
  const BufferPtr batch = b.pull();
  if (!batch) return c.fail("no batch: %s", b.error().c_str());
  std::vector<gstvf::BatchedStream> streams;
  c.check(gstvf::take_batched_streams(batch.get(), &streams), "there is no meta");
  c.check(streams.size() == 2, "%zu streams", streams.size());
  for (size_t i = 0; i < 2 && c.ok(); i++) {
    const gstvf::BatchedStream& s = streams[i];
    c.check(s.index == 4 * i, "stream %zu has number %u", i, s.index);
    c.check(s.objects.size() == 1 && s.objects[0].get() == GST_MINI_OBJECT_CAST(frames[i].get()),
            "stream %zu has another frame", i);
    const GstEventType want[] = {GST_EVENT_STREAM_START, GST_EVENT_CAPS, GST_EVENT_SEGMENT};
    c.check(s.events.size() == 3, "stream %zu has %zu events", i, s.events.size());
    for (size_t k = 0; k < 3 && c.ok(); k++)
      c.check(GST_EVENT_TYPE(GST_EVENT_CAST(s.events[k].get())) == want[k], "event %zu", k);
  }
}

void cases(Suite& s) {
  const std::string at = "cudaletterboxunbatch/";
  for (const Row& row : kRows)
    s.run(at + row.name + "/the same buffers", [&](Case& c) { same_buffers(c, row); });
  s.run(at + "a copied batch", copied_batch);
  s.run(at + "streams that end and return", ends);
  s.run(at + "gaps", gaps);
  s.run(at + "a gap behind a frame that waits", gap_behind_frame);
  s.run(at + "caps that cannot be used", refused_stream);
  s.run(at + "events upstream", upstream_events);
  s.run(at + "a tensor of another element", without_frames);
  s.run(at + "GstAnalyticsBatchMeta of the batcher", standard_meta);
  s.run(at + "GstAnalyticsBatchMeta/streams of another element", standard_batch);
  s.run(at + "GstAnalyticsBatchMeta/tensors without originals", standard_without_originals);
  s.run(at + "GstAnalyticsBatchMeta/analyticscombiner", combiner);
}

}  // namespace

extern const Element letterboxunbatch_element = [] {
  Element e;
  e.name = "cudaletterboxunbatch";
  e.own_cases = cases;
  e.not_filter = "it gives back frames that another element was given";
  return e;
}();

}  // namespace vf::test
