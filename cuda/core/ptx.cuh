// Declares shared memory, and wraps PTX instructions that CUDA C++ lacks. Only this file and
// ptx_math.cuh have inline PTX, so that tests/emulation can replace both on a CPU.
//
// Below the compute capability of an instruction, functions use others if there are any. Otherwise
// (multiply, store_matrices) the caller checks __CUDA_ARCH__.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// VF_SHARED(uint32_t[2][32], name) declares a variable in the shared memory of a block.
// VF_DYNAMIC_SHARED declares an array of all dynamic shared memory that the launch asked for.
#define VF_SHARED(type, name) __shared__ ::vf::cuda::Same<type> name
#define VF_SHARED_ALIGNED(bytes, type, name) __shared__ __align__(bytes)::vf::cuda::Same<type> name
#define VF_DYNAMIC_SHARED(bytes, type, name) \
  extern __shared__ __align__(bytes)         \
  type name[]

#define VF_NOINLINE __noinline__

namespace vf::cuda {

template <class T>
using Same = T;

// ---- shared memory by address ------------------------------------------------------------------

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return uint32_t(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ uint32_t load32(uint32_t at) {
  uint32_t v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at));
  return v;
}
__device__ __forceinline__ uint2 load64(uint32_t at) {
  uint2 v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at));
  return v;
}
__device__ __forceinline__ uint4 load128(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}
__device__ __forceinline__ void store32(uint32_t at, uint32_t v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}
__device__ __forceinline__ void store64(uint32_t at, uint32_t a, uint32_t b) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void store128(uint32_t at, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

// Stores four 8 x 8 matrices of 16-bit elements from a warp's fragments. Lane l gives the address
// of row l % 8 of matrix l / 8. Word m of lane l holds columns 2 (l % 4) and 2 (l % 4) + 1 of row l
// / 4 of matrix m. It needs compute capability 9.0.
__device__ __forceinline__ void store_matrices(uint32_t at, const uint32_t (&v)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
               "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
#endif
}

// Loads such matrices, with the same addresses and words.
__device__ __forceinline__ void load_matrices(uint32_t at, uint32_t (&v)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(at)
               : "memory");
}

// ---- registers ---------------------------------------------------------------------------------

// Make the compiler keep a value in a register, where it would compute it again for each use.
__device__ __forceinline__ uint32_t kept(uint32_t v) {
  asm volatile("mov.b32 %0, %0;" : "+r"(v));
  return v;
}
__device__ __forceinline__ int64_t kept(int64_t v) {
  asm volatile("mov.b64 %0, %0;" : "+l"(v));
  return v;
}

// ---- copies from global to shared memory that arrive later -------------------------------------
// They need compute capability 8.0. Below it, they are done at once. A thread sees its own copies
// after it waited for them.

// Copies 16 bytes and bypasses L1.
__device__ __forceinline__ void copy_async(uint32_t to, const uint8_t* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
#else
  store128(to, *reinterpret_cast<const uint4*>(from));
#endif
}
// Copies the first `bytes` of 16 bytes and fills the rest with zeros. It needs capability 8.0.
__device__ __forceinline__ void copy_part_async(uint32_t to, const uint8_t* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
#endif
}
// Copies 16 bytes through L1.
__device__ __forceinline__ void copy_async(uint4* to, const uint4* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
#else
  *to = *from;
#endif
}
// Copies four bytes, or stores zeros if `take` is false.
__device__ __forceinline__ void copy_async(uint32_t* to, const uint8_t* from, bool take) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(take ? 4 : 0)
               : "memory");
#else
  *to = take ? *reinterpret_cast<const uint32_t*>(from) : 0;
#endif
}
// Brings the line of an address to L2. It returns no data, so the line may still be written to.
__device__ __forceinline__ void prefetch(const uint8_t* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}
// Makes a group of the copies since the last one.
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until all but the last `kPending` groups have arrived.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}
__device__ __forceinline__ void wait_all_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// ---- tensor cores ------------------------------------------------------------------------------

// Computes sums += a b, 16 x 8 x 16, from fp16 into float. It needs compute capability 8.0.
__device__ __forceinline__ void multiply(float (&sums)[4], const uint4& a, uint32_t b0,
                                         uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#endif
}

// Computes sums = first + a b, as the first product of a chain.
__device__ __forceinline__ void multiply_first(float (&sums)[4], const float (&first)[4],
                                               const uint4& a, uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %11, %12, %13};"
      : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "f"(first[0]), "f"(first[1]),
        "f"(first[2]), "f"(first[3]));
#endif
}

// Computes sums += a b, 16 x 8 x 32, from bytes into int. A word holds four bytes of a row of a or
// of a column of b. The bytes of b are unsigned.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define VF_MULTIPLY_BYTES(type)                                    \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." type                \
      ".u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, "                    \
      "%7}, {%8, %9}, {%0, %1, %2, %3};"                           \
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]) \
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))
#else
#define VF_MULTIPLY_QUARTER(type, row, from, by)                                             \
  asm("mma.sync.aligned.m8n8k16.row.col.s32." type ".u8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};" \
      : "+r"(sums[2 * (row)]), "+r"(sums[2 * (row) + 1])                                     \
      : "r"(from), "r"(by))
#define VF_MULTIPLY_BYTES(type)          \
  VF_MULTIPLY_QUARTER(type, 0, a.x, b0); \
  VF_MULTIPLY_QUARTER(type, 1, a.y, b0); \
  VF_MULTIPLY_QUARTER(type, 0, a.z, b1); \
  VF_MULTIPLY_QUARTER(type, 1, a.w, b1)
#endif
__device__ __forceinline__ void multiply_bytes(int (&sums)[4], const uint4& a, uint32_t b0,
                                               uint32_t b1) {
  VF_MULTIPLY_BYTES("u8");
}
// Computes the same product with signed bytes in a.
__device__ __forceinline__ void multiply_signed_bytes(int (&sums)[4], const uint4& a, uint32_t b0,
                                                      uint32_t b1) {
  VF_MULTIPLY_BYTES("s8");
}

// ---- arithmetic on a chosen pipe ---------------------------------------------------------------

// Computes max(a b + c, 0) for both halves of a word, rounded once.
__device__ __forceinline__ uint32_t half2_multiply_add_relu(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t v;
#if __CUDA_ARCH__ >= 800
  asm("fma.rn.relu.f16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
#else
  uint32_t negative;  // all ones in halves that are negative
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
  asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(negative) : "r"(v));
  v &= ~negative;
#endif
  return v;
}
__device__ __forceinline__ uint32_t half2_add(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("add.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
__device__ __forceinline__ uint32_t half2_subtract(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
// Computes a b + c as one instruction of the multiply pipe, whatever the factors are.
__device__ __forceinline__ uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t v;
  asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
  return v;
}
// Sets each byte to all ones if its upper bit is set, and to zero otherwise. The intrinsic
// __byte_perm() ignores the selector bit that asks for this.
__device__ __forceinline__ uint32_t repeat_signs(uint32_t bytes) {
  uint32_t v;
  asm("prmt.b32 %0, %1, 0, 0xba98;" : "=r"(v) : "r"(bytes));
  return v;
}

// Computes a value here. The compiler may otherwise compute it behind a wait that follows.
__device__ __forceinline__ void settle(uint32_t& v) {
  asm volatile("" : "+r"(v));
}
__device__ __forceinline__ void settle(int& v) {
  asm volatile("" : "+r"(v));
}
__device__ __forceinline__ void settle(float& v) {
  asm volatile("" : "+f"(v));
}
__device__ __forceinline__ void settle(int64_t& v) {
  asm volatile("" : "+l"(v));
}

// ---- programmatic dependent launch -------------------------------------------------------------
// These do nothing if the launch did not ask for it.

// Waits until the previous kernels are done and their writes are visible.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Ends a kernel that needs no result of the previous kernels and runs at the same time. With this
// call, a later kernel that waits for this one also waits for them.
__device__ __forceinline__ void end_after_previous() {
  if ((blockIdx.x | blockIdx.y | blockIdx.z | threadIdx.x) == 0) wait_for_previous();
}
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace vf::cuda
