// The kernel tests: one table of cases checks every backend against the double-precision reference
// and, with --bench, times the same calls.
//
//   kernels [--backend cpu|cuda] [--filter NAME] [--case SUBSTRING] [--seed N] [--threads N]
//   [--bench]
//           [--sample N] [--max-pixels N]
//
// --sample keeps about one case in N, chosen by its name, and --max-pixels only cases on frames of
// up to N pixels: for runs under a sanitizer, which slows a kernel a hundredfold. Each case prints
// one TAP line; a failure prints the seed and a dump round the first difference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "filters/backend.h"

namespace vf::test {

// xorshift128+; the same sequence everywhere for a seed.
class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t next();
  int between(int low, int high) { return low + int(next() % uint64_t(high - low + 1)); }
  double unit() { return double(next() >> 11) * 0x1p-53; }

 private:
  uint64_t s_[2];
};

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

// What frames are filled with, so that every branch of a filter is reached.
enum class Pattern { noise, flat, extremes, impulses, gradient, texture };
constexpr Pattern kAllPatterns[] = {Pattern::noise,    Pattern::flat,     Pattern::extremes,
                                    Pattern::impulses, Pattern::gradient, Pattern::texture};
const char* name_of(Pattern p);

// How an image lies in memory.
struct Geometry {
  // Bytes added to each row beyond what alignment asks for, and to the start of each plane. Both
  // are rounded to whole components.
  int stride_padding = 0;
  int offset = 0;
  // Memory ends with the last component, so that a memory checker sees what reads beyond it.
  bool tight = false;
};

// Host memory that starts at a multiple of 256, as device memory does, so that images have the same
// alignment wherever they are.
class Bytes {
 public:
  explicit Bytes(size_t size);
  uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  std::shared_ptr<uint8_t> data_;
  size_t size_;
};

// A frame in host memory, with guard bytes round every row.
class Frame {
 public:
  Frame(const Layout& layout, Geometry geometry = {});
  const Image& image() const { return image_; }
  const Layout& layout() const { return image_.layout; }
  void fill(Pattern pattern, Random& random);
  // Overwrites all components and guards with a fixed odd value, so that unwritten ones show.
  void poison();
  // Value of a component, as a number (after the shift: code values of `max_value`).
  double get(int plane, int x, int y, int channel) const;
  void set(int plane, int x, int y, int channel, double value);
  // Empty, or what guard was overwritten. Call on frames that were poisoned before the filter ran.
  std::string guard_damage() const;
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  std::vector<uint8_t> used_;  // 1 where a byte belongs to a component
  Image image_;
};

// What a result may differ from the reference by.
struct Tolerance {
  double absolute = 0;  // code values (integers) or value (f32)
  double relative = 0;  // f32: times the frame's largest magnitude
  double equal = 0;     // least share of equal components, of frames with at least 1000 of them
};

// Empty if `got` is within tolerance of `want`; else a description with a dump.
std::string difference(const Frame& got, const Frame& want, const Tolerance& tolerance);

class Context;

// A backend to test: its queue, and images where it wants them.
class Device {
 public:
  virtual ~Device() = default;
  virtual Queue& queue() = 0;
  // Copies a frame, guards included, to memory of the backend and back.
  virtual Image upload(const Frame& frame) = 0;
  virtual void download(const Image& image, Frame* frame) = 0;
  virtual void release_all() = 0;
  // Microseconds of one call: the median over many, over rotating copies of the frames.
  virtual double time(const Frame& src, const Layout& dst,
                      const std::function<Status(const Image&, const Image&)>& call) = 0;
};

// Runs `plan` once on `device`, from `src` into `dst`, and waits.
Status run_plan(Device& device, Plan& plan, const Frame& src, Frame* dst);

struct Options {
  std::string filter, match;
  uint64_t seed = 0;
  bool bench = false;
  uint64_t sample = 1;
  int64_t max_pixels = 0;  // 0: no limit
};

class Context {
 public:
  Context(const Options& options, std::string backend, std::unique_ptr<Device> device)
      : options_(options), backend_(std::move(backend)), device_(std::move(device)) {}

  using Make = std::function<Status(Queue&, Placement, std::unique_ptr<Plan>*)>;

  // Runs one case on this backend and on the reference: the same frame, out of place and, where
  // `in_place`, in place too, and compares. With --bench the call is timed as well.
  void check(const std::string& name, const Layout& src, const Layout& dst, Pattern pattern,
             Geometry geometry, const Tolerance& tolerance, bool in_place, const Make& make);
  // Counts one case with its own check: `failure` is empty for a pass.
  void result(const std::string& name, const std::string& failure);
  // Counts a call that must be refused as an invalid argument, with a message that has `word` in
  // it.
  void refused(const std::string& name, const Status& status, const char* word);
  void skip(const std::string& name, const std::string& why);
  // Whether the command line leaves this case in. Asked before work is spent on it.
  bool wants(const std::string& name) const;
  // A generator that depends on the seed and the case only, so that a case can be run alone.
  Random random(const std::string& name) const;
  Device& device() { return *device_; }
  const std::string& backend() const { return backend_; }

  int passed = 0, failed = 0, skipped = 0;

 private:
  Options options_;
  std::string backend_;
  std::unique_ptr<Device> device_;
};

// One for each filter; the table is in main.cpp.
void gaussian_cases(Context& context);
void guided_cases(Context& context);
void letterbox_cases(Context& context);
void gaussian_opencv_cases(Context& context);
void median_cases(Context& context);

std::unique_ptr<Device> make_host_device(std::unique_ptr<Queue> queue);
// Null with `why` where there is no CUDA or no device.
std::unique_ptr<Device> make_cuda_device(std::string* why);

const BackendTable* reference_backend();

}  // namespace vf::test
