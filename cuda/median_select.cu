// Medians of any type, window, border and frame size, by bits: the fallback of the faster kernels,
// and the way for 16-bit and float frames where networks end.
//
// Idea: components become unsigned keys in sorting order, and keys become bit planes (32 pixels of a
// row a word). A window is a few words of each of its rows, taken from the planes by a funnel shift.
// From the top bit down, the ones of the pixels still in question are counted; the rank says which
// half holds the median, and the other half leaves. After as many rounds as the key has bits what is
// left is equal to the median. No value is ever compared or moved, the cost does not depend on the
// data, and all pixels of a warp read the same words.
//
// A window's rows are shared out over `parts` lanes (a power of two) so that the pixels in question
// stay in registers; a warp makes 32 / parts medians side by side.
//
// Traffic: the planes are made once (bits / 8 bytes a pixel). A block copies those of its rows to
// shared memory, where the words that a lane shifts together lie side by side; where they do not fit
// (windows from 97 across, or very tall ones) they are read through L1. Limits (H200): LOP3 and SHF
// when the window is one word wide; carry-save adders take three words to two counts because POPC runs
// at a quarter of LOP3's rate.
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/median_device.cuh"
#include "cuda/ptx.cuh"

namespace vf::cuda::median {
namespace {

constexpr int kRunOfWords = 4;  // a warp of the first kernel makes this many words of a row
constexpr int kPlaneWarps = 8;   // a block of the first kernel
constexpr int kSelectWarps = 4;  // a block of the second, a row each

int bits_of(Type type) { return 8 * size_of(type); }

// How the window is laid over lanes. Row counts are multiples of 3, for the adders.
struct Shape {
  int rows, words;  // a lane's, at most
};
constexpr Shape kShapes[] = {{6, 1},  {12, 1}, {18, 1}, {24, 1}, {33, 1},
                             {18, 2}, {12, 3}, {9, 4},  {9, 8}};
// Words of a row and bit in shared memory: one more than a lane's, as a load can take.
constexpr int shared_words(int words) { return words == 1 ? 2 : words <= 3 ? 4 : words + 1; }
// Words from row to row. Lanes of several parts read rows that are an odd number of rows apart: the
// padding keeps them in different banks.
constexpr int shared_pitch(int bits, int words) {
  return bits * shared_words(words) + (words <= 3 ? shared_words(words) : 1);
}

struct Geometry {
  int shape;  // index into kShapes
  int parts_log2, rows_a_part;
  int words;         // of a row of planes
  int rows;          // of planes
  size_t shared;     // bytes of a block, 0 if it reads the planes themselves
};

Geometry geometry(const Plane& p, size_t max_shared) {
  Geometry g{};
  const int need = (p.size_x + 31) / 32;
  // The widest shape with enough words and the least lanes a window.
  g.shape = -1;
  for (int i = 0; i < int(std::size(kShapes)); i++) {
    if (kShapes[i].words < need) continue;
    if (g.shape >= 0 && kShapes[i].words > kShapes[g.shape].words) break;
    g.shape = i;
    if (kShapes[i].rows >= p.size_y) break;
  }
  while (p.size_y > kShapes[g.shape].rows << g.parts_log2) g.parts_log2++;
  g.rows_a_part = (p.size_y + (1 << g.parts_log2) - 1) >> g.parts_log2;
  if (g.parts_log2 && g.rows_a_part < kShapes[g.shape].rows) g.rows_a_part |= 1;
  g.words = (p.width - 1) / 32 + need + 1;
  g.rows = p.height - 1 + (g.rows_a_part << g.parts_log2);
  const int words = kShapes[g.shape].words;
  g.shared = size_t(kSelectWarps - 1 + (g.rows_a_part << g.parts_log2)) *
             shared_pitch(bits_of(p.type), words) * sizeof(uint32_t);
  if (g.shared > max_shared) g.shared = 0;
  return g;
}

template <int Bits>
__device__ __forceinline__ uint32_t key_at(const uint8_t* row, int index) {
  if constexpr (Bits == 8) return row[index];
  if constexpr (Bits == 16) return reinterpret_cast<const uint16_t*>(row)[index];
  return float_key(reinterpret_cast<const uint32_t*>(row)[index]);
}

// Planes with the border on all sides: word w of row y holds columns 32 w - radius_x and on, of frame
// row y - radius_y, as [y][w][bit].
template <int Bits>
__global__ void __launch_bounds__(32 * kPlaneWarps)
    make_planes(const uint8_t* __restrict__ src, ptrdiff_t pitch, int width, int height, int step,
                int radius_x, int radius_y, Border border, uint32_t outside, int words,
                uint32_t* __restrict__ planes) {
  const int lane = threadIdx.x % 32;
  const int first = (blockIdx.y * kPlaneWarps + threadIdx.x / 32) * kRunOfWords;
  const int y = blockIdx.x;
  const int from_y = seen_at(y - radius_y, height, border);
  const uint8_t* row = src + max(from_y, 0) * pitch;
  uint32_t* out = planes + (size_t(y) * words + first) * Bits + lane;
#pragma unroll
  for (int w = 0; w < kRunOfWords; w++) {
    if (first + w >= words) return;  // whole warps leave
    const int from_x = seen_at((first + w) * 32 + lane - radius_x, width, border);
    const uint32_t key = (from_x | from_y) < 0 ? outside : key_at<Bits>(row, from_x * step);
    uint32_t word = 0;
#pragma unroll
    for (int b = 0; b < Bits; b++) {
      const uint32_t ballot = __ballot_sync(~0u, key >> b & 1);
      if (lane == b) word = ballot;
    }
    if (lane < Bits) out[w * Bits] = word;
  }
}

// The bits [from, to) of a 32-bit word, where the range may lie outside of it.
__device__ __forceinline__ uint32_t bit_range(int from, int to) {
  from = min(max(from, 0), 32);
  to = min(max(to, 0), 32);
  if (from >= to) return 0;
  return (~0u >> (32 - (to - from))) << from;
}

struct SelectArgs {
  const uint32_t* planes;
  uint8_t* dst;
  ptrdiff_t pitch;
  Rect rect;
  int width, height, step, size_x, size_y, words, plane_rows, parts_log2, rows_a_part, groups_across;
  bool shrink;
};

// The words [0, Words] of a row at one bit.
template <int Bits, int Words, bool Shared>
__device__ __forceinline__ void load_words(const uint32_t* at, int size_x, uint32_t (&v)[Words + 1]) {
  if constexpr (Shared && Words == 1) {
    const uint2 q = *reinterpret_cast<const uint2*>(at);
    v[0] = q.x, v[1] = q.y;
  } else if constexpr (Shared && Words <= 3) {
    const uint4 q = *reinterpret_cast<const uint4*>(at);
    v[0] = q.x, v[1] = q.y, v[2] = q.z;
    if constexpr (Words == 3) v[3] = q.w;
  } else {
#pragma unroll
    for (int w = 0; w <= Words; w++) {
      v[w] = 0;
      if (32 * (w - 1) < size_x) v[w] = Shared ? at[w] : __ldg(at + w * Bits);
    }
  }
}

template <int Bits, int Rows, int Words, bool Shared>
__global__ void __launch_bounds__(32 * kSelectWarps) select_kernel(SelectArgs a) {
  static_assert(Rows % 3 == 0, "rows are counted three at a time");
  constexpr int kSide = shared_words(Words), kPitch = shared_pitch(Bits, Words);
  VF_DYNAMIC_SHARED(16, uint4, memory);
  auto* const stage = reinterpret_cast<uint32_t*>(memory);
  const int lane = threadIdx.x % 32;
  const int side_log2 = 5 - a.parts_log2;  // 2^ this medians a warp
  const int part = lane >> side_log2;
  // One dimension of blocks: the others end at 65535.
  const int group = blockIdx.x % a.groups_across;
  const int x = (((a.rect.x0 >> side_log2) + group) << side_log2) + (lane & ((1 << side_log2) - 1));
  const int block_y = a.rect.y0 + blockIdx.x / a.groups_across * kSelectWarps;
  const int y = block_y + threadIdx.x / 32;
  const int first_word = min(x, a.width - 1) / 32;  // the same for all lanes of the block
  if constexpr (Shared) {
    const int rows = min(kSelectWarps - 1 + (a.rows_a_part << a.parts_log2), a.plane_rows - block_y);
    const uint32_t* from = a.planes + (size_t(block_y) * a.words + first_word) * Bits;
    for (int i = threadIdx.x; i < rows * Bits * (Words + 1); i += 32 * kSelectWarps) {
      const int bit = i % Bits, word = i / Bits % (Words + 1), row = i / Bits / (Words + 1);
      if (Words <= 4 || first_word + word < a.words)
        stage[row * kPitch + bit * kSide + word] = from[(size_t(row) * a.words + word) * Bits + bit];
    }
    __syncthreads();
  }
  if (y >= a.rect.y1) return;  // whole warps leave
  // Columns and rows of the window that count.
  int x0 = 0, x1 = a.size_x, y0 = 0, y1 = a.size_y;
  if (a.shrink) {
    x0 = max(0, a.size_x / 2 - x);
    x1 = min(a.size_x, a.width - x + a.size_x / 2);
    y0 = max(0, a.size_y / 2 - y);
    y1 = min(a.size_y, a.height - y + a.size_y / 2);
  }
  int left = max(0, x1 - x0) * (y1 - y0);  // pixels in question
  int rank = left / 2;
  const int first_row = part * a.rows_a_part;
  const int shift = x & 31;
  const uint32_t* base =
      Shared ? stage + (y - block_y + first_row) * kPitch
             : a.planes + (size_t(y + first_row) * a.words + first_word) * Bits;
  const size_t row_pitch = Shared ? kPitch : size_t(a.words) * Bits;

  uint32_t in[Rows][Words];
#pragma unroll
  for (int w = 0; w < Words; w++) {
    const uint32_t columns = bit_range(x0 - 32 * w, x1 - 32 * w);
#pragma unroll
    for (int i = 0; i < Rows; i++) {
      const int row = first_row + i;
      in[i][w] = i < a.rows_a_part && row >= y0 && row < y1 ? columns : 0;
    }
  }

  uint32_t value = 0;
#pragma unroll 1
  for (int bit = Bits - 1; bit >= 0; bit--) {
    uint32_t ones[Rows][Words];
    int count = 0;
    const uint32_t* const at = base + bit * (Shared ? kSide : 1);
#pragma unroll
    for (int i = 0; i < Rows; i += 3) {
      if (i < a.rows_a_part) {
#pragma unroll
        for (int k = 0; k < 3; k++) {
          // Rows past the lane's own hold no pixels in question, but may lie past the planes.
          if (k == 0 || i + k < a.rows_a_part) {
            uint32_t v[Words + 1];
            load_words<Bits, Words, Shared>(at + (i + k) * row_pitch, a.size_x, v);
#pragma unroll
            for (int w = 0; w < Words; w++)
              ones[i + k][w] = __funnelshift_r(v[w], v[w + 1], shift) & in[i + k][w];
          } else {
#pragma unroll
            for (int w = 0; w < Words; w++) ones[i + k][w] = 0;
          }
        }
#pragma unroll
        for (int w = 0; w < Words; w++) {
          const uint32_t p = ones[i][w], q = ones[i + 1][w], r = ones[i + 2][w];
          count += __popc(p ^ q ^ r) + 2 * __popc((p & q) | (r & (p ^ q)));
        }
      }
    }
    for (int lanes = 1 << side_log2; lanes < 32; lanes *= 2)
      count += __shfl_xor_sync(~0u, count, lanes);
    const int zeros = left - count;
    const bool one = rank >= zeros;
    if (one) {
      rank -= zeros;
      left = count;
      value |= 1u << bit;
    } else {
      left = zeros;
    }
    const uint32_t keep = one ? ~0u : 0;
#pragma unroll
    for (int i = 0; i < Rows; i++)
      if (i / 3 * 3 < a.rows_a_part) {
#pragma unroll
        for (int w = 0; w < Words; w++)
          in[i][w] = (ones[i][w] & keep) | (in[i][w] & ~ones[i][w] & ~keep);
      }
  }
  if (part != 0 || x < a.rect.x0 || x >= a.rect.x1) return;
  uint8_t* out = a.dst + y * a.pitch;
  if constexpr (Bits == 8) out[x * a.step] = uint8_t(value);
  if constexpr (Bits == 16) reinterpret_cast<uint16_t*>(out)[x * a.step] = uint16_t(value);
  if constexpr (Bits == 32) reinterpret_cast<uint32_t*>(out)[x * a.step] = float_bits(value);
}

template <int Bits, int Shape>
Status launch_select(const SelectArgs& a, unsigned grid, size_t shared, cudaStream_t stream) {
  constexpr int rows = kShapes[Shape].rows, words = kShapes[Shape].words;
  constexpr size_t granted = 48 << 10;  // without asking
  const auto kernel =
      shared ? select_kernel<Bits, rows, words, true> : select_kernel<Bits, rows, words, false>;
  if (shared > granted) VF_TRY(allow_shared(kernel, shared));
  return launch("median select", kernel, {grid, 32 * kSelectWarps, shared}, stream, a);
}

template <int Bits, int... Shape>
Status launch_select(int shape, const SelectArgs& a, unsigned grid, size_t shared, cudaStream_t stream,
              std::integer_sequence<int, Shape...>) {
  Status status;
  ((shape == Shape ? void(status = launch_select<Bits, Shape>(a, grid, shared, stream)) : void()), ...);
  return status;
}

template <int Bits>
Status run(const Plane& p, int channel, const Frame& frame, const Rect* rects, int count,
           void* scratch, size_t max_shared, cudaStream_t stream) {
  const Geometry g = geometry(p, max_shared);
  auto* planes = static_cast<uint32_t*>(scratch);
  const int offset = channel * Bits / 8;
  uint32_t outside = p.border == Border::constant ? p.border_value[channel] : 0;
  if (Bits == 32 && p.border == Border::constant) {
    // As float_key, on the host.
    outside = (outside & 0x7fffffffu) > 0x7f800000u ? 0xffffffffu
              : outside & 0x80000000u               ? ~outside
                                                    : outside | 0x80000000u;
  }
  const dim3 prepare(g.rows, (g.words + kRunOfWords * kPlaneWarps - 1) / (kRunOfWords * kPlaneWarps));
  VF_TRY(launch("median planes", make_planes<Bits>, {prepare, 32 * kPlaneWarps}, stream,
                static_cast<const uint8_t*>(frame.src) + offset, frame.src_pitch, p.width, p.height,
                p.step, p.size_x / 2, p.size_y / 2, p.border, outside, g.words, planes));
  for (int i = 0; i < count; i++) {
    const Rect& r = rects[i];
    if (r.empty()) continue;
    const int side_log2 = 5 - g.parts_log2;
    SelectArgs a{};
    a.planes = planes;
    a.dst = static_cast<uint8_t*>(frame.dst) + offset;
    a.pitch = frame.dst_pitch;
    a.rect = r;
    a.width = p.width, a.height = p.height, a.step = p.step;
    a.size_x = p.size_x, a.size_y = p.size_y;
    a.words = g.words, a.plane_rows = g.rows, a.parts_log2 = g.parts_log2, a.rows_a_part = g.rows_a_part;
    a.groups_across = ((r.x1 - 1) >> side_log2) - (r.x0 >> side_log2) + 1;
    a.shrink = p.border == Border::shrink;
    const unsigned grid = unsigned(a.groups_across) * ((r.y1 - r.y0 + kSelectWarps - 1) / kSelectWarps);
    VF_TRY(launch_select<Bits>(g.shape, a, grid, g.shared, stream,
                               std::make_integer_sequence<int, int(std::size(kShapes))>()));
  }
  return {};
}

// The pixels of a frame whose small window does not fit, with Border::shrink: a thread each, by the
// same search, straight from the source. There are few of them, and one launch does it.
template <int Bits>
__global__ void shrink_edges(const uint8_t* src, ptrdiff_t src_pitch, uint8_t* dst, ptrdiff_t dst_pitch,
                             int width, int height, int step, int radius, ChannelArgs channels) {
  // Rows above and below, then the columns on both sides of those between.
  const int channel = channels.index >> (8 * blockIdx.y) & 0xff;
  int i = blockIdx.x * blockDim.x + threadIdx.x, x, y;
  if (i < 2 * radius * width) {
    y = i / width, x = i % width;
    if (y >= radius) y += height - 2 * radius;
  } else {
    i -= 2 * radius * width;
    y = radius + i / (2 * radius), x = i % (2 * radius);
    if (x >= radius) x += width - 2 * radius;
    if (y >= height - radius) return;
  }
  const int x0 = max(x - radius, 0), x1 = min(x + radius, width - 1);
  const int y0 = max(y - radius, 0), y1 = min(y + radius, height - 1);
  const int rank = (x1 - x0 + 1) * (y1 - y0 + 1) / 2;
  uint32_t value = 0;
  for (int bit = Bits - 1; bit >= 0; bit--) {
    const uint32_t trial = value | 1u << bit;
    int below = 0;
    for (int v = y0; v <= y1; v++) {
      const uint8_t* row = src + v * src_pitch + channel * (Bits / 8);
      for (int u = x0; u <= x1; u++) below += key_at<Bits>(row, u * step) < trial;
    }
    if (below <= rank) value = trial;
  }
  uint8_t* out = dst + y * dst_pitch + channel * (Bits / 8);
  if constexpr (Bits == 8) out[x * step] = uint8_t(value);
  if constexpr (Bits == 16) reinterpret_cast<uint16_t*>(out)[x * step] = uint16_t(value);
}

template <class T>
__global__ void copy_kernel(const uint8_t* src, ptrdiff_t src_pitch, uint8_t* dst, ptrdiff_t dst_pitch,
                            int width, int step, uint8_t mask) {
  const int x = blockIdx.y * blockDim.x + threadIdx.x;
  if (x >= width) return;
  const auto* from = reinterpret_cast<const T*>(src + blockIdx.x * src_pitch) + size_t(x) * step;
  auto* to = reinterpret_cast<T*>(dst + blockIdx.x * dst_pitch) + size_t(x) * step;
#pragma unroll
  for (int c = 0; c < kMaxChannels; c++)
    if (mask >> c & 1) to[c] = from[c];
}

template <class T>
Status copy_channels_of(const Plane& p, uint8_t mask, const Frame& f, cudaStream_t stream) {
  const dim3 grid(p.height, (p.width + 255) / 256);
  return launch("median copy", copy_kernel<T>, {grid, 256}, stream,
                static_cast<const uint8_t*>(f.src), f.src_pitch, static_cast<uint8_t*>(f.dst),
                f.dst_pitch, p.width, p.step, mask);
}

}  // namespace

Status select_edges(const Plane& p, const Channels& channels, const Frame& f, cudaStream_t stream) {
  const int radius = p.size_x / 2;
  const int64_t pixels = 2 * int64_t(radius) * (p.width + p.height);
  const dim3 grid(unsigned((pixels + 127) / 128), channels.count);
  const auto kernel = p.type == Type::u8 ? shrink_edges<8> : shrink_edges<16>;
  return launch("median edges", kernel, {grid, 128}, stream, static_cast<const uint8_t*>(f.src),
                f.src_pitch, static_cast<uint8_t*>(f.dst), f.dst_pitch, p.width, p.height, p.step,
                radius, channel_args(p, channels));
}

Status copy_channels(const Plane& p, uint8_t mask, const Frame& f, cudaStream_t stream) {
  switch (p.type) {
    case Type::u8: return copy_channels_of<uint8_t>(p, mask, f, stream);
    case Type::u16: return copy_channels_of<uint16_t>(p, mask, f, stream);
    default: return copy_channels_of<uint32_t>(p, mask, f, stream);
  }
}

size_t select_scratch(const Plane& p) {
  const Geometry g = geometry(p, 0);
  return size_t(g.words) * g.rows * bits_of(p.type) * sizeof(uint32_t);
}

Status select(const Plane& p, int channel, const Frame& frame, const Rect* rects, int count,
              void* scratch, size_t max_shared, cudaStream_t stream) {
  switch (p.type) {
    case Type::u8: return run<8>(p, channel, frame, rects, count, scratch, max_shared, stream);
    case Type::u16: return run<16>(p, channel, frame, rects, count, scratch, max_shared, stream);
    default: return run<32>(p, channel, frame, rects, count, scratch, max_shared, stream);
  }
}

}  // namespace vf::cuda::median
