// Copies that bypass the processor's caches.
#pragma once

#include <cstddef>

namespace vf::cpu {

// Copies as copy_rows() (queue.h) does, for rows that the GPU reads next. Cache lines that are
// modified are slow for the GPU to read, and slow to write again afterwards.
void stream_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                 size_t bytes, int rows);

}  // namespace vf::cpu
