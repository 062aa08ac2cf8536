// Where filters run: a CUDA stream, or a pool of CPU threads.
//
// A Queue is made once and shared by plans. It owns the memory that plans allocate (and keeps freed
// blocks, so that a plan made again for new parameters does not wait for the allocator). A queue
// and its plans belong to one thread at a time, and plans are destroyed before their queue.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "filters/image.h"
#include "filters/status.h"

namespace vf {

enum class Backend : uint8_t { reference, cpu, cuda };
const char* name_of(Backend b);

struct QueueOptions {
  Backend backend = Backend::cpu;
  // CPU: threads that share the work, the calling one included; 0 means one for each processor
  // this process may use.
  int threads = 0;
  // CUDA: the cudaStream_t / CUstream to enqueue on, which must outlive the queue. Null makes a
  // non-blocking stream that the queue owns; the default stream is never used.
  void* stream = nullptr;
};

class Queue;

// Memory of a queue, given back when it goes out of scope. Memory given back may be
// handed out again at once: work already enqueued that uses it runs before any later work.
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

// A point in the work of a queue that others can wait for, as a CUDA event is.
class Event {
 public:
  Event() = default;
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // Waits until the work before the event is done and reports what went wrong in it.
  virtual Status wait() { return {}; }
};

class Queue {
 public:
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  Backend backend() const { return backend_; }

  // Waits until all enqueued work is done and reports what went wrong in it. Work on the CPU is
  // done when run() returns, so there it never waits.
  virtual Status sync() = 0;

  // At least `bytes` of memory aligned to 256 bytes. Host memory of a CUDA queue is pinned. A CPU
  // queue has host memory only. Not for use per frame.
  virtual Status allocate(Memory memory, size_t bytes, Allocation* out) = 0;

  // Enqueues a copy of `bytes` between host and device memory in either direction. Pageable host
  // memory is read or written before the call returns.
  virtual Status copy(void* dst, const void* src, size_t bytes) = 0;

  // Enqueues a copy of all planes of `src` to `dst`, which have the same layout. Host memory should
  // be pinned; pageable memory makes the call wait.
  virtual Status copy(const Image& src, const Image& dst) = 0;

  // Enqueues a copy of `rows` rows of `bytes` each, `dst_stride` and `src_stride` bytes apart. Host
  // memory should be pinned, as above.
  virtual Status copy_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                           size_t bytes, int rows) = 0;

  // Records `event` after everything enqueued so far: makes it where it is null, else records it
  // anew. Events are destroyed before their queue.
  virtual Status record(std::unique_ptr<Event>* event) {
    if (!*event) event->reset(new (std::nothrow) Event());
    return *event ? Status() : Status::error(Code::out_of_memory, "out of host memory");
  }

  // Work enqueued later starts after the work before `event`, which is of another queue of the same
  // backend. The host does not wait.
  virtual Status wait_for(const Event&) { return {}; }

  // The stream of a CUDA queue; null for others.
  virtual void* stream() const { return nullptr; }

 protected:
  explicit Queue(Backend backend) : backend_(backend) {}

 private:
  friend class Allocation;
  virtual void release(Memory memory, void* data, size_t size) = 0;
  Backend backend_;
};

// Makes a queue. For CUDA, the current CUDA context is used, and must be current again in every
// later call on the queue or its plans. Fails with no_device where there is no driver or device,
// and with unsupported where the library was built without that backend.
Status make_queue(const QueueOptions& options, std::unique_ptr<Queue>* out);

// Whether this build has the CUDA backend and this machine a device that it can use.
Status cuda_usable();

}  // namespace vf
