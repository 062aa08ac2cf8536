// Subjects with known mattes, coarse masks of them, and the scores of a matte.
#pragma once

#include <algorithm>
#include <cstdio>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <vector>

using cv::Mat;

inline Mat channel(const Mat& image, int c) {
  Mat out;
  cv::extractChannel(image, out, c);
  return out;
}

// Converts a matte to floats from 0 to 1.
inline Mat unit(const Mat& matte) {
  Mat out;
  matte.convertTo(out, CV_32F, 1 / 255.0);
  return out;
}

struct Scores {
  double sad = 0, mse = 0, gradient = 0;
  int n = 0;
  void add(const Scores& o) {
    sad += o.sad;
    mse += o.mse;
    gradient += o.gradient;
    n++;
  }
  Scores mean() const { return {sad / n, mse / n, gradient / n, 1}; }
};

inline Mat slope(const Mat& matte) {
  Mat smooth, x, y, out;
  cv::GaussianBlur(matte, smooth, cv::Size(), 1.4);
  cv::Sobel(smooth, x, CV_32F, 1, 0, 3, 1 / 8.0);
  cv::Sobel(smooth, y, CV_32F, 0, 1, 3, 1 / 8.0);
  cv::magnitude(x, y, out);
  return out;
}

inline Scores score(const Mat& got, const Mat& truth) {
  Scores s;
  const Mat d = got - truth;
  s.sad = cv::norm(d, cv::NORM_L1) / 1000;
  s.mse = 1000 * d.dot(d) / double(d.total());
  const Mat g = slope(got) - slope(truth);
  s.gradient = g.dot(g) / 1000;
  return s;
}

// Counts specks: connected parts, more than 4 pixels from the true edge, where the matte is off by
// more than 0.1. The edge is wherever alpha is soft, and `edge` gets its length in pixels. `all`
// gets the number where the edge is only where alpha crosses a half, so that errors within hair are
// specks.
inline int specks(const Mat& got, const Mat& truth, double* edge, int* all) {
  const Mat inside = truth > 0.5;
  Mat rim, near, labels;
  cv::morphologyEx(inside, rim, cv::MORPH_GRADIENT,
                   cv::getStructuringElement(cv::MORPH_CROSS, cv::Size(3, 3)));
  *edge = cv::countNonZero(rim) / 2.0;
  const Mat wrong = cv::abs(got - truth) > 0.1;
  const auto count = [&](const Mat& at) {
    cv::dilate(at, near, cv::getStructuringElement(cv::MORPH_ELLIPSE, cv::Size(9, 9)));
    return cv::connectedComponents(wrong & ~near, labels, 8) - 1;
  };
  *all = count(rim);
  return count(rim | ((truth > 0.02) & (truth < 0.98)));
}

inline void print(const char* name, const char* what, const Scores& s) {
  printf("%-34s %-14s %9.3f %9.3f %9.3f\n", name, what, s.sad, s.mse, s.gradient);
}

// A picture of BGR and its true matte, both in floats.
struct Subject {
  std::string name;
  Mat color, alpha;
};

// Puts the cut-out in the middle of a frame of `size`, at 0.8 of its height, moved by (x, y).
inline Subject place(const Mat& cutout, cv::Size size, double x, double y) {
  const double scale = std::min(0.8 * size.height / cutout.rows, 0.8 * size.width / cutout.cols);
  const Mat move = (cv::Mat_<double>(2, 3) << scale, 0, (size.width - scale * cutout.cols) / 2 + x,
                    0, scale, (size.height - scale * cutout.rows) / 2 + y);
  Mat f;
  cutout.convertTo(f, CV_32F, 1 / 255.0);
  std::vector<Mat> c;
  cv::split(f, c);
  for (int i = 0; i < 3; i++) c[i] = c[i].mul(c[3]);  // keeps colours from outside out
  cv::merge(c, f);
  Mat warped;
  cv::warpAffine(f, warped, move, size, cv::INTER_LINEAR, cv::BORDER_CONSTANT, cv::Scalar::all(0));
  Subject s;
  s.alpha = channel(warped, 3);
  cv::cvtColor(warped, s.color, cv::COLOR_BGRA2BGR);
  return s;
}

// Composes the subject over a background, in 8 bits with `mask` as alpha.
inline Mat over(const Subject& s, const Mat& background, const Mat& mask) {
  Mat b, a3, out;
  background.convertTo(b, CV_32F, 1 / 255.0);
  cv::cvtColor(s.alpha, a3, cv::COLOR_GRAY2BGR);
  out = s.color + b.mul(cv::Scalar::all(1) - a3);
  out.convertTo(out, CV_8U, 255);
  std::vector<Mat> c;
  cv::split(out, c);
  c.push_back(mask);
  cv::merge(c, out);
  return out;
}

// How a network's mask flickers.
enum class Unsteady {
  no,
  threshold,  // noise of 0.2 before the threshold: single pixels of the mask come and go
  size,       // dilated, eroded or left, at random
};

// Makes a mask as a segmentation network does. It is grown by `grow` of its pixels: -1, 0 or 1.
inline Mat coarse(const Mat& alpha, int down, int grow, Unsteady unsteady = Unsteady::no,
                  cv::RNG* random = nullptr) {
  Mat small, out;
  cv::resize(alpha, small, cv::Size((alpha.cols + down - 1) / down, (alpha.rows + down - 1) / down),
             0, 0, cv::INTER_AREA);
  if (unsteady == Unsteady::size) grow = random->uniform(-1, 2);
  if (unsteady == Unsteady::threshold) {
    Mat noise(small.size(), CV_32F);
    random->fill(noise, cv::RNG::NORMAL, 0, 0.2);
    small += noise;
  }
  cv::threshold(small, small, 0.5, 1, cv::THRESH_BINARY);
  const Mat cross = cv::getStructuringElement(cv::MORPH_CROSS, cv::Size(3, 3));
  if (grow > 0) cv::dilate(small, small, cross);
  if (grow < 0) cv::erode(small, small, cross);
  cv::resize(small, out, alpha.size(), 0, 0, cv::INTER_LINEAR);
  out.convertTo(out, CV_8U, 255);
  return out;
}
