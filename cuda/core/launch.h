// Launches kernels: launch() checks the types of the arguments and returns a Status.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "cuda/core/queue.h"

namespace vf::cuda {

struct Launch {
  dim3 grid, block;
  size_t shared = 0;  // dynamic, bytes
  // Programmatic dependent launch, from compute capability 9.0 on: the kernel may start before the
  // previous one is done, and waits for it itself (wait_for_previous()).
  bool early = false;
};

// Enqueues `kernel`. Error messages call it `name`.
template <class... Parameters>
Status launch(const char* name, void (*kernel)(Parameters...), const Launch& shape,
              cudaStream_t stream, const std::decay_t<Parameters>&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared;
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = shape.early ? 1 : 0;
  return check(cudaLaunchKernelEx(&config, kernel, arguments...), name);
}
template <class... Parameters>
Status launch(const char* name, void (*kernel)(Parameters...), const Launch& shape,
              const CudaQueue& queue, const std::decay_t<Parameters>&... arguments) {
  return launch(name, kernel, shape, queue.cuda_stream(), arguments...);
}

// Lets `kernel` be launched with `bytes` of dynamic shared memory.
template <class... Parameters>
Status allow_shared(void (*kernel)(Parameters...), size_t bytes) {
  return allow_shared(reinterpret_cast<const void*>(kernel), bytes);
}

}  // namespace vf::cuda
