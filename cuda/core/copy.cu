#include "cuda/core/copy.h"

#include <algorithm>

#include "cuda/core/launch.h"

namespace vf::cuda {
namespace {

// Copies `bytes` bytes of each row, 16 at a time if `wide` is true.
template <bool wide>
__global__ void __launch_bounds__(256)
    copy_rows_kernel(uint8_t* dst, ptrdiff_t dst_stride, const uint8_t* src, ptrdiff_t src_stride,
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

// T is an unsigned integer of the component's size.
template <class T>
__global__ void copy_channels_kernel(const uint8_t* src, ptrdiff_t src_stride, uint8_t* dst,
                                     ptrdiff_t dst_stride, int width, int step, uint8_t mask) {
  const int x = blockIdx.y * blockDim.x + threadIdx.x;
  if (x >= width) return;
  const auto* from = reinterpret_cast<const T*>(src + blockIdx.x * src_stride) + size_t(x) * step;
  auto* to = reinterpret_cast<T*>(dst + blockIdx.x * dst_stride) + size_t(x) * step;
#pragma unroll
  for (int c = 0; c < kMaxChannels; c++)
    if (mask >> c & 1) to[c] = from[c];
}

}  // namespace

Status copy_rows(CudaQueue& queue, const PlaneView& view, size_t bytes, int rows) {
  const bool wide = is_aligned(view, 16);
  const unsigned threads = unsigned((bytes + (wide ? 15 : 0)) / (wide ? 16 : 1));
  const dim3 grid((threads + 255) / 256, unsigned(std::min(rows, 32768)));
  const auto kernel = wide ? &copy_rows_kernel<true> : &copy_rows_kernel<false>;
  return launch("copy of rows", kernel, {grid, 256}, queue.cuda_stream(), view.dst, view.dst_stride,
                view.src, view.src_stride, int(bytes), rows);
}

Status copy_channels(CudaQueue& queue, const Layout& layout, int plane, uint8_t mask,
                     const PlaneView& view) {
  const PlaneLayout& l = layout.plane[plane];
  if (mask == (1 << l.channels) - 1 && l.pixel_step() == l.channels)
    return copy_rows(queue, view, row_bytes(layout, plane), l.height);
  const auto kernel = size_of(layout.type) == 1   ? &copy_channels_kernel<uint8_t>
                      : size_of(layout.type) == 2 ? &copy_channels_kernel<uint16_t>
                                                  : &copy_channels_kernel<uint32_t>;
  const dim3 grid(l.height, (l.width + 255) / 256);
  return launch("copy of channels", kernel, {grid, 256}, queue.cuda_stream(), view.src,
                view.src_stride, view.dst, view.dst_stride, l.width, l.pixel_step(), mask);
}

}  // namespace vf::cuda
