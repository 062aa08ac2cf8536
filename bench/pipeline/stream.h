// Declares one stream of the streams benchmark: its source and what happens to its frames.
#pragma once

#include <gst/app/gstappsrc.h>
#include <gst/gst.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace vf::bench {

// Keeps streams from running at full speed while others start or stop, because those would then
// wait for the driver's locks and the GPU.
class Gate {
 public:
  explicit Gate(guint64 first) : first_(first) {}
  // Waits with the n-th frame of a stream. Returns false at the end of the run.
  bool pass(guint64 n) {
    if (phase_.load(std::memory_order_acquire) == Phase::start && n >= first_) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return phase_ != Phase::start; });
    }
    return phase_.load(std::memory_order_acquire) != Phase::end;
  }
  bool is_open() const { return phase_.load(std::memory_order_acquire) != Phase::start; }
  void open() { set(Phase::run); }
  void end() { set(Phase::end); }

 private:
  enum class Phase { start, run, end };
  void set(Phase phase) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      phase_ = phase;
    }
    changed_.notify_all();
  }
  const guint64 first_;  // number of frames of each stream that pass before the gate is open
  std::atomic<Phase> phase_{Phase::start};
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Returns access units or frames of a clip in an endless loop with running timestamps.
struct Clip {
  GstCaps* caps = nullptr;
  std::vector<GstBuffer*> units;
  GstClockTime duration = GST_SECOND / 30;
};

// Holds what happens to the frames of one stream. Chains keep the order of frames and drop none, so
// the n-th to leave the source is the n-th to arrive.
struct Stream {
  static constexpr size_t kRing = 1024;
  const Clip* clip = nullptr;
  Gate* gate = nullptr;
  GstElement* pipeline = nullptr;
  int device = 0;
  double rate = 0;
  int boxes = 0;
  GstClockTime duration = GST_SECOND / 30;
  guint64 at_start = 0;
  std::atomic<guint64> pushed{0}, left{0}, arrived{0};
  std::array<std::atomic<gint64>, kRing> left_at{};
  std::atomic<bool> measuring{false}, strayed{false};
  std::vector<float> latency, late;  // ms
};

// Handles "need-data": pushes the next access unit once the gate is open. A live stream waits until
// the unit is due.
void feed(GstAppSrc* source, guint, gpointer stream);
// Is a probe behind the source. It holds frames back at the gate and records when they leave.
GstPadProbeReturn leaves(GstPad*, GstPadProbeInfo* info, gpointer stream);
// Is a probe before the sink. It records how long a frame took and how late it is.
GstPadProbeReturn arrives(GstPad* pad, GstPadProbeInfo* info, gpointer stream);
// Does that for one frame.
void frame_arrives(GstPad* pad, GstBuffer* frame, Stream* s);

}  // namespace vf::bench
