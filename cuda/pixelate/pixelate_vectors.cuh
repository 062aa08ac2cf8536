// Sums a rectangle of pixels and writes its mean over it, in vectors of 16 bytes that threads
// share. Images are aligned, and pixels have no bytes besides their channels.
//
// A thread reads vectors below each other, and adds up the components of each channel by dot
// products with ones and zeros; a mask leaves out what lies beside the rectangle.
#pragma once

#include "cuda/core/ptx.cuh"
#include "cuda/core/warp.cuh"
#include "filters/pixelate_task.h"

namespace vf::cuda {

template <class T>
constexpr int kComponents = 16 / int(sizeof(T));  // components of a vector

template <class T>
union Vector {
  uint4 all;
  uint32_t word[4];
  T component[kComponents<T>];
};

// Returns factors for dot products: 1 for every `apart`-th component of a word from `first` on.
template <class T>
__host__ __device__ constexpr uint32_t factors_of(int first, int apart) {
  uint32_t factors = 0;
  for (int i = first; i < 4 / int(sizeof(T)); i += apart) factors |= 1u << (8 * i);
  return factors;
}
// Returns a mask of the bits of components `begin` to `end` of a word.
template <class T>
__device__ __forceinline__ uint32_t bits_of(int begin, int end) {
  constexpr int kBits = 8 * int(sizeof(T));
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4 / int(sizeof(T)); i++)
    if (i >= begin && i < end) bits |= ((1u << kBits) - 1) << (kBits * i);
  return bits;
}
template <class T>
__device__ __forceinline__ uint32_t add_products(uint32_t word, uint32_t factors, uint32_t sum) {
  return sizeof(T) == 1 ? __dp4a(word, factors, sum) : __dp2a_lo(word, factors, sum);
}

// Loads a vector of which only the first `bytes` belong to the row. The others become 0.
template <class T>
__device__ __forceinline__ uint4 load_part(const uint8_t* from, int bytes) {
  Vector<T> v;
  v.all = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < kComponents<T>; i++)
    if (i * int(sizeof(T)) < bytes) v.component[i] = reinterpret_cast<const T*>(from)[i];
  return v.all;
}

// Says how threads share the vectors of a rectangle. The threads form as many columns as the
// rectangle has, or one row if there are fewer threads.
struct VectorShare {
  int column, columns, row, rows;
};
__device__ __forceinline__ VectorShare share_vectors(int lane, int lanes, int columns) {
  VectorShare s;
  s.columns = min(columns, lanes);
  s.rows = int(unsigned(lanes) / unsigned(s.columns));
  s.row = int(unsigned(lane) / unsigned(s.columns));
  s.column = lane - s.row * s.columns;
  return s;
}
// Returns the maximum number of vectors in which `width` components can lie.
template <class T>
__host__ __device__ constexpr int vectors_of(int width) {
  return (width * int(sizeof(T)) + 2 * (16 - int(sizeof(T)))) / 16;
}

struct Components {
  int x0, x1, y0, y1;
};

// Adds the components of a thread to the sums of each channel. A row has `row_bytes`.
template <class T, int kChannels>
__device__ __forceinline__ void add_vectors(const uint8_t* image, int64_t stride, int row_bytes,
                                            const Components& r, const VectorShare& share,
                                            uint64_t (&sums)[kChannels]) {
  constexpr int kN = kComponents<T>, kWord = 4 / int(sizeof(T));
  const int v0 = r.x0 / kN, v1 = (r.x1 + kN - 1) / kN;
  const int first = share.row < share.rows ? r.y0 + share.row : r.y1;
#pragma unroll 1
  for (int v = v0 + share.column; v < v1; v += share.columns) {
    uint32_t bits[4], turned[3], own[kChannels] = {};
#pragma unroll
    for (int w = 0; w < 4; w++) {
      const int at = v * kN + w * kWord;
      bits[w] = bits_of<T>(r.x0 - at, r.x1 - at);
    }
    // With three channels, the channels of a word depend on where the vector lies.
    const int phase = v * kN % 3;
#pragma unroll
    for (int i = 0; i < 3; i++) {
      const int at = (i - phase + 3) % 3;
      turned[i] = at == 0   ? factors_of<T>(0, 3)
                  : at == 1 ? factors_of<T>(1, 3)
                            : factors_of<T>(2, 3);
    }
    const auto factors = [&](int channel, int w) {
      if (kChannels == 3) return turned[(channel + 12 - w * kWord) % 3];
      const int at = (channel + 12 - w * kWord) % kChannels;
      return factors_of<T>(at, kChannels);
    };
    const auto add = [&](const uint4& all) {
      const uint32_t word[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
      for (int w = 0; w < 4; w++)
#pragma unroll
        for (int c = 0; c < kChannels; c++)
          if (kChannels == 3 || factors(c, w) != 0)
            own[c] = add_products<T>(word[w] & bits[w], factors(c, w), own[c]);
    };
    const uint8_t* from = image + first * stride + v * 16;
    const int64_t step = share.rows * stride;
    if (const int bytes = row_bytes - v * 16; bytes < 16) {
#pragma unroll 1
      for (int y = first; y < r.y1; y += share.rows, from += step) add(load_part<T>(from, bytes));
    } else {
#pragma unroll 4
      for (int y = first; y < r.y1; y += share.rows, from += step)
        add(*reinterpret_cast<const uint4*>(from));
    }
#pragma unroll
    for (int c = 0; c < kChannels; c++) sums[c] += own[c];
  }
}

template <class T, int kChannels>
__device__ __forceinline__ void write_vectors(uint8_t* image, int64_t stride, const Components& r,
                                              const VectorShare& share,
                                              const T (&means)[kChannels]) {
  constexpr int kN = kComponents<T>, kWord = 4 / int(sizeof(T));
  const int v0 = r.x0 / kN, v1 = (r.x1 + kN - 1) / kN;
  const int first = share.row < share.rows ? r.y0 + share.row : r.y1;
#pragma unroll 1
  for (int v = v0 + share.column; v < v1; v += share.columns) {
    Vector<T> out;
    if constexpr (kChannels == 3) {
      const int phase = v * kN % 3;
      const auto mean = [&](int c) {
        return phase == 0 ? means[c % 3] : phase == 1 ? means[(c + 1) % 3] : means[(c + 2) % 3];
      };
      const T turned[3] = {mean(0), mean(1), mean(2)};
#pragma unroll
      for (int i = 0; i < kN; i++) out.component[i] = turned[i % 3];
    } else {
#pragma unroll
      for (int i = 0; i < kN; i++) out.component[i] = means[i % kChannels];
    }
    uint8_t* row = image + first * stride + v * 16;
    const int begin = r.x0 - v * kN, end = r.x1 - v * kN;  // components of the vector
    if (begin <= 0 && end >= kN) {
      for (int y = first; y < r.y1; y += share.rows, row += share.rows * stride)
        *reinterpret_cast<uint4*>(row) = out.all;
      continue;
    }
#pragma unroll 1
    for (int y = first; y < r.y1; y += share.rows, row += share.rows * stride)
#pragma unroll
      for (int w = 0; w < 4; w++) {
        if (begin <= w * kWord && end >= (w + 1) * kWord) {
          reinterpret_cast<uint32_t*>(row)[w] = out.word[w];
          continue;
        }
#pragma unroll
        for (int i = w * kWord; i < (w + 1) * kWord; i++)
          if (i >= begin && i < end) reinterpret_cast<T*>(row)[i] = out.component[i];
      }
  }
}

}  // namespace vf::cuda
