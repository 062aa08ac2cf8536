#include "filters/backend.h"

#include <cuda_runtime_api.h>

#include "cuda/filters.h"
#include "cuda/queue.h"

namespace vf {

const BackendTable* cuda_backend() {
  static const BackendTable table = [] {
    BackendTable t;
    t.make_queue = cuda::make_queue;
    t.gaussian = cuda::make_gaussian;
    t.letterbox = cuda::make_letterbox;
    t.guided = cuda::make_guided;
    t.median = cuda::make_median;
    return t;
  }();
  return &table;
}

Status cuda_backend_usable() {
  int devices = 0;
  VF_TRY(cuda::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount"));
  if (devices == 0) return Status::error(Code::no_device, "no CUDA device");
  return {};
}

}  // namespace vf
