// Reads frames of NV12: makes the samples of refine=colors and of the layers, and writes the guided
// matte's result at subsample 4, into such a frame or into words.
//
// Idea: a thread takes 4 x 4 pixels, four words of luma and two of chroma. They are one sample,
// whose sums dp4a makes. In the result they lie between 3 x 3 samples. Four pixels share what
// depends on their chroma alone: most of a conversion to RGB, and the chroma of a composite. A
// colour is rounded by an addition that leaves it in the second byte of a float.
//
// The result has the same bits as that of the kernels for single components (guided_apply.cu),
// because it multiplies and adds in the same order.
//
// Traffic: the frame once in for the samples; once in and once out for the result.
#include "cuda/guided/guided_colors.h"
#include "cuda/guided/guided_layers.cuh"
#include "cuda/guided/guided_mask.cuh"

namespace vf::cuda {
namespace {

// Selects the second or third colour of a pair of pixels as the mantissa of 2^23.
__device__ __forceinline__ uint32_t chroma_code(const GuidedPlanes& g, int pair, int which) {
  return 0x7650 + 2 * pair + (which ? 1 - g.first : g.first);
}

template <bool external>
__global__ __launch_bounds__(256) void samples(const GuidedSource g, const ExternalMask mask,
                                               const SampleWords to) {
  make_sample<external>(g, mask, to, [&](int x, int y) {
    const int left = 4 * min(x, to.width - 1);
    const GuidedPlanes& p = g.planes;
    uint32_t luma[4], chroma[2];
#pragma unroll
    for (int j = 0; j < 4; j++)
      luma[j] = __ldg(reinterpret_cast<const uint32_t*>(
          p.luma + size_t(min(4 * y + j, g.height - 1)) * p.luma_pitch + left));
#pragma unroll
    for (int j = 0; j < 2; j++)
      chroma[j] = __ldg(reinterpret_cast<const uint32_t*>(
          p.chroma + size_t(min(2 * y + j, g.height / 2 - 1)) * p.chroma_pitch + left));
    uint32_t sum = 8;
#pragma unroll
    for (int j = 0; j < 4; j++) sum = __dp4a(luma[j], 0x01010101u, sum);
    uint32_t word = sum >> 4;
#pragma unroll
    for (int c = 0; c < 2; c++) {
      const uint32_t ones = 0x00010001u << 8 * (c ? 1 - p.first : p.first);
      word |= __dp4a(chroma[0], ones, __dp4a(chroma[1], ones, 2u)) >> 2 << 8 * (1 + c);
    }
    if (!external) {
      uint32_t keyed = 8;
#pragma unroll
      for (int k = 0; k < 16; k++) {
        const auto byte = [](uint32_t word, uint32_t at) { return uint8_t(word >> 8 * at & 255); };
        const uint32_t two = chroma[k / 8], pair = k % 4 / 2 * 2;
        const uint8_t v[3] = {byte(luma[k / 4], k % 4), byte(two, pair + p.first),
                              byte(two, pair + 1 - p.first)};
        keyed += key_mask<uint8_t>(g, v);
      }
      word |= keyed >> 4 << 24;
    }
    return word;
  });
}

enum class Result { words, composite, blurred };

// The blurred background of 4 x 2 pixels: luma of each, and chroma of the first of each four.
struct Behind {
  float luma[2][4], chroma[2][2];
};
__device__ __forceinline__ Behind behind_of(const GuidedLayerColors& g, int x, int y) {
  // This is floor((x + 0.5) / s - 0.5) without the half pixel, which never crosses a cell's edge
  // here. From 8 pixels on, four lie between the same two cells; of 4 pixels they see three.
  const int s = g.blurred_step, left = (2 * x + s) / (2 * s) - 1, up = (2 * y + s) / (2 * s) - 1;
  const bool fine = s == GuidedLayers::kStep;
  const float per_s = __fdividef(1.f, float(s));
  const float fx = (x + .5f) * per_s - .5f - left, fy = (y + .5f) * per_s - .5f - up;
  float4 line[2][4];
#pragma unroll
  for (int j = 0; j < 2; j++) {
    const int row = min(max(up + j, 0), g.blurred_height - 1);
    const uint2* const cells = g.blurred + size_t(row) * g.blurred_width;
    float4 c[3] = {};
#pragma unroll
    for (int k = 0; k < 3; k++)
      if (k < 2 || fine)
        c[k] = blurred_colors(__ldg(cells + min(max(left + k, 0), g.blurred_width - 1)));
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float f = fx + per_s * i;
      line[j][i] = fine && i >= 2 ? lerp(c[1], c[2], f - 1) : lerp(c[0], c[1], f);
    }
  }
  Behind b;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float4 first = lerp(line[0][i], line[1][i], fy);
    b.luma[0][i] = first.x + kLayerMiddle;
    b.luma[1][i] = lerp(line[0][i], line[1][i], fy + per_s).x + kLayerMiddle;
    if (i & 1) continue;
    b.chroma[i / 2][0] = first.y + kLayerMiddle;
    b.chroma[i / 2][1] = first.z + kLayerMiddle;
  }
  return b;
}

// Rounds a value of up to 255 into the second byte. Floats of 2^15 are multiples of 1/256.
__device__ __forceinline__ uint32_t rounded(float v) {
  return __float_as_uint(__fadd_rd(v, 32768.5f));
}
// Rounds and clamps a value that is divided by 256.
__device__ __forceinline__ uint32_t clamped(float v) {
  return __float_as_uint(__fadd_rd(fminf(__saturatef(v), 255 / 256.f), 128 + 1 / 512.f));
}
// Does the same for a value that may be out of range.
__device__ __forceinline__ uint32_t rounded_any(const GuidedResult& g, float v) {
  return rounded(fminf(fmaxf(v, 0.f), g.full));
}
__device__ __forceinline__ uint32_t second_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0051), __byte_perm(c, d, 0x0051), 0x5410);
}

// `plain`: the subject's colours stay and, into words, are only converted. Otherwise registers are
// spilled, which are used only at soft edges.
template <Result result, bool plain>
__global__ __launch_bounds__(256, plain ? 4 : 3) void planes(const GuidedSource in,
                                                             const GuidedDestination to,
                                                             const GuidedCoefficients m,
                                                             const GuidedResult g) {
  const int column = blockIdx.x * 32 + (threadIdx.x & 31), x = 4 * column;
  const int pair = blockIdx.y * 8 + (threadIdx.x >> 5), y = 2 * pair;
  const bool live = x < in.width && y < in.height;
  const GuidedPlanes& p = in.planes;
  const auto read = [](const uint8_t* at) { return __ldcs(reinterpret_cast<const uint32_t*>(at)); };
  uint32_t luma[2] = {}, chroma = 0;
  if (live) {
    const uint8_t* const first = p.luma + size_t(y) * p.luma_pitch + x;
    luma[0] = read(first);
    luma[1] = read(first + p.luma_pitch);
    chroma = read(p.chroma + size_t(pair) * p.chroma_pitch + x);
  }
  wait_for_previous();
  if (!live) return;
  // The means of the samples above and below, at the four columns of pixels.
  float4 top[4], bottom[4];
  const auto along_row = [&](int row, float4(&out)[4]) {
    const float4* const means = m.mean + size_t(row) * m.grid.width;
    const float4 s[3] = {__ldg(means + max(column - 1, 0)), __ldg(means + column),
                         __ldg(means + min(column + 1, m.grid.width - 1))};
    along(s, out);
  };
  const int down = (pair + 1) / 2;
  along_row(max(down - 1, 0), top);
  along_row(min(down, m.grid.height - 1), bottom);
  const float from_top = pair & 1 ? .125f : .625f;
  float v[2][2];  // the pixels' chroma, less 128
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int c = 0; c < 2; c++) v[i][c] = code_of(chroma, chroma_code(p, i, c));
  float of_chroma[2][3];  // their part of r g b, divided by 256
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int c = 0; c < 3; c++)
      of_chroma[i][c] = fmaf(g.convert[c][1], v[i][0] + kLayerMiddle,
                             fmaf(g.convert[c][2], v[i][1] + kLayerMiddle, g.convert[c][3])) *
                        (1 / 256.f);
  // Selects the bytes of GuidedWords::order from r g in one word and b p in another.
  const uint32_t order = to.words.order + (to.words.order >> 1 & 0x1111) * 2;
  Behind behind;
  if (result == Result::blurred) behind = behind_of(g.layers, x, y);
  // Finds the subject's colours of pixel (x + i, y + j), whose matte is q and whose luma is `own`.
  const auto subject = [&](int i, int j, float own, float q, float(&out)[3]) {
    out[0] = own + kLayerMiddle;
    out[1] = v[i / 2][0] + kLayerMiddle;
    out[2] = v[i / 2][1] + kLayerMiddle;
    if (!plain) estimate_at(g, x + i, y + j, q, out);
  };
  const auto over = [&](const float(&seen)[3], int c, float q, float behind) {
    return plain ? rounded(fmaf(seen[c], q, behind * (1 - q)))
                 : rounded_any(g, colour(g, despilled(g, seen, c), q, c, behind));
  };
  float mattes[2] = {};  // sums over the pixels that share chroma
#pragma unroll
  for (int j = 0; j < 2; j++) {
    uint32_t out[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float4 ab = lerp(top[i], bottom[i], from_top + .25f * j);
      const float own = code_of(luma[j], 0x7650 + i);
      const float q = matte_of(ab, own, v[i / 2][0], v[i / 2][1]);
      mattes[i / 2] += q;
      float seen[3];
      if (result != Result::words) {
        subject(i, j, own, q, seen);
        out[i] = over(seen, 0, q, result == Result::blurred ? behind.luma[j][i] : g.background[0]);
        continue;
      }
      uint32_t code[4];
      code[3] = rounded(plain ? q * g.full : opacity(g, q));
      if (plain) {
        const float scaled = fmaf(own, 1 / 256.f, kLayerMiddle / 256);
#pragma unroll
        for (int c = 0; c < 3; c++)
          code[c] = clamped(fmaf(g.convert[c][0], scaled, of_chroma[i / 2][c]));
      } else {
        const float raw[3] = {own + kLayerMiddle, v[i / 2][0] + kLayerMiddle,
                              v[i / 2][1] + kLayerMiddle};
        colours(g, x + i, y + j, raw, q, seen);
#pragma unroll
        for (int c = 0; c < 3; c++) code[c] = rounded_any(g, seen[c]);
      }
      out[i] = __byte_perm(__byte_perm(code[0], code[1], 0x0051),
                           __byte_perm(code[2], code[3], 0x0051), order);
    }
    if (result == Result::words)
      __stcs(reinterpret_cast<uint4*>(to.words.data + size_t(y + j) * to.words.pitch + 4 * x),
             make_uint4(out[0], out[1], out[2], out[3]));
    else
      __stcs(reinterpret_cast<uint32_t*>(to.planes.luma + size_t(y + j) * to.planes.luma_pitch + x),
             second_bytes(out[0], out[1], out[2], out[3]));
  }
  if constexpr (result != Result::words) {
    uint32_t out[2][2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float mean = mattes[i] * .25f;
      float seen[3];
      subject(2 * i, 0, code_of(luma[0], 0x7650 + 2 * i), mean, seen);
#pragma unroll
      for (int c = 0; c < 2; c++)
        out[i][c] = over(seen, 1 + c, mean,
                         result == Result::blurred ? behind.chroma[i][c] : g.background[1 + c]);
    }
    const uint32_t bytes = second_bytes(out[0][0], out[0][1], out[1][0], out[1][1]);
    __stcs(
        reinterpret_cast<uint32_t*>(to.planes.chroma + size_t(pair) * to.planes.chroma_pitch + x),
        to.planes.first ? __byte_perm(bytes, 0, 0x2301) : bytes);
  }
}

}  // namespace

SamplesKernel guided_samples_of_planes(bool external) {
  return external ? samples<true> : samples<false>;
}

GuidedPixelsKernel guided_apply_planes(bool words, bool blurs, bool plain) {
  if (words) return plain ? planes<Result::words, true> : planes<Result::words, false>;
  if (blurs) return plain ? planes<Result::blurred, true> : planes<Result::blurred, false>;
  return plain ? planes<Result::composite, true> : planes<Result::composite, false>;
}

}  // namespace vf::cuda
