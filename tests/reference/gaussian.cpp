#include "filters/gaussian_task.h"
#include "tests/reference/reference.h"

namespace vf::test {
namespace {

class ReferenceGaussian final : public Plan {
 public:
  ReferenceGaussian(Queue& queue, const GaussianTask& task)
      : Plan(queue, task.layout, task.layout, Placement::separate), task_(task) {}

 private:
  Status enqueue(const Image& src, const Image& dst) override {
    for (int p = 0; p < src.layout.planes; p++) {
      const PlaneLayout& l = src.layout.plane[p];
      const GaussianPlane& g = task_.plane[p];
      const int rx = int(g.weights_x.size()) / 2, ry = int(g.weights_y.size()) / 2;
      const double unit = 1 << src.layout.shift;
      for (int c = 0; c < l.channels; c++) {
        const double outside = g.border_value[c] * unit;
        const bool filtered = g.channels >> c & 1;
        // Blurs rows first. Rows outside the frame consist of `outside`, and blurring does not
        // change them.
        std::vector<double> rows(size_t(l.width) * l.height);
        for (int y = 0; y < l.height; y++)
          for (int x = 0; x < l.width; x++) {
            double sum = 0;
            for (int i = -rx; i <= rx; i++) {
              const int at = reference_border_index(x + i, l.width, task_.border);
              sum += g.weights_x[i + rx] * (at < 0 ? outside : read(src, p, at, y, c));
            }
            rows[size_t(y) * l.width + x] = sum;
          }
        for (int y = 0; y < l.height; y++)
          for (int x = 0; x < l.width; x++) {
            double sum = 0;
            for (int j = -ry; j <= ry; j++) {
              const int at = reference_border_index(y + j, l.height, task_.border);
              sum += g.weights_y[j + ry] * (at < 0 ? outside : rows[size_t(at) * l.width + x]);
            }
            write(dst, p, x, y, c, filtered ? sum : read(src, p, x, y, c));
          }
      }
    }
    return {};
  }

  GaussianTask task_;
};

}  // namespace

Status reference_gaussian(Queue& queue, const GaussianTask& task, std::unique_ptr<Plan>* out) {
  *out = std::make_unique<ReferenceGaussian>(queue, task);
  return {};
}

}  // namespace vf::test
