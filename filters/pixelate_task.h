// Holds what a backend gets for a pixelation: the blocks of each plane.
#pragma once

#include <vector>

#include "filters/pixelate.h"

namespace vf {

// Describes the blocks along one axis of a plane. Block b has the samples from edge(b) to edge(b +
// 1), and the last one ends with the plane. No block is empty.
struct BlockAxis {
  int size = 1;    // size of a block, in samples of a plane that is 2^sub times as fine
  int sub = 0;     // 0 if all blocks are equally long
  int count = 1;   // number of blocks
  int length = 1;  // samples of the plane along the axis

  constexpr int edge(int block) const {
    if (block >= count) return length;
    return (block * size + (1 << sub) - 1) >> sub;
  }
  constexpr int block_of(int sample) const { return (sample << sub) / size; }
  // Returns the length of the longest block.
  constexpr int maximum() const {
    const int maximum = (size + (1 << sub) - 1) >> sub;
    return maximum < length ? maximum : length;
  }
};

struct PixelatePlane {
  BlockAxis x, y;
  uint8_t channels = 0xf;  // bit c set: channel c is filtered, else copied
  bool copies() const { return channels == 0 || (x.maximum() == 1 && y.maximum() == 1); }
};

struct PixelateTask {
  Layout layout;
  Placement placement = Placement::separate;
  std::vector<PixelatePlane> plane;  // one for each plane of the layout
};

// Returns the mean of `count` integer components that add up to `sum`, as it is stored.
template <class T>
constexpr T block_mean(uint64_t sum, uint64_t count, int shift) {
  const uint64_t unit = count << shift, rounded = sum + unit / 2;
  // 32 bits divide several times as fast.
  const uint64_t code =
      (unit | rounded) >> 32 ? rounded / unit : uint32_t(rounded) / uint32_t(unit);
  const uint64_t highest = uint64_t(T(~T(0))) >> shift;
  return T((code < highest ? code : highest) << shift);
}

}  // namespace vf
