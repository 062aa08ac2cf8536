// Limits the kernels that plans may choose. Tests and benchmarks set this on a queue
// (CudaQueue::kernel_limits), so that kernels for other devices and sizes run on any device. It
// applies to plans made afterwards.
#pragma once

namespace vf::cuda {

struct KernelLimits {
  // Each value leaves out one more of the faster kernels. The last allows only the most general
  // one.
  enum class Gaussian { all, two_pass, streaming, fallback };
  Gaussian gaussian = Gaussian::all;
  bool median_tile_sort_only = false;
  int median_tile_sort_capacity = 0;  // pixels in a chunk; 0: as many as fit
};

}  // namespace vf::cuda
