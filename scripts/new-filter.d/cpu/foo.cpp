// Sharpens on the CPU. Threads share the rows of a plane.
#include <algorithm>

#include "cpu/queue.h"
#include "filters/border.h"
#include "filters/foo_task.h"

namespace vf::cpu {
namespace {

template <class T>
class CpuFoo final : public Plan {
 public:
  CpuFoo(CpuQueue& queue, const FooTask& task)
      : Plan(queue, task.layout, task.layout, task.placement), pool_(queue), task_(task) {}

  Status prepare() {
    if (task_.placement == Placement::separate) return {};
    size_t bytes = 0;
    for (int p = 0; p < task_.layout.planes; p++)
      bytes = std::max(bytes, row_bytes(task_.layout, p) * task_.layout.plane[p].height);
    return pool_.allocate(Memory::host, bytes, &copy_);
  }

 private:
  Status enqueue(const Image& src, const Image& dst) override {
    for (int p = 0; p < src.layout.planes; p++) {
      const auto* from = static_cast<const uint8_t*>(src.data[p]);
      ptrdiff_t stride = src.stride[p];
      if (from == dst.data[p]) {
        // Rows read what others overwrite.
        const size_t bytes = row_bytes(src.layout, p);
        copy_rows(copy_.data(), ptrdiff_t(bytes), from, stride, bytes, src.layout.plane[p].height);
        from = copy_.as<uint8_t>();
        stride = ptrdiff_t(bytes);
      }
      pool_.parallel(src.layout.plane[p].height,
                     [&](int y, int) { filter_row(from, stride, dst, p, y); });
    }
    return {};
  }

  void filter_row(const uint8_t* src, ptrdiff_t stride, const Image& dst, int p, int y) const {
    const PlaneLayout& l = task_.layout.plane[p];
    const int step = l.pixel_step();
    const T* row[3];
    for (int j = 0; j < 3; j++)
      row[j] = reinterpret_cast<const T*>(
          src + border_index(y + j - 1, l.height, Border::replicate) * stride);
    T* to = reinterpret_cast<T*>(static_cast<uint8_t*>(dst.data[p]) + y * dst.stride[p]);
    for (int x = 0; x < l.width; x++)
      for (int c = 0; c < l.channels; c++) {
        const ptrdiff_t at = ptrdiff_t(x) * step + c;
        if (!(task_.channels[p] >> c & 1)) {
          to[at] = row[1][at];
          continue;
        }
        float sum = 0;
        for (int j = 0; j < 3; j++)
          for (int i = -1; i <= 1; i++)
            sum += float(
                row[j][ptrdiff_t(border_index(x + i, l.width, Border::replicate)) * step + c]);
        to[at] = foo_sample<T>(task_.scale, float(row[1][at]), sum);
      }
  }

  CpuQueue& pool_;
  const FooTask task_;
  Allocation copy_;  // a plane that is filtered in place
};

template <class T>
Status make(CpuQueue& queue, const FooTask& task, std::unique_ptr<Plan>* out) {
  auto plan = std::make_unique<CpuFoo<T>>(queue, task);
  VF_TRY(plan->prepare());
  *out = std::move(plan);
  return {};
}

}  // namespace

Status make_foo(Queue& queue, const FooTask& task, std::unique_ptr<Plan>* out) {
  auto& pool = static_cast<CpuQueue&>(queue);
  switch (task.layout.type) {
    case Type::u8:
      return make<uint8_t>(pool, task, out);
    case Type::u16:
      return make<uint16_t>(pool, task, out);
    default:
      return make<float>(pool, task, out);
  }
}

}  // namespace vf::cpu
