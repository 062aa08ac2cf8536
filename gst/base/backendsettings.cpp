#include "gst/base/backendsettings.h"

#include "gst/base/properties.h"

namespace gstvf {

void BackendSettings::install(GObjectClass* klass, BackendSettings* (*settings_of)(GObject*),
                              bool has_async_depth) {
  using S = BackendSettings;
  const GType backend_type =
      enum_type("GstCudaVideoFilterBackend",
                {{GST_CUDA_VIDEO_FILTER_BACKEND_AUTO, "GPU if one works, else CPU", "auto"},
                 {GST_CUDA_VIDEO_FILTER_BACKEND_CUDA, "GPU; an error if none works", "cuda"},
                 {GST_CUDA_VIDEO_FILTER_BACKEND_CPU,
                  "CPU; frames in CUDA memory are copied to the host", "cpu"}});
  install_properties<S>(
      klass, settings_of,
      {
          {"cuda-device-id", "CUDA device ID", &S::device, kDevice,
           "GPU to filter on, by its CUDA device number. -1 = the GPU that holds the frames, or "
           "else the pipeline's. Frames on another GPU are copied through host memory",
           kReady},
          {"backend", "Backend", &S::backend, backend_type,
           "Where to filter frames. If auto selects the CPU, an info message says why", kReady},
      });
  if (!has_async_depth) return;
  install_properties<S>(
      klass, settings_of,
      {
          {"async-depth", "Asynchronous depth", &S::async_depth, kAsyncDepth,
           "Number of frames in flight on the GPU, so that copies and filtering of neighbouring "
           "frames overlap. Adds as many frames of latency. 0 = finish each frame before the next "
           "one. Only for frames in system memory that have a frame rate",
           kReady},
      });
}

}  // namespace gstvf
