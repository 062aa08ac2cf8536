// Decides how the denoiser's state is compensated for motion and light.
//
// Idea. Two warps take a tile of 16 x 16 blocks, and a lane takes 4 blocks of a row, so that four
// lanes hold a patch. They add up the patch's differences from the state by shuffles, and decide on
// its vector. The sums over the patches that do not move decide on the tile's light. Then each
// thread writes how a piece, a quarter of a patch, is read.
// Traffic: a luma sample of 8 bits takes 1 B in, 2 B of T and 0.5 B of p, and 0.5 B out.
// Latency limits the speed.
#include "cuda/core/ptx.cuh"
#include "cuda/denoise/denoise_blocks.cuh"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

constexpr int kEach = 4;                       // blocks per lane, in a row
constexpr int kAcross = kTile / kEach;         // lanes per row
constexpr int kTileThreads = kTile * kAcross;  // threads per tile
constexpr int kTileWarps = kTileThreads / 32;
constexpr int kThreads = kMotionThreads;
static_assert(kThreads == kTileThreads * kMotionTiles);

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

// Returns the means of a lane's blocks of the frame. `inside` is true if the frame has whole blocks
// and all columns of the tile. The caller does not count rows outside.
template <int kBytes, bool kRgb>
__device__ __forceinline__ Means means_of_frame(const Denoise& d, int bx, int by, bool inside) {
  if constexpr (!kRgb) {
    if (inside) {
      const DenoiseView& y = job_of(d).from[0];
      const uint8_t* at =
          y.data + (long long)min(2 * by, y.height - 2) * y.stride + 2 * bx * kBytes;
      if constexpr (kBytes == 1) {
        const uint2 upper = *reinterpret_cast<const uint2*>(at);
        const uint2 lower = *reinterpret_cast<const uint2*>(at + y.stride);
        // 256 times the sum of codes in 1/8 code is twice the sum.
        static_assert(256 >> 7 == 2);
        const auto mean = [](uint32_t up, uint32_t low, uint32_t twice) {
          return int(__dp4a(up, twice, __dp4a(low, twice, 0u)));
        };
        return {mean(upper.x, lower.x, 0x0202), mean(upper.x, lower.x, 0x02020000),
                mean(upper.y, lower.y, 0x0202), mean(upper.y, lower.y, 0x02020000)};
      } else {
        uint32_t upper[2][2], lower[2][2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
          read_samples<kBytes, 4>(d, at + 8 * i, upper[i]);
          read_samples<kBytes, 4>(d, at + y.stride + 8 * i, lower[i]);
        }
        return means_of({upper[0][0], upper[0][1], upper[1][0], upper[1][1]},
                        {lower[0][0], lower[0][1], lower[1][0], lower[1][1]});
      }
    }
  }
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

__device__ __forceinline__ int warp_sum(int v) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(~0u, v);
#else
#pragma unroll
  for (int by = 16; by; by /= 2) v += __shfl_xor_sync(~0u, v, by);
  return v;
#endif
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

// Adds up what patch (i, j) and its neighbours win. The patch's lanes take a row of patches each,
// and `row` is the lane's row of blocks in the patch.
__device__ __forceinline__ Won won_at(const Denoise& d, int i, int j, int row,
                                      const MotionVector& own) {
  static_assert(kPatch == 4);
  Won all;
  const int y = j + row - 1;
  if (row < 3 && y >= 0 && y < d.patches_y) {
#pragma unroll
    for (int x = -1; x <= 1; x++)
      if (i + x >= 0 && i + x < d.patches_x) add_patch(own, field_at(d, i + x, y), &all);
  }
  return all;
}
__device__ __forceinline__ Won across(const Won& w, int lanes) {
  return {w.residual_zero + __shfl_xor_sync(~0u, w.residual_zero, lanes),
          w.won + __shfl_xor_sync(~0u, w.won, lanes),
          w.patches + __shfl_xor_sync(~0u, w.patches, lanes)};
}

template <int kBytes, bool kRgb>
__global__ __launch_bounds__(kThreads,
                             1024 / kThreads) void decide(const __grid_constant__ Denoise d) {
  constexpr int kPatches = kTile / kPatch;  // of a tile, either way
  static_assert(kPatch == kEach && kAcross == kPatches);
  static_assert(kTileThreads == 4 * kPatches * kPatches, "a piece per thread");
  VF_SHARED(float[kLevels], factors);
  VF_SHARED(Sums[kMotionTiles][kTileWarps], light);
  VF_SHARED(PatchMotion[kMotionTiles][kPatches][kPatches], found);
  VF_SHARED(int[kMotionTiles], brighter);
  const int tile = threadIdx.x / kTileThreads, thread = threadIdx.x % kTileThreads;
  const int tile_x = blockIdx.x * kMotionTiles + tile;
  // Threads behind the last tile repeat its work, but write nothing.
  const int bx0 = min(tile_x, d.tiles_x - 1) * kTile, by0 = blockIdx.y * kTile;
  const int row = thread / kAcross, column = thread % kAcross;
  const int bx = bx0 + kEach * column, by = by0 + row;
  // The patches are compared before the field is there: the kernels that find it have waited for
  // the frame and for the state before they let the next one start.
  const uint4 first =
      state_at<const uint4>(job_of(d).previous.color[0], d.pitch[0], 2 * bx, 2 * by);
  const uint4 second =
      state_at<const uint4>(job_of(d).previous.color[0], d.pitch[0], 2 * bx, 2 * by + 1);
  const uint2 p = state_at<const uint2>(job_of(d).previous.p, d.pitch_p, bx, by);
  const int i = bx / kPatch, j = by / kPatch;
  const bool inside = (kRgb ? job_of(d).packed : job_of(d).whole) && bx0 + kTile <= d.blocks_x;
  const Means x = means_of_frame<kBytes, kRgb>(d, bx, by, inside);
  const Means t =
      means_of({first.x, first.y, first.z, first.w}, {second.x, second.y, second.z, second.w});
  if (threadIdx.x < kLevels)
    factors[threadIdx.x] = expected_factor(d.model->noise[0], d.settings, threadIdx.x);
  __syncthreads();
  Sums sums = {};
#pragma unroll
  for (int k = 0; k < kEach; k++) {
    const uint32_t pair = k < 2 ? p.x : p.y, block = k & 1 ? pair >> 16 : pair & 0xffff;
    const int difference = x.v[k] - t.v[k];
    const int square = expected_square(factors[luma_level(block)], p_of(block));
    const bool counts = bx + k < d.blocks_x && by < d.blocks_y;
    sums.d += counts ? difference : 0;
    sums.dd += counts ? difference * difference : 0;
    sums.expected += counts ? square : 0;
    sums.blocks += counts;
  }
  // The four lanes of a patch lie in one column.
  sums = sums + across(sums, kAcross);
  sums = sums + across(sums, 2 * kAcross);
  wait_for_previous();
  // Before pass 1 waits, it reads only what this kernel does not change.
  let_next_start();
  const MotionVector own = field_at(d, i, j);
  Won all = won_at(d, i, j, row % kPatch, own);
  all = across(across(all, kAcross), 2 * kAcross);
  const bool is_patch = i < d.patches_x && j < d.patches_y;
  const bool is_first = row % kPatch == 0;
  PatchMotion m = {};
  if (is_patch) m = motion_of(own, all, sums.expected, sums.blocks);
  if (is_first) found[tile][row / kPatch][column] = m;
  const bool is_light = is_first && is_patch && !moves(m);
  const Sums still = {warp_sum(is_light ? sums.d : 0), warp_sum(is_light ? sums.dd : 0),
                      warp_sum(is_light ? sums.expected : 0), warp_sum(is_light ? sums.blocks : 0)};
  if (thread % 32 == 0) light[tile][thread / 32] = still;
  __syncthreads();
  if (threadIdx.x < kMotionTiles) {
    static_assert(kTileWarps == 2);
    const Sums s = light[threadIdx.x][0] + light[threadIdx.x][1];
    brighter[threadIdx.x] =
        s.blocks > 0 ? brighter_of(s.d, s.expected, int64_t(s.dd) * 16 - s.expected, s.blocks) : 0;
  }
  __syncthreads();
  if (tile_x >= d.tiles_x) return;
  // A row of threads takes a row of pieces.
  const int piece_x = thread % (2 * kPatches), piece_y = thread / (2 * kPatches);
  const PatchMotion change = found[tile][piece_y / 2][piece_x / 2];
  const int to_x = 2 * bx0 / kPatch + piece_x, to_y = 2 * by0 / kPatch + piece_y;
  if (to_x >= 2 * d.patches_x || to_y >= 2 * d.patches_y) return;
  PieceVector v = {0, 0};
  if (moves(change)) {
    const int x = to_x / 2, y = to_y / 2;
    const int dx = to_x % 2 ? 1 : -1, dy = to_y % 2 ? 1 : -1;
    v = piece_vector(field_at(d, x, y), field_at(d, x + dx, y), field_at(d, x, y + dy),
                     field_at(d, x + dx, y + dy));
  }
  const int brighter_by = moves(change) ? 0 : brighter[tile];
  const int more_p = change.more_p | (change.restless ? kDenoiseRestless : 0);
  *reinterpret_cast<uint2*>(job_of(d).pieces + (to_y * (2 * d.patches_x) + to_x)) =
      make_uint2(pair_of(v.x, v.y), pair_of(brighter_by, more_p));
}

}  // namespace

DenoiseKernel denoise_motion(int bytes, bool rgb) {
  if (rgb) return bytes == 2 ? decide<2, true> : decide<1, true>;
  return bytes == 2 ? decide<2, false> : decide<1, false>;
}

}  // namespace vf::cuda
