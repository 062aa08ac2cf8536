#pragma once

namespace vf {

// A class that derives from this can be neither copied nor moved.
class NoCopy {
 public:
  NoCopy(const NoCopy&) = delete;
  NoCopy& operator=(const NoCopy&) = delete;

 protected:
  NoCopy() = default;
};

}  // namespace vf
