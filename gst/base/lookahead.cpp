#include "gst/base/lookahead.h"

#include <algorithm>
#include <utility>

#include "filters/make.h"
#include "gst/base/errors.h"
#include "gst/base/properties.h"
#include "gst/base/videofilterprivate.h"

namespace gstvf {
namespace {

// Buffers that upstream needs besides those that wait: one to fill, and two on their way.
constexpr guint kUpstreamNeeds = 3;

// Returns how many buffers a buffer's pool may have, or 0 if it has no limit.
guint limit_of(GstBuffer* buffer) {
  if (!buffer->pool) return 0;
  g_autoptr(GstStructure) config = gst_buffer_pool_get_config(buffer->pool);
  guint max = 0;
  gst_buffer_pool_config_get_params(config, nullptr, nullptr, nullptr, &max);
  return max;
}

// Tells whether the element counts frames, and not their times.
bool counts_frames(GstCudaVideoFilter* self) {
  return GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->frames_ahead != nullptr;
}

const char* property_of(GstCudaVideoFilter* self) {
  return counts_frames(self) ? "look-ahead" : "look-ahead-ms";
}

void say_no_times(GstCudaVideoFilter* self) {
  if (!std::exchange(self->priv->waiting.says_times, false)) return;
  if (counts_frames(self))
    post_setting_warning(GST_ELEMENT(self), "look-ahead",
                         "look-ahead has no effect: the caps have no frame rate, so that the "
                         "latency is unknown.",
                         "0 for caps without a frame rate");
  else
    post_setting_warning(GST_ELEMENT(self), "look-ahead-ms",
                         "look-ahead-ms has no effect: the frames have neither times nor "
                         "durations, and the caps have no frame rate.",
                         "0 for frames without times");
}

void say_short_pool(GstCudaVideoFilter* self, guint max, guint room) {
  if (!std::exchange(self->priv->waiting.says_pool, false)) return;
  const auto& video = self->priv->in.video;
  const char* const property = property_of(self);
  const guint64 ms = video && video->fps_n > 0
                         ? gst_util_uint64_scale(room * 1000, video->fps_d, video->fps_n)
                         : 0;
  const guint64 most = counts_frames(self) ? room : ms;
  const std::string allowed = printed("0 to %" G_GUINT64_FORMAT " with this pool", most);
  post_setting_warning(GST_ELEMENT(self), property,
                       printed("%s is shortened: upstream's pool has %u buffers and cannot grow, "
                               "and %u of them can wait. Use a %s of %s, or copy frames before "
                               "this element.",
                               property, max, room, property, allowed.c_str())
                           .c_str(),
                       allowed.c_str());
}

// Lets the oldest frame leave if upstream may otherwise have no buffer for the next frame.
void keep_pool_filled(GstCudaVideoFilter* self, GstBuffer* in) {
  WaitingFrames& w = self->priv->waiting;
  const guint max = limit_of(in);
  if (max == 0) return;
  const auto waiting = guint(std::count_if(w.items.begin(), w.items.end(), [&](const auto& item) {
    return GST_IS_BUFFER(item.object) && GST_BUFFER_CAST(item.object)->pool == in->pool;
  }));
  const guint room = max > kUpstreamNeeds ? max - kUpstreamNeeds : 0;
  if (waiting <= room) return;
  w.hurried = waiting - room;
  // A frame that has waited long enough leaves anyway.
  if (w.newest - w.items.front().time < look_ahead(self)) say_short_pool(self, max, room);
}

// Returns how long a frame waits. CUDA memory without a pool may be a decoder's own. A decoder has
// as many frames of such memory as it was asked for. While it waits for one to come back, it does
// not ask again, so frames wait no longer than the look-ahead that it was asked for.
GstClockTime wait_of(GstCudaVideoFilter* self, GstBuffer* frame) {
  const GstClockTime wait = look_ahead(self), asked = self->priv->waiting.asked;
  return frame->pool || !cuda_memory(frame) ? wait : std::min(wait, asked);
}

bool waits_in_line(GstEvent* event) {
  gboolean still;
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_GAP:
    case GST_EVENT_TAG:
      return true;
    case GST_EVENT_CUSTOM_DOWNSTREAM:
    case GST_EVENT_CUSTOM_DOWNSTREAM_STICKY:
      // The frame before a still picture must be shown now.
      return !gst_video_event_parse_still_frame(event, &still);
    default:
      return false;
  }
}

}  // namespace

// Returns what look_ahead() is for caps with a frame rate.
static GstClockTime wanted(GstCudaVideoFilter* self) {
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  // A downstream element that pulls wants the frame that it asked for.
  if (GST_PAD_MODE(GST_BASE_TRANSFORM_SRC_PAD(self)) == GST_PAD_MODE_PULL) return 0;
  if (klass->frames_ahead) return klass->frames_ahead(self);
  return klass->look_ahead ? klass->look_ahead(self) : 0;
}

GstClockTime look_ahead(GstCudaVideoFilter* self) {
  return counts_frames(self) && !locked(self, self->priv->frame_time) ? 0 : wanted(self);
}

GstClockTime look_ahead_latency(GstCudaVideoFilter* self) {
  const GstClockTime wait = look_ahead(self);
  return counts_frames(self) ? wait * locked(self, self->priv->frame_time) : wait;
}

void look_ahead_changed(GstCudaVideoFilter* self) {
  gst_element_post_message(GST_ELEMENT(self), gst_message_new_latency(GST_OBJECT(self)));
  const GstClockTime asked = self->priv->waiting.asked;
  if (GST_CLOCK_TIME_IS_VALID(asked) && look_ahead(self) > asked)
    gst_base_transform_reconfigure_sink(GST_BASE_TRANSFORM(self));
}

guint frames_waiting(GstCudaVideoFilter* self, GstCaps* caps) {
  const GstClockTime wait = wanted(self);
  self->priv->waiting.asked = wait;
  int n, d;
  if (!wait || !caps ||
      !gst_structure_get_fraction(gst_caps_get_structure(caps, 0), "framerate", &n, &d) || n <= 0 ||
      d <= 0)
    return 0;
  if (counts_frames(self)) return guint(wait) + kUpstreamNeeds;
  return guint(gst_util_uint64_scale_ceil(wait, guint64(n), guint64(d) * GST_SECOND)) +
         kUpstreamNeeds;
}

bool decide_waiting(GstCudaVideoFilter* self) {
  WaitingFrames& w = self->priv->waiting;
  w.waits = !w.items.empty() || look_ahead(self) > 0;
  return w.waits;
}

vf::Status leave(GstCudaVideoFilter* self) {
  return vf::guarded([&] {
    auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
    if (klass->leave) klass->leave(self);
    return vf::Status();
  });
}

vf::Status keep_waiting(GstCudaVideoFilter* self, GstBuffer* in, bool* waits) {
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  WaitingFrames& w = self->priv->waiting;
  *waits = false;
  if (!klass->arrive && !klass->frames_ahead) return {};
  if (counts_frames(self) && wanted(self) && !look_ahead(self)) say_no_times(self);
  GstClockTime time = GST_CLOCK_TIME_NONE;
  const auto arrive = [&] {
    time = klass->arrive ? klass->arrive(self, in, GST_BUFFER_PTS(in), GST_BUFFER_DURATION(in))
                         : w.newest + 1;
    return vf::Status();
  };
  if (!w.waits) {
    VF_TRY(vf::guarded(arrive));
    return leave(self);
  }
  // There is room for the frame before the element knows of it.
  VF_TRY(vf::guarded([&] {
    w.items.push_back({nullptr, w.newest});
    return vf::Status();
  }));
  if (const vf::Status status = vf::guarded(arrive); !status.ok()) {
    w.items.pop_back();
    return status;
  }
  const bool timed = GST_CLOCK_TIME_IS_VALID(time);
  if (timed) w.newest = time;
  w.items.back() = {GST_MINI_OBJECT_CAST(in), w.newest};
  if (timed) {
    keep_pool_filled(self, in);
  } else {
    w.hurried = w.items.size();
    say_no_times(self);
  }
  w.discont_waits |= GST_BUFFER_IS_DISCONT(in);
  *waits = true;
  return {};
}

bool keep_event(GstCudaVideoFilter* self, GstEvent* event) {
  WaitingFrames& w = self->priv->waiting;
  if (w.items.empty() || !waits_in_line(event)) return false;
  if (GST_EVENT_TYPE(event) == GST_EVENT_GAP) {
    GstClockTime time, duration;
    gst_event_parse_gap(event, &time, &duration);
    const bool timed = GST_CLOCK_TIME_IS_VALID(duration);
    if (counts_frames(self)) {
      // The frames that are left out do not come, but what waits for them must not be late.
      const GstClockTime frame_time = locked(self, self->priv->frame_time);
      w.newest += timed && frame_time ? gst_util_uint64_scale_round(duration, 1, frame_time) : 1;
    } else {
      // The next frame may come when the gap ends, so frames and events that wait for that time
      // wait for this frame.
      if (GST_CLOCK_TIME_IS_VALID(time) && timed && duration > 0) time += duration - 1;
      time = GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->arrive(self, nullptr, time, 0);
      if (GST_CLOCK_TIME_IS_VALID(time)) w.newest = time;
    }
  }
  const vf::Status status = vf::guarded([&] {
    w.items.push_back({GST_MINI_OBJECT_CAST(event), w.newest});
    return vf::Status();
  });
  return status.ok();
}

GstMiniObject* next_to_leave(GstCudaVideoFilter* self) {
  WaitingFrames& w = self->priv->waiting;
  if (w.items.empty()) return nullptr;
  const WaitingFrames::Item item = w.items.front();
  if (GST_IS_BUFFER(item.object)) {
    const GstClockTime wait = wait_of(self, GST_BUFFER_CAST(item.object));
    if (!w.drains && !w.hurried && w.newest - item.time < wait) return nullptr;
    if (w.hurried) w.hurried--;
  }
  w.items.pop_front();
  return item.object;
}

std::vector<GstBuffer*> later_frames(GstCudaVideoFilter* self) {
  std::vector<GstBuffer*> later;
  if (!counts_frames(self)) return later;
  const size_t most = look_ahead(self);
  for (const WaitingFrames::Item& item : self->priv->waiting.items) {
    if (!GST_IS_BUFFER(item.object)) continue;
    auto* buffer = GST_BUFFER_CAST(item.object);
    if (later.size() == most || GST_BUFFER_IS_DISCONT(buffer)) break;
    later.push_back(buffer);
  }
  return later;
}

GList* drop_waiting(GstCudaVideoFilter* self) {
  WaitingFrames& w = self->priv->waiting;
  GList* sticky = nullptr;
  for (const WaitingFrames::Item& item : w.items) {
    if (GST_IS_BUFFER(item.object)) static_cast<void>(leave(self));
    if (GST_IS_EVENT(item.object) && GST_EVENT_IS_STICKY(item.object))
      sticky = g_list_append(sticky, item.object);
    else
      gst_mini_object_unref(item.object);
  }
  w.items.clear();
  w.hurried = 0;
  w.discont_waits = false;
  return sticky;
}

void clear_waiting(GstCudaVideoFilter* self) {
  GList* sticky = drop_waiting(self);
  g_list_free_full(sticky,
                   [](gpointer event) { gst_mini_object_unref(GST_MINI_OBJECT_CAST(event)); });
  WaitingFrames& w = self->priv->waiting;
  w.newest = 0;
  w.waits = false;
  w.says_times = w.says_pool = true;
  w.asked = GST_CLOCK_TIME_NONE;
}

}  // namespace gstvf
