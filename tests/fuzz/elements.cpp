// Fuzzes caps, properties and the geometry of buffers, for each element on the CPU.
//
// The input is a list of steps. The first byte selects the element. Then each step is a byte that
// selects an action (set a property, send caps, push a buffer, flush, restart, query, send an
// event) and the bytes that the action uses. If the input ends within a step, zeros replace the
// missing bytes.
//
// These rules must hold, besides those that the sanitizers check:
//   - GLib logs no critical message, and no warning except that a property keeps its value.
//   - A buffer that is not accepted leaves an error message on the bus.
//   - A buffer that comes out can be mapped as a frame of the caps that came with it.
//   - A buffer that others hold as well does not change.
//   - Filtering in place changes only bytes that belong to rows of the picture.
//
// cudaletterboxrestore runs behind a letterbox; a probe between them drops frames and damages
// metas.
//
// libFuzzer calls LLVMFuzzerTestOneInput. Without libFuzzer, replay.cpp does.
#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gst/base/analytics.h"
#include "gst/base/format.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" {
GST_PLUGIN_STATIC_DECLARE(cudafilters);
}

namespace {

// Tells whether an element always has its pads. A harness needs them, so the elements that make pads
// for each stream are left out.
bool has_pads(GstElementFactory* factory) {
  for (const GList* l = gst_element_factory_get_static_pad_templates(factory); l; l = l->next)
    if (static_cast<const GstStaticPadTemplate*>(l->data)->presence != GST_PAD_ALWAYS) return false;
  return true;
}

// Returns the names of the plugin's elements that have pads.
const std::vector<std::string>& element_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    GList* features = gst_registry_get_feature_list_by_plugin(gst_registry_get(), "cudafilters");
    for (GList* l = features; l; l = l->next)
      if (GST_IS_ELEMENT_FACTORY(l->data) && has_pads(GST_ELEMENT_FACTORY(l->data)))
        found.push_back(gst_plugin_feature_get_name(GST_PLUGIN_FEATURE(l->data)));
    gst_plugin_feature_list_free(features);
    std::sort(found.begin(), found.end());
    return found;
  }();
  return names;
}

// Returns whether a pad of the element accepts these caps.
bool may_have(const char* element, GstPadDirection direction, const char* caps_text) {
  GstElementFactory* factory = gst_element_factory_find(element);
  GstCaps* caps = gst_caps_from_string(caps_text);
  const bool can = direction == GST_PAD_SINK ? gst_element_factory_can_sink_any_caps(factory, caps)
                                             : gst_element_factory_can_src_any_caps(factory, caps);
  gst_caps_unref(caps);
  gst_object_unref(factory);
  return can;
}

// Limits the pixels of frames and the bytes of buffers. Larger ones would be slow and test nothing
// new.
constexpr int kMaxPixels = 1 << 14;
constexpr gsize kMaxBytes = 1 << 18;
constexpr int kMaxSteps = 24;
constexpr int kMaxStride = 256;

// The restorer is no filter. It gives back the frames that a letterbox in front of it received.
constexpr char kRestorer[] = "cudaletterboxrestore";

void demand(bool holds, const char* what, const char* detail = "") {
  if (holds) return;
  fprintf(stderr, "demanded, and not so: %s %s\n", what, detail);
  abort();
}

// Returns the element that a byte selects. Each element has a byte that is computed from its name,
// and also owns the bytes below it down to the previous element's. Inputs of the corpus that use an
// element's exact byte still select it when elements are added.
std::string element_of(int byte) {
  const auto distance = [&](const std::string& name) {
    uint32_t h = 2166136261u;
    for (const char c : name) h = (h ^ uint8_t(c)) * 16777619u;
    return uint8_t(h - uint32_t(byte));
  };
  const std::vector<std::string>& names = element_names();
  demand(!names.empty(), "the plugin has elements");
  return *std::min_element(names.begin(), names.end(),
                           [&](const auto& a, const auto& c) { return distance(a) < distance(c); });
}

GLogWriterOutput hear(GLogLevelFlags level, const GLogField* fields, gsize n, gpointer) {
  const char* text = "";
  for (gsize i = 0; i < n; i++)
    if (!strcmp(fields[i].key, "MESSAGE")) text = static_cast<const char*>(fields[i].value);
  if (level & (G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_ERROR))
    demand(false, "no critical message", text);
  if (level & G_LOG_LEVEL_WARNING)
    demand(strstr(text, " stays "), "no warning but of refused values", text);
  return G_LOG_WRITER_HANDLED;
}

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  uint8_t byte() { return at_ == end_ ? 0 : *at_++; }
  guint64 number(int bytes) {
    guint64 n = 0;
    for (int i = 0; i < bytes; i++) n = n << 8 | byte();
    return n;
  }
  // Returns a number from 0 to n - 1.
  int pick(int n) { return byte() % n; }
  bool coin() { return byte() & 1; }
  std::string text(int max) {
    std::string s;
    for (int n = pick(max + 1); n > 0 && !empty(); n--)
      if (const char c = char(byte()); c) s += c;
    return s;
  }

 private:
  const uint8_t *at_, *end_;
};

// Arithmetic often goes wrong at these numbers.
constexpr gint64 kEdges[] = {
    0,
    1,
    -1,
    2,
    3,
    16,
    255,
    256,
    257,
    511,
    1023,
    32767,
    32768,
    46340,
    46341,
    65535,
    65536,
    1 << 20,
    1 << 24,
    1 << 30,
    (1 << 20) + 1,
    G_MAXINT,
    G_MAXINT - 1,
    G_MININT,
    G_MAXUINT,
    -16,
    -65536,
    -4096,
    G_MAXINT64,
    G_MININT64,
};

gint64 edge(Bytes& b) {
  return kEdges[b.pick(G_N_ELEMENTS(kEdges))];
}

gint64 integer(Bytes& b) {
  switch (b.pick(4)) {
    case 0:
      return b.byte();
    case 1:
      return gint16(b.number(2));
    case 2:
      return edge(b);
    default:
      return gint64(b.number(8));
  }
}

double real(Bytes& b) {
  constexpr double edges[] = {0, -0.0, 1, -1, 0.5, 1e-8, 1e-300, 1e8, 1e30, 1e300, 85, 63, 0.01};
  switch (b.pick(3)) {
    case 0:
      return b.byte() / 8.0;
    case 1:
      return edges[b.pick(G_N_ELEMENTS(edges))];
    default:
      return double(integer(b)) / (1 + b.byte());
  }
}

// Sets any value of a property's type and range. GObject refuses values outside the range.
void set_property(GstElement* element, Bytes& b) {
  guint n = 0;
  GParamSpec** all = g_object_class_list_properties(G_OBJECT_GET_CLASS(element), &n);
  std::vector<GParamSpec*> ours;
  for (guint i = 0; i < n; i++)
    if ((g_type_is_a(all[i]->owner_type, g_type_from_name("GstCudaVideoFilter")) ||
         all[i]->owner_type == G_OBJECT_TYPE(element)) &&
        (all[i]->flags & G_PARAM_WRITABLE) && strcmp(all[i]->name, "backend"))
      ours.push_back(all[i]);
  g_free(all);
  GParamSpec* spec = ours[b.pick(int(ours.size()))];
  GValue value = G_VALUE_INIT;
  g_value_init(&value, spec->value_type);
  if (G_IS_PARAM_SPEC_INT(spec)) {
    const int number = int(integer(b));
    // Frames are padded to a multiple of the stride, which may be too large to allocate here.
    const bool stride = !strcmp(spec->name, "stride");
    g_value_set_int(&value, stride ? number % kMaxStride : number);
  } else if (G_IS_PARAM_SPEC_UINT(spec)) {
    g_value_set_uint(&value, guint(integer(b)));
  } else if (G_IS_PARAM_SPEC_DOUBLE(spec)) {
    g_value_set_double(&value, real(b));
  } else if (G_IS_PARAM_SPEC_BOOLEAN(spec)) {
    g_value_set_boolean(&value, b.coin());
  } else if (G_IS_PARAM_SPEC_ENUM(spec)) {
    const GEnumClass* e = G_PARAM_SPEC_ENUM(spec)->enum_class;
    g_value_set_enum(&value, e->values[b.pick(int(e->n_values))].value);
  } else if (G_IS_PARAM_SPEC_FLAGS(spec)) {
    g_value_set_flags(&value, guint(b.byte()));
  } else if (G_IS_PARAM_SPEC_STRING(spec)) {
    constexpr const char* texts[] = {"",    "x",           "0", "1", "-1", "99999999999999999999",
                                     "x,1", "0.5,-1e300,2"};
    g_value_set_static_string(&value, texts[b.pick(G_N_ELEMENTS(texts))]);
  }
  g_param_value_validate(spec, &value);
  g_object_set_property(G_OBJECT(element), spec->name, &value);
  g_object_get_property(G_OBJECT(element), spec->name, &value);
  g_value_unset(&value);
}

const char* format_name(Bytes& b, const char* element) {
  // Half of the formats are ones that the element takes, and half are any.
  static const std::vector<const char*> all = [] {
    std::vector<const char*> names;
    guint n = 0;
    const GstVideoFormat* raw = gst_video_formats_raw(&n);
    for (guint i = 0; i < n; i++) names.push_back(gst_video_format_to_string(raw[i]));
    std::sort(names.begin(), names.end(), [](auto x, auto y) { return strcmp(x, y) < 0; });
    return names;
  }();
  constexpr const char* matte[] = {"RGBA", "BGRA", "ARGB",   "ABGR",
                                   "A420", "AYUV", "ARGB64", "GBRA"};
  constexpr const char* common[] = {"I420",  "NV12", "RGB",  "RGBA", "YUY2",   "P010_10LE",
                                    "GRAY8", "Y444", "UYVY", "GBR",  "AYUV64", "I420_10LE"};
  if (b.coin()) return all[b.pick(int(all.size()))];
  // Elements that take no gray filter colours with alpha.
  if (!may_have(element, GST_PAD_SINK, "video/x-raw,format=GRAY8"))
    return matte[b.pick(G_N_ELEMENTS(matte))];
  return common[b.pick(G_N_ELEMENTS(common))];
}

struct Size {
  int width, height;
  bool small;  // its frames are small enough to allocate
};

Size size_of_frame(Bytes& b) {
  Size s;
  switch (b.pick(4)) {
    case 0:
      s = {1 + b.pick(64), 1 + b.pick(64), true};
      break;
    case 1:
      s = {1 + int(b.number(2)) % 4096, 1 + b.pick(8), true};
      break;
    case 2:
      s = {1 + b.pick(8), 1 + int(b.number(2)) % 4096, true};
      break;
    default:
      s = {int(edge(b)), int(edge(b)), false};
      break;
  }
  s.small = s.width > 0 && s.height > 0 && gint64(s.width) * s.height <= kMaxPixels;
  return s;
}

// `bounded` is set for output caps, because the element allocates their frames.
GstCaps* video_caps(Bytes& b, const char* element, bool bounded) {
  Size s = size_of_frame(b);
  if (bounded && !s.small) s = {1 + b.pick(64), 1 + b.pick(64), true};
  GstCaps* caps = gst_caps_new_simple(
      "video/x-raw", "format", G_TYPE_STRING, format_name(b, element), "width", G_TYPE_INT, s.width,
      "height", G_TYPE_INT, s.height, "framerate", GST_TYPE_FRACTION, 25, 1, nullptr);
  const int extras = b.byte();
  auto set = [&](const char* field, const std::vector<const char*>& values) {
    gst_caps_set_simple(caps, field, G_TYPE_STRING, values[b.pick(int(values.size()))], nullptr);
  };
  if (extras & 1)
    set("interlace-mode", {"progressive", "interleaved", "mixed", "fields", "alternate"});
  if (extras & 2)
    set("colorimetry",
        {"bt601", "bt709", "bt2020", "sRGB", "1:4:0:0", "2:1:0:0", "0:0:0:0", "bt2100-hlg"});
  if (extras & 4) set("chroma-site", {"mpeg2", "jpeg", "dv", "none", "cosited", "alt-line"});
  if (extras & 8) {
    const int n = int(std::max<gint64>(1, guint32(integer(b)) & G_MAXINT));
    const int d = int(std::max<gint64>(1, guint32(integer(b)) & G_MAXINT));
    gst_caps_set_simple(caps, "pixel-aspect-ratio", GST_TYPE_FRACTION, n, d, nullptr);
  }
  if (extras & 16) {
    set("multiview-mode", {"mono", "side-by-side", "frame-by-frame", "separated"});
    gst_caps_set_simple(caps, "views", G_TYPE_INT, b.pick(4), nullptr);
  }
  if (extras & 32) set("alpha-mode", {"premultiplied", "straight"});
  if ((extras & 192) == 192)
    gst_caps_set_features_simple(
        caps, gst_caps_features_new(b.coin() ? "memory:CUDAMemory" : "meta:GstVideoMeta", nullptr));
  return caps;
}

// Returns whether a tensor of these dimensions would be accepted and be too large to allocate here.
bool is_large(const std::string& dimensions) {
  double size = 1;
  gchar** parts = g_strsplit(dimensions.c_str(), ":", -1);
  for (gchar** part = parts; *part; part++) {
    const double n = g_ascii_strtod(*part, nullptr);
    size *= n > vf::kMaxDimension ? 0 : n;
  }
  g_strfreev(parts);
  return size > 3 * kMaxPixels;
}

GstCaps* tensor_caps(Bytes& b) {
  constexpr const char* types[] = {"float32", "float16", "uint8", "int8"};
  std::string dimensions;
  if (b.pick(4) == 0) dimensions = b.text(24);
  if (dimensions.empty() || !g_utf8_validate(dimensions.c_str(), -1, nullptr) ||
      is_large(dimensions)) {
    const std::string w = std::to_string(1 + b.pick(64)), h = std::to_string(1 + b.pick(64));
    dimensions = b.coin() ? w + ":" + h + ":3:1" : "3:" + w + ":" + h + ":1";
  }
  return gst_caps_new_simple("other/tensors", "format", G_TYPE_STRING, "static", "num_tensors",
                             G_TYPE_INT, 1, "types", G_TYPE_STRING, types[b.pick(4)], "dimensions",
                             G_TYPE_STRING, dimensions.c_str(), "framerate", GST_TYPE_FRACTION, 25,
                             1, nullptr);
}

// Adds valid and invalid tensors and segmentations, as networks might.
void add_masks(GstBuffer* buffer, Bytes& b) {
#if VF_HAVE_GST_ANALYTICS
  const int how = b.byte();
  // Values are raw bits of the input, NaN included.
  const auto results = [&b](gsize size) {
    GstBuffer* bytes = gst_buffer_new_allocate(nullptr, size, nullptr);
    gst_buffer_memset(bytes, 0, b.byte(), size);
    return bytes;
  };
  const auto side = [&b] { return b.coin() ? gsize(1 + b.pick(40)) : gsize(integer(b)); };
  if (how & 1) {
    GstTensor* tensor = gst_tensor_alloc(gsize(b.pick(6)));
    tensor->id = g_quark_from_static_string("x");
    tensor->data_type = GstTensorDataType(b.coin() ? b.pick(20) : GST_TENSOR_DATA_TYPE_FLOAT32);
    tensor->dims_order = GstTensorDimOrder(b.pick(3));
    gsize size = 4;
    for (gsize i = 0; i < tensor->num_dims; i++) {
      tensor->dims[i] = side();
      size = tensor->dims[i] <= kMaxBytes ? std::min(size * tensor->dims[i], kMaxBytes) : size;
    }
    // The buffer's size is usually the right one.
    if (b.pick(8)) tensor->data = results(b.pick(8) ? size : gsize(b.number(2)));
    GstTensor** tensors = g_new(GstTensor*, 1);
    tensors[0] = tensor;
    gst_tensor_meta_set(gst_buffer_add_tensor_meta(buffer), 1, tensors);
  }
  if (how & 2) {
    GstAnalyticsRelationMeta* meta = gst_buffer_add_analytics_relation_meta(buffer);
    for (int i = b.pick(how & 4 ? 80 : 3); i >= 0; i--) {
      const int width = 1 + b.pick(40), height = 1 + b.pick(40);
      GstBuffer* image = results(gsize(width) * height);
      GstVideoMeta* video = gst_buffer_add_video_meta(image, GST_VIDEO_FRAME_FLAG_NONE,
                                                      GST_VIDEO_FORMAT_GRAY8, width, height);
      video->stride[0] = width;
      guint ids[] = {0, b.byte(), guint(integer(b))};
      GstAnalyticsMtd mtd, object;
      gst_analytics_relation_meta_add_segmentation_mtd(
          meta, image, GST_SEGMENTATION_TYPE_INSTANCE, gsize(b.pick(4)), ids, gint(integer(b)),
          gint(integer(b)), guint(side()), guint(side()), &mtd);
      if (b.coin() && gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_static_string("x"),
                                                             0, 0, 1, 1, 1, &object))
        gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, mtd.id,
                                                 object.id);
      const int lies = b.byte();
      if ((lies & 3) == 3) video->width = guint(integer(b));
      if ((lies & 12) == 12) video->height = guint(integer(b));
      if ((lies & 48) == 48) video->stride[0] = gint(integer(b));
      if ((lies & 65) == 65) video->offset[0] = gsize(integer(b));
      if ((lies & 130) == 130) video->format = GstVideoFormat(b.pick(110));
    }
  }
#else
  (void)buffer, (void)b;
#endif
}

// Makes a buffer that holds frames of `info`, more or less.
GstBuffer* make_buffer(Bytes& b, const GstVideoInfo& info) {
  const int how = b.byte();
  gsize size = std::min<gsize>(info.size, kMaxBytes);
  if (how & 1) size = std::min<gsize>(gsize(integer(b)) & G_MAXUINT, kMaxBytes);
  if (how & 2) size += b.byte();
  GstBuffer* buffer = gst_buffer_new();
  if (how & 4) {
    // The memory is split into up to 16 blocks.
    for (int n = b.pick(16); n > 0 && size; n--) {
      const gsize piece = std::min<gsize>(size, gsize(b.number(2)));
      gst_buffer_append_memory(buffer, gst_allocator_alloc(nullptr, piece, nullptr));
      size -= piece;
    }
  }
  if (size || !gst_buffer_n_memory(buffer))
    gst_buffer_append_memory(buffer, gst_allocator_alloc(nullptr, size, nullptr));
  gst_buffer_memset(buffer, 0, b.byte(), gst_buffer_get_size(buffer));
  if (how & 8) {
    gsize offset[GST_VIDEO_MAX_PLANES];
    gint stride[GST_VIDEO_MAX_PLANES];
    guint planes = GST_VIDEO_INFO_N_PLANES(&info);
    auto format = GST_VIDEO_INFO_FORMAT(&info);
    guint width = guint(info.width), height = guint(info.height);
    const int lies = b.byte();
    for (guint p = 0; p < GST_VIDEO_MAX_PLANES; p++) {
      offset[p] = info.offset[p];
      stride[p] = info.stride[p];
      if (lies & 1 << p) {
        if (b.coin()) offset[p] = gsize(integer(b));
        if (b.coin()) stride[p] = gint(integer(b));
      }
    }
    if (lies & 16) planes = 1 + b.pick(4);
    if (lies & 32) format = GstVideoFormat(b.pick(110));
    if (lies & 64) width = guint(integer(b)), height = guint(integer(b));
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, format, width, height, planes,
                                   offset, stride);
  }
  if (how & 16) {
    GstVideoCropMeta* crop = gst_buffer_add_video_crop_meta(buffer);
    crop->x = guint(integer(b));
    crop->y = guint(integer(b));
    crop->width = b.coin() ? guint(info.width) : guint(integer(b));
    crop->height = b.coin() ? guint(info.height) : guint(integer(b));
  }
  if (how & 32) {
    // There are a few boxes of any numbers, or hundreds that repeat them.
    guint box[4][4];
    const int own = 1 + b.pick(4), boxes = b.pick(8) ? own : own * 150;
    for (int i = 0; i < own; i++)
      for (guint& v : box[i]) v = b.coin() ? b.byte() : guint(integer(b));
    for (int i = 0; i < boxes; i++) {
      const guint(&r)[4] = box[i % own];
      gst_buffer_add_video_region_of_interest_meta(buffer, i % 3 ? "x" : "face",
                                                   r[0] + guint(i) / 4, r[1], r[2], r[3]);
    }
  }
  if (how & 64) {
    GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_INTERLACED);
    if (b.coin()) GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_ONEFIELD);
  }
  GST_BUFFER_PTS(buffer) = b.coin() ? GST_CLOCK_TIME_NONE : b.byte() * GST_MSECOND;
  add_masks(buffer, b);
  return buffer;
}

std::vector<uint8_t> contents(GstBuffer* buffer) {
  std::vector<uint8_t> bytes(gst_buffer_get_size(buffer));
  if (!bytes.empty()) gst_buffer_extract(buffer, 0, bytes.data(), bytes.size());
  return bytes;
}

class Run {
 public:
  Run(const char* name, Bytes& b) : name_(name), b_(b), bus_(gst_bus_new()) {
    gst_video_info_init(&info_);
    element_ = strcmp(name, kRestorer) ? gst_element_factory_make(name, nullptr) : restorer();
    gst_object_ref_sink(element_);
    gst_element_set_bus(element_, bus_);
    gst_util_set_object_arg(G_OBJECT(GST_IS_BIN(element_) ? parts_[0] : element_), "backend",
                            "cpu");
    harness_ = gst_harness_new_with_element(element_, "sink", "src");
  }
  ~Run() {
    gst_harness_teardown(harness_);
    gst_clear_buffer(&kept_);
    gst_clear_caps(&between_);
    gst_element_set_state(element_, GST_STATE_NULL);
    gst_element_set_bus(element_, nullptr);
    gst_object_unref(bus_);
    gst_object_unref(element_);
  }

  void step() {
    switch (b_.pick(10)) {
      case 0:
      case 1:
        set_property(GST_IS_BIN(element_) ? parts_[b_.pick(2)] : element_, b_);
        break;
      case 2:
      case 3:
        caps();
        break;
      case 4:
      case 5:
      case 6:
        push();
        break;
      case 7:
        gst_harness_push_event(harness_, gst_event_new_flush_start());
        gst_harness_push_event(harness_, gst_event_new_flush_stop(b_.coin()));
        // An event out of order would be a mistake of the harness, not of the element.
        if (gst_pad_has_current_caps(harness_->srcpad)) segment();
        break;
      case 8:
        gst_element_set_state(element_, GST_STATE_READY);
        gst_element_set_state(element_, GST_STATE_PLAYING);
        gst_harness_push_event(harness_, gst_event_new_stream_start("again"));
        has_caps_ = false;
        break;
      default:
        ask();
        break;
    }
  }

 private:
  // Makes a letterbox followed by the restorer.
  GstElement* restorer() {
    parts_[0] = gst_element_factory_make("cudaletterbox", nullptr);
    parts_[1] = gst_element_factory_make(kRestorer, nullptr);
    g_object_set(parts_[0], "keep-original", TRUE, nullptr);
    GstElement* bin = gst_bin_new(nullptr);
    gst_bin_add_many(GST_BIN(bin), parts_[0], parts_[1], nullptr);
    gst_element_link(parts_[0], parts_[1]);
    GstPad* pad = gst_element_get_static_pad(parts_[0], "src");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, between, this, nullptr);
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM, narrow, this, nullptr);
    gst_object_unref(pad);
    for (const int end : {0, 1}) {
      const char* name = end ? "src" : "sink";
      pad = gst_element_get_static_pad(parts_[end], name);
      gst_element_add_pad(bin, gst_ghost_pad_new(name, pad));
      gst_object_unref(pad);
    }
    return bin;
  }

  // Changes the caps between the two as a network might.
  static GstPadProbeReturn narrow(GstPad*, GstPadProbeInfo* info, gpointer data) {
    GstQuery* query = GST_PAD_PROBE_INFO_QUERY(info);
    GstCaps* caps = static_cast<Run*>(data)->between_;
    if (GST_QUERY_TYPE(query) != GST_QUERY_CAPS || !caps) return GST_PAD_PROBE_OK;
    GstCaps* filter = nullptr;
    gst_query_parse_caps(query, &filter);
    GstCaps* result = filter ? gst_caps_intersect(filter, caps) : gst_caps_ref(caps);
    gst_query_set_caps_result(query, result);
    gst_caps_unref(result);
    return GST_PAD_PROBE_HANDLED;
  }

  static GstPadProbeReturn between(GstPad*, GstPadProbeInfo* info, gpointer data) {
    Bytes& b = static_cast<Run*>(data)->b_;
    const int how = b.byte();
    if (how & 1) return GST_PAD_PROBE_DROP;
    GstBuffer* buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    info->data = buffer;
    if (how & 2)
      gst_buffer_add_video_region_of_interest_meta(
          buffer, "y", guint(integer(b)), guint(integer(b)), guint(integer(b)), guint(integer(b)));
    GstCustomMeta* meta = gst_buffer_get_custom_meta(buffer, "GstCudaLetterboxMeta");
    if (meta && (how & 12) == 12) {
      constexpr const char* fields[] = {"left", "top", "content-width", "content-height", "scale"};
      gst_structure_set(gst_custom_meta_get_structure(meta), fields[b.pick(5)], G_TYPE_DOUBLE,
                        real(b), nullptr);
    }
    if (meta && (how & 48) == 48) gst_buffer_remove_meta(buffer, &meta->meta);
    // The probe keeps some buffers for a while.
    if (how & 64) gst_buffer_replace(&static_cast<Run*>(data)->kept_, buffer);
    return GST_PAD_PROBE_OK;
  }

  void segment() {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(harness_, gst_event_new_segment(&segment));
  }

  void caps() {
    // Downstream caps decide what comes out of an element that can make tensors.
    if (may_have(name_, GST_PAD_SRC, "other/tensors"))
      gst_harness_set_sink_caps(harness_,
                                b_.coin() ? tensor_caps(b_) : video_caps(b_, name_, true));
    if (GST_IS_BIN(element_)) {
      gst_clear_caps(&between_);
      between_ = b_.coin() ? tensor_caps(b_) : video_caps(b_, name_, true);
    }
    GstCaps* caps = video_caps(b_, name_, false);
    GstVideoInfo info;
    has_caps_ = gst_video_info_from_caps(&info, caps);
    if (has_caps_) info_ = info;
    gst_harness_set_src_caps(harness_, caps);
  }

  void push() {
    if (!has_caps_) return;
    GstBuffer* buffer = make_buffer(b_, info_);
    const bool shared = b_.coin();
    const std::vector<uint8_t> before = contents(buffer);
    if (shared) gst_buffer_ref(buffer);
    const GstFlowReturn flow = gst_harness_push(harness_, buffer);
    if (shared) {
      demand(contents(buffer) == before, "a buffer that another holds did not change");
      gst_buffer_unref(buffer);
    }
    while (GstBuffer* out = gst_harness_try_pull(harness_)) {
      check(out, shared ? nullptr : buffer, before);
      gst_buffer_unref(out);
    }
    while (GstEvent* event = gst_harness_try_pull_event(harness_)) gst_event_unref(event);
    GstMessage* error = gst_bus_pop_filtered(bus_, GST_MESSAGE_ERROR);
    // The pads themselves may also answer "not negotiated".
    demand(flow != GST_FLOW_ERROR || error, "a flow error has a message on the bus");
    demand(flow == GST_FLOW_OK || flow == GST_FLOW_ERROR || flow == GST_FLOW_NOT_NEGOTIATED ||
               flow == GST_FLOW_EOS,
           "a buffer is accepted or refused", gst_flow_get_name(flow));
    if (error) gst_message_unref(error);
    gst_bus_set_flushing(bus_, TRUE);
    gst_bus_set_flushing(bus_, FALSE);
  }

  void check(GstBuffer* out, GstBuffer* in_place, const std::vector<uint8_t>& before) {
    GstCaps* caps = gst_pad_get_current_caps(harness_->sinkpad);
    demand(caps, "a buffer comes out after caps");
    GstVideoInfo info;
    GstVideoFrame frame;
    const bool passes =
        GST_IS_BIN(element_) || gst_base_transform_is_passthrough(GST_BASE_TRANSFORM(element_));
    if (gst_video_info_from_caps(&info, caps) && !passes) {
      const GstVideoMeta* meta = gst_buffer_get_video_meta(out);
      // The meta has the caps' size, or is larger with a crop that names the picture.
      if (!meta || (int(meta->width) == info.width && int(meta->height) == info.height)) {
        // The element accepts a buffer without the last row's padding and pushes it when it filters
        // in place. GStreamer itself does not map such a buffer.
        const bool mapped = gst_video_frame_map(&frame, &info, out, GST_MAP_READ);
        demand(mapped || (before.size() < info.size && gst_buffer_get_size(out) == before.size()),
               "what came out can be mapped");
        if (mapped) gst_video_frame_unmap(&frame);
        if (out == in_place) only_rows_changed(out, info, before);
      }
    }
    gst_caps_unref(caps);
  }

  void only_rows_changed(GstBuffer* out, const GstVideoInfo& info,
                         const std::vector<uint8_t>& before) {
    gstvf::Format format;
    if (!gstvf::make_format(info, false, &format)) return;
    const GstVideoMeta* meta = gst_buffer_get_video_meta(out);
    std::vector<bool> row(before.size());
    for (int i = 0; i < format.layout.planes; i++) {
      const int m = format.memory_plane[i];
      gsize at = (meta ? meta->offset[m] : info.offset[m]) + format.offset[i];
      const gsize stride = meta ? meta->stride[m] : info.stride[m];
      const int rows = std::max(format.layout.plane[i].height, format.field_rows[i]);
      for (int y = 0; y < rows; y++, at += stride)
        for (gsize x = 0; x < vf::row_bytes(format.layout, i); x++)
          if (at + x < row.size()) row[at + x] = true;
    }
    const std::vector<uint8_t> after = contents(out);
    demand(after.size() == before.size(), "a buffer keeps its size in place");
    for (size_t i = 0; i < after.size(); i++)
      demand(row[i] || after[i] == before[i], "no byte outside the picture changed");
  }

  void ask() {
    GstCaps* caps = video_caps(b_, name_, false);
    switch (b_.pick(4)) {
      case 0:
        gst_pad_peer_query_accept_caps(harness_->srcpad, caps);
        break;
      case 1: {
        GstCaps* answer = gst_pad_peer_query_caps(harness_->srcpad, caps);
        gst_caps_unref(answer);
        break;
      }
      case 2: {
        GstQuery* query = gst_query_new_allocation(caps, TRUE);
        gst_pad_peer_query(harness_->srcpad, query);
        gst_query_unref(query);
        break;
      }
      default:
        gst_pad_push_event(
            harness_->sinkpad,
            gst_event_new_navigation(gst_structure_new(
                "application/x-gst-navigation", "event", G_TYPE_STRING, "mouse-move", "pointer_x",
                G_TYPE_DOUBLE, real(b_), "pointer_y", G_TYPE_DOUBLE, real(b_), nullptr)));
        break;
    }
    gst_caps_unref(caps);
  }

  const char* name_;
  Bytes& b_;
  GstBus* bus_;
  GstElement* element_;
  GstElement* parts_[2] = {};  // set for a bin
  GstCaps* between_ = nullptr;
  GstBuffer* kept_ = nullptr;
  GstHarness* harness_;
  GstVideoInfo info_;
  bool has_caps_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // Only the tested elements are registered, without scanning the machine's plugins.
  g_setenv("GST_REGISTRY_DISABLE", "yes", FALSE);
  g_log_set_writer_func(hear, nullptr, nullptr);
  gst_init(nullptr, nullptr);
  GST_PLUGIN_STATIC_REGISTER(cudafilters);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes b(data, size);
  const std::string name = element_of(b.byte());
  Run run(name.c_str(), b);
  for (int i = 0; i < kMaxSteps && !b.empty(); i++) run.step();
  return 0;
}
