// What the median's kernels and the passes that launch them share. Most of these kernels are made
// by the build, and compile in half the time without the passes' headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "filters/border.h"
#include "filters/image.h"

namespace vf::cuda::median {

// rgba8: all four channels of 8-bit pixels, step 4.
enum class Format : int { u8, u16, f32, rgba8 };

// Channels as kernel arguments, found by blockIdx.z without an array: byte z is the number of the
// channel, 16-bit word z its border value (for pixels of 8 or 16 bits).
struct ChannelArgs {
  uint32_t index;
  uint64_t border_value;
};

}  // namespace vf::cuda::median
