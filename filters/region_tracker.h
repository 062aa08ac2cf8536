// Which regions of a frame are filtered, from what a detector said of it and of the frames before:
// boxes stay for a while where they vanish, and frames that no detector has seen get what the user
// chose. Belongs to one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "filters/regions.h"

namespace vf {

// An object that a detector found.
struct Detection {
  static constexpr int64_t kNoId = -1;
  int64_t id = kNoId;  // by which a tracker knows it again in other frames
  RegionBox box;
  // Where its mask is, if it has one: then only these are filtered, and `box` is what they span.
  std::vector<RegionBox> parts;
  // Whether the id is sure to be a tracker's: then another id is another object. A detector may
  // also number its boxes anew in each frame; such an id only chooses among boxes that overlap, and
  // finds the object where none does.
  bool tracked = true;
};

// What a frame gets that has no result of a detector.
enum class OnMissing : uint8_t {
  pass,  // what is held
  hold,  // the last result, however old
  all,   // all of it is filtered
};

class RegionTracker {
 public:
  // Two boxes of two frames are one object where they have this share of what they cover in common.
  static constexpr double kOverlap = 0.3;

  struct Settings {
    int64_t hold = 0;  // nanoseconds
    OnMissing on_missing = OnMissing::pass;
  };

  void reset();
  // The next frame, `elapsed` nanoseconds after the one before. `result` is what the detector found
  // in it, in no order; null where it has not seen the frame. An object that is not in it stays
  // where it was until it was not seen for `hold`, or until it is found again: by its id where it
  // has one, else by overlap.
  void update(int64_t elapsed, const std::vector<Detection>* result, const Settings& settings);

  // What is filtered of this frame.
  bool whole() const { return whole_; }
  const std::vector<RegionBox>& boxes() const { return boxes_; }
  // How many objects these boxes are of, and how many of them were found in this very frame.
  size_t objects() const { return held_.size(); }
  size_t found() const { return found_; }

 private:
  struct Held {
    Detection detection;
    int64_t age;
  };
  // What makes two boxes one object, in this order.
  enum class Match {
    id,  // of a tracker, or of boxes that overlap
    overlap,
    id_anywhere,  // of boxes that do not overlap
  };
  size_t find(const Detection& d, Match match) const;
  void replace(const std::vector<Detection>& result);
  std::vector<Held> held_;
  std::vector<RegionBox> boxes_;
  std::vector<const Detection*> unmatched_;
  bool whole_ = false;
  size_t found_ = 0;
};

}  // namespace vf
