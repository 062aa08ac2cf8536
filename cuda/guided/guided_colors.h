// What the kernels of refine=colors share: their argument beside the frame's, and their names.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/guided/guided.h"
#include "filters/guided_colors.h"

namespace vf::cuda {

// How the votes disagree with the mask (MaskErrors of the library): number << 40 | sum, in some
// copies, so that blocks do not wait for each other.
constexpr int kErrorBins = GuidedColors::kErrorBins, kErrorClasses = 2 * kErrorBins;
constexpr int kErrorCopies = 8;
struct VoteErrors {
  unsigned long long sums[kErrorCopies][kErrorClasses];
};

// A sample for the mean of the votes over colours that are alike: its ratio, and in `code` the
// bytes of Q and 0, or 255 where it does not vote, and so is unlike all that do.
struct alignas(8) Compared {
  float ratio;
  uint32_t code;
};

// docs/spec/matte.md defines what the names of the formulas stand for.
struct Votes {
  int width = 0, height = 0, pitch = 0;  // samples; of words and of results, in samples
  int cell_width = 0, cell_height = 0;
  int prior_radius = 1, reach = 1;
  int prior_count = 0;  // of prior_of: the squared distances inside the band
  const int16_t* prior_of = nullptr;
  const float* spatial = nullptr;  // weights of a window, column by column, zeros up to 8 n
  float feature[3][4] = {};        // F from code values, less that of gray
  int compared[3][4] = {};         // Q from code values, times 2^16, with what rounds it
  float trust = 0;                 // 4 L over the scale of X
  float variance = 0, least = 0;   // S^2; the least weight of a class

  uint32_t* words = nullptr;   // samples: the guide's bytes, and the mask's; up to the pitch
  int16_t* prior = nullptr;    // X
  Compared* voted = nullptr;   // l and Q; up to the pitch, as the prior
  uint4* models = nullptr;     // two a cell, of the background, then of the subject
  float2* weights = nullptr;   // n S^2 / v and n of each cell, likewise
  uint32_t* result = nullptr;  // samples: the guide's bytes, and P
  uint8_t* flags =
      nullptr;  // bit 0: farther than a sample from the band; bit 1: the subject's side

  // The frames before: the guide's means of 256 to a code value, and X, as words of 16 bits.
  uint2* before = nullptr;
  int fresh = 1, share = 0;
  int widest = 0;  // E in 1 / kErrorUnit pixels
  VoteErrors* errors = nullptr;

  // The guided filter's samples where they are others.
  uint32_t* low = nullptr;
  int low_pitch = 0;
  uchar2* sides = nullptr;  // of the guided filter's samples, as in Guided
};

constexpr int kVotesTileX = 32, kVotesTileY = 16;  // samples of a block of the prior and the models
constexpr int kVoteCells = 4;                      // cells of a block of the vote, side by side

using VotesKernel = void (*)(Votes);
using VotesFrameKernel = void (*)(Guided, Votes);

struct VotesLaunch {
  dim3 grid;
  int threads = 256;
  int shared = 0;  // bytes
};

// The frame's means. `quads`: words of a width that is a multiple of 4, aligned to 16 bytes.
// `beside`: the mask is beside the frame.
VotesFrameKernel votes_samples(int component_size, bool is_float, bool quads, bool beside);
// The guided filter's samples at another subsample.
VotesFrameKernel votes_low(int component_size, bool is_float);
// The prior for distances of up to `distance` samples, and the models that it makes.
VotesKernel votes_prior(int distance, bool tensor);
// `tensor`, the same in all: on tensor cores, from 8.0, for S of at least kVotesTensorSigma.
constexpr double kVotesTensorSigma = 0.03;
VotesKernel votes_of(bool tensor, int reach);
int votes_shared(int reach);
VotesKernel votes_result();
// The result and the statistics of the guided filter, for windows of radius kVotesStatisticsRadius
// and samples of kStep pixels.
constexpr int kVotesStatisticsRadius = 4, kVotesStatisticsRows = 2;  // rows: of a strip
constexpr int kVotesStatisticsWarps = 6;
// Samples of a block.
constexpr int kVotesStatisticsX = 64 - 2 * kVotesStatisticsRadius,
              kVotesStatisticsY = kVotesStatisticsWarps * kVotesStatisticsRows;
VotesFrameKernel votes_statistics();

}  // namespace vf::cuda
