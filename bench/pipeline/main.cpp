// The pipeline benchmark measures what an element costs per frame in a running GStreamer pipeline.
// Its rows are the rows of the tests' tables that name an element.
#include <gst/gst.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <set>

#include "bench/pipeline/source.h"
#include "bench/report.h"
#include "gst/base/cudacompat.h"
#include "gst/base/format.h"
#include "tests/kernels/harness.h"

#if VF_HAVE_CUDA
#include "bench/measure.h"
#endif

namespace vf::bench {
namespace {

using test::TimedCase;

// Describes an element and its surroundings in the pipeline.
struct Row {
  std::string element, settings;  // written like a launch line
  std::string frame, format;      // for example "1080p", and GStreamer's name of the format
  std::string out_caps;    // see TimedCase; if set, the pipeline has only one copy of the element
  const TimedCase* timed;  // null for GStreamer's own elements, which have no plan
  int width, height;
};

// Translates the tables' name of a format into GStreamer's.
std::string format_of(const std::string& name) {
  static const std::map<std::string, std::string> others = {{"P010", "P010_10LE"},
                                                            {"gray", "GRAY8"}};
  const auto found = others.find(name);
  return found == others.end() ? name : found->second;
}

Row row_of(const TimedCase& timed) {
  const auto split = [](const std::string& text, std::string* first, std::string* rest) {
    const size_t space = text.find(' ');
    *first = text.substr(0, space);
    *rest = space == std::string::npos ? "" : text.substr(space + 1);
  };
  Row row;
  split(timed.element, &row.element, &row.settings);
  split(timed.frame, &row.frame, &row.format);
  row.format = format_of(row.format);
  row.out_caps = timed.out_caps;
  row.timed = &timed;
  row.width = timed.src.plane[0].width;
  row.height = timed.src.plane[0].height;
  return row;
}

// Returns how a row's frames differ from those that the kernel is timed on, or an empty string.
std::string fault_of(const Row& row) {
  const GstVideoFormat format = gst_video_format_from_string(row.format.c_str());
  if (format == GST_VIDEO_FORMAT_UNKNOWN) return "GStreamer has no format " + row.format;
  GstVideoInfo info;
  gst_video_info_set_format(&info, format, guint(row.width), guint(row.height));
  gstvf::Format frames;
  if (!gstvf::make_format(info, false, &frames) || !(frames.layout == row.timed->src))
    return "frames of " + row.format + " are not those that the kernel is timed on";
  return "";
}

constexpr int kInRow = 3;    // copies of the element in the longer pipeline
constexpr int kWindows = 5;  // the result is the median over so many windows
constexpr double kWindowSeconds = 0.15;
// The frames of a round take as much memory as in the kernel benchmark, which a host can spare.
constexpr size_t kRoundBytes = size_t{252} << 20;

// Records when each frame reached the sink.
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

// Returns microseconds per frame, the median over windows of the arrivals from `first` on. Negative
// if there are too few.
double per_frame(const Arrivals& a, size_t first) {
  const size_t count = a.count.load(std::memory_order_acquire);
  if (count < first + 3) return -1;
  std::vector<double> windows;
  for (size_t from = first; from + 1 < count;) {
    const gint64 end = a.at[from] + gint64(kWindowSeconds * 1e6);
    size_t to = from + 1;
    while (to + 1 < count && a.at[to] < end) to++;
    // A window that the end of the run cuts short counts only if it is the only one.
    if (a.at[to] >= end || windows.empty())
      windows.push_back(double(a.at[to] - a.at[from]) / double(to - from));
    from = to;
  }
  return median(std::move(windows));
}

// Frames lie in the source's own memory or in the pool that the element offers.
enum class Frames { system, offered, cuda, cuda_offered };

bool in_cuda(Frames f) {
  return f == Frames::cuda || f == Frames::cuda_offered;
}

bool are_offered(Frames f) {
  return f == Frames::offered || f == Frames::cuda_offered;
}

const char* memory_of(Frames f) {
  const char* const names[] = {"system", "system, its pool", "CUDA", "CUDA, its pool"};
  return names[int(f)];
}

class Bench final : public test::Context {
 public:
  Bench(const Options& options, std::unique_ptr<test::Device> device)
      : Context({}, "cpu", std::move(device)),
        options_(options),
        table_({{"element", 15},
                {"settings", 21},
                {"frame", 15},
                {"memory", 16},
                {"backend", 7},
                {"async", 5, true},
                {"frames/s", 8, true},
                {"3 in a row", 10, true},
                {"us/element", 10, true},
                {"kernel us", 9, true},
                {"own us", 7, true},
                {"outcome", 7}},
               "outcome", options) {}
  ~Bench() override {
    if (context_) gst_object_unref(context_);
  }

  Table& results() { return table_; }

  // Finds the device, or says why there is none.
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

  // Measures GStreamer's own GPU elements that do as little as a copy.
  void peer() {
    if (options_.smoke) return;
    const Row row = {"cudaconvert", "",   "1080p", "RGBA", "video/x-raw,format=BGRA",
                     nullptr,       1920, 1080};
    if (context_ && table_.wants_filter("peers") && table_.wants(row.element, true) && exists(row))
      one(row, Frames::cuda, "", 0, -1);
  }
  bool missing = false;

 private:
  bool wants(const std::string&) const override {
    return false;
  }  // such cases are only checked, not timed

  void on_timed(const TimedCase& timed) override {
    if (timed.element.empty()) return;
    Row row = row_of(timed);
    if (!table_.wants(timed.element + " " + timed.frame, timed.quick)) return;
    if (const std::string fault = fault_of(row); !fault.empty()) {
      table_.add({row.element, row.settings, row.frame + " " + row.format, "-", "-", "-", "-", "-",
                  "-", "-", "-", "FAILED: " + fault});
      return;
    }
    if (!exists(row)) {
      table_.note("no element %s: is the plugin in GST_PLUGIN_PATH?", row.element.c_str());
      missing = true;
      return;
    }
    if (options_.smoke) row.width = 64, row.height = 36;
    double kernel = -1;
    if (context_ && !options_.smoke) {
      if (Status s = kernel_time(row, &kernel); !s.ok())
        table_.note("next row: the kernel alone: %s", s.message());
    }
    one(row, Frames::system, "cpu", 0, -1);
    if (!context_) return;
    // Frames in other memory are copied through pinned memory; frames in the element's pool are
    // pinned already.
    one(row, Frames::system, "cuda", 0, kernel);
    for (const int depth : {0, 2, 4}) one(row, Frames::offered, "cuda", depth, kernel);
    if (!gstvf::cuda_memory_has(gst_video_format_from_string(row.format.c_str()))) return;
    for (const Frames frames : {Frames::cuda, Frames::cuda_offered})
      one(row, frames, "cuda", 0, kernel);
  }

  static bool exists(const Row& row) {
    GstElementFactory* factory = gst_element_factory_find(row.element.c_str());
    if (factory) gst_object_unref(factory);
    return factory;
  }

  void one(const Row& row, Frames frames, const char* backend, int depth, double kernel) {
    double none = -1, single = -1, several = -1;
    std::string failure;
    const int copies = row.out_caps.empty() ? kInRow : 1;
    bool offered = false;
    auto& known = sources_[{row.frame + row.format, int(frames)}];
    if (known == 0)
      failure =
          launch(row, in_cuda(frames) ? Frames::cuda : Frames::system, "", 0, 0, &known, &offered);
    none = known;
    if (failure.empty()) failure = launch(row, frames, backend, depth, 1, &single, &offered);
    if (failure.empty() && are_offered(frames) && !offered) failure = "no pool was offered";
    if (failure.empty() && copies > 1)
      failure = launch(row, frames, backend, depth, copies, &several, &offered);
    const double each = !failure.empty() ? -1
                        : copies > 1     ? (several - none) / copies
                                         : single - none;
    const double own = in_cuda(frames) && kernel > 0 && each > 0 ? each - kernel : -1;
    table_.add({row.element, row.settings, row.frame + " " + row.format, memory_of(frames), backend,
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

  // Runs source ! copies of the element ! fakesink. Returns what failed, or an empty string.
  std::string launch(const Row& row, Frames frames, const std::string& backend, int depth,
                     int copies, double* us, bool* offered) {
    const bool cuda = in_cuda(frames);
    GstCaps* caps = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, row.format.c_str(),
                                        "width", G_TYPE_INT, row.width, "height", G_TYPE_INT,
                                        row.height, "framerate", GST_TYPE_FRACTION, 25, 1, nullptr);
    if (cuda) gstvf::set_caps_in_cuda(caps);
    GstBufferPool* own = cuda ? gstvf::cuda_pool_new(context_) : gst_video_buffer_pool_new();
    const size_t count = std::clamp<size_t>(kRoundBytes / frame_bytes(row), 4, 64);
    BenchSource* source = bench_source_new(caps, own, guint(count), are_offered(frames));
    gst_object_unref(own);
    gst_caps_unref(caps);

    GstElement* pipeline = gst_pipeline_new(nullptr);
    if (context_) gstvf::give_context(pipeline, context_);
    std::string line;
    const std::string how =
        !row.timed ? "" : " backend=" + backend + " async-depth=" + std::to_string(depth);
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
    const GstClockTime step = (options_.smoke ? 5 : 100) * GST_MSECOND;
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    // Measuring starts when every frame of the round has been filled and seen once and clocks are
    // up.
    const gint64 start = g_get_monotonic_time();
    const auto warm = [&] {
      if (options_.smoke) return arrivals.count > 0;
      return arrivals.count >= 2 * count || g_get_monotonic_time() - start > 3 * G_USEC_PER_SEC;
    };
    do {
      wait(step);
    } while (failure.empty() && !warm());
    const size_t first = arrivals.count;
    if (failure.empty() && !options_.smoke)
      wait(GstClockTime((kWindows + 0.5) * kWindowSeconds * GST_SECOND));
    // Very slow elements get time for some more frames.
    while (failure.empty() && arrivals.count < first + 4 &&
           g_get_monotonic_time() - start < 30 * G_USEC_PER_SEC)
      wait(step);
    *offered = source->offered;
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(pipeline);
    if (!failure.empty()) return failure;
    *us = per_frame(arrivals, first);
    return *us > 0 ? "" : "no frames came through";
  }

  static size_t frame_bytes(const Row& row) {
    GstVideoInfo info;
    gst_video_info_set_format(&info, gst_video_format_from_string(row.format.c_str()),
                              guint(row.width), guint(row.height));
    return info.size;
  }

  Status kernel_time(const Row& row, double* us) {
#if VF_HAVE_CUDA
    const auto stream = static_cast<cudaStream_t>(queue_->stream());
    const TimedCase& timed = *row.timed;
    // All frames of the ring have the same content, because only the memory matters.
    const test::Geometry geometry = {0, 0, false, 256};
    test::Frame frame(timed.src, geometry), out(timed.dst, geometry);
    test::Random random(options_.seed);
    frame.fill(test::Pattern::mixed, random);
    Ring ring;
    VF_TRY(ring.make(frame.bytes().size(), out.bytes().size(), kBeyondCache));
    const auto at = [](const test::Frame& f, uint8_t* base) {
      Image image = f.image();
      image.memory = Memory::device;
      for (int p = 0; p < image.layout.planes; p++)
        image.data[p] = base + (static_cast<uint8_t*>(image.data[p]) - f.bytes().data());
      return image;
    };
    for (int i = 0; i < ring.size(); i++)
      VF_TRY(queue_->copy(ring.src(i), frame.bytes().data(), frame.bytes().size()));
    std::unique_ptr<Plan> plan;
    VF_TRY(timed.make(*queue_, timed.src, timed.dst, Placement::separate, &plan));
    Subject subject;
    subject.round = ring.size();
    subject.call = [&](int i) { return plan->run(at(frame, ring.src(i)), at(out, ring.dst(i))); };
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
  // Measures the minimum cost of a frame in system memory: copies between pinned and device memory.
  Status transfer_times(const Row& row, const Ring& ring) {
    if (!transferred_.insert(row.frame + row.format).second) return {};
    const auto stream = static_cast<cudaStream_t>(queue_->stream());
    const size_t bytes = frame_bytes(row);
    Allocation pinned;
    VF_TRY(queue_->allocate(Memory::host, bytes, &pinned));
    Subject up, down;
    up.round = down.round = ring.size();
    const auto copy = [&](void* to, const void* from) {
      return cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream),
                         "cudaMemcpyAsync");
    };
    up.call = [&](int i) { return copy(ring.src(i), pinned.data()); };
    down.call = [&](int i) { return copy(pinned.data(), ring.src(i)); };
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
  // Holds microseconds per frame of the source alone, by frame and memory.
  std::map<std::pair<std::string, int>, double> sources_;
  std::set<std::string> transferred_;
};

}  // namespace
}  // namespace vf::bench

int main(int argc, char** argv) {
  using namespace vf;
  using namespace vf::bench;
  const Options options = parse_options(argc, argv,
                                        "Times the elements in GStreamer pipelines: frames/s "
                                        "through one and through three, and what\n"
                                        "an element costs per frame besides its kernel. The plugin "
                                        "is found as GStreamer finds plugins:\n"
                                        "GST_PLUGIN_PATH, or `meson devenv`.");
  gst_init(nullptr, nullptr);
  std::unique_ptr<Queue> cpu;
  if (Status s = make_queue({}, &cpu); !s.ok()) {
    fprintf(stderr, "%s\n", s.message());
    return 1;
  }
  Bench bench(options, test::make_host_device(std::move(cpu)));
  Table& table = bench.results();
  gchar* version = gst_version_string();
  table.note("%s", version);
  g_free(version);
  if (options.backend != "cpu")
    if (Status s = bench.use_cuda(); !s.ok()) table.note("no rows on the GPU: %s", s.message());
  table.note(
      "us/element: microseconds per frame that each of three elements adds to the source's; own "
      "us: without the kernel");
  for (const test::Filter& f : test::kFilters)
    if (table.wants_filter(f.name)) bench.table(f);
  bench.peer();
  const int status = table.finish();
  if (bench.missing) return status == 2 ? 77 : 1;
  return status;
}
