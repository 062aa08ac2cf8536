// Makes a network's input from a decoder's frame in one pass.
//
// The picture is resized with its aspect kept, padded with a colour, and converted to the
// destination's colours and depth. The destination is a frame (packed or planar, RGB, YUV or gray,
// 8 or 16 bit) or a tensor (float32, float16, uint8; NCHW is a planar layout, NHWC a packed one).
//
// Two rules say where the picture goes and how it is sampled:
//
//   ultralytics  LetterBox of Ultralytics: r = min(H / h, W / w). The picture becomes round(w r) x
//                round(h r) pixels (half to even). Both sides share the rest, and an odd pixel goes
//                to the right or bottom. 8-bit samples that need no colour conversion are
//                interpolated with the 11-bit weights of cv2's INTER_LINEAR and equal its result.
//                Others are at most 1 code value from a double-precision reference.
//   affine       The warp of TensorRT's YOLO examples: s = min(W / w, H / h) is not rounded, the
//                centres of picture and destination coincide, and neighbours outside the picture
//                have the fill colour. All arithmetic is float32 in one order, so that bilinear and
//                nearest results are the same on every backend, bit for bit.
//
// A destination sample is rounded to a code value x of the destination (of 8 bits for a tensor). A
// float tensor then holds y = (x * scale - mean) / std, computed in float32 as (x - mean / scale) /
// (std / scale). The default, x / 255, is correctly rounded.
//
// YUV sources are converted in the same pass, by the matrix and range of their ColorFormat. Chroma
// is interpolated at its own siting.
//
// Source and destination must not overlap: there is no in-place form. These plans need no memory.
#pragma once

#include <cfloat>
#include <memory>

#include "filters/color.h"
#include "filters/limits.h"
#include "filters/plan.h"

namespace vf {

enum class LetterboxRule : uint8_t { ultralytics, affine };
enum class LetterboxAlign : uint8_t { center, top_left };
enum class Interpolation : uint8_t {
  bilinear,
  // ultralytics reads floor(x / r), as cv2's INTER_NEAREST. affine reads the pixel whose centre is
  // nearest.
  nearest,
  // Takes the mean over the source rectangle that a destination pixel covers, which is at least one
  // pixel wide. This is exact coverage where the picture shrinks (cv2's INTER_AREA), and bilinear
  // where it grows.
  area,
};
const char* name_of(LetterboxRule r);
const char* name_of(LetterboxAlign a);
const char* name_of(Interpolation i);

struct LetterboxParams {
  static constexpr Limits<int> kStride{0, kMaxDimension};
  static constexpr Limits<double> kScale{-DBL_MAX, DBL_MAX, is_finite_and_not_zero,
                                         "finite and not 0"};
  static constexpr Limits<double> kMean{-DBL_MAX, DBL_MAX, is_finite, "finite"};
  static constexpr Limits<double> kStd = kScale;

  LetterboxRule rule = LetterboxRule::ultralytics;
  LetterboxAlign align = LetterboxAlign::center;
  Interpolation interpolation = Interpolation::bilinear;
  // True if a picture smaller than the destination grows, false if it is only padded.
  bool scale_up = true;
  // 0 pads to the whole target. With other values, up to kMaxDimension, the padding is only its
  // remainder modulo `stride` (LetterBox's auto), so the destination may be smaller than the
  // target.
  int stride = 0;
  // This is the pixel aspect ratio (width / height) of the source, divided by that of the
  // destination.
  double pixel_aspect = 1;
  // The padding has this colour: 0xAARRGGBB, RGB of full range.
  uint32_t fill = 0xff727272;
  // Normalisation of float tensors as above, for red, green, blue (or y, u, v). std must not be 0.
  double scale = 1.0 / 255;
  double mean[3] = {0, 0, 0};
  double std[3] = {1, 1, 1};
};

// Says where the picture lies in the destination. Coordinates are continuous: pixel i spans i to i
// + 1.
struct LetterboxGeometry {
  LetterboxRule rule = LetterboxRule::ultralytics;
  int source_width = 0, source_height = 0;
  int width = 0, height = 0;  // the destination's
  // The rule's factor (r or s) counts destination pixels per source pixel, vertically. Compute with
  // the picture's size instead, because `ultralytics` rounds it.
  double scale = 1;
  // Left and top border and the picture's size in destination pixels. `ultralytics` makes them
  // whole numbers.
  double left = 0, top = 0, content_width = 0, content_height = 0;

  // Maps a point of the destination, such as a corner of a network's box, to the source: x_source =
  // (x - left) * source_width / content_width. from_source() is its inverse. Neither clamps to the
  // picture.
  void to_source(double x, double y, double* source_x, double* source_y) const;
  void from_source(double source_x, double source_y, double* x, double* y) const;
};

// Computes where a picture of source_width x source_height lies in a target of width x height. All
// are 1 to kMaxDimension.
Status letterbox_geometry(int source_width, int source_height, int width, int height,
                          const LetterboxParams& params, LetterboxGeometry* out);

// `geometry` comes from letterbox_geometry(), and the layouts must have its sizes. Sources have u8
// or u16 components, destinations u8, u16, or f32 for a float32 tensor. Both backends take every
// pairing of layouts in which each role appears once and colours are complete (r, g, b or y, u, v
// or y alone). Chroma planes may be subsampled.
Status make_letterbox(Queue& queue, const Layout& source, const ColorFormat& source_format,
                      const Layout& destination, const ColorFormat& destination_format,
                      const LetterboxGeometry& geometry, const LetterboxParams& params,
                      std::unique_ptr<Plan>* out);

}  // namespace vf
