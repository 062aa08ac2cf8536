// Declares passes that filter all planes of a frame in one launch.
#pragma once

#include "cuda/core/queue.h"
#include "filters/image.h"

namespace vf::cuda {

// A pass has all of its arguments but the images when a plan is made. A plan of passes
// (plane_plan.h) runs it for each frame that it takes, and the passes of each plane for the others.
class FramePass {
 public:
  virtual ~FramePass() = default;
  // Whether it can filter images of this alignment.
  virtual bool takes(const Image& src, const Image& dst) const = 0;
  // Source and destination may be the same.
  virtual Status enqueue(CudaQueue& queue, const Image& src, const Image& dst) = 0;
};

}  // namespace vf::cuda
