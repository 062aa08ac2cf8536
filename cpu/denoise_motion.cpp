// Compensates the denoiser's state for motion on the CPU, before the first pass.
//
// A task is a row of tiles. The block means of the frame and of the state are multiplied and summed
// by column, and these sums give a vector for each tile. If one tile of the row changes, the state
// of the whole row is copied to `moved`, compensated.
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

// Sums over rows, by column of blocks.
struct ColumnSums {
  int32_t *xx, *xy, *yy, *xd, *yd, *dd, *d;
  TileSums of(int first, int end) const {
    TileSums s = {};
    for (int i = first; i < end; i++) {
      s.xx += xx[i];
      s.xy += xy[i];
      s.yy += yy[i];
      s.xd += xd[i];
      s.yd += yd[i];
      s.dd += dd[i];
      s.d += d[i];
    }
    return s;
  }
};

ColumnSums take_columns(Arena* arena, int n) {
  return {arena->take<int32_t>(n), arena->take<int32_t>(n), arena->take<int32_t>(n),
          arena->take<int32_t>(n), arena->take<int32_t>(n), arena->take<int32_t>(n),
          arena->take<int32_t>(n)};
}

// Adds a row that has rows above and below. Skips its first and last block, which lack a neighbour.
void add_row(const int32_t* VF_RESTRICT above, const int32_t* VF_RESTRICT t,
             const int32_t* VF_RESTRICT below, const int32_t* VF_RESTRICT x, int n,
             const ColumnSums& sums) {
  int32_t *VF_RESTRICT xx = sums.xx, *VF_RESTRICT xy = sums.xy, *VF_RESTRICT yy = sums.yy;
  int32_t *VF_RESTRICT xd = sums.xd, *VF_RESTRICT yd = sums.yd, *VF_RESTRICT dd = sums.dd;
  int32_t* VF_RESTRICT d = sums.d;
  for (int i = 1; i < n - 1; i++) {
    TileSums s = {xx[i], xy[i], yy[i], xd[i], yd[i], dd[i], d[i]};
    add_block(&s, t[i + 1] - t[i - 1], below[i] - above[i], x[i] - t[i]);
    xx[i] = s.xx;
    xy[i] = s.xy;
    yy[i] = s.yy;
    xd[i] = s.xd;
    yd[i] = s.yd;
    dd[i] = s.dd;
    d[i] = s.d;
  }
}

void clear(const ColumnSums& s, int n) {
  for (int32_t* v : {s.xx, s.xy, s.yy, s.xd, s.yd, s.dd, s.d}) std::fill_n(v, n, 0);
}

void means_of(const uint16_t* VF_RESTRICT rows, int pitch, int n, int32_t* VF_RESTRICT out) {
  for (int i = 0; i < n; i++)
    out[i] =
        eighth_code(rows[2 * i] + rows[2 * i + 1] + rows[pitch + 2 * i] + rows[pitch + 2 * i + 1]);
}

// Computes the means of a row of a tile's blocks from sample (x, y) of the state on. Places outside
// take the nearest sample.
void means_at(const DenoiseFrame& f, int x, int y, int n, int32_t* VF_RESTRICT out) {
  const int w = f.width[0], h = f.height[0];
  const uint16_t* rows[2];
  for (int k = 0; k < 2; k++) rows[k] = f.was.color[0] + size_t(std::clamp(y + k, 0, h - 1)) * w;
  for (int i = 0; i < n; i++) {
    const int x0 = std::clamp(x + 2 * i, 0, w - 1), x1 = std::clamp(x + 2 * i + 1, 0, w - 1);
    out[i] = eighth_code(rows[0][x0] + rows[0][x1] + rows[1][x0] + rows[1][x1]);
  }
}

// Interpolates rows [y0, y0 + rows) and columns [x0, x0 + n) of a component at their moved places.
void move_samples(const DenoiseFrame& f, int c, int x0, int y0, int n, int rows,
                  const TileMotion& m, uint16_t* VF_RESTRICT between) {
  const int w = f.width[c], h = f.height[c];
  const int ex = eighths_of(m.x, f.task.per_block_x[c]);
  const int ey = eighths_of(m.y, f.task.per_block_y[c]);
  const Taps tx = taps_of(ex), ty = taps_of(ey);
  const int first = x0 + (ex >> 3) - 1, top = f.settings.top;
  constexpr int kWide = 2 * kTile;
  for (int r = 0; r < rows + 3; r++) {
    const uint16_t* VF_RESTRICT row =
        f.was.color[c] + size_t(std::clamp(y0 + (ey >> 3) - 1 + r, 0, h - 1)) * w;
    uint16_t line[kWide + 3];
    const uint16_t* VF_RESTRICT in = row + first;
    if (first < 0 || first + n + 3 > w) {
      for (int i = 0; i < n + 3; i++) line[i] = row[std::clamp(first + i, 0, w - 1)];
      in = line;
    }
    uint16_t* VF_RESTRICT out = between + size_t(r) * kWide;
    for (int i = 0; i < n; i++)
      out[i] = uint16_t(interpolate(tx, in[i], in[i + 1], in[i + 2], in[i + 3], top));
  }
  for (int r = 0; r < rows; r++) {
    const uint16_t* VF_RESTRICT in = between + size_t(r) * kWide;
    uint16_t* VF_RESTRICT out = f.moved.color[c] + size_t(y0 + r) * w + x0;
    for (int i = 0; i < n; i++)
      out[i] = uint16_t(
          interpolate(ty, in[i], in[i + kWide], in[i + 2 * kWide], in[i + 3 * kWide], top));
  }
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

// Compensates blocks [i0, i1) of rows [b0, b1).
void move_tile(const DenoiseFrame& f, int b0, int b1, int i0, int i1, const TileMotion& m,
               uint16_t* between) {
  const DenoiseTask& t = f.task;
  const int n = t.blocks_x, dx = blocks_of_vector(m.x), dy = blocks_of_vector(m.y);
  for (int c = 0; c < t.from.colors; c++) {
    const int x0 = i0 * t.per_block_x[c], y0 = b0 * t.per_block_y[c];
    const int wide = (i1 - i0) * t.per_block_x[c], high = (b1 - b0) * t.per_block_y[c];
    if (moves(m))
      move_samples(f, c, x0, y0, wide, high, m, between);
    else
      copy_samples(f, c, x0, y0, wide, high, m.brighter);
  }
  for (int b = b0; b < b1; b++) {
    const uint16_t* from = f.was.p + size_t(std::clamp(b + dy, 0, t.blocks_y - 1)) * n;
    uint16_t* to = f.moved.p + size_t(b) * n;
    for (int i = i0; i < i1; i++)
      to[i] = moves(m) ? moved_block(from[std::clamp(i + dx, 0, n - 1)]) : from[i];
  }
}

size_t find_motion(const DenoiseFrame& f, int row, char* memory) {
  const DenoiseTask& t = f.task;
  const int n = t.blocks_x;
  Arena arena(memory);
  uint16_t* x[3] = {};
  for (int c = 0; c < t.from.colors; c++)
    x[c] = arena.take<uint16_t>(size_t(f.width[c]) * t.per_block_y[c]);
  int32_t *of_x[kTile], *of_t[kTile], *elsewhere[kTile];
  for (int32_t*& p : of_x) p = arena.take<int32_t>(n);
  for (int32_t*& p : of_t) p = arena.take<int32_t>(n);
  for (int32_t*& p : elsewhere) p = arena.take<int32_t>(kTile);
  const ColumnSums columns = take_columns(&arena, n), tile = take_columns(&arena, kTile);
  auto* expected = arena.take<int32_t>(n);
  auto* between = arena.take<uint16_t>(2 * kTile * (2 * kTile + 3));
  if (!memory) return arena.used();

  const int b0 = row * kTile, b1 = std::min(b0 + kTile, t.blocks_y);
  for (int b = b0; b < b1; b++) {
    load_blocks(f, b, t.from.rgb ? 3 : 1, x);
    means_of(x[0], f.width[0], n, of_x[b - b0]);
    means_of(f.was.color[0] + size_t(b) * 2 * f.width[0], f.width[0], n, of_t[b - b0]);
  }
  // Only inner blocks count. They have a neighbour in the tile on each side.
  const int last = b1 - b0 - 1;
  clear(columns, n);
  std::fill_n(expected, n, 0);
  for (int r = 1; r < last; r++) {
    add_row(of_t[r - 1], of_t[r], of_t[r + 1], of_x[r], n, columns);
    const uint16_t* VF_RESTRICT p = f.was.p + size_t(b0 + r) * n;
    int32_t* VF_RESTRICT sum = expected;
    for (int i = 0; i < n; i++) sum[i] += expected_square(f.expected[luma_level(p[i])], p_of(p[i]));
  }
  TileMotion* motions = f.motions + size_t(row) * f.tiles_x;
  bool any = false;
  for (int k = 0; k < f.tiles_x; k++) {
    const int i0 = k * kTile, wide = std::min(kTile, n - i0);
    const TileSums still = columns.of(i0 + 1, i0 + wide - 1);
    TileSums moved = still;
    const int dx = whole_of(motions[k].next_x), dy = whole_of(motions[k].next_y);
    if (dx || dy) {
      for (int r = 0; r <= last; r++)
        means_at(f, 2 * i0 + dx, 2 * (b0 + r) + dy, wide, elsewhere[r]);
      clear(tile, kTile);
      for (int r = 1; r < last; r++)
        add_row(elsewhere[r - 1], elsewhere[r], elsewhere[r + 1], of_x[r] + i0, wide, tile);
      moved = tile.of(1, wide - 1);
    }
    int noise = 0;
    for (int i = i0 + 1; i < i0 + wide - 1; i++) noise += expected[i];
    const int blocks = std::max(last - 1, 0) * std::max(wide - 2, 0);
    motions[k] = motion_of(still, moved, dx, dy, noise, blocks);
    any = any || changes(motions[k]);
  }
  f.changes[row] = any;
  for (int k = 0; any && k < f.tiles_x; k++)
    move_tile(f, b0, b1, k * kTile, std::min((k + 1) * kTile, n), motions[k], between);
  return arena.used();
}

void find(const DenoiseFrame& f, int row, int thread) {
  find_motion(f, row, f.scratch + f.scratch_per_thread * thread);
}
size_t scratch_of_motion(const DenoiseFrame& f) {
  return find_motion(f, 0, nullptr);
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(find);
HWY_EXPORT(scratch_of_motion);

void denoise_find_motion(const DenoiseFrame& f, int row, int thread) {
  HWY_DYNAMIC_DISPATCH(find)(f, row, thread);
}
size_t denoise_motion_scratch(const DenoiseFrame& f) {
  return HWY_DYNAMIC_DISPATCH(scratch_of_motion)(f);
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
