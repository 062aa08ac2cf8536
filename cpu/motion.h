// The steps of dense motion on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "filters/motion.h"
#include "filters/motion_math.h"

namespace vf::cpu {

// Holds a vector of a level, in 1 / motion::kUnits of its samples.
struct LevelVector {
  int16_t x, y;
  uint16_t residual;
};

// Describes a search of one level.
struct MotionSearch {
  const uint8_t *picture = nullptr, *before = nullptr;  // levels of the pyramids, without padding
  int width = 0, height = 0, columns = 0;               // size of the level; patches in a row
  int starts = 0, steps = 0;                            // numbers per patch
  const LevelVector* coarse = nullptr;                  // the coarser level's vectors, or null
  int coarse_columns = 0, coarse_rows = 0;
  LevelVector* out = nullptr;
  char* field = nullptr;  // the finest level writes here instead of `out`
  ptrdiff_t stride = 0;
};

// Searches rows [j0, j1) of patches.
void motion_search_rows(const MotionSearch& search, int j0, int j1);

// Makes rows [y0, y1) of the finest level from a picture of width x height pixels. `scratch` has
// motion_row_scratch(width) bytes.
void motion_halve_rows(const MotionPicture& from, int width, int height, int y0, int y1,
                       uint8_t* to, char* scratch);
size_t motion_row_scratch(int width);

// Makes rows [y0, y1) of a coarser level from the level before, which has width x height samples.
void motion_mean_rows(const uint8_t* from, int width, int height, int y0, int y1, uint8_t* to);

}  // namespace vf::cpu
