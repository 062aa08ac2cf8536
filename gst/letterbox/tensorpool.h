// A pool of tensors in CUDA memory: each buffer is one memory of the configured size and nothing
// else. GStreamer's own CUDA pool takes video caps only.
#pragma once

#include "gst/base/cudacompat.h"

namespace gstvf {

// Holds a reference of `context`. Uses the stream in its configuration, if there is one.
GstBufferPool* tensor_pool_new(GstCudaContext* context);

}  // namespace gstvf
