// Implements the half-precision conversions that the kernels use, rounded to nearest.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

struct alignas(2) __half {
  uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};

namespace vf::emulation {

inline double half_value(unsigned bits) {
  const unsigned exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double v;
  if (exponent == 31)
    v = mantissa ? double(NAN) : double(INFINITY);
  else if (exponent)
    v = bits_as<double>(uint64_t(exponent + 1008) << 52 | uint64_t(mantissa) << 42);
  else
    v = mantissa * 0x1p-24;
  return bits & 0x8000 ? -v : v;
}

// Returns the nearest half. `v` may be inexact, but it must lie on the same side as the exact value
// of every half and of every midpoint between two halves.
inline uint16_t half_bits(double v) {
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  const double a = std::fabs(v);
  if (a != a) return 0x7fff;
  if (a >= 65520) return sign | 0x7c00;
  if (a < 0x1p-14) return sign | uint16_t(a * 0x1p24 + 0x1p52 - 0x1p52);
  // Adds half of the last bit that stays, less one if that bit is even. A carry into the exponent
  // gives the right result.
  auto bits = bits_as<uint64_t>(a);
  bits += (uint64_t{1} << 41) - 1 + (bits >> 42 & 1);
  return sign | uint16_t((bits >> 42) - (uint64_t{1008} << 10));
}

// Returns a b + c, rounded once.
inline double half_multiply_add(unsigned a, unsigned b, unsigned c) {
  const double product = half_value(a) * half_value(b), addend = half_value(c);  // both are exact
  const double sum = product + addend, part = sum - product;
  const double lost = (product - (sum - part)) + (addend - part);
  // If bits were lost, an odd last bit keeps the second rounding from seeing a tie.
  if (lost == lost && lost != 0) {
    auto bits = bits_as<uint64_t>(sum);
    if (!(bits & 1)) {
      if ((lost < 0) != (sum < 0)) bits -= 1;
      bits |= 1;
    }
    return bits_as<double>(bits);
  }
  return sum;
}

}  // namespace vf::emulation

inline __half __float2half_rn(float v) {
  return {vf::emulation::half_bits(double(v))};
}
inline float __half2float(__half v) {
  return float(vf::emulation::half_value(v.bits));
}
inline unsigned short __half_as_ushort(__half v) {
  return v.bits;
}
inline __half __ushort_as_half(unsigned short bits) {
  return {bits};
}
inline __half2 __floats2half2_rn(float low, float high) {
  return {__float2half_rn(low), __float2half_rn(high)};
}
