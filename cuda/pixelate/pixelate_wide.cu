// Pixelation of wide blocks of integers, for images that are aligned to 16 bytes.
//
// Idea     A block of threads has a block of the pixelation to itself. A thread reads vectors of 16
//          bytes, one below the other, and adds up the components of each channel by dot products
//          with ones and zeros, which also leave out what belongs to the neighbours. The sums of
//          all threads are added by shuffles, over one barrier, and each thread writes means where
//          it has read.
// Traffic  Each byte is read once and written once, but for vectors at the edges of blocks, which
//          two of them read. One launch for all planes, in place too.
// Tile     A block of the pixelation. Where there are too few of them, blocks are divided into
// bands
//          of rows: a first launch leaves the sums of each band, a second one, started early, adds
//          and writes them.
#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/core/plane_pass.h"
#include "cuda/pixelate/pixelate.h"
#include "cuda/pixelate/pixelate_vectors.cuh"

namespace vf::cuda {
namespace {

constexpr int kLeastThreads = 128, kMostThreads = 1024;
// Blocks that are wide have so many vectors in the plane with the largest, and in each plane so
// many bytes and rows.
constexpr int kLeastVectors = 512, kLeastBytes = 32, kLeastRows = 16;
// Vectors of a thread whose components 32 bits add up for a warp.
template <class T>
constexpr int kMostOfThread = sizeof(T) == 1 ? 32768 : 256;
// Rows of a thread that let it have as many loads under way as it takes.
constexpr int kRowsOfThread = 2;
// Bands that a multiprocessor should have where there are fewer tiles than multiprocessors.
constexpr int kBands = 2;

struct WidePlane {
  const uint8_t* src;
  uint8_t* dst;
  int64_t src_stride, dst_stride;
  BlockAxis x, y;
  int tiles;    // before this plane's
  int vectors;  // of a row of the widest tile
  int row_bytes;
  int bands;     // of a tile
  int64_t sums;  // before this plane's
  uint8_t channels;
};
struct WideArgs {
  WidePlane plane[kMaxPlanes];
  int planes, shift;
  uint64_t* sums;  // by plane, block, band, channel
};

// Of a block of threads.
struct Shared {
  uint32_t sums[kMostThreads / 32][kMaxChannels];  // of each warp
  uint16_t means[kMaxChannels];
};

// A block's tile: block (bx, by) of the plane, of which it has rows y0 to y1.
template <class T, int kChannels, Step kStep>
__device__ __forceinline__ void make_tile(const WideArgs& p, const WidePlane& l, int index,
                                          Shared& shared) {
  const int bands = kStep == Step::all ? 1 : l.bands;
  const int block = int(unsigned(index) / unsigned(bands)), band = index - block * bands;
  const int by = int(unsigned(block) / unsigned(l.x.count)), bx = block - by * l.x.count;
  const int left = l.x.edge(bx), right = l.x.edge(bx + 1);
  const int x0 = left * kChannels, x1 = right * kChannels;
  const int top = l.y.edge(by), high = l.y.edge(by + 1) - top;
  const int y0 = top + high * band / bands, y1 = top + high * (band + 1) / bands;
  const VectorShare share = share_vectors(int(threadIdx.x), int(blockDim.x), l.vectors);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  uint64_t* const memory = p.sums + l.sums + int64_t(block) * l.bands * kChannels;

  if (kStep == Step::means) {
    wait_for_previous();
  } else {
    uint64_t sums[kChannels] = {};
    add_vectors<T>(l.src, l.src_stride, l.row_bytes, {x0, x1, y0, y1}, share, sums);
#pragma unroll
    for (int c = 0; c < kChannels; c++) {
      // 32 bits hold what a warp has (kMostOfThread).
      const uint32_t sum = add_lanes(uint32_t(sums[c]));
      if (lane == 0) shared.sums[warp][c] = sum;
    }
    __syncthreads();
  }
  // A warp for each channel.
  if (warp < kChannels) {
    uint64_t sum = 0;
    if (kStep != Step::means)
      sum = lane < int(blockDim.x) / 32 ? shared.sums[lane][warp] : 0;
    else
      for (int i = lane; i < bands; i += 32) sum += memory[i * kChannels + warp];
    sum = add_lanes(sum);
    if (lane == 0) {
      const uint64_t count = uint64_t(right - left) * uint64_t(high);
      if (kStep == Step::sums)
        memory[band * kChannels + warp] = sum;
      else
        shared.means[warp] = block_mean<T>(sum, count, p.shift);
    }
  }
  if (kStep == Step::sums) return;
  __syncthreads();
  T means[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; c++) means[c] = T(shared.means[c]);
  write_vectors<T>(l.dst, l.dst_stride, {x0, x1, y0, y1}, share, means);
}

template <class T, Step kStep>
__global__ void __launch_bounds__(kMostThreads) pixelate_wide(const __grid_constant__ WideArgs p) {
  VF_SHARED(Shared, shared);
  let_next_start();
  int plane = 0;
  while (plane + 1 < p.planes && int(blockIdx.x) >= p.plane[plane + 1].tiles) plane++;
  const WidePlane& l = p.plane[plane];
  const int index = int(blockIdx.x) - l.tiles;
  switch (l.channels) {
    case 1:
      return make_tile<T, 1, kStep>(p, l, index, shared);
    case 2:
      return make_tile<T, 2, kStep>(p, l, index, shared);
    case 3:
      return make_tile<T, 3, kStep>(p, l, index, shared);
    default:
      return make_tile<T, 4, kStep>(p, l, index, shared);
  }
}

template <class T>
class WidePlan final : public Plan {
 public:
  WidePlan(CudaQueue& queue, const PixelateTask& task)
      : Plan(queue, task.layout, task.layout, task.placement), cuda_(queue) {}

  Status prepare(const PixelateTask& task) {
    const int processors = cuda_.device().processors;
    args_.planes = source().planes;
    args_.shift = source().shift;
    int64_t tiles = 0, work = 0;  // of a thread block: vectors
    for (int i = 0; i < args_.planes; i++) {
      WidePlane& l = args_.plane[i];
      l.x = task.plane[i].x;
      l.y = task.plane[i].y;
      l.channels = uint8_t(source().plane[i].channels);
      l.row_bytes = int(row_bytes(source(), i));
      l.vectors = vectors_of<T>(l.x.most() * l.channels);
      tiles += int64_t(l.x.count) * l.y.count;
      work = std::max(work, int64_t(l.vectors) * l.y.most());
    }
    bands_ = 1;
    if (2 * tiles <= processors)
      bands_ = int(std::clamp<int64_t>(kBands * processors / tiles, 1,
                                       std::max<int64_t>(work / kLeastThreads, 1)));
    work /= bands_;
    // As many as multiprocessors have room for, but no more than there is work for.
    threads_ = kLeastThreads;
    while (threads_ < kMostThreads && work > kRowsOfThread * threads_ &&
           tiles * bands_ * 2 * threads_ <= int64_t(processors) * kMostThreads)
      threads_ *= 2;
    int64_t sums = 0;
    tiles_ = 0;
    for (int i = 0; i < args_.planes; i++) {
      WidePlane& l = args_.plane[i];
      l.bands = bands_;
      l.tiles = tiles_;
      l.sums = sums;
      const int own = l.x.count * l.y.count * bands_;
      tiles_ += own;
      sums += int64_t(own) * l.channels;
    }
    if (bands_ > 1)
      VF_TRY(cuda_.allocate(Memory::device, size_t(sums) * sizeof(uint64_t), &memory_));
    args_.sums = memory_.as<uint64_t>();
    return {};
  }

  // Whether 32 bits hold the sums of warps.
  bool adds_up() const {
    for (int i = 0; i < args_.planes; i++) {
      const WidePlane& l = args_.plane[i];
      const int across = std::min(l.vectors, threads_), down = threads_ / across;
      const int64_t rows = (l.y.most() + bands_ - 1) / bands_;
      if ((l.vectors + across - 1) / across * ((rows + down - 1) / down) > kMostOfThread<T>)
        return false;
    }
    return true;
  }
  void set_other(std::unique_ptr<Plan> other) { other_ = std::move(other); }

 private:
  Status enqueue(const Image& src, const Image& dst) override {
    WideArgs args = args_;
    for (int i = 0; i < args.planes; i++) {
      if (!is_aligned(src.data[i], src.stride[i], 16) ||
          !is_aligned(dst.data[i], dst.stride[i], 16))
        return other_->run(src, dst);
      WidePlane& l = args.plane[i];
      l.src = static_cast<const uint8_t*>(src.data[i]);
      l.dst = static_cast<uint8_t*>(dst.data[i]);
      l.src_stride = src.stride[i];
      l.dst_stride = dst.stride[i];
    }
    Launch shape = {unsigned(tiles_), unsigned(threads_)};
    if (bands_ == 1)
      return launch("pixelation of wide blocks", &pixelate_wide<T, Step::all>, shape,
                    cuda_.cuda_stream(), args);
    VF_TRY(
        launch("sums of bands", &pixelate_wide<T, Step::sums>, shape, cuda_.cuda_stream(), args));
    shape.early = cuda_.device().capability >= 90;
    return launch("means of bands", &pixelate_wide<T, Step::means>, shape, cuda_.cuda_stream(),
                  args);
  }

  CudaQueue& cuda_;
  std::unique_ptr<Plan> other_;
  WideArgs args_ = {};
  int tiles_ = 0, threads_ = 0, bands_ = 1;
  Allocation memory_;
};

// Whether all planes have wide blocks, all of whose channels are filtered.
bool is_wide(const PixelateTask& task) {
  const Layout& layout = task.layout;
  if (layout.type != Type::u8 && layout.type != Type::u16) return false;
  int64_t most = 0;
  for (int i = 0; i < layout.planes; i++) {
    const PlaneLayout& l = layout.plane[i];
    const PixelatePlane& plane = task.plane[i];
    const int64_t bytes = int64_t(plane.x.most()) * l.channels * int(size_of(layout.type));
    if (l.pixel_step() != l.channels || plane.copies() || plane.channels != (1 << l.channels) - 1 ||
        bytes < kLeastBytes || plane.y.most() < kLeastRows)
      return false;
    most = std::max(most, (bytes + 15) / 16 * plane.y.most());
  }
  return most >= kLeastVectors;
}

template <class T>
Status make(CudaQueue& queue, const PixelateTask& task, std::unique_ptr<Plan> other,
            std::unique_ptr<Plan>* out) {
  auto plan = std::make_unique<WidePlan<T>>(queue, task);
  VF_TRY(plan->prepare(task));
  if (!plan->adds_up()) {
    *out = std::move(other);
    return {};
  }
  plan->set_other(std::move(other));
  *out = std::move(plan);
  return {};
}

}  // namespace

Status make_wide_pixelate(CudaQueue& queue, const PixelateTask& task, std::unique_ptr<Plan> other,
                          std::unique_ptr<Plan>* out) {
  if (!is_wide(task)) {
    *out = std::move(other);
    return {};
  }
  return task.layout.type == Type::u8 ? make<uint8_t>(queue, task, std::move(other), out)
                                      : make<uint16_t>(queue, task, std::move(other), out);
}

}  // namespace vf::cuda
