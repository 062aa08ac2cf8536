// Compensates the denoiser's state for motion and light on the CPU, before the first pass.
//
// A task is a row of tiles. The differences of the frame's blocks from the state's are summed for
// each patch. The sums and the field of vectors decide how the patch changes. If one patch of a row
// changes, the state of the whole row of patches is copied to `moved`, compensated. Neighbouring
// pieces with the same vector are interpolated together.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/denoise_motion.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu/arena.h"
#include "cpu/denoise.h"
#include "cpu/denoise_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

using namespace vf::denoise;

void means_of(const uint16_t* VF_RESTRICT rows, int pitch, int n, int32_t* VF_RESTRICT out) {
  for (int i = 0; i < n; i++)
    out[i] =
        eighth_code(rows[2 * i] + rows[2 * i + 1] + rows[pitch + 2 * i] + rows[pitch + 2 * i + 1]);
}

// Sums over rows, by column of blocks: differences, their squares, and the squares that noise makes.
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

void add_row(const DenoiseFrame& f, const int32_t* VF_RESTRICT x, const int32_t* VF_RESTRICT t,
             const uint16_t* VF_RESTRICT p, bool first, const ColumnSums& sums) {
  int32_t *VF_RESTRICT ds = sums.d, *VF_RESTRICT dds = sums.dd, *VF_RESTRICT es = sums.expected;
  const float* factors = f.expected;
  for (int i = 0; i < f.task.blocks_x; i++) {
    const int d = x[i] - t[i];
    const int e = expected_square(factors[luma_level(p[i])], p_of(p[i]));
    ds[i] = (first ? 0 : ds[i]) + d;
    dds[i] = (first ? 0 : dds[i]) + d * d;
    es[i] = (first ? 0 : es[i]) + e;
  }
}

const MotionVector& field_at(const DenoiseFrame& f, int i, int j) {
  return f.field[size_t(std::clamp(j, 0, f.patches_y - 1)) * f.patches_x +
                 std::clamp(i, 0, f.patches_x - 1)];
}

// Decides on patch (i, j), except for its light.
PatchMotion decide(const DenoiseFrame& f, int i, int j, int expected, int blocks) {
  const MotionVector& own = field_at(f, i, j);
  Won all;
  for (int y = std::max(j - 1, 0); y <= std::min(j + 1, f.patches_y - 1); y++)
    for (int x = std::max(i - 1, 0); x <= std::min(i + 1, f.patches_x - 1); x++)
      add_patch(own, field_at(f, x, y), &all);
  return motion_of(own, all, expected, blocks);
}

// Returns the vector of piece (i, j), which lies in a patch that moves.
PieceVector vector_at(const DenoiseFrame& f, int i, int j) {
  const int x = i / 2, y = j / 2, dx = i % 2 ? 1 : -1, dy = j % 2 ? 1 : -1;
  return piece_vector(field_at(f, x, y), field_at(f, x + dx, y), field_at(f, x, y + dy),
                      field_at(f, x + dx, y + dy));
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

// Interpolates `rows` rows of n samples, of which `in` has three columns and three rows more, into
// `out`. `between` has room for rows + 3 rows of n samples. With kN, n is known to the compiler, which
// then keeps short rows in registers.
template <int kN>
inline void interpolate_rows(const uint16_t* VF_RESTRICT in, ptrdiff_t pitch, int n, int rows,
                             const Taps& tx, const Taps& ty, int top, uint16_t* VF_RESTRICT between,
                             uint16_t* VF_RESTRICT out, ptrdiff_t out_pitch) {
  if (kN > 0) n = kN;
  for (int r = 0; r < rows + 3; r++) {
    const uint16_t* VF_RESTRICT from = in + r * pitch;
    uint16_t* VF_RESTRICT to = between + r * n;
    for (int i = 0; i < n; i++)
      to[i] = uint16_t(interpolate(tx, from[i], from[i + 1], from[i + 2], from[i + 3], top));
  }
  for (int r = 0; r < rows; r++) {
    const uint16_t* VF_RESTRICT from = between + r * n;
    uint16_t* VF_RESTRICT to = out + r * out_pitch;
    for (int i = 0; i < n; i++)
      to[i] =
          uint16_t(interpolate(ty, from[i], from[i + n], from[i + 2 * n], from[i + 3 * n], top));
  }
}

// Interpolates rows [y0, y0 + rows) and columns [x0, x0 + n) of a component at their moved places.
// `memory` has room for 2 (rows + 3) rows of n + 3 samples.
void move_samples(const DenoiseFrame& f, int c, int x0, int y0, int n, int rows,
                  const PieceVector& v, uint16_t* memory) {
  const int w = f.width[c], h = f.height[c];
  const int ex = eighths_of(v.x, f.task.per_block_x[c]);
  const int ey = eighths_of(v.y, f.task.per_block_y[c]);
  const Taps tx = taps_of(ex), ty = taps_of(ey);
  const int first_x = x0 + (ex >> 3) - 1, first_y = y0 + (ey >> 3) - 1;
  const uint16_t* in = f.was.color[c] + ptrdiff_t(first_y) * w + first_x;
  ptrdiff_t pitch = w;
  if (first_x < 0 || first_x + n + 3 > w || first_y < 0 || first_y + rows + 3 > h) {
    pitch = n + 3;
    for (int r = 0; r < rows + 3; r++) {
      const uint16_t* row = f.was.color[c] + size_t(std::clamp(first_y + r, 0, h - 1)) * w;
      for (int i = 0; i < n + 3; i++)
        memory[r * pitch + i] = row[std::clamp(first_x + i, 0, w - 1)];
    }
    in = memory;
    memory += (rows + 3) * pitch;
  }
  uint16_t* out = f.moved.color[c] + size_t(y0) * w + x0;
  const auto with = [&](auto interpolation) {
    interpolation(in, pitch, n, rows, tx, ty, f.settings.top, memory, out, w);
  };
  if (n == 4)
    with(interpolate_rows<4>);
  else if (n == 8)
    with(interpolate_rows<8>);
  else if (n == 2)
    with(interpolate_rows<2>);
  else
    with(interpolate_rows<0>);
}

// Copies samples without moving them, and adds `brighter` to luma.
void copy_samples(const DenoiseFrame& f, int c, int x0, int y0, int n, int rows, int brighter) {
  for (int y = y0; y < y0 + rows; y++) {
    const size_t at = size_t(y) * f.width[c] + x0;
    const uint16_t* VF_RESTRICT from = f.was.color[c] + at;
    uint16_t* VF_RESTRICT to = f.moved.color[c] + at;
    if (c == 0 && brighter)
      for (int i = 0; i < n; i++) to[i] = uint16_t(brightened(from[i], brighter, f.settings.top));
    else
      std::memcpy(to, from, n * sizeof(uint16_t));
  }
}

// Compensates a run of rows [b0, b1) of blocks.
void move_run(const DenoiseFrame& f, int b0, int b1, const Run& run, uint16_t* memory) {
  const DenoiseTask& t = f.task;
  const bool moves = run.more_p > 0;
  for (int c = 0; c < t.from.colors; c++) {
    const int x0 = run.first * t.per_block_x[c], y0 = b0 * t.per_block_y[c];
    const int wide = (run.end - run.first) * t.per_block_x[c];
    const int high = (b1 - b0) * t.per_block_y[c];
    if (moves)
      move_samples(f, c, x0, y0, wide, high, run.v, memory);
    else
      copy_samples(f, c, x0, y0, wide, high, run.brighter);
  }
  const int n = t.blocks_x, dx = blocks_of_vector(run.v.x), dy = blocks_of_vector(run.v.y);
  for (int b = b0; b < b1; b++) {
    const uint16_t* from = f.was.p + size_t(std::clamp(b + dy, 0, t.blocks_y - 1)) * n;
    uint16_t* to = f.moved.p + size_t(b) * n;
    if (moves)
      for (int i = run.first; i < run.end; i++)
        to[i] = moved_block(from[std::clamp(i + dx, 0, n - 1)], run.more_p);
    else
      std::copy(from + run.first, from + run.end, to + run.first);
  }
}

// Compensates a row of pieces, whose number is j.
void move_row(const DenoiseFrame& f, int j, uint16_t* memory) {
  const int n = f.task.blocks_x, b0 = j * kPiece, b1 = std::min(b0 + kPiece, f.task.blocks_y);
  const PatchMotion* motions = f.motions + size_t(j / 2) * f.patches_x;
  Run run = {};
  for (int i = 0; i * kPiece < n; i++) {
    const PatchMotion& m = motions[i / 2];
    Run piece = {i * kPiece, std::min((i + 1) * kPiece, n), {0, 0}, m.brighter, m.more_p};
    if (moves(m)) piece.v = vector_at(f, i, j);
    if (i > 0 && run.is_like(piece)) {
      run.end = piece.end;
      continue;
    }
    if (i > 0) move_run(f, b0, b1, run, memory);
    run = piece;
  }
  move_run(f, b0, b1, run, memory);
}

size_t compensate_tiles(const DenoiseFrame& f, int row, char* memory) {
  const DenoiseTask& t = f.task;
  const int n = t.blocks_x;
  Arena arena(memory);
  uint16_t* x[3] = {};
  for (int c = 0; c < t.from.colors; c++)
    x[c] = arena.take<uint16_t>(size_t(f.width[c]) * t.per_block_y[c]);
  auto* of_x = arena.take<int32_t>(n);
  auto* of_t = arena.take<int32_t>(n);
  const ColumnSums columns = {arena.take<int32_t>(n), arena.take<int32_t>(n),
                              arena.take<int32_t>(n)};
  auto* light = arena.take<LightSums>(f.tiles_x);
  auto* samples = arena.take<uint16_t>(2 * size_t(f.width[0] + 3) * (2 * kPiece + 3));
  if (!memory) return arena.used();

  constexpr int kPatches = kTile / kPatch;
  const int j0 = row * kPatches, j1 = std::min(j0 + kPatches, f.patches_y);
  std::fill_n(light, f.tiles_x, LightSums());
  for (int j = j0; j < j1; j++) {
    const int b0 = j * kPatch, b1 = std::min(b0 + kPatch, t.blocks_y);
    for (int b = b0; b < b1; b++) {
      load_blocks(f, b, t.from.rgb ? 3 : 1, x);
      means_of(x[0], f.width[0], n, of_x);
      means_of(f.was.color[0] + size_t(b) * 2 * f.width[0], f.width[0], n, of_t);
      add_row(f, of_x, of_t, f.was.p + size_t(b) * n, b == b0, columns);
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
  for (int j = j0; j < j1; j++)
    for (int k = 2 * j; f.changes[j] && k < 2 * (j + 1) && k * kPiece < t.blocks_y; k++)
      move_row(f, k, samples);
  return arena.used();
}

void compensate(const DenoiseFrame& f, int row, int thread) {
  compensate_tiles(f, row, f.scratch + f.scratch_per_thread * thread);
}
size_t compensate_scratch(const DenoiseFrame& f) {
  return compensate_tiles(f, 0, nullptr);
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(compensate);
HWY_EXPORT(compensate_scratch);

void denoise_compensate(const DenoiseFrame& f, int row, int thread) {
  HWY_DYNAMIC_DISPATCH(compensate)(f, row, thread);
}
size_t denoise_compensate_scratch(const DenoiseFrame& f) {
  return HWY_DYNAMIC_DISPATCH(compensate_scratch)(f);
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
