// Implements cuda/core/ptx_math.cuh for the emulation. That file describes each function.
#pragma once

namespace vf::cuda {

inline float reciprocal_estimate(float v) {
  return 1 / v;
}

}  // namespace vf::cuda
