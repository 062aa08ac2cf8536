// Tests cudaguidedmatte. The common cases need formats that it does not take; those that matter are
// repeated here, with the reference run on planes of single components.
#include "filters/guided.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gst/base/analytics.h"
#include "gst/matte/guidedmattemask.h"
#include "tests/elements/guidedframes.h"
#include "tests/elements/harness.h"
#include "tests/guided.h"

namespace vf::test {

extern const Element guided_element;

namespace {

BufferPtr frame(Case& c, const Row& row, const GstVideoInfo& info, int i = 0,
                const Shape& shape = {}) {
  const BufferPtr f = make_frame(row.cuda_caps, info, guint32(c.options().seed + i), shape);
  if (!f) c.fail("no frame of %s could be made", info.finfo->name);
  return f;
}

// Filters one frame, and converts it if the element is asked for another output format.
void one(Case& c, const Row& row, const char* format, const char* format_out, int w, int h,
         const GuidedParams& params, const Shape& shape = {}) {
  if (!usable(c, row)) return;
  const GstVideoInfo info = video_info(format, w, h), info_out = video_info(format_out, w, h);
  Bench b(guided_element, row);
  set(b.element(), params);
  if (params.output == MatteOutput::composite)
    g_object_set(b.element(), "background-color", 0xff0000ff, nullptr);
  GstCaps* wanted =
      gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, format_out, nullptr);
  if (row.cuda_caps) gstvf::set_caps_in_cuda(wanted);
  gst_harness_set_sink_caps(b.harness(), wanted);
  b.caps(info);
  const BufferPtr in = frame(c, row, info, 0, shape);
  if (!c.ok()) return;
  const BufferPtr before = packed_copy(info, in.get());
  const BufferPtr out = b.push(in);
  c.check(out != nullptr, "flow %s: %s", gst_flow_get_name(b.flow()),
          b.message(GST_MESSAGE_ERROR).c_str());
  if (!c.ok()) return;
  GstCaps* caps = gst_pad_get_current_caps(b.harness()->sinkpad);
  GstVideoInfo is;
  const bool video = caps && gst_video_info_from_caps(&is, caps);
  c.check(video && GST_VIDEO_INFO_FORMAT(&is) == GST_VIDEO_INFO_FORMAT(&info_out),
          "%s comes out, not %s", video ? is.finfo->name : "no video", format_out);
  gst_clear_caps(&caps);
  c.check((gstvf::cuda_memory(out.get()) != nullptr) == row.cuda_caps,
          "came out in the wrong memory");
  if (c.ok()) expect(c, info, {before}, info_out, out.get(), {params});
  const std::string d = difference(info, in.get(), before.get(), 0);
  c.check(d.empty(), "the other holder's buffer changed: %s", d.c_str());
}

GuidedParams blue(GuidedParams p, const GstVideoInfo& info) {
  if (!GST_VIDEO_FORMAT_INFO_IS_YUV(info.finfo)) p.background[2] = 1;
  return p;
}

void format_cases(Suite& s, const std::string& at, const Row& row) {
  const char* const system[] = {"RGBA",      "BGRA",   "ARGB",      "ABGR",     "GBRA",
                                "A420",      "AYUV",   "ARGB64",    "VUYA",     "A420_10LE",
                                "A422_10LE", "AYUV64", "A444_10LE", "GBRA_10LE"};
  const char* const cuda[] = {"RGBA", "BGRA", "ARGB", "ABGR", "GBRA"};
  const auto formats = row.cuda_caps
                           ? std::vector<const char*>(std::begin(cuda), std::end(cuda))
                           : std::vector<const char*>(std::begin(system), std::end(system));
  for (const char* format : formats) {
    s.run(at + "format/" + format, [&](Case& c) {
      for (int output = 0; output < 4 && c.ok(); output++)
        for (const auto& [w, h] : {std::pair{38, 22}, {61, 43}}) {
          const GstVideoInfo info = video_info(format, w, h);
          GuidedParams p = blue(params_of(info), info);
          p.output = MatteOutput(output);
          one(c, row, format, format, w, h, p);
        }
    });
    s.run(at + "colors/" + format, [&](Case& c) {
      for (int output = 0; output < 4 && c.ok(); output++) {
        const GstVideoInfo info = video_info(format, 97, 71);
        GuidedParams p = blue(params_of(info), info);
        p.refine = MatteRefine::colors;
        p.radius = 0;
        p.subsample = 2 + output;
        p.mask_error = 9 * output;
        p.output = MatteOutput(output);
        one(c, row, format, format, 97, 71, p);
      }
    });
    s.run(at + "layers/" + format, [&](Case& c) {
      for (int i = 0; i < 8 && c.ok(); i++) {
        const GstVideoInfo info = video_info(format, 100 - i % 2, 71);
        GuidedParams p = blue(params_of(info), info);
        p.refine = i / 4 ? MatteRefine::guided : MatteRefine::colors;
        p.radius = 0;
        p.subsample = 4;
        p.output = MatteOutput(i % 4);
        p.foreground = i == 3 ? MatteForeground::keep : MatteForeground::estimate;
        p.backdrop = i == 7 ? MatteBackground::color : MatteBackground::blur;
        p.background_sigma = 6 + i;
        one(c, row, format, format, info.width, 71, p);
      }
    });
  }
}

void chroma_key_cases(Suite& s, const std::string& at, const Row& row) {
  struct Pair {
    const char *in, *out;
    bool cuda;
  };
  const Pair keyed[] = {{"RGB", "RGBA", true},   {"BGR", "RGBA", true},
                        {"RGBx", "RGBA", true},  {"BGRx", "RGBA", true},
                        {"xRGB", "ARGB", false}, {"RGBA", "RGBA", true},
                        {"ARGB", "ARGB", true},  {"GBR", "GBRA", true},
                        {"RGBP", "GBRA", true},  {"I420", "A420", false},
                        {"NV12", "A420", false}, {"YV12", "A420", false},
                        {"Y444", "AYUV", false}, {"A420", "A420", false},
                        {"AYUV", "AYUV", false}, {"NV12", "RGBA", true},
                        {"I420", "BGRA", true},  {"YV12", "ABGR", true},
                        {"NV21", "GBRA", true},  {"Y42B", "ARGB", true},
                        {"Y444", "RGBA", true},  {"NV12", "AYUV", false},
                        {"YUY2", "AYUV", false}, {"UYVY", "RGBA", false},
                        {"RGBP", "RGBA", true},  {"I420_10LE", "A420_10LE", false}};
  for (const Pair& pair : keyed) {
    if (row.cuda_caps && !pair.cuda) continue;
    s.run(at + "chroma-key/" + pair.in + " to " + pair.out, [&](Case& c) {
      for (int output = 0; output < 4 && c.ok(); output++) {
        // GStreamer before 1.24.4 loses rows of odd heights between CUDA and host memory.
        const int height = row.cuda_caps ? 44 : 43;
        const GstVideoInfo info = video_info(pair.in, 61, height);
        GuidedParams p = blue(params_of(info), info);
        p.mask = MatteMask::chroma_key;
        p.output = MatteOutput(output);
        p.despill = 0.25 * output;
        p.key_softness = 0.5;
        p.foreground = output % 2 ? MatteForeground::estimate : MatteForeground::keep;
        if (GST_VIDEO_FORMAT_INFO_IS_YUV(info.finfo) &&
            GST_VIDEO_FORMAT_INFO_IS_RGB(video_info(pair.out, 61, height).finfo))
          convert_to_rgb(&p);
        one(c, row, pair.in, pair.out, 61, height, p);
      }
    });
  }
}

// Returns the format that the harness currently receives.
std::string format_of(Bench& b) {
  GstCaps* caps = gst_pad_get_current_caps(b.harness()->sinkpad);
  GstVideoInfo info;
  const bool video = caps && gst_video_info_from_caps(&info, caps);
  gst_clear_caps(&caps);
  return video ? info.finfo->name : "no video";
}

// Restricts the harness to these formats, given as a list in GStreamer's syntax.
void take(Bench& b, const Row& row, const char* formats) {
  GstCaps* caps = gst_caps_from_string((std::string("video/x-raw,format=") + formats).c_str());
  if (row.cuda_caps) gstvf::set_caps_in_cuda(caps);
  gst_harness_set_sink_caps(b.harness(), caps);
}

GuidedParams keyed_composite(const GstVideoInfo& info) {
  GuidedParams p = blue(params_of(info), info);
  p.mask = MatteMask::chroma_key;
  p.output = MatteOutput::composite;
  p.key_softness = 0.5;
  return p;
}

// Tests composites without alpha in every format that they accept, and fallbacks for the others.
void composite_cases(Suite& s, const std::string& at, const Row& row) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"NV12", "I420"}, {"I420", "NV21"}, {"YV12", "NV12"}, {"RGBA", "RGB"},
      {"ARGB", "BGRx"}, {"NV12", "RGB"},  {"I420", "BGRx"}, {"GBRA", "GBR"}};
  if (!row.cuda_caps)
    for (const auto& [in, out] :
         {std::pair{"A420", "NV12"}, {"AYUV", "Y444"}, {"A420_10LE", "I420_10LE"}})
      pairs.push_back({in, out});
  for (const GstVideoFormatInfo* f : gstvf::formats_with_layout())
    if (f->n_components == 3 && !GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f) &&
        (!row.cuda_caps || gstvf::cuda_memory_has(f->format)))
      pairs.push_back({f->name, f->name});
  for (const auto& [in, out] : pairs)
    s.run(at + "composite/" + in + " to " + out, [&, in = in, out = out](Case& c) {
      for (int i = 0; i < 4 && c.ok(); i++) {
        // GStreamer before 1.24.4 loses pixels of odd heights, and of odd widths of packed 4:2:2,
        // between CUDA and host memory.
        const GstVideoFormatInfo* f = video_info(in.c_str(), 62, 44).finfo;
        const bool pairs = row.cuda_caps && f->n_planes == 1 && f->w_sub[1];
        const GstVideoInfo info =
            video_info(in.c_str(), pairs ? 62 : 62 - i % 2, row.cuda_caps ? 44 : 44 - i % 2);
        GuidedParams p = keyed_composite(info);
        p.despill = 0.25 * i;
        p.backdrop = MatteBackground(i == 3);
        if (GST_VIDEO_FORMAT_INFO_IS_YUV(info.finfo) &&
            GST_VIDEO_FORMAT_INFO_IS_RGB(video_info(out.c_str(), 62, 44).finfo))
          convert_to_rgb(&p);
        one(c, row, in.c_str(), out.c_str(), info.width, info.height, p);
      }
    });

  struct Choice {
    const char *in, *taken, *output, *out;
    guint background;
    bool cuda;
  };
  const char* const any = "{RGBA,A420,AYUV,I420,NV12,P010_10LE,Y444,YUY2,RGB,BGRA,A420_10LE}";
  const Choice choices[] = {
      {"NV12", any, "composite", "NV12", 0xff0000ff, true},
      {"I420", any, "composite", "I420", 0xff0000ff, true},
      {"YUY2", any, "composite", "YUY2", 0xff0000ff, false},
      {"P010_10LE", any, "composite", "P010_10LE", 0xff0000ff, true},
      {"RGB", any, "composite", "RGB", 0xff0000ff, true},
      {"BGRA", any, "composite", "BGRA", 0xff0000ff, true},
      {"A420", any, "composite", "A420", 0xff0000ff, false},
      {"NV12", "{RGBA,I420}", "composite", "I420", 0xff0000ff, true},
      {"A420", "{RGBA,I420,Y444}", "composite", "I420", 0xff0000ff, false},
      {"NV12", "{BGRA}", "composite", "BGRA", 0xff0000ff, true},
      {"NV12", "{RGB}", "composite", "RGB", 0xff0000ff, true},
      // A transparent background needs alpha in the output.
      {"NV12", any, "composite", "A420", 0x800000ff, false},
      {"NV12", "{I420,RGBA}", "composite", "RGBA", 0x800000ff, true},
      {"NV12", "{I420}", "composite", "I420", 0x800000ff, true},
      {"NV12", any, "alpha", "A420", 0xff0000ff, false},
      {"NV12", "{NV12,BGRA}", "matte", "BGRA", 0xff0000ff, true},
  };
  for (const Choice& choice : choices) {
    if (row.cuda_caps && !choice.cuda) continue;
    s.run(at + "choose/" + choice.output + " of " + choice.in + " for " + choice.taken +
              (choice.background >> 24 < 255 ? " over a translucent background" : ""),
          [&](Case& c) {
            if (!usable(c, row)) return;
            Bench b(guided_element, row);
            const GstVideoInfo info = video_info(choice.in, 64, 48);
            set(b.element(), keyed_composite(info));
            gst_util_set_object_arg(G_OBJECT(b.element()), "output", choice.output);
            g_object_set(b.element(), "background-color", choice.background, nullptr);
            take(b, row, choice.taken);
            b.caps(info);
            c.check(b.push(frame(c, row, info)) != nullptr, "nothing came out: %s",
                    b.message(GST_MESSAGE_ERROR).c_str());
            const std::string is = format_of(b);
            c.check(is == choice.out, "%s comes out, not %s", is.c_str(), choice.out);
          });
  }

  const char* const alpha = row.cuda_caps ? "RGBA" : "A420";
  s.run(at + "output changes from and to a composite", [&, alpha](Case& c) {
    if (!usable(c, row)) return;
    Bench b(guided_element, row);
    const GstVideoInfo info = video_info("NV12", 64, 48), with_alpha = video_info(alpha, 64, 48);
    GuidedParams p = keyed_composite(info);
    g_object_set(b.element(), "background-color", 0xff0000ff, nullptr);
    set(b.element(), p);
    take(b, row, row.cuda_caps ? "{NV12,RGBA}" : "{NV12,A420}");
    b.caps(info);
    for (int i = 0; i < 8 && c.ok(); i++) {
      p.output = i % 2 ? MatteOutput(i / 2 % 3) : MatteOutput::composite;
      GuidedParams is = p;
      if (i % 2 && row.cuda_caps) convert_to_rgb(&is);
      set(b.element(), p);
      const BufferPtr in = frame(c, row, info, i);
      const BufferPtr before = packed_copy(info, in.get());
      const BufferPtr out = b.push(in);
      c.check(format_of(b) == (i % 2 ? alpha : "NV12"), "frame %d is %s", i, format_of(b).c_str());
      if (c.ok()) expect(c, info, {before}, i % 2 ? with_alpha : info, out.get(), {is});
    }
  });
  s.run(at + "an output that nothing takes is refused", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(guided_element, row);
    const GstVideoInfo info = video_info("NV12", 64, 48);
    const GuidedParams p = keyed_composite(info);
    g_object_set(b.element(), "background-color", 0xff0000ff, nullptr);
    set(b.element(), p);
    take(b, row, "{NV12,I420}");
    b.caps(info);
    c.check(b.push(frame(c, row, info)) != nullptr, "nothing came out");
    gst_util_set_object_arg(G_OBJECT(b.element()), "output", "alpha");
    b.expect_warning(c, "takes no format with alpha for them: it must be composite");
    int output = 0;
    g_object_get(b.element(), "output", &output, nullptr);
    c.check(output == int(MatteOutput::composite), "output became %d", output);
    const BufferPtr in = frame(c, row, info, 1);
    const BufferPtr before = packed_copy(info, in.get());
    expect(c, info, {before}, info, b.push(in).get(), {p});
  });
}

// If `output` changes while a frame is under way, that frame is still a composite, as its caps say.
void controlled_case(Suite& s, const std::string& at) {
  s.run(at + "a composite's caps outlive its output by a frame", [](Case& c) {
    const GstVideoInfo info = video_info("I420", 64, 48);
    Bench b(guided_element, kRows[0]);
    GuidedParams p = keyed_composite(info);
    g_object_set(b.element(), "background-color", 0xff0000ff, nullptr);
    set(b.element(), p);
    b.caps(info);
    c.check(b.push(frame(c, kRows[0], info)) != nullptr, "nothing came out");
    // The output changes as from another thread: after the element has read its caps, while another
    // setting causes a new plan.
    p.epsilon *= 2;
    set(b.element(), p);
    auto* klass = GST_BASE_TRANSFORM_GET_CLASS(b.element());
    static GstFlowReturn (*prepare)(GstBaseTransform*, GstBuffer*, GstBuffer**);
    prepare = klass->prepare_output_buffer;
    klass->prepare_output_buffer = [](GstBaseTransform* t, GstBuffer* in, GstBuffer** out) {
      gst_util_set_object_arg(G_OBJECT(t), "output", "alpha");
      return prepare(t, in, out);
    };
    const BufferPtr in = frame(c, kRows[0], info, 1);
    const BufferPtr before = packed_copy(info, in.get());
    const BufferPtr out = b.push(in);
    klass->prepare_output_buffer = prepare;
    c.check(format_of(b) == "I420", "%s comes out", format_of(b).c_str());
    expect(c, info, {before}, info, out.get(), {p});
    c.check(b.push(frame(c, kRows[0], info, 2)) != nullptr, "it does not go on");
    c.check(format_of(b) == "A420", "%s comes out after it", format_of(b).c_str());
  });
}

// Checks which format an encoder behind videoconvert gets.
void encoder_case(Suite& s, const std::string& at) {
  s.run(at + "an encoder gets the subsampling that came in", [](Case& c) {
    for (const char* format : {"I420", "NV12", "Y42B"}) {
      // x264enc offers these formats and prefers 4:4:4.
      const std::string line =
          std::string("videotestsrc num-buffers=2 ! video/x-raw,width=64,height=48,format=") +
          format +
          " ! cudaguidedmatte backend=cpu mask=chroma-key output=composite ! videoconvert ! "
          "video/x-raw,format={Y444,Y42B,I420,NV12} ! fakesink name=sink";
      GError* error = nullptr;
      GstElement* pipeline = gst_parse_launch(line.c_str(), &error);
      if (!pipeline || error) {
        c.fail("%s", error ? error->message : "no pipeline");
        g_clear_error(&error);
        gst_clear_object(&pipeline);
        return;
      }
      gst_element_set_state(pipeline, GST_STATE_PLAYING);
      GstBus* bus = gst_element_get_bus(pipeline);
      GstMessage* message = gst_bus_timed_pop_filtered(
          bus, 60 * GST_SECOND, GstMessageType(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
      c.check(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS, "no end of %s", format);
      GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
      GstPad* pad = gst_element_get_static_pad(sink, "sink");
      GstCaps* caps = gst_pad_get_current_caps(pad);
      GstVideoInfo info;
      const bool video = caps && gst_video_info_from_caps(&info, caps);
      c.check(video && g_str_equal(info.finfo->name, format), "%s becomes %s", format,
              video ? info.finfo->name : "nothing");
      gst_clear_caps(&caps);
      gst_object_unref(pad);
      gst_object_unref(sink);
      if (message) gst_message_unref(message);
      gst_element_set_state(pipeline, GST_STATE_NULL);
      gst_object_unref(bus);
      gst_object_unref(pipeline);
    }
  });
}

void size_cases(Suite& s, const std::string& at, const Row& row) {
  for (const auto& [w, h] : {std::pair{1, 1}, {1, 40}, {333, 1}, {3, 5}, {640, 360}})
    s.run(at + "size/" + std::to_string(w) + "x" + std::to_string(h), [&, w = w, h = h](Case& c) {
      one(c, row, "RGBA", "RGBA", w, h, params_of(video_info("RGBA", w, h)));
    });
}

// Tests frames of system memory in layouts that GStreamer itself does not make.
void layout_cases(Suite& s, const std::string& at, const Row& row) {
  for (const char* format : {"RGBA", "A420", "ARGB64"}) {
    s.run(at + "padded rows/" + format, [&](Case& c) {
      one(c, row, format, format, 61, 43, params_of(video_info(format, 61, 43)), {26, false, 0, 0});
    });
    s.run(at + "a memory for each plane/" + format, [&](Case& c) {
      one(c, row, format, format, 61, 43, params_of(video_info(format, 61, 43)), {0, true, 0, 0});
    });
  }
}

void change_cases(Suite& s, const std::string& at, const Row& row) {
  const GstVideoInfo info = video_info("RGBA", 64, 48);
  s.run(at + "change settings between frames", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(guided_element, row);
    b.caps(info);
    for (int i = 0; i < 6 && c.ok(); i++) {
      GuidedParams p = params_of(info);
      p.radius = 3 + 4 * i;
      p.subsample = 1 + i;
      p.mask = MatteMask(i % 2);
      p.refine = MatteRefine(i % 3);
      p.mask_error = 4 + 5 * i;
      p.color_reach = 30 + 20 * i;
      p.output = MatteOutput(i % 4);
      p.foreground = MatteForeground(i / 2 % 2);
      p.backdrop = MatteBackground(i < 5);
      p.background_sigma = 3 + 20 * i;
      set(b.element(), p);
      const BufferPtr in = frame(c, row, info, i);
      const BufferPtr before = packed_copy(info, in.get());
      expect(c, info, {before}, info, b.push(in).get(), {p});
    }
  });
  s.run(at + "change caps between frames", [&](Case& c) {
    if (!usable(c, row)) return;
    Bench b(guided_element, row);
    const GuidedParams p = params_of(info);
    set(b.element(), p);
    for (const auto& i : {info, video_info("BGRA", 31, 17), video_info("GBRA", 90, 40), info}) {
      b.caps(i);
      const BufferPtr in = frame(c, row, i, 1);
      const BufferPtr before = packed_copy(i, in.get());
      expect(c, i, {before}, i, b.push(in).get(), {p});
    }
  });
}

void temporal_cases(Suite& s, const std::string& at, const Row& row) {
  const GstVideoInfo info = video_info("RGBA", 64, 48);
  for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
    s.run(at + (refine == MatteRefine::colors ? "temporal filter of colors, and its resets"
                                              : "temporal filter, and its resets"),
          [&](Case& c) {
            if (!usable(c, row)) return;
            Bench b(guided_element, row);
            GuidedParams p = params_of(info);
            p.refine = refine;
            p.temporal = 0.8;
            set(b.element(), p);
            b.caps(info);
            // All frames have the same guide and only the masks change, so every mask is held.
            const BufferPtr first = frame(c, row, info, 0);
            std::vector<BufferPtr> seen;
            std::vector<GuidedParams> settings;
            constexpr int flush_at = 4, discont_at = 6, caps_at = 9;
            for (int i = 0; i < 11 && c.ok(); i++) {
              const BufferPtr in = packed_copy(info, first.get()),
                              noise = frame(c, kRows[0], info, i);
              GstVideoFrame to, from;
              gst_video_frame_map(&to, &info, in.get(), GST_MAP_WRITE);
              gst_video_frame_map(&from, &info, noise.get(), GST_MAP_READ);
              for (int y = 0; y < 48; y++)
                for (int x = 0; x < 64; x++)
                  static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(
                      &to, 0))[y * GST_VIDEO_FRAME_PLANE_STRIDE(&to, 0) + 4 * x + 3] =
                      static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(
                          &from, 0))[y * GST_VIDEO_FRAME_PLANE_STRIDE(&from, 0) + 4 * x + 3];
              gst_video_frame_unmap(&to);
              gst_video_frame_unmap(&from);
              if (i == caps_at) {
                GstVideoInfo faster = info;
                GST_VIDEO_INFO_FPS_N(&faster) = 2 * GST_VIDEO_INFO_FPS_N(&info);
                b.caps(faster);
              }
              if (i == flush_at || i == caps_at ||
                  (i == discont_at && refine == MatteRefine::colors)) {
                seen.clear();
                settings.clear();
              }
              if (i == flush_at) {
                c.check(gst_harness_push_event(b.harness(), gst_event_new_flush_start()),
                        "flush-start");
                c.check(gst_harness_push_event(b.harness(), gst_event_new_flush_stop(TRUE)),
                        "flush-stop");
                GstSegment segment;
                gst_segment_init(&segment, GST_FORMAT_TIME);
                c.check(gst_harness_push_event(b.harness(), gst_event_new_segment(&segment)),
                        "segment");
              }
              // Properties that a controller animates must not reset the plan.
              p.epsilon *= 1.5;
              p.radius += i % 2;
              p.mask_error = i % 3 ? 0 : 18;
              p.output = MatteOutput(i % 3);
              set(b.element(), p);
              seen.push_back(in);
              settings.push_back(p);
              BufferPtr sent = packed_copy(info, in.get());
              if (row.cuda_caps) {
                sent = frame(c, row, info, 0);
                GstVideoFrame device;
                gst_video_frame_map(&device, &info, sent.get(), GST_MAP_WRITE);
                gst_video_frame_map(&from, &info, in.get(), GST_MAP_READ);
                gst_video_frame_copy(&device, &from);
                gst_video_frame_unmap(&device);
                gst_video_frame_unmap(&from);
              }
              if (i == discont_at) GST_BUFFER_FLAG_SET(sent.get(), GST_BUFFER_FLAG_DISCONT);
              expect(c, info, seen, info, b.push(sent).get(), settings);
            }
          });
}

void row_cases(Suite& s, const Row& row) {
  const std::string at = std::string("cudaguidedmatte/") + row.name + "/";
  format_cases(s, at, row);
  chroma_key_cases(s, at, row);
  composite_cases(s, at, row);
  size_cases(s, at, row);
  if (!row.cuda_caps) layout_cases(s, at, row);
  change_cases(s, at, row);
  temporal_cases(s, at, row);
}

void properties_case(Suite& s, const std::string& at) {
  s.run(at + "properties", [](Case& c) {
    GstElement* element = gst_element_factory_make("cudaguidedmatte", nullptr);
    const GuidedParams d;
    int refine, error, reach;
    double trust, sigma;
    g_object_get(element, "refine", &refine, "mask-error", &error, "mask-trust", &trust,
                 "color-reach", &reach, "color-sigma", &sigma, nullptr);
    c.check(refine == 0 && error == 18 && trust == 0.9 && reach == 88 && sigma == 0.03,
            "a default of refine=colors is not the documented one");
    int radius, subsample, mask, output;
    guint key, background;
    double epsilon, tolerance, softness, despill, temporal;
    g_object_get(element, "radius", &radius, "subsample", &subsample, "mask", &mask, "output",
                 &output, "key-color", &key, "background-color", &background, "epsilon", &epsilon,
                 "key-tolerance", &tolerance, "key-softness", &softness, "despill", &despill,
                 "temporal", &temporal, nullptr);
    c.check(radius == d.radius && subsample == 4 && epsilon == 1e-4 && mask == 0 && output == 0 &&
                key == 0x00ff00 && background == 0xff000000 && despill == 0 && temporal == 0 &&
                tolerance == d.key_tolerance && softness == d.key_softness,
            "a default is not the documented one");
    int foreground, backdrop;
    double background_sigma;
    g_object_get(element, "foreground", &foreground, "background", &backdrop, "background-sigma",
                 &background_sigma, nullptr);
    c.check(foreground == 0 && backdrop == 0 && background_sigma == 20,
            "a default of the layers is not the documented one");
    for (const char* name :
         {"foreground", "background", "background-sigma", "refine", "mask-error", "mask-trust",
          "color-reach", "color-sigma", "radius", "epsilon", "subsample", "key-color",
          "key-tolerance", "key-softness", "despill", "output", "background-color", "temporal"}) {
      const GParamSpec* p = g_object_class_find_property(G_OBJECT_GET_CLASS(element), name);
      c.check(p && (p->flags & GST_PARAM_CONTROLLABLE) && (p->flags & GST_PARAM_MUTABLE_PLAYING),
              "%s is not controllable while playing", name);
    }
    const char* const masks[] = {"alpha", "chroma-key", "segmentation", "tensor"};
    const char* const outputs[] = {"alpha", "premultiplied", "matte", "composite"};
    const char* const refines[] = {"auto", "guided", "colors"};
    for (int i = 0; i < 3; i++) {
      gst_util_set_object_arg(G_OBJECT(element), "refine", refines[i]);
      g_object_get(element, "refine", &refine, nullptr);
      c.check(refine == i, "refine=%s is %d", refines[i], refine);
    }
    const char* const foregrounds[] = {"keep", "estimate"};
    const char* const backgrounds[] = {"color", "blur"};
    for (int i = 0; i < 2; i++) {
      gst_util_set_object_arg(G_OBJECT(element), "foreground", foregrounds[i]);
      gst_util_set_object_arg(G_OBJECT(element), "background", backgrounds[i]);
      g_object_get(element, "foreground", &foreground, "background", &backdrop, nullptr);
      c.check(foreground == i && backdrop == i, "foreground=%s is %d, background=%s is %d",
              foregrounds[i], foreground, backgrounds[i], backdrop);
    }
    for (int i = 0; i < 4; i++) {
      gst_util_set_object_arg(G_OBJECT(element), "mask", masks[i]);
      g_object_get(element, "mask", &mask, nullptr);
      c.check(mask == i, "mask=%s is %d", masks[i], mask);
    }
    for (int i = 0; i < 4; i++) {
      gst_util_set_object_arg(G_OBJECT(element), "output", outputs[i]);
      g_object_get(element, "output", &output, nullptr);
      c.check(output == i, "output=%s is %d", outputs[i], output);
    }
    gst_object_unref(element);
  });
}

void caps_case(Suite& s, const std::string& at) {
  s.run(at + "caps of each mask", [](Case& c) {
    GstElement* element = gst_element_factory_make("cudaguidedmatte", nullptr);
    GstPad* sink = gst_element_get_static_pad(element, "sink");
    // With mask=alpha the element accepts frames without alpha, and then posts an error that says
    // why they fail.
    const std::pair<const char*, bool> wants[] = {
        {"RGBA", true}, {"A420", true}, {"ARGB64", true}, {"AYUV", true},
        {"GBRA", true}, {"RGB", true},  {"BGRx", true},   {"I420", true},
        {"NV12", true}, {"YUY2", true}, {"GRAY8", false}, {"P010_10LE", false}};
    // A composite needs no alpha in the output, so these formats differ.
    const std::pair<const char*, bool> composed[] = {
        {"RGBA", true}, {"NV12", true}, {"GRAY8", false}, {"P010_10LE", true}, {"Y41B", true}};
    for (const char* mask : {"alpha", "chroma-key", "segmentation", "tensor"}) {
      gst_util_set_object_arg(G_OBJECT(element), "mask", mask);
      for (const auto& [format, want] : wants) {
        const GstVideoInfo info = video_info(format, 64, 48);
        GstCaps* caps = gst_video_info_to_caps(&info);
        const bool accepts = gst_pad_query_accept_caps(sink, caps);
        c.check(accepts == want, "mask=%s %s %s", mask, accepts ? "accepts" : "refuses", format);
        gst_caps_unref(caps);
      }
    }
    gst_util_set_object_arg(G_OBJECT(element), "output", "composite");
    for (const auto& [format, want] : composed) {
      const GstVideoInfo info = video_info(format, 64, 48);
      GstCaps* caps = gst_video_info_to_caps(&info);
      c.check(bool(gst_pad_query_accept_caps(sink, caps)) == want, "a composite of %s", format);
      gst_caps_unref(caps);
    }
    gst_util_set_object_arg(G_OBJECT(element), "output", "alpha");
    // The element prefers formats with alpha if the mask is read from there.
    gst_util_set_object_arg(G_OBJECT(element), "mask", "alpha");
    GstCaps* caps = gst_pad_query_caps(sink, nullptr);
    const GValue* formats = gst_structure_get_value(
        gst_caps_get_structure(caps, gst_caps_get_size(caps) - 1), "format");
    bool opaque = false;
    for (guint i = 0; i < gst_value_list_get_size(formats); i++) {
      const GstVideoFormatInfo* f = gst_video_format_get_info(
          gst_video_format_from_string(g_value_get_string(gst_value_list_get_value(formats, i))));
      c.check(!opaque || !GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f),
              "%s comes after formats without alpha", f->name);
      opaque = opaque || !GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f);
    }
    gst_caps_unref(caps);
    gst_object_unref(sink);
    gst_object_unref(element);
  });
}

void refusal_cases(Suite& s, const std::string& at) {
  s.run(at + "frames without a mask", [](Case& c) {
    Bench b(guided_element, kRows[0]);
    const GstVideoInfo opaque = video_info("I420", 32, 24);
    b.caps(opaque);
    b.push(make_frame(false, opaque, 1));
    GQuark domain = 0;
    const std::string text = b.message(GST_MESSAGE_ERROR, &domain);
    c.check(domain == GST_STREAM_ERROR, "error of domain %s", g_quark_to_string(domain));
    for (const char* part : {"I420", "alphacombine", "mask=chroma-key"})
      c.check(text.find(part) != std::string::npos, "no %s in \"%s\"", part, text.c_str());
  });

  s.run(at + "masks that need a newer GStreamer", [](Case& c) {
    if (gstvf::kHasAnalytics)
      return c.skip("built with GStreamer's analytics library, which has them");
    const GstVideoInfo info = video_info("NV12", 32, 24);
    for (const char* mask : {"segmentation", "tensor"}) {
      Bench b(guided_element, kRows[0]);
      gst_util_set_object_arg(G_OBJECT(b.element()), "mask", mask);
      b.caps(info);
      b.push(make_frame(false, info, 1));
      GQuark domain = 0;
      const std::string text = b.message(GST_MESSAGE_ERROR, &domain);
      c.check(domain == GST_LIBRARY_ERROR && text.find("1.26") != std::string::npos,
              "error of domain %s: \"%s\"", g_quark_to_string(domain), text.c_str());
    }
    Bench b(guided_element, kRows[0]);
    const GstVideoInfo rgba = video_info("RGBA", 32, 24);
    b.caps(rgba);
    c.check(b.push(make_frame(false, rgba, 1)) != nullptr, "nothing came out");
    gst_util_set_object_arg(G_OBJECT(b.element()), "mask", "tensor");
    b.expect_warning(c, "1.26");
    c.check(b.push(make_frame(false, rgba, 2)) != nullptr, "it does not go on");
  });
}

void green_screen_case(Suite& s, const std::string& at) {
  s.run(at + "a green screen", [](Case& c) {
    // A red disc stands before a green background that darkens to a fifth. The matte must ignore
    // the shadow.
    const GstVideoInfo info = video_info("RGB", 160, 90), out_info = video_info("RGBA", 160, 90);
    const BufferPtr in = own(gst_buffer_new_allocate(nullptr, info.size, nullptr));
    GstVideoFrame f;
    gst_video_frame_map(&f, &info, in.get(), GST_MAP_WRITE);
    const auto inside = [](int x, int y) { return std::hypot(x - 80, y - 45) < 25; };
    for (int y = 0; y < 90; y++)
      for (int x = 0; x < 160; x++) {
        auto* p = static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&f, 0)) +
                  y * GST_VIDEO_FRAME_PLANE_STRIDE(&f, 0) + 3 * x;
        const int shade = 250 - x;  // from 250 down to 90
        p[0] = inside(x, y) ? 220 : guint8(shade * 0.1);
        p[1] = inside(x, y) ? 30 : guint8(shade);
        p[2] = inside(x, y) ? 40 : guint8(shade * 0.15);
      }
    gst_video_frame_unmap(&f);
    Bench b(guided_element, kRows[0]);
    g_object_set(b.element(), "key-tolerance", 0.45, "key-softness", 0.05, "radius", 8, "epsilon",
                 1e-3, nullptr);
    gst_util_set_object_arg(G_OBJECT(b.element()), "mask", "chroma-key");
    b.caps(info);
    const BufferPtr out = b.push(in);
    if (!out) return c.fail("nothing came out");
    gst_video_frame_map(&f, &out_info, out.get(), GST_MAP_READ);
    for (int y = 0; y < 90; y++)
      for (int x = 0; x < 160; x++) {
        const double edge = std::fabs(std::hypot(x - 80, y - 45) - 25);
        const int a = get_component(f, 3, x, y), want = inside(x, y) ? 255 : 0;
        if (edge > 4)
          c.check(std::abs(a - want) <= 26, "alpha at %d,%d is %d, not %d", x, y, a, want);
      }
    gst_video_frame_unmap(&f);
  });
}

void warnings_case(Suite& s, const std::string& at) {
  s.run(at + "warnings are not repeated at once", [](Case& c) {
    gstvf::WarningLimit limit;
    const struct {
      int milliseconds;
      const char* text;
      bool allowed;
    } warnings[] = {{0, "a", true},     {900, "a", false},  {900, "b", false},
                    {1100, "b", true},  {2000, "a", false}, {11000, "b", false},
                    {11200, "b", true}, {12300, "a", true}};
    for (const auto& [at, text, allowed] : warnings)
      c.check(limit.allows(text, G_TIME_SPAN_HOUR + at * G_TIME_SPAN_MILLISECOND) == allowed,
              "\"%s\" after %d ms", text, at);
  });
}

void cases(Suite& s) {
  const std::string at = "cudaguidedmatte/";
  warnings_case(s, at);
  properties_case(s, at);
  caps_case(s, at);
  refusal_cases(s, at);
  controlled_case(s, at);
  encoder_case(s, at);
  green_screen_case(s, at);
  guided_mask_cases(s, at);
  for (const Row& row : kRows) row_cases(s, row);
}

}  // namespace

extern const Element guided_element = [] {
  Element e;
  e.name = "cudaguidedmatte";
  e.own_cases = cases;
  e.not_common = "every format needs alpha";
  e.changes = {{"radius",
                {"4", "12", "1", "30"},
                {{"refine", "guided"}, {"epsilon", "0.001"}, {"subsample", "2"}},
                {"RGBA", "BGRA", "GBRA"},
                {}},
               {"mask-error",
                {"12", "0", "4", "30", "64"},
                {{"refine", "colors"}, {"color-reach", "40"}},
                {"RGBA", "BGRA", "GBRA"},
                {}},
               {"background-sigma",
                {"20", "3", "90", "256"},
                {{"output", "composite"}, {"background", "blur"}, {"foreground", "estimate"}},
                {"RGBA", "BGRA", "GBRA"},
                {}}};
  e.faults = {{{{"refine", "guided"}, {"radius", "3"}}, {"RGBA", "A420"}, {"RGBA", "GBRA"}},
              {{{"refine", "colors"}, {"mask-error", "0"}, {"temporal", "0.5"}},
               {"RGBA", "A420"},
               {"RGBA", "GBRA"}},
              {{{"output", "composite"}, {"background", "blur"}, {"foreground", "estimate"}},
               {"RGBA", "A420"},
               {"RGBA", "GBRA"}},
              {{{"mask", "chroma-key"},
                {"output", "composite"},
                {"background", "blur"},
                {"background-sigma", "3"}},
               {"NV12", "Y42B"},
               {"NV12", "RGB"}}};
  if (gstvf::kHasAnalytics) {
    // Frames without a mask get the matte that mask-missing selects.
    e.changes.push_back({"mask-missing",
                         {"opaque", "transparent"},
                         {{"mask", "tensor"}, {"color-reach", "40"}},
                         {"RGBA", "BGRA", "GBRA"},
                         {}});
    e.faults.push_back({{{"mask", "segmentation"}, {"mask-missing", "transparent"}},
                        {"RGBA", "A420"},
                        {"RGBA", "GBRA"}});
  }
  e.out_caps = "video/x-raw";
  return e;
}();

}  // namespace vf::test
