#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/stream.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "cpu/stream.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void StreamRow(uint8_t* dst, const uint8_t* src, size_t bytes) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  // Stores of whole vectors must be aligned.
  i = std::min(bytes, size_t(-reinterpret_cast<uintptr_t>(dst)) % lanes);
  std::memcpy(dst, src, i);
  for (; i + lanes <= bytes; i += lanes) hn::Stream(hn::LoadU(d, src + i), d, dst + i);
#endif
  std::memcpy(dst + i, src + i, bytes - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(StreamRow);

void stream_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                 size_t bytes, int rows) {
  auto* d = static_cast<uint8_t*>(dst);
  auto* s = static_cast<const uint8_t*>(src);
  const auto row = HWY_DYNAMIC_DISPATCH(StreamRow);
  for (int y = 0; y < rows; y++) row(d + y * dst_stride, s + y * src_stride, bytes);
  // Makes the rows visible before anybody is told of them.
  hwy::FlushStream();
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
