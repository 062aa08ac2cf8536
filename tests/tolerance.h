// Defines the allowed difference of a result from the double-precision reference. Each filter has
// one contract in tests/STEM.h, which the kernel tests, the element tests and the benchmarks share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace vf::test {

struct Tolerance {
  double absolute = 0;  // code values (integers) or value (f32)
  double relative = 0;  // f32: times the frame's largest magnitude
  // Minimum share of values that equal the reference, 0 to 1. It holds for frames of at least
  // kShareFrom values. Below ten times as many values, one more value may differ, because chance
  // weighs more there.
  double equal = 0;
  // A few values may differ by so much more than the above: one in a thousand, and at least one.
  double few = 0;

  static constexpr size_t kShareFrom = 100;
  // Smaller frames may exceed the share by chance: by up to three standard deviations.
  static constexpr size_t kExactFrom = 1000;

  static bool is_few(size_t values, size_t of) { return values <= std::max<size_t>(1, of / 1000); }
  bool enough_equal(size_t equals, size_t of) const {
    if (of < kShareFrom) return true;
    const double share = (1 - equal) * double(of);
    return double(of - equals) <= share + (of < kExactFrom ? 3 * std::sqrt(share) : 0);
  }
};

}  // namespace vf::test
