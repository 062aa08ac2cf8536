// Declares what the kernel files of the pixelation share.
#pragma once

#include <memory>

#include "cuda/core/frame_pass.h"
#include "filters/pixelate_task.h"

namespace vf::cuda {

// The output of a launch: the means if it is the only one; otherwise the first of two launches
// leaves sums in memory, and the second one makes means of them.
enum class Step { all, sums, means };

// Makes the pass for strips of blocks and for single blocks (pixelate_strips.cu). Returns null if
// blocks are too narrow, or too few.
std::unique_ptr<FramePass> make_strips(CudaQueue& queue, const PixelateTask& task);

// Makes the pass for blocks that are too narrow for strips (pixelate_narrow.cu). Returns null if
// blocks are too wide or too high.
std::unique_ptr<FramePass> make_narrow(const PixelateTask& task);

// Makes the pass for blocks that lie inside of vectors (pixelate_inside.cu). Returns null if some
// do not.
std::unique_ptr<FramePass> make_inside(const PixelateTask& task);

}  // namespace vf::cuda
