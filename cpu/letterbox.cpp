// Plans the letterbox on the CPU. Making the plan computes where each destination column and row
// reads. The row kernels then make a destination row in stages. They gather the two neighbours of
// each column from a source row, and keep them while the next destination row uses the same source
// row. Then they combine rows, convert and store.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/arena.h"
#include "cpu/letterbox_rows.h"
#include "cpu/letterbox_taps.h"
#include "cpu/queue.h"
#include "filters/letterbox_task.h"
#include "filters/make.h"

namespace vf::cpu {
namespace {

// Converts a float to the bits of an IEEE half, rounded half to even.
uint16_t half_bits(float f) {
  uint32_t u;
  std::memcpy(&u, &f, sizeof u);
  const uint32_t sign = u >> 16 & 0x8000;
  u &= 0x7fffffff;
  if (u >= 0x47800000) return uint16_t(sign | 0x7c00);  // 65536 and up; below, 65520 rounds to it
  // Adding 0.5 leaves a subnormal half in the last bits of a float.
  if (u < 0x38800000) {
    float v;
    std::memcpy(&v, &u, sizeof v);
    v += 0.5f;
    std::memcpy(&u, &v, sizeof u);
    return uint16_t(sign | (u - 0x3f000000));
  }
  u += 0xfff + (u >> 13 & 1);
  return uint16_t(sign | ((u - 0x38000000) >> 13));
}

// The columns of a source component whose neighbours are read in words of 4 bytes.
struct Words {
  int begin = 0, end = 0;  // counted from the first column of the picture
  bool right = false;      // the right neighbour is needed
  bool both = false;       // it is in the word of the left one
};

// Columns of a plane of bytes that are made eight at a time, because the neighbours of four lie in
// 16 bytes.
struct Eights {
  int count = 0;  // number of columns, from the picture's first one on
  std::vector<int> first;
  std::vector<uint8_t> order;
};

// Destination planes of one subsampling, which are made together, row by row.
struct Group {
  int width = 0, height = 0;
  uint8_t components = 0;  // bit k: component k of the destination lies here
  uint8_t sources = 0;     // bit k: component k of the source is needed for it
  bool padding = false;
  AxisTaps x, y;
  Words words[4];  // by source component
  Eights eights;
};

struct Band {
  int group, begin, end;
};

class CpuLetterbox final : public Plan {
 public:
  CpuLetterbox(CpuQueue& queue, const LetterboxTask& task)
      : Plan(queue, task.source, task.destination, Placement::separate),
        queue_(queue),
        t_(task),
        row_(letterbox_row()) {}

  Status prepare() {
    affine_ = t_.rule == LetterboxRule::affine;
    make_groups();
    if (t_.normalised) make_tables();
    // Bands are small enough to share the work evenly, and large enough to reuse gathered rows.
    const int threads = queue_.threads();
    for (int g = 0; g < int(groups_.size()); g++) {
      const int rows = std::max(8, blocks_of(groups_[g].height, 4 * threads));
      for (int y = 0; y < groups_[g].height; y += rows)
        bands_.push_back({g, y, std::min(y + rows, groups_[g].height)});
    }
    pitch_ = 0;
    for (const Group& g : groups_) pitch_ = std::max(pitch_, (g.width + 31) / 32 * 32);
    if (packed()) return prepare_packed();
    for (Group& g : groups_)
      for (int k = 0; k < 4; k++)
        if (g.sources >> k & 1) g.words[k] = find_words(g, k);
    if (row_.fixed_eights && fixed(0))
      for (Group& g : groups_) g.eights = find_eights(g);
    const PlaneLayout& to = t_.destination.plane[0];
    interleaves_ = t_.destination.planes == 1 && t_.destination.type == Type::u8 &&
                   to.channels >= 3 && to.pixel_step() == to.channels;
    return allocate_scratch<Scratch>();
  }

 private:
  // Whether packed 8-bit pixels stay together as long as possible in fixed point: two neighbours
  // have at most 8 bytes.
  bool packed() const {
    const PlaneLayout& p = t_.source.plane[0];
    return t_.source.planes == 1 && groups_.size() == 1 && p.channels >= 3 &&
           p.pixel_step() == p.channels && p.width > 1 && t_.from[1].plane == 0 &&
           t_.from[1].channel != t_.from[0].channel && t_.from[2].plane == 0 && fixed(0);
  }

  Status prepare_packed() {
    const Group& g = groups_[0];
    const int n = g.x.end - g.x.begin, width = t_.x.source, step = t_.source.plane[0].channels;
    for (auto& w : packed_weights_) w.assign(4 * size_t(pitch_), 0);
    packed_first_.assign(n, 0);
    packed_safe_ = n;
    for (int i = 0; i < n; i++) {
      const int x = g.x.begin + i;
      int w[2] = {g.x.luma.fixed[2 * size_t(x)], g.x.luma.fixed[2 * size_t(x) + 1]};
      int first = g.x.luma.lo[x];
      if (first == width - 1) {
        // The last pixel has all of the weight.
        first--;
        std::swap(w[0], w[1]);
      }
      packed_first_[i] = first * step;
      if (first * step + 8 > width * step) packed_safe_ = std::min(packed_safe_, i);
      for (int c = 0; c < 4; c++)
        for (int k = 0; k < 2; k++) packed_weights_[k][4 * size_t(i) + c] = uint16_t(w[k]);
    }
    // Finds the bytes of a pixel that a packed destination of bytes takes.
    const PlaneLayout& to = t_.destination.plane[0];
    packed_out_ = t_.destination.planes == 1 && t_.destination.type == Type::u8 &&
                  to.channels >= 3 && to.pixel_step() == to.channels;
    if (packed_out_) {
      std::fill_n(order_, 16, uint8_t(0x80));
      std::fill_n(ones_, 16, uint8_t(0));
      const auto set = [&](const Component& c, int from) {
        if (c.plane < 0) return;
        for (int i = 0; i < 4; i++) {
          const int at = i * to.channels + c.channel;
          if (at >= 16) continue;
          if (from < 0)
            ones_[at] = 255;
          else
            order_[at] = uint8_t(4 * i + from);
        }
      };
      for (int k = 0; k < 4; k++) set(t_.to[k], t_.from[k].plane < 0 ? -1 : t_.from[k].channel);
      set(t_.padding, -1);
    }
    is_packed_ = true;
    return allocate_scratch<PackedScratch>();
  }

  template <class S>
  Status allocate_scratch() {
    S s;
    scratch_bytes_ = lay_out(nullptr, &s);
    return queue_.allocate(Memory::host, scratch_bytes_ * queue_.threads(), &scratch_);
  }

  // Finds the columns of source component k for which words can be loaded without reading past the
  // row.
  Words find_words(const Group& g, int k) const {
    Words w;
    const PlaneLayout& p = t_.source.plane[t_.from[k].plane];
    const int size = size_of(t_.source.type), step = p.pixel_step() * size;
    if (step > 4 || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__) return w;
    w.right = t_.interpolation == Interpolation::bilinear;
    w.both = w.right && 2 * step <= 4;
    const ResamplingTaps& r = taps(g.x, k);
    const int row = (p.width - 1) * step + p.channels * size;
    const auto good = [&](int i) {
      const int lo = r.lo[g.x.begin + i], hi = r.hi[g.x.begin + i];
      return w.both ? hi == lo + 1 && lo * step + 4 <= row : hi * step + 4 <= row;
    };
    // The neighbours' positions increase from left to right.
    const int n = g.x.end - g.x.begin;
    while (w.begin < n && !good(w.begin)) w.begin++;
    for (w.end = w.begin; w.end < n && good(w.end);) w.end++;
    return w;
  }

  // Finds the columns for which 16 bytes can be loaded without reading past the row.
  Eights find_eights(const Group& g) const {
    Eights e;
    const ResamplingTaps& r = g.x.luma;
    const int *lo = &r.lo[g.x.begin], *hi = &r.hi[g.x.begin], n = g.x.end - g.x.begin;
    const auto fits = [&](int i) { return hi[i + 3] - lo[i] < 16 && lo[i] + 16 <= t_.x.source; };
    while (e.count + 8 <= n && fits(e.count) && fits(e.count + 4)) e.count += 8;
    for (int i = 0; i < e.count; i += 4) {
      e.first.push_back(lo[i]);
      for (int j = i; j < i + 4; j++)
        for (const int neighbour : {lo[j], hi[j]})
          e.order.insert(e.order.end(), {uint8_t(neighbour - lo[i]), uint8_t(0x80)});
    }
    return e;
  }

  // Finds the source rows that row y needs. A row without weight is not read, which happens when
  // the picture shrinks to a third.
  static void fixed_rows(const Group& g, int y, int (&rows)[2]) {
    const ResamplingTaps& r = g.y.luma;
    rows[0] = r.fixed[2 * size_t(y)] ? r.lo[y] : r.hi[y];
    rows[1] = r.fixed[2 * size_t(y) + 1] ? r.hi[y] : rows[0];
  }

  struct PackedScratch {
    uint8_t* pairs;
    int16_t* row[2];
    uint8_t* bytes;
    uint16_t* code[4];
    int held[2] = {-1, -1};
  };

  // Takes the arrays of `s` from a thread's memory, and returns the bytes that they need.
  size_t lay_out(char* memory, PackedScratch* s) const {
    Arena arena(memory);
    const size_t n = pitch_;
    s->pairs = arena.take<uint8_t>(8 * n);
    for (int16_t*& row : s->row) row = arena.take<int16_t>(4 * n);
    for (uint16_t*& code : s->code) code = arena.take<uint16_t>(n);
    s->bytes = arena.take<uint8_t>(4 * n);
    return arena.used();
  }

  // Resamples row y of the source into the slot of its parity, so that rows that are used again
  // stay in place.
  void packed_row(const Image& src, int y, PackedScratch* s) const {
    if (s->held[y & 1] == y) return;
    s->held[y & 1] = y;
    const int n = int(packed_first_.size()), step = t_.source.plane[0].channels;
    const auto* in = row_of<const uint8_t>(src, 0, y);
    for (int i = 0; i < packed_safe_; i++) std::memcpy(s->pairs + 8 * i, in + packed_first_[i], 8);
    for (int i = packed_safe_; i < n; i++)
      std::memcpy(s->pairs + 8 * i, in + packed_first_[i], 2 * size_t(step));
    row_.packed_rows(s->pairs, step, packed_weights_[0].data(), packed_weights_[1].data(), n,
                     s->row[y & 1]);
  }

  void packed_line(const Image& src, const Image& dst, int y, PackedScratch* s) const {
    const Group& g = groups_[0];
    const int n = g.x.end - g.x.begin;
    int rows[2];
    fixed_rows(g, y, rows);
    for (const int row : rows) packed_row(src, row, s);
    row_.packed_columns(s->row[rows[0] & 1], s->row[rows[1] & 1], g.y.luma.fixed[2 * size_t(y)],
                        g.y.luma.fixed[2 * size_t(y) + 1], 4 * n, s->bytes);
    if (packed_out_) {
      const int step = t_.destination.plane[0].channels;
      row_.pack(s->bytes, order_, ones_, step, n,
                row_of<uint8_t>(dst, 0, y) + ptrdiff_t(g.x.begin) * step);
      return;
    }
    for (int k = 0; k < 4; k++) {
      if (!(g.components >> k & 1)) continue;
      if (t_.from[k].plane < 0) {
        std::fill_n(s->code[k], n, uint16_t(t_.max_value));
      } else {
        const uint8_t* in = s->bytes + t_.from[k].channel;
        for (int i = 0; i < n; i++) s->code[k][i] = in[4 * i];
      }
      store(dst, k, y, g.x.begin, n, s->code[k]);
    }
  }

  struct Scratch {
    float* gathered[4][2][2];  // component, slot, left or right
    float* sample[4];
    uint16_t *code[4], *nothing;
    int held[4][2];         // source row in a slot; -1 is the fill, -2 none
    uint32_t* words[2][2];  // slot, left or right
    int words_plane = -1, words_row[2];
    float* sums;  // area: sums over the rows of one plane
    int summed_plane = -1, summed_row = -1;
    float outside = 0;  // their weight outside the picture
  };

  bool fixed(int k) const {
    const PlaneLayout& l = t_.source.plane[t_.from[k].plane];
    return t_.copies && !affine_ && t_.source.type == Type::u8 &&
           t_.interpolation == Interpolation::bilinear && !l.sub_x && !l.sub_y;
  }

  bool subsampled(int k) const {
    const PlaneLayout& l = t_.source.plane[t_.from[k].plane];
    return l.sub_x || l.sub_y;
  }

  const ResamplingTaps& taps(const AxisTaps& a, int k) const {
    return subsampled(k) ? a.chroma : a.luma;
  }

  void make_groups() {
    const PlaneLayout* chroma = nullptr;
    for (int k = 1; k < 3; k++)
      if (t_.from[k].plane >= 0 && subsampled(k)) chroma = &t_.source.plane[t_.from[k].plane];
    std::vector<std::pair<int, int>> subs;
    const auto group_of = [&](int plane) -> Group& {
      const PlaneLayout& l = t_.destination.plane[plane];
      const std::pair<int, int> sub{l.sub_x, l.sub_y};
      const auto found = std::find(subs.begin(), subs.end(), sub);
      if (found != subs.end()) return groups_[found - subs.begin()];
      subs.push_back(sub);
      groups_.emplace_back();
      Group& g = groups_.back();
      g.width = l.width;
      g.height = l.height;
      g.x = letterbox_taps(t_, t_.x, true, l.width, l.sub_x, chroma ? chroma->sub_x : -1,
                           chroma ? chroma->width : 0);
      g.y = letterbox_taps(t_, t_.y, false, l.height, l.sub_y, chroma ? chroma->sub_y : -1,
                           chroma ? chroma->height : 0);
      return g;
    };
    for (int k = 0; k < 4; k++) {
      if (t_.to[k].plane < 0) continue;
      Group& g = group_of(t_.to[k].plane);
      g.components |= uint8_t(1 << k);
      if (t_.copies || k == 3)
        g.sources |= uint8_t(t_.from[k].plane >= 0 ? 1 << k : 0);
      else
        for (int j = 0; j < 3; j++) g.sources |= uint8_t(t_.from[j].plane >= 0 ? 1 << j : 0);
    }
    if (t_.padding.plane >= 0) group_of(t_.padding.plane).padding = true;
  }

  void make_tables() {
    for (int k = 0; k < 4; k++)
      for (int x = 0; x < 256; x++) {
        const float v = float(x) - t_.subtract[k], q = v * t_.reciprocal[k];
        const float y = std::fma(std::fma(-q, t_.divide[k], v), t_.reciprocal[k], q);
        table_[k][x] = y;
        half_table_[k][x] = half_bits(y);
      }
  }

  size_t lay_out(char* memory, Scratch* s) const {
    Arena arena(memory);
    const size_t n = pitch_;
    for (int k = 0; k < 4; k++) {
      for (auto& slot : s->gathered[k])
        for (float*& p : slot) p = arena.take<float>(n);
      s->sample[k] = arena.take<float>(n);
      s->code[k] = arena.take<uint16_t>(n);
    }
    for (auto& slot : s->words)
      for (uint32_t*& p : slot) p = arena.take<uint32_t>(n);
    s->nothing = arena.take<uint16_t>(n);
    if (t_.interpolation != Interpolation::area) return arena.used();
    size_t longest = 0;
    for (int p = 0; p < t_.source.planes; p++)
      longest =
          std::max(longest, size_t(t_.source.plane[p].width) * t_.source.plane[p].pixel_step());
    s->sums = arena.take<float>(longest + 3);  // add_columns() reads up to 3 values more
    return arena.used();
  }

  Scratch scratch(int thread) const {
    Scratch s;
    lay_out(scratch_.as<char>() + scratch_bytes_ * thread, &s);
    std::fill_n(s.nothing, pitch_, uint16_t(255));
    for (auto& held : s.held) held[0] = held[1] = -2;
    return s;
  }

  const uint8_t* source_row(const Image& src, int k, int y) const {
    const Component c = t_.from[k];
    return row_of<const uint8_t>(src, c.plane, y) + c.channel * size_of(t_.source.type);
  }

  // Gathers the neighbours that are read in words. Words are loaded once for all components of a
  // plane.
  void spread_words(const Image& src, const Group& g, int k, int y, float* left, float* right,
                    Scratch* s) const {
    const Words& w = g.words[k];
    const int p = t_.from[k].plane, n = w.end - w.begin, size = size_of(t_.source.type);
    const int step = t_.source.plane[p].pixel_step();
    uint32_t* const* const words = s->words[y & 1];
    if (s->words_plane != p) s->words_row[0] = s->words_row[1] = -1;
    s->words_plane = p;
    if (s->words_row[y & 1] != y) {
      s->words_row[y & 1] = y;
      const auto* in = row_of<const uint8_t>(src, p, y);
      const ResamplingTaps& r = taps(g.x, k);
      const int first = g.x.begin + w.begin;
      row_.load_words(in, step * size, &r.lo[first], n, words[0]);
      if (w.right && !w.both) row_.load_words(in, step * size, &r.hi[first], n, words[1]);
    }
    const int from = t_.from[k].channel * 8 * size + t_.source.shift;
    const uint32_t mask = ((1u << 8 * size) - 1) >> t_.source.shift;
    row_.spread(words[0], from, mask, n, left + w.begin);
    if (w.right)
      row_.spread(words[!w.both], from + (w.both ? step * 8 * size : 0), mask, n, right + w.begin);
  }

  static void swap_slots(int k, Scratch* s) {
    for (int i = 0; i < 2; i++) std::swap(s->gathered[k][0][i], s->gathered[k][1][i]);
    std::swap(s->held[k][0], s->held[k][1]);
  }

  // Gathers the neighbours of all columns in a row of component k. A y of -1 is a row of fill.
  void gather(const Image& src, const Group& g, int k, int y, int slot, Scratch* s) const {
    if (s->held[k][slot] == y) return;
    if (s->held[k][!slot] == y) return swap_slots(k, s);
    s->held[k][slot] = y;
    float *left = s->gathered[k][slot][0], *right = s->gathered[k][slot][1];
    const int begin = g.x.begin, n = g.x.end - begin;
    const ResamplingTaps& r = taps(g.x, k);
    if (y < 0) {
      std::fill_n(left, n, t_.source_fill[k]);
      std::fill_n(right, n, t_.source_fill[k]);
      return;
    }
    const int step = t_.source.plane[t_.from[k].plane].pixel_step();
    const auto one_by_one = [&](int i, int end) {
      if (i == end) return;
      row_.gather[size_of(t_.source.type) - 1](source_row(src, k, y), step, t_.source.shift,
                                               &r.lo[begin + i], &r.hi[begin + i], end - i,
                                               left + i, right + i);
    };
    const Words& w = g.words[k];
    if (w.begin < w.end) spread_words(src, g, k, y, left, right, s);
    one_by_one(0, w.begin);
    one_by_one(w.end, n);
    for (int i = 0; i < n && r.outside[begin + i] & 1; i++) left[i] = t_.source_fill[k];
    for (int i = n - 1; i >= 0 && r.outside[begin + i] & 2; i--) right[i] = t_.source_fill[k];
  }

  void bilinear(const Image& src, const Group& g, int k, int y, Scratch* s) const {
    const ResamplingTaps& r = taps(g.y, k);
    const int begin = g.x.begin, n = g.x.end - begin;
    int rows[2] = {r.outside[y] & 1 ? -1 : r.lo[y], r.outside[y] & 2 ? -1 : r.hi[y]};
    // A row without weight is not read, which happens when the picture shrinks to a third.
    if (r.weight[y] == 0) rows[1] = rows[0];
    // If the other slot holds a row, swap the slots before it is overwritten.
    if (s->held[k][1] == rows[0] && s->held[k][0] != rows[0]) swap_slots(k, s);
    gather(src, g, k, rows[0], 0, s);
    int bottom = 1;
    if (rows[1] == rows[0])
      bottom = 0;
    else
      gather(src, g, k, rows[1], 1, s);
    const ResamplingTaps& rx = taps(g.x, k);
    row_.mix(s->gathered[k][0][0], s->gathered[k][0][1], s->gathered[k][bottom][0],
             s->gathered[k][bottom][1], &rx.weight[begin], r.weight[y], n, s->sample[k]);
    if (affine_ && subsampled(k)) fade(g, k, y, s);
  }

  // Chroma fades into the fill by the weight of luma neighbours that lie outside the picture.
  void fade(const Group& g, int k, int y, Scratch* s) const {
    const int begin = g.x.begin, n = g.x.end - begin;
    const ResamplingTaps &lx = g.x.luma, &ly = g.y.luma;
    const auto at = [&](int i) {
      const int x = begin + i;
      const float fx = lx.weight[x], hx = 1 - fx, fy = ly.weight[y], hy = 1 - fy;
      const int ox = lx.outside[x], oy = ly.outside[y];
      const auto out = [](int a, int b) { return float((a | b) & 1); };
      const float outside = hy * hx * out(ox, oy) + hy * fx * out(ox >> 1, oy) +
                            fy * hx * out(ox, oy >> 1) + fy * fx * out(ox >> 1, oy >> 1);
      const float sample = s->sample[k][i], change = outside * (t_.source_fill[k] - sample);
      s->sample[k][i] = sample + change;
    };
    if (ly.outside[y]) {
      for (int i = 0; i < n; i++) at(i);
      return;
    }
    int left = 0;
    for (; left < n && lx.outside[begin + left] & 1; left++) at(left);
    for (int i = n - 1; i >= left && lx.outside[begin + i]; i--) at(i);
  }

  void nearest(const Image& src, const Group& g, int k, int y, Scratch* s) const {
    gather(src, g, k, taps(g.y, k).lo[y], 0, s);
    std::copy_n(s->gathered[k][0][0], g.x.end - g.x.begin, s->sample[k]);
  }

  // Adds up the rows that row y covers, for all components of a plane at once.
  void area_rows(const Image& src, const Group& g, int k, int y, Scratch* s) const {
    const int p = t_.from[k].plane;
    s->summed_plane = p;
    s->summed_row = y;
    const ResamplingTaps& ry = taps(g.y, k);
    const PlaneLayout& l = t_.source.plane[p];
    const int n = (l.width - 1) * l.pixel_step() + l.channels;
    std::fill_n(s->sums, n + 3, 0.0f);
    s->outside = 0;
    for (int j = ry.first[y]; j < ry.first[y + 1]; j++) {
      if (ry.index[j] < 0) {
        s->outside += ry.share[j];
        continue;
      }
      row_.add[size_of(t_.source.type) - 1](row_of<uint8_t>(src, p, ry.index[j]), t_.source.shift,
                                            ry.share[j], n, s->sums);
    }
  }

  // Adds up the rows of k's plane, and the columns of all its components from k on that read in the
  // same way.
  void area_plane(const Image& src, const Group& g, int k, int y, Scratch* s) const {
    const int p = t_.from[k].plane;
    if (s->summed_plane == p && s->summed_row == y) return;
    area_rows(src, g, k, y, s);
    const ResamplingTaps& rx = taps(g.x, k);
    const int begin = g.x.begin, n = g.x.end - begin;
    const int step = t_.source.plane[p].pixel_step();
    float* out[4] = {};
    for (int c = k; c < 4; c++)
      if (g.sources >> c & 1 && t_.from[c].plane == p && !out[t_.from[c].channel])
        out[t_.from[c].channel] = s->sample[c];
    // Columns that show the fill are at both ends, and each component has its own fill.
    const auto sees_fill = [&](int i) {
      const int x = begin + i;
      return rx.first[x] < rx.first[x + 1] &&
             (rx.index[rx.first[x]] < 0 || rx.index[rx.first[x + 1] - 1] < 0);
    };
    int from = 0, to = n;
    if (s->outside > 0) from = n;
    while (from < n && sees_fill(from)) from++;
    while (to > from && sees_fill(to - 1)) to--;
    float* inner[4];
    for (int c = 0; c < 4; c++) inner[c] = out[c] ? out[c] + from : nullptr;
    row_.add_columns(s->sums, step, t_.source.plane[p].channels, &rx.first[begin + from],
                     rx.index.data(), rx.share.data(), to - from, inner);
    for (int c = k; c < 4; c++) {
      if (!(g.sources >> c & 1) || t_.from[c].plane != p) continue;
      const float* sums = s->sums + t_.from[c].channel;
      const float fill = t_.source_fill[c], fill_rows = s->outside * fill;
      const auto add = [&](int i) {
        float sum = 0;
        for (int t = rx.first[begin + i]; t < rx.first[begin + i + 1]; t++) {
          const int x = rx.index[t];
          sum += rx.share[t] * (x < 0 ? fill : sums[ptrdiff_t(x) * step] + fill_rows);
        }
        s->sample[c][i] = sum;
      };
      // Three colours read a gray source.
      if (out[t_.from[c].channel] != s->sample[c])
        std::copy_n(inner[t_.from[c].channel], to - from, s->sample[c] + from);
      for (int i = 0; i < from; i++) add(i);
      for (int i = to; i < n; i++) add(i);
    }
  }

  void area(const Image& src, const Group& g, int k, int y, Scratch* s) const {
    area_plane(src, g, k, y, s);
    const int begin = g.x.begin, n = g.x.end - begin;
    float* out = s->sample[k];
    if (!affine_ || !subsampled(k)) return;
    const auto inside = [](const ResamplingTaps& r, int i) {
      float sum = 0;
      for (int t = r.first[i]; t < r.first[i + 1]; t++) sum += r.index[t] < 0 ? 0 : r.share[t];
      return sum;
    };
    const float in_y = inside(g.y.luma, y);
    for (int i = 0; i < n; i++)
      out[i] += (1 - in_y * inside(g.x.luma, begin + i)) * (t_.source_fill[k] - out[i]);
  }

  // Computes the horizontal products of component k for one source row. A row's slot is its parity,
  // so that rows that are used again stay in place.
  void fixed_row(const Image& src, const Group& g, int k, int y, Scratch* s) const {
    const int slot = y & 1;
    if (s->held[k][slot] == y) return;
    s->held[k][slot] = y;
    const int step = t_.source.plane[t_.from[k].plane].pixel_step();
    const int begin = g.x.begin, n = g.x.end - begin;
    const auto* in = source_row(src, k, y);
    const int16_t* weights = &g.x.luma.fixed[2 * size_t(begin)];
    const Eights& e = g.eights;
    const int done = step == 1 ? e.count : 0;
    if (done)
      row_.fixed_eights(in, e.first.data(), e.order.data(), weights, done, fixed_out(s, k, slot));
    row_.fixed_rows(in, step, &g.x.luma.lo[begin + done], &g.x.luma.hi[begin + done],
                    weights + 2 * size_t(done), n - done, fixed_out(s, k, slot) + done);
  }

  static int16_t* fixed_out(Scratch* s, int k, int slot) {
    return reinterpret_cast<int16_t*>(s->gathered[k][slot][0]);
  }

  void fixed_bilinear(const Image& src, const Group& g, int k, int y, Scratch* s) const {
    const ResamplingTaps& r = g.y.luma;
    int rows[2];
    fixed_rows(g, y, rows);
    for (const int row : rows) fixed_row(src, g, k, row, s);
    row_.fixed_columns(fixed_out(s, k, rows[0] & 1), fixed_out(s, k, rows[1] & 1),
                       r.fixed[2 * size_t(y)], r.fixed[2 * size_t(y) + 1], g.x.end - g.x.begin,
                       s->code[k]);
  }

  void sample(const Image& src, const Group& g, int k, int y, Scratch* s) const {
    switch (t_.interpolation) {
      case Interpolation::bilinear:
        return bilinear(src, g, k, y, s);
      case Interpolation::nearest:
        return nearest(src, g, k, y, s);
      case Interpolation::area:
        return area(src, g, k, y, s);
    }
  }

  void picture(const Image& src, const Group& g, int y, Scratch* s) const {
    const int n = g.x.end - g.x.begin;
    for (int k = 0; k < 4; k++) {
      if (!(g.sources >> k & 1)) continue;
      if (fixed(k))
        fixed_bilinear(src, g, k, y, s);
      else
        sample(src, g, k, y, s);
    }
    for (int k = 0; k < 4; k++) {
      if (!(g.components >> k & 1)) continue;
      if (k == 3 && t_.from[3].plane < 0)
        std::fill_n(s->code[3], n, uint16_t(t_.max_value));
      else if (t_.copies ? !fixed(k) : k == 3)
        row_.round(s->sample[k], t_.copies ? 1.0f : t_.alpha_scale, t_.max_value, n, s->code[k]);
      else if (!t_.copies) {
        // A gray source has one component. The other coefficients are 0.
        const float* in[3];
        for (int j = 0; j < 3; j++) in[j] = s->sample[t_.from[j].plane >= 0 ? j : 0];
        row_.convert(in, t_.matrix[k], t_.offset[k], t_.max_value, n, s->code[k]);
      }
    }
  }

  // Writes codes to columns [begin, begin + n) of a row of a component.
  void put(const Image& dst, Component c, int y, int begin, int n, const uint16_t* code) const {
    const int step = t_.destination.plane[c.plane].pixel_step(),
              size = size_of(t_.destination.type);
    uint8_t* const row = row_of<uint8_t>(dst, c.plane, y);
    row_.store[size - 1](code, t_.destination.shift, n,
                         row + (ptrdiff_t(begin) * step + c.channel) * size, step);
  }

  // Does the same for destination component k, which may be that of a float tensor.
  void store(const Image& dst, int k, int y, int begin, int n, const uint16_t* code) const {
    const Component c = t_.to[k];
    if (!t_.normalised) return put(dst, c, y, begin, n, code);
    const int step = t_.destination.plane[c.plane].pixel_step();
    const ptrdiff_t at = ptrdiff_t(begin) * step + c.channel;
    float* const row = row_of<float>(dst, c.plane, y);
    if (t_.half_float)
      row_.look_up_u16(code, half_table_[k], n, reinterpret_cast<uint16_t*>(row) + at, step);
    else if (step == 1 && row_.normalise)
      row_.normalise(code, t_.subtract[k], t_.divide[k], t_.reciprocal[k], n, row + at);
    else
      row_.look_up_f32(code, table_[k], n, row + at, step);
  }

  void store_picture(const Image& dst, const Group& g, int y, const Scratch& s) const {
    const int n = g.x.end - g.x.begin;
    if (!interleaves_) {
      for (int k = 0; k < 4; k++)
        if (g.components >> k & 1) store(dst, k, y, g.x.begin, n, s.code[k]);
      return;
    }
    const int channels = t_.destination.plane[0].channels;
    const uint16_t* code[4] = {s.nothing, s.nothing, s.nothing, s.nothing};
    for (int k = 0; k < 4; k++)
      if (t_.to[k].plane >= 0) code[t_.to[k].channel] = s.code[k];
    row_.interleave_u8(code, channels, n,
                       row_of<uint8_t>(dst, 0, y) + ptrdiff_t(g.x.begin) * channels);
  }

  void border(const Image& dst, const Group& g, int y, int begin, int end, uint16_t* code) const {
    if (begin >= end) return;
    for (int k = 0; k < 4; k++) {
      if (!(g.components >> k & 1)) continue;
      std::fill_n(code, end - begin, uint16_t(t_.fill[k]));
      store(dst, k, y, begin, end - begin, code);
    }
  }

  // Sets all bits of the component without content.
  void padding(const Image& dst, const Group& g, int y, uint16_t* code) const {
    const bool bytes = t_.destination.type == Type::u8;
    std::fill_n(code, g.width, uint16_t(bytes ? 255 : 65535 >> t_.destination.shift));
    put(dst, t_.padding, y, 0, g.width, code);
  }

  // Writes the rows of a band. line(y) writes the picture's part of a row and, with `pads`, also the
  // padding.
  template <class Line>
  void write(const Image& dst, const Band& band, bool pads, uint16_t* code,
             const Line& line) const {
    const Group& g = groups_[band.group];
    for (int y = band.begin; y < band.end; y++) {
      const bool shows = y >= g.y.begin && y < g.y.end && g.x.begin < g.x.end;
      if (g.padding && !(shows && pads)) padding(dst, g, y, code);
      border(dst, g, y, 0, shows ? g.x.begin : g.width, code);
      if (!shows) continue;
      line(y);
      border(dst, g, y, g.x.end, g.width, code);
    }
  }

  Status enqueue(const Image& src, const Image& dst) override {
    queue_.parallel(int(bands_.size()), [&](int task, int thread) {
      const Band& band = bands_[task];
      const Group& g = groups_[band.group];
      if (is_packed_) {
        PackedScratch s;
        lay_out(scratch_.as<char>() + scratch_bytes_ * thread, &s);
        const bool pads = packed_out_ && g.x.begin == 0 && g.x.end == g.width;
        write(dst, band, pads, s.code[0], [&](int y) { packed_line(src, dst, y, &s); });
        return;
      }
      Scratch s = scratch(thread);
      write(dst, band, false, s.code[0], [&](int y) {
        picture(src, g, y, &s);
        store_picture(dst, g, y, s);
      });
    });
    return {};
  }

  CpuQueue& queue_;
  LetterboxTask t_;
  LetterboxRow row_;
  bool affine_ = false, interleaves_ = false, is_packed_ = false, packed_out_ = false;
  std::vector<int> packed_first_;  // offset of a column's pair of pixels in bytes
  int packed_safe_ = 0;            // first column whose 8 bytes reach past the row
  std::vector<uint16_t> packed_weights_[2];
  uint8_t order_[16] = {}, ones_[16] = {};
  std::vector<Group> groups_;
  std::vector<Band> bands_;
  float table_[4][256] = {};
  uint16_t half_table_[4][256] = {};
  int pitch_ = 0;
  size_t scratch_bytes_ = 0;
  Allocation scratch_;
};

}  // namespace

Status make_letterbox(Queue& queue, const LetterboxTask& task, std::unique_ptr<Plan>* out) {
  return make_prepared<CpuLetterbox, CpuQueue>(queue, task, out);
}

}  // namespace vf::cpu
