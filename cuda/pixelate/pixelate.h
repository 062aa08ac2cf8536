// Declares what the kernel files of the pixelation share.
#pragma once

#include <memory>

#include "cuda/core/plane_pass.h"
#include "filters/pixelate_task.h"

namespace vf::cuda {

// The output of a launch: the means if it is the only one; otherwise the first of two launches
// leaves sums in memory, and the second one makes means of them.
enum class Step { all, sums, means };

// Makes the pass for strips of blocks and single blocks, or null if they are too narrow or few.
std::unique_ptr<FramePass> make_strips(CudaQueue& queue, const PixelateTask& task);

// Makes the pass for narrower blocks (pixelate_narrow.cu), or null if they are too wide or high.
std::unique_ptr<FramePass> make_narrow(const PixelateTask& task);

// Makes the pass for blocks inside of vectors (pixelate_inside.cu), or null if some are not.
std::unique_ptr<FramePass> make_inside(const PixelateTask& task);

}  // namespace vf::cuda
