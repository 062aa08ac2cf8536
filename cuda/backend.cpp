#include "filters/backend.h"

#include <cuda_runtime_api.h>

#include "cuda/core/queue.h"

namespace vf {

namespace cuda {
#define VF_FILTER(stem, task, plan) \
  Status make_##stem(Queue& queue, const task&, std::unique_ptr<plan>* out);
#include "filters/filters.def"
}  // namespace cuda

const BackendTable* cuda_backend() {
  static const BackendTable table = {
      cuda::make_queue,
#define VF_FILTER(stem, task, plan) cuda::make_##stem,
#include "filters/filters.def"
  };
  return &table;
}

Status cuda_backend_usable() {
  int devices = 0;
  VF_TRY(cuda::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount"));
  if (devices == 0) return Status::error(Code::no_device, "no CUDA device");
  return {};
}

}  // namespace vf
