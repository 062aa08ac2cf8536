// Tests frames that wait for later ones: which leave when, in which order with events, and where
// objects are filtered that a detector finds late or misses.
//
// A case is a script and what must leave the element. In a script, "3@20" is frame 3 with a face of
// 20 pixels at x = 20, and in what leaves, "3@20-39" is frame 3 with only the columns 20 to 39
// filtered. A frame takes 40 ms. "|" is written down when the script gets there.
#include "tests/elements/lookahead.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

namespace vf::test {
namespace {

constexpr GstClockTime kFrame = 40 * GST_MSECOND;
constexpr int kWidth = 120, kHeight = 32, kFace = 20;

const Row kOnCpu = {"system-cpu", false, "cpu"};

class Script {
 public:
  // `row` must outlive the script.
  Script(Case& c, const Settings& settings, const Row& row = kOnCpu)
      : case_(c), row_(row), element_{"cudapixelate"}, bench_(element_, row) {
    const Settings defaults = {{"regions", "roi"},
                               {"block-size", "4"},
                               {"region-expand", "0"},
                               {"hold-ms", "0"},
                               {"qos", "false"}};
    for (const Settings* list : {&defaults, &settings})
      for (const auto& [name, value] : *list)
        gst_util_set_object_arg(G_OBJECT(bench_.element()), name, value);
    GstPad* pad = gst_element_get_static_pad(bench_.element(), "src");
    gst_pad_add_probe(
        pad,
        GstPadProbeType(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM |
                        GST_PAD_PROBE_TYPE_EVENT_FLUSH),
        [](GstPad*, GstPadProbeInfo* info, gpointer data) {
          static_cast<Script*>(data)->left(info);
          return GST_PAD_PROBE_OK;
        },
        this, nullptr);
    gst_object_unref(pad);
    set_rate(25);
    tape_.clear();
  }

  // Runs a script and returns what left the element.
  std::string run(const std::string& script) {
    std::istringstream words(script);
    std::string word;
    while (words >> word) step(word);
    return tape_;
  }
  Bench& bench() { return bench_; }
  // After "pan:N", what is in a frame lies N pixels further right in the next one.
  BufferPtr frame(int number) const {
    BufferPtr buffer = make_frame(row_.cuda_caps, info_, guint32(pan_ ? 0 : number));
    if (!pan_) return buffer;
    GstVideoFrame f;
    gst_video_frame_map(&f, &info_, buffer.get(), GST_MAP_READWRITE);
    for (int y = 0; y < info_.height; y++)
      for (int x = 0; x < info_.width; x++)
        *(static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&f, 0)) +
          y * GST_VIDEO_FRAME_PLANE_STRIDE(&f, 0) + x) = textured(x - pan_ * number, y);
    gst_video_frame_unmap(&f);
    return buffer;
  }

 private:
  void set_rate(int rate, int width = kWidth) {
    GstVideoInfo info = video_info("NV12", width, kHeight);
    info.fps_n = rate;
    info.fps_d = 1;
    bench_.caps(info);  // frames of the former caps leave
    info_ = info;
  }
  static guint8 textured(int x, int y) {
    const double bright = 128 + 50 * std::sin(x * 0.13) + 40 * std::sin(y * 0.43 + x * 0.21) +
                          30 * std::sin(x * 0.37 - y * 0.29);
    return guint8(std::clamp(bright, 16.0, 235.0));
  }
  void note(const std::string& text) { tape_ += (tape_.empty() ? "" : " ") + text; }

  void step(const std::string& word) {
    GstHarness* h = bench_.harness();
    const std::string name = word.substr(0, word.find(':'));
    const int number = word.size() > name.size() ? atoi(&word[name.size() + 1]) : 0;
    if (g_ascii_isdigit(word[0])) return push(word);
    if (name == "|") return note("|");
    if (name == "rate") return set_rate(number);
    if (name == "width") return set_rate(25, number);
    if (name == "look" || name == "hold")
      g_object_set(bench_.element(), name == "look" ? "look-ahead-ms" : "hold-ms", number, nullptr);
    take_step(bench_, word);
    if (name == "times") times_ = number;
    if (name == "pan") pan_ = number;
    if (name == "follow") g_object_set(bench_.element(), "hold-follow", number, nullptr);
    if (name == "gap") gst_harness_push_event(h, gst_event_new_gap(number * kFrame, kFrame));
    if (name == "now")
      gst_harness_push_event(h, gst_event_new_gap(number * kFrame, GST_CLOCK_TIME_NONE));
    if (name == "tag") gst_harness_push_event(h, gst_event_new_tag(gst_tag_list_new_empty()));
    if (name == "custom")
      gst_harness_push_event(
          h, gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new_empty("x")));
    if (name == "backwards") {
      GstSegment segment;
      gst_segment_init(&segment, GST_FORMAT_TIME);
      segment.rate = -1;
      segment.stop = 100 * kFrame;
      gst_harness_push_event(h, gst_event_new_segment(&segment));
    }
    if (name == "allocation") {
      GstCaps* caps = gst_pad_get_current_caps(h->srcpad);
      GstQuery* query = gst_query_new_allocation(caps, TRUE);
      gst_pad_peer_query(h->srcpad, query);
      gst_query_unref(query);
      gst_caps_unref(caps);
    }
  }

  // Pushes the frame of a word such as "3@20@60" or "3!".
  void push(const std::string& word) {
    const int number = atoi(word.c_str());
    BufferPtr buffer = frame(number);
    if (times_) GST_BUFFER_PTS(buffer.get()) = number * kFrame;
    GST_BUFFER_OFFSET(buffer.get()) = guint64(number);
    if (word.find('!') != std::string::npos)
      GST_BUFFER_FLAG_SET(buffer.get(), GST_BUFFER_FLAG_DISCONT);
    for (size_t at = word.find('@'); at != std::string::npos; at = word.find('@', at + 1))
      gst_buffer_add_video_region_of_interest_meta(buffer.get(), "face", guint(atoi(&word[at + 1])),
                                                   4, kFace, kFace);
    GstBuffer* in = gst_buffer_ref(buffer.get());
    buffer.reset();
    const GstFlowReturn flow = gst_harness_push(bench_.harness(), in);
    case_.check(flow == GST_FLOW_OK, "frame %d: %s", number, gst_flow_get_name(flow));
  }

  void left(GstPadProbeInfo* info) {
    if (!(GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER))
      return note(GST_EVENT_TYPE_NAME(GST_PAD_PROBE_INFO_EVENT(info)));
    GstBuffer* out = GST_PAD_PROBE_INFO_BUFFER(info);
    const int number = int(GST_BUFFER_OFFSET(out));
    std::string text = std::to_string(number);
    if (GST_BUFFER_FLAG_IS_SET(out, GST_BUFFER_FLAG_DISCONT)) text += "!";
    note(text +
         filtered(packed_copy(info_, frame(number).get()).get(), packed_copy(info_, out).get()));
  }

  // Lists the columns that differ, such as "@20-39@60-79".
  std::string filtered(GstBuffer* before, GstBuffer* after) const {
    GstVideoFrame was, is;
    gst_video_frame_map(&was, &info_, before, GST_MAP_READ);
    gst_video_frame_map(&is, &info_, after, GST_MAP_READ);
    std::string text;
    int first = -1;
    for (int x = 0; x <= info_.width; x++) {
      bool differs = false;
      for (int y = 0; y < kHeight && x < info_.width; y++)
        differs |= get_component(was, 0, x, y) != get_component(is, 0, x, y);
      if (differs && first < 0) first = x;
      if (differs || first < 0) continue;
      text += "@" + std::to_string(first) + "-" + std::to_string(x - 1);
      first = -1;
    }
    gst_video_frame_unmap(&was);
    gst_video_frame_unmap(&is);
    return text;
  }

  Case& case_;
  const Row row_;
  const Element element_;
  Bench bench_;
  GstVideoInfo info_;
  std::string tape_;
  bool times_ = true;
  int pan_ = 0;
};

const struct {
  const char* what;
  Settings settings;
  const char* script;
  const char* want;
} kScripts[] = {
    // Objects that are found late.
    {"no look-ahead", {}, "0 1@20 2 |", "0 1@20-39 2 |"},
    {"found late",
     {{"look-ahead-ms", "80"}},
     "0 1 2 | 3@20 4@20 | 5 eos",
     "0 | 1@20-39 2@20-39 | 3@20-39 4@20-39 5 eos"},
    {"found late, moving",
     {{"look-ahead-ms", "80"}},
     "0 1 2 3@40 4@44 5@48 eos",
     "0 1@40-59 2@36-55 3@40-59 4@44-63 5@48-67 eos"},
    {"found late, grown",
     {{"look-ahead-ms", "80"}, {"region-expand", "0.1"}},
     "0 1 2 3@40 eos",
     "0 1@36-63 2@36-63 3@38-61 eos"},
    {"found late, it would have come from outside",
     {{"look-ahead-ms", "80"}},
     "0 1 2 3@4 4@12 5@20 eos",
     "0 1@4-23 2@0-15 3@4-23 4@12-31 5@20-39 eos"},
    {"found late, kept at the edge",
     {{"look-ahead-ms", "120"}},
     "0 1 2 3@4 4@14 5@24 eos",
     "0@4-23 1@0-9 2@0-13 3@4-23 4@14-33 5@24-43 eos"},
    {"found late, coming in, kept at the edge",
     {{"look-ahead-ms", "120"}},
     "0 1 2 3@100 4@92 5@84 eos",
     "0@100-119 1@110-119 2@108-119 3@100-119 4@92-111 5@84-103 eos"},
    {"missed on its way to the edge",
     {{"look-ahead-ms", "120"}},
     "0@88 1@94 2 3@106 eos",
     "0@88-107 1@94-113 2@100-119 3@106-119 eos"},
    {"found at once, lost for good",
     {{"look-ahead-ms", "80"}},
     "0@20 1@20 2 3 4 eos",
     "0@20-39 1@20-39 2 3 4 eos"},
    {"as early as the start",
     {{"look-ahead-ms", "5000"}},
     "0 1 2 3@20 | eos",
     "| 0@20-39 1@20-39 2@20-39 3@20-39 eos"},
    {"too early to be hidden",
     {{"look-ahead-ms", "80"}},
     "0 1 2 3 4@20 eos",
     "0 1 2@20-39 3@20-39 4@20-39 eos"},
    {"a region of everything has nothing to wait for",
     {{"look-ahead-ms", "5000"}, {"regions", "areas"}},
     "0@20 1 |",
     "0 1 |"},
    // Objects that are missed.
    {"missed once", {{"look-ahead-ms", "80"}}, "0@20 1 2@28 eos", "0@20-39 1@24-43 2@28-47 eos"},
    {"missed for longer than frames wait",
     {{"look-ahead-ms", "40"}, {"hold-ms", "400"}},
     "0@20 1 2 3 4@28 eos",
     "0@20-39 1@20-39 2@20-39 3@26-45 4@28-47 eos"},
    {"missed for longer than all",
     {{"look-ahead-ms", "40"}, {"hold-ms", "40"}},
     "0@20 1 2 3 4@28 eos",
     "0@20-39 1@20-39 2 3@28-47 4@28-47 eos"},
    {"no interpolation",
     {{"look-ahead-ms", "40"}, {"hold-ms", "80"}, {"interpolate", "false"}},
     "0@20 1 2@28 eos",
     "0@20-39 1@20-47 2@28-47 eos"},
    {"two that cross and are missed",
     {{"look-ahead-ms", "200"}, {"hold-ms", "200"}},
     "0@20@36 1 2@32@24 eos",
     "0@20-55 1@20-55 2@24-51 eos"},
    {"two that cross, and one is lost",
     {{"hold-ms", "400"}, {"hold-follow", "false"}},
     "0@20@50 1@26@44 2@35 3@40 eos",
     "0@20-39@50-69 1@26-63 2@26-54 3@35-59 eos"},
    {"missed across a gap and a discontinuity",
     {{"look-ahead-ms", "200"}},
     "0@20 1 gap:2 3! 4@28 eos",
     "0@20-39 1@22-41 gap 3!@26-45 4@28-47 eos"},
    {"missed, and drained before it is found again",
     {{"look-ahead-ms", "200"}, {"hold-ms", "40"}},
     "0@20 1 2 drain | 3@32 eos",
     "0@20-39 1@20-39 2 | 3@32-51 eos"},
    {"on-missing=all stays",
     {{"look-ahead-ms", "80"}, {"on-missing", "all"}},
     "0 1@20 eos",
     "0@0-119 1@20-39 eos"},
    // Held objects follow the picture.
    {"held and followed",
     {{"hold-ms", "400"}},
     "pan:4 0@20 1 2 3 4 5@40 eos",
     "0@20-39 1@20-39 2@20-39 3@32-51 4@36-55 5@40-59 eos"},
    {"held without hold-follow",
     {{"hold-ms", "400"}, {"hold-follow", "false"}},
     "pan:4 0@20 1 2 3 4 eos",
     "0@20-39 1@20-39 2@20-39 3@20-39 4@20-39 eos"},
    {"followed in a look-ahead",
     {{"hold-ms", "400"}, {"look-ahead-ms", "80"}},
     "pan:4 0@20 1 2 3 4 5 6 7 | eos",
     "0@20-39 1@20-39 2@20-39 3@32-51 4@36-55 5@40-59 | 6@44-63 7@48-67 eos"},
    {"followed to the edge",
     {{"hold-ms", "400"}},
     "pan:4 0@94 1 2 3 4 5 eos",
     "0@94-113 1@94-113 2@94-113 3@100-119 4@100-119 5@100-119 eos"},
    {"a flush forgets the motion",
     {{"hold-ms", "400"}},
     "pan:4 0@20 1 2 flush 3@20 4 5 6 7 eos",
     "0@20-39 1@20-39 2@20-39 flush-start flush-stop segment 3@20-39 4@20-39 5@20-39 6@32-51 "
     "7@36-55 eos"},
    {"a segment keeps it",
     {{"hold-ms", "400"}},
     "pan:4 0@20 1 2 segment 3 4 eos",
     "0@20-39 1@20-39 2@20-39 segment 3@32-51 4@36-55 eos"},
    {"a query that drains keeps it",
     {{"hold-ms", "400"}, {"look-ahead-ms", "40"}},
     "pan:4 0@20 1 2 drain 3 4 5 | eos",
     "0@20-39 1@20-39 2@20-39 3@32-51 4@36-55 | 5@40-59 eos"},
    {"new caps forget the motion",
     {{"hold-ms", "400"}},
     "pan:4 0@20 1 2 width:100 3 4 5 eos",
     "0@20-39 1@20-39 2@20-39 caps segment 3@20-39 4@20-39 5@40-59 eos"},
    {"a gap between frames that are followed",
     {{"hold-ms", "400"}},
     "pan:2 0@20 1 2 gap:3 4 5 eos",
     "0@20-39 1@20-39 2@20-39 gap 4@28-47 5@30-49 eos"},
    {"a discontinuity between them",
     {{"hold-ms", "400"}},
     "pan:4 0@20 1 2 3! 4 eos",
     "0@20-39 1@20-39 2@20-39 3!@32-51 4@36-55 eos"},
    {"followed backwards",
     {{"hold-ms", "400"}},
     "backwards pan:4 9@40 8 7 6 5 eos",
     "segment 9@40-59 8@40-59 7@40-59 6@28-47 5@24-43 eos"},
    {"followed without times",
     {{"hold-ms", "400"}},
     "pan:4 times:0 rate:0 0@20 1 2 3 4 eos",
     "caps segment 0@20-39 1@20-39 2@20-39 3@24-43 4@28-47 eos"},
    {"off and on while followed",
     {{"hold-ms", "400"}},
     "pan:4 0@20 1 2 off 3 on 4@36 5 6 7 eos",
     "0@20-39 1@20-39 2@20-39 3 4@36-55 5@36-55 6@36-55 7@48-67 eos"},
    {"followed from now on",
     {{"hold-ms", "400"}, {"hold-follow", "false"}},
     "pan:4 0@20 1 follow:1 2 3 4 5 eos",
     "0@20-39 1@20-39 2@20-39 3@20-39 4@36-55 5@40-59 eos"},
    {"not followed any more",
     {{"hold-ms", "400"}},
     "pan:4 0@20 1 2 3 follow:0 4 5 eos",
     "0@20-39 1@20-39 2@20-39 3@32-51 4@20-39 5@20-39 eos"},
    // When frames leave.
    {"the end of the stream", {{"look-ahead-ms", "200"}}, "0 1 | eos", "| 0 1 eos"},
    {"a flush drops them",
     {{"look-ahead-ms", "200"}},
     "0 1@20 | flush 9 eos",
     "| flush-start flush-stop segment 9 eos"},
    {"a flush forgets",
     {{"look-ahead-ms", "80"}, {"hold-ms", "400"}},
     "0@20 1 2 flush 9 eos",
     "0@20-39 flush-start flush-stop segment 9 eos"},
    {"a flush keeps tags",
     {{"look-ahead-ms", "80"}},
     "0 tag flush 9 eos",
     "flush-start flush-stop tag segment 9 eos"},
    {"a segment",
     {{"look-ahead-ms", "200"}},
     "0 1@20 segment | 2 eos",
     "0@20-39 1@20-39 segment | 2 eos"},
    {"new caps",
     {{"look-ahead-ms", "200"}},
     "0 1@20 width:60 | 2@8 eos",
     "0@20-39 1@20-39 caps segment | 2@8-27 eos"},
    {"a query that drains",
     {{"look-ahead-ms", "200"}},
     "0 1@20 drain | 2 allocation |",
     "0@20-39 1@20-39 | 2 |"},
    {"a gap lets time pass",
     {{"look-ahead-ms", "80"}},
     "0 1 gap:2 | gap:3 | 4@20 eos",
     "0 | 1 gap gap | 4@20-39 eos"},
    {"a gap of unknown length tells the time",
     {{"look-ahead-ms", "80"}},
     "0 1 now:2 | 2@20 eos",
     "0 | 1@20-39 gap 2@20-39 eos"},
    {"tags wait in line",
     {{"look-ahead-ms", "80"}},
     "0 tag 1 custom | 2 | 3@20 eos",
     "| 0 tag | 1@20-39 custom-downstream 2@20-39 3@20-39 eos"},
    {"a discontinuity waits and is marked",
     {{"look-ahead-ms", "80"}},
     "0! 1 2! | 3 4@20 eos",
     "0! | 1 2!@20-39 3@20-39 4@20-39 eos"},
    {"frames are missing",
     {{"look-ahead-ms", "80"}},
     "0 1 7 | 8@20 eos",
     "0 1 | 7@20-39 8@20-39 eos"},
    {"time jumps back",
     {{"look-ahead-ms", "80"}},
     "10 11 3 | 4 5@20 eos",
     "| 10 11@20-39 3@20-39 4@20-39 5@20-39 eos"},
    {"played backwards",
     {{"look-ahead-ms", "80"}},
     "backwards 9 8 7 6@20 | 5 eos",
     "segment 9 8@20-39 | 7@20-39 6@20-39 5 eos"},
    {"no times, but a rate",
     {{"look-ahead-ms", "80"}},
     "times:0 0 1 2 3@20 | eos",
     "0 1@20-39 | 2@20-39 3@20-39 eos"},
    {"some times and no rate",
     {{"look-ahead-ms", "80"}},
     "rate:0 0 1 2 3@20 | eos",
     "caps segment 0 1@20-39 | 2@20-39 3@20-39 eos"},
    // Settings and events that come while frames wait.
    {"a longer look-ahead",
     {{"look-ahead-ms", "40"}},
     "0 1 look:120 2 3 4@20 eos",
     "0 1@20-39 2@20-39 3@20-39 4@20-39 eos"},
    {"a shorter look-ahead",
     {{"look-ahead-ms", "200"}},
     "0 1 2 3 look:40 4@20 | 5 eos",
     "0 1 2 3@20-39 | 4@20-39 5 eos"},
    {"no look-ahead any more",
     {{"look-ahead-ms", "200"}},
     "0 1 2 look:0 3@20 | 4 |",
     "0 1 2 3@20-39 | 4 |"},
    {"off and on",
     {{"look-ahead-ms", "80"}},
     "off 0@20 1@20 2@20 on 3@20 4 eos",
     "0 1@20-39 2@20-39 3@20-39 4 eos"},
    {"a filter that changes nothing",
     {{"look-ahead-ms", "80"}, {"block-size", "1"}},
     "0 1 2@20 | eos",
     "0 | 1 2 eos"},
};

GstClockTime latency_of(Bench& b) {
  GstQuery* query = gst_query_new_latency();
  GstClockTime min = GST_CLOCK_TIME_NONE;
  if (gst_pad_peer_query(b.harness()->sinkpad, query))
    gst_query_parse_latency(query, nullptr, &min, nullptr);
  gst_query_unref(query);
  return min;
}

bool has_message(Bench& b, GstMessageType type) {
  GstMessage* message = gst_bus_pop_filtered(GST_ELEMENT_BUS(b.element()), type);
  if (message) gst_message_unref(message);
  return message;
}

void latency_case(Suite& s) {
  s.run("cudapixelate/look-ahead/latency", [](Case& c) {
    Script script(c, {{"look-ahead-ms", "120"}});
    Bench& b = script.bench();
    gst_harness_set_upstream_latency(b.harness(), 7 * GST_MSECOND);
    const auto expect = [&](GstClockTime ms, bool tells) {
      c.check(latency_of(b) == (7 + ms) * GST_MSECOND, "%" GST_TIME_FORMAT " for %d ms",
              GST_TIME_ARGS(latency_of(b)), int(ms));
      c.check(has_message(b, GST_MESSAGE_LATENCY) == tells, "message for %d ms", int(ms));
    };
    while (has_message(b, GST_MESSAGE_LATENCY)) continue;
    expect(120, false);
    g_object_set(b.element(), "look-ahead-ms", 500, nullptr);
    expect(500, true);
    gst_util_set_object_arg(G_OBJECT(b.element()), "regions", "areas");
    expect(0, true);
    gst_util_set_object_arg(G_OBJECT(b.element()), "regions", "roi");
    expect(500, true);
    g_object_set(b.element(), "enabled", FALSE, nullptr);
    expect(500, false);
    g_object_set(b.element(), "look-ahead-ms", 0, nullptr);
    expect(0, true);
  });
}

// Waiting frames are references: nothing is copied, and the end drops them.
void references_case(Suite& s) {
  s.run("cudapixelate/look-ahead/references", [](Case& c) {
    Script script(c, {{"look-ahead-ms", "5000"}});
    std::vector<BufferPtr> frames;
    for (int i = 0; i < 5; i++) {
      frames.push_back(script.frame(i));
      GST_BUFFER_PTS(frames.back().get()) = i * kFrame;
      script.bench().push(frames.back());
    }
    const auto held = [&](int count) {
      for (const BufferPtr& b : frames)
        c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(b.get()) == count, "%d references",
                GST_MINI_OBJECT_REFCOUNT_VALUE(b.get()));
    };
    held(2);
    gst_element_set_state(script.bench().element(), GST_STATE_READY);
    held(1);
  });
}

// Frames that leave in the buffer that they came in stay with the elements behind. Upstream is asked
// for their number, at once or when the first of these frames leaves.
void passed_on_case(Suite& s) {
  for (const Row* row : {&kRows[1], &kRows[2]})
    for (const bool at_once : {true, false})
      s.run(std::string("cudapixelate/look-ahead/pools of elements behind/") + row->name +
                (at_once ? "/off" : "/switched off"),
            [=](Case& c) {
              if (!usable(c, *row)) return;
              Script script(c, {{"regions", "all"}, {"enabled", at_once ? "false" : "true"}}, *row);
              Bench& b = script.bench();
              GstPad* src = b.harness()->srcpad;
              c.check(b.buffers_wanted() == 0, "buffers are wanted for no element behind");
              // The elements behind keep eleven frames from now on.
              const auto keep = [](GstPad*, GstPadProbeInfo* info, gpointer) {
                GstQuery* query = GST_PAD_PROBE_INFO_QUERY(info);
                if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION) return GST_PAD_PROBE_OK;
                gst_query_add_allocation_pool(query, nullptr, 1, 11, 0);
                return GST_PAD_PROBE_HANDLED;
              };
              gst_pad_add_probe(b.harness()->sinkpad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, keep,
                                nullptr, nullptr);
              gst_pad_push_event(b.harness()->sinkpad, gst_event_new_reconfigure());
              gst_pad_check_reconfigure(src);
              b.push(script.frame(0));
              if (!at_once) {
                c.check(!gst_pad_check_reconfigure(src) && b.buffers_wanted() == 0,
                        "frames that are filtered need %u buffers", b.buffers_wanted());
                g_object_set(b.element(), "enabled", FALSE, nullptr);
                b.push(script.frame(1));
              }
              c.check(gst_pad_check_reconfigure(src), "upstream does not ask again");
              c.check(b.buffers_wanted() == 11, "%u buffers are wanted", b.buffers_wanted());
              b.push(script.frame(2));
              c.check(!gst_pad_check_reconfigure(src), "upstream asks in vain");
            });
}

// Upstream is asked for enough buffers. If its pool cannot grow, frames leave early.
void pool_case(Suite& s) {
  s.run("cudapixelate/look-ahead/pools", [](Case& c) {
    for (const bool in_place : {true, false}) {
      if (!in_place && !usable(c, kRows[1])) return;
      Script script(c, {{"look-ahead-ms", "400"}}, in_place ? kRows[0] : kRows[1]);
      GstPad* src = script.bench().harness()->srcpad;
      GstCaps* caps = gst_pad_get_current_caps(src);
      GstQuery* query = gst_query_new_allocation(caps, TRUE);
      guint size = 0, min = 0, max = 0;
      GstBufferPool* pool = nullptr;
      c.check(gst_pad_peer_query(src, query) && gst_query_get_n_allocation_pools(query) > 0,
              "no pool is asked for");
      if (!c.ok()) return;
      gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
      c.check(min >= 11 && (max == 0 || max >= min), "%u to %u buffers", min, max);
      gst_clear_object(&pool);
      gst_query_unref(query);
      gst_caps_unref(caps);
    }
  });

  // A longer look-ahead needs more buffers, so upstream is made to ask for their number again.
  s.run("cudapixelate/look-ahead/pools of a look-ahead that grows", [](Case& c) {
    Script script(c, {{"look-ahead-ms", "200"}});
    GstPad* src = script.bench().harness()->srcpad;
    GstCaps* caps = gst_pad_get_current_caps(src);
    gst_pad_check_reconfigure(src);
    const struct {
      guint ms;
      bool asks, grows;
    } steps[] = {
        {400, true, true},    // from 200
        {300, true, false},   // upstream has asked for 400
        {400, false, false},  // and has not asked since
        {500, true, true},   {0, true, false},
    };
    for (const auto& [ms, asks, grows] : steps) {
      GstQuery* query = gst_query_new_allocation(caps, TRUE);
      if (asks) c.check(gst_pad_peer_query(src, query), "no answer");
      gst_query_unref(query);
      g_object_set(script.bench().element(), "look-ahead-ms", ms, nullptr);
      c.check(bool(gst_pad_check_reconfigure(src)) == grows, "look-ahead-ms=%u: %s", ms,
              grows ? "nobody asks" : "upstream asks in vain");
    }
    gst_caps_unref(caps);
  });

  // A decoder's own memory has no pool. There is as much of it as the decoder was asked for.
  s.run("cudapixelate/look-ahead/memory of a decoder, and a look-ahead that grows", [](Case& c) {
    const Row& row = kRows[2];
    if (!usable(c, row)) return;
    const std::string got = Script(c, {{"look-ahead-ms", "0"}}, row)
                                .run("allocation 0 look:80 1 2 | allocation 3 4 | 5 eos");
    c.check(got == "0 1 2 | | 3 4 5 eos", "%s", got.c_str());
  });

  s.run("cudapixelate/look-ahead/a pool that cannot grow", [](Case& c) {
    Script script(c, {{"look-ahead-ms", "400"}});
    GstBufferPool* pool = gst_buffer_pool_new();
    GstStructure* config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, nullptr, kWidth * kHeight * 3 / 2, 0, 6);
    gst_buffer_pool_set_config(pool, config);
    gst_buffer_pool_set_active(pool, TRUE);
    GstBufferPoolAcquireParams params = {};
    params.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
    int came = 0;
    for (int i = 0; i < 40; i++) {
      GstBuffer* buffer = nullptr;
      c.check(gst_buffer_pool_acquire_buffer(pool, &buffer, &params) == GST_FLOW_OK,
              "no buffer for frame %d", i);
      if (!buffer) break;
      GST_BUFFER_PTS(buffer) = i * kFrame;
      came += script.bench().push(buffer) != nullptr;
    }
    c.check(came == 37, "%d frames came", came);
    const std::string text = script.bench().message(GST_MESSAGE_WARNING);
    c.check(text.find("has 6 buffers and cannot grow") != std::string::npos &&
                text.find("Use a look-ahead-ms of 0 to 120") != std::string::npos,
            "warning \"%s\"", text.c_str());
    c.check(script.bench().message(GST_MESSAGE_WARNING).empty(), "it warns again");
    gst_element_set_state(script.bench().element(), GST_STATE_NULL);
    gst_buffer_pool_set_active(pool, FALSE);
    gst_object_unref(pool);
  });

  s.run("cudapixelate/look-ahead/neither times nor a rate", [](Case& c) {
    Script script(c, {{"look-ahead-ms", "400"}});
    const std::string got = script.run("rate:0 times:0 0 1@20 | 2 |");
    c.check(got == "caps segment 0 1@20-39 | 2@20-39 |", "%s", got.c_str());
    const std::string text = script.bench().message(GST_MESSAGE_WARNING);
    c.check(text.find("neither times nor durations") != std::string::npos, "warning \"%s\"",
            text.c_str());
    c.check(script.bench().message(GST_MESSAGE_WARNING).empty(), "it warns again");
  });
}

}  // namespace

void take_step(Bench& bench, const std::string& word) {
  GstHarness* h = bench.harness();
  if (word == "off" || word == "on")
    g_object_set(bench.element(), "enabled", word == "on", nullptr);
  if (word == "eos") gst_harness_push_event(h, gst_event_new_eos());
  if (word == "flush") {
    gst_harness_push_event(h, gst_event_new_flush_start());
    gst_harness_push_event(h, gst_event_new_flush_stop(TRUE));
  }
  if (word == "segment" || word == "flush") {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(h, gst_event_new_segment(&segment));
  }
  if (word == "drain") {
    GstQuery* query = gst_query_new_drain();
    gst_pad_peer_query(h->srcpad, query);
    gst_query_unref(query);
  }
}

void look_ahead_cases(Suite& s) {
  for (const Row& row : kRows)
    for (const auto& script : kScripts)
      s.run(std::string("cudapixelate/look-ahead/") + row.name + "/" + script.what, [&](Case& c) {
        if (!usable(c, row)) return;
        const std::string got = Script(c, script.settings, row).run(script.script);
        c.check(got == script.want, "\"%s\" left, not \"%s\"", got.c_str(), script.want);
      });
  latency_case(s);
  references_case(s);
  pool_case(s);
  passed_on_case(s);
}

}  // namespace vf::test
