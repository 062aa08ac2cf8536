// Which kernels plans may take. Tests and benchmarks set it on a queue (CudaQueue::kernel_limits),
// so that kernels made for other devices and sizes run on any; it applies to plans made afterwards.
#pragma once

namespace vf::cuda {

struct KernelLimits {
  // From all kernels to the most general one.
  enum class Gaussian { all, two_pass, streaming, fallback };
  Gaussian gaussian = Gaussian::all;
  bool median_tile_sort_only = false;
  int median_tile_sort_capacity = 0;  // not 0: chunks of this many pixels, whatever fits
};

}  // namespace vf::cuda
