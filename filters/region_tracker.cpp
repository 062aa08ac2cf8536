#include "filters/region_tracker.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

namespace vf {
namespace {

// Largest number of objects that are held.
constexpr size_t kMaxHeld = 2 * RegionParams::kMost;
// The standard deviation of the place of a detector's boxes is taken to be this share of
// region-expand.
constexpr double kPlaceDeviationPerExpand = 0.2;
// The standard deviation of objects' speeds is taken to be this, in sizes of the object per
// nanosecond.
constexpr double kSpeedDeviation = 1.2e-9;
// A box that is moved back grows so that, with region-expand, it covers so many standard deviations
// of its place. It grows by at most so many times region-expand. lab/regions.md has the trials.
constexpr double kCoveredDeviations = 4, kMostMarginPerExpand = 0.8;
// A box whose side is no further from the frame's edge than this share of its size, per
// region-expand, may be of an object that goes on outside.
constexpr double kAtEdgePerExpand = 0.5;
// So many places of an object on its way are compared with a box.
constexpr int kStepsOnWay = 4;
// Boxes of one object in frames that follow each other overlap by at least this share.
constexpr double kSameBox = 0.5;
// If the way of a held object changes by more than this share of its box's smaller side from one
// measured frame to the next, something else moves there.
constexpr double kChangeOfOtherObject = 0.08;

double length(double a0, double a1, double b0, double b1) {
  return std::max(0.0, std::min(a1, b1) - std::max(a0, b0));
}

// Returns the intersection of two boxes as a share of their union. Their angles are ignored.
double overlap(const RegionBox& a, const RegionBox& b) {
  const double common = length(a.x, a.x + a.width, b.x, b.x + b.width) *
                        length(a.y, a.y + a.height, b.y, b.y + b.height);
  if (common == 0) return 0;
  const double covered = a.width * a.height + b.width * b.height - common;
  return covered > 0 ? common / covered : 0;
}

// Returns what lies between two boxes of an object: `share` is 0 at `a` and 1 at `b`.
RegionBox between(const RegionBox& a, const RegionBox& b, double share) {
  const auto at = [share](double from, double to) { return from + (to - from) * share; };
  // The shorter way round.
  const double turn = std::remainder(b.angle - a.angle, 2 * std::acos(-1));
  return make_box(at(a.x, b.x), at(a.y, b.y), at(a.width, b.width), at(a.height, b.height),
                  a.angle + (std::isfinite(turn) ? turn * share : 0));
}

// Is the line that fits best to places of an object at several times. Time counts in nanoseconds.
class Line {
 public:
  void add(double t, double x, double y) {
    n_++, t1_ += t, t2_ += t * t;
    x_ += x, y_ += y;
    tx_ += t * x, ty_ += t * y;
  }
  // Computes the speed in pixels per nanosecond from places that are `off` sizes of the object off,
  // and returns the standard deviation of that speed in sizes of the object. Where few places say
  // how fast the object is, the speed is small and its deviation large.
  double speed(double off, double* x, double* y) const {
    const double spread = t2_ - t1_ * t1_ / n_ + off * off / (kSpeedDeviation * kSpeedDeviation);
    if (!(spread > 0)) return 0;
    *x = (tx_ - x_ * t1_ / n_) / spread;
    *y = (ty_ - y_ * t1_ / n_) / spread;
    return off / std::sqrt(spread);
  }

 private:
  double n_ = 0, t1_ = 0, t2_ = 0, x_ = 0, y_ = 0, tx_ = 0, ty_ = 0;
};

// Returns which place in a box moves as its object does, as a share of the box's size: its centre,
// or, at one edge of the frame, its other side. The box of an object that comes in begins at the
// edge and grows, so its centre has half of the object's speed.
double place_that_moves(double at, double size, int end, double near) {
  const bool at_start = at <= near * size, at_end = at + size >= end - near * size;
  return at_start == at_end ? 0.5 : at_start ? 1 : 0;
}

double centre_x(const RegionBox& b) {
  return b.x + b.width / 2;
}
double centre_y(const RegionBox& b) {
  return b.y + b.height / 2;
}

}  // namespace

// Returns how long an object is known after it was found. It is held for `hold`. If it is found
// again later, the frames of the last `look_ahead` have not left yet.
int64_t RegionTracker::longest_gap(const Settings& settings) {
  return settings.hold + settings.look_ahead;
}

void RegionTracker::reset() {
  renumber();
  held_.clear();
  boxes_.clear();
  following_.clear();
  whole_ = false;
  objects_ = found_ = 0;
}

void RegionTracker::clear() {
  frames_.clear();
  reset();
}

// Numbers the objects of the frames that have arrived anew, as if nothing had come before them.
// Without memory for it, the next frame that arrives has new objects only.
void RegionTracker::renumber() {
  newest_.clear();
  int64_t before = arrived_;
  try {
    for (Frame& f : frames_) {
      arrived_ = f.time;
      age(&newest_, f.time - std::exchange(before, f.time), f.seen, f.settings);
      for (Sighting& s : f.found) s.track = 0, s.known_until = INT64_MIN, s.past = {};
      recognise(&f.found);
      hold(&newest_, f.found, f.settings);
    }
  } catch (const std::bad_alloc&) {
    newest_.clear();
    if (!frames_.empty()) arrived_ = frames_.back().time;
  }
}

RegionTracker::Offset RegionTracker::offset_at(const Held& h, int64_t time) {
  int64_t passed = time - h.moved_at;
  // The speed between two results is believed for as long again as lies between them.
  const Past& past = h.last.past;
  if (!h.has_speed) passed = std::min(passed, past.time[0] - past.time[past.count - 1]);
  return {h.moved.x + h.speed.x * double(passed), h.moved.y + h.speed.y * double(passed)};
}

RegionBox RegionTracker::moved(RegionBox box, const Offset& by) {
  box.x += by.x, box.object_x += by.x;
  box.y += by.y, box.object_y += by.y;
  return box;
}

// Returns the largest overlap of a box with an object: where it was found last, where it is taken
// to be, and on its way at the speed that it had.
double RegionTracker::overlap_on_way(const RegionBox& box, const Held& h) const {
  const RegionBox& last = h.last.detection.box;
  const Offset by = offset_at(h, arrived_);
  const double passed = double(arrived_ - h.moved_at);
  // Most boxes lie beside the whole way. `low` and `high` are its ends.
  const auto beside = [&](double at, double size, double from, double length, double by,
                          double moved, double speed) {
    const auto [low, high] =
        std::minmax({0.0, by, moved + speed * (passed / kStepsOnWay), moved + speed * passed});
    return at >= from + high + length || from + low >= at + size;
  };
  if (beside(box.x, box.width, last.x, last.width, by.x, h.moved.x, h.speed.x) ||
      beside(box.y, box.height, last.y, last.height, by.y, h.moved.y, h.speed.y))
    return 0;
  double share = std::max(overlap(box, last), overlap(box, moved(last, by)));
  for (int i = 1; i <= kStepsOnWay; i++) {
    const double t = passed * i / kStepsOnWay;
    const Offset on = {h.moved.x + h.speed.x * t, h.moved.y + h.speed.y * t};
    share = std::max(share, overlap(box, moved(last, on)));
  }
  return share;
}

// Returns how well a detection fits an object, or a negative number if it does not.
double RegionTracker::fit(const Detection& d, const Held& held, Match match) const {
  const Detection& h = held.last.detection;
  const bool have_ids = d.id != Detection::kNoId && h.id != Detection::kNoId;
  if (match == Match::overlap ? have_ids && d.tracked : !have_ids || d.id != h.id) return -1;
  const double share = overlap_on_way(d.box, held);
  const bool near = share >= kOverlap;
  const bool fits = match == Match::id ? near || d.tracked : near || match == Match::id_anywhere;
  return fits ? share : -1;
}

// Tells whether more than one object may have been found here. A tracker's id leaves no doubt.
bool RegionTracker::is_doubtful(const Detection& d) const {
  if (d.tracked && d.id != Detection::kNoId) return false;
  const auto near = [&](const Held& h) { return overlap(d.box, h.last.detection.box) > 0; };
  return std::count_if(newest_.begin(), newest_.end(), near) > 1;
}

// Numbers the objects of a result. Drops those of newest_ that were found again. Each new box
// replaces at most one of them, so that if one of two overlapping objects vanishes, it is held.
// The pairs that fit best are made first: a small face in front of a large one keeps its number.
void RegionTracker::recognise(std::vector<Sighting>* found) {
  for (Sighting& s : *found) s.doubtful = is_doubtful(s.detection);
  for (const Match match : {Match::id, Match::overlap, Match::id_anywhere}) {
    pairs_.clear();
    for (Sighting& s : *found)
      for (Held& h : newest_)
        if (!s.track && h.last.track)
          if (const double share = fit(s.detection, h, match); share >= 0)
            pairs_.push_back({share, &s, &h});
    // Among equal shares, the newest object comes first.
    std::stable_sort(pairs_.begin(), pairs_.end(), [](const Pair& a, const Pair& b) {
      return a.share != b.share ? a.share > b.share : a.held > b.held;
    });
    for (const Pair& p : pairs_)
      if (!p.found->track && p.held->last.track) {
        p.found->track = std::exchange(p.held->last.track, 0);
        remember(p.held->last.past, p.found);
      }
  }
  newest_.erase(std::remove_if(newest_.begin(), newest_.end(),
                               [](const Held& h) { return h.last.track == 0; }),
                newest_.end());
  for (Sighting& s : *found)
    if (!s.track) {
      s.track = ++tracks_;
      take_over(&s);
      remember({}, &s);
    }
}

// A tracker may give an object another id. The object that is lost then has about the same box, is
// held on, and hides the new one in the frames before: it need not be moved back there.
void RegionTracker::take_over(Sighting* s) const {
  for (const Held& h : newest_)
    if (overlap_on_way(s->detection.box, h) >= kSameBox)
      s->known_until = std::max(s->known_until, h.last.time);
}

// Adds a sighting to the past of its object.
void RegionTracker::remember(const Past& before, Sighting* s) {
  s->past.count = std::min(before.count + 1, Past::kMost);
  std::copy_n(before.time, s->past.count - 1, s->past.time + 1);
  std::copy_n(before.centre, s->past.count - 1, s->past.centre + 1);
  s->past.time[0] = s->time;
  s->past.centre[0] = {centre_x(s->detection.box), centre_y(s->detection.box)};
}

RegionTracker::Offset RegionTracker::speed_of(const Past& past, double grow) {
  Line line;
  for (int i = 0; i < past.count; i++)
    line.add(double(past.time[i] - past.time[0]), past.centre[i].x, past.centre[i].y);
  Offset speed;
  line.speed(kPlaceDeviationPerExpand * grow, &speed.x, &speed.y);
  return speed;
}

// With OnMissing::hold, held boxes do not age while results are missing.
void RegionTracker::age(std::vector<Held>* held, int64_t elapsed, bool seen,
                        const Settings& settings) {
  if (!seen && settings.on_missing == OnMissing::hold) return;
  const int64_t most = longest_gap(settings);
  for (Held& h : *held) h.age += std::max<int64_t>(elapsed, 0);
  held->erase(
      std::remove_if(held->begin(), held->end(), [most](const Held& h) { return h.age > most; }),
      held->end());
}

void RegionTracker::hold(std::vector<Held>* held, const std::vector<Sighting>& found,
                         const Settings& settings) {
  for (const Sighting& s : found)
    held->push_back({s, 0, {}, speed_of(s.past, settings.grow), s.time, false, false, {}});
  if (held->size() > kMaxHeld) held->erase(held->begin(), held->end() - ptrdiff_t(kMaxHeld));
}

void RegionTracker::arrive(int64_t elapsed, const std::vector<Detection>* result,
                           const Settings& settings) {
  arrived_ += std::max<int64_t>(elapsed, 0);
  age(&newest_, elapsed, result, settings);
  // If there is no memory, the frame has not arrived.
  Frame frame = {arrived_, result != nullptr, {}, settings};
  std::vector<Sighting>& found = frame.found;
  if (!result) {
    frames_.push_back(std::move(frame));
    return;
  }
  const size_t left_out = result->size() - std::min(result->size(), kMaxHeld);
  found.reserve(result->size() - left_out);
  for (size_t i = left_out; i < result->size(); i++) found.push_back({(*result)[i], 0, arrived_});
  recognise(&found);
  hold(&newest_, found, settings);
  frames_.push_back(std::move(frame));
}

// Fills next_ from the frames that have arrived.
void RegionTracker::find_next() {
  next_.clear();
  for (const Frame& f : frames_)
    for (const Sighting& s : f.found) next_.push_back({s.track, {&s, &s}});
  std::stable_sort(next_.begin(), next_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const auto& [track, next] : next_) {
    if (kept && next_[kept - 1].first == track) {
      next_[kept - 1].second.last = next.last;
    } else {
      next_[kept++] = {track, next};
    }
  }
  next_.resize(kept);
}

const RegionTracker::Next* RegionTracker::next_of(uint64_t track) const {
  const auto at = std::lower_bound(next_.begin(), next_.end(), track,
                                   [](const auto& n, uint64_t t) { return n.first < t; });
  return at != next_.end() && at->first == track ? &at->second : nullptr;
}

void RegionTracker::add(const Sighting& s) {
  const Detection& d = s.detection;
  if (d.parts.empty())
    boxes_.push_back(d.box);
  else
    boxes_.insert(boxes_.end(), d.parts.begin(), d.parts.end());
}

// Returns how far an object had to go at `time` until it was first found, from the line that fits
// best to where it is found in the frames that wait. `doubt` becomes the standard deviation of that
// way in sizes of the object. It is large where few results say how fast the object is.
RegionTracker::Offset RegionTracker::way_back(const Next& next, int64_t time,
                                              const Settings& settings, double* doubt) const {
  const int64_t start = next.first->time;
  const RegionBox& box = next.first->detection.box;
  const double near = kAtEdgePerExpand * settings.grow;
  const double px = place_that_moves(box.x, box.width, settings.width, near);
  const double py = place_that_moves(box.y, box.height, settings.height, near);
  Line line;
  for (const Frame& f : frames_)
    for (const Sighting& s : f.found)
      if (s.track == next.first->track) {
        const RegionBox& b = s.detection.box;
        line.add(double(s.time - start), b.x + px * b.width, b.y + py * b.height);
      }
  Offset speed;
  const double back = double(start - time);
  *doubt = back * line.speed(kPlaceDeviationPerExpand * settings.grow, &speed.x, &speed.y);
  return {-speed.x * back, -speed.y * back};
}

// Adds an object that has not been found yet. The centre of its box stays in the frame.
void RegionTracker::add_moved_back(const Next& next, const Settings& settings) {
  const Detection& d = next.first->detection;
  double doubt = 0;
  const Offset way = way_back(next, left_, settings, &doubt);
  const auto inside = [](double centre, double by, int end) {
    return std::clamp(centre + by, 0.0, double(end)) - centre;
  };
  const Offset by = {inside(centre_x(d.box), way.x, settings.width),
                     inside(centre_y(d.box), way.y, settings.height)};
  const double deviation = std::hypot(doubt, kPlaceDeviationPerExpand * settings.grow);
  const double margin = std::clamp(kCoveredDeviations * deviation - settings.grow, 0.0,
                                   kMostMarginPerExpand * settings.grow);
  // A box that was held back at the frame's edge grows less, by as much as it was held back.
  const auto grown = [&](const RegionBox& box) {
    RegionBox b = moved(box, by);
    const double dx = std::max(margin * b.object_width - std::abs(by.x - way.x), 0.0);
    const double dy = std::max(margin * b.object_height - std::abs(by.y - way.y), 0.0);
    b.x -= dx;
    b.y -= dy;
    b.width += 2 * dx;
    b.height += 2 * dy;
    return b;
  };
  if (d.parts.empty()) boxes_.push_back(grown(d.box));
  for (const RegionBox& part : d.parts) boxes_.push_back(grown(part));
  objects_++;
}

// Adds an object that was found before, and not in this frame.
void RegionTracker::add_held(const Held& h, const Settings& settings) {
  const size_t before = boxes_.size();
  const Next* next = settings.interpolate ? next_of(h.last.track) : nullptr;
  const int64_t gap = next ? next->first->time - h.last.time : 0;
  const bool lies_between = gap > 0 && gap <= longest_gap(settings);
  const Detection& from = h.last.detection;
  const bool has_parts = !from.parts.empty() || (next && !next->first->detection.parts.empty());
  if (lies_between && has_parts) {
    // The parts of two masks do not belong to each other.
    add(h.last);
    add(*next->first);
  } else if (lies_between) {
    // An object that was followed goes on from where it has come to.
    const int64_t end = next->first->time;
    const bool followed = h.has_speed && h.moved_at < end;
    const int64_t start = followed ? h.moved_at : h.last.time;
    boxes_.push_back(between(followed ? moved(from.box, h.moved) : from.box,
                             next->first->detection.box,
                             double(left_ - start) / double(end - start)));
    // It may be another object. Then the one that was lost is not held for longer than others.
    if (next->first->doubtful && h.age <= std::max(settings.hold, settings.look_ahead))
      boxes_.push_back(from.box);
  } else if (h.age <= settings.hold || settings.on_missing == OnMissing::hold) {
    if (settings.follow) following_.push_back({h.last.track, boxes_.size()});
    add(h.last);
  }
  objects_ += boxes_.size() > before;
}

// Returns how far a box may move by `offset` without leaving the frame. A box that lies over the
// edge does not come in by itself.
RegionTracker::Offset RegionTracker::limited(const RegionBox& box, Offset offset,
                                             const Settings& settings) {
  const auto within = [](double at, double size, double end, double by) {
    const double low = std::min(at, std::min(0.0, end - size));
    const double high = std::max(at, std::max(0.0, end - size));
    return std::clamp(at + by, low, high) - at;
  };
  return {within(box.x, box.width, settings.width, offset.x),
          within(box.y, box.height, settings.height, offset.y)};
}

// Moves a held box to the end of `motion`. The motion before it, from when the object was last
// found to the first measured frame, is taken to be the same.
void RegionTracker::move(const BoxMotion& motion, const Settings& settings, Held* h) {
  const int64_t passed = motion.to() - motion.from(), since = motion.to() - h->moved_at;
  if (since < 0 || (since == 0 && passed > 0) || motion.from() < h->last.time) return;
  const RegionBox& box = h->last.detection.box;
  const auto at_end = [&] { return limited(box, offset_at(*h, motion.to()), settings); };
  Offset now;
  const bool sure = motion.in(moved(box, at_end()), &now.x, &now.y);
  if (passed > 0) {
    const Offset speed = {now.x / double(passed), now.y / double(passed)};
    const double change = std::hypot(speed.x - h->speed.x, speed.y - h->speed.y) * double(passed);
    const bool other =
        h->has_speed && change > kChangeOfOtherObject * std::min(box.width, box.height);
    if ((!sure || other) && !h->left_behind) {
      h->left_behind = true;
      h->behind = h->moved;
    }
    if (sure) h->speed = speed;
    h->has_speed |= sure;
    h->moved = at_end();
    if (!h->has_speed) h->speed = {};
  } else if (sure) {
    // No time passes between frames without times.
    h->moved = limited(box, {h->moved.x + now.x, h->moved.y + now.y}, settings);
  }
  h->moved_at = motion.to();
}

void RegionTracker::follow(const BoxMotion* motion, const Settings& settings) {
  followed_.clear();
  for (const Following& f : following_) {
    const auto h = std::find_if(held_.begin(), held_.end(),
                                [&](const Held& held) { return held.last.track == f.track; });
    if (h == held_.end()) continue;
    if (motion) move(*motion, settings, &*h);
    const Detection& d = h->last.detection;
    const Offset offset = limited(d.box, offset_at(*h, left_), settings);
    followed_.push_back(moved(d.box, offset));
    // The frame that arrived last knows the object there, too.
    for (Held& n : newest_)
      if (n.last.track == f.track && n.last.time == h->last.time)
        n.moved = h->moved, n.speed = h->speed, n.moved_at = h->moved_at;
    const size_t count = std::max<size_t>(d.parts.size(), 1);
    for (size_t i = 0; i < count; i++) {
      const RegionBox& box = d.parts.empty() ? d.box : d.parts[i];
      boxes_[f.first + i] = moved(box, offset);
      if (h->left_behind) boxes_.push_back(moved(box, h->behind));
    }
  }
}

void RegionTracker::leave(const Settings& settings) {
  const Frame frame = std::move(frames_.front());
  frames_.pop_front();
  age(&held_, frame.time - left_, frame.seen, settings);
  left_ = frame.time;
  const auto is_found = [&](const Held& h) {
    return std::any_of(frame.found.begin(), frame.found.end(),
                       [&](const Sighting& s) { return h.last.track == s.track; });
  };
  held_.erase(std::remove_if(held_.begin(), held_.end(), is_found), held_.end());
  boxes_.clear();
  following_.clear();
  objects_ = 0;
  whole_ = !frame.seen && settings.on_missing == OnMissing::all;
  find_next();
  for (const Held& h : held_) add_held(h, settings);
  std::vector<uint64_t> known;
  for (const Held& h : held_)
    if (settings.interpolate) known.push_back(h.last.track);
  for (const Sighting& s : frame.found) known.push_back(s.track);
  std::sort(known.begin(), known.end());
  for (const auto& [track, next] : next_)
    if (next.first->time - left_ <= settings.look_ahead && left_ > next.first->known_until &&
        !std::binary_search(known.begin(), known.end(), track))
      add_moved_back(next, settings);
  hold(&held_, frame.found, settings);
  found_ = frame.found.size();
  for (const Sighting& s : frame.found) add(s);
  objects_ += found_;
}

}  // namespace vf
