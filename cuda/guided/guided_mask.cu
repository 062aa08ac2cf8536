// Makes the mask's samples for refine=guided, one per thread: a component or, for 8-bit frames, a
// word of the guide and the mask, which the statistics read fastest. That is so for a chroma key,
// too: the statistics have few threads and would find each sample's key several times.
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
  wait_for_previous();
  if (x >= grid.width || y >= grid.height) return;
  static_cast<T*>(to.data)[size_t(y) * to.pitch + x] = mask_of_sample<T>(g, grid, mask, x, y);
}

template <bool external>
__global__ __launch_bounds__(256) void mask_words(const GuidedSource g, const GuidedGrid grid,
                                                  const ExternalMask mask,
                                                  const GuidedMaskSamples to) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31), y = blockIdx.y * 8 + (threadIdx.x >> 5);
  wait_for_previous();
  if (x >= grid.width || y >= grid.height) return;
  const Pixel<uint8_t> p = read_sample<uint8_t, !external>(g, grid, x, y);
  static_cast<uint32_t*>(to.data)[size_t(y) * to.pitch + x] =
      word_of(p, external ? mask_of_sample<uint8_t>(g, grid, mask, x, y) : p.v[3]);
}

}  // namespace

GuidedMaskKernel guided_mask(Type type, bool external) {
  if (type == Type::f32) return mask_samples<float>;
  if (type == Type::u16) return mask_samples<uint16_t>;
  return external ? mask_words<true> : mask_words<false>;
}

}  // namespace vf::cuda
