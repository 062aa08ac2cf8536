// Separable Gaussian of 8-bit planes as two matrix products on tensor cores, in one pass.
//
// Idea: out = V (In H), where H and V are banded Toeplitz matrices of weights. The first product is
// computed transposed, H^T In^T, with the weights as A in registers and pixels as B straight from
// shared memory. Its accumulators, packed to half2, are the B fragments of the second product as
// they are: nothing is shuffled. The k order of both products is permuted (`permuted`) so that a
// thread's four pixels of input, and of output, follow each other; rows are permuted alike by their
// slot in shared memory. Channels are pulled apart as bytes are widened to fp16.
//
// Precision: a byte widened to 16 bits is the fp16 subnormal b * 2^-24, exactly. Weights are fp16
// on a common scale searched for the least rounding error. The horizontal sums start at -128 times
// their scale, so that the fp16 intermediate is centred and has half the rounding error. Adding
// 2^23 rounds to nearest.
//
// Traffic: one read and one write, and the halo of each column and of each walk's start. Loads are
// 16-byte asynchronous copies into a ring of kStages chunks; finished tiles go through shared
// memory and out in whole lines behind the next barrier, except where registers bind (kStaged).
//
// Tile: a block owns kWarps * 64 (48 for three channels) bytes of width and walks down 16 rows a
// step; its window of kChunks chunks of 16 blurred rows stays in registers. All blocks are resident
// at once and share the plane evenly.
//
// Borders: rows outside the frame are loaded from where the border sees them; columns outside are
// patched in shared memory by the blocks at the edges.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#pragma nv_diag_suppress 177  // the kernel is empty there, and what it uses unused
#endif

#include <cuda_fp16.h>

#include <cmath>
#include <cstring>

#include "cuda/border.cuh"
#include "cuda/component.cuh"
#include "cuda/gaussian.h"
#include "cuda/launch.h"
#include "cuda/ptx.cuh"
#include "cuda/walk.cuh"

namespace vf::cuda {
namespace {

constexpr int kRows = 16;   // a step
constexpr int kStages = 3;  // of the ring of incoming chunks

struct Params {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height, row_bytes, radius_x;
  int columns, steps;
  const uint4* weights;  // fragments of kChunks products a lane for x, then for y
  float start, scale;    // of the horizontal sums; from the vertical sums to code values
  Border border;
  // Bytes that repeat every 12: the border's colour, and which bytes stay as they are in the
  // source.
  uint32_t outside[3], keep[3];
  bool keeps;
};

// Where the i-th of 16 rows, pixels or k indices lies: lane t holds k = 2t, 2t+1, 2t+8, 2t+9 of a
// fragment, which become 4t to 4t+3.
__host__ __device__ constexpr int permuted(int i) {
  return 4 * ((i & 7) >> 1) + (i & 1) + ((i >> 3) << 1);
}

// The shape of a block's tile. In all shared memory, rows lie apart so that a warp's accesses have
// no bank conflicts: by an odd number of the pieces that eight rows' lanes read at once.
template <int kChannels, int kChunks, int kWarps, bool kStaged>
struct Tile {
  static constexpr int apart(int bytes, int piece) {
    const int pieces = (bytes + piece - 1) / piece;
    return (pieces % 2 ? pieces : pieces + 1) * piece;
  }
  static constexpr int kUnits = kChannels == 1 ? 4 : kChannels == 2 ? 2 : 1;  // of 16 pixels a warp
  static constexpr int kSums = kUnits * kChannels;  // accumulator tiles of a warp
  static constexpr int kWarpBytes = 16 * kUnits * kChannels;
  static constexpr int kWidth = kWarps * kWarpBytes;
  static constexpr int kPixels = kWidth / kChannels;
  static constexpr int kReach = 8 * (kChunks - 1);  // pixels and rows a tile sees around it
  static constexpr int kHalo = (kChannels * kReach + 15) / 16 * 16;
  static constexpr int kPiece = kChannels == 2 ? 32 : kChannels == 4 ? 64 : 16;
  static constexpr int kPitch = apart(kWidth + 2 * kHalo, kPiece);
  static constexpr int kStage = kRows * kPitch;
  static constexpr int kOutPitch = apart(kWidth, kPiece);
  static constexpr int kOut = kStaged ? kRows * kOutPitch : 0;
  static constexpr int kShared = kStages * kStage + 2 * kOut;
};

__device__ __forceinline__ uint32_t half2_bits(float low, float high) {
  const __half2 v = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(v);
}

// The low bytes of four words.
__device__ __forceinline__ uint32_t low_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// The B fragments of four pixels at `at`: for each channel, pixels 0 and 1, then 2 and 3.
template <int kChannels>
__device__ __forceinline__ void load_pixels(uint32_t at, uint32_t (&b)[kChannels][2]) {
  if constexpr (kChannels == 1) {
    const uint32_t v = load32(at);
    b[0][0] = __byte_perm(v, 0, 0x4140);
    b[0][1] = __byte_perm(v, 0, 0x4342);
  } else if constexpr (kChannels == 2) {
    const uint2 v = load64(at);
    b[0][0] = v.x & 0x00ff00ff;
    b[0][1] = v.y & 0x00ff00ff;
    b[1][0] = __byte_perm(v.x, 0, 0x4341);
    b[1][1] = __byte_perm(v.y, 0, 0x4341);
  } else if constexpr (kChannels == 3) {
    // Bytes 0 1 2 | 3 4 5 | 6 7 8 | 9 10 11 of three words.
    const uint32_t v = load32(at), w = load32(at + 4), x = load32(at + 8);
    b[0][0] = __byte_perm(v, 0, 0x4340);
    b[0][1] = __byte_perm(w, x, 0x3532) & 0x00ff00ff;
    b[1][0] = __byte_perm(v, w, 0x3431) & 0x00ff00ff;
    b[1][1] = __byte_perm(w, x, 0x3633) & 0x00ff00ff;
    b[2][0] = __byte_perm(v, w, 0x3532) & 0x00ff00ff;
    b[2][1] = __byte_perm(x, 0, 0x4340);
  } else {
    const uint4 v = load128(at);
    const uint32_t low0 = __byte_perm(v.x, v.y, 0x5410), low1 = __byte_perm(v.z, v.w, 0x5410);
    const uint32_t high0 = __byte_perm(v.x, v.y, 0x7632), high1 = __byte_perm(v.z, v.w, 0x7632);
    b[0][0] = low0 & 0x00ff00ff;
    b[0][1] = low1 & 0x00ff00ff;
    b[1][0] = __byte_perm(low0, 0, 0x4341);
    b[1][1] = __byte_perm(low1, 0, 0x4341);
    b[2][0] = high0 & 0x00ff00ff;
    b[2][1] = high1 & 0x00ff00ff;
    b[3][0] = __byte_perm(high0, 0, 0x4341);
    b[3][1] = __byte_perm(high1, 0, 0x4341);
  }
}

// Between rows in shared memory, where pixels of two and four bytes are aligned.
template <int kChannels>
__device__ __forceinline__ void copy_pixel(uint8_t* to, const uint8_t* from) {
  if constexpr (kChannels == 4) {
    *reinterpret_cast<uint32_t*>(to) = *reinterpret_cast<const uint32_t*>(from);
  } else if constexpr (kChannels == 2) {
    *reinterpret_cast<uint16_t*>(to) = *reinterpret_cast<const uint16_t*>(from);
  } else {
#pragma unroll
    for (int c = 0; c < kChannels; c++) to[c] = from[c];
  }
}

// Bytes of a vector, for the few at the end of a row: without indexing, which would put it in
// memory.
__device__ __forceinline__ uint8_t get_byte(const uint4& v, int i) {
  const uint32_t word = i < 8 ? (i < 4 ? v.x : v.y) : (i < 12 ? v.z : v.w);
  return uint8_t(word >> (8 * (i & 3)));
}
__device__ __forceinline__ void set_byte(uint4* v, int i, uint8_t byte) {
  const uint32_t bits = uint32_t(byte) << (8 * (i & 3));
  if (i < 4)
    v->x |= bits;
  else if (i < 8)
    v->y |= bits;
  else if (i < 12)
    v->z |= bits;
  else
    v->w |= bits;
}
__device__ __forceinline__ uint32_t merge(uint32_t v, uint32_t old, uint32_t keep) {
  return (old & keep) | (v & ~keep);
}

// Writes 16 bytes of output at byte x of row y; what lies beyond the frame is left out. `plain`
// says that the tile lies inside the frame and that all its channels are written.
__device__ __forceinline__ void store_row(const Params& p, bool plain, int x, int y, uint4 v) {
  uint8_t* to = p.dst + y * p.dst_stride + x;
  if (plain) {
    *reinterpret_cast<uint4*>(to) = v;
    return;
  }
  if (y >= p.height || x >= p.row_bytes) return;
  const bool whole = x + 16 <= p.row_bytes;
  if (p.keeps) {
    const uint8_t* from = p.src + y * p.src_stride + x;
    uint4 old = make_uint4(0, 0, 0, 0);
    if (whole)
      old = *reinterpret_cast<const uint4*>(from);
    else
      for (int i = 0; x + i < p.row_bytes; i++) set_byte(&old, i, from[i]);
    const int word = x / 4;
    v.x = merge(v.x, old.x, p.keep[word % 3]);
    v.y = merge(v.y, old.y, p.keep[(word + 1) % 3]);
    v.z = merge(v.z, old.z, p.keep[(word + 2) % 3]);
    v.w = merge(v.w, old.w, p.keep[word % 3]);
  }
  if (whole) {
    *reinterpret_cast<uint4*>(to) = v;
  } else {
#pragma unroll 1
    for (int i = 0; x + i < p.row_bytes; i++) to[i] = get_byte(v, i);
  }
}

template <int kChannels, int kChunks, int kWarps, int kBlocks, bool kStaged, bool kSquare>
__global__ void __launch_bounds__(kWarps * 32, kBlocks) blur(const __grid_constant__ Params p) {
#if __CUDA_ARCH__ >= 800
  using T = Tile<kChannels, kChunks, kWarps, kStaged>;
  // Saves setting sums, where there are registers left for what the compiler makes of it.
  constexpr bool kFirst = kChunks < 5;
  constexpr int kPerRow = kWarps * 2;  // threads that load or store a row
  constexpr int kVectors = T::kWidth / 16, kHaloVectors = T::kHalo / 16;
  VF_DYNAMIC_SHARED(128, uint8_t, shared);
  const uint32_t base = shared_address(shared);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int g = lane >> 2, t = lane & 3;  // row and column of a lane in a fragment
  const int slot = threadIdx.x / kPerRow, vector = threadIdx.x % kPerRow;  // as loader, and storer

  Walk walk(p.columns, p.steps, kChunks - 1, blockIdx.x, gridDim.x), load = walk;
  int load_chunk = 0, load_stage = 0;
  // Starts loading the next chunk of the walk, if any; one group of copies either way.
  const auto produce = [&] {
    if (load.count > 0) {
      const int row = kRows * (load.first + load_chunk) + permuted(slot) - T::kReach;
      const int y = border_index(row, p.height, p.border);
      const int x = load.column * T::kWidth, room = p.row_bytes - x;
      const uint32_t to = base + load_stage * T::kStage + slot * T::kPitch + T::kHalo;
      const uint8_t* from = p.src + y * p.src_stride + x;
      if (y >= 0 && x >= T::kHalo && room >= T::kWidth + T::kHalo) {
#pragma unroll
        for (int k = 0; k * kPerRow < kVectors; k++) {
          const int v = vector + k * kPerRow;
          if (kVectors % kPerRow == 0 || v < kVectors) copy_async(to + 16 * v, from + 16 * v);
        }
#pragma unroll
        for (int k = 0; k * kPerRow < 2 * kHaloVectors; k++) {
          const int v = vector + k * kPerRow;
          const int at = v < kHaloVectors ? 16 * v - T::kHalo : 16 * (v - kHaloVectors) + T::kWidth;
          if (v < 2 * kHaloVectors) copy_async(to + at, from + at);
        }
      } else {  // at the frame's edges
#pragma unroll 1
        for (int v = vector; v < kVectors + 2 * kHaloVectors; v += kPerRow) {
          const int at = 16 * v - T::kHalo;
          if (y < 0) {
            const int word = (x + at + 768) / 4;  // 768 is a multiple of 12 and at least the halo
            store128(to + at, make_uint4(p.outside[word % 3], p.outside[(word + 1) % 3],
                                         p.outside[(word + 2) % 3], p.outside[word % 3]));
          } else if (x + at < 0 || at >= room) {
            continue;
          } else if (y == p.height - 1 && at + 16 > room) {
            // Memory may end with the last row's last pixel; sanitizers take the copies below for
            // reads of 16 bytes.
            for (int b = at; b < room; b++) shared[to - base + b] = from[b];
          } else {
            copy_part_async(to + at, from + at, min(16, room - at));
          }
        }
      }
      if (++load_stage == kStages) load_stage = 0;
      if (++load_chunk == load.count + kChunks - 1) {
        load_chunk = 0;
        load.next();
      }
    }
    commit_copies();
  };
  for (int i = 0; i < kStages - 1; i++) produce();

  uint4 weights_x[kChunks], weights_y[kSquare ? 1 : kChunks];
#pragma unroll
  for (int j = 0; j < kChunks; j++) {
    weights_x[j] = __ldg(p.weights + j * 32 + lane);
    if constexpr (!kSquare) weights_y[j] = __ldg(p.weights + (kChunks + j) * 32 + lane);
  }
  const float scale = p.scale;
  // Four values to the compiler, so that they keep the four registers that a product starts from.
  float start[4];
#pragma unroll
  for (float& v : start) {
    v = p.start;
    if (kFirst) hide(v);
  }
  const float zero[4] = {};

  // The finished tile of the last step goes out behind the next barrier, whole rows at a time.
  int out_y = -1, out_x = 0, out = 0;
  const auto plain = [&](int x, int y) {
    return !p.keeps && x + T::kWidth <= p.row_bytes && y + kRows <= p.height;
  };
  const auto flush = [&] {
    if (!kStaged || out_y < 0) return;
    const uint32_t from = base + kStages * T::kStage + (out ^ 1) * T::kOut + slot * T::kOutPitch;
    const bool whole = plain(out_x, out_y);
#pragma unroll
    for (int k = 0; k * kPerRow < kVectors; k++) {
      const int v = vector + k * kPerRow;
      if (kVectors % kPerRow == 0 || v < kVectors)
        store_row(p, whole, out_x + 16 * v, out_y + permuted(slot), load128(from + 16 * v));
    }
    out_y = -1;
  };

  // Blurred rows of kChunks chunks: a chunk, sum, half of its 16 pixels, half of its rows.
  uint32_t window[kChunks][T::kSums][2][2];
  int stage = 0;
  for (; walk.count > 0; walk.next()) {
    const int steps = walk.count + kChunks - 1;
    const int x0 = walk.column * T::kPixels;
    const bool edge = walk.column == 0 || x0 + T::kPixels + p.radius_x > p.width;
    // The window's registers cannot be indexed: there is code for each place of a chunk in it.
    for (int i0 = 0; i0 < steps; i0 += kChunks)
#pragma unroll
      for (int place = 0; place < kChunks; place++) {
        const int i = i0 + place;
        if (i >= steps) break;
        wait_copies<kStages - 2>();
        __syncthreads();
        produce();
        flush();
        const uint32_t rows = base + stage * T::kStage;
        if (edge) {
          const int beyond = p.width - x0;  // the first pixel right of the frame, from x0
          const int left = walk.column == 0 ? p.radius_x : 0;
          const int right = max(0, min(p.radius_x, T::kPixels + T::kReach - beyond));
          // All blocks wait for these in the end, so it is quick: a lane a pixel, a warp a few
          // rows.
          for (int j = lane; j < left + right; j += 32) {
            const int to = j < left ? -1 - j : beyond + j - left;
            const int from = border_index(x0 + to, p.width, p.border);
            uint8_t* const line = shared + stage * T::kStage + T::kHalo;
            if (from >= 0 && from - x0 >= -T::kReach && from - x0 < T::kPixels + T::kReach) {
#pragma unroll
              for (int k = 0; k < kRows; k += kWarps) {
                if (kRows % kWarps && k + warp >= kRows) break;
                uint8_t* const row = line + (k + warp) * T::kPitch;
                copy_pixel<kChannels>(row + to * kChannels, row + (from - x0) * kChannels);
              }
            } else {  // a colour, or a pixel from the other side of the frame
#pragma unroll 1
              for (int k = warp; k < kRows; k += kWarps) {
                const int y = border_index(kRows * (walk.first + i) + permuted(k) - T::kReach,
                                           p.height, p.border);
                const uint8_t* pixel = p.src + y * p.src_stride + ptrdiff_t(from) * kChannels;
                for (int c = 0; c < kChannels; c++)
                  line[k * T::kPitch + to * kChannels + c] =
                      from < 0 ? uint8_t(p.outside[0] >> (8 * c)) : pixel[c];
              }
            }
          }
          __syncthreads();
        }
        const uint32_t at = rows + g * T::kPitch + (T::kHalo - kChannels * T::kReach) +
                            warp * T::kWarpBytes + t * 4 * kChannels;
        // A lane gets rows permuted(g) and that plus 2, and of each sum four pixels in a row.
        uint32_t codes[2][T::kSums][4];
        // Horizontal product: 16 pixels by 8 rows each.
#pragma unroll
        for (int h = 0; h < 2; h++) {
          float sums[T::kSums][4];
#pragma unroll
          for (int s = 0; s < T::kSums; s++)
            if (!kFirst) sums[s][0] = sums[s][1] = sums[s][2] = sums[s][3] = start[0];
#pragma unroll
          for (int c = 0; c < kChunks + T::kUnits - 1; c++) {
            uint32_t b[kChannels][2];
            load_pixels<kChannels>(at + h * 8 * T::kPitch + c * 16 * kChannels, b);
#pragma unroll
            for (int u = 0; u < T::kUnits; u++)
              if (c - u >= 0 && c - u < kChunks) {
#pragma unroll
                for (int channel = 0; channel < kChannels; channel++)
                  if (kFirst && c == u)
                    multiply_first(sums[u * kChannels + channel], start, weights_x[0],
                                   b[channel][0], b[channel][1]);
                  else
                    multiply(sums[u * kChannels + channel], weights_x[c - u < kChunks ? c - u : 0],
                             b[channel][0], b[channel][1]);
              }
          }
#pragma unroll
          for (int s = 0; s < T::kSums; s++) {
            window[place][s][0][h] = half2_bits(sums[s][0], sums[s][1]);
            window[place][s][1][h] = half2_bits(sums[s][2], sums[s][3]);
          }
        }
        if (++stage == kStages) stage = 0;
        if (i < kChunks - 1) continue;
          // Vertical product: 16 rows by 8 pixels each.
#pragma unroll
        for (int s = 0; s < T::kSums; s++) {
          float sums[2][4] = {};
#pragma unroll
          for (int j = 0; j < kChunks; j++) {
            const uint4& a = kSquare ? weights_x[j] : weights_y[kSquare ? 0 : j];
            const uint32_t(&b)[2][2] = window[(place + 1 + j) % kChunks][s];
#pragma unroll
            for (int half = 0; half < 2; half++)
              if (kFirst && j == 0)
                multiply_first(sums[half], zero, a, b[half][0], b[half][1]);
              else
                multiply(sums[half], a, b[half][0], b[half][1]);
          }
#pragma unroll
          for (int h = 0; h < 2; h++)
#pragma unroll
            for (int e = 0; e < 4; e++)  // + 2^23 rounds; + 128 undoes the centring
              codes[h][s][e] =
                  __float_as_uint(fmaf(sums[e >> 1][2 * h + (e & 1)], scale, 8388736.f));
        }

        const int y = kRows * (walk.first + i - (kChunks - 1));
        const uint32_t to = base + kStages * T::kStage + out * T::kOut + warp * T::kWarpBytes;
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const uint32_t row = to + (g + 8 * h) * T::kOutPitch;
          const auto& v = codes[h];
          if constexpr (kChannels == 1) {
            uint32_t words[4];
#pragma unroll
            for (int u = 0; u < 4; u++) words[u] = low_bytes(v[u][0], v[u][1], v[u][2], v[u][3]);
#if __CUDA_ARCH__ >= 900
            store_matrices(to + ((lane & 7) + 8 * h) * T::kOutPitch + (lane >> 3) * 16, words);
#else
#pragma unroll
            for (int u = 0; u < 4; u++) store32(row + 16 * u + 4 * t, words[u]);
#endif
          } else if constexpr (kChannels == 2) {
#pragma unroll
            for (int u = 0; u < 2; u++) {
              const auto &a = v[2 * u], &b = v[2 * u + 1];
              store64(row + 32 * u + 8 * t, low_bytes(a[0], b[0], a[1], b[1]),
                      low_bytes(a[2], b[2], a[3], b[3]));
            }
          } else if constexpr (kChannels == 3) {
            store32(row + 12 * t, low_bytes(v[0][0], v[1][0], v[2][0], v[0][1]));
            store32(row + 12 * t + 4, low_bytes(v[1][1], v[2][1], v[0][2], v[1][2]));
            store32(row + 12 * t + 8, low_bytes(v[2][2], v[0][3], v[1][3], v[2][3]));
          } else {
            uint4 pixels;
            pixels.x = low_bytes(v[0][0], v[1][0], v[2][0], v[3][0]);
            pixels.y = low_bytes(v[0][1], v[1][1], v[2][1], v[3][1]);
            pixels.z = low_bytes(v[0][2], v[1][2], v[2][2], v[3][2]);
            pixels.w = low_bytes(v[0][3], v[1][3], v[2][3], v[3][3]);
            if constexpr (kStaged)
              store128(row + 16 * t, pixels);
            else
              store_row(p, plain(x0 * 4, y), x0 * 4 + warp * T::kWarpBytes + 16 * t,
                        y + permuted(g + 8 * h), pixels);
          }
        }
        out_y = y;
        out_x = x0 * kChannels;
        out ^= 1;
      }
  }
  __syncthreads();
  flush();
#endif
}

struct Kernel {
  void (*function)(Params);
  int channels, chunks;
  bool square;
  int threads, width, shared;
};

template <int kChannels, int kChunks, int kWarps, int kBlocks, bool kStaged, bool kSquare>
Kernel kernel() {
  using T = Tile<kChannels, kChunks, kWarps, kStaged>;
  static_assert(kStaged || kChannels == 4, "only whole pixels of 4 bytes go out unstaged");
  static_assert(T::kHalo <= 768, "the border's colour would lose its phase");
  return {blur<kChannels, kChunks, kWarps, kBlocks, kStaged, kSquare>,
          kChannels,
          kChunks,
          kSquare,
          kWarps * 32,
          T::kWidth,
          T::kShared};
}

// Warps a block and blocks a processor as measured on an H200. Most come in a version that has one
// set of weights for both axes, which leaves registers for more warps.
const Kernel* find_kernel(int channels, int chunks, bool square) {
  static const Kernel kernels[] = {
      kernel<1, 2, 4, 4, true, true>(),   kernel<1, 2, 4, 4, true, false>(),
      kernel<2, 2, 4, 4, true, false>(),  kernel<3, 2, 8, 2, true, false>(),
      kernel<4, 2, 4, 4, false, true>(),  kernel<4, 2, 8, 2, false, false>(),
      kernel<1, 3, 4, 3, true, true>(),   kernel<1, 3, 4, 3, true, false>(),
      kernel<2, 3, 4, 3, true, false>(),  kernel<3, 3, 8, 2, true, false>(),
      kernel<4, 3, 4, 3, false, true>(),  kernel<4, 3, 8, 1, false, false>(),
      kernel<1, 5, 4, 3, true, true>(),   kernel<1, 5, 4, 2, true, false>(),
      kernel<2, 5, 4, 2, true, false>(),  kernel<3, 5, 8, 1, true, false>(),
      kernel<4, 5, 12, 1, false, true>(), kernel<4, 5, 8, 1, false, false>(),
      kernel<1, 9, 4, 2, true, true>(),   kernel<4, 9, 8, 1, false, true>(),
  };
  const Kernel* found = nullptr;
  for (const Kernel& k : kernels)
    if (k.channels == channels && k.chunks == chunks && (k.square ? square : !found)) found = &k;
  return found;
}

// Weights as fp16 on the scale, from 2^15 to twice that, that rounds them best. Their sum divides
// the result again, so that a flat frame stays as it is.
struct Rounded {
  std::vector<double> weights;
  double sum = 0;
};
double to_half(double v) {
  if (v == 0) return 0;
  const double unit = std::ldexp(1, std::max(std::ilogb(v), -14) - 10);
  return std::nearbyint(v / unit) * unit;
}
Rounded rounded(const std::vector<double>& weights) {
  constexpr int scales = 512;
  constexpr double largest = 65504;        // of fp16
  const size_t half = weights.size() / 2;  // the rest mirrors it
  Rounded best;
  double least = INFINITY;
  std::vector<double> trial(half + 1);
  for (int i = 0; i < scales; i++) {
    const double scale = 32768 * (1 + double(i) / scales);
    double sum = 0, error = 0;
    for (size_t j = 0; j <= half; j++) {
      trial[j] = to_half(weights[j] * scale);
      sum += j < half ? 2 * trial[j] : trial[j];
    }
    if (trial[half] > largest) break;
    for (size_t j = 0; j <= half; j++)
      error += (j < half ? 2 : 1) * std::abs(trial[j] / sum - weights[j]);
    if (error >= least) continue;
    least = error;
    best.sum = sum;
    best.weights.assign(weights.size(), 0);
    for (size_t j = 0; j <= half; j++)
      best.weights[j] = best.weights[weights.size() - 1 - j] = trial[j];
  }
  return best;
}

// The A fragments of the Toeplitz matrix: element (m, k) of chunk j is the weight of input
// 16 j + k - reach for output m.
void add_fragments(const Rounded& w, int chunks, std::vector<uint32_t>* out) {
  const int reach = 8 * (chunks - 1), radius = int(w.weights.size()) / 2;
  for (int j = 0; j < chunks; j++)
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < 4; e++) {
        uint32_t pair = 0;
        for (int b = 0; b < 2; b++) {
          const int m = (lane >> 2) + (e & 1) * 8, k = (lane & 3) * 2 + b + (e >> 1) * 8;
          const int tap = 16 * j + permuted(k) - reach - permuted(m) + radius;
          const bool inside = tap >= 0 && tap < int(w.weights.size());
          const __half half = __float2half_rn(inside ? float(w.weights[tap]) : 0.f);
          uint16_t bits;
          std::memcpy(&bits, &half, sizeof bits);
          pair |= uint32_t(bits) << (16 * b);
        }
        out->push_back(pair);
      }
}

class TensorPass final : public GaussianPass {
 public:
  TensorPass(const Kernel& kernel) : kernel_(kernel) {}

  Status prepare(CudaQueue& queue, const GaussianTask& task, int plane) {
    const PlaneLayout& l = task.layout.plane[plane];
    const GaussianPlane& g = task.plane[plane];
    p_.width = l.width;
    p_.height = l.height;
    p_.row_bytes = l.width * l.channels;
    p_.radius_x = int(g.weights_x.size()) / 2;
    p_.columns = (p_.row_bytes + kernel_.width - 1) / kernel_.width;
    p_.steps = (l.height + kRows - 1) / kRows;
    p_.border = task.border;
    for (int i = 0; i < 12; i++) {
      const int c = i % l.channels;
      const uint32_t colour = component_of<uint8_t>(g.border_value[c], 0);
      p_.outside[i / 4] |= colour << (8 * (i % 4));
      if (!(g.channels >> c & 1)) {
        p_.keep[i / 4] |= 0xffu << (8 * (i % 4));
        p_.keeps = true;
      }
    }

    const Rounded x = rounded(g.weights_x), y = rounded(g.weights_y);
    std::vector<uint32_t> fragments;
    add_fragments(x, kernel_.chunks, &fragments);
    add_fragments(y, kernel_.chunks, &fragments);
    const size_t bytes = fragments.size() * sizeof fragments[0];
    VF_TRY(queue.allocate(Memory::device, bytes, &weights_));
    VF_TRY(queue.copy(weights_.data(), fragments.data(), bytes));
    p_.weights = weights_.as<uint4>();
    const double unit = std::ldexp(x.sum, -24);  // of the horizontal sums, a code value
    p_.start = float(-128 * unit);
    p_.scale = float(1 / (unit * y.sum));

    VF_TRY(allow_shared(kernel_.function, kernel_.shared));
    int blocks = 0;
    VF_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_.function,
                                                          kernel_.threads, kernel_.shared));
    grid_ =
        int(std::min<int64_t>(int64_t(p_.columns) * p_.steps, blocks * queue.device().processors));
    return {};
  }

  bool runs() const { return grid_ > 0; }

  bool takes(const GaussianView& v) const override {
    return ((reinterpret_cast<uintptr_t>(v.src) | reinterpret_cast<uintptr_t>(v.dst) |
             uintptr_t(v.src_stride) | uintptr_t(v.dst_stride)) &
            15) == 0;
  }

  Status enqueue(CudaQueue& queue, const GaussianView& view) override {
    Params p = p_;
    p.src = view.src;
    p.dst = view.dst;
    p.src_stride = view.src_stride;
    p.dst_stride = view.dst_stride;
    return launch("gaussian tensor", kernel_.function,
                  {grid_, kernel_.threads, size_t(kernel_.shared)}, queue.cuda_stream(), p);
  }

 private:
  const Kernel& kernel_;
  Params p_ = {};
  Block weights_;
  int grid_ = 0;
};

}  // namespace

Status make_gaussian_tensor(CudaQueue& queue, const GaussianTask& task, int plane,
                            std::unique_ptr<GaussianPass>* out) {
  const PlaneLayout& l = task.layout.plane[plane];
  const GaussianPlane& g = task.plane[plane];
  const int radius = int(std::max(g.weights_x.size(), g.weights_y.size())) / 2;
  const int chunks = radius <= 8 ? 2 : radius <= 16 ? 3 : radius <= 32 ? 5 : 9;
  if (gaussian_kernels_for_tests != GaussianKernels::all || queue.device().capability < 80 ||
      task.layout.type != Type::u8 || l.pixel_step() != l.channels || radius > 64)
    return {};
  const Kernel* kernel = find_kernel(l.channels, chunks, g.weights_x == g.weights_y);
  if (!kernel || kernel->shared > queue.device().shared_per_block) return {};
  auto pass = std::make_unique<TensorPass>(*kernel);
  VF_TRY(pass->prepare(queue, task, plane));
  if (pass->runs()) *out = std::move(pass);
  return {};
}

}  // namespace vf::cuda
