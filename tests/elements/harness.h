// The element tests: one table of elements and memories; each element runs every common case on
// every memory, and its own cases. Cases for CUDA memory skip, visibly, where there is no device.
//
//   elements [--element NAME] [--case SUBSTRING] [--cycles N] [--changes N] [--max-pixels N]
//            [--seed N] [--part I/N]
//
// --part runs the I-th of N parts, which have each case once: for several processes beside each
// other. Each case prints one TAP line. A warning or critical of GLib that a case does not expect
// fails it.
#pragma once

#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "filters/plan.h"
#include "gst/base/cudacompat.h"
#include "gst/base/frame.h"
#include "gst/base/pinned.h"
#include "tests/part.h"

namespace vf::test {

// How an element gets its frames, and what filters them.
struct Row {
  const char* name;
  bool cuda_caps;
  const char* backend;
  int async_depth = 0;
  bool needs_device() const { return cuda_caps || std::string(backend) == "cuda"; }
  Backend library_backend() const {
    return std::string(backend) == "cuda" ? Backend::cuda : Backend::cpu;
  }
};
constexpr Row kRows[] = {
    {"system-cpu", false, "cpu"},
    {"system-cuda", false, "cuda"},
    {"cuda", true, "cuda"},
    {"cuda-cpu", true, "cpu"},
};

class Case;
class Suite;

using Settings = std::vector<std::pair<const char*, const char*>>;

// What change.cpp changes of an element: one property, so that a change is all or nothing, and each
// frame shows either the old value or the new one.
struct ChangeEntry {
  const char* property;
  std::vector<const char*> values;
  Settings fixed;                    // other settings
  std::vector<const char*> formats;  // system memory and CUDA's have them
  std::vector<const char*> behind;   // caps that follow; none: as in front
};

// What faults.cpp runs an element with: settings that change pictures, and the caps of its pads.
struct FaultEntry {
  Settings settings;
  const char* system_formats[2];
  const char* cuda_formats[2];
  int out_width = 0, out_height = 0;  // 0: as they come in
  // GstVideoRegionOfInterestMeta of each frame.
  std::vector<GstVideoRectangle> regions = {};
};

// What the tests know about an element, from its file. An entry without a part that it needs fails
// (main.cpp).
struct Element {
  const char* name = nullptr;
  void (*own_cases)(Suite&) = nullptr;
  std::vector<ChangeEntry> changes = {};
  std::vector<FaultEntry> faults = {};
  // Caps behind it, for limits.cpp; null: as in front.
  const char* out_caps = nullptr;

  // An element that filters nothing has only its own cases; this says what it does.
  const char* not_filter = nullptr;
  // The common cases are about filters from a frame to one of the same caps, on the formats that
  // all such elements take. For others this says why they do not run, and the rest is empty.
  const char* not_common = nullptr;
  // Gives the element settings that change pictures; `variant` 0 and 1 differ visibly.
  void (*set)(GstElement* element, int variant) = nullptr;
  void (*set_identity)(GstElement* element) = nullptr;
  // The plan of the same settings for frames of `format`.
  Status (*make)(Queue& queue, const gstvf::Format& format, int variant, Placement placement,
                 std::unique_ptr<Plan>* out) = nullptr;
  // The same for one component as a plane of its own; null where components depend on each other.
  Status (*make_component)(Queue& queue, const Layout& layout, int variant,
                           std::unique_ptr<Plan>* out) = nullptr;
  // Code values that results may differ from the reference by.
  int tolerance = 0;
  std::vector<std::string> formats = {};  // besides those of the pad template: must be in it
};

// The element's name in those of its cases. One with several entries has the setting that tells
// them apart in it.
std::string path_of(const Element& element, const Settings& settings);

struct Options {
  std::string element, match;
  guint64 seed = 0;
  int cycles = 1000;
  int changes = 100;           // of change.cpp's cases
  guint64 max_pixels = -1ull;  // larger frames are left out
  Part part;
};

class Suite {
 public:
  explicit Suite(const Options& options) : options_(options) {}
  void run(const std::string& name, const std::function<void(Case&)>& body);
  int finish();
  const Options& options() const { return options_; }

 private:
  Options options_;
  int passed_ = 0, failed_ = 0, skipped_ = 0;
  guint64 cases_ = 0;  // of all parts
};

class Case {
 public:
  Case(Suite& suite, const std::string& name) : suite_(suite), name_(name) {}
  // The first failure is kept.
  void fail(const char* format, ...) G_GNUC_PRINTF(2, 3);
  void check(bool ok, const char* format, ...) G_GNUC_PRINTF(3, 4);
  void check(const Status& status, const char* what) {
    check(status.ok(), "%s: %s", what, status.message());
  }
  void skip(const char* format, ...) G_GNUC_PRINTF(2, 3);
  // A message of GLib with this text is expected, once.
  void expect_warning(const std::string& text) { expected_ = text; }
  void heard(const char* text);
  bool ok() const { return failure_.empty() && skipped_.empty(); }
  const Options& options() const { return suite_.options(); }

 private:
  friend class Suite;
  Suite& suite_;
  std::string name_, failure_, skipped_, expected_;
};

// The test's own CUDA context; null, with the reason, where there is no device.
GstCudaContext* cuda_context(std::string* why = nullptr);
// Gives an element or all of a pipeline the test's context, if there is one, as applications do.
void give_context(GstElement* element);

// Frames are made in this context instead, until it is null again.
void set_cuda_context(GstCudaContext* context);
// The next call of cuda_context() makes a new one.
void drop_cuda_context();

// Skips the case, and is false, where the row needs a device and there is none.
bool usable(Case& c, const Row& row);

// A queue of the library; current context included, where it is CUDA's.
class Library {
 public:
  explicit Library(Backend backend);
  ~Library();
  Queue* queue() { return queue_.get(); }
  const Status& status() const { return status_; }

 private:
  std::unique_ptr<gstvf::CurrentContext> current_;
  std::unique_ptr<Queue> queue_;
  Status status_;
};

using BufferPtr = std::shared_ptr<GstBuffer>;
inline BufferPtr own(GstBuffer* b) {
  return BufferPtr(b, [](GstBuffer* p) {
    if (p) gst_buffer_unref(p);
  });
}

GstVideoInfo video_info(const char* format, int width, int height,
                        GstVideoInterlaceMode mode = GST_VIDEO_INTERLACE_MODE_PROGRESSIVE);

// How a frame lies in system memory.
struct Shape {
  int padding = 0;        // bytes added to each row
  bool apart = false;     // each plane in a memory of its own
  int left = 0, top = 0;  // pixels round the picture, which a crop meta then names
};

// A frame of noise whose unused bits are zero, in memory of the row.
// CUDA memory is of the test's own context unless there is another.
BufferPtr make_frame(bool cuda, const GstVideoInfo& info, guint32 seed, const Shape& shape = {},
                     GstCudaContext* context = nullptr);
// The same pixels in system memory, without padding.
BufferPtr packed_copy(const GstVideoInfo& info, GstBuffer* buffer);
// A component of a frame; bits above and below included.
int get_component(const GstVideoFrame& frame, int component, int x, int y);
// Says where `got` and `want` differ by more than `tolerance` (after shifting out unused bits).
std::string difference(const GstVideoInfo& info, GstBuffer* got, GstBuffer* want, int tolerance);

// Makes the plan for frames, or fields, of `format`.
using Make = std::function<Status(Queue& queue, const gstvf::Format& format, Placement placement,
                                  std::unique_ptr<Plan>* out)>;

// What the library, called directly, makes of a frame in system memory: by fields if asked.
Status filter_directly(const Make& make, Backend backend, const GstVideoInfo& info, GstBuffer* in,
                       bool fields, BufferPtr* out);
// The same with the settings that the common cases give the element.
Status filter_directly(const Element& element, Backend backend, const GstVideoInfo& info,
                       GstBuffer* in, int variant, bool fields, BufferPtr* out);
// What the reference makes of each component as a plane of its own.
Status filter_by_reference(const Element& element, const GstVideoInfo& info, GstBuffer* in,
                           int variant, BufferPtr* out);

// The text of the next error on a bus; empty where there is none.
std::string error_on(GstBus* bus);

// An element in a harness, with a bus.
class Bench {
 public:
  Bench(const Element& element, const Row& row, int device = -1);
  ~Bench();
  Bench(const Bench&) = delete;
  GstElement* element() const { return element_; }
  GstHarness* harness() const { return harness_; }
  void caps(const GstVideoInfo& info);
  // Those that caps() sets.
  GstCaps* make_caps(const GstVideoInfo& info) const;
  // Pushes a buffer (a reference is taken) and pulls what comes out; null if nothing did.
  BufferPtr push(const BufferPtr& buffer);
  BufferPtr push(GstBuffer* buffer);  // takes the buffer
  GstFlowReturn flow() const { return flow_; }
  // The text of the next message of this type; empty if there is none.
  std::string message(GstMessageType type, GQuark* domain = nullptr, int* code = nullptr);
  // Checks that the next warning message has this text in it.
  void expect_warning(Case& c, const std::string& text);
  // The texts of all messages so far: of the first error and of the first info.
  void messages(std::string* error, std::string* info);

 private:
  const Row& row_;
  GstElement* element_;
  GstHarness* harness_;
  GstBus* bus_;
  GstFlowReturn flow_ = GST_FLOW_OK;
};

// Memory in use on the device of the test's context; 0 without one.
long device_kib();

void common_cases(Suite& suite, const Element& element);
void async_cases(Suite& suite, const Element& element);
void fault_cases(Suite& suite, const Element& element);
void change_cases(Suite& suite, const Element& element);
void limit_cases(Suite& suite, const Element& element);
void unusable_cases(Suite& suite, const Element& element);
// With the element of base.cpp.
void hand_over_cases(Suite& suite);

// Those of filters/filters.def, each in tests/elements/STEM.cpp.
#define VF_FILTER(stem, ...) extern const Element stem##_element;
#include "filters/filters.def"
// That is no filter of the library.
extern const Element letterboxrestore_element, regions_element;

}  // namespace vf::test
