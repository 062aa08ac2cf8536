// What refine=colors of the guided matte derives from its parameters. docs/spec/matte.md defines
// the algorithm; the names here are those of its formulas.
#pragma once

#include <cstdint>
#include <vector>

#include "filters/status.h"

namespace vf {

struct GuidedParams;

struct GuidedColors {
  // Pixels along a sample and samples along a cell: a cell is 32 x 32 pixels.
  static constexpr int kStep = 4, kCell = 8;
  // The widest windows: samples to each side of the mask's mean, samples of a distance, and cells
  // to each side of the vote.
  static constexpr int kMaxPriorRadius = 4, kMaxDistance = 31, kMaxReach = 8;
  // The scale of X, the prior as an integer, and of a share of the frames before.
  static constexpr int kOne = 1 << 14, kShare = 1 << 15;
  // The change of a sample's neighbourhood, in 1/256 code values of 8 bits, up to which the frames
  // before count in full, and from which they do not count.
  static constexpr int kStill = 8 * 256, kMoved = 16 * 256;
  // Weight of luma in the distance of two colours; weights of the prior and of the vote; share of
  // alike colours below which a class says nothing.
  static constexpr double kLuma = 0.2, kTrust = 9, kVote = 3, kFloor = 1e-4;
  // Of a model's variance, what counts of each channel's; standard deviation of the Gaussian over
  // the cells, of the reach.
  static constexpr double kVariance = 0.4, kSpatial = 0.6;
  // The mean of the votes: samples to each side, of which every other one counts, as on a
  // chessboard; and the difference of colours from which on they do not.
  static constexpr int kAround = 2, kUnlike = 96;
  // The mask error that is found: E where `mask-error` is 0; classes of distance from the mask's
  // edge, and those near it; the scale of what is found, and its least in pixels; how far the edge
  // moves by it.
  static constexpr int kWidest = 18, kErrorBins = 9, kErrorNear = 4, kErrorUnit = 256,
                       kErrorLeast = 6;
  static constexpr double kShift = 1.3;

  int width = 0, height = 0;            // in samples
  int cell_width = 0, cell_height = 0;  // in cells
  int prior_radius = 1;                 // of the mask's mean, in samples
  int distance = 1;                     // largest one inside the band, in samples, rounded down
  int reach = 1;                        // of the vote, in cells
  int edge = 4;                         // E: mask-error, at least a sample
  double trust = 0, variance = 0;       // L and S^2 / 4
  double least = 0;                     // below which the weight of a class is not trusted
  int share = 0;                        // `temporal` of kShare
  // X for each squared distance inside the band, in kOne; beyond, X is kOne.
  std::vector<int16_t> prior;
  std::vector<float> spatial;  // 2 reach + 1 weights along an axis; their products count
  float feature[3][3] = {};    // F from the guide's code values of 8 bits
  int compared[3][3] = {};     // M: the same as integers, for differences of colours
};

// How the votes of the band's samples disagree with the mask, by the mask's side and the
// distance from its edge.
struct MaskErrors {
  uint64_t count[2][GuidedColors::kErrorBins] = {};    // samples
  uint64_t against[2][GuidedColors::kErrorBins] = {};  // sums of votes against the side, of 256
};
// What they say: by how much the mask is off on the background's side and on the subject's, in
// 1 / kErrorUnit pixels.
struct MaskError {
  int side[2] = {};
};
MaskError mask_error_of(const GuidedColors& colors, const MaskErrors& errors);
// How far the prior moves towards the subject, of X's scale.
float shift_of(const GuidedColors& colors, const MaskError& error);

// For frames of width x height pixels with a guide of 3 channels or 1.
GuidedColors make_guided_colors(const GuidedParams& params, int width, int height, int colors);

}  // namespace vf
