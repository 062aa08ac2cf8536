#include "gst/letterbox/streamoutput.h"

#include <algorithm>

#include "gst/base/packedframe.h"

namespace gstvf {

static bool has_sticky(GstPad* pad, GstEventType type) {
  g_autoptr(GstEvent) event = gst_pad_get_sticky_event(pad, type, 0);
  return event;
}

void StreamOutput::send_events(const StreamEvents& next, GstCaps* next_caps) {
  const std::vector<EventRef>& list = next.list();
  const bool again = ended;  // only a stream-start ends the end
  ended = false;
  const auto sent = [&](const EventRef& event) {
    return std::find(events.begin(), events.end(), event) != events.end();
  };
  const auto send_caps = [&] {
    if (caps && gst_caps_is_equal(caps, next_caps)) return;
    gst_caps_replace(&caps, next_caps);
    gst_video_info_from_caps(&info, next_caps);
    gst_pad_push_event(pad, gst_event_new_caps(next_caps));
    any_layout = takes_any_layout(pad);
  };
  // A muxer may leave out how a stream begins.
  const bool has_start = !list.empty() && GST_EVENT_TYPE(list[0].get()) == GST_EVENT_STREAM_START;
  if (!has_start && !has_sticky(pad, GST_EVENT_STREAM_START)) {
    g_autofree gchar* id = gst_pad_create_stream_id(pad, GST_PAD_PARENT(pad), GST_PAD_NAME(pad));
    gst_pad_push_event(pad, gst_event_new_stream_start(id));
  }
  bool restarts = false;
  for (const EventRef& event : list) {
    const bool starts = GST_EVENT_TYPE(event.get()) == GST_EVENT_STREAM_START;
    if (!starts) send_caps();
    if (starts && (again || !sent(event))) restarts = true;
    if (restarts || !sent(event)) gst_pad_push_event(pad, gst_event_ref(event.get()));
  }
  send_caps();
  if (!has_sticky(pad, GST_EVENT_SEGMENT)) {
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_pad_push_event(pad, gst_event_new_segment(&segment));
  }
  events = list;
}

void StreamOutput::end() {
  if (!ended) gst_pad_push_event(pad, gst_event_new_eos());
  ended = true;
}

bool BatchedEvents::add(GstEvent* event) {
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_CAPS:
      gst_event_parse_caps(event, &caps_);
      return true;
    case GST_EVENT_EOS:
      ended_ = true;
      return true;
    default:
      if (GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START) ended_ = false;
      if (GST_EVENT_IS_STICKY(event)) list_ = StreamEvents::with(list_.get(), event);
      return GST_EVENT_IS_STICKY(event);
  }
}

}  // namespace gstvf
