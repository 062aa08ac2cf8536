#include "filters/region_tracker.h"

#include <algorithm>
#include <cmath>

namespace vf {
namespace {

// Largest number of objects that are held.
constexpr size_t kMaxHeld = 2 * RegionParams::kMost;
// A change of a held object's speed, from one measured frame to the next, by which something else
// moves there: a share of the box's smaller side.
constexpr double kOther = 0.08;

double length(double a0, double a1, double b0, double b1) {
  return std::max(0.0, std::min(a1, b1) - std::max(a0, b0));
}

// Returns the intersection of two boxes as a share of their union. Their angles are ignored.
double overlap(const RegionBox& a, const RegionBox& b) {
  const double common = length(a.x, a.x + a.width, b.x, b.x + b.width) *
                        length(a.y, a.y + a.height, b.y, b.y + b.height);
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

// Moves a box that lies in the frame at least in part, so that it lies in it as far as it can.
void move_inside(RegionBox* box, int width, int height) {
  const auto inside = [](double at, double size, double end) {
    return size >= end ? std::clamp(at, end - size, 0.0) : std::clamp(at, 0.0, end - size);
  };
  box->x = inside(box->x, box->width, width);
  box->y = inside(box->y, box->height, height);
}

}  // namespace

void RegionTracker::reset() {
  newest_.clear();
  held_.clear();
  boxes_.clear();
  following_.clear();
  whole_ = false;
  objects_ = found_ = 0;
}

void RegionTracker::clear() {
  reset();
  frames_.clear();
}

// Returns the index of the newest box that `d` replaces, or newest_.size() if there is none.
size_t RegionTracker::find(const Detection& d, Match match) const {
  size_t best = newest_.size();
  double most = 0;
  for (size_t i = 0; i < newest_.size(); i++) {
    const Detection& h = newest_[i].last.detection;
    const bool have_ids = d.id != Detection::kNoId && h.id != Detection::kNoId;
    if (match == Match::overlap ? have_ids && d.tracked : !have_ids || d.id != h.id) continue;
    const double share = overlap(d.box, h.box);
    const bool near = share >= kOverlap;
    const bool fits = match == Match::id ? near || d.tracked : near || match == Match::id_anywhere;
    if (fits && share >= most) most = share, best = i;
  }
  return best;
}

// Tells whether more than one object may have been found here. A tracker's id leaves no doubt.
bool RegionTracker::is_doubtful(const Detection& d) const {
  if (d.tracked && d.id != Detection::kNoId) return false;
  const auto near = [&](const Held& h) { return overlap(d.box, h.last.detection.box) > 0; };
  return std::count_if(newest_.begin(), newest_.end(), near) > 1;
}

// Numbers the objects of a result. Drops those of newest_ that were found again. Each new box
// replaces at most one of them, so that if one of two overlapping objects vanishes, it is held.
void RegionTracker::recognise(std::vector<Sighting>* found) {
  unmatched_.clear();
  for (Sighting& s : *found) {
    s.doubtful = is_doubtful(s.detection);
    unmatched_.push_back(&s);
  }
  for (const Match match : {Match::id, Match::overlap, Match::id_anywhere}) {
    size_t left = 0;
    for (Sighting* s : unmatched_) {
      const size_t at = find(s->detection, match);
      if (at == newest_.size()) {
        unmatched_[left++] = s;
        continue;
      }
      s->track = newest_[at].last.track;
      newest_.erase(newest_.begin() + ptrdiff_t(at));
    }
    unmatched_.resize(left);
  }
  for (Sighting* s : unmatched_) s->track = ++tracks_;
}

// With OnMissing::hold, held boxes do not age while results are missing.
void RegionTracker::age(std::vector<Held>* held, int64_t elapsed, bool seen,
                        const Settings& settings) {
  if (!seen && settings.on_missing == OnMissing::hold) return;
  const int64_t most = std::max(settings.hold, settings.look_ahead);
  for (Held& h : *held) h.age += std::max<int64_t>(elapsed, 0);
  held->erase(
      std::remove_if(held->begin(), held->end(), [most](const Held& h) { return h.age > most; }),
      held->end());
}

void RegionTracker::hold(std::vector<Held>* held, const std::vector<Sighting>& found) {
  for (const Sighting& s : found) held->push_back({s, 0, {}, {}, s.time, false, false, {}});
  if (held->size() > kMaxHeld) held->erase(held->begin(), held->end() - ptrdiff_t(kMaxHeld));
}

void RegionTracker::arrive(int64_t elapsed, const std::vector<Detection>* result,
                           const Settings& settings) {
  arrived_ += std::max<int64_t>(elapsed, 0);
  age(&newest_, elapsed, result, settings);
  // If there is no memory, the frame has not arrived.
  Frame frame = {arrived_, result != nullptr, {}};
  std::vector<Sighting>& found = frame.found;
  if (!result) {
    frames_.push_back(std::move(frame));
    return;
  }
  const size_t left_out = result->size() - std::min(result->size(), kMaxHeld);
  for (size_t i = left_out; i < result->size(); i++)
    found.push_back({(*result)[i], 0, arrived_, false});
  recognise(&found);
  hold(&newest_, found);
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

// Adds an object that has not been found yet.
void RegionTracker::add_moved_back(const Next& next, const Settings& settings) {
  const Detection& d = next.first->detection;
  const RegionBox &first = d.box, &last = next.last->detection.box;
  double x = 0, y = 0;
  if (next.last->time > next.first->time) {
    const double times =
        double(next.first->time - left_) / double(next.last->time - next.first->time);
    x = (first.x + first.width / 2 - last.x - last.width / 2) * times;
    y = (first.y + first.height / 2 - last.y - last.height / 2) * times;
  }
  RegionBox moved = first;
  moved.x += x;
  moved.y += y;
  move_inside(&moved, settings.width, settings.height);
  x = moved.x - first.x;
  y = moved.y - first.y;
  const auto grown = [&](RegionBox b) {
    const double dx = settings.grow * b.object_width, dy = settings.grow * b.object_height;
    b.object_x += x;
    b.object_y += y;
    b.x += x - dx;
    b.y += y - dy;
    b.width += 2 * dx;
    b.height += 2 * dy;
    return b;
  };
  if (d.parts.empty()) boxes_.push_back(grown(first));
  for (const RegionBox& part : d.parts) boxes_.push_back(grown(part));
  objects_++;
}

// Adds an object that was found before, and not in this frame.
void RegionTracker::add_held(const Held& h, const Settings& settings) {
  const size_t before = boxes_.size();
  const Next* next = settings.interpolate ? next_of(h.last.track) : nullptr;
  const int64_t gap = next ? next->first->time - h.last.time : 0;
  const bool lies_between = gap > 0 && gap <= std::max(settings.hold, settings.look_ahead);
  const Detection& from = h.last.detection;
  const bool has_parts = !from.parts.empty() || (next && !next->first->detection.parts.empty());
  if (lies_between && has_parts) {
    // The parts of two masks do not belong to each other.
    add(h.last);
    add(*next->first);
  } else if (lies_between) {
    boxes_.push_back(
        between(from.box, next->first->detection.box, double(left_ - h.last.time) / double(gap)));
    if (next->first->doubtful && h.age <= settings.hold) boxes_.push_back(from.box);
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

// Moves a held box to the end of `motion`. The motion before it, from when the object was last found
// to the first measured frame, is taken to be the same.
void RegionTracker::move(const BoxMotion& motion, const Settings& settings, Held* h) {
  const int64_t passed = motion.to() - motion.from(), since = motion.to() - h->moved_at;
  if (since < 0 || (since == 0 && passed > 0) || motion.from() < h->last.time) return;
  const RegionBox& box = h->last.detection.box;
  const auto at_end = [&](Offset speed) {
    return limited(
        box, {h->moved.x + speed.x * double(since), h->moved.y + speed.y * double(since)},
        settings);
  };
  // Where the box was in that frame.
  RegionBox seen = box;
  const Offset guessed = at_end(h->speed);
  seen.x += guessed.x;
  seen.y += guessed.y;
  Offset now;
  const bool sure = motion.in(seen, &now.x, &now.y);
  if (passed > 0) {
    const Offset speed = {now.x / double(passed), now.y / double(passed)};
    const double change = std::hypot(speed.x - h->speed.x, speed.y - h->speed.y) * double(passed);
    const bool other = h->has_speed && change > kOther * std::min(box.width, box.height);
    if ((!sure || other) && !h->left_behind) {
      h->left_behind = true;
      h->behind = h->moved;
    }
    if (sure) h->speed = speed;
    h->has_speed |= sure;
    h->moved = at_end(h->speed);
  } else if (sure) {
    // No time passes between frames without times.
    h->moved = limited(box, {h->moved.x + now.x, h->moved.y + now.y}, settings);
  }
  h->moved_at = motion.to();
}

void RegionTracker::follow(const BoxMotion* motion, const Settings& settings) {
  for (const Following& f : following_) {
    const auto h = std::find_if(held_.begin(), held_.end(),
                                [&](const Held& held) { return held.last.track == f.track; });
    if (h == held_.end()) continue;
    if (motion) move(*motion, settings, &*h);
    const Detection& d = h->last.detection;
    const double ahead = double(left_ - h->moved_at);
    const Offset offset = limited(
        d.box, {h->moved.x + h->speed.x * ahead, h->moved.y + h->speed.y * ahead}, settings);
    const auto moved = [](RegionBox b, const Offset& by) {
      b.x += by.x, b.object_x += by.x;
      b.y += by.y, b.object_y += by.y;
      return b;
    };
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
  for (const Sighting& s : frame.found)
    held_.erase(std::remove_if(held_.begin(), held_.end(),
                               [&](const Held& h) { return h.last.track == s.track; }),
                held_.end());
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
    if (next.first->time - left_ <= settings.look_ahead &&
        !std::binary_search(known.begin(), known.end(), track))
      add_moved_back(next, settings);
  hold(&held_, frame.found);
  found_ = frame.found.size();
  for (const Sighting& s : frame.found) add(s);
  objects_ += found_;
}

}  // namespace vf
