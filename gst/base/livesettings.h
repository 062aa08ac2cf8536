// Logs changes of settings while frames come, until a plan has been made with them.
//
// Only making a plan shows whether a value works together with all others that were set since the
// previous frame. The log keeps the values that a plan was made with, so that they can be put back
// if none can be made with later ones. If all are put back, the settings are the ones that worked.
#pragma once

#include <gst/gst.h>

#include <map>
#include <string>
#include <vector>

#include "filters/no_copy.h"

namespace gstvf {

// Describes a change of a property.
struct SettingChange {
  GParamSpec* spec;
  GValue former;
  bool controlled;  // a controller had set it
};
// Describes a value that was put back.
struct PutBack : SettingChange {
  GValue value;
};

// Call all functions under the object's lock.
class LiveSettings : vf::NoCopy {
 public:
  ~LiveSettings() { clear(); }

  // Logs that a property was set in place of the value `former`.
  void changed(GParamSpec* spec, const GValue& former, bool controlled);
  // Returns the number of the last change. Call it before the settings are read for a plan.
  guint64 last() const { return last_; }
  // Drops the changes, which a plan was made with, if `seen` is still the last one. Otherwise it
  // returns false, because it is not known which of them the plan has.
  bool commit(guint64 seen);
  // Takes the change to put back after the settings failed with the changes up to `seen`. It is the
  // change of the property `named`, or else the last one. Returns false if there is none, or if
  // other changes came since. In the second case, `*again` says that the settings may be tried once
  // more.
  bool take(guint64 seen, const GParamSpec* named, PutBack* out, bool* again);
  void clear();

  // Tells whether to warn about a refused value. Values of an application always get a warning. A
  // controller sets a value for each frame, so its values get one only if none was refused in the
  // last ten seconds.
  bool should_say(const GParamSpec* spec, bool controlled);

 private:
  void drop_log();

  std::vector<SettingChange> log_;  // one for each property, from the oldest to the newest
  guint64 last_ = 0;
  std::map<const GParamSpec*, gint64> refused_;  // when a controller's value last was
};

}  // namespace gstvf
