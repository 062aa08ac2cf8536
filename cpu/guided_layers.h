// The layers of the guided matte (foreground=estimate, background=blur) have a low resolution.
// Their stages are compiled once for each instruction set. docs/spec/matte.md has the formulas.
#pragma once

#include "filters/guided_task.h"

namespace vf::cpu {

struct GuidedFrame;

// Tells where pixels lie among the samples of a plane, along a row: the left neighbour and the
// weight of the right one.
struct LayerPlaces {
  int* left = nullptr;
  float* weight = nullptr;
};

struct GuidedLayerPlanes {
  // Samples, width x height: code values of the guide and of the matte, and how clear they are.
  const uint8_t* guide[3] = {};
  uint8_t* alpha = nullptr;
  uint16_t* clear = nullptr;
  LayerPlaces centres;  // places of samples among the guided filter's
  // Colours over full scale: the subject's after the first round, and those of both layers. The
  // last plane of a layer has the variance of its colours, all channels together.
  float *better[3] = {}, *subject[4] = {}, *behind[4] = {};
  LayerPlaces pixels;  // places of pixels among the samples
  // Cells, cell_width x cell_height: sums of w times colour and of w, and the blurred colours.
  float *cells[4] = {}, *blurred[3] = {};
  float* filled[4] = {};    // between two rounds: colours of the background alone, and 1
  float far[3] = {};        // the mean of the frame's background
  LayerPlaces cell_pixels;  // places of pixels among the cells
};

size_t layers_scratch(const GuidedFrame& f);
// These make the matte, and the first and the second round of the estimate, for rows [y0, y1) of
// the samples.
void layers_matte(const GuidedFrame& f, int y0, int y1, int thread);
void layers_estimate(const GuidedFrame& f, int y0, int y1, int thread);
void layers_smooth(const GuidedFrame& f, int y0, int y1, int thread);
// These make the sums of rows of the cells and, when `far` is set, the blur and its second round.
void layers_cells(const GuidedFrame& f, int y0, int y1, int thread);
void layers_blur(const GuidedFrame& f, int y0, int y1, int thread);
void layers_second(const GuidedFrame& f, int y0, int y1, int thread);

}  // namespace vf::cpu
