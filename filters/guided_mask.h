// The guided matte takes coarse masks apart from the frame (MatteMask::external).
//
// A mask is a list of parts, each an image of any size that covers a rectangle of the frame. A part
// can be the output of a segmentation network, one of several objects, or an image with borders. It
// is enlarged bilinearly with half-pixel centres. Where several parts cover a pixel, the largest
// value counts, and where none does, the mask is 0.
//
// Positions and weights are integers, so that all backends have the same mask. A position is
// rounded to 1/256 of the part's pixel; docs/spec/matte.md has the formulas.
#pragma once

#include <cstddef>
#include <cstdint>

#include "filters/limits.h"

namespace vf {

// Describes a rectangle by continuous positions in the frame: pixel i spans i to i + 1.
struct MaskRectangle {
  double left = 0, top = 0, right = 0, bottom = 0;
};

struct MaskPart {
  static constexpr Limits<int> kSize{1, 8192};
  const uint8_t* data = nullptr;  // in host memory; 255 is the subject, 0 the background
  ptrdiff_t stride = 0;           // bytes
  int width = 0, height = 0;
  // The rectangle that the whole image covers. It may reach beyond the frame.
  MaskRectangle image;
  // The rectangle in which the image counts. Pixels of the image whose centres are outside of it
  // (borders, padding) are not read, and the pixels at its edge are repeated.
  MaskRectangle counts;
  // A second image of the same size and stride, or null. A value of 255 means that the mask's edge
  // has the error GuidedParams::mask_error, and smaller values stand for a share of it. Null stands
  // for 255. MatteRefine::colors uses this for classes whose edges have different errors: on both
  // sides of the edge, each pixel should have the error of the nearest class.
  const uint8_t* error = nullptr;
};

struct CoarseMask {
  static constexpr int kMaxParts = 64;
  static constexpr size_t kMaxBytes = size_t(1) << 27;  // maximum of all parts together
  const MaskPart* part = nullptr;
  int parts = 0;  // 0: background everywhere
  // A plan that has a mask of this number already keeps it. Number 0 always counts as new.
  uint64_t id = 0;
};

// Maps positions in the frame to those in a part, along one axis. Positions in the frame count half
// pixels: the centre of pixel x is 2 x + 1.
struct MaskAxis {
  static constexpr int kShift = 20;  // fraction bits of start and step below 1/256 of a pixel
  int64_t start = 0, step = 0;       // position h is at (start + step * h) >> kShift, in 256ths,
  int32_t minimum = 0, maximum = 0;  // clamped to these
  int32_t first = 0, last = -1;      // h for which the part counts
  int32_t position(int h) const {
    const int64_t at = (start + step * h) >> kShift;
    return int32_t(at < minimum ? minimum : at > maximum ? maximum : at);
  }
};

// Describes a part in the memory of a plan. It begins `at` bytes from the start, with `pitch` bytes
// a row.
struct MaskPlace {
  MaskAxis x, y;
  uint32_t at = 0;
  int32_t pitch = 0;
};

// A mask that is placed on a frame. In memory, the places come first, then the parts' rows, then
// their errors.
struct PlacedMask {
  int count = 0;
  MaskPlace place[CoarseMask::kMaxParts];
  int part[CoarseMask::kMaxParts] = {};  // its index in the mask
  size_t errors = 0;                     // bytes from a part to its errors; 0: no part has any
  size_t bytes = 0;                      // size of places and rows
};

// mask_value() returns this for a mask of 255.
constexpr int kMaskOne = 255 << 16;

// Places the parts that touch a frame of width x height pixels. Refuses invalid sizes, numbers of
// parts and rectangles.
Status place_mask(const CoarseMask& mask, int width, int height, PlacedMask* placed);
// Writes places and rows to `memory` of placed.bytes.
void pack_mask(const CoarseMask& mask, const PlacedMask& placed, uint8_t* memory);

// Returns the part's value at the position (px, py) of the axes, in units of 1 / kMaskOne.
inline int mask_value(const uint8_t* memory, const MaskPlace& place, int px, int py) {
  const int x = px >> 8, y = py >> 8, fx = px & 255, fy = py & 255;
  const uint8_t* const top = memory + place.at + size_t(y) * place.pitch + x;
  // The last pixel's neighbour has no weight, and may not exist.
  const uint8_t* const bottom = top + (fy ? place.pitch : 0);
  const int right = fx ? 1 : 0;
  return (256 - fy) * ((256 - fx) * top[0] + fx * top[right]) +
         fy * ((256 - fx) * bottom[0] + fx * bottom[right]);
}

}  // namespace vf
