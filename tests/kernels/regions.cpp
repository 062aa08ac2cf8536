#include "filters/regions.h"

#include <cmath>

#include "filters/region_areas.h"

#include "tests/kernels/harness.h"
#include "tests/regions.h"

namespace vf::test {
namespace {

using Boxes = std::vector<RegionBox>;

RegionGaussian gaussian(double sigma, double relative = 0) {
  RegionGaussian g;
  g.params.sigma = sigma;
  g.sigma_relative = relative;
  return g;
}
RegionMedian median(int size) {
  RegionMedian m;
  m.params.size = size;
  return m;
}
RegionPixelate pixelate(int size, bool from_box = false) {
  RegionPixelate p;
  p.params.block_size = size;
  p.from_box = from_box;
  return p;
}
void set_channels(RegionFilter* filter, int plane, uint8_t mask) {
  std::visit([&](auto& f) { f.params.channels[plane] = mask; }, *filter);
}

Context::Make maker(const Layout& layout, const RegionParams& params, const RegionFilter& filter,
                    const Boxes& boxes, bool whole = false) {
  return [=](Queue& queue, Placement placement, std::unique_ptr<Plan>* out) -> Status {
    std::unique_ptr<RegionsPlan> plan;
    VF_TRY(make_regions(queue, layout, params, filter, placement, &plan));
    VF_TRY(plan->set_boxes(boxes.data(), boxes.size()));
    if (whole) plan->set_whole();
    *out = std::move(plan);
    return {};
  };
}

void one(Context& context, const std::string& name, const Layout& layout,
         const RegionParams& params, const RegionFilter& filter, const Boxes& boxes,
         Pattern pattern = Pattern::noise, Geometry geometry = {}) {
  Tolerance tolerance = regions_contract(filter, layout.type);
  // Most means of a checkerboard are halves, which any error rounds the other way.
  if (std::holds_alternative<RegionGaussian>(filter) &&
      (pattern == Pattern::extremes || pattern == Pattern::impulses))
    tolerance.equal = 0;
  context.check("regions " + name, layout, layout, pattern, geometry, tolerance, true,
                maker(layout, params, filter, boxes));
}

// Returns the filters and the settings that are checked.
const std::vector<std::pair<const char*, RegionFilter>>& filters() {
  static const std::vector<std::pair<const char*, RegionFilter>> all = {
      {"sigma 1.2", gaussian(1.2)},
      {"sigma 9", gaussian(9)},
      {"relative 0.1", gaussian(0, 0.1)},
      {"relative 0.5", gaussian(0, 0.5)},
      {"median 5", median(5)},
      {"median 21", median(21)},
      {"blocks 3", pixelate(3)},
      {"blocks 11 from the box", pixelate(11, true)},
      {"blocks of the box", pixelate(0)},
      {"blocks of the box, from it", pixelate(0, true)},
  };
  return all;
}

// Returns boxes for a frame of this size that lie next to each other, on top of each other, over
// the edges and outside.
Boxes some_boxes(int w, int h) {
  return {make_box(w * 0.1, h * 0.2, w * 0.3, h * 0.4),
          make_box(w * 0.25, h * 0.3, w * 0.4, 9),
          make_box(-7, -3, 20.5, 11.25),
          make_box(w - 10.5, h - 8, 40, 40),
          make_box(w + 1, 3, 10, 10),
          make_box(w * 0.6, h * 0.1, 13, 17, 0.6)};
}

RegionParams edges(bool ellipse, int feather, bool invert = false, double expand = 0.1) {
  RegionParams p;
  p.shape = ellipse ? RegionShape::ellipse : RegionShape::box;
  p.feather = feather;
  p.invert = invert;
  p.expand = expand;
  return p;
}

// ---- geometry, by hand ----

void expect_rect(Context& context, const std::string& what, const RegionParams& params,
                 const RegionBox& box, const std::vector<int>& want) {
  const std::string name = "regions geometry: " + what;
  if (!context.wants(name)) return;
  std::vector<Region> got;
  prepare_regions(params, gaussian(1), Type::u8, 100, 80, &box, 1, &got);
  std::string failure;
  if (want.empty() != got.empty())
    failure = text("%zu regions", got.size());
  else if (!want.empty() && (got[0].x0 != want[0] || got[0].y0 != want[1] || got[0].x1 != want[2] ||
                             got[0].y1 != want[3]))
    failure = text("%d to %d, %d to %d", got[0].x0, got[0].x1, got[0].y0, got[0].y1);
  context.result(name, failure);
}

void geometry(Context& context) {
  const RegionParams plain = edges(false, 0, false, 0);
  const double far = 2147483648.0;
  expect_rect(context, "whole pixels", plain, make_box(10, 20, 30, 40), {10, 20, 40, 60});
  expect_rect(context, "pixels that are touched", plain, make_box(10.9, 20.1, 0.2, 0.2),
              {10, 20, 12, 21});
  expect_rect(context, "expanded", edges(false, 0, false, 0.5), make_box(10, 20, 10, 20),
              {5, 10, 25, 50});
  expect_rect(context, "feathered", edges(false, 3, false, 0), make_box(10, 20, 10, 20),
              {7, 17, 23, 43});
  expect_rect(context, "clipped", plain, make_box(-10, -20, 30, 4000), {0, 0, 20, 80});
  expect_rect(context, "larger than the frame", plain, make_box(-far, -far, 2 * far, 2 * far),
              {0, 0, 100, 80});
  expect_rect(context, "the end of 32 bits", plain, make_box(far - 1, 0, far, 10), {});
  expect_rect(context, "from its start on", plain, make_box(50, 40, far, far), {50, 40, 100, 80});
  expect_rect(context, "of no width", plain, make_box(10, 20, 0, 40), {});
  expect_rect(context, "of negative height", plain, make_box(10, 20, 30, -40), {});
  expect_rect(context, "outside", plain, make_box(100, 20, 30, 40), {});
  expect_rect(context, "no numbers", plain, make_box(NAN, NAN, NAN, NAN), {});
  expect_rect(context, "infinite", plain, make_box(0, 0, INFINITY, INFINITY), {0, 0, 100, 80});
  expect_rect(context, "turned a quarter", plain, make_box(40, 20, 20, 10, M_PI / 2),
              {44, 14, 56, 36});

  const std::string most = "regions geometry: more than can be told apart";
  if (context.wants(most)) {
    Boxes boxes;
    for (int i = 0; i < 3000; i++) boxes.push_back(make_box(i % 90, 3 + i % 60, 2, 2));
    std::vector<Region> got;
    prepare_regions(plain, gaussian(1), Type::u8, 100, 80, boxes.data(), boxes.size(), &got);
    std::string failure;
    for (const RegionBox& b : boxes) {
      int weight = 0;
      for (const Region& r : got)
        weight = std::max(weight, region_weight(r, {}, 0, 0, int(b.x), int(b.y)));
      if (weight != kFullWeight) failure = text("%g,%g is clear", b.x, b.y);
    }
    if (got.size() > RegionParams::kMost) failure = text("%zu regions", got.size());
    context.result(most, failure);
  }
  const std::string always = "regions geometry: with invert, areas are taken out of boxes";
  if (context.wants(always)) {
    Boxes boxes = {make_box(10, 10, 60, 60), make_box(41, 20, 10, 11), make_box(0, 60, 20, 20)};
    for (const size_t i : {1, 2}) boxes[i].area = boxes[i].always = true;
    std::vector<Region> got;
    prepare_regions(edges(false, 0, true, 0), gaussian(1), Type::u8, 100, 80, boxes.data(),
                    boxes.size(), &got);
    std::string failure;
    for (int y = 0; y < 80; y++)
      for (int x = 0; x < 100; x++) {
        int weight = 0;
        for (const Region& r : got) weight = std::max(weight, region_weight(r, {}, 0, 0, x, y));
        // Areas are taken out in whole samples of any subsampled plane.
        const bool box = x >= 10 && x < 70 && y >= 10 && y < 70;
        const bool first = x >= 40 && x < 56 && y >= 16 && y < 32, second = x < 24 && y >= 56;
        if ((weight == kFullWeight) != (box && !first && !second)) failure = text("%d,%d", x, y);
      }
    context.result(always, failure);
  }
  const std::string order = "regions geometry: the strongest first, what it covers left out";
  if (context.wants(order)) {
    const Boxes boxes = {make_box(22, 22, 5, 5), make_box(10, 10, 10, 10),
                         make_box(20, 20, 40, 40)};
    std::vector<Region> got;
    prepare_regions(plain, gaussian(0, 0.1), Type::u8, 100, 80, boxes.data(), boxes.size(), &got);
    context.result(order, got.size() == 2 && got[0].sigma_x == 4.f && got[1].sigma_x == 1.f
                              ? ""
                              : text("%zu regions", got.size()));
  }
  const std::string limit = "regions geometry: sigma has a limit";
  if (context.wants(limit)) {
    const RegionBox box = make_box(0, 0, 5000, 5000);
    std::vector<Region> bytes, words;
    prepare_regions(plain, gaussian(0, 0.1), Type::u8, 5000, 5000, &box, 1, &bytes);
    prepare_regions(plain, gaussian(0, 0.1), Type::u16, 5000, 5000, &box, 1, &words);
    const bool right = bytes[0].sigma_x == 85.f && words[0].sigma_x == 63.75f &&
                       bytes[0].radius_x[0] == 255 && words[0].radius_y[0] == 255;
    context.result(limit,
                   right ? "" : text("%g, %g", double(bytes[0].sigma_x), double(words[0].sigma_x)));
  }
}

// Checks that an ellipse has full weight in every pixel that one of its points lies in.
void ellipses_cover(Context& context) {
  const struct {
    double width, height, angle, x, y;
  } rows[] = {{110, 4, 0, 70, 50},        {28, 5, 0, 70, 50},         {160, 20, 0, 100.3, 50.7},
              {3, 150, 0, 70.5, 90},      {0.4, 0.3, 0, 70.9, 50.1},  {64, 64, 0, 70, 50},
              {110, 4, 0.5, 70.2, 50.4},  {28, 5, M_PI / 4, 70, 50},  {90, 1, 2.5, 70, 50},
              {40, 30, 1, 32000.3, 50.6}, {3, 90, 0.2, 32000.6, 60.2}};
  for (const auto& r : rows) {
    const std::string name = text("regions ellipse %g x %g turned by %g at %g,%g covers", r.width,
                                  r.height, r.angle, r.x, r.y);
    if (!context.wants(name)) continue;
    const RegionParams params = edges(true, 0, false, 0);
    const RegionBox box =
        make_box(r.x - r.width / 2, r.y - r.height / 2, r.width, r.height, r.angle);
    std::vector<Region> regions;
    prepare_regions(params, gaussian(1), Type::u8, 40000, 200, &box, 1, &regions);
    constexpr int kAngles = 20000, kRings = 16;
    int clear = regions.empty();
    for (int i = 0; i < kAngles * kRings && !regions.empty(); i++) {
      const double at = 2 * M_PI * (i / kRings) / kAngles, ring = 1 - i % kRings / double(kRings);
      const double u = ring * r.width / 2 * std::cos(at), v = ring * r.height / 2 * std::sin(at);
      const double x = r.x + u * std::cos(r.angle) - v * std::sin(r.angle);
      const double y = r.y + u * std::sin(r.angle) + v * std::cos(r.angle);
      clear += region_weight(regions[0], edges_of(params), 0, 0, int(std::floor(x)),
                             int(std::floor(y))) != kFullWeight;
    }
    context.result(name, clear ? text("%d points are clear", clear) : "");
  }
}

// ---- polygons ----

using Corners = std::vector<RegionArea::Point>;

Boxes covered(const std::vector<Corners>& polygons) {
  Boxes boxes;
  for (const Corners& p : polygons) cover_area({p}, &boxes);
  return boxes;
}

// Returns polygons for a frame of this size: convex, notched, and with sides that cross.
Boxes some_polygons(double w, double h) {
  return covered({{{w * .1, h * .1}, {w * .4, h * .25}, {w * .15, h * .7}},
                  {{w * .5, h * .2}, {w * .9, h * .2}, {w * .9, h * .9}, {w * .7, h * .4}},
                  {{-9, h * .6}, {w * .5, h + 5}, {w * .4, h * .55}, {w * .05, h * .95}}});
}

// How often a polygon goes round a point. `distance` is that of the point from its sides.
int turns_around(const Corners& p, double x, double y, double* distance) {
  double turns = 0;
  *distance = INFINITY;
  for (size_t i = 0; i < p.size(); i++) {
    const double ax = p[i].x - x, ay = p[i].y - y;
    const double bx = p[(i + 1) % p.size()].x - x, by = p[(i + 1) % p.size()].y - y;
    turns += std::atan2(ax * by - ay * bx, ax * bx + ay * by);
    const double dx = bx - ax, dy = by - ay, square = dx * dx + dy * dy;
    const double t = square > 0 ? std::clamp(-(ax * dx + ay * dy) / square, 0.0, 1.0) : 0;
    *distance = std::min(*distance, std::hypot(ax + t * dx, ay + t * dy));
  }
  return int(std::lround(turns / (2 * M_PI)));
}

// Checks that the slabs of a polygon have all pixels that a point of it lies in, and none that are
// more than a pixel away from it. A slab whose sides are almost horizontal may have a row more.
void polygons_cover(Context& context) {
  const struct {
    const char* what;
    Corners corners;
    size_t boxes;
  } rows[] = {
      {"a rectangle", {{10, 20}, {50, 20}, {50, 60}, {10, 60}}, 1},
      {"a triangle", {{10.3, 5.2}, {150.7, 40.1}, {30.5, 90.9}}, 2},
      {"a triangle, the other way", {{10.3, 5.2}, {30.5, 90.9}, {150.7, 40.1}}, 2},
      {"a needle", {{20, 10}, {20.2, 90}, {20.6, 10}}, 1},
      {"a flat needle", {{5, 50}, {190, 50.4}, {190, 50.9}}, 2},
      {"less than a pixel", {{33.4, 33.4}, {33.6, 33.5}, {33.5, 33.6}}, 2},
      {"a notch", {{10, 10}, {90, 10}, {90, 90}, {50, 30}, {10, 90}}, 3},
      {"a comb", {{0, 0}, {100, 0}, {100, 80}, {80, 20}, {60, 80}, {40, 20}, {20, 80}}, 0},
      {"two sides that cross", {{10, 10}, {90, 90}, {90, 10}, {10, 90}}, 4},
      {"a star", {{100, 5}, {140, 95}, {40, 35}, {160, 35}, {60, 95}}, 0},
      {"over the edges", {{-50, -20}, {260, 50}, {70, 170}}, 2},
      {"far away", {{30010.3, 5.2}, {30150.7, 40.1}, {30030.5, 90.9}}, 2},
  };
  for (const auto& row : rows) {
    const std::string name = text("regions polygon: %s", row.what);
    if (!context.wants(name)) continue;
    const Boxes boxes = covered({row.corners});
    std::vector<Region> regions;
    prepare_regions(edges(true, 0, false, .4), gaussian(1), Type::u8, 40000, 100, boxes.data(),
                    boxes.size(), &regions);
    const auto weight = [&](int x, int y) {
      int most = 0;
      for (const Region& r : regions) most = std::max(most, region_weight(r, {}, 0, 0, x, y));
      return most;
    };
    const int from = row.corners[0].x > 1000 ? 30000 : 0;
    int clear = 0, too_many = 0, inside = 0;
    constexpr int kPoints = 5;
    for (int y = 0; y < 100; y++)
      for (int x = from; x < from + 200; x++) {
        bool touches = false;
        double away = INFINITY;
        for (int i = 0; i < kPoints * kPoints; i++) {
          double distance;
          touches |= turns_around(row.corners, x + (i % kPoints + .5) / kPoints,
                                  y + (i / kPoints + .5) / kPoints, &distance) != 0;
          away = std::min(away, distance);
        }
        inside += touches;
        clear += touches && weight(x, y) != kFullWeight;
        too_many += !touches && away > 1 && weight(x, y) != 0;
      }
    std::string failure;
    if (row.boxes && boxes.size() != row.boxes) failure = text("%zu boxes", boxes.size());
    if (clear || too_many)
      failure =
          text("%d pixels are clear, %d are filtered in vain, of %d", clear, too_many, inside);
    context.result(name, failure);
  }
  const std::string none = "regions polygon: without an area";
  if (context.wants(none))
    context.result(none, covered({{{1, 1}, {5, 9}, {3, 5}}, {{1, 5}, {9, 5}, {4, 5}}}).empty()
                             ? ""
                             : "has boxes");
}

// Checks weights against values computed by hand.
void weights(Context& context) {
  const auto weight = [](const RegionParams& p, const RegionBox& box, int sub, int x, int y) {
    std::vector<Region> r;
    prepare_regions(p, gaussian(1), Type::u8, 250, 98, &box, 1, &r);
    return r.empty() ? 0 : region_weight(r[0], edges_of(p), sub, sub, x, y);
  };
  RegionBox area = make_box(10, 10, 40, 20);
  area.area = true;
  const auto diagonal = [] { return covered({{{10, 10}, {30, 30}, {10, 30}}})[0]; };
  const struct {
    const char* what;
    RegionParams params;
    RegionBox box;
    int sub, x, y, want;
  } rows[] = {
      {"inside", edges(false, 0, false, 0), make_box(10, 10, 4, 4), 0, 13, 13, 256},
      {"outside", edges(false, 0, false, 0), make_box(10, 10, 4, 4), 0, 14, 13, 0},
      {"chroma that it touches", edges(false, 0, false, 0), make_box(11, 11, 4, 4), 1, 5, 5, 256},
      {"chroma beside it", edges(false, 0, false, 0), make_box(11, 11, 4, 4), 1, 8, 7, 0},
      {"halfway out", edges(false, 5, false, 0), make_box(10, 10, 4, 4), 0, 16, 12, 128},
      {"all the way out", edges(false, 5, false, 0), make_box(10, 10, 4, 4), 0, 19, 12, 0},
      {"an ellipse's middle", edges(true, 0, false, 0), make_box(10, 10, 40, 20), 0, 30, 20, 256},
      {"an ellipse's corner", edges(true, 0, false, 0), make_box(10, 10, 40, 20), 0, 11, 11, 0},
      {"an ellipse's first pixel outside", edges(true, 0, false, 0), make_box(10.5, 10.5, 39, 19),
       0, 50, 20, 0},
      {"an ellipse, faded along its length", edges(true, 20, false, 0), make_box(45, 30, 160, 20),
       0, 215, 40, 128},
      {"an ellipse, last faded along its length", edges(true, 20, false, 0),
       make_box(45, 30, 160, 20), 0, 224, 40, 12},
      {"an ellipse, beyond along its length", edges(true, 20, false, 0), make_box(45, 30, 160, 20),
       0, 225, 40, 0},
      {"an ellipse, faded along its height", edges(true, 20, false, 0), make_box(45, 30, 160, 20),
       0, 125, 60, 128},
      {"an ellipse, beyond along its height", edges(true, 20, false, 0), make_box(45, 30, 160, 20),
       0, 125, 70, 0},
      {"chroma of columns beyond the frame", edges(true, 0, false, 0), make_box(250.3, 20, 40, 40),
       2, 62, 10, 0},
      {"chroma of rows beyond the frame", edges(true, 0, false, 0), make_box(20, 98.3, 40, 40), 2,
       10, 24, 0},
      {"a turned box's tip", edges(false, 0, false, 0), make_box(20, 20, 20, 20, M_PI / 4), 0, 30,
       17, 256},
      {"a turned box's former corner", edges(false, 0, false, 0),
       make_box(20, 20, 20, 20, M_PI / 4), 0, 20, 20, 0},
      // The side goes from (10, 10) to (30, 30). The pixel's nearest corner is 7 pixels to the right
      // of it, which is 4.95 away.
      {"beside a slanting side", edges(false, 10, false, 0), diagonal(), 0, 27, 19, 129},
      {"touched by a slanting side at a corner", edges(false, 0, false, 0), diagonal(), 0, 20, 19,
       256},
      {"inside of a slanting side", edges(false, 10, false, 0), diagonal(), 0, 20, 20, 256},
      {"an area has no other shape", edges(true, 0, false, 0), area, 0, 10, 10, 256},
      {"an area does not grow", edges(false, 0, false, 1), area, 0, 9, 10, 0},
  };
  for (const auto& r : rows) {
    const std::string name = text("regions weight %s", r.what);
    if (!context.wants(name)) continue;
    const int got = weight(r.params, r.box, r.sub, r.x, r.y);
    context.result(name, got == r.want ? "" : text("%d, not %d", got, r.want));
  }
}

// Checks the size of automatic blocks, which the reference has from the same function.
void automatic_blocks(Context& context) {
  const std::string name = "regions automatic blocks have a third of the object's smaller side";
  if (!context.wants(name)) return;
  const RegionBox box = make_box(10, 20, 100, 70);
  std::vector<Region> r;
  prepare_regions(edges(false, 0, false, 0), RegionPixelate{}, Type::u8, 250, 98, &box, 1, &r);
  const int block = r.empty() ? 0 : r[0].block;
  context.result(name, block == 24 ? "" : text("they have %d pixels", block));
}

// Checks the Gaussian where the places of regions matter: side by side, overlapping, and many.
void placed_cases(Context& context) {
  // Two regions lie so far apart that the kernel just reaches from one to the other, or just does
  // not. Sigma 5 has a radius of 15.
  for (const int gap : {15, 16, 23, 24, 40}) {
    const Boxes boxes = {make_box(70, 20, 50, 33), make_box(120 + gap, 25, 60, 61),
                         make_box(75, 53 + gap, 31, 17)};
    one(context, text("gap %d", gap), nv12_layout(320, 160), edges(false, 0, false, 0), gaussian(5),
        boxes);
  }
  for (int channels = 1; channels <= 4; channels++) {
    const Layout packed = packed_layout(Type::u8, channels, 180, 130);
    const Boxes boxes = {make_box(31, 22, 75, 70), make_box(140, 90, 50, 50)};
    one(context, text("x%d", channels), packed, edges(false, 0, false, 0), gaussian(0, .1), boxes);
    one(context, text("x%d ellipse", channels), packed, edges(true, 5), gaussian(0, .1), boxes);
    one(context, text("x%d overlapping", channels), packed, {}, gaussian(4), some_boxes(180, 130));
  }
  one(context, "large", i420_layout(420, 260), {}, gaussian(0, 0.15), {make_box(60, 40, 250, 180)});
  // The region is smaller than a tile.
  one(context, "small", i420_layout(120, 60), {}, gaussian(1.5),
      {make_box(20, 20, 3, 2), make_box(60, 30, 1, 1)});
  // The border takes pixels from the frame's other side.
  RegionGaussian wrap = gaussian(4);
  wrap.params.border = Border::wrap;
  one(context, "wrap", nv12_layout(200, 120), {}, wrap,
      {make_box(0, 30, 20, 20), make_box(185, 30, 20, 20)});
  Boxes boxes;
  for (int i = 0; i < 150; i++) boxes.push_back(make_box(20 + i % 15 * 30, 20 + i / 15 * 28, 6, 5));
  one(context, "more than a launch's arguments hold", i420_layout(480, 310),
      edges(false, 0, false, 0), gaussian(1), boxes);
}

void random_case(Context& context, int number) {
  Random random = context.random(text("regions random %d", number));
  const Type type = random.between(0, 1) ? Type::u8 : Type::u16;
  const int w = random.between(1, random.between(1, 300)), h = random.between(1, 120);
  Layout layout = packed_layout(type, random.between(1, 4), w, h);
  PlaneLayout& l = layout.plane[0];
  l.step = l.channels + random.between(0, 3) / 3;
  l.sub_x = random.between(0, 3) / 2;
  l.sub_y = random.between(0, 2) / 2;
  if (type == Type::u16 && random.between(0, 1)) layout.shift = 6, layout.max_value = 1023;
  RegionFilter filter = filters()[size_t(random.between(0, int(filters().size()) - 1))].second;
  if (random.between(0, 3) == 0) set_channels(&filter, 0, uint8_t(random.between(1, 15)));
  if (auto* g = std::get_if<RegionGaussian>(&filter)) {
    const Border borders[] = {Border::reflect_101, Border::replicate, Border::constant,
                              Border::wrap, Border::reflect};
    g->params.border = borders[random.between(0, 4)];
    for (double& v : g->params.border_value[0]) v = random.between(0, 255);
  }
  const RegionParams params =
      edges(random.between(0, 1), random.between(0, 2) * random.between(0, 9),
            random.between(0, 4) == 0, random.unit() * 0.3);
  Boxes boxes;
  for (int i = random.between(0, random.between(0, 3) ? 5 : 60); i > 0; i--)
    boxes.push_back(make_box(random.unit() * w * 1.4 - w * 0.2, random.unit() * h * 1.4 - h * 0.2,
                             random.unit() * w * 0.7, random.unit() * h * 0.7,
                             random.between(0, 2) ? 0 : random.unit() * 7));
  const Geometry geometry = {random.between(0, 1) * random.between(0, 20),
                             random.between(0, 1) * random.between(0, 20)};
  one(context,
      text("random %d %s x%d step %d %dx%d sub %d %d boxes %zu", number, name_of(type), l.channels,
           l.pixel_step(), w, h, l.sub_x, l.sub_y, boxes.size()),
      layout, params, filter, boxes, kAllPatterns[random.between(0, 5)], geometry);
}

void refused(Context& context, const char* what, const Layout& layout, const RegionParams& params,
             const RegionFilter& filter, const char* named) {
  std::unique_ptr<RegionsPlan> plan;
  context.refused(
      text("regions refuses %s", what),
      make_regions(context.device().queue(), layout, params, filter, Placement::separate, &plan),
      named);
}

// ---- timed cases ----

// Returns `count` boxes of `size` pixels, spread over a frame of 1920 x 1080. For a smaller frame
// they are scaled down.
Boxes spread(int count, int size, const Layout& layout) {
  const double scale = layout.plane[0].width / 1920.0;
  const int columns = count > 16 ? 12 : 4, rows = (count + columns - 1) / columns;
  Boxes boxes;
  for (int i = 0; i < count; i++) {
    const double x = (i % columns + 0.5) * 1920 / columns, y = (i / columns + 0.5) * 1080 / rows;
    // The corners are whole pixels, and not multiples of any block size.
    boxes.push_back(make_box(std::floor((x - size / 2.0 + i % 7) * scale),
                             std::floor((y - size / 2.0 + i % 5) * scale), size * scale,
                             size * scale));
  }
  return boxes;
}

// Filters regions and measures how each frame moves, as elements do while a region is held.
class FollowedPlan final : public Plan {
 public:
  FollowedPlan(Queue& queue, Placement placement, std::unique_ptr<RegionsPlan> plan,
               const Boxes& boxes)
      : Plan(queue, plan->source(), plan->destination(), placement),
        plan_(std::move(plan)),
        boxes_(boxes) {}

 private:
  Status enqueue(const Image& src, const Image& dst) override {
    VF_TRY(plan_->measure_next(time_ += 40000000, boxes_));
    return plan_->run(src, dst);
  }
  std::unique_ptr<RegionsPlan> plan_;
  const Boxes boxes_;
  int64_t time_ = 0;
};

// Makes plans that also measure motion. The result is the same without, so the reference does not.
Context::Make follower(const Layout& layout, const RegionFilter& filter, const Boxes& boxes) {
  return [=](Queue& queue, Placement placement, std::unique_ptr<Plan>* out) -> Status {
    std::unique_ptr<RegionsPlan> plan;
    VF_TRY(make_regions(queue, layout, {}, filter, placement, &plan));
    VF_TRY(plan->set_boxes(boxes.data(), boxes.size()));
    if (queue.backend() == Backend::reference) {
      *out = std::move(plan);
      return {};
    }
    ColorFormat color;
    color.role[0][0] = Role::y;
    VF_TRY(plan->follow(color));
    *out = std::make_unique<FollowedPlan>(queue, placement, std::move(plan), boxes);
    return {};
  };
}

void timed_cases(Context& context) {
  const auto timed = [&](const char* frame, const Layout& layout, const RegionFilter& filter,
                         const std::string& what, int count, int size, bool in_place) {
    TimedCase row;
    row.frame = frame;
    row.parameters =
        count ? text("%s, %d of %d", what.c_str(), count, size) : what + ", whole frame";
    if (in_place) row.parameters += " in place";
    row.src = row.dst = layout;
    row.tolerance = regions_contract(filter, layout.type);
    row.make = [=](Queue& queue, const Layout& l, const Layout&, Placement placement,
                   std::unique_ptr<Plan>* out) -> Status {
      const RegionParams params = edges(false, 0, false, 0);
      return maker(l, params, filter, spread(count, size, l), count == 0)(queue, placement, out);
    };
    row.in_place = in_place;
    row.quick = count == 8 && in_place;
    row.cpu = true;
    context.timed(row);
  };
  const Layout nv12 = nv12_layout(1920, 1080);
  const auto relative = gaussian(0, 0.1);
  const auto sigma20 = gaussian(20);
  for (const bool in_place : {true, false}) {
    timed("1080p NV12", nv12, relative, "sigma-relative 0.1", 8, 200, in_place);
    timed("1080p NV12", nv12, relative, "sigma-relative 0.1", 64, 100, in_place);
    timed("1080p NV12", nv12, pixelate(0), "automatic", 8, 200, in_place);
    timed("1080p NV12", nv12, pixelate(0), "automatic", 64, 100, in_place);
    timed("1080p NV12", nv12, median(15), "median 15", 8, 200, in_place);
  }
  TimedCase followed;
  followed.frame = "1080p NV12";
  followed.parameters = "automatic, 8 of 200 in place, followed";
  followed.src = followed.dst = nv12;
  followed.tolerance = regions_contract(pixelate(0), nv12.type);
  followed.make = [=](Queue& queue, const Layout& l, const Layout&, Placement placement,
                      std::unique_ptr<Plan>* out) -> Status {
    return follower(l, pixelate(0), spread(8, 200, l))(queue, placement, out);
  };
  followed.in_place = followed.quick = followed.cpu = true;
  context.timed(followed);
  timed("1080p NV12", nv12, relative, "sigma-relative 0.1", 64, 200, true);
  timed("1080p NV12", nv12, sigma20, "sigma 20", 0, 0, false);
  timed("1080p NV12", nv12, relative, "sigma-relative 0.1", 0, 0, false);
  const Layout rgba = packed_layout(Type::u8, 4, 1920, 1080);
  timed("1080p RGBA", rgba, relative, "sigma-relative 0.1", 8, 200, true);
  timed("1080p RGBA", rgba, sigma20, "sigma 20", 0, 0, false);
  timed("1080p RGBA", rgba, relative, "sigma-relative 0.1", 0, 0, false);
  const Layout p010 = p010_layout(1920, 1080);
  timed("1080p P010", p010, relative, "sigma-relative 0.1", 8, 200, true);
  timed("1080p P010", p010, sigma20, "sigma 20", 0, 0, false);
  timed("1080p P010", p010, relative, "sigma-relative 0.1", 0, 0, false);
}

}  // namespace

void regions_cases(Context& context) {
  timed_cases(context);
  geometry(context);
  ellipses_cover(context);
  polygons_cover(context);
  weights(context);
  automatic_blocks(context);
  for (const auto& [what, filter] : filters()) {
    for (const auto& [format, layout] : video_layouts())
      one(context, text("%s %s", what, format), layout, {}, filter,
          some_boxes(layout.plane[0].width, layout.plane[0].height));
    one(context, text("%s polygons I420", what), i420_layout(131, 77), {}, filter,
        some_polygons(131, 77));
    for (const Type type : {Type::u8, Type::u16}) {
      const Layout gray = packed_layout(type, 1, 257, 131);
      const std::string name = text("%s %s", what, name_of(type));
      one(context, name + " ellipse", gray, edges(true, 0), filter, some_boxes(257, 131));
      one(context, name + " feather", gray, edges(false, 7), filter, some_boxes(257, 131));
      one(context, name + " feathered ellipse", gray, edges(true, 12), filter,
          some_boxes(257, 131));
      one(context, name + " invert", gray, edges(false, 0, true), filter, some_boxes(257, 131));
      one(context, name + " invert, feathered ellipse", gray, edges(true, 5, true), filter,
          some_boxes(257, 131));
      Boxes areas = some_polygons(257, 131);
      one(context, name + " polygons", gray, edges(true, 0), filter, areas);
      one(context, name + " polygons, feathered", gray, edges(false, 7), filter, areas);
      for (RegionBox& b : areas) b.always = true;
      areas.push_back(make_box(20, 10, 200, 100));
      one(context, name + " polygons and a box", gray, {}, filter, areas);
      one(context, name + " invert, polygons always", gray, edges(true, 3, true), filter, areas);
      one(context, name + " no box", gray, {}, filter, {});
      one(context, name + " invert no box", gray, edges(false, 0, true), filter, {});
      one(context, name + " all of it", gray, {}, filter, {make_box(-10, -10, 5000, 5000)});
      context.check("regions " + name + " whole", gray, gray, Pattern::noise, {},
                    regions_contract(filter, type), true,
                    maker(gray, {}, filter, some_boxes(257, 131), true));
    }
    for (const auto& [w, h] : {std::pair{1, 1}, {2, 1}, {1, 7}, {9, 3}, {64, 64}, {65, 129}})
      for (const Type type : {Type::u8, Type::u16})
        one(context, text("%s %s %dx%d", what, name_of(type), w, h), packed_layout(type, 1, w, h),
            {}, filter, {make_box(0.3 * w, 0.3 * h, 0.5 * w, 0.6 * h)}, Pattern::extremes);
    // Most of these hundreds of regions overlap.
    Random random = context.random("regions hundreds");
    Boxes boxes;
    for (int i = 0; i < 300; i++)
      boxes.push_back(make_box(random.between(-20, 120), random.between(-20, 60),
                               random.between(0, 40), random.between(0, 40)));
    one(context, text("%s hundreds", what), i420_layout(121, 61), {}, filter, boxes);
    one(context, text("%s hundreds, feathered", what), i420_layout(121, 61), edges(false, 4),
        filter, boxes);
    const RegionFilter all = filter;
    for (const int mask : {0x0, 0x1, 0x7, 0xa}) {
      RegionFilter some = all;
      set_channels(&some, 0, uint8_t(mask));
      one(context, text("%s channels 0x%x", what, mask), packed_layout(Type::u8, 4, 99, 61), {},
          some, some_boxes(99, 61));
      one(context, text("%s channels 0x%x invert", what, mask), packed_layout(Type::u8, 4, 99, 61),
          edges(false, 3, true), some, some_boxes(99, 61));
    }
    one(context, text("%s unaligned", what), packed_layout(Type::u8, 3, 99, 61), {}, filter,
        some_boxes(99, 61), Pattern::texture, {13, 5});
    Geometry tight;
    tight.tight = true;
    one(context, text("%s tight", what), packed_layout(Type::u16, 2, 99, 61), {}, filter,
        some_boxes(99, 61), Pattern::texture, tight);
  }
  for (const Border border :
       {Border::reflect_101, Border::replicate, Border::reflect, Border::wrap, Border::constant})
    for (const double sigma : {0.8, 3.0, 30.0}) {
      RegionGaussian g = gaussian(sigma);
      g.params.border = border;
      for (auto& plane : g.params.border_value)
        for (double& v : plane) v = 200;
      one(context, text("%s sigma %g", name_of(border), sigma), nv12_layout(150, 91), {}, g,
          some_boxes(150, 91));
    }
  {
    RegionGaussian g = gaussian(3);
    g.params.sigma_y = 0;
    one(context, "horizontal alone", nv12_layout(150, 91), {}, g, some_boxes(150, 91));
    g.params.sigma_y = 11;
    g.params.sigma = 0;
    one(context, "vertical alone", nv12_layout(150, 91), {}, g, some_boxes(150, 91));
    g = gaussian(8);
    g.params.kernel_size = 5;
    g.params.kernel_size_y = 151;
    one(context, "sizes given", nv12_layout(150, 91), {}, g, some_boxes(150, 91));
    // This is the largest kernel.
    one(context, "sigma 85", packed_layout(Type::u8, 1, 700, 90), {}, gaussian(85),
        {make_box(300, 20, 40, 40)});
    one(context, "sigma 63.75", packed_layout(Type::u16, 1, 700, 90), {}, gaussian(63.75),
        {make_box(300, 20, 40, 40)});
    one(context, "median 101", packed_layout(Type::u8, 1, 130, 124), {}, median(101),
        {make_box(55, 52, 20, 20)});
  }
  placed_cases(context);
  for (int i = 0; i < 200; i++) random_case(context, i);

  const Layout gray = packed_layout(Type::u8, 1, 8, 8);
  refused(context, "f32", packed_layout(Type::f32, 1, 8, 8), {}, gaussian(1), "f32");
  refused(context, "s16", packed_layout(Type::s16, 1, 8, 8), {}, gaussian(1), "s16");
  refused(context, "negative expansion", gray, edges(false, 0, false, -0.1), gaussian(1),
          "region-expand is -0.1");
  refused(context, "a feather too wide", gray, edges(false, 1025), gaussian(1),
          "region-feather is 1025");
  refused(context, "a negative share", gray, {}, gaussian(1, -0.5), "sigma-relative is -0.5");
  refused(context, "the filter's own", gray, {}, gaussian(-3), "sigma is -3");
  refused(context, "an even window", gray, {}, median(4), "size is 4");
}

}  // namespace vf::test
