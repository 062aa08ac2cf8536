// Large square windows of 8-bit pixels by bit-sliced thresholds.
//
// Idea: the median is the number of thresholds t in 1..255 with count(p < t) <= (count - 1) / 2. A
// lane is a threshold, the 8 warps of a block hold all 256; the block goes down a strip of rows.
// Pixels are bits: bit j of word m is column j * Words + m of a segment of 32 * Words columns, so
// that a step to the right is the next word and no bit moves. Counts are bit-sliced. Those of
// columns are up and down counters (the new row's pixel adds, the old row's subtracts); that of the
// window slides along the words (the leading column adds, the trailing one subtracts) and carries
// an offset so that its top bit is the comparison. The answers along the thresholds are ones and
// then zeros, so that the bits of their number are XORs of some of them.
//
// The cost does not depend on the data and grows with the logarithm of the window.
//
// Traffic: bit planes of the frame with its border, made by a kernel of their own (8 words for 32
// pixels, written once), read twice a strip through L2, and one write of the result.
//
// Limits (H200): 200 to 255 registers, so one block of 256 threads a processor; LOP3 and REDUX.
#pragma once

#include "cuda/core/ptx.cuh"
#include "cuda/median/median_bitsliced.h"
#include "cuda/median/median_device.cuh"

namespace vf::cuda::median {

constexpr int bits_for(int n) {
  int bits = 0;
  while ((1 << bits) <= n) bits++;
  return bits;
}

// A bit-sliced number for each of 32 columns: v[i] holds bit i of all.
template <int N>
struct Sliced {
  uint32_t v[N ? N : 1];
  __device__ __forceinline__ uint32_t bit(int i) const { return i < N ? v[i < N ? i : 0] : 0; }
};

__device__ __forceinline__ uint32_t majority(uint32_t a, uint32_t b, uint32_t c) {
  return (a & b) | (c & (a ^ b));
}

// The sum of N words of one bit each.
template <int N>
struct Sum {
  static __device__ __forceinline__ Sliced<bits_for(N)> of(const uint32_t* w) {
    constexpr int A = (N - 1) / 2, B = N - 1 - A;
    const auto a = Sum<A>::of(w);
    const auto b = Sum<B>::of(w + A);
    uint32_t carry = w[N - 1];
    Sliced<bits_for(N)> out;
#pragma unroll
    for (int i = 0; i < bits_for(N); i++) {
      const uint32_t x = a.bit(i), y = b.bit(i);
      out.v[i] = x ^ y ^ carry;
      carry = majority(x, y, carry);
    }
    return out;
  }
};
template <>
struct Sum<2> {
  static __device__ __forceinline__ Sliced<2> of(const uint32_t* w) {
    return {{w[0] ^ w[1], w[0] & w[1]}};
  }
};
template <>
struct Sum<1> {
  static __device__ __forceinline__ Sliced<1> of(const uint32_t* w) { return {{w[0]}}; }
};
template <>
struct Sum<0> {
  static __device__ __forceinline__ Sliced<0> of(const uint32_t*) { return {}; }
};

// sum += a << shift for every column, or -= where Subtract.
template <bool Subtract, int N, int A>
__device__ __forceinline__ void accumulate(uint32_t (&sum)[N], const Sliced<A>& a, int shift) {
  uint32_t carry = Subtract ? ~0u : 0;
#pragma unroll
  for (int i = 0; i < N; i++) {
    uint32_t x = a.bit(i) << shift;
    if (Subtract) x = ~x;
    const uint32_t s = sum[i];
    sum[i] = s ^ x ^ carry;
    carry = majority(s, x, carry);
  }
}

// A + 2 B
template <int A, int B>
__device__ __forceinline__ Sliced<B + 2> add_doubled(const Sliced<A>& a, const Sliced<B>& b) {
  Sliced<B + 2> out;
  uint32_t carry = 0;
#pragma unroll
  for (int i = 0; i < B + 2; i++) {
    const uint32_t x = a.bit(i), y = i ? b.bit(i - 1) : 0;
    out.v[i] = x ^ y ^ carry;
    carry = majority(x, y, carry);
  }
  return out;
}

// XOR over the lanes of a warp.
__device__ __forceinline__ uint32_t xor_lanes(uint32_t v) {
#if __CUDA_ARCH__ >= 800
  return __reduce_xor_sync(~0u, v);
#else
#pragma unroll
  for (int i = 1; i < 32; i *= 2) v ^= __shfl_xor_sync(~0u, v, i);
  return v;
#endif
}

template <int Words>
__global__ void bit_planes(BitslicedArgs a) {
  constexpr int kGroups = (Words + 3) / 4;  // a warp makes four words
  const int lane = threadIdx.x & 31, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int row_segment = warp / kGroups, word = warp % kGroups * 4;
  if (row_segment >= a.rows * a.segments) return;
  const int row = row_segment / a.segments, segment = row_segment % a.segments;
  const int channel = a.channels.index >> (8 * blockIdx.z) & 0xff;
  const uint32_t outside = uint32_t(a.channels.border_value >> (16 * blockIdx.z)) & 0xff;
  const int y = median_border_index(row - a.radius - 1, a.height, a.border);
  const uint8_t* from = a.src + max(y, 0) * a.src_stride + channel;
  const int left = segment * a.columns - a.radius + lane * Words + word;
  uint32_t v = 0;
#pragma unroll
  for (int m = 0; m < 4; m++) {
    const int x = median_border_index(left + m, a.width, a.border);
    v |= ((x | y) < 0 ? outside : from[x * a.step]) << (8 * m);
  }
  v = transpose_bits(v);  // lane 8 m + b gets bit b of word `word` + m
  auto* out = reinterpret_cast<uint32_t*>(a.planes + blockIdx.z * a.channel_words) +
              (size_t(row_segment) * Words + word) * 8;
  if (word + lane / 8 < Words) out[lane] = v;
}

// A warp's view of 32 pixels: the low five bits of p clamped to its 32 thresholds, and whether p
// lies below all of them or inside, as the start of the comparison.
__device__ __forceinline__ void to_warp(const uint4* p, const uint32_t (&high)[3], uint32_t* out) {
  const uint4 a = p[0], b = p[1];
  uint32_t below = high[0] & ~b.y;
  below = (high[1] & ~b.z) | (~(high[1] ^ b.z) & below);
  below = (high[2] & ~b.w) | (~(high[2] ^ b.w) & below);
  const uint32_t inside = ~((b.y ^ high[0]) | (b.z ^ high[1]) | (b.w ^ high[2]));
  const uint32_t above = ~(inside | below);
  *reinterpret_cast<uint4*>(out) = make_uint4((a.x | above) & ~below, (a.y | above) & ~below,
                                              (a.z | above) & ~below, (a.w | above) & ~below);
  *reinterpret_cast<uint2*>(out + 4) = make_uint2((b.x | above) & ~below, ~above);
}
// Which of 32 pixels lie below this lane's threshold.
__device__ __forceinline__ uint32_t below_threshold(const uint32_t* in, const uint32_t (&low)[5]) {
  const uint4 a = *reinterpret_cast<const uint4*>(in);
  const uint2 b = *reinterpret_cast<const uint2*>(in + 4);
  const uint32_t q[5] = {a.x, a.y, a.z, a.w, b.x};
  uint32_t not_above = b.y;
#pragma unroll
  for (int i = 0; i < 5; i++) not_above = (low[i] & ~q[i]) | (~(low[i] ^ q[i]) & not_above);
  return not_above;
}

// Which of the thresholds a thread counts for.
struct Thresholds {
  uint32_t low[5], high[3];  // the bits of the lane and of the warp, all ones or zeros
  uint32_t every[5];         // bit j of a number of ones: the XOR of every 2^j-th answer
  uint32_t top_bits;         // of the warp's last answer

  __device__ __forceinline__ Thresholds(int lane, int warp)
      : high{warp & 1 ? ~0u : 0, warp & 2 ? ~0u : 0, warp & 4 ? ~0u : 0} {
#pragma unroll
    for (int i = 0; i < 5; i++) low[i] = lane >> i & 1 ? ~0u : 0;
#pragma unroll
    for (int j = 1; j < 5; j++) every[j] = ((lane + 1) & ((1 << j) - 1)) == 0 ? ~0u : 0;
    // The warp's last threshold is 32 (warp + 1): its answer alone makes bits 5, 6 and 7.
    top_bits = lane == 5   ? ~0u
               : lane == 6 ? (warp & 1 ? ~0u : 0)
               : lane == 7 ? (warp == 3 ? ~0u : 0)
                           : 0;
  }
};

// The counts of a thread's threshold.
template <int Words, int Rest, int ColumnBits, int WindowBits>
struct Counts {
  // Of columns, and of the window that ends at the segment's last column but one turn: the one
  // from which sliding over word 0 gives the first answer.
  uint32_t column[Words][ColumnBits], start[WindowBits];

  __device__ __forceinline__ explicit Counts(int offset) {
#pragma unroll
    for (int m = 0; m < Words; m++)
#pragma unroll
      for (int b = 0; b < ColumnBits; b++) column[m][b] = 0;
#pragma unroll
    for (int b = 0; b < WindowBits; b++) start[b] = offset >> b & 1 ? ~0u : 0;
  }

  // Three rows of the first window.
  __device__ __forceinline__ void add_rows(const uint32_t (&view)[3][Words][8],
                                           const uint32_t (&low)[5], uint32_t second,
                                           uint32_t third, int turns) {
    uint32_t units[Words], twos[Words];
#pragma unroll
    for (int m = 0; m < Words; m++) {
      const uint32_t p = below_threshold(view[0][m], low);
      const uint32_t q = below_threshold(view[1][m], low) & second;
      const uint32_t r = below_threshold(view[2][m], low) & third;
      units[m] = p ^ q ^ r;
      twos[m] = majority(p, q, r);
      accumulate<false>(column[m], Sliced<2>{{units[m], twos[m]}}, 0);
    }
    const auto all = add_doubled(Sum<Words>::of(units), Sum<Words>::of(twos));
    for (int s = 1; s <= turns; s++) accumulate<false>(start, all, s);
    if (Rest) {
      const auto rest =
          add_doubled(Sum<Rest>::of(units + Words - Rest), Sum<Rest>::of(twos + Words - Rest));
      accumulate<false>(start, rest, turns + 1);
    }
  }

  // A row down: view[0] enters, view[1] leaves.
  __device__ __forceinline__ void move_down(const uint32_t (&view)[3][Words][8],
                                            const uint32_t (&low)[5], int turns) {
    uint32_t enter[Words], leave[Words];
#pragma unroll
    for (int m = 0; m < Words; m++) {
      enter[m] = below_threshold(view[0][m], low);
      leave[m] = below_threshold(view[1][m], low);
      uint32_t toggle = enter[m] ^ leave[m];
#pragma unroll
      for (int b = 0; b < ColumnBits; b++) {
        const uint32_t old = column[m][b];
        column[m][b] = old ^ toggle;
        toggle &= ~(old ^ enter[m]);
      }
    }
    const auto entering = Sum<Words>::of(enter);
    const auto leaving = Sum<Words>::of(leave);
    for (int s = 1; s <= turns; s++) {
      accumulate<false>(start, entering, s);
      accumulate<true>(start, leaving, s);
    }
    if (Rest) {
      accumulate<false>(start, Sum<Rest>::of(enter + Words - Rest), turns + 1);
      accumulate<true>(start, Sum<Rest>::of(leave + Words - Rest), turns + 1);
    }
  }

  // Slides the window along the words and leaves the bits of how many of the warp's answers are
  // ones: of the pixels of word m in `answers[m]`.
  __device__ __forceinline__ void answer(const Thresholds& t, int lane, int turns,
                                         uint32_t (&answers)[Words][8]) const {
    uint32_t sum[WindowBits];
#pragma unroll
    for (int b = 0; b < WindowBits; b++) sum[b] = start[b];
#pragma unroll
    for (int m = 0; m < Words; m++) {
      // Column m enters; the one Size columns before it leaves: an earlier word or an earlier bit.
      const int last = m >= Rest ? m - Rest : m - Rest + Words;
      const int shift = m >= Rest ? turns : turns + 1;
      uint32_t borrow = 0, carry = 0;
#pragma unroll
      for (int b = 0; b < WindowBits; b++) {
        uint32_t difference = borrow;
        if (b < ColumnBits) {
          const uint32_t p = column[m][b % ColumnBits], q = column[last][b % ColumnBits] << shift;
          difference = p ^ q ^ borrow;
          borrow = (~p & q) | (borrow & ~(p ^ q));
        }
        const uint32_t s = sum[b];
        sum[b] = s ^ difference ^ carry;
        carry = majority(s, difference, carry);
      }
      const uint32_t above = sum[WindowBits - 1];  // of 32 lanes: their XOR is that of ~above
      uint32_t v = xor_lanes(above);
#pragma unroll
      for (int j = 1; j < 5; j++) {
        const uint32_t x = xor_lanes(above & t.every[j]);
        if (lane == j) v = x;
      }
      const uint32_t top = ~__shfl_sync(~0u, above, 31) & t.top_bits;
      if (lane >= 5) v = top;
      if (lane < 8) answers[m][lane] = v;
    }
  }
};

// Medians of a row from the answers of all warps: the XOR of their bits, as bytes in the order of
// the columns.
template <int Words>
__device__ __forceinline__ void gather(const uint32_t (&answers)[kBitslicedWarps][Words][8],
                                       int lane, int warp, uint8_t (&line)[32 * Words]) {
  for (int m = warp; m < Words; m += kBitslicedWarps) {
    uint32_t v = 0;
#pragma unroll
    for (int i = 0; i < kBitslicedWarps; i++) v ^= answers[i][m][lane & 7];
    uint32_t value = 0;
#pragma unroll
    for (int b = 0; b < 8; b++) value |= (__shfl_sync(~0u, v, b) >> lane & 1) << b;
    line[lane * Words + m] = uint8_t(value);
  }
}

// Windows of Size = turns * Words + Rest, whose columns count to less than 2^ColumnBits and whose
// offset count to less than 2^WindowBits. Turns: 0 where only the launch knows.
template <int Words, int Rest, int Turns, int ColumnBits, int WindowBits>
__global__ void __launch_bounds__(32 * kBitslicedWarps, 1) bitsliced_kernel(BitslicedArgs a) {
  VF_SHARED(uint32_t[2][kBitslicedWarps][Words][8], answers);
  VF_SHARED(uint8_t[2][32 * Words], line);
  VF_SHARED_ALIGNED(16, uint32_t[kBitslicedWarps][3][Words][8], views);
  VF_SHARED(uint4[2][2][Words * 2], arriving);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int segment = blockIdx.x, y0 = blockIdx.y * a.strip, y1 = min(a.height, y0 + a.strip);
  const int turns = Turns ? Turns : a.turns;
  const uint4* planes = a.planes + blockIdx.z * a.channel_words;
  const int channel = a.channels.index >> (8 * blockIdx.z) & 0xff;
  const Thresholds thresholds(lane, warp);
  const auto row_of = [&](int y) {
    return planes + (size_t(min(y + a.radius + 1, a.rows - 1)) * a.segments + segment) * Words * 2;
  };

  Counts<Words, Rest, ColumnBits, WindowBits> counts(a.offset);

  // The window of the row above the strip, three of its rows at a time.
  const int end = y0 + a.radius;
  for (int y = y0 - a.radius - 1; y < end; y += 3) {
    __syncwarp();
    for (int i = lane; i < 3 * Words; i += 32)
      to_warp(row_of(y + i / Words) + 2 * (i % Words), thresholds.high,
              views[warp][i / Words][i % Words]);
    __syncwarp();
    const uint32_t second = y + 1 < end ? ~0u : 0, third = y + 2 < end ? ~0u : 0;
    counts.add_rows(views[warp], thresholds.low, second, third, turns);
  }

  const auto fetch = [&](int y) {
    if (tid >= 4 * Words) return;
    const int old = tid / (2 * Words), i = tid % (2 * Words);
    copy_async(&arriving[y & 1][old][i], row_of(old ? y - a.radius - 1 : y + a.radius) + i);
  };
  fetch(y0);
  wait_all_copies();
  __syncthreads();
#pragma unroll 1
  for (int y = y0; y <= y1; y++) {
    const int now = y & 1;
    if (y < y1) {
      if (y + 1 < y1) fetch(y + 1);
      for (int i = lane; i < 2 * Words; i += 32)
        to_warp(&arriving[now][i / Words][2 * (i % Words)], thresholds.high,
                views[warp][i / Words][i % Words]);
      __syncwarp();
      counts.move_down(views[warp], thresholds.low, turns);
      counts.answer(thresholds, lane, turns, answers[now][warp]);
    }
    wait_all_copies();
    __syncthreads();
    if (y < y1) gather(answers[now], lane, warp, line[now]);
    if (y > y0) {
      // Column c of the line is the window that ends there, centred a radius before.
      uint8_t* out = a.dst + (y - 1) * a.dst_stride + channel;
      const int first = segment * a.columns;
      for (int x = tid; x < a.columns; x += 32 * kBitslicedWarps)
        if (first + x < a.width) out[size_t(first + x) * a.step] = line[now ^ 1][x + 2 * a.radius];
    }
  }
}

// Windows of at most MaxSize that the launch sizes: one kernel for each remainder of the size by
// Words.
template <int Words, int MaxSize, int Rest>
BitslicedKernel bitsliced_kernel_to() {
  constexpr int threshold = (MaxSize * MaxSize - 1) / 2, bits = bits_for(threshold) + 1;
  return {bit_planes<Words>, bitsliced_kernel<Words, Rest, 0, bits_for(MaxSize), bits>, Words,
          bits};
}
// Windows of one size.
template <int Words, int Size>
BitslicedKernel bitsliced_kernel_of() {
  constexpr int threshold = (Size * Size - 1) / 2, bits = bits_for(threshold) + 1;
  return {bit_planes<Words>,
          bitsliced_kernel<Words, Size % Words, Size / Words, bits_for(Size), bits>, Words, bits};
}

}  // namespace vf::cuda::median
