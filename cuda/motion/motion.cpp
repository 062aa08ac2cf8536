// Plans dense motion on the GPU: one launch makes the pyramids of some pictures, and two or three
// find a field. Each may start before earlier work is done, and waits for it itself.
#include "cuda/motion/motion.h"

#include <climits>

#include "cuda/core/launch.h"
#include "filters/make.h"
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
      levels_.at[i] = int(samples) + kMotionRowBorder * levels_.pitch[i] + kMotionBorder;
      samples += (long long)levels_.pitch[i] * (height + 2 * kMotionRowBorder);
      if (samples > INT_MAX - 256)
        return Status::error(Code::unsupported, "a picture of %dx%d pixels is too large for motion",
                             params_.width, params_.height);
    }
    pyramid_ = (samples + 255) / 256 * 256;
    // One launch searches the coarse levels, down to the finest one whose thread blocks all run at
    // once, one on a multiprocessor. It leaves out the finest level, which has a launch of its own.
    while (coarse_ < kMostCoarse && tiles_of(coarse_) > cuda_.device().processors) coarse_++;
    long long bytes = 0;
    for (int i = 1; i <= coarse_; i++) {
      found_[i] = bytes;
      bytes += stride_of(i) * patches_of(levels_.height[i]);
    }
    fields_of_pair_ = bytes;
    VF_TRY(cuda_.allocate(Memory::device, size_t(kMostPairs * bytes), &fields_));
    return cuda_.allocate(Memory::device, size_t(pyramid_) * size_t(params_.pictures), &pyramids_);
  }

 private:
  // The launch of coarse levels begins at level 1. In a large picture it begins at level 2: level 1
  // has enough patches for a launch of its own.
  static constexpr int kMostCoarse = 2;

  bool early() const { return cuda_.device().starts_early(); }

  // Returns how many blocks of x times y patches a level of some pairs has.
  dim3 grid_of(int level, int x, int y, int pairs = 1) const {
    return dim3(unsigned(blocks_of(patches_of(levels_.width[level]), x)),
                unsigned(blocks_of(patches_of(levels_.height[level]), y)), unsigned(pairs));
  }
  long long tiles_of(int level) const {
    const dim3 tiles = grid_of(level, kMotionFindX, kMotionFindY);
    return (long long)tiles.x * tiles.y;
  }
  // Tells whether a level has a patch for each thread of 16 warps on each multiprocessor.
  bool is_large(int level) const {
    return (long long)patches_of(levels_.width[level]) * patches_of(levels_.height[level]) >=
           16 * 32LL * cuda_.device().processors;
  }
  // Returns the bytes of a row of a level's vectors.
  long long stride_of(int level) const {
    return (long long)patches_of(levels_.width[level]) * (long long)sizeof(MotionVector);
  }
  MotionField found(int pair, int level) const {
    return {fields_.as<char>() + pair * fields_of_pair_ + found_[level], stride_of(level)};
  }

  // Whether rows start at multiples of eight samples.
  static bool is_fast(const MotionPicture& p) {
    const ptrdiff_t unit = 8 * size_of(p.type);
    return p.step == 1 && !p.rgb && reinterpret_cast<uintptr_t>(p.data[0]) % unit == 0 &&
           p.stride[0] % unit == 0;
  }

  // Returns MotionRead::weights for a picture.
  static uint32_t weights_of(const MotionPicture& p) {
    const auto at = reinterpret_cast<uintptr_t>(p.data[0]);
    if (!p.rgb || p.type != Type::u8 || p.depth != 8 || p.step != 4 || at / 4 % 4 != 0) return 0;
    uint32_t weights = 0;
    for (int c = 0; c < 3; c++) {
      const auto of = reinterpret_cast<uintptr_t>(p.data[c]);
      if (of / 4 != at / 4 || p.stride[c] != p.stride[0] || p.stride[c] % 16 != 0) return 0;
      weights |= (c == 1 ? 2u : 1u) << (8 * (of % 4));
    }
    return weights;
  }

  Status enqueue_read(int first, const MotionPicture* from, int count) override {
    MotionRead r;
    for (int i = 0; i < count; i++) {
      r.from[i] = from[i];
      r.fast[i] = is_fast(from[i]);
      r.weights[i] = weights_of(from[i]);
    }
    r.to = pyramids_.as<uint8_t>() + pyramid_ * first;
    r.pyramid = pyramid_;
    r.width = params_.width;
    r.height = params_.height;
    r.levels = levels_;
    const dim3 grid(unsigned(blocks_of(levels_.width[0], kMotionReadX)),
                    unsigned(blocks_of(levels_.height[0] +
                                           kMotionReadGroup * (kMotionReadAbove + kMotionReadBelow),
                                       kMotionReadY)),
                    unsigned(count));
    // Most blocks of large pictures start when nothing is left to wait for.
    r.prefetches = (long long)grid.x * grid.y * grid.z <= 5LL * cuda_.device().processors;
    return launch("motion_read", motion_read(), {grid, dim3(kMotionReadThreads), 0, early()}, cuda_,
                  r);
  }

  Status enqueue_find(const MotionPair* pairs, int count, const MotionParts& parts) override {
    MotionFind f;
    for (int i = 0; i < count; i++) {
      f.pair[i].picture = pyramids_.as<uint8_t>() + pyramid_ * pairs[i].picture;
      f.pair[i].before = pyramids_.as<uint8_t>() + pyramid_ * pairs[i].before;
      f.pair[i].field = found(i, coarse_);
    }
    f.levels = levels_;
    f.level = coarse_;
    VF_TRY(launch(
        "motion_find_coarse", motion_find_coarse(),
        {grid_of(coarse_, kMotionFindX, kMotionFindY, count), dim3(kMotionFindThreads), 0, early()},
        cuda_, f));
    while (f.level > 0) {
      if (--f.level == 0) f.parts = parts;
      for (int i = 0; i < count; i++) {
        f.pair[i].coarse = f.pair[i].field;
        f.pair[i].field =
            f.level > 0 ? found(i, f.level)
                        : MotionField{reinterpret_cast<char*>(pairs[i].field), pairs[i].stride};
      }
      const int lanes = is_large(f.level) ? 1 : 4;
      VF_TRY(launch("motion_find_level", motion_find_level(lanes, f.level == 0, f.parts.count > 0),
                    {grid_of(f.level, 32 / lanes, kMotionLevelY, count), dim3(kMotionLevelThreads),
                     0, early()},
                    cuda_, f));
    }
    return {};
  }

  CudaQueue& cuda_;
  MotionLevels levels_;
  long long pyramid_ = 0;
  int coarse_ = 1;  // the finest level that the launch of coarse levels searches
  // The place of a level's vectors in fields_, where each pair has so many bytes.
  long long found_[kLevels] = {}, fields_of_pair_ = 0;
  Allocation pyramids_, fields_;
};

}  // namespace

Status make_motion(Queue& queue, const MotionTask& task, std::unique_ptr<MotionPlan>* out) {
  return make_prepared<CudaMotion, CudaQueue>(queue, task, out);
}

}  // namespace vf::cuda
