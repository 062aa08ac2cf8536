// Makes plans of passes. Kernels include only plane_pass.h, without std::function: it takes time.
#pragma once

#include <functional>
#include <memory>

#include "cuda/core/plane_pass.h"
#include "filters/plan.h"

namespace vf::cuda {

// Makes a plan of the passes that `choose` finds for each plane of the layout. They filter the
// frames that `frame` (may be null) does not take.
Status make_plane_plan(CudaQueue& queue, const Layout& layout, Placement placement,
                       const std::function<Status(int plane, PlanePasses*)>& choose,
                       std::unique_ptr<Plan>* out, std::unique_ptr<FramePass> frame = nullptr);

}  // namespace vf::cuda
