// How filters that treat each plane by itself (Gaussian, median) choose kernels and run them.
//
// When a plan is made, the filter lists passes for each plane, in order of preference; a pass is a
// kernel, or a few in a row, with all of its arguments but the image. For a frame, the first pass
// that takes the image's alignment is run, and only pointers and strides are set.
#pragma once

#include <memory>
#include <vector>

#include "cuda/core/queue.h"
#include "filters/image.h"

namespace vf::cuda {

// One plane of a source and a destination; strides in bytes.
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

// A kernel's arguments with the image of `view`.
template <class Args>
Args with_view(const Args& args, const PlaneView& view) {
  Args a = args;
  a.src = view.src;
  a.dst = view.dst;
  a.src_stride = decltype(a.src_stride)(view.src_stride);
  a.dst_stride = decltype(a.dst_stride)(view.dst_stride);
  return a;
}

// Kernels made ready for one plane of a task. Planes may be run in any order.
class PlanePass {
 public:
  virtual ~PlanePass() = default;
  // Whether it can filter images of this alignment.
  virtual bool takes(const PlaneView&) const { return true; }
  // Whether source and destination may be the same.
  virtual bool in_place() const { return false; }
  // Whether it also copies the channels that are not filtered.
  virtual bool copies_channels() const { return true; }
  // Whether it does the work of PlanePasses::after too.
  virtual bool is_complete() const { return false; }
  // Device memory that it needs while it runs. All passes of a plan share it.
  virtual size_t scratch_bytes() const { return 0; }
  virtual void set_scratch(void*) {}
  // Not 0 where it can run at the same time as another pass that can. Passes of one class hold the
  // same resources per block and take as long: each can be given a fraction of the device.
  virtual int concurrency_class() const { return 0; }
  virtual void set_grid_fraction(double) {}
  // `overlaps_previous`: the launch before is of such another pass, and need not be waited for.
  virtual Status enqueue(CudaQueue& queue, const PlaneView& view, bool overlaps_previous) = 0;
};

// What a filter does with one plane.
struct PlanePasses {
  uint8_t channels = 0;  // bit c set: channel c is filtered, else copied
  // Of which the last takes every image. None: the plane is copied.
  std::vector<std::unique_ptr<PlanePass>> passes;
  // Run in turn after the chosen pass, from the same source: what that leaves to be done, at the
  // frame's edges for one. Not if that is complete.
  std::vector<std::unique_ptr<PlanePass>> after;
};

}  // namespace vf::cuda
