// Gaussian of regions: what its two kinds of passes share. regions_gaussian_bytes.cu has those of
// bytes, regions_gaussian_words.cu those of larger components, regions_gaussian.cu runs them.
//
// The first pass leaves the horizontal sums of a region in device memory, in tiles of 1 KiB as the
// second one takes them: of 16 columns and as many rows as a kind of passes has in a tile.
#pragma once

#include "cuda/regions/regions.cuh"

namespace vf::cuda {

constexpr int kMostReach = 256;   // the largest radius, in whole tiles
constexpr int kSumsBytes = 1024;  // of a tile

struct GaussianArgs {
  RegionArgs r;
  PlaneRect clip;  // of the frame: the pixels of regions that these launches make
  uint4* sums;     // by region, plane, channel, column of tiles, tile
  int middle;      // code
  Border border;
  uint16_t outside[kMaxPlanes][kMaxChannels];  // codes
};

__host__ __device__ constexpr int reach_of(int radius) {
  return (radius + 15) / 16 * 16;
}

// The radius in a plane that is subsampled by 2^sub; without an index that is no constant, as it
// would need the array in memory: the words that have the four bytes.
__host__ __device__ __forceinline__ int radius_in(const uint8_t (&radius)[4], int sub) {
  const uint32_t all = uint32_t(radius[0]) | uint32_t(radius[1]) << 8 | uint32_t(radius[2]) << 16 |
                       uint32_t(radius[3]) << 24;
  return int(all >> (8 * sub) & 0xff);
}

// What both passes agree on: the tiles of a channel of a region's plane.
struct Slab {
  PlaneRect rect;        // samples to be made
  int x;                 // where the tiles start, in samples
  int columns, rows;     // tiles
  int reach_x, reach_y;  // samples around them that the kernels see
  int sum_rows;          // tiles of sums in a column: those of the halo, too

  __host__ __device__ int size() const { return columns * sum_rows; }
};

// kRows: of a tile.
template <int kRows>
__host__ __device__ __forceinline__ Slab slab_of(const PlaneRect& clip, const Region& r,
                                                 const RegionPlane& l) {
  Slab s;
  s.rect = rect_in(l, r);
  s.rect.x0 = max(s.rect.x0, clip.x0 >> l.sub_x), s.rect.x1 = min(s.rect.x1, clip.x1 >> l.sub_x);
  s.rect.y0 = max(s.rect.y0, clip.y0 >> l.sub_y), s.rect.y1 = min(s.rect.y1, clip.y1 >> l.sub_y);
  s.x = s.rect.x0 & ~15;
  const bool empty = s.rect.x0 >= s.rect.x1 || s.rect.y0 >= s.rect.y1;
  s.columns = empty ? 0 : (s.rect.x1 - s.x + 15) / 16;
  s.rows = empty ? 0 : (s.rect.y1 - s.rect.y0 + kRows - 1) / kRows;
  s.reach_x = reach_of(radius_in(r.radius_x, l.sub_x));
  s.reach_y = reach_of(radius_in(r.radius_y, l.sub_y));
  s.sum_rows = s.rows + 2 * s.reach_y / kRows;
  return s;
}

// Blocks of the two launches, and tiles of sums.
struct GaussianWork {
  int64_t first = 0, second = 0, sums = 0;
};

struct GaussianPasses {
  void (*first)(GaussianArgs);
  void (*second)(GaussianArgs);
  unsigned first_threads, second_threads;
  // Of a plane of a region.
  GaussianWork (*work)(const PlaneRect& clip, const Region& r, const RegionPlane& l);
  // Dynamic shared memory, for the largest reach of the regions.
  size_t (*first_shared)(const Layout& layout, int reach);
  size_t (*second_shared)(const Layout& layout, int reach);
};
GaussianPasses gaussian_byte_passes(const Layout& layout);
GaussianPasses gaussian_word_passes(const Layout& layout);

// Whether components have more bits than one half holds as its last.
inline bool is_wide(const Layout& layout) {
  return max_code(layout) > 1023;
}

}  // namespace vf::cuda
