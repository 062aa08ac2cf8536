// Filters that treat each plane by itself (Gaussian, median) choose and run kernels by passes.
//
// A pass is one kernel or a few in a row, with all arguments except the image. When a plan is made,
// the filter lists passes for each plane in order of preference. For each frame, the plan runs the
// first pass that takes the image's alignment, and sets only pointers and strides.
#pragma once

#include <memory>
#include <vector>

#include "cuda/core/queue.h"
#include "filters/image.h"

namespace vf::cuda {

// Holds one plane of a source and of a destination. Strides are in bytes.
struct PlaneView {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
};

inline bool is_aligned(const void* p, ptrdiff_t stride, unsigned bytes) {
  return (reinterpret_cast<uintptr_t>(p) | uintptr_t(stride)) % bytes == 0;
}
inline bool is_aligned(const PlaneView& v, unsigned bytes) {
  return is_aligned(v.src, v.src_stride, bytes) && is_aligned(v.dst, v.dst_stride, bytes);
}

inline PlaneView view_of(const Image& src, const Image& dst, int plane) {
  return {static_cast<const uint8_t*>(src.data[plane]), static_cast<uint8_t*>(dst.data[plane]),
          src.stride[plane], dst.stride[plane]};
}

// Tells whether all planes of both images are aligned.
inline bool are_aligned(const Image& src, const Image& dst, unsigned bytes) {
  for (int i = 0; i < src.layout.planes; i++)
    if (!is_aligned(view_of(src, dst, i), bytes)) return false;
  return true;
}

// Returns a kernel's arguments with the image of `view` set.
template <class Args>
Args with_view(const Args& args, const PlaneView& view) {
  Args a = args;
  a.src = view.src;
  a.dst = view.dst;
  a.src_stride = decltype(a.src_stride)(view.src_stride);
  a.dst_stride = decltype(a.dst_stride)(view.dst_stride);
  return a;
}

// Kernels that are made ready for one plane of a task. Planes may run in any order.
class PlanePass {
 public:
  virtual ~PlanePass() = default;
  // Tells whether the pass can filter images of this alignment.
  virtual bool takes(const PlaneView&) const { return true; }
  // Tells whether source and destination may be the same.
  virtual bool in_place() const { return false; }
  // Tells whether the pass also copies the channels that are not filtered.
  virtual bool copies_channels() const { return true; }
  // Tells whether the pass also does the work of PlanePasses::after.
  virtual bool is_complete() const { return false; }
  // Bytes of device memory that the pass needs while it runs, which all passes of a plan share.
  virtual size_t scratch_bytes() const { return 0; }
  virtual void set_scratch(void*) {}
  // 0 if the pass cannot run at the same time as another. Passes of one class use the same
  // resources per block and take equally long, so each can get a fraction of the device.
  virtual int concurrency_class() const { return 0; }
  virtual void set_grid_fraction(double) {}
  // Tells whether the plane had better come after those whose passes do not say so.
  virtual bool comes_last() const { return false; }
  // `overlaps_previous` is true if the previous launch is another plane's pass that may run at the
  // same time. The kernel then does not wait for it.
  virtual Status enqueue(CudaQueue& queue, const PlaneView& view, bool overlaps_previous) = 0;
};

// The passes of one plane.
struct PlanePasses {
  uint8_t channels = 0;  // bit c set: channel c is filtered, else copied
  // The last pass takes every image. Without passes the plane is copied.
  std::vector<std::unique_ptr<PlanePass>> passes;
  // These passes run in turn after the chosen pass and read the same source. They do what that pass
  // leaves out, such as the frame's edges. They are skipped if the chosen pass is complete.
  std::vector<std::unique_ptr<PlanePass>> after;
};

// Filters all planes of a frame in one launch, for the frames of a plan that it takes.
class FramePass {
 public:
  virtual ~FramePass() = default;
  // Tells whether it can filter images of this alignment.
  virtual bool takes(const Image& src, const Image& dst) const { return are_aligned(src, dst, 16); }
  // Source and destination may be the same.
  virtual Status enqueue(CudaQueue& queue, const Image& src, const Image& dst) = 0;
};

}  // namespace vf::cuda
