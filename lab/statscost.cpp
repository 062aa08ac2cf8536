// Measures what statistics cost an element: stats-cost [--backend auto|cuda|cpu] [--cuda-memory]
//        [--width PIXELS] [--height PIXELS] [--rounds N] ["ELEMENT SETTINGS"...]
//
// Plays frames of a pool through each element as fast as it takes them, and switches the statistics
// between windows of 0.3 s: none, a message every second (stats-interval=1000), a message every
// millisecond, and a thread that reads `stats` every millisecond. Prints the median of the frames
// per second of each, and by how much it is below the first. Counting and timing cannot be switched
// off, so the calls that an element makes for each frame are timed alone, and printed as a share of
// the time of a frame. The exit status is 1 if a message every second, or the calls, cost more than
// 2 %.
#include <gst/gst.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
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
  int width = 1920, height = 1080, rounds = 15;
  std::vector<std::string> elements;
};

constexpr double kLimit = 2;            // percent
constexpr gint64 kWindow = 300 * 1000;  // microseconds

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

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

GstPadProbeReturn count_frame(GstPad*, GstPadProbeInfo*, gpointer count) {
  static_cast<std::atomic<guint64>*>(count)->fetch_add(1, std::memory_order_relaxed);
  return GST_PAD_PROBE_OK;
}

// Plays an element and counts the frames that come out.
class Player {
 public:
  Player(const Options& o, const std::string& element) {
    GstCaps* caps = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, "NV12", "width",
                                        G_TYPE_INT, o.width, "height", G_TYPE_INT, o.height,
                                        "framerate", GST_TYPE_FRACTION, 25, 1, nullptr);
    pipeline_ = gst_pipeline_new(nullptr);
    GstBufferPool* pool = nullptr;
    if (o.cuda_memory) {
      gstvf::set_caps_in_cuda(caps);
      if (const char* why = gstvf::why_no_cuda()) {
        failure = why;
        return;
      }
      GstCudaContext* context = gst_cuda_context_new(0);
      pool = gstvf::cuda_pool_new(context);
      gstvf::give_context(pipeline_, context);
      gst_object_unref(context);
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
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, ::count_frame, &frames_, nullptr);
    gst_object_unref(pad);
    gst_object_unref(sink);
    gst_element_set_state(pipeline_, GST_STATE_PLAYING);
    const gint64 end = g_get_monotonic_time() + 30 * G_USEC_PER_SEC;
    while (frames_ < 100 && g_get_monotonic_time() < end && failure.empty()) {
      g_usleep(20000);
      hear();
    }
    if (frames_ == 0 && failure.empty()) failure = "no frame came in 30 s";
  }
  ~Player() {
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    if (filter) gst_object_unref(filter);
    gst_object_unref(pipeline_);
  }

  // Returns the frames per second in a window. `reads` reads the statistics all the time.
  double window(guint interval, bool reads) {
    g_object_set(filter, "stats-interval", interval, nullptr);
    const guint64 first = frames_;
    const gint64 begin = g_get_monotonic_time();
    while (g_get_monotonic_time() - begin < kWindow) {
      g_usleep(1000);
      if (!reads) continue;
      GstStructure* stats = nullptr;
      g_object_get(filter, "stats", &stats, nullptr);
      gst_structure_free(stats);
    }
    const double rate = double(frames_ - first) * 1e6 / double(g_get_monotonic_time() - begin);
    hear();
    return rate;
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

  GstElement* pipeline_ = nullptr;
  std::atomic<guint64> frames_{0};
};

// Returns the microseconds that counting and timing take for a frame on the CPU.
double calls_on_cpu() {
  gstvf::FrameStats stats;
  constexpr int kCalls = 1000000;
  const gint64 begin = g_get_monotonic_time();
  for (int i = 0; i < kCalls; i++) {
    const GstClockTime start = gst_util_get_timestamp();
    stats.times.add(gst_util_get_timestamp() - start);
    stats.frames.fetch_add(1, std::memory_order_relaxed);
  }
  return double(g_get_monotonic_time() - begin) / kCalls;
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
  struct Mode {
    const char* name;
    guint interval;
    bool reads;
    std::vector<double> rates;
  } modes[] = {{"none", 0, false, {}},
               {"a message every second", 1000, false, {}},
               {"a message every millisecond", 1, false, {}},
               {"read every millisecond", 0, true, {}}};
  for (int round = 0; round < o.rounds; round++)
    for (Mode& mode : modes) mode.rates.push_back(player.window(mode.interval, mode.reads));
  GstStructure* stats = nullptr;
  g_object_get(player.filter, "stats", &stats, nullptr);
  const bool cuda = !g_strcmp0(gst_structure_get_string(stats, "backend"), "cuda");
  gst_structure_free(stats);
  std::string failure;
  const double calls = cuda ? calls_on_gpu(&failure) : calls_on_cpu();
  const double base = median(modes[0].rates);
  const double share = calls * base / 1e4;
  printf("%s, %s, %dx%d NV12 in %s memory: %.1f frames/s\n", element.c_str(), cuda ? "cuda" : "cpu",
         o.width, o.height, o.cuda_memory ? "CUDA" : "system", base);
  bool ok = failure.empty() && share <= kLimit;
  for (Mode& mode : modes) {
    if (mode.rates == modes[0].rates) continue;
    // Windows of one round follow each other, so that the machine's load is nearly the same.
    std::vector<double> losses;
    for (size_t i = 0; i < mode.rates.size(); i++)
      losses.push_back(100 * (1 - mode.rates[i] / modes[0].rates[i]));
    const double loss = median(losses);
    printf("  %-28s %8.1f frames/s, %5.2f %% less\n", mode.name, median(mode.rates), loss);
    if (mode.interval == 1000) ok = ok && loss <= kLimit;
  }
  printf("  %-28s %8.3f us per frame, %5.2f %% of its time%s%s\n", "counting and timing", calls,
         share, failure.empty() ? "" : ": ", failure.c_str());
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
