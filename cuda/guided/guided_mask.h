// Uploads external masks to the device.
#pragma once

#include <memory>

#include "cuda/guided/guided.h"

namespace vf::cuda {

// Uploads masks in the order of the queue. Copies are enqueued from kSlots blocks of pinned memory
// in turn, and the host waits only where a block's last copy is not done.
class MaskUploads {
 public:
  MaskUploads() = default;
  MaskUploads(MaskUploads&&) = default;
  MaskUploads& operator=(MaskUploads&&) = default;
  ~MaskUploads();
  // Enqueues the upload of a mask for frames of width x height pixels, unless it has the number of
  // the previous one. Allocates if the mask is larger than all previous ones. If it fails, the
  // previous mask stays.
  Status set(CudaQueue& queue, const CoarseMask& mask, int width, int height);

  // Returns the mask on the device, for work that is enqueued after set().
  ExternalMask mask() const { return {device_.as<MaskPlace>(), device_.as<uint8_t>(), count_}; }
  // Returns the error of the mask's edge as a mask. It has no parts if they have no errors.
  ExternalMask edge_error() const {
    return {device_.as<MaskPlace>(), device_.as<uint8_t>() + errors_, errors_ ? count_ : 0};
  }

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
  size_t errors_ = 0;
  uint64_t id_ = 0;
};

}  // namespace vf::cuda
