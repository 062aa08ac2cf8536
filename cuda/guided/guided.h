// The arguments of the guided matte's kernels: a small struct for each step. For each frame, a plan
// sets only the pointers in GuidedSource, GuidedDestination and GuidedPacked.
//
// The guided filter works on samples of the frame. For each window of samples it finds (a, b), with
// which the matte of a pixel is a . colours + b. Colours are taken relative to `midpoint`.
#pragma once

#include <cstdint>

#include "cuda/core/launch.h"
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

// Pixels of u8 that are words: 4 channels in one plane. `order` is a selector of __byte_perm, which
// brings the source's bytes to r g b p, and r g b p to the destination's bytes.
struct GuidedWords {
  uint8_t* data = nullptr;  // null where components must be read or written one by one
  int pitch = 0;            // bytes
  uint32_t order = 0x3210;
};

// Names the pixels of a u8 frame with a plane of luma and one of both chroma components of half the
// size (NV12). Rows begin at multiples of 4 bytes, and the frame has whole groups of 4 x 2 pixels.
struct GuidedPlanes {
  uint8_t *luma = nullptr, *chroma = nullptr;  // null where components are read or written alone
  int luma_pitch = 0, chroma_pitch = 0;        // bytes
  int first = 0;                               // the channel of the second colour; 1 for NV21
};

// How the kernels that see every pixel of the source read it.
enum class GuidedReads { components, quads, planes };  // quads: words aligned to 16 bytes

// The mask is made of the colours.
struct GuidedKey {
  int used = 0;
  float chroma[2][4] = {};  // (Cb, Cr) relative to the key's, from values in memory
  float tolerance = 0, slope = 0;
};

struct GuidedSource {
  GuidedView color[3], alpha;
  int colors = 3;
  GuidedWords words;
  GuidedPlanes planes;
  int width = 0, height = 0;
  // The value in memory that stands for 1, which is codes * unit. Integers are multiples of unit.
  float full = 255, codes = 255, unit = 1;
  GuidedKey key;
};

struct GuidedDestination {
  GuidedView color[3], alpha;  // an opaque frame has no alpha
  int colors = 3;
  GuidedWords words;
  GuidedPlanes planes;
  int colours_stay = 0;  // the colours are in place already, and only alpha is written
};

// Frames of words where only the matte's byte changes.
struct GuidedPacked {
  GuidedWords in, out;
  int width = 0, height = 0;
  float full = 255;
  uint32_t code[3] = {0x7650, 0x7651, 0x7652};  // selects a colour as the mantissa of 2^23
  uint32_t merge = 0x4210;                      // puts the new alpha into the word
};

// With refine=colors: the weight of the mask's side against a sample's (a, b), that side, and how
// sure the sample is of the background's side and of the subject's. All are in 64ths.
struct alignas(4) GuidedSide {
  uint8_t outside, side, sure[2];
};

// The samples of the guided filter, one for each subsample x subsample pixels.
struct GuidedGrid {
  int width = 0, height = 0, subsample = 1;
};

// The external mask has places and bytes for its parts.
struct ExternalMask {
  const MaskPlace* places = nullptr;
  const uint8_t* bytes = nullptr;
  int count = 0;
};

// Holds the mask at the samples, as a component per sample or, for u8, as a word of the guide and the
// mask.
struct GuidedMaskSamples {
  void* data = nullptr;
  int pitch = 0;  // samples
};

// The statistics leave (a, b) of each sample here, summed up down strips of `strip` rows.
struct GuidedSums {
  float4* data = nullptr;
  int strip = 1;
};

struct GuidedStatistics {
  GuidedGrid grid;
  int radius = 1;
  float epsilon = 0;  // in squares of values in memory
  float midpoint = 128;
  uint32_t pairs_low = 0x5140, pairs_high = 0x7362;  // select r g, then b p, of two words
  int tile = 0, halo = 0;                            // columns; of guided_statistics_streaming
  GuidedMaskSamples mask;                            // replaces the frame's, except for u8
  void* scratch = nullptr;                           // for guided_statistics_wide
  GuidedSums sums;
};

// With refine=colors: X of each sample. 2^14 and its negative are outside of the band.
struct GuidedPrior {
  const int16_t* data = nullptr;
  int pitch = 0;  // samples, a multiple of 8
};

// The second means: those of (a, b) over the windows, times inv_scale.
struct GuidedMeans {
  GuidedGrid grid;
  int radius = 1;
  int tile = 0, rows = 0;  // size of a block if windows are too wide for a tile
  float inv_scale = 1 / 255.f;
  // With refine=colors: what a sample takes from its side, and the guide's words.
  const GuidedSide* sides = nullptr;
  const uint32_t* guide = nullptr;
  int guide_pitch = 0;  // samples
  GuidedPrior prior;
  float guide_unit = 1;  // (a, b) are for code values of 8 bits, and the frame's count this much
  float4* mean = nullptr;
};

// Blends the means with those of the previous frames.
struct GuidedSteady {
  GuidedGrid grid;
  int fresh = 1;  // there are no previous frames
  float temporal = 0;
  float moved = 0, inv_motion_range = 0;  // in values in memory; 1 / (moved - still)
  float4 *previous_ab = nullptr, *previous_guide = nullptr;
  float4* mean = nullptr;
};

// The means that the result interpolates.
struct GuidedCoefficients {
  GuidedGrid grid;
  const float4* mean = nullptr;
};

// The colours of foreground=estimate and background=blur, as halves of 8-bit code values. `found`
// has the subject's and the background's colours for each 4 x 4 pixels, `blurred` the colours of
// each cell of the blur. They are null where they are not wanted.
struct GuidedLayerColors {
  const uint4* found = nullptr;
  const uint2* blurred = nullptr;
  int width = 0, height = 0;
  int blurred_width = 0, blurred_height = 0, blurred_step = 4;  // step: pixels
  float unit = 1;  // a code value of 8 bits in values in memory
  int doubts = 0;  // see GuidedLayers
  float doubt = 0;
};

// This describes the colours and alpha of the result. Values are those in memory.
struct GuidedResult {
  int output = 0;  // a MatteOutput
  int opaque = 0;  // alpha is `full` everywhere: MatteOutput::matte with colours
  float midpoint = 128, full = 255, unit = 1;
  float chroma[2][4] = {};  // (Cb, Cr)
  int despill = 0;
  float hue[2] = {}, spill[3] = {};  // spill: times despill
  float black[3] = {}, white[3] = {}, background[3] = {}, background_alpha = 1;
  int converts = 0;
  float convert[3][4] = {};
  GuidedLayerColors layers;
};

// A kernel and its launch, chosen when the plan is made.
template <class... Arguments>
struct GuidedPass {
  void (*kernel)(Arguments...) = nullptr;
  Launch shape;

  Status enqueue(CudaQueue& queue, const std::decay_t<Arguments>&... arguments) const {
    return launch("guided matte", kernel, shape, queue, arguments...);
  }
};

using GuidedMaskKernel = void (*)(GuidedSource, GuidedGrid, ExternalMask, GuidedMaskSamples);
using GuidedStatisticsKernel = void (*)(GuidedSource, GuidedStatistics);
using GuidedMeansKernel = void (*)(GuidedSums, GuidedMeans, GuidedPacked);
using GuidedSteadyKernel = void (*)(GuidedSource, GuidedSteady);
using GuidedPackedKernel = void (*)(GuidedPacked, GuidedCoefficients);
using GuidedColoursKernel = void (*)(GuidedPacked, GuidedCoefficients, GuidedResult);
using GuidedPixelsKernel = void (*)(GuidedSource, GuidedDestination, GuidedCoefficients,
                                    GuidedResult);

constexpr int kStatisticsWarps = 8;   // warps per block of guided_statistics_tile
constexpr int kStatisticsTile = 128;  // its columns, halo included
constexpr int kWideThreads = 512;
constexpr int kGuidedRowsPerThread = 4;  // for guided_apply_pixels, cell 1

// The statistics kernels. With `direct`, they read words straight from the source.
GuidedStatisticsKernel guided_statistics_tile(bool direct, int rows_per_warp, int blocks);
// Takes 4 warps if not `direct`.
GuidedStatisticsKernel guided_statistics_streaming(bool direct, int warps);
GuidedStatisticsKernel guided_statistics_wide(Type type);
// Makes samples of an external mask or, for u8, of the chroma key, by blocks of 32 x 8.
GuidedMaskKernel guided_mask(Type type, bool external);
// Makes the second means, in tiles of 32 * columns_per_lane columns. 0 columns stand for streaming,
// with up to 1024 threads. With `last`, the kernel writes the result instead of the means.
GuidedMeansKernel guided_means(int columns_per_lane, bool last);
// Makes the second means and the result, by blocks of 128 x 32 pixels in 256 threads. It is for
// refine=colors with (a, b) of guided_colors_statistics.cu in strips of one row.
GuidedMeansKernel guided_means_apply();
GuidedSteadyKernel guided_steady(Type type);
// Writes the result by 4 x 2 pixels. `pairs`: the subsample is a multiple of 8, and not 4.
GuidedPackedKernel guided_apply_cells(bool pairs);
// Writes the result by 4 x 4 pixels, from subsample 3 on. `aligned`: the words are, to 16 bytes.
GuidedPackedKernel guided_apply_quads(bool aligned);
// Writes the result pixel by pixel, with everything allowed. `cell` is the side of the square of
// pixels that must be done together: 1, 2 or 8.
GuidedPixelsKernel guided_apply_pixels(Type type, int cell, bool packed);
// Writes the result of a source of planes at subsample 4, by 4 x 2 pixels. With `words`, the frame
// is of words. Otherwise it is of planes, and has a composite over a colour or, with `blurs`, over
// the blurred frame. A `plain` kernel removes no spill and estimates nothing; words have
// MatteOutput::alpha.
GuidedPixelsKernel guided_apply_planes(bool words, bool blurs, bool plain);
// Writes a result whose colours change, by 4 x 2 pixels of words aligned to 16 bytes: every output
// but the matte. A `plain` kernel removes no spill and writes over an opaque background.
GuidedColoursKernel guided_apply_colours(bool pairs, bool plain);

}  // namespace vf::cuda
