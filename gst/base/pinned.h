// Allocates pinned host memory for GStreamer's buffers: the GPU can copy from and to it by itself,
// while the host goes on. For everyone else it is ordinary memory.
#pragma once

#include "gst/base/cudacompat.h"

namespace gstvf {

// Makes an allocator of pinned memory for pools. When no more memory can be pinned, it gives
// ordinary memory, so ask is_pinned() for each. Pinning takes a millisecond and waits for the GPU,
// so the allocator keeps some freed memory. Any thread may use it. It holds a reference of
// `context`, but any device may copy the memory.
GstAllocator* pinned_allocator_new(GstCudaContext* context);

bool is_pinned(GstMemory* memory);

}  // namespace gstvf
