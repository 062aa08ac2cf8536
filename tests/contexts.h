// Counts GStreamer's CUDA contexts with its leaks tracer.
#pragma once

#include <gst/gst.h>

#include <cstring>

namespace vf::test {

class Contexts {
 public:
  // Call this before GStreamer is initialised.
  static void prepare() { g_setenv("GST_TRACERS", "leaks(filters=\"GstCudaContext\")", FALSE); }

  Contexts() {
    GList* tracers = gst_tracing_get_active_tracers();
    for (GList* l = tracers; l; l = l->next)
      if (!tracer_ && strstr(G_OBJECT_TYPE_NAME(l->data), "Leaks"))
        tracer_ = gst_object_ref(l->data);
    g_list_free_full(tracers, gst_object_unref);
    if (tracer_) g_signal_emit_by_name(tracer_, "activity-start-tracking");
  }
  ~Contexts() {
    if (tracer_) gst_object_unref(tracer_);
  }
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;

  int made() const { return made_; }
  int alive() {
    if (!tracer_) return 0;
    GstStructure* activity = nullptr;
    g_signal_emit_by_name(tracer_, "activity-get-checkpoint", &activity);
    const auto count = [&](const char* list) {
      return int(gst_value_list_get_size(gst_structure_get_value(activity, list)));
    };
    made_ += count("objects-created-list");
    gone_ += count("objects-removed-list");
    gst_structure_free(activity);
    return made_ - gone_;
  }
  // Returns the number of contexts that are left. It waits up to 30 s, because tasks release
  // contexts in their own threads, which a busy machine holds up.
  int left() {
    for (int i = 0; i < 1500 && alive(); i++) g_usleep(20000);
    return alive();
  }

 private:
  gpointer tracer_ = nullptr;
  int made_ = 0, gone_ = 0;
};

}  // namespace vf::test
