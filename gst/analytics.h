// What versions of GStreamer can say of and do with metas of frames and tensors. Its analytics
// library has all of what is used here since 1.26; built without it, nothing is written and nothing
// is found.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include <initializer_list>
#include <vector>

#include "filters/image.h"

#ifndef VF_HAVE_GST_ANALYTICS
#define VF_HAVE_GST_ANALYTICS 0
#endif

#if VF_HAVE_GST_ANALYTICS
#include <gst/analytics/analytics.h>
#endif

namespace gstvf {

// Has a meta of a frame of `in` transform itself to one of `out` whose pixels are those of the
// first, scaled and moved. False where it cannot, as before 1.28.
inline bool transform_by_matrix(GstBuffer* outbuf, GstMeta* meta, GstBuffer* inbuf,
                                const GstVideoInfo& in, const GstVideoInfo& out, double scale_x,
                                double scale_y, double left, double top) {
#if GST_CHECK_VERSION(1, 28, 0)
  const GstVideoRectangle source = {0, 0, in.width, in.height};
  const GstVideoRectangle whole = {0, 0, out.width, out.height};
  GstVideoMetaTransformMatrix matrix;
  gst_video_meta_transform_matrix_init(&matrix, &in, &source, &out, &whole);
  matrix.matrix[0][0] = float(scale_x);
  matrix.matrix[1][1] = float(scale_y);
  matrix.matrix[0][2] = float(left);
  matrix.matrix[1][2] = float(top);
  return meta->info->transform_func(outbuf, meta, inbuf,
                                    gst_video_meta_transform_matrix_get_quark(), &matrix);
#else
  (void)outbuf, (void)meta, (void)inbuf, (void)in, (void)out;
  (void)scale_x, (void)scale_y, (void)left, (void)top;
  return false;
#endif
}

// Describes a buffer that is one tensor by a GstTensorMeta: `id`, what its numbers are (floats of
// 16 bits where `half`), and its dimensions, outermost first. The meta shares the buffer's memory,
// so that who maps the buffer for writing from now on gets a copy.
inline void add_tensor_meta(GstBuffer* buffer, const char* id, vf::Type type, bool half,
                            std::initializer_list<gsize> dimensions) {
#if VF_HAVE_GST_ANALYTICS
  // Not the buffer itself, which would never be freed.
  GstBuffer* data = gst_buffer_new();
  for (guint i = 0; i < gst_buffer_n_memory(buffer); i++)
    gst_buffer_append_memory(data, gst_buffer_get_memory(buffer, i));
  const GstTensorDataType data_type = half                   ? GST_TENSOR_DATA_TYPE_FLOAT16
                                      : type == vf::Type::u8 ? GST_TENSOR_DATA_TYPE_UINT8
                                                             : GST_TENSOR_DATA_TYPE_FLOAT32;
  std::vector<gsize> dims(dimensions);
  GstTensor** tensors = g_new(GstTensor*, 1);
  tensors[0] = gst_tensor_new_simple(g_quark_from_string(id), data_type, data,
                                     GST_TENSOR_DIM_ORDER_ROW_MAJOR, dims.size(), dims.data());
  gst_tensor_meta_set(gst_buffer_add_tensor_meta(buffer), 1, tensors);
#else
  (void)buffer, (void)id, (void)type, (void)half, (void)dimensions;
#endif
}

}  // namespace gstvf
