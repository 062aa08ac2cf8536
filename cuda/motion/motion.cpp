// Plans dense motion on the GPU: one launch makes the pyramids of some pictures, and one launch
// finds a field. Both may start before earlier work is done, and wait for it themselves.
#include "cuda/motion/motion.h"

#include <climits>

#include "cuda/core/launch.h"
#include "cuda/filters.h"
#include "filters/motion_task.h"

namespace vf::cuda {
namespace {

using namespace vf::motion;

class CudaMotion final : public MotionPlan {
 public:
  CudaMotion(CudaQueue& queue, const MotionTask& task) : MotionPlan(task), cuda_(queue) {}

  Status prepare() {
    long long samples = 0;
    int width = params_.width, height = params_.height;
    for (int i = 0; i < kLevels; i++) {
      levels_.width[i] = width = half_of(width);
      levels_.height[i] = height = half_of(height);
      levels_.pitch[i] = (width + 15) / 16 * 16 + 2 * kMotionBorder;
      levels_.at[i] = int(samples) + kMotionBorder;
      samples += (long long)levels_.pitch[i] * height;
      if (samples > INT_MAX - 256)
        return Status::error(Code::unsupported, "a picture of %dx%d pixels is too large for motion",
                             params_.width, params_.height);
    }
    pyramid_ = (samples + 255) / 256 * 256;
    return cuda_.allocate(Memory::device, size_t(pyramid_) * size_t(params_.pictures), &pyramids_);
  }

 private:
  bool early() const { return cuda_.device().capability >= 90; }

  // Whether rows start at multiples of eight samples.
  static bool is_fast(const MotionPicture& p) {
    const ptrdiff_t unit = 8 * size_of(p.type);
    return p.step == 1 && !p.rgb && reinterpret_cast<uintptr_t>(p.data[0]) % unit == 0 &&
           p.stride[0] % unit == 0;
  }

  Status enqueue_read(int first, const MotionPicture* from, int count) override {
    MotionRead r;
    for (int i = 0; i < count; i++) {
      r.from[i] = from[i];
      r.fast[i] = is_fast(from[i]);
    }
    r.to = pyramids_.as<uint8_t>() + pyramid_ * first;
    r.pyramid = pyramid_;
    r.width = params_.width;
    r.height = params_.height;
    r.levels = levels_;
    const auto tiles = [](int size) { return unsigned((size + kMotionTile - 1) / kMotionTile); };
    return launch("motion_read", motion_read(),
                  {dim3(tiles(levels_.width[0]), tiles(levels_.height[0]), unsigned(count)),
                   dim3(kMotionReadThreads), 0, early()},
                  cuda_.cuda_stream(), r);
  }

  Status enqueue_find(int picture, int before, MotionVector* field, ptrdiff_t stride) override {
    MotionFind f;
    f.picture = pyramids_.as<uint8_t>() + pyramid_ * picture;
    f.before = pyramids_.as<uint8_t>() + pyramid_ * before;
    f.field = reinterpret_cast<char*>(field);
    f.stride = stride;
    f.levels = levels_;
    const int columns = patches_of(levels_.width[0]), rows = patches_of(levels_.height[0]);
    return launch("motion_find", motion_find(),
                  {dim3(unsigned((columns + kMotionFindX - 1) / kMotionFindX),
                        unsigned((rows + kMotionFindY - 1) / kMotionFindY)),
                   dim3(kMotionFindThreads), 0, early()},
                  cuda_.cuda_stream(), f);
  }

  CudaQueue& cuda_;
  MotionLevels levels_;
  long long pyramid_ = 0;
  Allocation pyramids_;
};

}  // namespace

Status make_motion(Queue& queue, const MotionTask& task, std::unique_ptr<MotionPlan>* out) {
  auto plan = std::make_unique<CudaMotion>(static_cast<CudaQueue&>(queue), task);
  VF_TRY(plan->prepare());
  *out = std::move(plan);
  return {};
}

}  // namespace vf::cuda
