#include "tests/kernels/harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace vf::test {

Random::Random(uint64_t seed) {
  // splitmix64 spreads small seeds over the state.
  for (uint64_t& s : s_) {
    seed += 0x9e3779b97f4a7c15u;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    s = z ^ (z >> 31);
  }
}

uint64_t Random::next() {
  uint64_t a = s_[0];
  const uint64_t b = s_[1];
  s_[0] = b;
  a ^= a << 23;
  s_[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
  return s_[1] + b;
}

std::string text(const char* format, ...) {
  char buffer[400];
  va_list args;
  va_start(args, format);
  vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  return buffer;
}

const char* name_of(Pattern p) {
  switch (p) {
    case Pattern::noise:
      return "noise";
    case Pattern::flat:
      return "flat";
    case Pattern::extremes:
      return "extremes";
    case Pattern::impulses:
      return "impulses";
    case Pattern::gradient:
      return "gradient";
    case Pattern::texture:
      return "texture";
  }
  return "?";
}

namespace {

constexpr uint8_t kGuard = 0xa5;
constexpr int kGuardBytes = 64;

struct Range {
  double low, high;
};

Range range_of(const Layout& l) {
  switch (l.type) {
    case Type::u8:
      return {0, double(l.max_value ? l.max_value : 255)};
    case Type::u16:
      return {0, double(l.max_value ? l.max_value : 65535 >> l.shift)};
    case Type::s16:
      return {-32768, 32767};
    case Type::s32:
      return {-2147483648.0, 2147483647.0};
    case Type::f32:
      return {-2, 3};
  }
  return {0, 0};
}

uint8_t* component(const Image& image, int plane, int x, int y, int channel) {
  const PlaneLayout& p = image.layout.plane[plane];
  return static_cast<uint8_t*>(image.data[plane]) + y * image.stride[plane] +
         (ptrdiff_t(x) * p.pixel_step() + channel) * size_of(image.layout.type);
}

template <class F>
void for_each_component(const Layout& l, F&& f) {
  for (int p = 0; p < l.planes; p++)
    for (int y = 0; y < l.plane[p].height; y++)
      for (int x = 0; x < l.plane[p].width; x++)
        for (int c = 0; c < l.plane[p].channels; c++) f(p, x, y, c);
}

}  // namespace

Bytes::Bytes(size_t size)
    : data_(static_cast<uint8_t*>(std::aligned_alloc(256, (size + 255) / 256 * 256)), std::free),
      size_(size) {
  if (!data_) std::abort();
}

Frame::Frame(const Layout& layout, Geometry geometry) : bytes_(0) {
  image_.layout = layout;
  const int size = size_of(layout.type);
  auto whole = [&](int bytes) { return size_t((bytes + size - 1) / size * size); };
  size_t at[kMaxPlanes] = {}, total = kGuardBytes;
  for (int p = 0; p < layout.planes; p++) {
    const size_t row = row_bytes(layout, p);
    const size_t stride =
        geometry.stride_padding ? row + whole(geometry.stride_padding) : (row + 63) / 64 * 64;
    total = (total + 63) / 64 * 64 + whole(geometry.offset);
    at[p] = total;
    image_.stride[p] = ptrdiff_t(stride);
    total += stride * layout.plane[p].height + kGuardBytes;
    if (geometry.tight && p == layout.planes - 1)
      total = at[p] + stride * (layout.plane[p].height - 1) + row;
  }
  bytes_ = Bytes(total);
  poison();
  used_.assign(total, 0);
  for (int p = 0; p < layout.planes; p++) image_.data[p] = bytes_.data() + at[p];
  for_each_component(layout, [&](int p, int x, int y, int c) {
    std::memset(&used_[component(image_, p, x, y, c) - bytes_.data()], 1, size);
  });
}

double Frame::get(int plane, int x, int y, int channel) const {
  const uint8_t* at = component(image_, plane, x, y, channel);
  auto load = [&](auto v) {
    std::memcpy(&v, at, sizeof v);
    return v;
  };
  switch (layout().type) {
    case Type::u8:
      return *at;
    case Type::u16:
      return load(uint16_t{}) >> layout().shift;
    case Type::s16:
      return load(int16_t{});
    case Type::s32:
      return load(int32_t{});
    case Type::f32:
      return load(float{});
  }
  return 0;
}

void Frame::set(int plane, int x, int y, int channel, double value) {
  uint8_t* at = component(image_, plane, x, y, channel);
  auto store = [&](auto v) { std::memcpy(at, &v, sizeof v); };
  switch (layout().type) {
    case Type::u8:
      store(uint8_t(value));
      break;
    case Type::u16:
      store(uint16_t(uint16_t(value) << layout().shift));
      break;
    case Type::s16:
      store(int16_t(value));
      break;
    case Type::s32:
      store(int32_t(value));
      break;
    case Type::f32:
      store(float(value));
      break;
  }
}

void Frame::fill(Pattern pattern, Random& random) {
  const Range r = range_of(layout());
  const double span = r.high - r.low;
  const bool whole = layout().type != Type::f32;
  const double level = random.unit();
  const int period = random.between(2, 9);
  for_each_component(layout(), [&](int p, int x, int y, int c) {
    const PlaneLayout& l = layout().plane[p];
    double v = 0;
    switch (pattern) {
      case Pattern::noise:
        v = random.unit();
        break;
      case Pattern::flat:
        v = level;
        break;
      case Pattern::extremes:
        v = ((x / period + y / period + c) & 1) ? 1 : 0;
        break;
      case Pattern::impulses:
        v = random.between(0, 30) ? 0.1 : 1;
        break;
      case Pattern::gradient:
        v = (double(x) / l.width + double(y) / l.height + 0.25 * c) / 2.75;
        break;
      case Pattern::texture:
        v = 0.5 + 0.3 * std::sin(x * 0.7 + c) * std::cos(y * 0.31) + 0.2 * (random.unit() - 0.5);
        break;
    }
    v = r.low + std::clamp(v, 0.0, 1.0) * span;
    set(p, x, y, c, whole ? std::floor(v) : v);
  });
}

void Frame::poison() {
  std::memset(bytes_.data(), kGuard, bytes_.size());
}

std::string Frame::guard_damage() const {
  for (size_t i = 0; i < bytes_.size(); i++) {
    if (used_[i] || bytes_.data()[i] == kGuard) continue;
    const auto* base = static_cast<const uint8_t*>(image_.data[0]);
    char text[160];
    const ptrdiff_t offset = bytes_.data() + i - base;
    snprintf(text, sizeof text,
             "byte outside the frame overwritten with 0x%02x: row %td, byte %td of stride %td",
             bytes_.data()[i], offset / image_.stride[0], offset % image_.stride[0],
             image_.stride[0]);
    return text;
  }
  return {};
}

std::string difference(const Frame& got, const Frame& want, const Tolerance& tolerance) {
  size_t total = 0, equal = 0, bad = 0;
  double largest = 0, magnitude = 0;
  int at[4] = {-1, 0, 0, 0};
  for_each_component(want.layout(), [&](int p, int x, int y, int c) {
    const double w = want.get(p, x, y, c);
    if (std::isfinite(w)) magnitude = std::max(magnitude, std::abs(w));
  });
  const double limit = tolerance.absolute + tolerance.relative * magnitude;
  for_each_component(want.layout(), [&](int p, int x, int y, int c) {
    const double g = got.get(p, x, y, c), w = want.get(p, x, y, c);
    total++;
    if (g == w || (std::isnan(g) && std::isnan(w))) {
      equal++;
      return;
    }
    const double d = std::abs(g - w);
    if (!(d <= largest)) largest = d;
    if (!(d <= limit)) {
      if (!bad++) at[0] = p, at[1] = x, at[2] = y, at[3] = c;
    }
  });
  const double share = total ? double(equal) / total : 1;
  const bool share_bad = total >= 1000 && share < tolerance.equal;
  if (!bad && !share_bad) return {};
  char line[256];
  snprintf(line, sizeof line,
           "%zu of %zu components differ by more than %g, at most by %g; %.3f%% equal", bad, total,
           limit, largest, 100 * share);
  std::string text = line;
  if (at[0] < 0) return text + ": too few";
  const auto [p, x0, y0, c] = at;
  snprintf(line, sizeof line,
           "\n# first at plane %d x %d y %d channel %d; got | want around it:", p, x0, y0, c);
  text += line;
  const PlaneLayout& l = want.layout().plane[p];
  for (int y = std::max(0, y0 - 2); y <= std::min(l.height - 1, y0 + 2); y++) {
    text += "\n# ";
    for (const Frame* f : {&got, &want}) {
      for (int x = std::max(0, x0 - 3); x <= std::min(l.width - 1, x0 + 3); x++) {
        snprintf(line, sizeof line, "%8.6g", f->get(p, x, y, c));
        text += line;
      }
      if (f == &got) text += "  |";
    }
  }
  return text;
}

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
  return options_.match.empty() || name.find(options_.match) != std::string::npos;
}

Random Context::random(const std::string& name) const {
  return Random(hash(name, options_.seed));
}

void Context::result(const std::string& name, const std::string& failure) {
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
  if (!wants(name)) return;
  std::string failure;
  if (status.ok())
    failure = "accepted";
  else if (status.code() != Code::invalid_argument || !std::strstr(status.message(), word))
    failure =
        text("code %d, which does not name \"%s\": %s", int(status.code()), word, status.message());
  result(name, failure);
}

void Context::skip(const std::string& name, const std::string& why) {
  skipped++;
  printf("ok %d - %s %s # SKIP %s\n", passed + failed + skipped, backend_.c_str(), name.c_str(),
         why.c_str());
}

void Context::check(const std::string& name, const Layout& src_layout, const Layout& dst_layout,
                    Pattern pattern, Geometry geometry, const Tolerance& tolerance, bool in_place,
                    const Make& make) {
  if (!wants(name)) return;
  if (options_.max_pixels && std::max(pixels(src_layout), pixels(dst_layout)) > options_.max_pixels)
    return;
  Random random = this->random(name);
  Frame src(src_layout, geometry), want(dst_layout), got(dst_layout, geometry);
  src.fill(pattern, random);

  auto run = [&]() -> std::string {
    std::unique_ptr<Queue> reference;
    QueueOptions options;
    options.backend = Backend::reference;
    if (Status s = make_queue(options, &reference); !s.ok()) return s.message();
    {
      std::unique_ptr<Plan> plan;
      if (Status s = make(*reference, Placement::separate, &plan); !s.ok())
        return std::string("reference: ") + s.message();
      if (Status s = plan->run(src.image(), want.image()); !s.ok())
        return std::string("reference: ") + s.message();
    }
    std::unique_ptr<Plan> plan;
    if (Status s = make(device_->queue(), Placement::separate, &plan); !s.ok()) return s.message();
    got.poison();
    if (Status s = run_plan(*device_, *plan, src, &got); !s.ok()) return s.message();
    if (std::string d = difference(got, want, tolerance); !d.empty()) return d;
    if (std::string d = got.guard_damage(); !d.empty()) return d;
    if (in_place) {
      std::unique_ptr<Plan> again;
      if (Status s = make(device_->queue(), Placement::in_place, &again); !s.ok())
        return s.message();
      const Image both = device_->upload(src);
      if (Status s = again->run(both, both); !s.ok())
        return std::string("in place: ") + s.message();
      if (Status s = device_->queue().sync(); !s.ok())
        return std::string("in place: ") + s.message();
      Frame result = Frame(src_layout, geometry);
      device_->download(both, &result);
      if (std::string d = difference(result, want, tolerance); !d.empty()) return "in place: " + d;
      if (std::string d = result.guard_damage(); !d.empty()) return "in place: " + d;
    }
    if (options_.bench) {
      const double us = device_->time(
          src, dst_layout, [&](const Image& a, const Image& b) { return plan->run(a, b); });
      printf("# %.2f us %s %s\n", us, backend_.c_str(), name.c_str());
    }
    return {};
  };
  const std::string failure = run();
  device_->release_all();
  result(name, failure);
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
    // Plane 0 is as far from the start as in any frame of the same layout and geometry.
    const uint8_t* base = static_cast<uint8_t*>(image.data[0]) -
                          (static_cast<uint8_t*>(frame->image().data[0]) - frame->bytes().data());
    std::memcpy(frame->bytes().data(), base, frame->bytes().size());
  }

  void release_all() override { copies_.clear(); }

  double time(const Frame& src, const Layout& dst,
              const std::function<Status(const Image&, const Image&)>& call) override {
    const Frame out(dst);
    const Image a = upload(src), b = upload(out);
    using clock = std::chrono::steady_clock;
    std::vector<double> times;
    const auto end = clock::now() + std::chrono::milliseconds(300);
    do {
      const auto start = clock::now();
      if (!call(a, b).ok()) return -1;
      times.push_back(std::chrono::duration<double, std::micro>(clock::now() - start).count());
    } while (clock::now() < end || times.size() < 5);
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

 private:
  std::unique_ptr<Queue> queue_;
  std::vector<Bytes> copies_;
};

}  // namespace

std::unique_ptr<Device> make_host_device(std::unique_ptr<Queue> queue) {
  return std::make_unique<HostDevice>(std::move(queue));
}

}  // namespace vf::test
