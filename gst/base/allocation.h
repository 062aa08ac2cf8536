// Answers ALLOCATION queries: chooses the pools of incoming and of outgoing frames.
//
// On the CUDA backend, pools of system memory allocate pinned memory (pinned.h) unless the query
// names an allocator.
#pragma once

#include "gst/base/cudacontext.h"
#include "gst/base/format.h"
#include "gst/base/gstcudavideofilter.h"

namespace gstvf {

// Holds what the choice of a pool depends on. Only the streaming thread uses it and the functions
// below.
struct PoolNeeds {
  GstElement* element;  // posts the messages
  CudaContextHolder& cuda;
  bool on_cuda;        // the CUDA backend filters
  size_t frames_held;  // frames in flight besides the one being filtered
};

// Offers upstream a pool for the caps of the query if it has none yet, and GstVideoMeta. Returns
// false if the caps are not video.
bool propose_pool(const PoolNeeds& needs, GstQuery* query);

// Asks upstream for `frames` buffers more than the answer to the query does, because so many frames
// wait here. Drops a pool that may not have so many. 0 changes nothing.
void add_frames(GstQuery* query, guint frames);

// Returns how many buffers downstream asked for in a query that decide_pool() has answered.
guint frames_behind(const PoolNeeds& needs, GstQuery* query);

// Chooses the pool for frames or tensors of `out`, for the caps in the query: downstream's pool if
// it suits, else a new one. With CUDA caps and the CUDA backend it also chooses the stream:
// downstream's if its pool has one. No frame may be in flight then.
//
// If the caps need a context and there is none, finds one on `device` (-1: any). Returns false,
// after posting an error message, if no pool of CUDA memory can be made.
bool decide_pool(const PoolNeeds& needs, const Format& out, int device, GstQuery* query);

}  // namespace gstvf
