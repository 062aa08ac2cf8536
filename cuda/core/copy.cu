#include "cuda/core/copy.h"

#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"

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

// A block of copy_planes copies kWidth vectors of kRows rows. A thread has one column of vectors.
constexpr int kThreads = 256, kWidth = 64, kEach = 4, kApart = kThreads / kWidth,
              kRows = kApart * kEach;

struct CopyPlane {
  PlaneView view;
  int bytes, height;  // bytes of a row
  int first, across;  // the plane's first block, and its blocks side by side
};
struct CopyPlanes {
  int count;
  CopyPlane plane[kMaxPlanes];
};

// Copies planes whose rows are aligned to vectors. Few blocks with much work each are all there
// soon, which lets the next launch start.
__global__ void __launch_bounds__(kThreads) copy_planes(const __grid_constant__ CopyPlanes p) {
  let_next_start();
  int plane = 0;
  while (plane + 1 < p.count && int(blockIdx.x) >= p.plane[plane + 1].first) plane++;
  const CopyPlane& l = p.plane[plane];
  const int block = int(blockIdx.x) - l.first, band = block / l.across;
  const int x = 16 * ((block - band * l.across) * kWidth + int(threadIdx.x) % kWidth);
  const int y = band * kRows + int(threadIdx.x) / kWidth, size = min(16, l.bytes - x);
  if (size <= 0) return;
  const uint8_t* const from = l.view.src + y * l.view.src_stride + x;
  uint8_t* const to = l.view.dst + y * l.view.dst_stride + x;
  uint4 v[kEach];
#pragma unroll
  for (int i = 0; i < kEach; i++)
    if (size == 16 && y + kApart * i < l.height)
      v[i] = *reinterpret_cast<const uint4*>(from + kApart * i * l.view.src_stride);
#pragma unroll
  for (int i = 0; i < kEach; i++) {
    if (y + kApart * i >= l.height) break;
    const ptrdiff_t source = kApart * i * l.view.src_stride,
                    target = kApart * i * l.view.dst_stride;
    if (size == 16)
      *reinterpret_cast<uint4*>(to + target) = v[i];
    else
      for (int b = 0; b < size; b++) to[target + b] = from[source + b];
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
  return launch("copy of rows", kernel, {grid, 256}, queue, view.dst, view.dst_stride, view.src,
                view.src_stride, int(bytes), rows);
}

Status copy_frame(CudaQueue& queue, const Image& src, const Image& dst) {
  CopyPlanes p = {};
  p.count = src.layout.planes;
  int blocks = 0;
  for (int i = 0; i < p.count; i++) {
    const int bytes = int(row_bytes(src.layout, i)), height = src.layout.plane[i].height;
    const int across = blocks_of(bytes, 16 * kWidth);
    p.plane[i] = {view_of(src, dst, i), bytes, height, blocks, across};
    blocks += across * blocks_of(height, kRows);
  }
  return launch("copy of a frame", copy_planes, {unsigned(blocks), kThreads}, queue, p);
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
  return launch("copy of channels", kernel, {grid, 256}, queue, view.src, view.src_stride, view.dst,
                view.dst_stride, l.width, l.pixel_step(), mask);
}

}  // namespace vf::cuda
