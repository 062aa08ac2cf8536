#include "filters/backend.h"

namespace vf {
namespace {

const BackendTable* reference_backend_table = nullptr;

}  // namespace

void set_reference_backend(const BackendTable* table) {
  reference_backend_table = table;
}

const BackendTable* backend_table(Backend backend) {
  switch (backend) {
    case Backend::reference:
      return reference_backend_table;
    case Backend::cpu:
      return cpu_backend();
    case Backend::cuda:
      return cuda_backend();
  }
  return nullptr;
}

}  // namespace vf
