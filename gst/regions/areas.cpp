#include "gst/regions/areas.h"

#include <glib.h>

#include <cmath>

#include "gst/base/errors.h"

namespace gstvf {
namespace {

// Limits of the text: corners of a polygon, boxes that all areas need, and any coordinate.
constexpr size_t kMostCorners = 64;
constexpr size_t kMostBoxes = 512;
constexpr double kFarthest = 1e6;

using Point = vf::RegionArea::Point;

// The numbers of an area, point by point, and how many of them are percentages.
struct Numbers {
  std::vector<std::vector<double>> points;
  size_t count = 0, shares = 0;
};

void skip_space(const char** at) {
  while (g_ascii_isspace(**at)) ++*at;
}

// Reads numbers up to the next semicolon or the end. False if the text is something else.
bool read_numbers(const char** at, Numbers* out) {
  for (bool joins = false;;) {
    skip_space(at);
    if (!joins && (!**at || **at == ';')) return true;
    gchar* end = nullptr;
    const double number = g_ascii_strtod(*at, &end);
    if (end == *at || !(std::abs(number) <= kFarthest)) return false;
    *at = end;
    if (!joins) out->points.emplace_back();
    out->points.back().push_back(number);
    out->count++;
    if (**at == '%') out->shares++, ++*at;
    const char* const after = *at;
    skip_space(at);
    joins = **at == ',';
    if (joins) ++*at;
    if (!joins && *at == after && **at && **at != ';') return false;
  }
}

std::string make_area(const Numbers& n, Areas::Area* out) {
  if (n.shares && n.shares < n.count)
    return "has numbers with and without % in one area: they must be all pixels or all shares";
  out->in_shares = n.shares > 0;
  std::vector<Point>& corners = out->area.corners;
  if (n.points.size() == 1 && n.points[0].size() == 4) {
    const std::vector<double>& b = n.points[0];
    corners = {{b[0], b[1]}, {b[0] + b[2], b[1] + b[3]}};
    if (b[2] > 0 && b[3] > 0) return {};
    return "has a box without an area: its width and height must be more than 0";
  }
  for (const std::vector<double>& p : n.points) {
    if (p.size() != 2) corners.clear();
    if (p.size() != 2) break;
    corners.push_back({p[0], p[1]});
  }
  if (corners.size() >= 3 && corners.size() <= kMostCorners) return {};
  return printed(
      "has something else than areas: each must be a box, x,y,width,height, or a polygon of 3 to "
      "%zu corners, x,y x,y x,y, with a semicolon between areas",
      kMostCorners);
}

}  // namespace

std::string parse_areas(const std::string& text, Areas* out) {
  out->list.clear();
  size_t boxes = 0;
  for (const char* at = text.c_str(); *at; at += *at == ';') {
    Numbers numbers;
    const bool read = read_numbers(&at, &numbers);
    if (read && numbers.points.empty()) continue;
    if (!read) numbers.points.clear();
    Areas::Area area;
    if (std::string wrong = make_area(numbers, &area); !wrong.empty()) return wrong;
    std::vector<vf::RegionBox> covered;
    vf::cover_area(area.area, &covered);
    if (covered.empty())
      return "has a polygon without an area: its corners must be on more than one line";
    boxes += covered.size();
    out->list.push_back(std::move(area));
  }
  if (boxes <= kMostBoxes) return {};
  return printed("needs %zu boxes and parts of polygons: they must be %zu or less", boxes,
                 kMostBoxes);
}

std::vector<vf::RegionBox> boxes_of(const Areas& areas, int width, int height) {
  std::vector<vf::RegionBox> boxes;
  for (Areas::Area area : areas.list) {
    for (Point& p : area.area.corners)
      if (area.in_shares) p = {p.x * width / 100, p.y * height / 100};
    vf::cover_area(area.area, &boxes);
  }
  return boxes;
}

}  // namespace gstvf
