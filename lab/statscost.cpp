// Measures what statistics cost an element: stats-cost [--backend auto|cuda|cpu] [--cuda-memory]
//        [--width PIXELS] [--height PIXELS] [--rounds N] ["ELEMENT SETTINGS"...]
//
// Plays frames of a pool through each element as fast as it takes them, and switches the statistics
// between windows of 0.05 s: none, a message every second (stats-interval=1000), a message every
// millisecond, and a thread that reads `stats` every millisecond. Each window is compared with one
// without statistics beside it, so that the machine's load is nearly the same. Prints the median of
// what each costs more than none, its standard error, and the quartiles. On the CPU this is processor
// time of the threads that play, which other programs disturb little; on a GPU it is time per frame.
// Counting and timing cannot be switched off, so the calls that an element makes for each frame are
// timed alone, and printed as a share of the time of a frame. The exit status is 1 if a message every
// second, or the calls, cost more than 2 %.
#include <gst/gst.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "bench/pipeline/source.h"
#include "gst/base/cudacompat.h"
#include "gst/base/format.h"
#include "gst/base/stats.h"
#if VF_HAVE_CUDA
#include "cuda/core/timing.h"
#endif

namespace {

struct Options {
  const char* backend = "auto";
  gboolean cuda_memory = FALSE;
  int width = 1920, height = 1080, rounds = 200;
  std::vector<std::string> elements;
};

constexpr double kLimit = 2;      // percent
constexpr double kWindow = 0.05;  // seconds

bool parse(int argc, char** argv, Options* o) {
  gchar** elements = nullptr;
  const GOptionEntry entries[] = {
      {"backend", 0, 0, G_OPTION_ARG_STRING, &o->backend, "auto, cuda or cpu", "BACKEND"},
      {"cuda-memory", 0, 0, G_OPTION_ARG_NONE, &o->cuda_memory, "Filter CUDA memory", nullptr},
      {"width", 0, 0, G_OPTION_ARG_INT, &o->width, "Width of the frames", "PIXELS"},
      {"height", 0, 0, G_OPTION_ARG_INT, &o->height, "Height of the frames", "PIXELS"},
      {"rounds", 0, 0, G_OPTION_ARG_INT, &o->rounds, "Number of comparisons", "N"},
      {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, &elements, nullptr, nullptr},
      {}};
  GOptionContext* context = g_option_context_new("[\"ELEMENT SETTINGS\"...]");
  g_option_context_add_main_entries(context, entries, nullptr);
  const bool known = g_option_context_parse(context, &argc, &argv, nullptr);
  if (!known) fprintf(stderr, "%s", g_option_context_get_help(context, TRUE, nullptr));
  g_option_context_free(context);
  for (gchar** e = elements; e && *e; e++) o->elements.push_back(*e);
  if (o->elements.empty())
    o->elements = {"cudagaussian sigma=1.5", "cudapixelate block-size=40", "cudadenoise",
                   "cudamedian size=3"};
  return known && o->rounds > 0 && o->width > 0 && o->height > 0;
}

// Returns the value below which a share of the values lies.
double quantile(std::vector<double> v, double share) {
  std::sort(v.begin(), v.end());
  return v[size_t(share * double(v.size() - 1) + 0.5)];
}

double seconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return double(time.tv_sec) + double(time.tv_nsec) / 1e9;
}

// The moment at which a frame came out.
struct Moment {
  double frames, time, processor;  // seconds; processor time of all threads but the first
};

// Plays an element and counts the frames that come out.
class Player {
 public:
  Player(const Options& o, const std::string& element) {
    GstCaps* caps = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, "NV12", "width",
                                        G_TYPE_INT, o.width, "height", G_TYPE_INT, o.height,
                                        "framerate", GST_TYPE_FRACTION, 25, 1, nullptr);
    pthread_getcpuclockid(pthread_self(), &first_thread_);
    pipeline_ = gst_pipeline_new(nullptr);
    GstBufferPool* pool = nullptr;
    if (o.cuda_memory) {
      gstvf::set_caps_in_cuda(caps);
      if (const char* why = gstvf::why_no_cuda()) {
        failure = why;
        return;
      }
#if VF_HAVE_GST_CUDA
      GstCudaContext* context = gst_cuda_context_new(0);
      pool = gstvf::cuda_pool_new(context);
      gstvf::give_context(pipeline_, context);
      gst_object_unref(context);
#endif
    } else {
      pool = gst_video_buffer_pool_new();
    }
    BenchSource* source = bench_source_new(caps, pool, 16, FALSE);
    gst_object_unref(pool);
    gst_caps_unref(caps);
    GError* error = nullptr;
    const std::string line =
        element + " name=filter backend=" + o.backend + " ! fakesink name=sink sync=false";
    GstElement* rest = gst_parse_bin_from_description(line.c_str(), TRUE, &error);
    if (error) {
      failure = error->message;
      g_error_free(error);
      return;
    }
    gst_bin_add_many(GST_BIN(pipeline_), GST_ELEMENT(source), rest, nullptr);
    gst_element_link(GST_ELEMENT(source), rest);
    filter = gst_bin_get_by_name(GST_BIN(rest), "filter");
    GstElement* sink = gst_bin_get_by_name(GST_BIN(rest), "sink");
    GstPad* pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, frame_came, this, nullptr);
    gst_object_unref(pad);
    gst_object_unref(sink);
    gst_element_set_state(pipeline_, GST_STATE_PLAYING);
    const gint64 end = g_get_monotonic_time() + 30 * G_USEC_PER_SEC;
    while (newest().frames < 100 && g_get_monotonic_time() < end && failure.empty()) {
      g_usleep(20000);
      hear();
    }
    if (newest().frames == 0 && failure.empty()) failure = "no frame came in 30 s";
  }
  ~Player() {
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    if (filter) gst_object_unref(filter);
    gst_object_unref(pipeline_);
  }

  // Plays for a window, and returns what a frame took. `reads` reads the statistics all the time.
  Moment window(guint interval, bool reads) {
    g_object_set(filter, "stats-interval", interval, nullptr);
    const Moment first = newest();
    const gint64 end = g_get_monotonic_time() + 30 * G_USEC_PER_SEC;
    while (newest().time - first.time < kWindow && g_get_monotonic_time() < end) {
      g_usleep(1000);
      if (!reads) continue;
      GstStructure* stats = nullptr;
      g_object_get(filter, "stats", &stats, nullptr);
      gst_structure_free(stats);
    }
    const Moment last = newest();
    hear();
    const double frames = last.frames - first.frames;
    if (frames == 0 && failure.empty()) failure = "no frame came in 30 s";
    return {frames, (last.time - first.time) / frames, (last.processor - first.processor) / frames};
  }

  GstElement* filter = nullptr;
  std::string failure;

 private:
  void hear() {
    GstBus* bus = gst_element_get_bus(pipeline_);
    while (GstMessage* message = gst_bus_pop(bus)) {
      if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        GError* error = nullptr;
        gst_message_parse_error(message, &error, nullptr);
        failure = error->message;
        g_error_free(error);
      }
      gst_message_unref(message);
    }
    gst_object_unref(bus);
  }

  Moment newest() {
    std::lock_guard<std::mutex> lock(mutex_);
    return newest_;
  }
  static GstPadProbeReturn frame_came(GstPad*, GstPadProbeInfo*, gpointer data) {
    auto* self = static_cast<Player*>(data);
    std::lock_guard<std::mutex> lock(self->mutex_);
    self->newest_ = {self->newest_.frames + 1, seconds(CLOCK_MONOTONIC),
                     seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(self->first_thread_)};
    return GST_PAD_PROBE_OK;
  }

  GstElement* pipeline_ = nullptr;
  std::mutex mutex_;
  Moment newest_ = {};
  clockid_t first_thread_ = CLOCK_THREAD_CPUTIME_ID;
};

// Returns the microseconds that counting and timing take for a frame on the CPU.
double calls_on_cpu() {
  gstvf::FrameStats stats;
  constexpr int kCalls = 1000000;
  const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < kCalls; i++) {
    const GstClockTime start = gst_util_get_timestamp();
    stats.times.add(gst_util_get_timestamp() - start);
    stats.frames.fetch_add(1, std::memory_order_relaxed);
  }
  return 1e6 * (seconds(CLOCK_THREAD_CPUTIME_ID) - begin) / kCalls;
}

// Returns the same for a GPU: two events on a stream, which the GPU reaches before the time is taken,
// for one frame in 16.
double calls_on_gpu([[maybe_unused]] std::string* failure) {
#if VF_HAVE_CUDA
  gstvf::FrameStats stats;
  vf::QueueOptions options;
  options.backend = vf::Backend::cuda;
  std::unique_ptr<vf::Queue> queue;
  vf::Status status = vf::make_queue(options, &queue);
  const auto timing = status.ok() ? vf::cuda::make_timing() : nullptr;
  constexpr int kCalls = 20000;
  const gint64 begin = g_get_monotonic_time();
  for (int i = 0; timing && i < kCalls; i++) {
    if (i % 16 == 0) {
      while (const uint64_t ns = timing->take()) stats.times.add(ns);
      timing->begin(*queue);
      timing->end(*queue);
    }
    stats.frames.fetch_add(1, std::memory_order_relaxed);
  }
  if (status.ok()) status = queue->sync();
  if (status.ok()) return double(g_get_monotonic_time() - begin) / kCalls;
  *failure = status.message();
#endif
  return 0;
}

// Measures one element. Returns false if it costs too much or fails.
bool measure(const Options& o, const std::string& element) {
  Player player(o, element);
  if (!player.failure.empty()) {
    printf("%s: %s\n", element.c_str(), player.failure.c_str());
    return false;
  }
  GstStructure* stats = nullptr;
  g_object_get(player.filter, "stats", &stats, nullptr);
  const bool cuda = !g_strcmp0(gst_structure_get_string(stats, "backend"), "cuda");
  gst_structure_free(stats);
  struct Mode {
    const char* name;
    guint interval;
    bool reads;
    std::vector<double> losses;  // percent
  } modes[] = {{"a message every second", 1000, false, {}},
               {"a message every millisecond", 1, false, {}},
               {"read every millisecond", 0, true, {}}};
  std::vector<double> times, processors;
  for (int round = 0; round < o.rounds; round++) {
    for (Mode& mode : modes) {
      Moment none, with;
      // The second of two windows must not always be the same one.
      if (round % 2) with = player.window(mode.interval, mode.reads);
      none = player.window(0, false);
      if (round % 2 == 0) with = player.window(mode.interval, mode.reads);
      times.push_back(none.time);
      processors.push_back(none.processor);
      mode.losses.push_back(
          100 * (cuda ? with.time / none.time - 1 : with.processor / none.processor - 1));
    }
  }
  std::string failure;
  const double calls = cuda ? calls_on_gpu(&failure) : calls_on_cpu();
  const double base = 1e6 * quantile(cuda ? times : processors, 0.5);
  const double share = 100 * calls / base;
  printf("%s, %s, %dx%d NV12 in %s memory: %.1f us of %s time per frame\n", element.c_str(),
         cuda ? "cuda" : "cpu", o.width, o.height, o.cuda_memory ? "CUDA" : "system", base,
         cuda ? "wall" : "processor");
  bool ok = failure.empty() && share <= kLimit;
  for (Mode& mode : modes) {
    const double loss = quantile(mode.losses, 0.5), low = quantile(mode.losses, 0.25),
                 high = quantile(mode.losses, 0.75);
    // The median of n normally distributed values has a standard error of 1.25 deviations by the
    // root of n, and their quartiles are 1.35 deviations apart.
    const double error = 0.93 * (high - low) / std::sqrt(double(mode.losses.size()));
    printf("  %-28s %6.2f %% more, standard error %.2f, quartiles %.2f and %.2f\n", mode.name, loss,
           error, low, high);
    if (mode.interval == 1000) ok = ok && loss <= kLimit;
  }
  printf("  %-28s %6.2f %%, %.3f us per frame%s%s\n", "counting and timing", share, calls,
         failure.empty() ? "" : ": ", failure.c_str());
  fflush(stdout);
  return ok && player.failure.empty();
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  Options options;
  if (!parse(argc, argv, &options)) return 2;
  bool ok = true;
  for (const std::string& element : options.elements) ok = measure(options, element) && ok;
  return ok ? 0 : 1;
}
