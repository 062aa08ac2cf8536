#include "cuda/guided/guided_layers.h"

#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/core/parts.h"

namespace vf::cuda {
namespace {

int blocks_of(int n, int size) {
  return (n + size - 1) / size;
}

}  // namespace

Status GuidedLayersPlan::prepare(CudaQueue& queue, const GuidedTask& task, Guided* g) {
  const GuidedLayers& layers = task.layers;
  if (!layers.used()) return {};
  queue_ = &queue;
  component_size_ = size_of(task.source.type);
  is_float_ = task.source.type == Type::f32;
  beside_ = task.params.mask == MatteMask::external;
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
    return Status::error(Code::unsupported, "height is %d: too large for layers on CUDA",
                         task.height);
  l.blocks = int(tiles.x * tiles.y);
  samples_.width = l.width;
  samples_.height = l.height;
  samples_.pitch = (l.width + 3) & ~3;

  const bool own_samples = task.params.refine != MatteRefine::colors;
  const size_t samples = size_t(l.width) * l.height;
  const size_t cells = layers.blurs ? size_t(l.cell_width) * l.cell_height : 0;
  const auto divide = [&](char* base) {
    Parts parts(base);
    parts.take(&l.found, layers.estimates ? samples : 0);
    parts.take(&l.cells, cells);
    parts.take(&l.totals, layers.blurs ? size_t(l.blocks) : 0);
    parts.take(&l.blurred, cells);
    parts.take(&l.filled, layers.second.empty() ? 0 : cells);
    parts.take(&samples_.words, own_samples ? size_t(samples_.pitch) * l.height : 0);
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
  g->layer_unit = g->full / 255;
  if (layers.estimates) {
    g->layers = l.found;
    g->layers_width = l.width;
    g->layers_height = l.height;
  }
  if (layers.blurs) {
    g->blurred = l.blurred;
    g->blurred_width = l.cell_width;
    g->blurred_height = l.cell_height;
    g->blurred_step = GuidedLayers::kStep * layers.cell;
  }
  return {};
}

Status GuidedLayersPlan::enqueue(const Guided& g, const Votes* votes, bool quads) {
  const bool early = queue_->device().capability >= 90;
  const auto stream = queue_->cuda_stream();
  if (!votes) {
    const Launch samples = {dim3(blocks_of(l_.width, 32), blocks_of(l_.height, 8)), 256};
    VF_TRY(cuda::launch("guided matte", votes_samples(component_size_, is_float_, quads, beside_),
                        samples, stream, g, samples_));
    votes = &samples_;
  }
  l_.words = votes->words;
  l_.pitch = votes->pitch;
  const Launch tiles = {dim3(blocks_of(l_.width, kLayersTileX), blocks_of(l_.height, kLayersTileY)),
                        kLayersTileX * kLayersTileY, 0, early};
  VF_TRY(cuda::launch("guided matte", layers_samples(g.subsample == GuidedLayers::kStep), tiles,
                      stream, g, l_));
  if (!l_.blurs) return {};
  const Launch cells = {
      dim3(blocks_of(l_.cell_width, kBlurTileX), blocks_of(l_.cell_height, kBlurTileY)), 256, 0,
      early};
  VF_TRY(cuda::launch("guided matte", layers_blur(), cells, stream, g, l_));
  if (!second_.cells) return {};
  return cuda::launch("guided matte", layers_blur(), cells, stream, g, second_);
}

}  // namespace vf::cuda
