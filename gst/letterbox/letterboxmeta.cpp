#include "gst/letterbox/letterboxmeta.h"

#include <cmath>
#include <cstring>

#include "gst/base/analytics.h"
#include "gst/base/frame.h"
#include "gst/letterbox/letterboxoriginal.h"
#include "gst/letterbox/letterboxresults.h"

namespace gstvf {
namespace {

constexpr char kTensorId[] = "cudaletterbox";

void write(GstStructure* s, const GstCudaLetterboxGeometry& g) {
  gst_structure_set(s, "scale", G_TYPE_DOUBLE, g.scale, "left", G_TYPE_DOUBLE, g.left, "top",
                    G_TYPE_DOUBLE, g.top, "content-width", G_TYPE_DOUBLE, g.content_width,
                    "content-height", G_TYPE_DOUBLE, g.content_height, "source-width", G_TYPE_INT,
                    g.source_width, "source-height", G_TYPE_INT, g.source_height, "output-width",
                    G_TYPE_INT, g.output_width, "output-height", G_TYPE_INT, g.output_height,
                    nullptr);
}

// Tells whether a scaler that keeps the aspect, as scalers do by default, adds borders.
bool adds_borders(const GstVideoInfo& in, const GstVideoInfo& out) {
  const double aspect = double(in.width) * in.par_n / (double(in.height) * in.par_d);
  const double pixel = double(out.par_n) / out.par_d;
  const double width = out.height * aspect / pixel, height = out.width * pixel / aspect;
  return std::abs(width - out.width) >= 1 && std::abs(height - out.height) >= 1;
}

// Adapts the meta if an element behind copies frames or scales them, as videoconvertscale does.
// Drops the meta if it would be wrong; elements that need it then report that.
gboolean transform(GstBuffer* outbuf, GstCustomMeta* meta, GstBuffer*, GQuark type, gpointer data,
                   gpointer) {
  double fx = 1, fy = 1;
  int width = 0, height = 0;  // size of a scaled output
  if (GST_VIDEO_META_TRANSFORM_IS_SCALE(type)) {
    const auto* t = static_cast<const GstVideoMetaTransform*>(data);
    if (adds_borders(*t->in_info, *t->out_info)) return FALSE;
    fx = double(GST_VIDEO_INFO_WIDTH(t->out_info)) / GST_VIDEO_INFO_WIDTH(t->in_info);
    fy = double(GST_VIDEO_INFO_HEIGHT(t->out_info)) / GST_VIDEO_INFO_HEIGHT(t->in_info);
    width = GST_VIDEO_INFO_WIDTH(t->out_info);
    height = GST_VIDEO_INFO_HEIGHT(t->out_info);
  } else if (!GST_META_TRANSFORM_IS_COPY(type)) {
    return FALSE;
  }
  GstCudaLetterboxGeometry g;
  if (!gst_cuda_letterbox_geometry_from_structure(gst_custom_meta_get_structure(meta), &g))
    return FALSE;
  g.scale *= fy;
  g.left *= fx;
  g.content_width *= fx;
  g.top *= fy;
  g.content_height *= fy;
  if (width && g.output_width) g.output_width = width;
  if (height && g.output_height) g.output_height = height;
  write(gst_custom_meta_get_structure(
            gst_buffer_add_custom_meta(outbuf, GST_CUDA_LETTERBOX_META_NAME)),
        g);
  return TRUE;
}

Rectangle clip(const Rectangle& r, const vf::LetterboxGeometry& g) {
  const int x0 = CLAMP(r.x, 0, g.width), x1 = CLAMP(r.x + r.w, 0, g.width);
  const int y0 = CLAMP(r.y, 0, g.height), y1 = CLAMP(r.y + r.h, 0, g.height);
  return {x0, y0, x1 - x0, y1 - y0};
}

// Tells whether the picture fills the output without a border.
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
  // The scaled crop may be smaller than a pixel.
  if (r.w == 0 || r.h == 0) return;
  GstVideoCropMeta* copy = gst_buffer_add_video_crop_meta(outbuf);
  copy->x = guint(r.x);
  copy->y = guint(r.y);
  copy->width = guint(r.w);
  copy->height = guint(r.h);
}

void add_overlay(GstBuffer* outbuf, const GstVideoOverlayCompositionMeta* meta,
                 const vf::LetterboxGeometry& g) {
  g_autoptr(GstVideoOverlayComposition) moved = gst_video_overlay_composition_new(nullptr);
  for (guint i = 0; i < gst_video_overlay_composition_n_rectangles(meta->overlay); i++) {
    GstVideoOverlayRectangle* from = gst_video_overlay_composition_get_rectangle(meta->overlay, i);
    gint x, y;
    guint w, h;
    if (!gst_video_overlay_rectangle_get_render_rectangle(from, &x, &y, &w, &h)) continue;
    const Rectangle r = map_rectangle(g, x, y, w, h);
    g_autoptr(GstVideoOverlayRectangle) to = gst_video_overlay_rectangle_copy(from);
    gst_video_overlay_rectangle_set_render_rectangle(to, r.x, r.y, guint(MAX(r.w, 1)),
                                                     guint(MAX(r.h, 1)));
    gst_video_overlay_composition_add_rectangle(moved, to);
  }
  gst_buffer_add_video_overlay_composition_meta(outbuf, moved);
}

// Lets a meta transform itself. All of them can scale, but only GStreamer 1.28 can also tell them
// about the border.
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
  if (move_results(outbuf, meta, g, {}, MoveResults::all)) return;
  if (transform_by_matrix(outbuf, meta, inbuf, in, out, g.content_width / g.source_width,
                          g.content_height / g.source_height, g.left, g.top))
    return;
  if (move_results(outbuf, meta, g, {}, MoveResults::known) || !fills(g)) return;
  GstVideoMetaTransform scale = {&in, &out};
  meta->info->transform_func(outbuf, meta, inbuf, gst_video_meta_transform_scale_get_quark(),
                             &scale);
}

// Says what a meta describes, by the tags of its API: nothing in the picture, positions, or other
// things as well.
enum class About { neither, size, more };

About about(GType api) {
  About result = About::neither;
  for (const gchar* const* tag = gst_meta_api_type_get_tags(api); tag && *tag; tag++) {
    const bool size = g_str_equal(*tag, GST_META_TAG_VIDEO_SIZE_STR);
    if (!size && !g_str_equal(*tag, GST_META_TAG_VIDEO_STR) &&
        !g_str_equal(*tag, GST_META_TAG_VIDEO_ORIENTATION_STR))
      return About::more;
    if (size) result = About::size;
  }
  return result;
}

}  // namespace

Rectangle map_rectangle(const vf::LetterboxGeometry& g, double x, double y, double w, double h) {
  double x0, y0, x1, y1;
  g.from_source(x, y, &x0, &y0);
  g.from_source(x + w, y + h, &x1, &y1);
  // A meta may hold any numbers. The clamp keeps rectangles far outside there, and their
  // differences still fit an int.
  constexpr double far = 1 << 29;
  const auto edge = [](double v) { return int(CLAMP(std::floor(v + 0.5), -far, far)); };
  return {edge(x0), edge(y0), edge(x1) - edge(x0), edge(y1) - edge(y0)};
}

const GstMetaInfo* register_meta(const gchar* api, const gchar* name, gsize size,
                                 GstMetaFreeFunction free, GstMetaTransformFunction transform) {
  if (const GstMetaInfo* known = gst_meta_get_info(name)) return known;
  static const gchar* no_tags[] = {nullptr};
  const auto init = [](GstMeta* meta, gpointer, GstBuffer*) -> gboolean {
    memset(meta + 1, 0, meta->info->size - sizeof *meta);
    return TRUE;
  };
  return gst_meta_register(gst_meta_api_type_register(api, no_tags), name, size, init, free,
                           transform);
}

void register_letterbox_meta() {
  // The tags make videoflip of GStreamer 1.28 drop the meta: it copies metas that have no
  // orientation.
  static const gchar* tags[] = {GST_META_TAG_VIDEO_STR, GST_META_TAG_VIDEO_SIZE_STR,
                                GST_META_TAG_VIDEO_ORIENTATION_STR, nullptr};
  if (!gst_meta_get_info(GST_CUDA_LETTERBOX_META_NAME))
    gst_meta_register_custom(GST_CUDA_LETTERBOX_META_NAME, tags, transform, nullptr, nullptr);
}

void set_letterbox_meta(GstBuffer* buffer, const vf::LetterboxGeometry& g) {
  GstCustomMeta* meta = gst_buffer_get_custom_meta(buffer, GST_CUDA_LETTERBOX_META_NAME);
  if (!meta) meta = gst_buffer_add_custom_meta(buffer, GST_CUDA_LETTERBOX_META_NAME);
  if (meta)
    write(gst_custom_meta_get_structure(meta),
          {g.scale, g.left, g.top, g.content_width, g.content_height, g.source_width,
           g.source_height, g.width, g.height});
}

std::optional<bool> move_meta(GstMeta* meta, GstBuffer* inbuf, GstBuffer* outbuf, bool to_video,
                              const vf::LetterboxGeometry& g) {
  const GType api = meta->info->api;
  // This letterbox adds its own meta.
  if (gst_meta_info_is_custom(meta->info) &&
      gst_custom_meta_has_name(reinterpret_cast<GstCustomMeta*>(meta),
                               GST_CUDA_LETTERBOX_META_NAME))
    return false;
  if (is_original_meta(meta)) return false;
  if (to_video && is_identity(g)) return std::nullopt;
  if (api == GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE) {
    add_region(outbuf, reinterpret_cast<GstVideoRegionOfInterestMeta*>(meta), g);
    return false;
  }
  if (api == GST_VIDEO_CROP_META_API_TYPE) {
    // If the crop named the part of a larger memory that is the frame, it has been applied.
    const bool followed =
        is_part(gst_buffer_get_video_meta(inbuf), g.source_width, g.source_height);
    if (to_video && !followed) add_crop(outbuf, reinterpret_cast<GstVideoCropMeta*>(meta), g);
    return false;
  }
  // Overlays have positions, although their tags do not say so.
  if (api == GST_VIDEO_OVERLAY_COMPOSITION_META_API_TYPE) {
    if (to_video) add_overlay(outbuf, reinterpret_cast<GstVideoOverlayCompositionMeta*>(meta), g);
    return false;
  }
  // Neither do the tags of tensors, which only the network's decoder can read.
  if (g_str_equal(g_type_name(api), "GstTensorMetaAPI")) return false;
  switch (about(api)) {
    case About::neither:
      return true;
    case About::size:
      transform_itself(outbuf, meta, inbuf, g);
      return false;
    case About::more:
      break;
  }
  // A meta about other things, such as colours, may no longer be right.
  return false;
}

void describe_tensor(GstBuffer* buffer, const Format& format, gsize n) {
  const gsize w = gsize(format.width), h = gsize(format.height);
  const vf::Type type = format.layout.type;
  if (format.layout.planes == 3)
    add_tensor_meta(buffer, kTensorId, type, format.color.half_float, {n, 3, h, w});
  else
    add_tensor_meta(buffer, kTensorId, type, format.color.half_float, {n, h, w, 3});
}

}  // namespace gstvf
