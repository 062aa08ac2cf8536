// Runs the element tests from one table of elements and memories. Each element runs all common
// cases on every memory, and its own cases. Cases for CUDA memory are reported as skipped if there
// is no device.
//
//   elements [--element NAME] [--case SUBSTRING] [--cycles N] [--changes N] [--max-pixels N]
//            [--fault-step N] [--seed N] [--part I/N]
//
// --part runs the I-th of N parts, so that N processes can share the cases. Each case prints one
// TAP line. A GLib warning or critical fails the case that did not expect it.
#pragma once

#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "filters/plan.h"
#include "gst/base/cudacompat.h"
#include "gst/base/frame.h"
#include "gst/base/pinned.h"
#include "tests/part.h"
#include "tests/tap.h"

namespace vf::test {

// Describes the memory in which an element gets its frames, and the backend that filters them.
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

// Names the property that change.cpp changes. It is a single one, so that a change is atomic: each
// frame shows either the old value or the new one.
struct ChangeEntry {
  const char* property;
  std::vector<const char*> values;
  Settings fixed;                    // other settings
  std::vector<const char*> formats;  // accepted in system memory and in CUDA memory
  std::vector<const char*> behind;   // downstream caps; empty means the caps of the input
};

// Configures an element for faults.cpp: settings that change pictures, and the caps of its pads.
struct FaultEntry {
  Settings settings;
  const char* system_formats[2];
  const char* cuda_formats[2];
  int out_width = 0, out_height = 0;  // 0 means the size of the input
  // Each frame gets a GstVideoRegionOfInterestMeta for each of these.
  std::vector<GstVideoRectangle> regions = {};
};

// Tells the tests about an element. Each element's file defines one. If a part is missing that the
// element needs, a case in main.cpp fails.
struct Element {
  const char* name = nullptr;
  void (*own_cases)(Suite&) = nullptr;
  std::vector<ChangeEntry> changes = {};
  std::vector<FaultEntry> faults = {};
  // Caps downstream of the element in limits.cpp; null means the caps of the input.
  const char* out_caps = nullptr;

  // An element that filters nothing runs only its own cases. This says what it does instead.
  const char* not_filter = nullptr;
  // The common cases test filters whose input and output have the same caps, on formats that all
  // such elements take. For other elements this says why the cases do not run, and the fields below
  // are empty.
  const char* not_common = nullptr;
  // Gives the element settings that change pictures; `variant` 0 and 1 differ visibly.
  void (*set)(GstElement* element, int variant) = nullptr;
  void (*set_identity)(GstElement* element) = nullptr;
  // Makes the library's plan with the same settings for frames of `format`.
  Status (*make)(Queue& queue, const gstvf::Format& format, int variant, Placement placement,
                 std::unique_ptr<Plan>* out) = nullptr;
  // Makes the same plan for a single component as a plane of its own. Null if components depend on
  // each other.
  Status (*make_component)(Queue& queue, const Layout& layout, int variant,
                           std::unique_ptr<Plan>* out) = nullptr;
  // Results may differ from the reference by this many code values.
  int tolerance = 0;
  std::vector<std::string> formats = {};  // additional ones, which the pad template has
};

// Returns the element's name as it appears in the names of cases. If an element has several
// entries, the setting that tells them apart is part of the name.
std::string path_of(const Element& element, const Settings& settings);

struct Options {
  std::string element, match;
  guint64 seed = 0;
  int cycles = 1000;
  int changes = 100;           // for each case of change.cpp
  int fault_step = 1;          // one in so many calls fails in the longest cases of faults.cpp
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
  Tap tap_;
  guint64 cases_ = 0;  // in all parts
};

class Case {
 public:
  Case(Suite& suite, const std::string& name) : suite_(suite), name_(name) {}
  // Only the first failure is kept.
  void fail(const char* format, ...) G_GNUC_PRINTF(2, 3);
  void check(bool ok, const char* format, ...) G_GNUC_PRINTF(3, 4);
  void check(const Status& status, const char* what) {
    check(status.ok(), "%s: %s", what, status.message());
  }
  void skip(const char* format, ...) G_GNUC_PRINTF(2, 3);
  // GLib must log a message with this text once.
  void expect_warning(const std::string& text) { expected_ = text; }
  void heard(const char* text);
  bool ok() const { return failure_.empty() && skipped_.empty(); }
  const Options& options() const { return suite_.options(); }

 private:
  friend class Suite;
  Suite& suite_;
  std::string name_, failure_, skipped_, expected_;
};

// Returns the test's own CUDA context. Returns null and sets the reason if there is no device.
GstCudaContext* cuda_context(std::string* why = nullptr);
// Gives the test's context, if there is one, to an element or a pipeline, as applications do.
void give_context(GstElement* element);

// Frames are made in this context from now on. Null returns to the test's own.
void set_cuda_context(GstCudaContext* context);
// Makes the next call of cuda_context() create a new context.
void drop_cuda_context();

// Returns whether the row can run. If it needs a device and there is none, skips the case.
bool usable(Case& c, const Row& row);

// Holds a queue of the library and, for CUDA, makes the test's context current.
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

// Describes the layout of a frame in system memory.
struct Shape {
  int padding = 0;        // bytes added to each row
  bool apart = false;     // each plane in a memory of its own
  int left = 0, top = 0;  // pixels around the picture, which a crop meta then names
};

// Makes a frame of noise, with unused bits zero, in system or CUDA memory. CUDA memory is of the
// test's own context unless another one is given.
BufferPtr make_frame(bool cuda, const GstVideoInfo& info, guint32 seed, const Shape& shape = {},
                     GstCudaContext* context = nullptr);
// Returns the same pixels in system memory, without padding.
BufferPtr packed_copy(const GstVideoInfo& info, GstBuffer* buffer);
// Returns a component of a pixel, with all bits of its word.
int get_component(const GstVideoFrame& frame, int component, int x, int y);
// Says where `got` and `want` differ by more than `tolerance` after unused bits are shifted out.
// Returns an empty string if they do not.
std::string difference(const GstVideoInfo& info, GstBuffer* got, GstBuffer* want, int tolerance);

// Makes the plan for frames or fields of `format`.
using Make = std::function<Status(Queue& queue, const gstvf::Format& format, Placement placement,
                                  std::unique_ptr<Plan>* out)>;

// Filters a frame in system memory with the library instead of the element, by fields if `fields`.
Status filter_directly(const Make& make, Backend backend, const GstVideoInfo& info, GstBuffer* in,
                       bool fields, BufferPtr* out);
// Does the same with the settings that the common cases give the element.
Status filter_directly(const Element& element, Backend backend, const GstVideoInfo& info,
                       GstBuffer* in, int variant, bool fields, BufferPtr* out);
// Filters each component with the reference, as a plane of its own.
Status filter_by_reference(const Element& element, const GstVideoInfo& info, GstBuffer* in,
                           int variant, BufferPtr* out);

// Returns the text of the next error on a bus, or an empty string.
std::string error_on(GstBus* bus);

// Logs a warning, which fails the case, if an error, warning or info message of one of the elements
// has no details. Any thread may call it.
void check_details(GstMessage* message);
// Checks every message that is posted on a bus.
void check_details_on(GstBus* bus);

// Runs an element in a harness and receives its messages. A message without details fails the case,
// and so does a second error for one frame.
class Bench {
 public:
  Bench(const Element& element, const Row& row, int device = -1);
  ~Bench();
  Bench(const Bench&) = delete;
  GstElement* element() const { return element_; }
  GstHarness* harness() const { return harness_; }
  void caps(const GstVideoInfo& info);
  // Returns the caps that caps() sets.
  GstCaps* make_caps(const GstVideoInfo& info) const;
  // Pushes a buffer (takes a new reference) and pulls the output. Returns null if nothing came out.
  BufferPtr push(const BufferPtr& buffer);
  BufferPtr push(GstBuffer* buffer);  // takes the buffer
  GstFlowReturn flow() const { return flow_; }
  // Asks the element, as upstream does, how many buffers it needs at least.
  guint buffers_wanted() const;
  // Returns the text of the next message of this type, or an empty string.
  std::string message(GstMessageType type, GQuark* domain = nullptr, int* code = nullptr);
  // Checks that the next warning message contains this text.
  void expect_warning(Case& c, const std::string& text);
  // Drains the bus and returns the texts of the first error and of the last info message.
  void messages(std::string* error, std::string* info);

 private:
  const Row& row_;
  GstElement* element_;
  GstHarness* harness_;
  GstBus* bus_;
  GstFlowReturn flow_ = GST_FLOW_OK;
  bool gives_context_ = false;
  std::atomic<int> errors_{0};  // the current frame's

  static GstBusSyncReply hear(GstBus*, GstMessage* message, gpointer bench);
};

// Returns the KiB of memory in use on the device of the test's context, or 0 without one.
long device_kib();

void common_cases(Suite& suite, const Element& element);
void async_cases(Suite& suite, const Element& element);
void fault_cases(Suite& suite, const Element& element);
void change_cases(Suite& suite, const Element& element);
void limit_cases(Suite& suite, const Element& element);
void unusable_cases(Suite& suite, const Element& element);
// Runs cases with the element of base.cpp.
void hand_over_cases(Suite& suite);

// These have no stem of their own in filters.def. Each file declares the other elements that it
// uses, so that a new filter compiles few files again.
extern const Element letterboxbatch_element, letterboxrestore_element, letterboxunbatch_element,
    regions_element;

}  // namespace vf::test
