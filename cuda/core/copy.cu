#include "cuda/core/copy.h"

#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"

namespace vf::cuda {
namespace {

constexpr int kThreads = 256;

// Describes a copy of `pieces` pieces of each row, of which the last one may have fewer bytes.
struct CopyPlane {
  PlaneView view;
  int bytes, pieces, height;
  int first, across;  // the plane's first block, and its blocks side by side
  int lanes;          // threads of a row
};
struct CopyPlanes {
  int count;
  bool lets_next_start;
  CopyPlane plane[kMaxPlanes];
};

// Piece is uint4, or uint8_t where rows are not aligned. A block copies parts of as many rows as it
// has threads for.
template <class Piece>
__global__ void __launch_bounds__(kThreads) copy_planes(const __grid_constant__ CopyPlanes p) {
  constexpr int kSize = int(sizeof(Piece));
  if (p.lets_next_start) let_next_start();
  int plane = 0;
  while (plane + 1 < p.count && int(blockIdx.x) >= p.plane[plane + 1].first) plane++;
  const CopyPlane& l = p.plane[plane];
  const int block = int(blockIdx.x) - l.first, band = block / l.across;
  const int row = int(threadIdx.x) / l.lanes, rows = kThreads / l.lanes;
  const int x = (block - band * l.across) * l.lanes + int(threadIdx.x) - row * l.lanes;
  const int y = band * rows + row;
  if (x >= l.pieces || row >= rows || y >= l.height) return;
  const uint8_t* const from = l.view.src + y * l.view.src_stride + x * kSize;
  uint8_t* const to = l.view.dst + y * l.view.dst_stride + x * kSize;
  if ((x + 1) * kSize <= l.bytes)
    *reinterpret_cast<Piece*>(to) = *reinterpret_cast<const Piece*>(from);
  else
    for (int b = 0; b < l.bytes - x * kSize; b++) to[b] = from[b];
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

// Copies rows of planes.
struct PlaneRows {
  PlaneView view;
  size_t bytes;
  int rows;
};
Status copy_rows_of(CudaQueue& queue, const PlaneRows* planes, int count, bool lets_next_start) {
  CopyPlanes p = {};
  p.count = count;
  p.lets_next_start = lets_next_start;
  bool wide = true;
  for (int i = 0; i < count; i++) wide = wide && is_aligned(planes[i].view, 16);
  int blocks = 0;
  for (int i = 0; i < count; i++) {
    const PlaneRows& r = planes[i];
    const int bytes = int(r.bytes), pieces = wide ? blocks_of(bytes, 16) : bytes;
    const int lanes = std::min(round_up(pieces, 32), kThreads), across = blocks_of(pieces, lanes);
    p.plane[i] = {r.view, bytes, pieces, r.rows, blocks, across, lanes};
    blocks += across * blocks_of(r.rows, kThreads / lanes);
  }
  const auto kernel = wide ? &copy_planes<uint4> : &copy_planes<uint8_t>;
  return launch("copy of rows", kernel, {unsigned(blocks), kThreads}, queue.cuda_stream(), p);
}

}  // namespace

Status copy_rows(CudaQueue& queue, const PlaneView& view, size_t bytes, int rows) {
  const PlaneRows plane = {view, bytes, rows};
  return copy_rows_of(queue, &plane, 1, false);
}

Status copy_frame(CudaQueue& queue, const Image& src, const Image& dst) {
  PlaneRows planes[kMaxPlanes];
  for (int i = 0; i < src.layout.planes; i++)
    planes[i] = {{static_cast<const uint8_t*>(src.data[i]), static_cast<uint8_t*>(dst.data[i]),
                  src.stride[i], dst.stride[i]},
                 row_bytes(src.layout, i),
                 src.layout.plane[i].height};
  return copy_rows_of(queue, planes, src.layout.planes, true);
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
