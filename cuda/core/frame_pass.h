// Declares passes that filter all planes of a frame in one launch.
#pragma once

#include "cuda/core/queue.h"
#include "filters/image.h"

namespace vf::cuda {

// When a plan is made, a pass gets all of its arguments but the images. A plan of passes
// (plane_plan.h) runs the frame pass for each frame that it takes, and the passes of each plane for
// other frames.
class FramePass {
 public:
  virtual ~FramePass() = default;
  // Tells whether it can filter images of this alignment.
  virtual bool takes(const Image& src, const Image& dst) const = 0;
  // Source and destination may be the same.
  virtual Status enqueue(CudaQueue& queue, const Image& src, const Image& dst) = 0;
};

}  // namespace vf::cuda
