// The lock of the emulated device.
#pragma once

namespace vf::emulation {

// Held by every API call; recursive, so that work may call the API.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};
// Whether the calling thread holds it.
bool locked();

}  // namespace vf::emulation
