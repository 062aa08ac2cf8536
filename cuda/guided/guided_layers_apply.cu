// Writes the guided matte's result in frames of words where colours change.
//
// Idea: as `cells` of guided_apply.cu, 4 x 2 pixels per thread that share their samples. Few pixels
// have a matte between 0 and 1: the threads of others do not read the subject's colours, those
// inside the subject copy their words, and those outside do not look at their colours. Colours are
// seen less 128, as the layers are.
//
// Traffic: the frame once in and once out; the samples come from L1 and L2.
#include "cuda/guided/guided_layers.cuh"

namespace vf::cuda {
namespace {

// Makes the word of a pixel of the result from its colours less 128 and its alpha.
__device__ __forceinline__ uint32_t packed(uint32_t order, const float* color, float alpha) {
  constexpr float ones = 12582912;  // from there on floats are whole numbers
  const auto code = [](float v) { return __float_as_uint(v + (ones + kLayerMiddle)); };
  const uint32_t rg = __byte_perm(code(color[0]), code(color[1]), 0x0040);
  const uint32_t ba = __byte_perm(code(color[2]), __float_as_uint(alpha + ones), 0x0040);
  return __byte_perm(__byte_perm(rg, ba, 0x5410), 0, order);
}

// Reads the colours behind a row of four pixels, less 128.
class Behind {
 public:
  __device__ __forceinline__ void read(const GuidedLayerColors& g, int x, int y) {
    fine_ = g.blurred_step == GuidedLayers::kStep;
    per_s_ = __fdividef(1.f, float(g.blurred_step));
    int row;
    const float fy = place(y, per_s_, g.blurred_height, &row);
    // From 8 pixels on, four lie between the same two cells; of 4 pixels they see three.
    const int left =
        fine_ ? x / GuidedLayers::kStep - 1 : (2 * x + g.blurred_step) / (2 * g.blurred_step) - 1;
    fx_ = (x + .5f) * per_s_ - .5f - left;
    const uint2* const top = g.blurred + size_t(row) * g.blurred_width;
    const uint2* const bottom =
        g.blurred + size_t(min(row + 1, g.blurred_height - 1)) * g.blurred_width;
#pragma unroll
    for (int k = 0; k < 3; k++) {
      if (k == 2 && !fine_) break;
      const int c = min(max(left + k, 0), g.blurred_width - 1);
      v_[k] = lerp(blurred_colors(__ldg(top + c)), blurred_colors(__ldg(bottom + c)), fy);
    }
  }
  __device__ __forceinline__ void at(int i, float* out) const {
    const float f = fx_ + per_s_ * i;
    const float4 v = fine_ && i >= 2 ? lerp(v_[1], v_[2], f - 1) : lerp(v_[0], v_[1], f);
    out[0] = v.x;
    out[1] = v.y;
    out[2] = v.z;
  }

 private:
  bool fine_;
  float per_s_, fx_;
  float4 v_[3];
};

// Reads the layers along a row of four pixels, in three columns of samples.
__device__ __forceinline__ void row_of_layers(const GuidedLayerColors& g, int x, int y,
                                              LayerColors (&l)[3]) {
  int row;
  const float fy = place(y, 1.f / GuidedLayers::kStep, g.height, &row);
  const uint4* const top = g.found + size_t(row) * g.width;
  const uint4* const bottom = g.found + size_t(min(row + 1, g.height - 1)) * g.width;
#pragma unroll
  for (int k = 0; k < 3; k++) {
    const int c = min(max(x / GuidedLayers::kStep - 1 + k, 0), g.width - 1);
    l[k] = lerp(layer_colors(__ldg(top + c)), layer_colors(__ldg(bottom + c)), fy);
  }
}

// Returns a pixel of the result. v has the subject's colours less 128.
template <bool plain>
__device__ __forceinline__ uint32_t result(const GuidedResult& g, uint32_t order, float* v, float q,
                                           const float* behind) {
  if (!plain) {
    const float seen[3] = {v[0] + kLayerMiddle, v[1] + kLayerMiddle, v[2] + kLayerMiddle};
#pragma unroll
    for (int c = 0; c < 3; c++)
      v[c] = fminf(fmaxf(colour(g, despilled(g, seen, c), q, c, behind[c] + kLayerMiddle), 0.f),
                   255.f) -
             kLayerMiddle;
  } else if (g.output != kOutputAlpha) {
    // Premultiplied is over black.
#pragma unroll
    for (int c = 0; c < 3; c++) v[c] = fmaf(q, v[c] - behind[c], behind[c]);
  }
  return packed(order, v, opacity(g, q));
}

// Blocks of a processor. The registers that this spills are used only at soft edges.
constexpr int kResident = 3;

template <bool pairs, bool plain>
__global__ __launch_bounds__(256, kResident) void apply(const GuidedPacked w,
                                                        const GuidedCoefficients m,
                                                        const GuidedResult g) {
  const int x = 4 * (blockIdx.x * 32 + (threadIdx.x & 31));
  const int y = 2 * (blockIdx.y * 8 + (threadIdx.x >> 5));
  const bool live = x < w.width && y < w.height, two = y + 1 < w.height;
  uint4 pixels[2] = {};
  const uint8_t* const in = w.in.data + size_t(y) * w.in.pitch + 4 * x;
  if (live) {
    pixels[0] = __ldcs(reinterpret_cast<const uint4*>(in));
    if (two) pixels[1] = __ldcs(reinterpret_cast<const uint4*>(in + w.in.pitch));
  }
  wait_for_previous();
  if (!live) return;
  float mattes[2][4];
  {
    const CellMeans<pairs> means(m, x, y);
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const uint32_t word[4] = {pixels[j].x, pixels[j].y, pixels[j].z, pixels[j].w};
      float4 ab[4];
      means.row(j, ab);
#pragma unroll
      for (int i = 0; i < 4; i++) mattes[j][i] = matte_of_word(w, word[i], ab[i]);
    }
  }
  uint8_t* const out = w.out.data + size_t(y) * w.out.pitch + 4 * x;
  const bool composes = g.output == kOutputComposite;
  // One row after the other: registers limit how many threads there are.
#pragma unroll 1
  for (int j = 0; j < 2; j++) {
    if (j && !two) break;
    const uint4 own = j ? pixels[1] : pixels[0];
    const uint32_t word[4] = {own.x, own.y, own.z, own.w};
    uint32_t to[4];
    float q[4];
#pragma unroll
    for (int i = 0; i < 4; i++) q[i] = j ? mattes[1][i] : mattes[0][i];
    const float minimum = fminf(fminf(q[0], q[1]), fminf(q[2], q[3]));
    const float maximum = fmaxf(fmaxf(q[0], q[1]), fmaxf(q[2], q[3]));
    if (minimum == 1 && plain) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        to[i] = __byte_perm(__byte_perm(word[i], 0, w.in.order) | 0xff000000, 0, w.out.order);
    } else {
      const bool blurs = composes && g.layers.blurred, estimates = g.layers.found && maximum > 0;
      Behind blurred;
      if (blurs) blurred.read(g.layers, x, y + j);
      LayerColors l[3];
      if (estimates) row_of_layers(g.layers, x, y + j, l);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float behind[3], v[3];
        if (blurs)
          blurred.at(i, behind);
        else
#pragma unroll
          for (int c = 0; c < 3; c++)
            behind[c] = (composes ? g.background[c] : g.black[c]) - kLayerMiddle;
#pragma unroll
        for (int c = 0; c < 3; c++) v[c] = code_of(word[i], w.code[c]);
        if (estimates) {
          const LayerColors at =
              i < 2 ? lerp(l[0], l[1], .625f + .25f * i) : lerp(l[1], l[2], .25f * i - .375f);
          estimate_colors(g, at.subject, at.behind, q[i], kLayerMiddle, v);
        }
        to[i] = result<plain>(g, w.out.order, v, q[i], behind);
      }
    }
    __stcs(reinterpret_cast<uint4*>(out + (j ? w.out.pitch : 0)),
           make_uint4(to[0], to[1], to[2], to[3]));
  }
}

}  // namespace

GuidedColoursKernel guided_apply_colours(bool pairs, bool plain) {
  if (plain) return pairs ? apply<true, true> : apply<false, true>;
  return pairs ? apply<true, false> : apply<false, false>;
}

}  // namespace vf::cuda
