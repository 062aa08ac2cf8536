/**
 * SECTION:element-cudaletterbox
 * @title: cudaletterbox
 *
 * Makes network input of video in one pass: resizes with the display aspect kept, pads, converts
 * colours, and stores a frame or a normalised tensor, on an NVIDIA GPU or on the CPU.
 *
 * The output's size comes from the caps behind the element, as with videoscale; without any it is
 * the input's. pixel-aspect-ratio counts on both sides (put capssetter in front to take pixels for
 * square). #cudaletterbox:rule says which training code is followed to the pixel: LetterBox of
 * Ultralytics or the warp of TensorRT's YOLO examples.
 *
 * The source pad gives video, or tensors with the caps of NNStreamer: other/tensors,
 * format=static, num_tensors=1, types=float32 (float16, uint8), dimensions=W:H:3:1 (NCHW) or
 * 3:W:H:1 (NHWC). Values are y = (x * scale - mean) / std of 8-bit x; uint8 is not normalised.
 *
 * Tensors with the caps feature memory:CUDAMemory stay on the GPU. An application gets the device
 * pointer by gst_memory_map() of the buffer's only memory with GST_MAP_READ | GST_MAP_CUDA; it is
 * valid in the context of that GstCudaMemory. From GStreamer 1.24 on gst_cuda_memory_sync() comes
 * first, or the work goes to gst_cuda_memory_get_stream(). Mapped without GST_MAP_CUDA, the tensor
 * is copied to the host. Of caps that allow both memories the tensors get the one that they are
 * made in, so that the same line runs without a GPU:
 *
 *     other/tensors(memory:CUDAMemory),...;other/tensors,...
 *
 * Built with GStreamer 1.26 or newer, tensors are described by a GstTensorMeta as well, with the id
 * "cudaletterbox" and dimensions 1, 3, H, W or 1, H, W, 3.
 *
 * Each buffer has the custom meta "GstCudaLetterboxMeta" with doubles scale, left, top,
 * content-width and content-height (in output pixels), and ints source-width and source-height. A
 * box of the network goes back to the source by
 *
 *     x_source = (x - left) * source-width / content-width
 *
 * and the same for y. A frame that passes through unchanged keeps the meta of an earlier
 * cudaletterbox. Elements that scale frames by their metas' rules, as videoconvertscale, keep it
 * true.
 *
 * Region-of-interest metas, crops and overlays are moved along; analytics metas are where the
 * plugin was built with GStreamer 1.26 (boxes, classes and tracks; before 1.28 no segmentations).
 * Metas of other kinds that are tagged with the frame's size are scaled if there is no padding
 * (from 1.28 on always) and are else left out. Navigation events go upstream with the source's
 * coordinates.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 videotestsrc ! cudaletterbox ! video/x-raw,format=RGB,width=640,height=640 ! \
 *     videoconvert ! autovideosink
 * ]| Frames in system memory.
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! qtdemux ! h264parse ! nvh264dec ! \
 *     'video/x-raw(memory:CUDAMemory)' ! cudaletterbox ! \
 *     other/tensors,format=static,num_tensors=1,types=float32,dimensions=640:640:3:1 ! fakesink
 * ]| From the decoder's frames in CUDA memory to a tensor.
 * |[
 * gst-launch-1.0 filesrc location=clip.mp4 ! decodebin ! videoconvert ! cudaletterbox ! \
 *     video/x-raw,format=RGB,width=320,height=320,pixel-aspect-ratio=1/1 ! \
 *     onnxinference model-file=network.onnx input-image-format=chw input-tensor-scale=255 !
 * fakesink
 * ]| A network in GStreamer 1.26, which puts its results on the frames.
 */
#include "gst/gstcudaletterbox.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "filters/letterbox.h"
#include "gst/analytics.h"
#include "gst/cudacompat.h"
#include "gst/frame.h"

namespace {

struct Tensor {
  vf::Type type = vf::Type::f32;
  bool half = false;
  bool planar = true;
  int width = 0, height = 0;
  int element_size() const { return half ? 2 : vf::size_of(type); }
  gsize size() const { return gsize(width) * gsize(height) * 3 * gsize(element_size()); }
};

}  // namespace

typedef struct _GstCudaLetterbox {
  GstCudaVideoFilter parent;

  // Under the object's lock.
  vf::LetterboxParams params;
  gboolean bgr;
  guint n_mean, n_std;  // 1 or 3 values were given
  // Of the caps; 0 before there are any. The target is what a stride may have made smaller.
  int in_width, in_height, out_width, out_height, target_width, target_height;
  double pixel_aspect;
  gboolean out_video;
  Tensor tensor;  // the output where it is not video
} GstCudaLetterbox;
typedef struct _GstCudaLetterboxClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaLetterboxClass;

#define GST_CUDA_LETTERBOX(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_LETTERBOX, GstCudaLetterbox))

#define gst_cuda_letterbox_parent_class parent_class
G_DEFINE_TYPE(GstCudaLetterbox, gst_cuda_letterbox, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudaletterbox, "cudaletterbox", GST_RANK_NONE, GST_TYPE_CUDA_LETTERBOX)

enum {
  PROP_0,
  PROP_RULE,
  PROP_FILL_COLOR,
  PROP_ALIGN,
  PROP_SCALE_UP,
  PROP_STRIDE,
  PROP_INTERPOLATION,
  PROP_CHANNEL_ORDER,
  PROP_MEAN,
  PROP_STD,
  PROP_SCALE,
};

constexpr char kMeta[] = "GstCudaLetterboxMeta";
constexpr char kTensors[] = "other/tensors";
constexpr char kTensorId[] = "cudaletterbox";
// It is one row there.
constexpr gsize kMaxCudaTensor = G_MAXINT;

#define GST_TYPE_CUDA_LETTERBOX_RULE (gst_cuda_letterbox_rule_get_type())
static GType gst_cuda_letterbox_rule_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {int(vf::LetterboxRule::ultralytics),
       "LetterBox of Ultralytics: whole pixels, cv2's bilinear", "ultralytics"},
      {int(vf::LetterboxRule::affine),
       "The warp of TensorRT's YOLO examples: exact centre, float32", "affine"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaLetterboxRule", values));
  return type;
}

#define GST_TYPE_CUDA_LETTERBOX_ALIGN (gst_cuda_letterbox_align_get_type())
static GType gst_cuda_letterbox_align_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {int(vf::LetterboxAlign::center), "Padding on both sides", "center"},
      {int(vf::LetterboxAlign::top_left), "Padding at the right or bottom only", "top-left"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaLetterboxAlign", values));
  return type;
}

#define GST_TYPE_CUDA_LETTERBOX_INTERPOLATION (gst_cuda_letterbox_interpolation_get_type())
static GType gst_cuda_letterbox_interpolation_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {int(vf::Interpolation::bilinear), "Between the four nearest pixels", "bilinear"},
      {int(vf::Interpolation::nearest), "The nearest pixel", "nearest"},
      {int(vf::Interpolation::area), "Mean of all pixels covered (for large reductions)", "area"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaLetterboxInterpolation", values));
  return type;
}

#define GST_TYPE_CUDA_LETTERBOX_CHANNEL_ORDER (gst_cuda_letterbox_channel_order_get_type())
static GType gst_cuda_letterbox_channel_order_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {FALSE, "Red first", "rgb"},
      {TRUE, "Blue first", "bgr"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaLetterboxChannelOrder", values));
  return type;
}

// Tensors

namespace {

// W:H:3:1 or 3:W:H:1; what follows must be 1. 3:H:3:1 is taken for planes.
bool parse_dimensions(const char* text, Tensor* out) {
  gchar** parts = g_strsplit(text, ":", -1);
  gint64 size[4] = {1, 1, 1, 1};
  bool ok = true;
  int n = 0;
  for (; parts[n]; n++) {
    char* end;
    const gint64 value = g_ascii_strtoll(parts[n], &end, 10);
    ok = ok && end != parts[n] && *end == '\0' && value >= 1 && value <= vf::kMaxDimension;
    if (n < 4)
      size[n] = value;
    else
      ok = ok && value == 1;
  }
  g_strfreev(parts);
  if (!ok || n < 3 || size[3] != 1) return false;
  out->planar = size[2] == 3;
  if (!out->planar && size[0] != 3) return false;
  out->width = int(size[out->planar ? 0 : 1]);
  out->height = int(size[out->planar ? 1 : 2]);
  return true;
}

bool parse_tensor(GstCaps* caps, Tensor* out) {
  const GstStructure* s = gst_caps_get_structure(caps, 0);
  const gchar* types = gst_structure_get_string(s, "types");
  const gchar* dimensions = gst_structure_get_string(s, "dimensions");
  if (!types || !dimensions) return false;
  out->half = g_str_equal(types, "float16");
  if (g_str_equal(types, "float32"))
    out->type = vf::Type::f32;
  else if (out->half)
    out->type = vf::Type::u16;
  else if (g_str_equal(types, "uint8"))
    out->type = vf::Type::u8;
  else
    return false;
  return parse_dimensions(dimensions, out);
}

bool is_tensor(GstCaps* caps) {
  return !gst_caps_is_empty(caps) && !gst_caps_is_any(caps) &&
         gst_structure_has_name(gst_caps_get_structure(caps, 0), kTensors);
}

double pixel_aspect(const GstVideoInfo& info) {
  return info.par_n > 0 && info.par_d > 0 ? double(info.par_n) / info.par_d : 1.0;
}

// How much worse than `want` a format is to convert to.
int format_loss(const GstVideoFormatInfo* want, const GstVideoFormatInfo* f) {
  if (f == want) return 0;
  int loss = 1;
  const auto family = [](const GstVideoFormatInfo* i) {
    return GST_VIDEO_FORMAT_INFO_IS_GRAY(i) ? 2 : GST_VIDEO_FORMAT_INFO_IS_RGB(i) ? 1 : 0;
  };
  if (family(f) == 2 && family(want) != 2) loss += 64;
  if (family(f) != family(want)) loss += 8;
  if (f->depth[0] < want->depth[0]) loss += 16;
  if (f->depth[0] > want->depth[0]) loss += 2;
  const bool had = GST_VIDEO_FORMAT_INFO_HAS_ALPHA(want), has = GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f);
  if (had && !has) loss += 32;
  if (!had && has) loss += 1;
  if (f->n_components > 2 && want->n_components > 2 &&
      f->w_sub[1] + f->h_sub[1] > want->w_sub[1] + want->h_sub[1])
    loss += 4;
  return loss;
}

}  // namespace

// Geometry

// Where the picture goes with the settings and caps of now.
static vf::Status gst_cuda_letterbox_geometry(GstCudaLetterbox* self, vf::LetterboxParams* params,
                                              vf::LetterboxGeometry* geometry) {
  GST_OBJECT_LOCK(self);
  *params = self->params;
  params->pixel_aspect = self->pixel_aspect;
  const int in_width = self->in_width, in_height = self->in_height;
  const int width = self->out_width, height = self->out_height;
  const int target_width = self->target_width, target_height = self->target_height;
  GST_OBJECT_UNLOCK(self);
  if (params->stride && target_width > 0 &&
      vf::letterbox_geometry(in_width, in_height, target_width, target_height, *params, geometry)
          .ok() &&
      geometry->width == width && geometry->height == height)
    return {};
  // The caps ask for a size of their own: all of it is used.
  params->stride = 0;
  return vf::letterbox_geometry(in_width, in_height, width, height, *params, geometry);
}

static vf::Status gst_cuda_letterbox_make_plan(GstCudaVideoFilter* filter, vf::Queue& queue,
                                               const gstvf::Format& in, const gstvf::Format& out,
                                               vf::Placement, std::unique_ptr<vf::Plan>* plan) {
  auto* self = GST_CUDA_LETTERBOX(filter);
  vf::LetterboxParams params;
  vf::LetterboxGeometry geometry;
  VF_TRY(gst_cuda_letterbox_geometry(self, &params, &geometry));
  vf::ColorFormat to = out.color;
  GST_OBJECT_LOCK(self);
  const bool bgr = self->bgr;
  GST_OBJECT_UNLOCK(self);
  if (bgr && !out.is_video()) {
    // The tensor's first channel has the first mean.
    std::swap(params.mean[0], params.mean[2]);
    std::swap(params.std[0], params.std[2]);
    for (auto& plane : to.role)
      for (vf::Role& role : plane)
        role = role == vf::Role::r ? vf::Role::b : role == vf::Role::b ? vf::Role::r : role;
  }
  return vf::make_letterbox(queue, in.layout, in.color, out.layout, to, geometry, params, plan);
}

// Caps without a change of size are caps without a change at all.
static gboolean gst_cuda_letterbox_is_identity(GstCudaVideoFilter*, const gstvf::Format&,
                                               const gstvf::Format&) {
  return TRUE;
}

static gboolean gst_cuda_letterbox_describe(GstCudaVideoFilter* filter, GstPadDirection direction,
                                            GstCaps* caps, gstvf::Format* format) {
  if (!is_tensor(caps))
    return GST_CUDA_VIDEO_FILTER_CLASS(parent_class)->describe(filter, direction, caps, format);
  Tensor t;
  if (!parse_tensor(caps, &t)) return FALSE;
  return gstvf::make_tensor_format(t.type, t.planar, t.width, t.height, format);
}

static gboolean gst_cuda_letterbox_set_caps(GstBaseTransform* trans, GstCaps* incaps,
                                            GstCaps* outcaps) {
  auto* self = GST_CUDA_LETTERBOX(trans);
  GstVideoInfo in, out;
  Tensor tensor;
  if (gst_video_info_from_caps(&in, incaps)) {
    const bool video = !is_tensor(outcaps) && gst_video_info_from_caps(&out, outcaps);
    if (!video && (!is_tensor(outcaps) || !parse_tensor(outcaps, &tensor))) {
      const GstStructure* wrong = gst_caps_get_structure(outcaps, 0);
      const gchar* types = gst_structure_get_string(wrong, "types");
      const gchar* dimensions = gst_structure_get_string(wrong, "dimensions");
      GST_ELEMENT_ERROR(
          self, STREAM, FORMAT,
          ("Cannot make %s with types %s and dimensions %s: must be video, or tensors "
           "with types float32, float16 or uint8 and dimensions W:H:3:1 or 3:W:H:1, "
           "W and H 1 to %d.",
           gst_structure_get_name(wrong), types ? types : "not given",
           dimensions ? dimensions : "not given", vf::kMaxDimension),
          ("caps %" GST_PTR_FORMAT, outcaps));
      return FALSE;
    }
    if (!video && gstvf::caps_in_cuda(outcaps, 0) && tensor.size() > kMaxCudaTensor) {
      GST_ELEMENT_ERROR(
          self, STREAM, FORMAT,
          ("A tensor of %" G_GSIZE_FORMAT " bytes cannot be in GStreamer's CUDA memory: "
           "must be at most %" G_GSIZE_FORMAT ". Use system memory.",
           tensor.size(), kMaxCudaTensor),
          ("caps %" GST_PTR_FORMAT, outcaps));
      return FALSE;
    }
    GST_OBJECT_LOCK(self);
    self->in_width = in.width;
    self->in_height = in.height;
    self->out_width = video ? out.width : tensor.width;
    self->out_height = video ? out.height : tensor.height;
    self->pixel_aspect = pixel_aspect(in) / (video ? pixel_aspect(out) : 1.0);
    self->out_video = video;
    self->tensor = tensor;
    GST_OBJECT_UNLOCK(self);
    vf::LetterboxParams params;
    vf::LetterboxGeometry geometry;
    const vf::Status status = gst_cuda_letterbox_geometry(self, &params, &geometry);
    if (!status.ok()) {
      GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("Cannot letterbox: %s.", status.message()),
                        ("in %" GST_PTR_FORMAT ", out %" GST_PTR_FORMAT, incaps, outcaps));
      return FALSE;
    }
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->set_caps(trans, incaps, outcaps);
}

static GstCaps* gst_cuda_letterbox_transform_caps(GstBaseTransform* trans,
                                                  GstPadDirection direction, GstCaps* caps,
                                                  GstCaps* filter) {
  GstPad* other = direction == GST_PAD_SINK ? trans->srcpad : trans->sinkpad;
  GstCaps* all = gst_pad_get_pad_template_caps(other);
  GstCaps* result = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); i++) {
    const GstStructure* from = gst_caps_get_structure(caps, i);
    const GstCapsFeatures* features = gst_caps_get_features(caps, i);
    const GValue* framerate = gst_structure_get_value(from, "framerate");
    // Frames stay in their memory if they can.
    for (const bool same : {true, false})
      for (guint j = 0; j < gst_caps_get_size(all); j++) {
        const GstCapsFeatures* theirs = gst_caps_get_features(all, j);
        if (bool(gst_caps_features_is_equal(features, theirs)) != same) continue;
        GstStructure* s = gst_structure_copy(gst_caps_get_structure(all, j));
        if (framerate) gst_structure_set_value(s, "framerate", framerate);
        result = gst_caps_merge_structure_full(result, s, gst_caps_features_copy(theirs));
      }
  }
  gst_caps_unref(all);
  if (filter) {
    GstCaps* both = gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(result);
    result = both;
  }
  return result;
}

// The largest a field may be; 0 where it is not bounded.
static int largest(const GstStructure* s, const char* field) {
  const GValue* value = gst_structure_get_value(s, field);
  if (!value) return 0;
  if (G_VALUE_HOLDS_INT(value)) return g_value_get_int(value);
  if (GST_VALUE_HOLDS_INT_RANGE(value)) {
    const int max = gst_value_get_int_range_max(value);
    return max == G_MAXINT ? 0 : max;
  }
  if (!GST_VALUE_HOLDS_LIST(value)) return 0;
  int max = 0;
  for (guint i = 0; i < gst_value_list_get_size(value); i++) {
    const GValue* v = gst_value_list_get_value(value, i);
    if (G_VALUE_HOLDS_INT(v)) max = MAX(max, g_value_get_int(v));
  }
  return max;
}

static bool fixed_int(const GstStructure* s, const char* field, int* out) {
  return gst_structure_get_int(s, field, out);
}

static void fixate_format(GstStructure* s, const GstVideoInfo& in) {
  const GValue* formats = gst_structure_get_value(s, "format");
  if (!formats || !GST_VALUE_HOLDS_LIST(formats)) return;
  const char* best = nullptr;
  int least = G_MAXINT;
  for (guint i = 0; i < gst_value_list_get_size(formats); i++) {
    const char* name = g_value_get_string(gst_value_list_get_value(formats, i));
    const int loss =
        format_loss(in.finfo, gst_video_format_get_info(gst_video_format_from_string(name)));
    if (loss < least) least = loss, best = name;
  }
  if (best) gst_structure_fixate_field_string(s, "format", best);
}

// The size behind the element: the caps', else the input's; with a stride, the target's padded only
// to the next multiple where the caps allow that.
static void fixate_size(GstCudaLetterbox* self, GstStructure* s, const GstVideoInfo& in) {
  GST_OBJECT_LOCK(self);
  vf::LetterboxParams params = self->params;
  GST_OBJECT_UNLOCK(self);
  int par_n = 1, par_d = 1;
  if (gst_structure_has_field(s, "pixel-aspect-ratio")) {
    gst_structure_fixate_field_nearest_fraction(s, "pixel-aspect-ratio", 1, 1);
    gst_structure_get_fraction(s, "pixel-aspect-ratio", &par_n, &par_d);
  }
  params.pixel_aspect = pixel_aspect(in) * par_d / MAX(par_n, 1);
  const double wide = in.width * params.pixel_aspect;
  int w = 0, h = 0;
  const bool has_w = fixed_int(s, "width", &w), has_h = fixed_int(s, "height", &h);
  if (params.stride > 0) {
    const int max_w = largest(s, "width"), max_h = largest(s, "height");
    const int target_w = max_w ? max_w : int(std::lrint(wide)),
              target_h = max_h ? max_h : in.height;
    vf::LetterboxGeometry g;
    if (vf::letterbox_geometry(in.width, in.height, target_w, target_h, params, &g).ok()) {
      GST_OBJECT_LOCK(self);
      self->target_width = target_w;
      self->target_height = target_h;
      GST_OBJECT_UNLOCK(self);
      gst_structure_fixate_field_nearest_int(s, "width", g.width);
      gst_structure_fixate_field_nearest_int(s, "height", g.height);
      return;
    }
  }
  // One side alone: the other is what needs no padding.
  const auto clamp = [](double v) { return int(CLAMP(std::lrint(v), 1, long(vf::kMaxDimension))); };
  if (has_w && !has_h)
    gst_structure_fixate_field_nearest_int(s, "height", clamp(w * in.height / wide));
  else if (has_h && !has_w)
    gst_structure_fixate_field_nearest_int(s, "width", clamp(h * wide / in.height));
  gst_structure_fixate_field_nearest_int(s, "width", clamp(wide));
  gst_structure_fixate_field_nearest_int(s, "height", in.height);
}

// Where tensors may be in either memory, they stay where they are made. The order of the caps
// cannot tell: elements behind answer in the order that they are asked in.
static GstCaps* prefer_memory(GstCaps* caps, bool cuda) {
  GstCaps* preferred = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); i++) {
    const GstStructure* s = gst_caps_get_structure(caps, i);
    if (gst_structure_has_name(s, kTensors) && gstvf::caps_in_cuda(caps, i) == cuda)
      gst_caps_append_structure_full(preferred, gst_structure_copy(s),
                                     gst_caps_features_copy(gst_caps_get_features(caps, i)));
  }
  if (!is_tensor(caps) || gst_caps_is_empty(preferred)) std::swap(preferred, caps);
  gst_caps_unref(caps);
  return preferred;
}

static GstCaps* gst_cuda_letterbox_fixate_caps(GstBaseTransform* trans, GstPadDirection direction,
                                               GstCaps* caps, GstCaps* othercaps) {
  auto* self = GST_CUDA_LETTERBOX(trans);
  GstVideoInfo in;
  if (direction == GST_PAD_SINK)
    othercaps = prefer_memory(othercaps,
                              gstvf::caps_in_cuda(caps, 0) ||
                                  gst_cuda_video_filter_is_on_cuda(GST_CUDA_VIDEO_FILTER(trans)));
  othercaps = gst_caps_make_writable(gst_caps_truncate(othercaps));
  if (direction == GST_PAD_SRC || !gst_video_info_from_caps(&in, caps))
    return gst_caps_fixate(othercaps);
  GstStructure* s = gst_caps_get_structure(othercaps, 0);
  if (gst_structure_has_name(s, kTensors)) {
    if (gst_structure_has_field(s, "types"))
      gst_structure_fixate_field_string(s, "types", "float32");
    else
      gst_structure_set(s, "types", G_TYPE_STRING, "float32", nullptr);
    if (!gst_structure_has_field(s, "dimensions")) {
      gchar* dimensions = g_strdup_printf("%d:%d:3:1", in.width, in.height);
      gst_structure_set(s, "dimensions", G_TYPE_STRING, dimensions, nullptr);
      g_free(dimensions);
    }
    return gst_caps_fixate(othercaps);
  }
  fixate_format(s, in);
  fixate_size(self, s, in);
  // YUV to YUV keeps its matrix and range where nothing else is asked for.
  GstVideoInfo out;
  GstCaps* fixed = gst_caps_fixate(othercaps);
  if (gst_video_info_from_caps(&out, fixed)) {
    s = gst_caps_get_structure(fixed, 0);
    const bool both_yuv = GST_VIDEO_INFO_IS_YUV(&in) && GST_VIDEO_INFO_IS_YUV(&out);
    const bool both_rgb = GST_VIDEO_INFO_IS_RGB(&in) && GST_VIDEO_INFO_IS_RGB(&out);
    if ((both_yuv || both_rgb) && !gst_structure_has_field(s, "colorimetry")) {
      gchar* colorimetry = gst_video_colorimetry_to_string(&in.colorimetry);
      if (colorimetry) gst_structure_set(s, "colorimetry", G_TYPE_STRING, colorimetry, nullptr);
      g_free(colorimetry);
    }
    const bool same_chroma = both_yuv && in.finfo->w_sub[1] == out.finfo->w_sub[1] &&
                             in.finfo->h_sub[1] == out.finfo->h_sub[1];
    const GstStructure* given = gst_caps_get_structure(caps, 0);
    if (same_chroma && !gst_structure_has_field(s, "chroma-site") &&
        gst_structure_has_field(given, "chroma-site"))
      gst_structure_set_value(s, "chroma-site", gst_structure_get_value(given, "chroma-site"));
    // Where nothing changes, nothing may seem to: fields such as these come along.
    if (in.width == out.width && in.height == out.height && in.finfo == out.finfo) {
      for (const char* field : {"colorimetry", "chroma-site", "pixel-aspect-ratio",
                                "multiview-mode", "multiview-flags", "interlace-mode"})
        if (gst_structure_has_field(given, field) && !gst_structure_has_field(s, field))
          gst_structure_set_value(s, field, gst_structure_get_value(given, field));
    } else {
      // Defaults are written out: a pad that asks for "progressive" does not accept caps without
      // the field, and compositor may begin to ask between its answer here and these caps' arrival.
      if (!gst_structure_has_field(s, "interlace-mode"))
        gst_structure_set(s, "interlace-mode", G_TYPE_STRING, "progressive", nullptr);
      if (!gst_structure_has_field(s, "pixel-aspect-ratio"))
        gst_structure_set(s, "pixel-aspect-ratio", GST_TYPE_FRACTION, out.par_n, out.par_d,
                          nullptr);
    }
  }
  return fixed;
}

// Metas and events

static bool is_letterbox(GstMeta* meta) {
  return gst_meta_info_is_custom(meta->info) &&
         gst_custom_meta_has_name(reinterpret_cast<GstCustomMeta*>(meta), kMeta);
}

static void write_geometry(GstStructure* s, const vf::LetterboxGeometry& g) {
  gst_structure_set(s, "scale", G_TYPE_DOUBLE, g.scale, "left", G_TYPE_DOUBLE, g.left, "top",
                    G_TYPE_DOUBLE, g.top, "content-width", G_TYPE_DOUBLE, g.content_width,
                    "content-height", G_TYPE_DOUBLE, g.content_height, "source-width", G_TYPE_INT,
                    g.source_width, "source-height", G_TYPE_INT, g.source_height, nullptr);
}

// Keeps the meta true where an element behind copies frames or, as videoconvertscale, scales them.
static gboolean transform_letterbox(GstBuffer* outbuf, GstCustomMeta* meta, GstBuffer*, GQuark type,
                                    gpointer data, gpointer) {
  double fx = 1, fy = 1;
  if (GST_VIDEO_META_TRANSFORM_IS_SCALE(type)) {
    const auto* t = static_cast<const GstVideoMetaTransform*>(data);
    fx = double(GST_VIDEO_INFO_WIDTH(t->out_info)) / GST_VIDEO_INFO_WIDTH(t->in_info);
    fy = double(GST_VIDEO_INFO_HEIGHT(t->out_info)) / GST_VIDEO_INFO_HEIGHT(t->in_info);
  } else if (!GST_META_TRANSFORM_IS_COPY(type)) {
    return FALSE;
  }
  GstStructure* from = gst_custom_meta_get_structure(meta);
  vf::LetterboxGeometry g;
  if (!gst_structure_get(from, "scale", G_TYPE_DOUBLE, &g.scale, "left", G_TYPE_DOUBLE, &g.left,
                         "top", G_TYPE_DOUBLE, &g.top, "content-width", G_TYPE_DOUBLE,
                         &g.content_width, "content-height", G_TYPE_DOUBLE, &g.content_height,
                         "source-width", G_TYPE_INT, &g.source_width, "source-height", G_TYPE_INT,
                         &g.source_height, nullptr))
    return FALSE;
  g.scale *= fy;
  g.left *= fx;
  g.content_width *= fx;
  g.top *= fy;
  g.content_height *= fy;
  write_geometry(gst_custom_meta_get_structure(gst_buffer_add_custom_meta(outbuf, kMeta)), g);
  return TRUE;
}

static void add_letterbox(GstCudaLetterbox* self, GstBuffer* buffer) {
  vf::LetterboxParams params;
  vf::LetterboxGeometry g;
  if (!gst_cuda_letterbox_geometry(self, &params, &g).ok()) return;
  GstCustomMeta* meta = gst_buffer_get_custom_meta(buffer, kMeta);
  if (!meta) meta = gst_buffer_add_custom_meta(buffer, kMeta);
  if (meta) write_geometry(gst_custom_meta_get_structure(meta), g);
}

static gboolean gst_cuda_letterbox_copy_metadata(GstBaseTransform* trans, GstBuffer* inbuf,
                                                 GstBuffer* outbuf) {
  if (!GST_BASE_TRANSFORM_CLASS(parent_class)->copy_metadata(trans, inbuf, outbuf)) return FALSE;
  add_letterbox(GST_CUDA_LETTERBOX(trans), outbuf);
  return TRUE;
}

// Who reads the meta finds it on frames that pass through, too. An earlier letterbox's still holds
// for those.
static GstFlowReturn gst_cuda_letterbox_prepare_output_buffer(GstBaseTransform* trans,
                                                              GstBuffer* inbuf,
                                                              GstBuffer** outbuf) {
  const GstFlowReturn flow =
      GST_BASE_TRANSFORM_CLASS(parent_class)->prepare_output_buffer(trans, inbuf, outbuf);
  if (flow != GST_FLOW_OK || *outbuf != inbuf || !gst_base_transform_is_passthrough(trans) ||
      gst_buffer_get_custom_meta(inbuf, kMeta))
    return flow;
  // The copy shares the memory.
  if (!gst_buffer_is_writable(inbuf)) *outbuf = gst_buffer_copy(inbuf);
  add_letterbox(GST_CUDA_LETTERBOX(trans), *outbuf);
  return flow;
}

static GstFlowReturn gst_cuda_letterbox_transform(GstBaseTransform* trans, GstBuffer* inbuf,
                                                  GstBuffer* outbuf) {
  auto* self = GST_CUDA_LETTERBOX(trans);
  const GstFlowReturn flow =
      GST_BASE_TRANSFORM_CLASS(parent_class)->transform(trans, inbuf, outbuf);
  GST_OBJECT_LOCK(self);
  const bool video = self->out_video;
  const Tensor t = self->tensor;
  GST_OBJECT_UNLOCK(self);
  if (flow != GST_FLOW_OK || video) return flow;
  const gsize w = gsize(t.width), h = gsize(t.height);
  // Not before the tensor is written: afterwards its memory is shared.
  if (t.planar)
    gstvf::add_tensor_meta(outbuf, kTensorId, t.type, t.half, {1, 3, h, w});
  else
    gstvf::add_tensor_meta(outbuf, kTensorId, t.type, t.half, {1, h, w, 3});
  return flow;
}

// Metas that say where something is in the picture.

namespace {

struct Rectangle {
  int x, y, w, h;
};

// The pixels of the output that a rectangle of the source covers, to the nearest edge.
Rectangle map_rectangle(const vf::LetterboxGeometry& g, double x, double y, double w, double h) {
  double x0, y0, x1, y1;
  g.from_source(x, y, &x0, &y0);
  g.from_source(x + w, y + h, &x1, &y1);
  // Metas say what they like: far outside is far outside, and differences still fit an int.
  constexpr double far = 1 << 29;
  const auto edge = [](double v) { return int(CLAMP(std::floor(v + 0.5), -far, far)); };
  return {edge(x0), edge(y0), edge(x1) - edge(x0), edge(y1) - edge(y0)};
}

Rectangle clip(const Rectangle& r, const vf::LetterboxGeometry& g) {
  const int x0 = CLAMP(r.x, 0, g.width), x1 = CLAMP(r.x + r.w, 0, g.width);
  const int y0 = CLAMP(r.y, 0, g.height), y1 = CLAMP(r.y + r.h, 0, g.height);
  return {x0, y0, x1 - x0, y1 - y0};
}

// The picture fills the output: there is no border.
bool fills(const vf::LetterboxGeometry& g) {
  return g.left == 0 && g.top == 0 && g.content_width == g.width && g.content_height == g.height;
}

bool is_identity(const vf::LetterboxGeometry& g) {
  return fills(g) && g.width == g.source_width && g.height == g.source_height;
}

void add_region(GstBuffer* outbuf, const GstVideoRegionOfInterestMeta* roi,
                const vf::LetterboxGeometry& g) {
  const Rectangle r = clip(map_rectangle(g, roi->x, roi->y, roi->w, roi->h), g);
  GstVideoRegionOfInterestMeta* copy = gst_buffer_add_video_region_of_interest_meta_id(
      outbuf, roi->roi_type, guint(r.x), guint(r.y), guint(r.w), guint(r.h));
  copy->id = roi->id;
  copy->parent_id = roi->parent_id;
  for (GList* l = roi->params; l; l = l->next)
    gst_video_region_of_interest_meta_add_param(
        copy, gst_structure_copy(static_cast<const GstStructure*>(l->data)));
}

void add_crop(GstBuffer* outbuf, const GstVideoCropMeta* crop, const vf::LetterboxGeometry& g) {
  const Rectangle r = clip(map_rectangle(g, crop->x, crop->y, crop->width, crop->height), g);
  // What is wanted of the picture may be less than a pixel now.
  if (r.w == 0 || r.h == 0) return;
  GstVideoCropMeta* copy = gst_buffer_add_video_crop_meta(outbuf);
  copy->x = guint(r.x);
  copy->y = guint(r.y);
  copy->width = guint(r.w);
  copy->height = guint(r.h);
}

void add_overlay(GstBuffer* outbuf, const GstVideoOverlayCompositionMeta* meta,
                 const vf::LetterboxGeometry& g) {
  GstVideoOverlayComposition* moved = gst_video_overlay_composition_new(nullptr);
  for (guint i = 0; i < gst_video_overlay_composition_n_rectangles(meta->overlay); i++) {
    GstVideoOverlayRectangle* from = gst_video_overlay_composition_get_rectangle(meta->overlay, i);
    gint x, y;
    guint w, h;
    if (!gst_video_overlay_rectangle_get_render_rectangle(from, &x, &y, &w, &h)) continue;
    const Rectangle r = map_rectangle(g, x, y, w, h);
    GstVideoOverlayRectangle* to = gst_video_overlay_rectangle_copy(from);
    gst_video_overlay_rectangle_set_render_rectangle(to, r.x, r.y, guint(MAX(r.w, 1)),
                                                     guint(MAX(r.h, 1)));
    gst_video_overlay_composition_add_rectangle(moved, to);
    gst_video_overlay_rectangle_unref(to);
  }
  gst_buffer_add_video_overlay_composition_meta(outbuf, moved);
  gst_video_overlay_composition_unref(moved);
}

// Has a meta transform itself. All know how to scale; only GStreamer 1.28 has a word for the
// border.
void transform_itself(GstBuffer* outbuf, GstMeta* meta, GstBuffer* inbuf,
                      const vf::LetterboxGeometry& g) {
  if (!meta->info->transform_func) return;
  GstVideoInfo in, out;
  gst_video_info_init(&in);
  gst_video_info_init(&out);
  in.width = g.source_width;
  in.height = g.source_height;
  out.width = g.width;
  out.height = g.height;
#if GST_CHECK_VERSION(1, 28, 0)
  const GstVideoRectangle source = {0, 0, g.source_width, g.source_height};
  const GstVideoRectangle whole = {0, 0, g.width, g.height};
  GstVideoMetaTransformMatrix matrix;
  gst_video_meta_transform_matrix_init(&matrix, &in, &source, &out, &whole);
  matrix.matrix[0][0] = float(g.content_width / g.source_width);
  matrix.matrix[1][1] = float(g.content_height / g.source_height);
  matrix.matrix[0][2] = float(g.left);
  matrix.matrix[1][2] = float(g.top);
  if (meta->info->transform_func(outbuf, meta, inbuf, gst_video_meta_transform_matrix_get_quark(),
                                 &matrix))
    return;
#endif
  if (!fills(g)) {
    gstvf::copy_detections(outbuf, meta, [&g](gint& x, gint& y, gint& w, gint& h) {
      const Rectangle r = map_rectangle(g, x, y, w, h);
      x = r.x, y = r.y, w = r.w, h = r.h;
    });
    return;
  }
  GstVideoMetaTransform scale = {&in, &out};
  meta->info->transform_func(outbuf, meta, inbuf, gst_video_meta_transform_scale_get_quark(),
                             &scale);
}

}  // namespace

static gboolean gst_cuda_letterbox_transform_meta(GstBaseTransform* trans, GstBuffer* outbuf,
                                                  GstMeta* meta, GstBuffer* inbuf) {
  auto* self = GST_CUDA_LETTERBOX(trans);
  const GType api = meta->info->api;
  // The frame behind a letterbox is described by this letterbox.
  if (is_letterbox(meta)) return FALSE;
  vf::LetterboxParams params;
  vf::LetterboxGeometry g;
  if (!gst_cuda_letterbox_geometry(self, &params, &g).ok()) return FALSE;
  GST_OBJECT_LOCK(self);
  const bool video = self->out_video;
  GST_OBJECT_UNLOCK(self);
  if (video && is_identity(g))
    return GST_BASE_TRANSFORM_CLASS(parent_class)->transform_meta(trans, outbuf, meta, inbuf);

  if (api == GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE) {
    add_region(outbuf, reinterpret_cast<GstVideoRegionOfInterestMeta*>(meta), g);
    return FALSE;
  }
  if (api == GST_VIDEO_CROP_META_API_TYPE) {
    // One that says which part of a larger memory the frame is has been followed.
    const bool followed =
        gstvf::is_part(gst_buffer_get_video_meta(inbuf), g.source_width, g.source_height);
    if (video && !followed) add_crop(outbuf, reinterpret_cast<GstVideoCropMeta*>(meta), g);
    return FALSE;
  }
  // Its tags do not say that it has positions.
  if (api == GST_VIDEO_OVERLAY_COMPOSITION_META_API_TYPE) {
    if (video) add_overlay(outbuf, reinterpret_cast<GstVideoOverlayCompositionMeta*>(meta), g);
    return FALSE;
  }
  // Nor do those of a network's results, in which nobody but its decoder can find them.
  if (g_str_equal(g_type_name(api), "GstTensorMetaAPI")) return FALSE;
  // What speaks of more than picture, orientation and size, of colours say, may no longer hold.
  const gchar* const* tags = gst_meta_api_type_get_tags(api);
  bool has_size = false;
  for (; tags && *tags; tags++) {
    const bool size = g_str_equal(*tags, GST_META_TAG_VIDEO_SIZE_STR);
    if (!size && !g_str_equal(*tags, GST_META_TAG_VIDEO_STR) &&
        !g_str_equal(*tags, GST_META_TAG_VIDEO_ORIENTATION_STR))
      return FALSE;
    has_size = has_size || size;
  }
  if (has_size) transform_itself(outbuf, meta, inbuf, g);
  return !has_size;
}

static gboolean gst_cuda_letterbox_src_event(GstBaseTransform* trans, GstEvent* event) {
  auto* self = GST_CUDA_LETTERBOX(trans);
  if (GST_EVENT_TYPE(event) == GST_EVENT_NAVIGATION) {
    vf::LetterboxParams params;
    vf::LetterboxGeometry g;
    gdouble x, y;
    event = gst_event_make_writable(event);
    if (gst_navigation_event_get_coordinates(event, &x, &y) &&
        gst_cuda_letterbox_geometry(self, &params, &g).ok()) {
      g.to_source(x, y, &x, &y);
      gst_navigation_event_set_coordinates(event, x, y);
    }
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->src_event(trans, event);
}

// Settings

// Reads 1 or 3 numbers; refuses other lengths, values that are not finite, and 0 where it may not
// be.
static bool read_numbers(GstCudaVideoFilter* filter, GParamSpec* pspec, const GValue* array,
                         bool zero_allowed, double out[3]) {
  const guint n = gst_value_array_get_size(array);
  if (n != 1 && n != 3) {
    gst_cuda_video_filter_refuse(filter, pspec, n, "an array of 1 or 3 numbers, not of that many");
    return false;
  }
  for (guint i = 0; i < 3; i++) {
    GValue number = G_VALUE_INIT;
    g_value_init(&number, G_TYPE_DOUBLE);
    const bool is_number =
        g_value_transform(gst_value_array_get_value(array, n == 1 ? 0 : i), &number);
    const double v = is_number ? g_value_get_double(&number) : NAN;
    g_value_unset(&number);
    if (!std::isfinite(v) || (!zero_allowed && v == 0)) {
      gst_cuda_video_filter_refuse(filter, pspec, v, zero_allowed ? "finite" : "finite and not 0");
      return false;
    }
    out[i] = v;
  }
  return true;
}

static void gst_cuda_letterbox_set_property(GObject* object, guint id, const GValue* value,
                                            GParamSpec* pspec) {
  auto* self = GST_CUDA_LETTERBOX(object);
  auto* filter = GST_CUDA_VIDEO_FILTER(object);
  switch (id) {
    case PROP_RULE:
      gst_cuda_video_filter_update(filter, &self->params.rule,
                                   vf::LetterboxRule(g_value_get_enum(value)));
      break;
    case PROP_FILL_COLOR:
      gst_cuda_video_filter_update(filter, &self->params.fill, g_value_get_uint(value));
      break;
    case PROP_ALIGN:
      gst_cuda_video_filter_update(filter, &self->params.align,
                                   vf::LetterboxAlign(g_value_get_enum(value)));
      break;
    case PROP_SCALE_UP:
      gst_cuda_video_filter_update(filter, &self->params.scale_up, g_value_get_boolean(value));
      break;
    case PROP_STRIDE:
      gst_cuda_video_filter_update(filter, &self->params.stride, g_value_get_int(value));
      gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(self));
      break;
    case PROP_INTERPOLATION:
      gst_cuda_video_filter_update(filter, &self->params.interpolation,
                                   vf::Interpolation(g_value_get_enum(value)));
      break;
    case PROP_CHANNEL_ORDER:
      gst_cuda_video_filter_update(filter, &self->bgr, g_value_get_enum(value));
      break;
    case PROP_MEAN:
    case PROP_STD: {
      double numbers[3];
      if (!read_numbers(filter, pspec, value, id == PROP_MEAN, numbers)) break;
      GST_OBJECT_LOCK(self);
      std::copy_n(numbers, 3, id == PROP_MEAN ? self->params.mean : self->params.std);
      (id == PROP_MEAN ? self->n_mean : self->n_std) = gst_value_array_get_size(value);
      GST_OBJECT_UNLOCK(self);
      gst_cuda_video_filter_settings_changed(filter);
      break;
    }
    case PROP_SCALE: {
      const double scale = g_value_get_double(value);
      if (!std::isfinite(scale) || scale == 0)
        gst_cuda_video_filter_refuse(filter, pspec, scale, "finite and not 0");
      else
        gst_cuda_video_filter_update(filter, &self->params.scale, scale);
      break;
    }
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
}

static void write_numbers(GValue* value, const double numbers[3], guint n) {
  for (guint i = 0; i < n; i++) {
    GValue number = G_VALUE_INIT;
    g_value_init(&number, G_TYPE_DOUBLE);
    g_value_set_double(&number, numbers[i]);
    gst_value_array_append_and_take_value(value, &number);
  }
}

static void gst_cuda_letterbox_get_property(GObject* object, guint id, GValue* value,
                                            GParamSpec* pspec) {
  auto* self = GST_CUDA_LETTERBOX(object);
  GST_OBJECT_LOCK(self);
  switch (id) {
    case PROP_RULE:
      g_value_set_enum(value, int(self->params.rule));
      break;
    case PROP_FILL_COLOR:
      g_value_set_uint(value, self->params.fill);
      break;
    case PROP_ALIGN:
      g_value_set_enum(value, int(self->params.align));
      break;
    case PROP_SCALE_UP:
      g_value_set_boolean(value, self->params.scale_up);
      break;
    case PROP_STRIDE:
      g_value_set_int(value, self->params.stride);
      break;
    case PROP_INTERPOLATION:
      g_value_set_enum(value, int(self->params.interpolation));
      break;
    case PROP_CHANNEL_ORDER:
      g_value_set_enum(value, self->bgr);
      break;
    case PROP_MEAN:
      write_numbers(value, self->params.mean, self->n_mean);
      break;
    case PROP_STD:
      write_numbers(value, self->params.std, self->n_std);
      break;
    case PROP_SCALE:
      g_value_set_double(value, self->params.scale);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_cuda_letterbox_init(GstCudaLetterbox* self) {
  self->params = vf::LetterboxParams();
  self->pixel_aspect = 1;
  self->n_mean = self->n_std = 1;
}

static void add_templates(GstElementClass* klass) {
  GstCaps* video = gst_cuda_video_filter_caps(nullptr);
  gst_element_class_add_pad_template(
      klass, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, video));
  GstCaps* all = gst_caps_make_writable(video);
  for (const bool cuda : {true, false}) {
#if !VF_HAVE_GST_CUDA
    if (cuda) continue;
#endif
    GstCaps* tensors = gst_caps_from_string(
        "other/tensors, format=(string)static, num_tensors=(int)1, "
        "types=(string){ float32, float16, uint8 }, framerate=[ 0/1, 2147483647/1 ]");
    if (cuda) gstvf::set_caps_in_cuda(tensors);
    gst_caps_append(all, tensors);
  }
  gst_element_class_add_pad_template(klass,
                                     gst_pad_template_new("src", GST_PAD_SRC, GST_PAD_ALWAYS, all));
  gst_caps_unref(all);
}

static void gst_cuda_letterbox_class_init(GstCudaLetterboxClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* trans_class = GST_BASE_TRANSFORM_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);
  const vf::LetterboxParams defaults;

  object_class->set_property = gst_cuda_letterbox_set_property;
  object_class->get_property = gst_cuda_letterbox_get_property;

  const auto flags = GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                 GST_PARAM_CONTROLLABLE | GST_PARAM_MUTABLE_PLAYING);
  const auto array_flags =
      GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING);
  const auto install = [&](guint id, GParamSpec* spec) {
    g_object_class_install_property(object_class, id, spec);
  };
  install(PROP_RULE, g_param_spec_enum("rule", "Rule",
                                       "Whose arithmetic says where the picture goes and how it is "
                                       "sampled",
                                       GST_TYPE_CUDA_LETTERBOX_RULE, int(defaults.rule), flags));
  install(PROP_FILL_COLOR, g_param_spec_uint("fill-color", "Fill colour",
                                             "Colour of the padding, as 0xAARRGGBB; converted for "
                                             "YUV outputs",
                                             0, G_MAXUINT, defaults.fill, flags));
  install(PROP_ALIGN, g_param_spec_enum("align", "Align", "Where the picture lies",
                                        GST_TYPE_CUDA_LETTERBOX_ALIGN, int(defaults.align), flags));
  install(PROP_SCALE_UP, g_param_spec_boolean("scale-up", "Scale up",
                                              "Enlarge pictures smaller than the output; else they "
                                              "are only padded",
                                              defaults.scale_up, flags));
  install(PROP_STRIDE,
          g_param_spec_int("stride", "Stride",
                           "Pad only to a multiple of this many pixels, as LetterBox's auto (0 = "
                           "off). The output's largest size comes from ranges in the caps behind, "
                           "such as width=[1,640]; a size that is fixed there is kept",
                           0, vf::kMaxDimension, defaults.stride, flags));
  install(
      PROP_INTERPOLATION,
      g_param_spec_enum("interpolation", "Interpolation", "How the picture is sampled",
                        GST_TYPE_CUDA_LETTERBOX_INTERPOLATION, int(defaults.interpolation), flags));
  install(PROP_CHANNEL_ORDER,
          g_param_spec_enum("channel-order", "Channel order", "Order of a tensor's colours",
                            GST_TYPE_CUDA_LETTERBOX_CHANNEL_ORDER, FALSE, flags));
  const auto number = [](double value) {
    return g_param_spec_double("value", "Value", "One number", -G_MAXDOUBLE, G_MAXDOUBLE, value,
                               GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS));
  };
  install(PROP_MEAN,
          gst_param_spec_array("mean", "Mean",
                               "Subtracted after scale: 1 number, or 3 in the order of the "
                               "tensor's channels, as in mean=\"<0.485,0.456,0.406>\". "
                               "Default 0",
                               number(0), array_flags));
  install(PROP_STD,
          gst_param_spec_array("std", "Standard deviation",
                               "Divided by after mean: 1 number, or 3 in the order of the "
                               "tensor's channels; not 0. Default 1",
                               number(1), array_flags));
  install(PROP_SCALE,
          g_param_spec_double("scale", "Scale",
                              "Float tensors hold (x * scale - mean) / std of 8-bit x. Not 0",
                              -G_MAXDOUBLE, G_MAXDOUBLE, defaults.scale, flags));

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA letterbox",
      "Filter/Converter/Video/Scaler/Colorspace/Hardware",
      "Resizes video with its aspect kept, pads it, and converts it to network input, on an NVIDIA "
      "GPU or on the CPU",
      "gst-cuda-filters contributors");
  add_templates(GST_ELEMENT_CLASS(klass));

  trans_class->transform_caps = GST_DEBUG_FUNCPTR(gst_cuda_letterbox_transform_caps);
  trans_class->fixate_caps = GST_DEBUG_FUNCPTR(gst_cuda_letterbox_fixate_caps);
  trans_class->set_caps = GST_DEBUG_FUNCPTR(gst_cuda_letterbox_set_caps);
  trans_class->copy_metadata = GST_DEBUG_FUNCPTR(gst_cuda_letterbox_copy_metadata);
  trans_class->prepare_output_buffer = GST_DEBUG_FUNCPTR(gst_cuda_letterbox_prepare_output_buffer);
  trans_class->transform = GST_DEBUG_FUNCPTR(gst_cuda_letterbox_transform);
  trans_class->transform_meta = GST_DEBUG_FUNCPTR(gst_cuda_letterbox_transform_meta);
  trans_class->src_event = GST_DEBUG_FUNCPTR(gst_cuda_letterbox_src_event);
  filter_class->describe = gst_cuda_letterbox_describe;
  filter_class->is_identity = gst_cuda_letterbox_is_identity;
  filter_class->make_plan = gst_cuda_letterbox_make_plan;
  filter_class->interlace = GST_CUDA_VIDEO_FILTER_INTERLACE_REFUSE;

  // Readable by name, without a header of ours.
  static const gchar* tags[] = {GST_META_TAG_VIDEO_STR, GST_META_TAG_VIDEO_SIZE_STR, nullptr};
  if (!gst_meta_get_info(kMeta))
    gst_meta_register_custom(kMeta, tags, transform_letterbox, nullptr, nullptr);

  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_LETTERBOX_RULE, GstPluginAPIFlags(0));
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_LETTERBOX_ALIGN, GstPluginAPIFlags(0));
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_LETTERBOX_INTERPOLATION, GstPluginAPIFlags(0));
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_LETTERBOX_CHANNEL_ORDER, GstPluginAPIFlags(0));
}
