// The CUDA context that an element works in, and what belongs to the context.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "gst/base/cudacompat.h"

namespace gstvf {

// Finds, keeps and replaces the CUDA context of one element, with its streams and its pinned
// memory. Built without CUDA, it never has a context.
//
// Threads: ref(), set_context() and answer() may be called by any thread. All else belongs to the
// thread that changes the context: the streaming thread, or start and stop.
class CudaContextHolder {
 public:
  // The element must outlive the holder.
  explicit CudaContextHolder(GstElement* element) : element_(element) {}
  ~CudaContextHolder() { clear(); }
  CudaContextHolder(const CudaContextHolder&) = delete;
  CudaContextHolder& operator=(const CudaContextHolder&) = delete;

  // The context; null while there is none.
  GstCudaContext* get() const { return context_; }
  // A full reference of it, or null.
  GstCudaContext* ref() const;

  // Takes the context of an element's set_context, if `message` has one for `device` (-1: any) and
  // there is none yet.
  void set_context(GstContext* message, int device);
  // Answers a CONTEXT query. False where there is no context, or the query asks for another kind.
  bool answer(GstQuery* query) const;

  // Finds the pipeline's context on `device` (-1: any), or makes one that the pipeline shares.
  // Asks the neighbours and the application, which answer by set_context. Keeps a context that is
  // there already. False where no device can be used.
  bool find(int device);
  // Replaces the context by a new one on `device`, which the pipeline learns of. False where none
  // can be made: the old one stays.
  bool replace(int device);
  // Replaces the context by the one of incoming frames.
  void adopt(GstCudaContext* context);
  // Drops the context and all that belongs to it.
  void clear();

  // The stream that frames are filtered on. Null: not chosen yet, or GStreamer has no streams
  // (before 1.24).
  GstCudaStream* stream() const { return stream_; }
  // Chooses a stream: `stream` (full reference), or the element's own if it is null.
  void use_stream(GstCudaStream* stream);

  // The allocator of pinned memory for this context, which must be there.
  GstAllocator* pinned_allocator();

 private:
  void set(GstCudaContext* context);
  void drop_streams();

  GstElement* const element_;
  // Guards changes of the context against ref() in other threads, and the lookup below.
  mutable std::mutex mutex_;
  std::atomic<GstCudaContext*> context_{nullptr};
  // While find() asks: the thread that looks the context up, and the pending context. An answer
  // comes to that thread by set_context() and belongs there.
  std::thread::id lookup_thread_;
  GstCudaContext** pending_ = nullptr;

  GstCudaStream* stream_ = nullptr;
  GstCudaStream* own_stream_ = nullptr;  // made once, and kept while downstream's is used
  GstAllocator* pinned_ = nullptr;
};

}  // namespace gstvf
