#include "filters/region_motion.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "filters/make.h"
#include "filters/motion_task.h"

namespace vf {
namespace {

constexpr int kAgrees = 2 * kMotionUnits;  // units by which a block may differ from the median

Component find_role(const Layout& layout, const ColorFormat& color, Role role) {
  for (int p = 0; p < layout.planes; p++)
    for (int c = 0; c < layout.plane[p].channels; c++)
      if (color.role[p][c] == role) return {p, c};
  return {};
}

// The components that make luma: one of them, or red, green and blue.
struct Luma {
  Component part[3];
  int parts;
};

Luma luma_of(const Layout& layout, const ColorFormat& color) {
  if (model_of(color) != ColorModel::rgb) return {{find_role(layout, color, Role::y)}, 1};
  return {{find_role(layout, color, Role::r), find_role(layout, color, Role::g),
           find_role(layout, color, Role::b)},
          3};
}

// The first and the last block whose middle lies in the inner half of [at, at + size), or the
// block nearest to its centre.
void inner_blocks(double at, double size, int blocks, int* first, int* last) {
  const auto clamped = [&](double b) { return int(std::clamp(b, 0.0, double(blocks - 1))); };
  const double centre = at + size / 2;
  *first = clamped(std::ceil((centre - size / 4) / kMotionBlock - 0.5));
  *last = clamped(std::floor((centre + size / 4) / kMotionBlock - 0.5));
  if (*first > *last) *first = *last = clamped(std::floor(centre / kMotionBlock));
}

// Returns the blocks that the motion in a box is taken from.
MotionParts::Part inner_part(const RegionBox& box, int width, int height) {
  MotionParts::Part p;
  inner_blocks(box.x, box.width, motion_blocks(width), &p.x0, &p.x1);
  inner_blocks(box.y, box.height, motion_blocks(height), &p.y0, &p.y1);
  p.x1++, p.y1++;
  return p;
}

bool is_finite(const RegionBox& box) {
  return std::isfinite(box.x + box.width) && std::isfinite(box.y + box.height);
}

int median_of(std::vector<int>* values) {
  const auto middle = values->begin() + ptrdiff_t(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

}  // namespace

bool motion_in(const MotionVector* field, int width, int height, const RegionBox& box, double* x,
               double* y) {
  if (!is_finite(box)) return false;
  const int columns = motion_blocks(width);
  const auto [x0, y0, x1, y1] = inner_part(box, width, height);
  std::vector<int> xs, ys;
  for (int j = y0; j < y1; j++)
    for (int i = x0; i < x1; i++) {
      const MotionVector& v = field[ptrdiff_t(j) * columns + i];
      xs.push_back(v.x);
      ys.push_back(v.y);
    }
  const int vx = median_of(&xs), vy = median_of(&ys);
  size_t agree = 0;
  for (int j = y0; j < y1; j++)
    for (int i = x0; i < x1; i++) {
      const MotionVector& v = field[ptrdiff_t(j) * columns + i];
      // In noise, the best match is not much better than no motion.
      const bool fits = 2 * v.residual <= v.residual_zero || (v.x == 0 && v.y == 0);
      agree += fits && std::abs(v.x - vx) <= kAgrees && std::abs(v.y - vy) <= kAgrees;
    }
  // A vector leads to where the block was.
  *x = -double(vx) / kMotionUnits;
  *y = -double(vy) / kMotionUnits;
  return 2 * agree >= xs.size();
}

bool RegionMotion::can_measure(const Layout& layout, const ColorFormat& color) {
  const Luma luma = luma_of(layout, color);
  for (int i = 0; i < luma.parts; i++)
    if (luma.part[i].plane < 0) return false;
  const int depth = depth_of(layout);
  return (layout.type == Type::u8 || layout.type == Type::u16) && depth >= 8 &&
         depth + layout.shift <= 8 * size_of(layout.type);
}

RegionMotion::RegionMotion(Queue& queue, const Layout& layout, const ColorFormat& color)
    : queue_(queue), color_(color) {
  const PlaneLayout& l = layout.plane[luma_of(layout, color).part[0].plane];
  width_ = l.width;
  height_ = l.height;
}

Status RegionMotion::make() {
  const size_t bytes =
      size_t(motion_blocks(width_)) * motion_blocks(height_) * sizeof(MotionVector);
  VF_TRY(queue_.allocate(Memory::host, bytes, &field_));
  MotionParams params;
  params.width = width_;
  params.height = height_;
  return make_motion(queue_, params, &plan_);
}

void RegionMotion::prepare() {
  if (!plan_ && !failed_) failed_ = !make().ok();
}

MotionPicture RegionMotion::picture(const Image& frame) const {
  const Luma luma = luma_of(frame.layout, color_);
  return picture_of(frame, luma.part, luma.parts);
}

void RegionMotion::forget() {
  has_picture_ = has_field_ = false;
}

Status RegionMotion::measure(const Image& frame, int64_t time,
                             const std::vector<RegionBox>& boxes) {
  if (failed_) return {};
  const int before = picture_;
  picture_ ^= 1;
  const MotionPicture p = picture(frame);
  VF_TRY(plan_->read(picture_, &p, 1));
  from_ = std::exchange(to_, time);
  has_field_ = std::exchange(has_picture_, true);
  if (!has_field_) return {};
  parts_.count = 0;
  if (boxes.size() <= size_t(MotionParts::kMost))
    for (const RegionBox& box : boxes)
      if (is_finite(box)) parts_.part[parts_.count++] = inner_part(box, width_, height_);
  VF_TRY(plan_->find(picture_, before, field_.as<MotionVector>(),
                     motion_blocks(width_) * ptrdiff_t(sizeof(MotionVector)), parts_));
  return queue_.record(&found_);
}

bool RegionMotion::wait() {
  return has_field_ && found_ && found_->wait().ok();
}

bool RegionMotion::in(const RegionBox& box, double* x, double* y) const {
  if (!is_finite(box)) return false;
  const auto [x0, y0, x1, y1] = inner_part(box, width_, height_);
  bool found = parts_.count == 0;
  for (int i = 0; i < parts_.count; i++) {
    const MotionParts::Part& p = parts_.part[i];
    found |= x0 >= p.x0 && y0 >= p.y0 && x1 <= p.x1 && y1 <= p.y1;
  }
  return found && motion_in(field_.as<const MotionVector>(), width_, height_, box, x, y);
}

}  // namespace vf
