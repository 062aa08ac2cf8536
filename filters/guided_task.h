// Holds what a backend gets for a guided matte.
#pragma once

#include "filters/guided.h"
#include "filters/guided_colors.h"
#include "filters/guided_layers.h"

namespace vf {

// A guided matte whose parameters are checked, with everything that is derived from them.
struct GuidedTask {
  Layout source, destination;
  MatteChannels from, to;  // from.alpha is set only with MatteMask::alpha
  Placement placement = Placement::separate;
  GuidedParams params;                // refine and radius are never automatic
  int width = 0, height = 0;          // size of the frame
  int low_width = 0, low_height = 0;  // size of the grid of samples
  int low_radius = 1;                 // radius of the window, in samples
  double scale = 1;                   // the value in memory that stands for 1
  int unit = 1;                       // integers in memory are multiples of it
  double key[2] = {};                 // (Cb, Cr) of the key
  double hue[2] = {}, spill[3] = {};  // the key's direction, in chroma and in colours without luma
  bool converts = false;              // params.convert changes colours
  GuidedColors colors;                // with MatteRefine::colors, or with layers
  GuidedLayers layers;
};

}  // namespace vf
