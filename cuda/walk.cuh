// Sharing a plane among blocks that walk down columns.
#pragma once

#include <cstdint>

namespace vf::cuda {

// A plane cut into `columns` of `steps` tiles each, for `blocks` of a launch. A walk down part of a
// column first takes `warm` steps that fill its window and give no tile. The columns are laid end
// to end, each with its warm-up, and cut evenly, so that a block that crosses into a next column
// pays for that warm-up out of its own share. All blocks together can be resident at once: one
// wave, which takes as long as its slowest block. So steps at the left and right edge, where pixels
// outside the frame cost time, count for more than others: for `edge_cost` quarters of one.
struct Shares {
  int columns, steps, warm;
  int edge_cost;
  uint64_t cost;  // of a share, times 2^32: dividing would take a block half a microsecond

  Shares() = default;
  // Costs have 32 bits: a frame for which they overflow would have 400 GB.
  Shares(int columns, int steps, int warm, int blocks, int edge_cost)
      : columns(columns), steps(steps), warm(warm), edge_cost(edge_cost) {
    const uint64_t length = steps + warm, edges = columns < 2 ? columns : 2;
    const uint64_t total = (kStep * (columns - edges) + edge_cost * edges) * length;
    cost = ((total << 32) + blocks - 1) / blocks;
  }

  static constexpr int kStep = 4;
};

// The walks of one block.
class Walk {
 public:
  int column;  // the part being walked: its column,
  int first;   // first tile
  int count;   // and number of tiles; 0 or less at the end

  __device__ Walk(const Shares& shares, int block)
      : columns_(shares.columns), steps_(shares.steps), warm_(shares.warm) {
    const int length = steps_ + warm_;
    // Edge columns come first.
    const uint32_t edges = min(columns_, 2) * length, edges_cost = shares.edge_cost * edges;
    const auto step_at = [&](uint64_t shifted) {
      const uint32_t cost = shifted >> 32;
      return int(cost < edges_cost ? cost / shares.edge_cost
                                   : edges + (cost - edges_cost) / Shares::kStep);
    };
    const int begin = step_at(shares.cost * block), end = step_at(shares.cost * (block + 1));
    place_ = begin / length;
    column = column_of(place_);
    first = max(0, begin - place_ * length - warm_);
    left_ = end - place_ * length;
    count = min(steps_, left_ - warm_) - first;
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
