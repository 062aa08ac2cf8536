// The stages of refine=colors before the guided filter; compiled once for each instruction set.
// Planes are of the samples (docs/spec/matte.md), and cells of kCell x kCell samples.
#pragma once

#include "cpu/guided.h"

namespace vf::cpu {

// The colour model of a class in a cell, as the vote needs it.
struct ColorModel {
  float mean[3];
  float slope;   // 1 / (24 v)
  float weight;  // n S^2 / v
  float count;   // n
};

struct GuidedVotes {
  GuidedTask task;
  Image src;
  PackedMask beside;
  bool fresh = true;  // no frame before this one
  uint8_t *guide[3] = {}, *mask = nullptr;
  uint8_t* side = nullptr;       // the subject's is 1, after votes_matte 64
  uint16_t* along[2] = {};       // squared distance along the row to the next sample of each class
  float* feature[3] = {};        // F; null where only the samples are wanted
  int16_t* prior = nullptr;      // X
  float* ratio = nullptr;        // l, 0 outside the band
  MaskErrors* errors = nullptr;  // of each thread
  MaskError error;               // what they say
  uint8_t* matte = nullptr;      // P
  uint8_t* outside = nullptr;    // 64: farther than a sample from the band
  ColorModel* cells = nullptr;   // of the background, then of the subject
  // With `temporal`: the guide's means over 3 x 3 samples, of 256 to a code value, and X.
  int16_t* before_prior = nullptr;
  uint16_t* before_guide[3] = {};
  // The guided filter's samples, where they are others (subsample other than kStep).
  uint8_t *low[4] = {}, *low_outside = nullptr, *low_side = nullptr;
  char* scratch = nullptr;  // for all threads
  size_t scratch_per_thread = 0;
};

size_t votes_scratch(const GuidedVotes& v);
// Rows [y0, y1) of the samples: guide and mask.
void votes_samples(const GuidedVotes& v, int y0, int y1, int thread);
// Rows of the samples: the mask's sides and the distances along the row.
void votes_sides(const GuidedVotes& v, int y0, int y1, int thread);
// Rows of cells: the prior and its models; the votes, and how they disagree with the mask; the
// matte.
void votes_prior(const GuidedVotes& v, int y0, int y1, int thread);
void votes_ratios(const GuidedVotes& v, int y0, int y1, int thread);
void votes_matte(const GuidedVotes& v, int y0, int y1, int thread);
// Rows of the guided filter's samples.
void votes_low(const GuidedVotes& v, int y0, int y1, int thread);

}  // namespace vf::cpu
