// Plans the Gaussian on the CPU: decides which thread filters which rows and columns, and when.
//
// The queue's threads take bands of rows. A band is divided into strips of columns, so narrow that
// a ring of the strip's rows stays in the second-level cache. A thread walks down a strip. It sums
// each source row horizontally into a slot of the ring, with the pixels needed to the left and
// right. Once the ring holds the kernel's height, it sums vertically into rows of the result.
// The frame is read and written once, but rows above and below a band are summed horizontally
// twice.
//
// In place, a thread overwrites pixels that other threads or later strips need. So rows that a band
// needs from other bands are copied before any band starts, and each strip keeps the columns that
// the strip to its right needs. A strip reads its own rows before it writes them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/arena.h"
#include "cpu/gaussian_rows.h"
#include "cpu/queue.h"
#include "filters/gaussian_task.h"
#include "filters/make.h"

namespace vf::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kRingBytes = 512 << 10;  // a strip's ring takes half of a usual second-level cache
constexpr int kMinStrip = 256;            // pixels
constexpr int kStripMultiple = 64;        // pixels
constexpr int kMinBand = 16;              // rows
constexpr int kBandsPerThread = 4;        // several, so that delayed threads do less
// Waking a thread pays only for at least this much work. kMinWork is in sums along both axes,
// plus 8 per component for work that does not depend on the kernel, and takes about 25 µs.
// kMinCopy is in bytes.
constexpr double kMinWork = 4e6;
constexpr size_t kMinCopy = 128 << 10;
constexpr int kMaxSlots = GaussianParams::kMaxKernelSize + 4;

size_t aligned(size_t bytes) {
  return round_up(bytes, kAlignment);
}
// Rows an odd number of cache lines apart do not compete for the same sets.
size_t row_pitch(size_t bytes) {
  return (bytes / kAlignment | 1) * kAlignment + kAlignment * 2;
}

struct Span {
  int begin, end;
  int size() const { return end - begin; }
};

struct PlanePlan {
  int plane = 0;
  PlaneLayout layout;
  bool copies = false;
  uint8_t channels = 0xf;
  bool whole = false;  // all components of a row are filtered, without gaps
  const GaussianRows* rows = nullptr;
  GaussianAxis x, y;
  int outputs = 0, slots = 0;
  alignas(8) uint8_t outside[kMaxChannels * 4] = {};  // one pixel of the constant border
  std::vector<Span> bands, strips;
  std::vector<int> left, right;  // columns that the border shows at -radius ... -1 and at width ...
  // In place: the rows that are copied first, and for each row of the plane its index in the copy,
  // or -1.
  std::vector<int> saved_rows, saved_at;
  size_t row_size = 0;  // bytes of a packed row
  Allocation saved;

  const uint8_t* saved_row(int y) const { return saved.as<uint8_t>() + saved_at[y] * row_size; }
};

// Memory of one thread. `edge` holds columns of strips in place.
struct Scratch {
  uint8_t *line[2], *packed, *gathered, *ring, *rows[4], *ordered, *edge[2], *wrapped;
};

template <class C>
class CpuGaussian final : public Plan {
 public:
  CpuGaussian(CpuQueue& queue, const GaussianTask& task)
      : Plan(queue, task.layout, task.layout, task.placement),
        pool_(queue),
        task_(task),
        border_(task.border),
        in_place_(task.placement == Placement::in_place) {}

  // Does all that may fail.
  Status prepare() {
    for (int i = 0; i < task_.layout.planes; i++) {
      PlanePlan p;
      p.plane = i;
      p.layout = task_.layout.plane[i];
      const int channels = p.layout.channels;
      const GaussianPlane& g = task_.plane[i];
      const int all = (1 << channels) - 1;
      p.channels = g.channels & all;
      p.whole = p.channels == all && p.layout.pixel_step() == channels;
      p.row_size = aligned(size_t(p.layout.width) * channels * sizeof(C));
      p.rows = &gaussian_rows(task_.layout, g, &p.x, &p.y);
      p.copies = p.channels == 0 || (p.x.radius == 0 && p.y.radius == 0);
      p.outputs = gaussian_outputs(p.y.radius);
      p.slots = gaussian_slots(p.y.radius, p.rows->rows_per_slot);
      for (int c = 0; c < channels && border_ == Border::constant; c++)
        put_outside(task_.layout, g.border_value[c], p.outside + c * sizeof(C));
      cut_bands(&p);
      cut_strips(&p);
      if (!p.copies) {
        if (in_place_) VF_TRY(choose_saved_rows(&p));
        Arena arena(nullptr);
        scratch(p, arena);
        thread_bytes_ = std::max(thread_bytes_, arena.used());
      }
      planes_.push_back(std::move(p));
    }
    // Long tasks come first, so that none starts last.
    std::stable_sort(tasks_.begin(), tasks_.end(),
                     [](const Task& a, const Task& b) { return a.work > b.work; });
    VF_TRY(pool_.allocate(Memory::host, thread_bytes_ * pool_.threads(), &memory_));
    // Padding behind lines and slots is read, but its results are not used.
    std::memset(memory_.data(), 0, memory_.size());
    return {};
  }

 private:
  // Describes a band of a plane in one frame.
  struct Band {
    const PlanePlan& p;
    Span rows;
    const C* src;
    ptrdiff_t src_stride;  // components
    C* dst;
    ptrdiff_t dst_stride;
    bool overwrites;  // src and dst are the same
  };
  struct Task {
    int plane;
    Span rows;
    double work;
  };

  // Stores one component of a border's value, which is a code value of the layout.
  static void put_outside(const Layout& layout, double value, uint8_t* to) {
    const auto put = [&](auto t) {
      using T = decltype(t);
      t = std::is_integral_v<T> ? T(std::floor(value + 0.5) * (1 << layout.shift)) : T(value);
      std::memcpy(to, &t, sizeof t);
    };
    switch (layout.type) {
      case Type::u8:
        return put(uint8_t{});
      case Type::u16:
        return put(uint16_t{});
      case Type::s16:
        return put(int16_t{});
      case Type::s32:
        return put(int32_t{});
      case Type::f32:
        return put(float{});
    }
  }

  // Makes several bands per thread, but high enough that the rows above and below are not most of the
  // work.
  void cut_bands(PlanePlan* plan) {
    PlanePlan& p = *plan;
    const int threads = pool_.threads(), rx = p.x.radius, ry = p.y.radius;
    const int width = p.layout.width, height = p.layout.height, channels = p.layout.channels;
    const double cost = p.copies ? 1 : 2 * rx + 2 * ry + 8;  // operations for a component
    int bands = 1;
    if (threads > 1 && cost * width * height * channels >= kMinWork) {
      const int sensible = height / (4 * std::max(2 * ry, 4));
      bands = std::clamp(threads * kBandsPerThread, 1, std::max(sensible, threads));
      bands = std::clamp(bands, 1, std::max(1, height / std::max(kMinBand, ry)));
    }
    const auto edge = [&](int n) {
      const int y = int(int64_t(height) * n / bands);
      return n == bands ? height : y / p.outputs * p.outputs;
    };
    for (int b = 0; b < bands; b++) {
      const Span rows{edge(b), edge(b + 1)};
      p.bands.push_back(rows);
      tasks_.push_back({p.plane, rows, cost * rows.size() * width * channels});
    }
  }

  // Makes strips so wide that none reaches beyond its neighbour, with any border.
  void cut_strips(PlanePlan* plan) {
    PlanePlan& p = *plan;
    const int width = p.layout.width, rx = p.x.radius;
    const size_t ring = p.slots * p.rows->slot_bytes(width, p.layout.channels);
    int strips = int(std::min<size_t>(blocks_of(ring, kRingBytes), width));
    const int minimum = std::max(kMinStrip, rx + 1) + kStripMultiple;
    strips = std::max(1, std::min(strips, width / minimum));
    const auto edge = [&](int n) {
      const int x = int(int64_t(width) * n / strips);
      return n == strips ? width : x / kStripMultiple * kStripMultiple;
    };
    for (int s = 0; s < strips; s++) p.strips.push_back({edge(s), edge(s + 1)});
    for (int x = 1; x <= rx; x++) {
      p.left.push_back(border_index(x - rx - 1, width, border_));
      p.right.push_back(border_index(width + x - 1, width, border_));
    }
  }

  // Chooses the rows that are copied before the plane is filtered in place.
  Status choose_saved_rows(PlanePlan* plan) {
    PlanePlan& p = *plan;
    const int height = p.layout.height, ry = p.y.radius;
    p.saved_at.assign(height, -1);
    for (const Span& rows : p.bands)
      for (int y = rows.begin - ry; y < rows.end + ry; y++) {
        const int at = border_index(y, height, border_);
        if (at < 0 || (y >= rows.begin && y < rows.end) || p.saved_at[at] >= 0) continue;
        p.saved_at[at] = int(p.saved_rows.size());
        p.saved_rows.push_back(at);
      }
    VF_TRY(pool_.allocate(Memory::host, p.row_size * p.saved_rows.size(), &p.saved));
    for (int at = 0; at < int(p.saved_rows.size()); at += kMinBand)
      saves_.push_back({p.plane, {at, std::min(at + kMinBand, int(p.saved_rows.size()))}, 0});
    return {};
  }

  // Takes the arrays that a plane needs from a thread's memory.
  Scratch scratch(const PlanePlan& p, Arena& arena) const {
    const auto longest = [](const std::vector<Span>& spans) {
      int size = 0;
      for (const Span& s : spans) size = std::max(size, s.size());
      return size_t(size);
    };
    const size_t widest = longest(p.strips), rx = p.x.radius, pixel = p.layout.channels * sizeof(C);
    const size_t packed = (widest + 2 * rx) * pixel;
    const size_t edge = in_place_ && p.strips.size() > 1 ? longest(p.bands) * rx * pixel : 0;
    const int channels = p.layout.channels;
    Scratch s;
    for (uint8_t*& line : s.line)
      line = arena.take<uint8_t>(p.rows->line_bytes(int(widest), channels, p.x.radius));
    s.packed = arena.take<uint8_t>(packed);
    s.gathered = arena.take<uint8_t>(p.layout.pixel_step() == channels ? 0 : packed);
    s.ring = arena.take<uint8_t>(p.slots * row_pitch(p.rows->slot_bytes(int(widest), channels)));
    for (uint8_t*& row : s.rows) row = arena.take<uint8_t>((widest + 1) * pixel);
    s.ordered = arena.take<uint8_t>((widest + 1) * pixel);
    for (uint8_t*& e : s.edge) e = arena.take<uint8_t>(edge);
    s.wrapped = arena.take<uint8_t>(border_ == Border::wrap ? edge : 0);
    return s;
  }

  Status enqueue(const Image& src, const Image& dst) override {
    const auto band = [&](const Task& task) {
      const int i = task.plane;
      return Band{planes_[i],
                  task.rows,
                  static_cast<const C*>(src.data[i]),
                  src.stride[i] / ptrdiff_t(sizeof(C)),
                  static_cast<C*>(dst.data[i]),
                  dst.stride[i] / ptrdiff_t(sizeof(C)),
                  src.data[i] == dst.data[i]};
    };
    size_t saved = 0;
    for (const PlanePlan& p : planes_)
      if (src.data[p.plane] == dst.data[p.plane]) saved += p.saved_rows.size() * p.row_size;
    auto save = [&](int i, int) {
      const Band b = band(saves_[i]);
      if (b.overwrites)
        for (int n = b.rows.begin; n < b.rows.end; n++) save_row(b, n);
    };
    if (saved >= kMinCopy)
      pool_.parallel(int(saves_.size()), save);
    else if (saved > 0)
      for (int i = 0; i < int(saves_.size()); i++) save(i, 0);
    pool_.parallel(int(tasks_.size()), [&](int i, int thread) {
      const Band b = band(tasks_[i]);
      if (!b.p.copies) {
        Arena arena(memory_.as<char>() + thread * thread_bytes_);
        filter(b, scratch(b.p, arena));
      } else if (!b.overwrites) {
        copy(b);
      }
    });
    return {};
  }

  void save_row(const Band& band, int index) {
    const PlaneLayout& l = band.p.layout;
    const int y = band.p.saved_rows[index];
    copy_channels(
        band.src + y * band.src_stride, l.pixel_step(),
        reinterpret_cast<C*>(band.p.saved.template as<uint8_t>() + index * band.p.row_size),
        l.channels, l.channels, kAllChannels, l.width);
  }

  void copy(const Band& band) {
    const PlaneLayout& l = band.p.layout;
    for (int y = band.rows.begin; y < band.rows.end; y++)
      copy_channels(band.src + y * band.src_stride, l.pixel_step(), band.dst + y * band.dst_stride,
                    l.pixel_step(), l.channels, kAllChannels, l.width);
  }

  void filter(const Band& band, Scratch s) {
    for (int strip = 0; strip < int(band.p.strips.size()); strip++) {
      filter_strip(band, strip, s);
      std::swap(s.edge[0], s.edge[1]);
    }
  }

  void filter_strip(const Band& band, int strip, Scratch& s) {
    const PlanePlan& p = band.p;
    const Span columns = p.strips[strip];
    const int width = columns.size(), channels = p.layout.channels;
    const int group = p.rows->rows_per_slot;
    const int last = band.rows.end - 1 + p.y.radius;  // row read
    const size_t pitch = row_pitch(p.rows->slot_bytes(width, channels));
    const bool reorder = p.rows->order && channels == 3;
    const void* window[kMaxSlots];
    int filled = 0;  // slots
    int y = band.rows.begin;
    for (int first = 0; y < band.rows.end; y += p.outputs, first += p.outputs / group) {
      for (; filled < first + p.slots; filled++) {
        const int row = band.rows.begin - p.y.radius + filled * group;
        if (row > last) break;
        for (int i = 0; i < group && row + i <= last; i++)
          convert_row(band, columns, row + i, s, s.line[i]);
        const void* lines[2] = {s.line[0], s.line[1]};
        p.rows->horizontal(lines, p.x, width, channels, s.ring + filled % p.slots * pitch);
      }
      for (int i = 0; i < p.slots; i++) window[i] = s.ring + (first + i) % p.slots * pitch;
      const int stored = std::min(p.outputs, band.rows.end - y);
      const bool direct = p.whole && !reorder;
      void* out[4];
      for (int i = 0; i < stored; i++)
        out[i] = direct ? static_cast<void*>(band.dst + (y + i) * band.dst_stride +
                                             ptrdiff_t(columns.begin) * channels)
                        : s.rows[i];
      p.rows->vertical(window, p.y, width, channels, task_.layout.shift, p.outputs, stored, out);
      if (direct) continue;
      for (int i = 0; i < stored; i++)
        store(band, columns, y + i, reinterpret_cast<const C*>(s.rows[i]), s);
    }
  }

  // Makes a line of the pixels that row `y` of a strip needs. Neighbouring pixels come directly from
  // the image, and others through packed memory.
  void convert_row(const Band& band, Span columns, int y, Scratch& s, uint8_t* line) {
    const PlanePlan& p = band.p;
    const int channels = p.layout.channels, rx = p.x.radius, width = p.layout.width;
    const int total = columns.size() + 2 * rx;
    const size_t edge = size_t(rx) * channels;  // components
    C* const packed = reinterpret_cast<C*>(s.packed);
    const auto* outside = reinterpret_cast<const C*>(p.outside);
    const auto convert = [&](const C* from, int x, int pixels) {
      if (pixels > 0)
        p.rows->convert(from, pixels, channels,
                        line + size_t(x) * channels * p.rows->line_component);
    };

    const bool own = y >= band.rows.begin && y < band.rows.end;
    const int at = border_index(y, p.layout.height, border_);
    if (at < 0) {
      for (int x = 0; x < total; x++) std::copy_n(outside, channels, packed + x * channels);
      return convert(packed, 0, total);
    }
    const bool saved = band.overwrites && !own;
    const C* const row =
        saved ? reinterpret_cast<const C*>(p.saved_row(at)) : band.src + at * band.src_stride;
    const int step = saved ? channels : p.layout.pixel_step();
    const auto shown = [&](const std::vector<int>& from, C* to) {
      for (int i = 0; i < rx; i++, to += channels)
        std::copy_n(from[i] < 0 ? outside : row + ptrdiff_t(from[i]) * step, channels, to);
    };
    // `base` and `low` locate pixel `x` of the frame, and its neighbours as far as the line lies
    // inside the frame.
    const C* base = row;
    int low = 0;
    if (step != channels) {
      low = std::max(columns.begin - rx, 0);
      copy_channels(row + ptrdiff_t(low) * step, step, reinterpret_cast<C*>(s.gathered), channels,
                    channels, kAllChannels, std::min(columns.end + rx, width) - low);
      base = reinterpret_cast<const C*>(s.gathered);
    }
    const auto pixels = [&](int x) { return base + ptrdiff_t(x - low) * channels; };

    // In place, the strip to the left has overwritten the columns there.
    const bool first = columns.begin == 0, final = columns.end == width;
    const bool keeps = band.overwrites && own && p.strips.size() > 1;
    const size_t kept = own ? (y - band.rows.begin) * edge : 0;
    // Pieces begin at an even place in the line, because convert() may take pixels in pairs.
    int head = 0;
    if (first || keeps) {
      head = rx + rx % 2;
      if (first)
        shown(p.left, packed);
      else
        std::copy_n(reinterpret_cast<const C*>(s.edge[0]) + kept, edge, packed);
      if (rx % 2) std::copy_n(pixels(columns.begin), channels, packed + edge);
      convert(packed, 0, head);
    }
    int middle = (final ? total - rx : total) - head;
    if (final) middle -= middle % 2;
    convert(pixels(columns.begin - rx + head), head, middle);
    if (final) {
      const int inner = total - rx - head - middle;  // 0 or 1
      std::copy_n(pixels(width - inner), inner * channels, packed);
      C* const behind = packed + inner * channels;
      if (keeps && border_ == Border::wrap)
        std::copy_n(reinterpret_cast<const C*>(s.wrapped) + kept, edge, behind);
      else
        shown(p.right, behind);
      convert(packed, head + middle, inner + rx);
    }
    if (keeps) {
      std::copy_n(pixels(columns.end - rx), edge, reinterpret_cast<C*>(s.edge[1]) + kept);
      if (first && border_ == Border::wrap)
        std::copy_n(pixels(0), edge, reinterpret_cast<C*>(s.wrapped) + kept);
    }
  }

  // Writes a row to the image: filtered channels from scratch memory, the others from the source.
  void store(const Band& band, Span columns, int y, const C* row, Scratch& s) {
    const PlanePlan& p = band.p;
    const int channels = p.layout.channels, step = p.layout.pixel_step();
    C* dst = band.dst + y * band.dst_stride + ptrdiff_t(columns.begin) * step;
    const C* src = band.src + y * band.src_stride + ptrdiff_t(columns.begin) * step;
    if (p.rows->order && channels == 3) {
      void* const to = p.whole ? static_cast<void*>(dst) : s.ordered;
      p.rows->order(row, columns.size(), to);
      if (p.whole) return;
      row = reinterpret_cast<const C*>(s.ordered);
    }
    copy_channels(row, channels, dst, step, channels, p.channels, columns.size());
    if (!band.overwrites)
      copy_channels(src, step, dst, step, channels, ~p.channels, columns.size());
  }

  CpuQueue& pool_;
  const GaussianTask task_;
  const Border border_;
  const bool in_place_;
  std::vector<PlanePlan> planes_;
  std::vector<Task> tasks_, saves_;
  size_t thread_bytes_ = 0;
  Allocation memory_;
};

}  // namespace

Status make_gaussian(Queue& queue, const GaussianTask& task, std::unique_ptr<Plan>* out) {
  switch (size_of(task.layout.type)) {
    case 1:
      return make_prepared<CpuGaussian<uint8_t>, CpuQueue>(queue, task, out);
    case 2:
      return make_prepared<CpuGaussian<uint16_t>, CpuQueue>(queue, task, out);
    default:
      return make_prepared<CpuGaussian<uint32_t>, CpuQueue>(queue, task, out);
  }
}

}  // namespace vf::cpu
