// Letterboxes every layout in one pass. letterbox_fast.cu is faster for frequent ones.
//
// Idea: a thread makes one destination pixel, and a warp makes 32 neighbours of a row. A thread
// computes the source position and the weights in the rule's arithmetic, with each operation
// rounded by itself, and handles one component at a time.
//
// Traffic: the kernel reads the sampled source rows once, and writes the destination once.
//
// Tile: 256 x 1 pixels. Larger tiles, several pixels per thread, and staged rows are slower.
#include "cuda/letterbox/letterbox.cuh"

namespace vf::cuda::letterbox {
namespace {

template <class T, Sampler M, int N>
__global__ __launch_bounds__(kThreads) void bilinear(const __grid_constant__ Launched<N> l) {
  const Args& g = l.args;
  const auto [x, y, image] = place<N>();
  if (x >= g.width || y >= g.height) return;
  const Images& m = l.images[image];
  const float X = input(g.x, x), Y = input(g.y, y);
  bool shown;
  if constexpr (M == Sampler::affine) {
    const float px = affine_position(g.x, X), py = affine_position(g.y, Y);
    shown = px > -1 && px < float(g.x.size) && py > -1 && py < float(g.y.size);
  } else {
    shown = !edge_outside(g.x, X) && !edge_outside(g.y, Y);
  }
  if (shown)
    picture<T, M>(g, m, x, y);
  else
    store(g, m, x, y, g.fill);
}

template <class T, bool AFFINE, int N>
__global__ __launch_bounds__(kThreads) void nearest(const __grid_constant__ Launched<N> l) {
  const Args& g = l.args;
  const auto [x, y, image] = place<N>();
  if (x >= g.width || y >= g.height) return;
  const Images& m = l.images[image];
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
    store(g, m, x, y, g.fill);
    return;
  }
  float c[4] = {};
#pragma unroll
  for (int k = 0; k < 4; k++) {
    if (!(g.needed >> k & 1)) continue;
    const bool small = g.chroma && (k == 1 || k == 2);
    c[k] = float(component<T>(g, m, k, small ? min(i >> g.x.chroma_shift, g.x.chroma_size - 1) : i,
                              small ? min(j >> g.y.chroma_shift, g.y.chroma_size - 1) : j));
  }
  finish<false>(g, m, x, y, c);
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

template <class T, bool AFFINE, int N>
__global__ __launch_bounds__(kThreads) void area(const __grid_constant__ Launched<N> l) {
  const Args& g = l.args;
  const auto [x, y, image] = place<N>();
  if (x >= g.width || y >= g.height) return;
  const Images& m = l.images[image];
  const float X = input(g.x, x), Y = input(g.y, y);
  const float px = AFFINE ? affine_position(g.x, X) : edge_position(g.x, X);
  const float py = AFFINE ? affine_position(g.y, Y) : edge_position(g.y, Y);
  const bool outside = AFFINE ? !(px + g.x.reach > -0.5f && px - g.x.reach < g.x.size - 0.5f &&
                                  py + g.y.reach > -0.5f && py - g.y.reach < g.y.size - 0.5f)
                              : edge_outside(g.x, X) || edge_outside(g.y, Y);
  if (outside) {
    store(g, m, x, y, g.fill);
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
        row[k] += w * (out ? g.source_fill[k] : float(component<T>(g, m, k, column, r)));
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
        const int column = min(max(i, 0), g.x.chroma_size - 1),
                  r = min(max(j, 0), g.y.chroma_size - 1);
#pragma unroll
        for (int k = 1; k < 3; k++)
          if (g.needed >> k & 1) c[k] += w * float(component<T>(g, m, k, column, r));
      }
    if (AFFINE) {
#pragma unroll
      for (int k = 1; k < 3; k++) c[k] += (1 - inside) * (g.source_fill[k] - c[k]);
    }
  }
  finish<false>(g, m, x, y, c);
}

template <class T, Sampler M>
Kernel kernel_of(Interpolation interpolation) {
  constexpr bool kAffine = M == Sampler::affine;
  if (interpolation == Interpolation::bilinear)
    return {bilinear<T, M, 1>, bilinear<T, M, kMostImages>};
  if (interpolation == Interpolation::nearest)
    return {nearest<T, kAffine, 1>, nearest<T, kAffine, kMostImages>};
  return {area<T, kAffine, 1>, area<T, kAffine, kMostImages>};
}

template <class T>
Kernel kernel_for(Interpolation interpolation, Sampler m) {
  if (m == Sampler::affine) return kernel_of<T, Sampler::affine>(interpolation);
  if constexpr (sizeof(T) == 1)
    if (m == Sampler::edge_fixed) return kernel_of<T, Sampler::edge_fixed>(interpolation);
  return kernel_of<T, Sampler::edge>(interpolation);
}

}  // namespace

Kernel fallback_kernel(const LetterboxTask& t) {
  const bool u8 = t.source.type == Type::u8;
  const Sampler sampler = t.rule == LetterboxRule::affine ? Sampler::affine
                          : t.copies && u8                ? Sampler::edge_fixed
                                                          : Sampler::edge;
  return u8 ? kernel_for<uint8_t>(t.interpolation, sampler)
            : kernel_for<uint16_t>(t.interpolation, sampler);
}

}  // namespace vf::cuda::letterbox
