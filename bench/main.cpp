// The kernel benchmark times the rows of the tests' tables (tests/kernels/) that are marked for it.
// On the GPU it compares them with a plain copy of the same bytes and with NPP, on the CPU with
// OpenCV. It also checks every result that it times.
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include "bench/peers.h"
#include "bench/report.h"
#include "tests/reference/reference.h"
#if VF_HAVE_CUDA
#include "bench/measure.h"
#endif

namespace vf::bench {
namespace {

using test::Frame;
using test::TimedCase;

// Rows start at multiples of 256 bytes, as in GStreamer's CUDA memory.
constexpr test::Geometry kGeometry = {0, 0, false, 256};

struct Result {
  // Times of one call in microseconds; negative means not measured.
  double us = -1, floor_us = -1, cached_us = -1, cached_floor_us = -1, peer_us = -1;
  std::string peer;
  double largest = 0, equal = 1, magnitude = 0;
  std::string check = "ok";

  void add(const test::Difference& d) {
    largest = std::fmax(largest, d.largest);
    magnitude = std::fmax(magnitude, d.magnitude);
    equal = std::fmin(equal, double(d.equal) / double(d.total));
  }
};

// Returns a short name such as "u8 x4" or "u8 x1+2".
std::string format_of(const Layout& l) {
  std::string text = std::string(name_of(l.type)) + " x";
  for (int p = 0; p < l.planes; p++) text += (p ? "+" : "") + std::to_string(l.plane[p].channels);
  return text;
}

// Times the rows of the tables on one backend.
class Bench : public test::Context {
 public:
  Bench(const Options& options, Table* table, const char* backend,
        std::unique_ptr<test::Device> device)
      : Context(test_options(options), backend, std::move(device)),
        table_(*table),
        smoke_(options.smoke),
        seed_(uint32_t(options.seed)) {}

 protected:
  // such cases are only checked, not timed
  bool wants(const std::string&) const override { return false; }

  void on_timed(const TimedCase& row) override {
    if (!table_.wants(name_of(row), row.quick) || !times(row)) return;
    Result r;
    if (const std::string wrong = failure_of(row); !wrong.empty()) {
      r.check = "WRONG";
      table_.note("next row, on a small frame: %s", wrong.c_str());
    } else if (!smoke_ || row.quick) {  // in a smoke test, the other rows are only checked
      if (Status s = measure(smoke_ ? small(row) : row, &r); !s.ok())
        r.check = std::string("FAILED: ") + s.message();
    }
    const bool is_float = row.dst.type == Type::f32, compared = r.magnitude > 0;
    const double largest = is_float ? r.largest / std::fmax(r.magnitude, 1e-30) : r.largest;
    table_.add({filter_, row.frame, format_of(row.src), row.parameters, backend(), number(r.us, 2),
                number(r.floor_us, 2), number(r.floor_us > 0 ? r.us / r.floor_us : -1, 2),
                number(r.cached_us, 2), number(r.cached_floor_us, 2), number(r.peer_us, 2),
                number(r.us > 0 && r.peer_us > 0 ? r.peer_us / r.us : -1, 2),
                compared ? test::text(is_float ? "%.1e" : "%.0f", largest) : "-",
                number(compared ? 100 * r.equal : -1, 3), r.check, r.peer});
  }

  virtual bool times(const TimedCase&) const { return true; }
  virtual Status measure(const TimedCase& row, Result* r) = 0;

  // Gives a plan that looks ahead the frames after number `at` of a ring. Two frames alternate in
  // the ring, also where it starts again, so an odd last one is left out.
  static Status give_later(const TimedCase& row, Plan& plan, const std::vector<Image>& ring,
                           size_t at) {
    if (row.later == 0) return {};
    std::vector<Image> later;
    for (int i = 1; i <= row.later; i++)
      later.push_back(ring[(at + size_t(i)) % std::max(ring.size() & ~size_t(1), size_t(1))]);
    return row.give_later(plan, later.data(), row.later);
  }

  // Makes a frame to time on; each `number` gives another one.
  Frame source(const TimedCase& row, uint64_t number) const {
    Frame frame(row.src, kGeometry);
    test::Random random(seed_ * 1000003u + number);
    frame.fill(test::Pattern::mixed, random);
    if (row.shape) row.shape(&frame, number);
    return frame;
  }

  Table& table_;
  const bool smoke_;

 private:
  static test::Options test_options(const Options& options) {
    test::Options o;
    o.seed = options.seed;
    return o;
  }
  const uint32_t seed_;
};

class CpuBench final : public Bench {
 public:
  using Bench::Bench;

 private:
  // frames in turn, so that the cache holds what filtering a frame leaves there
  static constexpr int kFrames = 4;
  static constexpr double kMicrosecondsPerRow = 1e6;
  static constexpr int kMinCalls = 7;

  bool times(const TimedCase& row) const override { return row.cpu; }

  template <class F>
  static double microseconds(F&& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
        .count();
  }

  Status measure(const TimedCase& row, Result* r) override {
    const struct Release {
      test::Device& device;
      ~Release() { device.release_all(); }
    } release{device()};
    std::vector<Image> src, dst;
    const Frame out(row.dst, kGeometry);
    for (int i = 0; i < kFrames; i++) {
      src.push_back(device().upload(source(row, uint64_t(i))));
      dst.push_back(device().upload(out));
    }
    std::unique_ptr<Plan> plan;
    VF_TRY(row.make(device().queue(), row.src, row.dst, Placement::separate, &plan));
    const auto result = [&](Frame* frame) -> Status {
      if (row.forget) row.forget(*plan);
      VF_TRY(give_later(row, *plan, src, 0));
      VF_TRY(plan->run(src[0], dst[0]));
      device().download(dst[0], frame);
      return {};
    };
    Frame first(row.dst, kGeometry), last(row.dst, kGeometry), other(row.dst, kGeometry);
    VF_TRY(result(&first));
    if (std::string damage = first.guard_damage(); !damage.empty()) r->check = "WRONG: " + damage;
    const std::vector<Peer> peers = opencv_peers(row);
    for (const Peer& peer : peers) {
      VF_TRY(peer.call(src[0], other.image(), nullptr));
      test::Tolerance tolerance;
      (row.dst.type == Type::f32 ? tolerance.relative : tolerance.absolute) = peer.largest;
      const test::Difference d = compare(first, other, tolerance);
      r->add(d);
      if (d.beyond) r->check = peer.name + " DIFFERS";
      r->peer = peer.name;
    }
    std::vector<double> ours, theirs;
    Status status;
    double spent = 0;
    for (int i = 0; status.ok() && (smoke_ ? i < 1 : spent < kMicrosecondsPerRow || i < kMinCalls);
         i++) {
      const Image &in = src[size_t(i % kFrames)], &to = dst[size_t(i % kFrames)];
      ours.push_back(microseconds([&] {
        status = give_later(row, *plan, src, size_t(i % kFrames));
        if (status.ok()) status = plan->run(in, to);
      }));
      spent += ours.back();
      for (const Peer& peer : peers) {
        if (!status.ok()) break;
        theirs.push_back(microseconds([&] { status = peer.call(in, to, nullptr); }));
        spent += theirs.back();
      }
    }
    VF_TRY(status);
    // The timed output must be correct.
    VF_TRY(result(&last));
    if (!compare(last, first, {0, 0, 1}).within) r->check = "WRONG after the timing";
    r->us = median(ours);
    r->peer_us = median(theirs);
    return {};
  }
};

#if VF_HAVE_CUDA

// Returns the bytes of all components, which a filter must read at least once.
size_t payload(const Layout& l) {
  size_t bytes = 0;
  for (int p = 0; p < l.planes; p++) bytes += row_bytes(l, p) * size_t(l.plane[p].height);
  return bytes;
}

class CudaBench final : public Bench {
 public:
  CudaBench(const Options& options, Table* table, std::unique_ptr<test::Device> device,
            std::unique_ptr<Queue> cpu)
      : Bench(options, table, "cuda", std::move(device)),
        cpu_(std::move(cpu)),
        queue_(this->device().queue()),
        stream_(static_cast<cudaStream_t>(queue_.stream())) {}

 private:
  // Holds two frames that alternate in the ring, and the correct results.
  struct Frames {
    Frame src[2], want[2];
    bool shaped = false;
    Frames(Frame a, Frame b, const Layout& dst)
        : src{std::move(a), std::move(b)}, want{{dst, kGeometry}, {dst, kGeometry}} {}
  };

  // Runs a plan on the CPU backend, which the tests hold to the same contract, on frame `number`.
  Status on_cpu(const decltype(TimedCase::make)& make, const TimedCase& row, size_t number,
                Frame* dst) {
    std::unique_ptr<Plan> plan;
    VF_TRY(make(*cpu_, row.src, row.dst, Placement::separate, &plan));
    const std::vector<Image> ring = {frames_->src[0].image(), frames_->src[1].image()};
    VF_TRY(give_later(row, *plan, ring, number));
    return plan->run(ring[number], dst->image());
  }

  static Image at(const Frame& frame, uint8_t* base) {
    Image image = frame.image();
    image.memory = Memory::device;
    for (int p = 0; p < image.layout.planes; p++)
      image.data[p] = base + (static_cast<uint8_t*>(image.data[p]) - frame.bytes().data());
    return image;
  }

  Status download(const uint8_t* from, Frame* frame) {
    VF_TRY(queue_.copy(frame->bytes().data(), from, frame->bytes().size()));
    return queue_.sync();
  }

  Status measure(const TimedCase& row, Result* r) override {
    const size_t total = smoke_ ? 1 : kBeyondCache;
    if (!frames_ || frames_->shaped || row.shape || frames_->src[0].layout() != row.src)
      frames_.emplace(source(row, 0), source(row, 1), row.dst);
    frames_->shaped = bool(row.shape);
    for (Frame& want : frames_->want)
      if (want.layout() != row.dst) want = Frame(row.dst, kGeometry);
    for (int i = 0; i < 2; i++) VF_TRY(on_cpu(row.make, row, size_t(i), &frames_->want[i]));
    const Frame empty(row.dst, kGeometry);
    const size_t src_bytes = frames_->src[0].bytes().size(), dst_bytes = empty.bytes().size();

    // These are the unfiltered frames on the device.
    Ring originals, poisoned, ring;
    VF_TRY(originals.make(src_bytes, 0, 2 * src_bytes));
    VF_TRY(poisoned.make(dst_bytes, 0, 0));
    std::vector<Image> from, to;
    for (int i = 0; i < 2; i++)
      VF_TRY(queue_.copy(originals.src(i), frames_->src[i].bytes().data(), src_bytes));
    VF_TRY(queue_.copy(poisoned.src(0), empty.bytes().data(), dst_bytes));
    // Several frames of one call come one after the other, and the ring has whole calls.
    const auto count = size_t(row.count);
    const size_t one_call = count > 1 ? count * (src_bytes + dst_bytes + 512) : 0;
    VF_TRY(ring.make(src_bytes, row.in_place ? 0 : dst_bytes, std::max(total, one_call)));
    const int calls = ring.size() / row.count;
    const auto run = [&](Plan& plan, int call) -> Status {
      const size_t at = size_t(call) * count;
      VF_TRY(give_later(row, plan, from, at));
      return plan.run(&from[at], &to[at], row.count);
    };
    for (int i = 0; i < calls * row.count; i++) {
      from.push_back(at(frames_->src[0], ring.src(i)));
      to.push_back(at(row.in_place ? frames_->src[0] : empty, ring.dst(i)));
    }
    const auto fill = [&]() -> Status {
      for (int i = 0; i < ring.size(); i++) {
        VF_TRY(device_copy(ring.src(i), originals.src(i % 2), src_bytes));
        if (!row.in_place) VF_TRY(device_copy(ring.dst(i), poisoned.src(0), dst_bytes));
      }
      return {};
    };
    std::unique_ptr<Plan> plan;
    VF_TRY(row.make(queue_, row.src, row.dst,
                    row.in_place ? Placement::in_place : Placement::separate, &plan));
    // Filters every frame of the ring and compares the first and the last result.
    Frame got(row.dst, kGeometry);
    const auto check = [&](const char* when) -> Status {
      VF_TRY(fill());
      for (int i = 0; i < calls; i++) {
        if (row.forget) row.forget(*plan);
        VF_TRY(run(*plan, i));
      }
      for (const int i : {0, calls * row.count - 1}) {
        VF_TRY(download(ring.dst(i), &got));
        const test::Difference d = compare(got, frames_->want[i % 2], row.tolerance);
        r->add(d);
        if (!d.within || !got.guard_damage().empty()) r->check = std::string("WRONG") + when;
      }
      return {};
    };
    VF_TRY(check(""));

    Subject filter, floor;
    filter.round = calls;
    filter.call = [&](int i) { return run(*plan, i); };
    if (row.in_place) filter.prepare = fill;
    // The floor copies frames of its own if the filter reads only a part of its input or works in
    // place.
    const size_t read = payload(row.read.planes ? row.read : row.src) * count;
    const size_t written = payload(row.dst) * count;
    Ring copies;
    const bool apart = row.in_place || row.read.planes || count > 1;
    if (apart) VF_TRY(copies.make(read, written, total));
    VF_TRY(make_floor(apart ? copies : ring, read, written, stream_, smoke_, &floor));
    std::vector<Subject*> subjects = {&filter, &floor};

    const std::vector<Peer> peers = count > 1 ? std::vector<Peer>() : npp_peers(row);
    std::vector<Subject> others(peers.size());
    std::vector<const Peer*> right;
    for (const Peer& peer : peers) {
      VF_TRY(fill());
      Frame want(row.dst, kGeometry);
      if (peer.want) VF_TRY(on_cpu(peer.want, row, 0, &want));
      if (Status s = peer.call(from[0], to[0], stream_); !s.ok()) {
        table_.note("next row: %s: %s", peer.name.c_str(), s.message());
        continue;
      }
      VF_TRY(download(ring.dst(0), &got));
      const test::Difference d = compare(got, peer.want ? want : frames_->want[0], {peer.largest});
      if (d.beyond) {
        table_.note("next row: %s is off by %g and does not count", peer.name.c_str(), d.largest);
        continue;
      }
      Subject& s = others[right.size()];
      s.round = ring.size();
      s.call = [&](int i) { return peer.call(from[size_t(i)], to[size_t(i)], stream_); };
      subjects.push_back(&s);
      right.push_back(&peer);
    }
    VF_TRY(time_in_turn(stream_, subjects, smoke_));
    VF_TRY(filter.status);
    VF_TRY(floor.status);
    r->us = filter.us;
    r->floor_us = floor.us;
    if (!filter.graph)
      table_.note("the next row could not be captured: its time is of plain launches");
    for (size_t i = 0; i < right.size(); i++) {
      if (!others[i].status.ok()) {
        table_.note("next row: %s: %s", right[i]->name.c_str(), others[i].status.message());
      } else if (r->peer_us < 0 || others[i].us < r->peer_us) {
        r->peer_us = others[i].us;
        r->peer = right[i]->name + (others[i].graph ? "" : " (plain launches)");
      }
    }
    VF_TRY(check(" after the timing"));

    size_t cache = 0;
    VF_TRY(cache_size(&cache));
    if (row.in_place || count > 1 || payload(row.src) + written > cache * 3 / 4) return {};
    Ring one, one_copy;
    VF_TRY(one.make(src_bytes, dst_bytes, 0));
    VF_TRY(device_copy(one.src(0), originals.src(0), src_bytes));
    const Image in = at(frames_->src[0], one.src(0)), out = at(empty, one.dst(0));
    Subject cached, cached_floor;
    cached.call = [&](int) -> Status {
      VF_TRY(give_later(row, *plan, {in}, 0));
      return plan->run(in, out);
    };
    VF_TRY(one_copy.make(read, written, 0));
    VF_TRY(make_floor(one_copy, read, written, stream_, smoke_, &cached_floor));
    VF_TRY(time_in_turn(stream_, {&cached, &cached_floor}, smoke_));
    VF_TRY(cached.status);
    r->cached_us = cached.us;
    r->cached_floor_us = cached_floor.us;
    return {};
  }

  Status device_copy(void* to, const void* from, size_t bytes) {
    BENCH_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
    return {};
  }

  std::unique_ptr<Queue> cpu_;
  Queue& queue_;
  cudaStream_t stream_;
  std::optional<Frames> frames_;  // kept from the previous row, whose layout is often the same
};

#endif

int run(const Options& options) {
  Table table({{"filter", 9},
               {"frame", 14},
               {"format", 11},
               {"parameters", 18},
               {"backend", 7},
               {"us", 9, true},
               {"floor us", 8, true},
               {"x floor", 7, true},
               {"us in L2", 8, true},
               {"L2 floor", 8, true},
               {"peer us", 9, true},
               {"speed-up", 8, true},
               {"max diff", 8, true},
               {"% equal", 7, true},
               {"check", 5},
               {"peer", 4}},
              "check", options);
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Queue> cpu;
  QueueOptions q;
  q.threads = options.threads > 0 ? options.threads
                                  : int(std::max(1u, std::thread::hardware_concurrency()));
  const auto fail = [](const Status& s) {
    fprintf(stderr, "%s\n", s.message());
    return 1;
  };
  const auto time_all = [&](Bench& bench) {
    for (const test::Filter& f : test::kFilters)
      if (table.wants_filter(f.name)) bench.table(f);
  };
  if (options.backend != "cpu") {
    std::string why;
    std::unique_ptr<test::Device> device = test::make_cuda_device(&why);
    if (!device) {
      table.note("no rows on the GPU: %s", why.c_str());
      if (options.backend == "cuda") return 77;
    }
#if VF_HAVE_CUDA
    if (device) {
      std::string text;
      if (Status s = describe_device(&text); !s.ok()) return fail(s);
      if (Status s = make_queue(q, &cpu); !s.ok()) return fail(s);
      table.note("%s; %s", text.c_str(), npp_version().c_str());
      table.note(
          "us on cuda: median of graph replays over %zu MB of frames; floor: the fastest plain "
          "copy of the same bytes, in turn with it",
          kBeyondCache >> 20);
      CudaBench bench(options, &table, std::move(device), std::move(cpu));
      time_all(bench);
    }
#endif
  }
  if (options.backend != "cuda") {
    if (Status s = make_queue(q, &cpu); !s.ok()) return fail(s);
    use_opencv_threads(q.threads);
    table.note("%d threads on the CPU; %s", q.threads, opencv_version().c_str());
    table.note(
        "us on cpu: median of calls over 4 frames in turn, ours and OpenCV's one after the other; "
        "max diff and %% equal: against OpenCV");
    CpuBench bench(options, &table, "cpu", test::make_host_device(std::move(cpu)));
    time_all(bench);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  table.note("%.0f s", took.count());
  return table.finish();
}

}  // namespace
}  // namespace vf::bench

int main(int argc, char** argv) {
  const vf::bench::Options options = vf::bench::parse_options(
      argc, argv,
      "Times every filter of the library, on the GPU against a plain copy of the same bytes (the "
      "floor)\nand NPP, on the CPU against OpenCV with the same number of threads, and checks what "
      "it timed.");
  vf::test::use_reference_backend();
  return vf::bench::run(options);
}
