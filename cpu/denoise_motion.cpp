// Compensates the denoiser's state for motion and light on the CPU, before the first pass.
//
// A task is a row of tiles. The differences of the frame's blocks from the state's are summed for
// each patch. The sums and the field of vectors decide how the patch changes. If one patch of a row
// changes, the state of the whole row of patches is copied to `moved`, compensated. Neighbouring
// pieces with the same vector are interpolated together.
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/denoise_motion.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu/arena.h"
#include "cpu/denoise.h"
#include "cpu/denoise_load-inl.h"
#include "cpu/edges.h"
#include "cpu/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using namespace vf::denoise;

void means_of(const uint16_t* VF_RESTRICT rows, int pitch, int n, int32_t* VF_RESTRICT out) {
  for (int i = 0; i < n; i++)
    out[i] =
        eighth_code(rows[2 * i] + rows[2 * i + 1] + rows[pitch + 2 * i] + rows[pitch + 2 * i + 1]);
}

// Sums over rows, by column of blocks: differences, their squares, and the squares that noise
// makes.
struct ColumnSums {
  int32_t *d, *dd, *expected;
};

// Sums over the blocks of a patch, or of the patches of a tile that do not move.
struct LightSums {
  int d = 0, dd = 0, expected = 0, blocks = 0;
  void add(const LightSums& s) {
    d += s.d;
    dd += s.dd;
    expected += s.expected;
    blocks += s.blocks;
  }
};

void add_row(const int32_t* VF_RESTRICT x, const int32_t* VF_RESTRICT t,
             const uint16_t* VF_RESTRICT p, const float* VF_RESTRICT factor, int n, bool first,
             const ColumnSums& sums) {
  int32_t *VF_RESTRICT ds = sums.d, *VF_RESTRICT dds = sums.dd, *VF_RESTRICT es = sums.expected;
  for (int i = 0; i < n; i++) {
    const int d = x[i] - t[i];
    const int e = expected_square(factor[i], p_of(p[i]));
    ds[i] = (first ? 0 : ds[i]) + d;
    dds[i] = (first ? 0 : dds[i]) + d * d;
    es[i] = (first ? 0 : es[i]) + e;
  }
}

// Decides on patch (i, j), except for its light.
PatchMotion decide(const DenoiseFrame& f, int i, int j, int expected, int blocks) {
  const auto row = [&](int y) { return f.field + size_t(y) * f.patches_x; };
  const MotionVector& own = row(j)[i];
  Won all;
  // A vector that wins nothing is not used, whatever its neighbours do.
  if (own.residual >= own.residual_zero) return motion_of(own, all, expected, blocks);
  for (int y = std::max(j - 1, 0); y <= std::min(j + 1, f.patches_y - 1); y++)
    for (int x = std::max(i - 1, 0); x <= std::min(i + 1, f.patches_x - 1); x++)
      add_patch(own, row(y)[x], &all);
  return motion_of(own, all, expected, blocks);
}

// Pieces side by side that change alike.
struct Run {
  int first, end;  // blocks
  PieceVector v;
  int brighter, more_p;  // more_p is 0 where nothing moves
  bool is_like(const Run& r) const {
    return v.x == r.v.x && v.y == r.v.y && brighter == r.brighter && more_p == r.more_p;
  }
};

// Columns of samples that are interpolated at once. Reads are rounded up to them.
constexpr int kWide = 16;

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Vectors have one lane here. The loops are plain, and the compiler may vectorise them for the
// baseline.
struct Interpolation {
  Taps taps[kEighths];
  int top;
  explicit Interpolation(int most) : top(most) {
    for (int i = 0; i < kEighths; i++) taps[i] = taps_of(i);
  }

  static bool takes_pieces(int, int) { return false; }
  void pieces(const uint16_t*, ptrdiff_t, int, int, int, int, uint16_t*, ptrdiff_t) const {}

  void rows(const uint16_t* VF_RESTRICT in, ptrdiff_t pitch, int n, int rows, int ex, int ey,
            uint16_t* VF_RESTRICT between, uint16_t* VF_RESTRICT out, ptrdiff_t out_pitch) const {
    const Taps &tx = taps[ex], &ty = taps[ey];
    for (int r = 0; r < rows + 3; r++) {
      const uint16_t* from = in + r * pitch;
      for (int i = 0; i < n; i++)
        between[r * n + i] =
            uint16_t(interpolate(tx, from[i], from[i + 1], from[i + 2], from[i + 3], top));
    }
    for (int r = 0; r < rows; r++) {
      const uint16_t* from = between + r * n;
      for (int i = 0; i < n; i++)
        out[r * out_pitch + i] =
            uint16_t(interpolate(ty, from[i], from[i + n], from[i + 2 * n], from[i + 3 * n], top));
    }
  }
};

#else

using D16 = hn::CappedTag<int16_t, kWide>;
using V16 = hn::Vec<D16>;
using D32 = hn::RepartitionToWide<D16>;
using V32 = hn::Vec<D32>;
// Vectors for pieces, which are small.
using P16 = hn::CappedTag<int16_t, 8>;
using Piece = hn::Vec<P16>;
using P32 = hn::RepartitionToWide<P16>;
using Piece32 = hn::Vec<P32>;

// These list the samples that products of pairs take, in their order. The left and the right pairs
// make four results of a row. The left pairs are also both pairs of two results, and kDownHalves has
// the pairs of two results of columns.
#define VF_AT(i) 2 * (i), 2 * (i) + 1
#define VF_ORDER(a, b, c, d, e, f, g, h) \
  { VF_AT(a), VF_AT(b), VF_AT(c), VF_AT(d), VF_AT(e), VF_AT(f), VF_AT(g), VF_AT(h) }
alignas(16) constexpr uint8_t kLeftPairs[16] = VF_ORDER(0, 1, 1, 2, 2, 3, 3, 4);
alignas(16) constexpr uint8_t kRightPairs[16] = VF_ORDER(2, 3, 3, 4, 4, 5, 5, 6);
alignas(16) constexpr uint8_t kDownHalves[16] = VF_ORDER(0, 2, 1, 3, 4, 6, 5, 7);
#undef VF_ORDER
#undef VF_AT

// Samples become signed 16-bit numbers, less 32768, so that two products of them and of weights are
// summed by one instruction. The weights add up to 64, so the sums are exact. A sum of four
// products is narrowed with saturation, which limits it to 0 from below.
class Interpolation {
 public:
  explicit Interpolation(int most) : top_(int16_t(most - 32768)) {
    for (int i = 0; i < kEighths; i++) {
      const Taps t = taps_of(i);
      weights_[i][0] = weights_[i][1] = pair(t.w[0], t.w[1]);
      weights_[i][2] = weights_[i][3] = pair(t.w[2], t.w[3]);
    }
  }

  // Whether pieces() is faster than rows().
  static bool takes_pieces(int n, int rows) {
    return rows == 4 ? n == 4 || n == 8 : rows == 2 && (n == 2 || n == 4);
  }

  // Interpolates pieces of rows x rows samples side by side. Reads n + 8 - rows columns.
  void pieces(const uint16_t* in, ptrdiff_t pitch, int n, int rows, int ex, int ey, uint16_t* out,
              ptrdiff_t out_pitch) const {
    for (int i = 0; i < n; i += rows)
      if (rows == 4)
        piece4(in + i, pitch, weights_[ex], weights_[ey], out + i, out_pitch);
      else
        piece2(in + i, pitch, weights_[ex], weights_[ey], out + i, out_pitch);
  }

  // Interpolates `rows` rows of n samples, of which `in` has three rows more, and three columns
  // more than n rounded up to kWide. `between` has room for rows + 3 rows of n samples, rounded up.
  void rows(const uint16_t* in, ptrdiff_t pitch, int n, int rows, int ex, int ey, uint16_t* between,
            uint16_t* out, ptrdiff_t out_pitch) const {
    const D16 d16;
    const int lanes = int(hn::MaxLanes(d16)), wide = (n + kWide - 1) / kWide * kWide;
    const V16 flip = hn::Set(d16, -32768);
    const auto load = [&](const uint16_t* at)
                          HWY_ATTR { return hn::LoadU(d16, reinterpret_cast<const int16_t*>(at)); };
    const auto store = [&](V16 v, uint16_t* at)
                           HWY_ATTR { hn::StoreU(v, d16, reinterpret_cast<int16_t*>(at)); };
    const auto sample = [&](const uint16_t* at) HWY_ATTR { return hn::Xor(load(at), flip); };
    for (int r = 0; r < rows + 3; r++)
      for (int i = 0; i < n; i += lanes) {
        const uint16_t* at = in + r * pitch + i;
        store(four(sample(at), sample(at + 1), sample(at + 2), sample(at + 3), weights_[ex]),
              between + r * wide + i);
      }
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < n; i += lanes) {
        const uint16_t* at = between + r * wide + i;
        uint16_t* to = out + r * out_pitch + i;
        const V16 v = hn::Xor(flip, four(load(at), load(at + wide), load(at + 2 * wide),
                                         load(at + 3 * wide), weights_[ey]));
        if (i + lanes <= n) {
          store(v, to);
        } else {
          uint16_t last[kWide];
          store(v, last);
          std::memcpy(to, last, size_t(n - i) * sizeof *to);
        }
      }
  }

 private:
  static int32_t pair(int first, int second) {
    return int32_t(uint32_t(second) << 16 | (uint32_t(first) & 0xffff));
  }
  static HWY_INLINE Piece32 round() { return hn::Set(P32(), kTapOne / 2); }
  static HWY_INLINE Piece32 shift(Piece32 sum) { return hn::ShiftRight<6>(sum); }
  HWY_INLINE Piece narrow(Piece32 a, Piece32 b) const {
    return hn::Min(hn::ReorderDemote2To(P16(), a, b), hn::Set(P16(), top_));
  }

  HWY_INLINE V16 four(V16 a, V16 b, V16 c, V16 d, const int32_t* weights) const {
    const D16 d16;
    const V16 first = hn::BitCast(d16, hn::Set(D32(), weights[0]));
    const V16 second = hn::BitCast(d16, hn::Set(D32(), weights[2]));
    const V32 half = hn::Set(D32(), kTapOne / 2);
    const V32 lower = MulPairs(hn::InterleaveLower(d16, a, b), first,
                               MulPairs(hn::InterleaveLower(d16, c, d), second, half));
    const V32 upper = MulPairs(hn::InterleaveUpper(d16, a, b), first,
                               MulPairs(hn::InterleaveUpper(d16, c, d), second, half));
    return hn::Min(hn::ReorderDemote2To(d16, hn::ShiftRight<6>(lower), hn::ShiftRight<6>(upper)),
                   hn::Set(d16, top_));
  }

  static HWY_INLINE Piece row_at(const uint16_t* at) {
    const P16 d16;
    return hn::Xor(hn::LoadU(d16, reinterpret_cast<const int16_t*>(at)), hn::Set(d16, -32768));
  }
  static HWY_INLINE Piece order(Piece v, const uint8_t* bytes) {
    const P16 d16;
    return hn::TableLookupBytes(v,
                                hn::BitCast(d16, hn::Load(hn::Repartition<uint8_t, P16>(), bytes)));
  }

  HWY_INLINE void piece4(const uint16_t* in, ptrdiff_t pitch, const int32_t* wx, const int32_t* wy,
                         uint16_t* out, ptrdiff_t out_pitch) const {
    const P16 d16;
    const Piece x0 = hn::BitCast(d16, hn::Set(P32(), wx[0]));
    const Piece x1 = hn::BitCast(d16, hn::Set(P32(), wx[2]));
    const Piece y0 = hn::BitCast(d16, hn::Set(P32(), wy[0]));
    const Piece y1 = hn::BitCast(d16, hn::Set(P32(), wy[2]));
    const auto across = [&](int r) HWY_ATTR {
      const Piece row = row_at(in + r * pitch);
      return shift(
          MulPairs(order(row, kLeftPairs), x0, MulPairs(order(row, kRightPairs), x1, round())));
    };
    // The even vectors hold rows 0 and 1, 2 and 3 ..., and the odd ones rows 1 and 2, 3 and 4 ...
    const Piece even0 = narrow(across(0), across(1)), even1 = narrow(across(2), across(3));
    const Piece even2 = narrow(across(4), across(5));
    const Piece32 last = across(6);
    const Piece even3 = narrow(last, last);
    const Piece odd0 = hn::CombineShiftRightBytes<8>(d16, even1, even0);
    const Piece odd1 = hn::CombineShiftRightBytes<8>(d16, even2, even1);
    const Piece odd2 = hn::CombineShiftRightBytes<8>(d16, even3, even2);
    const Piece pair2 = hn::InterleaveLower(d16, even1, odd1);
    const Piece pair3 = hn::InterleaveUpper(d16, even1, odd1);
    const auto down = [&](Piece upper, Piece lower) HWY_ATTR {
      return shift(MulPairs(upper, y0, MulPairs(lower, y1, round())));
    };
    const auto store = [&](Piece v, uint16_t* at) HWY_ATTR {
      const hn::Half<P16> half;
      const Piece samples = hn::Xor(v, hn::Set(d16, -32768));
      hn::StoreU(hn::LowerHalf(half, samples), half, reinterpret_cast<int16_t*>(at));
      hn::StoreU(hn::UpperHalf(half, samples), half, reinterpret_cast<int16_t*>(at + out_pitch));
    };
    store(narrow(down(hn::InterleaveLower(d16, even0, odd0), pair2),
                 down(hn::InterleaveUpper(d16, even0, odd0), pair3)),
          out);
    store(narrow(down(pair2, hn::InterleaveLower(d16, even2, odd2)),
                 down(pair3, hn::InterleaveUpper(d16, even2, odd2))),
          out + 2 * out_pitch);
  }

  HWY_INLINE void piece2(const uint16_t* in, ptrdiff_t pitch, const int32_t* wx, const int32_t* wy,
                         uint16_t* out, ptrdiff_t out_pitch) const {
    const P16 d16;
    const P32 d32;
    const Piece x = hn::BitCast(d16, hn::Load(d32, wx)), y = hn::BitCast(d16, hn::Load(d32, wy));
    // Adds the halves of two results of two rows or columns each.
    const auto add = [&](Piece32 a, Piece32 b) HWY_ATTR {
      return shift(hn::Add(hn::Add(hn::ConcatLowerLower(d32, b, a), round()),
                           hn::ConcatUpperUpper(d32, b, a)));
    };
    const auto across = [&](int r) HWY_ATTR {
      return MulPairs(order(row_at(in + r * pitch), kLeftPairs), x, hn::Zero(d32));
    };
    const Piece32 last = across(4);
    const Piece rows = narrow(add(across(0), across(1)), add(across(2), across(3)));
    const Piece32 below = add(last, last);
    const Piece next = hn::CombineShiftRightBytes<4>(d16, narrow(below, below), rows);
    const auto down = [&](Piece v)
                          HWY_ATTR { return MulPairs(order(v, kDownHalves), y, hn::Zero(d32)); };
    const Piece32 sums = add(down(rows), down(next));
    const Piece v = hn::Xor(narrow(sums, sums), hn::Set(d16, -32768));
    const uint64_t samples = hn::GetLane(hn::BitCast(hn::Repartition<uint64_t, P16>(), v));
    const auto upper = uint32_t(samples), lower = uint32_t(samples >> 32);
    std::memcpy(out, &upper, sizeof upper);
    std::memcpy(out + out_pitch, &lower, sizeof lower);
  }

  int16_t top_;
  alignas(16) int32_t weights_[kEighths][4];  // pairs of 16-bit numbers
};

#endif

// Holds what a task needs to move its samples. `memory` has room for kMoveRows rows twice.
constexpr int kMoveRows = 2 * kPiece + 3;
struct Mover {
  const DenoiseFrame& f;
  const Interpolation interpolation;
  uint16_t* memory;
};
// Samples that a row of its memory has for a row of n.
constexpr size_t moved_row(int n) {
  return size_t(n) + 2 * kWide + 3;
}

// Interpolates rows [y0, y0 + rows) and columns [x0, x0 + n) of a component at their moved places.
void move_samples(const Mover& m, int c, int x0, int y0, int n, int rows, const PieceVector& v) {
  const DenoiseFrame& f = m.f;
  const int w = f.width[c], h = f.height[c];
  const int ex = eighths_of(v.x, f.task.per_block_x[c]);
  const int ey = eighths_of(v.y, f.task.per_block_y[c]);
  const int first_x = x0 + (ex >> 3) - 1, first_y = y0 + (ey >> 3) - 1;
  const bool pieces = Interpolation::takes_pieces(n, rows);
  const int columns = pieces ? n + 8 - rows : (n + kWide - 1) / kWide * kWide + 3;
  uint16_t* memory = m.memory;
  const uint16_t* in = memory;
  ptrdiff_t pitch = columns;
  if (first_x < 0 || first_x + columns > w || first_y < 0 || first_y + rows + 3 > h) {
    copy_edges(f.previous.color[c], w, h, first_x, first_y, columns, rows + 3, memory, columns);
    memory += moved_row(f.width[0]) * kMoveRows;
  } else {
    in = f.previous.color[c] + ptrdiff_t(first_y) * w + first_x;
    pitch = w;
  }
  uint16_t* out = f.moved.color[c] + size_t(y0) * w + x0;
  if (pieces)
    m.interpolation.pieces(in, pitch, n, rows, ex & 7, ey & 7, out, w);
  else
    m.interpolation.rows(in, pitch, n, rows, ex & 7, ey & 7, memory, out, w);
}

// Copies samples without moving them, and adds `brighter` to luma.
void copy_samples(const DenoiseFrame& f, int c, int x0, int y0, int n, int rows, int brighter) {
  for (int y = y0; y < y0 + rows; y++) {
    const size_t at = size_t(y) * f.width[c] + x0;
    const uint16_t* VF_RESTRICT from = f.previous.color[c] + at;
    uint16_t* VF_RESTRICT to = f.moved.color[c] + at;
    if (c == 0 && brighter)
      for (int i = 0; i < n; i++) to[i] = uint16_t(brightened(from[i], brighter, f.settings.top));
    else
      std::memcpy(to, from, n * sizeof(uint16_t));
  }
}

void move_blocks(const uint16_t* VF_RESTRICT from, int n, int more_p, uint16_t* VF_RESTRICT to) {
  // Most runs are one piece, which is too short to be worth a vector.
  if (n == kPiece)
    for (int i = 0; i < kPiece; i++) to[i] = moved_block(from[i], more_p);
  else
    for (int i = 0; i < n; i++) to[i] = moved_block(from[i], more_p);
}

// Compensates a run of rows [b0, b1) of blocks.
void move_run(const Mover& m, int b0, int b1, const Run& run) {
  const DenoiseFrame& f = m.f;
  const DenoiseTask& t = f.task;
  const bool moves = run.more_p > 0;
  for (int c = 0; c < t.from.colors; c++) {
    const int x0 = run.first * t.per_block_x[c], y0 = b0 * t.per_block_y[c];
    const int wide = (run.end - run.first) * t.per_block_x[c];
    const int high = (b1 - b0) * t.per_block_y[c];
    if (moves)
      move_samples(m, c, x0, y0, wide, high, run.v);
    else
      copy_samples(f, c, x0, y0, wide, high, run.brighter);
  }
  const int n = t.blocks_x, dx = blocks_of_vector(run.v.x), dy = blocks_of_vector(run.v.y);
  for (int b = b0; b < b1; b++) {
    const uint16_t* from = f.previous.p + size_t(std::clamp(b + dy, 0, t.blocks_y - 1)) * n;
    uint16_t* to = f.moved.p + size_t(b) * n;
    if (moves && run.first + dx >= 0 && run.end + dx <= n)
      move_blocks(from + run.first + dx, run.end - run.first, run.more_p, to + run.first);
    else if (moves)
      for (int i = run.first; i < run.end; i++)
        to[i] = moved_block(from[std::clamp(i + dx, 0, n - 1)], run.more_p);
    else
      std::copy(from + run.first, from + run.end, to + run.first);
  }
}

// Compensates a row of pieces, whose number is j.
void move_row(const Mover& mover, int j) {
  const DenoiseFrame& f = mover.f;
  const int n = f.task.blocks_x, b0 = j * kPiece, b1 = std::min(b0 + kPiece, f.task.blocks_y);
  const int y = j / 2, last = f.patches_x - 1;
  const PatchMotion* motions = f.motions + size_t(y) * f.patches_x;
  const MotionVector* own = f.field + size_t(y) * f.patches_x;
  const MotionVector* other =
      f.field + size_t(std::clamp(j % 2 ? y + 1 : y - 1, 0, f.patches_y - 1)) * f.patches_x;
  Run run = {};
  for (int i = 0; i * kPiece < n; i++) {
    const int x = i / 2, beside = i % 2 ? std::min(x + 1, last) : std::max(x - 1, 0);
    const PatchMotion& m = motions[x];
    Run piece = {i * kPiece, std::min((i + 1) * kPiece, n), {0, 0}, m.brighter, m.more_p};
    if (moves(m)) piece.v = piece_vector(own[x], own[beside], other[x], other[beside]);
    if (i > 0 && run.is_like(piece)) {
      run.end = piece.end;
      continue;
    }
    if (i > 0) move_run(mover, b0, b1, run);
    run = piece;
  }
  move_run(mover, b0, b1, run);
}

size_t compensate(const DenoiseFrame& f, int row, char* memory) {
  const DenoiseTask& t = f.task;
  const int n = t.blocks_x;
  Arena arena(memory);
  uint16_t* x[3] = {};
  for (int c = 0; c < t.from.colors; c++)
    x[c] = arena.take<uint16_t>(size_t(f.width[c]) * t.per_block_y[c]);
  auto* of_x = arena.take<int32_t>(n);
  auto* of_t = arena.take<int32_t>(n);
  auto* factors = arena.take<float>(n);
  const ColumnSums columns = {arena.take<int32_t>(n), arena.take<int32_t>(n),
                              arena.take<int32_t>(n)};
  auto* light = arena.take<LightSums>(f.tiles_x);
  auto* samples = arena.take<uint16_t>(2 * moved_row(f.width[0]) * kMoveRows);
  if (!memory) return arena.used();

  constexpr int kPatches = kTile / kPatch;
  const int j0 = row * kPatches, j1 = std::min(j0 + kPatches, f.patches_y);
  std::fill_n(light, f.tiles_x, LightSums());
  for (int j = j0; j < j1; j++) {
    const int b0 = j * kPatch, b1 = std::min(b0 + kPatch, t.blocks_y);
    for (int b = b0; b < b1; b++) {
      load_blocks(f, b, t.from.rgb ? 3 : 1, x);
      means_of(x[0], f.width[0], n, of_x);
      means_of(f.previous.color[0] + size_t(b) * 2 * f.width[0], f.width[0], n, of_t);
      const uint16_t* p = f.previous.p + size_t(b) * n;
      look_up(f.expected, p, n, factors);
      add_row(of_x, of_t, p, factors, n, b == b0, columns);
    }
    PatchMotion* motions = f.motions + size_t(j) * f.patches_x;
    f.changes[j] = false;
    for (int i = 0; i < f.patches_x; i++) {
      const int i0 = i * kPatch, i1 = std::min(i0 + kPatch, n);
      LightSums s;
      s.blocks = (i1 - i0) * (b1 - b0);
      for (int k = i0; k < i1; k++) {
        s.d += columns.d[k];
        s.dd += columns.dd[k];
        s.expected += columns.expected[k];
      }
      motions[i] = decide(f, i, j, s.expected, s.blocks);
      if (moves(motions[i]))
        f.changes[j] = true;
      else
        light[i / kPatches].add(s);
    }
  }
  for (int k = 0; k < f.tiles_x; k++) {
    const LightSums& s = light[k];
    const int brighter =
        s.blocks > 0 ? brighter_of(s.d, s.expected, int64_t(s.dd) * 16 - s.expected, s.blocks) : 0;
    for (int j = j0; brighter && j < j1; j++)
      for (int i = k * kPatches; i < std::min((k + 1) * kPatches, f.patches_x); i++) {
        PatchMotion& m = f.motions[size_t(j) * f.patches_x + i];
        if (moves(m)) continue;
        m.brighter = int16_t(brighter);
        f.changes[j] = true;
      }
  }
  const Mover mover = {f, Interpolation(f.settings.top), samples};
  for (int j = j0; j < j1; j++)
    for (int k = 2 * j; f.changes[j] && k < 2 * (j + 1) && k * kPiece < t.blocks_y; k++)
      move_row(mover, k);
  return arena.used();
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(compensate);

void denoise_compensate(const DenoiseFrame& f, int row, int thread) {
  HWY_DYNAMIC_DISPATCH(compensate)(f, row, memory_of(f, thread));
}
size_t denoise_compensate_scratch(const DenoiseFrame& f) {
  return HWY_DYNAMIC_DISPATCH(compensate)(f, 0, nullptr);
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
