// Converts components between their stored types and the types that kernels compute with.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "filters/image.h"

namespace vf::cuda {

// 32-bit integers have more bits than a float.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, int32_t>, double, float>;

// Rounds `v` to the nearest component. `shift` low bits of a u16 stay zero. `code` is 2^-shift.
template <class T, class Acc>
__device__ T to_component(Acc v, int shift, float code) {
  if constexpr (std::is_same_v<T, float>) {
    return v;
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return __double2int_rn(v);
  } else if constexpr (std::is_same_v<T, uint16_t>) {
    return T(min(__float2uint_rn(v * code), 0xffffu >> shift) << shift);
  } else {
    constexpr int low = std::is_signed_v<T> ? -(1 << (8 * sizeof(T) - 1)) : 0;
    constexpr int high = low + (1 << (8 * sizeof(T))) - 1;
    return T(min(max(__float2int_rn(v), low), high));
  }
}

// Converts a code value to a component as stored, on the host.
template <class T>
T component_of(double code, int shift) {
  if constexpr (std::is_same_v<T, float>) {
    return T(code);
  } else {
    const double high = std::floor(double(std::numeric_limits<T>::max()) / (1 << shift));
    const double low = double(std::numeric_limits<T>::min());
    const double whole = std::nearbyint(std::isnan(code) ? 0 : code);
    return T(int64_t(std::min(high, std::max(low, whole))) << shift);
  }
}

}  // namespace vf::cuda
