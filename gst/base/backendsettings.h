// Installs the properties that every element has: cuda-device-id, backend and async-depth. They
// take effect when the element goes to PAUSED.
#pragma once

#include <gst/gst.h>

#include "filters/limits.h"

typedef enum {
  GST_CUDA_VIDEO_FILTER_BACKEND_AUTO,
  GST_CUDA_VIDEO_FILTER_BACKEND_CUDA,
  GST_CUDA_VIDEO_FILTER_BACKEND_CPU,
} GstCudaVideoFilterBackend;

namespace gstvf {

struct BackendSettings {
  static constexpr vf::Limits<int> kDevice{-1, G_MAXINT};
  static constexpr vf::Limits<int> kAsyncDepth{0, 16};

  int device = -1;  // -1: any
  GstCudaVideoFilterBackend backend = GST_CUDA_VIDEO_FILTER_BACKEND_AUTO;
  int async_depth = 0;

  // Call this from class_init. Elements that finish each frame at once have no async-depth.
  static void install(GObjectClass* klass, BackendSettings* (*settings_of)(GObject*),
                      bool has_async_depth = true);
};

}  // namespace gstvf
