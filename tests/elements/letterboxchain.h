// Runs cudaletterboxrestore behind cudaletterbox, with a simulated network between them.
#pragma once

#include <functional>

#include "gst/gstcudaletterboxmeta.h"
#include "tests/elements/harness.h"

namespace vf::test {

constexpr char kSquare[] = "video/x-raw(ANY),format=RGB,width=64,height=64,pixel-aspect-ratio=1/1";
constexpr char kCudaSquare[] =
    "video/x-raw(memory:CUDAMemory),format=RGB,width=64,height=64,pixel-aspect-ratio=1/1";

// Handles each letterboxed buffer. Returns true if the buffer goes on.
using Network = std::function<bool(GstBuffer* buffer)>;

// Records one buffer or event that came out.
struct Outcome {
  BufferPtr buffer;
  GstEventType event = GST_EVENT_UNKNOWN;
  std::string caps;  // set for a caps event
};

// Runs a letterbox, a network and a restorer in a harness.
class Chain {
 public:
  explicit Chain(const Row& row, const std::string& between = "", const std::string& restorer = "",
                 const char* caps = nullptr) {
    const std::string line =
        std::string("cudaletterbox name=letterbox keep-original=true backend=") + row.backend +
        " async-depth=" + std::to_string(row.async_depth) + " ! " +
        (caps            ? caps
         : row.cuda_caps ? kCudaSquare
                         : kSquare) +
        " ! identity name=network ! " + between + (between.empty() ? "" : " ! ") +
        "cudaletterboxrestore name=restorer " + restorer;
    GError* error = nullptr;
    bin_ = gst_parse_bin_from_description(line.c_str(), TRUE, &error);
    if (!bin_) g_error("%s: %s", line.c_str(), error->message);
    gst_object_ref_sink(bin_);
    if (row.needs_device()) give_context(bin_);
    bus_ = gst_bus_new();
    gst_element_set_bus(bin_, bus_);
    check_details_on(bus_);
    GstElement* network = get("network");
    GstPad* pad = gst_element_get_static_pad(network, "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, pass, this, nullptr);
    gst_object_unref(pad);
    gst_object_unref(network);
    harness_ = gst_harness_new_with_element(bin_, "sink", "src");
    gst_pad_add_probe(
        harness_->sinkpad,
        GstPadProbeType(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM), hear,
        this, nullptr);
  }
  ~Chain() {
    gst_harness_teardown(harness_);
    gst_element_set_state(bin_, GST_STATE_NULL);
    gst_element_set_bus(bin_, nullptr);
    gst_object_unref(bus_);
    gst_object_unref(bin_);
  }
  Chain(const Chain&) = delete;

  GstElement* get(const char* name) { return gst_bin_get_by_name(GST_BIN(bin_), name); }
  GstHarness* harness() { return harness_; }
  void set(const char* name, const char* value) {
    GstElement* letterbox = get("letterbox");
    gst_util_set_object_arg(G_OBJECT(letterbox), name, value);
    gst_object_unref(letterbox);
  }
  void caps(const GstVideoInfo& info, bool cuda = false) {
    GstCaps* caps = gst_video_info_to_caps(&info);
    if (cuda) gstvf::set_caps_in_cuda(caps);
    gst_harness_set_src_caps(harness_, caps);
  }
  GstFlowReturn push(GstBuffer* buffer) { return gst_harness_push(harness_, buffer); }
  GstFlowReturn push(const BufferPtr& buffer) { return push(gst_buffer_ref(buffer.get())); }
  bool event(GstEvent* event) { return gst_harness_push_event(harness_, event); }
  void segment(GstClockTime start = 0) {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.start = segment.time = start;
    event(gst_event_new_segment(&segment));
  }
  // Waits for the next buffer.
  BufferPtr pull() { return own(gst_harness_pull(harness_)); }
  BufferPtr try_pull() { return own(gst_harness_try_pull(harness_)); }
  std::string error() { return error_on(bus_); }
  std::vector<Outcome> outcome() {
    g_mutex_lock(&lock_);
    std::vector<Outcome> all;
    all.swap(outcome_);
    g_mutex_unlock(&lock_);
    return all;
  }

  Network network;

 private:
  static GstPadProbeReturn pass(GstPad*, GstPadProbeInfo* info, gpointer data) {
    auto* self = static_cast<Chain*>(data);
    if (!self->network) return GST_PAD_PROBE_OK;
    info->data = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    return self->network(GST_PAD_PROBE_INFO_BUFFER(info)) ? GST_PAD_PROBE_OK : GST_PAD_PROBE_DROP;
  }
  static GstPadProbeReturn hear(GstPad*, GstPadProbeInfo* info, gpointer data) {
    auto* self = static_cast<Chain*>(data);
    Outcome o;
    if (GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER) {
      if (!self->keeps_buffers) return GST_PAD_PROBE_OK;
      o.buffer = own(gst_buffer_ref(GST_PAD_PROBE_INFO_BUFFER(info)));
    } else {
      GstEvent* event = GST_PAD_PROBE_INFO_EVENT(info);
      o.event = GST_EVENT_TYPE(event);
      GstCaps* caps = nullptr;
      if (o.event == GST_EVENT_CAPS) gst_event_parse_caps(event, &caps);
      if (caps) {
        gchar* text = gst_caps_to_string(caps);
        o.caps = text;
        g_free(text);
      }
    }
    g_mutex_lock(&self->lock_);
    self->outcome_.push_back(o);
    g_mutex_unlock(&self->lock_);
    return GST_PAD_PROBE_OK;
  }

 public:
  bool keeps_buffers = false;  // whether outcome() includes them

 private:
  GstElement* bin_;
  GstBus* bus_;
  GstHarness* harness_;
  GMutex lock_ = {};
  std::vector<Outcome> outcome_;
};

// Makes a buffer with a timestamp that nobody else holds.
inline GstBuffer* alone(const BufferPtr& made, int number) {
  GstBuffer* buffer = gst_buffer_copy(made.get());
  // Only the memory is shared with `made`.
  GST_BUFFER_PTS(buffer) = guint64(number) * 40 * GST_MSECOND;
  GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
  return buffer;
}

inline int number_of(GstBuffer* buffer) {
  return buffer ? int(GST_BUFFER_PTS(buffer) / (40 * GST_MSECOND)) : -1;
}

inline GstVideoRegionOfInterestMeta* region(GstBuffer* buffer, guint n) {
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta_filtered(
             buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE))
    if (n-- == 0) return reinterpret_cast<GstVideoRegionOfInterestMeta*>(meta);
  return nullptr;
}

inline std::string described(const GstVideoRegionOfInterestMeta* r) {
  if (!r) return "none";
  return std::string(g_quark_to_string(r->roi_type)) + " " + std::to_string(r->id) + "<" +
         std::to_string(r->parent_id) + " " + std::to_string(r->x) + "," + std::to_string(r->y) +
         " " + std::to_string(r->w) + "x" + std::to_string(r->h) + " " +
         std::to_string(g_list_length(r->params));
}

// Test the metas that come back, and what happens when streams change.
void restored_meta_cases(Suite& s, const std::string& at, const GstVideoInfo& info);
void restored_stream_cases(Suite& s, const std::string& at, const GstVideoInfo& info);

}  // namespace vf::test
