#include "gst/base/enabled.h"

#include "gst/base/packedframe.h"
#include "gst/base/properties.h"
#include "gst/base/videofilterprivate.h"

using vf::Status;

gboolean gst_cuda_video_filter_is_off(GstCudaVideoFilter* self) {
  return self->priv->off;
}

namespace gstvf {

void install_enabled(GObjectClass* klass) {
  // The setter returns false because a change needs no new plan: the streaming thread reads the
  // value before each frame.
  install_property(klass,
                   g_param_spec_boolean(
                       "enabled", "Enabled",
                       "Filter frames. With false, frames pass unfiltered, with the same caps and "
                       "latency, and the filter forgets earlier frames",
                       TRUE, kControllable),
                   new Property{kControllable, nullptr,
                                [](GObject* o, const GValue* v) {
                                  GST_CUDA_VIDEO_FILTER(o)->priv->enabled = g_value_get_boolean(v);
                                  return false;
                                },
                                [](GObject* o, GValue* v) {
                                  g_value_set_boolean(v, GST_CUDA_VIDEO_FILTER(o)->priv->enabled);
                                }});
}

static void set_off(GstCudaVideoFilter* self, bool off) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  gst_cuda_video_filter_drain(self);
  restart_frames(self);
  // With different formats, each of the two states needs another plan.
  if (!priv->same_format) priv->frames.drop_plans();
  priv->off = off;
  priv->asks_layout = true;
}

// Switches off again. The settings cannot be used, and there are no earlier ones that can.
static void stay_off(GstCudaVideoFilter* self, const char* why) {
  set_off(self, true);
  self->priv->enabled = false;
  GParamSpec* spec = g_object_class_find_property(G_OBJECT_GET_CLASS(self), "enabled");
  g_object_notify_by_pspec(G_OBJECT(self), spec);
  g_autoptr(GstControlBinding) binding =
      gst_object_get_control_binding(GST_OBJECT(self), spec->name);
  if (!under_lock(self, [&] { return self->priv->live.should_say(spec, binding); })) return;
  GValue on = G_VALUE_INIT, off = G_VALUE_INIT;
  for (GValue* value : {&on, &off}) g_value_init(value, G_TYPE_BOOLEAN);
  g_value_set_boolean(&on, TRUE);
  post_setting_kept(GST_ELEMENT(self), spec, &on, &off, why);
}

void follow_settings(GstCudaVideoFilter* self, GstBuffer* in) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  const bool switches = priv->enabled == priv->off;
  if (switches) set_off(self, !priv->off);
  // Other settings wait until the filter is switched on.
  if (priv->off) return;
  renew_settings(self);
  if (!switches || priv->passes) return;
  const Status status = settle_settings(self, in, priv->in_place ? in : nullptr);
  if (!status.ok() && is_of_settings(self, status)) stay_off(self, status.message());
}

bool bypasses(GstCudaVideoFilter* self) {
  return self->priv->off && self->priv->same_format;
}

Status bypass(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer** out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  // Asks the next element once whether it takes any layout. If the settings let frames pass anyway,
  // it has been asked already.
  if (priv->asks_layout) {
    priv->asks_layout = false;
    priv->bypasses_all =
        priv->passes ? priv->passes_all : takes_any_layout(GST_BASE_TRANSFORM_SRC_PAD(self));
  }
  *out = in;
  if (!priv->bypasses_all) VF_TRY(pack_frame(*priv->in.video, in, out));
  if (*out == in) pass_buffer_on(self);
  return {};
}

}  // namespace gstvf
