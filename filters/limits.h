// Defines limits of parameters. They stand beside the field, and both the elements' properties and
// the library's checks use them.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "filters/status.h"

namespace vf {

template <class T>
struct Limits {
  T min, max;
  // A further condition on the value, and the words that follow "it must be" in its message.
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
  const char* rule = limits.must_be ? limits.must_be : "";
  const double min = double(limits.min), max = double(limits.max);
  char range[64] = "";
  if (max < DBL_MAX)
    snprintf(range, sizeof range, "%.10g to %.10g", min, max);
  else if (!*rule)
    snprintf(range, sizeof range, "%.10g or more", min);
  if (std::strstr(rule, " to ")) *range = 0;  // the rule names the range itself
  return Status::invalid("%s is %.10g, but it must be %s%s%s", name, double(value), rule,
                         *rule && *range ? ", " : "", range);
}

}  // namespace vf
