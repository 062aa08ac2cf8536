// Decides which regions of a frame are filtered, from a detector's results for this frame, for
// previous ones and, if frames wait, for later ones. Boxes that vanish stay for a while. The user
// chooses what happens to frames that no detector has seen. A tracker belongs to one thread.
//
// A frame arrives with the detector's result, and leaves when its regions are wanted. Frames that
// arrive in between are known then, so that an object has a box before the detector finds it and
// where the detector misses it.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "filters/regions.h"

namespace vf {

// An object that a detector found.
struct Detection {
  static constexpr int64_t kNoId = -1;
  int64_t id = kNoId;  // constant over all frames if a tracker gave it
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

// How a frame moved since an earlier one.
class BoxMotion {
 public:
  virtual ~BoxMotion() = default;
  // Returns how far, in pixels, what is in `box` of the frame moved, or false if that is in doubt.
  virtual bool in(const RegionBox& box, double* x, double* y) const = 0;
  // The times of the earlier frame and of this one, as RegionTracker::time() counts them.
  virtual int64_t from() const = 0;
  virtual int64_t to() const = 0;
};

class RegionTracker {
 public:
  // Boxes of two frames are one object if their intersection is this share of their union.
  static constexpr double kOverlap = 0.3;

  struct Settings {
    int64_t hold = 0;  // nanoseconds
    OnMissing on_missing = OnMissing::pass;
    int64_t look_ahead = 0;   // nanoseconds for which frames wait
    bool interpolate = true;  // between two results for one object
    // How far off a detector's boxes may be, as a share of the object's size. Boxes that are moved
    // back grow by up to 0.8 times as much.
    double grow = 0;
    int width = kMaxDimension, height = kMaxDimension;  // size of the frame
    bool follow = false;                                // held boxes go on as far as follow() says
  };

  // Forgets the objects of frames that have left. Frames that have arrived stay.
  void reset();
  // Forgets frames too.
  void clear();
  // Takes the result for a frame that comes `elapsed` nanoseconds after the previous one. It lists
  // the objects that the detector found, in any order, or is null if it has not seen the frame.
  void arrive(int64_t elapsed, const std::vector<Detection>* result, const Settings& settings);
  // Goes on to the oldest frame that has arrived. There must be one.
  //
  // An object that is not in its result stays where it was for `hold`, or until it is found again
  // by its id, or by overlap with its way. If it is found again in a frame that has arrived, within
  // the sum of `hold` and `look_ahead`, its box lies between the two. An object that is found for
  // the first time within `look_ahead` is moved back along its way, and its centre stays in the
  // frame. It is not moved back to where another object, of about the same box, was lost: a tracker
  // may give an object another id.
  void leave(const Settings& settings);
  // The time of the frame that left last, in nanoseconds.
  int64_t time() const { return left_; }
  // Whether boxes of that frame can follow a motion.
  bool can_follow() const { return !following_.empty(); }
  // Moves the held boxes of the frame that left last. `motion` (may be null) is the motion of an
  // earlier frame, and the speed is assumed to be constant since then. Before the first known
  // motion, the speed follows from the object's last results. Boxes stay inside the frame. If
  // something else seems to move in a box than before, for example somebody who passes in front,
  // the box is also filtered where it was at that time.
  void follow(const BoxMotion* motion, const Settings& settings);
  // Where the next call of follow() will ask for the motion of that frame.
  const std::vector<RegionBox>& followed() const { return followed_; }
  // Both, for frames that do not wait.
  void update(int64_t elapsed, const std::vector<Detection>* result, const Settings& settings) {
    arrive(elapsed, result, settings);
    leave(settings);
  }

  // The parts of this frame that are filtered.
  bool whole() const { return whole_; }
  const std::vector<RegionBox>& boxes() const { return boxes_; }
  // How many objects these boxes are of, and how many of them were found in this very frame.
  size_t objects() const { return objects_; }
  size_t found() const { return found_; }

 private:
  struct Offset {
    double x = 0, y = 0;  // pixels
  };
  // Holds the centres of an object's box in its last results, beginning with the newest.
  struct Past {
    static constexpr int kMost = 6;
    int count = 0;
    int64_t time[kMost];
    Offset centre[kMost];
  };
  // A detection, the number of its object, which is the same in all frames, and its time.
  struct Sighting {
    Detection detection;
    uint64_t track;
    int64_t time;
    // Another object may have been the one that was found here.
    bool doubtful = false;
    // When an object with about the same box was last found that was lost before.
    int64_t known_until = INT64_MIN;
    Past past = {};
  };
  struct Held {
    Sighting last;
    int64_t age;  // since the object was last found
    // Until `moved_at`, the box has moved by `moved`. From then on, it moves by `speed` in pixels
    // per nanosecond. `has_speed` says that the motion of the picture was measured. Before, the
    // speed follows from the results.
    Offset moved, speed;
    int64_t moved_at;
    bool has_speed = false;
    // Where the object may have been left behind.
    bool left_behind = false;
    Offset behind;
  };
  // An object whose boxes, from boxes_[first] on, follow the motion.
  struct Following {
    uint64_t track;
    size_t first;
  };
  struct Frame {
    int64_t time;
    bool seen;
    std::vector<Sighting> found;
    Settings settings;  // when it arrived
  };
  // When an object is found in frames that have not left yet.
  struct Next {
    const Sighting *first, *last;
  };
  // Reasons to take two boxes for one object. They are tried in this order.
  enum class Match {
    id,  // equal ids, of a tracker or of boxes that overlap
    overlap,
    id_anywhere,  // equal ids of boxes that do not overlap
  };
  struct Pair {
    double share;
    Sighting* found;
    Held* held;
  };
  static Offset offset_at(const Held& h, int64_t time);
  static RegionBox moved(RegionBox box, const Offset& by);
  double overlap_on_way(const RegionBox& box, const Held& h) const;
  double fit(const Detection& d, const Held& held, Match match) const;
  bool is_doubtful(const Detection& d) const;
  static int64_t longest_gap(const Settings& settings);
  void take_over(Sighting* s) const;
  void renumber();
  void recognise(std::vector<Sighting>* found);
  static void age(std::vector<Held>* held, int64_t elapsed, bool seen, const Settings& settings);
  static void hold(std::vector<Held>* held, const std::vector<Sighting>& found,
                   const Settings& settings);
  static void remember(const Past& before, Sighting* s);
  static Offset speed_of(const Past& past, double grow);
  void find_next();
  const Next* next_of(uint64_t track) const;
  void add(const Sighting& s);
  Offset way_back(const Next& next, int64_t time, const Settings& settings, double* doubt) const;
  void add_moved_back(const Next& next, const Settings& settings);
  void add_held(const Held& h, const Settings& settings);
  static Offset limited(const RegionBox& box, Offset offset, const Settings& settings);
  static void move(const BoxMotion& motion, const Settings& settings, Held* h);

  std::deque<Frame> frames_;                     // frames that have arrived and not left
  std::vector<Held> newest_;                     // the objects of the frame that arrived last
  std::vector<Held> held_;                       // the objects of the frame that left last
  std::vector<std::pair<uint64_t, Next>> next_;  // by object, in the order of numbers
  std::vector<RegionBox> boxes_;
  std::vector<Following> following_;
  std::vector<RegionBox> followed_;
  std::vector<Pair> pairs_;
  int64_t arrived_ = 0, left_ = 0;  // times of the last frames
  uint64_t tracks_ = 0;             // objects so far
  bool whole_ = false;
  size_t objects_ = 0, found_ = 0;
};

}  // namespace vf
