// The streams benchmark finds how many video streams a machine can filter. It runs N pipelines at
// once, each with a source, a chain of elements and a sink. The source is a decoder fed from
// memory, or frames in memory. A chain that makes batches has all sources in one pipeline. For
// comparison, each run also measures the source without a chain.
#include <gst/app/gstappsink.h>
#include <gst/gst.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "bench/pipeline/source.h"
#include "bench/pipeline/stream.h"
#include "bench/report.h"
#include "gst/base/cudacompat.h"
#include "gst/gstcudaletterboxbatchmeta.h"

#if VF_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace vf::bench {
namespace {

struct Chain {
  const char *name, *launch;
  int boxes = 0;       // number of regions of interest on each frame
  bool batch = false;  // whether its element "batch" takes all streams
};
// All chains take NV12. {memory} stands for the feature of the caps, and {rows} for the streams, up
// to 32.
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
    // Batches are full while streams run. max-wait lets those go that streams at the gate leave.
    {"batch",
     "cudaletterboxbatch name=batch max-wait=100 batch-size={rows} ! "
     "other/tensors{memory},types=float32,dimensions=(string)640:640:3:{rows}",
     0, true},
};

struct StreamsOptions {
  std::vector<int> streams = {1, 8, 32, 64, 128}, devices = {0};
  std::string clip, decoder = "nvh264dec", csv;
  std::vector<std::string> chains;  // only chains whose name contains one of these
  double seconds = 3;               // seconds of measuring
  double patience = 60;             // maximum seconds until all streams play
  double rate = 0;                  // frames/s of live streams; 0 means full speed
  guint64 warm_up = 30;             // frames of each stream before measuring starts
  int width = 1920, height = 1080;
  bool cpu = false, progress = false;
};

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
  double rate = -1, slowest = -1, p50 = -1, p99 = -1, latest = -1, late = -1, processor = -1,
         megabytes = -1, start = -1, stop = -1;
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
    const gint64 start = g_get_monotonic_time();
    Gate gate(options_.warm_up + kHeldByChains);
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < count; i++) {
      streams.push_back(std::make_unique<Stream>());
      streams.back()->gate = &gate;
    }
    if (chain.batch) result.failure = make_shared(chain, &streams);
    for (int i = 0; i < count && result.failure.empty(); i++)
      result.failure = make(chain, i, streams[size_t(i)].get());
    progress(start, chain, streams, "made");
    if (result.failure.empty()) result.failure = play(streams);
    if (result.failure.empty()) {
      result.start = seconds_since(start);
      progress(start, chain, streams, "play");
      if (options_.rate > 0) set_clocks(streams);
      gate.open();
      // After this time, frames that were late when the gate opened have caught up.
      g_usleep(options_.rate > 0 ? 3 * G_USEC_PER_SEC : G_USEC_PER_SEC / 5);
      measure(streams, before, &result);
      progress(start, chain, streams, "measured");
    }
    const gint64 end = g_get_monotonic_time();
    gate.end();
    for_each(streams, [](const Stream& s) {
      if (s.pipeline) gst_element_set_state(s.pipeline, GST_STATE_NULL);
    });
    result.stop = seconds_since(end);
    // Until now only the streaming threads could access the vectors.
    if (result.rate >= 0) look_at_frames(streams, &result);
    for (const auto& s : streams) gst_clear_object(&s->pipeline);
    progress(start, chain, streams, "stopped");
    return result;
  }

 private:
  // Number of frames that a chain may hold without giving them out.
  static constexpr guint64 kHeldByChains = 8;

  static double seconds_since(gint64 time) {
    return double(g_get_monotonic_time() - time) / G_USEC_PER_SEC;
  }

  void progress(gint64 start, const Chain& chain, const std::vector<std::unique_ptr<Stream>>& all,
                const char* what) const {
    if (options_.progress)
      fprintf(stderr, "# %s, %zu streams: %s after %.2f s\n", chain.name, all.size(), what,
              seconds_since(start));
  }

  // Starts or stops eight streams at once, because drivers do only parts of it in turn. A larger
  // number would slow each other down.
  template <typename F>
  static void for_each(const std::vector<std::unique_ptr<Stream>>& streams, F&& call) {
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < std::min<size_t>(8, streams.size()); i++)
      threads.emplace_back([&] {
        for (size_t n; (n = next++) < streams.size();) call(*streams[n]);
      });
    for (std::thread& thread : threads) thread.join();
  }

  // Starts all streams and waits until each has warmed up. Returns what went wrong.
  std::string play(const std::vector<std::unique_ptr<Stream>>& streams) const {
    const gint64 start = g_get_monotonic_time();
    std::string failure;
    std::atomic<bool> over{false};
    std::thread starter([&] {
      for_each(streams, [&](Stream& s) {
        if (!over) gst_element_set_state(s.pipeline, GST_STATE_PLAYING);
        while (!s.arrived && !over) g_usleep(500);
      });
    });
    while (failure.empty()) {
      const auto waiting = std::count_if(streams.begin(), streams.end(), [this](const auto& s) {
        return s->arrived < options_.warm_up;
      });
      if (!waiting) break;
      failure = error_of(streams);
      if (failure.empty() && seconds_since(start) > options_.patience)
        failure = std::to_string(waiting) + " streams did not start in time";
      g_usleep(5000);
    }
    over = true;
    starter.join();
    return failure;
  }

  // The next frame of each live stream, which waits at the gate, becomes due within one frame's
  // time. The streams' times are spread evenly, as those of independent cameras.
  void set_clocks(const std::vector<std::unique_ptr<Stream>>& streams) const {
    GstClockTime phase = 0;
    for (const auto& s : streams) {
      const guint64 next = options_.clip.empty() ? s->left : s->pushed;
      GstClock* clock = gst_element_get_clock(s->pipeline);
      GstClockTime base = gst_clock_get_time(clock) - next * s->duration + phase;
      phase += s->duration / streams.size();
      gst_object_unref(clock);
      GstIterator* elements = gst_bin_iterate_recurse(GST_BIN(s->pipeline));
      const auto set = [](const GValue* item, gpointer time) {
        gst_element_set_base_time(GST_ELEMENT(g_value_get_object(item)),
                                  *static_cast<GstClockTime*>(time));
      };
      while (gst_iterator_foreach(elements, set, &base) == GST_ITERATOR_RESYNC)
        gst_iterator_resync(elements);
      gst_iterator_free(elements);
      gst_element_set_base_time(s->pipeline, base);
    }
  }

  // Returns the clip's access units, parsed once.
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

  // Returns the decoder's name, because each of GStreamer's decoders is for one device.
  std::string decoder_of(int device) const {
    const std::string& name = options_.decoder;
    return device > 0 && name == "nvh264dec" ? "nvh264device" + std::to_string(device) + "dec"
                                             : name;
  }

  GstElement* raw_source([[maybe_unused]] int index) {
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

  // Returns the elements of a chain and its sink.
  std::string line_of(const Chain& chain, size_t streams) const {
    std::string line = chain.launch;
    const auto replace = [&](const char* name, const std::string& by) {
      for (size_t at; (at = line.find(name)) != std::string::npos;)
        line.replace(at, strlen(name), by);
    };
    replace("{memory}", in_cuda() ? "(memory:CUDAMemory)" : "");
    replace("{rows}", std::to_string(std::min<size_t>(streams, 32)));
    if (!line.empty()) line += " ! ";
    return line + "fakesink name=sink sync=" + (options_.rate > 0 ? "true" : "false");
  }

  // Makes the pipeline that all streams of a chain with a batch share.
  std::string make_shared(const Chain& chain, std::vector<std::unique_ptr<Stream>>* streams) {
    GError* error = nullptr;
    GstElement* pipeline = gst_parse_launch(line_of(chain, streams->size()).c_str(), &error);
    const std::string text = error ? error->message : "";
    g_clear_error(&error);
    if (!text.empty()) {
      gst_clear_object(&pipeline);
      return text;
    }
    for (const auto& s : *streams) s->pipeline = GST_ELEMENT(gst_object_ref(pipeline));
    gst_object_unref(pipeline);
    probe(pipeline, "sink", "sink", batch_arrives, streams);
    return "";
  }

  std::string make(const Chain& chain, int index, Stream* s) {
    s->clip = &clip_;
    s->duration = clip_.duration;
    s->device = device_of(index);
    s->rate = options_.rate;
    s->boxes = chain.boxes;
    const bool raw = options_.clip.empty();
    std::string line = raw ? "" : "appsrc name=source ! " + decoder_of(s->device) + " ! ";
    // Without this, a chain that accepts any memory would get the one that the decoder prefers.
    if (!raw && in_cuda()) line += "video/x-raw(memory:CUDAMemory) ! ";
    line += "identity name=first silent=true";
    if (!chain.batch) line += " ! " + line_of(chain, 1);
    GError* error = nullptr;
    if (!chain.batch) s->pipeline = gst_pipeline_new(nullptr);
    GstElement* rest = gst_parse_bin_from_description(line.c_str(), TRUE, &error);
    if (!rest) {
      const std::string text = error->message;
      g_clear_error(&error);
      return text;
    }
    gst_bin_add(GST_BIN(s->pipeline), rest);
    if (chain.batch) {
      GstElement* batch = gst_bin_get_by_name(GST_BIN(s->pipeline), "batch");
      const bool linked =
          gst_element_link_pads(rest, "src", batch, ("sink_" + std::to_string(index)).c_str());
      gst_object_unref(batch);
      if (!linked) return "the source and the batch do not link";
    }
    if (raw) {
      GstElement* source = raw_source(index);
      gst_bin_add(GST_BIN(s->pipeline), source);
      if (!gst_element_link(source, rest)) return "the source and the chain do not link";
    } else {
      GstElement* source = gst_bin_get_by_name(GST_BIN(rest), "source");
      g_object_set(source, "caps", clip_.caps, "format", GST_FORMAT_TIME, "is-live",
                   options_.rate > 0, "max-bytes", guint64{1}, nullptr);
      g_signal_connect(source, "need-data", G_CALLBACK(feed), s);
      gst_object_unref(source);
    }
    probe(rest, "first", "src", leaves, s);
    if (!chain.batch) probe(rest, "sink", "sink", arrives, s);
#if VF_HAVE_GST_CUDA
    if (in_cuda()) gstvf::give_context(s->pipeline, contexts_[size_t(index) % contexts_.size()]);
#endif
    return "";
  }

  // Is a probe before the sink of batches. The stream with index N is that of the pad sink_N.
  static GstPadProbeReturn batch_arrives(GstPad* pad, GstPadProbeInfo* info, gpointer data) {
    const auto& streams = *static_cast<std::vector<std::unique_ptr<Stream>>*>(data);
    const auto* batch = gst_buffer_get_cuda_letterbox_batch_meta(GST_PAD_PROBE_INFO_BUFFER(info));
    for (guint i = 0; batch && i < batch->n_rows; i++) {
      const GstCudaLetterboxBatchRow& row = batch->rows[i];
      if (!row.frame) continue;
      const auto* original = gst_buffer_get_cuda_letterbox_original_meta(row.frame);
      frame_arrives(pad, original->buffer, streams[row.stream].get());
    }
    return GST_PAD_PROBE_OK;
  }

  static void probe(GstElement* bin, const char* name, const char* pad_name,
                    GstPadProbeCallback callback, gpointer s) {
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

  void measure(const std::vector<std::unique_ptr<Stream>>& streams, double before,
               Result* r) const {
    for (const auto& s : streams) {
      s->latency.reserve(size_t((options_.rate > 0 ? options_.rate : 2000) * options_.seconds));
      s->measuring = true;
    }
    const double processor = processor_seconds();
    const gint64 start = g_get_monotonic_time();
    for (const auto& s : streams) s->at_start = s->arrived;
    g_usleep(gulong(options_.seconds * G_USEC_PER_SEC));
    guint64 all = 0, slowest = G_MAXUINT64;
    for (const auto& s : streams) {
      const guint64 frames = s->arrived - s->at_start;
      all += frames;
      slowest = std::min(slowest, frames);
    }
    const double seconds = seconds_since(start);
    r->processor = (processor_seconds() - processor) * 1e6 / double(all);
    r->rate = double(all) / seconds;
    r->slowest = 100 * double(slowest) * double(streams.size()) / double(all);
    const double megabytes = device_megabytes();
    if (before >= 0) r->megabytes = (megabytes - before) / double(streams.size());
    r->failure = error_of(streams);
  }

  static void look_at_frames(const std::vector<std::unique_ptr<Stream>>& streams, Result* r) {
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

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> list;
  for (size_t at = 0, end; at <= text.size(); at = end + 1) {
    end = std::min(text.find(',', at), text.size());
    list.push_back(text.substr(at, end - at));
  }
  return list;
}

// Returns whether the chain is one of those to measure.
bool is_wanted(const Chain& chain, const StreamsOptions& options) {
  const std::string name = chain.name;
  // Live streams have phases of their own, which one pipeline has no clocks for.
  if (chain.batch && options.rate > 0) return false;
  // The source alone is always measured, except with live streams, which all run at its rate.
  if (!*chain.launch && options.rate <= 0) return true;
  return options.chains.empty() ||
         std::any_of(options.chains.begin(), options.chains.end(),
                     [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

StreamsOptions parse(int argc, char** argv) {
  StreamsOptions o;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (arg == "--progress") {
      o.progress = true;
      continue;
    }
    if (value && arg == "--clip")
      o.clip = value;
    else if (value && arg == "--decoder")
      o.decoder = value;
    else if (value && arg == "--chain")
      o.chains = words(value);
    else if (value && arg == "--streams")
      o.streams = numbers(value);
    else if (value && arg == "--devices")
      o.devices = numbers(value);
    else if (value && arg == "--seconds")
      o.seconds = atof(value);
    else if (value && arg == "--patience")
      o.patience = atof(value);
    else if (value && arg == "--warm-up")
      o.warm_up = guint64(std::max(1, atoi(value)));
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
          "Runs many streams at once and measures frames/s of each chain and of the source alone.\n"
          "options: --clip FILE.h264 (default: frames in memory), --decoder ELEMENT,\n"
          "         --streams N,N,..., --chain PART,PART (of names), --seconds S,\n"
          "         --rate FRAMES/S (live),\n"
          "         --devices N,N (streams in turn), --size WxH, --backend cpu, --csv FILE,\n"
          "         --patience S (until all play), --warm-up FRAMES (of each), --progress\n",
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
               {"slowest %", 9, true},
               {"1080p30", 7, true},
               {"p50 ms", 7, true},
               {"p99 ms", 7, true},
               {"latest ms", 9, true},
               {"over 33 ms", 10, true},
               {"CPU us/frame", 12, true},
               {"MB/stream", 9, true},
               {"start s", 7, true},
               {"stop s", 6, true},
               {"outcome", 7}},
              "outcome", table_options);
  Streams streams(options);
  if (const std::string why = streams.prepare(); !why.empty()) {
    table.note("nothing measured: %s", why.c_str());
    return 77;
  }
  table.wants_filter("");
  table.note(
      "%s; slowest: a stream's rate, of their mean; latency: from the source's end to the sink; "
      "latest: behind a live stream's clock; over 33 ms: frames so late; start: until all play",
      options.clip.empty() ? "frames in memory" : options.decoder.c_str());
  for (const int count : options.streams) {
    double source = -1;
    for (const Chain& chain : kChains) {
      if (!is_wanted(chain, options)) continue;
      const Result r = streams.run(chain, count);
      if (!*chain.launch) source = r.rate;
      table.add({chain.name, std::to_string(count), number(r.rate, 0),
                 number(source > 0 ? 100 * r.rate / source : -1, 1), number(r.slowest, 0),
                 number(r.rate / 30, 0), number(r.p50, 2), number(r.p99, 2), number(r.latest, 1),
                 number(r.late, 0), number(r.processor, 0), number(r.megabytes, 1),
                 number(r.start, 2), number(r.stop, 2),
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
