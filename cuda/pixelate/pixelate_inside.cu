// Pixelates integers by blocks inside of vectors of 16 bytes, for aligned images.
//
// Idea     A thread has a vector in each row of a row of blocks, and so has all samples of its
//          blocks: it needs no other thread. Dot products with ones and zeros add the samples of
//          each block and channel. The blocks have 1, 2, 4 or 8 columns and rows, so a shift
//          divides.
// Traffic  Each byte is read once and written once. One launch makes all planes, also in place. It
//          copies planes whose blocks have one sample.
// Tile     A block of threads has up to 64 vectors side by side.
// Limit    Memory limits the speed.
#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/pixelate/pixelate.h"
#include "cuda/pixelate/pixelate_strips.cuh"

namespace vf::cuda {
namespace {

constexpr int kThreads = 64;
constexpr unsigned kMaxGridY = 65535;

// Returns the vector of means below the vectors of `rows` rows, where a block has 1 << `bits`
// samples. `shift` is the number of unused bits of a sample.
template <class T, int kChannels, int kWidth>
__device__ __forceinline__ uint4 means_of(const uint4 (&in)[kBatch], int rows, int bits,
                                          int shift) {
  constexpr int kN = kComponents<T>, kWord = 4 / int(sizeof(T)), kSums = kN / kWidth;
  constexpr auto sum_of = [](int i) {
    return i / (kChannels * kWidth) * kChannels + i % kChannels;
  };
  uint32_t sums[kSums] = {};
#pragma unroll
  for (int y = 0; y < kBatch; y++) {
    if (y >= rows) break;
    const uint32_t word[4] = {in[y].x, in[y].y, in[y].z, in[y].w};
#pragma unroll
    for (int w = 0; w < 4; w++)
#pragma unroll
      for (int s = 0; s < kSums; s++) {
        uint32_t factors = 0;
#pragma unroll
        for (int i = 0; i < kWord; i++)
          if (sum_of(w * kWord + i) == s) factors |= 1u << (8 * i);
        if (factors) sums[s] = add_products<T>(word[w], factors, sums[s]);
      }
  }
  const uint32_t half = (1u << (bits + shift)) / 2;
  uint32_t out[4] = {};
#pragma unroll
  for (int s = 0; s < kSums; s++)
    sums[s] = min((sums[s] + half) >> (bits + shift), uint32_t(T(~T(0))) >> shift) << shift;
#pragma unroll
  for (int i = 0; i < kN; i++)
    out[i / kWord] |= sums[sum_of(i)] << (8 * int(sizeof(T)) * (i % kWord));
  return make_uint4(out[0], out[1], out[2], out[3]);
}

// Identifies the blocks of a plane.
constexpr int kind_of(int channels, int width) {
  return channels * 16 + width;
}

template <class T>
__device__ __forceinline__ uint4 means_of(const uint4 (&in)[kBatch], int rows, int bits, int shift,
                                          int kind) {
#define VF_KIND(channels, width)                                  \
  case kind_of(channels, width):                                  \
    if constexpr (channels * width * sizeof(T) <= 16)             \
      return means_of<T, channels, width>(in, rows, bits, shift); \
    break;
  switch (kind) {
    VF_KIND(1, 1)
    VF_KIND(1, 2)
    VF_KIND(1, 4)
    VF_KIND(1, 8)
    VF_KIND(2, 1)
    VF_KIND(2, 2)
    VF_KIND(2, 4)
    VF_KIND(2, 8)
    VF_KIND(4, 2)
    VF_KIND(4, 4)
  }
#undef VF_KIND
  return {};
}

template <class T>
__global__ void __launch_bounds__(kThreads) pixelate_inside(const __grid_constant__ StripArgs p) {
  let_next_start();
  int plane = 0;
  while (plane + 1 < p.planes && int(blockIdx.y) >= p.plane[plane + 1].tiles) plane++;
  const StripPlane& l = p.plane[plane];
  const int v = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (v >= l.vectors) return;
  const int y0 = (int(blockIdx.y) - l.tiles) * l.rows, rows = min(l.rows, l.y.length - y0);
  const uint8_t* from = l.src + y0 * l.src_stride + int64_t(v) * 16;
  uint8_t* to = l.dst + y0 * l.dst_stride + int64_t(v) * 16;
  wait_for_previous();
  if (l.channels == 0 && l.src == l.dst) return;

  uint4 in[kBatch];
#pragma unroll
  for (int y = 0; y < kBatch; y++, from += l.src_stride)
    if (y < rows) in[y] = *reinterpret_cast<const uint4*>(from);
  if (l.channels != 0) {
    const int bits = __popc(unsigned(l.x.size * l.rows - 1));
    const uint4 means = means_of<T>(in, rows, bits, p.shift, kind_of(l.channels, l.x.size));
#pragma unroll
    for (uint4& i : in) i = means;
  }
#pragma unroll
  for (int y = 0; y < kBatch; y++, to += l.dst_stride)
    if (y < rows) *reinterpret_cast<uint4*>(to) = in[y];
}

template <class T>
class InsidePass final : public FramePass {
 public:
  bool prepare(const PixelateTask& task) {
    const Layout& layout = task.layout;
    args_ = strip_args(task);
    bool copies = true;
    for (int i = 0; i < args_.planes; i++) {
      const PixelatePlane& plane = task.plane[i];
      const PlaneLayout& size = layout.plane[i];
      StripPlane& l = args_.plane[i];
      if (row_bytes(layout, i) % 16) return false;
      l.vectors = int(row_bytes(layout, i) / 16);
      l.tiles = int(grid_.y);
      l.rows = kBatch;
      if (!plane.copies()) {
        const int wide = plane.x.size, high = plane.y.size, block = wide * size.channels;
        if (plane.x.sub || plane.y.sub || size.width % wide || size.height % high ||
            high > kBatch || size.channels == 3 || block * int(sizeof(T)) > 16 ||
            wide & (wide - 1) || high & (high - 1))
          return false;
        l.rows = high;
        l.channels = uint8_t(size.channels);
        copies = false;
      }
      grid_.x = std::max(grid_.x, unsigned(blocks_of(l.vectors, kThreads)));
      grid_.y += unsigned(blocks_of(size.height, l.rows));
    }
    return !copies && grid_.y <= kMaxGridY;
  }

  Status enqueue(CudaQueue& queue, const Image& src, const Image& dst) override {
    return launch("pixelation inside vectors", &pixelate_inside<T>,
                  {grid_, kThreads, 0, queue.device().starts_early()}, queue,
                  with_images(args_, src, dst));
  }

 private:
  StripArgs args_ = {};
  dim3 grid_ = dim3(1, 0);
};

}  // namespace

std::unique_ptr<FramePass> make_inside(const PixelateTask& task) {
  return make_frame_pass<InsidePass>(task);
}

}  // namespace vf::cuda
