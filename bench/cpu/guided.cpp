#include "filters/guided.h"

#include "bench/cpu/cpu.h"
#include "bench/cpu/opencv.h"

#if VF_HAVE_OPENCV
#include <opencv2/imgproc.hpp>
#if VF_HAVE_XIMGPROC
#include <opencv2/ximgproc.hpp>
#endif
#endif

namespace vf::bench {
namespace {

void row(CpuBench& bench, const char* frame, const Layout& src, const MatteChannels& from,
         const Layout& dst, const MatteChannels& to, int radius, int subsample, bool quick) {
  GuidedParams params;
  params.refine = MatteRefine::guided;
  params.radius = radius;
  params.subsample = subsample;
  CpuRow r;
  r.filter = "guided";
  r.frame = frame;
  r.parameters = "r" + std::to_string(radius) + " s" + std::to_string(subsample);
  r.src = src;
  r.dst = dst;
  r.quick = quick;
  r.largest = src.type == Type::u8 ? 1 : 1e-4;
  r.make = [params, from, to](Queue& queue, const Layout& s, const Layout& d,
                              std::unique_ptr<Plan>* plan) {
    std::unique_ptr<GuidedPlan> made;
    VF_TRY(make_guided(queue, s, from, d, to, params, Placement::separate, &made));
    *plan = std::move(made);
    return Status();
  };
#if VF_HAVE_OPENCV && VF_HAVE_XIMGPROC
  // OpenCV has no subsampling in the releases that distributions carry, sees a reflected border
  // instead of a smaller window, and loses variances in float32: its result is not compared.
  if (src.planes == 2) {
    r.peer_largest = 2;
    r.peer = [params](const Image& s, const Image& d) {
      const cv::Mat mask(s.layout.plane[1].height, s.layout.plane[1].width, CV_32F, s.data[1],
                         size_t(s.stride[1]));
      cv::Mat out = mat_of(d);
      cv::ximgproc::guidedFilter(mat_of(s), mask, out, params.radius, params.epsilon);
    };
  }
#endif
  bench.run(r);
}

}  // namespace

void guided_cpu_rows(CpuBench& bench) {
  const MatteChannels rgba;
  const Layout l = packed_layout(Type::u8, 4, 1920, 1080);
  Layout apart = packed_layout(Type::f32, 3, 1920, 1080);
  apart.planes = 2;
  apart.plane[1] = {1920, 1080};
  MatteChannels from, to;
  from.alpha = {1, 0};
  to.colors = 0;
  to.alpha = {0, 0};
  for (const int s : {1, 4, 8})
    for (const int r : {16, 60}) row(bench, "1080p RGBA", l, rgba, l, rgba, r, s, r == 16);
  for (const int s : {1, 4})
    row(bench, "1080p 3+1", apart, from, packed_layout(Type::f32, 1, 1920, 1080), to, 16, s,
        s == 4);
}

}  // namespace vf::bench
