// Replaces the CUDA backend in a build without nvcc.
#include "filters/backend.h"
#include "filters/regions_task.h"

namespace vf {

const BackendTable* cuda_backend() {
  return nullptr;
}

Status cuda_backend_usable() {
  return Status::error(Code::unsupported, "this build has no CUDA backend");
}

Status cuda::make_regions(Queue&, const RegionsTask&, std::unique_ptr<RegionsPlan>*) {
  return cuda_backend_usable();
}

}  // namespace vf
