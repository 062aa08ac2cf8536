// Tests frames of system memory that are filtered on the GPU: async-depth, and the memory that the
// element offers upstream or gets from downstream.
#include <deque>

#include "tests/elements/harness.h"

namespace vf::test {
namespace {

constexpr Row kRow = {"system-cuda", false, "cuda"};

Row with_depth(Row row, int depth) {
  row.async_depth = depth;
  return row;
}
constexpr GstClockTime kFrame = 40 * GST_MSECOND;  // one frame at video_info's 25 frames per second

// Records what left an element, in order: frames and serialized events.
class Tape {
 public:
  explicit Tape(GstElement* element) : pad_(gst_element_get_static_pad(element, "src")) {
    gst_pad_add_probe(
        pad_,
        GstPadProbeType(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM |
                        GST_PAD_PROBE_TYPE_EVENT_FLUSH),
        [](GstPad*, GstPadProbeInfo* info, gpointer data) {
          static_cast<Tape*>(data)->add(info);
          return GST_PAD_PROBE_OK;
        },
        this, nullptr);
  }
  ~Tape() { gst_object_unref(pad_); }
  Tape(const Tape&) = delete;
  // Returns a line such as "0 1 caps 2 eos". A number is a frame's, taken from its timestamp.
  std::string text() const { return text_; }
  void clear() { text_.clear(); }

 private:
  void add(GstPadProbeInfo* info) {
    if (!text_.empty()) text_ += ' ';
    if (GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER) {
      const GstBuffer* buffer = GST_PAD_PROBE_INFO_BUFFER(info);
      text_ += std::to_string(GST_BUFFER_PTS(buffer) / kFrame);
      if (GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT)) text_ += '!';
    } else {
      text_ += GST_EVENT_TYPE_NAME(GST_PAD_PROBE_INFO_EVENT(info));
    }
  }
  GstPad* pad_;
  std::string text_;
};

// Holds an element that has frames in flight.
struct Rig {
  Rig(const Element& element, int depth, const Row& on = kRow)
      : row(with_depth(on, depth)), bench(element, row), e(element) {
    e.set(bench.element(), 0);
  }
  ~Rig() {
    if (pool) gst_buffer_pool_set_active(pool, FALSE);
    gst_clear_object(&pool);
  }
  Rig(const Rig&) = delete;
  // Makes a frame whose timestamps carry its number.
  BufferPtr frame(const GstVideoInfo& info, int number, const Shape& shape = {}) {
    const BufferPtr buffer = make_frame(false, info, guint32(number), shape);
    GST_BUFFER_PTS(buffer.get()) = guint64(number) * kFrame;
    GST_BUFFER_DURATION(buffer.get()) = kFrame;
    return buffer;
  }
  // Copies a frame into memory that the element offers. Fails the case and returns null if the
  // element offers none.
  BufferPtr offered(Case& c, const BufferPtr& frame) {
    // The pool is queried only once because an ALLOCATION query drains the element.
    if (!pool && (pool = offered_pool())) gst_buffer_pool_set_active(pool, TRUE);
    if (!pool) {
      c.fail("no pool offered");
      return nullptr;
    }
    GstBuffer* copy = nullptr;
    gst_buffer_pool_acquire_buffer(pool, &copy, nullptr);
    c.check(copy && gstvf::is_pinned(gst_buffer_peek_memory(copy, 0)), "its memory is not pinned");
    if (!copy) return nullptr;
    GstMapInfo from, to;
    gst_buffer_map(frame.get(), &from, GST_MAP_READ);
    gst_buffer_map(copy, &to, GST_MAP_WRITE);
    c.check(from.size == to.size, "%zu bytes offered for %zu", size_t(to.size), size_t(from.size));
    if (from.size == to.size) memcpy(to.data, from.data, from.size);
    gst_buffer_unmap(copy, &to);
    gst_buffer_unmap(frame.get(), &from);
    gst_buffer_copy_into(copy, frame.get(), GST_BUFFER_COPY_TIMESTAMPS, 0, -1);
    return own(copy);
  }
  GstBufferPool* offered_pool(guint* min = nullptr) {
    GstPad* src = bench.harness()->srcpad;
    GstCaps* caps = gst_pad_get_current_caps(src);
    GstQuery* query = gst_query_new_allocation(caps, TRUE);
    GstBufferPool* pool = nullptr;
    guint size, m = 0, max;
    if (gst_pad_peer_query(src, query) && gst_query_get_n_allocation_pools(query))
      gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &m, &max);
    if (min) *min = m;
    gst_query_unref(query);
    gst_caps_unref(caps);
    return pool;
  }
  GstFlowReturn push(const BufferPtr& buffer) {
    return gst_harness_push(bench.harness(), gst_buffer_ref(buffer.get()));
  }
  BufferPtr pull() { return own(gst_harness_try_pull(bench.harness())); }
  void event(GstEvent* event) { gst_harness_push_event(bench.harness(), event); }
  // Returns the latency that the element reports.
  GstClockTime latency(Case& c) {
    GstQuery* query = gst_query_new_latency();
    GstClockTime min = GST_CLOCK_TIME_NONE, max;
    gboolean live;
    c.check(gst_pad_peer_query(bench.harness()->sinkpad, query), "LATENCY not answered");
    gst_query_parse_latency(query, &live, &min, &max);
    gst_query_unref(query);
    return min;
  }
  void expect(Case& c, const GstVideoInfo& info, const BufferPtr& in, const BufferPtr& out,
              int variant = 0) {
    BufferPtr want;
    if (!out) return c.fail("a frame is missing");
    c.check(filter_directly(e, Backend::cuda, info, in.get(), variant, false, &want),
            "the library, called directly");
    if (!c.ok()) return;
    const std::string d = difference(info, out.get(), want.get(), 0);
    c.check(d.empty(), "frame %d: %s", int(GST_BUFFER_PTS(in.get()) / kFrame), d.c_str());
    c.check(GST_BUFFER_PTS(out.get()) == GST_BUFFER_PTS(in.get()) &&
                GST_BUFFER_DURATION(out.get()) == GST_BUFFER_DURATION(in.get()),
            "timestamps of frame %d", int(GST_BUFFER_PTS(in.get()) / kFrame));
  }

  const Row row;
  Bench bench;
  const Element& e;
  GstBufferPool* pool = nullptr;
};

void depth_cases(Suite& s, const Element& e, const std::string& at, const GstVideoInfo& info) {
  for (const int depth : {0, 1, 4})
    for (const bool offered : {false, true})
      s.run(at + std::to_string(depth) + (offered ? "/its own pool" : "/any memory"), [&](Case& c) {
        if (!usable(c, kRow)) return;
        Rig r(e, depth);
        r.bench.caps(info);
        std::deque<BufferPtr> in;
        for (int i = 0; i < 11 && c.ok(); i++) {
          // Every other frame has padded rows.
          BufferPtr frame = r.frame(info, i, Shape{!offered && i % 2 ? 24 : 0, false, 0, 0});
          if (offered) frame = r.offered(c, frame);
          if (!c.ok()) return;
          in.push_back(frame);
          c.check(r.push(frame) == GST_FLOW_OK, "frame %d refused", i);
          const BufferPtr out = r.pull();
          c.check((out != nullptr) == (int(in.size()) > depth), "after frame %d, %s", i,
                  out ? "one too many came out" : "none came out");
          if (!out || !c.ok()) continue;
          c.check(gstvf::is_pinned(gst_buffer_peek_memory(out.get(), 0)),
                  "what comes out is not pinned");
          r.expect(c, info, in.front(), out);
          in.pop_front();
        }
        Tape tape(r.bench.element());
        r.event(gst_event_new_eos());
        std::string want;
        for (const BufferPtr& frame : in) {
          want += std::to_string(GST_BUFFER_PTS(frame.get()) / kFrame) + " ";
          r.expect(c, info, frame, r.pull());
        }
        want += "eos";
        c.check(tape.text() == want, "at the end came %s", tape.text().c_str());
      });
}

void settings_case(Suite& s, const Element& e, const std::string& at, const GstVideoInfo& info) {
  s.run(at + "each frame with the settings of its time", [&](Case& c) {
    if (!usable(c, kRow)) return;
    Rig r(e, 3);
    r.bench.caps(info);
    std::deque<BufferPtr> in;
    for (int i = 0; i < 8; i++) {
      e.set(r.bench.element(), i % 2);
      in.push_back(r.frame(info, i));
      c.check(r.push(in.back()) == GST_FLOW_OK, "frame %d refused", i);
    }
    r.event(gst_event_new_eos());
    for (int i = 0; i < 8 && c.ok(); i++) r.expect(c, info, in[size_t(i)], r.pull(), i % 2);
  });
}

void order_case(Suite& s, const Element& e, const std::string& at, const GstVideoInfo& info,
                const GstVideoInfo& other) {
  s.run(at + "order", [&](Case& c) {
    if (!usable(c, kRow)) return;
    Rig r(e, 3);
    r.bench.caps(info);
    r.push(r.frame(info, 0));
    Tape tape(r.bench.element());
    int number = 1;
    const auto check = [&](const char* what, const char* want) {
      c.check(tape.text() == want, "%s: %s instead of %s", what, tape.text().c_str(), want);
      tape.clear();
    };
    const auto frames = [&](int n, const GstVideoInfo& i) {
      while (n--) r.push(r.frame(i, number++));
    };
    frames(2, info);
    check("three frames", "");
    r.event(gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new_empty("x")));
    check("an event", "0 1 2 custom-downstream");
    frames(2, info);
    r.bench.caps(other);
    frames(1, other);
    check("caps", "3 4 caps segment");
    r.event(gst_event_new_gap(number * kFrame, kFrame));
    check("a gap", "5 gap");
    frames(2, other);
    GstQuery* query = gst_query_new_drain();
    gst_pad_peer_query(r.bench.harness()->srcpad, query);
    gst_query_unref(query);
    check("a drain query", "6 7");
    frames(2, other);
    const BufferPtr jump = r.frame(other, number++);
    GST_BUFFER_FLAG_SET(jump.get(), GST_BUFFER_FLAG_DISCONT);
    r.push(jump);
    check("a discontinuity", "8 9");
    frames(3, other);
    check("and on", "10!");
    e.set_identity(r.bench.element());
    frames(1, other);
    check("settings that change nothing", "11 12 13 14");
    e.set(r.bench.element(), 0);
    frames(1, other);
    check("and again others", "");
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    r.event(gst_event_new_segment(&segment));
    check("a segment", "15 segment");
    frames(1, other);
    // Events that are not serialized overtake the frames in flight.
    r.event(gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM_OOB, gst_structure_new_empty("x")));
    check("an event out of band", "custom-downstream-oob");
  });
}

void flush_case(Suite& s, const Element& e, const std::string& at, const GstVideoInfo& info) {
  s.run(at + "flush", [&](Case& c) {
    if (!usable(c, kRow)) return;
    Rig r(e, 4);
    r.bench.caps(info);
    std::vector<BufferPtr> in;
    for (int i = 0; i < 3 && c.ok(); i++) {
      in.push_back(r.offered(c, r.frame(info, i)));
      if (c.ok()) r.push(in.back());
    }
    if (!c.ok()) return;
    for (const BufferPtr& b : in)
      c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(b.get()) == 2, "a frame in flight is not held");
    // The element does not hold a frame whose pixels it has already copied.
    const BufferPtr copied = r.frame(info, 3);
    r.push(copied);
    c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(copied.get()) == 1, "a frame is held for nothing");
    Tape tape(r.bench.element());
    r.event(gst_event_new_flush_start());
    r.event(gst_event_new_flush_stop(TRUE));
    for (const BufferPtr& b : in)
      c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(b.get()) == 1, "a flushed frame is still held");
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    r.event(gst_event_new_segment(&segment));
    const BufferPtr next = r.frame(info, 9);
    r.push(next);
    r.event(gst_event_new_eos());
    c.check(tape.text() == "flush-start flush-stop segment 9 eos", "came %s", tape.text().c_str());
    r.expect(c, info, next, r.pull());
  });
}

void latency_case(Suite& s, const Element& e, const std::string& at, const GstVideoInfo& info) {
  s.run(at + "latency", [&](Case& c) {
    if (!usable(c, kRow)) return;
    Rig r(e, 3);
    gst_harness_set_upstream_latency(r.bench.harness(), 7 * GST_MSECOND);
    r.bench.caps(info);
    c.check(r.latency(c) == 7 * GST_MSECOND + 3 * kFrame,
            "latency of 3 frames is %" GST_TIME_FORMAT, GST_TIME_ARGS(r.latency(c)));
    GstVideoInfo faster = info;
    faster.fps_n = 50;
    r.bench.caps(faster);
    c.check(r.latency(c) == 7 * GST_MSECOND + 3 * kFrame / 2,
            "at 50 frames per second: %" GST_TIME_FORMAT, GST_TIME_ARGS(r.latency(c)));
    // The latency of frames in flight is unknown without a frame rate.
    faster.fps_n = 0;
    r.bench.caps(faster);
    c.check(r.latency(c) == 7 * GST_MSECOND, "without a frame rate");
    r.push(r.frame(faster, 0));
    c.check(r.pull() != nullptr, "without a frame rate, a frame was held back");
    Rig cpu(e, 3, kRows[0]);
    gst_harness_set_upstream_latency(cpu.bench.harness(), 0);
    cpu.bench.caps(info);
    c.check(cpu.latency(c) == 0, "on the CPU");
    cpu.push(cpu.frame(info, 0));
    c.check(cpu.pull() != nullptr, "on the CPU, a frame was held back");
  });
}

void error_case(Suite& s, const Element& e, const std::string& at, const GstVideoInfo& info) {
  s.run(at + "an error among frames in flight", [&](Case& c) {
    if (!usable(c, kRow)) return;
    Rig r(e, 4);
    r.bench.caps(info);
    std::vector<BufferPtr> in;
    for (int i = 0; i < 3; i++) in.push_back(r.frame(info, i)), r.push(in.back());
    c.check(gst_harness_push(r.bench.harness(), gst_buffer_new_allocate(nullptr, 10, nullptr)) ==
                GST_FLOW_ERROR,
            "a buffer of 10 bytes was taken");
    c.check(!r.bench.message(GST_MESSAGE_ERROR).empty(), "no error message");
    c.check(r.bench.message(GST_MESSAGE_ERROR).empty(), "more than one error message");
    for (const BufferPtr& b : in)
      c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(b.get()) == 1, "a frame is still held");
    // The element continues afterwards.
    const BufferPtr next = r.frame(info, 9);
    c.check(r.push(next) == GST_FLOW_OK, "the next frame was refused");
    r.event(gst_event_new_eos());
    r.expect(c, info, next, r.pull());
  });
}

void ready_case(Suite& s, const Element& e, const std::string& at, const GstVideoInfo& info,
                const GstVideoInfo& other) {
  s.run(at + "READY with frames in flight", [&](Case& c) {
    if (!usable(c, kRow)) return;
    Rig r(e, 2);
    for (int i = 0; i < 10 && c.ok(); i++) {
      gst_element_set_state(r.bench.element(), GST_STATE_PLAYING);
      r.event(gst_event_new_stream_start("again"));
      r.bench.caps(i % 2 ? info : other);
      GstSegment segment;
      gst_segment_init(&segment, GST_FORMAT_TIME);
      r.event(gst_event_new_segment(&segment));
      std::vector<BufferPtr> in;
      for (int n = 0; n < 3; n++) in.push_back(r.frame(i % 2 ? info : other, n)), r.push(in.back());
      r.expect(c, i % 2 ? info : other, in[0], r.pull());
      gst_element_set_state(r.bench.element(), GST_STATE_READY);
      c.check(r.pull() == nullptr, "a frame came after the end");
      for (const BufferPtr& b : in)
        c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(b.get()) == 1, "a frame is still held");
    }
    gst_element_set_state(r.bench.element(), GST_STATE_PLAYING);
  });
}

void pools_case(Suite& s, const Element& e, const std::string& at, const GstVideoInfo& info) {
  s.run(at + "pools", [&](Case& c) {
    if (!usable(c, kRow)) return;
    // The pool that downstream offers has fewer buffers than frames are in flight.
    Rig r(e, 3);
    GstBufferPool* small = gst_video_buffer_pool_new();
    GstPad* src = gst_element_get_static_pad(r.bench.element(), "src");
    gst_pad_add_probe(
        src, GstPadProbeType(GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM | GST_PAD_PROBE_TYPE_PULL),
        [](GstPad*, GstPadProbeInfo* probe, gpointer data) {
          GstQuery* query = GST_PAD_PROBE_INFO_QUERY(probe);
          if (GST_QUERY_TYPE(query) == GST_QUERY_ALLOCATION)
            gst_query_add_allocation_pool(query, GST_BUFFER_POOL(data), 40 * 24 * 4, 1, 2);
          return GST_PAD_PROBE_OK;
        },
        small, nullptr);
    gst_object_unref(src);
    r.bench.caps(info);
    for (int i = 0; i < 6; i++) c.check(r.push(r.frame(info, i)) == GST_FLOW_OK, "frame %d", i);
    guint min = 0;
    GstBufferPool* pool = r.offered_pool(&min);
    c.check(pool && min >= 4, "a pool of %u frames is offered, and 3 may be in flight", min);
    if (pool) gst_object_unref(pool);
    gst_object_unref(small);
  });
}

void live_case(Suite& s, const Element& e, const std::string& at) {
  s.run(at + "a live pipeline", [&](Case& c) {
    if (!usable(c, kRow)) return;
    const std::string line =
        std::string(
            "videotestsrc is-live=true num-buffers=10 ! "
            "video/x-raw,format=I420,width=64,height=48,framerate=100/1 ! ") +
        e.name + " name=e backend=cuda async-depth=3 ! fakesink sync=true processing-deadline=0";
    GstElement* pipeline = gst_parse_launch(line.c_str(), nullptr);
    GstElement* element = gst_bin_get_by_name(GST_BIN(pipeline), "e");
    e.set(element, 0);
    GstBus* bus = gst_element_get_bus(pipeline);
    // QoS could drop frames on a busy machine.
    g_object_set(element, "qos", FALSE, nullptr);
    Tape tape(element);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstMessage* message = gst_bus_timed_pop_filtered(
        bus, 60 * GST_SECOND, GstMessageType(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
    c.check(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS, "no EOS");
    if (message) gst_message_unref(message);
    GstQuery* query = gst_query_new_latency();
    GstClockTime min = 0, max = 0;
    gboolean live = FALSE;
    c.check(gst_element_query(pipeline, query), "LATENCY not answered");
    gst_query_parse_latency(query, &live, &min, &max);
    gst_query_unref(query);
    // One frame of latency comes from the source.
    c.check(live && min == 40 * GST_MSECOND, "the pipeline's latency is %" GST_TIME_FORMAT,
            GST_TIME_ARGS(min));
    const std::string text = tape.text();
    c.check(text.size() > 4 && text.compare(text.size() - 4, 4, " eos") == 0, "came %s",
            text.c_str());
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(element);
    gst_object_unref(pipeline);
  });
}

}  // namespace

void async_cases(Suite& s, const Element& e) {
  const std::string at = std::string(e.name) + "/async-depth/";
  const GstVideoInfo info = video_info("RGBA", 40, 24), other = video_info("I420", 24, 36);

  depth_cases(s, e, at, info);
  settings_case(s, e, at, info);
  order_case(s, e, at, info, other);
  flush_case(s, e, at, info);
  latency_case(s, e, at, info);
  error_case(s, e, at, info);
  ready_case(s, e, at, info, other);
  pools_case(s, e, at, info);
  live_case(s, e, at);
}

}  // namespace vf::test
