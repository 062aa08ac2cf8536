// The inner loops of the CPU median for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vf::cpu {

// A selection network as it is run: every value is a row of `chunk` bytes, in a slot that is used
// again when the value is dead, or in the padded plane. Chunks are smaller where there are many
// slots, so that these stay in the first-level cache.
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
    uint32_t count;  // of steps, which follow each other
  };
  std::vector<Run> runs;
  std::vector<Step> steps;
  std::vector<Operand> outputs;  // of row y and column x of the tile at [y * tile_x + x]
  size_t slot_bytes = 0, chunk = kMedianChunk;
};

// Two thresholds over rows of a band: work on one fills the waits of the other; see cpu/median.cpp.
// All rows have `words` groups of kMedianLanes bytes, kMedianPitch bytes apart; the bytes before
// each group of `columns` are zero.
constexpr int kMedianLanes = 64, kMedianPitch = 128;

struct MedianThreshold {
  const uint8_t* pixels;  // rows of words * kMedianLanes bytes
  uint8_t* counts;        // rows of words * kMedianLanes bytes: + 1 for each threshold <= median
  uint8_t* columns;       // 2 * words * kMedianPitch bytes, the first at a zeroed group
  int words, rows, size, size_x;
  int threshold[2];  // 0 to 255; 0 is never above a median
  int limit;         // the largest count of smaller pixels that a median has
};

// A row of medians with a threshold: pixels that are no outliers get their own values back. Floats
// are keys but for the medians. `low` and `high` have the extremes of the window's columns, of
// count + (size - 1) * distance components, and are overwritten up to a vector beyond.
struct MedianOutliers {
  const void* values;
  void *low, *high;
  void* medians;
  size_t count, distance;  // components of the row, and of a pixel
  int size;                // pixels, of the window
  uint32_t threshold;      // as stored
};

struct MedianRows {
  // 3 x 3 medians of two rows, from the four rows they need, for components of 1 and 2 bytes and
  // floats. The neighbours of component i are i - distance and i + distance; `count` components,
  // and out[1] may be null.
  void (*three[3])(const void* const rows[4], size_t distance, size_t count, void* const out[2]);
  // Runs a program on a chunk of a row, for components of 1, 2 and 4 bytes.
  void (*network[3])(const MedianProgram& program, const uint8_t* plane, uint8_t* slots);
  void (*threshold)(const MedianThreshold& t);
  // Extremes of the columns of `rows` rows of `bytes` bytes, a multiple of kMedianMinChunk, whose
  // components have 1, 2 and 4.
  void (*columns[3])(const uint8_t* from, size_t pitch, int rows, size_t bytes, uint8_t* low,
                     uint8_t* high);
  void (*outliers[3])(const MedianOutliers& t);
  // Rows of pixels of 1, 2 or 4 bytes taken apart: pixel 4 i + j to part j. `pixels` is rounded up
  // to a multiple of kMedianChunk on both sides.
  void (*split4[3])(const uint8_t* from, int pixels, uint8_t* const* parts);
  void (*join4[3])(const uint8_t* const* parts, int pixels, uint8_t* to);
};
const MedianRows& median_rows();

}  // namespace vf::cpu
