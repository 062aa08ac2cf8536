#include "gst/letterbox/batchpolicy.h"

#include <algorithm>

namespace gstvf {

using Pads = std::vector<GstCudaLetterboxBatchPad*>;

void BatchSettings::install(GObjectClass* klass, BatchSettings* (*settings_of)(GObject*),
                            void (*wait_changed)(GObject*)) {
  using S = BatchSettings;
  const GType late =
      enum_type("GstCudaLetterboxBatchLate",
                {{BatchLate::drop,
                  "Drop them, and keep only the newest waiting frames of each stream", "drop"},
                 {BatchLate::next,
                  "Put them into the next batches. Upstream waits while they are full", "next"}});
  const GType sync = enum_type(
      "GstCudaLetterboxBatchSync",
      {{BatchSync::arrival, "Frames that arrive together", "arrival"},
       {BatchSync::pts, "Frames whose running times differ by less than one frame", "pts"}});
  install_properties<S>(
      klass, settings_of,
      {
          {"batch-size", "Batch size", &S::batch_size, kBatchSize,
           "Number of rows of a batch. 0 = the number in downstream caps, or else the number of "
           "pads when the first batch is made",
           kReady},
          {"max-wait", "Maximum wait", &S::max_wait, kMaxWait,
           "Maximum time in milliseconds that a frame waits for the other frames of its batch. "
           "Then the batch goes, with absent rows. It is reported as latency. 4294967295 = wait "
           "until the batch is complete, and report no latency",
           RowOptions{kPlaying, nullptr, wait_changed}},
          {"late", "Late", &S::late, late,
           "What to do with frames that come after their batch has gone", kPlaying},
          {"sync", "Synchronisation", &S::sync, sync, "Which frames one batch contains", kPlaying},
          {"max-per-stream", "Maximum per stream", &S::max_per_stream, kMaxPerStream,
           "Maximum number of rows of one stream in one batch", kReady},
      });
}

void BatchPolicy::configure(const BatchSettings& settings, size_t rows) {
  settings_ = settings;
  rows_ = rows;
}

bool BatchPolicy::has_room(const BatchPad& pad) const {
  // With late=drop, newer frames replace waiting ones.
  if (settings_.late == BatchLate::drop && settings_.sync == BatchSync::arrival) return true;
  // Live frames are taken as they come, since max-wait counts from then on: batches go until no
  // frame is older. Otherwise a stream that was late once would keep the others waiting for ever.
  return pad.waiting() < settings_.max_per_stream + (pad.live ? kLiveFrames : 0);
}

bool BatchPolicy::drops(GstClockTime running) const {
  return settings_.late == BatchLate::drop && settings_.sync == BatchSync::pts &&
         GST_CLOCK_TIME_IS_VALID(end_) && GST_CLOCK_TIME_IS_VALID(running) && running < end_;
}

size_t BatchPolicy::surplus(const BatchPad& pad) const {
  const size_t waiting = pad.waiting(), most = settings_.max_per_stream;
  if (settings_.late != BatchLate::drop || settings_.sync != BatchSync::arrival) return 0;
  return waiting > most ? waiting - most : 0;
}

// Returns the running times of the batch that is being made. With sync=arrival they are not used.
BatchPolicy::Window BatchPolicy::window(const Pads& pads) const {
  Window w;
  gint64 period = 0;
  for (const auto* pad : pads) {
    const BatchPad& s = *pad->state;
    if (s.period && (!period || s.period < period)) period = s.period;
    const auto oldest = s.peek(0);
    if (!oldest) continue;
    w.arrival = std::min(w.arrival, oldest->arrival);
    // GST_CLOCK_TIME_NONE is the largest time.
    w.begin = std::min(w.begin, oldest->running);
  }
  if (GST_CLOCK_TIME_IS_VALID(w.begin))
    w.end = w.begin + (period ? guint64(period) * GST_USECOND : 40 * GST_MSECOND);
  return w;
}

// Returns how many waiting frames of a stream belong to the batch.
size_t BatchPolicy::ready(const BatchPad& pad, const Window& window) const {
  // GST_CLOCK_TIME_NONE is the largest time.
  const auto belongs = [&](const HeldTimes& frame) {
    return settings_.sync != BatchSync::pts || !GST_CLOCK_TIME_IS_VALID(frame.running) ||
           frame.running < window.end;
  };
  size_t n = 0;
  for (; n < settings_.max_per_stream; n++)
    if (const auto frame = pad.peek(n); !frame || !belongs(*frame)) break;
  return n;
}

// Tells whether a batch that must go at `limit` waits for another frame of a stream.
bool BatchPolicy::awaits(GstCudaLetterboxBatchPad* pad, const Window& window, gint64 limit) const {
  const BatchPad& s = *pad->state;
  const size_t n = ready(s, window);
  // A frame that waits and is not ready belongs to a later batch.
  if (n >= settings_.max_per_stream || s.waiting() > n || s.gap || s.stalled || s.refused())
    return false;
  if (gst_aggregator_pad_is_eos(GST_AGGREGATOR_PAD(pad)) || !gst_pad_is_linked(GST_PAD(pad)))
    return false;
  // The next frame of a slow live stream may be due later.
  return !(s.live && s.period && s.last_arrival && s.last_arrival + s.period > limit);
}

// Returns when a batch goes that is not complete.
gint64 BatchPolicy::limit(const Window& window, const BatchMoment& moment) const {
  if (window.arrival == G_MAXINT64 || settings_.max_wait == BatchSettings::kNoLimit)
    return G_MAXINT64;
  const gint64 limit = window.arrival + gint64(settings_.max_wait) * 1000;
  if (settings_.sync == BatchSync::arrival || !GST_CLOCK_TIME_IS_VALID(window.begin) ||
      !GST_CLOCK_TIME_IS_VALID(moment.running) || !GST_CLOCK_TIME_IS_VALID(moment.latency))
    return limit;
  // Frames of streams with different latency come at different times. The pipeline's clock says
  // when the slowest of them must be here.
  const GstClockTimeDiff left =
      GST_CLOCK_DIFF(moment.running, window.begin) + GstClockTimeDiff(moment.latency);
  return std::max(limit, moment.now + left / 1000);
}

gint64 BatchPolicy::due(const Pads& pads, const BatchMoment& moment) const {
  const Window w = window(pads);
  if (w.arrival == G_MAXINT64) return G_MAXINT64;
  const gint64 last = limit(w, moment);
  size_t frames = 0;
  bool awaited = false;
  for (auto* pad : pads) {
    frames += ready(*pad->state, w);
    awaited = awaited || awaits(pad, w, last);
  }
  return !awaited || frames >= rows_ ? 0 : last;
}

Pads BatchPolicy::choose(const Pads& pads, const BatchMoment& moment) {
  struct Candidate {
    guint64 serial;
    GstCudaLetterboxBatchPad* pad;
  };
  const Window w = window(pads);
  std::vector<Candidate> candidates;
  const gint64 last = limit(w, moment);
  for (auto* pad : pads) {
    BatchPad& s = *pad->state;
    const size_t n = ready(s, w);
    for (size_t i = 0; i < n; i++)
      if (const auto frame = s.peek(i)) candidates.push_back({frame->serial, pad});
    if (s.live && n == 0 && moment.now >= last && awaits(pad, w, last)) s.stalled = true;
  }
  // The frames that came first have a place. A stream's frames stay in their order.
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.serial < b.serial; });
  if (candidates.size() > rows_) candidates.resize(rows_);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.pad->state->stream < b.pad->state->stream;
                   });
  if (GST_CLOCK_TIME_IS_VALID(w.end))
    end_ = GST_CLOCK_TIME_IS_VALID(end_) ? std::max(end_, w.end) : w.end;
  Pads chosen;
  for (const Candidate& c : candidates) chosen.push_back(c.pad);
  return chosen;
}

}  // namespace gstvf
