// refine=colors of the guided matte on the CPU replaces the mask before the guided filter.
//
// Seven passes over strips of rows, shared among threads. The vote is nearly all of the
// arithmetic: for each sample of the band about a hundred colour models, eleven instructions each.
// The samples of a cell's band are packed together, so that no lane works for a sample outside of
// it, and models without weight are left out.
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/guided_colors.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/guided_colors.h"
#include "cpu/guided_load-inl.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using G = GuidedColors;
constexpr int kCell = G::kCell;

// ---- samples -----------------------------------------------------------------------------------

// Pixels of four bytes, whose bytes are the components; samples of 4 x 4.
void words_row(const GuidedColorsFrame& v, int y, uint16_t* VF_RESTRICT sum,
               uint8_t* const out[4]) {
  const GuidedTask& t = v.task;
  const int n = 4 * t.width, whole = t.width / 4;
  const uint8_t* row[4];
  for (int j = 0; j < 4; j++)
    row[j] = static_cast<const uint8_t*>(v.src.data[0]) +
             ptrdiff_t(std::min(4 * y + j, t.height - 1)) * v.src.stride[0];
  const uint8_t *VF_RESTRICT a = row[0], *VF_RESTRICT b = row[1], *VF_RESTRICT c = row[2],
                             *VF_RESTRICT d = row[3];
  for (int i = 0; i < n; i++) sum[i] = uint16_t(a[i] + b[i] + c[i] + d[i]);
  for (int i = n; i % 16; i++) sum[i] = sum[i - 4];
  const int shift[4] = {8 * t.from.color[0].channel, 8 * t.from.color[1].channel,
                        8 * t.from.color[2].channel, 8 * std::max(t.from.alpha.channel, 0)};
  for (int x = 0; x < whole + (t.width % 4 != 0); x++) {
    uint64_t pixel[4];
    std::memcpy(pixel, sum + 16 * size_t(x), sizeof pixel);
    // Four sums of 16 bits, which do not run over: 16 * 255 + 8.
    const uint64_t all = ((pixel[0] + pixel[1] + pixel[2] + pixel[3] + 0x0008000800080008) >> 4) &
                         0x00ff00ff00ff00ff;
    for (int k = 0; k < 4; k++) out[k][x] = uint8_t(all >> (2 * shift[k]));
  }
}

bool are_words(const GuidedTask& t) {
  return t.source.type == Type::u8 && t.source.planes == 1 && t.source.plane[0].channels == 4 &&
         t.source.plane[0].pixel_step() == 4 && t.scale == 255 && t.from.colors == 3 &&
         t.params.mask != MatteMask::chroma_key;
}

struct SampleRows {
  float* row[4];
  int* sum[4];
};

SampleRows take_sample_rows(const GuidedTask& t, Arena* arena) {
  SampleRows r;
  for (float*& p : r.row) p = arena->take<float>(t.width);
  for (int*& p : r.sum) p = arena->take<int>(t.width + G::kCell);
  return r;
}

// Row y of samples of size x size pixels, as code values of 8 bits: the guide and, unless out[3] is
// null, the mask.
template <class T>
void samples_row(const GuidedColorsFrame& v, int y, int size, const SampleRows& rows,
                 uint8_t* const out[4]) {
  const GuidedTask& t = v.task;
  const int width = t.width, samples = blocks_of(width, size), count = out[3] ? 4 : 3;
  const int full = std::is_same_v<T, float> ? 65535 : int(t.scale);
  for (int c = 0; c < count; c++) std::fill_n(rows.sum[c], width, 0);
  for (int j = 0; j < size; j++) {
    const int at = std::min(size * y + j, t.height - 1);
    for (int c = 0; c < 3; c++) {
      if (c < t.from.colors)
        load<T>(v.src, t.from.color[c], at, 0, 1, width - 1, width, rows.row[c]);
      else
        std::fill_n(rows.row[c], width, 0.0f);
    }
    if (out[3]) {
      if (t.params.mask == MatteMask::alpha)
        load<T>(v.src, t.from.alpha, at, 0, 1, width - 1, width, rows.row[3]);
      else
        key<T>(t, rows.row, width, rows.row[3]);
    }
    for (int c = 0; c < count; c++) {
      const float* VF_RESTRICT in = rows.row[c];
      int* VF_RESTRICT sum = rows.sum[c];
      if constexpr (std::is_same_v<T, float>)
        for (int x = 0; x < width; x++) sum[x] += int(clamp01(in[x]) * 65535.0f + 0.5f);
      else
        for (int x = 0; x < width; x++) sum[x] += std::min(int(in[x]), full);
    }
  }
  const double n = double(size) * size, half = n * full, unit = 1 / (2 * half);
  for (int c = 0; c < count; c++) {
    const int* VF_RESTRICT sum = rows.sum[c];
    for (int x = 0; x < samples; x++) {
      int total = 0;
      for (int i = 0; i < size; i++) total += sum[std::min(x * size + i, width - 1)];
      // The quotient is never within 1e-10 of the next whole number.
      out[c][x] = uint8_t((510.0 * total + half) * unit + 1e-11);
    }
  }
}

void samples_row(const GuidedColorsFrame& v, int y, int size, const SampleRows& rows,
                 uint8_t* const out[4]) {
  with_component(v.task.source.type,
                 [&](auto t) { samples_row<decltype(t)>(v, y, size, rows, out); });
}

// Reads a mask at the centres of a row of samples.
void centres_row(const GuidedColorsFrame& v, const PackedMask& mask, int y,
                 uint8_t* VF_RESTRICT out) {
  mask_row<uint8_t>(v.task, mask, std::min(G::kStep * (2 * y + 1), 2 * v.task.height - 1), G::kStep,
                    2 * G::kStep, 2 * v.task.width - 1, v.task.colors.width, out);
}

size_t samples(const GuidedColorsFrame& v, int y0, int y1, char* memory) {
  const GuidedColors& c = v.task.colors;
  Arena arena(memory);
  const SampleRows rows = take_sample_rows(v.task, &arena);
  auto* sum = arena.take<uint16_t>(16 * size_t(c.width));
  if (y0 >= y1) return arena.used();
  const bool words = are_words(v.task);
  for (int y = y0; y < y1; y++) {
    const size_t at = size_t(y) * c.width;
    uint8_t* const out[4] = {v.guide[0] + at, v.guide[1] + at, v.guide[2] + at, v.mask + at};
    const bool beside = v.task.params.mask == MatteMask::external;
    uint8_t* const guide[4] = {out[0], out[1], out[2], nullptr};
    if (words)
      words_row(v, y, sum, out);
    else
      samples_row(v, y, G::kStep, rows, beside ? guide : out);
    if (beside) centres_row(v, v.external, y, out[3]);
    const uint8_t *VF_RESTRICT r = out[0], *VF_RESTRICT g = out[1], *VF_RESTRICT b = out[2];
    for (int k = 0; k < 3 && v.feature[k]; k++) {
      float* VF_RESTRICT f = v.feature[k] + at;
      const float m0 = c.feature[k][0], m1 = c.feature[k][1], m2 = c.feature[k][2];
      for (int x = 0; x < c.width; x++)
        f[x] = m0 * float(r[x]) + m1 * float(g[x]) + m2 * float(b[x]);
    }
  }
  return arena.used();
}

// ---- the mask's sides --------------------------------------------------------------------------

size_t sides(const GuidedColorsFrame& v, int y0, int y1, char* memory) {
  const GuidedColors& c = v.task.colors;
  const int n = c.width, r = c.prior_radius;
  Arena arena(memory);
  int* const padded = arena.take<int>(n + 2 * G::kMaxPriorRadius);
  if (y0 >= y1) return arena.used();
  std::fill_n(padded, n + 2 * r, 0);
  for (int y = y0; y < y1; y++) {
    int* VF_RESTRICT column = padded + r;
    std::fill_n(column, n, 0);
    for (int j = std::max(y - r, 0); j <= std::min(y + r, c.height - 1); j++) {
      const uint8_t* VF_RESTRICT m = v.mask + size_t(j) * n;
      for (int x = 0; x < n; x++) column[x] += 2 * m[x] - 255;
    }
    uint8_t* VF_RESTRICT side = v.side + size_t(y) * n;
    for (int x = 0; x < n; x++) {
      int sum = 0;
      for (int i = 0; i <= 2 * r; i++) sum += padded[x + i];
      side[x] = sum > 0;
    }
    const int far = c.distance + 1;
    uint16_t* const along[2] = {v.along[0] + size_t(y) * n, v.along[1] + size_t(y) * n};
    int last[2] = {far, far};
    for (int x = 0; x < n; x++)
      for (int k = 0; k < 2; k++) {
        last[k] = side[x] == k ? 0 : std::min(last[k] + 1, far);
        along[k][x] = uint16_t(last[k]);
      }
    last[0] = last[1] = far;
    for (int x = n - 1; x >= 0; x--)
      for (int k = 0; k < 2; k++) {
        last[k] = side[x] == k ? 0 : std::min(last[k] + 1, far);
        const int d = std::min<int>(along[k][x], last[k]);
        along[k][x] = uint16_t(d * d);
      }
  }
  return arena.used();
}

// ---- the prior, and models of the cells --------------------------------------------------------

// Widens X of row y where the mask's edge is off by less than the largest error.
void scale_row(const GuidedColorsFrame& v, int y, uint8_t* VF_RESTRICT error,
               int16_t* VF_RESTRICT prior) {
  centres_row(v, v.edge_error, y, error);
  for (int x = 0; x < v.task.colors.width; x++)
    if (error[x])
      prior[x] = int16_t(std::clamp(prior[x] * 255 / error[x], -int(G::kOne), int(G::kOne)));
}

// Blends X of row y with that of the previous frames.
void steady_row(const GuidedColorsFrame& v, int y, int16_t* VF_RESTRICT prior) {
  const GuidedColors& c = v.task.colors;
  const int n = c.width, top = std::max(y - 1, 0), bottom = std::min(y + 1, c.height - 1);
  const size_t row = size_t(y) * n;
  for (int x = 0; x < n; x++) {
    const int left = std::max(x - 1, 0), right = std::min(x + 1, n - 1);
    const int count = (bottom - top + 1) * (right - left + 1);
    int near[3], moved = 0;
    for (int k = 0; k < 3; k++) {
      int sum = 0;
      for (int j = top; j <= bottom; j++)
        for (int i = left; i <= right; i++) sum += v.guide[k][size_t(j) * n + i];
      near[k] = (256 * sum + count / 2) / count;
      moved = std::max(moved, std::abs(near[k] - int(v.previous_guide[k][row + x])));
    }
    int keep = 0;
    if (!v.fresh)
      keep = (c.share * std::clamp(G::kMoved - moved, 0, G::kMoved - G::kStill) + 1024) >> 11;
    const auto mix = [&](int now, int before) {
      return keep ? now + ((keep * (before - now) + G::kShare / 2) >> 15) : now;
    };
    for (int k = 0; k < 3; k++)
      v.previous_guide[k][row + x] = uint16_t(mix(near[k], v.previous_guide[k][row + x]));
    prior[x] = int16_t(mix(prior[x], v.previous_prior[row + x]));
    v.previous_prior[row + x] = prior[x];
  }
}

// Finds the weights of the two classes from a row of logits.
void weigh_row(int n, const int16_t* VF_RESTRICT prior, const float* VF_RESTRICT logit,
               float* VF_RESTRICT back, float* VF_RESTRICT fore) {
  const hn::ScalableTag<float> d;
  const int lanes = int(hn::Lanes(d));
  for (int x = 0; x < n; x += lanes) {
    const auto t = hn::LoadU(d, logit + x), one = hn::Set(d, 1.0f);
    const auto e = hn::Exp(d, hn::Neg(hn::Abs(t)));
    // The smaller share is a product and not 1 - more, which would lose digits.
    const auto more = hn::Div(one, hn::Add(one, e)), small = hn::Mul(e, more);
    const auto positive = hn::Gt(t, hn::Zero(d));
    hn::StoreU(hn::IfThenElse(positive, more, small), d, fore + x);
    hn::StoreU(hn::IfThenElse(positive, small, more), d, back + x);
  }
  for (int x = 0; x < n; x++) {
    const int at = prior[x];
    if (std::abs(at) >= G::kOne) {
      fore[x] = at > 0 ? 1.0f : 0.0f;
      back[x] = at > 0 ? 0.0f : 1.0f;
    } else {
      const float p = float(at) * (1.0f / G::kOne);
      fore[x] *= p * p;
      back[x] *= p * p;
    }
  }
}

struct ModelRows {
  float *logit, *fore, *back, *sum[2][5];
};

ModelRows take_model_rows(const GuidedColorsFrame& v, Arena* arena) {
  const size_t n = size_t(v.task.colors.cell_width) * kCell + 64;  // whole vectors
  ModelRows r;
  r.logit = arena->take<float>(n);
  r.fore = arena->take<float>(n);
  r.back = arena->take<float>(n);
  for (auto& sums : r.sum)
    for (float*& p : sums) p = arena->take<float>(n);
  return r;
}

void clear_models(const GuidedColorsFrame& v, const ModelRows& r) {
  for (auto& sums : r.sum)
    for (float* p : sums) std::fill_n(p, size_t(v.task.colors.cell_width) * kCell, 0.0f);
}

// Adds a row of samples with weights to their cells' sums.
void add_models(const GuidedColorsFrame& v, int y, const ModelRows& r) {
  const int n = v.task.colors.width;
  const size_t at = size_t(y) * n;
  const float *VF_RESTRICT f0 = v.feature[0] + at, *VF_RESTRICT f1 = v.feature[1] + at,
                           *VF_RESTRICT f2 = v.feature[2] + at;
  for (int k = 0; k < 2; k++) {
    const float* VF_RESTRICT w = k ? r.fore : r.back;
    float *VF_RESTRICT s0 = r.sum[k][0], *VF_RESTRICT s1 = r.sum[k][1],
                       *VF_RESTRICT s2 = r.sum[k][2], *VF_RESTRICT s3 = r.sum[k][3],
                       *VF_RESTRICT s4 = r.sum[k][4];
    for (int x = 0; x < n; x++) {
      const float a = w[x] * f0[x], b = w[x] * f1[x], c = w[x] * f2[x];
      s0[x] += w[x];
      s1[x] += a;
      s2[x] += b;
      s3[x] += c;
      s4[x] += a * f0[x] + b * f1[x] + c * f2[x];
    }
  }
}

void finish_models(const GuidedColorsFrame& v, int cy, const ModelRows& r) {
  const GuidedColors& c = v.task.colors;
  const float variance = float(c.variance);
  for (int k = 0; k < 2; k++) {
    CellModel* out = v.cells + (size_t(k) * c.cell_height + cy) * c.cell_width;
    for (int cx = 0; cx < c.cell_width; cx++) {
      float s[5] = {};
      for (int m = 0; m < 5; m++)
        for (int i = 0; i < kCell; i++) s[m] += r.sum[k][m][kCell * cx + i];
      const float unit = 1 / std::max(s[0], 1e-6f);
      CellModel& o = out[cx];
      float squares = 0;
      for (int i = 0; i < 3; i++) {
        o.mean[i] = s[1 + i] * unit;
        squares += o.mean[i] * o.mean[i];
      }
      const float all = variance + std::max(s[4] * unit - squares, 0.0f) * float(G::kVariance);
      o.count = s[0] * (1.0f / (kCell * kCell));
      o.slope = 1 / (24 * all);
      o.weight = o.count * variance / all;
    }
  }
}

size_t prior(const GuidedColorsFrame& v, int y0, int y1, char* memory) {
  const GuidedColors& c = v.task.colors;
  const int n = c.width, reach = c.distance;
  Arena arena(memory);
  const ModelRows rows = take_model_rows(v, &arena);
  uint16_t* const best[2] = {arena.take<uint16_t>(n), arena.take<uint16_t>(n)};
  uint8_t* const error = arena.take<uint8_t>(n);
  if (y0 >= y1) return arena.used();
  const int end = int(c.prior.size());
  const float trust = float(G::kTrust * c.trust / G::kOne);
  for (int cy = y0; cy < y1; cy++) {
    clear_models(v, rows);
    for (int y = kCell * cy; y < std::min(kCell * (cy + 1), c.height); y++) {
      for (int k = 0; k < 2; k++) {
        uint16_t* VF_RESTRICT b = best[k];
        std::fill_n(b, n, uint16_t(0xffff));
        for (int j = std::max(y - reach, 0); j <= std::min(y + reach, c.height - 1); j++) {
          const uint16_t* VF_RESTRICT a = v.along[k] + size_t(j) * n;
          const auto d = uint16_t((j - y) * (j - y));
          for (int x = 0; x < n; x++) b[x] = std::min(b[x], uint16_t(a[x] + d));
        }
      }
      const uint8_t* VF_RESTRICT side = v.side + size_t(y) * n;
      int16_t* VF_RESTRICT x_of = v.prior + size_t(y) * n;
      for (int x = 0; x < n; x++) {
        const int d = std::max(best[0][x], best[1][x]);  // the distance to the sample's class is 0
        const int p = d < end ? c.prior[d] : G::kOne;
        x_of[x] = int16_t(side[x] ? p : -p);
      }
      if (v.edge_error.count) scale_row(v, y, error, x_of);
      if (v.previous_prior) steady_row(v, y, x_of);
      for (int x = 0; x < n; x++) rows.logit[x] = trust * float(x_of[x]);
      weigh_row(n, x_of, rows.logit, rows.back, rows.fore);
      add_models(v, y, rows);
    }
    finish_models(v, cy, rows);
  }
  return arena.used();
}

// ---- the vote ----------------------------------------------------------------------------------

struct VoteRows {
  CellModel* models[2];
  float *feature[3], *alike[2];
  int* place;
};

// The weighted likeness of `count` samples to `models` colours; arrays are of whole vectors.
void count_votes(int count, const CellModel* models, int model_count, float* const feature[3],
                 float* VF_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const int lanes = int(hn::Lanes(d));
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  for (int i = 0; i < count; i += 2 * lanes) {
    const auto a0 = hn::LoadU(d, feature[0] + i), b0 = hn::LoadU(d, feature[0] + i + lanes);
    const auto a1 = hn::LoadU(d, feature[1] + i), b1 = hn::LoadU(d, feature[1] + i + lanes);
    const auto a2 = hn::LoadU(d, feature[2] + i), b2 = hn::LoadU(d, feature[2] + i + lanes);
    auto sum_a = zero, sum_b = zero;
    for (int m = 0; m < model_count; m++) {
      const CellModel& o = models[m];
      const auto m0 = hn::Set(d, o.mean[0]), m1 = hn::Set(d, o.mean[1]), m2 = hn::Set(d, o.mean[2]),
                 slope = hn::Set(d, o.slope), weight = hn::Set(d, o.weight);
      const auto vote = [&](auto f0, auto f1, auto f2, auto sum) {
        const auto d0 = hn::Sub(f0, m0), d1 = hn::Sub(f1, m1), d2 = hn::Sub(f2, m2);
        const auto square = hn::MulAdd(d0, d0, hn::MulAdd(d1, d1, hn::Mul(d2, d2)));
        auto u = hn::Max(hn::NegMulAdd(square, slope, one), zero);
        u = hn::Mul(u, u);
        u = hn::Mul(u, u);
        return hn::MulAdd(hn::Mul(u, u), weight, sum);
      };
      sum_a = vote(a0, a1, a2, sum_a);
      sum_b = vote(b0, b1, b2, sum_b);
    }
    hn::StoreU(sum_a, d, out + i);
    hn::StoreU(sum_b, d, out + i + lanes);
  }
}

// Counts the votes of a cell's samples against the mask's side.
void count_errors(const GuidedColorsFrame& v, const VoteRows& w, int count, MaskErrors* errors) {
  const GuidedColors& c = v.task.colors;
  const hn::ScalableTag<float> d;
  const int lanes = int(hn::Lanes(d));
  float* const against = w.alike[1];
  for (int i = 0; i < count; i += lanes) {
    // These are the votes against the background in 256ths. The votes against the subject are the
    // rest to 256.
    const auto vote = hn::Exp(d, hn::Mul(hn::LoadU(d, w.alike[0] + i), hn::Set(d, -2.0f)));
    hn::StoreU(hn::Div(hn::Set(d, 256.0f), hn::Add(vote, hn::Set(d, 1.0f))), d, against + i);
  }
  for (int i = 0; i < count; i++) {
    const int x = v.prior[w.place[i]], k = std::abs(x) * G::kErrorBins / G::kOne;
    errors->count[x > 0][k]++;
    errors->against[x > 0][k] += uint64_t((x > 0 ? 256 - against[i] : against[i]) + 0.5f);
    const int at = w.place[i];
    if (x > 0 || k < G::kErrorNear || at % c.width + 1 == c.width) continue;
    int step = 0;
    for (int j = 0; j < 3; j++) step += c.luma[j] * (v.guide[j][at + 1] - v.guide[j][at]);
    errors->steps += std::min(std::abs(step) >> 4, G::kBusyStep);
  }
}

size_t ratios(const GuidedColorsFrame& v, int y0, int y1, char* memory, MaskErrors* errors) {
  const GuidedColors& c = v.task.colors;
  const hn::ScalableTag<float> d;
  const int lanes = int(hn::Lanes(d)), n = c.width;
  const size_t room = kCell * kCell + 2 * size_t(lanes);
  const size_t window = size_t(2 * c.reach + 1) * (2 * c.reach + 1);
  Arena arena(memory);
  VoteRows w;
  for (auto*& p : w.models) p = arena.take<CellModel>(window);
  for (float*& p : w.feature) p = arena.take<float>(room);
  for (float*& p : w.alike) p = arena.take<float>(room);
  w.place = arena.take<int>(room);
  if (y0 >= y1) return arena.used();

  for (int cy = y0; cy < y1; cy++)
    for (int cx = 0; cx < c.cell_width; cx++) {
      const int x0 = kCell * cx, x1 = std::min(x0 + kCell, n);
      const int top = kCell * cy, bottom = std::min(top + kCell, c.height);
      int count = 0;
      for (int y = top; y < bottom; y++)
        for (int x = x0; x < x1; x++) {
          const int at = y * n + x;
          v.ratio[at] = 0;
          if (std::abs(v.prior[at]) >= G::kOne) continue;
          for (int k = 0; k < 3; k++) w.feature[k][count] = v.feature[k][at];
          w.place[count++] = at;
        }
      if (count == 0) continue;
      for (int i = count; i % (2 * lanes); i++)
        for (int k = 0; k < 3; k++) w.feature[k][i] = 0;
      float all[2];
      for (int k = 0; k < 2; k++) {
        int models = 0;
        float sum = 0;
        for (int j = std::max(cy - c.reach, 0); j <= std::min(cy + c.reach, c.cell_height - 1); j++)
          for (int i = std::max(cx - c.reach, 0); i <= std::min(cx + c.reach, c.cell_width - 1);
               i++) {
            const CellModel& o = v.cells[(size_t(k) * c.cell_height + j) * c.cell_width + i];
            if (!(o.weight > 0)) continue;
            const float g = c.spatial[j - cy + c.reach] * c.spatial[i - cx + c.reach];
            sum += g * o.count;
            w.models[k][models] = o;
            w.models[k][models++].weight = g * o.weight;
          }
        all[k] = 1 / std::max(sum, float(c.minimum));
        count_votes(count, w.models[k], models, w.feature, w.alike[k]);
      }
      const auto minimum = hn::Set(d, float(G::kFloor));
      for (int i = 0; i < count; i += lanes) {
        const auto b = hn::MulAdd(hn::LoadU(d, w.alike[0] + i), hn::Set(d, all[0]), minimum);
        const auto f = hn::MulAdd(hn::LoadU(d, w.alike[1] + i), hn::Set(d, all[1]), minimum);
        hn::StoreU(hn::Log(d, hn::Div(f, b)), d, w.alike[0] + i);
      }
      for (int i = 0; i < count; i++) v.ratio[w.place[i]] = w.alike[0][i];
      count_errors(v, w, count, errors);
    }
  return arena.used();
}

// ---- the matte ---------------------------------------------------------------------------------

// X as the mask error that was found makes it.
struct Narrowed {
  int widest, below[2];
  MaskError error;
  explicit Narrowed(const GuidedColorsFrame& v)
      : widest(v.task.colors.edge * G::kErrorUnit), error(v.error) {
    // Samples of the band are nearer than this.
    for (int k = 0; k < 2; k++) below[k] = blocks_of(G::kOne * error.side[k], widest);
  }
  int16_t operator()(int prior) const {
    if (!in_band(prior)) return int16_t(prior > 0 ? G::kOne : -G::kOne);
    const int x = std::abs(prior) * widest / error.side[prior > 0];
    return int16_t(prior > 0 ? x : -x);
  }
  bool in_band(int prior) const { return std::abs(prior) < below[prior > 0]; }
};

// A row of samples with kAround more on each side, for the mean over colours that are alike.
struct ComparedRow {
  float* ratio;
  uint8_t* code[4];  // Q; 0 where it votes, 255 elsewhere, so that those are unlike all that do
};
constexpr int kAround = G::kAround, kComparedRows = 2 * kAround + 1;

void compare_row(const GuidedColorsFrame& v, int y, const ComparedRow& r) {
  const GuidedColors& c = v.task.colors;
  const int n = c.width;
  if (y < 0 || y >= c.height) {
    std::fill_n(r.code[3], n + 2 * kAround, uint8_t(255));
    return;
  }
  const size_t at = size_t(y) * n;
  const int16_t* VF_RESTRICT x_of = v.prior + at;
  const uint8_t *VF_RESTRICT g0 = v.guide[0] + at, *VF_RESTRICT g1 = v.guide[1] + at,
                             *VF_RESTRICT g2 = v.guide[2] + at;
  for (int k = 0; k < 3; k++) {
    const int m0 = c.compared[k][0], m1 = c.compared[k][1], m2 = c.compared[k][2];
    const int middle = (128 << 16) + (1 << 15) - 128 * (m0 + m1 + m2);
    uint8_t* VF_RESTRICT out = r.code[k] + kAround;
    for (int x = 0; x < n; x++)
      out[x] = uint8_t(std::clamp((m0 * g0[x] + m1 * g1[x] + m2 * g2[x] + middle) >> 16, 0, 255));
  }
  uint8_t* VF_RESTRICT outside = r.code[3] + kAround;
  for (int x = 0; x < n; x++) outside[x] = std::abs(int(x_of[x])) < G::kOne ? 0 : 255;
  for (int x = 0; x < kAround; x++) outside[-1 - x] = outside[n + x] = 255;
  std::copy_n(v.ratio + at, n, r.ratio + kAround);
}

// Logits of a row's samples that vote, from X and the mean of the votes of alike colours
// around them. rows: kAround above it to kAround below.
void alike_row(const GuidedColorsFrame& v, const int16_t* x_of,
               const ComparedRow* const rows[kComparedRows], float* VF_RESTRICT out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Rebind<int32_t, decltype(d)> ints;
  const int n = v.task.colors.width, lanes = int(hn::Lanes(d));
  const auto trust = hn::Set(d, float(G::kTrust * v.task.colors.trust / G::kOne));
  const auto shift = hn::Set(d, shift_of(v.task.colors, v.error)),
             full = hn::Set(d, float(G::kOne));
  const auto vote = hn::Set(d, float(G::kVote)), minimum = hn::Set(d, 1.0f);
  const auto unlike = hn::Set(bytes, uint8_t(G::kUnlike));
  for (int x = 0; x < n; x += lanes) {
    const uint8_t* const band = rows[kAround]->code[3] + kAround + x;
    if (std::all_of(band, band + std::min(lanes, n - x), [](uint8_t o) { return o != 0; }))
      continue;
    decltype(hn::LoadU(bytes, band)) own[3];
    for (int k = 0; k < 3; k++) own[k] = hn::LoadU(bytes, rows[kAround]->code[k] + kAround + x);
    auto sum = hn::Zero(d), weights = hn::Zero(d);
    for (int j = 0; j < kComparedRows; j++)
      for (int i = j % 2; i < kComparedRows; i += 2) {
        auto difference = hn::LoadU(bytes, rows[j]->code[3] + x + i);
        for (int k = 0; k < 3; k++) {
          const auto other = hn::LoadU(bytes, rows[j]->code[k] + x + i);
          difference =
              hn::SaturatedAdd(difference, hn::Sub(hn::Max(own[k], other), hn::Min(own[k], other)));
        }
        auto w = hn::ConvertTo(d, hn::PromoteTo(ints, hn::SaturatedSub(unlike, difference)));
        w = hn::Mul(w, w);
        w = hn::Mul(w, w);
        sum = hn::MulAdd(w, hn::LoadU(d, rows[j]->ratio + x + i), sum);
        weights = hn::Add(weights, w);
      }
    const auto prior = hn::ConvertTo(
        d, hn::PromoteTo(ints, hn::LoadU(hn::Rebind<int16_t, decltype(d)>(), x_of + x)));
    const auto moved = hn::MulAdd(shift, hn::Sub(full, hn::Abs(prior)), prior);
    // Lanes that do not vote have no weights, and are not used.
    hn::StoreU(hn::MulAdd(trust, moved, hn::Mul(vote, hn::Div(sum, hn::Max(weights, minimum)))), d,
               out + x);
  }
}

size_t matte(const GuidedColorsFrame& v, int y0, int y1, char* memory) {
  const GuidedColors& c = v.task.colors;
  const hn::ScalableTag<float> d;
  const int n = c.width, lanes = int(hn::Lanes(d));
  Arena arena(memory);
  float* const logit = arena.take<float>(n + 64);
  float* const column = arena.take<float>(n + 2);
  int16_t* const x_of = arena.take<int16_t>(n + 64);
  const Narrowed narrowed(v);
  ComparedRow ring[kComparedRows];
  for (ComparedRow& r : ring) {
    r.ratio = arena.take<float>(n + 2 * kAround + 64);
    for (uint8_t*& p : r.code) p = arena.take<uint8_t>(n + 2 * kAround + 64);
  }
  if (y0 >= y1) return arena.used();
  for (const ComparedRow& r : ring) {
    std::fill_n(r.ratio, n + 2 * kAround + 64, 0.0f);
    for (uint8_t* p : r.code) std::fill_n(p, n + 2 * kAround + 64, uint8_t(0));
  }
  std::fill_n(logit, n + 64, 0.0f);
  const int begin = kCell * y0, end = std::min(kCell * y1, c.height);
  const auto row_of = [&](int y) -> ComparedRow& {
    return ring[(y + kComparedRows) % kComparedRows];
  };
  for (int y = begin - kAround; y < begin + kAround; y++) compare_row(v, y, row_of(y));
  for (int y = begin; y < end; y++) {
    compare_row(v, y + kAround, row_of(y + kAround));
    const ComparedRow* rows[kComparedRows];
    for (int j = 0; j < kComparedRows; j++) rows[j] = &row_of(y - kAround + j);
    const size_t at = size_t(y) * n;
    for (int x = 0; x < n; x++) x_of[x] = narrowed(v.prior[at + x]);
    alike_row(v, x_of, rows, logit);
    const auto one = hn::Set(d, 1.0f), full = hn::Set(d, 255.0f), half = hn::Set(d, 0.5f);
    for (int x = 0; x < n; x += lanes) {
      const auto e = hn::Exp(d, hn::Neg(hn::LoadU(d, logit + x)));
      hn::StoreU(hn::MulAdd(hn::Div(one, hn::Add(one, e)), full, half), d, logit + x);
    }
    const int top = std::max(y - 1, 0), bottom = std::min(y + 1, c.height - 1);
    for (int x = 0; x < n; x++) {
      const int own = x_of[x];
      v.matte[at + x] = std::abs(own) < G::kOne ? uint8_t(logit[x]) : own > 0 ? 255 : 0;
      v.side[at + x] = own > 0 ? 64 : 0;
      column[1 + x] = 0;
      for (int j = top; j <= bottom; j++)
        column[1 + x] += narrowed.in_band(v.prior[size_t(j) * n + x]);
    }
    column[0] = column[n + 1] = 0;
    for (int x = 0; x < n; x++)
      v.outside[at + x] = column[x] + column[x + 1] + column[x + 2] == 0 ? 64 : 0;
  }
  return arena.used();
}

// ---- what is sure of a side ---------------------------------------------------------------------

size_t sure(const GuidedColorsFrame& v, int y0, int y1, char* memory) {
  const int n = v.task.colors.width, height = v.task.colors.height;
  Arena arena(memory);
  // These hold the extremes of three votes in a column: a sample's and those above and below it.
  // There are no votes outside of the frame.
  float* const least = arena.take<float>(n);
  float* const most = arena.take<float>(n);
  float* const none = arena.take<float>(n);
  if (y0 >= y1) return arena.used();
  std::fill_n(none, n, 0.0f);
  for (int y = y0; y < y1; y++) {
    const size_t row = size_t(y) * n;
    const uint8_t* VF_RESTRICT p = v.matte + row;
    const float* VF_RESTRICT l = v.ratio + row;
    const float *VF_RESTRICT l_up = y ? l - n : none,
                             *VF_RESTRICT l_down = y + 1 < height ? l + n : none;
    for (int x = 0; x < n; x++) {
      least[x] = std::min(std::min(l[x], l_up[x]), l_down[x]);
      most[x] = std::max(std::max(l[x], l_up[x]), l_down[x]);
    }
    const auto sure_of = [&](int off, float agrees) {
      constexpr int full = G::kFully;
      const float share = float(full) * (1 + agrees) + 0.5f;
      return uint8_t(v.error.busy * std::max(G::kSure - off, 0) *
                     int(std::min(std::max(share, 0.0f), float(full))) / (full * G::kSure));
    };
    const auto at = [&](int x) { return x >= 0 && x < n ? l[x] : 0.0f; };
    for (int x = 0; x < n; x++) {
      const float low = std::min({least[x], at(x - 1), at(x + 1)});
      const float high = std::max({most[x], at(x - 1), at(x + 1)});
      v.sure[0][row + x] = sure_of(p[x], float(G::kSteady) - (high - low));
      v.sure[1][row + x] = sure_of(255 - p[x], low);
    }
  }
  return arena.used();
}

// ---- the guided filter's samples ---------------------------------------------------------------

size_t low(const GuidedColorsFrame& v, int y0, int y1, char* memory) {
  const GuidedTask& t = v.task;
  const GuidedColors& c = t.colors;
  const int n = t.low_width, s = t.params.subsample;
  Arena arena(memory);
  const SampleRows rows = take_sample_rows(t, &arena);
  if (y0 >= y1) return arena.used();
  // Where a sample's centre lies among those of the votes, in eighths.
  const auto place = [&](int i, int count, int* fraction) {
    const int at = std::clamp((2 * i + 1) * s - G::kStep, 0, 8 * (count - 1));
    *fraction = at & 7;
    return at >> 3;
  };
  for (int y = y0; y < y1; y++) {
    const size_t row = size_t(y) * n;
    uint8_t* const out[4] = {v.low[0] + row, v.low[1] + row, v.low[2] + row, nullptr};
    samples_row(v, y, s, rows, out);
    int fy;
    const int j = place(y, c.height, &fy);
    const auto between = [&](const uint8_t* VF_RESTRICT in, uint8_t* VF_RESTRICT to) {
      const uint8_t* top = in + size_t(j) * c.width;
      const uint8_t* bottom = in + size_t(std::min(j + 1, c.height - 1)) * c.width;
      for (int x = 0; x < n; x++) {
        int fx;
        const int i = place(x, c.width, &fx), i1 = std::min(i + 1, c.width - 1);
        const int a = (8 - fx) * top[i] + fx * top[i1];
        const int b = (8 - fx) * bottom[i] + fx * bottom[i1];
        to[row + x] = uint8_t(((8 - fy) * a + fy * b + 32) >> 6);
      }
    };
    between(v.matte, v.low[3]);
    between(v.outside, v.low_outside);
    between(v.side, v.low_side);
    for (int k = 0; k < 2; k++) between(v.sure[k], v.low_sure[k]);
  }
  return arena.used();
}

size_t scratch(const GuidedColorsFrame& v) {
  size_t maximum = 0;
  for (auto* stage : {samples, sides, prior, matte, sure, low})
    maximum = std::max(maximum, stage(v, 0, 0, nullptr));
  return std::max(maximum, ratios(v, 0, 0, nullptr, nullptr));
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(scratch);
size_t votes_scratch(const GuidedColorsFrame& v) {
  return HWY_DYNAMIC_DISPATCH(scratch)(v);
}

VF_STAGE(GuidedColorsFrame, votes, samples)
VF_STAGE(GuidedColorsFrame, votes, sides)
VF_STAGE(GuidedColorsFrame, votes, prior)
VF_STAGE(GuidedColorsFrame, votes, matte)
VF_STAGE(GuidedColorsFrame, votes, sure)
VF_STAGE(GuidedColorsFrame, votes, low)

HWY_EXPORT(ratios);
void votes_ratios(const GuidedColorsFrame& v, int y0, int y1, int thread) {
  HWY_DYNAMIC_DISPATCH(ratios)(v, y0, y1, memory_of(v, thread), v.errors + thread);
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
