// Measures how the picture in a region moves from frame to frame, so that regions can follow it.
//
// A RegionMotion belongs to a RegionsPlan. Its memory and its plan of filters/motion are made at
// the first frame that is measured, and a frame that is not measured costs nothing. A measured
// frame costs the pyramid of its luma, and the motion field since the previous measured frame. The
// finest level of the field is found only in the boxes. Both are enqueued before the frame is
// filtered. The GPU writes the vectors straight into the host's memory, because the filter would
// have to wait for a copy. The host reads them when the next frame comes. It then waits only for
// the field, so the GPU may still filter the previous frame.
#pragma once

#include <memory>
#include <vector>

#include "filters/color.h"
#include "filters/motion.h"
#include "filters/region_tracker.h"

namespace vf {

// Returns the motion in the middle of `box` in a field of a picture of width x height pixels: half
// of the box's width and height, where little of the background is seen. It is the median of the
// blocks. Returns false unless half of the blocks agree: they differ from it by up to 2 pixels, and
// their vectors leave at most half of the residual.
bool motion_in(const MotionVector* field, int width, int height, const RegionBox& box, double* x,
               double* y);

class RegionMotion final : public BoxMotion {
 public:
  // Tells whether frames have a luma, or red, green and blue, that can be measured.
  static bool can_measure(const Layout& layout, const ColorFormat& color);

  RegionMotion(Queue& queue, const Layout& layout, const ColorFormat& color);
  // Gets memory before the first frame is measured. After an error, nothing is measured.
  void prepare();
  // Enqueues the measurement of a frame. `time` is in nanoseconds. The motion of other boxes than
  // `boxes` may stay in doubt.
  Status measure(const Image& frame, int64_t time, const std::vector<RegionBox>& boxes);
  // Makes the next measured frame the first one.
  void forget();
  // Waits until the field of the last measured frame is known. Returns false if that frame was the
  // first one.
  bool wait();

  // These are about the last measured frame, after wait(). Boxes are in its pixels.
  bool in(const RegionBox& box, double* x, double* y) const override;
  int64_t from() const override { return from_; }
  int64_t to() const override { return to_; }

 private:
  Status make();
  MotionPicture picture(const Image& frame) const;

  Queue& queue_;
  ColorFormat color_;
  int width_ = 0, height_ = 0;
  std::unique_ptr<MotionPlan> plan_;
  Allocation field_;   // in the host's memory
  MotionParts parts_;  // parts whose motion is found
  std::unique_ptr<Event> found_;
  bool failed_ = false;
  bool has_picture_ = false, has_field_ = false;
  int picture_ = 0;  // the newest one of two
  int64_t from_ = 0, to_ = 0;
};

}  // namespace vf
