#include "filters/row_copy.h"

#include <algorithm>
#include <atomic>

#include "cpu/queue.h"

#include <immintrin.h>
#include <cstdlib>
#include <cstring>
int g_nt = getenv("VF_NT") ? atoi(getenv("VF_NT")) : 0;
static void nt16(char* d, const char* s, size_t n) {
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    const __m128i a = _mm_loadu_si128((const __m128i*)(s + i)), b = _mm_loadu_si128((const __m128i*)(s + i + 16)),
                  c = _mm_loadu_si128((const __m128i*)(s + i + 32)), e = _mm_loadu_si128((const __m128i*)(s + i + 48));
    _mm_stream_si128((__m128i*)(d + i), a);
    _mm_stream_si128((__m128i*)(d + i + 16), b);
    _mm_stream_si128((__m128i*)(d + i + 32), c);
    _mm_stream_si128((__m128i*)(d + i + 48), e);
  }
  memcpy(d + i, s + i, n - i);
}
__attribute__((target("avx2"))) static void nt32(char* d, const char* s, size_t n) {
  size_t i = 0;
  for (; i + 128 <= n; i += 128) {
    _mm_prefetch(s + i + 1024, _MM_HINT_NTA);
    _mm_prefetch(s + i + 1088, _MM_HINT_NTA);
    const __m256i a = _mm256_loadu_si256((const __m256i*)(s + i)), b = _mm256_loadu_si256((const __m256i*)(s + i + 32)),
                  c = _mm256_loadu_si256((const __m256i*)(s + i + 64)), e = _mm256_loadu_si256((const __m256i*)(s + i + 96));
    _mm256_stream_si256((__m256i*)(d + i), a);
    _mm256_stream_si256((__m256i*)(d + i + 32), b);
    _mm256_stream_si256((__m256i*)(d + i + 64), c);
    _mm256_stream_si256((__m256i*)(d + i + 96), e);
  }
  memcpy(d + i, s + i, n - i);
}
static void copy_scratch(char* d, ptrdiff_t ds, const char* s, ptrdiff_t ss, size_t bytes, int rows) {
  if (ds == ss && ds == ptrdiff_t(bytes)) bytes *= size_t(rows), rows = 1;
  for (int y = 0; y < rows; y++) (g_nt == 1 ? nt16 : nt32)(d + y * ds, s + y * ss, bytes);
  _mm_sfence();
}
namespace vf {

Status make_copy_queue(std::unique_ptr<Queue>* out) {
  QueueOptions options;
  options.threads = std::clamp(cpu::usable_processors() / 2, 1, 8);
  if (const char* t = getenv("VF_COPY_THREADS"); t && *t) options.threads = atoi(t);
  if (const char* t = getenv("VF_NT"); t && *t) g_nt = atoi(t);
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
  // Small enough that all threads end at about the same time; each piece has a bit.
  constexpr size_t piece_bytes = 128 << 10;
  constexpr int most_pieces = 64;
  const size_t row = std::max<size_t>(bytes, 1);
  const size_t fit = row * size_t(rows) < cpu::kWorthSharing ? size_t(rows) : piece_bytes / row;
  const int piece =
      std::max({1, int(std::min(fit, size_t(rows))), (rows + most_pieces - 1) / most_pieces});
  const int pieces = (rows + piece - 1) / piece;
  auto* const s = static_cast<const char*>(src);
  auto* const d = static_cast<char*>(dst);

  std::atomic<uint64_t> copied{0};
  int told = 0;
  Status status;
  const auto tell = [&](bool all) {
    const uint64_t missing = ~copied.load(std::memory_order_acquire);
    const int there = std::min(rows, (missing ? __builtin_ctzll(missing) : most_pieces) * piece);
    if (!status.ok() || there == told || (!all && row * size_t(there - told) < step)) return;
    told = there;
    status = done(context, there);
  };
  threads.parallel(pieces, [&](int task, int thread) {
    const int first = task * piece;
    if (g_nt) copy_scratch(d + first * dst_stride, dst_stride, s + first * src_stride, src_stride, bytes, std::min(piece, rows - first)); else
    cpu::copy_rows(d + first * dst_stride, dst_stride, s + first * src_stride, src_stride, bytes,
                   std::min(piece, rows - first));
    copied.fetch_or(uint64_t{1} << task, std::memory_order_release);
    if (thread == 0) tell(false);
  });
  tell(true);
  return status;
}

}  // namespace vf
