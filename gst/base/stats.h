// The properties stats and stats-interval: what an element counts and measures while frames come.
//
// The streaming thread writes, and any thread reads, without locks. Nothing is allocated for a
// frame.
#pragma once

#include <gst/gst.h>

#include <atomic>

G_BEGIN_DECLS
typedef struct _GstCudaVideoFilter GstCudaVideoFilter;
G_END_DECLS

namespace gstvf {

// The time that each of the last frames took.
class FrameTimes {
 public:
  static constexpr guint kFrames = 128;

  void reset() { count_ = 0; }
  void add(guint64 ns) {
    const guint64 n = count_.load(std::memory_order_relaxed);
    ns_[n % kFrames].store(ns, std::memory_order_relaxed);
    count_.store(n + 1, std::memory_order_release);
  }
  // Gives 0 for both where nothing was measured yet.
  void get(guint64* mean, guint64* max) const;

 private:
  std::atomic<guint64> ns_[kFrames] = {};
  std::atomic<guint64> count_{0};
};

// All of this is of the time since the element started.
struct FrameStats {
  static constexpr int kOnCpu = -1, kNotStarted = -2;

  std::atomic<int> device{kNotStarted};  // the number of a GPU, or one of these
  std::atomic<guint64> frames{0}, passed{0}, dropped{0};
  std::atomic<guint> in_flight{0};
  FrameTimes times;
  // These are of elements that say so in add_stats.
  std::atomic<guint> regions{0}, regions_held{0};
  std::atomic<guint64> mask_age{0}, masks_missing{0};

  std::atomic<guint> interval_ms{0};  // of messages; 0: none
  gint64 posted = 0;                  // the streaming thread's: microseconds

  // The streaming thread's, or start's.
  void reset();
};

// Installs both properties, from class_init of the base class.
void install_stats(GObjectClass* klass);
// Makes the structure, under the object's lock.
GstStructure* make_stats(GstCudaVideoFilter* self);
// Counts a frame and posts the message where it is time. From the streaming thread.
void count_frame(GstCudaVideoFilter* self, bool passed);
// Keeps the backend that filters from now on. `say` posts an info message about it.
void keep_backend(GstCudaVideoFilter* self, bool say);
// Posts an info message about the backend, with details. Takes the text, which is of GLib's memory:
// it may say that there is none left.
void post_backend(GstCudaVideoFilter* self, gchar* text);

}  // namespace gstvf

// What elements count themselves goes there.
gstvf::FrameStats& gst_cuda_video_filter_stats(GstCudaVideoFilter* self);
