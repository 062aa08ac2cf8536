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
  uint16_t* const p_row = d.previous.p + by * d.pitch_p;
  const Merge m = merge_of(p_of(d.current.p[by * d.pitch_p + bx]), p_of(p_row[bx]));
  int luma = 0;
  for (int c = 0; c < d.colors; c++)
    for (int j = 0; j < d.per_y[c]; j++)
      for (int i = 0; i < d.per_x[c]; i++) {
        const int x = bx * d.per_x[c] + i, y = by * d.per_y[c] + j;
        int v;
        if (d.is_rgb)
          v = of_rgb(sample_at<kBytes>(d, 0, x, y), sample_at<kBytes>(d, 1, x, y),
                     sample_at<kBytes>(d, 2, x, y))
                  .v[c];
        else
          v = sample_at<kBytes>(d, c, x, y);
        uint16_t* const row = d.previous.color[c] + y * d.pitch[c];
        row[x] =
            uint16_t(merged(m, v, d.current.color[c][y * d.pitch[c] + x], row[x], d.settings.top));
        if (x == 0) repeat_first(row);
        if (x == d.width[c] - 1) repeat_last(row, d.width[c]);
        if (c == 0) luma += row[x];
      }
  p_row[bx] = pack_block(m.p, level_of_block(luma));
  if (bx == 0) repeat_first(p_row);
  if (bx == d.blocks_x - 1) repeat_last(p_row, d.blocks_x);
}

}  // namespace

DenoiseKernel denoise_merge(int bytes) {
  return bytes == 2 ? merge<2> : merge<1>;
}

}  // namespace vf::cuda
