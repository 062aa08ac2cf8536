// Computes foreground=estimate and background=blur of the guided matte as docs/spec/matte.md
// defines them, in double precision.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "filters/guided_task.h"

namespace vf::test {

class ReferenceLayers {
 public:
  using Color = std::array<double, 3>;  // over full scale
  // Reads a sample's colours, as code values of 8 bits.
  using Guide = std::function<std::array<int, 3>(int i, int j)>;
  // Returns the matte at a place of the frame, in pixels from its corner, for these colours.
  using Matte = std::function<double(double x, double y, const Color& color)>;

  explicit ReferenceLayers(const GuidedTask& task) : t_(task) {}

  void make(const Guide& guide, const Matte& matte);

  // Returns the subject's colours at a pixel that has the colours `v` and the matte q.
  Color foreground(int x, int y, const Color& v, double q) const;
  // Returns the background's colours at a pixel.
  Color background(int x, int y) const;

 private:
  using Plane = std::vector<Color>;
  void estimate();
  void blur();
  Color at(const Plane& plane, int width, int height, int step, int x, int y) const;

  const GuidedTask& t_;
  int w_ = 0, h_ = 0, cell_ = 1, cw_ = 0, ch_ = 0;
  std::vector<std::array<int, 3>> guide_;
  std::vector<double> alpha_, weight_;  // a / 255 and w
  Plane subject_, behind_, blurred_;
  Plane spread_;  // variances of the subject's and the background's colours
};

}  // namespace vf::test
