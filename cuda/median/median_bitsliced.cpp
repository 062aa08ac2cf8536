// The pass of the bit-sliced thresholds (median_bitsliced.cuh).
#include "cuda/median/median_bitsliced.h"

#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/median/median.h"

namespace vf::cuda::median {
namespace {

class BitslicedPass final : public PlanePass {
 public:
  BitslicedPass(const BitslicedKernel& kernel, const Plane& plane, const Channels& channels,
                const Device& device)
      : kernel_(kernel) {
    const int size = plane.size_x, words = kernel.words;
    args_.width = plane.width;
    args_.height = plane.height;
    args_.step = plane.step;
    args_.radius = size / 2;
    args_.columns = 32 * words - 2 * args_.radius;
    args_.segments = (plane.width + args_.columns - 1) / args_.columns;
    args_.rows = plane.height + size;  // with the border, and the one above it
    args_.turns = size / words;
    args_.offset = (1 << (kernel.window_bits - 1)) - 1 - (size * size - 1) / 2;
    args_.border = plane.border;
    args_.channels = channel_args(plane, channels);
    args_.channel_words = size_t(args_.rows) * args_.segments * words * 2;
    scratch_bytes_ = args_.channel_words * sizeof(uint4) * channels.count;
    // One wave of blocks, each of which first builds a whole window.
    const int strips = std::max(1, device.processors / (args_.segments * channels.count));
    args_.strip = std::max(4, (plane.height + strips - 1) / strips);
    const size_t warps = size_t(args_.rows) * args_.segments * ((words + 3) / 4);
    planes_grid_ = dim3(unsigned((warps + kPlanesThreads / 32 - 1) / (kPlanesThreads / 32)), 1,
                        channels.count);
    medians_grid_ =
        dim3(args_.segments, (plane.height + args_.strip - 1) / args_.strip, channels.count);
  }

  bool in_place() const override { return true; }
  bool copies_channels() const override { return false; }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  void set_scratch(void* scratch) override { args_.planes = static_cast<uint4*>(scratch); }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    const BitslicedArgs a = with_view(args_, view);
    VF_TRY(launch("median bit planes", kernel_.planes, {planes_grid_, kPlanesThreads},
                  queue.cuda_stream(), a));
    return launch("median bitsliced", kernel_.medians, {medians_grid_, 32 * kBitslicedWarps},
                  queue.cuda_stream(), a);
  }

 private:
  static constexpr int kPlanesThreads = 256;
  BitslicedKernel kernel_;
  BitslicedArgs args_ = {};
  size_t scratch_bytes_ = 0;
  dim3 planes_grid_, medians_grid_;
};

}  // namespace

std::unique_ptr<PlanePass> make_bitsliced(const Plane& plane, const Channels& channels,
                                          const Device& device) {
  const BitslicedKernel kernel = find_bitsliced(plane.size_x);
  if (!kernel.medians) return nullptr;
  return std::make_unique<BitslicedPass>(kernel, plane, channels, device);
}

}  // namespace vf::cuda::median
