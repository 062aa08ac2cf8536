// Makes the second means and the result in one launch, for the defaults of refine=colors: windows
// of 9 x 9 samples of 4 pixels, and words aligned to 16 bytes of which only alpha changes.
//
// Idea: a block makes 128 x 32 pixels from 42 x 18 samples of (a, b). A thread sums one of their
// four components down a column in place, then along part of a row. The means of 34 x 10 samples
// are for threads of 4 x 4 pixels, whose samples are three by three. Pixels are fetched before the
// wait for the launch before. Blocks outside of the band need no (a, b): the first ones, which
// start early, are done before the statistics are.
//
// Traffic: the frame once in and once out; 16 bytes a sample read 3 times from L2, and the guide of
// the sample and its four neighbours 1.3 times.
#include "cuda/guided/guided_colors.cuh"

namespace vf::cuda {
namespace {

constexpr int kRadius = kVotesStatisticsRadius;
constexpr int kTileX = 32, kTileY = 8;                     // samples of a block: a row per warp
constexpr int kMeansX = kTileX + 2, kMeansY = kTileY + 2;  // and what its pixels see of others
constexpr int kWide = kMeansX + 2 * kRadius, kHigh = kMeansY + 2 * kRadius;
// The odd pitches, in float4, let the rows of a warp's threads begin at different banks.
constexpr int kPitch = kWide + 1, kMeansPitch = kMeansX + 1;
constexpr int kRun = 6, kRuns = (kMeansX + kRun - 1) / kRun;  // means of a thread, along a row
static_assert(4 * kWide <= 256 && 4 * kMeansY * kRuns <= 256 && kRadius == 4,
              "of 256 threads, and as the sums are written");

// Sums of nine in a row: in[i] to in[i + 8].
template <int count>
__device__ __forceinline__ void sums_of_nine(const float (&in)[count + 8], float (&out)[count]) {
  float two[count + 6], four[count + 4];
#pragma unroll
  for (int i = 0; i < count + 6; i++) two[i] = in[i] + in[i + 1];
#pragma unroll
  for (int i = 0; i < count + 4; i++) four[i] = two[i] + two[i + 2];
#pragma unroll
  for (int i = 0; i < count; i++) out[i] = four[i] + four[i + 4] + in[i + 8];
}

// Holds the prior of the samples that the block's pixels see, and of one sample around those, eight
// a thread. It tells which blocks are outside of the band before the statistics are done.
class Around {
 public:
  __device__ __forceinline__ explicit Around(const GuidedMeans& g) {
    const int x = int(blockIdx.x) * kTileX + 8 * (part_ - 1);
    const int y = int(blockIdx.y) * kTileY - 2 + int(threadIdx.x) / kParts;
    in_ = int(threadIdx.x) < kParts * (kMeansY + 2) && x >= 0 && x < g.prior.pitch && y >= 0 &&
          y < g.grid.height;
    if (in_)
      eight_ = __ldcg(reinterpret_cast<const uint4*>(g.prior.data + size_t(y) * g.prior.pitch + x));
  }
  // Returns whether all are outside, and on the same side. All threads of the block call it.
  __device__ __forceinline__ bool all_outside(bool* subject) const {
    // Two of the first eight samples of a row count, and two of the last eight.
    const bool left = part_ == 0, right = part_ == kParts - 1;
    uint32_t two[4] = {eight_.x, eight_.y, eight_.z, eight_.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (left || right) two[i] = left ? eight_.w : eight_.x;
    const uint32_t all = two[0] & two[1] & two[2] & two[3];
    const uint32_t any = two[0] | two[1] | two[2] | two[3];
    const bool band =
        in_ && (in_band_2(two[0]) || in_band_2(two[1]) || in_band_2(two[2]) || in_band_2(two[3]));
    // The sign bit is set on the background's side.
    const bool background = in_ && (any & 0x80008000) != 0;
    *subject = in_ && (~all & 0x80008000) != 0;
    if (__syncthreads_or(band)) return false;
    *subject = __syncthreads_or(*subject);
    return !__syncthreads_or(background) || !*subject;
  }

 private:
  static constexpr int kParts = kTileX / 8 + 2;
  const int part_ = int(threadIdx.x) % kParts;
  bool in_;
  uint4 eight_ = {};
};

__global__ __launch_bounds__(256, 4) void means_apply(const GuidedSums sums, const GuidedMeans g,
                                                      const GuidedPacked w) {
  VF_SHARED_ALIGNED(16, float4[kHigh][kPitch], tile);
  VF_SHARED_ALIGNED(16, float4[kMeansY][kMeansPitch], means);
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int x = 4 * (blockIdx.x * kTileX + lane);
  const int y = 4 * (blockIdx.y * kTileY + warp);
  uint4 pixels[4];
  const uint8_t* const in = w.in.data + size_t(y) * w.in.pitch + 4 * x;
#pragma unroll
  for (int j = 0; j < 4; j++)
    if (x < w.width && y + j < w.height)
      pixels[j] = __ldcs(reinterpret_cast<const uint4*>(in + size_t(j) * w.in.pitch));
  uint8_t* out = w.out.data + size_t(y) * w.out.pitch + 4 * x;
  // The statistics let this kernel start when the prior was complete.
  const Around around(g);
  bool subject = false;
  // The first blocks start long before the statistics are done.
  const bool first = 4 * blockIdx.y < gridDim.y;
  bool outside = first && around.all_outside(&subject);
  // The means begin one sample before the block's own, (a, b) a radius before those.
  const int x0 = int(blockIdx.x) * kTileX - 1, y0 = int(blockIdx.y) * kTileY - 1;
  if (!outside) {
    wait_for_previous();
#pragma unroll
    for (int u = 0; u < (kHigh * kWide + 255) / 256; u++) {
      const int at = tid + 256 * u, r = at / kWide, c = at - r * kWide;
      const int i = x0 - kRadius + c, j = y0 - kRadius + r;
      if (at >= kHigh * kWide) break;
      if (i >= 0 && j >= 0 && i < g.grid.width && j < g.grid.height)
        copy_async(shared_address(&tile[r][c]),
                   reinterpret_cast<const uint8_t*>(sums.data + size_t(j) * g.grid.width + i));
      else
        tile[r][c] = make_float4(0, 0, 0, 0);
    }
    if (!first) outside = around.all_outside(&subject);
  }
  if (outside) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (x >= w.width || y + j >= w.height) break;
      const uint4& q = pixels[j];
      const float matte = subject ? 1.f : 0.f;
      __stcs(reinterpret_cast<uint4*>(out + size_t(j) * w.out.pitch),
             make_uint4(with_matte(w, q.x, matte), with_matte(w, q.y, matte),
                        with_matte(w, q.z, matte), with_matte(w, q.w, matte)));
    }
    wait_all_copies();
    end_after_previous();
    return;
  }
  constexpr int rounds = (kMeansY * kMeansX + 255) / 256;
  Settling settling[rounds];
#pragma unroll
  for (int u = 0; u < rounds; u++) {
    const int at = tid + 256 * u, r = at / kMeansX, i = x0 + at - r * kMeansX, j = y0 + r;
    if (at < kMeansY * kMeansX && i >= 0 && j >= 0 && i < g.grid.width && j < g.grid.height)
      settling[u] = Settling(g, i, j);
  }
  wait_all_copies();
  __syncthreads();
  if (tid < 4 * kWide) {
    float* const column = reinterpret_cast<float*>(tile[0]) + tid;
    float from[kHigh], sum[kMeansY];
#pragma unroll
    for (int j = 0; j < kHigh; j++) from[j] = column[4 * kPitch * j];
    sums_of_nine<kMeansY>(from, sum);
#pragma unroll
    for (int j = 0; j < kMeansY; j++) column[4 * kPitch * j] = sum[j];
  }
  __syncthreads();
  if (tid < 4 * kMeansY * kRuns) {
    const int component = tid & 3, r = (tid >> 2) % kMeansY, first = (tid >> 2) / kMeansY * kRun;
    const float* const row = reinterpret_cast<float*>(&tile[r][first]) + component;
    float from[kRun + 8], sum[kRun];
    // The last run's ends are no means.
#pragma unroll
    for (int i = 0; i < kRun + 8; i++) from[i] = row[4 * i];
    sums_of_nine<kRun>(from, sum);
#pragma unroll
    for (int i = 0; i < kRun; i++) {
      if (first + i >= kMeansX) break;
      reinterpret_cast<float*>(&means[r][first + i])[component] = sum[i];
    }
  }
  __syncthreads();
  // Most blocks have whole windows only.
  const bool whole = x0 >= kRadius && y0 >= kRadius && x0 + kMeansX + kRadius <= g.grid.width &&
                     y0 + kMeansY + kRadius <= g.grid.height;
#pragma unroll
  for (int u = 0; u < rounds; u++) {
    const int at = tid + 256 * u, r = at / kMeansX, c = at - r * kMeansX;
    if (at >= kMeansY * kMeansX) break;
    constexpr int across = 2 * kRadius + 1;
    int n = across * across;
    if (!whole)
      n = max(window_count(x0 + c, kRadius, g.grid.width) *
                  window_count(y0 + r, kRadius, g.grid.height),
              1);
    means[r][c] = settling[u].of(means[r][c] * __fdividef(g.inv_scale, float(n)));
  }
  __syncthreads();
  if (x >= w.width) return;
  int column[3];
#pragma unroll
  for (int k = 0; k < 3; k++) column[k] = min(max(x0 + lane + k, 0), g.grid.width - 1) - x0;
    // Two rows of pixels at a time lie between the same two of samples.
#pragma unroll
  for (int k = 0; k < 2; k++) {
    const int up = y0 + warp + (k + 1) / 2;
    const int top = min(max(up, 0), g.grid.height - 1) - y0,
              bottom = min(up + 1, g.grid.height - 1) - y0;
    float4 a[3], b[3];
#pragma unroll
    for (int i = 0; i < 3; i++) {
      a[i] = means[top][column[i]];
      b[i] = means[bottom][column[i]];
    }
#pragma unroll
    for (int j = 0; j < 2; j++) {
      if (y + 2 * k + j >= w.height) return;
      const float f = (k & 1 ? .125f : .625f) + .25f * j;
      const float4 c[3] = {lerp(a[0], b[0], f), lerp(a[1], b[1], f), lerp(a[2], b[2], f)};
      float4 ab[4];
      along(c, ab);
      __stcs(reinterpret_cast<uint4*>(out), finish(w, pixels[j], ab));
      out += w.out.pitch;
    }
#pragma unroll
    for (int j = 0; j + 2 < 4; j++) pixels[j] = pixels[j + 2];
  }
}

}  // namespace

GuidedMeansKernel guided_means_apply() {
  return means_apply;
}

}  // namespace vf::cuda
