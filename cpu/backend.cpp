#include "filters/backend.h"

#include "cpu/filters.h"
#include "cpu/queue.h"

namespace vf {

const BackendTable* cpu_backend() {
  static const BackendTable table = [] {
    BackendTable t;
    t.make_queue = cpu::make_queue;
    t.gaussian = cpu::make_gaussian;
    t.guided = cpu::make_guided;
    t.letterbox = cpu::make_letterbox;
    t.median = cpu::make_median;
    return t;
  }();
  return &table;
}

}  // namespace vf
