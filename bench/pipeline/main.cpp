#include <gst/gst.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>

#include "bench/pipeline/pipeline.h"
#include "bench/pipeline/source.h"
#include "gst/cudacompat.h"

#if VF_HAVE_CUDA
#include "bench/measure.h"
#endif

namespace vf::bench {
namespace {

struct Filter {
  const char* name;
  const char* element;
  void (*rows)(PipelineBench&);
};
// What GStreamer's own elements on the GPU cost, which do as little as a copy.
void peer_pipelines(PipelineBench& bench) {
  PipelineRow row = frame_row("cudaconvert", "RGBA");
  row.peer = row.quick = true;
  row.out_caps = "video/x-raw,format=BGRA";
  bench.run(row);
}

constexpr Filter kFilters[] = {
    {"gaussian", "cudagaussian", gaussian_pipelines},
    {"guided", "cudaguidedmatte", guided_pipelines},
    {"letterbox", "cudaletterbox", letterbox_pipelines},
    {"median", "cudamedian", median_pipelines},
    {"peers", "cudaconvert", peer_pipelines},
};

constexpr int kInRow = 3;    // copies of an element in the longer pipeline
constexpr int kWindows = 5;  // the median of so many
constexpr double kWindowSeconds = 0.15;
// Frames of a round: as much memory as the kernel benchmark rotates, at a size that a host has.
constexpr size_t kRoundBytes = size_t{252} << 20;

// When each frame reached the sink.
struct Arrivals {
  explicit Arrivals(size_t capacity) : at(capacity) {}
  std::vector<gint64> at;
  std::atomic<size_t> count{0};
};

GstPadProbeReturn arrived(GstPad*, GstPadProbeInfo*, gpointer data) {
  auto* a = static_cast<Arrivals*>(data);
  const size_t i = a->count.load(std::memory_order_relaxed);
  if (i < a->at.size()) {
    a->at[i] = g_get_monotonic_time();
    a->count.store(i + 1, std::memory_order_release);
  }
  return GST_PAD_PROBE_OK;
}

// Microseconds a frame: the median over windows of the arrivals from `first` on; negative if there
// are too few.
double per_frame(const Arrivals& a, size_t first) {
  const size_t count = a.count.load(std::memory_order_acquire);
  if (count < first + 3) return -1;
  std::vector<double> windows;
  for (size_t from = first; from + 1 < count;) {
    const gint64 end = a.at[from] + gint64(kWindowSeconds * 1e6);
    size_t to = from + 1;
    while (to + 1 < count && a.at[to] < end) to++;
    // A window cut short by the end of the run counts only where it is the only one.
    if (a.at[to] >= end || windows.empty())
      windows.push_back(double(a.at[to] - a.at[from]) / double(to - from));
    from = to;
  }
  std::nth_element(windows.begin(), windows.begin() + ptrdiff_t(windows.size() / 2), windows.end());
  return windows[windows.size() / 2];
}

enum class Frames { system, offered, cuda };

const char* name_of(Frames f) {
  return f == Frames::system ? "system" : f == Frames::offered ? "system, its pool" : "CUDA";
}

class Bench final : public PipelineBench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        table_({{"element", 15},
                {"settings", 21},
                {"frame", 11},
                {"memory", 16},
                {"backend", 7},
                {"async", 5, true},
                {"frames/s", 8, true},
                {"3 in a row", 10, true},
                {"us/element", 10, true},
                {"kernel us", 9, true},
                {"own us", 7, true},
                {"outcome", 7}},
               options.csv) {}
  ~Bench() override {
    if (context_) gst_object_unref(context_);
  }

  Table& table() { return table_; }
  int rows() const { return rows_; }
  int bad() const { return bad_; }

  // Finds the device; says why there is none.
  Status use_cuda() {
    VF_TRY(cuda_usable());
#if VF_HAVE_CUDA && VF_HAVE_GST_CUDA
    if (const char* why = gstvf::why_no_cuda()) return Status::error(Code::no_device, "%s", why);
    context_ = gst_cuda_context_new(0);
    if (!context_) return Status::error(Code::no_device, "GStreamer made no CUDA context");
    QueueOptions options;
    options.backend = Backend::cuda;
    return make_queue(options, &queue_);
#else
    return Status::error(Code::unsupported, "built without GStreamer's CUDA library");
#endif
  }

  void run(const PipelineRow& row) override {
    const std::string name = row.element + " " + row.settings + " " + row.frame + " " + row.format;
    if (!options_.match.empty() && name.find(options_.match) == std::string::npos) return;
    if (options_.quick && !row.quick) return;
    if (row.peer) {
      if (context_) one(row, Frames::cuda, "", 0, -1);
      return;
    }
    double kernel = -1;
    if (context_) {
      if (Status s = kernel_time(row, &kernel); !s.ok()) {
        table_.note("%s: the kernel alone: %s", name.c_str(), s.message());
        bad_++;
      }
    }
    one(row, Frames::system, "cpu", 0, -1);
    if (!context_) return;
    // Frames in any memory pass through pinned memory; those in the element's do not.
    one(row, Frames::system, "cuda", 0, kernel);
    for (const int depth : {0, 2, 4}) one(row, Frames::offered, "cuda", depth, kernel);
    one(row, Frames::cuda, "cuda", 0, kernel);
  }

 private:
  void one(const PipelineRow& row, Frames frames, const char* backend, int depth, double kernel) {
    double none = -1, single = -1, several = -1;
    std::string failure;
    const int copies = row.out_caps.empty() ? kInRow : 1;
    bool offered = false;
    auto& known = sources_[{row.frame + row.format, int(frames)}];
    if (known == 0)
      failure = launch(row, frames == Frames::offered ? Frames::system : frames, "", 0, 0, &known,
                       &offered);
    none = known;
    if (failure.empty()) failure = launch(row, frames, backend, depth, 1, &single, &offered);
    if (failure.empty() && frames == Frames::offered && !offered) failure = "no pool was offered";
    if (failure.empty() && copies > 1)
      failure = launch(row, frames, backend, depth, copies, &several, &offered);
    rows_++;
    if (!failure.empty()) bad_++;
    const double each = !failure.empty() ? -1
                        : copies > 1     ? (several - none) / copies
                                         : single - none;
    const double own = frames == Frames::cuda && kernel > 0 && each > 0 ? each - kernel : -1;
    table_.add({row.element, row.settings, row.frame + " " + row.format, name_of(frames), backend,
                frames == Frames::offered ? std::to_string(depth) : "-",
                number(single > 0 ? 1e6 / single : -1, 0),
                number(several > 0 ? 1e6 / several : -1, 0), number(each, 1), number(kernel, 1),
                own != -1 ? signed_number(own) : "-",
                failure.empty() ? "ok" : "FAILED: " + failure});
  }

  static std::string signed_number(double v) {
    char text[32];
    snprintf(text, sizeof text, "%.1f", v);
    return text;
  }

  // Runs source ! copies of the element ! fakesink; returns what failed, or nothing.
  std::string launch(const PipelineRow& row, Frames frames, const std::string& backend, int depth,
                     int copies, double* us, bool* offered) {
    const bool cuda = frames == Frames::cuda;
    const PlaneLayout& plane = row.layout.plane[0];
    GstCaps* caps =
        gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, row.format.c_str(), "width",
                            G_TYPE_INT, plane.width, "height", G_TYPE_INT, plane.height,
                            "framerate", GST_TYPE_FRACTION, 25, 1, nullptr);
    if (cuda) gstvf::set_caps_in_cuda(caps);
    GstBufferPool* own = cuda ? gstvf::cuda_pool_new(context_) : gst_video_buffer_pool_new();
    const size_t count = std::clamp<size_t>(kRoundBytes / payload(row.layout), 4, 64);
    BenchSource* source = bench_source_new(caps, own, guint(count), frames == Frames::offered);
    gst_object_unref(own);
    gst_caps_unref(caps);

    GstElement* pipeline = gst_pipeline_new(nullptr);
    if (context_) gstvf::give_context(pipeline, context_);
    std::string line;
    const std::string how =
        row.peer ? "" : " backend=" + backend + " async-depth=" + std::to_string(depth);
    for (int i = 0; i < copies; i++) line += row.element + " " + row.settings + how + " ! ";
    if (copies && !row.out_caps.empty()) {
      std::string out = row.out_caps;
      if (cuda)
        out.insert(out.find(',') == std::string::npos ? out.size() : out.find(','),
                   "(memory:CUDAMemory)");
      line += out + " ! ";
    }
    line += "fakesink name=sink sync=false";
    GError* error = nullptr;
    GstElement* rest = gst_parse_bin_from_description(line.c_str(), FALSE, &error);
    if (!rest || error) {
      std::string text = error ? error->message : "cannot parse";
      g_clear_error(&error);
      if (rest) gst_object_unref(rest);
      gst_object_unref(GST_ELEMENT(source));
      gst_object_unref(pipeline);
      return text;
    }
    gst_bin_add_many(GST_BIN(pipeline), GST_ELEMENT(source), rest, nullptr);
    GstPad* open = gst_bin_find_unlinked_pad(GST_BIN(rest), GST_PAD_SINK);
    gst_element_add_pad(rest, gst_ghost_pad_new("sink", open));
    gst_object_unref(open);
    if (!gst_element_link(GST_ELEMENT(source), rest)) {
      gst_object_unref(pipeline);
      return "the source and " + row.element + " do not link";
    }
    Arrivals arrivals(size_t{1} << 22);
    GstElement* sink = gst_bin_get_by_name(GST_BIN(rest), "sink");
    GstPad* pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, arrived, &arrivals, nullptr);
    gst_object_unref(pad);
    gst_object_unref(sink);

    GstBus* bus = gst_element_get_bus(pipeline);
    std::string failure;
    const auto wait = [&](GstClockTime time) {
      GstMessage* message = gst_bus_timed_pop_filtered(
          bus, time, GstMessageType(GST_MESSAGE_ERROR | GST_MESSAGE_EOS));
      if (!message) return;
      failure = "the stream ended";
      if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
        GError* what = nullptr;
        gst_message_parse_error(message, &what, nullptr);
        failure = what->message;
        g_error_free(what);
      }
      gst_message_unref(message);
    };
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    // Every frame of the round has been filled and seen once, and clocks are up.
    const gint64 start = g_get_monotonic_time();
    const auto warm = [&] {
      return arrivals.count >= 2 * count || g_get_monotonic_time() - start > 3 * G_USEC_PER_SEC;
    };
    do {
      wait(100 * GST_MSECOND);
    } while (failure.empty() && !warm());
    const size_t first = arrivals.count;
    if (failure.empty()) wait(GstClockTime((kWindows + 0.5) * kWindowSeconds * GST_SECOND));
    // Very slow ones get some frames more.
    while (failure.empty() && arrivals.count < first + 4 &&
           g_get_monotonic_time() - start < 30 * G_USEC_PER_SEC)
      wait(100 * GST_MSECOND);
    *offered = source->offered;
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(pipeline);
    if (!failure.empty()) return failure;
    *us = per_frame(arrivals, first);
    return *us > 0 ? "" : "no frames came through";
  }

  Status kernel_time(const PipelineRow& row, double* us) {
#if VF_HAVE_CUDA
    auto stream = static_cast<cudaStream_t>(queue_->stream());
    Ring ring;
    VF_TRY(ring.make(row.layout, row.out_layout, false, kBeyondCache));
    VF_TRY(ring.fill(uint32_t(options_.seed), stream));
    std::unique_ptr<Plan> plan;
    VF_TRY(row.make(*queue_, &plan));
    Subject subject;
    subject.round = ring.size();
    subject.call = [&](int i) { return plan->run(ring.src(i), ring.dst(i)); };
    VF_TRY(time_in_turn(stream, {&subject}));
    VF_TRY(subject.status);
    *us = subject.us;
    VF_TRY(transfer_times(row, ring));
#else
    (void)row, (void)us;
#endif
    return {};
  }

#if VF_HAVE_CUDA
  // What a frame in system memory costs at the least: copies between pinned and device memory.
  Status transfer_times(const PipelineRow& row, const Ring& ring) {
    if (!transferred_.insert({row.frame + row.format, true}).second) return {};
    auto stream = static_cast<cudaStream_t>(queue_->stream());
    const size_t bytes = payload(row.layout);
    Allocation pinned;
    VF_TRY(queue_->allocate(Memory::host, bytes, &pinned));
    Subject up, down;
    up.round = down.round = ring.size();
    const auto copy = [&](int i, bool to_device) -> Status {
      void* device = ring.src(i).data[0];
      BENCH_CUDA(cudaMemcpyAsync(to_device ? device : pinned.data(),
                                 to_device ? pinned.data() : device, bytes, cudaMemcpyDefault,
                                 stream));
      return {};
    };
    up.call = [&](int i) { return copy(i, true); };
    down.call = [&](int i) { return copy(i, false); };
    VF_TRY(time_in_turn(stream, {&up, &down}));
    VF_TRY(up.status);
    VF_TRY(down.status);
    table_.note("%s %s: %.1f us to copy a frame from pinned to device memory, %.1f us back",
                row.frame.c_str(), row.format.c_str(), up.us, down.us);
    return {};
  }
#endif

  Options options_;
  Table table_;
  GstCudaContext* context_ = nullptr;
  std::unique_ptr<Queue> queue_;
  // Microseconds a frame of the source alone, by frame and memory.
  std::map<std::pair<std::string, int>, double> sources_;
  std::map<std::string, bool> transferred_;
  int rows_ = 0, bad_ = 0;
};

}  // namespace
}  // namespace vf::bench

int main(int argc, char** argv) {
  using namespace vf;
  using namespace vf::bench;
  const Options options = parse_options(argc, argv,
                                        "Times the elements in GStreamer pipelines: frames a "
                                        "second through one and through three, and what\n"
                                        "an element costs a frame beside its kernel. The plugin is "
                                        "found as GStreamer finds plugins:\n"
                                        "GST_PLUGIN_PATH, or `meson devenv`.");
  gst_init(nullptr, nullptr);
  Bench bench(options);
  gchar* version = gst_version_string();
  bench.table().note("%s", version);
  g_free(version);
  if (Status s = bench.use_cuda(); !s.ok())
    bench.table().note("no rows on the GPU: %s", s.message());
  bench.table().note(
      "us/element: microseconds a frame that each of three elements adds to the source's; "
      "own us: without the kernel");
  bool known = options.filter.empty();
  int missing = 0;
  for (const Filter& f : kFilters) {
    if (!options.filter.empty() && options.filter != f.name) continue;
    known = true;
    if (GstElementFactory* factory = gst_element_factory_find(f.element)) {
      gst_object_unref(factory);
      f.rows(bench);
    } else if (f.rows != peer_pipelines) {
      bench.table().note("no element %s: is the plugin in GST_PLUGIN_PATH?", f.element);
      missing++;
    }
  }
  if (!known) {
    fprintf(stderr, "no filter %s\n", options.filter.c_str());
    return 2;
  }
  if (bench.rows() == 0) return missing ? 77 : 2;
  bench.table().note("%d rows, %d failed", bench.rows(), bench.bad());
  return bench.bad() || missing ? 1 : 0;
}
