// The guided matte's stages on the CPU read frames by these functions, which are compiled once for
// each instruction set.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "cpu/arena.h"
#include "cpu/guided.h"
#include "cpu/queue.h"

#if defined(VF_CPU_GUIDED_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VF_CPU_GUIDED_LOAD_INL_H_
#undef VF_CPU_GUIDED_LOAD_INL_H_
#else
#define VF_CPU_GUIDED_LOAD_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

#define VF_RESTRICT __restrict__

inline float clamp01(float v) {
  return std::min(std::max(v, 0.0f), 1.0f);
}

// Loads a component's values at pixels first, first + step, ... of row y of the frame.
template <class T, class Out>
inline void load(const Image& image, const Component& c, int y, int first, int step, int last,
                 int n, Out* VF_RESTRICT out) {
  const PlaneLayout& p = image.layout.plane[c.plane];
  const T* VF_RESTRICT row = row_of<const T>(image, c.plane, y >> p.sub_y) + c.channel;
  const int pixel = p.pixel_step(), sub = p.sub_x;
  if (step == 1 && !sub) {
    if (pixel == 1)
      for (int i = 0; i < n; i++) out[i] = Out(row[i]);
    else if (pixel == 4)
      for (int i = 0; i < n; i++) out[i] = Out(row[4 * i]);
    else
      for (int i = 0; i < n; i++) out[i] = Out(row[size_t(i) * pixel]);
    return;
  }
  for (int i = 0; i < n; i++)
    out[i] = Out(row[size_t(std::min(first + i * step, last) >> sub) * pixel]);
}

// Makes the chroma key's mask for a row of colours in memory's scale.
template <class T, class Out>
inline void key(const GuidedTask& t, const Out* const VF_RESTRICT c[3], int n,
                Out* VF_RESTRICT out) {
  const GuidedParams& p = t.params;
  const float scale = float(t.scale), codes = float(t.scale / t.unit), unit = float(t.unit);
  float m[2][4];
  for (int i = 0; i < 2; i++) {
    m[i][3] = float(-t.key[i]);
    for (int k = 0; k < 3; k++) {
      m[i][k] = float(p.to_ycbcr[1 + i][k] / t.scale);
      m[i][3] -= float(p.to_ycbcr[1 + i][k] * p.black[k]);
    }
  }
  const float tolerance = float(p.key_tolerance);
  const float slope = p.key_softness > 0 ? float(1 / p.key_softness) : 0;
  const Out *VF_RESTRICT r = c[0], *VF_RESTRICT g = c[1], *VF_RESTRICT b = c[2];
  for (int i = 0; i < n; i++) {
    const float cb =
        m[0][0] * float(r[i]) + m[0][1] * float(g[i]) + m[0][2] * float(b[i]) + m[0][3];
    const float cr =
        m[1][0] * float(r[i]) + m[1][1] * float(g[i]) + m[1][2] * float(b[i]) + m[1][3];
    const float d = std::sqrt(cb * cb + cr * cr) - tolerance;
    const float v = slope > 0 ? clamp01(d * slope) : d > 0 ? 1.0f : 0.0f;
    out[i] = std::is_same_v<T, float> ? Out(v * scale) : Out(float(int(v * codes + 0.5f)) * unit);
  }
}

// Loads the external mask, in memory's scale, at n positions in half pixels: in row hy, at first,
// first + step, ... and at most last.
template <class T, class Out>
inline void mask_row(const GuidedTask& t, const PackedMask& mask, int hy, int first, int step,
                     int last, int n, Out* VF_RESTRICT out) {
  std::fill_n(out, n, Out(0));
  const auto codes = int64_t(t.scale / t.unit);
  for (int i = 0; i < mask.count; i++) {
    const MaskPlace& m = mask.place[i];
    if (hy < m.y.first || hy > m.y.last) continue;
    const int py = m.y.position(hy);
    for (int x = 0; x < n; x++) {
      const int hx = std::min(first + x * step, last);
      if (hx < m.x.first || hx > m.x.last) continue;
      const int v = mask_value(mask.memory, m, m.x.position(hx), py);
      if constexpr (std::is_same_v<T, float>)
        out[x] = std::max(out[x], Out(float(v) * (1.0f / kMaskOne)));
      else if constexpr (std::is_same_v<T, uint8_t>)
        out[x] = std::max(out[x], Out((v + (1 << 15)) >> 16));
      else
        out[x] = std::max(out[x], Out((2 * codes * v + kMaskOne) / (2 * kMaskOne) * t.unit));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
