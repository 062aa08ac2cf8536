// Applies the median's threshold: pixels that are no outliers get back their own values.
//
// Idea: the kernel runs after the medians are made and reads the same source. Besides its median, a
// pixel needs the minimum and the maximum of its window, which are found by columns and then by
// rows. The windows of a run of outputs share a core. The parts before and behind the core grow by
// one value from output to output, so that a run of 8 takes 27 minima for a window of 15. Bytes are
// compared two at a time, in the upper bytes of 16-bit halves. Rows are compared like columns:
// words of neighbours in a row are transposed to words of neighbours in a column.
// The pixels outside the frame matter for Border::constant only: the other borders repeat values
// that the window has anyway.
//
// Traffic: the source is read twice, one time with the window's rows above and below a tile, from
// L1 and L2. The medians are read once, and there is one write. The kernel starts while the medians
// are made and waits for them before it compares. Its time depends little on the window, and not on
// the image.
// Tile: 16 rows of bytes, 8 of 16 bits or 4 of floats. Its width, with the window's columns
// included, gives each thread a word. Wide windows have wider tiles.
// Limit: minima, maxima and loads from shared memory limit the speed.
#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"
#include "cuda/median/median.h"
#include "cuda/median/median_device.cuh"

namespace vf::cuda::median {
namespace {

constexpr int kThreads = 128;
// Words in a column of a tile. A word of bytes has four rows.
constexpr int kPacks = 4;
// Pixels of a row whose extremes by rows a thread makes.
constexpr int kRun = 8;

template <int Bits>
constexpr int kCount = 32 / Bits;  // components of a word
template <int Bits>
constexpr int kTileRows = kPacks* kCount<Bits>;
// Rows whose extremes by columns a thread makes.
template <int Bits>
constexpr int kRows = kTileRows<Bits> < 8 ? kTileRows<Bits> : 8;
// Number of threads that share a column.
template <int Bits>
constexpr int kGroups = kTileRows<Bits> / kRows<Bits>;

struct Args {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  Plane plane;
  int pitch;        // components between pixels of a channel if channels lie apart
  int interleaved;  // number of channels in a row of a tile
  int pixels;       // in a row of a tile
  int tiles_x;
  int columns;  // maximum of components in a tile's row and its windows
  ChannelArgs channels;
};

// The components of a word in a form that can be compared. The even and the odd bytes are separate,
// each above a byte that only breaks ties.
template <int Bits>
struct Parts {
  uint32_t part[Bits == 8 ? 2 : 1];
};
template <int Bits>
struct Extremes {
  Parts<Bits> low, high;
};

template <int Bits>
__device__ __forceinline__ Parts<Bits> parts_of(uint32_t word) {
  if constexpr (Bits == 8) return {{word << 8, word}};
  return {{word}};
}
template <int Bits>
__device__ __forceinline__ uint32_t word_of(const Parts<Bits>& v) {
  if constexpr (Bits == 8) return __byte_perm(v.part[0], v.part[1], 0x7351);
  return v.part[0];
}
template <int Bits>
__device__ __forceinline__ void include(Extremes<Bits>& e, const Extremes<Bits>& other) {
#pragma unroll
  for (int i = 0; i < (Bits == 8 ? 2 : 1); i++) {
    if constexpr (Bits == 32) {
      e.low.part[i] = min(e.low.part[i], other.low.part[i]);
      e.high.part[i] = max(e.high.part[i], other.high.part[i]);
    } else {
      e.low.part[i] = __vminu2(e.low.part[i], other.low.part[i]);
      e.high.part[i] = __vmaxu2(e.high.part[i], other.high.part[i]);
    }
  }
}

// Finds the extremes of kN windows of `size` values. The first begins at value 0, the second at
// value 1. kN is at most `size`.
template <int Bits, int kN, class Load>
__device__ __forceinline__ void window_extremes(int size, const Load& load,
                                                Extremes<Bits> (&out)[kN]) {
  // All loads that are needed in any case are started before the first result is used.
  Extremes<Bits> before[kN], behind[kN];
#pragma unroll
  for (int i = 0; i < kN; i++) {
    if (i + 1 < kN) before[i] = load(i);
    if (i > 0) behind[i] = load(size + i - 1);
  }
  out[kN - 1] = load(kN - 1);
#pragma unroll(kN > 1 ? 4 : 1)
  for (int i = kN; i < size; i++) include(out[kN - 1], load(i));
#pragma unroll
  for (int i = kN - 2; i >= 0; i--) {
    out[i] = out[i + 1];
    include(out[i], before[i]);
  }
#pragma unroll
  for (int i = 0; i < kN; i++) {
    if (i > 1) include(behind[i], behind[i - 1]);
    if (i > 0) include(out[i], behind[i]);
  }
}

// Transposes words of rows to words of columns, and back.
template <int Bits>
__device__ __forceinline__ void transpose(uint32_t (&v)[kCount<Bits>]) {
  if constexpr (Bits == 8) {
    const uint32_t a = __byte_perm(v[0], v[1], 0x5140), b = __byte_perm(v[2], v[3], 0x5140);
    const uint32_t c = __byte_perm(v[0], v[1], 0x7362), d = __byte_perm(v[2], v[3], 0x7362);
    v[0] = __byte_perm(a, b, 0x5410), v[1] = __byte_perm(a, b, 0x7632);
    v[2] = __byte_perm(c, d, 0x5410), v[3] = __byte_perm(c, d, 0x7632);
  } else if constexpr (Bits == 16) {
    const uint32_t a = v[0], b = v[1];
    v[0] = __byte_perm(a, b, 0x5410), v[1] = __byte_perm(a, b, 0x7632);
  }
}

// Shared memory holds pairs of words with minima and maxima. The pairs of columns are placed so
// that a warp has no bank conflicts, whether it accesses consecutive columns or every eighth.
__host__ __device__ __forceinline__ int column_at(int column) {
  return kPacks * column + 2 * (column >> 2);
}
__host__ __device__ __forceinline__ int pairs_of(int columns) {
  return column_at((columns + 3) / 4 * 4);
}

// Reads rows of a plane, or of a channel of it, as words of neighbouring components. kWords says
// that the components also are neighbours in memory and aligned to words.
template <int Bits, bool kWords>
struct Row {
  using Component =
      std::conditional_t<Bits == 8, uint8_t, std::conditional_t<Bits == 16, uint16_t, uint32_t>>;
  int first, count;  // of the current word, in components
  int64_t offset;    // bytes
  int64_t pitch;

  __device__ __forceinline__ Row(const Args& a, int at, int length)
      : first(at), count(min(length - at, kCount<Bits>)) {
    pitch = kWords ? sizeof(Component) : a.pitch;
    offset = at * pitch;
    if (!kWords) offset += (a.channels.index >> (8 * blockIdx.z) & 0xff) * sizeof(Component);
  }
  // kWhole says that all components of the word are inside the row.
  template <bool kWhole>
  __device__ __forceinline__ uint32_t load(const uint8_t* plane, ptrdiff_t stride, int y) const {
    const uint8_t* const at = plane + uint32_t(y) * uint64_t(stride) + offset;
    if (kWhole) return *reinterpret_cast<const uint32_t*>(at);
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < kCount<Bits>; i++)
      if (i < count)
        word |= uint32_t(*reinterpret_cast<const Component*>(at + i * pitch)) << (Bits * i % 32);
    return word;
  }
  template <bool kWhole>
  __device__ __forceinline__ void store(uint8_t* plane, ptrdiff_t stride, int y,
                                        uint32_t word) const {
    uint8_t* const at = plane + uint32_t(y) * uint64_t(stride) + offset;
    if constexpr (kWhole) {
      *reinterpret_cast<uint32_t*>(at) = word;
    } else {
#pragma unroll
      for (int i = 0; i < kCount<Bits>; i++)
        if (i < count)
          *reinterpret_cast<Component*>(at + i * pitch) = Component(word >> (Bits * i % 32));
    }
  }
};

// A tile: its first pixel, and the range of components that its windows cover, which begins at a
// whole word.
struct Tile {
  int x0, y0, begin, end;
};

// Finds the extremes by columns of a word, for rows from `top` on.
template <int Bits, int kN, bool kWhole, class Row>
__device__ __forceinline__ void column_extremes(
    const Args& a, const Row& row, int top,
    uint32_t (&low)[kRows<Bits> / kCount<Bits>][kCount<Bits>],
    uint32_t (&high)[kRows<Bits> / kCount<Bits>][kCount<Bits>]) {
  constexpr int kWord = kCount<Bits>;
#pragma unroll
  for (int r = 0; r < kRows<Bits>; r += kN) {
    Extremes<Bits> out[kN];
    window_extremes<Bits, kN>(
        a.plane.size_y,
        [&](int j) {
          const int y = max(min(top - a.plane.size_y / 2 + r + j, a.plane.height - 1), 0);
          uint32_t word = row.template load<kWhole>(a.src, a.src_stride, y);
          if constexpr (Bits == 32) word = float_key(word);
          return Extremes<Bits>{parts_of<Bits>(word), parts_of<Bits>(word)};
        },
        out);
#pragma unroll
    for (int t = 0; t < kN; t++) {
      low[(r + t) / kWord][(r + t) % kWord] = word_of(out[t].low);
      high[(r + t) / kWord][(r + t) % kWord] = word_of(out[t].high);
    }
  }
}

// Finds the extremes by columns, for all components that the tile's windows cover.
template <int Bits, bool kWords, int kN>
__device__ __forceinline__ void make_columns(const Args& a, const Tile& tile, uint2* seen) {
  constexpr int kWord = kCount<Bits>, kPairs = kRows<Bits> / kWord;
  const int words = (tile.end - tile.begin + kWord - 1) / kWord;
  for (int i = threadIdx.x; i < words * kGroups<Bits>; i += kThreads) {
    const int group = kGroups<Bits> > 1 && i >= words ? 1 : 0, w = i - group * words;
    const int top = tile.y0 + group * kRows<Bits>;
    if (top >= a.plane.height) continue;
    const Row<Bits, kWords> row(a, tile.begin + w * kWord, a.plane.width * a.interleaved);
    uint32_t low[kPairs][kWord], high[kPairs][kWord];
    // Partial words at the ends of rows are rare, so their code is short.
    if (kWords && row.count == kWord)
      column_extremes<Bits, kN, kWords>(a, row, top, low, high);
    else
      column_extremes<Bits, 1, false>(a, row, top, low, high);
#pragma unroll
    for (int t = 0; t < kPairs; t++) transpose<Bits>(low[t]), transpose<Bits>(high[t]);
#pragma unroll
    for (int j = 0; j < kWord; j++)
#pragma unroll
      for (int t = 0; t < kPairs; t += 2)
        *reinterpret_cast<uint4*>(seen + column_at(w * kWord + j) + group * kPairs + t) =
            make_uint4(low[t][j], high[t][j], low[t + 1][j], high[t + 1][j]);
  }
}

// Finds the extremes of windows from those by columns, for the tile's own pixels.
template <int Bits, int kN>
__device__ __forceinline__ void make_rows(const Args& a, const Tile& tile, const uint2* seen,
                                          uint2* own) {
  const int n = a.interleaved, rx = a.plane.size_x / 2;
  const int items = a.pixels / kRun * n * kPacks;
  for (int i = threadIdx.x; i < items; i += kThreads) {
    const int pack = i % kPacks, channel = i / kPacks % n, x = i / kPacks / n * kRun;
    if (tile.x0 + x >= a.plane.width) continue;
#pragma unroll
    for (int r = 0; r < kRun; r += kN) {
      Extremes<Bits> out[kN];
      window_extremes<Bits, kN>(
          a.plane.size_x,
          [&](int j) {
            const int from = max(min(tile.x0 + x - rx + r + j, a.plane.width - 1), 0);
            const uint2 pair = seen[column_at(from * n + channel - tile.begin) + pack];
            return Extremes<Bits>{parts_of<Bits>(pair.x), parts_of<Bits>(pair.y)};
          },
          out);
#pragma unroll
      for (int t = 0; t < kN; t++)
        own[column_at((x + r + t) * n + channel) + pack] =
            make_uint2(word_of(out[t].low), word_of(out[t].high));
    }
  }
}

// Includes the border's value with Border::constant if a window reaches outside the frame.
template <int Bits>
__device__ __forceinline__ void include_outside(const Args& a, const Tile& tile, uint2* own) {
  constexpr int kWord = kCount<Bits>;
  const Plane& p = a.plane;
  const int n = a.interleaved, rx = p.size_x / 2, ry = p.size_y / 2;
#pragma unroll 1
  for (int i = threadIdx.x; i < a.pixels * n * kPacks; i += kThreads) {
    const int pack = i % kPacks, column = i / kPacks, x = tile.x0 + column / n;
    const int channel = n > 1 ? column % n : a.channels.index >> (8 * blockIdx.z) & 0xff;
    const bool whole = x < rx || x + rx >= p.width;
    uint32_t outside = p.border_value[channel], mask = 0;
    if constexpr (Bits == 32) outside = float_key(outside);
#pragma unroll
    for (int t = 0; t < kWord; t++) {
      const int y = tile.y0 + pack * kWord + t;
      if (whole || y < ry || y + ry >= p.height) mask |= (~0u >> (32 - Bits)) << (Bits * t % 32);
    }
    if constexpr (Bits < 32) outside *= Bits == 8 ? 0x01010101u : 0x00010001u;
    uint2& pair = own[column_at(column) + pack];
    Extremes<Bits> e = {parts_of<Bits>(pair.x), parts_of<Bits>(pair.y)};
    include(e, {parts_of<Bits>(outside | ~mask), parts_of<Bits>(outside & mask)});
    pair = make_uint2(word_of(e.low), word_of(e.high));
  }
}

// Writes the tile's own pixels.
template <int Bits, bool kWords>
__device__ __forceinline__ void write_pixels(const Args& a, const Tile& tile, const uint2* own) {
  constexpr int kWord = kCount<Bits>, kHalf = kTileRows<Bits> / 2;
  const int n = a.interleaved, height = a.plane.height;
  const int words = (min(a.pixels, a.plane.width - tile.x0) * n + kWord - 1) / kWord;
  for (int i = threadIdx.x; i < words * 2; i += kThreads) {
    const int half = i >= words ? 1 : 0, w = i - half * words, top = tile.y0 + half * kHalf;
    const Row<Bits, kWords> row(a, tile.x0 * n + w * kWord, a.plane.width * n);
    const bool whole = kWords && row.count == kWord;
    uint32_t value[kHalf], median[kHalf], low[2][kWord], high[2][kWord];
    if (whole) {
#pragma unroll
      for (int t = 0; t < kHalf; t++) {
        const int y = min(top + t, height - 1);
        value[t] = row.template load<kWords>(a.src, a.src_stride, y);
        median[t] = row.template load<kWords>(a.dst, a.dst_stride, y);
      }
    } else {
#pragma unroll
      for (int t = 0; t < kHalf; t++) {
        const int y = min(top + t, height - 1);
        value[t] = row.template load<false>(a.src, a.src_stride, y);
        median[t] = row.template load<false>(a.dst, a.dst_stride, y);
      }
    }
#pragma unroll
    for (int j = 0; j < kWord; j++) {
      const uint4 pairs =
          *reinterpret_cast<const uint4*>(own + column_at(w * kWord + j) + half * (kPacks / 2));
      low[0][j] = pairs.x, high[0][j] = pairs.y, low[1][j] = pairs.z, high[1][j] = pairs.w;
    }
#pragma unroll
    for (int t = 0; t < 2; t++) transpose<Bits>(low[t]), transpose<Bits>(high[t]);
#pragma unroll
    for (int t = 0; t < kHalf; t++)
      if (top + t < height) {
        const uint32_t word = switched<Bits>(value[t], median[t], low[t / kWord][t % kWord],
                                             high[t / kWord][t % kWord], a.plane.threshold);
        if (whole)
          row.template store<kWords>(a.dst, a.dst_stride, top + t, word);
        else
          row.template store<false>(a.dst, a.dst_stride, top + t, word);
      }
  }
}

template <int Bits, bool kWords, int kN>
__global__ void __launch_bounds__(kThreads) keep_others(const __grid_constant__ Args a) {
  VF_DYNAMIC_SHARED(16, uint2, seen);
  uint2* const own = seen + pairs_of(a.columns);
  const int rx = a.plane.size_x / 2, n = a.interleaved;
  Tile tile;
  tile.x0 = int(blockIdx.x) % a.tiles_x * a.pixels;
  tile.y0 = int(blockIdx.x) / a.tiles_x * kTileRows<Bits>;
  tile.begin = max(tile.x0 - rx, 0) * n / kCount<Bits> * kCount<Bits>;
  tile.end = min(tile.x0 + a.pixels + rx, a.plane.width) * n;
  make_columns<Bits, kWords, kN>(a, tile, seen);
  __syncthreads();
  make_rows<Bits, kN>(a, tile, seen, own);
  __syncthreads();
  if (a.plane.border == Border::constant) {
    include_outside<Bits>(a, tile, own);
    __syncthreads();
  }
  wait_for_previous();
  write_pixels<Bits, kWords>(a, tile, own);
}

template <int Bits>
class OutliersPass final : public PlanePass {
 public:
  OutliersPass(const Plane& plane, const Channels& channels, int all, const Device& device)
      : dense_(plane.step == all), early_(device.starts_early()), count_(channels.count) {
    args_.plane = plane;
    args_.channels = channel_args(plane, channels);
    words_ = shape(dense_ ? plane.step : 1);
    apart_ = shape(1);
  }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    const int minimum = std::min(args_.plane.size_x, args_.plane.size_y);
    if (!dense_ || !is_aligned(view, 4))
      return run(keep_others<Bits, false, 1>, false, queue, view);
    if constexpr (kRows<Bits> == 8)
      if (minimum >= 8) return run(keep_others<Bits, true, 8>, true, queue, view);
    return minimum >= 4 ? run(keep_others<Bits, true, 4>, true, queue, view)
                        : run(keep_others<Bits, true, 1>, true, queue, view);
  }

 private:
  // A launch can have this much shared memory without asking for more.
  static constexpr size_t kMaxShared = 48 * 1024;

  struct Shape {
    int interleaved, pixels, tiles_x, columns;
    int64_t tiles;
    size_t shared;
  };

  // Returns the shape of a tile that gives each thread a whole number of words. The tile has at
  // least as many pixels as the windows add.
  Shape shape(int interleaved) const {
    const Plane& p = args_.plane;
    constexpr int kWord = kCount<Bits>, kWords = kThreads / kGroups<Bits>;
    const int seen = (p.size_x - 1) * interleaved;
    Shape s = {};
    s.interleaved = interleaved;
    const auto set = [&](int pixels) {
      s.pixels = pixels;
      s.columns = pixels * interleaved + seen + 2 * kWord;
      s.shared = sizeof(uint2) * size_t(pairs_of(s.columns) + pairs_of(pixels * interleaved));
    };
    int maximum = kWords * kWord;
    do {
      set(std::max((maximum - seen - kWord + 1) / interleaved / kRun, 1) * kRun);
      maximum += kWords * kWord;
    } while (s.pixels * interleaved < seen);
    while (s.shared > kMaxShared && s.pixels > kRun) set(s.pixels - kRun);
    s.tiles_x = blocks_of(p.width, s.pixels);
    s.tiles = int64_t(s.tiles_x) * blocks_of(p.height, kTileRows<Bits>);
    return s;
  }

  Status run(void (*kernel)(Args), bool words, CudaQueue& queue, const PlaneView& view) {
    const Shape& shape = words ? words_ : apart_;
    const unsigned channels = words ? 1 : unsigned(count_);
    Args args = with_view(args_, view);
    args.pitch = args.plane.step * Bits / 8;
    if (words) args.channels.index = 0;
    args.interleaved = shape.interleaved;
    args.pixels = shape.pixels;
    args.tiles_x = shape.tiles_x;
    args.columns = shape.columns;
    return launch("median outliers", kernel,
                  {dim3(unsigned(shape.tiles), 1, channels), kThreads, shape.shared, early_},
                  queue.cuda_stream(), args);
  }

  Args args_ = {};
  bool dense_, early_;
  int count_;
  Shape words_, apart_;
};

}  // namespace

std::unique_ptr<PlanePass> make_outliers(const Plane& plane, const Channels& channels, int all,
                                         const Device& device) {
  switch (plane.type) {
    case Type::u8:
      return std::make_unique<OutliersPass<8>>(plane, channels, all, device);
    case Type::u16:
      return std::make_unique<OutliersPass<16>>(plane, channels, all, device);
    default:
      return std::make_unique<OutliersPass<32>>(plane, channels, all, device);
  }
}

}  // namespace vf::cuda::median
