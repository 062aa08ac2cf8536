// The row loops of the denoiser on the CPU. cpu/denoise.cpp runs them.
//
// The loops are plain ones over rows, which the compiler vectorises for each of Highway's targets.
// They share the arithmetic of filters/denoise_math.h, which sums integers, so that the division
// into strips does not change the result.
#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/denoise_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/arena.h"
#include "cpu/denoise.h"
#include "cpu/denoise_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {

using namespace vf::denoise;

// ---- pass 1 ------------------------------------------------------------------------------------

// Sums the differences of each block, and the squares of the halves of these differences.
template <int kX>
void differences(const uint16_t* VF_RESTRICT x, const uint16_t* VF_RESTRICT t, int pitch, int rows,
                 int n, int32_t* VF_RESTRICT sum, uint32_t* VF_RESTRICT squares) {
  for (int r = 0; r < rows; r++, x += pitch, t += pitch)
    for (int i = 0; i < n; i++) {
      int s = r ? sum[i] : 0;
      uint32_t q = r ? squares[i] : 0;
      for (int k = 0; k < kX; k++) {
        const int d = int(x[kX * i + k]) - int(t[kX * i + k]);
        const uint32_t e = half_difference(uint32_t(std::abs(d)));
        s += d;
        q += e * e;
      }
      sum[i] = s;
      squares[i] = q;
    }
}

void luma_sums(const uint16_t* VF_RESTRICT t, int pitch, int n, int32_t* VF_RESTRICT sum) {
  for (int i = 0; i < n; i++)
    sum[i] = t[2 * i] + t[2 * i + 1] + t[pitch + 2 * i] + t[pitch + 2 * i + 1];
}

void luma_tests(const float* VF_RESTRICT square, const float* VF_RESTRICT factor, int n,
                float* VF_RESTRICT out) {
  for (int i = 0; i < n; i++) out[i] = motion_of_luma(square[i], factor[i]);
}
void chroma_tests(const float* VF_RESTRICT square_u, const float* VF_RESTRICT factor_u,
                  const float* VF_RESTRICT square_v, const float* VF_RESTRICT factor_v, int n,
                  float* VF_RESTRICT out) {
  for (int i = 0; i < n; i++)
    out[i] = motion_of_chroma(square_u[i], factor_u[i], square_v[i], factor_v[i]);
}

// Makes a row of mismatches of blocks.
void mismatches(const uint16_t* VF_RESTRICT t, int pitch, int n, const float* VF_RESTRICT factor,
                const float* VF_RESTRICT share, const float* VF_RESTRICT more,
                float* VF_RESTRICT out) {
  const uint16_t* VF_RESTRICT below = t + pitch;
  for (int i = 0; i < n; i++) {
    const int a = (t[2 * i] >> 8) - (below[2 * i + 1] >> 8);
    const int b = (t[2 * i + 1] >> 8) - (below[2 * i] >> 8);
    out[i] = mismatch_of(float(2 * (a * a + b * b)), factor[i], {share[i], more[i]});
  }
}

// Makes a row of gains from three rows of tests, which begin one block before it.
void gains_of(float* const luma[3], float* const chroma[3], const uint16_t* VF_RESTRICT p,
              const float* VF_RESTRICT mismatch, const int32_t* VF_RESTRICT restless,
              float least_gain, int n, uint32_t* VF_RESTRICT out) {
  const float *VF_RESTRICT a0 = luma[0], *VF_RESTRICT a1 = luma[1], *VF_RESTRICT a2 = luma[2];
  const float *VF_RESTRICT c0 = chroma[0], *VF_RESTRICT c1 = chroma[1], *VF_RESTRICT c2 = chroma[2];
  for (int i = 0; i < n; i++) {
    float sa = 0, sb = 0;
    for (int k = 0; k < 3; k++) {
      sa += (a0[i + k] + a1[i + k]) + a2[i + k];
      sb += (c0[i + k] + c1[i + k]) + c2[i + k];
    }
    out[i] = uint32_t(gain_of(sa, sb, p_of(p[i]), mismatch[i], restless[i] != 0, least_gain));
  }
}

template <int kX>
void blend_rows(const uint16_t* VF_RESTRICT x, const uint16_t* VF_RESTRICT was,
                uint16_t* VF_RESTRICT is, int pitch, int rows, int n,
                const uint32_t* VF_RESTRICT gain) {
  for (int r = 0; r < rows; r++, x += pitch, was += pitch, is += pitch)
    for (int i = 0; i < n; i++)
      for (int k = 0; k < kX; k++)
        is[kX * i + k] = uint16_t(blend(x[kX * i + k], was[kX * i + k], gain[i]) >> 16);
}

// Holds the sums of a component's current cells so far, by column of blocks.
struct Columns {
  int32_t* sum;
  uint32_t *squared_sums, *squares;
};

// Gathers the statistics of a strip, one row of blocks after the other.
class Statistics {
 public:
  Statistics(const DenoiseFrame& f, Arena* arena) : f_(f) {
    const DenoiseTask& t = f.task;
    const int n = t.blocks_x;
    for (int c = 0; c < t.from.colors; c++)
      sums_[c] = {arena->take<int32_t>(n), arena->take<uint32_t>(n), arena->take<uint32_t>(n)};
    luma_ = arena->take<int32_t>(n + 1);
    above_ = arena->take<int32_t>(n + 1);
    p_ = arena->take<int32_t>(n);
    sum_ = arena->take<uint32_t>(n);
    samples_ = arena->take<uint32_t>(n);
    below_ = arena->take<uint32_t>(n);
    texture_ = arena->take<uint32_t>(n);
    for (int i = 0; i < 2; i++) {
      cell_sum_[i] = arena->take<uint32_t>(n / 4 + 1);
      cell_texture_[i] = arena->take<uint32_t>(n / 4 + 1);
      cell_p_[i] = arena->take<int32_t>(n / 4 + 1);
    }
  }

  // Adds row `b` of the old state: its sums of luma, and p of its blocks.
  void add_luma(int b, const int32_t* VF_RESTRICT sum, const uint16_t* VF_RESTRICT p) {
    const int n = f_.task.blocks_x;
    std::swap(luma_, above_);
    int32_t* VF_RESTRICT now = luma_;
    const int32_t* VF_RESTRICT above = above_;
    uint32_t *VF_RESTRICT all = sum_, *VF_RESTRICT texture = texture_;
    int32_t* VF_RESTRICT ps = p_;
    for (int i = 0; i < n; i++) now[i] = block_luma(sum[i]);
    now[n] = now[n - 1];
    const bool first = b % 4 == 0;
    for (int i = 0; i < n; i++) {
      const int x = now[i + 1] - now[i], y = first ? 0 : now[i] - above[i];
      // The last column of a cell has no neighbour in it.
      const uint32_t d = (i % 4 == 3 ? 0 : uint32_t(x * x)) + uint32_t(y * y);
      all[i] = (first ? 0 : all[i]) + uint32_t(now[i]);
      texture[i] = (first ? 0 : texture[i]) + d;
      ps[i] = (first ? 0 : ps[i]) + p_of(p[i]);
    }
    if (b % 4 != 3) return;
    uint32_t *VF_RESTRICT s = cell_sum_[b / 4 % 2], *VF_RESTRICT t = cell_texture_[b / 4 % 2];
    int32_t* VF_RESTRICT cell_p = cell_p_[b / 4 % 2];
    for (int i = 0; i < n / 4; i++) {
      s[i] = all[4 * i] + all[4 * i + 1] + all[4 * i + 2] + all[4 * i + 3];
      t[i] = texture[4 * i] + texture[4 * i + 1] + texture[4 * i + 2] + texture[4 * i + 3];
      cell_p[i] = ps[4 * i] + ps[4 * i + 1] + ps[4 * i + 2] + ps[4 * i + 3];
    }
  }

  // Adds row `b` of the frame's sums of luma, and counts the cells that it completes as repeated
  // where their sum is that of the previous frame.
  void add_samples(int b, const int32_t* VF_RESTRICT sum, Histograms* h) {
    const DenoiseTask& t = f_.task;
    uint32_t* VF_RESTRICT all = samples_;
    for (int i = 0; i < t.blocks_x; i++) all[i] = (b % 4 ? all[i] : 0) + uint32_t(sum[i]);
    if (b % 4 != 3) return;
    uint32_t* cells = f_.cells + size_t(b / 4) * (t.blocks_x / 4);
    uint32_t same = 0;
    for (int i = 0; i < t.blocks_x / 4; i++) {
      const uint32_t cell = all[4 * i] + all[4 * i + 1] + all[4 * i + 2] + all[4 * i + 3];
      same += cell == cells[i];
      cells[i] = cell;
    }
    for (uint32_t& n : h->repeated) n += same;
    uint32_t moving = 0;
    const PatchMotion* patches = f_.motions + size_t(b / kPatch) * f_.patches_x;
    for (int i = 0; i < t.blocks_x / kPatch; i++) moving += moves(patches[i]);
    for (uint32_t& n : h->moving) n += moving;
  }

  // Adds row `b`, whose upper samples are x and those of the state t, to `below` of CellSums.
  void add_below(int b, const uint16_t* VF_RESTRICT x, const uint16_t* VF_RESTRICT t) {
    uint32_t* VF_RESTRICT below = below_;
    for (int i = 0; i < f_.task.blocks_x; i++) {
      const uint32_t now = uint32_t(x[2 * i + 1]) << 16 | x[2 * i];
      const uint32_t was = uint32_t(t[2 * i + 1]) << 16 | t[2 * i];
      below[i] = (b % 4 ? below[i] : 0) + (now < was);
    }
  }

  // Adds the differences of component c. `square` is w times the square of a block's sum.
  void add(int b, int c, const int32_t* VF_RESTRICT sum, const float* VF_RESTRICT square,
           const uint32_t* VF_RESTRICT squares, const float* VF_RESTRICT w) {
    const DenoiseTask& t = f_.task;
    const int n = t.blocks_x;
    const bool first = b % (kCell / t.per_block_y[c]) == 0;
    int32_t* VF_RESTRICT sums = sums_[c].sum;
    uint32_t *VF_RESTRICT f11 = sums_[c].squared_sums, *VF_RESTRICT f2 = sums_[c].squares;
    if (first) {
      std::fill_n(sums, n, 0);
      std::fill_n(f11, n, 0);
      std::fill_n(f2, n, 0);
    }
    if (t.per_block_x[c] * t.per_block_y[c] == 1)
      for (int i = 0; i < n; i++) {
        sums[i] += sum[i];
        f2[i] += normalised_square(square[i]);
      }
    else
      for (int i = 0; i < n; i++) {
        sums[i] += sum[i];
        f11[i] += normalised_square(square[i]);
        f2[i] += normalised_square(squares_of_halves(squares[i]) * w[i]);
      }
  }

  // Counts the cells that row `b` completes. All of the row must have been added.
  void count(int b, Histograms* h) const {
    const DenoiseTask& t = f_.task;
    for (int c = 0; c < t.from.colors; c++) {
      const int wide = kCell / t.per_block_x[c], high = kCell / t.per_block_y[c];
      if (b % high != high - 1) continue;
      const int samples = t.per_block_x[c] * t.per_block_y[c];
      const int across = wide / 4, down = high / 4, cells = across * down;
      for (int i = 0; i < t.blocks_x / wide; i++) {
        CellSums s = {};
        for (int k = wide * i; k < wide * (i + 1); k++) {
          s.sum += sums_[c].sum[k];
          s.squared_sums += sums_[c].squared_sums[k];
          s.squares += sums_[c].squares[k];
          if (c == 0) s.below += below_[k];
        }
        const int across_luma = t.blocks_x / 4;
        s.has_bias = c == 0 && has_bias(b / 4 * across_luma + i, across_luma * (t.blocks_y / 4));
        uint32_t sum = 0, texture = 0;
        for (int y = 0; y < down; y++)
          for (int x = 0; x < across; x++) {
            sum += cell_sum_[(b / 4 - y) % 2][across * i + x];
            texture += cell_texture_[(b / 4 - y) % 2][across * i + x];
            s.p += cell_p_[(b / 4 - y) % 2][across * i + x];
          }
        count_cell(h, f_.model.noise[c], c, level_of_cell(sum, cells), s,
                   cell_texture(texture, cells), samples,
                   [](uint32_t* n, uint32_t more) { *n += more; });
      }
    }
  }

  // Counts the cells of a first frame that row `b` of the new state completes.
  void count_first(int b, Histograms* h) const {
    const DenoiseTask& t = f_.task;
    for (int c = 0; c < t.from.colors; c++) {
      const int wide = kCell / t.per_block_x[c], high = kCell / t.per_block_y[c];
      if (b % high != high - 1) continue;
      const int across = wide / 4, down = high / 4, cells = across * down;
      for (int i = 0; i < t.blocks_x / wide; i++) {
        uint32_t sum = 0, texture = 0;
        for (int y = 0; y < down; y++)
          for (int x = 0; x < across; x++) {
            sum += cell_sum_[(b / 4 - y) % 2][across * i + x];
            texture += cell_texture_[(b / 4 - y) % 2][across * i + x];
          }
        const int bin = luma_bin(level_of_cell(sum, cells));
        h->texture[c][bin][variance_bin(cell_texture(texture, cells))]++;
        count_laplacian(c, kCell * i, (b + 1) * t.per_block_y[c] - kCell, h);
      }
    }
  }

 private:
  void count_laplacian(int c, int x0, int y0, Histograms* h) const {
    const int w = f_.width[c], n = f_.height[c];
    int64_t squares = 0, sum = 0;
    for (int y = y0; y < y0 + kCell; y++) {
      const uint16_t* row[3];
      for (int k = 0; k < 3; k++)
        row[k] = f_.current.color[c] + size_t(std::clamp(y + k - 1, 0, n - 1)) * w;
      for (int x = x0; x < x0 + kCell; x++) {
        const int l = std::max(x - 1, 0), r = std::min(x + 1, w - 1);
        int v[3];
        for (int k = 0; k < 3; k++)
          v[k] = (row[k][l] >> 4) - 2 * (row[k][x] >> 4) + (row[k][r] >> 4);
        const int64_t laplacian = v[0] - 2 * v[1] + v[2];
        squares += laplacian * laplacian;
        sum += row[1][x];
      }
    }
    const int bin = variance_bin(cell_laplacian(squares));
    h->first[c][0][bin]++;
    if (sum > kFirstDark * 64 * 256 && sum < kFirstBright * 64 * 256) h->first[c][1][bin]++;
  }

  const DenoiseFrame& f_;
  Columns sums_[3] = {};
  int32_t *luma_, *above_, *p_, *cell_p_[2];
  uint32_t *sum_, *samples_, *below_, *texture_, *cell_sum_[2], *cell_texture_[2];
};

size_t update(const DenoiseFrame& f, int b0, int b1, int thread, char* memory) {
  const DenoiseTask& t = f.task;
  const int n = t.blocks_x, colors = t.from.colors;
  Arena arena(memory);
  uint16_t* x[2][3] = {};
  int32_t* sum[3] = {};
  uint32_t* squares[3] = {};
  float* square[3] = {};
  float *luma[3], *chroma[3];  // the tests of three rows, with one block more at either end
  for (auto& slot : x)
    for (int c = 0; c < colors; c++)
      slot[c] = arena.take<uint16_t>(size_t(f.width[c]) * t.per_block_y[c]);
  for (int c = 0; c < colors; c++) {
    sum[c] = arena.take<int32_t>(n);
    squares[c] = arena.take<uint32_t>(n);
    square[c] = arena.take<float>(n);
  }
  for (float*& p : luma) p = arena.take<float>(n + 2);
  for (float*& p : chroma) p = arena.take<float>(n + 2);
  auto* w = arena.take<float>(n);
  auto* gain = arena.take<uint32_t>(n);
  auto* lumas = arena.take<int32_t>(n);
  auto* restless = arena.take<int32_t>(n);
  auto *mismatch = arena.take<float>(n), *share = arena.take<float>(n);
  auto* more = arena.take<float>(n);
  float* factors[2];
  for (float*& p : factors) p = arena.take<float>(n);
  Statistics statistics(f, &arena);
  if (b0 >= b1) return arena.used();

  Histograms* h = f.histograms ? f.histograms + thread : nullptr;
  for (int row = b0 - 1; row <= b1; row++) {
    const int b = std::clamp(row, 0, t.blocks_y - 1);
    uint16_t* const* now = x[row & 1];
    load_blocks(f, b, colors, now);
    const DenoiseState& state = f.before(b);
    const uint16_t* VF_RESTRICT p = state.p + size_t(b) * n;
    for (int c = 0; c < colors; c++) {
      const uint16_t* was = state.color[c] + size_t(b) * t.per_block_y[c] * f.width[c];
      (t.per_block_x[c] == 2 ? differences<2> : differences<1>)(now[c], was, f.width[c],
                                                                t.per_block_y[c], n, sum[c],
                                                                squares[c]);
    }
    float *VF_RESTRICT a = luma[(row + 3) % 3] + 1, *VF_RESTRICT bb = chroma[(row + 3) % 3] + 1;
    for (int i = 0; i < n; i++) w[i] = remaining(p_of(p[i]));
    for (int c = 0; c < colors; c++) {
      const int32_t* VF_RESTRICT from = sum[c];
      float* VF_RESTRICT to = square[c];
      for (int i = 0; i < n; i++) to[i] = (float(from[i]) * float(from[i])) * w[i];
    }
    look_up(f.motion[0], p, n, factors[0]);
    luma_tests(square[0], factors[0], n, a);
    if (colors == 3) {
      look_up(f.motion[1], p, n, factors[0]);
      look_up(f.motion[2], p, n, factors[1]);
      chroma_tests(square[1], factors[0], square[2], factors[1], n, bb);
    } else {
      std::fill_n(bb, n, 0.0f);
    }
    a[-1] = a[0];
    bb[-1] = bb[0];
    a[n] = a[n - 1];
    bb[n] = bb[n - 1];
    if (h && row >= b0 && row < b1) {
      luma_sums(now[0], f.width[0], n, lumas);
      statistics.add_samples(b, lumas, h);
      luma_sums(state.color[0] + size_t(b) * 2 * f.width[0], f.width[0], n, lumas);
      statistics.add_luma(b, lumas, p);
      statistics.add_below(b, now[0], state.color[0] + size_t(b) * 2 * f.width[0]);
      for (int c = 0; c < colors; c++) statistics.add(b, c, sum[c], square[c], squares[c], w);
      statistics.count(b, h);
    }
    if (row <= b0) continue;

    // The previous row now has the tests of all its neighbours.
    const int done = row - 1;
    const DenoiseState& old_state = f.before(done);
    const uint16_t* VF_RESTRICT old = old_state.p + size_t(done) * n;
    uint16_t* VF_RESTRICT p_out = f.current.p + size_t(done) * n;
    const PatchMotion* patches = f.motions + size_t(done / kPatch) * f.patches_x;
    look_up(f.mismatch, old, n, factors[0]);
    const Contrast contrasts[] = {contrast_of(f.model.noise[0], false),
                                  contrast_of(f.model.noise[0], true)};
    for (int k = 0; k < f.patches_x; k++) {
      const int first = k * kPatch, blocks = std::min(kPatch, n - first);
      std::fill_n(restless + first, blocks, patches[k].restless);
      const Contrast& contrast = contrasts[moves(patches[k])];
      std::fill_n(share + first, blocks, contrast.share);
      std::fill_n(more + first, blocks, contrast.more);
    }
    mismatches(old_state.color[0] + size_t(done) * 2 * f.width[0], f.width[0], n, factors[0], share,
               more, mismatch);
    gains_of(luma, chroma, old, mismatch, restless, f.settings.least_gain, n, gain);
    uint16_t* const* before = x[done & 1];
    for (int c = 0; c < colors; c++) {
      const size_t at = size_t(done) * t.per_block_y[c] * f.width[c];
      (t.per_block_x[c] == 2 ? blend_rows<2> : blend_rows<1>)(before[c], old_state.color[c] + at,
                                                              f.current.color[c] + at, f.width[c],
                                                              t.per_block_y[c], n, gain);
    }
    luma_sums(f.current.color[0] + size_t(done) * 2 * f.width[0], f.width[0], n, lumas);
    for (int i = 0; i < n; i++) p_out[i] = pack_block(int(gain[i]), level_of_block(lumas[i]));
  }
  return arena.used();
}

size_t first(const DenoiseFrame& f, int b0, int b1, int thread, bool count, char* memory) {
  const DenoiseTask& t = f.task;
  const int n = t.blocks_x;
  Arena arena(memory);
  auto* lumas = arena.take<int32_t>(n);
  Statistics statistics(f, &arena);
  for (int b = b0; b < b1; b++) {
    uint16_t* x[3] = {};
    for (int c = 0; c < t.from.colors; c++)
      x[c] = f.current.color[c] + size_t(b) * t.per_block_y[c] * f.width[c];
    if (!count) load_blocks(f, b, t.from.colors, x);
    luma_sums(x[0], f.width[0], n, lumas);
    if (count) {
      statistics.add_luma(b, lumas, f.current.p + size_t(b) * n);
      statistics.count_first(b, f.histograms + thread);
    } else {
      uint16_t* VF_RESTRICT p = f.current.p + size_t(b) * n;
      for (int i = 0; i < n; i++) p[i] = pack_block(kOne, level_of_block(lumas[i]));
    }
  }
  return arena.used();
}

// ---- look-ahead --------------------------------------------------------------------------------

size_t merge(const DenoiseFrame& f, const DenoiseState& later, int b0, int b1, char* memory) {
  const DenoiseTask& t = f.task;
  const int n = t.blocks_x, colors = t.from.colors;
  Arena arena(memory);
  uint16_t* x[3] = {};
  for (int c = 0; c < colors; c++)
    x[c] = arena.take<uint16_t>(size_t(f.width[c]) * t.per_block_y[c]);
  auto* weights = arena.take<Merge>(n);
  auto* lumas = arena.take<int32_t>(n);
  for (int b = b0; b < b1; b++) {
    load_blocks(f, b, colors, x);
    const uint16_t* VF_RESTRICT p = f.current.p + size_t(b) * n;
    uint16_t* VF_RESTRICT q = later.p + size_t(b) * n;
    for (int i = 0; i < n; i++) weights[i] = merge_of(p_of(p[i]), p_of(q[i]));
    for (int c = 0; c < colors; c++)
      for (int r = 0; r < t.per_block_y[c]; r++) {
        const size_t at = (size_t(b) * t.per_block_y[c] + r) * f.width[c];
        const uint16_t* VF_RESTRICT now = x[c] + size_t(r) * f.width[c];
        const uint16_t* VF_RESTRICT before = f.current.color[c] + at;
        uint16_t* VF_RESTRICT state = later.color[c] + at;
        const int per_block = t.per_block_x[c], top = f.settings.top;
        for (int i = 0; i < f.width[c]; i++)
          state[i] = uint16_t(merged(weights[i / per_block], now[i], before[i], state[i], top));
      }
    luma_sums(later.color[0] + size_t(b) * 2 * f.width[0], f.width[0], n, lumas);
    for (int i = 0; i < n; i++) q[i] = pack_block(weights[i].p, level_of_block(lumas[i]));
  }
  return arena.used();
}

// ---- pass 2 ------------------------------------------------------------------------------------

void block_weights(const float* VF_RESTRICT of_p, const float* VF_RESTRICT of_square,
                   const uint16_t* VF_RESTRICT p, int n, float* VF_RESTRICT out) {
  for (int i = 0; i < n; i++) out[i] = weight_of(float(p_of(p[i])), {of_p[i], of_square[i]});
}

// Adds the coarse values of two columns of two rows, and their squares: columns 2 k - 3 and 2 k - 2
// make element k. Columns outside repeat the nearest one.
void coarse_pairs(const uint16_t* VF_RESTRICT t0, const uint16_t* VF_RESTRICT t1, int width, int n,
                  uint32_t* VF_RESTRICT sums, uint32_t* VF_RESTRICT squares) {
  const auto add = [&](int k, int left, int right) HWY_ATTR {
    const uint32_t a = t0[left] >> 4, b = t0[right] >> 4, c = t1[left] >> 4, d = t1[right] >> 4;
    sums[k] = (a + b) + (c + d);
    squares[k] = (a * a + b * b) + (c * c + d * d);
  };
  const auto inside = [&](int x) { return std::clamp(x, 0, width - 1); };
  const int begin = std::min(2, n), end = std::clamp((width + 1) / 2 + 1, begin, n);
  for (int k = 0; k < begin; k++) add(k, inside(2 * k - 3), inside(2 * k - 2));
  for (int k = begin; k < end; k++) add(k, 2 * k - 3, 2 * k - 2);
  for (int k = end; k < n; k++) add(k, inside(2 * k - 3), inside(2 * k - 2));
}

// Holds coarse_pairs of two rows.
struct Pairs {
  uint32_t *coarse, *squares;
};

// Makes the lines of n groups from the pairs above and below their middle.
template <int kBytes>
void lines_of(const Pairs& above, const Pairs& below, const float* VF_RESTRICT weight,
              const uint32_t* VF_RESTRICT mean, int n, uint32_t offset, uint32_t* VF_RESTRICT a,
              uint32_t* VF_RESTRICT c) {
  const uint32_t *VF_RESTRICT r0 = above.coarse, *VF_RESTRICT r1 = below.coarse;
  const uint32_t *VF_RESTRICT s0 = above.squares, *VF_RESTRICT s1 = below.squares;
  for (int i = 0; i < n; i++) {
    const uint32_t sum = (r0[i] + r0[i + 1]) + (r1[i] + r1[i + 1]);
    const uint32_t squares = (s0[i] + s0[i + 1]) + (s1[i] + s1[i + 1]);
    const Line line = line_of<kBytes>(sum, squares, weight[i], offset,
                                      (mean ? mean[i] : sum) + kGivenBack<kBytes>);
    a[i] = line.a;
    c[i] = line.c;
  }
}

// Applies the spatial filter to a component, row by row from top to bottom, beginning at any row. T
// and the weights are replicated beyond their edges. A sample of the frame has kBytes bytes.
template <int kBytes>
class Spatial {
 public:
  Spatial(const DenoiseFrame& f, int c, uint32_t offset, Arena* arena)
      : f_(f),
        c_(c),
        width_(f.width[c]),
        height_(f.height[c]),
        groups_((width_ + 1) / 2),
        along_(c ? 0 : along_of(f.model.noise[0], f.settings)),
        offset_(offset) {
    for (Half& h : half_) {
      h.pairs = {arena->take<uint32_t>(groups_ + 3), arena->take<uint32_t>(groups_ + 3)};
      h.weights = arena->take<float>(f.task.blocks_x);
    }
    weights_ = arena->take<float>(f.task.blocks_x, kPadding);
    for (float*& w : block_weights_) w = arena->take<float>(f.task.blocks_x);
    for (float*& p : factors_) p = arena->take<float>(f.task.blocks_x);
    group_weights_ = arena->take<float>(groups_ + 2);
    group_a_ = arena->take<uint32_t>(groups_ + 2);
    group_c_ = arena->take<uint32_t>(groups_ + 2);
    means_ = arena->take<uint32_t>(groups_ + 2);
    for (Lines& l : lines_)
      l = {arena->take<uint32_t>(2 * groups_), arena->take<uint32_t>(2 * groups_)};
    values_ = arena->take<uint32_t>(width_);
    smoothed_ = arena->take<uint16_t>(width_);
  }

  // Returns the values of row y in the unit of value_of.
  const uint32_t* row(int y) {
    y = std::min(y, height_ - 1);
    const int group = y / 2;
    const Lines first = lines(y & 1 ? group : group - 1), second = lines(y & 1 ? group + 1 : group);
    const Lines &near = y & 1 ? first : second, &far = y & 1 ? second : first;
    const uint32_t *VF_RESTRICT a0 = near.a, *VF_RESTRICT c0 = near.c;
    const uint32_t *VF_RESTRICT a1 = far.a, *VF_RESTRICT c1 = far.c;
    const uint16_t* VF_RESTRICT t = along_ ? smoothed_row(y) : row_at(y);
    uint32_t* VF_RESTRICT out = values_;
    for (int x = 0; x < width_; x++)
      out[x] = value_of<kBytes>(between(a0[x], a1[x]), between(c0[x], c1[x]), t[x]);
    return out;
  }

 private:
  static constexpr int kPadding = 4, kNone = -100;

  const uint16_t* row_at(int y) const {
    return f_.shown->color[c_] + size_t(std::clamp(y, 0, height_ - 1)) * width_;
  }

  // Returns row y of T, smoothed along edges.
  const uint16_t* smoothed_row(int y) const {
    const uint16_t *VF_RESTRICT above = row_at(y - 1), *VF_RESTRICT row = row_at(y);
    const uint16_t* VF_RESTRICT below = row_at(y + 1);
    uint16_t* VF_RESTRICT out = smoothed_;
    const int strength = along_;
    const auto smooth = [=](int left, int x, int right) HWY_ATTR {
      const int a[] = {above[left], above[x], above[right]}, b[] = {row[left], row[x], row[right]};
      const int c[] = {below[left], below[x], below[right]};
      out[x] = uint16_t(smoothed(a, b, c, strength));
    };
    smooth(0, 0, std::min(1, width_ - 1));
    for (int x = 1; x < width_ - 1; x++) smooth(x - 1, x, x + 1);
    if (width_ > 1) smooth(width_ - 2, width_ - 1, width_ - 1);
    return out;
  }

  // Holds sums over two rows.
  struct Half {
    Pairs pairs;
    float* weights;  // one per block, which may be two samples wide
  };
  // Holds the lines of a row of groups, interpolated along the row.
  struct Lines {
    uint32_t *a, *c;
  };

  // Returns the weights of a row of blocks. The weights of the row before remain valid.
  const float* weights_of(int row) {
    float* to = block_weights_[row & 1];
    if (weights_at_[row & 1] == row) return to;
    weights_at_[row & 1] = row;
    const int n = f_.task.blocks_x;
    const uint16_t* p = f_.shown->p + size_t(row) * n;
    for (int i = 0; i < 2; i++) look_up(f_.weight[c_][i], p, n, factors_[i]);
    block_weights(factors_[0], factors_[1], p, n, to);
    return to;
  }

  // Returns the sums over rows 2 h - 1 and 2 h.
  const Half& half(int h) {
    Half& to = half_[h & 1];
    if (half_at_[h & 1] == h) return to;
    half_at_[h & 1] = h;
    const int upper = std::clamp(2 * h - 1, 0, height_ - 1),
              lower = std::clamp(2 * h, 0, height_ - 1);
    const uint16_t* from = f_.shown->color[c_];
    coarse_pairs(from + size_t(upper) * width_, from + size_t(lower) * width_, width_, groups_ + 3,
                 to.pairs.coarse, to.pairs.squares);
    const int high = f_.task.per_block_y[c_];
    const float *VF_RESTRICT w0 = weights_of(upper / high),
                             *VF_RESTRICT w1 = weights_of(lower / high);
    float* VF_RESTRICT weights = to.weights;
    for (int i = 0; i < f_.task.blocks_x; i++) weights[i] = w0[i] + w1[i];
    return to;
  }

  // Returns the lines of row g of groups, which may lie outside.
  Lines lines(int g) {
    Lines& to = lines_[g & 1];
    if (line_at_[g & 1] == g) return to;
    line_at_[g & 1] = g;
    const Half &above = half(g), &below = half(g + 1);
    add_weights(above.weights, below.weights);

    // The loops run from group -1 to the one behind the last.
    const float* VF_RESTRICT w = weights_;
    float* VF_RESTRICT weights = group_weights_;
    if (f_.task.per_block_x[c_] == 2)
      for (int i = 0; i < groups_ + 2; i++) weights[i] = w[i - 2] + 2 * w[i - 1] + w[i];
    else
      for (int i = 0; i < groups_ + 2; i++)
        weights[i] = w[2 * i - 3] + w[2 * i - 2] + w[2 * i - 1] + w[2 * i];
    uint32_t* VF_RESTRICT mean = c_ ? nullptr : means_;
    if (mean) {
      // A lookup in the loop of lines_of would keep it from being vectorised.
      const uint32_t *VF_RESTRICT r0 = above.pairs.coarse, *VF_RESTRICT r1 = below.pairs.coarse;
      for (int i = 0; i < groups_ + 2; i++)
        mean[i] = corrected((r0[i] + r0[i + 1]) + (r1[i] + r1[i + 1]), f_.model.correction);
    }
    lines_of<kBytes>(above.pairs, below.pairs, weights, mean, groups_ + 2, offset_, group_a_,
                     group_c_);
    interpolate(group_a_, to.a);
    interpolate(group_c_, to.c);
    return to;
  }

  void add_weights(const float* VF_RESTRICT a, const float* VF_RESTRICT b) const {
    const int n = f_.task.blocks_x;
    float* VF_RESTRICT sum = weights_;
    for (int i = 0; i < n; i++) sum[i] = a[i] + b[i];
    std::fill_n(sum - kPadding, kPadding, sum[0]);
    std::fill_n(sum + n, kPadding, sum[n - 1]);
  }

  // Interpolates between groups. v[0] belongs to the group before the first.
  void interpolate(const uint32_t* VF_RESTRICT v, uint32_t* VF_RESTRICT out) const {
    for (int i = 0; i < groups_; i++) {
      out[2 * i] = between(v[i + 1], v[i]);
      out[2 * i + 1] = between(v[i + 1], v[i + 2]);
    }
  }

  const DenoiseFrame& f_;
  const int c_, width_, height_, groups_, along_;
  const uint32_t offset_;
  Half half_[2];
  float *weights_, *block_weights_[2], *factors_[2], *group_weights_;
  uint32_t *group_a_, *group_c_, *means_, *values_;
  uint16_t* smoothed_;
  Lines lines_[2];
  int half_at_[2] = {kNone, kNone}, line_at_[2] = {kNone, kNone};
  int weights_at_[2] = {kNone, kNone};  // rows of blocks
};

// Stores a row. to_code(x) returns the code of element x.
template <class T, class F>
void store_row(const DenoiseFrame& f, int c, int y, F&& to_code) {
  const Component& at = f.task.from.color[c];
  const PlaneLayout& p = f.task.layout.plane[at.plane];
  T* VF_RESTRICT row = row_of<T>(f.dst, at.plane, y) + at.channel;
  const int n = p.width, step = p.pixel_step(), up = f.task.layout.shift;
  if (step == 1)
    for (int x = 0; x < n; x++) row[x] = T(to_code(x) << up);
  else if (step == 2)
    for (int x = 0; x < n; x++) row[2 * x] = T(to_code(x) << up);
  else
    for (int x = 0; x < n; x++) row[size_t(x) * step] = T(to_code(x) << up);
}
template <class F>
void store(const DenoiseFrame& f, int c, int y, F&& to_code) {
  if (f.task.layout.type == Type::u8)
    store_row<uint8_t>(f, c, y, to_code);
  else
    store_row<uint16_t>(f, c, y, to_code);
}

template <int kBytes>
size_t output_plane(const DenoiseFrame& f, int c, int y0, int y1, char* memory) {
  Arena arena(memory);
  Spatial<kBytes> spatial(f, c, rounding_offset(f.task.depth), &arena);
  const int down = 32 - f.task.depth;
  for (int y = y0; y < y1; y++) {
    const uint32_t* VF_RESTRICT v = spatial.row(y);
    store(f, c, y, [=](int x) { return v[x] >> down; });
  }
  return arena.used();
}

template <int kBytes>
size_t output_rgb(const DenoiseFrame& f, int y0, int y1, char* memory) {
  Arena arena(memory);
  Spatial<kBytes> luma(f, 0, 0, &arena), orange(f, 1, 0, &arena), green(f, 2, 0, &arena);
  float* rgb[3];
  for (float*& p : rgb) p = arena.take<float>(f.width[0]);
  const float unit = std::ldexp(1.0f, f.task.depth - 16);
  const float middle = float(1 << (f.task.depth - 1)), top = float((1 << f.task.depth) - 1);
  for (int y = y0; y < y1; y++) {
    const uint32_t *VF_RESTRICT l = luma.row(y), *VF_RESTRICT o = orange.row(y),
                                *VF_RESTRICT g = green.row(y);
    float *VF_RESTRICT r0 = rgb[0], *VF_RESTRICT r1 = rgb[1], *VF_RESTRICT r2 = rgb[2];
    for (int x = 0; x < f.task.width; x++) {
      float v[3];
      to_rgb(number_of(l[x], unit), number_of(o[x], unit), number_of(g[x], unit), v);
      r0[x] = v[0];
      r1[x] = v[1];
      r2[x] = v[2];
    }
    for (int c = 0; c < 3; c++) {
      const float* VF_RESTRICT v = rgb[c];
      store(f, c, y, [=](int x) { return code_of(v[x], middle, top); });
    }
  }
  return arena.used();
}

template <int kBytes>
size_t output_of(const DenoiseFrame& f, int c, int y0, int y1, char* memory) {
  return f.task.from.rgb ? output_rgb<kBytes>(f, y0, y1, memory)
                         : output_plane<kBytes>(f, c, y0, y1, memory);
}
size_t output(const DenoiseFrame& f, int c, int y0, int y1, char* memory) {
  return size_of(f.task.layout.type) == 2 ? output_of<2>(f, c, y0, y1, memory)
                                          : output_of<1>(f, c, y0, y1, memory);
}

size_t scratch(const DenoiseFrame& f) {
  const int last = f.task.from.colors - 1;
  return std::max({update(f, 0, 0, 0, nullptr), first(f, 0, 0, 0, false, nullptr),
                   merge(f, f.current, 0, 0, nullptr), output(f, 0, 0, 0, nullptr),
                   output(f, last, 0, 0, nullptr)});
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {

HWY_EXPORT(scratch);
HWY_EXPORT(update);
HWY_EXPORT(first);
HWY_EXPORT(merge);
HWY_EXPORT(output);

void denoise_update_rows(const DenoiseFrame& f, int b0, int b1, int thread) {
  HWY_DYNAMIC_DISPATCH(update)(f, b0, b1, thread, memory_of(f, thread));
}
void denoise_first_rows(const DenoiseFrame& f, int b0, int b1, int thread, bool count) {
  HWY_DYNAMIC_DISPATCH(first)(f, b0, b1, thread, count, memory_of(f, thread));
}
void denoise_merge_rows(const DenoiseFrame& f, const DenoiseState& later, int b0, int b1,
                        int thread) {
  HWY_DYNAMIC_DISPATCH(merge)(f, later, b0, b1, memory_of(f, thread));
}
void denoise_output_rows(const DenoiseFrame& f, int c, int y0, int y1, int thread) {
  HWY_DYNAMIC_DISPATCH(output)(f, c, y0, y1, memory_of(f, thread));
}
size_t denoise_rows_scratch(const DenoiseFrame& f) {
  return HWY_DYNAMIC_DISPATCH(scratch)(f);
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
