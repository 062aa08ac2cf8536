#include "bench/pipeline/stream.h"

#include <gst/base/gstbasesink.h>
#include <gst/video/video.h>

#include "gst/base/cudacompat.h"

namespace vf::bench {

void feed(GstAppSrc* source, guint, gpointer data) {
  auto* s = static_cast<Stream*>(data);
  const Clip& clip = *s->clip;
  const GstClockTime pts = s->pushed * clip.duration;
  if (s->rate > 0 && s->gate->is_open()) {
    // Timestamps are those of a camera.
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
  const guint64 n = s->left.load(std::memory_order_relaxed);
  if (!s->gate->pass(n)) {
    gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
    GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_EOS;
    return GST_PAD_PROBE_HANDLED;
  }
  if (s->boxes) {
    GstBuffer* buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    for (int i = 0; i < s->boxes; i++)
      gst_buffer_add_video_region_of_interest_meta(buffer, "face", guint(60 + 230 * i),
                                                   guint(100 + 90 * i), 200, 200);
    info->data = buffer;
  }
  s->left_at[n % Stream::kRing].store(g_get_monotonic_time(), std::memory_order_relaxed);
  s->left.store(n + 1, std::memory_order_release);
  return GST_PAD_PROBE_OK;
}

namespace {

// Returns whether a frame is in the memory of another device than its stream's.
bool is_astray(GstBuffer* buffer, int device) {
  GstMemory* memory = gstvf::cuda_memory(buffer);
  return memory && gstvf::context_device(gstvf::memory_context(memory)) != guint(device);
}

}  // namespace

GstPadProbeReturn arrives(GstPad* pad, GstPadProbeInfo* info, gpointer data) {
  frame_arrives(pad, GST_PAD_PROBE_INFO_BUFFER(info), static_cast<Stream*>(data));
  return GST_PAD_PROBE_OK;
}

void frame_arrives(GstPad* pad, GstBuffer* frame, Stream* s) {
  const guint64 n = s->arrived.fetch_add(1);
  // Looking at every frame would cost more than some of the chains.
  if (n % 64 == 0 && is_astray(frame, s->device)) s->strayed = true;
  if (!s->measuring) return;
  const gint64 at = s->left_at[n % Stream::kRing].load(std::memory_order_relaxed);
  s->latency.push_back(float(double(g_get_monotonic_time() - at) / 1000));
  if (s->rate > 0) {
    GstElement* sink = gst_pad_get_parent_element(pad);
    GstClock* clock = gst_element_get_clock(sink);
    const GstClockTime due = gst_element_get_base_time(sink) + GST_BUFFER_PTS(frame) +
                             gst_base_sink_get_latency(GST_BASE_SINK(sink));
    s->late.push_back(float(double(GstClockTimeDiff(gst_clock_get_time(clock) - due)) / 1e6));
    gst_object_unref(clock);
    gst_object_unref(sink);
  }
}

}  // namespace vf::bench
