// Sharing a plane among blocks that walk down columns.
#pragma once

namespace vf::cuda {

// A block's share of a plane cut into `columns` of `steps` tiles each. A walk down part of a column
// first takes `warm` steps that fill its window and give no tile. The columns are laid end to end,
// each with its warm-up, and cut evenly, so that a block that crosses into a next column pays for
// that warm-up out of its own share. All blocks together can be resident at once: one wave, which
// takes as long as its slowest block. So steps at the left and right edge, where pixels outside the
// frame cost time, count for more than others.
class Walk {
 public:
  int column;  // the part being walked: its column,
  int first;   // first tile
  int count;   // and number of tiles; 0 or less at the end

  __device__ Walk(int columns, int steps, int warm, int block, int blocks)
      : columns_(columns), steps_(steps), warm_(warm) {
    const int length = steps + warm;
    const long long edges = (long long)min(columns, 2) * length;
    const long long total = kStep * (long long)columns * length + (kEdgeStep - kStep) * edges;
    const auto step_at = [&](long long cost) {
      return cost < kEdgeStep * edges ? cost / kEdgeStep
                                      : edges + (cost - kEdgeStep * edges) / kStep;
    };
    const long long begin = step_at(total * block / blocks);
    const long long end = step_at(total * (block + 1) / blocks);
    place_ = int(begin / length);
    column = column_of(place_);
    first = max(0, int(begin - (long long)place_ * length) - warm);
    left_ = int(end - (long long)place_ * length);
    count = min(steps, left_ - warm) - first;
    skip();
  }

  __device__ void next() {
    if (left_ > steps_ + warm_) {
      advance();
      skip();
    } else {
      count = 0;
    }
  }

 private:
  // What a step costs, as measured on an H200.
  static constexpr int kStep = 4, kEdgeStep = 5;

  // Edge columns come first.
  __device__ int column_of(int place) const {
    return place == 0 ? 0 : place == 1 ? columns_ - 1 : place - 1;
  }
  __device__ void skip() {
    while (count <= 0 && left_ > steps_ + warm_) advance();
  }
  __device__ void advance() {
    left_ -= steps_ + warm_;
    place_++;
    column = column_of(place_);
    first = 0;
    count = min(steps_, left_ - warm_);
  }
  int columns_, steps_, warm_;
  int place_;  // of the column in the order they are walked
  int left_;   // end of the share, from the start of this column
};

}  // namespace vf::cuda
