// Holds what a backend gets for a denoiser: checked parameters and all that follows from them.
#pragma once

#include "filters/denoise.h"
#include "filters/motion.h"

namespace vf {

struct DenoiseChannels {
  int colors = 3;  // 3, or 1 for gray
  bool rgb = false;
  Component color[3];  // Y, U and V, or R, G and B
};

struct DenoiseTask {
  Layout layout;
  DenoiseChannels from;
  Placement placement = Placement::separate;
  DenoiseParams params;
  int width = 0, height = 0;       // size of the frame
  int blocks_x = 0, blocks_y = 0;  // blocks of 2 x 2 pixels; the last may lie half outside
  int per_block_x[3] = {}, per_block_y[3] = {};  // samples of a component in a block, 1 or 2
  int depth = 8;                                 // bits in use
  bool writes[3] = {};                           // whether a component is filtered
  // Derived from params.
  float fixed_variance[3] = {-1, -1, -1};  // the noise's variance if it is given
  double level_scale = 1;                  // squared noise level per luma's variance
  float strength2 = 1;                     // strength squared
  float least_gain = 1;                    // 1 / temporal
};

// Return the pictures in which motion is searched: the luma of a frame, and that of a state, whose
// rows have `pitch` samples.
MotionPicture luma_picture(const DenoiseTask& task, const Image& frame);
MotionPicture state_picture(const uint16_t* luma, int pitch);

}  // namespace vf
