// Wraps arithmetic instructions that CUDA C++ lacks. tests/emulation has its own version.
#pragma once

#include <cstdint>

namespace vf::cuda {

// Adds four products of signed bytes and unsigned ones.
__device__ __forceinline__ int dp4a_mixed(int signed_bytes, uint32_t bytes, int sum) {
  int r;
  asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(signed_bytes), "r"(bytes), "r"(sum));
  return r;
}

// Returns 1 / v to one unit in the last place. Subnormal inputs and results count as zero.
__device__ __forceinline__ float reciprocal_estimate(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

// Adds the products of two unsigned 16-bit values and the lower, or upper, signed bytes of `b`.
__device__ __forceinline__ int dp2a_lo(uint32_t a, int b, int sum) {
  int r;
  asm("dp2a.lo.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sum));
  return r;
}
__device__ __forceinline__ int dp2a_hi(uint32_t a, int b, int sum) {
  int r;
  asm("dp2a.hi.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sum));
  return r;
}

// Returns `at` moved by `rows` times `stride` bytes, with one instruction.
__device__ __forceinline__ uint8_t* moved_by(uint8_t* at, int rows, int stride) {
  uint8_t* r;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(r) : "r"(rows), "r"(stride), "l"(at));
  return r;
}

// Limits a value to 0 to `top`.
__device__ __forceinline__ int clamp_to(int v, int top) {
#if __CUDA_ARCH__ >= 900
  return __vimin_s32_relu(v, top);
#else
  return min(max(v, 0), top);
#endif
}

}  // namespace vf::cuda
