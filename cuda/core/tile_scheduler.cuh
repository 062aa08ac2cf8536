// Shares a plane among blocks that work down columns. All blocks are resident at once (persistent
// blocks), and each takes an equal part of the tiles.
#pragma once

#include <cstdint>

namespace vf::cuda {

// Divides a plane of `columns` columns of `steps` tiles each among the blocks of a launch. Each
// part of a column starts with a prologue: `prologue` steps that fill the block's window and give
// no tile. The columns are laid end to end, each with its prologue, and cut evenly, so that the
// prologue of each further column counts as work of its block. All blocks are one wave, which takes
// as long as its slowest block. Steps at the left and right edge take longer because of pixels
// outside the frame, so each of them counts as `edge_cost` quarters of a step.
struct WorkPartition {
  int columns, steps, prologue;
  int edge_cost;
  uint64_t cost;  // a part's, times 2^32; a division would take 0.5 µs

  WorkPartition() = default;
  // Costs have 32 bits, which suffice for frames of up to 400 GB.
  WorkPartition(int columns, int steps, int prologue, int blocks, int edge_cost)
      : columns(columns), steps(steps), prologue(prologue), edge_cost(edge_cost) {
    const uint64_t length = steps + prologue, edges = columns < 2 ? columns : 2;
    const uint64_t total = (kStep * (columns - edges) + edge_cost * edges) * length;
    cost = ((total << 32) + blocks - 1) / blocks;
  }

  static constexpr int kStep = 4;
};

// Goes through the parts of columns of one block.
class TileScheduler {
 public:
  int column;  // the current part's
  int first;   // first tile of the part
  int count;   // number of tiles; 0 or less at the end

  __device__ TileScheduler(const WorkPartition& partition, int block)
      : columns_(partition.columns), steps_(partition.steps), prologue_(partition.prologue) {
    const int length = steps_ + prologue_;
    // Edge columns come first.
    const uint32_t edges = min(columns_, 2) * length, edges_cost = partition.edge_cost * edges;
    const auto step_at = [&](uint64_t shifted) {
      const uint32_t cost = shifted >> 32;
      return int(cost < edges_cost ? cost / partition.edge_cost
                                   : edges + (cost - edges_cost) / WorkPartition::kStep);
    };
    const int begin = step_at(partition.cost * block), end = step_at(partition.cost * (block + 1));
    place_ = begin / length;
    column = column_of(place_);
    first = max(0, begin - place_ * length - prologue_);
    left_ = end - place_ * length;
    count = min(steps_, left_ - prologue_) - first;
    skip();
  }

  __device__ void next() {
    if (left_ > steps_ + prologue_) {
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
    while (count <= 0 && left_ > steps_ + prologue_) advance();
  }
  __device__ void advance() {
    left_ -= steps_ + prologue_;
    place_++;
    column = column_of(place_);
    first = 0;
    count = min(steps_, left_ - prologue_);
  }
  int columns_, steps_, prologue_;
  int place_;  // position of the column in the order of work
  int left_;   // end of the block's part, from the start of this column
};

}  // namespace vf::cuda
