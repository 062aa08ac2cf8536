// Checks that the Gaussian gives the same picture as OpenCV's GaussianBlur with the same
// parameters, because many users come from OpenCV. tests/kernels/gaussian.cpp compares with the
// exact result.
#include "filters/gaussian.h"
#include "tests/kernels/harness.h"

#if VF_HAVE_OPENCV

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

namespace vf::test {
namespace {

int depth_of(Type type) {
  switch (type) {
    case Type::u8:
      return CV_8U;
    case Type::u16:
      return CV_16U;
    case Type::s16:
      return CV_16S;
    case Type::s32:
      return CV_32S;
    case Type::f32:
      return CV_32F;
  }
  return -1;
}

struct Case {
  Type type;
  int channels, width, height, size, size_y;
  double sigma, sigma_y;
  Border border;
};

std::string compare(Context& context, const Case& k, const std::string& name) {
  Random random = context.random(name);
  const Layout layout = packed_layout(k.type, k.channels, k.width, k.height);
  Frame src(layout), got(layout), want(layout), rounded(layout);
  src.fill(Pattern::noise, random);

  const auto mat = [&](const Frame& frame) {
    return cv::Mat(k.height, k.width, CV_MAKETYPE(depth_of(k.type), k.channels),
                   frame.image().data[0], size_t(frame.image().stride[0]));
  };
  const int border = k.border == Border::replicate  ? cv::BORDER_REPLICATE
                     : k.border == Border::reflect  ? cv::BORDER_REFLECT
                     : k.border == Border::constant ? cv::BORDER_CONSTANT
                                                    : cv::BORDER_REFLECT_101;
  const auto blur = [&](const cv::Mat& from, cv::Mat* to) {
    cv::GaussianBlur(from, *to, cv::Size(k.size, k.size_y), k.sigma, k.sigma_y, border);
  };
  // OpenCV's integer filters round their weights to 8 or 16 bits. This changes one pixel in five by
  // one, a few by two, and some by three where a replicated border pixel sums many weights' errors.
  // Its filter for floats shows whether both filters mean the same.
  cv::Mat direct = mat(rounded), exact = mat(want), numbers, blurred;
  blur(mat(src), &direct);
  mat(src).convertTo(numbers, CV_32F);
  blur(numbers, &blurred);
  blurred.convertTo(exact, depth_of(k.type));
  if (exact.data != want.image().data[0] || direct.data != rounded.image().data[0])
    return "OpenCV made another matrix";

  GaussianParams params;
  params.sigma = k.sigma;
  params.sigma_y = k.sigma_y;
  params.kernel_size = k.size;
  params.kernel_size_y = k.size_y;
  params.border = k.border;
  Device& device = context.device();
  std::unique_ptr<Plan> plan;
  if (Status s = make_gaussian(device.queue(), layout, params, Placement::separate, &plan); !s.ok())
    return s.message();
  const Image from = device.upload(src), out = device.upload(got);
  if (Status s = plan->run(from, out); !s.ok()) return s.message();
  if (Status s = device.queue().sync(); !s.ok()) return s.message();
  device.download(out, &got);
  Tolerance tolerance;
  if (k.type == Type::f32)
    tolerance.relative = 1e-5;
  else
    tolerance.absolute = 1;
  if (k.type == Type::u8) tolerance.equal = 0.99;
  if (std::string d = difference(got, want, tolerance); !d.empty()) return d;
  if (k.type != Type::f32) {
    tolerance.absolute = 4;
    tolerance.equal = 0.6;
  }
  if (std::string d = difference(got, rounded, tolerance); !d.empty()) return "integers: " + d;
  return {};
}

}  // namespace

void gaussian_opencv_cases(Context& context) {
  // OpenCV's filter has neither wrap nor s32, and its constant border is 0.
  for (const Type type : {Type::u8, Type::u16, Type::s16, Type::f32})
    for (const int channels : {1, 3, 4})
      for (const Border border :
           {Border::replicate, Border::reflect, Border::reflect_101, Border::constant})
        for (const auto& [size, size_y, sigma, sigma_y] : {std::tuple{3, 3, 0.8, 0.8},
                                                           {5, 5, 1.1, 1.1},
                                                           {7, 3, 1.4, 0.7},
                                                           {15, 15, 2.6, 2.6},
                                                           {31, 9, 5.0, 1.7},
                                                           {59, 59, 9.2, 9.2}}) {
          char name[160];
          snprintf(name, sizeof name, "gaussian_opencv %s x%d %s size %dx%d", name_of(type),
                   channels, name_of(border), size, size_y);
          if (!context.wants(name)) continue;
          const Case k{type, channels, 201, 123, size, size_y, sigma, sigma_y, border};
          const std::string failure = compare(context, k, name);
          context.device().release_all();
          context.result(name, failure);
        }
}

}  // namespace vf::test

#else

namespace vf::test {

void gaussian_opencv_cases(Context& context) {
  context.skip("gaussian_opencv", "built without OpenCV");
}

}  // namespace vf::test

#endif
