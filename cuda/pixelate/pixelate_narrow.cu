// Pixelates integers by rows of narrow blocks, for images that are aligned to 16 bytes.
//
// Idea     A tile is a part of one row of blocks that begins and ends between two vectors of 16
//          bytes as well as between two blocks, so that no vector belongs to two tiles. A thread
//          has a vector in each of up to 8 rows, all of whose loads are under way at once, and
//          leaves the sums of its columns in shared memory. After a barrier, a thread for each
//          block and channel adds its columns and leaves the mean under each of them. After
//          another one, a thread reads the means of its vector and writes them to its rows.
// Traffic  Each byte is read once and written once. One launch makes all planes, also in place. It
//          copies planes whose blocks have one sample.
// Tile     A tile has up to 128 vectors, so that each row of blocks of NV12 at 1080p is one tile.
// Limit    The latency of loads, sums and means, which follow each other, limits the speed. With
//          the narrowest blocks, the instructions for each mean limit it.
#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/pixelate/pixelate.h"
#include "cuda/pixelate/pixelate_strips.cuh"

namespace vf::cuda {
namespace {

constexpr int kMaxThreads = 256, kMaxVectors = 128;
// A block has at most this many samples, so that 32 bits hold their sum.
constexpr int kMaxSamples = 1 << 14;

// The type of a column's sum. The sums of a vector lie in the order of its components.
template <class T>
using Column = std::conditional_t<sizeof(T) == 1, uint16_t, uint32_t>;

struct alignas(16) Shared {
  uint4 columns[kMaxThreads][2];
  uint4 means[kMaxVectors];
};

template <class T>
__device__ __forceinline__ void store_part(uint8_t* to, const uint4& v, int bytes) {
  const uint32_t word[4] = {v.x, v.y, v.z, v.w};
  store_components<T>(to, word, 0, bytes / int(sizeof(T)));
}

// Makes the means of blocks b0 to b1, of rows y0 to y1, and leaves them under their columns.
template <class T, int kChannels>
__device__ __forceinline__ void make_means(const StripPlane& l, int shift, int b0, int b1, int y0,
                                           int y1, Shared& shared) {
  const auto* const columns = reinterpret_cast<const Column<T>*>(shared.columns);
  T* const means = reinterpret_cast<T*>(shared.means);
  const int x0 = l.x.edge(b0), items = (b1 - b0) * kChannels;
#pragma unroll 1
  for (int item = int(threadIdx.x); item < items; item += int(blockDim.x)) {
    const int block = b0 + int(unsigned(item) / kChannels), channel = item % kChannels;
    const int left = l.x.edge(block), right = l.x.edge(block + 1);
    const int begin = (left - x0) * kChannels + channel, end = (right - x0) * kChannels;
    uint32_t sum = 0;
#pragma unroll 1
    for (int row = 0; row < l.rows; row++)
#pragma unroll 4
      for (int x = begin; x < end; x += kChannels)
        sum += columns[row * l.vectors * kComponents<T> + x];
    const uint32_t unit = uint32_t((right - left) * (y1 - y0)) << shift;
    const T mean = mean_of<T>(sum, 0, unit, 1 / float(unit), shift);
#pragma unroll 4
    for (int x = begin; x < end; x += kChannels) means[x] = mean;
  }
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    pixelate_narrow(const __grid_constant__ StripArgs p) {
  VF_SHARED(Shared, shared);
  let_next_start();
  int index;
  const StripPlane& l = plane_of_tile(p, &index);
  const int tile_y = int(unsigned(index) / unsigned(l.tiles_x)),
            tile_x = index - tile_y * l.tiles_x;
  const int b0 = tile_x * l.across, b1 = min(b0 + l.across, l.x.count);
  const int y0 = l.y.edge(tile_y), y1 = l.y.edge(tile_y + 1);
  const int row = int(threadIdx.x * l.row_factor >> kRowShift);
  const int column = int(threadIdx.x) - row * l.vectors;
  const int64_t at = int64_t(tile_x * l.vectors + column) * 16;
  const int bytes = l.row_bytes - int(at);  // bytes of this vector and of the later ones
  // The thread has `rows` vectors. The last blocks may have fewer rows than a column has threads.
  const bool is_used = row < l.rows && bytes > 0;
  const int rows = is_used ? int(unsigned(y1 - y0 - row + l.rows - 1) / unsigned(l.rows)) : 0;
  const uint8_t* const from = l.src + (y0 + row) * l.src_stride + at;
  uint8_t* const to = l.dst + (y0 + row) * l.dst_stride + at;
  const int64_t step = l.rows * l.src_stride, dst_step = l.rows * l.dst_stride;
  wait_for_previous();

  const bool whole = bytes >= 16;
  uint4 in[kBatch];
#pragma unroll
  for (int i = 0; i < kBatch; i++)
    if (i < rows && whole) in[i] = *reinterpret_cast<const uint4*>(from + i * step);
  if (l.channels == 0) {
    if (l.src == l.dst) return;
#pragma unroll
    for (int i = 0; i < kBatch; i++)
      if (i < rows && whole) *reinterpret_cast<uint4*>(to + i * dst_step) = in[i];
    if (!whole)
#pragma unroll 1
      for (int i = 0; i < rows; i++)
        store_part<T>(to + i * dst_step, load_part<T>(from + i * step, bytes), bytes);
    return;
  }
  if (is_used) {
    ComponentSums<T> own;
    if (whole) {
#pragma unroll
      for (int i = 0; i < kBatch; i++)
        if (i < rows) own.add(in[i]);
    } else {
#pragma unroll 1
      for (int i = 0; i < rows; i++) own.add(load_part<T>(from + i * step, bytes));
    }
    uint32_t word[8];
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      const uint32_t even = own.sum[i], odd = own.sum[i + 1];
      word[i] = sizeof(T) == 1 ? __byte_perm(even, odd, 0x5410) : even;
      word[i + 1] = sizeof(T) == 1 ? __byte_perm(even, odd, 0x7632) : odd;
    }
    shared.columns[threadIdx.x][0] = make_uint4(word[0], word[1], word[2], word[3]);
    shared.columns[threadIdx.x][1] = make_uint4(word[4], word[5], word[6], word[7]);
  }
  __syncthreads();
  with_channels(l.channels, [&](auto channels) {
    make_means<T, channels>(l, p.shift, b0, b1, y0, y1, shared);
  });
  __syncthreads();
  if (rows == 0) return;
  const uint4 mean = shared.means[column];
#pragma unroll
  for (int i = 0; i < kBatch; i++)
    if (i < rows && whole) *reinterpret_cast<uint4*>(to + i * dst_step) = mean;
  if (!whole)
#pragma unroll 1
    for (int i = 0; i < rows; i++) store_part<T>(to + i * dst_step, mean, bytes);
}

template <class T>
class NarrowPass final : public FramePass {
 public:
  bool prepare(const PixelateTask& task) {
    const Layout& layout = task.layout;
    args_ = strip_args(task);
    int64_t tiles = 0;
    bool copies = true;
    for (int i = 0; i < args_.planes; i++) {
      const PixelatePlane& plane = task.plane[i];
      StripPlane& l = args_.plane[i];
      const int channels = layout.plane[i].channels;
      l.channels = plane.copies() ? 0 : uint8_t(channels);
      l.row_bytes = int(row_bytes(layout, i));
      l.tiles = int(tiles);
      copies = copies && plane.copies();
      if (plane.copies()) {
        l.x = {1, 0, layout.plane[i].width, layout.plane[i].width};
        l.y = {kBatch, 0, blocks_of(layout.plane[i].height, kBatch), layout.plane[i].height};
      }
      const int high = l.y.maximum();
      if (high > kBatch * (kMaxThreads / kMaxVectors) || l.x.maximum() * high > kMaxSamples)
        return false;
      // So many blocks end between two vectors.
      const int unit = 16 << l.x.sub, units = blocks_of(l.x.count, unit);
      const int vectors = (unit * l.x.size >> l.x.sub) * channels * int(sizeof(T)) / 16;
      if (vectors > kMaxVectors) return false;
      l.tiles_x = blocks_of(units, kMaxVectors / vectors);
      const int together = blocks_of(units, l.tiles_x);
      l.tiles_x = blocks_of(units, together);
      l.across = together * unit;
      l.vectors = together * vectors;
      l.rows = blocks_of(high, kBatch);
      l.row_factor = ((1u << kRowShift) + unsigned(l.vectors) - 1) / unsigned(l.vectors);
      threads_ = std::max(threads_, (l.vectors * l.rows + 31) / 32 * 32);
      tiles += int64_t(l.tiles_x) * l.y.count;
      if (tiles > 0x7fffffff) return false;
    }
    tiles_ = unsigned(tiles);
    return !copies;
  }

  Status enqueue(CudaQueue& queue, const Image& src, const Image& dst) override {
    return launch("pixelation of narrow blocks", &pixelate_narrow<T>,
                  {tiles_, unsigned(threads_), 0, queue.device().starts_early()}, queue,
                  with_images(args_, src, dst));
  }

 private:
  StripArgs args_ = {};
  int threads_ = 0;
  unsigned tiles_ = 0;
};

}  // namespace

std::unique_ptr<FramePass> make_narrow(const PixelateTask& task) {
  return make_frame_pass<NarrowPass>(task);
}

}  // namespace vf::cuda
