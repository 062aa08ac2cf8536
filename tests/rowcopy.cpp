// Tests copies of rows by several threads (filters/row_copy.h) and the CPU queue that distributes
// them.
#include "filters/row_copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "cpu/queue.h"
#include "tests/tap.h"

using namespace vf;

namespace {

test::Tap tap;

std::unique_ptr<Queue> make(int threads) {
  QueueOptions options;
  options.threads = threads;
  std::unique_ptr<Queue> queue;
  static_cast<void>(make_queue(options, &queue));
  return queue;
}

struct Shape {
  int bytes, rows, dst_gap, src_gap;
};
constexpr size_t kStep = 300000;
constexpr int kTimes = 5;
constexpr uint8_t kGuard = 0xa5;

// Holds a copy and the number of rows that it has reported as done.
struct Copy {
  explicit Copy(const Shape& s)
      : shape(s),
        src_stride(s.bytes + s.src_gap),
        dst_stride(s.bytes + s.dst_gap),
        src(size_t(src_stride) * size_t(s.rows)),
        dst(size_t(dst_stride) * size_t(s.rows), kGuard) {
    for (size_t i = 0; i < src.size(); i++) src[i] = uint8_t((i * 2654435761u) >> 13 | 1);
  }

  Status run(Queue& queue) {
    return copy_rows_in_order(queue, dst.data(), dst_stride, src.data(), src_stride,
                              size_t(shape.bytes), shape.rows, kStep, done, this);
  }

  // Makes every other block of the destination slow, because its pages are allocated when they are
  // written.
  void slow_down() {
    constexpr uintptr_t block = 256 << 10;
    const auto begin = reinterpret_cast<uintptr_t>(dst.data());
    for (uintptr_t at = (begin + block - 1) / block * block; at + block <= begin + dst.size();
         at += 2 * block)
      madvise(reinterpret_cast<void*>(at), block, MADV_DONTNEED);
  }

  static Status done(void* context, int rows) {
    auto& self = *static_cast<Copy*>(context);
    self.calls++;
    const bool enough = size_t(rows - self.told) * size_t(self.shape.bytes) >= kStep;
    if (rows <= self.told || rows > self.shape.rows || (!enough && rows < self.shape.rows))
      self.wrong = "it told of a wrong number of rows";
    // Rows that are reported must be there.
    for (int y = self.told; y < std::min(rows, self.shape.rows); y++)
      if (memcmp(&self.dst[size_t(y) * size_t(self.dst_stride)],
                 &self.src[size_t(y) * size_t(self.src_stride)], size_t(self.shape.bytes)) != 0)
        self.wrong = "it told of a row that is not there";
    self.told = rows;
    return self.calls == self.fails_at ? Status::error(Code::device_error, "no more") : Status();
  }

  const char* check() const {
    if (*wrong) return wrong;
    if (told != shape.rows) return "it did not tell of all rows";
    for (size_t i = 0; i < dst.size(); i++)
      if (int(i % size_t(dst_stride)) >= shape.bytes && dst[i] != kGuard)
        return "it wrote between the rows";
    return "";
  }

  Shape shape;
  int src_stride, dst_stride;
  std::vector<uint8_t> src, dst;
  int told = 0, calls = 0, fails_at = 0;
  const char* wrong = "";
};

void copies() {
  constexpr Shape shapes[] = {{1, 1, 0, 0},       {1, 3000, 3, 0},     {7680, 270, 0, 0},
                              {7679, 1081, 1, 9}, {300001, 17, 64, 0}, {64, 20011, 0, 0},
                              {2, 900000, 1, 1}};
  for (const int threads : {1, 2, 3, 8}) {
    const std::unique_ptr<Queue> queue = make(threads);
    for (const Shape& shape : shapes) {
      char name[100];
      std::snprintf(name, sizeof name, "%d rows of %d bytes by %d threads", shape.rows, shape.bytes,
                    threads);
      // Several threads finish their pieces in a different order each time.
      const char* wrong = "";
      for (int i = 0; i < (threads > 1 ? kTimes : 1) && !*wrong; i++) {
        Copy copy(shape);
        wrong = copy.run(*queue).ok() ? copy.check() : "it failed";
      }
      tap.check(name, !*wrong, "%s", wrong);
    }
  }
  // A single thread reports its progress in steps.
  const std::unique_ptr<Queue> queue = make(1);
  const std::unique_ptr<Queue> three = make(3);
  const char* wrong = "";
  for (int i = 0; i < 40 && !*wrong; i++) {
    Copy copy({7680, 1080, 0, 0});
    copy.slow_down();
    wrong = copy.run(*three).ok() ? copy.check() : "it failed";
  }
  tap.check("pieces that end out of their order", !*wrong, "%s", wrong);

  Copy none({100, 0, 0, 0});
  tap.check("no rows", none.run(*queue).ok() && none.calls == 0);

  Copy ends({7680, 1080, 0, 0});
  ends.fails_at = 2;
  const Status status = ends.run(*queue);
  tap.check("an error ends the calls", status.code() == Code::device_error && ends.calls == 2,
            "%d calls, \"%s\"", ends.calls, status.message());
}

// Runs each task of each job exactly once before the job ends. Jobs are short, so threads arrive
// late for many of them, and some tasks are long.
void jobs() {
  constexpr int kJobs = 5000;
  cpu::CpuQueue queue(4);
  int wrong = 0;
  for (int job = 0; job < kJobs; job++) {
    const int tasks = 1 + job % 7;
    std::atomic<int> ran[7] = {};
    int sum[4] = {};  // each thread has its own scratch
    queue.parallel(tasks, [&](int task, int thread) {
      if (thread && job % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      ran[task]++;
      sum[thread]++;
    });
    bool once = true;
    for (int i = 0; i < 7; i++) once &= ran[i] == (i < tasks ? 1 : 0);
    wrong += !once || sum[0] + sum[1] + sum[2] + sum[3] != tasks;
  }
  tap.check("each task of a job runs once", wrong == 0, "%d of %d jobs went wrong", wrong, kJobs);
}

}  // namespace

int main() {
  copies();
  jobs();
  return tap.end();
}
