// Frames in CUDA memory that are pushed before the work on them is done, where GStreamer has no
// streams (before 1.24).
//
// The memory itself knows what still reads and writes it. An element of this plugin has its own
// queue follow that work, and does not wait. Everybody else has to map the memory to get at it, and
// the mapping waits: for what writes the memory, and, to write it, also for what reads it. So does
// its end. Nothing depends on what stands between two elements, or on who keeps a frame.
//
// From GStreamer 1.24 on its memory knows its stream, and is used instead.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "filters/queue.h"
#include "gst/base/cudacompat.h"

namespace gstvf {

// A pool of CUDA frames that can be handed over, where that is needed; else GStreamer's own pool.
GstBufferPool* frame_pool_new(GstCudaContext* context);

// As cuda_bytes_new (cudacompat.h), but can be handed over where that is needed.
GstMemory* frame_bytes_new(GstCudaContext* context, GstCudaStream* stream, gsize size);

// For gst_memory_map() with GST_MAP_CUDA: the caller has its queue follow what uses the memory.
constexpr int kMapFollowed = GST_MAP_FLAG_LAST << 12;

// Points in the work of one queue, in order, that others wait for.
class Timeline {
 public:
  // Holds the context.
  static vf::Status make(GstCudaContext* context, std::shared_ptr<Timeline>* out);
  explicit Timeline(GstCudaContext* context);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Marks the end of what was enqueued on `queue`, always the same, as a point. Waits for the
  // oldest point where more than kAhead would be ahead of the host. The context is current, and the
  // calls are of one thread at a time, as of the queue.
  vf::Status mark(vf::Queue& queue, uint64_t* point);
  // Waits for a point that was marked, or for all. Any thread.
  vf::Status wait(uint64_t point);
  vf::Status wait() { return wait(last_); }
  // Whether somebody has waited for a point.
  bool has_reached(uint64_t point) const { return point <= reached_; }
  // Has what is enqueued on `queue` from now on follow a point.
  vf::Status precede(vf::Queue& queue, uint64_t point) const;

 private:
  // Frames that are enqueued and not done: enough for the GPU never to wait for the host, few
  // enough for a stream that ends soon after it was told to.
  static constexpr uint64_t kAhead = 4;

  GstCudaContext* const context_;
  // Of point n: event n % kAhead. It is recorded again for point n + kAhead when n is reached, so
  // that who still waits for n then waits too long, but never too short.
  std::unique_ptr<vf::Event> event_[kAhead];
  uint64_t last_ = 0;
  std::atomic<uint64_t> reached_{0};
};

// What still reads and writes a memory.
struct MemoryUsers;

// Those of memory (may be null) that can be handed over; else null. They live as long as it.
MemoryUsers* users_of(GstMemory* memory);

// Has what is enqueued on `queue` follow the work that writes a memory, and, where it will be
// written, also what reads it. `timeline` is the queue's. The memory is mapped.
vf::Status follow_users(MemoryUsers& users, bool write, const Timeline* timeline, vf::Queue& queue);

// Says that the work before `point` reads or writes a memory, which is mapped for it. One more
// reader than a memory has room for waits.
vf::Status add_reader(MemoryUsers& users, const std::shared_ptr<Timeline>& timeline,
                      uint64_t point);
void set_writer(MemoryUsers& users, const std::shared_ptr<Timeline>& timeline, uint64_t point);

}  // namespace gstvf
