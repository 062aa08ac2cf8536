#include "tests/reference/guided_colors.h"

#include <algorithm>
#include <cmath>

namespace vf::test {
namespace {

constexpr int kStep = 4, kCell = 8, kOne = 16384;

int64_t floor_divide(int64_t a, int64_t b) {
  return int64_t(std::floor(double(a) / double(b)));
}

double sigmoid(double v) {
  return 1 / (1 + std::exp(-v));
}

// Calls f(x, y) for the samples of the frame in the window of `radius` round (i, j).
template <class F>
void window(int i, int j, int radius, int w, int h, F&& f) {
  for (int y = std::max(0, j - radius); y <= std::min(h - 1, j + radius); y++)
    for (int x = std::max(0, i - radius); x <= std::min(w - 1, i + radius); x++) f(x, y);
}

}  // namespace

ReferenceColors::ReferenceColors(const GuidedTask& task)
    : t_(task),
      w_((task.width + kStep - 1) / kStep),
      h_((task.height + kStep - 1) / kStep),
      cw_((w_ + kCell - 1) / kCell),
      ch_((h_ + kCell - 1) / kCell) {}

int ReferenceColors::bytes(const Read& read, int x, int y, int size, int c) const {
  const bool is_float = t_.source.type == Type::f32;
  const int64_t full = is_float ? 65535 : int64_t(t_.scale), n = int64_t(size) * size;
  int64_t sum = 0;
  for (int j = 0; j < size; j++)
    for (int i = 0; i < size; i++) {
      const double v = read(std::min(x + i, t_.width - 1), std::min(y + j, t_.height - 1), c);
      // Floats are rounded to 16 bits, in float.
      sum += is_float ? int64_t(std::floor(std::clamp(float(v), 0.f, 1.f) * 65535.f + 0.5f))
                      : std::clamp<int64_t>(std::llround(v * t_.scale), 0, full);
    }
  return int(floor_divide(510 * sum + n * full, 2 * n * full));
}

// Reads a separate mask at a sample's centre, as a code of 8 bits.
int ReferenceColors::centre(const Beside& mask, int i, int j) const {
  return int(std::floor(255 * mask(std::min(kStep * (2 * i + 1), 2 * t_.width - 1),
                                   std::min(kStep * (2 * j + 1), 2 * t_.height - 1)) +
                        0.5));
}

void ReferenceColors::prior() {
  const GuidedParams& p = t_.params;
  const int edge = p.mask_error ? std::max(p.mask_error, 4) : 18,
            radius = std::max(1, (edge + 8) / 16);
  std::vector<char> subject(size_t(w_) * h_);
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      int sum = 0;
      window(i, j, radius, w_, h_,
             [&](int x, int y) { sum += 2 * mask_[size_t(y) * w_ + x] - 255; });
      subject[size_t(j) * w_ + i] = sum > 0;
    }
  x_.resize(size_t(w_) * h_);
  const int reach = (edge + 1) / 2;
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      const size_t at = size_t(j) * w_ + i;
      int nearest = edge * edge;
      window(i, j, reach, w_, h_, [&](int x, int y) {
        if (subject[size_t(y) * w_ + x] != subject[at])
          nearest = std::min(nearest, (x - i) * (x - i) + (y - j) * (y - j));
      });
      // A sample is in the band where 4 sqrt(D) < 2 E.
      const bool band = 4 * nearest < edge * edge;
      int x = band ? int(std::floor(kOne * kStep * std::sqrt(nearest) / (2 * edge) + 0.5)) : kOne;
      const int error = edge_error_ ? centre(edge_error_, i, j) : 0;
      if (error) x = std::min(int(floor_divide(x * 255, error)), kOne);
      x_[at] = subject[at] ? x : -x;
    }
}

// Mixes the prior with that of the previous frames where the guide stands still.
void ReferenceColors::steady(bool fresh) {
  std::array<std::vector<int>, 4> now;
  for (auto& v : now) v.resize(x_.size());
  const int64_t share = std::lround(t_.params.temporal * 32768);
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      const size_t at = size_t(j) * w_ + i;
      int64_t moved = 0, value[4];
      for (int c = 0; c < 3; c++) {
        int sum = 0, n = 0;
        window(i, j, 1, w_, h_, [&](int x, int y) {
          sum += guide_[c][size_t(y) * w_ + x];
          n++;
        });
        value[c] = (256 * sum + n / 2) / n;
        if (!fresh) moved = std::max<int64_t>(moved, std::abs(value[c] - memory_[c][at]));
      }
      value[3] = x_[at];
      const int64_t keep =
          fresh ? 0 : (share * std::clamp<int64_t>(4096 - moved, 0, 2048) + 1024) / 2048;
      for (int c = 0; c < 4; c++) {
        if (keep) value[c] += floor_divide(keep * (memory_[c][at] - value[c]) + 16384, 32768);
        now[c][at] = int(value[c]);
      }
      x_[at] = int(value[3]);
    }
  memory_ = now;
}

ReferenceColors::Cells ReferenceColors::models(const Grid& weight) const {
  Cells cells;
  const size_t count = size_t(cw_) * ch_;
  for (Grid* g : {&cells.n, &cells.mean[0], &cells.mean[1], &cells.mean[2], &cells.variance})
    g->resize(count);
  for (int cy = 0; cy < ch_; cy++)
    for (int cx = 0; cx < cw_; cx++) {
      double sum = 0, first[3] = {}, second[3] = {};
      for (int j = kCell * cy; j < std::min(h_, kCell * (cy + 1)); j++)
        for (int i = kCell * cx; i < std::min(w_, kCell * (cx + 1)); i++) {
          const size_t at = size_t(j) * w_ + i;
          sum += weight[at];
          for (int c = 0; c < 3; c++) {
            first[c] += weight[at] * f_[c][at];
            second[c] += weight[at] * f_[c][at] * f_[c][at];
          }
        }
      const size_t at = size_t(cy) * cw_ + cx;
      cells.n[at] = sum / (kCell * kCell);
      for (int c = 0; c < 3; c++) {
        cells.mean[c][at] = first[c] / std::max(sum, 1e-6);
        cells.variance[at] +=
            second[c] / std::max(sum, 1e-6) - cells.mean[c][at] * cells.mean[c][at];
      }
      cells.variance[at] = std::max(cells.variance[at], 0.0) * 0.4;
    }
  return cells;
}

double ReferenceColors::share(const Cells& cells, int i, int j) const {
  const GuidedParams& p = t_.params;
  const int reach = std::max(1, (p.color_reach + 16) / 32), cx = i / kCell, cy = j / kCell;
  const double sigma = 0.6 * p.color_reach / 32, s2 = p.color_sigma * p.color_sigma / 4;
  const size_t here = size_t(j) * w_ + i;
  double all = 0, alike = 0;
  window(cx, cy, reach, cw_, ch_, [&](int x, int y) {
    const size_t at = size_t(y) * cw_ + x;
    const double distance = (x - cx) * (x - cx) + (y - cy) * (y - cy);
    const double n = cells.n[at] * std::exp(-distance / (2 * sigma * sigma));
    const double v = s2 + cells.variance[at];
    double d2 = 0;
    for (int c = 0; c < 3; c++) {
      const double d = f_[c][here] - cells.mean[c][at];
      d2 += d * d;
    }
    all += n;
    alike += n * s2 / v * std::pow(std::max(0.0, 1 - d2 / (24 * v)), 8);
  });
  return alike / std::max(all, 1e-3 * 2 * M_PI * sigma * sigma);
}

ReferenceColors::Grid ReferenceColors::ratios(const Cells& subject, const Cells& background) const {
  Grid l(x_.size());
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++)
      if (std::abs(x_[size_t(j) * w_ + i]) < kOne)
        l[size_t(j) * w_ + i] =
            std::log((share(subject, i, j) + 1e-4) / (share(background, i, j) + 1e-4));
  return l;
}

// Finds the mask's error on each side from the votes that disagree with it, and makes the prior for
// this error. Returns the shift.
double ReferenceColors::narrow(const Grid& l) {
  constexpr int bins = 9, near = 4;
  const int64_t edge = t_.params.mask_error ? std::max(t_.params.mask_error, 4) : 18;
  int64_t count[2][bins] = {}, against[2][bins] = {}, steps = 0;
  for (size_t at = 0; at < l.size(); at++) {
    if (std::abs(x_[at]) >= kOne) continue;
    const int side = x_[at] > 0, k = bins * std::abs(x_[at]) / kOne;
    count[side][k]++;
    against[side][k] += int64_t(std::floor(256 * sigmoid(side ? -2 * l[at] : 2 * l[at]) + 0.5));
    if (side || k < near || at % w_ + 1 == size_t(w_)) continue;
    int64_t step = 0;
    for (int c = 0; c < t_.from.colors; c++) {
      const double luma = t_.from.colors == 1 ? 1 : t_.params.to_ycbcr[0][c];
      step += std::llround(256 * luma) * (guide_[c][at + 1] - guide_[c][at]);
    }
    steps += std::min<int64_t>(std::abs(step) / 16, 128);
  }
  for (int side = 0; side < 2; side++) {
    int64_t far = 0, far_count = 0, sum = 0;
    for (int k = near; k < bins; k++) {
      far += against[side][k];
      far_count += count[side][k];
    }
    if (side == 0)
      busy_ = far_count ? int(std::clamp<int64_t>((steps / far_count - 24) * 64 / 16, 0, 64)) : 0;
    const int64_t base = far_count ? floor_divide(256 * far, far_count) : 0;
    for (int k = 0; k < near; k++)
      if (count[side][k])
        sum += std::max<int64_t>(floor_divide(256 * against[side][k], count[side][k]) - base, 0);
    const int64_t error = base < 65536 ? floor_divide(512 * edge * sum, bins * (65536 - base)) : 0;
    const int64_t found =
        std::min<int64_t>(std::max<int64_t>(768 + floor_divide(5 * error, 2), 6 * 256), edge * 256);
    const int64_t share = std::lround(t_.params.temporal * 32768);
    error_[side] = int(found + floor_divide(share * (edge * 256 - found) + 16384, 32768));
  }
  for (int& x : x_) {
    const int64_t wide = floor_divide(std::abs(x) * edge * 256, error_[x > 0]);
    x = int(std::min<int64_t>(wide, kOne)) * (x > 0 ? 1 : -1);
  }
  return 1.3 * (error_[0] - error_[1]) / (256.0 * double(edge));
}

void ReferenceColors::vote(const Read& read, bool fresh) {
  const GuidedParams& p = t_.params;
  const size_t count = size_t(w_) * h_;
  for (int c = 0; c < 4; c++) {
    std::vector<int>& out = c < 3 ? guide_[c] : mask_;
    out.assign(count, 0);
    if (c < 3 && c >= t_.from.colors) continue;
    for (int j = 0; j < h_; j++)
      for (int i = 0; i < w_; i++)
        out[size_t(j) * w_ + i] =
            c == 3 && beside_ ? centre(beside_, i, j) : bytes(read, kStep * i, kStep * j, kStep, c);
  }
  prior();
  if (p.temporal > 0) steady(fresh);

  // Luma has 0.2 of the weight of chroma.
  const double kr = 0.2126, kg = 0.7152, kb = 0.0722;
  const auto feature = [&](const std::array<double, 3>& guide) {
    std::array<double, 3> rgb;
    if (t_.from.colors == 1) {
      rgb.fill(guide[0] / 255);
    } else {
      double y[3] = {};
      for (int i = 0; i < 3; i++)
        for (int c = 0; c < 3; c++) y[i] += p.to_ycbcr[i][c] * guide[c] / 255;
      rgb[0] = y[0] + 2 * (1 - kr) * y[2];
      rgb[2] = y[0] + 2 * (1 - kb) * y[1];
      rgb[1] = (y[0] - kr * rgb[0] - kb * rgb[2]) / kg;
    }
    const double luma = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
    for (double& v : rgb) v -= 0.8 * luma;
    return rgb;
  };
  for (Grid& f : f_) f.resize(count);
  for (size_t at = 0; at < count; at++) {
    const auto f = feature({double(guide_[0][at]), double(guide_[1][at]), double(guide_[2][at])});
    for (int c = 0; c < 3; c++) f_[c][at] = f[c];
  }
  int64_t compared[3][3];
  for (int k = 0; k < 3; k++) {
    std::array<double, 3> one = {};
    one[k] = 1;
    const auto f = feature(one);
    for (int c = 0; c < 3; c++) compared[c][k] = std::llround(f[c] * (1 << 23));
  }

  const auto in_band = [&](size_t at) { return std::abs(x_[at]) < kOne; };
  Grid subject(count), background(count);
  std::vector<bool> votes(count);
  for (size_t at = 0; at < count; at++) {
    const double x = x_[at] / double(kOne), logit = 9 * p.mask_trust * x;
    votes[at] = in_band(at);
    subject[at] = x * x * (votes[at] ? sigmoid(logit) : x > 0);
    background[at] = x * x * (votes[at] ? sigmoid(-logit) : x <= 0);
  }
  const Grid l = ratios(models(subject), models(background));
  const double shift = narrow(l);
  const auto code = [&](const int64_t* of, size_t at) {
    int64_t sum = 32768;
    for (int k = 0; k < 3; k++) sum += of[k] * (guide_[k][at] - 128);
    return std::clamp<int64_t>(128 + floor_divide(sum, 65536), 0, 255);
  };
  p_.resize(count);
  outside_.resize(count);
  side_.resize(count);
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      const size_t at = size_t(j) * w_ + i;
      bool near = false;
      window(i, j, 1, w_, h_, [&](int a, int b) { near = near || in_band(size_t(b) * w_ + a); });
      double sum = 0, weights = 0;
      window(i, j, 2, w_, h_, [&](int a, int b) {
        const size_t other = size_t(b) * w_ + a;
        if ((a - i + b - j) % 2 || !votes[other]) return;
        int64_t unlike = 0;
        for (int c = 0; c < 3; c++)
          unlike += std::abs(code(compared[c], other) - code(compared[c], at));
        const double weight = std::pow(std::max<int64_t>(96 - unlike, 0), 4);
        sum += weight * l[other];
        weights += weight;
      });
      side_[at] = x_[at] > 0;
      outside_[at] = !near;
      const double x = x_[at] / double(kOne), moved = x + shift * (1 - std::abs(x));
      const double v =
          in_band(at) ? sigmoid(9 * p.mask_trust * moved + 3 * sum / weights) : side_[at];
      p_[at] = std::floor(255 * v + 0.5);
    }
  for (Grid& g : sure_) g.resize(count);
  for (int j = 0; j < h_; j++)
    for (int i = 0; i < w_; i++) {
      double vote[2] = {100, -100};
      for (const auto& [di, dj] : {std::pair(0, 0), {-1, 0}, {1, 0}, {0, -1}, {0, 1}}) {
        const int a = i + di, b = j + dj;
        const double here = a < 0 || b < 0 || a >= w_ || b >= h_ ? 0 : l[size_t(b) * w_ + a];
        vote[0] = std::min(vote[0], here);
        vote[1] = std::max(vote[1], here);
      }
      const auto sure = [&](int off, double agrees) {
        const int share = int(std::clamp(std::floor(64 * (1 + agrees) + 0.5), 0.0, 64.0));
        return busy_ * std::max(48 - off, 0) * share / (64 * 48);
      };
      const int p = int(p_[size_t(j) * w_ + i]);
      sure_[0][size_t(j) * w_ + i] = sure(p, 2.25 - (vote[1] - vote[0]));
      sure_[1][size_t(j) * w_ + i] = sure(255 - p, vote[0]);
    }
}

double ReferenceColors::bilinear(const Grid& g, double u, double v) const {
  u = std::clamp(u / kStep - 0.5, 0.0, w_ - 1.0);
  v = std::clamp(v / kStep - 0.5, 0.0, h_ - 1.0);
  const int i = int(u), j = int(v), i1 = std::min(i + 1, w_ - 1), j1 = std::min(j + 1, h_ - 1);
  const auto at = [&](int a, int b) { return g[size_t(b) * w_ + a]; };
  return (1 - (v - j)) * ((1 - (u - i)) * at(i, j) + (u - i) * at(i1, j)) +
         (v - j) * ((1 - (u - i)) * at(i, j1) + (u - i) * at(i1, j1));
}

std::array<double, 4> ReferenceColors::sample(const Read& read, int i, int j) const {
  const int s = t_.params.subsample;
  std::array<double, 4> v = {};
  for (int c = 0; c < t_.from.colors; c++) v[c] = bytes(read, s * i, s * j, s, c) / 255.0;
  v[3] = std::floor(bilinear(p_, s * (i + 0.5), s * (j + 0.5)) + 0.5) / 255;
  return v;
}

void ReferenceColors::settle(int i, int j, const std::array<Grid, 4>& guide, double* a,
                             double* b) const {
  const double u = t_.params.subsample * (i + 0.5), v = t_.params.subsample * (j + 0.5);
  const double outside = bilinear(outside_, u, v), side = bilinear(side_, u, v);
  double q = *b;
  const int w = t_.low_width, h = t_.low_height;
  for (const auto& [di, dj] : {std::pair(0, 0), {-1, 0}, {1, 0}, {0, -1}, {0, 1}})
    for (int k = 0; k < 3; k++)
      q +=
          a[k] / 5 *
          (guide[k][size_t(std::clamp(j + dj, 0, h - 1)) * w + std::clamp(i + di, 0, w - 1)] + 0.5);
  double taken[2];
  for (int k = 0; k < 2; k++)
    taken[k] = std::floor(bilinear(sure_[k], u, v) + 0.5) / 64 *
               std::clamp(2 - (k ? 8 * (1 - q) : 32 / 3.0 * q), 0.0, 1.0);
  const double kept = (1 - outside) * (1 - taken[0] - taken[1]);
  for (int k = 0; k < 3; k++) a[k] *= kept;
  *b = kept * *b + (1 - outside) * taken[1] + outside * side;
}

}  // namespace vf::test
