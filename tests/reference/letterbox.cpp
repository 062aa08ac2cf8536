// Computes the letterbox one destination component at a time. The affine rule is float32 in the
// order of the TensorRT examples, the fixed point for 8 bit is cv2's, and everything else is
// double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "filters/letterbox_task.h"
#include "tests/reference/reference.h"

namespace vf::test {
namespace {

using Axis = LetterboxTask::Axis;

// These round each operation once, so that the compiler cannot fuse them.
float mul(float a, float b) {
  volatile float r = a * b;
  return r;
}
float add(float a, float b) {
  volatile float r = a + b;
  return r;
}

struct Place {
  float at = 0;          // source position: 0 is the first pixel's centre
  double nearest = 0;    // ultralytics: position as INTER_NEAREST floors it
  bool outside = false;  // outside the picture by the rule
};

Place place(const LetterboxTask& t, const Axis& a, int x, int sub) {
  const float X = float(x) * (1 << sub) + (a.destination_cosited ? 0 : ((1 << sub) - 1) / 2.0f);
  Place p;
  if (t.rule == LetterboxRule::affine) {
    p.at = add(mul(a.multiply, X), a.add);
    switch (t.interpolation) {
      case Interpolation::bilinear:
        p.outside = p.at <= -1 || p.at >= a.source;
        break;
      case Interpolation::nearest: {
        const float i = std::floor(add(p.at, 0.5f));
        p.outside = i < 0 || i >= a.source;
        break;
      }
      case Interpolation::area:
        p.outside = p.at + a.reach <= -0.5 || p.at - a.reach >= a.source - 0.5;
        break;
    }
  } else {
    p.outside = X < a.begin - 0.5 || X >= a.begin + a.size - 0.5;
    p.at = float((double(X) - a.begin + 0.5) * a.step - 0.5);
    p.nearest = (double(X) - a.begin) * a.step;
  }
  return p;
}

// Holds a neighbour of a position along one axis, and its weight.
struct Tap {
  int index;  // -1: outside, has the fill
  double weight;
};
using Taps = std::vector<Tap>;

class ReferenceLetterbox final : public Plan {
 public:
  ReferenceLetterbox(Queue& queue, const LetterboxTask& task)
      : Plan(queue, task.source, task.destination, Placement::separate), t_(task) {}

 private:
  bool affine() const { return t_.rule == LetterboxRule::affine; }

  int nearest_index(const Axis& a, const Place& p) const {
    const double i = affine() ? std::floor(add(p.at, 0.5f)) : std::floor(p.nearest);
    return int(std::clamp(i, 0.0, a.source - 1.0));
  }

  // Returns the taps in a plane of n pixels that is subsampled by 2^sub along this axis. Planes of
  // subsampled chroma are clamped.
  Taps taps(const Axis& a, const Place& p, int sub, int n, bool chroma) const {
    const bool clamps = chroma || !affine();
    const auto seen = [&](double i) {
      if (clamps) return int(std::clamp(i, 0.0, n - 1.0));
      return i < 0 || i >= n ? -1 : int(i);
    };
    if (t_.interpolation == Interpolation::nearest)
      return {{std::min(nearest_index(a, p) >> sub, n - 1), 1}};
    float at = p.at;
    if (sub) {
      const float share = 1.0f / (1 << sub);
      at = add(mul(at, share), a.source_cosited ? 0.0f : share / 2 - 0.5f);
    }
    if (t_.interpolation == Interpolation::bilinear) {
      if (chroma) at = std::min(std::max(at, 0.0f), float(n - 1));
      const float low = std::floor(at), f = add(at, -low);
      return {{seen(low), add(1, -f)}, {seen(low + 1), f}};
    }
    const double reach = std::max(0.5, double(a.reach) / (1 << sub));
    Taps result;
    for (double i = std::floor(at - reach + 0.5); i - 0.5 < at + reach; i++) {
      const double w = std::min(at + reach, i + 0.5) - std::max(at - reach, i - 0.5);
      if (w > 0) result.push_back({seen(i), w / (2 * reach)});
    }
    return result;
  }

  double code(const Image& src, int k, int x, int y) const {
    const auto c = t_.from[k];
    return std::floor(read(src, c.plane, x, y, c.channel) / (1 << src.layout.shift));
  }

  // Returns component k of the source at a position, in code values. `outside` is the weight of
  // luma pixels outside the picture. Chroma is clamped to its plane and fades to the fill by this
  // weight.
  double sample(const Image& src, int k, const Place& px, const Place& py) const {
    const PlaneLayout& l = src.layout.plane[t_.from[k].plane];
    const bool chroma = l.sub_x || l.sub_y;
    const Taps tx = taps(t_.x, px, l.sub_x, l.width, chroma);
    const Taps ty = taps(t_.y, py, l.sub_y, l.height, chroma);
    const Taps lx = taps(t_.x, px, 0, t_.x.source, false),
               ly = taps(t_.y, py, 0, t_.y.source, false);
    const auto value = [&](const Tap& x, const Tap& y) {
      return x.index < 0 || y.index < 0 ? double(t_.source_fill[k])
                                        : code(src, k, x.index, y.index);
    };
    const bool faded = affine() && chroma;
    if (t_.interpolation == Interpolation::nearest) return value(tx[0], ty[0]);
    if (affine() && t_.interpolation == Interpolation::bilinear) {
      float sum = weighted(tx, ty, value);
      if (faded) {
        const float outside = weighted(lx, ly, [](const Tap& x, const Tap& y) {
          return x.index < 0 || y.index < 0 ? 1.0 : 0.0;
        });
        sum = add(sum, mul(outside, add(t_.source_fill[k], -sum)));
      }
      return sum;
    }
    double sum = 0;
    for (const Tap& y : ty)
      for (const Tap& x : tx) sum += y.weight * x.weight * value(x, y);
    if (faded) {
      double outside = 0;
      for (const Tap& y : ly)
        for (const Tap& x : lx)
          if (x.index < 0 || y.index < 0) outside += y.weight * x.weight;
      sum += outside * (t_.source_fill[k] - sum);
    }
    return sum;
  }

  // Returns w1 v1 + w2 v2 + w3 v3 + w4 v4 in the examples' order.
  template <class F>
  static float weighted(const Taps& tx, const Taps& ty, F&& value) {
    const float lx = float(tx[1].weight), ly = float(ty[1].weight);
    const float hx = add(1, -lx), hy = add(1, -ly);
    float sum = mul(mul(hy, hx), float(value(tx[0], ty[0])));
    sum = add(sum, mul(mul(hy, lx), float(value(tx[1], ty[0]))));
    sum = add(sum, mul(mul(ly, hx), float(value(tx[0], ty[1]))));
    return add(sum, mul(mul(ly, lx), float(value(tx[1], ty[1]))));
  }

  // Computes cv2's INTER_LINEAR for 8 bit, which has weights of 11 bits and combines rows with two
  // truncations.
  double fixed_point(const Image& src, int k, const Place& px, const Place& py) const {
    const PlaneLayout& l = src.layout.plane[t_.from[k].plane];
    int x = int(std::floor(px.at)), y = int(std::floor(py.at));
    float fx = px.at - x, fy = py.at - y;
    if (x < 0) x = 0, fx = 0;
    if (x >= l.width - 1) x = l.width - 1, fx = 0;
    const int wx[2] = {int(std::nearbyint((1 - fx) * 2048)), int(std::nearbyint(fx * 2048))};
    const int wy[2] = {int(std::nearbyint((1 - fy) * 2048)), int(std::nearbyint(fy * 2048))};
    int sum = 2;
    for (int j = 0; j < 2; j++) {
      const int row = std::clamp(y + j, 0, l.height - 1);
      const int h = int(code(src, k, x, row)) * wx[0] +
                    int(code(src, k, std::min(x + 1, l.width - 1), row)) * wx[1];
      sum += (wy[j] * (h >> 4)) >> 16;
    }
    return std::min(sum >> 2, 255);
  }

  double round(double v) const {
    return std::clamp(affine() ? double(std::floor(add(float(v), 0.5f))) : std::floor(v + 0.5), 0.0,
                      double(t_.max_value));
  }

  // Returns destination component k (0 to 2, 3 is alpha) as a code value.
  double result(const Image& src, int k, const Place& px, const Place& py) const {
    if (k == 3 && t_.from[3].plane < 0) return px.outside || py.outside ? t_.fill[3] : t_.max_value;
    if (px.outside || py.outside) return t_.fill[k];
    const bool fixed = t_.copies && !affine() && t_.source.type == Type::u8 &&
                       t_.interpolation == Interpolation::bilinear;
    // Subsampled planes that need no conversion are resized at their own siting, in floating point.
    const PlaneLayout& l = src.layout.plane[t_.from[k].plane < 0 ? 0 : t_.from[k].plane];
    if (fixed && !l.sub_x && !l.sub_y) return fixed_point(src, k, px, py);
    if (t_.copies) return round(sample(src, k, px, py));
    if (k == 3) {
      const double a = sample(src, 3, px, py);
      return round(affine() ? mul(float(a), t_.alpha_scale) : a * t_.alpha_scale);
    }
    double c[3] = {};
    for (int j = 0; j < 3; j++)
      if (t_.from[j].plane >= 0) c[j] = sample(src, j, px, py);
    const float* m = t_.matrix[k];
    if (affine()) {
      float sum = add(mul(m[0], float(c[0])), mul(m[1], float(c[1])));
      return round(add(add(sum, mul(m[2], float(c[2]))), t_.offset[k]));
    }
    return round(m[0] * c[0] + m[1] * c[1] + m[2] * c[2] + t_.offset[k]);
  }

  static uint16_t to_half(float f) {
    const double v = std::abs(double(f));
    const uint16_t sign = std::signbit(f) ? 0x8000 : 0;
    if (v >= 65520) return uint16_t(sign | 0x7c00);
    int exponent = 0;
    std::frexp(v, &exponent);                   // v = m 2^exponent, m in [0.5, 1)
    const int e = std::max(exponent - 1, -14);  // subnormals share the smallest exponent
    const int units = int(std::nearbyint(std::ldexp(v, 10 - e)));  // in units of 2^(e - 10)
    // 1024 units are 1.0, and the addition then carries into the exponent, which is right.
    return uint16_t(sign | (units >= 1024 ? ((e + 15) << 10) + units - 1024 : units));
  }

  void store(const Image& dst, int p, int x, int y, int c, int k, double v) const {
    if (!t_.normalised) {
      write(dst, p, x, y, c, v * (1 << dst.layout.shift));
      return;
    }
    const float f = float((v - t_.subtract[k]) / double(t_.divide[k]));
    if (!t_.half_float) {
      write(dst, p, x, y, c, f);
      return;
    }
    const uint16_t h = to_half(f);
    std::memcpy(component(dst, p, x, y, c), &h, sizeof h);
  }

  Status enqueue(const Image& src, const Image& dst) override {
    for (int k = 0; k < 4; k++) {
      const auto to = t_.to[k];
      if (to.plane < 0) continue;
      const PlaneLayout& l = dst.layout.plane[to.plane];
      for (int y = 0; y < l.height; y++) {
        const Place py = place(t_, t_.y, y, l.sub_y);
        for (int x = 0; x < l.width; x++) {
          const Place px = place(t_, t_.x, x, l.sub_x);
          store(dst, to.plane, x, y, to.channel, k, result(src, k, px, py));
        }
      }
    }
    const auto none = t_.padding;
    if (none.plane >= 0)
      for (int y = 0; y < dst.layout.plane[none.plane].height; y++)
        for (int x = 0; x < dst.layout.plane[none.plane].width; x++)
          write(dst, none.plane, x, y, none.channel, 1e9);
    return {};
  }

  LetterboxTask t_;
};

}  // namespace

Status reference_letterbox(Queue& queue, const LetterboxTask& task, std::unique_ptr<Plan>* out) {
  *out = std::make_unique<ReferenceLetterbox>(queue, task);
  return {};
}

}  // namespace vf::test
