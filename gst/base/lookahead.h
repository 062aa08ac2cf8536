// Holds frames that wait for later ones, for elements that look ahead. They wait for a time if the
// element's class has look_ahead(), arrive() and leave(), or for a number of frames if it has
// frames_ahead().
//
// A frame waits as a reference, before anything is done with it: settings, controllers and QoS act
// when it leaves. Events that belong between frames wait in line with them. New caps, a new
// segment, the end of the stream and queries that drain let all frames leave first. A flush drops
// them. A gap counts as the time, or the number of frames, that it leaves out. A frame that is
// marked DISCONT waits like any other, because an object that is found after it may also be in the
// frames before it.
//
// Frames leave early in two cases, and a warning says so: nothing says how long they last, or
// upstream would run out of buffers. For an element with frames_ahead(), the first case is that of
// caps without a frame rate. The latency is then unknown, and frames leave at once.
//
// After look_ahead() has grown, frames in CUDA memory without a pool wait as long as before until
// upstream has asked for the number of buffers again.
#pragma once

#include <gst/gst.h>

#include <atomic>
#include <deque>
#include <vector>

#include "filters/status.h"

typedef struct _GstCudaVideoFilter GstCudaVideoFilter;

namespace gstvf {

// Holds the frames of one element. Belongs to the streaming thread, or to start and stop.
struct WaitingFrames {
  struct Item {
    GstMiniObject* object;  // a buffer or an event, as a full reference
    GstClockTime time;      // on the element's own clock, or the number of the frame
  };
  std::deque<Item> items;
  GstClockTime newest = 0;
  size_t hurried = 0;          // so many frames leave although they have not waited long enough
  bool drains = false;         // all of them leave
  bool waits = false;          // the newest frame waits, or others wait before it
  bool discont_waits = false;  // GstBaseTransform would mark the next frame as DISCONT
  bool says_times = true, says_pool = true;  // the warnings are still to come
  // This is the look_ahead() for which upstream's pool was last asked to have frames, or
  // GST_CLOCK_TIME_NONE. Any thread may read it.
  std::atomic<GstClockTime> asked{GST_CLOCK_TIME_NONE};
};

// Returns how long frames wait: in nanoseconds, or in frames for an element with frames_ahead().
// Any thread may call it.
GstClockTime look_ahead(GstCudaVideoFilter* self);
// Returns it in nanoseconds, for the latency. Any thread may call it.
GstClockTime look_ahead_latency(GstCudaVideoFilter* self);
// Tells the pipeline that look_ahead() may have changed. If it has grown since upstream asked for
// the number of buffers, upstream is made to ask again. Any thread may call it.
void look_ahead_changed(GstCudaVideoFilter* self);
// Returns how many frames of these caps wait, as far as that is known. Upstream asks for it.
guint frames_waiting(GstCudaVideoFilter* self, GstCaps* caps);
// Decides whether the next frame waits, before it is taken.
bool decide_waiting(GstCudaVideoFilter* self);
// Takes a frame that has come in, if it waits. Otherwise it goes on at once. The frame stays the
// caller's after an error.
vf::Status keep_waiting(GstCudaVideoFilter* self, GstBuffer* in, bool* waits);
// Takes an event if it has to wait in line. Returns false if it does not.
bool keep_event(GstCudaVideoFilter* self, GstEvent* event);
// Gives the next buffer or event that leaves, or null if there is none yet. The caller calls
// leave() for a buffer once its settings are in force.
GstMiniObject* next_to_leave(GstCudaVideoFilter* self);
vf::Status leave(GstCudaVideoFilter* self);
// Returns the frames that wait behind the one which has just left, as far as the element uses them:
// at most frames_ahead(), up to a discontinuity.
std::vector<GstBuffer*> later_frames(GstCudaVideoFilter* self);
// Drop all that waits, for a flush or a stop. Events that stay on pads go on after a flush: they
// are returned in order, and the caller owns them.
GList* drop_waiting(GstCudaVideoFilter* self);

// Drops all that waits, and makes the frames' holder ready for the next start.
void clear_waiting(GstCudaVideoFilter* self);

}  // namespace gstvf
