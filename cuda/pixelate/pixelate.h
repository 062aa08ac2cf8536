// Pixelation: the kinds of plans. Internal to the CUDA backend.
#pragma once

#include <memory>

#include "cuda/core/queue.h"
#include "filters/pixelate_task.h"

namespace vf::cuda {

// What a launch makes of two that leave sums in memory, or the only one.
enum class Step { all, sums, means };

// Makes a plan for strips of blocks (pixelate_strips.cu), which hands images that are not aligned
// to `other`. Gives `other` itself where blocks are too narrow, or too few.
void make_strip_pixelate(CudaQueue& queue, const PixelateTask& task, std::unique_ptr<Plan> other,
                         std::unique_ptr<Plan>* out);

}  // namespace vf::cuda
