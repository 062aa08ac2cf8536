// Divides one allocation into many arrays.
#pragma once

#include <cstddef>

namespace vf::cuda {

// Takes parts of a block of memory, aligned to 256 bytes. Without memory it only counts bytes.
class Parts {
 public:
  explicit Parts(char* base) : base_(base) {}
  template <class T>
  void take(T** out, size_t n) {
    *out = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += (n * sizeof(T) + 255) / 256 * 256;
  }
  size_t used() const { return used_; }

 private:
  char* base_;
  size_t used_ = 0;
};

}  // namespace vf::cuda
