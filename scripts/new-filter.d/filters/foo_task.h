// The checked parameters that a backend gets, and the arithmetic that the backends share.
#pragma once

#include <type_traits>

#include "filters/foo.h"

namespace vf {

// Holds the numbers that the backends compute with. The reference computes from the layout and from
// `strength`.
struct FooScale {
  float strength = 0;  // for each of the nine samples of the window: strength / 9
  float highest = 0;   // largest code of an integer component
  int shift = 0;       // unused low bits of an integer component
};

struct FooTask {
  Layout layout;
  Placement placement = Placement::separate;
  double strength = 0;
  FooScale scale;
  uint8_t channels[kMaxPlanes] = {};  // bit c set: channel c is filtered, else copied
};

// The result for a sample and the sum of its window, all as stored.
template <class T>
constexpr T foo_sample(const FooScale& s, float sample, float sum) {
  const float value = sample + s.strength * (9 * sample - sum);
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    const float code = value / float(1 << s.shift) + 0.5f;
    return T(unsigned(code < 0 ? 0 : code > s.highest ? s.highest : code) << s.shift);
  }
}

}  // namespace vf
