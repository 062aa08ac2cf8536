// These are the stages of the guided matte on the CPU, over strips of rows. The plan is in
// cpu/guided.cpp.
//
// The statistics of the windows are column sums, which a row enters and a row leaves, and then a
// prefix sum along the row, so that a window is one difference whatever its radius. The second
// means are made in the same way, and then the result. 8-bit sums are 32-bit integers, exact modulo
// 2^32 for windows to 257 x 257 and re-centred on the window's mean before anything is rounded.
// Other sums are in double precision.
//
// The loops are plain ones over rows of separate channels, which the compiler vectorises for each
// of Highway's targets.
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/guided_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/guided.h"
#include "cpu/guided_layers-inl.h"
#include "cpu/guided_load-inl.h"
#include "filters/guided_task.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

// Loads guide and mask of row y of the samples, as they are in memory.
template <class T, class Out>
void load_samples(const GuidedFrame& f, int y, Out* const out[4]) {
  const GuidedTask& t = f.task;
  if (f.low[0]) {
    for (int c = 0; c < 4; c++)
      std::copy_n(f.low[c] + size_t(y) * t.low_width, t.low_width, out[c]);
    return;
  }
  const int s = t.params.subsample, n = t.low_width;
  const int at = std::min(y * s + s / 2, t.height - 1), last = t.width - 1;
  for (int c = 0; c < 3; c++) {
    if (c < t.from.colors)
      load<T>(f.src, t.from.color[c], at, std::min(s / 2, last), s, last, n, out[c]);
    else
      std::fill_n(out[c], n, Out(0));
  }
  switch (t.params.mask) {
    case MatteMask::alpha:
      return load<T>(f.src, t.from.alpha, at, std::min(s / 2, last), s, last, n, out[3]);
    case MatteMask::chroma_key:
      return key<T>(t, out, n, out[3]);
    case MatteMask::external:
      return mask_row<T>(t, f.mask, 2 * at + 1, 2 * (s / 2) + 1, 2 * s, 2 * last + 1, n, out[3]);
  }
}

// Solves (C + e) a = p for a symmetric positive C by LDL^T. The caller gives c = rr rg rb gg gb bb
// rp gp bp.
template <class F>
inline void solve(const F c[9], F e, F a[3]) {
  const F i1 = 1 / (c[0] + e), l21 = c[1] * i1, l31 = c[2] * i1;
  const F i2 = 1 / (c[3] + e - l21 * c[1]), u = c[4] - l21 * c[2], l32 = u * i2;
  const F d3 = c[5] + e - l31 * c[2] - l32 * u;
  const F y2 = c[7] - l21 * c[6], y3 = c[8] - l31 * c[6] - l32 * y2;
  a[2] = y3 / d3;
  a[1] = y2 * i2 - l32 * a[2];
  a[0] = c[6] * i1 - l21 * a[1] - l31 * a[2];
}

constexpr int kFirst[9] = {0, 0, 0, 1, 1, 2, 0, 1, 2}, kSecond[9] = {0, 1, 2, 1, 2, 2, 3, 3, 3};

// Finds the coefficients, for values relative to the middle, from a row of prefix sums.
void solve_row(const uint32_t* const VF_RESTRICT prefix[kGuidedMoments], int n, int window,
               int rows, const float* VF_RESTRICT inverse, float epsilon, float scale,
               float midpoint, float* const VF_RESTRICT out[4]) {
  const float per_row = 1.0f / rows, unit = 1 / scale, mid = midpoint * scale;
  float *VF_RESTRICT o0 = out[0], *VF_RESTRICT o1 = out[1], *VF_RESTRICT o2 = out[2],
                     *VF_RESTRICT o3 = out[3];
  for (int x = 0; x < n; x++) {
    const float in = inverse[x] * per_row;
    const int count = int(1 / in + 0.5f);
    uint32_t v[kGuidedMoments];
    for (int k = 0; k < kGuidedMoments; k++) v[k] = prefix[k][x + window] - prefix[k][x];
    // The rounded mean m and what the sum has beyond it are exact, and so are products about m.
    int m[4], rest[4];
    float mean[4];
    for (int k = 0; k < 4; k++) {
      m[k] = int(float(int(v[k])) * in + 0.5f);
      rest[k] = int(v[k]) - count * m[k];
      mean[k] = float(m[k]) + float(rest[k]) * in - mid;
    }
    float c[9], a[3];
    for (int k = 0; k < 9; k++) {
      const int i = kFirst[k], j = kSecond[k];
      const int about = int(v[4 + k] - uint32_t(m[j]) * v[i] - uint32_t(m[i] * rest[j]));
      c[k] = (float(about) - float(rest[i]) * in * float(rest[j])) * in;
    }
    solve(c, epsilon, a);
    o0[x] = a[0];
    o1[x] = a[1];
    o2[x] = a[2];
    o3[x] = (mean[3] + mid - a[0] * mean[0] - a[1] * mean[1] - a[2] * mean[2]) * unit;
  }
}

void solve_row(const double* const VF_RESTRICT prefix[kGuidedMoments], int n, int window, int rows,
               const float* VF_RESTRICT inverse, double epsilon, double scale, double midpoint,
               float* const VF_RESTRICT out[4]) {
  const double mid = midpoint * scale, unit = 1 / scale;
  for (int x = 0; x < n; x++) {
    const double in = 1 / (double(int(1 / inverse[x] + 0.5f)) * rows);
    double v[kGuidedMoments];
    for (int k = 0; k < kGuidedMoments; k++) v[k] = (prefix[k][x + window] - prefix[k][x]) * in;
    double c[9], a[3];
    for (int k = 0; k < 9; k++) c[k] = v[4 + k] - v[kFirst[k]] * v[kSecond[k]];
    solve(c, epsilon, a);
    for (int k = 0; k < 3; k++) out[k][x] = float(a[k]);
    for (int k = 0; k < 3; k++) v[k] -= mid;
    out[3][x] = float((v[3] - a[0] * v[0] - a[1] * v[1] - a[2] * v[2]) * unit);
  }
}

// Makes means of the guide over 3 x 3 samples, of which `rows` rows are in the frame.
template <class In>
void near_row(In* const row[3][4], int rows, int n, float inv_scale, float* const out[3]) {
  for (int k = 0; k < 3; k++)
    for (int x = 0; x < n; x++) {
      const int first = std::max(x - 1, 0), last = std::min(x + 1, n - 1);
      float sum = 0;
      for (int j = 0; j < rows; j++)
        for (int i = first; i <= last; i++) sum += float(row[j][k][i]);
      out[k][x] = sum * inv_scale / float(rows * (last - first + 1));
    }
}

// Blends with the previous frames where the guide stands still. The row's first sample is at `at`.
void hold_row(const GuidedFrame& f, size_t at, int n, float* const VF_RESTRICT now[4]) {
  constexpr float moved_at = float(GuidedParams::kMoved);
  constexpr float slope = float(1 / (GuidedParams::kMoved - GuidedParams::kStill));
  const float temporal = float(f.task.params.temporal);
  for (int x = 0; x < n; x++) {
    float moved = 0;
    for (int k = 0; k < 3; k++)
      moved = std::max(moved, std::abs(f.near[k][at + x] - f.previous[4 + k][at + x]));
    const float keep = f.fresh ? 0.0f : temporal * clamp01((moved_at - moved) * slope);
    for (int k = 0; k < 7; k++) {
      const float current = k < 4 ? now[k][x] : f.near[k - 4][at + x];
      float& old = f.previous[k][at + x];
      old = keep > 0 ? current + keep * (old - current) : current;
      if (k < 4) now[k][x] = old;
    }
  }
}

template <class In, class Sum>
inline void enter(const In* const VF_RESTRICT r[4], int n,
                  Sum* const VF_RESTRICT sum[kGuidedMoments], Sum sign) {
  for (int k = 0; k < 4; k++) {
    const In* VF_RESTRICT a = r[k];
    Sum* VF_RESTRICT s = sum[k];
    for (int x = 0; x < n; x++) s[x] += sign * Sum(a[x]);
  }
  for (int k = 0; k < 9; k++) {
    const In *VF_RESTRICT a = r[kFirst[k]], *VF_RESTRICT b = r[kSecond[k]];
    Sum* VF_RESTRICT s = sum[4 + k];
    // 8-bit values are held in 16 bits, where their products fit and multiply fastest.
    if constexpr (std::is_same_v<In, uint16_t>)
      for (int x = 0; x < n; x++) s[x] += sign * Sum(In(a[x] * b[x]));
    else
      for (int x = 0; x < n; x++) s[x] += sign * (Sum(a[x]) * Sum(b[x]));
  }
}

// Makes prefix sums, with r + 1 zeros before them and the total repeated r times after.
template <class In, class Sum, int count>
void prefix_rows(const In* const VF_RESTRICT in[count], int n, int r,
                 Sum* const VF_RESTRICT out[count]) {
  Sum total[count] = {};
  for (int k = 0; k < count; k++) std::fill_n(out[k], r + 1, Sum(0));
  for (int x = 0; x < n; x++)
    for (int k = 0; k < count; k++) out[k][r + 1 + x] = total[k] += Sum(in[k][x]);
  for (int k = 0; k < count; k++) std::fill_n(out[k] + r + 1 + n, r, total[k]);
}

// T: the component's type; In: how samples are held; Sum: how they are added up.
template <class T, class In, class Sum>
size_t statistics_of(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedTask& t = f.task;
  const int n = t.low_width, r = t.low_radius;
  Arena arena(memory);
  In* row[4];
  Sum *sum[kGuidedMoments], *prefix[kGuidedMoments];
  float* out[4];
  In* near[3][4] = {};
  const bool temporal = f.previous[0] != nullptr;
  for (In*& p : row) p = arena.take<In>(n);
  for (Sum*& p : sum) p = arena.take<Sum>(n);
  for (Sum*& p : prefix) p = arena.take<Sum>(n + 2 * r + 1);
  for (float*& p : out) p = arena.take<float>(n);
  if (temporal)
    for (auto& r3 : near)
      for (In*& p : r3) p = arena.take<In>(n);
  if (y0 >= y1) return arena.used();

  const double scale = f.low[0] ? 255 : t.scale, epsilon = t.params.epsilon * scale * scale;
  for (Sum* p : sum) std::fill_n(p, n, Sum(0));
  const int first = std::max(0, y0 - r);
  for (int y = first; y < std::min(y0 + r, t.low_height); y++) {
    load_samples<T>(f, y, row);
    enter<In, Sum>(row, n, sum, Sum(1));
  }
  for (int y = y0; y < y1; y++) {
    if (y + r < t.low_height) {
      load_samples<T>(f, y + r, row);
      enter<In, Sum>(row, n, sum, Sum(1));
    }
    if (y - r - 1 >= first) {
      load_samples<T>(f, y - r - 1, row);
      enter<In, Sum>(row, n, sum, Sum(-1));
    }
    prefix_rows<Sum, Sum, kGuidedMoments>(sum, n, r, prefix);
    const int rows = std::min(y + r, t.low_height - 1) - std::max(y - r, 0) + 1;
    const size_t at = size_t(y) * n;
    solve_row(prefix, n, 2 * r + 1, rows, f.inverse_count, epsilon, scale, f.midpoint, out);
    if (temporal) {
      int count = 0;
      for (int j = std::max(y - 1, 0); j <= std::min(y + 1, t.low_height - 1); j++)
        load_samples<T>(f, j, near[count++]);
      float* const to[3] = {f.near[0] + at, f.near[1] + at, f.near[2] + at};
      near_row<In>(near, count, n, float(1 / scale), to);
    }
    for (int k = 0; k < 4; k++) std::copy_n(out[k], n, f.ab[k] + at);
  }
  return arena.used();
}

size_t statistics(const GuidedFrame& f, int y0, int y1, char* memory) {
  const Type type = f.low[0] ? Type::u8 : f.task.source.type;
  if (type == Type::u8 && f.exact_sums)
    return statistics_of<uint8_t, uint16_t, uint32_t>(f, y0, y1, memory);
  return with_component(
      type, [&](auto t) { return statistics_of<decltype(t), float, double>(f, y0, y1, memory); });
}

// Writes a row in one pass where the components are bytes of words and only the alpha changes. top
// and bottom have the coefficients of the samples above and below, at each pixel.
void apply_packed(const GuidedFrame& f, int y, const float* const VF_RESTRICT top[4],
                  const float* const VF_RESTRICT bottom[4], float weight) {
  const GuidedTask& t = f.task;
  const auto* VF_RESTRICT src = static_cast<const uint8_t*>(f.src.data[0]) + y * f.src.stride[0];
  auto* dst = static_cast<uint8_t*>(f.dst.data[0]) + y * f.dst.stride[0];
  const int s0 = 8 * t.from.color[0].channel, s1 = 8 * t.from.color[1].channel;
  const int s2 = 8 * t.from.color[2].channel, s3 = 8 * t.from.alpha.channel;
  const uint32_t keep = ~(0xffu << s3);
  const float scale = 1 / float(t.scale), full = float(t.scale), midpoint = f.midpoint;
  const float *VF_RESTRICT t0 = top[0], *VF_RESTRICT t1 = top[1], *VF_RESTRICT t2 = top[2],
                           *VF_RESTRICT t3 = top[3], *VF_RESTRICT b0 = bottom[0],
                           *VF_RESTRICT b1 = bottom[1], *VF_RESTRICT b2 = bottom[2],
                           *VF_RESTRICT b3 = bottom[3];
  const int n = t.width;
  constexpr int kChunk = 256;  // words on the stack, so that the loop has no aliasing to fear
  uint32_t words[kChunk];
  for (int x0 = 0; x0 < n; x0 += kChunk) {
    const int m = std::min(kChunk, n - x0);
    std::memcpy(words, src + 4 * size_t(x0), 4 * size_t(m));
    for (int i = 0; i < m; i++) {
      const int x = x0 + i;
      const uint32_t p = words[i];
      const float r = float(int(p >> s0 & 255)) * scale - midpoint;
      const float g = float(int(p >> s1 & 255)) * scale - midpoint;
      const float b = float(int(p >> s2 & 255)) * scale - midpoint;
      const float q = (t0[x] + weight * (b0[x] - t0[x])) * r +
                      (t1[x] + weight * (b1[x] - t1[x])) * g +
                      (t2[x] + weight * (b2[x] - t2[x])) * b + (t3[x] + weight * (b3[x] - t3[x]));
      words[i] = (p & keep) | uint32_t(int(clamp01(q) * full + 0.5f)) << s3;
    }
    std::memcpy(dst + 4 * size_t(x0), words, 4 * size_t(m));
  }
}

void matte_row(int n, float midpoint, const float* const VF_RESTRICT top[4],
               const float* const VF_RESTRICT bottom[4], float weight,
               const float* const VF_RESTRICT guide[3], float* VF_RESTRICT q) {
  for (int x = 0; x < n; x++) {
    float v = top[3][x] + weight * (bottom[3][x] - top[3][x]);
    for (int k = 0; k < 3; k++)
      v += (top[k][x] + weight * (bottom[k][x] - top[k][x])) * (guide[k][x] - midpoint);
    q[x] = clamp01(v);
  }
}

// Writes values over full scale, rounded and clamped for integers.
template <class T>
void store(const GuidedTask& t, const Image& image, const Component& c, int plane_row, int n,
           const float* VF_RESTRICT v) {
  const PlaneLayout& p = image.layout.plane[c.plane];
  T* row = row_of<T>(image, c.plane, plane_row) + c.channel;
  const int step = p.pixel_step();
  if constexpr (std::is_same_v<T, float>) {
    for (int x = 0; x < n; x++) row[size_t(x) * step] = v[x];
  } else {
    const float codes = float(t.scale / t.unit);
    const int unit = t.unit;
    for (int x = 0; x < n; x++) row[size_t(x) * step] = T(int(clamp01(v[x]) * codes + 0.5f) * unit);
  }
}

struct ApplyRows {
  int first = 0, count = 0;  // rows of the frame, a whole cell of subsampled planes
  float* guide[8][3] = {};
  float* matte[8] = {};
  float *mean = nullptr, *out = nullptr, *part[3] = {};  // one row
  LayerRows layers;
};

template <class T>
void load_guide(const GuidedFrame& f, int y, float* const out[3]) {
  const GuidedTask& t = f.task;
  const float scale = float(1 / t.scale);
  for (int c = 0; c < 3; c++) {
    if (c >= t.from.colors) {
      std::fill_n(out[c], t.width, 0.0f);
      continue;
    }
    load<T>(f.src, t.from.color[c], y, 0, 1, t.width - 1, t.width, out[c]);
    float* VF_RESTRICT o = out[c];
    if (!std::is_same_v<T, float>)
      for (int x = 0; x < t.width; x++) o[x] *= scale;
  }
}

// Makes the matte's mean at each sample of a row of a plane, over `count` rows of width pixels.
void mean_row(const float* const* matte, int count, const PlaneLayout& l, int width,
              float* VF_RESTRICT mean) {
  int x = 0;
  if (l.sub_x == 1 && count == 2) {
    const float *VF_RESTRICT a = matte[0], *VF_RESTRICT b = matte[1];
    for (; x < width / 2; x++)
      mean[x] = (a[2 * x] + a[2 * x + 1] + b[2 * x] + b[2 * x + 1]) * 0.25f;
  }
  for (; x < l.width; x++) {
    const int x0 = x << l.sub_x, x1 = std::min(width, x0 + (1 << l.sub_x));
    float sum = 0;
    for (int j = 0; j < count; j++)
      for (int i = x0; i < x1; i++) sum += matte[j][i];
    mean[x] = sum / float(count * (x1 - x0));
  }
}

// Writes colours and alpha of a cell's rows, after everything that they depend on was read.
template <class T>
void write_rows(const GuidedFrame& f, const ApplyRows& rows, LayerRows* layers) {
  const GuidedTask& t = f.task;
  const GuidedParams& p = t.params;
  const float ground = float(p.background_alpha);
  // The colours stay as and where they are.
  bool as_they_are =
      p.output == MatteOutput::alpha && p.despill == 0 && !t.converts && !t.layers.estimates;
  for (int c = 0; c < t.to.colors; c++) {
    const Component &a = t.from.color[c], &b = t.to.color[c];
    as_they_are = as_they_are && f.src.data[a.plane] == f.dst.data[b.plane] && a.plane == b.plane &&
                  a.channel == b.channel;
  }
  float m[2][4] = {};
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 3; k++) {
      m[i][k] = float(p.to_ycbcr[1 + i][k]);
      m[i][3] -= float(p.to_ycbcr[1 + i][k] * p.black[k]);
    }
  const float h0 = float(t.hue[0]), h1 = float(t.hue[1]);
  // Makes colour c of row y of a plane, in the source's colour space.
  const auto make = [&](int c, int y, const PlaneLayout& l, const float* VF_RESTRICT q,
                        float* VF_RESTRICT o) {
    const float black = float(p.black[c]), white = float(p.white[c]), back = float(p.background[c]);
    const float spill = float(p.despill * t.spill[c]);
    const float* seen[3] = {rows.guide[y][0], rows.guide[y][1], rows.guide[y][2]};
    const int n = l.width;
    int shift = l.sub_x;
    if (t.layers.estimates) {
      foreground_row(f, layers, rows.first + y, l, q, seen);
      std::copy_n(layers->colors, 3, seen);
      shift = 0;
    }
    const float *r = seen[0], *g = seen[1], *b = seen[2];
    every(shift, seen[c], 0, n, o);
    for (int x = 0; x < n && spill != 0; x++) {
      const int at = x << shift;
      const float cb = m[0][0] * r[at] + m[0][1] * g[at] + m[0][2] * b[at] + m[0][3];
      const float cr = m[1][0] * r[at] + m[1][1] * g[at] + m[1][2] * b[at] + m[1][3];
      o[x] -= spill * std::max(0.0f, cb * h0 + cr * h1 - std::abs(cb * h1 - cr * h0));
    }
    switch (p.output) {
      case MatteOutput::alpha:
        break;
      case MatteOutput::premultiplied:
        for (int x = 0; x < n; x++) o[x] = black + (o[x] - black) * q[x];
        break;
      case MatteOutput::matte:
        for (int x = 0; x < n; x++) o[x] = black + (white - black) * q[x];
        break;
      case MatteOutput::composite:
        if (t.layers.blurs) {
          over_blur(f, *layers, rows.first + y, l.sub_x, n, c, q, o);
          break;
        }
        for (int x = 0; x < n; x++) {
          const float under = ground * (1 - q[x]), a = q[x] + under;
          o[x] = a > 0 ? (o[x] * q[x] + back * under) / a : back;
        }
        break;
    }
  };
  for (int y = 0; y < rows.count && t.converts; y++) {
    const PlaneLayout& l = f.dst.layout.plane[t.to.color[0].plane];
    for (int c = 0; c < 3; c++) make(c, y, l, rows.matte[y], rows.part[c]);
    const float *VF_RESTRICT r = rows.part[0], *VF_RESTRICT g = rows.part[1],
                             *VF_RESTRICT b = rows.part[2];
    for (int c = 0; c < 3; c++) {
      const float m0 = float(p.convert[c][0]), m1 = float(p.convert[c][1]),
                  m2 = float(p.convert[c][2]), offset = float(p.convert[c][3]);
      float* VF_RESTRICT o = rows.out;
      for (int x = 0; x < l.width; x++) o[x] = m0 * r[x] + m1 * g[x] + m2 * b[x] + offset;
      store<T>(t, f.dst, t.to.color[c], rows.first + y, l.width, o);
    }
  }
  for (int c = 0; c < t.to.colors && !as_they_are && !t.converts; c++) {
    const Component& to = t.to.color[c];
    const PlaneLayout& l = f.dst.layout.plane[to.plane];
    for (int y = 0; y < rows.count; y += 1 << l.sub_y) {
      const float* q = rows.matte[y];
      if (l.sub_x || l.sub_y) {
        mean_row(&rows.matte[y], std::min(1 << l.sub_y, rows.count - y), l, t.width, rows.mean);
        q = rows.mean;
      }
      make(c, y, l, q, rows.out);
      store<T>(t, f.dst, to, (rows.first + y) >> l.sub_y, l.width, rows.out);
    }
  }
  for (int y = 0; y < rows.count && t.to.alpha.plane >= 0; y++) {
    const float* VF_RESTRICT q = rows.matte[y];
    float* VF_RESTRICT o = rows.out;
    if (p.output == MatteOutput::matte && t.to.colors)
      std::fill_n(o, t.width, 1.0f);
    else if (p.output == MatteOutput::composite)
      for (int x = 0; x < t.width; x++) o[x] = q[x] + ground * (1 - q[x]);
    else
      std::copy_n(q, t.width, o);
    store<T>(t, f.dst, t.to.alpha, rows.first + y, t.width, o);
  }
}

void take_rows(const GuidedFrame& f, Arena* arena, ApplyRows* rows) {
  const int n = f.task.width;
  if (f.packed_alpha) return;
  for (int y = 0; y < 8; y++) {
    for (float*& p : rows->guide[y]) p = arena->take<float>(n);
    rows->matte[y] = arena->take<float>(n);
  }
  rows->mean = arena->take<float>(n);
  rows->out = arena->take<float>(n);
  if (f.task.converts)
    for (float*& p : rows->part) p = arena->take<float>(n);
  take_layer_rows(f, arena, &rows->layers);
}

// Takes a row's coefficients, and writes the result when a cell of subsampled planes is whole.
void finish_row(const GuidedFrame& f, int y, int end, int cell, const float* const top[4],
                const float* const bottom[4], float weight, ApplyRows* rows) {
  if (f.packed_alpha) {
    apply_packed(f, y, top, bottom, weight);
    return;
  }
  if (rows->count == 0) rows->first = y;
  const int at = rows->count++;
  const Type type = f.task.source.type;
  with_component(type, [&](auto t) { load_guide<decltype(t)>(f, y, rows->guide[at]); });
  matte_row(f.task.width, f.midpoint, top, bottom, weight, rows->guide[at], rows->matte[at]);
  if (rows->count < cell && y + 1 < end) return;
  with_component(type, [&](auto t) { write_rows<decltype(t)>(f, *rows, &rows->layers); });
  rows->count = 0;
}

int cell_rows(const GuidedTask& t) {
  int cell = 1;
  for (int p = 0; p < t.destination.planes; p++)
    cell = std::max(cell, 1 << t.destination.plane[p].sub_y);
  for (int p = 0; p < t.source.planes; p++) cell = std::max(cell, 1 << t.source.plane[p].sub_y);
  return cell;
}

// With refine=colors, samples that are sure of a side take it where the matte round them agrees,
// and the mask's side is the matte far from the band. The row `q` is for the matte round them.
void sides_row(const GuidedFrame& f, int y, float* const VF_RESTRICT mean[4],
               float* VF_RESTRICT q) {
  const int n = f.task.low_width;
  const size_t at = size_t(y) * n, above = y ? n : 0, below = y + 1 < f.task.low_height ? n : 0;
  std::copy_n(mean[3], n, q);
  for (int k = 0; k < 3; k++) {
    const uint8_t *VF_RESTRICT own = f.low[k] + at, *VF_RESTRICT up = own - above,
                               *VF_RESTRICT down = own + below;
    const float* VF_RESTRICT m = mean[k];
    const auto add = [&](int x, int left, int right) {
      const int sum = own[x] + up[x] + down[x] + own[left] + own[right];
      q[x] += m[x] * (float(sum) * (1.0f / (5 * 255)) - f.midpoint);
    };
    add(0, 0, std::min(1, n - 1));
    for (int x = 1; x < n - 1; x++) add(x, x - 1, x + 1);
    if (n > 1) add(n - 1, n - 2, n - 1);
  }
  const uint8_t *VF_RESTRICT outside = f.outside + at, *VF_RESTRICT side = f.side + at;
  const uint8_t *VF_RESTRICT behind = f.sure[0] + at, *VF_RESTRICT subject = f.sure[1] + at;
  constexpr float slope[2] = {float(1 / GuidedColors::kCertain[0]),
                              float(1 / GuidedColors::kCertain[1])};
  constexpr float unit = 1.0f / GuidedColors::kFully;
  float *VF_RESTRICT a0 = mean[0], *VF_RESTRICT a1 = mean[1], *VF_RESTRICT a2 = mean[2],
                     *VF_RESTRICT b = mean[3];
  for (int x = 0; x < n; x++) {
    const float taken[2] = {unit * float(behind[x]) * clamp01(2 - slope[0] * q[x]),
                            unit * float(subject[x]) * clamp01(2 - slope[1] * (1 - q[x]))};
    const float out = unit * float(outside[x]), in = 1 - out;
    const float kept = in * (1 - taken[0] - taken[1]);
    a0[x] *= kept;
    a1[x] *= kept;
    a2[x] *= kept;
    b[x] = b[x] * kept + in * taken[1] + out * unit * float(side[x]);
  }
}

size_t means(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedTask& t = f.task;
  const int n = t.low_width, r = t.low_radius;
  const bool last = !f.mean[0];
  Arena arena(memory);
  double *sum[4], *prefix[4];
  float* row[5];
  ApplyRows rows;
  for (double*& p : sum) p = arena.take<double>(n);
  for (double*& p : prefix) p = arena.take<double>(n + 2 * r + 1);
  for (float*& p : row) p = arena.take<float>(n);
  if (last) take_rows(f, &arena, &rows);
  if (y0 >= y1) return arena.used();

  const int cell = cell_rows(t), first = std::max(0, y0 - r);
  for (int k = 0; k < 4; k++) {
    double* VF_RESTRICT s = sum[k];
    std::fill_n(s, n, 0.0);
    for (int y = first; y < std::min(y0 + r, t.low_height); y++) {
      const float* VF_RESTRICT in = f.ab[k] + size_t(y) * n;
      for (int x = 0; x < n; x++) s[x] += double(in[x]);
    }
  }
  for (int y = y0; y < y1; y++) {
    for (int k = 0; k < 4; k++) {
      double* VF_RESTRICT s = sum[k];
      if (y + r < t.low_height) {
        const float* VF_RESTRICT in = f.ab[k] + size_t(y + r) * n;
        for (int x = 0; x < n; x++) s[x] += double(in[x]);
      }
      if (y - r - 1 >= first) {
        const float* VF_RESTRICT in = f.ab[k] + size_t(y - r - 1) * n;
        for (int x = 0; x < n; x++) s[x] -= double(in[x]);
      }
    }
    prefix_rows<double, double, 4>(sum, n, r, prefix);
    const float per_row = 1.0f / (std::min(y + r, t.low_height - 1) - std::max(y - r, 0) + 1);
    const auto o_of = [&](int k) { return last ? row[k] : f.mean[k] + size_t(y) * f.low_pitch; };
    for (int k = 0; k < 4; k++) {
      float* VF_RESTRICT o = o_of(k);
      const double* VF_RESTRICT p = prefix[k];
      const float* VF_RESTRICT inverse = f.inverse_count;
      for (int x = 0; x < n; x++) o[x] = float(p[x + 2 * r + 1] - p[x]) * inverse[x] * per_row;
    }
    if (f.outside) {
      float* const means[4] = {o_of(0), o_of(1), o_of(2), o_of(3)};
      sides_row(f, y, means, row[4]);
    }
    if (f.previous[0]) {
      float* now[4];
      for (int k = 0; k < 4; k++) now[k] = o_of(k);
      hold_row(f, size_t(y) * n, n, now);
    }
    if (!last)
      for (int k = 0; k < 4; k++)
        f.mean[k][size_t(y) * f.low_pitch + n] = f.mean[k][size_t(y) * f.low_pitch + n - 1];
    if (last) finish_row(f, y, y1, cell, row, row, 0, &rows);
  }
  return arena.used();
}

size_t apply(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedTask& t = f.task;
  const int n = t.width;
  Arena arena(memory);
  float* wide[2][4];  // two rows of samples at the frame's width, which serve `subsample` rows
  ApplyRows rows;
  for (auto& w : wide)
    for (float*& p : w) p = arena.take<float>(n);
  take_rows(f, &arena, &rows);
  if (y0 >= y1) return arena.used();

  const int cell = cell_rows(t);
  int held[2] = {-1, -1};
  const double s = t.params.subsample;
  for (int y = y0; y < y1; y++) {
    const double v = std::min(std::max((y + 0.5) / s - 0.5, 0.0), t.low_height - 1.0);
    const int j = int(v), need[2] = {j, std::min(j + 1, t.low_height - 1)};
    for (const int low : need) {
      if (held[low & 1] == low) continue;
      held[low & 1] = low;
      const int* VF_RESTRICT left = f.left;
      const float* VF_RESTRICT weight = f.weight;
      for (int k = 0; k < 4; k++) {
        const float* VF_RESTRICT in = f.mean[k] + size_t(low) * f.low_pitch;
        float* VF_RESTRICT out = wide[low & 1][k];
        for (int x = 0; x < n; x++) {
          const float a = in[left[x]];
          out[x] = a + weight[x] * (in[left[x] + 1] - a);
        }
      }
    }
    finish_row(f, y, y1, cell, wide[need[0] & 1], wide[need[1] & 1], float(v - j), &rows);
  }
  return arena.used();
}

size_t scratch(const GuidedFrame& f) {
  return std::max({statistics(f, 0, 0, nullptr), means(f, 0, 0, nullptr), apply(f, 0, 0, nullptr)});
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(scratch);
size_t guided_scratch(const GuidedFrame& f) {
  return HWY_DYNAMIC_DISPATCH(scratch)(f);
}

VF_STAGE(GuidedFrame, guided, statistics)
VF_STAGE(GuidedFrame, guided, means)
VF_STAGE(GuidedFrame, guided, apply)

}  // namespace vf::cpu
#endif  // HWY_ONCE
