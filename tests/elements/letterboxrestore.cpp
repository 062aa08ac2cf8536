// Tests cudaletterboxrestore behind cudaletterbox, with a simulated network between them.
#include <gst/video/navigation.h>

#include <cmath>
#include <cstring>
#include <random>

#include "filters/letterbox.h"
#include "gst/base/analytics.h"
#include "gst/gstcudaletterboxmeta.h"
#include "gst/letterbox/letterboxmeta.h"
#include "gst/letterbox/restoredframe.h"
#include "tests/elements/harness.h"

namespace vf::test {
namespace {

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
    gst_bus_set_sync_handler(
        bus_,
        [](GstBus*, GstMessage* message, gpointer) {
          check_details(message);
          return GST_BUS_PASS;
        },
        nullptr, nullptr);
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
GstBuffer* alone(const BufferPtr& made, int number) {
  GstBuffer* buffer = gst_buffer_copy(made.get());
  // Only the memory is shared with `made`.
  GST_BUFFER_PTS(buffer) = guint64(number) * 40 * GST_MSECOND;
  GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
  return buffer;
}

int number_of(GstBuffer* buffer) {
  return buffer ? int(GST_BUFFER_PTS(buffer) / (40 * GST_MSECOND)) : -1;
}

GstVideoRegionOfInterestMeta* region(GstBuffer* buffer, guint n) {
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta_filtered(
             buffer, &state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE))
    if (n-- == 0) return reinterpret_cast<GstVideoRegionOfInterestMeta*>(meta);
  return nullptr;
}

std::string described(const GstVideoRegionOfInterestMeta* r) {
  if (!r) return "none";
  return std::string(g_quark_to_string(r->roi_type)) + " " + std::to_string(r->id) + "<" +
         std::to_string(r->parent_id) + " " + std::to_string(r->x) + "," + std::to_string(r->y) +
         " " + std::to_string(r->w) + "x" + std::to_string(r->h) + " " +
         std::to_string(g_list_length(r->params));
}

// Buffers

void very_buffer(Case& c, const Row& row, const GstVideoInfo& info) {
  if (!usable(c, row)) return;
  Chain chain(row);
  chain.caps(info, row.cuda_caps);
  for (int i = 0; i < 5; i++) {
    const BufferPtr made = make_frame(row.cuda_caps, info, guint32(i));
    const BufferPtr before = packed_copy(info, made.get());
    GstMemory* memory = gst_buffer_peek_memory(made.get(), 0);
    GstBuffer* in = alone(made, i);
    c.check(chain.push(in) == GST_FLOW_OK, "flow: %s", chain.error().c_str());
    const BufferPtr out = chain.try_pull();
    if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
    c.check(out.get() == in, "another buffer came out");
    c.check(gst_buffer_peek_memory(out.get(), 0) == memory, "another memory came out");
    c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(out.get()) == 1, "somebody else holds it");
    c.check(number_of(out.get()) == i, "frame %d has the time of frame %d", i,
            number_of(out.get()));
    const std::string why = difference(info, packed_copy(info, out.get()).get(), before.get(), 0);
    c.check(why.empty(), "pixels changed: %s", why.c_str());
    c.check(!gst_buffer_get_cuda_letterbox_original_meta(out.get()) &&
                !gst_buffer_get_custom_meta(out.get(), GST_CUDA_LETTERBOX_META_NAME),
            "a meta of the letterbox is on the original");
  }
}

void exact_caps(Case& c, const Row& row) {
  if (!usable(c, row)) return;
  Chain chain(row);
  GstCaps* caps = gst_caps_from_string(
      "video/x-raw,format=NV12,width=160,height=90,framerate=30000/1001,"
      "pixel-aspect-ratio=4/3,colorimetry=bt601,chroma-site=jpeg,interlace-mode=progressive,"
      "multiview-mode=mono,something-else=7");
  if (row.cuda_caps) gstvf::set_caps_in_cuda(caps);
  gst_harness_set_src_caps(chain.harness(), gst_caps_ref(caps));
  GstVideoInfo info;
  gst_video_info_from_caps(&info, caps);
  chain.push(make_frame(row.cuda_caps, info, 1));
  GstCaps* out = gst_pad_get_current_caps(chain.harness()->sinkpad);
  gchar* text = out ? gst_caps_to_string(out) : g_strdup("none");
  c.check(out && gst_caps_is_strictly_equal(out, caps), "caps %s: %s", text, chain.error().c_str());
  g_free(text);
  gst_clear_caps(&out);
  gst_caps_unref(caps);
}

void shared_buffer(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0]);
  chain.network = [](GstBuffer* b) {
    gst_buffer_add_video_region_of_interest_meta(b, "face", 16, 22, 20, 12);
    return true;
  };
  chain.caps(info);
  const BufferPtr in = make_frame(false, info, 3);
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
  c.check(out != in && !region(in.get(), 0), "a buffer of somebody else was changed");
  c.check(region(out.get(), 0), "no region");
  c.check(gst_buffer_peek_memory(out.get(), 0) == gst_buffer_peek_memory(in.get(), 0),
          "the memory was copied");
}

// Buffers return to their pool, whether they are shared on the way or not, but not before the
// original has been used.
void pool_case(Case& c, const GstVideoInfo& info, bool share) {
  Chain chain(kRows[0]);
  chain.caps(info);
  GstBufferPool* pool = gst_video_buffer_pool_new();
  GstStructure* config = gst_buffer_pool_get_config(pool);
  GstCaps* caps = gst_video_info_to_caps(&info);
  gst_buffer_pool_config_set_params(config, caps, guint(info.size), 1, 1);
  gst_caps_unref(caps);
  gst_buffer_pool_set_config(pool, config);
  gst_buffer_pool_set_active(pool, TRUE);
  GstBufferPoolAcquireParams wait = {};
  wait.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
  GstMemory* first = nullptr;
  for (int i = 0; i < 20 && c.ok(); i++) {
    GstBuffer* in = nullptr;
    if (gst_buffer_pool_acquire_buffer(pool, &in, &wait) != GST_FLOW_OK) {
      c.fail("frame %d: the pool has not got its buffer back", i);
      break;
    }
    GstMemory* memory = gst_buffer_peek_memory(in, 0);
    if (!first) first = memory;
    const BufferPtr held = share ? own(gst_buffer_ref(in)) : nullptr;
    chain.push(in);
    BufferPtr out = chain.try_pull();
    c.check(out != nullptr, "nothing came out: %s", chain.error().c_str());
    GstBuffer* again = nullptr;
    c.check(gst_buffer_pool_acquire_buffer(pool, &again, &wait) != GST_FLOW_OK,
            "the pool has its buffer back while the original is used");
    gst_clear_buffer(&again);
    c.check(share || memory == first, "the pool lost its memory");
  }
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

void duplicates(Case& c, const GstVideoInfo& info) {
  // Each frame is sent twice, as by videorate.
  Chain chain(kRows[0], "tee name=t ! queue ! funnel name=f t. ! queue ! f. f.");
  chain.caps(info);
  const BufferPtr made = make_frame(false, info, 3);
  for (int i = 0; i < 10; i++) chain.push(alone(made, i));
  for (int i = 0; i < 20; i++) {
    const BufferPtr out = chain.pull();
    c.check(out && gst_buffer_peek_memory(out.get(), 0) == gst_buffer_peek_memory(made.get(), 0),
            "buffer %d is another: %s", i, chain.error().c_str());
  }
}

void in_flight(Case& c, const Row& row, const GstVideoInfo& info) {
  if (!usable(c, row)) return;
  constexpr int kMany = 64;
  // The queue releases frames when it holds 65, or at EOS.
  Chain chain(row,
              "queue max-size-buffers=0 max-size-bytes=0 max-size-time=0 "
              "min-threshold-buffers=65");
  chain.caps(info, row.cuda_caps);
  const BufferPtr made = make_frame(row.cuda_caps, info, 3);
  std::vector<GstBuffer*> in;
  for (int i = 0; i < kMany; i++) {
    in.push_back(alone(made, i));
    c.check(chain.push(in.back()) == GST_FLOW_OK, "flow: %s", chain.error().c_str());
  }
  c.check(!chain.try_pull(), "a frame came before it was let go");
  for (GstBuffer* b : in)
    c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(b) == 1, "an original is held %d times",
            GST_MINI_OBJECT_REFCOUNT_VALUE(b));
  chain.event(gst_event_new_eos());
  for (int i = 0; i < kMany; i++) {
    const BufferPtr out = chain.pull();
    c.check(out.get() == in[size_t(i)] && number_of(out.get()) == i, "frame %d is another", i);
  }
}

// Returns the visible part of a planar frame (its crop meta, if it has one) in packed system
// memory.
BufferPtr packed_part(const GstVideoInfo& info, GstBuffer* frame) {
  const BufferPtr view = own(gst_buffer_copy(frame));
  GstVideoMeta* meta = gst_buffer_get_video_meta(view.get());
  if (const GstVideoCropMeta* crop = gst_buffer_get_video_crop_meta(frame))
    for (guint p = 0; p < meta->n_planes; p++)
      meta->offset[p] += (crop->y >> info.finfo->h_sub[p]) * gsize(meta->stride[p]) +
                         (crop->x >> info.finfo->w_sub[p]);
  return packed_copy(info, view.get());
}

// Checks the original as an element sees it that knows neither GstVideoMeta nor CUDA.
void check_packed(Case& c, Chain& chain, const GstVideoInfo& info, GstBuffer* in) {
  const BufferPtr want = packed_part(info, in);
  chain.push(gst_buffer_ref(in));
  const BufferPtr out = chain.try_pull();
  const std::string at = std::string(info.finfo->name) + ": ";
  if (!out) return c.fail("%snothing came out: %s", at.c_str(), chain.error().c_str());
  c.check(!gst_buffer_get_video_meta(out.get()) && !gst_buffer_get_video_crop_meta(out.get()),
          "%sa meta about the memory came to who does not know it", at.c_str());
  c.check(gst_buffer_get_size(out.get()) == info.size, "%s%zu bytes, not %zu", at.c_str(),
          gst_buffer_get_size(out.get()), size_t(info.size));
  const std::string why = difference(info, out.get(), want.get(), 0);
  c.check(why.empty(), "%spixels: %s", at.c_str(), why.c_str());
}

// The harness does not answer ALLOCATION queries, so it takes no GstVideoMeta.
void without_video_meta(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0]);
  chain.caps(info);
  Shape padded, part;
  padded.padding = 24;
  part.left = part.top = 4;
  for (const Shape& shape : {padded, part}) {
    const BufferPtr in = make_frame(false, info, 3, shape);
    check_packed(c, chain, info, in.get());
  }
  // GStreamer leaves a row free behind an odd number of rows. Here the chroma follows at once.
  Shape apart;
  apart.apart = true;
  const GstVideoInfo odd = video_info("I420", 64, 47);
  Chain other(kRows[0]);
  other.caps(odd);
  const BufferPtr in = make_frame(false, odd, 3, apart);
  check_packed(c, other, odd, in.get());
}

// Frames have CUDA memory in caps of system memory. They come from an upstream cudadownload, which
// does nothing if the letterbox accepts CUDA memory and GstVideoMeta.
void without_video_meta_cuda(Case& c, const Row& row) {
  if (!usable(c, {"", true, row.backend})) return;
  // This width makes GStreamer pad rows and planes.
  for (const char* format : {"RGBA", "NV12", "I420"}) {
    const GstVideoInfo info = video_info(format, 330, 90);
    Chain chain(row);
    chain.caps(info);
    const BufferPtr in = make_frame(true, info, 3);
    check_packed(c, chain, info, in.get());
  }
#if VF_CUDA_HAND_OVER
  // If GStreamer cannot copy a frame to the host, an error is posted instead of a wrong frame.
  const GstVideoInfo info = video_info("I420", 330, 91);
  Chain chain({"", false, "cuda"});
  chain.caps(info);
  chain.push(make_frame(true, info, 3));
  const std::string error = chain.error();
  c.check(!chain.try_pull() && error.find("GStreamer before 1.24.4") != std::string::npos,
          "an odd height: %s", error.c_str());
#endif
}

void passes_through(Case& c) {
  // The caps are equal on both sides, so the letterbox is in passthrough.
  Chain chain(kRows[0], "", "", "video/x-raw,format=RGB,width=64,height=64");
  const GstVideoInfo info = video_info("RGB", 64, 64);
  chain.network = [](GstBuffer* b) {
    gst_buffer_add_video_region_of_interest_meta(b, "new", 5, 6, 7, 8);
    return true;
  };
  chain.caps(info);
  const BufferPtr made = make_frame(false, info, 3);
  GstBuffer* in = alone(made, 1);
  gst_buffer_add_video_region_of_interest_meta(in, "own", 1, 2, 3, 4);
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
  c.check(out.get() == in, "another buffer came out");
  c.check(described(region(out.get(), 0)) == "own 0<0 1,2 3x4 0" &&
              described(region(out.get(), 1)) == "new 0<0 5,6 7x8 0" && !region(out.get(), 2),
          "regions %s, %s, %s", described(region(out.get(), 0)).c_str(),
          described(region(out.get(), 1)).c_str(), described(region(out.get(), 2)).c_str());
}

void buffer_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  for (const Row& row : kRows) {
    const std::string on = at + row.name + "/";
    s.run(on + "the original buffer itself comes back",
          [&](Case& c) { very_buffer(c, row, info); });
    s.run(on + "the original caps come back with every field",
          [&](Case& c) { exact_caps(c, row); });
    s.run(on + "64 frames in flight", [&](Case& c) { in_flight(c, row, info); });
  }
  Row async = kRows[1];
  async.async_depth = 3;
  s.run(at + "with frames in flight in the letterbox", [&](Case& c) {
    if (!usable(c, async)) return;
    Chain chain(async);
    chain.caps(info);
    const BufferPtr made = make_frame(false, info, 3);
    for (int i = 0; i < 9; i++) chain.push(alone(made, i));
    chain.event(gst_event_new_eos());
    for (int i = 0; i < 9; i++) {
      const BufferPtr out = chain.try_pull();
      c.check(number_of(out.get()) == i, "frame %d came in place of frame %d", number_of(out.get()),
              i);
    }
  });
  s.run(at + "a buffer that others hold does not change", [&](Case& c) { shared_buffer(c, info); });
  s.run(at + "buffers return to their pools", [&](Case& c) { pool_case(c, info, false); });
  s.run(at + "shared buffers return to their pools", [&](Case& c) { pool_case(c, info, true); });
  s.run(at + "duplicated frames", [&](Case& c) { duplicates(c, info); });
  s.run(at + "downstream without GstVideoMeta", [&](Case& c) { without_video_meta(c, info); });
  for (const Row& row : kRows)
    if (!row.cuda_caps)
      s.run(at + row.name + "/downstream without GstVideoMeta, CUDA memory behind cudadownload",
            [&](Case& c) { without_video_meta_cuda(c, row); });
  s.run(at + "a letterbox in passthrough", passes_through);
}

// Metas

void regions(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0]);
  // 160x90 in 64x64 becomes 64x36 from row 14 on: 2.5 pixels become one.
  chain.network = [&c](GstBuffer* b) {
    GstVideoRegionOfInterestMeta* own = region(b, 0);
    if (!own) return c.fail("the original's region did not come"), true;
    gst_video_region_of_interest_meta_add_param(
        own, gst_structure_new("class", "label", G_TYPE_STRING, "cat", nullptr));
    GstVideoRegionOfInterestMeta* r =
        gst_buffer_add_video_region_of_interest_meta(b, "eye", 20, 18, 2, 4);
    r->id = 8;
    r->parent_id = own->id;
    gst_video_region_of_interest_meta_add_param(
        r, gst_structure_new("detection", "confidence", G_TYPE_DOUBLE, 0.5, nullptr));
    // Half of this region lies in the border.
    gst_buffer_add_video_region_of_interest_meta(b, "edge", 60, 0, 10, 28);
    return true;
  };
  chain.caps(info);
  GstBuffer* in = alone(make_frame(false, info, 3), 0);
  GstVideoRegionOfInterestMeta* own =
      gst_buffer_add_video_region_of_interest_meta(in, "cat", 41, 23, 51, 33);
  own->id = 7;
  gst_video_region_of_interest_meta_add_param(own, gst_structure_new_empty("mine"));
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
  const char* want[] = {"cat 7<0 41,23 51x33 2", "eye 8<7 50,10 5x10 1", "edge 0<0 150,0 10x35 0"};
  for (guint i = 0; i < 3; i++)
    c.check(described(region(out.get(), i)) == want[i], "region %u is %s, not %s", i,
            described(region(out.get(), i)).c_str(), want[i]);
  c.check(!region(out.get(), 3), "there is another region, %s",
          described(region(out.get(), 3)).c_str());
}

GstVideoOverlayRectangle* overlay_rectangle(int x, int y, int w, int h) {
  GstBuffer* pixels = gst_buffer_new_allocate(nullptr, 4 * 4 * 4, nullptr);
  gst_buffer_memset(pixels, 0, 255, 64);
  gst_buffer_add_video_meta(pixels, GST_VIDEO_FRAME_FLAG_NONE,
                            GST_VIDEO_OVERLAY_COMPOSITION_FORMAT_RGB, 4, 4);
  GstVideoOverlayRectangle* r = gst_video_overlay_rectangle_new_raw(
      pixels, x, y, guint(w), guint(h), GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE);
  gst_buffer_unref(pixels);
  return r;
}

void add_overlay(GstBuffer* b, int x, int y, int w, int h) {
  GstVideoOverlayRectangle* r = overlay_rectangle(x, y, w, h);
  GstVideoOverlayComposition* o = gst_video_overlay_composition_new(r);
  gst_buffer_add_video_overlay_composition_meta(b, o);
  gst_video_overlay_composition_unref(o);
  gst_video_overlay_rectangle_unref(r);
}

void other_metas(Case& c, const GstVideoInfo& info) {
  static const gchar* no_tags[] = {nullptr};
  gst_meta_register_custom("LetterboxRestoreTest", no_tags, nullptr, nullptr, nullptr);
  gst_meta_register_custom("LetterboxRestoreOther", no_tags, nullptr, nullptr, nullptr);
  Chain chain(kRows[0]);
  chain.network = [](GstBuffer* b) {
    gst_buffer_add_custom_meta(b, "LetterboxRestoreOther");
    add_overlay(b, 10, 20, 4, 4);
    return true;
  };
  chain.caps(info);
  GstBuffer* in = alone(make_frame(false, info, 3), 0);
  gst_buffer_add_custom_meta(in, "LetterboxRestoreTest");
  GstCaps* reference = gst_caps_new_empty_simple("timestamp/x-test");
  gst_buffer_add_reference_timestamp_meta(in, reference, 5, 6);
  gst_caps_unref(reference);
  add_overlay(in, 3, 5, 7, 9);
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
  int counts[4] = {};
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta(out.get(), &state)) {
    counts[0] +=
        gst_meta_info_is_custom(meta->info) &&
        gst_custom_meta_has_name(reinterpret_cast<GstCustomMeta*>(meta), "LetterboxRestoreTest");
    counts[1] +=
        gst_meta_info_is_custom(meta->info) &&
        gst_custom_meta_has_name(reinterpret_cast<GstCustomMeta*>(meta), "LetterboxRestoreOther");
    counts[2] += meta->info->api == GST_REFERENCE_TIMESTAMP_META_API_TYPE;
    counts[3] += meta->info->api == GST_VIDEO_OVERLAY_COMPOSITION_META_API_TYPE;
  }
  c.check(counts[0] == 1 && counts[1] == 1 && counts[2] == 1 && counts[3] == 1,
          "%d, %d, %d and %d metas of what are one each", counts[0], counts[1], counts[2],
          counts[3]);
  GstVideoOverlayCompositionMeta* overlay =
      gst_buffer_get_video_overlay_composition_meta(out.get());
  const int want[][4] = {{3, 5, 7, 9}, {25, 15, 10, 10}};
  c.check(overlay && gst_video_overlay_composition_n_rectangles(overlay->overlay) == 2,
          "not two overlays");
  for (guint i = 0; c.ok() && i < 2; i++) {
    gint x, y;
    guint w, h;
    gst_video_overlay_rectangle_get_render_rectangle(
        gst_video_overlay_composition_get_rectangle(overlay->overlay, i), &x, &y, &w, &h);
    c.check(x == want[i][0] && y == want[i][1] && int(w) == want[i][2] && int(h) == want[i][3],
            "overlay %u at %d,%d %ux%u", i, x, y, w, h);
  }
}

// The network's tensors go to elements behind the restorer, with the geometry to place them.
#if VF_HAVE_GST_ANALYTICS
void network_tensors(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0]);
  chain.network = [](GstBuffer* b) {
    GstTensor** tensors = g_new(GstTensor*, 1);
    gsize dims[] = {2, 3};
    tensors[0] = gst_tensor_new_simple(g_quark_from_string("mask"), GST_TENSOR_DATA_TYPE_UINT8,
                                       gst_buffer_new_allocate(nullptr, 6, nullptr),
                                       GST_TENSOR_DIM_ORDER_ROW_MAJOR, 2, dims);
    gst_tensor_meta_set(gst_buffer_add_tensor_meta(b), 1, tensors);
    return true;
  };
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  const BufferPtr out = chain.try_pull();
  GstTensorMeta* meta = out ? gst_buffer_get_tensor_meta(out.get()) : nullptr;
  GstCudaLetterboxGeometry g = {};
  c.check(meta && meta->num_tensors == 1, "no tensor: %s", chain.error().c_str());
  c.check(out && gst_buffer_get_cuda_letterbox_geometry(out.get(), &g) && g.top == 14 &&
              g.output_width == 64 && g.source_width == 160,
          "nothing says where it belongs");
}

struct Result {
  GstAnalyticsMtd mtd;
  gint x = 0, y = 0, w = 0, h = 0;
  gfloat angle = 0;
};

std::vector<Result> results_of(GstBuffer* buffer, GstAnalyticsMtdType type) {
  std::vector<Result> all;
  GstAnalyticsRelationMeta* meta =
      buffer ? gst_buffer_get_analytics_relation_meta(buffer) : nullptr;
  gpointer state = nullptr;
  Result r;
  while (meta && gst_analytics_relation_meta_iterate(meta, &state, type, &r.mtd)) {
    gfloat confidence;
    if (type == gst_analytics_od_mtd_get_mtd_type())
      gst_analytics_od_mtd_get_oriented_location(&r.mtd, &r.x, &r.y, &r.w, &r.h, &r.angle,
                                                 &confidence);
    all.push_back(r);
  }
  return all;
}

bool related(const Result& a, const Result& b, GstAnalyticsRelTypes how) {
  return gst_analytics_relation_meta_get_relation(a.mtd.meta, a.mtd.id, b.mtd.id) & how;
}

GstBuffer* mask_of(guint w, guint h) {
  GstBuffer* mask = gst_buffer_new_allocate(nullptr, w * h, nullptr);
  gst_buffer_memset(mask, 0, 1, w * h);
  gst_buffer_add_video_meta(mask, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8, w, h);
  return mask;
}

// `own_results` says whether the original has results of its own.
void analytics(Case& c, const GstVideoInfo& info, bool own_results) {
  Chain chain(kRows[0]);
  GstBuffer* mask = mask_of(8, 6);
  chain.network = [&](GstBuffer* b) {
    const auto boxes = results_of(b, gst_analytics_od_mtd_get_mtd_type());
    GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(b);
    GstAnalyticsMtd box, kind, track, segments;
    gst_analytics_relation_meta_add_oriented_od_mtd(meta, g_quark_from_string("cat"), 16, 22, 20,
                                                    12, 0.5f, 0.75f, &box);
    gst_analytics_relation_meta_add_one_cls_mtd(meta, 0.5f, g_quark_from_string("tabby"), &kind);
    gst_analytics_relation_meta_add_tracking_mtd(meta, 9, 1, &track);
    guint ids[] = {0, 3};
    gst_analytics_relation_meta_add_segmentation_mtd(meta, gst_buffer_ref(mask),
                                                     GST_SEGMENTATION_TYPE_INSTANCE, 2, ids, 16, 22,
                                                     20, 12, &segments);
    for (const GstAnalyticsMtd& m : {kind, track, segments})
      gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, box.id,
                                               m.id);
    // The new box is part of the one that was there.
    if (!boxes.empty())
      gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_IS_PART_OF, box.id,
                                               boxes[0].mtd.id);
    return true;
  };
  chain.caps(info);
  GstBuffer* in = alone(make_frame(false, info, 3), 0);
  if (own_results) {
    GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(in);
    GstAnalyticsMtd box, kind;
    gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_string("sofa"), 33, 11, 71, 53, 0.5f,
                                           &box);
    gst_analytics_relation_meta_add_one_cls_mtd(meta, 0.25f, g_quark_from_string("red"), &kind);
    gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, box.id,
                                             kind.id);
  }
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
  const size_t before = own_results ? 1 : 0;
  const auto boxes = results_of(out.get(), gst_analytics_od_mtd_get_mtd_type());
  const auto kinds = results_of(out.get(), gst_analytics_cls_mtd_get_mtd_type());
  const auto tracks = results_of(out.get(), gst_analytics_tracking_mtd_get_mtd_type());
  const auto masks = results_of(out.get(), gst_analytics_segmentation_mtd_get_mtd_type());
  if (boxes.size() != before + 1 || kinds.size() != before + 1 || tracks.size() != 1 ||
      masks.size() != 1)
    return c.fail("%zu boxes, %zu classes, %zu tracks, %zu masks", boxes.size(), kinds.size(),
                  tracks.size(), masks.size());
  const Result& box = boxes.back();
  c.check(box.x == 40 && box.y == 20 && box.w == 50 && box.h == 30 &&
              std::fabs(box.angle - 0.5f) < 1e-6f,
          "box at %d,%d %dx%d, turned by %g", box.x, box.y, box.w, box.h, double(box.angle));
  for (const Result* r : {&kinds.back(), &tracks[0], &masks[0]})
    c.check(related(box, *r, GST_ANALYTICS_REL_TYPE_RELATE_TO), "a relation is lost");
  gint x, y;
  guint w, h;
  GstBuffer* got = gst_analytics_segmentation_mtd_get_mask(&masks[0].mtd, &x, &y, &w, &h);
  c.check(got == mask && x == 40 && y == 20 && w == 50 && h == 30, "mask at %d,%d %ux%u", x, y, w,
          h);
  gsize index = 0;
  c.check(gst_analytics_segmentation_mtd_get_region_count(&masks[0].mtd) == 2 &&
              gst_analytics_segmentation_mtd_get_region_index(&masks[0].mtd, &index, 3) &&
              index == 1,
          "the regions of the mask are lost");
  gst_clear_buffer(&got);
  if (own_results) {
    c.check(boxes[0].x == 33 && boxes[0].y == 11 && boxes[0].w == 71 && boxes[0].h == 53,
            "the original's box is at %d,%d %dx%d", boxes[0].x, boxes[0].y, boxes[0].w, boxes[0].h);
    c.check(related(boxes[0], kinds[0], GST_ANALYTICS_REL_TYPE_RELATE_TO) &&
                related(box, boxes[0], GST_ANALYTICS_REL_TYPE_IS_PART_OF),
            "a relation of the original's box is lost");
    c.check(!related(boxes[0], kinds[1], GST_ANALYTICS_REL_TYPE_ANY), "a relation too many");
  }
  gst_buffer_unref(mask);
}

// Pixels are twice as wide as high. A turned box must have its axis in the right place.
void turned_boxes(Case& c) {
  Chain chain(kRows[0], "", "", "video/x-raw,format=RGB,width=64,height=64,pixel-aspect-ratio=1/1");
  GstVideoInfo info = video_info("RGB", 32, 64);
  info.par_n = 2;
  info.par_d = 1;
  const float angle = float(G_PI / 4);
  chain.network = [&](GstBuffer* b) {
    GstAnalyticsMtd box;
    gst_analytics_relation_meta_add_oriented_od_mtd(gst_buffer_add_analytics_relation_meta(b),
                                                    g_quark_from_string("x"), 20, 30, 24, 4, angle,
                                                    1, &box);
    return true;
  };
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  const BufferPtr out = chain.try_pull();
  const auto boxes = results_of(out.get(), gst_analytics_od_mtd_get_mtd_type());
  if (boxes.size() != 1) return c.fail("%zu boxes: %s", boxes.size(), chain.error().c_str());
  const Result& r = boxes[0];
  // Its axis ends 12 pixels from the centre (32, 32), at 45 degrees.
  const double dx = 12 * std::cos(angle) / 2, dy = 12 * std::sin(angle);
  c.check(std::fabs(r.angle - std::atan2(dy, dx)) < 1e-5, "turned by %g", double(r.angle));
  c.check(std::fabs(r.w / 2. - std::hypot(dx, dy)) <= 0.5 &&
              std::fabs(r.x + r.w / 2. - 16) <= 0.5 && std::fabs(r.y + r.h / 2. - 32) <= 0.5,
          "at %d,%d %dx%d", r.x, r.y, r.w, r.h);
}
#endif

void meta_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  s.run(at + "tensors of a network", [&](Case& c) {
#if VF_HAVE_GST_ANALYTICS
    network_tensors(c, info);
#else
    c.skip("built without GStreamer's analytics library (1.26)");
#endif
  });
  s.run(at + "regions are mapped back", [&](Case& c) { regions(c, info); });
  s.run(at + "other metas and overlays", [&](Case& c) { other_metas(c, info); });
  for (const bool own_results : {false, true})
    s.run(
        at + "analytics results are mapped back" + (own_results ? ", next to the original's" : ""),
        [&](Case& c) {
#if VF_HAVE_GST_ANALYTICS
          analytics(c, info, own_results);
#else
          c.skip("built without GStreamer's analytics library (1.26)");
#endif
        });
  s.run(at + "rotated boxes with non-square pixels", [&](Case& c) {
#if VF_HAVE_GST_ANALYTICS
    turned_boxes(c);
#else
    c.skip("built without GStreamer's analytics library (1.26)");
#endif
  });
}

// Geometry

// Computes in double precision where the picture lies according to the documentation.
struct Truth {
  double left, top, fx, fy;  // output = source * factor + offset: x * fx + left
};

Truth truth_of(int w, int h, double par, int W, int H, const LetterboxParams& p) {
  double r = std::min(W / (w * par), double(H) / h);
  if (!p.scale_up) r = std::min(r, 1.0);
  double cw = w * par * r, ch = h * r;
  if (p.rule == LetterboxRule::ultralytics) {
    cw = std::max(1.0, std::nearbyint(cw));
    ch = std::max(1.0, std::nearbyint(ch));
  }
  double left = 0, top = 0;
  if (p.align == LetterboxAlign::center) {
    left = (W - cw) / 2;
    top = (H - ch) / 2;
    if (p.rule == LetterboxRule::ultralytics) {
      left = std::nearbyint(left - 0.1);
      top = std::nearbyint(top - 0.1);
    }
  }
  return {left, top, cw / w, ch / h};
}

constexpr int kChains = 40;
// Returns the number of frames of each chain: 250, or fewer if --cycles is lower.
int geometries(const Options& options) {
  return std::max(1, options.cycles / 4);
}

// Runs elements with random settings and sizes, and checks that regions go there and back.
void random_geometries(Case& c) {
  std::mt19937 random{guint32(c.options().seed)};
  const auto pick = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  for (int k = 0; k < kChains && c.ok(); k++) {
    LetterboxParams p;
    p.rule = pick(0, 1) ? LetterboxRule::affine : LetterboxRule::ultralytics;
    p.align = pick(0, 1) ? LetterboxAlign::top_left : LetterboxAlign::center;
    p.scale_up = pick(0, 3) > 0;
    const int stride = pick(0, 3) ? 0 : 1 << pick(1, 5);
    const int W = pick(0, 9) ? pick(2, 96) : 1, H = pick(0, 9) ? pick(2, 96) : 1;
    const std::string size = stride ? "width=[1," + std::to_string(MAX(W, stride)) +
                                          "],height=[1," + std::to_string(MAX(H, stride)) + "]"
                                    : "width=" + std::to_string(W) + ",height=" + std::to_string(H);
    Chain chain(kRows[0], "", "",
                ("video/x-raw,format=RGB,pixel-aspect-ratio=1/1," + size).c_str());
    chain.set("rule", name_of(p.rule));
    chain.set("align", p.align == LetterboxAlign::center ? "center" : "top-left");
    chain.set("scale-up", p.scale_up ? "true" : "false");
    chain.set("stride", std::to_string(stride).c_str());
    chain.set("interpolation", "nearest");
    for (int i = 0; i < geometries(c.options()) && c.ok(); i++) {
      // The sizes include portraits, landscapes and lines of one pixel.
      const int most = 1 << pick(0, 8);
      GstVideoInfo info = video_info("GRAY8", pick(1, most), pick(0, 7) ? pick(1, 200) : 1);
      if (!pick(0, 3)) {
        info.par_n = pick(1, 4);
        info.par_d = pick(1, 4);
      }
      const double par = double(info.par_n) / info.par_d;
      Shape shape;
      if (!pick(0, 3)) shape.left = 2 * pick(0, 4), shape.top = 2 * pick(0, 4);
      // The region lies in the original, in its pixels.
      const int ox = pick(0, info.width - 1), oy = pick(0, info.height - 1);
      const int ow = pick(1, info.width - ox), oh = pick(1, info.height - oy);
      int out_w = 0, out_h = 0, x = 0, y = 0, w = 0, h = 0;
      std::string forth;
      GstCudaLetterboxGeometry said = {};
      chain.network = [&](GstBuffer* b) {
        GstElement* network = chain.get("network");
        GstPad* pad = gst_element_get_static_pad(network, "src");
        GstCaps* caps = gst_pad_get_current_caps(pad);
        GstVideoInfo out;
        gst_video_info_from_caps(&out, caps);
        gst_caps_unref(caps);
        gst_object_unref(pad);
        gst_object_unref(network);
        out_w = out.width;
        out_h = out.height;
        gst_buffer_get_cuda_letterbox_geometry(b, &said);
        x = pick(0, out_w - 1), y = pick(0, out_h - 1);
        w = pick(1, out_w - x), h = pick(1, out_h - y);
        const GstVideoRegionOfInterestMeta* own = region(b, 0);
        if (own)
          forth = std::to_string(own->x) + " " + std::to_string(own->y) + " " +
                  std::to_string(own->w) + " " + std::to_string(own->h);
        gst_buffer_add_video_region_of_interest_meta(b, "new", guint(x), guint(y), guint(w),
                                                     guint(h));
        return true;
      };
      chain.caps(info);
      const BufferPtr made = make_frame(false, info, 1, shape);
      GstBuffer* in = alone(made, i);
      gst_buffer_add_video_region_of_interest_meta(in, "own", guint(ox), guint(oy), guint(ow),
                                                   guint(oh));
      chain.push(in);
      const BufferPtr out = chain.try_pull();
      const GstVideoRegionOfInterestMeta* r = out ? region(out.get(), 1) : nullptr;
      gchar* what =
          g_strdup_printf("%dx%d par %d/%d crop %d,%d in %dx%d, %s, %s, scale-up %d, stride %d",
                          info.width, info.height, info.par_n, info.par_d, shape.left, shape.top,
                          out_w, out_h, name_of(p.rule), name_of(p.align), p.scale_up, stride);
      const std::string at = what;
      g_free(what);
      if (!r) return c.fail("%s: nothing came back: %s", at.c_str(), chain.error().c_str());
      // The stride's target is larger than the output, and the meta says where the picture is.
      Truth t = truth_of(info.width, info.height, par, out_w, out_h, p);
      if (stride)
        t = {said.left, said.top, said.content_width / said.source_width,
             said.content_height / said.source_height};
      const auto near = [&](const char* name, double got, double want, double most_value) {
        want = CLAMP(want, 0, most_value);
        c.check(std::fabs(got - want) <= 0.5 + 1e-9, "%s: %s is %g, not %g", at.c_str(), name, got,
                want);
      };
      int fx = 0, fy = 0, fw = 0, fh = 0;
      c.check(sscanf(forth.c_str(), "%d %d %d %d", &fx, &fy, &fw, &fh) == 4, "%s: nothing went",
              at.c_str());
      near("left, there", fx, ox * t.fx + t.left, out_w);
      near("right, there", fx + fw, (ox + ow) * t.fx + t.left, out_w);
      near("top, there", fy, oy * t.fy + t.top, out_h);
      near("bottom, there", fy + fh, (oy + oh) * t.fy + t.top, out_h);
      near("left, back", r->x, (x - t.left) / t.fx, info.width);
      near("right, back", r->x + r->w, (x + w - t.left) / t.fx, info.width);
      near("top, back", r->y, (y - t.top) / t.fy, info.height);
      near("bottom, back", r->y + r->h, (y + h - t.top) / t.fy, info.height);
      const GstVideoRegionOfInterestMeta* own = region(out.get(), 0);
      c.check(int(own->x) == ox && int(own->y) == oy && int(own->w) == ow && int(own->h) == oh,
              "%s: the original's region moved", at.c_str());
    }
  }
}

// Streams

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

void stream_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
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
  s.run(at + "navigation goes both ways", [&](Case& c) { navigation(c, info); });
}

// Buffers that cannot be restored

void foreign(Case& c, const GstVideoInfo& info) {
  const struct {
    const char* name;
    Network network;
    const char* words;
  } rows[] = {
      {"another buffer",
       [](GstBuffer* b) {
         gst_buffer_remove_meta(b, &gst_buffer_get_cuda_letterbox_original_meta(b)->meta);
         return true;
       },
       "keep-original=true"},
      {"no geometry",
       [](GstBuffer* b) {
         gst_buffer_remove_meta(b,
                                &gst_buffer_get_custom_meta(b, GST_CUDA_LETTERBOX_META_NAME)->meta);
         return true;
       },
       "GstCudaLetterboxMeta"},
      {"a geometry of another original",
       [](GstBuffer* b) {
         gst_structure_set(gst_custom_meta_get_structure(
                               gst_buffer_get_custom_meta(b, GST_CUDA_LETTERBOX_META_NAME)),
                           "source-width", G_TYPE_INT, 640, nullptr);
         return true;
       },
       "GstCudaLetterboxMeta"},
      {"a geometry that is none",
       [](GstBuffer* b) {
         gst_structure_set(gst_custom_meta_get_structure(
                               gst_buffer_get_custom_meta(b, GST_CUDA_LETTERBOX_META_NAME)),
                           "left", G_TYPE_DOUBLE, double(NAN), nullptr);
         return true;
       },
       "GstCudaLetterboxMeta"},
  };
  for (const auto& row : rows) {
    Chain chain(kRows[0]);
    chain.network = row.network;
    chain.caps(info);
    const GstFlowReturn flow = chain.push(make_frame(false, info, 3));
    const std::string error = chain.error();
    c.check(
        flow == GST_FLOW_ERROR && error.find(row.words) != std::string::npos && !chain.try_pull(),
        "%s: flow %s, error \"%s\"", row.name, gst_flow_get_name(flow), error.c_str());
  }
}

void scaled_between(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0],
              "videoscale ! video/x-raw,width=128,height=32 ! videoconvert ! "
              "video/x-raw,format=BGRA ! identity name=last");
  GstElement* last = chain.get("last");
  GstPad* pad = gst_element_get_static_pad(last, "src");
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad*, GstPadProbeInfo* probe, gpointer) {
        probe->data = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(probe));
        gst_buffer_add_video_region_of_interest_meta(GST_PAD_PROBE_INFO_BUFFER(probe), "x", 32, 11,
                                                     40, 6);
        return GST_PAD_PROBE_OK;
      },
      nullptr, nullptr);
  gst_object_unref(pad);
  gst_object_unref(last);
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  const BufferPtr out = chain.try_pull();
  if (!out) return c.fail("nothing came out: %s", chain.error().c_str());
  c.check(described(region(out.get(), 0)) == "x 0<0 40,20 50x30 0", "region %s",
          described(region(out.get(), 0)).c_str());
}

// An element that moves the picture without a meta that says how makes the restorer refuse the
// frame.
void moved_between(Case& c, const GstVideoInfo& info, const std::string& between) {
  const std::string name = between.substr(0, between.find(' '));
  GstElementFactory* factory = gst_element_factory_find(name.c_str());
  if (!factory) return c.skip("no %s", name.c_str());
  gst_object_unref(factory);
  Chain chain(kRows[0], between);
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  const std::string error = chain.error();
  c.check(error.find("add borders") != std::string::npos, "error \"%s\"", error.c_str());
}

// The deprecated `method` of videoflip has no effect in GStreamer 1.22 if it is set before the
// element starts: frames are not turned and are restored. Turned frames are an error.
void turned_while_playing(Case& c, const GstVideoInfo& info) {
  GstElementFactory* factory = gst_element_factory_find("videoflip");
  if (!factory) return c.skip("no videoflip");
  gst_object_unref(factory);
  Chain chain(kRows[0], "videoflip name=flip method=rotate-180");
  chain.caps(info);
  GstElement* flip = chain.get("flip");
  gint direction = 0;
  g_object_get(flip, "video-direction", &direction, nullptr);
  if (direction == GST_VIDEO_ORIENTATION_IDENTITY) {
    chain.push(make_frame(false, info, 3));
    c.check(chain.try_pull() != nullptr, "nothing came out: %s", chain.error().c_str());
    g_object_set(flip, "video-direction", GST_VIDEO_ORIENTATION_180, nullptr);
  }
  gst_object_unref(flip);
  chain.push(make_frame(false, info, 4));
  const std::string error = chain.error();
  c.check(!chain.try_pull() && error.find("crop or turn them") != std::string::npos, "error \"%s\"",
          error.c_str());
}

// A fraction of a pixel from rounding does not count as a border.
void scaled_unevenly(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0], "videoscale ! video/x-raw,width=33,height=33");
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  c.check(chain.try_pull() != nullptr, "nothing came out: %s", chain.error().c_str());
}

void nested(Case& c, const GstVideoInfo& info) {
  // A second letterbox serves the network, and a second restorer undoes it.
  Chain chain(kRows[0],
              "cudaletterbox backend=cpu keep-original=true ! "
              "video/x-raw,format=GRAY8,width=20,height=40 ! cudaletterboxrestore");
  chain.network = [](GstBuffer* b) {
    gst_buffer_add_video_region_of_interest_meta(b, "x", 16, 22, 20, 12);
    return true;
  };
  chain.caps(info);
  GstBuffer* in = alone(make_frame(false, info, 3), 0);
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  c.check(out.get() == in && described(region(out.get(), 0)) == "x 0<0 40,20 50x30 0" &&
              !region(out.get(), 1),
          "region %s: %s", out ? described(region(out.get(), 0)).c_str() : "",
          chain.error().c_str());
}

void another_letterbox(Case& c, const GstVideoInfo& info) {
  Chain chain(kRows[0], "cudaletterbox backend=cpu ! video/x-raw,format=GRAY8,width=20,height=40");
  chain.caps(info);
  chain.push(make_frame(false, info, 3));
  const std::string error = chain.error();
  c.check(!chain.try_pull() && error.find("keep-original=true") != std::string::npos,
          "error \"%s\"", error.c_str());
}

void tensors(Case& c, const Row& row, const GstVideoInfo& info) {
  if (!usable(c, row)) return;
  Chain chain(row, "", "",
              row.cuda_caps
                  ? "other/tensors(memory:CUDAMemory),format=static,num_tensors=1,types=float32,"
                    "dimensions=(string)64:64:3:1"
                  : "other/tensors,format=static,num_tensors=1,types=float32,"
                    "dimensions=(string)64:64:3:1");
  chain.network = [](GstBuffer* b) {
    gst_buffer_add_video_region_of_interest_meta(b, "x", 16, 22, 20, 12);
    return true;
  };
  chain.caps(info, row.cuda_caps);
  const BufferPtr made = make_frame(row.cuda_caps, info, 3);
  GstBuffer* in = alone(made, 0);
  chain.push(in);
  const BufferPtr out = chain.try_pull();
  c.check(out.get() == in && described(region(out.get(), 0)) == "x 0<0 40,20 50x30 0",
          "region %s: %s", out ? described(region(out.get(), 0)).c_str() : "",
          chain.error().c_str());
#if VF_HAVE_GST_ANALYTICS
  c.check(!out || !gst_buffer_get_tensor_meta(out.get()), "a tensor came back");
#endif
}

void cases(Suite& s) {
  const std::string at = "cudaletterboxrestore/";
  const GstVideoInfo info = video_info("I420", 160, 90);
  buffer_cases(s, at, info);
  meta_cases(s, at, info);
  s.run(at + std::to_string(kChains * geometries(s.options())) + " geometries, there and back",
        random_geometries);
  stream_cases(s, at, info);
  s.run(at + "buffers without their original", [&](Case& c) { foreign(c, info); });
  s.run(at + "frames scaled and converted on the way", [&](Case& c) { scaled_between(c, info); });
  s.run(at + "frames scaled unevenly", [&](Case& c) { scaled_unevenly(c, info); });
  for (const char* between : {"videoscale ! video/x-raw,width=128,height=64,pixel-aspect-ratio=1/1",
                              "videoscale ! video/x-raw,width=64,height=99,pixel-aspect-ratio=1/1",
                              "videoflip video-direction=vert", "videoflip video-direction=180",
                              "videoflip video-direction=90r", "videocrop left=4"})
    s.run(at + "frames moved on the way: " + between,
          [&, between](Case& c) { moved_between(c, info, between); });
  s.run(at + "frames turned on the way, while playing",
        [&](Case& c) { turned_while_playing(c, info); });
  s.run(at + "a letterbox in a letterbox", [&](Case& c) { nested(c, info); });
  s.run(at + "a letterbox that does not keep its original",
        [&](Case& c) { another_letterbox(c, info); });
  for (const Row& row : kRows)
    s.run(at + row.name + "/a letterbox that makes tensors",
          [&](Case& c) { tensors(c, row, info); });
}

}  // namespace

const Element letterboxrestore_element = [] {
  Element e;
  e.name = "cudaletterboxrestore";
  e.own_cases = cases;
  e.not_filter = "it gives back frames that another element was given";
  return e;
}();

}  // namespace vf::test
