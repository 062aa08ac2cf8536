// Makes the matte's layers at a low resolution, between the second means and the result.
//
//   samples  A thread block makes a tile of 32 x 16 samples from those that its windows reach. It
//            computes their matte a from the means of (a, b), then the sums of both layers'
//            weights, colours and squared colours over 7 x 7 samples, then the colours F and B with
//            their variances, and the mean of F over 3 x 3. The sums are running sums of integers,
//            so they are exact. It also sums the tile's cells for the blur, and adds up all of
//            them.
//   blur     A thread block blurs a tile of cells in shared memory, first down, with two rows per
//            thread, and then along, with at most 25 taps. Each block adds up the totals of all
//            blocks by itself, which gives the frame's mean background. A narrow blur has two
//            rounds of this.
// Traffic: 20 bytes per sample are read 1.9 times from L2, and 16 are written. 16 bytes per cell
// are read 6 times, and 8 are written. At 1080p the launches have 255 and about 136 thread blocks,
// so latency limits the speed.
#include "cuda/guided/guided_layers.cuh"

namespace vf::cuda {
namespace {

using L = GuidedLayers;

// Returns the means of (a, b) at a sample's centre. `same`: the guided filter has these samples.
template <bool same>
__device__ __forceinline__ float4 means_of_sample(const GuidedCoefficients& g, int x, int y) {
  if (same) return __ldg(g.mean + size_t(y) * g.grid.width + x);
  return means_at(g, L::kStep * (x + .5f), L::kStep * (y + .5f));
}

__device__ __forceinline__ float matte_of_sample(const Layers& l, float4 ab, uint32_t word) {
  const auto value = [&](int c) { return fmaf(float(word >> 8 * c & 255), l.unit, -l.midpoint); };
  return matte_of(ab, value(0), value(1), value(2));
}

constexpr int kTileX = kLayersTileX, kTileY = kLayersTileY;
constexpr int kHalo = L::kRadius + L::kSmooth, kWindow = 2 * L::kRadius + 1;
constexpr int kWide = kTileX + 2 * kHalo, kHigh = kTileY + 2 * kHalo;
// The second round's means need F and B of one more sample on each side.
constexpr int kOutX = kTileX + 2 * L::kSmooth, kOutY = kTileY + 2 * L::kSmooth;
constexpr int kPitch = kWide | 1;  // rows of sums start at different banks
constexpr int kRun = 2;            // outputs of a thread, of running sums
// There are as many threads as samples. At 1080p, two blocks a processor must hide their latencies.
constexpr int kThreads = kTileX * kTileY;

// Holds sums over samples. The first word adds the weights of both layers in its halves. Then come,
// for each layer, weights times the channels of the colours, and weights times the squares of the
// colours. The sums of a window stay below 2^32.
constexpr int kSums = 9;
struct Sums {
  uint32_t v[kSums];
  // `weights` has those of the subject and the background in a byte each.
  __device__ __forceinline__ void change(uint32_t word, uint32_t weights, uint32_t sign) {
    const uint32_t color[3] = {word & 255, word >> 8 & 255, word >> 16 & 255};
    const uint32_t square = color[0] * color[0] + color[1] * color[1] + color[2] * color[2];
    v[0] += sign * __byte_perm(weights, 0, 0x4140);
#pragma unroll
    for (int k = 0; k < 2; k++) {
      const uint32_t w = sign * (weights >> 8 * k & 255);
#pragma unroll
      for (int c = 0; c < 3; c++) v[1 + 4 * k + c] += w * color[c];
      v[4 + 4 * k] += w * square;
    }
  }
};

struct Tile {
  uint32_t words[kHigh][kWide];         // colours and a
  uint16_t weights[kHigh][kWide];       // both layers', 0 outside of the frame
  uint32_t sums[kSums][kOutY][kPitch];  // down the windows
  uint2 better[kOutY][kOutX];           // F of the first round, improved, as halves
};

// Makes the improved F, and B, with their variances, from the sums over a sample's window.
__device__ __forceinline__ void first_round(uint32_t word, const Sums& s, int count, uint2* better,
                                            uint2* behind) {
  const uint32_t sums[2] = {s.v[0] & 0xffff, s.v[0] >> 16};
  const float a = float(word >> 24) * (1.f / 255), all = float(255 * count);
  const float soft = (all - float(sums[0] + sums[1])) * __fdividef(1.f, all);
  const float weight = fmaf(2 * all, soft * soft * (soft * soft), float(L::kOwn));
  float own[3], mean[2][3], variance[2], square = 0;
#pragma unroll
  for (int c = 0; c < 3; c++) {
    own[c] = float(word >> 8 * c & 255);
    square = fmaf(own[c], own[c], square);
  }
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const float per = __fdividef(1.f, float(sums[k]) + weight);
    variance[k] = fmaf(weight, square, float(s.v[4 + 4 * k])) * per;
#pragma unroll
    for (int c = 0; c < 3; c++) {
      mean[k][c] = fmaf(weight, own[c], float(s.v[1 + 4 * k + c])) * per;
      variance[k] = fmaf(-mean[k][c], mean[k][c], variance[k]);
    }
    variance[k] = fmaxf(variance[k], 0.f);
  }
  float f[3], b[3];
#pragma unroll
  for (int c = 0; c < 3; c++) {
    f[c] = fmaf(a, own[c] - a * mean[0][c] - (1 - a) * mean[1][c], mean[0][c]);
    f[c] = fminf(fmaxf(f[c], 0.f), 255.f) - kLayerMiddle;
    b[c] = mean[1][c] - kLayerMiddle;
  }
  *better = make_uint2(two_halves(f[0], f[1]), two_halves(f[2], variance[0]));
  *behind = make_uint2(two_halves(b[0], b[1]), two_halves(b[2], variance[1]));
}

// Finds the colours of the subject and behind it for the tile's samples, from their words.
__device__ __forceinline__ void estimate(const Layers& l, Tile& tile) {
  const int tid = threadIdx.x;
  const int x0 = blockIdx.x * kTileX, y0 = blockIdx.y * kTileY;
  if (const int c = tid % kWide, first = tid / kWide * kRun; first < kOutY) {
    Sums s = {};
    const auto add = [&](int r, uint32_t sign) {
      s.change(tile.words[r][c], tile.weights[r][c], sign);
    };
#pragma unroll
    for (int j = 0; j < kWindow; j++) add(first + j, 1u);
#pragma unroll
    for (int j = 0; j < kRun; j++) {
#pragma unroll
      for (int k = 0; k < kSums; k++) tile.sums[k][first + j][c] = s.v[k];
      if (j + 1 == kRun) break;
      add(first + j, ~0u);
      add(first + j + kWindow, 1u);
    }
  }
  __syncthreads();
  if (const int r = tid % kOutY, first = tid / kOutY * kRun; first < kOutX) {
    Sums s = {};
    const auto change = [&](int c, uint32_t sign) {
#pragma unroll
      for (int k = 0; k < kSums; k++) s.v[k] += sign * tile.sums[k][r][c];
    };
#pragma unroll
    for (int i = 0; i < kWindow; i++) change(first + i, 1u);
    const int y = y0 + r - L::kSmooth;
#pragma unroll
    for (int i = 0; i < kRun; i++) {
      if (first + i >= kOutX) break;
      const int x = x0 + first + i - L::kSmooth;
      uint2 better = make_uint2(0, 0), behind;
      if (x >= 0 && y >= 0 && x < l.width && y < l.height) {
        first_round(tile.words[r + L::kRadius][first + i + L::kRadius], s,
                    window_count(x, L::kRadius, l.width) * window_count(y, L::kRadius, l.height),
                    &better, &behind);
        const int cx = first + i - L::kSmooth, cy = r - L::kSmooth;
        if (cx >= 0 && cy >= 0 && cx < kTileX && cy < kTileY)
          reinterpret_cast<uint2*>(l.found + size_t(y) * l.width + x)[1] = behind;
      }
      tile.better[r][first + i] = better;
      if (first + i + 1 >= kOutX || i + 1 == kRun) break;
      change(first + i, ~0u);
      change(first + i + kWindow, 1u);
    }
  }
  __syncthreads();
  const int cx = tid % kTileX, cy = tid / kTileX, x = x0 + cx, y = y0 + cy;
  if (x >= l.width || y >= l.height) return;
  float f[3] = {}, all = L::kOwn;
#pragma unroll
  for (int j = 0; j < 3; j++)
#pragma unroll
    for (int i = 0; i < 3; i++) {
      const float pure = float(tile.weights[cy + j + L::kRadius][cx + i + L::kRadius] & 255);
      const Halves v = halves_of(tile.better[cy + j][cx + i]);
      const float weight = i == 1 && j == 1 ? pure + L::kOwn : pure;
#pragma unroll
      for (int c = 0; c < 3; c++) f[c] = fmaf(weight, v.v[c], f[c]);
      all += pure;
    }
  const float unit = __fdividef(1.f, all);
  const uint32_t last = uint32_t(__half_as_ushort(__float2half_rn(f[2] * unit)));
  reinterpret_cast<uint2*>(l.found + size_t(y) * l.width + x)[0] =
      make_uint2(two_halves(f[0] * unit, f[1] * unit),
                 __byte_perm(last, tile.better[cy + 1][cx + 1].y, 0x7610));
}

// How clear the background is in a sample.
__device__ __forceinline__ uint32_t clearness(float q) {
  return uint32_t(fmaxf(0.f, fmaf(-float(L::kClear / L::kEdge), q, float(L::kClear))) + 0.5f);
}
// Has the clearness of the tile's samples and one around them, and 0xffff outside of the frame.
using Clear = uint16_t[kTileY + 2][kTileX + 2];

// Returns w of the thread's sample of the tile, which is inside of the frame.
__device__ __forceinline__ uint32_t weight_of(const Clear& clear, uint32_t word) {
  const int x = threadIdx.x % kTileX, y = threadIdx.x / kTileX;
  static_assert(L::kRest == 255, "the share of a squared code value");
  const uint32_t rest = 255 - (word >> 24);
  uint32_t minimum = L::kClear;
#pragma unroll
  for (int k = 0; k < 9; k++) minimum = min(minimum, uint32_t(clear[y + k / 3][x + k % 3]));
  return minimum + (2 * rest * rest + 255) / 510;
}

// Sums up the tile's cells, and the tile. `weight` has w of its samples, and 0 outside.
__device__ __forceinline__ void add_up(const Layers& l, const uint32_t (*words)[kWide], int halo,
                                       const uint16_t (&weight)[kTileY][kTileX],
                                       uint32_t (&cells)[kTileX * kTileY][4],
                                       uint32_t (&total)[4]) {
  const int tid = threadIdx.x, shift = l.shift;
  const int across = kTileX >> shift, count = across * (kTileY >> shift);
  for (int i = tid; i < 4 * count; i += kThreads) cells[i >> 2][i & 3] = 0;
  if (tid < 4) total[tid] = 0;
  __syncthreads();
  // A run is a row of a cell. The tile's total is below 2^32.
  uint32_t all[4] = {};
  for (int run = tid; run < kTileY * across; run += kThreads) {
    const int y = run / across, cell = run % across;
    uint32_t sum[4] = {};
    for (int i = 0; i < 1 << shift; i++) {
      const int x = (cell << shift) + i;
      const uint32_t w = weight[y][x], word = words[y + halo][x + halo];
#pragma unroll
      for (int c = 0; c < 3; c++) sum[c] += w * (word >> 8 * c & 255);
      sum[3] += w;
    }
#pragma unroll
    for (int c = 0; c < 4; c++) {
      atomicAdd(&cells[(y >> shift) * across + cell][c], sum[c]);
      all[c] += sum[c];
    }
  }
#pragma unroll
  for (int c = 0; c < 4; c++) {
    const uint32_t sum = sum_of_lanes(all[c]);
    if ((tid & 31) == 0) atomicAdd(&total[c], sum);
  }
  __syncthreads();
  for (int i = tid; i < count; i += kThreads) {
    const int x = blockIdx.x * across + i % across;
    const int y = blockIdx.y * (kTileY >> shift) + i / across;
    const uint32_t* const s = cells[i];
    if (x < l.cell_width && y < l.cell_height)
      l.cells[size_t(y) * l.cell_width + x] =
          make_float4(float(s[0]), float(s[1]), float(s[2]), float(s[3]));
  }
  if (tid == 0)
    l.totals[blockIdx.y * gridDim.x + blockIdx.x] =
        make_uint4(total[0], total[1], total[2], total[3]);
}

template <bool same>
__global__ __launch_bounds__(kThreads) void samples(const GuidedCoefficients g, const Layers l) {
  VF_SHARED(Tile, tile);
  VF_SHARED(Clear, clear);
  VF_SHARED(uint16_t[kTileY][kTileX], weight);
  VF_SHARED(uint32_t[kTileX * kTileY][4], cells);
  VF_SHARED(uint32_t[4], total);
  const int tid = threadIdx.x;
  const int x0 = int(blockIdx.x) * kTileX - kHalo, y0 = int(blockIdx.y) * kTileY - kHalo;
  wait_for_previous();
  let_next_start();
  // All loads are under way together.
  constexpr int count = (kHigh * kWide + kThreads - 1) / kThreads;
  uint32_t word[count];
  float4 ab[count];
#pragma unroll
  for (int k = 0; k < count; k++) {
    const int i = tid + kThreads * k, x = x0 + i % kWide, y = y0 + i / kWide;
    const bool in = i < kHigh * kWide && x >= 0 && y >= 0 && x < l.width && y < l.height;
    word[k] = in ? __ldg(l.words.data + size_t(y) * l.words.pitch + x) & 0x00ffffff : 0;
    ab[k] = in ? means_of_sample<same>(g, x, y) : make_float4(0, 0, 0, 0);
  }
#pragma unroll
  for (int k = 0; k < count; k++) {
    const int i = tid + kThreads * k, c = i % kWide, r = i / kWide, x = x0 + c, y = y0 + r;
    if (i >= kHigh * kWide) break;
    const bool in = x >= 0 && y >= 0 && x < l.width && y < l.height;
    const float q = matte_of_sample(l, ab[k], word[k]);
    const uint32_t a = uint32_t(fmaf(q, 255.f, 0.5f));
    tile.words[r][c] = in ? word[k] | a << 24 : 0;
    if (l.estimates) tile.weights[r][c] = in ? uint16_t(L::purity(a) | L::purity(255 - a) << 8) : 0;
    if (c >= kHalo - 1 && r >= kHalo - 1 && c <= kHalo + kTileX && r <= kHalo + kTileY)
      clear[r - kHalo + 1][c - kHalo + 1] = in ? uint16_t(clearness(q)) : 0xffff;
  }
  __syncthreads();
  if (l.estimates) estimate(l, tile);
  if (!l.blurs) return;
  const int x = tid % kTileX, y = tid / kTileX;
  const bool in = x0 + kHalo + x < l.width && y0 + kHalo + y < l.height;
  weight[y][x] = in ? uint16_t(weight_of(clear, tile.words[y + kHalo][x + kHalo])) : 0;
  add_up(l, tile.words, kHalo, weight, cells, total);
}

__global__ __launch_bounds__(256) void blur(const Layers l) {
  constexpr int tile_x = kBlurTileX, tile_y = kBlurTileY, wide = tile_x + 2 * L::kMaxRadius;
  constexpr int high = tile_y + 2 * L::kMaxRadius;
  VF_SHARED_ALIGNED(16, float4[high][wide], tile);
  VF_SHARED_ALIGNED(16, float4[tile_y][wide], column);
  VF_SHARED(float[8][4], part);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, r = l.radius;
  const int x0 = blockIdx.x * tile_x, y0 = blockIdx.y * tile_y, columns = tile_x + 2 * r;
  wait_for_previous();
  let_next_start();
  for (int j = warp; j < tile_y + 2 * r; j += 8) {
    const int y = y0 + j - r;
#pragma unroll
    for (int k = 0; k < (wide + 31) / 32; k++) {
      const int i = lane + 32 * k, x = x0 + i - r;
      if (i >= columns) break;
      const bool in = x >= 0 && y >= 0 && x < l.cell_width && y < l.cell_height;
      tile[j][i] = in ? __ldcg(l.cells + size_t(y) * l.cell_width + x) : make_float4(0, 0, 0, 0);
    }
  }
  float sum[4] = {};
  for (int i = tid; i < l.blocks; i += 256) {
    const uint4 t = __ldcg(l.totals + i);
    sum[0] += float(t.x);
    sum[1] += float(t.y);
    sum[2] += float(t.z);
    sum[3] += float(t.w);
  }
#pragma unroll
  for (int c = 0; c < 4; c++) {
#pragma unroll
    for (int d = 16; d; d /= 2) sum[c] += __shfl_xor_sync(~0u, sum[c], d);
    if (lane == 0) part[warp][c] = sum[c];
  }
  __syncthreads();
  // Each thread sums two rows of a column.
  for (int i = tid; i < columns * (tile_y / 2); i += 256) {
    const int c = i % columns, row = i / columns * 2;
    float4 a = make_float4(0, 0, 0, 0), b = a;
    float before = 0;
#pragma unroll 4
    for (int d = -r; d <= r; d++) {
      const float4 v = tile[row + r + d][c];
      const float w = l.weight[abs(d)];
      a = a + v * w;
      b = b + v * before;
      before = w;
    }
    column[row][c] = a;
    column[row + 1][c] = b + tile[row + 2 * r + 1][c] * before;
  }
  __syncthreads();
  const int cx = lane, cy = warp, x = x0 + cx, y = y0 + cy;
  if (x >= l.cell_width || y >= l.cell_height) return;
  float4 s = make_float4(0, 0, 0, 0);
#pragma unroll 5
  for (int d = -r; d <= r; d++) s = s + column[cy][cx + r + d] * l.weight[abs(d)];
  float all[4] = {};
#pragma unroll
  for (int i = 0; i < 8; i++)
#pragma unroll
    for (int c = 0; c < 4; c++) all[c] += part[i][c];
  const float per = all[3] > 0 ? __fdividef(1.f, all[3]) : 0.f;
  const float unit = __fdividef(1.f, s.w + l.enough);
  const float of[3] = {s.x, s.y, s.z};
  float out[3];
#pragma unroll
  for (int c = 0; c < 3; c++) {
    const float far = all[3] > 0 ? all[c] * per : l.background[c];
    out[c] = fmaf(l.enough, far, of[c]) * unit - kLayerMiddle;
  }
  const size_t at = size_t(y) * l.cell_width + x;
  if (!l.filled) {
    l.blurred[at] = make_uint2(two_halves(out[0], out[1]), two_halves(out[2], 0));
    return;
  }
  // Cells are single samples then.
  const float4 own = tile[cy + r][cx + r];
  const float clear = fmaxf(0.f, own.w - L::kRest) * (1.f / L::kClear);
  const float of_own[3] = {own.x, own.y, own.z}, each = __fdividef(1.f, fmaxf(1.f, own.w));
#pragma unroll
  for (int c = 0; c < 3; c++) {
    out[c] += kLayerMiddle;
    out[c] = fmaf(clear, of_own[c] * each - out[c], out[c]);
  }
  l.filled[at] = make_float4(out[0], out[1], out[2], 1);
}

}  // namespace

LayersMatteKernel layers_samples(bool same) {
  return same ? samples<true> : samples<false>;
}

LayersBlurKernel layers_blur() {
  return blur;
}

}  // namespace vf::cuda
