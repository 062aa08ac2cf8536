#include "cuda/filters.h"
namespace vf::cuda {
Status make_gaussian(Queue&, const GaussianTask&, std::unique_ptr<Plan>*) { return Status::error(Code::unsupported, "not yet"); }
}
