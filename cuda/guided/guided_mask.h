// Masks beside the frames on their way to the device.
#pragma once

#include <memory>

#include "cuda/guided/guided.h"

namespace vf::cuda {

// Uploads masks in the order of the queue, by way of pinned memory in turn: a copy is enqueued, and
// the host waits only where the copy before the last three is still to be done.
class MaskUploads {
 public:
  MaskUploads() = default;
  MaskUploads(MaskUploads&&) = default;
  MaskUploads& operator=(MaskUploads&&) = default;
  ~MaskUploads();
  // Enqueues the upload of a mask for frames of width x height pixels, unless it has the number of
  // the one before. Allocates where a mask is larger than all before. Where it fails, the mask
  // before stays.
  Status set(CudaQueue& queue, const CoarseMask& mask, int width, int height);

  // On the device, for what is enqueued from now on.
  ExternalMask mask() const { return {device_.as<MaskPlace>(), device_.as<uint8_t>(), count_}; }

 private:
  struct Slot {
    Allocation memory;
    std::unique_ptr<Event> copied;
  };
  static constexpr int kSlots = 4;
  Slot slot_[kSlots];
  int next_ = 0;
  Allocation device_;
  PlacedMask placed_;
  int count_ = 0;
  uint64_t id_ = 0;
};

}  // namespace vf::cuda
