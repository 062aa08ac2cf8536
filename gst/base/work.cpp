#include "gst/base/work.h"

#include <optional>

#include "filters/row_copy.h"

namespace gstvf {

using vf::Status;

void Work::use(vf::Backend backend) {
  close();
  backend_ = backend;
}

Status Work::open() {
  if (on_cuda() && !cuda_.stream()) cuda_.use_stream(nullptr);
  // The queue must run on the stream that is chosen now.
  if (queue_ && on_cuda() && stream_ != cuda_.stream()) close();
  if (queue_) return {};
  const WorkContext scope(cuda_, backend_);
  VF_TRY(scope.status());
  vf::QueueOptions options;
  options.backend = backend_;
  if (on_cuda()) stream_ = stream_ref(cuda_.stream());
  options.stream = stream_handle(stream_);
  const Status status = vf::make_queue(options, &queue_);
  // A reference to the stream would keep its context alive, and a later attempt may use another
  // one.
  if (status.ok())
    opened();
  else
    stream_clear(&stream_);
  return status;
}

void Work::close() {
  {
    // Without its context, nothing of the queue can be freed. So a failure is no reason to give up.
    std::optional<WorkContext> scope(std::in_place, cuda_, backend_);
    if (!scope->status().ok()) scope.emplace(cuda_, backend_);
    drop();
    // Others may still wait for this work. They find it done, and report its errors themselves.
    if (timeline_) static_cast<void>(timeline_->wait());
    timeline_.reset();
    queue_.reset();
    copies_.reset();
  }
  stream_clear(&stream_);
}

Status Work::settle() {
  return timeline_ ? timeline_->wait() : Status();
}

GstMemory* Work::our_memory(GstBuffer* buffer) const {
  GstMemory* memory = on_cuda() ? cuda_memory(buffer) : nullptr;
  return memory && memory_context(memory) == cuda_.get() ? memory : nullptr;
}

bool Work::on_our_stream(GstMemory* memory) const {
  return memory && cuda_.stream() && memory_stream(memory) == cuda_.stream();
}

Status Work::mark(uint64_t* point) {
  if (!timeline_) VF_TRY(Timeline::make(cuda_.get(), &timeline_));
  return timeline_->mark(*queue_, point);
}

Status Work::prepare_copies(const MappedFrame& frame) {
  return frame.pinned() || copies_ ? Status() : vf::make_copy_queue(&copies_);
}

}  // namespace gstvf
