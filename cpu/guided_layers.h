// The layers of the guided matte (foreground=estimate, background=blur) at their low resolution;
// the stages are compiled once for each instruction set. docs/spec/matte.md has the formulas.
#pragma once

#include "filters/guided_task.h"

namespace vf::cpu {

struct GuidedFrame;

// Where pixels lie among the samples of a plane, along a row: the left neighbour and the weight of
// the right one.
struct LayerPlaces {
  int* left = nullptr;
  float* weight = nullptr;
};

struct GuidedLayerPlanes {
  // Samples, width x height: code values of the guide and of the matte, and how clear they are.
  const uint8_t* guide[3] = {};
  uint8_t* alpha = nullptr;
  uint16_t* clear = nullptr;
  LayerPlaces centres;  // of the samples among those of the guided filter
  // Colours over full scale: the subject's after the first round, and those of both layers.
  float *better[3] = {}, *subject[3] = {}, *behind[3] = {};
  LayerPlaces pixels;  // of the frame among the samples
  // Cells, cell_width x cell_height: sums of w times colour and of w, and the blurred colours.
  float *cells[4] = {}, *blurred[3] = {};
  float* filled[4] = {};    // before a second round: colours of the background alone, and 1
  float far[3] = {};        // the mean of the frame's background
  LayerPlaces cell_pixels;  // of the frame among the cells
};

size_t layers_scratch(const GuidedFrame& f);
// Rows [y0, y1) of the samples: their matte; the first round of the estimate; the second.
void layers_matte(const GuidedFrame& f, int y0, int y1, int thread);
void layers_estimate(const GuidedFrame& f, int y0, int y1, int thread);
void layers_smooth(const GuidedFrame& f, int y0, int y1, int thread);
// Rows of the cells: their sums; the blur, when `far` is there.
void layers_cells(const GuidedFrame& f, int y0, int y1, int thread);
void layers_blur(const GuidedFrame& f, int y0, int y1, int thread);
void layers_second(const GuidedFrame& f, int y0, int y1, int thread);

}  // namespace vf::cpu
