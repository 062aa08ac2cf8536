// Makes batches for cudaletterboxbatch: collects the frames of its pads, and turns them into
// tensors when the policy says so. The element's virtual functions call this class.
#pragma once

#include <gst/base/gstaggregator.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "gst/base/backendsettings.h"
#include "gst/letterbox/batchpolicy.h"
#include "gst/letterbox/batchwork.h"

namespace gstvf {

// Belongs to the element's streaming thread, or to start and stop, except where a function says
// otherwise.
class Batcher {
 public:
  explicit Batcher(GstAggregator* element)
      : element_(element), cuda_(GST_ELEMENT(element)), work_(cuda_) {}

  // These are under the object's lock.
  BackendSettings backend;
  BatchSettings settings;
  LetterboxSettings letterbox;

  // Any thread may use the context as cudacontext.h says.
  CudaContextHolder& cuda() { return cuda_; }

  bool start();
  void stop();
  void flush();
  // Any thread may call it, for a pad that is being released.
  void removed(guint stream);

  // Negotiation
  GstFlowReturn update_caps(GstCaps* downstream, GstCaps** caps);
  bool set_caps(GstCaps* caps);
  // Tells the user why there are no caps, after negotiation has failed.
  void not_negotiated();
  bool decide_allocation(GstQuery* query);
  bool propose_allocation(GstQuery* query);
  // Handles the serialized event of a pad.
  void handle_event(GstCudaLetterboxBatchPad* pad, GstEvent* event);

  // Returns the running time at which the element is to make a batch, less its latency. It may be
  // negative, as a number modulo 2^64.
  GstClockTime next_time();
  // Makes a batch if one is due. Returns GST_FLOW_EOS if no stream has another frame.
  GstFlowReturn aggregate();

 private:
  using Pads = std::vector<GstCudaLetterboxBatchPad*>;
  class PadList;
  struct Chosen;

  void configure_policy();
  BatchMoment moment(GstClockTime latency);
  GstFlowReturn aggregate_now();
  void use_cpu_instead(const vf::Status& why);
  void refuse_caps(GstCudaLetterboxBatchPad* pad, const char* why);
  void say_backend(const std::string& text);
  bool has_end(GstCudaLetterboxBatchPad* pad) const;
  void send_events(const Pads& pads);
  bool take_next(GstCudaLetterboxBatchPad* pad, HeldFrame* dropped);
  void collect_pad(GstCudaLetterboxBatchPad* pad);
  bool adopt_context(GstBuffer* buffer);
  void drop(GstCudaLetterboxBatchPad* pad, HeldFrame& frame, bool late);
  void refuse(Chosen& chosen);
  bool check(Chosen& chosen);
  GstFlowReturn make_batch(const Pads& pads);
  GstFlowReturn acquire(GstBuffer** out);
  vf::Status write(std::vector<Chosen>& chosen, GstBuffer* out);
  GstFlowReturn push(std::vector<Chosen>& chosen, GstBuffer* out);
  GstFlowReturn fail(const vf::Status& status);

  GstAggregator* const element_;
  CudaContextHolder cuda_;
  BatchWork work_;
  BatchPolicy policy_;
  BackendSettings started_;  // the settings at start
  GstClockTime latency_ = 0;
  guint64 serial_ = 0;
  bool negotiated_ = false, refused_ = false, adopted_ = false, discont_ = true;
  // This is the format of the first frames. If the caps downstream name no size, the rows have that
  // of these frames.
  std::shared_ptr<const Format> first_;
  bool first_in_cuda_ = false;
  GstClockTime last_pts_ = 0;

  std::mutex mutex_;            // guards the list below
  std::vector<guint> removed_;  // streams whose end is still to be announced
};

}  // namespace gstvf
