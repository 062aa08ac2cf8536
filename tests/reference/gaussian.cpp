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
        const size_t w = size_t(l.width), h = size_t(l.height);
        // Blurs rows first. Rows outside the frame consist of `outside`, and blurring does not
        // change them. The loops over x are innermost, because the compiler makes vectors of these.
        std::vector<double> rows(w * h), line(w + g.weights_x.size() - 1);
        for (size_t y = 0; y < h; y++) {
          for (size_t i = 0; i < line.size(); i++) {
            const int at = reference_border_index(int(i) - rx, l.width, task_.border);
            line[i] = at < 0 ? outside : read(src, p, at, int(y), c);
          }
          for (size_t i = 0; i < g.weights_x.size(); i++)
            for (size_t x = 0; x < w; x++) rows[y * w + x] += g.weights_x[i] * line[x + i];
        }
        const std::vector<double> beyond(w, outside);
        for (size_t y = 0; y < h; y++) {
          std::vector<double> sum(w);
          for (size_t j = 0; j < g.weights_y.size(); j++) {
            const int at = reference_border_index(int(y + j) - ry, l.height, task_.border);
            const double* const row = at < 0 ? beyond.data() : &rows[size_t(at) * w];
            for (size_t x = 0; x < w; x++) sum[x] += g.weights_y[j] * row[x];
          }
          for (int x = 0; x < l.width; x++)
            write(dst, p, x, int(y), c, filtered ? sum[size_t(x)] : read(src, p, x, int(y), c));
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
