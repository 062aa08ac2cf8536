// Defines the source pad of one stream of cudaletterboxunbatch, which keeps the events that it has
// received.
#pragma once

#include <gst/gst.h>
#include <gst/video/video.h>

#include <memory>
#include <vector>

#include "gst/letterbox/batchmeta.h"

namespace gstvf {

// Belongs to the streaming thread.
struct StreamOutput {
  GstPad* pad = nullptr;  // owned by the element
  GstCaps* caps = nullptr;
  GstVideoInfo info;
  bool any_layout = false;       // downstream takes rows wherever they lie
  bool ended = false;            // the end was sent
  std::vector<EventRef> events;  // the sticky events that were sent

  // Sends the events that the pad has not got yet. The caps come second, after stream-start.
  void send_events(const StreamEvents& next, GstCaps* next_caps);
  // Sends the end, unless it was the last thing that was sent.
  void end();
};

// Follows the events of a stream in a GstAnalyticsBatchMeta.
class BatchedEvents {
 public:
  // Takes note of an event, which must live as long as this. Returns false if it is neither sticky
  // nor the end, so that it is for the pad.
  bool add(GstEvent* event);

  const StreamEvents& list() const { return *list_; }
  GstCaps* caps() const { return caps_; }  // null if none have come
  bool ended() const { return ended_; }

 private:
  std::shared_ptr<const StreamEvents> list_ = std::make_shared<StreamEvents>();
  GstCaps* caps_ = nullptr;
  bool ended_ = false;
};

}  // namespace gstvf
