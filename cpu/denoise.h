// What the passes of the denoiser on the CPU share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "filters/denoise_motion.h"
#include "filters/denoise_task.h"

namespace vf::cpu {

// Samples of each component, extended to whole blocks, and of each block p in 11 bits and above
// them its level of luma in 5.
struct DenoiseState {
  uint16_t* color[3] = {};
  uint16_t* p = nullptr;
};

struct DenoiseFrame {
  DenoiseTask task;
  denoise::Settings settings;
  Image src, dst;
  // `was` is that of the frames before; `moved` that in rows of tiles with motion or
  // other light, compensated.
  DenoiseState was, is, moved;
  int width[3] = {}, height[3] = {};  // of a state
  // By level of luma: factors of the motion test and of the spatial filter's weights.
  float motion[3][denoise::kLevels] = {}, weight[3][denoise::kLevels] = {};
  float expected[denoise::kLevels] = {};   // noise, in the search for motion
  denoise::TileMotion* motions = nullptr;  // of tiles
  bool* changes = nullptr;                 // by row of tiles: whether one of them does
  int tiles_x = 0, tiles_y = 0;
  denoise::Model model = {};
  denoise::Histograms* histograms = nullptr;  // one per thread
  char* scratch = nullptr;
  size_t scratch_per_thread = 0;

  // Where row `b` of blocks is to be read.
  const DenoiseState& before(int b) const { return changes[b / denoise::kTile] ? moved : was; }
};

inline int tiles_of(int blocks) {
  return (blocks + denoise::kTile - 1) / denoise::kTile;
}

// Finds the motion of a row of tiles; where one of them changes, makes the row's `moved`.
void denoise_find_motion(const DenoiseFrame& f, int row, int thread);
// Bytes of scratch memory that a thread needs for it.
size_t denoise_motion_scratch(const DenoiseFrame& f);

}  // namespace vf::cpu
