// Tests what every element must do on every memory.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/elements/basefeatures.h"
#if VF_EMULATION
#include "tests/emulation/device.h"
#endif
#include "tests/process.h"

namespace vf::test {
namespace {

// Returns the formats that the pad templates name for a row, in their order.
std::vector<std::string> template_formats(const char* factory_name, bool cuda) {
  std::vector<std::string> formats;
  GstElementFactory* factory = gst_element_factory_find(factory_name);
  for (const GList* l = gst_element_factory_get_static_pad_templates(factory); l; l = l->next) {
    auto* t = static_cast<GstStaticPadTemplate*>(l->data);
    if (t->direction != GST_PAD_SINK) continue;
    GstCaps* caps = gst_static_pad_template_get_caps(t);
    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
      if (gstvf::caps_in_cuda(caps, i) != cuda) continue;
      const GValue* list = gst_structure_get_value(gst_caps_get_structure(caps, i), "format");
      for (guint j = 0; list && j < gst_value_list_get_size(list); j++)
        formats.push_back(g_value_get_string(gst_value_list_get_value(list, j)));
    }
    gst_caps_unref(caps);
  }
  gst_object_unref(factory);
  return formats;
}

}  // namespace

void expect(Case& c, const Element& e, const Row& row, const GstVideoInfo& info, GstBuffer* in,
            GstBuffer* got, int variant, bool fields) {
  BufferPtr want;
  if (!got) return c.fail("nothing came out");
  c.check(filter_directly(e, row.library_backend(), info, in, variant, fields, &want),
          "the library, called directly");
  if (!c.ok()) return;
  const std::string d = difference(info, got, want.get(), 0);
  c.check(d.empty(), "%s %dx%d: not as the library: %s", info.finfo->name, info.width, info.height,
          d.c_str());
  if (!e.make_component || fields) return;
  c.check(filter_by_reference(e, info, in, variant, &want), "the reference");
  if (!c.ok()) return;
  const std::string r = difference(info, got, want.get(), e.tolerance);
  c.check(r.empty(), "%s %dx%d: not as the reference: %s", info.finfo->name, info.width,
          info.height, r.c_str());
}

namespace {

// Copies the rows that progressive frames have as well.
BufferPtr progressive_copy(const GstVideoInfo& info, const GstVideoInfo& progressive,
                           GstBuffer* buffer) {
  GstBuffer* copy = gst_buffer_new_allocate(nullptr, progressive.size, nullptr);
  GstVideoFrame from, to;
  gst_video_frame_map(&from, &info, buffer, GST_MAP_READ);
  gst_video_frame_map(&to, &progressive, copy, GST_MAP_WRITE);
  gst_video_frame_copy(&to, &from);
  gst_video_frame_unmap(&from);
  gst_video_frame_unmap(&to);
  return own(copy);
}

// Returns whether GStreamer cannot copy such a frame from CUDA memory to the host.
bool loses_rows(const GstVideoInfo& info) {
  guint major, minor, micro, nano;
  gst_version(&major, &minor, &micro, &nano);
  const bool mended = major > 1 || minor > 24 || (minor == 24 && micro >= 4);
  // These versions place the third plane in the middle of a row.
  const bool middle = info.height % 2 == (minor < 24);
  return !mended && middle && info.finfo->n_planes == 3 && info.finfo->h_sub[1];
}

// Filters one frame of `format` with the element and compares the result.
void one_frame(Case& c, const Element& e, const Row& row, const char* format, int w, int h,
               const Shape& shape = {}) {
  Bench b(e, row);
  e.set(b.element(), 0);
  const GstVideoInfo info = video_info(format, w, h);
  b.caps(info);
  BufferPtr in = make_frame(row.cuda_caps, info, guint32(c.options().seed), shape);
  if (!in) return c.fail("no frame of %s could be made", format);
  const BufferPtr before = packed_copy(info, in.get());
  const BufferPtr out = b.push(in);
  if (row.cuda_caps && !strcmp(row.backend, "cpu") && loses_rows(info)) {
    c.check(b.flow() == GST_FLOW_ERROR &&
                b.message(GST_MESSAGE_ERROR).find("loses a part") != std::string::npos,
            "GStreamer loses a part of this frame, and nobody said so");
    return;
  }
  c.check(out != nullptr, "flow %s: %s", gst_flow_get_name(b.flow()),
          b.message(GST_MESSAGE_ERROR).c_str());
  if (!c.ok()) return;
  GstMemory* memory = gstvf::cuda_memory(out.get());
  c.check((memory != nullptr) == row.cuda_caps, "came out in the wrong memory");
  expect(c, e, row, info, before.get(), out.get(), 0);
  // `in` is still held, as by another branch of a tee, so it must not have changed.
  const std::string d = difference(info, in.get(), before.get(), 0);
  c.check(d.empty(), "the other holder's buffer changed: %s", d.c_str());
}

void format_cases(Suite& s, const Element& e, const Row& row) {
  const std::string at = std::string(e.name) + "/" + row.name + "/";
  const std::vector<std::string> formats = template_formats(e.name, row.cuda_caps);
  if (row.cuda_caps && formats.empty()) {
    s.run(at + "formats", [&](Case& c) { c.skip("built without CUDA memory"); });
    return;
  }
  if (!row.cuda_caps)
    s.run(at + "formats/template", [&](Case& c) {
      for (const std::string& f : e.formats) {
        bool found = false;
        for (const std::string& t : formats) found |= t == f;
        c.check(found, "%s is not in the pad template", f.c_str());
      }
    });
  for (const std::string& format : formats)
    s.run(at + "format/" + format, [&](Case& c) {
      if (!usable(c, row)) return;
      // GStreamer's CUDA memory before 1.24 has no room for the chroma of NV21 with an odd height.
      one_frame(c, e, row, format.c_str(), 38, 22);
    });
  struct Size {
    const char* format;
    int w, h;
  };
  const Size sizes[] = {{"I420", 1, 1},   {"RGBA", 1, 1},      {"NV12", 3, 5},
                        {"RGB", 1, 40},   {"Y444", 333, 1},    {"I420", 641, 359},
                        {"RGBA", 65, 67}, {"P010_10LE", 2, 2}, {"I420", 3840, 2160}};
  for (const Size& size : sizes)
    s.run(at + "size/" + size.format + "/" + std::to_string(size.w) + "x" + std::to_string(size.h),
          [&](Case& c) {
            if (!usable(c, row)) return;
            if (guint64(size.w * size.h) > c.options().max_pixels)
              return c.skip("larger than --max-pixels");
            if (size.w < 3840) return one_frame(c, e, row, size.format, size.w, size.h);
            // The reference would take a minute at this size.
            Element quick = e;
            quick.make_component = nullptr;
            one_frame(c, quick, row, size.format, size.w, size.h);
          });
}

// Returns the format of every case that follows a stream.
GstVideoInfo live_info() {
  return video_info("I420", 64, 48);
}

BufferPtr live_frame(Case& c, const Row& row, int i) {
  return make_frame(row.cuda_caps, live_info(), guint32(c.options().seed + i));
}

void settings_cases(Suite& s, const Element& e, const Row& row, const std::string& at) {
  const GstVideoInfo info = live_info();
  s.run(at + "change settings between frames", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(e, row);
    b.caps(info);
    for (int i = 0; i < 4 && c.ok(); i++) {
      e.set(b.element(), i % 2);
      const BufferPtr in = live_frame(c, row, i);
      expect(c, e, row, info, in.get(), b.push(in).get(), i % 2);
    }
  });

  s.run(at + "change settings from another thread", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(e, row);
    b.caps(info);
    e.set(b.element(), 0);
    std::atomic<bool> stop{false};
    std::thread other([&] {
      for (int i = 0; !stop; i++) e.set(b.element(), i % 2);
    });
    const BufferPtr in = live_frame(c, row, 0);
    const int frames = std::max(20, c.options().changes);
    for (int i = 0; i < frames && c.ok(); i++) {
      const BufferPtr out = b.push(in);
      c.check(out != nullptr, "flow %s", gst_flow_get_name(b.flow()));
    }
    stop = true;
    other.join();
  });

  s.run(at + "passthrough", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(e, row);
    e.set_identity(b.element());
    b.caps(info);
    for (int round = 0; round < 2 && c.ok(); round++) {
      e.set_identity(b.element());
      GstBuffer* in = gst_buffer_ref(live_frame(c, row, 0).get());
      const BufferPtr passed = b.push(in);
      c.check(passed.get() == in, "settings that change nothing: not the same buffer");
      e.set(b.element(), 0);
      const BufferPtr next = live_frame(c, row, 1);
      const BufferPtr out = b.push(next);
      expect(c, e, row, info, next.get(), out.get(), 0);
      c.check((gstvf::cuda_memory(out.get()) != nullptr) == row.cuda_caps,
              "out of passthrough, frames come in the wrong memory");
    }
  });
}

// The element accepts frames in any layout. In passthrough they go on to an element that takes only
// system memory without GstVideoMeta: the harness, which does not answer ALLOCATION queries.
void passed_layouts_case(Suite& s, const Element& e, const Row& row, const std::string& at) {
  if (row.cuda_caps) return;
  s.run(at + "frames in other layouts pass through", [&](Case& c) {
    if (!usable(c, row)) return;
    const GstVideoInfo info = live_info();
    Bench b(e, row);
    e.set(b.element(), 0);
    b.caps(info);
    c.check(b.push(live_frame(c, row, 0)) != nullptr, "no frame came out");
    e.set_identity(b.element());
    std::vector<BufferPtr> frames = {make_frame(false, info, 1, Shape{26, false, 0, 0}),
                                     live_frame(c, row, 2)};
    // Such a frame comes from an upstream cudadownload.
    if (row.needs_device()) frames.push_back(make_frame(true, info, 3));
    for (const BufferPtr& in : frames) {
      const BufferPtr want = packed_copy(info, in.get()), out = b.push(in);
      if (!out) return c.fail("no frame: %s", b.message(GST_MESSAGE_ERROR).c_str());
      c.check(!gstvf::cuda_memory(out.get()) && !gst_buffer_get_video_meta(out.get()) &&
                  gst_buffer_get_size(out.get()) == info.size,
              "a frame came in a layout of its own");
      const std::string d = difference(info, out.get(), want.get(), 0);
      c.check(d.empty(), "pixels: %s", d.c_str());
    }
    const BufferPtr packed = make_frame(false, info, 4);
    GstVideoInfo layout = info;
    gst_buffer_add_video_meta_full(packed.get(), GST_VIDEO_FRAME_FLAG_NONE,
                                   GST_VIDEO_INFO_FORMAT(&info), info.width, info.height,
                                   GST_VIDEO_INFO_N_PLANES(&info), layout.offset, layout.stride);
    c.check(b.push(packed).get() == packed.get(), "a frame with the caps' layout was copied");
  });
}

void metas_case(Suite& s, const Element& e, const Row& row, const std::string& at) {
  const GstVideoInfo info = live_info();
  s.run(at + "metas", [&](Case& c) {
    if (!usable(c, row)) return;
    static const GstMetaInfo* const plain = [] {
      static const gchar* none[] = {nullptr};
      return gst_meta_register_custom("VfTestPlain", none, nullptr, nullptr, nullptr);
    }();
    static const GstMetaInfo* const sized = [] {
      static const gchar* tags[] = {GST_META_TAG_VIDEO_STR, GST_META_TAG_VIDEO_SIZE_STR, nullptr};
      return gst_meta_register_custom("VfTestSized", tags, nullptr, nullptr, nullptr);
    }();
    (void)plain, (void)sized;
    Bench b(e, row);
    e.set(b.element(), 0);
    b.caps(info);
    const BufferPtr in = live_frame(c, row, 0);
    gst_buffer_add_video_region_of_interest_meta(in.get(), "face", 3, 5, 7, 9);
    GstVideoCropMeta* crop = gst_buffer_add_video_crop_meta(in.get());
    crop->x = 2, crop->y = 4, crop->width = 20, crop->height = 30;
    for (const char* name : {"VfTestPlain", "VfTestSized"})
      gst_structure_set(gst_custom_meta_get_structure(gst_buffer_add_custom_meta(in.get(), name)),
                        "answer", G_TYPE_INT, 42, nullptr);
    gst_buffer_add_video_time_code_meta_full(in.get(), 25, 1, nullptr,
                                             GST_VIDEO_TIME_CODE_FLAGS_NONE, 1, 2, 3, 4, 0);
    GST_BUFFER_PTS(in.get()) = 40 * GST_MSECOND;
    GST_BUFFER_DURATION(in.get()) = 20 * GST_MSECOND;
    const BufferPtr out = b.push(in);
    if (!out) return c.fail("nothing came out");
    auto* roi = reinterpret_cast<GstVideoRegionOfInterestMeta*>(
        gst_buffer_get_meta(out.get(), GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE));
    c.check(roi && roi->x == 3 && roi->y == 5 && roi->w == 7 && roi->h == 9, "ROI meta lost");
    crop = gst_buffer_get_video_crop_meta(out.get());
    c.check(crop && crop->x == 2 && crop->y == 4 && crop->width == 20 && crop->height == 30,
            "crop meta lost");
    for (const char* name : {"VfTestPlain", "VfTestSized"}) {
      GstCustomMeta* meta = gst_buffer_get_custom_meta(out.get(), name);
      int answer = 0;
      c.check(meta &&
                  gst_structure_get_int(gst_custom_meta_get_structure(meta), "answer", &answer) &&
                  answer == 42,
              "%s lost", name);
    }
    c.check(gst_buffer_get_video_time_code_meta(out.get()) != nullptr, "time code meta lost");
    c.check(GST_BUFFER_PTS(out.get()) == 40 * GST_MSECOND &&
                GST_BUFFER_DURATION(out.get()) == 20 * GST_MSECOND,
            "timestamps lost");
    const GstVideoMeta* video = gst_buffer_get_video_meta(out.get());
    c.check(!video || (video->width == 64 && video->height == 48), "wrong video meta");
    expect(c, e, row, info, in.get(), out.get(), 0);
  });
}

void caps_cases(Suite& s, const Element& e, const Row& row, const std::string& at) {
  const GstVideoInfo info = live_info();
  s.run(at + "caps change", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(e, row);
    e.set(b.element(), 0);
    const GstVideoInfo infos[] = {info, video_info("RGBA", 31, 17), video_info("NV12", 128, 96),
                                  video_info("I420", 16, 16), info};
    for (const GstVideoInfo& i : infos) {
      b.caps(i);
      for (int n = 0; n < 2 && c.ok(); n++) {
        const BufferPtr in = make_frame(row.cuda_caps, i, guint32(n));
        expect(c, e, row, i, in.get(), b.push(in).get(), 0);
      }
    }
  });

  s.run(at + "interlaced", [&](Case& c) {
    if (!usable(c, row)) return;
    for (const char* format : {"I420", "RGBA", "YUY2", "P010_10LE"}) {
      if (row.cuda_caps && !strcmp(format, "YUY2")) continue;
      if (!strcmp(format, "P010_10LE") &&
          std::count(e.formats.begin(), e.formats.end(), format) == 0)
        continue;
      // In system memory, each field of 22 rows has 11 rows of luma and 6 of chroma. The frame has
      // 12 rows of chroma, but 11 if it is progressive. CUDA memory and P010 have no room for the
      // 12th.
      const int height = row.cuda_caps ? 24 : 22;
      const GstVideoInfo i = video_info(format, 40, height, GST_VIDEO_INTERLACE_MODE_INTERLEAVED);
      const BufferPtr in = make_frame(row.cuda_caps, i, 1);
      Bench interleaved(e, row);
      e.set(interleaved.element(), 0);
      interleaved.caps(i);
      expect(c, e, row, i, in.get(), interleaved.push(in).get(), 0, true);
      const GstVideoInfo m = video_info(format, 40, height, GST_VIDEO_INTERLACE_MODE_MIXED);
      Bench mixed(e, row);
      e.set(mixed.element(), 0);
      mixed.caps(m);
      // The chroma row that only fields have is not compared in progressive frames.
      const GstVideoInfo progressive = video_info(format, 40, height);
      const BufferPtr out = mixed.push(in);
      const BufferPtr in_frame = progressive_copy(m, progressive, in.get());
      const BufferPtr out_frame = out ? progressive_copy(m, progressive, out.get()) : nullptr;
      expect(c, e, row, progressive, in_frame.get(), out_frame.get(), 0, false);
      const BufferPtr flagged = own(gst_buffer_copy(in.get()));
      GST_BUFFER_FLAG_SET(flagged.get(), GST_VIDEO_BUFFER_FLAG_INTERLACED);
      expect(c, e, row, m, in.get(), mixed.push(flagged).get(), 0, true);
      // A frame of one row has only one field.
      const GstVideoInfo low = video_info("RGBA", 40, 1, GST_VIDEO_INTERLACE_MODE_INTERLEAVED);
      const BufferPtr line = make_frame(row.cuda_caps, low, 1);
      interleaved.caps(low);
      expect(c, e, row, low, line.get(), interleaved.push(line).get(), 0, false);
    }
  });
}

void state_cases(Suite& s, const Element& e, const Row& row, const std::string& at) {
  const GstVideoInfo info = live_info();
  s.run(at + "flush, gap and EOS", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(e, row);
    e.set(b.element(), 0);
    b.caps(info);
    GstHarness* h = b.harness();
    const BufferPtr in = live_frame(c, row, 0);
    expect(c, e, row, info, in.get(), b.push(in).get(), 0);
    c.check(gst_harness_push_event(h, gst_event_new_gap(0, GST_SECOND)), "gap refused");
    c.check(gst_harness_push_event(h, gst_event_new_flush_start()), "flush-start refused");
    c.check(gst_harness_push_event(h, gst_event_new_flush_stop(TRUE)), "flush-stop refused");
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    c.check(gst_harness_push_event(h, gst_event_new_segment(&segment)), "segment refused");
    expect(c, e, row, info, in.get(), b.push(in).get(), 0);
    c.check(gst_harness_push_event(h, gst_event_new_eos()), "EOS refused");
    bool eos = false;
    while (GstEvent* event = gst_harness_try_pull_event(h)) {
      eos |= GST_EVENT_TYPE(event) == GST_EVENT_EOS;
      gst_event_unref(event);
    }
    c.check(eos, "EOS did not come out");
  });

  s.run(at + "a segment of bytes", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(e, row);
    e.set(b.element(), 0);
    b.caps(info);
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_BYTES);
    c.check(gst_harness_push_event(b.harness(), gst_event_new_segment(&segment)),
            "segment refused");
    const BufferPtr in = live_frame(c, row, 0);
    expect(c, e, row, info, in.get(), b.push(in).get(), 0);
  });

  s.run(at + "READY and back", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(e, row);
    e.set(b.element(), 0);
    for (int i = 0; i < 3 && c.ok(); i++) {
      gst_element_set_state(b.element(), GST_STATE_PLAYING);
      gst_harness_push_event(b.harness(), gst_event_new_stream_start("again"));
      b.caps(info);
      GstSegment segment;
      gst_segment_init(&segment, GST_FORMAT_TIME);
      gst_harness_push_event(b.harness(), gst_event_new_segment(&segment));
      const BufferPtr in = live_frame(c, row, i);
      expect(c, e, row, info, in.get(), b.push(in).get(), 0);
      gst_element_set_state(b.element(), GST_STATE_READY);
    }
    gst_element_set_state(b.element(), GST_STATE_PLAYING);
  });
}

void pool_case(Suite& s, const Element& e, const Row& row, const std::string& at) {
  s.run(at + "the pool offered upstream", [&](Case& c) {
    if (!usable(c, row)) return;
    if (!row.cuda_caps && !row.needs_device())
      return c.skip("in place: downstream's pool is passed on");
    Bench b(e, row);
    e.set(b.element(), 0);
    b.caps(live_info());
    b.push(live_frame(c, row, 0));
    GstCaps* caps = gst_pad_get_current_caps(GST_PAD_PEER(b.harness()->srcpad));
    GstQuery* query = gst_query_new_allocation(caps, TRUE);
    c.check(gst_pad_peer_query(b.harness()->srcpad, query), "ALLOCATION not answered");
    c.check(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr),
            "no video meta offered");
    c.check(gst_query_get_n_allocation_pools(query) > 0, "no pool offered");
    if (c.ok()) {
      GstBufferPool* pool = nullptr;
      gst_query_parse_nth_allocation_pool(query, 0, &pool, nullptr, nullptr, nullptr);
      GstBuffer* buffer = nullptr;
      gst_buffer_pool_set_active(pool, TRUE);
      gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr);
      GstMemory* memory = buffer ? gst_buffer_peek_memory(buffer, 0) : nullptr;
      c.check(memory && (row.cuda_caps ? gstvf::cuda_memory(buffer) != nullptr
                                       : gstvf::is_pinned(memory)),
              "the pool does not give %s memory", row.cuda_caps ? "CUDA" : "pinned");
      if (buffer) gst_buffer_unref(buffer);
      gst_buffer_pool_set_active(pool, FALSE);
      gst_object_unref(pool);
    }
    gst_query_unref(query);
    gst_caps_unref(caps);
  });
}

void live_cases(Suite& s, const Element& e, const Row& row) {
  const std::string at = std::string(e.name) + "/" + row.name + "/";
  settings_cases(s, e, row, at);
  passed_layouts_case(s, e, row, at);
  metas_case(s, e, row, at);
  caps_cases(s, e, row, at);
  state_cases(s, e, row, at);
  pool_case(s, e, row, at);
}

// Tests frames of system memory in layouts that GStreamer itself does not make.
void layout_cases(Suite& s, const Element& e, const Row& row, const std::string& at) {
  const GstVideoInfo info = video_info("I420", 61, 43);
  for (const char* format : {"I420", "NV12", "RGB", "P010_10LE", "YUY2"}) {
    s.run(at + "padded rows/" + format, [&](Case& c) {
      if (usable(c, row)) one_frame(c, e, row, format, 61, 43, Shape{26, false, 0, 0});
    });
    s.run(at + "a memory for each plane/" + format, [&](Case& c) {
      if (usable(c, row)) one_frame(c, e, row, format, 61, 43, Shape{0, true, 0, 0});
    });
  }
  s.run(at + "bytes outside the picture do not change", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(e, row);
    e.set(b.element(), 0);
    b.caps(info);
    const BufferPtr in = make_frame(false, info, 3, Shape{26, false, 8, 6});
    // The frame is larger than the caps say, and a crop meta names the visible part.
    const BufferPtr before = own(gst_buffer_copy_deep(in.get()));
    const BufferPtr out = b.push(in);
    if (!out) return c.fail("nothing came out: %s", b.message(GST_MESSAGE_ERROR).c_str());
    // The GPU path outputs only the visible part, in another buffer.
    const bool alone = row.needs_device();
    const GstVideoInfo whole = video_info("I420", 61 + 16, 43 + 12);
    GstVideoFrame was, is;
    gst_video_frame_map(&was, &whole, before.get(), GST_MAP_READ);
    gst_video_frame_map(&is, alone ? &info : &whole, out.get(), GST_MAP_READ);
    const BufferPtr part = own(gst_buffer_new_allocate(nullptr, info.size, nullptr));
    const BufferPtr filtered = own(gst_buffer_new_allocate(nullptr, info.size, nullptr));
    GstVideoFrame p, q;
    gst_video_frame_map(&p, &info, part.get(), GST_MAP_WRITE);
    gst_video_frame_map(&q, &info, filtered.get(), GST_MAP_WRITE);
    int changed = 0;
    for (int n = 0; n < 3; n++)
      for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&was, n); y++)
        for (int x = 0; x < GST_VIDEO_FRAME_COMP_STRIDE(&was, n); x++) {
          const int sub = n ? 1 : 0;
          auto byte = [&](GstVideoFrame& f, int xx, int yy) -> guint8& {
            return static_cast<guint8*>(
                GST_VIDEO_FRAME_COMP_DATA(&f, n))[yy * GST_VIDEO_FRAME_COMP_STRIDE(&f, n) + xx];
          };
          const int px = x - (8 >> sub), py = y - (6 >> sub);
          if (px >= 0 && py >= 0 && px < GST_VIDEO_FRAME_COMP_WIDTH(&p, n) &&
              py < GST_VIDEO_FRAME_COMP_HEIGHT(&p, n)) {
            byte(p, px, py) = byte(was, x, y);
            byte(q, px, py) = alone ? byte(is, px, py) : byte(is, x, y);
          } else if (!alone) {
            changed += byte(was, x, y) != byte(is, x, y);
          }
        }
    for (GstVideoFrame* f : {&was, &is, &p, &q}) gst_video_frame_unmap(f);
    c.check(changed == 0, "%d bytes outside the picture changed", changed);
    c.check(!alone || !gst_buffer_get_video_crop_meta(out.get()), "a crop meta came out");
    expect(c, e, row, info, part.get(), filtered.get(), 0);
  });
}

// Tests frames of another memory than the caps say, and of another context.
void mixed_memory_cases(Suite& s, const Element& e, const std::string& at) {
  const GstVideoInfo cuda_info = video_info("NV12", 61, 43);
  s.run(at + "a buffer of CUDA memory under system caps", [&](Case& c) {
    for (const char* backend : {"cuda", "cpu"}) {
      const Row row = {"mixed", false, backend};
      if (!usable(c, kRows[2])) return;
      Bench b(e, row);
      e.set(b.element(), 0);
      b.caps(cuda_info);
      const BufferPtr in = make_frame(true, cuda_info, 5);
      const BufferPtr before = packed_copy(cuda_info, in.get());
      const BufferPtr out = b.push(in);
      expect(c, e, row, cuda_info, before.get(), out.get(), 0);
      const std::string d = difference(cuda_info, in.get(), before.get(), 0);
      c.check(d.empty(), "the other holder's buffer changed: %s", d.c_str());
    }
  });

  s.run(at + "a buffer of CUDA memory without a meta", [&](Case& c) {
    if (!usable(c, kRows[2])) return;
    Bench b(e, kRows[2]);
    e.set(b.element(), 0);
    b.caps(cuda_info);
    const BufferPtr in = make_frame(true, cuda_info, 5);
    const BufferPtr before = packed_copy(cuda_info, in.get());
    const BufferPtr bare = own(gst_buffer_new());
    gst_buffer_append_memory(bare.get(), gst_buffer_get_memory(in.get(), 0));
    const BufferPtr out = b.push(bare);
    expect(c, e, kRows[2], cuda_info, before.get(), out.get(), 0);
  });

  s.run(at + "a buffer of system memory under CUDA caps", [&](Case& c) {
    for (const char* backend : {"cuda", "cpu"}) {
      const Row row = {"mixed", true, backend};
      if (!usable(c, kRows[2])) return;
      Bench b(e, row);
      e.set(b.element(), 0);
      b.caps(cuda_info);
      const BufferPtr in = make_frame(false, cuda_info, 5);
      const BufferPtr out = b.push(in);
      expect(c, e, row, cuda_info, in.get(), out.get(), 0);
      c.check(out && gstvf::cuda_memory(out.get()), "CUDA caps, but not CUDA memory");
    }
  });

  s.run(at + "frames of another CUDA context", [&](Case& c) {
#if VF_HAVE_GST_CUDA
    if (!usable(c, kRows[2])) return;
    // The element makes its own context before the first frame brings the test's.
    Bench b(e, kRows[2]);
    e.set(b.element(), 0);
    b.caps(cuda_info);
    gst_element_set_state(b.element(), GST_STATE_PLAYING);
    for (int i = 0; i < 3 && c.ok(); i++) {
      const BufferPtr in = make_frame(true, cuda_info, guint32(i));
      const BufferPtr out = b.push(in);
      expect(c, e, kRows[2], cuda_info, in.get(), out.get(), 0);
      GstMemory* memory = out ? gstvf::cuda_memory(out.get()) : nullptr;
      c.check(memory && gstvf::memory_context(memory) == cuda_context(),
              "the frames' context was not adopted");
    }
#else
    c.skip("built without CUDA");
#endif
  });
}

void bad_frame_cases(Suite& s, const Element& e, const std::string& at) {
  const Row& system = kRows[0];
  const GstVideoInfo info = video_info("I420", 61, 43);
  s.run(at + "too small buffers", [&](Case& c) {
    const Row& row = system;
    for (int size : {0, 1, int(info.size) / 2, int(info.size) - 2}) {
      Bench b(e, row);
      e.set(b.element(), 0);
      b.caps(info);
      b.push(gst_buffer_new_allocate(nullptr, size, nullptr));
      c.check(b.flow() == GST_FLOW_ERROR, "a buffer of %d bytes: flow %s", size,
              gst_flow_get_name(b.flow()));
      const std::string text = b.message(GST_MESSAGE_ERROR);
      c.check(!text.empty(), "no error message");
    }
  });

  s.run(at + "a false video meta", [&](Case& c) {
    const struct {
      int width, height, stride;
    } lies[] = {{61, 43, 4}, {61, 43, -64}, {61, 43, 4096}, {30, 43, 64}, {4096, 4096, 4096}};
    for (const auto& lie : lies) {
      Bench b(e, system);
      e.set(b.element(), 0);
      b.caps(info);
      GstBuffer* in = gst_buffer_new_allocate(nullptr, info.size, nullptr);
      gst_buffer_memset(in, 0, 0, info.size);
      gsize offset[4] = {info.offset[0], info.offset[1], info.offset[2], 0};
      gint stride[4] = {lie.stride, lie.stride, lie.stride, 0};
      gst_buffer_add_video_meta_full(in, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_I420,
                                     lie.width, lie.height, 3, offset, stride);
      b.push(in);
      c.check(b.flow() == GST_FLOW_ERROR, "%dx%d with stride %d: flow %s", lie.width, lie.height,
              lie.stride, gst_flow_get_name(b.flow()));
      c.check(!b.message(GST_MESSAGE_ERROR).empty(), "no error message");
    }
  });
}

void memory_cases(Suite& s, const Element& e) {
  const std::string at = std::string(e.name) + "/";
  for (const Row& row : kRows)
    if (!row.cuda_caps) layout_cases(s, e, row, at + row.name + "/");
  mixed_memory_cases(s, e, at);
  bad_frame_cases(s, e, at);
}

}  // namespace

void common_cases(Suite& s, const Element& e) {
  for (const Row& row : kRows) {
    format_cases(s, e, row);
    live_cases(s, e, row);
  }
  memory_cases(s, e);
  async_cases(s, e);
  backend_cases(s, e);
  lifetime_cases(s, e);
}

}  // namespace vf::test
