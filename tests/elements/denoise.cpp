#include "filters/denoise.h"

#include <cstring>
#include <deque>
#include <sstream>

#include "tests/elements/lookahead.h"
#include "tests/elements/planesettings.h"

namespace vf::test {

extern const Element denoise_element;

namespace {

// Returns settings for the common cases. With these, a frame's result depends on no earlier frame.
DenoiseParams params(int variant) {
  DenoiseParams p;
  p.temporal = 1;
  p.noise = variant ? 60 : 25;
  p.spatial = variant ? 4 : 1.5;
  return p;
}

void set(GstElement* element, const DenoiseParams& p) {
  g_object_set(element, "noise", p.noise, "strength", p.strength, "temporal", p.temporal, "spatial",
               p.spatial, nullptr);
}

void set_variant(GstElement* element, int variant) {
  set(element, params(variant));
}

void set_identity(GstElement* element) {
  g_object_set(element, "strength", 0.0, nullptr);
}

Status make_typed(Queue& queue, const gstvf::Format& format, const DenoiseParams& p,
                  Placement placement, std::unique_ptr<DenoisePlan>* out) {
  return make_denoise(queue, format.layout, format.color, p, placement, out);
}

Make maker(const DenoiseParams& p) {
  return [p](Queue& queue, const gstvf::Format& format, Placement placement,
             std::unique_ptr<Plan>* out) {
    std::unique_ptr<DenoisePlan> made;
    VF_TRY(make_typed(queue, format, p, placement, &made));
    *out = std::move(made);
    return Status();
  };
}

Status make(Queue& queue, const gstvf::Format& format, int variant, Placement placement,
            std::unique_ptr<Plan>* out) {
  return maker(params(variant))(queue, format, placement, out);
}

const std::vector<std::string>& formats() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> some;
    // Its chroma is a quarter of luma's width.
    for (const std::string& format : plane_formats())
      if (format != "Y41B") some.push_back(format);
    return some;
  }();
  return all;
}

// Runs the library on the CPU with the same frames in order, as whole frames or as two fields.
class Expected {
 public:
  Expected(const GstVideoInfo& info, bool fields)
      : info_(info), fields_(fields), library_(Backend::cpu) {}

  void forget() {
    for (auto& plan : plans_) plan.reset();
  }

  // `later` has the frames that come after this one, packed.
  Status run(GstBuffer* in, DenoiseParams p, BufferPtr* out,
             const std::vector<BufferPtr>& later = {}) {
    using gstvf::Rows;
    VF_TRY(library_.status());
    p.look_ahead = int(later.size());
    if (!gstvf::make_format(info_, false, &format_))
      return Status::error(Code::unsupported, "%s has no layout", info_.finfo->name);
    *out = packed_copy(info_, in);
    gstvf::MappedFrame frame;
    VF_TRY(frame.map(format_, out->get(), GST_MAP_READWRITE, false));
    std::deque<gstvf::MappedFrame> mapped;
    for (const BufferPtr& buffer : later)
      VF_TRY(mapped.emplace_back().map(format_, buffer.get(), GST_MAP_READ, false));
    for (const Rows rows : {Rows::all, Rows::top_field, Rows::bottom_field}) {
      if ((rows == Rows::all) == fields_) continue;
      gstvf::Format part = format_;
      if (fields_ && !gstvf::field_layout(format_, rows == Rows::bottom_field, &part.layout))
        return Status::error(Code::invalid_argument, "too few rows for fields");
      std::unique_ptr<DenoisePlan>& plan = plans_[int(rows)];
      std::unique_ptr<DenoisePlan> made;
      VF_TRY(make_typed(*library_.queue(), part, p, Placement::in_place, &made));
      if (plan) made->take_over(*plan);
      plan = std::move(made);
      std::vector<Image> images;
      for (const gstvf::MappedFrame& m : mapped) images.push_back(m.image(rows));
      VF_TRY(plan->set_later(images.data(), int(images.size())));
      VF_TRY(plan->run(frame.image(rows), frame.image(rows)));
      level = plan->noise_level();
    }
    return {};
  }

  double level = 0;

 private:
  const GstVideoInfo info_;
  const bool fields_;
  gstvf::Format format_;
  Library library_;
  std::unique_ptr<DenoisePlan> plans_[3];
};

// Makes a still picture with other noise in each frame. Every fourth frame shows another picture.
BufferPtr noisy(Case& c, const Row& row, const GstVideoInfo& info, int i) {
  const BufferPtr frame = make_frame(row.cuda_caps, info, guint32(c.options().seed + i));
  if (!frame) {
    c.fail("no frame of %s could be made", info.finfo->name);
    return frame;
  }
  const BufferPtr still = make_frame(false, info, guint32(c.options().seed + 1000 + i / 4));
  GstVideoFrame to, from;
  gst_video_frame_map(&to, &info, frame.get(), GST_MAP_READWRITE);
  gst_video_frame_map(&from, &info, still.get(), GST_MAP_READ);
  for (guint p = 0; p < GST_VIDEO_FRAME_N_PLANES(&to); p++)
    for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&to, p); y++) {
      auto* a = static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&to, p)) +
                y * GST_VIDEO_FRAME_PLANE_STRIDE(&to, p);
      const auto* b = static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&from, p)) +
                      y * GST_VIDEO_FRAME_PLANE_STRIDE(&from, p);
      const int n = GST_VIDEO_FRAME_COMP_WIDTH(&to, p) * GST_VIDEO_FRAME_COMP_PSTRIDE(&to, p);
      for (int x = 0; x < n; x++) a[x] = guint8(80 + (b[x] >> 2) + (a[x] >> 4));
    }
  gst_video_frame_unmap(&to);
  gst_video_frame_unmap(&from);
  return frame;
}

// Holds the number of the frame before which each event happens.
struct Script {
  int flush_at = -1, discont_at = -1, caps_at = -1, passthrough_at = -1, change_at = -1;
  bool fields = false;
  const char* format = "NV12";
};

void sequence(Case& c, const Row& row, const Script& s) {
  if (!usable(c, row)) return;
  const GstVideoInfo info = video_info(
      s.format, 64, 48,
      s.fields ? GST_VIDEO_INTERLACE_MODE_INTERLEAVED : GST_VIDEO_INTERLACE_MODE_PROGRESSIVE);
  Bench b(denoise_element, row);
  b.caps(info);
  Expected expected(info, s.fields);
  DenoiseParams p;
  for (int i = 0; i < 8 && c.ok(); i++) {
    const BufferPtr in = noisy(c, row, info, i);
    if (!c.ok()) return;
    // Some CUDA memory may be read on the host once only.
    const BufferPtr before = packed_copy(info, in.get());
    if (i == s.flush_at) {
      gst_harness_push_event(b.harness(), gst_event_new_flush_start());
      gst_harness_push_event(b.harness(), gst_event_new_flush_stop(TRUE));
      GstSegment segment;
      gst_segment_init(&segment, GST_FORMAT_TIME);
      gst_harness_push_event(b.harness(), gst_event_new_segment(&segment));
    }
    if (i == s.discont_at) GST_BUFFER_FLAG_SET(in.get(), GST_BUFFER_FLAG_DISCONT);
    if (i == s.caps_at) {
      GstVideoInfo faster = info;
      GST_VIDEO_INFO_FPS_N(&faster) = 2 * GST_VIDEO_INFO_FPS_N(&info);
      b.caps(faster);
    }
    if (i == s.flush_at || i == s.discont_at || i == s.caps_at) expected.forget();
    if (i == s.change_at) {
      p.strength = 1.7;
      p.spatial = 0.5;
      p.temporal = 9;
      set(b.element(), p);
    }
    const bool passes = i == s.passthrough_at;
    if (s.passthrough_at >= 0) g_object_set(b.element(), "strength", passes ? 0.0 : 1.0, nullptr);
    BufferPtr want = before;
    if (passes)
      expected.forget();
    else
      c.check(expected.run(before.get(), p, &want), "the library, called directly");
    const BufferPtr out = b.push(in);
    if (!out) return c.fail("nothing came out of frame %d", i);
    const std::string d = difference(info, out.get(), want.get(), 0);
    c.check(d.empty(), "frame %d: %s", i, d.c_str());
  }
}

// Plays a script with look-ahead=2, and checks what comes out. In a script, "3" is frame 3, "3!"
// one that is marked DISCONT, "gap:3" a gap of three frames, and "|" is written down. In what is
// wanted, "3+2" is frame 3 filtered with two later frames, "3=" is unfiltered, and before "~3+2"
// the filter forgets.
struct Ahead {
  const char* what;
  const char* script;
  const char* want;
  const char* format = "NV12";
  bool fields = false;
};
const Ahead kAhead[] = {
    {"the end of the stream", "0 1 | 2 | 3 4 eos", "| 0+2 | 1+2 2+2 3+1 4+0"},
    {"RGBA", "0 1 2 3 eos", "0+2 1+2 2+1 3+0", "RGBA"},
    {"P010_10LE", "0 1 2 3 eos", "0+2 1+2 2+1 3+0", "P010_10LE"},
    {"fields", "0 1 2 3 eos", "0+2 1+2 2+1 3+0", "NV12", true},
    {"a discontinuity", "0 1 2 3! | 4 5 eos", "0+2 1+1 | 2+0 ~3+2 4+1 5+0"},
    {"a flush", "0 1 2 flush | 3 4 eos", "0+2 | ~3+1 4+0"},
    {"a segment", "0 1 segment | 2 eos", "0+1 1+0 | 2+0"},
    {"new caps", "0 1 rate:50 | 2 3 eos", "0+1 1+0 | ~2+1 3+0"},
    {"a query that drains", "0 1 drain | 2 eos", "0+1 1+0 | 2+0"},
    {"a gap lets frames pass", "0 1 gap:1 | gap:2 | 2 eos", "0+1 | 1+0 | 2+0"},
    {"no frame rate", "rate:0 0 1 | rate:25 2 3 eos", "~0+0 1+0 | ~2+1 3+0"},
    {"a longer look-ahead", "look:0 0 | look:2 1 2 | 3 eos", "0+0 | | 1+2 2+1 3+0"},
    {"a shorter look-ahead", "0 1 2 look:1 3 | look:0 4 |", "0+2 1+1 2+1 | 3+0 4+0 |"},
    {"the longest look-ahead", "look:8 0 1 2 3 4 5 6 7 8 | 9 eos",
     "0+8 | 1+8 2+7 3+6 4+5 5+4 6+3 7+2 8+1 9+0"},
    {"off and on", "0 1 2 off 3 on 4 5 eos", "0+2 1= ~2+2 3+2 4+1 5+0"},
    {"passthrough", "0 1 2 strength:0 3 strength:1 4 5 eos", "0+2 1= ~2+2 3+2 4+1 5+0"},
    {"another strength", "0 1 2 strength:2 3 eos", "0+2 strength:2 1+2 2+1 3+0"},
};

class AheadScript {
 public:
  AheadScript(Case& c, const Row& row, const Ahead& a)
      : case_(c),
        row_(row),
        info_(video_info(a.format, 64, 48,
                         a.fields ? GST_VIDEO_INTERLACE_MODE_INTERLEAVED
                                  : GST_VIDEO_INTERLACE_MODE_PROGRESSIVE)),
        bench_(denoise_element, row),
        expected_(info_, a.fields),
        want_(a.want) {
    g_object_set(bench_.element(), "look-ahead", 2, nullptr);
    set_rate(25);
  }
  Bench& bench() { return bench_; }

  void run(const std::string& script) {
    std::istringstream words(script + (row_.async_depth ? " eos" : ""));
    std::string word;
    while (case_.ok() && words >> word) {
      step(word);
      while (GstBuffer* out = gst_harness_try_pull(bench_.harness())) came_out(own(out));
    }
    word = next();
    case_.check(word.empty(), "%s did not come", word.c_str());
  }

 private:
  void set_rate(int rate) {
    GstVideoInfo info = info_;
    info.fps_n = rate;
    info.fps_d = 1;
    bench_.caps(info);
  }

  void step(const std::string& word) {
    const std::string name = word.substr(0, word.find(':'));
    const int number = word.size() > name.size() ? atoi(&word[name.size() + 1]) : 0;
    if (g_ascii_isdigit(word[0])) push(word);
    if (name == "|" && !row_.async_depth) {
      const std::string want = next();
      case_.check(want == "|", "%s did not come", want.c_str());
    }
    if (name == "rate") set_rate(number);
    if (name == "look") g_object_set(bench_.element(), "look-ahead", number, nullptr);
    if (name == "strength") g_object_set(bench_.element(), "strength", double(number), nullptr);
    if (name == "gap")
      gst_harness_push_event(bench_.harness(),
                             gst_event_new_gap(0, guint64(number) * 40 * GST_MSECOND));
    take_step(bench_, word);
  }

  void push(const std::string& word) {
    const BufferPtr in = noisy(case_, row_, info_, atoi(word.c_str()));
    if (!case_.ok()) return;
    frames_.push_back(packed_copy(info_, in.get()));
    GST_BUFFER_PTS(in.get()) = guint64(atoi(word.c_str())) * 40 * GST_MSECOND;
    if (word.back() == '!') GST_BUFFER_FLAG_SET(in.get(), GST_BUFFER_FLAG_DISCONT);
    const GstFlowReturn flow = gst_harness_push(bench_.harness(), gst_buffer_ref(in.get()));
    case_.check(flow == GST_FLOW_OK, "frame %s: %s", word.c_str(), gst_flow_get_name(flow));
  }

  // Frames in flight come out later, so that only their order counts.
  std::string next() {
    std::string word;
    while (want_ >> word && word == "|" && row_.async_depth) continue;
    return want_ ? word : "";
  }

  // Compares a frame with what is wanted next.
  void came_out(const BufferPtr& out) {
    std::string word = next();
    if (word.compare(0, 9, "strength:") == 0) {
      params_.strength = atof(&word[9]);
      word = next();
    }
    if (!word.empty() && word[0] == '~') {
      expected_.forget();
      word.erase(0, 1);
    }
    if (word.empty() || !g_ascii_isdigit(word[0]))
      return case_.fail("a frame came where \"%s\" is wanted", word.c_str());
    const auto number = size_t(atoi(word.c_str()));
    const size_t plus = word.find('+'), first = number + 1;
    BufferPtr want = frames_[number];
    if (plus != std::string::npos) {
      const size_t count = size_t(atoi(&word[plus + 1]));
      if (first + count > frames_.size()) return case_.fail("%s came too early", word.c_str());
      const std::vector<BufferPtr> later(frames_.begin() + long(first),
                                         frames_.begin() + long(first + count));
      case_.check(expected_.run(frames_[number].get(), params_, &want, later),
                  "the library, called directly");
    }
    if (!case_.ok()) return;
    const std::string d = difference(info_, out.get(), want.get(), 0);
    case_.check(d.empty(), "where %s is wanted: %s", word.c_str(), d.c_str());
  }

  Case& case_;
  const Row& row_;
  const GstVideoInfo info_;
  Bench bench_;
  Expected expected_;
  std::istringstream want_;
  DenoiseParams params_;
  std::vector<BufferPtr> frames_;
};

void ahead_cases(Suite& s, const std::string& on, const Row& row) {
  for (const Ahead& a : kAhead) {
    // A flush drops frames in flight.
    if (row.async_depth && strstr(a.script, "flush")) continue;
    s.run(on + "look-ahead/" + a.what, [&](Case& c) {
      if (!usable(c, row)) return;
      AheadScript script(c, row, a);
      script.run(a.script);
      const std::string text = script.bench().message(GST_MESSAGE_WARNING);
      const bool warns = strstr(a.script, "rate:0");
      c.check(warns == (text.find("the caps have no frame rate") != std::string::npos),
              "warning \"%s\"", text.c_str());
    });
  }
}

// The host copies frames before they are in flight, so only those that wait are held.
void held_case(Suite& s, const std::string& on, const Row& row) {
  s.run(on + "look-ahead/buffers go back", [&](Case& c) {
    if (!usable(c, row)) return;
    const GstVideoInfo info = video_info("NV12", 64, 48);
    Bench b(denoise_element, row);
    g_object_set(b.element(), "look-ahead", 2, nullptr);
    b.caps(info);
    std::vector<BufferPtr> frames;
    for (int i = 0; i < 8; i++) {
      frames.push_back(noisy(c, row, info, i));
      if (!c.ok()) return;
      b.push(frames.back());
    }
    for (size_t i = 0; i < frames.size(); i++) {
      const int count = GST_MINI_OBJECT_REFCOUNT_VALUE(frames[i].get());
      c.check(count == (i < 6 ? 1 : 2), "frame %d has %d references", int(i), count);
    }
  });
}

void latency_case(Suite& s, const std::string& at) {
  s.run(at + "latency", [](Case& c) {
    const Row row = kRows[0];
    Bench b(denoise_element, row);
    GstVideoInfo info = video_info("NV12", 64, 48);
    info.fps_n = 25;
    info.fps_d = 1;
    b.caps(info);
    const auto has_message = [&] {
      GstMessage* message = gst_bus_pop_filtered(GST_ELEMENT_BUS(b.element()), GST_MESSAGE_LATENCY);
      if (message) gst_message_unref(message);
      return message != nullptr;
    };
    const auto expect = [&](int look_ahead, int ms) {
      while (has_message()) continue;
      g_object_set(b.element(), "look-ahead", look_ahead, nullptr);
      c.check(has_message(), "no message for look-ahead=%d", look_ahead);
      const GstClockTime latency = gst_harness_query_latency(b.harness());
      c.check(latency == guint64(ms) * GST_MSECOND, "%" GST_TIME_FORMAT " for look-ahead=%d",
              GST_TIME_ARGS(latency), look_ahead);
      const guint min = b.buffers_wanted();
      c.check(look_ahead == 0 || int(min) == look_ahead + 3, "%u buffers for look-ahead=%d", min,
              look_ahead);
    };
    gst_harness_set_upstream_latency(b.harness(), 7 * GST_MSECOND);
    expect(3, 127);
    expect(8, 327);
    info.fps_n = 50;
    b.caps(info);
    c.check(gst_harness_query_latency(b.harness()) == 167 * GST_MSECOND, "after a change of rate");
    expect(0, 7);
  });
}

void property_cases(Suite& s, const std::string& at) {
  s.run(at + "properties", [&](Case& c) {
    GstElement* element = gst_element_factory_make("cudadenoise", nullptr);
    double noise, strength, spatial, level;
    int temporal, look_ahead;
    guint planes;
    g_object_get(element, "noise", &noise, "strength", &strength, "temporal", &temporal, "spatial",
                 &spatial, "look-ahead", &look_ahead, "planes", &planes, "noise-level", &level,
                 nullptr);
    c.check(noise == -1 && strength == 1 && temporal == 24 && spatial == 1.5 && planes == 3 &&
                look_ahead == 0 && level == 0,
            "a default is not the documented one");
    for (const char* name : {"noise", "strength", "temporal", "spatial", "look-ahead", "planes"}) {
      const GParamSpec* p = g_object_class_find_property(G_OBJECT_GET_CLASS(element), name);
      c.check(p && (p->flags & GST_PARAM_CONTROLLABLE) && (p->flags & GST_PARAM_MUTABLE_PLAYING),
              "%s is not controllable while playing", name);
    }
    const GParamSpec* p = g_object_class_find_property(G_OBJECT_GET_CLASS(element), "noise-level");
    c.check(p && !(p->flags & G_PARAM_WRITABLE), "noise-level can be written");
    gst_object_unref(element);
  });

  s.run(at + "noise between -1 and 0 is refused", [&](Case& c) {
    GstElement* element = gst_element_factory_make("cudadenoise", nullptr);
    c.expect_warning("noise=-0.5 is not allowed: it must be -1, or 0 to 100. noise stays -1.");
    double noise;
    g_object_set(element, "noise", -0.5, nullptr);
    g_object_get(element, "noise", &noise, nullptr);
    c.check(noise == -1, "noise became %g", noise);
    gst_object_unref(element);
  });

  s.run(at + "formats", [&](Case& c) {
    GstElement* element = gst_element_factory_make("cudadenoise", nullptr);
    GstPad* sink = gst_element_get_static_pad(element, "sink");
    for (const auto& [format, want] : {std::pair{"NV12", true},
                                       {"GRAY16_LE", true},
                                       {"ARGB64", true},
                                       {"Y41B", false},
                                       {"YUV9", false}}) {
      const GstVideoInfo info = video_info(format, 64, 48);
      GstCaps* caps = gst_video_info_to_caps(&info);
      c.check(bool(gst_pad_query_accept_caps(sink, caps)) == want, "%s", format);
      gst_caps_unref(caps);
    }
    gst_object_unref(sink);
    gst_object_unref(element);
  });

  s.run(at + "planes", [&](Case& c) { check_planes(c, denoise_element, maker(DenoiseParams())); });
}

void sequence_cases(Suite& s, const std::string& on, const Row& row) {
  const auto run = [&](const std::string& name, auto&& change) {
    Script script;
    change(script);
    s.run(on + name, [row, script](Case& c) { sequence(c, row, script); });
  };
  run("sequence", [](Script&) {});
  run("a flush forgets", [](Script& x) { x.flush_at = 3; });
  run("a discontinuity forgets", [](Script& x) { x.discont_at = 3; });
  run("new caps forget", [](Script& x) { x.caps_at = 3; });
  run("passthrough forgets", [](Script& x) { x.passthrough_at = 3; });
  run("settings that change do not", [](Script& x) { x.change_at = 3; });
  run("each field has a state", [](Script& x) { x.fields = true; });
  run("sequence of RGBA", [](Script& x) { x.format = "RGBA"; });
  run("sequence of P010_10LE", [](Script& x) { x.format = "P010_10LE"; });
}

void qos_case(Suite& s, const std::string& on, const Row& row) {
  s.run(on + "a frame that QoS drops is of no state", [&](Case& c) {
    if (!usable(c, row)) return;
    const GstVideoInfo info = video_info("NV12", 64, 48);
    Bench b(denoise_element, row);
    b.caps(info);
    Expected expected(info, false);
    for (int i = 0; i < 6 && c.ok(); i++) {
      const BufferPtr in = noisy(c, row, info, i);
      if (!c.ok()) return;
      const BufferPtr before = packed_copy(info, in.get());
      GST_BUFFER_PTS(in.get()) = i * GST_SECOND;
      // Frames up to 2.5 seconds come too late. The frame of second 2 has not been pushed yet.
      if (i == 2)
        gst_harness_push_upstream_event(b.harness(),
                                        gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 2, GST_SECOND / 2,
                                                          GST_SECOND + GST_SECOND / 2));
      const BufferPtr out = b.push(in);
      if (!out) {
        c.check(i == 2, "frame %d was dropped", i);
        continue;
      }
      c.check(i != 2, "frame 2 was not dropped");
      BufferPtr want;
      c.check(expected.run(before.get(), DenoiseParams(), &want), "the library, called directly");
      if (!c.ok()) return;
      const std::string d = difference(info, out.get(), want.get(), 0);
      c.check(d.empty(), "frame %d: %s", i, d.c_str());
    }
  });
}

// Records the notifications. The handler sets a property, so no lock may be held while it runs.
struct Notified {
  int count = 0;
  double level = 0;
};
void on_noise_level(GObject* element, GParamSpec*, Notified* notified) {
  notified->count++;
  g_object_get(element, "noise-level", &notified->level, nullptr);
  g_object_set(element, "spatial", 1.4 + 0.1 * (notified->count % 2), nullptr);
}

void noise_level_case(Suite& s, const std::string& on, const Row& row) {
  s.run(on + "noise-level and its message", [&](Case& c) {
    if (!usable(c, row)) return;
    const GstVideoInfo info = video_info("NV12", 128, 96);
    Bench b(denoise_element, row);
    GstBus* bus = gst_bus_new();
    gst_element_set_bus(b.element(), bus);
    b.caps(info);
    double level = 0, posted = 0;
    Notified notified;
    g_signal_connect(b.element(), "notify::noise-level", G_CALLBACK(on_noise_level), &notified);
    const gint64 start = g_get_monotonic_time();
    for (int i = 0; i < 40; i++)
      if (!b.push(noisy(c, row, info, 0 * i))) return c.fail("nothing came out");
    g_object_get(b.element(), "noise-level", &level, nullptr);
    c.check(level > 0, "no noise level was found");
    const auto seconds = [&] { return int((g_get_monotonic_time() - start) / G_USEC_PER_SEC); };
    c.check(notified.count > 0 && notified.level > 0, "noise-level did not notify");
    c.check(notified.count <= 1 + seconds(), "%d notifications in %d seconds", notified.count,
            seconds());
    // A second later, the same level causes no notification, and another level does.
    g_usleep(G_USEC_PER_SEC);
    const int before = notified.count;
    for (int i = 0; i < 12; i++)
      if (!b.push(noisy(c, row, info, i))) return c.fail("nothing came out");
    c.check(notified.count > before, "another noise level did not notify");
    c.check(notified.count <= 1 + seconds(), "%d notifications in %d seconds", notified.count,
            seconds());
    while (GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT)) {
      const GstStructure* structure = gst_message_get_structure(message);
      c.check(gst_structure_has_name(structure, "cudadenoise") &&
                  gst_structure_get_double(structure, "noise-level", &posted),
              "a message without noise-level");
      gst_message_unref(message);
    }
    c.check(posted > 0, "no message was posted");
    gst_element_set_bus(b.element(), nullptr);
    gst_object_unref(bus);
  });
}

void cases(Suite& s) {
  const std::string at = "cudadenoise/";
  property_cases(s, at);
  latency_case(s, at);
  for (const Row& row : kRows) {
    const std::string on = at + row.name + "/";
    sequence_cases(s, on, row);
    qos_case(s, on, row);
    noise_level_case(s, on, row);
    ahead_cases(s, on, row);
  }
  static constexpr Row kDeep = {"system-cuda with async-depth", false, "cuda", 2};
  ahead_cases(s, at + kDeep.name + "/", kDeep);
  held_case(s, at + kDeep.name + "/", kDeep);
}

}  // namespace

extern const Element denoise_element = [] {
  Element e;
  e.name = "cudadenoise";
  e.own_cases = cases;
  // With temporal 1 and a given noise, a frame's result depends on no earlier frame.
  e.changes = {{"spatial",
                {"1.5", "4", "0.3", "2.5"},
                {{"temporal", "1"}, {"noise", "25"}},
                {"I420", "RGBA", "NV12", "P010_10LE"},
                {}}};
  e.faults = {{{{"temporal", "1"}, {"noise", "25"}}, {"RGBA", "I420"}, {"RGBA", "NV12"}}};
  e.set = set_variant;
  e.set_identity = set_identity;
  e.make = make;
  e.formats = formats();
  return e;
}();

}  // namespace vf::test
