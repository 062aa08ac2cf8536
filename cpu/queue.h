// The CPU backend's queue is a pool of threads that share the rows of a frame.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "filters/queue.h"

namespace vf::cpu {

class CpuQueue final : public Queue {
 public:
  explicit CpuQueue(int threads);
  ~CpuQueue() override;

  int threads() const { return int(workers_.size()) + 1; }

  // Calls f(task, thread) once for every task in [0, tasks), on the pool's threads and this one,
  // and returns when all are done. `thread` is in [0, threads()). No two calls that run at the same
  // time share it, so it can index scratch memory. f must not throw.
  template <class F>
  void parallel(int tasks, F&& f) {
    auto call = [](void* context, int task, int thread) {
      (*static_cast<std::remove_reference_t<F>*>(context))(task, thread);
    };
    run(tasks, call, &f);
  }

  Status sync() override { return {}; }
  Status allocate(Memory memory, size_t bytes, Allocation* out) override;
  Status copy(void* dst, const void* src, size_t bytes) override;
  Status copy(const Image& src, const Image& dst) override;
  Status copy_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                   size_t bytes, int rows) override;

 private:
  using Call = void (*)(void* context, int task, int thread);
  void run(int tasks, Call call, void* context);
  void work(int thread);
  void take_tasks(int tasks, Call call, void* context, int thread);
  void release(Memory memory, void* data, size_t size) override;

  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> workers_;
  // These describe the current job. The mutex guards all fields except the atomics. Workers join a
  // job while it has tasks that no thread has begun, and the job is over when all of them have
  // left.
  Call call_ = nullptr;
  void* context_ = nullptr;
  int tasks_ = 0;
  std::atomic<int> next_{0};  // task
  std::atomic<int> busy_{0};  // workers in the job
  unsigned job_ = 0;
  bool stop_ = false;
};

// Returns the first component of a row of an image.
template <class T>
T* row_of(const Image& image, int plane, int y) {
  return reinterpret_cast<T*>(static_cast<uint8_t*>(image.data[plane]) + y * image.stride[plane]);
}

// Calls f with a value of the type of components that are bytes, words or floats.
template <class F>
auto with_component(Type type, const F& f) {
  switch (type) {
    case Type::u8:
      return f(uint8_t{});
    case Type::u16:
      return f(uint16_t{});
    default:
      return f(float{});
  }
}

// Copies the channels in `mask` (bit c: channel c) of so many pixels of a row. Steps are in
// components from pixel to pixel.
constexpr int kAllChannels = 0xf;
template <class T>
void copy_channels(const T* from, int from_step, T* to, int to_step, int channels, int mask,
                   int pixels) {
  if (!(~mask & ((1 << channels) - 1)) && from_step == channels && to_step == channels) {
    std::memcpy(to, from, size_t(pixels) * channels * sizeof(T));
    return;
  }
  for (int c = 0; c < channels; c++)
    for (int x = 0; x < pixels && mask >> c & 1; x++)
      to[ptrdiff_t(x) * to_step + c] = from[ptrdiff_t(x) * from_step + c];
}

// One thread does not fill the memory's bandwidth. For fewer bytes than this, waking others takes
// longer.
constexpr size_t kWorthSharing = 512 << 10;

// Copies on this thread.
void copy_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride, size_t bytes,
               int rows);

// Returns the number of processors that this process may use.
int usable_processors();

Status make_queue(const QueueOptions& options, std::unique_ptr<Queue>* out);

}  // namespace vf::cpu
