// The data and the passes of the denoiser on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "filters/denoise_motion.h"
#include "filters/denoise_task.h"

namespace vf::cpu {

// A state holds the samples of each component, extended to whole blocks. `p` holds p of each block
// in 11 bits, and above them its level of luma in 5 bits.
struct DenoiseState {
  uint16_t* color[3] = {};
  uint16_t* p = nullptr;
};

struct DenoiseFrame {
  DenoiseTask task;
  denoise::Settings settings;
  Image src, dst;
  // `moved` is the compensated copy of the previous state, in rows of patches that change.
  DenoiseState previous, current, moved;
  const DenoiseState* shown = nullptr;  // the state that pass 2 filters: `current` or a merged one
  int width[3] = {}, height[3] = {};    // size of a state
  // Factors of the motion test and of the spatial filter's weights, by level of luma.
  float motion[3][denoise::kLevels] = {}, weight[3][2][denoise::kLevels] = {};
  float expected[denoise::kLevels] = {};    // noise, in the search for motion
  float mismatch[denoise::kLevels] = {};    // factors of mismatch_of
  const MotionVector* field = nullptr;      // where each patch was in the previous state
  denoise::PatchMotion* motions = nullptr;  // one per patch
  bool* changes = nullptr;                  // one per row of patches: true if a patch changes
  int patches_x = 0, patches_y = 0, tiles_x = 0;
  uint32_t* cells = nullptr;  // the sum of samples of each cell of luma, in the previous frame
  denoise::Model model = {};
  denoise::Histograms* histograms = nullptr;  // one per thread; null: nothing is counted
  char* scratch = nullptr;
  size_t scratch_per_thread = 0;

  // Returns the previous state that holds row `b` of blocks after compensation.
  const DenoiseState& before(int b) const {
    return changes[b / denoise::kPatch] ? moved : previous;
  }
};

// Decides on the patches of a row of tiles, and makes `moved` in their rows that change.
void denoise_compensate(const DenoiseFrame& f, int row, int thread);
// Bytes of scratch memory that a thread needs for it.
size_t denoise_compensate_scratch(const DenoiseFrame& f);

// Pass 1 for rows [b0, b1) of blocks: the motion test, the new state and the statistics.
void denoise_update_rows(const DenoiseFrame& f, int b0, int b1, int thread);
// Pass 1 for a first frame: makes the state, or counts its statistics if `count` is set.
void denoise_first_rows(const DenoiseFrame& f, int b0, int b1, int thread, bool count);
// Merges `current` into `later`, the state of the later frames and this one, for rows [b0, b1) of
// blocks.
void denoise_merge_rows(const DenoiseFrame& f, const DenoiseState& later, int b0, int b1,
                        int thread);
// Pass 2 for rows [y0, y1) of component c, or of all three components of RGB.
void denoise_output_rows(const DenoiseFrame& f, int c, int y0, int y1, int thread);
// Bytes of scratch memory that a thread needs for these.
size_t denoise_rows_scratch(const DenoiseFrame& f);

}  // namespace vf::cpu
