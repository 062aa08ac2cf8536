#include "bench/measure.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace vf::bench {
namespace {

constexpr int kReplays = 15;
constexpr int kWarmUps = 2;
// A replay this long makes what starting it costs invisible.
constexpr double kReplayMicroseconds = 2000;
constexpr int kMaxCalls = 600;
// What takes longer than this is timed a call at a time, and less often.
constexpr double kSlowMicroseconds = 5000;
constexpr int kSlowReplays = 3;

constexpr uint8_t kPoison = 0xa5;

template <class T>
__global__ void fill_plane(uint8_t* data, ptrdiff_t stride, PlaneLayout l, int plane, int shift,
                           int max_value, uint32_t seed) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y;
  if (x >= l.width) return;
  T* at = reinterpret_cast<T*>(data + y * stride) + size_t(x) * l.channels;
  for (int c = 0; c < l.channels; c++)
    at[c] = as_component<T>(texture(plane, x, y, c, seed), shift, max_value);
}

struct Sums {
  unsigned long long
      largest;  // bits of doubles that are not negative: they order as the doubles do
  unsigned long long magnitude;
  unsigned long long equal;
};

template <class T>
__global__ void compare_plane(const uint8_t* got, ptrdiff_t got_stride, const uint8_t* want,
                              ptrdiff_t want_stride, int components, double unit, Sums* sums) {
  const int y = blockIdx.y;
  const T* g = reinterpret_cast<const T*>(got + y * got_stride);
  const T* w = reinterpret_cast<const T*>(want + y * want_stride);
  double largest = 0, magnitude = 0;
  unsigned equal = 0;
  for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < components; x += gridDim.x * blockDim.x) {
    const double a = double(g[x]) / unit, b = double(w[x]) / unit;
    if (isfinite(b)) magnitude = fmax(magnitude, fabs(b));
    if (a == b || (isnan(a) && isnan(b)))
      equal++;
    else
      largest = fmax(largest, isnan(a - b) ? double(INFINITY) : fabs(a - b));
  }
  // One atomic a warp.
  for (int step = 16; step; step /= 2) {
    largest = fmax(largest, __shfl_xor_sync(~0u, largest, step));
    magnitude = fmax(magnitude, __shfl_xor_sync(~0u, magnitude, step));
    equal += __shfl_xor_sync(~0u, equal, step);
  }
  if (threadIdx.x % 32) return;
  atomicMax(&sums->largest, static_cast<unsigned long long>(__double_as_longlong(largest)));
  atomicMax(&sums->magnitude, static_cast<unsigned long long>(__double_as_longlong(magnitude)));
  atomicAdd(&sums->equal, equal);
}

// Reads `in` and writes `out` vectors of 16 bytes, N a thread, loads before stores.
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
      dst[0] = v[i];  // practically never: it keeps the load where nothing is written for it
    }
  }
}

struct Copy {
  void (*kernel)(const uint4*, uint4*, int, int);
  int vectors, threads;
};

// Keeps the stream busy while the host enqueues what is timed, so that the time holds no launch
// that the device waited for.
__global__ void delay(unsigned long long nanoseconds) {
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
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

// What time_in_turn keeps for a subject.
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
  // Microseconds the device needs for what `enqueue` enqueues.
  template <class F>
  Status time(double head_start_us, F&& enqueue, double* us) {
    delay<<<1, 1, 0, stream_>>>(static_cast<unsigned long long>(head_start_us * 1000));
    BENCH_CUDA(cudaGetLastError());
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
  VF_TRY(check_cuda(ended, "cudaStreamEndCapture"));
  BENCH_CUDA(cudaGraphInstantiate(&run->graph.replay, run->graph.graph, 0));
  return {};
}

// Warms a subject up, finds how many calls make a replay, and captures them.
Status prepare(cudaStream_t stream, Stopwatch& watch, Run* run) {
  Subject& s = *run->subject;
  double us = 0;
  bool slow = false;
  // The first call also loads the kernel; the second one tells.
  for (const int calls : {1, 1, s.round}) {
    if (s.prepare) VF_TRY(s.prepare());
    slow = us > kSlowMicroseconds;
    if (calls > 1 && slow) break;
    VF_TRY(watch.time(
        20, [&] { return enqueue_calls(s, calls); }, &us));
  }
  if (slow) {
    run->calls = 1;
    run->replays = kSlowReplays;
  } else {
    const double wanted = kReplayMicroseconds / (us / s.round);
    const int rounds = int(std::min<double>(wanted, kMaxCalls) / s.round);
    // Work in place would not find its frames filled in a second round.
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
  // Plain launches: a head start that covers the host's time for all of them.
  return watch.time(
      10.0 * run->calls, [&] { return enqueue_calls(s, run->calls); }, us);
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

int components_of(const PlaneLayout& l) {
  return l.width * l.channels;
}

ptrdiff_t pitch(const Layout& l, int plane) {
  return ptrdiff_t((row_bytes(l, plane) + 255) / 256 * 256);
}

size_t extent(const Layout& l) {
  size_t bytes = 0;
  for (int p = 0; p < l.planes; p++) bytes += size_t(pitch(l, p)) * size_t(l.plane[p].height);
  return bytes;
}

Image place(const Layout& l, uint8_t** at) {
  Image image;
  image.layout = l;
  image.memory = Memory::device;
  for (int p = 0; p < l.planes; p++) {
    image.stride[p] = pitch(l, p);
    image.data[p] = *at;
    *at += image.stride[p] * l.plane[p].height;
  }
  return image;
}

}  // namespace

Status check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  return Status::error(Code::device_error, "%s: %s", call, cudaGetErrorString(error));
}

Status Ring::make(const Layout& src, const Layout& dst, bool in_place, size_t bytes) {
  for (const Layout& l : {src, dst})
    for (int p = 0; p < l.planes; p++)
      if (l.plane[p].pixel_step() != l.plane[p].channels)
        return Status::error(Code::unsupported, "the benchmark has no planes that share memory");
  const size_t pair = extent(src) + (in_place ? 0 : extent(dst));
  const size_t pairs = std::max<size_t>(1, (bytes + pair - 1) / pair);
  BENCH_CUDA(cudaMalloc(&memory_, pairs * pair));
  uint8_t* at = static_cast<uint8_t*>(memory_);
  for (size_t i = 0; i < pairs; i++) {
    src_.push_back(place(src, &at));
    dst_.push_back(in_place ? src_.back() : place(dst, &at));
  }
  return {};
}

Status fill(const Image& image, uint32_t seed, cudaStream_t stream) {
  for (int p = 0; p < image.layout.planes; p++) {
    const PlaneLayout& l = image.layout.plane[p];
    with_type(image.layout.type, [&](auto v) {
      const dim3 grid(unsigned(l.width + 127) / 128, unsigned(l.height));
      fill_plane<decltype(v)><<<grid, 128, 0, stream>>>(static_cast<uint8_t*>(image.data[p]),
                                                        image.stride[p], l, p, image.layout.shift,
                                                        image.layout.max_value, seed);
    });
  }
  BENCH_CUDA(cudaGetLastError());
  return {};
}

Status Ring::fill(uint32_t seed, cudaStream_t stream) {
  for (size_t i = 0; i < src_.size(); i++)
    VF_TRY(bench::fill(src_[i], seed * 1000003u + uint32_t(i), stream));
  return {};
}

Status Ring::poison(cudaStream_t stream) {
  for (const Image& image : dst_)
    for (int p = 0; p < image.layout.planes; p++)
      BENCH_CUDA(cudaMemsetAsync(image.data[p], kPoison,
                                 size_t(image.stride[p]) * size_t(image.layout.plane[p].height),
                                 stream));
  return {};
}

Status compare(const Image& got, const Image& want, cudaStream_t stream, Difference* out) {
  if (got.layout != want.layout)
    return Status::error(Code::invalid_argument, "images of different layouts compared");
  Sums* sums = nullptr;
  BENCH_CUDA(cudaMalloc(reinterpret_cast<void**>(&sums), sizeof(Sums)));
  const std::unique_ptr<Sums, cudaError_t (*)(void*)> owner(sums, cudaFree);
  BENCH_CUDA(cudaMemsetAsync(sums, 0, sizeof(Sums), stream));
  const double unit = 1 << want.layout.shift;
  double total = 0;
  for (int p = 0; p < want.layout.planes; p++) {
    const PlaneLayout& l = want.layout.plane[p];
    const int components = components_of(l);
    total += double(components) * l.height;
    with_type(want.layout.type, [&](auto v) {
      const dim3 grid(unsigned(std::min((components + 127) / 128, 8)), unsigned(l.height));
      compare_plane<decltype(v)><<<grid, 128, 0, stream>>>(
          static_cast<const uint8_t*>(got.data[p]), got.stride[p],
          static_cast<const uint8_t*>(want.data[p]), want.stride[p], components, unit, sums);
    });
    BENCH_CUDA(cudaGetLastError());
  }
  Sums result;
  BENCH_CUDA(cudaMemcpyAsync(&result, sums, sizeof result, cudaMemcpyDeviceToHost, stream));
  BENCH_CUDA(cudaStreamSynchronize(stream));
  memcpy(&out->largest, &result.largest, sizeof(double));
  memcpy(&out->magnitude, &result.magnitude, sizeof(double));
  out->equal = double(result.equal) / total;
  return {};
}

Status time_in_turn(cudaStream_t stream, const std::vector<Subject*>& subjects) {
  Stopwatch watch(stream);
  VF_TRY(watch.make());
  std::vector<Run> runs(subjects.size());
  for (size_t i = 0; i < subjects.size(); i++) {
    runs[i].subject = subjects[i];
    subjects[i]->status = prepare(stream, watch, &runs[i]);
  }
  for (int i = 0; i < kWarmUps + kReplays; i++)
    for (Run& run : runs) {
      if (!run.subject->status.ok() || i >= kWarmUps + run.replays) continue;
      double us = 0;
      run.subject->status = replay(stream, watch, &run, &us);
      if (i >= kWarmUps) run.times.push_back(us / run.calls);
    }
  for (Run& run : runs) run.subject->us = run.subject->status.ok() ? median(run.times) : -1;
  BENCH_CUDA(cudaStreamSynchronize(stream));
  return {};
}

Status make_floor(const Ring& ring, cudaStream_t stream, Subject* out) {
  std::vector<Copy> copies;
  for (const int threads : {256, 512, 1024}) {
    copies.push_back({copy<1>, 1, threads});
    copies.push_back({copy<2>, 2, threads});
    copies.push_back({copy<4>, 4, threads});
    copies.push_back({copy<8>, 8, threads});
  }
  const int in = int((payload(ring.src(0).layout) + 15) / 16);
  const int out_vectors = int((payload(ring.dst(0).layout) + 15) / 16);
  const auto subject = [&ring, stream, in, out_vectors](const Copy& c) {
    Subject s;
    s.round = ring.size();
    s.call = [&ring, stream, in, out_vectors, c](int i) -> Status {
      const int each = c.vectors * c.threads;
      const int blocks = (std::max(in, out_vectors) + each - 1) / each;
      c.kernel<<<unsigned(blocks), unsigned(c.threads), 0, stream>>>(
          static_cast<const uint4*>(ring.src(i).data[0]), static_cast<uint4*>(ring.dst(i).data[0]),
          in, out_vectors);
      BENCH_CUDA(cudaGetLastError());
      return {};
    };
    return s;
  };
  // Which is the fastest is found once for a size.
  static std::map<std::pair<std::pair<int, int>, int>, size_t> fastest;
  const auto key = std::make_pair(std::make_pair(in, out_vectors), ring.size());
  if (!fastest.count(key)) {
    std::vector<Subject> subjects;
    for (const Copy& c : copies) subjects.push_back(subject(c));
    std::vector<Subject*> all;
    for (Subject& s : subjects) all.push_back(&s);
    VF_TRY(time_in_turn(stream, all));
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

}  // namespace vf::bench
