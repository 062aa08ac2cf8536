#include "cpu/queue.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace vf::cpu {
namespace {

// This takes about 10 µs.
constexpr int kSpins = 300;

constexpr size_t kAlignment = 256;
// Blocks of this size are mapped, so that a plan for a huge frame takes no memory before it filters
// one. malloc() writes to its blocks when MALLOC_PERTURB_ is set, as Meson does for tests.
constexpr size_t kMapped = size_t{64} << 20;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

int usable_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  const unsigned n = std::thread::hardware_concurrency();
  return n ? int(n) : 1;
}

CpuQueue::CpuQueue(int threads) : Queue(Backend::cpu) {
  workers_.reserve(threads - 1);
  try {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::exception&) {
    // If the system gives no more threads or memory, the existing ones do the work.
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
  take_tasks(tasks, call, context, 0);
  // The others are at their last task. Most of these take less time than sleeping and waking up.
  for (int i = 0; i < kSpins && busy_; i++) relax();
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void CpuQueue::take_tasks(int tasks, Call call, void* context, int thread) {
  for (int task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks;)
    call(context, task, thread);
}

void CpuQueue::work(int thread) {
  unsigned seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stop_ || job_ != seen; });
    if (stop_) return;
    seen = job_;
    if (next_ >= tasks_) continue;
    const int tasks = tasks_;
    const Call call = call_;
    void* const context = context_;
    busy_++;
    lock.unlock();
    take_tasks(tasks, call, context, thread);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

Status CpuQueue::allocate(Memory memory, size_t bytes, Allocation* out) {
  if (memory != Memory::host)
    return Status::error(Code::unsupported, "the cpu backend has no device memory");
  void* data;
  if (bytes >= kMapped) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) data = nullptr;
  } else {
    data = std::aligned_alloc(kAlignment, std::max(round_up(bytes, kAlignment), kAlignment));
  }
  if (!data) return Status::error(Code::out_of_memory, "the host has no %zu free bytes", bytes);
  *out = Allocation(this, memory, data, bytes);
  return {};
}

void CpuQueue::release(Memory, void* data, size_t size) {
  if (size >= kMapped)
    munmap(data, size);
  else
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
    return Status::invalid("a copy needs two images of the same layout");
  if (src.memory != Memory::host || dst.memory != Memory::host)
    return Status::invalid("the cpu backend copies only host memory");
  for (int i = 0; i < src.layout.planes; i++)
    VF_TRY(copy_rows(dst.data[i], dst.stride[i], src.data[i], src.stride[i],
                     row_bytes(src.layout, i), src.layout.plane[i].height));
  return {};
}

Status CpuQueue::copy_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                           size_t bytes, int rows) {
  auto* s = static_cast<const char*>(src);
  auto* d = static_cast<char*>(dst);
  const int tasks = bytes * size_t(rows) < kWorthSharing ? 1 : std::min(rows, threads());
  parallel(tasks, [&](int task, int) {
    const int first = int(int64_t(rows) * task / tasks);
    cpu::copy_rows(d + first * dst_stride, dst_stride, s + first * src_stride, src_stride, bytes,
                   int(int64_t(rows) * (task + 1) / tasks) - first);
  });
  return {};
}

void copy_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride, size_t bytes,
               int rows) {
  if (dst_stride == src_stride && dst_stride == ptrdiff_t(bytes)) {
    std::memcpy(dst, src, bytes * size_t(rows));
    return;
  }
  auto* s = static_cast<const char*>(src);
  auto* d = static_cast<char*>(dst);
  for (int y = 0; y < rows; y++) std::memcpy(d + y * dst_stride, s + y * src_stride, bytes);
}

Status make_queue(const QueueOptions& options, std::unique_ptr<Queue>* out) {
  if (options.threads < 0 || options.threads > 1024)
    return Status::invalid("threads is %d, but it must be 0 to 1024", options.threads);
  *out = std::make_unique<CpuQueue>(options.threads ? options.threads : usable_processors());
  return {};
}

}  // namespace vf::cpu
