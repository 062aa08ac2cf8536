#include "gst/base/livesettings.h"

#include <algorithm>

namespace gstvf {

void LiveSettings::changed(GParamSpec* spec, const GValue& former, bool controlled) {
  last_++;
  // The value in force is the one before the first change that no plan has seen.
  for (const Change& c : log_)
    if (c.spec == spec && c.number > begun_) return;
  Change change{spec, G_VALUE_INIT, last_, controlled};
  g_value_init(&change.former, G_VALUE_TYPE(&former));
  g_value_copy(&former, &change.former);
  log_.push_back(change);
  pending_ = true;
}

guint64 LiveSettings::begin() {
  return begun_ = last_;
}

void LiveSettings::drop(size_t index) {
  g_value_unset(&log_[index].former);
  log_.erase(log_.begin() + ptrdiff_t(index));
  pending_ = !log_.empty();
}

void LiveSettings::commit(guint64 seen) {
  for (size_t i = log_.size(); i-- > 0;)
    if (log_[i].number <= seen) drop(i);
}

bool LiveSettings::take(guint64 seen, const GParamSpec* named, PutBack* out, bool* again) {
  *again = last_ != seen;
  if (*again || log_.empty()) return false;
  const bool has_named =
      std::any_of(log_.begin(), log_.end(), [named](const Change& c) { return c.spec == named; });
  const Change last = log_.back();
  out->spec = has_named ? const_cast<GParamSpec*>(named) : last.spec;
  out->value = out->former = G_VALUE_INIT;
  for (size_t i = log_.size(); i-- > 0;) {
    if (log_[i].spec != out->spec) continue;
    // The value before the first change was in force.
    if (G_IS_VALUE(&out->former)) g_value_unset(&out->former);
    g_value_init(&out->former, G_VALUE_TYPE(&log_[i].former));
    g_value_copy(&log_[i].former, &out->former);
    out->controlled = log_[i].controlled;
    drop(i);
  }
  return true;
}

void LiveSettings::clear() {
  while (!log_.empty()) drop(log_.size() - 1);
  refused_.clear();
}

bool LiveSettings::should_say(const GParamSpec* spec, bool controlled) {
  constexpr gint64 quiet = 10 * G_TIME_SPAN_SECOND;
  if (!controlled) return true;
  const gint64 now = g_get_monotonic_time();
  const auto before = refused_.find(spec);
  const bool say = before == refused_.end() || now - before->second > quiet;
  refused_[spec] = now;
  return say;
}

}  // namespace gstvf
