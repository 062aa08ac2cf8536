// Implements the pixelation on the CPU.
//
// Rows are read once, in strips as high as a cell. The rows of a strip are added up as whole
// vectors, for any size of the blocks, and then the columns of each block are added up. A row of
// means is made once and copied to all rows of a block.
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/pixelate.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu/queue.h"
#include "filters/make.h"
#include "filters/pixelate_task.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sums[i] = the sum of component i of `rows` rows, from the first to the last; `stride` in bytes.
template <class T, class Sum>
void SumRows(const void* first, ptrdiff_t stride, int rows, size_t count, void* to) {
  const hn::ScalableTag<Sum> all;
  const size_t n = hn::Lanes(all);
  const auto* top = static_cast<const uint8_t*>(first);
  Sum* sums = static_cast<Sum*>(to);
  const auto add = [&](auto d, size_t i) HWY_ATTR {
    const hn::Rebind<T, decltype(d)> dt;
    const uint8_t* at = top + i * sizeof(T);
    auto sum = hn::Zero(d);
    for (int y = 0; y < rows; y++, at += stride)
      sum = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(dt, reinterpret_cast<const T*>(at))));
    hn::StoreU(sum, d, sums + i);
  };
  size_t i = 0;
  for (; i + n <= count; i += n) add(all, i);
  for (; i < count; i++) add(hn::CappedTag<Sum, 1>(), i);
}

using SumRow = void (*)(const void* first, ptrdiff_t stride, int rows, size_t count, void* to);

// Returns the functions for u8, u16 and f32.
const SumRow* SumRowsByType() {
  static constexpr SumRow rows[] = {SumRows<uint8_t, uint16_t>, SumRows<uint16_t, uint32_t>,
                                    SumRows<float, double>};
  return rows;
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace vf::cpu {
namespace {

HWY_EXPORT(SumRowsByType);

using Params = PixelateParams;

constexpr int kTasksPerThread = 4;

template <class T>
class CpuPixelate final : public Plan {
  static constexpr bool kIsFloat = std::is_same_v<T, float>;
  // These hold the sum of the rows of a strip, which is not larger, and that of a block.
  using Column =
      std::conditional_t<kIsFloat, double, std::conditional_t<sizeof(T) == 1, uint16_t, uint32_t>>;
  using Block = std::conditional_t<kIsFloat, double, uint64_t>;

 public:
  CpuPixelate(CpuQueue& queue, const PixelateTask& task)
      : Plan(queue, task.layout, task.layout, task.placement), pool_(queue), task_(task) {}

  Status prepare() {
    size_t columns = 0, blocks = 0;
    const int wanted = kTasksPerThread * pool_.threads();
    for (int i = 0; i < task_.layout.planes; i++) {
      const PixelatePlane& p = task_.plane[i];
      const PlaneLayout& l = task_.layout.plane[i];
      // Bands of blocks; where there are few, as many pieces of each as it takes.
      const int bands = std::min(p.y.count, wanted);
      const int pieces = std::min(p.x.count, blocks_of(wanted, bands));
      for (int b = 0; b < bands; b++)
        for (int a = 0; a < pieces; a++)
          tasks_.push_back(
              {i, int(int64_t(p.x.count) * a / pieces), int(int64_t(p.x.count) * (a + 1) / pieces),
               int(int64_t(p.y.count) * b / bands), int(int64_t(p.y.count) * (b + 1) / bands)});
      columns = std::max(columns, size_t(l.width) * l.channels);
      blocks = std::max(blocks, size_t(p.x.count) * l.channels);
    }
    scratch_.resize(pool_.threads());
    for (Scratch& s : scratch_) {
      VF_TRY(pool_.allocate(Memory::host, columns * sizeof(Column), &s.columns));
      VF_TRY(pool_.allocate(Memory::host, blocks * sizeof(Block), &s.blocks));
      VF_TRY(pool_.allocate(Memory::host, columns * sizeof(T), &s.means));
    }
    return {};
  }

 private:
  // Covers blocks x0 to x1 and y0 to y1 of a plane.
  struct Task {
    int plane, x0, x1, y0, y1;
  };
  // Holds the memory of a thread. Each array has room for a row of the widest plane.
  struct Scratch {
    Allocation columns, blocks, means;
  };

  Status enqueue(const Image& src, const Image& dst) override {
    pool_.parallel(int(tasks_.size()), [&](int i, int thread) {
      const Task& t = tasks_[i];
      const PixelatePlane& p = task_.plane[t.plane];
      for (int by = t.y0; by < t.y1; by++) {
        const int top = p.y.edge(by), bottom = p.y.edge(by + 1);
        if (p.copies()) {
          if (src.data[t.plane] != dst.data[t.plane]) store(src, dst, t, top, bottom, nullptr, 0);
          continue;
        }
        filter(src, dst, t, top, bottom, scratch_[thread]);
      }
    });
    return {};
  }

  void filter(const Image& src, const Image& dst, const Task& t, int top, int bottom, Scratch& s) {
    const PixelatePlane& p = task_.plane[t.plane];
    const PlaneLayout& l = task_.layout.plane[t.plane];
    const int channels = l.channels, left = p.x.edge(t.x0), right = p.x.edge(t.x1);
    auto* const columns = s.columns.template as<Column>();
    auto* const blocks = s.blocks.template as<Block>();
    std::fill_n(blocks, size_t(t.x1 - t.x0) * channels, Block(0));
    for (int y = top; y < bottom; y += Params::kCellHeight) {
      const int rows = std::min(bottom - y, int(Params::kCellHeight));
      sum_rows(row_of<T>(src, t.plane, y) + ptrdiff_t(left) * l.pixel_step(), src.stride[t.plane],
               rows, right - left, l, columns);
      for (int b = t.x0; b < t.x1; b++) {
        const int end = p.x.edge(b + 1);
        for (int x0 = p.x.edge(b); x0 < end; x0 += Params::kCellWidth) {
          const int x1 = std::min(x0 + int(Params::kCellWidth), end);
          for (int c = 0; c < channels; c++) {
            std::conditional_t<kIsFloat, double, uint32_t> cell = 0;
            for (int x = x0; x < x1; x++) cell += columns[ptrdiff_t(x - left) * channels + c];
            blocks[ptrdiff_t(b - t.x0) * channels + c] += cell;
          }
        }
      }
    }
    T* mean = s.means.template as<T>();
    for (int b = t.x0; b < t.x1; b++) {
      const int wide = p.x.edge(b + 1) - p.x.edge(b);
      T pixel[kMaxChannels];
      for (int c = 0; c < channels; c++)
        pixel[c] = mean_of(blocks[ptrdiff_t(b - t.x0) * channels + c],
                           uint64_t(wide) * uint64_t(bottom - top));
      for (int x = 0; x < wide; x++)
        for (int c = 0; c < channels; c++) *mean++ = pixel[c];
    }
    store(src, dst, t, top, bottom, s.means.template as<T>(), p.channels);
  }

  T mean_of(Block sum, uint64_t count) const {
    if constexpr (kIsFloat)
      return float(sum / double(count));
    else
      return block_mean<T>(sum, count, task_.layout.shift);
  }

  // The sums of `count` pixels over `rows` rows.
  static void sum_rows(const T* from, ptrdiff_t stride, int rows, int count, const PlaneLayout& l,
                       Column* columns) {
    if (l.pixel_step() == l.channels) {
      const auto sum = HWY_DYNAMIC_DISPATCH(SumRowsByType)()[sizeof(T) / 2];
      sum(from, stride, rows, size_t(count) * l.channels, columns);
      return;
    }
    for (int x = 0; x < count; x++)
      for (int c = 0; c < l.channels; c++) {
        const auto* at = reinterpret_cast<const uint8_t*>(from + ptrdiff_t(x) * l.pixel_step() + c);
        Column sum = 0;
        for (int y = 0; y < rows; y++, at += stride) sum += *reinterpret_cast<const T*>(at);
        *columns++ = sum;
      }
  }

  // Writes rows `top` to `bottom` of the task's blocks: `means` of the channels of `mask`, and the
  // source's components of the others.
  void store(const Image& src, const Image& dst, const Task& t, int top, int bottom, const T* means,
             uint8_t mask) {
    const PixelatePlane& p = task_.plane[t.plane];
    const PlaneLayout& l = task_.layout.plane[t.plane];
    const int channels = l.channels, step = l.pixel_step();
    const int left = p.x.edge(t.x0), count = p.x.edge(t.x1) - left;
    for (int y = top; y < bottom; y++) {
      const T* from = row_of<T>(src, t.plane, y) + ptrdiff_t(left) * step;
      T* to = row_of<T>(dst, t.plane, y) + ptrdiff_t(left) * step;
      if (mask) copy_channels(means, channels, to, step, channels, mask, count);
      if (from != to) copy_channels(from, step, to, step, channels, ~mask, count);
    }
  }

  CpuQueue& pool_;
  const PixelateTask task_;
  std::vector<Task> tasks_;
  std::vector<Scratch> scratch_;
};

}  // namespace

Status make_pixelate(Queue& queue, const PixelateTask& task, std::unique_ptr<Plan>* out) {
  return with_component(task.layout.type, [&](auto component) {
    return make_prepared<CpuPixelate<decltype(component)>, CpuQueue>(queue, task, out);
  });
}

}  // namespace vf::cpu

#endif  // HWY_ONCE
