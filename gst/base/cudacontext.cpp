#include "gst/base/cudacontext.h"

#include <utility>

#include "gst/base/pinned.h"

namespace gstvf {
namespace {

GstCudaContext* add_ref(GstCudaContext* context) {
  return context ? reinterpret_cast<GstCudaContext*>(gst_object_ref(context)) : nullptr;
}

}  // namespace

GstCudaContext* CudaContextHolder::ref() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return add_ref(context_);
}

void CudaContextHolder::set(GstCudaContext* context) {
  GstCudaContext* old;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    old = context_.exchange(context);
  }
  if (old) gst_object_unref(old);
}

void CudaContextHolder::set_context(GstContext* message, int device) {
  GstCudaContext** pending = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (lookup_thread_ == std::this_thread::get_id()) pending = pending_;
  }
  if (pending) {
    handle_set_context(element_, message, device, pending);
    return;
  }
  GstCudaContext* context = ref();
  GstCudaContext* const before = context;
  handle_set_context(element_, message, device, &context);
  if (!before) {
    // Keeps a context that the element found in the meantime.
    std::lock_guard<std::mutex> lock(mutex_);
    if (!context_) context_ = std::exchange(context, nullptr);
  }
  if (context) gst_object_unref(context);
}

bool CudaContextHolder::answer(GstQuery* query) const {
  GstCudaContext* context = ref();
  const bool answered = handle_context_query(element_, query, context);
  if (context) gst_object_unref(context);
  return answered;
}

bool CudaContextHolder::find(int device) {
  GstCudaContext* context = ref();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_ = &context;
    lookup_thread_ = std::this_thread::get_id();
  }
  // This calls set_context(), so the lock must be free.
  const bool found = ensure_context(element_, device, &context) && context;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_ = nullptr;
    lookup_thread_ = {};
  }
  if (found)
    set(context);
  else if (context)
    gst_object_unref(context);
  return found;
}

bool CudaContextHolder::replace(int device) {
  GstCudaContext* context = new_context(element_, device);
  if (!context) return false;
  drop_streams();
  set(context);
  return true;
}

void CudaContextHolder::adopt(GstCudaContext* context) {
  drop_streams();
  set(add_ref(context));
}

void CudaContextHolder::clear() {
  drop_streams();
  set(nullptr);
}

void CudaContextHolder::drop_streams() {
  stream_clear(&stream_);
  stream_clear(&own_stream_);
  gst_clear_object(&pinned_);
}

void CudaContextHolder::use_stream(GstCudaStream* stream) {
  if (!stream) {
    if (!own_stream_) own_stream_ = stream_new(context_);
    stream = stream_ref(own_stream_);
  }
  stream_clear(&stream_);
  stream_ = stream;
}

GstAllocator* CudaContextHolder::pinned_allocator() {
  if (!pinned_) pinned_ = pinned_allocator_new(context_);
  return pinned_;
}

}  // namespace gstvf
