// Events that an element keeps back until it knows what must come before them.
#pragma once

#include <gst/gst.h>

namespace gstvf {

// For one thread, or under a lock of its user's. Starts as zeros.
class HeldEvents {
 public:
  // Takes the event.
  void add(GstEvent* event) { events_ = g_list_append(events_, event); }
  // Pushes all, in order.
  void push(GstPad* pad) {
    for (GList* l = events_; l; l = l->next)
      gst_pad_push_event(pad, gst_event_ref(GST_EVENT(l->data)));
    clear();
  }
  // Drops what a flush ends: the segment.
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
