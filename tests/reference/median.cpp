#include <algorithm>

#include "filters/median_task.h"
#include "tests/reference/reference.h"

namespace vf::test {
namespace {

// Returns whether a is before b in the order of components: NaN is last, and -0 is before +0.
template <class T>
bool before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    if (a == 0 && b == 0) return std::signbit(a) && !std::signbit(b);
  }
  return a < b;
}

// Returns whether a pixel differs from its window's median by more than the task's threshold.
template <class T>
bool is_far(T value, T median, uint32_t threshold) {
  if constexpr (std::is_floating_point_v<T>) {
    float limit;
    std::memcpy(&limit, &threshold, sizeof limit);
    return !(std::abs(value - median) <= limit);
  } else {
    return std::abs(int64_t(value) - int64_t(median)) > int64_t(threshold);
  }
}

template <class T>
void plane_median(const Image& src, const Image& dst, int p, const MedianTask& task) {
  const MedianPlane& m = task.plane[p];
  const Border border = task.border;
  const PlaneLayout& l = src.layout.plane[p];
  const int rx = m.size_x / 2, ry = m.size_y / 2;
  std::vector<T> window;
  for (int c = 0; c < l.channels; c++) {
    T outside;
    std::memcpy(&outside, &m.border_value[c], sizeof(T));
    for (int y = 0; y < l.height; y++)
      for (int x = 0; x < l.width; x++) {
        T* out = static_cast<T*>(component(dst, p, x, y, c));
        const T value = *static_cast<const T*>(component(src, p, x, y, c));
        if (!(m.channels >> c & 1)) {
          *out = value;
          continue;
        }
        window.clear();
        for (int j = -ry; j <= ry; j++)
          for (int i = -rx; i <= rx; i++) {
            const int at_x = reference_border_index(x + i, l.width, border);
            const int at_y = reference_border_index(y + j, l.height, border);
            if (at_x >= 0 && at_y >= 0)
              window.push_back(*static_cast<const T*>(component(src, p, at_x, at_y, c)));
            else if (border == Border::constant)
              window.push_back(outside);
          }
        std::nth_element(window.begin(), window.begin() + window.size() / 2, window.end(),
                         before<T>);
        const T median = window[window.size() / 2];
        const auto [low, high] = std::minmax_element(window.begin(), window.end(), before<T>);
        const bool extreme = !before(*low, value) || !before(value, *high);
        *out = !task.outliers_only || (extreme && is_far(value, median, task.threshold)) ? median
                                                                                         : value;
      }
  }
}

class ReferenceMedian final : public Plan {
 public:
  ReferenceMedian(Queue& queue, const MedianTask& task)
      : Plan(queue, task.layout, task.layout, Placement::separate), task_(task) {}

 private:
  Status enqueue(const Image& src, const Image& dst) override {
    for (int p = 0; p < src.layout.planes; p++) {
      switch (src.layout.type) {
        case Type::u8:
          plane_median<uint8_t>(src, dst, p, task_);
          break;
        case Type::u16:
          plane_median<uint16_t>(src, dst, p, task_);
          break;
        default:
          plane_median<float>(src, dst, p, task_);
          break;
      }
    }
    return {};
  }

  MedianTask task_;
};

}  // namespace

Status reference_median(Queue& queue, const MedianTask& task, std::unique_ptr<Plan>* out) {
  *out = std::make_unique<ReferenceMedian>(queue, task);
  return {};
}

}  // namespace vf::test
