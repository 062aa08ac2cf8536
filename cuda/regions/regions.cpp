// Plans filters of regions on the GPU, and makes the launches of a frame.
#include "cuda/regions/regions.h"
#include "cuda/core/plane_pass.h"

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
    if (task_.placement == Placement::in_place || !kernels_ || !kernels_->takes_all())
      VF_TRY(allocate_image(cuda_, source(), &memory_, &scratch_));
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
    const RegionLaunch launch = this->launch();
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
      const PlaneView view = view_of(src, dst, p);
      RegionPlane& to = args.plane[p];
      to = with_view(to, view);
      to.width = l.width;
      to.height = l.height;
      to.sub_x = uint8_t(l.sub_x);
      to.sub_y = uint8_t(l.sub_y);
      to.channels = uint8_t(l.channels);
      to.step = uint8_t(l.pixel_step());
      to.mask = channels(p);
      to.aligned = is_aligned(view, 16);
    }
    return args;
  }

  RegionLaunch launch() { return {cuda_, task_, regions(), list_, &starts_}; }
  Status copy(const Image& src, const Image& dst, bool early) {
    return copy_regions(launch(), args_of(src, dst), early);
  }
  Status mix(const Image& base, const Image& over, const Image& dst) {
    return mix_regions(launch(), args_of(base, dst), over);
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
