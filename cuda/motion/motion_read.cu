// Makes all levels of the pyramids of some pictures.
//
// Idea. A thread block makes a tile of 64 x 64 samples of the finest level, and 32 x 32, 16 x 16, 8 x
// 8 and 4 x 4 samples of the others. It also makes the samples around them that the coarser levels
// need, so that no block waits for another one. A thread makes 4 x 6 samples of the finest level
// from 10 x 14 of the picture, which it reads once; the other levels are made in shared memory.
// Traffic: a picture of 8 bits is read 2.2 times, mostly from the cache, and 0.34 B per pixel are
// written. Latency limits the speed.
#include "cuda/core/ptx.cuh"
#include "cuda/motion/motion.h"

namespace vf::cuda {
namespace {

using namespace vf::motion;

constexpr int kGroup = 4;    // samples of a thread, across
constexpr int kRows = 6;     // and down
constexpr int kAround = 16;  // samples that the finest level needs on each side, rounded up
constexpr int kSide = kMotionTile + 2 * kAround;
constexpr int kGroups = kSide / kGroup;
static_assert(kGroups * (kSide / kRows) == kMotionReadThreads);

// Returns the samples that a level needs on each side of its tile.
__device__ __forceinline__ constexpr int around(int level) {
  return (kAround >> level) - 1;
}

// Holds a level around a tile. `x0` and `y0` are the level's place of the first sample in memory.
struct Region {
  uint8_t* data;
  int pitch, x0, y0;
  __device__ __forceinline__ uint8_t& at(int x, int y) const {
    return data[(y - y0) * pitch + x - x0];
  }
};

__device__ __forceinline__ uint32_t code_at(const MotionPicture& p, int c, int x, int y) {
  const uint8_t* row = static_cast<const uint8_t*>(p.data[c]) + (long long)y * p.stride[c];
  const uint32_t stored = p.type == Type::u8
                              ? row[(long long)x * p.step]
                              : reinterpret_cast<const uint16_t*>(row)[(long long)x * p.step];
  return (stored >> p.shift) & ((1u << p.depth) - 1);
}

// Sums a row of the picture for four samples of the level: 1 3 3 1 times those from x - 1 on.
struct Four {
  int v[kGroup];
};
__device__ __forceinline__ Four sums_of_bytes(const uint8_t* at) {
  const uint2 middle = *reinterpret_cast<const uint2*>(at);
  const uint32_t first = at[-1], last = at[8], weights = 0x01030301;
  return {{int(__dp4a(middle.x << 8 | first, weights, 0u)),
           int(__dp4a(__funnelshift_r(middle.x, middle.y, 8), weights, 0u)),
           int(__dp4a(__funnelshift_r(middle.x, middle.y, 24), weights, 0u)),
           int(__dp4a(middle.y >> 8 | last << 24, weights, 0u))}};
}
__device__ __forceinline__ Four sums_of(const int (&v)[2 * kGroup + 2]) {
  Four f;
#pragma unroll
  for (int k = 0; k < kGroup; k++)
    f.v[k] = v[2 * k] + 3 * (v[2 * k + 1] + v[2 * k + 2]) + v[2 * k + 3];
  return f;
}
__device__ __forceinline__ Four sums_of_words(const uint16_t* at, int shift, uint32_t mask) {
  const uint4 middle = *reinterpret_cast<const uint4*>(at);
  const uint32_t words[4] = {middle.x, middle.y, middle.z, middle.w};
  int v[2 * kGroup + 2];
  v[0] = int(at[-1] >> shift & mask);
  v[2 * kGroup + 1] = int(at[2 * kGroup] >> shift & mask);
#pragma unroll
  for (int k = 0; k < kGroup; k++) {
    v[2 * k + 1] = int(words[k] >> shift & mask);
    v[2 * k + 2] = int(words[k] >> (16 + shift) & mask);
  }
  return sums_of(v);
}
__device__ __forceinline__ Four sums_at_edge(const MotionPicture& p, int x, int y, int width) {
  int v[2 * kGroup + 2];
#pragma unroll
  for (int k = 0; k < 2 * kGroup + 2; k++) {
    const int column = min(max(x - 1 + k, 0), width - 1);
    v[k] = int(code_at(p, 0, column, y));
    if (p.rgb) v[k] += int(2 * code_at(p, 1, column, y) + code_at(p, 2, column, y));
  }
  return sums_of(v);
}

// Makes 4 x 6 samples of the finest level, from sample (x, y) of it on.
template <class Sums>
__device__ __forceinline__ void halve_picture(const Region& out, int x, int y, int height,
                                              int shift, Sums&& sums_of_row) {
  const auto row = [&](int j) { return sums_of_row(min(max(2 * y - 1 + j, 0), height - 1)); };
  Four upper = row(0), middle = row(1);
#pragma unroll
  for (int j = 0; j < kRows; j++) {
    const Four lower = row(2 * j + 2), last = row(2 * j + 3);
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < kGroup; k++) {
      const int sum = upper.v[k] + 3 * (middle.v[k] + lower.v[k]) + last.v[k];
      word |= uint32_t((sum + (1 << shift >> 1)) >> shift) << (8 * k);
    }
    *reinterpret_cast<uint32_t*>(&out.at(x, y + j)) = word;
    upper = lower;
    middle = last;
  }
}

// Makes the samples [x0, x1) x [y0, y1) of a level from the finer one of width x height samples.
__device__ __forceinline__ void halve_level(const Region& in, int width, int height,
                                            const Region& out, int x0, int y0, int x1, int y1) {
  const int wide = x1 - x0, n = wide * (y1 - y0);
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += kMotionReadThreads) {
    const int x = x0 + i % wide, y = y0 + i / wide;
    int columns[4];
#pragma unroll
    for (int k = 0; k < 4; k++) columns[k] = min(max(2 * x - 1 + k, 0), width - 1);
    int sum = 32;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int row = min(max(2 * y - 1 + k, 0), height - 1);
      const int sums = in.at(columns[0], row) +
                       3 * (in.at(columns[1], row) + in.at(columns[2], row)) +
                       in.at(columns[3], row);
      sum += (k == 1 || k == 2 ? 3 : 1) * sums;
    }
    out.at(x, y) = uint8_t(sum >> 6);
  }
}

// Writes the tile of a level, with the repeated edges if it lies at one.
__device__ __forceinline__ void write_level(const MotionRead& r, uint8_t* pyramid, int level,
                                            const Region& in) {
  const int side = kMotionTile >> level;
  const int width = r.levels.width[level], pitch = r.levels.pitch[level];
  const int x0 = blockIdx.x == 0 ? -kMotionBorder : int(blockIdx.x) * side;
  const int x1 = blockIdx.x + 1 == gridDim.x ? pitch - kMotionBorder : int(blockIdx.x + 1) * side;
  const int y0 = blockIdx.y * side, y1 = min(y0 + side, r.levels.height[level]);
  const int words = (x1 - x0) / 4;
  uint8_t* to = pyramid + r.levels.at[level];
#pragma unroll 1
  for (int i = threadIdx.x; i < words * (y1 - y0); i += kMotionReadThreads) {
    const int x = x0 + 4 * (i % words), y = y0 + i / words;
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
      word |= uint32_t(in.at(min(max(x + k, 0), width - 1), y)) << (8 * k);
    *reinterpret_cast<uint32_t*>(to + (long long)y * pitch + x) = word;
  }
}

__global__ __launch_bounds__(kMotionReadThreads, 3) void read(const MotionRead r) {
  // Each level has room for what the next one needs, and its first sample is aligned to a word.
  VF_SHARED_ALIGNED(16, uint8_t[kSide * kSide], finest);
  VF_SHARED_ALIGNED(16, uint8_t[48 * 48], second);
  VF_SHARED_ALIGNED(16, uint8_t[24 * 24], third);
  VF_SHARED_ALIGNED(16, uint8_t[12 * 12], fourth);
  VF_SHARED_ALIGNED(16, uint8_t[4 * 4], fifth);
  wait_for_previous();
  let_next_start();
  const MotionPicture& p = r.from[blockIdx.z];
  uint8_t* pyramid = r.to + r.pyramid * blockIdx.z;
  const int tile_x = blockIdx.x, tile_y = blockIdx.y;
  const Region regions[kLevels] = {{finest, kSide, 64 * tile_x - 16, 64 * tile_y - 16},
                                   {second, 48, 32 * tile_x - 8, 32 * tile_y - 8},
                                   {third, 24, 16 * tile_x - 4, 16 * tile_y - 4},
                                   {fourth, 12, 8 * tile_x - 2, 8 * tile_y - 2},
                                   {fifth, 4, 4 * tile_x, 4 * tile_y}};
  {
    const int x = regions[0].x0 + kGroup * (threadIdx.x % kGroups);
    const int y = regions[0].y0 + kRows * int(threadIdx.x / kGroups);
    const bool needed =
        x + kGroup > 0 && x < r.levels.width[0] && y + kRows > 0 && y < r.levels.height[0];
    if (needed) {
      const bool inside = r.fast[blockIdx.z] && x > 0 && 2 * x + 2 * kGroup < r.width;
      const uint8_t* data = static_cast<const uint8_t*>(p.data[0]);
      const uint32_t mask = (1u << p.depth) - 1;
      if (inside && p.type == Type::u8)
        halve_picture(regions[0], x, y, r.height, 6, [&](int row) {
          return sums_of_bytes(data + (long long)row * p.stride[0] + 2 * x);
        });
      else if (inside)
        halve_picture(regions[0], x, y, r.height, p.depth - 2, [&](int row) {
          return sums_of_words(
              reinterpret_cast<const uint16_t*>(data + (long long)row * p.stride[0]) + 2 * x,
              p.shift, mask);
        });
      else
        halve_picture(regions[0], x, y, r.height, p.depth - 2 + (p.rgb ? 2 : 0),
                      [&](int row) { return sums_at_edge(p, 2 * x, row, r.width); });
    }
  }
  __syncthreads();
#pragma unroll
  for (int level = 0; level < kLevels; level++) {
    write_level(r, pyramid, level, regions[level]);
    if (level + 1 == kLevels) break;
    const int next = level + 1, side = kMotionTile >> next, reach = around(next);
    halve_level(regions[level], r.levels.width[level], r.levels.height[level], regions[next],
                max(side * tile_x - reach, 0), max(side * tile_y - reach, 0),
                min(side * (tile_x + 1) + reach, r.levels.width[next]),
                min(side * (tile_y + 1) + reach, r.levels.height[next]));
    __syncthreads();
  }
}

}  // namespace

MotionReadKernel motion_read() {
  return read;
}

}  // namespace vf::cuda
