// Holds blocks of 2 x 2 pixels in registers, for the denoiser's kernels that read frames.
#pragma once

#include "cuda/denoise/denoise_device.cuh"

namespace vf::cuda {

// A block has kX by kY samples of each of two chroma components. Gray has none.
template <int kX, int kY>
struct Chroma {
  static constexpr int colors = kX ? 2 : 0;
  static constexpr int rows = kX ? kY : 1, words = kX == 2 ? 2 : 1;
};

// Adds both halves of a word to `sum`.
__device__ __forceinline__ uint32_t sum_of_pair(uint32_t pair, uint32_t sum) {
  return __dp2a_lo(pair, 0x0101u, sum);
}

// Holds two blocks side by side. A word of luma has two samples of one block. A word of chroma has
// two samples of one block if kX is 2, and one sample of each block otherwise.
template <int kX, int kY>
struct Blocks {
  uint32_t luma[2][2];                                              // by row, block
  uint32_t chroma[2][Chroma<kX, kY>::rows][Chroma<kX, kY>::words];  // by component, row, block

  __device__ __forceinline__ int sample(int c, int row, int block, int k) const {
    if (kX == 2) return k ? high_half(chroma[c][row][block]) : low_half(chroma[c][row][block]);
    return block ? high_half(chroma[c][row][0]) : low_half(chroma[c][row][0]);
  }
  __device__ __forceinline__ int luma_sum(int block) const {
    return int(sum_of_pair(luma[0][block], sum_of_pair(luma[1][block], 0)));
  }
};

// Reads one of the two blocks. A block outside of the frame becomes the nearest one inside.
template <int kBytes, int kX, int kY, bool kRgb>
__device__ __forceinline__ void read_block(const Denoise& d, int bx, int by, int block,
                                           Blocks<kX, kY>& out) {
  bx = min(max(bx, 0), d.blocks_x - 1);
  by = min(max(by, 0), d.blocks_y - 1);
  if constexpr (kRgb) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      denoise::Three v[2];
#pragma unroll
      for (int k = 0; k < 2; k++)
        v[k] = denoise::of_rgb(sample_at<kBytes>(d, 0, 2 * bx + k, 2 * by + r),
                               sample_at<kBytes>(d, 1, 2 * bx + k, 2 * by + r),
                               sample_at<kBytes>(d, 2, 2 * bx + k, 2 * by + r));
      out.luma[r][block] = pair_of(v[0].v[0], v[1].v[0]);
      out.chroma[0][r][block] = pair_of(v[0].v[1], v[1].v[1]);
      out.chroma[1][r][block] = pair_of(v[0].v[2], v[1].v[2]);
    }
  } else {
#pragma unroll
    for (int r = 0; r < 2; r++)
      out.luma[r][block] = pair_of(sample_at<kBytes>(d, 0, 2 * bx, 2 * by + r),
                                   sample_at<kBytes>(d, 0, 2 * bx + 1, 2 * by + r));
#pragma unroll
    for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
      for (int r = 0; r < kY; r++) {
        if constexpr (kX == 2) {
          out.chroma[c][r][block] = pair_of(sample_at<kBytes>(d, 1 + c, 2 * bx, kY * by + r),
                                            sample_at<kBytes>(d, 1 + c, 2 * bx + 1, kY * by + r));
        } else {
          const uint32_t v = uint32_t(sample_at<kBytes>(d, 1 + c, bx, kY * by + r));
          out.chroma[c][r][0] = block ? (out.chroma[c][r][0] & 0xffff) | v << 16 : v;
        }
      }
  }
}

// Reads kBlocks blocks inside the frame, with R, G and B in pixels of four bytes. The first pixel
// must be aligned to a row of the blocks.
template <int kBlocks>
__device__ __forceinline__ void read_packed(const Denoise& d, int bx, int by, Blocks<2, 2>& out) {
  // Makes a sample of 16 bits from a byte.
  const auto channel = [&](int c, uint32_t pixel) {
    const auto at = uint32_t(reinterpret_cast<uintptr_t>(job_of(d).from[c].data) & 3);
    return int(__byte_perm(pixel, 0, 0x4404 | at << 4));
  };
  const auto* first = reinterpret_cast<const uint8_t*>(
      reinterpret_cast<uintptr_t>(job_of(d).from[0].data) & ~uintptr_t(3));
  uint32_t pixels[2][2 * kBlocks];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const uint8_t* at = first + (2ll * by + r) * job_of(d).from[0].stride + 8ll * bx;
    load_words<2 * kBlocks>(at, pixels[r]);
  }
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int k = 0; k < kBlocks; k++) {
      denoise::Three v[2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const uint32_t pixel = pixels[r][2 * k + i];
        v[i] = denoise::of_rgb(channel(0, pixel), channel(1, pixel), channel(2, pixel));
      }
      out.luma[r][k] = pair_of(v[0].v[0], v[1].v[0]);
      out.chroma[0][r][k] = pair_of(v[0].v[1], v[1].v[1]);
      out.chroma[1][r][k] = pair_of(v[0].v[2], v[1].v[2]);
    }
}

// Reads kCount samples, 2 or 4, as they are in memory.
template <int kBytes, int kCount>
__device__ __forceinline__ void load_samples(const uint8_t* at, uint32_t (&stored)[kBytes]) {
  if constexpr (kBytes * kCount == 2)
    stored[0] = *reinterpret_cast<const uint16_t*>(at);
  else
    load_words<kBytes * kCount / 4>(at, stored);
}
// Makes two 16-bit samples of two words as they are in memory.
__device__ __forceinline__ uint32_t unpacked(const Denoise& d, uint32_t stored) {
  return (stored >> d.shift & (0x10001u * ((1u << d.depth) - 1))) << (16 - d.depth);
}
// Makes words with a pair of 16-bit samples each.
template <int kBytes, int kCount>
__device__ __forceinline__ void unpack_samples(const Denoise& d, const uint32_t (&stored)[kBytes],
                                               uint32_t (&v)[kCount / 2]) {
  if constexpr (kBytes == 1) {
    v[0] = __byte_perm(stored[0], 0, 0x1404);
    if constexpr (kCount == 4) v[1] = __byte_perm(stored[0], 0, 0x3424);
  } else {
#pragma unroll
    for (int i = 0; i < kCount / 2; i++) v[i] = unpacked(d, stored[i]);
  }
}

// Holds blocks side by side as they are in memory, so that no lane waits for them before it needs
// them. Pairs of U and V are in `u`.
template <int kBytes>
struct Stored {
  uint32_t y[2][kBytes], u[kBytes], v[kBytes];
};
__device__ __forceinline__ bool is_swapped(const Denoise& d) {
  return job_of(d).from[1].data > job_of(d).from[2].data;
}

// Reads Y, and UV or VU, or U and V, of kBlocks blocks inside the frame. Rows must be aligned to
// what kBlocks blocks take.
template <DenoiseFast kFast, int kBlocks, int kBytes>
__device__ __forceinline__ void load_inside(const Denoise& d, int bx, int by, Stored<kBytes>& to) {
  const uint8_t* y = job_of(d).from[0].data + 2ll * by * job_of(d).from[0].stride + 2 * bx * kBytes;
#pragma unroll
  for (int r = 0; r < 2; r++)
    load_samples<kBytes, 2 * kBlocks>(y + r * job_of(d).from[0].stride, to.y[r]);
  if constexpr (kFast == DenoiseFast::pairs) {
    const uint8_t* uv = (is_swapped(d) ? job_of(d).from[2].data : job_of(d).from[1].data) +
                        (long long)by * job_of(d).from[1].stride + 2 * bx * kBytes;
    load_samples<kBytes, 2 * kBlocks>(uv, to.u);
  } else {
#pragma unroll
    for (int c = 0; c < 2; c++) {
      const uint8_t* at =
          job_of(d).from[1 + c].data + (long long)by * job_of(d).from[1 + c].stride + bx * kBytes;
      uint32_t(&words)[kBytes] = c ? to.v : to.u;
      if constexpr (kBlocks == 2)
        load_samples<kBytes, 2>(at, words);
      else if constexpr (kBytes == 2)
        words[0] = *reinterpret_cast<const uint16_t*>(at);
      else
        words[0] = *at;
    }
  }
}
template <DenoiseFast kFast, int kBlocks, int kBytes>
__device__ __forceinline__ void unpack(const Denoise& d, const Stored<kBytes>& from,
                                       Blocks<1, 1>& out) {
  uint32_t v[kBlocks];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    unpack_samples<kBytes, 2 * kBlocks>(d, from.y[r], v);
#pragma unroll
    for (int k = 0; k < kBlocks; k++) out.luma[r][k] = v[k];
  }
  if constexpr (kFast == DenoiseFast::pairs) {
    const bool swapped = is_swapped(d);
    unpack_samples<kBytes, 2 * kBlocks>(d, from.u, v);
    out.chroma[0][0][0] = __byte_perm(v[0], v[kBlocks - 1], swapped ? 0x7632 : 0x5410);
    out.chroma[1][0][0] = __byte_perm(v[0], v[kBlocks - 1], swapped ? 0x5410 : 0x7632);
  } else {
    uint32_t pair[1];
#pragma unroll
    for (int c = 0; c < 2; c++) {
      unpack_samples<kBytes, 2>(d, c ? from.v : from.u, pair);
      out.chroma[c][0][0] = pair[0];
    }
  }
}

}  // namespace vf::cuda
