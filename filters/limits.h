// Limits of parameters. They stand beside the field, and both the elements' properties and the
// library's checks use them.
#pragma once

#include <cmath>

#include "filters/status.h"

namespace vf {

template <class T>
struct Limits {
  T min, max;
  // A further condition on the value, and the words that follow "must be" in its message.
  bool (*rule)(T) = nullptr;
  const char* must_be = nullptr;

  // Refuses NaN too.
  constexpr bool allow(T value) const {
    return value >= min && value <= max && (!rule || rule(value));
  }
};

constexpr bool is_odd(int v) {
  return v % 2 != 0;
}
constexpr bool is_zero_or_odd(int v) {
  return v == 0 || v % 2 != 0;
}
constexpr bool is_minus_one_or_more(double v) {
  return v == -1 || v >= 0;
}
inline bool is_finite_and_not_zero(double v) {
  return std::isfinite(v) && v != 0;
}
inline bool is_finite(double v) {
  return std::isfinite(v);
}

// Refuses a value outside of the limits of a parameter.
template <class T>
Status check_limits(const char* name, T value, const Limits<T>& limits) {
  if (limits.allow(value)) return {};
  if (limits.must_be)
    return Status::error(Code::invalid_argument, "%s is %g: must be %s", name, double(value),
                         limits.must_be);
  return Status::error(Code::invalid_argument, "%s is %g: must be %g to %g", name, double(value),
                       double(limits.min), double(limits.max));
}

}  // namespace vf
