// The Gaussian's passes, of which gaussian.cpp chooses. Internal to the CUDA backend.
#pragma once

#include "cuda/core/plane_pass.h"
#include "filters/gaussian_task.h"

namespace vf::cuda {

// Each leaves `out` empty where the plane is not one for this kernel.
//
// Tensor cores (compute capability 8.0 and later), u8 and u16, 16-byte aligned. In one pass, up to
// 65 or 129 taps an axis, by format:
Status make_gaussian_tensor(CudaQueue& queue, const GaussianTask& task, int plane,
                            std::unique_ptr<PlanePass>* out);
// In two passes through device memory; any number of taps.
Status make_gaussian_two_pass(CudaQueue& queue, const GaussianTask& task, int plane,
                              std::unique_ptr<PlanePass>* out);
// One read and one write of any plane, while window and halo fit into shared memory.
Status make_gaussian_streaming(CudaQueue& queue, const GaussianTask& task, int plane,
                               std::unique_ptr<PlanePass>* out);
// Two passes through device memory: any plane.
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

// A pass with the component's type as its template argument.
template <template <class> class Pass>
Status make_gaussian_pass_of_type(CudaQueue& queue, const GaussianTask& task, int plane,
                                  std::unique_ptr<PlanePass>* out) {
  switch (task.layout.type) {
    case Type::u8:
      return make_gaussian_pass<Pass<uint8_t>>(queue, task, plane, out);
    case Type::u16:
      return make_gaussian_pass<Pass<uint16_t>>(queue, task, plane, out);
    case Type::s16:
      return make_gaussian_pass<Pass<int16_t>>(queue, task, plane, out);
    case Type::s32:
      return make_gaussian_pass<Pass<int32_t>>(queue, task, plane, out);
    case Type::f32:
      return make_gaussian_pass<Pass<float>>(queue, task, plane, out);
  }
  return {};
}

}  // namespace vf::cuda
