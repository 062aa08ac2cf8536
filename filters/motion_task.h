// Holds what a backend gets for dense motion: checked parameters and all that follows from them.
#pragma once

#include "filters/color.h"
#include "filters/motion.h"

namespace vf {

struct MotionTask {
  MotionParams params;
};

// Returns the picture of a frame's luma (one part) or of its R, G and B (three).
MotionPicture picture_of(const Image& frame, const Component* part, int parts);

}  // namespace vf
