// The pixelation's contract, as filters/pixelate.h states it: the same on every backend, bit for
// bit.
#pragma once

#include "tests/tolerance.h"

namespace vf::test {

inline Tolerance pixelate_contract() {
  return {};
}

}  // namespace vf::test
