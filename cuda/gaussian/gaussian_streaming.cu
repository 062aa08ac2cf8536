// Blurs in one pass without tensor cores, for any type, channels, step and alignment.
//
// Idea: a block streams down a strip, 16 rows per step. It blurs the rows of a step horizontally
// into a ring of rows in shared memory, as floats (double for s32), and blurs 16 output rows
// vertically from the ring. A thread computes eight consecutive outputs, so that a value read from
// shared memory serves eight multiply-adds. The next step's rows are loaded meanwhile. Pixels are
// components whose taps are `step` apart, so that the number of channels makes no difference.
// Traffic: one read and one write, and the halo of each strip and of each prologue.
// Tile: kHalves * 128 components (120 for three channels, because halves hold whole pixels) by 16
// rows. A warp's horizontal work is 8 rows by 4 runs of eight outputs. Rows are 1 (or 4) words
// modulo 32 apart, and runs 8 words (or 1 for neighbouring channels), so that there are no bank
// conflicts.
#include <type_traits>

#include "cuda/core/component.cuh"
#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"
#include "cuda/core/tile_scheduler.cuh"
#include "cuda/gaussian/gaussian.h"
#include "filters/border.h"

namespace vf::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = 16;  // a step blurs this many
constexpr int kRun = 8;    // consecutive outputs of a thread
// A row's components that a lane loads a step ahead; of more (above 65 taps), the rest comes later.
constexpr int kAhead = 10;
// Kernels of up to this many taps have their own code.
constexpr int kFew = 5;
constexpr int kEdgeCost = 5;  // WorkPartition's, as measured on an H200
constexpr int kHalf = 128;    // maximum of components in half a strip, or in a strip of one half

template <class T>
struct Params {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height, step, channels;
  int radius_x, radius_y;
  int spans_x, spans_y;  // runs of inputs for a run of outputs
  int half;              // components of half a strip: a multiple of `step`
  int raw_pitch;         // from one incoming row to the next, in values
  int chunks;            // number of chunks of kRows rows in the ring
  WorkPartition partition;
  unsigned mask;
  int shift;
  float code;  // 2^-shift
  Border border;
  T outside[kMaxChannels + 1];    // the last entry is for components of no channel
  const Accumulator<T>* weights;  // spans_x runs, then spans_y runs
};

__device__ __forceinline__ void load_run(const float* from, float (&to)[kRun]) {
  const float4 a = reinterpret_cast<const float4*>(from)[0];
  const float4 b = reinterpret_cast<const float4*>(from)[1];
  to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
  to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}
__device__ __forceinline__ void load_run(const double* from, double (&to)[kRun]) {
#pragma unroll
  for (int i = 0; i < kRun; i += 2) {
    const double2 v = reinterpret_cast<const double2*>(from)[i / 2];
    to[i] = v.x, to[i + 1] = v.y;
  }
}

// Computes eight consecutive outputs, kHalves times: sums[h][o] += w[i - o] * input(i)[h]. Inputs
// are `apart` values from each other, and halves `half` values. run(j) is the start of the j-th of
// at least two runs of eight inputs. The first run needs no tap before 0 and the last none after
// w[0] of its own. kExact skips the zero weights behind the last tap, so that values that are not
// finite spread no further than the kernel reaches. kFewTaps is the number of taps if it is known
// at compile time, and 0 otherwise.
template <bool kExact, int kFewTaps, int kHalves, class Acc, class Run>
__device__ __forceinline__ void convolve(Acc (&sums)[kHalves][kRun], const Acc* w, int taps,
                                         int spans, int apart, int half, Run run) {
  if constexpr (kFewTaps > 0) taps = kFewTaps, spans = 2;
  Acc now[kRun], before[kRun];
  // Whether tap d of the run exists. The count of taps is odd: every second comparison suffices.
  const auto is_tap = [&](int d) { return !(kExact || kFewTaps) || taps > ((d + 1) & ~1); };
  // Adds the products of the j-th run of inputs.
  enum Place { kFirst, kMiddle, kLast };
  const auto add = [&](auto place, int j) {
    const Acc* const from = run(j);
#pragma unroll
    for (int m = 0; m < kRun; m++) {
#pragma unroll
      for (int h = 0; h < kHalves; h++) {
        const Acc v = from[m * apart + h * half];
#pragma unroll
        for (int o = place == kLast ? m : 0; o < (place == kFirst ? m + 1 : kRun); o++)
          if ((place == kMiddle && m < o) || is_tap(m - o))
            sums[h][o] += (m >= o ? now[(m - o) & 7] : before[(m - o) & 7]) * v;
      }
    }
  };
  load_run(w, now);
  add(std::integral_constant<Place, kFirst>(), 0);
#pragma unroll 2
  for (int j = 1; j < spans - 1; j++) {
#pragma unroll
    for (int m = 0; m < kRun; m++) before[m] = now[m];
    load_run(w + j * kRun, now);
    taps -= kRun;
    add(std::integral_constant<Place, kMiddle>(), j);
  }
#pragma unroll
  for (int m = 0; m < kRun; m++) before[m] = now[m];
  now[0] = w[(spans - 1) * kRun];
  taps -= kRun;
  add(std::integral_constant<Place, kLast>(), spans - 1);
}

// Finds which component each place of a row at the frame's edge takes, from component `left` on. It
// stores the offset of the component, or -1 - channel for the border's colour.
template <class T>
__device__ __forceinline__ void find_sources(const Params<T>& p, int left, int row_length, int step,
                                             int* source) {
  for (int c = threadIdx.x; c < row_length; c += kThreads) {
    const int at = left + c;
    const int pixel = at >= 0 ? at / step : -((step - 1 - at) / step);
    const int channel = at - pixel * step;
    int from = -1 - kMaxChannels;
    if (channel < p.channels) {
      from = border_index(pixel, p.width, p.border);
      from = from < 0 ? -1 - channel : from * step + channel;
    }
    source[c] = from;
  }
}

constexpr int ring_pitch(int halves, bool gray) {
  return halves * kHalf + (gray ? 1 : 4);
}

// Writes kRun rows from y on of component v_at of each half. `column` is the strip's number.
template <class T, int kHalves, class Acc>
__device__ __forceinline__ void write_run(const Params<T>& p, const Acc (&sums)[kHalves][kRun],
                                          int step, int half, int column, int v_at, int y) {
  const int channel = v_at % step;  // strips and halves start at whole pixels
  const bool filtered = p.mask >> channel & 1;
#pragma unroll
  for (int h = 0; h < kHalves; h++) {
    const int at = column * kHalves * half + h * half + v_at;
    if (channel >= p.channels || at >= p.width * step) continue;
    uint8_t* to = p.dst + y * p.dst_stride + at * sizeof(T);
    if (filtered && y + kRun <= p.height) {
#pragma unroll
      for (int o = 0; o < kRun; o++, to += p.dst_stride)
        *reinterpret_cast<T*>(to) = to_component<T>(sums[h][o], p.shift, p.code);
    } else {
      const uint8_t* from = p.src + y * p.src_stride + at * sizeof(T);
#pragma unroll
      for (int o = 0; o < kRun; o++, to += p.dst_stride, from += p.src_stride) {
        if (y + o >= p.height) break;
        *reinterpret_cast<T*>(to) = filtered ? to_component<T>(sums[h][o], p.shift, p.code)
                                             : *reinterpret_cast<const T*>(from);
      }
    }
  }
}

template <class T, int kHalves, bool kGray, int kFewTaps>
__global__ void __launch_bounds__(kThreads, sizeof(Accumulator<T>) == 8 ? 1
                                            : kHalves == 2              ? 3
                                                                        : 4)
    blur(const __grid_constant__ Params<T> p) {
  using Acc = Accumulator<T>;
  constexpr int kRingPitch = ring_pitch(kHalves, kGray);
  constexpr bool kExact = std::is_same_v<T, float>;
  const int step = kGray ? 1 : p.step, half = kGray ? kHalf : p.half;
  const int strip = kHalves * half;
  const int halo = p.radius_x * step, row_length = strip + 2 * halo;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;

  VF_DYNAMIC_SHARED(16, unsigned char, shared);
  Acc* const weights_x = reinterpret_cast<Acc*>(shared);
  Acc* const weights_y = weights_x + p.spans_x * kRun;
  Acc* const raw = weights_y + p.spans_y * kRun;
  Acc* const ring = raw + kRows * p.raw_pitch;
  int* const source = reinterpret_cast<int*>(ring + p.chunks * kRows * kRingPitch);

  for (int i = threadIdx.x; i < (p.spans_x + p.spans_y) * kRun; i += kThreads)
    weights_x[i] = p.weights[i];
  // Values behind a row are read and multiplied by zero weights, so they must be finite.
  for (int c = row_length + lane; c < p.raw_pitch; c += 32)
    for (int row = warp; row < kRows; row += kThreads / 32) raw[row * p.raw_pitch + c] = 0;

  // Horizontal work: row `h_row` of a chunk, the run of outputs that starts at `h_at`.
  const int h_row = (lane & 7) + 8 * (warp & 1), h_group = 4 * (warp >> 1) + (lane >> 3);
  const int h_block = h_group / step, h_at = h_block * kRun * step + h_group % step;
  const bool h_works = h_at < half;
  // Vertical work: eight rows, 0 to 7 or 8 to 15, of the component `v_at`.
  const int v_at = threadIdx.x & (kHalf - 1), v_row = threadIdx.x / kHalf * kRun;
  const bool v_works = v_at < half;

  for (TileScheduler tiles(p.partition, blockIdx.x); tiles.count > 0; tiles.next()) {
    const int left = tiles.column * strip - halo;  // component at the start of the incoming rows
    const bool edge = left < 0 || left + row_length > (p.width - 1) * step + p.channels;
    __syncthreads();  // the readers of the last part are done, and the set-up is visible
    if (edge) {
      find_sources(p, left, row_length, step, source);
      __syncthreads();
    }

    const auto fetch = [&](const T* row, int c) {
      if (row && !edge) return row[left + c];
      const int from = row ? source[c] : -1 - min(c % step, kMaxChannels);
      return from < 0 ? p.outside[-1 - from] : row[from];
    };
    const auto row_of = [&](int chunk, int r) -> const T* {
      const int y =
          border_index(kRows * (tiles.first + chunk) + r - p.radius_y, p.height, p.border);
      return y < 0 ? nullptr : reinterpret_cast<const T*>(p.src + y * p.src_stride);
    };
    T ahead[2][kAhead];
    const auto within = [&](int k) {
      return (kGray && 32 * k + 32 <= kHalves * kHalf) || lane + 32 * k < row_length;
    };
    const auto fetch_ahead = [&](int chunk) {
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const T* row = row_of(chunk, warp + 8 * r);
        if (row && !edge) {
#pragma unroll
          for (int k = 0; k < kAhead; k++)
            if (within(k)) ahead[r][k] = row[left + lane + 32 * k];
        } else {
#pragma unroll
          for (int k = 0; k < kAhead; k++)
            if (lane + 32 * k < row_length) ahead[r][k] = fetch(row, lane + 32 * k);
        }
      }
    };

    fetch_ahead(0);
    int slot = 0;  // the current chunk's, in the ring
    for (int chunk = 0; chunk < tiles.count + p.chunks - 1; chunk++) {
#pragma unroll
      for (int r = 0; r < 2; r++) {
        Acc* to = raw + (warp + 8 * r) * p.raw_pitch;
#pragma unroll
        for (int k = 0; k < kAhead; k++)
          if (within(k)) to[lane + 32 * k] = Acc(ahead[r][k]);
        if (row_length > 32 * kAhead) {
          const T* row = row_of(chunk, warp + 8 * r);
          for (int c = lane + 32 * kAhead; c < row_length; c += 32) to[c] = Acc(fetch(row, c));
        }
      }
      __syncthreads();
      if (chunk + 1 < tiles.count + p.chunks - 1) fetch_ahead(chunk + 1);

      if (h_works) {
        Acc sums[kHalves][kRun] = {};
        const Acc* from = raw + h_row * p.raw_pitch + h_at;
        convolve<kExact, kFewTaps>(sums, weights_x, 2 * p.radius_x + 1, p.spans_x, step, half,
                                   [&](int j) { return from + j * (kRun * step); });
        Acc* to = ring + (slot * kRows + h_row) * kRingPitch + h_at;
#pragma unroll
        for (int h = 0; h < kHalves; h++)
#pragma unroll
          for (int o = 0; o < kRun; o++) to[h * half + o * step] = sums[h][o];
      }
      if (++slot == p.chunks) slot = 0;
      __syncthreads();
      if (chunk < p.chunks - 1 || !v_works) continue;

      // `slot` is now the oldest chunk: the start of the window.
      Acc sums[kHalves][kRun] = {};
      int run_slot = 2 * slot + (v_row ? 1 : 0);
      convolve<kExact, kFewTaps>(sums, weights_y, 2 * p.radius_y + 1, p.spans_y, kRingPitch, half,
                                 [&](int) {
                                   const Acc* from = ring + run_slot * kRun * kRingPitch + v_at;
                                   if (++run_slot == 2 * p.chunks) run_slot = 0;
                                   return from;
                                 });
      write_run(p, sums, step, half, tiles.column, v_at,
                kRows * (tiles.first + chunk - (p.chunks - 1)) + v_row);
    }
  }
}

template <class T>
struct Shape {
  void (*function)(Params<T>);
  int half, raw_pitch, columns;
  size_t shared;
};

template <class T>
class StreamingPass final : public PlanePass {
 public:
  using Acc = Accumulator<T>;

  // Leaves fits() false if the window is too large for this device.
  Status prepare(CudaQueue& queue, const GaussianTask& task, int plane) {
    const PlaneLayout& l = task.layout.plane[plane];
    const GaussianPlane& g = task.plane[plane];
    const Device& device = queue.device();
    p_.width = l.width;
    p_.height = l.height;
    p_.step = l.pixel_step();
    p_.channels = l.channels;
    p_.radius_x = int(g.weights_x.size()) / 2;
    p_.radius_y = int(g.weights_y.size()) / 2;
    p_.spans_x = spans(p_.radius_x);
    p_.spans_y = spans(p_.radius_y);
    p_.chunks = 1 + blocks_of(2 * p_.radius_y, kRows);
    p_.mask = g.channels;
    p_.shift = task.layout.shift;
    p_.code = 1.f / (1 << p_.shift);
    p_.border = task.border;
    for (int c = 0; c < kMaxChannels; c++)
      p_.outside[c] = component_of<T>(g.border_value[c], p_.shift);

    // Two halves share loads of weights and have less halo. One half leaves room for more blocks.
    Shape<T> best = {};
    if constexpr (sizeof(Acc) == 4) {
      Shape<T> two = p_.step == 1 ? shape<2, true>() : shape<2, false>();
      if constexpr (sizeof(T) > 1) {
        // With floats, zero weights beyond a kernel would spread values that are not finite.
        const int minimum = std::min(p_.radius_x, p_.radius_y);
        const int maximum = std::max(p_.radius_x, p_.radius_y);
        if (p_.step == 1 && maximum <= kFew / 2 && (std::is_integral_v<T> || minimum == kFew / 2))
          two = shape<2, true, kFew>();
      }
      if (two.shared <= size_t(device.shared_per_block) &&
          2 * (two.shared + 1024) <= size_t(device.shared_per_processor) &&
          int64_t(l.width) * p_.step > two.half)
        best = two;
    }
    if (!best.function) {
      const Shape<T> one = p_.step == 1 ? shape<1, true>() : shape<1, false>();
      if (one.shared <= size_t(device.shared_per_block)) best = one;
    }
    if (!best.function) return {};
    VF_TRY(allow_shared(best.function, best.shared));
    int blocks = 0;
    VF_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, best.function, kThreads,
                                                          best.shared));
    if (blocks == 0) return {};
    p_.half = best.half;
    p_.raw_pitch = best.raw_pitch;
    shared_ = best.shared;
    function_ = best.function;
    const int steps = blocks_of(l.height, kRows);
    grid_ = int(std::min<int64_t>(int64_t(best.columns) * steps, blocks * device.processors));
    p_.partition = WorkPartition(best.columns, steps, p_.chunks - 1, grid_, kEdgeCost);

    std::vector<Acc> weights((p_.spans_x + p_.spans_y) * kRun);
    std::copy(g.weights_x.begin(), g.weights_x.end(), weights.begin());
    std::copy(g.weights_y.begin(), g.weights_y.end(), weights.begin() + p_.spans_x * kRun);
    VF_TRY(queue.allocate(Memory::device, weights.size() * sizeof(Acc), &weights_));
    VF_TRY(queue.copy(weights_.data(), weights.data(), weights.size() * sizeof(Acc)));
    p_.weights = weights_.as<Acc>();
    return {};
  }

  bool fits() const { return function_ != nullptr; }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    return launch("gaussian streaming", function_, {grid_, kThreads, shared_}, queue,
                  with_view(p_, view));
  }

 private:
  // Eight outputs need 2 radius + 8 inputs. convolve() takes at least two spans.
  static int spans(int radius) { return std::max(2, 1 + (2 * radius + kRun - 1) / kRun); }

  template <int kHalves, bool kGray, int kFewTaps = 0>
  Shape<T> shape() const {
    Shape<T> s;
    s.function = blur<T, kHalves, kGray, kFewTaps>;
    s.half = kHalf / kRun / p_.step * kRun * p_.step;
    const int strip = kHalves * s.half;
    s.columns = int(blocks_of(int64_t(p_.width) * p_.step, strip));
    // Rows have room for the last run's last input, and a pitch that avoids bank conflicts.
    const int longest = strip + kRun * (p_.spans_x - 1) * p_.step, want = std::min(p_.step, 4);
    const int residue = want == 3 ? 4 : want;
    s.raw_pitch = (longest - residue + 31) / 32 * 32 + residue;
    const size_t values = size_t(p_.spans_x + p_.spans_y) * kRun + size_t(kRows) * s.raw_pitch +
                          size_t(p_.chunks) * kRows * ring_pitch(kHalves, kGray);
    s.shared = values * sizeof(Acc) + size_t(strip + 2 * p_.radius_x * p_.step) * sizeof(int);
    return s;
  }

  Params<T> p_ = {};
  Allocation weights_;
  void (*function_)(Params<T>) = nullptr;
  size_t shared_ = 0;
  int grid_ = 0;
};

}  // namespace

Status make_gaussian_streaming(CudaQueue& queue, const GaussianTask& task, int plane,
                               std::unique_ptr<PlanePass>* out) {
  if (queue.kernel_limits().gaussian == KernelLimits::Gaussian::fallback) return {};
  return make_gaussian_pass_of_type<StreamingPass>(queue, task, plane, out);
}

}  // namespace vf::cuda
