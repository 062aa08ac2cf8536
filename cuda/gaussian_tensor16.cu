// The Gaussian on tensor cores (gaussian_tensor.cuh): its kernels for 16 bit.
#include "cuda/gaussian_tensor.cuh"

namespace vf::cuda::tensor {

// Warps a block and blocks a processor are as many as the registers leave room for; no GPU has
// chosen among them. Pixels of three components are left to other kernels, as no video format has
// them, and so are long windows of several channels, which do not fit into the registers.
const std::vector<Kernel>& kernels16() {
  constexpr Depth u10 = Depth::bits10, u16 = Depth::bits16;
  static const std::vector<Kernel> kernels = {
      kernel<u10, 1, 2, 4, 4, true, false>(), kernel<u10, 2, 2, 4, 4, true, false>(),
      kernel<u10, 1, 3, 4, 4, true, false>(), kernel<u10, 2, 3, 4, 4, true, false>(),
      kernel<u10, 1, 5, 4, 3, true, false>(), kernel<u10, 2, 5, 4, 3, true, false>(),
      kernel<u16, 1, 2, 4, 4, true, false>(), kernel<u16, 2, 2, 4, 4, true, false>(),
      kernel<u16, 4, 2, 4, 3, true, false>(), kernel<u16, 1, 3, 4, 3, true, false>(),
      kernel<u16, 2, 3, 4, 3, true, false>(), kernel<u16, 4, 3, 4, 2, true, false>(),
      kernel<u16, 1, 5, 4, 3, true, true>(),  kernel<u16, 1, 5, 4, 2, true, false>(),
      kernel<u16, 2, 5, 4, 2, true, false>(), kernel<u16, 4, 5, 4, 2, true, true>(),
      kernel<u16, 1, 9, 4, 2, true, true>(),
  };
  return kernels;
}

}  // namespace vf::cuda::tensor
