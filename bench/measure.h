// Device time: frames in device memory, the plain copy they are measured against, and CUDA-graph
// replays of several things in turn. lab/performance.md says why it is done this way.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/core/queue.h"

namespace vf::bench {

#define BENCH_CUDA(call) VF_TRY(::vf::cuda::check((call), #call))

// Twice the largest L2 cache there is, and more: a frame is not there when its turn comes again.
constexpr size_t kBeyondCache = size_t{252} << 20;

// Pairs of a source's memory and a destination's; of one memory for a filter that works in place.
class Ring {
 public:
  Ring() = default;
  ~Ring() { cudaFree(memory_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // As many pairs as hold `total` bytes together, and at least one. No destination: in place.
  Status make(size_t src_bytes, size_t dst_bytes, size_t total);
  int size() const { return pairs_; }
  uint8_t* src(int i) const { return memory_ + size_t(i) * pair_; }
  uint8_t* dst(int i) const { return src(i) + dst_offset_; }

 private:
  uint8_t* memory_ = nullptr;
  size_t pair_ = 0, dst_offset_ = 0;
  int pairs_ = 0;
};

// One thing to time: enqueues its i-th call on the stream.
struct Subject {
  std::function<Status(int)> call;
  // Calls that make a round of different frames.
  int round = 1;
  // Enqueues what must happen before a round, outside the time: filling frames again.
  std::function<Status()> prepare;

  double us = -1;     // of one call: the median; negative where `status` is an error
  bool graph = true;  // false: it could not be captured, so the time is of plain launches
  Status status;
};

// Times the subjects in turn, a replay of each and again, so that clocks that drift drift for all.
// Errors of a subject stay with it; the return value is about the device. `smoke`: one replay of a
// round, only to see that it runs.
Status time_in_turn(cudaStream_t stream, const std::vector<Subject*>& subjects, bool smoke = false);

// The floor: plain copy kernels that read `read` bytes of each source of a ring and write `written`
// bytes of each destination. Holds the fastest of several; `ring` must outlive it.
Status make_floor(const Ring& ring, size_t read, size_t written, cudaStream_t stream, bool smoke,
                  Subject* out);

// Bytes of the current device's L2 cache.
Status cache_size(size_t* bytes);

// "NVIDIA H200, CUDA runtime 13.0, driver 13.0"
Status describe_device(std::string* text);

}  // namespace vf::bench
