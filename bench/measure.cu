#include "bench/measure.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "bench/report.h"
#include "cuda/core/launch.h"

namespace vf::bench {
namespace {

constexpr int kReplays = 15;
constexpr int kWarmUps = 2;
// Replays of this length make the cost of starting one negligible.
constexpr double kReplayMicroseconds = 2000;
constexpr int kMaxCalls = 600;
// Calls that take longer are timed one at a time, and less often.
constexpr double kSlowMicroseconds = 5000;
constexpr int kSlowReplays = 3;

// Reads `in` and writes `out` vectors of 16 bytes, N per thread, with loads before stores.
template <int N>
__global__ void copy(const uint4* __restrict__ src, uint4* __restrict__ dst, int in, int out) {
  const int first = blockIdx.x * blockDim.x * N + threadIdx.x;
  uint4 v[N];
#pragma unroll
  for (int i = 0; i < N; i++) {
    const int at = first + i * blockDim.x;
    v[i] = at < in ? src[at] : make_uint4(at, at, at, at);
  }
#pragma unroll
  for (int i = 0; i < N; i++) {
    const int at = first + i * blockDim.x;
    if (at < out) {
      dst[at] = v[i];
    } else if (at < in && (v[i].x ^ v[i].y ^ v[i].z ^ v[i].w) == 0x5a17c0deu &&
               v[i].x == 0x1234567u) {
      dst[0] = v[i];  // practically never true; keeps the load if nothing is written for it
    }
  }
}

struct Copy {
  void (*kernel)(const uint4*, uint4*, int, int);
  int vectors, threads;
};

// Keeps the stream busy while the host enqueues the timed work, so that the device never waits for
// a launch.
__global__ void delay([[maybe_unused]] unsigned long long nanoseconds) {
#if !VF_EMULATION
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
#endif
}

struct Event {
  cudaEvent_t event = nullptr;
  ~Event() {
    if (event) cudaEventDestroy(event);
  }
};

struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ~Graph() {
    if (replay) cudaGraphExecDestroy(replay);
    if (graph) cudaGraphDestroy(graph);
  }
};

// Holds what time_in_turn knows about a subject.
struct Run {
  Subject* subject;
  Graph graph;
  int calls = 0;
  int replays = kReplays;
  std::vector<double> times;
};

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {}
  Status make() {
    BENCH_CUDA(cudaEventCreate(&start_.event));
    BENCH_CUDA(cudaEventCreate(&stop_.event));
    return {};
  }
  // Returns the microseconds that the device needs for the work that `enqueue` enqueues.
  template <class F>
  Status time(double head_start_us, F&& enqueue, double* us) {
    VF_TRY(cuda::launch("delay", delay, {1, 1}, stream_,
                        static_cast<unsigned long long>(head_start_us * 1000)));
    BENCH_CUDA(cudaEventRecord(start_.event, stream_));
    VF_TRY(enqueue());
    BENCH_CUDA(cudaEventRecord(stop_.event, stream_));
    BENCH_CUDA(cudaEventSynchronize(stop_.event));
    float ms = 0;
    BENCH_CUDA(cudaEventElapsedTime(&ms, start_.event, stop_.event));
    *us = double(ms) * 1000;
    return {};
  }

 private:
  cudaStream_t stream_;
  Event start_, stop_;
};

Status enqueue_calls(const Subject& subject, int calls) {
  for (int i = 0; i < calls; i++) VF_TRY(subject.call(i % subject.round));
  return {};
}

Status capture(cudaStream_t stream, Run* run) {
  BENCH_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const Status enqueued = enqueue_calls(*run->subject, run->calls);
  const cudaError_t ended = cudaStreamEndCapture(stream, &run->graph.graph);
  VF_TRY(enqueued);
  VF_TRY(cuda::check(ended, "cudaStreamEndCapture"));
  BENCH_CUDA(cudaGraphInstantiate(&run->graph.replay, run->graph.graph, 0));
  return {};
}

// Warms a subject up, finds how many calls make a replay, and captures them.
Status prepare(cudaStream_t stream, Stopwatch& watch, bool smoke, Run* run) {
  Subject& s = *run->subject;
  double us = 0;
  bool slow = false;
  // The first call also loads the kernel, so only the second one is timed.
  for (const int calls : {1, 1, s.round}) {
    if (s.prepare) VF_TRY(s.prepare());
    slow = us > kSlowMicroseconds;
    if (calls > 1 && slow) break;
    VF_TRY(watch.time(
        20, [&] { return enqueue_calls(s, calls); }, &us));
  }
  if (smoke) {
    run->calls = s.round;
    run->replays = 1;
  } else if (slow) {
    run->calls = 1;
    run->replays = kSlowReplays;
  } else {
    const double wanted = kReplayMicroseconds / (us / s.round);
    const int rounds = int(std::min<double>(wanted, kMaxCalls) / s.round);
    // Work in place would find its frames already filtered in a second round.
    run->calls = s.round * (s.prepare ? 1 : std::max(1, rounds));
  }
  if (Status captured = capture(stream, run); !captured.ok()) {
    cudaGetLastError();
    s.graph = false;
    run->calls = std::min(run->calls, s.round * std::max(1, 200 / s.round));
  }
  return {};
}

Status replay(cudaStream_t stream, Stopwatch& watch, Run* run, double* us) {
  Subject& s = *run->subject;
  if (s.prepare) VF_TRY(s.prepare());
  if (run->graph.replay)
    return watch.time(
        150,
        [&]() -> Status {
          BENCH_CUDA(cudaGraphLaunch(run->graph.replay, stream));
          return {};
        },
        us);
  // Calls without a graph get a head start that covers the host's time for all launches.
  return watch.time(
      10.0 * run->calls, [&] { return enqueue_calls(s, run->calls); }, us);
}

}  // namespace

Status Ring::make(size_t src_bytes, size_t dst_bytes, size_t total) {
  const auto whole = [](size_t bytes) { return (bytes + 255) / 256 * 256; };
  dst_offset_ = dst_bytes ? whole(src_bytes) : 0;
  pair_ = whole(src_bytes) + whole(dst_bytes);
  pairs_ = int(std::max<size_t>(1, (total + pair_ - 1) / pair_));
  BENCH_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory_), size_t(pairs_) * pair_));
  return {};
}

Status time_in_turn(cudaStream_t stream, const std::vector<Subject*>& subjects, bool smoke) {
  const int warm_ups = smoke ? 0 : kWarmUps;
  Stopwatch watch(stream);
  VF_TRY(watch.make());
  std::vector<Run> runs(subjects.size());
  for (size_t i = 0; i < subjects.size(); i++) {
    runs[i].subject = subjects[i];
    subjects[i]->status = prepare(stream, watch, smoke, &runs[i]);
  }
  for (int i = 0; i < warm_ups + kReplays; i++)
    for (Run& run : runs) {
      if (!run.subject->status.ok() || i >= warm_ups + run.replays) continue;
      double us = 0;
      run.subject->status = replay(stream, watch, &run, &us);
      if (i >= warm_ups) run.times.push_back(us / run.calls);
    }
  for (Run& run : runs) run.subject->us = run.subject->status.ok() ? median(run.times) : -1;
  BENCH_CUDA(cudaStreamSynchronize(stream));
  return {};
}

Status make_floor(const Ring& ring, size_t read, size_t written, cudaStream_t stream, bool smoke,
                  Subject* out) {
  constexpr Copy copies[] = {{copy<1>, 1, 256},  {copy<2>, 2, 256},  {copy<4>, 4, 256},
                             {copy<8>, 8, 256},  {copy<1>, 1, 512},  {copy<2>, 2, 512},
                             {copy<4>, 4, 512},  {copy<8>, 8, 512},  {copy<1>, 1, 1024},
                             {copy<2>, 2, 1024}, {copy<4>, 4, 1024}, {copy<8>, 8, 1024}};
  const int in_vectors = int((read + 15) / 16), out_vectors = int((written + 15) / 16);
  const auto subject = [&ring, stream, in_vectors, out_vectors](const Copy& c) {
    Subject s;
    s.round = ring.size();
    s.call = [&ring, stream, in_vectors, out_vectors, c](int i) {
      const int each = c.vectors * c.threads;
      const int blocks = (std::max(in_vectors, out_vectors) + each - 1) / each;
      return cuda::launch("copy", c.kernel, {unsigned(blocks), unsigned(c.threads)}, stream,
                          reinterpret_cast<const uint4*>(ring.src(i)),
                          reinterpret_cast<uint4*>(ring.dst(i)), in_vectors, out_vectors);
    };
    return s;
  };
  // The fastest variant is determined once per size.
  static std::map<std::pair<std::pair<int, int>, int>, size_t> fastest;
  const auto key = std::make_pair(std::make_pair(in_vectors, out_vectors), ring.size());
  if (!fastest.count(key)) {
    std::vector<Subject> subjects;
    for (const Copy& c : copies) subjects.push_back(subject(c));
    std::vector<Subject*> all;
    for (Subject& s : subjects) all.push_back(&s);
    VF_TRY(time_in_turn(stream, all, smoke));
    size_t best = 0;
    for (size_t i = 0; i < subjects.size(); i++) {
      VF_TRY(subjects[i].status);
      if (subjects[i].us < subjects[best].us) best = i;
    }
    fastest[key] = best;
  }
  *out = subject(copies[fastest[key]]);
  return {};
}

#if VF_EMULATION
Status cache_size(size_t* bytes) {
  *bytes = 1 << 20;
  return {};
}
Status describe_device(std::string* text) {
  *text = "the emulated device, whose times mean nothing";
  return {};
}
#else
Status cache_size(size_t* bytes) {
  int device = 0, size = 0;
  BENCH_CUDA(cudaGetDevice(&device));
  BENCH_CUDA(cudaDeviceGetAttribute(&size, cudaDevAttrL2CacheSize, device));
  *bytes = size_t(size);
  return {};
}

Status describe_device(std::string* text) {
  int device = 0, runtime = 0, driver = 0;
  cudaDeviceProp properties;
  BENCH_CUDA(cudaGetDevice(&device));
  BENCH_CUDA(cudaGetDeviceProperties(&properties, device));
  BENCH_CUDA(cudaRuntimeGetVersion(&runtime));
  BENCH_CUDA(cudaDriverGetVersion(&driver));
  char line[400];
  snprintf(line, sizeof line,
           "%s (sm_%d%d, %d SMs, %d MB of L2), CUDA %d.%d, driver for CUDA %d.%d", properties.name,
           properties.major, properties.minor, properties.multiProcessorCount,
           properties.l2CacheSize >> 20, runtime / 1000, runtime % 1000 / 10, driver / 1000,
           driver % 1000 / 10);
  *text = line;
  return {};
}
#endif

}  // namespace vf::bench
