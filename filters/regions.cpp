// Geometry and validation of regions; backends get rectangles, shapes and strengths.
#include "filters/regions.h"

#include <algorithm>
#include <cmath>

#include "filters/regions_task.h"

namespace vf {
namespace {

// A turned box or an ellipse grows by this share of its size and position, so that roundings of
// floats uncover no pixel.
constexpr double kRounding = 1e-6;
// Beyond all frames, and exact in double and float.
constexpr double kFar = 4.0 * kMaxDimension;

double limited(double v) {
  return std::isnan(v) ? 0 : std::clamp(v, -kFar, kFar);
}

// The largest sigma whose kernel is not too long.
double most_sigma(Type type) {
  return double(GaussianParams::kMaxKernelSize - 1) / (type == Type::u8 ? 6 : 8);
}

double relative_sigma(const RegionGaussian& g, double side, Type type) {
  return std::min(g.sigma_relative * side, most_sigma(type));
}

int relative_block(double side) {
  const double size = std::ceil(side / RegionPixelate::kBlocks);
  return int(std::clamp(size, 1.0, double(kMaxDimension)));
}

struct Rect {
  double x0, y0, x1, y1;
  bool empty() const { return !(x0 < x1 && y0 < y1); }
};

// A box's part of the frame, before it is turned; and the object's, without expansion.
struct Expanded {
  Rect box, object;
  double angle, side;
};

Expanded expand(const RegionParams& params, const RegionBox& b) {
  Expanded e;
  const double w = limited(b.object_width), h = limited(b.object_height);
  const double dx = params.expand * std::max(w, 0.0), dy = params.expand * std::max(h, 0.0);
  const auto grown = [&](double x, double y, double width, double height) {
    return Rect{limited(x) - dx, limited(y) - dy, limited(x + width) + dx,
                limited(y + height) + dy};
  };
  e.box = grown(b.x, b.y, b.width, b.height);
  e.object = grown(b.object_x, b.object_y, b.object_width, b.object_height);
  if (!(b.width > 0 && b.height > 0)) e.box = {0, 0, 0, 0};
  e.angle = std::isfinite(b.angle) ? b.angle : 0;
  e.side = std::min(w, h);
  return e;
}

// The shape, and the pixels that it may reach.
bool shape_of(const RegionParams& params, const Expanded& e, int width, int height, Region* r) {
  if (e.box.empty()) return false;
  Rect box = e.box;
  const bool ellipse = params.shape == RegionShape::ellipse;
  const bool turned = std::sin(e.angle) != 0;
  if (!turned && !ellipse) {
    // What lies outside of the frame does not count, and would cost a float its fractions.
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
  const double a = r->a + outside, b = r->b + outside;
  const double c = std::abs(r->cos), s = std::abs(r->sin);
  const double half_x = a * c + b * s, half_y = a * s + b * c;
  r->x0 = int(std::clamp(std::floor(r->x - half_x), 0.0, double(width)));
  r->y0 = int(std::clamp(std::floor(r->y - half_y), 0.0, double(height)));
  r->x1 = int(std::clamp(std::ceil(r->x + half_x), 0.0, double(width)));
  r->y1 = int(std::clamp(std::ceil(r->y + half_y), 0.0, double(height)));
  return r->x0 < r->x1 && r->y0 < r->y1;
}

void set_gaussian(const RegionGaussian& g, Type type, double side, Region* r) {
  const GaussianParams& p = g.params;
  r->sigma_x = float(p.sigma);
  r->sigma_y = float(p.sigma_y == -1 ? p.sigma : p.sigma_y);
  if (g.sigma_relative > 0) r->sigma_x = r->sigma_y = float(relative_sigma(g, side, type));
  const auto radius = [&](double sigma, int size, int sub) {
    if (sigma == 0) return 0;
    return (size ? plane_size(size, sub) : gaussian_kernel_size(sigma / (1 << sub), type)) / 2;
  };
  const int size_y = p.kernel_size_y ? p.kernel_size_y : p.kernel_size;
  for (int sub = 0; sub < 4; sub++) {
    r->radius_x[sub] = uint8_t(radius(double(r->sigma_x), p.kernel_size, sub));
    r->radius_y[sub] = uint8_t(radius(double(r->sigma_y), size_y, sub));
  }
}

void set_pixelate(const RegionPixelate& p, const Expanded& e, Region* r) {
  r->block = p.params.block_size ? p.params.block_size : relative_block(e.side);
  r->block_x = p.from_box ? int(std::floor(e.object.x0)) : 0;
  r->block_y = p.from_box ? int(std::floor(e.object.y0)) : 0;
}

double strength(const RegionFilter& filter, const Region& r) {
  if (std::holds_alternative<RegionGaussian>(filter)) return double(r.sigma_x) + double(r.sigma_y);
  return std::holds_alternative<RegionPixelate>(filter) ? r.block : 0;
}

// All that `boxes` span, as one: where there are too many to be told apart.
RegionBox spanned(const RegionBox* boxes, size_t count) {
  Rect all = {kFar, kFar, -kFar, -kFar};
  for (size_t i = 0; i < count; i++) {
    const RegionBox& b = boxes[i];
    if (!(b.width > 0 && b.height > 0)) continue;
    // However it is turned.
    const double reach = b.angle == 0 ? 0 : std::hypot(limited(b.width), limited(b.height)) / 2;
    all.x0 = std::min(all.x0, limited(b.x) - reach);
    all.y0 = std::min(all.y0, limited(b.y) - reach);
    all.x1 = std::max(all.x1, limited(b.x + b.width) + reach);
    all.y1 = std::max(all.y1, limited(b.y + b.height) + reach);
  }
  return make_box(all.x0, all.y0, all.x1 - all.x0, all.y1 - all.y0);
}

// Leaves out what lies under stronger regions. Only of so many: each is compared with all others.
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

MakeRegions reference_regions = nullptr;  // there with the tests

struct ChannelsOf {
  const uint8_t* operator()(const RegionGaussian& f) const { return f.params.channels; }
  const uint8_t* operator()(const RegionMedian& f) const { return f.params.channels; }
  const uint8_t* operator()(const RegionPixelate& f) const { return f.params.channels; }
};

// The filter of all of a frame.
Status make_whole(Queue& queue, const RegionsTask& task, std::unique_ptr<Plan>* out) {
  if (const auto* g = std::get_if<RegionGaussian>(&task.filter)) {
    GaussianParams params = g->params;
    if (g->sigma_relative > 0) {
      params.sigma = relative_sigma(*g, std::min(task.width, task.height), task.layout.type);
      params.sigma_y = -1;
    }
    return make_gaussian(queue, task.layout, params, task.placement, out);
  }
  if (const auto* m = std::get_if<RegionMedian>(&task.filter))
    return make_median(queue, task.layout, m->params, task.placement, out);
  return make_pixelate(queue, task.layout, std::get<RegionPixelate>(task.filter).params,
                       task.placement, out);
}

}  // namespace

void set_reference_regions(MakeRegions make) {
  reference_regions = make;
}

bool is_identity(const RegionFilter& filter) {
  if (const auto* g = std::get_if<RegionGaussian>(&filter))
    return g->sigma_relative > 0 ? selects_nothing(g->params.channels) : is_identity(g->params);
  if (const auto* m = std::get_if<RegionMedian>(&filter)) return is_identity(m->params);
  return is_identity(std::get<RegionPixelate>(filter).params);
}

void prepare_regions(const RegionParams& params, const RegionFilter& filter, Type type, int width,
                     int height, const RegionBox* boxes, size_t count, std::vector<Region>* out) {
  out->clear();
  const auto add = [&](const RegionBox& box) {
    const Expanded e = expand(params, box);
    Region r = {};
    if (!shape_of(params, e, width, height, &r)) return;
    if (const auto* g = std::get_if<RegionGaussian>(&filter)) set_gaussian(*g, type, e.side, &r);
    if (const auto* p = std::get_if<RegionPixelate>(&filter)) set_pixelate(*p, e, &r);
    out->push_back(r);
  };
  const size_t apart = count > RegionParams::kMost ? RegionParams::kMost - 1 : count;
  for (size_t i = 0; i < apart; i++) add(boxes[i]);
  if (apart < count) add(spanned(boxes + apart, count - apart));
  std::stable_sort(out->begin(), out->end(), [&](const Region& a, const Region& b) {
    return strength(filter, a) > strength(filter, b);
  });
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

uint8_t RegionsPlan::channels(int plane) const {
  return std::visit(ChannelsOf(), filter_)[plane] & ((1 << source().plane[plane].channels) - 1);
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
    return Status::error(Code::invalid_argument, "type is %s: regions must be u8 or u16",
                         name_of(layout.type));
  VF_TRY(check_limits("region-expand", params.expand, RegionParams::kExpand));
  VF_TRY(check_limits("region-feather", params.feather, RegionParams::kFeather));
  if (const auto* g = std::get_if<RegionGaussian>(&filter))
    VF_TRY(check_limits("sigma-relative", g->sigma_relative, RegionGaussian::kRelative));
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
    return make_whole(queue, task, &whole);
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
