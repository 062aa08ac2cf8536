// Letterbox in one pass: a thread makes one destination pixel, a warp 32 neighbours of a row.
//
// Traffic: the source rows that are sampled, once, and the destination, once. The time is that of
// the loads' latency, so everything a pixel needs is known without reading memory: its source
// position and weights are computed (in the rule's arithmetic, each operation rounded by itself),
// and away from the picture's edge all loads are straight-line code that is in flight together.
// Tile: 256 x 1 pixels (larger and two-dimensional ones, several pixels a thread and staging rows
// in shared memory were all slower).
//
// Layouts with a loader of their own: packed 3 x 8 bit, packed 4 x 8 and 4 x 16 bit, and luma with
// interleaved subsampled chroma. Everything else, and what is not aligned for them, is read one
// component at a time. No loader reads outside the frame, not even within an aligned word.
#include <cuda_fp16.h>

#include <algorithm>
#include <climits>
#include <type_traits>

#include "cuda/filters.h"
#include "cuda/queue.h"

namespace vf::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerLayer = 32768;  // of a grid, whose y is at most 65535

enum class Shape { packed3, packed4, semi_planar, any };
enum class Sampler { affine, edge, edge_fixed };  // bilinear; fixed point is cv2's

enum class Store { u8, u16, f32, f16, word };  // word: 4 x 8 bit at once

struct AxisArgs {
  float input_step, input_offset;  // from a destination plane to the destination
  float multiply, add;             // affine
  double origin, step;             // edge: (X + origin) * step - 0.5
  float begin, end;                // edge: positions in the destination that show the picture
  int size;                        // of the source
  int chroma_size;
  float chroma_step, chroma_offset;
  int chroma_shift;
  float reach;
};

// Components are in the order of `from`: r, g, b (y, u, v), alpha; or, when packed pixels are
// copied, as they lie in memory. `to` and what belongs to it has the same order.
struct Args {
  AxisArgs x, y;
  const uint8_t* from[4];  // null: absent
  int from_stride[4], from_step[4];
  int shift;               // of source components
  unsigned needed;         // bit k: component k is used
  int u_shift, v_shift;    // bits, of a chroma pair
  bool chroma;             // components 1 and 2 are subsampled
  int first_row, last_row;  // rows in [first, last) can be read by aligned words
  int order[4];            // of packed pixels that are converted: where r, g, b, a lie
  float source_fill[4];

  bool copies;
  float matrix[3][3], offset[3], alpha_scale, max_value;
  bool opaque[4];          // the component is max_value in the picture, whatever was read

  Store store;
  int width, height;
  uint8_t* to[4];          // null: not stored
  int to_stride[4], to_step[4];
  int to_shift;
  uint8_t* padding;        // a component that carries nothing
  int padding_stride, padding_step;
  unsigned word_order;     // selector of __byte_perm from components and 0xff
  float fill[4];
  float subtract[4], divide[4], reciprocal[4];
};

template <class T>
__device__ __forceinline__ T read(const uint8_t* p) {
  return __ldg(reinterpret_cast<const T*>(p));
}

// ---- positions ---------------------------------------------------------------------------------

__device__ __forceinline__ float input(const AxisArgs& a, int i) {
  return __fmaf_rn(float(i), a.input_step, a.input_offset);  // exact
}

__device__ __forceinline__ float affine_position(const AxisArgs& a, float X) {
  return __fadd_rn(__fmul_rn(a.multiply, X), a.add);
}

__device__ __forceinline__ float edge_position(const AxisArgs& a, float X) {
  return float(__dadd_rn(__dmul_rn(double(X) + a.origin, a.step), -0.5));
}

__device__ __forceinline__ bool edge_outside(const AxisArgs& a, float X) {
  return X < a.begin || X >= a.end;
}

// Weights of the pixels (0, 0), (1, 0), (0, 1), (1, 1).
__device__ __forceinline__ void weights(float lx, float ly, float (&w)[4]) {
  const float hx = __fsub_rn(1, lx), hy = __fsub_rn(1, ly);
  w[0] = __fmul_rn(hy, hx);
  w[1] = __fmul_rn(hy, lx);
  w[2] = __fmul_rn(ly, hx);
  w[3] = __fmul_rn(ly, lx);
}

// In the order of the affine rule.
__device__ __forceinline__ float mix(const float (&w)[4], float a, float b, float c, float d) {
  return __fadd_rn(__fadd_rn(__fadd_rn(__fmul_rn(w[0], a), __fmul_rn(w[1], b)), __fmul_rn(w[2], c)),
                   __fmul_rn(w[3], d));
}

// cv2's interpolation of 8 bit.
struct FixedWeights {
  int x0, x1, y0, y1;
};

__device__ __forceinline__ FixedWeights fixed_weights(float fx, float fy) {
  return {__float2int_rn(__fsub_rn(1, fx) * 2048), __float2int_rn(fx * 2048),
          __float2int_rn(__fsub_rn(1, fy) * 2048), __float2int_rn(fy * 2048)};
}

__device__ __forceinline__ float fixed_mix(const FixedWeights& w, int a, int b, int c, int d) {
  const int top = (a * w.x0 + b * w.x1) >> 4, bottom = (c * w.x0 + d * w.x1) >> 4;
  return float(min((((w.y0 * top) >> 16) + ((w.y1 * bottom) >> 16) + 2) >> 2, 255));
}

// ---- loading -----------------------------------------------------------------------------------

template <class T>
__device__ __forceinline__ int component(const Args& g, int k, int x, int y) {
  const uint8_t* p = g.from[k] + ptrdiff_t(y) * g.from_stride[k] + ptrdiff_t(x) * g.from_step[k];
  return int(read<T>(p)) >> g.shift;
}

// Two neighbouring pixels of 3 bytes, at any alignment: bytes 0 to 5 of the result. Reads the
// aligned words that hold them.
__device__ __forceinline__ uint2 two_of_three(const uint8_t* p) {
  const auto address = reinterpret_cast<size_t>(p);
  const unsigned offset = unsigned(address) & 3;
  const auto* words = reinterpret_cast<const unsigned*>(address & ~size_t(3));
  const unsigned w0 = __ldg(words), w1 = __ldg(words + 1), w2 = __ldg(words + ((offset + 5) >> 2));
  return make_uint2(__funnelshift_r(w0, w1, 8 * offset), __funnelshift_r(w1, w2, 8 * offset));
}

__device__ __forceinline__ int byte_of(uint2 v, int i) {
  return int((i < 4 ? v.x >> (8 * i) : v.y >> (8 * (i - 4))) & 255);
}

// The four neighbours of a position in all components: v[k][0..3] as `weights` orders them.
struct Quads {
  int v[4][4];
};

// From rows r0 and r1, columns x0 and x1, which all lie in the picture. Loaders of packed pixels
// want x1 == x0 + 1, and rows in [first_row, last_row).
template <Shape S, class T>
__device__ __forceinline__ void load(const Args& g, int x0, int x1, int r0, int r1, Quads& q) {
  if constexpr (S == Shape::packed3) {
    const uint8_t* p = g.from[0] + 3 * ptrdiff_t(x0);
    const uint2 top = two_of_three(p + ptrdiff_t(r0) * g.from_stride[0]);
    const uint2 bottom = two_of_three(p + ptrdiff_t(r1) * g.from_stride[0]);
#pragma unroll
    for (int k = 0; k < 3; k++) {
      q.v[k][0] = byte_of(top, k);
      q.v[k][1] = byte_of(top, 3 + k);
      q.v[k][2] = byte_of(bottom, k);
      q.v[k][3] = byte_of(bottom, 3 + k);
    }
  } else if constexpr (S == Shape::packed4) {
    const uint8_t* top = g.from[0] + ptrdiff_t(r0) * g.from_stride[0];
    const uint8_t* bottom = g.from[0] + ptrdiff_t(r1) * g.from_stride[0];
    if constexpr (sizeof(T) == 1) {
      const unsigned p[4] = {read<unsigned>(top + 4 * ptrdiff_t(x0)), read<unsigned>(top + 4 * ptrdiff_t(x1)),
                             read<unsigned>(bottom + 4 * ptrdiff_t(x0)), read<unsigned>(bottom + 4 * ptrdiff_t(x1))};
#pragma unroll
      for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) q.v[k][i] = int(p[i] >> (8 * k) & 255);
    } else {
      const uint2 p[4] = {read<uint2>(top + 8 * ptrdiff_t(x0)), read<uint2>(top + 8 * ptrdiff_t(x1)),
                          read<uint2>(bottom + 8 * ptrdiff_t(x0)), read<uint2>(bottom + 8 * ptrdiff_t(x1))};
#pragma unroll
      for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          q.v[k][i] = int((k < 2 ? p[i].x : p[i].y) >> (16 * (k & 1)) & 65535) >> g.shift;
    }
  } else {
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (S == Shape::semi_planar ? k > 0 : !(g.needed >> k & 1) || (g.chroma && (k == 1 || k == 2)))
        continue;
      q.v[k][0] = component<T>(g, k, x0, r0);
      q.v[k][1] = component<T>(g, k, x1, r0);
      q.v[k][2] = component<T>(g, k, x0, r1);
      q.v[k][3] = component<T>(g, k, x1, r1);
    }
  }
}

// The same one component at a time, where neighbours may lie outside the picture: bit i of
// `outside` says that neighbour i does. Those are not read and come out as 0.
template <Shape S, class T>
__device__ __forceinline__ void load_at_edge(const Args& g, int x0, int x1, int r0, int r1, unsigned outside,
                                             Quads& q) {
#pragma unroll
  for (int k = 0; k < 4; k++) {
    if (!(g.needed >> k & 1) || (g.chroma && (k == 1 || k == 2))) continue;
#pragma unroll
    for (int i = 0; i < 4; i++)
      q.v[k][i] = outside >> i & 1 ? 0 : component<T>(g, k, i & 1 ? x1 : x0, i & 2 ? r1 : r0);
  }
}

// Subsampled chroma around a position of luma, clamped to its plane.
template <Shape S, class T>
__device__ __forceinline__ void chroma(const Args& g, float px, float py, float& u, float& v) {
  const float x = fminf(fmaxf(__fadd_rn(__fmul_rn(px, g.x.chroma_step), g.x.chroma_offset), 0),
                        float(g.x.chroma_size - 1));
  const float y = fminf(fmaxf(__fadd_rn(__fmul_rn(py, g.y.chroma_step), g.y.chroma_offset), 0),
                        float(g.y.chroma_size - 1));
  const int x0 = int(x), y0 = int(y);
  const int x1 = min(x0 + 1, g.x.chroma_size - 1), y1 = min(y0 + 1, g.y.chroma_size - 1);
  float w[4];
  weights(__fsub_rn(x, float(x0)), __fsub_rn(y, float(y0)), w);
  if constexpr (S == Shape::semi_planar) {
    using Pair = std::conditional_t<sizeof(T) == 1, uint16_t, uint32_t>;
    constexpr unsigned mask = sizeof(T) == 1 ? 255 : 65535;
    const uint8_t* top = g.from[1] + ptrdiff_t(y0) * g.from_stride[1];
    const uint8_t* bottom = g.from[1] + ptrdiff_t(y1) * g.from_stride[1];
    const unsigned p[4] = {read<Pair>(top + ptrdiff_t(x0) * sizeof(Pair)), read<Pair>(top + ptrdiff_t(x1) * sizeof(Pair)),
                           read<Pair>(bottom + ptrdiff_t(x0) * sizeof(Pair)), read<Pair>(bottom + ptrdiff_t(x1) * sizeof(Pair))};
    float c[2][4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      c[0][i] = float((p[i] >> g.u_shift & mask) >> g.shift);
      c[1][i] = float((p[i] >> g.v_shift & mask) >> g.shift);
    }
    u = mix(w, c[0][0], c[0][1], c[0][2], c[0][3]);
    v = mix(w, c[1][0], c[1][1], c[1][2], c[1][3]);
  } else {
    const auto sample = [&](int k) {
      return mix(w, float(component<T>(g, k, x0, y0)), float(component<T>(g, k, x1, y0)),
                 float(component<T>(g, k, x0, y1)), float(component<T>(g, k, x1, y1)));
    };
    if (g.needed >> 1 & 1) u = sample(1);
    if (g.needed >> 2 & 1) v = sample(2);
  }
}

// ---- colours and storing -----------------------------------------------------------------------

__device__ __forceinline__ float rounded(float v, float max) {
  return fminf(fmaxf(floorf(__fadd_rn(v, 0.5f)), 0), max);
}

__device__ __forceinline__ float convert(const Args& g, int i, const float (&c)[4]) {
  const float sum = __fadd_rn(__fadd_rn(__fmul_rn(g.matrix[i][0], c[0]), __fmul_rn(g.matrix[i][1], c[1])),
                              __fmul_rn(g.matrix[i][2], c[2]));
  return rounded(__fadd_rn(sum, g.offset[i]), g.max_value);
}

__device__ __forceinline__ float pick(const float (&c)[4], int i) {
  return i == 0 ? c[0] : i == 1 ? c[1] : i == 2 ? c[2] : c[3];
}

// Stores one pixel of code values.
__device__ __forceinline__ void store(const Args& g, int x, int y, const float (&c)[4]) {
  if (g.store == Store::word) {
    const unsigned word = unsigned(c[0]) | unsigned(c[1]) << 8 | unsigned(c[2]) << 16 | unsigned(c[3]) << 24;
    *reinterpret_cast<unsigned*>(g.to[0] + ptrdiff_t(y) * g.to_stride[0] + 4 * ptrdiff_t(x)) =
        __byte_perm(word, 0xffffffff, g.word_order);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; k++) {
    if (!g.to[k]) continue;
    uint8_t* at = g.to[k] + ptrdiff_t(y) * g.to_stride[k] + ptrdiff_t(x) * g.to_step[k];
    if (g.store == Store::f32 || g.store == Store::f16) {
      const float v = __fsub_rn(c[k], g.subtract[k]), q = __fmul_rn(v, g.reciprocal[k]);
      const float f = __fmaf_rn(__fmaf_rn(-q, g.divide[k], v), g.reciprocal[k], q);
      if (g.store == Store::f32)
        *reinterpret_cast<float*>(at) = f;
      else
        *reinterpret_cast<__half*>(at) = __float2half_rn(f);
    } else if (g.store == Store::u8) {
      *at = uint8_t(unsigned(c[k]));
    } else {
      *reinterpret_cast<uint16_t*>(at) = uint16_t(unsigned(c[k]) << g.to_shift);
    }
  }
  if (g.padding) {
    uint8_t* at = g.padding + ptrdiff_t(y) * g.padding_stride + ptrdiff_t(x) * g.padding_step;
    if (g.store == Store::u8)
      *at = 255;
    else
      *reinterpret_cast<uint16_t*>(at) = uint16_t(65535u >> g.to_shift << g.to_shift);
  }
}

// From samples of the source to the pixel.
template <Shape S, Sampler M>
__device__ __forceinline__ void finish(const Args& g, int x, int y, const float (&c)[4]) {
  float out[4];
  if (M == Sampler::edge_fixed || g.copies) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
      // In fixed point all but subsampled chroma are whole already.
      const bool whole = M == Sampler::edge_fixed && (S != Shape::any || k == 0 || k == 3);
      out[k] = whole ? c[k] : rounded(c[k], g.max_value);
      if (g.opaque[k]) out[k] = g.max_value;
    }
  } else {
    float in[4] = {c[0], c[1], c[2], c[3]};
    if (S == Shape::packed3 || S == Shape::packed4) {
#pragma unroll
      for (int k = 0; k < 4; k++) in[k] = pick(c, g.order[k]);
    }
#pragma unroll
    for (int k = 0; k < 3; k++) out[k] = convert(g, k, in);
    out[3] = g.opaque[3] ? g.max_value : rounded(__fmul_rn(in[3], g.alpha_scale), g.max_value);
  }
  store(g, x, y, out);
}

// ---- kernels -----------------------------------------------------------------------------------

template <Shape S, class T, Sampler M>
__global__ __launch_bounds__(kThreads) void bilinear(const __grid_constant__ Args g) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.z * kRowsPerLayer + blockIdx.y;
  if (x >= g.width || y >= g.height) return;
  const float X = input(g.x, x), Y = input(g.y, y);

  Quads q = {};
  float px, py, fx, fy;
  unsigned outside = 0;  // neighbours outside the picture
  if constexpr (M == Sampler::affine) {
    px = affine_position(g.x, X);
    py = affine_position(g.y, Y);
    if (!(px > -1 && px < float(g.x.size) && py > -1 && py < float(g.y.size))) {
      store(g, x, y, g.fill);
      return;
    }
    const float low_x = floorf(px), low_y = floorf(py);
    const int i = int(low_x), j = int(low_y);
    fx = __fsub_rn(px, low_x);
    fy = __fsub_rn(py, low_y);
    if (i >= 0 && i < g.x.size - 1 && j >= g.first_row && j < g.last_row - 1) {
      load<S, T>(g, i, i + 1, j, j + 1, q);
    } else {
      const unsigned left = i < 0, right = i >= g.x.size - 1, top = j < 0, bottom = j >= g.y.size - 1;
      outside = (left | top) | (right | top) << 1 | (left | bottom) << 2 | (right | bottom) << 3;
      load_at_edge<S, T>(g, i, i + 1, j, j + 1, outside, q);
    }
  } else {
    if (edge_outside(g.x, X) || edge_outside(g.y, Y)) {
      store(g, x, y, g.fill);
      return;
    }
    px = edge_position(g.x, X);
    py = edge_position(g.y, Y);
    const float low_x = floorf(px), low_y = floorf(py);
    int i = int(low_x);
    const int j = int(low_y);
    fx = __fsub_rn(px, low_x);
    fy = __fsub_rn(py, low_y);
    const int r0 = min(max(j, 0), g.y.size - 1), r1 = min(max(j + 1, 0), g.y.size - 1);
    // Columns that reach over an edge lie on it.
    if (i < 0) i = 0, fx = 0;
    if (i >= g.x.size - 1) i = g.x.size - 2, fx = 1;
    if (S == Shape::any) {
      load<S, T>(g, max(i, 0), i + 1, r0, r1, q);  // i is -1 in a picture of one column
    } else if (r0 >= g.first_row && r1 < g.last_row) {
      load<S, T>(g, i, i + 1, r0, r1, q);
    } else {
      load_at_edge<S, T>(g, i, i + 1, r0, r1, 0, q);
    }
  }

  float c[4] = {};
  constexpr int components = S == Shape::packed3 ? 3 : S == Shape::semi_planar ? 1 : 4;
  if constexpr (M == Sampler::edge_fixed) {
    const FixedWeights w = fixed_weights(fx, fy);
#pragma unroll
    for (int k = 0; k < components; k++) c[k] = fixed_mix(w, q.v[k][0], q.v[k][1], q.v[k][2], q.v[k][3]);
    if (S == Shape::any && g.chroma) chroma<S, T>(g, px, py, c[1], c[2]);
  } else {
    float w[4];
    weights(fx, fy, w);
#pragma unroll
    for (int k = 0; k < components; k++) {
      float v[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        v[i] = float(q.v[k][i]);
        if (M == Sampler::affine && outside >> i & 1) v[i] = g.source_fill[k];
      }
      c[k] = mix(w, v[0], v[1], v[2], v[3]);
    }
    if (S == Shape::semi_planar || (S == Shape::any && g.chroma)) {
      chroma<S, T>(g, px, py, c[1], c[2]);
      if (M == Sampler::affine && outside) {
        const float share = mix(w, outside & 1, outside >> 1 & 1, outside >> 2 & 1, outside >> 3 & 1);
#pragma unroll
        for (int k = 1; k < 3; k++)
          c[k] = __fadd_rn(c[k], __fmul_rn(share, __fsub_rn(g.source_fill[k], c[k])));
      }
    }
  }
  finish<S, M>(g, x, y, c);
}

template <class T, bool AFFINE>
__global__ __launch_bounds__(kThreads) void nearest(const __grid_constant__ Args g) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.z * kRowsPerLayer + blockIdx.y;
  if (x >= g.width || y >= g.height) return;
  const float X = input(g.x, x), Y = input(g.y, y);
  int i, j;
  bool outside;
  if (AFFINE) {
    const float fi = floorf(__fadd_rn(affine_position(g.x, X), 0.5f));
    const float fj = floorf(__fadd_rn(affine_position(g.y, Y), 0.5f));
    outside = !(fi >= 0 && fi < float(g.x.size) && fj >= 0 && fj < float(g.y.size));
    i = int(fi);
    j = int(fj);
  } else {
    outside = edge_outside(g.x, X) || edge_outside(g.y, Y);
    i = min(max(int(floor(__dmul_rn(double(X) + (g.x.origin - 0.5), g.x.step))), 0), g.x.size - 1);
    j = min(max(int(floor(__dmul_rn(double(Y) + (g.y.origin - 0.5), g.y.step))), 0), g.y.size - 1);
  }
  if (outside) {
    store(g, x, y, g.fill);
    return;
  }
  float c[4] = {};
#pragma unroll
  for (int k = 0; k < 4; k++) {
    if (!(g.needed >> k & 1)) continue;
    const bool small = g.chroma && (k == 1 || k == 2);
    c[k] = float(component<T>(g, k, small ? min(i >> g.x.chroma_shift, g.x.chroma_size - 1) : i,
                              small ? min(j >> g.y.chroma_shift, g.y.chroma_size - 1) : j));
  }
  finish<Shape::any, Sampler::affine>(g, x, y, c);
}

// The pixels [first, last] that a box covers, and how much of each.
struct Box {
  float low, high;
  int first, last;
  __device__ Box(float at, float reach) : low(at - reach), high(at + reach) {
    first = int(floorf(low + 0.5f));
    last = int(ceilf(high + 0.5f)) - 1;
  }
  __device__ float share(int i) const {
    return fmaxf(fminf(high, i + 0.5f) - fmaxf(low, i - 0.5f), 0) / (high - low);
  }
};

template <class T, bool AFFINE>
__global__ __launch_bounds__(kThreads) void area(const __grid_constant__ Args g) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.z * kRowsPerLayer + blockIdx.y;
  if (x >= g.width || y >= g.height) return;
  const float X = input(g.x, x), Y = input(g.y, y);
  const float px = AFFINE ? affine_position(g.x, X) : edge_position(g.x, X);
  const float py = AFFINE ? affine_position(g.y, Y) : edge_position(g.y, Y);
  const bool outside = AFFINE ? !(px + g.x.reach > -0.5f && px - g.x.reach < g.x.size - 0.5f &&
                                  py + g.y.reach > -0.5f && py - g.y.reach < g.y.size - 0.5f)
                              : edge_outside(g.x, X) || edge_outside(g.y, Y);
  if (outside) {
    store(g, x, y, g.fill);
    return;
  }
  const Box bx(px, g.x.reach), by(py, g.y.reach);
  float c[4] = {}, inside = 0;
  for (int j = by.first; j <= by.last; j++) {
    const bool row_out = AFFINE && (j < 0 || j >= g.y.size);
    const int r = min(max(j, 0), g.y.size - 1);
    float row[4] = {}, row_inside = 0;
    for (int i = bx.first; i <= bx.last; i++) {
      const float w = bx.share(i);
      const bool out = row_out || (AFFINE && (i < 0 || i >= g.x.size));
      const int column = min(max(i, 0), g.x.size - 1);
      if (!out) row_inside += w;
#pragma unroll
      for (int k = 0; k < 4; k++) {
        if (!(g.needed >> k & 1) || (g.chroma && (k == 1 || k == 2))) continue;
        row[k] += w * (out ? g.source_fill[k] : float(component<T>(g, k, column, r)));
      }
    }
    const float w = by.share(j);
    inside += w * row_inside;
#pragma unroll
    for (int k = 0; k < 4; k++) c[k] += w * row[k];
  }
  if (g.chroma) {
    const Box cx(__fadd_rn(__fmul_rn(px, g.x.chroma_step), g.x.chroma_offset),
                 fmaxf(0.5f, g.x.reach * g.x.chroma_step));
    const Box cy(__fadd_rn(__fmul_rn(py, g.y.chroma_step), g.y.chroma_offset),
                 fmaxf(0.5f, g.y.reach * g.y.chroma_step));
    for (int j = cy.first; j <= cy.last; j++)
      for (int i = cx.first; i <= cx.last; i++) {
        const float w = cx.share(i) * cy.share(j);
        const int column = min(max(i, 0), g.x.chroma_size - 1), r = min(max(j, 0), g.y.chroma_size - 1);
#pragma unroll
        for (int k = 1; k < 3; k++)
          if (g.needed >> k & 1) c[k] += w * float(component<T>(g, k, column, r));
      }
    if (AFFINE) {
#pragma unroll
      for (int k = 1; k < 3; k++) c[k] += (1 - inside) * (g.source_fill[k] - c[k]);
    }
  }
  finish<Shape::any, Sampler::affine>(g, x, y, c);
}

// ---- the plan ----------------------------------------------------------------------------------

using Kernel = void (*)(Args);

template <Shape S, class T>
Kernel bilinear_kernel(Sampler m) {
  if (m == Sampler::affine) return bilinear<S, T, Sampler::affine>;
  if constexpr (sizeof(T) == 1 && S != Shape::semi_planar)
    if (m == Sampler::edge_fixed) return bilinear<S, T, Sampler::edge_fixed>;
  return bilinear<S, T, Sampler::edge>;
}

template <class T>
Kernel kernel_for(Shape shape, Interpolation interpolation, Sampler m) {
  const bool affine = m == Sampler::affine;
  if (interpolation == Interpolation::nearest) return affine ? nearest<T, true> : nearest<T, false>;
  if (interpolation == Interpolation::area) return affine ? area<T, true> : area<T, false>;
  switch (shape) {
    case Shape::packed3:
      if constexpr (sizeof(T) == 1) return bilinear_kernel<Shape::packed3, T>(m);
      break;
    case Shape::packed4: return bilinear_kernel<Shape::packed4, T>(m);
    case Shape::semi_planar: return bilinear_kernel<Shape::semi_planar, T>(m);
    case Shape::any: break;
  }
  return bilinear_kernel<Shape::any, T>(m);
}

bool multiple(const void* p, ptrdiff_t stride, int bytes) {
  return (reinterpret_cast<size_t>(p) | size_t(stride)) % size_t(bytes) == 0;
}

class CudaLetterbox final : public Plan {
 public:
  CudaLetterbox(CudaQueue& queue, const LetterboxTask& task)
      : Plan(queue, task.source, task.destination, Placement::separate), queue_(queue), t_(task) {}

 private:
  // Destination planes of one subsampling are made by one launch.
  struct Group {
    int sub_x, sub_y, width, height;
  };

  int groups(Group (&out)[kMaxPlanes]) const {
    int n = 0;
    for (int p = 0; p < t_.destination.planes; p++) {
      const PlaneLayout& l = t_.destination.plane[p];
      bool known = false;
      for (int i = 0; i < n; i++) known = known || (out[i].sub_x == l.sub_x && out[i].sub_y == l.sub_y);
      if (!known) out[n++] = {l.sub_x, l.sub_y, l.width, l.height};
    }
    return n;
  }

  bool in_group(const LetterboxTask::Component& c, const Group& group) const {
    if (c.plane < 0) return false;
    const PlaneLayout& l = t_.destination.plane[c.plane];
    return l.sub_x == group.sub_x && l.sub_y == group.sub_y;
  }

  // How the source is laid out, as far as a loader cares.
  Shape shape(const Image& src) const {
    const PlaneLayout& p = t_.source.plane[0];
    const int size = size_of(t_.source.type);
    if (t_.interpolation != Interpolation::bilinear || p.width == 1) return Shape::any;
    // Three colours, not the one of a gray frame three times.
    const bool colors = t_.from[1].plane >= 0 && !(t_.from[1].plane == t_.from[0].plane &&
                                                   t_.from[1].channel == t_.from[0].channel);
    if (!colors) return Shape::any;
    if (t_.source.planes == 1 && p.channels == 3 && p.pixel_step() == 3 && size == 1)
      return Shape::packed3;
    if (t_.source.planes == 1 && p.channels == 4 && p.pixel_step() == 4 &&
        multiple(src.data[0], src.stride[0], 4 * size))
      return Shape::packed4;
    if (!t_.copies && t_.source.planes == 2 && t_.from[0].plane == 0 && p.channels == 1 &&
        p.pixel_step() == 1 && t_.from[1].plane == 1 && t_.from[2].plane == 1) {
      const PlaneLayout& c = t_.source.plane[1];
      if (c.channels == 2 && c.pixel_step() == 2 && (c.sub_x || c.sub_y) &&
          multiple(src.data[1], src.stride[1], 2 * size))
        return Shape::semi_planar;
    }
    return Shape::any;
  }

  AxisArgs axis(const LetterboxTask::Axis& a, bool horizontal, const Group& group) const {
    AxisArgs r = {};
    const int sub = horizontal ? group.sub_x : group.sub_y;
    r.input_step = float(1 << sub);
    r.input_offset = a.destination_cosited ? 0 : ((1 << sub) - 1) * 0.5f;
    r.multiply = a.multiply;
    r.add = a.add;
    r.origin = 0.5 - a.begin;
    r.step = a.step;
    r.begin = float(a.begin - 0.5);
    r.end = float(a.begin + a.size - 0.5);
    r.size = a.source;
    r.reach = a.reach;
    r.chroma_size = 1;
    r.chroma_step = 1;
    for (int k = 1; k < 3; k++) {
      if (t_.from[k].plane < 0) continue;
      const PlaneLayout& l = t_.source.plane[t_.from[k].plane];
      if (!l.sub_x && !l.sub_y) continue;
      r.chroma_shift = horizontal ? l.sub_x : l.sub_y;
      r.chroma_size = horizontal ? l.width : l.height;
      r.chroma_step = 1.0f / (1 << r.chroma_shift);
      r.chroma_offset = a.source_cosited ? 0 : r.chroma_step * 0.5f - 0.5f;
    }
    return r;
  }

  Args arguments(const Image& src, const Image& dst, const Group& group, Shape shape) const {
    Args g = {};
    const int size = size_of(t_.source.type), out_size = size_of(t_.destination.type);
    g.x = axis(t_.x, true, group);
    g.y = axis(t_.y, false, group);
    g.shift = t_.source.shift;
    g.copies = t_.copies;
    g.max_value = float(t_.max_value);
    g.alpha_scale = t_.alpha_scale;
    std::copy(&t_.matrix[0][0], &t_.matrix[0][0] + 9, &g.matrix[0][0]);
    std::copy_n(t_.offset, 3, g.offset);
    g.width = group.width;
    g.height = group.height;
    g.to_shift = t_.destination.shift;
    g.store = t_.half_float                  ? Store::f16
              : t_.normalised                ? Store::f32
              : t_.destination.type == Type::u8 ? Store::u8
                                                : Store::u16;

    // Packed pixels are loaded in memory order; where they are copied, so is all that follows.
    const bool packed = shape == Shape::packed3 || shape == Shape::packed4;
    int place[4] = {0, 1, 2, 3};  // of component k in the order of the arguments
    if (packed) {
      bool taken[4] = {};
      for (int k = 0; k < 4; k++)
        if (t_.from[k].plane >= 0) taken[place[k] = t_.from[k].channel] = true;
      for (int k = 0; k < 4; k++)
        if (t_.from[k].plane < 0) {
          int free = 0;
          while (taken[free]) free++;
          taken[place[k] = free] = true;
        }
      for (int k = 0; k < 4; k++) g.order[k] = place[k];
    }
    for (int k = 0; k < 4; k++) {
      const int in = place[k], on = t_.copies ? in : k;
      const auto from = t_.from[k], to = t_.to[k];
      if (from.plane >= 0) {
        const PlaneLayout& l = t_.source.plane[from.plane];
        g.from[in] = static_cast<const uint8_t*>(src.data[from.plane]) + from.channel * size;
        g.from_stride[in] = int(src.stride[from.plane]);
        g.from_step[in] = l.pixel_step() * size;
        g.source_fill[in] = t_.source_fill[k];
        if ((k == 1 || k == 2) && (l.sub_x || l.sub_y)) g.chroma = true;
        if (t_.copies || k == 3 ? in_group(to, group) : true) g.needed |= 1u << in;
      } else if (k == 3) {
        g.opaque[on] = true;
      }
      g.fill[on] = t_.fill[k];
      g.subtract[on] = t_.subtract[k];
      g.divide[on] = t_.divide[k];
      g.reciprocal[on] = t_.reciprocal[k];
      if (in_group(to, group)) {
        g.to[on] = static_cast<uint8_t*>(dst.data[to.plane]) + to.channel * out_size;
        g.to_stride[on] = int(dst.stride[to.plane]);
        g.to_step[on] = t_.destination.plane[to.plane].pixel_step() * out_size;
      }
    }
    if (shape == Shape::semi_planar) {
      g.from[1] = static_cast<const uint8_t*>(src.data[1]);
      g.u_shift = 8 * size * t_.from[1].channel;
      g.v_shift = 8 * size * t_.from[2].channel;
    }
    if (packed) {
      g.from[0] = static_cast<const uint8_t*>(src.data[0]);
      g.from_stride[0] = int(src.stride[0]);
    }
    if (in_group(t_.padding, group)) {
      const auto c = t_.padding;
      g.padding = static_cast<uint8_t*>(dst.data[c.plane]) + c.channel * out_size;
      g.padding_stride = int(dst.stride[c.plane]);
      g.padding_step = t_.destination.plane[c.plane].pixel_step() * out_size;
    }

    // Words at the very ends of the frame would reach over it.
    g.last_row = t_.y.source;
    if (shape == Shape::packed3) {
      const auto begin = reinterpret_cast<size_t>(src.data[0]);
      const size_t end = begin + size_t(src.stride[0]) * (t_.y.source - 1) + row_bytes(t_.source, 0);
      g.first_row = begin % 4 ? 1 : 0;
      if (end % 4) g.last_row--;
    }

    const PlaneLayout& l = t_.destination.plane[0];
    if (g.store == Store::u8 && t_.destination.planes == 1 && l.channels == 4 && l.pixel_step() == 4 &&
        multiple(dst.data[0], dst.stride[0], 4)) {
      g.store = Store::word;
      g.word_order = 0x4444;
      for (int k = 0; k < 4; k++) {
        if (t_.to[k].plane < 0) continue;
        const int nibble = 4 * t_.to[k].channel;
        g.word_order = (g.word_order & ~(0xfu << nibble)) | unsigned(t_.copies ? place[k] : k) << nibble;
      }
      g.to[0] = static_cast<uint8_t*>(dst.data[0]);
      g.to_stride[0] = int(dst.stride[0]);
    }
    return g;
  }

  Status enqueue(const Image& src, const Image& dst) override {
    for (const Image* image : {&src, &dst})
      for (int p = 0; p < image->layout.planes; p++)
        if (image->stride[p] > INT_MAX)
          return Status::error(Code::unsupported, "plane %d has a stride of %td bytes: must be up to %d", p,
                               image->stride[p], INT_MAX);
    const Shape s = shape(src);
    const bool fixed = t_.copies && t_.source.type == Type::u8;
    const Sampler m = t_.rule == LetterboxRule::affine ? Sampler::affine
                      : fixed                          ? Sampler::edge_fixed
                                                       : Sampler::edge;
    const Kernel kernel = t_.source.type == Type::u8 ? kernel_for<uint8_t>(s, t_.interpolation, m)
                                                     : kernel_for<uint16_t>(s, t_.interpolation, m);
    Group group[kMaxPlanes];
    const int n = groups(group);
    for (int i = 0; i < n; i++) {
      const Args g = arguments(src, dst, group[i], s);
      const dim3 grid((g.width + kThreads - 1) / kThreads, std::min(g.height, kRowsPerLayer),
                      (g.height + kRowsPerLayer - 1) / kRowsPerLayer);
      kernel<<<grid, kThreads, 0, queue_.cuda_stream()>>>(g);
      VF_TRY(check_launch("letterbox"));
    }
    return {};
  }

  CudaQueue& queue_;
  LetterboxTask t_;
};

}  // namespace

Status make_letterbox(Queue& queue, const LetterboxTask& task, std::unique_ptr<Plan>* out) {
  *out = std::make_unique<CudaLetterbox>(static_cast<CudaQueue&>(queue), task);
  return {};
}

}  // namespace vf::cuda
