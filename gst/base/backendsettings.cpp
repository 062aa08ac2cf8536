#include "gst/base/backendsettings.h"

#include "gst/base/properties.h"

namespace gstvf {

void BackendSettings::install(GObjectClass* klass, BackendSettings* (*settings_of)(GObject*)) {
  using S = BackendSettings;
  const GType backend_type = enum_type(
      "GstCudaVideoFilterBackend",
      {{GST_CUDA_VIDEO_FILTER_BACKEND_AUTO, "CUDA where a GPU works, else the CPU", "auto"},
       {GST_CUDA_VIDEO_FILTER_BACKEND_CUDA, "CUDA, or an error", "cuda"},
       {GST_CUDA_VIDEO_FILTER_BACKEND_CPU, "CPU (frames in CUDA memory are copied to the host)",
        "cpu"}});
  install_properties<S>(
      klass, settings_of,
      {
          {"cuda-device-id",
           "CUDA device ID",
           &S::device,
           kDevice,
           "Number of the GPU to filter on. -1 = the GPU that the frames are on, or the "
           "pipeline's. Frames on another GPU are copied through host memory",
           {kReady}},
          {"backend",
           "Backend",
           &S::backend,
           backend_type,
           "Backend that filters. Where no GPU works, auto takes the CPU and posts an info "
           "message, and cuda is an error",
           {kReady}},
          {"async-depth",
           "Asynchronous depth",
           &S::async_depth,
           kAsyncDepth,
           "Number of frames in system memory that stay in flight on the GPU while newer ones come "
           "in: their copies and filtering overlap, for as many frames of latency. 0 = each frame "
           "is finished before it is pushed. No effect on frames in CUDA memory, on the CPU, or "
           "without a frame rate",
           {kReady}},
      });
}

}  // namespace gstvf
