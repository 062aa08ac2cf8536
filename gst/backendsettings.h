// The properties of every element that say where and how it filters: cuda-device-id, backend,
// async-depth. They take effect when the element goes to PAUSED.
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

typedef enum {
  GST_CUDA_VIDEO_FILTER_BACKEND_AUTO,
  GST_CUDA_VIDEO_FILTER_BACKEND_CUDA,
  GST_CUDA_VIDEO_FILTER_BACKEND_CPU,
} GstCudaVideoFilterBackend;

GType gst_cuda_video_filter_backend_get_type(void);
#define GST_TYPE_CUDA_VIDEO_FILTER_BACKEND (gst_cuda_video_filter_backend_get_type())

G_END_DECLS

namespace gstvf {

struct BackendSettings {
  int device = -1;  // -1: any
  GstCudaVideoFilterBackend backend = GST_CUDA_VIDEO_FILTER_BACKEND_AUTO;
  int async_depth = 0;

  // From class_init.
  static void install(GObjectClass* klass);
  // False where `id` is none of these properties.
  bool set(guint id, const GValue* value);
  bool get(guint id, GValue* value) const;
};

}  // namespace gstvf
