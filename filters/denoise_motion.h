// Compensates the denoiser's state for motion and light. Both backends compile these functions and
// get the same bits, as with filters/denoise_math.h. docs/spec/denoise.md has the formulas.
//
// filters/motion finds a vector for each patch of 8 x 8 pixels, from the frame and the state. A
// vector is used only if it clearly explains the difference between the two. Between patches whose
// vectors are alike, the vectors are interpolated. Patches that do not move can get brighter or
// darker, a tile at a time.
#pragma once

#include "filters/denoise_math.h"
#include "filters/motion.h"

namespace vf::denoise {

constexpr int kPatch = kMotionBlock / 2;  // blocks, either way
constexpr int kPiece = kPatch / 2;        // blocks of a piece, which has one interpolated vector
constexpr int kTile = 16;                 // blocks of a tile, either way
// Sums of expected_square over so many blocks are one unit of a residual, because the search sees
// pictures of half the size, in which less of the noise is left.
constexpr int kExpectedPerResidual = 160;
constexpr int kRounding = 3;          // residual that rounding the search's pictures makes
constexpr Fraction kSure = {1, 4};    // share of the noise's residual that a vector must win
constexpr Fraction kClear = {3, 10};  // share of the excess over noise that it must win
// The largest difference of vectors that move together, and of those that are interpolated.
constexpr int kAlike = kMotionUnits, kNear = 2 * kMotionUnits;
// A patch is restless if its residual exceeds so many times the noise's, where it stays and where
// it moves.
constexpr Fraction kRestless = {5, 2}, kRestlessMoved = {6, 1};
// The noise's sum, `expected`, is 16 times its variance. A change of light is followed from twice
// the noise's deviation on.
constexpr int kLightSure = 4;
constexpr Fraction kClearly = {3, 5};  // share of the excess that a change of light explains
constexpr float kMostLight = 4096;     // in the state's unit: a larger change is another picture
constexpr int kMovedP = 20;            // added to p for the error of interpolation
constexpr int kMismatchP = 205;        // added to p per excess of the residual over the noise
constexpr int kMostMismatchP = kOne / 2;
constexpr int kEighths = 8;  // places per sample at which the state is interpolated
constexpr int kTapOne = 64;

// Says where a patch of the state is read, in eighths of a pixel, and how it changes.
struct PatchMotion {
  int16_t x, y;      // 0 for none
  int16_t brighter;  // added to luma, in the state's unit; only where x and y are 0
  int16_t more_p;    // added to p where the patch moves
  bool restless;     // whether the patch changes more than by noise and its motion
};
VF_BOTH bool moves(const PatchMotion& m) {
  return m.x != 0 || m.y != 0;
}
VF_BOTH bool changes(const PatchMotion& m) {
  return moves(m) || m.brighter != 0;
}

// Returns the mean of a block's four samples in 1/8 code, so that sums of 256 products stay below
// 2^31.
VF_BOTH int eighth_code(int sum) {
  return (sum + 64) >> 7;
}

// expected_square returns the d^2 that noise alone makes, in 1/16 of its unit. It takes the
// expected_factor of the block's level of luma. Behind a codec it takes less of the noise's
// variance: the vectors would be used too seldom, because in most patches the codec leaves less.
VF_BOTH float expected_factor(const Noise& n, const Settings& s, int level) {
  return divide(n.kappa * effective_variance(n, s, 0, level),
                1.0f + (s.fixed_variance[0] < 0 ? n.codec : 1.0f));
}
VF_BOTH int expected_square(float factor, int p) {
  return round_to_int(least(factor * float(kOne + p), kMostSquare));
}

// Returns how much brighter a tile becomes. A change of light makes the same difference everywhere.
// `sum` adds the differences of the blocks in 1/8 code, each 32 in the state's unit. `excess` is
// 16 times the excess of the squares over the noise. The share grows gradually from 0 to 1, so that
// rounding at a threshold has little effect.
VF_BOTH int brighter_of(int sum, int expected, int64_t excess, int blocks) {
  const int64_t square = int64_t(sum) * sum;
  if (kLightSure * square <= expected) return 0;
  float share = divide(float(kLightSure * square - expected), float(expected > 0 ? expected : 1));
  if (excess > 0) {
    const int64_t all = excess * blocks;
    share = least(
        share, divide(float(16 * int64_t(kClearly.of) * square - kClearly.part * all), float(all)));
  }
  share = least(most(share, 0.0f), 1.0f);
  const float mean = divide(float(32 * sum), float(blocks));
  return mean < -kMostLight || mean > kMostLight ? 0 : round_to_int(mean * share);
}

// Sums over a patch and those of its neighbours that move alike.
struct Won {
  int residual_zero = 0, won = 0, patches = 0;
};
VF_BOTH bool is_within(const MotionVector& a, const MotionVector& b, int distance) {
  const int x = a.x - b.x, y = a.y - b.y;
  return x >= -distance && x <= distance && y >= -distance && y <= distance;
}
VF_BOTH void add_patch(const MotionVector& own, const MotionVector& v, Won* sum) {
  if (!is_within(own, v, kAlike)) return;
  sum->residual_zero += v.residual_zero;
  sum->won += v.residual_zero - v.residual;
  sum->patches++;
}

// Whether `a` is more than the share of `b`.
VF_BOTH bool exceeds(int a, Fraction share, int b) {
  return a * int(share.of) > b * int(share.part);
}

// Decides on a patch of `blocks` blocks, except for its light. `expected` is the sum of their
// expected_square. `all` has the patch and its eight neighbours.
VF_BOTH PatchMotion motion_of(const MotionVector& v, const Won& all, int expected, int blocks) {
  const int noise = expected / (kExpectedPerResidual * blocks) + kRounding;
  const int noises = noise * all.patches;
  const bool is_used = v.residual < v.residual_zero && exceeds(all.won, kSure, noises) &&
                       exceeds(all.won, kClear, all.residual_zero - noises);
  PatchMotion out = {};
  if (!is_used) {
    out.restless = exceeds(v.residual_zero, kRestless, noise);
    return out;
  }
  out.x = v.x;
  out.y = v.y;
  out.restless = exceeds(v.residual, kRestlessMoved, noise);
  const int excess = v.residual > noise ? (v.residual - noise) * kMismatchP / noise : 0;
  out.more_p = int16_t(kMovedP + (excess < kMostMismatchP ? excess : kMostMismatchP));
  return out;
}

// Returns the vector of a piece, a quarter of a patch, from those of the patch and its three
// neighbours nearest to the piece. A vector far from the patch's own is replaced by it.
struct PieceVector {
  int x, y;
};
VF_BOTH PieceVector piece_vector(const MotionVector& own, const MotionVector& beside,
                                 const MotionVector& above, const MotionVector& corner) {
  PieceVector sum = {9 * own.x + 8, 9 * own.y + 8};
  const auto add = [&](const MotionVector& v, int weight) {
    const bool near = is_within(own, v, kNear);
    sum.x += weight * (near ? v.x : own.x);
    sum.y += weight * (near ? v.y : own.y);
  };
  add(beside, 3);
  add(above, 3);
  add(corner, 1);
  return {sum.x >> 4, sum.y >> 4};
}

// ---- the state, moved --------------------------------------------------------------------------

// Converts eighths of a pixel to eighths of a component's sample. A block has `per_block` samples
// along the axis.
VF_BOTH int eighths_of(int v, int per_block) {
  return per_block == 2 ? v : (v + 1) >> 1;
}
// Converts eighths of a pixel to blocks, rounded.
VF_BOTH int blocks_of_vector(int v) {
  return (v + 8) >> 4;
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

// Returns p and the level of a block that was interpolated: p grows, because interpolation and the
// vector leave errors.
VF_BOTH uint16_t moved_block(uint32_t block, int more_p) {
  const int p = p_of(block) + more_p;
  return pack_block(p < kOne ? p : kOne, luma_level(block));
}

}  // namespace vf::denoise
