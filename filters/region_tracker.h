// Decides which regions of a frame are filtered, from a detector's results for this frame and for
// previous ones. Boxes that vanish stay for a while. The user chooses what happens to frames that
// no detector has seen. A tracker belongs to one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "filters/regions.h"

namespace vf {

// An object that a detector found.
struct Detection {
  static constexpr int64_t kNoId = -1;
  int64_t id = kNoId;  // the same in all frames, if a tracker gave it
  RegionBox box;
  // The rectangles of its mask, if it has one. Then only these are filtered, and `box` spans them.
  std::vector<RegionBox> parts;
  // Whether the id is certainly a tracker's. Then another id means another object. Otherwise the
  // detector may number its boxes anew in each frame. Such an id only chooses among boxes that
  // overlap, and finds the object if none does.
  bool tracked = true;
};

// How a frame without a detector's result is filtered.
enum class OnMissing : uint8_t {
  pass,  // the boxes that are held
  hold,  // the last result, however old
  all,   // the whole frame
};

class RegionTracker {
 public:
  // Boxes of two frames are one object if their intersection is this share of their union.
  static constexpr double kOverlap = 0.3;

  struct Settings {
    int64_t hold = 0;  // nanoseconds
    OnMissing on_missing = OnMissing::pass;
  };

  void reset();
  // Goes on to the next frame, `elapsed` nanoseconds after the previous one. `result` lists the
  // objects that the detector found, in any order, or is null if it has not seen the frame. An
  // object that is not in the list stays where it was for `hold`, or until it is found again by its
  // id or by overlap.
  void update(int64_t elapsed, const std::vector<Detection>* result, const Settings& settings);

  // The parts of this frame that are filtered.
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
  // Reasons to take two boxes for one object. They are tried in this order.
  enum class Match {
    id,  // the same id, of a tracker or of boxes that overlap
    overlap,
    id_anywhere,  // the same id of boxes that do not overlap
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
