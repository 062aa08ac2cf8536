// Copies of rows whose beginning can be used before their end is there.
#pragma once

#include "filters/queue.h"

// The plugin calls these, so a shared library exports them.
#pragma GCC visibility push(default)

namespace vf {

// A queue of the CPU backend for copies: as many threads as fill the memory's bandwidth, one for
// each processor at the most. A copy by more threads is over sooner, and takes as much of their
// time.
Status make_copy_queue(std::unique_ptr<Queue>* out);

// Called with the number of rows that are there: the first of them. Its error ends the copy's
// calls.
using RowsDone = Status (*)(void* context, int rows);

// As copy_rows() of `queue`, which is one of the CPU backend. Its threads copy the rows in their
// order, as one job: to wake threads takes about as long as to copy a megabyte. Calls `done` on
// this thread now and then, with at least `step` bytes more each time, and at the end with all
// rows. The copy goes past the caches: it is for the GPU.
Status copy_rows_in_order(Queue& queue, void* dst, ptrdiff_t dst_stride, const void* src,
                          ptrdiff_t src_stride, size_t bytes, int rows, size_t step, RowsDone done,
                          void* context);

}  // namespace vf

#pragma GCC visibility pop
