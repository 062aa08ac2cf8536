// refine=colors in the plan of the guided matte: memory and launches before the guided filter.
#pragma once

#include "cuda/core/queue.h"
#include "cuda/guided/guided_colors.h"
#include "filters/guided_task.h"

namespace vf::cuda {

class GuidedVotes {
 public:
  Status prepare(CudaQueue& queue, const GuidedTask& task);
  // Enqueues the votes of the frame that `g` describes, and `low` its samples. `quads`: its pixels
  // are words of a width that is a multiple of 4, aligned to 16 bytes, and no chroma key.
  Status enqueue(const Guided& g, const Guided& low, bool quads);
  // Whether that is all of the statistics too, for strips of so many rows; else 0.
  int statistics_strip() const { return statistics_strip_; }
  // What the launches of the guided filter's statistics and means get for the frame of `g`.
  Guided low(const Guided& g) const;

  // What holds the words of the frame's samples.
  const Votes& samples() const { return v_; }

  void forget() { v_.fresh = 1; }
  void take_over(GuidedVotes& before);

 private:
  Status launch(VotesKernel kernel, const VotesLaunch& shape);
  // What the votes say, and what else there is before the guided filter.
  Status enqueue_result(const Guided& g, const Guided& low);

  CudaQueue* queue_ = nullptr;
  Votes v_;
  double epsilon_ = 0;
  int component_size_ = 1;
  bool is_float_ = false, beside_ = false;
  int statistics_strip_ = 0;
  VotesKernel prior_ = nullptr, votes_ = nullptr;
  VotesLaunch tiles_, cells_;
  Allocation memory_, before_, errors_;
};

}  // namespace vf::cuda
