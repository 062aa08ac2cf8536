// The property enabled: frames that pass, and what comes when the filter is switched on again.
//
// An element is switched at random while other properties change: at every third frame, which is 10
// times per second of a stream of 30 frames per second. Whenever it is switched on, a new element is
// made beside it that gets the same frames. Both must give the same, so that no ghost of older frames
// remains. --changes sets the number of frames; lab/toggle.sh plays ten minutes of video.
#include <gst/base/gstbasetransform.h>
#include <gst/controller/gstdirectcontrolbinding.h>
#include <gst/controller/gstinterpolationcontrolsource.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <thread>

#include "tests/elements/basefeatures.h"

namespace vf::test {
namespace {

constexpr GstClockTime kFrame = 40 * GST_MSECOND;  // video_info() has 25 frames per second

// Returns by how many KiB the heap may grow. Each thread has memory of the settings in force.
long heap_kib() {
  return 256 + 64 * long(g_get_num_processors());
}

struct Switched {
  const char* element;
  const char* format;
  Settings fixed;
  const char* property;  // changes at random
  std::vector<const char*> values;
  const char* to = nullptr;  // the format that comes out; null: the same
  bool regions = false;      // frames have regions of interest now and then
  int waiting = 0;           // frames that wait, with look-ahead-ms
};

const Switched kSwitched[] = {
    {"cudagaussian", "I420", {}, "sigma", {"1", "3", "0"}},
    {"cudagaussian",
     "NV12",
     {{"sigma", "4"}, {"regions", "roi"}, {"hold-ms", "5000"}},
     "region-expand",
     {"0", "0.3"},
     nullptr,
     true},
    {"cudagaussian",
     "I420",
     {{"regions", "roi"}, {"look-ahead-ms", "80"}},
     "sigma",
     {"1", "3", "2"},
     nullptr,
     true,
     2},
    {"cudamedian", "RGBA", {}, "size", {"3", "5", "1"}},
    {"cudamedian",
     "NV12",
     {{"size", "5"}, {"regions", "roi"}, {"look-ahead-ms", "80"}, {"hold-ms", "200"}},
     "region-invert",
     {"true", "false"},
     nullptr,
     true,
     2},
    {"cudapixelate",
     "I420",
     {{"regions", "roi"}, {"on-missing", "hold"}},
     "block-size",
     {"4", "8"},
     nullptr,
     true},
    {"cudapixelate",
     "RGBA",
     {{"regions", "roi"}, {"look-ahead-ms", "40"}, {"on-missing", "hold"}},
     "block-size",
     {"4", "8"},
     nullptr,
     true,
     1},
    {"cudadenoise", "I420", {}, "strength", {"1", "0.5", "2"}},
    {"cudadenoise", "RGBA", {{"noise", "20"}}, "strength", {"1", "0"}},
    {"cudaguidedmatte", "RGBA", {{"temporal", "0.95"}}, "epsilon", {"1e-4", "1e-2"}},
    {"cudaguidedmatte",
     "RGBA",
     {{"mask", "chroma-key"}, {"temporal", "0.9"}},
     "output",
     {"alpha", "premultiplied", "matte", "composite"}},
    {"cudaguidedmatte",
     "NV12",
     {{"mask", "chroma-key"}, {"output", "composite"}},
     "background-color",
     {"4278255360", "4294901760"}},
    {"cudaguidedmatte",
     "I420",
     {{"mask", "chroma-key"}, {"temporal", "0.9"}},
     "output",
     {"alpha", "premultiplied", "matte", "composite"},
     "RGBA"},
    {"cudaguidedmatte",
     "RGBx",
     {{"mask", "chroma-key"}, {"temporal", "0.9"}},
     "output",
     {"alpha", "premultiplied", "matte", "composite"},
     "RGBA"},
    {"cudaguidedmatte",
     "NV12",
     {{"mask", "chroma-key"}, {"output", "composite"}},
     "background",
     {"color", "blur"},
     "RGBx"},
};

constexpr Row kInFlight = {"system-cuda, two in flight", false, "cuda", 2};

// An element with what came out of it, by timestamp.
class Player {
 public:
  Player(const Element& e, const Row& row, const Switched& s, const Settings& settings)
      : bench_(e, row), row_(row), s_(s) {
    for (const Settings& all : {s.fixed, settings})
      for (const auto& [name, value] : all) set(name, value);
    GstPad* pad = bench_.harness()->sinkpad;
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
        [](GstPad*, GstPadProbeInfo* info, gpointer count) {
          *static_cast<int*>(count) +=
              GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_CAPS;
          return GST_PAD_PROBE_OK;
        },
        &caps_events, nullptr);
    size(64, 48);
  }
  void set(const char* name, const char* value) {
    gst_util_set_object_arg(G_OBJECT(element()), name, value);
  }
  void size(int width, int height) {
    info = video_info(s_.format, width, height);
    out_info = video_info(s_.to ? s_.to : s_.format, width, height);
    GstCaps* caps = bench_.make_caps(out_info);
    // Colours are those of the input where the format is of the same kind.
    if (s_.to) {
      gst_caps_set_simple(caps, "format", G_TYPE_STRING, s_.to, nullptr);
      for (const char* field : {"colorimetry", "chroma-site"})
        gst_structure_remove_field(gst_caps_get_structure(caps, 0), field);
    }
    gst_harness_set_sink_caps(bench_.harness(), caps);
    bench_.caps(info);
  }
  // Sends what the element needs after a restart.
  void start() {
    gst_harness_push_event(bench_.harness(), gst_event_new_stream_start("again"));
    size(64, 48);
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(bench_.harness(), gst_event_new_segment(&segment));
  }
  GstFlowReturn push(const BufferPtr& frame) {
    const GstFlowReturn flow = gst_harness_push(bench_.harness(), gst_buffer_ref(frame.get()));
    pull();
    return flow;
  }
  void pull() {
    while (GstBuffer* out = gst_harness_try_pull(bench_.harness())) {
      in_order = in_order && (count == 0 || last < GST_BUFFER_PTS(out));
      last = GST_BUFFER_PTS(out);
      count++;
      came[last] = own(out);
    }
  }
  void event(GstEvent* event) {
    gst_harness_push_event(bench_.harness(), event);
    pull();
  }
  GstElement* element() { return bench_.element(); }
  Bench& bench() { return bench_; }

  GstVideoInfo info, out_info;
  std::map<GstClockTime, BufferPtr> came;
  bool in_order = true;
  GstClockTime last = 0;  // timestamp of the newest frame
  int count = 0;          // frames that came out
  int caps_events = 0;

 private:
  Bench bench_;
  const Row& row_;
  const Switched& s_;
};

BufferPtr frame_at(const Row& row, const Switched& s, const GstVideoInfo& info, int n,
                   bool has_region) {
  GstBuffer* frame = gst_buffer_copy(make_frame(row.cuda_caps, info, guint32(n % 5)).get());
  GST_BUFFER_PTS(frame) = GstClockTime(n) * kFrame;
  GST_BUFFER_DURATION(frame) = kFrame;
  if (s.regions && has_region)
    gst_buffer_add_video_region_of_interest_meta(frame, "face", guint(n * 7 % 30), guint(n % 20),
                                                 20, 16);
  return own(frame);
}

// Returns the picture as a composite with a matte of 1.
BufferPtr opaque(Case& c, const Element& e, const Row& row, const Switched& s,
                 const BufferPtr& frame, const GstVideoInfo& info) {
  Row now = row;
  now.async_depth = 0;
  Player p(e, now, s,
           {{"mask", "chroma-key"},
            {"output", "composite"},
            {"background", "color"},
            {"key-tolerance", "0"},
            {"key-softness", "0"},
            {"temporal", "0"}});
  p.size(info.width, info.height);
  c.check(p.push(frame) == GST_FLOW_OK && p.came.size() == 1, "no opaque picture");
  return p.came.empty() ? nullptr : p.came.begin()->second;
}

// Whether a frame is what is expected, which may be the very buffer.
void expect_frame(Case& c, const char* what, const GstVideoInfo& info, const BufferPtr& got,
                  const BufferPtr& want) {
  if (!c.ok() || got == want) return;
  if (!want) return c.fail("%s: there is nothing to compare with", what);
  const std::string diff = difference(info, got.get(), want.get(), 0);
  c.check(diff.empty(), "%s: %s", what, diff.c_str());
}

std::string name_of(const Switched& s) {
  std::string name = std::string(s.element) + "/enabled/";
  for (const auto& [property, value] : s.fixed) name += std::string(property) + "=" + value + " ";
  return name + "changing " + s.property + ", " + s.format +
         (s.to ? std::string(" to ") + s.to : "");
}

// Returns the frame that must come out of an element whose frames pass.
BufferPtr passed(Case& c, const Element& e, const Row& row, const Switched& s,
                 const BufferPtr& frame, const GstVideoInfo& info) {
  return s.to ? opaque(c, e, row, s, frame, info) : frame;
}

void random_case(Suite& suite, const Element& e, const Row& row, const Switched& s) {
  suite.run(name_of(s) + ", " + row.name + "/at random", [&](Case& c) {
    if (!usable(c, row)) return;
    GRand* rand = g_rand_new_with_seed(guint32(c.options().seed));
    const auto one_of = [rand](int n) { return int(g_rand_int_range(rand, 0, n)); };
    Row alone = row;
    alone.async_depth = 0;
    Player p(e, row, s, {});
    std::unique_ptr<Player> fresh = std::make_unique<Player>(e, alone, s, Settings{});
    std::map<GstClockTime, BufferPtr> wanted;
    std::vector<BufferPtr> came;
    const char* value = nullptr;
    bool on = true, passes_itself = true;
    const int frames = 12 + c.options().changes;
    // The heap in use depends on whether the filter is on, so the least of many frames is compared.
    gsize heap = G_MAXSIZE, heap_then = G_MAXSIZE;
    // Compares the frames that have come out, and lets go of them.
    const auto settle = [&] {
      for (const auto& [time, out] : p.came) {
        expect_frame(c, ("frame " + std::to_string(time / kFrame)).c_str(), p.out_info, out,
                     wanted[time]);
        wanted.erase(time);
      }
      p.came.clear();
    };
    // Says what must have come out for a frame that has left.
    const auto leaves = [&](const BufferPtr& frame) {
      const GstClockTime time = GST_BUFFER_PTS(frame.get());
      if (on) {
        wanted[time] = fresh->came[time];
        fresh->came.clear();
        return;
      }
      wanted[time] = passed(c, e, row, s, frame, p.info);
      const auto out = p.came.find(time);
      if (!s.to)
        passes_itself = passes_itself && out != p.came.end() && out->second.get() == frame.get();
    };
    for (int i = 0; i < frames && c.ok(); i++) {
      if (one_of(3) == 0) {
        on = !on;
        p.set("enabled", on ? "true" : "false");
        if (on) {
          fresh = std::make_unique<Player>(e, alone, s, Settings{});
          if (value) fresh->set(s.property, value);
          // Frames that still wait are filtered, too.
          for (int k = std::max(i - s.waiting, 0); k < i; k++) fresh->push(came[size_t(k)]);
        }
      }
      if (one_of(3) == 0) {
        value = s.values[size_t(one_of(int(s.values.size())))];
        p.set(s.property, value);
        if (on) fresh->set(s.property, value);
      }
      came.push_back(frame_at(row, s, p.info, i, one_of(2)));
      c.check(p.push(came.back()) == GST_FLOW_OK, "frame %d was refused", i);
      if (on) fresh->push(came.back());
      if (i >= s.waiting) {
        leaves(came[size_t(i - s.waiting)]);
        // Its buffer may be used again.
        came[size_t(i - s.waiting)].reset();
      }
      settle();
      const int part = 4 * i / frames;
      if (part == 1) heap = std::min(heap, mallinfo2().uordblks);
      if (part == 3) heap_then = std::min(heap_then, mallinfo2().uordblks);
    }
    const long grown = (long(heap_then) - long(heap)) / 1024;
    p.event(gst_event_new_eos());
    if (on) fresh->event(gst_event_new_eos());
    for (const BufferPtr& frame : came)
      if (frame && on)
        wanted[GST_BUFFER_PTS(frame.get())] = fresh->came[GST_BUFFER_PTS(frame.get())];
      else if (frame)
        wanted[GST_BUFFER_PTS(frame.get())] = passed(c, e, row, s, frame, p.info);
    settle();
    c.check(p.in_order, "frames came out in another order");
    c.check(passes_itself, "a frame that passed was not the buffer that came in");
    c.check(p.count == frames, "%d frames of %d came out", p.count, frames);
    c.check(p.caps_events == 1, "%d CAPS events", p.caps_events);
    c.check(grown < heap_kib(), "the heap grew by %ld KiB in %d frames", grown, frames / 2);
    g_rand_free(rand);
  });
}

// Another thread switches while frames come. Each frame must be the one that came in or the filtered
// one, and the first filtered frame behind one that passed must know nothing of older frames.
void thread_case(Suite& suite, const Element& e, const Row& row, const Switched& s) {
  suite.run(name_of(s) + ", " + row.name + "/another thread", [&](Case& c) {
    if (!usable(c, row)) return;
    Player p(e, row, s, {});
    std::unique_ptr<Player> fresh;
    std::atomic<bool> ended{false};
    std::thread switcher([&] {
      GRand* rand = g_rand_new_with_seed(guint32(c.options().seed));
      for (bool on = false; !ended; on = !on) {
        p.set("enabled", on ? "true" : "false");
        g_usleep(gulong(g_rand_int_range(rand, 0, 3000)));
      }
      g_rand_free(rand);
    });
    // Goes on until frames have come in both states, which depends on the machine.
    int passing = 0, filtered = 0;
    const int frames = 4 * c.options().changes;
    const gint64 end = g_get_monotonic_time() + 60 * G_USEC_PER_SEC;
    for (int i = 0;
         c.ok() && (i < frames || ((passing < 5 || filtered < 5) && g_get_monotonic_time() < end));
         i++) {
      const BufferPtr frame = frame_at(row, s, p.info, i, true);
      c.check(p.push(frame) == GST_FLOW_OK && p.came.size() == 1, "frame %d was lost", i);
      const BufferPtr out = p.came.empty() ? nullptr : p.came.begin()->second;
      p.came.clear();
      if (out == frame) {
        passing++;
        fresh.reset();
        continue;
      }
      filtered++;
      if (!fresh) fresh = std::make_unique<Player>(e, row, s, Settings{});
      fresh->push(frame);
      expect_frame(c, ("frame " + std::to_string(i)).c_str(), p.info, out,
                   fresh->came[GST_BUFFER_PTS(frame.get())]);
      fresh->came.clear();
    }
    ended = true;
    switcher.join();
    c.check(passing >= 5 && filtered >= 5, "%d frames passed, and %d were filtered", passing,
            filtered);
    c.check(p.caps_events == 1, "%d CAPS events", p.caps_events);
  });
}

// New caps, a flush and EOS while frames pass.
void events_case(Suite& suite, const Element& e, const Row& row, const Switched& s) {
  suite.run(name_of(s) + ", " + row.name + "/caps, flush and EOS", [&](Case& c) {
    if (!usable(c, row)) return;
    Row alone = row;
    alone.async_depth = 0;
    Player p(e, row, s, {});
    int n = 0;
    const auto passes = [&](const char* when) {
      const BufferPtr frame = frame_at(row, s, p.info, n++, true);
      c.check(p.push(frame) == GST_FLOW_OK, "%s: refused", when);
      if (row.async_depth && s.to) return;  // still on its way
      expect_frame(c, when, p.out_info, p.came[GST_BUFFER_PTS(frame.get())],
                   passed(c, e, row, s, frame, p.info));
    };
    const auto filters = [&](const char* when) {
      Player fresh(e, alone, s, {});
      fresh.size(p.info.width, p.info.height);
      std::map<GstClockTime, BufferPtr> wanted;
      for (int i = 0; i < 3; i++) {
        const BufferPtr frame = frame_at(row, s, p.info, n++, i == 0);
        c.check(p.push(frame) == GST_FLOW_OK, "%s: refused", when);
        fresh.push(frame);
      }
      // It comes after the frames that are in flight.
      p.event(gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, gst_structure_new_empty("test")));
      for (const auto& [time, want] : fresh.came)
        expect_frame(c, when, p.out_info, p.came[time], want);
    };
    filters("at first");
    p.set("enabled", "false");
    passes("switched off");
    p.size(32, 20);
    passes("new caps");
    p.set("enabled", "true");
    filters("switched on after new caps");
    p.set("enabled", "false");
    passes("switched off again");
    p.event(gst_event_new_flush_start());
    p.event(gst_event_new_flush_stop(TRUE));
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    p.event(gst_event_new_segment(&segment));
    passes("after a flush");
    p.set("enabled", "true");
    filters("switched on after a flush");
    p.set("enabled", "false");
    passes("before EOS");
    p.event(gst_event_new_eos());
    // A flush discards the frame that is converted in flight.
    const int flushed = row.async_depth && s.to ? 1 : 0;
    c.check(p.count + flushed == n, "%d frames of %d came out", p.count, n);
    // Off from the start.
    Player off(e, alone, s, {{"enabled", "false"}});
    const BufferPtr frame = frame_at(row, s, off.info, 0, true);
    off.push(frame);
    expect_frame(c, "off from the start", off.out_info, off.came[0],
                 passed(c, e, row, s, frame, off.info));
    off.set("enabled", "true");
    const BufferPtr next = frame_at(row, s, off.info, 1, true);
    Player fresh(e, alone, s, {});
    fresh.push(next);
    off.push(next);
    expect_frame(c, "on for the first time", off.out_info, off.came[kFrame], fresh.came[kFrame]);
  });
}

// A controller switches at every frame; memory stays.
void controller_case(Suite& suite, const Element& e, const Row& row, const Switched& s) {
  suite.run(name_of(s) + ", " + row.name + "/a controller", [&](Case& c) {
    if (!usable(c, row)) return;
    Player p(e, row, s, {});
    GstControlSource* source = gst_interpolation_control_source_new();
    g_object_set(source, "mode", GST_INTERPOLATION_MODE_NONE, nullptr);
    gst_object_add_control_binding(
        GST_OBJECT(p.element()),
        gst_direct_control_binding_new(GST_OBJECT(p.element()), "enabled", source));
    const int frames = 4 * c.options().changes;
    for (int i = 0; i < frames; i++)
      gst_timed_value_control_source_set(GST_TIMED_VALUE_CONTROL_SOURCE(source), i * kFrame,
                                         i % 2 ? 0 : 1);
    gsize heap = 0;
    for (int i = 0; i < frames && c.ok(); i++) {
      const BufferPtr frame = frame_at(row, s, p.info, i, true);
      c.check(p.push(frame) == GST_FLOW_OK, "frame %d was refused", i);
      if (!s.to && i % 2)
        c.check(p.came.count(i * kFrame) && p.came[i * kFrame].get() == frame.get(),
                "frame %d did not pass", i);
      p.came.clear();
      if (i == frames / 2) heap = mallinfo2().uordblks;
    }
    p.came.clear();
    const long grown = long(mallinfo2().uordblks - heap) / 1024;
    c.check(grown < heap_kib(), "the heap grew by %ld KiB in %d frames", grown, frames / 2);
    c.check(p.caps_events == 1, "%d CAPS events", p.caps_events);
    gst_object_unref(source);
  });
}

// The filter reads rows wherever they lie; the next element need not.
void padded_case(Suite& suite, const Element& e) {
  const Switched s = {"cudagaussian", "I420", {}, "sigma", {}};
  suite.run("cudagaussian/enabled/padded rows and a next element that wants none", [&](Case& c) {
    Player p(e, kRows[0], s, {{"enabled", "false"}});
    for (const int padding : {0, 64, 0}) {
      const BufferPtr frame = make_frame(false, p.info, 1, {padding});
      c.check(p.push(frame) == GST_FLOW_OK, "refused");
      const BufferPtr out = p.came.empty() ? nullptr : p.came.begin()->second;
      expect_frame(c, "padded", p.info, out, frame);
      c.check(out && gst_buffer_get_size(out.get()) == p.info.size, "%zu bytes",
              out ? gst_buffer_get_size(out.get()) : 0);
      p.came.clear();
    }
  });
}

// Values that cannot be used while nothing needs them.
void unusable_case(Suite& suite, const Element& e) {
  const Switched s = {"cudagaussian", "I420", {}, "sigma", {}};
  suite.run(
      "cudagaussian/enabled/a sigma that cannot be used, set while frames pass", [&](Case& c) {
        const auto sigma = [](Player& p) {
          gdouble value;
          g_object_get(p.element(), "sigma", &value, nullptr);
          return value;
        };
        const auto enabled = [](Player& p) {
          gboolean value;
          g_object_get(p.element(), "enabled", &value, nullptr);
          return value;
        };
        Player p(e, kRows[0], s, {{"sigma", "2"}});
        Player fresh(e, kRows[0], s, {{"sigma", "2"}});
        const BufferPtr frame = frame_at(kRows[0], s, p.info, 0, false);
        fresh.push(frame);
        p.push(frame);
        p.set("enabled", "false");
        for (const char* value : {"90", "1", "95"}) {
          p.set("sigma", value);
          p.push(frame);
          expect_frame(c, "off", p.info, p.came[0], frame);
        }
        p.set("enabled", "true");
        c.check(p.push(frame) == GST_FLOW_OK, "the stream ended");
        expect_frame(c, "on", p.info, p.came[0], fresh.came[0]);
        c.check(sigma(p) == 2 && enabled(p), "sigma is %g", sigma(p));
        p.bench().expect_warning(c, "sigma stays 2");

        // Set before it starts, so that there is no value before it.
        Player off(e, kRows[0], s, {{"enabled", "false"}});
        gst_element_set_state(off.element(), GST_STATE_READY);
        off.set("sigma", "90");
        gst_element_set_state(off.element(), GST_STATE_PLAYING);
        off.start();
        off.push(frame);
        off.set("enabled", "true");
        c.check(off.push(frame) == GST_FLOW_OK, "the stream ended, with no value to put back");
        expect_frame(c, "still off", off.info, off.came[0], frame);
        c.check(!enabled(off), "it says that it filters");
        off.bench().expect_warning(c, "enabled stays");
        off.set("sigma", "2");
        off.set("enabled", "true");
        off.push(frame);
        expect_frame(c, "on at last", off.info, off.came[0], fresh.came[0]);
        c.check(off.bench().message(GST_MESSAGE_ERROR).empty(), "an error came");
      });
}

}  // namespace

void enabled_cases(Suite& suite, const Element& e) {
  if (&e == &regions_element) return;  // its element has these cases already
  for (const Switched& s : kSwitched) {
    if (strcmp(s.element, e.name)) continue;
    for (const Row& row : kRows) {
      // Its formats in CUDA memory are others.
      random_case(suite, e, row, s);
      if (s.waiting) continue;
      events_case(suite, e, row, s);
      if (!s.to) thread_case(suite, e, row, s);
    }
    random_case(suite, e, kInFlight, s);
    // The other cases expect each frame before the next one comes.
    if (s.waiting) continue;
    events_case(suite, e, kInFlight, s);
    for (const Row* row : {&kRows[0], &kRows[2]}) controller_case(suite, e, *row, s);
  }
  if (!strcmp(e.name, "cudagaussian")) {
    padded_case(suite, e);
    unusable_case(suite, e);
  }
  suite.run(std::string(e.name) + "/enabled/which elements have it", [&](Case& c) {
    GstElement* element = gst_element_factory_make(e.name, nullptr);
    const bool has = g_object_class_find_property(G_OBJECT_GET_CLASS(element), "enabled");
    c.check(has != g_str_has_prefix(e.name, "cudaletterbox"), "has it: %d", has);
    gst_object_unref(element);
  });
}

}  // namespace vf::test
