// Holds the queue that an element filters frames on, with what belongs to its backend, context and
// stream.
#pragma once

#include <memory>

#include "filters/queue.h"
#include "gst/base/cudacontext.h"
#include "gst/base/frame.h"
#include "gst/base/handover.h"

namespace gstvf {

// Belongs to the streaming thread, or to start and stop. Derived classes close() in their
// destructors.
class Work : vf::NoCopy {
 public:
  // The holder must outlive it.
  explicit Work(CudaContextHolder& cuda) : cuda_(cuda) {}
  virtual ~Work() = default;

  // Closes, and chooses the backend: cpu or cuda.
  void use(vf::Backend backend);
  bool on_cuda() const { return backend_ == vf::Backend::cuda; }
  // Makes the queue if it is missing, which shows whether a context works. The CUDA backend needs a
  // context.
  vf::Status open();
  // Drops the queue and everything that was made on it. The backend stays.
  virtual void close();
  // Waits for work whose memory was handed over before it was done, and returns what went wrong in
  // it.
  vf::Status settle();

 protected:
  // These are called with the context current: after a queue was made, and before it is dropped.
  virtual void opened() {}
  virtual void drop() = 0;

  // Returns the CUDA memory of a buffer if the queue can use it, else null. Memory of another
  // context counts as host memory: GStreamer downloads it when it is mapped.
  GstMemory* our_memory(GstBuffer* buffer) const;
  bool on_our_stream(GstMemory* memory) const;
  // Marks the end of the work that is enqueued, for the next users of its memory.
  vf::Status mark(uint64_t* point);
  // Makes `copies_` if the host has to copy this frame.
  vf::Status prepare_copies(const MappedFrame& frame);

  CudaContextHolder& cuda_;
  vf::Backend backend_ = vf::Backend::cpu;
  // These belong to one backend, context and stream. They are destroyed from the last to the first.
  GstCudaStream* stream_ = nullptr;  // queue_ runs on it; null: on a stream of its own
  std::unique_ptr<vf::Queue> queue_;
  std::shared_ptr<Timeline> timeline_;  // marks in queue_; null unless memory is handed over
  std::unique_ptr<vf::Queue> copies_;   // makes the host's copies of frames that are not pinned
};

}  // namespace gstvf
