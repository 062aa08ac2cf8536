// The letterbox's kernels as letterbox.cpp chooses among them: their arguments, and the kernels by
// name. Internal to the CUDA backend.
#pragma once

#include <cuda_runtime.h>

#include "filters/letterbox_task.h"

namespace vf::cuda::letterbox {

constexpr int kThreads = 256;
constexpr int kRowsPerLayer = 32768;  // of a grid, whose y is at most 65535

enum class Sampler { affine, edge, edge_fixed };  // bilinear; fixed point is cv2's

enum class Store { u8, u16, f32, f16, word };  // word: 4 x 8 bit at once

struct AxisArgs {
  float input_step, input_offset;  // from a destination plane to the destination
  float multiply, add;             // affine
  double origin, step;             // edge: (X + origin) * step - 0.5
  float begin, end;                // edge: positions in the destination that show the picture
  int first, count;                // the same in whole pixels
  int size;                        // of the source
  int chroma_size;
  float chroma_step, chroma_offset;
  int chroma_shift;
  float chroma_last;
  bool two_floats;  // two_float_position gives edge_position
  float step_high, step_low;
  float reach;
};

// Components are in the order of `from`: r, g, b (y, u, v), alpha; or, when packed pixels are
// copied, as they lie in memory. `to` and what belongs to it has the same order.
struct Args {
  AxisArgs x, y;
  const uint8_t* from[4];  // null: absent
  int from_stride[4], from_step[4];
  int shift;             // of source components
  unsigned needed;       // bit k: component k is used
  const uint8_t* pairs;  // interleaved chroma
  bool v_first;          // in a pair
  bool chroma;           // components 1 and 2 are subsampled
  int last_row;          // rows below it can be read by aligned words,
  int row_pairs;         // and so can each of these together with the next
  float source_fill[4];

  bool copies;
  float matrix[3][3], offset[3], alpha_scale, max_value;
  bool opaque[4];  // the component is max_value in the picture, whatever was read

  Store store;
  int width, height;
  uint8_t* to[4];  // null: not stored
  int to_stride[4], to_step[4];
  int to_shift;
  uint8_t* padding;  // a component that carries nothing
  int padding_stride, padding_step;
  unsigned word_order;  // selector of __byte_perm from components and 0xff
  float fill[4];
  float subtract[4], divide[4], reciprocal[4];
};

using Kernel = void (*)(Args);

inline bool is_aligned(const Image& image, int plane, int bytes) {
  return (reinterpret_cast<uintptr_t>(image.data[plane]) | uintptr_t(image.stride[plane])) %
             unsigned(bytes) ==
         0;
}

// letterbox_fallback.cu: every layout.
Kernel fallback_kernel(const LetterboxTask& task);

// letterbox_fast.cu: the kernel made for one layout from end to end.
struct FastLayout {
  // Null where there is none: for a tensor of dense planes, for pixels of a word, and for others.
  Kernel tensor = nullptr, word = nullptr, any = nullptr;
  int alignment = 1;  // bytes, of plane 0 of packed pixels, or of the plane of interleaved chroma
  enum class Chroma { packed, interleaved, planar } chroma = Chroma::packed;
  bool planar_tensor = false;  // `tensor` is right where the planes' strides are equal
};
// Finds it, and sets what concerns only that kernel in `args`, which has all but the image.
FastLayout fast_layout(const LetterboxTask& task, Args* args);
// The kernel of the layout for a frame, or null if the images' alignment or size do not allow it.
Kernel fast_kernel(const FastLayout& layout, const Image& src, const Image& dst, Args* args);

}  // namespace vf::cuda::letterbox
