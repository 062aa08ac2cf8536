#include "tests/reference/guided_layers.h"

#include <algorithm>
#include <cmath>

namespace vf::test {
namespace {

constexpr int kStep = 4;

}  // namespace

void ReferenceLayers::make(const Guide& guide, const Matte& matte) {
  w_ = (t_.width + kStep - 1) / kStep;
  h_ = (t_.height + kStep - 1) / kStep;
  guide_.clear();
  alpha_.clear();
  weight_.clear();
  std::vector<double> clear;
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      const auto bytes = guide(i, j);
      guide_.push_back(bytes);
      const double q = matte(kStep * (i + 0.5), kStep * (j + 0.5),
                             {bytes[0] / 255.0, bytes[1] / 255.0, bytes[2] / 255.0});
      alpha_.push_back(std::floor(255 * q + 0.5) / 255);
      clear.push_back(std::floor(32640 * std::max(0.0, 1 - 64 * q) + 0.5));
    }
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      const double rest = 1 - alpha_[size_t(j) * w_ + i];
      double least = clear[size_t(j) * w_ + i];
      for (int y = std::max(0, j - 1); y <= std::min(h_ - 1, j + 1); y++)
        for (int x = std::max(0, i - 1); x <= std::min(w_ - 1, i + 1); x++)
          least = std::min(least, clear[size_t(y) * w_ + x]);
      weight_.push_back(least + std::floor(255 * rest * rest + 0.5));
    }
  if (t_.layers.estimates) estimate();
  if (t_.layers.blurs) blur();
}

void ReferenceLayers::estimate() {
  const size_t n = guide_.size();
  const double least = 8 / 255.0;
  const auto rounded = [](double share) {
    return std::floor(255 * share * share * share + 0.5) / 255;
  };
  std::vector<double> of_subject, of_behind;
  for (const double a : alpha_) {
    of_subject.push_back(rounded(a));
    of_behind.push_back(rounded(1 - a));
  }
  // Calls add(k) for all samples k of the window round sample (i, j).
  const auto window = [&](int i, int j, int radius, auto&& add) {
    for (int y = std::max(0, j - radius); y <= std::min(h_ - 1, j + radius); y++)
      for (int x = std::max(0, i - radius); x <= std::min(w_ - 1, i + radius); x++)
        add(size_t(y) * w_ + x);
  };
  Plane better(n);
  behind_.assign(n, {});
  spread_.assign(n, {});
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      const size_t here = size_t(j) * w_ + i;
      double count = 0, pure = 0;
      window(i, j, 3, [&](size_t k) {
        count++;
        pure += of_subject[k] + of_behind[k];
      });
      const double own = least + 2 * count * std::pow(1 - pure / count, 4);
      // Returns the mean colour under these weights, and sets the variance of all channels together.
      const auto mean = [&](const std::vector<double>& weight, double* variance) {
        Color sum = {};
        double squares = 0, all = 0;
        const auto add = [&](size_t k, double w) {
          for (int c = 0; c < 3; c++) {
            const double v = guide_[k][c] / 255.0;
            sum[c] += w * v;
            squares += w * v * v;
          }
          all += w;
        };
        window(i, j, 3, [&](size_t k) { add(k, weight[k]); });
        add(here, own);
        *variance = squares / all;
        for (double& v : sum) {
          v /= all;
          *variance -= v * v;
        }
        *variance = std::max(*variance, 0.0);
        return sum;
      };
      const double a = alpha_[here];
      const Color f = mean(of_subject, &spread_[here][0]);
      const Color b = behind_[here] = mean(of_behind, &spread_[here][1]);
      for (int c = 0; c < 3; c++) {
        const double v = guide_[here][c] / 255.0;
        better[here][c] = std::clamp(f[c] + a * (v - a * f[c] - (1 - a) * b[c]), 0.0, 1.0);
      }
    }
  subject_.assign(n, {});
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      const size_t here = size_t(j) * w_ + i;
      for (int c = 0; c < 3; c++) {
        double sum = least * better[here][c], all = least;
        window(i, j, 1, [&](size_t k) {
          sum += of_subject[k] * better[k][c];
          all += of_subject[k];
        });
        subject_[here][c] = sum / all;
      }
    }
}

void ReferenceLayers::blur() {
  const double sigma = t_.params.background_sigma;
  const auto rest = [&](int cell) {
    return std::sqrt(std::max(0.0, sigma * sigma / (16.0 * cell * cell) - 0.25));
  };
  cell_ = 1;
  while (cell_ < 16 && rest(2 * cell_) >= 2) cell_ *= 2;
  cw_ = (w_ + cell_ - 1) / cell_;
  ch_ = (h_ + cell_ - 1) / cell_;
  using Sum = std::array<double, 4>;
  std::vector<Sum> cells(size_t(cw_) * ch_, Sum{});
  Sum all = {};
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      const size_t k = size_t(j) * w_ + i;
      Sum& cell = cells[size_t(j / cell_) * cw_ + i / cell_];
      for (int c = 0; c < 4; c++) {
        const double v = weight_[k] * (c < 3 ? guide_[k][c] / 255.0 : 1);
        cell[c] += v;
        all[c] += v;
      }
    }
  Color far;
  for (int c = 0; c < 3; c++) far[c] = all[3] > 0 ? all[c] / all[3] : t_.params.background[c];
  blurred_.assign(cells.size(), Color{});
  // Returns the mean of the cells under a Gaussian, and of `far` with the weight `enough`.
  const auto mean = [&](double s, double enough) {
    const int radius = std::min(12, int(std::ceil(3 * s)));
    std::vector<double> kernel(2 * radius + 1);
    double total = 0;
    for (int d = -radius; d <= radius; d++)
      total += kernel[d + radius] = d ? std::exp(-d * d / (2 * s * s)) : 1;
    for (int j = 0; j < ch_; j++)
      for (int i = 0; i < cw_; i++) {
        Sum sum = {};
        for (int y = std::max(0, j - radius); y <= std::min(ch_ - 1, j + radius); y++)
          for (int x = std::max(0, i - radius); x <= std::min(cw_ - 1, i + radius); x++)
            for (int c = 0; c < 4; c++)
              sum[c] += kernel[y - j + radius] * kernel[x - i + radius] / (total * total) *
                        cells[size_t(y) * cw_ + x][c];
        for (int c = 0; c < 3; c++)
          blurred_[size_t(j) * cw_ + i][c] = (sum[c] + enough * far[c]) / (sum[3] + enough);
      }
  };
  const double enough = 3.0 * cell_ * cell_;
  if (sigma >= 8) return mean(rest(cell_), enough);
  mean(std::sqrt(8 * 8 / 16.0 - 0.25), enough);
  for (size_t k = 0; k < cells.size(); k++) {
    const double clear = std::max(0.0, weight_[k] - 255) / 32640;
    for (int c = 0; c < 3; c++)
      cells[k][c] = clear * guide_[k][c] / 255.0 + (1 - clear) * blurred_[k][c];
    cells[k][3] = 1;
  }
  mean(rest(1), 0);
}

ReferenceLayers::Color ReferenceLayers::at(const Plane& plane, int width, int height, int step,
                                           int x, int y) const {
  const double u = std::clamp((x + 0.5) / step - 0.5, 0.0, width - 1.0);
  const double v = std::clamp((y + 0.5) / step - 0.5, 0.0, height - 1.0);
  const int i = int(u), j = int(v), i1 = std::min(i + 1, width - 1),
            j1 = std::min(j + 1, height - 1);
  Color out;
  for (int c = 0; c < 3; c++) {
    const auto value = [&](int a, int b) { return plane[size_t(b) * width + a][c]; };
    out[c] = (1 - (v - j)) * ((1 - (u - i)) * value(i, j) + (u - i) * value(i1, j)) +
             (v - j) * ((1 - (u - i)) * value(i, j1) + (u - i) * value(i1, j1));
  }
  return out;
}

ReferenceLayers::Color ReferenceLayers::foreground(int x, int y, const Color& v, double q) const {
  if (!t_.layers.estimates) return v;
  const Color f = at(subject_, w_, h_, kStep, x, y), b = at(behind_, w_, h_, kStep, x, y);
  const Color spread = at(spread_, w_, h_, kStep, x, y);
  const double of_f = spread[0] + 0.012, of_b = spread[1] + 0.012;
  const double variance = q * q * of_f + (1 - q) * (1 - q) * of_b;
  Color seen, rest;
  double unexplained = 0, from_subject = 0;
  for (int c = 0; c < 3; c++) {
    seen[c] = std::clamp(v[c], 0.0, 1.0);
    rest[c] = seen[c] - q * f[c] - (1 - q) * b[c];
    unexplained += rest[c] * rest[c];
    from_subject += (seen[c] - f[c]) * (seen[c] - f[c]);
  }
  const bool off = t_.params.refine == MatteRefine::colors;
  const double odds =
      (off ? 1 : 0.3) * std::pow((1 + unexplained / variance) / (1 + from_subject / of_f), 2);
  Color change;
  double along = 0, length = 0;
  for (int c = 0; c < 3; c++) {
    change[c] = f[c] + q * of_f / variance * rest[c] - seen[c];
    along += change[c] * (seen[c] - b[c]);
    length += change[c] * change[c];
  }
  double share = std::min(1.0, 8 * q) / (1 + odds);
  if (off) share *= length > 0 && q > 0 ? std::clamp((1 - q) / q * along / length, 0.0, 1.0) : 0;
  Color out;
  for (int c = 0; c < 3; c++) {
    if (!off && q > 0)
      change[c] = std::clamp(change[c], (1 - q) / q * (seen[c] - 1), (1 - q) / q * seen[c]);
    out[c] = v[c] + std::clamp(seen[c] + share * change[c], 0.0, 1.0) - seen[c];
  }
  return out;
}

ReferenceLayers::Color ReferenceLayers::background(int x, int y) const {
  if (t_.layers.blurs) return at(blurred_, cw_, ch_, kStep * cell_, x, y);
  return {t_.params.background[0], t_.params.background[1], t_.params.background[2]};
}

}  // namespace vf::test
