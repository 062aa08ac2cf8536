#include "cuda/core/plane_plan.h"

#include <algorithm>

#include "cuda/core/copy.h"

namespace vf::cuda {
namespace {

class PlanePlan final : public Plan {
 public:
  PlanePlan(CudaQueue& queue, const Layout& layout, Placement placement,
            std::unique_ptr<FramePass> frame)
      : Plan(queue, layout, layout, placement),
        cuda_(queue),
        placement_(placement),
        frame_(std::move(frame)) {}

  Status prepare(const std::function<Status(int, PlanePasses*)>& choose) {
    planes_.resize(source().planes);
    size_t scratch = 0, copy = 0;
    for (int i = 0; i < source().planes; i++) {
      PlanePasses& p = planes_[i];
      VF_TRY(choose(i, &p));
      bool in_place = p.after.empty();
      for (const auto& pass : p.passes) {
        scratch = std::max(scratch, pass->scratch_bytes());
        in_place = in_place && pass->in_place();
      }
      for (const auto& pass : p.after) scratch = std::max(scratch, pass->scratch_bytes());
      if (placement_ == Placement::in_place && !p.passes.empty() && !in_place)
        copy = std::max(copy, copy_stride(i) * source().plane[i].height);
    }
    if (scratch) VF_TRY(cuda_.allocate(Memory::device, scratch, &scratch_));
    for (const PlanePasses& p : planes_)
      for (const auto* passes : {&p.passes, &p.after})
        for (const auto& pass : *passes)
          if (pass->scratch_bytes()) pass->set_scratch(scratch_.data());
    if (copy) {
      VF_TRY(cuda_.allocate(Memory::device, copy, &copy_));
      // The last vector of a row includes the gap behind the row. Kernels load the gap but do not
      // use it, and clearing it keeps them from reading uninitialised memory.
      VF_CUDA(cudaMemsetAsync(copy_.data(), 0, copy, cuda_.cuda_stream()));
    }
    divide_device();
    for (const bool last : {false, true})
      for (int i = 0; i < source().planes; i++) {
        const auto& passes = planes_[i].passes;
        if ((!passes.empty() && passes[0]->comes_last()) == last) order_.push_back(i);
      }
    return {};
  }

 private:
  size_t copy_stride(int plane) const { return (row_bytes(source(), plane) + 255) / 256 * 256; }

  // Lets planes overlap on the device if their passes allow it. If all passes are of one class,
  // each gets a fraction of the blocks. A block then makes more tiles than if each plane had all
  // blocks in turn. With different classes, fractions would leave processors idle at the end, so
  // each plane has all blocks and starts on the processors that the previous plane no longer needs.
  void divide_device() {
    double bytes = 0;
    int first_class = 0;
    bool alike = true;
    const auto bytes_of = [&](size_t i) {
      return double(row_bytes(source(), int(i))) * source().plane[i].height;
    };
    for (size_t i = 0; i < planes_.size(); i++) {
      if (planes_[i].passes.empty()) continue;
      const int own = planes_[i].passes[0]->concurrency_class();
      if (placement_ == Placement::in_place || !own) return;
      alike = alike && (!first_class || own == first_class);
      first_class = own;
      bytes += bytes_of(i);
    }
    for (size_t i = 0; i < planes_.size(); i++)
      if (!planes_[i].passes.empty() && alike)
        planes_[i].passes[0]->set_grid_fraction(bytes_of(i) / bytes);
    overlapping_ = true;
  }

  static PlanePass& pass_for(const PlanePasses& p, const PlaneView& view) {
    return **std::find_if(p.passes.begin(), std::prev(p.passes.end()),
                          [&](const auto& pass) { return pass->takes(view); });
  }

  Status enqueue(const Image& src, const Image& dst) override {
    if (frame_ && frame_->takes(src, dst)) return frame_->enqueue(cuda_, src, dst);
    bool overlaps_previous = false;
    for (const int i : order_) {
      const PlanePasses& p = planes_[i];
      const PlaneLayout& l = source().plane[i];
      PlaneView view = view_of(src, dst, i);
      const bool same = view.src == view.dst;
      const auto all = uint8_t((1 << l.channels) - 1);
      if (p.passes.empty()) {
        if (!same) VF_TRY(copy_channels(cuda_, source(), i, all, view));
        overlaps_previous = false;
        continue;
      }
      PlanePass* pass = &pass_for(p, view);
      if (same && (!p.after.empty() || !pass->in_place())) {
        // Blocks read pixels that their neighbours overwrite, so the plane is copied first. The
        // copy is mostly read from L2.
        auto* const copy = copy_.as<uint8_t>();
        const auto stride = ptrdiff_t(copy_stride(i));
        VF_TRY(copy_rows(cuda_, {view.src, copy, view.src_stride, stride}, row_bytes(source(), i),
                         l.height));
        view.src = copy;
        view.src_stride = stride;
        pass = &pass_for(p, view);
      }
      const uint8_t kept = all & ~p.channels;
      if (!same && kept && !pass->copies_channels())
        VF_TRY(copy_channels(cuda_, source(), i, kept, view));
      VF_TRY(pass->enqueue(cuda_, view, overlaps_previous));
      const bool complete = p.after.empty() || pass->is_complete();
      if (!complete)
        for (const auto& next : p.after) VF_TRY(next->enqueue(cuda_, view, false));
      overlaps_previous = overlapping_ && complete && pass == p.passes[0].get();
    }
    return {};
  }

  CudaQueue& cuda_;
  Placement placement_;
  std::unique_ptr<FramePass> frame_;
  std::vector<PlanePasses> planes_;
  std::vector<int> order_;  // in which the planes are launched
  Allocation scratch_, copy_;
  bool overlapping_ = false;
};

}  // namespace

Status make_plane_plan(CudaQueue& queue, const Layout& layout, Placement placement,
                       const std::function<Status(int plane, PlanePasses*)>& choose,
                       std::unique_ptr<Plan>* out, std::unique_ptr<FramePass> frame) {
  auto plan = std::make_unique<PlanePlan>(queue, layout, placement, std::move(frame));
  VF_TRY(plan->prepare(choose));
  *out = std::move(plan);
  return {};
}

}  // namespace vf::cuda
