// Creates and destroys pipelines at random and prints the result as TAP.
//
//   churn [--minutes N] [--pipelines N] [--every SECONDS] [--backend auto|cuda|cpu]
//         [--max-memory KIB] [--max-resident KIB] [--max-device-memory KIB] [--seed N]
//         [--share-context]
//
// Pipelines with different elements, sizes and formats are made, played, taken to READY and back
// and destroyed, in random order and while others play. Every --every seconds all are destroyed,
// and the memory in use is noted. The run holds if every pipeline played, nothing was reported on a
// bus, no CUDA context was left, and the last third of the notes exceeds the first third by no more
// than the bounds. Each pipeline on a GPU makes its own context. With --share-context, all
// pipelines between two notes share the first one's, as in applications. GStreamer's leaks tracer
// counts contexts, and nvidia-smi their memory. A signal (SIGINT, SIGTERM, SIGHUP) ends the run
// early, with its verdict.
#include <gst/gst.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/contexts.h"
#include "tests/process.h"
#include "tests/tap.h"

namespace {

using vf::test::Contexts;
using vf::test::process_device_kib;

struct Options {
  double minutes = 1, every = 5;
  int pipelines = 64;
  std::string backend = "auto";
  long max_memory = 4096, max_resident = 32768, max_device_memory = 65536;
  unsigned seed = 1;
  bool share_context = false;
};

const char* const kChains[] = {
    "cudagaussian sigma=3 {backend}",
    "cudamedian size=5 {backend} ! cudagaussian sigma=1 {backend}",
    "cudapixelate block-size=16 {backend}",
    "cudadenoise {backend}",
    "cudaletterbox {backend} ! "
    "other/tensors,types=float32,dimensions=(string)320:320:3:1",
    "cudaguidedmatte mask=chroma-key output=composite {backend} ! cudaletterbox {backend} ! "
    "video/x-raw,width=160,height=160,pixel-aspect-ratio=1/1",
    "cudaguidedmatte mask=chroma-key refine=colors output=composite background=blur {backend}",
    "cudagaussian regions=roi on-missing=all sigma-relative=0.1 {backend} ! "
    "cudaletterbox keep-original=true {backend} ! "
    "video/x-raw,width=160,height=160,pixel-aspect-ratio=1/1 ! cudaletterboxrestore",
};
const char* const kFormats[] = {"NV12", "RGBA", "I420"};

struct Slot {
  GstElement* pipeline = nullptr;
  bool playing = false;
};

// Holds the memory in use while no pipeline exists.
struct Note {
  long heap, resident, device, device_before;  // device_before: with pipelines
  int threads, contexts;
};

class Churn {
 public:
  explicit Churn(const Options& options)
      : options_(options), random_(options.seed), slots_(size_t(options.pipelines)) {}

  // Returns whether the run held.
  bool run() {
    const gint64 start = g_get_monotonic_time();
    gint64 round = start;
    const double seconds = options_.minutes * 60;
    // A busy machine may need longer until each pipeline was there and one has played.
    const auto goes_on = [&] {
      const double now = seconds_since(start);
      return now < seconds || (now < seconds + 600 && (made_ < slots_.size() || !played_));
    };
    while (goes_on() && failures_ < 10 && !vf::test::ended_by) {
      step();
      g_usleep(1000 * gulong(pick(8)));
      if (seconds_since(round) < options_.every) continue;
      note();
      round = g_get_monotonic_time();
    }
    note();
    return report(seconds_since(start));
  }

 private:
  static double seconds_since(gint64 time) {
    return double(g_get_monotonic_time() - time) / G_USEC_PER_SEC;
  }
  int pick(int n) { return int(random_() % unsigned(n)); }

  void fail(const std::string& why) {
    failures_++;
    printf("# %s\n", why.c_str());
  }

  void make(Slot* slot) {
    std::string chain = kChains[pick(int(std::size(kChains)))];
    for (size_t at; (at = chain.find("{backend}")) != std::string::npos;)
      chain.replace(at, 9, "backend=" + options_.backend);
    const std::string caps = std::string("video/x-raw,format=") +
                             kFormats[pick(int(std::size(kFormats)))] +
                             ",width=" + std::to_string(64 + 2 * pick(120)) +
                             ",height=" + std::to_string(48 + 2 * pick(90)) + ",framerate=15/1";
    const std::string line = "videotestsrc is-live=true pattern=ball ! " + caps + " ! " + chain +
                             " ! fakesink name=sink sync=false";
    GError* error = nullptr;
    slot->pipeline = gst_parse_launch(line.c_str(), &error);
    made_++;
    if (!slot->pipeline || error) {
      fail(error ? error->message : "a pipeline cannot be made");
      g_clear_error(&error);
      gst_clear_object(&slot->pipeline);
      return;
    }
    if (context_) gst_element_set_context(slot->pipeline, context_);
    gst_element_set_state(slot->pipeline, GST_STATE_PLAYING);
    if (options_.share_context && !context_) context_ = context_of(slot->pipeline);
    slot->playing = true;
  }

  // Returns the context that an element has made for its pipeline, or null.
  static GstContext* context_of(GstElement* pipeline) {
    GstContext* context = nullptr;
    GstBus* bus = gst_element_get_bus(pipeline);
    if (GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_HAVE_CONTEXT)) {
      gst_message_parse_have_context(message, &context);
      gst_message_unref(message);
    }
    gst_object_unref(bus);
    return context;
  }

  // Returns the number of frames that the sink has rendered, from its statistics.
  static guint64 frames_of(GstElement* pipeline) {
    GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    GstStructure* stats = nullptr;
    guint64 rendered = 0;
    g_object_get(sink, "stats", &stats, nullptr);
    gst_structure_get_uint64(stats, "rendered", &rendered);
    gst_structure_free(stats);
    gst_object_unref(sink);
    return rendered;
  }

  void look(GstElement* pipeline) {
    GstBus* bus = gst_element_get_bus(pipeline);
    while (GstMessage* message =
               gst_bus_pop_filtered(bus, GstMessageType(GST_MESSAGE_ERROR | GST_MESSAGE_WARNING))) {
      GError* what = nullptr;
      if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
        gst_message_parse_error(message, &what, nullptr);
      else
        gst_message_parse_warning(message, &what, nullptr);
      fail(std::string(GST_MESSAGE_SRC_NAME(message)) + ": " + what->message);
      g_error_free(what);
      gst_message_unref(message);
    }
    gst_object_unref(bus);
  }

  void destroy(Slot* slot) {
    if (!slot->pipeline) return;
    look(slot->pipeline);
    const guint64 frames = frames_of(slot->pipeline);
    frames_ += frames;
    played_ += frames > 0;
    gst_element_set_state(slot->pipeline, GST_STATE_NULL);
    gst_clear_object(&slot->pipeline);
    slot->playing = false;
  }

  void step() {
    Slot& slot = slots_[size_t(pick(int(slots_.size())))];
    if (!slot.pipeline) return make(&slot);
    switch (pick(4)) {
      case 0:
        return destroy(&slot);
      case 1:
        frames_ += frames_of(slot.pipeline);
        gst_element_set_state(slot.pipeline, slot.playing ? GST_STATE_READY : GST_STATE_PLAYING);
        slot.playing = !slot.playing;
        break;
      default:
        look(slot.pipeline);
        break;
    }
  }

  void note() {
    const long device_before = process_device_kib();
    most_contexts_ = std::max(most_contexts_, contexts_.alive());
    for (Slot& slot : slots_) destroy(&slot);
    if (context_) gst_context_unref(context_);
    context_ = nullptr;
    const int contexts = contexts_.left();
    const Note n = {vf::test::heap_kib(), vf::test::resident_kib(),    process_device_kib(),
                    device_before,        vf::test::process_threads(), contexts};
    notes_.push_back(n);
    printf(
        "# %zu pipelines, %zu frames; heap %ld KiB, resident %ld KiB, device %ld KiB after %ld "
        "KiB, %d threads, %d contexts of %d\n",
        made_, size_t(frames_), n.heap, n.resident, n.device, n.device_before, n.threads,
        n.contexts, contexts_.made());
    fflush(stdout);
  }

  // Returns the minimum over a third of the notes. Caches come and go, but leaks stay.
  long least(bool last, long Note::*field) const {
    const size_t third = std::max<size_t>(1, notes_.size() / 3);
    long value = LONG_MAX;
    for (size_t i = 0; i < third; i++)
      value = std::min(value, notes_[last ? notes_.size() - 1 - i : i].*field);
    return value;
  }

  bool report(double seconds) {
    printf("# %zu pipelines in %.0f s, %zu frames, %d failures\n", made_, seconds, size_t(frames_),
           failures_);
    vf::test::Tap tap;
    tap.check("no error and no warning on a bus", failures_ == 0);
    tap.check(std::to_string(made_) + " pipelines came and went, " + std::to_string(played_) +
                  " played, of at least " + std::to_string(slots_.size()),
              played_ > 0 && made_ >= slots_.size());
    if (options_.share_context && contexts_.made())
      tap.check("pipelines shared their context", contexts_.made() <= int(notes_.size()));
    const auto check_growth = [&](const char* what, long Note::*field, long limit) {
      const long grown = least(true, field) - least(false, field);
      tap.check(std::string(what) + " grew by " + std::to_string(grown) + " KiB", grown <= limit);
    };
    check_growth("heap", &Note::heap, options_.max_memory);
    check_growth("resident memory", &Note::resident, options_.max_resident);
    if (std::none_of(notes_.begin(), notes_.end(),
                     [](const Note& n) { return n.device_before > 0; }))
      tap.skip("device memory", "nvidia-smi knows of none");
    else
      check_growth("device memory", &Note::device, options_.max_device_memory);
    if (!contexts_.made())
      tap.skip("CUDA contexts", "none was made");
    else
      tap.check(
          "none is left of " + std::to_string(contexts_.made()) + " CUDA contexts, " +
              std::to_string(most_contexts_) + " at once",
          std::all_of(notes_.begin(), notes_.end(), [](const Note& n) { return !n.contexts; }));
    return tap.end() == 0;
  }

  const Options options_;
  std::mt19937 random_;
  std::vector<Slot> slots_;
  std::vector<Note> notes_;
  size_t made_ = 0, played_ = 0;
  guint64 frames_ = 0;
  Contexts contexts_;
  GstContext* context_ = nullptr;  // shared by all pipelines
  int failures_ = 0, most_contexts_ = 0;
};

int usage() {
  fprintf(
      stderr,
      "usage: churn [--minutes N] [--pipelines N] [--every SECONDS] [--backend auto|cuda|cpu]\n"
      "             [--max-memory KIB] [--max-resident KIB] [--max-device-memory KIB] [--seed N]\n"
      "             [--share-context]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  vf::test::one_arena();
  vf::test::take_signals();
  Contexts::prepare();
  gst_init(nullptr, nullptr);
  Options o;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (arg == "--share-context") {
      o.share_context = true;
      continue;
    }
    if (i + 1 == argc) return usage();
    const char* value = argv[++i];
    if (arg == "--minutes")
      o.minutes = g_ascii_strtod(value, nullptr);
    else if (arg == "--every")
      o.every = g_ascii_strtod(value, nullptr);
    else if (arg == "--pipelines")
      o.pipelines = atoi(value);
    else if (arg == "--backend")
      o.backend = value;
    else if (arg == "--max-memory")
      o.max_memory = atol(value);
    else if (arg == "--max-resident")
      o.max_resident = atol(value);
    else if (arg == "--max-device-memory")
      o.max_device_memory = atol(value);
    else if (arg == "--seed")
      o.seed = unsigned(atol(value));
    else
      return usage();
  }
  if (o.pipelines < 1 || !(o.minutes > 0) || !(o.every > 0)) return usage();
  return Churn(o).run() ? 0 : 1;
}
