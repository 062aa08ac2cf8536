// Makes pyramids and searches patches on the CPU, for each instruction set.
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/motion_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu/edges.h"
#include "cpu/motion.h"
#include "cpu/pairs-inl.h"

#ifndef VF_CPU_MOTION_ROWS_ONCE
#define VF_CPU_MOTION_ROWS_ONCE
namespace vf::cpu {

constexpr int kRowBorder = 16;  // sums before and behind a row, for the repeated edge

}  // namespace vf::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using namespace vf::motion;

constexpr int kSamples = kPatch * kPatch;
// A patch is read from 9 x 9 samples, because it lies between them.
constexpr int kWindow = kPatch + 1;

// ---- pyramids ----------------------------------------------------------------------------------

template <class T>
void add_row(const char* row, int step, int shift, uint32_t mask, uint32_t weight, int n,
             uint32_t* HWY_RESTRICT sums) {
  const T* HWY_RESTRICT in = reinterpret_cast<const T*>(row);
  if (step == 1 && shift == 0)
    for (int x = 0; x < n; x++) sums[x] += weight * (in[x] & mask);
  else
    for (int x = 0; x < n; x++)
      sums[x] += weight * (uint32_t(in[x * ptrdiff_t(step)]) >> shift & mask);
}

void halve_rows(const MotionPicture& from, int width, int height, int y0, int y1, uint8_t* to,
                char* scratch) {
  auto* sums = reinterpret_cast<uint32_t*>(scratch) + kRowBorder;
  const int half = half_of(width);
  const int shift = 6 + from.depth - 8 + (from.rgb ? 2 : 0);
  const uint32_t mask = (1u << from.depth) - 1, round = 1u << shift >> 1;
  for (int y = y0; y < y1; y++) {
    std::memset(sums, 0, size_t(width) * sizeof *sums);
    for (int k = 0; k < 4; k++) {
      const int row = std::clamp(2 * y - 1 + k, 0, height - 1);
      for (int c = 0; c < (from.rgb ? 3 : 1); c++) {
        const uint32_t weight = (k == 1 || k == 2 ? 3 : 1) * (from.rgb && c == 1 ? 2 : 1);
        const char* at = static_cast<const char*>(from.data[c]) + row * from.stride[c];
        (from.type == Type::u8 ? add_row<uint8_t> : add_row<uint16_t>)(at, from.step, from.shift,
                                                                       mask, weight, width, sums);
      }
    }
    sums[-1] = sums[0];
    sums[width] = sums[width + 1] = sums[width - 1];
    uint8_t* HWY_RESTRICT out = to + size_t(y) * half;
    const uint32_t* HWY_RESTRICT in = sums - 1;
    for (int x = 0; x < half; x++)
      out[x] = uint8_t(std::min(
          (in[2 * x] + 3 * (in[2 * x + 1] + in[2 * x + 2]) + in[2 * x + 3] + round) >> shift,
          255u));
  }
}

void mean_rows(const uint8_t* from, int width, int height, int y0, int y1, uint8_t* to) {
  const int half = half_of(width);
  for (int y = y0; y < y1; y++) {
    const uint8_t* HWY_RESTRICT upper = from + size_t(2 * y) * width;
    const uint8_t* HWY_RESTRICT lower = from + size_t(std::min(2 * y + 1, height - 1)) * width;
    uint8_t* HWY_RESTRICT out = to + size_t(y) * half;
    for (int x = 0; x < width / 2; x++)
      out[x] =
          uint8_t((upper[2 * x] + upper[2 * x + 1] + lower[2 * x] + lower[2 * x + 1] + 2) >> 2);
    if (width % 2) out[half - 1] = uint8_t((upper[width - 1] + lower[width - 1] + 1) >> 1);
  }
}

// ---- search ------------------------------------------------------------------------------------

// The sums over a patch: squared differences, and slopes times differences.
struct SlopeSums {
  int xx, xy, yy;
};
struct DifferenceSums {
  int x, y;
};

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Vectors have one lane here. The loops are plain, and the compiler may vectorise them for the
// baseline.
SlopeSums load_patch(const uint8_t* in, ptrdiff_t pitch, int16_t* samples, int16_t* slope_x,
                     int16_t* slope_y) {
  SlopeSums sums = {};
  for (int j = 0; j < kPatch; j++)
    for (int i = 0; i < kPatch; i++) {
      const uint8_t* at = in + j * pitch + i;
      const int k = j * kPatch + i, x = at[1] - at[-1], y = at[pitch] - at[-pitch];
      samples[k] = at[0];
      slope_x[k] = int16_t(std::clamp(x, kLeastSlope, kMostSlope));
      slope_y[k] = int16_t(std::clamp(y, kLeastSlope, kMostSlope));
      sums.xx += slope_x[k] * slope_x[k];
      sums.xy += slope_x[k] * slope_y[k];
      sums.yy += slope_y[k] * slope_y[k];
    }
  return sums;
}

int subtract_patch(const uint8_t* in, ptrdiff_t pitch, int right, int down, const int16_t* samples,
                   int16_t* difference) {
  int lines[kWindow * kPatch], sum = 0;
  for (int j = 0; j < kWindow; j++)
    for (int i = 0; i < kPatch; i++)
      lines[j * kPatch + i] = (kUnits - right) * in[j * pitch + i] + right * in[j * pitch + i + 1];
  for (int k = 0; k < kSamples; k++) {
    const int d = (((kUnits - down) * lines[k] + down * lines[k + kPatch] + 128) >> 8) - samples[k];
    difference[k] = int16_t(d);
    sum += d * d;
  }
  return sum;
}

DifferenceSums multiply_patch(const int16_t* slope_x, const int16_t* slope_y,
                              const int16_t* difference) {
  DifferenceSums sums = {};
  for (int k = 0; k < kSamples; k++) {
    sums.x += slope_x[k] * difference[k];
    sums.y += slope_y[k] * difference[k];
  }
  return sums;
}

#else

// A vector holds one row of a patch, or two.
using D16 = hn::CappedTag<int16_t, 2 * kPatch>;
using D32 = hn::RepartitionToWide<D16>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
constexpr int kRows = int(hn::MaxLanes(D16())) / kPatch;
constexpr int kVectors = kPatch / kRows;

// Returns `rows` rows of 8 samples. The last row is repeated.
template <class D = D16>
HWY_INLINE hn::Vec<D> rows_of(const uint8_t* in, ptrdiff_t pitch, int rows) {
  const D d16;
  const hn::Rebind<uint8_t, D> d8;
  if constexpr (kRows == 1) {
    return hn::PromoteTo(d16, hn::LoadU(d8, in));
  } else {
    const hn::Half<decltype(d8)> row;
    const auto lower = hn::LoadU(row, in), upper = hn::LoadU(row, in + (rows - 1) * pitch);
    return hn::PromoteTo(d16, hn::Combine(d8, upper, lower));
  }
}

// Returns the vector that begins one row below the start of `rows`. `next` follows it.
HWY_INLINE V16 one_below(V16 rows, V16 next) {
  if constexpr (kRows == 1)
    return next;
  else
    return hn::ConcatLowerUpper(D16(), next, rows);
}

HWY_INLINE int total(V32 v) {
  return hn::GetLane(hn::SumOfLanes(D32(), v));
}

SlopeSums load_patch(const uint8_t* in, ptrdiff_t pitch, int16_t* samples, int16_t* slope_x,
                     int16_t* slope_y) {
  const D16 d16;
  const V16 least = hn::Set(d16, kLeastSlope), most = hn::Set(d16, kMostSlope);
  const auto limit = [&](V16 v) HWY_ATTR { return hn::Max(least, hn::Min(most, v)); };
  V32 xx = hn::Zero(D32()), xy = xx, yy = xx;
  constexpr size_t n = kRows * kPatch;
  // Both cases begin with the row above the patch.
  const auto row = [&](int j) HWY_ATTR { return rows_of(in + (j - 1) * pitch, pitch, kRows); };
  V16 above = row(0), now = kRows == 1 ? row(1) : above;
  for (int k = 0; k < kVectors; k++) {
    const V16 next = row((k + 1) * kRows + (kRows == 1 ? 1 : 0));
    const V16 middle = kRows == 1 ? now : one_below(above, next);
    const uint8_t* at = in + k * kRows * pitch;
    const V16 x = limit(hn::Sub(rows_of(at + 1, pitch, kRows), rows_of(at - 1, pitch, kRows)));
    const V16 y = limit(hn::Sub(next, above));
    hn::Store(middle, d16, samples + k * n);
    hn::Store(x, d16, slope_x + k * n);
    hn::Store(y, d16, slope_y + k * n);
    xx = MulPairs(x, x, xx);
    xy = MulPairs(x, y, xy);
    yy = MulPairs(y, y, yy);
    above = kRows == 1 ? now : next;
    now = next;
  }
  return {total(xx), total(xy), total(yy)};
}

int subtract_patch(const uint8_t* in, ptrdiff_t pitch, int right, int down, const int16_t* samples,
                   int16_t* difference) {
  const D16 d16;
  const V16 r = hn::Set(d16, int16_t(right)), l = hn::Set(d16, int16_t(kUnits - right));
  const V16 d = hn::Set(d16, int16_t(down)), u = hn::Set(d16, int16_t(kUnits - down));
  const V16 half = hn::Set(d16, 128);
  const hn::RebindToUnsigned<D16> bits;
  const auto line = [&](int j, int rows) HWY_ATTR {
    const uint8_t* at = in + j * pitch;
    return hn::Add(hn::Mul(l, rows_of(at, pitch, rows)), hn::Mul(r, rows_of(at + 1, pitch, rows)));
  };
  V32 sum = hn::Zero(D32());
  V16 now = line(0, kRows);
  for (int k = 0; k < kVectors; k++) {
    const int j = (k + 1) * kRows;
    const V16 next = line(j, j < kPatch ? kRows : 1);
    // The weighted sum has 16 bits without a sign.
    const V16 v = hn::Add(hn::Add(hn::Mul(u, now), half), hn::Mul(d, one_below(now, next)));
    const V16 e = hn::Sub(hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(bits, v))),
                          hn::Load(d16, samples + k * kRows * kPatch));
    hn::Store(e, d16, difference + k * kRows * kPatch);
    sum = MulPairs(e, e, sum);
    now = next;
  }
  return total(sum);
}

DifferenceSums multiply_patch(const int16_t* slope_x, const int16_t* slope_y,
                              const int16_t* difference) {
  const D16 d16;
  V32 x = hn::Zero(D32()), y = x;
  for (int k = 0; k < kSamples; k += kRows * kPatch) {
    const V16 d = hn::Load(d16, difference + k);
    x = MulPairs(hn::Load(d16, slope_x + k), d, x);
    y = MulPairs(hn::Load(d16, slope_y + k), d, y);
  }
  return {total(x), total(y)};
}

#endif

struct Patch {
  const MotionSearch* s;
  int x, y;  // its first sample
  alignas(64) int16_t samples[kSamples];
  alignas(64) int16_t slope_x[kSamples], slope_y[kSamples];
  // The differences of two vectors: one is kept while another is compared.
  alignas(64) int16_t differences[2][kSamples];

  // Returns where n x n samples from (x0, y0) on can be read, and sets the pitch.
  const uint8_t* window(const uint8_t* level, int x0, int y0, int n, uint8_t* copy,
                        ptrdiff_t* pitch) const {
    if (x0 >= 0 && y0 >= 0 && x0 + n <= s->width && y0 + n <= s->height) {
      *pitch = s->width;
      return level + ptrdiff_t(y0) * s->width + x0;
    }
    *pitch = 16;
    copy_edges(level, s->width, s->height, x0, y0, n, n, copy, 16);
    return copy;
  }

  Solver load() {
    constexpr int n = kPatch + 2;
    uint8_t copy[16 * n];
    ptrdiff_t pitch;
    const uint8_t* in = window(s->picture, x - 1, y - 1, n, copy, &pitch) + pitch + 1;
    const SlopeSums sums = load_patch(in, pitch, samples, slope_x, slope_y);
    return solver_of(sums.xx, sums.xy, sums.yy);
  }

  // Subtracts the patch from the picture before, read along a vector, and returns the sum of the
  // squared differences.
  int subtract(int vx, int vy, int16_t* difference) const {
    uint8_t copy[16 * kWindow];
    ptrdiff_t pitch;
    const uint8_t* in = window(s->before, x + (vx >> 4), y + (vy >> 4), kWindow, copy, &pitch);
    return subtract_patch(in, pitch, vx & 15, vy & 15, samples, difference);
  }
};

void search_patch(const MotionSearch& s, int i, int j, Patch* patch) {
  patch->s = &s;
  patch->x = kSpacing * i - kBefore;
  patch->y = kSpacing * j - kBefore;
  const Solver solver = patch->load();
  int16_t *best = patch->differences[0], *other = patch->differences[1];
  int best_x = 0, best_y = 0;
  const int without = patch->subtract(0, 0, best);
  int with = without;
  if (s.coarse) {
    LevelVector near[kNear], starts[1 + kNear] = {};
    for (int k = 0; k < kNear; k++) {
      const int p = std::clamp(coarser(i, is_second_across(k)), 0, s.coarse_columns - 1);
      const int q = std::clamp(coarser(j, is_second_down(k)), 0, s.coarse_rows - 1);
      near[k] = s.coarse[size_t(q) * s.coarse_columns + p];
    }
    if (s.starts == 1)
      std::stable_sort(near, near + kNear, [](const LevelVector& a, const LevelVector& b) {
        return a.residual < b.residual;
      });
    for (int k = 0; k < s.starts; k++) {
      const LevelVector &a = near[k], &b = near[s.starts == 1 ? 1 : k];
      starts[k + 1].x = int16_t(a.x + b.x);
      starts[k + 1].y = int16_t(a.y + b.y);
    }
    for (int k = 1; k <= s.starts; k++) {
      // A vector that was compared already cannot be better.
      bool is_new = true;
      for (int m = 0; m < k && is_new; m++)
        is_new = starts[k].x != starts[m].x || starts[k].y != starts[m].y;
      if (!is_new) continue;
      const int squares = patch->subtract(starts[k].x, starts[k].y, other);
      if (squares >= with) continue;
      with = squares;
      best_x = starts[k].x;
      best_y = starts[k].y;
      std::swap(best, other);
    }
  }
  int x = best_x, y = best_y, squares = with;
  for (int k = 0; k < s.steps; k++) {
    const DifferenceSums d = multiply_patch(patch->slope_x, patch->slope_y, best);
    const int by_x = step_x(solver, d.x, d.y), by_y = step_y(solver, d.x, d.y);
    if (!by_x && !by_y) break;  // the next steps would be the same
    x -= by_x;
    y -= by_y;
    squares = patch->subtract(x, y, best);
  }
  if (squares < with) {
    with = squares;
    best_x = x;
    best_y = y;
  }
  if (s.field) {
    const MotionVector v = {int16_t(best_x), int16_t(best_y), residual_of(with),
                            residual_of(without)};
    std::memcpy(s.field + j * s.stride + i * ptrdiff_t(sizeof v), &v, sizeof v);
  } else {
    s.out[size_t(j) * s.columns + i] = {int16_t(best_x), int16_t(best_y), residual_of(with)};
  }
}

void search_rows(const MotionSearch& s, int j0, int j1) {
  Patch patch;
  for (int j = j0; j < j1; j++)
    for (int i = 0; i < s.columns; i++) search_patch(s, i, j, &patch);
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(halve_rows);
HWY_EXPORT(mean_rows);
HWY_EXPORT(search_rows);

void motion_halve_rows(const MotionPicture& from, int width, int height, int y0, int y1,
                       uint8_t* to, char* scratch) {
  HWY_DYNAMIC_DISPATCH(halve_rows)(from, width, height, y0, y1, to, scratch);
}
void motion_mean_rows(const uint8_t* from, int width, int height, int y0, int y1, uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(mean_rows)(from, width, height, y0, y1, to);
}
void motion_search_rows(const MotionSearch& search, int j0, int j1) {
  HWY_DYNAMIC_DISPATCH(search_rows)(search, j0, j1);
}
size_t motion_row_scratch(int width) {
  return (size_t(width) + 2 * kRowBorder) * sizeof(uint32_t);
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
