// The median on the CPU has three ways. Each works on a copy of the plane with its border, so
// filtering in place costs nothing more.
//
//   networks    filter small windows of any type. A value of the network of
//               filters/median_network.h is a row of vectors, so that an operation is fetched once
//               for many pixels. Tiles of four columns need every fourth pixel in sequence, so the
//               rows of the copy are split into four parts and the results joined again.
//   thresholds  filter large windows of u8. For a threshold t, columns count the pixels below it.
//               They add the row that enters and subtract the row that leaves, and windows count
//               columns in the same way. The median is the number of thresholds in 1 to 255 for
//               which at most half of the window is below. Column c is in lane c / words of group
//               c % words, so that the windows of all lanes slide at once. The 15 multiples of 16
//               come first. Other thresholds are counted only if a median of the band has their
//               upper four bits.
//   histograms  filter everything else. One window slides along a row, and sums over runs of
//               counters lead to the median. Floats are replaced by their ranks first.
//
// With Border::shrink, networks and thresholds make the middle of the frame, and histograms make
// the edges. With a threshold parameter, pixels of the copy that are no outliers replace the
// medians afterwards. The extremes of a window come from the extremes of its columns.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/arena.h"
#include "cpu/median_rows.h"
#include "cpu/queue.h"
#include "filters/make.h"
#include "filters/median_network.h"
#include "filters/median_task.h"

namespace vf::cpu {
namespace {

// Networks filter windows of at most so many pixels. With two threads and AVX-512, 1080p gray u8
// takes 28 ms by a network and 34 ms by thresholds at 15 x 15, and 55 ms and 36 ms at 21 x 21.
constexpr int kMaxNetworkU8 = 17 * 17;
constexpr int kMaxNetworkWide = 31 * 31;  // for u16 and f32
constexpr int kMaxWords = 31;             // in a block of thresholds
constexpr size_t kSlotCache = 32 << 10;   // bytes for a network's values
constexpr int kTileColumns = 1024;        // limits the ranks of a histogram task
constexpr size_t kSlack = 2048;           // bytes that vectors may touch behind a row
constexpr int kBandsPerThread = 4;

// Returns an unsigned key in the order of the floats. NaN is last, as in the reference.
uint32_t float_key(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
uint32_t float_bits(uint32_t key) {
  if (key == 0xffffffffu) return 0x7fffffffu;
  return key & 0x80000000u ? key ^ 0x80000000u : ~key;
}

// Returns the border that pads the copy. With Border::shrink no result depends on it.
Border padding_of(Border border) {
  return border == Border::shrink ? Border::replicate : border;
}

struct Rect {
  int x0, y0, x1, y1;
};

enum class Way { copy, network, threshold, histogram };

// Components of a plane that are filtered together: either all channels if they are adjacent, or
// one.
struct Unit {
  int first, components;
  uint8_t mask;  // bit c: component c is written
};

// Returns the component that is number `n`, from 0 on, of those that are written.
int component_of(const Unit& u, int n) {
  int component = -1;
  for (; n >= 0; n -= u.mask >> component & 1) component++;
  return component;
}

struct PlanePlan {
  PlaneLayout layout;
  MedianPlane median;
  Way way = Way::copy;
  std::vector<Unit> units;
  std::vector<Rect> rects;  // where histograms make the median
  uint8_t copied = 0;       // channels
  int tile_x = 1, tile_y = 1;
  bool three = false;  // 3 x 3 directly from the source, unless in place
  MedianProgram program;
  // Rows of the copy have tile_x parts.
  int rows = 0;
  size_t part = 0, pitch = 0;  // bytes
  int words = 0, band = 0;     // thresholds
};

// Compiles a network to steps in runs of one kind. Each live value has a slot, and the slot that
// was freed last is used first.
MedianProgram compile(const MedianNetwork& net, size_t pixel_bytes, size_t part, size_t pitch) {
  using Op = MedianNetwork::Op;
  const int n = int(net.ops.size());
  std::vector<int> last(n, -1), partner(n, -1);
  std::vector<std::pair<std::pair<int, int>, int>> seen;
  for (int i = 0; i < n; i++) {
    const Op& op = net.ops[i];
    if (!op.compares()) continue;
    last[op.a] = last[op.b] = i;
    seen.push_back({{op.a, op.b}, i});
  }
  std::sort(seen.begin(), seen.end());
  for (size_t i = 0; i + 1 < seen.size(); i++)
    if (seen[i].first == seen[i + 1].first) {
      partner[seen[i].second] = seen[i + 1].second;
      partner[seen[i + 1].second] = seen[i].second;
    }
  for (const int v : net.outputs) last[v] = n;  // outputs live to the end
  std::vector<uint32_t> slot(n, 0);
  std::vector<uint32_t> free_slots;
  std::vector<char> made(n, 0);
  MedianProgram program;
  uint32_t slots = 0;
  const auto take = [&] {
    if (free_slots.empty()) return slots++;
    const uint32_t s = free_slots.back();
    free_slots.pop_back();
    return s;
  };
  const auto operand = [&](int v) -> MedianProgram::Operand {
    const Op& op = net.ops[v];
    if (op.kind == Op::load)
      return {1,
              uint32_t(op.a * pitch + op.b % net.tile_x * part + op.b / net.tile_x * pixel_bytes)};
    return {0, slot[v]};
  };
  for (int i = 0; i < n; i++) {
    const Op& op = net.ops[i];
    if (op.kind == Op::load || made[i]) continue;
    MedianProgram::Step step{operand(op.a), operand(op.b), 0, 0};
    const int other = partner[i];
    // Minimum and maximum of a pair are made in one step, so a value whose last use is either of
    // them is dead now.
    for (const int v : {op.a, op.b}) {
      if (net.ops[v].kind == Op::load || last[v] == n) continue;
      if (last[v] == i || (other >= 0 && last[v] == other)) {
        free_slots.push_back(slot[v]);
        last[v] = -1;
      }
    }
    slot[i] = take();
    made[i] = 1;
    MedianProgram::Kind kind =
        op.kind == Op::minimum ? MedianProgram::minimum : MedianProgram::maximum;
    if (other >= 0) {
      slot[other] = take();
      made[other] = 1;
      kind = MedianProgram::exchange;
      step.low = op.kind == Op::minimum ? slot[i] : slot[other];
      step.high = op.kind == Op::minimum ? slot[other] : slot[i];
    } else {
      step.low = step.high = slot[i];
    }
    if (program.runs.empty() || program.runs.back().kind != kind) program.runs.push_back({kind, 0});
    program.runs.back().count++;
    program.steps.push_back(step);
  }
  for (const int v : net.outputs) program.outputs.push_back(operand(v));
  while (program.chunk > kMedianMinChunk && slots * program.chunk > kSlotCache) program.chunk /= 2;
  const uint32_t chunk = uint32_t(program.chunk);
  const auto place = [&](MedianProgram::Operand& o) {
    if (!o.plane) o.offset *= chunk;
  };
  for (MedianProgram::Step& s : program.steps) {
    place(s.a);
    place(s.b);
    s.low *= chunk;
    s.high *= chunk;
  }
  for (MedianProgram::Operand& o : program.outputs) place(o);
  program.slot_bytes = slots * program.chunk;
  return program;
}

// Counts keys, and keeps sums over runs of keys for the search.
class Histogram {
 public:
  static size_t bytes(size_t keys) {
    return 2 * (round_up(keys, 64) + sums(keys, 0) + sums(keys, 1));
  }
  Histogram(void* memory, size_t keys) : keys_(keys) {
    counts_ = static_cast<uint16_t*>(memory);
    middle_ = counts_ + round_up(keys, 64);
    top_ = middle_ + sums(keys, 0);
    shift_ = shift(keys);
    std::memset(memory, 0, bytes(keys));
  }
  void clear() { std::memset(counts_, 0, bytes(keys_)); }
  void change(uint32_t key, int by) {
    counts_[key] = uint16_t(counts_[key] + by);
    middle_[key >> shift_] = uint16_t(middle_[key >> shift_] + by);
    top_[key >> 2 * shift_] = uint16_t(top_[key >> 2 * shift_] + by);
  }
  // Returns the key of rank `rank`, which must be less than the number of counted keys.
  uint32_t find(int rank) const {
    uint32_t i = 0;
    while (rank >= top_[i]) rank -= top_[i++];
    i <<= shift_;
    while (rank >= middle_[i]) rank -= middle_[i++];
    i <<= shift_;
    while (rank >= counts_[i]) rank -= counts_[i++];
    return i;
  }

 private:
  static int shift(size_t keys) {
    int s = 1;
    while (size_t{1} << 3 * s < keys) s++;
    return s;
  }
  static size_t sums(size_t keys, int level) {
    return round_up((keys >> shift(keys) * (level + 1)) + 1, 64);
  }
  size_t keys_;
  uint16_t *counts_, *middle_, *top_;
  int shift_;
};

class CpuMedian final : public Plan {
 public:
  CpuMedian(CpuQueue& queue, const MedianTask& task)
      : Plan(queue, task.layout, task.layout, task.placement),
        pool_(queue),
        task_(task),
        type_(task.layout.type),
        size_(size_of(task.layout.type)) {}

  Status prepare() {
    size_t copy = 0;
    scratch_ = kSlack;
    for (int i = 0; i < task_.layout.planes; i++) {
      PlanePlan& p = plan_[i];
      choose(i, &p);
      if (p.way == Way::copy) continue;
      copy = std::max(copy, p.rows * p.pitch + kSlack);
      Arena arena(nullptr);
      arrays(p, arena);
      scratch_ = std::max(scratch_, arena.used());
    }
    scratch_ = round_up(scratch_, 256);
    if (copy) {
      VF_TRY(pool_.allocate(Memory::host, copy, &copy_));
      VF_TRY(pool_.allocate(Memory::host, scratch_ * pool_.threads(), &threads_));
      std::memset(threads_.data(), 0, scratch_ * pool_.threads());
    }
    return {};
  }

 private:
  int index_of_size() const { return size_ == 1 ? 0 : size_ == 2 ? 1 : 2; }

  void choose(int index, PlanePlan* out) {
    PlanePlan& p = *out;
    p.layout = task_.layout.plane[index];
    p.median = task_.plane[index];
    const PlaneLayout& l = p.layout;
    const uint8_t all = uint8_t((1 << l.channels) - 1);
    const uint8_t mask = p.median.copies() ? uint8_t(0) : p.median.channels;
    p.copied = all & ~mask;
    if (!mask) return;
    const int filtered = __builtin_popcount(mask);
    if (l.pixel_step() == l.channels && 2 * filtered > l.channels) {
      p.units.push_back({0, l.channels, mask});
    } else {
      for (int c = 0; c < l.channels; c++)
        if (mask >> c & 1) p.units.push_back({c, 1, 1});
    }
    const int kw = p.median.size_x, kh = p.median.size_y, w = l.width, h = l.height;
    const int rx = kw / 2, ry = kh / 2;
    const bool shrink = task_.border == Border::shrink;
    const bool u8 = type_ == Type::u8;
    if (shrink && (w < kw || h < kh)) {
      p.way = Way::histogram;
    } else if (kw * kh <= (u8 ? kMaxNetworkU8 : kMaxNetworkWide)) {
      p.way = Way::network;
    } else {
      p.way = u8 ? Way::threshold : Way::histogram;
    }
    if (p.way == Way::histogram) {
      p.rects.push_back({0, 0, w, h});
    } else if (shrink) {
      const int right = std::max(rx, w - rx), bottom = std::max(ry, h - ry);
      for (const Rect& r : {Rect{0, 0, w, ry}, Rect{0, bottom, w, h}, Rect{0, ry, rx, bottom},
                            Rect{right, ry, w, bottom}})
        if (r.x0 < r.x1 && r.y0 < r.y1) p.rects.push_back(r);
    }
    const size_t pixel = size_t(p.units[0].components) * size_;
    if (p.way == Way::network) {
      p.tile_x = kw >= 7 ? 4 : 1;
      p.tile_y = kh <= 3 ? 2 : kh >= 13 ? 8 : 4;
    }
    p.rows = h + kh - 1 + p.tile_y;
    p.part =
        round_up(size_t(w + kw + p.tile_x) / p.tile_x * pixel, kMedianChunk) + 2 * kMedianChunk;
    p.pitch = p.part * p.tile_x;
    // Rows with a pitch of a multiple of 4096 bytes would compete for the same sets of the cache.
    if (p.pitch % 4096 == 0) p.pitch += kMedianChunk;
    if (p.way == Way::network)
      p.program = compile(median_network(kw, kh, p.tile_x, p.tile_y), pixel, p.part, p.pitch);
    p.three = kw == 3 && kh == 3 && p.way == Way::network && l.pixel_step() == l.channels &&
              mask == all && !task_.outliers_only;
    if (p.way == Way::threshold) {
      // The pixels and counts of a block stay in the second-level cache over all thresholds. Rows
      // of an odd number of cache lines do not compete for the same sets.
      p.words = std::min(kMaxWords, blocks_of(w + kw - 1, kMedianLanes) | 1);
      p.band = std::min(h, kh <= 63 ? 32 : 64);
    }
  }

  size_t line_bytes(const PlanePlan& p) const {
    return round_up(size_t(p.layout.width + p.median.size_x + 4) * p.units[0].components * size_,
                    64) +
           kSlack;
  }
  size_t ranks_of(const PlanePlan& p) const {
    return size_t(kTileRows + p.median.size_y) *
           (std::min(kTileColumns, p.layout.width) + p.median.size_x);
  }
  size_t histogram_keys(const PlanePlan& p) const {
    return type_ == Type::u8 ? 256 : type_ == Type::u16 ? 65536 : ranks_of(p);
  }
  static size_t zero_bytes(const PlanePlan& p) { return size_t(2 * p.words + 1) * kMedianPitch; }

  struct Arrays {
    uint8_t* line;                               // for the copy, and for 3 x 3 medians without one
    uint8_t *slots, *results;                    // networks
    uint8_t *pixels, *counts, *nibbles, *zeros;  // thresholds
    uint32_t *ranks, *sorted;                    // histograms of floats
    uint8_t* histogram;
    uint8_t* columns[2];  // outliers: minimum, maximum
    uint8_t* lines[4];    // outliers: minimum, maximum, values, medians
  };
  // Takes the arrays that a plane needs from a thread's memory.
  Arrays arrays(const PlanePlan& p, Arena& arena) const {
    Arrays a = {};
    a.line = arena.take<uint8_t>(2 * line_bytes(p));
    if (p.way == Way::network) {
      a.slots = arena.take<uint8_t>(p.program.slot_bytes);
      a.results = arena.take<uint8_t>(size_t(p.tile_x) * p.tile_y * p.part + 256);
    }
    if (p.way == Way::threshold) {
      const size_t row = size_t(p.words) * kMedianLanes;
      a.pixels = arena.take<uint8_t>(row * (p.band + p.median.size_y));
      a.counts = arena.take<uint8_t>(row * p.band);
      a.nibbles = arena.take<uint8_t>(row * p.band);
      a.zeros = arena.take<uint8_t>(zero_bytes(p) + 256);
    }
    if (!p.rects.empty()) {
      const size_t ranks = type_ == Type::f32 ? ranks_of(p) : 0;
      a.ranks = arena.take<uint32_t>(ranks);
      a.sorted = arena.take<uint32_t>(ranks);
      a.histogram = arena.take<uint8_t>(Histogram::bytes(histogram_keys(p)) + 256);
    }
    if (task_.outliers_only) {
      for (uint8_t*& column : a.columns) column = arena.take<uint8_t>(p.pitch + kSlack);
      for (uint8_t*& line : a.lines) line = arena.take<uint8_t>(line_bytes(p));
    }
    return a;
  }
  Arrays arrays(const PlanePlan& p, int thread) const {
    Arena arena(threads_.as<char>() + thread * scratch_);
    return arrays(p, arena);
  }

  // Returns the address of pixel (x, y) of the copy, counted from the start of the border.
  const uint8_t* copied(const PlanePlan& p, const Unit& u, int x, int y) const {
    return copy_.as<uint8_t>() + y * p.pitch + x % p.tile_x * p.part +
           size_t(x / p.tile_x) * u.components * size_;
  }

  // Calls f(y0, y1, thread) for bands of rows whose height is a multiple of `multiple`.
  template <class F>
  void for_bands(int rows, int multiple, F&& f) {
    const int bands = pool_.threads() * kBandsPerThread;
    const int height = std::max(1, blocks_of(rows, bands * multiple)) * multiple;
    pool_.parallel(blocks_of(rows, height), [&](int task, int thread) {
      f(task * height, std::min(rows, (task + 1) * height), thread);
    });
  }

  template <class T>
  void make_copy(const PlanePlan& p, const Unit& u, const Image& src, int plane) {
    const PlaneLayout& l = p.layout;
    const Border border = padding_of(task_.border);
    const int w = l.width, rx = p.median.size_x / 2, ry = p.median.size_y / 2;
    const int columns = w + p.median.size_x - 1, step = l.pixel_step(), components = u.components;
    const size_t pixel = components * sizeof(T);
    T outside[kMaxChannels];
    for (int c = 0; c < components; c++) outside[c] = T(p.median.border_value[u.first + c]);
    for_bands(l.height + p.median.size_y - 1, 1, [&](int y0, int y1, int thread) {
      uint8_t* const memory = arrays(p, thread).line;
      for (int y = y0; y < y1; y++) {
        uint8_t* const row = copy_.as<uint8_t>() + y * p.pitch;
        T* const line = reinterpret_cast<T*>(p.tile_x == 1 ? row : memory);
        const int from_y = border_index(y - ry, l.height, border);
        const T* from = row_of<T>(src, plane, std::max(from_y, 0)) + u.first;
        const auto put = [&](int x) {
          const int from_x = from_y < 0 ? -1 : border_index(x - rx, w, border);
          for (int c = 0; c < components; c++)
            line[x * components + c] = from_x < 0 ? outside[c] : from[ptrdiff_t(from_x) * step + c];
        };
        if (from_y < 0) {
          for (int x = 0; x < columns; x++) put(x);
        } else {
          for (int x = 0; x < rx; x++) put(x);
          copy_channels(from, step, line + rx * components, components, components, kAllChannels,
                        w);
          for (int x = rx + w; x < columns; x++) put(x);
        }
        if (type_ == Type::f32)
          for (int i = 0; i < columns * components; i++) line[i] = T(float_key(uint32_t(line[i])));
        if (p.tile_x == 4) split(p, reinterpret_cast<uint8_t*>(line), pixel, columns, row);
      }
    });
  }

  static int power(size_t bytes) { return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : -1; }

  static void split(const PlanePlan& p, const uint8_t* line, size_t pixel, int pixels,
                    uint8_t* row) {
    uint8_t* parts[4];
    for (int i = 0; i < 4; i++) parts[i] = row + i * p.part;
    if (const int k = power(pixel); k >= 0) {
      median_rows().split4[k](line, pixels, parts);
      return;
    }
    for (int x = 0; x < pixels; x++)
      std::memcpy(parts[x & 3] + (x >> 2) * pixel, line + x * pixel, pixel);
  }

  // Joins the parts of a row again.
  static void join(const PlanePlan& p, const uint8_t* row, size_t pixel, int pixels,
                   uint8_t* line) {
    const uint8_t* parts[4];
    for (int i = 0; i < 4; i++) parts[i] = row + i * p.part;
    if (const int k = power(pixel); k >= 0) {
      median_rows().join4[k](parts, pixels, line);
      return;
    }
    for (int x = 0; x < pixels; x++)
      std::memcpy(line + x * pixel, parts[x & 3] + (x >> 2) * pixel, pixel);
  }

  // Writes one row of packed results. Keys become floats again.
  template <class T>
  void store(const PlanePlan& p, const Unit& u, T* line, const Image& dst, int plane, int y) const {
    const int w = p.layout.width, components = u.components, step = p.layout.pixel_step();
    if (type_ == Type::f32)
      for (int i = 0; i < w * components; i++) line[i] = T(float_bits(uint32_t(line[i])));
    copy_channels(line, components, row_of<T>(dst, plane, y) + u.first, step, components, u.mask,
                  w);
  }

  template <class T>
  void networks(const PlanePlan& p, const Unit& u, const Image& dst, int plane) {
    const int w = p.layout.width, h = p.layout.height;
    const size_t pixel = u.components * sizeof(T);
    const size_t part_bytes = blocks_of(w, p.tile_x) * pixel;
    const auto run = median_rows().network[index_of_size()];
    const bool direct = p.tile_x == 1 && type_ != Type::f32 &&
                        p.layout.pixel_step() == u.components && u.mask == (1 << u.components) - 1;
    for_bands(h, p.tile_y, [&](int band0, int band1, int thread) {
      const Arrays a = arrays(p, thread);
      for (int y = band0; y < band1; y += p.tile_y) {
        const uint8_t* from = copy_.as<uint8_t>() + y * p.pitch;
        for (size_t x = 0; x < part_bytes; x += p.program.chunk) {
          run(p.program, from + x, a.slots);
          const size_t bytes = std::min(p.program.chunk, part_bytes - x);
          for (int j = 0; j < p.tile_y && y + j < h; j++)
            for (int i = 0; i < p.tile_x; i++) {
              const MedianProgram::Operand& o = p.program.outputs[j * p.tile_x + i];
              const uint8_t* result = o.plane ? from + x + o.offset : a.slots + o.offset;
              uint8_t* to = direct ? row_of<uint8_t>(dst, plane, y + j)
                                   : a.results + (j * p.tile_x + i) * p.part;
              std::memcpy(to + x, result, bytes);
            }
        }
        if (direct) continue;
        for (int j = 0; j < p.tile_y && y + j < h; j++) {
          uint8_t* row = a.results + j * p.tile_x * p.part;
          if (p.tile_x == 4) {
            join(p, row, pixel, w, a.line);
            row = a.line;
          }
          store<T>(p, u, reinterpret_cast<T*>(row), dst, plane, y + j);
        }
      }
    });
  }

  // Makes 3 x 3 medians without a copy of the plane. Rows are read directly, and only the first and
  // last pixels of a row are made from a copy of their neighbours.
  template <class T>
  void three(const PlanePlan& p, const Image& src, const Image& dst, int plane) {
    const int w = p.layout.width, h = p.layout.height, channels = p.layout.channels;
    const size_t row_size = size_t(w) * channels;
    const Border border = padding_of(task_.border);
    const auto run = median_rows().three[index_of_size()];
    for_bands(h, 2, [&](int y0, int y1, int thread) {
      T* const outside = reinterpret_cast<T*>(arrays(p, thread).line);
      T* const edge = outside + row_size;  // four rows of three pixels
      for (size_t i = 0; i < row_size; i++) outside[i] = T(p.median.border_value[i % channels]);
      for (int y = y0; y < y1; y += 2) {
        const T* rows[4];
        for (int j = 0; j < 4; j++) {
          const int at = border_index(std::min(y - 1 + j, h), h, border);
          rows[j] = at < 0 ? outside : row_of<T>(src, plane, at);
        }
        T* out[2] = {};
        for (int j = 0; j < 2 && y + j < y1; j++) out[j] = row_of<T>(dst, plane, y + j);
        if (w > 2) {
          const void* from[4];
          void* to[2];
          for (int j = 0; j < 4; j++) from[j] = rows[j] + channels;
          for (int j = 0; j < 2; j++) to[j] = out[j] ? out[j] + channels : nullptr;
          run(from, channels, row_size - 2 * channels, to);
        }
        for (int x = 0; x < w; x += std::max(1, w - 1)) {
          const void* from[4];
          void* to[2];
          for (int j = 0; j < 4; j++) {
            for (int i = 0; i < 3; i++) {
              const int at = border_index(x - 1 + i, w, border);
              const T* pixel = at < 0 ? outside : rows[j] + size_t(at) * channels;
              std::copy(pixel, pixel + channels, edge + (3 * j + i) * channels);
            }
            from[j] = edge + (3 * j + 1) * channels;
          }
          for (int j = 0; j < 2; j++) to[j] = out[j] ? out[j] + size_t(x) * channels : nullptr;
          run(from, channels, channels, to);
        }
      }
    });
  }

  void thresholds(const PlanePlan& p, const Unit& u, const Image& dst, int plane) {
    const int w = p.layout.width, h = p.layout.height, kw = p.median.size_x, kh = p.median.size_y;
    const int words = p.words, step = p.layout.pixel_step();
    const size_t row = size_t(words) * kMedianLanes;
    const int across = words * kMedianLanes - (kw - 1), segments = blocks_of(w, across);
    const int bands = blocks_of(h, p.band);
    const int filtered = __builtin_popcount(u.mask);
    pool_.parallel(bands * segments * filtered, [&](int task, int thread) {
      const int component = component_of(u, task / (bands * segments));
      const int y0 = task % bands * p.band, y1 = std::min(h, y0 + p.band);
      const int x0 = task / bands % segments * across, columns = std::min(across, w - x0);
      const Arrays a = arrays(p, thread);
      uint8_t *const pixels = a.pixels, *const counts = a.counts, *const zeros = a.zeros;
      std::memset(zeros, 0, zero_bytes(p));
      // Columns past the copy's end do not matter, but must not be read.
      const int there = w + kw - 1 - x0;
      for (int y = y0; y < y1 + kh - 1; y++) {
        const uint8_t* from = copied(p, u, x0, y) + component;
        uint8_t* to = pixels + row * (y - y0);
        for (int lane = 0; lane < kMedianLanes; lane++) {
          const int first = lane * words, n = std::clamp(there - first, 0, words);
          for (int m = 0; m < n; m++)
            to[m * kMedianLanes + lane] = from[size_t(first + m) * u.components];
          for (int m = n; m < words; m++) to[m * kMedianLanes + lane] = 0;
        }
      }
      MedianThreshold t{pixels, counts, zeros + kMedianLanes, words, y1 - y0, kh,
                        kw,     {},     kw * kh / 2};
      const size_t total = row * (y1 - y0);
      std::memset(counts, 0, total);
      // Threshold 0 makes their number even. It counts one too many everywhere.
      const auto count = [&](int first, int by) {
        for (int i = 0; i < 16; i += 2) {
          t.threshold[0] = first + i * by;
          t.threshold[1] = first + (i + 1) * by;
          median_rows().threshold(t);
        }
      };
      count(0, 16);
      std::memcpy(a.nibbles, counts, total);
      std::memset(counts, 0, total);
      // Only columns at which a window ends have a median.
      bool present[16] = {};
      for (int y = 0; y < y1 - y0; y++)
        for (int c = kw - 1; c < kw - 1 + columns; c++)
          present[(a.nibbles[y * row + c % words * kMedianLanes + c / words] - 1) & 15] = true;
      uint8_t base[16];
      for (int n = 0, counted = 0; n < 16; n++) {
        base[n] = uint8_t(16 * (n - counted) - 1);
        if (!present[n]) continue;
        counted++;
        count(16 * n, 1);
      }
      for (int y = y0; y < y1; y++) {
        uint8_t* to = row_of<uint8_t>(dst, plane, y) + ptrdiff_t(x0) * step + u.first + component;
        const uint8_t *v = counts + row * (y - y0), *n = a.nibbles + row * (y - y0);
        int c = kw - 1;
        while (c < kw - 1 + columns) {
          const int lane = c / words, end = std::min((lane + 1) * words, kw - 1 + columns);
          for (; c < end; c++) {
            const int at = (c - lane * words) * kMedianLanes + lane;
            to[ptrdiff_t(c - (kw - 1)) * step] = uint8_t(v[at] + base[(n[at] - 1) & 15]);
          }
        }
      }
    });
  }

  static constexpr int kTileRows = 32;

  template <class T>
  void histograms(const PlanePlan& p, const Unit& u, const Rect& rect, const Image& dst,
                  int plane) {
    const int kw = p.median.size_x, kh = p.median.size_y, rx = kw / 2, ry = kh / 2;
    const int w = p.layout.width, h = p.layout.height, step = p.layout.pixel_step();
    const int bands = blocks_of(rect.y1 - rect.y0, kTileRows);
    const int tiles = blocks_of(rect.x1 - rect.x0, kTileColumns);
    const int filtered = __builtin_popcount(u.mask);
    const bool shrink = task_.border == Border::shrink;
    pool_.parallel(bands * tiles * filtered, [&](int task, int thread) {
      const int component = component_of(u, task / (bands * tiles));
      const int y0 = rect.y0 + task % bands * kTileRows, y1 = std::min(rect.y1, y0 + kTileRows);
      const int x0 = rect.x0 + task / bands % tiles * kTileColumns;
      const int x1 = std::min(rect.x1, x0 + kTileColumns);
      const Arrays a = arrays(p, thread);
      uint32_t *const ranks = a.ranks, *const sorted = a.sorted;
      const auto key = [&](int x, int y) {
        T v;
        std::memcpy(&v, copied(p, u, x, y) + component * sizeof(T), sizeof(T));
        return v;
      };
      // Floats are replaced by their ranks in the tile.
      const int across = x1 - x0 + kw - 1, down = y1 - y0 + kh - 1;
      size_t keys = type_ == Type::u8 ? 256 : 65536;
      if (sizeof(T) == 4) {
        uint32_t* end = sorted;
        for (int y = 0; y < down; y++)
          for (int x = 0; x < across; x++) *end++ = uint32_t(key(x0 + x, y0 + y));
        std::copy(sorted, end, ranks);
        std::sort(sorted, end);
        end = std::unique(sorted, end);
        for (int i = 0; i < across * down; i++)
          ranks[i] = uint32_t(std::lower_bound(sorted, end, ranks[i]) - sorted);
        keys = size_t(end - sorted);
      }
      const auto counted = [&](int x, int y) -> uint32_t {
        return sizeof(T) == 4 ? ranks[size_t(y - y0) * across + (x - x0)] : uint32_t(key(x, y));
      };
      Histogram histogram(a.histogram, keys);
      for (int y = y0; y < y1; y++) {
        if (y > y0) histogram.clear();
        // Windows are in the copy's coordinates. With shrink they end at the frame.
        const int top = shrink ? std::max(y, ry) : y,
                  bottom = shrink ? std::min(y + kh, h + ry) : y + kh;
        int left = shrink ? std::max(x0, rx) : x0, right = left;
        T* out = row_of<T>(dst, plane, y) + u.first + component;
        for (int x = x0; x < x1; x++) {
          const int new_left = shrink ? std::max(x, rx) : x;
          const int new_right = shrink ? std::min(x + kw, w + rx) : x + kw;
          for (; right < new_right; right++)
            for (int j = top; j < bottom; j++) histogram.change(counted(right, j), 1);
          for (; left < new_left; left++)
            for (int j = top; j < bottom; j++) histogram.change(counted(left, j), -1);
          const uint32_t found = histogram.find((right - left) * (bottom - top) / 2);
          if constexpr (sizeof(T) == 4) {
            out[ptrdiff_t(x) * step] = T(float_bits(sorted[found]));
          } else {
            out[ptrdiff_t(x) * step] = T(found);
          }
        }
      }
    });
  }

  // Gives pixels that are no outliers their own values, row by row. It finds the extremes of
  // columns and then of windows.
  template <class T>
  void keep_others(const PlanePlan& p, const Unit& u, const Image& dst, int plane) {
    const int kw = p.median.size_x, kh = p.median.size_y, w = p.layout.width, seen = w + kw - 1;
    const int step = p.layout.pixel_step(), components = u.components, k = index_of_size();
    const size_t pixel = components * sizeof(T), border = size_t(kw / 2) * components;
    const bool direct = step == components && u.mask == (1 << components) - 1;
    for_bands(p.layout.height, 1, [&](int y0, int y1, int thread) {
      const Arrays a = arrays(p, thread);
      uint8_t *const *const columns = a.columns, *const *const lines = a.lines;
      for (int y = y0; y < y1; y++) {
        const uint8_t* const rows = copy_.as<uint8_t>() + y * p.pitch;
        const uint8_t* const centre = rows + kh / 2 * p.pitch;
        median_rows().columns[k](rows, p.pitch, kh, p.part * p.tile_x, columns[0], columns[1]);
        const bool split = p.tile_x == 4;
        if (split) {
          join(p, columns[0], pixel, seen, lines[0]);
          join(p, columns[1], pixel, seen, lines[1]);
          join(p, centre, pixel, seen, lines[2]);
        }
        T* const to = row_of<T>(dst, plane, y) + u.first;
        T* const line = direct ? to : reinterpret_cast<T*>(lines[3]);
        if (!direct) copy_channels(to, step, line, components, components, kAllChannels, w);
        median_rows().outliers[k]({reinterpret_cast<const T*>(split ? lines[2] : centre) + border,
                                   split ? lines[0] : columns[0], split ? lines[1] : columns[1],
                                   line, size_t(w) * components, size_t(components), kw,
                                   task_.threshold});
        if (!direct) copy_channels(line, components, to, step, components, u.mask, w);
      }
    });
  }

  template <class T>
  void copy_others(const PlanePlan& p, const Image& src, const Image& dst, int plane) {
    const PlaneLayout& l = p.layout;
    for_bands(l.height, 1, [&](int y0, int y1, int) {
      for (int y = y0; y < y1; y++)
        copy_channels(row_of<const T>(src, plane, y), l.pixel_step(), row_of<T>(dst, plane, y),
                      l.pixel_step(), l.channels, p.copied, l.width);
    });
  }

  template <class T>
  void run_planes(const Image& src, const Image& dst) {
    for (int i = 0; i < src.layout.planes; i++) {
      const PlanePlan& p = plan_[i];
      if (p.copied && src.data[i] != dst.data[i]) copy_others<T>(p, src, dst, i);
      if (p.way == Way::copy) continue;
      const bool three_by_three = p.three && src.data[i] != dst.data[i];
      if (three_by_three) three<T>(p, src, dst, i);
      for (const Unit& u : p.units) {
        if (three_by_three && p.rects.empty()) continue;
        make_copy<T>(p, u, src, i);
        if (p.way == Way::network && !three_by_three) networks<T>(p, u, dst, i);
        if (p.way == Way::threshold) thresholds(p, u, dst, i);
        for (const Rect& r : p.rects) histograms<T>(p, u, r, dst, i);
        if (task_.outliers_only) keep_others<T>(p, u, dst, i);
      }
    }
  }

  Status enqueue(const Image& src, const Image& dst) override {
    if (!cleared_ && copy_.data()) std::memset(copy_.data(), 0, copy_.size());
    cleared_ = true;
    switch (type_) {
      case Type::u8:
        run_planes<uint8_t>(src, dst);
        break;
      case Type::u16:
        run_planes<uint16_t>(src, dst);
        break;
      default:
        run_planes<uint32_t>(src, dst);
        break;
    }
    return {};
  }

  CpuQueue& pool_;
  const MedianTask task_;
  const Type type_;
  const int size_;
  PlanePlan plan_[kMaxPlanes];
  size_t scratch_ = 0;  // bytes per thread
  Allocation copy_, threads_;
  // The first frame clears the copy, so that a plan takes no memory before a frame comes.
  bool cleared_ = false;
};

}  // namespace

Status make_median(Queue& queue, const MedianTask& task, std::unique_ptr<Plan>* out) {
  return make_prepared<CpuMedian, CpuQueue>(queue, task, out);
}

}  // namespace vf::cpu
