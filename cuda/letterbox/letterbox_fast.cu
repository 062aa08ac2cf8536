// Letterboxes the most frequent layouts bilinearly: packed RGB and 4:2:0 or 4:2:2 video to a planar
// float tensor or packed 4 x 8 bits.
//
// Idea: a destination has about half a million pixels, which are one or two waves of warps. A pixel
// should therefore take few instructions and have all its loads in flight at once. Layouts are
// template parameters, and offsets have 32 bits. Pixels at the picture's edge take the path for
// every layout. With 1080p BGR to 640 x 640, 56 % of the pixels show the picture, and the others
// only store the fill.
//
// A thread of a batch makes its pixel in up to four images, whose positions and weights are equal.
//
// Two neighbouring pixels of 3 bytes are read as three aligned words and two funnel shifts. In the
// last row, where the last word could reach past the frame, components are read one by one.
// Traffic and tile are those of letterbox_fallback.cu.
#include <algorithm>
#include <climits>
#include <type_traits>

#include "cuda/letterbox/letterbox.cuh"

namespace vf::cuda::letterbox {
namespace {

// Blocks that a multiprocessor can hold. Registers must not reduce their number, because only warps
// hide the latency of loads. Registers are spilled only on the path of pixels at the edge.
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
constexpr int kBlocks = 2048 / kThreads;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
constexpr int kBlocks = 1024 / kThreads;
#else
constexpr int kBlocks = 1536 / kThreads;
#endif

// A multiprocessor runs this many blocks of kSharedThreads. They leave a thread 40 registers from
// compute capability 9.0 on. Before, 40 would spill a hundred bytes, so a thread has 64.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kSharedBlocks = 1024 / kSharedThreads;
#else
constexpr int kSharedBlocks = 1536 / kSharedThreads;
#endif

enum class Shape { packed3, packed4, semi_planar, planar };
enum class Out { tensor, word, any };  // planes of f32; 4 x 8 bit; all others

// Conversions between float and integer take 8 times the cycles of an addition. Adding this to a
// float of up to 22 bits leaves its integer part in the last bits, as the addition rounds.
constexpr float kWhole = 12582912;  // 1.5 * 2^23
constexpr int kWholeBits = 0x4b400000;

struct Floor {
  int i;
  float f;  // the value as a float
};
__device__ __forceinline__ Floor floor_of(float v) {
  const float shifted = __fadd_rd(v, kWhole);
  return {__float_as_int(shifted) - kWholeBits, __fsub_rn(shifted, kWhole)};
}
__device__ __forceinline__ float whole(float v) {
  return __fsub_rn(__fadd_rd(v, kWhole), kWhole);
}

template <class T>
__device__ __forceinline__ T at(const uint8_t* base, unsigned offset) {
  return __ldg(reinterpret_cast<const T*>(base + offset));
}

template <Out O>
__device__ __forceinline__ void put(const Args& g, const Images& m, int x, int y,
                                    const float (&c)[4]) {
  if constexpr (O == Out::tensor) {
    const unsigned i = unsigned(y) * unsigned(g.to_stride[0] / 4) + unsigned(x);
#pragma unroll
    for (int k = 0; k < 3; k++) reinterpret_cast<float*>(m.to[k])[i] = normalised(g, k, c[k]);
  } else if constexpr (O == Out::word) {
    const unsigned i = unsigned(y) * unsigned(g.to_stride[0] / 4) + unsigned(x);
    reinterpret_cast<unsigned*>(m.to[0])[i] = word_of(g, c);
  } else {
    store(g, m, x, y, c);
  }
}

// Two rows of two packed pixels, of 3 bytes (bytes 0 to 5 of `top` and `bottom`) or a word each.
struct Packed {
  unsigned top[2], bottom[2];
};

template <Shape S>
__device__ __forceinline__ Packed load_packed(const Args& g, const Images& m, int i, int r0,
                                              int r1) {
  const unsigned row0 = unsigned(r0 * g.from_stride[0]), row1 = unsigned(r1 * g.from_stride[0]);
  if constexpr (S == Shape::packed4) {
    const unsigned a = row0 + 4u * i, b = row1 + 4u * i;
    return {{at<unsigned>(m.from[0], a), at<unsigned>(m.from[0] + 4, a)},
            {at<unsigned>(m.from[0], b), at<unsigned>(m.from[0] + 4, b)}};
  } else {
    // Rows start at whole words. Bytes 0 to 5 lie in two words unless they start at the last byte.
    const unsigned first = 3u * i, shift = 8 * (first & 3), word = first & ~3u;
    const unsigned last = word + (shift == 24 ? 8 : 4);
    const unsigned a0 = at<unsigned>(m.from[0], row0 + word),
                   b0 = at<unsigned>(m.from[0], row1 + word);
    const unsigned a1 = at<unsigned>(m.from[0] + 4, row0 + word),
                   b1 = at<unsigned>(m.from[0] + 4, row1 + word);
    const unsigned a2 = at<unsigned>(m.from[0], row0 + last),
                   b2 = at<unsigned>(m.from[0], row1 + last);
    return {{__funnelshift_r(a0, a1, shift), __funnelshift_r(a1, a2, shift)},
            {__funnelshift_r(b0, b1, shift), __funnelshift_r(b1, b2, shift)}};
  }
}

// Returns component k of pixel i (0 or 1) of a row.
template <Shape S>
__device__ __forceinline__ float value(const unsigned (&row)[2], int i, int k) {
  const int n = S == Shape::packed4 ? 4 * i + k : 3 * i + k;
  return float(row[n / 4] >> (8 * (n % 4)) & 255);
}

// Computes cv2's fixed point for both pixels of a row. Components k and k + 1 are pairs of bytes.
template <Shape S>
__device__ __forceinline__ void fixed_row(const unsigned (&row)[2], unsigned weights,
                                          unsigned (&h)[4]) {
  const unsigned low = __byte_perm(row[0], row[1], S == Shape::packed4 ? 0x5140 : 0x4130);
  const unsigned high = __byte_perm(row[0], row[1], S == Shape::packed4 ? 0x7362 : 0x5252);
  h[0] = __dp2a_lo(weights, low, 0u) >> 4;
  h[1] = __dp2a_hi(weights, low, 0u) >> 4;
  h[2] = __dp2a_lo(weights, high, 0u) >> 4;
  if (S == Shape::packed4) h[3] = __dp2a_hi(weights, high, 0u) >> 4;
}

// Holds a position of subsampled chroma along an axis of at least 2 samples.
struct ChromaAxis {
  int i;
  float f;
};
__device__ __forceinline__ ChromaAxis chroma_axis(const AxisArgs& a, float p) {
  const float c =
      fminf(fmaxf(__fadd_rn(__fmul_rn(p, a.chroma_step), a.chroma_offset), 0), a.chroma_last);
  const float low = fminf(__fadd_rd(c, kWhole), a.chroma_last + (kWhole - 1));
  return {__float_as_int(low) - kWholeBits, __fsub_rn(c, __fsub_rn(low, kWhole))};
}

// Returns edge_position of pixel d of the picture, by two floats if that is known to be equal.
__device__ __forceinline__ float picture_position(const AxisArgs& a, int d) {
  if (!a.two_floats) return float(__dadd_rn(__dmul_rn(double(d) + 0.5, a.step), -0.5));
  return two_float_position(d, a.step_high, a.step_low);
}

template <class T>
__device__ __forceinline__ float code(const Args& g, unsigned v) {
  return float(sizeof(T) == 1 ? v : v >> g.shift);
}

// Loads luma, and u and v in the order of memory.
template <Shape S, class T>
__device__ __forceinline__ void load_yuv(const Args& g, const Images& m, int i, int r0, int r1,
                                         ChromaAxis x, ChromaAxis y, float (&l)[4], float (&u)[4],
                                         float (&v)[4]) {
  const unsigned a = unsigned(r0 * g.from_stride[0]) + unsigned(sizeof(T)) * i;
  const unsigned b = unsigned(r1 * g.from_stride[0]) + unsigned(sizeof(T)) * i;
  const T luma[4] = {at<T>(m.from[0], a), at<T>(m.from[0] + sizeof(T), a), at<T>(m.from[0], b),
                     at<T>(m.from[0] + sizeof(T), b)};
  if constexpr (S == Shape::semi_planar) {
    using Pair = std::conditional_t<sizeof(T) == 1, uint16_t, uint32_t>;
    constexpr unsigned mask = sizeof(T) == 1 ? 255 : 65535;
    const unsigned c = unsigned(y.i * g.from_stride[1]) + unsigned(sizeof(Pair)) * x.i;
    const unsigned d = c + unsigned(g.from_stride[1]);
    const unsigned p[4] = {at<Pair>(m.pairs, c), at<Pair>(m.pairs + sizeof(Pair), c),
                           at<Pair>(m.pairs, d), at<Pair>(m.pairs + sizeof(Pair), d)};
#pragma unroll
    for (int n = 0; n < 4; n++) {
      u[n] = code<T>(g, p[n] & mask);
      v[n] = code<T>(g, p[n] >> (8 * sizeof(T)));
    }
  } else {
    const unsigned c = unsigned(y.i * g.from_stride[1]) + unsigned(sizeof(T)) * x.i;
    const unsigned d = c + unsigned(g.from_stride[1]);
    const T p[8] = {at<T>(m.from[1], c), at<T>(m.from[1] + sizeof(T), c),
                    at<T>(m.from[1], d), at<T>(m.from[1] + sizeof(T), d),
                    at<T>(m.from[2], c), at<T>(m.from[2] + sizeof(T), c),
                    at<T>(m.from[2], d), at<T>(m.from[2] + sizeof(T), d)};
#pragma unroll
    for (int n = 0; n < 4; n++) {
      u[n] = code<T>(g, p[n]);
      v[n] = code<T>(g, p[4 + n]);
    }
  }
#pragma unroll
  for (int n = 0; n < 4; n++) l[n] = code<T>(g, luma[n]);
}

// Holds where a pixel of the picture lies in the source, and the weights of its neighbours.
struct Spot {
  int i, r0, r1;
  float fx, fy;
  ChromaAxis cx = {}, cy = {};
  float w[4] = {}, wc[4] = {};
  template <Shape S>
  __device__ __forceinline__ void weigh() {
    weights(fx, fy, w);
    if (S == Shape::semi_planar || S == Shape::planar) weights(cx.f, cy.f, wc);
  }
};

// Makes the colours of a pixel of the picture from its neighbours. In a batch, `at` has the weights
// already. For a single image they are computed while the loads are under way.
template <Shape S, class T, Sampler M, Out O, int N>
__device__ __forceinline__ void sample(const Args& g, const Images& m, Spot at, float (&c)[4]) {
  if constexpr (S == Shape::packed3 || S == Shape::packed4) {
    constexpr int components = S == Shape::packed3 ? 3 : 4;
    const Packed p = load_packed<S>(g, m, at.i, at.r0, at.r1);
    if constexpr (M == Sampler::edge_fixed) {
      // Rounds a weight to 11 bits, in the last bits of a float.
      const auto eleven = [](float f) { return __float_as_uint(__fmaf_rn(f, 2048, kWhole)); };
      const unsigned wx = __byte_perm(eleven(__fsub_rn(1, at.fx)), eleven(at.fx), 0x5410);
      const unsigned w0 = eleven(__fsub_rn(1, at.fy)) << 16, w1 = eleven(at.fy) << 16;
      unsigned top[4], bottom[4];
      fixed_row<S>(p.top, wx, top);
      fixed_row<S>(p.bottom, wx, bottom);
#pragma unroll
      for (int k = 0; k < components; k++)
        c[k] = float((__umulhi(w0, top[k]) + __umulhi(w1, bottom[k]) + 2) >> 2);
    } else {
      if (N == 1) at.weigh<S>();
        // Rounded weights may add up to slightly more than 1. The rounding still gives 255 for 255.
#pragma unroll
      for (int k = 0; k < components; k++)
        c[k] = whole(__fadd_rn(mix(at.w, value<S>(p.top, 0, k), value<S>(p.top, 1, k),
                                   value<S>(p.bottom, 0, k), value<S>(p.bottom, 1, k)),
                               0.5f));
    }
    if constexpr (O != Out::tensor) {
      if (S == Shape::packed3) c[3] = g.max_value;
#pragma unroll
      for (int k = 0; k < 4; k++)
        if (g.opaque[k]) c[k] = g.max_value;
    }
  } else {
    float l[4], u[4], v[4];
    load_yuv<S, T>(g, m, at.i, at.r0, at.r1, at.cx, at.cy, l, u, v);
    if (N == 1) at.weigh<S>();
    const float Y = mix(at.w, l[0], l[1], l[2], l[3]);
    float U = mix(at.wc, u[0], u[1], u[2], u[3]), V = mix(at.wc, v[0], v[1], v[2], v[3]);
    if (S == Shape::semi_planar && g.v_first) {
      const float t = U;
      U = V;
      V = t;
    }
    // Multiplies by the matrix in its order, without its zeros.
    const float luma = __fmul_rn(g.matrix[0][0], Y);
    c[0] = __fadd_rn(luma, __fmul_rn(g.matrix[0][2], V));
    c[1] = __fadd_rn(__fadd_rn(luma, __fmul_rn(g.matrix[1][1], U)), __fmul_rn(g.matrix[1][2], V));
    c[2] = __fadd_rn(luma, __fmul_rn(g.matrix[2][1], U));
#pragma unroll
    for (int k = 0; k < 3; k++)
      c[k] = fminf(whole(fmaxf(__fadd_rn(__fadd_rn(c[k], g.offset[k]), 0.5f), 0)), g.max_value);
    c[3] = g.max_value;
  }
}

template <Shape S, class T, Sampler M, Out O, int N>
__global__ __launch_bounds__(
    N == 1 ? kThreads : kSharedThreads,
    N == 1 ? kBlocks : kSharedBlocks) void fast(const __grid_constant__ Launched<N> launched) {
  const Args& g = launched.args;
  const Share own = share(launched);
  const int x = own.x, y = own.y;
  if (x >= g.width || y >= g.height) return;
  // Calls make() with each image.
  const auto each = [&](const auto& make) {
    if constexpr (N == 1) {
      make(launched.images[0]);
    } else {
#pragma unroll 1
      for (int n = own.first; n < own.last; n++) make(launched.images[n]);
    }
  };
  const auto fill = [&] { each([&](const Images& m) { put<O>(g, m, x, y, g.fill); }); };
  const auto any_picture = [&] { each([&](const Images& m) { picture<T, M>(g, m, x, y); }); };
  float px, py, fx, fy;
  int i, r0, r1;
  if constexpr (M == Sampler::affine) {
    px = affine_position(g.x, float(x));
    py = affine_position(g.y, float(y));
    const Floor low_x = floor_of(px), low_y = floor_of(py);
    i = low_x.i;
    r0 = low_y.i;
    r1 = r0 + 1;
    if (unsigned(i) >= unsigned(g.x.size - 1) || unsigned(r0) >= unsigned(g.row_pairs)) {
      if (px > -1 && px < float(g.x.size) && py > -1 && py < float(g.y.size))
        any_picture();
      else
        fill();
      return;
    }
    fx = __fsub_rn(px, low_x.f);
    fy = __fsub_rn(py, low_y.f);
  } else {
    const int dx = x - g.x.first, dy = y - g.y.first;
    if (unsigned(dx) >= unsigned(g.x.count) || unsigned(dy) >= unsigned(g.y.count)) {
      fill();
      return;
    }
    px = picture_position(g.x, dx);
    py = picture_position(g.y, dy);
    const Floor low_x = floor_of(px), low_y = floor_of(py);
    i = low_x.i;
    fx = __fsub_rn(px, low_x.f);
    fy = __fsub_rn(py, low_y.f);
    r0 = max(low_y.i, 0);
    r1 = min(low_y.i + 1, g.y.size - 1);
    // Columns beyond an edge are moved onto it.
    if (i < 0) i = 0, fx = 0;
    if (i >= g.x.size - 1) i = g.x.size - 2, fx = 1;
    if (r1 >= g.last_row) {
      any_picture();
      return;
    }
  }

  // A row of weight 0 is not read, which matters if frames do not fit into L2.
  if (N > 1 && fy == 0) r1 = r0;
  Spot spot = {i, r0, r1, fx, fy};
  if (S == Shape::semi_planar || S == Shape::planar) {
    spot.cx = chroma_axis(g.x, px);
    spot.cy = chroma_axis(g.y, py);
  }
  if (N > 1) spot.weigh<S>();
  each([&](const Images& m) {
    float c[4];
    sample<S, T, M, O, N>(g, m, spot, c);
    put<O>(g, m, x, y, c);
  });
}

// ---- choosing ----------------------------------------------------------------------------------

template <Shape S, class T, Sampler M>
void set_kernels(FastLayout* layout) {
  layout->tensor = {fast<S, T, M, Out::tensor, 1>, fast<S, T, M, Out::tensor, kMostImages>, true};
  layout->word = {fast<S, T, M, Out::word, 1>, nullptr};
  layout->any = {fast<S, T, M, Out::any, 1>, fast<S, T, M, Out::any, kMostImages>, true};
}

template <Shape S, class T>
void set_kernels(bool affine, FastLayout* layout) {
  constexpr bool kPacked = S == Shape::packed3 || S == Shape::packed4;
  affine ? set_kernels<S, T, Sampler::affine>(layout)
         : set_kernels<S, T, kPacked ? Sampler::edge_fixed : Sampler::edge>(layout);
}

// Returns whether two_float_position is right for every pixel of the picture along an axis.
bool two_floats_do(const LetterboxTask::Axis& a) {
  const float high = float(a.step), low = float(a.step - double(high));
  for (int d = 0; d < a.size; d++)
    if (two_float_position(d, high, low) != float((double(d) + 0.5) * a.step - 0.5)) return false;
  return true;
}

}  // namespace

FastLayout fast_layout(const LetterboxTask& t, Args* g) {
  FastLayout layout;
  if (t.interpolation != Interpolation::bilinear) return layout;
  for (int p = 0; p < t.destination.planes; p++)
    if (t.destination.plane[p].sub_x || t.destination.plane[p].sub_y) return layout;
  const PlaneLayout& first = t.source.plane[0];
  if (first.width < 2) return layout;
  for (AxisArgs* a : {&g->x, &g->y}) {
    a->chroma_last = float(a->chroma_size - 1);
    a->step_high = float(a->step);
    a->step_low = float(a->step - double(a->step_high));
  }
  g->x.two_floats = two_floats_do(t.x);
  g->y.two_floats = two_floats_do(t.y);
  g->last_row = first.height;
  g->row_pairs = first.height - 1;
  layout.planar_tensor = g->store == Store::f32 && t.to[3].plane < 0;
  for (int k = 0; k < 3; k++)
    layout.planar_tensor = layout.planar_tensor && t.to[k].plane >= 0 && g->to_step[k] == 4;

  const bool affine = t.rule == LetterboxRule::affine, bytes = t.source.type == Type::u8;
  const bool different = t.from[1].plane >= 0 && (t.from[1].plane != t.from[0].plane ||
                                                  t.from[1].channel != t.from[0].channel);
  if (t.copies && t.source.planes == 1 && bytes && different && first.channels >= 3 &&
      first.pixel_step() == first.channels) {
    layout.alignment = 4;
    if (first.channels == 4) {
      set_kernels<Shape::packed4, uint8_t>(affine, &layout);
      return layout;
    }
    if (row_bytes(t.source, 0) % 4) g->last_row--;
    g->row_pairs = std::max(g->last_row - 1, 0);
    set_kernels<Shape::packed3, uint8_t>(affine, &layout);
    return layout;
  }

  const auto& m = t.matrix;
  const bool to_rgb =
      !t.copies && m[1][0] == m[0][0] && m[2][0] == m[0][0] && m[0][1] == 0 && m[2][2] == 0;
  if (!to_rgb || t.from[1].plane < 1 || t.from[3].plane >= 0 || !g->chroma ||
      g->x.chroma_size < 2 || g->y.chroma_size < 2 || first.channels != 1 ||
      first.pixel_step() != 1)
    return layout;
  const PlaneLayout& chroma = t.source.plane[t.from[1].plane];
  if (t.source.planes == 2 && chroma.channels == 2 && chroma.pixel_step() == 2) {
    layout.chroma = FastLayout::Chroma::interleaved;
    layout.alignment = 2 * size_of(t.source.type);
    g->v_first = t.from[1].channel == 1;
    bytes ? set_kernels<Shape::semi_planar, uint8_t>(affine, &layout)
          : set_kernels<Shape::semi_planar, uint16_t>(affine, &layout);
  } else if (t.source.planes == 3 && chroma.channels == 1 && chroma.pixel_step() == 1 &&
             t.source.plane[t.from[2].plane].pixel_step() == 1) {
    layout.chroma = FastLayout::Chroma::planar;
    bytes ? set_kernels<Shape::planar, uint8_t>(affine, &layout)
          : set_kernels<Shape::planar, uint16_t>(affine, &layout);
  }
  return layout;
}

const Kernel* fast_kernel(const FastLayout& layout, const Image& src, const Image& dst, Args* g,
                          Images* m) {
  if (!layout.any.one) return nullptr;
  for (const Image* image : {&src, &dst})
    for (int p = 0; p < image->layout.planes; p++)
      if (image->stride[p] * image->layout.plane[p].height > INT_MAX) return nullptr;
  switch (layout.chroma) {
    case FastLayout::Chroma::packed:
      if (!is_aligned(src.data[0], src.stride[0], layout.alignment)) return nullptr;
      m->from[0] = static_cast<const uint8_t*>(src.data[0]);
      g->from_stride[0] = int(src.stride[0]);
      break;
    case FastLayout::Chroma::interleaved:
      if (!is_aligned(src.data[1], src.stride[1], layout.alignment)) return nullptr;
      m->pairs = static_cast<const uint8_t*>(src.data[1]);
      break;
    case FastLayout::Chroma::planar:
      if (g->from_stride[1] != g->from_stride[2]) return nullptr;
      break;
  }
  if (g->store == Store::word) return &layout.word;
  const bool dense = layout.planar_tensor && g->to_stride[1] == g->to_stride[0] &&
                     g->to_stride[2] == g->to_stride[0];
  return dense ? &layout.tensor : &layout.any;
}

}  // namespace vf::cuda::letterbox
