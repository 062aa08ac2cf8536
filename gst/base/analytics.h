// Reads and writes the metas of networks: tensors, detected objects, segmentations and batches.
// GStreamer's analytics library has the first three since 1.26, and batches since 1.28. Built with
// an older version, these functions write nothing and find nothing.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/image.h"

#ifndef VF_HAVE_GST_ANALYTICS
#define VF_HAVE_GST_ANALYTICS 0
#endif

#if VF_HAVE_GST_ANALYTICS
#include <gst/analytics/analytics.h>
#endif

// Some builds do not use all parameters.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace gstvf {

// Tells whether this build can read the metas of networks.
constexpr bool kHasAnalytics = VF_HAVE_GST_ANALYTICS;

// Tells whether this build can read and write GstAnalyticsBatchMeta.
#if VF_HAVE_GST_ANALYTICS && GST_CHECK_VERSION(1, 28, 0)
#define VF_HAVE_ANALYTICS_BATCH 1
#else
#define VF_HAVE_ANALYTICS_BATCH 0
#endif
constexpr bool kHasAnalyticsBatch = VF_HAVE_ANALYTICS_BATCH;

// Lets a meta of a frame of `in` transform itself for a frame of `out`, whose pixels are those of
// the first one, scaled and moved. Returns false if it cannot, which is always so before GStreamer
// 1.28.
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
  return false;
#endif
}

// Adds a GstTensorMeta to a buffer that holds one tensor: its `id`, the type of its numbers (16-bit
// floats if `half`) and its dimensions, outermost first. The meta shares the buffer's memory, so
// that mapping the buffer for writing makes a copy from then on.
inline void add_tensor_meta(GstBuffer* buffer, const char* id, vf::Type type, bool half,
                            std::initializer_list<gsize> dimensions) {
#if VF_HAVE_GST_ANALYTICS
  // A meta that referred to its own buffer would keep that buffer alive for ever.
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
#endif
}

// Describes a tensor that a network left on a buffer. The network may have written anything, so
// check each field before use.
struct TensorView {
  enum class Type { u8, f16, f32, other };
  const char* id = "";
  Type type = Type::other;
  GstBuffer* data = nullptr;  // may be null
  std::vector<gsize> dims;    // outermost first; empty if the order is unknown
};

#if VF_HAVE_GST_ANALYTICS
// Returns the value of a C enumeration as a number. C allows values without a name, and a C++
// compiler may assume that there are none.
template <class Enum>
int enum_value(const Enum& value) {
  int number;
  static_assert(sizeof number == sizeof value);
  memcpy(&number, &value, sizeof number);
  return number;
}

// gst_tensor_copy() fails for tensors without data, so this copies field by field.
inline GstTensor* copy_tensor(const GstTensor* tensor) {
  if (!tensor) return nullptr;
  GstTensor* copy = gst_tensor_alloc(tensor->num_dims);
  memcpy(copy, tensor, offsetof(GstTensor, dims));
  if (copy->data) gst_buffer_ref(copy->data);
  for (gsize d = 0; d < tensor->num_dims; d++) copy->dims[d] = tensor->dims[d];
  return copy;
}
#endif

// Copies the GstTensorMeta of one buffer to another, sharing the data, which GStreamer 1.26 does
// not do when it copies a buffer. Returns false if there is none.
inline bool copy_tensors(GstBuffer* from, GstBuffer* to) {
  bool any = false;
#if VF_HAVE_GST_ANALYTICS
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta_filtered(from, &state, GST_TENSOR_META_API_TYPE)) {
    const auto* tensors = reinterpret_cast<GstTensorMeta*>(meta);
    GstTensor** copies = g_new(GstTensor*, tensors->num_tensors);
    for (gsize i = 0; i < tensors->num_tensors; i++) copies[i] = copy_tensor(tensors->tensors[i]);
    gst_tensor_meta_set(gst_buffer_add_tensor_meta(to), guint(tensors->num_tensors), copies);
    any = true;
  }
#endif
  return any;
}

// Copies them to GStreamer's own copy of a buffer, unless GStreamer did it (from 1.28 on).
inline void keep_tensors(GstBuffer* from, GstBuffer* to) {
#if VF_HAVE_GST_ANALYTICS
  if (from != to && !gst_buffer_get_meta(to, GST_TENSOR_META_API_TYPE)) copy_tensors(from, to);
#endif
}

// Calls f(tensor) for the tensors of all GstTensorMeta of a buffer, until it returns false.
template <class F>
void for_each_tensor(GstBuffer* buffer, const F& f) {
#if VF_HAVE_GST_ANALYTICS
  gpointer state = nullptr;
  while (GstMeta* meta =
             gst_buffer_iterate_meta_filtered(buffer, &state, GST_TENSOR_META_API_TYPE)) {
    auto* tensors = reinterpret_cast<GstTensorMeta*>(meta);
    for (gsize i = 0; i < tensors->num_tensors; i++) {
      const GstTensor* t = tensors->tensors[i];
      if (!t) continue;
      TensorView view;
      view.id = t->id ? g_quark_to_string(t->id) : "";
      const int type = enum_value(t->data_type), order = enum_value(t->dims_order);
      view.type = type == GST_TENSOR_DATA_TYPE_FLOAT32   ? TensorView::Type::f32
                  : type == GST_TENSOR_DATA_TYPE_FLOAT16 ? TensorView::Type::f16
                  : type == GST_TENSOR_DATA_TYPE_UINT8   ? TensorView::Type::u8
                                                         : TensorView::Type::other;
      view.data = t->data;
      const bool columns = order == GST_TENSOR_DIM_ORDER_COL_MAJOR;
      if (enum_value(t->layout) == GST_TENSOR_LAYOUT_CONTIGUOUS &&
          (columns || order == GST_TENSOR_DIM_ORDER_ROW_MAJOR))
        for (gsize d = 0; d < t->num_dims; d++)
          view.dims.push_back(t->dims[columns ? t->num_dims - 1 - d : d]);
      if (!f(view)) return;
    }
  }
#endif
}

// Tells whether a segmentation may cover no pixel at all. From GStreamer 1.30 on, a rectangle
// without width or height means that the network found nothing. Before, it was a mistake.
#if VF_HAVE_GST_ANALYTICS && GST_CHECK_VERSION(1, 29, 0)
constexpr bool kSegmentationCanBeEmpty = true;
#else
constexpr bool kSegmentationCanBeEmpty = false;
#endif

// Describes a segmentation: an image whose pixels are numbers of regions, and the rectangle of the
// frame that the image covers. The network may have written anything, so check each field.
struct SegmentationView {
  struct Region {
    guint id;           // value of its pixels
    std::string label;  // its class, or the object that the segmentation shows; may be empty
  };
  GstBuffer* image = nullptr;  // may be null
  gint x = 0, y = 0;
  guint width = 0, height = 0;
  std::vector<Region> regions;

  bool is_empty() const { return kSegmentationCanBeEmpty && (width == 0 || height == 0); }
};

// Calls f(segmentation) for each segmentation of a buffer, until f returns false.
template <class F>
void for_each_segmentation(GstBuffer* buffer, const F& f) {
#if VF_HAVE_GST_ANALYTICS
  GstAnalyticsRelationMeta* meta = gst_buffer_get_analytics_relation_meta(buffer);
  gpointer state = nullptr;
  GstAnalyticsMtd mtd;
  const auto name = [](GQuark quark) { return std::string(quark ? g_quark_to_string(quark) : ""); };
  while (meta && gst_analytics_relation_meta_iterate(
                     meta, &state, gst_analytics_segmentation_mtd_get_mtd_type(), &mtd)) {
    SegmentationView view;
    view.image =
        gst_analytics_segmentation_mtd_get_mask(&mtd, &view.x, &view.y, &view.width, &view.height);
    // Related metadata names the regions: a classification names each one, an object names all.
    GstAnalyticsMtd object, classes;
    gpointer related = nullptr;
    const guint id = gst_analytics_mtd_get_id(&mtd);
    const bool has_object = gst_analytics_relation_meta_get_direct_related(
        meta, id, GST_ANALYTICS_REL_TYPE_ANY, gst_analytics_od_mtd_get_mtd_type(), &related,
        &object);
    related = nullptr;
    const bool has_classes = gst_analytics_relation_meta_get_direct_related(
        meta, id, GST_ANALYTICS_REL_TYPE_ANY, gst_analytics_cls_mtd_get_mtd_type(), &related,
        &classes);
    const gsize count = gst_analytics_segmentation_mtd_get_region_count(&mtd);
    for (gsize i = 0; i < count; i++) {
      SegmentationView::Region region;
      region.id = gst_analytics_segmentation_mtd_get_region_id(&mtd, i);
      if (has_classes && i < gst_analytics_cls_mtd_get_length(&classes))
        region.label = name(gst_analytics_cls_mtd_get_quark(&classes, i));
      else if (has_object)
        region.label = name(gst_analytics_od_mtd_get_obj_type(&object));
      view.regions.push_back(std::move(region));
    }
    const bool more = f(view);
    gst_clear_buffer(&view.image);
    if (!more) return;
  }
#endif
}

// Calls f(label, x, y, width, height, angle, id) for each object that a detector found in the frame
// of `buffer`. The label may be null, the angle is in radians, and the id is a tracker's, or -1.
// Returns false if no detector left a result; an empty result counts as one.
template <class F>
bool for_each_detection(GstBuffer* buffer, const F& f) {
#if VF_HAVE_GST_ANALYTICS
  GstAnalyticsRelationMeta* meta = gst_buffer_get_analytics_relation_meta(buffer);
  if (!meta) return false;
  gpointer state = nullptr;
  GstAnalyticsMtd mtd;
  while (gst_analytics_relation_meta_iterate(meta, &state, gst_analytics_od_mtd_get_mtd_type(),
                                             &mtd)) {
    gint x, y, w, h;
    gfloat angle = 0, confidence;
    if (!gst_analytics_od_mtd_get_oriented_location(&mtd, &x, &y, &w, &h, &angle, &confidence))
      continue;
    gint64 id = -1;
    gpointer related = nullptr;
    GstAnalyticsMtd tracking;
    if (gst_analytics_relation_meta_get_direct_related(
            meta, gst_analytics_mtd_get_id(&mtd), GST_ANALYTICS_REL_TYPE_ANY,
            gst_analytics_tracking_mtd_get_mtd_type(), &related, &tracking)) {
      guint64 number;
      GstClockTime first, last;
      gboolean lost;
      if (gst_analytics_tracking_mtd_get_info(&tracking, &number, &first, &last, &lost))
        id = gint64(number & G_MAXINT64);
    }
    const GQuark label = gst_analytics_od_mtd_get_obj_type(&mtd);
    f(label ? g_quark_to_string(label) : nullptr, double(x), double(y), double(w), double(h),
      double(angle), id);
  }
  return true;
#else
  return false;
#endif
}

struct UnrefMiniObject {
  void operator()(GstMiniObject* object) const { gst_mini_object_unref(object); }
};
using MiniObjectPtr = std::unique_ptr<GstMiniObject, UnrefMiniObject>;

// Holds the part of one stream in a GstAnalyticsBatchMeta.
struct BatchedStream {
  guint index = 0;
  std::vector<MiniObjectPtr> events;   // the sticky events that hold before the first object
  std::vector<MiniObjectPtr> objects;  // buffers, lists of buffers and events, in order
};

// Adds a GstAnalyticsBatchMeta with these streams.
inline void add_batched_streams(GstBuffer* batch, std::vector<BatchedStream> streams) {
#if VF_HAVE_ANALYTICS_BATCH
  GstAnalyticsBatchMeta* meta = gst_buffer_add_analytics_batch_meta(batch);
  meta->streams = g_new0(GstAnalyticsBatchStream, streams.size());
  meta->n_streams = streams.size();
  for (size_t i = 0; i < streams.size(); i++) {
    BatchedStream& from = streams[i];
    GstAnalyticsBatchStream& to = meta->streams[i];
    to.index = from.index;
    to.sticky_events = g_new(GstEvent*, from.events.size());
    for (MiniObjectPtr& event : from.events)
      to.sticky_events[to.n_sticky_events++] = GST_EVENT_CAST(event.release());
    to.objects = g_new(GstMiniObject*, from.objects.size());
    for (MiniObjectPtr& object : from.objects) to.objects[to.n_objects++] = object.release();
  }
#endif
}

// Reads the GstAnalyticsBatchMeta of a batch and removes it if nobody else has the batch, so that
// its buffers have no other owner. Returns false if there is none.
inline bool take_batched_streams(GstBuffer* batch, std::vector<BatchedStream>* streams) {
#if VF_HAVE_ANALYTICS_BATCH
  GstAnalyticsBatchMeta* meta = gst_buffer_get_analytics_batch_meta(batch);
  if (!meta) return false;
  for (gsize i = 0; i < meta->n_streams; i++) {
    const GstAnalyticsBatchStream& from = meta->streams[i];
    BatchedStream to;
    to.index = from.index;
    for (gsize j = 0; j < from.n_sticky_events; j++)
      to.events.emplace_back(gst_mini_object_ref(GST_MINI_OBJECT_CAST(from.sticky_events[j])));
    for (gsize j = 0; j < from.n_objects; j++)
      to.objects.emplace_back(gst_mini_object_ref(from.objects[j]));
    streams->push_back(std::move(to));
  }
  if (gst_buffer_is_writable(batch)) gst_buffer_remove_meta(batch, &meta->meta);
  return true;
#else
  return false;
#endif
}

}  // namespace gstvf

#pragma GCC diagnostic pop
