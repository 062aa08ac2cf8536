// The median's networks as the build makes them (median_generate.cpp): arguments, and the table.
#pragma once

#include <cuda_runtime.h>

#include "cuda/median/median_types.h"

namespace vf::cuda::median {

struct NetworkArgs {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height, step;
  Border border;
  bool words;                           // src can be read in words of 32 bits
  bool vectors;                         // a tile's row of dst can be written at once
  bool overlaps;                        // the launch before, of another plane
  uint32_t keep;                        // rgba8: bits of a pixel that are copied
  uint32_t one;                         // 1
  ChannelArgs channels;                 // rgba8: border_value is the pixel
  uint32_t float_border[kMaxChannels];  // f32: instead of channels.border_value, as bits
};

// A network and how to launch it.
struct NetworkKernel {
  // On which GPUs: there is code for those alone.
  enum Runs { everywhere, where_shared, where_not_shared };

  void (*function)(NetworkArgs) = nullptr;
  int threads = 0, width = 0, height = 0;  // of a block; pixels of its tile
  int vector = 0;                          // pixels of a row that a thread writes
  size_t shared = 0;                       // dynamic shared memory, bytes
  Runs runs = everywhere;
};

// Whether threads share sorted columns in code for GPUs of that compute capability: where two
// blocks find room for them. By that of the code, as it may run on newer GPUs.
constexpr bool shares_columns(int capability) {
  return capability >= 90 && capability < 120;
}

// Without a function where no network of that kind was compiled, as others are faster. `shared`:
// one that shares columns.
NetworkKernel find_network(Format format, int size, bool shared);

}  // namespace vf::cuda::median
