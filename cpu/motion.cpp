// Plans dense motion on the CPU.
//
// Threads share the rows of each level of a pyramid, and then the rows of patches of each level of
// a search.
#include "cpu/motion.h"

#include <algorithm>

#include "cpu/queue.h"
#include "filters/make.h"
#include "filters/motion_task.h"

namespace vf::cpu {
namespace {

using namespace vf::motion;

class CpuMotion final : public MotionPlan {
 public:
  CpuMotion(CpuQueue& queue, const MotionTask& task) : MotionPlan(task), pool_(queue) {}

  Status prepare() {
    size_t samples = 0, vectors = 0;
    int width = params_.width, height = params_.height;
    for (MotionLevel& level : levels_) {
      level.width = width = half_of(width);
      level.height = height = half_of(height);
      level.at = samples;
      samples += size_t(width) * height;
      level.vectors_at = vectors;
      vectors += size_t(patches_of(width)) * patches_of(height);
    }
    samples_ = samples;
    VF_TRY(pool_.allocate(Memory::host, samples * params_.pictures, &pyramids_));
    VF_TRY(pool_.allocate(Memory::host, vectors * sizeof(LevelVector), &vectors_));
    scratch_per_thread_ = motion_row_scratch(params_.width);
    return pool_.allocate(Memory::host, scratch_per_thread_ * pool_.threads(), &scratch_);
  }

 private:
  // A strip is large enough to be worth a task, and a level has a few strips per thread.
  template <class F>
  void strips(int rows, F&& f) {
    const int n = std::clamp(rows / 4, 1, 4 * pool_.threads()), each = blocks_of(rows, n);
    pool_.parallel(blocks_of(rows, each), [&](int task, int thread) {
      f(task * each, std::min(rows, (task + 1) * each), thread);
    });
  }

  uint8_t* pyramid(int number) { return pyramids_.as<uint8_t>() + samples_ * size_t(number); }

  Status enqueue_read(int first, const MotionPicture* from, int count) override {
    for (int k = 0; k < count; k++)
      for (int i = 0; i < kLevels; i++) {
        const MotionLevel &level = levels_[i], &finer = levels_[std::max(i - 1, 0)];
        uint8_t* to = pyramid(first + k) + level.at;
        strips(level.height, [&](int y0, int y1, int thread) {
          auto* scratch = scratch_.as<char>() + scratch_per_thread_ * size_t(thread);
          if (i == 0)
            motion_halve_rows(from[k], params_.width, params_.height, y0, y1, to, scratch);
          else
            motion_mean_rows(pyramid(first + k) + finer.at, finer.width, finer.height, y0, y1, to);
        });
      }
    return {};
  }

  Status enqueue_find(const MotionPair* pairs, int count, const MotionParts& parts) override {
    for (int i = 0; i < count; i++) find_pair(pairs[i], parts);
    return {};
  }

  void find_pair(const MotionPair& pair, const MotionParts& parts) {
    for (int k = kLevels - 1; k >= 0; k--) {
      const MotionLevel& level = levels_[k];
      MotionSearch s;
      s.picture = pyramid(pair.picture) + level.at;
      s.before = pyramid(pair.before) + level.at;
      s.width = level.width;
      s.height = level.height;
      s.columns = patches_of(level.width);
      s.steps = steps_of(k);
      s.starts = starts_of(k);
      if (k + 1 < kLevels) {
        s.coarse = vectors_.as<LevelVector>() + levels_[k + 1].vectors_at;
        s.coarse_columns = patches_of(levels_[k + 1].width);
        s.coarse_rows = patches_of(levels_[k + 1].height);
      }
      s.out = vectors_.as<LevelVector>() + level.vectors_at;
      s.field = k == 0 ? reinterpret_cast<char*>(pair.field) : nullptr;
      s.stride = pair.stride;
      strips(patches_of(level.height), [&](int j0, int j1, int) {
        if (k > 0 || parts.count == 0) return motion_search_rows(s, j0, j1);
        for (int j = j0; j < j1; j++)
          if (parts.want(0, s.columns, j)) motion_search_rows(s, j, j + 1);
      });
    }
  }

  struct MotionLevel {
    int width, height;
    size_t at, vectors_at;  // first sample in a pyramid, first vector in vectors_
  };

  CpuQueue& pool_;
  MotionLevel levels_[kLevels] = {};
  size_t samples_ = 0, scratch_per_thread_ = 0;
  Allocation pyramids_, vectors_, scratch_;
};

}  // namespace

Status make_motion(Queue& queue, const MotionTask& task, std::unique_ptr<MotionPlan>* out) {
  return make_prepared<CpuMotion, CpuQueue>(queue, task, out);
}

}  // namespace vf::cpu
