#include "cuda/guided/guided_layers.h"

#include <algorithm>

#include "cuda/core/parts.h"

namespace vf::cuda {

Status GuidedLayersPlan::prepare(CudaQueue& queue, const GuidedTask& task, GuidedResult* result) {
  const GuidedLayers& layers = task.layers;
  if (!layers.used()) return {};
  queue_ = &queue;
  Layers& l = l_;
  l.estimates = layers.estimates;
  l.blurs = layers.blurs;
  l.width = layers.width;
  l.height = layers.height;
  while (1 << l.shift < layers.cell) l.shift++;
  l.cell_width = layers.cell_width;
  l.cell_height = layers.cell_height;
  l.radius = std::max(0, layers.radius());
  std::copy(layers.weight.begin(), layers.weight.end(), l.weight);
  l.enough = float(GuidedLayers::kFar * layers.cell * layers.cell);
  for (int c = 0; c < 3; c++) l.background[c] = float(255 * task.params.background[c]);
  const dim3 tiles(blocks_of(l.width, kLayersTileX), blocks_of(l.height, kLayersTileY));
  if (tiles.y > 65535)
    return Status::error(Code::unsupported, "height is %d, which is too large for layers on CUDA",
                         task.height);
  l.blocks = int(tiles.x * tiles.y);
  l.unit = result->full / 255;
  l.midpoint = result->midpoint;
  samples_.width = l.width;
  samples_.height = l.height;
  samples_.pitch = (l.width + 3) & ~3;

  const bool makes_samples = task.params.refine != MatteRefine::colors;
  const size_t samples = size_t(l.width) * l.height;
  const size_t cells = layers.blurs ? size_t(l.cell_width) * l.cell_height : 0;
  const auto divide = [&](char* base) {
    Parts parts(base);
    parts.take(&l.found, layers.estimates ? samples : 0);
    parts.take(&l.cells, cells);
    parts.take(&l.totals, layers.blurs ? size_t(l.blocks) : 0);
    parts.take(&l.blurred, cells);
    parts.take(&l.filled, layers.second.empty() ? 0 : cells);
    parts.take(&samples_.data, makes_samples ? size_t(samples_.pitch) * l.height : 0);
    return parts.used();
  };
  VF_TRY(queue.allocate(Memory::device, divide(nullptr), &memory_));
  divide(memory_.as<char>());
  if (layers.second.empty()) {
    l.filled = nullptr;
  } else {
    second_ = l;
    second_.cells = l.filled;
    second_.filled = nullptr;
    second_.blocks = 0;
    second_.enough = 0;
    second_.radius = int(layers.second.size()) - 1;
    std::copy(layers.second.begin(), layers.second.end(), second_.weight);
  }
  GuidedLayerColors& colors = result->layers;
  colors.unit = l.unit;
  if (layers.estimates) {
    colors.found = l.found;
    colors.doubts = layers.doubts;
    colors.doubt = layers.doubt();
    colors.width = l.width;
    colors.height = l.height;
  }
  if (layers.blurs) {
    colors.blurred = l.blurred;
    colors.blurred_width = l.cell_width;
    colors.blurred_height = l.cell_height;
    colors.blurred_step = GuidedLayers::kStep * layers.cell;
  }

  const bool early = queue.device().starts_early();
  for (int reads = 0; reads < 3; reads++)
    sample_[reads] = {guided_samples(task.source.type, GuidedReads(reads),
                                     task.params.mask == MatteMask::external),
                      {dim3(blocks_of(l.width, 32), blocks_of(l.height, 8)), 256}};
  matte_ = {layers_samples(task.params.subsample == GuidedLayers::kStep),
            {tiles, kLayersTileX * kLayersTileY, 0, early}};
  blur_ = {layers_blur(),
           {dim3(blocks_of(l.cell_width, kBlurTileX), blocks_of(l.cell_height, kBlurTileY)), 256, 0,
            early}};
  return {};
}

Status GuidedLayersPlan::enqueue(const GuidedSource& source, const ExternalMask& mask,
                                 const GuidedCoefficients& means, const SampleWords* samples,
                                 GuidedReads reads) {
  if (!samples) VF_TRY(sample_[int(reads)].enqueue(*queue_, source, mask, samples_));
  l_.words = samples ? *samples : samples_;
  VF_TRY(matte_.enqueue(*queue_, means, l_));
  if (!l_.blurs) return {};
  VF_TRY(blur_.enqueue(*queue_, l_));
  return second_.cells ? blur_.enqueue(*queue_, second_) : Status();
}

}  // namespace vf::cuda
