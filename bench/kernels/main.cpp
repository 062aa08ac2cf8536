#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "bench/kernels/kernels.h"
#include "bench/kernels/npp.h"
#include "tests/reference/reference.h"

namespace vf::bench {
namespace {

struct Filter {
  const char* name;
  void (*rows)(Bench&);
};
constexpr Filter kFilters[] = {
    {"gaussian", gaussian_rows},
    {"guided", guided_rows},
    {"letterbox", letterbox_rows},
    {"median", median_rows},
};

// Frames for the reference are about so wide: it is slow.
constexpr int kReferenceWidth = 240;

struct Result {
  double us = -1, floor_us = -1, cached_us = -1, cached_floor_us = -1, peer_us = -1;
  std::string peer;
  Difference difference;
  std::string check = "ok";
};

class KernelBench final : public Bench {
 public:
  KernelBench(const Options& options, std::unique_ptr<Queue> queue, std::unique_ptr<Queue> cpu,
              std::unique_ptr<Queue> reference)
      : options_(options),
        queue_(std::move(queue)),
        cpu_(std::move(cpu)),
        reference_(std::move(reference)),
        stream_(static_cast<cudaStream_t>(queue_->stream())),
        table_({{"filter", 9},
                {"frame", 14},
                {"format", 11},
                {"parameters", 17},
                {"us", 8, true},
                {"floor us", 8, true},
                {"x floor", 7, true},
                {"us in L2", 8, true},
                {"L2 floor", 8, true},
                {"peer us", 8, true},
                {"speed-up", 8, true},
                {"max diff", 8, true},
                {"% equal", 7, true},
                {"check", 5},
                {"peer", 4}},
               options.csv) {}

  Table& table() { return table_; }
  int rows() const { return rows_; }
  int bad() const { return bad_; }

  void run(const Row& row) override {
    const std::string name = row.filter + " " + row.frame + " " + row.parameters;
    if (!options_.match.empty() && name.find(options_.match) == std::string::npos) return;
    if (options_.quick && !row.quick) return;
    rows_++;
    Result r;
    if (Status s = measure(row, &r); !s.ok()) r.check = std::string("FAILED: ") + s.message();
    if (r.check != "ok") bad_++;
    char largest[32];
    snprintf(largest, sizeof largest, row.dst.type == Type::f32 ? "%.1e" : "%.0f",
             row.dst.type == Type::f32
                 ? r.difference.largest / std::fmax(r.difference.magnitude, 1e-30)
                 : r.difference.largest);
    const bool compared = r.difference.magnitude > 0;
    table_.add({row.filter, row.frame, format_of(row.src), row.parameters, number(r.us, 2),
                number(r.floor_us, 2), number(r.floor_us > 0 ? r.us / r.floor_us : -1, 2),
                number(r.cached_us, 2), number(r.cached_floor_us, 2), number(r.peer_us, 2),
                number(r.us > 0 && r.peer_us > 0 ? r.peer_us / r.us : -1, 2),
                compared ? largest : "-", number(compared ? 100 * r.difference.equal : -1, 3),
                r.check, r.peer});
  }

 private:
  bool within(const Tolerance& tolerance, Type type, const Difference& d) const {
    const double limit = tolerance.largest * (type == Type::f32 ? d.magnitude : 1);
    return d.largest <= limit && d.equal >= tolerance.equal;
  }

  // Runs a plan of another backend on a copy of `src`, and leaves what it gives in `dst`.
  Status elsewhere(const Row& row, Queue& queue, const Image& src, const Image& dst) {
    HostFrame in(src.layout), out(dst.layout);
    VF_TRY(queue_->copy(src, in.image()));
    VF_TRY(queue_->sync());
    std::unique_ptr<Plan> plan;
    VF_TRY(row.make(queue, src.layout, dst.layout, Placement::separate, &plan));
    VF_TRY(plan->run(in.image(), out.image()));
    VF_TRY(queue_->copy(out.image(), dst));
    return queue_->sync();
  }

  // The row on a small frame, against the reference; and the row's oracle against it.
  Status check_small(const Row& row, Result* r) {
    const int factor =
        std::max(1, (row.src.plane[0].width + kReferenceWidth - 1) / kReferenceWidth);
    const Layout src = shrunk(row.src, factor), dst = shrunk(row.dst, factor);
    Ring frames, original, want, oracle;
    VF_TRY(frames.make(src, dst, row.in_place, 0));
    VF_TRY(original.make(src, dst, false, 0));
    VF_TRY(want.make(src, dst, false, 0));
    VF_TRY(fill(frames.src(0), seed(), stream_));
    VF_TRY(fill(original.src(0), seed(), stream_));
    VF_TRY(elsewhere(row, *reference_, original.src(0), want.dst(0)));
    if (!row.in_place) VF_TRY(frames.poison(stream_));
    std::unique_ptr<Plan> plan;
    VF_TRY(row.make(*queue_, src, dst, placement(row), &plan));
    VF_TRY(plan->run(frames.src(0), frames.dst(0)));
    Difference d;
    VF_TRY(compare(frames.dst(0), want.dst(0), stream_, &d));
    if (!within(row.tolerance, dst.type, d)) {
      r->difference = d;
      r->check = "WRONG (small frame)";
    }
    if (!row.oracle) return {};
    VF_TRY(original.poison(stream_));
    VF_TRY(row.oracle(original.src(0), original.dst(0), stream_));
    VF_TRY(compare(original.dst(0), want.dst(0), stream_, &d));
    // Both are in double precision: only exact halves may round apart.
    if (!within({dst.type == Type::f32 ? 1e-6 : 1, dst.type == Type::f32 ? 0 : 0.999}, dst.type, d))
      return Status::error(Code::device_error,
                           "the oracle is off the reference by %g, %.3f%% equal", d.largest,
                           100 * d.equal);
    return {};
  }

  // The pair of a ring that was filled as `original`, against the oracle.
  Status check_pair(const Row& row, const Image& got, const Image& want, Result* r) {
    Difference d;
    VF_TRY(compare(got, want, stream_, &d));
    Difference& worst = r->difference;
    worst.largest = std::fmax(worst.largest, d.largest);
    worst.magnitude = std::fmax(worst.magnitude, d.magnitude);
    worst.equal = compared_ ? std::fmin(worst.equal, d.equal) : d.equal;
    compared_ = true;
    if (!within(row.tolerance, row.dst.type, d)) r->check = "WRONG";
    return {};
  }

  Status expect(const Row& row, int pair, Ring* original) {
    VF_TRY(fill(original->src(0), seed() * 1000003u + uint32_t(pair), stream_));
    VF_TRY(original->poison(stream_));
    if (row.oracle) return row.oracle(original->src(0), original->dst(0), stream_);
    return elsewhere(row, *cpu_, original->src(0), original->dst(0));
  }

  Status measure(const Row& row, Result* r) {
    compared_ = false;
    VF_TRY(check_small(row, r));
    if (r->check != "ok") return {};

    Ring ring, original, copies;
    VF_TRY(ring.make(row.src, row.dst, row.in_place, kBeyondCache));
    VF_TRY(original.make(row.src, row.dst, false, 0));
    std::unique_ptr<Plan> plan;
    VF_TRY(row.make(*queue_, row.src, row.dst, placement(row), &plan));
    const auto round = [&]() -> Status {
      VF_TRY(ring.fill(seed(), stream_));
      if (!row.in_place) VF_TRY(ring.poison(stream_));
      for (int i = 0; i < ring.size(); i++) {
        if (row.forget) row.forget(*plan);
        VF_TRY(plan->run(ring.src(i), ring.dst(i)));
      }
      return {};
    };
    VF_TRY(round());
    const int last = ring.size() - 1;
    VF_TRY(expect(row, 0, &original));
    VF_TRY(check_pair(row, ring.dst(0), original.dst(0), r));
    VF_TRY(expect(row, last, &original));
    VF_TRY(check_pair(row, ring.dst(last), original.dst(0), r));

    Subject filter;
    filter.round = ring.size();
    filter.call = [&](int i) { return plan->run(ring.src(i), ring.dst(i)); };
    if (row.in_place) filter.prepare = [&] { return ring.fill(seed(), stream_); };
    Subject floor;
    const bool apart = row.in_place || row.floor_src.planes;
    if (apart) {
      VF_TRY(copies.make(floor_src(row), row.dst, false, kBeyondCache));
      VF_TRY(copies.fill(seed(), stream_));
    }
    VF_TRY(make_floor(apart ? copies : ring, stream_, &floor));
    std::vector<Subject*> subjects = {&filter, &floor};

    const std::vector<Peer> peers = row.peers && !row.in_place ? row.peers() : std::vector<Peer>();
    std::vector<Subject> others(peers.size());
    std::vector<const Peer*> right;
    for (const Peer& peer : peers) {
      VF_TRY(fill(original.src(0), seed() * 1000003u, stream_));
      VF_TRY(peer.oracle(original.src(0), original.dst(0), stream_));
      VF_TRY(ring.poison(stream_));
      if (Status s = peer.call(original.src(0), ring.dst(0), stream_); !s.ok()) {
        table_.note("next row: %s: %s", peer.name.c_str(), s.message());
        continue;
      }
      Difference d;
      VF_TRY(compare(ring.dst(0), original.dst(0), stream_, &d));
      if (d.largest > peer.largest) {
        table_.note("next row: %s is off by %g and does not count", peer.name.c_str(), d.largest);
        continue;
      }
      Subject& s = others[right.size()];
      s.round = ring.size();
      s.call = [&](int i) { return peer.call(ring.src(i), ring.dst(i), stream_); };
      subjects.push_back(&s);
      right.push_back(&peer);
    }
    VF_TRY(time_in_turn(stream_, subjects));
    VF_TRY(filter.status);
    VF_TRY(floor.status);
    r->us = filter.us;
    r->floor_us = floor.us;
    if (!filter.graph)
      table_.note("the next row could not be captured: its time is of plain launches");
    for (size_t i = 0; i < right.size(); i++) {
      if (!others[i].status.ok()) {
        table_.note("next row: %s: %s", right[i]->name.c_str(), others[i].status.message());
        continue;
      }
      if (r->peer_us < 0 || others[i].us < r->peer_us) {
        r->peer_us = others[i].us;
        r->peer = right[i]->name + (others[i].graph ? "" : " (plain launches)");
      }
    }

    // What was timed is still right.
    VF_TRY(round());
    VF_TRY(expect(row, last, &original));
    VF_TRY(check_pair(row, ring.dst(last), original.dst(0), r));

    size_t cache = 0;
    VF_TRY(cache_size(&cache));
    if (row.in_place || payload(row.src) + payload(row.dst) > cache * 3 / 4) return {};
    Ring cached, cached_copy;
    VF_TRY(cached.make(row.src, row.dst, false, 0));
    VF_TRY(cached.fill(seed(), stream_));
    Subject again, cached_floor;
    again.call = [&](int) { return plan->run(cached.src(0), cached.dst(0)); };
    VF_TRY(cached_copy.make(floor_src(row), row.dst, false, 0));
    VF_TRY(make_floor(cached_copy, stream_, &cached_floor));
    VF_TRY(time_in_turn(stream_, {&again, &cached_floor}));
    VF_TRY(again.status);
    r->cached_us = again.us;
    r->cached_floor_us = cached_floor.us;
    return {};
  }

  uint32_t seed() const { return uint32_t(options_.seed); }
  static const Layout& floor_src(const Row& row) {
    return row.floor_src.planes ? row.floor_src : row.src;
  }
  static Placement placement(const Row& row) {
    return row.in_place ? Placement::in_place : Placement::separate;
  }

  Options options_;
  std::unique_ptr<Queue> queue_, cpu_, reference_;
  cudaStream_t stream_;
  Table table_;
  bool compared_ = false;
  int rows_ = 0, bad_ = 0;
};

}  // namespace
}  // namespace vf::bench

int main(int argc, char** argv) {
  using namespace vf;
  using namespace vf::bench;
  const Options options =
      parse_options(argc, argv,
                    "Times every filter of the library on the GPU, beside a plain copy of the same "
                    "bytes (the floor)\n"
                    "and NPP where the build has it, and checks what it timed.");
  set_reference_backend(test::reference_backend());
  std::unique_ptr<Queue> queue, cpu, reference;
  QueueOptions q;
  q.backend = Backend::cuda;
  if (Status s = make_queue(q, &queue); !s.ok()) {
    printf("# skipped: %s\n", s.message());
    return 77;
  }
  q.backend = Backend::cpu;
  q.threads = options.threads;
  Status made = make_queue(q, &cpu);
  q.backend = Backend::reference;
  if (made.ok()) made = make_queue(q, &reference);
  std::string device;
  if (made.ok()) made = describe_device(&device);
  if (!made.ok()) {
    fprintf(stderr, "%s\n", made.message());
    return 1;
  }
  const auto start = std::chrono::steady_clock::now();
  KernelBench bench(options, std::move(queue), std::move(cpu), std::move(reference));
  bench.table().note("%s; %s", device.c_str(), npp_version().c_str());
  bench.table().note(
      "us: median of graph replays over %zu MB of frames; floor: the fastest plain copy of "
      "the same bytes, in turn with it",
      kBeyondCache >> 20);
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
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  bench.table().note("%d rows, %d wrong or failed, %.0f s", bench.rows(), bench.bad(),
                     took.count());
  return bench.bad() ? 1 : 0;
}
