// The first launch of the guided matte finds (a, b) of every window.
//
// Idea: a window has sums of 13 moments. They come from sums down columns, by dp4a with four rows
// an instruction, or by adding the row that enters and subtracting the one that leaves. A prefix
// sum along the row makes any window the difference of two prefixes. 8-bit sums are uint32 modulo
// 2^32, exact for windows to 257 x 257. Moments are re-centred on the window's rounded mean in
// int32, so nothing cancels at epsilon 1e-6. LDL^T then solves for (a, b) in float.
//   tile       is for windows to 63 x 63 of a subsampled frame. A block is 8, 16 or 24 rows x 128
//              columns with halo. It stages its samples once, and a warp takes 1 to 3 rows.
//   streaming  is for subsample 1 and for wide windows. 52 sums stay in registers while a block
//              goes down a strip. There are as many strips as fit the device in one wave.
//   wide       is for 16 bits, float, and windows beyond 257. It works on whole rows, with 64-bit
//              integer or double sums in global memory (L2).
// Traffic: a kernel reads the frame's samples once (streaming: about twice) and writes 16 bytes a
// sample: (a, b), summed up down the strip of rows, which spares the second means half of its sums.
#include "cuda/guided/guided_moments.cuh"

namespace vf::cuda {
namespace {

template <class T>
__device__ __forceinline__ Pixel<T> read_with_mask(const GuidedSource& in,
                                                   const GuidedStatistics& g, int x, int y) {
  Pixel<T> p = read_sample<T, true>(in, g.grid, x, y);
  if (sizeof(T) > 1 && g.mask.data)
    p.v[3] = __ldg(static_cast<const T*>(g.mask.data) + size_t(y) * g.mask.pitch + x);
  return p;
}
__device__ __forceinline__ uint32_t read_word(const GuidedSource& in, const GuidedStatistics& g,
                                              int x, int y) {
  const Pixel<uint8_t> p = read_with_mask<uint8_t>(in, g, x, y);
  return word_of(p, p.v[3]);
}

// A row enters the sums of a column and one leaves.
__device__ __forceinline__ void swap_row(uint32_t n, uint32_t o, uint32_t* sum, int stride) {
  const uint32_t a[4] = {n & 255, n >> 8 & 255, n >> 16 & 255, n >> 24};
  const uint32_t b[4] = {o & 255, o >> 8 & 255, o >> 16 & 255, o >> 24};
  constexpr int I[9] = {0, 0, 0, 1, 1, 2, 0, 1, 2}, J[9] = {0, 1, 2, 1, 2, 2, 3, 3, 3};
#pragma unroll
  for (int k = 0; k < 4; k++) sum[k * stride] += a[k] - b[k];
#pragma unroll
  for (int k = 0; k < 9; k++) sum[(4 + k) * stride] += a[I[k]] * a[J[k]] - b[I[k]] * b[J[k]];
}

constexpr int kPrefixPitch = kStatisticsTile + 4;

template <bool direct, int blocks, int rows_per_warp>
__global__ __launch_bounds__(32 * kStatisticsWarps, blocks) void tile(const GuidedSource in,
                                                                      const GuidedStatistics g) {
  constexpr int rows_out = kStatisticsWarps * rows_per_warp;
  VF_DYNAMIC_SHARED(16, uint32_t, shared);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, r = g.radius;
  const int rows = rows_out + 2 * r, columns = kStatisticsTile - 2 * r;
  uint32_t* const prefix = shared + warp * kMoments * kPrefixPitch;
  uint32_t* const samples = shared + kStatisticsWarps * kMoments * kPrefixPitch;
  const int x0 = blockIdx.x * columns, y0 = blockIdx.y * rows_out;
  wait_for_previous();
  {
    const int c = tid & (kStatisticsTile - 1), x = x0 - r + c;
    const bool in_x = x >= 0 && x < g.grid.width;
    const int half = g.grid.subsample >> 1,
              at_x = 4 * min(max(x, 0) * g.grid.subsample + half, in.width - 1);
    constexpr int step = 32 * kStatisticsWarps / kStatisticsTile;
    if (direct) {
      for (int j = tid / kStatisticsTile; j < rows; j += step) {
        const int y = y0 - r + j, at_y = min(max(y, 0) * g.grid.subsample + half, in.height - 1);
        copy_async(samples + j * kStatisticsTile + c,
                   in.words.data + size_t(at_y) * in.words.pitch + at_x,
                   in_x && y >= 0 && y < g.grid.height);
      }
      wait_all_copies();
    } else {
#pragma unroll 4
      for (int j = tid / kStatisticsTile; j < rows; j += step) {
        const int y = y0 - r + j;
        const bool inside = in_x && y >= 0 && y < g.grid.height;
        samples[j * kStatisticsTile + c] = inside ? read_word(in, g, x, y) : 0;
      }
    }
  }
  let_next_start();
  __syncthreads();
  uint32_t sum[kMoments * 4];  // sums of four neighbouring columns
#pragma unroll
  for (int i = 0; i < kMoments * 4; i++) sum[i] = 0;
  const uint4* const column =
      reinterpret_cast<const uint4*>(samples + warp * rows_per_warp * kStatisticsTile) + lane;
  constexpr int row = kStatisticsTile / 4;
  const uint4 none = make_uint4(0, 0, 0, 0);
  const uint32_t low = direct ? g.pairs_low : 0x5140, high = direct ? g.pairs_high : 0x7362;
  for (int j = 0; j <= 2 * r; j += 4) {
    const uint4 q0 = column[j * row], q1 = j + 1 <= 2 * r ? column[(j + 1) * row] : none,
                q2 = j + 2 <= 2 * r ? column[(j + 2) * row] : none,
                q3 = j + 3 <= 2 * r ? column[(j + 3) * row] : none;
    add_rows(q0.x, q1.x, q2.x, q3.x, low, high, sum, 4);
    add_rows(q0.y, q1.y, q2.y, q3.y, low, high, sum + 1, 4);
    add_rows(q0.z, q1.z, q2.z, q3.z, low, high, sum + 2, 4);
    add_rows(q0.w, q1.w, q2.w, q3.w, low, high, sum + 3, 4);
  }
  float4 ab[rows_per_warp][4];
#pragma unroll
  for (int w = 0; w < rows_per_warp; w++) {
    if (w) {
      const uint4 n = column[(2 * r + w) * row], o = column[(w - 1) * row];
      const uint32_t order = direct ? in.words.order : 0x3210;
      swap_row(__byte_perm(n.x, 0, order), __byte_perm(o.x, 0, order), sum, 4);
      swap_row(__byte_perm(n.y, 0, order), __byte_perm(o.y, 0, order), sum + 1, 4);
      swap_row(__byte_perm(n.z, 0, order), __byte_perm(o.z, 0, order), sum + 2, 4);
      swap_row(__byte_perm(n.w, 0, order), __byte_perm(o.w, 0, order), sum + 3, 4);
      __syncwarp();
    }
#pragma unroll
    for (int k = 0; k < kMoments; k++) {
      const uint32_t s0 = sum[4 * k], s1 = s0 + sum[4 * k + 1], s2 = s1 + sum[4 * k + 2],
                     s3 = s2 + sum[4 * k + 3], i = sum_up_to_lane(s3), e = i - s3;
      *reinterpret_cast<uint4*>(prefix + k * kPrefixPitch + 4 * lane) =
          make_uint4(e, e + s0, e + s1, e + s2);
      if (lane == 31) prefix[k * kPrefixPitch + kStatisticsTile] = i;
    }
    __syncwarp();
    const int y = y0 + warp * rows_per_warp + w, ny = window_count(y, r, g.grid.height);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int c = lane + 32 * k, x = x0 + c;
      ab[w][k] = make_float4(0, 0, 0, 0);
      if (c >= columns || x >= g.grid.width || y >= g.grid.height) continue;
      uint32_t v[kMoments];
#pragma unroll
      for (int i = 0; i < kMoments; i++)
        v[i] = prefix[i * kPrefixPitch + c + 2 * r + 1] - prefix[i * kPrefixPitch + c];
      const int n = ny * window_count(x, r, g.grid.width);
      ab[w][k] = solve(v, n, __fdividef(1.f, float(n)), g.epsilon);
    }
  }
  __syncwarp();
#pragma unroll
  for (int k = 0; k < 4 * rows_per_warp; k++)
    reinterpret_cast<float4*>(prefix)[lane + 32 * k] = ab[k / 4][k % 4];
  __syncthreads();
  // Sums down the block's rows; two threads a column, for two floats each.
  const int c = tid >> 1, x = x0 + c;
  if (c >= columns || x >= g.grid.width) return;
  float2 total = make_float2(0, 0);
#pragma unroll
  for (int j = 0; j < rows_out; j++) {
    if (y0 + j >= g.grid.height) break;
    const float2 v = reinterpret_cast<const float2*>(
        shared + (j / rows_per_warp) * kMoments * kPrefixPitch + (j % rows_per_warp) * 512)[tid];
    total.x += v.x;
    total.y += v.y;
    reinterpret_cast<float2*>(g.sums.data + size_t(y0 + j) * g.grid.width + x)[tid & 1] = total;
  }
}

template <bool direct, int warps, int blocks>
__global__ __launch_bounds__(32 * warps, blocks) void streaming(const GuidedSource in,
                                                                const GuidedStatistics g) {
  VF_DYNAMIC_SHARED(16, uint32_t, shared);
  constexpr int threads = 32 * warps, columns = threads * 4;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, r = g.radius;
  uint32_t *const totals = shared, *const prefix = shared + 16 * 16;
  const int x0 = blockIdx.x * g.tile, y0 = blockIdx.y * g.sums.strip,
            y1 = min(y0 + g.sums.strip, g.grid.height);
  const int first = x0 - g.halo + 4 * tid;
  const bool inside = first >= 0 && first + 3 < g.grid.width;
  const bool any = first + 3 >= 0 && first < g.grid.width;
  const uint8_t* const mine = in.words.data + 4 * first;
  const uint32_t low = direct ? g.pairs_low : 0x5140, high = direct ? g.pairs_high : 0x7362;
  const uint32_t order = direct ? in.words.order : 0x3210;
  // Loads the thread's four columns of a row, zero outside the frame. `direct` is for subsample 1
  // and rows aligned to 16 bytes; offsets fit 32 bits there.
  auto load = [&](int y, int limit) -> uint4 {
    uint4 p = make_uint4(0, 0, 0, 0);
    if (y < 0 || y >= limit || !any) return p;
    if (direct) {
      const uint8_t* const at = mine + y * in.words.pitch;
      if (inside) return *reinterpret_cast<const uint4*>(at);
      const auto word = reinterpret_cast<const uint32_t*>(at);
      if (first >= 0) p.x = word[0];
      if (first + 1 >= 0 && first + 1 < g.grid.width) p.y = word[1];
      if (first + 2 >= 0 && first + 2 < g.grid.width) p.z = word[2];
      if (first + 3 < g.grid.width) p.w = word[3];
    } else {
      if (first >= 0) p.x = read_word(in, g, first, y);
      if (first + 1 >= 0 && first + 1 < g.grid.width) p.y = read_word(in, g, first + 1, y);
      if (first + 2 >= 0 && first + 2 < g.grid.width) p.z = read_word(in, g, first + 2, y);
      if (first + 3 < g.grid.width) p.w = read_word(in, g, first + 3, y);
    }
    return p;
  };
  uint32_t sum[kMoments * 4];
#pragma unroll
  for (int i = 0; i < kMoments * 4; i++) sum[i] = 0;
  let_next_start();
  const int limit = min(y0 + r, g.grid.height);
  {
    int y = max(y0 - r, 0);
    uint4 q0 = load(y, limit), q1 = load(y + 1, limit), q2 = load(y + 2, limit),
          q3 = load(y + 3, limit);
    for (; y < limit; y += 4) {
      const uint4 n0 = load(y + 4, limit), n1 = load(y + 5, limit), n2 = load(y + 6, limit),
                  n3 = load(y + 7, limit);
      add_rows(q0.x, q1.x, q2.x, q3.x, low, high, sum, 4);
      add_rows(q0.y, q1.y, q2.y, q3.y, low, high, sum + 1, 4);
      add_rows(q0.z, q1.z, q2.z, q3.z, low, high, sum + 2, 4);
      add_rows(q0.w, q1.w, q2.w, q3.w, low, high, sum + 3, 4);
      q0 = n0;
      q1 = n1;
      q2 = n2;
      q3 = n3;
    }
  }
  float4 total[4];
  float nx[4];
#pragma unroll
  for (int k = 0; k < 4; k++) {
    total[k] = make_float4(0, 0, 0, 0);
    nx[k] = float(window_count(x0 + tid + k * threads, r, g.grid.width));
  }
  float4* out = g.sums.data + size_t(y0) * g.grid.width + x0 + tid;
  uint4 enters = load(y0 + r, g.grid.height), leaves = make_uint4(0, 0, 0, 0);
  for (int y = y0; y < y1; y++) {
    swap_row(__byte_perm(enters.x, 0, order), __byte_perm(leaves.x, 0, order), sum, 4);
    swap_row(__byte_perm(enters.y, 0, order), __byte_perm(leaves.y, 0, order), sum + 1, 4);
    swap_row(__byte_perm(enters.z, 0, order), __byte_perm(leaves.z, 0, order), sum + 2, 4);
    swap_row(__byte_perm(enters.w, 0, order), __byte_perm(leaves.w, 0, order), sum + 3, 4);
    if (y + 1 < y1) {
      enters = load(y + 1 + r, g.grid.height);
      leaves = load(y - r, g.grid.height);
    }
    uint32_t before[kMoments];
#pragma unroll
    for (int k = 0; k < kMoments; k++) {
      const uint32_t t = sum[4 * k] + sum[4 * k + 1] + sum[4 * k + 2] + sum[4 * k + 3];
      const uint32_t i = sum_up_to_lane(t);
      before[k] = i - t;
      if (lane == 31) totals[warp * 16 + k] = i;
    }
    __syncthreads();
    if (warps > 1) {
      uint32_t o = 0;
      if (lane < kMoments)
        for (int k = 0; k < warp; k++) o += totals[k * 16 + lane];
#pragma unroll
      for (int k = 0; k < kMoments; k++) before[k] += __shfl_sync(~0u, o, k);
    }
#pragma unroll
    for (int k = 0; k < kMoments; k++) {
      uint4 q;
      q.x = before[k];
      q.y = q.x + sum[4 * k];
      q.z = q.y + sum[4 * k + 1];
      q.w = q.z + sum[4 * k + 2];
      *reinterpret_cast<uint4*>(prefix + k * columns + 4 * tid) = q;
    }
    __syncthreads();
    const int ny = window_count(y, r, g.grid.height);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const int c = tid + k * threads, x = x0 + c;
      if (c >= g.tile || x >= g.grid.width) continue;
      const uint32_t *const left = prefix + g.halo + c - r, *const right = left + 2 * r + 1;
      uint32_t v[kMoments];
#pragma unroll
      for (int i = 0; i < kMoments; i++) v[i] = right[i * columns] - left[i * columns];
      const float n = nx[k] * ny;
      total[k] = total[k] + solve(v, int(n), __fdividef(1.f, n), g.epsilon);
      out[k * threads] = total[k];
    }
    out += g.grid.width;
  }
}

template <class T>
using Sum = std::conditional_t<std::is_same<T, float>::value, double, unsigned long long>;

template <class T>
__device__ __forceinline__ Sum<T> product(T a, T b) {
  if constexpr (std::is_same<T, float>::value)
    return double(a) * double(b);
  else
    return (unsigned long long)(uint32_t(a)) * uint32_t(b);
}

template <class T>
__device__ __forceinline__ Sum<T> moment(const Pixel<T>& p, int k) {
  constexpr int I[9] = {0, 0, 0, 1, 1, 2, 0, 1, 2}, J[9] = {0, 1, 2, 1, 2, 2, 3, 3, 3};
  return k < 4 ? Sum<T>(p.v[k]) : product<T>(p.v[I[k - 4]], p.v[J[k - 4]]);
}

// One block per strip, over whole rows; a thread's columns lie side by side for the prefix sums.
template <class T>
__global__ __launch_bounds__(kWideThreads) void wide(const GuidedSource source,
                                                     const GuidedStatistics g) {
  using S = Sum<T>;
  constexpr int warps = kWideThreads / 32;
  VF_SHARED(S[warps][kMoments], totals);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, r = g.radius, n = g.grid.width;
  const int y0 = blockIdx.x * g.sums.strip, y1 = min(y0 + g.sums.strip, g.grid.height);
  S* const column = static_cast<S*>(g.scratch) + size_t(blockIdx.x) * kMoments * (2 * n + 1);
  S* const prefix = column + size_t(kMoments) * n;
  const int top = max(y0 - r, 0);
  for (int x = tid; x < n; x += kWideThreads) {
    S sum[kMoments];
#pragma unroll
    for (int k = 0; k < kMoments; k++) sum[k] = 0;
    for (int y = top; y < min(y0 + r, g.grid.height); y++) {
      const Pixel<T> p = read_with_mask<T>(source, g, x, y);
#pragma unroll
      for (int k = 0; k < kMoments; k++) sum[k] += moment(p, k);
    }
#pragma unroll
    for (int k = 0; k < kMoments; k++) column[size_t(k) * n + x] = sum[k];
  }
  __syncthreads();
  let_next_start();
  const int share = (n + kWideThreads - 1) / kWideThreads;
  const int begin = min(tid * share, n), end = min(begin + share, n);
  for (int y = y0; y < y1; y++) {
    S sum[kMoments];
#pragma unroll
    for (int k = 0; k < kMoments; k++) sum[k] = 0;
    const bool enters = y + r < g.grid.height, leaves = y - r - 1 >= top;
    for (int x = begin; x < end; x++) {
      Pixel<T> in, out;
      if (enters) in = read_with_mask<T>(source, g, x, y + r);
      if (leaves) out = read_with_mask<T>(source, g, x, y - r - 1);
#pragma unroll
      for (int k = 0; k < kMoments; k++) {
        S v = column[size_t(k) * n + x];
        if (enters) v += moment(in, k);
        if (leaves) v -= moment(out, k);
        column[size_t(k) * n + x] = v;
        sum[k] += v;
      }
    }
#pragma unroll
    for (int k = 0; k < kMoments; k++) {
      const S i = sum_up_to_lane(sum[k]);
      if (lane == 31) totals[warp][k] = i;
      sum[k] = i - sum[k];  // before the thread's first column
    }
    __syncthreads();
    if (tid < kMoments) {
      S before = 0;
      for (int w = 0; w < warps; w++) {
        const S t = totals[w][tid];
        totals[w][tid] = before;
        before += t;
      }
      prefix[size_t(tid) * (n + 1) + n] = before;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kMoments; k++) sum[k] += totals[warp][k];
    for (int x = begin; x < end; x++)
#pragma unroll
      for (int k = 0; k < kMoments; k++) {
        prefix[size_t(k) * (n + 1) + x] = sum[k];
        sum[k] += column[size_t(k) * n + x];
      }
    __syncthreads();
    const int ny = window_count(y, r, g.grid.height);
    for (int x = tid; x < n; x += kWideThreads) {
      const int left = max(x - r, 0), right = min(x + r, n - 1) + 1;
      const double per_n = 1.0 / (double(ny) * (right - left));
      double m[kMoments];
#pragma unroll
      for (int k = 0; k < kMoments; k++) {
        const S* const p = prefix + size_t(k) * (n + 1);
        m[k] = double(p[right] - p[left]) * per_n;
      }
      const double e = g.epsilon;
      const double a11 = m[4] - m[0] * m[0] + e, a12 = m[5] - m[0] * m[1], a13 = m[6] - m[0] * m[2];
      const double a22 = m[7] - m[1] * m[1] + e, a23 = m[8] - m[1] * m[2];
      const double a33 = m[9] - m[2] * m[2] + e;
      const double p1 = m[10] - m[0] * m[3], p2 = m[11] - m[1] * m[3], p3 = m[12] - m[2] * m[3];
      const double i1 = 1 / a11, l21 = a12 * i1, l31 = a13 * i1;
      const double i2 = 1 / (a22 - l21 * a12), u = a23 - l21 * a13, l32 = u * i2;
      const double d3 = a33 - l31 * a13 - l32 * u;
      const double q2 = p2 - l21 * p1, q3 = p3 - l31 * p1 - l32 * q2;
      const double az = q3 / d3, ay = q2 * i2 - l32 * az, ax = p1 * i1 - l21 * ay - l31 * az;
      const double mx = m[0] - g.midpoint, my = m[1] - g.midpoint, mz = m[2] - g.midpoint;
      float4 ab =
          make_float4(float(ax), float(ay), float(az), float(m[3] - ax * mx - ay * my - az * mz));
      const size_t at = size_t(y) * n + x;
      g.sums.data[at] = y > y0 ? g.sums.data[at - n] + ab : ab;
    }
    __syncthreads();
  }
}

template <bool direct>
GuidedStatisticsKernel tile_of(int rows_per_warp, int blocks) {
  if (rows_per_warp == 3) return tile<direct, 2, 3>;
  if (rows_per_warp == 2) return tile<direct, 2, 2>;
  if (blocks == 3) return tile<direct, 3, 1>;
  return tile<direct, 2, 1>;
}

}  // namespace

GuidedStatisticsKernel guided_statistics_tile(bool direct, int rows_per_warp, int blocks) {
  return direct ? tile_of<true>(rows_per_warp, blocks) : tile_of<false>(rows_per_warp, blocks);
}

GuidedStatisticsKernel guided_statistics_streaming(bool direct, int warps) {
  if (!direct) return streaming<false, 4, 3>;
  return warps == 1   ? streaming<true, 1, 12>
         : warps == 2 ? streaming<true, 2, 6>
         : warps == 3 ? streaming<true, 3, 4>
         : warps == 4 ? streaming<true, 4, 3>
                      : streaming<true, 6, 2>;
}

GuidedStatisticsKernel guided_statistics_wide(Type type) {
  if (type == Type::f32) return wide<float>;
  return type == Type::u16 ? wide<uint16_t> : wide<uint8_t>;
}

}  // namespace vf::cuda
