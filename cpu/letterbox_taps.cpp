#include "cpu/letterbox_taps.h"

#include <algorithm>
#include <cmath>

namespace vf::cpu {
namespace {

using Axis = LetterboxTask::Axis;
constexpr int kFixedBits = 11;

class Reader {
 public:
  Reader(const LetterboxTask& t, const Axis& a, bool horizontal)
      : t_(t), a_(a), horizontal_(horizontal), affine_(t.rule == LetterboxRule::affine) {}

  AxisTaps taps(int size, int sub, int chroma_sub, int chroma_size) const {
    AxisTaps r;
    r.begin = size;
    for (int i = 0; i < size; i++)
      if (shows_picture(position(i, sub))) {
        r.begin = std::min(r.begin, i);
        r.end = i + 1;
      }
    r.begin = std::min(r.begin, r.end);
    fill(&r.luma, size, sub, 0, a_.source, !affine_, false, r);
    if (chroma_sub >= 0) fill(&r.chroma, size, sub, chroma_sub, chroma_size, true, true, r);
    return r;
  }

 private:
  struct Position {
    float at;
    double x;  // the destination pixel's, from the picture's left or top (ultralytics)
  };

  Position position(int i, int sub) const {
    const float X =
        float(i) * float(1 << sub) + (a_.destination_cosited ? 0.0f : float((1 << sub) - 1) * 0.5f);
    if (affine_) {
      const float scaled = a_.multiply * X;
      return {scaled + a_.add, 0};
    }
    const double x = double(X) - a_.begin;
    return {float((x + 0.5) * a_.step - 0.5), x};
  }

  bool shows_picture(const Position& p) const {
    if (!affine_) return p.x >= -0.5 && p.x < a_.size - 0.5;
    const float size = float(a_.source);
    switch (t_.interpolation) {
      case Interpolation::bilinear:
        return p.at > -1 && p.at < size;
      case Interpolation::nearest: {
        const float i = std::floor(p.at + 0.5f);
        return i >= 0 && i < size;
      }
      case Interpolation::area:
        return double(p.at) + a_.reach > -0.5 && double(p.at) - a_.reach < size - 0.5;
    }
    return false;
  }

  void fill(ResamplingTaps* r, int size, int sub, int source_sub, int n, bool clamps, bool chroma,
            const AxisTaps& range) const {
    const float share = 1.0f / float(1 << source_sub);
    r->lo.assign(size, 0);
    r->hi.assign(size, 0);
    r->weight.assign(size, 0);
    r->fixed.assign(2 * size_t(size), 0);
    r->outside.assign(size, 0);
    r->first.assign(size + 1, 0);
    for (int i = 0; i < size; i++) {
      r->first[i + 1] = r->first[i];
      if (i < range.begin || i >= range.end) continue;
      const Position p = position(i, sub);
      float at = p.at;
      if (source_sub) {
        const float scaled = at * share;
        at = scaled + (a_.source_cosited ? 0.0f : share * 0.5f - 0.5f);
      }
      switch (t_.interpolation) {
        case Interpolation::nearest: {
          const double wanted =
              affine_ ? double(std::floor(p.at + 0.5f)) : std::floor(p.x * a_.step);
          const int luma = int(std::clamp(wanted, 0.0, a_.source - 1.0));
          r->lo[i] = r->hi[i] = std::min(luma >> source_sub, n - 1);
          break;
        }
        case Interpolation::bilinear: {
          if (chroma) at = std::min(std::max(at, 0.0f), float(n - 1));
          const int low = int(std::floor(at));
          float f = at - float(low);
          r->weight[i] = f;
          r->lo[i] = std::clamp(low, 0, n - 1);
          r->hi[i] = std::clamp(low + 1, 0, n - 1);
          if (!clamps) r->outside[i] = uint8_t((low < 0) | (low + 1 >= n) << 1);
          // cv2 moves columns beyond the edge onto it, but not rows.
          if (horizontal_ && (low < 0 || low >= n - 1)) f = 0;
          r->fixed[2 * size_t(i)] = int16_t(std::lrint((1 - f) * (1 << kFixedBits)));
          r->fixed[2 * size_t(i) + 1] = int16_t(std::lrint(f * (1 << kFixedBits)));
          if (horizontal_ && low >= n - 1) r->lo[i] = n - 1;
          break;
        }
        case Interpolation::area: {
          const double reach = std::max(0.5, double(a_.reach) * share);
          const double low = at - reach, high = at + reach;
          for (double j = std::floor(low + 0.5); j - 0.5 < high; j++) {
            const double w = std::min(high, j + 0.5) - std::max(low, j - 0.5);
            if (!(w > 0)) continue;
            const bool out = !clamps && (j < 0 || j >= n);
            r->index.push_back(out ? -1 : int(std::clamp(j, 0.0, n - 1.0)));
            r->share.push_back(float(w / (2 * reach)));
          }
          r->first[i + 1] = int(r->index.size());
          break;
        }
      }
    }
  }

  const LetterboxTask& t_;
  const Axis& a_;
  bool horizontal_, affine_;
};

}  // namespace

AxisTaps letterbox_taps(const LetterboxTask& task, const Axis& axis, bool horizontal, int size,
                        int sub, int chroma_sub, int chroma_size) {
  return Reader(task, axis, horizontal).taps(size, sub, chroma_sub, chroma_size);
}

}  // namespace vf::cpu
