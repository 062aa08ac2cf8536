// Finds the motion between two pictures, coarse to fine, in two launches, or three if large.
//
// Idea. Fine levels have enough patches for the whole GPU, so each has a launch of its own. Four
// lanes take a patch, two rows of 8 samples each, or one lane takes it if the level is large: one
// lane runs fewer instructions per patch, and four wait less. Coarse levels have few patches, and a
// launch for each of them would mostly wait. One launch searches all of these: a thread block
// writes the vectors of 8 x 9 patches, and searches the patches of the coarser levels that these
// need, 6 x 6 and 4 x 5, so that no block waits for another one. Each level has warps of its own.
// They load their patches before the coarser level is done. Blocks of the finest level also load
// before the coarse levels are done, since only the vectors come from there.
//
// A lane keeps its samples and slopes in registers. Products are summed four at a time (dp4a): a
// sample between four others is such a sum too, without rounding before the end. The lanes of a
// warp read neighbouring words of few rows. The code is short: the vectors that a patch may start
// from share one loop, and steps share another one, which ends where no patch of the warp moves on.
// Traffic: the levels of two pyramids are read, 0.68 B per pixel, mostly from the caches.
// Instructions limit the finest level, and latency limits the others.
#include "cuda/core/ptx.cuh"
#include "cuda/core/ptx_math.cuh"
#include "cuda/motion/motion.h"

namespace vf::cuda {
namespace {

using namespace vf::motion;

constexpr int kWords = kPatch / 4;
constexpr uint32_t kHalves = 0x00ff00ff;

// Holds eight samples of a row, the even and the odd ones, in halves of words.
struct Eight {
  uint32_t even[kWords], odd[kWords];
};
__device__ __forceinline__ Eight halves_of(uint32_t low, uint32_t high) {
  return {{low & kHalves, high & kHalves},
          {__byte_perm(low, 0, 0x4341), __byte_perm(high, 0, 0x4341)}};
}
// Returns the differences of bytes in halves of words, limited to signed bytes.
__device__ __forceinline__ uint32_t slopes_of(uint32_t even, uint32_t odd, uint32_t even_from,
                                              uint32_t odd_from) {
  const auto half = [](uint32_t to, uint32_t from) {
    return __vminu2(__vmaxu2(to - from + 0x01000100, 0x00800080), 0x017f017f);
  };
  return __byte_perm(half(even, even_from), half(odd, odd_from), 0x6240);
}

__device__ __forceinline__ const uint32_t* words_of(const uint8_t* at) {
  return reinterpret_cast<const uint32_t*>(at);
}

struct Level {
  const uint8_t *picture, *before;  // pyramids, in which the level begins at `at`
  int at, width, height, pitch, steps;

  __device__ __forceinline__ uint32_t place(int x, int y) const {
    return uint32_t(y * pitch + (at + x));
  }
};
__device__ __forceinline__ const MotionFind::Pair& pair_of(const MotionFind& m) {
  return m.pair[blockIdx.z];
}
__device__ __forceinline__ Level level_of(const MotionFind& m, int level) {
  const MotionFind::Pair& pair = pair_of(m);
  return {pair.picture,           pair.before,           m.levels.at[level], m.levels.width[level],
          m.levels.height[level], m.levels.pitch[level], steps_of(level)};
}

// Holds what was found for a patch. A vector is in the lower and in the upper half of `vector`.
struct Found {
  int vector, with, without;
};
__device__ __forceinline__ void write(const MotionField& field, int i, int j, const Found& f) {
  *reinterpret_cast<uint2*>(field.data + j * field.stride + i * int(sizeof(MotionVector))) = {
      uint32_t(f.vector), residual_of(f.with) | uint32_t(residual_of(f.without)) << 16};
}

// Holds the weights of a sample's four neighbours for each fraction of a vector, and the rounding
// of the sum. A weight of 256 does not fit a byte: where the vector is whole, 255 with a greater
// rounding gives the same sample.
struct Weights {
  struct alignas(8) {
    uint32_t weights, round;
  } of[kUnits * kUnits];
};
constexpr Weights make_weights() {
  Weights w = {};
  for (uint32_t down = 0; down < kUnits; down++)
    for (uint32_t right = 0; right < kUnits; right++)
      w.of[down * kUnits + right] = {(kUnits - right) * (kUnits - down) |
                                         right * (kUnits - down) << 8 |
                                         (kUnits - right) * down << 16 | right * down << 24,
                                     128};
  w.of[0] = {255, 255};
  return w;
}
__device__ const Weights kWeights = make_weights();

// Adds two vectors. One of a coarser level, added to itself, is a vector of this level.
__device__ __forceinline__ int sum_of(int a, int b) {
  const auto upper = [](int v) { return uint32_t(v) & 0xffff0000; };
  return int((upper(a) + upper(b)) | (uint32_t(a + b) & 0xffff));
}
// Returns the sum of the two vectors that have the smallest residuals.
__device__ __forceinline__ int sum_of_best(const uint2 (&near)[kNear]) {
  uint32_t order[kNear];
#pragma unroll
  for (int k = 0; k < kNear; k++) order[k] = (near[k].y & 0xffff) << 2 | k;
  const uint32_t low = min(order[0], order[1]), high = max(order[0], order[1]);
  const uint32_t lower = min(order[2], order[3]), higher = max(order[2], order[3]);
  const auto vector = [&](uint32_t best) {
    const uint32_t even = best & 2 ? near[2].x : near[0].x, odd = best & 2 ? near[3].x : near[1].x;
    return int(best & 1 ? odd : even);
  };
  return sum_of(vector(min(low, lower)), vector(min(max(low, lower), min(high, higher))));
}

// Searches a patch with kLanes lanes, which all return what was found.
template <int kLanes>
class Patch {
 public:
  // Loads the patch (i, j), and compares it with the same place of the picture before.
  __device__ __forceinline__ void load(const Level& l, int i, int j) {
    x_ = kSpacing * i - kBefore;
    y_ = kSpacing * j - kBefore + kRows * int(threadIdx.x % kLanes);
    // The first sample is at a multiple of 4, less 2, its neighbour behind the word's first byte.
    const uint32_t place = l.place(x_ - 2, y_ - 1);
    const uint8_t *column = l.picture + place, *before = l.before + place;
    Eight rows[kRows + 2];
#pragma unroll
    for (int j = 0; j < kRows + 2; j++) {
      const uint32_t* at = words_of(column + j * l.pitch);
      const uint32_t first = at[0], second = at[1], third = at[2];
      const uint32_t low = __funnelshift_r(first, second, 16),
                     high = __funnelshift_r(second, third, 16);
      const Eight& row = rows[j] = halves_of(low, high);
      if (j == 0 || j > kRows) continue;
      samples_.v[j - 1][0] = low;
      samples_.v[j - 1][1] = high;
      // The samples before the row and behind it are in the words' other bytes.
      const uint32_t before_even = __byte_perm(row.odd[0], first, 0x1015),
                     behind_odd = __byte_perm(row.even[1], third, 0x1612);
      slope_x_.v[j - 1][0] = slopes_of(row.odd[0], __funnelshift_r(row.even[0], row.even[1], 16),
                                       before_even, row.even[0]);
      slope_x_.v[j - 1][1] = slopes_of(row.odd[1], behind_odd,
                                       __funnelshift_r(row.odd[0], row.odd[1], 16), row.even[1]);
      const uint32_t* was = words_of(before + j * l.pitch);
      const uint32_t middle = was[1];
      best_.v[j - 1][0] = __funnelshift_r(was[0], middle, 16);
      best_.v[j - 1][1] = __funnelshift_r(middle, was[2], 16);
    }
#pragma unroll
    for (int j = 0; j < kRows; j++)
#pragma unroll
      for (int i = 0; i < kWords; i++)
        slope_y_.v[j][i] =
            slopes_of(rows[j + 2].even[i], rows[j + 2].odd[i], rows[j].even[i], rows[j].odd[i]);
    own_ = dot(samples_, samples_);
    own_x_ = slopes_dot(slope_x_, samples_);
    own_y_ = slopes_dot(slope_y_, samples_);
    solver_ = solver_of(sum(signed_dot(slope_x_, slope_x_)), sum(signed_dot(slope_x_, slope_y_)),
                        sum(signed_dot(slope_y_, slope_y_)));
    squares_ = squares(best_);
  }

  // Returns true.
  __device__ __forceinline__ bool is_loaded() const {
    return squares_ >= 0;
  }

  // Searches the patch from the best of the starts and no motion. All lanes of a warp call it.
  template <int kCount>
  __device__ __forceinline__ Found search(const Level& l, int (&starts)[kCount]) {
    const int without = squares_;
    int x = 0, y = 0;
    const uint32_t wanted = wanted_of(starts);
    // Several starts in a turn wait for their samples together.
    constexpr int kAtOnce = kLanes == 1 || kCount == 1 ? 1 : 2;
#pragma unroll 1
    for (int k = 0; k < kCount; k += kAtOnce) {
      int packed[kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; n++) packed[n] = starts[n];
#pragma unroll
      for (int n = kAtOnce; n < kCount; n++) starts[n - kAtOnce] = starts[n];
      if (__ballot_sync(~0u, (wanted >> k & ((1u << kAtOnce) - 1)) != 0) == 0) continue;
      Rows m[kAtOnce];
      int sums[kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; n++) m[n] = moved(l, int(int16_t(packed[n])), packed[n] >> 16);
#pragma unroll
      for (int n = 0; n < kAtOnce; n++) sums[n] = squares(m[n]);
#pragma unroll
      for (int n = 0; n < kAtOnce; n++)
        if (sums[n] < squares_) {
          squares_ = sums[n];
          best_ = m[n];
          x = int(int16_t(packed[n]));
          y = packed[n] >> 16;
        }
    }
    return refined(l, x, y, without);
  }

 private:
  static constexpr int kRows = kPatch / kLanes;  // rows per lane

  struct Rows {
    uint32_t v[kRows][kWords];
  };
  // Sums products of unsigned bytes, and of signed ones.
  static __device__ __forceinline__ int dot(const Rows& a, const Rows& b) {
    uint32_t sum = 0;
#pragma unroll
    for (int j = 0; j < kRows; j++)
#pragma unroll
      for (int i = 0; i < kWords; i++) sum = __dp4a(a.v[j][i], b.v[j][i], sum);
    return int(sum);
  }
  static __device__ __forceinline__ int signed_dot(const Rows& a, const Rows& b) {
    int sum = 0;
#pragma unroll
    for (int j = 0; j < kRows; j++)
#pragma unroll
      for (int i = 0; i < kWords; i++) sum = __dp4a(int(a.v[j][i]), int(b.v[j][i]), sum);
    return sum;
  }
  static __device__ __forceinline__ int slopes_dot(const Rows& slopes, const Rows& samples) {
    int sum = 0;
#pragma unroll
    for (int j = 0; j < kRows; j++)
#pragma unroll
      for (int i = 0; i < kWords; i++) sum = dp4a_mixed(int(slopes.v[j][i]), samples.v[j][i], sum);
    return sum;
  }
  static __device__ __forceinline__ int sum(int v) {
#pragma unroll
    for (int by = 1; by < kLanes; by *= 2) v += __shfl_xor_sync(~0u, v, by);
    return v;
  }

  // Returns bit k for the start k unless it is no motion or the same as one before it.
  template <int kCount>
  static __device__ __forceinline__ uint32_t wanted_of(const int (&starts)[kCount]) {
    uint32_t wanted = 0;
#pragma unroll
    for (int k = 0; k < kCount; k++) {
      bool is_new = starts[k] != 0;
#pragma unroll
      for (int n = 0; n < k; n++) is_new &= starts[k] != starts[n];
      wanted |= uint32_t(is_new) << k;
    }
    return wanted;
  }

  // Returns the samples of the picture before, read along a vector.
  __device__ __forceinline__ Rows moved(const Level& l, int vx, int vy) const {
    // Samples are the same everywhere behind an edge.
    const int x = min(max(x_ + (vx >> 4), -12), l.width + 3);
    const int y = min(max(y_ + (vy >> 4), -kMotionRowBorder), l.height);
    const int behind = 8 * (x & 3);
    const uint8_t* at = l.before + l.place(x & ~3, y);
    const uint2 weights =
        __ldg(reinterpret_cast<const uint2*>(&kWeights.of[(vy & 15) * kUnits + (vx & 15)]));
    // Bytes 0 to 3, 3 to 6, 4 to 7 and 5 to 8 of a row have the pairs of neighbours.
    struct Pairs {
      uint32_t v[4];
    };
    const uint32_t fifth = 0x4321 + 0x1111 * (x & 3);
    const auto row = [&](int j) {
      const uint32_t* words = words_of(at + j * l.pitch);
      const uint32_t first = words[0], second = words[1], third = words[2];
      const uint32_t low = __funnelshift_r(first, second, behind),
                     high = __funnelshift_r(second, third, behind);
      return Pairs{{low, __funnelshift_r(low, high, 24), high, __byte_perm(second, third, fifth)}};
    };
    Rows out;
    Pairs above = row(0);
#pragma unroll
    for (int j = 0; j < kRows; j++) {
      const Pairs below = row(j + 1);
      const auto sum = [&](int k, uint32_t start) {
        const int from = k < 3 ? 0 : k == 3 ? 1 : k < 7 ? 2 : 3;
        const uint32_t order = k % 4 == 0 || k == 3 ? 0x5410 : k % 4 == 1 ? 0x6521 : 0x7632;
        return __dp4a(__byte_perm(above.v[from], below.v[from], order), weights.x, start);
      };
      // Two samples are the upper bytes of the halves of a word.
      const auto pair = [&](int k) { return sum(k, sum(k + 1, weights.y) * 65536 + weights.y); };
#pragma unroll
      for (int i = 0; i < kWords; i++)
        out.v[j][i] = __byte_perm(pair(4 * i), pair(4 * i + 2), 0x7531);
      above = below;
    }
    return out;
  }

  // Returns the sum of the squared differences from what was read along a vector.
  __device__ __forceinline__ int squares(const Rows& m) const {
    return sum(own_ + dot(m, m) - 2 * dot(m, samples_));
  }

  // Takes the steps from the vector (x, y), along which best_ was read.
  __device__ __forceinline__ Found refined(const Level& l, int x, int y, int without) {
    const int start = pack(x, y);
#pragma unroll 1
    for (int k = 0; k < l.steps; k++) {
      const int xd = sum(slopes_dot(slope_x_, best_) - own_x_);
      const int yd = sum(slopes_dot(slope_y_, best_) - own_y_);
      const int by_x = step_x(solver_, xd, yd), by_y = step_y(solver_, xd, yd);
      // A patch that stands still does so in all further steps.
      if (__ballot_sync(~0u, (by_x | by_y) != 0) == 0) break;
      x -= by_x;
      y -= by_y;
      best_ = moved(l, x, y);
    }
    const int with = squares(best_);
    if (with < squares_) return {pack(x, y), with, without};
    return {start, squares_, without};
  }
  static __device__ __forceinline__ int pack(int x, int y) {
    return (x & 0xffff) | y * 65536;
  }

  int x_, y_;  // the lane's first sample
  Rows samples_, slope_x_, slope_y_;
  Solver solver_;
  // Sums over the lane's samples: of their squares, and of the products with the slopes.
  int own_, own_x_, own_y_;
  Rows best_;    // samples that were read along the best vector
  int squares_;  // the sum of the squared differences from it
};

// A stage searches the level `m.level` + stage. The stages' warps follow each other, from the
// coarsest one on. A block searches kMotionFindX x kMotionFindY patches of the first stage, and the
// patches of the other stages that these need.
constexpr int kStages = kLevels - 1;
constexpr int kCoarseLanes = 4;
__device__ __forceinline__ constexpr int across(int stage) {
  return stage == 0 ? kMotionFindX : stage == 1 ? 6 : 4;
}
__device__ __forceinline__ constexpr int down(int stage) {
  return stage == 0 ? kMotionFindY : stage == 1 ? 6 : 5;
}
__device__ __forceinline__ constexpr int warps_of(int stage) {
  return (across(stage) * down(stage) * kCoarseLanes + 31) / 32;
}
static_assert(kStages == 3 && 32 * (warps_of(0) + warps_of(1) + warps_of(2)) == kMotionFindThreads);
// Returns the first patch of the coarser level that those from `first` on need.
__device__ __forceinline__ int coarser_first(int first) {
  return (first - 1) >> 1;
}

__global__ __launch_bounds__(kMotionFindThreads) void find_coarse(
    const __grid_constant__ MotionFind m) {
  VF_SHARED(int[kStages][across(1) * down(1)], vectors);
  int warp = __shfl_sync(~0u, int(threadIdx.x / 32), 0), stage = kStages - 1;
  int x0 = blockIdx.x * kMotionFindX, y0 = blockIdx.y * kMotionFindY;
#pragma unroll
  for (int k = kStages - 1; k > 0; k--)
    if (stage == k && warp >= warps_of(k)) {
      warp -= warps_of(k);
      stage = k - 1;
    }
#pragma unroll
  for (int k = 1; k < kStages; k++)
    if (k <= stage) {
      x0 = coarser_first(x0);
      y0 = coarser_first(y0);
    }
  const int level = min(m.level + stage, kLevels - 1);
  const bool is_used = m.level + stage < kLevels, is_coarsest = level == kLevels - 1;
  const Level l = level_of(m, level);
  const int at = warp * (32 / kCoarseLanes) + int(threadIdx.x % 32) / kCoarseLanes;
  const int row = stage == 0 ? at / across(0) : stage == 1 ? at / across(1) : at / across(2);
  const int column = at - row * across(stage);
  // Patches outside are the nearest ones inside, and so are those behind the block's last one.
  const int columns = patches_of(l.width), rows = patches_of(l.height);
  const int i = min(max(x0 + column, 0), columns - 1), j = min(max(y0 + row, 0), rows - 1);
  const bool is_needed = row < down(stage);
  // `from` is the first start's place among the vectors of the stage before. The others lie `aside`
  // and `below` it.
  const int from = (coarser(j, false) - coarser_first(y0)) * across(stage + 1) + coarser(i, false) -
                   coarser_first(x0);
  const int aside = i & 1 ? 1 : -1, below = j & 1 ? across(stage + 1) : -across(stage + 1);
  // The compiler does not know that this is true. It would move a plain wait up. It moves loads of
  // constant data (__ldg) above any wait, so those of the pyramids are plain ones.
  if (i + j >= 0) wait_for_previous();
  let_next_start();
  Patch<kCoarseLanes> patch;
  patch.load(l, i, j);
  // The coarser stages come first. All warps wait at one barrier, in one place of the code.
#pragma unroll 1
  for (int k = kStages - 1; k >= 0; k--) {
    if (k == stage && is_used) {
      int starts[kNear] = {};
      if (!is_coarsest)
#pragma unroll
        for (int c = 0; c < kNear; c++) {
          // Starts that the level does not have repeat the first one, so they are not new.
          const bool is_own = c < starts_of(level);
          const int v = vectors[stage + 1][from + (is_own && is_second_across(c) ? aside : 0) +
                                           (is_own && is_second_down(c) ? below : 0)];
          starts[c] = sum_of(v, v);
        }
      const Found f = patch.search(l, starts);
      if (is_needed && threadIdx.x % kCoarseLanes == 0) {
        if (stage > 0)
          vectors[stage][at] = f.vector;
        else if (x0 + column < columns && y0 + row < rows)
          write(pair_of(m).field, i, j, f);
      }
    }
    if (k > 0) __syncthreads();
  }
}

// kInParts: only parts of the field are wanted.
template <int kLanes, bool kIsFinest, bool kInParts>
__global__ __launch_bounds__(kMotionLevelThreads, kLanes == 1 ? 4 : 8) void find_level(
    const __grid_constant__ MotionFind m) {
  const Level l = level_of(m, m.level);
  const int columns = patches_of(l.width), rows = patches_of(l.height);
  const int at = (int(blockIdx.x) * 32 + int(threadIdx.x % 32)) / kLanes;
  const int i = min(at, columns - 1), j = int(blockIdx.y) * kMotionLevelY + int(threadIdx.x / 32);
  // All warps wait, since the launch after this one may rely on all launches before.
  const int first = int(blockIdx.x) * (32 / kLanes);
  if (j >= rows || (kInParts && !m.parts.want(first, first + 32 / kLanes, j)))
    return wait_for_previous();
  // The pyramids are complete: the launch before waited for them, and then let this one start.
  Patch<kLanes> patch;
  patch.load(l, i, j);
  // The compiler does not know that this is true. It would move a plain wait up.
  if (patch.is_loaded()) wait_for_previous();
  let_next_start();
  const int coarse_columns = patches_of(m.levels.width[m.level + 1]);
  const int coarse_rows = patches_of(m.levels.height[m.level + 1]);
  const MotionField& coarse = pair_of(m).coarse;
  constexpr int kLevel = kIsFinest ? 0 : 1, kLoaded = kIsFinest ? kNear : starts_of(kLevel);
  uint2 near[kLoaded];
#pragma unroll
  for (int k = 0; k < kLoaded; k++) {
    const int column = min(max(coarser(i, is_second_across(k)), 0), coarse_columns - 1);
    const int row = min(max(coarser(j, is_second_down(k)), 0), coarse_rows - 1);
    near[k] = *reinterpret_cast<const uint2*>(coarse.data + row * coarse.stride +
                                              column * int(sizeof(MotionVector)));
  }
  int starts[starts_of(kLevel)];
  if constexpr (kIsFinest) {
    starts[0] = sum_of_best(near);
  } else {
#pragma unroll
    for (int k = 0; k < kLoaded; k++) starts[k] = sum_of(int(near[k].x), int(near[k].x));
  }
  const Found f = patch.search(l, starts);
  if (at < columns && threadIdx.x % kLanes == 0) write(pair_of(m).field, i, j, f);
}

}  // namespace

MotionFindKernel motion_find_coarse() {
  return find_coarse;
}
template <int kLanes>
static MotionFindKernel level_kernel(bool is_finest, bool in_parts) {
  if (!is_finest) return find_level<kLanes, false, false>;
  return in_parts ? find_level<kLanes, true, true> : find_level<kLanes, true, false>;
}
MotionFindKernel motion_find_level(int lanes, bool is_finest, bool in_parts) {
  return lanes == 1 ? level_kernel<1>(is_finest, in_parts) : level_kernel<4>(is_finest, in_parts);
}

}  // namespace vf::cuda
