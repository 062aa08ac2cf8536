// Chooses the kernels of the Gaussian for each plane.
#include "cuda/gaussian/gaussian.h"

#include "cuda/core/plane_plan.h"

namespace vf::cuda {
namespace {

Status choose(CudaQueue& queue, const GaussianTask& task, int plane, PlanePasses* out) {
  if (task.plane[plane].copies()) return {};
  out->channels = task.plane[plane].channels;
  const auto add = [&](auto make) {
    std::unique_ptr<PlanePass> pass;
    VF_TRY(make(queue, task, plane, &pass));
    if (pass) out->passes.push_back(std::move(pass));
    return Status();
  };
  // Lists the fastest pass for the plane, and one for images that are not aligned.
  VF_TRY(add(make_gaussian_tensor));
  if (out->passes.empty()) VF_TRY(add(make_gaussian_two_pass));
  const size_t fast = out->passes.size();
  VF_TRY(add(make_gaussian_streaming));
  if (out->passes.size() == fast) VF_TRY(add(make_gaussian_fallback));
  return {};
}

}  // namespace

Status make_gaussian(Queue& queue, const GaussianTask& task, std::unique_ptr<Plan>* out) {
  auto& cuda = static_cast<CudaQueue&>(queue);
  std::unique_ptr<FramePass> frame;
  VF_TRY(make_gaussian_planes(cuda, task, &frame));
  return make_plane_plan(
      cuda, task.layout, task.placement,
      [&](int plane, PlanePasses* passes) { return choose(cuda, task, plane, passes); }, out,
      std::move(frame));
}

}  // namespace vf::cuda
