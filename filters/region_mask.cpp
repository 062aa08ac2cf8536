#include "filters/region_mask.h"

#include <algorithm>

namespace vf {
namespace {

struct Rect {
  int x0, y0, x1, y1;
};

// Finds the runs of marked pixels in each row, and joins runs of the same columns in consecutive
// rows. False if there are more than `most` rectangles.
bool cover(const std::vector<uint8_t>& marked, int width, int height, size_t most,
           std::vector<Rect>* rects) {
  rects->clear();
  size_t above = 0;  // the first rectangle that ends at the previous row
  for (int y = 0; y < height; y++) {
    const uint8_t* row = &marked[size_t(y) * width];
    const size_t first = rects->size();
    std::vector<Rect> goes_on;
    for (int x = 0; x < width; x++) {
      if (!row[x]) continue;
      const int x0 = x;
      while (x < width && row[x]) x++;
      Rect r = {x0, y, x, y + 1};
      for (size_t i = above; i < first; i++) {
        Rect& a = (*rects)[i];
        if (a.y1 != y || a.x0 != x0 || a.x1 != x) continue;
        r.y0 = a.y0;
        a.x1 = a.x0;  // gone
      }
      goes_on.push_back(r);
    }
    rects->erase(std::remove_if(rects->begin() + ptrdiff_t(above), rects->end(),
                                [](const Rect& r) { return r.x0 == r.x1; }),
                 rects->end());
    above = rects->size();
    rects->insert(rects->end(), goes_on.begin(), goes_on.end());
    if (rects->size() > most) return false;
  }
  return true;
}

// Makes a mask of half the size along each axis. A pixel is marked if one of those that it replaces
// is.
void halve(std::vector<uint8_t>* marked, int* width, int* height) {
  const int w = (*width + 1) / 2, h = (*height + 1) / 2;
  std::vector<uint8_t> half(size_t(w) * h);
  for (int y = 0; y < *height; y++)
    for (int x = 0; x < *width; x++)
      half[size_t(y / 2) * w + x / 2] |= (*marked)[size_t(y) * *width + x];
  marked->swap(half);
  *width = w;
  *height = h;
}

}  // namespace

void cover_mask(const RegionMask& mask, size_t most, Detection* detection) {
  detection->parts.clear();
  int width = mask.width, height = mask.height, unit = 1;
  std::vector<uint8_t> marked(size_t(width) * height);
  for (int y = 0; y < height; y++)
    std::copy_n(mask.marked + y * mask.stride, width, &marked[size_t(y) * width]);
  std::vector<Rect> rects;
  while (!cover(marked, width, height, std::max<size_t>(most, 1), &rects)) {
    halve(&marked, &width, &height);
    unit *= 2;
  }
  if (rects.empty()) return;
  Rect all = rects[0];
  for (const Rect& r : rects)
    all = {std::min(all.x0, r.x0), std::min(all.y0, r.y0), std::max(all.x1, r.x1),
           std::max(all.y1, r.y1)};
  const auto box = [&](const Rect& r) {
    const double sx = mask.view_width / mask.width, sy = mask.view_height / mask.height;
    const double x1 = std::min(r.x1 * unit, mask.width), y1 = std::min(r.y1 * unit, mask.height);
    const double x = r.x0 * unit, y = r.y0 * unit;
    return make_box(mask.x + x * sx, mask.y + y * sy, (x1 - x) * sx, (y1 - y) * sy);
  };
  detection->box = box(all);
  for (const Rect& r : rects) {
    RegionBox part = box(r);
    part.object_x = detection->box.x;
    part.object_y = detection->box.y;
    part.object_width = detection->box.width;
    part.object_height = detection->box.height;
    detection->parts.push_back(part);
  }
}

}  // namespace vf
