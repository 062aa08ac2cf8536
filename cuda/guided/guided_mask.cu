// Makes the external mask's samples for refine=guided, one per thread. It reads the mask, which is
// small and stays in the cache, and writes a component per sample. For 8-bit frames it writes words
// of the guide and the mask, which the statistics read fastest.
//
// refine=colors needs no such launch: guided_colors_samples.cu reads the frame and the mask at
// once.
#include "cuda/guided/guided_mask.cuh"

namespace vf::cuda {
namespace {

// Returns the mask at sample (x, y), at the centre of its pixel.
template <class T>
__device__ __forceinline__ T mask_of_sample(const GuidedSource& g, const GuidedGrid& grid,
                                            const ExternalMask& mask, int x, int y) {
  return mask_component<T>(g, mask_at(mask, 2 * pixel_of(x, grid.subsample, g.width) + 1,
                                      2 * pixel_of(y, grid.subsample, g.height) + 1));
}

template <class T>
__global__ __launch_bounds__(256) void mask_samples(const GuidedSource g, const GuidedGrid grid,
                                                    const ExternalMask mask,
                                                    const GuidedMaskSamples to) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31), y = blockIdx.y * 8 + (threadIdx.x >> 5);
  if (x >= grid.width || y >= grid.height) return;
  static_cast<T*>(to.data)[size_t(y) * to.pitch + x] = mask_of_sample<T>(g, grid, mask, x, y);
}

__global__ __launch_bounds__(256) void mask_words(const GuidedSource g, const GuidedGrid grid,
                                                  const ExternalMask mask,
                                                  const GuidedMaskSamples to) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31), y = blockIdx.y * 8 + (threadIdx.x >> 5);
  if (x >= grid.width || y >= grid.height) return;
  static_cast<uint32_t*>(to.data)[size_t(y) * to.pitch + x] = word_of(
      read_sample<uint8_t, false>(g, grid, x, y), mask_of_sample<uint8_t>(g, grid, mask, x, y));
}

}  // namespace

GuidedMaskKernel guided_mask(int component_size, bool is_float) {
  if (is_float) return mask_samples<float>;
  return component_size == 2 ? mask_samples<uint16_t> : mask_words;
}

}  // namespace vf::cuda
