// Handles settings that change while an element runs.
#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "gst/base/errors.h"
#include "gst/base/packedframe.h"
#include "gst/base/properties.h"
#include "gst/base/videofilterprivate.h"

using gstvf::PutBack;
using vf::Code;
using vf::Status;

// Changes

void gst_cuda_video_filter_settings_changed(GstCudaVideoFilter* self) {
  self->priv->settings_changed = true;
}

gboolean gst_cuda_video_filter_passes(GstCudaVideoFilter* self) {
  return self->priv->passes;
}

gboolean gst_cuda_video_filter_is_on_cuda(GstCudaVideoFilter* self) {
  return self->priv->frames.on_cuda();
}

namespace gstvf {

void sync_controllers(GstCudaVideoFilter* self, GstBuffer* buffer) {
  const GstSegment& segment = GST_BASE_TRANSFORM(self)->segment;
  // Raw files have segments in bytes, and so has appsrc by default.
  if (segment.format != GST_FORMAT_TIME) return;
  const GstClockTime time =
      gst_segment_to_stream_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
  if (!GST_CLOCK_TIME_IS_VALID(time)) return;
  self->priv->controlled = g_thread_self();
  gst_object_sync_values(GST_OBJECT(self), time);
  self->priv->controlled = nullptr;
}

// Modes

void set_modes(GstCudaVideoFilter* self, bool passes, bool in_place) {
  self->priv->passes = passes;
  self->priv->in_place = in_place;
  gst_base_transform_set_in_place(GST_BASE_TRANSFORM(self), in_place);
  gst_base_transform_set_passthrough(GST_BASE_TRANSFORM(self), passes);
}

void keep_modes(GstCudaVideoFilter* self) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  auto* trans = GST_BASE_TRANSFORM(self);
  if (!priv->negotiated || (bool(gst_base_transform_is_passthrough(trans)) == priv->passes &&
                            bool(gst_base_transform_is_in_place(trans)) == priv->in_place))
    return;
  set_modes(self, priv->passes, priv->in_place);
  // The pool may be gone.
  gst_base_transform_reconfigure_src(trans);
  if (!std::exchange(priv->says_modes, false)) return;
  GST_ELEMENT_WARNING_WITH_DETAILS(
      self, LIBRARY, SETTINGS,
      ("gst_base_transform_set_passthrough() and _set_in_place() have no effect on this element: "
       "its settings say which frames pass through. Use enabled=false."),
      (nullptr), ("reason", G_TYPE_STRING, "passthrough", nullptr));
}

// Plans of other settings

static guint64 last_change(GstCudaVideoFilter* self) {
  return under_lock(self, [&] { return self->priv->live.last(); });
}

void renew_settings(GstCudaVideoFilter* self) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (!priv->settings_changed.exchange(false)) return;
  const guint64 seen = last_change(self);
  priv->renewed = true;
  priv->frames.renew_plans();
  const bool identity = is_identity(self);
  if (identity != priv->passes) {
    gst_cuda_video_filter_drain(self);
    forget_frames(self);
    set_modes(self, identity, priv->in_place);
    // Frames now come in the layout that this element asked for, which may not suit downstream.
    priv->passes_all = !identity || takes_any_layout(GST_BASE_TRANSFORM_SRC_PAD(self));
    // When passthrough ends a pool may be needed. It is there before this buffer is filtered.
    gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(self));
  }
  if (!identity) return;
  // No plan is made for frames that pass through, so the changes hold.
  const ObjectLock lock(self);
  priv->live.commit(seen);
}

bool is_of_settings(GstCudaVideoFilter* self, const Status& status) {
  switch (status.code()) {
    case Code::invalid_argument:
    case Code::out_of_memory:
      return true;
    case Code::unsupported:  // the CPU backend may avoid it too
      return !self->priv->frames.on_cuda() ||
             self->priv->started.backend != GST_CUDA_VIDEO_FILTER_BACKEND_AUTO;
    default:
      return false;
  }
}

namespace {

struct Refused : PutBack {
  std::string why;
};

// Puts a change back after no plan could be made with the changes up to `seen`. Returns false if
// there is nothing to try again.
bool put_one_back(GstCudaVideoFilter* self, guint64 seen, const Status& why,
                  std::vector<Refused>* refused) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  Refused r{{}, why.message()};
  const GParamSpec* named = property_named_by(self, why.message());
  bool again = false;
  GST_OBJECT_LOCK(self);
  const bool taken = priv->live.take(seen, named, &r, &again);
  if (taken) {
    g_value_init(&r.value, G_VALUE_TYPE(&r.former));
    put_back(G_OBJECT(self), r.spec, &r.former, &r.value);
  }
  GST_OBJECT_UNLOCK(self);
  if (taken) {
    tell_element(G_OBJECT(self), r.spec);
    refused->push_back(r);
    // Frames may pass through with the former values.
    priv->settings_changed = true;
  }
  priv->renewed = true;
  priv->frames.renew_plans();
  return taken || again;
}

// Warns about each property that was put back, once, if frames go on.
void say(GstCudaVideoFilter* self, std::vector<Refused>* refused, bool goes_on) {
  std::vector<GParamSpec*> said;
  for (Refused& r : *refused) {
    if (std::find(said.begin(), said.end(), r.spec) == said.end()) {
      said.push_back(r.spec);
      g_object_notify_by_pspec(G_OBJECT(self), r.spec);
      const bool says = goes_on && under_lock(self, [&] {
                          return self->priv->live.should_say(r.spec, r.controlled);
                        });
      if (says) post_setting_kept(GST_ELEMENT(self), r.spec, &r.value, &r.former, r.why);
    }
    g_value_unset(&r.value);
    g_value_unset(&r.former);
  }
}

}  // namespace

Status settle_settings(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  // Most frames need nothing else. Settings that change from here on are for a later frame.
  if (priv->proven && !priv->renewed && priv->frames.has_plans(in, out)) return {};
  // Other threads wait with their changes after an attempt that failed or met a change. Otherwise
  // one that keeps setting values might meet every attempt. Before the first frame they wait at
  // once, since no former settings are known to work. This thread may set some too, when it is
  // called back, so the attempts are limited.
  std::unique_lock<std::recursive_mutex> hold(priv->setting, std::defer_lock);
  if (!priv->proven) hold.lock();
  constexpr int tries = 1000;
  std::vector<Refused> refused;
  Status status;
  for (int i = 0; i < tries; i++) {
    const guint64 seen = last_change(self);
    status = priv->frames.make_plans(in, out);
    if (status.ok()) {
      // If plans are older than the last change, a later frame decides.
      if (!priv->renewed || under_lock(self, [&] { return priv->live.commit(seen); })) break;
      priv->frames.renew_plans();
    } else if (!priv->proven || !is_of_settings(self, status) ||
               !put_one_back(self, seen, status, &refused)) {
      break;
    }
    if (!hold) hold.lock();
  }
  if (hold) hold.unlock();  // the application hears of it
  say(self, &refused, status.ok());
  return status;
}

void settings_hold(GstCudaVideoFilter* self) {
  self->priv->proven = true;
  self->priv->renewed = false;
}

}  // namespace gstvf
