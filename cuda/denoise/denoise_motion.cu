// Motion compensation of the denoiser: finds a vector or a change of light for each tile, and
// compensates the state of tiles that have one.
//
// Idea. Two warps take a tile of 16 x 16 blocks, and a lane takes 4 blocks of a row. All tiles of a
// small frame then run at once, with all of their loads. Gradients come from the neighbours' means:
// from shared memory across rows, and by shuffles along a row, because only the inner blocks of a
// tile count. One thread per tile makes the vector from the sums. In a tile that moves, a thread
// interpolates 4 x 4 samples at a time.
// Traffic: a luma sample of 8 bits takes 1 B in, 2 B of T and 0.5 B of p. It takes 2 B of T more
// where the search begins elsewhere, and 3.5 B in and out more where the tile moves.
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

// Means of a lane's blocks.
struct Means {
  int v[kEach];
  __device__ __forceinline__ uint2 packed() const {
    return make_uint2(pair_of(v[0], v[1]), pair_of(v[2], v[3]));
  }
};
__device__ __forceinline__ Means unpacked(const uint2& v) {
  return {low_half(v.x), high_half(v.x), low_half(v.y), high_half(v.y)};
}

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
      const DenoiseView& y = d.from[0];
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

// Returns the means of the state (dx, dy) samples away. Places outside take the nearest sample.
__device__ __forceinline__ Means means_elsewhere(const Denoise& d, int bx, int by, int dx, int dy) {
  const int x = 2 * bx + dx, odd = dx & 1;
  const uint16_t* row[2];
#pragma unroll
  for (int r = 0; r < 2; r++)
    row[r] = d.was.color[0] + min(max(2 * by + dy + r, 0), d.height[0] - 1) * d.pitch[0];
  uint32_t v[2][kEach];
  if (x >= -kDenoiseBorder && x + 2 * kEach <= d.width[0] + kDenoiseBorder) {
    uint32_t words[2][kEach + 1];
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int i = 0; i <= kEach; i++)
        words[r][i] = *reinterpret_cast<const uint32_t*>(row[r] + (x - odd) + 2 * i);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int i = 0; i < kEach; i++)
        v[r][i] = __funnelshift_r(words[r][i], words[r][i + 1], 16 * odd);
  } else {
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int first = min(max(x + 2 * i, 0), d.width[0] - 1);
      const int second = min(max(x + 2 * i + 1, 0), d.width[0] - 1);
#pragma unroll
      for (int r = 0; r < 2; r++) v[r][i] = pair_of(row[r][first], row[r][second]);
    }
  }
  return means_of(v[0], v[1]);
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

using TileMeans = uint2[kTile][kAcross];

// Returns the sums over those blocks of a warp that have their bit set in `inner`. `tile` holds the
// means of the state for the whole tile.
__device__ __forceinline__ TileSums sums_of(const Means& x, const Means& t, const TileMeans& tile,
                                            int row, int column, uint32_t inner) {
  const Means above = unpacked(tile[max(row - 1, 0)][column]);
  const Means below = unpacked(tile[min(row + 1, kTile - 1)][column]);
  const int along[kEach + 2] = {
      __shfl_up_sync(~0u, t.v[kEach - 1], 1), t.v[0], t.v[1], t.v[2], t.v[3],
      __shfl_down_sync(~0u, t.v[0], 1)};
  TileSums s = {};
#pragma unroll
  for (int k = 0; k < kEach; k++) {
    const bool counts = inner >> k & 1;
    add_block(&s, counts ? along[k + 2] - along[k] : 0, counts ? below.v[k] - above.v[k] : 0,
              counts ? x.v[k] - t.v[k] : 0);
  }
  return {warp_sum(s.xx), warp_sum(s.xy), warp_sum(s.yy), warp_sum(s.xd),
          warp_sum(s.yd), warp_sum(s.dd), warp_sum(s.d)};
}

// Holds the sums of a warp, and the sum of the differences that noise alone makes.
struct alignas(16) WarpSums {
  TileSums of;
  int more;
};
__device__ __forceinline__ WarpSums operator+(const WarpSums& a, const WarpSums& b) {
  return {{a.of.xx + b.of.xx, a.of.xy + b.of.xy, a.of.yy + b.of.yy, a.of.xd + b.of.xd,
           a.of.yd + b.of.yd, a.of.dd + b.of.dd, a.of.d + b.of.d},
          a.more + b.more};
}

// Compensates 4 x 4 samples of a component from (x, y) on. The state has room for whole tiles.
__device__ __forceinline__ void move_samples(const Denoise& d, int c, int x, int y,
                                             const TileMotion& m) {
  constexpr int kSize = 4;
  const int ex = eighths_of(m.x, d.per_x[c]), ey = eighths_of(m.y, d.per_y[c]);
  const Taps tx = taps_of(ex), ty = taps_of(ey);
  const int brighter = c == 0 ? m.brighter : 0, top = d.settings.top;
  int column[kSize + 3];
#pragma unroll
  for (int i = 0; i < kSize + 3; i++)
    column[i] = min(max(x + (ex >> 3) - 1 + i, 0), d.width[c] - 1);
  int lines[4][kSize];
#pragma unroll
  for (int r = 0; r < kSize + 3; r++) {
    const int from = min(max(y + (ey >> 3) - 1 + r, 0), d.height[c] - 1);
    const uint16_t* row = d.was.color[c] + from * d.pitch[c];
    int in[kSize + 3];
#pragma unroll
    for (int i = 0; i < kSize + 3; i++) in[i] = __ldg(row + column[i]);
#pragma unroll
    for (int i = 0; i < kSize; i++)
      lines[r % 4][i] = int(interpolate(tx, in[i], in[i + 1], in[i + 2], in[i + 3], top));
    if (r < 3) continue;
    int out[kSize];
#pragma unroll
    for (int i = 0; i < kSize; i++)
      out[i] = int(brightened(interpolate(ty, lines[(r + 1) % 4][i], lines[(r + 2) % 4][i],
                                          lines[(r + 3) % 4][i], lines[r % 4][i], top),
                              brighter, top));
    state_at<uint2>(d.was.color[c] + d.to_moved, d.pitch[c], x, y + r - 3) =
        make_uint2(pair_of(out[0], out[1]), pair_of(out[2], out[3]));
  }
}

// Compensates the tile that begins at block (bx0, by0), with all of its threads.
__device__ __forceinline__ void move_tile(const Denoise& d, int bx0, int by0, int thread,
                                          const TileMotion& m) {
  // These count squares of 4 x 4 samples.
  constexpr int luma = kTileThreads;
  const int chroma = d.colors == 3 ? luma / 4 * d.per_x[1] * d.per_y[1] : 0;
#pragma unroll 1
  for (int i = thread; i < luma + 2 * chroma; i += kTileThreads) {
    const int c = i < luma ? 0 : i < luma + chroma ? 1 : 2;
    const int at = c == 0 ? i : c == 1 ? i - luma : i - luma - chroma;
    const int wide = kTile / 4 * d.per_x[c];
    move_samples(d, c, d.per_x[c] * bx0 + 4 * (at % wide), d.per_y[c] * by0 + 4 * (at / wide), m);
  }
  const int bx = bx0 + kEach * (thread % kAcross), by = by0 + thread / kAcross;
  const int row = min(max(by + blocks_of_vector(m.y), 0), d.blocks_y - 1);
  int p[kEach];
#pragma unroll
  for (int k = 0; k < kEach; k++) {
    const int column = min(max(bx + k + blocks_of_vector(m.x), 0), d.blocks_x - 1);
    const uint32_t block = state_at<const uint16_t>(d.was.p, d.pitch_p, column, row);
    p[k] = moves(m) ? moved_block(block) : int(block);
  }
  state_at<uint2>(d.was.p + d.to_moved, d.pitch_p, bx, by) =
      make_uint2(pair_of(p[0], p[1]), pair_of(p[2], p[3]));
}

template <int kBytes, bool kRgb>
__global__ __launch_bounds__(kThreads, 1024 / kThreads) void find_motion(const Denoise d) {
  VF_SHARED(float[kLevels], factors);
  VF_SHARED(TileMeans[kMotionTiles][2], means);
  VF_SHARED(WarpSums[kMotionTiles][2][kTileWarps], sums);
  VF_SHARED(TileMotion[kMotionTiles], found);
  const int tile = threadIdx.x / kTileThreads, thread = threadIdx.x % kTileThreads;
  const int tile_x = blockIdx.x * kMotionTiles + tile;
  wait_for_previous();
  // Before pass 1 waits, it reads only what this kernel does not change.
  let_next_start();
  // Threads behind the last tile repeat its work, but write nothing.
  const int bx0 = min(tile_x, d.tiles_x - 1) * kTile, by0 = blockIdx.y * kTile;
  const int row = thread / kAcross, column = thread % kAcross;
  const int bx = bx0 + kEach * column, by = by0 + row;
  // All loads are on their way before the first is used.
  const TileMotion before = d.motions[blockIdx.y * d.tiles_x + bx0 / kTile];
  const uint4 first = state_at<const uint4>(d.was.color[0], d.pitch[0], 2 * bx, 2 * by);
  const uint4 second = state_at<const uint4>(d.was.color[0], d.pitch[0], 2 * bx, 2 * by + 1);
  const uint2 p = state_at<const uint2>(d.was.p, d.pitch_p, bx, by);
  const bool inside = (kRgb ? d.packed : d.whole) && bx0 + kTile <= d.blocks_x;
  const Means x = means_of_frame<kBytes, kRgb>(d, bx, by, inside);
  const int dx = whole_of(before.next_x), dy = whole_of(before.next_y);
  Means moved = {};
  if (dx || dy) moved = means_elsewhere(d, bx, by, dx, dy);
  const Means t =
      means_of({first.x, first.y, first.z, first.w}, {second.x, second.y, second.z, second.w});
  means[tile][0][row][column] = t.packed();
  if (dx || dy) means[tile][1][row][column] = moved.packed();
  if (threadIdx.x < kLevels)
    factors[threadIdx.x] = expected_factor(d.model->noise[0], d.settings, threadIdx.x);
  __syncthreads();
  // Inner blocks have a neighbour in the tile on each side.
  const int last_x = min(bx0 + kTile, d.blocks_x) - 1, last_y = min(by0 + kTile, d.blocks_y) - 1;
  uint32_t inner = 0;
  int expected = 0;
#pragma unroll
  for (int k = 0; k < kEach; k++) {
    const uint32_t pair = k < 2 ? p.x : p.y, block = k & 1 ? pair >> 16 : pair & 0xffff;
    const int square = expected_square(factors[luma_level(block)], p_of(block));
    const bool is_inner = bx + k > bx0 && bx + k < last_x && by > by0 && by < last_y;
    inner |= uint32_t(is_inner) << k;
    expected += is_inner ? square : 0;
  }
  const int warp = thread / 32;
  const WarpSums still = {sums_of(x, t, means[tile][0], row, column, inner), warp_sum(expected)};
  if (thread % 32 == 0) sums[tile][0][warp] = still;
  if (dx || dy) {
    const WarpSums elsewhere = {sums_of(x, moved, means[tile][1], row, column, inner), 0};
    if (thread % 32 == 0) sums[tile][1][warp] = elsewhere;
  }
  if (thread == 0) found[tile] = before;
  __syncthreads();
  // Each of the first threads decides on one tile.
  if (threadIdx.x < kMotionTiles) {
    const int of = threadIdx.x, x0 = (blockIdx.x * kMotionTiles + of) * kTile;
    const int from_x = whole_of(found[of].next_x), from_y = whole_of(found[of].next_y);
    const WarpSums here = sums[of][0][0] + sums[of][0][1];
    WarpSums there = here;
    if (from_x || from_y) there = sums[of][1][0] + sums[of][1][1];
    const int wide = max(min(kTile, d.blocks_x - x0) - 2, 0);
    const int high = max(min(kTile, d.blocks_y - by0) - 2, 0);
    found[of] = motion_of(here.of, there.of, from_x, from_y, here.more, wide * high);
    if (x0 < d.blocks_x) d.motions[blockIdx.y * d.tiles_x + x0 / kTile] = found[of];
  }
  __syncthreads();
  if (tile_x < d.tiles_x && changes(found[tile])) move_tile(d, bx0, by0, thread, found[tile]);
}

}  // namespace

DenoiseKernel denoise_motion(int bytes, bool rgb) {
  if (rgb) return bytes == 2 ? find_motion<2, true> : find_motion<1, true>;
  return bytes == 2 ? find_motion<2, false> : find_motion<1, false>;
}

}  // namespace vf::cuda
