#include "cuda/guided/guided_colors.h"

#include <cmath>
#include <vector>

#include "cuda/core/parts.h"
#include "cuda/guided/guided_mask.h"

namespace vf::cuda {

Status GuidedColorsPlan::prepare(CudaQueue& queue, const GuidedTask& task) {
  const GuidedColors& c = task.colors;
  const GuidedParams& p = task.params;
  queue_ = &queue;
  grid_ = {task.low_width, task.low_height, p.subsample};
  ColorVotes& v = v_;
  v.width = c.width;
  v.height = c.height;
  v.frame_width = task.width;
  v.frame_height = task.height;
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
    v.luma[i] = c.luma[i];
  }
  v.trust = float(GuidedColors::kTrust * c.trust / GuidedColors::kOne);
  v.variance = float(c.variance);
  v.minimum = float(c.minimum);
  v.epsilon = float(p.epsilon * 255 * 255);
  v.share = c.share;
  v.widest = c.edge * GuidedColors::kErrorUnit;

  const bool low = p.subsample != GuidedColors::kStep;
  const bool tensor = queue.device().capability >= 80 && p.color_sigma >= kVotesTensorSigma;
  const bool early = queue.device().starts_early();
  const Type type = task.source.type;
  const dim3 tiles(blocks_of(c.width, kVotesTileX), blocks_of(c.height, kVotesTileY));
  if (tiles.y > 65535)
    return Status::error(Code::unsupported,
                         "height is %d, which is too large for refine=colors on CUDA", task.height);
  for (int reads = 0; reads < 3; reads++)
    samples_[reads] = {guided_samples(type, GuidedReads(reads), p.mask == MatteMask::external),
                       {dim3(blocks_of(c.width, 32), blocks_of(c.height, 8)), 256, 0, early}};
  prior_ = {votes_prior(c.distance, tensor), {tiles, 256, 0, early}};
  votes_ = {votes_of(tensor, c.reach),
            {dim3(blocks_of(c.cell_width, kVoteCells), c.cell_height), 256,
             size_t(votes_shared(c.reach)), early}};
  result_ = {votes_result(), {tiles, 256, 0, early}};
  low_ = {votes_low(type),
          {dim3(blocks_of(grid_.width, 32), blocks_of(grid_.height, 8)), 256, 0, early}};
  // Where there is a block for each processor at most, more warps are faster.
  const dim3 blocks(blocks_of(c.width, kVotesStatisticsX), blocks_of(c.height, kVotesStatisticsY));
  const int rows = blocks.x * blocks.y <= unsigned(queue.device().processors) ? 1 : 2;
  statistics_ = {votes_statistics(rows), {blocks, 32 * kVotesStatisticsY / rows, 0, early}};
  if (!low && task.low_radius == kVotesStatisticsRadius) statistics_strip_ = kVotesStatisticsStrip;

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
    parts.take(&v.own_sides, low ? n : 0);
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
    VF_TRY(queue.allocate(Memory::device, size_t(v.width) * v.height * sizeof(uint2), &previous_));
    v.previous = previous_.as<uint2>();
  }
  const VoteErrors none = {};
  VF_TRY(queue.allocate(Memory::device, sizeof none, &errors_));
  VF_TRY(queue.copy(errors_.data(), &none, sizeof none));
  v.errors = errors_.as<VoteErrors>();
  return {};
}

Status GuidedColorsPlan::enqueue(const GuidedSource& source, const MaskUploads& mask,
                                 const GuidedSums& sums, GuidedReads reads) {
  CudaQueue& queue = *queue_;
  VF_TRY(samples_[int(reads)].enqueue(queue, source, mask.mask(), samples()));
  v_.edge_error = mask.edge_error();
  VF_TRY(prior_.enqueue(queue, v_));
  VF_TRY(votes_.enqueue(queue, v_));
  if (statistics_strip_) {
    VF_TRY(statistics_.enqueue(queue, sums, v_));
  } else {
    VF_TRY(result_.enqueue(queue, v_));
    if (v_.low) VF_TRY(low_.enqueue(queue, source, grid_, v_));
  }
  v_.fresh = 0;
  return {};
}

void GuidedColorsPlan::take_over(GuidedColorsPlan& previous) {
  previous_ = std::move(previous.previous_);
  v_.previous = previous.v_.previous;
  v_.fresh = previous.v_.fresh;
}

}  // namespace vf::cuda
