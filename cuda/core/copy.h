// Copies within device memory by kernels. For a plane of a frame, cudaMemcpy2DAsync takes twice as
// long on an H200.
#pragma once

#include "cuda/core/plane_pass.h"

namespace vf::cuda {

// Enqueues a copy of `rows` rows of `bytes` each.
Status copy_rows(CudaQueue& queue, const PlaneView& view, size_t bytes, int rows);

// Tells whether copy_frame() takes frames of this alignment.
bool can_copy_frame(const Image& src, const Image& dst);

// Enqueues a copy of a frame, in one launch that lets the next one start at once. A kernel that
// starts early behind it may read the source before it waits, as what wrote the source is done.
Status copy_frame(CudaQueue& queue, const Image& src, const Image& dst);

// Enqueues a copy of the channels of `mask`, for every pixel of a plane. Copies whole rows where
// the result is the same.
Status copy_channels(CudaQueue& queue, const Layout& layout, int plane, uint8_t mask,
                     const PlaneView& view);

}  // namespace vf::cuda
