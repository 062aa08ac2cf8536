// The Gaussian's kernels as gaussian.cu chooses among them. Internal to the CUDA backend.
#pragma once

#include "cuda/queue.h"
#include "filters/gaussian_task.h"

namespace vf::cuda {

// Which kernels a plan may take, from all of them to the simplest. Tests set it, so that kernels
// made for other devices and sizes run on any; nothing else does. Applies to plans made afterwards.
enum class GaussianKernels { all, two_pass, portable, plain };
extern GaussianKernels gaussian_kernels_for_tests;

// One plane of a source and a destination.
struct GaussianView {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
};

// A kernel made ready for one plane of a task. Planes may be run in any order.
class GaussianPass {
 public:
  virtual ~GaussianPass() = default;
  // Whether it can filter images of this alignment.
  virtual bool takes(const GaussianView&) const { return true; }
  // Whether source and destination may be the same.
  virtual bool in_place() const { return false; }
  // Not 0 where it can run at the same time as another pass that can. Those of the same kind are
  // alike in what their blocks hold and take: each can be given a share of the device.
  virtual int kind() const { return 0; }
  virtual void set_share(double) {}
  // `beside`: the launch before is of such another pass, and need not be waited for.
  virtual Status enqueue(CudaQueue& queue, const GaussianView& view, bool beside) = 0;
};

// Each leaves `out` empty where the plane is not one for this kernel.
//
// Tensor cores (compute capability 8.0 and later), u8 and u16, 16-byte aligned. In one pass, up to
// 65 or 129 taps an axis, by format:
Status make_gaussian_tensor(CudaQueue& queue, const GaussianTask& task, int plane,
                            std::unique_ptr<GaussianPass>* out);
// In two passes through device memory, which it keeps; any number of taps.
Status make_gaussian_long(CudaQueue& queue, const GaussianTask& task, int plane,
                          std::unique_ptr<GaussianPass>* out);
// One read and one write of any plane, while window and halo fit into shared memory.
Status make_gaussian_march(CudaQueue& queue, const GaussianTask& task, int plane,
                           std::unique_ptr<GaussianPass>* out);
// Two passes through device memory: any plane.
Status make_gaussian_plain(CudaQueue& queue, const GaussianTask& task, int plane,
                           std::unique_ptr<GaussianPass>* out);

}  // namespace vf::cuda
