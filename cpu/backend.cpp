#include "filters/backend.h"

#include "cpu/queue.h"

namespace vf {

namespace cpu {
#define VF_FILTER(stem, task, plan) \
  Status make_##stem(Queue& queue, const task&, std::unique_ptr<plan>* out);
#include "filters/filters.def"
}  // namespace cpu

const BackendTable* cpu_backend() {
  static const BackendTable table = {
      cpu::make_queue,
#define VF_FILTER(stem, task, plan) cpu::make_##stem,
#include "filters/filters.def"
  };
  return &table;
}

}  // namespace vf
