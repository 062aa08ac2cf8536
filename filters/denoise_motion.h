// Finds motion and compensates the denoiser's state for it. Both backends compile these functions
// and get the same bits, as with filters/denoise_math.h. docs/spec/denoise.md has the formulas.
//
// Each tile of the picture has one vector. One step of least squares finds it from the frame and
// the state, starting from the vector of the previous frame. It is used only if it is clearly
// better than no vector.
#pragma once

#include "filters/denoise_math.h"

namespace vf::denoise {

constexpr int kTile = 16;         // blocks, either way
constexpr int kMostVector = 124;  // quarters of a pixel
constexpr int kMostStep = 8;
constexpr int kRidgeShift = 6;         // keeps a step along a straight edge at 0
constexpr Fraction kClearly = {3, 5};  // share of the excess over noise that a vector must explain
constexpr float kMostLight = 4096;     // in the state's unit: a larger change is another picture
constexpr int kRestless = 2;           // times the noise
constexpr int kMovedP = 64;            // added to p for the error of interpolation
constexpr int kEighths = 8;            // places per sample at which the state is interpolated
constexpr int kTapOne = 64;

// Says where a tile of the state is read, in quarters of a pixel, and how much brighter it becomes.
struct alignas(8) TileMotion {
  int8_t x, y;            // this frame's vector; 0 for none
  int8_t next_x, next_y;  // where the next frame begins its search
  int16_t brighter;       // added to luma, in the state's unit; only where x and y are 0
  int8_t restless;        // 1 if the tile moves, or changes more than by noise
};
VF_BOTH bool moves(const TileMotion& m) {
  return m.x != 0 || m.y != 0;
}
VF_BOTH bool changes(const TileMotion& m) {
  return moves(m) || m.brighter != 0;
}

// Returns the mean of a block's four samples in 1/8 code, so that sums of 256 products stay below
// 2^31.
VF_BOTH int eighth_code(int sum) {
  return (sum + 64) >> 7;
}

// Sums over the inner blocks of a tile. They are products of the state's gradients (x, y) and of
// the frame's difference from the state (d).
struct TileSums {
  int32_t xx, xy, yy, xd, yd, dd, d;
};
VF_BOTH void add_block(TileSums* s, int gx, int gy, int d) {
  s->xx += gx * gx;
  s->xy += gx * gy;
  s->yy += gy * gy;
  s->xd += gx * d;
  s->yd += gy * d;
  s->dd += d * d;
  s->d += d;
}

// expected_square returns the d^2 that noise alone makes, in 1/16 of its unit. It takes the
// expected_factor of the block's level of luma.
VF_BOTH float expected_factor(const Noise& n, const Settings& s, int level) {
  return 0.5f * (n.kappa * effective_variance(n, s, 0, level));
}
VF_BOTH int expected_square(float factor, int p) {
  return round_to_int(least(factor * float(kOne + p), kMostSquare));
}

// Rounds a vector to the whole pixels at which sums are taken.
VF_BOTH int whole_of(int quarters) {
  return (quarters + 2) >> 2;
}

// Returns a step in quarters of a pixel. The gradients span 16 of them.
VF_BOTH int step_of(int64_t moment, int64_t determinant) {
  const float v = divide(float(moment) * 16.0f, float(determinant));
  return round_to_int(most(least(v, float(kMostStep)), float(-kMostStep)));
}
// Returns how much brighter a tile becomes. A change of light makes the same difference everywhere.
// `sum` adds the differences of the blocks in 1/8 code, each 32 in the state's unit. `excess` is
// 16 times the excess of the squares over the noise. The share grows gradually from 0 to 1, so that
// rounding at a threshold has little effect.
VF_BOTH int brighter_of(int sum, int expected, int64_t excess, int blocks) {
  const int64_t square = int64_t(sum) * sum;
  if (square <= expected) return 0;
  float share = divide(float(square - expected), float(expected > 0 ? expected : 1));
  if (excess > 0) {
    const int64_t all = excess * blocks;
    share = least(
        share, divide(float(16 * int64_t(kClearly.of) * square - kClearly.part * all), float(all)));
  }
  share = least(most(share, 0.0f), 1.0f);
  const float mean = divide(float(32 * sum), float(blocks));
  return mean < -kMostLight || mean > kMostLight ? 0 : round_to_int(mean * share);
}
VF_BOTH int limit_vector(int v) {
  return v < -kMostVector ? -kMostVector : v > kMostVector ? kMostVector : v;
}

// Decides on a tile. `still` has the sums without motion, `moved` those (x, y) whole pixels away.
// `expected` is the sum of expected_square over the inner blocks, and `blocks` their number. All
// arithmetic except the steps is in integers: sums stay below 2^31, products of two below 2^62.
VF_BOTH TileMotion motion_of(const TileSums& still, const TileSums& moved, int x, int y,
                             int expected, int blocks) {
  const bool begin = moved.dd <= still.dd;
  // Members are chosen one by one, because a choice of addresses would put both in memory on a GPU.
  const TileSums s = {begin ? moved.xx : still.xx,
                      begin ? moved.xy : still.xy,
                      begin ? moved.yy : still.yy,
                      begin ? moved.xd : still.xd,
                      begin ? moved.yd : still.yd,
                      begin ? moved.dd : still.dd,
                      still.d};
  const int x0 = begin ? 4 * x : 0, y0 = begin ? 4 * y : 0;
  const int64_t ridge = 1 + ((int64_t(s.xx) + s.yy) >> kRidgeShift);
  const int64_t a = s.xx + ridge, b = s.xy, c = s.yy + ridge;
  const int64_t determinant = a * c - b * b;
  const int x1 = limit_vector(x0 + step_of(c * s.xd - b * s.yd, determinant));
  const int y1 = limit_vector(y0 + step_of(a * s.yd - b * s.xd, determinant));
  // `won` is 256 times the part of the differences that the vector explains, by the gradients.
  const int64_t u = x1 - x0, v = y1 - y0;
  const int64_t won = (int64_t(still.dd) - s.dd) * 256 + 32 * (u * s.xd + v * s.yd) -
                      (u * u * s.xx + 2 * u * v * s.xy + v * v * s.yy);
  const bool is_sure = won * blocks > int64_t(expected) * 256;
  const int64_t excess = int64_t(still.dd) * 16 - expected;
  const bool is_clear = is_sure && won * kClearly.of > 16 * excess * kClearly.part;
  TileMotion out;
  out.next_x = int8_t(is_sure ? x1 : 0);
  out.next_y = int8_t(is_sure ? y1 : 0);
  out.x = int8_t(is_clear ? x1 : 0);
  out.y = int8_t(is_clear ? y1 : 0);
  out.restless = moves(out) || int64_t(still.dd) * 16 > int64_t(expected) * kRestless;
  out.brighter = int16_t(moves(out) ? 0 : brighter_of(still.d, expected, excess, blocks));
  return out;
}

// ---- the state, moved --------------------------------------------------------------------------

// Converts to eighths of a component's sample. A block has `per_block` samples along the axis.
VF_BOTH int eighths_of(int quarters, int per_block) {
  return per_block * quarters;
}
// Converts to blocks, rounded.
VF_BOTH int blocks_of_vector(int quarters) {
  return (quarters + 4) >> 3;
}

// Weights of four samples. The place lies between the second and the third.
struct Taps {
  int w[4];
};
VF_BOTH int outer_tap(int f) {
  return -((83 * f * (8 - f) * (8 - f) + 512) >> 10);
}
VF_BOTH Taps taps_of(int eighths) {
  const int f = eighths & (kEighths - 1);
  Taps t;
  t.w[0] = outer_tap(f);
  t.w[3] = outer_tap(8 - f);
  t.w[1] = (kTapOne * 1024 - 2406 * f * f + 173 * f * f * f + 512) >> 10;
  t.w[2] = kTapOne - t.w[0] - t.w[1] - t.w[3];
  return t;
}
// Interpolates between four samples. A cubic overshoots at edges, so the result is limited to
// `top`, the largest sample.
VF_BOTH uint32_t interpolate(const Taps& t, int a, int b, int c, int d, int top) {
  const int v = (t.w[0] * a + t.w[1] * b + t.w[2] * c + t.w[3] * d + kTapOne / 2) >> 6;
  return uint32_t(v < 0 ? 0 : v > top ? top : v);
}

VF_BOTH uint32_t brightened(uint32_t sample, int by, int top) {
  const int v = int(sample) + by;
  return uint32_t(v < 0 ? 0 : v > top ? top : v);
}

// Returns p and the level of a block that was interpolated: p grows, because interpolation leaves
// an error.
VF_BOTH uint16_t moved_block(uint32_t block) {
  const int p = p_of(block) + kMovedP;
  return pack_block(p < kOne ? p : kOne, luma_level(block));
}

}  // namespace vf::denoise
