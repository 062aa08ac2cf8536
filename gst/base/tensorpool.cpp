#include "gst/base/tensorpool.h"

#include "gst/base/handover.h"

typedef struct _GstCudaTensorPool {
  GstBufferPool parent;

  GstCudaContext* context;
  // set_config() sets these.
  GstCudaStream* stream;
  gsize size;
} GstCudaTensorPool;
using GstCudaTensorPoolClass = GstBufferPoolClass;

static GType gst_cuda_tensor_pool_get_type(void);
#define GST_CUDA_TENSOR_POOL(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), gst_cuda_tensor_pool_get_type(), GstCudaTensorPool))
#define gst_cuda_tensor_pool_parent_class parent_class
G_DEFINE_TYPE(GstCudaTensorPool, gst_cuda_tensor_pool, GST_TYPE_BUFFER_POOL)

static gboolean set_config(GstBufferPool* pool, GstStructure* config) {
  auto* self = GST_CUDA_TENSOR_POOL(pool);
  guint size;
  if (!gst_buffer_pool_config_get_params(config, nullptr, &size, nullptr, nullptr) || !size)
    return FALSE;
  self->size = size;
  gstvf::stream_clear(&self->stream);
  self->stream = gstvf::pool_config_stream(config);
  return GST_BUFFER_POOL_CLASS(parent_class)->set_config(pool, config);
}

static GstFlowReturn alloc_buffer(GstBufferPool* pool, GstBuffer** buffer,
                                  GstBufferPoolAcquireParams*) {
  auto* self = GST_CUDA_TENSOR_POOL(pool);
  GstMemory* memory = gstvf::frame_bytes_new(self->context, self->stream, self->size);
  if (!memory) return GST_FLOW_ERROR;
  *buffer = gst_buffer_new();
  gst_buffer_append_memory(*buffer, memory);
  return GST_FLOW_OK;
}

static void finalize(GObject* object) {
  auto* self = GST_CUDA_TENSOR_POOL(object);
  gstvf::stream_clear(&self->stream);
  gst_object_unref(self->context);
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_tensor_pool_init(GstCudaTensorPool*) {}

static void gst_cuda_tensor_pool_class_init(GstCudaTensorPoolClass* klass) {
  auto* pool_class = GST_BUFFER_POOL_CLASS(klass);
  pool_class->set_config = GST_DEBUG_FUNCPTR(set_config);
  pool_class->alloc_buffer = GST_DEBUG_FUNCPTR(alloc_buffer);
  G_OBJECT_CLASS(klass)->finalize = finalize;
}

namespace gstvf {

GstBufferPool* tensor_pool_new(GstCudaContext* context) {
  auto* self = GST_CUDA_TENSOR_POOL(g_object_new(gst_cuda_tensor_pool_get_type(), nullptr));
  gst_object_ref_sink(self);
  self->context = reinterpret_cast<GstCudaContext*>(gst_object_ref(context));
  return GST_BUFFER_POOL(self);
}

}  // namespace gstvf
