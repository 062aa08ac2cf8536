// Computes the shape of a region and the weight of a pixel in it. All backends use these functions,
// with the same roundings. Sources that use them are compiled without contraction
// (-ffp-contract=off, -fmad=false).
#pragma once

#include <cmath>
#include <cstdint>

#include "filters/image.h"

#ifdef __CUDACC__
#define VF_REGION_BOTH __host__ __device__ __forceinline__
#else
#define VF_REGION_BOTH inline
#endif

namespace vf {

// Describes the form of a region. A slab is a part of a polygon: it has a horizontal top and
// bottom, and straight sides that may slant.
enum class RegionOutline : uint8_t { box, ellipse, slab };

// A region of one frame, made from a RegionBox (regions.h): expanded, clipped, with its strength.
struct Region {
  float x, y;  // its centre, in pixels of the frame
  // These are half its width and height. A box or a slab is enlarged to cover each pixel that it
  // touches. The width of a slab is that in its middle row.
  float a, b;
  // Cosine and sine of the angle by which it is turned, clockwise. For a slab, the pixels by which
  // its left side (`cos`) and its right side (`sin`) move to the right in a row.
  float cos, sin;
  // The pixels that it may reach, feather included, inside the frame: x0 to x1 - 1, y0 to y1 - 1.
  int x0, y0, x1, y1;
  // Gaussian: sigma in pixels of the frame, and radii of the kernels for planes subsampled by 2^i.
  float sigma_x, sigma_y;
  uint8_t radius_x[4], radius_y[4];
  RegionOutline outline;
  // Pixelation: size of the blocks, and a corner of one of them.
  int block, block_x, block_y;
};

// The settings that weights depend on. They are the same for all regions of a plan.
struct RegionEdges {
  int feather = 0;  // pixels
};

constexpr int kFullWeight = 256;

// Returns half of the extent of a pixel along the axes of a region that is turned by this angle.
VF_REGION_BOTH float pixel_reach(float cos, float sin) {
  return 0.5f * (fabsf(cos) + fabsf(sin));
}
VF_REGION_BOTH float length_of(float x, float y) {
  return sqrtf(x * x + y * y);
}

// Returns how far (dx, dy) from the centre of a slab lies outside of it. The distance from a side
// is measured at a right angle to the side.
VF_REGION_BOTH float outside_slab(const Region& r, float dx, float dy) {
  const float left = (r.cos * dy - r.a - dx) / length_of(1, r.cos);
  const float right = (dx - r.a - r.sin * dy) / length_of(1, r.sin);
  return fmaxf(fmaxf(left, right), fabsf(dy) - r.b);
}

// Returns the weight of pixel (x, y) of the frame in a region, 0 to kFullWeight. A box or a slab
// has full weight, and falls to 0 over `feather` pixels outside of it. An ellipse has full weight
// on every pixel that it touches. Along each line from its centre it falls to 0 between the ellipse
// and the one whose half axes are `feather` pixels longer.
VF_REGION_BOTH int pixel_weight(const Region& r, const RegionEdges& edges, int x, int y) {
  const float dx = float(x) + 0.5f - r.x, dy = float(y) + 0.5f - r.y;
  const float u = fabsf(dx * r.cos + dy * r.sin), v = fabsf(dy * r.cos - dx * r.sin);
  const float feather = float(edges.feather);
  float faded;  // share of the way from full weight to none
  if (r.outline == RegionOutline::ellipse) {
    // The point nearest to the centre of the pixel, or of the square around a turned pixel.
    const float reach = pixel_reach(r.cos, r.sin);
    const float near_u = fmaxf(u - reach, 0), near_v = fmaxf(v - reach, 0);
    // The distance from the centre, as a share of that of the ellipse's edge on the same line.
    const float inner = length_of(near_u / r.a, near_v / r.b);
    if (inner <= 1) return kFullWeight;
    const float outer = length_of(near_u / (r.a + feather), near_v / (r.b + feather));
    if (outer >= 1) return 0;
    faded = (inner - 1) * outer / (inner - outer);
  } else {
    const bool slab = r.outline == RegionOutline::slab;
    const float out = slab ? outside_slab(r, dx, dy) : fmaxf(u - r.a, v - r.b);
    if (out <= 0) return kFullWeight;
    if (out >= feather) return 0;
    faded = out / feather;
  }
  const int weight = kFullWeight - int(ceilf(float(kFullWeight) * faded));
  return weight > 0 ? weight : 0;
}

// Tells whether the sides of a region run along rows and columns.
VF_REGION_BOTH bool is_upright(const Region& r) {
  return r.sin == 0 && r.outline != RegionOutline::slab;
}

// Returns the largest weight of the frame's pixels that sample (x, y) of a plane covers, which is
// subsampled by 2^sub_x, 2^sub_y. It is 0 outside of the rectangle that the region may reach.
VF_REGION_BOTH int region_weight(const Region& r, const RegionEdges& edges, int sub_x, int sub_y,
                                 int x, int y) {
  // The last sample of a row or column may cover pixels beyond the frame, and thus beyond the
  // rectangle.
  const auto most = [](int i, int j) { return i > j ? i : j; };
  const auto least = [](int i, int j) { return i < j ? i : j; };
  const int left = most(x << sub_x, r.x0), top = most(y << sub_y, r.y0);
  const int right = least(((x + 1) << sub_x) - 1, r.x1 - 1);
  const int bottom = least(((y + 1) << sub_y) - 1, r.y1 - 1);
  if (right < left || bottom < top) return 0;
  if (is_upright(r)) {
    // Weights become smaller with the distance along each axis.
    const int cx = int(floorf(r.x)), cy = int(floorf(r.y));
    return pixel_weight(r, edges, most(left, least(cx, right)), most(top, least(cy, bottom)));
  }
  int weight = 0;
  for (int j = top; j <= bottom; j++)
    for (int i = left; i <= right; i++) weight = most(weight, pixel_weight(r, edges, i, j));
  return weight;
}

// Tells whether region i, in which a pixel has the weight `mine`, loses the pixel to region j, in
// which it has the weight `other`. The greater weight wins. If both are equal, the stronger region
// wins, which comes first.
VF_REGION_BOTH bool loses(int mine, int i, int other, int j) {
  return other > mine || (other == mine && j < i);
}

// Mixes a filtered component with the original one. Both are multiples of 1 << shift.
VF_REGION_BOTH int blend(int original, int filtered, int weight, int shift) {
  const int from = original >> shift, to = filtered >> shift;
  return (from + (((to - from) * weight + kFullWeight / 2) >> 8)) << shift;
}

// The samples of a plane that a region may reach.
struct PlaneRect {
  int x0, y0, x1, y1;
};
VF_REGION_BOTH PlaneRect plane_rect(const Region& r, int sub_x, int sub_y, int width, int height) {
  PlaneRect p = {r.x0 >> sub_x, r.y0 >> sub_y, ((r.x1 - 1) >> sub_x) + 1,
                 ((r.y1 - 1) >> sub_y) + 1};
  if (p.x1 > width) p.x1 = width;
  if (p.y1 > height) p.y1 = height;
  return p;
}

// Tells whether every sample of `p` has full weight in the region.
VF_REGION_BOTH bool covers(const Region& r, const RegionEdges& edges, int sub_x, int sub_y,
                           const PlaneRect& p) {
  if (r.outline == RegionOutline::ellipse || !is_upright(r)) return false;
  // A box is convex.
  return region_weight(r, edges, sub_x, sub_y, p.x0, p.y0) == kFullWeight &&
         region_weight(r, edges, sub_x, sub_y, p.x1 - 1, p.y1 - 1) == kFullWeight;
}

// The blocks of a pixelation along one axis of a plane: block b has the samples whose pixels lie
// from origin + b size to origin + (b + 1) size.
struct RegionBlocks {
  int size, origin, sub, length;
  VF_REGION_BOTH int block_of(int sample) const {
    const int64_t at = (int64_t(sample) << sub) - origin;
    return int(at >= 0 ? at / size : -((-at + size - 1) / size));
  }
  VF_REGION_BOTH int edge(int block) const {
    const int64_t at = (origin + int64_t(block) * size + (1 << sub) - 1) >> sub;
    return int(at < 0 ? 0 : at > length ? length : at);
  }
};

}  // namespace vf
