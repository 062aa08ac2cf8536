// The mask beside the frame at the samples of the guided filter (refine=guided): a thread is a
// sample. Reads the mask, which is small and stays in the cache, and writes a component per sample;
// of 8-bit frames, the sample's guide too, as words, which the statistics read fastest.
//
// refine=colors needs no launch for it: its samples are made of the frame and of the mask at once.
#include "cuda/guided/guided_mask.cuh"

namespace vf::cuda {
namespace {

template <class T>
__global__ __launch_bounds__(256) void mask_samples(const Guided g) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31), y = blockIdx.y * 8 + (threadIdx.x >> 5);
  if (x >= g.low_width || y >= g.low_height) return;
  const int half = g.subsample >> 1;
  const int at_x = min(x * g.subsample + half, g.width - 1);
  const int at_y = min(y * g.subsample + half, g.height - 1);
  static_cast<T*>(g.mask_samples)[size_t(y) * g.mask_pitch + x] =
      mask_component<T>(g, mask_beside(g, 2 * at_x + 1, 2 * at_y + 1));
}

__global__ __launch_bounds__(256) void mask_words(const Guided g) {
  const int x = blockIdx.x * 32 + (threadIdx.x & 31), y = blockIdx.y * 8 + (threadIdx.x >> 5);
  if (x >= g.low_width || y >= g.low_height) return;
  const int half = g.subsample >> 1;
  const int at_x = min(x * g.subsample + half, g.width - 1);
  const int at_y = min(y * g.subsample + half, g.height - 1);
  const Pixel<uint8_t> p = read_pixel<uint8_t, false, true>(g, at_x, at_y);
  const auto mask = mask_component<uint8_t>(g, mask_beside(g, 2 * at_x + 1, 2 * at_y + 1));
  static_cast<uint32_t*>(g.mask_samples)[size_t(y) * g.mask_pitch + x] =
      p.v[0] | p.v[1] << 8 | p.v[2] << 16 | uint32_t(mask) << 24;
}

}  // namespace

GuidedKernel guided_mask(int component_size, bool is_float) {
  if (is_float) return mask_samples<float>;
  return component_size == 2 ? mask_samples<uint16_t> : mask_words;
}

}  // namespace vf::cuda
