// Sums pixels for the kernels that pixelate strips and single blocks. A thread has a vector of 16
// bytes in each of a few rows, and adds them up by components, two or four to a word.
#pragma once

#include <memory>
#include <type_traits>

#include "cuda/core/plane_pass.h"
#include "cuda/pixelate/pixelate_vectors.cuh"

namespace vf::cuda {

// Number of rows of a thread whose loads are under way at once.
constexpr int kBatch = 8;

struct StripPlane {
  const uint8_t* src;
  uint8_t* dst;
  int64_t src_stride, dst_stride;
  BlockAxis x, y;
  int tiles;    // number of tiles of the previous planes
  int tiles_x;  // tiles in a row
  int across;   // blocks of a tile
  int vectors;  // vectors in a row of the widest tile
  int rows;     // rows of threads
  int row_bytes;
  uint32_t row_factor;  // thread i is in row i * row_factor >> kRowShift
  uint8_t channels;
};
struct StripArgs {
  StripPlane plane[kMaxPlanes];
  int planes, shift;
};

// Returns the arguments that all passes share: planes, and how blocks divide them.
inline StripArgs strip_args(const PixelateTask& task) {
  StripArgs a = {};
  a.planes = task.layout.planes;
  a.shift = task.layout.shift;
  for (int i = 0; i < a.planes; i++) {
    a.plane[i].x = task.plane[i].x;
    a.plane[i].y = task.plane[i].y;
  }
  return a;
}

// Makes the pass Pass<T> for a frame of integers whose pixels lie side by side, if all channels are
// filtered. Returns null otherwise, and where prepare() says that the pass cannot filter it.
template <template <class> class Pass, class... More>
std::unique_ptr<FramePass> make_frame_pass(const PixelateTask& task, More&... more) {
  const Layout& layout = task.layout;
  for (int i = 0; i < layout.planes; i++) {
    const PlaneLayout& l = layout.plane[i];
    const bool all = task.plane[i].channels == (1 << l.channels) - 1;
    if (l.pixel_step() != l.channels || !all) return nullptr;
  }
  const auto make = [&](auto type) -> std::unique_ptr<FramePass> {
    auto pass = std::make_unique<Pass<decltype(type)>>();
    if (!pass->prepare(task, more...)) return nullptr;
    return pass;
  };
  if (layout.type == Type::u8) return make(uint8_t());
  if (layout.type == Type::u16) return make(uint16_t());
  return nullptr;
}

inline StripArgs with_images(const StripArgs& args, const Image& src, const Image& dst) {
  StripArgs a = args;
  for (int i = 0; i < a.planes; i++) a.plane[i] = with_view(a.plane[i], view_of(src, dst, i));
  return a;
}

// Returns the plane of the thread block's tile. `tile` becomes the number of the tile in the plane.
__device__ __forceinline__ const StripPlane& plane_of_tile(const StripArgs& p, int* tile) {
  int plane = 0;
  while (plane + 1 < p.planes && int(blockIdx.x) >= p.plane[plane + 1].tiles) plane++;
  *tile = int(blockIdx.x) - p.plane[plane].tiles;
  return p.plane[plane];
}

// With this shift, the quotient is exact for up to 1024 threads and as many vectors.
constexpr int kRowShift = 20;

// Returns the kernel for single blocks (pixelate_single.cu). Its grid has the planes, and along
// each axis the largest number of blocks of any plane. `streams` is for frames larger than L2, and
// `rows` is the largest number of rows of a thread.
using StripKernel = void (*)(StripArgs);
template <class T>
StripKernel single_kernel(bool streams, int rows);
constexpr int kSingleThreads = 640;  // maximum number of threads of a block
// Number of rows of a thread, if there are enough threads.
constexpr int kSingleRows = 4;
// Maximum number of rows of a thread. 16 bits then hold the sum of four bytes of each row, and 32
// bits hold a warp's sums of 16-bit components.
constexpr int kMaxRows = 64;
// The number of samples of a block, times 1 << shift, is below this limit (mean_of).
template <class T>
constexpr int64_t kUnitLimit = sizeof(T) == 1 ? 1 << 24 : 1 << 30;

// Does what block_mean() does, for the sum `sum` + 65536 `upper` and units below kUnitLimit. The
// product with the inverse differs by at most one from the quotient, which has up to 17 bits. Bytes
// have no upper part and no unused bits.
template <class T>
__device__ __forceinline__ T mean_of(uint32_t sum, uint32_t upper, uint32_t unit, float inverse,
                                     int shift) {
  using Sum = std::conditional_t<sizeof(T) == 1, uint32_t, uint64_t>;
  Sum rounded = sum + unit / 2;
  if constexpr (sizeof(T) == 2) rounded += Sum(upper) << 16;
  uint32_t code = uint32_t(float(rounded) * inverse);
  const int rest = int(uint32_t(rounded) - code * unit);
  if (rest < 0) code--;
  if (rest >= int(unit)) code++;
  return sizeof(T) == 1 ? T(code) : T(min(code, 0xffffu >> shift) << shift);
}

// Adds to the sum that mean_of() takes. For bytes, its upper part stays zero.
template <class T>
__device__ __forceinline__ void add_sum(uint32_t* sum, uint32_t* upper, uint32_t more) {
  atomicAdd(sum, sizeof(T) == 1 ? more : more & 0xffffu);
  if (sizeof(T) == 2) atomicAdd(upper, more >> 16);
}

// Returns word w of a mask that selects the first `count` bytes of a vector.
__device__ __forceinline__ uint32_t bytes_below(int count, int w) {
  const int bits = 8 * max(min(count - 4 * w, 4), 0);
  return uint32_t((uint64_t(1) << bits) - 1);
}

// Sums of the components of vectors. For bytes, a word has two, of a word's even or odd bytes.
template <class T>
struct ComponentSums {
  uint32_t sum[8] = {};
  __device__ __forceinline__ void add(const uint4& v) {
    const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int w = 0; w < 4; w++) {
      if constexpr (sizeof(T) == 1) {
        sum[2 * w] += word[w] & 0x00ff00ffu;
        sum[2 * w + 1] += __byte_perm(word[w], 0, 0x4341);  // bytes 1 and 3
      } else {
        sum[2 * w] += word[w] & 0xffffu;
        sum[2 * w + 1] += word[w] >> 16;
      }
    }
  }
  __device__ __forceinline__ uint32_t component(int i) const {
    if constexpr (sizeof(T) == 1) return sum[i / 4 * 2 + i % 2] >> (i / 2 % 2 * 16) & 0xffffu;
    return sum[i];
  }
  // Adds the sums, of at most 64 rows of bytes, by channels from that of the first component on.
  template <int kChannels>
  __device__ __forceinline__ void add_channels(uint32_t (&sums)[kChannels]) const {
    if constexpr (sizeof(T) == 1 && kChannels != 3) {
      const uint32_t even = sum[0] + sum[2] + sum[4] + sum[6];
      const uint32_t odd = sum[1] + sum[3] + sum[5] + sum[7];
      const uint32_t four[4] = {even & 0xffffu, odd & 0xffffu, even >> 16, odd >> 16};
#pragma unroll
      for (int i = 0; i < 4; i++) sums[i % kChannels] += four[i];
    } else {
#pragma unroll
      for (int i = 0; i < kComponents<T>; i++) sums[i % kChannels] += component(i);
    }
  }
};

// Returns word w of a vector of means whose first component belongs to channel `phase`.
template <class T, int kChannels>
__device__ __forceinline__ uint32_t means_word(const T (&means)[kChannels], int phase, int w) {
  constexpr int kWord = 4 / int(sizeof(T)), kBits = 8 * int(sizeof(T));
  uint32_t turned[kChannels == 3 ? 3 : 1];
#pragma unroll
  for (int r = 0; r < (kChannels == 3 ? 3 : 1); r++) {
    turned[r] = 0;
#pragma unroll
    for (int i = 0; i < kWord; i++)
      turned[r] |= uint32_t(means[(w * kWord + i + r) % kChannels]) << (kBits * i);
  }
  if constexpr (kChannels == 3) return phase == 0 ? turned[0] : phase == 1 ? turned[1] : turned[2];
  return turned[0];
}

__device__ __forceinline__ uint32_t pick(const uint32_t (&v)[4], int i) {
  return i & 2 ? (i & 1 ? v[3] : v[2]) : (i & 1 ? v[1] : v[0]);
}

template <class T>
__device__ __forceinline__ void store_components(uint8_t* to, const uint32_t (&v)[4], int begin,
                                                 int end) {
#pragma unroll 1
  for (int i = begin; i < end; i++) {
    const int byte = i * int(sizeof(T));
    reinterpret_cast<T*>(to)[i] = T(pick(v, byte / 4) >> (8 * (byte % 4)));
  }
}

// Holds the first or the last bytes of a vector, and stores them by 8, 4, 2 and 1.
struct Part {
  int count, at4, at2, at1;
  uint2 all8;
  uint32_t all4, all2, all1;
  bool last;

  __device__ __forceinline__ Part(int bytes, bool at_end, const uint32_t (&v)[4])
      : count(bytes), last(at_end) {
    all8 = last ? make_uint2(v[2], v[3]) : make_uint2(v[0], v[1]);
    at4 = last ? 16 - (count & 12) : count & 8;
    at2 = last ? 16 - (count & 14) : count & 12;
    at1 = last ? 16 - count : count & 14;
    all4 = pick(v, at4 >> 2);
    all2 = pick(v, at2 >> 2) >> (8 * (at2 & 3));
    all1 = pick(v, at1 >> 2) >> (8 * (at1 & 3));
  }
  __device__ __forceinline__ void store(uint8_t* to) const {
    if (count & 8) *reinterpret_cast<uint2*>(to + (last ? 8 : 0)) = all8;
    if (count & 4) *reinterpret_cast<uint32_t*>(to + at4) = all4;
    if (count & 2) *reinterpret_cast<uint16_t*>(to + at2) = uint16_t(all2);
    if (count & 1) to[at1] = uint8_t(all1);
  }
};

}  // namespace vf::cuda
