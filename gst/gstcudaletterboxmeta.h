/* What cudaletterbox says of a buffer: where it has put the picture, and what the picture was.
 *
 * This is a public interface, and stable: names, types and meanings stay, fields may be added at
 * the end. It needs GStreamer alone: functions are inline, and no library belongs to it.
 *
 * GstCudaLetterboxMeta
 * --------------------
 * A custom meta (GstCustomMeta) of this name is on every buffer that leaves cudaletterbox, frames
 * and tensors, also on those that pass through unchanged unless they had one. It holds a
 * GstStructure with the fields of GstCudaLetterboxGeometry, with - for _: gdouble scale, left, top,
 * content-width, content-height and gint source-width, source-height, output-width, output-height.
 * Languages without C headers read it by gst_buffer_get_custom_meta() and
 * gst_custom_meta_get_structure().
 *
 * Elements that copy a buffer keep the meta. Elements that scale frames by the rules of their metas
 * (videoconvertscale) keep it true. It has the tags "video" and "size".
 *
 * GstCudaLetterboxOriginalMeta
 * ----------------------------
 * With keep-original=true, a meta of this API is on every buffer as well. It holds the buffer that
 * was letterboxed, by reference, and its caps, so that this buffer is not used again before the
 * meta is gone. Copies of the buffer share it. It has no tags, and no other cudaletterbox hands it
 * on.
 */
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_CUDA_LETTERBOX_META_NAME "GstCudaLetterboxMeta"

/**
 * GstCudaLetterboxGeometry:
 * @scale: pixels of the output for one of the source, vertically; before sizes were rounded
 * @left: width of the left border, in pixels of the output
 * @top: height of the top border
 * @content_width: width of the picture between the borders, in pixels of the output
 * @content_height: its height
 * @source_width: width of the source in pixels
 * @source_height: its height
 * @output_width: width of the output, borders included, in pixels; 0 where it is not known
 * @output_height: its height
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

/* Reads the meta's structure. FALSE, and *geometry is undefined, where a field is missing. */
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

/* Reads the meta of a buffer. FALSE where there is none. */
static inline gboolean gst_buffer_get_cuda_letterbox_geometry(GstBuffer* buffer,
                                                              GstCudaLetterboxGeometry* geometry) {
  GstCustomMeta* meta = gst_buffer_get_custom_meta(buffer, GST_CUDA_LETTERBOX_META_NAME);
  return meta &&
         gst_cuda_letterbox_geometry_from_structure(gst_custom_meta_get_structure(meta), geometry);
}

/* From a point of the output, as a network names it, to the source. Not clamped to the picture. */
static inline void gst_cuda_letterbox_geometry_to_source(const GstCudaLetterboxGeometry* geometry,
                                                         gdouble x, gdouble y, gdouble* source_x,
                                                         gdouble* source_y) {
  *source_x = (x - geometry->left) * geometry->source_width / geometry->content_width;
  *source_y = (y - geometry->top) * geometry->source_height / geometry->content_height;
}

/* And back: from a point of the source to the output. */
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
 * @caps: its caps
 *
 * Fields behind @caps are the plugin's own.
 */
typedef struct {
  GstMeta meta;
  GstBuffer* buffer;
  GstCaps* caps;
} GstCudaLetterboxOriginalMeta;

/* The meta of a buffer; NULL where there is none. Its buffer and caps are its own: take a reference
 * to keep them. */
static inline GstCudaLetterboxOriginalMeta* gst_buffer_get_cuda_letterbox_original_meta(
    GstBuffer* buffer) {
  /* 0 until the first letterbox keeps an original. */
  const GType api = g_type_from_name(GST_CUDA_LETTERBOX_ORIGINAL_META_API_NAME);
  return api ? (GstCudaLetterboxOriginalMeta*)gst_buffer_get_meta(buffer, api) : NULL;
}

G_END_DECLS
