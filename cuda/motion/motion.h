// Declares the kernels of dense motion and their data.
//
// A level of a pyramid lies in memory with a border, so that a patch outside of it is read like any
// other. Its edge samples are repeated kMotionBorder times or more before and behind each row.
// kMotionRowBorder rows above and below repeat the first and the last row. Rows start at multiples
// of 16 bytes.
#pragma once

#include <cstdint>

#include "filters/motion.h"
#include "filters/motion_math.h"

namespace vf::cuda {

constexpr int kMotionBorder = 16, kMotionRowBorder = 9;

struct MotionLevels {
  int width[motion::kLevels] = {}, height[motion::kLevels] = {}, pitch[motion::kLevels] = {};
  int at[motion::kLevels] = {};  // the first sample of a level in a pyramid
};

struct MotionRead {
  MotionPicture from[MotionPlan::kMostAtOnce];
  // True for planes of luma whose rows start at multiples of 8 samples.
  bool fast[MotionPlan::kMostAtOnce] = {};
  // For R, G and B in pixels of four bytes, in rows that start at multiples of four pixels: the
  // weights of a pixel's bytes in R + 2 G + B. Otherwise 0.
  uint32_t weights[MotionPlan::kMostAtOnce] = {};
  uint8_t* to = nullptr;  // the first picture's pyramid
  long long pyramid = 0;  // bytes
  int width = 0, height = 0;
  MotionLevels levels;
  bool prefetches = false;  // Thread blocks bring what they read of planes to L2 while they wait.
};

// A thread block makes a tile of the finest level and what belongs to it of the others. The grid
// has some rows of threads above and below the picture.
constexpr int kMotionReadGroup = 4;  // samples of the finest level for a thread, either way
constexpr int kMotionReadX = 64, kMotionReadY = 32;
constexpr int kMotionReadAbove = 4, kMotionReadBelow = 3;
constexpr int kMotionReadThreads =
    kMotionReadX * kMotionReadY / (kMotionReadGroup * kMotionReadGroup);
using MotionReadKernel = void (*)(MotionRead);
MotionReadKernel motion_read();

// Holds the vectors of a level's patches. Rows are `stride` bytes apart.
struct MotionField {
  char* data = nullptr;
  long long stride = 0;
};

struct MotionFind {
  struct Pair {
    const uint8_t *picture = nullptr, *before = nullptr;  // pyramids
    MotionField field;
    MotionField coarse;  // the vectors of level + 1, which motion_find_level() starts from
  };
  Pair pair[MotionPlan::kMostPairs];  // by blockIdx.z
  MotionLevels levels;
  int level = 0;      // the one whose vectors the launch writes
  MotionParts parts;  // parts of the finest level
};
using MotionFindKernel = void (*)(MotionFind);

// The kernel searches a level and all that are coarser. A thread block writes kMotionFindX x
// kMotionFindY vectors. `level` is 1 at least.
constexpr int kMotionFindX = 8, kMotionFindY = 9;
constexpr int kMotionFindThreads = 32 * 17;
MotionFindKernel motion_find_coarse();

// Searches one level, with one or four lanes for a patch. A warp takes patches of one row.
constexpr int kMotionLevelY = 4;  // rows of a thread block
constexpr int kMotionLevelThreads = 32 * kMotionLevelY;
MotionFindKernel motion_find_level(int lanes, bool is_finest, bool in_parts);

}  // namespace vf::cuda
