// Makes values of the bytes of a fuzzer's input: properties, caps and buffers, valid and invalid.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gst/base/analytics.h"
#include "gst/base/format.h"

namespace {

void demand(bool holds, const char* what, const char* detail = "") {
  if (holds) return;
  fprintf(stderr, "demanded, and not so: %s %s\n", what, detail);
  abort();
}

// Limits the pixels of frames and the bytes of buffers. Larger ones would be slow and test nothing
// new.
constexpr int kMaxPixels = 1 << 14;
constexpr gsize kMaxBytes = 1 << 18;
constexpr int kMaxStride = 256;

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
void set_property(gpointer object, Bytes& b) {
  guint n = 0;
  GParamSpec** all = g_object_class_list_properties(G_OBJECT_GET_CLASS(object), &n);
  std::vector<GParamSpec*> ours;
  for (guint i = 0; i < n; i++)
    if ((g_type_is_a(all[i]->owner_type, g_type_from_name("GstCudaVideoFilter")) ||
         all[i]->owner_type == G_OBJECT_TYPE(object)) &&
        (all[i]->flags & G_PARAM_WRITABLE) && strcmp(all[i]->name, "backend") &&
        strcmp(all[i]->name, "max-wait"))  // a run must not wait
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
  g_object_set_property(G_OBJECT(object), spec->name, &value);
  g_object_get_property(G_OBJECT(object), spec->name, &value);
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

GstCaps* tensor_caps(Bytes& b, int rows = 1) {
  constexpr const char* types[] = {"float32", "float16", "uint8", "int8"};
  std::string dimensions;
  if (b.pick(4) == 0) dimensions = b.text(24);
  if (dimensions.empty() || !g_utf8_validate(dimensions.c_str(), -1, nullptr) ||
      is_large(dimensions)) {
    const std::string w = std::to_string(1 + b.pick(64)), h = std::to_string(1 + b.pick(64));
    dimensions = (b.coin() ? w + ":" + h + ":3:" : "3:" + w + ":" + h + ":") + std::to_string(rows);
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

}  // namespace
