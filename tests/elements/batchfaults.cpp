// Tests cudaletterboxbatch on a device whose calls fail: a batch that comes is right, the others
// have an error message, and nothing is left behind.
#include <tuple>

#include "tests/elements/batches.h"
#if VF_EMULATION
#include "tests/emulation/device.h"
#endif

namespace vf::test {

#if VF_EMULATION
namespace {

using emulation::Error;
using emulation::Then;

constexpr char kDimensions[] = "12:12:3:3";
const StreamKind kKinds[] = {{"NV12", 16, 8}, {"RGB", 10, 10}};

// Holds the context of one run. The run may lose it.
struct ContextOf {
  GstCudaContext* context = gst_cuda_context_new(0);
  ContextOf() { set_cuda_context(context); }
  ~ContextOf() {
    set_cuda_context(nullptr);
    gst_object_unref(context);
  }
};

// Makes two batches while the `nth` call from the start fails. Returns the call that failed, or an
// empty string if there were fewer calls.
std::string run_with(Case& c, const Row& row, const std::vector<std::string>& want, int nth,
                     Error error, Then then) {
  const emulation::Live before = emulation::live();
  std::string failed;
  {
    const ContextOf context;
    Batches b(row, "max-wait=4294967295", kDimensions);
    std::vector<BufferPtr> frames;
    for (guint i = 0; i < 2; i++) {
      b.add(i, kKinds[i]);
      frames.push_back(make_frame(row.cuda_caps, b.info(i), i));
    }
    emulation::inject("*", nth, error, then);
    b.play();
    std::string text;
    for (int k = 0; k < 2 && text.empty(); k++) {
      for (guint i = 0; i < 2; i++) b.push(i, gst_buffer_ref(frames[i].get()));
      BufferPtr batch;
      for (int tries = 0; tries < 3000 && !batch && text.empty(); tries++) {
        batch = b.pull(20 * GST_MSECOND);
        if (!batch) text = b.error();
      }
      if (failed.empty()) failed = emulation::forgive();
      const std::string where = "call " + std::to_string(nth) + " (" + failed + ")";
      if (!batch) {
        c.check(!text.empty(), "%s: no batch and no error", where.c_str());
        break;
      }
      // A batch in a context that is lost cannot be read.
      if (row.cuda_caps && then == Then::context_lost && !failed.empty()) continue;
      for (guint i = 0; i < 2; i++) {
        const auto* meta = gst_buffer_get_cuda_letterbox_batch_meta(batch.get());
        if (!meta->rows[i].frame) continue;
        c.check(row_of(batch.get(), i) == want[meta->rows[i].stream], "%s: row %u is wrong",
                where.c_str(), i);
      }
    }
    if (failed.empty()) failed = emulation::forgive();
  }
  const emulation::Live now = emulation::live();
  c.check(now.contexts == before.contexts && now.streams == before.streams &&
              now.events == before.events && now.device_blocks == before.device_blocks &&
              now.pinned_blocks == before.pinned_blocks,
          "call %d (%s): left behind %d contexts, %d streams, %d events, %d and %d blocks", nth,
          failed.c_str(), now.contexts - before.contexts, now.streams - before.streams,
          now.events - before.events, now.device_blocks - before.device_blocks,
          now.pinned_blocks - before.pinned_blocks);
  return failed;
}

void fail_each(Case& c, const Row& row, Error error, Then then) {
  if (!usable(c, row)) return;
  std::vector<std::string> want;
  {
    Batches b(row, "", kDimensions);
    for (guint i = 0; i < 2; i++) {
      b.add(i, kKinds[i]);
      const BufferPtr frame = make_frame(row.cuda_caps, b.info(i), i);
      want.push_back(letterboxed(c, row, b.info(i), frame.get(), "", "12:12:3:1", "float32"));
    }
  }
  int nth = 1;
  while (c.ok() && !run_with(c, row, want, nth, error, then).empty()) nth++;
  c.check(nth > 10, "only %d calls were made to fail", nth - 1);
}

}  // namespace

void batch_fault_cases(Suite& s) {
  const std::tuple<const char*, Error, Then> faults[] = {
      {"no memory", Error::out_of_memory, Then::once},
      {"a kernel that faults", Error::illegal_address, Then::context_lost},
  };
  // On the CPU backend, GStreamer copies CUDA memory, and does not report all faults.
  for (const Row& row : kRows)
    if (row.library_backend() == Backend::cuda)
      for (const auto& [name, error, then] : faults)
        s.run(std::string("cudaletterboxbatch/faults/") + row.name + "/" + name,
              [&, error = error, then = then](Case& c) { fail_each(c, row, error, then); });
}

#else

// Only the emulated device can fail.
void batch_fault_cases(Suite&) {}

#endif

}  // namespace vf::test
