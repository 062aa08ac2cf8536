// Holds events back until the element has sent what must come before them.
#pragma once

#include <gst/gst.h>

namespace gstvf {

// Is used by one thread, or under a lock of its owner. Zero bytes are an empty list.
class HeldEvents {
 public:
  // Takes the event.
  void add(GstEvent* event) { events_ = g_list_append(events_, event); }
  // Pushes all events, in order. Their receiver may flush meanwhile, and so change the list.
  void push(GstPad* pad) {
    while (events_) {
      auto* event = GST_EVENT(events_->data);
      events_ = g_list_delete_link(events_, events_);
      gst_pad_push_event(pad, event);
    }
  }
  // Drops the segment events, since a flush ends the segment.
  void flush() {
    for (GList *l = events_, *next; l; l = next) {
      next = l->next;
      if (GST_EVENT_TYPE(l->data) != GST_EVENT_SEGMENT) continue;
      gst_event_unref(GST_EVENT(l->data));
      events_ = g_list_delete_link(events_, l);
    }
  }
  void clear() {
    g_list_free_full(events_, [](gpointer event) { gst_event_unref(GST_EVENT(event)); });
    events_ = nullptr;
  }

 private:
  GList* events_;
};

}  // namespace gstvf
