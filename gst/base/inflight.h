// Holds the frames on their way through a filter.
//
// submit() enqueues all work of a frame: mapping, the upload if it lies in host memory, filtering,
// and the download of the result. complete() waits for the oldest frame and returns it. An element
// without latency (depth 0) completes each frame as soon as it is submitted. With depth n, n frames
// stay in flight. Uploads, filtering and downloads then have a queue each, so that the work on
// neighbouring frames overlaps. On the CPU backend, submit() filters the frame before it returns.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "filters/plan.h"
#include "gst/base/work.h"

namespace vf::cuda {
class Timing;
}

namespace gstvf {

struct FrameStats;

// An element implements this. Calls come on the thread that calls InFlight, with CUDA's context
// current.
class PlanSource {
 public:
  // Makes the plan for frames, or fields, of these formats. If plans remember frames and only
  // settings changed, *plan is the previous plan.
  virtual vf::Status make_plan(vf::Queue& queue, const Format& in, const Format& out,
                               vf::Placement placement, std::unique_ptr<vf::Plan>* plan) = 0;
  // Gives the plan what it needs for this frame, before it runs. It may enqueue work, but not wait.
  virtual vf::Status prepare_frame(GstBuffer* in, Rows rows, vf::Plan& plan) = 0;
  // Gives the plan the frames that come after this one, before prepare_frame(), if there are any.
  virtual vf::Status set_later(vf::Plan& plan, const vf::Image* frames, int count) = 0;

 protected:
  ~PlanSource() = default;
};

struct PlanOptions {
  bool fields = true;     // filter the fields of interlaced frames one by one
  bool stateful = false;  // plans remember frames, and stay when settings change
};

// Holds a frame that helps to filter an earlier one.
struct LaterFrame {
  GstBuffer* buffer = nullptr;  // a reference; null: not in use
  MappedFrame source;
  Stage upload;
  bool uploaded = false;
};

// Holds one frame in flight and everything that its enqueued work needs.
struct InFlightFrame {
  MappedFrame source, destination;
  Stage upload, download;                     // device copies of a side in host memory
  bool uploaded = false, downloaded = false;  // the stages are used
  bool wait = false;                          // the work must be done before others see the buffers
  GstMemory* out_cuda = nullptr;              // destination, if it is this context's CUDA memory
  std::unique_ptr<vf::Event> after_upload, after_filter, done;
  GstBuffer *in = nullptr, *out = nullptr;  // references
  std::deque<LaterFrame> later;             // in their order; those not in use come last

  vf::Image source_image(Rows rows) const;
  vf::Image destination_image(Rows rows) const;
  // Unmaps the buffers and drops them.
  void release();
};

// Holds the plans for the frames of one queue and caps, by placement and rows. Each plan is made
// when a frame first needs it.
class FramePlans {
 public:
  explicit FramePlans(PlanSource& source) : source_(source) {}
  // Drops the plans. The formats must outlive this object.
  void configure(const Format& in, const Format& out, PlanOptions options);
  // Marks all plans as outdated, so that the next frame makes new ones with the current settings.
  void renew();
  void drop();
  // Tells whether the plans that a frame needs are there and made with the current settings.
  bool has(vf::Placement placement, GstBuffer* in) const;
  // Makes the plans that a frame needs, if they are missing.
  vf::Status make(vf::Queue& queue, vf::Placement placement, GstBuffer* in);
  // Enqueues the filtering of a frame. It must be mapped, and its upload enqueued.
  vf::Status run(vf::Queue& queue, vf::Placement placement, const InFlightFrame& frame,
                 GstBuffer* in);
  // Returns the rows that are filtered at once: all, or those of the first field.
  Rows rows_of(GstBuffer* buffer) const;

 private:
  Rows enter(GstBuffer* buffer);
  vf::Status plan_for(vf::Queue& queue, vf::Placement placement, Rows rows, vf::Plan** out);

  struct Kept {
    std::unique_ptr<vf::Plan> plan;
    bool stale = false;  // settings have changed since it was made
  };
  PlanSource& source_;
  PlanOptions options_;
  const Format *in_ = nullptr, *out_ = nullptr;
  Rows last_rows_ = Rows::all;
  std::vector<vf::Image> later_;  // follow the frame that runs
  Kept kept_[2][3];
};

// Holds all frames in flight of one element, with its queues and plans. submit() opens.
class InFlight : public Work {
 public:
  // All must outlive it. `stats` gets the number of frames in flight, and the time of each frame on
  // the CPU, or of some frames on a GPU.
  InFlight(PlanSource& source, CudaContextHolder& cuda, FrameStats& stats);
  ~InFlight() override;

  // Chooses the backend as Work does.
  void use(vf::Backend backend);
  // Discards the frames and drops plans and queues. The backend, the formats and the depth stay.
  void close() override;

  // Drops the plans and the stages for new caps. No frame may be in flight. At most `depth` frames
  // will stay in flight.
  void configure(const Format& in, const Format& out, PlanOptions options, size_t depth);
  size_t depth() const { return depth_; }
  // Makes the next frame renew the plans for new settings (FramePlans::renew).
  void renew_plans();
  // Drops the plans and everything that they remember of frames.
  void drop_plans();

  // Tells whether submit() will make neither a queue nor plans.
  bool has_plans(GstBuffer* in, GstBuffer* out) const;
  // Makes the plans that submit() will need. Does not touch the buffers.
  vf::Status make_plans(GstBuffer* in, GstBuffer* out);
  // Enqueues all work of a frame and takes a reference of both buffers. `in` may be `out` on the
  // CPU backend. `later` has frames that come after it, for plans that take them. If it fails, it
  // takes no references, and nothing uses the buffers.
  vf::Status submit(GstBuffer* in, GstBuffer* out, const std::vector<GstBuffer*>& later = {});
  // Returns the number of frames that were submitted and not yet completed: at most depth() + 1.
  size_t count() const { return count_; }
  // Completes the oldest frame and returns its result (a full reference). If it fails, the frame
  // stays, and the caller must close().
  vf::Status complete(GstBuffer** out);
  // Waits for all frames and drops them.
  void discard();

 private:
  void opened() override;
  void drop() override;
  vf::Status make_slots();
  vf::Status enqueue(GstBuffer* in, GstBuffer* out, InFlightFrame& frame);
  vf::Queue& uploads() const { return upload_queue_ ? *upload_queue_ : *queue_; }
  vf::Queue& downloads() const { return download_queue_ ? *download_queue_ : *queue_; }
  vf::Status upload(const MappedFrame& source, Stage* stage);
  vf::Status read_later(InFlightFrame& frame, bool* uploads, bool* hands_over);
  void wait_for_producer(GstMemory* memory);
  void start_timing(vf::Queue& queue);
  void end_timing(vf::Queue& queue);
  vf::Status hand_over(MemoryUsers& read, MemoryUsers& written, const InFlightFrame& frame);
  vf::Status wait_for(InFlightFrame& frame);
  vf::Status sync();

  FrameStats& stats_;
  Format in_, out_;
  size_t depth_ = 0;

  // These belong to queue_. They are destroyed from the last to the first. The two queues copy
  // frames in host memory while other frames are filtered, and are null without latency.
  std::unique_ptr<vf::Queue> upload_queue_, download_queue_;
  FramePlans plans_;
  std::unique_ptr<vf::cuda::Timing> timing_;  // times queue_; null on the CPU
  // The slots are a ring: `count_` frames are in flight, from `oldest_` on.
  std::unique_ptr<InFlightFrame[]> slots_;
  size_t size_ = 0, oldest_ = 0, count_ = 0;
  GstClockTime started_ = 0;  // when the CPU began the last frame
  guint64 submitted_ = 0;     // number of frames since use()
  bool timed_ = false;        // the GPU times the last of them
};

}  // namespace gstvf
