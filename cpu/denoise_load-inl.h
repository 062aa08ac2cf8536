// Reading of frames and of factors by the denoiser's passes on the CPU; compiled once for each
// instruction set.
#include <algorithm>

#include "cpu/denoise.h"
#include "cpu/queue.h"

#if defined(VF_CPU_DENOISE_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VF_CPU_DENOISE_LOAD_INL_H_
#undef VF_CPU_DENOISE_LOAD_INL_H_
#else
#define VF_CPU_DENOISE_LOAD_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

#define VF_RESTRICT __restrict__

template <class T>
inline void load_row(const DenoiseFrame& f, int c, int y, uint16_t* VF_RESTRICT out) {
  const Component& at = f.task.from.color[c];
  const PlaneLayout& p = f.task.layout.plane[at.plane];
  const T* VF_RESTRICT row =
      row_of<const T>(f.src, at.plane, std::min(y, p.height - 1)) + at.channel;
  const int n = p.width, step = p.pixel_step(), down = f.task.layout.shift, up = 16 - f.task.depth;
  const int top = (1 << f.task.depth) - 1;
  if (step == 1)
    for (int i = 0; i < n; i++) out[i] = uint16_t((row[i] >> down & top) << up);
  else if (step == 2)
    for (int i = 0; i < n; i++) out[i] = uint16_t((row[2 * i] >> down & top) << up);
  else if (step == 4)
    for (int i = 0; i < n; i++) out[i] = uint16_t((row[4 * i] >> down & top) << up);
  else
    for (int i = 0; i < n; i++) out[i] = uint16_t((row[size_t(i) * step] >> down & top) << up);
  for (int i = n; i < f.width[c]; i++) out[i] = out[n - 1];
}

// The samples of a row of blocks, of the first `colors` components: x[c] has per_block_y rows of
// width[c].
inline void load_blocks(const DenoiseFrame& f, int b, int colors, uint16_t* const x[3]) {
  const DenoiseTask& t = f.task;
  for (int c = 0; c < colors; c++)
    for (int r = 0; r < t.per_block_y[c]; r++) {
      uint16_t* out = x[c] + size_t(r) * f.width[c];
      if (t.layout.type == Type::u8)
        load_row<uint8_t>(f, c, b * t.per_block_y[c] + r, out);
      else
        load_row<uint16_t>(f, c, b * t.per_block_y[c] + r, out);
    }
  if (!t.from.rgb) return;
  uint16_t *VF_RESTRICT r = x[0], *VF_RESTRICT g = x[1], *VF_RESTRICT a = x[2];
  for (int i = 0; i < 2 * f.width[0]; i++) {
    const vf::denoise::Three v = vf::denoise::of_rgb(r[i], g[i], a[i]);
    r[i] = uint16_t(v.v[0]);
    g[i] = uint16_t(v.v[1]);
    a[i] = uint16_t(v.v[2]);
  }
}

// Looks up a factor by the level of luma of each block. Only this loop is not vectorised.
inline void look_up(const float* VF_RESTRICT factors, const uint16_t* VF_RESTRICT p, int n,
                    float* VF_RESTRICT out) {
  for (int i = 0; i < n; i++) out[i] = factors[vf::denoise::luma_level(p[i])];
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
