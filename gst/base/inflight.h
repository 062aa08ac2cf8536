// Frames on their way through a filter.
//
// submit() maps a frame, uploads it where it lies in host memory, filters it and downloads the
// result: everything is enqueued. complete() waits for the oldest frame and hands it over. An
// element without latency completes each frame as soon as it is submitted (depth 0). With depth n,
// n frames stay in flight: uploads, filtering and downloads then have a queue each, and those of
// neighbouring frames overlap. On the CPU backend a frame is filtered when submit() returns.
#pragma once

#include <memory>

#include "filters/plan.h"
#include "gst/base/cudacontext.h"
#include "gst/base/frame.h"
#include "gst/base/handover.h"

namespace vf::cuda {
class Timing;
}

namespace gstvf {

struct FrameStats;

// What an element brings. Called on the thread that calls InFlight, CUDA's context current.
class PlanSource {
 public:
  // Makes the plan for frames, or fields, of these formats. Where a plan remembers frames and only
  // settings changed, *plan is the one before.
  virtual vf::Status make_plan(vf::Queue& queue, const Format& in, const Format& out,
                               vf::Placement placement, std::unique_ptr<vf::Plan>* plan) = 0;
  // Gives the plan what it needs of this very frame, before it runs. May enqueue, not wait.
  virtual vf::Status prepare_frame(GstBuffer* in, Rows rows, vf::Plan& plan) = 0;

 protected:
  ~PlanSource() = default;
};

struct PlanOptions {
  bool fields = true;     // filter the fields of interlaced frames one by one
  bool stateful = false;  // plans remember frames: they are kept when settings change
};

// One frame in flight: all its work is enqueued, and what it needs is held.
struct InFlightFrame {
  MappedFrame source, destination;
  Stage upload, download;                     // device memory for a side that is in host memory
  bool uploaded = false, downloaded = false;  // whether the stages are used
  bool wait = false;              // for the work, before anybody else may see the buffers
  GstMemory* out_cuda = nullptr;  // the destination's, where it is this context's CUDA memory
  std::unique_ptr<vf::Event> after_upload, after_filter, done;
  GstBuffer *in = nullptr, *out = nullptr;  // references

  vf::Image source_image(Rows rows) const;
  vf::Image destination_image(Rows rows) const;
  // Unmaps and drops the buffers.
  void release();
};

// The plans for the frames of one queue and caps, by placement and rows. Each is made when a frame
// first needs it.
class FramePlans {
 public:
  explicit FramePlans(PlanSource& source) : source_(source) {}
  // Drops the plans. The formats must outlive them.
  void configure(const Format& in, const Format& out, PlanOptions options);
  // Has the plans made again for other settings, before the next frame.
  void renew();
  void drop();
  // Makes the plans that a frame needs, where they are not there.
  vf::Status make(vf::Queue& queue, vf::Placement placement, GstBuffer* in);
  // Enqueues the filtering of a frame that is mapped; uploads are enqueued already.
  vf::Status run(vf::Queue& queue, vf::Placement placement, const InFlightFrame& frame,
                 GstBuffer* in);

 private:
  Rows rows_of(GstBuffer* buffer) const;
  Rows enter(GstBuffer* buffer);
  vf::Status plan_for(vf::Queue& queue, vf::Placement placement, Rows rows, vf::Plan** out);

  struct Kept {
    std::unique_ptr<vf::Plan> plan;
    bool stale = false;  // of settings that have changed since
  };
  PlanSource& source_;
  PlanOptions options_;
  const Format *in_ = nullptr, *out_ = nullptr;
  Rows last_rows_ = Rows::all;
  Kept kept_[2][3];
};

// All frames in flight of one element, with its queues and plans. Belongs to the streaming thread,
// or to start and stop.
class InFlight {
 public:
  // All must outlive it. `stats` gets the number of frames in flight and the time of each frame.
  InFlight(PlanSource& source, CudaContextHolder& cuda, FrameStats& stats);
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  // Closes, and chooses the backend: cpu or cuda. A backend of CUDA needs a context.
  void use(vf::Backend backend);
  bool on_cuda() const { return backend_ == vf::Backend::cuda; }
  // Makes the queue if it is not there. submit() does so too; this tells whether a context works.
  vf::Status open();
  // Discards the frames, drops plans and queues. The backend, formats and depth stay.
  void close();

  // For new caps: drops the plans and the stages. No frame may be in flight. At most `depth` frames
  // will stay in flight.
  void configure(const Format& in, const Format& out, PlanOptions options, size_t depth);
  size_t depth() const { return depth_; }
  // For new settings: has the plans made again, see FramePlans.
  void renew_plans();
  // Forgets all that plans remember of frames.
  void drop_plans();

  // Makes the plans that submit() will need. Leaves the buffers alone.
  vf::Status make_plans(GstBuffer* in, GstBuffer* out);
  // Enqueues all work of a frame, and takes a reference of both buffers. `in` may be `out` on the
  // CPU backend. Leaves the buffers alone where it fails, and nothing uses them.
  vf::Status submit(GstBuffer* in, GstBuffer* out);
  // Frames that were submitted and not yet completed: at most depth() + 1.
  size_t count() const { return count_; }
  // Completes the oldest frame: gives its result (full reference). Where it fails, the frame stays:
  // close.
  vf::Status complete(GstBuffer** out);
  // Waits for frames that were handed over before their work was done, and says what went wrong.
  vf::Status settle();
  // Waits for all frames and drops them.
  void discard();

 private:
  class Scope;
  vf::Status make_slots();
  vf::Status enqueue(GstBuffer* in, GstBuffer* out, InFlightFrame& frame);
  void wait_for_producer(GstMemory* memory);
  void start_timing(vf::Queue& queue);
  void end_timing(vf::Queue& queue);
  vf::Status hand_over(MemoryUsers& read, MemoryUsers& written);
  vf::Status wait_for(InFlightFrame& frame);
  vf::Status sync();

  CudaContextHolder& cuda_;
  FrameStats& stats_;
  vf::Backend backend_ = vf::Backend::cpu;
  Format in_, out_;
  size_t depth_ = 0;

  // Made for one backend, context and stream. Destroyed from the last to the first.
  GstCudaStream* stream_ = nullptr;  // what queue_ runs on; null: a stream of its own
  std::unique_ptr<vf::Queue> queue_;
  std::shared_ptr<Timeline> timeline_;  // of queue_, where frames are handed over
  // Copies of frames in host memory, where they overlap with other work; else null.
  std::unique_ptr<vf::Queue> upload_queue_, download_queue_;
  // The host's copies of frames that are not in pinned memory; null until there is one.
  std::unique_ptr<vf::Queue> copies_;
  FramePlans plans_;
  std::unique_ptr<vf::cuda::Timing> timing_;  // of queue_; null on the CPU
  // A ring of slots: `count_` frames from `oldest_` on are in flight.
  std::unique_ptr<InFlightFrame[]> slots_;
  size_t size_ = 0, oldest_ = 0, count_ = 0;
  GstClockTime started_ = 0;  // when the CPU began the last frame
};

}  // namespace gstvf
