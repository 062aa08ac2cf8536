// Lets a C++ compiler compile CUDA C++: it has the language's additions, built-in functions and
// typed calls that the kernels use. Threads are fibers (tests/emulation/threads.h).
//
// Arithmetic is the host's. Float and double are rounded to nearest without contraction, where nvcc
// may fuse multiply-adds. Functions that are approximate on a device (__fdividef) are exact here.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include "tests/emulation/lock.h"
#include "tests/emulation/threads.h"

#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)

// ---- variables ---------------------------------------------------------------------------------

inline uchar2 make_uchar2(unsigned char x, unsigned char y) {
  return {x, y};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// ---- bits --------------------------------------------------------------------------------------

namespace vf::emulation {
template <class To, class From>
inline To bits_as(From v) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  std::memcpy(&to, &v, sizeof to);
  return to;
}
}  // namespace vf::emulation

inline unsigned __float_as_uint(float v) {
  return vf::emulation::bits_as<unsigned>(v);
}
inline int __float_as_int(float v) {
  return vf::emulation::bits_as<int>(v);
}
inline float __uint_as_float(unsigned v) {
  return vf::emulation::bits_as<float>(v);
}
inline float __int_as_float(int v) {
  return vf::emulation::bits_as<float>(v);
}
inline int __popc(unsigned v) {
  return __builtin_popcount(v);
}
inline int __clz(unsigned v) {
  return v ? __builtin_clz(v) : 32;
}
inline int __ffs(unsigned v) {
  return __builtin_ffs(int(v));
}
inline int __clzll(long long v) {
  return v ? __builtin_clzll((unsigned long long)(v)) : 64;
}
inline int __ffsll(long long v) {
  return __builtin_ffsll(v);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return unsigned(uint64_t(a) * b >> 32);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  unsigned v = 0;
  for (int i = 0; i < 4; i++)
    v |= unsigned(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return v;
}
inline unsigned __vminu2(unsigned a, unsigned b) {
  const unsigned low = (a & 0xffff) < (b & 0xffff) ? a & 0xffff : b & 0xffff;
  const unsigned high = (a >> 16) < (b >> 16) ? a >> 16 : b >> 16;
  return high << 16 | low;
}
inline unsigned __vmaxu2(unsigned a, unsigned b) {
  const unsigned low = (a & 0xffff) > (b & 0xffff) ? a & 0xffff : b & 0xffff;
  const unsigned high = (a >> 16) > (b >> 16) ? a >> 16 : b >> 16;
  return high << 16 | low;
}
inline int __dp4a(int a, int b, int c) {
  for (int shift = 0; shift < 32; shift += 8)
    c += int(int8_t(a >> shift)) * int(int8_t(b >> shift));
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 0xff) * (b >> i & 0xff);
  return c;
}
inline unsigned __vabsdiffu4(unsigned a, unsigned b) {
  unsigned all = 0;
  for (int i = 0; i < 32; i += 8) {
    const int difference = int(a >> i & 0xff) - int(b >> i & 0xff);
    all |= unsigned(difference < 0 ? -difference : difference) << i;
  }
  return all;
}
inline unsigned __vsadu4(unsigned a, unsigned b) {
  unsigned sum = 0;
  for (int i = 0; i < 32; i += 8) {
    const int difference = int(a >> i & 0xff) - int(b >> i & 0xff);
    sum += unsigned(difference < 0 ? -difference : difference);
  }
  return sum;
}
// Adds to c the products of two 16-bit values with the two lower, or upper, bytes of b.
inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
  return c + (a & 0xffff) * (b & 0xff) + (a >> 16) * (b >> 8 & 0xff);
}
inline int __dp2a_lo(int a, int b, int c) {
  return c + int16_t(a) * int8_t(b) + int16_t(a >> 16) * int8_t(b >> 8);
}
inline int __dp2a_hi(int a, int b, int c) {
  return __dp2a_lo(a, b >> 16, c);
}
inline unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) {
  return __dp2a_lo(a, b >> 16, c);
}

// ---- arithmetic --------------------------------------------------------------------------------

inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a > b ? a : b;
}
inline unsigned min(unsigned a, unsigned b) {
  return a < b ? a : b;
}
inline unsigned max(unsigned a, unsigned b) {
  return a > b ? a : b;
}
inline unsigned min(int a, unsigned b) {
  return min(unsigned(a), b);
}
inline unsigned max(int a, unsigned b) {
  return max(unsigned(a), b);
}
inline unsigned min(unsigned a, int b) {
  return min(a, unsigned(b));
}
inline unsigned max(unsigned a, int b) {
  return max(a, unsigned(b));
}
inline long long min(long long a, long long b) {
  return a < b ? a : b;
}
inline long long max(long long a, long long b) {
  return a > b ? a : b;
}

inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
// Adds with rounding down. The exact sum of two floats is the rounded sum plus the rounding error.
inline float __fadd_rd(float a, float b) {
  const float sum = a + b, part = sum - a;
  const float lost = (a - (sum - part)) + (b - part);
  return lost < 0 ? std::nextafter(sum, -INFINITY) : sum;
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __expf(float v) {
  return expf(v);
}
inline float __logf(float v) {
  return logf(v);
}
inline float __saturatef(float v) {
  return v > 0 ? v < 1 ? v : 1.f : 0.f;
}  // NaN gives 0

// Conversions clamp to the integer's range and turn NaN into 0.
inline int __double2int_rn(double v) {
  if (v != v) return 0;
  const double whole = std::nearbyint(v);
  return whole <= -2147483648.0 ? INT32_MIN : whole >= 2147483647.0 ? INT32_MAX : int(whole);
}
inline int __float2int_rn(float v) {
  return __double2int_rn(double(v));
}
inline unsigned __float2uint_rn(float v) {
  if (!(v > 0)) return 0;
  const float whole = std::nearbyint(v);
  return whole >= 4294967296.f ? UINT32_MAX : unsigned(whole);
}

// ---- memory ------------------------------------------------------------------------------------
// The emulation has no caches.

template <class T>
inline T __ldg(const T* p) {
  return *p;
}
template <class T>
inline T __ldcg(const T* p) {
  return *p;
}
template <class T>
inline T __ldcs(const T* p) {
  return *p;
}
template <class T>
inline void __stcs(T* p, T v) {
  *p = v;
}

// Threads switch only at barriers and collectives, so plain accesses are atomic.
template <class T>
inline T atomicAdd(T* p, std::common_type_t<T> v) {
  const T old = *p;
  *p = old + v;
  return old;
}

// ---- threads -----------------------------------------------------------------------------------

inline void __syncthreads() {
  vf::emulation::barrier();
}
// Blocks run one after another, so one flag serves all blocks.
inline int __syncthreads_or(int predicate) {
  static thread_local bool any = false;
  any = any || predicate;
  vf::emulation::barrier();
  const int result = any;
  vf::emulation::barrier();
  any = false;
  vf::emulation::barrier();
  return result;
}

namespace vf::emulation {

// Each lane gets the value of lane source(its number, argument), or keeps its own if there is no
// such lane.
template <class Source>
void shuffle_values(Exchange* const* of, Source source) {
  uint64_t values[32] = {};
  for (int lane = 0; lane < 32; lane++)
    if (of[lane]) values[lane] = of[lane]->value;
  for (int lane = 0; lane < 32; lane++) {
    if (!of[lane]) continue;
    const int from = source(lane, of[lane]->argument);
    if (from < 0 || from > 31) continue;
    if (!of[from]) refuse_lane(*of[lane], from);
    of[lane]->value = values[from];
  }
}

template <class T, class Compute>
T shuffle(Exchange::Kind kind, unsigned mask, T value, int argument, Compute compute) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
  Exchange e{kind, mask, compute};
  std::memcpy(&e.value, &value, sizeof value);
  e.argument = argument;
  exchange(e);
  std::memcpy(&value, &e.value, sizeof value);
  return value;
}

inline unsigned combine(Exchange::Kind kind, unsigned mask, unsigned value,
                        void (*compute)(Exchange* const*)) {
  Exchange e{kind, mask, compute};
  e.value = value;
  exchange(e);
  return unsigned(e.value);
}

}  // namespace vf::emulation

inline void __syncwarp(unsigned mask = ~0u) {
  vf::emulation::Exchange e{vf::emulation::Exchange::Kind::syncwarp, mask,
                            [](vf::emulation::Exchange* const*) {}};
  vf::emulation::exchange(e);
}
template <class T>
inline T __shfl_sync(unsigned mask, T value, int lane) {
  using namespace vf::emulation;
  return shuffle(Exchange::Kind::shuffle, mask, value, lane, [](Exchange* const* of) {
    shuffle_values(of, [](int, int from) { return from & 31; });
  });
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  using namespace vf::emulation;
  return shuffle(Exchange::Kind::shuffle_up, mask, value, int(by), [](Exchange* const* of) {
    shuffle_values(of, [](int lane, int d) { return lane - d; });
  });
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  using namespace vf::emulation;
  return shuffle(Exchange::Kind::shuffle_down, mask, value, int(by), [](Exchange* const* of) {
    shuffle_values(of, [](int lane, int d) { return lane + d; });
  });
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int with) {
  using namespace vf::emulation;
  return shuffle(Exchange::Kind::shuffle_xor, mask, value, with, [](Exchange* const* of) {
    shuffle_values(of, [](int lane, int m) { return lane ^ m; });
  });
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  using namespace vf::emulation;
  return combine(Exchange::Kind::ballot, mask, predicate != 0, [](Exchange* const* of) {
    uint64_t all = 0;
    for (int lane = 0; lane < 32; lane++)
      if (of[lane]) all |= of[lane]->value << lane;
    for (int lane = 0; lane < 32; lane++)
      if (of[lane]) of[lane]->value = all;
  });
}
inline int __reduce_add_sync(unsigned mask, int value) {
  using namespace vf::emulation;
  return int(combine(Exchange::Kind::reduce_add, mask, unsigned(value), [](Exchange* const* of) {
    uint64_t all = 0;
    for (int lane = 0; lane < 32; lane++)
      if (of[lane]) all += of[lane]->value;
    for (int lane = 0; lane < 32; lane++)
      if (of[lane]) of[lane]->value = uint32_t(all);
  }));
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
  using namespace vf::emulation;
  return combine(Exchange::Kind::reduce_xor, mask, value, [](Exchange* const* of) {
    uint64_t all = 0;
    for (int lane = 0; lane < 32; lane++)
      if (of[lane]) all ^= of[lane]->value;
    for (int lane = 0; lane < 32; lane++)
      if (of[lane]) of[lane]->value = all;
  });
}

// ---- launches ----------------------------------------------------------------------------------

namespace vf::emulation {
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> body);
cudaError_t occupancy(int* blocks, const void* kernel, int threads, size_t shared);
}  // namespace vf::emulation

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const vf::emulation::Lock lock;  // allocations inside are the emulation's, not the caller's
  std::tuple<std::decay_t<Parameters>...> all(std::forward<Arguments>(arguments)...);
  return vf::emulation::launch(*config, reinterpret_cast<const void*>(kernel),
                               [kernel, all] { std::apply(kernel, all); });
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          void (*kernel)(Parameters...),
                                                          int threads, size_t shared) {
  return vf::emulation::occupancy(blocks, reinterpret_cast<const void*>(kernel), threads, shared);
}
