// What foreground=estimate and background=blur of the guided matte derive from their parameters:
// the subject's and the background's colours, at a low resolution. docs/spec/matte.md defines them;
// the names here are those of its formulas.
#pragma once

#include <vector>

namespace vf {

struct GuidedParams;

struct GuidedLayers {
  // Pixels along a sample; samples to each side of the windows of the estimate and of its second
  // round.
  static constexpr int kStep = 4, kRadius = 3, kSmooth = 1;
  // What a sample's own colour counts where the windows have nothing better, of 255.
  static constexpr int kOwn = 32;
  // The estimate fades in up to this matte: at 0 the colours stay.
  static constexpr double kFull = 1 / 4.0;
  // Squared difference of subject and background, of channels 0 to 1, below which a pixel does not
  // tell which of them it is.
  static constexpr double kAlike = 0.01;
  // Samples along the largest cell of the blur, and its widest kernel, in cells to each side.
  static constexpr int kMaxCell = 16, kMaxRadius = 12;
  // Weights of a sample in the blur: as clear background, which ends at the matte kEdge, and as
  // anything that is not the subject.
  static constexpr int kClear = 32640, kRest = 255;
  static constexpr double kEdge = 1 / 64.0;
  // Below this sigma, in pixels, the blur has two rounds: one of this sigma that fills the places
  // that are not clear background, and then the blur itself. A narrower one would have nothing but
  // samples with a part of the subject in them beside its edge.
  static constexpr double kNarrow = 8;
  // Weight of the frame's mean background in the blur, per sample.
  static constexpr double kFar = 3;

  bool estimates = false, blurs = false;
  int width = 0, height = 0;  // in samples
  // Of the blur: samples along a cell, cells, and the kernel's weights by distance, of sum 1; those
  // of the second round, empty where there is none.
  int cell = 1, cell_width = 0, cell_height = 0;
  std::vector<float> weight, second;

  bool used() const { return estimates || blurs; }
  int radius() const { return int(weight.size()) - 1; }
};

// For frames of width x height pixels; `colors`: the result has colours.
GuidedLayers make_guided_layers(const GuidedParams& params, int width, int height, bool colors);

}  // namespace vf
