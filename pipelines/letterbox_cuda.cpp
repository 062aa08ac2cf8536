// Reads tensors on the GPU in C++: letterbox_cuda CLIP
//
// Decodes the clip, lets cudaletterbox make float32 tensors of 640 x 640 in CUDA memory, and gets
// the device pointer of each, as one would for TensorRT or another library on the GPU. Here one
// pixel is copied back and printed. Without a GPU the tensors come in system memory.
#include <gst/app/gstappsink.h>
#include <gst/cuda/cuda-gst.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/gst.h>

#include <cstdio>
#include <memory>
#include <string>

namespace {

constexpr int kSize = 640;

struct Unref {
  void operator()(gpointer object) const { gst_object_unref(object); }
  void operator()(GstSample* sample) const { gst_sample_unref(sample); }
  void operator()(GstCaps* caps) const { gst_caps_unref(caps); }
  void operator()(GError* error) const { g_error_free(error); }
  void operator()(gchar* text) const { g_free(text); }
};
template <class T>
using Owned = std::unique_ptr<T, Unref>;

// Replaces the network. `tensor` is 3 planes of kSize x kSize floats on the GPU whose context is
// current. The middle pixel goes to `rgb`.
bool infer(CUdeviceptr tensor, float rgb[3]) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = tensor + (kSize / 2 * kSize + kSize / 2) * sizeof(float);
  copy.srcPitch = kSize * kSize * sizeof(float);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = rgb;
  copy.dstPitch = sizeof(float);
  copy.WidthInBytes = sizeof(float);
  copy.Height = 3;
  return CuMemcpy2D(&copy) == CUDA_SUCCESS;
}

// Returns whether the tensor was on the GPU.
bool use(GstBuffer* buffer, float rgb[3]) {
  GstMemory* memory = gst_buffer_peek_memory(buffer, 0);
  if (!gst_is_cuda_memory(memory)) {
    GstMapInfo map;
    if (gst_buffer_map(buffer, &map, GST_MAP_READ)) {
      const auto* planes = reinterpret_cast<const float*>(map.data);
      for (int c = 0; c < 3; c++) rgb[c] = planes[(c * kSize + kSize / 2) * kSize + kSize / 2];
      gst_buffer_unmap(buffer, &map);
    }
    return false;
  }
#if GST_CHECK_VERSION(1, 24, 0)
  // The element may still be writing. Work on gst_cuda_memory_get_stream() would not need to wait.
  gst_cuda_memory_sync(GST_CUDA_MEMORY_CAST(memory));
#endif
  GstMapInfo map;
  if (!gst_memory_map(memory, &map, GstMapFlags(GST_MAP_READ | GST_MAP_CUDA))) return false;
  const auto pointer = CUdeviceptr(reinterpret_cast<guintptr>(map.data));
  // The pointer is valid in the memory's context until the memory is unmapped.
  bool done = false;
  if (gst_cuda_context_push(GST_CUDA_MEMORY_CAST(memory)->context)) {
    done = infer(pointer, rgb);
    gst_cuda_context_pop(nullptr);
  }
  gst_memory_unmap(memory, &map);
  return done;
}

int run(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s CLIP\n", argv[0]);
    return 2;
  }
  GError* failed = nullptr;
  Owned<gchar> uri(gst_filename_to_uri(argv[1], &failed));
  if (!uri) {
    fprintf(stderr, "%s\n", failed->message);
    g_error_free(failed);
    return 2;
  }
  const std::string line =
      std::string("uridecodebin uri=\"") + uri.get() +
      "\" ! videoconvert ! cudaletterbox ! appsink name=sink sync=false max-buffers=4";
  Owned<GstElement> pipeline(gst_parse_launch(line.c_str(), &failed));
  if (!pipeline || failed) {
    fprintf(stderr, "%s\n", failed ? failed->message : "no pipeline");
    g_clear_error(&failed);
    return 1;
  }
  Owned<GstElement> sink(gst_bin_get_by_name(GST_BIN(pipeline.get()), "sink"));
  // The caps prefer CUDA memory.
  const std::string size = std::to_string(kSize);
  const std::string tensor =
      "format=static,num_tensors=1,types=float32,dimensions=(string)" + size + ":" + size + ":3:1";
  const std::string either =
      "other/tensors(memory:CUDAMemory)," + tensor + ";other/tensors," + tensor;
  Owned<GstCaps> caps(gst_caps_from_string(either.c_str()));
  gst_app_sink_set_caps(GST_APP_SINK(sink.get()), caps.get());
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  int frames = 0, on_gpu = 0;
  while (Owned<GstSample> sample{gst_app_sink_pull_sample(GST_APP_SINK(sink.get()))}) {
    float rgb[3] = {};
    on_gpu += use(gst_sample_get_buffer(sample.get()), rgb);
    if (frames++ % 25 == 0) printf("middle pixel %.3f %.3f %.3f\n", rgb[0], rgb[1], rgb[2]);
  }

  int status = 0;
  Owned<GstBus> bus(gst_element_get_bus(pipeline.get()));
  if (GstMessage* message = gst_bus_pop_filtered(bus.get(), GST_MESSAGE_ERROR)) {
    gst_message_parse_error(message, &failed, nullptr);
    fprintf(stderr, "%s\n", failed->message);
    g_clear_error(&failed);
    gst_message_unref(message);
    status = 1;
  }
  gst_element_set_state(pipeline.get(), GST_STATE_NULL);
  printf("%d tensors, %d of them on the GPU\n", frames, on_gpu);
  return status ? status : frames ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  const int status = run(argc, argv);
  // This comes after everything is freed. GStreamer's threads end here, so that they cannot use
  // objects that exit() destroys.
  gst_deinit();
  return status;
}
