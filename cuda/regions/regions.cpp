// Plans filters of regions on the GPU, and makes the launches of a frame.
#include <algorithm>

#include "cuda/regions/regions.h"

namespace vf::cuda {
namespace {

constexpr size_t kMostStarts = RegionParams::kMost * kMaxPlanes;

class CudaRegions final : public RegionsPlan {
 public:
  CudaRegions(CudaQueue& queue, const RegionsTask& task)
      : RegionsPlan(queue, task), cuda_(queue), task_(task) {
    starts_.reserve(kMostStarts);
  }

  Status prepare() {
    kernels_ = std::visit([](const auto& f) { return make_region_kernels(f); }, filter());
    scratch_.layout = source();
    scratch_.memory = Memory::device;
    size_t starts[kMaxPlanes], total = 0;
    for (int p = 0; p < source().planes; p++) {
      scratch_.stride[p] = ptrdiff_t((row_bytes(source(), p) + 255) / 256 * 256);
      starts[p] = total;
      total += size_t(scratch_.stride[p]) * source().plane[p].height;
    }
    if (task_.placement == Placement::in_place || !kernels_ || !kernels_->takes_all()) {
      VF_TRY(cuda_.allocate(Memory::device, total, &memory_));
      for (int p = 0; p < source().planes; p++)
        scratch_.data[p] = memory_.as<uint8_t>() + starts[p];
    }
    VF_TRY(cuda_.allocate(Memory::device, RegionParams::kMost * sizeof(Region), &regions_memory_));
    VF_TRY(cuda_.allocate(Memory::device, kMostStarts * sizeof(RegionStart), &starts_memory_));
    list_ = {regions_memory_.as<Region>(), starts_memory_.as<RegionStart>()};
    return kernels_ ? kernels_->prepare(cuda_, task_) : Status();
  }

 private:
  Status enqueue_regions(const Image& src, const Image& dst) override {
    const bool in_place = src.data[0] == dst.data[0], invert = params().invert;
    if (whole() || (invert && regions().empty())) return whole_plan().run(src, dst);
    if (invert) {
      // The regions keep the original samples, which are brought back after the filter.
      if (in_place) VF_TRY(copy(src, scratch_, false));
      VF_TRY(whole_plan().run(src, dst));
      return mix(dst, in_place ? scratch_ : src, dst);
    }
    if (regions().empty()) return in_place ? Status() : queue_.copy(src, dst);
    if (!in_place) VF_TRY(queue_.copy(src, dst));
    if (!kernels_ || !kernels_->takes(regions())) {
      VF_TRY(whole_plan().run(src, scratch_));
      return mix(dst, scratch_, dst);
    }
    const RegionLaunch launch = {cuda_, task_, regions(), list_, &starts_};
    RegionArgs args = args_of(src, dst);
    args.after_copy = !in_place;
    const bool through_scratch = in_place && !kernels_->in_place(launch, args);
    if (through_scratch) args = args_of(src, scratch_);
    VF_TRY(kernels_->run(launch, args));
    return through_scratch ? copy(scratch_, dst, true) : Status();
  }

  RegionArgs args_of(const Image& src, const Image& dst) const {
    RegionArgs args = {};
    args.planes = source().planes;
    args.shift = source().shift;
    args.edges = edges();
    for (int p = 0; p < args.planes; p++) {
      const PlaneLayout& l = source().plane[p];
      RegionPlane& to = args.plane[p];
      to.src = static_cast<const uint8_t*>(src.data[p]);
      to.dst = static_cast<uint8_t*>(dst.data[p]);
      to.src_stride = int(src.stride[p]);
      to.dst_stride = int(dst.stride[p]);
      to.width = l.width;
      to.height = l.height;
      to.sub_x = uint8_t(l.sub_x);
      to.sub_y = uint8_t(l.sub_y);
      to.channels = uint8_t(l.channels);
      to.step = uint8_t(l.pixel_step());
      to.mask = channels(p);
      const auto aligned = [](const void* data, ptrdiff_t stride) {
        return (reinterpret_cast<uintptr_t>(data) | uintptr_t(stride)) % 16 == 0;
      };
      to.aligned = aligned(src.data[p], src.stride[p]) && aligned(dst.data[p], dst.stride[p]);
    }
    return args;
  }

  Status copy(const Image& src, const Image& dst, bool early) {
    return copy_regions(cuda_, source().type, regions(), list_, &starts_, args_of(src, dst), early);
  }
  Status mix(const Image& base, const Image& over, const Image& dst) {
    return mix_regions(cuda_, source().type, regions(), list_, &starts_, args_of(base, dst), over);
  }

  CudaQueue& cuda_;
  const RegionsTask task_;
  std::unique_ptr<RegionKernels> kernels_;  // null for filters that have none
  // A frame that holds the result of the filter where it must not go to dst at once.
  Image scratch_;
  Allocation memory_, regions_memory_, starts_memory_;
  RegionList list_;
  std::vector<RegionStart> starts_;
};

}  // namespace

Status make_regions(Queue& queue, const RegionsTask& task, std::unique_ptr<RegionsPlan>* out) {
  return make_prepared<CudaRegions, CudaQueue>(queue, task, out);
}

}  // namespace vf::cuda
