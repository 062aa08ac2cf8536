// Guided matte on the CPU.
//
// Three passes over strips of rows, shared among threads: statistics of the windows (column sums
// that a row enters and a row leaves, then a prefix sum along the row, so that a window is one
// difference whatever its radius), second means in the same way, and the result. 8-bit sums are
// 32-bit integers, exact modulo 2^32 for windows to 257 x 257 and re-centred on the window's mean
// before anything is rounded; other sums are in double precision.
//
// The loops are plain ones over rows of separate channels, which the compiler vectorises for each
// of Highway's targets.
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/guided.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/filters.h"
#include "cpu/guided.h"
#include "cpu/guided_colors.h"
#include "cpu/guided_layers-inl.h"
#include "cpu/guided_load-inl.h"
#include "cpu/queue.h"
#include "filters/guided_task.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

inline char* scratch_of(const GuidedFrame& f, int thread) {
  return f.scratch[0] + f.scratch_per_thread * thread;
}

// Guide and mask of row y of the samples, as in memory.
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

// Solves (C + e) a = p for a symmetric positive C by LDL^T, with c = rr rg rb gg gb bb rp gp bp.
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

// Coefficients, for values about the middle, from a row of prefix sums.
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

// Means of the guide over 3 x 3 samples, of which rows [top, bottom] are in the frame.
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

// Holds on to the frames before where the guide stands still. `at`: of the row's first sample.
void hold_row(const GuidedFrame& f, size_t at, int n, float* const VF_RESTRICT now[4]) {
  constexpr float moved_at = float(GuidedParams::kMoved);
  constexpr float slope = float(1 / (GuidedParams::kMoved - GuidedParams::kStill));
  const float temporal = float(f.task.params.temporal);
  for (int x = 0; x < n; x++) {
    float moved = 0;
    for (int k = 0; k < 3; k++)
      moved = std::max(moved, std::abs(f.near[k][at + x] - f.before[4 + k][at + x]));
    const float keep = f.fresh ? 0.0f : temporal * clamp01((moved_at - moved) * slope);
    for (int k = 0; k < 7; k++) {
      const float is = k < 4 ? now[k][x] : f.near[k - 4][at + x];
      float& old = f.before[k][at + x];
      old = keep > 0 ? is + keep * (old - is) : is;
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

// Prefix sums with r + 1 zeros before them and the total repeated r times after.
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
size_t statistics(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedTask& t = f.task;
  const int n = t.low_width, r = t.low_radius;
  Arena arena(memory);
  In* row[4];
  Sum *sum[kGuidedMoments], *prefix[kGuidedMoments];
  float* out[4];
  In* near[3][4] = {};
  const bool temporal = f.before[0] != nullptr;
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

size_t statistics_any(const GuidedFrame& f, int y0, int y1, char* memory) {
  switch (f.low[0] ? Type::u8 : f.task.source.type) {
    case Type::u8:
      return f.exact_sums ? statistics<uint8_t, uint16_t, uint32_t>(f, y0, y1, memory)
                          : statistics<uint8_t, float, double>(f, y0, y1, memory);
    case Type::u16:
      return statistics<uint16_t, float, double>(f, y0, y1, memory);
    default:
      return statistics<float, float, double>(f, y0, y1, memory);
  }
}

// The result of a row in one pass where the components are bytes of words and only the alpha
// changes. top, bottom: the coefficients of the samples above and below, at each pixel.
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
  T* row = const_cast<T*>(row_of<T>(image, c, plane_row << p.sub_y));
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

// The matte's mean at each sample of a row of a plane, of `count` rows of width pixels.
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

// Colours and alpha of a cell's rows, after everything they depend on was read.
template <class T>
void write_rows(const GuidedFrame& f, const ApplyRows& rows, LayerRows* layers) {
  const GuidedTask& t = f.task;
  const GuidedParams& p = t.params;
  const float ground = float(p.background_alpha);
  // and where they are
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
  // Colour c of row y of a plane, in the source's colour space.
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
    const float *r = seen[0], *g = seen[1], *b = seen[2], *own = seen[c];
    for (int x = 0; x < n; x++) {
      const int at = x << shift;
      float v = own[at];
      if (spill != 0) {
        const float cb = m[0][0] * r[at] + m[0][1] * g[at] + m[0][2] * b[at] + m[0][3];
        const float cr = m[1][0] * r[at] + m[1][1] * g[at] + m[1][2] * b[at] + m[1][3];
        v -= spill * std::max(0.0f, cb * h0 + cr * h1 - std::abs(cb * h1 - cr * h0));
      }
      o[x] = v;
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

template <class T>
void load_guide_rows(const GuidedFrame& f, const ApplyRows& rows, int y) {
  load_guide<T>(f, rows.first + y, rows.guide[y]);
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

// Gives a row's coefficients; writes the result when a cell of subsampled planes is whole.
void finish_row(const GuidedFrame& f, int y, int end, int cell, const float* const top[4],
                const float* const bottom[4], float weight, ApplyRows* rows) {
  if (f.packed_alpha) {
    apply_packed(f, y, top, bottom, weight);
    return;
  }
  if (rows->count == 0) rows->first = y;
  const int at = rows->count++;
  switch (f.task.source.type) {
    case Type::u8:
      load_guide_rows<uint8_t>(f, *rows, at);
      break;
    case Type::u16:
      load_guide_rows<uint16_t>(f, *rows, at);
      break;
    default:
      load_guide_rows<float>(f, *rows, at);
      break;
  }
  matte_row(f.task.width, f.midpoint, top, bottom, weight, rows->guide[at], rows->matte[at]);
  if (rows->count < cell && y + 1 < end) return;
  switch (f.task.source.type) {
    case Type::u8:
      write_rows<uint8_t>(f, *rows, &rows->layers);
      break;
    case Type::u16:
      write_rows<uint16_t>(f, *rows, &rows->layers);
      break;
    default:
      write_rows<float>(f, *rows, &rows->layers);
      break;
  }
  rows->count = 0;
}

int cell_rows(const GuidedTask& t) {
  int cell = 1;
  for (int p = 0; p < t.destination.planes; p++)
    cell = std::max(cell, 1 << t.destination.plane[p].sub_y);
  for (int p = 0; p < t.source.planes; p++) cell = std::max(cell, 1 << t.source.plane[p].sub_y);
  return cell;
}

// refine=colors: far from the band the mask's side is the matte. `at`: of the row's first sample.
void sides_row(const GuidedFrame& f, size_t at, int n, float* const VF_RESTRICT mean[4]) {
  const uint8_t *VF_RESTRICT outside = f.outside + at, *VF_RESTRICT side = f.side + at;
  for (int k = 0; k < 4; k++) {
    float* VF_RESTRICT m = mean[k];
    const float add = k == 3 ? 1.0f / (64 * 64) : 0.0f;
    for (int x = 0; x < n; x++)
      m[x] =
          m[x] * (1 - float(outside[x]) * (1.0f / 64)) + add * float(outside[x]) * float(side[x]);
  }
}

size_t means(const GuidedFrame& f, int y0, int y1, char* memory) {
  const GuidedTask& t = f.task;
  const int n = t.low_width, r = t.low_radius;
  const bool last = !f.mean[0];
  Arena arena(memory);
  double *sum[4], *prefix[4];
  float* row[4];
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
      sides_row(f, size_t(y) * n, n, means);
    }
    if (f.before[0]) {
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
  return std::max(
      {statistics_any(f, 0, 0, nullptr), means(f, 0, 0, nullptr), apply(f, 0, 0, nullptr)});
}

void statistics_rows(const GuidedFrame& f, int y0, int y1, int thread) {
  statistics_any(f, y0, y1, scratch_of(f, thread));
}
void means_rows(const GuidedFrame& f, int y0, int y1, int thread) {
  means(f, y0, y1, scratch_of(f, thread));
}
void apply_rows(const GuidedFrame& f, int y0, int y1, int thread) {
  apply(f, y0, y1, scratch_of(f, thread));
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(scratch);
HWY_EXPORT(statistics_rows);
HWY_EXPORT(means_rows);
HWY_EXPORT(apply_rows);

size_t guided_scratch(const GuidedFrame& f) {
  return HWY_DYNAMIC_DISPATCH(scratch)(f);
}
void guided_statistics(const GuidedFrame& f, int y0, int y1, int thread) {
  HWY_DYNAMIC_DISPATCH(statistics_rows)(f, y0, y1, thread);
}
void guided_means(const GuidedFrame& f, int y0, int y1, int thread) {
  HWY_DYNAMIC_DISPATCH(means_rows)(f, y0, y1, thread);
}
void guided_apply(const GuidedFrame& f, int y0, int y1, int thread) {
  HWY_DYNAMIC_DISPATCH(apply_rows)(f, y0, y1, thread);
}

namespace {

// The bytes of one word, of which only the alpha changes.
bool packed_alpha(const GuidedTask& t) {
  const auto whole = [](const Layout& l, const MatteChannels& m) {
    return l.type == Type::u8 && l.planes == 1 && l.plane[0].channels == 4 &&
           l.plane[0].pixel_step() == 4 && m.colors == 3 && m.alpha.plane == 0;
  };
  if (!whole(t.source, t.from) || !whole(t.destination, t.to)) return false;
  for (int c = 0; c < 3; c++)
    if (t.from.color[c].channel != t.to.color[c].channel) return false;
  return t.params.output == MatteOutput::alpha && t.params.despill == 0 && !t.converts &&
         !t.layers.used() && t.from.alpha.channel == t.to.alpha.channel;
}

class CpuGuided final : public GuidedPlan {
 public:
  CpuGuided(CpuQueue& queue, const GuidedTask& task)
      : GuidedPlan(queue, task.source, task.destination, task.placement), pool_(queue) {
    f_.task = task;
    f_.packed_alpha = packed_alpha(task);
    votes_.task = task;
    // 257 * 257 * 255 * 255 is the largest sum of squares below 2^32.
    f_.exact_sums = (colors() || task.source.type == Type::u8) && task.low_radius <= 128;
    f_.low_pitch = task.low_width + 1;
    while (cell_ < 8 && needs_cell(2 * cell_)) cell_ *= 2;
  }

  Status prepare() {
    const GuidedTask& t = f_.task;
    const size_t low = size_t(t.low_width) * t.low_height;
    const auto floats = [&](size_t n, Allocation* block) {
      return pool_.allocate(Memory::host, n * sizeof(float), block);
    };
    VF_TRY(floats(4 * low, &ab_));
    for (int k = 0; k < 4; k++) f_.ab[k] = ab_.as<float>() + low * k;
    if (colors()) {
      VF_TRY(prepare_votes());
    } else if (t.params.temporal > 0) {
      VF_TRY(floats(10 * low, &before_));
      for (int k = 0; k < 7; k++) f_.before[k] = before_.as<float>() + low * k;
      for (int k = 0; k < 3; k++) f_.near[k] = before_.as<float>() + low * (7 + k);
    }
    if (t.params.subsample > 1 || t.layers.used()) {
      const size_t n = size_t(f_.low_pitch) * t.low_height;
      VF_TRY(floats(4 * n, &mean_));
      for (int k = 0; k < 4; k++) f_.mean[k] = mean_.as<float>() + n * k;
    }
    VF_TRY(floats(2 * size_t(t.width) + t.low_width, &tables_));
    f_.left = tables_.as<int>();
    f_.weight = tables_.as<float>() + t.width;
    f_.inverse_count = f_.weight + t.width;
    const auto place = [](int n, double first, double step, int samples, int* left, float* weight) {
      for (int x = 0; x < n; x++) {
        const double u = std::clamp(first + x * step, 0.0, samples - 1.0);
        left[x] = int(u);
        weight[x] = float(u - int(u));
      }
    };
    const double per_s = 1.0 / t.params.subsample;
    place(t.width, 0.5 * per_s - 0.5, per_s, t.low_width, f_.left, f_.weight);
    if (t.layers.used()) VF_TRY(prepare_layers(place));
    for (int x = 0; x < t.low_width; x++)
      f_.inverse_count[x] =
          1.0f / (std::min(x + t.low_radius, t.low_width - 1) - std::max(x - t.low_radius, 0) + 1);
    f_.scratch_per_thread = guided_scratch(f_);
    if (colors() || t.layers.used())
      f_.scratch_per_thread = std::max(f_.scratch_per_thread, votes_scratch(votes_));
    if (t.layers.used())
      f_.scratch_per_thread = std::max(f_.scratch_per_thread, layers_scratch(f_));
    f_.scratch_per_thread = (f_.scratch_per_thread + 63) / 64 * 64;
    VF_TRY(pool_.allocate(Memory::host, f_.scratch_per_thread * pool_.threads(), &scratch_));
    f_.scratch[0] = scratch_.as<char>();
    votes_.scratch = f_.scratch[0];
    votes_.scratch_per_thread = f_.scratch_per_thread;
    if (colors()) {
      VF_TRY(pool_.allocate(Memory::host, pool_.threads() * sizeof(MaskErrors), &errors_));
      votes_.errors = errors_.as<MaskErrors>();
    }
    return {};
  }

  void reset() override { f_.fresh = true; }

  Status set_mask(const CoarseMask& mask) override {
    if (mask.id && mask.id == mask_id_) return {};
    PlacedMask placed;
    VF_TRY(place_mask(mask, f_.task.width, f_.task.height, &placed));
    if (placed.bytes > mask_memory_.size())
      VF_TRY(pool_.allocate(Memory::host, placed.bytes, &mask_memory_));
    if (placed.count) pack_mask(mask, placed, mask_memory_.as<uint8_t>());
    placed_ = placed;
    mask_id_ = mask.id;
    show_mask();
    return {};
  }

  void take_over(GuidedPlan& other) override {
    auto& before = static_cast<CpuGuided&>(other);
    if (same_mask(before.f_.task, f_.task)) {
      mask_memory_ = std::move(before.mask_memory_);
      placed_ = before.placed_;
      mask_id_ = before.mask_id_;
      show_mask();
    }
    if (!same_memory(before.f_.task, f_.task)) return;
    before_ = std::move(before.before_);
    votes_.before_prior = before.votes_.before_prior;
    std::copy_n(before.votes_.before_guide, 3, votes_.before_guide);
    std::copy_n(before.f_.near, 3, f_.near);
    std::copy_n(before.f_.before, 7, f_.before);
    f_.fresh = before.f_.fresh;
  }

 private:
  bool colors() const { return f_.task.params.refine == MatteRefine::colors; }
  void show_mask() {
    f_.mask = votes_.beside = {placed_.count, placed_.place, mask_memory_.as<uint8_t>()};
  }

  Status prepare_votes() {
    const GuidedTask& t = f_.task;
    const GuidedColors& c = t.colors;
    const size_t n = size_t(c.width) * c.height;
    const size_t cells = size_t(c.cell_width) * c.cell_height;
    const size_t low =
        t.params.subsample == GuidedColors::kStep ? 0 : size_t(t.low_width) * t.low_height;
    // Planes of 4 bytes, then 2, then 1, so that all are aligned.
    VF_TRY(pool_.allocate(Memory::host,
                          (4 * sizeof(float) + 3 * sizeof(uint16_t) + 7) * n +
                              2 * sizeof(ColorModel) * cells + 6 * low,
                          &votes_memory_));
    votes_.cells = votes_memory_.as<ColorModel>();
    auto* floats = reinterpret_cast<float*>(votes_.cells + 2 * cells);
    for (float** p : {&votes_.feature[0], &votes_.feature[1], &votes_.feature[2], &votes_.ratio}) {
      *p = floats;
      floats += n;
    }
    auto* words = reinterpret_cast<uint16_t*>(floats);
    votes_.along[0] = words;
    votes_.along[1] = words + n;
    votes_.prior = reinterpret_cast<int16_t*>(words + 2 * n);
    auto* bytes = reinterpret_cast<uint8_t*>(words + 3 * n);
    for (uint8_t** p : {&votes_.guide[0], &votes_.guide[1], &votes_.guide[2], &votes_.mask,
                        &votes_.side, &votes_.matte, &votes_.outside}) {
      *p = bytes;
      bytes += n;
    }
    std::copy_n(votes_.guide, 3, f_.low);
    f_.low[3] = votes_.matte;
    for (int k = 0; k < 4 && low; k++) f_.low[k] = votes_.low[k] = bytes + low * k;
    if (low) {
      votes_.low_outside = bytes + 4 * low;
      votes_.low_side = bytes + 5 * low;
    }
    f_.side = low ? votes_.low_side : votes_.side;
    f_.outside = low ? votes_.low_outside : votes_.outside;
    if (t.params.temporal > 0) {
      VF_TRY(pool_.allocate(Memory::host, 4 * n * sizeof(uint16_t), &before_));
      for (int k = 0; k < 3; k++) votes_.before_guide[k] = before_.as<uint16_t>() + n * k;
      votes_.before_prior = before_.as<int16_t>() + 3 * n;
    }
    return {};
  }

  // Memory of the layers, and where pixels lie in them.
  template <class Place>
  Status prepare_layers(Place&& place) {
    const GuidedTask& t = f_.task;
    const GuidedLayers& l = t.layers;
    GuidedLayerPlanes& p = f_.layers;
    const size_t n = size_t(l.width) * l.height, cells = size_t(l.cell_width) * l.cell_height;
    const size_t wide = size_t(t.width), low = size_t(l.width);
    // Planes of 4 bytes, then 2, then 1, so that all are aligned.
    const size_t floats =
        (l.estimates ? 9 * n : 0) + (l.second.empty() ? 7 : 11) * cells + 2 * (low + 2 * wide);
    VF_TRY(pool_.allocate(Memory::host, floats * sizeof(float) + (sizeof(uint16_t) + 4) * n,
                          &layers_memory_));
    auto* next = layers_memory_.as<float>();
    const auto take = [&](size_t count) {
      float* const at = next;
      next += count;
      return at;
    };
    for (LayerPlaces* places : {&p.centres, &p.pixels, &p.cell_pixels}) {
      const size_t count = places == &p.centres ? low : wide;
      places->left = reinterpret_cast<int*>(take(count));
      places->weight = take(count);
    }
    constexpr double step = GuidedLayers::kStep;
    const double s = t.params.subsample, cell = step * l.cell;
    place(l.width, step / (2 * s) - 0.5, step / s, t.low_width, p.centres.left, p.centres.weight);
    place(t.width, 0.5 / step - 0.5, 1 / step, l.width, p.pixels.left, p.pixels.weight);
    if (l.blurs)
      place(t.width, 0.5 / cell - 0.5, 1 / cell, l.cell_width, p.cell_pixels.left,
            p.cell_pixels.weight);
    for (auto* planes : {&p.better, &p.subject, &p.behind})
      for (float*& plane : *planes) plane = l.estimates ? take(n) : nullptr;
    for (float*& plane : p.cells) plane = take(cells);
    for (float*& plane : p.blurred) plane = take(cells);
    for (float*& plane : p.filled) plane = l.second.empty() ? nullptr : take(cells);
    p.clear = reinterpret_cast<uint16_t*>(next);
    p.alpha = reinterpret_cast<uint8_t*>(p.clear + n);
    if (!colors()) {  // else the votes have the samples
      for (int k = 0; k < 3; k++) votes_.guide[k] = p.alpha + (1 + k) * n;
      votes_.mask = p.alpha;  // not wanted
    }
    std::copy_n(votes_.guide, 3, p.guide);
    return {};
  }

  bool needs_cell(int rows) const {
    for (const Layout* l : {&f_.task.source, &f_.task.destination})
      for (int p = 0; p < l->planes; p++)
        if (1 << l->plane[p].sub_y >= rows) return true;
    return false;
  }

  // Strips of whole cells; `window` rows are summed up before a strip's first.
  template <class Frame, class F>
  void strips(const Frame& frame, int height, int window, F&& f) {
    const int threads = pool_.threads();
    int n = std::clamp(height / std::max(1, window), threads, 8 * threads);
    int rows = (height + n - 1) / n;
    rows = (rows + cell_ - 1) / cell_ * cell_;
    n = (height + rows - 1) / rows;
    pool_.parallel(n, [&](int task, int thread) {
      f(frame, task * rows, std::min(height, (task + 1) * rows), thread);
    });
  }

  // What the votes say about the mask's error.
  void find_error() {
    const GuidedColors& c = f_.task.colors;
    MaskErrors all;
    for (int i = 0; i < pool_.threads(); i++)
      for (int side = 0; side < 2; side++)
        for (int k = 0; k < GuidedColors::kErrorBins; k++) {
          all.count[side][k] += votes_.errors[i].count[side][k];
          all.against[side][k] += votes_.errors[i].against[side][k];
        }
    votes_.error = mask_error_of(c, all);
  }

  void vote(const Image& src) {
    const GuidedColors& c = f_.task.colors;
    votes_.src = src;
    votes_.fresh = f_.fresh;
    strips(votes_, c.height, 1, votes_samples);
    strips(votes_, c.height, 1, votes_sides);
    strips(votes_, c.cell_height, 1, votes_prior);
    std::fill_n(votes_.errors, pool_.threads(), MaskErrors());
    strips(votes_, c.cell_height, 1, votes_ratios);
    find_error();
    strips(votes_, c.cell_height, 1, votes_matte);
    if (votes_.low[0]) strips(votes_, f_.task.low_height, 1, votes_low);
  }

  void make_layers(const Image& src) {
    const GuidedLayers& l = f_.task.layers;
    if (!colors()) {
      votes_.src = src;
      strips(votes_, l.height, 1, votes_samples);
    }
    strips(f_, l.height, 1, layers_matte);
    if (l.estimates) {
      strips(f_, l.height, 4 * GuidedLayers::kRadius, layers_estimate);
      strips(f_, l.height, 1, layers_smooth);
    }
    if (!l.blurs) return;
    strips(f_, l.cell_height, 1, layers_cells);
    const size_t cells = size_t(l.cell_width) * l.cell_height;
    double sum[4] = {};
    for (int k = 0; k < 4; k++)
      for (size_t i = 0; i < cells; i++) sum[k] += double(f_.layers.cells[k][i]);
    for (int k = 0; k < 3; k++)
      f_.layers.far[k] = float(sum[3] > 0 ? sum[k] / sum[3] : f_.task.params.background[k]);
    strips(f_, l.cell_height, 1, layers_blur);
    if (!l.second.empty()) strips(f_, l.cell_height, 1, layers_second);
  }

  Status enqueue(const Image& src, const Image& dst) override {
    const GuidedTask& t = f_.task;
    f_.src = src;
    f_.dst = dst;
    if (colors()) vote(src);
    strips(f_, t.low_height, 4 * t.low_radius, guided_statistics);
    strips(f_, t.low_height, 4 * t.low_radius, guided_means);
    if (t.layers.used()) make_layers(src);
    if (f_.mean[0]) strips(f_, t.height, 1, guided_apply);
    f_.fresh = false;
    return {};
  }

  CpuQueue& pool_;
  GuidedFrame f_;
  GuidedVotes votes_;
  PlacedMask placed_;
  uint64_t mask_id_ = 0;
  int cell_ = 1;
  Allocation ab_, before_, mean_, tables_, scratch_, votes_memory_, errors_, layers_memory_;
  Allocation mask_memory_;
};

}  // namespace

Status make_guided(Queue& queue, const GuidedTask& task, std::unique_ptr<GuidedPlan>* out) {
  auto plan = std::make_unique<CpuGuided>(static_cast<CpuQueue&>(queue), task);
  VF_TRY(plan->prepare());
  *out = std::move(plan);
  return {};
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
