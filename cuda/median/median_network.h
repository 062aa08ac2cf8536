// The arguments of the median's networks, and the table that median_generate.cpp makes of them.
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
  bool overlaps;                        // the previous launch, of another plane
  bool pairs;                           // both channels of a pixel are filtered at once
  bool outliers;                        // other pixels keep their values
  uint32_t threshold;                   // outliers differ by more
  uint32_t keep;                        // rgba8: bits of a pixel that are copied
  uint32_t one;                         // 1
  ChannelArgs channels;                 // rgba8: border_value is the pixel
  uint32_t float_border[kMaxChannels];  // f32: replaces channels.border_value
};

// A network and how to launch it.
struct NetworkKernel {
  // The GPUs for which there is code.
  enum Runs { everywhere, where_shared, where_not_shared };

  void (*function)(NetworkArgs) = nullptr;
  int threads = 0, width = 0, height = 0;  // threads of a block, pixels of its tile
  int vector = 0;                          // pixels of a row that a thread writes
  size_t shared = 0;                       // dynamic shared memory, bytes
  Runs runs = everywhere;
  bool is_long = false;   // has no pairs and no early start
  bool compares = false;  // has a threshold
};

// Returns whether threads share sorted columns in code for that compute capability: those GPUs have
// shared memory for two blocks. The capability is that of the code, which may run on newer GPUs.
constexpr bool shares_columns(int capability) {
  return capability >= 90 && capability < 120;
}

// Returns the network of a kind, or one whose function is null if the build has none because others
// are faster. `shared` selects networks that share columns.
NetworkKernel find_network(Format format, int size, bool shared);

}  // namespace vf::cuda::median
