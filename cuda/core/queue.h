// The CUDA backend's queue has one stream of the current context and owns the memory of its plans.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "filters/queue.h"

namespace vf::cuda {

// Turns a CUDA error into a Status that names the call, and cudaSuccess into ok.
Status check(cudaError_t error, const char* call);

// Lets `kernel` be launched with `bytes` of dynamic shared memory. All plans share the kernel's
// limit, so it only grows. Otherwise an earlier plan could no longer launch.
Status allow_shared(const void* kernel, size_t bytes);

// Limits the kernels that plans may choose. Tests and benchmarks set this on a queue, so that kernels
// for other devices and sizes run on any device. It applies to plans made afterwards.
struct KernelLimits {
  // Each value leaves out one more of the faster kernels.
  enum class Gaussian { all, two_pass, streaming, fallback };
  Gaussian gaussian = Gaussian::all;
  bool median_tile_sort_only = false;
  int median_tile_sort_capacity = 0;  // pixels in a chunk; 0: as many as fit
};

struct Device {
  int id = 0;
  int capability = 0;            // 90 for 9.0
  int processors = 0;            // streaming multiprocessors
  int shared_per_block = 0;      // bytes, with opt-in
  int shared_per_processor = 0;  // bytes
  int cache = 0;                 // L2, bytes

  // Tells whether a kernel may start while the one before it still runs (launch.h).
  bool starts_early() const { return capability >= 90; }
};

class CudaQueue final : public Queue {
 public:
  CudaQueue(const Device& device, cudaStream_t stream, bool owns_stream)
      : Queue(Backend::cuda), device_(device), stream_(stream), owns_stream_(owns_stream) {}
  ~CudaQueue() override;

  const Device& device() const { return device_; }
  cudaStream_t cuda_stream() const { return stream_; }
  KernelLimits& kernel_limits() { return kernel_limits_; }
  const KernelLimits& kernel_limits() const { return kernel_limits_; }

  Status sync() override;
  Status allocate(Memory memory, size_t bytes, Allocation* out) override;
  Status copy(void* dst, const void* src, size_t bytes) override;
  Status copy(const Image& src, const Image& dst) override;
  Status copy_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                   size_t bytes, int rows) override;
  Status record(std::unique_ptr<Event>* event) override;
  Status wait_for(const Event& event) override;
  void* stream() const override { return stream_; }

 private:
  void release(Memory memory, void* data, size_t size) override;
  void free_cached();

  Device device_;
  KernelLimits kernel_limits_;
  cudaStream_t stream_;
  bool owns_stream_;
  // Holds the freed blocks of each kind of memory. They can be used again without waiting, because
  // the stream runs its work in order. The vectors have room for all blocks that were made, so that
  // freeing a block allocates nothing.
  struct Cached {
    size_t size;
    void* data;
  };
  std::vector<Cached> cached_[2];
  size_t made_[2] = {};
  size_t cached_bytes_ = 0;
};

Status make_queue(const QueueOptions& options, std::unique_ptr<Queue>* out);

}  // namespace vf::cuda

// Returns from the calling function with a Status that names the call if the call failed.
#define VF_CUDA(call) VF_TRY(::vf::cuda::check((call), #call))
