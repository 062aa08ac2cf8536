// What the stages of the guided matte share; the stages are compiled once for each instruction set.
#pragma once

#include "cpu/guided_layers.h"
#include "filters/guided_task.h"

namespace vf::cpu {

constexpr int kGuidedMoments = 13;  // sums of r g b p, rr rg rb gg gb bb, rp gp bp

// The mask beside the frame, in the plan's memory.
struct PackedMask {
  int count = 0;
  const MaskPlace* place = nullptr;
  const uint8_t* memory = nullptr;
};

struct GuidedFrame {
  GuidedTask task;
  Image src, dst;
  PackedMask mask;
  bool fresh = true;  // no frame before this one
  // Samples. Planes of low_width x low_height; b is for a guide about the middle of its range.
  float* ab[4] = {};  // coefficients of each window
  // With `temporal`: means of the guide over 3 x 3 samples, over full scale; and second means and
  // those of the frames before, blended.
  float* near[3] = {};
  float* before[7] = {};
  // Second means, where they are not finished at once: rows of low_pitch = low_width + 1, the last
  // one repeated.
  float* mean[4] = {};
  int low_pitch = 0;
  // Per pixel of a row: left neighbour among the samples, and the weight of the right one.
  int* left = nullptr;
  float* weight = nullptr;
  float* inverse_count = nullptr;  // per sample of a row: 1 / samples of the window along x
  // refine=colors: the samples of guide and mask, instead of the frame's; how much the mask's side
  // counts and not the coefficients, and that side, both in 64ths.
  const uint8_t* low[4] = {};
  const uint8_t *outside = nullptr, *side = nullptr;
  GuidedLayerPlanes layers;
  char* scratch[1] = {};  // one block for all threads
  size_t scratch_per_thread = 0;
  float midpoint = 0.5f;
  bool exact_sums = false;    // 32-bit sums are exact (modulo 2^32)
  bool packed_alpha = false;  // u8, 4 channels in one plane, and only the alpha changes
};

size_t guided_scratch(const GuidedFrame& f);
// Statistics of rows [y0, y1) of the samples.
void guided_statistics(const GuidedFrame& f, int y0, int y1, int thread);
// Second means of rows [y0, y1) of the samples; at subsample 1 also the result.
void guided_means(const GuidedFrame& f, int y0, int y1, int thread);
// Rows [y0, y1) of the frame from the second means.
void guided_apply(const GuidedFrame& f, int y0, int y1, int thread);

}  // namespace vf::cpu
