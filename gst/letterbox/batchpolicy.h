// Decides when a batch goes, and with which frames.
#pragma once

#include <vector>

#include "gst/base/properties.h"
#include "gst/letterbox/batchpad.h"

namespace gstvf {

enum class BatchLate { drop, next };
enum class BatchSync { arrival, pts };

struct BatchSettings {
  static constexpr guint kNoLimit = G_MAXUINT;
  static constexpr vf::Limits<guint> kBatchSize{0, 1024}, kMaxWait{0, kNoLimit},
      kMaxPerStream{1, 1024};

  guint batch_size = 0;
  guint max_wait = 40;  // milliseconds
  BatchLate late = BatchLate::next;
  BatchSync sync = BatchSync::arrival;
  guint max_per_stream = 1;

  // Call this from class_init. `wait_changed` is called after changes of max-wait.
  static void install(GObjectClass* klass, BatchSettings* (*settings_of)(GObject*),
                      void (*wait_changed)(GObject*));
};

// Holds what a decision depends on, besides the pads.
struct BatchMoment {
  gint64 now;            // monotonic time in microseconds
  GstClockTime running;  // the element's running time
  GstClockTime latency;  // the element's and upstream's together
};

// Belongs to the streaming thread.
class BatchPolicy {
 public:
  // Sets the settings, and the number of rows of a batch.
  void configure(const BatchSettings& settings, size_t rows);
  // Makes the next batch independent of the former ones.
  void reset() { end_ = GST_CLOCK_TIME_NONE; }

  // Tells whether a pad takes another frame from its queue now. Otherwise upstream waits.
  bool has_room(const BatchPad& pad) const;
  // Tells whether a frame comes too late for the batch that it belongs to, and is to be dropped.
  bool drops(GstClockTime running) const;
  // Tells how many of the oldest waiting frames are to be dropped because newer ones have come.
  size_t surplus(const BatchPad& pad) const;

  // Returns when the batch goes at the latest: a monotonic time in microseconds. It is in the past
  // if the batch is complete, and G_MAXINT64 if no frame waits or there is no limit.
  gint64 due(const std::vector<GstCudaLetterboxBatchPad*>& pads, const BatchMoment& moment) const;
  // Returns the pads whose oldest frames make the batch, with a pad once for each frame, in the
  // order of streams. Marks live streams that were waited for in vain.
  std::vector<GstCudaLetterboxBatchPad*> choose(const std::vector<GstCudaLetterboxBatchPad*>& pads,
                                                const BatchMoment& moment);

 private:
  // Number of frames of a live stream that may wait besides those of the next batch.
  static constexpr size_t kLiveFrames = 16;
  struct Window {
    GstClockTime begin = GST_CLOCK_TIME_NONE, end = GST_CLOCK_TIME_NONE;
    gint64 arrival = G_MAXINT64;  // when the frame that waits longest came
  };
  Window window(const std::vector<GstCudaLetterboxBatchPad*>& pads) const;
  size_t ready(const BatchPad& pad, const Window& window) const;
  bool awaits(GstCudaLetterboxBatchPad* pad, const Window& window, gint64 limit) const;
  gint64 limit(const Window& window, const BatchMoment& moment) const;

  BatchSettings settings_;
  size_t rows_ = 0;
  GstClockTime end_ = GST_CLOCK_TIME_NONE;  // running time at which the last batch ended (pts)
};

}  // namespace gstvf
