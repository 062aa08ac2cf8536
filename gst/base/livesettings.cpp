#include "gst/base/livesettings.h"

#include <algorithm>

namespace gstvf {

void LiveSettings::changed(GParamSpec* spec, const GValue& former, bool controlled) {
  last_++;
  const auto logged = std::find_if(log_.begin(), log_.end(),
                                   [spec](const SettingChange& c) { return c.spec == spec; });
  if (logged == log_.end()) {
    log_.push_back({spec, G_VALUE_INIT, controlled});
    g_value_init(&log_.back().former, G_VALUE_TYPE(&former));
    g_value_copy(&former, &log_.back().former);
  } else {
    // The value before the first change is the one that worked.
    logged->controlled = controlled;
    std::rotate(logged, logged + 1, log_.end());
  }
}

bool LiveSettings::commit(guint64 seen) {
  if (last_ != seen) return false;
  drop_log();
  return true;
}

bool LiveSettings::take(guint64 seen, const GParamSpec* named, PutBack* out, bool* again) {
  *again = last_ != seen;
  if (*again || log_.empty()) return false;
  auto change = std::find_if(log_.begin(), log_.end(),
                             [named](const SettingChange& c) { return c.spec == named; });
  if (change == log_.end()) change--;
  *out = {*change, G_VALUE_INIT};
  log_.erase(change);
  return true;
}

void LiveSettings::drop_log() {
  for (SettingChange& c : log_) g_value_unset(&c.former);
  log_.clear();
}

void LiveSettings::clear() {
  drop_log();
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
