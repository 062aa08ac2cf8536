// Removes the noise of cameras by a recursive temporal filter with one motion test per block, and a
// small spatial filter that smooths the noise that is left. It estimates the noise level from the
// frames. docs/spec/denoise.md specifies the result.
//
// A plan keeps a state of the previous frames. Give it the frames of one stream in order. It adds
// no latency. A caller that has some later frames as well can give these too (set_later): they are
// averaged backwards in time, and the result is merged with that of the previous frames.
//
// Types are u8, and u16 of 8 to 16 bits. Planes may be subsampled by 2 along each axis. Frames in
// RGB are filtered as luma and chroma (Y, Co, Cg). CPU and CUDA give the same bits. Against a
// double-precision reference, at most 2 % of the samples of a sequence differ by one code value and
// at most 0.001 % by more, because a motion test at its threshold can round either way and change a
// vector. One square of 32 x 32 pixels does not count, and the limits are 10 % and 1 % while the
// camera moves. At most 1 % of a first frame differ.
//
// A frame of one colour comes out unchanged with any parameters. Ramps without noise of more than
// 12 bits come out within one code value if `noise` is not given. RGB of more than 14 bits can
// differ by one code value more, because R, G and B become 16 bits of Y, Co and Cg.
//
// src and dst may be the same image if the plan is made with Placement::in_place. This costs
// nothing.
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
  static constexpr Limits<int> kLookAhead{0, 8};

  // Standard deviation of the noise in 8-bit code values. -1 estimates it. The estimate exceeds 30
  // only up to twice the estimate from the first frame.
  double noise = -1;
  double strength = 1;   // factor on the standard deviation of the noise
  int temporal = 24;     // longest average in frames. 1 filters in space only
  double spatial = 1.5;  // variance that the spatial filter removes, relative to the noise left
  int look_ahead = 0;    // the most later frames that set_later() can give
  // Bit c of a plane filters its channel c. Other channels are copied, but their colours still take
  // part in the motion test. One bit of R, G or B filters all three.
  uint8_t channels[kMaxPlanes] = {0xf, 0xf, 0xf, 0xf};
};

// Whether `params` leave every pixel unchanged.
bool is_identity(const DenoiseParams& params);

class DenoisePlan : public Plan {
 public:
  // Forgets the previous frames and the estimate of their noise. Call it after a seek or a flush.
  virtual void reset() = 0;

  // Takes the state of `before`, a plan of the same queue, so that parameters can change between
  // frames. `before` is reset. Does nothing if the layouts differ.
  virtual void take_over(DenoisePlan& before) = 0;

  // Gives the `count` frames that follow the one of the next run(), in their order. They take part
  // in its output alone: the state and the noise level stay those of the frames before. run()
  // forgets them. Their memory is the next run()'s to read, and must not overlap its destination.
  // Each later frame costs about as much as a frame.
  Status set_later(const Image* later, int count);
  // Returns params.look_ahead.
  int look_ahead() const { return look_ahead_; }

  // Standard deviation of luma's noise in 8-bit code values: the mean over the picture, estimated
  // from the frames that are finished. 0 before the first. Never waits. Any thread may call it.
  virtual double noise_level() const = 0;

 protected:
  DenoisePlan(Queue& queue, const DenoiseTask& task, Placement placement);
  // Holds the frames of set_later().
  struct Later {
    int count = 0;
    Image frame[DenoiseParams::kLookAhead.max];
  };
  // Returns the frames for this run and forgets them.
  Later take_later();
  // Whether plans for `a` and `b` have the same state.
  static bool same_memory(const DenoiseTask& a, const DenoiseTask& b);

 private:
  const int look_ahead_;
  Later later_;
};

// Filters the components that have the role of a colour in `color`, and copies the others. Y, R, G
// and B must have the frame's full size. U and V must be subsampled alike.
Status make_denoise(Queue& queue, const Layout& layout, const ColorFormat& color,
                    const DenoiseParams& params, Placement placement,
                    std::unique_ptr<DenoisePlan>* out);

}  // namespace vf
