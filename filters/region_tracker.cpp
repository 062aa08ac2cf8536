#include "filters/region_tracker.h"

#include <algorithm>

namespace vf {
namespace {

// Largest number of objects that are held.
constexpr size_t kMaxHeld = 2 * RegionParams::kMost;

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

}  // namespace

void RegionTracker::reset() {
  held_.clear();
  boxes_.clear();
  whole_ = false;
  found_ = 0;
}

// Returns the index of the held box that `d` replaces, or held_.size() if there is none.
size_t RegionTracker::find(const Detection& d, Match match) const {
  size_t best = held_.size();
  double most = 0;
  for (size_t i = 0; i < held_.size(); i++) {
    const Detection& h = held_[i].detection;
    const bool have_ids = d.id != Detection::kNoId && h.id != Detection::kNoId;
    if (match == Match::overlap ? have_ids && d.tracked : !have_ids || d.id != h.id) continue;
    const double share = overlap(d.box, h.box);
    const bool near = share >= kOverlap;
    const bool fits = match == Match::id ? near || d.tracked : near || match == Match::id_anywhere;
    if (fits && share >= most) most = share, best = i;
  }
  return best;
}

// Drops held boxes that were found again. Each new box replaces at most one of them, so that if one
// of two overlapping objects vanishes, it is held.
void RegionTracker::replace(const std::vector<Detection>& result) {
  unmatched_.clear();
  for (const Detection& d : result) unmatched_.push_back(&d);
  for (const Match match : {Match::id, Match::overlap, Match::id_anywhere}) {
    size_t left = 0;
    for (const Detection* d : unmatched_) {
      const size_t found = find(*d, match);
      if (found < held_.size())
        held_.erase(held_.begin() + ptrdiff_t(found));
      else
        unmatched_[left++] = d;
    }
    unmatched_.resize(left);
  }
}

void RegionTracker::update(int64_t elapsed, const std::vector<Detection>* result,
                           const Settings& settings) {
  // With OnMissing::hold, held boxes do not age while results are missing.
  if (result || settings.on_missing != OnMissing::hold) {
    for (Held& h : held_) h.age += std::max<int64_t>(elapsed, 0);
    held_.erase(std::remove_if(held_.begin(), held_.end(),
                               [&](const Held& h) { return h.age > settings.hold; }),
                held_.end());
  }
  if (result) {
    replace(*result);
    for (const Detection& d : *result) held_.push_back({d, 0});
    if (held_.size() > kMaxHeld) held_.erase(held_.begin(), held_.end() - ptrdiff_t(kMaxHeld));
  }
  found_ = result ? std::min(result->size(), held_.size()) : 0;
  whole_ = !result && settings.on_missing == OnMissing::all;
  boxes_.clear();
  for (const Held& h : held_)
    if (h.detection.parts.empty())
      boxes_.push_back(h.detection.box);
    else
      boxes_.insert(boxes_.end(), h.detection.parts.begin(), h.detection.parts.end());
}

}  // namespace vf
