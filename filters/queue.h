// A Queue runs filters: on a CUDA stream, or on a pool of CPU threads.
//
// A queue is made once, and many plans share it. It owns the memory that plans allocate. It keeps
// freed blocks, so that a plan made anew for other parameters does not wait for the allocator. Only
// one thread at a time may use a queue and its plans. Plans are destroyed before their queue.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "filters/image.h"
#include "filters/no_copy.h"
#include "filters/status.h"

namespace vf {

enum class Backend : uint8_t { reference, cpu, cuda };
const char* name_of(Backend b);

struct QueueOptions {
  Backend backend = Backend::cpu;
  // CPU: number of threads that share the work, including the calling one. 0 means one for each
  // processor that this process may use.
  int threads = 0;
  // CUDA: the cudaStream_t / CUstream to enqueue on, which must outlive the queue. Null makes a
  // non-blocking stream that the queue owns. The default stream is never used.
  void* stream = nullptr;
};

class Queue;

// Memory of a queue, which goes back to the queue at the end of the object's life. The queue may
// hand it out again at once, because enqueued work that uses it runs before any later work.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Queue* queue, Memory memory, void* data, size_t size)
      : queue_(queue), memory_(memory), data_(data), size_(size) {}
  Allocation(Allocation&& o) noexcept { *this = static_cast<Allocation&&>(o); }
  Allocation& operator=(Allocation&& o) noexcept;
  ~Allocation() { reset(); }
  void reset();
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  Queue* queue_ = nullptr;
  Memory memory_ = Memory::host;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// A point in the work of a queue that others can wait for, like a CUDA event.
class Event : NoCopy {
 public:
  virtual ~Event() = default;
  // Waits until the work before the event is done, and returns its error.
  virtual Status wait() { return {}; }
};

class Queue : NoCopy {
 public:
  virtual ~Queue() = default;

  Backend backend() const { return backend_; }

  // Waits until all enqueued work is done, and returns its error. It never waits on the CPU, where
  // run() returns after the work.
  virtual Status sync() = 0;

  // Allocates at least `bytes` of memory, aligned to 256 bytes. Host memory of a CUDA queue is
  // pinned. A CPU queue has host memory only. The call is too slow for every frame.
  virtual Status allocate(Memory memory, size_t bytes, Allocation* out) = 0;

  // Enqueues a copy of `bytes` between host and device memory in either direction. Pageable host
  // memory is read or written before the call returns.
  virtual Status copy(void* dst, const void* src, size_t bytes) = 0;

  // Enqueues a copy of all planes of `src` to `dst`, which have the same layout. Host memory should
  // be pinned; pageable memory makes the call wait.
  virtual Status copy(const Image& src, const Image& dst) = 0;

  // Enqueues a copy of `rows` rows of `bytes` each, `dst_stride` and `src_stride` bytes apart. Host
  // memory should be pinned, as for images.
  virtual Status copy_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                           size_t bytes, int rows) = 0;

  // Records `event` after everything enqueued so far. A null event is made first. Events are
  // destroyed before their queue.
  virtual Status record(std::unique_ptr<Event>* event) {
    if (!*event) event->reset(new (std::nothrow) Event());
    return *event ? Status() : Status::error(Code::out_of_memory, "out of host memory");
  }

  // Lets work that is enqueued later start after the work before `event`, an event of another queue
  // of the same backend. The host does not wait.
  virtual Status wait_for(const Event&) { return {}; }

  // Returns the stream of a CUDA queue, and null for other queues.
  virtual void* stream() const { return nullptr; }

 protected:
  explicit Queue(Backend backend) : backend_(backend) {}

 private:
  friend class Allocation;
  virtual void release(Memory memory, void* data, size_t size) = 0;
  Backend backend_;
};

// Makes a queue. A CUDA queue uses the current CUDA context, which must be current in every later
// call on the queue or its plans. The call fails with no_device if there is no driver or device,
// and with unsupported if the library was built without that backend.
Status make_queue(const QueueOptions& options, std::unique_ptr<Queue>* out);

// Succeeds if this build has the CUDA backend and this machine has a device that the backend can
// use.
Status cuda_usable();

}  // namespace vf
