// Chooses the kernels of the median for each plane.
//
//   window                          file
//   3 x 3, dense u8 or u16          median_3x3.cu, if there are 1 or 2 channels or RGBA of u8
//   square, up to 19                median_network.cuh, if the build has a network for it
//   any other                       median_tile_sort.cu
//
// With Border::shrink the first two make the middle of the frame, and median_edges.cu or the tile
// sort makes the edges, where the window does not fit. With a threshold, median_outliers.cu then
// restores the pixels that are no outliers, except after median_3x3.cu and after most networks of
// integers, which do this themselves. The tile sort makes the whole frame if the frame is smaller
// than the window.
#include "cuda/median/median.h"

#include <algorithm>

#include "cuda/core/plane_plan.h"
#include "filters/median_task.h"

namespace vf::cuda {
namespace {

using namespace median;

// Largest window for which median_edges.cu makes the edges of integers with Border::shrink. It
// takes 7 µs for 3 x 3 and 15 µs for 5 x 5 (H200, 1080p gray).
constexpr int kMaxEdges = 9;
// In a higher frame, a network's grid would have more than 65535 rows of blocks.
constexpr int kMaxNetworkHeight = 65535 * 8;

void add(std::unique_ptr<PlanePass> pass, PlanePasses* out) {
  if (pass) out->passes.push_back(std::move(pass));
}

// Adds the passes of a square window that fits into the frame, or none if there is no kernel. The
// build has networks for the windows for which they are the fastest.
Status add_square(const Plane& plane, const Device& device, bool early, PlanePasses* out) {
  const bool u8 = plane.type == Type::u8;
  const Format one = u8 ? Format::u8 : plane.type == Type::u16 ? Format::u16 : Format::f32;
  std::unique_ptr<PlanePass> single, all;
  VF_TRY(make_network(device, one, plane, early, &single));
  if (!single) return {};
  // The last pass is for images that the others cannot load.
  const bool rgba8 = u8 && plane.channels == 4 && plane.step == 4 && plane.count > 1;
  add(make_3x3(plane, device, early), out);
  if (rgba8) VF_TRY(make_network(device, Format::rgba8, plane, early, &all));
  add(std::move(all), out);
  add(std::move(single), out);
  return {};
}

Plane plane_of(const MedianTask& task, int index) {
  const PlaneLayout& l = task.layout.plane[index];
  const MedianPlane& m = task.plane[index];
  Plane plane = {};
  plane.type = task.layout.type;
  plane.width = l.width;
  plane.height = l.height;
  plane.step = l.pixel_step();
  plane.size_x = m.size_x;
  plane.size_y = m.size_y;
  plane.border = task.border;
  std::copy_n(m.border_value, kMaxChannels, plane.border_value);
  plane.outliers_only = task.outliers_only;
  plane.threshold = task.threshold;
  plane.channels = l.channels;
  plane.mask = m.channels;
  for (int c = 0; c < l.channels; c++)
    if (m.channels >> c & 1) plane.index[plane.count++] = uint8_t(c);
  return plane;
}

// Makes the pass of a frame whose planes can be filtered by one launch. It does not replace the
// launch of a plane of gray bytes, which needs fewer instructions.
std::unique_ptr<FramePass> make_frame(const CudaQueue& queue, const MedianTask& task) {
  if (queue.kernel_limits().median_tile_sort_only) return nullptr;
  if (task.layout.planes == 1 && task.layout.type == Type::u8) return nullptr;
  std::vector<Plane> planes;
  for (int i = 0; i < task.layout.planes; i++) {
    planes.push_back(plane_of(task, i));
    if (!in_3x3_frame(planes[i])) return nullptr;
  }
  return make_3x3_frame(planes, queue.device());
}

Status choose(CudaQueue& queue, const MedianTask& task, int index, PlanePasses* out) {
  const PlaneLayout& l = task.layout.plane[index];
  const MedianPlane& m = task.plane[index];
  if (m.copies()) return {};
  out->channels = m.channels;
  const Plane plane = plane_of(task, index);
  const int size = m.size_x;
  const bool shrink = task.border == Border::shrink;
  if (m.size_x == m.size_y && l.height <= kMaxNetworkHeight &&
      !(shrink && (l.width < size || l.height < size)) &&
      !queue.kernel_limits().median_tile_sort_only) {
    Plane middle = plane;
    if (shrink) {  // which these kernels do not have
      middle.border = Border::replicate;
      middle.outliers_only = false;
    }
    // An early start gains nothing after a kernel that does not let the next one start, such as
    // the copy of a frame in place or the edges of the frame before.
    const bool early = !shrink && task.placement != Placement::in_place;
    VF_TRY(add_square(middle, queue.device(), early, out));
  }
  if (out->passes.empty()) {
    std::unique_ptr<PlanePass> all;
    VF_TRY(make_tile_sort(queue, plane, {{0, 0, l.width, l.height}}, &all));
    add(std::move(all), out);
  } else if (shrink && size <= kMaxEdges && plane.type != Type::f32) {
    out->after.push_back(make_edges(plane));
  } else if (shrink) {
    const int r = size / 2, right = std::max(r, l.width - r), bottom = std::max(r, l.height - r);
    std::unique_ptr<PlanePass> edges;
    VF_TRY(make_tile_sort(queue, plane,
                          {{0, 0, l.width, r},
                           {0, bottom, l.width, l.height},
                           {0, r, r, bottom},
                           {right, r, l.width, bottom}},
                          &edges));
    out->after.push_back(std::move(edges));
  }
  if (task.outliers_only) out->after.push_back(make_outliers(plane, queue.device()));
  return {};
}

}  // namespace

Status make_median(Queue& queue, const MedianTask& task, std::unique_ptr<Plan>* out) {
  auto& cuda = static_cast<CudaQueue&>(queue);
  return make_plane_plan(
      cuda, task.layout, task.placement,
      [&](int plane, PlanePasses* passes) { return choose(cuda, task, plane, passes); }, out,
      make_frame(cuda, task));
}

}  // namespace vf::cuda
