// Changes everything that may change while an element runs: settings, caps, memory, state, the
// pipeline around it and the CUDA context of its frames. Every frame that comes out must equal what
// a new element makes of the same input, so that nothing remains of the previous state.
//
//   elements --case change/ --changes N      makes N changes per case; memory use must stay flat

#include <gst/controller/gstdirectcontrolbinding.h>
#include <gst/controller/gstinterpolationcontrolsource.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/elements/harness.h"
#include "tests/process.h"

namespace vf::test {
namespace {

struct Subject : ChangeEntry {
  const Element* element;
};

std::string path_of(const Subject& subject) {
  return path_of(*subject.element, subject.fixed);
}

// Describes one input frame and the element's state when it arrives.
struct Step {
  const Subject* subject;
  const Row* row;
  const char* format;
  int width, height;
  size_t behind, value;
  guint32 seed;

  GstVideoInfo info() const { return video_info(format, width, height); }
  const char* caps_behind() const {
    return subject->behind.empty() ? nullptr : subject->behind[behind % subject->behind.size()];
  }
  const char* setting() const { return subject->values[value % subject->values.size()]; }
  std::string input() const {
    return std::string(row->cuda_caps ? "cuda " : "") + format + " " + std::to_string(width) + "x" +
           std::to_string(height) + " " + std::to_string(seed);
  }
  std::string name() const {
    const char* b = caps_behind();
    return std::string(row->name) + " " + input() + " " + subject->property + "=" + setting() +
           (b ? std::string(" to ") + b : "");
  }
};

void set_value(GstElement* element, const Step& step) {
  gst_util_set_object_arg(G_OBJECT(element), step.subject->property, step.setting());
}

void set_fixed(GstElement* element, const Subject& subject) {
  for (const auto& [name, value] : subject.fixed)
    gst_util_set_object_arg(G_OBJECT(element), name, value);
}

GstCaps* caps_of(const GstVideoInfo& info, bool cuda) {
  GstCaps* caps = gst_video_info_to_caps(&info);
  if (cuda) gstvf::set_caps_in_cuda(caps);
  return caps;
}

// Hashes the pixels of a buffer without its padding.
guint64 fingerprint(GstBuffer* buffer, GstCaps* caps) {
  guint64 hash = 1469598103934665603u;
  auto take = [&](const guint8* bytes, gsize n) {
    for (gsize i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
  };
  GstVideoInfo info;
  if (!gst_video_info_from_caps(&info, caps)) {
    GstMapInfo map;
    if (!gst_buffer_map(buffer, &map, GST_MAP_READ)) return 0;
    take(map.data, map.size);
    gst_buffer_unmap(buffer, &map);
    return hash;
  }
  const BufferPtr host = gstvf::cuda_memory(buffer) ? packed_copy(info, buffer) : nullptr;
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, &info, host ? host.get() : buffer, GST_MAP_READ)) return 0;
  take(reinterpret_cast<const guint8*>(&info.width), sizeof info.width);
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); p++) {
    gint component[GST_VIDEO_MAX_COMPONENTS];
    gst_video_format_info_component(info.finfo, p, component);
    const int c = component[0];
    for (int y = 0; y < GST_VIDEO_INFO_COMP_HEIGHT(&info, c); y++)
      take(static_cast<guint8*>(frame.data[p]) + ptrdiff_t(y) * frame.info.stride[p],
           gsize(GST_VIDEO_INFO_COMP_WIDTH(&info, c)) * info.finfo->pixel_stride[c]);
  }
  gst_video_frame_unmap(&frame);
  return hash;
}

// A harness stores all events of both directions; this drops them.
void forget_events(GstHarness* h) {
  while (GstEvent* event = gst_harness_try_pull_event(h)) gst_event_unref(event);
  while (GstEvent* event = gst_harness_try_pull_upstream_event(h)) gst_event_unref(event);
}

// Wraps the element under test, or a new one to compare with.
class Runner {
 public:
  explicit Runner(const Subject& subject, const Row& row, int device = -1)
      : bench_(*subject.element, row, device), subject_(subject) {
    set_fixed(bench_.element(), subject);
  }
  GstElement* element() const { return bench_.element(); }
  // Sets the caps of `step` unless they are already set.
  void caps(const Step& step) {
    GstHarness* h = bench_.harness();
    if (step.caps_behind() && behind_ != step.caps_behind()) {
      behind_ = step.caps_behind();
      gst_harness_set_sink_caps_str(h, behind_);
    }
    GstCaps* caps = caps_of(step.info(), step.row->cuda_caps);
    if (caps_ && gst_caps_is_equal(caps, caps_.get())) {
      gst_caps_unref(caps);
      return;
    }
    caps_ = std::shared_ptr<GstCaps>(caps, gst_caps_unref);
    gst_harness_set_src_caps(h, gst_caps_ref(caps));
  }
  // Returns the fingerprint of the output for `in`. Fails the case if nothing comes out.
  guint64 push(Case& c, const Step& step, const BufferPtr& in) {
    if (!in) return c.fail("%s: no such frame could be made", step.name().c_str()), 0;
    out_ = bench_.push(in);
    if (!out_) {
      c.fail("%s: flow %s: %s", step.name().c_str(), gst_flow_get_name(bench_.flow()),
             bench_.message(GST_MESSAGE_ERROR).c_str());
      return 0;
    }
    GstCaps* caps = gst_pad_get_current_caps(bench_.harness()->sinkpad);
    const guint64 print = fingerprint(out_.get(), caps);
    gst_caps_unref(caps);
    forget_events(bench_.harness());
    return print;
  }
  const BufferPtr& out() const { return out_; }

 private:
  Bench bench_;
  const Subject& subject_;
  const char* behind_ = nullptr;
  std::shared_ptr<GstCaps> caps_;
  BufferPtr out_;
};

// Makes input frames, each once, and what new elements make of them, each once for all cases.
class Oracle {
 public:
  explicit Oracle(Case& c) : c_(c) {}
  BufferPtr frame(const Step& step, GstCudaContext* context = nullptr) {
    BufferPtr& kept = frames_[{step.input(), context}];
    if (!kept) kept = make_frame(step.row->cuda_caps, step.info(), step.seed, {}, context);
    return kept;
  }
  guint64 of(const Step& step) {
    static std::map<std::string, guint64> prints;
    const std::string name = path_of(*step.subject) + " " + step.name();
    if (const auto found = prints.find(name); found != prints.end()) return found->second;
    Runner fresh(*step.subject, *step.row);
    set_value(fresh.element(), step);
    fresh.caps(step);
    const guint64 print = fresh.push(c_, step, frame(step));
    if (c_.ok()) prints[name] = print;
    return print;
  }
  // Checks that `print` is the result of one of the steps.
  void expect(guint64 print, const std::vector<Step>& steps) {
    if (!c_.ok()) return;
    for (const Step& step : steps)
      if (of(step) == print) return;
    c_.fail("%s: not the frame that a new element gives", steps[0].name().c_str());
  }

 private:
  Case& c_;
  std::map<std::pair<std::string, GstCudaContext*>, BufferPtr> frames_;
};

// Is a second thread that does one thing on request while the caller continues.
class Other {
 public:
  Other() : thread_([this] { run(); }) {}
  ~Other() {
    begin(nullptr);
    thread_.join();
  }
  void begin(std::function<void()> work) {
    std::lock_guard<std::mutex> lock(mutex_);
    work_ = std::move(work);
    busy_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
  }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return busy_; });
      if (!work_) return;
      lock.unlock();
      work_();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool busy_ = false;
  std::thread thread_;
};

// Compares memory use after the first changes, when caches are full, with memory use after the
// last.
class Flat {
 public:
  // Changes come in rounds of `round`. Memory is compared at the ends of rounds.
  explicit Flat(int round) : round_(round), warm_(3 * round) {}
  // Call this after each change; `done` is the number of changes so far, from 1.
  void changed(int done) {
    if (done < warm_ || done % round_) return;
    const At now{done, heap_kib(), device_kib(), resident_kib()};
    (done == warm_ ? first_ : last_) = now;
  }
  void check(Case& c) {
    const int over = last_.done - first_.done;
    if (over <= 0) return;
    const long grown = last_.heap - first_.heap;
    if (last_.done >= 1000)
      printf("# changes %d to %d: heap %ld to %ld KiB, resident %ld to %ld, device %ld to %ld\n",
             first_.done, last_.done, first_.heap, last_.heap, first_.resident, last_.resident,
             first_.device, last_.device);
    // One leaked GStreamer object per change would exceed this limit.
    c.check(grown < 256 + over / 20, "the heap grew by %ld KiB in %d changes", grown, over);
#if VF_EMULATION
    // A GPU reports the memory of all processes.
    const long device_grown = last_.device - first_.device;
    c.check(device_grown < 4096, "device memory grew by %ld KiB in %d changes", device_grown, over);
#endif
  }

 private:
  struct At {
    int done = 0;
    long heap = 0, device = 0, resident = 0;
  };
  int round_, warm_;
  At first_, last_;
};

struct Size {
  int width, height;
};
constexpr Size kSizes[] = {{64, 48}, {1, 1},      {333, 6},     {2, 2},    {65, 34},
                           {16, 16}, {1280, 720}, {3840, 2160}, {31, 128}, {5, 200}};

// Returns the sequence of caps and memories that one element goes through. All rows have the same
// backend, because one element cannot change it.
std::vector<Step> route(Case& c, const Subject& subject, const std::vector<const Row*>& rows) {
  std::vector<Step> steps;
  for (const Size& size : kSizes) {
    if (guint64(size.width) * size.height > c.options().max_pixels) continue;
    for (size_t f = 0; f < subject.formats.size(); f++)
      for (const Row* row : rows) {
        // One format is enough for large frames.
        if (f && size.width * size.height > 200000) continue;
        // GStreamer loses rows of such 4:2:0 frames in CUDA memory: see loses_rows in common.cpp.
        if (row->cuda_caps && size.height % 2 && strcmp(subject.formats[f], "RGBA")) continue;
        steps.push_back({&subject, row, subject.formats[f], size.width, size.height, steps.size(),
                         steps.size(), 1});
      }
  }
  // Steps are visited with a stride that is coprime to their number, so that neighbours differ in
  // everything.
  std::vector<Step> mixed;
  size_t stride = steps.size() / 2 + 1;
  auto common = [](size_t a, size_t b) {
    while (b) std::swap(a %= b, b);
    return a;
  };
  while (common(steps.size(), stride) != 1) stride++;
  for (size_t i = 0; i < steps.size(); i++) mixed.push_back(steps[i * stride % steps.size()]);
  return mixed;
}

std::vector<const Row*> rows_of(const char* backend) {
  std::vector<const Row*> rows;
  for (const Row& row : kRows)
    if (!strcmp(row.backend, backend) && (!row.needs_device() || cuda_context()))
      rows.push_back(&row);
  return rows;
}

void settings_cases(Suite& s, const Subject& subject, const Row& row) {
  const std::string at = path_of(subject) + "/change/" + row.name + "/";
  const Step first = {&subject, &row, subject.formats[0], 64, 48, 0, 0, 1};

  s.run(at + "a property at every frame, by another thread", [&](Case& c) {
    if (!usable(c, row)) return;
    Oracle oracle(c);
    Runner runner(subject, row);
    Step before = first;
    set_value(runner.element(), before);
    runner.caps(before);
    Flat flat(int(subject.values.size()));
    Other other;
    const int changes = c.options().changes;
    for (int i = 1; i <= changes && c.ok(); i++) {
      Step after = before;
      after.value++;
      other.begin([&] { set_value(runner.element(), after); });
      const guint64 print = runner.push(c, before, oracle.frame(before));
      other.wait();
      oracle.expect(print, {before, after});
      // After the change, nothing of the previous state shows.
      oracle.expect(runner.push(c, after, oracle.frame(after)), {after});
      before = after;
      flat.changed(i);
    }
    flat.check(c);
  });

  s.run(at + "a controlled property", [&](Case& c) {
    if (!usable(c, row)) return;
    Oracle oracle(c);
    Runner runner(subject, row);
    GstControlSource* source = gst_interpolation_control_source_new();
    g_object_set(source, "mode", GST_INTERPOLATION_MODE_NONE, nullptr);
    gst_object_add_control_binding(GST_OBJECT(runner.element()),
                                   gst_direct_control_binding_new_absolute(
                                       GST_OBJECT(runner.element()), subject.property, source));
    const GParamSpec* spec =
        g_object_class_find_property(G_OBJECT_GET_CLASS(runner.element()), subject.property);
    runner.caps(first);
    const int frames = std::min(c.options().changes, 100);
    for (int i = 0; i < frames && c.ok(); i++) {
      Step step = first;
      step.value = size_t(i);
      double value = g_ascii_strtod(step.setting(), nullptr);
      if (G_IS_PARAM_SPEC_ENUM(spec)) {
        // Even an absolute control binding maps an enum's values to the range from 0 to 1.
        GEnumClass* e = G_PARAM_SPEC_ENUM(spec)->enum_class;
        value = double(g_enum_get_value_by_nick(e, step.setting()) - e->values) / (e->n_values - 1);
      }
      const GstClockTime time = i * 40 * GST_MSECOND;
      gst_timed_value_control_source_set(GST_TIMED_VALUE_CONTROL_SOURCE(source), time, value);
      const BufferPtr in = own(gst_buffer_copy(oracle.frame(step).get()));
      GST_BUFFER_PTS(in.get()) = time;
      oracle.expect(runner.push(c, step, in), {step});
    }
    gst_object_unref(source);
  });
}

void caps_cases(Suite& s, const Subject& subject, const char* backend) {
  const std::string at = path_of(subject) + "/change/" + backend + "/";

  s.run(at + "caps, size, format and memory", [&](Case& c) {
    const std::vector<const Row*> rows = rows_of(backend);
    if (rows.empty()) return c.skip("no CUDA device");
    const std::vector<Step> steps = route(c, subject, rows);
    Oracle oracle(c);
    Runner runner(subject, *rows[0]);
    Flat flat(int(steps.size()));
    const int changes = c.options().changes;
    for (int i = 0; i < changes && c.ok(); i++) {
      const Step& step = steps[size_t(i) % steps.size()];
      // The setting changes before the caps in every other step, and after them otherwise.
      if (i % 2) set_value(runner.element(), step);
      runner.caps(step);
      set_value(runner.element(), step);
      for (int frame = 0; frame < 2 && c.ok(); frame++)
        oracle.expect(runner.push(c, step, oracle.frame(step)), {step});
      flat.changed(i + 1);
    }
    flat.check(c);
  });

  s.run(at + "restarts, flushes and caps in turn", [&](Case& c) {
    const std::vector<const Row*> rows = rows_of(backend);
    if (rows.empty()) return c.skip("no CUDA device");
    std::vector<Step> steps = route(c, subject, rows);
    Oracle oracle(c);
    Bench b(*subject.element, *rows[0]);
    set_fixed(b.element(), subject);
    GstHarness* h = b.harness();
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    const int rounds = std::min(c.options().changes, 1000) / 4;
    for (int i = 0; i < rounds && c.ok(); i++) {
      Step step = steps[size_t(i) % steps.size()];
      if (step.width * step.height > 20000) continue;
      set_value(b.element(), step);
      // The cases cover every order of an EOS, a flush and a restart.
      if (i & 1) gst_harness_push_event(h, gst_event_new_eos());
      if (i & 2) {
        gst_harness_push_event(h, gst_event_new_flush_start());
        gst_harness_push_event(h, gst_event_new_flush_stop(TRUE));
      }
      if ((i & 4) || (i & 3) == 1) {
        gst_element_set_state(b.element(), i & 8 ? GST_STATE_NULL : GST_STATE_READY);
        gst_element_set_state(b.element(), GST_STATE_PLAYING);
        gst_harness_push_event(h, gst_event_new_flush_start());
        gst_harness_push_event(h, gst_event_new_flush_stop(TRUE));
        gst_harness_push_event(h, gst_event_new_stream_start("again"));
      }
      if (step.caps_behind()) gst_harness_set_sink_caps_str(h, step.caps_behind());
      gst_harness_set_src_caps(h, caps_of(step.info(), step.row->cuda_caps));
      gst_harness_push_event(h, gst_event_new_segment(&segment));
      const BufferPtr out = b.push(oracle.frame(step));
      if (!out) {
        c.fail("%s: flow %s: %s", step.name().c_str(), gst_flow_get_name(b.flow()),
               b.message(GST_MESSAGE_ERROR).c_str());
        break;
      }
      GstCaps* caps = gst_pad_get_current_caps(h->sinkpad);
      oracle.expect(fingerprint(out.get(), caps), {step});
      gst_caps_unref(caps);
      forget_events(h);
    }
  });

  s.run(at + "two elements at once", [&](Case& c) {
    // In CUDA memory, both elements use the context of their frames.
    const std::vector<const Row*> rows = rows_of(backend);
    if (rows.empty()) return c.skip("no CUDA device");
    std::vector<Step> steps = route(c, subject, rows);
    steps.erase(std::remove_if(steps.begin(), steps.end(),
                               [](const Step& t) { return t.width * t.height > 20000; }),
                steps.end());
    Oracle oracle(c);
    for (const Step& step : steps) oracle.of(step);
    Runner one(subject, *rows[0]), two(subject, *rows[0]);
    Other other;
    const int changes = c.options().changes;
    for (int i = 0; i < changes && c.ok(); i++) {
      const Step &a = steps[size_t(i) % steps.size()], &b = steps[size_t(i) * 3 % steps.size()];
      const BufferPtr frame_a = oracle.frame(a), frame_b = oracle.frame(b);
      auto turn = [&c](Runner& runner, const Step& step, const BufferPtr& frame) {
        set_value(runner.element(), step);
        runner.caps(step);
        return runner.push(c, step, frame);
      };
      guint64 print_b = 0;
      other.begin([&] { print_b = turn(two, b, frame_b); });
      const guint64 print_a = turn(one, a, frame_a);
      other.wait();
      oracle.expect(print_a, {a});
      oracle.expect(print_b, {b});
    }
  });
}

// CUDA contexts

void context_cases(Suite& s, const Subject& subject) {
  const std::string at = path_of(subject) + "/change/";
  [[maybe_unused]] const Step first = {&subject, &kRows[2], "RGBA", 64, 48, 0, 0, 1};

  s.run(at + "frames of two contexts in turn", [&](Case& c) {
#if VF_HAVE_GST_CUDA
    if (!usable(c, kRows[2])) return;
    GstCudaContext* contexts[] = {gst_cuda_context_new(0), gst_cuda_context_new(0)};
    {
      Oracle oracle(c);
      Runner runner(subject, kRows[2]);
      Flat flat(int(12 * subject.values.size()));
      const int changes = c.options().changes;
      for (int i = 0; i < changes && c.ok(); i++) {
        Step step = first;
        step.value = size_t(i) / 3;
        set_value(runner.element(), step);
        runner.caps(step);
        GstCudaContext* context = contexts[i / 2 % 2];
        oracle.expect(runner.push(c, step, oracle.frame(step, context)), {step});
        GstMemory* memory = runner.out() ? gstvf::cuda_memory(runner.out().get()) : nullptr;
        if (step.caps_behind()) continue;  // in system memory
        c.check(memory && gstvf::memory_context(memory) == context,
                "frame %d: the element did not follow the frames to their context", i);
        flat.changed(i + 1);
      }
      flat.check(c);
    }
    for (GstCudaContext* context : contexts) gst_object_unref(context);
#else
    c.skip("built without CUDA");
#endif
  });

  s.run(at + "several devices, by cuda-device-id", [&](Case& c) {
#if VF_HAVE_GST_CUDA
    if (!usable(c, kRows[2])) return;
    GstCudaContext* second = gst_cuda_context_new(1);
    if (!second) return c.skip("one CUDA device");
    GstCudaContext* contexts[] = {cuda_context(), second};
    {
      Oracle oracle(c);
      for (int id = -1; id < 2; id++) {
        Runner runner(subject, kRows[2], id);
        for (int i = 0; i < 8 && c.ok(); i++) {
          Step step = first;
          step.value = size_t(i);
          set_value(runner.element(), step);
          runner.caps(step);
          oracle.expect(runner.push(c, step, oracle.frame(step, contexts[i / 2 % 2])), {step});
          GstMemory* memory = runner.out() ? gstvf::cuda_memory(runner.out().get()) : nullptr;
          // With cuda-device-id=-1 the frames choose the device. Otherwise the property does,
          // whichever device the frames are on.
          const guint want = guint(id < 0 ? i / 2 % 2 : id);
          if (memory && !gst_base_transform_is_passthrough(GST_BASE_TRANSFORM(runner.element())))
            c.check(gstvf::context_device(gstvf::memory_context(memory)) == want,
                    "cuda-device-id=%d, frame %d: filtered on device %u, not %u", id, i,
                    gstvf::context_device(gstvf::memory_context(memory)), want);
        }
      }
    }
    gst_object_unref(second);
#else
    c.skip("built without CUDA");
#endif
  });
}

// Pipelines

// Plays identical frames through a pipeline and records every image that comes out.
class Pipeline {
 public:
  Pipeline(Case& c, const Subject& subject, const Row& row) : c_(c), subject_(subject) {
    const std::string line =
        std::string(
            "videotestsrc name=source pattern=zone-plate kx2=20 ky2=20 ! capsfilter "
            "name=caps ! identity name=before ! ") +
        (row.cuda_caps ? "cudaupload ! " : "") + subject.element->name +
        " name=e backend=" + row.backend +
        " ! capsfilter name=behind ! fakesink name=sink sync=false";
    GError* error = nullptr;
    pipeline_ = gst_parse_launch(line.c_str(), &error);
    if (error) {
      c.skip("%s", error->message);
      g_clear_error(&error);
      return;
    }
    for (const auto& [name, at] : {std::pair{"source", &source_},
                                   {"caps", &caps_},
                                   {"before", &before_},
                                   {"e", &element_},
                                   {"behind", &behind_}})
      *at = gst_bin_get_by_name(GST_BIN(pipeline_), name);
    GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline_), "sink");
    GstPad* pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, seen, this, nullptr);
    gst_object_unref(pad);
    gst_object_unref(sink);
    bus_ = gst_element_get_bus(pipeline_);
    set_fixed(element_, subject_);
    size(64, 48);
    if (!subject.behind.empty()) {
      GstCaps* caps = gst_caps_from_string(subject.behind[0]);
      g_object_set(behind_, "caps", caps, nullptr);
      gst_caps_unref(caps);
    }
  }
  ~Pipeline() {
    if (!pipeline_) return;
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    for (GstElement* e : {source_, caps_, before_, element_, behind_})
      if (e) gst_object_unref(e);
    if (bus_) gst_object_unref(bus_);
    gst_object_unref(pipeline_);
  }
  bool usable() const { return bus_; }

  void size(int width, int height) {
    GstCaps* caps = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, subject_.formats[0],
                                        "width", G_TYPE_INT, width, "height", G_TYPE_INT, height,
                                        "framerate", GST_TYPE_FRACTION, 25, 1, nullptr);
    g_object_set(caps_, "caps", caps, nullptr);
    gst_caps_unref(caps);
  }
  void value(size_t n) {
    gst_util_set_object_arg(G_OBJECT(element_), subject_.property,
                            subject_.values[n % subject_.values.size()]);
  }
  void state(GstState state) {
    gst_element_set_state(pipeline_, state);
    if (gst_element_get_state(pipeline_, nullptr, nullptr, kPatience) != GST_STATE_CHANGE_SUCCESS)
      fail("a state was not reached");
  }
  void seek(GstClockTime time, GstSeekFlags flags) {
    if (!gst_element_seek_simple(pipeline_, GST_FORMAT_TIME, flags, gint64(time)))
      fail("a seek was refused");
  }
  void end() {
    gst_element_send_event(pipeline_, gst_event_new_eos());
    wait_for(GST_MESSAGE_EOS, "no EOS came");
  }
  // Removes the element while frames arrive and inserts a new one.
  void exchange() {
    GstPad* pad = gst_element_get_static_pad(before_, "src");
    exchanged_ = false;
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BLOCK_DOWNSTREAM, blocked, this, nullptr);
    gst_object_unref(pad);
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, kLong, [this] { return exchanged_; }))
      fail("nothing came to block");
  }
  // Waits for two more frames.
  void frames() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int until = count_ + 2;
    const bool came = changed_.wait_for(lock, kLong, [&] { return count_ >= until; });
    lock.unlock();
    if (came) return;
    std::string text = "no frames came";
    if (GstMessage* message = gst_bus_pop_filtered(bus_, GST_MESSAGE_ERROR)) {
      GError* error = nullptr;
      gst_message_parse_error(message, &error, nullptr);
      text += std::string(": ") + error->message;
      g_clear_error(&error);
      gst_message_unref(message);
    }
    fail(text.c_str());
  }
  int count() {
    std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }
  // Returns every image seen, with its caps.
  std::set<std::pair<std::string, guint64>> images() {
    std::lock_guard<std::mutex> lock(mutex_);
    return images_;
  }
  void check_errors() {
    if (GstMessage* message = gst_bus_pop_filtered(bus_, GST_MESSAGE_ERROR)) {
      fail("an error came");
      gst_message_unref(message);
    }
  }

 private:
  // This is no time limit for a step: a pipeline counts as hanging if no frame arrives for so long.
  static constexpr GstClockTime kPatience = 120 * GST_SECOND;
  static constexpr std::chrono::seconds kLong{120};

  void fail(const char* text) { c_.fail("%s", text); }
  void wait_for(GstMessageType type, const char* text) {
    GstMessage* message =
        gst_bus_timed_pop_filtered(bus_, kPatience, GstMessageType(type | GST_MESSAGE_ERROR));
    if (!message || GST_MESSAGE_TYPE(message) != type) fail(text);
    if (message) gst_message_unref(message);
  }

  static GstPadProbeReturn seen(GstPad* pad, GstPadProbeInfo* info, gpointer data) {
    auto* self = static_cast<Pipeline*>(data);
    GstCaps* caps = gst_pad_get_current_caps(pad);
    const guint64 print = fingerprint(GST_PAD_PROBE_INFO_BUFFER(info), caps);
    GstVideoInfo video;
    std::string name = "tensor";
    if (gst_video_info_from_caps(&video, caps))
      name = std::to_string(video.width) + "x" + std::to_string(video.height);
    gst_caps_unref(caps);
    std::lock_guard<std::mutex> lock(self->mutex_);
    self->images_.insert({name, print});
    self->count_++;
    self->changed_.notify_all();
    return GST_PAD_PROBE_OK;
  }

  static GstPadProbeReturn blocked(GstPad*, GstPadProbeInfo*, gpointer data) {
    auto* self = static_cast<Pipeline*>(data);
    GstElement* old = self->element_;
    GstPad* sink = gst_element_get_static_pad(old, "sink");
    GstPad *front = gst_pad_get_peer(sink), *back = nullptr;
    GstPad* src = gst_element_get_static_pad(old, "src");
    back = gst_pad_get_peer(src);
    GstElement* made = gst_element_factory_make(self->subject_.element->name, nullptr);
    set_fixed(made, self->subject_);
    for (const char* name : {"backend", self->subject_.property}) {
      GValue value = G_VALUE_INIT;
      g_object_get_property(G_OBJECT(old), name, &value);
      g_object_set_property(G_OBJECT(made), name, &value);
      g_value_unset(&value);
    }
    gst_pad_unlink(front, sink);
    gst_pad_unlink(src, back);
    gst_element_set_state(old, GST_STATE_NULL);
    gst_bin_remove(GST_BIN(self->pipeline_), old);
    gst_bin_add(GST_BIN(self->pipeline_), made);
    GstPad* new_sink = gst_element_get_static_pad(made, "sink");
    GstPad* new_src = gst_element_get_static_pad(made, "src");
    gst_pad_link(new_src, back);
    gst_pad_link(front, new_sink);
    gst_element_sync_state_with_parent(made);
    for (GstPad* pad : {sink, src, front, back, new_sink, new_src}) gst_object_unref(pad);
    gst_object_unref(old);
    self->element_ = GST_ELEMENT(gst_object_ref(made));
    std::lock_guard<std::mutex> lock(self->mutex_);
    self->exchanged_ = true;
    self->changed_.notify_all();
    return GST_PAD_PROBE_REMOVE;
  }

  Case& c_;
  const Subject& subject_;
  GstElement *pipeline_ = nullptr, *source_ = nullptr, *caps_ = nullptr, *before_ = nullptr,
             *element_ = nullptr, *behind_ = nullptr;
  GstBus* bus_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::pair<std::string, guint64>> images_;
  int count_ = 0;
  bool exchanged_ = false;
};

// Describes one thing that can be done to a playing pipeline; n counts the changes.
struct Action {
  const char* name;
  void (*act)(Pipeline& p, int n);
};
constexpr Action kActions[] = {
    {"a property", [](Pipeline& p, int n) { p.value(size_t(n)); }},
    {"flushing seek", [](Pipeline& p, int n) { p.seek(n % 50 * GST_SECOND, GST_SEEK_FLAG_FLUSH); }},
    {"resolution", [](Pipeline& p, int n) { n % 2 ? p.size(20, 30) : p.size(64, 48); }},
    {"pause and resume",
     [](Pipeline& p, int) {
       p.state(GST_STATE_PAUSED);
       p.state(GST_STATE_PLAYING);
     }},
    {"seek while paused",
     [](Pipeline& p, int n) {
       p.state(GST_STATE_PAUSED);
       p.seek(n % 9 * GST_SECOND, GstSeekFlags(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE));
       p.state(GST_STATE_PLAYING);
     }},
    {"element exchanged", [](Pipeline& p, int) { p.exchange(); }},
    {"EOS and a seek",
     [](Pipeline& p, int) {
       p.end();
       p.seek(0, GST_SEEK_FLAG_FLUSH);
     }},
    {"EOS and restart",
     [](Pipeline& p, int) {
       p.end();
       p.state(GST_STATE_READY);
       p.state(GST_STATE_PLAYING);
     }},
    {"restart",
     [](Pipeline& p, int) {
       p.state(GST_STATE_NULL);
       p.state(GST_STATE_PLAYING);
     }},
};

void pipeline_cases(Suite& s, const Subject& subject, const Row& row) {
  const std::string at = path_of(subject) + "/change/" + row.name + "/";
  s.run(at + "a pipeline that plays", [&](Case& c) {
    if (!usable(c, row)) return;
    Pipeline p(c, subject, row);
    if (!p.usable()) return;
    // Holds the result of each setting at each size, from pipelines in which nothing changes.
    std::set<std::pair<std::string, guint64>> known;
    for (size_t v = 0; v < subject.values.size() && c.ok(); v++)
      for (int size = 0; size < 2 && c.ok(); size++) {
        Pipeline still(c, subject, row);
        still.value(v);
        kActions[2].act(still, size);
        still.state(GST_STATE_PLAYING);
        still.frames();
        const auto images = still.images();
        c.check(images.size() == 1, "%zu images of one setting", images.size());
        known.insert(images.begin(), images.end());
      }
    p.state(GST_STATE_PLAYING);
    p.frames();
    Flat flat(int(2 * G_N_ELEMENTS(kActions) * subject.values.size()));
    const int changes = c.options().changes;
    for (int i = 0; i < changes && c.ok(); i++) {
      // Every action follows every other one.
      const int n = int(G_N_ELEMENTS(kActions)), which = (i + i / n) % n;
      kActions[which].act(p, i / n);
      p.frames();
      p.check_errors();
      if (!c.ok()) c.fail("after change %d, %s", i, kActions[which].name);
      flat.changed(i + 1);
    }
    p.state(GST_STATE_NULL);
    flat.check(c);
    for (const auto& [caps, print] : p.images())
      c.check(known.count({caps, print}), "an image of %s is of no setting", caps.c_str());
    if (c.options().changes >= 1000) printf("# %d frames looked at\n", p.count());
  });
}

}  // namespace

void change_cases(Suite& s, const Element& element) {
  for (const ChangeEntry& entry : element.changes) {
    const Subject subject = {entry, &element};
    for (const Row& row : kRows) {
      settings_cases(s, subject, row);
      pipeline_cases(s, subject, row);
    }
    for (const char* backend : {"cpu", "cuda"}) caps_cases(s, subject, backend);
    context_cases(s, subject);
  }
}

}  // namespace vf::test
