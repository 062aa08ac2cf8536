// Makes medians of square windows by selection networks, for 8 and 16 bits and float.
//
// Idea: a thread runs a network (filters/median_network.h) in registers of two 16-bit values. With
// one channel, these are a pixel of the upper and a pixel of the lower half of the block's rows.
// With two channels (the chroma of NV12) they are those of a pixel. With RGBA they are two
// channels, RG first and then BA. A thread makes TileX x TileY outputs in each half. A float pixel
// takes a whole register, as an integer key (median_device.cuh), because minima and maxima of
// floats cost the same but drop NaN.
//
// From 9 x 9 on, threads share sorted columns if the device has enough shared memory. They sort and
// merge groups of columns, leave the lists in shared memory, and continue with the lists that their
// tiles need. A block may have more threads than tiles, so that each thread sorts one group. The
// left and the right half of a tile are two turns of a loop, so that there is less code to fetch.
//
// Traffic: a block stages its input once in shared memory as such registers. Each pixel is read
// about (1 + (Size - 1) / width) (1 + (Size - 1) / height) times through L2, and written once.
// Column x of the stage is at (x % TileX) * Q + x / TileX, so that a warp's loads have no bank
// conflicts.
// Tile: a block makes BlockX * TileX columns by BlockY * TileY rows in each half (NetworkTile).
//
// Limits (H200): up to 5 x 5, the latency of one wave of loads limits the speed, and then the work
// does. From 7 x 7 on the integer pipe limits it, so some of the exchanges use the half-precision
// or multiply pipe. From 11 x 11 on, so does the fetching of instructions, which the warps of a
// block share. Networks from 13 x 13 on are therefore simpler. They filter one channel at a time
// and do not start early. They compare medians with a threshold only if the lists of shared columns
// have the windows' extremes.
#pragma once

#include <cuda_runtime.h>

#include "cuda/core/ptx.cuh"
#include "cuda/median/median_device.cuh"
#include "cuda/median/median_network.h"

namespace vf::cuda::median {

// Puts two registers in order. exchange<true> uses another pipe in derived classes.
struct OnInteger {
  uint32_t one;  // 1, which the compiler must not know
  __device__ __forceinline__ uint32_t minimum(uint32_t a, uint32_t b) const {
    return __vminu2(a, b);
  }
  __device__ __forceinline__ uint32_t maximum(uint32_t a, uint32_t b) const {
    return __vmaxu2(a, b);
  }
  template <bool Other>
  __device__ __forceinline__ void exchange(uint32_t a, uint32_t b, uint32_t& low,
                                           uint32_t& high) const {
    low = __vminu2(a, b);
    high = __vmaxu2(a, b);
  }
};

// Each register is one unsigned value.
struct OnWords {
  uint32_t one;
  __device__ __forceinline__ uint32_t minimum(uint32_t a, uint32_t b) const { return min(a, b); }
  __device__ __forceinline__ uint32_t maximum(uint32_t a, uint32_t b) const { return max(a, b); }
  template <bool Other>
  __device__ __forceinline__ void exchange(uint32_t a, uint32_t b, uint32_t& low,
                                           uint32_t& high) const {
    low = min(a, b);
    high = max(a, b);
  }
};

// 8-bit values are subnormal halves, whose sums are exact: d = max(a - b, 0), b + d, a - d.
struct WithHalf : OnInteger {
  template <bool Other>
  __device__ __forceinline__ void exchange(uint32_t a, uint32_t b, uint32_t& low,
                                           uint32_t& high) const {
#if __CUDA_ARCH__ >= 800
    if constexpr (Other) {
      constexpr uint32_t minus_one = 0xbc00bc00u;
      const uint32_t d = half2_multiply_add_relu(b, minus_one, a);
      high = half2_add(b, d);
      low = half2_subtract(a, d);
      return;
    }
#endif
    OnInteger::exchange<false>(a, b, low, high);
  }
};

// Computes max = a + b - min by multiply-adds, which is exact modulo 2^32. If the compiler knew the
// factor 1, it would use additions on the integer pipe.
struct WithMultiply : OnInteger {
  template <bool Other>
  __device__ __forceinline__ void exchange(uint32_t a, uint32_t b, uint32_t& low,
                                           uint32_t& high) const {
    low = __vminu2(a, b);
    if constexpr (Other) {
      high = multiply_add(low, 0u - one, multiply_add(a, one, b));
    } else {
      high = __vmaxu2(a, b);
    }
  }
};

// Tells whether the code of a network nearly fills the instruction cache.
template <class Net>
inline constexpr bool kIsLong = Net::kSize >= 13;

// Tells whether a network compares its medians with a threshold.
template <Format F, class Net>
inline constexpr bool kCompares = F != Format::f32 && (Net::kGroup > 0 || !kIsLong<Net>);

// Returns a pixel, with both of its channels if kPairs is true. Negative places are outside.
template <Format F, bool kPairs>
__device__ __forceinline__ uint32_t pixel(const NetworkArgs& a, int channel, uint32_t outside,
                                          int sx, int sy) {
  if ((sx | sy) < 0) return outside;
  const uint8_t* row = a.src + sy * a.src_stride;
  if constexpr (kPairs && F == Format::u8) return reinterpret_cast<const uint16_t*>(row)[sx];
  if constexpr (kPairs) return reinterpret_cast<const uint32_t*>(row)[sx];
  if constexpr (F == Format::u8) return row[sx * a.step + channel];
  if constexpr (F == Format::u16)
    return reinterpret_cast<const uint16_t*>(row)[sx * a.step + channel];
  return reinterpret_cast<const uint32_t*>(row)[F == Format::f32 ? sx * a.step + channel : sx];
}

// Avoids a variable index, which would put the arguments into local memory.
__device__ __forceinline__ uint32_t float_border(const NetworkArgs& a, int i) {
  return i == 0   ? a.float_border[0]
         : i == 1 ? a.float_border[1]
         : i == 2 ? a.float_border[2]
                  : a.float_border[3];
}

// Describes the tile of a network's block, of which BlockX x BlockY threads have outputs. With
// kPairs, a register has the two channels of a pixel.
template <Format F, class Net, int BlockX, int BlockY, int Threads, bool kPairs = false>
struct NetworkTile {
  static constexpr bool kRgba = F == Format::rgba8, kFloat = F == Format::f32;
  static constexpr int kHalves =
      kRgba || kFloat || kPairs ? 1 : 2;  // pixels of a channel in a register
  static constexpr int kSize = Net::kSize, kTileX = Net::kTileX, kTileY = Net::kTileY;
  static constexpr int kRadius = kSize / 2, kWidth = BlockX * kTileX, kHeight = BlockY * kTileY;
  static constexpr int kVector = (F == Format::u8    ? 4
                                  : F == Format::u16 ? 2
                                                     : 1) /
                                 (kPairs ? 2 : 1);  // pixels in a word
  static constexpr bool kShares = Net::kGroup > 0;
  // A multiple of 4 keeps words aligned. Groups begin one column before the tile.
  static constexpr int kLeft = (kRadius + (kShares ? 1 : 0) + 3) / 4 * 4;
  static constexpr int kStageX = (kLeft + kWidth + kRadius + 3) / 4 * 4;
  static constexpr int kStageY = kHeight + kSize - 1;
  // Rows of the stage are kTileX runs of Q columns. Q spreads a warp's runs over the banks.
  static constexpr int Q = BlockX == 16 && kTileX * kTileY == 8 ? (kStageX / kTileX + 1) / 4 * 4 + 2
                                                                : (kStageX / kTileX) | 1;
  static constexpr int kPasses = kRgba ? 2 : 1, kThreads = Threads;
  // RGBA has a stage per pass, of two channels in a word, or with shared columns one of all four.
  static constexpr int kStages = kShares ? 1 : kPasses;
  static constexpr int kLower = (kHalves - 1) * kHeight;  // rows from the upper to the lower half
  static constexpr int kWords = kStageX / kVector, kStageWords = kStageY * kWords;
  static constexpr int kLoads = (kStageWords + kThreads - 1) / kThreads;  // per thread
  static constexpr int kPitch = kTileX * Q;
  using Stage = uint32_t[kStages][kStageY][kPitch];

  static __device__ __forceinline__ int column(int x) { return (x % kTileX) * Q + x / kTileX; }
  // Returns the place of a pixel of a tile's footprint from the tile's row and column on.
  static __device__ __forceinline__ int place(int y, int x) {
    return y * kPitch + column(x + kLeft - kRadius);
  }
  // Selects the two channels of a pass if words of the stage hold whole pixels.
  static __device__ __forceinline__ uint32_t two_of(uint32_t v, int pass) {
    return kRgba && kShares ? __byte_perm(v, 0, pass ? 0x4342 : 0x4140) : v;
  }

  static __device__ __forceinline__ uint32_t load_word(const uint8_t* p) {
    return load_frame<!kIsLong<Net>>(reinterpret_cast<const uint32_t*>(p));
  }

  // Stores the pixels of a word of each half.
  static __device__ __forceinline__ void put(Stage& stage, int y, int x, uint32_t upper,
                                             uint32_t lower) {
    if constexpr (kPairs && F == Format::u8) {
      stage[0][y][column(x)] = __byte_perm(upper, 0, 0x4140);
      stage[0][y][column(x + 1)] = __byte_perm(upper, 0, 0x4342);
    } else if constexpr (kPairs) {
      stage[0][y][column(x)] = upper;
    } else if constexpr (F == Format::u8) {
#pragma unroll
      for (int j = 0; j < 4; j++)
        stage[0][y][column(x + j)] = __byte_perm(upper, lower, 0x0400 + j * 0x0101) & 0x00ff00ff;
    } else if constexpr (F == Format::u16) {
      stage[0][y][column(x)] = __byte_perm(upper, lower, 0x5410);
      stage[0][y][column(x + 1)] = __byte_perm(upper, lower, 0x7632);
    } else if constexpr (kFloat) {
      stage[0][y][column(x)] = float_key(upper);
    } else if constexpr (kShares) {
      stage[0][y][column(x)] = upper;
    } else {
      stage[0][y][column(x)] = __byte_perm(upper, 0, 0x4140);
      stage[kStages - 1][y][column(x)] = __byte_perm(upper, 0, 0x4342);
    }
  }
  static __device__ __forceinline__ void put_pixel(Stage& stage, int y, int x, uint32_t upper,
                                                   uint32_t lower) {
    if constexpr (kHalves == 2)
      stage[0][y][column(x)] = upper | lower << 16;
    else if constexpr (kPairs && F == Format::u8)
      stage[0][y][column(x)] = __byte_perm(upper, 0, 0x4140);
    else
      put(stage, y, x, upper, lower);
  }

  // Fills a stage that lies inside the frame. (left, top) is the position of its first pixel in the
  // frame.
  static __device__ __forceinline__ void stage_inside(const NetworkArgs& a, int left, int top,
                                                      Stage& stage) {
    // All loads of a thread are in flight before the first is used. If the network is so long that
    // its code just fits the instruction cache, a thread loads a few at a time.
    constexpr int kBatch = kSize >= 13 ? 4 : kLoads;
#pragma unroll 1
    for (int first = 0; first < kLoads; first += kBatch) {
      uint32_t upper[kBatch], lower[kBatch];
#pragma unroll
      for (int n = 0; n < kBatch; n++) {
        const int i = threadIdx.x + (first + n) * kThreads, y = i / kWords,
                  x = i % kWords * kVector;
        upper[n] = lower[n] = 0;
        if (i >= kStageWords) continue;
        const uint8_t* p = a.src + (top + y) * a.src_stride + (left + x) * (4 / kVector);
        upper[n] = load_word(p);
        if (kLower) lower[n] = load_word(p + kLower * a.src_stride);
      }
#pragma unroll
      for (int n = 0; n < kBatch; n++) {
        const int i = threadIdx.x + (first + n) * kThreads;
        if (i < kStageWords) put(stage, i / kWords, i % kWords * kVector, upper[n], lower[n]);
      }
    }
  }

  // Fills a stage at the frame's edge from words that lie inside a row. The other columns are then
  // copied from these.
  static __device__ __forceinline__ void stage_edge_words(const NetworkArgs& a, int channel,
                                                          uint32_t outside, int left, int top,
                                                          Stage& stage) {
    constexpr int kBatch = 4;
    constexpr uint32_t kRepeat = kVector == 4 ? 0x01010101 : kVector == 2 ? 0x00010001 : 1;
    const int whole = a.width / kVector * kVector;  // pixels in words inside a row
#pragma unroll 1
    for (int first = 0; first < kLoads; first += kBatch) {
      uint32_t upper[kBatch], lower[kBatch];
#pragma unroll
      for (int n = 0; n < kBatch; n++) {
        const int i = threadIdx.x + (first + n) * kThreads, y = top + i / kWords;
        const int x = left + i % kWords * kVector;
        const auto word = [&](int row) -> uint32_t {
          const int sy = median_border_index(row, a.height, a.border);
          if (sy < 0) return outside * kRepeat;
          return load_word(a.src + sy * a.src_stride + x * (4 / kVector));
        };
        upper[n] = lower[n] = 0;
        if (i >= kStageWords || x < 0 || x >= whole) continue;
        upper[n] = word(y);
        if (kLower) lower[n] = word(y + kLower);
      }
#pragma unroll
      for (int n = 0; n < kBatch; n++) {
        const int i = threadIdx.x + (first + n) * kThreads;
        if (i < kStageWords) put(stage, i / kWords, i % kWords * kVector, upper[n], lower[n]);
      }
    }
    __syncthreads();
    const int before = max(0, -left), inside_end = min(max(whole - left, 0), kStageX);
    const int columns = before + kStageX - inside_end;
#pragma unroll 1
    for (int i = threadIdx.x; i < kStageY * columns; i += kThreads) {
      const int y = i / columns, k = i % columns, x = k < before ? k : inside_end + k - before;
      const int sx = median_border_index(left + x, a.width, a.border);
      if (sx >= max(left, 0) && sx < left + inside_end) {
#pragma unroll
        for (int pass = 0; pass < kStages; pass++)
          stage[pass][y][column(x)] = stage[pass][y][column(sx - left)];
      } else {
        uint32_t v[2] = {};
#pragma unroll
        for (int half = 0; half < kHalves; half++)
          v[half] =
              pixel<F, kPairs>(a, channel, outside, sx,
                               median_border_index(top + y + half * kLower, a.height, a.border));
        put_pixel(stage, y, x, v[0], v[1]);
      }
    }
  }

  // Fills the stage whose first pixel is at (left, top) in the frame.
  static __device__ __forceinline__ void fill(const NetworkArgs& a, int channel, uint32_t outside,
                                              int left, int top, Stage& stage) {
    const bool inside = a.words && left >= 0 && left + kStageX <= a.width && top >= 0 &&
                        top + kStageY + kLower <= a.height;
    // Whether edges are loaded by words. With longer networks that code does not fit the
    // instruction cache (15 x 15 of bytes would take 72 µs instead of 67).
    constexpr bool kEdgeWords = kSize < 11 || kShares;
    if (inside)
      stage_inside(a, left, top, stage);
    else if (kEdgeWords && a.words)
      stage_edge_words(a, channel, outside, left, top, stage);
    else
      stage_pixels(a, channel, outside, left, top, stage);
  }

  // Fills a stage pixel by pixel, for any alignment. Its loops are not unrolled, because rarely
  // used code must not push the network out of the instruction cache.
  static __device__ __forceinline__ void stage_pixels(const NetworkArgs& a, int channel,
                                                      uint32_t outside, int left, int top,
                                                      Stage& stage) {
#pragma unroll 1
    for (int i = threadIdx.x; i < kStageWords; i += kThreads) {
      const int y = i / kWords, x = i % kWords * kVector;
      uint32_t upper = 0, lower = 0;
      const int upper_y = median_border_index(top + y, a.height, a.border);
      const int lower_y = kLower ? median_border_index(top + y + kLower, a.height, a.border) : 0;
#pragma unroll
      for (int j = 0; j < kVector; j++) {
        const int sx = median_border_index(left + x + j, a.width, a.border);
        upper |= pixel<F, kPairs>(a, channel, outside, sx, upper_y) << (32 / kVector * j);
        if (kLower)
          lower |= pixel<F, kPairs>(a, channel, outside, sx, lower_y) << (32 / kVector * j);
      }
      put(stage, y, x, upper, lower);
    }
  }

  static __device__ __forceinline__ void write_pairs(uint8_t* row, int out_x, int width, bool whole,
                                                     const uint32_t* v) {
    constexpr bool kBytes = F == Format::u8;
    uint32_t word[kTileX];
#pragma unroll
    for (int x = 0; x < kTileX; x++) word[x] = kBytes ? __byte_perm(v[x], 0, 0x4420) : v[x];
    if (kTileX == 4 && kBytes && whole) {
      *reinterpret_cast<uint2*>(row + 2 * out_x) =
          make_uint2(word[0] | word[1] << 16, word[2 % kTileX] | word[3 % kTileX] << 16);
    } else if (kTileX == 4 && whole) {
      *reinterpret_cast<uint4*>(row + 4 * out_x) =
          make_uint4(word[0], word[1], word[2 % kTileX], word[3 % kTileX]);
    } else {
#pragma unroll
      for (int x = 0; x < kTileX; x++)
        if (out_x + x < width) {
          if (kBytes)
            reinterpret_cast<uint16_t*>(row)[out_x + x] = uint16_t(word[x]);
          else
            reinterpret_cast<uint32_t*>(row)[out_x + x] = word[x];
        }
    }
  }

  // Writes the outputs of a thread from (out_x, out_y) on, by words if `whole` is true.
  static __device__ __forceinline__ void write(const NetworkArgs& a, int channel, int out_x,
                                               int out_y, bool whole,
                                               const uint32_t (&out)[kTileY][kTileX]) {
#pragma unroll
    for (int half = 0; half < kHalves; half++)
#pragma unroll
      for (int y = 0; y < kTileY; y++) {
        const int at = out_y + y + half * kLower;
        if (at >= a.height) continue;
        uint8_t* row = a.dst + at * a.dst_stride;
        const uint32_t* v = out[y];
        if constexpr (kPairs) {
          write_pairs(row, out_x, a.width, whole, v);
        } else if constexpr (F == Format::u8) {
          const uint32_t pick = half ? 0x0062 : 0x0040;
          if (kTileX == 4 && whole) {
            *reinterpret_cast<uint32_t*>(row + out_x) =
                __byte_perm(__byte_perm(v[0], v[1], pick),
                            __byte_perm(v[2 % kTileX], v[3 % kTileX], pick), 0x5410);
          } else if (kTileX == 2 && whole) {
            *reinterpret_cast<uint16_t*>(row + out_x) = uint16_t(__byte_perm(v[0], v[1], pick));
          } else {
#pragma unroll
            for (int x = 0; x < kTileX; x++)
              if (out_x + x < a.width)
                row[(out_x + x) * a.step + channel] = uint8_t(v[x] >> (16 * half));
          }
        } else if constexpr (kFloat) {
          auto* row32 = reinterpret_cast<uint32_t*>(row);
          if (kTileX == 4 && whole) {
            *reinterpret_cast<uint4*>(row32 + out_x) =
                make_uint4(float_bits(v[0]), float_bits(v[1]), float_bits(v[2 % kTileX]),
                           float_bits(v[3 % kTileX]));
          } else {
#pragma unroll
            for (int x = 0; x < kTileX; x++)
              if (out_x + x < a.width) row32[(out_x + x) * a.step + channel] = float_bits(v[x]);
          }
        } else {
          auto* row16 = reinterpret_cast<uint16_t*>(row);
          const uint32_t pick = half ? 0x7632 : 0x5410;
          if (kTileX == 4 && whole) {
            *reinterpret_cast<uint2*>(row16 + out_x) = make_uint2(
                __byte_perm(v[0], v[1], pick), __byte_perm(v[2 % kTileX], v[3 % kTileX], pick));
          } else if (kTileX == 2 && whole) {
            *reinterpret_cast<uint32_t*>(row16 + out_x) = __byte_perm(v[0], v[1], pick);
          } else {
#pragma unroll
            for (int x = 0; x < kTileX; x++)
              if (out_x + x < a.width)
                row16[(out_x + x) * a.step + channel] = uint16_t(v[x] >> (16 * half));
          }
        }
      }
  }

  // Writes the outputs for RGBA, which a thread has left in `done`.
  static __device__ __forceinline__ void write_rgba(const NetworkArgs& a, int out_x, int out_y,
                                                    bool whole, const uint32_t* done) {
#pragma unroll
    for (int y = 0; y < kTileY; y++) {
      const int at = out_y + y;
      if (at >= a.height) continue;
      auto* row = reinterpret_cast<uint32_t*>(a.dst + at * a.dst_stride);
      const auto* from = reinterpret_cast<const uint32_t*>(a.src + at * a.src_stride);
      uint32_t v[kTileX];
#pragma unroll
      for (int x = 0; x < kTileX; x++) {
        v[x] = done[(y * kTileX + x) * kThreads + threadIdx.x];
        if (a.keep && out_x + x < a.width) v[x] = (v[x] & ~a.keep) | (from[out_x + x] & a.keep);
      }
      if (kTileX == 4 && whole) {
        *reinterpret_cast<uint4*>(row + out_x) =
            make_uint4(v[0], v[1], v[2 % kTileX], v[3 % kTileX]);
      } else {
#pragma unroll
        for (int x = 0; x < kTileX; x++)
          if (out_x + x < a.width) row[out_x + x] = v[x];
      }
    }
  }
};

// The sorted lists of groups of columns, which the tiles of a block share. Words w and w + 1 of a
// group are kGroups words apart, and neighbouring threads have neighbouring groups.
template <class Net, int BlockX, int BlockY>
struct NetworkLists {
  static constexpr int kGroup = Net::kGroup, kPerTile = Net::kTileX / kGroup;  // groups per tile
  static constexpr int kAcross =
      ((BlockX - 1) * kPerTile + (Net::kLastGroup - Net::kFirstGroup) / kGroup + kPerTile) /
      kPerTile * kPerTile;
  static constexpr int kGroups = kAcross * BlockY, kWords = Net::kListWords * kGroups;
  static __device__ __forceinline__ int place(int group) {
    return group % kPerTile * (kAcross / kPerTile) + group / kPerTile;
  }
  // Returns where a word is of the list of the group that begins at column x of a tile's footprint.
  static __device__ __forceinline__ int at(int word, int x) {
    return word * kGroups + place((x - Net::kFirstGroup) / kGroup);
  }
};

// Reads the pixels of a tile's footprint. move() is the distance from a column to another.
template <class Tile>
struct FootprintPixels {
  const uint32_t* first;
  int pass;
  __device__ __forceinline__ uint32_t operator()(int y, int x, int moved = 0) const {
    return Tile::two_of(first[Tile::place(y, x) + moved], pass);
  }
  static __device__ __forceinline__ int move(int x, int to) {
    return Tile::place(0, to) - Tile::place(0, x);
  }
};

// Reads the lists of groups. move() is the distance from a word to another of another group.
template <class Lists>
struct GroupLists {
  const uint32_t* first;
  __device__ __forceinline__ uint32_t operator()(int word, int x, int moved = 0) const {
    return first[Lists::at(word, x) + moved];
  }
  static __device__ __forceinline__ int move(int word, int x, int to_word, int to_x) {
    return Lists::at(to_word, to_x) - Lists::at(word, x);
  }
};

// Holds the minima and the maxima of windows one below the other.
template <int kN>
struct WindowExtremes {
  uint32_t low[kN], high[kN];
  __device__ __forceinline__ void include(const WindowExtremes& other) {
#pragma unroll
    for (int i = 0; i < kN; i++) {
      low[i] = __vminu2(low[i], other.low[i]);
      high[i] = __vmaxu2(high[i], other.high[i]);
    }
  }
};

// Returns the extremes of the windows' parts in column x of the tile at address `from`. With plain
// loads, the compiler would keep what the network loads in registers.
template <class Tile>
__device__ __forceinline__ WindowExtremes<Tile::kTileY> column_extremes(uint32_t from, int x) {
  constexpr int kN = Tile::kTileY, kSize = Tile::kSize;
  const uint32_t column = from + 4 * Tile::column(x + Tile::kLeft - Tile::kRadius);
  const auto load = [&](int y) { return load32(column + 4 * y * Tile::kTileX * Tile::Q); };
  // The windows share rows kN - 1 to kSize - 1.
  WindowExtremes<kN> e;
  e.low[kN - 1] = e.high[kN - 1] = load(kN - 1);
#pragma unroll
  for (int y = kN; y < kSize; y++) {
    const uint32_t v = load(y);
    e.low[kN - 1] = __vminu2(e.low[kN - 1], v);
    e.high[kN - 1] = __vmaxu2(e.high[kN - 1], v);
  }
#pragma unroll
  for (int i = kN - 2; i >= 0; i--) {
    const uint32_t v = load(i);
    e.low[i] = __vminu2(e.low[i + 1], v);
    e.high[i] = __vmaxu2(e.high[i + 1], v);
  }
  uint32_t low = load(kSize), high = low;
#pragma unroll
  for (int i = 1; i < kN; i++) {
    e.low[i] = __vminu2(e.low[i], low);
    e.high[i] = __vmaxu2(e.high[i], high);
    if (i + 1 < kN) {
      const uint32_t v = load(kSize + i);
      low = __vminu2(low, v);
      high = __vmaxu2(high, v);
    }
  }
  return e;
}

// Replaces a thread's medians by the frame's values where the pixels are no outliers. `low` and
// `high` are the extremes of the windows, and the stage has the frame's values.
template <class Tile>
__device__ __forceinline__ void switch_outliers(uint32_t from, int pass, uint32_t threshold,
                                                const uint32_t (&low)[Tile::kTileY][Tile::kTileX],
                                                const uint32_t (&high)[Tile::kTileY][Tile::kTileX],
                                                uint32_t (&out)[Tile::kTileY][Tile::kTileX]) {
#pragma unroll
  for (int y = 0; y < Tile::kTileY; y++)
#pragma unroll
    for (int x = 0; x < Tile::kTileX; x++) {
      const uint32_t own =
          Tile::two_of(load32(from + 4 * Tile::place(y + Tile::kRadius, x + Tile::kRadius)), pass);
      out[y][x] = switched<16>(own, out[y][x], low[y][x], high[y][x], threshold);
    }
}

// Does this with extremes that it finds in the stage.
template <class Tile>
__device__ __forceinline__ void keep_others(uint32_t from, int pass, uint32_t threshold,
                                            uint32_t (&out)[Tile::kTileY][Tile::kTileX]) {
  constexpr int kX = Tile::kTileX, kY = Tile::kTileY, kSize = Tile::kSize;
  // The windows share columns kX - 1 to kSize - 1.
  WindowExtremes<kY> e[kX];
  e[kX - 1] = column_extremes<Tile>(from, kX - 1);
#pragma unroll(kSize <= 7 && !Tile::kRgba ? kSize : 1)
  for (int x = kX; x < kSize; x++) e[kX - 1].include(column_extremes<Tile>(from, x));
#pragma unroll
  for (int x = kX - 2; x >= 0; x--) {
    e[x] = column_extremes<Tile>(from, x);
    e[x].include(e[x + 1]);
  }
  WindowExtremes<kY> behind = column_extremes<Tile>(from, kSize);
#pragma unroll
  for (int x = 1; x < kX; x++) {
    e[x].include(behind);
    if (x + 1 < kX) behind.include(column_extremes<Tile>(from, kSize + x));
  }
  uint32_t low[kY][kX], high[kY][kX];
#pragma unroll
  for (int y = 0; y < kY; y++)
#pragma unroll
    for (int x = 0; x < kX; x++) low[y][x] = e[x].low[y], high[y][x] = e[x].high[y];
  switch_outliers<Tile>(from, pass, threshold, low, high, out);
}

// Does this with extremes from the lists of shared columns, from `lists` on, and from a few rows.
template <class Tile, class Net, class Lists, class Order>
__device__ __forceinline__ void keep_others(const Order& order, uint32_t from, int pass,
                                            uint32_t lists, uint32_t threshold,
                                            uint32_t (&out)[Tile::kTileY][Tile::kTileX]) {
  uint32_t low[Tile::kTileY][Tile::kTileX], high[Tile::kTileY][Tile::kTileX];
  Net::extremes(
      order, [&](int y, int x) { return Tile::two_of(load32(from + 4 * Tile::place(y, x)), pass); },
      [&](int word, int x) { return load32(lists + 4 * Lists::at(word, x)); }, low, high);
  switch_outliers<Tile>(from, pass, threshold, low, high, out);
}

// Tells whether the GPUs that code is being compiled for run a network. Emulation is any GPU.
constexpr bool runs_here([[maybe_unused]] NetworkKernel::Runs runs) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__)
  constexpr bool kShares = shares_columns(__CUDA_ARCH__ / 10);
  return runs == NetworkKernel::everywhere || (runs == NetworkKernel::where_shared) == kShares;
#else
  return true;
#endif
}

// Net is generated by the build.
template <Format F, class Net, class Order, int Share, int BlockX, int BlockY, int Threads>
__device__ __forceinline__ void network(const NetworkArgs& a) {
  using Tile = NetworkTile<F, Net, BlockX, BlockY, Threads>;
  constexpr bool kRgba = Tile::kRgba, kShares = Tile::kShares;
  // Integers of one channel at a time may also be pairs.
  constexpr bool kPairable = (F == Format::u8 || F == Format::u16) && !kIsLong<Net>;
  using PairTile = NetworkTile<F, Net, BlockX, BlockY, Threads, kPairable>;
  constexpr int kTileX = Tile::kTileX, kTileY = Tile::kTileY, kThreads = Tile::kThreads;
  constexpr bool kSorters = Threads > BlockX * BlockY;  // some threads only sort columns
  VF_DYNAMIC_SHARED(16, uint32_t, shared);
  auto& stage = *reinterpret_cast<typename Tile::Stage*>(shared);
  VF_SHARED(uint32_t[kRgba ? kTileX * kTileY * kThreads : 1], done);

  // Another plane may start only when the frame is there.
  if (!kIsLong<Net> && !a.overlaps) wait_for_previous();
  let_next_start();
  const bool pairs = kPairable && a.pairs;
  const int channel = kRgba ? 0 : a.channels.index >> (8 * blockIdx.z) & 0xff;
  uint32_t outside = kRgba ? uint32_t(a.channels.border_value)
                     : Tile::kFloat
                         ? float_border(a, blockIdx.z)
                         : uint32_t(a.channels.border_value >> (16 * blockIdx.z)) & 0xffff;
  const int block_x = blockIdx.x * Tile::kWidth;
  const int block_y = blockIdx.y * (Tile::kHeight + (pairs ? 0 : Tile::kLower));
  const int left = block_x - Tile::kLeft, top = block_y - Tile::kRadius;
  if (pairs) {
    outside = uint32_t(a.channels.border_value);
    if (F == Format::u8) outside = __byte_perm(outside, 0, 0x4420);
    PairTile::fill(a, 0, outside, left, top, stage);
  } else {
    Tile::fill(a, channel, outside, left, top, stage);
  }
  __syncthreads();

  const int tx = threadIdx.x % BlockX, ty = threadIdx.x / BlockX;
  const int out_x = block_x + tx * kTileX, out_y = block_y + ty * kTileY;
  Order order;
  order.one = a.one;
  const bool whole = a.vectors && out_x + kTileX <= a.width;
  uint32_t out[kTileY][kTileX];
#pragma unroll 1
  for (int pass = 0; pass < Tile::kPasses; pass++) {
    // The results of RGBA's first pass wait in shared memory, because registers limit the network.
    const auto store = [&](int y, int x, uint32_t v) {
      if constexpr (kRgba) {
        uint32_t* p = &done[(y * kTileX + x) * kThreads + threadIdx.x];
        v = __byte_perm(v, 0, 0x4420);
        *p = pass == 0 ? v : __byte_perm(*p, v, 0x5410);
      } else {
        out[y][x] = v;
      }
    };
    const auto each = [&](const auto& f) {
#pragma unroll
      for (int y = 0; y < kTileY; y++)
#pragma unroll
        for (int x = 0; x < kTileX; x++) f(y, x);
    };
    const FootprintPixels<Tile> load{&stage[kShares ? 0 : pass][ty * kTileY][tx], pass};
    if constexpr (kShares) {
      using Lists = NetworkLists<Net, BlockX, BlockY>;
      constexpr int kGroup = Lists::kGroup;
      uint32_t* lists = shared + sizeof(stage) / sizeof(uint32_t);
      if (pass) __syncthreads();
#pragma unroll 1
      for (int i = (threadIdx.x + 32 * blockIdx.x) % kThreads; i < Lists::kGroups; i += kThreads) {
        const int group = i % Lists::kAcross, gy = i / Lists::kAcross;
        const uint32_t* column[kGroup];
#pragma unroll
        for (int x = 0; x < kGroup; x++)
          column[x] = &stage[0][gy * kTileY][Tile::place(0, Net::kFirstGroup + group * kGroup + x)];
        uint32_t* to = lists + gy * Lists::kAcross + Lists::place(group);
        Net::template sort_columns<Share>(
            order,
            [&](int y, int x, int turn) {
              const uint32_t* from = turn ? column[x + kGroup / 2] : column[x];
              return Tile::two_of(from[y * Tile::kPitch], pass);
            },
            [&](int word, uint32_t v, int moved) { to[(word + moved) * Lists::kGroups] = v; });
      }
      __syncthreads();
      if (kSorters && ty >= BlockY) continue;
      Net::template run<Share>(order, load, store,
                               GroupLists<Lists>{lists + ty * Lists::kAcross + tx});
    } else {
      Net::template run<Share>(order, load, store);
    }
    if constexpr (kCompares<F, Net>)
      if (a.outliers) {
        const uint32_t from = shared_address(&stage[kShares ? 0 : pass][ty * kTileY][tx]);
        if constexpr (kRgba)
          each([&](int y, int x) {
            const uint32_t both = done[(y * kTileX + x) * kThreads + threadIdx.x];
            out[y][x] = __byte_perm(both, 0, pass ? 0x4342 : 0x4140);
          });
        if constexpr (kShares) {
          using Lists = NetworkLists<Net, BlockX, BlockY>;
          const uint32_t lists =
              shared_address(shared + sizeof(stage) / sizeof(uint32_t) + ty * Lists::kAcross + tx);
          keep_others<Tile, Net, Lists>(order, from, pass, lists, a.threshold, out);
        } else {
          keep_others<Tile>(from, pass, a.threshold, out);
        }
        if constexpr (kRgba) each([&](int y, int x) { store(y, x, out[y][x]); });
      }
  }
  if (kSorters && ty >= BlockY) return;
  if constexpr (kRgba)
    Tile::write_rgba(a, out_x, out_y, whole, done);
  else if (pairs)
    PairTile::write(a, 0, out_x, out_y, whole, out);
  else
    Tile::write(a, channel, out_x, out_y, whole, out);
  if (a.overlaps) end_after_previous();
}

template <Format F, class Net, class Order, int Share, int BlockX, int BlockY, int Threads,
          int MinBlocks>
__global__ void __launch_bounds__(Threads, MinBlocks) network_kernel(NetworkArgs a) {
  if constexpr (runs_here(Net::kRuns)) network<F, Net, Order, Share, BlockX, BlockY, Threads>(a);
}

template <Format F, class Net, class Order, int Share, int BlockX, int BlockY, int Threads,
          int MinBlocks>
NetworkKernel network_kernel_of() {
  constexpr bool kHalves = F == Format::u8 || F == Format::u16;  // two pixels in a register
  size_t shared = sizeof(typename NetworkTile<F, Net, BlockX, BlockY, Threads>::Stage);
  if constexpr (Net::kGroup > 0)
    shared += NetworkLists<Net, BlockX, BlockY>::kWords * sizeof(uint32_t);
  return {network_kernel<F, Net, Order, Share, BlockX, BlockY, Threads, MinBlocks>,
          Threads,
          BlockX * Net::kTileX,
          BlockY * Net::kTileY * (kHalves ? 2 : 1),
          Net::kTileX,
          shared,
          Net::kRuns,
          kIsLong<Net>,
          kCompares<F, Net>};
}

}  // namespace vf::cuda::median
