// Selection networks for medians: straight-line programs of minima and maxima.
//
// Hierarchical tiling: a tile of outputs shares the sorted core of its windows. The tile is split
// in halves again and again; each half merges the columns or rows that only it needs into the core,
// and after each merge the values that can no longer be a median are dropped. With p values kept, s
// dropped below, g dropped above and r = (count - 1) / 2, positions max(0, p + g - r - 1) to
// min(p - 1, r - s) survive. Equal operations are made once, dead ones never.
//
// One generator serves both backends: the CPU interprets the program over rows of vectors, the CUDA
// build prints it as code. Nothing here is needed by callers of the library.
#pragma once

#include <vector>

namespace vf {

struct MedianNetwork {
  struct Op {
    enum Kind : unsigned char { load, minimum, maximum } kind;
    int a, b;  // load: row and column inside the tile's footprint; else two earlier operations
  };
  int size_x, size_y, tile_x, tile_y;
  // In an order that can be run. Every operation is needed by an output.
  std::vector<Op> ops;
  std::vector<int> outputs;  // of row y and column x of the tile at [y * tile_x + x]
  int comparisons = 0;       // operations that are no loads
};

// A network for windows of size_x by size_y (odd) and a tile whose sides are powers of two. The
// footprint of the tile is (size_x + tile_x - 1) x (size_y + tile_y - 1) pixels. Made once and
// kept, as planes of a frame, streams and changes while playing ask for the same few. From any
// thread.
const MedianNetwork& median_network(int size_x, int size_y, int tile_x, int tile_y);

}  // namespace vf
