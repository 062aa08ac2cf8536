// Finds the motion between two pictures, coarse to fine, in one launch.
//
// Idea. A thread block searches 16 x 8 patches of the finest level. Before that, it searches the
// patches of the coarser levels that these need: 10 x 6, 6 x 4, 4 x 3 and 3 x 3, so that no block
// waits for another one. Four lanes take a patch, two rows of 8 samples each, and keep its samples
// and slopes in registers as signed bytes. A sample between four others is computed two at a time,
// in halves of words, without rounding before the end; products are summed four at a time (dp4a).
// Lanes of neighbouring patches read neighbouring words, so most loads are of few lines of the cache.
// On coarse levels, which have few patches, several groups of lanes share the candidates.
// Traffic: the levels of two pyramids, 0.68 B per pixel, mostly from the caches. Latency limits the
// coarse levels, and instructions limit the finest one.
#include "cuda/core/ptx.cuh"
#include "cuda/motion/motion.h"

namespace vf::cuda {
namespace {

using namespace vf::motion;

constexpr int kLanes = 4;  // of a patch
constexpr int kLaneRows = kPatch / kLanes;
constexpr int kWords = kPatch / 4;
constexpr uint32_t kSigns = 0x80808080;  // turns unsigned bytes into signed ones, less 128
constexpr uint32_t kHalves = 0x00ff00ff;
constexpr int kMostCoarse = 60;  // patches of a coarser level that a block searches

// Holds a lane's share of a patch: two rows of 8 signed bytes.
struct Rows {
  uint32_t v[kLaneRows][kWords];
};

__device__ __forceinline__ int dot(const Rows& a, const Rows& b) {
  int sum = 0;
#pragma unroll
  for (int j = 0; j < kLaneRows; j++)
#pragma unroll
    for (int i = 0; i < kWords; i++) sum = __dp4a(int(a.v[j][i]), int(b.v[j][i]), sum);
  return sum;
}
// Sums over the lanes of a patch.
__device__ __forceinline__ int patch_sum(int v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}

// Returns b - a for each byte, limited to signed bytes.
__device__ __forceinline__ uint32_t slopes_of(uint32_t a, uint32_t b) {
  const auto half = [](uint32_t from, uint32_t to) {
    const uint32_t biased = ((to & kHalves) | 0x01000100) - (from & kHalves);
    return __vminu2(__vmaxu2(biased, 0x00800080), 0x017f017f);
  };
  return __byte_perm(half(a, b), half(a >> 8, b >> 8), 0x6240);
}

// Holds one level of the two pictures.
struct Level {
  const uint8_t *picture, *before;
  int width, height, pitch;

  __device__ __forceinline__ const uint32_t* words(const uint8_t* data, int x, int y) const {
    return reinterpret_cast<const uint32_t*>(data + (long long)min(max(y, 0), height - 1) * pitch +
                                             x);
  }
};

// What a lane keeps of its patch.
struct Patch {
  int x, y;  // the lane's first sample
  Rows samples, slope_x, slope_y;
  int own;  // the sum of the samples' squares

  __device__ __forceinline__ void load(const Level& l) {
    // The first sample is at a multiple of 4, less 2. Its neighbour is behind the word's first byte.
    uint32_t rows[kLaneRows + 2][kWords];
#pragma unroll
    for (int j = 0; j < kLaneRows + 2; j++) {
      const uint32_t* at = l.words(l.picture, x - 2, y - 1 + j);
      const uint32_t first = __ldg(at), second = __ldg(at + 1), third = __ldg(at + 2);
      rows[j][0] = __funnelshift_r(first, second, 16);
      rows[j][1] = __funnelshift_r(second, third, 16);
      if (j == 0 || j > kLaneRows) continue;
      slope_x.v[j - 1][0] =
          slopes_of(__funnelshift_r(first, second, 8), __funnelshift_r(first, second, 24));
      slope_x.v[j - 1][1] =
          slopes_of(__funnelshift_r(second, third, 8), __funnelshift_r(second, third, 24));
    }
#pragma unroll
    for (int j = 0; j < kLaneRows; j++)
#pragma unroll
      for (int i = 0; i < kWords; i++) {
        slope_y.v[j][i] = slopes_of(rows[j][i], rows[j + 2][i]);
        samples.v[j][i] = rows[j + 1][i] ^ kSigns;
      }
    own = dot(samples, samples);
  }

  __device__ __forceinline__ Solver solver() const {
    return solver_of(patch_sum(dot(slope_x, slope_x)), patch_sum(dot(slope_x, slope_y)),
                     patch_sum(dot(slope_y, slope_y)));
  }

  // Returns the samples of the picture before, read along a vector.
  __device__ __forceinline__ Rows moved(const Level& l, int vx, int vy) const {
    // Rows are the same everywhere behind their ends.
    const int column = min(max(x + (vx >> 4), -12), l.width + 3), row = y + (vy >> 4);
    const int behind = 8 * (column & 3);
    const uint32_t right = vx & 15, down = vy & 15, left = kUnits - right, up = kUnits - down;
    // Even and odd samples of a row, in halves of words, and the ninth sample.
    uint32_t even[kLaneRows + 1][kWords + 1], odd[kLaneRows + 1][kWords];
#pragma unroll
    for (int j = 0; j < kLaneRows + 1; j++) {
      const uint32_t* at = l.words(l.before, column & ~3, row + j);
      const uint32_t first = __ldg(at), second = __ldg(at + 1), third = __ldg(at + 2);
      const uint32_t words[kWords] = {__funnelshift_r(first, second, behind),
                                      __funnelshift_r(second, third, behind)};
#pragma unroll
      for (int i = 0; i < kWords; i++) {
        even[j][i] = words[i] & kHalves;
        odd[j][i] = words[i] >> 8 & kHalves;
      }
      even[j][kWords] = third >> behind & 0xff;
    }
    Rows out;
#pragma unroll
    for (int j = 0; j < kLaneRows; j++) {
      uint32_t e[kWords + 1], o[kWords];
#pragma unroll
      for (int i = 0; i < kWords + 1; i++) e[i] = up * even[j][i] + down * even[j + 1][i];
#pragma unroll
      for (int i = 0; i < kWords; i++) o[i] = up * odd[j][i] + down * odd[j + 1][i];
#pragma unroll
      for (int i = 0; i < kWords; i++) {
        const uint32_t evens = left * e[i] + (right * o[i] + 0x00800080);
        const uint32_t odds =
            left * o[i] + (right * __funnelshift_r(e[i], e[i + 1], 16) + 0x00800080);
        out.v[j][i] = __byte_perm(evens, odds, 0x7351) ^ kSigns;
      }
    }
    return out;
  }

  // Returns the sum of the squared differences along a vector.
  __device__ __forceinline__ int squares(const Level& l, int vx, int vy) const {
    const Rows m = moved(l, vx, vy);
    return patch_sum(own + dot(m, m) - 2 * dot(m, samples));
  }
};

// The patches of a level that a block searches.
struct Range {
  int x0, y0, x1, y1;
  __device__ __forceinline__ int wide() const { return x1 - x0; }
};

struct Found {
  int x, y, with, without;
};

// Returns the first of the two coarser patches about patch i, along an axis, for k = 0, and the
// second one for k = 1. The second one may lie outside.
__device__ __forceinline__ int coarser(int i, int k) {
  return (i >> 1) + (k ? (i & 1 ? 1 : -1) : 0);
}

// Searches the patch (i, j) with kGroups x 4 lanes, which all return what was found. `coarse` holds
// the vectors of the coarser level's patches `range`.
template <int kGroups, bool kCoarsest>
__device__ __forceinline__ Found search_patch(const Level& l, int i, int j, const int* coarse,
                                              const Range& range, int columns, int rows) {
  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes % kGroups;
  Patch patch;
  patch.x = kSpacing * i - kBefore;
  patch.y = kSpacing * j - kBefore + kLaneRows * lane;
  patch.load(l);
  const auto candidate = [&](int k) {
    const int column = min(max(coarser(i, k & 1), 0), columns - 1);
    const int row = min(max(coarser(j, k >> 1), 0), rows - 1);
    return coarse[(row - range.y0) * range.wide() + column - range.x0];
  };
  const auto x_of = [](int packed) { return 2 * int(int16_t(packed)); };
  const auto y_of = [](int packed) { return 2 * (packed >> 16); };
  Found f = {};
  f.without = patch.squares(l, 0, 0);
  // The lower three bits say which candidate it was. The first one of the best is taken.
  uint32_t best = uint32_t(f.without) << 3;
  if constexpr (!kCoarsest) {
#pragma unroll
    for (int n = 0; n < 4 / kGroups; n++) {
      const int k = n * kGroups + group, packed = candidate(k);
      best =
          min(best, uint32_t(patch.squares(l, x_of(packed), y_of(packed))) << 3 | uint32_t(k + 1));
    }
#pragma unroll
    for (int by = kLanes; by < kLanes * kGroups; by *= 2)
      best = min(best, __shfl_xor_sync(~0u, best, by));
    if (best & 7) {
      const int packed = candidate(int(best & 7) - 1);
      f.x = x_of(packed);
      f.y = y_of(packed);
    }
  }
  f.with = int(best >> 3);
  const Solver solver = patch.solver();
  const int own_x = dot(patch.slope_x, patch.samples), own_y = dot(patch.slope_y, patch.samples);
  int x = f.x, y = f.y;
#pragma unroll 1
  for (int k = 0; k < kIterations; k++) {
    const Rows m = patch.moved(l, x, y);
    const int xd = patch_sum(dot(patch.slope_x, m) - own_x);
    const int yd = patch_sum(dot(patch.slope_y, m) - own_y);
    x -= step_x(solver, xd, yd);
    y -= step_y(solver, xd, yd);
  }
  const int squares = patch.squares(l, x, y);
  if (squares < f.with) {
    f.with = squares;
    f.x = x;
    f.y = y;
  }
  return f;
}

// Searches the patches `range` of a level. `store` takes what was found at (i, j).
template <int kGroups, bool kCoarsest, class Store>
__device__ __forceinline__ void search_level(const Level& l, const Range& range, const int* coarse,
                                             const Range& coarse_range, int columns, int rows,
                                             Store&& store) {
  constexpr int kAtOnce = kMotionFindThreads / (kLanes * kGroups),
                kOfWarp = 32 / (kLanes * kGroups);
  const int n = range.wide() * (range.y1 - range.y0);
#pragma unroll 1
  for (int first = threadIdx.x / 32 * kOfWarp; first < n; first += kAtOnce) {
    // Lanes behind the last patch repeat its work.
    const int at = first + int(threadIdx.x % 32) / (kLanes * kGroups), which = min(at, n - 1);
    const int i = range.x0 + which % range.wide(), j = range.y0 + which / range.wide();
    const Found f = search_patch<kGroups, kCoarsest>(l, i, j, coarse, coarse_range, columns, rows);
    if (at < n && threadIdx.x % (kLanes * kGroups) == 0) store(i, j, f);
  }
}

__global__ __launch_bounds__(kMotionFindThreads, 2) void find(const MotionFind m) {
  VF_SHARED(int[kLevels][kMostCoarse], vectors);
  wait_for_previous();
  let_next_start();
  const auto level_of = [&](int level) -> Level {
    return {m.picture + m.levels.at[level], m.before + m.levels.at[level], m.levels.width[level],
            m.levels.height[level], m.levels.pitch[level]};
  };
  // These are the patches that the finer level needs, within the level.
  Range ranges[kLevels];
#pragma unroll
  for (int level = 0; level < kLevels; level++) {
    Range& range = ranges[level];
    if (level == 0) {
      range = {int(blockIdx.x) * kMotionFindX, int(blockIdx.y) * kMotionFindY,
               int(blockIdx.x + 1) * kMotionFindX, int(blockIdx.y + 1) * kMotionFindY};
    } else {
      const Range& finer = ranges[level - 1];
      range = {min(coarser(finer.x0, 0), coarser(finer.x0, 1)),
               min(coarser(finer.y0, 0), coarser(finer.y0, 1)),
               max(coarser(finer.x1 - 1, 0), coarser(finer.x1 - 1, 1)) + 1,
               max(coarser(finer.y1 - 1, 0), coarser(finer.y1 - 1, 1)) + 1};
    }
    range.x0 = max(range.x0, 0);
    range.y0 = max(range.y0, 0);
    range.x1 = min(range.x1, patches_of(m.levels.width[level]));
    range.y1 = min(range.y1, patches_of(m.levels.height[level]));
  }
  const auto columns_of = [&](int level) { return patches_of(m.levels.width[level]); };
  const auto rows_of = [&](int level) { return patches_of(m.levels.height[level]); };
  const auto keep = [&](int level) {
    return [&, level](int i, int j, const Found& f) {
      vectors[level][(j - ranges[level].y0) * ranges[level].wide() + i - ranges[level].x0] =
          (f.x & 0xffff) | f.y * 65536;
    };
  };
  search_level<1, true>(level_of(4), ranges[4], nullptr, ranges[4], 0, 0, keep(4));
  __syncthreads();
  search_level<4, false>(level_of(3), ranges[3], vectors[4], ranges[4], columns_of(4), rows_of(4),
                         keep(3));
  __syncthreads();
  search_level<4, false>(level_of(2), ranges[2], vectors[3], ranges[3], columns_of(3), rows_of(3),
                         keep(2));
  __syncthreads();
  search_level<2, false>(level_of(1), ranges[1], vectors[2], ranges[2], columns_of(2), rows_of(2),
                         keep(1));
  __syncthreads();
  search_level<1, false>(level_of(0), ranges[0], vectors[1], ranges[1], columns_of(1), rows_of(1),
                         [&](int i, int j, const Found& f) {
                           const MotionVector v = {int16_t(f.x), int16_t(f.y), residual_of(f.with),
                                                   residual_of(f.without)};
                           *reinterpret_cast<MotionVector*>(m.field + j * m.stride +
                                                            i * int(sizeof(MotionVector))) = v;
                         });
}

}  // namespace

MotionFindKernel motion_find() {
  return find;
}

}  // namespace vf::cuda
