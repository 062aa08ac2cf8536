// Sharing a plane among blocks that walk down columns.
#pragma once

namespace vf::cuda {

// A block's share of a plane cut into `columns` of `steps` tiles each. A walk down part of a column
// first takes `warm` steps that fill its window and give no tile. The columns are laid end to end,
// each with its warm-up, and cut evenly, so that a block that crosses into a next column pays for
// that warm-up out of its own share. All blocks together can be resident at once: one wave.
class Walk {
 public:
  int column;  // the part being walked: its column,
  int first;   // first tile
  int count;   // and number of tiles; 0 or less at the end

  __device__ Walk(int columns, int steps, int warm, int block, int blocks)
      : steps_(steps), warm_(warm) {
    const int length = steps + warm;
    const long long total = (long long)columns * length;
    const long long begin = total * block / blocks, end = total * (block + 1) / blocks;
    column = int(begin / length);
    first = max(0, int(begin - (long long)column * length) - warm);
    left_ = int(end - (long long)column * length);
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
  __device__ void skip() {
    while (count <= 0 && left_ > steps_ + warm_) advance();
  }
  __device__ void advance() {
    left_ -= steps_ + warm_;
    column++;
    first = 0;
    count = min(steps_, left_ - warm_);
  }
  int steps_, warm_;
  int left_;  // end of the share, from the start of this column
};

}  // namespace vf::cuda
