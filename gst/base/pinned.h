// Pinned host memory for GStreamer's buffers: memory that the GPU copies from and to by itself,
// while the host goes on. It is ordinary memory to everyone else.
#pragma once

#include "gst/base/cudacompat.h"

namespace gstvf {

// An allocator of pinned memory, to be given to pools. Where no more memory can be pinned it gives
// ordinary memory, so ask is_pinned() of each. It keeps some freed memory, since pinning takes
// a millisecond and waits for the GPU; any thread may use it. Holds a reference of `context`, whose
// device need not be the one that copies.
GstAllocator* pinned_allocator_new(GstCudaContext* context);

bool is_pinned(GstMemory* memory);

}  // namespace gstvf
