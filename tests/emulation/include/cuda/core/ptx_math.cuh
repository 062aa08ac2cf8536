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

}  // namespace vf::cuda
