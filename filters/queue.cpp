#include "filters/queue.h"

#include "filters/backend.h"

namespace vf {

static const BackendTable* reference_backend_table = nullptr;

void set_reference_backend(const BackendTable* table) {
  reference_backend_table = table;
}

const BackendTable* backend_table(Backend backend) {
  switch (backend) {
    case Backend::reference:
      return reference_backend_table;
    case Backend::cpu:
      return cpu_backend();
    case Backend::cuda:
      return cuda_backend();
  }
  return nullptr;
}

const char* name_of(Backend b) {
  constexpr const char* names[] = {"reference", "cpu", "cuda"};
  return names[int(b)];
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
