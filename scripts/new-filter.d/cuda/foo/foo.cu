// Sharpens any plane.
//
// Idea     A thread makes one sample and reads its neighbours from the caches.
// Traffic  The plane is read once from memory, nine times from L1, and written once.
// Tile     A block makes 256 samples of a row. Blocks of the last row of the grid go on below it.
#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/core/plane_plan.h"
#include "filters/border.h"
#include "filters/foo_task.h"

namespace vf::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxRows = 65535;  // CUDA's limit of a grid

struct Args {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height, step, channels;
  unsigned mask;  // has a bit for each channel that is filtered
  FooScale scale;
};

template <class T>
__global__ void __launch_bounds__(kThreads) foo(const __grid_constant__ Args a) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= a.width * a.channels) return;
  const int x = i / a.channels, c = i - x * a.channels;
  for (int y = blockIdx.y; y < a.height; y += gridDim.y) {
    float sample = 0, sum = 0;
    for (int j = -1; j <= 1; j++) {
      const T* row = reinterpret_cast<const T*>(
          a.src + border_index(y + j, a.height, Border::replicate) * a.src_stride);
      for (int k = -1; k <= 1; k++) {
        const int at = border_index(x + k, a.width, Border::replicate);
        const float v = float(row[ptrdiff_t(at) * a.step + c]);
        if (j == 0 && k == 0) sample = v;
        sum += v;
      }
    }
    T* to = reinterpret_cast<T*>(a.dst + y * a.dst_stride) + ptrdiff_t(x) * a.step + c;
    *to = a.mask >> c & 1 ? foo_sample<T>(a.scale, sample, sum) : T(sample);
  }
}

template <class T>
class FooPass final : public PlanePass {
 public:
  explicit FooPass(const Args& args) : args_(args) {}

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    const Args a = with_view(args_, view);
    const dim3 grid((unsigned(a.width) * a.channels + kThreads - 1) / kThreads,
                    std::min(a.height, kMaxRows));
    return launch("foo", foo<T>, {grid, kThreads}, queue.cuda_stream(), a);
  }

 private:
  const Args args_;
};

void choose(const FooTask& task, int plane, PlanePasses* out) {
  const PlaneLayout& l = task.layout.plane[plane];
  out->channels = task.channels[plane];
  if (!out->channels) return;
  Args a = {};
  a.width = l.width;
  a.height = l.height;
  a.step = l.pixel_step();
  a.channels = l.channels;
  a.mask = out->channels;
  a.scale = task.scale;
  if (task.layout.type == Type::u8)
    out->passes.push_back(std::make_unique<FooPass<uint8_t>>(a));
  else if (task.layout.type == Type::u16)
    out->passes.push_back(std::make_unique<FooPass<uint16_t>>(a));
  else
    out->passes.push_back(std::make_unique<FooPass<float>>(a));
}

}  // namespace

Status make_foo(Queue& queue, const FooTask& task, std::unique_ptr<Plan>* out) {
  const auto choose_plane = [&](int plane, PlanePasses* passes) {
    choose(task, plane, passes);
    return Status();
  };
  return make_plane_plan(static_cast<CudaQueue&>(queue), task.layout, task.placement, choose_plane,
                         out);
}

}  // namespace vf::cuda
