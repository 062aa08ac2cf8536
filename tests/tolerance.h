// What a result may differ from the double-precision reference by. Each filter has one contract, in
// tests/STEM.h: the kernel tests, the element tests and the benchmarks hold it to the same.
#pragma once

#include <cstddef>

namespace vf::test {

struct Tolerance {
  double absolute = 0;  // code values (integers) or value (f32)
  double relative = 0;  // f32: times the frame's largest magnitude
  // Least share of values that equal the reference, 0 to 1. A filter that promises it ("at most 1
  // code value off, at least 99 % exact") promises it for frames of kShareFrom values and more; of
  // fewer than ten times as many one value more may differ, as chance weighs more there.
  double equal = 0;
  static constexpr size_t kShareFrom = 100;

  bool enough_equal(size_t equals, size_t of) const {
    if (of < kShareFrom) return true;
    const double allowed = (1 - equal) * double(of) + (of < 10 * kShareFrom && equal < 1 ? 1 : 0);
    return double(of - equals) <= allowed;
  }
};

}  // namespace vf::test
