// Makes the samples for refine=colors and for the layers: means of 4 x 4 pixels as words of four
// bytes, the guide and the mask. At another subsample, it makes the guided filter's samples, too.
//
// Traffic: the frame is read once, and 4 bytes a sample are written.
#include "cuda/guided/guided_colors.cuh"
#include "cuda/guided/guided_mask.cuh"

namespace vf::cuda {
namespace {

// Returns the code value of 8 bits of a sum of n components.
template <class T>
__device__ __forceinline__ uint32_t byte_of(const GuidedSource& g, uint32_t sum, uint32_t n) {
  if (sizeof(T) == 1) return (2 * sum + n) / (2 * n);
  const unsigned long long full =
      (std::is_same<T, float>::value ? 65535u : uint32_t(g.full)) * (unsigned long long)n;
  return uint32_t((510ull * sum + full) / (2 * full));
}

template <class T>
__device__ __forceinline__ uint32_t counted(const GuidedSource& g, T v) {
  if (std::is_same<T, float>::value) return uint32_t(fmaf(__saturatef(float(v)), 65535.f, 0.5f));
  return min(uint32_t(v), uint32_t(g.full));
}

// Returns the mean of size x size pixels as the guide's bytes and, with `with_mask`, the mask's.
template <class T, bool with_mask>
__device__ __forceinline__ uint32_t mean_word(const GuidedSource& g, int x, int y, int size) {
  uint32_t sum[4] = {};
  for (int j = 0; j < size; j++)
#pragma unroll 4
    for (int i = 0; i < size; i++) {
      const Pixel<T> p =
          read_pixel<T, with_mask, true>(g, min(x + i, g.width - 1), min(y + j, g.height - 1));
#pragma unroll
      for (int c = 0; c < 3; c++) sum[c] += counted(g, p.v[c]);
      if (with_mask) sum[3] += counted(g, p.v[3]);
    }
  uint32_t word = 0;
#pragma unroll
  for (int c = 0; c < 4; c++) word |= byte_of<T>(g, sum[c], size * size) << 8 * c;
  return word;
}

template <class T, bool external>
__global__ __launch_bounds__(256) void samples(const GuidedSource g, const ExternalMask mask,
                                               const SampleWords to) {
  make_sample<external>(g, mask, to, [&](int x, int y) {
    return mean_word<T, !external>(g, kStep * x, kStep * y, kStep);
  });
}

template <bool external>
__global__ __launch_bounds__(256) void samples_quads(const GuidedSource g, const ExternalMask mask,
                                                     const SampleWords to) {
  make_sample<external>(g, mask, to, [&](int x, int y) {
    const int left = 16 * min(x, to.width - 1);
    uint4 p[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
      p[j] = *reinterpret_cast<const uint4*>(
          g.words.data + (long long)min(4 * y + j, g.height - 1) * g.words.pitch + left);
    // `even` sums up bytes 0 and 2, `odd` bytes 1 and 3, in halves of 16 bits.
    constexpr uint32_t low = 0x00ff00ff;
    uint32_t even = 0x00080008, odd = 0x00080008;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      even += (p[j].x & low) + (p[j].y & low) + (p[j].z & low) + (p[j].w & low);
      odd += (p[j].x >> 8 & low) + (p[j].y >> 8 & low) + (p[j].z >> 8 & low) + (p[j].w >> 8 & low);
    }
    return __byte_perm((even >> 4 & low) | (odd >> 4 & low) << 8, 0, g.words.order);
  });
}

// Finds where a sample's centre lies among those of the votes, in eighths.
__device__ __forceinline__ int place_of(int i, int subsample, int count, int* fraction) {
  const int at = min(max((2 * i + 1) * subsample - kStep, 0), 8 * (count - 1));
  *fraction = at & 7;
  return at >> 3;
}

template <class T>
__global__ __launch_bounds__(256) void low_samples(const GuidedSource g, const GuidedGrid grid,
                                                   const ColorVotes v) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31), y = blockIdx.y * 8 + (threadIdx.x >> 5);
  wait_for_previous();
  if (x >= grid.width || y >= grid.height) return;
  const int s = grid.subsample;
  uint32_t word = mean_word<T, false>(g, s * x, s * y, s) & 0x00ffffff;
  int fx, fy;
  const int i = place_of(x, s, v.width, &fx), j = place_of(y, s, v.height, &fy);
  const int i1 = min(i + 1, v.width - 1), j1 = min(j + 1, v.height - 1);
  const auto at = [&](int a, int b) { return int(v.result[size_t(b) * v.pitch + a] >> 24); };
  const int top = (8 - fx) * at(i, j) + fx * at(i1, j);
  const int bottom = (8 - fx) * at(i, j1) + fx * at(i1, j1);
  word |= uint32_t(((8 - fy) * top + fy * bottom + 32) >> 6) << 24;
  v.low[size_t(y) * v.low_pitch + x] = word;
  const auto own = [&](int a, int b) { return v.own_sides[size_t(b) * v.pitch + a]; };
  const GuidedSide four[4] = {own(i, j), own(i1, j), own(i, j1), own(i1, j1)};
  const auto between = [&](auto&& of) {
    return uint8_t(((8 - fy) * ((8 - fx) * of(four[0]) + fx * of(four[1])) +
                    fy * ((8 - fx) * of(four[2]) + fx * of(four[3])) + 32) >>
                   6);
  };
  v.sides[size_t(y) * grid.width + x] = {between([](const GuidedSide& s) { return s.outside; }),
                                         between([](const GuidedSide& s) { return s.side; }),
                                         {between([](const GuidedSide& s) { return s.sure[0]; }),
                                          between([](const GuidedSide& s) { return s.sure[1]; })}};
}

template <bool external>
SamplesKernel samples_of(Type type, GuidedReads reads) {
  if (type == Type::f32) return samples<float, external>;
  if (type == Type::u16) return samples<uint16_t, external>;
  if (reads == GuidedReads::planes) return guided_samples_of_planes(external);
  return reads == GuidedReads::quads ? samples_quads<external> : samples<uint8_t, external>;
}

}  // namespace

SamplesKernel guided_samples(Type type, GuidedReads reads, bool external) {
  return external ? samples_of<true>(type, reads) : samples_of<false>(type, reads);
}

VotesLowKernel votes_low(Type type) {
  if (type == Type::f32) return low_samples<float>;
  return type == Type::u16 ? low_samples<uint16_t> : low_samples<uint8_t>;
}

}  // namespace vf::cuda
