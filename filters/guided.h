// Guided filter that refines a coarse matte along the edges of the picture it belongs to.
//
// The fast guided filter of He and Sun (arXiv 1505.00996; guided filter: He, Sun, Tang, ECCV 2010)
// with a guide I of three channels, or one, and a mask p. On values scaled to [0, 1]:
//
//   low resolution   ceil(n / s) samples along an axis of n pixels; sample i is the pixel at
//                    min(floor((i + 0.5) s), n - 1)
//   window           radius max(1, round(radius / s)) samples; means divide by the number of
//                    samples of the window that lie inside the frame
//   a                (cov(I, I) + epsilon U)^-1 cov(I, p);  b = mean(p) - a . mean(I)
//   A, B             means of a and b over the same windows
//   q                clamp(A . I + B, 0, 1); A and B are interpolated bilinearly between the centres
//                    of samples: pixel x is at (x + 0.5) / s - 0.5, clamped to the samples there are
//
// Subsample 1 is the full guided filter. A component of a subsampled plane is seen by all pixels it
// covers (x >> sub_x), and is changed by the mean of the matte over them: the chroma of
// a composite over an opaque background is the mean of the chroma that these pixels have if each is
// composed by itself. The subject's colours (MatteForeground::estimate), the blur and the despill
// are those at the first of them.
//
// With MatteMask::external, p is the mask of filters/guided_mask.h at the pixel's centre.
//
// This is MatteRefine::guided. MatteRefine::colors first replaces the mask by what local models of
// the subject's and the background's colours say near its edge; docs/spec/matte.md has the
// formulas, and those of MatteForeground::estimate and MatteBackground::blur.
//
// Types: u8, u16, f32 (values nominally 0 to 1). Run time does not depend on the radius. 8-bit
// results are at most 1 code value from a double-precision reference and at least 97 % equal, for
// epsilon from 1e-6 (at most 2 where colours are converted); u16 and f32 results are within 1e-4 of
// full scale. With MatteRefine::colors 8-bit results are at most 2 code values from the reference
// and at least 99 % equal, the others within 2/255 of full scale. MatteBackground::blur allows 4
// code values (8 where colours are converted), the others 8/255, MatteForeground::estimate 12/255;
// both 90 % equal at 8 bits. Shares of equal values are of frames of 100 values and more.
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

// Which components of a layout are the picture and which is the matte. The defaults are RGBA's.
struct MatteChannels {
  int colors = 3;  // 1 or 3 in a source; 0 in a destination that takes the matte alone
  Component color[3] = {{0, 0}, {0, 1}, {0, 2}};
  // The mask in a source, the matte in a destination. A composite can do without (plane -1): it is
  // over an opaque background then.
  Component alpha = {0, 3};
};

enum class MatteMask : uint8_t {
  alpha,       // the source's
  chroma_key,  // made of its colours
  external,    // beside the frame: GuidedPlan::set_mask
};
enum class MatteRefine : uint8_t {
  automatic,  // colors; guided with MatteMask::chroma_key, where colours made the mask already
  guided,     // the guided filter on the mask
  colors,     // the guided filter on what colour models of subject and background make of the mask
};
enum class MatteOutput : uint8_t {
  alpha,          // colours as they are, the matte in alpha
  premultiplied,  // colours times the matte
  matte,          // the matte as gray in all colours, alpha opaque
  composite,      // over the background
};
enum class MatteForeground : uint8_t {
  keep,      // the frame's own colours
  estimate,  // at soft edges the subject's alone, without what shines through
};
enum class MatteBackground : uint8_t {
  color,  // `background`
  blur,   // the frame's own, blurred, without the subject's colours; opaque
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
  static constexpr Limits<double> kFraction{0, 1};  // of all others
  // What radius 0 stands for.
  static constexpr int kGuidedRadius = 32, kColorsRadius = 16;

  MatteRefine refine = MatteRefine::automatic;
  int radius = 0;         // of the window, in pixels of the frame; 0: by `refine`
  double epsilon = 1e-4;  // variance below which the guide counts as flat
  int subsample = 4;      // pixels from one sample of the guided filter to the next

  // For MatteRefine::colors.
  int mask_error = 18;        // pixels of the frame by which the mask's edge may be off; 0: 18
  double mask_trust = 0.9;    // weight of the mask's side against the colours
  int color_reach = 88;       // pixels of the frame from which colours are compared
  double color_sigma = 0.03;  // difference that colours of a class have, of channels 0 to 1

  MatteMask mask = MatteMask::alpha;
  // For MatteMask::chroma_key, in values of the guide's channels scaled to [0, 1]. The mask is
  // clamp((d - key_tolerance) / key_softness, 0, 1) where d is the distance of a pixel from the key
  // in the plane of (Cb, Cr), each -0.5 to 0.5; luma does not count. It is rounded to code values.
  double key_color[3] = {0, 1, 0};
  double key_tolerance = 0.3;  // 0 to 1
  double key_softness = 0.1;   // 0 to 1
  // How much of the key's hue is taken out of the colours, 0 to 1: of chroma c with component u
  // along the key's and v across it, max(0, u - |v|) times despill is removed. Luma stays. A gray
  // key has no hue, and nothing is taken out.
  double despill = 0;

  MatteOutput output = MatteOutput::alpha;
  MatteForeground foreground = MatteForeground::keep;  // not for MatteOutput::matte
  // For MatteOutput::composite.
  MatteBackground backdrop = MatteBackground::color;
  double background_sigma = 20;      // of the blur, in pixels of the frame
  double background[3] = {0, 0, 0};  // scaled as key_color
  double background_alpha = 1;

  // What the result's colours become last: three factors and an offset each, of values scaled as
  // key_color. For a destination in another colour space than the source, without subsampling.
  double convert[3][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};

  // Steadies the matte, 0 to 1: the share of the previous frame's A and B that is kept where the
  // guide (its mean over 3 x 3 samples) stands still, which is seen against the frames kept so far.
  // Where it changed, in any channel, by kMoved or more the new ones count at once; the share falls
  // from kStill on. With MatteRefine::colors the prior is kept instead, so that a moving edge does
  // not lag.
  static constexpr double kStill = 8 / 255.0, kMoved = 16 / 255.0;
  double temporal = 0;

  // The colours: code values over full scale of black and white, and the matrix from differences to
  // black to (Y, Cb, Cr). The defaults are for RGB (with BT.709).
  double black[3] = {0, 0, 0};
  double white[3] = {1, 1, 1};
  double to_ycbcr[3][3];

  GuidedParams();
};

// What MatteRefine::automatic stands for with a mask.
inline MatteRefine refine_of(MatteRefine refine, MatteMask mask) {
  if (refine != MatteRefine::automatic) return refine;
  return mask == MatteMask::chroma_key ? MatteRefine::guided : MatteRefine::colors;
}

// The components of the colours and of alpha by their roles.
MatteChannels matte_channels(const Layout& layout, const ColorFormat& format);
// The same of a composite's destination. Where it has no alpha, a component beside the colours that
// carries nothing (the x of RGBx) stands for it, and so gets all bits set.
MatteChannels composite_channels(const Layout& layout, const ColorFormat& format);

// Fills what depends on the frames' colours (key_color, background and its alpha, convert, black,
// white, to_ycbcr) for integer frames in these formats. The colours are ARGB; a key has no alpha,
// and a background has none where the destination has none. Frames of YUV are converted where the
// destination is RGB.
void set_colors(const Layout& source, const ColorFormat& from, const Layout& destination,
                const ColorFormat& to, uint32_t key_color, uint32_t background,
                GuidedParams* params);

// A plan with a memory of the frames before, where `temporal` is not 0.
class GuidedPlan : public Plan {
 public:
  // Forgets the frames before: after a cut, a seek or a flush.
  virtual void reset() = 0;

  // Goes on where `before`, a plan of the same queue, is: for parameters that change from frame to
  // frame. Starts anew where what is remembered does not fit: another size, type, guide, subsample
  // or source of the mask, or `temporal` 0 in one of them. `before` forgets it. A mask of
  // set_mask() is taken over where both plans are for one, on frames of the same size.
  virtual void take_over(GuidedPlan& before) = 0;

  // With MatteMask::external: the mask of the frames from the next one on. Copied, and enqueued
  // before the frame; waits only where the copies of the four masks before are still to be done.
  // Where it fails, the mask before stays. Before the first one, all is background.
  virtual Status set_mask(const CoarseMask& mask) = 0;

 protected:
  using Plan::Plan;
  // Whether what is remembered for `a` also holds for `b`.
  static bool same_memory(const GuidedTask& a, const GuidedTask& b);
  // The same of a mask beside the frame.
  static bool same_mask(const GuidedTask& a, const GuidedTask& b);
};

// `source` and `destination` have the same type and frame size; `from` and `to` name their parts.
// Only with MatteMask::alpha does a source need a mask. Components that `to` does not name are
// left.
// Whether the key's colour is other than gray.
bool key_has_hue(const GuidedParams& params);

Status make_guided(Queue& queue, const Layout& source, const MatteChannels& from,
                   const Layout& destination, const MatteChannels& to, const GuidedParams& params,
                   Placement placement, std::unique_ptr<GuidedPlan>* out);

}  // namespace vf
