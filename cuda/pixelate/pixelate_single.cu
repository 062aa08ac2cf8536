// Pixelates integers by single blocks, for images that are aligned to 16 bytes.
//
// Idea     A block of threads has a block of the pixelation. A thread adds up a vector of 16 bytes
//          of each of a few rows, as strips do (pixelate_strips.cuh); a mask leaves out what
//          belongs to the neighbours. Warps add by reductions and leave their sums in shared
//          memory; after one barrier each thread makes the means for itself, by a product with the
//          inverse of the count, which is ready before. Whole vectors are written by the threads
//          that read them; the parts of vectors at the left and at the right have a thread each,
//          so that no warp makes both.
// Traffic  Each byte is read once and written once, except vectors at the edges of blocks, which
//          two blocks read. One launch makes all planes, also in place.
// Tile     A tile is one block of the pixelation. The plan chooses this kernel if blocks are too
//          wide or too few for strips of several.
// Cache    If L2 cannot hold both a frame's source and its result, the kernel marks both for early
//          eviction. Otherwise the next filter finds the result there.
// Limit    The latency of a thread's instructions limits the speed: with one tile per
//          multiprocessor, nothing hides it. The kernel does all work that does not need the frame
//          before it waits for the previous kernels.
#include "cuda/pixelate/pixelate_strips.cuh"

namespace vf::cuda {
namespace {

struct alignas(16) Shared {
  uint32_t sums[kMaxChannels], upper[kMaxChannels];  // upper: in units of 65536, of 16 bits
};

// kStreams: marked as what L2 gives up first.
template <bool kStreams>
__device__ __forceinline__ uint4 load(const uint8_t* from) {
  const auto* vector = reinterpret_cast<const uint4*>(from);
  return kStreams ? __ldcs(vector) : *vector;
}
template <bool kStreams>
__device__ __forceinline__ void store(uint8_t* to, const uint4& v) {
  auto* vector = reinterpret_cast<uint4*>(to);
  if constexpr (kStreams)
    __stcs(vector, v);
  else
    *vector = v;
}

// Writes the parts of vectors that are a block's at its left and at its right.
template <class T, int kChannels>
__device__ __forceinline__ void write_edges(const StripPlane& l, const Components& r,
                                            const T (&means)[kChannels]) {
  constexpr int kN = kComponents<T>;
  const int left = int(unsigned(r.x0) / kN), right = int(unsigned(r.x1) / kN);
  const int begin = r.x0 - left * kN, end = r.x1 - right * kN;
  if (begin == 0 && end == 0) return;
#pragma unroll 1
  for (int i = int(threadIdx.x); i < 2 * (r.y1 - r.y0); i += int(blockDim.x)) {
    const bool at_left = i % 2 != 0;
    const int v = at_left ? left : right, count = at_left ? kN - begin : end;
    const int phase = kChannels == 3 ? int(unsigned(v * kN) % 3) : 0;
    uint32_t out[4];
#pragma unroll
    for (int w = 0; w < 4; w++) out[w] = means_word<T>(means, phase, w);
    uint8_t* const to = l.dst + (r.y0 + i / 2) * l.dst_stride + int64_t(v) * 16;
    if (left != right && count < kN)
      Part(count * int(sizeof(T)), at_left, out).store(to);
    else if (left == right && at_left)
      store_components<T>(to, out, begin, end);
  }
}

template <class T, int kChannels, bool kStreams>
__device__ __forceinline__ void make_block(const StripArgs& p, const StripPlane& l,
                                           Shared& shared) {
  constexpr int kN = kComponents<T>, kSize = int(sizeof(T));
  const int bx = int(blockIdx.x), by = int(blockIdx.y);
  if (bx >= l.x.count || by >= l.y.count) return;
  const int left = l.x.edge(bx), right = l.x.edge(bx + 1);
  const int x0 = left * kChannels, x1 = right * kChannels;
  const int y0 = l.y.edge(by), y1 = l.y.edge(by + 1);
  const uint32_t unit = uint32_t((right - left) * (y1 - y0)) << p.shift;
  const float inverse = 1 / float(unit);
  const int row = int(threadIdx.x * l.row_factor >> kRowShift);
  const int v0 = int(unsigned(x0) / kN), v = v0 + int(threadIdx.x) - row * l.vectors;
  const int first = v * kN, begin = x0 - first, end = x1 - first;  // components of the vector
  const bool active = row < l.rows && end > 0;
  // Rows of the thread.
  const int rows = active ? int(unsigned(y1 - y0 - row + l.rows - 1) / unsigned(l.rows)) : 0;
  const uint8_t* from = l.src + (y0 + row) * l.src_stride + int64_t(v) * 16;
  uint8_t* to = l.dst + (y0 + row) * l.dst_stride + int64_t(v) * 16;
  const int step = l.rows * int(l.src_stride), dst_step = l.rows * int(l.dst_stride);
  const int bytes = l.row_bytes - v * 16;
  if (threadIdx.x < kMaxChannels) shared.sums[threadIdx.x] = shared.upper[threadIdx.x] = 0;
  __syncthreads();
  wait_for_previous();

  ComponentSums<T> own;
#pragma unroll 1
  for (int i0 = 0; i0 < rows; i0 += kBatch, from += kBatch * step) {
    uint4 in[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; i++) {
      in[i] = make_uint4(0, 0, 0, 0);
      if (i0 + i < rows && bytes >= 16) in[i] = load<kStreams>(from + int64_t(i) * step);
    }
    if (bytes < 16)
#pragma unroll 1
      for (int i = 0; i < kBatch && i0 + i < rows; i++)
        own.add(load_part<T>(from + int64_t(i) * step, bytes));
#pragma unroll
    for (int i = 0; i < kBatch; i++) own.add(in[i]);
  }
  own.template keep<kChannels * kSize % 4 == 0>(max(begin, 0), min(end, kN));
  uint32_t sums[kChannels] = {};
  own.add_channels(sums);
  // With three channels, the first component of a lane's vector is of any channel.
  const int phase = kChannels == 3 ? int(unsigned(first) % 3) : 0;
  uint32_t all[4] = {};
#pragma unroll
  for (int c = 0; c < kChannels; c++)
    all[c] = add_lanes(kChannels != 3         ? sums[c]
                       : phase == c           ? sums[0]
                       : phase == (c + 1) % 3 ? sums[2 % kChannels]
                                              : sums[1 % kChannels]);
  const int lane = int(threadIdx.x) & 31;
  if (lane < kChannels) add_sum<T>(&shared.sums[lane], &shared.upper[lane], pick(all, lane));
  __syncthreads();

  T means[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; c++)
    means[c] = mean_of<T>(shared.sums[c], shared.upper[c], unit, inverse, p.shift);
  if (active && begin <= 0 && end >= kN) {
    uint32_t out[4];
#pragma unroll
    for (int w = 0; w < 4; w++) out[w] = means_word<T>(means, phase, w);
#pragma unroll 1
    for (int i0 = 0; i0 < rows; i0 += kBatch, to += kBatch * dst_step)
#pragma unroll
      for (int i = 0; i < kBatch; i++)
        if (i0 + i < rows)
          store<kStreams>(to + int64_t(i) * dst_step, make_uint4(out[0], out[1], out[2], out[3]));
  }
  write_edges<T>(l, {x0, x1, y0, y1}, means);
}

template <class T, bool kStreams>
__global__ void __launch_bounds__(kSingleThreads)
    pixelate_single(const __grid_constant__ StripArgs p) {
  VF_SHARED(Shared, shared);
  let_next_start();
  const StripPlane& l = p.plane[blockIdx.z];
  switch (l.channels) {
    case 1:
      return make_block<T, 1, kStreams>(p, l, shared);
    case 2:
      return make_block<T, 2, kStreams>(p, l, shared);
    case 3:
      return make_block<T, 3, kStreams>(p, l, shared);
    default:
      return make_block<T, 4, kStreams>(p, l, shared);
  }
}

}  // namespace

template <class T>
StripKernel single_kernel(bool streams) {
  return streams ? &pixelate_single<T, true> : &pixelate_single<T, false>;
}
template StripKernel single_kernel<uint8_t>(bool streams);
template StripKernel single_kernel<uint16_t>(bool streams);

}  // namespace vf::cuda
