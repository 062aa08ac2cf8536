// Defines functions that the kernels for regions share.
#pragma once

#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"
#include "cuda/regions/regions.h"

namespace vf::cuda {

__device__ __forceinline__ const Region& region_of(const RegionArgs& p, int i) {
  return p.more ? p.more[i] : p.region[i];
}
__host__ __device__ __forceinline__ PlaneRect rect_in(const RegionPlane& l, const Region& r) {
  return plane_rect(r, l.sub_x, l.sub_y, l.width, l.height);
}

// Returns a / b for a below 2^20, where rounding errors cannot reach the next multiple of b.
__device__ __forceinline__ int quotient(int a, int b) {
  return int(__fdividef(float(a) + 0.5f, float(b)));
}

// The work of a block: tile `index` of a plane of a region.
struct RegionTile {
  int region, plane, index;
  bool plain;  // RegionStart::plain
};

// The other regions that reach into a tile. Some of its samples may belong to them.
struct Rivals {
  static constexpr int kBoxes = 8;
  int count;
  bool covered;  // all of the tile belongs to one of them
  // The tile has full weight in its region, `box` lists all rivals, and each of them is stronger
  // and has full weight in all of its rectangle.
  bool boxes;
  PlaneRect box[kBoxes];
  uint16_t index[RegionParams::kMost];
};

// Returns the start of this block in launch kLaunch of two that share their arguments: the last one
// that is not after the block. If there are few, each lane of a warp looks at one of them, so that
// one load brings all lines of them. Otherwise all threads read the same constant at a time: the
// GPU would read different constants of the lanes one after the other.
template <int kLaunch>
__device__ __forceinline__ RegionStart find_start(const RegionArgs& p) {
  const int block = int(blockIdx.x), last = p.starts - 1;
  if (last < kFewStarts && !p.more) {
    const int lane = int(threadIdx.x % 32);
    const bool before = p.start[lane].block[kLaunch] <= block;
    return p.start[__popc(__ballot_sync(~0u, lane <= last && before)) - 1];
  }
  const auto search = [&](const RegionStart* starts) {
    int i = p.hint[kLaunch][min(block >> p.hint_shift[kLaunch], kRegionHints - 1)];
#pragma unroll 1
    while (i < last && starts[i + 1].block[kLaunch] <= block) i++;
    return starts[i];
  };
  return p.more ? search(p.more_start) : search(p.start);
}
// Copies a region. A pointer that may point to both lists would be followed for each field.
__device__ __forceinline__ Region copy_of_region(const RegionArgs& p, int i) {
  if (p.more) return p.more[i];
  return p.region[i];
}

__device__ __forceinline__ RegionTile find_tile(const RegionArgs& p) {
  const RegionStart s = find_start<0>(p);
  return {s.region, s.plane, int(blockIdx.x) - s.block[0], s.plain != 0};
}

// Finds the other regions that reach into a tile, and waits for all threads. `rect` is not empty.
__device__ __forceinline__ void find_rivals(const RegionArgs& p, const RegionTile& t,
                                            const PlaneRect& rect, Rivals* rivals) {
  const RegionPlane& l = p.plane[t.plane];
  const bool full = covers(region_of(p, t.region), p.edges, l.sub_x, l.sub_y, rect);
  if (threadIdx.x == 0) rivals->count = 0, rivals->covered = false, rivals->boxes = full;
  __syncthreads();
  // Where this region has full weight, weaker ones have no samples.
  const int count = full ? t.region : p.count;
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += int(blockDim.x)) {
    const Region& r = region_of(p, i);
    const PlaneRect own = rect_in(l, r);
    if (i == t.region || own.x0 >= rect.x1 || own.x1 <= rect.x0 || own.y0 >= rect.y1 ||
        own.y1 <= rect.y0)
      continue;
    const int at = atomicAdd(&rivals->count, 1);
    rivals->index[at] = uint16_t(i);
    if (at < Rivals::kBoxes) rivals->box[at] = own;
    if (at >= Rivals::kBoxes || !covers(r, p.edges, l.sub_x, l.sub_y, own)) rivals->boxes = false;
    if (i < t.region && covers(r, p.edges, l.sub_x, l.sub_y, rect)) rivals->covered = true;
  }
  __syncthreads();
}

// Returns the weight of a sample in the tile's region, or -1 if it belongs to another region.
__device__ __forceinline__ int own_weight(const RegionArgs& p, const RegionTile& t,
                                          const Rivals& rivals, int x, int y) {
  if (rivals.boxes) {
    bool free = true;
#pragma unroll 1
    for (int i = 0; i < rivals.count; i++) {
      const PlaneRect& b = rivals.box[i];
      free &= x < b.x0 || x >= b.x1 || y < b.y0 || y >= b.y1;
    }
    return free ? kFullWeight : -1;
  }
  const RegionPlane& l = p.plane[t.plane];
  const int own = region_weight(region_of(p, t.region), p.edges, l.sub_x, l.sub_y, x, y);
  for (int i = 0; i < rivals.count; i++) {
    const int other = rivals.index[i];
    const Region& r = region_of(p, other);
    const PlaneRect rect = rect_in(l, r);
    if (x < rect.x0 || x >= rect.x1 || y < rect.y0 || y >= rect.y1) continue;
    if (loses(own, t.region, region_weight(r, p.edges, l.sub_x, l.sub_y, x, y), other)) return -1;
  }
  return own;
}

template <class T>
__device__ __forceinline__ const T* sample_at(const RegionPlane& l, int x, int y) {
  return reinterpret_cast<const T*>(l.src + ptrdiff_t(y) * l.src_stride) + ptrdiff_t(x) * l.step;
}
template <class T>
__device__ __forceinline__ T* result_at(const RegionPlane& l, int x, int y) {
  return reinterpret_cast<T*>(l.dst + ptrdiff_t(y) * l.dst_stride) + ptrdiff_t(x) * l.step;
}

// The tiles of a rectangle start at multiples of their size in the plane.
template <int kWidth, int kHeight>
struct TileGrid {
  __host__ __device__ static int columns(const PlaneRect& r) {
    return (r.x1 + kWidth - 1) / kWidth - r.x0 / kWidth;
  }
  __host__ __device__ static int rows(const PlaneRect& r) {
    return (r.y1 + kHeight - 1) / kHeight - r.y0 / kHeight;
  }
  // Returns the part of tile `index` that is in the rectangle. The whole tile starts at (x, y).
  __device__ static PlaneRect tile(const PlaneRect& r, int index, int* x, int* y) {
    const int n = columns(r);
    *x = (r.x0 / kWidth + index % n) * kWidth;
    *y = (r.y0 / kHeight + index / n) * kHeight;
    return {max(*x, r.x0), max(*y, r.y0), min(*x + kWidth, r.x1), min(*y + kHeight, r.y1)};
  }
};

}  // namespace vf::cuda
