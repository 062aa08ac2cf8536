// Stands in for the CUDA backend in a build without nvcc.
#include "filters/backend.h"

namespace vf {

const BackendTable* cuda_backend() {
  return nullptr;
}

Status cuda_backend_usable() {
  return Status::error(Code::unsupported, "this build has no CUDA backend");
}

}  // namespace vf
