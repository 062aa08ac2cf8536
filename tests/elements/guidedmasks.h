// Makes masks as networks attach them to the frames of cudaguidedmatte, and compares the frames with
// the reference's, which gets the same masks at places that the test knows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gst/base/analytics.h"
#include "tests/elements/guidedframes.h"
#include "tests/guided.h"

#if VF_HAVE_GST_ANALYTICS

namespace vf::test {

extern const Element guided_element;

// Makes a mask: a soft disc that is off the centre, so that a flip or a shift shows.
struct Pixels {
  int width, height;
  std::vector<uint8_t> value;

  Pixels(int w, int h, double x = 0.4, double y = 0.55) : width(w), height(h) {
    for (int j = 0; j < h; j++)
      for (int i = 0; i < w; i++) {
        const double d = std::hypot((i + 0.5) / w - x, (j + 0.5) / h - y);
        value.push_back(uint8_t(255 * std::clamp(0.5 + 5 * (0.27 - d), 0.0, 1.0)));
      }
  }
  MaskPart part(const MaskRectangle& image, const MaskRectangle& counts) const {
    return {value.data(), width, width, height, image, counts};
  }
};

// Makes a mask of two classes: above a third of the height is background, and below it one class is
// left of the middle, and one right of it. The second image has their errors.
struct Classes {
  int width, height;
  Pixels mask;
  std::vector<uint8_t> error;

  Classes(int w, int h, int left, int right) : width(w), height(h), mask(w, h) {
    for (int j = 0; j < h; j++)
      for (int i = 0; i < w; i++) {
        mask.value[size_t(j) * w + i] = on(j) ? 255 : 0;
        error.push_back(uint8_t(number(i) == 1 ? left : right));
      }
  }
  bool on(int y) const { return 3 * y >= height; }
  int number(int x) const { return 2 * x < width ? 1 : 2; }
  MaskPart part(const MaskRectangle& image) const {
    MaskPart p = mask.part(image, image);
    p.error = error.data();
    return p;
  }
};

// Describes how a tensor holds its numbers.
struct Tensor {
  int type = GST_TENSOR_DATA_TYPE_FLOAT32;  // a type may also be invalid
  std::vector<gsize> dims;                  // empty means height x width
  int channels = 1, channel = 0;
  bool channels_last = false, columns = false;
  const char* activation = "none";
  const char* id = "mask";
  bool apart = false;  // split into several memories
};

inline guint16 half_of(float v) {
  guint32 bits;
  memcpy(&bits, &v, sizeof bits);
  const int exponent = int(bits >> 23 & 255) - 127 + 15;
  if (exponent <= 0) return guint16(bits >> 16 & 0x8000);
  // The mantissa is rounded to nearest.
  const guint32 mantissa = (bits & 0x7fffff) + 0x1000;
  return guint16((bits >> 16 & 0x8000) + (guint32(exponent) << 10) + (mantissa >> 13));
}

// Returns the number that the activation turns into `value`.
inline float number_of(uint8_t value, const Tensor& t) {
  const float share = float(value) / 255;
  if (!strcmp(t.activation, "none")) return share;
  return value == 0 ? -20 : value == 255 ? 20 : std::log(share / (1 - share));
}

inline std::vector<guint8> bytes_of(const Pixels& pixels, const Tensor& t) {
  const gsize count = pixels.value.size();
  const int size = t.type == GST_TENSOR_DATA_TYPE_UINT8     ? 1
                   : t.type == GST_TENSOR_DATA_TYPE_FLOAT16 ? 2
                                                            : 4;
  std::vector<guint8> bytes(count * t.channels * size);
  for (gsize i = 0; i < count; i++)
    for (int c = 0; c < t.channels; c++) {
      // Softmax gets a logit for this channel that assumes zeros in all others. If there are
      // several others, they share the rest.
      const float own = number_of(pixels.value[i], t);
      float v = c == t.channel ? own : !strcmp(t.activation, "softmax") ? 0 : 0.25f;
      if (!strcmp(t.activation, "softmax") && c != t.channel) v = -std::log(float(t.channels - 1));
      const gsize at = (t.channels_last ? i * t.channels + c : c * count + i) * size;
      if (size == 1) {
        bytes[at] = c == t.channel ? pixels.value[i] : 77;
      } else if (size == 2) {
        const guint16 half = half_of(v);
        memcpy(&bytes[at], &half, 2);
      } else {
        memcpy(&bytes[at], &v, 4);
      }
    }
  return bytes;
}

// Adds a tensor that may contradict its dimensions or its buffer. Takes the buffer, which may be
// null.
inline void add_tensor(GstBuffer* buffer, const Tensor& t, const std::vector<gsize>& dims,
                       GstBuffer* data) {
  GstTensor* tensor = gst_tensor_alloc(dims.size());
  tensor->id = g_quark_from_string(t.id);
  tensor->layout = GST_TENSOR_LAYOUT_CONTIGUOUS;
  memcpy(&tensor->data_type, &t.type, sizeof t.type);
  tensor->dims_order = t.columns ? GST_TENSOR_DIM_ORDER_COL_MAJOR : GST_TENSOR_DIM_ORDER_ROW_MAJOR;
  tensor->data = data;
  tensor->num_dims = dims.size();  // GStreamer 1.26 leaves this field at 0
  for (gsize i = 0; i < dims.size(); i++)
    tensor->dims[i] = dims[t.columns ? dims.size() - 1 - i : i];
  GstTensor** tensors = g_new(GstTensor*, 1);
  tensors[0] = tensor;
  gst_tensor_meta_set(gst_buffer_add_tensor_meta(buffer), 1, tensors);
}

inline GstBuffer* buffer_of(const std::vector<guint8>& bytes, bool apart) {
  GstBuffer* buffer = gst_buffer_new();
  const gsize parts = apart ? 3 : 1;
  for (gsize i = 0; i < parts; i++) {
    const gsize begin = bytes.size() * i / parts, end = bytes.size() * (i + 1) / parts;
    GstMemory* memory = gst_allocator_alloc(nullptr, end - begin, nullptr);
    GstMapInfo map;
    gst_memory_map(memory, &map, GST_MAP_WRITE);
    if (end > begin) memcpy(map.data, bytes.data() + begin, end - begin);
    gst_memory_unmap(memory, &map);
    gst_buffer_append_memory(buffer, memory);
  }
  return buffer;
}

inline void add_tensor(GstBuffer* buffer, const Pixels& pixels, const Tensor& t = {}) {
  const gsize w = gsize(pixels.width), h = gsize(pixels.height);
  add_tensor(buffer, t, t.dims.empty() ? std::vector<gsize>{h, w} : t.dims,
             buffer_of(bytes_of(pixels, t), t.apart));
}

// Makes an image whose pixels are region numbers.
inline GstBuffer* regions_of(const std::vector<guint16>& regions, int width, int height,
                             GstVideoFormat format, int padding = 0) {
  const int size = format == GST_VIDEO_FORMAT_GRAY8 ? 1 : 2;
  gsize offset[GST_VIDEO_MAX_PLANES] = {};
  gint stride[GST_VIDEO_MAX_PLANES] = {width * size + padding};
  GstBuffer* image = gst_buffer_new_allocate(nullptr, gsize(stride[0]) * height, nullptr);
  GstMapInfo map;
  gst_buffer_map(image, &map, GST_MAP_WRITE);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      guint8* at = map.data + gsize(y) * stride[0] + x * size;
      const guint16 v = regions[size_t(y) * width + x];
      if (size == 1)
        *at = guint8(v);
      else if (format == GST_VIDEO_FORMAT_GRAY16_LE)
        GST_WRITE_UINT16_LE(at, v);
      else
        GST_WRITE_UINT16_BE(at, v);
    }
  gst_buffer_unmap(image, &map);
  gst_buffer_add_video_meta_full(image, GST_VIDEO_FRAME_FLAG_NONE, format, width, height, 1, offset,
                                 stride);
  return image;
}

// Holds two regions, numbered `low` and `high`, on a background of 0.
struct Regions {
  int width, height;
  std::vector<guint16> number;
  Regions(int w, int h, guint16 low, guint16 high) : width(w), height(h) {
    for (int j = 0; j < h; j++)
      for (int i = 0; i < w; i++)
        number.push_back(guint16(i < w / 3 ? (j > h / 4 ? low : 0) : j < h / 2 ? high : 0));
  }
  // Returns the mask of one region, or of both for -1.
  Pixels pixels(int which) const {
    Pixels p(width, height);
    for (size_t i = 0; i < number.size(); i++)
      p.value[i] = (which < 0 ? number[i] != 0 : number[i] == which) ? 255 : 0;
    return p;
  }
};

inline GstAnalyticsMtd add_segmentation(GstAnalyticsRelationMeta* meta, GstBuffer* image,
                                        std::vector<guint> ids, GstVideoRectangle at) {
  GstAnalyticsMtd mtd;
  gst_analytics_relation_meta_add_segmentation_mtd(meta, image, GST_SEGMENTATION_TYPE_SEMANTIC,
                                                   ids.size(), ids.data(), at.x, at.y, guint(at.w),
                                                   guint(at.h), &mtd);
  return mtd;
}

inline MaskRectangle rectangle(const GstVideoRectangle& r) {
  return {double(r.x), double(r.y), double(r.x) + r.w, double(r.y) + r.h};
}
inline MaskRectangle whole(const GstVideoInfo& info) {
  return {0, 0, double(info.width), double(info.height)};
}

// Returns the part of a frame in system memory that its crop meta names, or the whole frame.
inline BufferPtr seen(const GstVideoInfo& info, GstBuffer* buffer) {
  GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
  GstVideoCropMeta* crop = gst_buffer_get_video_crop_meta(buffer);
  if (!meta || !crop) return packed_copy(info, buffer);
  GstVideoInfo all;
  gst_video_info_set_format(&all, meta->format, meta->width, meta->height);
  const BufferPtr out = own(gst_buffer_new_allocate(nullptr, info.size, nullptr));
  GstVideoFrame from, to;
  gst_video_frame_map(&from, &all, buffer, GST_MAP_READ);
  gst_video_frame_map(&to, &info, out.get(), GST_MAP_WRITE);
  for (guint c = 0; c < info.finfo->n_components; c++)
    for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&to, c); y++)
      for (int x = 0; x < GST_VIDEO_FRAME_COMP_WIDTH(&to, c); x++) {
        const int left = int(crop->x) >> info.finfo->w_sub[c];
        const int top = int(crop->y) >> info.finfo->h_sub[c];
        auto* at = static_cast<guint8*>(GST_VIDEO_FRAME_COMP_DATA(&to, c)) +
                   y * GST_VIDEO_FRAME_COMP_STRIDE(&to, c) +
                   x * GST_VIDEO_FRAME_COMP_PSTRIDE(&to, c);
        *at = guint8(get_component(from, int(c), x + left, y + top));
      }
  gst_video_frame_unmap(&to);
  gst_video_frame_unmap(&from);
  return out;
}

// Runs an element on frames with masks attached, and the reference with the same masks.
class Matte {
 public:
  Matte(Case& c, const Row& row, const char* mask, const GstVideoInfo& info,
        const char* format_out = nullptr, MatteRefine refine = MatteRefine::guided)
      : c_(c),
        row_(row),
        info_(info),
        info_out_(video_info(format_out ? format_out : info.finfo->name, info.width, info.height,
                             GST_VIDEO_INFO_INTERLACE_MODE(&info))),
        bench_(guided_element, row) {
    params_ = params_of(info);
    params_.refine = refine;
    if (refine == MatteRefine::colors) params_.radius = 0;
    set(bench_.element(), params_);
    gst_util_set_object_arg(G_OBJECT(element()), "mask", mask);
    params_.mask = MatteMask::external;
    if (format_out) {
      GstCaps* caps =
          gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, format_out, nullptr);
      if (row.cuda_caps) gstvf::set_caps_in_cuda(caps);
      gst_harness_set_sink_caps(bench_.harness(), caps);
      if (GST_VIDEO_FORMAT_INFO_IS_YUV(info.finfo) && GST_VIDEO_FORMAT_INFO_IS_RGB(info_out_.finfo))
        convert_to_rgb(&params_);
    }
    bench_.caps(info);
  }
  GstElement* element() { return bench_.element(); }
  Bench& bench() { return bench_; }
  // Sets the reference's mask_error to what labels with errors make of the element's.
  void expect_mask_error(int pixels) { params_.mask_error = pixels; }
  void set_property(const char* name, const char* value) {
    gst_util_set_object_arg(G_OBJECT(element()), name, value);
  }

  BufferPtr frame(int i = 0, const Shape& shape = {}) {
    const BufferPtr f = make_frame(row_.cuda_caps, info_, guint32(c_.options().seed + i), shape);
    if (!f) c_.fail("no frame of %s could be made", info_.finfo->name);
    return f;
  }
  // Pushes a frame and compares the output with the reference for these mask parts.
  void expect(const BufferPtr& in, const std::vector<MaskPart>& parts, int slack = 0) {
    if (!c_.ok()) return;
    const BufferPtr before = seen(info_, in.get()), out = bench_.push(in);
    compare(before, out && !row_.cuda_caps ? seen(info_out_, out.get()) : out, parts, slack);
  }
  void compare(const BufferPtr& before, const BufferPtr& out, const std::vector<MaskPart>& parts,
               int slack = 0) {
    if (!c_.ok()) return;
    // Reading the error would discard the warnings.
    if (!out)
      c_.fail("flow %s: %s", gst_flow_get_name(bench_.flow()),
              bench_.message(GST_MESSAGE_ERROR).c_str());
    else
      vf::test::expect(c_, info_, {before}, info_out_, out.get(), {params_},
                       {parts.data(), int(parts.size()), 0}, slack);
  }
  std::vector<MaskPart> opaque() const {
    static const uint8_t one = 255;
    return {{&one, 1, 1, 1, whole(info_), whole(info_)}};
  }
  // Checks that the next warning contains this text.
  void warns(const char* text) {
    if (!c_.ok()) return;
    const std::string said = bench_.message(GST_MESSAGE_WARNING);
    c_.check(said.find(text) != std::string::npos, "no \"%s\" in the warning \"%s\"", text,
             said.c_str());
  }
  void is_silent() {
    const std::string said = bench_.message(GST_MESSAGE_WARNING);
    c_.check(said.empty(), "a warning: %s", said.c_str());
  }

 private:
  Case& c_;
  const Row& row_;
  const GstVideoInfo info_, info_out_;
  Bench bench_;
  GuidedParams params_;
};

// Tests invalid masks. Each is ignored with a warning that says why, and the frame is filtered as
// without a mask.
void invalid_mask_cases(Suite& s, const std::string& at, const Row& row);

}  // namespace vf::test

#endif
