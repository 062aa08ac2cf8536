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
  r.parameters =
      std::to_string(width) + "x" + std::to_string(height) + " " + name_of(interpolation);
  r.src = packed_layout(Type::u8, channels, 1920, 1080);
  r.dst = packed_layout(Type::u8, channels, width, height);
  const ColorFormat format = packed_format(channels);
  r.make = [=](Queue& queue, const Layout& src, const Layout& dst,
               std::unique_ptr<Plan>* plan) -> Status {
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
  const auto to_tensor = [&](const char* frame, const Layout& src, const ColorFormat& from,
                             double largest) {
    CpuRow r = row_for(3, 640, 640, Interpolation::bilinear);
    r.frame = frame;
    r.parameters = "640 f32";
    r.src = src;
    r.dst = packed_layout(Type::f32, 1, 640, 640);
    r.dst.planes = 3;
    r.dst.plane[1] = r.dst.plane[2] = r.dst.plane[0];
    r.largest = largest;
    ColorFormat to;
    to.role[0][0] = Role::r;
    to.role[1][0] = Role::g;
    to.role[2][0] = Role::b;
    r.make = [=](Queue& queue, const Layout& src, const Layout& dst,
                 std::unique_ptr<Plan>* plan) -> Status {
      LetterboxGeometry g;
      VF_TRY(letterbox_geometry(src.plane[0].width, src.plane[0].height, dst.plane[0].width,
                                dst.plane[0].height, {}, &g));
      return make_letterbox(queue, src, from, dst, to, g, {}, plan);
    };
    bench.run(r);
  };
  to_tensor("1080p BGR", packed_layout(Type::u8, 3, 1920, 1080), packed_format(3), 1e-6);
  // Colours are converted: 1 code value more or less.
  constexpr double one = 1.001 / 255;
  ColorFormat yuv;
  yuv.full_range = false;
  yuv.role[0][0] = Role::y;
  Layout frame = packed_layout(Type::u8, 1, 1920, 1080);
  PlaneLayout chroma = frame.plane[0];
  chroma.width = 960;
  chroma.height = 540;
  chroma.sub_x = chroma.sub_y = 1;
  ColorFormat planar = yuv;
  planar.role[1][0] = Role::u;
  planar.role[2][0] = Role::v;
  frame.planes = 3;
  frame.plane[1] = frame.plane[2] = chroma;
  to_tensor("1080p I420", frame, planar, one);
  yuv.role[1][0] = Role::u;
  yuv.role[1][1] = Role::v;
  chroma.channels = 2;
  frame.planes = 2;
  frame.plane[1] = chroma;
  frame.plane[2] = PlaneLayout();
  to_tensor("1080p NV12", frame, yuv, one);
}

}  // namespace vf::bench
