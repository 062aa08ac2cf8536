// Declares a constructor for each filter of the CPU backend, with the signatures of BackendTable.
#pragma once

#include "filters/backend.h"

namespace vf::cpu {

#define VF_FILTER(stem, task, plan) \
  Status make_##stem(Queue& queue, const task&, std::unique_ptr<plan>* out);
#include "filters/filters.def"

}  // namespace vf::cpu
