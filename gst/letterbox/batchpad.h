// Defines the pads sink_%u of cudaletterboxbatch. A pad has the settings of its stream, the format,
// and the frames that wait for a batch.
#pragma once

#include <gst/base/gstaggregator.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "gst/base/format.h"
#include "gst/letterbox/batchmeta.h"
#include "gst/letterbox/letterboxsettings.h"

namespace gstvf {

// Says when a frame that waits for a batch came.
struct HeldTimes {
  GstClockTime running = GST_CLOCK_TIME_NONE;  // running time
  gint64 arrival = 0;  // monotonic time in microseconds at which it came, or was taken if not live
  guint64 serial = 0;  // order of arrival in all streams
};

// Holds such a frame.
struct HeldFrame : HeldTimes {
  GstBuffer* buffer = nullptr;  // a reference
  GstCaps* caps = nullptr;      // a reference
  std::shared_ptr<const Format> format;
  std::shared_ptr<const StreamEvents> events;

  void release();
};

// Holds the state of a pad. It belongs to the element's streaming thread, except the waiting
// frames, the counters and the settings.
class BatchPad : vf::NoCopy {
 public:
  ~BatchPad() { clear(); }

  // The format of the frames that come, null while it is unknown or refused.
  std::shared_ptr<const Format> format;
  GstCaps* caps = nullptr;
  std::shared_ptr<const StreamEvents> events;
  guint stream = 0;
  bool live = false;  // the source is live, so frames come at their times
  // Tells whether the caps that came last cannot be used. Then all frames are dropped.
  bool refused() const { return caps && !format; }
  gint64 period = 0;        // time between frames in microseconds; 0 if unknown
  gint64 last_arrival = 0;  // when the newest frame came
  bool gap = false;         // the stream said that it has no frame now
  bool stalled = false;     // the last batch has waited for this stream in vain
  bool known = false;       // the elements behind know of the stream
  bool ended = false;       // the end of the stream was announced
  bool told = false;        // the user was told why frames of the stream are dropped

  // These settings are in force. `accepted` is the newest that a plan was made with.
  LetterboxSettings settings;  // under the pad's object lock
  std::atomic<bool> settings_changed{true};
  std::shared_ptr<const LetterboxSettings> current, accepted;
  std::vector<const gchar*> own;  // names of properties that do not follow the element's

  std::atomic<guint64> frames{0}, dropped{0};

  // Locked while a frame goes from the pad's queue to the waiting frames, and by a flush of both.
  std::mutex taking;

  // The pad's own function. It is called after arrives().
  GstPadChainFunction chain = nullptr;
  // Notes when a frame has come, because the streaming thread takes it later if it is pushing a
  // batch.
  void arrives(GstBuffer* buffer);
  // The pad has refused the frame that has come last.
  void did_not_arrive(GstBuffer* buffer);
  // Tells when a frame that is taken out of the pad's queue has come. Returns false if it came
  // before a flush: GstAggregator may put a frame into the queue that it has just flushed.
  bool arrival_of(GstBuffer* buffer, gint64* when);
  void flush_arrivals();

  // These functions handle the waiting frames, which begin with the oldest. Any thread may call
  // them.
  size_t waiting() const;
  void add(HeldFrame&& frame);
  // Returns nothing if there is no waiting frame `n`.
  std::optional<HeldTimes> peek(size_t n) const;
  bool take(HeldFrame* frame);
  // Returns the oldest waiting frame (a full reference), or null.
  GstBuffer* oldest() const;
  // Keeps a GAP event (taken) until the frames in front of it have left. A frame or a GAP event
  // that follows replaces it.
  void add_gap(GstEvent* gap);
  // Returns the GAP event (taken from here) if no frame waits in front of it, or null.
  GstEvent* take_gap();
  // Drops all waiting frames and counts them.
  void clear();

 private:
  mutable std::mutex mutex_;
  std::deque<HeldFrame> held_;
  // Frames that may be in the pad's queue (no references), and those that a flush should have
  // found.
  std::deque<std::pair<GstBuffer*, gint64>> arrivals_, flushed_;
  GstEvent* gap_ = nullptr;
};

}  // namespace gstvf

#define GST_TYPE_CUDA_LETTERBOX_BATCH_PAD (gst_cuda_letterbox_batch_pad_get_type())
G_DECLARE_FINAL_TYPE(GstCudaLetterboxBatchPad, gst_cuda_letterbox_batch_pad, GST,
                     CUDA_LETTERBOX_BATCH_PAD, GstAggregatorPad)
struct _GstCudaLetterboxBatchPad {
  GstAggregatorPad parent;
  gstvf::BatchPad* state;
};

// Gives the pad the element's value of a property, unless the pad has a value of its own.
void gst_cuda_letterbox_batch_pad_follow(GstCudaLetterboxBatchPad* pad, GParamSpec* spec,
                                         const GValue* value);
// Takes over changes of the pad's settings. Call it from the streaming thread.
std::shared_ptr<const gstvf::LetterboxSettings> gst_cuda_letterbox_batch_pad_settings(
    GstCudaLetterboxBatchPad* pad);
// Puts the settings back with which a plan was made last, and warns that those in force could not
// be used, for the reason `why`. Returns false if there are none to put back.
bool gst_cuda_letterbox_batch_pad_put_back(GstCudaLetterboxBatchPad* pad, const char* why);
