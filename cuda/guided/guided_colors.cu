// Corrects the mask by colours (refine=colors). docs/spec/matte.md has the formulas.
//
// A sample is the mean of 4 x 4 pixels, and a cell is 8 x 8 samples. Each launch is a short chain
// of loads and barriers on few warps: how soon loads are under way limits the speed.
//
//   samples  means of the frame as words of four bytes: the guide and the mask
//   prior    the mask's side and the distance to its edge, as rows of bits; models of the cells
//   votes    the vote of the cells around each sample of the band, and its colour for comparison
//   result   guide and matte as words of four bytes, for the guided filter; at the defaults
//            guided_colors_statistics.cu has this and the guided filter's first launch in one
//
// The vote: u = 1 - F - m|^2 / 24 v is a scalar product of (F, |F|^2, 1) and (2 m, -1, ..) / 24 v,
//                   so 16 samples times 8 cells are one product of matrices. Each factor is split
//                   into two halves, of which three of the four products count, for a precision of
//                   about 1e-5. They fill 14 of the 16 products of m16n8k16. Lane t of a quad holds
//                   channel t, and the fourth lane holds |F|^2. The kernel max(u, 0)^8 and the
//                   weighted sums are computed in fp32. Without tensor cores, or where S is so
//                   small that halves overflow, each lane takes a sample and goes over the cells.
//                   Tiles of cells that have no weight for a class are left out. Four blocks of
//                   votes fill a processor's registers: five would share one, as they start early,
//                   while others had three.
//
// Traffic: the frame is read once. Each sample has 4 bytes that are written once and read three
// times, 2 for the prior and 8 for the vote. Each cell has 40 bytes for each class.
#include "cuda/guided/guided_colors.cuh"
#include "cuda/guided/guided_mask.cuh"

namespace vf::cuda {
namespace {

constexpr int kTileX = kVotesTileX, kTileY = kVotesTileY;

struct Feature {
  float v[3];
};
__device__ __forceinline__ Feature feature_of(const ColorVotes& g, uint32_t word) {
  const float r = float(word & 255), s = float(word >> 8 & 255), b = float(word >> 16 & 255);
  Feature f;
#pragma unroll
  for (int c = 0; c < 3; c++)
    f.v[c] = fmaf(g.feature[c][0], r,
                  fmaf(g.feature[c][1], s, fmaf(g.feature[c][2], b, g.feature[c][3])));
  return f;
}

// ---- models of the cells -----------------------------------------------------------------------

// A warp takes a cell, and a lane takes the cell's samples (x, y) and (x, y + 4).
struct Place {
  int x, y;  // in the block's tile
  int X, Y;  // in the frame
};
__device__ __forceinline__ Place place_in_tile() {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  Place p;
  p.x = (warp & 3) * kCell + (lane & 7);
  p.y = (warp >> 2) * kCell + (lane >> 3);
  p.X = blockIdx.x * kTileX + p.x;
  p.Y = blockIdx.y * kTileY + p.y;
  return p;
}

__device__ __forceinline__ uint32_t word_at(const ColorVotes& v, int x, int y) {
  return x < v.width && y < v.height ? v.words[size_t(y) * v.pitch + x] : 0;
}

// Returns what a float has beyond its half.
__device__ __forceinline__ float rest_of(float v) {
  return v - __half2float(__float2half_rn(v));
}

// Finds 1 / (1 + exp(-t)) and the rest to 1, each with all its digits where it is small.
__device__ __forceinline__ void shares(float t, float* subject, float* background) {
  const float e = __expf(-fabsf(t)), more = __fdividef(1.f, 1.f + e), less = e * more;
  *subject = t > 0 ? more : less;
  *background = t > 0 ? less : more;
}
// Finds the weights of a sample for the two classes from its prior.
__device__ __forceinline__ void weigh(const ColorVotes& v, int prior, float weight[2]) {
  if (!in_band(prior)) {
    weight[0] = prior > 0 ? 0.f : 1.f;
    weight[1] = prior > 0 ? 1.f : 0.f;
    return;
  }
  shares(v.trust * float(prior), &weight[1], &weight[0]);
  const float x = float(prior) * (1.f / kOne);
  weight[0] *= x * x;
  weight[1] *= x * x;
}

// Makes the models of the warp's cell from two samples and their weights a lane.
template <bool tensor>
__device__ __forceinline__ void write_models(const ColorVotes& v, const Place& p,
                                             const uint32_t word[2], const float weight[2][2]) {
  const int lane = threadIdx.x & 31;
  float sum[2][5] = {};
#pragma unroll
  for (int s = 0; s < 2; s++) {
    const Feature f = feature_of(v, word[s]);
    const float squares = fmaf(f.v[0], f.v[0], fmaf(f.v[1], f.v[1], f.v[2] * f.v[2]));
#pragma unroll
    for (int k = 0; k < 2; k++) {
      sum[k][0] += weight[s][k];
#pragma unroll
      for (int c = 0; c < 3; c++) sum[k][1 + c] = fmaf(weight[s][k], f.v[c], sum[k][1 + c]);
      sum[k][4] = fmaf(weight[s][k], squares, sum[k][4]);
    }
  }
  // The first step leaves each lane with one class.
  float total[5];
#pragma unroll
  for (int i = 0; i < 5; i++) {
    const float mine = lane & 1 ? sum[1][i] : sum[0][i], other = lane & 1 ? sum[0][i] : sum[1][i];
    total[i] = mine + __shfl_xor_sync(~0u, other, 1);
  }
#pragma unroll
  for (int d = 2; d < 32; d *= 2)
#pragma unroll
    for (int i = 0; i < 5; i++) total[i] += __shfl_xor_sync(~0u, total[i], d);
  const int cx = p.X >> 3, cy = p.Y >> 3;
  if (lane > 1 || cx >= v.cell_width || cy >= v.cell_height) return;
  const float unit = __fdividef(1.f, fmaxf(total[0], 1e-6f));
  const float a = total[1] * unit, b = total[2] * unit, c = total[3] * unit;
  const float squares = fmaf(a, a, fmaf(b, b, c * c));
  const float all =
      v.variance + fmaxf(fmaf(total[4], unit, -squares), 0.f) * float(GuidedColors::kVariance);
  const float count = total[0] * (1.f / (kCell * kCell)), k = __fdividef(1.f / 24, all);
  const size_t at = (size_t(lane) * v.cell_height + cy) * v.cell_width + cx;
  v.weights[at] = make_float2(count * __fdividef(v.variance, all), count);
  uint4* const out = v.models + 2 * at;
  if (!tensor) {
    out[0] =
        make_uint4(__float_as_uint(a), __float_as_uint(b), __float_as_uint(c), __float_as_uint(k));
    return;
  }
  const float ga = 2 * k * a, gb = 2 * k * b, gc = 2 * k * c, one = fmaf(-k, squares, 1.f);
  out[0] = make_uint4(two_halves(ga, rest_of(ga)), two_halves(ga, one), two_halves(gb, rest_of(gb)),
                      two_halves(gb, rest_of(one)));
  out[1] = make_uint4(two_halves(gc, rest_of(gc)), two_halves(gc, 0), two_halves(-k, rest_of(-k)),
                      two_halves(-k, 0));
}

// ---- the prior ---------------------------------------------------------------------------------

// Widens X where the mask's edge is off by less than the largest error.
__device__ __forceinline__ int scaled(const ColorVotes& v, int x, int y, int prior) {
  const int error = int(mask_at_centre(v.edge_error, x, y, v.frame_width, v.frame_height));
  return error ? min(max(prior * 255 / error, -kOne), kOne) : prior;
}

// Mixes X with that of the previous frames where the guide stands still.
__device__ __forceinline__ int steady(const ColorVotes& v, int x, int y, int prior) {
  int sum[3] = {}, n = 0;
  for (int j = max(y - 1, 0); j <= min(y + 1, v.height - 1); j++)
    for (int i = max(x - 1, 0); i <= min(x + 1, v.width - 1); i++, n++) {
      const uint32_t word = v.words[size_t(j) * v.pitch + i];
#pragma unroll
      for (int c = 0; c < 3; c++) sum[c] += word >> 8 * c & 255;
    }
  uint2* const at = v.previous + size_t(y) * v.width + x;
  const uint2 kept = v.fresh ? make_uint2(0, 0) : *at;
  const int previous[4] = {int(kept.x & 0xffff), int(kept.x >> 16), int(kept.y & 0xffff),
                           int(int16_t(kept.y >> 16))};
  int current[4], moved = 0;
#pragma unroll
  for (int c = 0; c < 3; c++) {
    current[c] = (256 * sum[c] + n / 2) / n;
    moved = max(moved, abs(current[c] - previous[c]));
  }
  current[3] = prior;
  constexpr int still = GuidedColors::kStill, moves = GuidedColors::kMoved;
  const int keep = v.fresh ? 0 : (v.share * min(max(moves - moved, 0), moves - still) + 1024) >> 11;
  if (keep)
#pragma unroll
    for (int c = 0; c < 4; c++) current[c] += (keep * (previous[c] - current[c]) + (1 << 14)) >> 15;
  *at = make_uint2(uint32_t(current[0]) | uint32_t(current[1]) << 16,
                   uint32_t(current[2]) | uint32_t(current[3]) << 16);
  return current[3];
}

// Rows of bits of the samples on each side of the mask, in a tile and kReach samples around it.
template <int kReach>
struct Sides {
  static constexpr int rows = kTileY + 2 * kReach, width = kTileX + 2 * kReach;
  static constexpr int words = (width + 31) / 32;
  using Bits = uint32_t[2][rows][words];
  // This is the number of squared distances inside the band of min(kReach, kMaxDistance) samples.
  static constexpr int distances =
      kReach <= GuidedColors::kMaxDistance ? (kReach + 1) * (kReach + 1) : kReach * kReach;
};

// With a mean over 3 x 3 samples: a warp takes 4 rows, all its loads are in flight together.
__device__ __forceinline__ void find_sides(const ColorVotes& v, Sides<8>::Bits& bits,
                                           uint32_t (&any)[2]) {
  using S = Sides<8>;
  const int lane = threadIdx.x & 31, first = 4 * (threadIdx.x >> 5);
  const int x0 = int(blockIdx.x) * kTileX - 8, y0 = int(blockIdx.y) * kTileY - 8;
  static_assert(S::rows == 4 * 8, "of the block's 8 warps");
  const int left = x0 - 1 + lane, top = y0 - 1 + first;
  const bool in_x[2] = {left >= 0 && left < v.width, left + 32 >= 0 && left + 32 < v.width};
  // The words' last bytes.
  const uint8_t* const from =
      reinterpret_cast<const uint8_t*>(v.words) + 3 + 4 * (ptrdiff_t(top) * v.pitch + left);
  int mask[6][2];
#pragma unroll
  for (int j = 0; j < 6; j++)
#pragma unroll
    for (int w = 0; w < 2; w++)
      mask[j][w] = in_x[w] && top + j >= 0 && top + j < v.height
                       ? 2 * int(from[4 * (j * ptrdiff_t(v.pitch) + 32 * w)]) - 255
                       : 0;
#pragma unroll
  for (int j = 0; j < 4; j++) {
    int column[2];
#pragma unroll
    for (int w = 0; w < 2; w++) column[w] = mask[j][w] + mask[j + 1][w] + mask[j + 2][w];
    // The columns one and two on; those of the first word go on in the second.
    int next[2][2];
#pragma unroll
    for (int d = 1; d <= 2; d++)
#pragma unroll
      for (int w = 0; w < 2; w++) next[d - 1][w] = __shfl_sync(~0u, column[w], (lane + d) & 31);
    const int sum[2] = {
        column[0] + (lane < 31 ? next[0][0] : next[0][1]) + (lane < 30 ? next[1][0] : next[1][1]),
        column[1] + next[0][1] + next[1][1]};
#pragma unroll
    for (int w = 0; w < 2; w++) {
      const int i = 32 * w + lane, x = x0 + i, y = y0 + first + j;
      const bool in = i < S::width && x >= 0 && y >= 0 && x < v.width && y < v.height;
      const uint32_t back = __ballot_sync(~0u, in && sum[w] <= 0),
                     fore = __ballot_sync(~0u, in && sum[w] > 0);
      if (lane == 0) {
        bits[0][first + j][w] = back;
        bits[1][first + j][w] = fore;
      }
      any[0] |= back;
      any[1] |= fore;
    }
  }
}

// With a mean over any window, by sums down the columns.
template <int kReach>
__device__ __forceinline__ void find_sides(const ColorVotes& v, typename Sides<kReach>::Bits& bits,
                                           uint32_t (&any)[2]) {
  using S = Sides<kReach>;
  constexpr int pad = GuidedColors::kMaxPriorRadius;
  VF_SHARED(int16_t[S::rows + 2 * pad][S::width + 2 * pad], mask);  // 2 m - 255; 0 outside
  VF_SHARED(int16_t[S::rows][S::width + 2 * pad], column);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, r = v.prior_radius;
  const int x0 = int(blockIdx.x) * kTileX - kReach, y0 = int(blockIdx.y) * kTileY - kReach;
  for (int j = warp; j < S::rows + 2 * r; j += 8)
    for (int i = lane; i < S::width + 2 * r; i += 32) {
      const int x = x0 - r + i, y = y0 - r + j;
      const bool in = x >= 0 && y >= 0 && x < v.width && y < v.height;
      mask[j][i] = int16_t(in ? 2 * int(v.words[size_t(y) * v.pitch + x] >> 24) - 255 : 0);
    }
  __syncthreads();
  for (int j = warp; j < S::rows; j += 8)
    for (int i = lane; i < S::width + 2 * r; i += 32) {
      int sum = 0;
      for (int k = 0; k <= 2 * r; k++) sum += mask[j + k][i];
      column[j][i] = int16_t(sum);
    }
  __syncthreads();
  for (int j = warp; j < S::rows; j += 8)
#pragma unroll
    for (int w = 0; w < S::words; w++) {
      const int i = 32 * w + lane, x = x0 + i, y = y0 + j;
      const bool in = i < S::width && x >= 0 && y >= 0 && x < v.width && y < v.height;
      int sum = 0;
      if (in)
        for (int k = 0; k <= 2 * r; k++) sum += column[j][i + k];
      const uint32_t back = __ballot_sync(~0u, in && sum <= 0),
                     fore = __ballot_sync(~0u, in && sum > 0);
      if (lane == 0) {
        bits[0][j][w] = back;
        bits[1][j][w] = fore;
      }
      any[0] |= back;
      any[1] |= fore;
    }
}

// Empties what the votes count.
__device__ __forceinline__ void start_errors(VoteErrors* errors) {
  if (blockIdx.x || blockIdx.y) return;
#pragma unroll 1
  for (int i = threadIdx.x; i < kErrorCopies * kErrorSums; i += 256)
    errors->sums[i / kErrorSums][i % kErrorSums] = 0;
}

// The squared distance, up to kReach + 1 samples, along a row of bits, of which kReach come before.
template <int kReach>
__device__ __forceinline__ uint16_t square_along(const uint32_t* row, int lane) {
  int d;
  if constexpr (kReach <= 8) {
    // The sample's window is within 32 bits.
    const uint32_t window = __funnelshift_r(row[0], row[1], lane);
    // None to the right is the largest number.
    d = int(min(uint32_t(__clz(int(window << (31 - kReach)))),
                uint32_t(__ffs(int(window >> kReach)) - 1)));
  } else {
    // Bit `at` is the sample's own; bits up to 63 lie in `low`.
    constexpr int words = Sides<kReach>::words;
    const unsigned long long low = row[0] | (unsigned long long)row[1] << 32;
    const int at = lane + kReach;
    unsigned long long right = low >> at;
    if (words > 2) right |= ((unsigned long long)row[words - 1] << 1) << (63 - at);
    const unsigned long long left = low << (63 - at);
    d = min(right ? __ffsll((long long)right) - 1 : 64, left ? __clzll((long long)left) : 64);
  }
  d = min(d, kReach + 1);
  return uint16_t(d * d);
}

// kReach: samples to each side that a distance is looked for in, a multiple of 8.
template <int kReach, bool tensor>
__global__ __launch_bounds__(256) void prior(const ColorVotes v) {
  using S = Sides<kReach>;
  constexpr int rows = S::rows;
  static_assert(GuidedColors::kShare == 1 << 15, "steady() shifts");
  VF_SHARED(typename S::Bits, bits);            // samples of each class
  VF_SHARED(uint16_t[2][rows][kTileX], along);  // squared distance along the row to each class
  VF_SHARED(int16_t[S::distances], prior_of);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const Place p = place_in_tile();
  for (int i = tid; i < v.prior_count; i += 256) prior_of[i] = v.prior_of[i];
  wait_for_previous();
  let_next_start();
  start_errors(v.errors);
  const uint32_t word[2] = {word_at(v, p.X, p.Y), word_at(v, p.X, p.Y + 4)};
  uint32_t any[2] = {};
  if constexpr (kReach == 8)
    find_sides(v, bits, any);
  else
    find_sides<kReach>(v, bits, any);
  const bool back = __syncthreads_or(any[0] != 0), fore = __syncthreads_or(any[1] != 0);
  int x_of[2] = {fore ? kOne : -kOne, fore ? kOne : -kOne};
  if (back && fore) {
#pragma unroll 1
    for (int j = warp; j < rows; j += 8)
#pragma unroll
      for (int k = 0; k < 2; k++) along[k][j][lane] = square_along<kReach>(bits[k][j], lane);
    __syncthreads();
#pragma unroll
    for (int s = 0; s < 2; s++) {
      const int y = p.y + 4 * s + kReach;
      const bool subject = along[1][y][p.x] == 0;
      const auto& other = along[!subject];
      int best = 1 << 20;
#pragma unroll 17
      for (int d = -kReach; d <= kReach; d++) best = min(best, other[y + d][p.x] + d * d);
      const int x = best < v.prior_count ? prior_of[best] : kOne;
      x_of[s] = subject ? x : -x;
    }
  }
  float weight[2][2];
#pragma unroll
  for (int s = 0; s < 2; s++) {
    const int y = p.Y + 4 * s;
    const bool in = p.X < v.width && y < v.height;
    if (in && v.edge_error.count) x_of[s] = scaled(v, p.X, y, x_of[s]);
    if (in && v.previous) x_of[s] = steady(v, p.X, y, x_of[s]);
    if (p.X < v.pitch && y < v.height)
      v.prior[size_t(y) * v.pitch + p.X] = int16_t(in ? x_of[s] : kOne);
    weigh(v, x_of[s], weight[s]);
    if (!in) weight[s][0] = weight[s][1] = 0;
  }
  write_models<tensor>(v, p, word, weight);
}

// ---- the vote ----------------------------------------------------------------------------------

// Cells of the block's windows, column by column, so that the window of a cell is contiguous.
struct Window {
  int side, count, cells, tiles;
  __host__ __device__ constexpr explicit Window(int reach)
      : side(2 * reach + 1),
        count(side * side),
        cells(side * (kVoteCells + 2 * reach)),
        tiles((count + 7) / 8) {}
  // These are the sizes of the arrays in shared memory, in units of 4 bytes. The models of both
  // classes include what a last tile reads beyond them.
  __host__ __device__ constexpr int models() const { return 8 * (2 * cells + 8); }
  __host__ __device__ constexpr int weights() const { return 2 * 2 * cells; }
  __host__ __device__ constexpr int gaussian() const { return 8 * tiles; }
  __host__ __device__ constexpr int counted() const { return kVoteCells * 2 * 8 * tiles; }
};

// The arrays of `votes` in shared memory. kReach 0 stands for any reach.
template <int kReach>
struct VoteArrays {
  Window w;
  uint4* models;    // two a cell, of each class
  float2* weights;  // weights of each class's cells
  float* gaussian;  // over a window, zeros up to a whole tile
  float* counted;   // by home cell and class: the weights of its window under the Gaussian

  __device__ __forceinline__ VoteArrays(uint4* memory, int reach)
      : w(kReach ? kReach : reach),
        models(memory),
        weights(reinterpret_cast<float2*>(memory + w.models() / 4)),
        gaussian(reinterpret_cast<float*>(weights) + w.weights()),
        counted(gaussian + w.gaussian()) {}
};

// Where a thread stands: a warp takes four rows of a cell, a lane the sample at column q and row t.
// In matrices, q is the row and t the place in a quad.
struct Voter {
  int lane, q, t;
  int home, k;  // the warp's cell in the block, and the class whose weights it counts
  int x, y;     // the lane's sample

  __device__ __forceinline__ Voter() {
    const int warp = threadIdx.x >> 5;
    lane = threadIdx.x & 31, q = lane >> 2, t = lane & 3, home = warp >> 1, k = warp & 1;
    x = blockIdx.x * (kVoteCells * kCell) + home * kCell + q;
    y = blockIdx.y * kCell + k * 4 + t;
  }
};

// Fills the arrays that do not depend on the previous kernel.
template <int kReach>
__device__ __forceinline__ void make_gaussian(const ColorVotes& v, const VoteArrays<kReach>& m) {
  const Window w(kReach ? kReach : v.reach);
  const int tid = threadIdx.x;
#pragma unroll 1
  for (int i = tid; i < w.gaussian(); i += 256) m.gaussian[i] = v.spatial[i];
  if (tid < 16) m.models[4 * w.cells + tid] = make_uint4(0, 0, 0, 0);
}

// Starts to copy the models of the block's windows, and loads their weights: zeros outside.
template <bool tensor, int kReach>
__device__ __forceinline__ void fetch_models(const ColorVotes& v, const VoteArrays<kReach>& m) {
  const Window w(kReach ? kReach : v.reach);
#pragma unroll 1
  for (int i = threadIdx.x; i < 2 * w.cells; i += 256) {
    const int k = i >= w.cells, at = i - k * w.cells, column = at / w.side;
    const int cx = int(blockIdx.x) * kVoteCells - w.side / 2 + column;
    const int cy = int(blockIdx.y) - w.side / 2 + at - column * w.side;
    uint4* const to = m.models + 2 * i;
    if (cx >= 0 && cy >= 0 && cx < v.cell_width && cy < v.cell_height) {
      const size_t from = (size_t(k) * v.cell_height + cy) * v.cell_width + cx;
      const auto* const bytes = reinterpret_cast<const uint8_t*>(v.models + 2 * from);
      copy_async(shared_address(to), bytes);
      if (tensor) copy_async(shared_address(to + 1), bytes + 16);
      m.weights[i] = __ldcg(v.weights + from);
    } else {
      to[0] = to[1] = make_uint4(0, 0, 0, 0);
      m.weights[i] = make_float2(0, 0);
    }
  }
}

// Holds what a warp counts for a cell and a class.
struct Counted {
  float unit;      // makes the sum of the weights 1
  uint32_t tiles;  // a bit for each eight weights that are not all zero, for windows of 7 x 7
};

// Holds the weights of a warp's cell and class under the Gaussian.
template <int kReach>
__device__ __forceinline__ void count_weights(const ColorVotes& v, const VoteArrays<kReach>& m,
                                              const Voter& me, Counted (&counted)[kVoteCells][2]) {
  const Window w(kReach ? kReach : v.reach);
  float n = 0;
  uint32_t tiles = 0;
#pragma unroll(kReach ? 2 : 1)
  for (int first = 0; first < 8 * w.tiles; first += 32) {
    const int i = first + me.lane;
    float weight = 0;
    if (i < 8 * w.tiles) {
      const float2 c = m.weights[me.k * w.cells + me.home * w.side + min(i, w.count - 1)];
      n = fmaf(c.y, m.gaussian[i], n);
      weight = c.x * m.gaussian[i];
      m.counted[(me.home * 2 + me.k) * 8 * w.tiles + i] = weight;
    }
    if (!kReach) continue;
    uint32_t some = __ballot_sync(~0u, weight != 0);
    some |= some >> 4, some |= some >> 2, some |= some >> 1;
    tiles |= (some & 0x01010101) * 0x01020408 >> 24 << first / 8;
  }
#pragma unroll
  for (int d = 16; d; d /= 2) n += __shfl_xor_sync(~0u, n, d);
  if (me.lane == 0) counted[me.home][me.k] = {__fdividef(1.f, fmaxf(n, v.minimum)), tiles};
}

// Gives lane t of a quad the values that its four lanes have in place t.
__device__ __forceinline__ void transpose_quad(int t, uint32_t (&v)[4]) {
#pragma unroll
  for (int d = 1; d < 4; d *= 2)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (i & d) continue;
      const uint32_t other = __shfl_xor_sync(~0u, t & d ? v[i] : v[i + d], d);
      (t & d ? v[i] : v[i + d]) = other;
    }
}

// Finds how much the lane's sample is alike each class in its window. On tensor cores, 16 rows of
// samples meet 8 models at a time; the eighth power of what comes out is weighed here.
template <int kReach>
__device__ __forceinline__ void alike_by_matrices(const ColorVotes& v, const VoteArrays<kReach>& m,
                                                  const Voter& me, uint32_t word,
                                                  const Counted (&counted)[2], float (&alike)[2]) {
  const Window w(kReach ? kReach : v.reach);
  const int q = me.q, t = me.t;
  const Feature f = feature_of(v, word);
  const float channel[4] = {f.v[0], f.v[1], f.v[2],
                            fmaf(f.v[0], f.v[0], fmaf(f.v[1], f.v[1], f.v[2] * f.v[2]))};
  // Halves and rests: first of the sample's channels, then of the four samples' channel t.
  uint32_t value[4];
#pragma unroll
  for (int c = 0; c < 4; c++) value[c] = two_halves(channel[c], rest_of(channel[c]));
  transpose_quad(t, value);
  uint4 a[2];
  const uint32_t one = t < 2 ? 0x3c00u << 16 : 0;
#pragma unroll
  for (int i = 0; i < 2; i++)
    a[i] =
        make_uint4(__byte_perm(value[2 * i], 0, 0x1010), __byte_perm(value[2 * i + 1], 0, 0x1010),
                   value[2 * i] >> 16 | one, value[2 * i + 1] >> 16 | one);
  float sum[2][2][2] = {};  // by class, matrix, row
  const uint2* const models =
      reinterpret_cast<const uint2*>(m.models + 2 * me.home * w.side) + t;  // a cell has four words
  const float* const weights = m.counted + me.home * 2 * 8 * w.tiles;
  // Adds weight times max(u, 0)^8. The square is one instruction: u is at most 1.
  const auto add = [](float u, float weight, float& to) {
    const float l2 = __saturatef(u * fabsf(u)), l4 = l2 * l2;
    to = fmaf(l4 * l4, weight, to);
  };
  const float none[4] = {};
  // One cell of a window of 7 x 7 is left over.
  static_assert(kReach == 0 || kReach == 3, "for how many cells are left over");
  const int tiles = kReach ? w.tiles - 1 : w.tiles;
  // The next tile's weights are under way while one is added.
  uint2 next_b[2];
  float2 next_c[2];
  const auto fetch = [&](int n) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
      next_b[k] = models[4 * (k * w.cells + 8 * n + q)];
      next_c[k] = reinterpret_cast<const float2*>(weights)[4 * (k * w.tiles + n) + t];
    }
  };
  fetch(0);
  const uint32_t filled[2] = {counted[0].tiles, counted[1].tiles};
  uint32_t bit = 1;
  // Not unrolled: most blocks go through it once, and instructions that are new come slowly.
#pragma unroll 1
  for (int n = 0; n < tiles; n++, bit *= 2) {
    const uint2 b[2] = {next_b[0], next_b[1]};
    const float2 c[2] = {next_c[0], next_c[1]};
    fetch(kReach ? n + 1 : min(n + 1, tiles - 1));
#pragma unroll
    for (int k = 0; k < 2; k++) {
      // Most cells far from the edge have one class.
      if (kReach && !(filled[k] & bit)) continue;
#pragma unroll
      for (int j = 0; j < 2; j++) {
        float u[4];
        multiply_first(u, none, a[j], b[k].x, b[k].y);
#pragma unroll
        for (int i = 0; i < 4; i++) add(u[i], i & 1 ? c[k].y : c[k].x, sum[k][j][i >> 1]);
      }
    }
  }
  if (kReach) {
    // The last cell's models of both classes are the first two columns of one matrix.
    const uint2 b = models[4 * ((q & 1) * w.cells + w.count - 1)];
    const float* const last = weights + w.count - 1;
    const float2 c = t ? make_float2(0, 0) : make_float2(last[0], last[8 * w.tiles]);
#pragma unroll
    for (int j = 0; j < 2; j++) {
      float u[4];
      multiply_first(u, none, a[j], b.x, b.y);
#pragma unroll
      for (int i = 0; i < 4; i++) add(u[i], i & 1 ? c.y : c.x, sum[i & 1][j][i >> 1]);
    }
  }
  // Lane t of a quad finishes row t of the four, its own sample.
#pragma unroll
  for (int k = 0; k < 2; k++) {
    float part[2];
#pragma unroll
    for (int j = 0; j < 2; j++)
      part[j] = (t & 1 ? sum[k][j][1] : sum[k][j][0]) +
                __shfl_xor_sync(~0u, t & 1 ? sum[k][j][0] : sum[k][j][1], 1);
    alike[k] = (t & 2 ? part[1] : part[0]) + __shfl_xor_sync(~0u, t & 2 ? part[0] : part[1], 2);
  }
}

// Finds how much the lane's sample is alike each class, model by model.
template <int kReach>
__device__ __forceinline__ void alike_by_models(const ColorVotes& v, const VoteArrays<kReach>& m,
                                                const Voter& me, uint32_t word, float (&alike)[2]) {
  const Window w(kReach ? kReach : v.reach);
  const Feature f = feature_of(v, word);
  for (int k = 0; k < 2; k++) {
    const uint4* const models = m.models + 2 * (k * w.cells + me.home * w.side);
    const float* const weight = m.counted + (me.home * 2 + k) * 8 * w.tiles;
    float sum = 0;
    for (int i = 0; i < w.count; i++) {
      const uint4 model = models[2 * i];
      const float a = f.v[0] - __uint_as_float(model.x), b = f.v[1] - __uint_as_float(model.y),
                  c = f.v[2] - __uint_as_float(model.z);
      const float d2 = fmaf(a, a, fmaf(b, b, c * c));
      const float l = fmaxf(fmaf(-d2, __uint_as_float(model.w), 1.f), 0.f), l2 = l * l,
                  l4 = l2 * l2;
      sum = fmaf(l4 * l4, weight[i], sum);
    }
    alike[k] = sum;
  }
}

// Returns the vote against the mask's side, in 256ths.
__device__ __forceinline__ uint32_t vote_against(int prior, float ratio) {
  const float t = prior > 0 ? 2 * ratio : -2 * ratio;
  return uint32_t(fmaf(__fdividef(1.f, 1.f + __expf(t)), 256.f, 0.5f));
}

// Returns how much luma changes from a sample to the next, in 1/16 code values.
__device__ __forceinline__ uint32_t luma_step(const ColorVotes& v, uint32_t word, uint32_t next) {
  int sum = 0;
#pragma unroll
  for (int c = 0; c < 3; c++)
    sum += v.luma[c] * (int(next >> 8 * c & 255) - int(word >> 8 * c & 255));
  return uint32_t(min(abs(sum) >> 4, GuidedColors::kBusyStep));
}

// kReach 0 stands for any reach.
template <bool tensor, int kReach>
__global__ __launch_bounds__(256, kReach ? 4 : 2) void votes(const ColorVotes v) {
  VF_DYNAMIC_SHARED(16, uint4, shared);
  VF_SHARED(uint32_t[kErrorSums], against);  // number << 20 | sum; last the steps
  VF_SHARED(Counted[kVoteCells][2], counted);
  const VoteArrays<kReach> arrays(shared, v.reach);
  const Voter me;
  const bool in = me.x < v.width && me.y < v.height;
  if (threadIdx.x < kErrorSums) against[threadIdx.x] = 0;
  make_gaussian(v, arrays);
  wait_for_previous();
  let_next_start();
  // All loads before anything waits for one.
  fetch_models<tensor>(v, arrays);
  const size_t at = size_t(me.y) * v.pitch + me.x;
  const int own = in ? __ldcg(v.prior + at) : kOne;
  const uint32_t word = in ? __ldcg(v.words + at) : 0;
  const uint32_t next = in && me.x + 1 < v.width ? __ldcg(v.words + at + 1) : word;
  const bool votes = in_band(own), any = __ballot_sync(~0u, votes) != 0;
  if (me.x < v.pitch && me.y < v.height && !votes) v.voted[at] = {0, kNoVote};
  wait_all_copies();
  if (!__syncthreads_or(any)) return;
  count_weights(v, arrays, me, counted);
  __syncthreads();
  if (any) {
    float alike[2];
    if constexpr (tensor)
      alike_by_matrices(v, arrays, me, word, counted[me.home], alike);
    else
      alike_by_models(v, arrays, me, word, alike);
    constexpr float minimum = float(GuidedColors::kFloor);
    if (votes) {
      const float ratio = __logf(__fdividef(fmaf(alike[1], counted[me.home][1].unit, minimum),
                                            fmaf(alike[0], counted[me.home][0].unit, minimum)));
      v.voted[at] = compared(v, word, ratio);
      const int k = abs(own) * kErrorBins / kOne;
      atomicAdd(against + (own > 0) * kErrorBins + k, 1u << 20 | vote_against(own, ratio));
    }
    uint32_t step = 0;
    if (votes && own <= 0 && -own * kErrorBins / kOne >= GuidedColors::kErrorNear)
      step = luma_step(v, word, next);
#pragma unroll
    for (int d = 16; d; d /= 2) step += __shfl_xor_sync(~0u, step, d);
    if (me.lane == 0) atomicAdd(against + kErrorClasses, step);
  }
  __syncthreads();
  const int k = threadIdx.x;
  if (k >= kErrorSums || !against[k]) return;
  const unsigned long long number = against[k] >> 20, sum = against[k] & 0xfffff;
  atomicAdd(&v.errors->sums[(blockIdx.x + blockIdx.y) % kErrorCopies][k], number << 40 | sum);
}

// ---- the result --------------------------------------------------------------------------------

__global__ __launch_bounds__(256) void result(const ColorVotes v) {
  constexpr int wide = kTileX + 2, high = kTileY + 2;
  constexpr int columns = kTileX + 2 * kAround, rows = kTileY + 2 * kAround;
  VF_SHARED(Compared[rows][columns], tile);
  VF_SHARED(int16_t[high][wide], prior);
  VF_SHARED(Found, found);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int X = blockIdx.x * kTileX + lane;
  wait_for_previous();
  if (warp == 0) {
    ErrorSums counted;
    counted.fetch(v);
    find_error(v, counted, &found);
  }
  __syncthreads();
  const Found error = found;
#pragma unroll
  for (int u = 0; u < (rows * columns + 255) / 256; u++) {
    const int i = threadIdx.x + 256 * u, c = i % columns, r = i / columns;
    const int x = int(blockIdx.x) * kTileX - kAround + c;
    const int y = int(blockIdx.y) * kTileY - kAround + r;
    if (i >= rows * columns) break;
    const bool in = x >= 0 && y >= 0 && x < v.width && y < v.height;
    const size_t at = in ? size_t(y) * v.pitch + x : 0;
    tile[r][c] = in ? v.voted[at] : Compared{0, kNoVote};
    const int inner_x = c + 1 - kAround, inner_y = r + 1 - kAround;
    if (inner_x >= 0 && inner_y >= 0 && inner_x < wide && inner_y < high)
      prior[inner_y][inner_x] = int16_t(in ? error.narrowed(v.prior[at]) : kOne);
  }
  __syncthreads();
  if (X >= v.width) return;
#pragma unroll
  for (int s = 0; s < 2; s++) {
    const int y = 2 * warp + s, Y = blockIdx.y * kTileY + y;
    if (Y >= v.height) break;
    const size_t at = size_t(Y) * v.pitch + X;
    bool near = false;
#pragma unroll
    for (int k = 0; k < 9; k++) near = near || in_band(prior[y + k / 3][lane + k % 3]);
    const int c = lane + kAround, r = y + kAround, own = prior[y + 1][lane + 1];
    uint32_t matte = own > 0 ? 255 : 0;
    if (in_band(own)) matte = matte_byte(alike_logit(v, tile, c, r, own, error.shift));
    const GuidedSide side = Sureness(matte, tile, c, r).side(!near, own > 0, error.busy);
    v.result[at] = (v.words[at] & 0x00ffffff) | matte << 24;
    if (v.low)
      v.own_sides[at] = side;
    else
      v.sides[size_t(Y) * v.width + X] = side;
  }
}

}  // namespace

VotesKernel votes_prior(int distance, bool tensor) {
  if (distance <= 8) return tensor ? prior<8, true> : prior<8, false>;
  if (distance <= 16) return tensor ? prior<16, true> : prior<16, false>;
  return tensor ? prior<32, true> : prior<32, false>;
}

VotesKernel votes_of(bool tensor, int reach) {
  if (reach == 3) return tensor ? votes<true, 3> : votes<false, 3>;
  return tensor ? votes<true, 0> : votes<false, 0>;
}

int votes_shared(int reach) {
  const Window w(reach);
  return 4 * (w.models() + w.weights() + w.gaussian() + w.counted());
}

VotesKernel votes_result() {
  return result;
}

}  // namespace vf::cuda
