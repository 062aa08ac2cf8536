// Makes 3 x 3 medians of dense 8-bit RGBA and of one or two channels of 8 or 16 bits.
//
// Idea: a register holds two values of which both neighbours are in the registers next to it: one
// from each half of a thread's bytes, or with several channels a pixel's. So no column is sorted
// twice.
// Bytes are not widened: in a register of two 16-bit values, the byte below a pixel's own byte only
// breaks ties, so the upper byte of the median is exact. The median of nine is the median of (the
// largest low, the median middle, the smallest high) of its sorted columns. Compute capability 9.0
// has minima and maxima of three, and the middle of three is their sum without both, which the
// multiply pipe computes. One launch filters all planes of a frame.
//
// Traffic: a thread reads two rows more than it makes (through L1), by 16-byte loads, and
// neighbours' words come by shuffle. Each pixel is written once.
// Tile: a thread makes 16 bytes of 2 or 4 rows.
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

__device__ __forceinline__ void extremes(const Sorted* c, uint32_t* low, uint32_t* high) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    low[i] = lesser(lesser(c[1].low, c[2].low), c[3 * i].low);
    high[i] = greater(greater(c[1].high, c[2].high), c[3 * i].high);
  }
}

// A block's warps lie one below the other, so that most rows that two of them read are in L1.
constexpr int kThreads = 128, kWords = 4, kWarps = kThreads / 32;

struct RowsPlane {
  const uint8_t* src;
  uint8_t* dst;
  int src_stride, dst_stride;  // 32 bits, so that one instruction computes an address
  int width, height;           // pixels
  int pixel;                   // bytes of a pixel are 1 << pixel
  int across;                  // threads across the plane
  int first;                   // block
  int above, below;            // rows that the border shows there
  // Selectors, from the two words at an end of a row, of the word that the border shows beyond.
  uint32_t left, right;
  uint32_t keep;  // bits of a pixel of RGBA that are copied
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
// registers next to its own. With two channels, they are those of a pixel. With four, there are two
// sets of registers, of the even and of the odd channels.
template <int Bits, int kChannels>
struct RowsLayout {
  static constexpr int kSets = kChannels == 4 ? 2 : 1;
  static constexpr int kOutputs = 64 / Bits / kSets, kColumns = kOutputs + 2;

  // Makes the register of column k; 0 is left of the outputs. `w` has a word of each neighbour.
  static __device__ __forceinline__ uint32_t column(const uint32_t (&w)[kWords + 2], int set,
                                                    int k) {
    if constexpr (kChannels == 4) {
      return set == 0 ? w[k] << 8 : w[k];
    } else if constexpr (Bits == 8 && kChannels == 1) {
      const int at = (k + 3) / 4;
      return __byte_perm(w[at], w[at + 2], 0x4400 + (k + 3) % 4 * 0x1111);
    } else if constexpr (Bits == 8) {
      return __byte_perm(w[(k + 1) / 2], 0, 0x1100 + (k + 1) % 2 * 0x2222);
    } else if constexpr (kChannels == 1) {
      const int at = (k + 1) / 2;
      return __byte_perm(w[at], w[at + 2], (k + 1) % 2 ? 0x7632 : 0x5410);
    } else {
      return w[k];
    }
  }

  static __device__ __forceinline__ void words(const uint32_t (&sets)[kSets][kOutputs],
                                               uint32_t (&out)[kWords]) {
    const uint32_t(&v)[kOutputs] = sets[0];
    if constexpr (kChannels == 4) {
#pragma unroll
      for (int i = 0; i < kWords; i++) out[i] = __byte_perm(v[i], sets[1][i], 0x7351);
    } else if constexpr (Bits == 8 && kChannels == 1) {
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
    } else if constexpr (kChannels == 1) {
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
template <int Bits, int kChannels, bool kOutliersOnly, int kRows>
__device__ __forceinline__ void filter_rows(const RowsArgs& a, const RowsPlane& l,
                                            const uint32_t (&row)[kRows + 2][kWords + 2], int x,
                                            int y0, int bytes) {
  using Layout = RowsLayout<Bits, kChannels>;
  constexpr int kSets = Layout::kSets, kColumns = Layout::kColumns, kOutputs = Layout::kOutputs;
  uint32_t c[kSets][kRows + 2][kColumns];
#pragma unroll
  for (int s = 0; s < kSets; s++)
#pragma unroll
    for (int j = 0; j < kRows + 2; j++)
#pragma unroll
      for (int k = 0; k < kColumns; k++) c[s][j][k] = Layout::column(row[j], s, k);
  uint8_t* to = l.dst + int64_t(y0) * l.dst_stride + x;
#pragma unroll
  for (int h = 0; h < kRows; h++, to += l.dst_stride) {
    if (y0 + h >= l.height) break;
    // Two rows of outputs share the pair of rows between them.
    const int pair = h / 2 * 2 + 1, third = h % 2 ? pair + 2 : pair - 1;
    uint32_t median[kSets][kOutputs], low[kSets][kOutputs], high[kSets][kOutputs], out[kWords];
#pragma unroll
    for (int s = 0; s < kSets; s++) {
      Sorted sorted[kColumns];
#pragma unroll
      for (int k = 0; k < kColumns; k++)
        sorted[k] = sort(c[s][pair][k], c[s][pair + 1][k], c[s][third][k], a.one);
#pragma unroll
      for (int k = 0; k < kOutputs; k += 2) {
        medians(&sorted[k], a.one, &median[s][k]);
        if constexpr (kOutliersOnly) extremes(&sorted[k], &low[s][k], &high[s][k]);
      }
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
    if constexpr (kChannels == 4) {
#pragma unroll
      for (int i = 0; i < kWords; i++) out[i] = (out[i] & ~l.keep) | (row[h + 1][i + 1] & l.keep);
    }
    const uint4 v = make_uint4(out[0], out[1], out[2], out[3]);
    if (x + 4 * kWords <= bytes)
      *reinterpret_cast<uint4*>(to) = v;
    else
      store_at_end(to, v, bytes - x);
  }
}

// A thread makes kRows rows. With kOnly of 1 or 4 there is one plane of bytes, of so many channels.
// With 0, planes have one or two. With kEarly the launch may be an early one.
template <int Bits, int kOnly, bool kOutliersOnly, int kRows, bool kEarly = true>
__global__ void __launch_bounds__(kThreads) median_3x3_rows(const __grid_constant__ RowsArgs a) {
  if (!kEarly) let_next_start();
  int plane = 0;
  if (kOnly == 0)
    while (plane + 1 < a.planes && int(blockIdx.x) >= a.plane[plane + 1].first) plane++;
  const RowsPlane& l = a.plane[plane];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int id = (int(blockIdx.x) - (kOnly ? 0 : l.first)) * 32 + lane;
  const int x = id % l.across * 4 * kWords, y0 = (id / l.across * kWarps + warp) * kRows;
  const int pixel = kOnly ? kOnly / 2 : l.pixel, bytes = l.width << pixel;
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
  if (kOnly == 0 && pixel == Bits / 8)
    filter_rows<Bits, 2, kOutliersOnly, kRows>(a, l, row, x, y0, bytes);
  else
    filter_rows<Bits, kOnly == 4 ? 4 : 1, kOutliersOnly, kRows>(a, l, row, x, y0, bytes);
  if (a.overlaps) end_after_previous();
}

class Rows {
 public:
  static bool takes(const Plane& plane) {
    const bool bytes = plane.type == Type::u8;
    const int all = plane.channels;
    return (plane.border == Border::replicate || plane.border == Border::reflect_101) &&
           plane.size_x == 3 && plane.size_y == 3 && (bytes || plane.type == Type::u16) &&
           plane.step == all &&
           ((all <= 2 && plane.count == all) || (bytes && all == 4 && plane.count > 1));
  }

  // With `beside`, another plane's kernel runs at the same time.
  Rows(const std::vector<Plane>& planes, bool beside)
      : outliers_only_(planes[0].outliers_only), bytes_(planes[0].type == Type::u8) {
    gray_ = planes.size() == 1 && bytes_ && planes[0].step == 1;
    rgba_ = planes[0].step == 4;
    args_.plane[0].keep = kept_bits(planes[0].mask);
    // Four rows take fewer instructions than twice two. But with a threshold, the code for both
    // numbers of channels does not fit the instruction cache, and one plane has few threads.
    rows_ = gray_ || rgba_ || !(outliers_only_ || beside) ? 4 : 2;
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
                  {grid_, kThreads, 0, early}, queue, args_);
  }

 private:
  void add(const Plane& plane) {
    RowsPlane& l = args_.plane[args_.planes++];
    l.width = plane.width;
    l.height = plane.height;
    l.pixel = plane.step / 2 + int(!bytes_);
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
    if (gray_ && !early) return median_3x3_rows<8, 1, kOutliersOnly, 4, false>;
    if (gray_) return median_3x3_rows<8, 1, kOutliersOnly, 4>;
    if (rgba_) return median_3x3_rows<8, 4, kOutliersOnly, 4>;
    if constexpr (!kOutliersOnly)
      if (rows_ == 4)
        return bytes_ ? median_3x3_rows<8, 0, false, 4> : median_3x3_rows<16, 0, false, 4>;
    return bytes_ ? median_3x3_rows<8, 0, kOutliersOnly, 2>
                  : median_3x3_rows<16, 0, kOutliersOnly, 2>;
  }

  RowsArgs args_ = {};
  unsigned grid_ = 0;
  int rows_;
  bool outliers_only_, bytes_, gray_, rgba_;
};

class RowsPass final : public PlanePass {
 public:
  RowsPass(const Plane& plane, const Device& device, bool early)
      : rows_({plane}, true),
        outliers_only_(plane.outliers_only),
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
  RowsFrame(const std::vector<Plane>& planes, const Device& device)
      : rows_(planes, false), planes_(int(planes.size())), early_(device.starts_early()) {}

  bool takes(const Image& src, const Image& dst) const override {
    for (int i = 0; i < planes_; i++)
      if (src.data[i] == dst.data[i] || !is_aligned(view_of(src, dst, i), 16)) return false;
    return true;
  }
  Status enqueue(CudaQueue& queue, const Image& src, const Image& dst) override {
    for (int i = 0; i < planes_; i++) rows_.set_view(i, view_of(src, dst, i));
    return rows_.enqueue(queue, early_, false);
  }

 private:
  Rows rows_;
  int planes_;
  bool early_;
};

}  // namespace

std::unique_ptr<PlanePass> make_3x3(const Plane& plane, const Device& device, bool early) {
  if (!Rows::takes(plane)) return nullptr;
  return std::make_unique<RowsPass>(plane, device, early);
}

bool in_3x3_frame(const Plane& plane) {
  return plane.channels <= 2 && Rows::takes(plane);
}

std::unique_ptr<FramePass> make_3x3_frame(const std::vector<Plane>& planes, const Device& device) {
  return std::make_unique<RowsFrame>(planes, device);
}

}  // namespace vf::cuda::median
