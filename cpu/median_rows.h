// Declares the inner loops of the CPU median for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vf::cpu {

// Holds a compiled selection network. Each value is a row of `chunk` bytes, in the padded plane or
// in a slot, which is used again when the value is dead. With many slots, chunks are smaller, so
// that the slots stay in the first-level cache.
constexpr size_t kMedianChunk = 256, kMedianMinChunk = 64;

struct MedianProgram {
  struct Operand {
    uint32_t plane;   // 1: in the padded plane, else a slot
    uint32_t offset;  // bytes
  };
  struct Step {
    Operand a, b;
    uint32_t low, high;  // offsets of slots
  };
  enum Kind : uint32_t { exchange, minimum, maximum };
  struct Run {
    Kind kind;
    uint32_t count;  // number of consecutive steps
  };
  std::vector<Run> runs;
  std::vector<Step> steps;
  std::vector<Operand> outputs;  // [y * tile_x + x] is row y, column x of the tile
  size_t slot_bytes = 0, chunk = kMedianChunk;
};

// Two thresholds for the rows of a band (see cpu/median.cpp), so that work on one fills the waiting
// time of the other. All rows have `words` groups of kMedianLanes bytes. Groups of `columns` are
// kMedianPitch bytes apart, and the bytes before each are zero.
constexpr int kMedianLanes = 64, kMedianPitch = 128;

struct MedianThreshold {
  const uint8_t* pixels;  // rows of words * kMedianLanes bytes
  uint8_t* counts;        // rows of words * kMedianLanes bytes: + 1 for each threshold <= median
  uint8_t* columns;       // 2 * words * kMedianPitch bytes, the first at a zeroed group
  int words, rows, size, size_x;
  int threshold[2];  // 0 to 255; 0 is never above a median
  int limit;         // maximum number of pixels below a median
};

// A row of medians with a threshold, in which pixels that are no outliers get back their own
// values. Floats are keys, except in the medians. `low` and `high` hold the extremes by columns of
// count + (size - 1) * distance components, and are overwritten up to one vector beyond.
struct MedianOutliers {
  const void* values;
  void *low, *high;
  void* medians;
  size_t count, distance;  // components in the row, and in a pixel
  int size;                // the window's, in pixels
  uint32_t threshold;      // in the units of stored samples
};

struct MedianRows {
  // Makes the 3 x 3 medians of two rows from the four rows that they need, for components of 1 and
  // 2 bytes and floats. Rows have `count` components, and the neighbours of component i are i -
  // distance and i + distance. out[1] may be null.
  void (*three[3])(const void* const rows[4], size_t distance, size_t count, void* const out[2]);
  // Run a program on a chunk of a row, for components of 1, 2 and 4 bytes.
  void (*network[3])(const MedianProgram& program, const uint8_t* plane, uint8_t* slots);
  void (*threshold)(const MedianThreshold& t);
  // Find the extremes of the columns of `rows` rows, for components of 1, 2 and 4 bytes. `bytes` is
  // the length of a row, a multiple of kMedianMinChunk.
  void (*columns[3])(const uint8_t* from, size_t pitch, int rows, size_t bytes, uint8_t* low,
                     uint8_t* high);
  void (*outliers[3])(const MedianOutliers& t);
  // Split rows of pixels of 1, 2 or 4 bytes, with pixel 4 i + j in part j, and join them again.
  // `pixels` is rounded up to a multiple of kMedianChunk on both sides.
  void (*split4[3])(const uint8_t* from, int pixels, uint8_t* const* parts);
  void (*join4[3])(const uint8_t* const* parts, int pixels, uint8_t* to);
};
const MedianRows& median_rows();

}  // namespace vf::cpu
