// Answers to ALLOCATION queries: the pools for frames that come and that leave.
//
// On CUDA, pools of system memory have pinned memory (pinned.h), unless an allocator was named.
#pragma once

#include "gst/base/cudacontext.h"
#include "gst/base/format.h"

namespace gstvf {

// What the pools of an element depend on. For the streaming thread, as the functions below.
struct PoolNeeds {
  GstElement* element;  // whose messages they are
  CudaContextHolder& cuda;
  bool on_cuda;        // the backend
  size_t frames_held;  // more than the one that is filtered
};

// Offers upstream a pool for the caps of the query, if it has none yet, and GstVideoMeta. False
// where the caps are not video.
bool propose_pool(const PoolNeeds& needs, GstQuery* query);

// Chooses the pool for frames or tensors of `out`, whose caps the query has: downstream's if it
// suits, else a new one. With caps of CUDA memory on the CUDA backend, chooses the stream too:
// downstream's if its pool has one. No frame may be in flight then. Finds a context on `device`
// (-1: any) if the caps need one and there is none. False, after an error message, where there is
// no pool for CUDA memory.
bool decide_pool(const PoolNeeds& needs, const Format& out, int device, GstQuery* query);

}  // namespace gstvf
