// Tests caps of the largest sizes that GStreamer allows. The result is an error that says what is
// wrong, and never a size that was truncated to an int. No memory is used before a frame comes.
#include <sys/resource.h>

#include "tests/elements/harness.h"
#include "tests/process.h"

namespace vf::test {
namespace {

constexpr int kMax = G_MAXINT, kLimit = kMaxDimension;

// Limits the memory that this process may ask for, so that an element that writes to memory for
// frames of gigabytes fails the test and not the machine.
class MemoryLimit {
 public:
  MemoryLimit() {
    getrlimit(RLIMIT_AS, &previous_);
    const struct rlimit limit = {rlim_t(process_status("VmSize:") + (6 << 20)) << 10,
                                 previous_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &previous_); }

 private:
  struct rlimit previous_ = {};
};

void hostile_sizes(Case& c, const Element& e) {
  const struct {
    int width, height;
  } sizes[] = {{kMax, 1},        {1, kMax},       {kMax, kMax},    {kMax, 2},
               {kLimit, kLimit}, {kLimit + 1, 1}, {1, kLimit + 1}, {kLimit, 1},
               {1, kLimit},      {32768, 32768},  {46341, 46341},  {65535, 16384},
               {65536, 65536},   {kLimit, 1023},  {1 << 24, 64},   {kMax - 127, 1}};
  const MemoryLimit limit;
  // Meson's MALLOC_PERTURB_ makes malloc() write to each thread's scratch memory.
  const long most_kib = (256 + 64 * long(g_get_num_processors())) << 10;
  const long before = process_status("VmHWM:");
  for (const char* format : {"RGBA", "ARGB64", "A420"})
    for (const auto& size : sizes) {
      Bench b(e, kRows[0]);
      if (e.out_caps) gst_harness_set_sink_caps_str(b.harness(), e.out_caps);
      GstCaps* caps = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, format, "width",
                                          G_TYPE_INT, size.width, "height", G_TYPE_INT, size.height,
                                          "framerate", GST_TYPE_FRACTION, 25, 1, nullptr);
      gst_harness_set_src_caps(b.harness(), caps);
      // The buffer of 64 bytes is too small for every one of these formats.
      GstBuffer* in = gst_buffer_new_allocate(nullptr, 64, nullptr);
      gst_buffer_memset(in, 0, 0, 64);
      const BufferPtr out = b.push(in);
      c.check(!out && b.flow() != GST_FLOW_OK, "%s %dx%d: a frame of 64 bytes came out as flow %s",
              format, size.width, size.height, gst_flow_get_name(b.flow()));
      c.check(b.flow() == GST_FLOW_NOT_NEGOTIATED || !b.message(GST_MESSAGE_ERROR).empty(),
              "%s %dx%d: flow %s, and no error message", format, size.width, size.height,
              gst_flow_get_name(b.flow()));
      const long used = process_status("VmHWM:") - before;
      c.check(used < most_kib, "%s %dx%d: %ld MiB of memory are used without a frame", format,
              size.width, size.height, used >> 10);
      if (used >= most_kib) return;
    }
}

}  // namespace

void limit_cases(Suite& s, const Element& e) {
  s.run(std::string(e.name) + "/limits/caps as large as they can be",
        [&](Case& c) { hostile_sizes(c, e); });
}

}  // namespace vf::test
