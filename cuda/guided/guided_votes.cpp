#include "cuda/guided/guided_votes.h"

#include <cmath>
#include <vector>

#include "cuda/core/launch.h"
#include "cuda/core/parts.h"

namespace vf::cuda {
namespace {

int blocks_of(int n, int size) {
  return (n + size - 1) / size;
}

}  // namespace

Status GuidedVotes::prepare(CudaQueue& queue, const GuidedTask& task) {
  const GuidedColors& c = task.colors;
  const GuidedParams& p = task.params;
  queue_ = &queue;
  component_size_ = size_of(task.source.type);
  is_float_ = task.source.type == Type::f32;
  epsilon_ = p.epsilon;
  beside_ = p.mask == MatteMask::external;
  Votes& v = v_;
  v.width = c.width;
  v.height = c.height;
  v.pitch = (c.width + 7) & ~7;
  v.cell_width = c.cell_width;
  v.cell_height = c.cell_height;
  v.prior_radius = c.prior_radius;
  v.reach = c.reach;
  v.prior_count = int(c.prior.size());
  for (int i = 0; i < 3; i++) {
    double gray = 0;
    v.compared[i][3] = (128 << 16) + (1 << 15);
    for (int k = 0; k < 3; k++) {
      v.feature[i][k] = c.feature[i][k];
      v.compared[i][k] = c.compared[i][k];
      v.compared[i][3] -= 128 * c.compared[i][k];
      gray += 127.5 * c.feature[i][k];
    }
    v.feature[i][3] = float(-gray);
  }
  v.trust = float(GuidedColors::kTrust * c.trust / GuidedColors::kOne);
  v.variance = float(c.variance);
  v.least = float(c.least);
  v.share = c.share;
  v.widest = c.edge * GuidedColors::kErrorUnit;

  const bool low = p.subsample != GuidedColors::kStep;
  const bool tensor = queue.device().capability >= 80 && p.color_sigma >= kVotesTensorSigma;
  prior_ = votes_prior(c.distance, tensor);
  votes_ = votes_of(tensor, c.reach);
  tiles_.grid = dim3(blocks_of(c.width, kVotesTileX), blocks_of(c.height, kVotesTileY));
  cells_.grid = dim3(blocks_of(c.cell_width, kVoteCells), c.cell_height);
  cells_.shared = votes_shared(c.reach);
  if (!low && task.low_radius == kVotesStatisticsRadius) statistics_strip_ = kVotesStatisticsRows;
  if (tiles_.grid.y > 65535)
    return Status::error(Code::unsupported, "height is %d: too large for refine=colors on CUDA",
                         task.height);

  const size_t n = size_t(v.pitch) * v.height, cells = size_t(c.cell_width) * c.cell_height;
  if (low) v.low_pitch = (task.low_width + 3) & ~3;
  std::vector<float> window((c.spatial.size() * c.spatial.size() + 7) & ~size_t(7));
  for (size_t i = 0; i < c.spatial.size() * c.spatial.size(); i++)
    window[i] = c.spatial[i / c.spatial.size()] * c.spatial[i % c.spatial.size()];
  int16_t* prior_of;
  float* spatial;
  const auto divide = [&](char* base) {
    Parts parts(base);
    parts.take(&v.words, n);
    parts.take(&v.prior, n);
    parts.take(&v.voted, n);
    parts.take(&v.result, n);
    parts.take(&v.flags, low ? n : 0);
    parts.take(&v.sides, size_t(task.low_width) * task.low_height);
    parts.take(&v.models, 4 * cells);
    parts.take(&v.weights, 2 * cells);
    parts.take(&prior_of, c.prior.size());
    parts.take(&spatial, window.size());
    if (low) parts.take(&v.low, size_t(v.low_pitch) * task.low_height);
    return parts.used();
  };
  VF_TRY(queue.allocate(Memory::device, divide(nullptr), &memory_));
  divide(memory_.as<char>());
  v.prior_of = prior_of;
  v.spatial = spatial;
  VF_TRY(queue.copy(prior_of, c.prior.data(), c.prior.size() * sizeof(int16_t)));
  VF_TRY(queue.copy(spatial, window.data(), window.size() * sizeof(float)));
  if (p.temporal > 0) {
    VF_TRY(queue.allocate(Memory::device, size_t(v.width) * v.height * sizeof(uint2), &before_));
    v.before = before_.as<uint2>();
  }
  const VoteErrors none = {};
  VF_TRY(queue.allocate(Memory::device, sizeof none, &errors_));
  VF_TRY(queue.copy(errors_.data(), &none, sizeof none));
  v.errors = errors_.as<VoteErrors>();
  return {};
}

Status GuidedVotes::launch(VotesKernel kernel, const VotesLaunch& shape) {
  const bool early = queue_->device().capability >= 90;
  return cuda::launch("guided matte", kernel,
                      {shape.grid, shape.threads, size_t(shape.shared), early},
                      queue_->cuda_stream(), v_);
}

Status GuidedVotes::enqueue(const Guided& g, const Guided& low, bool quads) {
  const Launch samples = {dim3(blocks_of(v_.width, 32), blocks_of(v_.height, 8)), 256, 0,
                          queue_->device().capability >= 90};
  VF_TRY(cuda::launch("guided matte", votes_samples(component_size_, is_float_, quads, beside_),
                      samples, queue_->cuda_stream(), g, v_));
  VF_TRY(launch(prior_, tiles_));
  VF_TRY(launch(votes_, cells_));
  VF_TRY(enqueue_result(g, low));
  v_.fresh = 0;
  return {};
}

Status GuidedVotes::enqueue_result(const Guided& g, const Guided& low) {
  const bool early = queue_->device().capability >= 90;
  const auto stream = queue_->cuda_stream();
  if (statistics_strip_) {
    const Launch statistics = {
        dim3(blocks_of(v_.width, kVotesStatisticsX), blocks_of(v_.height, kVotesStatisticsY)),
        32 * kVotesStatisticsWarps, 0, early};
    return cuda::launch("guided matte", votes_statistics(), statistics, stream, low, v_);
  }
  VF_TRY(launch(votes_result(), tiles_));
  if (!v_.low) return {};
  const Launch again = {dim3(blocks_of(g.low_width, 32), blocks_of(g.low_height, 8)), 256, 0,
                        early};
  return cuda::launch("guided matte", votes_low(component_size_, is_float_), again, stream, g, v_);
}

Guided GuidedVotes::low(const Guided& g) const {
  Guided low = g;
  const Guided words;  // its defaults are of code values of 8 bits
  use_samples(v_.low ? v_.low : v_.result, v_.low ? v_.low_pitch : v_.pitch, &low);
  low.full = words.full;
  low.inv_scale = words.inv_scale;
  low.midpoint = words.midpoint;
  low.codes = words.codes;
  low.unit = words.unit;
  low.sides = v_.sides;
  low.guide_unit = 255 / g.full;
  low.epsilon = float(epsilon_ * 255 * 255);
  return low;
}

void GuidedVotes::take_over(GuidedVotes& before) {
  before_ = std::move(before.before_);
  v_.before = before.v_.before;
  v_.fresh = before.v_.fresh;
}

}  // namespace vf::cuda
