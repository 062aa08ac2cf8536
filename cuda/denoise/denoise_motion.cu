// Decides how the denoiser's state is compensated for motion and light.
//
// Idea. A warp takes a tile of 16 x 16 blocks, and a lane takes two rows of 4 blocks, so that two
// lanes hold a patch. They add up the patch's differences from the state by shuffles, and decide on
// its vector. The sums over the patches that do not move decide on the tile's light. Then each lane
// writes how two pieces are read, which are quarters of its patch.
// Traffic: a luma sample of 8 bits takes 1 B in, 2 B of T and 0.5 B of p, and 0.5 B out.
// Latency limits the speed.
#include "cuda/core/ptx.cuh"
#include "cuda/denoise/denoise_blocks.cuh"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

constexpr int kEach = 4;                // blocks per lane, in a row
constexpr int kRows = 2;                // and rows of them
constexpr int kAcross = kTile / kEach;  // lanes per row
static_assert(kTile / kRows * kAcross == 32, "a warp takes a tile");
static_assert(kPatch == kEach && kPatch == 2 * kRows && kPiece == kRows, "two lanes have a patch");

// Holds the means of a lane's blocks.
struct Means {
  int v[kEach];
};

// Returns the means of a lane's blocks from its two rows of samples.
__device__ __forceinline__ Means means_of(const uint32_t (&upper)[kEach],
                                          const uint32_t (&lower)[kEach]) {
  Means m;
#pragma unroll
  for (int k = 0; k < kEach; k++)
    m.v[k] = eighth_code(int(sum_of_pair(upper[k], sum_of_pair(lower[k], 0))));
  return m;
}

// Holds luma of a lane's row of blocks as it is in memory: two rows of eight samples.
template <int kBytes>
struct Luma {
  uint32_t v[2][2 * kBytes];
};
template <int kBytes>
__device__ __forceinline__ void load_luma(const Denoise& d, int bx, int by, Luma<kBytes>* to) {
  const DenoiseView& y = job_of(d).from[0];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const uint8_t* at =
        y.data + (long long)min(2 * by + r, y.height - 2 + r) * y.stride + 2 * bx * kBytes;
    load_words<2 * kBytes>(at, to->v[r]);
  }
}
template <int kBytes>
__device__ __forceinline__ Means means_of(const Denoise& d, const Luma<kBytes>& luma) {
  if constexpr (kBytes == 1) {
    // 256 times the sum of codes in 1/8 code is twice the sum.
    static_assert(256 >> 7 == 2);
    const auto mean = [&](int word, uint32_t twice) {
      return int(__dp4a(luma.v[0][word], twice, __dp4a(luma.v[1][word], twice, 0u)));
    };
    return {mean(0, 0x0202), mean(0, 0x02020000), mean(1, 0x0202), mean(1, 0x02020000)};
  } else {
    uint32_t rows[2][kEach];
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int k = 0; k < kEach; k++) rows[r][k] = unpacked(d, luma.v[r][k]);
    return means_of(rows[0], rows[1]);
  }
}

// Returns the means of a lane's blocks of the frame. `inside` is true if the frame has whole blocks
// and all columns of the tile. The caller does not count rows outside.
template <int kBytes, bool kRgb>
__device__ __forceinline__ Means means_of_frame(const Denoise& d, int bx, int by, bool inside) {
  Means m;
  if constexpr (kRgb && kBytes == 1) {
    if (inside) {
#pragma unroll
      for (int i = 0; i < kEach; i += 2) {
        Blocks<2, 2> x;
        read_packed<2>(d, bx + i, min(by, d.blocks_y - 1), x);
#pragma unroll
        for (int k = 0; k < 2; k++) m.v[i + k] = eighth_code(x.luma_sum(k));
      }
      return m;
    }
  }
#pragma unroll
  for (int k = 0; k < kEach; k++) {
    constexpr int chroma = kRgb ? 2 : 0;  // Luma of YUV is read without chroma.
    Blocks<chroma, chroma> x;
    read_block<kBytes, chroma, chroma, kRgb>(d, bx + k, by, 0, x);
    m.v[k] = eighth_code(x.luma_sum(0));
  }
  return m;
}

// Holds sums over blocks: differences, their squares, the squares that noise makes, and the number.
struct Sums {
  int d, dd, expected, blocks;
};
__device__ __forceinline__ Sums operator+(const Sums& a, const Sums& b) {
  return {a.d + b.d, a.dd + b.dd, a.expected + b.expected, a.blocks + b.blocks};
}
__device__ __forceinline__ Sums across(const Sums& s, int lanes) {
  return {__shfl_xor_sync(~0u, s.d, lanes), __shfl_xor_sync(~0u, s.dd, lanes),
          __shfl_xor_sync(~0u, s.expected, lanes), __shfl_xor_sync(~0u, s.blocks, lanes)};
}

__device__ __forceinline__ MotionVector field_at(const Denoise& d, int i, int j) {
  const uint2 v = *reinterpret_cast<const uint2*>(
      job_of(d).field +
      (min(max(j, 0), d.patches_y - 1) * d.patches_x + min(max(i, 0), d.patches_x - 1)));
  return {int16_t(v.x), int16_t(v.x >> 16), uint16_t(v.y), uint16_t(v.y >> 16)};
}

__device__ __forceinline__ Won across(const Won& w, int lanes) {
  return {w.residual_zero + __shfl_xor_sync(~0u, w.residual_zero, lanes),
          w.won + __shfl_xor_sync(~0u, w.won, lanes),
          w.patches + __shfl_xor_sync(~0u, w.patches, lanes)};
}

template <int kBytes, bool kRgb>
__global__ __launch_bounds__(kMotionThreads,
                             768 / kMotionThreads) void decide(const __grid_constant__ Denoise d) {
  VF_SHARED(float[kLevels], factors);
  const int tile_x = blockIdx.x * kMotionTiles + threadIdx.x / 32, lane = threadIdx.x % 32;
  // Warps behind the last tile repeat its work, but write nothing.
  const int bx0 = min(tile_x, d.tiles_x - 1) * kTile, by0 = blockIdx.y * kTile;
  const int bx = bx0 + kEach * (lane % kAcross), by = by0 + kRows * (lane / kAcross);
  const bool is_lower = lane / kAcross % 2 != 0;  // the lane's rows are the patch's last ones
  // The patches are compared before the field is there: the kernels that find it have waited for
  // the frame and for the state before they let the next one start.
  const bool inside = (kRgb ? job_of(d).packed : job_of(d).whole) && bx0 + kTile <= d.blocks_x;
  // All loads are on their way before the first result is used.
  Luma<kBytes> luma[kRows];
  uint4 state[kRows][2];
  uint2 p[kRows];
#pragma unroll
  for (int r = 0; r < kRows; r++) {
#pragma unroll
    for (int j = 0; j < 2; j++)
      state[r][j] =
          state_at<const uint4>(job_of(d).previous.color[0], d.pitch[0], 2 * bx, 2 * (by + r) + j);
    p[r] = state_at<const uint2>(job_of(d).previous.p, d.pitch_p, bx, by + r);
  }
  if (!kRgb && inside)
#pragma unroll
    for (int r = 0; r < kRows; r++) load_luma(d, bx, by + r, &luma[r]);
  if (threadIdx.x < kLevels)
    factors[threadIdx.x] = expected_factor(d.model->noise[0], d.settings, threadIdx.x);
  __syncthreads();
  Means x[kRows], t[kRows];
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    x[r] = !kRgb && inside ? means_of(d, luma[r])
                           : means_of_frame<kBytes, kRgb>(d, bx, by + r, inside);
    const uint4 &upper = state[r][0], &lower = state[r][1];
    t[r] = means_of({upper.x, upper.y, upper.z, upper.w}, {lower.x, lower.y, lower.z, lower.w});
  }
  Sums sums = {};
#pragma unroll
  for (int r = 0; r < kRows; r++)
#pragma unroll
    for (int k = 0; k < kEach; k++) {
      const uint32_t pair = k < 2 ? p[r].x : p[r].y, block = k & 1 ? pair >> 16 : pair & 0xffff;
      const int difference = x[r].v[k] - t[r].v[k];
      const int square = expected_square(factors[luma_level(block)], p_of(block));
      const bool counts = bx + k < d.blocks_x && by + r < d.blocks_y;
      sums.d += counts ? difference : 0;
      sums.dd += counts ? difference * difference : 0;
      sums.expected += counts ? square : 0;
      sums.blocks += counts;
    }
  sums = sums + across(sums, kAcross);
  wait_for_previous();
  // Before pass 1 waits, it reads only what this kernel does not change.
  let_next_start();
  // The lane's pieces need the neighbours beside the patch, and the three above or below it.
  const int i = bx / kPatch, j = by / kPatch, next = is_lower ? j + 1 : j - 1;
  const MotionVector own = field_at(d, i, j), left = field_at(d, i - 1, j),
                     right = field_at(d, i + 1, j);
  MotionVector beyond[3];
#pragma unroll
  for (int k = 0; k < 3; k++) beyond[k] = field_at(d, i - 1 + k, next);
  // Each of the patch's lanes adds four of the neighbours, and one of them adds the patch.
  Won all;
  const auto add = [&](int x, int y, const MotionVector& v) {
    if (x >= 0 && x < d.patches_x && y >= 0 && y < d.patches_y) add_patch(own, v, &all);
  };
#pragma unroll
  for (int k = 0; k < 3; k++) add(i - 1 + k, next, beyond[k]);
  if (is_lower) {
    add(i + 1, j, right);
    add_patch(own, own, &all);
  } else {
    add(i - 1, j, left);
  }
  all = across(all, kAcross);
  const bool is_patch = i < d.patches_x && j < d.patches_y;
  PatchMotion m = {};
  if (is_patch) m = motion_of(own, all, sums.expected, sums.blocks);
  const bool is_light = !is_lower && is_patch && !moves(m);
  const Sums still = {sum_of_lanes(is_light ? sums.d : 0), sum_of_lanes(is_light ? sums.dd : 0),
                      sum_of_lanes(is_light ? sums.expected : 0),
                      sum_of_lanes(is_light ? sums.blocks : 0)};
  const int brighter = still.blocks > 0
                           ? brighter_of(still.d, still.expected,
                                         int64_t(still.dd) * 16 - still.expected, still.blocks)
                           : 0;
  if (tile_x >= d.tiles_x || !is_patch) return;
  // A lane writes two pieces of a row.
  const int flag = m.restless ? kDenoiseRestless : 0;
  uint4 pieces;
  if (moves(m)) {
    const PieceVector first = piece_vector(own, left, beyond[1], beyond[0]);
    const PieceVector second = piece_vector(own, right, beyond[1], beyond[2]);
    const uint32_t more_p = pair_of(0, m.more_p | flag);
    pieces = make_uint4(pair_of(first.x, first.y), more_p, pair_of(second.x, second.y), more_p);
  } else {
    const uint32_t light = pair_of(brighter, flag);
    pieces = make_uint4(0, light, 0, light);
  }
  *reinterpret_cast<uint4*>(job_of(d).pieces + ((2 * j + is_lower) * (2 * d.patches_x) + 2 * i)) =
      pieces;
}

}  // namespace

DenoiseKernel denoise_motion(int bytes, bool rgb) {
  if (rgb) return bytes == 2 ? decide<2, true> : decide<1, true>;
  return bytes == 2 ? decide<2, false> : decide<1, false>;
}

}  // namespace vf::cuda
