// Instantiates gaussian_tensor.cuh for 8 bits, makes its weights and launches it.
#include "cuda/gaussian/gaussian_tensor.cuh"

#include <cmath>
#include <cstring>

#include "cuda/core/component.cuh"
#include "cuda/gaussian/gaussian.h"

namespace vf::cuda {
namespace {

using namespace tensor;

// The number of blocks per processor was measured on an H200. Most kernels also have a version with
// one set of weights for both axes, which leaves registers for more blocks.
const std::vector<Kernel>& kernels8() {
  constexpr Depth u8 = Depth::bits8;
  static const std::vector<Kernel> kernels = {
      kernel<u8, 1, 2, 4, true>(),  kernel<u8, 1, 2, 4, false>(), kernel<u8, 2, 2, 4, false>(),
      kernel<u8, 3, 2, 4, false>(), kernel<u8, 4, 2, 4, true>(),  kernel<u8, 4, 2, 4, false>(),
      kernel<u8, 1, 3, 4, true>(),  kernel<u8, 1, 3, 3, false>(), kernel<u8, 2, 3, 3, false>(),
      kernel<u8, 3, 3, 4, false>(), kernel<u8, 4, 3, 4, true>(),  kernel<u8, 4, 3, 3, false>(),
      kernel<u8, 1, 5, 3, true>(),  kernel<u8, 1, 5, 2, false>(), kernel<u8, 2, 5, 2, false>(),
      kernel<u8, 3, 5, 3, false>(), kernel<u8, 4, 5, 3, true>(),  kernel<u8, 4, 5, 2, false>(),
      kernel<u8, 1, 9, 2, true>(),  kernel<u8, 4, 9, 2, true>(),
  };
  return kernels;
}

const Kernel* find_kernel(Depth depth, int channels, int chunks, bool square) {
  const Kernel* found = nullptr;
  for (const Kernel& k : depth == Depth::bits8 ? kernels8() : kernels16())
    if (k.depth == depth && k.channels == channels && k.chunks == chunks &&
        (k.square ? square : !found))
      found = &k;
  return found;
}

// Weights as fp16, scaled by the factor from 2^15 to 2^16 that rounds them best. The result is
// divided by their sum, so that a flat frame does not change.
struct Rounded {
  std::vector<double> weights;
  double sum = 0;
};
double to_half(double v) {
  if (v == 0) return 0;
  const double unit = std::ldexp(1, std::max(std::ilogb(v), -14) - 10);
  return std::nearbyint(v / unit) * unit;
}
Rounded rounded(const std::vector<double>& weights) {
  constexpr int scales = 512;
  constexpr double largest = 65504;        // fp16's
  const size_t half = weights.size() / 2;  // the rest mirrors it
  Rounded best;
  double minimum = INFINITY;
  std::vector<double> trial(half + 1);
  for (int i = 0; i < scales; i++) {
    const double scale = 32768 * (1 + double(i) / scales);
    double sum = 0, error = 0;
    for (size_t j = 0; j <= half; j++) {
      trial[j] = to_half(weights[j] * scale);
      sum += j < half ? 2 * trial[j] : trial[j];
    }
    if (trial[half] > largest) break;
    for (size_t j = 0; j <= half; j++)
      error += (j < half ? 2 : 1) * std::abs(trial[j] / sum - weights[j]);
    if (error >= minimum) continue;
    minimum = error;
    best.sum = sum;
    best.weights.assign(weights.size(), 0);
    for (size_t j = 0; j <= half; j++)
      best.weights[j] = best.weights[weights.size() - 1 - j] = trial[j];
  }
  return best;
}

// Weights as sums of two fp16 numbers, which hold 22 bits.
struct Parts {
  std::vector<double> first, second;
  double sum = 0;
};
Parts parts_of(const std::vector<double>& weights) {
  constexpr double scale = 32768;
  Parts p;
  for (const double w : weights) {
    const double first = to_half(w * scale), second = to_half(w * scale - first);
    p.first.push_back(first);
    p.second.push_back(second);
    p.sum += first + second;
  }
  return p;
}

// Appends the A fragments of the Toeplitz matrix. Element (m, k) of chunk j is the weight of input
// 16 j + k - reach for output m.
void add_fragments(const std::vector<double>& weights, int chunks, std::vector<uint32_t>* out) {
  const int reach = 8 * (chunks - 1), radius = int(weights.size()) / 2;
  for (int j = 0; j < chunks; j++)
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < 4; e++) {
        uint32_t pair = 0;
        for (int b = 0; b < 2; b++) {
          const int m = (lane >> 2) + (e & 1) * 8, k = (lane & 3) * 2 + b + (e >> 1) * 8;
          const int tap = 16 * j + permuted(k) - reach - permuted(m) + radius;
          const bool inside = tap >= 0 && tap < int(weights.size());
          const __half half = __float2half_rn(inside ? float(weights[tap]) : 0.f);
          uint16_t bits;
          std::memcpy(&bits, &half, sizeof bits);
          pair |= uint32_t(bits) << (16 * b);
        }
        out->push_back(pair);
      }
}

uint32_t mask_of(Depth depth, int shift) {
  // Halves could hold 11 bits exactly, too.
  const uint32_t one =
      depth == Depth::bits10 ? 0xffffu >> std::max(shift, 5) : 0xffu << shift & 0xff;
  return one << 16 | one;
}

}  // namespace

bool tensor::suits(const CudaQueue& queue, const GaussianTask& task, int plane, Depth* depth) {
  const Layout& layout = task.layout;
  const PlaneLayout& l = layout.plane[plane];
  if (queue.kernel_limits().gaussian > KernelLimits::Gaussian::two_pass ||
      queue.device().capability < 80 || (layout.type != Type::u8 && layout.type != Type::u16) ||
      layout.shift > 8 || l.pixel_step() != l.channels)
    return false;
  const int maximum = layout.max_value ? layout.max_value : 0xffff >> layout.shift;
  *depth = layout.type == Type::u8 ? Depth::bits8 : maximum <= 1023 ? Depth::bits10 : Depth::bits16;
  return true;
}

Status tensor::prepare(CudaQueue& queue, const GaussianTask& task, int plane, Depth depth,
                       const int (&chunks)[2], Params* params, Allocation* weights) {
  const PlaneLayout& l = task.layout.plane[plane];
  const GaussianPlane& g = task.plane[plane];
  const int size = size_of(task.layout.type), pixel = l.channels * size;
  Params& p = *params;
  p.width = l.width;
  p.height = l.height;
  p.row_bytes = l.width * pixel;
  p.radius_x = int(g.weights_x.size()) / 2;
  p.steps = blocks_of(l.height, kRows);
  p.border = task.border;
  p.shift = task.layout.shift;
  p.mask = mask_of(depth, p.shift);
  for (int i = 0; i < (pixel == 8 ? 8 : 12); i++) {
    const int c = i % pixel / size;
    const uint32_t colour = size == 1 ? component_of<uint8_t>(g.border_value[c], 0)
                                      : component_of<uint16_t>(g.border_value[c], p.shift);
    p.outside[i / 4] |= (colour >> (8 * (i % size)) & 0xff) << (8 * (i % 4));
    if (!(g.channels >> c & 1)) {
      p.keep[i / 4] |= 0xffu << (8 * (i % 4));
      p.keeps = true;
    }
  }
  p.plain_bytes = p.keeps ? 0 : p.row_bytes;

  std::vector<uint32_t> fragments;
  double sums[2];
  for (const int axis : {0, 1}) {
    const std::vector<double>& taps = axis ? g.weights_y : g.weights_x;
    if (depth == Depth::bits16) {
      const Parts parts = parts_of(taps);
      add_fragments(parts.first, chunks[axis], &fragments);
      add_fragments(parts.second, chunks[axis], &fragments);
      sums[axis] = parts.sum;
    } else {
      const Rounded r = rounded(taps);
      add_fragments(r.weights, chunks[axis], &fragments);
      sums[axis] = r.sum;
    }
  }
  // `unit` is the value of a code in the horizontal sums. 16-bit components keep low bits there.
  const double unit = std::ldexp(sums[0], -24);
  p.start = float(-centre(depth) * unit);
  p.scale = float(1 / (unit * sums[1]));
  if (depth == Depth::bits16) p.scale = std::ldexp(p.scale, -p.shift);
  uint32_t start;
  std::memcpy(&start, &p.start, sizeof start);
  fragments.insert(fragments.end(), 4, start);
  const size_t bytes = fragments.size() * sizeof fragments[0];
  VF_TRY(queue.allocate(Memory::device, bytes, weights));
  VF_TRY(queue.copy(weights->data(), fragments.data(), bytes));
  p.weights = weights->as<uint4>();
  return {};
}

bool tensor::takes(const PlaneView& v) {
  const auto fits = [](ptrdiff_t stride) { return int(stride) == stride; };
  return is_aligned(v, 16) && fits(v.src_stride) && fits(v.dst_stride);
}

namespace {

class TensorPass final : public PlanePass {
 public:
  TensorPass(const Kernel& kernel) : kernel_(kernel) {}

  Status prepare(CudaQueue& queue, const GaussianTask& task, int plane) {
    const int chunks[] = {kernel_.chunks, kernel_.chunks};
    VF_TRY(tensor::prepare(queue, task, plane, kernel_.depth, chunks, &p_, &weights_));
    columns_ = blocks_of(p_.row_bytes, kernel_.width);
    VF_TRY(allow_shared(kernel_.function, kernel_.shared));
    int blocks = 0;
    VF_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_.function,
                                                          32 * kBlockWarps, kernel_.shared));
    blocks_ = blocks * queue.device().processors;
    starts_early_ = queue.device().starts_early() && task.placement != Placement::in_place;
    set_grid_fraction(1);
    return {};
  }

  bool runs() const { return blocks_ > 0; }
  int concurrency_class() const override { return starts_early_ ? kernel_.chunks : 0; }
  void set_grid_fraction(double fraction) override {
    grid_ = int(std::min<int64_t>(int64_t(columns_) * p_.steps,
                                  std::max<int64_t>(1, std::llround(blocks_ * fraction))));
    p_.partition = WorkPartition(columns_, p_.steps, kernel_.chunks - 1, grid_, kernel_.edge_cost);
  }

  bool takes(const PlaneView& view) const override { return tensor::takes(view); }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool overlaps_previous) override {
    Params p = with_view(p_, view);
    p.overlaps = overlaps_previous;
    p.early = starts_early_;
    return launch("gaussian tensor", kernel_.function,
                  {grid_, 32 * kBlockWarps, size_t(kernel_.shared), starts_early_}, queue, p);
  }

 private:
  const Kernel& kernel_;
  Params p_ = {};
  Allocation weights_;
  int columns_ = 0;
  int blocks_ = 0;  // maximum number resident on the device
  int grid_ = 0;
  // Whether the kernel may start before the previous launch is done, and run beside another
  // plane's. In place, where the previous launch is the copy, this is slower.
  bool starts_early_ = false;
};

}  // namespace

Status make_gaussian_tensor(CudaQueue& queue, const GaussianTask& task, int plane,
                            std::unique_ptr<PlanePass>* out) {
  const GaussianPlane& g = task.plane[plane];
  const int radius = int(std::max(g.weights_x.size(), g.weights_y.size())) / 2;
  const int chunks = chunks_of(radius);
  Depth depth;
  if (queue.kernel_limits().gaussian != KernelLimits::Gaussian::all || radius > 64 ||
      !suits(queue, task, plane, &depth))
    return {};
  const Kernel* kernel =
      find_kernel(depth, task.layout.plane[plane].channels, chunks, g.weights_x == g.weights_y);
  if (!kernel || kernel->shared > queue.device().shared_per_block) return {};
  auto pass = std::make_unique<TensorPass>(*kernel);
  VF_TRY(pass->prepare(queue, task, plane));
  if (pass->runs()) *out = std::move(pass);
  return {};
}

}  // namespace vf::cuda
