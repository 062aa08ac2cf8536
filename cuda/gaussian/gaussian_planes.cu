// Blurs a plane of one channel and a plane of two on tensor cores (gaussian_tensor.cuh) in one
// launch. Blocks of both find their work and load weights before the previous launch is done.
#include <algorithm>
#include <cmath>

#include "cuda/gaussian/gaussian_tensor.cuh"

namespace vf::cuda {
namespace {

using namespace tensor;

constexpr int kPlanes = 2;

struct PlanesParams {
  Params plane[kPlanes];
  int first;  // blocks of the first plane
};

template <Depth kDepth, int kFirst, int kSecond, int kBlocks, bool kSquare>
__global__ void __launch_bounds__(kBlockWarps * 32, kBlocks)
    blur_planes(const __grid_constant__ PlanesParams p) {
  if (int(blockIdx.x) < p.first)
    blur_plane<kDepth, 1, kFirst, kSquare>(p.plane[0], int(blockIdx.x));
  else
    blur_plane<kDepth, 2, kSecond, false>(p.plane[1], int(blockIdx.x) - p.first);
}

struct PlanesKernel {
  void (*function)(PlanesParams);
  Depth depth;
  int chunks[kPlanes], width[kPlanes];
  bool square;  // the first plane's weights are the same for both axes
  int shared;
};

template <Depth kDepth, int kFirst, int kSecond, int kBlocks, bool kSquare>
PlanesKernel planes_kernel() {
  using First = Tile<kDepth, 1, kFirst>;
  using Second = Tile<kDepth, 2, kSecond>;
  return {blur_planes<kDepth, kFirst, kSecond, kBlocks, kSquare>,
          kDepth,
          {kFirst, kSecond},
          {First::kWidth, Second::kWidth},
          kSquare,
          std::max(First::kShared, Second::kShared)};
}

// Returns the chunks for taps of a radius. Four chunks are for the luma of P010 with a sigma of 5.
constexpr int chunks_of_plane(int radius) {
  return radius > 16 && radius <= 24 ? 4 : chunks_of(radius);
}

const PlanesKernel* find_kernel(Depth depth, const int (&chunks)[kPlanes], bool square) {
  constexpr Depth u8 = Depth::bits8, u10 = Depth::bits10;
  static const PlanesKernel kernels[] = {
      planes_kernel<u8, 2, 2, 4, true>(), planes_kernel<u8, 3, 2, 4, true>(),
      planes_kernel<u10, 2, 2, 4, false>(), planes_kernel<u10, 3, 2, 4, false>(),
      planes_kernel<u10, 4, 3, 4, true>()};
  for (const PlanesKernel& k : kernels)
    if (k.depth == depth && std::equal(chunks, chunks + kPlanes, k.chunks) && (square || !k.square))
      return &k;
  return nullptr;
}

class PlanesPass final : public FramePass {
 public:
  Status prepare(CudaQueue& queue, const GaussianTask& task, const PlanesKernel& kernel) {
    VF_TRY(allow_shared(kernel.function, kernel.shared));
    int resident = 0;
    VF_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel.function,
                                                          32 * kBlockWarps, kernel.shared));
    const int blocks = resident * queue.device().processors;
    // All blocks should take equally long. On an H200, steps of three chunks take 1.25 times as
    // long as steps of two, and steps of chroma 1.1 times as long as steps of luma.
    const auto work = [&](int i) {
      return double(p_.plane[i].row_bytes) * p_.plane[i].height * (kernel.chunks[i] + 2) *
             (i == 0 ? 1 : 1.1);
    };
    for (int i = 0; i < kPlanes; i++) {
      const int chunks[] = {kernel.chunks[i], kernel.chunks[i]};
      VF_TRY(tensor::prepare(queue, task, i, kernel.depth, chunks, &p_.plane[i], &weights_[i]));
    }
    int64_t tiles = 0;
    for (int i = 0; i < kPlanes; i++)
      tiles += int64_t(blocks_of(p_.plane[i].row_bytes, kernel.width[i])) * p_.plane[i].steps;
    // WorkPartition's cost of an edge, which was measured on an H200 with 1080p and 2160p.
    const int edge_cost = tiles < 4 * int64_t(blocks) ? 8 : 7;
    for (int i = 0; i < kPlanes; i++) {
      Params& p = p_.plane[i];
      const int columns = blocks_of(p.row_bytes, kernel.width[i]);
      const int64_t part = std::llround(blocks * work(i) / (work(0) + work(1)));
      const int own = int(std::min(int64_t(columns) * p.steps, std::max<int64_t>(1, part)));
      p.partition = WorkPartition(columns, p.steps, kernel.chunks[i] - 1, own, edge_cost);
      if (i == 0) p_.first = own;
      grid_ += unsigned(own);
    }
    function_ = kernel.function;
    shared_ = size_t(kernel.shared);
    early_ = queue.device().starts_early();
    fits_ = resident > 0;
    return {};
  }

  bool fits() const { return fits_; }

  bool takes(const Image& src, const Image& dst) const override {
    for (int i = 0; i < kPlanes; i++)
      if (src.data[i] == dst.data[i] || !tensor::takes(view_of(src, dst, i))) return false;
    return true;
  }

  Status enqueue(CudaQueue& queue, const Image& src, const Image& dst) override {
    PlanesParams p = p_;
    for (int i = 0; i < kPlanes; i++) {
      p.plane[i] = with_view(p.plane[i], view_of(src, dst, i));
      p.plane[i].early = early_;
    }
    return launch("gaussian planes", function_, {grid_, 32 * kBlockWarps, shared_, early_}, queue,
                  p);
  }

 private:
  PlanesParams p_ = {};
  Allocation weights_[kPlanes];
  void (*function_)(PlanesParams) = nullptr;
  unsigned grid_ = 0;
  size_t shared_ = 0;
  bool early_ = false, fits_ = false;
};

}  // namespace

Status make_gaussian_planes(CudaQueue& queue, const GaussianTask& task,
                            std::unique_ptr<FramePass>* out) {
  if (queue.kernel_limits().gaussian != KernelLimits::Gaussian::all ||
      task.layout.planes != kPlanes || task.placement == Placement::in_place)
    return {};
  Depth depth = Depth::bits8;
  int chunks[kPlanes];
  for (int i = 0; i < kPlanes; i++) {
    const GaussianPlane& g = task.plane[i];
    if (task.layout.plane[i].channels != i + 1 || g.copies() || !suits(queue, task, i, &depth))
      return {};
    chunks[i] = chunks_of_plane(int(std::max(g.weights_x.size(), g.weights_y.size())) / 2);
  }
  const GaussianPlane& first = task.plane[0];
  const PlanesKernel* kernel = find_kernel(depth, chunks, first.weights_x == first.weights_y);
  if (!kernel || kernel->shared > queue.device().shared_per_block) return {};
  auto pass = std::make_unique<PlanesPass>();
  VF_TRY(pass->prepare(queue, task, *kernel));
  if (pass->fits()) *out = std::move(pass);
  return {};
}

}  // namespace vf::cuda
