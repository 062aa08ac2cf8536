// The guided matte refines a coarse matte along the edges of the picture it belongs to.
//
// It is the fast guided filter of He and Sun (arXiv 1505.00996; the guided filter is by He, Sun and
// Tang, ECCV 2010). The guide I has three channels, or one, and p is the mask. Values are scaled to
// [0, 1]:
//
//   low resolution   ceil(n / s) samples along an axis of n pixels; sample i is the pixel at
//                    min(floor((i + 0.5) s), n - 1)
//   window           radius max(1, round(radius / s)) samples; means divide by the number of
//                    samples of the window that lie inside the frame
//   a                (cov(I, I) + epsilon U)^-1 cov(I, p);  b = mean(p) - a . mean(I)
//   A, B             means of a and b over the same windows
//   q                clamp(A . I + B, 0, 1); A and B are interpolated bilinearly between centres
//                    of samples: pixel x is at (x + 0.5) / s - 0.5, clamped to the first and last
//
// Subsample 1 is the full guided filter. A component of a subsampled plane is seen by all pixels it
// covers (x >> sub_x), and is changed by the mean of the matte over them. So the chroma of a
// composite over an opaque background is the mean of what each of these pixels would have by
// itself. The subject's colours (MatteForeground::estimate), the blur and the despill are taken at
// the first of these pixels.
//
// With MatteMask::external, p is the mask of filters/guided_mask.h at the pixel's centre.
//
// This is MatteRefine::guided. MatteRefine::colors first corrects the mask near its edge, by local
// models of the subject's and the background's colours. docs/spec/matte.md has the formulas, and
// those of MatteForeground::estimate and MatteBackground::blur.
//
// Components are u8, u16 or f32 (values nominally 0 to 1). Run time does not depend on the radius.
// Results differ from a double-precision reference by at most these amounts, for epsilon from 1e-6.
// "Converted" means that GuidedParams::convert changes colours.
//
//                               u8, in code values   u8, equal values   u16 and f32, of full scale
//   MatteRefine::guided         1 (2 if converted)   97 %               1e-4
//   MatteRefine::colors         2                    99 %               2/255
//   MatteBackground::blur       4 (8 if converted)   90 %               8/255
//   MatteForeground::estimate   12                   90 %               12/255
//
// With MatteRefine::colors and a subsample above 4, results are as with the blur, converted. Before
// a busy background, a few pixels of MatteRefine::colors may differ by 8 code values more, as
// docs/spec/matte.md explains. Shares of equal values are for frames of at least 1000 values.
//
// src and dst may be the same image if the plan is made with Placement::in_place and pixels lie at
// the same places in both layouts.
#pragma once

#include <memory>

#include "filters/color.h"
#include "filters/guided_mask.h"
#include "filters/limits.h"
#include "filters/plan.h"

namespace vf {

struct GuidedTask;

// Tells which components of a layout are the picture and which is the matte. The defaults are
// RGBA's.
struct MatteChannels {
  int colors = 3;  // 1 or 3 in a source; 0 in a destination that takes the matte alone
  Component color[3] = {{0, 0}, {0, 1}, {0, 2}};
  // In a source, this is the mask; in a destination, the matte. A composite needs none (plane -1)
  // if its background is opaque.
  Component alpha = {0, 3};
};

enum class MatteMask : uint8_t {
  alpha,       // the source's alpha
  chroma_key,  // made of the source's colours
  external,    // given by GuidedPlan::set_mask
};
enum class MatteRefine : uint8_t {
  automatic,  // `guided` with MatteMask::chroma_key, else `colors`
  guided,     // the guided filter on the mask
  colors,     // the guided filter on a mask that colour models have corrected
};
enum class MatteOutput : uint8_t {
  alpha,          // colours as they are, the matte in alpha
  premultiplied,  // colours times the matte
  matte,          // the matte as gray in all colours, alpha opaque
  composite,      // over the background
};
enum class MatteForeground : uint8_t {
  keep,      // the frame's own colours
  estimate,  // at soft edges the subject's alone, without the background's share
};
enum class MatteBackground : uint8_t {
  color,  // `background`
  blur,   // the frame's background, blurred, without the subject's colours; opaque
};

struct GuidedParams {
  static constexpr Limits<int> kRadius{0, 512};
  static constexpr Limits<double> kEpsilon{1e-8, 1};
  static constexpr Limits<int> kSubsample{1, 16};
  static constexpr Limits<int> kMaskError{0, 64};
  static constexpr Limits<double> kMaskTrust{0, 4};
  static constexpr Limits<int> kColorReach{16, 256};
  static constexpr Limits<double> kColorSigma{1e-3, 1};
  static constexpr Limits<double> kBackgroundSigma{2, 256};
  static constexpr Limits<double> kFraction{0, 1};  // limits of all other parameters
  // Radius 0 stands for these.
  static constexpr int kGuidedRadius = 32, kColorsRadius = 16;

  MatteRefine refine = MatteRefine::automatic;
  int radius = 0;         // the window's, in pixels of the frame; 0: chosen by `refine`
  double epsilon = 1e-4;  // variance below which the guide counts as flat
  int subsample = 4;      // pixels from one sample of the guided filter to the next

  // These four are for MatteRefine::colors.
  int mask_error = 18;  // pixels of the frame by which the mask's edge may be off; 0: 18
  static constexpr int edge_of(int mask_error) { return mask_error ? mask_error : 18; }
  double mask_trust = 0.9;    // weight of the mask's side against the colours
  int color_reach = 88;       // pixels of the frame from which colours are compared
  double color_sigma = 0.03;  // difference that colours of a class have, of channels 0 to 1

  MatteMask mask = MatteMask::alpha;
  // These are for MatteMask::chroma_key, in values of the guide's channels scaled to [0, 1]. The
  // mask is clamp((d - key_tolerance) / key_softness, 0, 1) where d is the distance of a pixel from
  // the key in the plane of (Cb, Cr), each -0.5 to 0.5; luma does not count. It is rounded to code
  // values.
  double key_color[3] = {0, 1, 0};
  double key_tolerance = 0.3;  // 0 to 1
  double key_softness = 0.1;   // 0 to 1
  // Share of the key's hue that is taken out of the colours, 0 to 1. Where a colour's chroma has
  // the component u along the key's and v across it, max(0, u - |v|) times despill is removed along
  // the key's. Luma stays. A gray key has no hue, and nothing is taken out.
  double despill = 0;

  MatteOutput output = MatteOutput::alpha;
  MatteForeground foreground = MatteForeground::keep;  // not for MatteOutput::matte
  // These are for MatteOutput::composite.
  MatteBackground backdrop = MatteBackground::color;
  double background_sigma = 20;      // the blur's sigma in pixels of the frame
  double background[3] = {0, 0, 0};  // scaled as key_color
  double background_alpha = 1;

  // Converts the result's colours last, by three factors and an offset for each, of values scaled
  // as key_color. This is for a destination in another colour space than the source, without
  // subsampling.
  double convert[3][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};

  // Steadies the matte. This is the share, 0 to 1, of the previous frames' A and B that is kept
  // where the guide (its mean over 3 x 3 samples) differs from the previous frames' by at most
  // kStill. The share falls with the difference of the channel that changed most, to 0 at kMoved.
  // With MatteRefine::colors the prior is kept instead, so that a moving edge does not lag.
  static constexpr double kStill = 8 / 255.0, kMoved = 16 / 255.0;
  double temporal = 0;

  // The code values of black and white over full scale, and the matrix to (Y, Cb, Cr) from the
  // difference to black. The defaults are for RGB with BT.709.
  double black[3] = {0, 0, 0};
  double white[3] = {1, 1, 1};
  double to_ycbcr[3][3];

  GuidedParams();
};

// Replaces MatteRefine::automatic by the value that it stands for with this mask.
inline MatteRefine refine_of(MatteRefine refine, MatteMask mask) {
  if (refine != MatteRefine::automatic) return refine;
  return mask == MatteMask::chroma_key ? MatteRefine::guided : MatteRefine::colors;
}

// Returns the components of the colours and of alpha.
MatteChannels matte_channels(const Layout& layout, const ColorFormat& format);
// Returns the components of a composite's destination. Where it has no alpha, the unused component
// of a format such as RGBx stands for it, and so gets all bits set.
MatteChannels composite_channels(const Layout& layout, const ColorFormat& format);

// Fills the parameters that depend on the frames' colours (key_color, background and its alpha,
// convert, black, white, to_ycbcr) for integer frames in these formats. key_color and background
// are ARGB. The key's alpha does not count, nor does the background's where the destination has no
// alpha. YUV frames are converted where the destination is RGB.
void set_colors(const Layout& source, const ColorFormat& from, const Layout& destination,
                const ColorFormat& to, uint32_t key_color, uint32_t background,
                GuidedParams* params);

// A plan that remembers the previous frames where `temporal` is not 0.
class GuidedPlan : public Plan {
 public:
  // Forgets the previous frames. Call it after a cut, a seek or a flush.
  virtual void reset() = 0;

  // Takes over the previous frames and the mask from `previous`, a plan of the same queue, so that
  // parameters can change from frame to frame. The plan starts anew where the size, type, guide,
  // subsample or source of the mask differs, or `temporal` is 0 in one of them. `previous` forgets
  // its frames. A mask of set_mask() is taken over where both plans use one, on frames of the same
  // size.
  virtual void take_over(GuidedPlan& previous) = 0;

  // Sets the mask of the next frame and those after it, with MatteMask::external. The mask is
  // copied, and its upload is enqueued before the frame. The call waits only if the uploads of the
  // last four masks are not done. If it fails, the previous mask stays. Before the first mask, all
  // is background.
  virtual Status set_mask(const CoarseMask& mask) = 0;

 protected:
  using Plan::Plan;
  // Whether the previous frames of `a` also serve `b`.
  static bool same_memory(const GuidedTask& a, const GuidedTask& b);
  // Whether the external mask of `a` also serves `b`.
  static bool same_mask(const GuidedTask& a, const GuidedTask& b);
};

// Whether the key's colour is other than gray.
bool key_has_hue(const GuidedParams& params);

// Makes a plan. `source` and `destination` have the same type and frame size, and `from` and `to`
// name their parts. A source needs a mask only with MatteMask::alpha. Components that `to` does not
// name are not written.
Status make_guided(Queue& queue, const Layout& source, const MatteChannels& from,
                   const Layout& destination, const MatteChannels& to, const GuidedParams& params,
                   Placement placement, std::unique_ptr<GuidedPlan>* out);

}  // namespace vf
