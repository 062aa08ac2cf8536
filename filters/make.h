// Helps to make plans. It does not depend on the list of filters, which filters/backend.h has.
#pragma once

#include <exception>
#include <memory>
#include <new>

#include "filters/queue.h"

namespace vf {

// Makes a plan of a backend.
template <class Task, class FilterPlan>
using MakePlan = Status (*)(Queue&, const Task&, std::unique_ptr<FilterPlan>*);

// Runs `make` and turns an exception of the standard library (out of memory) into a Status, because
// no exception may leave the library.
template <class F>
Status guarded(F&& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return Status::error(Code::out_of_memory, "out of host memory");
  } catch (const std::exception& e) {
    return Status::error(Code::device_error, "%s", e.what());
  }
}

// Makes a backend's plan of the type `Made`, which its prepare() completes.
template <class Made, class OwnQueue, class Task, class FilterPlan>
Status make_prepared(Queue& queue, const Task& task, std::unique_ptr<FilterPlan>* out) {
  auto plan = std::make_unique<Made>(static_cast<OwnQueue&>(queue), task);
  VF_TRY(plan->prepare());
  *out = std::move(plan);
  return {};
}

}  // namespace vf
