#include "cuda/guided/guided_mask.h"

namespace vf::cuda {

MaskUploads::~MaskUploads() {
  // The next owner of the memory writes to it at once.
  for (const Slot& slot : slot_)
    if (slot.copied) static_cast<void>(slot.copied->wait());
}

Status MaskUploads::set(CudaQueue& queue, const CoarseMask& mask, int width, int height) {
  if (mask.id && mask.id == id_) return {};
  VF_TRY(place_mask(mask, width, height, &placed_));
  if (placed_.count) {
    Slot& slot = slot_[next_];
    if (slot.copied) VF_TRY(slot.copied->wait());
    if (placed_.bytes > slot.memory.size())
      VF_TRY(queue.allocate(Memory::host, placed_.bytes, &slot.memory));
    if (placed_.bytes > device_.size())
      VF_TRY(queue.allocate(Memory::device, placed_.bytes, &device_));
    pack_mask(mask, placed_, slot.memory.as<uint8_t>());
    VF_TRY(queue.copy(device_.data(), slot.memory.data(), placed_.bytes));
    VF_TRY(queue.record(&slot.copied));
    next_ = (next_ + 1) % kSlots;
  }
  count_ = placed_.count;
  errors_ = placed_.errors;
  id_ = mask.id;
  return {};
}

}  // namespace vf::cuda
