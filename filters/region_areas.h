// Turns areas that are always filtered, boxes and polygons, into boxes of regions.h.
//
// A polygon is divided into slabs, each with a horizontal top and bottom and straight sides, so
// that a region needs as few numbers as a box. Where sides of the polygon cross, all parts that it
// goes round are inside.
#pragma once

#include <vector>

#include "filters/regions.h"

namespace vf {

struct RegionArea {
  struct Point {
    double x, y;
  };
  std::vector<Point> corners;  // at least three; two are opposite corners of a box
};

// Adds the boxes that cover an area to `boxes`. Adds none if the area is empty. A coordinate must
// be finite.
void cover_area(const RegionArea& area, std::vector<RegionBox>* boxes);

}  // namespace vf
