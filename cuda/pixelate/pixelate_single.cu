// Pixelates integers by single blocks, for images that are aligned to 16 bytes.
//
// Idea     A block of threads has a block of the pixelation. A thread adds up a vector of 16 bytes
//          of each of a few rows, by dot products with factors: they are 0 for what belongs to the
//          neighbours. Warps leave their sums in shared memory; after one barrier each warp adds
//          them again, and each thread makes the means for itself, by a product with the inverse of
//          the count. Whole vectors are written by the threads that read them; the parts of vectors
//          at the left and at the right have a thread each, so that no warp makes both.
// Traffic  Each byte is read once and written once, except vectors at the edges of blocks, which
//          two blocks read. One launch makes all planes, also in place.
// Tile     A tile is one block of the pixelation. The plan chooses this kernel if blocks are too
//          wide or too few for strips of several.
// Cache    If L2 cannot hold both a frame's source and its result, the kernel marks both for early
//          eviction.
// Limit    The latency of a thread's instructions: with one tile per multiprocessor, nothing hides
//          it. The kernel does all work that does not need the frame before it waits for the
//          previous kernels, and asks L2 for the frame.
#include "cuda/pixelate/pixelate_strips.cuh"

namespace vf::cuda {
namespace {

struct Shared {
  uint32_t sums[kMaxChannels][32];  // sums of the channels, by warp
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

// Writes the parts of vectors at a block's left and, by even threads, at its right.
template <class T, int kChannels>
struct Edges {
  static constexpr int kN = kComponents<T>;
  int at;     // first byte of the thread's first vector
  int below;  // rows from there
  int begin, end;
  int phase;

  __device__ __forceinline__ Edges(const StripPlane& l, const Components& r, int thread) {
    const int left = int(unsigned(r.x0) / kN), right = int(unsigned(r.x1) / kN);
    const bool at_left = thread % 2 != 0;
    const int v = at_left ? left : right;
    begin = at_left ? r.x0 - left * kN : 0;
    end = at_left && left != right ? kN : r.x1 - right * kN;
    phase = kChannels == 3 ? int(unsigned(v * kN) % 3) : 0;
    at = (r.y0 + thread / 2) * int(l.dst_stride) + v * 16;
    const bool part = begin < end && end - begin < kN && (at_left || left != right);
    below = part ? r.y1 - r.y0 - thread / 2 : 0;
  }
  __device__ __forceinline__ void settle() {
    cuda::settle(at);
    cuda::settle(below);
    cuda::settle(begin);
    cuda::settle(end);
  }
  __device__ __forceinline__ void write(const StripPlane& l, const T (&means)[kChannels]) const {
    if (below <= 0) return;
    uint32_t out[4];
#pragma unroll
    for (int w = 0; w < 4; w++) out[w] = means_word<T>(means, phase, w);
    const Part part((end - begin) * int(sizeof(T)), begin != 0, out);
    const int step = int(blockDim.x) / 2;
    uint8_t* to = l.dst + at;
#pragma unroll 1
    for (int y = 0; y < below; y += step, to += step * l.dst_stride) {
      if (begin == 0 || end == kN)
        part.store(to);
      else
        store_components<T>(to, out, begin, end);
    }
  }
};

// Adds up the components `begin` to `end` of vectors by channels, by dot products. A factor is 1
// for each component of its channel, and 0 for others. The first component is of channel `phase`.
template <class T, int kChannels>
struct ChannelSums {
  static constexpr int kWord = 4 / int(sizeof(T));
  // Additions that wait for each other take longer than they have to.
  static constexpr int kChains = 2;
  uint32_t factors[kChannels][4], sums[kChains][kChannels] = {};

  // Returns the factors of a channel in word w.
  static constexpr uint32_t of(int channel, int w, int phase) {
    uint32_t factors = 0;
    for (int i = 0; i < kWord; i++)
      if ((w * kWord + i + phase) % kChannels == channel) factors |= 1u << (8 * i);
    return factors;
  }
  // Returns a mask of the factors of the first `count` components in word w.
  static __device__ __forceinline__ uint32_t below(int count, int w) {
    const int bits = 8 * max(min(count - kWord * w, kWord), 0);
    return uint32_t((uint64_t(1) << bits) - 1);
  }
  __device__ __forceinline__ ChannelSums(int phase, int begin, int end) {
#pragma unroll
    for (int w = 0; w < 4; w++) {
      const uint32_t mask = below(end, w) & ~below(begin, w);
#pragma unroll
      for (int c = 0; c < kChannels; c++) {
        const uint32_t f[3] = {of(c, w, 0), of(c, w, 1), of(c, w, 2)};
        factors[c][w] = (kChannels != 3 || phase == 0 ? f[0] : phase == 1 ? f[1] : f[2]) & mask;
      }
    }
  }
  __device__ __forceinline__ void settle() {
#pragma unroll
    for (int c = 0; c < kChannels; c++)
#pragma unroll
      for (int w = 0; w < 4; w++)
        if (kChannels == 3 || of(c, w, 0)) cuda::settle(factors[c][w]);
  }
  __device__ __forceinline__ void add(const uint4& v, int chain = 0) {
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int w = 0; w < 4; w++)
#pragma unroll
      for (int c = 0; c < kChannels; c++)
        if (kChannels == 3 || of(c, w, 0))
          sums[chain][c] = add_products<T>(word[w], factors[c][w], sums[chain][c]);
  }
  __device__ __forceinline__ uint32_t sum(int c) const {
    return sums[0][c] + sums[1][c];
  }
};

// kAtOnce: the number of rows of a thread whose loads are under way at once.
template <class T, int kChannels, bool kStreams, int kAtOnce>
__device__ __forceinline__ void make_block(const StripArgs& p, const StripPlane& l,
                                           Shared& shared) {
  constexpr int kN = kComponents<T>;
  const int bx = int(blockIdx.x), by = int(blockIdx.y);
  if (bx >= l.x.count || by >= l.y.count) return;
  const int thread = int(threadIdx.x);
  const int left = l.x.edge(bx), right = l.x.edge(bx + 1);
  const int x0 = left * kChannels, x1 = right * kChannels;
  const int y0 = l.y.edge(by), y1 = l.y.edge(by + 1);
  uint32_t unit = uint32_t((right - left) * (y1 - y0)) << p.shift;
  float inverse = 1 / float(unit);
  const int row = int(unsigned(thread) * l.row_factor >> kRowShift);
  const int v0 = int(unsigned(x0) / kN), v = v0 + thread - row * l.vectors;
  const int first = v * kN, begin = x0 - first, end = x1 - first;  // components of the vector
  const bool active = row < l.rows && end > 0;
  // Row i of the thread is one of the block if i * l.rows < below.
  int below = active ? y1 - y0 - row : 0;
  int from_at = (y0 + row) * int(l.src_stride) + v * 16;
  int to_at = (y0 + row) * int(l.dst_stride) + v * 16;
  int step = l.rows * int(l.src_stride), dst_step = l.rows * int(l.dst_stride);
  const int bytes = l.row_bytes - v * 16;
  // With three channels, the first component of a lane's vector is of any channel.
  const int phase = kChannels == 3 ? int(unsigned(first) % 3) : 0;
  ChannelSums<T, kChannels> own(phase, max(begin, 0), min(end, kN));
  const int lane = thread & 31, warps = int(blockDim.x) / 32;
  Edges<T, kChannels> edges(l, {x0, x1, y0, y1}, thread);
  // All this is ready before the wait.
  own.settle();
  edges.settle();
  settle(inverse);
  settle(unit);
  settle(from_at);
  settle(to_at);
  settle(step);
  settle(dst_step);
  settle(below);
#pragma unroll
  for (int i = 0; i < kAtOnce; i++)
    if (i * l.rows < below) prefetch(l.src + from_at + i * step);
  wait_for_previous();

  const uint8_t* from = l.src + from_at;
#pragma unroll 1
  for (int y = 0; y < below; y += kAtOnce * l.rows, from += kAtOnce * step) {
    uint4 in[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; i++) {
      in[i] = make_uint4(0, 0, 0, 0);
      if (y + i * l.rows < below && bytes >= 16) in[i] = load<kStreams>(from + int64_t(i) * step);
    }
    if (bytes < 16)
#pragma unroll 1
      for (int i = 0; i < kAtOnce && y + i * l.rows < below; i++)
        own.add(load_part<T>(from + int64_t(i) * step, bytes));
#pragma unroll
    for (int i = 0; i < kAtOnce; i++) own.add(in[i], i % 2);
  }
#pragma unroll
  for (int c = 0; c < kChannels; c++) {
    const uint32_t sum = sum_of_lanes(own.sum(c));
    if (lane == 0) shared.sums[c][thread / 32] = sum;
  }
  __syncthreads();

  T means[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; c++) {
    const uint32_t sum = lane < warps ? shared.sums[c][lane] : 0;
    const uint32_t low = sum_of_lanes(sizeof(T) == 1 ? sum : sum & 0xffffu);
    const uint32_t upper = sizeof(T) == 1 ? 0 : sum_of_lanes(sum >> 16);
    means[c] = mean_of<T>(low, upper, unit, inverse, p.shift);
  }
  if (active && begin <= 0 && end >= kN) {
    uint32_t out[4];
#pragma unroll
    for (int w = 0; w < 4; w++) out[w] = means_word<T>(means, phase, w);
    for (uint32_t& o : out) settle(o);
    uint8_t* to = l.dst + to_at;
#pragma unroll 1
    for (int y = 0; y < below; y += kAtOnce * l.rows, to += kAtOnce * dst_step)
#pragma unroll
      for (int i = 0; i < kAtOnce; i++)
        if (y + i * l.rows < below)
          store<kStreams>(to + int64_t(i) * dst_step, make_uint4(out[0], out[1], out[2], out[3]));
  }
  edges.write(l, means);
}

template <class T, bool kStreams, int kAtOnce>
__global__ void __launch_bounds__(kSingleThreads)
    pixelate_single(const __grid_constant__ StripArgs p) {
  VF_SHARED(Shared, shared);
  let_next_start();
  const StripPlane& l = p.plane[blockIdx.z];
  with_channels(l.channels,
                [&](auto channels) { make_block<T, channels, kStreams, kAtOnce>(p, l, shared); });
}

}  // namespace

template <class T>
StripKernel single_kernel(bool streams, int rows) {
  if (streams) return &pixelate_single<T, true, kBatch>;
  return rows > kSingleRows ? &pixelate_single<T, false, kBatch>
                            : &pixelate_single<T, false, kSingleRows>;
}
template StripKernel single_kernel<uint8_t>(bool streams, int rows);
template StripKernel single_kernel<uint16_t>(bool streams, int rows);

}  // namespace vf::cuda
