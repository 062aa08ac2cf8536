/* Tells which frames the rows of a tensor of cudaletterboxbatch were made of.
 *
 * This is a public interface, and stable: names, types and meanings stay, and fields may be added
 * at the end. It needs only GStreamer: functions are inline, and no library belongs to it.
 *
 * GstCudaLetterboxBatchMeta
 * -------------------------
 * A meta of this API is on every buffer that leaves cudaletterboxbatch. Row i of the tensor belongs
 * to row i of the meta. Rows with frames come first, in the order of their streams, and absent rows
 * follow. Copies of the buffer share the rows.
 *
 * The frame of a row is a buffer without memory. It has the times of the original frame, its metas
 * in the row's pixels, a GstCudaLetterboxMeta, and a GstCudaLetterboxOriginalMeta with the original
 * buffer and its caps (gstcudaletterboxmeta.h). Networks and applications add what they have found
 * in a row as metas of this buffer, in the row's pixels, and cudaletterboxunbatch moves those metas
 * to the original.
 */
#pragma once

#include <gst/gst.h>

#include "gstcudaletterboxmeta.h"

G_BEGIN_DECLS

#define GST_CUDA_LETTERBOX_BATCH_META_API_NAME "GstCudaLetterboxBatchMetaAPI"

/**
 * GstCudaLetterboxBatchRow:
 * @frame: the frame of the row, or NULL if the row is absent and has the fill colour
 * @stream: number N of the pad sink_N that the frame came from
 * @origin: private to the plugin
 */
typedef struct {
  GstBuffer* frame;
  guint stream;
  gpointer origin;
} GstCudaLetterboxBatchRow;

/**
 * GstCudaLetterboxBatchMeta:
 * @meta: the GstMeta
 * @n_rows: number of rows of the tensor
 * @rows: array of the rows
 */
typedef struct {
  GstMeta meta;
  guint n_rows;
  GstCudaLetterboxBatchRow* rows;
} GstCudaLetterboxBatchMeta;

/* Returns the meta of a buffer, or NULL if it has none. The meta owns its frames. */
static inline GstCudaLetterboxBatchMeta* gst_buffer_get_cuda_letterbox_batch_meta(
    GstBuffer* buffer) {
  /* The type is 0 until the first batch is made. */
  const GType api = g_type_from_name(GST_CUDA_LETTERBOX_BATCH_META_API_NAME);
  return api ? (GstCudaLetterboxBatchMeta*)gst_buffer_get_meta(buffer, api) : NULL;
}

/* Returns the frame of a row for adding metas, or NULL if the row is absent. The buffer that has
 * the meta must be writable. The frame is copied first if another batch shares it. */
static inline GstBuffer* gst_cuda_letterbox_batch_meta_get_writable_frame(
    GstCudaLetterboxBatchMeta* meta, guint row) {
  GstCudaLetterboxBatchRow* r = row < meta->n_rows ? &meta->rows[row] : NULL;
  if (!r || !r->frame) return NULL;
  r->frame = gst_buffer_make_writable(r->frame);
  return r->frame;
}

G_END_DECLS
