// The threshold of the median: pixels that are no outliers get their own values back.
//
// Idea: runs after the medians are made, from the same source. A thread compares a 32-bit word of
// a row with that of the medians, and looks through the window of each component that differs by
// more than the threshold only until it finds a value beyond it: noise is told after a few loads,
// and only an outlier's window is read whole, from L1. The word is written once.
#include "cuda/launch.h"
#include "cuda/median_device.cuh"

namespace vf::cuda::median {
namespace {

struct Args {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  Plane plane;
  uint8_t mask;  // bit c: channel c is filtered
};

template <int Bits>
__device__ __forceinline__ bool is_far(uint32_t value, uint32_t median, uint32_t threshold) {
  if constexpr (Bits == 32)
    return !(fabsf(__uint_as_float(value) - __uint_as_float(median)) <= __uint_as_float(threshold));
  return (value > median ? value - median : median - value) > threshold;
}

// Whether no pixel of the window around (x, y) lies beyond `key`: above it if `greatest`, else
// below.
template <int Bits>
__device__ bool is_extreme(const Args& a, int x, int y, int channel, uint32_t key, bool greatest) {
  const Plane& p = a.plane;
  const int rx = p.size_x / 2, ry = p.size_y / 2;
  const bool inside = x >= rx && y >= ry && x + rx < p.width && y + ry < p.height;
  const auto beyond = [&](uint32_t other) { return greatest ? other > key : other < key; };
  for (int v = y - ry; v <= y + ry; v++) {
    const int at_y = inside ? v : median_border_index(v, p.height, p.border);
    const uint8_t* const row = a.src + at_y * a.src_stride;
    for (int u = x - rx; u <= x + rx; u++) {
      const int at_x = inside ? u : median_border_index(u, p.width, p.border);
      if (at_x >= 0 && at_y >= 0) {
        if (beyond(key_at<Bits>(row, at_x * p.step + channel))) return false;
      } else if (p.border == Border::constant) {
        uint32_t outside = p.border_value[channel];
        if constexpr (Bits == 32) outside = float_key(outside);
        if (beyond(outside)) return false;
      }
    }
  }
  return true;
}

template <int Bits>
__device__ bool is_outlier(const Args& a, int x, int y, int channel, uint32_t value,
                           uint32_t median) {
  if (!is_far<Bits>(value, median, a.plane.threshold)) return false;
  if constexpr (Bits == 32) {
    const uint32_t key = float_key(value), middle = float_key(median);
    return is_extreme<32>(a, x, y, channel, key, key > middle);
  } else {
    if (value == 0 || value == (1u << Bits) - 1) return true;
    return is_extreme<Bits>(a, x, y, channel, value, value > median);
  }
}

// Words: source and destination are aligned to 4 bytes; else a thread has one component.
template <int Bits, bool Words>
__global__ __launch_bounds__(256) void keep_others(Args a) {
  using T =
      std::conditional_t<Bits == 8, uint8_t, std::conditional_t<Bits == 16, uint16_t, uint32_t>>;
  constexpr int kCount = Words ? 32 / Bits : 1;
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * kCount;
  const int row_length = a.plane.width * a.plane.step;
  if (first >= row_length) return;
  int x = first / a.plane.step, channel = first % a.plane.step;
  for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < a.plane.height;
       y += gridDim.y * blockDim.y) {
    const auto* const in = reinterpret_cast<const T*>(a.src + y * a.src_stride) + first;
    auto* const out = reinterpret_cast<T*>(a.dst + y * a.dst_stride) + first;
    const bool whole = kCount > 1 && first + kCount <= row_length;
    const int count = min(kCount, row_length - first);
    T value[kCount], result[kCount];
    if (whole) {
      const uint32_t v = *reinterpret_cast<const uint32_t*>(in);
      const uint32_t m = *reinterpret_cast<const uint32_t*>(out);
      if (v == m && Bits != 32) continue;
#pragma unroll
      for (int i = 0; i < kCount; i++)
        value[i] = T(v >> (Bits * i)), result[i] = T(m >> (Bits * i));
    } else {
      for (int i = 0; i < count; i++) value[i] = in[i], result[i] = out[i];
    }
    int at_x = x, at_channel = channel;
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      if (i < count && (a.mask >> at_channel & 1) &&
          !is_outlier<Bits>(a, at_x, y, at_channel, value[i], result[i]))
        result[i] = value[i];
      if (++at_channel == a.plane.step) at_channel = 0, at_x++;
    }
    if (whole) {
      uint32_t word = 0;
#pragma unroll
      for (int i = 0; i < kCount; i++) word |= uint32_t(result[i]) << (Bits * i);
      *reinterpret_cast<uint32_t*>(out) = word;
    } else {
      for (int i = 0; i < count; i++) out[i] = result[i];
    }
  }
}

class OutliersPass final : public PlanePass {
 public:
  OutliersPass(const Plane& plane, const Channels& channels)
      : args_{nullptr, nullptr, 0, 0, plane, channels.mask} {}

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    const bool words = is_aligned(view, 4);
    switch (args_.plane.type) {
      case Type::u8:
        return words ? run(keep_others<8, true>, 4, queue, view)
                     : run(keep_others<8, false>, 1, queue, view);
      case Type::u16:
        return words ? run(keep_others<16, true>, 2, queue, view)
                     : run(keep_others<16, false>, 1, queue, view);
      default:
        return run(keep_others<32, false>, 1, queue, view);
    }
  }

 private:
  Status run(void (*kernel)(Args), int components, CudaQueue& queue, const PlaneView& view) {
    constexpr unsigned kMostRows = 65535;
    const dim3 block(32, 8);
    const unsigned threads =
        unsigned((int64_t(args_.plane.width) * args_.plane.step + components - 1) / components);
    const dim3 grid((threads + block.x - 1) / block.x,
                    std::min((args_.plane.height + block.y - 1) / block.y, kMostRows));
    return launch("median outliers", kernel, {grid, block}, queue.cuda_stream(),
                  with_view(args_, view));
  }

  Args args_;
};

}  // namespace

std::unique_ptr<PlanePass> make_outliers(const Plane& plane, const Channels& channels) {
  return std::make_unique<OutliersPass>(plane, channels);
}

}  // namespace vf::cuda::median
