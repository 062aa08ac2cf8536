// The layers of the guided matte (foreground=estimate, background=blur) on the GPU: what their
// kernels share beside the frame's argument, and their part of the plan. docs/spec/matte.md has the
// formulas.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/core/queue.h"
#include "cuda/guided/guided.h"
#include "cuda/guided/guided_colors.h"
#include "filters/guided_task.h"

namespace vf::cuda {

struct Layers {
  int estimates = 0, blurs = 0;
  int width = 0, height = 0, pitch = 0;  // samples; of their words
  const uint32_t* words = nullptr;       // the guide's bytes, and another one
  uint4* found = nullptr;                // as in Guided
  // Cells of 2^shift x 2^shift samples: sums of w times colour and of w.
  int shift = 0, cell_width = 0, cell_height = 0;
  float4* cells = nullptr;
  uint4* totals = nullptr;  // the same of each block of the samples, of which there are `blocks`
  int blocks = 0;
  int radius = 0;
  float weight[GuidedLayers::kMaxRadius + 1] = {};
  float enough = 0;          // weight of the frame's mean background
  float background[3] = {};  // where the frame has none, in codes of 8 bits
  uint2* blurred = nullptr;  // as in Guided
  // Before a second round: colours of the background alone, and 1.
  float4* filled = nullptr;
};

constexpr int kLayersTileX = 32, kLayersTileY = 16;  // samples of a block, and its threads
constexpr int kBlurTileX = 32, kBlurTileY = 8;       // cells of a block

using LayersKernel = void (*)(Guided, Layers);

// The samples' matte, and of it the colours of subject and background and the sums of the cells.
// `same`: the guided filter has the same samples.
LayersKernel layers_samples(bool same);
// The blur of the cells into `filled` or, where that is null, `blurred`.
LayersKernel layers_blur();
// The result of frames of words aligned to 16 bytes, at subsample 4 (not `pairs`) or a multiple of
// 8: every output but the matte. `plain`: without despill, over an opaque background if any.
GuidedKernel layers_apply(bool pairs, bool plain);

class GuidedLayersPlan {
 public:
  // Allocates, and sets what the frame's argument needs of the layers.
  Status prepare(CudaQueue& queue, const GuidedTask& task, Guided* g);
  bool used() const { return l_.estimates || l_.blurs; }
  // Enqueues them for the frame of `g`, whose matte is there. The samples are those of the votes,
  // or with null made here. `quads` as for the votes.
  Status enqueue(const Guided& g, const Votes* votes, bool quads);

 private:
  CudaQueue* queue_ = nullptr;
  Layers l_, second_;  // second_: of the second round of the blur, where it has cells
  Votes samples_;
  int component_size_ = 1;
  bool is_float_ = false, beside_ = false;
  Allocation memory_;
};

}  // namespace vf::cuda
