#include "bench/peers.h"

#if VF_HAVE_OPENCV

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#if VF_HAVE_XIMGPROC
#include <opencv2/ximgproc.hpp>
#endif

#include "filters/gaussian.h"
#include "filters/guided.h"
#include "filters/letterbox.h"
#include "filters/median.h"

namespace vf::bench {
namespace {

// Wraps a plane as OpenCV's matrix without a copy.
cv::Mat mat_of(const Image& image, int plane = 0) {
  const PlaneLayout& l = image.layout.plane[plane];
  constexpr int depths[] = {CV_8U, CV_16U, CV_16S, CV_32S, CV_32F};
  return cv::Mat(l.height, l.width, CV_MAKETYPE(depths[int(image.layout.type)], l.channels),
                 image.data[plane], size_t(image.stride[plane]));
}

// Calls f(source, destination) with both as matrices.
template <class F>
Peer peer(double largest, F f) {
  return {"OpenCV",
          [f](const Image& src, const Image& dst, void*) {
            cv::Mat out = mat_of(dst);
            f(src, out);
            return Status();
          },
          nullptr, largest};
}

}  // namespace

std::string opencv_version() {
  return "OpenCV " CV_VERSION " with " + std::to_string(cv::getNumThreads()) + " threads";
}

void use_opencv_threads(int threads) {
  cv::setNumThreads(threads);
}

std::vector<Peer> opencv_peers(const test::TimedCase& row) {
  if (row.in_place || row.src.shift) return {};
  const bool plain = row.src.planes == 1;
  if (const auto* p = std::any_cast<GaussianParams>(&row.params); p && plain && p->kernel_size)
    return {peer(1, [p = *p](const Image& src, cv::Mat& out) {
      cv::GaussianBlur(mat_of(src), out, cv::Size(p.kernel_size, p.kernel_size), p.sigma, p.sigma,
                       cv::BORDER_REFLECT_101);
    })};
  // OpenCV's median supports only windows of 3 and 5 for types other than 8 bits.
  if (const auto* p = std::any_cast<MedianParams>(&row.params);
      p && plain && !p->size_y && p->border == Border::replicate &&
      (row.src.type == Type::u8 || p->size <= 5))
    return {peer(
        0, [p = *p](const Image& src, cv::Mat& out) { cv::medianBlur(mat_of(src), out, p.size); })};
  // Only resizing is compared, from a packed format to the same one and without padding.
  if (const auto* p = std::any_cast<LetterboxParams>(&row.params);
      p && plain && row.dst.type == row.src.type &&
      row.dst.plane[0].channels == row.src.plane[0].channels &&
      int64_t(row.src.plane[0].width) * row.dst.plane[0].height ==
          int64_t(row.src.plane[0].height) * row.dst.plane[0].width)
    return {peer(
        1, [flag = p->interpolation == Interpolation::area ? cv::INTER_AREA : cv::INTER_LINEAR](
               const Image& src, cv::Mat& out) {
          cv::resize(mat_of(src), out, out.size(), 0, 0, flag);
        })};
#if VF_HAVE_XIMGPROC
  // The OpenCV releases of distributions have no subsampling, reflect the border instead of using a
  // smaller window, and lose precision of variances in float32. Their result is therefore not
  // compared.
  if (const auto* p = std::any_cast<GuidedParams>(&row.params); p && row.src.planes == 2)
    return {peer(2, [p = *p](const Image& src, cv::Mat& out) {
      cv::ximgproc::guidedFilter(mat_of(src), mat_of(src, 1), out, p.radius, p.epsilon);
    })};
#endif
  return {};
}

}  // namespace vf::bench

#else

namespace vf::bench {

std::string opencv_version() {
  return "no OpenCV in this build";
}
void use_opencv_threads(int) {}
std::vector<Peer> opencv_peers(const test::TimedCase&) {
  return {};
}

}  // namespace vf::bench

#endif
