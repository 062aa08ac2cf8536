// The search's constants and its steps, for both backends. docs/spec/motion.md has the formulas.
//
// All sums are of integers, so their order does not matter. A step is computed from them in floats,
// in a fixed order of operations that are each rounded once: these sources are compiled without
// contraction (-ffp-contract=off, -fmad=false).
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define VF_MOTION_BOTH __host__ __device__ __forceinline__
#else
#define VF_MOTION_BOTH inline
#endif

namespace vf::motion {

// The finest level has half of the picture's resolution, and each further level has half of that of
// the level before. A step on the coarsest one reaches 32 pixels, so two of them find vectors of 64
// pixels.
constexpr int kLevels = 4;
constexpr int kPatch = 8;      // samples of a level, either way
constexpr int kSpacing = 4;    // samples from one patch to the next
constexpr int kBefore = 2;     // samples of the first patch that lie before the level's first one
constexpr int kUnits = 16;     // units of a level's vectors in a sample
constexpr int kMostStep = 32;  // units
constexpr int kNear = 4;       // patches of the coarser level whose vectors a patch may start from
// Slopes are differences of two samples, limited so that they fit signed bytes.
constexpr int kLeastSlope = -128, kMostSlope = 127;
// Both are added to the diagonal elements of the matrix: noise then does not move flat patches far,
// and steps along a straight edge are 0.
constexpr int kRidge = 64, kRidgeShift = 6;

VF_MOTION_BOTH int half_of(int size) {
  return (size + 1) / 2;
}
VF_MOTION_BOTH int patches_of(int size) {
  return (size + kSpacing - 1) / kSpacing;
}
// Returns how many vectors a patch may start from, apart from no motion. They are the vectors of all
// coarser patches near it, or of the first two. On the finest level, there is one: the sum of two.
VF_MOTION_BOTH constexpr int starts_of(int level) {
  return level == 2 ? kNear : level == 1 ? 2 : level == 0 ? 1 : 0;
}
// Returns how many steps follow. The coarsest level begins without a vector.
VF_MOTION_BOTH constexpr int steps_of(int level) {
  return level == 3 ? 3 : level == 1 ? 1 : 2;
}
// Returns the first of the two coarser patches about patch i along an axis, or the second one,
// which may lie outside. The four near patches are the first or the second ones, across and down.
VF_MOTION_BOTH int coarser(int i, bool is_second) {
  return (i >> 1) + (is_second ? (i & 1 ? 1 : -1) : 0);
}
VF_MOTION_BOTH constexpr bool is_second_across(int near) {
  return near == 1 || near == 2;
}
VF_MOTION_BOTH constexpr bool is_second_down(int near) {
  return near == 1 || near == 3;
}

// Solves for the step of a patch: xx, xy and yy are the sums of products of slopes, which are
// differences of samples two apart.
struct Solver {
  float xx, xy, yy;
};
VF_MOTION_BOTH Solver solver_of(int xx, int xy, int yy) {
  const int ridge = kRidge + ((xx + yy) >> kRidgeShift);
  const float a = float(xx + ridge), b = float(xy), c = float(yy + ridge);
  const float scale = float(2 * kUnits) / (a * c - b * b);
  return {a * scale, b * scale, c * scale};
}
VF_MOTION_BOTH int round_step(float v) {
  v = v > float(kMostStep) ? float(kMostStep) : v < float(-kMostStep) ? float(-kMostStep) : v;
  return int(rintf(v));
}
// Returns the step that a vector takes back. xd and yd are the sums of slopes times differences.
VF_MOTION_BOTH int step_x(const Solver& s, int xd, int yd) {
  return round_step(s.yy * float(xd) - s.xy * float(yd));
}
VF_MOTION_BOTH int step_y(const Solver& s, int xd, int yd) {
  return round_step(s.xx * float(yd) - s.xy * float(xd));
}

// Converts the sum of the squared differences of a patch to a residual.
VF_MOTION_BOTH uint16_t residual_of(int sum) {
  static_assert(kPatch * kPatch / 16 == 4);
  return uint16_t(sum / 4 < 65535 ? sum / 4 : 65535);
}

}  // namespace vf::motion
