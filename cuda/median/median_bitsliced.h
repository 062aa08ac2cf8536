// The median's bit-sliced kernels as the build makes them (median_generate.cpp): arguments, and the
// table.
#pragma once

#include <cuda_runtime.h>

#include "cuda/median/median_types.h"

namespace vf::cuda::median {

constexpr int kBitslicedWarps = 8;  // of a block, 32 thresholds each

struct BitslicedArgs {
  const uint8_t* src;
  uint8_t* dst;
  uint4* planes;  // [channel][row][segment][word][2]: bits 0 to 3 and 4 to 7
  ptrdiff_t src_stride, dst_stride;
  size_t channel_words;  // of planes, in uint4
  int width, height, step, radius;
  int segments, columns;  // columns of the frame in a segment
  int rows;               // of planes: the first is frame row -radius - 1
  int strip;              // rows of the frame per block
  int turns;              // Size / Words
  int offset;             // makes the top bit of the window's count the comparison
  Border border;
  ChannelArgs channels;
};

// The kernels for a window and how to launch them.
struct BitslicedKernel {
  void (*planes)(BitslicedArgs) = nullptr;   // makes the bit planes
  void (*medians)(BitslicedArgs) = nullptr;  // from them
  int words = 0;                             // of a segment's row, one for each bit of a byte
  int window_bits = 0;                       // of a window's count and its offset
};

// Without functions where there is no kernel for that size.
BitslicedKernel find_bitsliced(int size);

}  // namespace vf::cuda::median
