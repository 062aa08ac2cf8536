// Instantiates the Gaussian on tensor cores (gaussian_tensor.cuh) for 16 bits.
#include "cuda/gaussian/gaussian_tensor.cuh"

namespace vf::cuda::tensor {

// The number of blocks per processor is what the registers leave room for. There are no kernels for
// pixels of three components, because no video format has them, and none for long windows of
// several channels, which do not fit into the registers.
const std::vector<Kernel>& kernels16() {
  constexpr Depth u10 = Depth::bits10, u16 = Depth::bits16;
  static const std::vector<Kernel> kernels = {
      kernel<u10, 1, 2, 4, false>(), kernel<u10, 2, 2, 4, false>(), kernel<u10, 1, 3, 4, false>(),
      kernel<u10, 2, 3, 4, false>(), kernel<u10, 1, 5, 3, false>(), kernel<u10, 2, 5, 3, false>(),
      kernel<u16, 1, 2, 4, false>(), kernel<u16, 2, 2, 4, false>(), kernel<u16, 4, 2, 3, false>(),
      kernel<u16, 1, 3, 3, false>(), kernel<u16, 2, 3, 3, false>(), kernel<u16, 4, 3, 2, false>(),
      kernel<u16, 1, 5, 3, true>(),  kernel<u16, 1, 5, 2, false>(), kernel<u16, 2, 5, 2, false>(),
      kernel<u16, 4, 5, 2, true>(),  kernel<u16, 1, 9, 2, true>(),
  };
  return kernels;
}

}  // namespace vf::cuda::tensor
