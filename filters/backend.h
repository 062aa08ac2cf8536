// What a backend gives the library: a queue, and one constructor per filter, all of one signature
// (filters/filters.def). This is the one place where a call is sent to a backend; nothing else in
// the library knows them apart.
#pragma once

#include <exception>
#include <memory>
#include <new>

#include "filters/plan.h"
#include "filters/queue.h"

namespace vf {

#define VF_FILTER(stem, task, plan) \
  struct task;                      \
  class plan;
#include "filters/filters.def"

template <class Task, class FilterPlan>
using MakePlan = Status (*)(Queue&, const Task&, std::unique_ptr<FilterPlan>*);

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

// The table for a backend; null if this build does not have it.
const BackendTable* backend_table(Backend backend);

// Runs `make`, turning an exception of the standard library (out of memory) into a Status: the
// boundary no exception crosses.
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

// Has the queue's backend make the plan of a filter, `name` in messages. `fill` sets the task from
// parameters that were checked; it may fail.
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
