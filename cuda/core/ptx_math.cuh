// Wraps arithmetic instructions that CUDA C++ lacks. tests/emulation has its own version of this
// file, as of cuda/core/ptx.cuh.
#pragma once

#include <cstdint>

namespace vf::cuda {

// Adds four products of signed bytes and unsigned ones.
__device__ __forceinline__ int dp4a_mixed(int signed_bytes, uint32_t bytes, int sum) {
  int r;
  asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(signed_bytes), "r"(bytes), "r"(sum));
  return r;
}

// Returns 1 / v with an error of at most one unit in the last place. Subnormal inputs and results
// count as zero.
__device__ __forceinline__ float reciprocal_estimate(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

}  // namespace vf::cuda
