// Makes all levels of the pyramids of some pictures.
//
// Idea. A thread block makes a tile of 64 x 64 samples of the finest level, and 32 x 32, 16 x 16
// and 8 x 8 samples of the others. It also makes the samples around them that the coarser levels
// need, so that no block waits for another one. A thread makes 4 x 5 samples of the finest level
// from 10 x 12 of the picture, which it reads once. The other levels are made in shared memory,
// four samples at a time. A sum of 4 x 4 bytes takes four instructions (dp4a), and its upper byte
// is the sample. The last word of a row repeats the row's last sample in bytes that lie behind it.
// Traffic: a picture of 8 bits is read 1.9 times, mostly from the cache, and 0.34 B per pixel are
// written. Latency limits the speed of small pictures, and instructions that of large ones.
#include "cuda/core/ptx.cuh"
#include "cuda/motion/motion.h"

namespace vf::cuda {
namespace {

using namespace vf::motion;

constexpr int kGroup = 4;   // samples of a thread, across
constexpr int kRows = 5;    // and down
constexpr int kAround = 8;  // samples that the finest level needs on each side, rounded up
constexpr int kSide = kMotionTile + 2 * kAround;
constexpr int kGroups = kSide / kGroup;
static_assert(kGroups * (kSide / kRows) == kMotionReadThreads);

// The place of a level around a tile: the samples before the tile's first one, and the bytes of a
// row. The first sample of a row is aligned to 8 bytes.
constexpr int kBeforeTile = 8;
__device__ __forceinline__ constexpr int pitch_of(int level) {
  return level == 0 ? kSide : level == 1 ? 48 : level == 2 ? 32 : 24;
}
// The samples that coarser levels need on each side of a tile.
__device__ __forceinline__ constexpr int around(int level) {
  return (kAround >> level) - 1;
}
__device__ __forceinline__ constexpr int side_of(int level) {
  return kMotionTile >> level;
}

// Holds a level around a tile. `x0` and `y0` are the level's place of the first sample in memory.
struct Region {
  uint8_t* data;
  int pitch, x0, y0;
  __device__ __forceinline__ uint8_t& at(int x, int y) const {
    return data[(y - y0) * pitch + x - x0];
  }
};
template <int kLevel>
__device__ __forceinline__ Region region_of(uint8_t* data) {
  return {data, pitch_of(kLevel), int(blockIdx.x) * side_of(kLevel) - kBeforeTile,
          int(blockIdx.y) * side_of(kLevel) - around(kLevel) - (kLevel == 0)};
}

// Stores four samples of a level of `width` samples, the last of which is repeated behind it.
__device__ __forceinline__ void store(const Region& out, int x, int y, uint32_t samples,
                                      uint32_t order) {
  *reinterpret_cast<uint32_t*>(&out.at(x, y)) = __byte_perm(samples, 0, order);
}
__device__ __forceinline__ uint32_t order_of(int x, int width) {
  const int last = width - 1 - x;
  return last >= 3 ? 0x3210 : last == 2 ? 0x2210 : last == 1 ? 0x1110 : 0;
}

// Sums four rows of ten bytes for four samples: 1 3 3 1 times those from `first` on. The upper byte
// of the lower half of a sum becomes the sample.
struct Sums {
  uint32_t v[kGroup];
  __device__ __forceinline__ void start() {
#pragma unroll
    for (int k = 0; k < kGroup; k++) v[k] = 128;
  }
  // Adds a row. The inner rows count three times as much as the outer ones.
  __device__ __forceinline__ void add(const uint32_t (&row)[kGroup], bool is_inner) {
    const uint32_t weights = is_inner ? 0x0c24240c : 0x040c0c04;
#pragma unroll
    for (int k = 0; k < kGroup; k++) v[k] = __dp4a(row[k], weights, v[k]);
  }
  __device__ __forceinline__ uint32_t samples() const {
    return __byte_perm(__byte_perm(v[0], v[1], 0x0051), __byte_perm(v[2], v[3], 0x0051), 0x5410);
  }
};
// Makes words of the four bytes of each sample from ten bytes, of which `low` and `high` are the
// inner ones.
__device__ __forceinline__ void words_of(uint32_t first, uint32_t low, uint32_t high, uint32_t last,
                                         uint32_t (&row)[kGroup]) {
  row[0] = __byte_perm(low, first, 0x2104);
  row[1] = __funnelshift_r(low, high, 8);
  row[2] = __funnelshift_r(low, high, 24);
  row[3] = __byte_perm(high, last, 0x4321);
}

__device__ __forceinline__ uint32_t code_at(const MotionPicture& p, int c, int x, int y) {
  const uint8_t* row = static_cast<const uint8_t*>(p.data[c]) + (long long)y * p.stride[c];
  const uint32_t stored = p.type == Type::u8
                              ? row[(long long)x * p.step]
                              : reinterpret_cast<const uint16_t*>(row)[(long long)x * p.step];
  return (stored >> p.shift) & ((1u << p.depth) - 1);
}

// Holds the sums of a row of the picture for four samples of the level: 1 3 3 1 times those from
// x - 1 on.
struct Four {
  int v[kGroup];
};
__device__ __forceinline__ Four sums_of(const int (&v)[2 * kGroup + 2]) {
  Four f;
#pragma unroll
  for (int k = 0; k < kGroup; k++)
    f.v[k] = v[2 * k] + 3 * (v[2 * k + 1] + v[2 * k + 2]) + v[2 * k + 3];
  return f;
}
__device__ __forceinline__ Four sums_of_words(const uint16_t* row, int x, int width, int shift,
                                              uint32_t mask) {
  const uint4 middle = *reinterpret_cast<const uint4*>(row + x);
  const uint32_t before = row[max(x - 1, 0)], behind = row[min(x + 2 * kGroup, width - 1)];
  uint32_t words[kGroup + 2] = {before << 16, middle.x, middle.y, middle.z, middle.w, behind};
  if (mask != 0xffff)
#pragma unroll
    for (uint32_t& word : words) word = word >> shift & mask * 0x10001u;
  // A word has two samples. The outer ones of a sum are in the words at its sides.
  Four f;
#pragma unroll
  for (int k = 0; k < kGroup; k++)
    f.v[k] = int(__dp2a_lo(words[k], 0x0100u,
                           __dp2a_lo(words[k + 1], 0x0303u, __dp2a_lo(words[k + 2], 0x0001u, 0u))));
  return f;
}
// Sums R + 2 G + B of pixels of four bytes. `weights` has a byte for each of theirs.
__device__ __forceinline__ Four sums_of_pixels(const uint32_t* row, int x, int width,
                                               uint32_t weights) {
  const uint4 first = *reinterpret_cast<const uint4*>(row + x);
  const uint4 second = *reinterpret_cast<const uint4*>(row + x + 4);
  const uint32_t pixels[2 * kGroup + 2] = {
      row[max(x - 1, 0)], first.x,  first.y,  first.z,  first.w,
      second.x,           second.y, second.z, second.w, row[min(x + 2 * kGroup, width - 1)]};
  int v[2 * kGroup + 2];
#pragma unroll
  for (int k = 0; k < 2 * kGroup + 2; k++) v[k] = int(__dp4a(pixels[k], weights, 0u));
  return sums_of(v);
}
__device__ __forceinline__ Four sums_at_edge(const MotionPicture& p, int x, int y, int width) {
  Four all = {};
#pragma unroll 1
  for (int c = 0; c < (p.rgb ? 3 : 1); c++) {
    int v[2 * kGroup + 2];
#pragma unroll
    for (int k = 0; k < 2 * kGroup + 2; k++)
      v[k] = int(code_at(p, c, min(max(x - 1 + k, 0), width - 1), y));
    const Four sums = sums_of(v);
#pragma unroll
    for (int k = 0; k < kGroup; k++) all.v[k] += sums.v[k] << (c == 1);
  }
  return all;
}

// Makes 4 x 5 samples of the finest level, from sample (x, y) of it on.
template <int kUnroll, class Sums>
__device__ __forceinline__ void halve_picture(const Region& out, int x, int y, int height,
                                              int shift, uint32_t order, Sums&& sums_of_row) {
  Four upper = {}, middle = {}, lower = {};
#pragma unroll kUnroll
  for (int j = 0; j < 2 * kRows + 2; j++) {
    const Four last = sums_of_row(min(max(2 * y - 1 + j, 0), height - 1));
    if (j > 1 && j % 2 == 1) {
      uint32_t word = 0;
#pragma unroll
      for (int k = 0; k < kGroup; k++) {
        const int sum = upper.v[k] + 3 * (middle.v[k] + lower.v[k]) + last.v[k];
        // The largest codes of more than 8 bits would round to 256.
        word |= uint32_t(min((sum + (1 << shift >> 1)) >> shift, 255)) << (8 * k);
      }
      store(out, x, y + j / 2 - 1, word, order);
    }
    upper = middle;
    middle = lower;
    lower = last;
  }
}

// Does so for bytes, of which the inner eight of a row lie in the picture.
__device__ __forceinline__ void halve_bytes(const Region& out, int x, int y, int width, int height,
                                            const uint8_t* data, ptrdiff_t stride) {
  const int first = max(2 * x - 1, 0) - 2 * x, last = min(2 * x + 8, width - 1) - 2 * x;
  int from = 2 * y - 1;  // the next row, which may lie outside
  const uint8_t* at = data + min(max(from, 0), height - 1) * (long long)stride + 2 * x;
  Sums upper, lower;
  upper.start();
#pragma unroll
  for (int j = 0; j < 2 * kRows + 2; j++) {
    const uint2 middle = *reinterpret_cast<const uint2*>(at);
    uint32_t row[kGroup];
    words_of(at[first], middle.x, middle.y, at[last], row);
    // Each row counts in two rows of samples, and the outer ones in one.
    if (j % 2 == 0) {
      lower.start();
      if (j > 0) upper.add(row, true);
      if (j < 2 * kRows) lower.add(row, false);
      // A row of samples ends with the next row.
    } else {
      if (j > 1) {
        upper.add(row, false);
        store(out, x, y + j / 2 - 1, upper.samples(), 0x3210);
      }
      upper = lower;
      if (j < 2 * kRows) upper.add(row, true);
    }
    if (from >= 0 && from < height - 1) at += stride;
    from++;
  }
}

// Makes the samples of a level around the tile from those of the finer one of width x height
// samples, four at a time.
template <int kNext>
__device__ __forceinline__ void halve_level(const Region& in, int width, int height,
                                            const Region& out) {
  constexpr int kBefore = (around(kNext) + 3) / 4, kWide = side_of(kNext) / 4 + 2 * kBefore,
                kHigh = side_of(kNext) + 2 * around(kNext);
  const int next_width = half_of(width), next_height = half_of(height);
#pragma unroll 1
  for (int i = threadIdx.x; i < kWide * kHigh; i += kMotionReadThreads) {
    const int x = side_of(kNext) * int(blockIdx.x) + 4 * (i % kWide - kBefore);
    const int y = side_of(kNext) * int(blockIdx.y) + i / kWide - around(kNext);
    if (x < 0 || y < 0 || x >= next_width || y >= next_height) continue;
    // Samples that no level needs may be made of others than theirs, but not of memory outside.
    const int first = max(2 * x - 1, max(in.x0, 0));
    const int last = min(2 * x + 8, min(in.x0 + in.pitch, width) - 1);
    const bool is_wide = 2 * x + 4 < width;
    Sums sums;
    sums.start();
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int from = min(max(2 * y - 1 + k, 0), height - 1);
      const uint2 middle = *reinterpret_cast<const uint2*>(&in.at(2 * x, from));
      uint32_t row[kGroup];
      words_of(in.at(first, from), middle.x, is_wide ? middle.y : __byte_perm(middle.x, 0, 0x3333),
               in.at(last, from), row);
      sums.add(row, k == 1 || k == 2);
    }
    store(out, x, y, sums.samples(), order_of(x, next_width));
  }
}

// Writes the tile of a level, with the repeated edges if it lies at one.
template <int kLevel>
__device__ __forceinline__ void write_level(const MotionRead& r, uint8_t* pyramid,
                                            const Region& in) {
  constexpr int kSideOf = side_of(kLevel);
  const int width = r.levels.width[kLevel], pitch = r.levels.pitch[kLevel];
  const int y0 = blockIdx.y * kSideOf, y1 = min(y0 + kSideOf, r.levels.height[kLevel]);
  uint8_t* to = pyramid + r.levels.at[kLevel];
  if (blockIdx.x > 0 && blockIdx.x + 1 < gridDim.x) {
    constexpr int kUnits = kSideOf / int(sizeof(uint2));
    const auto copy = [&](int unit, int from, int y) {
      const int x = blockIdx.x * kSideOf + unit * int(sizeof(uint2));
      *reinterpret_cast<uint2*>(to + (long long)y * pitch + x) =
          *reinterpret_cast<const uint2*>(&in.at(x, from));
    };
#pragma unroll
    for (int i = threadIdx.x; i < kUnits * kSideOf; i += kMotionReadThreads) {
      const int y = y0 + i / kUnits;
      if (y < y1) copy(i % kUnits, y, y);
    }
    // The rows that repeat the level's first one and its last one.
    if (blockIdx.y > 0 && blockIdx.y + 1 < gridDim.y) return;
    const int row = 1 + threadIdx.x / kUnits, unit = threadIdx.x % kUnits;
    if (row <= kMotionRowBorder && blockIdx.y == 0) copy(unit, 0, -row);
    if (row <= kMotionRowBorder && blockIdx.y + 1 == gridDim.y) copy(unit, y1 - 1, y1 - 1 + row);
    return;
  }
  const int x0 = blockIdx.x == 0 ? -kMotionBorder : int(blockIdx.x) * kSideOf;
  const int x1 =
      blockIdx.x + 1 == gridDim.x ? pitch - kMotionBorder : int(blockIdx.x + 1) * kSideOf;
  const int words = (x1 - x0) / 4;
  const int above = blockIdx.y == 0 ? y0 - kMotionRowBorder : y0;
  const int below = blockIdx.y + 1 == gridDim.y ? y1 + kMotionRowBorder : y1;
#pragma unroll 1
  for (int i = threadIdx.x; i < words * (below - above); i += kMotionReadThreads) {
    const int x = x0 + 4 * (i % words), y = above + i / words;
    const int from = min(max(y, y0), y1 - 1);
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
      word |= uint32_t(in.at(min(max(x + k, 0), width - 1), from)) << (8 * k);
    *reinterpret_cast<uint32_t*>(to + (long long)y * pitch + x) = word;
  }
}

// Makes and writes the levels from kNext on.
template <int kNext>
__device__ __forceinline__ void make_level(const MotionRead& r, uint8_t* pyramid, const Region& in,
                                           uint8_t* const (&memory)[kLevels]) {
  __syncthreads();
  write_level<kNext - 1>(r, pyramid, in);
  if constexpr (kNext < kLevels) {
    const Region out = region_of<kNext>(memory[kNext]);
    halve_level<kNext>(in, r.levels.width[kNext - 1], r.levels.height[kNext - 1], out);
    make_level<kNext + 1>(r, pyramid, out, memory);
  }
}

// Makes the finest level around the tile.
__device__ __forceinline__ void read_picture(const MotionRead& r, const MotionPicture& p,
                                             bool is_fast, uint32_t weights, const Region& out) {
  const int x = out.x0 + kGroup * int(threadIdx.x % kGroups);
  const int y = out.y0 + kRows * int(threadIdx.x / kGroups);
  const int width = r.levels.width[0], height = r.levels.height[0];
  if (x < 0 || x >= width || y + kRows <= 0 || y >= height) return;
  const auto* data = static_cast<const uint8_t*>(p.data[0]);
  const ptrdiff_t stride = p.stride[0];
  const int shift = p.shift, depth = p.depth;
  const uint32_t mask = (1u << depth) - 1, order = order_of(x, width);
  const bool inside = is_fast && 2 * x + 2 * kGroup <= r.width;
  if (inside && p.type == Type::u8 && depth == 8)
    halve_bytes(out, x, y, r.width, r.height, data, stride);
  else if (inside && p.type == Type::u16)
    halve_picture<2 * kRows + 2>(out, x, y, r.height, depth - 2, order, [&](int row) {
      return sums_of_words(reinterpret_cast<const uint16_t*>(data + (long long)row * stride), 2 * x,
                           r.width, shift, mask);
    });
  else if (weights && 2 * x + 2 * kGroup <= r.width)
    halve_picture<2 * kRows + 2>(out, x, y, r.height, 8, order, [&](int row) {
      const auto* pixels = reinterpret_cast<const uint8_t*>(uintptr_t(data) & ~uintptr_t(3));
      return sums_of_pixels(reinterpret_cast<const uint32_t*>(pixels + (long long)row * stride),
                            2 * x, r.width, weights);
    });
  else
    halve_picture<1>(out, x, y, r.height, depth - 2 + (p.rgb ? 2 : 0), order,
                     [&](int row) { return sums_at_edge(p, 2 * x, row, r.width); });
}

__global__ __launch_bounds__(
    kMotionReadThreads,
    motion_blocks_at_once(3, kMotionReadThreads)) void read(const __grid_constant__ MotionRead r) {
  VF_SHARED_ALIGNED(16, uint8_t[kSide * kSide], finest);
  VF_SHARED_ALIGNED(16, uint8_t[pitch_of(1) * (side_of(1) + 2 * around(1))], second);
  VF_SHARED_ALIGNED(16, uint8_t[pitch_of(2) * (side_of(2) + 2 * around(2))], third);
  VF_SHARED_ALIGNED(16, uint8_t[pitch_of(3) * (side_of(3) + 2 * around(3))], fourth);
  wait_for_previous();
  let_next_start();
  uint8_t* const memory[kLevels] = {finest, second, third, fourth};
  const Region region = region_of<0>(finest);
  read_picture(r, r.from[blockIdx.z], r.fast[blockIdx.z], r.weights[blockIdx.z], region);
  make_level<1>(r, r.to + r.pyramid * blockIdx.z, region, memory);
}

}  // namespace

MotionReadKernel motion_read() {
  return read;
}

}  // namespace vf::cuda
