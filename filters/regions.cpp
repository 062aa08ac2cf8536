// Checks regions, and turns them into the rectangles, shapes and strengths that backends get.
#include "filters/regions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "filters/region_motion.h"
#include "filters/regions_task.h"

namespace vf {
namespace {

// A turned box or an ellipse grows by this share of its size and position, so that it covers all of
// its pixels although floats are rounded.
constexpr double kRounding = 1e-6;
// It lies beyond all frames, and is exact in double and float.
constexpr double kFar = 4.0 * kMaxDimension;

double limited(double v) {
  return std::isnan(v) ? 0 : std::clamp(v, -kFar, kFar);
}

// Returns the largest sigma whose kernel is not too long.
double max_sigma(Type type) {
  return double(GaussianParams::kMaxKernelSize - 1) / (type == Type::u8 ? 6 : 8);
}

double relative_sigma(const RegionGaussian& g, double side, Type type) {
  return std::min(g.sigma_relative * side, max_sigma(type));
}

int relative_block(double side) {
  const double size = std::ceil(side / RegionPixelate::kBlocks);
  return int(std::clamp(size, 1.0, double(kMaxDimension)));
}

struct Rect {
  double x0, y0, x1, y1;
  bool empty() const { return !(x0 < x1 && y0 < y1); }
};

// A box and its object, expanded, before they are turned.
struct Expanded {
  Rect box;
  double angle;
  RegionObject object;
};

Expanded expand(const RegionParams& params, const RegionBox& b) {
  Expanded e;
  const double w = limited(b.object_width), h = limited(b.object_height);
  const double share = b.area ? 0 : params.expand;
  const double dx = share * std::max(w, 0.0), dy = share * std::max(h, 0.0);
  const auto grown = [&](double x, double y, double width, double height) {
    return Rect{limited(x) - dx, limited(y) - dy, limited(x + width) + dx,
                limited(y + height) + dy};
  };
  e.box = grown(b.x, b.y, b.width, b.height);
  const Rect object = grown(b.object_x, b.object_y, b.object_width, b.object_height);
  e.object = {object.x0, object.y0, std::min(w, h)};
  if (!(b.width > 0 && b.height > 0)) e.box = {0, 0, 0, 0};
  e.angle = std::isfinite(b.angle) ? b.angle : 0;
  return e;
}

// Sets the pixels that a region may reach: those around `box`. False if there are none.
bool set_reach(const Rect& box, int width, int height, Region* r) {
  r->x0 = int(std::clamp(std::floor(box.x0), 0.0, double(width)));
  r->y0 = int(std::clamp(std::floor(box.y0), 0.0, double(height)));
  r->x1 = int(std::clamp(std::ceil(box.x1), 0.0, double(width)));
  r->y1 = int(std::clamp(std::ceil(box.y1), 0.0, double(height)));
  return r->x0 < r->x1 && r->y0 < r->y1;
}

// Sets the shape of a slab, as shape_of() does for other regions. A pixel and a slab touch if the
// pixel reaches into the box that the slab spans and over both of its sides.
bool shape_of_slab(const RegionParams& params, const RegionBox& b, int width, int height,
                   Region* r) {
  double x[2], slope[2];
  const double far = std::abs(b.x) + std::abs(b.width) + std::abs(b.y) + std::abs(b.height);
  for (const int side : {0, 1}) {
    const double* const ends = side ? b.right : b.left;
    slope[side] = (ends[1] - ends[0]) / b.height;
    // Half of the row's way along the side, half a pixel, and what rounding takes.
    const double reach = (1 + std::abs(slope[side])) * (0.5 + kRounding * (1 + far));
    x[side] = (ends[0] + ends[1]) / 2 + (side ? reach : -reach);
  }
  const double top = std::floor(b.y), bottom = std::ceil(b.y + b.height);
  // The sides are given for the middle between the slab's own top and bottom.
  const double lower = (top + bottom) / 2 - (b.y + b.height / 2);
  for (const int side : {0, 1}) x[side] += slope[side] * lower;
  r->outline = RegionOutline::slab;
  r->cos = float(slope[0]);
  r->sin = float(slope[1]);
  r->x = float((x[0] + x[1]) / 2);
  r->y = float((top + bottom) / 2);
  r->a = float((x[1] - x[0]) / 2);
  r->b = float((bottom - top) / 2);
  const double f = params.feather;
  return set_reach({std::floor(b.x) - f, top - f, std::ceil(b.x + b.width) + f, bottom + f}, width,
                   height, r);
}

// Sets the shape of a region, and the pixels that it may reach. False if there are none.
bool shape_of(const RegionParams& params, const RegionBox& b, const Expanded& e, int width,
              int height, Region* r) {
  if (e.box.empty()) return false;
  if (b.slab) return shape_of_slab(params, b, width, height, r);
  Rect box = e.box;
  const bool ellipse = params.shape == RegionShape::ellipse && !b.area;
  r->outline = ellipse ? RegionOutline::ellipse : RegionOutline::box;
  const bool turned = std::sin(e.angle) != 0;
  if (!turned && !ellipse) {
    // Clips the box near the frame: a float of a large number has no fraction.
    const double far = params.feather + 2;
    box = {std::max(std::floor(box.x0), -far), std::max(std::floor(box.y0), -far),
           std::min(std::ceil(box.x1), width + far), std::min(std::ceil(box.y1), height + far)};
    if (box.empty()) return false;
  } else {
    const double around = std::abs(box.x0) + std::abs(box.y0) + std::abs(box.x1) + std::abs(box.y1);
    const double slack = kRounding * (1 + around);
    box = {box.x0 - slack, box.y0 - slack, box.x1 + slack, box.y1 + slack};
  }
  r->cos = turned ? float(std::cos(e.angle)) : 1;
  r->sin = turned ? float(std::sin(e.angle)) : 0;
  r->x = float((box.x0 + box.x1) / 2);
  r->y = float((box.y0 + box.y1) / 2);
  r->a = float((box.x1 - box.x0) / 2);
  r->b = float((box.y1 - box.y0) / 2);
  // A pixel belongs to the region by its centre, so what touches it is wider. An upright box ends
  // where pixels do.
  const double reach = turned || ellipse ? pixel_reach(r->cos, r->sin) : 0;
  if (turned && !ellipse) {
    r->a += float(reach);
    r->b += float(reach);
  }
  const double outside = params.feather + (ellipse ? reach : 0);
  const double a = r->a + outside, h = r->b + outside;
  const double c = std::abs(r->cos), s = std::abs(r->sin);
  const double half_x = a * c + h * s, half_y = a * s + h * c;
  return set_reach({r->x - half_x, r->y - half_y, r->x + half_x, r->y + half_y}, width, height, r);
}

// Returns the box that all of `boxes` span.
RegionBox spanned(const RegionBox* boxes, size_t count) {
  Rect all = {kFar, kFar, -kFar, -kFar};
  for (size_t i = 0; i < count; i++) {
    const RegionBox& b = boxes[i];
    if (!(b.width > 0 && b.height > 0)) continue;
    // Half of the diagonal: the box reaches no further, however it is turned.
    const double reach = b.angle == 0 ? 0 : std::hypot(limited(b.width), limited(b.height)) / 2;
    all.x0 = std::min(all.x0, limited(b.x) - reach);
    all.y0 = std::min(all.y0, limited(b.y) - reach);
    all.x1 = std::max(all.x1, limited(b.x + b.width) + reach);
    all.y1 = std::max(all.y1, limited(b.y + b.height) + reach);
  }
  return make_box(all.x0, all.y0, all.x1 - all.x0, all.y1 - all.y0);
}

// Leaves out regions that lie under stronger ones. Long lists stay as they are, because each region
// is compared with all others.
void drop_covered(const RegionEdges& edges, std::vector<Region>* regions) {
  constexpr size_t kCompared = 256;
  std::vector<Region>& r = *regions;
  if (r.size() > kCompared) return;
  size_t kept = 0;
  for (size_t i = 0; i < r.size(); i++) {
    bool covered = false;
    for (size_t j = 0; j < kept && !covered; j++)
      covered = covers(r[j], edges, 0, 0, {r[i].x0, r[i].y0, r[i].x1, r[i].y1});
    if (!covered) r[kept++] = r[i];
  }
  r.resize(kept);
}

// Takes the pixels of `cut` out of the regions: each keeps up to four parts of its rectangle. Parts
// for which there is no room are dropped.
void take_out(const Region& cut, std::vector<Region>* regions) {
  // A sample of a subsampled plane belongs to all pixels that it covers.
  constexpr int kSamples = 8;
  const int left = cut.x0 / kSamples * kSamples, top = cut.y0 / kSamples * kSamples;
  const int right = (cut.x1 + kSamples - 1) / kSamples * kSamples;
  const int bottom = (cut.y1 + kSamples - 1) / kSamples * kSamples;
  std::vector<Region> parts;
  for (const Region& r : *regions) {
    const auto keep = [&](int x0, int y0, int x1, int y1) {
      Region part = r;
      part.x0 = std::max(r.x0, x0);
      part.y0 = std::max(r.y0, y0);
      part.x1 = std::min(r.x1, x1);
      part.y1 = std::min(r.y1, y1);
      const bool room = parts.size() < size_t(RegionParams::kMost);
      if (part.x0 < part.x1 && part.y0 < part.y1 && room) parts.push_back(part);
    };
    keep(0, 0, kMaxDimension, top);
    keep(0, top, left, bottom);
    keep(right, top, kMaxDimension, bottom);
    keep(0, bottom, kMaxDimension, kMaxDimension);
  }
  regions->swap(parts);
}

MakeRegions reference_regions = nullptr;  // set by the tests

}  // namespace

void set_reference_regions(MakeRegions make) {
  reference_regions = make;
}

Status RegionGaussian::check() const {
  return check_limits("sigma-relative", sigma_relative, kRelative);
}

bool RegionGaussian::is_identity() const {
  return sigma_relative > 0 ? selects_nothing(params.channels) : vf::is_identity(params);
}

void RegionGaussian::set_region(Type type, const RegionObject& object, Region* r) const {
  r->sigma_x = float(params.sigma);
  r->sigma_y = float(params.sigma_y == -1 ? params.sigma : params.sigma_y);
  if (sigma_relative > 0) r->sigma_x = r->sigma_y = float(relative_sigma(*this, object.side, type));
  const auto radius = [&](double sigma, int size, int sub) {
    if (sigma == 0) return 0;
    return (size ? plane_size(size, sub) : gaussian_kernel_size(sigma / (1 << sub), type)) / 2;
  };
  const int size_y = params.kernel_size_y ? params.kernel_size_y : params.kernel_size;
  for (int sub = 0; sub < 4; sub++) {
    r->radius_x[sub] = uint8_t(radius(double(r->sigma_x), params.kernel_size, sub));
    r->radius_y[sub] = uint8_t(radius(double(r->sigma_y), size_y, sub));
  }
}

Status RegionGaussian::make_whole(Queue& queue, const Layout& layout, int side, Placement placement,
                                  std::unique_ptr<Plan>* out) const {
  GaussianParams whole = params;
  if (sigma_relative > 0) {
    whole.sigma = relative_sigma(*this, side, layout.type);
    whole.sigma_y = -1;
  }
  return make_gaussian(queue, layout, whole, placement, out);
}

void RegionPixelate::set_region(Type, const RegionObject& object, Region* r) const {
  r->block = params.block_size ? params.block_size : relative_block(object.side);
  r->block_x = from_box ? int(std::floor(object.x)) : 0;
  r->block_y = from_box ? int(std::floor(object.y)) : 0;
}

void prepare_regions(const RegionParams& params, const RegionFilter& filter, Type type, int width,
                     int height, const RegionBox* boxes, size_t count, std::vector<Region>* out) {
  out->clear();
  std::vector<Region> taken;
  const auto add = [&](const RegionBox& box) {
    const Expanded e = expand(params, box);
    Region r = {};
    if (!shape_of(params, box, e, width, height, &r)) return;
    std::visit([&](const auto& f) { f.set_region(type, e.object, &r); }, filter);
    (params.invert && box.always ? &taken : out)->push_back(r);
  };
  const size_t apart = count > RegionParams::kMost ? RegionParams::kMost - 1 : count;
  for (size_t i = 0; i < apart; i++) add(boxes[i]);
  if (apart < count) add(spanned(boxes + apart, count - apart));
  std::visit(
      [&](const auto& f) {
        std::stable_sort(out->begin(), out->end(), [&](const Region& a, const Region& b) {
          return f.strength(a) > f.strength(b);
        });
      },
      filter);
  for (const Region& r : taken) take_out(r, out);
  drop_covered(edges_of(params), out);
}

RegionsPlan::RegionsPlan(Queue& queue, const RegionsTask& task)
    : Plan(queue, task.layout, task.layout, task.placement),
      params_(task.params),
      filter_(task.filter),
      width_(task.width),
      height_(task.height) {
  regions_.reserve(RegionParams::kMost);
}

RegionsPlan::~RegionsPlan() = default;

Status RegionsPlan::follow(const ColorFormat& color) {
  if (!RegionMotion::can_measure(source(), color)) return {};
  return guarded([&] {
    motion_ = std::make_unique<RegionMotion>(queue_, source(), color);
    return Status();
  });
}

Status RegionsPlan::measure_next(int64_t time, const std::vector<RegionBox>& boxes) {
  return guarded([&] {
    followed_ = boxes;
    measures_ = motion_ != nullptr;
    if (measures_) motion_->prepare();
    measured_at_ = time;
    return Status();
  });
}

Status RegionsPlan::enqueue(const Image& src, const Image& dst) {
  if (std::exchange(measures_, false)) VF_TRY(motion_->measure(src, measured_at_, followed_));
  return enqueue_regions(src, dst);
}

uint8_t RegionsPlan::channels(int plane) const {
  const uint8_t* all = std::visit([](const auto& f) { return f.channels(); }, filter_);
  return all[plane] & ((1 << source().plane[plane].channels) - 1);
}

Status RegionsPlan::set_boxes(const RegionBox* boxes, size_t count) {
  return guarded([&] {
    whole_ = false;
    prepare_regions(params_, filter_, source().type, width_, height_, boxes, count, &regions_);
    return Status();
  });
}

void RegionsPlan::set_whole() {
  whole_ = true;
  regions_.clear();
}

Status make_regions(Queue& queue, const Layout& layout, const RegionParams& params,
                    const RegionFilter& filter, Placement placement,
                    std::unique_ptr<RegionsPlan>* out) {
  VF_TRY(validate(layout));
  if (layout.type != Type::u8 && layout.type != Type::u16)
    return Status::invalid("type is %s, but for regions it must be u8 or u16",
                           name_of(layout.type));
  VF_TRY(check_limits("region-expand", params.expand, RegionParams::kExpand));
  VF_TRY(check_limits("region-feather", params.feather, RegionParams::kFeather));
  VF_TRY(std::visit([](const auto& f) { return f.check(); }, filter));
  std::unique_ptr<Plan> whole;
  std::unique_ptr<RegionsPlan> made;
  const auto fill = [&](RegionsTask& task) {
    task.layout = layout;
    task.placement = placement;
    task.params = params;
    task.filter = filter;
    // Subsampled planes of an odd frame reach over its end.
    task.width = task.height = kMaxDimension;
    for (int i = 0; i < layout.planes; i++) {
      const PlaneLayout& l = layout.plane[i];
      task.width = std::min(task.width, l.width << l.sub_x);
      task.height = std::min(task.height, l.height << l.sub_y);
    }
    const int side = std::min(task.width, task.height);
    return std::visit(
        [&](const auto& f) { return f.make_whole(queue, layout, side, placement, &whole); },
        filter);
  };
  VF_TRY(guarded([&] {
    RegionsTask task;
    VF_TRY(fill(task));
    switch (queue.backend()) {
      case Backend::cpu:
        return cpu::make_regions(queue, task, &made);
      case Backend::cuda:
        return cuda::make_regions(queue, task, &made);
      case Backend::reference:
        break;
    }
    return reference_regions(queue, task, &made);
  }));
  made->whole_plan_ = std::move(whole);
  *out = std::move(made);
  return {};
}

}  // namespace vf
