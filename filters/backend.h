// Declares the table that each backend supplies: a function that makes a queue, and one function
// per filter that makes a plan (filters/filters.def). Calls reach a backend only through this
// table, so no other file of the library depends on the backend.
#pragma once

#include <memory>

#include "filters/make.h"
#include "filters/plan.h"
#include "filters/queue.h"

namespace vf {

#define VF_FILTER(stem, task, plan) \
  struct task;                      \
  class plan;
#include "filters/filters.def"

struct BackendTable {
  Status (*make_queue)(const QueueOptions&, std::unique_ptr<Queue>*) = nullptr;
#define VF_FILTER(stem, task, plan) MakePlan<task, plan> stem = nullptr;
#include "filters/filters.def"
};

const BackendTable* cpu_backend();
const BackendTable* cuda_backend();  // null in a build without CUDA
Status cuda_backend_usable();

// The reference backend is part of the tests and registers itself here.
void set_reference_backend(const BackendTable* table);

// Returns the table of a backend, or null if this build does not have the backend.
const BackendTable* backend_table(Backend backend);

// Makes a filter's plan on the backend of `queue`. Messages call the filter `name`. `fill` sets the
// task from checked parameters and may fail.
template <class Task, class FilterPlan, class Fill>
Status make_plan(Queue& queue, MakePlan<Task, FilterPlan> BackendTable::*filter, const char* name,
                 Fill&& fill, std::unique_ptr<FilterPlan>* out) {
  const BackendTable* table = backend_table(queue.backend());
  if (!table || !(table->*filter))
    return Status::error(Code::unsupported, "the %s backend has no %s", name_of(queue.backend()),
                         name);
  return guarded([&] {
    Task task;
    VF_TRY(fill(task));
    return (table->*filter)(queue, task, out);
  });
}

}  // namespace vf
