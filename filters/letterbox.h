// Letterbox: from a decoder's frame to a network's input, in one pass.
//
// The picture is resized with its aspect kept, padded with a colour, converted to the destination's
// colours and depth, and stored as a frame (packed or planar, RGB, YUV or gray, 8 or 16 bit) or as
// a tensor (float32, float16, uint8; NCHW is a planar layout, NHWC a packed one).
//
// Two rules say where the picture goes and how it is sampled:
//
//   ultralytics  LetterBox of Ultralytics: r = min(H / h, W / w); the picture becomes round(w r) x
//                round(h r) pixels (half to even), the rest is shared by both sides, an odd pixel
//                going to the right or bottom. 8-bit samples that need no colour conversion are
//                interpolated with the 11-bit weights of cv2's INTER_LINEAR and equal its result;
//                others are at most 1 code value from a double-precision reference.
//   affine       The warp of TensorRT's YOLO examples: s = min(W / w, H / h) is not rounded, the
//                centres of picture and destination coincide, neighbours outside the picture read
//                the fill colour. All arithmetic is float32 in one order, so that bilinear and
//                nearest results are the same on every backend, bit for bit.
//
// A destination sample is rounded to a code value of the destination (of 8 bits for a tensor). A
// float tensor then holds y = (x * scale - mean) / std of that x, computed in float32 as
// (x - mean / scale) / (std / scale); x / 255, the default, is correctly rounded.
//
// Sources of YUV are converted by matrix and range of their ColorFormat in the same pass; chroma is
// interpolated at its own siting.
//
// Source and destination never overlap (there is no in-place form). Plans allocate nothing.
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
  // ultralytics: cv2's INTER_NEAREST (floor(x / r)); affine: the pixel whose centre is nearest.
  nearest,
  // Mean over the source rectangle that a destination pixel covers, at least one pixel wide: exact
  // coverage where the picture shrinks (cv2's INTER_AREA), bilinear where it grows.
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
  // Whether a picture smaller than the destination grows; else it is only padded.
  bool scale_up = true;
  // 0: pad to the whole target. Else pad only to the next size whose padding is less than `stride`
  // pixels (LetterBox's auto): the destination may be smaller than the target. 0 to kMaxDimension.
  int stride = 0;
  // Width of a source pixel over its height, divided by the same of a destination pixel.
  double pixel_aspect = 1;
  // Colour of the padding: 0xAARRGGBB, RGB of full range.
  uint32_t fill = 0xff727272;
  // Of float tensors, for red, green, blue (or y, u, v); see above. std must not be 0.
  double scale = 1.0 / 255;
  double mean[3] = {0, 0, 0};
  double std[3] = {1, 1, 1};
};

// Where the picture lies in the destination. Coordinates are continuous: pixel i spans i to i + 1.
struct LetterboxGeometry {
  LetterboxRule rule = LetterboxRule::ultralytics;
  int source_width = 0, source_height = 0;
  int width = 0, height = 0;  // of the destination
  // The rule's factor (r or s): destination pixels for one source pixel, vertically. The picture's
  // own size is the one to compute with: it is rounded under `ultralytics`.
  double scale = 1;
  // Left and top border and the picture's size, in destination pixels; whole numbers under
  // `ultralytics`.
  double left = 0, top = 0, content_width = 0, content_height = 0;

  // The way back, for a box a network found: x_source = (x - left) * source_width / content_width.
  // Not clamped to the picture.
  void to_source(double x, double y, double* source_x, double* source_y) const;
  void from_source(double source_x, double source_y, double* x, double* y) const;
};

// Computes where a picture of source_width x source_height goes in a target of width x height. All
// are 1 to kMaxDimension. A side of the picture never becomes less than 1 pixel.
Status letterbox_geometry(int source_width, int source_height, int width, int height,
                          const LetterboxParams& params, LetterboxGeometry* out);

// `geometry` comes from letterbox_geometry; the layouts' sizes must be the ones in it. Sources have
// u8 or u16 components; destinations u8, u16, or f32 for a float32 tensor. Both backends take every
// pairing of layouts, as long as each role appears once and colours are complete (r, g, b or y, u,
// v or y alone); chroma planes may be subsampled.
Status make_letterbox(Queue& queue, const Layout& source, const ColorFormat& source_format,
                      const Layout& destination, const ColorFormat& destination_format,
                      const LetterboxGeometry& geometry, const LetterboxParams& params,
                      std::unique_ptr<Plan>* out);

}  // namespace vf
