// Copies rows in order, so that the first rows can be used before the last ones are copied.
#pragma once

#include "filters/queue.h"

// The plugin calls these, so a shared library exports them.
#pragma GCC visibility push(default)

namespace vf {

// Makes a queue of the CPU backend for copies. It has as many threads as fill the memory's
// bandwidth, but at most one for each processor.
Status make_copy_queue(std::unique_ptr<Queue>* out);

// A callback that gets the number of rows that are copied so far, counted from the first. After an
// error it is not called again.
using RowsDone = Status (*)(void* context, int rows);

// Copies as copy_rows() of `queue`, a queue of the CPU backend. All rows are one job of its
// threads, because waking threads takes about as long as copying a megabyte. `done` is called on
// this thread each time that at least `step` bytes more are copied, and at the end. The copy
// bypasses the caches, because the GPU reads it next.
Status copy_rows_in_order(Queue& queue, void* dst, ptrdiff_t dst_stride, const void* src,
                          ptrdiff_t src_stride, size_t bytes, int rows, size_t step, RowsDone done,
                          void* context);

}  // namespace vf

#pragma GCC visibility pop
