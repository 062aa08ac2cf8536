#include "filters/backend.h"

#include "cpu/filters.h"
#include "cpu/queue.h"

namespace vf {

const BackendTable* cpu_backend() {
  static const BackendTable table = {
      cpu::make_queue,
#define VF_FILTER(stem, task, plan) cpu::make_##stem,
#include "filters/filters.def"
  };
  return &table;
}

}  // namespace vf
