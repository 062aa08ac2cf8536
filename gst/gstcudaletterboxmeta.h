/* GstCudaLetterboxMeta: where cudaletterbox has put the picture.
 *
 * A custom meta (GstCustomMeta) of this name is on every buffer that leaves cudaletterbox, frames
 * and tensors, also on those that pass through unchanged unless they had one. It holds a
 * GstStructure with the fields of GstCudaLetterboxGeometry, with - for _: gdouble scale, left, top,
 * content-width, content-height and gint source-width, source-height. These names, types and
 * meanings are stable; fields may be added.
 *
 * Elements that copy a buffer keep the meta. Elements that scale frames by the rules of their metas
 * (videoconvertscale) keep it true. It has the tags "video" and "size".
 *
 * This header needs GStreamer alone: it has inline functions, and no library belongs to it.
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
 *
 * Coordinates are continuous: pixel i spans i to i + 1.
 */
typedef struct {
  gdouble scale;
  gdouble left, top;
  gdouble content_width, content_height;
  gint source_width, source_height;
} GstCudaLetterboxGeometry;

/* Reads the meta's structure. FALSE, and *geometry is undefined, where a field is missing. */
static inline gboolean gst_cuda_letterbox_geometry_from_structure(
    const GstStructure* structure, GstCudaLetterboxGeometry* geometry) {
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

G_END_DECLS
