#include "filters/median.h"

#include "bench/cpu/cpu.h"
#include "bench/cpu/opencv.h"

#if VF_HAVE_OPENCV
#include <opencv2/imgproc.hpp>
#endif

namespace vf::bench {

void median_cpu_rows(CpuBench& bench) {
  const struct {
    const char* frame;
    Layout layout;
    bool small_only;  // OpenCV has 3 and 5 only
  } frames[] = {
      {"1080p gray", packed_layout(Type::u8, 1, 1920, 1080), false},
      {"1080p RGBA", packed_layout(Type::u8, 4, 1920, 1080), false},
      {"1080p gray16", packed_layout(Type::u16, 1, 1920, 1080), true},
      {"1080p f32", packed_layout(Type::f32, 1, 1920, 1080), true},
  };
  for (const auto& f : frames)
    for (const int k : {3, 5, 7, 9, 15, 21, 31, 75}) {
      if (f.small_only && k > 31) continue;
      MedianParams params;
      params.size = k;
      CpuRow r;
      r.filter = "median";
      r.frame = f.frame;
      r.parameters = std::to_string(k) + "x" + std::to_string(k);
      r.src = r.dst = f.layout;
      r.quick = !f.small_only && (k == 3 || k == 15);
      r.largest = 0;
      r.make = [params](Queue& queue, const Layout& src, const Layout&,
                        std::unique_ptr<Plan>* plan) {
        return make_median(queue, src, params, Placement::separate, plan);
      };
#if VF_HAVE_OPENCV
      r.peer_largest = 0;
      if (!f.small_only || k <= 5)
        r.peer = [k](const Image& src, const Image& dst) {
          cv::Mat out = mat_of(dst);
          cv::medianBlur(mat_of(src), out, k);
        };
#endif
      bench.run(r);
    }
}

}  // namespace vf::bench
