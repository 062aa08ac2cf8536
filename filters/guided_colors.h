// refine=colors of the guided matte derives these values from its parameters. docs/spec/matte.md
// defines the algorithm, and the names here are those of its formulas.
#pragma once

#include <cstdint>
#include <vector>

#include "filters/status.h"

namespace vf {

struct GuidedParams;

struct GuidedColors {
  // Pixels along a sample and samples along a cell: a cell is 32 x 32 pixels.
  static constexpr int kStep = 4, kCell = 8;
  // Maxima: the radius of the mask's mean and a distance, both in samples, and the vote's radius,
  // in cells.
  static constexpr int kMaxPriorRadius = 4, kMaxDistance = 31, kMaxReach = 8;
  // The scale of X, the prior as an integer, and of a share of the previous frames.
  static constexpr int kOne = 1 << 14, kShare = 1 << 15;
  // The previous frames count in full while a sample's neighbourhood changes by at most kStill, and
  // not at all from kMoved on, in 1/256 code values of 8 bits.
  static constexpr int kStill = 8 * 256, kMoved = 16 * 256;
  // Weight of luma in the distance of two colours; weights of the prior and of the vote. kFloor is
  // added to each class's share of similar colours, so that two tiny shares have a ratio near 1.
  static constexpr double kLuma = 0.2, kTrust = 9, kVote = 3, kFloor = 1e-4;
  // Share of the three channels' variance that counts in a model's; standard deviation of the
  // Gaussian over the cells, as a share of the reach.
  static constexpr double kVariance = 0.4, kSpatial = 0.6;
  // The mean of the votes has a window of this radius, in samples, of which every other one counts,
  // as on a chessboard. Samples whose colours differ by kUnlike or more do not count.
  static constexpr int kAround = 2, kUnlike = 96;
  // The mask error: classes of distance from the mask's edge, and the number of those near it; the
  // error's scale and its minimum in pixels; and how far the error moves the edge.
  static constexpr int kErrorBins = 9, kErrorNear = 4, kErrorUnit = 256, kErrorMin = 6;
  static constexpr double kShift = 1.3;
  // These act against specks. How much the background's luma changes from a sample to the next
  // tells how busy it is, in 1/16 code values: a step counts up to kBusyStep, and means run from
  // kCalm to kBusy. A sample is sure of its side if P is within kSure code values of it. On the
  // background's side the votes near it must not differ by more than kSteady, because those beside
  // a part of the subject that the mask misses do. On the subject's side none may contradict. It
  // then takes its side where the matte round it is off by less than the side's kCertain, and not at
  // all from twice that on. Shares are of kFully.
  static constexpr int kBusyStep = 8 * 16, kCalm = 24, kBusy = 40, kFully = 64, kSure = 48;
  static constexpr double kSteady = 2.25, kCertain[2] = {3.0 / 32, 1.0 / 8};

  int width = 0, height = 0;            // in samples
  int cell_width = 0, cell_height = 0;  // in cells
  int prior_radius = 1;                 // radius of the mask's mean, in samples
  int distance = 1;                     // largest one inside the band, in samples, rounded down
  int reach = 1;                        // reach of the vote, in cells
  int edge = 4;                         // E: mask-error, at least a sample
  double trust = 0, variance = 0;       // L and S^2 / 4
  double minimum = 0;                   // smallest weight of a class that is trusted
  int share = 0;                        // `temporal` of kShare
  // X for each squared distance inside the band, in kOne; beyond, X is kOne.
  std::vector<int16_t> prior;
  std::vector<float> spatial;  // 2 reach + 1 weights along an axis; their products count
  float feature[3][3] = {};    // F from the guide's code values of 8 bits
  int luma[3] = {};            // from the guide's code values, in 1/256
  int compared[3][3] = {};     // M: the same as integers, for differences of colours
};

// How the votes of the band's samples disagree with the mask, by the mask's side and the
// distance from its edge.
struct MaskErrors {
  uint64_t count[2][GuidedColors::kErrorBins] = {};    // samples
  uint64_t against[2][GuidedColors::kErrorBins] = {};  // sums of votes against the side, of 256
  uint64_t steps = 0;  // sums of the steps of luma far from the edge, on the background's side
};
// The mask's error on the background's side and on the subject's, in 1 / kErrorUnit pixels, as the
// votes show it, and how busy the background is, of kFully.
struct MaskError {
  int side[2] = {};
  int busy = 0;
};
MaskError mask_error_of(const GuidedColors& colors, const MaskErrors& errors);
// Returns how far the prior moves towards the subject, in X's scale.
float shift_of(const GuidedColors& colors, const MaskError& error);

// Derives the values for frames of width x height pixels with a guide of 3 channels or 1.
GuidedColors make_guided_colors(const GuidedParams& params, int width, int height, int colors);

}  // namespace vf
