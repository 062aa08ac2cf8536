// Declares the kernels of the guided matte's layers (foreground=estimate, background=blur), their
// arguments, and their part of the plan. docs/spec/matte.md has the formulas.
#pragma once

#include "cuda/guided/guided_colors.h"

namespace vf::cuda {

struct Layers {
  int estimates = 0, blurs = 0;
  int width = 0, height = 0;  // samples
  SampleWords words;          // the guide's bytes count
  // A code value of 8 bits in values in memory, and the value that colours are taken relative to.
  float unit = 1, midpoint = 128;
  uint4* found = nullptr;  // see GuidedLayerColors
  // Cells of 2^shift x 2^shift samples: sums of w times colour and of w.
  int shift = 0, cell_width = 0, cell_height = 0;
  float4* cells = nullptr;
  uint4* totals = nullptr;  // these sums for each of the `blocks` blocks of samples
  int blocks = 0;
  int radius = 0;
  float weight[GuidedLayers::kMaxRadius + 1] = {};
  float enough = 0;          // weight of the frame's mean background
  float background[3] = {};  // used where the frame shows none, in code values of 8 bits
  uint2* blurred = nullptr;  // see GuidedLayerColors
  // The result of the first of two rounds: colours of the background alone, and 1.
  float4* filled = nullptr;
};

constexpr int kLayersTileX = 32, kLayersTileY = 16;  // samples of a block, and its threads
constexpr int kBlurTileX = 32, kBlurTileY = 8;       // cells of a block

using LayersMatteKernel = void (*)(GuidedCoefficients, Layers);
using LayersBlurKernel = void (*)(Layers);

// Makes the samples' matte and, with it, the colours of subject and background and the sums of the
// cells. `same`: the guided filter has the same samples.
LayersMatteKernel layers_samples(bool same);
// Blurs the cells into `filled` or, where that is null, `blurred`.
LayersBlurKernel layers_blur();

class GuidedLayersPlan {
 public:
  // Allocates, and tells the result where the colours are. `result` has the values' scale.
  Status prepare(CudaQueue& queue, const GuidedTask& task, GuidedResult* result);
  bool used() const { return l_.estimates || l_.blurs; }
  // Enqueues the layers of a frame. `samples` are those of refine=colors, or null: made here.
  Status enqueue(const GuidedSource& source, const ExternalMask& mask,
                 const GuidedCoefficients& means, const SampleWords* samples, GuidedReads reads);

 private:
  CudaQueue* queue_ = nullptr;
  Layers l_, second_;  // second_ is for the second round of the blur, and has cells if there is one
  SampleWords samples_;
  GuidedPass<GuidedSource, ExternalMask, SampleWords> sample_[3];  // by GuidedReads
  GuidedPass<GuidedCoefficients, Layers> matte_;
  GuidedPass<Layers> blur_;
  Allocation memory_;
};

}  // namespace vf::cuda
