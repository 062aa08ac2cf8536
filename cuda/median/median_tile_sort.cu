// Makes medians of any type, window and border by sorting a tile once for many pixels. Large
// windows use this, and windows and borders that no other kernel takes.
//
// Idea: a block makes a tile of 32 x 32 medians. It sorts the pixels in the union of the tile's
// windows, and does not look at values again. To find a pixel's median, it walks through the sorted
// list and counts the pixels that lie in the pixel's window, until it has counted half of the
// window. For 32 pixels of the list, one word says which lie in the columns of window x, and
// another which lie in the rows of window y. A warp makes the words by transposing 32 x 32 bits,
// because the windows that contain a pixel are a run of ones.
//
// The search starts in the middle of the list and goes both ways. It needs the number of pixels of
// each window below the middle. Columns that lie in the same windows form one class, and so do
// rows, which gives at most 63 x 63 classes. The sums of the classes' counts over boxes of at most
// 32 x 32 are the numbers of all windows.
//
// The sort goes by digits of 4 bits from the lowest up, over the bits in which the tile's pixels
// differ. Each thread has its own counters (two per word), so that the time does not depend on the
// data. A thread's run of pixels has an odd length, which avoids bank conflicts.
//
// If shared memory cannot hold the list, the kernel sorts the chunk of pixels between two ranks
// near the middle, whose keys it finds by histograms of 8 bits at a time, and counts the pixels
// below. Medians outside the chunk, which are rare, come from the neighbouring chunks. Equal keys
// go to chunks in the order in which they come. If each of two neighbouring chunks says that a
// median is in the other, it is the key on their boundary.
//
// Traffic: ((31 + size) / 32)^2 reads of each pixel through L2 (three times as many for u16 in
// chunks) and one write. With u16 at 1080p and a window of 21 x 21, loading a pixel and sorting
// four digits takes about 160 instructions and 40 accesses of shared memory for 2.6 pixels per
// median. lab/median.md has times.
#include <algorithm>

#include "cuda/core/launch.h"
#include "cuda/core/ptx.cuh"
#include "cuda/core/warp.cuh"
#include "cuda/median/median.h"
#include "cuda/median/median_device.cuh"

namespace vf::cuda::median {
namespace {

constexpr int kTile = 32;  // a word has a bit for each window along an axis

// The place of a pixel is 64 * y + x, where y and x (0 to 62) are its classes of rows and columns.
constexpr int kPlacePitch = 2 * kTile, kPlaceBits = 12;
constexpr uint32_t kPlaceMask = (1 << kPlaceBits) - 1;
constexpr int kCentre = (kTile - 1) * kPlacePitch + kTile - 1;
constexpr int kGridWords = kPlacePitch * (2 * kTile - 1);

constexpr int kDigitBits = 4, kCounterRows = 1 << (kDigitBits - 1);  // two counters per word
constexpr int kBatch = 4;  // items that a thread loads together

constexpr int kStep = 8;  // words of the list that are searched at a time in each direction

// These histograms find a chunk's boundaries. There are several copies, an odd number of words
// apart, so that equal pixels of a warp do not all wait for each other.
constexpr int kBins = 256, kCopies = 4, kHistogramPitch = kBins + 1;

// Returns the class of column (or row) `v` of the region. Each column is a class of its own, except
// that all columns that lie in every window are one class.
__device__ __forceinline__ int class_of(int v, int size) {
  return min(v, kTile - 1) + max(0, v - (kTile - 1) - max(0, size - kTile));
}
// Returns the windows along an axis that contain class c, as bits.
__device__ __forceinline__ uint32_t windows_of(int c, int size) {
  return (~0u >> (kTile - 1 - min(c, kTile - 1))) & (~0u << max(0, c - min(size, kTile) + 1));
}

// A list of the region's pixels, which is sorted or to be sorted.
template <int Bits>
struct List {
  static constexpr bool kPacked = Bits <= 32 - kPlaceBits;
  static constexpr int kBytes = kPacked ? 4 : 6;
  struct Item {
    uint32_t word, place;
  };
  uint32_t* words;
  uint16_t* places;

  __device__ __forceinline__ List(uint8_t* memory, int capacity)
      : words(reinterpret_cast<uint32_t*>(memory)),
        places(reinterpret_cast<uint16_t*>(words + capacity)) {}
  static __device__ __forceinline__ Item item(uint32_t key, uint32_t place) {
    return {kPacked ? key << kPlaceBits | place : key, place};
  }
  static __device__ __forceinline__ uint32_t key(const Item& item) {
    return kPacked ? item.word >> kPlaceBits : item.word;
  }
  __device__ __forceinline__ uint32_t key(int i) const {
    return kPacked ? words[i] >> kPlaceBits : words[i];
  }
  __device__ __forceinline__ int place(int i) const {
    return int(kPacked ? words[i] & kPlaceMask : places[i]);
  }
  __device__ __forceinline__ Item get(int i) const { return {words[i], kPacked ? 0u : places[i]}; }
  __device__ __forceinline__ void put(int i, const Item& item) {
    words[i] = item.word;
    if (!kPacked) places[i] = uint16_t(item.place);
  }
};

// The range of a set of keys, and the OR and AND of their bits.
struct Range {
  uint32_t low, high, any, all;
  static __device__ __forceinline__ Range none() { return {~0u, 0, 0, ~0u}; }
  __device__ __forceinline__ void add(const Range& r) {
    low = min(low, r.low), high = max(high, r.high), any |= r.any, all &= r.all;
  }
  __device__ __forceinline__ void add(uint32_t key) { add(Range{key, key, key, key}); }
};

template <int Threads>
__device__ __forceinline__ Range over_block(Range r, Range* shared) {
#pragma unroll
  for (int i = 1; i < 32; i *= 2)
    r.add(Range{__shfl_xor_sync(~0u, r.low, i), __shfl_xor_sync(~0u, r.high, i),
                __shfl_xor_sync(~0u, r.any, i), __shfl_xor_sync(~0u, r.all, i)});
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = r;
  __syncthreads();
  for (int w = 0; w < Threads / 32; w++) r.add(shared[w]);
  return r;
}

// Sorts `n` items of `from` by their keys, which lie in `range`. It swaps the lists so that the
// result is in `from`. All threads call it, after a barrier behind the writing of the items.
template <int Bits, int Threads>
__device__ __forceinline__ void sort(List<Bits>& from, List<Bits>& to, int n, const Range& range,
                                     uint32_t* counters, uint32_t* sums) {
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  uint32_t* const mine = counters + tid;
  const int run = ((n + Threads - 1) / Threads) | 1;
  const int begin = min(n, tid * run), end = min(n, begin + run);
  const int bits = 32 - __clz(range.high - range.low);
  const uint32_t differ = range.any & ~range.all;
#pragma unroll 1
  for (int shift = max(0, __ffs(differ) - 1); shift < bits; shift += kDigitBits) {
    const auto digit = [&](uint32_t key) {
      return (key - range.low) >> shift & ((1 << kDigitBits) - 1);
    };
    const auto counter = [&](uint32_t d) -> uint32_t& {
      return mine[(d % kCounterRows) * Threads];
    };
    const auto one = [](uint32_t d) { return d < kCounterRows ? 1u : 0x10000u; };
#pragma unroll
    for (int i = 0; i < kCounterRows; i++) mine[i * Threads] = 0;
    // A few items are loaded at a time, because each counter waits for the previous one.
    for (int i = begin; i < end; i += kBatch) {
      uint32_t d[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; k++) d[k] = digit(from.key(min(i + k, end - 1)));
#pragma unroll
      for (int k = 0; k < kBatch; k++)
        if (i + k < end) counter(d[k]) += one(d[k]);
    }
    __syncthreads();
    // Each counter becomes the sum of all counters before it. A thread takes as many neighbouring
    // words as there are rows. The counters of the upper digits follow all of the lower digits.
    static_assert(kCounterRows == 8, "two vectors of four words");
    uint4* const part = reinterpret_cast<uint4*>(counters) + 2 * tid;
    uint4 a = part[0], b = part[1];
    const uint32_t total = a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
    const uint32_t inclusive = sum_up_to_lane(total);
    if (lane == 31) sums[warp] = inclusive;
    __syncthreads();
    const uint32_t of_warp = lane < Threads / 32 ? sums[lane] : 0, warps = sum_up_to_lane(of_warp);
    uint32_t sum = inclusive - total + __shfl_sync(~0u, warps - of_warp, warp) +
                   (__shfl_sync(~0u, warps, 31) << 16);
    const auto before = [&sum](uint32_t& v) {
      const uint32_t count = v;
      v = sum;
      sum += count;
    };
    before(a.x), before(a.y), before(a.z), before(a.w);
    before(b.x), before(b.y), before(b.z), before(b.w);
    part[0] = a, part[1] = b;
    __syncthreads();
    for (int i = begin; i < end; i += kBatch) {
      typename List<Bits>::Item items[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; k++) items[k] = from.get(min(i + k, end - 1));
#pragma unroll
      for (int k = 0; k < kBatch; k++) {
        if (i + k >= end) break;
        const uint32_t d = digit(List<Bits>::key(items[k]));
        uint32_t& c = counter(d);
        const uint32_t at = c;
        c = at + one(d);
        to.put(int(d < kCounterRows ? at & 0xffff : at >> 16), items[k]);
      }
    }
    __syncthreads();
    const List<Bits> swap = from;
    from = to;
    to = swap;
  }
}

// Returns the position of the bit of `word` that has n ones below it.
__device__ __forceinline__ int nth_one(uint32_t word, int n) {
  int at = 0;
#pragma unroll
  for (int width = 16; width; width /= 2) {
    const int ones = __popc(word >> at & ((1u << width) - 1));
    if (n >= ones) n -= ones, at += width;
  }
  return at;
}

struct TileSortArgs {
  const uint8_t* src;
  uint8_t* dst;
  ptrdiff_t src_stride, dst_stride;
  int width, height, step, size_x, size_y;
  Border border;
  uint32_t channels;               // byte z: index of the z-th channel
  uint32_t outside[kMaxChannels];  // its key outside the frame
  int capacity;                    // items of a list
  Rect rect[4];
  int tiles[4], across[4];  // tiles of each rectangle, and tiles in a row
};

// Describes the union of a tile's windows.
template <int Bits, int Threads>
struct Region {
  const uint8_t* src;
  ptrdiff_t pitch;
  int left, top;         // in the frame
  int first_x, first_y;  // offset of the part inside the frame
  int across, count;
  int width, height, step, size_x, size_y;
  Border border;
  uint32_t outside;
  bool inside;

  __device__ __forceinline__ uint32_t key_at_border(int x, int y) const {
    x = median_border_index(x + left, width, border),
    y = median_border_index(y + top, height, border);
    return (x | y) < 0 ? outside : key_at<Bits>(src + y * pitch, x * step);
  }
  __device__ __forceinline__ uint32_t place(int x, int y) const {
    return uint32_t(class_of(y + first_y, size_y) * kPlacePitch + class_of(x + first_x, size_x));
  }
  // Calls f(i, x, y, key) for the pixels of the region, equally often in all threads. From i of
  // `count` on, the others are meaningless. Loads of Batch pixels are in flight together.
  template <int Batch, class F>
  __device__ __forceinline__ void each(F f) const {
    const int down = Threads / across, right = Threads - down * across;
    const auto next = [&](int& x, int& y) {
      x += right, y += down;
      if (x >= across) x -= across, y++;
    };
    const int pixel = step * (Bits / 8);
    const ptrdiff_t skip = down * pitch + right * pixel, wrap = pitch - across * pixel;
    int y = threadIdx.x / across, x = threadIdx.x - y * across;
#pragma unroll 1
    for (int first = threadIdx.x; first - int(threadIdx.x) < count; first += Batch * Threads) {
      uint32_t keys[Batch];
      int ahead_x = x, ahead_y = y;
      if (inside) {
        const uint8_t* at = src + (y + top) * pitch + (x + left) * pixel;
#pragma unroll
        for (int i = 0; i < Batch; i++) {
          keys[i] = first + i * Threads < count ? key_at<Bits>(at, 0) : 0;
          ahead_x += right;
          at += skip;
          if (ahead_x >= across) ahead_x -= across, at += wrap;
        }
      } else {
#pragma unroll 1
        for (int i = 0; i < Batch; i++, next(ahead_x, ahead_y)) {
          const uint32_t key = first + i * Threads < count ? key_at_border(ahead_x, ahead_y) : 0;
#pragma unroll
          for (int k = 0; k < Batch; k++)
            if (k == i) keys[k] = key;
        }
      }
#pragma unroll
      for (int i = 0; i < Batch; i++, next(x, y)) f(first + i * Threads, x, y, keys[i]);
    }
  }
};

// Describes a pixel at a rank: its key, and the number of equal keys before it.
struct Ranked {
  uint32_t key;
  int rest;
};

// Finds the pixels at two ranks. `histograms` and `found` are shared memory.
template <int Bits, int Threads>
__device__ __forceinline__ void pixels_at(const Region<Bits, Threads>& region, Ranked (&at)[2],
                                          uint32_t* histograms, uint32_t* found) {
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  at[0].key = at[1].key = 0;
#pragma unroll 1
  for (int shift = Bits - 8; shift >= 0; shift -= 8) {
    const bool same = at[0].key == at[1].key;
    for (int i = tid; i < 2 * kCopies * kHistogramPitch; i += Threads) histograms[i] = 0;
    __syncthreads();
    uint32_t* const own = histograms + lane % kCopies * kHistogramPitch;
    region.template each<4>([&](int i, int, int, uint32_t key) {
      if (i >= region.count) return;
      const uint32_t digit = key >> shift & 0xff, above = key >> shift >> 8;
      if (above == at[0].key) atomicAdd(own + digit, 1);
      if (!same && above == at[1].key) atomicAdd(own + kCopies * kHistogramPitch + digit, 1);
    });
    __syncthreads();
    if (warp < 2) {
      // A lane takes eight neighbouring bins.
      const uint32_t* const h =
          histograms + (same ? 0 : warp) * kCopies * kHistogramPitch + 8 * lane;
      uint32_t bin[8], total = 0;
#pragma unroll
      for (int i = 0; i < 8; i++) {
        bin[i] = 0;
        for (int c = 0; c < kCopies; c++) bin[i] += h[c * kHistogramPitch + i];
        total += bin[i];
      }
      const uint32_t rest = uint32_t(warp ? at[1].rest : at[0].rest);
      uint32_t before = sum_up_to_lane(total) - total;
#pragma unroll
      for (int i = 0; i < 8; i++) {
        if (rest >= before && rest < before + bin[i]) {
          found[2 * warp] = uint32_t(8 * lane + i);
          found[2 * warp + 1] = rest - before;
        }
        before += bin[i];
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
      at[i].key = at[i].key << 8 | found[2 * i];
      at[i].rest = int(found[2 * i + 1]);
    }
  }
}

// Returns the next number of a counter in shared memory for each lane of a warp that wants one.
__device__ __forceinline__ int take_number(bool wanted, int* counter) {
  const uint32_t lanes = __ballot_sync(~0u, wanted);
  if (!lanes) return 0;
  const int lane = threadIdx.x % 32, leader = __ffs(lanes) - 1;
  int first = 0;
  if (lane == leader) first = atomicAdd(counter, __popc(lanes));
  first = __shfl_sync(~0u, first, leader);
  return first + __popc(lanes & ((1u << lane) - 1));
}

template <int Bits, int Threads, bool Chunks>
__global__ void __launch_bounds__(Threads, Chunks ? 2 : 1024 / Threads)
    tile_sort_kernel(TileSortArgs a) {
  constexpr int kWarps = Threads / 32, kRows = kTile / kWarps;
  VF_DYNAMIC_SHARED(16, uint4, memory);
  VF_SHARED(Range[kWarps], ranges);
  VF_SHARED(uint32_t[kWarps], sums);
  VF_SHARED(uint32_t[4], found);
  VF_SHARED(int[3], numbers);
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int list_bytes = a.capacity * List<Bits>::kBytes;
  auto* const bytes = reinterpret_cast<uint8_t*>(memory);
  List<Bits> list(bytes, a.capacity), other(bytes + list_bytes, a.capacity);
  // Holds counters of the sort, histograms, or words of windows.
  auto* const work = reinterpret_cast<uint32_t*>(bytes + 2 * list_bytes);

  int number = 0, tile = blockIdx.x;
  while (tile >= a.tiles[number]) tile -= a.tiles[number++];
  const Rect rect = a.rect[number];
  const int tile_x = rect.x0 + tile % a.across[number] * kTile;
  const int tile_y = rect.y0 + tile / a.across[number] * kTile;
  const int columns = min(kTile, rect.x1 - tile_x), rows = min(kTile, rect.y1 - tile_y);
  const int channel = a.channels >> (8 * blockIdx.y) & 0xff;
  const bool shrink = a.border == Border::shrink;

  Region<Bits, Threads> region;
  region.src = a.src + channel * (Bits / 8);
  region.pitch = a.src_stride;
  region.width = a.width, region.height = a.height, region.step = a.step;
  region.size_x = a.size_x, region.size_y = a.size_y;
  region.border = a.border, region.outside = a.outside[blockIdx.y];
  region.left = tile_x - a.size_x / 2, region.top = tile_y - a.size_y / 2;
  int right = region.left + columns + a.size_x - 1, bottom = region.top + rows + a.size_y - 1;
  region.inside =
      shrink || (region.left >= 0 && region.top >= 0 && right <= a.width && bottom <= a.height);
  region.first_x = region.first_y = 0;
  if (shrink) {
    region.first_x = max(0, -region.left), region.first_y = max(0, -region.top);
    region.left += region.first_x, region.top += region.first_y;
    right = min(right, a.width), bottom = min(bottom, a.height);
  }
  region.across = right - region.left;
  region.count = region.across * (bottom - region.top);

  // This thread's medians are in column `lane` of the tile, in kRows rows.
  enum Wanted : int { kAnywhere, kBelow, kAbove, kDone };
  const int first_row = warp * kRows;
  Wanted wanted[kRows];
  const auto first_wanted = [&](int r) {
    return tile_x + lane < rect.x1 && tile_y + first_row + r < rect.y1 ? kAnywhere : kDone;
  };
#pragma unroll
  for (int r = 0; r < kRows; r++) wanted[r] = first_wanted(r);
  const auto rank_of = [&](int r) {
    if (!shrink) return a.size_x * a.size_y / 2;
    const int x = tile_x + lane, y = tile_y + first_row + r;
    const int w = min(x + a.size_x / 2, a.width - 1) - max(x - a.size_x / 2, 0) + 1;
    const int h = min(y + a.size_y / 2, a.height - 1) - max(y - a.size_y / 2, 0) + 1;
    return w * h / 2;
  };

  // Ranks: the current chunk is [begin, end), and finished chunks are [done_begin, done_end).
  int done_begin = 0, done_end = 0;
  int begin = 0, end = region.count, middle = (end / 2) & ~31;
  if constexpr (Chunks) {
    if (a.capacity < region.count) {
      begin = (region.count - a.capacity) / 2;
      end = begin + a.capacity;
      middle = (a.capacity / 2) & ~31;
    }
    done_begin = begin, done_end = end;
  }
  Wanted now = kAnywhere;
  while (true) {
    const int n = end - begin;
    // 1. Collect the chunk's pixels, and count the pixels of each class below the middle.
    Range range = Range::none();
    uint32_t* grid = nullptr;
    int centre = 0;  // this thread's pixels that lie in all windows
    const auto count_place = [&](int place) {
      if (place == kCentre) {
        centre++;
      } else {
        atomicAdd(grid + place, 1);
      }
    };
    if constexpr (!Chunks) {
      constexpr int kLoads = Threads > 512 ? 2 : 4;  // many threads leave few registers
      region.template each<kLoads>([&](int i, int x, int y, uint32_t key) {
        if (i >= region.count) return;
        range.add(key);
        list.put(i, List<Bits>::item(key, region.place(x, y)));
      });
    } else {
      grid = work + max(kCounterRows * Threads, 2 * kCopies * kHistogramPitch);
      Ranked at[2] = {{0, begin}, {0, end - 1}};
      pixels_at(region, at, work, found);
      for (int i = tid; i < kGridWords; i += Threads) grid[i] = 0;
      if (tid < 3) numbers[tid] = 0;
      __syncthreads();
      const Ranked first = at[0], last = at[1];
      region.template each<2>([&](int i, int x, int y, uint32_t key) {
        const bool there = i < region.count;
        const bool on_first = there && key == first.key, on_last = there && key == last.key;
        // Equal keys on a boundary are below it as long as there is room.
        const int number_first = take_number(on_first, &numbers[0]);
        const int number_last = take_number(on_last && !on_first, &numbers[1]);
        bool below = there && key < first.key, in = there && key > first.key && key < last.key;
        if (on_first) {
          below = number_first < first.rest;
          in = !below && (!on_last || number_first < first.rest + n);
        } else if (on_last) {
          in = number_last <= last.rest;
        }
        const int slot = take_number(in, &numbers[2]);
        if (below) count_place(int(region.place(x, y)));
        if (in) {
          range.add(key);
          list.put(slot, List<Bits>::item(key, region.place(x, y)));
        }
      });
    }
    range = over_block<Threads>(range, ranges);  // passes a barrier
    sort<Bits, Threads>(list, other, n, range, work, sums);
    if constexpr (!Chunks) {
      grid = reinterpret_cast<uint32_t*>(other.words);
      for (int i = tid; i < kPlacePitch * (min(a.size_y, kTile) + kTile - 1); i += Threads)
        grid[i] = 0;
      __syncthreads();
    }
    for (int i = tid; i < middle; i += Threads) count_place(list.place(i));
    centre = sum_of_lanes(centre);
    if (lane == 0 && centre) atomicAdd(grid + kCentre, centre);
    __syncthreads();

    // 2. Count the pixels of each window below the middle: sum over columns, then over rows.
    const int box_x = min(a.size_x, kTile), box_y = min(a.size_y, kTile);
    for (int y = warp; y < box_y + kTile - 1; y += kWarps) {
      uint32_t* const row = grid + y * kPlacePitch;
      const uint32_t v = row[lane];
      const uint32_t low = sum_up_to_lane(v), high = sum_up_to_lane(row[lane + 32]);
      const int last = lane + box_x - 1;
      const uint32_t in_low = __shfl_sync(~0u, low, last % 32),
                     in_high = __shfl_sync(~0u, high, last % 32);
      const uint32_t all_low = __shfl_sync(~0u, low, 31);
      row[lane] = (last < 32 ? in_low : all_low + in_high) - (low - v);
    }
    __syncthreads();
    // `left` is the number of the window's pixels still to pass, up or down from the middle. The
    // others say where the search ended.
    int left[kRows], word_at[kRows];
    uint32_t word[kRows];
    bool up[kRows];
    uint32_t below = 0;
    const uint32_t* const column = grid + first_row * kPlacePitch + lane;
    for (int y = 0; y < box_y; y++) below += column[y * kPlacePitch];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      if (r) below += column[(box_y + r - 1) * kPlacePitch] - column[(r - 1) * kPlacePitch];
      const int ahead = rank_of(r) - int(below);
      up[r] = ahead >= 0;
      left[r] = up[r] ? ahead : -1 - ahead;
      word_at[r] = -1;
      if (!Chunks && kRows > 1) wanted[r] = first_wanted(r);  // again: registers are scarce
      word[r] = 0;
    }

    // 3. Search for the medians.
    const int words = (n + 31) / 32;
#pragma unroll 1
    for (int first_up = middle / 32, first_down = first_up - 1;;
         first_up += kStep, first_down -= kStep) {
      for (int slot = warp; slot < 2 * kStep; slot += kWarps) {
        const int at = slot < kStep ? first_up + slot : first_down - (slot - kStep);
        const int i = 32 * at + lane;
        uint32_t x = 0, y = 0;
        if (at >= 0 && i < n) {
          const int place = list.place(i);
          x = windows_of(place % kPlacePitch, a.size_x);
          y = windows_of(place / kPlacePitch, a.size_y);
        }
        work[64 * slot + lane] = transpose_bits(x);
        work[64 * slot + 32 + lane] = transpose_bits(y);
      }
      __syncthreads();
      bool more = false;
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        if (wanted[r] != now || word_at[r] >= 0) continue;
        const uint32_t* const from = work + (up[r] ? 0 : 64 * kStep);
#pragma unroll 4
        for (int s = 0; s < kStep; s++) {
          const uint32_t in = from[64 * s + lane] & from[64 * s + 32 + first_row + r];
          const int ones = __popc(in);
          if (left[r] < ones) {
            word_at[r] = up[r] ? first_up + s : first_down - s;
            word[r] = in;
            if (!up[r]) left[r] = ones - 1 - left[r];
            break;
          }
          left[r] -= ones;
        }
        if (word_at[r] < 0) more |= up[r] ? first_up + kStep < words : first_down >= kStep;
      }
      if (!__syncthreads_or(more)) break;
    }
#pragma unroll
    for (int r = 0; r < kRows; r++) {
      if (wanted[r] != now) continue;
      int at = 0;
      if (!Chunks || word_at[r] >= 0) {
        at = 32 * word_at[r] + nth_one(word[r], left[r]);
      } else {
        const Wanted next = up[r] ? kAbove : kBelow;
        if (now == kAnywhere || next == now) {
          wanted[r] = next;
          continue;
        }
        // The previous chunk said that the median is in this one: it is the key on their boundary.
        at = now == kBelow ? n - 1 : 0;
      }
      wanted[r] = kDone;
      put_key<Bits>(a.dst + (tile_y + first_row + r) * a.dst_stride,
                    (tile_x + lane) * a.step + channel, list.key(at));
    }
    if constexpr (!Chunks) {
      break;
    } else {
      // 4. Go on with the chunks below while they have medians, then with those above.
      bool any_below = false, any_above = false;
#pragma unroll
      for (int r = 0; r < kRows; r++) {
        any_below |= wanted[r] == kBelow;
        any_above |= wanted[r] == kAbove;
      }
      if (__syncthreads_or(any_below)) {
        now = kBelow;
        end = done_begin;
        begin = done_begin = max(0, end - a.capacity);
        middle = (end - begin) & ~31;
      } else if (__syncthreads_or(any_above)) {
        now = kAbove;
        begin = done_end;
        end = done_end = min(region.count, begin + a.capacity);
        middle = 0;
      } else {
        break;
      }
    }
  }
}

// Sizes of the chunks of a tile.
constexpr int kChunkThreads = 256, kMaxChunk = 8192;

int item_bytes(Type type) {
  return type == Type::f32 ? List<32>::kBytes : List<16>::kBytes;
}

struct Blocks {
  int threads = 0;
  int capacity = 0;     // pixels in a list
  bool chunks = false;  // a tile is too large for one list
  size_t shared = 0;    // bytes
};

Blocks blocks_for(const Plane& p, const Device& device, int wanted_capacity) {
  constexpr size_t reserved = 1024;
  const size_t maximum = size_t(device.shared_per_block) - reserved;
  const size_t half = size_t(device.shared_per_processor) / 2 - reserved;  // for two blocks
  const int box_y = std::min(p.size_y, kTile) + kTile - 1;
  const int count =
      (std::min(p.width, kTile) + p.size_x - 1) * (std::min(p.height, kTile) + p.size_y - 1);
  const auto work = [](int threads) { return size_t(kCounterRows) * threads * sizeof(uint32_t); };
  Blocks s;
  s.capacity = round_up(std::max(count, kPlacePitch * box_y), 8);
  const size_t lists = 2 * size_t(s.capacity) * item_bytes(p.type);
  s.threads = s.capacity <= 4096          ? 128
              : s.capacity <= 8192        ? 256
              : lists + work(512) <= half ? 512
                                          : 1024;
  s.shared = lists + work(s.threads);
  if (s.shared <= maximum && s.capacity < 65536 && !wanted_capacity) return s;
  s.chunks = true;
  s.threads = kChunkThreads;
  const size_t rest = std::max(work(s.threads), 2 * kCopies * kHistogramPitch * sizeof(uint32_t)) +
                      kGridWords * sizeof(uint32_t);
  const size_t limit = std::max(half, std::min(maximum, 2 * rest));
  s.capacity = std::min(kMaxChunk, int((limit - rest) / (2 * item_bytes(p.type)) / 32 * 32));
  if (wanted_capacity) s.capacity = wanted_capacity;
  s.shared = 2 * size_t(s.capacity) * item_bytes(p.type) + rest;
  return s;
}

using TileSortKernel = void (*)(TileSortArgs);

template <int Bits>
TileSortKernel kernel_of(const Blocks& s) {
  return s.chunks           ? tile_sort_kernel<Bits, kChunkThreads, true>
         : s.threads == 128 ? tile_sort_kernel<Bits, 128, false>
         : s.threads == 256 ? tile_sort_kernel<Bits, 256, false>
         : s.threads == 512 ? tile_sort_kernel<Bits, 512, false>
                            : tile_sort_kernel<Bits, 1024, false>;
}

class TileSortPass final : public PlanePass {
 public:
  TileSortPass(const Plane& plane, const std::vector<Rect>& rects, const Blocks& blocks)
      : kernel_(plane.type == Type::u8    ? kernel_of<8>(blocks)
                : plane.type == Type::u16 ? kernel_of<16>(blocks)
                                          : kernel_of<32>(blocks)),
        threads_(unsigned(blocks.threads)),
        shared_(blocks.shared) {
    args_.width = plane.width;
    args_.height = plane.height;
    args_.step = plane.step;
    args_.size_x = plane.size_x;
    args_.size_y = plane.size_y;
    args_.border = plane.border;
    args_.channels = channel_args(plane).index;
    for (int i = 0; i < plane.count; i++) {
      const uint32_t value = plane.border_value[plane.index[i]];
      args_.outside[i] = plane.type == Type::f32 ? float_key(value) : value;
    }
    args_.capacity = blocks.capacity;
    unsigned tiles = 0;
    for (size_t i = 0; i < rects.size(); i++) {
      const Rect& r = rects[i];
      if (r.empty()) continue;
      args_.rect[i] = r;
      args_.across[i] = blocks_of(r.x1 - r.x0, kTile);
      args_.tiles[i] = args_.across[i] * blocks_of(r.y1 - r.y0, kTile);
      tiles += unsigned(args_.tiles[i]);
    }
    grid_ = dim3(tiles, plane.count);
  }

  Status prepare() const { return allow_shared(kernel_, shared_); }

  bool copies_channels() const override { return false; }

  Status enqueue(CudaQueue& queue, const PlaneView& view, bool) override {
    if (!grid_.x) return {};
    return launch("median tile sort", kernel_, {grid_, threads_, shared_}, queue,
                  with_view(args_, view));
  }

 private:
  TileSortKernel kernel_;
  TileSortArgs args_ = {};
  dim3 grid_;
  unsigned threads_;
  size_t shared_;
};

}  // namespace

Status make_tile_sort(CudaQueue& queue, const Plane& plane, const std::vector<Rect>& rects,
                      std::unique_ptr<PlanePass>* out) {
  const int capacity = queue.kernel_limits().median_tile_sort_capacity;
  auto pass =
      std::make_unique<TileSortPass>(plane, rects, blocks_for(plane, queue.device(), capacity));
  VF_TRY(pass->prepare());
  *out = std::move(pass);
  return {};
}

}  // namespace vf::cuda::median
