// Declares the Gaussian's passes. gaussian.cpp chooses among them.
#pragma once

#include "cuda/core/plane_pass.h"
#include "filters/gaussian_task.h"

namespace vf::cuda {

// Each function leaves `out` empty if its kernel does not fit the plane.
//
// These two use tensor cores (compute capability 8.0 and newer) and take u8 and u16 images that are
// aligned to 16 bytes. The first makes one pass, with up to 65 or 129 taps by format.
Status make_gaussian_tensor(CudaQueue& queue, const GaussianTask& task, int plane,
                            std::unique_ptr<PlanePass>* out);
// The second makes two passes through device memory, with any number of taps.
Status make_gaussian_two_pass(CudaQueue& queue, const GaussianTask& task, int plane,
                              std::unique_ptr<PlanePass>* out);
// This one also uses tensor cores. It makes one launch for a frame of a plane of one channel and a
// plane of two (NV12, P010), with up to 33 taps.
Status make_gaussian_planes(CudaQueue& queue, const GaussianTask& task,
                            std::unique_ptr<FramePass>* out);
// Takes any plane whose window and halo fit into shared memory, and reads and writes it once.
Status make_gaussian_streaming(CudaQueue& queue, const GaussianTask& task, int plane,
                               std::unique_ptr<PlanePass>* out);
// Takes any plane, in two passes through device memory.
Status make_gaussian_fallback(CudaQueue& queue, const GaussianTask& task, int plane,
                              std::unique_ptr<PlanePass>* out);

template <class Pass>
Status make_gaussian_pass(CudaQueue& queue, const GaussianTask& task, int plane,
                          std::unique_ptr<PlanePass>* out) {
  auto pass = std::make_unique<Pass>();
  VF_TRY(pass->prepare(queue, task, plane));
  if (pass->fits()) *out = std::move(pass);
  return {};
}

// Makes a pass whose template argument is the component's type.
template <template <class> class Pass>
Status make_gaussian_pass_of_type(CudaQueue& queue, const GaussianTask& task, int plane,
                                  std::unique_ptr<PlanePass>* out) {
  const Type type = task.layout.type;
  if (type == Type::u8) return make_gaussian_pass<Pass<uint8_t>>(queue, task, plane, out);
  if (type == Type::u16) return make_gaussian_pass<Pass<uint16_t>>(queue, task, plane, out);
  if (type == Type::s16) return make_gaussian_pass<Pass<int16_t>>(queue, task, plane, out);
  if (type == Type::s32) return make_gaussian_pass<Pass<int32_t>>(queue, task, plane, out);
  return make_gaussian_pass<Pass<float>>(queue, task, plane, out);
}

}  // namespace vf::cuda
