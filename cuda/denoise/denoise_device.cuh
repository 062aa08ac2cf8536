// Reads and writes samples for the kernels of the denoiser.
#pragma once

#include "cuda/core/ptx_math.cuh"
#include "cuda/core/warp.cuh"
#include "cuda/denoise/denoise.h"

namespace vf::denoise {

__device__ __forceinline__ float reciprocal(float v) {
  return cuda::reciprocal_estimate(v);
}

}  // namespace vf::denoise

namespace vf::cuda {

__device__ __forceinline__ int low_half(uint32_t v) {
  return int(v & 0xffff);
}
__device__ __forceinline__ int high_half(uint32_t v) {
  return int(v >> 16);
}
__device__ __forceinline__ uint32_t pair_of(int low, int high) {
  return __byte_perm(uint32_t(low), uint32_t(high), 0x5410);
}

__device__ __forceinline__ const DenoiseJob& job_of(const Denoise& d) {
  return d.job[blockIdx.z];
}

// Returns a sample as 16 bits. Behind the right and lower edge, the last sample is repeated.
template <int kBytes>
__device__ __forceinline__ int sample_at(const Denoise& d, int c, int x, int y) {
  const DenoiseView& v = job_of(d).from[c];
  x = min(x, v.width - 1);
  y = min(y, v.height - 1);
  const uint8_t* at = v.data + (long long)y * v.stride + (long long)x * v.step * kBytes;
  if (kBytes == 1) return *at << 8;
  const int top = (1 << d.depth) - 1;
  return (*reinterpret_cast<const uint16_t*>(at) >> d.shift & top) << (16 - d.depth);
}

// Refers to a sample of the state. A plane has at most 2^31 samples, so `int` offsets are enough.
template <class T>
__device__ __forceinline__ T& state_at(const uint16_t* plane, int pitch, int x, int y) {
  return *reinterpret_cast<T*>(const_cast<uint16_t*>(plane) + (y * pitch + x));
}

// Repeats the first and the last of the `width` samples in a row of the state.
__device__ __forceinline__ void repeat_first(uint16_t* row) {
  const uint32_t pair = row[0] * 0x10001u;
  *reinterpret_cast<uint4*>(row - kDenoiseBorder) = make_uint4(pair, pair, pair, pair);
}
__device__ __forceinline__ void repeat_last(uint16_t* row, int width) {
  const uint16_t last = row[width - 1];
#pragma unroll
  for (int i = 0; i < kDenoiseBorder; i++) row[width + i] = last;
}
static_assert(kDenoiseBorder == 8);

template <int kBytes>
__device__ __forceinline__ void store_sample(const Denoise& d, int c, int x, int y, int code) {
  const DenoiseView& v = d.to[c];
  uint8_t* at = v.data + (long long)y * v.stride + (long long)x * v.step * kBytes;
  if (kBytes == 1)
    *at = uint8_t(code);
  else
    *reinterpret_cast<uint16_t*>(at) = uint16_t(code << d.shift);
}

}  // namespace vf::cuda
