// Makes selection networks for medians: straight-line programs of minima and maxima.
//
// The idea is hierarchical tiling. All windows of a tile of outputs share a core, which is sorted
// once. The tile is split in halves again and again, and each half merges the columns or rows that
// only it needs into the core. After each merge, values that can no longer be a median are dropped:
// with p values kept, s dropped below, g dropped above and r = (count - 1) / 2, positions max(0, p
// + g - r - 1) to min(p - 1, r - s) stay. Equal operations are made once, and operations that no
// output needs are removed.
//
// Neighbouring tiles sort the same columns. Where their threads can exchange values, a group of
// columns is sorted and merged once for all tiles that use it.
//
// One generator serves both backends. The CPU interprets the program on vectors of pixels, and the
// CUDA build prints it as code. Callers of the library need nothing from this file.
#pragma once

#include <vector>

namespace vf {

struct MedianNetwork {
  struct Op {
    enum Kind : unsigned char { load, shared, minimum, maximum } kind;
    // load: row a and column b inside the tile's footprint. shared: output a of the group of
    // columns that begins at column b of the footprint, where b may be negative. Otherwise a and b
    // are two earlier operations.
    int a, b;
    bool compares() const { return kind == minimum || kind == maximum; }
  };
  int size_x, size_y, tile_x, tile_y;
  // Each operation stands after those that it uses, and an output needs it.
  std::vector<Op> ops;
  std::vector<int> outputs;  // [y * tile_x + x] is the operation of row y, column x of the tile
  int comparisons = 0;       // number of minima and maxima
};

// Describes a network in two parts. `columns` sorts `group` neighbouring columns and merges them
// two by two. Its loads name rows of the footprint and columns of the group, and its outputs are
// the sorted lists that tiles need, one after the other. `tile` computes the medians from these.
struct SharedMedianNetwork {
  MedianNetwork columns, tile;
};

// Returns a network for windows of size_x by size_y (odd) and a tile whose sides are powers of two.
// The footprint of the tile is (size_x + tile_x - 1) x (size_y + tile_y - 1) pixels. A network is
// made once and kept, because planes and streams ask for the same few. Any thread may call this.
const MedianNetwork& median_network(int size_x, int size_y, int tile_x, int tile_y);

// Returns a network with groups of `group` columns, a power of two that is at most tile_x. Windows
// must be larger than the tile. Groups begin at column tile_x - 1 of the footprint and at every
// `group` columns from there, in both directions.
SharedMedianNetwork shared_median_network(int size_x, int size_y, int tile_x, int tile_y,
                                          int group);

}  // namespace vf
