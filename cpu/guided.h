// The stages of the guided matte share these structs. They are compiled once for each instruction
// set.
#pragma once

#include "cpu/guided_layers.h"
#include "filters/guided_task.h"

namespace vf::cpu {

constexpr int kGuidedMoments = 13;  // sums of r g b p, rr rg rb gg gb bb, rp gp bp

// The external mask has its places and bytes in the plan's memory.
struct PackedMask {
  int count = 0;
  const MaskPlace* place = nullptr;
  const uint8_t* memory = nullptr;
};

struct GuidedFrame {
  GuidedTask task;
  Image src, dst;
  PackedMask mask;
  bool fresh = true;  // there is no previous frame
  // Samples. Planes of low_width x low_height; b is for a guide about the middle of its range.
  float* ab[4] = {};  // coefficients of each window
  // With `temporal`: means of the guide over 3 x 3 samples, over full scale; and the second means
  // and those guide means of the previous frames, blended.
  float* near[3] = {};
  float* previous[7] = {};
  // Second means, unless guided_means() writes the result at once. Rows have low_pitch = low_width
  // + 1 values, the last one repeated.
  float* mean[4] = {};
  int low_pitch = 0;
  // Per pixel of a row: left neighbour among the samples, and the weight of the right one.
  int* left = nullptr;
  float* weight = nullptr;
  float* inverse_count = nullptr;  // per sample of a row: 1 / samples of the window along x
  // With refine=colors, `low` has the samples of guide and mask, which replace the frame's.
  // `outside` is the weight of the mask's side against the coefficients, `side` that side, and
  // `sure` how sure the sample is of the background's side and of the subject's, all in 64ths.
  const uint8_t* low[4] = {};
  const uint8_t *outside = nullptr, *side = nullptr, *sure[2] = {};
  GuidedLayerPlanes layers;
  char* scratch = nullptr;  // one block for all threads
  size_t scratch_per_thread = 0;
  float midpoint = 0.5f;
  bool exact_sums = false;    // 32-bit sums are exact (modulo 2^32)
  bool packed_alpha = false;  // u8, 4 channels in one plane, and only the alpha changes
};

size_t guided_scratch(const GuidedFrame& f);
// Makes the statistics of rows [y0, y1) of the samples.
void guided_statistics(const GuidedFrame& f, int y0, int y1, int thread);
// Makes the second means of rows [y0, y1) of the samples and, at subsample 1, the result.
void guided_means(const GuidedFrame& f, int y0, int y1, int thread);
// Makes rows [y0, y1) of the result from the second means.
void guided_apply(const GuidedFrame& f, int y0, int y1, int thread);

}  // namespace vf::cpu
