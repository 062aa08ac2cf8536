#include "filters/letterbox.h"

#include "bench/cpu/cpu.h"
#include "bench/cpu/opencv.h"

#if VF_HAVE_OPENCV
#include <opencv2/imgproc.hpp>
#endif

namespace vf::bench {
namespace {

ColorFormat packed_format(int channels) {
  ColorFormat f;
  const Role roles[] = {Role::b, Role::g, Role::r, Role::a};
  for (int c = 0; c < channels; c++) f.role[0][c] = channels == 1 ? Role::y : roles[c];
  return f;
}

CpuRow row_for(int channels, int width, int height, Interpolation interpolation) {
  LetterboxParams params;
  params.interpolation = interpolation;
  CpuRow r;
  r.filter = "letterbox";
  r.frame = std::string("1080p ") + (channels == 1 ? "gray" : channels == 3 ? "BGR" : "BGRA");
  r.parameters = std::to_string(width) + "x" + std::to_string(height) + " " + name_of(interpolation);
  r.src = packed_layout(Type::u8, channels, 1920, 1080);
  r.dst = packed_layout(Type::u8, channels, width, height);
  const ColorFormat format = packed_format(channels);
  r.make = [=](Queue& queue, const Layout& src, const Layout& dst, std::unique_ptr<Plan>* plan) -> Status {
    LetterboxGeometry g;
    VF_TRY(letterbox_geometry(src.plane[0].width, src.plane[0].height, dst.plane[0].width,
                              dst.plane[0].height, params, &g));
    return make_letterbox(queue, src, format, dst, format, g, params, plan);
  };
  return r;
}

}  // namespace

void letterbox_cpu_rows(CpuBench& bench) {
  for (const int channels : {1, 3, 4})
    for (const Interpolation interpolation : {Interpolation::bilinear, Interpolation::area}) {
      CpuRow r = row_for(channels, 640, 360, interpolation);
      r.quick = channels == 3 && interpolation == Interpolation::bilinear;
#if VF_HAVE_OPENCV
      const int flag = interpolation == Interpolation::area ? cv::INTER_AREA : cv::INTER_LINEAR;
      r.peer = [flag](const Image& src, const Image& dst) {
        cv::Mat out = mat_of(dst);
        cv::resize(mat_of(src), out, out.size(), 0, 0, flag);
      };
#endif
      bench.run(r);
    }
  // The whole way to a network's input.
  CpuRow r = row_for(3, 640, 640, Interpolation::bilinear);
  r.parameters = "640 f32";
  r.dst = packed_layout(Type::f32, 1, 640, 640);
  r.dst.planes = 3;
  r.dst.plane[1] = r.dst.plane[2] = r.dst.plane[0];
  r.largest = 1e-6;
  ColorFormat to;
  to.role[0][0] = Role::r;
  to.role[1][0] = Role::g;
  to.role[2][0] = Role::b;
  r.make = [to](Queue& queue, const Layout& src, const Layout& dst, std::unique_ptr<Plan>* plan) -> Status {
    LetterboxGeometry g;
    VF_TRY(letterbox_geometry(src.plane[0].width, src.plane[0].height, dst.plane[0].width,
                              dst.plane[0].height, {}, &g));
    return make_letterbox(queue, src, packed_format(3), dst, to, g, {}, plan);
  };
  bench.run(r);
}

}  // namespace vf::bench
