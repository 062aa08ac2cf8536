#include "filters/guided_colors.h"

#include <algorithm>
#include <cmath>

#include "filters/guided.h"

namespace vf {

GuidedColors make_guided_colors(const GuidedParams& p, int width, int height, int colors) {
  constexpr int step = GuidedColors::kStep, cell = GuidedColors::kCell, pixels = step * cell;
  GuidedColors c;
  c.width = blocks_of(width, step);
  c.height = blocks_of(height, step);
  c.cell_width = blocks_of(c.width, cell);
  c.cell_height = blocks_of(c.height, cell);
  c.edge = std::max(GuidedParams::edge_of(p.mask_error), step);
  c.prior_radius = std::max(1, (c.edge + 2 * step) / (4 * step));
  c.distance = (2 * c.edge - 1) / step;
  c.reach = std::max(1, (p.color_reach + pixels / 2) / pixels);
  c.trust = p.mask_trust;
  c.variance = p.color_sigma * p.color_sigma / 4;
  c.share = int(std::lround(p.temporal * GuidedColors::kShare));

  // The band's squared distances D have step^2 D < (2 E)^2.
  const int end = (4 * c.edge * c.edge + step * step - 1) / (step * step);
  for (int d = 0; d < end; d++)
    c.prior.push_back(
        int16_t(std::floor(GuidedColors::kOne * step * std::sqrt(d) / (2 * c.edge) + 0.5)));

  const double sigma = GuidedColors::kSpatial * p.color_reach / pixels;  // in cells
  for (int i = -c.reach; i <= c.reach; i++)
    c.spatial.push_back(float(std::exp(-i * i / (2 * sigma * sigma))));
  c.minimum = 1e-3 * 2 * 3.14159265358979323846 * sigma * sigma;

  for (int k = 0; k < colors; k++)
    c.luma[k] = colors == 1 ? 256 : int(std::lround(256 * p.to_ycbcr[0][k]));

  // Y Cb Cr become R G B of BT.709, and luma is then scaled down, as shadows and light differ most
  // in it.
  const double kr = 0.2126, kg = 0.7152, kb = 0.0722, u = 2 * (1 - kb), v = 2 * (1 - kr);
  const double rgb[3][3] = {{1, 0, v}, {1, -kb * u / kg, -kr * v / kg}, {1, u, 0}};
  const double luma[3] = {0.299, 0.587, 0.114};
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++) {
      double sum = 0;
      if (colors == 1) {
        sum = k ? 0 : GuidedColors::kLuma;
      } else {
        for (int j = 0; j < 3; j++)
          for (int n = 0; n < 3; n++)
            sum += ((i == j) - (1 - GuidedColors::kLuma) * luma[j]) * rgb[j][n] * p.to_ycbcr[n][k];
      }
      c.feature[i][k] = float(sum / 255);
      c.compared[i][k] = int(std::lround(sum / 255 * (1 << 23)));
    }
  return c;
}

MaskError mask_error_of(const GuidedColors& colors, const MaskErrors& errors) {
  using G = GuidedColors;
  constexpr uint64_t one = 1 << 16;
  MaskError found;
  for (int side = 0; side < 2; side++) {
    const auto share = [](uint64_t against, uint64_t count) {
      return count ? 256 * against / count : 0;
    };
    uint64_t far = 0, far_count = 0, near = 0;
    for (int k = G::kErrorNear; k < G::kErrorBins; k++) {
      far += errors.against[side][k];
      far_count += errors.count[side][k];
    }
    const uint64_t base = share(far, far_count);
    if (side == 0) {
      const int64_t mean = far_count ? int64_t(errors.steps / far_count) : 0;
      found.busy = int(
          std::clamp<int64_t>((mean - G::kCalm) * G::kFully / (G::kBusy - G::kCalm), 0, G::kFully));
    }
    for (int k = 0; k < G::kErrorNear; k++) {
      const uint64_t all = share(errors.against[side][k], errors.count[side][k]);
      near += all > base ? all - base : 0;
    }
    // A class is 2 E / kErrorBins pixels.
    const uint64_t wide = 2 * uint64_t(colors.edge) * G::kErrorUnit;
    const auto error = base < one ? int64_t(near * wide / (G::kErrorBins * (one - base))) : 0;
    const int maximum = colors.edge * G::kErrorUnit,
              minimum = std::min(G::kErrorMin * G::kErrorUnit, maximum);
    const auto wanted = std::clamp<int64_t>(3 * G::kErrorUnit + 5 * error / 2, minimum, maximum);
    // The prior is then a mean of frames, whose masks are off by different amounts.
    const int64_t wider = (colors.share * (maximum - wanted) + G::kShare / 2) / G::kShare;
    found.side[side] = int(wanted + wider);
  }
  return found;
}

float shift_of(const GuidedColors& colors, const MaskError& error) {
  return float(GuidedColors::kShift) * float(error.side[0] - error.side[1]) /
         float(colors.edge * GuidedColors::kErrorUnit);
}

}  // namespace vf
