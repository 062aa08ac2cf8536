// What the passes of the denoiser on the CPU share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "filters/denoise_math.h"
#include "filters/denoise_task.h"

namespace vf::cpu {

struct DenoiseFrame {
  DenoiseTask task;
  denoise::Settings settings;
  Image src, dst;
  // The state: samples of each component, extended to whole blocks, and of each block p in 11 bits
  // and above them its level of luma in 5. `was` is that of the frames before.
  uint16_t *was[3] = {}, *is[3] = {};
  uint16_t *was_p = nullptr, *is_p = nullptr;
  int width[3] = {}, height[3] = {};  // of `was` and `is`
  // By level of luma: factors of the motion test and of the spatial filter's weights.
  float motion[3][denoise::kLevels] = {}, weight[3][denoise::kLevels] = {};
  denoise::Model model = {};
  denoise::Histograms* histograms = nullptr;  // one per thread
  char* scratch = nullptr;
  size_t scratch_per_thread = 0;
};

// Bytes of scratch memory that a thread needs.
size_t denoise_scratch(const DenoiseFrame& f);
// Pass 1 for rows of blocks [b0, b1), b0 a multiple of 8: motion test, the new state, statistics.
void denoise_update(const DenoiseFrame& f, int b0, int b1, int thread);
// The state of a first frame, rows of blocks [b0, b1).
void denoise_first(const DenoiseFrame& f, int b0, int b1, int thread);
// Pass 2: the spatial filter of rows [y0, y1) of a component, of all of them for RGB.
void denoise_output(const DenoiseFrame& f, int c, int y0, int y1, int thread);

}  // namespace vf::cpu
