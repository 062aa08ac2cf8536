// Arithmetic that CUDA C++ has no words for. As cuda/core/ptx.cuh: tests/emulation has its own
// version.
#pragma once

namespace vf::cuda {

// 1 / v, off by at most one unit in the last place; numbers too small for their exponent are zero.
__device__ __forceinline__ float reciprocal_estimate(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

}  // namespace vf::cuda
