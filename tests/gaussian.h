// The Gaussian's contract, as filters/gaussian.h states it.
#pragma once

#include "filters/image.h"
#include "tests/tolerance.h"

namespace vf::test {

inline Tolerance gaussian_contract(Type type) {
  Tolerance t;
  if (type == Type::f32) {
    t.relative = 1e-5;
    // The error is relative to the summed values, which are up to 3, and their sum may be 0.
    t.absolute = 1e-6;
  } else {
    t.absolute = 1;
    if (type == Type::u8) t.equal = 0.99;
  }
  return t;
}

}  // namespace vf::test
