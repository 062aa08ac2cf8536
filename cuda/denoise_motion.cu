// The denoiser's motion compensation: a vector or a change of light for each
// tile, and the state of tiles with one.
//
// Idea. A warp takes a tile of 16 x 16 blocks, a lane 2 of each of 4 rows. It holds the blocks'
// means of the frame and of the state; gradients come from its neighbours' by shuffles, as only the
// inner blocks of a tile count, and sums over the warp give the vector, in all lanes. Where there
// is one, a lane interpolates its blocks' samples, row by row. Traffic per luma sample of 8 bits: 1
// B in, 2 B of T and 0.5 B of p; where the tile moves, 3.5 B in and out more. Limits: latency.
#include "cuda/denoise_blocks.cuh"
#include "cuda/ptx.cuh"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

constexpr int kRows = 4;  // of a lane's blocks

// Means of a lane's blocks.
struct Means {
  int v[kRows][2];
};

// `inside`: whether the tile is.
template <int kBytes, int kX, int kY, bool kRgb, bool kFast>
__device__ __forceinline__ Means means_of_frame(const Denoise& d, int bx, int by, bool inside) {
  Means m;
  if constexpr (kFast) {
    if (inside) {
      Blocks<kX, kY> x[kRows];
#pragma unroll
      for (int r = 0; r < kRows; r++) read_pairs<kBytes, 2>(d, bx, by + r, x[r]);
#pragma unroll
      for (int r = 0; r < kRows; r++)
#pragma unroll
        for (int k = 0; k < 2; k++) m.v[r][k] = eighth_code(x[r].luma_sum(k));
      return m;
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    Blocks<kX, kY> x;
#pragma unroll
    for (int k = 0; k < 2; k++) {
      read_block<kBytes, kX, kY, kRgb>(d, bx + k, by + r, k, x);
      m.v[r][k] = eighth_code(x.luma_sum(k));
    }
  }
  return m;
}

// Samples of the state and p of a lane's blocks, which have any value outside.
struct State {
  uint2 luma[kRows][2];
  uint32_t p[kRows];

  __device__ __forceinline__ Means means() const {
    Means m;
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      m.v[r][0] = eighth_code(int(sum_of_pair(luma[r][0].x, sum_of_pair(luma[r][1].x, 0))));
      m.v[r][1] = eighth_code(int(sum_of_pair(luma[r][0].y, sum_of_pair(luma[r][1].y, 0))));
    }
    return m;
  }
};
__device__ __forceinline__ State read_state(const Denoise& d, int bx, int by) {
  State s;
#pragma unroll
  for (int r = 0; r < kRows; r++) {
#pragma unroll
    for (int k = 0; k < 2; k++)
      s.luma[r][k] = state_at<const uint2>(d.was.color[0], d.pitch[0], 2 * bx, 2 * (by + r) + k);
    s.p[r] = state_at<const uint32_t>(d.was.p, d.pitch_p, bx, by + r);
  }
  return s;
}
// The same (dx, dy) samples away, which may lie outside.
__device__ __forceinline__ Means means_elsewhere(const Denoise& d, int bx, int by, int dx, int dy) {
  int column[4];
#pragma unroll
  for (int i = 0; i < 4; i++) column[i] = min(max(2 * bx + dx + i, 0), d.width[0] - 1);
  Means m;
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    int sum[2] = {};
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const int y = min(max(2 * (by + r) + dy + k, 0), d.height[0] - 1);
      const uint16_t* row = d.was.color[0] + y * d.pitch[0];
#pragma unroll
      for (int i = 0; i < 4; i++) sum[i / 2] += row[column[i]];
    }
#pragma unroll
    for (int k = 0; k < 2; k++) m.v[r][k] = eighth_code(sum[k]);
  }
  return m;
}

__device__ __forceinline__ int warp_sum(int v) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(~0u, v);
#else
#pragma unroll
  for (int by = 16; by; by /= 2) v += __shfl_xor_sync(~0u, v, by);
  return v;
#endif
}

// Over the inner blocks of the tile; `inner`: a bit for each block of the lane.
__device__ __forceinline__ TileSums sums_of(const Means& x, const Means& t, uint32_t inner) {
  const int above[2] = {__shfl_up_sync(~0u, t.v[kRows - 1][0], 8),
                        __shfl_up_sync(~0u, t.v[kRows - 1][1], 8)};
  const int below[2] = {__shfl_down_sync(~0u, t.v[0][0], 8), __shfl_down_sync(~0u, t.v[0][1], 8)};
  TileSums s = {};
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    const int left = __shfl_up_sync(~0u, t.v[r][1], 1), right = __shfl_down_sync(~0u, t.v[r][0], 1);
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const int gx = k ? right - t.v[r][0] : t.v[r][1] - left;
      const int gy = (r < kRows - 1 ? t.v[r < kRows - 1 ? r + 1 : r][k] : below[k]) -
                     (r ? t.v[r ? r - 1 : 0][k] : above[k]);
      const int d = x.v[r][k] - t.v[r][k];
      const bool counts = inner >> (2 * r + k) & 1;
      add_block(&s, counts ? gx : 0, counts ? gy : 0, counts ? d : 0);
    }
  }
  return {warp_sum(s.xx), warp_sum(s.xy), warp_sum(s.yy), warp_sum(s.xd),
          warp_sum(s.yd), warp_sum(s.dd), warp_sum(s.d)};
}

// kColumns by kHigh samples of a component from (x, y) on. The state has room for whole tiles.
template <int kColumns, int kHigh>
__device__ __forceinline__ void move_samples(const Denoise& d, int c, int x, int y,
                                             const TileMotion& m) {
  const int ex = eighths_of(m.x, d.per_x[c]), ey = eighths_of(m.y, d.per_y[c]);
  const Taps tx = taps_of(ex), ty = taps_of(ey);
  int column[kColumns + 3];
#pragma unroll
  for (int i = 0; i < kColumns + 3; i++)
    column[i] = min(max(x + (ex >> 3) - 1 + i, 0), d.width[c] - 1);
  int lines[4][kColumns];
#pragma unroll
  for (int r = 0; r < kHigh + 3; r++) {
    const int from = min(max(y + (ey >> 3) - 1 + r, 0), d.height[c] - 1);
    const uint16_t* row = d.was.color[c] + from * d.pitch[c];
    int in[kColumns + 3];
#pragma unroll
    for (int i = 0; i < kColumns + 3; i++) in[i] = __ldg(row + column[i]);
#pragma unroll
    for (int i = 0; i < kColumns; i++)
      lines[r % 4][i] = int(interpolate(tx, in[i], in[i + 1], in[i + 2], in[i + 3]));
    if (r < 3) continue;
    uint32_t out[kColumns / 2];
#pragma unroll
    for (int i = 0; i < kColumns; i += 2) {
      int pair[2];
#pragma unroll
      for (int k = 0; k < 2; k++)
        pair[k] =
            int(brightened(interpolate(ty, lines[(r + 1) % 4][i + k], lines[(r + 2) % 4][i + k],
                                       lines[(r + 3) % 4][i + k], lines[r % 4][i + k]),
                           c == 0 ? m.brighter : 0));
      out[i / 2] = pair_of(pair[0], pair[1]);
    }
    if constexpr (kColumns == 4)
      state_at<uint2>(d.was.color[c] + d.to_moved, d.pitch[c], x, y + r - 3) =
          make_uint2(out[0], out[1]);
    else
      state_at<uint32_t>(d.was.color[c] + d.to_moved, d.pitch[c], x, y + r - 3) = out[0];
  }
}

template <int kX, int kY>
__device__ __forceinline__ void move_blocks(const Denoise& d, int bx, int by, const TileMotion& m) {
  move_samples<4, 2 * kRows>(d, 0, 2 * bx, 2 * by, m);
  if constexpr (kX > 0)
#pragma unroll 1
    for (int c = 1; c < 3; c++) move_samples<2 * kX, kRows * kY>(d, c, kX * bx, kY * by, m);
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    const int row = min(max(by + r + blocks_of_vector(m.y), 0), d.blocks_y - 1);
    int p[2];
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const int column = min(max(bx + k + blocks_of_vector(m.x), 0), d.blocks_x - 1);
      const uint32_t block = state_at<const uint16_t>(d.was.p, d.pitch_p, column, row);
      p[k] = moves(m) ? moved_block(block) : int(block);
    }
    state_at<uint32_t>(d.was.p + d.to_moved, d.pitch_p, bx, by + r) = pair_of(p[0], p[1]);
  }
}

template <int kBytes, int kX, int kY, bool kRgb, bool kFast>
__global__ __launch_bounds__(32 * kMotionWarps) void find_motion(const Denoise d) {
  VF_SHARED(float[kLevels], factors);
  const int lane = threadIdx.x & 31, tile_x = blockIdx.x * kMotionWarps + (threadIdx.x >> 5);
  const int bx0 = min(tile_x, d.tiles_x - 1) * kTile, by0 = blockIdx.y * kTile;
  const int bx = bx0 + 2 * (lane & 7), by = by0 + kRows * (lane >> 3);
  // All loads are on their way before the first is used.
  TileMotion& motion = d.motions[blockIdx.y * d.tiles_x + bx0 / kTile];
  const TileMotion before = motion;
  const State state = read_state(d, bx, by);
  const Means x =
      means_of_frame<kBytes, kX, kY, kRgb, kFast>(d, bx, by, is_inside(d, bx0, by0, kTile, kTile));
  const Means t = state.means();
  if (threadIdx.x < kLevels)
    factors[threadIdx.x] = expected_factor(d.model->noise[0], d.settings, threadIdx.x);
  __syncthreads();
  if (tile_x >= d.tiles_x) return;
  // Blocks with a neighbour in the tile on each side.
  const int last_x = min(bx0 + kTile, d.blocks_x) - 1, last_y = min(by0 + kTile, d.blocks_y) - 1;
  uint32_t inner = 0;
  int expected = 0;
#pragma unroll
  for (int r = 0; r < kRows; r++)
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const bool is_inner = bx + k > bx0 && bx + k < last_x && by + r > by0 && by + r < last_y;
      const uint32_t block = k ? state.p[r] >> 16 : state.p[r] & 0xffff;
      const int square = expected_square(factors[luma_level(block)], p_of(block));
      inner |= uint32_t(is_inner) << (2 * r + k);
      expected += is_inner ? square : 0;
    }
  expected = warp_sum(expected);
  const TileSums still = sums_of(x, t, inner);
  const int dx = whole_of(before.next_x), dy = whole_of(before.next_y);
  TileSums moved = still;
  if (dx || dy) moved = sums_of(x, means_elsewhere(d, bx, by, dx, dy), inner);
  const int blocks = max(last_x - bx0 - 1, 0) * max(last_y - by0 - 1, 0);
  const TileMotion found = motion_of(still, moved, dx, dy, expected, blocks);
  if (lane == 0) motion = found;
  if (changes(found)) move_blocks<kX, kY>(d, bx, by, found);
}

}  // namespace

DenoiseKernel denoise_motion(int bytes, int chroma_x, int chroma_y, bool rgb, bool fast) {
  const bool wide = bytes == 2;
  if (rgb) return wide ? find_motion<2, 2, 2, true, false> : find_motion<1, 2, 2, true, false>;
  if (fast) return wide ? find_motion<2, 1, 1, false, true> : find_motion<1, 1, 1, false, true>;
  switch (2 * chroma_x + chroma_y) {
    case 0:
      return wide ? find_motion<2, 0, 0, false, false> : find_motion<1, 0, 0, false, false>;
    case 3:
      return wide ? find_motion<2, 1, 1, false, false> : find_motion<1, 1, 1, false, false>;
    case 4:
      return wide ? find_motion<2, 1, 2, false, false> : find_motion<1, 1, 2, false, false>;
    case 5:
      return wide ? find_motion<2, 2, 1, false, false> : find_motion<1, 2, 1, false, false>;
    default:
      return wide ? find_motion<2, 2, 2, false, false> : find_motion<1, 2, 2, false, false>;
  }
}

}  // namespace vf::cuda
