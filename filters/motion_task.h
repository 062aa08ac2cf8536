// A motion plan with everything derived and checked, as backends take it.
#pragma once

#include "filters/motion.h"

namespace vf {

struct MotionTask {
  MotionParams params;
};

}  // namespace vf
