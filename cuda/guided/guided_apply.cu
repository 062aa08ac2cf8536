// The third launch of the guided matte writes the result at the frame's resolution.
//
// Idea: (a, b) of the samples round a pixel, interpolated, times its colours. Pixels are fetched
// before the wait for the means, which hides their latency behind the launch before.
//   cells   subsample 4 or a multiple of 8: 4 x 2 pixels per thread share their samples.
//   quads   from subsample 3: 4 x 4 pixels lie within 3 x 3 samples.
//   pixels  everything else: any subsample, component type, place of components and output. A
//           thread takes a cell of subsampled planes, so that it has read all that it writes in
//           place.
// Traffic: the frame once in and once out; the samples come from L1 and L2.
#include "cuda/guided/guided_layers.cuh"

namespace vf::cuda {
namespace {

template <bool pairs>
__global__ __launch_bounds__(256) void cells(const GuidedPacked g, const GuidedCoefficients m) {
  const int x = 4 * (blockIdx.x * 32 + (threadIdx.x & 31));
  const int y = 2 * (blockIdx.y * 8 + (threadIdx.x >> 5));
  const bool live = x < g.width && y < g.height, two = y + 1 < g.height;
  uint4 pixels[2];
  const uint8_t* const in = g.in.data + size_t(y) * g.in.pitch + 4 * x;
  if (live) {
    pixels[0] = __ldcs(reinterpret_cast<const uint4*>(in));
    if (two) pixels[1] = __ldcs(reinterpret_cast<const uint4*>(in + g.in.pitch));
  }
  wait_for_previous();
  if (!live) return;
  const CellMeans<pairs> means(m, x, y);
  uint8_t* const out = g.out.data + size_t(y) * g.out.pitch + 4 * x;
#pragma unroll
  for (int j = 0; j < 2; j++) {
    if (j && !two) break;
    float4 ab[4];
    means.row(j, ab);
    __stcs(reinterpret_cast<uint4*>(out + (j ? g.out.pitch : 0)), finish(g, pixels[j], ab));
  }
}

template <bool aligned>
__global__ __launch_bounds__(256) void quads(const GuidedPacked g, const GuidedCoefficients m) {
  constexpr int rows = 4;
  const int x = 4 * (blockIdx.x * 32 + (threadIdx.x & 31));
  const int y = rows * (blockIdx.y * 8 + (threadIdx.x >> 5));
  const bool live = x < g.width && y < g.height;
  const int n = min(4, g.width - x);
  uint4 pixels[rows];
  if (live)
#pragma unroll
    for (int j = 0; j < rows; j++) {
      if (y + j >= g.height) break;
      const uint8_t* const p = g.in.data + size_t(y + j) * g.in.pitch + 4 * x;
      if (aligned) {
        pixels[j] = *reinterpret_cast<const uint4*>(p);
      } else {
        const auto q = reinterpret_cast<const uint32_t*>(p);
        pixels[j].x = q[0];
        if (n > 1) pixels[j].y = q[1];
        if (n > 2) pixels[j].z = q[2];
        if (n > 3) pixels[j].w = q[3];
      }
    }
  wait_for_previous();
  if (!live) return;
  const float per_s = 1.f / m.grid.subsample;
  int ix[4];
  float fx[4];
#pragma unroll
  for (int k = 0; k < 4; k++) fx[k] = place(x + k, per_s, m.grid.width, &ix[k]);
  const int x0 = ix[0], x1 = min(x0 + 1, m.grid.width - 1), x2 = min(x0 + 2, m.grid.width - 1);
  bool second[4];
#pragma unroll
  for (int k = 0; k < 4; k++) second[k] = ix[k] != x0;
  int top;
  place(y, per_s, m.grid.height, &top);
  float4 t[3][3];
#pragma unroll
  for (int j = 0; j < 3; j++) {
    const float4* const p = m.mean + size_t(min(top + j, m.grid.height - 1)) * m.grid.width;
    t[j][0] = __ldg(p + x0);
    t[j][1] = __ldg(p + x1);
    t[j][2] = __ldg(p + x2);
  }
#pragma unroll
  for (int j = 0; j < rows; j++) {
    if (y + j >= g.height) break;
    int iy;
    const float fy = place(y + j, per_s, m.grid.height, &iy);
    float4 c[3];
#pragma unroll
    for (int k = 0; k < 3; k++)
      c[k] = iy == top ? lerp(t[0][k], t[1][k], fy) : lerp(t[1][k], t[2][k], fy);
    uint32_t q[4] = {pixels[j].x, pixels[j].y, pixels[j].z, pixels[j].w};
#pragma unroll
    for (int k = 0; k < 4; k++)
      q[k] = finish(g, q[k], second[k] ? lerp(c[1], c[2], fx[k]) : lerp(c[0], c[1], fx[k]));
    uint8_t* const p = g.out.data + size_t(y + j) * g.out.pitch + 4 * x;
    if (aligned) {
      *reinterpret_cast<uint4*>(p) = make_uint4(q[0], q[1], q[2], q[3]);
    } else {
      const auto o = reinterpret_cast<uint32_t*>(p);
#pragma unroll
      for (int k = 0; k < 4; k++)
        if (k < n) o[k] = q[k];
    }
  }
}

template <class T>
__device__ __forceinline__ T rounded(const GuidedResult& g, float code) {
  if (std::is_same<T, float>::value) return T(code);
  return T(floorf(fmaf(fminf(fmaxf(code, 0.f), g.full), __fdividef(1.f, g.unit), 0.5f)) * g.unit);
}

// Rows of pixels of a thread: they share samples, which are fetched again only where the row of
// samples changes, and a warp's pixels lie side by side.
constexpr int kRows = kGuidedRowsPerThread;

template <class T, bool packed>
__global__ __launch_bounds__(256) void pixels(const GuidedSource in, const GuidedDestination to,
                                              const GuidedCoefficients m, const GuidedResult g) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31);
  const int y0 = kRows * (blockIdx.y * 8 + (threadIdx.x >> 5));
  const bool live = x < in.width && y0 < in.height;
  Pixel<T> pixel[kRows];
  if (live)
#pragma unroll
    for (int j = 0; j < kRows; j++)
      if (y0 + j < in.height) pixel[j] = read_pixel<T, false, false>(in, x, y0 + j);
  wait_for_previous();
  if (!live) return;
  const float per_s = 1.f / m.grid.subsample;
  int left;
  const float fx = place(x, per_s, m.grid.width, &left);
  const int right = min(left + 1, m.grid.width - 1);
  const auto across = [&](int row) {
    const float4* const p = m.mean + size_t(row) * m.grid.width;
    return lerp(__ldg(p + left), __ldg(p + right), fx);
  };
  int held = -2;
  float4 top, bottom;
#pragma unroll
  for (int j = 0; j < kRows; j++) {
    const int y = y0 + j;
    if (y >= in.height) break;
    int up;
    const float fy = place(y, per_s, m.grid.height, &up);
    if (up != held) {
      top = up == held + 1 ? bottom : across(up);
      bottom = across(min(up + 1, m.grid.height - 1));
      held = up;
    }
    const float4 ab = lerp(top, bottom, fy);
    const float v[3] = {float(pixel[j].v[0]), float(pixel[j].v[1]), float(pixel[j].v[2])};
    const float q = matte_of(ab, v[0] - g.midpoint, v[1] - g.midpoint, v[2] - g.midpoint);
    if constexpr (packed) {
      uint32_t word = uint32_t(rounded<T>(g, opacity(g, q))) << 24;
      float out[3];
      colours(g, x, y, v, q, out);
#pragma unroll
      for (int c = 0; c < 3; c++) word |= uint32_t(rounded<T>(g, out[c])) << 8 * c;
      *reinterpret_cast<uint32_t*>(to.words.data + size_t(y) * to.words.pitch + 4 * x) =
          __byte_perm(word, 0, to.words.order);
    } else {
      if (to.alpha.data) *address<T>(to.alpha, x, y) = rounded<T>(g, opacity(g, q));
      if (to.colours_stay) continue;
      float out[3];
      colours(g, x, y, v, q, out);
#pragma unroll
      for (int c = 0; c < 3; c++)
        if (c < to.colors) *address<T>(to.color[c], x, y) = rounded<T>(g, out[c]);
    }
  }
}

template <class T, int cell>
__global__ __launch_bounds__(256) void cells_of_planes(const GuidedSource in,
                                                       const GuidedDestination to,
                                                       const GuidedCoefficients m,
                                                       const GuidedResult g) {
  const int x0 = cell * (blockIdx.x * 32 + (threadIdx.x & 31));
  const int y0 = cell * (blockIdx.y * 8 + (threadIdx.x >> 5));
  const bool live = x0 < in.width && y0 < in.height;
  wait_for_previous();
  if (!live) return;
  [[maybe_unused]] constexpr int unroll =
      cell > 2 ? 1 : cell;  // large cells are rare: short code, local memory
  float q[cell][cell], seen[3][cell][cell];
#pragma unroll unroll
  for (int j = 0; j < cell; j++)
#pragma unroll unroll
    for (int i = 0; i < cell; i++) {
      const int x = x0 + i, y = y0 + j;
      q[j][i] = 0;
      if (x >= in.width || y >= in.height) continue;
      const Pixel<T> p = read_pixel<T, false, false>(in, x, y);
#pragma unroll
      for (int c = 0; c < 3; c++) seen[c][j][i] = float(p.v[c]);
      q[j][i] = matte_of(means_at(m, x + .5f, y + .5f), seen[0][j][i] - g.midpoint,
                         seen[1][j][i] - g.midpoint, seen[2][j][i] - g.midpoint);
    }
#pragma unroll unroll
  for (int j = 0; j < cell; j++)
#pragma unroll unroll
    for (int i = 0; i < cell; i++) {
      const int x = x0 + i, y = y0 + j;
      if (x >= in.width || y >= in.height) continue;
      if (to.alpha.data) *address<T>(to.alpha, x, y) = rounded<T>(g, opacity(g, q[j][i]));
#pragma unroll
      for (int c = 0; c < 3; c++) {
        if (c >= to.colors) break;
        const int wide = 1 << to.color[c].sub_x, high = 1 << to.color[c].sub_y;
        if (i & (wide - 1) || j & (high - 1)) continue;
        float mean = q[j][i];
        if (cell > 1 && wide * high > 1) {
          int n = 0;
          mean = 0;
#pragma unroll unroll
          for (int v = 0; v < cell; v++)
#pragma unroll unroll
            for (int u = 0; u < cell; u++)
              if (v >= j && v < j + high && u >= i && u < i + wide && x0 + u < in.width &&
                  y0 + v < in.height) {
                mean += q[v][u];
                n++;
              }
          mean = __fdividef(mean, float(n));
        }
        float v[3] = {seen[0][j][i], seen[1][j][i], seen[2][j][i]}, behind[3] = {};
        estimate_at(g, x, y, mean, v);
        if (g.output == kOutputComposite) background_at(g, x, y, behind);
        *address<T>(to.color[c], x, y) =
            rounded<T>(g, colour(g, despilled(g, v, c), mean, c, behind[c]));
      }
    }
}

template <class T>
GuidedPixelsKernel pixels_of(int cell) {
  if (cell == 1) return pixels<T, false>;
  if (cell == 2) return cells_of_planes<T, 2>;
  return cells_of_planes<T, 8>;
}

}  // namespace

GuidedPackedKernel guided_apply_cells(bool pairs) {
  return pairs ? cells<true> : cells<false>;
}

GuidedPackedKernel guided_apply_quads(bool aligned) {
  return aligned ? quads<true> : quads<false>;
}

GuidedPixelsKernel guided_apply_pixels(Type type, int cell, bool packed) {
  if (packed) return pixels<uint8_t, true>;
  if (type == Type::f32) return pixels_of<float>(cell);
  return type == Type::u16 ? pixels_of<uint16_t>(cell) : pixels_of<uint8_t>(cell);
}

}  // namespace vf::cuda
