#include "filters/guided_layers.h"

#include <algorithm>
#include <cmath>

#include "filters/guided.h"

namespace vf {
namespace {

// A Gaussian's weights by distance, of sum 1.
std::vector<float> kernel(double s) {
  const int radius = std::min(GuidedLayers::kMaxRadius, int(std::ceil(3 * s)));
  double sum = 0;
  std::vector<double> weight;
  for (int i = 0; i <= radius; i++) {
    weight.push_back(i ? std::exp(-i * i / (2 * s * s)) : 1);
    sum += i ? 2 * weight[i] : weight[i];
  }
  std::vector<float> out;
  for (const double w : weight) out.push_back(float(w / sum));
  return out;
}

}  // namespace

GuidedLayers make_guided_layers(const GuidedParams& p, int width, int height, bool colors) {
  GuidedLayers l;
  const bool composes = p.output == MatteOutput::composite;
  l.estimates =
      colors && p.foreground == MatteForeground::estimate && p.output != MatteOutput::matte;
  l.doubts = p.refine == MatteRefine::colors;
  l.blurs = colors && composes && p.backdrop == MatteBackground::blur;
  l.width = blocks_of(width, GuidedLayers::kStep);
  l.height = blocks_of(height, GuidedLayers::kStep);
  if (!l.blurs) return l;
  // The mean over a cell and the interpolation between cells blur with a variance of a quarter of
  // the cell's area; the kernel does the rest, with at least two cells of sigma.
  const bool narrow = p.background_sigma < GuidedLayers::kNarrow;
  const auto rest = [](double sigma, int cell) {
    const double pixels = double(cell) * GuidedLayers::kStep;
    return std::sqrt(std::max(0.0, sigma * sigma / (pixels * pixels) - 0.25));
  };
  while (l.cell < GuidedLayers::kMaxCell && rest(p.background_sigma, 2 * l.cell) >= 2) l.cell *= 2;
  l.cell_width = blocks_of(l.width, l.cell);
  l.cell_height = blocks_of(l.height, l.cell);
  l.weight = kernel(rest(narrow ? GuidedLayers::kNarrow : p.background_sigma, l.cell));
  if (narrow) l.second = kernel(rest(p.background_sigma, l.cell));
  return l;
}

}  // namespace vf
