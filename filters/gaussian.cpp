// Checks the parameters of the Gaussian and computes its weights.
#include "filters/gaussian.h"

#include <algorithm>
#include <cmath>

#include "filters/backend.h"
#include "filters/gaussian_task.h"

namespace vf {
namespace {

std::vector<double> weights(double sigma, int size) {
  std::vector<double> w(size);
  const int radius = size / 2;
  double sum = 0;
  for (int i = 0; i < size; i++) {
    const double d = i - radius;
    w[i] = size == 1 ? 1 : std::exp(-d * d / (2 * sigma * sigma));
    sum += w[i];
  }
  for (double& v : w) v /= sum;
  return w;
}

struct Axis {
  const char* sigma_name;
  const char* size_name;
  double sigma;
  int size;  // 0: computed from sigma
};

Status check(const Axis& a, Type type) {
  constexpr int max = GaussianParams::kMaxKernelSize;
  VF_TRY(check_limits(a.sigma_name, a.sigma, GaussianParams::kSigma));
  VF_TRY(check_limits(a.size_name, a.size, GaussianParams::kKernelSize));
  if (!a.size && gaussian_kernel_size(a.sigma, type) > max) {
    const int per_sigma = type == Type::u8 ? 6 : 8;
    return Status::invalid(
        "%s is %g, which needs a kernel of more than %d taps. It must be 0 to %g, "
        "unless %s is set",
        a.sigma_name, a.sigma, max, double(max - 1) / per_sigma, a.size_name);
  }
  return {};
}

// Returns the kernel along one axis of a plane that is subsampled by 2^sub.
std::vector<double> axis_weights(const Axis& a, int sub, Type type) {
  if (a.sigma == 0) return {1.0};
  const double sigma = a.sigma / (1 << sub);
  return weights(sigma, a.size ? plane_size(a.size, sub) : gaussian_kernel_size(sigma, type));
}

Axis axis_x(const GaussianParams& p) {
  return {"sigma", "kernel-size", p.sigma, p.kernel_size};
}
Axis axis_y(const GaussianParams& p) {
  return {p.sigma_y == -1 ? "sigma" : "sigma-y", p.kernel_size_y ? "kernel-size-y" : "kernel-size",
          p.sigma_y == -1 ? p.sigma : p.sigma_y, p.kernel_size_y ? p.kernel_size_y : p.kernel_size};
}

}  // namespace

int gaussian_kernel_size(double sigma, Type type) {
  if (sigma <= 0) return 1;
  const double size = std::min(1e6, (type == Type::u8 ? 6 : 8) * sigma + 1);
  return int(std::lrint(size)) | 1;
}

bool is_identity(const GaussianParams& p) {
  const Axis x = axis_x(p), y = axis_y(p);
  return selects_nothing(p.channels) ||
         ((x.sigma == 0 || x.size == 1) && (y.sigma == 0 || y.size == 1));
}

Status make_gaussian(Queue& queue, const Layout& layout, const GaussianParams& params,
                     Placement placement, std::unique_ptr<Plan>* out) {
  VF_TRY(validate(layout));
  const Axis x = axis_x(params), y = axis_y(params);
  // If nothing is blurred, no kernel is made, and its size need not be checked.
  const bool identity = is_identity(params);
  if (!identity) {
    VF_TRY(check(x, layout.type));
    VF_TRY(check(y, layout.type));
  }
  if (params.border == Border::shrink)
    return Status::invalid(
        "border is shrink, but it must be replicate, reflect, reflect-101, wrap or constant");
  if (params.border == Border::constant)
    for (int i = 0; i < layout.planes; i++)
      for (int c = 0; c < layout.plane[i].channels; c++)
        VF_TRY(check_value(layout, "border value", params.border_value[i][c]));
  const auto fill = [&](GaussianTask& task) {
    task.layout = layout;
    task.border = params.border;
    task.placement = placement;
    for (int i = 0; i < layout.planes; i++) {
      GaussianPlane plane;
      plane.weights_x = plane.weights_y = {1.0};
      if (!identity) {
        plane.weights_x = axis_weights(x, layout.plane[i].sub_x, layout.type);
        plane.weights_y = axis_weights(y, layout.plane[i].sub_y, layout.type);
      }
      plane.channels = params.channels[i] & ((1 << layout.plane[i].channels) - 1);
      std::copy_n(params.border_value[i], kMaxChannels, plane.border_value);
      task.plane.push_back(std::move(plane));
    }
    return Status();
  };
  return make_plan<GaussianTask>(queue, &BackendTable::gaussian, "gaussian", fill, out);
}

}  // namespace vf
