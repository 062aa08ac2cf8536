// Tests cudaletterboxrestore behind cudaletterbox, with a simulated network between them.
#include <gst/video/navigation.h>

#include <cmath>
#include <cstring>
#include <random>

#include "filters/letterbox.h"
#include "gst/base/analytics.h"
#include "gst/letterbox/letterboxmeta.h"
#include "gst/letterbox/restoredframe.h"
#include "tests/elements/letterboxchain.h"

namespace vf::test {
namespace {

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
    chain.set("align", name_of(p.align));
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
  restored_meta_cases(s, at, info);
  s.run(at + std::to_string(kChains * geometries(s.options())) + " geometries, there and back",
        random_geometries);
  restored_stream_cases(s, at, info);
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

extern const Element letterboxrestore_element = [] {
  Element e;
  e.name = "cudaletterboxrestore";
  e.own_cases = cases;
  e.not_filter = "it gives back frames that another element was given";
  return e;
}();

}  // namespace vf::test
