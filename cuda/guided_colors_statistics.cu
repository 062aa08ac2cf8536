// refine=colors: the result of the votes and the guided filter's statistics in one launch, for
// windows of 9 x 9 samples of 4 pixels, which are the defaults.
//
// Idea: the guide's bytes, X and the ratios of a tile are staged together; P is made of them in
// place. A lane is a column: sums down its nine rows by dp4a, four rows an instruction, then
// across nine lanes by four shuffles; first moments share registers in pairs, as 81 * 255 fits 16
// bits. A warp makes 24 columns of `rows` rows.
//
// Traffic: 10 bytes a sample read 3.1 times, 16 written: (a, b) summed up down strips of `rows`
// rows, as guided_means takes them.
#include "cuda/guided_colors.cuh"
#include "cuda/guided_moments.cuh"

namespace vf::cuda {
namespace {

constexpr int kRadius = kVotesStatisticsRadius, kColumns = 32 - 2 * kRadius;

template <int rows>
__global__ __launch_bounds__(256) void statistics(const Guided g, const Votes v) {
  // Two warps side by side, four above each other; samples with the window's halo, and with kAround
  // more on each side for the mean of the votes. The last lanes' windows end beyond the tile: their
  // sums are not used.
  constexpr int out_x = 2 * kColumns, out_y = 4 * rows;
  static_assert(out_x == kVotesStatisticsX && kRadius == 4, "as the shuffles add up");
  constexpr int wide = out_x + 2 * kRadius, high = out_y + 2 * kRadius;
  constexpr int around_x = wide + 2 * kAround, around_y = high + 2 * kAround;
  VF_SHARED(Compared[around_y][around_x], tile);
  VF_SHARED(int16_t[around_y][around_x], prior);
  VF_SHARED(uint32_t[high][wide], words);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int x0 = blockIdx.x * out_x - kRadius, y0 = blockIdx.y * out_y - kRadius;
  const auto inside = [&](int x, int y) { return x >= 0 && y >= 0 && x < v.width && y < v.height; };
  wait_for_previous();
  constexpr int samples = wide * high, around = around_x * around_y;
#pragma unroll
  for (int u = 0; u < (around + 255) / 256; u++) {
    const int i = tid + 256 * u, c = i % around_x, r = i / around_x;
    const int x = x0 - kAround + c, y = y0 - kAround + r;
    if (i >= around) break;
    const bool in = inside(x, y);
    const size_t at = in ? size_t(y) * v.pitch + x : 0;
    const uint32_t word = in ? v.words[at] & 0x00ffffff : 0;
    const int own = in ? v.prior[at] : kOne;
    tile[r][c] = compared(v, word, own, in ? __ldcg(v.ratio + at) : 0);
    prior[r][c] = int16_t(own);
    const int inner_x = c - kAround, inner_y = r - kAround;
    if (inner_x >= 0 && inner_y >= 0 && inner_x < wide && inner_y < high)
      words[inner_y][inner_x] = word;
  }
  __syncthreads();
#pragma unroll
  for (int u = 0; u < (samples + 255) / 256; u++) {
    const int i = tid + 256 * u, c = i % wide, r = i / wide, x = x0 + c, y = y0 + r;
    if (i >= samples) break;
    if (!inside(x, y)) continue;
    const int own = prior[r + kAround][c + kAround];
    const float logit = in_band(own) ? alike_logit(v, tile, c + kAround, r + kAround, own) : 0;
    words[r][c] |= matte_byte(own, logit) << 24;
    if (c >= kRadius && c < kRadius + out_x && r >= kRadius && r < kRadius + out_y) {
      bool near = false;
#pragma unroll
      for (int k = 0; k < 9; k++)
        near = near || in_band(prior[r + kAround - 1 + k / 3][c + kAround - 1 + k % 3]);
      v.sides[size_t(y) * v.width + x] = make_uchar2(near ? 0 : 64, own > 0 ? 64 : 0);
    }
  }
  __syncthreads();
  const int column = (warp & 1) * kColumns + lane, first = (warp >> 1) * rows;
  const int x = x0 + kRadius + column, nx = window_count(min(x, v.width - 1), kRadius, v.width);
  const auto at = [&](int row) { return words[row][min(column, wide - 1)]; };
  float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
  for (int j = 0; j < rows; j++) {
    const int y = y0 + kRadius + first + j, row = first + j;
    if (y >= v.height) return;
    uint32_t sum[kMoments] = {};
    add_rows(at(row), at(row + 1), at(row + 2), at(row + 3), g.pairs_low, g.pairs_high, sum, 1);
    add_rows(at(row + 4), at(row + 5), at(row + 6), at(row + 7), g.pairs_low, g.pairs_high, sum, 1);
    add_rows(at(row + 8), 0, 0, 0, g.pairs_low, g.pairs_high, sum, 1);
    uint32_t across[kMoments - 2] = {sum[0] | sum[1] << 16, sum[2] | sum[3] << 16};
#pragma unroll
    for (int k = 4; k < kMoments; k++) across[k - 2] = sum[k];
#pragma unroll
    for (uint32_t& s : across) {
      const uint32_t two = s + __shfl_down_sync(~0u, s, 1);
      const uint32_t four = two + __shfl_down_sync(~0u, two, 2);
      s = four + __shfl_down_sync(~0u, four, 4) + __shfl_down_sync(~0u, s, 8);
    }
    if (lane >= kColumns || x >= v.width) continue;
    uint32_t moments[kMoments] = {across[0] & 0xffff, across[0] >> 16, across[1] & 0xffff,
                                  across[1] >> 16};
#pragma unroll
    for (int k = 4; k < kMoments; k++) moments[k] = across[k - 2];
    const int n = nx * window_count(y, kRadius, v.height);
    total = total + solve(moments, n, __fdividef(1.f, float(n)), g.epsilon);
    g.prefix[size_t(y) * v.width + x] = total;
  }
}

}  // namespace

VotesFrameKernel votes_statistics() {
  return statistics<kVotesStatisticsRows>;
}

}  // namespace vf::cuda
