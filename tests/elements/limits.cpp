// Caps as large as GStreamer lets them be, and frames of more than 2 GiB: an error that says what
// is wrong, or a right frame, and never a size that was cut to fit an int.
#include <sys/mman.h>

#include <cstring>

#include "tests/elements/harness.h"

namespace vf::test {
namespace {

constexpr int kMax = G_MAXINT, kLimit = kMaxDimension;

void hostile_sizes(Case& c, const Element& e) {
  const struct {
    int width, height;
  } sizes[] = {{kMax, 1},        {1, kMax},       {kMax, kMax},    {kMax, 2},
               {kLimit, kLimit}, {kLimit + 1, 1}, {1, kLimit + 1}, {kLimit, 1},
               {1, kLimit},      {32768, 32768},  {46341, 46341},  {65535, 16384},
               {65536, 65536},   {kLimit, 1023},  {1 << 24, 64},   {kMax - 127, 1}};
  for (const char* format : {"RGBA", "ARGB64", "A420"})
    for (const auto& size : sizes) {
      Bench b(e, kRows[0]);
      if (!e.make) gst_harness_set_sink_caps_str(b.harness(), "video/x-raw,width=16,height=16");
      if (!strcmp(e.name, "cudaguidedmatte"))
        gst_harness_set_sink_caps_str(b.harness(), "video/x-raw");
      GstCaps* caps = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, format, "width",
                                          G_TYPE_INT, size.width, "height", G_TYPE_INT, size.height,
                                          "framerate", GST_TYPE_FRACTION, 25, 1, nullptr);
      gst_harness_set_src_caps(b.harness(), caps);
      // 64 bytes are no frame of any of these.
      GstBuffer* in = gst_buffer_new_allocate(nullptr, 64, nullptr);
      gst_buffer_memset(in, 0, 0, 64);
      const BufferPtr out = b.push(in);
      c.check(!out && b.flow() != GST_FLOW_OK, "%s %dx%d: a frame of 64 bytes came out as flow %s",
              format, size.width, size.height, gst_flow_get_name(b.flow()));
      c.check(b.flow() == GST_FLOW_NOT_NEGOTIATED || !b.message(GST_MESSAGE_ERROR).empty(),
              "%s %dx%d: flow %s, and no error message", format, size.width, size.height,
              gst_flow_get_name(b.flow()));
    }
}

// Tensors of more bytes than GStreamer's pools count in.
void hostile_tensors(Case& c) {
  for (const char* dimensions : {"1048576:1048576:3:1", "32768:32768:3:1", "3:32768:32768:1",
                                 "1048576:1024:3:1", "1048577:1:3:1", "99999999999999999999:1:3:1",
                                 "-1:4:3:1", "4:4:3:1:1:1:2", "0:4:3:1", "", ":", "4:4:3:1x"}) {
    Bench b(letterbox_element, kRows[0]);
    gst_harness_set_sink_caps(
        b.harness(), gst_caps_new_simple("other/tensors", "format", G_TYPE_STRING, "static",
                                         "num_tensors", G_TYPE_INT, 1, "types", G_TYPE_STRING,
                                         "float32", "dimensions", G_TYPE_STRING, dimensions,
                                         "framerate", GST_TYPE_FRACTION, 25, 1, nullptr));
    const GstVideoInfo info = video_info("RGB", 8, 8);
    b.caps(info);
    const BufferPtr out = b.push(make_frame(false, info, 1));
    c.check(!out && b.flow() != GST_FLOW_OK, "dimensions=%s: flow %s", dimensions,
            gst_flow_get_name(b.flow()));
  }
}

// Memory that is only there where it is written or read.
class Sparse {
 public:
  explicit Sparse(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<guint8*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~Sparse() {
    if (ok()) munmap(data_, bytes_);
  }
  bool ok() const { return data_ != MAP_FAILED; }
  guint8* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_;
  guint8* data_;
};

// A frame of more than 2 GiB, whose bottom right corner is bright.
void large_frame(Case& c) {
  constexpr int width = 65536, height = 40000, block = 2048, bright = 200;
  const Sparse memory(size_t(width) * height);
  if (!memory.ok()) return c.skip("no address space of %zu bytes", memory.size());
  for (int y = height - block; y < height; y++)
    std::memset(memory.data() + size_t(y) * width + width - block, bright, block);
  for (const char* interpolation : {"nearest", "bilinear"}) {
    Bench b(letterbox_element, kRows[0]);
    gst_util_set_object_arg(G_OBJECT(b.element()), "interpolation", interpolation);
    const GstVideoInfo out_info = video_info("GRAY8", 64, 40),
                       info = video_info("GRAY8", width, height);
    gst_harness_set_sink_caps(b.harness(), gst_video_info_to_caps(&out_info));
    b.caps(info);
    const BufferPtr out =
        b.push(gst_buffer_new_wrapped_full(GST_MEMORY_FLAG_READONLY, memory.data(), memory.size(),
                                           0, memory.size(), nullptr, nullptr));
    c.check(out != nullptr, "flow %s: %s", gst_flow_get_name(b.flow()),
            b.message(GST_MESSAGE_ERROR).c_str());
    if (!c.ok()) return;
    GstVideoFrame frame;
    gst_video_frame_map(&frame, &out_info, out.get(), GST_MAP_READ);
    // The picture has 64 x 39 pixels, one row of padding below.
    const int corner = get_component(frame, 0, 63, 38), beside = get_component(frame, 0, 60, 38),
              above = get_component(frame, 0, 63, 35);
    gst_video_frame_unmap(&frame);
    c.check(corner == bright && beside == 0 && above == 0,
            "%s: the corner is %d, beside it %d, above it %d", interpolation, corner, beside,
            above);
  }
}

}  // namespace

void limit_cases(Suite& s, const Element& element) {
  const std::string at = std::string(element.name) + "/limits/";
  s.run(at + "caps as large as they can be", [&](Case& c) { hostile_sizes(c, element); });
  if (&element != &letterbox_element) return;
  s.run(at + "tensors as large as they can be", hostile_tensors);
  s.run(at + "a frame of more than 2 GiB", large_frame);
}

}  // namespace vf::test
