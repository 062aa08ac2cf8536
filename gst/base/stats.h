// Adds the properties stats and stats-interval, which report what an element counts and measures.
//
// The streaming thread writes, and any thread reads, without locks. A frame causes no allocation.
#pragma once

#include <gst/gst.h>

#include <atomic>

typedef struct _GstCudaVideoFilter GstCudaVideoFilter;

namespace gstvf {

// Holds the time that each of the last timed frames took.
class FrameTimes {
 public:
  static constexpr guint kFrames = 128;

  void reset() { count_ = 0; }
  void add(guint64 ns) {
    const guint64 n = count_.load(std::memory_order_relaxed);
    ns_[n % kFrames].store(ns, std::memory_order_relaxed);
    count_.store(n + 1, std::memory_order_release);
  }
  // Returns 0 for both if nothing has been measured yet.
  void get(guint64* mean, guint64* max) const;

 private:
  std::atomic<guint64> ns_[kFrames] = {};
  std::atomic<guint64> count_{0};
};

// Counts from the time at which the element started.
struct FrameStats {
  static constexpr int kOnCpu = -1, kNotStarted = -2;

  std::atomic<int> device{kNotStarted};  // the number of a GPU, or one of these
  std::atomic<guint64> frames{0}, passed{0}, dropped{0};
  std::atomic<guint> in_flight{0};
  FrameTimes times;
  // Only elements that add these in add_stats use them.
  std::atomic<guint> regions{0}, regions_held{0};
  std::atomic<guint64> mask_age{0}, masks_missing{0};

  std::atomic<guint> interval_ms{0};  // time between messages; 0 posts none
  gint64 posted = 0;                  // time of the last message in microseconds

  // Only the streaming thread or start may call it.
  void reset();
};

// Installs both properties. The base class calls it in class_init.
void install_stats(GObjectClass* klass);
// Makes the structure, under the object's lock.
GstStructure* make_stats(GstCudaVideoFilter* self);
// Counts a frame, and posts the message when it is due. The streaming thread calls it.
void count_frame(GstCudaVideoFilter* self, bool passed);
// Stores the backend that filters from now on. With `say`, posts an info message about it.
void keep_backend(GstCudaVideoFilter* self, bool say);
// Posts an info message about the backend, with details. Takes the text, which is GLib's: a
// std::string would throw if the message is about memory that has run out.
void post_backend(GstCudaVideoFilter* self, gchar* text);

}  // namespace gstvf

// Returns the counters of the element, for those that the element itself counts.
gstvf::FrameStats& gst_cuda_video_filter_stats(GstCudaVideoFilter* self);
