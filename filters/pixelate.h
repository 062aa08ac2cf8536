// Replaces each block of pixels by its mean.
//
// The frame is divided into squares of block_size x block_size pixels, from its top left corner on.
// Blocks that the right or bottom edge cuts off become the mean of the pixels that they have. Each
// channel is averaged on its own.
//
// A sample of a plane with subsampled chroma belongs to the block of the pixel that it lies on:
// sample (x, y) to that of pixel (x << sub_x, y << sub_y) of the frame. So blocks cover the same
// area in every plane. Where the block size is odd, blocks of such planes alternate: of 5 pixels,
// a chroma row at half the size has 3 samples, then 2, then 3.
//
// Types are u8, u16 and f32, with 1 to 4 channels. All backends give the same bits:
//   u8, u16  The mean is rounded half up (to a multiple of 1 << shift). Sums have 64 bits.
//   f32      Sums are double. A block is cut into cells of kCellWidth x kCellHeight samples, from
//            its top left. In a cell each column is added up from top to bottom, then the columns
//            from left to right; cells are added row by row, from left to right. The sum is divided
//            by the number of samples, and rounded to float. A block with a NaN, or with infinities
//            of both signs, is a NaN whose sign and payload are not kept.
//
// src and dst may be the same image if the plan is made with Placement::in_place; that costs
// nothing. The fields of an interlaced frame are images of their own here, with half the rows.
#pragma once

#include <memory>

#include "filters/limits.h"
#include "filters/plan.h"

namespace vf {

struct PixelateParams {
  static constexpr int kMaxBlocks = 8;  // across the smaller side, with a block size of 0
  static constexpr int kCellWidth = 64, kCellHeight = 16;
  static constexpr Limits<int> kBlockSize{0, kMaxDimension};

  // Pixels of the frame. 1 changes nothing. 0 gives kMaxBlocks blocks across the smaller side of
  // the frame, or fewer if it is not a multiple of them.
  int block_size = 0;
  // Bit c of a plane: channel c is filtered. Other channels are copied.
  uint8_t channels[kMaxPlanes] = {0xf, 0xf, 0xf, 0xf};
};

// Tells whether `params` leave every pixel of every frame as it is.
bool is_identity(const PixelateParams& params);

// Returns the size of blocks in frames of `layout`: params.block_size, or the size that 0 stands
// for.
int block_size(const Layout& layout, const PixelateParams& params);

Status make_pixelate(Queue& queue, const Layout& layout, const PixelateParams& params,
                     Placement placement, std::unique_ptr<Plan>* out);

}  // namespace vf
