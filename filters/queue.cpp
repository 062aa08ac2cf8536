#include "filters/queue.h"

#include "filters/backend.h"

namespace vf {

const char* name_of(Backend b) {
  switch (b) {
    case Backend::reference:
      return "reference";
    case Backend::cpu:
      return "cpu";
    case Backend::cuda:
      return "cuda";
  }
  return "?";
}

Allocation& Allocation::operator=(Allocation&& o) noexcept {
  if (this != &o) {
    reset();
    queue_ = o.queue_;
    memory_ = o.memory_;
    data_ = o.data_;
    size_ = o.size_;
    o.queue_ = nullptr;
    o.data_ = nullptr;
    o.size_ = 0;
  }
  return *this;
}

void Allocation::reset() {
  if (queue_ && data_) queue_->release(memory_, data_, size_);
  queue_ = nullptr;
  data_ = nullptr;
  size_ = 0;
}

Status make_queue(const QueueOptions& options, std::unique_ptr<Queue>* out) {
  const BackendTable* table = backend_table(options.backend);
  if (!table || !table->make_queue)
    return Status::error(Code::unsupported, "this build has no %s backend",
                         name_of(options.backend));
  return guarded([&] { return table->make_queue(options, out); });
}

Status cuda_usable() {
  return cuda_backend_usable();
}

}  // namespace vf
