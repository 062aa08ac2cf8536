// Divides a thread's scratch memory into the arrays that a stage needs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vf::cpu {

// Takes aligned arrays from a thread's scratch memory. Without memory (null) it only counts the
// bytes.
class Arena {
 public:
  explicit Arena(char* base) : base_(base) {}
  // Returns n elements with `around` more on either side.
  template <class T>
  T* take(size_t n, size_t around = 0) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(base_) + used_ + around * sizeof(T);
    used_ += ((n + 2 * around) * sizeof(T) + 63) / 64 * 64 + 64;
    return reinterpret_cast<T*>(at);
  }
  size_t used() const { return used_; }

 private:
  char* base_;
  size_t used_ = 0;
};

}  // namespace vf::cpu
