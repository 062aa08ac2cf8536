#include "gst/base/stats.h"

#include <algorithm>

#include "gst/base/properties.h"
#include "gst/base/videofilterprivate.h"

gstvf::FrameStats& gst_cuda_video_filter_stats(GstCudaVideoFilter* self) {
  return self->priv->stats;
}

namespace gstvf {

void FrameTimes::get(guint64* mean, guint64* max) const {
  const guint64 n = std::min<guint64>(count_.load(std::memory_order_acquire), kFrames);
  guint64 sum = 0;
  *max = 0;
  for (guint64 i = 0; i < n; i++) {
    const guint64 ns = ns_[i].load(std::memory_order_relaxed);
    sum += ns;
    *max = std::max(*max, ns);
  }
  *mean = n ? sum / n : 0;
}

void FrameStats::reset() {
  frames = passed = dropped = mask_age = masks_missing = 0;
  in_flight = regions = regions_held = 0;
  times.reset();
  posted = g_get_monotonic_time();
}

static const char* backend_of(int device) {
  return device == FrameStats::kNotStarted ? "none" : device == FrameStats::kOnCpu ? "cpu" : "cuda";
}

GstStructure* make_stats(GstCudaVideoFilter* self) {
  const FrameStats& s = self->priv->stats;
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  guint64 mean, max;
  s.times.get(&mean, &max);
  const int device = s.device;
  GstStructure* stats = gst_structure_new(
      "application/x-cuda-filter-stats", "backend", G_TYPE_STRING, backend_of(device), "device",
      G_TYPE_INT, std::max(device, -1), "frames", G_TYPE_UINT64, s.frames.load(), "passed",
      G_TYPE_UINT64, s.passed.load(), "dropped", G_TYPE_UINT64, s.dropped.load(),
      "processing-time-mean", G_TYPE_UINT64, mean, "processing-time-max", G_TYPE_UINT64, max,
      "in-flight", G_TYPE_UINT, s.in_flight.load(), nullptr);
  if (klass->add_stats) klass->add_stats(self, stats);
  return stats;
}

void install_stats(GObjectClass* klass) {
  const auto read_only = GParamFlags(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  // The setters return false because plans do not depend on these properties.
  install_property(
      klass,
      g_param_spec_boxed("stats", "Statistics",
                         "Statistics since the element started, as a structure "
                         "application/x-cuda-filter-stats. docs/embedding.md has its fields",
                         GST_TYPE_STRUCTURE, read_only),
      new Property{read_only, nullptr, nullptr, [](GObject* o, GValue* v) {
                     g_value_take_boxed(v, make_stats(GST_CUDA_VIDEO_FILTER(o)));
                   }});
  install_property(
      klass,
      g_param_spec_uint("stats-interval", "Statistics interval",
                        "Interval of element messages with the statistics, in milliseconds. A "
                        "message comes with the first frame after each interval. 0 = no messages",
                        0, G_MAXUINT, 0, kPlaying),
      new Property{kPlaying, nullptr,
                   [](GObject* o, const GValue* v) {
                     GST_CUDA_VIDEO_FILTER(o)->priv->stats.interval_ms = g_value_get_uint(v);
                     return false;
                   },
                   [](GObject* o, GValue* v) {
                     g_value_set_uint(v, GST_CUDA_VIDEO_FILTER(o)->priv->stats.interval_ms);
                   }});
}

void count_frame(GstCudaVideoFilter* self, bool passed) {
  FrameStats& s = self->priv->stats;
  s.frames.fetch_add(1, std::memory_order_relaxed);
  if (passed) s.passed.fetch_add(1, std::memory_order_relaxed);
  const gint64 interval = gint64(s.interval_ms) * G_TIME_SPAN_MILLISECOND;
  if (interval == 0) return;
  const gint64 now = g_get_monotonic_time();
  if (now - s.posted < interval) return;
  s.posted = now;
  GstStructure* stats = under_lock(self, [&] { return make_stats(self); });
  gst_element_post_message(GST_ELEMENT(self), gst_message_new_element(GST_OBJECT(self), stats));
}

void post_backend(GstCudaVideoFilter* self, gchar* text) {
  const int device = self->priv->stats.device;
  // gst-launch-1.0 prints only the second text.
  gst_element_message_full_with_details(
      GST_ELEMENT(self), GST_MESSAGE_INFO, GST_RESOURCE_ERROR,
      device < 0 ? GST_RESOURCE_ERROR_NOT_FOUND : GST_RESOURCE_ERROR_SETTINGS, text, g_strdup(text),
      __FILE__, GST_FUNCTION, __LINE__,
      gst_structure_new("details", "backend", G_TYPE_STRING, backend_of(device), "device",
                        G_TYPE_INT, device, nullptr));
}

void keep_backend(GstCudaVideoFilter* self, bool say) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  GstCudaContext* const context = priv->frames.on_cuda() ? priv->cuda.get() : nullptr;
  const int device = context ? int(context_device(context)) : FrameStats::kOnCpu;
  priv->stats.device = device;
  if (!say) return;
  post_backend(self, device < 0
                         ? g_strdup("Filtering on the CPU.")
                         : g_strdup_printf("Filtering on the GPU with CUDA, device %d.", device));
}

}  // namespace gstvf
