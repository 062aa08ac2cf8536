#include "filters/gaussian.h"

#include "bench/cpu/cpu.h"
#include "bench/cpu/opencv.h"

#if VF_HAVE_OPENCV
#include <opencv2/imgproc.hpp>
#endif

namespace vf::bench {
namespace {

void row(CpuBench& bench, const char* frame, const Layout& layout, int k, double sigma,
         bool quick) {
  GaussianParams params;
  params.kernel_size = k;
  params.sigma = sigma;
  CpuRow r;
  r.filter = "gaussian";
  r.frame = frame;
  r.parameters = std::to_string(k) + "x" + std::to_string(k) + " sigma " + number(sigma, 2);
  r.src = r.dst = layout;
  r.quick = quick;
  r.make = [params](Queue& queue, const Layout& src, const Layout&, std::unique_ptr<Plan>* plan) {
    return make_gaussian(queue, src, params, Placement::separate, plan);
  };
#if VF_HAVE_OPENCV
  r.peer = [k, sigma](const Image& src, const Image& dst) {
    cv::Mat out = mat_of(dst);
    cv::GaussianBlur(mat_of(src), out, cv::Size(k, k), sigma, sigma, cv::BORDER_REFLECT_101);
  };
#endif
  bench.run(r);
}

}  // namespace

void gaussian_cpu_rows(CpuBench& bench) {
  const auto rule = [](int k) { return 0.3 * ((k - 1) * 0.5 - 1) + 0.8; };
  for (const int k : {3, 5, 9, 15, 31, 59})
    row(bench, "1080p gray", packed_layout(Type::u8, 1, 1920, 1080), k, rule(k), k == 5 || k == 15);
  for (const int k : {3, 5, 9, 15, 31, 59})
    row(bench, "1080p RGBA", packed_layout(Type::u8, 4, 1920, 1080), k, rule(k), k == 5 || k == 15);
  row(bench, "496x472 gray", packed_layout(Type::u8, 1, 496, 472), 59, 1, true);
}

}  // namespace vf::bench
