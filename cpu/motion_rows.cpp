// Makes pyramids and searches patches on the CPU, for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/motion_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu/motion.h"

#ifndef VF_CPU_MOTION_ROWS_ONCE
#define VF_CPU_MOTION_ROWS_ONCE
namespace vf::cpu {

constexpr int kRowBorder = 16;  // sums before and behind a row, for the repeated edge

}  // namespace vf::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

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
      out[x] = uint8_t((in[2 * x] + 3 * (in[2 * x + 1] + in[2 * x + 2]) + in[2 * x + 3] + round) >>
                       shift);
  }
}

// ---- search ------------------------------------------------------------------------------------

// Copies `n` x `n` samples from (x, y) on. Those outside repeat the nearest sample.
void gather(const uint8_t* level, int width, int height, int x, int y, int n, uint8_t* out,
            int pitch) {
  for (int j = 0; j < n; j++) {
    const uint8_t* row = level + size_t(std::clamp(y + j, 0, height - 1)) * width;
    for (int i = 0; i < n; i++) out[j * pitch + i] = row[std::clamp(x + i, 0, width - 1)];
  }
}

struct Patch {
  const MotionSearch* s;
  int x, y;  // its first sample
  alignas(64) int16_t samples[kSamples];
  alignas(64) int16_t slope_x[kSamples], slope_y[kSamples];
  alignas(64) int16_t difference[kSamples];  // of the vector that was compared last

  // Returns where n x n samples from (x0, y0) on can be read, and sets the pitch.
  const uint8_t* window(const uint8_t* level, int x0, int y0, int n, uint8_t* copy,
                        ptrdiff_t* pitch) const {
    if (x0 >= 0 && y0 >= 0 && x0 + n <= s->width && y0 + n <= s->height) {
      *pitch = s->width;
      return level + ptrdiff_t(y0) * s->width + x0;
    }
    *pitch = 16;
    gather(level, s->width, s->height, x0, y0, n, copy, 16);
    return copy;
  }

  Solver load() {
    constexpr int n = kPatch + 2;
    uint8_t copy[16 * n];
    ptrdiff_t pitch;
    const uint8_t* in = window(s->picture, x - 1, y - 1, n, copy, &pitch) + pitch + 1;
    for (int j = 0; j < kPatch; j++) {
      const uint8_t* HWY_RESTRICT row = in + j * pitch;
      for (int i = 0; i < kPatch; i++) {
        samples[j * kPatch + i] = row[i];
        slope_x[j * kPatch + i] = int16_t(row[i + 1] - row[i - 1]);
        slope_y[j * kPatch + i] = int16_t(row[i + pitch] - row[i - pitch]);
      }
    }
    const auto limit = [](int v) {
      return int16_t(v > kMostSlope ? kMostSlope : v < kLeastSlope ? kLeastSlope : v);
    };
    int xx = 0, xy = 0, yy = 0;
    for (int k = 0; k < kSamples; k++) {
      slope_x[k] = limit(slope_x[k]);
      slope_y[k] = limit(slope_y[k]);
    }
    for (int k = 0; k < kSamples; k++) {
      xx += slope_x[k] * slope_x[k];
      xy += slope_x[k] * slope_y[k];
      yy += slope_y[k] * slope_y[k];
    }
    return solver_of(xx, xy, yy);
  }

  // Subtracts the patch from the picture before, read along a vector.
  void subtract(int vx, int vy) {
    uint8_t copy[16 * kWindow];
    ptrdiff_t pitch;
    const uint8_t* in = window(s->before, x + (vx >> 4), y + (vy >> 4), kWindow, copy, &pitch);
    const auto right = uint16_t(vx & 15), down = uint16_t(vy & 15);
    const auto left = uint16_t(kUnits - right), up = uint16_t(kUnits - down);
    alignas(64) uint16_t lines[kWindow * kPatch];
    for (int j = 0; j < kWindow; j++) {
      const uint8_t* HWY_RESTRICT row = in + j * pitch;
      for (int i = 0; i < kPatch; i++)
        lines[j * kPatch + i] = uint16_t(left * row[i] + right * row[i + 1]);
    }
    for (int k = 0; k < kSamples; k++) {
      const auto v = uint16_t(uint16_t(up * lines[k]) + uint16_t(down * lines[k + kPatch]) + 128);
      difference[k] = int16_t(int16_t(v >> 8) - samples[k]);
    }
  }
  int squares() const {
    int sum = 0;
    for (int k = 0; k < kSamples; k++) sum += difference[k] * difference[k];
    return sum;
  }
  int squares(int vx, int vy) {
    subtract(vx, vy);
    return squares();
  }
};

void search_patch(const MotionSearch& s, int i, int j, Patch* patch) {
  patch->s = &s;
  patch->x = kSpacing * i - kBefore;
  patch->y = kSpacing * j - kBefore;
  const Solver solver = patch->load();
  int best_x = 0, best_y = 0;
  const int without = patch->squares(0, 0);
  int with = without;
  if (s.coarse) {
    const int columns[] = {i / 2, i % 2 ? i / 2 + 1 : i / 2 - 1};
    const int rows[] = {j / 2, j % 2 ? j / 2 + 1 : j / 2 - 1};
    for (int k = 0; k < 4; k++) {
      const int column = std::clamp(columns[k % 2], 0, s.coarse_columns - 1);
      const int row = std::clamp(rows[k / 2], 0, s.coarse_rows - 1);
      const LevelVector v = s.coarse[size_t(row) * s.coarse_columns + column];
      // A vector that was compared already cannot be better.
      if ((!v.x && !v.y) || (2 * v.x == best_x && 2 * v.y == best_y)) continue;
      const int squares = patch->squares(2 * v.x, 2 * v.y);
      if (squares >= with) continue;
      with = squares;
      best_x = 2 * v.x;
      best_y = 2 * v.y;
    }
  }
  int x = best_x, y = best_y;
  for (int k = 0; k < kIterations; k++) {
    patch->subtract(x, y);
    int xd = 0, yd = 0;
    for (int m = 0; m < kSamples; m++) {
      xd += patch->slope_x[m] * patch->difference[m];
      yd += patch->slope_y[m] * patch->difference[m];
    }
    const int by_x = step_x(solver, xd, yd), by_y = step_y(solver, xd, yd);
    if (!by_x && !by_y) break;  // the next steps would be the same
    x -= by_x;
    y -= by_y;
  }
  if (x != best_x || y != best_y) {
    const int squares = patch->squares(x, y);
    if (squares < with) {
      with = squares;
      best_x = x;
      best_y = y;
    }
  }
  if (s.field) {
    const MotionVector v = {int16_t(best_x), int16_t(best_y), residual_of(with),
                            residual_of(without)};
    std::memcpy(s.field + j * s.stride + i * ptrdiff_t(sizeof v), &v, sizeof v);
  } else {
    s.out[size_t(j) * s.columns + i] = {int16_t(best_x), int16_t(best_y)};
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
HWY_EXPORT(search_rows);

void motion_halve_rows(const MotionPicture& from, int width, int height, int y0, int y1,
                       uint8_t* to, char* scratch) {
  HWY_DYNAMIC_DISPATCH(halve_rows)(from, width, height, y0, y1, to, scratch);
}
void motion_search_rows(const MotionSearch& search, int j0, int j1) {
  HWY_DYNAMIC_DISPATCH(search_rows)(search, j0, j1);
}
size_t motion_row_scratch(int width) {
  return (size_t(width) + 2 * kRowBorder) * sizeof(uint32_t);
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
