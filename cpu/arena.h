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

// Returns a thread's part of a frame's scratch memory.
template <class Frame>
char* memory_of(const Frame& f, int thread) {
  return f.scratch + f.scratch_per_thread * thread;
}

// Defines void prefix_name(const Frame&, int y0, int y1, int thread), which runs the stage
// size_t name(const Frame&, int y0, int y1, char* memory) on the thread's scratch memory, with the
// best instruction set.
#define VF_STAGE(Frame, prefix, name)                                \
  HWY_EXPORT(name);                                                  \
  void prefix##_##name(const Frame& f, int y0, int y1, int thread) { \
    HWY_DYNAMIC_DISPATCH(name)(f, y0, y1, memory_of(f, thread));     \
  }

}  // namespace vf::cpu
