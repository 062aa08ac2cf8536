// Changes of settings while frames come, until a plan has been made with them.
//
// Whether a value can be used is known when a plan is made with it, and with all others that were
// set since the frame before. The log keeps the values that were in force, so that those which no
// plan can be made with are put back.
#pragma once

#include <gst/gst.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

namespace gstvf {

// A value that was put back.
struct PutBack {
  GParamSpec* spec;
  GValue value, former;
  bool controlled;  // it came from a controller
};

// All functions but pending() are called under the object's lock.
class LiveSettings {
 public:
  LiveSettings() = default;
  ~LiveSettings() { clear(); }
  LiveSettings(const LiveSettings&) = delete;
  LiveSettings& operator=(const LiveSettings&) = delete;

  // A property was set in place of the value `former`.
  void changed(GParamSpec* spec, const GValue& former, bool controlled);
  // Whether there are changes that no plan has been made with. Any thread, without locks.
  bool pending() const { return pending_; }
  // The changes so far, before settings are read for a plan.
  guint64 begin();
  // A plan was made with at least these changes.
  void commit(guint64 seen);
  // Why settings failed with these changes is known. Gives the change to put back: that of the
  // property `named`, or else the last one. False where there is none, or where others came since,
  // and `*again` then says that the settings may be tried once more.
  bool take(guint64 seen, const GParamSpec* named, PutBack* out, bool* again);
  void clear();

  // Whether to say that a value was refused: always where an application set it, and of those of a
  // controller, which sets one at each frame, only after a time without.
  bool should_say(const GParamSpec* spec, bool controlled);

 private:
  struct Change {
    GParamSpec* spec;
    GValue former;
    guint64 number;
    bool controlled;
  };
  void drop(size_t index);

  std::vector<Change> log_;
  guint64 last_ = 0, begun_ = 0;
  std::map<const GParamSpec*, gint64> refused_;  // by a controller: when last
  std::atomic<bool> pending_{false};
};

}  // namespace gstvf
