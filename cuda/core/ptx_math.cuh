// Wraps arithmetic instructions that CUDA C++ lacks. tests/emulation has its own version of this
// file, as of cuda/core/ptx.cuh.
#pragma once

namespace vf::cuda {

// Returns 1 / v with an error of at most one unit in the last place. Subnormal inputs and results
// count as zero.
__device__ __forceinline__ float reciprocal_estimate(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

}  // namespace vf::cuda
