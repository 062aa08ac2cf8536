#include <gst/video/navigation.h>

#include <cmath>
#include <cstring>

#include "filters/letterbox.h"
#include "gst/base/analytics.h"
#include "gst/letterbox/letterboxmeta.h"
#include "gst/letterbox/restoredframe.h"
#include "tests/elements/letterboxchain.h"

namespace vf::test {
namespace {

// Describes the output as a line: c640x480 for caps, s for a segment, a frame's number with ! in
// front if it is marked DISCONT, e for EOS, f for a flush.
std::string story(const std::vector<Outcome>& outcome) {
  std::string text;
  for (const Outcome& o : outcome) {
    std::string word;
    GstVideoInfo info;
    if (o.buffer) {
      word = (GST_BUFFER_IS_DISCONT(o.buffer.get()) ? "!" : "") +
             std::to_string(number_of(o.buffer.get()));
    } else if (o.event == GST_EVENT_CAPS) {
      GstCaps* caps = gst_caps_from_string(o.caps.c_str());
      if (gst_video_info_from_caps(&info, caps))
        word = "c" + std::to_string(info.width) + "x" + std::to_string(info.height);
      gst_caps_unref(caps);
    } else if (o.event == GST_EVENT_SEGMENT) {
      word = "s";
    } else if (o.event == GST_EVENT_EOS) {
      word = "e";
    } else if (o.event == GST_EVENT_FLUSH_STOP) {
      word = "f";
    } else {
      continue;
    }
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

void expect(Case& c, Chain& chain, const char* want) {
  const std::string got = story(chain.outcome());
  const std::string error = chain.error();
  c.check(got == want, "out came \"%s\", not \"%s\": %s", got.c_str(), want, error.c_str());
}

constexpr char kHold[] =
    "queue name=hold max-size-buffers=0 max-size-bytes=0 max-size-time=0 min-threshold-buffers=";

void caps_change(Case& c, const Row& row) {
  if (!usable(c, row)) return;
  // All frames are in the queue when the caps change. The harness sends a segment after caps.
  Chain chain(row, std::string(kHold) + "100");
  chain.keeps_buffers = true;
  int frame = 0;
  const struct {
    const char* format;
    int width, height;
  } videos[] = {{"I420", 160, 90}, {"NV12", 90, 160}, {"NV12", 33, 17}};
  for (const auto& v : videos) {
    const GstVideoInfo info = video_info(v.format, v.width, v.height);
    chain.caps(info, row.cuda_caps);
    const BufferPtr made = make_frame(row.cuda_caps, info, 3);
    for (int i = 0; i < 3; i++) chain.push(alone(made, frame++));
  }
  chain.event(gst_event_new_eos());
  for (int i = 0; i < frame; i++) chain.pull();
  // EOS arrives in the queue's thread.
  while (!gst_pad_get_sticky_event(chain.harness()->sinkpad, GST_EVENT_EOS, 0)) g_usleep(1000);
  expect(c, chain, "c160x90 s 0 1 2 s c90x160 3 4 5 s c33x17 6 7 8 e");
}

void flush(Case& c, const GstVideoInfo& info) {
  for (const char* dropped : {"dropped=drop", "dropped=restore"}) {
    Chain chain(kRows[0], std::string(kHold) + "100", dropped);
    chain.keeps_buffers = true;
    chain.caps(info);
    const BufferPtr made = make_frame(false, info, 3);
    const int memories = GST_MINI_OBJECT_REFCOUNT_VALUE(gst_buffer_peek_memory(made.get(), 0));
    for (int i = 0; i < 20; i++) chain.push(alone(made, i));
    chain.event(gst_event_new_flush_start());
    chain.event(gst_event_new_flush_stop(TRUE));
    const int after = GST_MINI_OBJECT_REFCOUNT_VALUE(gst_buffer_peek_memory(made.get(), 0));
    c.check(after == memories, "%s: %d originals are still held", dropped, after - memories);
    chain.outcome();
    chain.segment();
    for (int i = 30; i < 33; i++) chain.push(alone(made, i));
    chain.event(gst_event_new_eos());
    for (int i = 0; i < 3; i++) chain.pull();
    while (!gst_pad_get_sticky_event(chain.harness()->sinkpad, GST_EVENT_EOS, 0)) g_usleep(1000);
    const std::string got = story(chain.outcome());
    c.check(got.find("s 30 31 32 e") != std::string::npos && got.find("19") == std::string::npos,
            "%s: out came \"%s\"", dropped, got.c_str());
  }
}

// The network drops frame 8 and all frames with odd numbers.
bool lost(GstBuffer* b) {
  const int n = number_of(b);
  return n % 2 || n == 8;
}

void dropped_frames(Case& c, const GstVideoInfo& info) {
  const struct {
    const char *restorer, *want;
  } rows[] = {
      {"dropped=drop", "c160x90 s 0 2 4 6 10 e"},
      {"dropped=restore", "c160x90 s 0 1 2 3 4 5 6 7 8 9 10 11 e"},
      {"dropped=restore max-dropped=2", "c160x90 s 0 1 2 3 4 5 6 9 10 11 e"},
  };
  for (const auto& row : rows) {
    Chain chain(kRows[0], "", row.restorer);
    chain.keeps_buffers = true;
    chain.network = [](GstBuffer* b) {
      gst_buffer_add_video_region_of_interest_meta(b, "seen", 16, 20, 4, 4);
      return !lost(b);
    };
    chain.caps(info);
    const BufferPtr made = make_frame(false, info, 3);
    for (int i = 0; i < 12; i++) chain.push(alone(made, i));
    chain.event(gst_event_new_eos());
    std::vector<Outcome> outcome = chain.outcome();
    for (const Outcome& o : outcome) {
      if (!o.buffer) continue;
      const bool seen = region(o.buffer.get(), 0), was_lost = lost(o.buffer.get());
      c.check(seen == !was_lost, "%s: frame %d %s a region", row.restorer,
              number_of(o.buffer.get()), seen ? "has" : "has not");
    }
    const std::string got = story(outcome);
    c.check(got == row.want, "%s: out came \"%s\", not \"%s\"", row.restorer, got.c_str(),
            row.want);
  }
}

// An element downstream may flush, as a loop does, from the thread that pushes the caps or the
// original of a dropped frame.
void flush_from_downstream(Case& c, const GstVideoInfo& info) {
  for (const GstPadProbeType at :
       {GST_PAD_PROBE_TYPE_BUFFER, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM}) {
    Chain chain(kRows[0], "", "dropped=restore");
    chain.keeps_buffers = true;
    const auto flush = [](GstPad*, GstPadProbeInfo* info, gpointer data) {
      if (info->type & GST_PAD_PROBE_TYPE_BUFFER
              ? number_of(GST_PAD_PROBE_INFO_BUFFER(info)) != 1
              : GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) != GST_EVENT_CAPS)
        return GST_PAD_PROBE_OK;
      auto* chain = static_cast<Chain*>(data);
      chain->event(gst_event_new_flush_start());
      chain->event(gst_event_new_flush_stop(TRUE));
      chain->segment();
      return GST_PAD_PROBE_REMOVE;
    };
    gst_pad_add_probe(chain.harness()->sinkpad, at, flush, &chain, nullptr);
    chain.network = [](GstBuffer* b) { return !lost(b); };
    chain.caps(info);
    const BufferPtr made = make_frame(false, info, 3);
    for (int i = 0; i < 3; i++) chain.push(alone(made, i));
    chain.segment();
    for (int i = 3; i < 5; i++) chain.push(alone(made, i));
    chain.event(gst_event_new_eos());
    const std::string got = story(chain.outcome()), error = chain.error();
    c.check(error.empty() && got.find("s 3 4 e") != std::string::npos, "%s \"%s\"", error.c_str(),
            got.c_str());
  }
}

// Dropped frames are restored before the caps, the segment and the EOS that followed them.
void dropped_at_borders(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0], "queue", "dropped=restore");
  chain.keeps_buffers = true;
  chain.network = [](GstBuffer* b) { return number_of(b) % 4 == 0; };
  const GstVideoInfo small = video_info("I420", 32, 20);
  const BufferPtr made = make_frame(false, info, 3), other = make_frame(false, small, 3);
  chain.caps(info);
  for (int i = 0; i < 3; i++) chain.push(alone(made, i));
  chain.segment(1);
  for (int i = 3; i < 7; i++) chain.push(alone(made, i));
  chain.caps(small);
  for (int i = 7; i < 10; i++) chain.push(alone(other, i));
  // The network drops all frames of this segment.
  chain.segment(2);
  for (int i = 10; i < 12; i++) chain.push(alone(other, i));
  chain.event(gst_event_new_eos());
  while (!gst_pad_get_sticky_event(chain.harness()->sinkpad, GST_EVENT_EOS, 0)) g_usleep(1000);
  expect(c, chain, "c160x90 s 0 1 2 s 3 4 5 6 s c32x20 7 8 9 s 10 11 e");
}

void leaky_queue(Case& c, const GstVideoInfo& info) {
  // The queue drops waiting frames because the network is slow.
  Chain chain(kRows[0], "queue leaky=downstream max-size-buffers=2 ! identity sleep-time=3000",
              "dropped=restore max-dropped=0");
  chain.keeps_buffers = true;
  chain.caps(info);
  const BufferPtr made = make_frame(false, info, 3);
  constexpr int kFrames = 60;
  for (int i = 0; i < kFrames; i++) chain.push(alone(made, i));
  chain.event(gst_event_new_eos());
  for (int i = 0; i < kFrames && c.ok(); i++) {
    const BufferPtr out = chain.pull();
    c.check(number_of(out.get()) == i, "frame %d came in place of frame %d", number_of(out.get()),
            i);
  }
}

void discont_after_drop(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0], "queue name=q leaky=upstream max-size-buffers=1");
  chain.caps(info);
  chain.keeps_buffers = true;
  chain.network = [](GstBuffer* b) {
    if (number_of(b) == 3) GST_BUFFER_FLAG_SET(b, GST_BUFFER_FLAG_DISCONT);
    return true;
  };
  const BufferPtr made = make_frame(false, info, 3);
  for (int i = 0; i < 5; i++) {
    chain.push(alone(made, i));
    chain.pull();
  }
  expect(c, chain, "c160x90 s 0 1 2 !3 4");
}

void ends_without_frames(Case& c) {
  Chain chain(kRows[0]);
  chain.caps(video_info("I420", 160, 90));
  chain.event(gst_event_new_gap(0, GST_SECOND));
  c.check(chain.event(gst_event_new_eos()), "the end was refused");
  expect(c, chain, "s e");
}

void seeks(Case& c) {
  for (const char* properties : {"dropped=drop", "dropped=restore"}) {
    GError* error = nullptr;
    GstElement* pipeline = gst_parse_launch(
        (std::string("videotestsrc num-buffers=100 pattern=ball ! "
                     "video/x-raw,format=I420,width=160,height=90,framerate=25/1 ! tee name=t "
                     "t. ! queue ! appsink name=plain sync=false max-buffers=4 "
                     "t. ! queue ! cudaletterbox backend=cpu keep-original=true ! "
                     "video/x-raw,format=RGB,width=64,height=64 ! queue ! "
                     "cudaletterboxrestore name=r ") +
         properties + " ! appsink name=restored sync=false max-buffers=4")
            .c_str(),
        &error);
    if (!pipeline) return c.fail("%s", error->message);
    GstElement* sinks[] = {gst_bin_get_by_name(GST_BIN(pipeline), "plain"),
                           gst_bin_get_by_name(GST_BIN(pipeline), "restored")};
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    for (const int start : {0, 50, 10}) {
      // A pipeline that is still changing to PLAYING, although its sinks give samples, may lose a
      // sample when another flush stops it.
      gst_element_get_state(pipeline, nullptr, nullptr, 30 * GST_SECOND);
      if (start)
        // The seek goes to one sink. A seek on the pipeline would flush once per sink, the second
        // time perhaps after a sample.
        c.check(gst_element_seek_simple(sinks[1], GST_FORMAT_TIME,
                                        GstSeekFlags(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE),
                                        guint64(start) * 40 * GST_MSECOND),
                "cannot seek");
      for (int i = 0; i < 7 && c.ok(); i++) {
        GstSample* samples[2] = {};
        for (int k = 0; k < 2; k++) {
          g_signal_emit_by_name(sinks[k], "try-pull-sample", 30 * GST_SECOND, &samples[k]);
          if (!samples[k])
            return c.fail("%s: no frame %d of %s, which is %s, after a seek to %d", properties, i,
                          k ? "the restorer" : "the source",
                          gst_element_state_get_name(GST_STATE(sinks[k])), start);
        }
        GstBuffer *plain = gst_sample_get_buffer(samples[0]),
                  *restored = gst_sample_get_buffer(samples[1]);
        c.check(number_of(restored) == start + i && number_of(plain) == start + i,
                "after a seek to %d, frames %d and %d", start, number_of(plain),
                number_of(restored));
        const GstVideoInfo info = video_info("I420", 160, 90);
        const std::string why = difference(info, restored, plain, 0);
        c.check(why.empty(), "frame %d differs: %s", start + i, why.c_str());
        c.check(gst_caps_is_equal(gst_sample_get_caps(samples[0]), gst_sample_get_caps(samples[1])),
                "other caps");
        for (GstSample* s : samples) gst_sample_unref(s);
      }
    }
    gst_element_set_state(pipeline, GST_STATE_NULL);
    for (GstElement* s : sinks) gst_object_unref(s);
    gst_object_unref(pipeline);
  }
}

void latency(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0]);
  gst_harness_set_upstream_latency(chain.harness(), 7 * GST_MSECOND);
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  c.check(gst_harness_query_latency(chain.harness()) == 7 * GST_MSECOND,
          "latency %" G_GUINT64_FORMAT, gst_harness_query_latency(chain.harness()));
}

// cudaletterbox asks the restorer by a query of its own.
void other_queries(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0]);
  chain.caps(info);
  GstElement* restorer = chain.get("restorer");
  GstPad* pad = gst_element_get_static_pad(restorer, "sink");
  GstQuery* query = gst_query_new_custom(GST_QUERY_CUSTOM, gst_structure_new_empty("another"));
  c.check(!gst_pad_query(pad, query), "a query that it does not know is answered");
  gst_query_unref(query);
  gst_object_unref(pad);
  gst_object_unref(restorer);
}

void navigation(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0]);
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  gst_harness_push_upstream_event(
      chain.harness(), gst_navigation_event_new_mouse_move(101, 37, GST_NAVIGATION_MODIFIER_NONE));
  double x = 0, y = 0;
  while (GstEvent* event = gst_harness_try_pull_upstream_event(chain.harness())) {
    if (GST_EVENT_TYPE(event) == GST_EVENT_NAVIGATION)
      gst_navigation_event_get_coordinates(event, &x, &y);
    gst_event_unref(event);
  }
  c.check(std::fabs(x - 101) < 1e-9 && std::fabs(y - 37) < 1e-9, "at %g, %g", x, y);
}

}  // namespace

void restored_stream_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  for (const Row& row : kRows)
    s.run(at + row.name + "/caps that change, with frames in flight",
          [&](Case& c) { caps_change(c, row); });
  s.run(at + "a flush drops frames on the way", [&](Case& c) { flush(c, info); });
  s.run(at + "a flush from downstream", [&](Case& c) { flush_from_downstream(c, info); });
  s.run(at + "frames that were dropped", [&](Case& c) { dropped_frames(c, info); });
  s.run(at + "frames dropped before caps, segments and EOS",
        [&](Case& c) { dropped_at_borders(c, info); });
  s.run(at + "a leaky queue", [&](Case& c) { leaky_queue(c, info); });
  s.run(at + "a gap in the network's frames marks the originals",
        [&](Case& c) { discont_after_drop(c, info); });
  s.run(at + "EOS without frames", ends_without_frames);
  s.run(at + "seeks", seeks);
  s.run(at + "no latency", [&](Case& c) { latency(c, info); });
  s.run(at + "other queries", [&](Case& c) { other_queries(c, info); });
  s.run(at + "navigation goes both ways", [&](Case& c) { navigation(c, info); });
}

}  // namespace vf::test
