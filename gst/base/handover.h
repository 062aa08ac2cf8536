// Lets an element push a CUDA frame before the GPU has finished it. GStreamer 1.24 and newer do
// this with CUDA streams; this file does it for 1.22. Each memory records the queues that still
// write or read it. docs/design.md says who waits for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "filters/queue.h"
#include "gst/base/cudacompat.h"

namespace gstvf {

// Makes a pool of CUDA frames that can be handed over, or GStreamer's own pool if its frames carry
// a stream.
GstBufferPool* frame_pool_new(GstCudaContext* context);

// Allocates like cuda_bytes_new (cudacompat.h), but memory that can be handed over if that is
// needed.
GstMemory* frame_bytes_new(GstCudaContext* context, GstCudaStream* stream, gsize size);

// Flag for gst_memory_map() with GST_MAP_CUDA: the caller has its queue wait for the memory's
// users.
constexpr int kMapFollowed = GST_MAP_FLAG_LAST << 12;

// Marks points in the work of one queue, in order, that others can wait for.
class Timeline : vf::NoCopy {
 public:
  // Keeps a reference of the context.
  static vf::Status make(GstCudaContext* context, std::shared_ptr<Timeline>* out);
  explicit Timeline(GstCudaContext* context);
  ~Timeline();

  // Marks the end of what was enqueued on `queue` as a point. `queue` must be the same in all
  // calls. Waits for the oldest point if more than kAhead would be ahead of the host. The context
  // must be current, and only the thread that owns the queue may call this.
  vf::Status mark(vf::Queue& queue, uint64_t* point);
  // Waits for a point that was marked, or for all. Any thread may call it.
  vf::Status wait(uint64_t point);
  vf::Status wait() { return wait(last_); }
  // Tells whether somebody has waited for this point.
  bool has_reached(uint64_t point) const { return point <= reached_; }
  // Makes work that is enqueued on `queue` from now on wait for a point.
  vf::Status precede(vf::Queue& queue, uint64_t point) const;

 private:
  // At most so many frames are enqueued and not done. This number keeps the GPU busy, and lets a
  // stream end soon after it was told to.
  static constexpr uint64_t kAhead = 4;

  GstCudaContext* const context_;
  // Point n uses event n % kAhead. The event is recorded again for point n + kAhead only after n
  // was reached. Whoever still waits for n then waits too long, but never too short.
  std::unique_ptr<vf::Event> event_[kAhead];
  uint64_t last_ = 0;
  std::atomic<uint64_t> reached_{0};
};

// Records the queues that still read or write a memory.
struct MemoryUsers;

// Returns the users of a memory (may be null) that can be handed over, else null. They live as long
// as the memory.
MemoryUsers* users_of(GstMemory* memory);

// Makes work that is enqueued on `queue` from now on wait for the memory's writer and, if `write`,
// also for its readers. `timeline` is the queue's. The memory must be mapped.
vf::Status follow_users(MemoryUsers& users, bool write, const Timeline* timeline, vf::Queue& queue);

// Record that the work before `point` reads or writes a memory, which must be mapped for it. If a
// memory has no room for another reader, add_reader() waits for one.
vf::Status add_reader(MemoryUsers& users, const std::shared_ptr<Timeline>& timeline,
                      uint64_t point);
void set_writer(MemoryUsers& users, const std::shared_ptr<Timeline>& timeline, uint64_t point);

}  // namespace gstvf
