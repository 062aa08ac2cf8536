// Hands the frames of batches from cudaletterboxbatch to cudaletterboxunbatch.
//
// Each batch carries its rows in a meta (gstcudaletterboxbatchmeta.h). A row also knows the sticky
// events of its stream, since those do not pass through the batch. Events between the batches say
// which streams have ended.
#pragma once

#include <memory>
#include <vector>

#include "filters/letterbox.h"
#include "gst/gstcudaletterboxbatchmeta.h"

namespace gstvf {

// Holds a reference of an event.
using EventRef = std::shared_ptr<GstEvent>;

// Holds the sticky events of a stream, except caps and the end. It never changes: a stream with
// another event gets another object.
class StreamEvents {
 public:
  // Returns these events with `event` (not taken) added, and without the events that it replaces. A
  // stream-start replaces all of them.
  static std::shared_ptr<const StreamEvents> with(const StreamEvents* events, GstEvent* event);
  // Lists the events, stream-start first.
  const std::vector<EventRef>& list() const { return list_; }

 private:
  std::vector<EventRef> list_;
};

// Describes a row of a new batch.
struct BatchRow {
  GstBuffer* original;  // not taken
  GstCaps* caps;        // not taken
  guint stream;
  std::shared_ptr<const StreamEvents> events;
  vf::LetterboxGeometry geometry;
};

// Adds the meta to a batch of `n` rows, of which `rows` are present. From GStreamer 1.28 on, also
// adds a GstAnalyticsBatchMeta with a stream for each present row. The originals must stay as they
// are while the batch lives.
void add_batch_meta(GstBuffer* batch, const std::vector<BatchRow>& rows, guint n);

// Takes the frame of a row (a full reference, or null if the row is absent), and leaves the row
// without it if nobody else has the batch.
GstBuffer* take_frame(GstBuffer* batch, GstCudaLetterboxBatchRow* row);
// Returns the events of a row's stream. Null if the row is absent.
const StreamEvents* events_of(const GstCudaLetterboxBatchRow& row);

// Says, in order with the batches, that no more frames of a stream will follow for now. If the pad
// was `removed`, its number may later belong to another stream.
GstEvent* new_stream_end(guint stream, bool removed);
// Returns false for other events.
bool parse_stream_end(GstEvent* event, guint* stream, bool* removed);

// Makes an event that says, in order with the batches, that a stream has no frames for the time of
// a GAP event (not taken). The stream's pad must have got `events`, and the frames' `caps`, before.
GstEvent* new_stream_gap(guint stream, const StreamEvents& events, GstCaps* caps, GstEvent* gap);
struct StreamGap {
  guint stream;
  std::shared_ptr<const StreamEvents> events;
  GstCaps* caps;  // owned by the event, like `gap`
  GstEvent* gap;
};
// Returns false for other events.
bool parse_stream_gap(GstEvent* event, StreamGap* gap);

// Carries an event from the output of one stream upstream to the pad of that stream. Takes the
// event.
GstEvent* new_stream_event(guint stream, GstEvent* event);
// Returns the event (owned by `event`), or null if `event` is another one.
GstEvent* parse_stream_event(GstEvent* event, guint* stream);

}  // namespace gstvf
