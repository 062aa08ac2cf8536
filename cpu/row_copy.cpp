#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/row_copy.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/queue.h"
#include "filters/row_copy.h"

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
namespace vf {
namespace cpu {

HWY_EXPORT(StreamRow);

// Copies as copy_rows() (queue.h) does, and bypasses the caches. Cache lines that are modified are
// slow for the GPU to read, and slow to write again afterwards.
static void stream_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                        size_t bytes, int rows) {
  auto* d = static_cast<uint8_t*>(dst);
  auto* s = static_cast<const uint8_t*>(src);
  const auto row = HWY_DYNAMIC_DISPATCH(StreamRow);
  for (int y = 0; y < rows; y++) row(d + y * dst_stride, s + y * src_stride, bytes);
  // Makes the rows visible before anybody is told of them.
  hwy::FlushStream();
}

}  // namespace cpu

Status make_copy_queue(std::unique_ptr<Queue>* out) {
  QueueOptions options;
  options.threads = std::min(cpu::usable_processors(), 8);
  return make_queue(options, out);
}

Status copy_rows_in_order(Queue& queue, void* dst, ptrdiff_t dst_stride, const void* src,
                          ptrdiff_t src_stride, size_t bytes, int rows, size_t step, RowsDone done,
                          void* context) {
  if (queue.backend() != Backend::cpu)
    return Status::error(Code::unsupported, "the %s backend has no threads to copy rows",
                         name_of(queue.backend()));
  if (rows <= 0) return {};
  auto& threads = static_cast<cpu::CpuQueue&>(queue);
  // Pieces are so small that all threads end at about the same time. Each piece has a bit.
  constexpr size_t piece_bytes = 128 << 10;
  constexpr int max_pieces = 64;
  const size_t row = std::max<size_t>(bytes, 1);
  const size_t fit = row * size_t(rows) < cpu::kWorthSharing ? size_t(rows) : piece_bytes / row;
  const int piece = std::max({1, int(std::min(fit, size_t(rows))), blocks_of(rows, max_pieces)});
  const int pieces = blocks_of(rows, piece);
  auto* const s = static_cast<const char*>(src);
  auto* const d = static_cast<char*>(dst);

  std::atomic<uint64_t> copied{0};
  int told = 0;
  Status status;
  const auto tell = [&](bool all) {
    const uint64_t missing = ~copied.load(std::memory_order_acquire);
    const int there = std::min(rows, (missing ? __builtin_ctzll(missing) : max_pieces) * piece);
    if (!status.ok() || there == told || (!all && row * size_t(there - told) < step)) return;
    told = there;
    status = done(context, there);
  };
  threads.parallel(pieces, [&](int task, int thread) {
    const int first = task * piece;
    cpu::stream_rows(d + first * dst_stride, dst_stride, s + first * src_stride, src_stride, bytes,
                     std::min(piece, rows - first));
    copied.fetch_or(uint64_t{1} << task, std::memory_order_release);
    if (thread == 0) tell(false);
  });
  tell(true);
  return status;
}

}  // namespace vf
#endif  // HWY_ONCE
