#include "cpu/queue.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace vf::cpu {
namespace {

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  const unsigned n = std::thread::hardware_concurrency();
  return n ? int(n) : 1;
}

}  // namespace

CpuQueue::CpuQueue(int threads) : Queue(Backend::cpu) {
  workers_.reserve(threads - 1);
  try {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::exception&) {
    // The system gives no more threads, or no memory for one: those there are do the work.
  }
}

CpuQueue::~CpuQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void CpuQueue::run(int tasks, Call call, void* context) {
  if (tasks <= 1 || workers_.empty()) {
    for (int i = 0; i < tasks; i++) call(context, i, 0);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    call_ = call;
    context_ = context;
    tasks_ = tasks;
    next_ = 0;
    job_++;
  }
  start_.notify_all();
  take_tasks(0);
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return next_ >= tasks_ && busy_ == 0; });
}

void CpuQueue::take_tasks(int thread) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (next_ < tasks_) {
    const int task = next_++;
    const Call call = call_;
    void* const context = context_;
    busy_++;
    lock.unlock();
    call(context, task, thread);
    lock.lock();
    busy_--;
  }
  if (busy_ == 0) done_.notify_one();
}

void CpuQueue::work(int thread) {
  unsigned seen = 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      start_.wait(lock, [&] { return stop_ || job_ != seen; });
      if (stop_) return;
      seen = job_;
    }
    take_tasks(thread);
  }
}

Status CpuQueue::allocate(Memory memory, size_t bytes, Allocation* out) {
  if (memory != Memory::host)
    return Status::error(Code::unsupported, "the cpu backend has no device memory");
  constexpr size_t alignment = 256;
  if (bytes > SIZE_MAX - alignment) return Status::error(Code::out_of_memory, "out of host memory");
  const size_t size = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, size ? size : alignment);
  if (!data) return Status::error(Code::out_of_memory, "no %zu bytes of host memory", bytes);
  *out = Allocation(this, memory, data, bytes);
  return {};
}

void CpuQueue::release(Memory, void* data, size_t) {
  std::free(data);
}

Status CpuQueue::copy(void* dst, const void* src, size_t bytes) {
  std::memcpy(dst, src, bytes);
  return {};
}

Status CpuQueue::copy(const Image& src, const Image& dst) {
  VF_TRY(validate(src));
  VF_TRY(validate(dst));
  if (src.layout != dst.layout)
    return Status::error(Code::invalid_argument, "copy between images of different layouts");
  if (src.memory != Memory::host || dst.memory != Memory::host)
    return Status::error(Code::invalid_argument, "the cpu backend copies host memory only");
  for (int i = 0; i < src.layout.planes; i++)
    VF_TRY(copy_rows(dst.data[i], dst.stride[i], src.data[i], src.stride[i],
                     row_bytes(src.layout, i), src.layout.plane[i].height));
  return {};
}

Status CpuQueue::copy_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                           size_t bytes, int rows) {
  auto* s = static_cast<const char*>(src);
  auto* d = static_cast<char*>(dst);
  // One thread does not fill the memory's bandwidth; for little, waking others takes longer.
  constexpr size_t worth_sharing = 512 << 10;
  const int tasks = bytes * size_t(rows) < worth_sharing ? 1 : std::min(rows, threads());
  auto copy = [&](int task, int) {
    const int end = int(int64_t(rows) * (task + 1) / tasks);
    for (int y = int(int64_t(rows) * task / tasks); y < end; y++)
      std::memcpy(d + y * dst_stride, s + y * src_stride, bytes);
  };
  if (tasks > 1)
    parallel(tasks, copy);
  else
    copy(0, 0);
  return {};
}

Status make_queue(const QueueOptions& options, std::unique_ptr<Queue>* out) {
  if (options.threads < 0 || options.threads > 1024)
    return Status::error(Code::invalid_argument, "threads is %d: must be 0 to 1024",
                         options.threads);
  *out = std::make_unique<CpuQueue>(options.threads ? options.threads : usable_processors());
  return {};
}

}  // namespace vf::cpu
