// Types that the median's kernels share with the passes that launch them. The build generates most
// of these kernels, and without the passes' headers they compile in half the time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "filters/border.h"
#include "filters/image.h"

namespace vf::cuda::median {

// rgba8 stands for all four channels of 8-bit pixels with step 4.
enum class Format : int { u8, u16, f32, rgba8 };

// Channels as kernel arguments. Byte blockIdx.z of `index` is the number of the channel, and that
// 16-bit word of `border_value` its border value.
struct ChannelArgs {
  uint32_t index;
  uint64_t border_value;
};

}  // namespace vf::cuda::median
