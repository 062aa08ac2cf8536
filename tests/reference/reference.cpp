// The reference backend computes every filter in double precision. Its only aim is to be obviously
// right, and it shares no arithmetic with the backends that it judges.
#include "tests/reference/reference.h"

#include <cstdlib>

#include "filters/backend.h"
#include "filters/regions_task.h"

namespace vf::test {

#define VF_FILTER(stem, task, plan) \
  Status reference_##stem(Queue& queue, const task&, std::unique_ptr<plan>* out);
#include "filters/filters.def"
Status reference_regions(Queue& queue, const RegionsTask&, std::unique_ptr<RegionsPlan>* out);
namespace {

class ReferenceQueue final : public Queue {
 public:
  ReferenceQueue() : Queue(Backend::reference) {}
  Status sync() override { return {}; }
  Status allocate(Memory, size_t, Allocation*) override {
    return Status::error(Code::unsupported, "the reference allocates nothing");
  }
  Status copy(void*, const void*, size_t) override {
    return Status::error(Code::unsupported, "the reference copies nothing");
  }
  Status copy(const Image&, const Image&) override {
    return Status::error(Code::unsupported, "the reference copies nothing");
  }
  Status copy_rows(void*, ptrdiff_t, const void*, ptrdiff_t, size_t, int) override {
    return Status::error(Code::unsupported, "the reference copies nothing");
  }

 private:
  void release(Memory, void*, size_t) override {}
};

}  // namespace

int reference_border_index(int i, int n, Border border) {
  if (i >= 0 && i < n) return i;
  const auto wrap = [](int v, int period) { return ((v % period) + period) % period; };
  switch (border) {
    case Border::replicate:
      return i < 0 ? 0 : n - 1;
    case Border::reflect: {
      const int j = wrap(i, 2 * n);
      return j < n ? j : 2 * n - 1 - j;
    }
    case Border::reflect_101: {
      if (n == 1) return 0;
      const int j = wrap(i, 2 * n - 2);
      return j < n ? j : 2 * n - 2 - j;
    }
    case Border::wrap:
      return wrap(i, n);
    case Border::constant:
    case Border::shrink:
      return -1;
  }
  return -1;
}

void use_reference_backend() {
  static const BackendTable table = [] {
    BackendTable t;
    t.make_queue = [](const QueueOptions&, std::unique_ptr<Queue>* out) {
      *out = std::make_unique<ReferenceQueue>();
      return Status();
    };
#define VF_FILTER(stem, task, plan) t.stem = reference_##stem;
#include "filters/filters.def"
    return t;
  }();
  set_reference_backend(&table);
  set_reference_regions(reference_regions);
}

}  // namespace vf::test
