// The layers of the guided matte at the frame's resolution, for its last stage on the CPU; compiled
// once for each instruction set.
#include <algorithm>
#include <cfloat>

#include "cpu/arena.h"
#include "cpu/guided.h"

#if defined(VF_CPU_GUIDED_LAYERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VF_CPU_GUIDED_LAYERS_INL_H_
#undef VF_CPU_GUIDED_LAYERS_INL_H_
#else
#define VF_CPU_GUIDED_LAYERS_INL_H_
#endif

#include <hwy/highway.h>

#include "cpu/guided_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

// Scratch memory. `low` has rows of samples at the height of a row of pixels, the last value
// repeated. `colors` has the subject's colours in a row of a plane; row, sub_x and sub_y tell which
// row it is.
struct LayerRows {
  float *low[8] = {}, *colors[3] = {};
  int row = -1, sub_x = 0, sub_y = 0;
};

inline void take_layer_rows(const GuidedFrame& f, Arena* arena, LayerRows* rows) {
  const GuidedLayers& l = f.task.layers;
  if (!l.used()) return;
  for (float*& p : rows->low) p = arena->take<float>(size_t(l.width) + 1);
  for (float*& p : rows->colors) p = arena->take<float>(f.task.width);
}

// Interpolates row y of the frame from a plane of width x height samples of `step` pixels.
inline void between_rows(const float* plane, int width, int height, int step, int y,
                         float* VF_RESTRICT out) {
  const double v = std::min(std::max((y + 0.5) / step - 0.5, 0.0), height - 1.0);
  const int j = int(v);
  const float down = float(v - j);
  const float* VF_RESTRICT a = plane + size_t(j) * width;
  const float* VF_RESTRICT b = plane + size_t(std::min(j + 1, height - 1)) * width;
  for (int x = 0; x < width; x++) out[x] = a[x] + down * (b[x] - a[x]);
  out[width] = out[width - 1];
}

// Copies values x0 to x1 of a row of `from`, which are 2^shift apart.
inline void every(int shift, const float* VF_RESTRICT from, int x0, int x1,
                  float* VF_RESTRICT out) {
  if (shift == 0)
    std::copy(from + x0, from + x1, out + x0);
  else if (shift == 1)
    for (int x = x0; x < x1; x++) out[x] = from[2 * size_t(x)];
  else
    for (int x = x0; x < x1; x++) out[x] = from[size_t(x) << shift];
}

// Pixels are examined in chunks of this size, because most rows need a layer in few places.
constexpr int kLayerChunk = 64;

// Finds the subject's colours at the pixels of row y that a row of `plane` has, where the matte is
// q.
inline void foreground_row(const GuidedFrame& f, LayerRows* rows, int y, const PlaneLayout& plane,
                           const float* VF_RESTRICT q, const float* const colors[3]) {
  if (rows->row == y && rows->sub_x == plane.sub_x && rows->sub_y == plane.sub_y) return;
  rows->row = y;
  rows->sub_x = plane.sub_x;
  rows->sub_y = plane.sub_y;
  const GuidedLayers& l = f.task.layers;
  const GuidedLayerPlanes& p = f.layers;
  const int n = plane.width, shift = plane.sub_x;
  bool ready = false;
  for (int x0 = 0; x0 < n; x0 += kLayerChunk) {
    const int x1 = std::min(x0 + kLayerChunk, n);
    for (int c = 0; c < 3; c++) every(shift, colors[c], x0, x1, rows->colors[c]);
    // Compilers vectorise this form, and not minimum and maximum.
    int some = 0, part = 0;
    for (int x = x0; x < x1; x++) {
      some |= q[x] > 0;
      part |= q[x] < 1;
    }
    if (!some || !part) continue;
    for (int c = 0; c < 4 && !ready; c++) {
      between_rows(p.subject[c], l.width, l.height, GuidedLayers::kStep, y, rows->low[c]);
      between_rows(p.behind[c], l.width, l.height, GuidedLayers::kStep, y, rows->low[4 + c]);
    }
    ready = true;
    const int* VF_RESTRICT left = p.pixels.left;
    const float* VF_RESTRICT weight = p.pixels.weight;
    const float* low[8];
    std::copy_n(rows->low, 8, low);
    const float doubt = l.doubt();
    float* VF_RESTRICT out[3] = {rows->colors[0], rows->colors[1], rows->colors[2]};
    for (int x = x0; x < x1; x++) {
      const size_t at = size_t(x) << shift;
      const int i = left[at];
      const float w = weight[at], a = q[x];
      const auto between = [&](int k) { return low[k][i] + w * (low[k][i + 1] - low[k][i]); };
      constexpr float spread = float(GuidedLayers::kSpread);
      const float of_f = between(3) + spread, of_b = between(7) + spread;
      const float variance = a * a * of_f + (1 - a) * (1 - a) * of_b;
      float seen[3], above[3], rest[3], change[3], unexplained = variance, from_subject = of_f;
      for (int c = 0; c < 3; c++) {
        seen[c] = clamp01(out[c][x]);
        change[c] = between(c) - seen[c];
        above[c] = seen[c] - between(4 + c);
        rest[c] = (1 - a) * above[c] - a * change[c];
        unexplained += rest[c] * rest[c];
        from_subject += change[c] * change[c];
      }
      const float per = 1 / variance, ratio = unexplained * per * of_f / from_subject;
      constexpr float slope = float(1 / GuidedLayers::kFull);
      const float gain = a * of_f * per;
      float in = std::min(1.0f, slope * a) / (1 + doubt * ratio * ratio);
      float along = 0, length = 0;
      for (int c = 0; c < 3; c++) {
        change[c] += gain * rest[c];
        along += change[c] * above[c];
        length += change[c] * change[c];
      }
      if (l.doubts) {
        in *= clamp01((1 - a) * along / std::max(a * length, FLT_MIN));
      } else {
        const float odds = (1 - a) / std::max(a, FLT_MIN);
        for (int c = 0; c < 3; c++)
          change[c] = std::min(std::max(change[c], odds * (seen[c] - 1)), odds * seen[c]);
      }
      for (int c = 0; c < 3; c++) out[c][x] += clamp01(seen[c] + in * change[c]) - seen[c];
    }
  }
}

// Puts channel c over the blurred background, at n pixels 2^shift apart of row y, where the
// matte is q.
inline void over_blur(const GuidedFrame& f, const LayerRows& rows, int y, int shift, int n, int c,
                      const float* VF_RESTRICT q, float* VF_RESTRICT color) {
  const GuidedLayers& l = f.task.layers;
  const GuidedLayerPlanes& p = f.layers;
  between_rows(p.blurred[c], l.cell_width, l.cell_height, GuidedLayers::kStep * l.cell, y,
               rows.low[0]);
  const int* VF_RESTRICT left = p.cell_pixels.left;
  const float *VF_RESTRICT weight = p.cell_pixels.weight, *VF_RESTRICT in = rows.low[0];
  const auto put = [&](int x, int at) {
    const int i = left[at];
    const float back = in[i] + weight[at] * (in[i + 1] - in[i]);
    color[x] = back + q[x] * (color[x] - back);
  };
  if (shift == 0)
    for (int x = 0; x < n; x++) put(x, x);
  else
    for (int x = 0; x < n; x++) put(x, x << shift);
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
