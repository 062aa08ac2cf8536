// The denoiser's first pass: motion test, the new state, statistics.
//
// Idea. A warp takes 4 rows of 64 blocks of 2 x 2 pixels, a lane 2 blocks of each, and holds their
// samples and state in registers. The tests of a tile and of a ring of one block round it go
// through shared memory for their sums over 3 x 3. Statistics are sums of integers over cells of 8
// x 8 samples: in registers, by shuffles, then in shared memory; a thread per cell enters them into
// the histograms by global reductions. Traffic per luma sample of NV12: 1.5 B in, 3 B of T and 0.5
// B of p in and out: 8.5 B. Tile: 64 x 32 blocks, 256 threads. Limits: latency of the loads, at
// about 16 warps per processor.
#include "cuda/denoise_device.cuh"
#include "cuda/ptx.cuh"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

constexpr int kTileX = kDenoiseTileX, kTileY = kDenoiseTileY, kRows = kDenoiseRows;
constexpr int kThreads = 32 * kDenoiseWarps;

// Chroma of a block: kX by kY samples of two components; none for gray.
template <int kX, int kY>
struct Chroma {
  static constexpr int colors = kX ? 2 : 0;
  static constexpr int rows = kX ? kY : 1, words = kX == 2 ? 2 : 1;
};

// Two blocks side by side. Samples of luma are pairs, of one block each. So are those of chroma
// with two samples across; else a pair is of both blocks.
template <int kX, int kY>
struct Blocks {
  uint32_t luma[2][2];                                              // by row, block
  uint32_t chroma[2][Chroma<kX, kY>::rows][Chroma<kX, kY>::words];  // by component, row, block

  __device__ __forceinline__ int sample(int c, int row, int block, int k) const {
    if (kX == 2) return k ? high_half(chroma[c][row][block]) : low_half(chroma[c][row][block]);
    return block ? high_half(chroma[c][row][0]) : low_half(chroma[c][row][0]);
  }
  __device__ __forceinline__ int luma_sum(int block) const {
    return low_half(luma[0][block]) + high_half(luma[0][block]) + low_half(luma[1][block]) +
           high_half(luma[1][block]);
  }
};

// Half of the blocks, from blocks that may lie outside.
template <int kBytes, int kX, int kY, bool kRgb>
__device__ __forceinline__ void read_block(const Denoise& d, int bx, int by, int block,
                                           Blocks<kX, kY>& out) {
  bx = min(max(bx, 0), d.blocks_x - 1);
  by = min(max(by, 0), d.blocks_y - 1);
  if constexpr (kRgb) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      Three v[2];
#pragma unroll
      for (int k = 0; k < 2; k++)
        v[k] = of_rgb(sample_at<kBytes>(d, 0, 2 * bx + k, 2 * by + r),
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

template <int kX, int kY>
__device__ __forceinline__ void read_state_block(const Denoise& d, int bx, int by, int block,
                                                 Blocks<kX, kY>& out, uint32_t& p) {
  bx = min(max(bx, 0), d.blocks_x - 1);
  by = min(max(by, 0), d.blocks_y - 1);
#pragma unroll
  for (int r = 0; r < 2; r++)
    out.luma[r][block] = *reinterpret_cast<const uint32_t*>(
        d.was[0] + (long long)(2 * by + r) * d.pitch[0] + 2 * bx);
#pragma unroll
  for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
    for (int r = 0; r < kY; r++) {
      const uint16_t* at = d.was[1 + c] + (long long)(kY * by + r) * d.pitch[1 + c] + kX * bx;
      if constexpr (kX == 2)
        out.chroma[c][r][block] = *reinterpret_cast<const uint32_t*>(at);
      else
        out.chroma[c][r][0] =
            block ? (out.chroma[c][r][0] & 0xffff) | uint32_t(*at) << 16 : uint32_t(*at);
    }
  const uint32_t v = d.was_p[(long long)by * d.pitch_p + bx];
  p = block ? (p & 0xffff) | v << 16 : v;
}

// Both blocks, which lie inside, from aligned rows.
template <int kX, int kY>
__device__ __forceinline__ void read_state(const Denoise& d, int bx, int by, Blocks<kX, kY>& out,
                                           uint32_t& p) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const uint2 v =
        *reinterpret_cast<const uint2*>(d.was[0] + (long long)(2 * by + r) * d.pitch[0] + 2 * bx);
    out.luma[r][0] = v.x;
    out.luma[r][1] = v.y;
  }
#pragma unroll
  for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
    for (int r = 0; r < kY; r++) {
      const uint16_t* at = d.was[1 + c] + (long long)(kY * by + r) * d.pitch[1 + c] + kX * bx;
      if constexpr (kX == 2) {
        const uint2 v = *reinterpret_cast<const uint2*>(at);
        out.chroma[c][r][0] = v.x;
        out.chroma[c][r][1] = v.y;
      } else {
        out.chroma[c][r][0] = *reinterpret_cast<const uint32_t*>(at);
      }
    }
  p = *reinterpret_cast<const uint32_t*>(d.was_p + (long long)by * d.pitch_p + bx);
}

// Y, and UV or VU, of both blocks, which lie inside, from aligned rows.
template <int kBytes>
__device__ __forceinline__ void read_pairs(const Denoise& d, int bx, int by, Blocks<1, 1>& out) {
  const bool swapped = d.from[1].data > d.from[2].data;
  const uint8_t* y = d.from[0].data + 2 * by * d.from[0].stride + (long long)bx * 2 * kBytes;
  const uint8_t* uv = (swapped ? d.from[2].data : d.from[1].data) + by * d.from[1].stride +
                      (long long)bx * 2 * kBytes;
  uint32_t v[3][2];
#pragma unroll
  for (int k = 0; k < 3; k++) {
    const uint8_t* at = k < 2 ? y + k * d.from[0].stride : uv;
    if constexpr (kBytes == 1) {
      const uint32_t four = *reinterpret_cast<const uint32_t*>(at);
      v[k][0] = __byte_perm(four, 0, 0x1404);
      v[k][1] = __byte_perm(four, 0, 0x3424);
    } else {
      const uint2 four = *reinterpret_cast<const uint2*>(at);
      const uint32_t mask = 0x10001u * ((1u << d.depth) - 1);
      v[k][0] = (four.x >> d.shift & mask) << (16 - d.depth);
      v[k][1] = (four.y >> d.shift & mask) << (16 - d.depth);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    out.luma[r][0] = v[r][0];
    out.luma[r][1] = v[r][1];
  }
  const uint32_t low = __byte_perm(v[2][0], v[2][1], 0x5410);
  const uint32_t high = __byte_perm(v[2][0], v[2][1], 0x7632);
  out.chroma[0][0][0] = swapped ? high : low;
  out.chroma[1][0][0] = swapped ? low : high;
}

// Sums of a block's differences, and of their squares.
struct Sums {
  int sum[3], squares[3];
};
__device__ __forceinline__ void difference(int x, int t, int& sum, int& squares) {
  const int v = x - t, e = difference_64th(v);
  sum += v;
  squares += e * e;
}
template <int kX, int kY>
__device__ __forceinline__ Sums differences(const Blocks<kX, kY>& x, const Blocks<kX, kY>& t,
                                            int block) {
  Sums s = {};
#pragma unroll
  for (int r = 0; r < 2; r++) {
    difference(low_half(x.luma[r][block]), low_half(t.luma[r][block]), s.sum[0], s.squares[0]);
    difference(high_half(x.luma[r][block]), high_half(t.luma[r][block]), s.sum[0], s.squares[0]);
  }
#pragma unroll
  for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
    for (int r = 0; r < kY; r++)
#pragma unroll
      for (int k = 0; k < kX; k++)
        difference(x.sample(c, r, block, k), t.sample(c, r, block, k), s.sum[1 + c],
                   s.squares[1 + c]);
  return s;
}

__device__ __forceinline__ uint32_t blend_pair(uint32_t x, uint32_t t, float low, float high) {
  return pair_of(blend(low_half(x), low_half(t), low), blend(high_half(x), high_half(t), high));
}

// Cells of 4 x 4 blocks of a tile.
constexpr int kCells = (kTileX / 4) * (kTileY / 4);
// Their sums: f1, f2 and f11 of each component, luma, texture.
template <int kX, int kY>
constexpr int kSums = 3 * (1 + Chroma<kX, kY>::colors) + 2;

// The rows of a warp: a lane's two blocks of each. Blocks outside of the frame are its last ones.
template <int kBytes, int kX, int kY, bool kRgb, bool kFast>
__device__ __forceinline__ void read_rows(const Denoise& d, int bx, int by,
                                          Blocks<kX, kY> (&x)[kRows], Blocks<kX, kY> (&t)[kRows],
                                          uint32_t (&p)[kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    const int row = min(by + r, d.blocks_y - 1);
    if (kFast && bx + 1 < d.blocks_x && 2 * bx + 3 < d.from[0].width &&
        2 * row + 1 < d.from[0].height && row < d.from[1].height) {
      if constexpr (kFast) read_pairs<kBytes>(d, bx, row, x[r]);
    } else {
      read_block<kBytes, kX, kY, kRgb>(d, bx, row, 0, x[r]);
      read_block<kBytes, kX, kY, kRgb>(d, bx + 1, row, 1, x[r]);
    }
    if (bx + 1 < d.blocks_x) {
      read_state(d, bx, row, t[r], p[r]);
    } else {
      read_state_block(d, bx, row, 0, t[r], p[r]);
      read_state_block(d, bx + 1, row, 1, t[r], p[r]);
    }
  }
}

// The new state of a lane's two blocks. Its rows are padded: the second block may lie outside.
template <int kX, int kY>
__device__ __forceinline__ void write_row(const Denoise& d, int bx, int row,
                                          const Blocks<kX, kY>& x, const Blocks<kX, kY>& t,
                                          const float (&f)[2], const int (&gain)[2]) {
  Blocks<kX, kY> out;
#pragma unroll
  for (int j = 0; j < 2; j++) {
#pragma unroll
    for (int k = 0; k < 2; k++) out.luma[j][k] = blend_pair(x.luma[j][k], t.luma[j][k], f[k], f[k]);
    *reinterpret_cast<uint2*>(d.is[0] + (long long)(2 * row + j) * d.pitch[0] + 2 * bx) =
        make_uint2(out.luma[j][0], out.luma[j][1]);
  }
#pragma unroll
  for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
    for (int j = 0; j < kY; j++) {
      uint16_t* at = d.is[1 + c] + (long long)(kY * row + j) * d.pitch[1 + c] + kX * bx;
      if constexpr (kX == 2)
        *reinterpret_cast<uint2*>(at) =
            make_uint2(blend_pair(x.chroma[c][j][0], t.chroma[c][j][0], f[0], f[0]),
                       blend_pair(x.chroma[c][j][1], t.chroma[c][j][1], f[1], f[1]));
      else
        *reinterpret_cast<uint32_t*>(at) =
            blend_pair(x.chroma[c][j][0], t.chroma[c][j][0], f[0], f[1]);
    }
  *reinterpret_cast<uint32_t*>(d.is_p + (long long)row * d.pitch_p + bx) =
      pair_of(gain[0] | level_of_block(out.luma_sum(0)) << 11,
              gain[1] | level_of_block(out.luma_sum(1)) << 11);
}

// Counts the tile's cells in the histograms: a thread per cell of luma, then of each component of
// chroma.
template <int kX, int kY>
__device__ __forceinline__ void count_cells(const Denoise& d, int bx0, int by0,
                                            const uint32_t (&sums)[kSums<kX, kY>][kCells]) {
  constexpr int colors = 1 + Chroma<kX, kY>::colors;
  const auto add = [](uint32_t* n) { atomicAdd(n, 1u); };
  const auto count = [&](int i, int c, int x_blocks, int y_blocks) {
    const int wide = x_blocks / 4, high = y_blocks / 4, n = kTileX / x_blocks;
    const int cx = i % n, cy = i / n;
    if (bx0 + (cx + 1) * x_blocks > d.blocks_x / x_blocks * x_blocks ||
        by0 + (cy + 1) * y_blocks > d.blocks_y / y_blocks * y_blocks)
      return;
    CellSums of = {};
    uint32_t light = 0, rough = 0;
    for (int v = 0; v < high; v++)
      for (int u = 0; u < wide; u++) {
        const int at = (cy * high + v) * (kTileX / 4) + cx * wide + u;
        of.f1 += int(sums[3 * c][at]);
        of.f2 += int(sums[3 * c + 1][at]);
        of.f11 += sums[3 * c + 2][at];
        light += sums[3 * colors][at];
        rough += sums[3 * colors + 1][at];
      }
    const int parts = wide * high;
    count_cell(d.histograms, d.model->noise[c], c,
               luma_bin(light, parts == 1   ? 0
                               : parts == 2 ? 1
                                            : 2),
               of, cell_texture(rough, parts), c == 0 ? 4 : kX * kY, add);
  };
  for (int i = threadIdx.x; i < kCells; i += kThreads) count(i, 0, 4, 4);
  if constexpr (colors == 3) {
    constexpr int x_blocks = 8 / kX, y_blocks = 8 / kY;
    constexpr int n = (kTileX / x_blocks) * (kTileY / y_blocks);
    for (int i = threadIdx.x; i < 2 * n; i += kThreads) count(i % n, 1 + i / n, x_blocks, y_blocks);
  }
}

template <int kBytes, int kX, int kY, bool kRgb, bool kFast>
__global__ __launch_bounds__(kThreads) void update(const Denoise d) {
  constexpr int colors = 1 + Chroma<kX, kY>::colors, kinds = kSums<kX, kY>;
  VF_SHARED(float2[kTileY + 2][kTileX + 4], tests);
  VF_SHARED(float[3][kLevels], factors);
  VF_SHARED(uint32_t[kinds][kCells], sums);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int bx0 = blockIdx.x * kTileX, by0 = blockIdx.y * kTileY;
  const int bx = bx0 + 2 * lane, by = by0 + kRows * warp;

  Blocks<kX, kY> x[kRows], t[kRows];
  uint32_t p[kRows];
  read_rows<kBytes, kX, kY, kRgb, kFast>(d, bx, by, x, t, p);
  for (int i = threadIdx.x; i < kinds * kCells; i += kThreads) (&sums[0][0])[i] = 0;
  if (threadIdx.x < colors * kLevels) {
    const int c = threadIdx.x / kLevels;
    factors[c][threadIdx.x % kLevels] =
        motion_factor(d.model->noise[c], d.settings, c, threadIdx.x % kLevels);
  }
  __syncthreads();

  const auto test = [&](const Sums& s, uint32_t p16) {
    const int level = int(p16 >> 11);
    const float w = remaining(int(p16) & kOne);
    float2 v = make_float2(motion_of_luma(s.sum[0], factors[0][level], w), 0);
    if (colors == 3)
      v.y = motion_of_chroma(s.sum[1], factors[1][level], s.sum[2], factors[2][level], w);
    return v;
  };
  uint32_t luma = 0, texture = 0;
  int f1[3] = {}, f2[3] = {}, above[2] = {};
  uint32_t f11[3] = {};
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    int now[2];
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const uint32_t p16 = k ? p[r] >> 16 : p[r] & 0xffff;
      const Sums s = differences(x[r], t[r], k);
      tests[kRows * warp + r + 1][2 * lane + k + 1] = test(s, p16);
      const float w = remaining(int(p16) & kOne), root = sqrtf(w);
#pragma unroll
      for (int c = 0; c < colors; c++) {
        const int v = normalised_sum(s.sum[c], root);
        f1[c] += v;
        f11[c] += uint32_t(v * v);
        f2[c] += normalised_squares(s.squares[c], w);
      }
      now[k] = block_luma(t[r].luma_sum(k));
      luma += uint32_t(now[k]);
    }
    // Within a cell, of four blocks: two lanes.
    const int right = __shfl_down_sync(~0u, now[0], 1);
    const int d0 = now[1] - now[0], d1 = lane & 1 ? 0 : right - now[1];
    texture += uint32_t(d0 * d0) + uint32_t(d1 * d1);
    if (r) {
      const int v0 = now[0] - above[0], v1 = now[1] - above[1];
      texture += uint32_t(v0 * v0) + uint32_t(v1 * v1);
    }
    above[0] = now[0];
    above[1] = now[1];
  }
  // A warp's rows are those of its cells.
  const auto across = [](uint32_t v) { return v + __shfl_xor_sync(~0u, v, 1); };
  const int cell = warp * (kTileX / 4) + lane / 2;
  const auto keep = [&](int what, uint32_t v) {
    v = across(v);
    if (!(lane & 1)) sums[what][cell] = v;
  };
#pragma unroll
  for (int c = 0; c < colors; c++) {
    keep(3 * c, uint32_t(f1[c]));
    keep(3 * c + 1, uint32_t(f2[c]));
    keep(3 * c + 2, f11[c]);
  }
  keep(3 * colors, luma);
  keep(3 * colors + 1, texture);

  // The ring round the tile.
  for (int i = threadIdx.x; i < 2 * (kTileX + 2) + 2 * kTileY; i += kThreads) {
    int c = (i - 2 * (kTileX + 2)) & 1 ? kTileX : -1, r = (i - 2 * (kTileX + 2)) >> 1;
    if (i < 2 * (kTileX + 2)) {
      r = i < kTileX + 2 ? -1 : kTileY;
      c = i % (kTileX + 2) - 1;
    }
    Blocks<kX, kY> xs, ts;
    uint32_t ps = 0;
    read_block<kBytes, kX, kY, kRgb>(d, bx0 + c, by0 + r, 0, xs);
    read_state_block(d, bx0 + c, by0 + r, 0, ts, ps);
    tests[r + 1][c + 1] = test(differences(xs, ts, 0), ps);
  }
  __syncthreads();
  const auto row_sums = [&](int row, float2* left, float2* right) {
    const float2* v = &tests[row][2 * lane];
    const float2 a = v[0], b = v[1], c = v[2], e = v[3];
    const float2 middle = make_float2(b.x + c.x, b.y + c.y);
    *left = make_float2(a.x + middle.x, a.y + middle.y);
    *right = make_float2(middle.x + e.x, middle.y + e.y);
  };
  float2 s[3][2];
  row_sums(kRows * warp, &s[0][0], &s[0][1]);
  row_sums(kRows * warp + 1, &s[1][0], &s[1][1]);
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    row_sums(kRows * warp + r + 2, &s[(r + 2) % 3][0], &s[(r + 2) % 3][1]);
    int gain[2];
    float f[2];
#pragma unroll
    for (int k = 0; k < 2; k++) {
      gain[k] = gain_of(s[0][k].x + s[1][k].x + s[2][k].x, s[0][k].y + s[1][k].y + s[2][k].y,
                        int(k ? p[r] >> 16 : p[r]) & kOne, d.settings.least_gain);
      f[k] = float(gain[k]) * (1.0f / kOne);
    }
    if (bx >= d.blocks_x || by + r >= d.blocks_y) continue;
    write_row(d, bx, by + r, x[r], t[r], f, gain);
  }

  // The sums are complete since the barrier.
  count_cells<kX, kY>(d, bx0, by0, sums);
}

}  // namespace

DenoiseKernel denoise_update(int bytes, int chroma_x, int chroma_y, bool rgb, bool fast) {
  const bool wide = bytes == 2;
  if (rgb) return wide ? update<2, 2, 2, true, false> : update<1, 2, 2, true, false>;
  if (fast) return wide ? update<2, 1, 1, false, true> : update<1, 1, 1, false, true>;
  switch (2 * chroma_x + chroma_y) {
    case 0:
      return wide ? update<2, 0, 0, false, false> : update<1, 0, 0, false, false>;
    case 3:
      return wide ? update<2, 1, 1, false, false> : update<1, 1, 1, false, false>;
    case 4:
      return wide ? update<2, 1, 2, false, false> : update<1, 1, 2, false, false>;
    case 5:
      return wide ? update<2, 2, 1, false, false> : update<1, 2, 1, false, false>;
    default:
      return wide ? update<2, 2, 2, false, false> : update<1, 2, 2, false, false>;
  }
}

}  // namespace vf::cuda
