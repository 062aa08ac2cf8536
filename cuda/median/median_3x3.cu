// Makes 3 x 3 medians of dense 8-bit RGBA and of dense planes of one or two channels of 8 or 16
// bits, without shared memory.
//
// Idea: a register holds two values, so that four registers cover eight values of a row. Bytes are
// not widened: in a register of two 16-bit values, the byte below a pixel's own byte only breaks
// ties, so the upper byte of the median is exact. A column of three is sorted from the pair that
// two outputs share. The median of nine is the median of (the largest low, the median middle, the
// smallest high). Gray, two channels, 8 and 16 bits differ only in how bytes of neighbouring words
// form registers: permutations whose selectors depend on the plane, so that one launch filters all
// planes of a frame.
//
// Traffic: rows are read twice (through L1), by 16-byte loads, and neighbours' words come by
// shuffle. RGBA rows are read 1.5 times. Each pixel is written once.
// Tile: a thread makes 16 bytes of 2 rows, or 2 x 4 pixels of RGBA.
// Limit (H200): the latency of one wave of loads limits the speed, and then the work does.
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
__device__ __forceinline__ uint32_t median_of_3(uint32_t a, uint32_t b, uint32_t c) {
  return greater(lesser(a, b), lesser(greater(a, b), c));
}

// Holds sorted columns, two in a register.
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

// Holds the minimum and the maximum of columns 0 to 2 and of columns 1 to 3.
struct Extremes {
  uint32_t low[2], high[2];
};
__device__ __forceinline__ Extremes extremes(const Columns& c) {
  const uint32_t low = lesser(c.low[1], c.low[2]), high = greater(c.high[1], c.high[2]);
  return {{lesser(low, c.low[0]), lesser(low, c.low[3])},
          {greater(high, c.high[0]), greater(high, c.high[3])}};
}

constexpr int kThreads = 256, kWords = 4, kRows = 2;

// Describes a plane of one or two channels.
struct RowsPlane {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height;  // pixels
  int pixel;          // bytes of a pixel are 1 << pixel
  int across;         // threads across the plane
  int first;          // block
  // Selectors of the bytes of words that form four registers, and of the bytes of two registers of
  // medians that form a word or two.
  uint32_t columns[4], medians[2];
};
struct RowsArgs {
  RowsPlane plane[kMaxPlanes];
  int planes;
  Border border;
  uint32_t threshold;
  bool overlaps;  // the previous launch, of another plane
};

// Loads pixel `index` of a row.
template <bool kEarly>
__device__ __forceinline__ uint32_t pixel_at(const uint8_t* row, int index, int pixel) {
  if (pixel == 0) return load_frame<kEarly>(row + index);
  if (pixel == 1) return load_frame<kEarly>(reinterpret_cast<const uint16_t*>(row) + index);
  return load_frame<kEarly>(reinterpret_cast<const uint32_t*>(row) + index);
}

// Loads the word at byte x at the frame's right end. It is not inlined, because each processor has
// to fetch the kernel's code, and this part is rarely needed.
__device__ VF_NOINLINE uint32_t word_at_end(const uint8_t* row, int x, int width, int pixel,
                                            Border border) {
  uint32_t word = 0;
#pragma unroll 1
  for (int b = 0; b < 4; b++) {
    const int from = median_border_index(min((x + b) >> pixel, width), width, border);
    word |= uint32_t(row[(from << pixel) + ((x + b) & ((1 << pixel) - 1))]) << (8 * b);
  }
  return word;
}

// Makes the registers of the values in w[1], and for 16 bits in w[2], and of their neighbours in
// the words beside them. Gray bytes need fewer permutations.
template <int Bits, bool kGray>
__device__ __forceinline__ void columns_of(const RowsPlane& l, const uint32_t* w,
                                           uint32_t (&c)[4]) {
  if constexpr (kGray) {
    // The upper bytes are pixels (-1, 1), (0, 2), (1, 3) and (2, 4) of the word.
    c[0] = __funnelshift_r(w[0], w[1], 16);
    c[1] = w[1] << 8;
    c[2] = w[1];
    c[3] = __funnelshift_r(w[1], w[2], 8);
  } else {
    constexpr int kNext = Bits == 8 ? 1 : 2;
    c[0] = __byte_perm(w[0], w[1], l.columns[0]);
    c[1] = __byte_perm(w[1], w[kNext], l.columns[1]);
    c[2] = __byte_perm(w[1], w[kNext], l.columns[2]);
    c[3] = __byte_perm(w[kNext], w[kNext + 1], l.columns[3]);
  }
}

// With kGray there is one plane, of gray bytes. With kEarly the launch may be an early one.
template <int Bits, bool kGray, bool kOutliersOnly, bool kEarly = true>
__global__ void __launch_bounds__(kThreads) median_3x3_rows(const __grid_constant__ RowsArgs a) {
  if (!kEarly) let_next_start();
  int plane = 0;
  if (!kGray)
    while (plane + 1 < a.planes && int(blockIdx.x) >= a.plane[plane + 1].first) plane++;
  const RowsPlane& l = a.plane[plane];
  const int id = (int(blockIdx.x) - (kGray ? 0 : l.first)) * kThreads + int(threadIdx.x);
  const int lane = threadIdx.x & 31, pixel = kGray ? 0 : l.pixel, bytes = l.width << pixel;
  const int x = id % l.across * 4 * kWords, y0 = id / l.across * kRows;
  const bool active = y0 < l.height, whole = x + 4 * kWords <= bytes;
  constexpr int kSeen = kRows + 2;
  const uint8_t* from[kSeen];
#pragma unroll
  for (int j = 0; j < kSeen; j++)
    from[j] =
        l.src + (active ? median_border_index(min(y0 - 1 + j, l.height), l.height, a.border) : 0) *
                    l.src_stride;
  // Another plane may start only when the frame is there.
  if (kEarly) {
    if (!a.overlaps) wait_for_previous();
    let_next_start();
  }
  // All loads come before the first use. Other lanes get the words beside theirs from their
  // neighbours, but a warp's first and last lanes and the lanes at the frame's ends load them.
  uint32_t row[kSeen][kWords + 2] = {};  // with one word of each neighbour
  uint32_t left[kSeen], right[kSeen];
  const bool first = active && (lane == 0 || x == 0);
  const bool last = active && (lane == 31 || x + 4 * kWords >= bytes);
  if (active && whole) {
#pragma unroll
    for (int j = 0; j < kSeen; j++) {
      const uint4 v = load_frame<kEarly>(reinterpret_cast<const uint4*>(from[j] + x));
      row[j][1] = v.x, row[j][2] = v.y, row[j][3] = v.z, row[j][4] = v.w;
    }
  }
  if (first) {
    const int at = median_border_index((x >> pixel) - 1, l.width, a.border);
#pragma unroll
    for (int j = 0; j < kSeen; j++)
      left[j] = pixel_at<kEarly>(from[j], at, pixel) << (32 - (8 << pixel));
  }
  if (last) {
    const int next = min((x + 4 * kWords) >> pixel, l.width);
    const int at = median_border_index(next, l.width, a.border);
#pragma unroll
    for (int j = 0; j < kSeen; j++) right[j] = pixel_at<kEarly>(from[j], at, pixel);
  }
  if (active && !whole) {
#pragma unroll
    for (int j = 0; j < kSeen; j++)
#pragma unroll
      for (int i = 0; i < kWords; i++)
        row[j][1 + i] = word_at_end(from[j], x + 4 * i, l.width, pixel, a.border);
  }
#pragma unroll
  for (int j = 0; j < kSeen; j++) {
    row[j][0] = __shfl_up_sync(~0u, row[j][kWords], 1);
    row[j][kWords + 1] = __shfl_down_sync(~0u, row[j][1], 1);
    if (first) row[j][0] = left[j];
    if (last) row[j][kWords + 1] = right[j];
  }
  if (!active) return;
#pragma unroll
  for (int h = 0; h < kRows; h++) {
    if (y0 + h >= l.height) break;
    constexpr int kStep = Bits / 8;  // words of eight values
    uint32_t out[kWords];
#pragma unroll
    for (int g = 0; g < kWords; g += kStep) {
      uint32_t c[3][4];
#pragma unroll
      for (int k = 0; k < 3; k++) columns_of<Bits, kGray>(l, row[h + k] + g, c[k]);
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
      Extremes e;
      if constexpr (kOutliersOnly) e = extremes(columns);
#pragma unroll
      for (int i = 0; i < kStep; i++) {
        const auto word_of = [&](uint32_t one, uint32_t two) {
          return __byte_perm(one, two, kGray ? 0x7351 : l.medians[i]);
        };
        out[g + i] = word_of(first, second);
        if constexpr (kOutliersOnly)
          out[g + i] =
              switched<Bits>(row[h + 1][g + i + 1], out[g + i], word_of(e.low[0], e.low[1]),
                             word_of(e.high[0], e.high[1]), a.threshold);
      }
    }
    uint8_t* to = l.dst + (y0 + h) * l.dst_stride + x;
    if (whole) {
      *reinterpret_cast<uint4*>(to) = make_uint4(out[0], out[1], out[2], out[3]);
    } else {
#pragma unroll
      for (int g = 0; g < kWords; g++)
#pragma unroll 1
        for (int b = 0; b < 4 && x + 4 * g + b < bytes; b++)
          to[4 * g + b] = uint8_t(out[g] >> (8 * b));
    }
  }
  if (a.overlaps) end_after_previous();
}

struct Args {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height, across;  // threads across the frame
  Border border;
  uint32_t keep, threshold;
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

  void add(const Plane& plane) {
    RowsPlane& l = args_.plane[args_.planes++];
    const bool bytes = plane.type == Type::u8, two = plane.step == 2;
    l.width = plane.width;
    l.height = plane.height;
    l.pixel = int(two) + int(!bytes);
    l.across = blocks_of(int64_t(plane.width) << l.pixel, 4 * kWords);
    l.first = int(grid_);
    constexpr uint32_t kBytes[2][4] = {{0x5432, 0x2100, 0x3210, 0x4321},
                                       {0x3322, 0x1100, 0x3322, 0x5544}};
    constexpr uint32_t kHalves[2][4] = {{0x7632, 0x5410, 0x7632, 0x5410},
                                        {0x3210, 0x3210, 0x7654, 0x7654}};
    std::copy_n(bytes ? kBytes[two] : kHalves[two], 4, l.columns);
    l.medians[0] = bytes ? two ? 0x7531 : 0x7351 : two ? 0x3210 : 0x5410;
    l.medians[1] = two ? 0x7654 : 0x7632;  // of 16 bits
    args_.border = plane.border;
    args_.threshold = plane.threshold;
    bytes_ = bytes;
    gray_ = bytes && !two && args_.planes == 1;
    grid_ += unsigned(blocks_of(int64_t(l.across) * blocks_of(plane.height, kRows), kThreads));
  }

  void set_view(int plane, const PlaneView& view) {
    args_.plane[plane] = with_view(args_.plane[plane], view);
  }
  Status enqueue(CudaQueue& queue, bool outliers_only, bool early, bool overlaps) {
    args_.overlaps = overlaps;
    return launch("median 3x3", outliers_only ? kernel<true>(early) : kernel<false>(early),
                  {grid_, kThreads, 0, early}, queue.cuda_stream(), args_);
  }

 private:
  template <bool kOutliersOnly>
  void (*kernel(bool early) const)(RowsArgs) {
    if (gray_ && !early) return median_3x3_rows<8, true, kOutliersOnly, false>;
    return gray_    ? median_3x3_rows<8, true, kOutliersOnly>
           : bytes_ ? median_3x3_rows<8, false, kOutliersOnly>
                    : median_3x3_rows<16, false, kOutliersOnly>;
  }

  RowsArgs args_ = {};
  unsigned grid_ = 0;
  bool bytes_ = false, gray_ = false;
};

class RowsPass final : public PlanePass {
 public:
  RowsPass(const Plane& plane, const Device& device, bool outliers_only, bool early)
      : outliers_only_(outliers_only),
        overlaps_(device.starts_early()),
        early_(early && overlaps_) {
    rows_.add(plane);
  }

  bool takes(const PlaneView& view) const override { return is_aligned(view, 16); }
  bool is_complete() const override { return outliers_only_; }
  int concurrency_class() const override { return overlaps_; }
  Status enqueue(CudaQueue& queue, const PlaneView& view, bool overlaps_previous) override {
    rows_.set_view(0, view);
    return rows_.enqueue(queue, outliers_only_, early_ || overlaps_previous, overlaps_previous);
  }

 private:
  Rows rows_;
  bool outliers_only_, overlaps_, early_;
};

class RowsFrame final : public FramePass {
 public:
  RowsFrame(const std::vector<Plane>& planes, const Device& device, bool outliers_only)
      : planes_(int(planes.size())), outliers_only_(outliers_only), early_(device.starts_early()) {
    for (const Plane& plane : planes) rows_.add(plane);
  }

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
    return rows_.enqueue(queue, outliers_only_, early_, false);
  }

 private:
  Rows rows_;
  int planes_;
  bool outliers_only_, early_;
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
