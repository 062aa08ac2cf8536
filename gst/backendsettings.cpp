#include "gst/backendsettings.h"

enum { PROP_0, PROP_CUDA_DEVICE_ID, PROP_BACKEND, PROP_ASYNC_DEPTH };

GType gst_cuda_video_filter_backend_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {GST_CUDA_VIDEO_FILTER_BACKEND_AUTO, "CUDA where a GPU works, else the CPU", "auto"},
      {GST_CUDA_VIDEO_FILTER_BACKEND_CUDA, "CUDA, or an error", "cuda"},
      {GST_CUDA_VIDEO_FILTER_BACKEND_CPU, "CPU (frames in CUDA memory are copied to the host)",
       "cpu"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaVideoFilterBackend", values));
  return type;
}

namespace gstvf {

constexpr int kMaxAsyncDepth = 16;

void BackendSettings::install(GObjectClass* klass) {
  const BackendSettings defaults;
  const auto flags =
      GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  g_object_class_install_property(
      klass, PROP_CUDA_DEVICE_ID,
      g_param_spec_int("cuda-device-id", "CUDA device ID",
                       "Number of the GPU to filter on. -1 = the GPU that the frames are on, or "
                       "the pipeline's. Frames on another GPU are copied through host memory",
                       -1, G_MAXINT, defaults.device, flags));
  g_object_class_install_property(
      klass, PROP_BACKEND,
      g_param_spec_enum("backend", "Backend",
                        "Backend that filters. Where no GPU works, auto takes the CPU and posts an "
                        "info message, and cuda is an error",
                        GST_TYPE_CUDA_VIDEO_FILTER_BACKEND, defaults.backend, flags));
  g_object_class_install_property(
      klass, PROP_ASYNC_DEPTH,
      g_param_spec_int("async-depth", "Asynchronous depth",
                       "Number of frames in system memory that stay in flight on the GPU while "
                       "newer ones come in: their copies and filtering overlap, for as many frames "
                       "of latency. 0 = each frame is finished before it is pushed. No effect on "
                       "frames in CUDA memory, on the CPU, or without a frame rate",
                       0, kMaxAsyncDepth, defaults.async_depth, flags));
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_VIDEO_FILTER_BACKEND, GstPluginAPIFlags(0));
}

bool BackendSettings::set(guint id, const GValue* value) {
  switch (id) {
    case PROP_CUDA_DEVICE_ID:
      device = g_value_get_int(value);
      return true;
    case PROP_BACKEND:
      backend = GstCudaVideoFilterBackend(g_value_get_enum(value));
      return true;
    case PROP_ASYNC_DEPTH:
      async_depth = g_value_get_int(value);
      return true;
  }
  return false;
}

bool BackendSettings::get(guint id, GValue* value) const {
  switch (id) {
    case PROP_CUDA_DEVICE_ID:
      g_value_set_int(value, device);
      return true;
    case PROP_BACKEND:
      g_value_set_enum(value, backend);
      return true;
    case PROP_ASYNC_DEPTH:
      g_value_set_int(value, async_depth);
      return true;
  }
  return false;
}

}  // namespace gstvf
