// Checks the parameters of the pixelation, and computes the blocks of each plane.
#include "filters/pixelate.h"

#include <algorithm>

#include "filters/backend.h"
#include "filters/pixelate_task.h"

namespace vf {
namespace {

BlockAxis block_axis(int size, int sub, int length) {
  BlockAxis axis;
  axis.length = length;
  axis.size = size;
  axis.sub = sub;
  // At most one sample in a block: blocks without one are left out.
  if (size <= 1 << sub) axis.size = 1, axis.sub = 0;
  while (axis.sub > 0 && axis.size % 2 == 0) axis.size /= 2, axis.sub--;
  axis.count = axis.block_of(length - 1) + 1;
  return axis;
}

}  // namespace

bool is_identity(const PixelateParams& p) {
  return p.block_size == 1 || selects_nothing(p.channels);
}

int block_size(const Layout& layout, const PixelateParams& params) {
  if (params.block_size) return params.block_size;
  // Subsampled planes of an odd frame reach over its end.
  int side = kMaxDimension;
  for (int i = 0; i < layout.planes; i++) {
    const PlaneLayout& l = layout.plane[i];
    side = std::min({side, l.width << l.sub_x, l.height << l.sub_y});
  }
  return blocks_of(side, PixelateParams::kMaxBlocks);
}

Status make_pixelate(Queue& queue, const Layout& layout, const PixelateParams& params,
                     Placement placement, std::unique_ptr<Plan>* out) {
  VF_TRY(validate(layout));
  VF_TRY(check_limits("block-size", params.block_size, PixelateParams::kBlockSize));
  VF_TRY(check_type(layout));
  const auto fill = [&](PixelateTask& task) {
    task.layout = layout;
    task.placement = placement;
    const int size = block_size(layout, params);
    for (int i = 0; i < layout.planes; i++) {
      const PlaneLayout& l = layout.plane[i];
      task.plane.push_back({block_axis(size, l.sub_x, l.width), block_axis(size, l.sub_y, l.height),
                            uint8_t(params.channels[i] & ((1 << l.channels) - 1))});
    }
    return Status();
  };
  return make_plan<PixelateTask>(queue, &BackendTable::pixelate, "pixelate", fill, out);
}

}  // namespace vf
