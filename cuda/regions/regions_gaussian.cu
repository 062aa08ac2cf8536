// Blurs regions, each with its own sigma. This file chooses how many regions are filtered at once.
// The kernels are in regions_gaussian_bytes.cu and regions_gaussian_words.cu.
//
// There are two passes, and the second one starts early. All reads of the frame come before the
// first write, so that regions can be filtered in place if there is room for all sums.
#include <algorithm>
#include <tuple>

#include "cuda/regions/regions_gaussian.cuh"

namespace vf::cuda {
namespace {

constexpr int kCell = 64;  // pixels; parts of large regions are multiples of it

constexpr PlaneRect kEverywhere = {0, 0, 1 << 30, 1 << 30};

size_t sums_bytes(const Layout& layout) {
  // At least a part of a region that cannot be divided any more, with four planes of four
  // components. Twice the frame is more than regions with halos need if none has more than half of
  // the frame. The upper limit is what L2 holds.
  constexpr int64_t kMin = 16 * (kCell / 16 + 1) * (kCell / 16 + 1 + 2 * kMaxReach / 16),
                    kMax = 32 << 10;
  int64_t tiles = 0;
  for (int p = 0; p < layout.planes; p++) {
    const PlaneLayout& l = layout.plane[p];
    tiles += int64_t(l.channels) * (l.width / 16 + 1) * (l.height / 16 + 1);
  }
  return size_t(std::clamp(2 * tiles, kMin, kMax)) * kSumsBytes;
}

class GaussianRegions final : public RegionKernels {
 public:
  explicit GaussianRegions(const GaussianParams& params) : params_(params) {}

  Status prepare(CudaQueue& queue, const RegionsTask& task) override {
    const Layout& layout = task.layout;
    passes_ = layout.type == Type::u8 ? gaussian_byte_passes(layout) : gaussian_word_passes(layout);
    const size_t bytes = sums_bytes(layout);
    room_ = int64_t(bytes / kSumsBytes);
    VF_TRY(queue.allocate(Memory::device, bytes, &sums_));
    const Device& device = queue.device();
    processors_ = device.processors;
    for (const auto first : passes_.first) VF_TRY(allow_most(device, first, &most_[0]));
    VF_TRY(allow_most(device, passes_.second, &most_[1]));
    shares_ = device.starts_early() && layout.type != Type::u8;
    return {};
  }

  bool in_place(const RegionLaunch& l, const RegionArgs& args) const override {
    int64_t sums = 0;
    for (const Region& r : l.regions) sums += work_of(args, r).sums;
    return sums <= room_;
  }

  Status run(const RegionLaunch& l, RegionArgs args) override {
    for (size_t begin = 0, end = 0; begin < l.regions.size(); begin = end) {
      int64_t sums = 0;
      for (; end < l.regions.size(); end++) {
        sums += work_of(args, l.regions[end]).sums;
        if (sums > room_) break;
      }
      if (begin < end)
        VF_TRY(blur(l, args, begin, end, kEverywhere));
      else
        VF_TRY(blur_in_parts(l, args, end++));
      args.after_copy = false;
    }
    return {};
  }

 private:
  // Allows a kernel all dynamic shared memory that there is, and sets `bytes` to it. If a pixel has
  // four bytes, the largest reach needs more than capability 7.5 has.
  template <class K>
  static Status allow_most(const Device& device, K kernel, size_t* bytes) {
    cudaFuncAttributes attributes;
    VF_CUDA(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)));
    *bytes = size_t(device.shared_per_block) - attributes.sharedSizeBytes;
    return allow_shared(kernel, *bytes);
  }

  // Returns the dynamic shared memory that a launch of the second pass asks for if its blocks use
  // `bytes`. Blocks that start early fill some multiprocessors, while others have few. So a
  // multiprocessor gets no room for more blocks than its share. Bytes gain nothing by that.
  size_t second_shared_of(const Device& device, int64_t blocks, size_t bytes) const {
    constexpr int kReserved = 1024, kUnit = 128;  // bytes of a block
    if (!shares_) return bytes;
    const int all = device.shared_per_block + kReserved;
    const int share = int(std::min<int64_t>(blocks_of(blocks, processors_), kSecondBlocks));
    const int least = (all / (share + 1) / kUnit + 1) * kUnit + int(most_[1]) - all;
    return std::max(bytes, size_t(std::max(least, 0)));
  }

  GaussianWork work_of(const RegionArgs& args, const Region& r,
                       const PlaneRect& clip = kEverywhere) const {
    GaussianWork all;
    for (int p = 0; p < args.planes; p++) {
      const GaussianWork w = passes_.work(clip, r, args.plane[p]);
      all.first += w.first, all.second += w.second, all.sums += w.sums;
    }
    return all;
  }

  // Blurs the part of regions `begin` to `end` that is in `clip`. There must be room for the sums.
  Status blur(const RegionLaunch& l, RegionArgs args, size_t begin, size_t end,
              const PlaneRect& clip) const {
    const Layout& layout = l.task.layout;
    GaussianWork all;
    int reach_x = 0, reach_y = 0;
    l.starts->clear();
    // Blocks of luma take longest. They come first, so that the multiprocessors get equal shares.
    for (int p = 0; p < layout.planes; p++)
      for (size_t i = begin; i < end; i++) {
        const Region& r = l.regions[i];
        const GaussianWork own = passes_.work(clip, r, args.plane[p]);
        if (own.first == 0) continue;
        const uint8_t radius_x = r.radius_x[layout.plane[p].sub_x],
                      radius_y = r.radius_y[layout.plane[p].sub_y];
        l.starts->push_back({{int(all.first), int(all.second)},
                             int(all.sums),
                             uint16_t(i),
                             uint8_t(p),
                             false,
                             radius_x,
                             radius_y,
                             uint8_t(own.wide)});
        all.first += own.first, all.second += own.second, all.sums += own.sums;
        reach_x = std::max(reach_x, reach_of(radius_x));
        reach_y = std::max(reach_y, reach_of(radius_y));
      }
    if (all.first == 0) return {};
    const size_t first_shared = passes_.first_shared(layout, reach_x);
    const size_t second_shared = passes_.second_shared(layout, reach_y);
    for (const auto& [reach, bytes, most] : {std::tuple(reach_x, first_shared, most_[0]),
                                             std::tuple(reach_y, second_shared, most_[1])})
      if (bytes > most)
        return Status::error(Code::unsupported,
                             "a region's blur reaches %d pixels, for which it needs %zu bytes of "
                             "shared memory, but this GPU has %zu: choose a smaller sigma, or NV12",
                             reach, bytes, most);
    VF_TRY(set_regions(l, &args));
    GaussianArgs g = {};
    g.r = args;
    g.clip = clip;
    g.sums = sums_.as<uint4>();
    g.middle = is_wide(layout) ? middle_code(layout) & ~255 : 512;
    g.border = params_.border;
    for (int p = 0; p < layout.planes; p++)
      for (int c = 0; c < layout.plane[p].channels; c++)
        g.outside[p][c] = params_.border == Border::constant
                              ? uint16_t(std::lrint(params_.border_value[p][c]))
                              : uint16_t(0);
    // The first pass cannot start early behind an upload of regions.
    const Device& device = l.queue.device();
    const bool early = device.starts_early();
    VF_TRY(launch("rows of regions", passes_.first[all.first <= 2 * processors_],
                  {unsigned(all.first), passes_.first_threads, first_shared, early && !args.more},
                  l.queue, g));
    return launch("columns of regions", passes_.second,
                  {unsigned(all.second), passes_.second_threads,
                   second_shared_of(device, all.second, second_shared), early},
                  l.queue, g);
  }

  // Blurs a region in parts, because there is no room for the sums of all of it.
  Status blur_in_parts(const RegionLaunch& l, RegionArgs args, size_t index) const {
    const Region& r = l.regions[index];
    const int left = r.x0 / kCell * kCell, top = r.y0 / kCell * kCell;
    int width = round_up(r.x1 - left, kCell), height = round_up(r.y1 - top, kCell);
    const auto largest = [&] {
      int64_t sums = 0;
      for (int y = top; y < r.y1; y += height)
        for (int x = left; x < r.x1; x += width)
          sums = std::max(sums, work_of(args, r, {x, y, x + width, y + height}).sums);
      return sums;
    };
    while (largest() > room_ && (width > kCell || height > kCell))
      (width > height ? width : height) = round_up((width > height ? width : height) / 2, kCell);
    for (int y = top; y < r.y1; y += height)
      for (int x = left; x < r.x1; x += width) {
        VF_TRY(blur(l, args, index, index + 1, {x, y, x + width, y + height}));
        args.after_copy = false;
      }
    return {};
  }

  const GaussianParams params_;
  GaussianPasses passes_ = {};
  Allocation sums_;   // the first pass leaves them for the second
  int64_t room_ = 0;  // tiles of sums
  int processors_ = 0;
  size_t most_[2] = {};  // bytes of dynamic shared memory that each pass may have
  bool shares_ = false;  // whether shared memory limits a multiprocessor's blocks
};

}  // namespace

std::unique_ptr<RegionKernels> make_region_kernels(const RegionGaussian& filter) {
  return std::make_unique<GaussianRegions>(filter.params);
}

}  // namespace vf::cuda
