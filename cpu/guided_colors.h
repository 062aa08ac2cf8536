// The stages of refine=colors run before the guided filter. They are compiled once for each
// instruction set. Planes are of the samples (docs/spec/matte.md), and cells of kCell x kCell
// samples.
#pragma once

#include "cpu/guided.h"

namespace vf::cpu {

// The vote uses this colour model of a class in a cell.
struct CellModel {
  float mean[3];
  float slope;   // 1 / (24 v)
  float weight;  // n S^2 / v
  float count;   // n
};

struct GuidedColorsFrame {
  GuidedTask task;
  Image src;
  PackedMask external, edge_error;  // the mask, and the error of its edge
  bool fresh = true;                // there is no previous frame
  uint8_t *guide[3] = {}, *mask = nullptr;
  uint8_t* side = nullptr;       // the subject's is 1, after votes_matte 64
  uint16_t* along[2] = {};       // squared distance along the row to the next sample of each class
  float* feature[3] = {};        // F; null where only the samples are wanted
  int16_t* prior = nullptr;      // X
  float* ratio = nullptr;        // l, 0 outside the band
  MaskErrors* errors = nullptr;  // one per thread
  MaskError error;               // the mask's error, from `errors`
  uint8_t* matte = nullptr;      // P
  uint8_t* outside = nullptr;    // 64: farther than a sample from the band
  uint8_t* sure[2] = {};         // how sure of a side, by side, in 64ths
  CellModel* cells = nullptr;    // models of the background, then of the subject
  // With `temporal`: X of the previous frames, and the guide's means over 3 x 3 samples, in 1/256
  // code values.
  int16_t* previous_prior = nullptr;
  uint16_t* previous_guide[3] = {};
  // The guided filter's samples, if its subsample is other than kStep.
  uint8_t *low[4] = {}, *low_outside = nullptr, *low_side = nullptr, *low_sure[2] = {};
  char* scratch = nullptr;  // for all threads
  size_t scratch_per_thread = 0;
};

size_t votes_scratch(const GuidedColorsFrame& v);
// Makes the guide and the mask of rows [y0, y1) of the samples.
void votes_samples(const GuidedColorsFrame& v, int y0, int y1, int thread);
// Finds the mask's sides and the distances along the row, for rows of the samples.
void votes_sides(const GuidedColorsFrame& v, int y0, int y1, int thread);
// These work on rows of cells. They make the prior and its models, the votes and their disagreement
// with the mask, and the matte.
void votes_prior(const GuidedColorsFrame& v, int y0, int y1, int thread);
void votes_ratios(const GuidedColorsFrame& v, int y0, int y1, int thread);
void votes_matte(const GuidedColorsFrame& v, int y0, int y1, int thread);
// Finds how sure rows of the samples are of a side.
void votes_sure(const GuidedColorsFrame& v, int y0, int y1, int thread);
// Makes rows of the guided filter's samples.
void votes_low(const GuidedColorsFrame& v, int y0, int y1, int thread);

}  // namespace vf::cpu
