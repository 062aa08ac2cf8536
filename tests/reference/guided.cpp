// Computes the definition in filters/guided.h step by step, in double precision.
#include <algorithm>
#include <array>
#include <vector>

#include "filters/guided_task.h"
#include "tests/reference/guided_colors.h"
#include "tests/reference/guided_layers.h"
#include "tests/reference/reference.h"

namespace vf::test {
namespace {

using Grid = std::vector<double>;  // low_width x low_height

class ReferenceGuided final : public GuidedPlan {
 public:
  ReferenceGuided(Queue& queue, const GuidedTask& task)
      : GuidedPlan(queue, task.source, task.destination, Placement::separate),
        t_(task),
        votes_(t_),
        layers_(t_) {}
  void reset() override { fresh_ = true; }
  void take_over(GuidedPlan& other) override {
    const auto& before = static_cast<ReferenceGuided&>(other);
    if (same_mask(before.t_, t_)) {
      placed_ = before.placed_;
      parts_ = before.parts_;
    }
    if (!same_memory(before.t_, t_)) return;
    before_ = before.before_;
    votes_.take_over(before.votes_);
    fresh_ = before.fresh_;
  }
  Status set_mask(const CoarseMask& mask) override {
    VF_TRY(place_mask(mask, t_.width, t_.height, &placed_));
    parts_.resize(placed_.bytes);
    pack_mask(mask, placed_, parts_.data());
    return {};
  }

 private:
  // Returns the external mask at a position in half pixels, or the error of its edge.
  double beside(int hx, int hy, size_t errors = 0) const {
    double most = 0;
    for (int i = 0; i < placed_.count; i++) {
      const MaskPlace& m = placed_.place[i];
      if (hx < m.x.first || hx > m.x.last || hy < m.y.first || hy > m.y.last) continue;
      const double x = position(m.x, hx), y = position(m.y, hy);
      double sum = 0;
      for (int j = int(y); j <= std::min(int(y) + 1, m.y.maximum / 256); j++)
        for (int k = int(x); k <= std::min(int(x) + 1, m.x.maximum / 256); k++)
          sum += std::max(0.0, 1 - std::abs(x - k)) * std::max(0.0, 1 - std::abs(y - j)) *
                 parts_[m.at + errors + size_t(j) * m.pitch + k];
      most = std::max(most, sum);
    }
    return most / 255;
  }
  static double position(const MaskAxis& axis, int h) {
    const double at = double(axis.start) + double(axis.step) * h;
    return std::clamp(std::floor(at / (1 << MaskAxis::kShift)), double(axis.minimum),
                      double(axis.maximum)) /
           256;
  }

  double value(const Image& image, const Component& c, int x, int y) const {
    const PlaneLayout& p = image.layout.plane[c.plane];
    return read(image, c.plane, x >> p.sub_x, y >> p.sub_y, c.channel) / t_.scale;
  }

  std::array<double, 3> guide(const Image& src, int x, int y) const {
    std::array<double, 3> v = {};
    for (int c = 0; c < t_.from.colors; c++) v[c] = value(src, t_.from.color[c], x, y);
    return v;
  }

  std::array<double, 2> chroma(const std::array<double, 3>& v) const {
    std::array<double, 2> out = {};
    for (int i = 0; i < 2; i++)
      for (int c = 0; c < 3; c++)
        out[i] += t_.params.to_ycbcr[1 + i][c] * (v[c] - t_.params.black[c]);
    return out;
  }

  double mask(const Image& src, int x, int y) const {
    if (t_.params.mask == MatteMask::alpha) return value(src, t_.from.alpha, x, y);
    if (t_.params.mask == MatteMask::external) return rounded(beside(2 * x + 1, 2 * y + 1));
    const auto c = chroma(guide(src, x, y));
    const double d = std::hypot(c[0] - t_.key[0], c[1] - t_.key[1]) - t_.params.key_tolerance;
    const double m = t_.params.key_softness > 0 ? std::clamp(d / t_.params.key_softness, 0.0, 1.0)
                                                : double(d > 0);
    return rounded(m);
  }
  double rounded(double v) const {
    if (t_.source.type == Type::f32) return v;
    return std::floor(v * t_.scale / t_.unit + 0.5) * t_.unit / t_.scale;
  }

  // Makes means over the windows, by the true number of samples.
  Grid box(const Grid& in, int r) const {
    const int w = t_.low_width, h = t_.low_height;
    Grid rows(in.size()), out(in.size());
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) {
        double sum = 0;
        for (int i = std::max(0, x - r); i <= std::min(w - 1, x + r); i++)
          sum += in[size_t(y) * w + i];
        rows[size_t(y) * w + x] = sum / (std::min(w - 1, x + r) - std::max(0, x - r) + 1);
      }
    for (int y = 0; y < h; y++) {
      const int first = std::max(0, y - r), last = std::min(h - 1, y + r);
      double* const o = &out[size_t(y) * w];
      for (int j = first; j <= last; j++)
        for (int x = 0; x < w; x++) o[x] += rows[size_t(j) * w + x];
      for (int x = 0; x < w; x++) o[x] /= last - first + 1;
    }
    return out;
  }

  static double det(const double a[3], const double b[3], const double c[3]) {
    return a[0] * (b[1] * c[2] - b[2] * c[1]) - b[0] * (a[1] * c[2] - a[2] * c[1]) +
           c[0] * (a[1] * b[2] - a[2] * b[1]);
  }

  // Computes A and B of the definition.
  std::array<Grid, 4> coefficients(const Image& src) {
    const int w = t_.low_width, h = t_.low_height, s = t_.params.subsample;
    const size_t n = size_t(w) * h;
    std::array<Grid, 4>
        v;  // guide and mask, about the middle, which leaves covariances as they are
    for (Grid& g : v) g.resize(n);
    const auto read = [&](int x, int y, int c) {
      return c < 3 ? value(src, t_.from.color[c], x, y) : mask(src, x, y);
    };
    if (votes()) {
      if (t_.params.mask == MatteMask::external)
        votes_.use_mask(
            [&](int hx, int hy) { return beside(hx, hy); },
            [&](int hx, int hy) { return placed_.errors ? beside(hx, hy, placed_.errors) : 0; });
      votes_.vote(read, fresh_);
    }
    for (int j = 0; j < h; j++)
      for (int i = 0; i < w; i++) {
        if (votes()) {
          const auto sample = votes_.sample(read, i, j);
          for (int k = 0; k < 4; k++) v[k][size_t(j) * w + i] = sample[k] - 0.5;
          continue;
        }
        const int x = std::min(int(std::floor((i + 0.5) * s)), t_.width - 1);
        const int y = std::min(int(std::floor((j + 0.5) * s)), t_.height - 1);
        const auto c = guide(src, x, y);
        for (int k = 0; k < 3; k++) v[k][size_t(j) * w + i] = c[k] - 0.5;
        v[3][size_t(j) * w + i] = mask(src, x, y) - 0.5;
      }
    std::array<Grid, 4> mean;
    for (int k = 0; k < 4; k++) mean[k] = box(v[k], t_.low_radius);
    const auto covariance = [&](int a, int b) {
      Grid product(n);
      for (size_t i = 0; i < n; i++) product[i] = v[a][i] * v[b][i];
      product = box(product, t_.low_radius);
      for (size_t i = 0; i < n; i++) product[i] -= mean[a][i] * mean[b][i];
      return product;
    };
    Grid ii[3][3], ip[3];
    for (int a = 0; a < 3; a++) {
      for (int b = a; b < 3; b++) ii[a][b] = ii[b][a] = covariance(a, b);
      ip[a] = covariance(a, 3);
    }
    std::array<Grid, 4> ab;
    for (Grid& g : ab) g.resize(n);
    for (size_t i = 0; i < n; i++) {
      double m[3][3], p[3];
      for (int a = 0; a < 3; a++) {
        for (int b = 0; b < 3; b++) m[a][b] = ii[a][b][i] + (a == b ? t_.params.epsilon : 0);
        p[a] = ip[a][i];
      }
      const double d = det(m[0], m[1], m[2]);
      ab[0][i] = det(p, m[1], m[2]) / d;
      ab[1][i] = det(m[0], p, m[2]) / d;
      ab[2][i] = det(m[0], m[1], p) / d;
      ab[3][i] = mean[3][i] + 0.5;
      for (int k = 0; k < 3; k++) ab[3][i] -= ab[k][i] * (mean[k][i] + 0.5);
    }
    for (Grid& g : ab) g = box(g, t_.low_radius);
    for (size_t i = 0; i < n && votes(); i++) {
      double a[3] = {ab[0][i], ab[1][i], ab[2][i]};
      votes_.settle(int(i % w), int(i / w), v, a, &ab[3][i]);
      for (int k = 0; k < 3; k++) ab[k][i] = a[k];
    }
    if (t_.params.temporal > 0 && !votes()) {
      for (int k = 0; k < 3; k++) mean[k] = box(v[k], 1);
      if (!fresh_)
        for (size_t i = 0; i < n; i++) {
          double moved = 0;
          for (int k = 0; k < 3; k++)
            moved = std::max(moved, std::abs(mean[k][i] - before_[4 + k][i]));
          constexpr double still = GuidedParams::kStill, all = GuidedParams::kMoved;
          const double keep =
              t_.params.temporal * std::clamp((all - moved) / (all - still), 0.0, 1.0);
          for (int k = 0; k < 4; k++) ab[k][i] += keep * (before_[k][i] - ab[k][i]);
          for (int k = 0; k < 3; k++) mean[k][i] += keep * (before_[4 + k][i] - mean[k][i]);
        }
      for (int k = 0; k < 4; k++) before_[k] = ab[k];
      for (int k = 0; k < 3; k++) before_[4 + k] = mean[k];
    }
    fresh_ = false;
    return ab;
  }

  double bilinear(const Grid& g, double x, double y) const {
    const double s = t_.params.subsample;
    const double u = std::clamp((x + 0.5) / s - 0.5, 0.0, t_.low_width - 1.0);
    const double v = std::clamp((y + 0.5) / s - 0.5, 0.0, t_.low_height - 1.0);
    const int i = int(u), j = int(v);
    const int i1 = std::min(i + 1, t_.low_width - 1), j1 = std::min(j + 1, t_.low_height - 1);
    const auto at = [&](int a, int b) { return g[size_t(b) * t_.low_width + a]; };
    return (1 - (v - j)) * ((1 - (u - i)) * at(i, j) + (u - i) * at(i1, j)) +
           (v - j) * ((1 - (u - i)) * at(i, j1) + (u - i) * at(i1, j1));
  }

  double over(double q) const { return q + t_.params.background_alpha * (1 - q); }

  // Returns the result's colours for a pixel with the colours `seen`, in the source's colour space.
  std::array<double, 3> colors(int x, int y, const std::array<double, 3>& seen, double q) const {
    const GuidedParams& p = t_.params;
    const auto v = layers_.foreground(x, y, seen, q), behind = layers_.background(x, y);
    double spill = 0;
    if (p.despill > 0) {
      const auto ch = chroma(v);
      const double u = ch[0] * t_.hue[0] + ch[1] * t_.hue[1];
      const double across = std::abs(ch[0] * t_.hue[1] - ch[1] * t_.hue[0]);
      spill = p.despill * std::max(0.0, u - across);
    }
    std::array<double, 3> out;
    for (int c = 0; c < 3; c++) {
      out[c] = v[c] - spill * t_.spill[c];
      switch (p.output) {
        case MatteOutput::alpha:
          break;
        case MatteOutput::premultiplied:
          out[c] = p.black[c] + (out[c] - p.black[c]) * q;
          break;
        case MatteOutput::matte:
          out[c] = p.black[c] + (p.white[c] - p.black[c]) * q;
          break;
        case MatteOutput::composite: {
          const double a = over(q);
          out[c] = a > 0 ? (out[c] * q + behind[c] * p.background_alpha * (1 - q)) / a : behind[c];
          break;
        }
      }
    }
    return out;
  }

  void make_layers(const Image& src, const std::array<Grid, 4>& ab) {
    const auto read = [&](int x, int y, int c) { return value(src, t_.from.color[c], x, y); };
    layers_.make(
        [&](int i, int j) {
          std::array<int, 3> v = {};
          for (int c = 0; c < t_.from.colors; c++) v[c] = votes_.bytes(read, 4 * i, 4 * j, 4, c);
          return v;
        },
        [&](double x, double y, const std::array<double, 3>& color) {
          double q = bilinear(ab[3], x - 0.5, y - 0.5);
          for (int c = 0; c < 3; c++) q += bilinear(ab[c], x - 0.5, y - 0.5) * color[c];
          return std::clamp(q, 0.0, 1.0);
        });
  }

  Status enqueue(const Image& src, const Image& dst) override {
    const std::array<Grid, 4> ab = coefficients(src);
    const GuidedParams& p = t_.params;
    if (t_.layers.used()) make_layers(src, ab);
    Grid matte(size_t(t_.width) * t_.height);
    for (int y = 0; y < t_.height; y++)
      for (int x = 0; x < t_.width; x++) {
        const auto v = guide(src, x, y);
        double q = bilinear(ab[3], x, y);
        for (int c = 0; c < 3; c++) q += bilinear(ab[c], x, y) * v[c];
        matte[size_t(y) * t_.width + x] = std::clamp(q, 0.0, 1.0);
      }
    for (int c = 0; c < t_.to.colors; c++) {
      const Component& to = t_.to.color[c];
      const PlaneLayout& l = dst.layout.plane[to.plane];
      for (int py = 0; py < l.height; py++)
        for (int px = 0; px < l.width; px++) {
          const int x0 = px << l.sub_x, y0 = py << l.sub_y;
          double q = 0;
          int n = 0;
          for (int y = y0; y < std::min(t_.height, y0 + (1 << l.sub_y)); y++)
            for (int x = x0; x < std::min(t_.width, x0 + (1 << l.sub_x)); x++, n++)
              q += matte[size_t(y) * t_.width + x];
          const auto own = colors(x0, y0, guide(src, x0, y0), q / n);
          double out = own[c];
          if (t_.converts) {
            out = p.convert[c][3];
            for (int k = 0; k < 3; k++) out += p.convert[c][k] * own[k];
          }
          put(dst, to, px, py, out);
        }
    }
    for (int y = 0; y < t_.height && t_.to.alpha.plane >= 0; y++)
      for (int x = 0; x < t_.width; x++) {
        const double q = matte[size_t(y) * t_.width + x];
        const bool opaque = p.output == MatteOutput::matte && t_.to.colors;
        put(dst, t_.to.alpha, x, y, opaque ? 1 : p.output == MatteOutput::composite ? over(q) : q);
      }
    return {};
  }

  void put(const Image& dst, const Component& c, int x, int y, double v) const {
    if (t_.source.type != Type::f32) v = std::clamp(v, 0.0, 1.0);
    write(dst, c.plane, x, y, c.channel, v * t_.scale);
  }

  bool votes() const { return t_.params.refine == MatteRefine::colors; }

  GuidedTask t_;
  ReferenceColors votes_;
  ReferenceLayers layers_;
  PlacedMask placed_;
  std::vector<uint8_t> parts_;
  bool fresh_ = true;
  std::array<Grid, 7> before_;
};

}  // namespace

Status reference_guided(Queue& queue, const GuidedTask& task, std::unique_ptr<GuidedPlan>* out) {
  *out = std::make_unique<ReferenceGuided>(queue, task);
  return {};
}

}  // namespace vf::test
