// Gaussian of regions, each with a sigma of its own: how many are filtered at once.
//
// Two passes, the second of which starts early. All that is read of the frame is read before
// anything is written, so that regions in place need no other copy, as long as the sums of all of
// them have room. The kernels are those of regions_gaussian_bytes.cu and regions_gaussian_words.cu.
#include <algorithm>

#include "cuda/regions/regions_gaussian.cuh"

namespace vf::cuda {
namespace {

constexpr int kCell = 64;  // pixels; parts of large regions are multiples of it

constexpr PlaneRect kEverywhere = {0, 0, 1 << 30, 1 << 30};

GaussianPasses passes_of(const Layout& layout) {
  return layout.type == Type::u8 ? gaussian_byte_passes(layout) : gaussian_word_passes(layout);
}

// Of a region, over all planes.
GaussianWork work_of(const GaussianPasses& passes, const RegionArgs& args, const Region& r,
                     const PlaneRect& clip = kEverywhere) {
  GaussianWork all;
  for (int p = 0; p < args.planes; p++) {
    const GaussianWork w = passes.work(clip, r, args.plane[p]);
    all.first += w.first, all.second += w.second, all.sums += w.sums;
  }
  return all;
}

int64_t most_sums(const RegionLaunch& l) {
  return int64_t(l.sums.size() / kSumsBytes);
}

// Blurs regions `begin` to `end`, as far as they are in `clip`: their sums have room.
Status blur(const RegionLaunch& l, RegionArgs args, size_t begin, size_t end,
            const PlaneRect& clip) {
  const Layout& layout = l.task.layout;
  const GaussianParams& params = std::get<RegionGaussian>(l.task.filter).params;
  const GaussianPasses passes = passes_of(layout);
  GaussianWork all;
  int reach_x = 0, reach_y = 0;
  l.starts->clear();
  for (size_t i = 0; i < l.regions.size(); i++) {
    l.starts->push_back({{int(all.first), int(all.second)}, int(all.sums), false});
    if (i < begin || i >= end) continue;
    const Region& r = l.regions[i];
    const GaussianWork own = work_of(passes, args, r, clip);
    all.first += own.first, all.second += own.second, all.sums += own.sums;
    for (int p = 0; p < layout.planes; p++) {
      reach_x = std::max(reach_x, reach_of(r.radius_x[layout.plane[p].sub_x]));
      reach_y = std::max(reach_y, reach_of(r.radius_y[layout.plane[p].sub_y]));
    }
  }
  if (all.first == 0) return {};
  VF_TRY(set_regions(l.queue, l.regions, l.starts, l.list, &args));
  GaussianArgs g = {};
  g.r = args;
  g.clip = clip;
  g.sums = l.sums.as<uint4>();
  g.middle = is_wide(layout) ? middle_code(layout) & ~255 : 512;
  g.border = params.border;
  for (int p = 0; p < layout.planes; p++)
    for (int c = 0; c < layout.plane[p].channels; c++)
      g.outside[p][c] = params.border == Border::constant
                            ? uint16_t(std::lrint(params.border_value[p][c]))
                            : uint16_t(0);
  // An upload comes between the first pass and what it may overlap with.
  const bool early = l.queue.device().capability >= 90;
  VF_TRY(launch("rows of regions", passes.first,
                {unsigned(all.first), passes.first_threads, passes.first_shared(layout, reach_x),
                 early && !args.more},
                l.queue.cuda_stream(), g));
  return launch(
      "columns of regions", passes.second,
      {unsigned(all.second), passes.second_threads, passes.second_shared(layout, reach_y), early},
      l.queue.cuda_stream(), g);
}

// Blurs a region whose sums have no room in parts that have.
Status blur_in_parts(const RegionLaunch& l, const RegionArgs& args, size_t index) {
  const Region& r = l.regions[index];
  const GaussianPasses passes = passes_of(l.task.layout);
  const auto whole = [](int v) { return (v + kCell - 1) / kCell * kCell; };
  const int left = r.x0 / kCell * kCell, top = r.y0 / kCell * kCell;
  int width = whole(r.x1 - left), height = whole(r.y1 - top);
  const auto most = [&] {
    int64_t sums = 0;
    for (int y = top; y < r.y1; y += height)
      for (int x = left; x < r.x1; x += width)
        sums = std::max(sums, work_of(passes, args, r, {x, y, x + width, y + height}).sums);
    return sums;
  };
  while (most() > most_sums(l) && (width > kCell || height > kCell))
    (width > height ? width : height) = whole((width > height ? width : height) / 2);
  for (int y = top; y < r.y1; y += height)
    for (int x = left; x < r.x1; x += width)
      VF_TRY(blur(l, args, index, index + 1, {x, y, x + width, y + height}));
  return {};
}

}  // namespace

size_t gaussian_sums_bytes(const Layout& layout) {
  // A part of a region that cannot be divided any more, of four planes of four components; more
  // than the regions and halos of a frame of which no region has more than half; and what L2 holds.
  constexpr int64_t kLeast = 16 * (kCell / 16 + 1) * (kCell / 16 + 1 + 2 * kMaxReach / 16),
                    kMost = 32 << 10;
  int64_t tiles = 0;
  for (int p = 0; p < layout.planes; p++) {
    const PlaneLayout& l = layout.plane[p];
    tiles += int64_t(l.channels) * (l.width / 16 + 1) * (l.height / 16 + 1);
  }
  return size_t(std::clamp(2 * tiles, kLeast, kMost)) * kSumsBytes;
}

bool gaussian_at_once(const RegionLaunch& l, const RegionArgs& args) {
  const GaussianPasses passes = passes_of(l.task.layout);
  int64_t sums = 0;
  for (const Region& r : l.regions) sums += work_of(passes, args, r).sums;
  return sums <= most_sums(l);
}

Status prepare_gaussian_regions(CudaQueue& queue, const RegionsTask& task) {
  (void)queue;
  const Layout& layout = task.layout;
  const GaussianPasses passes = passes_of(layout);
  VF_TRY(allow_shared(passes.first, passes.first_shared(layout, kMaxReach)));
  return allow_shared(passes.second, passes.second_shared(layout, kMaxReach));
}

Status gaussian_regions(const RegionLaunch& l, RegionArgs args) {
  const GaussianPasses passes = passes_of(l.task.layout);
  for (size_t begin = 0, end = 0; begin < l.regions.size(); begin = end) {
    int64_t sums = 0;
    for (; end < l.regions.size(); end++) {
      sums += work_of(passes, args, l.regions[end]).sums;
      if (sums > most_sums(l)) break;
    }
    if (begin < end)
      VF_TRY(blur(l, args, begin, end, kEverywhere));
    else
      VF_TRY(blur_in_parts(l, args, end++));
  }
  return {};
}

}  // namespace vf::cuda
