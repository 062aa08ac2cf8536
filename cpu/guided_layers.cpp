// The layers of the guided matte on the CPU take passes over rows of samples, which are a sixteenth
// of the pixels or fewer. Sums of codes are exact integers. The compiler vectorises the plain loops
// over planes.
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/guided_layers.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "cpu/guided.h"
#include "cpu/guided_layers.h"
#include "cpu/guided_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

using L = GuidedLayers;

size_t matte(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedTask& t = f.task;
  const GuidedLayerPlanes& p = f.layers;
  const int n = t.layers.width;
  Arena arena(memory);
  float* row[4];
  for (float*& r : row) r = arena.take<float>(size_t(f.low_pitch));
  const double s = t.params.subsample;
  for (int y = y0; y < y1; y++) {
    const double v = std::clamp(L::kStep * (y + 0.5) / s - 0.5, 0.0, t.low_height - 1.0);
    const int j = int(v), below = std::min(j + 1, t.low_height - 1);
    const float down = float(v - j);
    for (int k = 0; k < 4; k++) {
      const float* VF_RESTRICT a = f.mean[k] + size_t(j) * f.low_pitch;
      const float* VF_RESTRICT b = f.mean[k] + size_t(below) * f.low_pitch;
      float* VF_RESTRICT o = row[k];
      for (int x = 0; x < f.low_pitch; x++) o[x] = a[x] + down * (b[x] - a[x]);
    }
    const size_t at = size_t(y) * n;
    const int* VF_RESTRICT left = p.centres.left;
    const float* VF_RESTRICT weight = p.centres.weight;
    uint8_t* VF_RESTRICT alpha = p.alpha + at;
    uint16_t* VF_RESTRICT clear = p.clear + at;
    for (int x = 0; x < n; x++) {
      const int i = left[x];
      float q = row[3][i] + weight[x] * (row[3][i + 1] - row[3][i]);
      for (int c = 0; c < 3; c++)
        q += (row[c][i] + weight[x] * (row[c][i + 1] - row[c][i])) *
             (float(p.guide[c][at + x]) * (1 / 255.0f) - f.midpoint);
      q = clamp01(q);
      alpha[x] = uint8_t(int(q * 255 + 0.5f));
      constexpr float steep = float(L::kClear / L::kEdge);
      clear[x] = uint16_t(int(std::max(0.0f, float(L::kClear) - steep * q) + 0.5f));
    }
  }
  return arena.used();
}

// An estimate has these sums for the subject, and as many for the background. The first three add
// weights times the channels of the colours, the next one adds weights, and the last one adds
// weights times the squares of the colours.
constexpr int kLayerSums = 5;

// Returns L::purity(a) by floats, which vector units are faster at. It is exact.
inline float purity(int a) {
  const float share = float(a);
  return float(int(share * share * share * (1 / 65025.0f) + 0.5f));
}

// Adds a row of samples to the columns' sums, or takes it out of them. `sign` is 1 or ~0. `row` has
// room for a row. Loops over few planes are vectorised.
void enter(const GuidedFrame& f, int y, uint32_t sign, uint32_t* const* sum,
           uint32_t* VF_RESTRICT row) {
  const int n = f.task.layers.width;
  const size_t at = size_t(y) * n;
  const uint8_t* VF_RESTRICT a = f.layers.alpha + at;
  for (int layer = 0; layer < 2; layer++) {
    const int flip = layer ? 255 : 0;
    for (int x = 0; x < n; x++) row[x] = sign * uint32_t(int(purity(a[x] ^ flip)));
    uint32_t* const* s = sum + layer * kLayerSums;
    uint32_t *VF_RESTRICT all = s[3], *VF_RESTRICT squares = s[4];
    for (int x = 0; x < n; x++) all[x] += row[x];
    for (int c = 0; c < 3; c++) {
      const uint8_t* VF_RESTRICT in = f.layers.guide[c] + at;
      uint32_t* VF_RESTRICT out = s[c];
      for (int x = 0; x < n; x++) {
        const uint32_t weighted = row[x] * in[x];
        out[x] += weighted;
        squares[x] += weighted * in[x];
      }
    }
  }
}

size_t estimate(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedLayers& l = f.task.layers;
  const GuidedLayerPlanes& p = f.layers;
  constexpr int r = L::kRadius, sums = 2 * kLayerSums;
  const int n = l.width;
  Arena arena(memory);
  uint32_t *sum[sums], *window[sums];
  for (uint32_t*& s : sum) s = arena.take<uint32_t>(n, r);
  for (uint32_t*& w : window) w = arena.take<uint32_t>(n);
  uint32_t* const row = arena.take<uint32_t>(n);
  float *const weight = arena.take<float>(n), *const per = arena.take<float>(n);
  if (y0 >= y1) return arena.used();
  for (uint32_t* s : sum) std::fill_n(s - r, n + 2 * r, 0u);
  const int first = std::max(0, y0 - r);
  for (int y = first; y < std::min(y0 + r, l.height); y++) enter(f, y, 1, sum, row);
  for (int y = y0; y < y1; y++) {
    if (y + r < l.height) enter(f, y + r, 1, sum, row);
    if (y - r - 1 >= first) enter(f, y - r - 1, ~0u, sum, row);
    for (int k = 0; k < sums; k++) {
      const uint32_t* VF_RESTRICT s = sum[k];
      uint32_t* VF_RESTRICT w = window[k];
      for (int x = 0; x < n; x++) {
        uint32_t total = 0;
        for (int d = -r; d <= r; d++) total += s[x + d];
        w[x] = total;
      }
    }
    const int rows = std::min(y + r, l.height - 1) - std::max(y - r, 0) + 1;
    const size_t at = size_t(y) * n;
    const uint8_t* VF_RESTRICT alpha = p.alpha + at;
    {
      const uint32_t *VF_RESTRICT subject = window[3], *VF_RESTRICT behind = window[3 + kLayerSums];
      float* VF_RESTRICT own = weight;
      for (int x = 0; x < n; x++) {
        const int count = rows * (std::min(x + r, n - 1) - std::max(x - r, 0) + 1);
        const float all = 255.0f * float(count);
        const float soft = (all - float(int(subject[x] + behind[x]))) / all, square = soft * soft;
        own[x] = float(L::kOwn) + 2 * all * square * square;
      }
    }
    for (int layer = 0; layer < 2; layer++) {
      uint32_t* const* w = window + layer * kLayerSums;
      float* const* to = layer ? p.behind : p.subject;
      const uint32_t *VF_RESTRICT all = w[3], *VF_RESTRICT squares = w[4];
      const float* VF_RESTRICT own = weight;
      float *VF_RESTRICT spread = to[3] + at, *VF_RESTRICT each = per;
      for (int x = 0; x < n; x++) {
        each[x] = 1 / (float(int(all[x])) + own[x]);
        spread[x] = float(squares[x]) * each[x];
      }
      for (int c = 0; c < 3; c++) {
        const uint8_t* VF_RESTRICT in = p.guide[c] + at;
        const uint32_t* VF_RESTRICT sum = w[c];
        float* VF_RESTRICT out = to[c] + at;
        for (int x = 0; x < n; x++) {
          const float i = float(in[x]), mean = (float(int(sum[x])) + own[x] * i) * each[x];
          out[x] = mean * (1 / 255.0f);
          spread[x] += own[x] * i * i * each[x] - mean * mean;
        }
      }
      for (int x = 0; x < n; x++) spread[x] = std::max(spread[x], 0.0f) * (1 / 65025.0f);
    }
    for (int c = 0; c < 3; c++) {
      const uint8_t* VF_RESTRICT in = p.guide[c] + at;
      const float *VF_RESTRICT subject = p.subject[c] + at, *VF_RESTRICT behind = p.behind[c] + at;
      float* VF_RESTRICT better = p.better[c] + at;
      for (int x = 0; x < n; x++) {
        const float a = float(alpha[x]) * (1 / 255.0f), F = subject[x];
        const float found = F + a * (float(in[x]) * (1 / 255.0f) - a * F - (1 - a) * behind[x]);
        better[x] = std::min(std::max(found, 0.0f), 1.0f);
      }
    }
  }
  return arena.used();
}

size_t smooth(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedLayers& l = f.task.layers;
  const GuidedLayerPlanes& p = f.layers;
  const int n = l.width;
  Arena arena(memory);
  // Column sums with a zero at both ends.
  float *const colors = arena.take<float>(n, 1), *const all = arena.take<float>(n, 1);
  for (int y = y0; y < y1; y++)
    for (int c = 0; c < 3; c++) {
      for (float* s : {colors, all}) std::fill_n(s - 1, n + 2, 0.0f);
      for (int j = std::max(y - 1, 0); j <= std::min(y + 1, l.height - 1); j++) {
        const float* VF_RESTRICT in = p.better[c] + size_t(j) * n;
        const uint8_t* VF_RESTRICT alpha = p.alpha + size_t(j) * n;
        for (int x = 0; x < n; x++) {
          const float weight = purity(alpha[x]);
          colors[x] += weight * in[x];
          all[x] += weight;
        }
      }
      const float* VF_RESTRICT own = p.better[c] + size_t(y) * n;
      float* VF_RESTRICT out = p.subject[c] + size_t(y) * n;
      constexpr float kOwn = float(L::kOwn);
      for (int x = 0; x < n; x++)
        out[x] = (colors[x - 1] + colors[x] + colors[x + 1] + kOwn * own[x]) /
                 (all[x - 1] + all[x] + all[x + 1] + kOwn);
    }
  return arena.used();
}

// w of row y. `column` has room for the row and a sample on each side.
void weights(const GuidedFrame& f, int y, uint16_t* VF_RESTRICT column, uint16_t* VF_RESTRICT w) {
  const int n = f.task.layers.width, last = f.task.layers.height - 1;
  const uint16_t* VF_RESTRICT own = f.layers.clear + size_t(y) * n;
  const uint16_t* VF_RESTRICT above = f.layers.clear + size_t(std::max(y - 1, 0)) * n;
  const uint16_t* VF_RESTRICT below = f.layers.clear + size_t(std::min(y + 1, last)) * n;
  const uint8_t* VF_RESTRICT alpha = f.layers.alpha + size_t(y) * n;
  for (int x = 0; x < n; x++) column[1 + x] = std::min(own[x], std::min(above[x], below[x]));
  column[0] = column[1];
  column[n + 1] = column[n];
  static_assert(L::kRest == 255, "the share of a squared code value");
  for (int x = 0; x < n; x++) {
    const int rest = 255 - alpha[x];
    w[x] = uint16_t(std::min(column[x], std::min(column[x + 1], column[x + 2])) +
                    (2 * rest * rest + 255) / 510);
  }
}

size_t cells(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedLayers& l = f.task.layers;
  const GuidedLayerPlanes& p = f.layers;
  Arena arena(memory);
  uint16_t* const column = arena.take<uint16_t>(size_t(l.width) + 2);
  uint16_t* const weight = arena.take<uint16_t>(l.width);
  uint32_t* const sum = arena.take<uint32_t>(4 * size_t(l.cell_width));
  for (int y = y0; y < y1; y++) {
    std::fill_n(sum, 4 * size_t(l.cell_width), 0u);
    for (int j = y * l.cell; j < std::min((y + 1) * l.cell, l.height); j++) {
      weights(f, j, column, weight);
      for (int x = 0; x < l.cell_width; x++)
        for (int i = x * l.cell; i < std::min((x + 1) * l.cell, l.width); i++) {
          const uint32_t w = weight[i];
          for (int c = 0; c < 3; c++) sum[4 * x + c] += w * p.guide[c][size_t(j) * l.width + i];
          sum[4 * x + 3] += w;
        }
    }
    for (int x = 0; x < l.cell_width; x++)
      for (int c = 0; c < 4; c++)
        p.cells[c][size_t(y) * l.cell_width + x] = float(sum[4 * x + c]) * (c < 3 ? 1 / 255.0f : 1);
  }
  return arena.used();
}

// The weighted sums of four planes of cells, row by row; then(y, sums) ends each.
template <class Then>
size_t sums_of_cells(const GuidedFrame& f, const float* const planes[4],
                     const std::vector<float>& weight, int y0, int y1, char* memory, Then&& then) {
  const GuidedLayers& l = f.task.layers;
  const int n = l.cell_width, r = int(weight.size()) - 1;
  if (r < 0) return 0;  // no background is blurred, or not twice
  Arena arena(memory);
  float *column[4], *sum[4];
  for (float*& c : column) c = arena.take<float>(n, r);
  for (float*& s : sum) s = arena.take<float>(n);
  if (y0 >= y1) return arena.used();
  for (float* c : column) std::fill_n(c - r, n + 2 * r, 0.0f);
  for (int y = y0; y < y1; y++) {
    for (int k = 0; k < 4; k++) {
      float *VF_RESTRICT c = column[k], *VF_RESTRICT s = sum[k];
      std::fill_n(c, n, 0.0f);
      for (int j = std::max(0, y - r); j <= std::min(l.cell_height - 1, y + r); j++) {
        const float w = weight[std::abs(j - y)];
        const float* VF_RESTRICT in = planes[k] + size_t(j) * n;
        for (int x = 0; x < n; x++) c[x] += w * in[x];
      }
      std::fill_n(s, n, 0.0f);
      for (int d = -r; d <= r; d++) {
        const float w = weight[std::abs(d)];
        for (int x = 0; x < n; x++) s[x] += w * c[x + d];
      }
    }
    then(y, sum);
  }
  return arena.used();
}

size_t blur(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedLayers& l = f.task.layers;
  const GuidedLayerPlanes& p = f.layers;
  const int n = l.cell_width;
  const float enough = float(L::kFar) * float(l.cell * l.cell);
  return sums_of_cells(f, p.cells, l.weight, y0, y1, memory, [&](int y, float* const sum[4]) {
    const size_t at = size_t(y) * n;
    for (int k = 0; k < 3; k++) {
      float* VF_RESTRICT out = (l.second.empty() ? p.blurred[k] : p.filled[k]) + at;
      for (int x = 0; x < n; x++) out[x] = (sum[k][x] + enough * p.far[k]) / (sum[3][x] + enough);
      if (l.second.empty()) continue;
      // Cells are single samples then.
      const float *VF_RESTRICT own = p.cells[k] + at, *VF_RESTRICT all = p.cells[3] + at;
      constexpr float per_clear = 1.0f / L::kClear;
      for (int x = 0; x < n; x++) {
        const float clear = std::max(0.0f, all[x] - float(L::kRest)) * per_clear;
        out[x] += clear * (own[x] / std::max(1.0f, all[x]) - out[x]);
      }
      if (k == 0) std::fill_n(p.filled[3] + at, n, 1.0f);
    }
  });
}

size_t second(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedLayers& l = f.task.layers;
  const GuidedLayerPlanes& p = f.layers;
  const int n = l.cell_width;
  return sums_of_cells(f, p.filled, l.second, y0, y1, memory, [&](int y, float* const sum[4]) {
    for (int k = 0; k < 3; k++) {
      float* VF_RESTRICT out = p.blurred[k] + size_t(y) * n;
      for (int x = 0; x < n; x++) out[x] = sum[k][x] / sum[3][x];
    }
  });
}

size_t max_scratch(const GuidedFrame& f) {
  size_t maximum = 0;
  for (auto* stage : {matte, estimate, smooth, cells, blur, second})
    maximum = std::max(maximum, stage(f, 0, 0, nullptr));
  return maximum;
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(max_scratch);
size_t layers_scratch(const GuidedFrame& f) {
  return HWY_DYNAMIC_DISPATCH(max_scratch)(f);
}

VF_STAGE(GuidedFrame, layers, matte)
VF_STAGE(GuidedFrame, layers, estimate)
VF_STAGE(GuidedFrame, layers, smooth)
VF_STAGE(GuidedFrame, layers, cells)
VF_STAGE(GuidedFrame, layers, blur)
VF_STAGE(GuidedFrame, layers, second)

}  // namespace vf::cpu
#endif  // HWY_ONCE
