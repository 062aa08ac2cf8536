#include "gst/letterbox/letterboxcaps.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "gst/base/cudacompat.h"
#include "gst/base/errors.h"
#include "gst/base/formatcaps.h"

namespace gstvf {
namespace {

constexpr char kTensors[] = "other/tensors";
// A tensor in CUDA memory is one row, whose length is an int.
constexpr gsize kMaxCudaTensor = G_MAXINT;

struct Dimensions {
  bool planar = true;
  int width = 0, height = 0, rows = 1;
};

// Reads W:H:3:N or 3:W:H:N. Further dimensions must be 1. 3:H:3:N counts as planar.
bool parse_dimensions(const char* text, Dimensions* out) {
  g_auto(GStrv) parts = g_strsplit(text, ":", -1);
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
  if (!ok || n < 3) return false;
  out->rows = int(size[3]);
  out->planar = size[2] == 3;
  if (!out->planar && size[0] != 3) return false;
  out->width = int(size[out->planar ? 0 : 1]);
  out->height = int(size[out->planar ? 1 : 2]);
  return true;
}

double pixel_aspect(const GstVideoInfo& info) {
  return info.par_n > 0 && info.par_d > 0 ? double(info.par_n) / info.par_d : 1.0;
}

// Returns how much worse than `want` a format is as the result of a conversion.
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

// Returns the largest value of a field, or 0 if it has no bound. The limits of elements
// (videoconvert's is 32767) do not count as bounds.
int largest(const GstStructure* s, const char* field) {
  const GValue* value = gst_structure_get_value(s, field);
  if (!value) return 0;
  if (G_VALUE_HOLDS_INT(value)) return g_value_get_int(value);
  if (GST_VALUE_HOLDS_INT_RANGE(value)) {
    const int max = gst_value_get_int_range_max(value);
    return max >= G_MAXINT16 ? 0 : max;
  }
  if (!GST_VALUE_HOLDS_LIST(value)) return 0;
  int max = 0;
  for (guint i = 0; i < gst_value_list_get_size(value); i++) {
    const GValue* v = gst_value_list_get_value(value, i);
    if (G_VALUE_HOLDS_INT(v)) max = MAX(max, g_value_get_int(v));
  }
  return max;
}

void fixate_format(GstStructure* s, const GstVideoInfo& in) {
  const GValue* formats = gst_structure_get_value(s, "format");
  if (!formats || !GST_VALUE_HOLDS_LIST(formats)) return;
  const char* best = nullptr;
  int minimum = G_MAXINT;
  for (guint i = 0; i < gst_value_list_get_size(formats); i++) {
    const char* name = g_value_get_string(gst_value_list_get_value(formats, i));
    const int loss =
        format_loss(in.finfo, gst_video_format_get_info(gst_video_format_from_string(name)));
    if (loss < minimum) minimum = loss, best = name;
  }
  if (best) gst_structure_fixate_field_string(s, "format", best);
}

// Fixates the type of tensors, and sets their dimensions unless they are given.
void fixate_tensors(GstStructure* s, int width, int height, int rows) {
  if (gst_structure_has_field(s, "types"))
    gst_structure_fixate_field_string(s, "types", "float32");
  else
    gst_structure_set(s, "types", G_TYPE_STRING, "float32", nullptr);
  if (gst_structure_has_field(s, "dimensions")) return;
  gst_structure_set(s, "dimensions", G_TYPE_STRING,
                    printed("%d:%d:3:%d", width, height, rows).c_str(), nullptr);
}

int round_up(double size, int multiple) {
  const double up = std::ceil(size / multiple) * multiple;
  return int(CLAMP(up, 1.0, double(vf::kMaxDimension)));
}

// Returns the target for a stride, from the sizes that the caps allow (0: any). Without any size,
// the source is padded to the next multiple. With one side alone, the other is what the picture
// needs, padded.
LetterboxTarget choose_target(const GstVideoInfo& in, int max_width, int max_height,
                              const vf::LetterboxParams& params) {
  const double wide = in.width * params.pixel_aspect, high = in.height;
  LetterboxTarget t{max_width, max_height, !max_width && !max_height};
  if (!max_width) t.width = round_up(max_height ? wide * max_height / high : wide, params.stride);
  if (!max_height) t.height = round_up(max_width ? high * max_width / wide : high, params.stride);
  return t;
}

bool place(const GstVideoInfo& in, const LetterboxTarget& target, vf::LetterboxParams params,
           vf::LetterboxGeometry* g) {
  params.scale_up = params.scale_up && !target.keeps_size;
  return vf::letterbox_geometry(in.width, in.height, target.width, target.height, params, g).ok();
}

// Takes the size from the caps, or else from the input. With a stride, the size is the target's,
// padded only to the next multiple, if the caps allow that.
void fixate_size(GstStructure* s, const GstVideoInfo& in, vf::LetterboxParams params,
                 LetterboxTarget* target) {
  int par_n = 1, par_d = 1;
  if (gst_structure_has_field(s, "pixel-aspect-ratio")) {
    gst_structure_fixate_field_nearest_fraction(s, "pixel-aspect-ratio", 1, 1);
    gst_structure_get_fraction(s, "pixel-aspect-ratio", &par_n, &par_d);
  }
  params.pixel_aspect = pixel_aspect(in) * par_d / MAX(par_n, 1);
  if (params.stride > 0) {
    const LetterboxTarget t = choose_target(in, largest(s, "width"), largest(s, "height"), params);
    vf::LetterboxGeometry g;
    if (place(in, t, params, &g)) {
      *target = t;
      gst_structure_fixate_field_nearest_int(s, "width", g.width);
      gst_structure_fixate_field_nearest_int(s, "height", g.height);
      return;
    }
  }
  // If the caps fix one side, the other is the one that needs no padding.
  const double wide = in.width * params.pixel_aspect;
  int w = 0, h = 0;
  const bool has_w = gst_structure_get_int(s, "width", &w),
             has_h = gst_structure_get_int(s, "height", &h);
  const auto clamp = [](double v) { return int(CLAMP(std::lrint(v), 1, long(vf::kMaxDimension))); };
  if (has_w && !has_h)
    gst_structure_fixate_field_nearest_int(s, "height", clamp(w * in.height / wide));
  else if (has_h && !has_w)
    gst_structure_fixate_field_nearest_int(s, "width", clamp(h * wide / in.height));
  gst_structure_fixate_field_nearest_int(s, "width", clamp(wide));
  gst_structure_fixate_field_nearest_int(s, "height", in.height);
}

void fixate_tensor(GstStructure* s, const GstVideoInfo& in, vf::LetterboxParams params,
                   LetterboxTarget* target) {
  int width = in.width, height = in.height;
  params.pixel_aspect = pixel_aspect(in);
  vf::LetterboxGeometry g;
  if (params.stride > 0 && !gst_structure_has_field(s, "dimensions")) {
    const LetterboxTarget t = choose_target(in, 0, 0, params);
    if (place(in, t, params, &g)) {
      *target = t;
      width = g.width;
      height = g.height;
    }
  }
  fixate_tensors(s, width, height, 1);
}

// Keeps tensors in the memory that they are made in, if the caps allow both. The order of the caps
// does not tell: elements behind answer in the order that they are asked in.
GstCaps* prefer_memory(GstCaps* caps, bool cuda) {
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

// Copies fields of the input's caps to fixed caps of video, unless they ask for something else.
void complete_video(const GstVideoInfo& in, const GstStructure* given, GstCaps* fixed) {
  GstVideoInfo out;
  if (!gst_video_info_from_caps(&out, fixed)) return;
  GstStructure* s = gst_caps_get_structure(fixed, 0);
  // YUV to YUV keeps its matrix and range unless something else is asked for.
  const bool both_yuv = GST_VIDEO_INFO_IS_YUV(&in) && GST_VIDEO_INFO_IS_YUV(&out);
  const bool both_rgb = GST_VIDEO_INFO_IS_RGB(&in) && GST_VIDEO_INFO_IS_RGB(&out);
  if ((both_yuv || both_rgb) && !gst_structure_has_field(s, "colorimetry")) {
    g_autofree gchar* colorimetry = gst_video_colorimetry_to_string(&in.colorimetry);
    if (colorimetry) gst_structure_set(s, "colorimetry", G_TYPE_STRING, colorimetry, nullptr);
  }
  const bool same_chroma = both_yuv && in.finfo->w_sub[1] == out.finfo->w_sub[1] &&
                           in.finfo->h_sub[1] == out.finfo->h_sub[1];
  if (same_chroma && !gst_structure_has_field(s, "chroma-site") &&
      gst_structure_has_field(given, "chroma-site"))
    gst_structure_set_value(s, "chroma-site", gst_structure_get_value(given, "chroma-site"));
  // If the picture does not change, the caps must not either, so these fields are copied.
  if (in.width == out.width && in.height == out.height && in.finfo == out.finfo) {
    for (const char* field : {"colorimetry", "chroma-site", "pixel-aspect-ratio", "multiview-mode",
                              "multiview-flags", "interlace-mode"})
      if (gst_structure_has_field(given, field) && !gst_structure_has_field(s, field))
        gst_structure_set_value(s, field, gst_structure_get_value(given, field));
  } else {
    // Defaults are written out. A pad that asks for "progressive" refuses caps without the field,
    // and compositor may begin to ask between its answer here and the arrival of these caps.
    if (!gst_structure_has_field(s, "interlace-mode"))
      gst_structure_set(s, "interlace-mode", G_TYPE_STRING, "progressive", nullptr);
    if (!gst_structure_has_field(s, "pixel-aspect-ratio"))
      gst_structure_set(s, "pixel-aspect-ratio", GST_TYPE_FRACTION, out.par_n, out.par_d, nullptr);
  }
}

}  // namespace

GstCaps* batch_caps() {
  GstCaps* all = gst_caps_new_empty();
  for (const bool cuda : {true, false}) {
    if (cuda && !VF_HAVE_GST_CUDA) continue;
    GstCaps* tensors = gst_caps_from_string(
        "other/tensors, format=(string)static, num_tensors=(int)1, "
        "types=(string){ float32, float16, uint8 }, framerate=[ 0/1, 2147483647/1 ]");
    if (cuda) set_caps_in_cuda(tensors);
    gst_caps_append(all, tensors);
  }
  return all;
}

GstCaps* letterbox_source_caps() {
  GstCaps* all = gst_caps_make_writable(gst_cuda_video_filter_caps(nullptr));
  gst_caps_append(all, batch_caps());
  return all;
}

GstCaps* batch_fixate(GstCaps* caps, bool on_cuda, int width, int height, int rows) {
  caps = gst_caps_make_writable(gst_caps_truncate(prefer_memory(caps, on_cuda)));
  GstStructure* s = gst_caps_get_structure(caps, 0);
  fixate_tensors(s, width, height, rows);
  // Batches come when they are full.
  gst_structure_fixate_field_nearest_fraction(s, "framerate", 0, 1);
  return gst_caps_fixate(caps);
}

GstCaps* letterbox_caps(GstCaps* caps, GstCaps* all) {
  GstCaps* result = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); i++) {
    const GstStructure* from = gst_caps_get_structure(caps, i);
    const GstCapsFeatures* features = gst_caps_get_features(caps, i);
    const GValue* framerate = gst_structure_get_value(from, "framerate");
    // Frames stay in their memory if possible.
    for (const bool same : {true, false})
      for (guint j = 0; j < gst_caps_get_size(all); j++) {
        const GstCapsFeatures* theirs = gst_caps_get_features(all, j);
        if (bool(gst_caps_features_is_equal(features, theirs)) != same) continue;
        GstStructure* s = gst_structure_copy(gst_caps_get_structure(all, j));
        if (framerate) gst_structure_set_value(s, "framerate", framerate);
        result = gst_caps_merge_structure_full(result, s, gst_caps_features_copy(theirs));
      }
  }
  return result;
}

bool is_tensor(const GstCaps* caps) {
  return !gst_caps_is_empty(caps) && !gst_caps_is_any(caps) &&
         gst_structure_has_name(gst_caps_get_structure(caps, 0), kTensors);
}

// Fills `format` for one of the `*rows` tensors that caps describe.
static bool tensors_from_caps(const GstCaps* caps, Format* format, int* rows) {
  const GstStructure* s = gst_caps_get_structure(caps, 0);
  const gchar* types = gst_structure_get_string(s, "types");
  const gchar* dimensions = gst_structure_get_string(s, "dimensions");
  Dimensions d;
  if (!types || !dimensions || !parse_dimensions(dimensions, &d)) return false;
  *rows = d.rows;
  const std::pair<const char*, vf::Type> known[] = {
      {"float32", vf::Type::f32}, {"float16", vf::Type::u16}, {"uint8", vf::Type::u8}};
  for (const auto& [name, type] : known)
    if (g_str_equal(types, name))
      return make_tensor_format(type, d.planar, d.width, d.height, format);
  return false;
}

bool tensor_from_caps(const GstCaps* caps, Format* format) {
  int rows = 0;
  return tensors_from_caps(caps, format, &rows) && rows == 1;
}

// Returns the text of a field for messages.
static const char* text_of(const GstStructure* s, const char* field) {
  const gchar* text = gst_structure_get_string(s, field);
  return text ? text : "not given";
}

std::string parse_batch(const GstCaps* caps, int rows, BatchShape* shape) {
  const GstStructure* s = gst_caps_get_structure(caps, 0);
  if (!tensors_from_caps(caps, &shape->row, &shape->rows))
    return printed(
        "Cannot make tensors with types %s and dimensions %s. Use types float32, float16 or uint8 "
        "and dimensions W:H:3:N or 3:W:H:N, where W, H and N are 1 to %d.",
        text_of(s, "types"), text_of(s, "dimensions"), vf::kMaxDimension);
  if (rows && rows != shape->rows)
    return printed(
        "batch-size is %d, but the caps behind ask for batches of %d (dimensions=%s). "
        "Use the same number, or batch-size=0.",
        rows, shape->rows, gst_structure_get_string(s, "dimensions"));
  const gsize most = caps_in_cuda(caps, 0) ? kMaxCudaTensor : gsize(G_MAXSSIZE);
  if (shape->row.size > most / gsize(shape->rows))
    return printed(
        "A batch of %d tensors of %zu bytes is too large: a buffer in this memory takes "
        "%zu bytes. Use smaller batches, or system memory.",
        shape->rows, size_t(shape->row.size), size_t(most));
  return {};
}

std::string why_no_letterbox(const GstCaps* outcaps, const Format& format, bool described) {
  const GstStructure* s = gst_caps_get_structure(outcaps, 0);
  if (!described && gst_structure_has_name(s, "video/x-raw")) {
    gint width = 0, height = 0;
    gst_structure_get(s, "width", G_TYPE_INT, &width, "height", G_TYPE_INT, &height, nullptr);
    return printed("Cannot make frames of %dx%d: frames are limited to 4 GiB.", width, height);
  }
  if (!described)
    return printed(
        "Cannot make %s with types %s and dimensions %s. Use video, or tensors with types float32, "
        "float16 or uint8 and dimensions W:H:3:1 or 3:W:H:1, where W and H are 1 to %d.",
        gst_structure_get_name(s), text_of(s, "types"), text_of(s, "dimensions"),
        vf::kMaxDimension);
  if (!format.is_video() && caps_in_cuda(outcaps, 0) && format.size > kMaxCudaTensor)
    return printed(
        "A tensor of %zu bytes is too large for GStreamer's CUDA memory, which takes %zu. Use "
        "system memory.",
        size_t(format.size), size_t(kMaxCudaTensor));
  return {};
}

GstCaps* letterbox_fixate(GstCaps* caps, GstCaps* othercaps, bool on_cuda,
                          const vf::LetterboxParams& params, LetterboxTarget* target) {
  GstVideoInfo in;
  othercaps = prefer_memory(othercaps, caps_in_cuda(caps, 0) || on_cuda);
  othercaps = gst_caps_make_writable(gst_caps_truncate(othercaps));
  if (!gst_video_info_from_caps(&in, caps)) return gst_caps_fixate(othercaps);
  GstStructure* s = gst_caps_get_structure(othercaps, 0);
  if (is_tensor(othercaps)) {
    fixate_tensor(s, in, params, target);
    return gst_caps_fixate(othercaps);
  }
  fixate_format(s, in);
  fixate_size(s, in, params, target);
  GstCaps* fixed = gst_caps_fixate(othercaps);
  complete_video(in, gst_caps_get_structure(caps, 0), fixed);
  return fixed;
}

vf::Status letterbox_place(const Format& in, const Format& out, const LetterboxTarget& target,
                           vf::LetterboxParams* params, vf::LetterboxGeometry* geometry) {
  params->pixel_aspect = pixel_aspect(*in.video) / (out.video ? pixel_aspect(*out.video) : 1.0);
  if (params->stride && target.width > 0 && place(*in.video, target, *params, geometry) &&
      geometry->width == out.width && geometry->height == out.height) {
    params->scale_up = params->scale_up && !target.keeps_size;
    return {};
  }
  // The caps ask for another size, and all of it is used.
  params->stride = 0;
  return vf::letterbox_geometry(in.width, in.height, out.width, out.height, *params, geometry);
}

}  // namespace gstvf
