// The contract of dense motion, as filters/motion.h states it: all backends give the same bits.
#pragma once

#include "tests/tolerance.h"

namespace vf::test {

inline Tolerance motion_contract() {
  return {0, 0, 1};
}

}  // namespace vf::test
