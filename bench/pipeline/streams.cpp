// The streams benchmark: how many streams of video a machine takes. N pipelines run at once, each a
// source, a chain of elements and a sink; the source is a decoder fed from memory, or frames that
// lie in memory. Beside every chain stands the source alone, in the same run.
#include <gst/app/gstappsink.h>
#include <gst/app/gstappsrc.h>
#include <gst/base/gstbasesink.h>
#include <gst/gst.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>

#include "bench/pipeline/source.h"
#include "bench/report.h"
#include "gst/cudacompat.h"

#if VF_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace vf::bench {
namespace {

struct Chain {
  const char *name, *launch;
  int boxes = 0;  // regions of interest that each frame comes with
};
// Of NV12. {memory} is the feature of the caps.
const Chain kChains[] = {
    {"source alone", ""},
    {"letterbox",
     "cudaletterbox ! other/tensors{memory},types=float32,dimensions=(string)640:640:3:1"},
    {"denoise + letterbox",
     "cudadenoise ! cudaletterbox ! "
     "other/tensors{memory},types=float32,dimensions=(string)640:640:3:1"},
    {"chroma key", "cudaguidedmatte mask=chroma-key output=composite"},
    {"matte over blur",
     "cudaguidedmatte mask=chroma-key refine=colors output=composite background=blur"},
    {"regions", "cudagaussian regions=roi sigma-relative=0.1", 8},
};

struct StreamsOptions {
  std::vector<int> streams = {1, 8, 32, 64, 128}, devices = {0};
  std::string clip, decoder = "nvh264dec", csv;
  std::string chain;   // only chains whose name holds this
  double seconds = 3;  // of measuring
  double rate = 0;     // frames/s of live streams; 0: as fast as can be
  int width = 1920, height = 1080;
  bool cpu = false;
};

// One access unit or frame after the other, for ever, with running timestamps.
struct Clip {
  GstCaps* caps = nullptr;
  std::vector<GstBuffer*> units;
  GstClockTime duration = GST_SECOND / 30;
};

// What happens to the frames of one stream. Chains keep the frames' order and drop none, so that
// the n-th to leave the source is the n-th to arrive.
struct Stream {
  static constexpr size_t kRing = 1024;
  const Clip* clip = nullptr;
  GstElement* pipeline = nullptr;
  int device = 0;
  double rate = 0;
  int boxes = 0;
  guint64 pushed = 0;
  std::atomic<guint64> left{0}, arrived{0};
  std::array<std::atomic<gint64>, kRing> left_at{};
  std::atomic<bool> measuring{false}, strayed{false};
  std::vector<float> latency, late;  // ms
};

void feed(GstAppSrc* source, guint, gpointer data) {
  auto* s = static_cast<Stream*>(data);
  const Clip& clip = *s->clip;
  const GstClockTime pts = s->pushed * clip.duration;
  if (s->rate > 0) {
    // Not before it is due, as of a camera.
    GstClock* clock = gst_element_get_clock(GST_ELEMENT(source));
    if (clock) {
      const GstClockTime due = gst_element_get_base_time(GST_ELEMENT(source)) + pts;
      const GstClockTime now = gst_clock_get_time(clock);
      if (due > now) g_usleep((due - now) / 1000);
      gst_object_unref(clock);
    }
  }
  GstBuffer* unit = gst_buffer_copy(clip.units[s->pushed % clip.units.size()]);
  GST_BUFFER_PTS(unit) = GST_BUFFER_DTS(unit) = pts;
  GST_BUFFER_DURATION(unit) = clip.duration;
  s->pushed++;
  gst_app_src_push_buffer(source, unit);
}

GstPadProbeReturn leaves(GstPad*, GstPadProbeInfo* info, gpointer data) {
  auto* s = static_cast<Stream*>(data);
  if (s->boxes) {
    GstBuffer* buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    for (int i = 0; i < s->boxes; i++)
      gst_buffer_add_video_region_of_interest_meta(buffer, "face", guint(60 + 230 * i),
                                                   guint(100 + 90 * i), 200, 200);
    info->data = buffer;
  }
  const guint64 n = s->left.load(std::memory_order_relaxed);
  s->left_at[n % Stream::kRing].store(g_get_monotonic_time(), std::memory_order_relaxed);
  s->left.store(n + 1, std::memory_order_release);
  return GST_PAD_PROBE_OK;
}

// Whether a frame is in the memory of another device than its stream's.
bool is_astray(GstBuffer* buffer, int device) {
  GstMemory* memory = gstvf::cuda_memory(buffer);
  return memory && gstvf::context_device(gstvf::memory_context(memory)) != guint(device);
}

GstPadProbeReturn arrives(GstPad* pad, GstPadProbeInfo* info, gpointer data) {
  auto* s = static_cast<Stream*>(data);
  const guint64 n = s->arrived.fetch_add(1);
  // A look at each costs more than some of the chains.
  if (n % 64 == 0 && is_astray(GST_PAD_PROBE_INFO_BUFFER(info), s->device)) s->strayed = true;
  if (!s->measuring) return GST_PAD_PROBE_OK;
  const gint64 at = s->left_at[n % Stream::kRing].load(std::memory_order_relaxed);
  s->latency.push_back(float(double(g_get_monotonic_time() - at) / 1000));
  if (s->rate > 0) {
    GstElement* sink = gst_pad_get_parent_element(pad);
    GstClock* clock = gst_element_get_clock(sink);
    const GstClockTime due = gst_element_get_base_time(sink) +
                             GST_BUFFER_PTS(GST_PAD_PROBE_INFO_BUFFER(info)) +
                             gst_base_sink_get_latency(GST_BASE_SINK(sink));
    s->late.push_back(float(double(GstClockTimeDiff(gst_clock_get_time(clock) - due)) / 1e6));
    gst_object_unref(clock);
    gst_object_unref(sink);
  }
  return GST_PAD_PROBE_OK;
}

double percentile(std::vector<float>* values, double share) {
  if (values->empty()) return -1;
  const auto at = values->begin() + ptrdiff_t(share * double(values->size() - 1));
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

double processor_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double device_megabytes() {
#if VF_HAVE_CUDA
  size_t available = 0, total = 0;
  if (cudaMemGetInfo(&available, &total) == cudaSuccess) return double(total - available) / 1e6;
#endif
  return -1;
}

struct Result {
  double rate = -1, p50 = -1, p99 = -1, latest = -1, late = -1, processor = -1, megabytes = -1;
  std::string failure;
};

class Streams {
 public:
  explicit Streams(const StreamsOptions& options) : options_(options) {}
  ~Streams() {
#if VF_HAVE_GST_CUDA
    for (GstCudaContext* context : contexts_) gst_object_unref(context);
#endif
    for (GstBuffer* unit : clip_.units) gst_buffer_unref(unit);
    gst_clear_caps(&clip_.caps);
  }

  std::string prepare() {
    if (!options_.cpu) {
#if VF_HAVE_GST_CUDA
      if (const char* why = gstvf::why_no_cuda()) return why;
      for (const int device : options_.devices) {
        GstCudaContext* context = gst_cuda_context_new(guint(device));
        if (!context) return "no CUDA context on device " + std::to_string(device);
        contexts_.push_back(context);
      }
#else
      return "built without GStreamer's CUDA library: --backend cpu";
#endif
    }
    if (options_.rate > 0) clip_.duration = GstClockTime(double(GST_SECOND) / options_.rate);
    return options_.clip.empty() ? "" : read_clip();
  }

  Result run(const Chain& chain, int count) {
    Result result;
    const double before = device_megabytes();
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < count && result.failure.empty(); i++) {
      streams.push_back(std::make_unique<Stream>());
      result.failure = make(chain, i, streams.back().get());
    }
    if (result.failure.empty()) play(streams);
    if (result.failure.empty()) measure(streams, before, &result);
    for (const auto& s : streams)
      if (s->pipeline) {
        gst_element_set_state(s->pipeline, GST_STATE_NULL);
        gst_object_unref(s->pipeline);
      }
    return result;
  }

 private:
  // Streams that run at full speed would keep those from starting that come after them.
  void play(const std::vector<std::unique_ptr<Stream>>& streams) const {
    if (options_.rate <= 0) {
      for (const auto& s : streams) gst_element_set_state(s->pipeline, GST_STATE_PAUSED);
      for (const auto& s : streams)
        gst_element_get_state(s->pipeline, nullptr, nullptr, 20 * GST_SECOND);
    }
    for (const auto& s : streams) gst_element_set_state(s->pipeline, GST_STATE_PLAYING);
  }

  // The clip's access units, parsed once.
  std::string read_clip() {
    GError* error = nullptr;
    GstElement* pipeline = gst_parse_launch(
        "filesrc name=file ! h264parse ! video/x-h264,stream-format=byte-stream,alignment=au ! "
        "appsink name=sink sync=false",
        &error);
    if (!pipeline) {
      const std::string text = error->message;
      g_clear_error(&error);
      return text;
    }
    GstElement* file = gst_bin_get_by_name(GST_BIN(pipeline), "file");
    GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    g_object_set(file, "location", options_.clip.c_str(), nullptr);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    while (GstSample* sample = gst_app_sink_pull_sample(GST_APP_SINK(sink))) {
      if (!clip_.caps) clip_.caps = gst_caps_ref(gst_sample_get_caps(sample));
      clip_.units.push_back(gst_buffer_ref(gst_sample_get_buffer(sample)));
      gst_sample_unref(sample);
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(file);
    gst_object_unref(sink);
    gst_object_unref(pipeline);
    return clip_.units.empty() ? "no H.264 in " + options_.clip : "";
  }

  bool in_cuda() const {
    return !options_.cpu;
  }

  int device_of(int stream) const {
    return options_.devices[size_t(stream) % options_.devices.size()];
  }

  // GStreamer's decoders are for one device each.
  std::string decoder_of(int device) const {
    const std::string& name = options_.decoder;
    return device > 0 && name == "nvh264dec" ? "nvh264device" + std::to_string(device) + "dec"
                                             : name;
  }

  GstElement* raw_source(int index) {
    GstCaps* caps = gst_caps_new_simple(
        "video/x-raw", "format", G_TYPE_STRING, "NV12", "width", G_TYPE_INT, options_.width,
        "height", G_TYPE_INT, options_.height, "framerate", GST_TYPE_FRACTION, 30, 1, nullptr);
    GstBufferPool* pool = nullptr;
#if VF_HAVE_GST_CUDA
    if (in_cuda()) {
      gstvf::set_caps_in_cuda(caps);
      pool = gstvf::cuda_pool_new(contexts_[size_t(index) % contexts_.size()]);
    }
#endif
    if (!pool) pool = gst_video_buffer_pool_new();
    BenchSource* source = bench_source_new(caps, pool, 8, FALSE);
    if (options_.rate > 0) bench_source_set_live(source, options_.rate);
    gst_object_unref(pool);
    gst_caps_unref(caps);
    return GST_ELEMENT(source);
  }

  std::string make(const Chain& chain, int index, Stream* s) {
    s->clip = &clip_;
    s->device = device_of(index);
    s->rate = options_.rate;
    s->boxes = chain.boxes;
    const bool raw = options_.clip.empty();
    std::string line = raw ? "" : "appsrc name=source ! " + decoder_of(s->device) + " ! ";
    // What accepts anything would else get frames of whatever memory the decoder likes best.
    if (!raw && in_cuda()) line += "video/x-raw(memory:CUDAMemory) ! ";
    line += "identity name=first silent=true ! ";
    std::string filters = chain.launch;
    if (const size_t at = filters.find("{memory}"); at != std::string::npos)
      filters.replace(at, 8, in_cuda() ? "(memory:CUDAMemory)" : "");
    if (!filters.empty()) line += filters + " ! ";
    line += std::string("fakesink name=sink sync=") + (options_.rate > 0 ? "true" : "false");
    GError* error = nullptr;
    s->pipeline = gst_pipeline_new(nullptr);
    GstElement* rest = gst_parse_bin_from_description(line.c_str(), FALSE, &error);
    if (!rest) {
      const std::string text = error->message;
      g_clear_error(&error);
      return text;
    }
    gst_bin_add(GST_BIN(s->pipeline), rest);
    if (raw) {
      GstElement* source = raw_source(index);
      gst_bin_add(GST_BIN(s->pipeline), source);
      GstPad* open = gst_bin_find_unlinked_pad(GST_BIN(rest), GST_PAD_SINK);
      gst_element_add_pad(rest, gst_ghost_pad_new("sink", open));
      gst_object_unref(open);
      if (!gst_element_link(source, rest)) return "the source and the chain do not link";
    } else {
      GstElement* source = gst_bin_get_by_name(GST_BIN(rest), "source");
      g_object_set(source, "caps", clip_.caps, "format", GST_FORMAT_TIME, "is-live",
                   options_.rate > 0, "max-bytes", guint64{1}, nullptr);
      g_signal_connect(source, "need-data", G_CALLBACK(feed), s);
      gst_object_unref(source);
    }
    probe(rest, "first", "src", leaves, s);
    probe(rest, "sink", "sink", arrives, s);
#if VF_HAVE_GST_CUDA
    if (in_cuda()) gstvf::give_context(s->pipeline, contexts_[size_t(index) % contexts_.size()]);
#endif
    return "";
  }

  static void probe(GstElement* bin, const char* name, const char* pad_name,
                    GstPadProbeCallback callback, Stream* s) {
    GstElement* element = gst_bin_get_by_name(GST_BIN(bin), name);
    GstPad* pad = gst_element_get_static_pad(element, pad_name);
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, callback, s, nullptr);
    gst_object_unref(pad);
    gst_object_unref(element);
  }

  static std::string error_of(const std::vector<std::unique_ptr<Stream>>& streams) {
    std::string text;
    for (const auto& s : streams) {
      GstBus* bus = gst_element_get_bus(s->pipeline);
      if (GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR)) {
        GError* error = nullptr;
        gst_message_parse_error(message, &error, nullptr);
        text = error->message;
        g_error_free(error);
        gst_message_unref(message);
      }
      gst_object_unref(bus);
    }
    return text;
  }

  void measure(const std::vector<std::unique_ptr<Stream>>& streams, double before, Result* r) {
    constexpr guint64 kWarm = 30;
    const gint64 patience = g_get_monotonic_time() + 60 * G_USEC_PER_SEC;
    const auto slowest = [&] {
      guint64 least = G_MAXUINT64;
      for (const auto& s : streams) least = std::min(least, s->arrived.load());
      return least;
    };
    while (slowest() < kWarm) {
      g_usleep(20000);
      r->failure = error_of(streams);
      if (r->failure.empty() && g_get_monotonic_time() > patience)
        r->failure = "a stream did not start in 60 s";
      if (!r->failure.empty()) return;
    }
    // What was late when the last stream started has caught up by then.
    if (options_.rate > 0) g_usleep(3 * G_USEC_PER_SEC);
    guint64 first = 0, last = 0;
    for (const auto& s : streams) {
      s->latency.reserve(size_t((options_.rate > 0 ? options_.rate : 2000) * options_.seconds));
      s->measuring = true;
    }
    const double processor = processor_seconds();
    const gint64 start = g_get_monotonic_time();
    for (const auto& s : streams) first += s->arrived;
    g_usleep(gulong(options_.seconds * G_USEC_PER_SEC));
    for (const auto& s : streams) last += s->arrived;
    const double seconds = double(g_get_monotonic_time() - start) / G_USEC_PER_SEC;
    r->processor = (processor_seconds() - processor) * 1e6 / double(last - first);
    r->rate = double(last - first) / seconds;
    const double megabytes = device_megabytes();
    if (before >= 0) r->megabytes = (megabytes - before) / double(streams.size());
    r->failure = error_of(streams);
    // Vectors are the streaming threads' own until these are stopped.
    for (const auto& s : streams) gst_element_set_state(s->pipeline, GST_STATE_NULL);
    std::vector<float> latency, late;
    for (const auto& s : streams) {
      latency.insert(latency.end(), s->latency.begin(), s->latency.end());
      late.insert(late.end(), s->late.begin(), s->late.end());
    }
    r->p50 = percentile(&latency, 0.5);
    r->p99 = percentile(&latency, 0.99);
    for (const auto& s : streams)
      if (s->strayed && r->failure.empty())
        r->failure = "a frame of device " + std::to_string(s->device) + " came from another one";
    if (late.empty()) return;
    r->latest = std::max(0.0f, *std::max_element(late.begin(), late.end()));
    r->late = double(std::count_if(late.begin(), late.end(), [](float ms) { return ms > 33; }));
  }

  StreamsOptions options_;
  Clip clip_;
#if VF_HAVE_GST_CUDA
  std::vector<GstCudaContext*> contexts_;
#endif
};

std::vector<int> numbers(const char* text) {
  std::vector<int> list;
  for (const char* at = text; *at;) {
    char* end;
    list.push_back(int(strtol(at, &end, 10)));
    if (end == at || list.back() < 0) {
      fprintf(stderr, "%s: must be numbers with commas between them\n", text);
      exit(2);
    }
    at = *end == ',' ? end + 1 : end;
  }
  return list;
}

StreamsOptions parse(int argc, char** argv) {
  StreamsOptions o;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (value && arg == "--clip")
      o.clip = value;
    else if (value && arg == "--decoder")
      o.decoder = value;
    else if (value && arg == "--chain")
      o.chain = value;
    else if (value && arg == "--streams")
      o.streams = numbers(value);
    else if (value && arg == "--devices")
      o.devices = numbers(value);
    else if (value && arg == "--seconds")
      o.seconds = atof(value);
    else if (value && arg == "--rate")
      o.rate = atof(value);
    else if (value && arg == "--csv")
      o.csv = value;
    else if (value && arg == "--backend" && std::string(value) == "cpu")
      o.cpu = true;
    else if (value && arg == "--size" && sscanf(value, "%dx%d", &o.width, &o.height) == 2) {
    } else {
      fprintf(
          stderr,
          "%s: unknown or incomplete argument %s\n"
          "Runs many streams at once and measures frames/s of each chain beside the source's.\n"
          "options: --clip FILE.h264 (default: frames in memory), --decoder ELEMENT,\n"
          "         --streams N,N,..., --chain SUBSTRING, --seconds S, --rate FRAMES/S (live),\n"
          "         --devices N,N (streams in turn), --size WxH, --backend cpu, --csv FILE\n",
          argv[0], arg.c_str());
      exit(2);
    }
    i++;
  }
  return o;
}

int measure_all(const StreamsOptions& options) {
  Options table_options;
  table_options.csv = options.csv;
  Table table({{"chain", 20},
               {"streams", 7, true},
               {"frames/s", 9, true},
               {"% of source", 11, true},
               {"1080p30", 7, true},
               {"p50 ms", 7, true},
               {"p99 ms", 7, true},
               {"latest ms", 9, true},
               {"over 33 ms", 10, true},
               {"CPU us/frame", 12, true},
               {"MB/stream", 9, true},
               {"outcome", 7}},
              "outcome", table_options);
  Streams streams(options);
  if (const std::string why = streams.prepare(); !why.empty()) {
    table.note("nothing measured: %s", why.c_str());
    return 77;
  }
  table.wants_filter("");
  table.note(
      "%s; latency: from the source's end to the sink; latest: behind a live stream's clock; "
      "over 33 ms: frames so late",
      options.clip.empty() ? "frames in memory" : options.decoder.c_str());
  for (const int count : options.streams) {
    double source = -1;
    for (const Chain& chain : kChains) {
      const bool alone = !*chain.launch;
      // Live streams are not faster or slower than their source.
      if ((!alone || options.rate > 0) &&
          std::string(chain.name).find(options.chain) == std::string::npos)
        continue;
      const Result r = streams.run(chain, count);
      if (alone) source = r.rate;
      table.add({chain.name, std::to_string(count), number(r.rate, 0),
                 number(source > 0 ? 100 * r.rate / source : -1, 1), number(r.rate / 30, 0),
                 number(r.p50, 2), number(r.p99, 2), number(r.latest, 1), number(r.late, 0),
                 number(r.processor, 0), number(r.megabytes, 1),
                 r.failure.empty() ? "ok" : "FAILED: " + r.failure});
    }
  }
  return table.finish();
}

}  // namespace
}  // namespace vf::bench

int main(int argc, char** argv) {
  const vf::bench::StreamsOptions options = vf::bench::parse(argc, argv);
  gst_init(nullptr, nullptr);
  return vf::bench::measure_all(options);
}
