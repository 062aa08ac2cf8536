// Reads the denoiser's state where a piece of the frame was in the frame before.
#pragma once

#include "cuda/denoise/denoise_blocks.cuh"

namespace vf::cuda {

// Holds the taps of each eighth, as four bytes. A thread block makes them once.
using PackedTaps = int[denoise::kEighths];
__device__ __forceinline__ int packed(const denoise::Taps& t) {
  return int(uint32_t(t.w[0] & 0xff) | uint32_t(t.w[1] & 0xff) << 8 |
             uint32_t(t.w[2] & 0xff) << 16 | uint32_t(t.w[3]) << 24);
}
// Returns a sample from its sum of four samples times their taps.
__device__ __forceinline__ int interpolated(int sum, int top) {
  return clamp_to(sum >> 6, top);
}

// Interpolates along a row, whose first sample is the first or the second one of a word. The taps
// lie where their samples do, so that no sample needs a shift: `even` and `even_last` are the taps
// of a word's first sample, and `odd` and `odd_last` those of its second one. A fifth tap is 0.
struct RowTaps {
  int even, even_last, odd, odd_last;
  __device__ __forceinline__ RowTaps(uint32_t taps, bool is_second) {
    const uint32_t by = is_second ? 8 : 0, first = taps << by;
    const uint32_t last = __funnelshift_l(taps, 0, by);
    even = int(first);
    even_last = int(last);
    odd = int(first << 8);
    odd_last = int(__funnelshift_l(first, last, 8));
  }
  template <int kWords>
  __device__ __forceinline__ int at(int i, const uint32_t (&in)[kWords], int top) const {
    const int a = i % 2 ? odd : even, b = i % 2 ? odd_last : even_last;
    const int sum = dp2a_hi(in[i / 2 + 1], a, dp2a_lo(in[i / 2], a, denoise::kTapOne / 2));
    return interpolated(dp2a_lo(in[i / 2 + 2], b, sum), top);
  }
};

// Returns the piece of a block inside the frame.
__device__ __forceinline__ DenoisePiece piece_at(const Denoise& d, int bx, int by) {
  const auto v = *reinterpret_cast<const uint2*>(
      job_of(d).pieces + (by / denoise::kPiece * (2 * d.patches_x) + bx / denoise::kPiece));
  return {int16_t(v.x), int16_t(v.x >> 16), int16_t(v.y), uint16_t(v.y >> 16)};
}

// Computes kWide x kHigh samples of a plane, which belong to a piece and begin at sample (x, y).
// (ex, ey) is the vector in eighths of a sample. Calls `write` with a row and its samples.
template <int kWide, int kHigh, class Write>
__device__ __forceinline__ void move_samples(const uint16_t* plane, int pitch, int width,
                                             int height, int x, int y, int ex, int ey, int top,
                                             const PackedTaps& taps, Write&& write) {
  // Rows are the same everywhere behind their ends, so kWide + 3 samples from a place near an end
  // are those of any place beyond it. The row is read in words of two samples.
  constexpr int kWords = (kWide + 5) / 2;
  static_assert(kWide + 2 <= kDenoiseBorder);
  const int left = min(max(x + (ex >> 3) - 1, -(kWide + 2)), width - 1);
  const RowTaps along(uint32_t(taps[ex & (denoise::kEighths - 1)]), left & 1);
  const int down = taps[ey & (denoise::kEighths - 1)];
  const int upper = y + (ey >> 3) - 1, last = height - 1;
  const auto* column = reinterpret_cast<const char*>(plane + (left & ~1));
  int line[kWide] = {};
  uint32_t lines[3][kWide];  // pairs of a line and the one below it
#pragma unroll
  for (int r = 0; r < kHigh + 3; r++) {
    const auto* row = reinterpret_cast<const uint32_t*>(
        column + (long long)min(max(upper + r, 0), last) * (2 * pitch));
    uint32_t in[kWords];
#pragma unroll
    for (int i = 0; i < kWords; i++) in[i] = __ldg(row + i);
#pragma unroll
    for (int i = 0; i < kWide; i++) {
      const int above = line[i];
      line[i] = along.at(i, in, top);
      if (r > 0) lines[(r - 1) % 3][i] = pair_of(above, line[i]);
    }
    if (r < 3) continue;
    int out[kWide];
#pragma unroll
    for (int i = 0; i < kWide; i++)
      out[i] = interpolated(dp2a_hi(lines[(r - 1) % 3][i], down,
                                    dp2a_lo(lines[(r - 3) % 3][i], down, denoise::kTapOne / 2)),
                            top);
    write(r - 3, out);
  }
}

// Reads kSide x kSide blocks of the state as they are. Two blocks lie in an aligned word of p.
template <int kSide, int kX, int kY>
__device__ __forceinline__ void read_still(const Denoise& d, int bx, int by,
                                           Blocks<kX, kY> (&t)[kSide], uint32_t (&p)[kSide]) {
  const DenoiseState& from = job_of(d).previous;
#pragma unroll
  for (int r = 0; r < kSide; r++) {
    // Reads the samples of a row of blocks in a row of a plane that has two of a block.
    const auto read = [&](const uint16_t* plane, int pitch, int row, uint32_t* words) {
      load_words<kSide>(plane + (row * pitch + 2 * bx), words);
    };
    // Does so for a plane that has one sample of a block.
    const auto read_one = [&](const uint16_t* plane, int pitch, int row) -> uint32_t {
      if constexpr (kSide == 2) return state_at<const uint32_t>(plane, pitch, bx, row);
      return state_at<const uint16_t>(plane, pitch, bx, row);
    };
#pragma unroll
    for (int j = 0; j < 2; j++) read(from.color[0], d.pitch[0], 2 * (by + r) + j, t[r].luma[j]);
#pragma unroll
    for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
      for (int j = 0; j < kY; j++) {
        if constexpr (kX == 2)
          read(from.color[1 + c], d.pitch[1], kY * (by + r) + j, t[r].chroma[c][j]);
        else
          t[r].chroma[c][j][0] = read_one(from.color[1 + c], d.pitch[1], kY * (by + r) + j);
      }
    p[r] = read_one(from.p, d.pitch_p, by + r);
  }
}

// Reads kSide x kSide blocks of a piece of the compensated state, from block (bx, by) on.
template <int kSide, int kX, int kY>
__device__ __forceinline__ void read_moved(const Denoise& d, const DenoisePiece& piece, int bx,
                                           int by, const PackedTaps& taps,
                                           Blocks<kX, kY> (&t)[kSide], uint32_t (&p)[kSide]) {
  using namespace denoise;
  const DenoiseState& from = job_of(d).previous;
  const int top = d.settings.top;
  const int more_p = piece.more_p & ~kDenoiseRestless;
  if (piece.x == 0 && piece.y == 0 && more_p == 0) {
    read_still<kSide>(d, bx, by, t, p);
    if (piece.brighter != 0) {
#pragma unroll
      for (int r = 0; r < kSide; r++)
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
          for (int k = 0; k < kSide; k++) {
            uint32_t& v = t[r].luma[j][k];
            v = pair_of(int(brightened(v & 0xffff, piece.brighter, top)),
                        int(brightened(v >> 16, piece.brighter, top)));
          }
    }
    return;
  }
  // These loads come first, so that no lane waits for them in the end.
  uint16_t blocks[kSide][kSide];
#pragma unroll
  for (int r = 0; r < kSide; r++)
#pragma unroll
    for (int k = 0; k < kSide; k++) {
      const int column = min(max(bx + k + blocks_of_vector(piece.x), 0), d.blocks_x - 1);
      const int row = min(max(by + r + blocks_of_vector(piece.y), 0), d.blocks_y - 1);
      blocks[r][k] = state_at<const uint16_t>(from.p, d.pitch_p, column, row);
    }
  move_samples<2 * kSide, 2 * kSide>(
      from.color[0], d.pitch[0], d.width[0], d.height[0], 2 * bx, 2 * by, piece.x, piece.y, top,
      taps, [&](int row, const int(&v)[2 * kSide]) {
#pragma unroll
        for (int k = 0; k < kSide; k++)
          t[row / 2].luma[row % 2][k] = pair_of(v[2 * k], v[2 * k + 1]);
      });
  if constexpr (kX > 0) {
    const int ex = eighths_of(piece.x, kX), ey = eighths_of(piece.y, kY);
#pragma unroll
    for (int c = 0; c < 2; c++)
      move_samples<kX * kSide, kY * kSide>(from.color[1 + c], d.pitch[1], d.width[1], d.height[1],
                                           kX * bx, kY * by, ex, ey, top, taps,
                                           [&](int row, const int(&v)[kX * kSide]) {
                                             auto& words = t[row / kY].chroma[c][row % kY];
                                             if constexpr (kX * kSide == 1)
                                               words[0] = uint32_t(v[0]);
                                             else
#pragma unroll
                                               for (int k = 0; k < kX * kSide / 2; k++)
                                                 words[k] = pair_of(v[2 * k], v[2 * k + 1]);
                                           });
  }
#pragma unroll
  for (int r = 0; r < kSide; r++) {
    int moved[2] = {};
#pragma unroll
    for (int k = 0; k < kSide; k++) moved[k] = moved_block(blocks[r][k], more_p);
    p[r] = pair_of(moved[0], moved[1]);
  }
}

}  // namespace vf::cuda
