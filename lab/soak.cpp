// Runs a realistic chain for a long time (decode, denoise, matte, blurred regions, letterbox) and
// prints the result as TAP.
//
//   soak CLIP|test [--minutes N] [--backend auto|cuda|cpu] [--cuda-memory] [--warm-up N]
//        [--max-memory KIB] [--max-p99 MS] [--max-wait SECONDS] [--every SECONDS]
//        [--restart MINUTES] [--size WIDTHxHEIGHT] [--paced]
//
// Plays the clip (a file or its URI) again and again by seeking when it ends, or a test picture of
// --size, at full speed or with --paced at its own rate. Two regions wander over the frames. The
// settings of the elements change all the time, and every five minutes the pipeline restarts by way
// of READY. Reports frames, memory after the warm-up and at the end, CUDA contexts, and the time of
// frames from the decoder to the tensor. The run holds if frames came until the end, no error was
// reported on the bus, memory stayed within its bound and no context was left. A signal (SIGINT,
// SIGTERM, SIGHUP) ends the run early, with a verdict on the part that ran; a second one ends the
// process. The exit status is 0 if the run held, 1 if not, and 2 for a wrong command line.
#include <gst/gst.h>
#include <gst/video/video.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/contexts.h"
#include "tests/process.h"
#include "tests/tap.h"

namespace {

using vf::test::Contexts;
using vf::test::ended_by;
using vf::test::heap_kib;
using vf::test::process_device_kib;
using vf::test::resident_kib;

struct Options {
  std::string clip, backend = "auto";
  double minutes = 15, warm_up = 1, max_p99 = 0, max_wait = 0, every = 30, restart = 5;
  long max_memory = 8192;
  int width = 720, height = 406;
  bool cuda_memory = false, paced = false;
};

int usage() {
  fprintf(stderr,
          "usage: soak CLIP|test [--minutes N] [--backend auto|cuda|cpu] [--cuda-memory] "
          "[--warm-up MINUTES] [--max-memory KIB] [--max-p99 MS] [--max-wait SECONDS] "
          "[--every SECONDS] [--restart MINUTES] [--size WIDTHxHEIGHT] [--paced]\n");
  return 2;
}

bool parse(int argc, char** argv, Options* o) {
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (arg == "--cuda-memory") {
      o->cuda_memory = true;
    } else if (arg == "--paced") {
      o->paced = true;
    } else if (arg.compare(0, 2, "--")) {
      if (!o->clip.empty()) return false;
      o->clip = arg;
    } else {
      if (i + 1 == argc) return false;
      const char* value = argv[++i];
      if (arg == "--minutes")
        o->minutes = g_ascii_strtod(value, nullptr);
      else if (arg == "--warm-up")
        o->warm_up = g_ascii_strtod(value, nullptr);
      else if (arg == "--max-p99")
        o->max_p99 = g_ascii_strtod(value, nullptr);
      else if (arg == "--max-wait")
        o->max_wait = g_ascii_strtod(value, nullptr);
      else if (arg == "--restart")
        o->restart = g_ascii_strtod(value, nullptr);
      else if (arg == "--every")
        o->every = g_ascii_strtod(value, nullptr);
      else if (arg == "--max-memory")
        o->max_memory = strtol(value, nullptr, 10);
      else if (arg == "--size" && sscanf(value, "%dx%d", &o->width, &o->height) == 2)
        continue;
      else if (arg == "--backend")
        o->backend = value;
      else
        return false;
    }
  }
  // A chain without a frame for two minutes is stuck on any machine, not slow.
  if (o->max_wait <= 0) o->max_wait = std::min(120.0, o->minutes * 60 / 2);
  return !o->clip.empty() && o->minutes > 0 && o->every > 0 && o->restart > 0;
}

// Records by time stamp when frames went in, and how long they took.
class Latency {
 public:
  void in(GstClockTime pts) {
    std::lock_guard<std::mutex> lock(mutex_);
    started_[pts] = g_get_monotonic_time();
  }
  void out(GstClockTime pts) {
    const gint64 now = g_get_monotonic_time();
    std::lock_guard<std::mutex> lock(mutex_);
    frames_++;
    const auto found = started_.find(pts);
    if (found == started_.end()) return;
    // Bins count tenths of a millisecond. The last bin holds all longer times.
    const size_t bin = std::min<size_t>(size_t(now - found->second) / 100, kBins - 1);
    bins_[bin]++;
    counted_++;
    started_.erase(started_.begin(), std::next(found));
  }
  void restart() {
    std::lock_guard<std::mutex> lock(mutex_);
    started_.clear();
  }
  guint64 frames() {
    std::lock_guard<std::mutex> lock(mutex_);
    return frames_;
  }
  // Returns the milliseconds within which this part of the frames was done.
  double percentile(double part) {
    std::lock_guard<std::mutex> lock(mutex_);
    guint64 sum = 0;
    for (size_t i = 0; i < kBins; i++) {
      sum += bins_[i];
      if (sum >= part * double(counted_) && sum) return double(i + 1) / 10;
    }
    return 0;
  }

 private:
  static constexpr size_t kBins = 100000;
  std::mutex mutex_;
  std::map<GstClockTime, gint64> started_;
  std::vector<guint64> bins_ = std::vector<guint64>(kBins);
  guint64 frames_ = 0, counted_ = 0;
};

// Runs when a frame leaves the decoder. Attaches two regions, as a detector would.
GstPadProbeReturn enters(GstPad*, GstPadProbeInfo* info, gpointer latency) {
  GstBuffer* buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
  const guint step = guint(GST_BUFFER_PTS(buffer) / (40 * GST_MSECOND));
  gst_buffer_add_video_region_of_interest_meta(buffer, "face", step * 3 % 400, 60, 120, 140);
  gst_buffer_add_video_region_of_interest_meta(buffer, "plate", 300, step * 2 % 300, 80, 30);
  GST_PAD_PROBE_INFO_DATA(info) = buffer;
  static_cast<Latency*>(latency)->in(GST_BUFFER_PTS(buffer));
  return GST_PAD_PROBE_OK;
}

GstPadProbeReturn leaves(GstPad*, GstPadProbeInfo* info, gpointer latency) {
  static_cast<Latency*>(latency)->out(GST_BUFFER_PTS(GST_PAD_PROBE_INFO_BUFFER(info)));
  return GST_PAD_PROBE_OK;
}

void probe(GstElement* pipeline, const char* element, const char* pad_name,
           GstPadProbeCallback callback, Latency* latency) {
  GstElement* e = gst_bin_get_by_name(GST_BIN(pipeline), element);
  GstPad* pad = gst_element_get_static_pad(e, pad_name);
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, callback, latency, nullptr);
  gst_object_unref(pad);
  gst_object_unref(e);
}

// Holds the minimum memory in a part of the run. Frames under way and the allocator's caches come
// and go, but leaks stay.
struct Least {
  long resident = LONG_MAX, heap = LONG_MAX, device = LONG_MAX;
  void take(const Least& other) {
    resident = std::min(resident, other.resident);
    heap = std::min(heap, other.heap);
    device = std::min(device, other.device);
  }
};

// Records the memory in use in hundredths of the requested time. The notes are allocated in
// advance, so that they do not grow.
class Memory {
 public:
  explicit Memory(double minutes) : minutes_(minutes) {}

  void look(double now) { at(now).take({resident_kib(), heap_kib(), LONG_MAX}); }
  void look_at_device(double now, long kib) {
    if (kib > 0) at(now).take({LONG_MAX, LONG_MAX, kib});
  }
  // Returns the first and the last quarter of the run after the warm-up. Returns false if that was
  // too short.
  bool quarters(double warm_up, Least* early, Least* late) const {
    const size_t first = size_t(std::ceil(warm_up / minutes_ * double(parts_.size())));
    const size_t quarter = used_ > first ? (used_ - first) / 4 : 0;
    for (size_t i = 0; i < quarter; i++) {
      early->take(parts_[first + i]);
      late->take(parts_[used_ - 1 - i]);
    }
    return early->heap < LONG_MAX && late->heap < LONG_MAX;
  }

 private:
  Least& at(double now) {
    const size_t i = std::min(parts_.size() - 1, size_t(now / minutes_ * double(parts_.size())));
    used_ = i + 1;
    return parts_[i];
  }

  const double minutes_;
  std::array<Least, 100> parts_;
  size_t used_ = 0;
};

// The decoder makes new pads after each restart.
void decoded(GstElement*, GstPad* pad, gpointer first) {
  GstPad* sink = gst_element_get_static_pad(GST_ELEMENT(first), "sink");
  GstCaps* caps = gst_pad_query_caps(pad, nullptr);
  const bool video = gst_structure_has_name(gst_caps_get_structure(caps, 0), "video/x-raw");
  if (video && !gst_pad_is_linked(sink)) gst_pad_link(pad, sink);
  gst_caps_unref(caps);
  gst_object_unref(sink);
}

struct Change {
  const char* element;
  const char* property;
  std::vector<const char*> values;
};

// Makes the chain, with a decoder in front if there is a clip. If that fails, prints why on stderr
// and returns null.
GstElement* make_pipeline(const Options& o) {
  const std::string backend = " backend=" + o.backend + " ";
  const std::string memory = o.cuda_memory ? "cudaupload ! video/x-raw(memory:CUDAMemory) ! " : "";
  const bool test = o.clip == "test";
  const std::string line =
      (test ? "videotestsrc pattern=ball ! video/x-raw,width=" + std::to_string(o.width) +
                  ",height=" + std::to_string(o.height) + " ! "
            : "") +
      "videoconvert name=first ! video/x-raw,format=RGBA ! queue max-size-buffers=2 ! identity "
      "name=in ! " +
      memory + "cudadenoise name=denoise" + backend +
      "! cudaguidedmatte name=matte mask=chroma-key key-color=0x406080 output=composite "
      "background-color=0xff203040" +
      backend + "! cudagaussian name=blur regions=roi sigma-relative=0.2" + backend +
      "! cudaletterbox name=letterbox" + backend +
      "! other/tensors,format=static,num_tensors=1,types=float32,dimensions=640:640:3:1 ! "
      "fakesink name=out sync=" +
      (o.paced ? "true" : "false");
  GError* error = nullptr;
  GstElement* pipeline = gst_parse_launch(line.c_str(), &error);
  if (error) {
    fprintf(stderr, "soak: %s\n", error->message);
    return nullptr;
  }
  if (!test) {
    GstElement* decoder = gst_element_factory_make("uridecodebin", nullptr);
    GstElement* first = gst_bin_get_by_name(GST_BIN(pipeline), "first");
    gchar* uri = gst_uri_is_valid(o.clip.c_str()) ? g_strdup(o.clip.c_str())
                                                  : gst_filename_to_uri(o.clip.c_str(), nullptr);
    g_object_set(decoder, "uri", uri, nullptr);
    g_free(uri);
    gst_bin_add(GST_BIN(pipeline), decoder);
    // The pipeline keeps `first` for as long as the decoder.
    g_signal_connect(decoder, "pad-added", G_CALLBACK(decoded), first);
    gst_object_unref(first);
  }
  return pipeline;
}

// The allocator may keep so many KiB of an arena that serves frames of many sizes.
constexpr long kFragments = 16384;

// Holds what happened, and the memory in use.
struct Run {
  explicit Run(double minutes) : memory(minutes) {}
  guint64 restarts = 0, loops = 0, settings = 0, errors = 0, warnings = 0;
  double took = 0;
  double wait = 0;  // the longest without a frame, in seconds
  Memory memory;
};

void play_again(GstElement* pipeline) {
  gst_element_set_state(pipeline, GST_STATE_READY);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
}

// Counts a message of the bus. At its end, the clip starts again.
void take(GstMessage* message, GstElement* pipeline, Latency* latency, Run* run) {
  GError* what = nullptr;
  switch (GST_MESSAGE_TYPE(message)) {
    case GST_MESSAGE_EOS:
      latency->restart();
      run->loops++;
      // Seeking fails in a clip without an index, so the pipeline restarts.
      if (!gst_element_seek_simple(pipeline, GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 0))
        play_again(pipeline);
      break;
    case GST_MESSAGE_ERROR:
      gst_message_parse_error(message, &what, nullptr);
      run->errors++;
      break;
    default:
      gst_message_parse_warning(message, &what, nullptr);
      run->warnings++;
      break;
  }
  if (what) fprintf(stderr, "soak: %s: %s\n", GST_OBJECT_NAME(message->src), what->message);
  g_clear_error(&what);
  gst_message_unref(message);
}

// Sets the next value of the next setting.
void change_setting(GstElement* pipeline, Run* run) {
  static const Change changes[] = {
      {"denoise", "strength", {"1", "0", "2"}},
      {"matte", "refine", {"colors", "guided"}},
      {"matte", "background", {"blur", "color"}},
      {"blur", "regions", {"roi", "all", "roi"}},
      {"blur", "sigma-relative", {"0.2", "0", "0.5"}},
      {"letterbox", "interpolation", {"bilinear", "area", "nearest"}},
  };
  const Change& change = changes[run->settings % G_N_ELEMENTS(changes)];
  const auto value = run->settings / G_N_ELEMENTS(changes) % change.values.size();
  GstElement* e = gst_bin_get_by_name(GST_BIN(pipeline), change.element);
  gst_util_set_object_arg(G_OBJECT(e), change.property, change.values[value]);
  gst_object_unref(e);
  run->settings++;
}

// Plays until the time is over or something fails.
void play(const Options& o, GstElement* pipeline, Latency* latency, Run* run) {
  GstBus* bus = gst_element_get_bus(pipeline);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  const gint64 begin = g_get_monotonic_time();
  const auto minutes = [&] { return double(g_get_monotonic_time() - begin) / 60e6; };
  double next_change = 0, next_report = 0, next_restart = o.restart;
  guint64 frames_before = 0;
  double moved = 0;
  printf("# minutes frames resident-KiB heap-KiB device-KiB p50-ms p99-ms\n");
  // A busy machine may need longer than the whole run for the first frame.
  while ((minutes() < o.minutes || !latency->frames()) && !run->errors && run->wait <= o.max_wait &&
         !ended_by) {
    GstMessage* message = gst_bus_timed_pop_filtered(
        bus, 100 * GST_MSECOND,
        GstMessageType(GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_WARNING));
    if (message) take(message, pipeline, latency, run);
    const double now = minutes();
    const guint64 frames = latency->frames();
    run->wait = std::max(run->wait, (now - moved) * 60);
    if (frames != frames_before) frames_before = frames, moved = now;
    if (now >= next_change) {
      next_change = now + 1.0 / 60;
      change_setting(pipeline, run);
    }
    if (now >= next_restart) {
      next_restart += o.restart;
      latency->restart();
      play_again(pipeline);
      run->restarts++;
    }
    run->memory.look(now);
    if (now >= next_report) {
      next_report += o.every / 60;
      const long device = process_device_kib();
      run->memory.look_at_device(now, device);
      printf("# %.1f %" G_GUINT64_FORMAT " %ld %ld %ld %.1f %.1f\n", now, frames, resident_kib(),
             heap_kib(), device, latency->percentile(0.5), latency->percentile(0.99));
      fflush(stdout);
    }
  }
  run->took = minutes();
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(bus);
}

// Prints the verdict as TAP.
class Verdict : public vf::test::Tap {
 public:
  void check(bool ok, const std::string& what) { Tap::check(what, ok); }
  void check_growth(const char* what, long from, long to, long limit) {
    check(to - from <= limit, std::string(what) + " grew by " + std::to_string(to - from) +
                                  " KiB, from " + std::to_string(from) + ", of at most " +
                                  std::to_string(limit));
  }
  bool end() const {
    const bool held = Tap::end() == 0;
    printf("# %s\n", held ? "held" : "FAILED");
    return held;
  }
};

std::string tenths(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.1f", value);
  return text;
}

void check_memory(const Options& o, const Run& run, Verdict* verdict) {
  Least early, late;
  if (!run.memory.quarters(o.warm_up, &early, &late)) {
    verdict->skip("memory", "too little was run after the warm-up");
    return;
  }
  // The values are the minima of the first and the last quarter after the warm-up.
  verdict->check_growth("heap", early.heap, late.heap, o.max_memory);
  verdict->check_growth("resident memory", early.resident, late.resident,
                        kFragments + o.max_memory);
  if (early.device < LONG_MAX && late.device < LONG_MAX)
    verdict->check_growth("device memory", early.device, late.device, o.max_memory);
  else
    verdict->skip("device memory", "nvidia-smi knows of none");
}

// Prints what happened. Returns whether the run held.
bool report(const Options& o, const Run& run, Latency* latency, Contexts* contexts) {
  const guint64 frames = latency->frames();
  const double p99 = latency->percentile(0.99);
  if (ended_by)
    printf("# ended by signal %d after %.1f of %g minutes\n", int(ended_by), run.took, o.minutes);
  printf("# %.1f minutes, %.1f frames/s; clip played %" G_GUINT64_FORMAT
         " times, %" G_GUINT64_FORMAT " settings changed, %" G_GUINT64_FORMAT " restarts\n",
         run.took, double(frames) / run.took / 60, run.loops + 1, run.settings, run.restarts);
  printf(
      "# latency from the decoder to the tensor, ms: p50 %.1f, p90 %.1f, p99 %.1f, p99.9 %.1f, max "
      "%.1f\n",
      latency->percentile(0.5), latency->percentile(0.9), p99, latency->percentile(0.999),
      latency->percentile(1));
  Verdict verdict;
  verdict.check(frames > 0 && run.wait <= o.max_wait, std::to_string(frames) + " frames, at most " +
                                                          tenths(run.wait) + " s without one, of " +
                                                          tenths(o.max_wait));
  verdict.check(run.errors == 0, std::to_string(run.errors) + " errors on the bus, " +
                                     std::to_string(run.warnings) + " warnings");
  check_memory(o, run, &verdict);
  const int left = contexts->left();
  if (contexts->made())
    verdict.check(left == 0, std::to_string(left) + " left of " + std::to_string(contexts->made()) +
                                 " CUDA contexts");
  else
    verdict.skip("CUDA contexts", "none was made");
  if (o.max_p99 > 0)
    verdict.check(p99 <= o.max_p99, "p99 " + tenths(p99) + " ms, of at most " + tenths(o.max_p99));
  return verdict.end();
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse(argc, argv, &o)) return usage();
  vf::test::one_arena();
  Contexts::prepare();
  gst_init(&argc, &argv);
  Contexts contexts;
  vf::test::take_signals();
  GstElement* pipeline = make_pipeline(o);
  if (!pipeline) return 1;
  Latency latency;
  probe(pipeline, "in", "src", enters, &latency);
  probe(pipeline, "out", "sink", leaves, &latency);
  Run run(o.minutes);
  play(o, pipeline, &latency, &run);
  gst_object_unref(pipeline);
  return report(o, run, &latency, &contexts) ? 0 : 1;
}
