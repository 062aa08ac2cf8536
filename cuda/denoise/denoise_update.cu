// The denoiser's first pass compensates the state, tests for motion, makes the new state and counts
// statistics.
//
// Idea. A warp takes 2 rows of 64 blocks of 2 x 2 pixels, and a lane takes 2 blocks of each row,
// which are a piece of the state. It reads the piece from where it was, and keeps the samples in
// registers: in memory, a compensated state would be written once and read once more. The tests of
// a tile, and of a ring of one block round it, go through shared memory for their sums over 3 x 3.
// Statistics are sums of integers over cells of 8 x 8 samples. They are added in registers, then by
// shuffles, then in shared memory, where a cell of luma has a part from each of two warps. A thread
// per cell enters them into the histograms by global reductions. Two jobs may share the launch. A
// job without a previous state only makes a state of its frame. The last job of a look-ahead merges
// its new state with that of the frames before. Jobs of later frames count nothing.
// Traffic: a luma sample of NV12 takes 1.5 B in, and 3 B of T and 0.5 B of p in and out, in total
// 8.5 B. Up to four rows and columns round a piece come from the cache. A tile has 64 x 16 blocks
// and 256 threads.
// Instructions limit the speed of large frames, and latency that of small ones. Few rows per warp
// take few registers, so that many warps run at once.
#include "cuda/core/ptx.cuh"
#include "cuda/denoise/denoise_move.cuh"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

constexpr int kTileX = kDenoiseTileX, kTileY = kDenoiseTileY, kRows = kDenoiseRows;
constexpr int kThreads = 32 * kDenoiseWarps;
static_assert(kPiece == kRows, "a lane has a piece");
// A cell of the statistics is 4 blocks high, so several warps have parts of it.
constexpr int kParts = 4 / kRows;

// Holds the sums of a block's differences, and of the squares of the halves of these differences.
struct Sums {
  int sum[3];
  uint32_t squares[3];
};
__device__ __forceinline__ void add_pair(uint32_t x, uint32_t t, int& sum, uint32_t& squares) {
  sum += int(sum_of_pair(x, 0) - sum_of_pair(t, 0));
  const uint32_t half = (__vmaxu2(x, t) - __vminu2(x, t)) >> 1 & 0x7fff7fffu;
  squares += uint32_t(low_half(half)) * uint32_t(low_half(half)) +
             uint32_t(high_half(half)) * uint32_t(high_half(half));
}
template <int kX, int kY>
__device__ __forceinline__ Sums differences(const Blocks<kX, kY>& x, const Blocks<kX, kY>& t,
                                            int block) {
  Sums s = {};
#pragma unroll
  for (int r = 0; r < 2; r++) add_pair(x.luma[r][block], t.luma[r][block], s.sum[0], s.squares[0]);
#pragma unroll
  for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
    for (int r = 0; r < kY; r++) {
      if constexpr (kX == 2) {
        add_pair(x.chroma[c][r][block], t.chroma[c][r][block], s.sum[1 + c], s.squares[1 + c]);
      } else {
        const int d = x.sample(c, r, block, 0) - t.sample(c, r, block, 0);
        const uint32_t half = half_difference(uint32_t(abs(d)));
        s.sum[1 + c] += d;
        s.squares[1 + c] += half * half;
      }
    }
  return s;
}

__device__ __forceinline__ uint32_t blend_pair(uint32_t x, uint32_t t, int low, int high) {
  return __byte_perm(blend(uint32_t(low_half(x)), uint32_t(low_half(t)), uint32_t(low)),
                     blend(uint32_t(high_half(x)), uint32_t(high_half(t)), uint32_t(high)), 0x7632);
}

// A tile has this many cells of 4 x 4 blocks.
constexpr int kCells = (kTileX / 4) * (kTileY / 4);
// A cell has three sums of each component, sums of luma, texture and p of the state, and the sum of
// luma of the frame. The sum of p also counts CellSums' `below`, in units of kBelow.
constexpr uint32_t kBelow = 1 << 20;
template <int kX, int kY>
constexpr int kSums = 3 * (1 + Chroma<kX, kY>::colors) + 4;

// Holds all that a thread reads.
template <int kBytes, int kX, int kY>
struct Input {
  Blocks<kX, kY> x[kRows], t[kRows];  // a piece
  uint32_t p[kRows];
  // This is a block of the ring round the thread block's tile, or the nearest one in the frame.
  Blocks<kX, kY> ring_x;
  Stored<kBytes> stored[kRows], stored_ring;
};

// Tells whether all columns of the thread block's tile are in the frame.
__device__ __forceinline__ bool is_inside(const Denoise& d, int bx) {
  return (bx & ~(kTileX - 1)) + kTileX <= d.blocks_x;
}

// Each of kRing threads has a block of the ring round the tile: first come the rows above and below
// it, then the columns at its sides. The first two warps have none, because they count luma. So the
// four schedulers of a multiprocessor, which take a block's warps in turn, have about the same work.
constexpr uint32_t kRingFirst = 64, kRingRows = 2 * (kTileX + 2), kRing = kRingRows + 2 * kTileY;
static_assert(kRingFirst + kRing <= kThreads, "a block of the ring per thread");
struct Ring {
  bool is_there;    // Otherwise the block is any one in the frame.
  int column, row;  // in the tile
  int x, y;         // the block, or the nearest one in the frame
};
__device__ __forceinline__ Ring ring_of(const Denoise& d, int bx0, int by0) {
  const uint32_t i = threadIdx.x - kRingFirst;
  const int beside = int(i - kRingRows);
  Ring r;
  r.is_there = i < kRing;
  r.row = beside >= 0 ? beside >> 1 : i < kRingRows / 2 ? -1 : kTileY;
  r.column = beside >= 0 ? (beside & 1 ? kTileX : -1) : int(i % (kTileX + 2)) - 1;
  r.x = min(max(bx0 + r.column, 0), d.blocks_x - 1);
  r.y = min(max(by0 + r.row, 0), d.blocks_y - 1);
  return r;
}

// Reads the piece from the frame. A block outside becomes the nearest one inside.
template <bool kRgb, int kBytes, int kX, int kY>
__device__ __forceinline__ void read_piece(const Denoise& d, int bx, int by,
                                           Input<kBytes, kX, kY>& in) {
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    read_block<kBytes, kX, kY, kRgb>(d, bx, by + r, 0, in.x[r]);
    read_block<kBytes, kX, kY, kRgb>(d, bx + 1, by + r, 1, in.x[r]);
  }
}

// Begins to read the frame. Where the fast kernels need not look for its edges, they only load. The
// block of the ring lies inside.
template <bool kRgb, DenoiseFast kFast, int kBytes, int kX, int kY>
__device__ __forceinline__ void begin_frame(const Denoise& d, int bx, int by, const Ring& ring,
                                            Input<kBytes, kX, kY>& in) {
  if constexpr (kFast != DenoiseFast::no) {
    if (!is_inside(d, bx)) return;
    load_inside<kFast, 1>(d, ring.x, ring.y, in.stored_ring);
#pragma unroll
    for (int r = 0; r < kRows; r++)
      load_inside<kFast, 2>(d, bx, min(by + r, d.blocks_y - 1), in.stored[r]);
    return;
  }
  if constexpr (kRgb && kBytes == 1) {
    if (job_of(d).packed && is_inside(d, bx)) {
      read_packed<1>(d, ring.x, ring.y, in.ring_x);
#pragma unroll
      for (int r = 0; r < kRows; r++) read_packed<2>(d, bx, min(by + r, d.blocks_y - 1), in.x[r]);
      return;
    }
  }
  read_block<kBytes, kX, kY, kRgb>(d, ring.x, ring.y, 0, in.ring_x);
  read_piece<kRgb>(d, bx, by, in);
}
// Makes the block of the ring, and the piece, of what the fast kernels have loaded.
template <DenoiseFast kFast, int kBytes, int kX, int kY>
__device__ __forceinline__ void end_ring(const Denoise& d, int bx, const Ring& ring,
                                         Input<kBytes, kX, kY>& in) {
  if constexpr (kFast != DenoiseFast::no) {
    if (is_inside(d, bx))
      unpack<kFast, 1>(d, in.stored_ring, in.ring_x);
    else
      read_block<kBytes, kX, kY, false>(d, ring.x, ring.y, 0, in.ring_x);
  }
}
template <DenoiseFast kFast, int kBytes, int kX, int kY>
__device__ __forceinline__ void end_piece(const Denoise& d, int bx, int by,
                                          Input<kBytes, kX, kY>& in) {
  if constexpr (kFast != DenoiseFast::no) {
    if (is_inside(d, bx))
#pragma unroll
      for (int r = 0; r < kRows; r++) unpack<kFast, 2>(d, in.stored[r], in.x[r]);
    else
      read_piece<false>(d, bx, by, in);
  }
}

// Merges the new state of two blocks with that of the frames before.
template <int kX, int kY>
__device__ __forceinline__ void merge_row(const Denoise& d, int bx, int row,
                                          const Blocks<kX, kY>& x, Blocks<kX, kY>& to,
                                          int (&p)[2]) {
  const auto at = [&](const uint16_t* plane, int pitch, int x, int y) {
    return state_at<const uint2>(plane, pitch, x, y);
  };
  const uint32_t before = state_at<const uint32_t>(job_of(d).before.p, d.pitch_p, bx, row);
  Merge m[2];
#pragma unroll
  for (int k = 0; k < 2; k++) {
    m[k] = merge_of(p_of(k ? before >> 16 : before), p[k]);
    p[k] = m[k].p;
  }
  const auto merge = [&](uint32_t x, uint32_t before, uint32_t& later, int low, int high) {
    const int top = d.settings.top;
    later = pair_of(int(merged(m[low], low_half(x), low_half(before), low_half(later), top)),
                    int(merged(m[high], high_half(x), high_half(before), high_half(later), top)));
  };
#pragma unroll
  for (int j = 0; j < 2; j++) {
    const uint2 v = at(job_of(d).before.color[0], d.pitch[0], 2 * bx, 2 * row + j);
    merge(x.luma[j][0], v.x, to.luma[j][0], 0, 0);
    merge(x.luma[j][1], v.y, to.luma[j][1], 1, 1);
  }
#pragma unroll
  for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
    for (int j = 0; j < kY; j++) {
      if constexpr (kX == 2) {
        const uint2 v = at(job_of(d).before.color[1 + c], d.pitch[1 + c], 2 * bx, kY * row + j);
        merge(x.chroma[c][j][0], v.x, to.chroma[c][j][0], 0, 0);
        merge(x.chroma[c][j][1], v.y, to.chroma[c][j][1], 1, 1);
      } else {
        const uint32_t v = state_at<const uint32_t>(job_of(d).before.color[1 + c], d.pitch[1 + c],
                                                    bx, kY * row + j);
        merge(x.chroma[c][j][0], v, to.chroma[c][j][0], 0, 1);
      }
    }
}

// Writes the new state of a lane's two blocks. The second block may lie outside, in the padding.
template <int kX, int kY>
__device__ __forceinline__ void write_row(const Denoise& d, int bx, int row,
                                          const Blocks<kX, kY>& x, const Blocks<kX, kY>& t,
                                          int (&gain)[2]) {
  Blocks<kX, kY> out;
#pragma unroll
  for (int j = 0; j < 2; j++)
#pragma unroll
    for (int k = 0; k < 2; k++)
      out.luma[j][k] = blend_pair(x.luma[j][k], t.luma[j][k], gain[k], gain[k]);
#pragma unroll
  for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
    for (int j = 0; j < kY; j++)
#pragma unroll
      for (int k = 0; k < kX; k++)
        out.chroma[c][j][k] = blend_pair(x.chroma[c][j][k], t.chroma[c][j][k],
                                         gain[kX == 2 ? k : 0], gain[kX == 2 ? k : 1]);
  if (job_of(d).before.p) merge_row(d, bx, row, x, out, gain);
#pragma unroll
  for (int j = 0; j < 2; j++)
    state_at<uint2>(job_of(d).current.color[0], d.pitch[0], 2 * bx, 2 * row + j) =
        make_uint2(out.luma[j][0], out.luma[j][1]);
#pragma unroll
  for (int c = 0; c < Chroma<kX, kY>::colors; c++)
#pragma unroll
    for (int j = 0; j < kY; j++) {
      if constexpr (kX == 2)
        state_at<uint2>(job_of(d).current.color[1 + c], d.pitch[1 + c], 2 * bx, kY * row + j) =
            make_uint2(out.chroma[c][j][0], out.chroma[c][j][1]);
      else
        state_at<uint32_t>(job_of(d).current.color[1 + c], d.pitch[1 + c], bx, kY * row + j) =
            out.chroma[c][j][0];
    }
  state_at<uint32_t>(job_of(d).current.p, d.pitch_p, bx, row) =
      pair_of(pack_block(gain[0], level_of_block(out.luma_sum(0))),
              pack_block(gain[1], level_of_block(out.luma_sum(1))));
}

// Repeats the ends of the tile's rows, which its threads write. A thread takes a row of a plane.
template <int kX, int kY>
__device__ __forceinline__ void repeat_ends(const Denoise& d, int bx0, int by0) {
  constexpr int kLuma = 2 * kTileY, kChroma = Chroma<kX, kY>::colors * kY * kTileY;
  static_assert(kLuma + kChroma + kTileY <= kThreads);
  const bool first = bx0 == 0, last = bx0 + kTileX >= d.blocks_x;
  if (!first && !last) return;
  const DenoiseState& to = job_of(d).current;
  uint16_t* plane = to.color[0];
  int row = int(threadIdx.x), per_block = 2, pitch = d.pitch[0], width = d.width[0];
  if (row >= kLuma + kChroma) {
    row -= kLuma + kChroma;
    plane = to.p;
    per_block = 1;
    pitch = d.pitch_p;
    width = d.blocks_x;
    if (row >= kTileY) return;
  } else if (row >= kLuma) {
    row -= kLuma;
    plane = to.color[row < kChroma / 2 ? 1 : 2];
    if (row >= kChroma / 2) row -= kChroma / 2;
    per_block = kY;
    pitch = d.pitch[1];
    width = d.width[1];
  }
  row += per_block * by0;
  if (row >= per_block * d.blocks_y) return;
  plane += row * pitch;
  if (first) repeat_first(plane);
  if (last) repeat_last(plane, width);
}

// Returns the place in memory of the sum of a cell of luma, or null if the tile has no such cell.
__device__ __forceinline__ uint32_t* cell_at(const Denoise& d, int bx0, int by0, int cell) {
  const int x = bx0 / 4 + cell % (kTileX / 4), y = by0 / 4 + cell / (kTileX / 4);
  const int wide = d.blocks_x / 4, high = d.blocks_y / 4;
  return cell < kCells && x < wide && y < high ? job_of(d).cells + (y * wide + x) : nullptr;
}

// Returns the copy of the histograms in which the thread's block counts.
__device__ __forceinline__ Histograms& histograms_of(const Denoise& d) {
  return job_of(d).histograms[(blockIdx.x + blockIdx.y) % kHistograms];
}

// Counts the tile's cells in the histograms. A thread takes a cell of luma or cells of chroma.
// `before` is the sum of the thread's cell of luma in the frame before.
template <int kX, int kY>
__device__ __forceinline__ void count_cells(const Denoise& d, int bx0, int by0, uint32_t before,
                                            const Noise* noise,
                                            const uint32_t (&sums)[kSums<kX, kY>][kParts][kCells]) {
  constexpr int colors = 1 + Chroma<kX, kY>::colors;
  const auto sum_of = [&](int what, int cell) {
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < kParts; i++) sum += sums[what][i][cell];
    return sum;
  };
  Histograms& histograms = histograms_of(d);
  const auto add = [](uint32_t* n, uint32_t more) { atomicAdd(n, more); };
  const auto count = [&](int i, int c, int x_blocks, int y_blocks) {
    const int wide = x_blocks / 4, high = y_blocks / 4, n = kTileX / x_blocks;
    const int cx = i % n, cy = i / n;
    if (bx0 + (cx + 1) * x_blocks > d.blocks_x / x_blocks * x_blocks ||
        by0 + (cy + 1) * y_blocks > d.blocks_y / y_blocks * y_blocks)
      return;
    CellSums of = {};
    uint32_t light = 0, rough = 0;
    for (int v = 0; v < high; v++)
      for (int u = 0; u < wide; u++) {
        const int at = (cy * high + v) * (kTileX / 4) + cx * wide + u;
        of.sum += int(sum_of(3 * c, at));
        of.squares += sum_of(3 * c + 1, at);
        if (c == 0 || kX * kY > 1) of.squared_sums += sum_of(3 * c + 2, at);
        light += sum_of(3 * colors, at);
        rough += sum_of(3 * colors + 1, at);
        const uint32_t p = sum_of(3 * colors + 2, at);
        of.p += int(p % kBelow);
        of.below += p / kBelow;
      }
    const int parts = wide * high;
    if (c == 0) {
      const uint32_t samples = sum_of(3 * colors + 3, i);
      if (samples == before)
        for (uint32_t& n : histograms.repeated) add(&n, 1);
      else
        *cell_at(d, bx0, by0, i) = samples;
      of.has_bias = has_bias(int(cell_at(d, bx0, by0, i) - job_of(d).cells),
                             (d.blocks_x / 4) * (d.blocks_y / 4));
    }
    count_cell(&histograms, noise[c], c, level_of_cell(light, parts), of,
               cell_texture(rough, parts), c == 0 ? 4 : kX * kY, add);
  };
  static_assert(kCells <= kThreads);
  if (threadIdx.x < kCells) count(int(threadIdx.x), 0, 4, 4);
  if constexpr (colors == 3) {
    constexpr int x_blocks = 8 / kX, y_blocks = 8 / kY;
    constexpr int n = (kTileX / x_blocks) * (kTileY / y_blocks);
    // The threads that count no luma begin.
    for (int i = (threadIdx.x + kThreads / 2) % kThreads; i < 2 * n; i += kThreads)
      count(i % n, 1 + i / n, x_blocks, y_blocks);
  }
}

// Reads the state of what `in` holds of a frame, tests it for motion, and adds up the statistics of
// the tile's cells. Returns the gains of the lane's blocks.
template <bool kRgb, DenoiseFast kFast, int kBytes, int kX, int kY>
__device__ __forceinline__ void test_tile(const Denoise& d, int bx0, int by0, const Ring& ring,
                                          Input<kBytes, kX, kY>& in,
                                          uint32_t (&sums)[kSums<kX, kY>][kParts][kCells],
                                          Noise* noise, int (&gain)[kRows][2]) {
  constexpr int colors = 1 + Chroma<kX, kY>::colors;
  VF_SHARED_ALIGNED(16, float2[kTileY + 2][kTileX + 4], tests);
  VF_SHARED(float4[kLevels], factors);
  VF_SHARED(PackedTaps, taps);
  // The means of the last row of blocks of the warps that have the upper part of a cell.
  VF_SHARED(uint2[kDenoiseWarps / kParts][32], upper);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, part = warp % kParts;
  const int bx = bx0 + 2 * lane, by = by0 + kRows * warp;
  const auto &x = in.x, &t = in.t;
  const auto& p = in.p;
  wait_for_previous();
  // Few blocks run at once for RGB, so those of denoise_output may fill places that get free.
  if (kRgb) let_next_start();
  // Lanes behind the frame read its last pieces.
  const int piece_x = min(bx, (d.blocks_x - 1) & ~1), piece_y = min(by, (d.blocks_y - 1) & ~1);
  const DenoisePiece piece = piece_at(d, piece_x, piece_y);
  const DenoisePiece ring_piece = piece_at(d, ring.x, ring.y);
  // The tables are made while the pieces are on their way.
  if (threadIdx.x < colors * kLevels) {
    const int c = threadIdx.x / kLevels, level = threadIdx.x % kLevels;
    reinterpret_cast<float*>(&factors[level])[c] =
        motion_factor(d.model->noise[c], d.settings, c, level);
    if (c == 0) factors[level].w = mismatch_factor(d.model->noise[0], d.settings, level);
  } else if (threadIdx.x >= kThreads - kEighths) {
    const int eighths = int(threadIdx.x) - (kThreads - kEighths);
    taps[eighths] = packed(taps_of(eighths));
  }
  constexpr int kWords = colors * int(sizeof(Noise) / sizeof(uint32_t));
  const uint32_t word = threadIdx.x - kThreads / 2;  // other warps take these
  static_assert(kWords <= kThreads / 2);
  if (word < kWords)
    reinterpret_cast<uint32_t*>(noise)[word] =
        reinterpret_cast<const uint32_t*>(d.model->noise)[word];
  __syncthreads();
  const bool counts = job_of(d).histograms != nullptr;

  // Squares the sums of a block and multiplies them by w.
  const auto squares_of = [&](const Sums& s, float w, float(&square)[3]) {
#pragma unroll
    for (int c = 0; c < colors; c++) square[c] = (float(s.sum[c]) * float(s.sum[c])) * w;
  };
  const auto test = [&](const float(&square)[3], int level) {
    const float4 factor = factors[level];
    float2 v = make_float2(motion_of_luma(square[0], factor.x), 0);
    if (colors == 3) v.y = motion_of_chroma(square[1], factor.y, square[2], factor.z);
    return v;
  };
  if (ring.is_there) {
    Blocks<kX, kY> ring_t[1];
    uint32_t ring_p[1];
    read_moved(d, ring_piece, ring.x, ring.y, taps, ring_t, ring_p);
    end_ring<kFast>(d, bx, ring, in);
    float square[3];
    squares_of(differences(in.ring_x, ring_t[0], 0), remaining(p_of(ring_p[0])), square);
    tests[ring.row + 1][ring.column + 1] = test(square, luma_level(ring_p[0] & 0xffff));
  }
  const bool moves = (piece.more_p & ~kDenoiseRestless) != 0;
  read_moved(d, piece, piece_x, piece_y, taps, in.t, in.p);
  end_piece<kFast>(d, bx, by, in);
  // A block at the frame's edge also stands for the blocks beyond the edge, which have no test.
  const bool at_edge = bx0 + kTileX > d.blocks_x || by0 + kTileY > d.blocks_y;
  const auto keep_test = [&](int r, int k, const float2& v) {
    float2* to = &tests[kRows * warp + r + 1][2 * lane + k + 1];
    if (!at_edge) {
      *to = v;
      return;
    }
    const int right = d.blocks_x - 1 - (bx + k), below = d.blocks_y - 1 - (by + r);
    if (right < 0 || below < 0) return;
    const int columns = right == 0 && 2 * lane + k + 1 < kTileX ? 1 : 0;
    const int rows = below == 0 && kRows * warp + r + 1 < kTileY ? 1 : 0;
    for (int j = 0; j <= rows; j++)
      for (int i = 0; i <= columns; i++) to[j * (kTileX + 4) + i] = v;
  };
  const auto squares_between = [](const uint2& a, const uint2& b) {
    return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
  };
  uint32_t luma = 0, texture = 0, samples = 0;
  int sum[3] = {}, ps = 0;
  uint2 above = {}, first = {};
  uint32_t squares[3] = {}, squared_sums[3] = {};
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    uint2 now;
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const uint32_t block = k ? p[r] >> 16 : p[r] & 0xffff;
      const Sums s = differences(x[r], t[r], k);
      const float w = remaining(p_of(block));
      float square[3];
      squares_of(s, w, square);
      keep_test(r, k, test(square, luma_level(block)));
      if (!counts) continue;
      ps += p_of(block);
      if (x[r].luma[0][k] < t[r].luma[0][k]) ps += kBelow;
#pragma unroll
      for (int c = 0; c < colors; c++) {
        const uint32_t of_sum = normalised_square_bits(square[c]);
        sum[c] += s.sum[c];
        squared_sums[c] += of_sum;
        squares[c] += (c == 0 || kX * kY > 1)
                          ? normalised_square_bits(squares_of_halves(s.squares[c]) * w)
                          : of_sum;
      }
      const auto mean = uint32_t(block_luma(t[r].luma_sum(k)));
      (k ? now.y : now.x) = mean;
      luma += mean;
      samples += uint32_t(x[r].luma_sum(k));
    }
    if (!counts) continue;
    // Differences stay within a cell. A cell is four blocks wide, which two lanes hold.
    const uint32_t right = __shfl_down_sync(~0u, now.x, 1);
    texture += squares_between({now.x, lane & 1 ? now.y : right}, {now.y, now.y});
    if (r > 0) texture += squares_between(now, above);
    if (r == 0) first = now;
    above = now;
  }
  if (counts && part + 1 < kParts) upper[warp / kParts][lane] = above;
  // Two lanes together have the sums of a cell in the warp's rows.
  const auto across = [](uint32_t v) { return v + __shfl_xor_sync(~0u, v, 1); };
  const int cell = warp / kParts * (kTileX / 4) + lane / 2;
  const auto keep = [&](int what, uint32_t v) {
    v = across(v);
    if (!(lane & 1)) sums[what][part][cell] = v;
  };
  if (counts) {
#pragma unroll
    for (int c = 0; c < colors; c++) {
      keep(3 * c, uint32_t(sum[c]));
      keep(3 * c + 1, squares[c] - 2 * kRows * kRoundedZero);
      if (c == 0 || kX * kY > 1) keep(3 * c + 2, squared_sums[c] - 2 * kRows * kRoundedZero);
    }
    keep(3 * colors, luma);
    keep(3 * colors + 2, uint32_t(ps));
    keep(3 * colors + 3, samples);
    // The warps that have the upper part of cells count those that move, by their first lanes.
    const bool is_cell = part == 0 && lane % 2 == 0 && bx + 4 <= d.blocks_x && by + 4 <= d.blocks_y;
    const int moving = __popc(__ballot_sync(~0u, moves && is_cell));
    if (moving > 0 && lane < colors) atomicAdd(&histograms_of(d).moving[lane], uint32_t(moving));
  }

  __syncthreads();
  if (counts) {
    // The lower part of a cell also has the differences from the row above it.
    if (part > 0) texture += squares_between(first, upper[warp / kParts][lane]);
    keep(3 * colors + 1, texture);
  }
  const auto row_sums = [&](int row, float2* left, float2* right) {
    const float4* v = reinterpret_cast<const float4*>(&tests[row][2 * lane]);
    const float4 a = v[0], b = v[1];
    const float2 middle = make_float2(a.z + b.x, a.w + b.y);
    *left = make_float2(a.x + middle.x, a.y + middle.y);
    *right = make_float2(middle.x + b.z, middle.y + b.w);
  };
  const Contrast contrast = contrast_of(noise[0], moves);
  float2 s[3][2];
  row_sums(kRows * warp, &s[0][0], &s[0][1]);
  row_sums(kRows * warp + 1, &s[1][0], &s[1][1]);
#pragma unroll
  for (int r = 0; r < kRows; r++) {
    row_sums(kRows * warp + r + 2, &s[(r + 2) % 3][0], &s[(r + 2) % 3][1]);
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const uint32_t block = k ? p[r] >> 16 : p[r] & 0xffff;
      // The upper bytes of the samples are their codes.
      const uint32_t upper = t[r].luma[0][k], lower = t[r].luma[1][k];
      const uint32_t z =
          __vabsdiffu4(__byte_perm(upper, lower, 0x7531), __byte_perm(upper, lower, 0x1357));
      const float squares = float_of_bits(__dp4a(z, z, 0x4b000000u)) - 8388608.0f;
      const float mismatch = mismatch_of(squares, factors[luma_level(block)].w, contrast);
      gain[r][k] =
          gain_of(s[0][k].x + s[1][k].x + s[2][k].x, s[0][k].y + s[1][k].y + s[2][k].y, p_of(block),
                  mismatch, (piece.more_p & kDenoiseRestless) != 0, d.settings.least_gain);
    }
  }
}

template <int kBytes, int kX, int kY, bool kRgb, DenoiseFast kFast>
__global__ __launch_bounds__(kThreads,
                             kX* kY < 2 ? 4 : 2) void update(const __grid_constant__ Denoise d) {
  constexpr int kinds = kSums<kX, kY>;
  VF_SHARED(uint32_t[kinds][kParts][kCells], sums);
  constexpr int colors = 1 + Chroma<kX, kY>::colors;
  VF_SHARED(Noise[colors], noise);
  const int bx0 = blockIdx.x * kTileX, by0 = blockIdx.y * kTileY;
  const int bx = bx0 + 2 * int(threadIdx.x & 31), by = by0 + kRows * int(threadIdx.x >> 5);
  const Ring ring = ring_of(d, bx0, by0);

  // The loads of the frame are on their way before the state is compensated, and those of the state
  // before the first result is used. A launch without a previous state may be the first one of a
  // frame, so it waits at once.
  const bool is_first = job_of(d).previous.p == nullptr;
  if (is_first) wait_for_previous();
  Input<kBytes, kX, kY> in;
  begin_frame<kRgb, kFast>(d, bx, by, ring, in);
  const bool counts = job_of(d).histograms != nullptr;
  uint32_t before = 0;
  if (counts) {
    const uint32_t* cell = cell_at(d, bx0, by0, int(threadIdx.x));
    if (cell) before = *cell;
  }
  int gain[kRows][2];
  if (is_first) {
    end_piece<kFast>(d, bx, by, in);
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      in.t[r] = in.x[r];
      gain[r][0] = gain[r][1] = kOne;
    }
  } else {
    test_tile<kRgb, kFast>(d, bx0, by0, ring, in, sums, noise, gain);
  }
#pragma unroll
  for (int r = 0; r < kRows; r++)
    if (bx < d.blocks_x && by + r < d.blocks_y) write_row(d, bx, by + r, in.x[r], in.t[r], gain[r]);

  // Blocks of denoise_output that start earlier would crowd on the multiprocessors that are done
  // first. With 16 bits they have fewer registers, and crowd even then.
  if (!kRgb && kBytes == 1) let_next_start();
  __syncthreads();
  if (counts) count_cells<kX, kY>(d, bx0, by0, before, noise, sums);
  repeat_ends<kX, kY>(d, bx0, by0);
}

template <int kX, int kY, bool kRgb = false, DenoiseFast kFast = DenoiseFast::no>
DenoiseKernel update_of(int bytes) {
  return bytes == 2 ? update<2, kX, kY, kRgb, kFast> : update<1, kX, kY, kRgb, kFast>;
}

}  // namespace

DenoiseKernel denoise_update(int bytes, int chroma_x, int chroma_y, bool rgb, DenoiseFast fast) {
  if (rgb) return update_of<2, 2, true>(bytes);
  if (fast == DenoiseFast::pairs) return update_of<1, 1, false, DenoiseFast::pairs>(bytes);
  if (fast == DenoiseFast::planes) return update_of<1, 1, false, DenoiseFast::planes>(bytes);
  if (chroma_x == 0) return update_of<0, 0>(bytes);
  if (chroma_x == 1) return chroma_y == 1 ? update_of<1, 1>(bytes) : update_of<1, 2>(bytes);
  return chroma_y == 1 ? update_of<2, 1>(bytes) : update_of<2, 2>(bytes);
}

}  // namespace vf::cuda
