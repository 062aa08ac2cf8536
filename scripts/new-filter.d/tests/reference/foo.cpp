#include <algorithm>

#include "filters/color.h"
#include "filters/foo_task.h"
#include "tests/reference/reference.h"

namespace vf::test {
namespace {

class ReferenceFoo final : public Plan {
 public:
  ReferenceFoo(Queue& queue, const FooTask& task)
      : Plan(queue, task.layout, task.layout, Placement::separate), task_(task) {}

 private:
  Status enqueue(const Image& src, const Image& dst) override {
    for (int p = 0; p < src.layout.planes; p++)
      for (int y = 0; y < src.layout.plane[p].height; y++)
        for (int x = 0; x < src.layout.plane[p].width; x++)
          for (int c = 0; c < src.layout.plane[p].channels; c++)
            write(dst, p, x, y, c, result(src, p, x, y, c));
    return {};
  }

  double result(const Image& src, int p, int x, int y, int c) const {
    const PlaneLayout& l = src.layout.plane[p];
    const double sample = read(src, p, x, y, c);
    if (!(task_.channels[p] >> c & 1)) return sample;
    double sum = 0;
    for (int j = -1; j <= 1; j++)
      for (int i = -1; i <= 1; i++)
        sum += read(src, p, reference_border_index(x + i, l.width, Border::replicate),
                    reference_border_index(y + j, l.height, Border::replicate), c);
    const double value = sample + task_.strength * (sample - sum / 9);
    if (src.layout.type == Type::f32) return value;
    return std::min(value, double(max_code(src.layout)) * (1 << src.layout.shift));
  }

  FooTask task_;
};

}  // namespace

Status reference_foo(Queue& queue, const FooTask& task, std::unique_ptr<Plan>* out) {
  *out = std::make_unique<ReferenceFoo>(queue, task);
  return {};
}

}  // namespace vf::test
