// Measures device time: frames in device memory, the plain copy that they are compared with, and
// CUDA-graph replays of several subjects in turn. lab/performance.md says why.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/core/queue.h"

namespace vf::bench {

#define BENCH_CUDA(call) VF_TRY(::vf::cuda::check((call), #call))

// Exceeds twice the largest L2 cache of any GPU, so that a frame has left the cache when its turn
// comes again.
constexpr size_t kBeyondCache = size_t{252} << 20;

// Holds pairs of a source and a destination memory, or single memories for a filter that works in
// place.
class Ring {
 public:
  Ring() = default;
  ~Ring() { cudaFree(memory_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Makes as many pairs as fit into `total` bytes, and at least one. Without a destination size,
  // works in place.
  Status make(size_t src_bytes, size_t dst_bytes, size_t total);
  int size() const { return pairs_; }
  uint8_t* src(int i) const { return memory_ + size_t(i) * pair_; }
  uint8_t* dst(int i) const { return src(i) + dst_offset_; }

 private:
  uint8_t* memory_ = nullptr;
  size_t pair_ = 0, dst_offset_ = 0;
  int pairs_ = 0;
};

// Is one thing to time. It enqueues its i-th call on the stream.
struct Subject {
  std::function<Status(int)> call;
  // Number of calls in a round of different frames.
  int round = 1;
  // Enqueues what must happen before a round and is not timed, for example refilling frames.
  std::function<Status()> prepare;

  double us = -1;     // median time of one call; negative if `status` is an error
  bool graph = true;  // false if it could not be captured and the time is that of plain launches
  Status status;
};

// Times the subjects in turn, one replay of each per turn, so that drifting clocks affect all of
// them. Errors of a subject are stored in it; the return value is about the device. With `smoke`,
// each subject runs a single replay of one round, only to see that it works.
Status time_in_turn(cudaStream_t stream, const std::vector<Subject*>& subjects, bool smoke = false);

// Makes the floor: plain copy kernels that read `read` bytes of each source of a ring and write
// `written` bytes of each destination. Holds the fastest of several kernels. `ring` must outlive
// it.
Status make_floor(const Ring& ring, size_t read, size_t written, cudaStream_t stream, bool smoke,
                  Subject* out);

// Returns the bytes of the current device's L2 cache.
Status cache_size(size_t* bytes);

// Writes a text such as "NVIDIA H200, CUDA runtime 13.0, driver 13.0".
Status describe_device(std::string* text);

}  // namespace vf::bench
