// Makes the result of the votes and the guided filter's statistics in one launch (refine=colors),
// for windows of 9 x 9 samples of 4 pixels, which are the defaults.
//
// Idea: votes, guide and X of a tile are copied to shared memory, 16 bytes at a time, and P is made
// of them by threads that go down a column. A lane then takes two columns. It adds up nine rows of
// them by dp4a, four rows with an instruction, and then adds across by shuffles, for both columns
// together. First moments share registers in pairs, as 81 * 255 fits 16 bits. A warp makes 56
// columns of two rows. The next launch may start at once: it fetches pixels before it waits.
//
// Traffic: 14 bytes of each sample are read 2.3 times. 16 bytes of (a, b) and 4 bytes of sides are
// written. Where guided_means takes (a, b), they are summed up down strips of two rows.
#include "cuda/guided/guided_colors.cuh"
#include "cuda/guided/guided_moments.cuh"

namespace vf::cuda {
namespace {

constexpr int kRadius = kVotesStatisticsRadius, kRows = kVotesStatisticsRows;
constexpr int kWarps = kVotesStatisticsWarps, kThreads = 32 * kWarps;
constexpr int kWide = 64, kHigh = kWarps * kRows + 2 * kRadius;  // samples, with the windows' halo
constexpr int kRun = (2 * kHigh + kWarps - 1) / kWarps;          // rows that a thread makes P of
static_assert(kVotesStatisticsX == kWide - 2 * kRadius && kRadius == 4, "as the sums are added up");
constexpr int kComparedWide = kWide + 2 * kAround, kComparedHigh = kHigh + 2 * kAround;

// Sums over windows of nine columns of two that a lane has: the window of column 2 i begins at the
// lane's first, that of 2 i + 1 at its second.
__device__ __forceinline__ void sum_across(uint32_t first, uint32_t second, uint32_t (&out)[2]) {
  const uint32_t both = first + second, four = both + __shfl_down_sync(~0u, both, 1);
  out[0] = four + __shfl_down_sync(~0u, four, 2) + __shfl_down_sync(~0u, first, 4);
  out[1] = second + __shfl_down_sync(~0u, four, 1) + __shfl_down_sync(~0u, four, 3);
}

// 8 samples of the prior are 16 bytes, and they begin kPriorHalo samples to the left of the others.
constexpr int kPriorWide = kWide + 8, kPriorHalo = 4;
static_assert(kVotesStatisticsX % 8 == 0 && kRadius + kPriorHalo == 8 && kAround % 2 == 0,
              "copies of 16 bytes are aligned");

// The words are r g b p already (GuidedStatistics has these selectors for other orders).
constexpr uint32_t kPairsLow = 0x5140, kPairsHigh = 0x7362;

struct Tile {
  Compared around[kComparedHigh][kComparedWide];
  uint32_t words[kHigh][kWide];
  int16_t prior[kHigh][kPriorWide];
  // These are of the block's own samples. Bit 0: the sample is farther than one sample from the
  // band. Bit 1: it is on the subject's side.
  uint8_t flags[kVotesStatisticsY][kVotesStatisticsX];
};

// Copies `wide` x `high` elements from (x0, y0) on by 16 bytes, which never lie across the left
// edge of the frame; what is between its right edge and the pitch comes along.
template <int wide, int high, class T, class U>
__device__ __forceinline__ void fetch(const ColorVotes& v, T (*to)[wide], const U* from, int x0,
                                      int y0, const T* outside) {
  constexpr int many = 16 / sizeof(T), across = wide / many, count = across * high;
  constexpr int rounds = (count + kThreads - 1) / kThreads;
  static_assert(wide % many == 0, "whole copies");
#pragma unroll
  for (int u = 0; u < rounds; u++) {
    const int i = threadIdx.x + kThreads * u, r = i / across, c = i % across * many;
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

// Makes the tile's words those of guide and P, and makes its flags. A warp goes down half of the
// columns.
__device__ __forceinline__ void make_words(const ColorVotes& v, const Found& error, Tile& tile,
                                           int x0, int y0) {
  const int warp = threadIdx.x >> 5, c = (threadIdx.x & 31) + 32 * (warp & 1), x = x0 + c;
  const int first = (warp >> 1) * kRun;
  const int below[2] = {error.below(0), error.below(1)};
  const auto in_band = [&](int prior) { return abs(prior) < (prior > 0 ? below[1] : below[0]); };
  bool near[3] = {};
#pragma unroll 3
  for (int j = -2; j < kRun; j++) {
    const int r = first + j, y = y0 + r;
    if (r >= kHigh) break;
    near[0] = near[1], near[1] = near[2];
    if (const int next = r + 1; next >= 0 && next < kHigh) {
      const int16_t* const prior = tile.prior[next] + c + kPriorHalo;
      near[2] = in_band(prior[-1]) || in_band(prior[0]) || in_band(prior[1]);
    }
    if (j < 0) continue;
    uint32_t word = 0;
    if (x >= 0 && y >= 0 && x < v.width && y < v.height) {
      const int prior = tile.prior[r][c + kPriorHalo];
      uint32_t matte = prior > 0 ? 255 : 0;
      if (in_band(prior))
        matte = matte_byte(alike_logit(v, tile.around, c + kAround, r + kAround,
                                       error.narrowed(prior), error.shift));
      word = (tile.words[r][c] & 0x00ffffff) | matte << 24;
      if (c >= kRadius && c < kWide - kRadius && r >= kRadius && r < kHigh - kRadius)
        tile.flags[r - kRadius][c - kRadius] =
            uint8_t((near[0] || near[1] || near[2] ? 0 : 1) | (prior > 0 ? 2 : 0));
    }
    tile.words[r][c] = word;
  }
}

// Writes the sides of the block's own samples.
__device__ __forceinline__ void write_sides(const ColorVotes& v, const Found& error,
                                            const Tile& tile, int x0, int y0) {
  constexpr int count = kVotesStatisticsX * kVotesStatisticsY;
#pragma unroll
  for (int u = 0; u < (count + kThreads - 1) / kThreads; u++) {
    const int i = threadIdx.x + kThreads * u;
    const int column = i % kVotesStatisticsX, row = i / kVotesStatisticsX;
    const int c = column + kRadius, r = row + kRadius, x = x0 + c, y = y0 + r;
    if (i >= count || x >= v.width || y >= v.height) continue;
    const auto matte = [&](int dx, int dy) { return int(tile.words[r + dy][c + dx] >> 24); };
    const auto vote = [&](int dx, int dy) {
      return tile.around[r + kAround + dy][c + kAround + dx].ratio;
    };
    Sureness sureness(matte(0, 0), vote(0, 0));
    if (y > 0) sureness.add(matte(0, -1), vote(0, -1));
    if (y + 1 < v.height) sureness.add(matte(0, 1), vote(0, 1));
    if (x > 0) sureness.add(matte(-1, 0), vote(-1, 0));
    if (x + 1 < v.width) sureness.add(matte(1, 0), vote(1, 0));
    const uint8_t flags = tile.flags[row][column];
    v.sides[size_t(y) * v.width + x] = sureness.side(flags & 1, flags & 2, error.busy);
  }
}

__global__ __launch_bounds__(kThreads) void statistics(const GuidedSums sums, const ColorVotes v) {
  VF_SHARED_ALIGNED(16, Tile, tile);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int x0 = int(blockIdx.x) * kVotesStatisticsX - kRadius;
  const int y0 = int(blockIdx.y) * kVotesStatisticsY - kRadius;
  wait_for_previous();
  let_next_start();
  const Compared no_vote = {0, kNoVote};
  const int16_t outside = kOne;
  fetch<kComparedWide, kComparedHigh>(v, tile.around, v.voted, x0 - kAround, y0 - kAround,
                                      &no_vote);
  fetch<kWide, kHigh>(v, tile.words, v.words, x0, y0, static_cast<uint32_t*>(nullptr));
  fetch<kPriorWide, kHigh>(v, tile.prior, v.prior, x0 - kPriorHalo, y0, &outside);
  const Found error = find_error(v);
  wait_all_copies();
  __syncthreads();
  make_words(v, error, tile, x0, y0);
  __syncthreads();
  write_sides(v, error, tile, x0, y0);
  const int first = warp * kRows, x = x0 + kRadius + 2 * lane;
  const bool sums_up = sums.strip > 1;
  float4 total[2] = {};
#pragma unroll
  for (int j = 0; j < kRows; j++) {
    const int y = y0 + kRadius + first + j;
    if (y >= v.height) return;
    uint2 rows[2 * kRadius + 1];
#pragma unroll
    for (int i = 0; i < 2 * kRadius + 1; i++)
      rows[i] = *reinterpret_cast<const uint2*>(&tile.words[first + j + i][2 * lane]);
    uint32_t sum[2][kMoments] = {};  // by column
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const auto at = [&](int k) { return i ? rows[k].y : rows[k].x; };
      add_rows(at(0), at(1), at(2), at(3), kPairsLow, kPairsHigh, sum[i], 1);
      add_rows(at(4), at(5), at(6), at(7), kPairsLow, kPairsHigh, sum[i], 1);
      add_rows(at(8), 0, 0, 0, kPairsLow, kPairsHigh, sum[i], 1);
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
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int n = ny * window_count(min(x + i, v.width - 1), kRadius, v.width);
      const float4 ab = solve(moments[0], n, __fdividef(1.f, float(n)), v.epsilon);
      const float4 mine = sums_up ? total[0] + ab : ab;
      if (2 * lane < kVotesStatisticsX && x + i < v.width)
        sums.data[size_t(y) * v.width + x + i] = mine;
      // The second column's turn, then the first one's again.
      total[0] = total[1];
      total[1] = mine;
#pragma unroll
      for (int k = 0; k < kMoments; k++) moments[0][k] = moments[1][k];
    }
  }
}

}  // namespace

VotesStatisticsKernel votes_statistics() {
  return statistics;
}

}  // namespace vf::cuda
