// The second launch of the guided matte makes the means of (a, b) over the windows.
//
// Idea: (a, b) come summed up down strips of rows, so a vertical window is a difference of two rows
// and the totals of the strips between; the horizontal one is a difference of two prefix sums.
//   tiles      4 or 8 rows x 32 * columns columns, halo included: all threads take the vertical
//              windows into shared memory, then a warp makes the prefix sums of its row. At
//              subsample 1 it also finishes the pixel.
//   streaming  windows too wide for a tile: a block of up to 2048 columns goes down a few rows.
//   steady     with `temporal`, a separate launch: the means are blended with those of the previous
//              frames where the guide stands still.
// Traffic: 16 bytes a sample, read 3 to 6 times from L2; 16 written, or 4 read and 4 written where
// it finishes.
#include "cuda/guided/guided.cuh"

namespace vf::cuda {
namespace {

// Holds a row of columns in shared memory. Padding behind each lane's `columns` avoids bank conflicts.
template <int columns>
struct Row {
  static constexpr int width = 32 * columns;
  static constexpr int shift = columns == 16 ? 4 : 3;
  static constexpr int pitch = width + (width >> shift) + 1;
  __device__ static int at(int c) { return c + (c >> shift); }
};

// Writes the means (a, b) at a sample, which refine=colors settles.
__device__ __forceinline__ void write(const GuidedMeans& g, int x, int y, float4 ab,
                                      const Settling& settling) {
  if (g.sides) {
    ab = settling.of(ab);
    ab = make_float4(ab.x * g.guide_unit, ab.y * g.guide_unit, ab.z * g.guide_unit, ab.w);
  }
  g.mean[size_t(y) * g.grid.width + x] = ab;
}

template <bool last, int columns, int rows>
__global__ __launch_bounds__(32 * rows,
                             (columns == 16 ? 24 : 32) / rows) void tiles(const GuidedSums sums,
                                                                          const GuidedMeans g,
                                                                          const GuidedPacked w) {
  using R = Row<columns>;
  constexpr int threads = 32 * rows;
  VF_DYNAMIC_SHARED(16, float4, shared);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, r = g.radius, strip = sums.strip;
  const int out = R::width - 2 * r, x0 = blockIdx.x * out, y0 = blockIdx.y * rows, y = y0 + warp;
  const float4 zero = make_float4(0, 0, 0, 0);
  constexpr bool early = last && columns < 16;  // pixels are fetched early where registers allow
  uint32_t pixel[columns];
  if (early && y < w.height)
#pragma unroll
    for (int k = 0; k < columns; k++) {
      const int c = lane + 32 * k, x = x0 + c;
      if (c < out && x < w.width)
        pixel[k] = *reinterpret_cast<const uint32_t*>(w.in.data + size_t(y) * w.in.pitch + 4 * x);
    }
  wait_for_previous();
  let_next_start();
#pragma unroll
  for (int k = 0; k < R::width / threads; k++) {
    const int c = tid + k * threads, x = x0 - r + c;
    const bool in = x >= 0 && x < g.grid.width;
    const float4* const p = sums.data + x;
    auto at = [&](int row) { return in && row >= 0 ? __ldcg(p + row * g.grid.width) : zero; };
    const int high = min(y0 + r, g.grid.height - 1), low = y0 - r - 1;
    const int high_strip = high / strip, low_strip = low < 0 ? 0 : low / strip;
    int next_high = high_strip * strip + strip, next_low = low_strip * strip + strip;
    float4 between = zero, a = zero, b = zero, next_a[4], next_b[4];
#pragma unroll
    for (int u = 0; u < rows; u += 4) {
#pragma unroll
      for (int j = 0; j < 4; j++) {
        next_a[j] = at(min(y0 + u + j + r, g.grid.height - 1));
        next_b[j] = at(min(y0 + u + j, g.grid.height - 1) - r - 1);
      }
      if (!u) {
#pragma unroll 4
        for (int q = low_strip; q < high_strip; q++) between = between + at(q * strip + strip - 1);
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
        if (u + j) {
          if (min(y0 + u + j + r, g.grid.height - 1) >= next_high) {
            next_high += strip;
            between = between + a;
          }
          if (y0 + u + j - r - 1 >= next_low) {
            next_low += strip;
            between = between - b;
          }
        }
        a = next_a[j];
        b = next_b[j];
        shared[(u + j) * R::pitch + R::at(c)] = a - b + between;
      }
    }
  }
  __syncthreads();
  if (y >= g.grid.height) return;
  // Where registers allow, what the samples are settled with is fetched before it is needed.
  constexpr bool ahead = !last && columns == 4;
  Settling settling[ahead ? columns : 1];
  if (ahead && g.sides)
#pragma unroll
    for (int k = 0; k < columns; k++) {
      const int c = lane + 32 * k, x = x0 + c;
      if (c < out && x < g.grid.width) settling[k] = Settling(g, x, y);
    }
  float4* const row = shared + warp * R::pitch;
  float4 sum = zero;
#pragma unroll
  for (int j = 0; j < columns; j++) sum = sum + row[R::at(lane * columns + j)];
  const float4 i = sum_up_to_lane(sum);
  float4 e = i - sum;
#pragma unroll
  for (int j = 0; j < columns; j++) {
    float4* const q = row + R::at(lane * columns + j);
    const float4 t = *q;
    *q = e;
    e = e + t;
  }
  if (lane == 31) row[R::at(R::width)] = e;
  __syncwarp();
  const int ny = window_count(y, r, g.grid.height);
  // Eight samples at once that are fetched here need more registers than a thread has.
#pragma unroll(last || columns != 8 ? columns : 2)
  for (int k = 0; k < columns; k++) {
    const int c = lane + 32 * k, x = x0 + c;
    if (c >= out || x >= g.grid.width) continue;
    const int n = ny * window_count(x, r, g.grid.width);
    const float4 ab =
        (row[R::at(c + 2 * r + 1)] - row[R::at(c)]) * __fdividef(g.inv_scale, float(n));
    if (last) {
      const uint32_t word =
          early ? pixel[k]
                : *reinterpret_cast<const uint32_t*>(w.in.data + size_t(y) * w.in.pitch + 4 * x);
      *reinterpret_cast<uint32_t*>(w.out.data + size_t(y) * w.out.pitch + 4 * x) =
          finish(w, word, ab);
    } else {
      if (!ahead && g.sides) settling[0] = Settling(g, x, y);
      write(g, x, y, ab, settling[ahead ? k : 0]);
    }
  }
}

__global__ __launch_bounds__(1024) void streaming_means(const GuidedSums sums, const GuidedMeans g,
                                                        const GuidedPacked) {
  VF_DYNAMIC_SHARED(16, float4, shared);
  VF_SHARED(float4[2][32], totals);
  const int threads = blockDim.x, tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int r = g.radius, strip = sums.strip;
  const int x0 = blockIdx.x * g.tile, y0 = blockIdx.y * g.rows;
  const int y1 = min(y0 + g.rows, g.grid.height), c0 = x0 - r + 2 * tid;
  const bool in0 = c0 >= 0 && c0 < g.grid.width, in1 = c0 + 1 >= 0 && c0 + 1 < g.grid.width;
  const float4 zero = make_float4(0, 0, 0, 0);
  wait_for_previous();
  let_next_start();
  auto load = [&](int y, float4& a, float4& b) {
    a = b = zero;
    if (y < 0) return;
    const float4* const p = sums.data + size_t(y) * g.grid.width + c0;
    if (in0) a = __ldcg(p);
    if (in1) b = __ldcg(p + 1);
  };
  const int high = min(y0 + r, g.grid.height - 1), low = y0 - r - 1;
  int high_strip = high / strip, low_strip = low < 0 ? 0 : low / strip;
  float4 between0 = zero, between1 = zero, a0, a1, b0, b1;
  for (int k = low_strip; k < high_strip; k++) {
    load(k * strip + strip - 1, a0, a1);
    between0 = between0 + a0;
    between1 = between1 + a1;
  }
  load(high, a0, a1);
  load(low, b0, b1);
  for (int y = y0; y < y1; y++) {
    const float4 v0 = a0 - b0 + between0, v1 = a1 - b1 + between1;
    if (y + 1 < y1) {  // strips entered and left on the way to the next row
      const int next_high = min(y + 1 + r, g.grid.height - 1), next_low = y - r;
      if (next_high / strip != high_strip) {
        high_strip = next_high / strip;
        between0 = between0 + a0;
        between1 = between1 + a1;
      }
      if (next_low > 0 && next_low / strip != low_strip) {
        low_strip = next_low / strip;
        between0 = between0 - b0;
        between1 = between1 - b1;
      }
      load(next_high, a0, a1);
      load(next_low, b0, b1);
    }
    const float4 t = v0 + v1;
    const float4 i = sum_up_to_lane(t);
    float4* const total = totals[y & 1];
    if (lane == 31) total[warp] = i;
    __syncthreads();
    float4 before = i - t;
    for (int k = 0; k < warp; k++) before = before + total[k];
    shared[2 * tid] = before;
    shared[2 * tid + 1] = before + v0;
    __syncthreads();
    const int ny = window_count(y, r, g.grid.height);
    // Not unrolled: two samples at once need more registers than a thread has.
#pragma unroll 1
    for (int k = 0; k < 2; k++) {
      const int c = tid + k * threads, x = x0 + c;
      if (c >= g.tile || x >= g.grid.width) continue;
      const int n = ny * window_count(x, r, g.grid.width);
      const float4 ab = (shared[c + 2 * r + 1] - shared[c]) * __fdividef(g.inv_scale, float(n));
      write(g, x, y, ab, g.sides ? Settling(g, x, y) : Settling());
    }
  }
}

template <class T>
__global__ __launch_bounds__(256) void steady(const GuidedSource source, const GuidedSteady g) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31), y = blockIdx.y * 8 + (threadIdx.x >> 5);
  const bool live = x < g.grid.width && y < g.grid.height;
  float near[3] = {};
  if (live) {
    int n = 0;
#pragma unroll
    for (int j = -1; j <= 1; j++)
#pragma unroll
      for (int i = -1; i <= 1; i++) {
        if (x + i < 0 || x + i >= g.grid.width || y + j < 0 || y + j >= g.grid.height) continue;
        const Pixel<T> p = read_sample<T, false>(source, g.grid, x + i, y + j);
#pragma unroll
        for (int c = 0; c < 3; c++) near[c] += float(p.v[c]);
        n++;
      }
#pragma unroll
    for (int c = 0; c < 3; c++) near[c] = __fdividef(near[c], float(n));
  }
  wait_for_previous();
  let_next_start();
  if (!live) return;
  const size_t at = size_t(y) * g.grid.width + x;
  // Loads through L1 would leave stale lines there for the next launch.
  float4 ab = __ldcg(g.mean + at), guide = make_float4(near[0], near[1], near[2], 0);
  if (!g.fresh) {
    const float4 previous = g.previous_guide[at];
    const float change = fmaxf(fabsf(guide.x - previous.x),
                               fmaxf(fabsf(guide.y - previous.y), fabsf(guide.z - previous.z)));
    const float keep = g.temporal * __saturatef((g.moved - change) * g.inv_motion_range);
    if (keep > 0) {
      ab = lerp(ab, g.previous_ab[at], keep);
      guide = lerp(guide, previous, keep);
    }
  }
  g.previous_ab[at] = ab;
  g.previous_guide[at] = guide;
  g.mean[at] = ab;
}

}  // namespace

GuidedSteadyKernel guided_steady(Type type) {
  if (type == Type::f32) return steady<float>;
  return type == Type::u16 ? steady<uint16_t> : steady<uint8_t>;
}

GuidedMeansKernel guided_means(int columns_per_lane, bool last) {
  if (columns_per_lane == 4) return last ? tiles<true, 4, 4> : tiles<false, 4, 4>;
  if (columns_per_lane == 8) return last ? tiles<true, 8, 8> : tiles<false, 8, 8>;
  if (columns_per_lane == 16) return last ? tiles<true, 16, 4> : tiles<false, 16, 4>;
  return streaming_means;
}

}  // namespace vf::cuda
