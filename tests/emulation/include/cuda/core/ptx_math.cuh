// Implements the functions that cuda/core/ptx_math.cuh describes, for the emulation.
#pragma once

namespace vf::cuda {

inline float reciprocal_estimate(float v) {
  return 1 / v;
}

}  // namespace vf::cuda
