// Selection networks for medians: straight-line programs of minima and maxima.
//
// Hierarchical tiling: a tile of outputs shares the sorted core of its windows. The tile is split
// in halves again and again; each half merges the columns or rows that only it needs into the core,
// and after each merge the values that can no longer be a median are dropped. With p values kept, s
// dropped below, g dropped above and r = (count - 1) / 2, positions max(0, p + g - r - 1) to
// min(p - 1, r - s) survive. Equal operations are made once, dead ones never.
//
// Neighbouring tiles sort the same columns. Where their threads can hand values to each other, a
// group of columns is sorted and merged once, for all tiles that see it.
//
// One generator serves both backends: the CPU interprets the program over rows of vectors, the CUDA
// build prints it as code. Nothing here is needed by callers of the library.
#pragma once

#include <vector>

namespace vf {

struct MedianNetwork {
  struct Op {
    enum Kind : unsigned char { load, shared, minimum, maximum } kind;
    // load: row and column inside the tile's footprint; shared: an output of the group of columns
    // at column b of the footprint, which may begin before it; else two earlier operations.
    int a, b;
    bool compares() const { return kind == minimum || kind == maximum; }
  };
  int size_x, size_y, tile_x, tile_y;
  // In an order that can be run. Every operation is needed by an output.
  std::vector<Op> ops;
  std::vector<int> outputs;  // of row y and column x of the tile at [y * tile_x + x]
  int comparisons = 0;       // minima and maxima
};

// A network in two parts. `columns` sorts `group` neighbouring columns and merges them two by two;
// its loads are rows of the footprint and columns of the group, and its outputs the sorted lists
// that tiles need, one after the other. `tile` makes the medians of these.
struct SharedMedianNetwork {
  MedianNetwork columns, tile;
};

// A network for windows of size_x by size_y (odd) and a tile whose sides are powers of two. The
// footprint of the tile is (size_x + tile_x - 1) x (size_y + tile_y - 1) pixels. Made once and
// kept, as planes of a frame, streams and changes while playing ask for the same few. From any
// thread.
const MedianNetwork& median_network(int size_x, int size_y, int tile_x, int tile_y);

// Of groups of `group` columns: a power of two that is at most tile_x. Windows are larger than the
// tile. Groups begin at column tile_x - 1 of the footprint, and every `group` columns from there.
SharedMedianNetwork shared_median_network(int size_x, int size_y, int tile_x, int tile_y,
                                          int group);

}  // namespace vf
