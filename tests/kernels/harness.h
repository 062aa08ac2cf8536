// Runs the tables of cases. Each filter has one, which checks every backend against the
// double-precision reference. The programs in bench/ also time some rows.
//
//   kernels [--backend cpu|cuda] [--filter NAME] [--case SUBSTRING] [--seed N] [--threads N]
//           [--simd NAME,...] [--sample N] [--max-pixels N] [--part I/N]
//
// --simd runs the cases on the CPU backend with each of these instruction sets, as Highway names
// them. Sets that this machine or build lacks are skipped. The reference takes most of the time,
// and runs once for all sets. --sample keeps about one case in N, chosen by its name, and
// --max-pixels keeps cases on frames of up to N pixels. Both serve runs under a sanitizer, which
// slows a kernel a hundredfold. --part runs the I-th of N parts, so that several processes share
// the cases. Each case prints one TAP line. A failure prints the seed and a dump around the first
// difference.
//
// A filter STEM of filters/filters.def has its cases in tests/kernels/STEM.cpp, in the function
// STEM_cases, and without it the program does not link. The program fails if the filter lacks cases
// of a kind that Context counts.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "filters/plan.h"
#include "tests/part.h"
#include "tests/tolerance.h"

namespace vf::test {

// xorshift128+. A seed gives the same sequence on every machine.
class Random {
 public:
  explicit Random(uint64_t seed);
  // Inlined always, because the reference is built without sanitizers.
  [[gnu::always_inline]] uint64_t next() {
    uint64_t a = s_[0];
    const uint64_t b = s_[1];
    s_[0] = b;
    a ^= a << 23;
    s_[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
    return s_[1] + b;
  }
  int between(int low, int high) { return low + int(next() % uint64_t(high - low + 1)); }
  double unit() { return double(next() >> 11) * 0x1p-53; }

 private:
  uint64_t s_[2];
};

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The contents of test frames. Together they reach every branch of a filter.
enum class Pattern {
  noise,
  flat,
  extremes,
  impulses,
  gradient,
  texture,
  mixed,  // slopes, edges, noise and a few extremes, for timing
};
constexpr Pattern kAllPatterns[] = {Pattern::noise,    Pattern::flat,     Pattern::extremes,
                                    Pattern::impulses, Pattern::gradient, Pattern::texture};
const char* name_of(Pattern p);

// Returns a component of Pattern::mixed, 0 to 65535.
uint32_t mixed_value(int plane, int x, int y, int channel, uint32_t seed);

// Describes the placement of an image in memory.
struct Geometry {
  // Bytes added to each row beyond the alignment, and to the start of each plane. Both are rounded
  // to whole components.
  int stride_padding = 0;
  int offset = 0;
  // If true, memory ends with the last component, so that a memory checker notices reads beyond it.
  bool tight = false;
  // Rows without padding start at multiples of this number of bytes.
  int pitch = 64;
};

// Host memory that starts at a multiple of 256 bytes like device memory, so that images have the
// same alignment in both.
class Bytes {
 public:
  explicit Bytes(size_t size);
  uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  std::shared_ptr<uint8_t> data_;
  size_t size_;
};

// Holds a frame in host memory with guard bytes around every row.
class Frame {
 public:
  Frame(const Layout& layout, Geometry geometry = {});
  const Image& image() const { return image_; }
  const Layout& layout() const { return image_.layout; }
  void fill(Pattern pattern, Random& random);
  // Overwrites all components and guards with a fixed odd value, so that unwritten ones show.
  void poison();
  // Returns a component as a number, without its shift: a code value up to `max_value`.
  double get(int plane, int x, int y, int channel) const;
  void set(int plane, int x, int y, int channel, double value);
  // Says which guard was overwritten, or is empty. Call it on frames that were poisoned before the
  // filter ran.
  std::string guard_damage() const;
  const Bytes& bytes() const { return bytes_; }

 private:
  void fill_mixed(uint32_t seed);
  Bytes bytes_;
  std::vector<uint8_t> used_;  // 1 where a byte belongs to a component
  Image image_;
};

// Describes the difference of a frame from the expected one.
struct Difference {
  size_t total = 0, equal = 0, beyond = 0;    // components; beyond the tolerance
  size_t overshot = 0;                        // components above the layout's max_value
  double largest = 0;                         // in code values; infinite if only one is NaN
  double magnitude = 0;                       // largest finite absolute value that is expected
  double limit = 0;                           // the tolerance for this frame
  int plane = -1, x = 0, y = 0, channel = 0;  // where the first one beyond the tolerance is
  bool within = false;
};
Difference compare(const Frame& got, const Frame& want, const Tolerance& tolerance);
// Returns an empty string if `got` is within tolerance of `want`, and a description with a dump
// otherwise.
std::string difference(const Frame& got, const Frame& want, const Tolerance& tolerance);

// A backend to test: its queue, and images in its memory.
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

// A row of a filter's table that is also timed. The tests check it on a smaller frame.
struct TimedCase {
  std::string frame;       // "2160p RGBA"
  std::string parameters;  // "15x15"
  Layout src, dst;
  Tolerance tolerance;
  // Makes the plan, also for smaller frames of the same formats.
  std::function<Status(Queue&, const Layout& src, const Layout& dst, Placement,
                       std::unique_ptr<Plan>*)>
      make;
  bool in_place = false;  // whether it filters in place
  // Number of frames that are filtered by one call of Plan::run, and that a time on the GPU is for.
  int count = 1;
  bool quick = false;  // whether it is part of the benchmarks' --quick
  bool cpu = false;    // whether it is timed on the CPU, too
  // The part of the source that is read, if not all. The plain copy that is timed for comparison
  // reads as much.
  Layout read;
  // Changes the source's noise, if the time depends on the contents. Frames that follow each other
  // have the numbers 0, 1 ...
  std::function<void(Frame*, uint64_t number)> shape;
  // Lets a plan forget earlier frames, if it remembers them.
  std::function<void(Plan&)> forget;
  // Gives a plan the frames that follow the one of its next run(), if it looks ahead by `later`
  // frames.
  std::function<Status(Plan&, const Image* frames, int count)> give_later;
  int later = 0;
  // The filter's own parameters, for other libraries that do the same work (bench/peers.h).
  std::any params;
  // An element of a launch line that does the same work, "cudagaussian sigma=1.5", if it is timed
  // in a pipeline. `out_caps` are the caps behind the element if they differ from those before it.
  std::string element, out_caps;
};
// Returns the same layout for a frame that is `factor` times smaller.
Layout shrunk(const Layout& layout, int factor);

// Layouts that several tables use.
Layout nv12_layout(int width, int height);
Layout p010_layout(int width, int height);  // 10 bits at the top of 16
Layout i420_layout(int width, int height);
// Returns layouts of video formats with odd sizes, by name. They have subsampled chroma, shared
// memory and unused bits.
std::vector<std::pair<const char*, Layout>> video_layouts();

struct Options {
  std::string filter, match;
  uint64_t seed = 0;
  uint64_t sample = 1;
  Part part;
  int64_t max_pixels = 0;  // 0: no limit
};

// A frame and the reference's result.
struct Expected {
  std::string name;
  Frame src, want;
};
// What contexts that run the same cases make once: what check() expects, and by the name of a case
// what it expects of a sequence of frames.
struct Kept {
  std::vector<Expected> expected;
  std::map<std::string, std::any> sequences;
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

  // Runs one case on this backend and on the reference, and compares the results. With `in_place`,
  // the case runs in place as well.
  void check(const std::string& name, const Layout& src, const Layout& dst, Pattern pattern,
             Geometry geometry, const Tolerance& tolerance, bool in_place, const Make& make);
  // Adds a row of the table that is also timed.
  void timed(const TimedCase& row);
  // Counts a call that must be refused as an invalid argument, with a message that contains `word`.
  void refused(const std::string& name, const Status& status, const char* word);
  // Counts a case with its own check, if the command line selects it. An empty `failure` is a pass.
  void result(const std::string& name, const std::string& failure);
  void skip(const std::string& name, const std::string& why);
  // Returns whether the command line selects this case. Ask before work that takes time.
  virtual bool wants(const std::string& name) const;
  // Returns a generator that depends only on the seed and the case, so that a case can run alone.
  Random random(const std::string& name) const;
  // Takes frames from `kept` if they are there, and adds the others.
  void share(Kept* kept) { kept_ = kept; }
  // Returns the sequence that a case of this name has kept, or makes it.
  template <class Sequence, class Make>
  std::shared_ptr<Sequence> sequence(const std::string& name, Make&& make) {
    if (!kept_) return make();
    std::any& kept = kept_->sequences[name];
    if (!kept.has_value()) kept = std::shared_ptr<Sequence>(make());
    return std::any_cast<std::shared_ptr<Sequence>>(kept);
  }
  Device& device() { return *device_; }
  const std::string& backend() const { return backend_; }

  // Runs a filter's table.
  void table(const Filter& filter);
  // Runs a filter's table, and fails if it has no case of some kind.
  void run(const Filter& filter);

  int passed = 0, failed = 0, skipped = 0;

 protected:
  // Handles a row that is timed. Here it is only checked.
  virtual void on_timed(const TimedCase& row);
  // Does the work of check(). Returns an empty string, or a description of the failure.
  std::string failure_of(const std::string& name, const Layout& src, const Layout& dst,
                         Pattern pattern, Geometry geometry, const Tolerance& tolerance,
                         bool in_place, const Make& make);
  // Fills `e` for failure_of(), with the reference's result.
  Status expect(Pattern pattern, const Make& make, Expected* e);
  // Checks a timed row on a smaller frame.
  std::string failure_of(const TimedCase& row);
  static TimedCase small(const TimedCase& row);
  std::string name_of(const TimedCase& row) const {
    return filter_ + " " + row.frame + " " + row.parameters;
  }

  Options options_;
  std::string filter_;

 private:
  // Counts and prints a case that the command line selects.
  void report(const std::string& name, const std::string& failure);

  std::string backend_;
  std::unique_ptr<Device> device_;
  Kept* kept_ = nullptr;
  size_t expected_ = 0;  // number of calls of expect()
  // Number of rows of each kind in the table, whether the command line selects them or not.
  int checks_ = 0, timings_ = 0, refusals_ = 0;
};

// Compares with OpenCV instead of the reference. Nothing is timed.
void gaussian_opencv_cases(Context& context);

std::unique_ptr<Device> make_host_device(std::unique_ptr<Queue> queue);
// Returns null and sets `why` if there is no CUDA or no device.
std::unique_ptr<Device> make_cuda_device(std::string* why);

}  // namespace vf::test
