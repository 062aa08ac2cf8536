// Makes the result of the votes and the guided filter's statistics in one launch (refine=colors),
// for windows of 9 x 9 samples of 4 pixels, which are the defaults.
//
// Idea: votes, guide and X of a tile are copied to shared memory while a warp finds the mask's
// error, and P is made of them. A lane then takes two columns. It adds up nine rows of them by
// dp4a, four rows with an instruction, and then adds across by shuffles. First moments share
// registers in pairs, as 81 * 255 fits 16 bits. A warp makes 56 columns of one row or, where there
// are many blocks, of two rows, whose windows share eight. The next launch may start at once: it
// fetches pixels before it waits. Blocks without a sample in the band near them stop when they know
// it.
// Traffic: 14 bytes of each sample are read 1.8 times. 16 bytes of (a, b), summed up down strips
// where guided_means takes them, and 4 bytes of sides are written.
#include "cuda/guided/guided_colors.cuh"
#include "cuda/guided/guided_moments.cuh"

namespace vf::cuda {
namespace {

constexpr int kRadius = kVotesStatisticsRadius, kStrip = kVotesStatisticsStrip;
constexpr int kWide = 64;  // samples, with the windows' halo
static_assert(kVotesStatisticsX == kWide - 2 * kRadius && kRadius == 4 && kStrip == 2,
              "as the sums are added up");

// Sums over windows of nine columns of two that a lane has: the window of column 2 i begins at the
// lane's first, that of 2 i + 1 at its second.
__device__ __forceinline__ void sum_across(uint32_t first, uint32_t second, uint32_t (&out)[2]) {
  const uint32_t both = first + second, four = both + __shfl_down_sync(~0u, both, 1);
  out[0] = four + __shfl_down_sync(~0u, four, 2) + __shfl_down_sync(~0u, first, 4);
  out[1] = second + __shfl_down_sync(~0u, four, 1) + __shfl_down_sync(~0u, four, 3);
}

// 8 samples of the prior are 16 bytes. There are kPriorHalo more to the left, and one around.
constexpr int kPriorWide = kWide + 8, kPriorHalo = 4;
static_assert(kVotesStatisticsX % 8 == 0 && kRadius + kPriorHalo == 8 && kAround % 2 == 0,
              "copies of 16 bytes are aligned");

// The words are r g b p already (GuidedStatistics has these selectors for other orders).
constexpr uint32_t kPairsLow = 0x5140, kPairsHigh = 0x7362;

constexpr int kHigh = kVotesStatisticsY + 2 * kRadius, kPriorHigh = kHigh + 2;
constexpr int kComparedWide = kWide + 2 * kAround, kComparedHigh = kHigh + 2 * kAround;

struct Tile {
  Compared around[kComparedHigh][kComparedWide];
  uint32_t words[kHigh][kWide];
  int16_t prior[kPriorHigh][kPriorWide];
  uint32_t band[kHigh][2];  // a bit a sample: whether it is in the band
};

// Copies `wide` x `high` elements from (x0, y0) on by 16 bytes, which never lie across the left
// edge of the frame; what is between its right edge and the pitch comes along.
template <int threads, int wide, int high, class T, class U>
__device__ __forceinline__ void fetch(const ColorVotes& v, T (*to)[wide], const U* from, int x0,
                                      int y0, const T* outside) {
  constexpr int many = 16 / sizeof(T), across = wide / many, count = across * high;
  constexpr int rounds = (count + threads - 1) / threads;
  static_assert(wide % many == 0, "whole copies");
#pragma unroll
  for (int u = 0; u < rounds; u++) {
    const int i = threadIdx.x + threads * u, r = i / across, c = i % across * many;
    const int x = x0 + c, y = y0 + r;
    if (i >= count) break;
    if (x >= 0 && y >= 0 && x < v.pitch && y < v.height)
      copy_async(shared_address(&to[r][c]),
                 reinterpret_cast<const uint8_t*>(from + size_t(y) * v.pitch + x));
    else if (outside)
#pragma unroll
      for (int k = 0; k < many; k++) to[r][c + k] = *outside;
  }
}

// Fills the tile with words of guide and P, and finds which samples are in the band. A warp makes
// half a row at a time. The loop is not unrolled, because new instructions are fetched slowly.
template <int warps>
__device__ __forceinline__ void make_words(const ColorVotes& v, const Found& error, Tile& tile,
                                           int x0, int y0) {
  const int lane = threadIdx.x & 31;
#pragma unroll 1
  for (int i = threadIdx.x >> 5; i < 2 * kHigh; i += warps) {
    const int r = i >> 1, c = 32 * (i & 1) + lane, x = x0 + c, y = y0 + r;
    const int prior = error.narrowed(tile.prior[r + 1][c + kPriorHalo]);
    const bool votes = in_band(prior);
    const uint32_t band = __ballot_sync(~0u, votes);
    if (lane == 0) tile.band[r][i & 1] = band;
    uint32_t word = 0;
    if (x >= 0 && y >= 0 && x < v.width && y < v.height) {
      uint32_t matte = prior > 0 ? 255 : 0;
      if (votes)
        matte =
            matte_byte(alike_logit(v, tile.around, c + kAround, r + kAround, prior, error.shift));
      word = (tile.words[r][c] & 0x00ffffff) | matte << 24;
    }
    tile.words[r][c] = word;
  }
}

// Writes the sides of a warp's own samples of row r of the tile, two a lane.
__device__ __forceinline__ void write_sides(const ColorVotes& v, const Found& error,
                                            const Tile& tile, int x0, int y0, int r) {
  const int lane = threadIdx.x & 31, c = kRadius + 2 * lane, x = x0 + c, y = y0 + r;
  if (c >= kWide - kRadius || x >= v.width) return;
  uint32_t band[2];
#pragma unroll
  for (int k = 0; k < 2; k++) band[k] = tile.band[r - 1][k] | tile.band[r][k] | tile.band[r + 1][k];
  // Bits 0 to 3 are those of the samples from c - 1 on.
  const uint32_t near = c <= 32 ? __funnelshift_r(band[0], band[1], c - 1) : band[1] >> (c - 33);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (x + i >= v.width) break;
    const Sureness sureness(tile.words[r][c + i] >> 24, tile.around, c + i + kAround, r + kAround);
    v.sides[size_t(y) * v.width + x + i] =
        sureness.side(!(near >> i & 7), tile.prior[r + 1][c + i + kPriorHalo] > 0, error.busy);
  }
}

// Tells whether a sample of the tile's prior that the thread has copied is in the band.
template <int threads>
__device__ __forceinline__ bool any_in_band(const Tile& tile) {
  constexpr int count = kPriorHigh * kPriorWide / 8;
  bool any = false;
#pragma unroll
  for (int u = 0; u < (count + threads - 1) / threads; u++) {
    const int i = threadIdx.x + threads * u;
    if (i >= count) break;
    const uint4 eight = reinterpret_cast<const uint4*>(tile.prior)[i];
    any =
        any || in_band_2(eight.x) || in_band_2(eight.y) || in_band_2(eight.z) || in_band_2(eight.w);
  }
  return any;
}

// Writes the block's samples where no sample near them is in the band: (a, b) do not count.
template <int threads>
__device__ __forceinline__ void write_outside(const GuidedSums& sums, const ColorVotes& v,
                                              const Tile& tile, int x0, int y0) {
#pragma unroll 1
  for (int i = threadIdx.x; i < kVotesStatisticsX * kVotesStatisticsY; i += threads) {
    const int r = kRadius + i / kVotesStatisticsX, c = kRadius + i % kVotesStatisticsX;
    const int x = x0 + c, y = y0 + r;
    if (x >= v.width || y >= v.height) continue;
    const size_t at = size_t(y) * v.width + x;
    v.sides[at] = {64, uint8_t(tile.prior[r + 1][c + kPriorHalo] > 0 ? 64 : 0), {}};
    sums.data[at] = make_float4(0, 0, 0, 0);
  }
}

// With one row a warp, the bound limits registers, so that a block of the next launch fits beside
// it and a second block of this one does not: blocks that start early would share a processor then.
template <int rows>
__global__ __launch_bounds__(rows == 1 ? 1024 : 32 * kVotesStatisticsY / rows,
                             rows) void statistics(const GuidedSums sums, const ColorVotes v) {
  constexpr int warps = kVotesStatisticsY / rows, threads = 32 * warps;
  VF_SHARED_ALIGNED(16, Tile, tile);
  VF_SHARED_ALIGNED(16, float4[rows == 1 ? warps / kStrip : 1][kWide],
                    upper);  // the upper rows of strips
  VF_SHARED(Found, found);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int x0 = int(blockIdx.x) * kVotesStatisticsX - kRadius;
  const int y0 = int(blockIdx.y) * kVotesStatisticsY - kRadius;
  let_next_start();
  // The votes let this kernel start when samples and prior were complete.
  const int16_t outside = kOne;
  fetch<threads, kPriorWide, kPriorHigh>(v, tile.prior, v.prior, x0 - kPriorHalo, y0 - 1, &outside);
  commit_copies();
  fetch<threads, kWide, kHigh>(v, tile.words, v.words, x0, y0, static_cast<uint32_t*>(nullptr));
  commit_copies();
  wait_for_previous();
  // The last warp finds the error, and the others copy.
  const bool finds = warp == warps - 1;
  ErrorSums counted;
  if (finds) {
    counted.fetch(v);
  } else {
    const Compared no_vote = {0, kNoVote};
    fetch<threads - 32, kComparedWide, kComparedHigh>(v, tile.around, v.voted, x0 - kAround,
                                                      y0 - kAround, &no_vote);
  }
  commit_copies();
  // Sums down strips are also read where (a, b) do not count.
  if (sums.strip == 1) {
    wait_copies<2>();
    if (!__syncthreads_or(any_in_band<threads>(tile))) {
      write_outside<threads>(sums, v, tile, x0, y0);
      wait_all_copies();
      return;
    }
  }
  if (finds) find_error(v, counted, &found);
  wait_all_copies();
  __syncthreads();
  const Found error = found;
  make_words<warps>(v, error, tile, x0, y0);
  __syncthreads();
  const int first = warp * rows, x = x0 + kRadius + 2 * lane;
#pragma unroll 1
  for (int j = 0; j < rows && y0 + kRadius + first + j < v.height; j++)
    write_sides(v, error, tile, x0, y0, kRadius + first + j);
  // The rows that are in both windows come first.
  uint32_t both[2][kMoments] = {};  // by column
  {
    uint2 row[2 * kRadius];
#pragma unroll
    for (int i = 0; i < 2 * kRadius; i++)
      row[i] = *reinterpret_cast<const uint2*>(&tile.words[first + 1 + i][2 * lane]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const auto at = [&](int k) { return i ? row[k].y : row[k].x; };
      add_rows(at(0), at(1), at(2), at(3), kPairsLow, kPairsHigh, both[i], 1);
      add_rows(at(4), at(5), at(6), at(7), kPairsLow, kPairsHigh, both[i], 1);
    }
  }
  float4 total[2] = {};
#pragma unroll 1
  for (int j = 0; j < rows; j++) {
    const int y = y0 + kRadius + first + j;
    if (rows > 1 && y >= v.height) return;
    const uint2 row =
        *reinterpret_cast<const uint2*>(&tile.words[first + j * (2 * kRadius + 1)][2 * lane]);
    uint32_t sum[2][kMoments];
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int k = 0; k < kMoments; k++) sum[i][k] = both[i][k];
      add_pixel(i ? row.y : row.x, sum[i]);
    }
    uint32_t moments[2][kMoments];
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      uint32_t two[2];
      sum_across(sum[0][k] | sum[0][k + 1] << 16, sum[1][k] | sum[1][k + 1] << 16, two);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        moments[i][k] = two[i] & 0xffff;
        moments[i][k + 1] = two[i] >> 16;
      }
    }
#pragma unroll
    for (int k = 4; k < kMoments; k++) {
      uint32_t two[2];
      sum_across(sum[0][k], sum[1][k], two);
      moments[0][k] = two[0];
      moments[1][k] = two[1];
    }
    const int ny = window_count(y, kRadius, v.height);
    float4 ab[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int n = ny * window_count(min(x + i, v.width - 1), kRadius, v.width);
      ab[i] = solve(moments[i], n, __fdividef(1.f, float(n)), v.epsilon);
    }
    if (sums.strip > 1) {
      if (rows == 1) {
        if (!(warp & 1)) {
          upper[warp / 2][2 * lane] = ab[0];
          upper[warp / 2][2 * lane + 1] = ab[1];
        }
        __syncthreads();
        if (warp & 1) {
          total[0] = upper[warp / 2][2 * lane];
          total[1] = upper[warp / 2][2 * lane + 1];
        }
      }
      if (rows > 1 || warp & 1) {
        ab[0] = total[0] + ab[0];
        ab[1] = total[1] + ab[1];
      }
      total[0] = ab[0];
      total[1] = ab[1];
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (2 * lane < kVotesStatisticsX && x + i < v.width && y < v.height)
        sums.data[size_t(y) * v.width + x + i] = ab[i];
  }
}

}  // namespace

VotesStatisticsKernel votes_statistics(int rows) {
  return rows == 1 ? statistics<1> : statistics<2>;
}

}  // namespace vf::cuda
