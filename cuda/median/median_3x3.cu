// 3 x 3 medians of dense 8-bit gray and RGBA, without shared memory.
//
// Idea: a register holds two values, so that four registers cover eight pixels of a row. Bytes are
// not widened: in a register of two 16-bit values, the byte below a pixel's own byte only breaks
// ties, so the upper byte of the median is exact. A column of three is sorted from the pair that
// two outputs share. The median of nine is the median of (the largest low, the median middle, the
// smallest high).
//
// Traffic: gray rows are read twice (through L1), by 16-byte loads, and neighbours' words come by
// shuffle. RGBA rows are read 1.5 times. Each pixel is written once.
// Tile: a thread makes 16 x 2 pixels of gray or 2 x 4 pixels of RGBA.
// Limit (H200): the latency of one wave of loads, and then the work.
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
__device__ __forceinline__ uint32_t median_of_3(uint32_t a, uint32_t b, uint32_t c) {
  return greater(lesser(a, b), lesser(greater(a, b), c));
}

// Sorted columns, two per register.
struct Columns {
  uint32_t low[4], middle[4], high[4];
};

// Makes columns of three from sorted pairs a and b and a third pixel.
__device__ __forceinline__ Columns insert(const uint32_t (&a)[4], const uint32_t (&b)[4],
                                          const uint32_t (&third)[4]) {
  Columns c;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const uint32_t t = greater(a[i], third[i]);
    c.low[i] = lesser(a[i], third[i]);
    c.middle[i] = lesser(b[i], t);
    c.high[i] = greater(b[i], t);
  }
  return c;
}

// Computes the medians of columns 0 to 2 and of columns 1 to 3.
__device__ __forceinline__ void medians(const Columns& c, uint32_t* first, uint32_t* second) {
  const uint32_t low = greater(c.low[1], c.low[2]), high = lesser(c.high[1], c.high[2]);
  const uint32_t m0 = lesser(c.middle[1], c.middle[2]), m1 = greater(c.middle[1], c.middle[2]);
  *first = median_of_3(greater(low, c.low[0]), greater(m0, lesser(m1, c.middle[0])),
                       lesser(high, c.high[0]));
  *second = median_of_3(greater(low, c.low[3]), greater(m0, lesser(m1, c.middle[3])),
                        lesser(high, c.high[3]));
}

// Minimum and maximum of columns 0 to 2 and of columns 1 to 3.
struct Extremes {
  uint32_t low[2], high[2];
};
__device__ __forceinline__ Extremes extremes(const Columns& c) {
  const uint32_t low = lesser(c.low[1], c.low[2]), high = greater(c.high[1], c.high[2]);
  return {{lesser(low, c.low[0]), lesser(low, c.low[3])},
          {greater(high, c.high[0]), greater(high, c.high[3])}};
}

struct Args {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height, across;  // threads across the frame
  Border border;
  uint32_t keep, threshold;
  bool overlaps;  // the previous launch, of another plane
};

constexpr int kGrayThreads = 256, kGrayWords = 4, kGrayRows = 2;

// Loads four pixels at the frame's right end. It is not inlined, because each processor has to
// fetch the kernel's code, and this part is rarely needed.
__device__ VF_NOINLINE uint32_t word_at_end(const uint8_t* row, int x, int width, Border border) {
  uint32_t word = 0;
#pragma unroll 1
  for (int b = 0; b < 4; b++)
    word |= uint32_t(row[median_border_index(min(x + b, width), width, border)]) << (8 * b);
  return word;
}

template <bool kOutliersOnly>
__global__ void __launch_bounds__(kGrayThreads) median_3x3_gray(Args a) {
  let_next_start();
  const int id = blockIdx.x * kGrayThreads + threadIdx.x, lane = threadIdx.x & 31;
  const int x = id % a.across * 4 * kGrayWords, y0 = id / a.across * kGrayRows;
  const bool active = y0 < a.height, whole = x + 4 * kGrayWords <= a.width;
  constexpr int kSeen = kGrayRows + 2;
  const uint8_t* from[kSeen];
#pragma unroll
  for (int j = 0; j < kSeen; j++)
    from[j] =
        a.src + (active ? median_border_index(min(y0 - 1 + j, a.height), a.height, a.border) : 0) *
                    a.src_stride;
  // All loads come before the first use. Other lanes get the words beside theirs from their
  // neighbours, but a warp's first and last lanes and the lanes at the frame's ends load them.
  uint32_t row[kSeen][kGrayWords + 2] = {};  // with one word of each neighbour
  uint32_t left[kSeen], right[kSeen];
  const bool first = active && (lane == 0 || x == 0);
  const bool last = active && (lane == 31 || x + 4 * kGrayWords >= a.width);
  if (active && whole) {
#pragma unroll
    for (int j = 0; j < kSeen; j++) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(from[j] + x));
      row[j][1] = v.x, row[j][2] = v.y, row[j][3] = v.z, row[j][4] = v.w;
    }
  }
  if (first) {
    const int at = median_border_index(x - 1, a.width, a.border);
#pragma unroll
    for (int j = 0; j < kSeen; j++) left[j] = uint32_t(__ldg(from[j] + at)) << 24;
  }
  if (last) {
    const int at = median_border_index(min(x + 4 * kGrayWords, a.width), a.width, a.border);
#pragma unroll
    for (int j = 0; j < kSeen; j++) right[j] = __ldg(from[j] + at);
  }
  if (active && !whole) {
#pragma unroll
    for (int j = 0; j < kSeen; j++)
#pragma unroll
      for (int i = 0; i < kGrayWords; i++)
        row[j][1 + i] = word_at_end(from[j], x + 4 * i, a.width, a.border);
  }
#pragma unroll
  for (int j = 0; j < kSeen; j++) {
    row[j][0] = __shfl_up_sync(~0u, row[j][kGrayWords], 1);
    row[j][kGrayWords + 1] = __shfl_down_sync(~0u, row[j][1], 1);
    if (first) row[j][0] = left[j];
    if (last) row[j][kGrayWords + 1] = right[j];
  }
  if (!active) return;
#pragma unroll
  for (int h = 0; h < kGrayRows; h++) {
    if (y0 + h >= a.height) break;
    uint32_t out[kGrayWords];
#pragma unroll
    for (int g = 0; g < kGrayWords; g++) {
      // The upper bytes of four registers are pixels (-1, 1), (0, 2), (1, 3) and (2, 4) of the
      // word.
      uint32_t c[3][4];
#pragma unroll
      for (int k = 0; k < 3; k++) {
        const uint32_t* w = row[h + k] + g;
        c[k][0] = __funnelshift_r(w[0], w[1], 16);
        c[k][1] = w[1] << 8;
        c[k][2] = w[1];
        c[k][3] = __funnelshift_r(w[1], w[2], 8);
      }
      // Both outputs use rows 1 and 2 of the four, and the compiler sorts this pair once.
      const int other = h == 0 ? 2 : 0, third = h == 0 ? 0 : 2;
      uint32_t low[4], high[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const uint32_t p = h == 0 ? c[1][i] : c[other][i], q = h == 0 ? c[other][i] : c[1][i];
        low[i] = lesser(p, q);
        high[i] = greater(p, q);
      }
      const Columns columns = insert(low, high, c[third]);
      uint32_t first, second;
      medians(columns, &first, &second);
      out[g] = __byte_perm(first, second, 0x7351);
      if constexpr (kOutliersOnly) {
        const Extremes e = extremes(columns);
        out[g] = switched<8>(row[h + 1][g + 1], out[g], __byte_perm(e.low[0], e.low[1], 0x7351),
                             __byte_perm(e.high[0], e.high[1], 0x7351), a.threshold);
      }
    }
    uint8_t* to = a.dst + (y0 + h) * a.dst_stride + x;
    if (whole) {
      *reinterpret_cast<uint4*>(to) = make_uint4(out[0], out[1], out[2], out[3]);
    } else {
#pragma unroll
      for (int g = 0; g < kGrayWords; g++)
#pragma unroll 1
        for (int b = 0; b < 4 && x + 4 * g + b < a.width; b++)
          to[4 * g + b] = uint8_t(out[g] >> (8 * b));
    }
  }
  if (a.overlaps) end_after_previous();
}

constexpr int kRgbaThreads = 128, kRgbaRows = 4;

// Four pixels of a row. The upper bytes of `odd` are the odd channels, and those of `even` the even
// channels.
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
  for (int j = 0; j < kRgbaRows; j += 2) {
    uint32_t low[2][4], high[2][4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      low[0][i] = lesser(row[j + 1].even[i], row[j + 2].even[i]);
      high[0][i] = greater(row[j + 1].even[i], row[j + 2].even[i]);
      low[1][i] = lesser(row[j + 1].odd[i], row[j + 2].odd[i]);
      high[1][i] = greater(row[j + 1].odd[i], row[j + 2].odd[i]);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int y = y0 + j + h;
      if (y >= a.height) return;
      uint32_t even[2], odd[2], out[2];
      const Columns evens = insert(low[0], high[0], row[j + 3 * h].even);
      const Columns odds = insert(low[1], high[1], row[j + 3 * h].odd);
      medians(evens, &even[0], &even[1]);
      medians(odds, &odd[0], &odd[1]);
      Extremes e, o;
      if constexpr (kOutliersOnly) e = extremes(evens), o = extremes(odds);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        out[i] = __byte_perm(even[i], odd[i], 0x7351);
        if constexpr (kOutliersOnly)
          out[i] = switched<8>(row[j + 1 + h].odd[1 + i], out[i],
                               __byte_perm(e.low[i], o.low[i], 0x7351),
                               __byte_perm(e.high[i], o.high[i], 0x7351), a.threshold);
        out[i] = (out[i] & ~a.keep) | (row[j + 1 + h].odd[1 + i] & a.keep);
      }
      auto* to = reinterpret_cast<uint32_t*>(a.dst + y * a.dst_stride) + x;
      if (x + 2 <= a.width) {
        *reinterpret_cast<uint2*>(to) = make_uint2(out[0], out[1]);
      } else {
        *to = out[0];
      }
    }
  }
}

class Pass3x3 final : public PlanePass {
 public:
  Pass3x3(bool rgba, const Plane& plane, const Channels& channels, const Device& device,
          bool outliers_only)
      : rgba_(rgba), outliers_only_(outliers_only), overlaps_(!rgba && device.starts_early()) {
    const int pixels = rgba ? 2 : 4 * kGrayWords, rows = rgba ? kRgbaRows : kGrayRows;
    args_.width = plane.width;
    args_.height = plane.height;
    args_.border = plane.border;
    args_.keep = kept_bits(channels.mask);
    args_.threshold = plane.threshold;
    args_.across = blocks_of(plane.width, pixels);
    const int64_t total = int64_t(args_.across) * blocks_of(plane.height, rows);
    threads_ = rgba ? kRgbaThreads : kGrayThreads;
    grid_ = unsigned(blocks_of(total, threads_));
  }

  bool takes(const PlaneView& view) const override { return is_aligned(view, rgba_ ? 8 : 16); }

  bool is_complete() const override { return outliers_only_; }

  // Frames of four channels have one plane.
  int concurrency_class() const override { return overlaps_; }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool overlaps_previous) override {
    Args args = with_view(args_, view);
    args.overlaps = overlaps_previous;
    return launch("median 3x3", kernel(), {grid_, threads_, 0, overlaps_previous},
                  queue.cuda_stream(), args);
  }

 private:
  void (*kernel() const)(Args) {
    if (rgba_) return outliers_only_ ? median_3x3_rgba<true> : median_3x3_rgba<false>;
    return outliers_only_ ? median_3x3_gray<true> : median_3x3_gray<false>;
  }

  bool rgba_, outliers_only_, overlaps_;
  Args args_ = {};
  unsigned grid_ = 0, threads_ = 0;
};

}  // namespace

std::unique_ptr<PlanePass> make_3x3(Format format, const Plane& plane, const Channels& channels,
                                    const Device& device, bool outliers_only) {
  const bool rgba = format == Format::rgba8;
  if ((plane.border != Border::replicate && plane.border != Border::reflect_101) ||
      !(rgba || (format == Format::u8 && plane.step == 1)))
    return nullptr;
  return std::make_unique<Pass3x3>(rgba, plane, channels, device, outliers_only);
}

}  // namespace vf::cuda::median
