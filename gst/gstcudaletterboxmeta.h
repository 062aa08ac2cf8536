/* Tells where cudaletterbox has put the picture in a buffer, and what the picture was before.
 *
 * This is a public interface, and stable: names, types and meanings stay, and fields may be added
 * at the end. It needs only GStreamer: functions are inline, and no library belongs to it.
 *
 * GstCudaLetterboxMeta
 * --------------------
 * A custom meta (GstCustomMeta) of this name is on every buffer that leaves cudaletterbox, frames
 * and tensors. A buffer that passes through unchanged keeps the meta that it has, or gets one. The
 * meta holds a GstStructure with the fields of GstCudaLetterboxGeometry, with - for _: gdouble
 * scale, left, top, content-width, content-height and gint source-width, source-height,
 * output-width, output-height. Languages without C headers read it by gst_buffer_get_custom_meta()
 * and gst_custom_meta_get_structure().
 *
 * Elements that copy a buffer keep the meta. Elements that scale frames and adapt their metas
 * (videoconvertscale) adapt it. It has the tags "video", "size" and "orientation".
 *
 * GstCudaLetterboxOriginalMeta
 * ----------------------------
 * With keep-original=true, every buffer also has a meta of this API. It holds a reference of the
 * buffer that was letterboxed, and its caps, so that this buffer is not reused before the meta is
 * gone. Copies of the buffer share it. It has no tags, and no other cudaletterbox passes it on.
 */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_CUDA_LETTERBOX_META_NAME "GstCudaLetterboxMeta"

/**
 * GstCudaLetterboxGeometry:
 * @scale: output pixels for each source pixel, vertically, before sizes were rounded
 * @left: width of the left border, in output pixels
 * @top: height of the top border, in output pixels
 * @content_width: width of the picture between the borders, in output pixels
 * @content_height: height of the picture between the borders, in output pixels
 * @source_width: width of the source in pixels
 * @source_height: height of the source in pixels
 * @output_width: width of the output in pixels, with borders; 0 if unknown
 * @output_height: height of the output in pixels, with borders; 0 if unknown
 *
 * Coordinates are continuous: pixel i spans i to i + 1.
 */
typedef struct {
  gdouble scale;
  gdouble left, top;
  gdouble content_width, content_height;
  gint source_width, source_height;
  gint output_width, output_height;
} GstCudaLetterboxGeometry;

/* Reads the meta's structure. Returns FALSE if a field is missing; *geometry is undefined then. */
static inline gboolean gst_cuda_letterbox_geometry_from_structure(
    const GstStructure* structure, GstCudaLetterboxGeometry* geometry) {
  if (!gst_structure_get(structure, "output-width", G_TYPE_INT, &geometry->output_width,
                         "output-height", G_TYPE_INT, &geometry->output_height, NULL))
    geometry->output_width = geometry->output_height = 0;
  return gst_structure_get(structure, "scale", G_TYPE_DOUBLE, &geometry->scale, "left",
                           G_TYPE_DOUBLE, &geometry->left, "top", G_TYPE_DOUBLE, &geometry->top,
                           "content-width", G_TYPE_DOUBLE, &geometry->content_width,
                           "content-height", G_TYPE_DOUBLE, &geometry->content_height,
                           "source-width", G_TYPE_INT, &geometry->source_width, "source-height",
                           G_TYPE_INT, &geometry->source_height, NULL) &&
         geometry->content_width > 0 && geometry->content_height > 0 &&
         geometry->source_width > 0 && geometry->source_height > 0;
}

/* Reads the meta of a buffer. Returns FALSE if it has none. */
static inline gboolean gst_buffer_get_cuda_letterbox_geometry(GstBuffer* buffer,
                                                              GstCudaLetterboxGeometry* geometry) {
  GstCustomMeta* meta = gst_buffer_get_custom_meta(buffer, GST_CUDA_LETTERBOX_META_NAME);
  return meta &&
         gst_cuda_letterbox_geometry_from_structure(gst_custom_meta_get_structure(meta), geometry);
}

/* Maps a point of the output, as a network names it, to the source. Does not clamp it. */
static inline void gst_cuda_letterbox_geometry_to_source(const GstCudaLetterboxGeometry* geometry,
                                                         gdouble x, gdouble y, gdouble* source_x,
                                                         gdouble* source_y) {
  *source_x = (x - geometry->left) * geometry->source_width / geometry->content_width;
  *source_y = (y - geometry->top) * geometry->source_height / geometry->content_height;
}

/* Maps a point of the source to the output. */
static inline void gst_cuda_letterbox_geometry_from_source(const GstCudaLetterboxGeometry* geometry,
                                                           gdouble source_x, gdouble source_y,
                                                           gdouble* x, gdouble* y) {
  *x = source_x * geometry->content_width / geometry->source_width + geometry->left;
  *y = source_y * geometry->content_height / geometry->source_height + geometry->top;
}

#define GST_CUDA_LETTERBOX_ORIGINAL_META_API_NAME "GstCudaLetterboxOriginalMetaAPI"

/**
 * GstCudaLetterboxOriginalMeta:
 * @meta: the GstMeta
 * @buffer: the buffer that was letterboxed
 * @caps: the caps of @buffer
 *
 * Fields behind @caps are private to the plugin.
 */
typedef struct {
  GstMeta meta;
  GstBuffer* buffer;
  GstCaps* caps;
} GstCudaLetterboxOriginalMeta;

/* Returns the meta of a buffer, or NULL if it has none. The meta owns its buffer and caps: take
 * references to keep them. */
static inline GstCudaLetterboxOriginalMeta* gst_buffer_get_cuda_letterbox_original_meta(
    GstBuffer* buffer) {
  /* The type is 0 until the first letterbox keeps an original. */
  const GType api = g_type_from_name(GST_CUDA_LETTERBOX_ORIGINAL_META_API_NAME);
  return api ? (GstCudaLetterboxOriginalMeta*)gst_buffer_get_meta(buffer, api) : NULL;
}

G_END_DECLS
