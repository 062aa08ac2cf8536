// The parts of the CUDA median, each a way to make the medians of one plane. cuda/median.cu chooses
// between them; sizes, crossovers and their measurements are there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "filters/image.h"
#include "filters/status.h"

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

// Copies the channels of `mask` from src to dst.
Status copy_channels(const Plane& plane, uint8_t mask, const Frame& frame, cudaStream_t stream);

// --- median_select.cu: any type, window, border and frame size -----------------------------------

// Bytes of scratch for one channel of the plane.
size_t select_scratch(const Plane& plane);
// Writes the medians of channel `channel` inside `rects` (up to 4; empty ones are passed over).
// Reads all of the channel before it writes any of it, so src may be dst. `max_shared` is the shared
// memory that a block can have, in bytes.
Status select(const Plane& plane, int channel, const Frame& frame, const Rect* rects, int count,
              void* scratch, size_t max_shared, cudaStream_t stream);

// Integers, square windows and Border::shrink: only the pixels nearer to the edge than the radius. src
// must not be dst. Meant for small windows.
Status select_edges(const Plane& plane, const Channels& channels, const Frame& frame,
                    cudaStream_t stream);

// --- median_network.cuh, one object a window: square windows, border not shrink ------------------

enum class Format : int { u8, u16, rgba8 };  // rgba8: all four channels of 8-bit pixels, step 4

using Network = Status (*)(const Plane&, const Channels&, const Frame&, cudaStream_t);
// Null where no network of that size was compiled.
Network find_network(Format format, int size);

// --- median_direct.cu: 3 x 3 of gray and rgba8 u8, border replicate or reflect-101 ----------------

bool can_direct3(Format format, const Plane& plane, const Frame& frame);
Status direct3(Format format, const Plane& plane, const Channels& channels, const Frame& frame,
               cudaStream_t stream);

// --- median_bits.cuh: square windows of u8 from 17, border not shrink -----------------------------

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
constexpr int bits_words(int size) { return size <= 31 ? 16 : size <= 63 ? 17 : size <= 127 ? 18 : 16; }

// False where there is no kernel for the plane. run() wants scratch for channels.count channels, and
// reads all of the source before it writes any of the destination.
bool find_bits(const Plane& plane, Bits* out);

// Channels as kernel arguments, found by blockIdx.z without an array: byte z is the number of the
// channel, 16-bit word z its border value. For pixels of 8 bits only or 16 bits only.
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
