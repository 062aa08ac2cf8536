// Merges the denoiser's state of the frames before with that of the later frames (look-ahead).
//
// A thread takes a block of 2 x 2 pixels of all components. `current` holds the state of the frames
// before. `previous` holds that of the later frames and this one, and becomes the merged state.
// Traffic: a luma sample of NV12 takes 1 B of the frame, 4 B of states and 0.5 B + 0.25 B of p, in
// and out.
#include "cuda/core/ptx.cuh"
#include "cuda/denoise/denoise_device.cuh"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

template <int kBytes>
__global__ __launch_bounds__(256) void merge(const Denoise d) {
  const int bx = blockIdx.x * 32 + (threadIdx.x & 31), by = blockIdx.y * 8 + (threadIdx.x >> 5);
  if (bx >= d.blocks_x || by >= d.blocks_y) return;
  const int block = by * d.pitch_p + bx;
  const Merge m = merge_of(p_of(d.current.p[block]), p_of(d.previous.p[block]));
  make_block<kBytes>(d, d.previous, bx, by, m.p, [&](int c, int at, int v) {
    return int(merged(m, v, d.current.color[c][at], d.previous.color[c][at], d.settings.top));
  });
}

}  // namespace

DenoiseKernel denoise_merge(int bytes) {
  return bytes == 2 ? merge<2> : merge<1>;
}

}  // namespace vf::cuda
