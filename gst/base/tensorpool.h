// Makes pools of tensors in CUDA memory. Each buffer has one memory of the configured size and
// nothing else. GStreamer's own CUDA pool takes only video caps.
#pragma once

#include "gst/base/cudacompat.h"

namespace gstvf {

// Makes a pool, which holds a reference of `context`. It uses the stream in its configuration, if
// there is one.
GstBufferPool* tensor_pool_new(GstCudaContext* context);

}  // namespace gstvf
