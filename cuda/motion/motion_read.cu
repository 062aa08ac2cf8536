// Makes all levels of the pyramids of some pictures.
//
// Idea. A thread makes 4 x 4 samples of the finest level from 10 x 10 of the picture, and keeps
// them in registers. Each sample of a coarser level is the mean of 2 x 2 of the level before, so
// the thread also has 2 x 2 samples of the second level and one of the third, and needs nothing
// from others. Four lanes of a warp, which are neighbours, have a sample of the coarsest level
// together. A sum of 4 x 4 bytes takes four instructions (dp4a), and its upper byte is the sample.
// The samples that repeat an edge are written in the same launch. Threads at the ends of a row write
// the samples to its left and right. Other threads make the rows above and below the picture, by
// computing the nearest samples again.
// Blocks inside the picture run code that does not look for its edges.
// Traffic: a picture of 8 bits is read 1.6 times, mostly from the cache, and 0.34 B per pixel are
// written. Latency limits the speed of small pictures, and instructions that of large ones.
#include "cuda/core/ptx.cuh"
#include "cuda/motion/motion.h"

namespace vf::cuda {
namespace {

using namespace vf::motion;

constexpr int kGroup = kMotionReadGroup;
constexpr int kGroups = kMotionReadX / kGroup;  // threads across: half of a warp
constexpr int kRows = 2 * kGroup + 2;           // rows of the picture for a thread
static_assert(kGroups == 16 && kMotionReadThreads == kGroups * (kMotionReadY / kGroup));
// A sample of the coarsest level belongs to two rows of threads of one warp.
static_assert(kMotionReadAbove % 2 == 0 && kGroup * kMotionReadAbove >= kMotionRowBorder &&
              kGroup * kMotionReadBelow >= kMotionRowBorder);

// Holds a thread's samples of the finest level: a row in each word.
struct Samples {
  uint32_t rows[kGroup] = {};
  // Adds a row behind the others. All indices are constant.
  __device__ __forceinline__ void add(uint32_t row) {
#pragma unroll
    for (int k = 1; k < kGroup; k++) rows[k - 1] = rows[k];
    rows[kGroup - 1] = row;
  }
};

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
// Makes words of the four bytes of each sample from ten bytes, with `low` and `high` inside.
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

// The sums of a row for four samples of the level: 1 3 3 1 times the samples from x - 1 on.
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

// Makes a thread's samples, the first of which is sample (x, y) of the finest level.
template <int kUnroll, class Sums>
__device__ __forceinline__ void halve_picture(Samples* out, int y, int height, int shift,
                                              Sums&& sums_of_row) {
  Four upper = {}, middle = {}, lower = {};
#pragma unroll kUnroll
  for (int j = 0; j < kRows; j++) {
    const Four last = sums_of_row(min(max(2 * y - 1 + j, 0), height - 1));
    if (j > 1 && j % 2 == 1) {
      uint32_t word = 0;
#pragma unroll
      for (int k = 0; k < kGroup; k++) {
        const int sum = upper.v[k] + 3 * (middle.v[k] + lower.v[k]) + last.v[k];
        // The largest codes of more than 8 bits would round to 256.
        word |= uint32_t(min((sum + (1 << shift >> 1)) >> shift, 255)) << (8 * k);
      }
      out->add(word);
    }
    upper = middle;
    middle = lower;
    lower = last;
  }
}

// Does so for bytes, of which the inner eight of a row lie in the picture, or all if kInside.
template <bool kInside>
__device__ __forceinline__ void halve_bytes(Samples* out, int x, int y, int width, int height,
                                            const uint8_t* data, ptrdiff_t stride) {
  const int first = kInside ? -1 : max(2 * x - 1, 0) - 2 * x;
  const int last = kInside ? 8 : min(2 * x + 8, width - 1) - 2 * x;
  int from = 2 * y - 1;  // the next row, which may lie outside
  const uint8_t* at =
      data + (kInside ? from : min(max(from, 0), height - 1)) * (long long)stride + 2 * x;
  Sums upper, lower;
  upper.start();
#pragma unroll
  for (int j = 0; j < kRows; j++) {
    const uint2 middle = *reinterpret_cast<const uint2*>(at);
    uint32_t row[kGroup];
    words_of(at[first], middle.x, middle.y, at[last], row);
    // Each row counts in two rows of samples, and the outer ones in one.
    if (j % 2 == 0) {
      lower.start();
      if (j > 0) upper.add(row, true);
      if (j < kRows - 2) lower.add(row, false);
      // A row of samples ends with the next row.
    } else {
      if (j > 1) {
        upper.add(row, false);
        out->add(upper.samples());
      }
      upper = lower;
      if (j < kRows - 2) upper.add(row, true);
    }
    if (kInside || (from >= 0 && from < height - 1)) at += stride;
    from++;
  }
}

template <bool kInside>
__device__ __forceinline__ Samples read_picture(const MotionRead& r, int x, int y) {
  const MotionPicture& p = r.from[blockIdx.z];
  const uint32_t weights = r.weights[blockIdx.z];
  const auto* data = static_cast<const uint8_t*>(p.data[0]);
  const ptrdiff_t stride = p.stride[0];
  const int shift = p.shift, depth = p.depth;
  const uint32_t mask = (1u << depth) - 1;
  const bool is_whole = kInside || 2 * x + 2 * kGroup <= r.width,
             is_fast = is_whole && r.fast[blockIdx.z];
  Samples out;
  if (is_fast && p.type == Type::u8 && depth == 8)
    halve_bytes<kInside>(&out, x, y, r.width, r.height, data, stride);
  else if (is_fast && p.type == Type::u16)
    halve_picture<kRows>(&out, y, r.height, depth - 2, [&](int row) {
      return sums_of_words(reinterpret_cast<const uint16_t*>(data + (long long)row * stride), 2 * x,
                           r.width, shift, mask);
    });
  else if (is_whole && weights)
    halve_picture<kRows>(&out, y, r.height, 8, [&](int row) {
      const auto* pixels = reinterpret_cast<const uint8_t*>(uintptr_t(data) & ~uintptr_t(3));
      return sums_of_pixels(reinterpret_cast<const uint32_t*>(pixels + (long long)row * stride),
                            2 * x, r.width, weights);
    });
  else
    halve_picture<1>(&out, y, r.height, depth - 2 + (p.rgb ? 2 : 0),
                     [&](int row) { return sums_at_edge(p, 2 * x, row, r.width); });
  return out;
}

// Holds n x n samples of a level from (x, y) on: a row in each word. Samples outside the level
// repeat the nearest one. With kInside, none of them or of their neighbours is outside.
template <int kLevel, int n, bool kInside>
struct Square {
  int x, y;
  uint32_t rows[n];

  __device__ __forceinline__ void repeat(const MotionRead& r) {
    if (kInside) return;
    const int last = r.levels.width[kLevel] - 1 - x, lowest = r.levels.height[kLevel] - 1 - y;
    if constexpr (n > 1) {
      const uint32_t order = last >= 3 ? 0x3210 : last == 2 ? 0x2210 : last == 1 ? 0x1110 : 0;
#pragma unroll
      for (int k = 0; k < n; k++) {
        rows[k] = __byte_perm(rows[k], 0, order);
        if (k > 0 && k > lowest) rows[k] = rows[k - 1];
      }
    }
  }

  // Writes the samples. Threads `outside` rows of threads above the picture (less than 0) or below
  // it write rows that repeat the nearest one.
  __device__ __forceinline__ void write(const MotionRead& r, uint8_t* pyramid, int outside) const {
    const int width = r.levels.width[kLevel], height = r.levels.height[kLevel];
    const int pitch = r.levels.pitch[kLevel];
    uint8_t* to = pyramid + r.levels.at[kLevel] + x;
    if (kInside || (outside == 0 && x > 0 && x + n < width && y + n <= height)) {
#pragma unroll
      for (int k = 0; k < n; k++) store(to + (long long)(y + k) * pitch, rows[k]);
      return;
    }
    if (x >= width) return;
    int from = y, end = min(y + n, height);
    uint32_t row[n];
#pragma unroll
    for (int k = 0; k < n; k++) row[k] = rows[k];
    if (outside != 0) {
      from =
          outside < 0 ? max(kGroup * outside, -kMotionRowBorder) : height + kGroup * (outside - 1);
      end = outside < 0 ? kGroup * (outside + 1) : min(from + kGroup, height + kMotionRowBorder);
#pragma unroll
      for (int k = 0; k < n; k++) row[k] = outside < 0 ? rows[0] : rows[n - 1];
    }
#pragma unroll 1
    for (int k = from; k < end; k++) {
      write_row(to + (long long)k * pitch, row[0], width);
#pragma unroll
      for (int m = 1; m < n; m++) row[m - 1] = row[m];
    }
  }

  // Writes a row of the samples, and of those that repeat the level's first and last one.
  __device__ __forceinline__ void write_row(uint8_t* to, uint32_t row, int width) const {
    store(to, row);
    static_assert(kMotionBorder == sizeof(uint4));
    if (x == 0) {
      const uint32_t first = __byte_perm(row, 0, 0);
      *reinterpret_cast<uint4*>(to - kMotionBorder) = {first, first, first, first};
    }
    if (x + n < width) return;
    const uint32_t last = __byte_perm(row, 0, 0x1111 * (n - 1));
    uint8_t* at = to + n;
#pragma unroll 1
    for (int i = x + n; i % 16 != 0;) {
      const int bytes = i % 4 == 0 ? 4 : 1;
      if (bytes == 4)
        *reinterpret_cast<uint32_t*>(at) = last;
      else
        *at = uint8_t(last);
      at += bytes;
      i += bytes;
    }
    *reinterpret_cast<uint4*>(at) = {last, last, last, last};
  }

 private:
  static __device__ __forceinline__ void store(uint8_t* to, uint32_t row) {
    if constexpr (n == 4)
      *reinterpret_cast<uint32_t*>(to) = row;
    else if constexpr (n == 2)
      *reinterpret_cast<uint16_t*>(to) = uint16_t(row);
    else
      *to = uint8_t(row);
  }
};

// Returns the mean of two bytes, from `byte` on, of two words, as the second byte.
__device__ __forceinline__ uint32_t mean_of(uint32_t upper, uint32_t lower, int byte) {
  const uint32_t weights = 0x4040u << (8 * byte);
  return __dp4a(upper, weights, __dp4a(lower, weights, 128u));
}

template <bool kInside>
__device__ __forceinline__ void make_levels(const MotionRead& r, int column, int row, int outside) {
  uint8_t* const pyramid = r.to + r.pyramid * blockIdx.z;
  Square<0, kGroup, kInside> finest = {kGroup * column, kGroup * row, {}};
  if (kInside || finest.x < r.levels.width[0]) {
    const Samples samples = read_picture<kInside>(r, finest.x, finest.y);
#pragma unroll
    for (int k = 0; k < kGroup; k++) finest.rows[k] = samples.rows[k];
  }
  finest.repeat(r);
  finest.write(r, pyramid, outside);
  Square<1, 2, kInside> second = {2 * column, 2 * row, {}};
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const uint32_t upper = finest.rows[2 * k], lower = finest.rows[2 * k + 1];
    second.rows[k] = __byte_perm(mean_of(upper, lower, 0), mean_of(upper, lower, 2), 0x0051);
  }
  second.repeat(r);
  second.write(r, pyramid, outside);
  const Square<2, 1, kInside> third = {
      column, row, {mean_of(second.rows[0], second.rows[1], 0) >> 8}};
  third.write(r, pyramid, outside);
  // The lanes beside and below this one have the other samples. Without one, its own counts twice.
  const uint32_t beside = __shfl_down_sync(~0u, third.rows[0], 1);
  const uint32_t two =
      third.rows[0] + (kInside || column + 1 < r.levels.width[2] ? beside : third.rows[0]);
  const uint32_t below = __shfl_down_sync(~0u, two, kGroups);
  const uint32_t four = two + (kInside || row + 1 < r.levels.height[2] ? below : two);
  const Square<3, 1, kInside> coarsest = {column / 2, row / 2, {(four + 2) >> 2}};
  if (outside != 0 || (column | row) % 2 != 0) return;
  // Few samples are at the upper and the lower edge, so the same threads repeat them.
  const int first = !kInside && row == 0 ? -3 : 0;
  const int last = !kInside && coarsest.y + 1 == r.levels.height[3] ? 3 : 0;
#pragma unroll 1
  for (int k = first; k <= last; k++) coarsest.write(r, pyramid, k);
}

// Brings what the thread block reads of a plane, from row y0 on, to L2. A thread takes 128 bytes.
__device__ __forceinline__ void prefetch_plane(const MotionRead& r, int y0) {
  constexpr int kHigh = 2 * kMotionReadY, kLine = 2 * kMotionReadX;
  static_assert(kLine == 128 && kMotionReadThreads == 2 * kHigh);
  const MotionPicture& p = r.from[blockIdx.z];
  const int bytes = p.type == Type::u8 ? 1 : 2, line = int(threadIdx.x) / kHigh;
  const int x = (int(blockIdx.x) * bytes + line) * kLine;
  const int y = min(max(y0 + int(threadIdx.x) % kHigh, 0), r.height - 1);
  if (line < bytes && x < r.width * bytes)
    prefetch(static_cast<const uint8_t*>(p.data[0]) + (long long)y * p.stride[0] + x);
}

__global__ __launch_bounds__(kMotionReadThreads) void read(const __grid_constant__ MotionRead r) {
  constexpr int kDown = kMotionReadY / kGroup;  // rows of threads
  const int column = blockIdx.x * kGroups + threadIdx.x % kGroups;
  const int above = int(blockIdx.y) * kDown - kMotionReadAbove;
  const int line = above + int(threadIdx.x) / kGroups;
  // Threads above and below the picture make what the nearest ones make.
  const int row = min(max(line, 0), (r.levels.height[0] - 1) / kGroup);
  if (r.prefetches && r.fast[blockIdx.z]) prefetch_plane(r, 2 * kGroup * above);
  wait_for_previous();
  let_next_start();
  // A thread reads eight pixels either way, and one around them.
  if (blockIdx.x > 0 && above > 0 && 2 * kMotionReadX * int(blockIdx.x + 1) < r.width &&
      2 * (kGroup * above + kMotionReadY) < r.height)
    make_levels<true>(r, column, line, 0);
  else
    make_levels<false>(r, column, row, line - row);
}

}  // namespace

MotionReadKernel motion_read() {
  return read;
}

}  // namespace vf::cuda
