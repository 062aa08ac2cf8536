// Computes where a letterbox reads: the source pixels and their weights for each destination column
// and row.
#pragma once

#include <cstdint>
#include <vector>

#include "filters/letterbox_task.h"

namespace vf::cpu {

// Holds the source positions along one axis of a destination plane, for source planes of one
// subsampling.
struct ResamplingTaps {
  std::vector<int> lo, hi;       // bilinear, nearest: neighbours, clamped to the plane
  std::vector<float> weight;     // hi's
  std::vector<int16_t> fixed;    // weights of lo and hi in cv2's fixed point
  std::vector<uint8_t> outside;  // bit 0: lo is outside the picture, so it is the fill; bit 1: hi
  // area: taps of pixel x are [first[x], first[x + 1]); index -1 is the fill
  std::vector<int> first, index;
  std::vector<float> share;
};

// One axis of destination planes that share a subsampling.
struct AxisTaps {
  int begin = 0, end = 0;  // destination pixels that show the picture
  ResamplingTaps luma, chroma;
};

// Returns the taps of one axis for destination planes of `size` pixels and subsampling `sub`.
// Chroma has none if `chroma_sub` is negative. A horizontal axis treats columns beyond the edge as
// cv2 does.
AxisTaps letterbox_taps(const LetterboxTask& task, const LetterboxTask::Axis& axis, bool horizontal,
                        int size, int sub, int chroma_sub, int chroma_size);

}  // namespace vf::cpu
