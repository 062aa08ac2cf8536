// Tests cudaguidedmatte with masks that networks attach to its frames. The expected result is the
// reference's, with the same mask at a place that the test knows.
#include "tests/elements/guidedmasks.h"

#include "filters/letterbox.h"
#include "gst/letterbox/letterboxmeta.h"

namespace vf::test {

#if VF_HAVE_GST_ANALYTICS

namespace {

void format_cases(Suite& s, const std::string& at, const Row& row) {
  const std::tuple<const char*, const char*, bool> pairs[] = {
      {"RGBA", "RGBA", true},     {"ARGB", "ARGB", true},
      {"NV12", "RGBA", true},     {"I420", "BGRA", true},
      {"RGBx", "RGBA", true},     {"NV12", "A420", false},
      {"I420", "A420", false},    {"A420", "A420", false},
      {"YUY2", "AYUV", false},    {"I420_10LE", "A420_10LE", false},
      {"ARGB64", "ARGB64", false}};
  for (const auto& [in, out, cuda] : pairs) {
    if (row.cuda_caps && !cuda) continue;
    s.run(at + "mask/" + in + " to " + out, [&, in = in, out = out](Case& c) {
      if (!usable(c, row)) return;
      for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors}) {
        const GstVideoInfo info = video_info(in, 61, 44);
        Matte m(c, row, "tensor", info, out, refine);
        const Pixels pixels(37, 23);
        for (int i = 0; i < 2; i++) {
          const BufferPtr f = m.frame(i);
          if (!c.ok()) return;
          add_tensor(f.get(), pixels);
          m.expect(f, {pixels.part(whole(info), whole(info))});
        }
        m.is_silent();
      }
    });
  }
}

void tensor_cases(Suite& s, const std::string& at, const Row& row) {
  const GstVideoInfo info = video_info("RGBA", 64, 48);
  const gsize w = 31, h = 19;
  struct Layout {
    const char* name;
    std::vector<gsize> dims;
    int channels, channel;
    bool last;
  };
  const Layout layouts[] = {
      {"HxW", {h, w}, 1, 0, false},          {"1xHxW", {1, h, w}, 1, 0, false},
      {"HxWx1", {h, w, 1}, 1, 0, true},      {"1x1xHxW", {1, 1, h, w}, 1, 0, false},
      {"1xHxWx1", {1, h, w, 1}, 1, 0, true}, {"CxHxW", {3, h, w}, 3, 2, false},
      {"HxWxC", {h, w, 5}, 5, 1, true},      {"1xCxHxW", {1, 2, h, w}, 2, 1, false},
      {"1xHxWxC", {1, h, w, 2}, 2, 0, true},
  };
  const std::pair<const char*, GstTensorDataType> types[] = {
      {"float32", GST_TENSOR_DATA_TYPE_FLOAT32},
      {"float16", GST_TENSOR_DATA_TYPE_FLOAT16},
      {"uint8", GST_TENSOR_DATA_TYPE_UINT8}};
  for (const Layout& layout : layouts)
    s.run(at + "tensor/" + layout.name, [&](Case& c) {
      if (!usable(c, row)) return;
      Matte m(c, row, "tensor", info);
      g_object_set(m.element(), "mask-channel", layout.channel, nullptr);
      const Pixels pixels{int(w), int(h)};
      for (const auto& [name, type] : types)
        for (const char* activation : {"none", "sigmoid", "softmax"}) {
          if (type == GST_TENSOR_DATA_TYPE_UINT8 && strcmp(activation, "none")) continue;
          if (layout.channels < 2 && !strcmp(activation, "softmax")) continue;
          m.set_property("mask-activation", activation);
          for (const bool columns : {false, true}) {
            Tensor t;
            t.type = type;
            t.dims = layout.dims;
            t.channels = layout.channels;
            t.channel = layout.channel;
            t.channels_last = layout.last;
            t.columns = columns;
            t.activation = activation;
            t.apart = columns;
            const BufferPtr f = m.frame();
            if (!c.ok()) return;
            add_tensor(f.get(), pixels, t);
            m.expect(f, {pixels.part(whole(info), whole(info))},
                     strcmp(activation, "none") ? 1 : 0);
          }
        }
      m.is_silent();
    });

  for (const bool last : {false, true})
    s.run(at + "tensor/several channels/" + (last ? "HxWxC" : "CxHxW"), [&, last](Case& c) {
      if (!usable(c, row)) return;
      // Channels 1, 2 and 4 share the subject, and 0 is the rest.
      const double shares[] = {0, 0.5, 0.25, 0, 0.25};
      constexpr int channels = std::size(shares);
      const Pixels pixels{int(w), int(h)};
      const gsize count = pixels.value.size();
      const auto dims =
          last ? std::vector<gsize>{h, w, channels} : std::vector<gsize>{channels, h, w};
      Matte m(c, row, "tensor", info);
      m.set_property("mask-label", "1, 2,4,1");
      for (const char* activation : {"none", "sigmoid", "softmax", "bytes"}) {
        const bool bytes = !strcmp(activation, "bytes");
        m.set_property("mask-activation", bytes ? "none" : activation);
        std::vector<guint8> values(count * channels * (bytes ? 1 : sizeof(float)));
        for (gsize i = 0; i < count; i++)
          for (int k = 0; k < channels; k++) {
            const int p = pixels.value[i];
            const double share = (k ? p * shares[k] : 255.0 - p) / 255;
            const gsize at_value = last ? i * channels + gsize(k) : gsize(k) * count + i;
            if (bytes) {
              // The sum of the first two is p, and the last one takes it beyond 255 or adds nothing.
              const int byte[] = {99, p / 2, p - p / 2, 99, p == 255 ? 200 : 0};
              values[at_value] = guint8(byte[k]);
              continue;
            }
            float v = float(share);
            if (!strcmp(activation, "sigmoid"))
              v = share <= 0 ? -20 : share >= 1 ? 20 : float(std::log(share / (1 - share)));
            if (!strcmp(activation, "softmax")) v = share <= 0 ? -90 : float(3 + std::log(share));
            memcpy(&values[at_value * sizeof v], &v, sizeof v);
          }
        Tensor t;
        if (bytes) t.type = GST_TENSOR_DATA_TYPE_UINT8;
        const BufferPtr f = m.frame();
        if (!c.ok()) return;
        add_tensor(f.get(), t, dims, buffer_of(values, false));
        m.expect(f, {pixels.part(whole(info), whole(info))},
                 !strcmp(activation, "sigmoid")   ? 3
                 : !strcmp(activation, "softmax") ? 1
                                                  : 0);
      }
      m.is_silent();
    });

  for (const int type :
       {GST_TENSOR_DATA_TYPE_FLOAT32, GST_TENSOR_DATA_TYPE_FLOAT16, GST_TENSOR_DATA_TYPE_UINT8})
    for (const bool last : {false, true})
      s.run(at + "tensor/errors of channels/" + std::to_string(type) + (last ? " HxWxC" : " CxHxW"),
            [&, type, last](Case& c) {
              if (!usable(c, row)) return;
              // The largest error is that of a label or mask-error, which is 18.
              const struct {
                const char* label;
                int most, left, right;
              } wanted[] = {{"1:24,2:8", 24, 255, 85},
                            {"1, 2:6", 18, 255, 85},
                            {"2:9,1:18", 18, 255, 128},
                            {"1:1,2:64", 64, 4, 255}};
              for (const auto& want : wanted) {
                constexpr int channels = 3;
                const Classes classes(int(w), int(h), want.left, want.right);
                const gsize count = gsize(w) * h;
                std::vector<guint8> values;
                std::vector<float> numbers(count * channels);
                for (int y = 0; y < int(h); y++)
                  for (int x = 0; x < int(w); x++)
                    for (int k = 0; k < channels; k++) {
                      const gsize i = gsize(y) * w + gsize(x);
                      numbers[last ? i * channels + gsize(k) : gsize(k) * count + i] =
                          classes.on(y) && k ? (k == classes.number(x) ? 0.75f : 0.25f) : 0;
                    }
                for (const float v : numbers) {
                  const guint16 half = half_of(v);
                  const auto byte = guint8(255 * v + 0.75f);
                  const void* const from = type == GST_TENSOR_DATA_TYPE_FLOAT32 ? &v
                                           : type == GST_TENSOR_DATA_TYPE_UINT8
                                               ? static_cast<const void*>(&byte)
                                               : &half;
                  const int size = type == GST_TENSOR_DATA_TYPE_FLOAT32 ? 4
                                   : type == GST_TENSOR_DATA_TYPE_UINT8 ? 1
                                                                        : 2;
                  const auto* const bytes = static_cast<const guint8*>(from);
                  values.insert(values.end(), bytes, bytes + size);
                }
                Matte m(c, row, "tensor", info, nullptr, MatteRefine::colors);
                m.set_property("mask-label", want.label);
                m.expect_mask_error(want.most);
                const BufferPtr f = m.frame();
                if (!c.ok()) return;
                Tensor t;
                t.type = type;
                add_tensor(
                    f.get(), t,
                    last ? std::vector<gsize>{h, w, channels} : std::vector<gsize>{channels, h, w},
                    buffer_of(values, false));
                m.expect(f, {classes.part(whole(info))});
                m.is_silent();
              }
            });

  s.run(at + "tensor/selected by id and index", [&](Case& c) {
    if (!usable(c, row)) return;
    guint major, minor, micro, nano;
    gst_version(&major, &minor, &micro, &nano);
    if (minor < 27) return c.skip("a buffer has one GstTensorMeta before GStreamer 1.28");
    Matte m(c, row, "tensor", info);
    const Pixels pixels[3] = {{20, 11, 0.3, 0.3}, {9, 30, 0.7, 0.3}, {13, 13, 0.4, 0.8}};
    const char* const ids[] = {"first", "2", "third"};
    const std::pair<const char*, int> wanted[] = {{"", 0},  {"third", 2}, {"0", 0},
                                                  {"1", 1}, {"2", 1},     {"first", 0}};
    for (const auto& [name, index] : wanted) {
      m.set_property("mask-tensor", name);
      const BufferPtr f = m.frame();
      if (!c.ok()) return;
      for (int i = 0; i < 3; i++) {
        Tensor t;
        t.id = ids[i];
        add_tensor(f.get(), pixels[i], t);
      }
      m.expect(f, {pixels[index].part(whole(info), whole(info))});
    }
    m.is_silent();
  });

  s.run(at + "tensor/values beyond 0 and 1", [&](Case& c) {
    if (!usable(c, row)) return;
    Matte m(c, row, "tensor", info);
    const BufferPtr f = m.frame();
    if (!c.ok()) return;
    const float values[4] = {-INFINITY, INFINITY, -1e30f, 7};
    std::vector<guint8> bytes(sizeof values);
    memcpy(bytes.data(), values, sizeof values);
    add_tensor(f.get(), {}, {2, 2}, buffer_of(bytes, false));
    Pixels pixels(2, 2);
    pixels.value = {0, 255, 0, 255};
    m.expect(f, {pixels.part(whole(info), whole(info))});
    m.is_silent();
  });
}

// Tests masks that were made for a letterboxed frame and are used on the original frame.
void letterbox_cases(Suite& s, const std::string& at, const Row& row) {
  struct Letterboxed {
    const char* name;
    int width, height, to_width, to_height, par_n, par_d;
    bool center;
  };
  const Letterboxed all[] = {
      {"wide", 96, 54, 64, 64, 1, 1, true},
      {"wide, at the top", 96, 54, 64, 64, 1, 1, false},
      {"tall", 45, 80, 64, 64, 1, 1, true},
      {"tall, at the left", 45, 80, 64, 64, 1, 1, false},
      {"odd", 97, 53, 31, 37, 1, 1, true},
      {"odd, at the top", 97, 53, 31, 37, 1, 1, false},
      {"wide pixels", 72, 58, 64, 64, 16, 11, true},
      {"tall pixels", 72, 58, 63, 65, 8, 9, false},
      {"larger", 51, 33, 128, 96, 1, 1, true},
  };
  for (const Letterboxed& l : all)
    s.run(at + "letterbox/" + l.name, [&](Case& c) {
      if (!usable(c, row)) return;
      for (const LetterboxRule rule : {LetterboxRule::ultralytics, LetterboxRule::affine}) {
        LetterboxParams params;
        params.rule = rule;
        params.align = l.center ? LetterboxAlign::center : LetterboxAlign::top_left;
        params.pixel_aspect = double(l.par_n) / l.par_d;
        LetterboxGeometry g;
        c.check(letterbox_geometry(l.width, l.height, l.to_width, l.to_height, params, &g),
                "geometry");
        // The mask is as large as the network's input, or a third of it.
        for (const int divisor : {1, 3}) {
          const GstVideoInfo info = video_info("RGBA", l.width, l.height);
          Matte m(c, row, "tensor", info);
          const Pixels pixels((l.to_width + divisor - 1) / divisor,
                              (l.to_height + divisor - 1) / divisor);
          const BufferPtr f = m.frame();
          if (!c.ok()) return;
          add_tensor(f.get(), pixels);
          gstvf::register_letterbox_meta();
          gstvf::set_letterbox_meta(f.get(), g);
          MaskRectangle image;
          g.to_source(0, 0, &image.left, &image.top);
          g.to_source(l.to_width, l.to_height, &image.right, &image.bottom);
          m.expect(f, {pixels.part(image, whole(info))});
          m.is_silent();
        }
      }
    });

  s.run(at + "letterbox/the frame itself is letterboxed", [&](Case& c) {
    if (!usable(c, row)) return;
    // The frame is itself a letterbox's output, so its tensors cover all of it.
    const GstVideoInfo info = video_info("RGBA", 64, 64);
    LetterboxGeometry g;
    c.check(letterbox_geometry(96, 54, 64, 64, {}, &g), "geometry");
    Matte m(c, row, "tensor", info);
    const Pixels pixels(16, 16);
    const BufferPtr f = m.frame();
    if (!c.ok()) return;
    add_tensor(f.get(), pixels);
    gstvf::register_letterbox_meta();
    gstvf::set_letterbox_meta(f.get(), g);
    m.expect(f, {pixels.part(whole(info), whole(info))});
  });
}

// Replaces a network: it takes bright pixels for the subject.
GstPadProbeReturn find_bright(GstPad* pad, GstPadProbeInfo* probe, gpointer) {
  GstBuffer* buffer = GST_PAD_PROBE_INFO_BUFFER(probe);
  GstCaps* caps = gst_pad_get_current_caps(pad);
  GstVideoInfo info;
  gst_video_info_from_caps(&info, caps);
  gst_caps_unref(caps);
  const int w = info.width, h = info.height;
  std::vector<guint8> shares(gsize(w) * h);
  GstVideoFrame frame;
  gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) shares[gsize(y) * w + x] = guint8(get_component(frame, 0, x, y));
  gst_video_frame_unmap(&frame);
  buffer = gst_buffer_make_writable(buffer);
  Tensor t;
  t.type = GST_TENSOR_DATA_TYPE_UINT8;
  add_tensor(buffer, t, {1, gsize(h), gsize(w), 1}, buffer_of(shares, false));
  GST_PAD_PROBE_INFO_DATA(probe) = buffer;
  return GST_PAD_PROBE_OK;
}

// A soft spot goes through cudaletterbox to the network, and the network's tensor comes back with
// the original frame. The matte must lie where the spot is, as it follows no edges with this
// epsilon.
void restored(Case& c, int width, int height, int to_width, int to_height, int par_n, int par_d,
              const char* align) {
  GstVideoInfo info = video_info("RGBA", width, height);
  info.par_n = par_n;
  info.par_d = par_d;
  gchar* line = g_strdup_printf(
      "cudaletterbox backend=cpu keep-original=true fill-color=0x000000 align=%s ! "
      "video/x-raw,format=RGB,width=%d,height=%d,pixel-aspect-ratio=1/1 ! identity name=network ! "
      "cudaletterboxrestore ! cudaguidedmatte backend=cpu mask=tensor refine=guided radius=1 "
      "subsample=1 epsilon=1 output=matte",
      align, to_width, to_height);
  GstHarness* harness = gst_harness_new_parse(line);
  g_free(line);
  GstElement* network = gst_bin_get_by_name(GST_BIN(harness->element), "network");
  GstPad* pad = gst_element_get_static_pad(network, "src");
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, find_bright, nullptr, nullptr);
  gst_object_unref(pad);
  gst_object_unref(network);
  // An additional reference reveals a caps object that is unreferenced once too often.
  GstCaps* caps = gst_caps_ref(gst_video_info_to_caps(&info));
  gst_harness_set_src_caps(harness, gst_caps_ref(caps));
  GstBuffer* in = gst_buffer_new_allocate(nullptr, info.size, nullptr);
  GstVideoFrame frame;
  gst_video_frame_map(&frame, &info, in, GST_MAP_WRITE);
  double sum = 0, x_sum = 0, y_sum = 0;  // sums over the picture minus sums over the matte
  const auto count = [&](int x, int y, double v) {
    sum += v;
    x_sum += v * (x + 0.5);
    y_sum += v * (y + 0.5);
  };
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      const double d = std::hypot((x + 0.5) / width - 0.4, (y + 0.5) / height - 0.55);
      const int v = int(255 * 0.5 * (1 + std::cos(M_PI * std::min(d / 0.35, 1.0))) + 0.5);
      auto* at = static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, 0)) +
                 y * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0) + 4 * x;
      at[0] = at[1] = at[2] = guint8(v);
      at[3] = 255;
      count(x, y, v / 255.0);
    }
  gst_video_frame_unmap(&frame);
  const double area = sum, center_x = x_sum / sum, center_y = y_sum / sum;
  sum = x_sum = y_sum = 0;
  const GstFlowReturn flow = gst_harness_push(harness, in);
  const BufferPtr out = own(flow == GST_FLOW_OK ? gst_harness_try_pull(harness) : nullptr);
  if (!out) {
    c.fail("nothing came out: %s", gst_flow_get_name(flow));
  } else {
    gst_video_frame_map(&frame, &info, out.get(), GST_MAP_READ);
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) count(x, y, get_component(frame, 0, x, y) / 255.0);
    gst_video_frame_unmap(&frame);
    const double x = x_sum / sum - center_x, y = y_sum / sum - center_y;
    c.check(std::abs(x) < 0.05 && std::abs(y) < 0.05 && std::abs(sum / area - 1) < 0.01,
            "%dx%d in %dx%d, pixels of %d/%d, %s: off by %.3f, %.3f, of %.3f the area", width,
            height, to_width, to_height, par_n, par_d, align, x, y, sum / area);
  }
  gst_harness_teardown(harness);
  c.check(GST_MINI_OBJECT_REFCOUNT_VALUE(caps) == 2, "caps: %d references, must be 2",
          GST_MINI_OBJECT_REFCOUNT_VALUE(caps));
  gst_caps_unref(caps);
  gst_caps_unref(caps);
}

void restored_cases(Suite& s, const std::string& at) {
  s.run(at + "tensors behind cudaletterbox and cudaletterboxrestore", [](Case& c) {
    for (const char* align : {"center", "top-left"}) {
      restored(c, 160, 90, 64, 64, 1, 1, align);
      restored(c, 91, 160, 64, 64, 1, 1, align);
      restored(c, 157, 83, 61, 77, 1, 1, align);
      restored(c, 144, 116, 96, 96, 16, 11, align);
      restored(c, 144, 117, 97, 63, 8, 9, align);
    }
  });
}

void crop_cases(Suite& s, const std::string& at, const Row& row) {
  if (row.cuda_caps) return;
  s.run(at + "crop", [&](Case& c) {
    if (!usable(c, row)) return;
    for (const char* format : {"RGBA", "A420"}) {
      const GstVideoInfo info = video_info(format, 50, 38);
      const Pixels pixels(30, 22);
      Shape shape;
      shape.left = 12;
      shape.top = 6;
      // The networks saw the frame before it was cropped.
      const MaskRectangle image = {-12, -6, 62, 44};
      Matte m(c, row, "tensor", info);
      BufferPtr f = m.frame(0, shape);
      if (!c.ok()) return;
      add_tensor(f.get(), pixels);
      m.expect(f, {pixels.part(image, whole(info))});

      Matte n(c, row, "segmentation", info);
      f = n.frame(0, shape);
      const Regions regions(30, 22, 1, 2);
      GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(f.get());
      add_segmentation(meta, regions_of(regions.number, 30, 22, GST_VIDEO_FORMAT_GRAY8), {0, 1, 2},
                       {10, 8, 40, 30});
      const Pixels selected = regions.pixels(-1);
      n.expect(f, {selected.part({-2, 2, 38, 32}, {-2, 2, 38, 32})});
      n.is_silent();
    }
  });
}

void segmentation_cases(Suite& s, const std::string& at, const Row& row) {
  const GstVideoInfo info = video_info("RGBA", 64, 48);
  const std::pair<const char*, GstVideoFormat> formats[] = {
      {"GRAY8", GST_VIDEO_FORMAT_GRAY8},
      {"GRAY16_LE", GST_VIDEO_FORMAT_GRAY16_LE},
      {"GRAY16_BE", GST_VIDEO_FORMAT_GRAY16_BE}};
  for (const auto& [name, format] : formats)
    s.run(at + "segmentation/semantic/" + name, [&, format = format](Case& c) {
      if (!usable(c, row)) return;
      // Regions are selected by name, by index, by a name that is another region's number, several
      // at once, and all. A name that no region has adds nothing to the others.
      const guint16 low = 12, high = format == GST_VIDEO_FORMAT_GRAY8 ? 250 : 4000;
      const std::pair<const char*, int> wanted[] = {
          {"", -1},        {"cat", low},       {"person", high},   {"1", high},
          {"3", low},      {"cat,person", -1}, {" 1 , cat ,", -1}, {"horse,cat", low},
          {"dog, 3", low}, {"fur, soft", high}};
      const GstVideoRectangle at_frame = {0, 0, 64, 48};
      for (const auto& [label, which] : wanted) {
        Matte m(c, row, "segmentation", info);
        m.set_property("mask-label", label);
        const BufferPtr f = m.frame();
        if (!c.ok()) return;
        // A name with a comma is a single one where a region has it.
        const char* const person = strchr(label, 'f') ? "fur, soft" : "person";
        const Regions regions(29, 17, low, high);
        GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(f.get());
        const GstAnalyticsMtd mtd = add_segmentation(
            meta, regions_of(regions.number, 29, 17, format, 6), {0, high, 77, low}, at_frame);
        GQuark classes[] = {g_quark_from_string("background"), g_quark_from_string(person),
                            g_quark_from_string("dog"), g_quark_from_string("cat")};
        gfloat levels[] = {-1, -1, -1, -1};
        GstAnalyticsMtd cls;
        gst_analytics_relation_meta_add_cls_mtd(meta, 4, levels, classes, &cls);
        gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, mtd.id,
                                                 cls.id);
        const Pixels selected = regions.pixels(which);
        m.expect(f, {selected.part(whole(info), whole(info))});
        m.is_silent();
      }
    });

  s.run(at + "segmentation/errors of regions", [&](Case& c) {
    if (!usable(c, row)) return;
    // A name may end as an error does, and then has none.
    const struct {
      const char *label, *left;
      int most, errors[2];
    } wanted[] = {{"hair:24,clothes:8", "hair", 24, {255, 85}},
                  {"clothes:12, hair", "hair", 18, {255, 170}},
                  {"1:24,2:8", "hair", 24, {255, 85}},
                  {"hair:24,clothes:8", "hair:24", 24, {191, 85}}};
    for (const auto& want : wanted) {
      Matte m(c, row, "segmentation", info, nullptr, MatteRefine::colors);
      m.set_property("mask-label", want.label);
      m.expect_mask_error(want.most);
      const BufferPtr f = m.frame();
      if (!c.ok()) return;
      const Classes classes(31, 24, want.errors[0], want.errors[1]);
      std::vector<guint16> numbers;
      for (int y = 0; y < classes.height; y++)
        for (int x = 0; x < classes.width; x++)
          numbers.push_back(guint16(classes.on(y) ? 40 * classes.number(x) : 0));
      GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(f.get());
      const GstAnalyticsMtd mtd =
          add_segmentation(meta, regions_of(numbers, 31, 24, GST_VIDEO_FORMAT_GRAY8), {0, 40, 80},
                           {0, 0, info.width, info.height});
      GQuark names[] = {0, g_quark_from_string(want.left), g_quark_from_string("clothes")};
      gfloat levels[] = {-1, -1, -1};
      GstAnalyticsMtd cls;
      gst_analytics_relation_meta_add_cls_mtd(meta, 3, levels, names, &cls);
      gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, mtd.id,
                                               cls.id);
      m.expect(f, {classes.part(whole(info))});
      m.is_silent();
    }
  });

  s.run(at + "segmentation/instances", [&](Case& c) {
    if (!usable(c, row)) return;
    // Each object has its own image. The objects overlap each other and the frame's edge.
    const GstVideoRectangle places[] = {{4, 6, 25, 30}, {20, 2, 60, 33}, {-10, 30, 30, 30}};
    const char* const names[] = {"person", "dog", "person"};
    for (const char* label : {"person", "dog", "", "0"}) {
      Matte m(c, row, "segmentation", info);
      m.set_property("mask-label", label);
      const BufferPtr f = m.frame();
      if (!c.ok()) return;
      GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(f.get());
      std::vector<Pixels> pixels;
      for (int i = 0; i < 3; i++) {
        const Regions regions(20 + i, 17, guint16(i + 1), 0);
        const GstAnalyticsMtd mtd =
            add_segmentation(meta, regions_of(regions.number, 20 + i, 17, GST_VIDEO_FORMAT_GRAY8),
                             {guint(i + 1)}, places[i]);
        GstAnalyticsMtd object;
        gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_string(names[i]), places[i].x,
                                               places[i].y, places[i].w, places[i].h, 0.9f,
                                               &object);
        gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, mtd.id,
                                                 object.id);
        const bool in = !*label || !strcmp(label, "0") || !strcmp(label, names[i]);
        pixels.push_back(regions.pixels(in ? i + 1 : 60000));
      }
      std::vector<MaskPart> parts;
      for (int i = 0; i < 3; i++)
        parts.push_back(pixels[i].part(rectangle(places[i]), rectangle(places[i])));
      m.expect(f, parts);
      m.is_silent();
    }
  });

  s.run(at + "segmentation/a location of 0", [&](Case& c) {
    if (!usable(c, row)) return;
    Matte m(c, row, "segmentation", info);
    for (int i = 0; i < 3; i++) {
      const BufferPtr f = m.frame(i);
      if (!c.ok()) return;
      add_segmentation(gst_buffer_add_analytics_relation_meta(f.get()),
                       regions_of(std::vector<guint16>(16, 1), 4, 4, GST_VIDEO_FORMAT_GRAY8),
                       {0, 1}, {0, 0, 0, 0});
      // From GStreamer 1.30 on, this location means that nothing was found; before, it is an error.
      m.expect(f, gstvf::kSegmentationCanBeEmpty ? std::vector<MaskPart>() : m.opaque());
      if (gstvf::kSegmentationCanBeEmpty || i > 0)
        m.is_silent();
      else
        m.warns("0x0");
    }
  });

  s.run(at + "segmentation/a label without a region", [&](Case& c) {
    if (!usable(c, row)) return;
    for (const char* label : {"horse", "7", "-1", ":8", "horse:8"}) {
      Matte m(c, row, "segmentation", info);
      m.set_property("mask-label", label);
      const BufferPtr f = m.frame();
      if (!c.ok()) return;
      const Regions regions(8, 8, 1, 2);
      GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(f.get());
      const GstAnalyticsMtd mtd =
          add_segmentation(meta, regions_of(regions.number, 8, 8, GST_VIDEO_FORMAT_GRAY8),
                           {0, 1, 2}, {0, 0, 64, 48});
      GQuark classes[] = {0, g_quark_from_string("person"), g_quark_from_string("dog")};
      gfloat levels[] = {-1, -1, -1};
      GstAnalyticsMtd cls;
      gst_analytics_relation_meta_add_cls_mtd(meta, 3, levels, classes, &cls);
      gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, mtd.id,
                                               cls.id);
      m.expect(f, {});
      m.warns(label);
      m.bench().push(f);
      m.is_silent();
    }
  });
}

void hold_cases(Suite& s, const std::string& at, const Row& row) {
  const GstVideoInfo info = video_info("RGBA", 64, 48);
  s.run(at + "masks are held, then missing", [&](Case& c) {
    if (!usable(c, row)) return;
    for (const char* missing : {"opaque", "transparent"}) {
      Matte m(c, row, "tensor", info);
      m.set_property("mask-missing", missing);
      m.set_property("mask-hold-ms", "100");
      const Pixels pixels(20, 20);
      const std::vector<MaskPart> mask = {pixels.part(whole(info), whole(info))};
      const std::vector<MaskPart> none =
          !strcmp(missing, "opaque") ? m.opaque() : std::vector<MaskPart>();
      const auto push = [&](int ms, bool with_mask, const std::vector<MaskPart>& want) {
        const BufferPtr f = m.frame(ms);
        if (!c.ok()) return;
        GST_BUFFER_PTS(f.get()) = GstClockTime(ms) * GST_MSECOND;
        if (with_mask) add_tensor(f.get(), pixels);
        m.expect(f, want);
      };
      push(0, false, none);
      push(40, true, mask);
      push(80, false, mask);
      push(140, false, mask);
      push(141, false, none);
      push(100, false, none);  // a dropped mask does not come back
      push(300, true, mask);
      push(250, false, none);  // the held mask belongs to a later frame
      push(400, true, mask);
      m.set_property("mask-hold-ms", "0");
      push(401, false, none);
      push(402, true, mask);
      m.set_property("mask-hold-ms", "100");
      push(410, false, mask);
      // A flush drops the held mask, and so do new caps.
      c.check(gst_harness_push_event(m.bench().harness(), gst_event_new_flush_start()), "flush");
      c.check(gst_harness_push_event(m.bench().harness(), gst_event_new_flush_stop(TRUE)), "flush");
      GstSegment segment;
      gst_segment_init(&segment, GST_FORMAT_TIME);
      gst_harness_push_event(m.bench().harness(), gst_event_new_segment(&segment));
      push(412, false, none);
      push(420, true, mask);
      GstVideoInfo other = info;
      other.fps_n = 31;
      m.bench().caps(other);
      push(430, false, none);
      m.is_silent();
    }
  });

  s.run(at + "stats have the mask's age and the frames without one", [&](Case& c) {
    if (!usable(c, row)) return;
    Matte m(c, row, "tensor", info);
    m.set_property("mask-hold-ms", "100");
    const Pixels pixels(20, 20);
    const auto push = [&](int ms, bool with_mask, guint64 age_ms, guint64 missing) {
      const BufferPtr f = m.frame(ms);
      if (!c.ok()) return;
      GST_BUFFER_PTS(f.get()) = GstClockTime(ms) * GST_MSECOND;
      if (with_mask) add_tensor(f.get(), pixels);
      m.bench().push(f);
      GstStructure* stats = nullptr;
      g_object_get(m.element(), "stats", &stats, nullptr);
      guint64 age = G_MAXUINT64, frames = G_MAXUINT64;
      gst_structure_get_uint64(stats, "mask-age", &age);
      gst_structure_get_uint64(stats, "masks-missing", &frames);
      gst_structure_free(stats);
      c.check(age == age_ms * GST_MSECOND && frames == missing,
              "frame at %d ms: age %" G_GUINT64_FORMAT " ns, %" G_GUINT64_FORMAT " missing", ms,
              age, frames);
    };
    push(0, false, 0, 1);
    push(40, true, 0, 1);
    push(80, false, 40, 2);
    push(140, false, 100, 3);
    push(141, false, 0, 4);  // the mask is too old
    push(180, true, 0, 4);
    g_object_set(m.element(), "enabled", FALSE, nullptr);
    push(220, false, 0, 4);  // no mask is needed
  });

  s.run(at + "frames without times keep the mask", [&](Case& c) {
    if (!usable(c, row)) return;
    Matte m(c, row, "tensor", info);
    const Pixels pixels(20, 20);
    for (int i = 0; i < 4; i++) {
      const BufferPtr f = m.frame(i);
      if (!c.ok()) return;
      if (i == 0) add_tensor(f.get(), pixels);
      m.expect(f, {pixels.part(whole(info), whole(info))});
    }
  });

  s.run(at + "settings that change keep the mask", [&](Case& c) {
    if (!usable(c, row)) return;
    Matte m(c, row, "tensor", info);
    const Pixels pixels(20, 20);
    for (int i = 0; i < 4; i++) {
      const BufferPtr f = m.frame(i);
      if (!c.ok()) return;
      if (i == 0) add_tensor(f.get(), pixels);
      // This setting makes a new plan.
      m.set_property("despill", "0.5");
      m.set_property("despill", "0");
      m.expect(f, {pixels.part(whole(info), whole(info))});
    }
  });

  s.run(at + "each frame in flight has its own mask", [&](Case& c) {
    if (!usable(c, row)) return;
    Row deep = row;
    deep.async_depth = 3;
    Matte m(c, deep, "tensor", info);
    std::vector<Pixels> pixels;
    std::vector<BufferPtr> in, out;
    for (int i = 0; i < 14; i++) {
      pixels.emplace_back(10 + 9 * (i % 3), 12 + i, 0.2 + 0.05 * i, 0.4);
      const BufferPtr f = m.frame(i);
      if (!c.ok()) return;
      in.push_back(packed_copy(info, f.get()));
      add_tensor(f.get(), pixels.back());
      if (const BufferPtr o = m.bench().push(f)) out.push_back(o);
    }
    gst_harness_push_event(m.bench().harness(), gst_event_new_eos());
    while (GstBuffer* o = gst_harness_try_pull(m.bench().harness())) out.push_back(own(o));
    c.check(out.size() == in.size(), "%zu of %zu frames came out", out.size(), in.size());
    for (size_t i = 0; i < out.size(); i++)
      m.compare(in[i], out[i], {pixels[i].part(whole(info), whole(info))});
  });
}

void field_cases(Suite& s, const std::string& at, const Row& row) {
  if (row.cuda_caps) return;
  s.run(at + "fields", [&](Case& c) {
    if (!usable(c, row)) return;
    for (const int height : {48, 45}) {
      const GstVideoInfo info =
          video_info("RGBA", 62, height, GST_VIDEO_INTERLACE_MODE_INTERLEAVED);
      Bench b(guided_element, row);
      GuidedParams params = params_of(info);
      set(b.element(), params);
      gst_util_set_object_arg(G_OBJECT(b.element()), "mask", "tensor");
      b.caps(info);
      const BufferPtr in = make_frame(false, info, guint32(c.options().seed));
      const Pixels pixels(21, 33);
      add_tensor(in.get(), pixels);
      const BufferPtr before = packed_copy(info, in.get());
      params.mask = MatteMask::external;
      // The first plan gets rows 0, 2, ... of the mask, and the second gets rows 1, 3, ...
      double first = 0;
      const Make make = [&](Queue& queue, const gstvf::Format& format, Placement placement,
                            std::unique_ptr<Plan>* out) {
        MaskRectangle rows = whole(info);
        rows.top = (rows.top + 0.5 - first) / 2;
        rows.bottom = (rows.bottom + 0.5 - first) / 2;
        first++;
        const MaskPart part = pixels.part(rows, rows);
        std::unique_ptr<GuidedPlan> plan;
        const MatteChannels channels = matte_channels(format.layout, format.color);
        VF_TRY(make_guided(queue, format.layout, channels, format.layout, channels, params,
                           placement, &plan));
        VF_TRY(plan->set_mask({&part, 1, 0}));
        *out = std::move(plan);
        return Status();
      };
      BufferPtr want;
      c.check(filter_directly(make, row.library_backend(), info, before.get(), true, &want),
              "the library");
      const BufferPtr out = b.push(in);
      c.check(out != nullptr, "nothing came out: %s", b.message(GST_MESSAGE_ERROR).c_str());
      if (!c.ok()) return;
      const std::string d = difference(info, out.get(), want.get(), 0);
      c.check(d.empty(), "%s", d.c_str());
    }
  });
}

}  // namespace

void guided_mask_cases(Suite& s, const std::string& at) {
  for (const Row& row : kRows) {
    const std::string here = at + row.name + "/";
    format_cases(s, here, row);
    segmentation_cases(s, here, row);
    letterbox_cases(s, here, row);
    hold_cases(s, here, row);
    field_cases(s, here, row);
    crop_cases(s, here, row);
  }
  restored_cases(s, at);
  tensor_cases(s, at, kRows[0]);
  invalid_mask_cases(s, at, kRows[0]);
}

#else

void guided_mask_cases(Suite& s, const std::string& at) {
  s.run(at + "masks attached to the frames",
        [](Case& c) { c.skip("built without GStreamer's analytics library (1.26)"); });
}

#endif

}  // namespace vf::test
