// Reads the external mask (filters/guided_mask.h) on the device.
#pragma once

#include "cuda/guided/guided.cuh"
#include "cuda/guided/guided_colors.h"

namespace vf::cuda {

// Returns the mask at a position in half pixels of the frame, in units of 1 / kMaskOne. Parts are
// few and small: neighbouring threads read the same ones from the cache.
__device__ __forceinline__ int mask_at(const ExternalMask& g, int hx, int hy) {
  int maximum = 0;
  for (int i = 0; i < g.count; i++) {
    const MaskPlace* const m = g.places + i;
    if (hx < m->x.first || hx > m->x.last || hy < m->y.first || hy > m->y.last) continue;
    const auto position = [](const MaskAxis& axis, int h) {
      const long long at = (axis.start + axis.step * h) >> MaskAxis::kShift;
      return int(min(max(at, (long long)axis.minimum), (long long)axis.maximum));
    };
    const int px = position(m->x, hx), py = position(m->y, hy), fx = px & 255, fy = py & 255;
    const uint8_t* const top = g.bytes + m->at + size_t(py >> 8) * m->pitch + (px >> 8);
    // The last pixel's neighbour has no weight, and may not exist.
    const uint8_t* const bottom = top + (fy ? m->pitch : 0);
    const int right = fx ? 1 : 0;
    const int a = (256 - fx) * __ldg(top) + fx * __ldg(top + right);
    const int b = (256 - fx) * __ldg(bottom) + fx * __ldg(bottom + right);
    maximum = max(maximum, (256 - fy) * a + fy * b);
  }
  return maximum;
}

__device__ __forceinline__ uint32_t mask_byte(int v) {
  return uint32_t(v + (1 << 15)) >> 16;
}

// Returns the mask at the centre of a sample of 4 x 4 pixels of a frame.
__device__ __forceinline__ uint32_t mask_at_centre(const ExternalMask& mask, int x, int y,
                                                   int width, int height) {
  return mask_byte(mask_at(mask, min(GuidedColors::kStep * (2 * x + 1), 2 * width - 1),
                           min(GuidedColors::kStep * (2 * y + 1), 2 * height - 1)));
}

// Makes a thread's sample for refine=colors or the layers, of which `make` returns the word. The
// mask in the word does not count if it is external.
template <bool external, class Make>
__device__ __forceinline__ void make_sample(const GuidedSource& g, const ExternalMask& mask,
                                            const SampleWords& to, Make&& make) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31), y = blockIdx.y * 8 + (threadIdx.x >> 5);
  wait_for_previous();
  let_next_start();
  if (x >= to.pitch || y >= to.height) return;
  uint32_t word = make(x, y);
  if (external) word = (word & 0x00ffffff) | mask_at_centre(mask, x, y, g.width, g.height) << 24;
  to.data[size_t(y) * to.pitch + x] = word;
}

template <class T>
__device__ __forceinline__ T mask_component(const GuidedSource& g, int v) {
  if (std::is_same<T, float>::value) return T(float(v) * (1.f / kMaskOne));
  if (sizeof(T) == 1) return T(mask_byte(v));
  const auto codes = (unsigned long long)g.codes;
  return T((2 * codes * v + kMaskOne) / (2 * kMaskOne) * (unsigned long long)g.unit);
}

}  // namespace vf::cuda
