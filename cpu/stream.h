// Copies past the processor's caches.
#pragma once

#include <cstddef>

namespace vf::cpu {

// As copy_rows() (queue.h), for rows that the GPU reads next: lines that are modified in a cache
// are slow for it to read, and then slow to write again.
void stream_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                 size_t bytes, int rows);

}  // namespace vf::cpu
