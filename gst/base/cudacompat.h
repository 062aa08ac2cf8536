// Wraps everything of GStreamer's CUDA library that depends on its version or on whether it is
// there.
//
// Built without CUDA, the types are opaque, no memory is CUDA memory, and no context is ever found.
// The rest of the plugin is the same code either way.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include "filters/no_copy.h"

#ifndef VF_HAVE_GST_CUDA
#define VF_HAVE_GST_CUDA 0
#endif

#if VF_HAVE_GST_CUDA
#include <gst/cuda/cuda-gst.h>
#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudautils.h>
#if GST_CHECK_VERSION(1, 24, 0)
#include <gst/cuda/gstcudastream.h>
#define VF_HAVE_GST_CUDA_STREAM 1
#else
#define VF_HAVE_GST_CUDA_STREAM 0
#endif
#else
#define VF_HAVE_GST_CUDA_STREAM 0
#define GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY "memory:CUDAMemory"
typedef struct _GstCudaContext GstCudaContext;
#endif
#if !VF_HAVE_GST_CUDA_STREAM
typedef struct _GstCudaStream GstCudaStream;
#endif
// Choose one of two expressions by the build.
#if VF_HAVE_GST_CUDA
#define VF_IF_CUDA(yes, no) yes
#else
#define VF_IF_CUDA(yes, no) no
#endif
#if VF_HAVE_GST_CUDA_STREAM
#define VF_IF_STREAMS(yes, no) yes
#else
#define VF_IF_STREAMS(yes, no) no
#endif
// Is 1 if elements hand frames over by this plugin's own means (handover.h).
#define VF_CUDA_HAND_OVER (VF_HAVE_GST_CUDA && !VF_HAVE_GST_CUDA_STREAM)

// Some builds do not use all parameters.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace gstvf {

// Tells whether the GStreamer that runs is 1.MINOR or newer, whichever one the plugin was compiled
// for.
inline bool gstreamer_is(guint minor) {
  guint major, running, micro, nano;
  gst_version(&major, &running, &micro, &nano);
  return major > 1 || running >= minor;
}

// Returns the class of cudaletterbox. GES (from GStreamer 1.30 on) uses elements of the class
// Video/Scaler without Colorspace as its scaler, and autovideoconvert (before 1.24) uses every
// Converter. A letterbox suits neither.
inline const char* letterbox_class() {
  return gstreamer_is(29) ? "Filter/Converter/Video/Scaler/Colorspace/Hardware"
                          : "Filter/Effect/Video/Scaler/Hardware";
}

// Returns why CUDA cannot be used, or null if libcuda is there and has a device. Call nothing of
// GStreamer's CUDA library before this returned null: its wrappers abort without libcuda.
inline const char* why_no_cuda() {
#if VF_HAVE_GST_CUDA
#if !VF_HAVE_GST_CUDA_STREAM
  // Functions of this library take other arguments since 1.24, and calling them would pass garbage.
  if (gstreamer_is(24))
    return "the plugin was compiled for GStreamer 1.22, and the CUDA library of 1.24 is another";
#endif
  if (!gst_cuda_load_library())
    return "the CUDA library (libcuda) could not be loaded (is the NVIDIA driver installed?)";
  // If cuInit fails while GStreamer 1.22 makes its first context, making the second one hangs.
  if (const CUresult error = CuInit(0); error != CUDA_SUCCESS) {
    const char* text = nullptr;
    return CuGetErrorString(error, &text) == CUDA_SUCCESS && text ? text : "cuInit failed";
  }
  // Pools of GStreamer 1.22 give no buffers without this call.
  gst_cuda_memory_init_once();
  return nullptr;
#else
  return "this build has no CUDA backend";
#endif
}

// Makes a CUDA context current for a scope.
class CurrentContext : vf::NoCopy {
 public:
  explicit CurrentContext(GstCudaContext* context)
      : pushed_(VF_IF_CUDA(context && gst_cuda_context_push(context), false)) {}
  ~CurrentContext() {
    if (pushed_) VF_IF_CUDA(gst_cuda_context_pop(nullptr), (void)0);
  }
  explicit operator bool() const { return pushed_; }

 private:
  const bool pushed_;
};

inline bool ensure_context(GstElement* element, int device, GstCudaContext** context) {
  return VF_IF_CUDA(!why_no_cuda() && gst_cuda_ensure_element_context(element, device, context),
                    false);
}

inline void handle_set_context(GstElement* element, GstContext* message, int device,
                               GstCudaContext** context) {
#if VF_HAVE_GST_CUDA
  // GStreamer also passes contexts of other kinds, which are no reason to load the driver.
  if (gst_context_has_context_type(message, GST_CUDA_CONTEXT_TYPE) && !why_no_cuda())
    gst_cuda_handle_set_context(element, message, device, context);
#endif
}

inline bool handle_context_query(GstElement* element, GstQuery* query, GstCudaContext* context) {
  return VF_IF_CUDA(context && gst_cuda_handle_context_query(element, query, context), false);
}

inline guint context_device(GstCudaContext* context) {
  guint device = 0;
  g_object_get(context, "cuda-device-id", &device, nullptr);
  return device;
}

// Gives an element, or all elements of a bin, a context to use, as applications do.
inline void give_context(GstElement* element, GstCudaContext* context) {
#if VF_HAVE_GST_CUDA
  GstContext* message = gst_context_new_cuda_context(context);
  gst_element_set_context(element, message);
  gst_context_unref(message);
#endif
}

// Makes a new context on `device` and announces it to the pipeline.
inline GstCudaContext* new_context(GstElement* element, int device) {
#if VF_HAVE_GST_CUDA
  GstCudaContext* context = gst_cuda_context_new(device < 0 ? 0 : device);
  if (!context) return nullptr;
  GstContext* message = gst_context_new_cuda_context(context);
  gst_element_set_context(element, message);
  gst_element_post_message(element, gst_message_new_have_context(GST_OBJECT(element), message));
  return context;
#else
  return nullptr;
#endif
}

// Caps

// Tells whether structure `i` of caps is in CUDA memory.
inline bool caps_in_cuda(const GstCaps* caps, guint i = 0) {
  const GstCapsFeatures* features = gst_caps_get_features(caps, i);
  return features && gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY);
}

inline void set_caps_in_cuda(GstCaps* caps) {
  gst_caps_set_features_simple(caps,
                               gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, nullptr));
}

// Memory

// Tells whether the CUDA memory of the GStreamer that runs, which may be newer than the one
// compiled for, takes a format. Its allocator aborts for other formats.
inline bool cuda_memory_has(GstVideoFormat format) {
#if VF_HAVE_GST_CUDA
  static const struct {
    guint since;  // 1.since
    const char* names[28];
  } kFormats[] = {
      {22, {"I420",      "YV12",      "NV12",      "NV21",    "Y42B",      "Y444", "I420_10LE",
            "I422_10LE", "I422_12LE", "P010_10LE", "P016_LE", "Y444_16LE", "YUY2", "UYVY",
            "RGB",       "BGR",       "RGBA",      "BGRA",    "ARGB",      "ABGR", "RGBx",
            "BGRx",      "RGBP",      "BGRP",      "GBR",     "GBRA"}},
      {24, {"P012_LE", "I420_12LE", "Y444_10LE", "Y444_12LE", "GBR_10LE", "GBR_12LE", "GBR_16LE"}},
      {26, {"VUYA"}},
  };
  const char* const wanted = gst_video_format_to_string(format);
  for (const auto& formats : kFormats)
    if (gstreamer_is(formats.since) && g_strv_contains(formats.names, wanted)) return true;
#endif
  return false;
}

// Returns the CUDA memory of a buffer that consists of exactly one, else null. Ask this of each
// buffer: caps do not tell, and GST_MAP_CUDA means something else for other memories.
inline GstMemory* cuda_memory(GstBuffer* buffer) {
#if VF_HAVE_GST_CUDA
  if (gst_buffer_n_memory(buffer) != 1) return nullptr;
  GstMemory* memory = gst_buffer_peek_memory(buffer, 0);
  // The check may create the allocator's class, for which no driver is needed.
  return gst_is_cuda_memory(memory) ? memory : nullptr;
#else
  return nullptr;
#endif
}

inline GstCudaContext* memory_context(GstMemory* memory) {
  return VF_IF_CUDA(GST_CUDA_MEMORY_CAST(memory)->context, nullptr);
}

// Returns the true layout of the memory: the allocator chooses strides and offsets, not the caps.
inline const GstVideoInfo* memory_info(GstMemory* memory) {
  return VF_IF_CUDA(&GST_CUDA_MEMORY_CAST(memory)->info, nullptr);
}

// Allocates `size` contiguous bytes from a GstCudaAllocator (null: GStreamer's own). Returns null
// if there is no such memory. GStreamer's CUDA memory only holds video, so the bytes are one row of
// RGB, a format that every version can allocate, copy and map to the host.
inline GstMemory* cuda_bytes_new(GstAllocator* allocator, GstCudaContext* context,
                                 GstCudaStream* stream, gsize size) {
#if VF_HAVE_GST_CUDA
  GstVideoInfo info;
  if (allocator)
    gst_object_ref(allocator);
  else
    allocator = gst_allocator_find(GST_CUDA_MEMORY_TYPE_NAME);
  if (!allocator) return nullptr;
  GstMemory* memory = nullptr;
  // CUDA's copies limit the length of a row.
  if (size <= G_MAXINT &&
      gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, guint(size + 2) / 3, 1)) {
    info.stride[0] = gint(size);
    info.size = size;
    GstCudaAllocator* const cuda = GST_CUDA_ALLOCATOR(allocator);
    memory = VF_IF_STREAMS(gst_cuda_allocator_alloc(cuda, context, stream, &info),
                           gst_cuda_allocator_alloc(cuda, context, &info));
    // The allocator may have padded the row.
    if (memory) gst_memory_resize(memory, 0, size);
  }
  gst_object_unref(allocator);
  return memory;
#else
  return nullptr;
#endif
}

// Allocates pinned host memory, which the GPU of the current context can copy from and to while the
// host goes on. Returns null if no more memory can be pinned.
inline void* pinned_new(gsize size) {
  void* data = nullptr;
  return VF_IF_CUDA(CuMemAllocHost(&data, size) == CUDA_SUCCESS, false) ? data : nullptr;
}

inline void pinned_free(void* data) {
  VF_IF_CUDA(CuMemFreeHost(data), (void)0);
}

constexpr int kMapCuda = VF_IF_CUDA(GST_MAP_CUDA, 0);

// CUDA streams exist from GStreamer 1.24 on. Before, an element waits for its work before it pushes
// a frame, or hands the frame over as handover.h says.
//
// Elements that share a stream need not wait for each other. Each element takes the stream from the
// configuration of downstream's pool, and names it in the pool that it proposes upstream. Mapping
// CUDA memory for writing marks it as unfinished; nvcodec's elements then wait for its stream if
// theirs is another one.

inline GstCudaStream* stream_new(GstCudaContext* context) {
  return VF_IF_STREAMS(gst_cuda_stream_new(context), nullptr);
}

inline GstCudaStream* stream_ref(GstCudaStream* stream) {
  return VF_IF_STREAMS(stream ? gst_cuda_stream_ref(stream) : nullptr, stream);
}

inline void stream_clear(GstCudaStream** stream) {
  VF_IF_STREAMS(gst_clear_cuda_stream(stream), *stream = nullptr);
}

inline void* stream_handle(GstCudaStream* stream) {
  return VF_IF_STREAMS(stream ? gst_cuda_stream_get_handle(stream) : nullptr, nullptr);
}

inline GstCudaStream* memory_stream(GstMemory* memory) {
  return VF_IF_STREAMS(gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory)), nullptr);
}

// Waits on the host until the work that writes `memory` is done.
inline void memory_sync(GstMemory* memory) {
  VF_IF_STREAMS(gst_cuda_memory_sync(GST_CUDA_MEMORY_CAST(memory)), (void)0);
}

// Finishes the upload of what the host wrote into `memory`. Otherwise it would happen when the
// memory is next mapped for CUDA, on the memory's own stream, from host memory that the producer
// may write again as soon as it has the buffer back.
inline void memory_upload(GstMemory* memory) {
#if VF_HAVE_GST_CUDA_STREAM
  if (!GST_MEMORY_FLAG_IS_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_UPLOAD)) return;
  GstMapInfo map;
  if (gst_memory_map(memory, &map, GstMapFlags(GST_MAP_READ | GST_MAP_CUDA)))
    gst_memory_unmap(memory, &map);
  gst_cuda_memory_sync(GST_CUDA_MEMORY_CAST(memory));
#endif
}

// Marks `memory` as finished. Mapping it for CUDA writes marked it as unfinished.
inline void memory_is_synced(GstMemory* memory) {
#if VF_HAVE_GST_CUDA_STREAM
  GST_MEMORY_FLAG_UNSET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
#endif
}

// Pools

// Makes a pool of GStreamer's CUDA memory. The user chooses stream-ordered allocation (1.26) by the
// context's prefer-stream-ordered-alloc or GST_CUDA_ENABLE_STREAM_ORDERED_ALLOC. GStreamer's
// default stays here, since nvcodec's encoders have to copy such frames.
inline GstBufferPool* cuda_pool_new(GstCudaContext* context) {
  return VF_IF_CUDA(gst_cuda_buffer_pool_new(context), nullptr);
}

inline bool is_cuda_pool_of(GstBufferPool* pool, GstCudaContext* context) {
  return VF_IF_CUDA(GST_IS_CUDA_BUFFER_POOL(pool) && GST_CUDA_BUFFER_POOL(pool)->context == context,
                    false);
}

// Returns a full reference, or null.
inline GstCudaStream* pool_config_stream(GstStructure* config) {
  return VF_IF_STREAMS(gst_buffer_pool_config_get_cuda_stream(config), nullptr);
}

inline void pool_config_set_stream(GstStructure* config, GstCudaStream* stream) {
#if VF_HAVE_GST_CUDA_STREAM
  if (stream) gst_buffer_pool_config_set_cuda_stream(config, stream);
#endif
}

}  // namespace gstvf

#pragma GCC diagnostic pop
