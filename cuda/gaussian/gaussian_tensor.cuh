// Blurs by two matrix products on tensor cores, in one pass. This file has the kernel, and
// gaussian_tensor.cu (8 bits) and gaussian_tensor16.cu (16 bits) instantiate it.
//
// Idea: out = V (In H), where H and V are banded Toeplitz matrices of weights. The first product is
// computed transposed, H^T In^T, with the weights as A in registers and the pixels as B from shared
// memory. Its accumulators, packed to half2, already are the B fragments of the second product, so
// nothing is shuffled. The k order of both products is permuted (`permuted`) so that a thread's
// four input pixels, and its four output pixels, are consecutive. Rows are permuted in the same way
// by their slot in shared memory. Channels are separated when components are widened to fp16.
//
// Precision: a byte widened to 16 bits is the fp16 subnormal b * 2^-24, exactly, and so are numbers
// of 10 bits. Weights are fp16 on a common scale searched for the least rounding error. The
// horizontal sums start at minus half the range, so that the fp16 intermediate is centred and has
// half the rounding error. Adding 2^23 rounds to nearest.
//
// 16-bit values are split into two parts: components into high and low byte, weights and
// intermediates into an fp16 and the fp16 of the remainder. Three products replace one: first by
// first, first by second and second by first. Second by second is left out, which is less than 0.08
// code values of 16 bits. The sums of tensor cores lose at most about 0.2 code values.
//
// Traffic: one read and one write, and the halo of each column and of each prologue. Loads are
// 16-byte asynchronous copies into a ring of kStages chunks. Finished tiles go through shared
// memory and are written in whole lines after the next barrier (kStaged).
//
// Tile: a block is kBlockWarps * 64 bytes wide (48 instead of 64 for three channels, 128 for pixels
// of 8 bytes, 32 for long kernels of 16-bit gray) and goes down 16 rows per step. Its window of
// kChunks chunks of 16 blurred rows stays in registers, as rows or as vertical sums that later rows
// are added to. All blocks are resident at once and share the plane evenly.
//
// Borders: for rows outside the frame, a block loads the rows that the border shows. For columns
// outside, the blocks at the edges fill in shared memory.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#pragma nv_diag_suppress 177  // the kernel is empty there, so its helpers are unused
#endif

#include <cuda_fp16.h>

#include <type_traits>
#include <vector>

#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"
#include "cuda/core/tile_scheduler.cuh"
#include "cuda/gaussian/gaussian.h"
#include "filters/border.h"

namespace vf::cuda::tensor {

constexpr int kRows = 16;       // per step
constexpr int kBlockWarps = 4;  // per block, side by side

// Chooses the precision: bits10 is for u16 of at most 10 bits, and bits16 for u16 of more.
enum class Depth { bits8, bits10, bits16 };

struct Params {
  const uint8_t* src;
  uint8_t* dst;
  int src_stride, dst_stride;  // 32 bits, so that one instruction computes an address
  int width, height, row_bytes, radius_x;
  int steps;  // each has kRows rows
  WorkPartition partition;
  // There are kChunks fragments per lane for x, and then for y. On each axis, the first parts come
  // before the second ones. `start` follows, four times.
  const uint4* weights;
  float start, scale;  // initial value of horizontal sums; factor from vertical sums to codes
  Border border;
  // The border's colour, and a mask of the bytes that are copied from the source. Both repeat every
  // 12 bytes, or every 8 for pixels of 8 bytes.
  uint32_t outside[3], keep[3];
  bool keeps;
  int plain_bytes;  // all bytes of a row if `keep` need not be looked at, else 0
  // Only for u16: the number of low bits that stay zero, and a mask of the valid bits of two
  // components (bits10: after the shift; bits16: in their low bytes).
  int shift;
  uint32_t mask;
  bool overlaps;  // the previous launch, of another plane
  bool early;     // whether blocks may start before the previous launch is done
};

// Returns the position of the i-th of 16 rows, pixels or k indices. Lane t holds k = 2t, 2t+1,
// 2t+8, 2t+9 of a fragment, which become 4t to 4t+3.
__host__ __device__ constexpr int permuted(int i) {
  return 4 * ((i & 7) >> 1) + (i & 1) + ((i >> 3) << 1);
}

// Returns the middle of the range in code values. Horizontal sums are relative to it.
__host__ __device__ constexpr float centre(Depth depth) {
  return depth == Depth::bits8 ? 128 : depth == Depth::bits10 ? 512 : 0;
}

// The shape of a block's tile. To avoid bank conflicts, the pitch of rows in shared memory is an
// odd number of the pieces that the lanes of eight rows read at once.
template <Depth kDepth, int kChannels, int kChunks, int kWarps = kBlockWarps>
struct Tile {
  static constexpr int apart(int bytes, int piece) {
    const int pieces = (bytes + piece - 1) / piece;
    return (pieces % 2 ? pieces : pieces + 1) * piece;
  }
  static constexpr int kPixelBytes = kChannels * (kDepth == Depth::bits8 ? 1 : 2);
  static constexpr int kPeriod = kPixelBytes == 8 ? 2 : 3;  // words after which pixels repeat
  static constexpr int kParts = kDepth == Depth::bits16 ? 2 : 1;
  // Units of 16 pixels of a warp: fewer where two parts of a long window need the registers.
  static constexpr int kUnits = kPixelBytes == 1                                   ? 4
                                : kPixelBytes == 2 && (kParts == 1 || kChunks < 5) ? 2
                                                                                   : 1;
  // Whether finished tiles go through shared memory. A lane's whole pixels of 4 bytes need not.
  static constexpr bool kStaged = kPixelBytes != 4 || kDepth != Depth::bits8;
  // The ring of incoming rows has this many chunks. These numbers were the fastest.
  static constexpr int kStages = kDepth == Depth::bits8 && (kChannels == 1 || kChunks > 2) ? 4 : 3;
  static constexpr int kSums = kUnits * kChannels;  // accumulator tiles of a warp
  static constexpr int kWarpBytes = 16 * kUnits * kPixelBytes;
  static constexpr int kWidth = kWarps * kWarpBytes;
  static constexpr int kPixels = kWidth / kPixelBytes;
  static constexpr int kReach = 8 * (kChunks - 1);  // pixels and rows a tile sees around it
  static constexpr int kHalo = (kPixelBytes * kReach + 15) / 16 * 16;
  static constexpr int kPiece = kPixelBytes == 2 ? 32 : kPixelBytes == 4 ? 64 : 16;
  static constexpr int kPitch = apart(kWidth + 2 * kHalo, kPiece);
  static constexpr int kStage = kRows * kPitch;
  static constexpr int kOutPitch = apart(kWidth, kPiece);
  static constexpr int kOut = kStaged ? kRows * kOutPitch : 0;
  static constexpr int kShared = kStages * kStage + 2 * kOut;
};

__device__ __forceinline__ uint32_t half2_bits(float low, float high) {
  const __half2 v = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(v);
}

__device__ __forceinline__ uint32_t low_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// Loads the B fragments of four pixels from `at`: for each channel, pixels 0 and 1, then 2 and 3.
template <int kChannels>
__device__ __forceinline__ void load_pixels(uint32_t at, uint32_t (&b)[kChannels][2]) {
  if constexpr (kChannels == 1) {
    const uint32_t v = load32(at);
    b[0][0] = __byte_perm(v, 0, 0x4140);
    b[0][1] = __byte_perm(v, 0, 0x4342);
  } else if constexpr (kChannels == 2) {
    const uint2 v = load64(at);
    b[0][0] = v.x & 0x00ff00ff;
    b[0][1] = v.y & 0x00ff00ff;
    b[1][0] = __byte_perm(v.x, 0, 0x4341);
    b[1][1] = __byte_perm(v.y, 0, 0x4341);
  } else if constexpr (kChannels == 3) {
    // The four pixels are bytes 0 1 2 | 3 4 5 | 6 7 8 | 9 10 11 of three words.
    const uint32_t v = load32(at), w = load32(at + 4), x = load32(at + 8);
    b[0][0] = __byte_perm(v, 0, 0x4340);
    b[0][1] = __byte_perm(w, x, 0x3532) & 0x00ff00ff;
    b[1][0] = __byte_perm(v, w, 0x3431) & 0x00ff00ff;
    b[1][1] = __byte_perm(w, x, 0x3633) & 0x00ff00ff;
    b[2][0] = __byte_perm(v, w, 0x3532) & 0x00ff00ff;
    b[2][1] = __byte_perm(x, 0, 0x4340);
  } else {
    const uint4 v = load128(at);
    const uint32_t low0 = __byte_perm(v.x, v.y, 0x5410), low1 = __byte_perm(v.z, v.w, 0x5410);
    const uint32_t high0 = __byte_perm(v.x, v.y, 0x7632), high1 = __byte_perm(v.z, v.w, 0x7632);
    b[0][0] = low0 & 0x00ff00ff;
    b[0][1] = low1 & 0x00ff00ff;
    b[1][0] = __byte_perm(low0, 0, 0x4341);
    b[1][1] = __byte_perm(low1, 0, 0x4341);
    b[2][0] = high0 & 0x00ff00ff;
    b[2][1] = high1 & 0x00ff00ff;
    b[3][0] = __byte_perm(high0, 0, 0x4341);
    b[3][1] = __byte_perm(high1, 0, 0x4341);
  }
}

// Does so for u16, as numbers of 10 bits, or as high bytes (times 256) and low bytes.
template <Depth kDepth, int kChannels, int kParts>
__device__ __forceinline__ void load_wide_pixels(uint32_t at, const Params& p,
                                                 uint32_t (&b)[kParts][kChannels][2]) {
  uint32_t v[kChannels][2];
  if constexpr (kChannels == 1) {
    const uint2 pixels = load64(at);
    v[0][0] = pixels.x;
    v[0][1] = pixels.y;
  } else {
#pragma unroll
    for (int i = 0; i < 2; i++) {  // two pixels each
      uint2 first, second;
      if constexpr (kChannels == 2) {
        const uint2 pixels = load64(at + 8 * i);
        first.x = pixels.x;
        second.x = pixels.y;
      } else {
        static_assert(kChannels == 4);
        const uint4 pixels = load128(at + 16 * i);
        first = make_uint2(pixels.x, pixels.y);
        second = make_uint2(pixels.z, pixels.w);
        v[2][i] = __byte_perm(first.y, second.y, 0x5410);
        v[3][i] = __byte_perm(first.y, second.y, 0x7632);
      }
      v[0][i] = __byte_perm(first.x, second.x, 0x5410);
      v[1][i] = __byte_perm(first.x, second.x, 0x7632);
    }
  }
#pragma unroll
  for (int c = 0; c < kChannels; c++)
#pragma unroll
    for (int i = 0; i < 2; i++)
      if constexpr (kDepth == Depth::bits10) {
        b[0][c][i] = (v[c][i] >> p.shift) & p.mask;
      } else {
        constexpr uint32_t k256 = 0x5c005c00;  // as halves
        b[0][c][i] = half2_multiply_add_relu(__byte_perm(v[c][i], 0, 0x4341), k256, 0);
        b[1][c][i] = v[c][i] & p.mask;
      }
}

// Splits two horizontal sums into one or two fp16 parts. The first part's remainder is exact.
template <int kParts>
__device__ __forceinline__ void split(float low, float high, uint32_t (&parts)[kParts]) {
  if constexpr (kParts == 1) {
    parts[0] = half2_bits(low, high);
  } else {
    // Keeps as many bits as an fp16 has, so that packing does not round.
    const float first_low = __uint_as_float(__float_as_uint(low) & 0xffffe000);
    const float first_high = __uint_as_float(__float_as_uint(high) & 0xffffe000);
    parts[0] = half2_bits(first_low, first_high);
    parts[1] = half2_bits(low - first_low, high - first_high);
  }
}

// Returns a vertical sum as a code value in the low bits. Adding 2^23 rounds.
template <Depth kDepth>
__device__ __forceinline__ uint32_t code_of(float sum, float scale) {
  return __float_as_uint(fmaf(sum, scale, 8388608.f + centre(kDepth)));
}

__device__ __forceinline__ uint4 packed(const uint32_t (&v)[4][4]) {
  uint4 pixels;
  pixels.x = low_bytes(v[0][0], v[1][0], v[2][0], v[3][0]);
  pixels.y = low_bytes(v[0][1], v[1][1], v[2][1], v[3][1]);
  pixels.z = low_bytes(v[0][2], v[1][2], v[2][2], v[3][2]);
  pixels.w = low_bytes(v[0][3], v[1][3], v[2][3], v[3][3]);
  return pixels;
}

// Return where a lane's part of half a tile lies in shared memory: the pixels of its first sum, and
// the row of its matrix for store_matrices().
template <int kPixelBytes>
__device__ __forceinline__ int pixels_of_lane(int lane, int pitch) {
  return (lane >> 2) * pitch + (lane & 3) * 4 * kPixelBytes;
}
__device__ __forceinline__ int matrix_of_lane(int lane, int pitch) {
  return (lane & 7) * pitch + (lane >> 3) * 16;
}

// Stores half of a warp's tile in shared memory. Each lane has four codes of each sum. `row` and
// `matrix` are where pixels_of_lane() and matrix_of_lane() point to.
template <Depth kDepth, int kChannels, int kSums>
__device__ __forceinline__ void put(uint32_t row, [[maybe_unused]] uint32_t matrix,
                                    const uint32_t (&v)[kSums][4], const Params& p) {
  const auto pair = [&](uint32_t a, uint32_t b) { return __byte_perm(a, b, 0x5410) << p.shift; };
  if constexpr (kDepth != Depth::bits8 && kChannels == 1) {
#pragma unroll
    for (int u = 0; u < kSums; u++)
      store64(row + 32 * u, pair(v[u][0], v[u][1]), pair(v[u][2], v[u][3]));
  } else if constexpr (kDepth != Depth::bits8 && kChannels == 2) {
    store128(row, make_uint4(pair(v[0][0], v[1][0]), pair(v[0][1], v[1][1]), pair(v[0][2], v[1][2]),
                             pair(v[0][3], v[1][3])));
  } else if constexpr (kDepth != Depth::bits8) {
#pragma unroll
    for (int e = 0; e < 4; e += 2)
      store128(row + 8 * e,
               make_uint4(pair(v[0][e], v[1][e]), pair(v[2][e], v[3][e]),
                          pair(v[0][e + 1], v[1][e + 1]), pair(v[2][e + 1], v[3][e + 1])));
  } else if constexpr (kChannels == 1) {
    uint32_t words[4];
#pragma unroll
    for (int u = 0; u < 4; u++) words[u] = low_bytes(v[u][0], v[u][1], v[u][2], v[u][3]);
#if __CUDA_ARCH__ >= 900
    store_matrices(matrix, words);
#else
#pragma unroll
    for (int u = 0; u < 4; u++) store32(row + 16 * u, words[u]);
#endif
  } else if constexpr (kChannels == 2) {
#pragma unroll
    for (int u = 0; u < 2; u++) {
      const auto &a = v[2 * u], &b = v[2 * u + 1];
      store64(row + 32 * u, low_bytes(a[0], b[0], a[1], b[1]), low_bytes(a[2], b[2], a[3], b[3]));
    }
  } else if constexpr (kChannels == 3) {
    store32(row, low_bytes(v[0][0], v[1][0], v[2][0], v[0][1]));
    store32(row + 4, low_bytes(v[1][1], v[2][1], v[0][2], v[1][2]));
    store32(row + 8, low_bytes(v[2][2], v[0][3], v[1][3], v[2][3]));
  } else {
    store128(row, packed(v));
  }
}

// Copies a pixel within shared memory, where pixels of two, four and eight bytes are aligned.
template <int kBytes>
__device__ __forceinline__ void copy_pixel(uint8_t* to, const uint8_t* from) {
  if constexpr (kBytes == 8) {
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(from);
  } else if constexpr (kBytes == 4) {
    *reinterpret_cast<uint32_t*>(to) = *reinterpret_cast<const uint32_t*>(from);
  } else if constexpr (kBytes == 2) {
    *reinterpret_cast<uint16_t*>(to) = *reinterpret_cast<const uint16_t*>(from);
  } else {
#pragma unroll
    for (int c = 0; c < kBytes; c++) to[c] = from[c];
  }
}

// These access a byte of a vector at the end of a row. Indexing would move it to memory.
__device__ __forceinline__ uint8_t get_byte(const uint4& v, int i) {
  const uint32_t word = i < 8 ? (i < 4 ? v.x : v.y) : (i < 12 ? v.z : v.w);
  return uint8_t(word >> (8 * (i & 3)));
}
__device__ __forceinline__ void set_byte(uint4* v, int i, uint8_t byte) {
  const uint32_t bits = uint32_t(byte) << (8 * (i & 3));
  if (i < 4)
    v->x |= bits;
  else if (i < 8)
    v->y |= bits;
  else if (i < 12)
    v->z |= bits;
  else
    v->w |= bits;
}
__device__ __forceinline__ uint32_t merge(uint32_t v, uint32_t old, uint32_t keep) {
  return (old & keep) | (v & ~keep);
}

// Writes 16 bytes of output, except bytes beyond the frame and channels that are copied.
template <int kPeriod>  // words after which pixels repeat
__device__ __forceinline__ void store_part(const Params& p, int x, int y, uint4 v) {
  uint8_t* to = p.dst + int64_t(y) * p.dst_stride + x;
  if (y >= p.height || x >= p.row_bytes) return;
  const bool whole = x + 16 <= p.row_bytes;
  if (p.keeps) {
    const uint8_t* from = p.src + int64_t(y) * p.src_stride + x;
    uint4 old = make_uint4(0, 0, 0, 0);
    if (whole)
      old = *reinterpret_cast<const uint4*>(from);
    else
#pragma unroll 1
      for (int i = 0; x + i < p.row_bytes; i++) set_byte(&old, i, from[i]);
    const int word = x / 4;
    v.x = merge(v.x, old.x, p.keep[word % kPeriod]);
    v.y = merge(v.y, old.y, p.keep[(word + 1) % kPeriod]);
    v.z = merge(v.z, old.z, p.keep[(word + 2) % kPeriod]);
    v.w = merge(v.w, old.w, p.keep[(word + 3) % kPeriod]);
  }
  if (whole) {
    *reinterpret_cast<uint4*>(to) = v;
  } else {
#pragma unroll 1
    for (int i = 0; x + i < p.row_bytes; i++) to[i] = get_byte(v, i);
  }
}
template <int kPeriod>
__device__ VF_NOINLINE void store_part_noinline(const Params& p, int x, int y, uint4 v) {
  store_part<kPeriod>(p, x, y, v);
}

// Calls `f` with `i`, which is less than kCount, as a constant.
template <int kCount, class F>
__device__ __forceinline__ void with_constant(int i, const F& f) {
  if constexpr (kCount > 1) {
    if (i < kCount - 1) return with_constant<kCount - 1>(i, f);
  }
  f(std::integral_constant<int, kCount - 1>{});
}

template <Depth kDepth, int kChannels, int kChunks, bool kSquare>
__device__ __forceinline__ void blur_plane([[maybe_unused]] const Params& p,
                                           [[maybe_unused]] int block) {
#if __CUDA_ARCH__ >= 800
  using T = Tile<kDepth, kChannels, kChunks>;
  constexpr int kParts = T::kParts;
  // Starting a chain with multiply_first saves setting the sums, and keeping addresses saves
  // computing them, if enough registers are left.
  constexpr bool kFirst = kChunks < 5;
  const auto keep = [](auto v) { return kFirst ? kept(v) : v; };
  constexpr int kAhead = T::kStages - 1;    // chunks that are loaded at the start
  constexpr int kPerRow = kBlockWarps * 2;  // threads that load or store one row
  constexpr int kVectors = T::kWidth / 16, kHaloVectors = T::kHalo / 16;
  VF_DYNAMIC_SHARED(128, uint8_t, shared);
  const uint32_t base = shared_address(shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int g = lane >> 2, t = lane & 3;  // row and column of a lane in a fragment
  const int slot = threadIdx.x / kPerRow, vector = threadIdx.x % kPerRow;  // to load, to store

  constexpr int kFragments = kParts * kChunks;
  uint4 weights_x[kFragments], weights_y[kSquare ? 1 : kFragments];
#pragma unroll
  for (int j = 0; j < kFragments; j++) {
    weights_x[j] = __ldg(p.weights + j * 32 + lane);
    if constexpr (!kSquare) weights_y[j] = __ldg(p.weights + (kFragments + j) * 32 + lane);
  }
  const float scale = p.scale;
  // The four equal values come from memory, so that the compiler keeps them in the four registers
  // that a product starts from. It would copy a parameter into each sum.
  float start[4];
  if (kFirst) {
    const float4 v = __ldg(reinterpret_cast<const float4*>(p.weights + 2 * kFragments * 32));
    start[0] = v.x, start[1] = v.y, start[2] = v.z, start[3] = v.w;
  } else {
    start[0] = p.start;
  }
  float zero[2][4] = {};

  TileScheduler tiles(p.partition, block), load = tiles;
  // The next load: its first row, and this thread's address in it, as if rows outside existed.
  int load_y, load_chunk = 0;
  bool load_inside;
  const uint8_t* load_at;
  uint32_t load_stage = 0;  // where in the ring
  const auto begin_load = [&] {
    const int x = load.column * T::kWidth;
    load_y = kRows * load.first - T::kReach;
    load_inside = x >= T::kHalo && p.row_bytes - x >= T::kWidth + T::kHalo;
    load_at = p.src + int64_t(load_y + permuted(slot)) * p.src_stride + (x + 16 * vector);
  };
  begin_load();
  // The work above does not need the frame. Its first rows are brought to L2 meanwhile.
  constexpr int kEach = T::kWidth + 2 * T::kHalo <= 64 * kPerRow ? 64 : 128;  // bytes
  const int byte = load.column * T::kWidth - T::kHalo + kEach * vector;
  if (p.early && load.count > 0 && kEach * vector < T::kWidth + 2 * T::kHalo)
#pragma unroll
    for (int c = 0; c < kAhead; c++) {
      const int y = kRows * (load.first + c) - T::kReach + slot;
      if (unsigned(y) < unsigned(p.height) && unsigned(byte) < unsigned(p.row_bytes))
        prefetch(p.src + int64_t(y) * p.src_stride + byte);
    }
  // The next launch may start only after this wait: another plane's kernel does not wait itself.
  if (!p.overlaps) wait_for_previous();
  let_next_start();
  const uint32_t load_to = keep(base + slot * T::kPitch + T::kHalo + 16 * vector);
  // Starts loading the next chunk, if there is one. It makes a group of copies in both cases.
  const auto produce = [&] {
    if (load.count > 0) {
      const uint32_t to = load_to + load_stage;
      if (load_inside && load_y >= 0 && load_y + kRows <= p.height) {
#pragma unroll
        for (int k = 0; k < kVectors; k += kPerRow)
          if (kVectors % kPerRow == 0 || vector + k < kVectors)
            copy_async(to + 16 * k, load_at + 16 * k);
#pragma unroll
        for (int k = 0; k < 2 * kHaloVectors; k += kPerRow) {
          // Left of the tile, then right of it.
          const int v = vector + k;
          const int at = 16 * k + (v < kHaloVectors ? -T::kHalo : T::kWidth - T::kHalo);
          if (v < 2 * kHaloVectors) copy_async(to + at, load_at + at);
        }
      } else {  // at the frame's edges
        const int row = load_y + permuted(slot), y = border_index(row, p.height, p.border);
        const uint8_t* from = load_at + int64_t(y - row) * p.src_stride;
        const int x = load.column * T::kWidth, room = p.row_bytes - x;
#pragma unroll 1
        for (int k = 0; k < kVectors + 2 * kHaloVectors - vector; k += kPerRow) {
          const int at = 16 * k - T::kHalo, v = at + 16 * vector;  // from the tile's start
          if (y >= 0 && x + v >= 0 && v + 16 <= room) {
            copy_async(to + at, from + at);
          } else if (y < 0) {
            // 768 is a multiple of 12 and of 8, and at least as large as the halo.
            const int word = (x + v + 768) / 4;
            store128(
                to + at,
                make_uint4(p.outside[word % T::kPeriod], p.outside[(word + 1) % T::kPeriod],
                           p.outside[(word + 2) % T::kPeriod], p.outside[(word + 3) % T::kPeriod]));
          } else if (x + v < 0 || v >= room) {
            continue;
          } else if (y == p.height - 1) {
            // Memory may end here, and sanitizers regard the copies below as reads of 16 bytes.
#pragma unroll 1
            for (int b = 0; b < room - v; b++) shared[to - base + at + b] = from[at + b];
          } else {
            copy_part_async(to + at, from + at, room - v);
          }
        }
      }
      load_stage = load_stage == (T::kStages - 1) * T::kStage ? 0 : load_stage + T::kStage;
      load_y += kRows;
      load_at += kRows * int64_t(p.src_stride);
      if (++load_chunk == load.count + kChunks - 1) {
        load_chunk = 0;
        load.next();
        begin_load();
      }
    }
    commit_copies();
  };

  // The finished tile of the previous step is written after the next barrier, in whole rows.
  const uint32_t tile = base + T::kStages * T::kStage;
  const uint32_t tile_pixels =
      keep(tile + warp * T::kWarpBytes + pixels_of_lane<T::kPixelBytes>(lane, T::kOutPitch));
  const uint32_t tile_matrix =
      keep(tile + warp * T::kWarpBytes + matrix_of_lane(lane, T::kOutPitch));
  const uint32_t store_from = keep(tile + slot * T::kOutPitch + 16 * vector);
  const int64_t store_to = keep(permuted(slot) * int64_t(p.dst_stride) + 16 * vector);
  int out_y = -1, out_x = 0;
  uint32_t out = 0;
  const auto interior = [&](int x, int y) {
    return x + T::kWidth <= p.plain_bytes && y + kRows <= p.height;
  };
  const auto flush = [&] {
    if (!T::kStaged || out_y < 0) return;
    const uint32_t from = store_from + (out ^ T::kOut);
    if (interior(out_x, out_y)) {
      uint8_t* const to = p.dst + (store_to + int64_t(out_y) * p.dst_stride + out_x);
#pragma unroll
      for (int k = 0; k < kVectors; k += kPerRow)
        if (kVectors % kPerRow == 0 || vector + k < kVectors)
          *reinterpret_cast<uint4*>(to + 16 * k) = load128(from + 16 * k);
    } else {
#pragma unroll 1
      for (int k = 0; k < kVectors - vector; k += kPerRow)
        store_part<T::kPeriod>(p, out_x + 16 * (vector + k), out_y + permuted(slot),
                               load128(from + 16 * k));
    }
    out_y = -1;
  };

  // The blurred rows of a chunk, by sum, half of its 16 pixels, part, half of its rows.
  using Rows = uint32_t[T::kSums][2][kParts][2];
  // If the registers suffice, a chunk's vertical products are added to the sums of this step and of
  // the next ones at once. A product can add to a register and leave the result in another, so sums
  // move on to the next step without moves, and the code is the same for all steps. With kHolds,
  // the last product of three waits for the next step, because rows take fewer registers than sums.
  // Otherwise a window has the rows, and there is code for each place of a chunk in it.
  constexpr bool kHolds = kParts == 1 && kChunks == 3 && T::kSums > 2 && kChannels < 4;
  constexpr bool kChain = kHolds || kParts == 2 || (kChunks - 1) * T::kSums <= (kSquare ? 6 : 4);
  float chain[T::kSums][kHolds ? 1 : kChain ? kChunks - 1 : 1][2][4] = {};
  Rows held = {}, window[kChain ? 1 : kChunks];
  int place = 0, i = 0;
  uint32_t stage = 0;  // where in the ring
  const uint32_t pixels = keep(base + g * T::kPitch + (T::kHalo - T::kPixelBytes * T::kReach) +
                               warp * T::kWarpBytes + t * 4 * T::kPixelBytes);
  // Each processor has to fetch all code that a block runs, which takes as long as the steps of a
  // short part. So all code except the products exists once, and the same loop also fills the ring.
#pragma unroll 1
  for (int ahead = kAhead; tiles.count > 0;) {
    if (ahead == 0) {
      wait_copies<T::kStages - 2>();
      __syncthreads();
    }
    produce();
    if (ahead > 0) {
      ahead--;
      continue;
    }
    flush();
    const int x0 = tiles.column * T::kPixels;
    if (tiles.column == 0 || x0 + T::kPixels + p.radius_x > p.width) {
      const int beyond = p.width - x0;  // the first pixel right of the frame, from x0
      const int left = tiles.column == 0 ? p.radius_x : 0;
      const int right = max(0, min(p.radius_x, T::kPixels + T::kReach - beyond));
      // All wait for the blocks at the edges: so each lane fills a pixel, and each warp a few rows.
      for (int j = lane; j < left + right; j += 32) {
        const int to = j < left ? -1 - j : beyond + j - left;
        const int from = border_index(x0 + to, p.width, p.border);
        uint8_t* const line = shared + stage + T::kHalo;
        if (from >= 0 && from - x0 >= -T::kReach && from - x0 < T::kPixels + T::kReach) {
#pragma unroll
          for (int k = 0; k < kRows; k += kBlockWarps) {
            uint8_t* const row = line + (k + warp) * T::kPitch;
            copy_pixel<T::kPixelBytes>(row + to * T::kPixelBytes,
                                       row + (from - x0) * T::kPixelBytes);
          }
        } else {  // a colour, or a pixel from the other side of the frame
#pragma unroll 1
          for (int k = warp; k < kRows; k += kBlockWarps) {
            const int y = border_index(kRows * (tiles.first + i) + permuted(k) - T::kReach,
                                       p.height, p.border);
            const uint8_t* pixel = p.src + int64_t(y) * p.src_stride + from * T::kPixelBytes;
            for (int c = 0; c < T::kPixelBytes; c++)
              line[k * T::kPitch + to * T::kPixelBytes + c] =
                  from < 0 ? uint8_t(p.outside[c / 4] >> (8 * (c % 4))) : pixel[c];
          }
        }
      }
      __syncthreads();
    }
    // Makes the blurred rows of the step. The horizontal products make 16 pixels by 8 rows each.
    const auto make_rows = [&](Rows& rows) {
#pragma unroll
      for (int h = 0; h < 2; h++) {
        float sums[T::kSums][4];
#pragma unroll
        for (int s = 0; s < T::kSums; s++)
          if (!kFirst) sums[s][0] = sums[s][1] = sums[s][2] = sums[s][3] = start[0];
#pragma unroll
        for (int c = 0; c < kChunks + T::kUnits - 1; c++) {
          uint32_t b[kParts][kChannels][2];
          const uint32_t from = pixels + stage + h * 8 * T::kPitch + c * 16 * T::kPixelBytes;
          if constexpr (kDepth == Depth::bits8)
            load_pixels<kChannels>(from, b[0]);
          else
            load_wide_pixels<kDepth>(from, p, b);
#pragma unroll
          for (int u = 0; u < T::kUnits; u++)
            if (c - u >= 0 && c - u < kChunks)
#pragma unroll
              for (int channel = 0; channel < kChannels; channel++) {
                const int j = c - u < kChunks ? c - u : 0;
                auto& sum = sums[u * kChannels + channel];
                if (kFirst && c == u)
                  multiply_first(sum, start, weights_x[0], b[0][channel][0], b[0][channel][1]);
                else
                  multiply(sum, weights_x[j], b[0][channel][0], b[0][channel][1]);
                if constexpr (kParts == 2) {
                  multiply(sum, weights_x[kChunks + j], b[0][channel][0], b[0][channel][1]);
                  multiply(sum, weights_x[j], b[1][channel][0], b[1][channel][1]);
                }
              }
        }
#pragma unroll
        for (int s = 0; s < T::kSums; s++)
#pragma unroll
          for (int half = 0; half < 2; half++) {
            uint32_t parts[kParts];
            split(sums[s][2 * half], sums[s][2 * half + 1], parts);
#pragma unroll
            for (int part = 0; part < kParts; part++) rows[s][half][part][h] = parts[part];
          }
      }
    };
    // Computes sums = first + the vertical products of a chunk and the j-th weights. A product
    // makes 16 rows by 8 pixels.
    const auto add_rows = [&](float(&sums)[2][4], const float(&first)[2][4], int j,
                              const uint32_t(&rows)[2][kParts][2]) {
      const uint4& a = kSquare ? weights_x[j] : weights_y[kSquare ? 0 : j];
#pragma unroll
      for (int half = 0; half < 2; half++) {
        multiply_first(sums[half], first[half], a, rows[half][0][0], rows[half][0][1]);
        if constexpr (kParts == 2) {
          const uint4& rest =
              kSquare ? weights_x[kChunks + j] : weights_y[kSquare ? 0 : kChunks + j];
          multiply(sums[half], rest, rows[half][0][0], rows[half][0][1]);
          multiply(sums[half], a, rows[half][1][0], rows[half][1][1]);
        }
      }
    };
    // A lane gets rows permuted(g) and permuted(g) + 2, and four consecutive pixels of each sum.
    uint32_t codes[2][T::kSums][4];
    const auto round = [&](int s, const float(&sums)[2][4]) {
#pragma unroll
      for (int h = 0; h < 2; h++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          codes[h][s][e] = code_of<kDepth>(sums[e >> 1][2 * h + (e & 1)], scale);
    };
    const auto store = [&] {
      const int y = kRows * (tiles.first + i - (kChunks - 1)), x = x0 * T::kPixelBytes;
      if constexpr (T::kStaged) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const uint32_t to = out + 8 * h * T::kOutPitch;
          put<kDepth, kChannels>(tile_pixels + to, tile_matrix + to, codes[h], p);
        }
        out_y = y;
        out_x = x;
        out ^= T::kOut;
      } else {
        const int column = x + warp * T::kWarpBytes + 16 * t, row = y + permuted(g);
        if (interior(x, y)) {
          uint8_t* const to = p.dst + column + int64_t(row) * p.dst_stride;
          *reinterpret_cast<uint4*>(to) = packed(codes[0]);
          *reinterpret_cast<uint4*>(to + 2 * int64_t(p.dst_stride)) = packed(codes[1]);
        } else {
#pragma unroll
          for (int h = 0; h < 2; h++)
            store_part_noinline<T::kPeriod>(p, column, row + 2 * h, packed(codes[h]));
        }
      }
    };
    const bool gives = i >= kChunks - 1;
    if constexpr (kChain) {
      Rows rows;
      make_rows(rows);
      const auto pass_on = [&](int s) {
        if constexpr (kHolds) {
          float first[2][4];
          add_rows(first, zero, 0, held[s]);
          add_rows(chain[s][0], first, 1, rows[s]);
          for (int half = 0; half < 2; half++)
            for (int h = 0; h < 2; h++) held[s][half][0][h] = rows[s][half][0][h];
        } else {
#pragma unroll
          for (int j = 0; j < kChunks - 1; j++)
            add_rows(chain[s][j], j < kChunks - 2 ? chain[s][j + 1] : zero, kChunks - 2 - j,
                     rows[s]);
        }
      };
      if (gives) {
#pragma unroll
        for (int s = 0; s < T::kSums; s++) {
          float sums[2][4];
          add_rows(sums, chain[s][0], kChunks - 1, rows[s]);
          pass_on(s);
          round(s, sums);
        }
        store();
      } else {
#pragma unroll
        for (int s = 0; s < T::kSums; s++) pass_on(s);
      }
    } else {
      // Registers cannot be indexed.
      with_constant<kChunks>(place, [&](auto constant) {
        constexpr int k = decltype(constant)::value;
        make_rows(window[k]);
        if (!gives) return;
#pragma unroll
        for (int s = 0; s < T::kSums; s++) {
          float sums[2][4];
#pragma unroll
          for (int j = 0; j < kChunks; j++)
            add_rows(sums, j ? sums : zero, j, window[(k + 1 + j) % kChunks][s]);
          round(s, sums);
        }
        store();
      });
      if (++place == kChunks) place = 0;
    }
    stage = stage == (T::kStages - 1) * T::kStage ? 0 : stage + T::kStage;
    if (++i == tiles.count + kChunks - 1) {
      i = 0;
      tiles.next();
    }
  }
  __syncthreads();
  flush();
  if (p.overlaps) end_after_previous();
#endif
}

template <Depth kDepth, int kChannels, int kChunks, int kBlocks, bool kSquare>
__global__ void __launch_bounds__(kBlockWarps * 32, kBlocks)
    blur(const __grid_constant__ Params p) {
  blur_plane<kDepth, kChannels, kChunks, kSquare>(p, int(blockIdx.x));
}

constexpr int kEdgeCost = 6;  // WorkPartition's, for most kernels

// A kernel for one kind of planes, and its launch parameters.
struct Kernel {
  void (*function)(Params);
  Depth depth;
  int channels, chunks;
  bool square;
  int width, shared;
  int edge_cost;  // WorkPartition's, as measured on an H200
};

template <Depth kDepth, int kChannels, int kChunks, int kBlocks, bool kSquare>
Kernel kernel() {
  using T = Tile<kDepth, kChannels, kChunks>;
  static_assert(T::kHalo <= 768, "the border's colour would lose its phase");
  static_assert(T::kPixels >= T::kReach, "the second column would see the left edge");
  return {blur<kDepth, kChannels, kChunks, kBlocks, kSquare>,
          kDepth,
          kChannels,
          kChunks,
          kSquare,
          T::kWidth,
          T::kShared,
          kChunks == 9                     ? 8
          : kChunks == 5 && kChannels == 1 ? 7
                                           : kEdgeCost};
}

const std::vector<Kernel>& kernels16();

// Returns whether tensor cores can filter a plane, and sets the depth.
bool suits(const CudaQueue& queue, const GaussianTask& task, int plane, Depth* depth);
// Sets all of `p` except the image and its division. `chunks` has the chunks along x and y.
// `weights` owns the memory that `p` points to.
Status prepare(CudaQueue& queue, const GaussianTask& task, int plane, Depth depth,
               const int (&chunks)[2], Params* p, Allocation* weights);
constexpr int chunks_of(int radius) {
  return radius <= 8 ? 2 : radius <= 16 ? 3 : radius <= 32 ? 5 : 9;
}
// Returns whether rows are aligned to 16 bytes and strides fit into Params.
bool takes(const PlaneView& view);

}  // namespace vf::cuda::tensor
