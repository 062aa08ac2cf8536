// Implements the functions that cuda/core/ptx.cuh describes, for the emulation.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#define VF_SHARED_ALIGNED(bytes, type, name)               \
  auto& name = *reinterpret_cast<::vf::cuda::Same<type>*>( \
      ::vf::emulation::shared_variable(sizeof(::vf::cuda::Same<type>), bytes))
#define VF_SHARED(type, name) VF_SHARED_ALIGNED(alignof(::vf::cuda::Same<type>), type, name)
#define VF_DYNAMIC_SHARED(bytes, type, name) \
  auto* const name = reinterpret_cast<type*>(::vf::emulation::dynamic_shared())
#define VF_NOINLINE __attribute__((noinline))

namespace vf::cuda {

template <class T>
using Same = T;

// ---- shared memory by address ------------------------------------------------------------------

inline uint32_t shared_address(const void* p) {
  return emulation::shared_address(p);
}

template <class T>
inline T& shared_at(uint32_t address) {
  return *reinterpret_cast<T*>(emulation::shared_pointer(address));
}
inline uint32_t load32(uint32_t at) {
  return shared_at<uint32_t>(at);
}
inline uint2 load64(uint32_t at) {
  return shared_at<uint2>(at);
}
inline uint4 load128(uint32_t at) {
  return shared_at<uint4>(at);
}
inline void store32(uint32_t at, uint32_t v) {
  shared_at<uint32_t>(at) = v;
}
inline void store64(uint32_t at, uint32_t a, uint32_t b) {
  shared_at<uint2>(at) = {a, b};
}
inline void store128(uint32_t at, uint4 v) {
  shared_at<uint4>(at) = v;
}

struct StoreMatrices : emulation::Exchange {
  uint32_t at;
  uint32_t words[4];
};
inline void store_matrices(uint32_t at, const uint32_t (&v)[4]) {
  StoreMatrices e{};
  e.kind = emulation::Exchange::Kind::store_matrices;
  e.mask = ~0u;
  e.at = at;
  for (int m = 0; m < 4; m++) e.words[m] = v[m];
  e.compute = [](emulation::Exchange* const* of) {
    emulation::require_all(of);
    for (int m = 0; m < 4; m++)
      for (int lane = 0; lane < 32; lane++) {
        const uint32_t row = static_cast<const StoreMatrices*>(of[8 * m + lane / 4])->at;
        store32(row + 4 * (lane % 4), static_cast<const StoreMatrices*>(of[lane])->words[m]);
      }
  };
  emulation::exchange(e);
}

struct LoadMatrices : emulation::Exchange {
  uint32_t at;
  uint32_t* words;
};
inline void load_matrices(uint32_t at, uint32_t (&v)[4]) {
  LoadMatrices e{};
  e.kind = emulation::Exchange::Kind::load_matrices;
  e.mask = ~0u;
  e.at = at;
  e.words = v;
  e.compute = [](emulation::Exchange* const* of) {
    emulation::require_all(of);
    for (int m = 0; m < 4; m++)
      for (int lane = 0; lane < 32; lane++) {
        const uint32_t row = static_cast<const LoadMatrices*>(of[8 * m + lane / 4])->at;
        static_cast<LoadMatrices*>(of[lane])->words[m] = load32(row + 4 * (lane % 4));
      }
  };
  emulation::exchange(e);
}

// ---- copies from global to shared memory that arrive later -------------------------------------

template <class T>
T kept(T v) {
  return v;
}

inline void copy_async(uint32_t to, const uint8_t* from) {
  emulation::copy_later(&shared_at<uint4>(to), reinterpret_cast<const uint4*>(from), 16, 0);
}
inline void copy_part_async(uint32_t to, const uint8_t* from, int bytes) {
  emulation::copy_later(&shared_at<uint4>(to), reinterpret_cast<const uint4*>(from), bytes,
                        16 - bytes);
}
inline void copy_async(uint4* to, const uint4* from) {
  emulation::copy_later(to, from, 16, 0);
}
inline void copy_async(uint32_t* to, const uint8_t* from, bool take) {
  emulation::copy_later(to, from, take ? 4 : 0, take ? 0 : 4);
}
inline void prefetch(const uint8_t*) {}
inline void commit_copies() {
  emulation::commit_copies();
}
template <int kPending>
inline void wait_copies() {
  emulation::wait_copies(kPending);
}
inline void wait_all_copies() {
  emulation::wait_copies(-1);
}

// ---- tensor cores ------------------------------------------------------------------------------
// Lane l = 4 g + t holds these values.
//   a (16 x 16): columns 2 t and 2 t + 1 of rows g and g + 8, then the same 8 columns to the right.
//   b (16 x 8): rows 2 t and 2 t + 1 of column g, then the same 8 rows down.
//   sums (16 x 8): columns 2 t and 2 t + 1 of rows g and g + 8.
//
// The emulation adds the products and the previous sum in double and rounds once. A device adds in
// its own order and cuts off bits below the largest term, so the last bits differ.

inline void multiply_first(float (&sums)[4], const float (&first)[4], const uint4& a, uint32_t b0,
                           uint32_t b1) {
  emulation::Multiply e{};
  e.kind = emulation::Exchange::Kind::multiply;
  e.mask = ~0u;
  e.first = first;
  e.sums = sums;
  e.a[0] = a.x, e.a[1] = a.y, e.a[2] = a.z, e.a[3] = a.w;
  e.b[0] = b0, e.b[1] = b1;
  e.compute = emulation::multiply_matrices;
  emulation::exchange(e);
}
inline void multiply(float (&sums)[4], const uint4& a, uint32_t b0, uint32_t b1) {
  multiply_first(sums, sums, a, b0, b1);
}

// The layout is the same with bytes, four in a word, and twice as many columns of a and rows of b.
inline void multiply_bytes_with(bool is_signed, int (&sums)[4], const uint4& a, uint32_t b0,
                                uint32_t b1) {
  emulation::MultiplyBytes e{};
  e.kind = emulation::Exchange::Kind::multiply_bytes;
  e.mask = ~0u;
  e.is_signed = is_signed;
  e.sums = sums;
  e.a[0] = a.x, e.a[1] = a.y, e.a[2] = a.z, e.a[3] = a.w;
  e.b[0] = b0, e.b[1] = b1;
  e.compute = emulation::multiply_byte_matrices;
  emulation::exchange(e);
}
inline void multiply_bytes(int (&sums)[4], const uint4& a, uint32_t b0, uint32_t b1) {
  multiply_bytes_with(false, sums, a, b0, b1);
}
inline void multiply_signed_bytes(int (&sums)[4], const uint4& a, uint32_t b0, uint32_t b1) {
  multiply_bytes_with(true, sums, a, b0, b1);
}

// ---- arithmetic on a chosen pipe ---------------------------------------------------------------

template <class Half>
inline uint32_t each_half(Half of) {
  return of(0) | uint32_t(of(16)) << 16;
}
inline uint32_t half2_multiply_add_relu(uint32_t a, uint32_t b, uint32_t c) {
  return each_half([&](int i) -> uint16_t {
    const double v =
        emulation::half_multiply_add(a >> i & 0xffff, b >> i & 0xffff, c >> i & 0xffff);
    return emulation::half_bits(v > 0 || v != v ? v : 0.);
  });
}
inline uint32_t half2_add(uint32_t a, uint32_t b) {
  return each_half([&](int i) {
    return emulation::half_bits(emulation::half_value(a >> i & 0xffff) +
                                emulation::half_value(b >> i & 0xffff));
  });
}
inline uint32_t half2_subtract(uint32_t a, uint32_t b) {
  return half2_add(a, b ^ 0x80008000u);
}
inline uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c) {
  return a * b + c;
}
inline uint32_t repeat_signs(uint32_t bytes) {
  return (bytes >> 7 & 0x01010101u) * 0xffu;
}
template <class T>
void settle(T&) {}

// ---- programmatic dependent launch: kernels run one after another ------------------------------

inline void wait_for_previous() {}
inline void end_after_previous() {}
inline void let_next_start() {}

}  // namespace vf::cuda
