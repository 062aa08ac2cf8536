// Makes the pass of a selection network (median_network.cuh).
#include "cuda/median/median_network.h"

#include "cuda/core/launch.h"
#include "cuda/median/median.h"

namespace vf::cuda::median {
namespace {

class NetworkPass final : public PlanePass {
 public:
  NetworkPass(const Device& device, const NetworkKernel& kernel, Format format, const Plane& plane,
              bool early)
      : kernel_(kernel),
        format_(format),
        early_(early && device.starts_early() && !kernel.is_long) {
    args_.width = plane.width;
    args_.height = plane.height;
    args_.step = plane.step;
    args_.border = plane.border;
    args_.one = 1;
    const bool integers = (format == Format::u8 || format == Format::u16) && !kernel.is_long;
    args_.outliers = kernel.compares && plane.outliers_only;
    args_.threshold = plane.threshold;
    args_.pairs = integers && plane.channels == 2 && plane.step == 2 && plane.count == 2;
    args_.channels = channel_args(plane);
    for (int i = 0; i < plane.count; i++)
      args_.float_border[i] = plane.border_value[plane.index[i]];
    if (format == Format::rgba8) {
      args_.channels.border_value = plane.border_value[0] | plane.border_value[1] << 8 |
                                    plane.border_value[2] << 16 | plane.border_value[3] << 24;
      args_.keep = kept_bits(plane.mask);
    }
    grid_ = dim3(blocks_of(plane.width, kernel.width), blocks_of(plane.height, kernel.height),
                 format == Format::rgba8 ? 1 : plane.count);
    pair_grid_ = dim3(grid_.x, unsigned(blocks_of(plane.height, kernel.height / 2)));
    overlaps_ = device.starts_early();
    // A block of a long network has most of a processor's shared memory. The last blocks leave
    // processors idle, and if these are many, the other planes had better come later.
    const int last = int(int64_t(grid_.x) * grid_.y * grid_.z % device.processors);
    comes_last_ = kernel.is_long && (last == 0 || 2 * last > device.processors);
    dense_ = format == Format::rgba8 || plane.step == 1;
    vector_bytes_ = unsigned(kernel.vector * (format == Format::rgba8 ? 4 : size_of(plane.type)));
  }

  bool takes(const PlaneView& view) const override {
    return format_ != Format::rgba8 || is_aligned(view, 4);
  }
  bool copies_channels() const override { return format_ == Format::rgba8; }
  bool is_complete() const override { return args_.outliers; }

  int concurrency_class() const override { return overlaps_; }
  bool comes_last() const override { return comes_last_; }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool overlaps_previous) override {
    NetworkArgs a = with_view(args_, view);
    a.overlaps = overlaps_previous;
    a.pairs = a.pairs && is_aligned(a.src, a.src_stride, 4) &&
              is_aligned(a.dst, a.dst_stride, 2 * vector_bytes_);
    a.words = a.pairs || (dense_ && is_aligned(a.src, a.src_stride, 4));
    a.vectors = a.pairs || (dense_ && is_aligned(a.dst, a.dst_stride, vector_bytes_));
    return launch("median network", kernel_.function,
                  {a.pairs ? pair_grid_ : grid_, unsigned(kernel_.threads), kernel_.shared,
                   early_ || overlaps_previous},
                  queue, a);
  }

 private:
  NetworkKernel kernel_;
  Format format_;
  bool early_;
  NetworkArgs args_ = {};
  dim3 grid_, pair_grid_;
  bool dense_ = false, overlaps_ = false, comes_last_ = false;
  unsigned vector_bytes_ = 0;  // bytes that a thread writes at once in a row
};

// Finds whether the code that the driver has loaded for a kernel runs on the device.
Status runs(const Device& device, const NetworkKernel& kernel, bool* yes) {
  *yes = kernel.shared <= size_t(device.shared_per_block);
  if (kernel.runs == NetworkKernel::everywhere || !*yes) return {};
  cudaFuncAttributes attributes;
  VF_CUDA(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel.function)));
  *yes = (kernel.runs == NetworkKernel::where_shared) == shares_columns(attributes.ptxVersion);
  return {};
}

}  // namespace

Status make_network(const Device& device, Format format, const Plane& plane, bool early,
                    std::unique_ptr<PlanePass>* out) {
  for (const bool shared : {true, false}) {
    const NetworkKernel kernel = find_network(format, plane.size_x, shared);
    bool found = false;
    if (kernel.function) VF_TRY(runs(device, kernel, &found));
    if (!found) continue;
    VF_TRY(allow_shared(kernel.function, kernel.shared));
    *out = std::make_unique<NetworkPass>(device, kernel, format, plane, early);
    break;
  }
  return {};
}

}  // namespace vf::cuda::median
