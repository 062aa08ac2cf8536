// The Gaussian's plans: which kernel filters each plane, and frames filtered in place.
#include "cuda/gaussian.h"

#include <algorithm>
#include <vector>

#include "cuda/filters.h"
#include "cuda/launch.h"

namespace vf::cuda {

GaussianKernels gaussian_kernels_for_tests = GaussianKernels::all;

namespace {

// Copies `bytes` of each row, 16 at a time where `wide`.
template <bool wide>
__global__ void __launch_bounds__(256)
    copy_rows(uint8_t* dst, ptrdiff_t dst_stride, const uint8_t* src, ptrdiff_t src_stride,
              int bytes, int height) {
  constexpr int size = wide ? 16 : 1;
  const int at = (blockIdx.x * 256 + threadIdx.x) * size;
  if (at >= bytes) return;
  for (int y = blockIdx.y; y < height; y += gridDim.y) {
    uint8_t* to = dst + y * dst_stride + at;
    const uint8_t* from = src + y * src_stride + at;
    if (wide && at + size <= bytes)
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    else
      for (int i = 0; i < min(size, bytes - at); i++) to[i] = from[i];
  }
}

class GaussianPlan final : public Plan {
 public:
  GaussianPlan(CudaQueue& queue, const GaussianTask& task)
      : Plan(queue, task.layout, task.layout, task.placement), cuda_(queue) {}

  Status prepare(const GaussianTask& task) {
    for (int i = 0; i < task.layout.planes; i++) {
      Plane plane;
      const PlaneLayout& l = task.layout.plane[i];
      plane.copies = task.plane[i].copies();
      plane.row_bytes = row_bytes(task.layout, i);
      plane.height = l.height;
      plane.solid = l.pixel_step() == l.channels;
      if (!plane.copies) {
        VF_TRY(make_gaussian_tensor(cuda_, task, i, &plane.tensor));
        if (!plane.tensor) VF_TRY(make_gaussian_long(cuda_, task, i, &plane.tensor));
        VF_TRY(make_gaussian_march(cuda_, task, i, &plane.general));
      }
      if (!plane.general && !(plane.copies && plane.solid))
        VF_TRY(make_gaussian_plain(cuda_, task, i, &plane.general));
      // Blocks read what their neighbours overwrite. A plane filtered in place is copied first,
      // which costs about as much as a copy of the frame; the copy is mostly read from L2.
      const auto needs = [](const auto& pass) { return pass && !pass->in_place(); };
      const bool needs_copy = needs(plane.tensor) || needs(plane.general);
      if (task.placement == Placement::in_place && !plane.copies && needs_copy) {
        plane.copy_stride = (plane.row_bytes + 255) / 256 * 256;
        const size_t bytes = plane.copy_stride * l.height;
        VF_TRY(cuda_.allocate(Memory::device, bytes, &plane.copy));
        // What lies between the rows is loaded with their last vectors, and then not used.
        VF_CUDA(cudaMemsetAsync(plane.copy.data(), 0, bytes, cuda_.cuda_stream()));
      }
      planes_.push_back(std::move(plane));
    }
    share_device(task);
    return {};
  }

 private:
  // Planes that can be filtered at the same time are. Where all kernels are of a kind, each has its
  // share of the blocks, and so longer walks than with all blocks, one plane after the other;
  // otherwise shares leave processors idle in the end, and a plane starts where the one before
  // leaves them.
  void share_device(const GaussianTask& task) {
    double bytes = 0;
    int kind = 0;
    bool alike = true;
    for (const Plane& p : planes_) {
      if (p.copies) continue;
      if (task.placement == Placement::in_place || !p.tensor || !p.tensor->kind()) return;
      alike &= !kind || kind == p.tensor->kind();
      kind = p.tensor->kind();
      bytes += double(p.row_bytes) * p.height;
    }
    for (Plane& p : planes_)
      if (!p.copies && alike) p.tensor->set_share(double(p.row_bytes) * p.height / bytes);
    together_ = true;
  }

  struct Plane {
    bool copies = false;
    bool solid = false;  // no components between its pixels that are not its own
    size_t row_bytes = 0;
    int height = 0;
    std::unique_ptr<GaussianPass> tensor;   // the fastest, where it applies
    std::unique_ptr<GaussianPass> general;  // for everything else
    Allocation copy;                        // of the source, to filter in place
    size_t copy_stride = 0;
  };

  Status enqueue(const Image& src, const Image& dst) override {
    bool beside = false;
    for (int i = 0; i < int(planes_.size()); i++) {
      Plane& plane = planes_[i];
      GaussianView view = {static_cast<const uint8_t*>(src.data[i]),
                           static_cast<uint8_t*>(dst.data[i]), src.stride[i], dst.stride[i]};
      const bool same = view.src == view.dst;
      if (plane.copies && same) continue;
      if (plane.copies && plane.solid) {
        VF_TRY(copy(plane, view.dst, view.dst_stride, view.src, view.src_stride));
        beside = false;
        continue;
      }
      const bool direct = plane.tensor && plane.tensor->in_place() && plane.tensor->takes(view);
      if (same && plane.copy.data() && !direct) {
        VF_TRY(copy(plane, plane.copy.as<uint8_t>(), plane.copy_stride, view.src, view.src_stride));
        view.src = plane.copy.as<uint8_t>();
        view.src_stride = ptrdiff_t(plane.copy_stride);
      }
      const bool tensor = plane.tensor && plane.tensor->takes(view);
      VF_TRY((tensor ? plane.tensor : plane.general)->enqueue(cuda_, view, beside));
      beside = together_ && tensor;
    }
    return {};
  }

  Status copy(const Plane& plane, uint8_t* dst, ptrdiff_t dst_stride, const uint8_t* src,
              ptrdiff_t src_stride) {
    // Faster than cudaMemcpy2DAsync, which took twice the time for a frame on an H200.
    const bool wide = ((reinterpret_cast<uintptr_t>(dst) | reinterpret_cast<uintptr_t>(src) |
                        uintptr_t(dst_stride) | uintptr_t(src_stride)) &
                       15) == 0;
    const unsigned threads = unsigned((plane.row_bytes + (wide ? 15 : 0)) / (wide ? 16 : 1));
    const dim3 grid((threads + 255) / 256, unsigned(std::min(plane.height, 32768)));
    const auto kernel = wide ? &copy_rows<true> : &copy_rows<false>;
    return launch("gaussian copy", kernel, {grid, 256}, cuda_.cuda_stream(), dst, dst_stride, src,
                  src_stride, int(plane.row_bytes), plane.height);
  }

  CudaQueue& cuda_;
  std::vector<Plane> planes_;
  bool together_ = false;
};

}  // namespace

Status make_gaussian(Queue& queue, const GaussianTask& task, std::unique_ptr<Plan>* out) {
  auto plan = std::make_unique<GaussianPlan>(static_cast<CudaQueue&>(queue), task);
  VF_TRY(plan->prepare(task));
  *out = std::move(plan);
  return {};
}

}  // namespace vf::cuda
