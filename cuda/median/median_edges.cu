// Filters the frame's edges with Border::shrink and a small window. Fast kernels leave them out.
//
// Idea: one thread makes one pixel. The median is the largest value with at most half of the window
// below it. A thread finds it from the top bit down, with one pass over the window for each bit.
// Nothing is sorted or kept.
// Traffic: the window is read from L1, once per bit. There are few such pixels, and one launch
// makes them.
#include "cuda/core/launch.h"
#include "cuda/median/median.h"
#include "cuda/median/median_device.cuh"

namespace vf::cuda::median {
namespace {

// Makes the pixels whose window does not fit into the frame.
template <int Bits>
__global__ void shrink_edges(const uint8_t* src, ptrdiff_t src_stride, uint8_t* dst,
                             ptrdiff_t dst_stride, int width, int height, int step, int radius,
                             ChannelArgs channels) {
  // Threads go along the rows at the top and bottom, then the columns beside the rows between.
  const int channel = channels.index >> (8 * blockIdx.y) & 0xff;
  int i = blockIdx.x * blockDim.x + threadIdx.x, x, y;
  if (i < 2 * radius * width) {
    y = i / width, x = i % width;
    if (y >= radius) y += height - 2 * radius;
  } else {
    i -= 2 * radius * width;
    y = radius + i / (2 * radius), x = i % (2 * radius);
    if (x >= radius) x += width - 2 * radius;
    if (y >= height - radius) return;
  }
  const int x0 = max(x - radius, 0), x1 = min(x + radius, width - 1);
  const int y0 = max(y - radius, 0), y1 = min(y + radius, height - 1);
  const int rank = (x1 - x0 + 1) * (y1 - y0 + 1) / 2;
  uint32_t value = 0;
  for (int bit = Bits - 1; bit >= 0; bit--) {
    const uint32_t trial = value | 1u << bit;
    int below = 0;
    for (int v = y0; v <= y1; v++) {
      const uint8_t* row = src + v * src_stride;
      for (int u = x0; u <= x1; u++) below += key_at<Bits>(row, u * step + channel) < trial;
    }
    if (below <= rank) value = trial;
  }
  put_key<Bits>(dst + y * dst_stride, x * step + channel, value);
}

class EdgesPass final : public PlanePass {
 public:
  explicit EdgesPass(const Plane& plane) : plane_(plane), channels_(channel_args(plane)) {
    const int64_t pixels = 2 * int64_t(plane.size_x / 2) * (plane.width + plane.height);
    grid_ = dim3(unsigned((pixels + 127) / 128), plane.count);
  }

  Status enqueue(CudaQueue& queue, const PlaneView& v, bool) override {
    const auto kernel = plane_.type == Type::u8 ? shrink_edges<8> : shrink_edges<16>;
    return launch("median edges", kernel, {grid_, 128}, queue, v.src, v.src_stride, v.dst,
                  v.dst_stride, plane_.width, plane_.height, plane_.step, plane_.size_x / 2,
                  channels_);
  }

 private:
  Plane plane_;
  ChannelArgs channels_;
  dim3 grid_;
};

}  // namespace

std::unique_ptr<PlanePass> make_edges(const Plane& plane) {
  return std::make_unique<EdgesPass>(plane);
}

}  // namespace vf::cuda::median
