// foreground=estimate and background=blur of the guided matte find the subject's and the
// background's colours at a low resolution. This holds what they derive from their parameters.
// docs/spec/matte.md defines it, and the names here are those of its formulas.
#pragma once

#include <cstdint>
#include <vector>

namespace vf {

struct GuidedParams;

struct GuidedLayers {
  // Pixels along a sample, and the radii of the windows of the estimate and of its second round, in
  // samples.
  static constexpr int kStep = 4, kRadius = 3, kSmooth = 1;
  // A sample's colour has at least this weight. The others in its window have up to 255 each.
  static constexpr int kOwn = 8;
  // The estimate fades in up to this matte: at 0 the colours stay.
  static constexpr double kFull = 1 / 8.0;
  // Added to the variances of both layers' colours, of channels 0 to 1: what a mean over samples
  // does not show.
  static constexpr double kSpread = 0.012;
  // Returns the weight of a sample for a layer, of whose colour it has the share a / 255.
  static constexpr uint32_t purity(uint32_t a) {
    return (2 * a * a * a + 255 * 255) / (2 * 255 * 255);
  }

  // Samples along the largest cell of the blur, and the radius of its widest kernel, in cells.
  static constexpr int kMaxCell = 16, kMaxRadius = 12;
  // Weights of a sample in the blur: kClear as clear background, which ends at the matte kEdge, and
  // kRest for the rest that is not the subject.
  static constexpr int kClear = 32640, kRest = 255;
  static constexpr double kEdge = 1 / 64.0;
  // Below this sigma, in pixels, the blur has two rounds: one of this sigma fills the places that
  // are not clear background, and then follows the blur itself. A narrow blur alone would find only
  // samples with a part of the subject near the subject's edge.
  static constexpr double kNarrow = 8;
  // Weight of the frame's mean background in the blur, per sample.
  static constexpr double kFar = 3;

  bool estimates = false, blurs = false;
  // Whether refine=colors made the matte, which is then wrong more often than with refine=guided.
  bool doubts = false;
  // How likely it is that a pixel shows only the subject although the matte says otherwise.
  float doubt() const { return doubts ? 1 : 0.3f; }
  int width = 0, height = 0;  // in samples
  // The blur's cell, in samples; the size in cells; and the kernel's weights by distance, whose sum
  // over the kernel is 1. `second` has the weights of a second round, and is empty without one.
  int cell = 1, cell_width = 0, cell_height = 0;
  std::vector<float> weight, second;

  bool used() const { return estimates || blurs; }
  int radius() const { return int(weight.size()) - 1; }
};

// Derives the layers for frames of width x height pixels. `colors`: the result has colours.
GuidedLayers make_guided_layers(const GuidedParams& params, int width, int height, bool colors);

}  // namespace vf
