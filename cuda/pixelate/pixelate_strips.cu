// Pixelates integers by strips of blocks, for images that are aligned to 16 bytes.
//
// Idea     A block of threads has some blocks of the pixelation side by side. A thread has a vector
//          of 16 bytes in each of a few rows, all of whose loads are under way at once, and adds
//          them up by components, two or four to a word. A vector lies in two blocks at most.
//          Threads add their sums for each block in shared memory. A thread for each block and
//          channel divides, and then all threads write the means where they have read.
// Traffic  Each byte is read once and written once, except vectors at the ends of a strip, which
//          two strips read. One launch makes all planes, also in place.
// Tile     A tile has as many blocks as have 32 vectors, or fewer if there were too few tiles.
// Limit    The instructions around a thread's few loads limit the speed, and so does the latency
//          of loads, sums and means, which follow each other.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "cuda/core/launch.h"
#include "cuda/core/plane_pass.h"
#include "cuda/pixelate/pixelate.h"
#include "cuda/pixelate/pixelate_strips.cuh"

namespace vf::cuda {
namespace {

constexpr int kMaxThreads = 640, kMaxVectors = 32;
// Largest number of sums of a tile: one for each of its blocks and channels.
constexpr int kMaxSums = 160;
// Blocks that are wide and high enough: a vector lies in two of them at most, and the rows of the
// plane with the highest leave a thread enough to do.
constexpr int kMinBytes = 16, kMinRows = 8;
// Tiles that a multiprocessor should have before they become narrower.
constexpr int kManyTiles = 2;
constexpr unsigned kMaxGridY = 65535;

struct Shared {
  uint32_t sums[kMaxSums], upper[kMaxSums];  // upper: in units of 65536, of 16 bits
  uint32_t unit[kMaxSums];
  float inverse[kMaxSums];
  uint16_t means[kMaxSums];
};

template <class T, int kChannels>
__device__ __forceinline__ void make_strip(const StripArgs& p, const StripPlane& l, int index,
                                           Shared& shared) {
  constexpr int kN = kComponents<T>, kSize = int(sizeof(T));
  const int tile_y = int(unsigned(index) / unsigned(l.tiles_x)),
            tile_x = index - tile_y * l.tiles_x;
  const int b0 = tile_x * l.across, b1 = min(b0 + l.across, l.x.count);
  const int x0 = l.x.edge(b0) * kChannels, x1 = l.x.edge(b1) * kChannels;
  const int y0 = l.y.edge(tile_y), y1 = l.y.edge(tile_y + 1);
  const int row = int(threadIdx.x * l.row_factor >> kRowShift);
  const int v = x0 / kN + int(threadIdx.x) - row * l.vectors, first = v * kN;
  const bool active = row < l.rows && first < x1;
  // Components of the vector that are the strip's: to `split` of one block, from there of the next.
  const int begin = max(x0 - first, 0), end = min(x1 - first, kN);
  const int block = active ? l.x.block_of((first + begin) / kChannels) : b0;
  const int split = min(l.x.edge(block + 1) * kChannels - first, end);

  const int sums = (b1 - b0) * kChannels;
  if (int(threadIdx.x) < sums) {
    const int b = b0 + int(threadIdx.x) / kChannels;
    const uint32_t unit = uint32_t((l.x.edge(b + 1) - l.x.edge(b)) * (y1 - y0)) << p.shift;
    shared.sums[threadIdx.x] = shared.upper[threadIdx.x] = 0;
    shared.unit[threadIdx.x] = unit;
    shared.inverse[threadIdx.x] = 1 / float(unit);
  }
  wait_for_previous();
  ComponentSums<T> own;
  const uint8_t* from = l.src + (y0 + row) * l.src_stride + int64_t(v) * 16;
  const int64_t step = l.rows * l.src_stride;
  const int bytes = l.row_bytes - v * 16;
#pragma unroll 1
  for (int y = active ? y0 + row : y1; y < y1; y += kBatch * l.rows, from += kBatch * step) {
    uint4 in[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; i++) {
      in[i] = make_uint4(0, 0, 0, 0);
      if (y + i * l.rows < y1 && bytes >= 16)
        in[i] = *reinterpret_cast<const uint4*>(from + i * step);
    }
    if (bytes < 16)
#pragma unroll 1
      for (int i = 0; i < kBatch && y + i * l.rows < y1; i++)
        own.add(load_part<T>(from + i * step, bytes));
#pragma unroll
    for (int i = 0; i < kBatch; i++) own.add(in[i]);
  }
  // By channels, counted from that of the first component.
  uint32_t left[kChannels] = {}, right[kChannels] = {};
  if (begin == 0 && split == kN) {
    own.add_channels(left);
  } else {
#pragma unroll
    for (int i = 0; i < kN; i++) {
      const uint32_t component = own.component(i);
      left[i % kChannels] += i >= begin && i < split ? component : 0;
      right[i % kChannels] += i >= split && i < end ? component : 0;
    }
  }
  const int phase = kChannels == 3 ? int(unsigned(first) % 3) : 0;
  __syncthreads();
  const int at = (block - b0) * kChannels;
  if (active) {
#pragma unroll
    for (int i = 0; i < kChannels; i++) {
      const int of = at + (kChannels == 3 ? (i + phase) % 3 : i), next = of + kChannels;
      add_sum<T>(&shared.sums[of], &shared.upper[of], left[i]);
      if (split < end) add_sum<T>(&shared.sums[next], &shared.upper[next], right[i]);
    }
  }
  __syncthreads();
  if (int(threadIdx.x) < sums) {
    const int i = int(threadIdx.x);
    shared.means[i] =
        mean_of<T>(shared.sums[i], shared.upper[i], shared.unit[i], shared.inverse[i], p.shift);
  }
  __syncthreads();
  if (!active) return;

  T one[kChannels], other[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; c++) {
    one[c] = T(shared.means[at + c]);
    other[c] = T(shared.means[split < end ? at + kChannels + c : at + c]);
  }
  uint32_t out[4];
#pragma unroll
  for (int w = 0; w < 4; w++) {
    const uint32_t mask = bytes_below(split * kSize, w);
    out[w] = (means_word<T>(one, phase, w) & mask) | (means_word<T>(other, phase, w) & ~mask);
  }
  uint8_t* to = l.dst + (y0 + row) * l.dst_stride + int64_t(v) * 16;
  const int64_t dst_step = l.rows * l.dst_stride;
  if (begin == 0 && end == kN) {
#pragma unroll 4
    for (int y = y0 + row; y < y1; y += l.rows, to += dst_step)
      *reinterpret_cast<uint4*>(to) = make_uint4(out[0], out[1], out[2], out[3]);
    return;
  }
  if (begin == 0 || end == kN) {
    const Part part((begin == 0 ? end : kN - begin) * kSize, begin != 0, out);
#pragma unroll 2
    for (int y = y0 + row; y < y1; y += l.rows, to += dst_step) part.store(to);
    return;
  }
#pragma unroll 1
  for (int y = y0 + row; y < y1; y += l.rows, to += dst_step)
    store_components<T>(to, out, begin, end);
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads)
    pixelate_strips(const __grid_constant__ StripArgs p) {
  VF_SHARED(Shared, shared);
  let_next_start();
  int index;
  const StripPlane& l = plane_of_tile(p, &index);
  with_channels(l.channels, [&](auto channels) { make_strip<T, channels>(p, l, index, shared); });
}

template <class T>
class StripPass final : public FramePass {
 public:
  bool prepare(const PixelateTask& task, CudaQueue& queue) {
    const Layout& layout = task.layout;
    const int processors = queue.device().processors;
    args_ = strip_args(task);
    int highest = 0;
    for (int i = 0; i < args_.planes; i++) {
      StripPlane& l = args_.plane[i];
      l.channels = uint8_t(layout.plane[i].channels);
      l.row_bytes = int(row_bytes(layout, i));
      highest = std::max(highest, l.y.maximum());
      if (l.x.count > 1 && (l.x.size >> l.x.sub) * l.channels * int(sizeof(T)) < kMinBytes)
        return false;
      l.across = std::clamp((kMaxVectors * 16 - 15) / wide(l), 1, l.x.count);
      while (l.across * l.channels > kMaxSums) l.across--;
      while (l.across > 1 && tiles_of(l) < kManyTiles * processors) l.across--;
      single_ = single_ || l.across == 1;
    }
    int64_t tiles = 0, bytes = 0;
    for (int i = 0; i < args_.planes; i++) {
      StripPlane& l = args_.plane[i];
      if (single_) l.across = 1;
      if (!set_shape(l)) return false;
      l.tiles = int(tiles);
      tiles += tiles_of(l);
      bytes += int64_t(l.row_bytes) * layout.plane[i].height;
      if (tiles > 0x7fffffff) return false;
      threads_ = std::max(threads_, std::max(l.vectors * l.rows, l.across * l.channels));
      grid_.x = std::max(grid_.x, unsigned(l.tiles_x));
      grid_.y = std::max(grid_.y, unsigned(l.y.count));
    }
    threads_ = (threads_ + 31) / 32 * 32;
    for (int i = 0; i < args_.planes; i++) {
      StripPlane& l = args_.plane[i];
      l.rows = std::min(threads_ / l.vectors, l.y.maximum());
      most_ = std::max(most_, blocks_of(l.y.maximum(), l.rows));
    }
    grid_.z = unsigned(args_.planes);
    if (!single_) grid_ = dim3(unsigned(tiles));
    streams_ = 2 * bytes > queue.device().cache;
    return highest >= kMinRows && 2 * tiles >= processors && grid_.y <= kMaxGridY;
  }

  bool takes(const Image& src, const Image& dst) const override {
    if (!are_aligned(src, dst, 16)) return false;
    for (int i = 0; i < args_.planes; i++) {
      // The kernel for single blocks counts the bytes of a plane by ints.
      const int64_t stride = std::max(std::abs(src.stride[i]), std::abs(dst.stride[i]));
      const int rows = std::max(args_.plane[i].y.length, args_.plane[i].rows * kBatch);
      if (single_ && stride * rows > INT32_MAX) return false;
    }
    return true;
  }

  Status enqueue(CudaQueue& queue, const Image& src, const Image& dst) override {
    return launch(single_ ? "pixelation of single blocks" : "pixelation of strips",
                  single_ ? single_kernel<T>(streams_, most_) : &pixelate_strips<T>,
                  {grid_, unsigned(threads_), 0, single_ && queue.device().starts_early()}, queue,
                  with_images(args_, src, dst));
  }

 private:
  // Return the bytes of a row of a block, and the tiles of a plane.
  static int wide(const StripPlane& l) { return l.x.maximum() * l.channels * int(sizeof(T)); }
  static int64_t tiles_of(const StripPlane& l) {
    return int64_t(blocks_of(l.x.count, l.across)) * l.y.count;
  }

  // Sets the fields that follow from the blocks of a tile. False if no kernel can have such a tile.
  bool set_shape(StripPlane& l) const {
    const int high = l.y.maximum(), maximum = single_ ? kSingleThreads : kMaxThreads;
    const int few = single_ ? kSingleRows : kBatch;
    const int64_t block = int64_t(l.x.maximum()) * high;
    l.tiles_x = blocks_of(l.x.count, l.across);
    l.vectors = std::min((l.across * wide(l) + 15 + 15) / 16, (l.row_bytes + 15) / 16);
    if (l.vectors > maximum) return false;
    l.row_factor = ((1u << kRowShift) + unsigned(l.vectors) - 1) / unsigned(l.vectors);
    l.rows = std::clamp(blocks_of(high, few), 1, maximum / l.vectors);
    const int rows = blocks_of(high, l.rows);
    return rows <= kMaxRows && block << args_.shift < kUnitLimit<T>;
  }

  StripArgs args_ = {};
  dim3 grid_ = dim3(1);
  int threads_ = 0;
  int most_ = 0;          // the largest number of rows of a thread
  bool single_ = false;   // a tile has one block
  bool streams_ = false;  // L2 cannot hold the frame's source and its result
};

}  // namespace

std::unique_ptr<FramePass> make_strips(CudaQueue& queue, const PixelateTask& task) {
  for (int i = 0; i < task.layout.planes; i++)
    if (task.plane[i].copies()) return nullptr;
  return make_frame_pass<StripPass>(task, queue);
}

}  // namespace vf::cuda
