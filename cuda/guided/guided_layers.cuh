// These device helpers of the guided matte's layers find where pixels lie among samples, convert
// colours to halves, and find the subject's and the background's colours of a pixel.
#pragma once

#include "cuda/guided/guided.cuh"
#include "cuda/guided/guided_layers.h"

namespace vf::cuda {

// Finds where a place, in pixels, lies among n samples: after which one, and the distance from it.
__device__ __forceinline__ float place_at(float at, float per_s, int n, int* before) {
  const float t = fminf(fmaxf(at * per_s - .5f, 0.f), float(n - 1));
  const float whole = floorf(t);
  *before = int(whole);
  return t - whole;
}
__device__ __forceinline__ float place(int i, float per_s, int n, int* before) {
  return place_at(float(i) + .5f, per_s, n, before);
}

__device__ __forceinline__ float low_half(uint32_t v) {
  return __half2float(__ushort_as_half(uint16_t(v)));
}
__device__ __forceinline__ float high_half(uint32_t v) {
  return __half2float(__ushort_as_half(uint16_t(v >> 16)));
}

// Interpolates the values of the four of width x height samples around a place of the frame.
template <class T, class Value>
__device__ __forceinline__ auto value_at(const T* samples, int width, int height, float x, float y,
                                         float per_s, const Value& value) {
  int i, j;
  const float fx = place_at(x, per_s, width, &i), fy = place_at(y, per_s, height, &j);
  const int i1 = min(i + 1, width - 1), j1 = min(j + 1, height - 1);
  const T *top = samples + size_t(j) * width, *bottom = samples + size_t(j1) * width;
  const auto at = [&](const T* p) { return value(__ldg(p)); };
  return lerp(lerp(at(top + i), at(top + i1), fx), lerp(at(bottom + i), at(bottom + i1), fx), fy);
}
__device__ __forceinline__ float4 means_at(const GuidedCoefficients& g, float x, float y) {
  return value_at(g.mean, g.grid.width, g.grid.height, x, y, 1.f / g.grid.subsample,
                  [](const float4& v) { return v; });
}

// Three halves.
struct Halves {
  float v[3];
};
__device__ __forceinline__ Halves halves_of(uint2 v) {
  return {{low_half(v.x), high_half(v.x), low_half(v.y)}};
}

// Colours are codes of 8 bits less kLayerMiddle, because halves are finest near 0. The fourth value
// of a layer is the variance of its colours, in squared codes.
constexpr float kLayerMiddle = 128;
struct LayerColors {
  float subject[4], behind[4];
};
__device__ __forceinline__ LayerColors layer_colors(uint4 v) {
  return {{low_half(v.x), high_half(v.x), low_half(v.y), high_half(v.y)},
          {low_half(v.z), high_half(v.z), low_half(v.w), high_half(v.w)}};
}
__device__ __forceinline__ LayerColors lerp(const LayerColors& a, const LayerColors& b, float t) {
  LayerColors out;
#pragma unroll
  for (int c = 0; c < 4; c++) {
    out.subject[c] = fmaf(t, b.subject[c] - a.subject[c], a.subject[c]);
    out.behind[c] = fmaf(t, b.behind[c] - a.behind[c], a.behind[c]);
  }
  return out;
}

// Removes the background's share from the colours v of a pixel whose matte q is above 0. f and b
// have the colours and the variance of the two layers. `middle` was subtracted from all colours.
// The result is limited to the range of the format.
__device__ __forceinline__ void estimate_colors(const GuidedResult& g, const float* f,
                                                const float* b, float q, float middle, float* v) {
  const float full = g.full, more = float(GuidedLayers::kSpread) * full * full;
  const float of_f = f[3] + more, of_b = b[3] + more;
  const float variance = q * q * of_f + (1 - q) * (1 - q) * of_b;
  float rest[3], change[3], unexplained = variance, from_subject = of_f;
#pragma unroll
  for (int c = 0; c < 3; c++) {
    change[c] = f[c] - v[c];
    rest[c] = (1 - q) * (v[c] - b[c]) - q * change[c];
    unexplained = fmaf(rest[c], rest[c], unexplained);
    from_subject = fmaf(change[c], change[c], from_subject);
  }
  const float share = __fdividef(of_f, variance), gain = q * share;
  const float ratio = share * __fdividef(unexplained, from_subject);
  float in = __saturatef(q * float(1 / GuidedLayers::kFull)) *
             __fdividef(1.f, fmaf(g.layers.doubt * ratio, ratio, 1.f));
#pragma unroll
  for (int c = 0; c < 3; c++) change[c] = fmaf(gain, rest[c], change[c]);
  if (g.layers.doubts) {
    float along = 0, length = 0;
#pragma unroll
    for (int c = 0; c < 3; c++) {
      along = fmaf(change[c], v[c] - b[c], along);
      length = fmaf(change[c], change[c], length);
    }
    in *= __saturatef(__fdividef((1 - q) * along, q * length));  // which is 0 for NaN
  } else {
    const float odds = __fdividef(1 - q, q);
#pragma unroll
    for (int c = 0; c < 3; c++)
      change[c] = fminf(fmaxf(change[c], odds * (v[c] + middle - full)), odds * (v[c] + middle));
  }
#pragma unroll
  for (int c = 0; c < 3; c++)
    v[c] = fminf(fmaxf(fmaf(in, change[c], v[c]), -middle), full - middle);
}

// Does the same for pixel (x, y), with colours as values in memory.
__device__ __forceinline__ void estimate_at(const GuidedResult& g, int x, int y, float q,
                                            float* v) {
  const GuidedLayerColors& l = g.layers;
  if (!l.found || q == 0 || q == 1) return;
  const LayerColors at_pixel =
      value_at(l.found, l.width, l.height, x + .5f, y + .5f, 1.f / GuidedLayers::kStep,
               [](const uint4& v) { return layer_colors(v); });
  float f[4], b[4];
#pragma unroll
  for (int c = 0; c < 3; c++) {
    f[c] = (at_pixel.subject[c] + kLayerMiddle) * l.unit;
    b[c] = (at_pixel.behind[c] + kLayerMiddle) * l.unit;
  }
  f[3] = at_pixel.subject[3] * l.unit * l.unit;
  b[3] = at_pixel.behind[3] * l.unit * l.unit;
  float seen[3], found[3];
#pragma unroll
  for (int c = 0; c < 3; c++) found[c] = seen[c] = fminf(fmaxf(v[c], 0.f), g.full);
  estimate_colors(g, f, b, q, 0, found);
#pragma unroll
  for (int c = 0; c < 3; c++) v[c] += found[c] - seen[c];
}

__device__ __forceinline__ float4 blurred_colors(uint2 v) {
  return make_float4(low_half(v.x), high_half(v.x), low_half(v.y), 0);
}

// Finds the background of pixel (x, y), in values in memory.
__device__ __forceinline__ void background_at(const GuidedResult& g, int x, int y, float* out) {
  const GuidedLayerColors& l = g.layers;
  if (!l.blurred) {
#pragma unroll
    for (int c = 0; c < 3; c++) out[c] = g.background[c];
    return;
  }
  const float4 v = value_at(l.blurred, l.blurred_width, l.blurred_height, x + .5f, y + .5f,
                            1.f / l.blurred_step, [](const uint2& v) { return blurred_colors(v); });
  out[0] = (v.x + kLayerMiddle) * l.unit;
  out[1] = (v.y + kLayerMiddle) * l.unit;
  out[2] = (v.z + kLayerMiddle) * l.unit;
}

// Values of MatteOutput.
enum { kOutputAlpha, kOutputPremultiplied, kOutputMatte, kOutputComposite };

// Returns a colour without the key's hue.
__device__ __forceinline__ float despilled(const GuidedResult& g, const float* v, int c) {
  if (!g.despill) return v[c];
  const float cb = chroma_of(g.chroma, 0, v), cr = chroma_of(g.chroma, 1, v);
  const float along = cb * g.hue[0] + cr * g.hue[1];
  const float across = fabsf(cb * g.hue[1] - cr * g.hue[0]);
  return v[c] - g.spill[c] * fmaxf(0.f, along - across);
}

// Returns a colour of the result where the matte is q and the background `behind`.
__device__ __forceinline__ float colour(const GuidedResult& g, float v, float q, int c,
                                        float behind) {
  switch (g.output) {
    case kOutputPremultiplied:
      return fmaf(v - g.black[c], q, g.black[c]);
    case kOutputMatte:
      return fmaf(g.white[c] - g.black[c], q, g.black[c]);
    case kOutputComposite: {
      const float under = g.background_alpha * (1 - q), a = q + under;
      return a > 0 ? __fdividef(fmaf(v, q, behind * under), a) : behind;
    }
    default:
      return v;
  }
}
__device__ __forceinline__ float opacity(const GuidedResult& g, float q) {
  if (g.opaque) return g.full;
  if (g.output == kOutputComposite) q += g.background_alpha * (1 - q);
  return q * g.full;
}

// Finds the result's colours of a pixel whose source has the colours `seen`.
__device__ __forceinline__ void colours(const GuidedResult& g, int x, int y, const float* seen,
                                        float q, float* out) {
  float v[3] = {seen[0], seen[1], seen[2]}, own[3], behind[3] = {};
  estimate_at(g, x, y, q, v);
  if (g.output == kOutputComposite) background_at(g, x, y, behind);
#pragma unroll
  for (int c = 0; c < 3; c++) own[c] = out[c] = colour(g, despilled(g, v, c), q, c, behind[c]);
  if (!g.converts) return;
#pragma unroll
  for (int c = 0; c < 3; c++)
    out[c] = fmaf(g.convert[c][0], own[0],
                  fmaf(g.convert[c][1], own[1], fmaf(g.convert[c][2], own[2], g.convert[c][3])));
}

}  // namespace vf::cuda
