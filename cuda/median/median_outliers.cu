// Applies the median's threshold: pixels that are no outliers get back their own values.
//
// Idea: the kernel runs after the medians are made and reads the same source. Besides its median, a
// pixel needs the minimum and the maximum of its window, which are found by columns and then by
// rows. A thread makes the extremes of eight neighbouring windows, which share most of their
// values. The pixels outside the frame matter for Border::constant only: the other borders repeat
// values that the window has anyway.
//
// Traffic: the source is read twice, one time with the window's rows above and below a tile, from
// L1 and L2. The medians are read once, and there is one write. The kernel starts while the medians
// are made and waits for them before it compares. Its time does not depend on the image.
// Tile: 128 pixels of a channel by 8 rows.
// Limit: minima, maxima and loads limit the speed.
#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"
#include "cuda/median/median.h"
#include "cuda/median/median_device.cuh"
#include "filters/median.h"

namespace vf::cuda::median {
namespace {

constexpr int kThreads = 128;
constexpr int kRun = 8;  // neighbouring windows of a thread, and rows of a tile
constexpr int kWidth = kThreads;
// From one row of a tile with its windows to the next. Lanes of eight rows meet different banks.
constexpr int kPitch = 385;
static_assert(kPitch >= kWidth + MedianParams::kMaxSize - 1 && kPitch % 16 == 1, "");

struct Args {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  Plane plane;
  ChannelArgs channels;
};

struct alignas(8) Extremes {
  uint32_t low, high;
  __device__ __forceinline__ void include(const Extremes& other) {
    low = min(low, other.low);
    high = max(high, other.high);
  }
};

// Finds the extremes of windows of `size` values. Window i begins at value i.
template <class Load>
__device__ __forceinline__ void window_extremes(int size, const Load& load, Extremes (&out)[kRun]) {
  Extremes common = {~0u, 0};
#pragma unroll 4
  for (int j = kRun - 1; j < size; j++) common.include(load(j));
#pragma unroll
  for (Extremes& e : out) e = common;
  // The other values are at the start and at the end.
  const int start = min(size, kRun - 1);
#pragma unroll
  for (int n = 0; n < 2 * (kRun - 1); n++) {
    const int j = n < start ? n : size + n - start;
    if (j >= size + kRun - 1) break;
    const Extremes value = load(j);
#pragma unroll
    for (int i = 0; i < kRun; i++)
      if (unsigned(j - i) < unsigned(size)) out[i].include(value);
  }
}

template <int Bits>
__global__ void __launch_bounds__(kThreads) keep_others(const __grid_constant__ Args a) {
  using Seen = Extremes[kRun * kPitch];
  VF_SHARED(Seen, seen);
  const Plane& p = a.plane;
  const int channel = a.channels.index >> (8 * blockIdx.z) & 0xff;
  const int rx = p.size_x / 2, ry = p.size_y / 2, across = (p.width + kWidth - 1) / kWidth;
  const int x0 = int(blockIdx.x) % across * kWidth, y0 = int(blockIdx.x) / across * kRun;
  const auto inside = [](int i, int n) { return max(min(i, n - 1), 0); };
  // The extremes by columns, of the columns that the tile's windows cover.
  for (int i = threadIdx.x; i < kWidth + 2 * rx; i += kThreads) {
    const int at = inside(x0 - rx + i, p.width) * p.step + channel;
    Extremes out[kRun];
    window_extremes(
        p.size_y,
        [&](int j) {
          const int y = inside(y0 - ry + j, p.height);
          const uint32_t key = key_at<Bits>(a.src + y * a.src_stride, at);
          return Extremes{key, key};
        },
        out);
#pragma unroll
    for (int r = 0; r < kRun; r++) seen[r * kPitch + i] = out[r];
  }
  __syncthreads();
  const int row = threadIdx.x % kRun, first = threadIdx.x / kRun * kRun, y = y0 + row;
  const Extremes* const from = seen + row * kPitch + first;
  Extremes out[kRun];
  window_extremes(
      p.size_x, [&](int j) { return from[j]; }, out);
  wait_for_previous();
  if (y >= p.height) return;
  const auto* const src = a.src + y * a.src_stride;
  auto* const dst = a.dst + y * a.dst_stride;
#pragma unroll
  for (int i = 0; i < kRun; i++) {
    const int x = x0 + first + i, at = x * p.step + channel;
    if (x >= p.width) break;
    if (p.border == Border::constant &&
        (x < rx || x + rx >= p.width || y < ry || y + ry >= p.height)) {
      const uint32_t value = p.border_value[channel];
      const uint32_t key = Bits == 32 ? float_key(value) : value;
      out[i].include({key, key});
    }
    using Component =
        std::conditional_t<Bits == 8, uint8_t, std::conditional_t<Bits == 16, uint16_t, uint32_t>>;
    const uint32_t value = reinterpret_cast<const Component*>(src)[at];
    auto& median = reinterpret_cast<Component*>(dst)[at];
    constexpr int kCompared = Bits == 32 ? 32 : 16;
    median = Component(switched<kCompared>(value, median, out[i].low, out[i].high, p.threshold));
  }
}

class OutliersPass final : public PlanePass {
 public:
  OutliersPass(const Plane& plane, const Device& device)
      : early_(device.starts_early()),
        grid_(unsigned(blocks_of(plane.width, kWidth) * blocks_of(plane.height, kRun)), 1,
              plane.count) {
    args_.plane = plane;
    args_.channels = channel_args(plane);
  }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    const Type type = args_.plane.type;
    const auto kernel = type == Type::u8    ? &keep_others<8>
                        : type == Type::u16 ? &keep_others<16>
                                            : &keep_others<32>;
    return launch("median outliers", kernel, {grid_, kThreads, 0, early_}, queue,
                  with_view(args_, view));
  }

 private:
  Args args_ = {};
  bool early_;
  dim3 grid_;
};

}  // namespace

std::unique_ptr<PlanePass> make_outliers(const Plane& plane, const Device& device) {
  return std::make_unique<OutliersPass>(plane, device);
}

}  // namespace vf::cuda::median
