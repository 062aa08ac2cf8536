// What the kernels of the guided matte share: their one argument, and the kernels by name.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "filters/guided_mask.h"

namespace vf::cuda {

constexpr int kGuidedMoments = 13;  // sums of r g b p, rr rg rb gg gb bb, rp gp bp

// A component in memory.
struct GuidedView {
  uint8_t* data = nullptr;
  long long stride = 0;  // bytes
  int step = 1;          // components from pixel to pixel
  int sub_x = 0, sub_y = 0;
};

// "Codes" are values as they are in memory; guides are seen about `midpoint`.
struct Guided {
  GuidedView color[3], alpha;        // of the source
  GuidedView to_color[3], to_alpha;  // of the destination; an opaque one has no alpha
  int colors = 3, to_colors = 3;
  int width = 0, height = 0, subsample = 1;
  int low_width = 0, low_height = 0, radius = 1;  // of samples and windows
  float full = 255, inv_scale = 1 / 255.f, midpoint = 128;
  float codes = 255, unit = 1;  // full = codes * unit; integers are multiples of unit

  // u8, 4 channels in one plane: pixels are words, and their bytes are picked by __byte_perm.
  const uint8_t* in = nullptr;  // null where the components must be read one by one
  uint8_t* out = nullptr;
  int in_pitch = 0, out_pitch = 0;
  uint32_t canonical = 0x3210;                       // to r g b p
  uint32_t pairs_low = 0x5140, pairs_high = 0x7362;  // r g, then b p, of two words side by side
  uint32_t code[3] = {0x7650, 0x7651, 0x7652};       // a colour as the mantissa of 2^23
  uint32_t merge = 0x4210;                           // the new alpha into the word
  uint32_t out_pack = 0x3210;                        // r g b p to the destination's order

  // Statistics: rows of a strip; columns of a tile and their halo, where those vary.
  int strip = 0, tile = 0, halo = 0;
  int means_tile = 0, means_rows = 0;
  float epsilon = 0;         // in codes squared
  float4* prefix = nullptr;  // (a, b) of each sample, summed up down its strip
  float4* mean = nullptr;    // their means over the windows, times inv_scale
  void* wide = nullptr;      // sums of guided_statistics_wide

  // The frames before: (a, b), and the guide's mean over 3 x 3 samples.
  float4 *before_ab = nullptr, *before_near = nullptr;
  int fresh = 1;
  float temporal = 0, moved = 0, inv_motion_range = 0;  // in codes; 1 / (moved - still)

  // Chroma key: (Cb, Cr) less the key's.
  int keyed = 0;
  float key_offset[2] = {};  // added to `chroma` without its own
  float key_tolerance = 0, key_slope = 0;

  // The mask beside the frame: its places and bytes, and, with refine=guided, what guided_mask
  // makes of it: a component per sample or, of 8 bits, a word of the guide and the mask.
  const MaskPlace* mask_places = nullptr;
  const uint8_t* mask_bytes = nullptr;
  int mask_count = 0;
  void* mask_samples = nullptr;
  int mask_pitch = 0;  // samples

  // The result.
  int output = 0;
  int colours_stay = 0;              // they are where they belong: only alpha is written
  float chroma[2][4] = {};           // (Cb, Cr) from codes
  float hue[2] = {}, spill[3] = {};  // spill: in codes, times despill
  int despill = 0;
  float black[3] = {}, white[3] = {}, background[3] = {}, background_alpha = 1;  // in codes
  int converts = 0;
  float convert[3][4] = {};  // in codes

  // refine=colors: of each sample, how much the mask's side counts and not (a, b), and that side,
  // both in 64ths. (a, b) are for code values of 8 bits: colours count guide_unit times as much.
  const uchar2* sides = nullptr;
  float guide_unit = 1;

  // The layers, as halves in code values of 8 bits, of which layer_unit makes codes. Of each sample
  // of 4 x 4 pixels the subject's colours and those behind it; of each cell of the blur its
  // colours. Null where they are not wanted.
  const uint4* layers = nullptr;
  const uint2* blurred = nullptr;
  int layers_width = 0, layers_height = 0;
  int blurred_width = 0, blurred_height = 0, blurred_step = 4;
  float layer_unit = 1;
};

// Has the statistics and means of `g` read samples that are words of r g b p, rows `pitch` words
// apart, instead of the frame.
inline void use_samples(const void* words, int pitch, Guided* g) {
  const Guided plain;  // its defaults are of r g b p in the order of the bytes
  g->in = static_cast<const uint8_t*>(words);
  g->in_pitch = 4 * pitch;
  g->width = g->low_width;
  g->height = g->low_height;
  g->subsample = 1;
  g->colors = plain.colors;
  g->canonical = plain.canonical;
  g->pairs_low = plain.pairs_low;
  g->pairs_high = plain.pairs_high;
  g->keyed = 0;
}

using GuidedKernel = void (*)(Guided);

struct GuidedLaunch {
  GuidedKernel kernel = nullptr;
  dim3 grid;
  int threads = 0;
  int shared = 0;  // bytes
};

constexpr int kStatisticsWarps = 8;   // of a block of guided_statistics_tile
constexpr int kStatisticsTile = 128;  // its columns, halo included
constexpr int kWideThreads = 512;
constexpr int kGuidedRowsPerThread = 4;  // of guided_apply_pixels, cell 1

// The statistics kernels. `direct`: words straight from the source.
GuidedKernel guided_statistics_tile(bool direct, int rows_per_warp, int blocks);
GuidedKernel guided_statistics_streaming(bool direct, int warps);  // not direct: 4 warps
GuidedKernel guided_statistics_wide(int component_size, bool is_float);
// The mask beside the frame at the samples, by blocks of 32 x 8 in 256 threads.
GuidedKernel guided_mask(int component_size, bool is_float);
// The second means: tiles of 32 * columns_per_lane columns; 0: streaming, up to 1024 threads.
// `last` also writes the result.
GuidedKernel guided_means(int columns_per_lane, bool last);
// The second means and the result, by blocks of 128 x 32 pixels in 256 threads: refine=colors with
// (a, b) of guided_colors_statistics.cu in strips of one row.
GuidedKernel guided_means_apply();
// Blends the means with those of the frames before, where the guide stands still.
GuidedKernel guided_steady(int component_size, bool is_float);
// The result: by 4 x 2 pixels (subsample 4, or a multiple of 8), by 4 x 4 (from 3), or pixel by
// pixel with everything allowed; cell: 1, 2 or 8 pixels either way that must be done together.
GuidedKernel guided_apply_cells(bool pairs);
GuidedKernel guided_apply_quads(bool aligned);
GuidedKernel guided_apply_pixels(int component_size, bool is_float, int cell, bool packed);

}  // namespace vf::cuda
