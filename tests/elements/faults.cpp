// Tests how the elements handle faults. After each fault the output must be a correct frame or an
// error that says what is wrong, and afterwards the element must work as before.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/elements/harness.h"
#if VF_EMULATION
#include "tests/emulation/device.h"
#endif

// Simulates host memory that runs out. It affects every C++ allocation of the tests and the plugin,
// and the memory of frames and plans, but not GLib's allocations, because GLib aborts without
// memory.
namespace {
std::atomic<int> allocations_left{-1};  // negative: no limit
std::atomic<bool> stays_empty{false};

bool out_of_memory(void* caller) {
  int left = allocations_left.load();
  if (left < 0) return false;
#if VF_EMULATION
  if (vf::emulation::locked()) return false;  // the emulated device allocates, not the element
#endif
  // GStreamer's CUDA library is written in C++ since 1.26 and aborts without memory as GLib does.
  Dl_info from;
  if (dladdr(caller, &from) && strstr(from.dli_fname, "libgstcuda-")) return false;
  while (left > 0 && !allocations_left.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 0 && !stays_empty) allocations_left = -1;
  return left == 0;
}
}  // namespace

// These functions are not inlined, because GCC would warn when it sees both new and free in one
// function.
#define NOINLINE __attribute__((noinline))
NOINLINE void* operator new(size_t bytes) {
  void* data = out_of_memory(__builtin_return_address(0)) ? nullptr : malloc(bytes ? bytes : 1);
  if (!data) throw std::bad_alloc();
  return data;
}
NOINLINE void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return out_of_memory(__builtin_return_address(0)) ? nullptr : malloc(bytes ? bytes : 1);
}
NOINLINE void operator delete(void* data) noexcept {
  free(data);
}
NOINLINE void operator delete(void* data, size_t) noexcept {
  free(data);
}
// The plugin must find it too, although the tests are compiled with hidden symbols.
extern "C" __attribute__((visibility("default"))) void* aligned_alloc(size_t alignment,
                                                                      size_t bytes) noexcept {
  void* data = nullptr;
  return out_of_memory(__builtin_return_address(0)) || posix_memalign(&data, alignment, bytes)
             ? nullptr
             : data;
}

namespace vf::test {
namespace {

struct Subject : FaultEntry {
  const Element& element;
};

constexpr int kWidth = 24, kHeight = 18;

std::string path_of(const Subject& subject) {
  return path_of(subject.element, subject.settings);
}

// Runs the subject's element in a harness with caps of `format`.
class Rig {
 public:
  Rig(const Subject& subject, const Row& row, const char* format, int device = -1)
      : in(video_info(format, kWidth, kHeight)),
        out(video_info(format, subject.out_width ? subject.out_width : kWidth,
                       subject.out_height ? subject.out_height : kHeight)),
        bench(subject.element, row, device) {
    for (const auto& [name, value] : subject.settings)
      gst_util_set_object_arg(G_OBJECT(bench.element()), name, value);
    if (subject.out_width) gst_harness_set_sink_caps(bench.harness(), bench.make_caps(out));
    if (!subject.regions.empty())
      gst_pad_add_probe(bench.harness()->srcpad, GST_PAD_PROBE_TYPE_BUFFER, add_regions,
                        gpointer(&subject.regions), nullptr);
  }
  void start() { bench.caps(in); }
  void stop() { gst_element_set_state(bench.element(), GST_STATE_READY); }
  // Restarts the element by way of READY, as an application does after an error.
  void restart() {
    stop();
    gst_element_set_state(bench.element(), GST_STATE_PLAYING);
    gst_harness_push_event(bench.harness(), gst_event_new_stream_start("again"));
    start();
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(bench.harness(), gst_event_new_segment(&segment));
  }
  // Returns the same filter's result for another frame with the same pixels.
  static BufferPtr expected(const Subject& subject, const Row& row, const char* format) {
    Rig rig(subject, row, format);
    rig.start();
    return rig.bench.push(make_frame(row.cuda_caps, rig.in, kSeed));
  }

  static constexpr guint32 kSeed = 7;
  const GstVideoInfo in, out;
  Bench bench;

 private:
  static GstPadProbeReturn add_regions(GstPad*, GstPadProbeInfo* info, gpointer regions) {
    auto* buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    for (const GstVideoRectangle& r : *static_cast<std::vector<GstVideoRectangle>*>(regions))
      gst_buffer_add_video_region_of_interest_meta(buffer, "face", guint(r.x), guint(r.y),
                                                   guint(r.w), guint(r.h));
    info->data = buffer;
    return GST_PAD_PROBE_OK;
  }
};

// Describes a frame that contradicts its caps, and what must come out.
struct Lie {
  std::string name;
  std::function<void(GstBuffer* frame, GstVideoMeta* meta, const GstVideoInfo& info)> tell;
  bool harmless;  // whether the frame comes out right; if not, an error is posted
};

std::vector<Lie> short_memories() {
  std::vector<Lie> lies;
  // The sizes go from nothing to all but the last byte, so that a plane or a row is always
  // incomplete.
  for (const char* part : {"no byte", "one byte", "half", "all but one byte"})
    lies.push_back({part,
                    [=](GstBuffer* frame, GstVideoMeta* meta, const GstVideoInfo& info) {
                      const guint last = info.finfo->n_planes - 1;
                      gint component[GST_VIDEO_MAX_COMPONENTS];
                      gst_video_format_info_component(info.finfo, last, component);
                      const int rows = GST_VIDEO_INFO_COMP_HEIGHT(&info, component[0]);
                      const int row = GST_VIDEO_INFO_COMP_WIDTH(&info, component[0]) *
                                      info.finfo->pixel_stride[component[0]];
                      const gsize need =
                          meta->offset[last] + gsize(meta->stride[last]) * (rows - 1) + row;
                      const gsize size = part[0] == 'n'   ? 0
                                         : part[0] == 'o' ? 1
                                         : part[0] == 'h' ? need / 2
                                                          : need - 1;
                      gst_buffer_resize(frame, 0, gssize(size));
                    },
                    false});
  lies.push_back({"no memory",
                  [](GstBuffer* frame, GstVideoMeta*, const GstVideoInfo&) {
                    gst_buffer_remove_all_memory(frame);
                  },
                  false});
  lies.push_back({"a memory in its middle",
                  [](GstBuffer* frame, GstVideoMeta*, const GstVideoInfo&) {
                    gst_buffer_resize(frame, gssize(gst_buffer_get_size(frame) / 2), -1);
                  },
                  false});
  return lies;
}

std::vector<Lie> wrong_strides() {
  std::vector<Lie> lies;
  for (const int stride : {0, 1, -1, -kWidth * 4, -4096, 1 << 30, G_MAXINT, G_MININT})
    for (const bool last : {false, true})
      lies.push_back({"stride " + std::to_string(stride) + (last ? " of the last plane" : ""),
                      [=](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo&) {
                        meta->stride[last ? meta->n_planes - 1 : 0] = stride;
                      },
                      false});
  lies.push_back({"a stride one byte short of a row",
                  [](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo& info) {
                    meta->stride[0] = GST_VIDEO_INFO_COMP_WIDTH(&info, 0) *
                                          GST_VIDEO_INFO_COMP_PSTRIDE(&info, 0) -
                                      1;
                  },
                  false});
  return lies;
}

std::vector<Lie> wrong_offsets() {
  std::vector<Lie> lies;
  const gsize offsets[] = {G_MAXSIZE, G_MAXSIZE - 100, G_MAXSIZE / 2 + 1, gsize{1} << 32,
                           gsize{1} << 20};
  for (const gsize offset : offsets)
    for (const bool last : {false, true})
      lies.push_back({"offset " + std::to_string(offset) + (last ? " of the last plane" : ""),
                      [=](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo&) {
                        meta->offset[last ? meta->n_planes - 1 : 0] = offset;
                      },
                      false});
  for (const int beyond : {0, 1})
    lies.push_back({beyond ? "the last plane one byte too late" : "the last plane at the end",
                    [=](GstBuffer* frame, GstVideoMeta* meta, const GstVideoInfo&) {
                      gsize& offset = meta->offset[meta->n_planes - 1];
                      // CUDA memory may be larger than its frame.
                      offset = beyond ? offset + gst_buffer_get_size(frame) - gsize(meta->stride[0])
                                      : gst_buffer_get_size(frame);
                    },
                    false});
  return lies;
}

std::vector<Lie> wrong_descriptions() {
  return {
      {"a meta narrower than the caps",
       [](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo&) { meta->width--; }, false},
      {"a meta lower than the caps",
       [](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo&) { meta->height = 1; }, false},
      {"a meta of no size",
       [](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo&) { meta->width = meta->height = 0; },
       false},
      {"a meta of another format",
       [](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo&) {
         meta->format = GST_VIDEO_FORMAT_GRAY8;
       },
       false},
      {"a meta of no planes",
       [](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo&) { meta->n_planes = 0; }, false},
      {"a meta of more planes",
       [](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo&) { meta->n_planes++; }, false},
      // The upper left part of such a frame is filtered.
      {"a meta larger than the caps",
       [](GstBuffer*, GstVideoMeta* meta, const GstVideoInfo&) {
         meta->width += 8;
         meta->height += 8;
       },
       true},
      {"a crop beyond the frame",
       [](GstBuffer* frame, GstVideoMeta*, const GstVideoInfo& info) {
         GstVideoCropMeta* crop = gst_buffer_add_video_crop_meta(frame);
         crop->x = crop->y = G_MAXUINT - 3;
         crop->width = guint(info.width);
         crop->height = guint(info.height);
       },
       true},
  };
}

// Makes a frame with a video meta that the test can falsify.
BufferPtr frame_with_meta(bool cuda, const GstVideoInfo& info) {
  BufferPtr frame = make_frame(cuda, info, Rig::kSeed);
  GstVideoInfo i = info;
  if (frame && !gst_buffer_get_video_meta(frame.get()))
    gst_buffer_add_video_meta_full(frame.get(), GST_VIDEO_FRAME_FLAG_NONE,
                                   GST_VIDEO_INFO_FORMAT(&i), guint(i.width), guint(i.height),
                                   i.finfo->n_planes, i.offset, i.stride);
  return frame;
}

void check_right(Case& c, const Rig& rig, const char* what, GstBuffer* got, GstBuffer* want) {
  const std::string d = difference(rig.out, got, want, 0);
  c.check(d.empty(), "%s %s: %s", rig.in.finfo->name, what, d.c_str());
}

void tell(Case& c, const Subject& subject, const Row& row, const std::vector<Lie>& lies) {
  if (!usable(c, row)) return;
  for (const char* format : row.cuda_caps ? subject.cuda_formats : subject.system_formats) {
    const BufferPtr want = Rig::expected(subject, row, format);
    if (!want) return c.fail("nothing came of a good %s frame", format);
    Rig rig(subject, row, format);
    rig.start();
    for (const Lie& lie : lies) {
      const BufferPtr frame = frame_with_meta(row.cuda_caps, rig.in);
      lie.tell(frame.get(), gst_buffer_get_video_meta(frame.get()), rig.in);
      const BufferPtr got = rig.bench.push(frame);
      const std::string error = rig.bench.message(GST_MESSAGE_ERROR);
      if (lie.harmless) {
        c.check(got != nullptr, "%s %s: flow %s, %s", format, lie.name.c_str(),
                gst_flow_get_name(rig.bench.flow()), error.c_str());
        if (got) check_right(c, rig, lie.name.c_str(), got.get(), want.get());
      } else {
        c.check(!got && rig.bench.flow() == GST_FLOW_ERROR, "%s %s: flow %s", format,
                lie.name.c_str(), gst_flow_get_name(rig.bench.flow()));
        // The message blames the buffer, not the device.
        c.check(error.find("a buffer") != std::string::npos &&
                    error.find("CUDA failed") == std::string::npos,
                "%s %s: the error is \"%s\"", format, lie.name.c_str(), error.c_str());
      }
      const BufferPtr good = rig.bench.push(make_frame(row.cuda_caps, rig.in, Rig::kSeed));
      check_right(c, rig, ("after " + lie.name).c_str(), good.get(), want.get());
    }
  }
}

// Checks that frames come out right and that no byte of the input buffer changes, because it is
// shared.
void hand_over(Case& c, const Subject& subject, const Row& row, bool read_only) {
  if (!usable(c, row)) return;
  for (const char* format : row.cuda_caps ? subject.cuda_formats : subject.system_formats) {
    const BufferPtr want = Rig::expected(subject, row, format);
    Rig rig(subject, row, format);
    rig.start();
    for (int i = 0; i < 3; i++) {
      const BufferPtr frame = make_frame(row.cuda_caps, rig.in, Rig::kSeed);
      GstMemory* memory = gst_buffer_get_memory(frame.get(), 0);
      if (read_only) GST_MINI_OBJECT_FLAG_SET(memory, GST_MEMORY_FLAG_READONLY);
      const BufferPtr before = packed_copy(rig.in, frame.get());
      BufferPtr got;
      if (read_only) {
        // The buffer is the element's alone; its memory is not.
        got = rig.bench.push(gst_buffer_copy(frame.get()));
      } else {
        got = rig.bench.push(frame);
      }
      check_right(c, rig, "result", got.get(), want.get());
      const std::string d = difference(rig.in, frame.get(), before.get(), 0);
      c.check(d.empty(), "%s: the other holder's pixels changed: %s", format, d.c_str());
      gst_memory_unref(memory);
    }
  }
}

// Lets the n-th allocation of host memory fail, for every n until a frame comes through. Either
// only that allocation fails, or all from there on until the element is restarted.
void exhaust(Case& c, const Subject& subject, const Row& row, bool stays) {
  if (!usable(c, row)) return;
  const char* format = subject.system_formats[0];
  const BufferPtr want = Rig::expected(subject, row, format);
  int failures = 0;
  for (int n = 0; c.ok(); n += 1 + n / 50) {
    Rig rig(subject, row, format);
    GstBuffer* frame = gst_buffer_ref(make_frame(row.cuda_caps, rig.in, Rig::kSeed).get());
    rig.stop();
    stays_empty = stays;
    allocations_left = n;
    rig.restart();
    const GstFlowReturn flow = gst_harness_push(rig.bench.harness(), frame);
    // After a single failure the count is back at "no limit".
    const bool failed = stays ? allocations_left == 0 : allocations_left < 0;
    allocations_left = -1;
    const BufferPtr got = own(gst_harness_try_pull(rig.bench.harness()));
    const std::string error = rig.bench.message(GST_MESSAGE_ERROR);
    const std::string what = "without its allocation " + std::to_string(n);
    if (got) {
      check_right(c, rig, what.c_str(), got.get(), want.get());
    } else {
      c.check(flow != GST_FLOW_OK && error.find("emory") != std::string::npos,
              "%s: flow %s, error \"%s\"", what.c_str(), gst_flow_get_name(flow), error.c_str());
      failures++;
    }
    if (!failed) break;
    rig.restart();
    const BufferPtr good = rig.bench.push(make_frame(row.cuda_caps, rig.in, Rig::kSeed));
    check_right(c, rig, ("restarted, " + what).c_str(), good.get(), want.get());
  }
  c.check(failures > 0, "no allocation of the element failed");
  printf("# %d allocations failed, each in a run of its own\n", failures);
}

#if VF_EMULATION

using emulation::Error;
using emulation::Then;

// Holds the CUDA context for the frames of one run. The run may lose the context.
class FramesOf {
 public:
  explicit FramesOf(guint device = 0) : context_(gst_cuda_context_new(device)) {
    set_cuda_context(context_);
  }
  ~FramesOf() {
    set_cuda_context(nullptr);
    gst_object_unref(context_);
  }
  FramesOf(const FramesOf&) = delete;
  FramesOf& operator=(const FramesOf&) = delete;

 private:
  GstCudaContext* context_;
};

std::string left_since(const emulation::Live& before, int abandoned) {
  const emulation::Live now = emulation::live();
  std::string text;
  const auto say = [&](const char* what, int more) {
    if (more) text += " " + std::to_string(more) + " " + what;
  };
  say("contexts", now.contexts - before.contexts);
  say("streams", now.streams - before.streams);
  say("events", now.events - before.events);
  say("blocks of device memory", now.device_blocks - before.device_blocks);
  say("blocks of pinned memory", now.pinned_blocks - before.pinned_blocks);
  say("things in destroyed contexts", emulation::abandoned() - abandoned);
  return text;
}

// Records the result of two frames while a call fails, and of a third after READY.
struct Outcome {
  std::string failed;  // the first call that failed; empty if none did
  bool ok = false;
  std::string error, info;
};

// Runs the element once: sets the fault, records the outcome and checks that nothing leaks.
Outcome run_with(Case& c, const Subject& subject, const Row& row, const char* format,
                 const std::vector<BufferPtr>& allowed, const std::string& where,
                 const std::function<void()>& arm, bool loses_context) {
  Outcome outcome;
  const emulation::Live before = emulation::live();
  const int abandoned = emulation::abandoned();
  {
    auto context = std::make_unique<FramesOf>();
    Rig rig(subject, row, format);
    GstHarness* h = rig.bench.harness();
    BufferPtr frames[2];
    for (BufferPtr& f : frames) f = make_frame(row.cuda_caps, rig.in, Rig::kSeed);
    rig.stop();
    arm();
    rig.restart();
    GstFlowReturn flow = GST_FLOW_OK;
    for (BufferPtr& f : frames)
      if (flow == GST_FLOW_OK) flow = gst_harness_push(h, gst_buffer_ref(f.get()));
    outcome.failed = emulation::forgive();
    outcome.ok = flow == GST_FLOW_OK;
    rig.bench.messages(&outcome.error, &outcome.info);
    const std::string what = where + " (" + outcome.failed + ")";
    // GStreamer waits with this call for its own copies, and since 1.24 ignores its error.
    guint major, minor, micro, nano;
    gst_version(&major, &minor, &micro, &nano);
    const bool unheard = outcome.failed == "cuStreamSynchronize" && minor >= 23;
    while (const BufferPtr got = own(gst_harness_try_pull(h))) {
      // Frames in a lost context cannot be read.
      if (unheard || (row.cuda_caps && loses_context && !outcome.failed.empty())) continue;
      std::string d;
      for (const BufferPtr& want : allowed) {
        d = difference(rig.out, got.get(), want.get(), 0);
        if (d.empty()) break;
      }
      c.check(d.empty(), "%s: a wrong frame: %s", what.c_str(), d.c_str());
    }
    c.check(outcome.ok || !outcome.error.empty(), "%s: flow %s and no error message", what.c_str(),
            gst_flow_get_name(flow));
    for (BufferPtr& f : frames) f.reset();
    if (loses_context) {
      context.reset();
      context = std::make_unique<FramesOf>();
    }
    rig.restart();
    const BufferPtr good = rig.bench.push(make_frame(row.cuda_caps, rig.in, Rig::kSeed));
    const std::string error = rig.bench.message(GST_MESSAGE_ERROR);
    c.check(good != nullptr, "%s: after a restart: %s", what.c_str(), error.c_str());
    if (good)
      check_right(c, rig, (what + ", after a restart").c_str(), good.get(), allowed[0].get());
  }
  std::string left = left_since(before, abandoned);
  // GStreamer leaks its own memory if it cannot enter the memory's context to free it.
  if (outcome.failed == "cuCtxPushCurrent" && left == " 1 things in destroyed contexts") left = "";
  c.check(left.empty(), "%s (%s): left behind:%s", where.c_str(), outcome.failed.c_str(),
          left.c_str());
  return outcome;
}

// Returns the correct result in system memory.
BufferPtr right_frame(const Subject& subject, const Row& row, const char* format) {
  const BufferPtr frame = Rig::expected(subject, row, format);
  const Rig rig(subject, row, format);
  return packed_copy(rig.out, frame.get());
}

// Lets the n-th of the calls fail, for every n until no call is left to fail, or for one n in
// `step`.
void fail_each(Case& c, const Subject& subject, const Row& row, const char* call, Error error,
               Then then, int step, int first) {
  if (!usable(c, row)) return;
  const char* format = (row.cuda_caps ? subject.cuda_formats : subject.system_formats)[0];
  const BufferPtr want = right_frame(subject, row, format);
  int failures = 0, errors = 0;
  for (int n = 1 + int((c.options().seed + guint64(first)) % guint64(step)); c.ok(); n += step) {
    const std::string what = std::string(call) + " " + std::to_string(n);
    const Outcome o = run_with(
        c, subject, row, format, {want}, what, [=] { emulation::inject(call, n, error, then); },
        then == Then::context_lost || then == Then::device_lost);
    if (o.failed.empty()) break;
    failures++;
    errors += !o.ok;
  }
  c.check(failures > 0, "no call failed");
  // A lost device takes the test's own context with it.
  if (then == Then::device_lost) drop_cuda_context();
  printf("# %d faults: %d errors, %d right frames\n", failures, errors, failures - errors);
}

// Describes a way in which CUDA cannot be used when the element starts.
struct NoCuda {
  const char* name;
  std::vector<const char*> calls;
  Error error;
};
const NoCuda kNoCuda[] = {
    {"the driver cannot be initialised", {"cuInit"}, Error::unknown},
    {"no device", {"cuDeviceGetCount"}, Error::no_device},
    {"no context", {"cuCtxCreate"}, Error::out_of_memory},
    {"a driver older than the runtime", {"cudaGetDeviceCount"}, Error::insufficient_driver},
    {"a device that says nothing of itself", {"cudaDeviceGetAttribute"}, Error::unknown},
    {"no stream", {"cudaStreamCreateWithFlags", "cuStreamCreate"}, Error::out_of_memory},
};

void without_cuda(Case& c, const Subject& subject, const NoCuda& fault) {
  if (!usable(c, kRows[1])) return;
  const char* format = subject.system_formats[0];
  const std::function<void()> arm = [&] {
    for (const char* call : fault.calls) emulation::inject(call, 1, fault.error, Then::again);
  };
  // With frames in system memory, backend=auto filters on the CPU, says so once, and uses CUDA when
  // it works again.
  const Row automatic = {"auto", false, "auto"};
  const BufferPtr on_cpu = right_frame(subject, kRows[0], format);
  const BufferPtr on_cuda = right_frame(subject, kRows[1], format);
  Outcome o =
      run_with(c, subject, automatic, format, {on_cuda, on_cpu}, "backend=auto", arm, false);
  c.check(!o.failed.empty(), "backend=auto: no call failed");
  c.check(o.ok && o.info.find("Filtering on the CPU") != std::string::npos,
          "backend=auto: error \"%s\", info \"%s\"", o.error.c_str(), o.info.c_str());
  // With backend=cuda the element fails and says what to do.
  o = run_with(c, subject, kRows[1], format, {on_cuda}, "backend=cuda", arm, false);
  c.check(!o.ok && (o.error.find("CUDA failed") != std::string::npos ||
                    o.error.find("backend=cpu") != std::string::npos),
          "backend=cuda: error \"%s\"", o.error.c_str());
}

// Pushes frames of another context, on the same device or on another one.
void from_elsewhere(Case& c, const Subject& subject, const Row& row, guint device, int wanted) {
  if (!usable(c, row)) return;
  if (int(device) >= emulation::properties().devices) return c.skip("one device only");
  const char* format = subject.cuda_formats[0];
  const BufferPtr want = right_frame(subject, row, format);
  FramesOf context(device);
  // The element makes its own context before the first frame comes.
  Rig rig(subject, row, format, wanted);
  rig.start();
  for (int i = 0; i < 3; i++) {
    const BufferPtr frame = make_frame(true, rig.in, Rig::kSeed);
    const BufferPtr before = packed_copy(rig.in, frame.get());
    const BufferPtr got = rig.bench.push(frame);
    c.check(got != nullptr, "frame %d: flow %s, error %s", i, gst_flow_get_name(rig.bench.flow()),
            rig.bench.message(GST_MESSAGE_ERROR).c_str());
    if (!c.ok()) return;
    check_right(c, rig, "result", got.get(), want.get());
    GstMemory* memory = gstvf::cuda_memory(got.get());
    c.check(memory, "not CUDA memory");
    if (memory && wanted >= 0)
      c.check(int(gstvf::context_device(gstvf::memory_context(memory))) == wanted,
              "filtered on another device than cuda-device-id=%d", wanted);
    const std::string d = difference(rig.in, frame.get(), before.get(), 0);
    c.check(d.empty(), "the frame changed: %s", d.c_str());
  }
}

#endif

void row_cases(Suite& s, const Subject& subject, const Row& row) {
  const std::string at = path_of(subject) + "/" + row.name + "/faults/";
  s.run(at + "memories too small", [&](Case& c) { tell(c, subject, row, short_memories()); });
  s.run(at + "impossible strides", [&](Case& c) { tell(c, subject, row, wrong_strides()); });
  s.run(at + "planes beyond the memory", [&](Case& c) { tell(c, subject, row, wrong_offsets()); });
  s.run(at + "metas that describe other frames",
        [&](Case& c) { tell(c, subject, row, wrong_descriptions()); });
  s.run(at + "read-only memory", [&](Case& c) { hand_over(c, subject, row, true); });
  s.run(at + "host memory runs out once", [&](Case& c) { exhaust(c, subject, row, false); });
  s.run(at + "host memory runs out", [&](Case& c) { exhaust(c, subject, row, true); });
  s.run(at + "a buffer that another branch holds",
        [&](Case& c) { hand_over(c, subject, row, false); });
#if VF_EMULATION
  if (!row.needs_device()) return;
  struct Kind {
    const char* name;
    const char* call;
    Error error;
    Then then;
    bool all;  // whether each call fails in turn, whatever --fault-step is
  };
  const Kind kinds[] = {
      {"any call fails once", "*", Error::unknown, Then::once, true},
      {"any call finds no memory", "*", Error::out_of_memory, Then::once, false},
      {"any call loses the context", "*", Error::illegal_address, Then::context_lost, false},
      {"any call loses the device", "*", Error::unknown, Then::device_lost, false},
      {"any GPU work fails", "work", Error::launch_failed, Then::context_lost, true},
  };
  // With --fault-step, each kind and each row leaves out other calls.
  int first = int(&row - kRows);
  for (const Kind& k : kinds) {
    s.run(at + k.name, [&](Case& c) {
      fail_each(c, subject, row, k.call, k.error, k.then, k.all ? 1 : c.options().fault_step,
                first);
    });
    first += 2;
  }
  if (!row.cuda_caps) return;
  s.run(at + "frames of another context", [&](Case& c) { from_elsewhere(c, subject, row, 0, -1); });
  s.run(at + "frames of another context, on the device of cuda-device-id",
        [&](Case& c) { from_elsewhere(c, subject, row, 0, 0); });
  s.run(at + "frames of another device", [&](Case& c) { from_elsewhere(c, subject, row, 1, -1); });
  s.run(at + "frames of another device than cuda-device-id's",
        [&](Case& c) { from_elsewhere(c, subject, row, 1, 0); });
#endif
}

}  // namespace

void fault_cases(Suite& s, const Element& e) {
  for (const FaultEntry& entry : e.faults) {
    const Subject subject = {entry, e};
    for (const Row& row : kRows) row_cases(s, subject, row);
#if VF_EMULATION
    for (const NoCuda& fault : kNoCuda)
      s.run(std::string(e.name) + "/faults/" + fault.name,
            [&](Case& c) { without_cuda(c, subject, fault); });
#endif
  }
}

}  // namespace vf::test
