// Denoiser for cameras: a recursive temporal filter with one motion test per block, and a small
// spatial filter of what is still noisy. It finds the noise level by itself.
// docs/spec/denoise.md is its specification.
//
// A plan remembers the frames before: frames are to be given in order, one of a stream at a time.
// There is no latency: each frame comes out as it goes in.
//
// Types: u8 and u16 of 8 to 16 bits. Planes may be subsampled by 2 either way. Frames in RGB are
// filtered as luma and chroma (Y, Co, Cg). CPU and CUDA give the same bits; against a
// double-precision reference at most 1 % of the samples differ by one code value, and at most
// 0.001 % by more: rounding decides now and then where a motion test is at its threshold. Where the
// vector of a tile is, it decides for 32 x 32 pixels: with a camera that moves that is 10 % and 1
// %.
//
// A frame of one colour comes out as it is, whatever the parameters. Of more than 12 bits that also
// holds for ramps without noise, where `noise` is not given: no sample moves by more than one code.
// In RGB of more than 14 bits it is one code more, as R, G and B become 16 bits of Y, Co and Cg.
//
// src and dst may be the same image if the plan is made with Placement::in_place, at no cost.
#pragma once

#include <memory>

#include "filters/color.h"
#include "filters/limits.h"
#include "filters/plan.h"

namespace vf {

struct DenoiseTask;

struct DenoiseParams {
  static constexpr Limits<double> kNoise{-1, 100, is_minus_one_or_more, "-1, or 0 to 100"};
  static constexpr Limits<double> kStrength{0, 4};
  static constexpr Limits<int> kTemporal{1, 64};
  static constexpr Limits<double> kSpatial{0, 4};

  // Sigma in 8-bit code values; -1: estimated. The estimate exceeds 30 only as far as it is at most
  // twice what the first frame shows by itself.
  double noise = -1;
  double strength = 1;   // factor on the noise's sigma
  int temporal = 24;     // longest average in frames; 1: spatial only
  double spatial = 1.5;  // noise that the spatial filter removes, over what is left
  // Bit c of a plane: channel c is filtered, others are copied. All colours take part in the motion
  // test either way. Channels of RGB are filtered all or none.
  uint8_t channels[kMaxPlanes] = {0xf, 0xf, 0xf, 0xf};
};

// Whether `params` leave every pixel as it is: for they ask for no filter, or no channel is
// filtered.
bool is_identity(const DenoiseParams& params);

class DenoisePlan : public Plan {
 public:
  // Forgets the frames before, and the noise found in them: after a cut, a seek or a flush.
  virtual void reset() = 0;

  // Goes on where `before`, a plan of the same queue, is: for parameters that change from frame to
  // frame. Starts anew where the layouts differ. `before` forgets it.
  virtual void take_over(DenoisePlan& before) = 0;

  // Sigma of luma's noise in 8-bit code values, as estimated up to some frame before, mean over the
  // picture. 0 before the first. Never waits; any thread.
  virtual double noise_level() const = 0;

 protected:
  using Plan::Plan;
  // Whether what is remembered for `a` also holds for `b`.
  static bool same_memory(const DenoiseTask& a, const DenoiseTask& b);
};

// The components that have a role of a colour in `color` are the picture; others are copied. Y, and
// R, G and B, have the frame's full size; U and V are sampled alike.
Status make_denoise(Queue& queue, const Layout& layout, const ColorFormat& color,
                    const DenoiseParams& params, Placement placement,
                    std::unique_ptr<DenoisePlan>* out);

}  // namespace vf
