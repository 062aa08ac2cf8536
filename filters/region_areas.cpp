#include "filters/region_areas.h"

#include <algorithm>
#include <cmath>

namespace vf {
namespace {

using Point = RegionArea::Point;

// A side of a polygon that is not horizontal, from its upper to its lower end.
struct Side {
  Point top, bottom;
  int turn;  // 1 if the polygon goes down along it, else -1
  double at(double y) const {
    return top.x + (y - top.y) / (bottom.y - top.y) * (bottom.x - top.x);
  }
};

// The slabs between two heights lie between sides `left` and `right`.
struct Slab {
  double top, bottom;
  const Side *left, *right;
};

std::vector<Side> sides_of(const std::vector<Point>& corners) {
  std::vector<Side> sides;
  for (size_t i = 0; i < corners.size(); i++) {
    const Point a = corners[i], b = corners[(i + 1) % corners.size()];
    if (a.y < b.y) sides.push_back({a, b, 1});
    if (a.y > b.y) sides.push_back({b, a, -1});
  }
  return sides;
}

// Returns the heights at which the order of the sides from left to right may change.
std::vector<double> heights_of(const std::vector<Side>& sides) {
  std::vector<double> heights;
  for (size_t i = 0; i < sides.size(); i++) {
    const Side& a = sides[i];
    heights.insert(heights.end(), {a.top.y, a.bottom.y});
    for (size_t j = 0; j < i; j++) {
      const Side& b = sides[j];
      const double top = std::max(a.top.y, b.top.y), bottom = std::min(a.bottom.y, b.bottom.y);
      if (top >= bottom) continue;
      const double above = a.at(top) - b.at(top), below = a.at(bottom) - b.at(bottom);
      if (above * below < 0) heights.push_back(top + above / (above - below) * (bottom - top));
    }
  }
  std::sort(heights.begin(), heights.end());
  heights.erase(std::unique(heights.begin(), heights.end()), heights.end());
  return heights;
}

std::vector<Slab> slabs_of(const std::vector<Side>& sides) {
  std::vector<Slab> slabs;
  const std::vector<double> heights = heights_of(sides);
  for (size_t i = 0; i + 1 < heights.size(); i++) {
    const double top = heights[i], bottom = heights[i + 1], middle = (top + bottom) / 2;
    std::vector<const Side*> here;
    for (const Side& s : sides)
      if (s.top.y <= top && s.bottom.y >= bottom) here.push_back(&s);
    std::stable_sort(here.begin(), here.end(), [middle](const Side* a, const Side* b) {
      return a->at(middle) < b->at(middle);
    });
    int turns = 0;
    const Side* left = nullptr;
    for (const Side* s : here) {
      if (turns == 0) left = s;
      turns += s->turn;
      if (turns != 0 || s->at(middle) <= left->at(middle)) continue;
      const auto above = std::find_if(slabs.begin(), slabs.end(), [&](const Slab& b) {
        return b.bottom == top && b.left == left && b.right == s;
      });
      if (above != slabs.end())
        above->bottom = bottom;
      else
        slabs.push_back({top, bottom, left, s});
    }
  }
  return slabs;
}

}  // namespace

void cover_area(const RegionArea& area, std::vector<RegionBox>* boxes) {
  Point least = area.corners[0], most = least;
  for (const Point& p : area.corners) {
    least = {std::min(least.x, p.x), std::min(least.y, p.y)};
    most = {std::max(most.x, p.x), std::max(most.y, p.y)};
  }
  RegionBox whole = make_box(least.x, least.y, most.x - least.x, most.y - least.y);
  whole.area = true;
  if (!(whole.width > 0 && whole.height > 0)) return;
  if (area.corners.size() < 3) return boxes->push_back(whole);
  // Sides that slant more than this are almost horizontal, and their slab is about a row high: its
  // box takes its place.
  constexpr double kSteepest = 4096;
  const std::vector<Side> sides = sides_of(area.corners);
  for (const Slab& s : slabs_of(sides)) {
    RegionBox b = whole;
    b.y = s.top;
    b.height = s.bottom - s.top;
    b.left[0] = s.left->at(s.top);
    b.left[1] = s.left->at(s.bottom);
    b.right[0] = s.right->at(s.top);
    b.right[1] = s.right->at(s.bottom);
    b.x = std::min(b.left[0], b.left[1]);
    b.width = std::max(b.right[0], b.right[1]) - b.x;
    const double slant =
        std::max(std::abs(b.left[1] - b.left[0]), std::abs(b.right[1] - b.right[0]));
    b.slab = slant > 0 && slant < kSteepest * b.height;
    boxes->push_back(b);
  }
}

}  // namespace vf
