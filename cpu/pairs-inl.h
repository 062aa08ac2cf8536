// Multiplies pairs of 16-bit integers. This file is compiled once for each instruction set.
#if defined(VF_CPU_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VF_CPU_PAIRS_INL_H_
#undef VF_CPU_PAIRS_INL_H_
#else
#define VF_CPU_PAIRS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

// Returns sum + a0 b0 + a1 b1 in each 32-bit lane.
template <class V16, class V32>
HWY_INLINE V32 MulPairs(V16 a, V16 b, V32 sum) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::DFromV<V32> d32;
#if HWY_ARCH_X86
  // "Reorder" allows other pairs, but on x86 the pairs are neighbours, and the second sum does not
  // change.
  V32 unused = hn::Zero(d32);
  return hn::ReorderWidenMulAccumulate(d32, a, b, sum, unused);
#elif HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
  const int32x4_t low = vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw));
  return hn::Add(sum, V32(vpaddq_s32(low, vmull_high_s16(a.raw, b.raw))));
#else
  const V32 a32 = hn::BitCast(d32, a), b32 = hn::BitCast(d32, b);
  const auto low = [](V32 v) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  sum = hn::Add(sum, hn::Mul(low(a32), low(b32)));
  return hn::Add(sum, hn::Mul(hn::ShiftRight<16>(a32), hn::ShiftRight<16>(b32)));
#endif
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
