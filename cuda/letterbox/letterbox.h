// Declares the letterbox's kernels and their arguments. letterbox.cpp chooses among them.
#pragma once

#include <cuda_runtime.h>

#include "cuda/core/plane_pass.h"
#include "filters/letterbox_task.h"

namespace vf::cuda::letterbox {

constexpr int kThreads = 256;
constexpr int kRowsPerLayer = 32768;  // a grid's y is at most 65535
constexpr int kMostImages = 32;       // a launch's arguments are at most 4 KiB
// Threads of a block and images of a thread, where a thread makes several images.
constexpr int kSharedThreads = 128, kTogether = 4;

enum class Sampler { affine, edge, edge_fixed };  // all bilinear; edge_fixed is cv2's fixed point

enum class Store { u8, u16, f32, f16, word };  // word: 4 x 8 bit at once

struct AxisArgs {
  float input_step, input_offset;  // from a destination plane to the destination
  float multiply, add;             // affine
  double origin, step;             // edge: (X + origin) * step - 0.5
  float begin, end;                // edge: limits of the picture in the destination
  int first, count;                // these limits in whole pixels
  int size;                        // size of the source
  int chroma_size;
  float chroma_step, chroma_offset;
  int chroma_shift;
  float chroma_last;
  bool two_floats;  // two_float_position equals edge_position
  float step_high, step_low;
  float reach;
};

// Components are in the order r, g, b (y, u, v), alpha. Packed pixels that need no conversion have
// them in the order of memory. `from`, `to` and all arrays have the same order.
struct Args {
  AxisArgs x, y;
  int from_stride[4], from_step[4];
  int shift;        // source components'
  unsigned needed;  // bit k: component k is used
  bool v_first;     // v is the first of a pair
  bool chroma;      // components 1 and 2 are subsampled
  int last_row;     // rows that can be read by aligned words
  int row_pairs;    // rows that can be read so together with the next
  float source_fill[4];

  bool copies;
  float matrix[3][3], offset[3], alpha_scale, max_value;
  bool opaque[4];  // the component is max_value in the picture

  Store store;
  int width, height;
  int to_stride[4], to_step[4];
  int to_shift;
  int padding_stride, padding_step;
  unsigned word_order;  // selector of __byte_perm from components and 0xff
  float fill[4];
  float subtract[4], divide[4], reciprocal[4];
};

// Where a source and its destination lie, in the order of Args.
struct Images {
  const uint8_t* from[4];  // null: absent
  const uint8_t* pairs;    // interleaved chroma
  uint8_t* to[4];          // null: not stored
  uint8_t* padding;        // a component without content
};

// The arguments of a launch that makes N destinations. Their strides are equal.
template <int N>
struct Launched {
  Args args;
  Images images[N];
  int count;  // number of images
};
static_assert(sizeof(Launched<kMostImages>) <= 4096);

// Names the kernels for one image and for many. `many` is null where there is no such kernel. If
// `together` is set, each thread of `many` makes up to kTogether images.
struct Kernel {
  void (*one)(Launched<1>) = nullptr;
  void (*many)(Launched<kMostImages>) = nullptr;
  bool together = false;
};

// Takes every layout (letterbox_fallback.cu).
Kernel fallback_kernel(const LetterboxTask& task);

// The kernels that are compiled for one layout (letterbox_fast.cu).
struct FastLayout {
  // These kernels are for a tensor of dense planes, for pixels of one word, and for all other
  // images. They are null for layouts that have no such kernel.
  Kernel tensor, word, any;
  int alignment = 1;  // in bytes, for packed pixels or interleaved chroma
  enum class Chroma { packed, interleaved, planar } chroma = Chroma::packed;
  bool planar_tensor = false;  // `tensor` needs planes of equal strides
};
// Finds the kernels of a layout, and sets the arguments that only they use. `args` has the others.
FastLayout fast_layout(const LetterboxTask& task, Args* args);
// Returns the layout's kernel for a frame, or null if the images' alignment or size allows none.
const Kernel* fast_kernel(const FastLayout& layout, const Image& src, const Image& dst, Args* args,
                          Images* images);

}  // namespace vf::cuda::letterbox
