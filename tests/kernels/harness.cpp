#include "tests/kernels/harness.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace vf::test {

namespace {

uint64_t hash(const std::string& name, uint64_t seed) {
  uint64_t h = seed ^ 0xcbf29ce484222325u;
  for (const char ch : name) h = (h ^ uint8_t(ch)) * 0x100000001b3u;
  return h;
}

int64_t pixels(const Layout& l) {
  int64_t n = 0;
  for (int p = 0; p < l.planes; p++) n += int64_t(l.plane[p].width) * l.plane[p].height;
  return n;
}

}  // namespace

Status run_plan(Device& device, Plan& plan, const Frame& src, Frame* dst) {
  const Image from = device.upload(src), to = device.upload(*dst);
  VF_TRY(plan.run(from, to));
  VF_TRY(device.queue().sync());
  device.download(to, dst);
  return {};
}

bool Context::wants(const std::string& name) const {
  if (options_.sample > 1 && Random(hash(name, 0)).next() % options_.sample != 0) return false;
  if (!options_.part.has(Random(hash(name, 1)).next())) return false;
  return options_.match.empty() || name.find(options_.match) != std::string::npos;
}

Random Context::random(const std::string& name) const {
  return Random(hash(name, options_.seed));
}

void Context::result(const std::string& name, const std::string& failure) {
  if (wants(name)) report(name, failure);
}

void Context::report(const std::string& name, const std::string& failure) {
  const int number = passed + failed + skipped + 1;
  if (failure.empty()) {
    passed++;
    printf("ok %d - %s %s\n", number, backend_.c_str(), name.c_str());
  } else {
    failed++;
    printf("not ok %d - %s %s\n# seed %llu: %s\n", number, backend_.c_str(), name.c_str(),
           static_cast<unsigned long long>(options_.seed), failure.c_str());
  }
  fflush(stdout);
}

void Context::refused(const std::string& name, const Status& status, const char* word) {
  refusals_++;
  if (!wants(name)) return;
  std::string failure;
  if (status.ok())
    failure = "accepted";
  else if (status.code() != Code::invalid_argument || !std::strstr(status.message(), word))
    failure =
        text("code %d, which does not name \"%s\": %s", int(status.code()), word, status.message());
  report(name, failure);
}

void Context::skip(const std::string& name, const std::string& why) {
  skipped++;
  printf("ok %d - %s %s # SKIP %s\n", passed + failed + skipped, backend_.c_str(), name.c_str(),
         why.c_str());
}

void Context::check(const std::string& name, const Layout& src, const Layout& dst, Pattern pattern,
                    Geometry geometry, const Tolerance& tolerance, bool in_place,
                    const Make& make) {
  checks_++;
  if (!wants(name)) return;
  if (options_.max_pixels && std::max(pixels(src), pixels(dst)) > options_.max_pixels) return;
  report(name, failure_of(name, src, dst, pattern, geometry, tolerance, in_place, make));
}

void Context::timed(const TimedCase& row) {
  timings_++;
  on_timed(row);
}

void Context::on_timed(const TimedCase& row) {
  if (wants(name_of(row))) report(name_of(row), failure_of(row));
}

TimedCase Context::small(const TimedCase& row) {
  constexpr int width = 80;  // small, because the reference is slow
  const int factor = std::max(1, (row.src.plane[0].width + width - 1) / width);
  TimedCase c = row;
  c.src = shrunk(row.src, factor);
  c.dst = shrunk(row.dst, factor);
  c.read = {};
  return c;
}

std::string Context::failure_of(const TimedCase& row) {
  const TimedCase c = small(row);
  return failure_of(name_of(c), c.src, c.dst, Pattern::mixed, {}, c.tolerance, c.in_place,
                    [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                      return c.make(queue, c.src, c.dst, placement, plan);
                    });
}

Status Context::expect(Pattern pattern, const Make& make, Expected* e) {
  // Names need not be unique, but cases come in the same order.
  const size_t at = expected_++;
  if (kept_ && at < kept_->expected.size() && kept_->expected[at].name == e->name) {
    *e = kept_->expected[at];
    return {};
  }
  Random random = this->random(e->name);
  e->src.fill(pattern, random);
  std::unique_ptr<Queue> queue;
  QueueOptions options;
  options.backend = Backend::reference;
  VF_TRY(make_queue(options, &queue));
  std::unique_ptr<Plan> plan;
  VF_TRY(make(*queue, Placement::separate, &plan));
  VF_TRY(plan->run(e->src.image(), e->want.image()));
  if (kept_ && at == kept_->expected.size()) kept_->expected.push_back(*e);
  return {};
}

std::string Context::failure_of(const std::string& name, const Layout& src_layout,
                                const Layout& dst_layout, Pattern pattern, Geometry geometry,
                                const Tolerance& tolerance, bool in_place, const Make& make) {
  Expected expected = {name, Frame(src_layout, geometry), Frame(dst_layout)};
  Frame got(dst_layout, geometry);
  const auto run = [&]() -> std::string {
    if (Status s = expect(pattern, make, &expected); !s.ok())
      return std::string("reference: ") + s.message();
    const Frame &src = expected.src, &want = expected.want;
    std::unique_ptr<Plan> plan;
    if (Status s = make(device_->queue(), Placement::separate, &plan); !s.ok()) return s.message();
    got.poison();
    if (Status s = run_plan(*device_, *plan, src, &got); !s.ok()) return s.message();
    if (std::string d = difference(got, want, tolerance); !d.empty()) return d;
    if (std::string d = got.guard_damage(); !d.empty()) return d;
    if (!in_place) return {};
    if (Status s = make(device_->queue(), Placement::in_place, &plan); !s.ok()) return s.message();
    const Image both = device_->upload(src);
    Status s = plan->run(both, both);
    if (s.ok()) s = device_->queue().sync();
    if (!s.ok()) return std::string("in place: ") + s.message();
    Frame result(src_layout, geometry);
    device_->download(both, &result);
    if (std::string d = difference(result, want, tolerance); !d.empty()) return "in place: " + d;
    if (std::string d = result.guard_damage(); !d.empty()) return "in place: " + d;
    return {};
  };
  const std::string failure = run();
  device_->release_all();
  return failure;
}

#define VF_FILTER(stem, ...) void stem##_cases(Context&);
#include "filters/filters.def"
void regions_cases(Context&);
const std::vector<Filter> kFilters = {
#define VF_FILTER(stem, ...) {#stem, stem##_cases},
#include "filters/filters.def"
    {"regions", regions_cases},
};

void Context::table(const Filter& filter) {
  filter_ = filter.name;
  checks_ = timings_ = refusals_ = 0;
  filter.cases(*this);
}

void Context::run(const Filter& filter) {
  table(filter);
  std::string missing;
  for (const auto& [count, what] : {std::pair{checks_, "checked against the reference"},
                                    {timings_, "that is timed"},
                                    {refusals_, "of a value that is refused"}})
    if (!count)
      missing += text("%stests/kernels/%s.cpp has no case %s", missing.empty() ? "" : "; ",
                      filter.name, what);
  if (options_.part.index == 0) report(filter_ + " has cases of every kind", missing);
}

namespace {

class HostDevice final : public Device {
 public:
  explicit HostDevice(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}
  Queue& queue() override { return *queue_; }

  Image upload(const Frame& frame) override {
    copies_.emplace_back(frame.bytes().size());
    std::memcpy(copies_.back().data(), frame.bytes().data(), frame.bytes().size());
    Image image = frame.image();
    for (int p = 0; p < image.layout.planes; p++)
      image.data[p] = copies_.back().data() +
                      (static_cast<uint8_t*>(frame.image().data[p]) - frame.bytes().data());
    return image;
  }

  void download(const Image& image, Frame* frame) override {
    // The offset of plane 0 is the same in all frames of the same layout and geometry.
    const uint8_t* base = static_cast<uint8_t*>(image.data[0]) -
                          (static_cast<uint8_t*>(frame->image().data[0]) - frame->bytes().data());
    std::memcpy(frame->bytes().data(), base, frame->bytes().size());
  }

  void release_all() override { copies_.clear(); }

 private:
  std::unique_ptr<Queue> queue_;
  std::vector<Bytes> copies_;
};

}  // namespace

std::unique_ptr<Device> make_host_device(std::unique_ptr<Queue> queue) {
  return std::make_unique<HostDevice>(std::move(queue));
}

}  // namespace vf::test
