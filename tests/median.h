// The median's contract, as filters/median.h states it: a value of the window, bit for bit.
#pragma once

#include "tests/tolerance.h"

namespace vf::test {

inline Tolerance median_contract() {
  return {};
}

}  // namespace vf::test
