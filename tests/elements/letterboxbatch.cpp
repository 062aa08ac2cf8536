// Tests cudaletterboxbatch: its rows against cudaletterbox, when batches go, and streams that come,
// go and change.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <set>

#include "tests/elements/batches.h"

namespace vf::test {
namespace {

GstCudaLetterboxBatchMeta* meta_of(const BufferPtr& batch) {
  return batch ? gst_buffer_get_cuda_letterbox_batch_meta(batch.get()) : nullptr;
}

GstBuffer* original_of(const GstCudaLetterboxBatchRow& row) {
  auto* meta = row.frame ? gst_buffer_get_cuda_letterbox_original_meta(row.frame) : nullptr;
  return meta ? meta->buffer : nullptr;
}

// Prints the streams of the rows that are present: "0 0 2".
std::string streams_of(const BufferPtr& batch) {
  std::string text;
  const auto* meta = meta_of(batch);
  for (guint i = 0; meta && i < meta->n_rows; i++)
    if (meta->rows[i].frame)
      text += (text.empty() ? "" : " ") + std::to_string(meta->rows[i].stream);
  return meta ? text : "no batch";
}

// Rows

struct RowsCase {
  const char* name;
  std::vector<StreamKind> streams;
  const char *dimensions, *row, *types;
  const char* settings = "";  // the batcher's
  const char* own = "";       // stream 1's pad's, as NAME=VALUE
};
const RowsCase kRowsCases[] = {
    {"one format", {{}, {}, {}}, "24:24:3:3", "24:24:3:1", "float32"},
    {"sizes and formats",
     {{"NV12", 32, 20}, {"I420", 17, 30}, {"RGB", 40, 9}, {"NV12", 32, 20}},
     "24:16:3:4",
     "24:16:3:1",
     "float32",
     "fill-color=0xff102030"},
    {"NHWC of bytes", {{"RGBA", 30, 20}, {"I420", 30, 20}}, "3:20:24:2", "3:20:24:1", "uint8"},
    {"half floats, settings of a pad",
     {{}, {}},
     "21:24:3:2",
     "21:24:3:1",
     "float16",
     "mean=0.5,0.4,0.3 std=0.25",
     "rule=affine"},
    {"settings of the element",
     {{}, {"BGR", 20, 30}},
     "24:24:3:2",
     "24:24:3:1",
     "float32",
     "rule=affine channel-order=bgr interpolation=area"},
};

void rows(Case& c, const Row& row, const RowsCase& t) {
  if (!usable(c, row)) return;
  Batches b(row, std::string("max-wait=4294967295 ") + t.settings, t.dimensions, t.types);
  const guint n = guint(t.streams.size());
  for (guint i = 0; i < n; i++) b.add(i, t.streams[i]);
  const std::string own = t.own;
  if (!own.empty())
    gst_util_set_object_arg(G_OBJECT(b.pad(1)), own.substr(0, own.find('=')).c_str(),
                            own.substr(own.find('=') + 1).c_str());
  b.play();
  for (guint32 k = 0; k < 3; k++) {
    std::vector<BufferPtr> frames;
    for (guint i = 0; i < n; i++) frames.push_back(b.push(i, 10 * k + i));
    const BufferPtr batch = b.pull();
    const auto* meta = meta_of(batch);
    if (!meta) return c.fail("no batch %u: %s", k, b.error().c_str());
    c.check(meta->n_rows == n, "%u rows", meta->n_rows);
    c.check(GST_BUFFER_PTS(batch.get()) == k * 40 * GST_MSECOND &&
                GST_BUFFER_DURATION(batch.get()) == 40 * GST_MSECOND,
            "batch %u: PTS %" GST_TIME_FORMAT ", duration %" GST_TIME_FORMAT, k,
            GST_TIME_ARGS(GST_BUFFER_PTS(batch.get())),
            GST_TIME_ARGS(GST_BUFFER_DURATION(batch.get())));
    c.check(GST_BUFFER_IS_DISCONT(batch.get()) == (k == 0), "batch %u: DISCONT", k);
    if (row.cuda_caps) c.check(gstvf::cuda_memory(batch.get()), "the batch is not in CUDA memory");
    for (guint i = 0; i < n; i++) {
      const auto& r = meta->rows[i];
      c.check(r.frame && r.stream == i, "row %u has stream %u", i, r.stream);
      c.check(original_of(r) == frames[i].get(), "row %u has another original", i);
      if (!c.ok()) return;
      c.check(GST_BUFFER_PTS(r.frame) == GST_BUFFER_PTS(frames[i].get()), "row %u: PTS", i);
      std::string settings = t.settings;
      if (i == 1) settings += " " + own;
      const std::string want =
          letterboxed(c, row, b.info(i), frames[i].get(), settings, t.row, t.types);
      c.check(row_of(batch.get(), i) == want, "batch %u: row %u is not cudaletterbox's", k, i);
      GstCudaLetterboxGeometry g;
      c.check(gst_buffer_get_cuda_letterbox_geometry(r.frame, &g) &&
                  g.source_width == t.streams[i].width,
              "row %u: geometry", i);
    }
  }
}

#if VF_HAVE_GST_CUDA
// A frame in the memory of another device, or in system memory, goes into the same batch.
void mixed_memory(Case& c) {
  const Row& row = kRows[2];
  if (!usable(c, row)) return;
  Batches b(row, "max-wait=4294967295", "24:24:3:3");
  for (guint i = 0; i < 3; i++) b.add(i, {});
  GstCudaContext* other = gst_cuda_context_new(1);
  if (!other) return c.skip("there is one device only");
  b.play();
  for (guint k = 0; k < 3; k++) {
    // The caps say CUDA memory, but each memory decides.
    const BufferPtr frames[] = {make_frame(true, b.info(0), 7),
                                make_frame(true, b.info(1), 7, {}, other),
                                make_frame(false, b.info(2), 7)};
    for (guint i = 0; i < 3; i++) {
      GST_BUFFER_PTS(frames[i].get()) = k * 40 * GST_MSECOND;
      b.push(i, gst_buffer_ref(frames[i].get()));
    }
    const BufferPtr batch = b.pull();
    if (!batch) {
      c.fail("no batch: %s", b.error().c_str());
      break;
    }
    const std::string first = row_of(batch.get(), 0);
    for (guint i = 1; i < 3; i++)
      c.check(row_of(batch.get(), i) == first, "row %u differs from that of the same pixels", i);
  }
  gst_object_unref(other);
}
#endif

// When batches go

// Running times decide, whatever the segments of the streams are. A batch has the smallest of them.
void segments(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295 sync=pts", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8});
  b.play();
  // Stream 0 begins at 10 s of its media, and stream 1 plays at double speed after 1 s.
  GstSegment other[2];
  for (GstSegment& s : other) gst_segment_init(&s, GST_FORMAT_TIME);
  other[0].start = other[0].time = 10 * GST_SECOND;
  other[0].base = GST_SECOND;
  other[1].rate = 2;
  other[1].base = GST_SECOND;
  for (guint i = 0; i < 2; i++) gst_pad_push_event(b.source(i), gst_event_new_segment(&other[i]));
  for (guint k = 0; k < 3 && c.ok(); k++) {
    for (guint i = 0; i < 2; i++) {
      const BufferPtr frame = make_frame(false, b.info(i), k);
      GST_BUFFER_PTS(frame.get()) = i ? k * 80 * GST_MSECOND : (10000 + k * 40) * GST_MSECOND;
      b.push(i, gst_buffer_ref(frame.get()));
    }
    const BufferPtr batch = b.pull();
    c.check(streams_of(batch) == "0 1", "batch %u has streams %s", k, streams_of(batch).c_str());
    if (c.ok())
      c.check(GST_BUFFER_PTS(batch.get()) == (1000 + k * 40) * GST_MSECOND,
              "batch %u: PTS %" GST_TIME_FORMAT, k, GST_TIME_ARGS(GST_BUFFER_PTS(batch.get())));
  }
}

// Memory that is allocated for each batch would cost more than the rows.
void reused(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295", "64:64:3:1");
  b.add(0, {"RGB", 64, 64});
  b.play();
  std::map<gpointer, int> batches;
  for (guint32 k = 0; k < 8; k++) {
    b.push(0, k);
    const BufferPtr batch = b.pull();
    if (!batch) return c.fail("no batch: %s", b.error().c_str());
    c.check(batch->pool != nullptr, "the batch is of no pool");
    batches[batch.get()]++;
  }
  c.check(batches.size() < 8, "each batch has a buffer of its own");
}

void partial(Case& c, const Row& row) {
  if (!usable(c, row)) return;
  Batches b(row, "max-wait=60 fill-color=0xff336600", "24:24:3:3");
  for (guint i = 0; i < 3; i++) b.add(i, {"RGB", 24, 24});
  b.play();
  const gint64 start = g_get_monotonic_time();
  const BufferPtr frame = b.push(1, 5);
  const BufferPtr batch = b.pull();
  const gint64 waited = (g_get_monotonic_time() - start) / 1000;
  c.check(streams_of(batch) == "1", "the batch has streams %s: %s", streams_of(batch).c_str(),
          batch ? "" : b.error().c_str());
  c.check(waited >= 55, "the batch went after %d ms", int(waited));
  if (!c.ok()) return;
  const auto* meta = meta_of(batch);
  c.check(meta->n_rows == 3 && !meta->rows[1].frame && !meta->rows[2].frame, "rows are present");
  // A row without a frame shows the fill in full.
  for (guint i = 1; i < 3; i++) {
    const std::string bytes = row_of(batch.get(), i);
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    const float want[] = {0x33 / 255.0f, 0x66 / 255.0f, 0};
    for (size_t v = 0; v < bytes.size() / 4; v++)
      if (values[v] != want[v / (24 * 24)])
        return c.fail("row %u: value %zu is %g", i, v, double(values[v]));
  }
}

// Describes what to push, and which batches are expected. Pushes are words:
//   STREAM@PTS  pushes a frame of this time in milliseconds
//   |           waits until a batch has come
//   !           does so after the wait of the frames has expired
//   -N          waits until N frames of stream 0 were dropped
// Otherwise frames wait for ever, so that a batch never goes because the machine is slow.
struct PolicyCase {
  const char *name, *settings;
  guint pads;
  const char* pushes;
  std::vector<const char*> batches;  // the streams of each
  std::vector<guint64> dropped;      // one count for each stream
  bool live = false;
};
const PolicyCase kPolicies[] = {
    {"each stream has a row", "", 2, "0@0 1@0 1@40 0@40 | |", {"0 1", "0 1"}, {0, 0}},
    {"a fast stream waits", "", 2, "0@0 0@40 1@0 | !", {"0 1", "0"}, {0, 0}},
    {"a fast live stream waits", "", 2, "0@0 0@40 1@0 | !", {"0 1", "0"}, {0, 0}, true},
    {"a late file is waited for again", "", 2, "0@0 ! 0@40 !", {"0", "0"}, {0, 0}},
    {"the newest frame goes", "late=drop", 2, "0@0 0@40 0@80 -2 1@0 |", {"0 1"}, {2, 0}},
    {"rows of one stream",
     "max-per-stream=2 batch-size=4",
     2,
     "0@0 0@40 1@0 1@40 |",
     {"0 0 1 1"},
     {0, 0}},
    {"a full batch", "batch-size=2", 4, "3@0 1@0 |", {"1 3"}, {0, 0, 0, 0}},
    {"who came first goes first",
     "batch-size=2",
     3,
     "2@0 0@0 | 1@0 2@40 |",
     {"0 2", "1 2"},
     {0, 0, 0}},
    {"by time", "sync=pts", 2, "0@0 1@80 0@40 0@80 | | |", {"0", "0", "0 1"}, {0, 0}},
    {"too late by time, dropped",
     "sync=pts late=drop",
     2,
     "0@0 ! 1@0 1@40 0@40 |",
     {"0", "0 1"},
     {0, 1}},
    {"too late by time, next",
     "sync=pts late=next",
     2,
     "0@0 ! 1@0 0@40 | !",
     {"0", "1", "0"},
     {0, 0}},
};

void policy(Case& c, const PolicyCase& t) {
  const std::string size = strstr(t.settings, "batch-size=4")   ? "4"
                           : strstr(t.settings, "batch-size=2") ? "2"
                                                                : std::to_string(t.pads);
  Batches b(kRows[0], std::string("max-wait=4294967295 ") + t.settings, "8:8:3:" + size);
  for (guint i = 0; i < t.pads; i++) b.add(i, {"RGB", 8, 8}, t.live);
  b.play();
  size_t seen = 0;
  const auto next = [&] {
    const BufferPtr batch = b.pull();
    const std::string want = seen < t.batches.size() ? t.batches[seen] : "nothing";
    c.check(streams_of(batch) == want, "batch %zu has streams %s, not %s", seen,
            streams_of(batch).c_str(), want.c_str());
    seen++;
  };
  gchar** words = g_strsplit(t.pushes, " ", -1);
  for (gchar** w = words; *w && c.ok(); w++) {
    if (!strcmp(*w, "|")) {
      next();
      continue;
    }
    if (!strcmp(*w, "!")) {
      c.check(!b.pull(20 * GST_MSECOND), "batch %zu did not wait", seen);
      g_object_set(b.batcher(), "max-wait", 20u, nullptr);
      next();
      g_object_set(b.batcher(), "max-wait", G_MAXUINT, nullptr);
      continue;
    }
    if (**w == '-') {
      const auto wanted = guint64(atoi(*w + 1));
      for (int i = 0; i < 3000 && b.stat(0, "dropped") < wanted; i++) g_usleep(10000);
      continue;
    }
    guint stream, ms;
    sscanf(*w, "%u@%u", &stream, &ms);
    const BufferPtr frame = make_frame(false, b.info(stream), ms);
    GST_BUFFER_PTS(frame.get()) = ms * GST_MSECOND;
    GST_BUFFER_DURATION(frame.get()) = 40 * GST_MSECOND;
    b.push(stream, gst_buffer_ref(frame.get()));
  }
  g_strfreev(words);
  c.check(!c.ok() || seen == t.batches.size(), "%zu batches came", seen);
  c.check(!b.pull(20 * GST_MSECOND), "another batch came");
  for (guint i = 0; i < t.pads && c.ok(); i++)
    c.check(b.stat(i, "dropped") == t.dropped[i], "stream %u: %d frames were dropped, not %d", i,
            int(b.stat(i, "dropped")), int(t.dropped[i]));
}

void latency(Case& c) {
  for (const guint wait : {0u, 40u, 250u, 4294967295u}) {
    Batches b(kRows[0], "max-wait=" + std::to_string(wait), "8:8:3:1");
    b.add(0, {"RGB", 8, 8}, true);
    b.play();
    b.push(0, 1);
    if (!b.pull()) return c.fail("no batch: %s", b.error().c_str());
    GstPad* pad = gst_element_get_static_pad(b.batcher(), "src");
    GstQuery* query = gst_query_new_latency();
    gboolean live = FALSE;
    GstClockTime min = 0, max = 0;
    c.check(gst_pad_query(pad, query), "no latency");
    gst_object_unref(pad);
    gst_query_parse_latency(query, &live, &min, &max);
    const GstClockTime want = wait == 4294967295u ? 0 : wait * GST_MSECOND;
    c.check(live && min == want, "max-wait=%u: latency %" GST_TIME_FORMAT, wait,
            GST_TIME_ARGS(min));
    gst_query_unref(query);
  }
}

// The source of a dropped frame is told of it by a QoS event, and the application by a message.
void quality(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295 late=drop", "8:8:3:2");
  struct Heard {
    std::mutex mutex;
    std::string text;  // the running times of the frames in milliseconds
  } heard[2];
  for (guint i = 0; i < 2; i++) {
    b.add(i, {"RGB", 8, 8});
    gst_pad_add_probe(
        b.source(i), GST_PAD_PROBE_TYPE_EVENT_UPSTREAM,
        [](GstPad*, GstPadProbeInfo* info, gpointer data) {
          GstEvent* event = GST_PAD_PROBE_INFO_EVENT(info);
          if (GST_EVENT_TYPE(event) != GST_EVENT_QOS) return GST_PAD_PROBE_OK;
          auto* h = static_cast<Heard*>(data);
          const std::lock_guard<std::mutex> lock(h->mutex);
          GstQOSType type;
          GstClockTime time;
          gst_event_parse_qos(event, &type, nullptr, nullptr, &time);
          h->text += (type == GST_QOS_TYPE_OVERFLOW ? " over " : " under ") +
                     std::to_string(time / GST_MSECOND);
          return GST_PAD_PROBE_OK;
        },
        &heard[i], nullptr);
  }
  b.play();
  for (int i = 0; i < 3; i++) b.push(0, 1);
  for (int i = 0; i < 3000 && b.stat(0, "dropped") < 2; i++) g_usleep(10000);
  b.push(1, 1);
  c.check(streams_of(b.pull()) == "0 1", "no batch");
  for (guint i = 0; i < 2; i++) {
    const std::lock_guard<std::mutex> lock(heard[i].mutex);
    const char* want = i ? "" : " over 0 over 40";
    c.check(heard[i].text == want, "source %u heard \"%s\", not \"%s\"", i, heard[i].text.c_str(),
            want);
  }
  GstBus* bus = gst_pipeline_get_bus(GST_PIPELINE(b.pipeline()));
  for (guint64 want = 1; want <= 3; want++) {
    GstMessage* m = gst_bus_pop_filtered(bus, GST_MESSAGE_QOS);
    guint64 frames = 0, dropped = 0;
    if (m) gst_message_parse_qos_stats(m, nullptr, &frames, &dropped);
    c.check(want == 3 ? !m : dropped == want && GST_MESSAGE_SRC(m) == GST_OBJECT(b.pad(0)),
            "message %d counts %d dropped frames", int(want), int(dropped));
    if (m) gst_message_unref(m);
  }
  gst_object_unref(bus);
}

// A live frame's wait begins when it comes, also if the batch before it is still being pushed.
void wait_from_arrival(Case& c) {
  constexpr guint kWait = 1500;
  Batches b(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8}, true);
  struct Hold {
    std::atomic<bool> holds{false}, goes{false};
  } hold;
  GstPad* src = gst_element_get_static_pad(b.batcher(), "src");
  gst_pad_add_probe(
      src, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad*, GstPadProbeInfo*, gpointer data) {
        auto* h = static_cast<Hold*>(data);
        h->holds = true;
        while (!h->goes) g_usleep(1000);
        return GST_PAD_PROBE_REMOVE;
      },
      &hold, nullptr);
  gst_object_unref(src);
  b.play();
  for (guint i = 0; i < 2; i++) b.push(i, 1);
  for (int i = 0; i < 3000 && !hold.holds; i++) g_usleep(10000);
  c.check(hold.holds, "no batch: %s", b.error().c_str());
  g_object_set(b.batcher(), "max-wait", kWait, nullptr);
  b.push(0, 2);
  g_usleep(kWait * 1000);
  // The frame has waited long enough. A wait that begins now would be as long again.
  const gint64 start = g_get_monotonic_time();
  hold.goes = true;
  c.check(streams_of(b.pull()) == "0 1", "no batch: %s", b.error().c_str());
  c.check(streams_of(b.pull()) == "0", "no second batch: %s", b.error().c_str());
  const gint64 waited = (g_get_monotonic_time() - start) / 1000;
  c.check(waited < gint64(kWait), "the frame has waited for %d ms more", int(waited));
}

// With late=next, live frames that have piled up go as soon as they have waited for max-wait, also
// if the other streams have as few frames as before.
void live_backlog(Case& c) {
  Batches b(kRows[0], "max-wait=40", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8, 30}, true);
  b.play();
  int waiting = 0;
  for (; waiting < 15; waiting++) b.push(0, 1);
  // In each round, as many frames come as go with complete batches. On a busy machine it takes more
  // rounds until the others have gone.
  for (int k = 0; k < 12 || (k < 300 && waiting >= 10); k++) {
    for (guint i = 0; i < 2; i++) b.push(i, 1);
    waiting++;
    g_usleep(30000);
    while (const BufferPtr batch = b.pull(0))
      if (streams_of(batch)[0] == '0') waiting--;
  }
  c.check(waiting < 10, "%d frames still wait", waiting);
}

// Streams that come, go and change

void ends(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295", "8:8:3:3");
  for (guint i = 0; i < 3; i++) b.add(i, {"RGB", 8, 8});
  b.play();
  for (guint i = 0; i < 3; i++) b.push(i, i);
  c.check(streams_of(b.pull()) == "0 1 2", "first batch");
  b.end(1);
  b.push(0, 1);
  b.push(2, 1);
  c.check(streams_of(b.pull()) == "0 2", "a stream that has ended was waited for");
  b.push(2, 2);
  b.end(0);
  b.end(2);
  c.check(streams_of(b.pull()) == "2", "the last frames did not come");
  c.check(!b.pull() && b.ended(), "no end: %s", b.error().c_str());
}

void change_caps(Case& c, const Row& row) {
  if (!usable(c, row)) return;
  Batches b(row, "max-wait=4294967295", "16:16:3:2");
  b.add(0, {});
  b.add(1, {});
  b.play();
  const StreamKind kinds[] = {{"NV12", 32, 20}, {"I420", 18, 30}, {"RGB", 9, 9}, {"NV12", 32, 20}};
  for (guint32 k = 0; k < 4; k++) {
    b.change(1, kinds[k]);
    const BufferPtr frames[] = {b.push(0, k), b.push(1, k)};
    const BufferPtr batch = b.pull();
    if (streams_of(batch) != "0 1") return c.fail("no batch %u: %s", k, b.error().c_str());
    for (guint i = 0; i < 2; i++)
      c.check(row_of(batch.get(), i) ==
                  letterboxed(c, row, b.info(i), frames[i].get(), "", "16:16:3:1", "float32"),
              "batch %u: row %u differs", k, i);
  }
}

void flush(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8});
  b.play();
  for (guint32 k = 0; k < 20 && c.ok(); k++) {
    const BufferPtr old = b.push(0, k);
    // Whether the frame waits in the pad's queue, or for its batch, a flush drops it.
    if (k % 2) g_usleep(5000);
    b.flush(0);
    const BufferPtr frame = b.push(0, k), other = b.push(1, k);
    const BufferPtr batch = b.pull();
    if (streams_of(batch) != "0 1") return c.fail("round %u: %s", k, b.error().c_str());
    c.check(original_of(meta_of(batch)->rows[0]) == frame.get(), "a frame outlived a flush");
    c.check(original_of(meta_of(batch)->rows[1]) == other.get(), "another stream lost its frame");
  }
}

void gaps(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8});
  b.play();
  for (guint32 k = 0; k < 5 && c.ok(); k++) {
    b.push(0, k);
    b.push(1, k);
    c.check(streams_of(b.pull()) == "0 1", "round %u", k);
    gst_pad_push_event(b.source(1), gst_event_new_gap(k * 40 * GST_MSECOND, 40 * GST_MSECOND));
    b.push(0, k);
    c.check(streams_of(b.pull()) == "0", "round %u: a gap was waited for", k);
  }
}

// Adds and removes pads while others go on.
void churn(Case& c, const Row& row, int rounds) {
  if (!usable(c, row)) return;
  Batches b(row, "max-wait=4294967295 batch-size=3", "8:8:3:3");
  b.add(0, {"RGB", 8, 8});
  b.play();
  for (int k = 0; k < rounds && c.ok(); k++) {
    const guint stream = guint(1 + k % 5);
    b.add(stream, {k % 2 ? "RGB" : "I420", 8 + k % 3, 8});
    const BufferPtr kept = b.push(0, guint32(k)), frame = b.push(stream, guint32(k));
    const BufferPtr batch = b.pull();
    const std::string want = "0 " + std::to_string(stream);
    if (streams_of(batch) != want)
      return c.fail("round %d has streams %s: %s", k, streams_of(batch).c_str(),
                    batch ? "" : b.error().c_str());
    c.check(original_of(meta_of(batch)->rows[0]) == kept.get() &&
                original_of(meta_of(batch)->rows[1]) == frame.get(),
            "round %d has other frames", k);
    // Sometimes a frame still waits when its pad goes.
    if (k % 3 == 0) b.push(stream, 1);
    b.remove(stream);
  }
}

// Streams of all rates and sizes, live and not, which stall, flush, send gaps, end and return, change,
// come and go. Each frame must be in one batch, be counted as dropped, or be lost in a flush, in
// order.
void random_streams(Case& c, const Row& row, guint pads, const char* settings, guint64 seed) {
  if (!usable(c, row)) return;
  std::mt19937 random{guint32(seed)};
  const auto between = [&](int a, int z) { return a + int(random() % guint32(z - a + 1)); };
  const std::string size = std::to_string(std::min(pads, 16u));
  Batches b(row, std::string("max-wait=15 ") + settings + " batch-size=" + size, "8:8:3:" + size);
  const char* formats[] = {"RGB", "NV12", "I420", "BGRx"};
  const auto kind = [&] {
    // GStreamer before 1.24.4 cannot copy odd heights of I420 from CUDA memory.
    return StreamKind{formats[between(0, 3)], between(4, 12), 2 * between(2, 6), between(1, 60)};
  };
  struct Known {
    std::vector<BufferPtr> frames;
    std::vector<GstVideoInfo> infos;  // one for each frame
    size_t next = 0;                  // the first that may still come
    guint64 came = 0;
    guint64 flushed = 0;    // frames that may have been lost in flushes
    int stalled_until = 0;  // step
    bool ended = false, removed = false;
  };
  std::map<guint, Known> known;
  const auto add = [&] {
    const auto stream = guint(known.size());
    b.add(stream, kind(), between(0, 2) == 0);
    known[stream];
  };
  while (known.size() < pads) add();
  b.play();
  const auto take = [&](const BufferPtr& batch) {
    const auto* meta = meta_of(batch);
    for (guint i = 0; meta && i < meta->n_rows && c.ok(); i++) {
      if (!meta->rows[i].frame) continue;
      Known& k = known[meta->rows[i].stream];
      size_t at = k.next;
      while (at < k.frames.size() && k.frames[at].get() != original_of(meta->rows[i])) at++;
      c.check(at < k.frames.size(), "stream %u: a frame came twice, out of order or not its own",
              meta->rows[i].stream);
      k.next = at + 1;
      // Some of the rows are compared, because cudaletterbox starts anew for each.
      if (c.ok() && k.came % 16 == 0)
        c.check(row_of(batch.get(), i) ==
                    letterboxed(c, row, k.infos[at], k.frames[at].get(), "", "8:8:3:1", "float32"),
                "stream %u: a row has other pixels", meta->rows[i].stream);
      k.came++;
    }
  };
  // Making frames of CUDA memory takes long on the emulated device.
  const int steps = row.cuda_caps ? 80 : 400;
  for (int step = 0; step < steps && c.ok(); step++) {
    const guint stream = guint(between(0, int(known.size()) - 1));
    Known& k = known[stream];
    if (k.removed || step < k.stalled_until) continue;
    if (k.ended && between(0, 2)) continue;
    const auto flush_stream = [&] {
      k.flushed += k.frames.size() - k.next;
      b.flush(stream);
    };
    if (k.ended) {
      flush_stream();
      b.restart(stream);
      k.ended = false;
    }
    // The batches end when all streams have ended, and a flush of all reaches what is behind.
    const bool others = std::any_of(known.begin(), known.end(), [&](const auto& other) {
      return other.first != stream && !other.second.ended && !other.second.removed;
    });
    const int what = between(0, 99);
    if (what < 84) {
      k.infos.push_back(b.info(stream));
      k.frames.push_back(b.push(stream, guint32(step)));
    } else if (what < 88) {
      b.change(stream, kind());
    } else if (what < 90) {
      b.gap(stream);
    } else if (what < 92 && others) {
      flush_stream();
    } else if (what < 94 && others) {
      b.end(stream);
      k.ended = true;
    } else if (what < 96) {
      k.stalled_until = step + between(10, 60);
    } else if (what < 98) {
      add();
    } else if (others) {
      b.remove(stream);
      k.removed = true;
    }
    // Some waits are longer than max-wait.
    if (between(0, 20) == 0) g_usleep(gulong(between(0, between(0, 5) ? 5000 : 25000)));
    while (const BufferPtr batch = b.pull(0)) take(batch);
  }
  for (auto& [stream, k] : known)
    if (!k.ended && !k.removed) b.end(stream);
  while (c.ok()) {
    const BufferPtr batch = b.pull();
    if (!batch) break;
    take(batch);
  }
  c.check(b.ended(), "no end: %s", b.error().c_str());
  for (auto& [stream, k] : known) {
    if (!c.ok()) break;
    if (k.removed) continue;  // its counters are gone
    const guint64 frames = b.stat(stream, "frames"), dropped = b.stat(stream, "dropped");
    const guint64 all = k.frames.size();
    c.check(frames == k.came && frames + dropped <= all && frames + dropped + k.flushed >= all,
            "stream %u: of %zu frames %d came, %d are counted, %d dropped and up to %d flushed",
            stream, k.frames.size(), int(k.came), int(frames), int(dropped), int(k.flushed));
  }
}

// Nothing holds a frame, a pad or the element after the end.
void nothing_left(Case& c, const Row& row) {
  if (!usable(c, row)) return;
  GstElement* batcher = nullptr;
  BufferPtr frame;
  {
    Batches b(row, "max-wait=20", "8:8:3:2");
    b.add(0, {"RGB", 8, 8});
    b.add(1, {"RGB", 8, 8});
    b.play();
    batcher = b.batcher();
    g_object_add_weak_pointer(G_OBJECT(batcher), reinterpret_cast<gpointer*>(&batcher));
    frame = b.push(0, 1);
    c.check(b.pull() != nullptr, "no batch: %s", b.error().c_str());
    b.push(0, 2);
  }
  c.check(!batcher, "the element still exists");
  c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(frame.get()) == 1, "somebody holds a frame");
}

// Faults

struct RefusedCase {
  const char *settings, *dimensions, *types, *text;
  const char* property = "";  // that the details name
};
const RefusedCase kRefused[] = {
    {"batch-size=3", "8:8:3:2", "float32", "batch-size is 3", "batch-size"},
    {"", "8:8:4:2", "float32", "dimensions 8:8:4:2"},
    {"", "0:8:3:2", "float32", "dimensions 0:8:3:2"},
    {"", "8:8:3:2:2", "float32", "dimensions 8:8:3:2:2"},
    {"", "1048576:1048576:3:1048576", "float32", "too large"},
};

void refused(Case& c, const RefusedCase& t) {
  Batches b(kRows[0], t.settings, t.dimensions, t.types);
  b.add(0, {"RGB", 8, 8});
  b.play();
  b.push(0, 1);
  std::string property;
  const std::string text = b.error(kPatience, &property);
  c.check(text.find(t.text) != std::string::npos && property == t.property,
          "the error is: %s (property \"%s\")", text.c_str(), property.c_str());
}

// The element behind may take other caps when it plays than when it was linked.
void nothing_takes_tensors(Case& c) {
  Batches b(kRows[0], "", "8:8:3:1");
  b.add(0, {"RGB", 8, 8});
  GstElement* sink = gst_bin_get_by_name(GST_BIN(b.pipeline()), "sink");
  gst_util_set_object_arg(G_OBJECT(sink), "caps", "other/tensors,types=int8");
  gst_object_unref(sink);
  b.play();
  b.push(0, 1);
  const std::string text = b.error(kPatience);
  c.check(text.find("other/tensors") != std::string::npos, "the error is: %s", text.c_str());
}

// Without dimensions behind it, a batch has the number of pads and the size of the first frames.
void default_caps(Case& c) {
  Batches b(kRows[0], "", "");
  for (guint i = 0; i < 3; i++) b.add(i, {"RGB", 12, 10});
  b.play();
  for (guint i = 0; i < 3; i++) b.push(i, i);
  c.check(streams_of(b.pull()) == "0 1 2", "no batch: %s", b.error().c_str());
  GstCaps* caps = b.caps();
  gchar* text = caps ? gst_caps_to_string(caps) : g_strdup("none");
  c.check(strstr(text, "12:10:3:3"), "caps %s", text);
  g_free(text);
  if (caps) gst_caps_unref(caps);
}

// A frame that cannot be read costs its own row only.
void bad_frame(Case& c, const Row& row) {
  if (!usable(c, row)) return;
  Batches b(row, "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8});
  b.play();
  for (guint32 k = 0; k < 3; k++) {
    const BufferPtr good = b.push(1, k);
    b.push(0, gst_buffer_new_allocate(nullptr, 16, nullptr));
    const BufferPtr batch = b.pull();
    if (streams_of(batch) != "1") return c.fail("round %u: %s", k, b.error().c_str());
    c.check(row_of(batch.get(), 0) ==
                letterboxed(c, row, b.info(1), good.get(), "", "8:8:3:1", "float32"),
            "round %u: the row differs", k);
  }
  c.check(b.stat(0, "dropped") == 3, "%d frames were counted", int(b.stat(0, "dropped")));
  const std::string text = b.warning();
  c.check(text.find("sink_0") != std::string::npos, "the warning is: %s", text.c_str());
}

// A camera whose caps cannot be used stops no other, and has rows again after usable caps.
void refused_caps(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8});
  b.play();
  const auto set_caps = [&](const char* more) {
    const std::string text =
        std::string("video/x-raw,format=RGB,width=8,height=8,framerate=25/1") + more;
    GstCaps* caps = gst_caps_from_string(text.c_str());
    c.check(gst_pad_push_event(b.source(0), gst_event_new_caps(caps)), "%s: refused", more);
    gst_caps_unref(caps);
  };
  guint64 dropped = 0;
  // The interlaced caps come first, so that no stream has had a frame, and then while both play.
  for (const char* more : {",interlace-mode=interleaved", "", ",interlace-mode=mixed", ""}) {
    set_caps(more);
    const bool refuses = *more;
    for (guint32 k = 0; k < 3 && c.ok(); k++) {
      const BufferPtr of_0 = b.push(0, k), of_1 = b.push(1, k);
      std::set<GstBuffer*> want = {of_1.get()}, came;
      if (refuses)
        dropped++;
      else
        want.insert(of_0.get());
      std::vector<BufferPtr> more_of_1;
      while (came.size() < want.size()) {
        const BufferPtr batch = b.pull();
        if (!batch) return c.fail("caps \"%s\": no batch: %s", more, b.error().c_str());
        for (guint i = 0; i < 2; i++)
          if (GstBuffer* original = original_of(meta_of(batch)->rows[i])) came.insert(original);
        // New caps may come when the other stream's frame has left already.
        if (!refuses && streams_of(batch) == "1") {
          more_of_1.push_back(b.push(1, k));
          want.insert(more_of_1.back().get());
        }
      }
      c.check(came == want, "caps \"%s\": other frames came", more);
    }
  }
  // A batch does not wait for the refused stream, so its last frame may still be on its way.
  for (int i = 0; i < 3000 && b.stat(0, "dropped") != dropped; i++) g_usleep(10000);
  c.check(b.stat(0, "dropped") == dropped, "%d frames were counted", int(b.stat(0, "dropped")));
  c.check(b.stat(1, "dropped") == 0, "the other stream has lost frames");
  std::string pad;
  const std::string text = b.warning(&pad);
  c.check(text.find("interlaced") != std::string::npos, "the warning is: %s", text.c_str());
  c.check(pad == "sink_0", "the details name the pad \"%s\"", pad.c_str());
  c.check(b.warning().empty(), "there is more than one warning");
}

// A setting that cannot be used never ends a stream that plays.
void bad_setting(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8});
  b.play();
  const auto round = [&](guint32 k) {
    const BufferPtr frames[] = {b.push(0, k), b.push(1, k)};
    const BufferPtr batch = b.pull();
    if (streams_of(batch) != "0 1") return c.fail("round %u: %s", k, b.error().c_str());
    for (guint i = 0; i < 2; i++)
      c.check(row_of(batch.get(), i) ==
                  letterboxed(c, kRows[0], b.info(i), frames[i].get(), "", "8:8:3:1", "float32"),
              "round %u: row %u differs", k, i);
  };
  round(0);
  for (const auto& [name, value] : {std::pair("std", "0"), {"std", "1e35"}, {"mean", "1,2"}}) {
    gst_util_set_object_arg(G_OBJECT(b.pad(1)), name, value);
    round(1);
    std::string pad;
    const std::string text = b.warning(&pad);
    c.check(text.find(name) != std::string::npos && pad == "sink_1",
            "%s=%s: the warning is: %s (pad %s)", name, value, text.c_str(), pad.c_str());
    gchar* now = nullptr;
    g_object_get(b.pad(1), name, &now, nullptr);
    c.check(!strcmp(now, !strcmp(name, "std") ? "1" : "0"), "%s is %s", name, now);
    g_free(now);
  }
}

// A pad whose setting cannot be used from the start has no row, and one warning names the setting.
void bad_setting_at_start(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 8});
  gst_util_set_object_arg(G_OBJECT(b.pad(0)), "std", "1e35");
  b.play();
  for (guint32 k = 0; k < 2; k++) {
    b.push(0, k);
    b.push(1, k);
    if (streams_of(b.pull()) != "1") return c.fail("round %u: %s", k, b.error().c_str());
  }
  std::string pad, property;
  const std::string text = b.warning(&pad, &property);
  c.check(pad == "sink_0" && property == "std", "the warning is: %s (pad \"%s\", property \"%s\")",
          text.c_str(), pad.c_str(), property.c_str());
  c.check(b.warning().empty(), "there is more than one warning");
}

// Pads follow the element's settings until they have their own, and change while playing.
void live_settings(Case& c) {
  Batches b(kRows[0], "max-wait=4294967295", "8:8:3:2");
  for (guint i = 0; i < 2; i++) b.add(i, {"RGB", 8, 4});
  gst_util_set_object_arg(G_OBJECT(b.pad(1)), "fill-color", "0xff0000ff");
  b.play();
  const auto blue_of = [](const std::string& row) {
    return reinterpret_cast<const float*>(row.data())[2 * 64];  // in the border
  };
  for (const auto& [text, want] : {std::pair("0xff000000", 0.0f), {"0xff000033", 0.2f}}) {
    gst_util_set_object_arg(G_OBJECT(b.batcher()), "fill-color", text);
    b.push(0, 1);
    b.push(1, 1);
    const BufferPtr batch = b.pull();
    if (!batch) return c.fail("no batch: %s", b.error().c_str());
    c.check(blue_of(row_of(batch.get(), 0)) == want, "the pad did not follow to %s", text);
    c.check(blue_of(row_of(batch.get(), 1)) == 1.0f, "the pad lost its own setting");
  }
}

// A batch that can be made where the last one was stays there. Each change of the backend has a
// message.
void same_backend(Case& c) {
  Batches b(kRows[0], "backend=auto max-wait=4294967295", "8:8:3:1");
  b.add(0, {"RGB", 8, 4});
  b.play();
  for (guint k = 0; k < 3; k++) {
    b.push(0, k);
    if (!b.pull()) return c.fail("no batch %u: %s", k, b.error().c_str());
  }
  std::string messages;
  for (guint k = 0; k < 4; k++) messages += b.info_message();
  c.check(messages.find("Filtering on the ") == 0 && messages.rfind("Filtering on the ") == 0,
          "the messages are: %s", messages.c_str());
}

void cases(Suite& s) {
  const std::string at = "cudaletterboxbatch/";
  for (const Row& row : kRows) {
    const std::string in = at + row.name + "/";
    for (const RowsCase& t : kRowsCases)
      s.run(in + "rows: " + t.name, [&](Case& c) { rows(c, row, t); });
    s.run(in + "absent rows", [&](Case& c) { partial(c, row); });
    s.run(in + "caps that change", [&](Case& c) { change_caps(c, row); });
    s.run(in + "pads that come and go",
          [&](Case& c) { churn(c, row, row.needs_device() ? 20 : c.options().cycles); });
    s.run(in + "nothing left", [&](Case& c) { nothing_left(c, row); });
    s.run(in + "a frame that is too small", [&](Case& c) { bad_frame(c, row); });
    int number = 0;
    for (const guint pads : {1u, 7u, 64u})
      for (const char* settings :
           {"", "late=drop", "sync=pts", "sync=pts late=drop", "max-per-stream=3"})
        s.run(in + "random streams, " + std::to_string(pads) + " pads " + settings,
              [&, pads, settings, number](Case& c) {
                random_streams(c, row, pads, settings, c.options().seed + guint64(number));
              }),
            number++;
  }
#if VF_HAVE_GST_CUDA
  s.run(at + "memory of two devices and of the system", mixed_memory);
#endif
  for (const PolicyCase& t : kPolicies)
    s.run(at + "policy: " + t.name, [&](Case& c) { policy(c, t); });
  s.run(at + "segments", segments);
  s.run(at + "batches reuse their memory", reused);
  s.run(at + "latency", latency);
  s.run(at + "quality of service", quality);
  s.run(at + "a live frame waits from its arrival", wait_from_arrival);
  s.run(at + "live frames that have piled up", live_backlog);
  s.run(at + "streams that end", ends);
  s.run(at + "flushes of one pad", flush);
  s.run(at + "gaps", gaps);
  for (const RefusedCase& t : kRefused)
    s.run(at + "refused: " + t.text, [&](Case& c) { refused(c, t); });
  s.run(at + "caps without dimensions", default_caps);
  s.run(at + "nothing behind takes tensors", nothing_takes_tensors);
  s.run(at + "caps that cannot be used", refused_caps);
  s.run(at + "settings that cannot be used", bad_setting);
  s.run(at + "a setting that cannot be used from the start", bad_setting_at_start);
  s.run(at + "settings of pads and element", live_settings);
  s.run(at + "the backend stays the same", same_backend);
  batch_fault_cases(s);
}

}  // namespace

extern const Element letterboxbatch_element = [] {
  Element e;
  e.name = "cudaletterboxbatch";
  e.own_cases = cases;
  e.not_filter = "it makes one tensor of many streams";
  return e;
}();

}  // namespace vf::test
