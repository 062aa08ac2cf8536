// Tests frames in CUDA memory that elements push before the GPU has finished them. No element
// behind may see an unfinished frame, even if other elements stand between or keep the frame. The
// emulated device runs work only when something waits for it, so every missing wait shows.
#include <deque>

#include "gst/base/handover.h"
#include "tests/elements/harness.h"
#if VF_HAVE_GST_CUDA
#include <cuda_runtime_api.h>
#endif
#if VF_EMULATION
#include "tests/emulation/device.h"
#endif

namespace vf::test {
namespace {

constexpr Row kRow = {"cuda", true, "cuda"};
constexpr int kFrames = 12;
// Returns the value that all bytes of frame `number` have.
constexpr guint8 value_of(int number) {
  return guint8(number * 17 + 3);
}

// Calls f for each row of the frame, by plane. Maps the frame like an element that does not know
// CUDA.
template <class F>
bool for_rows(const GstVideoInfo& info, GstBuffer* buffer, GstMapFlags flags, F&& f) {
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, &info, buffer, flags)) return false;
  for (guint p = 0; p < GST_VIDEO_FRAME_N_PLANES(&frame); p++) {
    auto* data = static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, p));
    for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, p); y++)
      f(data + ptrdiff_t(y) * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, p),
        GST_VIDEO_FRAME_COMP_WIDTH(&frame, p));
  }
  gst_video_frame_unmap(&frame);
  return true;
}

bool fill(const GstVideoInfo& info, GstBuffer* buffer, guint8 value) {
  return for_rows(info, buffer, GST_MAP_WRITE,
                  [&](guint8* row, int bytes) { std::fill_n(row, bytes, value); });
}

// Returns how the frame differs from this value, or an empty string.
std::string wrong_with(const GstVideoInfo& info, GstBuffer* buffer, guint8 value) {
  std::string wrong;
  const auto look = [&](const guint8* row, int bytes) {
    for (int x = 0; x < bytes && wrong.empty(); x++)
      if (row[x] != value) wrong = std::to_string(row[x]) + ", not " + std::to_string(value);
  };
  return for_rows(info, buffer, GST_MAP_READ, look) ? wrong : "it cannot be mapped";
}

// Does the same through the GPU address, like a CUDA element that reads on its own stream.
std::string wrong_on_device(const GstVideoInfo& info, GstBuffer* buffer, guint8 value) {
#if VF_HAVE_GST_CUDA
  GstMemory* memory = gstvf::cuda_memory(buffer);
  if (!memory) return "it is not in CUDA memory";
  gstvf::memory_sync(memory);
  GstMapInfo map;
  if (!gst_memory_map(memory, &map, GstMapFlags(GST_MAP_READ | GST_MAP_CUDA)))
    return "it cannot be mapped for CUDA";
  const gstvf::CurrentContext current(gstvf::memory_context(memory));
  std::vector<guint8> row(size_t(info.width));
  const bool copied =
      cudaMemcpy(row.data(), map.data, row.size(), cudaMemcpyDefault) == cudaSuccess;
  gst_memory_unmap(memory, &map);
  if (!copied) return "it cannot be copied";
  for (const guint8 byte : row)
    if (byte != value) return std::to_string(byte) + ", not " + std::to_string(value);
#else
  (void)info, (void)buffer, (void)value;
#endif
  return "";
}

// Runs a part of a pipeline. Frames are written into the memory that it offers, and a harness keeps
// what comes out.
class Line {
 public:
  explicit Line(const std::string& description) : info_(video_info("I420", 32, 16)) {
    harness_ = gst_harness_new_parse(description.c_str());
    bus_ = gst_bus_new();
    gst_element_set_bus(harness_->element, bus_);
    give_context(harness_->element);
    GstCaps* caps = gst_video_info_to_caps(&info_);
    gstvf::set_caps_in_cuda(caps);
    gst_harness_set_src_caps(harness_, gst_caps_ref(caps));
    GstQuery* query = gst_query_new_allocation(caps, TRUE);
    if (gst_pad_peer_query(harness_->srcpad, query) && gst_query_get_n_allocation_pools(query) > 0)
      gst_query_parse_nth_allocation_pool(query, 0, &pool_, nullptr, nullptr, nullptr);
    if (pool_) gst_buffer_pool_set_active(pool_, TRUE);
    gst_query_unref(query);
    gst_caps_unref(caps);
  }
  ~Line() { end(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  const GstVideoInfo& info() const { return info_; }
  GstHarness* harness() const { return harness_; }
  GstElement* element(const char* name) const {
    GstElement* found = gst_bin_get_by_name(GST_BIN(harness_->element), name);
    if (found) gst_object_unref(found);
    return found;
  }
  void probe(const char* element, GstPadProbeCallback callback, gpointer data) const {
    GstPad* pad = gst_element_get_static_pad(this->element(element), "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, callback, data, nullptr);
    gst_object_unref(pad);
  }

  // Writes and pushes a frame.
  void push(Case& c, int number) {
    GstBuffer* buffer = nullptr;
    if (!pool_) return c.fail("no pool was offered");
    if (gst_buffer_pool_acquire_buffer(pool_, &buffer, nullptr) != GST_FLOW_OK)
      return c.fail("the pool has no frame");
    c.check(fill(info_, buffer, value_of(number)), "frame %d cannot be written", number);
    GST_BUFFER_PTS(buffer) = GstClockTime(number) * 40 * GST_MSECOND;
    flow_ = gst_harness_push(harness_, buffer);
  }
  GstFlowReturn flow() const { return flow_; }
  // Returns the next frame that comes out.
  BufferPtr pull() { return own(gst_harness_pull(harness_)); }
  std::string error() { return error_on(bus_); }
  void end() {
    if (!harness_) return;
    if (pool_) gst_buffer_pool_set_active(pool_, FALSE);
    gst_clear_object(&pool_);
    GstElement* element = GST_ELEMENT(gst_object_ref(harness_->element));
    gst_harness_teardown(harness_);
    harness_ = nullptr;
    gst_element_set_state(element, GST_STATE_NULL);
    gst_element_set_bus(element, nullptr);
    gst_object_unref(element);
    gst_object_unref(bus_);
  }

 private:
  const GstVideoInfo info_;
  GstHarness* harness_;
  GstBufferPool* pool_ = nullptr;  // offered by the first element
  GstBus* bus_;
  GstFlowReturn flow_ = GST_FLOW_OK;
};

// Pushes all frames first and checks them when all are out.
void check_frames(Case& c, Line& line, int first = 0) {
  std::deque<BufferPtr> kept;
  for (int i = 0; i < kFrames && c.ok(); i++) {
    line.push(c, first + i);
    c.check(line.flow() == GST_FLOW_OK, "frame %d: %s", i, gst_flow_get_name(line.flow()));
    if (c.ok()) kept.push_back(line.pull());
  }
  for (int i = 0; i < int(kept.size()); i++) {
    const std::string wrong = wrong_with(line.info(), kept[size_t(i)].get(), value_of(first + i));
    c.check(wrong.empty(), "frame %d is %s", i, wrong.c_str());
  }
}

// Checks and drops each frame as it comes, so that pools reuse its memory.
void check_frames_in_turn(Case& c, Line& line, guint8 more = 0) {
  for (int i = 0; i < kFrames && c.ok(); i++) {
    line.push(c, i);
    const BufferPtr out = line.pull();
    const std::string wrong = wrong_with(line.info(), out.get(), guint8(value_of(i) + more));
    c.check(wrong.empty(), "frame %d is %s", i, wrong.c_str());
  }
}

const char kOurs[] = "teller backend=cuda";

std::string line_of(std::initializer_list<const char*> elements) {
  std::string text;
  for (const char* e : elements) text += (text.empty() ? "" : " ! ") + std::string(e);
  return text;
}

GstPadProbeReturn look(GstPad*, GstPadProbeInfo* info, gpointer data) {
  auto* self = static_cast<std::pair<Line*, std::string>*>(data);
  GstBuffer* buffer = GST_PAD_PROBE_INFO_BUFFER(info);
  const guint8 value = value_of(int(GST_BUFFER_PTS(buffer) / (40 * GST_MSECOND)));
  std::string wrong = wrong_on_device(self->first->info(), buffer, value);
  if (wrong.empty()) wrong = wrong_with(self->first->info(), buffer, value);
  if (self->second.empty()) self->second = wrong;
  return GST_PAD_PROBE_OK;
}

GstPadProbeReturn change(GstPad*, GstPadProbeInfo* info, gpointer data) {
  GstBuffer* buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
  GST_PAD_PROBE_INFO_DATA(info) = buffer;
  const int number = int(GST_BUFFER_PTS(buffer) / (40 * GST_MSECOND));
  fill(static_cast<Line*>(data)->info(), buffer, guint8(value_of(number) + 1));
  return GST_PAD_PROBE_OK;
}

#if VF_EMULATION
// Work that fails on the GPU has not failed yet when its frame is pushed, because nothing waits for
// it. Whoever reads the frame later gets an error, and so does the stream at its end.
void late_error_cases(Suite& s) {
  s.run("base/cuda/unfinished/three in a row do not wait, and errors come late", [](Case& c) {
    if (!usable(c, kRow)) return;
    if (!VF_CUDA_HAND_OVER) return c.skip("GStreamer hands frames over by its streams");
    Line line(line_of({kOurs, kOurs, kOurs}));
    line.push(c, 0);
    line.pull();
    line.push(c, 1);
    const BufferPtr unfinished = line.pull();
    if (!c.ok()) return;
    emulation::inject("work", 1, emulation::Error::launch_failed, emulation::Then::context_lost);
    const std::string wrong = wrong_with(line.info(), unfinished.get(), value_of(1));
    c.check(wrong == "it cannot be mapped", "after the error, the frame is %s", wrong.c_str());
    gst_harness_push_event(line.harness(), gst_event_new_eos());
    const std::string error = line.error();
    c.check(!error.empty(), "nobody told");
    emulation::forgive();
    line.end();
    drop_cuda_context();
  });
}
#endif

}  // namespace

void hand_over_cases(Suite& s) {
  const auto run = [&](const char* name, const std::function<void(Case&)>& body) {
    s.run(std::string("base/cuda/unfinished/") + name, [&](Case& c) {
      if (usable(c, kRow)) body(c);
    });
  };
  const auto between = [&](const char* what) {
    run((std::string("with ") + what + " between").c_str(), [&](Case& c) {
      Line line(line_of({kOurs, what, kOurs, kOurs}));
      check_frames(c, line);
      check_frames_in_turn(c, line);
    });
  };

  run("one alone", [](Case& c) {
    Line line(kOurs);
    check_frames(c, line);
    check_frames_in_turn(c, line);
  });
  run("three in a row", [](Case& c) {
    Line line(line_of({kOurs, kOurs, kOurs}));
    check_frames(c, line);
    check_frames_in_turn(c, line);
  });
  for (const char* what :
       {"identity", "queue", "queue ! identity ! queue", "capsfilter caps=video/x-raw(ANY)",
        "teller backend=cpu", "identity drop-allocation=true"})
    between(what);

  for (const bool first : {true, false})
    run(first ? "a tee with a branch of other elements" : "a tee with a branch of this plugin",
        [&](Case& c) {
          Line line(line_of({kOurs, "tee name=t  t.", "queue", kOurs,
                             first ? "fakesink async=false  t." : "queue  t.",
                             first ? "queue" : "fakesink async=false"}));
          check_frames(c, line);
          check_frames_in_turn(c, line);
        });
  run("several elements of this plugin that read the same frame", [](Case& c) {
    std::string text = line_of({kOurs, "tee name=t"});
    for (int i = 0; i < 7; i++)
      text += std::string("  t. ! queue ! ") + kOurs + " ! fakesink async=false";
    Line line(text + "  t. ! queue");
    check_frames(c, line);
    check_frames_in_turn(c, line);
  });

  run("a probe that reads frames", [](Case& c) {
    Line line(line_of({"teller name=first backend=cuda", kOurs, "teller name=last backend=cuda"}));
    std::pair<Line*, std::string> seen(&line, "");
    line.probe("first", look, &seen);
    line.probe("last", look, &seen);
    check_frames(c, line);
    check_frames_in_turn(c, line);
    c.check(seen.second.empty(), "seen: %s", seen.second.c_str());
  });
  run("a probe that changes frames", [](Case& c) {
    Line line(line_of({"teller name=first backend=cuda", kOurs, kOurs}));
    line.probe("first", change, &line);
    check_frames_in_turn(c, line, 1);
  });

  run("a copy of a frame", [](Case& c) {
    Line line(line_of({kOurs, kOurs}));
    for (int i = 0; i < kFrames && c.ok(); i++) {
      line.push(c, i);
      const BufferPtr out = line.pull(), copy = own(gst_buffer_copy_deep(out.get()));
      const std::string wrong = wrong_with(line.info(), copy.get(), value_of(i));
      c.check(wrong.empty(), "the copy of frame %d is %s", i, wrong.c_str());
    }
  });
  run("frames that outlive their elements", [](Case& c) {
    auto line = std::make_unique<Line>(line_of({kOurs, kOurs, kOurs}));
    const GstVideoInfo info = line->info();
    std::deque<BufferPtr> kept;
    for (int i = 0; i < kFrames && c.ok(); i++) {
      line->push(c, i);
      kept.push_back(line->pull());
    }
    line.reset();
    for (int i = 0; i < int(kept.size()); i++) {
      const std::string wrong = wrong_with(info, kept[size_t(i)].get(), value_of(i));
      c.check(wrong.empty(), "frame %d is %s", i, wrong.c_str());
    }
  });
  run("frames freed before their work is done", [](Case& c) {
    Line line(line_of({kOurs, kOurs, "fakesink async=false sync=false"}));
    for (int i = 0; i < kFrames && c.ok(); i++) line.push(c, i);
    c.check(line.flow() == GST_FLOW_OK, "flow %s", gst_flow_get_name(line.flow()));
  });
  run("a flush", [](Case& c) {
    Line line(line_of({kOurs, kOurs, kOurs}));
    check_frames(c, line);
    gst_harness_push_event(line.harness(), gst_event_new_flush_start());
    gst_harness_push_event(line.harness(), gst_event_new_flush_stop(TRUE));
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(line.harness(), gst_event_new_segment(&segment));
    check_frames(c, line, kFrames);
  });
#if VF_EMULATION
  late_error_cases(s);
#endif
}

}  // namespace vf::test
