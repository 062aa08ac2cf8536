// Blurs any plane in two passes, where the window does not fit into other kernels' shared memory.
//
// Idea: a thread computes one value and reads its taps from the caches. Traffic: the horizontal
// pass writes float (double for s32) to scratch memory, and the vertical pass reads it. This is 5
// to 17 times the traffic of one read and one write. Source and destination may be the same.
#include "cuda/core/component.cuh"
#include "cuda/core/launch.h"
#include "cuda/gaussian/gaussian.h"
#include "filters/border.h"

namespace vf::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxRows = 16384;  // the grid's; blocks stride over further rows

template <class T>
struct Params {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height, step, channels;
  int radius_x, radius_y;
  unsigned mask;
  int shift;
  Border border;
  T outside[kMaxChannels];
  const Accumulator<T>*weights_x, *weights_y;
  Accumulator<T>* rows;  // width * channels values in a row
};

template <class T>
__device__ const T* row_of(const Params<T>& p, int y) {
  return reinterpret_cast<const T*>(p.src + y * p.src_stride);
}

template <class T>
__global__ void __launch_bounds__(kThreads) blur_rows(const __grid_constant__ Params<T> p) {
  const int at = blockIdx.x * kThreads + threadIdx.x;
  if (at >= p.width * p.channels) return;
  const int x = at / p.channels, c = at - x * p.channels;
  for (int y = blockIdx.y; y < p.height; y += gridDim.y) {
    const T* row = row_of(p, y) + c;
    Accumulator<T> sum = 0;
    if (x >= p.radius_x && x + p.radius_x < p.width) {
      const T* from = row + ptrdiff_t(x - p.radius_x) * p.step;
      for (int i = 0; i <= 2 * p.radius_x; i++)
        sum += p.weights_x[i] * Accumulator<T>(from[ptrdiff_t(i) * p.step]);
    } else {
      for (int i = 0; i <= 2 * p.radius_x; i++) {
        const int from = border_index(x + i - p.radius_x, p.width, p.border);
        const T v = from < 0 ? p.outside[c] : row[ptrdiff_t(from) * p.step];
        sum += p.weights_x[i] * Accumulator<T>(v);
      }
    }
    p.rows[size_t(y) * p.width * p.channels + at] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) blur_columns(const __grid_constant__ Params<T> p) {
  const int at = blockIdx.x * kThreads + threadIdx.x, pitch = p.width * p.channels;
  if (at >= pitch) return;
  const int x = at / p.channels, c = at - x * p.channels;
  const ptrdiff_t offset = ptrdiff_t(x) * p.step + c;
  for (int y = blockIdx.y; y < p.height; y += gridDim.y) {
    T* dst = reinterpret_cast<T*>(p.dst + y * p.dst_stride) + offset;
    if (!(p.mask >> c & 1)) {
      *dst = row_of(p, y)[offset];
      continue;
    }
    Accumulator<T> sum = 0;
    for (int i = 0; i <= 2 * p.radius_y; i++) {
      const int from = border_index(y + i - p.radius_y, p.height, p.border);
      sum += p.weights_y[i] *
             (from < 0 ? Accumulator<T>(p.outside[c]) : p.rows[size_t(from) * pitch + at]);
    }
    *dst = to_component<T>(sum, p.shift, 1.f / (1 << p.shift));
  }
}

template <class T>
class FallbackPass final : public PlanePass {
 public:
  Status prepare(CudaQueue& queue, const GaussianTask& task, int plane) {
    using Acc = Accumulator<T>;
    const PlaneLayout& l = task.layout.plane[plane];
    const GaussianPlane& g = task.plane[plane];
    p_.width = l.width;
    p_.height = l.height;
    p_.step = l.pixel_step();
    p_.channels = l.channels;
    p_.radius_x = int(g.weights_x.size()) / 2;
    p_.radius_y = int(g.weights_y.size()) / 2;
    p_.mask = g.channels;
    p_.shift = task.layout.shift;
    p_.border = task.border;
    for (int c = 0; c < kMaxChannels; c++)
      p_.outside[c] = component_of<T>(g.border_value[c], p_.shift);
    std::vector<Acc> weights(g.weights_x.begin(), g.weights_x.end());
    weights.insert(weights.end(), g.weights_y.begin(), g.weights_y.end());
    VF_TRY(queue.allocate(Memory::device, weights.size() * sizeof(Acc), &weights_));
    VF_TRY(queue.copy(weights_.data(), weights.data(), weights.size() * sizeof(Acc)));
    p_.weights_x = weights_.as<Acc>();
    p_.weights_y = p_.weights_x + g.weights_x.size();
    return {};
  }

  bool fits() const { return true; }
  bool in_place() const override { return true; }
  size_t scratch_bytes() const override {
    return sizeof(Accumulator<T>) * p_.width * p_.channels * p_.height;
  }
  void set_scratch(void* scratch) override { p_.rows = static_cast<Accumulator<T>*>(scratch); }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    const Params<T> p = with_view(p_, view);
    const dim3 grid(blocks_of(unsigned(p.width) * p.channels, kThreads),
                    std::min(p.height, kMaxRows));
    VF_TRY(launch("gaussian fallback rows", blur_rows<T>, {grid, kThreads}, queue, p));
    return launch("gaussian fallback columns", blur_columns<T>, {grid, kThreads}, queue, p);
  }

 private:
  Params<T> p_ = {};
  Allocation weights_;
};

}  // namespace

Status make_gaussian_fallback(CudaQueue& queue, const GaussianTask& task, int plane,
                              std::unique_ptr<PlanePass>* out) {
  return make_gaussian_pass_of_type<FallbackPass>(queue, task, plane, out);
}

}  // namespace vf::cuda
