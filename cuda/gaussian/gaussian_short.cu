// Separable Gaussian of 3 or 5 taps over 16-bit gray frames, in FP32 and registers.
//
// Idea: so few taps are less work in FP32 than the 16 x 16 products of tensor cores, most of whose
// weights are zero. A lane has eight neighbouring pixels of four rows. It requests them and the
// rows around them all at once, blurs each row horizontally, with two pixels on each side from the
// neighbouring lanes, and adds it to the rows that it reaches. There is no shared memory, and
// nothing to wait for but the rows.
//
// Traffic: one read and one write. Of the reads, 2 radius rows of 4 and the two lanes at a warp's
// sides, 16 pixels of 256, come again from the caches.
//
// Tile: 240 pixels by 4 rows per warp.
//
// Limits: whole vectors of eight pixels a row.
#include <algorithm>

#include "cuda/core/component.cuh"
#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"
#include "cuda/gaussian/gaussian.h"
#include "filters/border.h"

namespace vf::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kWarps = 4;  // of a block, one below the other
constexpr int kThreads = kWarps * kLanes;
constexpr int kPixels = 8;                      // of a lane
constexpr int kWidth = (kLanes - 2) * kPixels;  // of a warp; the lanes at its sides write nothing
constexpr int kMostRadius = 2;                  // two pixels are a word
constexpr int kRows = 4;                        // of a warp
constexpr unsigned kMostBlocksDown = 65535;     // of a grid
constexpr int kBlocks = 6;                      // per multiprocessor, at least

// Where a lane just outside the frame finds the two pixels of the border next to it: in the vector
// that starts at pixel `x`, the bytes `selector` of the first two words or, where x is not 0, of
// the last two.
struct Side {
  int x;
  uint32_t selector;
};

struct Params {
  const uint8_t* src;
  uint8_t* dst;
  int src_stride, dst_stride;
  int width, height;
  // The rows that rows -2, -1, height and height + 1 repeat; -1: the border's colour.
  int outer_rows[2 * kMostRadius];
  Side side[2];
  bool has_color;  // of the border, instead of pixels of the frame
  uint32_t color;  // two pixels of it
  // Weights 1 and 2 from the centre, divided by the centre's.
  float x[kMostRadius], y[kMostRadius];
  float scale;  // the product of the centres
};

// Two pixels as floats that have 256 times their value as bits: up to 2^24, and so also here, these
// bits count in units of 2^-149. It saves a subtraction, and subnormals cost a GPU nothing.
__device__ __forceinline__ void convert(uint32_t pair, float* to) {
  to[0] = __uint_as_float(__byte_perm(pair, 0, 0x4104));
  to[1] = __uint_as_float(__byte_perm(pair, 0, 0x4324));
}

// A row blurred horizontally: `v` of this lane between the words next to it.
template <int kRadius>
__device__ __forceinline__ void blur_row(const Params& p, uint32_t left, const uint4& v,
                                         uint32_t right, float (&to)[kPixels]) {
  float f[kPixels + 2 * kMostRadius];
  convert(left, f);
  convert(v.x, f + 2);
  convert(v.y, f + 4);
  convert(v.z, f + 6);
  convert(v.w, f + 8);
  convert(right, f + 10);
#pragma unroll
  for (int j = 0; j < kPixels; j++) {
    to[j] = fmaf(p.x[0], f[j + 1] + f[j + 3], f[j + 2]);
    if constexpr (kRadius == 2) to[j] = fmaf(p.x[1], f[j] + f[j + 4], to[j]);
  }
}

// What a lane keeps of the rows above.
template <int kRadius>
struct Column {
  static constexpr int kAbove = 2 * kRadius - 1;
  float rows[kAbove][kPixels];  // blurred horizontally, the last one first
  float sums[kPixels];          // of the output that the next row completes

  // Takes the next row, and returns the output that it completes.
  __device__ __forceinline__ uint4 add(const Params& p, const float (&row)[kPixels]) {
    uint32_t codes[kPixels];
#pragma unroll
    for (int j = 0; j < kPixels; j++) {
      const float sum = fmaf(p.y[kRadius - 1], row[j], sums[j]);
      // Plus half a code value, in the same units.
      codes[j] = __float_as_uint(fmaf(sum, p.scale, __uint_as_float(128)));
      if constexpr (kRadius == 1)
        sums[j] = fmaf(p.y[0], rows[0][j], row[j]);
      else
        sums[j] = fmaf(p.y[1], rows[2][j], fmaf(p.y[0], rows[1][j] + row[j], rows[0][j]));
#pragma unroll
      for (int r = kAbove - 1; r > 0; r--) rows[r][j] = rows[r - 1][j];
      rows[0][j] = row[j];
    }
    const auto pair = [&](int j) { return __byte_perm(codes[j], codes[j + 1], 0x6521); };
    return make_uint4(pair(0), pair(2), pair(4), pair(6));
  }
};

template <int kRadius>
__global__ void __launch_bounds__(kThreads, kBlocks) blur_short(const __grid_constant__ Params p) {
  const int lane = threadIdx.x % kLanes;
  const int first = (blockIdx.y * kWarps + threadIdx.x / kLanes) * kRows;
  if (first >= p.height) return;
  const int x = (int(blockIdx.x) * (kLanes - 2) + lane - 1) * kPixels;
  const bool inside = x >= 0 && x < p.width;
  const bool mirrors = (x == -kPixels || x == p.width) && !p.has_color;
  const bool loads = inside || mirrors, writes = inside && lane > 0 && lane < kLanes - 1;
  const Side side = p.side[x < 0 ? 0 : 1];
  const uint8_t* const from = p.src + 2 * (inside ? x : side.x);
  uint4 in[kRows + 2 * kRadius];
#pragma unroll
  for (int k = 0; k < kRows + 2 * kRadius; k++) {
    // Below the rows that the last tile needs, one of them again.
    int y = min(first - kRadius + k, p.height - 1 + kRadius);
    if (unsigned(y) >= unsigned(p.height))
      y = p.outer_rows[kMostRadius + (y < 0 ? y : y - p.height)];
    in[k] = make_uint4(p.color, p.color, p.color, p.color);
    if (loads && y >= 0) in[k] = *reinterpret_cast<const uint4*>(from + int64_t(y) * p.src_stride);
  }
  uint8_t* to = p.dst + 2 * x + int64_t(first) * p.dst_stride;
  Column<kRadius> column = {};
#pragma unroll
  for (int k = 0; k < kRows + 2 * kRadius; k++) {
    uint4 v = in[k];
    if (mirrors)
      v.x = v.w =
          side.x == 0 ? __byte_perm(v.x, v.y, side.selector) : __byte_perm(v.z, v.w, side.selector);
    const uint32_t left = __shfl_up_sync(~0u, v.w, 1), right = __shfl_down_sync(~0u, v.x, 1);
    float row[kPixels];
    blur_row<kRadius>(p, left, v, right, row);
    const uint4 out = column.add(p, row);
    if (k < 2 * kRadius) continue;
    if (writes && first + k - 2 * kRadius < p.height) *reinterpret_cast<uint4*>(to) = out;
    to += p.dst_stride;
  }
}

// Of pixels i and i + 1, outside a row.
Side side_of(int i, int width, Border border) {
  const int a = border_index(i, width, border), b = border_index(i + 1, width, border);
  if (a < 0) return {};
  const bool at_start = a < kPixels / 2;
  const int words = at_start ? 0 : width - kPixels / 2;
  const auto bytes = [&](int pixel) { return uint32_t(0x10 + 0x22 * (pixel - words)); };
  return {at_start ? 0 : width - kPixels, bytes(b) << 8 | bytes(a)};
}

class ShortPass final : public PlanePass {
 public:
  Status prepare(CudaQueue&, const GaussianTask& task, int plane) {
    const PlaneLayout& l = task.layout.plane[plane];
    const GaussianPlane& g = task.plane[plane];
    p_.width = l.width;
    p_.height = l.height;
    p_.has_color = task.border == Border::constant;
    p_.color = component_of<uint16_t>(g.border_value[0], 0) * 0x10001u;
    p_.side[0] = side_of(-2, l.width, task.border);
    p_.side[1] = side_of(l.width, l.width, task.border);
    for (int i = 0; i < kMostRadius; i++) {
      p_.outer_rows[i] = border_index(i - kMostRadius, l.height, task.border);
      p_.outer_rows[kMostRadius + i] = border_index(l.height + i, l.height, task.border);
    }
    const double centre_x = set_weights(g.weights_x, p_.x);
    const double centre_y = set_weights(g.weights_y, p_.y);
    p_.scale = float(centre_x * centre_y);

    const bool wide = std::max(g.weights_x.size(), g.weights_y.size()) > 3;
    function_ = wide ? blur_short<2> : blur_short<1>;
    const int tile = kWarps * kRows;
    grid_ = dim3(unsigned((l.width + kWidth - 1) / kWidth), unsigned((l.height + tile - 1) / tile));
    return {};
  }

  bool fits() const { return grid_.y <= kMostBlocksDown; }

  bool takes(const PlaneView& v) const override {
    const auto fits = [](ptrdiff_t stride) { return int(stride) == stride; };
    return is_aligned(v, sizeof(uint4)) && fits(v.src_stride) && fits(v.dst_stride);
  }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    return launch("gaussian short", function_, {grid_, kThreads}, queue.cuda_stream(),
                  with_view(p_, view));
  }

 private:
  static double set_weights(const std::vector<double>& weights, float (&to)[kMostRadius]) {
    const size_t radius = weights.size() / 2;
    for (size_t i = 1; i <= radius; i++) to[i - 1] = float(weights[radius + i] / weights[radius]);
    return weights[radius];
  }

  Params p_ = {};
  void (*function_)(Params) = nullptr;
  dim3 grid_;
};

}  // namespace

Status make_gaussian_short(CudaQueue& queue, const GaussianTask& task, int plane,
                           std::unique_ptr<PlanePass>* out) {
  const Layout& layout = task.layout;
  const PlaneLayout& l = layout.plane[plane];
  const GaussianPlane& g = task.plane[plane];
  // Planes of one frame are rather filtered at the same time, by tensor cores.
  if (queue.kernel_limits().gaussian != KernelLimits::Gaussian::all || layout.planes != 1 ||
      layout.type != Type::u16 || layout.shift != 0 || l.pixel_step() != 1 ||
      l.width % kPixels != 0 || l.width < 2 * kPixels ||
      std::max(g.weights_x.size(), g.weights_y.size()) > 2 * kMostRadius + 1)
    return {};
  return make_gaussian_pass<ShortPass>(queue, task, plane, out);
}

}  // namespace vf::cuda
