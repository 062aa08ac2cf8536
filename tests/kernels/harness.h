// The table of cases of each filter, which checks every backend against the double-precision
// reference. Some of its rows are timed too, by the programs in bench/.
//
//   kernels [--backend cpu|cuda] [--filter NAME] [--case SUBSTRING] [--seed N] [--threads N]
//           [--simd NAME,...] [--sample N] [--max-pixels N] [--part I/N]
//
// --simd has the CPU backend run the cases with each of these instruction sets, as Highway names
// them; one that this machine or build lacks is skipped. The reference, which takes most of the
// time, is then asked once for all of them.
// --sample keeps about one case in N, chosen by its name, and --max-pixels only cases on frames of
// up to N pixels: for runs under a sanitizer, which slows a kernel a hundredfold. --part runs the
// I-th of N parts, which have each case once: for several processes beside each other. Each case
// prints one TAP line; a failure prints the seed and a dump round the first difference.
//
// A filter STEM of filters/filters.def has its cases in tests/kernels/STEM.cpp, in the function
// STEM_cases; without it nothing links. It must have cases of every kind that Context counts, or
// the program fails.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "filters/backend.h"
#include "tests/part.h"
#include "tests/tolerance.h"

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
enum class Pattern {
  noise,
  flat,
  extremes,
  impulses,
  gradient,
  texture,
  mixed,  // slopes, edges, noise and a few extremes: no easy data for what is timed
};
constexpr Pattern kAllPatterns[] = {Pattern::noise,    Pattern::flat,     Pattern::extremes,
                                    Pattern::impulses, Pattern::gradient, Pattern::texture};
const char* name_of(Pattern p);

// A component of Pattern::mixed, 0 to 65535.
uint32_t mixed_value(int plane, int x, int y, int channel, uint32_t seed);

// How an image lies in memory.
struct Geometry {
  // Bytes added to each row beyond what alignment asks for, and to the start of each plane. Both
  // are rounded to whole components.
  int stride_padding = 0;
  int offset = 0;
  // Memory ends with the last component, so that a memory checker sees what reads beyond it.
  bool tight = false;
  // Rows without padding start at multiples of this.
  int pitch = 64;
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
  void fill_mixed(uint32_t seed);
  Bytes bytes_;
  std::vector<uint8_t> used_;  // 1 where a byte belongs to a component
  Image image_;
};

// How far a frame is from what is wanted.
struct Difference {
  size_t total = 0, equal = 0, beyond = 0;    // components; beyond the tolerance
  size_t overshot = 0;                        // components above the layout's max_value
  double largest = 0;                         // in code values; infinite where only one is NaN
  double magnitude = 0;                       // largest absolute value wanted that is finite
  double limit = 0;                           // what the tolerance comes to
  int plane = -1, x = 0, y = 0, channel = 0;  // of the first one beyond the tolerance
  bool within = false;
};
Difference compare(const Frame& got, const Frame& want, const Tolerance& tolerance);
// Empty if `got` is within tolerance of `want`; else a description with a dump.
std::string difference(const Frame& got, const Frame& want, const Tolerance& tolerance);

// A backend to test: its queue, and images where it wants them.
class Device {
 public:
  virtual ~Device() = default;
  virtual Queue& queue() = 0;
  // Copies a frame, guards included, to memory of the backend and back.
  virtual Image upload(const Frame& frame) = 0;
  virtual void download(const Image& image, Frame* frame) = 0;
  virtual void release_all() = 0;
};

// Runs `plan` once on `device`, from `src` into `dst`, and waits.
Status run_plan(Device& device, Plan& plan, const Frame& src, Frame* dst);

// A row of a filter's table that is timed, too. The tests check it on a smaller frame.
struct TimedCase {
  std::string frame;       // "2160p RGBA"
  std::string parameters;  // "15x15"
  Layout src, dst;
  Tolerance tolerance;
  // Makes the plan, also for smaller frames of the same formats.
  std::function<Status(Queue&, const Layout& src, const Layout& dst, Placement,
                       std::unique_ptr<Plan>*)>
      make;
  bool in_place = false;  // filters in place
  bool quick = false;     // part of the benchmarks' --quick
  bool cpu = false;       // timed on the CPU, too
  // What is read of the source, where that is not all: a copy is timed that reads as much.
  Layout read;
  // What is changed of a source's noise, where the time depends on what it shows.
  std::function<void(Frame*)> shape;
  // Forgets what a plan remembers of earlier frames, where it does.
  std::function<void(Plan&)> forget;
  // The filter's own parameters, for other libraries that do the same work (bench/peers.h).
  std::any params;
  // The same work as an element of a launch line, "cudagaussian sigma=1.5", where it is timed in a
  // pipeline, and the caps behind it where they are not those before it.
  std::string element, out_caps;
};
// The same layout for a frame `factor` times smaller.
Layout shrunk(const Layout& layout, int factor);

// Layouts that several tables have.
Layout nv12_layout(int width, int height);
Layout p010_layout(int width, int height);  // 10 bits at the top of 16
Layout i420_layout(int width, int height);
// Of video formats, by name, of odd sizes: subsampled chroma, shared memory, unused bits.
std::vector<std::pair<const char*, Layout>> video_layouts();

struct Options {
  std::string filter, match;
  uint64_t seed = 0;
  uint64_t sample = 1;
  Part part;
  int64_t max_pixels = 0;  // 0: no limit
};

// A frame and what the reference makes of it, kept for contexts that go through the same cases.
struct Expected {
  std::string name;
  Frame src, want;
};

class Context;

// The filters of filters/filters.def and their tables.
struct Filter {
  const char* name;
  void (*cases)(Context&);
};
extern const std::vector<Filter> kFilters;
class Context {
 public:
  Context(const Options& options, std::string backend, std::unique_ptr<Device> device)
      : options_(options), backend_(std::move(backend)), device_(std::move(device)) {}
  virtual ~Context() = default;

  using Make = std::function<Status(Queue&, Placement, std::unique_ptr<Plan>*)>;

  // Runs one case on this backend and on the reference: the same frame, out of place and, where
  // `in_place`, in place too, and compares.
  void check(const std::string& name, const Layout& src, const Layout& dst, Pattern pattern,
             Geometry geometry, const Tolerance& tolerance, bool in_place, const Make& make);
  // A row of the table that is timed, too.
  void timed(const TimedCase& row);
  // Counts a call that must be refused as an invalid argument, with a message that has `word` in
  // it.
  void refused(const std::string& name, const Status& status, const char* word);
  // Counts one case with its own check: `failure` is empty for a pass.
  void result(const std::string& name, const std::string& failure);
  void skip(const std::string& name, const std::string& why);
  // Whether the command line leaves this case in. Asked before work is spent on it.
  virtual bool wants(const std::string& name) const;
  // A generator that depends on the seed and the case only, so that a case can be run alone.
  Random random(const std::string& name) const;
  // Takes frames from `kept`, as far as they are there, and adds the others.
  void share(std::vector<Expected>* kept) { kept_ = kept; }
  Device& device() { return *device_; }
  const std::string& backend() const { return backend_; }

  // Goes through a filter's table.
  void table(const Filter& filter);
  // The same; fails where there is no case of some kind.
  void run(const Filter& filter);

  int passed = 0, failed = 0, skipped = 0;

 protected:
  // What becomes of a row that is timed: it is checked.
  virtual void on_timed(const TimedCase& row);
  // What check() does; empty, or what is wrong.
  std::string failure_of(const std::string& name, const Layout& src, const Layout& dst,
                         Pattern pattern, Geometry geometry, const Tolerance& tolerance,
                         bool in_place, const Make& make);
  // Fills `e` for failure_of().
  Status expect(Pattern pattern, const Make& make, Expected* e);
  // The same of a timed row, on a smaller frame.
  std::string failure_of(const TimedCase& row);
  static TimedCase small(const TimedCase& row);
  std::string name_of(const TimedCase& row) const {
    return filter_ + " " + row.frame + " " + row.parameters;
  }

  Options options_;
  std::string filter_;

 private:
  std::string backend_;
  std::unique_ptr<Device> device_;
  std::vector<Expected>* kept_ = nullptr;
  size_t expected_ = 0;  // calls of expect()
  // Rows of each kind in the table, whether the command line leaves them in or not.
  int checks_ = 0, timings_ = 0, refusals_ = 0;
};

// Compares with OpenCV: not against the reference, and nothing is timed.
void gaussian_opencv_cases(Context& context);

std::unique_ptr<Device> make_host_device(std::unique_ptr<Queue> queue);
// Null with `why` where there is no CUDA or no device.
std::unique_ptr<Device> make_cuda_device(std::string* why);

const BackendTable* reference_backend();

}  // namespace vf::test
