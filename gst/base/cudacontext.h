// Finds and holds the CUDA context that an element works in, with everything that belongs to it.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "filters/queue.h"
#include "gst/base/cudacompat.h"

namespace gstvf {

// Holds the CUDA context of one element, with its streams and its pinned memory. Built without
// CUDA, it never has a context.
//
// Any thread may call ref(), set_context() and answer(). Everything else belongs to the thread that
// changes the context: the streaming thread, or start and stop.
class CudaContextHolder : vf::NoCopy {
 public:
  // The element must outlive the holder.
  explicit CudaContextHolder(GstElement* element) : element_(element) {}
  ~CudaContextHolder() { clear(); }

  // Returns the context, or null while there is none.
  GstCudaContext* get() const { return context_; }
  // Returns a full reference to the context, or null.
  GstCudaContext* ref() const;

  // Takes the context of an element's set_context if `message` has one for `device` (-1: any) and
  // there is none yet.
  void set_context(GstContext* message, int device);
  // Answers a CONTEXT query. Returns false if there is no context or the query asks for another
  // kind.
  bool answer(GstQuery* query) const;

  // Finds the pipeline's context on `device` (-1: any), or makes one and shares it with the
  // pipeline. Asks the neighbours and the application, which answer by set_context. Keeps a context
  // that is already there. Returns false if no device can be used.
  bool find(int device);
  // Replaces the context by a new one on `device` and announces it to the pipeline. Returns false
  // and keeps the old one if none can be made.
  bool replace(int device);
  // Replaces the context by the one of incoming frames.
  void adopt(GstCudaContext* context);
  // Drops the context and everything that belongs to it.
  void clear();

  // Returns the stream that frames are filtered on. Null means that none is chosen yet, or that
  // GStreamer has no streams (before 1.24).
  GstCudaStream* stream() const { return stream_; }
  // Chooses a stream: `stream` (full reference), or the element's own if it is null.
  void use_stream(GstCudaStream* stream);

  // Returns the allocator of pinned memory for this context, which must be there.
  GstAllocator* pinned_allocator();

 private:
  void set(GstCudaContext* context);
  void drop_streams();

  GstElement* const element_;
  // Guards changes of the context against ref() in other threads, and the lookup below.
  mutable std::mutex mutex_;
  std::atomic<GstCudaContext*> context_{nullptr};
  // While find() asks, these name its thread and the place for the context. The answer arrives in
  // the same thread: set_context() puts it into that place.
  std::thread::id lookup_thread_;
  GstCudaContext** pending_ = nullptr;

  GstCudaStream* stream_ = nullptr;
  GstCudaStream* own_stream_ = nullptr;  // made once and kept while downstream's is in use
  GstAllocator* pinned_ = nullptr;
};

// Makes the context current for a scope, in which `backend` works. The CPU backend needs none.
class WorkContext {
 public:
  WorkContext(const CudaContextHolder& cuda, vf::Backend backend)
      : current_(backend == vf::Backend::cuda ? cuda.get() : nullptr),
        usable_(backend != vf::Backend::cuda || current_) {}
  vf::Status status() const {
    return usable_ ? vf::Status()
                   : vf::Status::error(vf::Code::device_error, "the CUDA context cannot be used");
  }

 private:
  const CurrentContext current_;
  const bool usable_;
};

// Finds or makes a context on `device` (-1: any), and tries it out with `work`, which has the
// functions use() and open() of InFlight. If no context works, `work` is on the CPU backend.
template <class Work>
vf::Status open_cuda(CudaContextHolder& cuda, Work& work, int device) {
  if (const char* why = why_no_cuda()) return vf::Status::error(vf::Code::no_device, "%s", why);
  if (!cuda.find(device))
    return vf::Status::error(vf::Code::no_device,
                             "no CUDA context can be made on cuda-device-id=%d", device);
  work.use(vf::Backend::cuda);
  vf::Status status = work.open();
  // A context in which a kernel failed stays broken, and the pipeline goes on sharing it.
  if (!status.ok() && cuda.replace(device)) status = work.open();
  if (!status.ok()) {
    work.use(vf::Backend::cpu);
    cuda.clear();
  }
  return status;
}

}  // namespace gstvf
