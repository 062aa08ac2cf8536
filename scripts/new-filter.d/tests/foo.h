// The contract of filters/foo.h. Integers differ from the reference by at most one code, where the
// exact result lies between two codes.
#pragma once

#include "filters/image.h"
#include "tests/tolerance.h"

namespace vf::test {

inline Tolerance foo_contract(Type type) {
  Tolerance t;
  if (type == Type::f32) {
    t.relative = 1e-6;
  } else {
    t.absolute = 1;
    t.equal = 0.95;
  }
  return t;
}

}  // namespace vf::test
