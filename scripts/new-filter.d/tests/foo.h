// The contract of filters/foo.h: integers differ from the reference by at most one code, and rarely.
#pragma once

#include "tests/tolerance.h"

namespace vf::test {

inline Tolerance foo_contract() {
  return {1, 1e-5, 0.99};
}

}  // namespace vf::test
