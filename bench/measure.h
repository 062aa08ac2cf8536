// Times on the GPU: frames in device memory, the plain copy they are measured against, and
// CUDA-graph replays of several things in turn. docs/performance.md says why it is done this way.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/frames.h"

namespace vf::bench {

// Turns a CUDA error into a Status that names the call.
Status check_cuda(cudaError_t error, const char* call);
#define BENCH_CUDA(call) VF_TRY(::vf::bench::check_cuda((call), #call))

// Twice the largest L2 cache there is, and more: a frame is not there when its turn comes again.
constexpr size_t kBeyondCache = size_t{252} << 20;

// Pairs of a source and a destination frame; one frame each for a filter that works in place.
class Ring {
 public:
  Ring() = default;
  ~Ring() { cudaFree(memory_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // As many pairs as hold `bytes` together, and at least one. Rows start at multiples of 256 bytes,
  // as GStreamer's CUDA memory does.
  Status make(const Layout& src, const Layout& dst, bool in_place, size_t bytes);
  int size() const { return int(src_.size()); }
  const Image& src(int i) const { return src_[size_t(i)]; }
  const Image& dst(int i) const { return dst_[size_t(i)]; }

  // Enqueues: another textured frame in every source, and the poison in every destination.
  Status fill(uint32_t seed, cudaStream_t stream);
  Status poison(cudaStream_t stream);

 private:
  void* memory_ = nullptr;
  std::vector<Image> src_, dst_;
};

Status fill(const Image& image, uint32_t seed, cudaStream_t stream);

// Compares two images of one layout. Waits for the stream.
Status compare(const Image& got, const Image& want, cudaStream_t stream, Difference* out);

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
// Errors of a subject stay with it; the return value is about the device.
Status time_in_turn(cudaStream_t stream, const std::vector<Subject*>& subjects);

// The floor: plain copy kernels that read the components of a ring's sources and write as many
// bytes as its destinations have. Holds the fastest of several; `ring` must outlive it.
Status make_floor(const Ring& ring, cudaStream_t stream, Subject* out);

// Bytes of the current device's L2 cache.
Status cache_size(size_t* bytes);

// "NVIDIA H200, CUDA runtime 13.0, driver 13.0"
Status describe_device(std::string* text);

}  // namespace vf::bench
