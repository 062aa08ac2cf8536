// refine=colors of the guided matte as docs/spec/matte.md defines it, in double precision.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "filters/guided_task.h"

namespace vf::test {

class ReferenceColors {
 public:
  // Reads channel c (0 to 2: the guide, 3: the mask) of a pixel of the frame, over full scale.
  using Read = std::function<double(int x, int y, int c)>;

  explicit ReferenceColors(const GuidedTask& task);

  using Grid = std::vector<double>;
  // Reads the external mask, over full scale, at a position in half pixels. Another one reads the
  // error of its edge, where 0 is the largest error, too.
  using Beside = std::function<double(int hx, int hy)>;
  // Makes vote() take the samples' mask from the external mask.
  void use_mask(const Beside& beside, const Beside& error) {
    beside_ = beside;
    edge_error_ = error;
  }

  // Makes the votes of a frame. `fresh` forgets the previous frames.
  void vote(const Read& read, bool fresh);

  // Returns sample (i, j) of the guided filter: the guide's channels and the mask.
  std::array<double, 4> sample(const Read& read, int i, int j) const;

  // Returns the mean of size x size pixels from (x, y) on in code values of 8 bits.
  int bytes(const Read& read, int x, int y, int size, int c) const;

  // Changes the coefficients of sample (i, j) where it is sure of a side or outside of the band.
  // `guide` has the guided filter's samples, less a half.
  void settle(int i, int j, const std::array<Grid, 4>& guide, double* a, double* b) const;

  void take_over(const ReferenceColors& before) {
    memory_ = before.memory_;
    error_ = before.error_;
  }

 private:
  struct Cells {
    Grid n, mean[3], variance;
  };

  int centre(const Beside& mask, int i, int j) const;
  void prior();
  void steady(bool fresh);
  double narrow(const Grid& l);
  Cells models(const Grid& weight) const;
  Grid ratios(const Cells& subject, const Cells& background) const;
  double share(const Cells& cells, int i, int j) const;
  double bilinear(const Grid& g, double u, double v) const;

  const GuidedTask& t_;
  Beside beside_, edge_error_;
  int w_, h_, cw_, ch_;
  std::vector<int> guide_[3], mask_, x_;  // samples; x_: the prior times 2^14
  std::array<std::vector<int>, 4> memory_;
  std::array<int, 2> error_ = {};  // found in the frame before, in 1/256 pixels
  Grid f_[3];
  int busy_ = 0;  // how busy the background is, in 64ths
  Grid p_, outside_, side_, sure_[2];
};

}  // namespace vf::test
