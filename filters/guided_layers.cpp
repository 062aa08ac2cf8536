#include "filters/guided_layers.h"

#include <algorithm>
#include <cmath>

#include "filters/guided.h"

namespace vf {

GuidedLayers make_guided_layers(const GuidedParams& p, int width, int height, bool colors) {
  GuidedLayers l;
  const bool composes = p.output == MatteOutput::composite;
  l.estimates =
      colors && p.foreground == MatteForeground::estimate && p.output != MatteOutput::matte;
  l.blurs = colors && composes && p.backdrop == MatteBackground::blur;
  l.width = (width + GuidedLayers::kStep - 1) / GuidedLayers::kStep;
  l.height = (height + GuidedLayers::kStep - 1) / GuidedLayers::kStep;
  if (!l.blurs) return l;
  // The mean over a cell and the interpolation between cells blur with a variance of a quarter of
  // the cell's area; the kernel does the rest, with at least two cells of sigma.
  const double sigma = p.background_sigma;
  const auto rest = [&](int cell) {
    const double pixels = double(cell) * GuidedLayers::kStep;
    return std::sqrt(std::max(0.0, sigma * sigma / (pixels * pixels) - 0.25));
  };
  while (l.cell < GuidedLayers::kMaxCell && rest(2 * l.cell) >= 2) l.cell *= 2;
  l.cell_width = (l.width + l.cell - 1) / l.cell;
  l.cell_height = (l.height + l.cell - 1) / l.cell;
  const double s = rest(l.cell);
  const int radius = std::min(GuidedLayers::kMaxRadius, int(std::ceil(3 * s)));
  double sum = 0;
  std::vector<double> weight;
  for (int i = 0; i <= radius; i++) {
    weight.push_back(i ? std::exp(-i * i / (2 * s * s)) : 1);
    sum += i ? 2 * weight[i] : weight[i];
  }
  for (const double w : weight) l.weight.push_back(float(w / sum));
  return l;
}

}  // namespace vf
