// What the fast ways leave of a plane: the edges of a frame with Border::shrink where the window is
// small, and channels that are not filtered.
//
// Idea of the edges: a thread a pixel. The median is built from its top bit down, one pass over the
// window for each bit: it is the largest value that no more than half of the window is below.
// Nothing is sorted or kept, and the window is read from L1. There are few such pixels, and one
// launch makes them.
#include "cuda/launch.h"
#include "cuda/median_device.cuh"

namespace vf::cuda::median {
namespace {

// The pixels of a frame whose small window does not fit, with Border::shrink.
template <int Bits>
__global__ void shrink_edges(const uint8_t* src, ptrdiff_t src_pitch, uint8_t* dst,
                             ptrdiff_t dst_pitch, int width, int height, int step, int radius,
                             ChannelArgs channels) {
  // Rows above and below, then the columns on both sides of those between.
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
      const uint8_t* row = src + v * src_pitch;
      for (int u = x0; u <= x1; u++) below += key_at<Bits>(row, u * step + channel) < trial;
    }
    if (below <= rank) value = trial;
  }
  put_key<Bits>(dst + y * dst_pitch, x * step + channel, value);
}

template <class T>
__global__ void copy_kernel(const uint8_t* src, ptrdiff_t src_pitch, uint8_t* dst,
                            ptrdiff_t dst_pitch, int width, int step, uint8_t mask) {
  const int x = blockIdx.y * blockDim.x + threadIdx.x;
  if (x >= width) return;
  const auto* from = reinterpret_cast<const T*>(src + blockIdx.x * src_pitch) + size_t(x) * step;
  auto* to = reinterpret_cast<T*>(dst + blockIdx.x * dst_pitch) + size_t(x) * step;
#pragma unroll
  for (int c = 0; c < kMaxChannels; c++)
    if (mask >> c & 1) to[c] = from[c];
}

template <class T>
Status copy_channels_of(const Plane& p, uint8_t mask, const Frame& f, cudaStream_t stream) {
  const dim3 grid(p.height, (p.width + 255) / 256);
  return launch("median copy", copy_kernel<T>, {grid, 256}, stream,
                static_cast<const uint8_t*>(f.src), f.src_pitch, static_cast<uint8_t*>(f.dst),
                f.dst_pitch, p.width, p.step, mask);
}

}  // namespace

Status select_edges(const Plane& p, const Channels& channels, const Frame& f, cudaStream_t stream) {
  const int radius = p.size_x / 2;
  const int64_t pixels = 2 * int64_t(radius) * (p.width + p.height);
  const dim3 grid(unsigned((pixels + 127) / 128), channels.count);
  const auto kernel = p.type == Type::u8 ? shrink_edges<8> : shrink_edges<16>;
  return launch("median edges", kernel, {grid, 128}, stream, static_cast<const uint8_t*>(f.src),
                f.src_pitch, static_cast<uint8_t*>(f.dst), f.dst_pitch, p.width, p.height, p.step,
                radius, channel_args(p, channels));
}

Status copy_channels(const Plane& p, uint8_t mask, const Frame& f, cudaStream_t stream) {
  switch (p.type) {
    case Type::u8:
      return copy_channels_of<uint8_t>(p, mask, f, stream);
    case Type::u16:
      return copy_channels_of<uint16_t>(p, mask, f, stream);
    default:
      return copy_channels_of<uint32_t>(p, mask, f, stream);
  }
}

}  // namespace vf::cuda::median
