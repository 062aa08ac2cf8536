// Makes 3 x 3 medians of dense 8-bit RGBA and of dense planes of one or two channels of 8 or 16
// bits, without shared memory.
//
// Idea: a register holds two values of which both neighbours are in the registers next to it: one
// from each half of a thread's bytes, or with two channels a pixel's. So no column is sorted twice.
// Bytes are not widened: in a register of two 16-bit values, the byte below a pixel's own byte only
// breaks ties, so the upper byte of the median is exact. The median of nine is the median of (the
// largest low, the median middle, the smallest high) of its sorted columns. Compute capability 9.0
// has minima and maxima of three, and the middle of three is their sum without both, which the
// multiply pipe computes. One launch filters all planes of a frame.
//
// Traffic: a thread reads two rows more than it makes (through L1), by 16-byte loads, and
// neighbours' words come by shuffle. Each pixel is written once.
// Tile: a thread makes 16 bytes of 2 or 4 rows, or 2 x 4 pixels of RGBA.
// Limit (H200): for large frames the memory limits the speed, and otherwise the latency of one wave
// of loads and then the work do.
#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"
#include "cuda/median/median.h"
#include "cuda/median/median_device.cuh"

namespace vf::cuda::median {
namespace {

__device__ __forceinline__ uint32_t lesser(uint32_t a, uint32_t b) {
  return __vminu2(a, b);
}
__device__ __forceinline__ uint32_t greater(uint32_t a, uint32_t b) {
  return __vmaxu2(a, b);
}

// Returns the value of three that is neither the least nor the greatest. It computes this with the
// multiply pipe, because minima and maxima need the other one. This is exact modulo 2^32, because
// it holds for the registers as numbers. `one` is 1, which the compiler must not know, and `sum` is
// the sum of the three.
__device__ __forceinline__ uint32_t middle(uint32_t sum, uint32_t low, uint32_t high,
                                           uint32_t one) {
  return multiply_add(high, 0u - one, multiply_add(low, 0u - one, sum));
}

// Holds two columns of three values in order.
struct Sorted {
  uint32_t low, middle, high;
};
__device__ __forceinline__ Sorted sort(uint32_t a, uint32_t b, uint32_t c, uint32_t one) {
  Sorted s;
  s.low = lesser(lesser(a, b), c);
  s.high = greater(greater(a, b), c);
  s.middle = middle(multiply_add(c, one, multiply_add(a, one, b)), s.low, s.high, one);
  return s;
}

// Computes the medians of columns 0 to 2 and of columns 1 to 3.
__device__ __forceinline__ void medians(const Sorted* c, uint32_t one, uint32_t* out) {
  const uint32_t m0 = lesser(c[1].middle, c[2].middle), m1 = greater(c[1].middle, c[2].middle);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const Sorted& other = c[3 * i];
    const uint32_t low = greater(greater(c[1].low, c[2].low), other.low);
    const uint32_t high = lesser(lesser(c[1].high, c[2].high), other.high);
    const uint32_t m = greater(m0, lesser(m1, other.middle));
    out[i] =
        middle(low + m + high, lesser(lesser(low, m), high), greater(greater(low, m), high), one);
  }
}

// Computes the minima and the maxima of the same columns.
__device__ __forceinline__ void extremes(const Sorted* c, uint32_t* low, uint32_t* high) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    low[i] = lesser(lesser(c[1].low, c[2].low), c[3 * i].low);
    high[i] = greater(greater(c[1].high, c[2].high), c[3 * i].high);
  }
}

// A block's warps lie one below the other, so that most of the rows that two of them read come from
// L1.
constexpr int kThreads = 128, kWords = 4, kWarps = kThreads / 32;

// Describes a plane of one or two channels.
struct RowsPlane {
  const uint8_t* src;
  uint8_t* dst;
  int src_stride, dst_stride;  // 32 bits, so that one instruction computes an address
  int width, height;           // pixels
  int pixel;                   // bytes of a pixel are 1 << pixel
  int across;                  // threads across the plane
  int first;                   // block
  int above, below;            // rows that the border shows there
  // Selectors of the bytes, in the two words at an end of a row, of the word that the border shows
  // beyond.
  uint32_t left, right;
};
struct RowsArgs {
  RowsPlane plane[kMaxPlanes];
  int planes;
  Border border;
  uint32_t threshold;
  uint32_t one;   // 1, which the compiler must not know
  bool overlaps;  // the previous launch, of another plane
};

// Returns the 16 bytes from byte x on at the frame's right end. It is not inlined, because each
// processor has to fetch the kernel's code, and this part is rarely needed.
__device__ VF_NOINLINE uint4 words_at_end(const uint8_t* row, int x, int width, int pixel,
                                          Border border) {
  uint32_t word[kWords] = {};
#pragma unroll
  for (int i = 0; i < kWords; i++)
#pragma unroll 1
    for (int b = 0; b < 4; b++) {
      const int at = x + 4 * i + b;
      const int from = median_border_index(min(at >> pixel, width), width, border);
      word[i] |= uint32_t(row[(from << pixel) + (at & ((1 << pixel) - 1))]) << (8 * b);
    }
  return make_uint4(word[0], word[1], word[2], word[3]);
}
__device__ VF_NOINLINE void store_at_end(uint8_t* to, uint4 v, int bytes) {
  const uint32_t word[kWords] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < kWords; i++)
#pragma unroll 1
    for (int b = 0; b < 4 && 4 * i + b < bytes; b++) to[4 * i + b] = uint8_t(word[i] >> (8 * b));
}

// Tells how registers of two values hold a thread's 16 bytes of a row. With one channel, these are
// a value of the first eight bytes and one of the others, so that a column's neighbours are the
// registers next to its own. With two channels, they are those of a pixel.
template <int Bits, bool kTwo>
struct RowsLayout {
  static constexpr int kOutputs = 64 / Bits, kColumns = kOutputs + 2;

  // Makes the register of column k, where 0 is left of the outputs. `w` also has a word of each
  // neighbour.
  static __device__ __forceinline__ uint32_t column(const uint32_t (&w)[kWords + 2], int k) {
    if constexpr (Bits == 8 && !kTwo) {
      const int at = (k + 3) / 4;
      return __byte_perm(w[at], w[at + 2], 0x4400 + (k + 3) % 4 * 0x1111);
    } else if constexpr (Bits == 8) {
      return __byte_perm(w[(k + 1) / 2], 0, 0x1100 + (k + 1) % 2 * 0x2222);
    } else if constexpr (!kTwo) {
      const int at = (k + 1) / 2;
      return __byte_perm(w[at], w[at + 2], (k + 1) % 2 ? 0x7632 : 0x5410);
    } else {
      return w[k];
    }
  }

  // Makes the words of such registers of outputs.
  static __device__ __forceinline__ void words(const uint32_t (&v)[kOutputs],
                                               uint32_t (&out)[kWords]) {
    if constexpr (Bits == 8 && !kTwo) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const uint32_t a = __byte_perm(v[4 * i], v[4 * i + 1], 0x7531);
        const uint32_t b = __byte_perm(v[4 * i + 2], v[4 * i + 3], 0x7531);
        out[i] = __byte_perm(a, b, 0x6420);
        out[2 + i] = __byte_perm(a, b, 0x7531);
      }
    } else if constexpr (Bits == 8) {
#pragma unroll
      for (int i = 0; i < kWords; i++) out[i] = __byte_perm(v[2 * i], v[2 * i + 1], 0x7531);
    } else if constexpr (!kTwo) {
#pragma unroll
      for (int i = 0; i < 2; i++) {
        out[i] = __byte_perm(v[2 * i], v[2 * i + 1], 0x5410);
        out[2 + i] = __byte_perm(v[2 * i], v[2 * i + 1], 0x7632);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWords; i++) out[i] = v[i];
    }
  }
};

// Filters a thread's part of a plane. It begins at byte x of row y0.
template <int Bits, bool kTwo, bool kOutliersOnly, int kRows>
__device__ __forceinline__ void filter_rows(const RowsArgs& a, const RowsPlane& l,
                                            const uint32_t (&row)[kRows + 2][kWords + 2], int x,
                                            int y0, int bytes) {
  using Layout = RowsLayout<Bits, kTwo>;
  constexpr int kColumns = Layout::kColumns, kOutputs = Layout::kOutputs;
  uint32_t c[kRows + 2][kColumns];
#pragma unroll
  for (int j = 0; j < kRows + 2; j++)
#pragma unroll
    for (int k = 0; k < kColumns; k++) c[j][k] = Layout::column(row[j], k);
  uint8_t* to = l.dst + int64_t(y0) * l.dst_stride + x;
#pragma unroll
  for (int h = 0; h < kRows; h++, to += l.dst_stride) {
    if (y0 + h >= l.height) break;
    // Two rows of outputs share the pair of rows between them.
    const int pair = h / 2 * 2 + 1, third = h % 2 ? pair + 2 : pair - 1;
    Sorted sorted[kColumns];
#pragma unroll
    for (int k = 0; k < kColumns; k++)
      sorted[k] = sort(c[pair][k], c[pair + 1][k], c[third][k], a.one);
    uint32_t median[kOutputs], low[kOutputs], high[kOutputs], out[kWords];
#pragma unroll
    for (int k = 0; k < kOutputs; k += 2) {
      medians(&sorted[k], a.one, &median[k]);
      if constexpr (kOutliersOnly) extremes(&sorted[k], &low[k], &high[k]);
    }
    Layout::words(median, out);
    if constexpr (kOutliersOnly) {
      uint32_t lows[kWords], highs[kWords];
      Layout::words(low, lows);
      Layout::words(high, highs);
#pragma unroll
      for (int i = 0; i < kWords; i++)
        out[i] = switched<Bits>(row[h + 1][i + 1], out[i], lows[i], highs[i], a.threshold);
    }
    const uint4 v = make_uint4(out[0], out[1], out[2], out[3]);
    if (x + 4 * kWords <= bytes)
      *reinterpret_cast<uint4*>(to) = v;
    else
      store_at_end(to, v, bytes - x);
  }
}

// A thread makes kRows rows. With kGray there is one plane, of gray bytes. With kEarly the launch
// may be an early one.
template <int Bits, bool kGray, bool kOutliersOnly, int kRows, bool kEarly = true>
__global__ void __launch_bounds__(kThreads) median_3x3_rows(const __grid_constant__ RowsArgs a) {
  if (!kEarly) let_next_start();
  int plane = 0;
  if (!kGray)
    while (plane + 1 < a.planes && int(blockIdx.x) >= a.plane[plane + 1].first) plane++;
  const RowsPlane& l = a.plane[plane];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int id = (int(blockIdx.x) - (kGray ? 0 : l.first)) * 32 + lane;
  const int x = id % l.across * 4 * kWords, y0 = (id / l.across * kWarps + warp) * kRows;
  const int pixel = kGray ? 0 : l.pixel, bytes = l.width << pixel;
  const bool active = y0 < l.height, whole = x + 4 * kWords <= bytes;
  constexpr int kSeen = kRows + 2;
  const uint8_t* from[kSeen];
  const uint8_t* const own = l.src + int64_t(min(y0, l.height - 1)) * l.src_stride + x;
#pragma unroll
  for (int j = 0; j < kSeen; j++) {
    const int y = y0 - 1 + j;
    const int seen = j == 0 && y0 == 0 ? l.above : y < l.height ? y : l.below;
    from[j] = own + (seen - min(y0, l.height - 1)) * l.src_stride;
  }
  // Another plane may start only when the frame is there.
  if (kEarly) {
    if (!a.overlaps) wait_for_previous();
    let_next_start();
  }
  // All loads come before the first use. Other lanes get the words beside theirs from their
  // neighbours, but a warp's first and last lanes load them.
  uint32_t row[kSeen][kWords + 2];  // with one word of each neighbour
  uint32_t beside[kSeen] = {};
  if (whole) {
#pragma unroll
    for (int j = 0; j < kSeen; j++) {
      const uint4 v = load_frame<kEarly>(reinterpret_cast<const uint4*>(from[j]));
      row[j][1] = v.x, row[j][2] = v.y, row[j][3] = v.z, row[j][4] = v.w;
    }
  }
  const int next = lane == 0 ? -4 : 4 * kWords;
  if ((lane == 0 && x > 0) || (lane == 31 && x + next + 4 <= bytes)) {
#pragma unroll
    for (int j = 0; j < kSeen; j++)
      beside[j] = load_frame<kEarly>(reinterpret_cast<const uint32_t*>(from[j] + next));
  }
  if (!whole) {
#pragma unroll
    for (int j = 0; j < kSeen; j++) {
      const uint4 v = words_at_end(from[j] - x, x, l.width, pixel, a.border);
      row[j][1] = v.x, row[j][2] = v.y, row[j][3] = v.z, row[j][4] = v.w;
    }
  } else if (lane == 31 && x + 4 * kWords < bytes && x + next + 4 > bytes) {
    // The border begins in the word behind the warp's.
#pragma unroll
    for (int j = 0; j < kSeen; j++)
      beside[j] = words_at_end(from[j] - x, x + 4 * kWords, l.width, pixel, a.border).x;
  }
#pragma unroll
  for (int j = 0; j < kSeen; j++) {
    row[j][0] = __shfl_up_sync(~0u, row[j][kWords], 1);
    row[j][kWords + 1] = __shfl_down_sync(~0u, row[j][1], 1);
    if (lane == 0) row[j][0] = beside[j];
    if (lane == 31) row[j][kWords + 1] = beside[j];
  }
  if (!active) return;
  if (x == 0) {
#pragma unroll
    for (int j = 0; j < kSeen; j++) row[j][0] = __byte_perm(row[j][1], row[j][2], l.left);
  }
  if (x + 4 * kWords == bytes) {
#pragma unroll
    for (int j = 0; j < kSeen; j++)
      row[j][kWords + 1] = __byte_perm(row[j][kWords - 1], row[j][kWords], l.right);
  }
  if (!kGray && pixel == Bits / 8)
    filter_rows<Bits, true, kOutliersOnly, kRows>(a, l, row, x, y0, bytes);
  else
    filter_rows<Bits, false, kOutliersOnly, kRows>(a, l, row, x, y0, bytes);
  if (a.overlaps) end_after_previous();
}

struct Args {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height, across;  // threads across the frame
  Border border;
  uint32_t keep, threshold;
  uint32_t one;  // 1, which the compiler must not know
};

constexpr int kRgbaThreads = 128, kRgbaRows = 4;

// Holds four pixels of a row. The upper bytes of `odd` are the odd channels, and those of `even`
// the even ones.
struct Four {
  uint32_t even[4], odd[4];
};

// Separates the channels of four pixels.
__device__ __forceinline__ Four four_of(const uint32_t (&v)[4]) {
  Four f;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    f.even[i] = v[i] << 8;
    f.odd[i] = v[i];
  }
  return f;
}

template <bool kOutliersOnly>
__global__ void __launch_bounds__(kRgbaThreads) median_3x3_rgba(Args a) {
  const int id = blockIdx.x * kRgbaThreads + threadIdx.x;
  const int x = id % a.across * 2, y0 = id / a.across * kRgbaRows;
  if (y0 >= a.height) return;
  // The columns are those of the two pixels and one on either side. If the frame ends before the
  // second pixel, `whole` is false.
  const bool whole = x + 2 <= a.width;
  const int left = median_border_index(x - 1, a.width, a.border);
  const int right = median_border_index(min(x + 2, a.width), a.width, a.border);
  constexpr int kSeen = kRgbaRows + 2;
  uint32_t v[kSeen][4];
  const uint32_t* from[kSeen];
#pragma unroll
  for (int j = 0; j < kSeen; j++) {
    const int y = median_border_index(min(y0 - 1 + j, a.height), a.height, a.border);
    from[j] = reinterpret_cast<const uint32_t*>(a.src + y * a.src_stride);
    v[j][0] = __ldg(from[j] + left);
    v[j][3] = __ldg(from[j] + right);
  }
  if (whole) {
#pragma unroll
    for (int j = 0; j < kSeen; j++) {
      const uint2 middle = __ldg(reinterpret_cast<const uint2*>(from[j] + x));
      v[j][1] = middle.x, v[j][2] = middle.y;
    }
  } else {
#pragma unroll
    for (int j = 0; j < kSeen; j++) v[j][1] = __ldg(from[j] + x), v[j][2] = v[j][3];
  }
  Four row[kSeen];
#pragma unroll
  for (int j = 0; j < kSeen; j++) row[j] = four_of(v[j]);
#pragma unroll
  for (int j = 0; j < kRgbaRows; j++) {
    const int y = y0 + j;
    if (y >= a.height) return;
    // Two rows of outputs share the pair of rows between them.
    const int pair = j / 2 * 2 + 1, third = j % 2 ? pair + 2 : pair - 1;
    Sorted evens[4], odds[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      evens[i] = sort(row[pair].even[i], row[pair + 1].even[i], row[third].even[i], a.one);
      odds[i] = sort(row[pair].odd[i], row[pair + 1].odd[i], row[third].odd[i], a.one);
    }
    uint32_t even[2], odd[2], out[2];
    medians(evens, a.one, even);
    medians(odds, a.one, odd);
    uint32_t low[2][2], high[2][2];
    if constexpr (kOutliersOnly) {
      extremes(evens, low[0], high[0]);
      extremes(odds, low[1], high[1]);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint32_t own = row[j + 1].odd[1 + i];
      out[i] = __byte_perm(even[i], odd[i], 0x7351);
      if constexpr (kOutliersOnly)
        out[i] = switched<8>(own, out[i], __byte_perm(low[0][i], low[1][i], 0x7351),
                             __byte_perm(high[0][i], high[1][i], 0x7351), a.threshold);
      out[i] = (out[i] & ~a.keep) | (own & a.keep);
    }
    auto* to = reinterpret_cast<uint32_t*>(a.dst + y * a.dst_stride) + x;
    if (x + 2 <= a.width) {
      *reinterpret_cast<uint2*>(to) = make_uint2(out[0], out[1]);
    } else {
      *to = out[0];
    }
  }
}

bool takes_border(Border border) {
  return border == Border::replicate || border == Border::reflect_101;
}

// Launches the kernel for planes of one or two channels.
class Rows {
 public:
  static bool takes(const Plane& plane, const Channels& channels, int all) {
    return takes_border(plane.border) && plane.size_x == 3 && plane.size_y == 3 &&
           (plane.type == Type::u8 || plane.type == Type::u16) && plane.step == all && all <= 2 &&
           channels.count == all;
  }

  // With `beside`, another plane's kernel runs at the same time.
  Rows(const std::vector<Plane>& planes, bool outliers_only, bool beside)
      : outliers_only_(outliers_only), bytes_(planes[0].type == Type::u8) {
    gray_ = planes.size() == 1 && bytes_ && planes[0].step == 1;
    // Four rows take fewer instructions than twice two. But with a threshold, the code for both
    // numbers of channels does not fit the instruction cache, and one plane has few threads.
    rows_ = gray_ || !(outliers_only || beside) ? 4 : 2;
    args_.border = planes[0].border;
    args_.threshold = planes[0].threshold;
    args_.one = 1;
    for (const Plane& plane : planes) add(plane);
  }

  void set_view(int plane, const PlaneView& view) {
    args_.plane[plane] = with_view(args_.plane[plane], view);
  }
  Status enqueue(CudaQueue& queue, bool early, bool overlaps) {
    args_.overlaps = overlaps;
    return launch("median 3x3", outliers_only_ ? kernel<true>(early) : kernel<false>(early),
                  {grid_, kThreads, 0, early}, queue.cuda_stream(), args_);
  }

 private:
  void add(const Plane& plane) {
    RowsPlane& l = args_.plane[args_.planes++];
    const bool two = plane.step == 2;
    l.width = plane.width;
    l.height = plane.height;
    l.pixel = int(two) + int(!bytes_);
    l.across = blocks_of(int64_t(plane.width) << l.pixel, 4 * kWords);
    l.first = int(grid_);
    l.above = border_index(-1, plane.height, plane.border);
    l.below = border_index(plane.height, plane.height, plane.border);
    const int size = 1 << l.pixel, beyond = border_index(-1, plane.width, plane.border);
    for (int i = 0; i < 4; i++) {
      l.left |= uint32_t(beyond * size + i % size) << (4 * i);
      l.right |= uint32_t(8 - (beyond + 1) * size + i % size) << (4 * i);
    }
    grid_ += unsigned(blocks_of(int64_t(l.across) * blocks_of(plane.height, kWarps * rows_), 32));
  }

  template <bool kOutliersOnly>
  void (*kernel(bool early) const)(RowsArgs) {
    if (gray_ && !early) return median_3x3_rows<8, true, kOutliersOnly, 4, false>;
    if (gray_) return median_3x3_rows<8, true, kOutliersOnly, 4>;
    if constexpr (!kOutliersOnly)
      if (rows_ == 4)
        return bytes_ ? median_3x3_rows<8, false, false, 4> : median_3x3_rows<16, false, false, 4>;
    return bytes_ ? median_3x3_rows<8, false, kOutliersOnly, 2>
                  : median_3x3_rows<16, false, kOutliersOnly, 2>;
  }

  RowsArgs args_ = {};
  unsigned grid_ = 0;
  int rows_;
  bool outliers_only_, bytes_, gray_;
};

class RowsPass final : public PlanePass {
 public:
  RowsPass(const Plane& plane, const Device& device, bool outliers_only, bool early)
      : rows_({plane}, outliers_only, true),
        outliers_only_(outliers_only),
        overlaps_(device.starts_early()),
        early_(early && overlaps_) {}

  bool takes(const PlaneView& view) const override { return is_aligned(view, 16); }
  bool is_complete() const override { return outliers_only_; }
  int concurrency_class() const override { return overlaps_; }
  Status enqueue(CudaQueue& queue, const PlaneView& view, bool overlaps_previous) override {
    rows_.set_view(0, view);
    return rows_.enqueue(queue, early_ || overlaps_previous, overlaps_previous);
  }

 private:
  Rows rows_;
  bool outliers_only_, overlaps_, early_;
};

class RowsFrame final : public FramePass {
 public:
  RowsFrame(const std::vector<Plane>& planes, const Device& device, bool outliers_only)
      : rows_(planes, outliers_only, false),
        planes_(int(planes.size())),
        early_(device.starts_early()) {}

  bool takes(const Image& src, const Image& dst) const override {
    for (int i = 0; i < planes_; i++)
      if (src.data[i] == dst.data[i] || !is_aligned(src.data[i], src.stride[i], 16) ||
          !is_aligned(dst.data[i], dst.stride[i], 16))
        return false;
    return true;
  }
  Status enqueue(CudaQueue& queue, const Image& src, const Image& dst) override {
    for (int i = 0; i < planes_; i++)
      rows_.set_view(i, {static_cast<const uint8_t*>(src.data[i]),
                         static_cast<uint8_t*>(dst.data[i]), src.stride[i], dst.stride[i]});
    return rows_.enqueue(queue, early_, false);
  }

 private:
  Rows rows_;
  int planes_;
  bool early_;
};

class RgbaPass final : public PlanePass {
 public:
  RgbaPass(const Plane& plane, const Channels& channels, bool outliers_only)
      : outliers_only_(outliers_only) {
    args_.width = plane.width;
    args_.height = plane.height;
    args_.border = plane.border;
    args_.keep = kept_bits(channels.mask);
    args_.threshold = plane.threshold;
    args_.one = 1;
    args_.across = blocks_of(plane.width, 2);
    const int64_t total = int64_t(args_.across) * blocks_of(plane.height, kRgbaRows);
    grid_ = unsigned(blocks_of(total, kRgbaThreads));
  }

  bool takes(const PlaneView& view) const override { return is_aligned(view, 8); }
  bool is_complete() const override { return outliers_only_; }
  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    return launch("median 3x3", outliers_only_ ? median_3x3_rgba<true> : median_3x3_rgba<false>,
                  {grid_, kRgbaThreads}, queue.cuda_stream(), with_view(args_, view));
  }

 private:
  bool outliers_only_;
  Args args_ = {};
  unsigned grid_ = 0;
};

}  // namespace

std::unique_ptr<PlanePass> make_3x3(const Plane& plane, const Channels& channels, int all,
                                    const Device& device, bool outliers_only, bool early) {
  if (Rows::takes(plane, channels, all))
    return std::make_unique<RowsPass>(plane, device, outliers_only, early);
  if (takes_border(plane.border) && plane.size_x == 3 && plane.size_y == 3 &&
      plane.type == Type::u8 && plane.step == 4 && all == 4 && channels.count > 1)
    return std::make_unique<RgbaPass>(plane, channels, outliers_only);
  return nullptr;
}

bool in_3x3_frame(const Plane& plane, const Channels& channels, int all) {
  return Rows::takes(plane, channels, all);
}

std::unique_ptr<FramePass> make_3x3_frame(const std::vector<Plane>& planes, const Device& device,
                                          bool outliers_only) {
  return std::make_unique<RowsFrame>(planes, device, outliers_only);
}

}  // namespace vf::cuda::median
