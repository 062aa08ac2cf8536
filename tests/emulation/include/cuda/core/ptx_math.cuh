// Implements the functions that cuda/core/ptx_math.cuh describes, for the emulation.
#pragma once

#include <cstdint>

namespace vf::cuda {

inline int dp4a_mixed(int signed_bytes, uint32_t bytes, int sum) {
  for (int shift = 0; shift < 32; shift += 8)
    sum += int8_t(signed_bytes >> shift) * int(uint8_t(bytes >> shift));
  return sum;
}

inline float reciprocal_estimate(float v) {
  return 1 / v;
}

inline int dp2a_lo(uint32_t a, int b, int sum) {
  return sum + int(a & 0xffff) * int8_t(b) + int(a >> 16) * int8_t(b >> 8);
}
inline int dp2a_hi(uint32_t a, int b, int sum) {
  return dp2a_lo(a, b >> 16, sum);
}

inline uint8_t* moved_by(uint8_t* at, int rows, int stride) {
  return at + int64_t(rows) * stride;
}

inline int clamp_to(int v, int top) {
  return v < 0 ? 0 : v > top ? top : v;
}

}  // namespace vf::cuda
