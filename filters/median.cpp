// Checks the parameters of the median, and computes the window of each plane and the border values
// as stored.
#include "filters/median.h"

#include <cmath>
#include <cstring>

#include "filters/backend.h"
#include "filters/color.h"
#include "filters/median_task.h"

namespace vf {
namespace {

// Converts a border value to the component that is stored.
Status stored_value(const Layout& layout, double value, uint32_t* out) {
  if (layout.type == Type::f32) {
    const float v = float(value);
    std::memcpy(out, &v, sizeof v);
    return {};
  }
  VF_TRY(check_value(layout, "border value", value));
  *out = uint32_t(std::lrint(value)) << layout.shift;
  return {};
}

// Returns the threshold that differences of stored components are compared with. Integers need only
// its whole part, because an integer difference above the one is above the other.
uint32_t stored_threshold(const Layout& layout, double threshold) {
  if (layout.type == Type::f32) {
    const float v = float(threshold / 255);
    uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    return bits;
  }
  return uint32_t(threshold * (max_code(layout) + 1.0) / 256) << layout.shift;
}

}  // namespace

bool is_identity(const MedianParams& p) {
  return selects_nothing(p.channels) || (p.size == 1 && (p.size_y == 0 || p.size_y == 1));
}

Status make_median(Queue& queue, const Layout& layout, const MedianParams& params,
                   Placement placement, std::unique_ptr<Plan>* out) {
  VF_TRY(validate(layout));
  VF_TRY(check_limits("size", params.size, MedianParams::kSize));
  VF_TRY(check_limits("size-y", params.size_y, MedianParams::kSizeY));
  VF_TRY(check_limits("threshold", params.threshold, MedianParams::kThreshold));
  VF_TRY(check_type(layout));
  if (params.border == Border::reflect || params.border == Border::wrap)
    return Status::invalid(
        "border is %s, but it must be replicate, reflect-101, constant or shrink",
        name_of(params.border));
  const auto fill = [&](MedianTask& task) {
    task.layout = layout;
    task.border = params.border;
    task.placement = placement;
    task.outliers_only = params.threshold > 0;
    task.threshold = stored_threshold(layout, params.threshold);
    for (int i = 0; i < layout.planes; i++) {
      const PlaneLayout& l = layout.plane[i];
      MedianPlane plane;
      plane.size_x = plane_size(params.size, l.sub_x);
      plane.size_y = plane_size(params.size_y ? params.size_y : params.size, l.sub_y);
      plane.channels = uint8_t(params.channels[i] & ((1 << l.channels) - 1));
      if (params.border == Border::constant)
        for (int c = 0; c < l.channels; c++)
          VF_TRY(stored_value(layout, params.border_value[i][c], &plane.border_value[c]));
      task.plane.push_back(plane);
    }
    return Status();
  };
  return make_plan<MedianTask>(queue, &BackendTable::median, "median", fill, out);
}

}  // namespace vf
