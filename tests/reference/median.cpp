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

// Counts the values of a window by their ranks, in a Fenwick tree. A window that moves by a pixel loses a
// column and gains one, which is much faster than to sort each window.
class Window {
 public:
  explicit Window(size_t ranks) {
    while (ranks > half_) half_ *= 2;
    sums_.resize(2 * half_);
  }
  int count() const { return count_; }
  void add(size_t rank, int n) {
    count_ += n;
    for (size_t i = rank + 1; i < sums_.size(); i += i & -i) sums_[i] += n;
  }
  // Returns the rank of the n-th smallest value, counted from 0.
  size_t rank(int n) const {
    size_t at = 0;
    for (size_t step = half_; step; step /= 2)
      if (sums_[at + step] <= n) n -= sums_[at += step];
    return at;
  }

 private:
  size_t half_ = 1;
  std::vector<int> sums_;
  int count_ = 0;
};

template <class T>
void channel_median(const Image& src, const Image& dst, int p, int c, const MedianTask& task) {
  const MedianPlane& m = task.plane[p];
  const PlaneLayout& l = src.layout.plane[p];
  const int w = l.width, h = l.height, rx = m.size_x / 2, ry = m.size_y / 2;
  // The value outside of the frame is at the end.
  std::vector<T> values(size_t(w) * h + 1);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++)
      values[size_t(y) * w + x] = *static_cast<const T*>(component(src, p, x, y, c));
  std::memcpy(&values.back(), &m.border_value[c], sizeof(T));
  std::vector<T> sorted = values;
  std::sort(sorted.begin(), sorted.end(), before<T>);
  const auto same = [](T a, T b) { return !before(a, b); };
  sorted.erase(std::unique(sorted.begin(), sorted.end(), same), sorted.end());
  std::vector<size_t> ranks;
  for (const T v : values)
    ranks.push_back(std::lower_bound(sorted.begin(), sorted.end(), v, before<T>) - sorted.begin());

  Window window(sorted.size());
  std::vector<int> rows(size_t(m.size_y));
  for (int y = 0; y < h; y++) {
    for (int j = -ry; j <= ry; j++)
      rows[size_t(j + ry)] = reference_border_index(y + j, h, task.border);
    const auto add_column = [&](int x, int n) {
      const int at_x = reference_border_index(x, w, task.border);
      for (const int at_y : rows)
        if (at_x >= 0 && at_y >= 0)
          window.add(ranks[size_t(at_y) * w + at_x], n);
        else if (task.border == Border::constant)
          window.add(ranks.back(), n);
    };
    for (int x = -rx; x < rx; x++) add_column(x, 1);
    for (int x = 0; x < w; x++) {
      add_column(x + rx, 1);
      const T value = values[size_t(y) * w + x], median = sorted[window.rank(window.count() / 2)];
      const auto is_extreme = [&] {
        return !before(sorted[window.rank(0)], value) ||
               !before(value, sorted[window.rank(window.count() - 1)]);
      };
      *static_cast<T*>(component(dst, p, x, y, c)) =
          !task.outliers_only || (is_far(value, median, task.threshold) && is_extreme()) ? median
                                                                                         : value;
      add_column(x - rx, -1);
    }
    for (int x = w - rx; x < w + rx; x++) add_column(x, -1);
  }
}

template <class T>
void plane_median(const Image& src, const Image& dst, int p, const MedianTask& task) {
  const PlaneLayout& l = src.layout.plane[p];
  for (int c = 0; c < l.channels; c++) {
    if (task.plane[p].channels >> c & 1) {
      channel_median<T>(src, dst, p, c, task);
      continue;
    }
    for (int y = 0; y < l.height; y++)
      for (int x = 0; x < l.width; x++)
        std::memcpy(component(dst, p, x, y, c), component(src, p, x, y, c), sizeof(T));
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
