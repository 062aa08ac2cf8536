// The parts of the CUDA median, each a way to make the medians of one plane. cuda/median.cu chooses
// between them; sizes, crossovers and their measurements are there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "filters/border.h"
#include "filters/image.h"
#include "filters/status.h"

namespace vf::cuda {

struct Device;

}  // namespace vf::cuda

namespace vf::cuda::median {

// One plane of one frame.
struct Frame {
  const void* src;
  void* dst;
  ptrdiff_t src_pitch, dst_pitch;  // bytes
};

// Everything about a plane that does not change from frame to frame.
struct Plane {
  Type type;
  int width, height;  // pixels
  int step;           // components from one pixel to the next
  int size_x, size_y;
  Border border;
  uint32_t border_value[kMaxChannels];
};

// Channels of a plane that are filtered: `count` of them, numbered in `index`.
struct Channels {
  int count;
  uint8_t index[kMaxChannels];
  uint8_t mask;  // the same as bits
};

struct Rect {
  int x0, y0, x1, y1;
  bool empty() const { return x0 >= x1 || y0 >= y1; }
};

// --- median_edges.cu
// ------------------------------------------------------------------------------

// Copies the channels of `mask` from src to dst.
Status copy_channels(const Plane& plane, uint8_t mask, const Frame& frame, cudaStream_t stream);

// Integers, square windows and Border::shrink: only the pixels nearer to the edge than the radius.
// src must not be dst. Meant for small windows.
Status select_edges(const Plane& plane, const Channels& channels, const Frame& frame,
                    cudaStream_t stream);

// --- median_ranks.cu: any type, window, border and frame size ------------------------------------

// The blocks of a plane on a device.
struct Ranks {
  int threads = 0;
  int capacity = 0;     // pixels of a list
  bool chunks = false;  // a tile is too large for one list
  size_t shared = 0;    // bytes
};
// Chooses the blocks and lets the kernel have their memory; once for a plane.
Status prepare_ranks(const Plane& plane, const Device& device, Ranks* out);

// Writes the medians of the channels inside `rects` (up to 4; empty ones are passed over). src must
// not be dst.
Status ranks(const Ranks& blocks, const Plane& plane, const Channels& channels, const Frame& frame,
             const Rect* rects, int count, cudaStream_t stream);

// Set by tests, to reach every part of it by small frames.
struct WaysForTests {
  bool ranks_only = false;  // every plan made is by ranks
  int rank_capacity = 0;    // not 0: cut into chunks of this many pixels, whatever fits
};
extern WaysForTests ways_for_tests;

// --- median_network.cuh, one object a window: square windows, border not shrink ------------------

// rgba8: all four channels of 8-bit pixels, step 4.
enum class Format : int { u8, u16, f32, rgba8 };

using Network = Status (*)(const Plane&, const Channels&, const Frame&, cudaStream_t);
// Null where no network of that size was compiled.
Network find_network(Format format, int size);

// --- median_direct.cu: 3 x 3 of gray and rgba8 u8, border replicate or reflect-101
// ----------------

bool can_direct3(Format format, const Plane& plane, const Frame& frame);
Status direct3(Format format, const Plane& plane, const Channels& channels, const Frame& frame,
               cudaStream_t stream);

// --- median_bits.cuh: square windows of u8 from 17, border not shrink
// -----------------------------

struct Bits;
using RunBits = Status (*)(const Bits&, const Plane&, const Channels&, const Frame&, void* scratch,
                           int processors, cudaStream_t);
struct Bits {
  RunBits run;
  int columns;     // of the frame in a segment
  int words;       // of a segment's row, one for each bit of a byte
  size_t scratch;  // bytes, for one channel
};
// One source file each, so that they compile side by side; null for other sizes.
RunBits bits_to_31(int size);
RunBits bits_to_47(int size);
RunBits bits_to_63(int size);
RunBits bits_to_97(int size);
RunBits bits_to_127(int size);
RunBits bits_to_255(int size);

// Words of a segment: 16 to 18, so that a 1080p frame has four segments at every window to 97.
constexpr int bits_words(int size) {
  return size <= 31 ? 16 : size <= 63 ? 17 : size <= 127 ? 18 : 16;
}

// False where there is no kernel for the plane. run() wants scratch for channels.count channels,
// and reads all of the source before it writes any of the destination.
bool find_bits(const Plane& plane, Bits* out);

// Channels as kernel arguments, found by blockIdx.z without an array: byte z is the number of the
// channel, 16-bit word z its border value (for pixels of 8 or 16 bits).
struct ChannelArgs {
  uint32_t index;
  uint64_t border_value;
};
inline ChannelArgs channel_args(const Plane& plane, const Channels& channels) {
  ChannelArgs a{};
  for (int i = 0; i < channels.count; i++) {
    a.index |= uint32_t(channels.index[i]) << (8 * i);
    a.border_value |= uint64_t(plane.border_value[channels.index[i]]) << (16 * i);
  }
  return a;
}

}  // namespace vf::cuda::median
