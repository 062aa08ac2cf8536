#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>

#include "bench/cpu/cpu.h"
#include "bench/cpu/opencv.h"
#include "tests/reference/reference.h"

namespace vf::bench {
namespace {

struct Filter {
  const char* name;
  void (*rows)(CpuBench&);
};
constexpr Filter kFilters[] = {
    {"gaussian", gaussian_cpu_rows},
    {"guided", guided_cpu_rows},
    {"letterbox", letterbox_cpu_rows},
    {"median", median_cpu_rows},
};

constexpr int kReferenceWidth = 240;  // the reference is slow
constexpr double kSecondsPerRow = 1.0;
constexpr int kMinCalls = 7;

double median(std::vector<double> v) {
  if (v.empty()) return -1;
  std::nth_element(v.begin(), v.begin() + ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

template <class F>
void for_each_component(const Image& image, F&& f) {
  for (int p = 0; p < image.layout.planes; p++)
    for (int y = 0; y < image.layout.plane[p].height; y++)
      for (int x = 0; x < image.layout.plane[p].width; x++)
        for (int c = 0; c < image.layout.plane[p].channels; c++) f(p, x, y, c);
}

void fill(const Image& image, uint32_t seed) {
  for_each_component(image, [&](int p, int x, int y, int c) {
    with_type(image.layout.type, [&](auto v) {
      v = as_component<decltype(v)>(texture(p, x, y, c, seed), image.layout.shift,
                                    image.layout.max_value);
      std::memcpy(test::component(image, p, x, y, c), &v, sizeof v);
    });
  });
}

Difference compare(const Image& got, const Image& want) {
  Difference d;
  size_t equal = 0, total = 0;
  const double unit = 1 << want.layout.shift;
  for_each_component(want, [&](int p, int x, int y, int c) {
    const double a = test::read(got, p, x, y, c) / unit, b = test::read(want, p, x, y, c) / unit;
    total++;
    if (std::isfinite(b)) d.magnitude = std::fmax(d.magnitude, std::abs(b));
    if (a == b || (std::isnan(a) && std::isnan(b)))
      equal++;
    else
      d.largest = std::fmax(
          d.largest, std::isnan(a - b) ? std::numeric_limits<double>::infinity() : std::abs(a - b));
  });
  d.equal = double(equal) / double(total);
  return d;
}

template <class F>
double milliseconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

class Bench final : public CpuBench {
 public:
  Bench(const Options& options, std::unique_ptr<Queue> queue, std::unique_ptr<Queue> reference)
      : options_(options),
        queue_(std::move(queue)),
        reference_(std::move(reference)),
        table_({{"filter", 9},
                {"frame", 14},
                {"format", 11},
                {"parameters", 20},
                {"ms", 9, true},
                {"OpenCV ms", 9, true},
                {"speed-up", 8, true},
                {"max diff", 8, true},
                {"% equal", 7, true},
                {"of OpenCV", 9, true},
                {"check", 5}},
               options.csv) {}

  Table& table() { return table_; }
  int rows() const { return rows_; }
  int bad() const { return bad_; }

  void run(const CpuRow& row) override {
    const std::string name = row.filter + " " + row.frame + " " + row.parameters;
    if (!options_.match.empty() && name.find(options_.match) == std::string::npos) return;
    if (options_.quick && !row.quick) return;
    rows_++;
    double ours = -1, theirs = -1;
    Difference exact, peer;
    std::string check = "ok";
    if (Status s = measure(row, &ours, &theirs, &exact, &peer, &check); !s.ok())
      check = std::string("FAILED: ") + s.message();
    if (check != "ok") bad_++;
    const bool compared = exact.magnitude > 0;
    const int decimals = row.dst.type == Type::f32 ? 7 : 0;
    table_.add({row.filter, row.frame, format_of(row.src), row.parameters, number(ours, 3),
                number(theirs, 3), number(ours > 0 && theirs > 0 ? theirs / ours : -1, 2),
                number(compared ? exact.largest : -1, decimals),
                number(compared ? 100 * exact.equal : -1, 3),
                number(theirs > 0 ? peer.largest : -1, decimals), check});
  }

 private:
  Status measure(const CpuRow& row, double* ours, double* theirs, Difference* exact,
                 Difference* peer, std::string* check) {
    const auto allowed = [&](double largest, const Difference& d) {
      return largest * (row.dst.type == Type::f32 ? d.magnitude : 1);
    };
    {
      const int factor =
          std::max(1, (row.src.plane[0].width + kReferenceWidth - 1) / kReferenceWidth);
      const HostFrame src(shrunk(row.src, factor)), got(shrunk(row.dst, factor)),
          want(shrunk(row.dst, factor));
      fill(src.image(), uint32_t(options_.seed));
      std::unique_ptr<Plan> plan, reference;
      VF_TRY(row.make(*queue_, src.image().layout, got.image().layout, &plan));
      VF_TRY(row.make(*reference_, src.image().layout, got.image().layout, &reference));
      VF_TRY(plan->run(src.image(), got.image()));
      VF_TRY(reference->run(src.image(), want.image()));
      *exact = compare(got.image(), want.image());
      if (exact->largest > allowed(row.largest, *exact)) *check = "WRONG";
    }
    // A few frames in turn, as in a pipeline: what is in the cache is what a frame leaves there.
    constexpr int frames = 4;
    std::vector<HostFrame> src, dst;
    for (int i = 0; i < frames; i++) {
      src.emplace_back(row.src);
      dst.emplace_back(row.dst);
      fill(src.back().image(), uint32_t(options_.seed) + uint32_t(i));
    }
    HostFrame other(row.dst);
    std::unique_ptr<Plan> plan;
    VF_TRY(row.make(*queue_, row.src, row.dst, &plan));
    VF_TRY(plan->run(src[0].image(), dst[0].image()));
    if (row.peer) {
      row.peer(src[0].image(), other.image());
      *peer = compare(dst[0].image(), other.image());
      if (peer->largest > allowed(row.peer_largest, *peer)) *check = "OpenCV DIFFERS";
    }
    std::vector<double> a, b;
    Status status;
    double spent = 0;
    for (int i = 0; status.ok() && (spent < kSecondsPerRow * 1000 || i < kMinCalls); i++) {
      const Image& in = src[size_t(i % frames)].image();
      const Image& out = dst[size_t(i % frames)].image();
      a.push_back(milliseconds([&] { status = plan->run(in, out); }));
      spent += a.back();
      if (!row.peer) continue;
      b.push_back(milliseconds([&] { row.peer(in, out); }));
      spent += b.back();
    }
    VF_TRY(status);
    *ours = median(a);
    *theirs = median(b);
    return {};
  }

  Options options_;
  std::unique_ptr<Queue> queue_, reference_;
  Table table_;
  int rows_ = 0, bad_ = 0;
};

}  // namespace
}  // namespace vf::bench

int main(int argc, char** argv) {
  using namespace vf;
  using namespace vf::bench;
  Options options =
      parse_options(argc, argv,
                    "Times every filter of the library on the CPU, in turn with OpenCV's of the "
                    "same kind on the same "
                    "number of threads where the build has it, and checks what it timed.");
  if (options.threads <= 0)
    options.threads = int(std::max(1u, std::thread::hardware_concurrency()));
  set_reference_backend(test::reference_backend());
  std::unique_ptr<Queue> queue, reference;
  QueueOptions q;
  q.backend = Backend::cpu;
  q.threads = options.threads;
  Status made = make_queue(q, &queue);
  q.backend = Backend::reference;
  if (made.ok()) made = make_queue(q, &reference);
  if (!made.ok()) {
    fprintf(stderr, "%s\n", made.message());
    return 1;
  }
  Bench bench(options, std::move(queue), std::move(reference));
#if VF_HAVE_OPENCV
  cv::setNumThreads(options.threads);
  bench.table().note("%d threads; OpenCV %s with %d threads", options.threads, CV_VERSION,
                     cv::getNumThreads());
#else
  bench.table().note("%d threads; no OpenCV in this build: no peer", options.threads);
#endif
  bench.table().note(
      "ms: median of calls over 4 frames in turn, ours and OpenCV's one after the other; "
      "max diff and %% equal: against the reference on a smaller frame");
  bool known = options.filter.empty();
  for (const Filter& f : kFilters)
    if (options.filter.empty() || options.filter == f.name) {
      f.rows(bench);
      known = true;
    }
  if (!known || bench.rows() == 0) {
    fprintf(stderr, "no row matched\n");
    return 2;
  }
  bench.table().note("%d rows, %d wrong or failed", bench.rows(), bench.bad());
  return bench.bad() ? 1 : 0;
}
