// Locks the emulated device.
#pragma once

namespace vf::emulation {

// Every API call holds this lock. It is recursive, so that work may call the API.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};
// Returns whether the calling thread holds the lock.
bool locked();

}  // namespace vf::emulation
