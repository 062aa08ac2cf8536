// Declares the kernels of the guided matte's refine=colors, their arguments, and their part of the
// plan. Names follow the formulas of docs/spec/matte.md.
#pragma once

#include "cuda/guided/guided.h"
#include "filters/guided_task.h"

namespace vf::cuda {

class MaskUploads;

// The sums tell how the votes disagree with the mask (MaskErrors of the library), each as number <<
// 40 | sum. The last sum is that of the steps of luma. Blocks add to several copies.
constexpr int kErrorBins = GuidedColors::kErrorBins, kErrorClasses = 2 * kErrorBins,
              kErrorSums = kErrorClasses + 1;
constexpr int kErrorCopies = 8;
struct VoteErrors {
  unsigned long long sums[kErrorCopies][kErrorSums];
};

// A sample for the mean of the votes over similar colours: its ratio, and in `code` the bytes of Q
// and 0. The last byte is 255 where the sample does not vote, and so differs from all that do.
struct alignas(8) Compared {
  float ratio;
  uint32_t code;
};

// The means of 4 x 4 pixels as words: the guide's bytes, and the mask's.
struct SampleWords {
  uint32_t* data = nullptr;
  int width = 0, height = 0, pitch = 0;  // samples
};

struct ColorVotes {
  int width = 0, height = 0, pitch = 0;  // samples
  int cell_width = 0, cell_height = 0;
  int prior_radius = 1, reach = 1;
  int prior_count = 0;  // entries of prior_of: the squared distances inside the band
  const int16_t* prior_of = nullptr;
  const float* spatial = nullptr;  // weights of a window, column by column, zeros up to 8 n
  float feature[3][4] = {};        // F from code values, relative to gray
  int compared[3][4] = {};         // Q from code values, times 2^16, with what rounds it
  int luma[3] = {};                // in 1/256
  float trust = 0;                 // 4 L over the scale of X
  float variance = 0;              // S^2
  float minimum = 0;               // smallest weight of a class
  float epsilon = 0;               // the guided filter's, in squares of 8-bit code values

  uint32_t* words = nullptr;        // the samples, up to the pitch
  int16_t* prior = nullptr;         // X, up to the pitch
  Compared* voted = nullptr;        // l and Q, up to the pitch
  uint4* models = nullptr;          // two for each cell, of the background, then of the subject
  float2* weights = nullptr;        // n S^2 / v and n of each cell, in the same order
  uint32_t* result = nullptr;       // samples: the guide's bytes, and P
  GuidedSide* own_sides = nullptr;  // sides of the samples if `low` has others

  // Previous frames: the guide's means in 1/256 code values, and X, as words of 16 bits.
  uint2* previous = nullptr;
  int fresh = 1, share = 0;
  int widest = 0;  // E in 1 / kErrorUnit pixels
  VoteErrors* errors = nullptr;

  // This has the error of the mask's edge, in a frame of this size.
  ExternalMask edge_error;
  int frame_width = 0, frame_height = 0;

  // These are the guided filter's samples at another subsample.
  uint32_t* low = nullptr;
  int low_pitch = 0;
  GuidedSide* sides = nullptr;  // see GuidedMeans
};

constexpr int kVotesTileX = 32, kVotesTileY = 16;  // samples of a block of the prior and the models
constexpr int kVoteCells = 4;                      // cells of a block of the vote, side by side

using VotesKernel = void (*)(ColorVotes);
using SamplesKernel = void (*)(GuidedSource, ExternalMask, SampleWords);
using VotesLowKernel = void (*)(GuidedSource, GuidedGrid, ColorVotes);
using VotesStatisticsKernel = void (*)(GuidedSums, ColorVotes);

// Makes the samples, by blocks of 32 x 8. Quads are of a width that is a multiple of 4, and have no
// chroma key. `external`: the mask is external.
SamplesKernel guided_samples(Type type, GuidedReads reads, bool external);
SamplesKernel guided_samples_of_planes(bool external);
// Makes the guided filter's samples at another subsample.
VotesLowKernel votes_low(Type type);
// Makes the prior for distances of up to `distance` samples, and the models. With `tensor`, here
// and below, models and votes are for tensor cores: from 8.0, and for S of at least
// kVotesTensorSigma.
constexpr double kVotesTensorSigma = 0.03;
VotesKernel votes_prior(int distance, bool tensor);
VotesKernel votes_of(bool tensor, int reach);
int votes_shared(int reach);
VotesKernel votes_result();
// Makes the result and the guided filter's statistics, for windows of radius kVotesStatisticsRadius
// and samples of kStep pixels. A warp makes `rows` rows of samples, one or two.
constexpr int kVotesStatisticsRadius = 4, kVotesStatisticsStrip = 2;
// Samples of a block.
constexpr int kVotesStatisticsX = 64 - 2 * kVotesStatisticsRadius, kVotesStatisticsY = 20;
VotesStatisticsKernel votes_statistics(int rows);

// The launches before the guided filter, and their memory.
class GuidedColorsPlan {
 public:
  Status prepare(CudaQueue& queue, const GuidedTask& task);
  // Enqueues the votes of a frame. Where they make the statistics as well, those go to `sums`.
  Status enqueue(const GuidedSource& source, const MaskUploads& mask, const GuidedSums& sums,
                 GuidedReads reads);
  // Rows of a strip if the votes make the statistics as well, and else 0.
  int statistics_strip() const { return statistics_strip_; }
  // Returns the guided filter's samples, as words of r g b p, and their pitch in samples.
  uint32_t* guide() const { return v_.low ? v_.low : v_.result; }
  int guide_pitch() const { return v_.low ? v_.low_pitch : v_.pitch; }
  const GuidedSide* sides() const { return v_.sides; }
  // Returns words with the same guide, which are complete before the votes.
  const uint32_t* colors() const { return v_.low ? v_.low : v_.words; }
  GuidedPrior prior() const { return {v_.prior, v_.pitch}; }
  SampleWords samples() const { return {v_.words, v_.width, v_.height, v_.pitch}; }

  void forget() { v_.fresh = 1; }
  void take_over(GuidedColorsPlan& previous);

 private:
  CudaQueue* queue_ = nullptr;
  ColorVotes v_;
  GuidedGrid grid_;
  int statistics_strip_ = 0;
  GuidedPass<GuidedSource, ExternalMask, SampleWords> samples_[3];  // by GuidedReads
  GuidedPass<ColorVotes> prior_, votes_, result_;
  GuidedPass<GuidedSums, ColorVotes> statistics_;
  GuidedPass<GuidedSource, GuidedGrid, ColorVotes> low_;
  Allocation memory_, previous_, errors_;
};

}  // namespace vf::cuda
